// What logs and expectations of a scene read of a step: the state that it began with, and the reactions there.
#pragma once

#include "link_forces.h"
#include "scene.h"

#include <linchpin/scene/modes.h>

#include <span>
#include <vector>

namespace linchpin::mujoco_worker {

class Observed {
 public:
  /// @param solver  null: MuJoCo alone solves
  Observed(Scene& scene, mujoco::Solver* solver, LinkForces& forces)
      : scene_(scene), solver_(solver), forces_(forces) {}

  /// Call before a step and after Scene::look().
  void before();
  /// Call after it. @param end  of the step [s]
  void after(double end);
  const State& state() const { return state_; }
  /// As of state(): works and gaps, too.
  std::span<const Reaction> reactions() const { return reactions_; }
  const scene::ModeRecord& modes() const { return modes_; }
  scene::Observation at_start() const { return {scene_.mirror(), state_, reactions_, &modes_}; }

 private:
  void read_reactions();

  Scene& scene_;
  mujoco::Solver* solver_;
  LinkForces& forces_;
  State state_;
  bool begun_ = false;
  scene::ModeRecord modes_;
  std::vector<Reaction> reactions_, last_;
};

}  // namespace linchpin::mujoco_worker
