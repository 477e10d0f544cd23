// Predicts measurements by runs of a scene on the host bare, and their derivatives with respect to parameters.
#pragma once

#include "least_squares.h"
#include "simulation_options.h"

#include <linchpin/scene.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace linchpin::cli {

/// One run of the scene, and what is sampled in it.
struct PredictedRun {
  /// One value among all measurements.
  struct Sample {
    std::size_t channel, index;  ///< number of its channel, and its own number
  };
  std::map<std::string, double> params;      ///< values of parameters in this run
  std::vector<double> times;                 ///< of samples, rising [s]
  std::vector<std::vector<Sample>> samples;  ///< by time
};

/// A number of [params] that the predictions depend on.
struct PredictedParameter {
  std::string name;                ///< in [params]
  std::optional<std::size_t> run;  ///< number of the run of which alone it is a parameter
};

/// What is run, and what is looked at. It must not change as long as a predictor uses it.
struct PredictedScene {
  std::string scene, text;  ///< name and text
  /// Steps and gravity of a model. @throws std::invalid_argument
  std::function<Simulation(const scene::Model&)> simulation;
  scene::BulletImporter import;                                     ///< reads included .bullet files
  std::function<scene::MjcfScene(const std::string&)> import_mjcf;  ///< reads MJCF files
  std::vector<std::string> channels;                                ///< expressions
  std::vector<double> factors;  ///< by channel: from its unit to that of the samples
  std::vector<PredictedRun> runs;
  std::vector<PredictedParameter> parameters;
  std::vector<FreeParameter> free;  ///< by parameter: bounds and sizes
  std::size_t measurements = 0;     ///< number of all samples
  int threads = 1;                  ///< that run the scene at the same time

  /// What a reading of the scene has in place of the file's own values in one run.
  scene::Overrides overrides(std::size_t run) const;
  /// Reads the scene. @throws SceneError @throws std::invalid_argument
  scene::Model load(const scene::Overrides& with) const { return scene::load_text(text, scene, import, with); }
};

/// A Predictor (least_squares.h) by runs of a scene.
class ScenePredictor {
 public:
  explicit ScenePredictor(const PredictedScene& of) : of_(of) {}
  /// @throws NoPrediction
  Prediction operator()(std::span<const double> parameters, Derivatives derivatives);

 private:
  struct Difference;
  void run(std::size_t number, std::span<const double> x, std::span<double> values) const;
  void difference(Difference& of, std::span<const double> x, Derivatives derivatives,
                  const std::vector<double>& middle) const;
  std::vector<double> jacobian(std::span<const double> x, Derivatives derivatives,
                               const std::vector<double>& values) const;
  const PredictedScene& of_;
  std::vector<double> place_, values_;  // of the last prediction
};

}  // namespace linchpin::cli
