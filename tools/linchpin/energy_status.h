// The status of a run of the bare host by the energy that its motion gained without a source.
#pragma once

#include <linchpin/stepper.h>

#include <string>

namespace linchpin::cli {

/// Returns "ok", or what has gained energy first, by how much, and how often energy was gained.
std::string energy_status(const System& system, const Stepper& stepper);

}  // namespace linchpin::cli
