// What the sources of the friction problem share. Private to it.
#pragma once

#include "force_laws/friction_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

inline std::size_t z_(int i) { return static_cast<std::size_t>(i); }

inline double norm(const Six& x) {
  double sum = 0;
  for (const double xi : x) sum += xi * xi;
  return std::sqrt(sum);
}

/// Directions in which a contact cannot be moved at all (other constraints hold it) have a response below this part of
/// that of free bodies; near the cut for rank, squared (T6).
constexpr double immovable = 1e-10;

inline double largest(std::span<const double> x) {
  double most = 0;
  for (const double xi : x) {
    if (std::isnan(xi)) return xi;  // which std::max would pass over
    most = std::max(most, std::fabs(xi));
  }
  return most;
}

}  // namespace linchpin::detail
