// Compares the energy that each island gains with the work of its sources, over all its steps (T15). A step is accepted
// by bounds of its own (step_acceptance.h). Gains below these bounds may still add up. What they add up to is named,
// and the next steps are divided.
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
/// Returns the length of the longest part of a step [s]. It is less than the step where energy has grown.
double longest_part(const Context& c, const Island& b);
/// Ends the account of an island with its accepted step. Counts and stores a gain.
void account_energy(Context& c, Island& b);
/// Counts and stores a gain of energy.
void note_energy_gain(Context& c, const EnergyGain& gain);

}  // namespace linchpin::host
