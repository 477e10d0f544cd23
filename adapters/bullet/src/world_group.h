// Chooses the part of a Bullet world that takes part in a step: awake bodies, contacts and constraints, and which of
// these are exact. Bullet's own island pass costs islands × constraints. Where something is exact, it is replaced: the
// world hands over everything at once, and bodies that sleep are left out here.
#pragma once

#include "bullet_world.h"

#include <btBulletDynamicsCommon.h>

#include <span>
#include <utility>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

/// A group of Bullet's solver, chosen here.
struct WorldGroup {
  std::vector<btCollisionObject*> bodies;
  std::vector<btPersistentManifold*> manifolds;
  std::vector<btTypedConstraint*> constraints;
};

class GroupTaker {
 public:
  explicit GroupTaker(BulletWorld& world) : world_(world) {}

  /// For the time of a solve only: the setting is the program's, and the next solver's.
  void take_islands(bool take);
  void give_islands_back();
  bool takes_islands() const { return takes_; }
  bool timers_run() const { return timers_run_; }
  void expect_timers() { timers_run_ = true; }

  WorldGroup& gather(const Group& all, btDispatcher* dispatcher);
  /// Makes the islands of the exact constraints of a group, and lists what Bullet solves of the others.
  void divide(std::span<btTypedConstraint* const> constraints);
  /// Solves the islands of the group on which nothing of Bullet's acts.
  void solve_separate();

 private:
  void gather_manifolds(std::span<btPersistentManifold* const> all, btDispatcher* dispatcher);
  void list(std::span<btTypedConstraint* const> constraints);
  std::span<const char> find_touched();

  BulletWorld& world_;
  WorldGroup group_;
  std::vector<int> group_ids_;                                    // of group_.bodies, −1: not known
  std::vector<char> touched_;                                     // by id of body
  std::vector<std::pair<btTypedConstraint*, int>> stays_native_;  // and the entry whose native part it is, or −1
  std::vector<const btTypedConstraint*> last_constraints_;        // of the last group, while the structure is the same
  unsigned grouped_structure_ = 0;
  bool takes_ = false, were_split_ = true, timers_run_ = true;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
