// Writes the step of an island back: velocities and start poses of its bodies, what its joints did, and its counts.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Ends the step of an island that was solved, or was left to the host.
void write_island(Context& c, Island& b);
/// Notes what the laws of an island warn of in the step.
void note_law_warnings(Context& c, Island& b);
/// Counts what closing the gap at the start of the step has moved.
void count_start_gap(Context& c, const Island& b);
/// What laws took, and which friction elements stick or slide other than after the last step: chatter shows there.
void note_friction_modes(Context& c, Island& b);
/// After the host has integrated the mean velocity of a step by stages: gives bodies the velocities of its end.
void write_end_velocities(Context& c, Island& b);
/// A host may stop a body that is swept into something in mid-step, and nothing else of its mechanism. Stops all of the
/// island where that body stopped, and closes what is then open by moving.
/// @param states  memory
void clip_to_swept_bodies(Context& c, Island& b, SubstepStates& states);

}  // namespace linchpin::host
