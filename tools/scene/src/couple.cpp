// Joints whose positions follow one another: mimic joints of a URDF file.
#include "robot.h"

#include <array>
#include <cmath>
#include <numbers>

namespace linchpin::scene {

namespace {

// What one joint contributes to a row: its value with A and b.
struct Contribution {
  double value = 0, rate = 0, b = 0;
  Vector3d linear_P = Vector3d::Zero(), angular_P = Vector3d::Zero();
  Vector3d linear_C = Vector3d::Zero(), angular_C = Vector3d::Zero();
};

Vector3d centripetal(const BodyState& s, const Vector3d& r) { return s.w.cross(s.w.cross(r)); }

// u_P · (p_CQ − p_PQ)
Contribution shift(const CoupledJoint& j, const BodyState& P, const BodyState& C) {
  const Vector3d u = P.q * Vector3d(j.frame_P.axes.col(0));
  const Vector3d r_P = P.q * j.frame_P.origin, r_C = C.q * j.frame_C.origin;
  const Vector3d d = (C.p - P.p) + (r_C - r_P);
  const Vector3d d_dot = C.v + C.w.cross(r_C) - P.v - P.w.cross(r_P), u_dot = P.w.cross(u);
  Contribution out;
  out.value = u.dot(d);
  out.rate = u.dot(d_dot) + u_dot.dot(d);
  out.linear_C = u, out.linear_P = -u;
  out.angular_C = r_C.cross(u);
  out.angular_P = u.cross(d) - r_P.cross(u);
  out.b = -(2 * u_dot.dot(d_dot) + centripetal(P, u).dot(d) + u.dot(centripetal(C, r_C) - centripetal(P, r_P)));
  return out;
}

// The angle from y of P to y of C about x of P, by sine and cosine, so that A and b are those of the residual wherever
// the axes are.
Contribution turn(const CoupledJoint& j, const BodyState& P, const BodyState& C, double near) {
  const Vector3d arrow = C.q * Vector3d(j.frame_C.axes.col(1));
  struct Dot {  // arrow · w, w fixed in P
    Dot(const Vector3d& a, const Vector3d& w, const BodyState& A, const BodyState& B)
        : value(a.dot(w)),
          n(a.cross(w)),
          rate(n.dot(A.w - B.w)),
          b(-(centripetal(A, a).dot(w) + 2 * A.w.cross(a).dot(B.w.cross(w)) + a.dot(centripetal(B, w)))) {}
    double value;
    Vector3d n;
    double rate, b;
  };
  const Dot c(arrow, P.q * Vector3d(j.frame_P.axes.col(1)), C, P),
      s(arrow, P.q * Vector3d(j.frame_P.axes.col(2)), C, P);
  const double r2 = s.value * s.value + c.value * c.value;
  Contribution out;
  out.value = near + std::remainder(std::atan2(s.value, c.value) - near, 2 * std::numbers::pi);
  out.rate = (c.value * s.rate - s.value * c.rate) / r2;
  out.b = (c.value * s.b - s.value * c.b) / r2 + 2 * out.rate * (s.value * s.rate + c.value * c.rate) / r2;
  out.angular_C = (c.value * s.n - s.value * c.n) / r2;
  out.angular_P = -out.angular_C;
  return out;
}

class CoupleFunction final : public ConstraintFunction {
 public:
  CoupleFunction(std::size_t bodies, const CoupledJoint& leader, const CoupledJoint& follower, double multiplier,
                 double offset)
      : K_(bodies),
        joints_{leader, follower},
        weight_{-multiplier, 1},
        offset_(offset),
        last_{leader.start, follower.start} {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<CoupleFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return static_cast<int>(K_); }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return joints_[1].slides ? RowUnit::metre : RowUnit::radian; }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = weight_[0] * of(X, 0).value + weight_[1] * of(X, 1).value - offset_;
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    for (std::size_t i = 0; i < 6 * K_; ++i) out.A[i] = 0;
    double phi = -offset_, phi_dot = 0, b = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      const Contribution c = of(X, k);
      const auto add = [&](int body, const Vector3d& linear, const Vector3d& angular) {
        double* at = &out.A[6 * static_cast<std::size_t>(body)];
        for (Eigen::Index i = 0; i < 3; ++i) at[i] += weight_[k] * linear[i], at[i + 3] += weight_[k] * angular[i];
      };
      add(joints_[k].parent, c.linear_P, c.angular_P);
      add(joints_[k].child, c.linear_C, c.angular_C);
      phi += weight_[k] * c.value, phi_dot += weight_[k] * c.rate, b += weight_[k] * c.b;
    }
    for (std::size_t k = 0; k < K_; ++k)
      for (std::size_t i = 0; i < 3; ++i) {
        const auto e = static_cast<Eigen::Index>(i);
        b -= out.A[6 * k + i] * X[k].a[e] + out.A[6 * k + 3 + i] * X[k].alpha[e];
      }
    out.position[0] = phi, out.velocity[0] = phi_dot, out.b[0] = b;
  }

  void accept(std::span<const BodyState> X, double) override {
    for (std::size_t k = 0; k < 2; ++k) last_[k] = of(X, k).value;
  }

 private:
  Contribution of(std::span<const BodyState> X, std::size_t k) const {
    const CoupledJoint& j = joints_[k];
    const BodyState &P = X[static_cast<std::size_t>(j.parent)], &C = X[static_cast<std::size_t>(j.child)];
    return j.slides ? shift(j, P, C) : turn(j, P, C, last_[k]);
  }

  std::size_t K_;
  std::array<CoupledJoint, 2> joints_;
  std::array<double, 2> weight_;
  double offset_;
  std::array<double, 2> last_;  // unwrapped, at the last accepted step
};

}  // namespace

Constraint couple(std::string name, std::vector<BodyId> bodies, const CoupledJoint& leader,
                  const CoupledJoint& follower, double multiplier, double offset) {
  auto function = std::make_unique<CoupleFunction>(bodies.size(), leader, follower, multiplier, offset);
  return {std::move(name), std::move(bodies), std::move(function)};
}

}  // namespace linchpin::scene
