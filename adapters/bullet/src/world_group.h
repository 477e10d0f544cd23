// Takes over Bullet's island pass, whose cost is islands × constraints: the world hands over everything at once, and
// what sleeps is left out here. Islands on which nothing native acts are solved straight from their bodies, and the
// rest goes to the native solver as one group.
#pragma once

#include "joint_table.h"
#include "world_islands.h"

#include <btBulletDynamicsCommon.h>

#include <array>
#include <span>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// What of the world takes part in a step.
struct WorldGroup {
  std::vector<btCollisionObject*> bodies;
  std::vector<btPersistentManifold*> manifolds;
  std::vector<btTypedConstraint*> constraints;
};

class GroupTaker {
 public:
  GroupTaker(const BodyTable& bodies, const JointTable& joints) : bodies_(bodies), joints_(joints) {}
  void set_world(btDiscreteDynamicsWorld* world) { world_ = world; }

  /// For the time of a solve only: the setting is the program's, and the next solver's.
  void take_islands(bool take);
  void give_islands_back();
  bool takes_islands() const { return takes_; }
  bool timers_run() const { return timers_run_; }
  void expect_timers() { timers_run_ = true; }

  WorldGroup& gather(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                     btTypedConstraint** constraints, int nc, btDispatcher* dispatcher, unsigned structure);
  /// By id of body: contacts of the group, or one of these constraints, may act on it.
  std::span<const char> find_touched(const std::vector<btTypedConstraint*>& native);
  /// Takes bodies out of the group. @return by id of body: it is not in the group
  std::span<const char> take_out(std::span<const BodyId> bodies);

 private:
  void identify(btCollisionObject** bodies, int nb, btTypedConstraint** constraints, int nc, unsigned structure);
  void gather_manifolds(btPersistentManifold** manifolds, int nm, btDispatcher* dispatcher);

  const BodyTable& bodies_;
  const JointTable& joints_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  WorldGroup group_;
  std::vector<int> group_ids_;  // of group_.bodies, −1: not known
  // What the world handed over last, pointer by pointer, and the ids of its bodies.
  std::vector<const void*> last_objects_, last_constraints_;
  std::vector<int> object_ids_;
  std::vector<std::array<int, 2>> constraint_ids_;
  unsigned last_structure_ = 0;
  std::vector<char> awake_, touched_, taken_;  // by id
  bool takes_ = false, were_split_ = true, timers_run_ = true;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
