// Motion without a host (T12, T13). Hides stages, Newton, projection and the recording of impulses. Accelerations are
// computed by dynamics.h. The structs of this header are plain values.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/export.h>
#include <linchpin/integration_method.h>
#include <linchpin/report.h>
#include <linchpin/system.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// How a step keeps the constraints.
enum class Drift {
  exact,     ///< Newton to the end of the step; projection with the Runge–Kutta methods. The default.
  none,      ///< The bare acceleration (T5). It drifts without bound, and is offered for comparison.
  baumgarte  ///< Feedback on φ and φ̇ with `baumgarte_rate`. It gains energy, and is offered for comparison.
};

/// Settings of a Stepper.
struct StepOptions {
  Method method = Method::semi_implicit;  ///< Integration method.
  Drift drift = Drift::exact;             ///< How the constraints are kept.
  double baumgarte_rate = 10;             ///< α [1/s] of φ̈ + 2αφ̇ + α²φ = 0.
  double newton_tolerance = 1e-13;        ///< Tolerance on |φ|, relative to 1 m (or the row's unit).
  int max_newton = 30;                    ///< Largest number of solves of the Newton that ends a step.
  /// Limit of the geometric-stiffness frequency times dt, above which a semi-implicit step is repeated in substeps
  /// (T15). At 1.5 every motion survives, but chains gain energy at each impact when they become taut. At 1 they lose
  /// some instead.
  double max_tension_frequency = 1.0;
  /// Largest number of substeps of semi_implicit. At the finest substep the limit of stability, 2, replaces
  /// max_tension_frequency. Smooth laws may require as many substeps of rk4. With events and friction whose direction
  /// turns, a step of rk4, rattle or rattle4 has at most 4000 substeps, and one of adaptive or adaptive8 at most
  /// 100000. A longer one is rejected with a reason.
  int max_substeps = 64;
  /// Accuracy to which rk4 and the adaptive methods locate stick, slip and release [s] (T10).
  double event_tolerance = 1e-13;
  /// Largest number of mode changes in one of their steps, for each friction element and unilateral constraint. A step
  /// with more than this times their number is rejected.
  int max_switches = 100;
  /// For adaptive and adaptive8: a substep is accepted when rms(error / (absolute + relative · size)) ≤ 1. Errors and
  /// sizes are those of positions [m], velocities, coordinates and internal states of laws. The size of rotations [rad]
  /// is 1.
  double relative_tolerance = 1e-9, absolute_tolerance = 1e-12;
  /// Largest energy that an island may gain without a source, relative to the largest kinetic energy that its sources
  /// explain. Ideal constraints that do not move, and the integration itself, are no sources. Steps are divided once
  /// the gain exceeds half of that, into at most max_substeps parts. A larger gain is an EnergyGain (T15). Positive;
  /// infinity: energies are not compared.
  double max_energy_gain = 0.1;
  /// Largest |φ̇| or |ψ| that the velocities at the end of a step may leave in a row, relative to the speeds that its
  /// bodies could give to it. Steps are divided while more than half of that grows, into at most max_substeps parts. A
  /// larger residual is a VelocityResidual (T15). Positive; infinity: velocities are not compared.
  double max_velocity_residual = 0.1;
  /// For adaptive8: whether state_at() and the results of watch() are of order 7 or of order 3. Order 7 costs each
  /// substep four evaluations beside its twelve. Watched functions set it.
  bool dense_output = true;
  SolveOptions solve{};  ///< Settings of the solver.
};

/// Result of one step.
struct StepReport {
  Status status = Status::ok;    ///< Outcome of the evaluations.
  int substeps = 1;              ///< Number of substeps.
  int newton_solves = 0;         ///< Number of solves of the Newton that ends a step.
  double tension_frequency = 0;  ///< Largest geometric-stiffness frequency times dt of the accepted substeps.
  /// Number of mode changes: friction elements that stopped, turned or slid, unilateral constraints that released or
  /// engaged.
  int mode_switches = 0;
  int sticking = 0;  ///< Number of friction elements that stick at the end.
  /// Number of parts into which the step was divided at least, because energy or a velocity residual grew (T15).
  int divisions = 1;
  bool gains_energy = false;              ///< The step ends with an EnergyGain, named in `warning`.
  bool leaves_velocity_residual = false;  ///< The step ends with a VelocityResidual, named in `warning`.
  /// The finest substep had no finite, stable result on the constraints. The state is unchanged.
  bool rejected = false;
  std::string reason;  ///< The reason, when rejected or invalid.
  std::string
      /// Warning about laws, with names: LawReport::warning, or a law that damps faster than rk4 can follow. Then the
      /// texts of an EnergyGain and of a VelocityResidual. Otherwise empty.
      warning;
};

/// A friction element or a unilateral constraint that changed its mode (T10). rk4 locates it to event_tolerance, the
/// semi-implicit method at the end of its step.
struct ModeSwitch {
  /// The kinds of changes.
  enum class What {
    sticks,    ///< Came to rest and stays.
    turns,     ///< Came to rest and slides on in another direction.
    slides,    ///< Exceeded its bound and slides.
    releases,  ///< The constraint force of a unilateral constraint came to zero.
    engages    ///< The gap of a unilateral constraint came to zero.
  };
  double t = 0;              ///< Time [s].
  ConstraintId on;           ///< The constraint.
  int law = -1, term = -1;   ///< Position in laws_on(system, on)[law].terms()[term]. −1 for unilateral constraints.
  What what = What::sticks;  ///< The kind of the change.
};

/// A zero crossing of a function of the user's (Stepper::watch).
struct Crossing {
  double t = 0;         ///< Time [s].
  int function = 0;     ///< Number that watch() returned.
  bool rising = false;  ///< The function becomes positive.
  State state;          ///< State just after the crossing.
};

/// Motion without a host. Keeps the state, the recorded impulses and its work memory. A step does not allocate after
/// warm-up.
///
/// A Stepper owns the state and keeps a reference to the System, which must outlive it. Between two steps the program
/// may add, remove and enable constraints and laws. The next step takes the change. References and spans that a Stepper
/// returns are valid until the next call of step(), set_state() or reactions().
///
/// One object, with its System, serves one thread at a time. Different steppers of different systems are independent.
/// The constructor, step(), set_state() and reactions() call the functions of constraints, forces, laws, kinematic
/// bodies and watch() in the calling thread. Such a function must not call this Stepper or another solver, because
/// solvers of one thread share work memory. Exceptions of residuals, forces and laws reject the step with the text.
class LINCHPIN_API Stepper {
 public:
  /// Assembles the start. Gaps are closed in the mass metric and velocities are projected (T14). `start()` reports
  /// both.
  /// @throws std::invalid_argument for options that allow no step, with the name, and where the equation cannot be
  /// evaluated. That is so for an invalid state, and for laws that throw, return values that are not finite, or give
  /// power although they are declared dissipative. (Later in the motion, they cause a step to be rejected.)
  Stepper(System& system, State start, StepOptions options = {});
  ~Stepper();

  /// Takes a step of dt [s]. A rejected step leaves the state unchanged.
  const StepReport& step(double dt);
  const State& state() const;             ///< The current state.
  void set_state(const State& state);     ///< After a teleport: the state is assembled again.
  double t() const { return state().t; }  ///< Current time [s].

  /// How the start was assembled.
  struct Start {
    double gap = 0;             ///< Largest |φ| before, or angle of a joint from its required rotation.
    double moved = 0;           ///< Largest displacement that closed it [m].
    double turned = 0;          ///< Largest rotation of a body that closed it [rad].
    double impulse_energy = 0;  ///< Kinetic energy of the velocity jump [J].
  };
  const Start& start() const;  ///< How the start was assembled.

  /// Reactions of all enabled constraints at the current state (instantaneous, T11), with power, work and the parts, in
  /// the order of the ids. Released unilateral constraints are in the list too: with zero forces, their gap, and their
  /// work until now. The reactions are computed on demand and then kept.
  std::span<const Reaction> reactions();
  /// Momentum balances of the last step. They close for semi-implicit steps. For the other methods they hold the mean
  /// forces of the step and close only to the order of the method.
  std::span<const MomentumBalance> momentum_balances() const;
  /// Work of all constraints and laws since the start [J].
  double constraint_work() const;
  /// Energy balance since the start. It closes to round-off for the semi-implicit method, and to their order for the
  /// others.
  const EnergyBalance& energy_balance() const;
  /// Gains of energy without a source since the start, the first 100 of them.
  std::span<const EnergyGain> energy_gains() const;
  long energy_gain_count() const;  ///< Number of all of them.
  /// Velocity residuals above their bound since the start, the first 100 of them. One that stays is one event.
  std::span<const VelocityResidual> velocity_residuals() const;
  long velocity_residual_count() const;  ///< Number of all of them.
  long divided_steps() const;  ///< Number of steps that were divided, because energy or a velocity residual grew.
  /// Number of steps that were not divided further for that reason, because the divided step was rejected.
  long rejected_divisions() const;
  /// Work of every law since the start.
  std::span<const LawWork> law_works() const;
  /// Mode changes in the last step, in order of time.
  std::span<const ModeSwitch> switches() const;
  /// Watches for zeros of a function of the state. Every step samples it at four points in each substep. @return its
  /// number in Crossing::function
  int watch(std::function<double(const State&)> function);
  /// Zero crossings in the last step, in order of time for each substep. They are located on the polynomial of
  /// state_at() to event_tolerance, and have the error of that polynomial.
  std::span<const Crossing> crossings() const;
  /// State at any time of the last step, on a polynomial in the chart of the poses at the beginning of each substep.
  /// The order is 4 for adaptive, 7 for adaptive8, 3 for rk4, 2 for rattle, 1 for semi_implicit. The state is on the
  /// constraints to that order. Outside the step: state().
  State state_at(double t) const;
  /// Friction elements and laws at the last evaluation (dynamics.h).
  const Dynamics& dynamics() const;
  /// Energy minus the work of constraints that move with time. It is constant for ideal constraints and conservative
  /// forces.
  double energy_minus_work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
