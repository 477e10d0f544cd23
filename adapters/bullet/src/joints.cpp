// Bullet's joints as rows of the primitives point, axis and dot; see docs/theory.md and joints.h of the core.
#include "joints.h"

#include "bodies.h"

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGearConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpringConstraint.h>
#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btUniversalConstraint.h>

#include <cmath>
#include <cstring>

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
  const bool locked = joint.getLowerLimit() == joint.getUpperLimit();
  if (locked && !joint.getEnableAngularMotor() && !(joint.getFlags() & BT_HINGE_FLAGS_CFM_STOP) &&
      orthonormal(joint.getAFrame()) && orthonormal(joint.getBFrame())) {
    // Bullet's angle is sign·atan2(y_B·x_A, y_B·y_A), sign −1 when A is the reference.
    const double angle = (joint.getUseReferenceFrameA() ? -1.0 : 1.0) * double(joint.getLowerLimit());
    const Frame raw = frame_of(joint.getAFrame());
    s.rows.dots.push_back({raw.axis[0] * std::cos(angle) - raw.axis[1] * std::sin(angle), b.axis[1], 0});
    s.limit_locked = true;
  } else {
    if (joint.hasLimit()) add(s.native, "limits");
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
    s.rows.dots.push_back({a.axis[2] * std::cos(t) - a.axis[1] * std::sin(t), b.axis[1], 0});
    s.exact_axis[3] = true;
  } else {
    if (joint.getLowerAngLimit() <= joint.getUpperAngLimit()) add(s.native, "angular limits");
    if (joint.getPoweredAngMotor()) add(s.native, "angular motor");
  }
  s.may_emit_native = !s.native.empty();
  return s;
}

// One axis of a 6dof joint, whichever class it is.
struct Axis6 {
  double lo = 1, hi = -1;  // free
  bool motor = false, spring = false, soft = false;
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
    else if (x.lo <= x.hi)
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
  for (int i = 0; i < 3; ++i) {
    if (!s.exact_axis[static_cast<std::size_t>(i + 3)]) continue;
    const double t = axes[static_cast<std::size_t>(i + 3)].lo;
    if (i == o.m)
      s.rows.dots.push_back({ax(o.a), bx(o.b), o.sigma * std::sin(t)});
    else if (i == o.b)
      s.rows.dots.push_back({ax(o.a), bx(o.m) * std::cos(t) + bx(o.a) * (o.sigma * std::sin(t)), 0});
    else
      s.rows.dots.push_back({ax(o.m) * std::cos(t) + ax(o.b) * (o.sigma * std::sin(t)), bx(o.b), 0});
  }
  s.may_emit_native = !s.native.empty();
  return s;
}

std::array<Axis6, 6> axes_of(btGeneric6DofConstraint& joint) {
  std::array<Axis6, 6> out;
  const auto* lin = joint.getTranslationalLimitMotor();
  auto* spring = dynamic_cast<btGeneric6DofSpringConstraint*>(&joint);
  for (int i = 0; i < 3; ++i) {
    auto& x = out[static_cast<std::size_t>(i)];
    x = {double(lin->m_lowerLimit[i]), double(lin->m_upperLimit[i]), lin->m_enableMotor[i],
         spring && spring->isSpringEnabled(i), lin->m_stopCFM[i] != 0 || lin->m_normalCFM[i] != 0};
    auto& y = out[static_cast<std::size_t>(i + 3)];
    const auto* rot = joint.getRotationalLimitMotor(i);
    y = {double(rot->m_loLimit), double(rot->m_hiLimit), rot->m_enableMotor, spring && spring->isSpringEnabled(i + 3),
         rot->m_stopCFM != 0 || rot->m_normalCFM != 0};
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

void put(JointSignature& s, std::size_t& at, double x) {
  if (at < s.size()) s[at++] = x;
}
void put(JointSignature& s, std::size_t& at, const btTransform& f) {
  for (int i = 0; i < 3; ++i) put(s, at, double(f.getOrigin()[i]));
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 3; ++k) put(s, at, double(f.getBasis()[k][i + 1]));
}
void put(JointSignature& s, std::size_t& at, const std::array<Axis6, 6>& axes) {
  for (const Axis6& x : axes) {
    put(s, at, x.lo);
    put(s, at, x.hi);
    put(s, at, x.motor + 2 * x.spring + 4 * x.soft);
  }
}

}  // namespace

const char* kind_of(const btTypedConstraint& joint) {
  const btTypedConstraint* p = &joint;
  if (dynamic_cast<const btPoint2PointConstraint*>(p)) return "point2point";
  if (dynamic_cast<const btHingeConstraint*>(p)) return "hinge";
  if (dynamic_cast<const btSliderConstraint*>(p)) return "slider";
  if (dynamic_cast<const btFixedConstraint*>(p)) return "fixed";
  if (dynamic_cast<const btHinge2Constraint*>(p)) return "hinge2";
  if (dynamic_cast<const btGeneric6DofSpring2Constraint*>(p)) return "6dof-spring2";
  if (dynamic_cast<const btUniversalConstraint*>(p)) return "universal";
  if (dynamic_cast<const btGeneric6DofSpringConstraint*>(p)) return "6dof-spring";
  if (dynamic_cast<const btGeneric6DofConstraint*>(p)) return "6dof";
  if (dynamic_cast<const btConeTwistConstraint*>(p)) return "cone-twist";
  if (dynamic_cast<const btGearConstraint*>(p)) return "gear";
  return "constraint";
}

JointShape classify(btTypedConstraint& joint) {
  if (auto* p = dynamic_cast<btPoint2PointConstraint*>(&joint)) return point_to_point(*p);
  if (auto* p = dynamic_cast<btHingeConstraint*>(&joint)) return hinge_shape(*p);
  if (auto* p = dynamic_cast<btSliderConstraint*>(&joint)) return slider_shape(*p);
  if (auto* p = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint))
    return six_axes(p->getFrameOffsetA(), p->getFrameOffsetB(), axes_of(*p), euler_order(p->getRotationOrder()));
  if (auto* p = dynamic_cast<btGeneric6DofConstraint*>(&joint))
    return six_axes(p->getFrameOffsetA(), p->getFrameOffsetB(), axes_of(*p), euler_order(RO_XYZ));
  JointShape s;
  s.native = std::string("all (") + kind_of(joint) + " not adopted)";
  return s;
}

void signature(btTypedConstraint& joint, JointSignature& s) {
  std::size_t at = 0;
  if (auto* p = dynamic_cast<btPoint2PointConstraint*>(&joint)) {
    for (int i = 0; i < 3; ++i) {
      put(s, at, double(p->getPivotInA()[i]));
      put(s, at, double(p->getPivotInB()[i]));
    }
    put(s, at, double(p->m_setting.m_impulseClamp));
    put(s, at, p->getFlags());
  } else if (auto* h = dynamic_cast<btHingeConstraint*>(&joint)) {
    put(s, at, h->getAFrame());
    put(s, at, h->getBFrame());
    for (double x : {double(h->getLowerLimit()), double(h->getUpperLimit()), double(h->getAngularOnly()),
                     double(h->getEnableAngularMotor()), double(h->getFlags())})
      put(s, at, x);
  } else if (auto* l = dynamic_cast<btSliderConstraint*>(&joint)) {
    put(s, at, l->getFrameOffsetA());
    put(s, at, l->getFrameOffsetB());
    for (double x : {double(l->getLowerLinLimit()), double(l->getUpperLinLimit()), double(l->getLowerAngLimit()),
                     double(l->getUpperAngLimit()), double(l->getPoweredLinMotor()), double(l->getPoweredAngMotor()),
                     double(l->getFlags())})
      put(s, at, x);
  } else if (auto* g = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) {
    put(s, at, g->getFrameOffsetA());
    put(s, at, g->getFrameOffsetB());
    put(s, at, axes_of(*g));
    put(s, at, g->getRotationOrder());
  } else if (auto* d = dynamic_cast<btGeneric6DofConstraint*>(&joint)) {
    put(s, at, d->getFrameOffsetA());
    put(s, at, d->getFrameOffsetB());
    put(s, at, axes_of(*d));
  }
  while (at < s.size()) s[at++] = 0;
}

// ---- the native part
// -------------------------------------------------------------------------------------------------

NativePart::NativePart(btTypedConstraint& joint, const JointShape& shape)
    : btTypedConstraint(joint.getConstraintType(), joint.getRigidBodyA(), joint.getRigidBodyB()),
      joint_(joint),
      shape_(shape) {}

int NativePart::native_rows(btTypedConstraint& joint, const JointShape& shape, int emitted, std::array<int, 24>& rows) {
  int kept = 0;
  const auto keep = [&](int row) { rows[static_cast<std::size_t>(kept++)] = row; };
  if (dynamic_cast<btHingeConstraint*>(&joint)) {
    if (emitted == 6 && !shape.limit_locked) keep(5);
  } else if (auto* l = dynamic_cast<btSliderConstraint*>(&joint)) {
    int row = 4;  // two angular, two linear rows first
    if (l->getSolveLinLimit() || l->getPoweredLinMotor()) {
      if (!shape.exact_axis[0]) keep(row);
      ++row;
    }
    if (l->getSolveAngLimit() || l->getPoweredAngMotor()) {
      if (!shape.exact_axis[3]) keep(row);
      ++row;
    }
  } else if (auto* g = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) {
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
  } else if (auto* d = dynamic_cast<btGeneric6DofConstraint*>(&joint)) {
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
