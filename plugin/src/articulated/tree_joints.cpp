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
    for (const GearedJoint& joint : joints) {
      const auto &child = s[joint.child], &parent = s[joint.parent];
      const auto axis = child.axis(joint.axis);
      if (joint.slides)
        sum = sum + joint.factor * dot(axis, child.velocity() - parent.velocity() -
                                                 cross(parent.omega(), child.position() - parent.position()));
      else
        sum = sum + joint.factor * dot(axis, child.omega() - parent.omega());
    }
    return sum;
  });
}

}  // namespace linchpin::articulated
