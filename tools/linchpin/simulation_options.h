// The options `compare` and `run` share: which scene, which precision, how long, in what steps.
#pragma once

#include "scene_file.h"

#include <array>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace linchpin::cli {

/// What was asked for, checked.
struct Simulation {
  std::string scene;
  double dt = 0;  ///< [s]
  long steps = 0;
  long warmup_steps = 0;                         ///< first steps left out of the statistics
  std::optional<std::array<double, 3>> gravity;  ///< [m/s²]
  std::optional<scene::RobotsAs> robots;         ///< else as the scene says
};

/// The words of the command line; numbers are read by check(), which can say what was expected.
struct SimulationOptions {
  std::string scene, dt, duration, warmup_steps = "0", gravity, as;
  void add_to(CLI::App& verb, bool with_warmup);
  /// The scene, read; nothing after saying on stderr what is wrong with it. @throws std::invalid_argument as check().
  std::optional<Opened> open(MjcfHosts hosts = {}) const;
  /// @throws std::invalid_argument naming the option, the value and the allowed range.
  Simulation check(const Opened& opened) const;
  /// The same for a model that has been read.
  Simulation check(const scene::Model& model) const;

 private:
  std::optional<scene::RobotsAs> robots() const;
};

}  // namespace linchpin::cli
