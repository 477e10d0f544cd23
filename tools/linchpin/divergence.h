// The bound beyond which the numbers of a motion have no meaning, though they are finite. All hosts share it.
#pragma once

#include <string>

namespace linchpin::cli {

/// Largest distance from the origin [m] and largest speed [m/s].
inline constexpr double divergence_bound = 1e15;

inline std::string divergence_text(long step) {
  return "diverged at step " + std::to_string(step) + ": a body is beyond 1e15 m, or faster than 1e15 m/s";
}

}  // namespace linchpin::cli
