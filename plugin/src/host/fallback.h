// Leaves an island to the host's own solver for a step.
#pragma once

#include "host/context.h"

#include <string>

namespace linchpin::host {

/// Not while other islands are being solved. @param why  names what could not be solved, and why
void leave_to_host(Context& c, Island& b, std::string why);
/// Gives bodies whose states are not finite after the host's step the states that they had: the host has no such check.
void keep_finite(Context& c, const Island& b);

}  // namespace linchpin::host
