// The middle of measured times, which one slow repetition does not move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace linchpin::bench {

/// @return 0 where there are none
inline double median(std::vector<double> x) {
  if (x.empty()) return 0;
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

}  // namespace linchpin::bench
