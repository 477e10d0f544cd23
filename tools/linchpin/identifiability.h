// What measurements determine: standard errors of parameters, and the combinations of parameters that they leave open.
#pragma once

#include "least_squares.h"

#include <string>
#include <vector>

namespace linchpin::cli {

/// A product, quotient or sum of parameters that the measurements determine.
struct ParameterCombination {
  std::string text;                ///< "stiffness/mass"
  double value = 0;                ///< at the estimate
  double standard_error = 0;       ///< of the value
  std::vector<std::size_t> parts;  ///< numbers of the parameters in it
};

/// The estimate of one parameter.
struct ParameterEstimate {
  bool determined = true;  ///< If not, no number is its estimate.
  /// NaN for a parameter that is not determined or at a bound, and without freedoms.
  double standard_error = 0;
  double low = 0, high = 0;  ///< 95 % interval; NaN with the standard error
};

/// What a fit says about its parameters.
struct Identifiability {
  std::vector<ParameterEstimate> parameters;       ///< by parameter
  std::vector<ParameterCombination> combinations;  ///< that are determined where their parameters are not
  std::vector<std::string> sentences;              ///< one about each group of parameters that are not determined
  std::vector<double> correlation;                 ///< [p × p], NaN for what has no standard error
  std::size_t open_directions = 0;  ///< number of independent changes of the parameters that the data do not notice
  /// Smallest singular value of the Jacobian with columns of unit length, over the largest. 0: not determined.
  double smallest_singular_value = 1;

  bool all_determined() const;
};

/// Examines a fit.
Identifiability identifiability(const LeastSquaresFit& fit, const std::vector<FreeParameter>& parameters);

}  // namespace linchpin::cli
