// The calls of a step, in the order of Bullet's step.
#include "solver_hooks.h"

#include "multibody.h"
#include "world_peek.h"

#include <algorithm>

namespace LINCHPIN_BULLET_NAMESPACE {

void WorldBinding::begin_step() {
  joints().forget_past_proxies();
  still_.clear();
  solver().begin_step();
  if (!world_.world()) return;
  if (multibodies()) multibodies()->begin_step();
  stepped_ = true;
  groups_.expect_timers();
  if (islands_) islands_->exchange_split();
  // Bullet's own island pass where nothing is exact, with its order of islands, and bits; but not from several threads.
  groups_.take_islands(options_.mode == Mode::exact && world_.native_solver == "sequential impulse" &&
                       (solver().has_exact_constraints() || threads_));
}

void WorldBinding::begin_group(std::span<btTypedConstraint* const> constraints, const btContactSolverInfo& info) {
  groups_.divide(constraints);
  for (const BodyId id : solver().begin_islands(double(info.m_timeStep))) {
    const btRigidBody& body = *bodies().body(id);
    still_.push_back({id, body.getWorldTransform(), body.getLinearVelocity(), body.getAngularVelocity()});
  }
}

void WorldBinding::write_separate() {
  solver().write_separate();
  end_group();
}

void WorldBinding::write_group() {
  solver().write_group();
  if (!groups_.takes_islands()) end_group();
}

void WorldBinding::end_group() {
  for (btTypedConstraint* c : world_.native_constraints) JointTable::mark(*c);  // Bullet's solver has written zeros
  solver().end_group();
}

void WorldBinding::end_solve() {
  groups_.give_islands_back();
  if (multibodies()) multibodies()->finish();
}

// Contacts remember impulses between bodies that their joints held exactly. Such an impulse may be any number of times
// the one that stops the bodies alone. The rows of Bullet therefore begin without them.
void WorldBinding::forget_contacts_of_failed(std::span<btPersistentManifold* const> manifolds) const {
  const auto failed = [&](const btCollisionObject* object) {
    return !object->isStaticOrKinematicObject() &&
           std::ranges::any_of(world_.solver.entries_left_to_host(),
                               [&](int entry) { return std::ranges::count(world_.joints[entry].bodies, object) > 0; });
  };
  for (btPersistentManifold* const m : manifolds) {
    if (!failed(m->getBody0()) && !failed(m->getBody1())) continue;
    for (int k = 0; k < m->getNumContacts(); ++k) {
      btManifoldPoint& point = m->getContactPoint(k);
      point.m_appliedImpulse = point.m_appliedImpulseLateral1 = point.m_appliedImpulseLateral2 = 0;
    }
  }
}

void WorldBinding::updateAction(btCollisionWorld*, btScalar dt) {
  if (!std::exchange(stepped_, false)) {  // the program has put another solver in our place, which writes zeros
    solver().skip_step(double(dt));
    return joints().mark_all();
  }
  const bool others = WorldPeek::actions(*world_.world()).size() > (steps_by_stages() ? 2 : 1);
  if (others) {  // they may have taken joints and bodies away since the solve
    world_.find_joints();
    world_.look_at_bodies(false);
  }
  world_.map_joints(false);
  put_back_still();
  const bool may_stop = (others || bodies().any_swept()) && world_.world()->getDispatchInfo().m_useContinuous;
  solver().end_step({.dt = double(dt), .may_stop_bodies = may_stop, .timers_run = groups_.timers_run() || others});
  if (native_run_.compares()) native_run_.comparison().compare();
  if (const auto callback = callback_) (*callback)(Step{solver().t(), double(dt), owner_});
}

void WorldBinding::put_back_still() {
  for (const Still& s : still_) {
    btRigidBody* const body = bodies().body(s.id);
    if (!body) continue;  // gone
    body->proceedToTransform(s.pose);
    body->setLinearVelocity(s.v);
    body->setAngularVelocity(s.w);
  }
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
