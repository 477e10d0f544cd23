// Keeps the places of removed things for later ones, so that indices and arrays stay as small as what is there.
#pragma once

#include <cstddef>
#include <vector>

namespace linchpin::detail {

class FreeList {
 public:
  void give(int place) { places_.push_back(place); }
  /// Gives a free place only when there are more free places than used ones, and a few. Until then, a later thing has a
  /// greater index, and some orders go by that.
  /// @param places  the number of all places, free and used
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
