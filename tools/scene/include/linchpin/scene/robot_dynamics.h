// The dynamics of a model in joint space, for controllers of robots: mass matrix, bias and gravity forces, Jacobians,
// operational space, momentum. It hides the spanning tree of the joints, the recursion over bodies and the equations of
// loops. The units are SI, and vectors are in world axes unless a comment says otherwise.
//
//     linchpin::scene::RobotDynamics robot(linchpin::scene::load("arm.toml"));
//     robot.set_state(stepper.state());
//     auto tau = robot.inverse_dynamics(wanted);  // M v̇ + h − g
//
// The equation of motion is M(q) v̇ + h(q, v) = τ + g(q) + Aᵀλ, with A v̇ = b of the constraints that close loops.
//
// The structs of this header are plain values.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/problem.h>
#include <linchpin/scene.h>
#include <linchpin/scene/export.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::scene {

/// A matrix of any size. Its memory is not aligned for vector units, as that of VectorX.
using MatrixX = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::DontAlign>;

/// A frame that is fixed in a body, such as that of a tool.
struct BodyFrame {
  BodyId body;                                 ///< the body
  Vector3d p_BQ = Vector3d::Zero();            ///< origin, from the centre of mass in body axes [m]
  Quaterniond q_BF = Quaterniond::Identity();  ///< rotates components in the frame into body axes
};

/// A joint of the spanning tree with coordinates, or a body that moves freely.
struct RobotJoint {
  /// What its coordinates are.
  enum class Kind {
    free_body,      ///< A rigid body at the root of a tree. Positions: centre of mass [m], quaternion w, x, y, z (body
                    ///< to world). Velocities: of the centre of mass [m/s], angular velocity [rad/s].
    free_particle,  ///< A particle at the root. Positions [m] and velocities [m/s].
    hinge,          ///< Position: angle [rad], with whole turns. Velocity: its rate.
    slider,         ///< Position: shift [m]. Velocity: its rate.
    ball            ///< Positions: quaternion w, x, y, z that rotates components in the joint's frame of the second
                    ///< body into those of the first. Velocities: angular velocity of the second body relative to the
                    ///< first, in the axes of SceneConstraint::frame_a on the first [rad/s].
  };
  std::string name;                                 ///< of the joint, or of the free body
  Kind kind = Kind::hinge;                          ///< what it is
  BodyId parent, child;                             ///< first and second body of the joint in the file
  int position = 0, positions = 0;                  ///< first position in q, and how many
  int velocity = 0, velocities = 0;                 ///< first coordinate in v, and how many
  std::optional<std::pair<double, double>> limits;  ///< of a hinge or a slider, as the file has them [rad or m]
};

/// Settings of a RobotDynamics.
struct RobotDynamicsOptions {
  /// Name of a body. Then only the bodies count that constraints connect with it. Empty: all bodies of the model.
  std::string body = {};
  /// Names of constraints that do not count, such as prescribed motions that stand for the motors of the controller.
  std::vector<std::string> without = {};
  /// Rank tolerance. Singular values of A M^-½ count as zero below it, where each row of A is divided by its length on
  /// the bodies. In operational_space() it is relative to the largest singular value of J M^-½.
  double rank_tolerance = 1e-6;
};

/// The rows A v̇ = b of all constraints that are no joints of the tree, at the present state.
struct RobotConstraints {
  MatrixX A;         ///< [m × n]
  VectorX b;         ///< [m]
  VectorX position;  ///< [m] φ, zero for rows that are not on positions
  VectorX velocity;  ///< [m] φ̇ or ψ
  /// [m] Length of each row on the free bodies, in their mass metric. Rows that are much shorter in joint space than
  /// there hold what the joints of the tree hold already.
  VectorX length;
  std::vector<std::string> names;  ///< [m] name of the constraint of each row
  std::vector<Level> levels;       ///< [m] the quantity on which each row is a condition
};

/// The accelerations that follow from given generalized forces.
struct RobotAcceleration {
  VectorX vdot;              ///< [n] v̇
  VectorX constraint_force;  ///< [n] Aᵀλ
  VectorX lambda;            ///< [m] multipliers of least norm in rows of unit length on the bodies
  int rank = 0;              ///< rank of A
  double residual = 0;       ///< largest |A v̇ − b|; above round-off the rows contradict each other
};

/// The forces of the drives for a wanted acceleration.
struct DriveForces {
  VectorX tau;          ///< [n] Least norm; zero at coordinates without a drive.
  double residual = 0;  ///< [N or N m] The largest component of force that the drives and constraints cannot give.
};

/// The dynamics as a task sees them, such as the motion of a frame: x = J v, Λ ẍ = F + …
struct OperationalSpace {
  MatrixX inverse_inertia;   ///< [k × k] Λ⁻¹ = J P Jᵀ, where P is RobotDynamics::inverse_mass_matrix()
  MatrixX inertia;           ///< [k × k] Λ, the Moore–Penrose inverse of Λ⁻¹
  MatrixX jacobian_inverse;  ///< [n × k] P Jᵀ Λ, the dynamically consistent inverse of J
  int rank = 0;              ///< of Λ. Less than k in a singular pose, or where loops prevent motions of the task.
};

/// Sums over the movable bodies that a RobotDynamics contains.
struct RobotMomentum {
  double mass = 0;                       ///< [kg]
  Vector3d centre = Vector3d::Zero();    ///< centre of mass [m]
  Vector3d velocity = Vector3d::Zero();  ///< of the centre of mass [m/s]
  Vector3d linear = Vector3d::Zero();    ///< linear momentum [kg m/s]
  Vector3d angular = Vector3d::Zero();   ///< angular momentum about the centre of mass [kg m²/s]
  double kinetic_energy = 0;             ///< [J]
  double potential_energy = 0;           ///< of gravity, −Σ m g·p [J]
};

/// Joint-space dynamics of a model.
///
/// The coordinates are those of a spanning tree of the hinges, sliders, balls and welds. A body hangs by the first of
/// these joints that names it as its second body, as far as that closes no loop. Trees begin at fixed and kinematic
/// bodies and at the ground. A tree without such a body begins at a free body. The order of the coordinates is: free
/// bodies in the order of the model, then joints in the order of the model. Signs and zeros are those of the channels
/// joint_position(…) and joint_velocity(…).
///
/// All other exact constraints are rows A v̇ = b: joints that close loops, compound and other joints, mimics, typed
/// equations, prescribed motions. left_out() names what is no row: constraints with forces in place of their rows, and
/// unilateral constraints. Force laws, damping and [[force]] are not in h; give them as part of τ.
///
/// The cost of a state is O(N n²) for N bodies and n coordinates, and O(n³ + n² m) for quantities that contain loops.
/// All functions allocate.
///
/// An object copies what it needs of the model. A change of one copy does not change another. Objects and copies that
/// come from one model serve one thread at a time together with the model, const functions included. Functions throw
/// std::invalid_argument for arguments of a wrong size or that are not finite. For
/// programs without exceptions there is try_call() (linchpin/error.h).
class LINCHPIN_SCENE_API RobotDynamics {
 public:
  /// Begins at the start of the model.
  /// @throws std::invalid_argument  that names what is not supported (a generalized coordinate of the scene), a name of
  /// the options that the model does not have, or a model without a movable body
  explicit RobotDynamics(const Model& model, const RobotDynamicsOptions& options = {});
  ~RobotDynamics();
  RobotDynamics(const RobotDynamics&);             ///< Makes an independent copy.
  RobotDynamics& operator=(const RobotDynamics&);  ///< Makes an independent copy.
  RobotDynamics(RobotDynamics&&) noexcept;
  RobotDynamics& operator=(RobotDynamics&&) noexcept;

  // ---- coordinates ----

  int positions() const;                       ///< Length of q.
  int velocities() const;                      ///< Length n of v.
  std::span<const RobotJoint> joints() const;  ///< In the order of their coordinates. Valid as long as the object.
  /// Finds a joint with coordinates, or a free body. @throws std::invalid_argument  with the names that there are
  const RobotJoint& joint(std::string_view name) const;
  /// Names of the constraints whose rows constraints() has, in its order.
  std::vector<std::string> constraint_names() const;
  /// Names of constraints that have no rows, each with the reason.
  const std::vector<Note>& left_out() const;

  /// Frame by name: of a link of the file, also one without mass such as a tool, or of [[frame]]; else as body_frame(),
  /// and else as joint_frame(). @throws std::invalid_argument with the nearest name
  BodyFrame frame(std::string_view name) const;
  /// Frame of a body: its centre of mass, with the axes of a robot's link, or else of the body.
  /// @throws std::invalid_argument  there is no such movable body
  BodyFrame body_frame(std::string_view body) const;
  /// Frame of a hinge, slider, ball or weld on its second body: origin of the joint. The axes are those of the joint in
  /// a robot's file, which are the link's own in URDF. For other joints x is along the axis.
  /// @throws std::invalid_argument  there is no such joint
  BodyFrame joint_frame(std::string_view joint) const;

  // ---- state ----

  /// Reads q and v from a state of the model's System. The joints are taken to be closed. An angle is the one within
  /// half a turn of that of the present q(). @throws std::invalid_argument  for a state of another number of bodies
  void set_state(const State& state);
  /// @param q  [positions()]; quaternions need not have length 1, but not 0. @param t  time of kinematic bodies and of
  /// constraints that depend on it [s]
  void set_state(const VectorX& q, const VectorX& v, double t = 0);
  const VectorX& q() const;  ///< Present positions, with unit quaternions.
  const VectorX& v() const;  ///< Present velocities.
  double t() const;          ///< Present time [s].
  /// All bodies of the model at the present state, by forward kinematics. Bodies outside the tree are as at the start.
  /// It is an initial state for a Stepper.
  const State& state() const;
  /// q ⊕ dq: each joint moves along constant velocities for a unit of time. @param dq  [velocities()]
  VectorX moved(const VectorX& q, const VectorX& dq) const;
  /// Returns dq such that moved(from, dq) is `to`. Rotations are at most half a turn, angles of hinges are not limited.
  VectorX difference(const VectorX& from, const VectorX& to) const;

  // ---- equation of motion ----

  MatrixX mass_matrix() const;    ///< M, symmetric positive definite [n × n].
  VectorX bias_force() const;     ///< h: Coriolis, centrifugal and gyroscopic terms, and those of kinematic bodies [n].
  VectorX gravity_force() const;  ///< g, on the side of τ: Σ Jᵀ m g over the bodies [n].
  /// τ = M v̇ + h − g, as if no constraint closed a loop [n].
  VectorX inverse_dynamics(const VectorX& vdot) const;
  /// The τ of least norm at the coordinates with a drive that, with constraint forces, gives v̇. Example: a robot on a
  /// free base has drives at its joints only. @param drives  indices of v, each once
  DriveForces inverse_dynamics(const VectorX& vdot, std::span<const int> drives) const;
  /// v̇ from M v̇ + h = τ + g + Aᵀλ and A v̇ = b, by the equation of Udwadia and Kalaba. Redundant rows are allowed.
  /// @throws std::invalid_argument  M is not positive definite, which the message explains
  RobotAcceleration forward_dynamics(const VectorX& tau) const;
  /// P with v̇ = P τ + …: M⁻¹ without loops, else M^-½ (I − B⁺B) M^-½ with B = A M^-½ [n × n].
  MatrixX inverse_mass_matrix() const;
  RobotConstraints constraints() const;  ///< The rows of loops and other constraints.

  /// A force for a System of the model: τ of hinges, sliders and balls acts on the second body of each joint, and the
  /// opposite on the first. Coordinates of free bodies have no drive. The force does not refer to this object.
  /// @param tau  read in every evaluation; a size other than velocities() is an error of that evaluation
  /// @throws std::invalid_argument  `tau` is null, or there is no joint with coordinates
  Force drive(std::string name, std::shared_ptr<const VectorX> tau) const;

  // ---- frames ----

  Pose pose(const BodyFrame& frame) const;         ///< Origin in the world, and rotation to the world.
  Vector6 velocity(const BodyFrame& frame) const;  ///< [linear of the origin; angular].
  /// J [6 × n], linear above angular. velocity() is J v, and the motion of a kinematic body that carries the tree.
  MatrixX jacobian(const BodyFrame& frame) const;
  /// J̇ v: the acceleration of the frame where v̇ is zero, [linear; angular].
  Vector6 jacobian_rate_times_v(const BodyFrame& frame) const;
  /// Jᵀ F: what a force at the origin of a frame and a moment on its body are in joint space [n].
  VectorX generalized_force(const BodyFrame& frame, const Vector3d& force, const Vector3d& moment) const;
  /// Operational space of a frame, with loops. Its rows mix metres and radians. In a singular pose the Moore–Penrose
  /// inverse depends on this; the function below takes the rows of the task alone.
  OperationalSpace operational_space(const BodyFrame& frame) const;
  /// Operational space of any task. @param J  [k × n], such as the first three rows of a frame's Jacobian
  OperationalSpace operational_space(const MatrixX& J) const;

  // ---- the whole ----

  RobotMomentum momentum() const;  ///< Centre of mass, momentum and energy.
  /// [6 × n] Linear momentum and angular momentum about the centre of mass are this matrix times v (without the motion
  /// of kinematic bodies). Its first three rows over the mass are the Jacobian of the centre of mass.
  MatrixX momentum_matrix() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin::scene
