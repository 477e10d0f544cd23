// Bullet's joints as rows of the primitives point, axis and dot; see docs/theory.md and joints.h of the core.
#include "joints.h"

#include "bodies.h"
#include "class_of.h"

#include <BulletDynamics/ConstraintSolver/btConeTwistConstraint.h>
#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGearConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpringConstraint.h>
#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btUniversalConstraint.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

struct Frame {
  Vector3d origin;
  std::array<Vector3d, 3> axis;  // unit; of the joint frame, in body axes
};

Frame frame_of(const btTransform& f) {
  Frame out;
  out.origin = from_bullet(f.getOrigin());
  for (int i = 0; i < 3; ++i)
    out.axis[static_cast<std::size_t>(i)] = from_bullet(f.getBasis().getColumn(i)).normalized();
  return out;
}

// Bullet's hinge constructors may leave the first two columns skewed: only the axis is to be trusted.
void square_up(Frame& f) {
  const Vector3d z = f.axis[2];
  Vector3d x = f.axis[0] - z * z.dot(f.axis[0]);
  if (x.norm() < 1e-3) x = z.unitOrthogonal();
  f.axis[0] = x.normalized();
  f.axis[1] = z.cross(f.axis[0]);
}

// Right-handed, with these for the first two axes as far as they are square, or this for the third.
Matrix3d frame_with(const Vector3d& x, const Vector3d& y) {
  const Vector3d across = y - x * x.dot(y), e = across.norm() > 1e-3 ? across.normalized() : x.unitOrthogonal();
  Matrix3d out;
  out << x, e, x.cross(e);
  return out;
}
Matrix3d frame_about(const Vector3d& z) {
  const Vector3d x = z.unitOrthogonal();
  return frame_with(x, z.cross(x));
}

using Of = JointRows::Alignment::Of;

bool orthonormal(const btTransform& f) {
  const Frame g = frame_of(f);
  return std::abs(g.axis[0].dot(g.axis[1])) < 1e-4 && std::abs(g.axis[0].dot(g.axis[2])) < 1e-4;
}

void add(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += ", ";
  text += more;
}

JointShape point_to_point(btPoint2PointConstraint& joint) {
  JointShape s;
  if (joint.m_setting.m_impulseClamp != 0) {
    s.native = "all (impulse clamp)";
    return s;
  }
  if (joint.getFlags() & BT_P2P_FLAGS_CFM) {
    s.native = "all (soft: CFM set)";
    return s;
  }
  s.acting_A = from_bullet(joint.getPivotInA());
  s.acting_B = from_bullet(joint.getPivotInB());
  s.rows.points.push_back({s.acting_A, s.acting_B});
  return s;
}

// Bullet brings angles to −π … π before it compares them with limits: those that span a whole turn stop nothing.
constexpr double half_turn = double(SIMD_PI), whole_turn = double(SIMD_2_PI);
bool stops(double lower, double upper) { return lower <= upper && upper - lower < whole_turn; }

// getLowerLimit() and getUpperLimit() of a hinge lie between −π and π, where a lock, whole turns and no limits may read
// alike. Half of what they span is private and has no accessor; an explicit instantiation may name it.
const btAngularLimit& limit_in(const btHingeConstraint& joint);
template <auto limit>
struct LimitPeek {
  friend const btAngularLimit& limit_in(const btHingeConstraint& joint) { return joint.*limit; }
};
template struct LimitPeek<&btHingeConstraint::m_limit>;

enum class HingeLimits { none, locked, stops };
HingeLimits limits_of(const btHingeConstraint& joint) {
  const double half_range = double(limit_in(joint).getHalfRange());
  if (half_range == 0) return HingeLimits::locked;
  return half_range > 0 && half_range < half_turn ? HingeLimits::stops : HingeLimits::none;
}

JointShape hinge_shape(btHingeConstraint& joint) {
  JointShape s;
  if (joint.getFlags() & BT_HINGE_FLAGS_CFM_NORM) {
    s.native = "all (soft: CFM set)";
    return s;
  }
  Frame a = frame_of(joint.getAFrame()), b = frame_of(joint.getBFrame());
  square_up(a);
  s.acting_A = a.origin;
  s.acting_B = b.origin;
  if (!joint.getAngularOnly()) s.rows.points.push_back({a.origin, b.origin});
  s.rows.dots.push_back({a.axis[0], b.axis[2], 0});
  s.rows.dots.push_back({a.axis[1], b.axis[2], 0});
  s.rows.alignment = {Of::direction, frame_about(a.axis[2]), frame_about(b.axis[2])};
  const HingeLimits limits = limits_of(joint);
  if (limits == HingeLimits::locked && !joint.getEnableAngularMotor() &&
      !(joint.getFlags() & BT_HINGE_FLAGS_CFM_STOP) && orthonormal(joint.getAFrame()) &&
      orthonormal(joint.getBFrame())) {
    // Bullet's angle is sign·atan2(y_B·x_A, y_B·y_A), sign −1 when A is the reference.
    const double angle = (joint.getUseReferenceFrameA() ? -1.0 : 1.0) * double(joint.getLowerLimit());
    const Frame raw = frame_of(joint.getAFrame());
    const Vector3d x = raw.axis[0] * std::cos(angle) - raw.axis[1] * std::sin(angle);
    s.rows.dots.push_back({x, b.axis[1], 0});
    s.rows.alignment = {Of::orientation, frame_with(x, raw.axis[0] * std::sin(angle) + raw.axis[1] * std::cos(angle)),
                        frame_with(b.axis[0], b.axis[1])};
    s.limit_locked = true;
  } else {
    if (limits != HingeLimits::none) add(s.native, "limits");
    if (joint.getEnableAngularMotor()) add(s.native, "motor");
    s.may_emit_native = !s.native.empty();
  }
  return s;
}

JointShape slider_shape(btSliderConstraint& joint) {
  JointShape s;
  constexpr int soft = BT_SLIDER_FLAGS_CFM_ORTLIN | BT_SLIDER_FLAGS_CFM_ORTANG;
  if (joint.getFlags() & soft) {
    s.native = "all (soft: CFM set)";
    return s;
  }
  const Frame a = frame_of(joint.getFrameOffsetA()), b = frame_of(joint.getFrameOffsetB());
  s.acting_A = a.origin;
  s.acting_B = b.origin;
  s.row_axes_A << a.axis[0], a.axis[1], a.axis[2];
  s.row_axes_world = false;
  s.rows.axes.push_back({a.axis[1], a.origin, b.origin, 0});
  s.rows.axes.push_back({a.axis[2], a.origin, b.origin, 0});
  s.rows.dots.push_back({a.axis[1], b.axis[0], 0});
  s.rows.dots.push_back({a.axis[2], b.axis[0], 0});
  s.rows.alignment = {Of::direction, frame_about(a.axis[0]), frame_about(b.axis[0])};
  if (joint.getLowerLinLimit() == joint.getUpperLinLimit() && !joint.getPoweredLinMotor() &&
      !(joint.getFlags() & BT_SLIDER_FLAGS_CFM_LIMLIN)) {
    const double at = double(joint.getLowerLinLimit()) * (joint.getUseLinearReferenceFrameA() ? 1.0 : -1.0);
    s.rows.axes.push_back({a.axis[0], a.origin, b.origin, at});
    s.exact_axis[0] = true;
  } else {
    if (joint.getLowerLinLimit() <= joint.getUpperLinLimit()) add(s.native, "linear limits");
    if (joint.getPoweredLinMotor()) add(s.native, "linear motor");
  }
  if (joint.getLowerAngLimit() == joint.getUpperAngLimit() && !joint.getPoweredAngMotor() &&
      !(joint.getFlags() & BT_SLIDER_FLAGS_CFM_LIMANG)) {
    const double t = double(joint.getLowerAngLimit());  // y_B leads y_A by t about x
    const Vector3d z = a.axis[2] * std::cos(t) - a.axis[1] * std::sin(t);
    s.rows.dots.push_back({z, b.axis[1], 0});
    s.rows.alignment = {Of::orientation, frame_with(a.axis[0], z.cross(a.axis[0])), frame_with(b.axis[0], b.axis[1])};
    s.exact_axis[3] = true;
  } else {
    if (stops(double(joint.getLowerAngLimit()), double(joint.getUpperAngLimit()))) add(s.native, "angular limits");
    if (joint.getPoweredAngMotor()) add(s.native, "angular motor");
  }
  s.may_emit_native = !s.native.empty();
  return s;
}

// One axis of a 6dof joint, whichever class it is.
struct Axis6 {
  double lo = 1, hi = -1;  // free
  bool motor = false, spring = false, soft = false;
  bool acts_ahead = true;  // its limit rows act before the limit is reached: at half a turn, too
  bool limited() const { return acts_ahead ? lo <= hi : stops(lo, hi); }
};

// The rotation order: which axis of A (a) and of B (b) span the Euler angles, the middle one m, and the parity σ.
struct EulerOrder {
  int a, b, m;
  double sigma;
};
EulerOrder euler_order(int order) {
  switch (order) {
    case RO_XZY:
      return {1, 0, 2, -1};
    case RO_YXZ:
      return {2, 1, 0, -1};
    case RO_YZX:
      return {0, 1, 2, 1};
    case RO_ZXY:
      return {1, 2, 0, 1};
    case RO_ZYX:
      return {0, 2, 1, -1};
    default:
      return {2, 0, 1, 1};  // XYZ
  }
}

// Angles of a 6dof joint locked at t, and no others: where they hold the frames. The middle axis is n = n_A = n_B, and
// a_A and β_B lie at the angle of the middle one across it.
JointRows::Alignment alignment_of(const Frame& A, const Frame& B, const EulerOrder& o,
                                  const std::array<std::optional<double>, 3>& t) {
  const auto z = [](int i) { return static_cast<std::size_t>(i); };
  const Vector3d &a_A = A.axis[z(o.a)], &b_A = A.axis[z(o.b)], &m_A = A.axis[z(o.m)];
  const Vector3d &a_B = B.axis[z(o.a)], &b_B = B.axis[z(o.b)], &m_B = B.axis[z(o.m)];
  const std::optional<double>&a = t[z(o.a)], &b = t[z(o.b)], &m = t[z(o.m)];
  const auto c = [](double angle) { return std::cos(angle); };
  const auto s = [&](double angle) { return o.sigma * std::sin(angle); };
  Vector3d n_A, n_B, along_A, along_B;  // the middle axis, and where β and a point while the middle angle is zero
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

JointShape six_axes(const btTransform& frame_a, const btTransform& frame_b, const std::array<Axis6, 6>& axes,
                    const EulerOrder& o) {
  JointShape s;
  const Frame a = frame_of(frame_a), b = frame_of(frame_b);
  s.acting_A = a.origin;
  s.acting_B = b.origin;
  s.row_axes_A << a.axis[0], a.axis[1], a.axis[2];
  s.row_axes_world = false;
  static const char* const names[6] = {"x", "y", "z", "rx", "ry", "rz"};
  for (std::size_t i = 0; i < 6; ++i) {
    const Axis6& x = axes[i];
    s.exact_axis[i] = x.lo == x.hi && !x.motor && !x.spring && !x.soft;
    if (s.exact_axis[i]) continue;
    const std::string name = names[i];
    if (x.soft)
      add(s.native, name + " soft");
    else if (x.limited())
      add(s.native, name + " limits");
    if (x.motor) add(s.native, name + " motor");
    if (x.spring) add(s.native, name + " spring");
  }
  const bool point =
      s.exact_axis[0] && s.exact_axis[1] && s.exact_axis[2] && axes[0].lo == 0 && axes[1].lo == 0 && axes[2].lo == 0;
  if (point) {
    s.rows.points.push_back({a.origin, b.origin});
  } else {
    for (std::size_t i = 0; i < 3; ++i)
      if (s.exact_axis[i]) s.rows.axes.push_back({a.axis[i], a.origin, b.origin, axes[i].lo});
  }
  const auto ax = [&](int i) { return a.axis[static_cast<std::size_t>(i)]; };
  const auto bx = [&](int i) { return b.axis[static_cast<std::size_t>(i)]; };
  std::array<std::optional<double>, 3> locked;
  for (int i = 0; i < 3; ++i) {
    if (!s.exact_axis[static_cast<std::size_t>(i + 3)]) continue;
    const double t = axes[static_cast<std::size_t>(i + 3)].lo;
    locked[static_cast<std::size_t>(i)] = t;
    if (i == o.m)
      s.rows.dots.push_back({ax(o.a), bx(o.b), o.sigma * std::sin(t)});
    else if (i == o.b)
      s.rows.dots.push_back({ax(o.a), bx(o.m) * std::cos(t) + bx(o.a) * (o.sigma * std::sin(t)), 0});
    else
      s.rows.dots.push_back({ax(o.m) * std::cos(t) + ax(o.b) * (o.sigma * std::sin(t)), bx(o.b), 0});
  }
  s.rows.alignment = alignment_of(a, b, o, locked);
  s.may_emit_native = !s.native.empty();
  return s;
}

std::array<Axis6, 6> axes_of(btGeneric6DofConstraint& joint) {
  std::array<Axis6, 6> out;
  const auto* lin = joint.getTranslationalLimitMotor();
  auto* spring = as<btGeneric6DofSpringConstraint>(joint);
  for (int i = 0; i < 3; ++i) {
    auto& x = out[static_cast<std::size_t>(i)];
    x = {double(lin->m_lowerLimit[i]), double(lin->m_upperLimit[i]), lin->m_enableMotor[i],
         spring && spring->isSpringEnabled(i), lin->m_stopCFM[i] != 0 || lin->m_normalCFM[i] != 0};
    auto& y = out[static_cast<std::size_t>(i + 3)];
    const auto* rot = joint.getRotationalLimitMotor(i);
    y = {double(rot->m_loLimit),
         double(rot->m_hiLimit),
         rot->m_enableMotor,
         spring && spring->isSpringEnabled(i + 3),
         rot->m_stopCFM != 0 || rot->m_normalCFM != 0,
         false};
  }
  return out;
}

std::array<Axis6, 6> axes_of(btGeneric6DofSpring2Constraint& joint) {
  std::array<Axis6, 6> out;
  const auto* lin = joint.getTranslationalLimitMotor();
  for (int i = 0; i < 3; ++i) {
    out[static_cast<std::size_t>(i)] = {double(lin->m_lowerLimit[i]), double(lin->m_upperLimit[i]),
                                        lin->m_enableMotor[i], lin->m_enableSpring[i], lin->m_stopCFM[i] != 0};
    const auto* rot = joint.getRotationalLimitMotor(i);
    out[static_cast<std::size_t>(i + 3)] = {double(rot->m_loLimit), double(rot->m_hiLimit), rot->m_enableMotor,
                                            rot->m_enableSpring, rot->m_stopCFM != 0};
  }
  return out;
}

JointShape cone_twist_shape(btConeTwistConstraint& joint) {
  JointShape s;
  if (joint.getFlags() & BT_CONETWIST_FLAGS_LIN_CFM) {
    s.native = "all (soft: CFM set)";
    return s;
  }
  const Frame a = frame_of(joint.getAFrame()), b = frame_of(joint.getBFrame());
  const auto stops_in = [&](btScalar span) { return double(span * joint.getLimitSoftness()) < half_turn; };
  s.acting_A = a.origin;
  s.acting_B = b.origin;
  s.rows.points.push_back({a.origin, b.origin});
  // Both spans below Bullet's threshold: it holds the twist axes together by two equality rows, and with no twist span
  // the twist by a third. Everything else is one-sided.
  s.swing_locked = !joint.isMotorEnabled() && joint.getSwingSpan1() < joint.getFixThresh() &&
                   joint.getSwingSpan2() < joint.getFixThresh();
  s.twist_locked = s.swing_locked && joint.getTwistSpan() == 0 && !(joint.getFlags() & BT_CONETWIST_FLAGS_ANG_CFM);
  if (s.swing_locked) {
    s.rows.dots.push_back({a.axis[1], b.axis[0], 0});
    s.rows.dots.push_back({a.axis[2], b.axis[0], 0});
    s.rows.alignment = {Of::direction, frame_about(a.axis[0]), frame_about(b.axis[0])};
  }
  if (s.twist_locked) {
    s.rows.dots.push_back({a.axis[2], b.axis[1], 0});
    s.rows.alignment = {Of::orientation, frame_with(a.axis[0], a.axis[1]), frame_with(b.axis[0], b.axis[1])};
  }
  if (joint.isMotorEnabled())
    add(s.native, "motor");
  else if (!s.swing_locked && stops_in(std::min(joint.getSwingSpan1(), joint.getSwingSpan2())))
    add(s.native, "swing limits");
  if (!s.twist_locked && !joint.isMotorEnabled() && joint.getTwistSpan() >= 0 && stops_in(joint.getTwistSpan()))
    add(s.native, "twist limits");
  s.may_emit_native = !s.native.empty();
  return s;
}

/// Bullet's gear row a_A·ω_A + ratio a_B·ω_B = 0 with the axes carried by the bodies, as a condition on positions: the
/// angles turned since the gear was first seen. Bullet itself has no such memory and drifts. Poses tell less than half
/// a turn, from where a (sub)step began to where it ends (Engine sees to that); what a body did beyond that under
/// native rows nobody knows, and the teeth mesh anew where they are.
class Gear final : public ConstraintFunction {
 public:
  Gear(const Vector3d& u_A, const Vector3d& u_B, double ratio) : axis_{u_A, u_B}, factor_{1, ratio} {}
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
  std::vector<double> memory() const override {
    std::vector<double> out{known_ ? 1.0 : 0.0, sum_, t_};
    for (const Quaterniond& q : last_) out.insert(out.end(), {q.w(), q.x(), q.y(), q.z()});
    return out;
  }
  void set_memory(std::span<const double> kept) override {
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

JointShape gear_shape(btGearConstraint& joint) {
  JointShape s;
  const Vector3d a = from_bullet(joint.getAxisA()), b = from_bullet(joint.getAxisB());
  if (!(a.norm() > 0) || !(b.norm() > 0)) {
    s.native = "all (an axis is zero)";
    return s;
  }
  s.function = std::make_shared<Gear>(a, b, double(joint.getRatio()));
  return s;
}

/// Numbers in a row, counted, kept or compared with those kept before.
struct Count {
  int count = 0;
  void operator()(double) { ++count; }
};
struct Keep {
  double* to;
  void operator()(double x) { *to++ = x; }
};
struct Compare {
  const double* kept;
  bool same = true;
  void operator()(double x) { same = same && *kept++ == x; }
};

template <class Visit>
void put(Visit& visit, const btVector3& u) {
  for (int i = 0; i < 3; ++i) visit(double(u[i]));
}
template <class Visit>
void put(Visit& visit, const btTransform& f) {
  put(visit, f.getOrigin());
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 3; ++k) visit(double(f.getBasis()[k][i + 1]));
}
template <class Visit>
void put(Visit& visit, const std::array<Axis6, 6>& axes) {
  for (const Axis6& x : axes) {
    visit(x.lo);
    visit(x.hi);
    visit(x.motor + 2 * x.spring + 4 * x.soft);
  }
}

template <class Visit>
void numbers_of(btTypedConstraint& joint, JointKind kind, Visit& visit) {
  switch (kind) {
    case JointKind::point_to_point: {
      auto& p = static_cast<btPoint2PointConstraint&>(joint);
      put(visit, p.getPivotInA());
      put(visit, p.getPivotInB());
      visit(double(p.m_setting.m_impulseClamp));
      visit(p.getFlags());
      return;
    }
    case JointKind::hinge: {
      auto& h = static_cast<btHingeConstraint&>(joint);
      put(visit, h.getAFrame());
      put(visit, h.getBFrame());
      for (const double x : {double(h.getLowerLimit()), double(limit_in(h).getHalfRange()), double(h.getAngularOnly()),
                             double(h.getEnableAngularMotor()), double(h.getFlags())})
        visit(x);
      return;
    }
    case JointKind::slider: {
      auto& l = static_cast<btSliderConstraint&>(joint);
      put(visit, l.getFrameOffsetA());
      put(visit, l.getFrameOffsetB());
      for (const double x : {double(l.getLowerLinLimit()), double(l.getUpperLinLimit()), double(l.getLowerAngLimit()),
                             double(l.getUpperAngLimit()), double(l.getPoweredLinMotor()),
                             double(l.getPoweredAngMotor()), double(l.getFlags())})
        visit(x);
      return;
    }
    case JointKind::spring2: {
      auto& g = static_cast<btGeneric6DofSpring2Constraint&>(joint);
      put(visit, g.getFrameOffsetA());
      put(visit, g.getFrameOffsetB());
      put(visit, axes_of(g));
      visit(g.getRotationOrder());
      return;
    }
    case JointKind::six_dof: {
      auto& d = static_cast<btGeneric6DofConstraint&>(joint);
      put(visit, d.getFrameOffsetA());
      put(visit, d.getFrameOffsetB());
      put(visit, axes_of(d));
      return;
    }
    case JointKind::cone_twist: {
      auto& c = static_cast<btConeTwistConstraint&>(joint);
      put(visit, c.getAFrame());
      put(visit, c.getBFrame());
      for (const double x :
           {double(c.getSwingSpan1()), double(c.getSwingSpan2()), double(c.getTwistSpan()),
            double(c.getLimitSoftness()), double(c.getFixThresh()), double(c.isMotorEnabled()), double(c.getFlags())})
        visit(x);
      return;
    }
    case JointKind::gear: {
      auto& g = static_cast<btGearConstraint&>(joint);
      put(visit, g.getAxisA());
      put(visit, g.getAxisB());
      visit(double(g.getRatio()));
      return;
    }
    case JointKind::other:
      return;
  }
}

}  // namespace

const char* kind_of(const btTypedConstraint& joint) {
  if (as<btPoint2PointConstraint>(joint)) return "point2point";
  if (as<btHingeConstraint>(joint)) return "hinge";
  if (as<btSliderConstraint>(joint)) return "slider";
  if (as<btFixedConstraint>(joint)) return "fixed";
  if (as<btHinge2Constraint>(joint)) return "hinge2";
  if (as<btGeneric6DofSpring2Constraint>(joint)) return "6dof-spring2";
  if (as<btUniversalConstraint>(joint)) return "universal";
  if (as<btGeneric6DofSpringConstraint>(joint)) return "6dof-spring";
  if (as<btGeneric6DofConstraint>(joint)) return "6dof";
  if (as<btConeTwistConstraint>(joint)) return "cone-twist";
  if (as<btGearConstraint>(joint)) return "gear";
  return "constraint";
}

JointShape classify(btTypedConstraint& joint) {
  switch (joint_kind(joint)) {
    case JointKind::point_to_point:
      return point_to_point(static_cast<btPoint2PointConstraint&>(joint));
    case JointKind::hinge:
      return hinge_shape(static_cast<btHingeConstraint&>(joint));
    case JointKind::slider:
      return slider_shape(static_cast<btSliderConstraint&>(joint));
    case JointKind::spring2: {
      auto& j = static_cast<btGeneric6DofSpring2Constraint&>(joint);
      return six_axes(j.getFrameOffsetA(), j.getFrameOffsetB(), axes_of(j), euler_order(j.getRotationOrder()));
    }
    case JointKind::six_dof: {
      auto& j = static_cast<btGeneric6DofConstraint&>(joint);
      return six_axes(j.getFrameOffsetA(), j.getFrameOffsetB(), axes_of(j), euler_order(RO_XYZ));
    }
    case JointKind::cone_twist:
      return cone_twist_shape(static_cast<btConeTwistConstraint&>(joint));
    case JointKind::gear:
      return gear_shape(static_cast<btGearConstraint&>(joint));
    case JointKind::other:
      break;
  }
  JointShape s;
  s.native = std::string("all (") + kind_of(joint) + " not adopted)";
  return s;
}

ExactPart exact_part(btTypedConstraint& joint) {
  JointShape s = classify(joint);
  return {kind_of(joint), std::move(s.rows), s.acting_A, s.acting_B, std::move(s.native)};
}

JointKind joint_kind(const btTypedConstraint& joint) {
  if (as<btPoint2PointConstraint>(joint)) return JointKind::point_to_point;
  if (as<btHingeConstraint>(joint)) return JointKind::hinge;
  if (as<btSliderConstraint>(joint)) return JointKind::slider;
  if (as<btGeneric6DofSpring2Constraint>(joint)) return JointKind::spring2;
  if (as<btGeneric6DofConstraint>(joint)) return JointKind::six_dof;
  if (as<btConeTwistConstraint>(joint)) return JointKind::cone_twist;
  if (as<btGearConstraint>(joint)) return JointKind::gear;
  return JointKind::other;
}

int count_numbers(btTypedConstraint& joint, JointKind kind) {
  Count count;
  numbers_of(joint, kind, count);
  return count.count;
}

void read_numbers(btTypedConstraint& joint, JointKind kind, double* out) {
  Keep keep{out};
  numbers_of(joint, kind, keep);
}

bool unchanged(btTypedConstraint& joint, JointKind kind, const double* as) {
  Compare compare{as};
  numbers_of(joint, kind, compare);
  return compare.same;
}

Reach reach_of_numbers(const btTypedConstraint& joint, JointKind kind) {
  const auto from = [&](const auto& of, const auto& first) -> Reach {
    const auto at =
        static_cast<std::size_t>(reinterpret_cast<const char*>(&first) - reinterpret_cast<const char*>(&of));
    return {static_cast<unsigned short>(at), static_cast<unsigned short>(sizeof of - at)};
  };
  if (kind == JointKind::point_to_point) {
    const auto& p = static_cast<const btPoint2PointConstraint&>(joint);
    return from(p, p.getPivotInA());
  }
  if (kind == JointKind::hinge) {
    const auto& h = static_cast<const btHingeConstraint&>(joint);
    return from(h, h.getAFrame());
  }
  return {};
}

// ---- the native part
// -------------------------------------------------------------------------------------------------

NativePart::NativePart(btTypedConstraint& joint, const JointSummary& shape)
    : btTypedConstraint(joint.getConstraintType(), joint.getRigidBodyA(), joint.getRigidBodyB()),
      joint_(joint),
      shape_(shape) {}

int NativePart::native_rows(btTypedConstraint& joint, const JointSummary& shape, int emitted,
                            std::array<int, 24>& rows) {
  int kept = 0;
  const auto keep = [&](int row) { rows[static_cast<std::size_t>(kept++)] = row; };
  if (as<btHingeConstraint>(joint)) {
    if (emitted == 6 && !shape.limit_locked) keep(5);
  } else if (auto* l = as<btSliderConstraint>(joint)) {
    int row = 4;  // two angular, two linear rows first
    if (l->getSolveLinLimit() || l->getPoweredLinMotor()) {
      if (!shape.exact_axis[0]) keep(row);
      ++row;
    }
    if (l->getSolveAngLimit() || l->getPoweredAngMotor()) {
      if (!shape.exact_axis[3]) keep(row);
      ++row;
    }
  } else if (auto* g = as<btGeneric6DofSpring2Constraint>(joint)) {
    int row = 0;
    const auto axis = [&](std::size_t i, int limit, bool motor, bool spring) {
      for (int n = (limit == 4 ? 2 : limit != 0 ? 1 : 0) + motor + spring; n > 0; --n, ++row)
        if (!shape.exact_axis[i]) keep(row);
    };
    static constexpr int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i : order[g->getRotationOrder()]) {
      const auto* r = g->getRotationalLimitMotor(i);
      axis(static_cast<std::size_t>(i + 3), r->m_currentLimit, r->m_enableMotor, r->m_enableSpring);
    }
    const auto* t = g->getTranslationalLimitMotor();
    for (int i = 0; i < 3; ++i)
      axis(static_cast<std::size_t>(i), t->m_currentLimit[i], t->m_enableMotor[i], t->m_enableSpring[i]);
  } else if (auto* d = as<btGeneric6DofConstraint>(joint)) {
    int row = 0;
    const auto linear = [&] {
      for (int i = 0; i < 3; ++i)
        if (d->getTranslationalLimitMotor()->needApplyForce(i)) {
          if (!shape.exact_axis[static_cast<std::size_t>(i)]) keep(row);
          ++row;
        }
    };
    const auto angular = [&] {
      for (int i = 0; i < 3; ++i)
        if (d->getRotationalLimitMotor(i)->needApplyTorques()) {
          if (!shape.exact_axis[static_cast<std::size_t>(i + 3)]) keep(row);
          ++row;
        }
    };
    if (d->getUseFrameOffset()) {
      angular();
      linear();
    } else {
      linear();
      angular();
    }
  } else if (auto* c = as<btConeTwistConstraint>(joint)) {
    int row = 3;
    if (c->getSolveSwingLimit()) {
      const int swing = c->getSwingSpan1() < c->getFixThresh() && c->getSwingSpan2() < c->getFixThresh() ? 2 : 1;
      for (int i = 0; i < swing; ++i, ++row)
        if (!shape.swing_locked) keep(row);
    }
    if (c->getSolveTwistLimit() && !shape.twist_locked) keep(row);
  } else {
    for (int i = 0; i < emitted; ++i) keep(i);
  }
  return kept;
}

void NativePart::getInfo1(btConstraintInfo1* info) {
  btConstraintInfo1 inner{};
  joint_.getInfo1(&inner);
  emitted_ = inner.m_numConstraintRows;
  kept_ = native_rows(joint_, shape_, emitted_, rows_);
  info->m_numConstraintRows = kept_;
  info->nub = 0;
}

void NativePart::getInfo2(btConstraintInfo2* info) {
  struct Row {
    btScalar j1l[4], j1a[4], j2l[4], j2a[4], rhs, cfm, lo, hi;
  };
  std::array<Row, 24> scratch;
  std::memset(scratch.data(), 0, sizeof scratch);
  for (Row& r : scratch) {
    r.lo = -SIMD_INFINITY;
    r.hi = SIMD_INFINITY;
  }
  scratch[0].cfm = *info->cfm;
  btConstraintInfo2 inner = *info;
  inner.m_J1linearAxis = scratch[0].j1l;
  inner.m_J1angularAxis = scratch[0].j1a;
  inner.m_J2linearAxis = scratch[0].j2l;
  inner.m_J2angularAxis = scratch[0].j2a;
  inner.m_constraintError = &scratch[0].rhs;
  inner.cfm = &scratch[0].cfm;
  inner.m_lowerLimit = &scratch[0].lo;
  inner.m_upperLimit = &scratch[0].hi;
  inner.rowskip = int(sizeof(Row) / sizeof(btScalar));
  joint_.getInfo2(&inner);
  info->m_damping = inner.m_damping;  // some joints change it for all their rows
  for (int k = 0; k < kept_; ++k) {
    const Row& r = scratch[static_cast<std::size_t>(rows_[static_cast<std::size_t>(k)])];
    const int at = k * info->rowskip;
    for (int i = 0; i < 3; ++i) {
      info->m_J1linearAxis[at + i] = r.j1l[i];
      info->m_J1angularAxis[at + i] = r.j1a[i];
      info->m_J2linearAxis[at + i] = r.j2l[i];
      info->m_J2angularAxis[at + i] = r.j2a[i];
    }
    info->m_constraintError[at] = r.rhs;
    info->cfm[at] = r.cfm;
    info->m_lowerLimit[at] = r.lo;
    info->m_upperLimit[at] = r.hi;
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
