#include <linchpin/joint_mapping.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

namespace linchpin::host {

namespace {

using Of = JointRows::Alignment::Of;

/// A right-handed frame with x and y for its first two axes as far as they are square.
Matrix3d frame_with(const Vector3d& x, const Vector3d& y) {
  const Vector3d across = y - x * x.dot(y), e = across.norm() > 1e-3 ? across.normalized() : x.unitOrthogonal();
  Matrix3d out;
  out << x, e, x.cross(e);
  return out;
}

/// A right-handed frame with z for its third axis.
Matrix3d frame_about(const Vector3d& z) {
  const Vector3d x = z.unitOrthogonal();
  return frame_with(x, z.cross(x));
}

}  // namespace

void JointShape::leave(std::string_view part) {
  if (!host_part.empty()) host_part += ", ";
  host_part += part;
}

void JointShape::hold_direction(const JointFrame& a, const JointFrame& b, int i) {
  const Vector3d u = b.axes.col(i);
  for (int k = 0; k < 3; ++k)
    if (k != i) hold_dot(a.axes.col(k), u);
  rows.alignment = {Of::direction, frame_about(a.axes.col(i)), frame_about(u)};
}

void JointShape::hold_orientation(const JointRows::Dot& dot, const Vector3d& x_A, const Vector3d& y_A,
                                  const Vector3d& x_B, const Vector3d& y_B) {
  rows.dots.push_back(dot);
  rows.alignment = {Of::orientation, frame_with(x_A, y_A), frame_with(x_B, y_B)};
}

namespace {

JointFrame squared(const JointFrame& f) {
  const Vector3d w = f.axes.col(2), first = f.axes.col(0);
  Vector3d u = first - w * w.dot(first);
  if (u.norm() < 1e-3) u = w.unitOrthogonal();
  JointFrame out = f;
  out.axes.col(0) = u.normalized();
  out.axes.col(1) = w.cross(Vector3d(out.axes.col(0)));
  return out;
}

bool is_square(const JointFrame& f) {
  return std::abs(f.axes.col(0).dot(f.axes.col(1))) < 1e-4 && std::abs(f.axes.col(0).dot(f.axes.col(2))) < 1e-4;
}

}  // namespace

JointShape hinge_joint(const JointFrame& a, const JointFrame& b, const JointAxis& about, bool holds_point) {
  JointShape s(a, b);
  if (holds_point) s.hold_point();
  s.hold_direction(squared(a), b, 2);
  s.exact_axis[5] = about.is_locked() && is_square(a) && is_square(b);
  if (!s.exact_axis[5]) {
    if (about.lower <= about.upper) s.leave("limits");
    if (about.motor) s.leave("motor");
    return s;
  }
  const Vector3d x_A = a.axes.col(0), y_A = a.axes.col(1), y_B = b.axes.col(1);
  const double c = std::cos(about.lower), sine = std::sin(about.lower);
  const Vector3d x = x_A * c - y_A * sine;
  s.hold_orientation({x, y_B}, x, x_A * sine + y_A * c, b.axes.col(0), y_B);
  return s;
}

JointShape slider_joint(const JointFrame& a, const JointFrame& b, const JointAxis& along, const JointAxis& about) {
  JointShape s(a, b);
  s.breaking_axes = a.axes;
  for (const int i : {1, 2}) s.hold_distance(a.axes.col(i), 0);
  s.hold_direction(a, b, 0);
  s.exact_axis[0] = along.is_locked();
  s.exact_axis[3] = about.is_locked();
  if (s.exact_axis[0])
    s.hold_distance(a.axes.col(0), along.lower);
  else if (along.lower <= along.upper)
    s.leave("linear limits");
  if (along.motor) s.leave("linear motor");
  if (s.exact_axis[3]) {
    const Vector3d x = a.axes.col(0);
    const Vector3d w = a.axes.col(2) * std::cos(about.lower) - a.axes.col(1) * std::sin(about.lower);
    s.hold_orientation({w, b.axes.col(1)}, x, w.cross(x), b.axes.col(0), b.axes.col(1));
  } else if (stops(about.lower, about.upper)) {
    s.leave("angular limits");
  }
  if (about.motor) s.leave("angular motor");
  return s;
}

JointShape cone_twist_joint(const JointFrame& a, const JointFrame& b, bool holds_swing, bool holds_twist) {
  JointShape s(a, b);
  s.hold_point();
  s.exact_axis = {false, false, false, holds_twist, holds_swing, holds_swing};
  if (holds_swing) s.hold_direction(a, b, 0);
  if (holds_twist)
    s.hold_orientation({a.axes.col(2), b.axes.col(1)}, a.axes.col(0), a.axes.col(1), b.axes.col(0), b.axes.col(1));
  return s;
}

bool stops(double lower, double upper) { return lower <= upper && upper - lower < 2 * std::numbers::pi; }

namespace {

/// Angles of a joint that are locked, and no others: where they hold the frames. The middle axis is n = n_A = n_B; a_A
/// and b_B lie at the angle of the middle one across it.
JointRows::Alignment alignment_of(const JointFrame& A, const JointFrame& B, const EulerOrder& o,
                                  const std::array<std::optional<double>, 3>& locked) {
  const auto at = [&](int i) { return locked[static_cast<std::size_t>(i)]; };
  const Vector3d a_A = A.axes.col(o.a), b_A = A.axes.col(o.b), m_A = A.axes.col(o.middle);
  const Vector3d a_B = B.axes.col(o.a), b_B = B.axes.col(o.b), m_B = B.axes.col(o.middle);
  const std::optional<double> a = at(o.a), b = at(o.b), m = at(o.middle);
  const auto c = [](double angle) { return std::cos(angle); };
  const auto s = [&](double angle) { return o.sign * std::sin(angle); };
  Vector3d n_A, n_B, along_A, along_B;  // the middle axis, and where b and a point while the middle angle is zero
  if (a) n_A = m_A * c(*a) + b_A * s(*a), along_A = b_A * c(*a) - m_A * s(*a);
  if (b) n_B = m_B * c(*b) + a_B * s(*b), along_B = a_B * c(*b) - m_B * s(*b);
  const Vector3d b_in_A = a && m ? Vector3d(along_A * c(*m) + a_A * s(*m)) : Vector3d();
  const Vector3d a_in_B = b && m ? Vector3d(along_B * c(*m) + b_B * s(*m)) : Vector3d();
  if (a && b && m) return {Of::orientation, frame_with(b_in_A, n_A), frame_with(b_B, n_B)};
  if (a && b) return {Of::direction, frame_about(n_A), frame_about(n_B)};
  if (a && m) return {Of::direction, frame_about(b_in_A), frame_about(b_B)};
  if (b && m) return {Of::direction, frame_about(a_A), frame_about(a_in_B)};
  if (a) return {Of::angle, frame_with(along_A, n_A), frame_with(b_B, m_B)};
  if (b) return {Of::angle_in_b, frame_with(a_A, m_A), frame_with(along_B, n_B)};
  return {};
}

void leave_free_axes(JointShape& s, const std::array<JointAxis, 6>& axes) {
  static const char* const names[6] = {"x", "y", "z", "rx", "ry", "rz"};
  for (std::size_t i = 0; i < 6; ++i) {
    const JointAxis& x = axes[i];
    if (s.exact_axis[i]) continue;
    const std::string name = names[i];
    if (x.soft)
      s.leave(name + " (the program has set a CFM on this axis)");
    else if (x.stops_at_half_turn ? x.lower <= x.upper : stops(x.lower, x.upper))
      s.leave(name + " limits");
    if (x.motor) s.leave(name + " motor");
    if (x.spring) s.leave(name + " spring");
  }
}

}  // namespace

JointShape six_axis_joint(const JointFrame& a, const JointFrame& b, const std::array<JointAxis, 6>& axes,
                          const EulerOrder& o) {
  JointShape s(a, b);
  s.breaking_axes = a.axes;
  for (std::size_t i = 0; i < 6; ++i) s.exact_axis[i] = axes[i].is_locked();
  leave_free_axes(s, axes);
  const auto held_at_zero = [&](std::size_t i) { return s.exact_axis[i] && axes[i].lower == 0; };
  if (held_at_zero(0) && held_at_zero(1) && held_at_zero(2)) {
    s.hold_point();
  } else {
    for (std::size_t i = 0; i < 3; ++i)
      if (s.exact_axis[i]) s.hold_distance(a.axes.col(static_cast<int>(i)), axes[i].lower);
  }
  const auto ax = [&](int i) -> Vector3d { return a.axes.col(i); };
  const auto bx = [&](int i) -> Vector3d { return b.axes.col(i); };
  std::array<std::optional<double>, 3> locked;
  for (int i = 0; i < 3; ++i) {
    const std::size_t k = static_cast<std::size_t>(i);
    if (!s.exact_axis[k + 3]) continue;
    const double t = axes[k + 3].lower;
    locked[k] = t;
    if (i == o.middle)
      s.hold_dot(ax(o.a), bx(o.b), o.sign * std::sin(t));
    else if (i == o.b)
      s.hold_dot(ax(o.a), bx(o.middle) * std::cos(t) + bx(o.a) * (o.sign * std::sin(t)));
    else
      s.hold_dot(ax(o.middle) * std::cos(t) + ax(o.b) * (o.sign * std::sin(t)), bx(o.b));
  }
  s.rows.alignment = alignment_of(a, b, o, locked);
  return s;
}

namespace {

class BodyGear final : public ConstraintFunction {
 public:
  BodyGear(const Vector3d& u_A, const Vector3d& u_B, double ratio) : axis_{u_A, u_B}, factor_{1, ratio} {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<BodyGear>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 2; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::radian; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = known_ ? turned(X) : 0;
  }
  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    look(X, t);
    std::fill(out.A.begin(), out.A.end(), 0.0);
    out.position[0] = sum_;
    out.velocity[0] = out.b[0] = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      const Vector3d u = factor_[k] * (X[k].q * axis_[k]);
      for (int j = 0; j < 3; ++j) out.A[6 * k + 3 + static_cast<std::size_t>(j)] = u[j];
      out.velocity[0] += u.dot(X[k].w);
      out.b[0] -= u.dot(X[k].alpha);  // d/dt (u·ω) = u·α, for (ω × u)·ω = 0
    }
  }
  void accept(std::span<const BodyState> X, double t) override { look(X, t); }
  std::vector<double> internal_state() const override {
    std::vector<double> out{known_ ? 1.0 : 0.0, sum_, t_};
    for (const Quaterniond& q : last_) out.insert(out.end(), {q.w(), q.x(), q.y(), q.z()});
    return out;
  }
  void set_internal_state(std::span<const double> kept) override {
    if (kept.size() != 11) return;
    known_ = kept[0] != 0;
    sum_ = kept[1];
    t_ = kept[2];
    for (std::size_t k = 0; k < 2; ++k)
      last_[k] = Quaterniond(kept[3 + 4 * k], kept[4 + 4 * k], kept[5 + 4 * k], kept[6 + 4 * k]);
  }

 private:
  // A body that turns by exp([θ]ₓ) at constant rate has turned by u·θ about its own axis u, for u·ω stays constant.
  double turned(std::span<const BodyState> X) const {
    double sum = sum_;
    for (std::size_t k = 0; k < 2; ++k) sum += factor_[k] * (last_[k] * axis_[k]).dot(turn_between(last_[k], X[k].q));
    return sum;
  }
  void look(std::span<const BodyState> X, double t) const {
    const double turn = std::max(X[0].w.norm(), X[1].w.norm()) * std::abs(t - t_);
    sum_ = known_ && turn < std::numbers::pi ? turned(X) : 0;
    last_ = {X[0].q, X[1].q};
    t_ = t;
    known_ = true;
  }

  std::array<Vector3d, 2> axis_;
  std::array<double, 2> factor_;
  mutable std::array<Quaterniond, 2> last_{Quaterniond::Identity(), Quaterniond::Identity()};
  mutable double sum_ = 0, t_ = 0;  // at `last_`
  mutable bool known_ = false;
};

}  // namespace

std::unique_ptr<ConstraintFunction> body_gear(const Vector3d& u_A, const Vector3d& u_B, double ratio) {
  return std::make_unique<BodyGear>(u_A, u_B, ratio);
}

}  // namespace linchpin::host
