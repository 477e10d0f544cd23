// Plain description of one articulated body in joint coordinates (Featherstone, Rigid Body Dynamics Algorithms, 2008):
// its links and joints, where they are, how they move and what acts on them. A host fills these in, in double and SI;
// nothing here names a host. Private to the core.
#pragma once

#include <linchpin/system.h>

#include <array>
#include <cstddef>
#include <vector>

namespace linchpin::articulated {

/// How a link moves against its parent.
enum class JointKind {
  fixed,      ///< not at all
  revolute,   ///< by an angle about an axis
  prismatic,  ///< by a length along an axis
  spherical,  ///< by a rotation, whose position is a quaternion in the order x, y, z, w
  other       ///< in a way that no exact constraint can rely on: the link is placed as if its joint were fixed
};

/// One link with the joint to its parent. Link −1 is the base.
struct LinkModel {
  static constexpr std::size_t most_rates = 3;

  int parent = -1;  ///< below the link's own index
  JointKind joint = JointKind::fixed;
  int first_position = 0, positions = 0;  ///< its numbers in Configuration::joints
  int first_rate = 0, rates = 0;          ///< its numbers among the joint rates
  /// Angular and linear velocity of the link's centre of mass per unit of each rate (link axes).
  std::array<Vector3d, most_rates> angular{}, linear{};
  Matrix3d R_PL_at_zero = Matrix3d::Identity();  ///< link to parent, at joint position zero
  Vector3d p_PJ = Vector3d::Zero();     ///< from the parent's centre of mass to the joint's pivot (parent axes)
  Vector3d p_JL = Vector3d::Zero();     ///< from the pivot to the link's centre of mass (link axes)
  double mass = 0;                      ///< [kg]
  Vector3d inertia = Vector3d::Zero();  ///< principal, about the centre of mass (link axes) [kg·m²]
};

/// The part of the description that does not change while the tree moves.
struct TreeModel {
  std::vector<LinkModel> links;  ///< every parent before its children
  int positions = 0, rates = 0;  ///< joint positions and joint rates of all links together
  bool fixed_base = false;
  double base_mass = 0;
  Vector3d base_inertia = Vector3d::Zero();
  double linear_damping = 0;   ///< c of the force −m c (1 + |v|) v on a link: a drag that grows with the speed
  double angular_damping = 0;  ///< d of the torque −d (1 + |w|) I w
  bool gyroscopic = true;      ///< whether the host gives the links the torque −w × I w

  double mass(int link) const { return link < 0 ? base_mass : links[static_cast<std::size_t>(link)].mass; }
  const Vector3d& inertia(int link) const {
    return link < 0 ? base_inertia : links[static_cast<std::size_t>(link)].inertia;
  }
};

/// Where the tree is.
struct Configuration {
  Vector3d p = Vector3d::Zero();            ///< centre of mass of the base [m] (W)
  Quaterniond q = Quaterniond::Identity();  ///< base to world
  std::vector<double> joints;               ///< joint positions [rad, m, or a quaternion]
};

/// A force and a moment about a link's centre of mass, world axes.
struct LinkForce {
  Vector3d force, moment;
};

/// Where the tree is, how it moves and what acts on it at one time.
struct TreeState {
  Configuration at;
  /// [angular velocity of the base, its velocity, joint rates], world axes: 6 + joint rates numbers.
  std::vector<double> velocity;
  std::vector<LinkForce> forces;     ///< applied, gravity included, base first [links + 1]
  std::vector<double> joint_forces;  ///< applied along the joint rates [N, N·m]
};

/// The rotation by which the host's integrator turns a body of angular velocity `w` over dt. It is the host's
/// convention: hosts clamp fast rotation or use a series, and the step has to end on the constraints where the host
/// really ends (T12).
using RotationOverStep = Quaterniond (*)(const Vector3d& w, double dt);

/// A link, or the base, at one time, world axes.
struct LinkMotion {
  Vector3d p = Vector3d::Zero();      ///< centre of mass [m]
  Vector3d pivot = Vector3d::Zero();  ///< of its joint, fixed in the link [m]
  Matrix3d R = Matrix3d::Identity();  ///< link to world
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
  Vector3d a = Vector3d::Zero(), alpha = Vector3d::Zero();  ///< with all joint accelerations zero: J̇q̇
};

}  // namespace linchpin::articulated
