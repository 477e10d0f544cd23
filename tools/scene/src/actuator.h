// Actuators: a force or a torque along the coordinate of a joint, or a prescribed motion of it.
#pragma once

#include "joint_coordinate.h"
#include "parts.h"

#include <linchpin/scene.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// The joints that an actuator can drive, and what its expressions can read.
struct DrivableJoints {
  const std::vector<SceneConstraint>& constraints;   ///< all constraints of the scene so far
  const std::vector<SceneConstraint>& in_compounds;  ///< Model::compound_coordinates
  const State& start;                                ///< state of the scene at t = 0

  /// Returns the joint with a coordinate, or nullptr.
  const SceneConstraint* find(std::string_view name) const;
};

/// The result of a table [[actuator]]: a force, or a constraint that prescribes the motion.
struct Actuator {
  std::optional<SceneForce> force;            ///< the force or the torque of a motor
  std::optional<SceneConstraint> constraint;  ///< the prescribed motion
};

/// Lets expressions read joint_position(NAME) and joint_velocity(NAME).
void offer_joints(Names& names, const DrivableJoints& joints);

/// Reads one table. The names of `context` must have the joints of offer_joints().
/// @throws SceneError at the place of the fault
Actuator read_actuator(Table& table, const Context& context, const DrivableJoints& joints);

/// A force along the coordinate of a joint [N or N m], as a function of the position and the rate of the coordinate.
/// The frame has the states of all bodies of the force.
using ForceOfJoint = std::function<double(double position, double rate, const ForceFrame& frame)>;

/// Makes a force between the two bodies of a joint along its coordinate. A positive force increases the coordinate. Its
/// power is force · rate. The first two bodies are the parent and the child, and `more` follow.
SceneForce force_of_joint(std::string name, const SceneConstraint& joint, const State& start,
                          const std::vector<BodyId>& more, ForceOfJoint force);

/// Limits a force to the largest size, and to none in the direction of motion at the largest rate or above.
double within_limits(double force, double rate, std::optional<double> max_force, std::optional<double> max_rate);

}  // namespace linchpin::scene
