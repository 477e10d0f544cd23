// Finds the class of an object of the program. Many games are compiled with -fno-rtti. There, dynamic_cast and typeid
// of an object whose class the game defines would read type information that does not exist.
#pragma once

#include <linchpin/detail/class_of.h>

#include <btBulletDynamicsCommon.h>

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using linchpin::detail::class_of;
using linchpin::detail::is_exactly;
using linchpin::detail::type_of;

/// Bullet's own drawing and serialisation cast a joint with such a tag to a `Joint`. The kinds without a tag of their
/// own (fixed, universal, hinge2) have that of their base.
template <class Joint>
constexpr bool is_tag_of(int) {
  return false;
}
template <>
constexpr bool is_tag_of<btPoint2PointConstraint>(int tag) {
  return tag == POINT2POINT_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btHingeConstraint>(int tag) {
  return tag == HINGE_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btSliderConstraint>(int tag) {
  return tag == SLIDER_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btGeneric6DofConstraint>(int tag) {
  return tag == D6_CONSTRAINT_TYPE || tag == D6_SPRING_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btGeneric6DofSpringConstraint>(int tag) {
  return tag == D6_SPRING_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btGeneric6DofSpring2Constraint>(int tag) {
  return tag == D6_SPRING_2_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btConeTwistConstraint>(int tag) {
  return tag == CONETWIST_CONSTRAINT_TYPE;
}
template <>
constexpr bool is_tag_of<btGearConstraint>(int tag) {
  return tag == GEAR_CONSTRAINT_TYPE;
}

/// The joint as a `Joint`, or null: by its type where it has one, else by Bullet's tag.
template <class Joint>
const Joint* as(const btTypedConstraint& joint) {
  if (type_of(joint)) return dynamic_cast<const Joint*>(&joint);
  return is_tag_of<Joint>(joint.getConstraintType()) ? static_cast<const Joint*>(&joint) : nullptr;
}
template <class Joint>
Joint* as(btTypedConstraint& joint) {
  return const_cast<Joint*>(as<Joint>(static_cast<const btTypedConstraint&>(joint)));
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
