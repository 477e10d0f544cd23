#include "native_run.h"

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {
void for_points(std::span<btPersistentManifold* const> manifolds, auto visit) {
  for (btPersistentManifold* const m : manifolds)
    for (int k = 0; k < m->getNumContacts(); ++k) visit(m->getContactPoint(k));
}
}  // namespace

void NativeRun::save(const btCollisionObject* object) {
  if (btRigidBody* body = btRigidBody::upcast(const_cast<btCollisionObject*>(object)))
    saved_bodies_.push_back({body, body->getLinearVelocity(), body->getAngularVelocity(), body->getWorldTransform(),
                             body->getCompanionId()});
}

void NativeRun::save(const Group& group) {
  saved_bodies_.clear();
  for (const btCollisionObject* body : group.bodies) save(body);
  // Kinematic bodies are in no island, but rows of joints and contacts write to them all the same.
  const auto save_kinematic = [&](const btCollisionObject* a, const btCollisionObject* b) {
    for (const btCollisionObject* object : {a, b})
      if (object->isKinematicObject()) save(object);
  };
  for (const btTypedConstraint* c : group.constraints) save_kinematic(&c->getRigidBodyA(), &c->getRigidBodyB());
  for (const btPersistentManifold* m : group.manifolds) save_kinematic(m->getBody0(), m->getBody1());
  saved_points_.clear();
  for_points(group.manifolds, [&](const btManifoldPoint& p) { saved_points_.push_back(p); });
  saved_joints_.resize(group.constraints.size());
  for (std::size_t i = 0; i < saved_joints_.size(); ++i) {
    btTypedConstraint& c = *group.constraints[i];
    saved_joints_[i] = {c.isEnabled(), c.internalGetAppliedImpulse(), c.getJointFeedback(), {}};
    c.setJointFeedback(&saved_joints_[i].native);
  }
}

void NativeRun::take(const Group& group) {
  for (std::size_t i = 0; i < saved_joints_.size(); ++i) {
    const SavedJoint& saved = saved_joints_[i];
    btTypedConstraint& c = *group.constraints[i];
    c.setJointFeedback(saved.feedback);
    if (const int entry = world_.joints.find(&c); entry >= 0 && saved.enabled)
      comparison_.set_wrench(entry, from_bullet(saved.native.m_appliedForceBodyA),
                             from_bullet(saved.native.m_appliedTorqueBodyA));
    c.setEnabled(saved.enabled);
    c.internalSetAppliedImpulse(saved.impulse);
  }
  for (const SavedBody& s : saved_bodies_) {  // a kinematic body that is there twice has no answer of interest
    if (const int id = world_.bodies.find(*s.body); id >= 0)
      comparison_.set_velocity(world_.solver.system().body_at(id), from_bullet(s.body->getLinearVelocity()),
                               from_bullet(s.body->getAngularVelocity()));
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
    s.body->setWorldTransform(s.x);
    s.body->setCompanionId(s.companion);
  }
  auto saved = saved_points_.begin();
  for_points(group.manifolds, [&](btManifoldPoint& p) { p = *saved++; });
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
