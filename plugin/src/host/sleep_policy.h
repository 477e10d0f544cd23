// Sleeping of bodies under exact constraints. The host puts slow bodies to sleep; these rules wake those that it must
// not.
#pragma once

#include "host/island.h"

#include <vector>

namespace linchpin::host {

struct Context;

/// Where a body was when the host's sleep timer began.
struct RestPose {
  bool known = false;
  Vector3d p = Vector3d::Zero();
  Quaterniond q = Quaterniond::Identity();
};

/// Wakes the bodies of a constraint.
void wake(const Context& c, const ConstraintEntry& r);
/// Returns whether all bodies of an island that took part in the last step may fall asleep in the step that begins. Its
/// reactions are then those of its last active step, and must be read now: the host clears the forces on sleeping
/// bodies.
bool falls_asleep(const Context& c, const Island& b);
/// Wakes bodies that are joined to a kinematic body that moves. A host does not wake them, and the joint between them
/// would open. Call it before the host makes its islands, so that they contain all bodies joined to that body.
void wake_beside_kinematic(const Context& c);

class SleepPolicy {
 public:
  /// After a step: keeps bodies awake that must not fall asleep.
  /// @param timers_run   the host's sleep timer may run for some body
  void end_step(Context& c, bool timers_run);
  void forget() { rest_.clear(); }
  const std::vector<RestPose>& rest_poses() const { return rest_; }
  void set_rest_poses(std::vector<RestPose> poses) { rest_ = std::move(poses); }
  void forget(BodyId body);

 private:
  void restart_timers_of_moved(Context& c);

  std::vector<RestPose> rest_;  // by id of body; empty: no timer runs
};

}  // namespace linchpin::host
