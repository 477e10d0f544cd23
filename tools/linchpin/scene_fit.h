// Parameters of a scene from measurements: the scene runs on the host bare, and its channels are compared with
// recordings.
#pragma once

#include "identifiability.h"
#include "least_squares.h"
#include "measurements.h"
#include "simulation_options.h"

#include <linchpin/scene.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::cli {

/// A number of [params] that is estimated.
struct FreeName {
  std::string name;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();  ///< bounds
  bool of_each_recording = false;  ///< Every recording has its own value.
};

/// One recording, and what is known of it.
struct MeasuredRecording {
  MeasuredFile measured;
  std::map<std::string, double> known;  ///< values of parameters in this recording
};

/// Standard deviation of the noise of one column, as a text: "0.5" in the unit of the column, or "0.5 mm".
using NoiseLevels = std::map<std::string, std::string>;

/// Names of options in messages.
struct FitWords {
  std::string free = "--free", values = "--set", columns = "--column", sigma = "--sigma", duration = "--duration";
};

/// How the scene runs.
struct SceneFitOptions {
  std::string scene;  ///< name of the scene's text in messages; includes are relative to it
  /// Steps and gravity of a model. @throws std::invalid_argument
  std::function<Simulation(const scene::Model&)> simulation;
  scene::BulletImporter import;                                     ///< reads included .bullet files
  std::function<scene::MjcfScene(const std::string&)> import_mjcf;  ///< reads MJCF files
  /// Values of parameters in place of those of the scene. Names that the scene has not are left out.
  std::map<std::string, double> values;
  std::vector<FreeName> free;  ///< what is estimated
  NoiseLevels sigma;           ///< by column
  FitWords words = {};         ///< in messages
  int threads = 1;             ///< that run the scene at the same time
};

/// A quantity that is measured and predicted.
struct FittedColumn {
  std::string name, unit;  ///< title and unit of the first recording that has it
};

/// Samples of one column in one recording. A sample outside of the run is left out.
struct FittedSeries {
  std::size_t recording = 0, column = 0;  ///< numbers
  std::vector<double> t, measured;        ///< [s], unit of the column
  std::size_t first = 0;                  ///< number of its first sample among all measurements
};

/// What was estimated, and from what.
struct SceneFitResult {
  std::string scene;                      ///< name of the scene
  std::vector<FreeParameter> parameters;  ///< names; with that of the recording if it has its own value
  std::vector<FittedColumn> columns;      ///< by number
  std::vector<std::string> recordings;    ///< names of the files
  std::vector<FittedSeries> series;       ///< by number of the samples
  LeastSquaresFit fit;                    ///< the numbers
  Identifiability identifiability;        ///< what they mean
  std::vector<std::string> remarks;       ///< sentences about the data and the fit
};

/// A scene that is fitted to recordings.
class SceneFit {
 public:
  /// Reads the scene, and finds the channel of each column.
  /// @param look  is called with the model that has been read
  /// @throws SceneError for a fault of the scene or of the recordings @throws std::invalid_argument for options
  SceneFit(SceneFitOptions options, std::string text, std::vector<MeasuredRecording> recordings,
           const std::function<void(const scene::Model&)>& look = {});
  ~SceneFit();
  SceneFit(SceneFit&&) noexcept;

  /// Returns whether a name of SceneFitOptions::values is a number of [params] of the scene.
  bool has(const std::string& name) const;
  const std::vector<std::string>& files() const;  ///< all files of the scene, itself first
  /// Estimates the parameters. @throws NoPrediction if the scene does not run with the values of the start
  SceneFitResult run() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads one recording with the columns that were asked for.
/// @param columns  names or titles; empty: all but those of `run --csv` that are no measurements
/// @param seen  receives the names of all columns
/// @throws SceneError
MeasuredFile read_recording(const std::string& file, std::string bytes, const std::vector<std::string>& columns,
                            std::vector<std::string>& seen);

/// Checks that each column that was asked for is in some recording. @throws SceneError
void demand_columns(const std::vector<std::string>& columns, const std::vector<MeasuredRecording>& recordings,
                    const std::vector<std::string>& seen);

/// The comparison of fits of several scenes to the same measurements.
struct ModelComparison {
  bool corrected = true;        ///< by AICc; by AIC if there are too few measurements for it
  std::vector<double> excess;   ///< by fit: its criterion minus the smallest one
  std::vector<double> weights;  ///< Akaike weights
  std::size_t best = 0;         ///< number of the best fit
  std::string verdict;          ///< a sentence
};

/// @param fits  at least one
ModelComparison compare_models(const std::vector<SceneFitResult>& fits);

}  // namespace linchpin::cli
