// Finds the class of an object of the program. Many games are compiled with -fno-rtti. There, dynamic_cast and typeid
// of an object whose class the game defines would read type information that does not exist.
#pragma once

#include <linchpin/detail/class_of.h>

#include <btBulletDynamicsCommon.h>

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>

#include <type_traits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using linchpin::detail::class_of;
using linchpin::detail::is_exactly;
using linchpin::detail::type_of;

/// The tag of a joint's class, by which Bullet's own drawing and serialisation cast it. The kinds without a tag of
/// their own (fixed, universal, hinge2) have that of their base.
template <class Joint>
constexpr int tag_of = MAX_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btPoint2PointConstraint> = POINT2POINT_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btHingeConstraint> = HINGE_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btSliderConstraint> = SLIDER_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btGeneric6DofConstraint> = D6_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btGeneric6DofSpringConstraint> = D6_SPRING_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btGeneric6DofSpring2Constraint> = D6_SPRING_2_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btConeTwistConstraint> = CONETWIST_CONSTRAINT_TYPE;
template <>
inline constexpr int tag_of<btGearConstraint> = GEAR_CONSTRAINT_TYPE;

/// The joint as a `Joint`, or null: by its type where it has one, else by Bullet's tag.
template <class Joint>
const Joint* as(const btTypedConstraint& joint) {
  if (type_of(joint)) return dynamic_cast<const Joint*>(&joint);
  const int tag = joint.getConstraintType();
  const bool derived = std::is_same_v<Joint, btGeneric6DofConstraint> && tag == D6_SPRING_CONSTRAINT_TYPE;
  return tag == tag_of<Joint> || derived ? static_cast<const Joint*>(&joint) : nullptr;
}
template <class Joint>
Joint* as(btTypedConstraint& joint) {
  return const_cast<Joint*>(as<Joint>(static_cast<const btTypedConstraint&>(joint)));
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
