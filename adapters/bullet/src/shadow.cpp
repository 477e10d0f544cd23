// The native solver beside ours: run on the same state every step, then everything it wrote is put back (shadow mode);
// or left in charge and only measured (Mode::observe).
#include "engine.h"

#include "bodies.h"
#include "columns.h"

#include <algorithm>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Engine::save_world(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                        btTypedConstraint** constraints, int nc) {
  saved_bodies_.clear();
  const auto save = [&](const btCollisionObject* object) {
    if (btRigidBody* body = btRigidBody::upcast(const_cast<btCollisionObject*>(object)))
      saved_bodies_.push_back({body, body->getLinearVelocity(), body->getAngularVelocity(), body->getWorldTransform(),
                               body->getCompanionId()});
  };
  // Animated bodies are in no island, but the rows of joints and contacts that know them write to them all the same.
  const auto save_animated = [&](const btCollisionObject* object) {
    if (object->isKinematicObject()) save(object);
  };
  for (int i = 0; i < nb; ++i) save(bodies[i]);
  for (int i = 0; i < nc; ++i) {
    save_animated(&constraints[i]->getRigidBodyA());
    save_animated(&constraints[i]->getRigidBodyB());
  }
  for (int i = 0; i < nm; ++i) {
    save_animated(manifolds[i]->getBody0());
    save_animated(manifolds[i]->getBody1());
  }
  saved_points_.clear();
  for (int i = 0; i < nm; ++i)
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k) {
      const btManifoldPoint& p = manifolds[i]->getContactPoint(k);
      saved_points_.push_back({p.m_appliedImpulse, p.m_appliedImpulseLateral1, p.m_appliedImpulseLateral2,
                               p.m_lateralFrictionDir1, p.m_lateralFrictionDir2, p.m_contactPointFlags});
    }
  saved_joints_.clear();
  shadow_feedback_.resize(z(nc));
  for (int i = 0; i < nc; ++i) {
    saved_joints_.push_back(
        {constraints[i]->isEnabled(), constraints[i]->internalGetAppliedImpulse(), constraints[i]->getJointFeedback()});
    constraints[i]->setJointFeedback(&shadow_feedback_[z(i)]);
  }
}

void Engine::take_shadow(btPersistentManifold** manifolds, int nm, btTypedConstraint** constraints, int nc) {
  for (int i = 0; i < nc; ++i) {
    const auto known = record_of_.find(constraints[i]);
    const SavedJoint& saved = saved_joints_[z(i)];
    constraints[i]->setJointFeedback(saved.feedback);
    if (known != record_of_.end() && records_[z(known->second)].reaction >= 0 && saved.enabled) {
      const Record& r = records_[z(known->second)];
      Shadow& s = shadow_[z(r.reaction)];
      s.force = from_bullet(shadow_feedback_[z(i)].m_appliedForceBodyA);
      s.moment =
          from_bullet(shadow_feedback_[z(i)].m_appliedTorqueBodyA);  // about the centre of mass until the step is over
    }
    constraints[i]->setEnabled(saved.enabled);
    constraints[i]->internalSetAppliedImpulse(saved.impulse);
  }
  for (const SavedBody& s : saved_bodies_) {
    if (const auto known = id_of_.find(s.body); known != id_of_.end()) {
      shadow_v_[z(known->second)] = from_bullet(s.body->getLinearVelocity());
      shadow_w_[z(known->second)] = from_bullet(s.body->getAngularVelocity());
    }
  }
  for (const SavedBody& s : saved_bodies_) {
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
    s.body->setWorldTransform(s.x);
    s.body->setCompanionId(s.companion);
  }
  std::size_t at = 0;
  for (int i = 0; i < nm; ++i)
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

void Engine::compare_with_native() {
  for (const Record& r : records_) {
    if (!r.alive || r.reaction < 0 || r.id.index < 0) continue;
    const Reaction& exact = reactions_[z(r.reaction)];
    Shadow& s = shadow_[z(r.reaction)];
    const Vector3d com = state_[system_.constraint(r.id).bodies()[0]].p, point = exact.ideal.on_a.point;
    if (options_.mode == Mode::observe) {
      const Wrench w = r.native_seen ? Wrench{r.native->on_a.force, r.native->on_a.moment, com}.about(point) : Wrench{};
      s.force = w.force;
      s.moment = w.moment;
      s.force_difference = (s.force - exact.on_a.force).norm();
      continue;
    }
    s.moment = Wrench{s.force, s.moment, com}.about(point).moment;
    const Vector3d ours = exact.on_a.force + (r.native_seen ? r.native->on_a.force : Vector3d::Zero());
    s.force_difference = (s.force - ours).norm();
    s.velocity_difference = 0;
    for (const BodyId id : system_.constraint(r.id).bodies())
      if (const btRigidBody* body = body_of_[z(id.index)]; body && system_.dof(id) > 0)
        s.velocity_difference =
            std::max(s.velocity_difference, (shadow_v_[z(id.index)] - from_bullet(body->getLinearVelocity())).norm());
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
