#include "joints.h"

#include <BulletDynamics/ConstraintSolver/btConeTwistConstraint.h>
#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGearConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpringConstraint.h>
#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btUniversalConstraint.h>

#include <algorithm>
#include <cmath>

namespace LINCHPIN_BULLET_NAMESPACE {

/// Lists the rows of a joint in the order in which it emits them.
struct RowList {
  const std::array<bool, 6>& exact_axis;
  int emitted;
  std::vector<int>& kept;
  int next = 0;
  /// The next rows are those of an axis.
  void add(int axis, int count) {
    for (; count > 0; --count, ++next)
      if (!exact_axis[static_cast<std::size_t>(axis)]) kept.push_back(next);
  }
};

namespace {

using host::JointAxis;
using host::JointShape;

/// The joint as a `Joint`, or null: by its type where it has one, else by the tag by which Bullet's own drawing and
/// serialisation cast it. Classes without a tag of their own (fixed, universal, hinge2) have that of their base.
template <class Joint, int tag = MAX_CONSTRAINT_TYPE>
const Joint* as(const btTypedConstraint& joint) {
  if (type_of(joint)) return dynamic_cast<const Joint*>(&joint);
  return joint.getConstraintType() == tag ? static_cast<const Joint*>(&joint) : nullptr;
}

JointFrame frame_of(const btTransform& f) {
  JointFrame out;
  out.origin = from_bullet(f.getOrigin());
  for (int i = 0; i < 3; ++i) out.axes.col(i) = from_bullet(f.getBasis().getColumn(i)).normalized();
  return out;
}

// getLowerLimit() and getUpperLimit() of a hinge lie between −π and π, where a lock, whole turns and no limits may read
// alike. Half of what they span is private and has no accessor; an explicit instantiation may name it.
const btAngularLimit& limit_in(const btHingeConstraint& joint);
template <auto limit>
struct LimitPeek {
  friend const btAngularLimit& limit_in(const btHingeConstraint& joint) { return joint.*limit; }
};
template struct LimitPeek<&btHingeConstraint::m_limit>;

constexpr double half_turn = double(SIMD_PI);  // Bullet brings angles to −π … π before it compares them with limits

/// Flags with which a joint is soft in rows that linchpin would hold.
template <class Joint>
constexpr int soft_flags = 0;
template <>
constexpr int soft_flags<btPoint2PointConstraint> = BT_P2P_FLAGS_CFM;
template <>
constexpr int soft_flags<btHingeConstraint> = BT_HINGE_FLAGS_CFM_NORM;
template <>
constexpr int soft_flags<btSliderConstraint> = BT_SLIDER_FLAGS_CFM_ORTLIN | BT_SLIDER_FLAGS_CFM_ORTANG;
template <>
constexpr int soft_flags<btConeTwistConstraint> = BT_CONETWIST_FLAGS_LIN_CFM;

// ---- the exact part of each kind ----

JointShape map(btPoint2PointConstraint& joint) {
  if (joint.m_setting.m_impulseClamp != 0) return JointShape::left_to_host("the program has set an impulse clamp");
  JointShape s;
  s.application_A = from_bullet(joint.getPivotInA());
  s.application_B = from_bullet(joint.getPivotInB());
  s.hold_point();
  return s;
}

// Bullet's hinge constructors may leave the first two columns of A's frame skewed.
JointShape map(btHingeConstraint& joint) {
  const double half_range = double(limit_in(joint).getHalfRange());
  JointAxis about;
  if (half_range == 0)  // Bullet's angle is sign·atan2(y_B·x_A, y_B·y_A), sign −1 when A is the reference.
    about.lower = about.upper = (joint.getUseReferenceFrameA() ? -1.0 : 1.0) * double(joint.getLowerLimit());
  else if (half_range > 0 && half_range < half_turn)
    about.upper = 2;
  about.motor = joint.getEnableAngularMotor();
  about.soft = joint.getFlags() & BT_HINGE_FLAGS_CFM_STOP;
  return host::hinge_joint(frame_of(joint.getAFrame()), frame_of(joint.getBFrame()), about, !joint.getAngularOnly());
}

JointShape map(btSliderConstraint& joint) {
  const double lower = double(joint.getLowerLinLimit()), upper = double(joint.getUpperLinLimit());
  const bool from_a = joint.getUseLinearReferenceFrameA();
  const JointAxis along{from_a ? lower : -upper, from_a ? upper : -lower, joint.getPoweredLinMotor(), false,
                        (joint.getFlags() & BT_SLIDER_FLAGS_CFM_LIMLIN) != 0},
      about{double(joint.getLowerAngLimit()), double(joint.getUpperAngLimit()), joint.getPoweredAngMotor(), false,
            (joint.getFlags() & BT_SLIDER_FLAGS_CFM_LIMANG) != 0};
  return host::slider_joint(frame_of(joint.getFrameOffsetA()), frame_of(joint.getFrameOffsetB()), along, about);
}

// With both spans below Bullet's threshold it holds the twist axes together by two equality rows, and with no twist
// span the twist by a third. Everything else is one-sided.
JointShape map(btConeTwistConstraint& joint) {
  const bool motor = joint.isMotorEnabled();
  const bool swing =
      !motor && joint.getSwingSpan1() < joint.getFixThresh() && joint.getSwingSpan2() < joint.getFixThresh();
  const bool twist = swing && joint.getTwistSpan() == 0 && !(joint.getFlags() & BT_CONETWIST_FLAGS_ANG_CFM);
  JointShape s = host::cone_twist_joint(frame_of(joint.getAFrame()), frame_of(joint.getBFrame()), swing, twist);
  const auto stops_in = [&](btScalar span) { return double(span * joint.getLimitSoftness()) < half_turn; };
  if (motor)
    s.leave("motor");
  else if (!swing && stops_in(std::min(joint.getSwingSpan1(), joint.getSwingSpan2())))
    s.leave("swing limits");
  if (!twist && !motor && joint.getTwistSpan() >= 0 && stops_in(joint.getTwistSpan())) s.leave("twist limits");
  return s;
}

JointShape map(btGearConstraint& joint) {
  const Vector3d a = from_bullet(joint.getAxisA()), b = from_bullet(joint.getAxisB());
  if (!(a.norm() > 0 && b.norm() > 0)) return JointShape::left_to_host("an axis of the gear has length 0");
  JointShape s;
  s.function = host::body_gear(a, b, double(joint.getRatio()));
  return s;
}

JointShape map(btTypedConstraint&) {
  return JointShape::left_to_host(
      "linchpin does not know the class of this joint; write its residual with constrain()");
}

template <class Joint>
std::array<JointAxis, 6> axes_of(Joint& joint) {
  constexpr bool first = std::is_same_v<Joint, btGeneric6DofConstraint>;  // of the two classes of Bullet
  const auto& lin = *joint.getTranslationalLimitMotor();
  std::array<JointAxis, 6> out;
  for (int i = 0; i < 3; ++i) {
    const auto& rot = *joint.getRotationalLimitMotor(i);
    const std::size_t k = static_cast<std::size_t>(i);
    out[k] = {double(lin.m_lowerLimit[i]), double(lin.m_upperLimit[i]), lin.m_enableMotor[i], false,
              lin.m_stopCFM[i] != 0};
    out[k + 3] = {double(rot.m_loLimit), double(rot.m_hiLimit), rot.m_enableMotor, false, rot.m_stopCFM != 0, !first};
    if constexpr (first) {
      const auto* spring = as<btGeneric6DofSpringConstraint, D6_SPRING_CONSTRAINT_TYPE>(joint);
      out[k].spring = spring && spring->isSpringEnabled(i);
      out[k].soft = out[k].soft || lin.m_normalCFM[i] != 0;
      out[k + 3].spring = spring && spring->isSpringEnabled(i + 3);
      out[k + 3].soft = out[k + 3].soft || rot.m_normalCFM != 0;
    } else {
      out[k].spring = lin.m_enableSpring[i];
      out[k + 3].spring = rot.m_enableSpring;
    }
  }
  return out;
}

host::EulerOrder euler_order(RotateOrder order) {
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
      return {};
  }
}

JointShape map(btGeneric6DofConstraint& joint) {
  return host::six_axis_joint(frame_of(joint.getFrameOffsetA()), frame_of(joint.getFrameOffsetB()), axes_of(joint), {});
}
JointShape map(btGeneric6DofSpring2Constraint& joint) {
  return host::six_axis_joint(frame_of(joint.getFrameOffsetA()), frame_of(joint.getFrameOffsetB()), axes_of(joint),
                              euler_order(joint.getRotationOrder()));
}

// ---- settings ----

struct Mixer : host::SettingsMixer {
  using host::SettingsMixer::add;
  void add(const btVector3& u) { add(u.x(), u.y(), u.z()); }
  void add(const btTransform& f) {
    add(f.getOrigin());
    for (const int column : {1, 2}) add(btVector3(f.getBasis().getColumn(column)));
  }
};

void add_settings(Mixer& to, btPoint2PointConstraint& j) {
  to.add(j.getPivotInA());
  to.add(j.getPivotInB());
  to.add(j.m_setting.m_impulseClamp, j.getFlags());
}
void add_settings(Mixer& to, btHingeConstraint& j) {
  to.add(j.getAFrame());
  to.add(j.getBFrame());
  to.add(j.getLowerLimit(), limit_in(j).getHalfRange(), j.getAngularOnly(), j.getEnableAngularMotor(), j.getFlags());
}
void add_settings(Mixer& to, btSliderConstraint& j) {
  to.add(j.getFrameOffsetA());
  to.add(j.getFrameOffsetB());
  to.add(j.getLowerLinLimit(), j.getUpperLinLimit(), j.getLowerAngLimit(), j.getUpperAngLimit(), j.getPoweredLinMotor(),
         j.getPoweredAngMotor(), j.getFlags());
}
void add_settings(Mixer& to, btConeTwistConstraint& j) {
  to.add(j.getAFrame());
  to.add(j.getBFrame());
  to.add(j.getSwingSpan1(), j.getSwingSpan2(), j.getTwistSpan(), j.getLimitSoftness(), j.getFixThresh(),
         j.isMotorEnabled(), j.getFlags());
}
void add_settings(Mixer& to, btGearConstraint& j) {
  to.add(j.getAxisA());
  to.add(j.getAxisB());
  to.add(j.getRatio());
}
template <class SixAxes>
void add_settings(Mixer& to, SixAxes& j) {
  to.add(j.getFrameOffsetA());
  to.add(j.getFrameOffsetB());
  for (const JointAxis& x : axes_of(j)) to.add(x.lower, x.upper, x.motor + 2 * x.spring + 4 * x.soft);
  if constexpr (std::is_same_v<SixAxes, btGeneric6DofSpring2Constraint>) to.add(j.getRotationOrder());
}

// ---- rows that stay with Bullet ----

void list_rows(RowList& to, btHingeConstraint&) {
  to.next = 5;
  to.add(5, to.emitted - 5);
}
void list_rows(RowList& to, btSliderConstraint& j) {
  to.next = 4;  // two angular, two linear rows first
  to.add(0, j.getSolveLinLimit() || j.getPoweredLinMotor());
  to.add(3, j.getSolveAngLimit() || j.getPoweredAngMotor());
}
void list_rows(RowList& to, btGeneric6DofSpring2Constraint& j) {
  const auto add = [&](int axis, int limit, bool motor, bool spring) {
    to.add(axis, (limit == 4 ? 2 : limit != 0 ? 1 : 0) + motor + spring);
  };
  static constexpr int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const int i : order[j.getRotationOrder()]) {
    const auto& rot = *j.getRotationalLimitMotor(i);
    add(i + 3, rot.m_currentLimit, rot.m_enableMotor, rot.m_enableSpring);
  }
  const auto& lin = *j.getTranslationalLimitMotor();
  for (int i = 0; i < 3; ++i) add(i, lin.m_currentLimit[i], lin.m_enableMotor[i], lin.m_enableSpring[i]);
}
void list_rows(RowList& to, btGeneric6DofConstraint& j) {
  for (const bool angular : {j.getUseFrameOffset(), !j.getUseFrameOffset()})
    for (int i = 0; i < 3; ++i)
      if (angular)
        to.add(i + 3, j.getRotationalLimitMotor(i)->needApplyTorques());
      else
        to.add(i, j.getTranslationalLimitMotor()->needApplyForce(i));
}
void list_rows(RowList& to, btConeTwistConstraint& j) {
  to.next = 3;
  const bool tight = j.getSwingSpan1() < j.getFixThresh() && j.getSwingSpan2() < j.getFixThresh();
  if (j.getSolveSwingLimit()) to.add(4, tight ? 2 : 1);
  if (j.getSolveTwistLimit()) to.add(3, 1);
}
template <class Other>
void list_rows(RowList& to, Other&) {
  for (int i = 0; i < to.emitted; ++i) to.kept.push_back(i);
}

template <class Joint>
JointShape map_as(btTypedConstraint& joint) {
  auto& j = static_cast<Joint&>(joint);
  if constexpr (soft_flags<Joint> != 0)
    if (j.getFlags() & soft_flags<Joint>)
      return JointShape::left_to_host("the program has set a CFM, which makes the joint soft");
  return map(j);
}
template <class Joint>
std::uint64_t settings_as(btTypedConstraint& joint) {
  Mixer mixer;
  add_settings(mixer, static_cast<Joint&>(joint));
  return mixer.sum();
}
template <class Joint>
void list_rows_as(RowList& to, btTypedConstraint& joint) {
  list_rows(to, static_cast<Joint&>(joint));
}

/// A class of joints that is mapped as its base is.
template <class Joint, int tag, class Base = Joint>
constexpr JointClass make_class(const char* name) {
  const auto is = [](const btTypedConstraint& joint) { return as<Joint, tag>(joint) != nullptr; };
  return {name, is, map_as<Base>, settings_as<Base>, list_rows_as<Base>};
}
/// Bullet's classes, derived ones before their bases. The last one is every other class.
constexpr JointClass joint_classes[] = {
    make_class<btPoint2PointConstraint, POINT2POINT_CONSTRAINT_TYPE>("point2point"),
    make_class<btHingeConstraint, HINGE_CONSTRAINT_TYPE>("hinge"),
    make_class<btSliderConstraint, SLIDER_CONSTRAINT_TYPE>("slider"),
    make_class<btFixedConstraint, MAX_CONSTRAINT_TYPE, btGeneric6DofSpring2Constraint>("fixed"),
    make_class<btHinge2Constraint, MAX_CONSTRAINT_TYPE, btGeneric6DofSpring2Constraint>("hinge2"),
    make_class<btGeneric6DofSpring2Constraint, D6_SPRING_2_CONSTRAINT_TYPE>("6dof-spring2"),
    make_class<btUniversalConstraint, MAX_CONSTRAINT_TYPE, btGeneric6DofConstraint>("universal"),
    make_class<btGeneric6DofSpringConstraint, D6_SPRING_CONSTRAINT_TYPE, btGeneric6DofConstraint>("6dof-spring"),
    make_class<btGeneric6DofConstraint, D6_CONSTRAINT_TYPE>("6dof"),
    make_class<btConeTwistConstraint, CONETWIST_CONSTRAINT_TYPE>("cone-twist"),
    make_class<btGearConstraint, GEAR_CONSTRAINT_TYPE>("gear"),
    {"constraint", [](const btTypedConstraint&) { return true; }, map_as<btTypedConstraint>,
     [](btTypedConstraint&) -> std::uint64_t { return 0; }, list_rows_as<btTypedConstraint>},
};

}  // namespace

const JointClass& joint_class(const btTypedConstraint& joint) {
  return *std::find_if(std::begin(joint_classes), std::end(joint_classes),
                       [&](const JointClass& c) { return c.is(joint); });
}

// It is the twist of a cone-twist joint without a motor that is to be none.
bool is_held_by_own_rows(const btTypedConstraint& joint) {
  const auto* const cone = as<btConeTwistConstraint, CONETWIST_CONSTRAINT_TYPE>(joint);
  return cone && !cone->isMotorEnabled();
}

JointMapping mapping_of(btTypedConstraint& joint) {
  const JointClass& of = joint_class(joint);
  JointShape s = of.map(joint);
  return {of.name, std::move(s.rows), s.application_A, s.application_B, std::move(s.host_part)};
}

void find_native_rows(btTypedConstraint& joint, const std::array<bool, 6>& exact_axis, int emitted,
                      std::vector<int>& rows) {
  rows.clear();
  RowList list{exact_axis, emitted, rows};
  joint_class(joint).list_rows(list, joint);
}

void NativePart::getInfo1(btConstraintInfo1* info) {
  btConstraintInfo1 inner{};
  joint_.getInfo1(&inner);
  find_native_rows(joint_, exact_axis_, inner.m_numConstraintRows, rows_);
  info->m_numConstraintRows = static_cast<int>(rows_.size());
  info->nub = 0;
}

// The joint writes all its rows into an array here, from which those that stay are copied.
void NativePart::getInfo2(btConstraintInfo2* info) {
  using Info = btConstraintInfo2;
  struct Field {
    btScalar* Info::*of;
    int at, size;
  };
  static constexpr Field fields[] = {{&Info::m_J1linearAxis, 0, 3},     {&Info::m_J1angularAxis, 3, 3},
                                     {&Info::m_J2linearAxis, 6, 3},     {&Info::m_J2angularAxis, 9, 3},
                                     {&Info::m_constraintError, 12, 1}, {&Info::cfm, 13, 1},
                                     {&Info::m_lowerLimit, 14, 1},      {&Info::m_upperLimit, 15, 1}};
  static constexpr int size = 16;
  std::array<btScalar, 24 * size> own{};
  for (std::size_t i = 0; i < own.size(); i += size) {
    own[i + 14] = -SIMD_INFINITY;
    own[i + 15] = SIMD_INFINITY;
  }
  own[13] = *info->cfm;
  Info inner = *info;
  for (const Field& f : fields) inner.*f.of = &own[z(f.at)];
  inner.rowskip = size;
  joint_.getInfo2(&inner);
  info->m_damping = inner.m_damping;  // some joints change it for all their rows
  for (std::size_t i = 0; i < rows_.size(); ++i)
    for (const Field& f : fields)
      std::copy_n(&own[z(rows_[i] * size + f.at)], f.size, info->*f.of + static_cast<int>(i) * info->rowskip);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
