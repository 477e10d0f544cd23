// Leaves an island to the host's own solver for a step.
#pragma once

#include "host/context.h"

#include <string_view>

namespace linchpin::host {

/// Not while other islands are being solved. The island's History::failure names what could not be solved, and why.
void leave_to_host(Context& c, Island& b);
/// Counts a step of an island in which no law acted, because one of them failed. @param why  names that law
void note_law_failure(Context& c, std::string_view why);
/// Gives bodies whose states are not finite after the host's step the states that they had: the host has no such check.
void keep_finite(Context& c, const Island& b);

}  // namespace linchpin::host
