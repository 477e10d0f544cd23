// What native rows are, by what they may do.
#pragma once

#include "energy_watch.h"
#include "engine.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// Of a joint's row, whether it holds an angle both ways: the twist of a cone-twist joint without a motor that is to be
/// none. Other rows without bounds are motors.
inline bool is_lock(const btSolverConstraint& row, const Engine& engine) {
  constexpr btScalar no_limit = btScalar(1e9);
  if (row.m_lowerLimit > -no_limit || row.m_upperLimit < no_limit) return false;
  const auto known = engine.record_of_.find(static_cast<btTypedConstraint*>(row.m_originalContactPoint));
  if (known == engine.record_of_.end()) return false;
  const Record& r = engine.records_[z(known->second)];
  return r.kind == JointKind::cone_twist && r.joint && !static_cast<btConeTwistConstraint*>(r.joint)->isMotorEnabled();
}

/// What limits and locks may give a mechanism in a step, of its kinetic energy: less than constraints, since what those
/// give in one step they take in the next.
inline constexpr double given_by_limits = 0.2 * allowed_gain;

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
