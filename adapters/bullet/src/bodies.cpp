#include "bodies.h"

#include <linchpin/detail/rotation.h>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

bool all_of(const btVector3& u, auto predicate) { return predicate(u.x()) && predicate(u.y()) && predicate(u.z()); }
bool is_zero(btScalar x) { return x == 0; }
bool is_zero_or_one(btScalar x) { return x == 0 || x == 1; }
bool is_point(const btRigidBody& body) {
  return all_of(body.getInvInertiaDiagLocal(), is_zero) || all_of(body.getAngularFactor(), is_zero);
}
bool moves_by_forces(const btRigidBody& body) {
  return !body.isStaticOrKinematicObject() && body.getInvMass() != 0 && !is_disabled(body);
}

}  // namespace

// By the program, or by Bullet where a body has left all bounds: it has a velocity, but is not moved by it.
bool is_disabled(const btRigidBody& body) { return body.getActivationState() == DISABLE_SIMULATION; }

bool is_turning_point(const btRigidBody& body) { return is_point(body) && !body.getAngularVelocity().isZero(); }

BodyKind kind_of(const btRigidBody& body) {
  if (body.isKinematicObject()) return BodyKind::kinematic;
  if (!moves_by_forces(body) || why_unsupported(body)) return BodyKind::fixed;
  return is_point(body) ? BodyKind::particle : BodyKind::rigid;
}

const char* why_unsupported(const btRigidBody& body) {
  if (!moves_by_forces(body)) return nullptr;
  if (!all_of(body.getLinearFactor(), is_zero_or_one)) return "a body has a linear factor other than 0 and 1";
  const bool turning = is_turning_point(body);
  if (is_point(body) && !turning) return nullptr;
  if (!all_of(body.getAngularFactor(), is_zero_or_one)) return "a body has an angular factor other than 0 and 1";
  const btVector3& inverse = body.getInvInertiaDiagLocal();
  if (!turning && all_of(inverse, [](btScalar x) { return x > 0; })) return nullptr;
  if (!all_of(inverse, [](btScalar x) { return x >= 0; })) return "the inertia of a body is negative or not a number";
  return turning ? "a body rotates but has infinite inertia" : "a body has infinite inertia about one axis";
}

unsigned locked_axes(const btRigidBody& body) {
  const BodyKind kind = kind_of(body);
  unsigned locked = 0;
  for (int i = 0; i < 3 && (kind == BodyKind::rigid || kind == BodyKind::particle); ++i) {
    if (body.getLinearFactor()[i] == 0) locked |= 1u << i;
    if (kind == BodyKind::rigid && body.getAngularFactor()[i] == 0) locked |= 8u << i;
  }
  return locked;
}

Pose read_pose(const btTransform& x) {
  return {from_bullet(x.getOrigin()),
          linchpin::detail::rotation_of([&](int i, int k) { return double(x.getBasis()[i][k]); })};
}

void read_state(const btRigidBody& body, BodyState& to) {
  const Pose pose = read_pose(body.getWorldTransform());
  to.p = pose.p;
  to.q = pose.q;
  to.v = from_bullet(body.getLinearVelocity());
  to.w = from_bullet(body.getAngularVelocity());
}

BodyState read_state(const btRigidBody& body) {
  BodyState s;
  read_state(body, s);
  return s;
}

Vector3d read_inertia(const btRigidBody& body) {
  const btVector3& inv = body.getInvInertiaDiagLocal();
  return {1 / double(inv.x()), 1 / double(inv.y()), 1 / double(inv.z())};
}

void write_pose(btTransform& x, const Vector3d& p, const Quaterniond& q) {
  x.setOrigin(to_bullet(p));
  const Matrix3d R = q.toRotationMatrix();
  for (int i = 0; i < 3; ++i) x.getBasis()[i].setValue(btScalar(R(i, 0)), btScalar(R(i, 1)), btScalar(R(i, 2)));
}

Quaterniond host_rotation(const Vector3d& w, double dt) {
  // btTransformUtil::integrateTransform: above π/4 per step the angle is limited, but the axis keeps the full rate.
  double rate = w.norm();
  constexpr double threshold = 0.25 * 3.1415926535897932384626433832795029;
  if (rate * dt > threshold) rate = threshold / dt;
  const Vector3d axis = rate < 0.001 ? Vector3d(w * (0.5 * dt - dt * dt * dt * 0.020833333333 * rate * rate))
                                     : Vector3d(w * (std::sin(0.5 * rate * dt) / rate));
  Quaterniond q(std::cos(0.5 * rate * dt), axis.x(), axis.y(), axis.z());
  return q.normalized();
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
