// A run in MuJoCo as a recording (linchpin/recording.h).
#pragma once

#include "link_forces.h"
#include "model.h"

#include <linchpin/recording.h>
#include <linchpin/scene.h>

#include <span>
#include <vector>

namespace linchpin::mujoco_worker {

class Recorder {
 public:
  /// @param scene  may be null
  Recorder(const recording::RecordingOptions& options, Model& model, const scene::Model* scene, double dt, long steps);
  /// Call before every step and at the end, after Model::look().
  void state();
  /// Call after the step.
  void forces(const LinkForces& forces, std::span<const double> logs);
  Json json() const;

 private:
  Model& model_;
  recording::Recording recording_;
  std::vector<BodyState> states_;
  std::vector<double> gaps_;
  std::vector<recording::Recording::Force> forces_;
};

}  // namespace linchpin::mujoco_worker
