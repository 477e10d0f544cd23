// A toy physics engine. It is the host of the minimal adapter, and stands for the engine that you write an adapter for.
//
// It has rigid bodies, four kinds of joint, and contacts with one plane. A step goes as in most engines:
//
//   1. contacts are found at the poses,
//   2. contacts, friction and joints become rows,
//   3. projected Gauss–Seidel finds the impulses of the rows,
//   4. semi-implicit Euler moves the bodies: v₁ = v₀ + dt·a, X₁ = X₀ ⊕ dt·v₁.
//
// All quantities are in double precision, SI units and world axes. A body's frame is at its centre of mass, and its
// axes are the principal axes of inertia.
#pragma once

#include <Eigen/Core>
#include <Eigen/Geometry>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace toy {

using Eigen::Matrix3d;
using Eigen::Quaterniond;
using Eigen::Vector3d;
using Vector6 = Eigen::Matrix<double, 6, 1>;  ///< linear part, then angular part

struct Body {
  enum class Motion {
    fixed,      ///< does not move
    kinematic,  ///< moves with v and w, whatever acts on it
    free        ///< moves by forces
  };
  Motion motion = Motion::free;
  double mass = 1;                                               ///< [kg]
  Vector3d inertia = Vector3d::Ones();                           ///< principal moments [kg·m²]
  Vector3d p = Vector3d::Zero();                                 ///< position of the centre of mass [m]
  Quaterniond q = Quaterniond::Identity();                       ///< body axes to world axes
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();           ///< [m/s], [rad/s]
  Vector3d force = Vector3d::Zero(), torque = Vector3d::Zero();  ///< set by the program; zero again after a step
  std::vector<Vector3d> contact_points;                          ///< points that touch the plane, body axes [m]
  double radius = 0;                                             ///< of a sphere about each of these points [m]

  /// Returns `motion`, or `fixed` for a free body whose mass or inertia the engine cannot divide by.
  Motion moves() const;
  /// Returns the mass or the inertia that the engine cannot divide by, and what to do, or nothing.
  std::string fault() const;
};

/// A frame in a body: the joint acts at the origin, and its axis is z.
struct Frame {
  Vector3d origin = Vector3d::Zero();  ///< body axes [m]
  Matrix3d axes = Matrix3d::Identity();
  friend bool operator==(const Frame&, const Frame&) = default;
};

struct Joint {
  enum class Kind { ball, hinge, slider, weld };
  struct Settings {
    Kind kind = Kind::ball;
    int a = -1, b = -1;  ///< bodies; −1: the world
    Frame on_a, on_b;
    bool enabled = true;
    double motor_velocity = 0;  ///< of a hinge: b relative to a [rad/s]
    double motor_torque = 0;    ///< largest; 0: no motor [N·m]
    friend bool operator==(const Settings&, const Settings&) = default;
  } settings;
  double breaking_impulse = std::numeric_limits<double>::infinity();  ///< of a step; beyond it the joint breaks [N·s]
  double impulse = 0;                                                 ///< of the joint's force in the last step [N·s]
};

/// One equation that the engine solves by impulses: J·v = target, with bounds of the impulse.
struct Row {
  enum class Kind { contact, friction, joint, motor };
  Kind kind = Kind::joint;
  std::array<int, 2> body{-1, -1};  ///< −1: the world
  std::array<Vector6, 2> J{Vector6::Zero(), Vector6::Zero()};
  std::array<Vector6, 2> by_unit{Vector6::Zero(), Vector6::Zero()};  ///< M⁻¹Jᵀ: velocity by an impulse of one
  double velocity_change = 0;                                        ///< change of J·v that is wanted [m/s or rad/s]
  double overlap_speed = 0;                                          ///< the part of `ask` that removes an overlap
  double effective_mass = 0;                                         ///< 1 / (J M⁻¹ Jᵀ)
  double lower = 0, upper = 0, impulse = 0;                          ///< [N·s or N·m·s]
  int contact = -1;                                                  ///< of friction: the row of its contact
  double friction = 0;
  int joint = -1;

  void deactivate() {  ///< It changes nothing from now on.
    J = by_unit = {Vector6::Zero(), Vector6::Zero()};
    velocity_change = effective_mass = 0;
  }
};

/// Velocities of a body while rows are solved.
struct SolverBody {
  Vector6 start = Vector6::Zero();   ///< at the start of the step
  Vector6 forces = Vector6::Zero();  ///< change by applied forces, gravity and the gyroscopic torque
  Vector6 rows = Vector6::Zero();    ///< change by rows
  double inverse_mass = 0;
};

struct Solve {
  double dt = 0;
  std::vector<SolverBody> bodies;  ///< by body
  std::vector<Row> rows;
};

/// The calls that an engine must offer to a plugin that solves constraints, at six places of a step. The places are its
/// beginning, the set-up of rows, the iterations, the end of the iterations, the writing of velocities, and its end.
class StepHook {
 public:
  virtual ~StepHook() = default;
  virtual void begin_step(double dt) = 0;          ///< before anything else
  virtual bool solves_joint(int joint) const = 0;  ///< The engine then makes no equality rows of it.
  virtual bool solves_body(int body) const = 0;    ///< The engine then leaves the body out of its solve.
  virtual bool start(Solve& solve) = 0;            ///< Rows are set up. @return false: set them up once more
  /// @return whether it has applied the impulse on a row itself
  virtual bool apply(Solve& solve, std::size_t row, double impulse) = 0;
  virtual void after_iteration(Solve& solve) = 0;
  virtual bool finish(Solve& solve) = 0;  ///< @return false: set rows up and solve once more
  virtual void write() = 0;               ///< the engine has written its velocities
  virtual void end_step(double dt) = 0;   ///< The bodies have moved.
};

class World {
 public:
  Vector3d gravity{0, -9.81, 0};  ///< [m/s²]
  bool has_ground = true;         ///< the plane y = 0
  double friction = 0.5;          ///< coefficient of friction with the plane
  int iterations = 20;
  double joint_erp = 0.2;  ///< share of a position error that a row removes in a step

  /// Indices of removed bodies and joints are not used again.
  int add(Body body);
  /// @throws std::invalid_argument for a body that is not in the world. The engine makes no rows for a joint that names
  /// such a body later.
  int add(Joint joint);
  void remove_body(int body);    ///< with its joints @throws std::out_of_range for an index that no body has had
  void remove_joint(int joint);  ///< @throws std::out_of_range for an index that no joint has had
  /// A body that a joint names and that is not in the world; −1: there is none.
  int missing_body(const Joint::Settings& joint) const;
  Body* body(int index);    ///< null: removed
  Joint* joint(int index);  ///< null: removed
  const Body* body(int index) const { return const_cast<World*>(this)->body(index); }
  const Joint* joint(int index) const { return const_cast<World*>(this)->joint(index); }
  int body_count() const { return static_cast<int>(bodies_.size()); }
  int joint_count() const { return static_cast<int>(joints_.size()); }

  void set_hook(StepHook* hook) { hook_ = hook; }
  StepHook* hook() const { return hook_; }
  void step(double dt);
  /// Adds a row to a solve: J·v is to become `target`.
  void add_row(Solve& solve, Row row, double target) const;
  double energy() const;  ///< kinetic energy and gravity potential of free bodies [J]

 private:
  void set_up(double dt);
  void set_up_body(int index, double dt);
  void add_contacts(int index, double dt);
  void add_joint_rows(int index, double dt);
  void iterate();
  void solve_row(std::size_t index);
  void integrate(double dt);

  std::vector<std::unique_ptr<Body>> bodies_;
  std::vector<std::unique_ptr<Joint>> joints_;
  StepHook* hook_ = nullptr;
  Solve solve_;
};

/// Change of the angular velocity of a body by its gyroscopic torque in dt: one Newton step of implicit Euler.
Vector3d gyroscopic_change(const Body& body, double dt);
/// Rotation by the angular velocity w in dt.
Quaterniond rotation(const Vector3d& w, double dt);

}  // namespace toy
