// Applies the impulses of the host's rows over the substeps of a step (T15). They were computed for one whole step. In
// substeps a light body may turn away from under them, so that they would do positive work. Limits and contacts are
// passive: in a substep where they would add energy they are left out, and their impulse is deferred to later ones.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// to += Jᵀ · impulse
void add_impulse(const Island& b, const PassiveRow& row, double impulse, std::span<double> to);

void begin_row_substeps(const Context& c, Island& b);
/// Finds the host's share of the substep that begins `done` seconds after the step's start, from the state `now`.
void set_row_substep(const Context& c, Island& b, const State& now, double done, double length);
/// Of a substep that ends with the velocities v: leaves out passive rows that give more energy than their budget.
/// @return whether there are such, and the substep is to be taken again
bool release_rows(Island& b, std::span<const double> v, bool first);
/// Leaves passive rows out of this substep and of all later ones. @return whether there are any
bool drop_rows(Island& b);
/// Work of all rows in a substep between the velocities v0 and v1 [J]. @param weight  [s] that forces act in it
double row_work(const Island& b, double weight, bool first, std::span<const double> v0, std::span<const double> v1);
void accept_row_substep(Island& b, double weight);
/// The step stands: gives the host and its joints what the rows really did.
void end_row_substeps(Context& c, Island& b);

}  // namespace linchpin::host
