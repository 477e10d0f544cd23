#include "native_run.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }

template <class Visit>
void for_points(btPersistentManifold** manifolds, int count, Visit visit) {
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k) visit(manifolds[i]->getContactPoint(k));
}
}  // namespace

void NativeRun::save(const btCollisionObject* object) {
  if (btRigidBody* body = btRigidBody::upcast(const_cast<btCollisionObject*>(object)))
    saved_bodies_.push_back({body, body->getLinearVelocity(), body->getAngularVelocity(), body->getWorldTransform(),
                             body->getCompanionId()});
}

void NativeRun::save(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                     btTypedConstraint** constraints, int nc) {
  saved_bodies_.clear();
  for (int i = 0; i < nb; ++i) save(bodies[i]);
  // Kinematic bodies are in no island, but rows of joints and contacts write to them all the same.
  const auto save_kinematic = [&](const btCollisionObject* a, const btCollisionObject* b) {
    for (const btCollisionObject* object : {a, b})
      if (object->isKinematicObject()) save(object);
  };
  for (int i = 0; i < nc; ++i) save_kinematic(&constraints[i]->getRigidBodyA(), &constraints[i]->getRigidBodyB());
  for (int i = 0; i < nm; ++i) save_kinematic(manifolds[i]->getBody0(), manifolds[i]->getBody1());
  saved_points_.clear();
  for_points(manifolds, nm, [&](const btManifoldPoint& p) { saved_points_.push_back(p); });
  saved_joints_.clear();
  feedback_.resize(z(nc));
  for (int i = 0; i < nc; ++i) {
    saved_joints_.push_back(
        {constraints[i]->isEnabled(), constraints[i]->internalGetAppliedImpulse(), constraints[i]->getJointFeedback()});
    constraints[i]->setJointFeedback(&feedback_[z(i)]);
  }
}

void NativeRun::take(btPersistentManifold** manifolds, int nm, btTypedConstraint** constraints, int nc) {
  for (int i = 0; i < nc; ++i) {
    const SavedJoint& saved = saved_joints_[z(i)];
    constraints[i]->setJointFeedback(saved.feedback);
    if (const int entry = world_.joints.find(constraints[i]); entry >= 0 && saved.enabled)
      comparison_.set_wrench(entry, from_bullet(feedback_[z(i)].m_appliedForceBodyA),
                             from_bullet(feedback_[z(i)].m_appliedTorqueBodyA));
    constraints[i]->setEnabled(saved.enabled);
    constraints[i]->internalSetAppliedImpulse(saved.impulse);
  }
  for (const SavedBody& s : saved_bodies_)
    if (const int id = world_.bodies.find(*s.body); id >= 0)
      comparison_.set_velocity(world_.solver.system().body_at(id), from_bullet(s.body->getLinearVelocity()),
                               from_bullet(s.body->getAngularVelocity()));
  for (const SavedBody& s : saved_bodies_) {
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
    s.body->setWorldTransform(s.x);
    s.body->setCompanionId(s.companion);
  }
  auto saved = saved_points_.begin();
  for_points(manifolds, nm, [&](btManifoldPoint& p) { p = *saved++; });
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
