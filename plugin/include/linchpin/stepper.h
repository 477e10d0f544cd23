// The whole motion without a host (T12, T13). Hides stages, Newton, projection and the records of impulses. Leaves how
// accelerations are found to dynamics.h.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/integration_method.h>
#include <linchpin/report.h>
#include <linchpin/system.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

enum class Drift {
  exact,     ///< end-of-step satisfaction, projection with the Runge–Kutta methods: the default
  none,      ///< the bare acceleration (T5): drifts without bound, shown because people ask
  baumgarte  ///< feedback on φ and φ̇ with `baumgarte_rate`: gains energy, likewise
};

struct StepOptions {
  Method method = Method::semi_implicit;
  Drift drift = Drift::exact;
  double baumgarte_rate = 10;       ///< α [1/s] of φ̈ + 2αφ̇ + α²φ = 0
  double newton_tolerance = 1e-13;  ///< on |φ|, relative to 1 m (or the row's unit)
  int max_newton = 30;
  /// ω·dt above which a semi-implicit step is redone in halves (T15). At 1.5 everything stays alive, but chains gain
  /// energy each time they snap taut; at 1 they lose some instead.
  double swing_limit = 1.0;
  /// The most substeps of semi_implicit; at the finest the limit of stability, 2, takes the place of swing_limit.
  /// Smooth laws may ask rk4 for so many parts, too. With events and turning friction a step of rk4, rattle or rattle4
  /// has at most 4000 parts, and one of adaptive or adaptive8 at most 100000. A longer one is rejected, and the reason
  /// says why.
  int max_substeps = 64;
  double event_tolerance = 1e-13;  ///< to which rk4 and the adaptive ones locate stick, slip and release [s] (T10)
  int max_switches = 100;          ///< of modes in one step of theirs, beyond which it is rejected
  /// Of adaptive and adaptive8: a part is accepted when rms(error / (absolute + relative · size)) ≤ 1, errors and sizes
  /// those of positions [m], velocities, coordinates and internal states of laws; of turns [rad] the size is 1.
  double relative_tolerance = 1e-9, absolute_tolerance = 1e-12;
  /// Of adaptive8: whether state_at() and what watch() finds are of order 7, for which each part costs four evaluations
  /// beside its twelve, or of order 3. Where functions are watched it counts as set.
  bool dense_output = true;
  SolveOptions solve{};
};

/// What one step did.
struct StepReport {
  Status status = Status::ok;
  int substeps = 1;
  int newton_solves = 0;
  double swing = 0;       ///< largest ω·dt of the accepted substeps
  int mode_switches = 0;  ///< contacts that stopped, turned or let go, one-sided constraints that released or engaged
  int sticking = 0;       ///< contacts that stick at the end
  bool rejected =
      false;  ///< nothing finite, stable and on the constraints at the finest substep: the state was left as it was
  std::string reason;  ///< why, when rejected or invalid
  std::string
      warning;  ///< of laws, by name: LawReport::trouble, or one that damps faster than rk4 can follow; else empty
};

/// A contact of dry friction or a one-sided constraint that changed its mode (T10). rk4 knows when to event_tolerance;
/// the semi-implicit method at the end of its step.
struct ModeSwitch {
  enum class What {
    sticks,    ///< came to rest and stays
    turns,     ///< came to rest and slides on in another direction
    slides,    ///< its bound was passed
    releases,  ///< a one-sided constraint's thrust came to zero
    engages    ///< and its gap
  };
  double t = 0;  ///< [s]
  ConstraintId on;
  int law = -1, term = -1;  ///< of laws(system, on)[law].terms()[term]; −1 for one-sided constraints
  What what = What::sticks;
};

/// A function of the user's that passed through zero (Stepper::watch).
struct Crossing {
  double t = 0;      ///< [s]
  int function = 0;  ///< as watch() numbered it
  bool rising = false;
  State state;  ///< there, just past it
};

/// The whole motion without a host. Keeps the state, the ledger and its memory; no allocation in a step once warm.
class Stepper {
 public:
  /// Assembles the start: gaps closed in the mass metric, velocities projected (T14); both are reported by `start()`.
  /// @throws std::invalid_argument for options that no step can be made with, by name, and where the equation cannot be
  /// evaluated there: a state that is none, and laws that throw, return what is not finite, or are declared dissipative
  /// and give power. (Later they get a step rejected.)
  Stepper(System& system, State start, StepOptions options = {});
  ~Stepper();

  const StepReport& step(double dt);
  const State& state() const;
  void set_state(const State& state);  ///< after a teleport: assembled again
  double t() const { return state().t; }

  struct Start {
    double gap = 0;             ///< largest |φ| before, or turn of a joint away from where it is held
    double moved = 0;           ///< largest displacement that closed it [m]
    double turned = 0;          ///< largest turn of a body that closed it [rad]
    double impulse_energy = 0;  ///< kinetic energy of the velocity jump [J]
  };
  const Start& start() const;

  /// The reactions at the current state (instantaneous, T11); power, work and the parts. Computed on demand, then kept.
  std::span<const Reaction> reactions();
  /// Books of the last step (semi-implicit; of the others they hold the step's mean forces and close to its order
  /// only).
  std::span<const BodyBooks> books() const;
  /// Work of all constraints and laws since the start [J].
  double constraint_work() const;
  /// Where kinetic energy went since the start; closes to round-off for the semi-implicit method, to their order for
  /// the others.
  const EnergyBooks& energy_books() const;
  /// Work of every law since the start.
  std::span<const LawWork> law_works() const;
  /// What changed its mode in the last step, in order of time.
  std::span<const ModeSwitch> switches() const;
  /// Watches for zeros of a function of the state, of which every step looks at four points in each part.
  /// @return its number in Crossing::function
  int watch(std::function<double(const State&)> function);
  /// What passed through zero in the last step, in order of time for each part; found on the polynomial of state_at()
  /// to event_tolerance, with whose error it is right.
  std::span<const Crossing> crossings() const;
  /// Any time of the last step, on a polynomial in the poses' chart at the beginning of each part: of order 4 for
  /// adaptive, 7 for adaptive8, 3 for rk4, 2 for rattle, 1 for semi_implicit. On the constraints to that order. Outside
  /// the step: state().
  State state_at(double t) const;
  /// Dry contacts and laws as the last evaluation found them (dynamics.h).
  const Dynamics& dynamics() const;
  /// Energy minus the work of constraints that move with time: constant for ideal constraints and conservative forces.
  double energy_minus_work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
