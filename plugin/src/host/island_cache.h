// The islands that a world has had. A set of constraints that returns finds its island with the factor and the
// structure that it had, as when a joint is switched off and on.
#pragma once

#include "host/island.h"

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace linchpin::host {

/// Identifies a set of constraints by ConstraintEntry::order. Sets of one step differ in `first`.
struct ConstraintSet {
  unsigned first, last;
  int count;
  bool operator==(const ConstraintSet&) const = default;
  struct Hash {
    std::size_t operator()(const ConstraintSet& s) const {
      return s.first * 73856093u ^ s.last * 19349663u ^ unsigned(s.count) * 83492791u;
    }
  };
};
using IslandOfSet = std::unordered_map<ConstraintSet, int, ConstraintSet::Hash>;

class IslandCache {
 public:
  Island& operator[](int island) { return *islands_[static_cast<std::size_t>(island)]; }
  const Island& operator[](int island) const { return *islands_[static_cast<std::size_t>(island)]; }
  /// Returns the island of a set: the one it had, or one that was not used in the last step, or a new one.
  int get(const ConstraintSet& set, unsigned step);
  const std::vector<std::unique_ptr<Island>>& all() const { return islands_; }
  const IslandOfSet& sets() const { return of_set_; }
  void clear();
  std::vector<std::unique_ptr<Island>> take_all() { return std::move(islands_); }
  void replace(std::vector<std::unique_ptr<Island>> islands, IslandOfSet sets);

  std::vector<int> group;       ///< Islands of the current group that host rows may act on.
  std::vector<int> separate;    ///< Islands of the group that no host row acts on.
  std::vector<int> last_group;  ///< All islands of the last group.

 private:
  int unused(unsigned step) const;

  std::vector<std::unique_ptr<Island>> islands_;
  IslandOfSet of_set_;
};

}  // namespace linchpin::host
