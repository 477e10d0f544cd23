#include "host/island_cache.h"

#include <utility>

namespace linchpin::host {

// Returns the island that has not been needed for the longest time, where more are unused than used; −1: none.
int IslandCache::unused(unsigned step) const {
  std::size_t used = 0;
  int oldest = -1;
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    if (islands_[i]->history.last_step + 1 >= step)
      ++used;
    else if (oldest < 0 ||
             islands_[i]->history.last_step < islands_[static_cast<std::size_t>(oldest)]->history.last_step)
      oldest = static_cast<int>(i);
  }
  return islands_.size() > 2 * used + 8 ? oldest : -1;
}

int IslandCache::get(const ConstraintSet& set, unsigned step) {
  if (const auto known = of_set_.find(set); known != of_set_.end()) return known->second;
  int index = unused(step);
  if (index < 0) {
    index = static_cast<int>(islands_.size());
    islands_.push_back(std::make_unique<Island>());
  }
  std::erase_if(of_set_, [&](const auto& x) { return x.second == index; });
  of_set_.emplace(set, index);
  return index;
}

void IslandCache::clear() {
  islands_.clear();
  of_set_.clear();
  last_group.clear();
}

void IslandCache::replace(std::vector<std::unique_ptr<Island>> islands, IslandOfSet sets) {
  islands_ = std::move(islands);
  of_set_ = std::move(sets);
  group.clear();
  separate.clear();
  last_group.clear();
}

}  // namespace linchpin::host
