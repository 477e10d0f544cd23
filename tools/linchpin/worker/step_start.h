// The reactions of a step as of the state that it began with, for what a scene logs and expects. Forces are of that
// state by themselves; what linchpin tells of gaps and works is of the step's end.
#pragma once

#include "scene.h"

#include <linchpin/bullet.h>
#include <linchpin/dynamics.h>
#include <linchpin/scene/modes.h>

#include <span>
#include <string>
#include <vector>

namespace linchpin::worker {

class StepStart {
 public:
  /// @param solver  may be null: then there are no reactions
  StepStart(Scene& scene, bullet::Solver* solver);

  /// Call before a step. @param t  [s] now
  void before(double t);
  /// The state that before() saw.
  const State& state() const { return state_; }
  /// Call after it: the reactions with works and gaps as of state().
  std::span<const Reaction> reactions();
  /// Call after it too. @param end  of the step [s]
  void look_at_modes(double end);
  const scene::ModeRecord& modes() const { return modes_; }

 private:
  struct Before {
    std::string name;
    double work = 0, gap = 0, gap_angle = 0, residual = 0;
  };
  void measure_gaps();
  void look_at_start();  // unilateral constraints that are open there

  Scene& scene_;
  bullet::Solver* solver_;
  bool wanted_ = false;  // the scene asks for something of reactions
  bool begun_ = false;
  State state_;
  scene::ModeRecord modes_;
  std::vector<Before> before_;
  std::vector<Reaction> list_;
  Assembly assembly_;
  std::vector<std::size_t> place_;  // of its constraints, in before_
};

}  // namespace linchpin::worker
