// Inverse kinematics: the joint positions at which a frame of a robot has a given pose, with limits and closed loops.
//
// The structs of this header are plain values.
#pragma once

#include <linchpin/scene/export.h>
#include <linchpin/scene/robot_dynamics.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::scene {

/// The wanted pose of a frame.
struct FrameTarget {
  BodyFrame frame;                      ///< the frame
  Vector3d p = Vector3d::Zero();        ///< where its origin shall be [m] (W)
  std::optional<Quaterniond> rotation;  ///< its rotation to the world; without it any rotation will do
};

/// Settings of inverse_kinematics(). The defaults suit arms of the size of metres.
struct InverseKinematicsOptions {
  double position_tolerance = 1e-10;    ///< [m] > 0
  double rotation_tolerance = 1e-10;    ///< [rad] > 0
  double constraint_tolerance = 1e-11;  ///< of |φ| of loops [m, rad or the row's unit] > 0
  double rotation_weight = 1;           ///< Length that counts as much as a radian [m/rad] > 0.
  /// Weights > 0 of the coordinates of joints, by name. A joint of a larger weight moves less where there is a choice.
  /// Those that are not named have 1.
  std::map<std::string, double> weights;
  bool limits = true;  ///< Keep the limits of the file.
  /// Limits in place of those of the file, by the name of a hinge or slider [rad or m]. They always count.
  std::map<std::string, std::pair<double, double>> own_limits;
  /// Joints and free bodies that stay, by name.
  std::vector<std::string> held;
  bool hold_free_bodies = true;  ///< Free bodies stay.
  int iterations = 200;          ///< Most iterations from one start.
  /// Further starts if the pose is not found from the first: near the first one, then anywhere within the limits. They
  /// are the same in every call.
  int restarts = 12;
};

/// The result of inverse_kinematics().
struct InverseKinematics {
  /// How the search ended.
  enum class Outcome {
    found,          ///< The frame is at the target, within the tolerances.
    nearest,        ///< The target is not reached. q is the nearest place that was found, where the distance is least.
    not_converged,  ///< The search ended by its number of iterations before either.
    not_closed      ///< The constraints cannot be closed from any start. q is the first start.
  };
  Outcome outcome = Outcome::not_closed;  ///< how the search ended
  VectorX q;                              ///< positions, within the limits
  double distance = 0;                    ///< of the origin from the target [m]
  double angle = 0;                       ///< of the rotation from the target's [rad]; 0 without one
  double constraint_residual = 0;         ///< largest |φ| of the constraints
  int iterations = 0;                     ///< of all starts
  int starts = 0;                         ///< number of starts
  std::vector<std::string> at_limit;      ///< joints that are at a limit
};
/// Text of an outcome: "found", "nearest", …
LINCHPIN_SCENE_API const char* to_string(InverseKinematics::Outcome outcome);

/// Finds q near a start such that a frame has a pose. Minimises ½|Δp|² + ½ w²|θ|², where Δp is the distance and θ the
/// rotation vector from the target, by damped Newton steps within the limits and on the constraints. Where the pose is
/// not reachable, the result is a place where the distance is least, of those that the starts lead to. Constraints on
/// velocities do not count. A start outside of the limits is moved to them. The cost of an iteration is O(N n + n³).
/// @param robot  is not changed; its time is that of the constraints
/// @param start  [robot.positions()]
/// @throws std::invalid_argument  for a wrong size, a name that there is not, limits of the wrong order or values that
/// are not finite or not positive
[[nodiscard]] LINCHPIN_SCENE_API InverseKinematics inverse_kinematics(const RobotDynamics& robot,
                                                                      const FrameTarget& target, const VectorX& start,
                                                                      const InverseKinematicsOptions& options = {});

}  // namespace linchpin::scene
