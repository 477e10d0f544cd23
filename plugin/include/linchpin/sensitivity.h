// Sensitivities of a trajectory: how the motion of a system changes with its parameters (T19). They pass through
// changes between stick and slip, and through unilateral constraints that release or engage.
//
// The structs of this header are plain values. One SensitivityStepper serves one thread at a time. Different ones are
// independent if their systems are.
#pragma once

#include <linchpin/export.h>
#include <linchpin/parametric_system.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace linchpin {

/// A system with parameters near the given ones, at a state near the present one: the input of an output function.
/// Valid during the call.
struct OutputPoint {
  const System& system;                 ///< A system of the ParametricSystem.
  const State& state;                   ///< Its state.
  std::span<const double> parameters;   ///< The values for which the system was made.
  std::span<const Reaction> reactions;  ///< All reactions at the state, in row order; empty if they are not requested.
};

/// Computes quantities of a state into `out`. It is smooth near the motion.
using OutputFunction = std::function<void(const OutputPoint& at, std::span<double> out)>;

/// Values of an output function and their derivatives.
struct OutputSensitivity {
  std::vector<double> value;       ///< [outputs]
  std::vector<double> derivative;  ///< [outputs × parameters] Row-major.
};

/// How the time and the state of an event depend on the parameters.
struct EventSensitivity {
  double t = 0;                       ///< Time of the event [s].
  std::vector<double> t_derivatives;  ///< [parameters] Derivatives of its time [s/unit].
  State state;                        ///< The state at the event. If the event changes it, the state just before.
  /// [n × parameters] Derivatives of that state, row-major: pose and velocity where the event is, and not at a given
  /// time.
  std::vector<double> displacement, velocity;
};

/// A mode change with its derivatives.
struct SwitchSensitivity : EventSensitivity {
  ModeSwitch event;  ///< The mode change.
};

/// A zero crossing of a function of SensitivityStepper::watch() with its derivatives.
struct CrossingSensitivity : EventSensitivity {
  int function = 0;     ///< Number that watch() returned.
  bool rising = false;  ///< The function becomes positive.
};

/// Weights of the state after a number of steps, for gradient().
struct StateWeights {
  long step = 0;                     ///< Number of steps after which the weights apply, from 0.
  std::vector<double> displacement;  ///< [n] Derivative of the objective by displacements in block order, or empty.
  std::vector<double> velocity;      ///< [n] Derivative of the objective by velocity changes, or empty.
};

/// Settings of a SensitivityStepper.
struct SensitivityOptions {
  /// Options of the steps. The method is rk4, adaptive or adaptive8, because these locate events.
  StepOptions stepper{.method = Method::rk4};
  /// Keeps the Jacobian of each step for gradient(): 2n (2n + parameters) numbers, at the cost of 2n more columns.
  bool keep_jacobians = false;
};

/// Steps a system and, beside it, the sensitivities of its state with respect to parameters: S = ∂x/∂p (T19).
///
/// The displacement of a body is [δp; δθ], its velocity change [δv; δω], in world axes and block order, as in
/// LinearizedMotion. Sensitivities obey the linearised equations of motion along the trajectory. They are integrated
/// by a Runge–Kutta method of order 4 over the states of the steps, and projected onto the linearised constraints.
/// At an event their jump is applied, with the derivative of its time.
///
/// A step of p parameters costs four evaluations of Derivatives, and 4 p calls of its forward(), beside the step.
/// Memory is allocated in steps. After an exception of step() the object can be destroyed only.
class LINCHPIN_API SensitivityStepper {
 public:
  /// Makes the systems and assembles the start, which is System::initial_state().
  /// @throws std::invalid_argument  for a method without events, for parameters for which no system can be made, for
  /// systems of different structure, for laws with an internal state, and as Stepper does
  explicit SensitivityStepper(const ParametricSystem& family, SensitivityOptions options = {});
  ~SensitivityStepper();
  SensitivityStepper(SensitivityStepper&&) noexcept;

  /// Takes a step of dt [s]. A rejected step leaves everything unchanged.
  /// @throws std::invalid_argument  The equation cannot be differentiated: an event is touched but not crossed, or the
  /// equation cannot be evaluated near the trajectory
  const StepReport& step(double dt);

  const Stepper& stepper() const;      ///< The stepper of the trajectory.
  const State& state() const;          ///< The present state.
  double t() const;                    ///< Present time [s].
  const IslandLayout& layout() const;  ///< Bodies with the order of columns.
  /// [n × parameters] Derivatives of the poses, row-major. Valid until the next step.
  std::span<const double> displacement() const;
  /// [n × parameters] Derivatives of the velocities, row-major. Valid until the next step.
  std::span<const double> velocity() const;
  /// Mode changes in the last step, in order of time.
  std::span<const SwitchSensitivity> switches() const;

  /// Watches for zeros of a function without reactions, as Stepper::watch(). @return its number in
  /// CrossingSensitivity::function
  int watch(OutputFunction function);
  /// Zero crossings in the last step, in order of time.
  std::span<const CrossingSensitivity> crossings() const;

  /// Evaluates an output function at the present state, and differentiates it with respect to the parameters.
  /// @param count  number of outputs
  /// @param with_reactions  whether the function reads OutputPoint::reactions
  [[nodiscard]] OutputSensitivity outputs(int count, const OutputFunction& function, bool with_reactions = false) const;

  /// The same at an event that this stepper has passed, with the modes of the present state. The derivatives are those
  /// of the outputs at the event, whose time changes with the parameters.
  [[nodiscard]] OutputSensitivity outputs_at(const EventSensitivity& event, int count, const OutputFunction& function,
                                             bool with_reactions = false) const;

  /// Gradient of a sum of weighted states by the adjoint method: the derivative with respect to the parameters. It
  /// costs one product with the transposed Jacobian of each step, for any number of parameters.
  /// @throws std::invalid_argument  The steps have not kept their Jacobians, or weights have another size or step
  [[nodiscard]] std::vector<double> gradient(std::span<const StateWeights> weights) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
