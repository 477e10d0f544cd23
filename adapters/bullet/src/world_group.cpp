#include "world_group.h"

#include "multibody.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>

#include <algorithm>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {
bool sleeps(const btCollisionObject& body) { return body.getActivationState() == ISLAND_SLEEPING; }
bool awake(const btRigidBody& body) { return !body.isStaticOrKinematicObject() && !sleeps(body); }
}  // namespace

void GroupTaker::take_islands(bool take) {
  btSimulationIslandManager& islands = *world_.world()->getSimulationIslandManager();
  takes_ = take;
  were_split_ = islands.getSplitIslands();
  if (takes_) islands.setSplitIslands(false);
}

void GroupTaker::give_islands_back() {
  if (takes_) world_.world()->getSimulationIslandManager()->setSplitIslands(were_split_);
  takes_ = false;
}

WorldGroup& GroupTaker::gather(const Group& all, btDispatcher* dispatcher) {
  group_.bodies.clear();
  group_.constraints.clear();
  group_ids_.clear();
  timers_run_ = false;
  for (btCollisionObject* const object : all.bodies) {
    const btRigidBody* body = btRigidBody::upcast(object);
    timers_run_ = timers_run_ || object->getDeactivationTime() > 0;
    if (!body || !awake(*body)) continue;
    group_.bodies.push_back(object);
    group_ids_.push_back(world_.bodies.find(*body));
  }
  gather_manifolds(all.manifolds, dispatcher);
  for (btTypedConstraint* const c : all.constraints)
    if (awake(c->getRigidBodyA()) || awake(c->getRigidBodyB())) group_.constraints.push_back(c);
  return group_;
}

// Chooses contacts as btSimulationIslandManager::buildIslands does.
void GroupTaker::gather_manifolds(std::span<btPersistentManifold* const> all, btDispatcher* dispatcher) {
  group_.manifolds.clear();
  const bool sorted = world_.world()->getDispatchInfo().m_deterministicOverlappingPairs;
  for (btPersistentManifold* const m : all) {
    const btCollisionObject &a = *m->getBody0(), &b = *m->getBody1();
    if ((sorted && m->getNumContacts() == 0) || (sleeps(a) && sleeps(b))) continue;
    // Where bodies have been joined since, and are not to collide, Bullet keeps the contacts as they were.
    if (!a.checkCollideWith(&b) || !b.checkCollideWith(&a)) continue;
    if (dispatcher->needsResponse(&a, &b)) group_.manifolds.push_back(m);
  }
  if (!sorted) return;
  const auto key = [](const btPersistentManifold* m) {
    return std::pair(m->getBody0()->getBroadphaseHandle()->m_uniqueId,
                     m->getBody1()->getBroadphaseHandle()->m_uniqueId);
  };
  std::sort(group_.manifolds.begin(), group_.manifolds.end(),
            [&](const auto* x, const auto* y) { return key(x) < key(y); });
}

void GroupTaker::divide(std::span<btTypedConstraint* const> constraints) {
  if (!takes_ || grouped_structure_ != world_.solver.structure() || !std::ranges::equal(last_constraints_, constraints))
    list(constraints);
  world_.native_constraints.clear();
  for (const auto& [constraint, entry] : stays_native_) {
    if (entry >= 0) {
      const btTypedConstraint& joint = *world_.joints[entry].joint;
      constraint->setBreakingImpulseThreshold(joint.getBreakingImpulseThreshold());
      constraint->setOverrideNumSolverIterations(joint.getOverrideNumSolverIterations());
      constraint->setEnabled(true);
    }
    world_.native_constraints.push_back(constraint);
  }
}

// A constraint of the user's own is in the group by any proxy of it that is awake.
void GroupTaker::list(std::span<btTypedConstraint* const> constraints) {
  std::vector<int> exact_entries;
  stays_native_.clear();
  for (btTypedConstraint* const c : constraints) {
    const int entry = world_.world() ? world_.joints.find(c) : -1;
    const host::ConstraintEntry* const r = entry < 0 ? nullptr : &world_.solver.entry(entry);
    const bool exact = r && r->alive && r->id.index >= 0 && c->isEnabled();
    if (exact && !(world_.multibodies && world_.multibodies->trees().holds(entry))) exact_entries.push_back(entry);
    if (!exact || world_.solver.options().mode == Mode::passive)
      stays_native_.push_back({c, -1});
    else if (NativePart* const part = world_.joints[entry].native_part.get())
      stays_native_.push_back({part, entry});
  }
  world_.solver.build_islands(exact_entries);
  last_constraints_.assign(constraints.begin(), constraints.end());
  grouped_structure_ = world_.solver.structure();
}

void GroupTaker::solve_separate() {
  const std::span<const char> taken = world_.solver.separate_islands(find_touched(), group_ids_);
  std::size_t left = 0;
  for (std::size_t i = 0; i < group_.bodies.size() && !taken.empty(); ++i)
    if (const int id = group_ids_[i]; id < 0 || !taken[z(id)]) group_.bodies[left++] = group_.bodies[i];
  if (!taken.empty()) group_.bodies.resize(left);
  for (const BodyId id : world_.solver.solve_separate(group_.manifolds.empty() && world_.native_constraints.empty()))
    group_.bodies.push_back(world_.bodies.body(id));
}

/// @return by id of body: contacts of the group, or constraints that Bullet solves, may act on it
std::span<const char> GroupTaker::find_touched() {
  touched_.assign(world_.bodies.count(), 0);
  const auto touch = [&](const btCollisionObject* object) {
    const btRigidBody* body = btRigidBody::upcast(object);
    if (!body || body->isStaticOrKinematicObject()) return;
    if (const int id = world_.bodies.find(*body); id >= 0) touched_[z(id)] = 1;
  };
  for (const btPersistentManifold* m : group_.manifolds) {
    if (m->getNumContacts() == 0) continue;
    touch(m->getBody0());
    touch(m->getBody1());
  }
  for (const btTypedConstraint* c : world_.native_constraints) {
    touch(&c->getRigidBodyA());
    touch(&c->getRigidBodyB());
  }
  return touched_;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
