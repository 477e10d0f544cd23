// The coordinate of a joint with one free direction: the angle of a hinge or the shift of a slider, and how it depends
// on the motion of its two bodies. A joint inside a compound joint has one, too.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/detail/jet.h>
#include <linchpin/scene.h>

#include <Eigen/Core>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// The wrenches of an impressed force on its bodies at a state, about their centres of mass [N, N m].
std::vector<Vector6> wrenches_of(const Force& force, const State& state);

/// The values by the frames alone of all coordinates between two bodies: one, or those of a compound joint.
using CoordinateValues = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::ColMajor, 6, 1>;

/// A hinge or a slider between two bodies, or between two links of a compound joint.
struct JointCoordinate {
  int parent = 0, child = 0;    ///< index of each body, among those that the user of this struct chooses
  bool slides = false;          ///< a shift [m]; otherwise an angle [rad]
  JointFrame frame_P, frame_C;  ///< x along the axis; not of a joint in a compound joint
  double start = 0;             ///< value near which the first angle is, to half a turn
  double zero = 0;              ///< value by the frames alone where the coordinate is 0
  std::string constraint;       ///< name of the joint, or of the compound joint that it is part of
  /// Names of what acts along it beside its constraint: forces and prescribed motions, and in a compound joint also the
  /// damping and the friction of the file.
  std::vector<std::string> actuators;
  std::shared_ptr<const CompoundJoint> compound;  ///< the compound joint that it is part of
  int which = 0;                                  ///< its coordinate there

  CoordinateValues start_values() const;  ///< the values from which the first ones are found
};

/// The value of a coordinate by the frames alone, its rate, and its row A v̇ − b of the acceleration.
struct CoordinateRow {
  double value = 0, rate = 0, b = 0;
  Vector3d linear_P = Vector3d::Zero(), angular_P = Vector3d::Zero();
  Vector3d linear_C = Vector3d::Zero(), angular_C = Vector3d::Zero();
  Vector3d axis = Vector3d::UnitX();  ///< unit, world axes
  Vector3d point = Vector3d::Zero();  ///< on the axis, in the world
  /// Velocity and angular velocity, at that point, of what the axis is fixed in: the parent, or a link of the chain.
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
  CoordinateValues values;  ///< `near` of the next state

  /// @param P, C  accelerations [v̇; α] of the parent and of the child
  double acceleration(const Vector6& P, const Vector6& C) const {
    return linear_P.dot(P.head<3>()) + angular_P.dot(P.tail<3>()) + linear_C.dot(C.head<3>()) +
           angular_C.dot(C.tail<3>()) - b;
  }
};

/// @param P, C  states of the parent and of the child
/// @param near  values at a state near this one: an angle turns by less than half a turn. A coordinate of a compound
///              joint is that of the nearest pose of the chain, by Newton's method from these values.
CoordinateRow coordinate_row(const JointCoordinate& joint, const BodyState& P, const BodyState& C,
                             const CoordinateValues& near);

/// Makes the constraint q₁ − multiplier · q₀ = offset of the positions of two joints, by the frames alone. Their
/// indices are those of `bodies`. Angles are unwrapped from step to step: bodies turn by less than half a turn in one.
/// It has one row, in the unit of joint 1.
Constraint couple(std::string name, std::vector<BodyId> bodies, const JointCoordinate& leader,
                  const JointCoordinate& follower, double multiplier, double offset);
/// Makes the constraint q = value of the position of one joint, by the frames alone. The rest is as for couple().
/// @param bodies  parent and child
Constraint coordinate_constraint(std::string name, std::vector<BodyId> bodies, JointCoordinate joint, double value);
/// The same with a value that is a function of time, with its derivatives.
Constraint coordinate_constraint(std::string name, std::vector<BodyId> bodies, JointCoordinate joint,
                                 std::function<Taylor(double t)> value);

/// The name of the force that SimulatedJoint::set_force() commands.
inline std::string motor_name(const std::string& joint) { return joint + ".command"; }

/// Returns whether a joint of a scene is a hinge or a slider.
bool has_coordinate(const SceneConstraint& constraint);
/// Returns the joints of a scene that have a coordinate: its hinges and sliders, then those in compound joints.
std::vector<const SceneConstraint*> joints_with_coordinate(const Model& model);
std::vector<SceneConstraint*> joints_with_coordinate(Model& model);
/// Returns the coordinate of a joint that has one. Its indices are BodyId::index. Its value at the start is
/// SceneConstraint::start, which is 0 for a joint that is not a robot's.
JointCoordinate coordinate_of(const SceneConstraint& constraint, const State& start);

/// The same with the names of what drives it: forces of the joint, prescribed motions between its bodies, and the motor
/// of SimulatedJoint::set_force(), which only a Simulation has.
JointCoordinate driven_coordinate_of(const SceneConstraint& constraint, const State& start,
                                     std::span<const SceneConstraint> constraints, std::span<const SceneForce> forces);

/// The coordinates of a scene's joints, by the name of the joint.
using JointCoordinates = std::map<std::string, JointCoordinate, std::less<>>;

/// Reads coordinates along a motion. It unwraps angles from state to state, and begins again at the start where the
/// time goes back. Between two states a joint turns by less than half a turn.
class JointReader {
 public:
  explicit JointReader(std::shared_ptr<const JointCoordinates> joints) : joints_(std::move(joints)) {}
  /// [rad or m]. @param joint  a name among the coordinates
  double position(std::string_view joint, const State& at) { return next(joint, at).value - this->joint(joint).zero; }
  /// The coordinate at the next state, by which position() unwraps.
  CoordinateRow next(std::string_view joint, const State& at);
  /// Sets the position from which the next one differs by less than half a turn. @param joint  as above
  void set_near(std::string_view joint, double position);
  double velocity(std::string_view joint, const State& at) const;  ///< [rad/s or m/s]
  /// [rad/s² or m/s²]. @param P, C  accelerations [v̇; α] of the parent and of the child
  double acceleration(std::string_view joint, const State& at, const Vector6& P, const Vector6& C) const;
  /// [N m or N] What the actuators of the joint, and the constraints and laws between the two bodies, exert on the
  /// child along the axis, in the sense of the coordinate. The joint itself exerts nothing there, so this is the drive,
  /// the damping and the friction. The forces of its limits are no part of it, as in an engine.
  double force(std::string_view joint, const Observation& at) const;
  /// The wrench of the actuators of a joint on one of its bodies, about the centre of mass of that body: torques, and
  /// the constraints of prescribed motions. It is zero where the joint has no coordinate. For a compound joint it is
  /// the sum over its coordinates.
  /// @param on  0: the parent, 1: the child
  Wrench wrench_of_actuators(std::string_view joint, int on, const Observation& at) const;
  const JointCoordinate& joint(std::string_view name) const { return joints_->find(name)->second; }

  /// The coordinate at a state near the last one of position().
  CoordinateRow row(std::string_view joint, const State& at) const;

 private:
  std::shared_ptr<const JointCoordinates> joints_;
  std::map<std::string, CoordinateValues, std::less<>> last_;  // by JointCoordinate::constraint
  double t_ = 0;                                               // of the last state
};

}  // namespace linchpin::scene
