// Reads the bodies of an island and the forces on them at the start of a step.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Begins the step of an island: reads its bodies and the forces on them.
/// @param among_rows  The host sets up rows for the island.
/// @return false with a reason in History::failure
bool read_island(Context& c, Island& b, bool among_rows);
/// Sizes the vectors that a fast step without host rows does not need, and reads the velocities.
void size_vectors(const Context& c, Island& b);
/// Makes the problem of an island with its laws. Called when a step first needs it.
void make_dynamics(const Context& c, Island& b);

/// Returns the length of the step before this one, for the applied forces. A velocity belongs to the middle of a step.
/// After a step of another length the applied forces therefore act from the middle of that step to the middle of this
/// one. Otherwise mechanisms that are often taken in substeps would lose energy. Among host rows it is dt, because the
/// rows were solved with the forces of the whole step.
double length_before(const Context& c, const Island& b);
/// Applies the forces over `time` more seconds.
void add_applied(const Context& c, Island& b, double time);

}  // namespace linchpin::host
