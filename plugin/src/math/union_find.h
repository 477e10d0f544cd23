// Disjoint sets of numbered things. Each set is a tree of parents, and its root stands for it. Private to the core.
#pragma once

#include <cstddef>
#include <vector>

namespace linchpin::detail {

/// Returns the root of the set that i is in, with path halving.
inline int find_root(std::vector<int>& parent, int i) {
  const auto up = [&](int k) -> int& { return parent[static_cast<std::size_t>(k)]; };
  while (up(i) != i) i = up(i) = up(up(i));
  return i;
}

}  // namespace linchpin::detail
