// Where `equilibrium` and `sweep --equilibrium` look for places of rest.
#pragma once

#include <linchpin/scene/analysis.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace linchpin::cli {

/// The search is dense: O(n³) for each of many steps.
inline constexpr int most_velocities = 600;

/// As far around the start as its bodies are apart, in the frame of the driven bodies where they have one.
inline EquilibriumSearch search_around(const State& start, const std::optional<std::pair<Vector3d, Vector3d>>& turning,
                                       int starts) {
  EquilibriumSearch search;
  search.starts = starts;
  double length = 0;
  for (const BodyState& body : start.bodies) length = std::max(length, (body.p - start.bodies.back().p).norm());
  search.spread = std::max(1.0, length);
  if (turning) search.omega = turning->first, search.centre = turning->second;
  return search;
}

inline const char* to_string(Equilibrium::Stability s) {
  switch (s) {
    case Equilibrium::Stability::stable:
      return "stable";
    case Equilibrium::Stability::unstable:
      return "unstable";
    default:
      return "marginal";
  }
}

}  // namespace linchpin::cli
