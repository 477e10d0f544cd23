// Applies the impulses of the host's rows over the substeps of a step (T15). They were computed for one whole step. In
// substeps a light body may turn away from them, so that they would do positive work. Limits and contacts are passive:
// they are left out of a substep in which they would add energy, and their impulse is deferred to later ones.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Adds Jᵀ · impulse.
void add_impulse(const Island& b, const PassiveRow& row, double impulse, std::span<double> to);

void begin_row_substeps(const Context& c, Island& b);
/// Finds the host's part of the substep that begins `done` seconds after the step's start, from the state `now`.
void set_row_substep(const Context& c, Island& b, const State& now, double done, double length);
/// Releases passive rows that give more energy than their budget in a substep that ends with the velocities v.
/// @return whether there are such, and the substep is to be repeated
bool release_rows(Island& b, std::span<const double> v, bool first);
/// Drops passive rows from this substep and from all later ones.
/// @return whether there are any
bool drop_rows(Island& b);
/// Returns the work of all rows in a substep between the velocities v0 and v1 [J].
/// @param force_time  time over which forces act in it [s]
double row_work(const Island& b, double force_time, bool first, std::span<const double> v0, std::span<const double> v1);
void accept_row_substep(Island& b, double force_time);
/// Writes the impulses that rows really had in an accepted step to the host and its joints.
void end_row_substeps(Context& c, Island& b);

}  // namespace linchpin::host
