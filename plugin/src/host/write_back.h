// Writes the step of an island to the host: velocities and start poses of its bodies, impulses of its joints, and
// counts.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Ends the step of an island that was solved, or was left to the host.
void write_island(Context& c, Island& b);
/// Notes what the laws of an island warn of in the step.
void note_law_warnings(Context& c, Island& b);
/// Counts what closing the gap at the start of the step has moved.
void count_start_gap(Context& c, const Island& b);
/// Counts the solves of laws, and the friction elements that stick or slide other than after the last step. Chatter
/// shows in the latter.
void note_friction_modes(Context& c, Island& b);
/// Sets the end velocities of bodies, after the host has integrated the mean velocity of a step by stages.
void write_end_velocities(Context& c, Island& b);
/// Stops all bodies of an island where the host has stopped one of them. A host may stop a fast body at a collision in
/// mid-step, but not the rest of its mechanism. The gaps at those poses are closed by moving.
/// @param states  memory
void clip_to_swept_bodies(Context& c, Island& b, SubstepStates& states);

}  // namespace linchpin::host
