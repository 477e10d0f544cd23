// What the solvers of islands share about a step that is taken as a whole.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Starts Newton of the step from an extrapolation of the last steps. @return whether there is one
bool predict_newton(const Context& c, Island& b);
/// Whether host rows start from the mean velocities of a step in substeps, as the last step was too long for one.
bool starts_in_substeps(const Context& c, const Island& b);
/// Of a step that is likely to be taken in substeps: the time over which the initial acceleration of its rows is
/// extrapolated to the mean of their velocities [s]. Where a body turns it is cut off at about two radians.
double extrapolation_time(const Context& c, const Island& b);
/// A step is found too long after the host's rows have been solved for velocities that it does not have.
/// @return whether the rows are to be solved once more
bool ask_for_rows_again(const Context& c, Island& b);
/// Sets base and end of the bodies from the end velocities, where a fast step has not needed them.
void set_poses(Context& c, Island& b);
/// Ends a step that stands as a whole: accounts for its energy, and sets the pose from which the host integrates.
/// @param constraints, rows  energy that they gave in it [J]
void end_whole_step(Context& c, Island& b, double constraints, double rows);

}  // namespace linchpin::host
