#include <linchpin/world_joints.h>

#include <initializer_list>
#include <utility>

namespace linchpin::joints {

namespace {

/// @throws std::invalid_argument  a point of the world, or the pose of one of the bodies, is not finite
void require_finite_place(const std::string& joint, const PlacedBody& a, const PlacedBody& b,
                          std::initializer_list<std::pair<const char*, Vector3d>> points) {
  for (const auto& [what, point] : points) detail::require_finite(joint, what, point);
  detail::require_finite(joint, "the position of the first body", a.pose.p);
  detail::require_finite(joint, "the position of the second body", b.pose.p);
}

Vector3d point_in(const PlacedBody& body, const Vector3d& point) {
  return body.pose.q.conjugate() * (point - body.pose.p);
}
Vector3d axis_in(const PlacedBody& body, const Vector3d& axis) { return body.pose.q.conjugate() * axis; }
/// @throws std::invalid_argument  a direction that is zero or not finite, by the name that the caller knows
void require_direction(const std::string& joint, const char* what, const Vector3d& axis) {
  (void)detail::unit_axis(joint, what, axis);
}

/// A frame at a point, with x along an axis, in the axes of a body.
JointFrame frame_in(const PlacedBody& body, const Vector3d& point, const Vector3d& x) {
  Matrix3d axes;
  axes.col(0) = x;
  axes.col(1) = x.unitOrthogonal();
  axes.col(2) = x.cross(axes.col(1));
  return {point_in(body, point), body.pose.q.conjugate().toRotationMatrix() * axes};
}

}  // namespace

Constraint ball(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point) {
  require_finite_place(name, a, b, {{"the point", point}});
  return ball(std::move(name), a.id, point_in(a, point), b.id, point_in(b, point));
}

Constraint hinge(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                 const Vector3d& axis) {
  require_finite_place(name, a, b, {{"the point", point}});
  require_direction(name, "axis", axis);
  return hinge(std::move(name), a.id, point_in(a, point), axis_in(a, axis), b.id, point_in(b, point), axis_in(b, axis));
}

Constraint slider(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                  const Vector3d& axis) {
  require_finite_place(name, a, b, {{"the point", point}});
  const Vector3d x = detail::unit_axis(name, "axis", axis);
  return slider(std::move(name), a.id, frame_in(a, point, x), b.id, frame_in(b, point, x));
}

Constraint weld(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point) {
  require_finite_place(name, a, b, {{"the point", point}});
  const Vector3d x = Vector3d::UnitX();
  return weld(std::move(name), a.id, frame_in(a, point, x), b.id, frame_in(b, point, x));
}

Constraint universal(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                     const Vector3d& axis_a, const Vector3d& axis_b) {
  require_finite_place(name, a, b, {{"the point", point}});
  require_direction(name, "axis_a", axis_a);
  require_direction(name, "axis_b", axis_b);
  return universal(std::move(name), a.id, point_in(a, point), axis_in(a, axis_a), b.id, point_in(b, point),
                   axis_in(b, axis_b));
}

Constraint cylindrical(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                       const Vector3d& axis) {
  require_finite_place(name, a, b, {{"the point", point}});
  require_direction(name, "axis", axis);
  return cylindrical(std::move(name), a.id, point_in(a, point), axis_in(a, axis), b.id, point_in(b, point),
                     axis_in(b, axis));
}

Constraint planar(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                  const Vector3d& normal) {
  require_finite_place(name, a, b, {{"the point", point}});
  require_direction(name, "normal", normal);
  return planar(std::move(name), a.id, point_in(a, point), axis_in(a, normal), b.id, point_in(b, point),
                axis_in(b, normal));
}

Constraint rod(std::string name, const PlacedBody& a, const Vector3d& point_a, const PlacedBody& b,
               const Vector3d& point_b) {
  require_finite_place(name, a, b,
                       {{"the point on the first body", point_a}, {"the point on the second body", point_b}});
  return rod(std::move(name), a.id, point_in(a, point_a), b.id, point_in(b, point_b), (point_a - point_b).norm());
}

}  // namespace linchpin::joints
