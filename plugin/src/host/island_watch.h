// Compares each island with its rules, over all its steps (T15). The energy that it gains is compared with the work of
// its sources, and its velocities with the rows of its constraints. A step is accepted by bounds of its own
// (step_acceptance.h). Gains below these bounds may still add up. What they add up to is named, and the next steps are
// divided.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Returns the part of the work of the constraint impulses of the current step or substep that constraints which move
/// have done [J]. They depend on time, or a kinematic body takes part in them. x.force and x.newton contain the
/// impulses of Newton.
/// @param gain  gain_of_constraints() of the same velocities [J]
double explained_gain(const Context& c, Island& b, double h, double gain, std::span<const double> v0,
                      std::span<const double> v1);
/// Returns the power of constraints that move, at multipliers λ of the problem of the island [W].
double power_of_moving(const Context& c, Island& b, std::span<const double> lambda);
/// Returns the length of the longest part of a step [s]. It is less than the step where energy or a residual has grown.
double longest_part(const Context& c, const Island& b);
/// Ends the accounts of an island with its accepted step. Counts and stores what they find, and plans the parts of the
/// next steps.
void watch_step(Context& c, Island& b);
/// Counts and stores a velocity residual. @param entry  the constraint
void note_velocity_residual(Context& c, double t, const RowResidual& row, int entry);

}  // namespace linchpin::host
