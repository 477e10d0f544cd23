// Nonlinear least squares with bounds. Hides the Gauss-Newton steps with damping, and the noise levels of columns that
// are estimated beside the parameters. Knows nothing of scenes.
//
// With known noise levels the sum of squares (measured − predicted)²/σ² is minimal. Levels that are not known are those
// of the largest likelihood, so columns of any units go together.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

/// How exact derivatives of predictions must be.
enum class Derivatives {
  none,     ///< not asked for
  quick,    ///< enough for the direction of a step, about six digits
  accurate  ///< for standard errors and to decide what the measurements determine, about nine digits
};

/// Values for all measurements, and their derivatives.
struct Prediction {
  std::vector<double> values;    ///< [measurements]
  std::vector<double> jacobian;  ///< [measurements × parameters], row by row; empty if not asked for
};

/// There is no prediction for these values of the parameters.
struct NoPrediction : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Predicts measurements from values of the parameters. @throws NoPrediction
using Predictor = std::function<Prediction(std::span<const double> parameters, Derivatives)>;

/// A parameter that is estimated.
struct FreeParameter {
  std::string name;  ///< in messages and results
  double start = 0;  ///< value at which the search begins
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();  ///< bounds

  /// A size for steps of differences, and to decide what no effect is: that of the start or of the bounds, or 1.
  double typical() const;
};

/// Measurements of one kind, with one noise level.
struct NoiseColumn {
  std::string name;             ///< in messages and results
  std::optional<double> sigma;  ///< standard deviation of its noise, if it is known
};

/// What is compared with predictions.
struct MeasuredValues {
  std::vector<double> values;        ///< [measurements]
  std::vector<std::size_t> column;   ///< [measurements] number of its column
  std::vector<NoiseColumn> columns;  ///< by number
};

/// Result of one column.
struct ColumnFit {
  std::size_t count = 0;  ///< number of measurements
  double rms = 0;         ///< of the residuals
  /// Noise level: as given, or estimated from the residuals and corrected for the number of parameters.
  double sigma = 0;
  bool sigma_given = false;       ///< noise level was given
  bool is_far = false;            ///< The residuals are more than half as large as the variation of the measurements.
  bool affected = true;           ///< Some parameter has an effect on it.
  double autocorrelation = 0;     ///< of successive residuals
  bool residuals_follow = false;  ///< These are more alike than independent noise is, at the level of 1 %.
};

/// Values of the parameters that are at their bounds.
enum class AtBound { no, low, high };

/// The estimate.
struct LeastSquaresFit {
  std::vector<double> parameters;  ///< by parameter
  std::vector<AtBound> bounds;     ///< by parameter: it would go on beyond this bound
  std::vector<double> predicted;   ///< [measurements]
  /// Derivatives of predicted/σ of its column, for measurements of columns that are affected. [rows × parameters]
  std::vector<double> weighted_jacobian;
  std::vector<ColumnFit> columns;  ///< by column
  /// Measurements of affected columns without a known noise level, minus parameters; infinity without such columns.
  double freedoms = std::numeric_limits<double>::infinity();
  bool converged = false;        ///< A minimum was found.
  std::string reason;            ///< why not
  int iterations = 0;            ///< steps that were taken
  int predictions = 0;           ///< calls of the predictor
  double log_likelihood = 0;     ///< of all measurements
  std::size_t estimates = 0;     ///< parameters and noise levels that were estimated
  std::size_t measurements = 0;  ///< number of all

  double aic() const;   ///< Akaike's information criterion
  double aicc() const;  ///< the same, corrected for few measurements; infinity where there are too few
};

/// Estimates the parameters.
/// @throws NoPrediction at the start, std::invalid_argument if there are fewer measurements than parameters
LeastSquaresFit least_squares(const Predictor& predict, const MeasuredValues& measured,
                              const std::vector<FreeParameter>& parameters);

}  // namespace linchpin::cli
