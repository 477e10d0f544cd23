// The energy of a step in which rows of the host act on an island. The work of rows and constraints is bounded by what
// the rows were solved to do; what exceeds it is damped out of the end velocities (T15).
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Returns whether the energy of the step is bounded so.
bool bounds_energy(const Context& c, const Island& b);
/// Returns the energy that an island may gain in a step without a source [J].
double energy_allowance(const Context& c, const Island& b);
/// Returns the energy that limits and locks may give an island in a step [J].
double limit_budget(const Context& c, const Island& b);
/// Returns the work that all passive rows of an island were solved to do, as far as it has a source [J].
double passive_work(const Context& c, const Island& b);

void reset_energy(Island& b);
/// Adds the energy that constraints and rows gave in a step or substep. Damps its end velocities v by the excess over
/// the source and `allowed` [J].
/// @param at  poses at which it began
void damp_excess_energy(const Context& c, Island& b, double constraints, double rows, double allowed, const State& at,
                        std::span<double> v);
/// Returns whether a substep would gain so much energy without a source that rows are left out of it [J].
bool gains_far_too_much(const Island& b, double gain, double kinetic, double allowed);
void count_damping(Island& b);

}  // namespace linchpin::host
