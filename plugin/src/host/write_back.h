// Writes the step of an island to the host: velocities and start poses of its bodies, impulses of its joints, and
// counts.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Ends the step of an island that was solved, or was left to the host.
void write_island(Context& c, Island& b);
/// Sets the end velocities of bodies, after the host has integrated the mean velocity of a step by stages.
void write_end_velocities(Context& c, Island& b);
/// Stops all bodies of an island where the host has stopped one of them. A host may stop a fast body at a collision in
/// mid-step, but not the rest of its mechanism. The gaps at those poses are closed by moving.
/// @param states  memory
void clip_to_swept_bodies(Context& c, Island& b, SubstepStates& states);

}  // namespace linchpin::host
