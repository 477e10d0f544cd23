// Small helpers for numbers: an index for containers, the machine epsilon, a test for finite numbers, and the largest
// magnitude.
// Private to the core.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace linchpin {

inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

inline constexpr double epsilon = std::numeric_limits<double>::epsilon();

inline bool finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double xi) { return std::isfinite(xi); });
}

inline double largest(std::span<const double> x) {
  double most = 0;
  for (const double xi : x) most = std::max(most, std::fabs(xi));
  return most;
}

}  // namespace linchpin
