// Servo-constraints: conditions on the motion that actuators have to meet, in place of ideal constraint forces (T17).
// The control forces meet them exactly with the least weighted effort. Ideal joints are in the same solution.
//
// The structs of this header are plain values. A ServoController keeps a reference to its System and calls the
// functions of its constraints and forces in the calling thread, so one thread at a time may use it.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/export.h>
#include <linchpin/forces.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// A condition on the motion that actuators have to meet: φ = 0, ψ = 0 or α = 0, by the level of the constraint. It is
/// not added to the System.
struct Servo {
  Constraint constraint;  ///< The condition, made by holonomic(), nonholonomic() or on_acceleration().
  /// Rate ω at which errors decay [rad/s]. Positions obey φ̈ + 2ζω φ̇ + ω² φ = 0, velocities ψ̇ + ω ψ = 0. With 0,
  /// errors are not corrected.
  double frequency = 10;
  double damping_ratio = 1;  ///< ζ.
};

/// An actuator: a force in a fixed pattern, whose size u is the control.
struct Actuator {
  Force unit;         ///< Force and torque of u = 1. Its name is the name of the actuator. It has no energy function.
  double weight = 1;  ///< Weight N of u² in the effort Σ N u², above 0.
  double max_input = std::numeric_limits<double>::infinity();  ///< Largest |u|.
};

/// The control at a state.
struct ServoControl {
  Status status = Status::ok;  ///< Status of the equation of motion. Status::invalid: there is no control.
  std::string reason;          ///< Reason of Status::invalid. Empty otherwise.
  std::vector<double> input;   ///< Input u of each actuator.
  std::vector<double> power;   ///< Power of each actuator [W].
  /// Names of the actuators at their largest input.
  std::vector<std::string> saturated;
  /// Names of servos that the actuators cannot meet at this state, alone or together with others. They have the row
  /// from 1 if there are several.
  std::vector<std::string> unreachable;
  int rank = 0;         ///< Number of independent rows that the actuators determine.
  double residual = 0;  ///< Largest error of the accelerations of all rows, relative to the largest term.
  /// Returns whether all servos are met.
  bool is_exact() const { return status != Status::invalid && residual <= exact; }
  static constexpr double exact = 1e-9;  ///< Largest residual of servos that are met.
};

/// Computes the control forces of servo-constraints (T17), after Udwadia, Proc. R. Soc. A 459 (2003) 1783 and 464
/// (2008) 2341. The constructor adds the forces of the actuators to the system, with the inputs 0. control() sets the
/// inputs, which stay until the next call. Inverse dynamics is the case with as many actuators as freedoms.
///
///     ServoController arm(system, {{tip_on_circle}}, {{shoulder}, {elbow}});
///     while (stepper.t() < 10) {
///       arm.control(stepper.state());
///       stepper.step(1e-3);
///     }
class LINCHPIN_API ServoController {
 public:
  /// @throws std::invalid_argument for no servos or actuators, a weight that is not above 0, a frequency, damping ratio
  /// or largest input that is negative or NaN, a weight, frequency or damping ratio that is not finite, a body that
  /// does not exist, and the name of another force. The system is then unchanged.
  ServoController(System& system, std::vector<Servo> servos, std::vector<Actuator> actuators,
                  SolveOptions options = {});
  /// Sets the inputs to 0. The forces of the actuators stay in the system, without effect.
  ~ServoController();
  ServoController(ServoController&&) noexcept;

  /// Computes and sets the inputs for a state. Kinematic bodies are those of the system at State::t. Forces of laws
  /// that depend on the control, such as friction with the coupled normal force, are found by iteration. The result is
  /// valid until the next call.
  const ServoControl& control(const State& state);
  /// The inputs that act now.
  std::span<const double> input() const;
  /// Sets the inputs, as for a start. @throws std::invalid_argument for another number of inputs than actuators
  void set_input(std::span<const double> input);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
