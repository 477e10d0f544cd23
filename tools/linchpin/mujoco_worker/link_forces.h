// The forces of equalities and joints in the last step, in one way for all solvers: linchpin's reactions, or those of
// MuJoCo's own rows.
#pragma once

#include "model.h"

#include <linchpin/mujoco.h>
#include <linchpin/recording.h>

#include <cstddef>
#include <span>

namespace linchpin::mujoco_worker {

inline Wrench opposite(const Wrench& w) { return {-w.force, -w.moment, w.point}; }

class LinkForces {
 public:
  /// @param solver  null: MuJoCo alone solves
  LinkForces(Model& model, mujoco::Solver* solver) : model_(model), solver_(solver), exact_(solver != nullptr) {}

  /// Call it after a step.
  void update();
  /// The wrench of a link on its first body. NaN where nobody knows it.
  Wrench on_first(std::size_t link) const;
  /// That of an equality or a joint by MuJoCo's own forces.
  Wrench by_mujoco(std::size_t link) const;
  /// As on_first(), on one of the bodies of the link, with its parts.
  recording::Recording::Force of(std::size_t link, std::size_t on) const;

 private:
  const Reaction* reaction(std::size_t link) const;

  Model& model_;
  mujoco::Solver* solver_;
  const bool exact_;
  std::span<const Reaction> reactions_;
};

}  // namespace linchpin::mujoco_worker
