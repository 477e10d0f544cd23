// The islands that a world has had. A set of constraints that comes back, as of a joint that is switched off and on,
// finds its island with the factor and the structure that it had.
#pragma once

#include "host/island.h"

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace linchpin::host {

/// Identifies a set of constraints by ConstraintEntry::order: sets of one step differ in the first alone.
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
  /// The island of a set: the one it had, or one that was not used in the last step, or a new one.
  int get(const ConstraintSet& set, unsigned step);
  const std::vector<std::unique_ptr<Island>>& all() const { return islands_; }
  const IslandOfSet& sets() const { return of_set_; }
  void clear();
  std::vector<std::unique_ptr<Island>> take_all() { return std::move(islands_); }
  void replace(std::vector<std::unique_ptr<Island>> islands, IslandOfSet sets);

  std::vector<int> group;       ///< islands of the group at hand that host rows may act on
  std::vector<int> separate;    ///< islands of the group that no host row acts on
  std::vector<int> last_group;  ///< all islands of the last group

 private:
  int unused(unsigned step) const;

  std::vector<std::unique_ptr<Island>> islands_;
  IslandOfSet of_set_;
};

}  // namespace linchpin::host
