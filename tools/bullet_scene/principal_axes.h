// Bodies whose axes in the scene are not principal axes of inertia, as those of Bullet have to be. In Bullet such a
// body has its principal axes; all that a scene says of it is turned between the two.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/laws.h>

#include <vector>

namespace linchpin::bullet_scene {

/// The axes of a body in Bullet.
struct PrincipalAxes {
  Quaterniond turn = Quaterniond::Identity();  ///< of Bullet's axes, in those of the scene
  Vector3d moments = Vector3d::Zero();         ///< [kg·m²]
  bool turned = false;                         ///< `turn` is not the identity
};

/// Where the matrix is diagonal, its own axes.
PrincipalAxes principal_axes(const Matrix3d& inertia);

/// A constraint for bodies whose rotations are the host's. @param turns  of its bodies, PrincipalAxes::turn
/// @param origins  of its bodies that cannot move: their centres in the host's body [m], which may be the world. Empty
/// where all centres are the same
Constraint with_axes_of_scene(const Constraint& constraint, const std::vector<Quaterniond>& turns,
                              const std::vector<Vector3d>& origins = {});
/// A law between two such bodies.
Law with_axes_of_scene(const Law& law, const Quaterniond& first, const Quaterniond& second);

}  // namespace linchpin::bullet_scene
