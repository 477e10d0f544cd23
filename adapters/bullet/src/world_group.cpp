#include "world_group.h"

#include "prefetch.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>

#include <algorithm>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
bool sleeps(const btCollisionObject& body) { return body.getActivationState() == ISLAND_SLEEPING; }
bool awake(const btRigidBody& body) { return !body.isStaticOrKinematicObject() && !sleeps(body); }
}  // namespace

void GroupTaker::take_islands(bool take) {
  btSimulationIslandManager& islands = *world_->getSimulationIslandManager();
  takes_ = take;
  were_split_ = islands.getSplitIslands();
  if (takes_) islands.setSplitIslands(false);
}

void GroupTaker::give_islands_back() {
  if (takes_) world_->getSimulationIslandManager()->setSplitIslands(were_split_);
  takes_ = false;
}

// Finds the ids of what the world hands over, which is mostly what it handed over in the last step.
void GroupTaker::identify(btCollisionObject** bodies, int nb, btTypedConstraint** constraints, int nc,
                          unsigned structure) {
  if (last_structure_ == structure && last_objects_.size() == z(nb) && last_constraints_.size() == z(nc) &&
      std::equal(bodies, bodies + nb, last_objects_.begin()) &&
      std::equal(constraints, constraints + nc, last_constraints_.begin()))
    return;
  last_structure_ = structure;
  last_objects_.assign(bodies, bodies + nb);
  last_constraints_.assign(constraints, constraints + nc);
  object_ids_.clear();
  constraint_ids_.clear();
  const auto find = [&](const btRigidBody* body) { return body ? bodies_.find_in_world(*body) : -1; };
  for (int i = 0; i < nb; ++i) object_ids_.push_back(find(btRigidBody::upcast(bodies[i])));
  for (int i = 0; i < nc; ++i)
    constraint_ids_.push_back({find(&constraints[i]->getRigidBodyA()), find(&constraints[i]->getRigidBodyB())});
}

WorldGroup& GroupTaker::gather(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                               btTypedConstraint** constraints, int nc, btDispatcher* dispatcher, unsigned structure) {
  group_.bodies.clear();
  group_.constraints.clear();
  identify(bodies, nb, constraints, nc, structure);
  group_ids_.clear();
  awake_.assign(bodies_.count(), 0);
  timers_run_ = false;
  constexpr int ahead = 8;
  for (int i = 0; i < nb; ++i) {
    if (i + ahead < nb) prefetch(&bodies[i + ahead]->getAnisotropicFriction(), 7 * sizeof(btVector3));
    const btRigidBody* body = btRigidBody::upcast(bodies[i]);
    timers_run_ = timers_run_ || bodies[i]->getDeactivationTime() > 0;
    if (!body || !awake(*body)) continue;
    const int id = object_ids_[z(i)];
    group_.bodies.push_back(bodies[i]);
    group_ids_.push_back(id);
    if (id >= 0) awake_[z(id)] = 1;
  }
  gather_manifolds(manifolds, nm, dispatcher);
  for (int i = 0; i < nc; ++i) {
    const auto [a, b] = constraint_ids_[z(i)];
    if ((a >= 0 ? awake_[z(a)] != 0 : awake(constraints[i]->getRigidBodyA())) ||
        (b >= 0 ? awake_[z(b)] != 0 : awake(constraints[i]->getRigidBodyB())))
      group_.constraints.push_back(constraints[i]);
  }
  return group_;
}

// Chooses contacts as btSimulationIslandManager::buildIslands does.
void GroupTaker::gather_manifolds(btPersistentManifold** manifolds, int nm, btDispatcher* dispatcher) {
  group_.manifolds.clear();
  const bool sorted = world_->getDispatchInfo().m_deterministicOverlappingPairs;
  for (int i = 0; i < nm; ++i) {
    const btCollisionObject &a = *manifolds[i]->getBody0(), &b = *manifolds[i]->getBody1();
    if ((sorted && manifolds[i]->getNumContacts() == 0) || (sleeps(a) && sleeps(b))) continue;
    // Where bodies have been joined since, and are not to collide, Bullet keeps the contacts as they were.
    if (!a.checkCollideWith(&b) || !b.checkCollideWith(&a)) continue;
    if (dispatcher->needsResponse(&a, &b)) group_.manifolds.push_back(manifolds[i]);
  }
  if (!sorted) return;
  const auto key = [](const btPersistentManifold* m) {
    return std::pair(m->getBody0()->getBroadphaseHandle()->m_uniqueId,
                     m->getBody1()->getBroadphaseHandle()->m_uniqueId);
  };
  std::sort(group_.manifolds.begin(), group_.manifolds.end(),
            [&](const auto* x, const auto* y) { return key(x) < key(y); });
}

std::span<const char> GroupTaker::find_touched(const std::vector<btTypedConstraint*>& native) {
  touched_.assign(bodies_.count(), 0);
  const auto touch = [&](const btCollisionObject* object) {
    const btRigidBody* body = btRigidBody::upcast(object);
    if (!body || body->isStaticOrKinematicObject()) return;
    if (const int id = bodies_.find(*body); id >= 0) touched_[z(id)] = 1;
  };
  for (const btPersistentManifold* m : group_.manifolds) {
    if (m->getNumContacts() == 0) continue;
    touch(m->getBody0());
    touch(m->getBody1());
  }
  for (const btTypedConstraint* c : native) {
    touch(&c->getRigidBodyA());
    touch(&c->getRigidBodyB());
  }
  return touched_;
}

std::span<const char> GroupTaker::take_out(std::span<const BodyId> bodies) {
  taken_.assign(bodies_.count(), 0);
  for (const BodyId id : bodies) taken_[z(id.index)] = 1;
  std::size_t left = 0;
  for (std::size_t i = 0; i < group_.bodies.size(); ++i) {
    if (const int id = group_ids_[i]; id >= 0 && taken_[z(id)] != 0)
      taken_[z(id)] = 0;
    else
      group_.bodies[left++] = group_.bodies[i];
  }
  group_.bodies.resize(left);
  return taken_;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
