// Joints that still are on their way back from a far rotation (project_positions with a bound). This header is not for
// direct use.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

namespace linchpin::detail {

/// Holds each joint of the block that is turned far at its rotation of `state`, instead of its required rotation. The
/// next evaluation is the first one with it. Does not allocate.
/// @return false where a constraint of the block is not a stock joint. Then nothing is changed.
bool hold_as_turned(Dynamics& dynamics, const State& state);
/// Ends hold_as_turned(): joints are again held at their required rotation.
void hold_as_made(const System& system, Dynamics& dynamics);

}  // namespace linchpin::detail
