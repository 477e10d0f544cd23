// Breaking of the host's joints, by the multipliers of least norm of all that their exact rows did in the step.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Breaks the joints of an island that were loaded beyond their thresholds.
void break_joints(Context& c, const Island& b);
/// @param impulses  multipliers of the joint's rows over the step
void break_if_overloaded(Context& c, int entry, std::span<const double> impulses);

}  // namespace linchpin::host
