// Whether a constraint that depends on time changes its rate suddenly within a step, as a displacement that begins. The
// rate at the start of the step then does not tell the work of the constraint. Private to the core.
#pragma once

#include <linchpin/constraint.h>

#include <span>
#include <vector>

namespace linchpin::detail {

/// Calls the residual of the constraint, which may throw.
/// @param at  its bodies, where the step began  @param t  that time [s]  @param dt  length of the step [s]
bool rate_jumps(const Constraint& constraint, std::span<const BodyState> at, double t, double dt);
/// The same of a body that moves as the user says. @param start, end  of the step
bool motion_jumps(const BodyState& start, const BodyState& end);

}  // namespace linchpin::detail
