// Stock joints from points and axes of the world, as the bodies are now. They are the joints of joints.h: the points
// and axes are turned into those of both bodies once, and the joint is met exactly at the present poses.
//
// Points [m] and axes are in world axes. Axes need not be unit. All functions throw std::invalid_argument for a zero
// axis and for numbers that are not finite, with the name of the joint. Any thread may call them. The constraint keeps
// no reference to the arguments.
#pragma once

#include <linchpin/export.h>
#include <linchpin/joints.h>

#include <string>

namespace linchpin::joints {

/// A plain value: a body and its present pose. The ground is {ground, {}}.
struct PlacedBody {
  BodyId id = ground;  ///< The body.
  Pose pose = {};      ///< Its present pose.
};

/// The bodies keep one point together.
LINCHPIN_API Constraint ball(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point);
/// The bodies turn about one axis through a point.
LINCHPIN_API Constraint hinge(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                              const Vector3d& axis);
/// b slides along an axis through a point of it, and does not turn. The joint acts at the point.
LINCHPIN_API Constraint slider(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                               const Vector3d& axis);
/// The bodies keep their relative pose. The joint acts at the point.
LINCHPIN_API Constraint weld(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point);
/// The bodies keep one point together, and axis_a, fixed in a, stays perpendicular to axis_b, fixed in b. If the two
/// are not perpendicular now, the first step closes the gap.
LINCHPIN_API Constraint universal(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                                  const Vector3d& axis_a, const Vector3d& axis_b);
/// b slides along an axis through a point, and turns about it.
LINCHPIN_API Constraint cylindrical(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                                    const Vector3d& axis);
/// A point of b stays in the plane of a with that normal, and b turns about the normal only.
LINCHPIN_API Constraint planar(std::string name, const PlacedBody& a, const PlacedBody& b, const Vector3d& point,
                               const Vector3d& normal);
/// The two points keep their present distance. It must not be zero.
LINCHPIN_API Constraint rod(std::string name, const PlacedBody& a, const Vector3d& point_a, const PlacedBody& b,
                            const Vector3d& point_b);

}  // namespace linchpin::joints
