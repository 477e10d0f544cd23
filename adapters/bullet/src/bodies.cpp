#include "bodies.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

bool is(const btVector3& u, btScalar x) { return u.x() == x && u.y() == x && u.z() == x; }
bool is_point(const btRigidBody& body) {
  return is(body.getInvInertiaDiagLocal(), 0) || is(body.getAngularFactor(), 0);
}
bool zeros_and_ones(const btVector3& u) {
  for (int i = 0; i < 3; ++i)
    if (u[i] != 0 && u[i] != 1) return false;
  return true;
}

class HeldAxes final : public ConstraintFunction {
 public:
  explicit HeldAxes(unsigned locked) {
    for (int i = 0; i < 6; ++i)
      if (locked >> i & 1u) axis_[static_cast<std::size_t>(count_++)] = i;
  }
  int rows() const override { return count_; }
  int bodies() const override { return 1; }
  Level level() const override { return Level::acceleration; }
  RowUnit unit(int) const override { return RowUnit::own; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    for (std::size_t r = 0; r < out.size(); ++r) out[r] = axis_[r] < 3 ? X[0].a[axis_[r]] : X[0].alpha[axis_[r] - 3];
  }
  void linearize(std::span<const BodyState>, double, Linearization out) const override {
    for (auto* x : {&out.A, &out.b, &out.position, &out.velocity}) std::fill(x->begin(), x->end(), 0.0);
    for (std::size_t r = 0; r < out.b.size(); ++r) out.A[6 * r + static_cast<std::size_t>(axis_[r])] = 1;
  }

 private:
  int count_ = 0;
  std::array<int, 6> axis_{};
};

}  // namespace

// By the program, or by Bullet where a body has left all bounds: it has a velocity, but is not moved by it.
bool is_disabled(const btRigidBody& body) { return body.getActivationState() == DISABLE_SIMULATION; }

bool is_turning_point(const btRigidBody& body) { return is_point(body) && !body.getAngularVelocity().isZero(); }

BodyPart part_of(const btRigidBody& body) {
  if (body.isKinematicObject()) return BodyPart::driven;
  if (body.isStaticObject() || body.getInvMass() == 0 || is_disabled(body)) return BodyPart::fixed;
  if (!zeros_and_ones(body.getLinearFactor())) return BodyPart::unsupported;
  const btVector3& inv = body.getInvInertiaDiagLocal();
  if (is_turning_point(body)) return BodyPart::unsupported;
  if (is_point(body)) return BodyPart::point;
  if (!zeros_and_ones(body.getAngularFactor())) return BodyPart::unsupported;
  if (inv.x() > 0 && inv.y() > 0 && inv.z() > 0) return BodyPart::rigid;
  return BodyPart::unsupported;
}

const char* why_unsupported(const btRigidBody& body) {
  if (!zeros_and_ones(body.getLinearFactor())) return "a body with a linear factor other than 0 and 1";
  if (!zeros_and_ones(body.getAngularFactor())) return "a body with an angular factor other than 0 and 1";
  const btVector3& inv = body.getInvInertiaDiagLocal();
  for (int i = 0; i < 3; ++i)
    if (!(inv[i] >= 0)) return "a body with an inertia that is negative or not a number";
  if (is_turning_point(body)) return "a body that turns and that no moment can turn";
  return "a body with infinite inertia about one axis";
}

unsigned locked_axes(const btRigidBody& body) {
  const BodyPart part = part_of(body);
  unsigned locked = 0;
  if (part != BodyPart::rigid && part != BodyPart::point) return locked;
  for (int i = 0; i < 3; ++i) {
    if (body.getLinearFactor()[i] == 0) locked |= 1u << i;
    if (part == BodyPart::rigid && body.getAngularFactor()[i] == 0) locked |= 8u << i;
  }
  return locked;
}

std::shared_ptr<ConstraintFunction> hold_axes(unsigned locked) { return std::make_shared<HeldAxes>(locked); }

// Not by way of a Matrix3d: several times for each body and step, and its way through memory was most of the time.
Pose read_pose(const btTransform& x) {
  const btMatrix3x3& R = x.getBasis();
  const auto r = [&](int i, int k) { return double(R[i][k]); };
  // The largest of the four is found from the diagonal, the others over it: all four times that one.
  double q[4];  // x, y, z, w
  const double xx = r(0, 0), yy = r(1, 1), zz = r(2, 2), trace = xx + yy + zz;
  if (trace > 0) {
    q[0] = r(2, 1) - r(1, 2), q[1] = r(0, 2) - r(2, 0), q[2] = r(1, 0) - r(0, 1), q[3] = 1 + trace;
  } else if (xx >= yy && xx >= zz) {
    q[0] = 1 + xx - yy - zz, q[1] = r(0, 1) + r(1, 0), q[2] = r(0, 2) + r(2, 0), q[3] = r(2, 1) - r(1, 2);
  } else if (yy >= zz) {
    q[0] = r(0, 1) + r(1, 0), q[1] = 1 + yy - xx - zz, q[2] = r(1, 2) + r(2, 1), q[3] = r(0, 2) - r(2, 0);
  } else {
    q[0] = r(0, 2) + r(2, 0), q[1] = r(1, 2) + r(2, 1), q[2] = 1 + zz - xx - yy, q[3] = r(1, 0) - r(0, 1);
  }
  const double scale = 1 / std::sqrt((q[0] * q[0] + q[1] * q[1]) + (q[2] * q[2] + q[3] * q[3]));
  return {from_bullet(x.getOrigin()), {scale * q[3], scale * q[0], scale * q[1], scale * q[2]}};
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

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
