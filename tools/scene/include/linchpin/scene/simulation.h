// A simulation of a scene or a robot, which a program steps itself. Joints have names. Their positions, rates, forces
// and wrenches are results. Positions, rates and forces can be set. A controller can run at a fixed rate.
//
// The class of this header steps without an engine. linchpin::bullet::Simulation (linchpin/bullet_simulation.h) is the
// same in a world of Bullet, where bodies collide.
//
//     linchpin::scene::Simulation arm(linchpin::scene::load("arm.urdf"));
//     arm.joint("shoulder").set_position(0.3);
//     for (int i = 0; i < 1000; ++i) {
//       arm.joint("shoulder").set_force(20 - 5 * arm.joint("shoulder").velocity());
//       arm.step();
//     }
//     std::cout << arm.joint("shoulder").position() << ' ' << arm.joint("shoulder").wrench().moment << '\n';
#pragma once

#include <linchpin/scene.h>
#include <linchpin/scene/export.h>
#include <linchpin/scene/simulation_host.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::scene {

class Simulation;

/// A hinge or a slider of a Simulation, which has one coordinate. Signs and zeros are those of the robot's file: a
/// positive position turns the child about the axis, or shifts it along the axis. In a [[joint]] of a scene the
/// coordinate is 0 at the start, and grows where `b` turns or shifts against `a`.
///
/// It refers to its Simulation, which must exist as long as it is used. Copies are cheap.
class LINCHPIN_SCENE_API SimulatedJoint {
 public:
  const std::string& name() const;  ///< Name of the joint.
  bool slides() const;              ///< Returns true for a slider [m, N], false for a hinge [rad, N m].
  double position() const;          ///< q [rad or m], with whole turns.
  double velocity() const;          ///< q̇ [rad/s or m/s].
  /// q̈ [rad/s² or m/s²], of the equation at the present state. In an engine it is the mean value of the last step.
  double acceleration() const;
  /// τ [N m or N]: what set_force(), actuators, damping, friction and prescribed motion exert on the child along the
  /// coordinate. Without an engine it belongs to the present state. In an engine it acted in the last step, and does
  /// not contain the force of a limit.
  /// @throws OrderError in an engine, before the first step
  double force() const;
  /// The wrench on the child by the parent that the joint itself transmits, with its laws [N, N m]: about the point of
  /// the joint, world axes. It does not contain motors and actuators, whose part along the coordinate is in force(). It
  /// belongs to the same instant as force(). All joints of a compound joint have one wrench, about its point; it is
  /// zero if the compound joint leaves all motions free. @throws OrderError as force()
  Wrench wrench() const;
  /// Lower and upper limit of the position in the file. They act on every host.
  std::optional<std::pair<double, double>> limits() const;
  std::optional<double> max_force() const;  ///< Largest size of set_force() [N m or N], from the file.
  /// Rate at which set_force() has no effect in the direction of motion [rad/s or m/s], from the file.
  std::optional<double> max_rate() const;

  /// Moves the child, and all bodies that joints connect to it, to a position. Joints that mimic it follow. Rates and
  /// the time stay.
  ///
  /// A position beyond limits() is allowed, and the limit pushes the joint back. Without an engine limits are rigid, so
  /// that the joint is at its limit when the function returns. In Bullet a multibody takes back a fifth of the excess
  /// in each step. Bodies return within some seconds, with no more energy than the mechanism has.
  /// @throws std::invalid_argument for a number that is not finite, for a joint in a closed loop or one that mimics
  /// another, and for half a turn or more at once
  void set_position(double position);
  /// Sets the rate, and changes the velocities of the child and of all bodies that joints connect to it. Joints that
  /// mimic it follow.
  /// @throws std::invalid_argument as set_position()
  void set_velocity(double velocity);
  /// Sets the force of a motor that acts until it is set again [N m or N]. It is limited to max_force().
  /// @throws std::invalid_argument for a number that is not finite
  void set_force(double force);

 private:
  friend class Simulation;
  SimulatedJoint(Simulation& simulation, std::size_t index) : simulation_(&simulation), index_(index) {}
  Simulation* simulation_;
  std::size_t index_;
};

/// The input of a controller: one number for each joint, in the order of Simulation::joints(). The spans are valid
/// during the call.
struct JointState {
  double t = 0;                        ///< Time [s].
  std::span<const std::string> names;  ///< Names of the joints.
  std::span<const double> position;    ///< q [rad or m].
  std::span<const double> velocity;    ///< q̇ [rad/s or m/s].
  /// Returns the index of a joint. @throws std::invalid_argument with the nearest name
  LINCHPIN_SCENE_API std::size_t index(std::string_view name) const;
};

/// Computes the forces of all joints [N m or N]. `force` has the size of the state and is zero before each call.
using Controller = std::function<void(const JointState& state, std::vector<double>& force)>;

/// The command of the motors for one period after a controller has failed.
enum class FailureCommand {
  zero,  ///< no force
  hold   ///< the forces of the last period
};

/// Settings of a controller.
struct ControllerOptions {
  double period = 0;  ///< Time between two calls [s]: a multiple of the step. 0: each step.
  FailureCommand on_failure = FailureCommand::zero;  ///< Forces after a failed call.
  /// Largest duration of a call, by the clock of the computer [s]. A longer call is a failure. 0: no limit.
  double deadline = 0;
};

/// A failed call of a controller.
struct ControllerFailure {
  /// The kinds of failures.
  enum class Kind {
    exception,   ///< It threw an exception.
    not_finite,  ///< A force is NaN or infinite.
    wrong_size,  ///< The forces are not as many as the joints.
    late         ///< It took longer than the deadline.
  };
  double t = 0;                 ///< Time of the call [s].
  Kind kind = Kind::exception;  ///< The kind of the failure.
  std::string message;          ///< A sentence with the name, the value and the command that the motors have instead.
};

/// Steps a scene. It owns the model and the host that steps it. It can be neither moved nor copied. One thread at a
/// time may use it, with its joints.
class LINCHPIN_SCENE_API Simulation {
 public:
  /// Makes a simulation without an engine. @throws std::invalid_argument as Stepper
  explicit Simulation(Model model);
  /// Makes a simulation on another host. @throws std::invalid_argument if the factory does
  Simulation(Model model, const HostFactory& factory);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// The names of all hinges and sliders, in the order of the model. Those inside compound joints are the last.
  std::span<const std::string> joints() const;
  /// Returns a joint. @throws std::invalid_argument with the nearest name
  SimulatedJoint joint(std::string_view name);

  /// Takes one step of Model::dt. @throws std::runtime_error with the reason if the step has no result
  /// @throws OrderError in a controller
  void step();
  /// Takes steps until the time has grown by `duration` [s]. @throws std::invalid_argument for a duration below 0 or
  /// not finite @throws OrderError in a controller
  void run(double duration);
  double t() const { return state().t; }  ///< Time [s].

  /// Calls a controller before a step, at a fixed rate. Its forces act until the next call, limited to
  /// SimulatedJoint::max_force(). A failed call does not end the motion: the motors get the command of on_failure, and
  /// failures() has the reason. The next period calls the controller again.
  /// @throws std::invalid_argument for a period that is no multiple of the step @throws OrderError in a controller
  void set_controller(Controller controller, ControllerOptions options = {});
  /// Failed calls since set_controller(), the first 100 of them.
  std::span<const ControllerFailure> failures() const;
  long failure_count() const;  ///< Number of all of them.

  const Model& model() const;    ///< The model, with one force for each joint that set_force() commands.
  const State& state() const;    ///< The present state of all bodies. The reference is valid until the next step.
  const System& system() const;  ///< The system of the model.
  /// Places all bodies, with their velocities, and sets the time: for a start of your own, and to return to a state
  /// that state() gave before. Forces of motors and the controller stay. Kinematic bodies follow the time.
  /// @param joint_positions  positions near the new ones, in the order of joints(), which tell whole turns of hinges,
  /// also to actuators, limits and mimics. Without them they are counted from the present positions, or from the start
  /// if the time goes back.
  /// @throws std::invalid_argument for another number of bodies or joints, for numbers that are not finite, in an
  /// engine for other whole turns of a hinge with limits or mimics, and for a state that the constraints do not allow
  /// @throws OrderError in a controller
  void set_state(const State& state, std::span<const double> joint_positions = {});
  /// Reactions of the present state without an engine, and of the last step in an engine. They are valid until the next
  /// step. @throws OrderError in an engine, before the first step
  std::span<const Reaction> reactions();
  /// The system that the Stepper steps, to change it between steps. @throws OrderError in an engine
  System& system();
  /// Steps it without an engine. Accelerations and balances are there. @throws OrderError in an engine
  Stepper& stepper();
  const Stepper& stepper() const;  ///< The same.

 protected:
  SimulationHost& host();  ///< What steps the bodies.

 private:
  friend class SimulatedJoint;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin::scene
