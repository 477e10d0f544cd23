// A scene as a system that depends on some of its [params], for derivatives with respect to them. Its quantities are
// outputs of a SensitivityStepper.
#pragma once

#include <linchpin/parametric_system.h>
#include <linchpin/scene.h>
#include <linchpin/scene/export.h>
#include <linchpin/sensitivity.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin::scene {

/// Evaluates the last `count` of Model::logs, which are scalars, at the start. A scene that is read with the names of
/// its [params] as Overrides::logs gives their values in this way.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<double> logs_at_start(const Model& model, std::size_t count);

/// Reads a scene with other values of some of its [params].
using ParametricReader = std::function<Model(const std::map<std::string, double, std::less<>>& params)>;

/// A scene with free parameters. It reads the scene once for each set of values, and keeps the models. Copies share
/// them. One thread at a time may use a ParametricScene with its copies, systems and output functions.
class LINCHPIN_SCENE_API ParametricScene {
 public:
  /// @param read    reads the scene, for instance with Overrides::params. Limits of joints become constraints.
  /// @param names   of the free parameters, each once
  /// @param values  one for each name
  /// @throws std::invalid_argument  for another number of values, or a name twice, and what `read` throws
  ParametricScene(ParametricReader read, std::vector<std::string> names, std::vector<double> values);

  /// The model for the given values. Valid as long as this object or a copy of it.
  const Model& model() const;
  /// The system that depends on the parameters. Its function throws std::invalid_argument for values that the scene
  /// refuses.
  ParametricSystem system() const;
  /// Number of values of all channels in `logs`.
  int output_count() const;
  /// Evaluates all channels of Model::logs, one after the other. The channels may read reactions if reads_forces().
  OutputFunction outputs() const;
  bool reads_forces() const;  ///< Returns whether a channel of Model::logs reads forces.

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace linchpin::scene
