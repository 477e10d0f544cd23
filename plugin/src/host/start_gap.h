// Closes gaps at the start of a step by moving bodies, without a velocity (T12). Such a gap is an initial one, or the
// program has made it by moving bodies or joint frames.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Returns the largest |φ| at the start, of joints whose frames the program has moved since the last step, or of all
/// others.
double start_gap(const Context& c, const Island& b, bool frames_moved);
/// Finds the largest angle by which a joint of the island is turned from its required rotation [rad]. Only angles that
/// are too far for the dots to define the way back count. Stores the joint in the step.
double find_turned_away(const Context& c, Island& b);
/// Moves the bodies of `base` until the gap is closed. Far moves also set the start state, and the problem is evaluated
/// there.
/// @return false where it cannot be evaluated
bool close_start_gap(Context& c, Island& b);

}  // namespace linchpin::host
