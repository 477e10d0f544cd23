// Gaps at the start of a step: an initial gap, or one that the program has made by moving bodies or joint frames. They
// are closed by moving bodies, without a velocity (T12).
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// The largest |φ| at the start, of joints whose frames the program has moved since the last step, or of all others.
double start_gap(const Context& c, const Island& b, bool frames_moved);
/// The largest angle by which a joint of the island is turned from where it holds its bodies, where that is so far that
/// its dots do not show the way [rad]. Notes the joint in the step.
double find_turned_away(const Context& c, Island& b);
/// Moves the bodies of `base` until the gap is closed. Far moves also set the start state, and the problem is evaluated
/// there. @return false where it cannot be evaluated
bool close_start_gap(Context& c, Island& b);

}  // namespace linchpin::host
