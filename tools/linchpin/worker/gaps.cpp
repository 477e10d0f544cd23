#include "gaps.h"

#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>

#include <Eigen/Core>
#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>

namespace linchpin::worker {

namespace {

using Eigen::Matrix3d;
using Eigen::Vector3d;

// A joint's frame in the world, from a body's pose and the frame in the body.
struct Frame {
  Frame(const btRigidBody& body, const btTransform& in_body) : Frame(body.getWorldTransform(), in_body) {}
  Frame(const btTransform& x, const btTransform& f) {
    Matrix3d R, F;
    Vector3d p, o;
    for (int i = 0; i < 3; ++i) {
      p[i] = double(x.getOrigin()[i]);
      o[i] = double(f.getOrigin()[i]);
      for (int k = 0; k < 3; ++k) {
        R(i, k) = double(x.getBasis()[i][k]);
        F(i, k) = double(f.getBasis()[i][k]);
      }
    }
    origin = p + R * o;
    axes = R * F;
    axes.colwise().normalize();
  }
  Vector3d origin;
  Matrix3d axes;
};

// Between two unit vectors; the arc sine keeps small angles that the arc cosine loses.
double angle_between(const Vector3d& a, const Vector3d& b) {
  const double s = a.cross(b).norm();
  return a.dot(b) >= 0 ? std::asin(std::min(s, 1.0)) : std::acos(-1.0) - std::asin(std::min(s, 1.0));
}

// The angle of the rotation from one frame to the other.
double angle_between(const Matrix3d& a, const Matrix3d& b) {
  const Matrix3d r = a.transpose() * b;
  const Vector3d twice_sine(r(2, 1) - r(1, 2), r(0, 2) - r(2, 0), r(1, 0) - r(0, 1));
  return std::atan2(twice_sine.norm(), r.trace() - 1);
}

double wrapped(double angle) { return std::remainder(angle, 2 * std::acos(-1.0)); }

// One axis of a 6dof joint, whichever class it is.
struct Axis {
  double lo, hi;
  bool kinematic, soft;  // motor or spring; CFM set
  bool beyond;           // a limit acts
  bool locked() const { return lo == hi && !kinematic && !soft; }
};

Gap six(const Frame& a, const Frame& b, const std::array<Axis, 6>& axes, const std::array<double, 3>& angles) {
  Gap gap;
  const Vector3d d = a.axes.transpose() * (b.origin - a.origin);
  double squared = 0;
  for (int i = 0; i < 3; ++i)
    if (const Axis& x = axes[static_cast<std::size_t>(i)]; x.locked()) {
      squared += (d[i] - x.lo) * (d[i] - x.lo);
      gap.any = true;
    }
  gap.metres = std::sqrt(squared);
  const auto frozen = [&](std::size_t i) { return axes[i + 3].locked() && axes[i + 3].lo == 0; };
  if (frozen(0) && frozen(1) && frozen(2)) {
    gap.radians = angle_between(a.axes, b.axes);
    gap.any = true;
    return gap;
  }
  squared = 0;
  for (std::size_t i = 0; i < 3; ++i)
    if (const Axis& x = axes[i + 3]; x.locked()) {
      squared += std::pow(wrapped(angles[i] - x.lo), 2);
      gap.any = true;
    }
  gap.radians = std::sqrt(squared);
  return gap;
}

std::array<Axis, 6> axes_of(btGeneric6DofConstraint& joint) {
  std::array<Axis, 6> out;
  auto* spring = dynamic_cast<btGeneric6DofSpringConstraint*>(&joint);
  const auto* lin = joint.getTranslationalLimitMotor();
  for (int i = 0; i < 3; ++i) {
    const auto* rot = joint.getRotationalLimitMotor(i);
    out[static_cast<std::size_t>(i)] = {double(lin->m_lowerLimit[i]), double(lin->m_upperLimit[i]),
                                        lin->m_enableMotor[i] || (spring && spring->isSpringEnabled(i)),
                                        lin->m_stopCFM[i] != 0 || lin->m_normalCFM[i] != 0,
                                        lin->m_currentLimit[i] != 0};
    out[static_cast<std::size_t>(i + 3)] = {double(rot->m_loLimit), double(rot->m_hiLimit),
                                            rot->m_enableMotor || (spring && spring->isSpringEnabled(i + 3)),
                                            rot->m_stopCFM != 0 || rot->m_normalCFM != 0, rot->m_currentLimit != 0};
  }
  return out;
}

std::array<Axis, 6> axes_of(btGeneric6DofSpring2Constraint& joint) {
  std::array<Axis, 6> out;
  const auto* lin = joint.getTranslationalLimitMotor();
  // 4 means both limits have rows; the one acts whose error says so.
  const auto acts = [](int limit, btScalar low, btScalar high) {
    return limit == 4 ? low <= 0 || high >= 0 : limit != 0;
  };
  for (int i = 0; i < 3; ++i) {
    const auto* rot = joint.getRotationalLimitMotor(i);
    out[static_cast<std::size_t>(i)] = {
        double(lin->m_lowerLimit[i]), double(lin->m_upperLimit[i]), lin->m_enableMotor[i] || lin->m_enableSpring[i],
        lin->m_stopCFM[i] != 0,
        acts(lin->m_currentLimit[i], lin->m_currentLimitError[i], lin->m_currentLimitErrorHi[i])};
    out[static_cast<std::size_t>(i + 3)] = {
        double(rot->m_loLimit), double(rot->m_hiLimit), rot->m_enableMotor || rot->m_enableSpring, rot->m_stopCFM != 0,
        acts(rot->m_currentLimit, rot->m_currentLimitError, rot->m_currentLimitErrorHi)};
  }
  return out;
}

template <class Joint>
Gap six_gap(Joint& joint) {
  btRigidBody &A = joint.getRigidBodyA(), &B = joint.getRigidBodyB();
  joint.calculateTransforms(A.getWorldTransform(), B.getWorldTransform());
  return six({A, joint.getFrameOffsetA()}, {B, joint.getFrameOffsetB()}, axes_of(joint),
             {double(joint.getAngle(0)), double(joint.getAngle(1)), double(joint.getAngle(2))});
}

// Whether Bullet's own test, on a copy, finds an angle of the hinge beyond its limits.
bool beyond_limits(const btHingeConstraint& joint, double angle) {
  btHingeConstraint copy(joint);
  const double turn = joint.getUseReferenceFrameA() ? angle : -angle;
  const btTransform about_z(btQuaternion(btVector3(0, 0, 1), btScalar(turn)));
  copy.testLimit(copy.getAFrame().inverse(), about_z * copy.getBFrame().inverse());
  return copy.getSolveLimit();
}

// A hinge tells its limits between −π and π, where a lock, whole turns and no limits look alike. The middle of the
// limits is one of two opposite angles.
enum class HingeLimits { none, locked, stops };
HingeLimits limits_of(const btHingeConstraint& joint) {
  const double half_turn = std::acos(-1.0), middle = 0.5 * double(joint.getLowerLimit() + joint.getUpperLimit());
  if (!beyond_limits(joint, middle) && !beyond_limits(joint, middle + half_turn)) return HingeLimits::none;
  return joint.hasLimit() ? HingeLimits::stops : HingeLimits::locked;
}

Gap hinge_gap(btHingeConstraint& joint) {
  Gap gap;
  if (joint.getFlags() & BT_HINGE_FLAGS_CFM_NORM) return gap;
  const Frame a(joint.getRigidBodyA(), joint.getAFrame()), b(joint.getRigidBodyB(), joint.getBFrame());
  gap.any = true;
  if (!joint.getAngularOnly()) gap.metres = (a.origin - b.origin).norm();
  gap.radians = angle_between(Vector3d(a.axes.col(2)), Vector3d(b.axes.col(2)));
  if (limits_of(joint) == HingeLimits::locked && !joint.getEnableAngularMotor()) {
    const double angle = (joint.getUseReferenceFrameA() ? -1 : 1) *
                         std::atan2(b.axes.col(1).dot(a.axes.col(0)), b.axes.col(1).dot(a.axes.col(1)));
    gap.radians = std::hypot(gap.radians, wrapped(angle - double(joint.getLowerLimit())));
  }
  return gap;
}

Gap slider_gap(btSliderConstraint& joint) {
  Gap gap;
  if (joint.getFlags() & (BT_SLIDER_FLAGS_CFM_ORTLIN | BT_SLIDER_FLAGS_CFM_ORTANG)) return gap;
  Frame a(joint.getRigidBodyA(), joint.getFrameOffsetA()), b(joint.getRigidBodyB(), joint.getFrameOffsetB());
  if (!joint.getUseLinearReferenceFrameA()) std::swap(a, b);  // Bullet swaps the roles too
  const Vector3d d = a.axes.transpose() * (b.origin - a.origin);
  const bool at_rest = joint.getLowerLinLimit() == joint.getUpperLinLimit() && !joint.getPoweredLinMotor();
  const double along = at_rest ? d.x() - double(joint.getLowerLinLimit()) : 0;
  gap.metres = Vector3d(along, d.y(), d.z()).norm();
  gap.radians = angle_between(Vector3d(a.axes.col(0)), Vector3d(b.axes.col(0)));
  if (joint.getLowerAngLimit() == joint.getUpperAngLimit() && !joint.getPoweredAngMotor()) {
    const double angle = std::atan2(b.axes.col(1).dot(a.axes.col(2)), b.axes.col(1).dot(a.axes.col(1)));
    gap.radians = std::hypot(gap.radians, wrapped(angle - double(joint.getLowerAngLimit())));
  }
  gap.any = true;
  return gap;
}

Gap cone_gap(btConeTwistConstraint& joint) {
  Gap gap;
  const Frame a(joint.getRigidBodyA(), joint.getAFrame()), b(joint.getRigidBodyB(), joint.getBFrame());
  gap.metres = (a.origin - b.origin).norm();
  const bool no_swing = joint.getLimit(4) < joint.getFixThresh() && joint.getLimit(5) < joint.getFixThresh();
  if (no_swing && !joint.isMotorEnabled())
    gap.radians = angle_between(Vector3d(a.axes.col(0)), Vector3d(b.axes.col(0)));
  gap.any = true;
  return gap;
}

Gap point_gap(btPoint2PointConstraint& joint) {
  Gap gap;
  if (joint.m_setting.m_impulseClamp != 0 || (joint.getFlags() & BT_P2P_FLAGS_CFM)) return gap;
  const btTransform a(btMatrix3x3::getIdentity(), joint.getPivotInA()),
      b(btMatrix3x3::getIdentity(), joint.getPivotInB());
  gap.metres = (Frame(joint.getRigidBodyA(), a).origin - Frame(joint.getRigidBodyB(), b).origin).norm();
  gap.any = true;
  return gap;
}

const char* works(const std::array<Axis, 6>& axes) {
  for (const Axis& x : axes) {
    if (x.kinematic) return "a motor or a spring";
    if (x.beyond && x.lo < x.hi) return "a limit";
  }
  return nullptr;
}

}  // namespace

Gap measure_gap(btTypedConstraint& joint) {
  if (!joint.isEnabled()) return {};
  if (auto* p = dynamic_cast<btPoint2PointConstraint*>(&joint)) return point_gap(*p);
  if (auto* p = dynamic_cast<btHingeConstraint*>(&joint)) return hinge_gap(*p);
  if (auto* p = dynamic_cast<btSliderConstraint*>(&joint)) return slider_gap(*p);
  if (auto* p = dynamic_cast<btConeTwistConstraint*>(&joint)) return cone_gap(*p);
  if (auto* p = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) return six_gap(*p);
  if (auto* p = dynamic_cast<btGeneric6DofConstraint*>(&joint)) return six_gap(*p);
  return {};  // gears have no position to be off from
}

const char* works(btTypedConstraint& joint) {
  if (!joint.isEnabled()) return nullptr;
  if (auto* p = dynamic_cast<btHingeConstraint*>(&joint)) {
    if (p->getEnableAngularMotor()) return "a motor";
    return p->getSolveLimit() && limits_of(*p) == HingeLimits::stops ? "a limit" : nullptr;
  }
  if (auto* p = dynamic_cast<btSliderConstraint*>(&joint)) {
    if (p->getPoweredLinMotor() || p->getPoweredAngMotor()) return "a motor";
    const bool linear = p->getSolveLinLimit() && p->getLowerLinLimit() < p->getUpperLinLimit();
    const bool angular = p->getSolveAngLimit() && p->getLowerAngLimit() < p->getUpperAngLimit();
    return linear || angular ? "a limit" : nullptr;
  }
  if (auto* p = dynamic_cast<btConeTwistConstraint*>(&joint)) {
    if (p->isMotorEnabled()) return "a motor";
    return p->getSolveSwingLimit() || p->getSolveTwistLimit() ? "a limit" : nullptr;
  }
  if (auto* p = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) return works(axes_of(*p));
  if (auto* p = dynamic_cast<btGeneric6DofConstraint*>(&joint)) return works(axes_of(*p));
  return nullptr;
}

bool has_native_rows(btTypedConstraint& joint) {
  const auto any = [](const std::array<Axis, 6>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [](const Axis& x) { return !x.locked() && (x.kinematic || x.lo <= x.hi); });
  };
  if (auto* p = dynamic_cast<btHingeConstraint*>(&joint))
    return p->getEnableAngularMotor() || limits_of(*p) == HingeLimits::stops;
  if (auto* p = dynamic_cast<btSliderConstraint*>(&joint))
    return p->getPoweredLinMotor() || p->getPoweredAngMotor() || p->getLowerLinLimit() < p->getUpperLinLimit() ||
           p->getLowerAngLimit() < p->getUpperAngLimit();
  if (dynamic_cast<btConeTwistConstraint*>(&joint)) return true;
  if (auto* p = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) return any(axes_of(*p));
  if (auto* p = dynamic_cast<btGeneric6DofConstraint*>(&joint)) return any(axes_of(*p));
  return false;
}

}  // namespace linchpin::worker
