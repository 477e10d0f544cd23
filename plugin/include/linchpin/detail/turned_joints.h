// Joints that are still on their way from where they were turned far (close_gaps with a bound). Not for direct use.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

namespace linchpin::detail {

/// Holds each joint of the block that is turned far as it is turned at `state`, in place of where it is to be.
/// The next evaluation is the first that does so. Allocates nothing.
/// @return false where a constraint of the block is no stock joint: then nothing is changed
bool hold_as_turned(Dynamics& dynamics, const State& state);
/// Ends what hold_as_turned() has begun.
void hold_as_made(const System& system, Dynamics& dynamics);

}  // namespace linchpin::detail
