// Keeps the sums over the substeps of a step, for its reactions and balances.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Copies time and bodies of an island from one state to another.
void copy_island(const Island& b, const State& from, State& to);
/// Begins a step in substeps: empty sums, the states where it begins, and the problem of its start for reports.
void begin_substeps(const Context& c, Island& b, SubstepStates& states);
/// Adds the wrenches that laws prescribe at a state, acting for `time`, to wrenches by constraint and body.
/// @param over  time over which the mean is taken [s]; 1: impulses
void add_prescribed(const Context& c, const Island& b, const State& at, double time, double over,
                    std::span<Vector6> wrenches);
/// Updates the largest impulses of one constraint on a body. Where rows nearly depend on each other, impulses of
/// substeps are large and cancel, so that their sum does not show their rounding.
void note_largest_impulse(Island& b, int slot, double force, double moment);

}  // namespace linchpin::host
