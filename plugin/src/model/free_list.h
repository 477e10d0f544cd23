// Stores free indices of removed things for reuse, so that indices and arrays stay as small as the number of things.
#pragma once

#include <cstddef>
#include <vector>

namespace linchpin::detail {

class FreeList {
 public:
  void give(int place) { places_.push_back(place); }
  /// Returns a free index only when there are clearly more free indices than used ones. Until then a later thing has a
  /// greater index, on which some orders depend.
  /// @param places  the number of all indices, free and used
  /// @return −1 when the thing is to be appended
  int take(std::size_t places) {
    constexpr std::size_t few = 64;
    if (2 * places_.size() <= places + few) return -1;
    const int place = places_.back();
    places_.pop_back();
    return place;
  }

 private:
  std::vector<int> places_;
};

}  // namespace linchpin::detail
