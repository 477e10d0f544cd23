// The status of a run by the energy that its motion gained without a source.
#pragma once

#include <linchpin/report.h>

#include <string>

namespace linchpin::cli {

/// Returns what has gained energy first, by how much, and how often energy was gained.
/// @param body  name of the body of `first`  @param count  of all gains, at least 1
inline std::string energy_status(const std::string& body, const EnergyGain& first, long count) {
  const long more = count - 1;
  return energy_gain_text(body, first) +
         (more == 0 ? "" : " (and " + std::to_string(more) + (more == 1 ? " more time)" : " more times)"));
}

}  // namespace linchpin::cli
