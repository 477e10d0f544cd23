#include "comparison.h"

#include <algorithm>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
}  // namespace

std::vector<Shadow>& Comparison::all() {
  const auto reactions = solver_.reactions();
  all_.resize(reactions.size());
  for (std::size_t i = 0; i < reactions.size(); ++i) all_[i].name = reactions[i].name;
  return all_;
}

void Comparison::save(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                      btTypedConstraint** constraints, int nc) {
  saved_bodies_.clear();
  const auto save = [&](const btCollisionObject* object) {
    if (btRigidBody* body = btRigidBody::upcast(const_cast<btCollisionObject*>(object)))
      saved_bodies_.push_back({body, body->getLinearVelocity(), body->getAngularVelocity(), body->getWorldTransform(),
                               body->getCompanionId()});
  };
  // Kinematic bodies are in no island, but rows of joints and contacts write to them all the same.
  const auto save_kinematic = [&](const btCollisionObject* object) {
    if (object->isKinematicObject()) save(object);
  };
  for (int i = 0; i < nb; ++i) save(bodies[i]);
  for (int i = 0; i < nc; ++i) {
    save_kinematic(&constraints[i]->getRigidBodyA());
    save_kinematic(&constraints[i]->getRigidBodyB());
  }
  for (int i = 0; i < nm; ++i) {
    save_kinematic(manifolds[i]->getBody0());
    save_kinematic(manifolds[i]->getBody1());
  }
  save_points(manifolds, nm);
  saved_joints_.clear();
  feedback_.resize(z(nc));
  for (int i = 0; i < nc; ++i) {
    saved_joints_.push_back(
        {constraints[i]->isEnabled(), constraints[i]->internalGetAppliedImpulse(), constraints[i]->getJointFeedback()});
    constraints[i]->setJointFeedback(&feedback_[z(i)]);
  }
}

void Comparison::save_points(btPersistentManifold** manifolds, int count) {
  saved_points_.clear();
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k) {
      const btManifoldPoint& p = manifolds[i]->getContactPoint(k);
      saved_points_.push_back({p.m_appliedImpulse, p.m_appliedImpulseLateral1, p.m_appliedImpulseLateral2,
                               p.m_lateralFrictionDir1, p.m_lateralFrictionDir2, p.m_contactPointFlags});
    }
}

void Comparison::restore_points(btPersistentManifold** manifolds, int count) const {
  std::size_t at = 0;
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k, ++at) {
      btManifoldPoint& p = manifolds[i]->getContactPoint(k);
      const SavedPoint& s = saved_points_[at];
      p.m_appliedImpulse = s.normal;
      p.m_appliedImpulseLateral1 = s.lateral1;
      p.m_appliedImpulseLateral2 = s.lateral2;
      p.m_lateralFrictionDir1 = s.dir1;
      p.m_lateralFrictionDir2 = s.dir2;
      p.m_contactPointFlags = s.flags;
    }
}

void Comparison::take(btPersistentManifold** manifolds, int nm, btTypedConstraint** constraints, int nc) {
  std::vector<Shadow>& shadows = all();
  for (int i = 0; i < nc; ++i) {
    const SavedJoint& saved = saved_joints_[z(i)];
    constraints[i]->setJointFeedback(saved.feedback);
    const int entry = joints_.find(constraints[i]);
    if (const int at = entry < 0 ? -1 : solver_.entry(entry).reaction; at >= 0 && saved.enabled) {
      shadows[z(at)].force = from_bullet(feedback_[z(i)].m_appliedForceBodyA);
      shadows[z(at)].moment = from_bullet(feedback_[z(i)].m_appliedTorqueBodyA);  // about the centre of mass so far
    }
    constraints[i]->setEnabled(saved.enabled);
    constraints[i]->internalSetAppliedImpulse(saved.impulse);
  }
  for (auto* u : {&v_, &w_}) u->resize(bodies_.count(), Vector3d::Zero());
  for (const SavedBody& s : saved_bodies_)
    if (const int id = bodies_.find(*s.body); id >= 0) {
      v_[z(id)] = from_bullet(s.body->getLinearVelocity());
      w_[z(id)] = from_bullet(s.body->getAngularVelocity());
    }
  for (const SavedBody& s : saved_bodies_) {
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
    s.body->setWorldTransform(s.x);
    s.body->setCompanionId(s.companion);
  }
  restore_points(manifolds, nm);
}

void Comparison::compare() {
  std::vector<Shadow>& shadows = all();
  const auto reactions = solver_.reactions();
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const host::ConstraintEntry& r = solver_.entry(i);
    if (!r.alive || r.reaction < 0 || r.id.index < 0) continue;
    const Reaction& exact = reactions[z(r.reaction)];
    Shadow& s = shadows[z(r.reaction)];
    const auto bodies = solver_.constraint(i).bodies();
    const Vector3d com = solver_.start_state(bodies[0]).p, point = exact.ideal.on_a.point;
    const bool has_rows = r.outcome.has_host_rows;
    if (solver_.options().mode == host::Mode::observe) {
      const Wrench w = has_rows ? Wrench{r.host->on_a.force, r.host->on_a.moment, com}.about(point) : Wrench{};
      s.force = w.force;
      s.moment = w.moment;
      s.force_difference = (s.force - exact.on_a.force).norm();
      continue;
    }
    s.moment = Wrench{s.force, s.moment, com}.about(point).moment;
    const Vector3d ours = exact.on_a.force + (has_rows ? r.host->on_a.force : Vector3d(Vector3d::Zero()));
    s.force_difference = (s.force - ours).norm();
    s.velocity_difference = 0;
    for (const BodyId id : bodies)
      if (const btRigidBody* body = bodies_.body(id); body && solver_.system().dof(id) > 0)
        s.velocity_difference =
            std::max(s.velocity_difference, (velocity(id) - from_bullet(body->getLinearVelocity())).norm());
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
