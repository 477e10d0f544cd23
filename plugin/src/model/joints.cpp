// Stock joints, derived by hand: every row is one of the primitives P, D, L, a rod, or a gear, with its A and b (T3).
#include <linchpin/detail/class_of.h>
#include <linchpin/joints.h>

#include "model/format.h"
#include "model/stock_joints.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace linchpin {
namespace {

[[noreturn]] void refuse_joint(const std::string& name, const std::string& what) {
  throw std::invalid_argument("constraint '" + name + "': " + what);
}

// One body of a joint with its rotation matrix, computed once for all rows.
struct Body {
  explicit Body(const BodyState& state) : s(state), R(state.R()) {}
  // ω × (ω × r): the acceleration of a body-fixed vector at constant ω.
  Vector3d centripetal(const Vector3d& r) const { return s.w.cross(s.w.cross(r)); }
  const BodyState& s;
  const Matrix3d R;
};

// One row of A, b, φ and φ̇ of a position constraint on K bodies.
class Row {
 public:
  Row(const Linearization& out, std::size_t bodies, std::size_t row) : out_(out), K_(bodies), row_(row) {}
  void body(std::size_t k, const Vector3d& linear, const Vector3d& angular) {
    double* at = &out_.A[(row_ * K_ + k) * 6];
    for (Eigen::Index i = 0; i < 3; ++i) at[i] = linear[i], at[i + 3] = angular[i];
  }
  // φ̇ includes no φ_t, because these constraints depend on time only through their bodies.
  void values(double phi, double phi_dot, double b) {
    out_.position[row_] = phi;
    out_.velocity[row_] = phi_dot;
    out_.b[row_] = b;
  }

 private:
  const Linearization& out_;
  std::size_t K_, row_;
};

// b −= A_k [a; α] for bodies whose acceleration is given.
void subtract_given_accelerations(std::span<const BodyState> X, const Linearization& out) {
  const std::size_t K = X.size();
  for (std::size_t k = 0; k < K; ++k) {
    const BodyState& s = X[k];
    if (s.a.isZero(0) && s.alpha.isZero(0)) continue;
    for (std::size_t i = 0; i < out.b.size(); ++i) {
      const double* A = &out.A[(i * K + k) * 6];
      out.b[i] -=
          A[0] * s.a[0] + A[1] * s.a[1] + A[2] * s.a[2] + A[3] * s.alpha[0] + A[4] * s.alpha[1] + A[5] * s.alpha[2];
    }
  }
}

struct PartPose {
  const Vector3d& p;
  const Eigen::Quaterniond& q;
  Vector3d rotate(const Vector3d& u) const { return q * u; }
};

// All joints that are made of the primitives.
class JointFunction final : public ConstraintFunction {
 public:
  explicit JointFunction(JointRows rows) : rows_(std::move(rows)) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<JointFunction>(*this); }
  int rows() const override { return detail::first_row_of<detail::NoPrimitive>(rows_); }
  int bodies() const override { return 2; }
  Level level() const override { return Level::position; }
  RowUnit unit(int row) const override {
    RowUnit unit{};
    int first = 0;
    detail::for_each_primitive([&]<class P>(P) {
      if (row >= first) unit = P::unit;
      first += P::rows * static_cast<int>(P::of(rows_).size());
    });
    return unit;
  }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    const PartPose A{X[0].p, X[0].q}, B{X[1].p, X[1].q};
    std::size_t at = 0;
    detail::for_each_primitive([&]<class P>(P) {
      for (const auto& fixed : P::of(rows_)) {
        const auto phi = P::residual(fixed, A, B);
        for (int i = 0; i < P::rows; ++i) out[at++] = detail::row_of_value(phi, i);
      }
    });
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    const Matrix3d RA = X[0].R(), RB = X[1].R();
    const detail::TurnedBody A{X[0], RA}, B{X[1], RB};
    std::size_t at_row = 0;
    const auto row = [&](int r) {
      const std::size_t i = at_row + static_cast<std::size_t>(r);
      double* const at = &out.A[12 * i];
      return detail::JointRow{at, at + 6, &out.b[i], &out.position[i], &out.velocity[i]};
    };
    detail::for_each_primitive([&]<class P>(P) {
      for (const auto& fixed : P::of(rows_)) detail::write_rows<P>(fixed, A, B, row), at_row += P::rows;
    });
    subtract_given_accelerations(X, out);
  }

  const JointRows& primitives() const { return rows_; }

 private:
  JointRows rows_;
};

// φ = (d² − l²) / 2l with d = p_AQ − p_BQ. It is a length near the motion, and smooth where the points meet.
class RodFunction final : public ConstraintFunction {
 public:
  RodFunction(const Vector3d& p_AQ, const Vector3d& p_BQ, double length) : p_AQ_(p_AQ), p_BQ_(p_BQ), length_(length) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<RodFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 2; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::metre; }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = phi((X[0].p - X[1].p) + (X[0].q * p_AQ_ - X[1].q * p_BQ_));
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    const Body A(X[0]), B(X[1]);
    const Vector3d rA = A.R * p_AQ_, rB = B.R * p_BQ_;
    const Vector3d d = (A.s.p - B.s.p) + (rA - rB), u = d / length_;
    const Vector3d d_dot = A.s.v + A.s.w.cross(rA) - B.s.v - B.s.w.cross(rB);
    Row row(out, 2, 0);
    row.body(0, u, rA.cross(u));
    row.body(1, -u, u.cross(rB));
    row.values(phi(d), u.dot(d_dot), -(d_dot.squaredNorm() / length_ + u.dot(A.centripetal(rA) - B.centripetal(rB))));
    subtract_given_accelerations(X, out);
  }

 private:
  double phi(const Vector3d& d) const { return (d.squaredNorm() - length_ * length_) / (2 * length_); }
  Vector3d p_AQ_, p_BQ_;
  double length_;
};

// θ_a + ratio·θ_b = constant. The angle is that of an arrow x fixed in the wheel, perpendicular to its axis. It is
// measured in the frame (x, y) fixed in the carrier that coincides with it at the first evaluation. Then θ = atan2(s,
// c) of two D rows, s and c.
class GearFunction final : public ConstraintFunction {
 public:
  GearFunction(const Vector3d& u_A, const Vector3d& u_B, double ratio) : axis_{u_A, u_B}, ratio_(ratio) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<GearFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 3; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::radian; }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    set_frames(X);
    out[0] = angle(X, 0) + ratio_ * angle(X, 1);
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    set_frames(X);
    const Body carrier(X[2]);
    Row row(out, 3, 0);
    Vector3d on_carrier = Vector3d::Zero();
    double phi = 0, phi_dot = 0, b = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      const double weight = k == 0 ? 1 : ratio_;
      const Body wheel(X[k]);
      const Vector3d arrow = wheel.R * turn_[k].arrow, x = carrier.R * turn_[k].x, y = carrier.R * turn_[k].y;
      const Cosine c(arrow, x, wheel, carrier), s(arrow, y, wheel, carrier);
      const double r2 = s.value * s.value + c.value * c.value;
      const double rate = (c.value * s.rate - s.value * c.rate) / r2;
      const Vector3d n = (c.value * s.n - s.value * c.n) / r2;
      phi += weight * unwrapped(std::atan2(s.value, c.value), turn_[k].last);
      phi_dot += weight * rate;
      b += weight * ((c.value * s.b - s.value * c.b) / r2 + 2 * rate * (s.value * s.rate + c.value * c.rate) / r2);
      row.body(k, Vector3d::Zero(), weight * n);
      on_carrier -= weight * n;
    }
    row.body(2, Vector3d::Zero(), on_carrier);
    row.values(phi, phi_dot, b);
    subtract_given_accelerations(X, out);
  }

  void accept(std::span<const BodyState> X, double) override {
    set_frames(X);
    for (std::size_t k = 0; k < 2; ++k) turn_[k].last = angle(X, k);
  }

  std::vector<double> internal_state() const override {
    std::vector<double> out{frames_known_ ? 1.0 : 0.0};
    for (const Turn& turn : turn_) {
      for (const Vector3d* u : {&turn.arrow, &turn.x, &turn.y}) out.insert(out.end(), u->data(), u->data() + 3);
      out.push_back(turn.last);
    }
    return out;
  }
  void set_internal_state(std::span<const double> kept) override {
    if (kept.size() != 21) return;
    frames_known_ = kept[0] != 0;
    const double* from = &kept[1];
    for (Turn& turn : turn_) {
      for (Vector3d* u : {&turn.arrow, &turn.x, &turn.y})
        *u = Eigen::Map<const Vector3d>(std::exchange(from, from + 3));
      turn.last = *from++;
    }
  }

 private:
  struct Turn {
    Vector3d arrow;   // In axes of the wheel.
    Vector3d x, y;    // In axes of the carrier.
    double last = 0;  // Unwrapped angle at the last accepted step.
  };
  // A D row between wheel and carrier, without its columns: they are n on the wheel and −n on the carrier.
  struct Cosine {
    Cosine(const Vector3d& u, const Vector3d& w, const Body& A, const Body& B)
        : value(u.dot(w)),
          n(u.cross(w)),
          rate(n.dot(A.s.w - B.s.w)),
          b(-(A.centripetal(u).dot(w) + 2 * A.s.w.cross(u).dot(B.s.w.cross(w)) + u.dot(B.centripetal(w)))) {}
    double value;
    Vector3d n;
    double rate, b;
  };

  static double unwrapped(double theta, double last) {
    return last + std::remainder(theta - last, 2 * std::numbers::pi);
  }

  double angle(std::span<const BodyState> X, std::size_t k) const {
    const Vector3d arrow = X[2].q.conjugate() * (X[k].q * turn_[k].arrow);
    return unwrapped(std::atan2(arrow.dot(turn_[k].y), arrow.dot(turn_[k].x)), turn_[k].last);
  }

  // Sets the frames in the carrier at the first evaluation.
  void set_frames(std::span<const BodyState> X) const {
    if (frames_known_) return;
    for (std::size_t k = 0; k < 2; ++k) {
      const Quaterniond to_carrier = X[2].q.conjugate() * X[k].q;
      Turn& turn = turn_[k];
      turn.arrow = axis_[k].unitOrthogonal();
      turn.x = to_carrier * turn.arrow;
      turn.y = (to_carrier * axis_[k]).cross(turn.x);
    }
    frames_known_ = true;
  }

  std::array<Vector3d, 2> axis_;
  double ratio_;
  mutable std::array<Turn, 2> turn_;
  mutable bool frames_known_ = false;
};

// Two unit vectors that make a right-handed frame with u.
std::array<Vector3d, 2> perpendiculars(const Vector3d& u) {
  const Vector3d e = u.unitOrthogonal();
  return {e, u.cross(e)};
}

// The dots of the two axes also vanish where the axes are opposite.
void keep_along(JointRows& rows, const Vector3d& u_A, const Vector3d& u_B) {
  for (const Vector3d& e : perpendiculars(u_A)) rows.dots.push_back({e, u_B, 0});
  rows.alignment.of = JointRows::Alignment::Of::direction;
  rows.alignment.A << rows.dots[0].u_A, rows.dots[1].u_A, u_A;
  const auto [x, y] = perpendiculars(u_B);
  rows.alignment.B << x, y, u_B;
}

void keep_on_line(JointRows& rows, const Vector3d& p_AQ, const Vector3d& u_A, const Vector3d& p_BQ) {
  for (const Vector3d& e : perpendiculars(u_A)) rows.axes.push_back({e, p_AQ, p_BQ, 0});
}

// x·y, y·z and z·x of two frames vanish together where the frames agree. They also vanish where these differ by half
// turns about an axis, or by third turns about a diagonal.
void keep_orientation(JointRows& rows, const JointFrame& A, const JointFrame& B) {
  for (Eigen::Index i = 0; i < 3; ++i) rows.dots.push_back({A.axes.col(i), B.axes.col((i + 1) % 3), 0});
  rows.alignment = {JointRows::Alignment::Of::orientation, A.axes, B.axes};
}

void require_frame(const std::string& name, const char* what, const JointFrame& frame) {
  detail::require_finite(name, what, frame.origin);
  // A frame from a single-precision host must pass.
  const double error = (frame.axes.transpose() * frame.axes - Matrix3d::Identity()).cwiseAbs().maxCoeff();
  if (!(error <= 1e-5) || !(frame.axes.determinant() > 0))
    refuse_joint(name, std::string(what) + ": its axes must be a rotation (columns unit, perpendicular, right-handed)");
}

double positive(const std::string& name, const char* what, double x) {
  if (!(x > 0) || !std::isfinite(x))
    refuse_joint(name, std::string(what) + " must be positive and finite, got " + text(x));
  return x;
}

double finite(const std::string& name, const char* what, double x) {
  if (!std::isfinite(x)) refuse_joint(name, std::string(what) + " must be finite, got " + text(x));
  return x;
}

}  // namespace

namespace detail {

const JointRows* rows_of(const ConstraintFunction& function) {
  return is_exactly<JointFunction>(function) ? &static_cast<const JointFunction&>(function).primitives() : nullptr;
}

const JointRows::Alignment* alignment_of(const ConstraintFunction& function) {
  const JointRows* rows = rows_of(function);
  return rows && rows->alignment.of != JointRows::Alignment::Of::nothing ? &rows->alignment : nullptr;
}

double linearize_way_back(const ConstraintFunction& function, std::span<const BodyState> X, Linearization out) {
  const JointRows::Alignment* const alignment = alignment_of(function);
  if (!alignment) return 0;
  const Matrix3d RA = X[0].R(), RB = X[1].R();
  const Misalignment off = misalignment(*alignment, RA, RB);
  if (!off.far) return 0;
  const JointRows& rows = *rows_of(function);
  const auto dots = static_cast<std::size_t>(first_row_of<DotPrimitive>(rows));
  write_misalignment(off, alignment->held(), TurnedBody{X[0], RA}, TurnedBody{X[1], RB}, [&](int r) {
    const std::size_t row = dots + static_cast<std::size_t>(r);
    double* const at = &out.A[12 * row];
    return JointRow{at, at + 6, &out.b[row], &out.position[row], &out.velocity[row]};
  });
  return off.turn.norm();
}

Vector3d unit_axis(const std::string& joint, const char* what, const Vector3d& u) {
  const double length = u.norm();
  if (!std::isfinite(length) || !(length > 1e-12))
    refuse_joint(joint, std::string(what) + " must have a direction, got " + text(u));
  return u / length;
}

void require_finite(const std::string& joint, const char* what, const Vector3d& p) {
  if (!p.allFinite()) refuse_joint(joint, std::string(what) + " must be finite, got " + text(p) + " m");
}

}  // namespace detail

namespace joints {

using detail::unit_axis;

Constraint joint(std::string name, BodyId a, BodyId b, JointRows rows, const Vector3d& application_A,
                 const Vector3d& application_B) {
  for (JointRows::Point& p : rows.points) {
    detail::require_finite(name, detail::anchor_on_a, p.p_AQ);
    detail::require_finite(name, detail::anchor_on_b, p.p_BQ);
  }
  for (JointRows::Axis& l : rows.axes) {
    l.u_A = unit_axis(name, "u_A", l.u_A);
    detail::require_finite(name, detail::anchor_on_a, l.p_AQ);
    detail::require_finite(name, detail::anchor_on_b, l.p_BQ);
    finite(name, "d0", l.d0);
  }
  for (JointRows::Dot& d : rows.dots) {
    d.u_A = unit_axis(name, "u_A", d.u_A);
    d.w_B = unit_axis(name, "w_B", d.w_B);
    finite(name, "c", d.c);
  }
  if (rows.alignment.of != JointRows::Alignment::Of::nothing) {
    require_frame(name, "alignment.A", {Vector3d::Zero(), rows.alignment.A});
    require_frame(name, "alignment.B", {Vector3d::Zero(), rows.alignment.B});
    if (rows.alignment.held() > static_cast<int>(rows.dots.size()))
      refuse_joint(name, "alignment stands for " + std::to_string(rows.alignment.held()) + " dot products, but " +
                             std::to_string(rows.dots.size()) + (rows.dots.size() == 1 ? " is" : " are") + " given");
  }
  const bool slides = rows.points.empty() && !rows.axes.empty();
  Constraint made(std::move(name), {a, b}, std::make_unique<JointFunction>(std::move(rows)));
  made.set_application_points({application_A, application_B});
  return slides ? made.set_sliding_body(1) : made;
}

Constraint ball(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ) {
  JointRows rows;
  rows.points.push_back({p_AQ, p_BQ});
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint hinge(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b, const Vector3d& p_BQ,
                 const Vector3d& u_B) {
  JointRows rows;
  rows.points.push_back({p_AQ, p_BQ});
  keep_along(rows, unit_axis(name, "u_A", u_A), unit_axis(name, "u_B", u_B));
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint slider(std::string name, BodyId a, const JointFrame& frame_A, BodyId b, const JointFrame& frame_B) {
  require_frame(name, "frame_A", frame_A);
  require_frame(name, "frame_B", frame_B);
  JointRows rows;
  for (Eigen::Index i = 1; i < 3; ++i) rows.axes.push_back({frame_A.axes.col(i), frame_A.origin, frame_B.origin, 0});
  keep_orientation(rows, frame_A, frame_B);
  return joint(std::move(name), a, b, std::move(rows), frame_A.origin, frame_B.origin);
}

Constraint weld(std::string name, BodyId a, const JointFrame& frame_A, BodyId b, const JointFrame& frame_B) {
  require_frame(name, "frame_A", frame_A);
  require_frame(name, "frame_B", frame_B);
  JointRows rows;
  rows.points.push_back({frame_A.origin, frame_B.origin});
  keep_orientation(rows, frame_A, frame_B);
  return joint(std::move(name), a, b, std::move(rows), frame_A.origin, frame_B.origin);
}

Constraint universal(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                     const Vector3d& p_BQ, const Vector3d& u_B) {
  JointRows rows;
  rows.points.push_back({p_AQ, p_BQ});
  rows.dots.push_back({unit_axis(name, "u_A", u_A), unit_axis(name, "u_B", u_B), 0});
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint cylindrical(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                       const Vector3d& p_BQ, const Vector3d& u_B) {
  const Vector3d u = unit_axis(name, "u_A", u_A);
  JointRows rows;
  keep_on_line(rows, p_AQ, u, p_BQ);
  keep_along(rows, u, unit_axis(name, "u_B", u_B));
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint planar(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b, const Vector3d& p_BQ,
                  const Vector3d& u_B) {
  JointRows rows;
  rows.axes.push_back({u_A, p_AQ, p_BQ, 0});
  keep_along(rows, unit_axis(name, "u_A", u_A), unit_axis(name, "u_B", u_B));
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint point_on_line(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                         const Vector3d& p_BQ) {
  JointRows rows;
  keep_on_line(rows, p_AQ, unit_axis(name, "u_A", u_A), p_BQ);
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

Constraint point_on_plane(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                          const Vector3d& p_BQ) {
  return axis_row(std::move(name), a, p_AQ, u_A, b, p_BQ, 0);
}

Constraint rod(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ, double length) {
  detail::require_finite(name, detail::anchor_on_a, p_AQ);
  detail::require_finite(name, detail::anchor_on_b, p_BQ);
  positive(name, "length", length);
  Constraint made(std::move(name), {a, b}, std::make_unique<RodFunction>(p_AQ, p_BQ, length));
  return made.set_application_points({p_AQ, p_BQ});
}

Constraint point_on_sphere(std::string name, BodyId a, const Vector3d& p_AQ, double radius, BodyId b,
                           const Vector3d& p_BQ) {
  positive(name, "radius", radius);
  return rod(std::move(name), a, p_AQ, b, p_BQ, radius).set_sliding_body(1);
}

Constraint gear(std::string name, BodyId a, const Vector3d& u_A, BodyId b, const Vector3d& u_B, double ratio,
                BodyId carrier) {
  const Vector3d uA = unit_axis(name, "u_A", u_A), uB = unit_axis(name, "u_B", u_B);
  if (!std::isfinite(ratio) || ratio == 0) refuse_joint(name, "ratio must be finite and not 0, got " + text(ratio));
  return {std::move(name), {a, b, carrier}, std::make_unique<GearFunction>(uA, uB, ratio)};
}

Constraint dot_row(std::string name, BodyId a, const Vector3d& u_A, BodyId b, const Vector3d& w_B, double c) {
  JointRows rows;
  rows.dots.push_back({u_A, w_B, c});
  return joint(std::move(name), a, b, std::move(rows), Vector3d::Zero(), Vector3d::Zero());
}

Constraint axis_row(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                    const Vector3d& p_BQ, double d0) {
  JointRows rows;
  rows.axes.push_back({u_A, p_AQ, p_BQ, d0});
  return joint(std::move(name), a, b, std::move(rows), p_AQ, p_BQ);
}

}  // namespace joints

}  // namespace linchpin
