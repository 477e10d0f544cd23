#include "multibody_reading.h"

#include "bodies.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

namespace LINCHPIN_BULLET_NAMESPACE {

using articulated::JointKind;

namespace {

Quaterniond read_rotation(const btQuaternion& q) {
  return Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
}

JointKind kind_of(const btMultibodyLink& link) {
  switch (link.m_jointType) {
    case btMultibodyLink::eFixed:
      return JointKind::fixed;
    case btMultibodyLink::eRevolute:
      return JointKind::revolute;
    case btMultibodyLink::ePrismatic:
      return JointKind::prismatic;
    case btMultibodyLink::eSpherical:
      return JointKind::spherical;
    default:
      return JointKind::other;
  }
}

void read_model(const btMultiBody& body, articulated::TreeModel& model) {
  model.positions = body.getNumPosVars();
  model.rates = body.getNumDofs();
  model.fixed_base = body.hasFixedBase();
  model.base_mass = double(body.getBaseMass());
  model.base_inertia = from_bullet(body.getBaseInertia());
  model.linear_damping = double(body.getLinearDamping());
  model.angular_damping = double(body.getAngularDamping());
  model.gyroscopic = body.getUseGyroTerm();
  model.links.resize(z(body.getNumLinks()));
  for (int i = 0; i < body.getNumLinks(); ++i) model.links[z(i)] = read_link(body, i);
}

void read_state(const btMultiBody& body, articulated::TreeState& state) {
  const int links = body.getNumLinks();
  state.at.p = from_bullet(body.getBasePos());
  state.at.q = read_rotation(body.getWorldToBaseRot()).conjugate();
  state.at.joints.resize(z(body.getNumPosVars()));
  state.velocity.resize(z(6 + body.getNumDofs()));
  for (std::size_t i = 0; i < state.velocity.size(); ++i) state.velocity[i] = double(body.getVelocityVector()[i]);
  state.joint_forces.assign(z(body.getNumDofs()), 0);
  state.forces.resize(z(links + 1));
  state.forces[0] = {from_bullet(body.getBaseForce()), from_bullet(body.getBaseTorque())};
  for (int i = 0; i < links; ++i) {
    const btMultibodyLink& link = body.getLink(i);
    for (int k = 0; k < link.m_posVarCount; ++k) state.at.joints[z(link.m_cfgOffset + k)] = double(link.m_jointPos[k]);
    for (int k = 0; k < link.m_dofCount; ++k)
      state.joint_forces[z(link.m_dofOffset + k)] = double(link.m_jointTorque[k]);
    state.forces[z(i + 1)] = {from_bullet(link.m_appliedForce), from_bullet(link.m_appliedTorque)};
  }
}

}  // namespace

std::string why_unsupported(const btMultiBody& body) {
  if (body.isUsingRK4Integration()) return "it is integrated by RK4 (useRK4Integration)";
  if (body.isUsingGlobalVelocities()) return "it keeps global velocities (useGlobalVelocities)";
  if (body.isBaseKinematic()) return "its base is kinematic (use a fixed base)";
  for (int i = 0; i < body.getNumLinks(); ++i) {
    const btMultibodyLink& link = body.getLink(i);
    if (link.m_jointType == btMultibodyLink::ePlanar) return "joint " + std::to_string(i) + " is planar";
    if (link.m_jointType == btMultibodyLink::eInvalid) return "joint " + std::to_string(i) + " has not been set up";
    if (link.m_collider && link.m_collider->isStaticOrKinematicObject())
      return "the collider of link " + std::to_string(i) + " is static or kinematic";
  }
  return {};
}

bool is_asleep(const btMultiBody& body) {
  const auto sleeps = [](const btMultiBodyLinkCollider* c) { return c && c->getActivationState() == ISLAND_SLEEPING; };
  bool any = sleeps(body.getBaseCollider());
  for (int i = 0; i < body.getNumLinks(); ++i) any = any || sleeps(body.getLink(i).m_collider);
  return any;
}

articulated::LinkModel read_link(const btMultiBody& body, int i) {
  articulated::LinkModel out;
  out.mass = double(i < 0 ? body.getBaseMass() : body.getLinkMass(i));
  out.inertia = from_bullet(i < 0 ? body.getBaseInertia() : body.getLinkInertia(i));
  if (i < 0) return out;
  const btMultibodyLink& link = body.getLink(i);
  out.parent = link.m_parent;
  out.joint = kind_of(link);
  out.first_position = link.m_cfgOffset;
  out.positions = link.m_posVarCount;
  out.first_rate = link.m_dofOffset;
  out.rates = link.m_dofCount;
  for (int k = 0; k < link.m_dofCount; ++k) {
    out.angular[z(k)] = from_bullet(link.getAxisTop(k));
    out.linear[z(k)] = from_bullet(link.getAxisBottom(k));
  }
  out.R_PL_at_zero = read_rotation(link.m_zeroRotParentToThis).conjugate().toRotationMatrix();
  out.p_PJ = from_bullet(link.m_eVector);
  out.p_JL = from_bullet(link.m_dVector);
  return out;
}

void read_tree(const btMultiBody& body, articulated::TreeModel& model, articulated::TreeState& state) {
  read_model(body, model);
  read_state(body, state);
}

void write_configuration(const articulated::Configuration& at, btMultiBody& body, KinematicsMemory& memory) {
  if (!body.hasFixedBase()) {
    body.setBasePos(to_bullet(at.p));
    const Quaterniond b = at.q.conjugate();
    body.setWorldToBaseRot(btQuaternion(btScalar(b.x()), btScalar(b.y()), btScalar(b.z()), btScalar(b.w())));
  }
  for (int i = 0; i < body.getNumLinks(); ++i)
    if (const btMultibodyLink& link = body.getLink(i); link.m_posVarCount > 0)
      body.setJointPosMultiDof(i, at.joints.data() + link.m_cfgOffset);
  body.forwardKinematics(memory.rotations, memory.places);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
