#include "bodies.h"

#include <cmath>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

bool is(const btVector3& u, btScalar x) { return u.x() == x && u.y() == x && u.z() == x; }

}  // namespace

BodyPart part_of(const btRigidBody& body) {
  if (body.isKinematicObject()) return BodyPart::driven;
  if (body.isStaticObject() || body.getInvMass() == 0) return BodyPart::fixed;
  if (!is(body.getLinearFactor(), 1)) return BodyPart::unsupported;
  const btVector3& inv = body.getInvInertiaDiagLocal();
  if (is(inv, 0) || is(body.getAngularFactor(), 0)) return BodyPart::point;
  if (!is(body.getAngularFactor(), 1)) return BodyPart::unsupported;
  if (inv.x() > 0 && inv.y() > 0 && inv.z() > 0) return BodyPart::rigid;
  return BodyPart::unsupported;
}

const char* why_unsupported(const btRigidBody& body) {
  if (!is(body.getLinearFactor(), 1)) return "a body with a linear factor";
  if (!is(body.getAngularFactor(), 1)) return "a body with an angular factor";
  return "a body with infinite inertia about one axis";
}

Pose read_pose(const btTransform& x) {
  Pose out;
  out.p = from_bullet(x.getOrigin());
  Matrix3d R;
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) R(i, k) = double(x.getBasis()[i][k]);
  out.q = Quaterniond(R).normalized();
  return out;
}

BodyState read_state(const btRigidBody& body) {
  BodyState s;
  const Pose pose = read_pose(body.getWorldTransform());
  s.p = pose.p;
  s.q = pose.q;
  s.v = from_bullet(body.getLinearVelocity());
  s.w = from_bullet(body.getAngularVelocity());
  return s;
}

Matrix3d read_inertia(const btRigidBody& body) {
  const btVector3& inv = body.getInvInertiaDiagLocal();
  return Vector3d(1 / double(inv.x()), 1 / double(inv.y()), 1 / double(inv.z())).asDiagonal();
}

void write_pose(btTransform& x, const Vector3d& p, const Quaterniond& q) {
  x.setOrigin(to_bullet(p));
  const Matrix3d R = q.toRotationMatrix();
  x.getBasis().setValue(btScalar(R(0, 0)), btScalar(R(0, 1)), btScalar(R(0, 2)), btScalar(R(1, 0)), btScalar(R(1, 1)),
                        btScalar(R(1, 2)), btScalar(R(2, 0)), btScalar(R(2, 1)), btScalar(R(2, 2)));
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

void back_off(Vector3d& p, Quaterniond& q, const Vector3d& v, const Vector3d& w, double dt) {
  p -= dt * v;
  q = (host_rotation(w, dt).conjugate() * q).normalized();
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
