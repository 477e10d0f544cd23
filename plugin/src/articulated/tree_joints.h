// Joints of a tree as constraints between bodies, for problems in which every link is a body of its own. Private to the
// core.
#pragma once

#include <linchpin/articulated.h>
#include <linchpin/constraint.h>

#include <string>
#include <vector>

namespace linchpin::articulated {

/// The constraint that the joint coordinates of a link keep. @throws std::invalid_argument as the joints of joints.h
Constraint joint_constraint(const LinkModel& link, const std::string& name, BodyId parent, BodyId child);

/// A joint in a gear: the rate of `child` against `parent`.
struct GearedJoint {
  std::size_t child, parent;  ///< indices among the bodies of the constraint
  Vector3d axis;              ///< fixed in the child
  bool slides;
  double factor;
};
/// A gear between joints, Σ factor · rate = 0. It is on rates, because bodies do not know the angles of their joints.
Constraint gear_constraint(const std::string& name, const std::vector<BodyId>& bodies, std::vector<GearedJoint> joints);

/// The velocity of a rotor along x is the rate of a joint: the mass of the rotor is then an inertia of this rate
/// itself. Its bodies are rotor, child and parent. @param axis  of the rate, fixed in the child @param slides  the rate
/// is one of sliding
Constraint rotor_constraint(const std::string& name, BodyId rotor, BodyId child, BodyId parent, const Vector3d& axis,
                            bool slides);

}  // namespace linchpin::articulated
