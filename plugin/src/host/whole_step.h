// Functions for a step that is taken as a whole, which both island solvers use.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Starts Newton of the step from an extrapolation of the last steps.
/// @return whether there is one
bool extrapolate_newton(const Context& c, Island& b);
/// Returns whether host rows start from the mean velocities of a step in substeps, because the last step was too long
/// for a whole one.
bool starts_in_substeps(const Context& c, const Island& b);
/// Returns the time over which the initial acceleration of rows is extrapolated to the mean of their velocities [s],
/// for a step that is likely to be taken in substeps. It is limited to a turn of about two radians of any body.
double extrapolation_time(const Context& c, const Island& b);
/// Requests another solve of the host's rows, if a step is too long and they were solved for a whole one.
/// @return whether the rows are to be solved once more
bool ask_for_rows_again(const Context& c, Island& b);
/// Sets base and end of the bodies from the end velocities, if the fast path has not needed them.
void set_poses(Context& c, Island& b);
/// Ends a step that is accepted as a whole: bounds its energy, and sets the pose from which the host integrates.
/// @param constraints, rows  energy that they gave in it [J]
void end_whole_step(Context& c, Island& b, double constraints, double rows);

}  // namespace linchpin::host
