#include "articulated/tree_joints.h"

#include <linchpin/joints.h>

#include <type_traits>
#include <utility>

namespace linchpin::articulated {

namespace {

/// A rotation whose first axis is along x.
Matrix3d frame_with_x(const Vector3d& x) {
  Matrix3d R;
  const Vector3d u = x.normalized(), e = u.unitOrthogonal();
  R << u, e, u.cross(e);
  return R;
}

/// The rate of a joint about or along an axis that is fixed in the child.
template <class View>
auto rate_of(const View& child, const View& parent, const Vector3d& unit, bool slides) {
  const auto axis = child.axis(unit);
  if (!slides) return dot(axis, child.omega() - parent.omega());
  return dot(axis, child.velocity() - parent.velocity() - cross(parent.omega(), child.position() - parent.position()));
}

}  // namespace

Constraint joint_constraint(const LinkModel& link, const std::string& name, BodyId parent, BodyId child) {
  const Matrix3d& R = link.R_PL_at_zero;
  const Vector3d p_A = link.p_PJ, p_B = -link.p_JL;
  if (link.joint == JointKind::revolute)
    return joints::hinge(name, parent, p_A, R * link.angular[0], child, p_B, link.angular[0]);
  if (link.joint == JointKind::spherical) return joints::ball(name, parent, p_A, child, p_B);
  if (link.joint == JointKind::prismatic) {
    const Matrix3d axes = frame_with_x(link.linear[0]);
    return joints::slider(name, parent, {p_A, R * axes}, child, {p_B, axes});
  }
  return joints::weld(name, parent, {p_A, R}, child, {p_B, Matrix3d::Identity()});
}

Constraint gear_constraint(const std::string& name, const std::vector<BodyId>& bodies,
                           std::vector<GearedJoint> joints) {
  return nonholonomic(name, bodies, [joints = std::move(joints)](const auto& s) {
    using T = std::remove_cvref_t<decltype(s.t)>;
    T sum(0.0);
    for (const GearedJoint& joint : joints)
      sum = sum + joint.factor * rate_of(s[joint.child], s[joint.parent], joint.axis, joint.slides);
    return sum;
  });
}

Constraint rotor_constraint(const std::string& name, BodyId rotor, BodyId child, BodyId parent, const Vector3d& axis,
                            bool slides) {
  return nonholonomic(name, {rotor, child, parent},
                      [unit = Vector3d(axis / axis.squaredNorm()), slides](const auto& s) {
                        return s[0].velocity().x - rate_of(s[1], s[2], unit, slides);
                      });
}

}  // namespace linchpin::articulated
