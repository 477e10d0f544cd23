// Takes the step of constraints on links in substeps (T15). Private to the core.
#pragma once

#include "articulated/tree_balance.h"
#include "articulated/tree_island.h"
#include "host/context.h"

#include <span>

namespace linchpin::articulated {

/// Takes the step of the problem in substeps. Each ends on the constraints. Forces on the links and joints stay the
/// same, and the host's rows act as mean forces along the coordinates. On success x.v has the velocities at the end,
/// x.multipliers the impulses of the rows, and the host gets the configurations from which it ends at the end of the
/// substeps. Sums of the substeps are in `sums`.
/// @param rounding  residual at which Newton ends [m, rad]
/// @return whether every substep ends on the constraints. If not, the problem is that of the start of the step again,
/// and x.v and x.multipliers are not defined.
bool take_tree_substeps(const TreeContext& context, TreeBalance& balance, host::SubstepStates& states, double rounding);

/// Measures a step.
/// @param h  length [s] of the step from the present states to the velocities x.v @param multipliers  impulses [rows]
TreeEnergyGain energy_gain(TreeIsland& t, double h, std::span<const double> multipliers);
/// Returns the gain that a step may have at least [J]: that of a motion from rest, and a part of the kinetic energy.
double allowed_energy(const host::Context& c, TreeIsland& t, const Vector3d& gravity);
/// Returns whether a step with a gain was too long (T15).
bool is_too_much(double gain, double allowed, double end_energy);

/// Returns why the step of the problem is not divided; null: it may be.
const char* why_no_substeps(const TreeIsland& t);

}  // namespace linchpin::articulated
