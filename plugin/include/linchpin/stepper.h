// The way through time: one step on a host's terms (`end_on_constraints` and its kin, T12), and `Stepper`, the whole
// motion without a host (T12, T13). Hides stages, Newton, projection and the ledger's records. Leaves how accelerations
// are found to dynamics.h.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// What end-of-step satisfaction did.
struct NewtonReport {
  bool converged = false;
  bool least_squares =
      false;  ///< converged, but rows contradict each other: no velocity meets them all, this comes nearest
  int solves = 0;
  double residual = 0;  ///< largest |φ|/dt or |ψ| left [m/s or as the row's unit implies]
};

/// Newton for v₁ such that the host's own map ends on the constraints (T12): φ(base ⊕ dt·v₁, t₁) = 0 for holonomic
/// rows, ψ(base ⊕ ½dt·v₁, v₁, t₀ + ½dt) = 0 for nonholonomic ones, A(v₁ − v₀) = dt·b for acceleration rows. Uses the
/// factor of `dynamics` (its last evaluation, whose velocities are the v₀ of acceleration rows).
/// @param base     the poses the step really starts from, by BodyId; fixed and driven bodies where they are at t₀
/// @param end      in: fixed and driven bodies where they are at t₁; out: also the block's bodies there
/// @param v        [n] in: v before this correction; out: v₁
/// @param lambda   [m] added: the impulse multipliers of all solves
/// @param force    [n] added: their Aᵀλ
/// @param tolerance  on |φ| [m or the row's unit], and on |ψ|·dt; a residual at round-off counts as converged
/// @param left_open  [m] or empty: what φ ends on in place of 0 [m or the row's unit]
/// Not converged: v, lambda and force hold what was reached; if nothing was gained they are as they came.
NewtonReport end_on_constraints(const System& system, const Dynamics& dynamics, const State& base, State& end,
                                double dt, std::span<double> v, std::span<double> lambda, std::span<double> force,
                                double tolerance, int max_solves, std::span<const double> left_open = {});

/// Moves poses in the mass metric until φ = 0 at state.t, velocities untouched (an initial gap is not a velocity, T12,
/// T14).
/// Joints that are turned far from where they are held (`JointRows::Alignment`) are turned back first, the shortest
/// way.
/// @param moved   receives the largest displacement [m] when given
/// @param turned  receives the largest turn of a body [rad] when given with `moved`
/// @param most_turn  of a body by turning back [rad]; poses stay where that leaves them
/// @return largest |φ| left, the angle of a joint that is still turned far included
double close_gaps(const System& system, const Dynamics& dynamics, State& state, double tolerance, int max_solves,
                  double* moved = nullptr, double* turned = nullptr,
                  double most_turn = std::numeric_limits<double>::infinity());

/// v⁺ = v − M⁻¹AᵀG⁺(A v + φ_t): the impulse at activation (T14). @return its kinetic-energy norm ½ΔvᵀMΔv [J].
/// @param lambda  [m] added: its multipliers; may be empty. Not told of blocks with acceleration rows
double project_velocities(const System& system, const Dynamics& dynamics, State& state, std::span<double> lambda = {});

/// ω of T15: the fastest swing of any body of the block about its centre under this block's own forces [rad/s].
/// @param lambda  multipliers of all that the constraints apply, [m]: this step's own, mean over the step
/// @param enough  [rad/s] what is found to be below it may be a bound, ω² ≤ Σ|r||f| / least principal moment, where all
///   are stock joints (joints.h) of rigid bodies: a tenth of the cost. 0: exact; infinity: the bound, where there is
///   one
double fastest_swing(const System& system, const Dynamics& dynamics, const State& state, std::span<const double> lambda,
                     double enough = 0);

/// K⁺ of T15 of each body of the block, in block order: the part without negative eigenvalues of the symmetric part of
/// Σ (r·f) I₃ − r fᵀ, by which the block's own forces turn a body back that has turned [N·m/rad], world axes; zero for
/// particles. @param lambda  as in fastest_swing
void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, std::vector<Matrix3d>& K);

/// How a step is made. All but the first keep the constraints by their own means to newton_tolerance, poses and
/// velocities both (T13); the tests show each order by its slope.
enum class Method {
  semi_implicit,  ///< order 1. v₁ = v₀ + dt·a, X₁ = X₀ ⊕ dt·v₁ with end-of-step satisfaction (T12): what a game engine
                  ///< does, exactly
  rk4,        ///< order 4. Runge–Kutta–Munthe-Kaas with projection of poses, then velocities, in the mass metric
  adaptive,   ///< order 5(4). The pair of Dormand and Prince likewise, in parts as long as the tolerances allow
  adaptive8,  ///< order 8(5,3). DOP853 likewise: fewer evaluations than adaptive where motion is smooth and tolerances
              ///< are 1e-8 or less
  rattle,     ///< order 2. RATTLE on momenta, rotations by the exponential map: symmetric, symplectic for forces
              ///< with a potential, so that energy has no trend. Bodies only (no coordinates), smooth laws only
  rattle4     ///< order 4. Five of its steps composed (Suzuki), one of them backwards
};
inline constexpr std::array all_methods{Method::semi_implicit, Method::rk4,    Method::adaptive,
                                        Method::adaptive8,     Method::rattle, Method::rattle4};
const char* to_string(Method method);  ///< as scenes and the command line name it: "semi-implicit", "rk4", …

enum class Drift {
  exact,     ///< end-of-step satisfaction, projection with the Runge–Kutta methods: the default
  none,      ///< the bare acceleration (T5): drifts without bound, shown because people ask
  baumgarte  ///< feedback on φ and φ̇ with `baumgarte_rate`: gains energy, likewise
};

/// A step by the stages of rk4 or of adaptive (T13) for hosts, which have forces of their own:
///
///     stages.begin(dynamics, Method::rk4, from, h);       // `dynamics` evaluated at `from`
///     stages.take(dynamics);
///     while (stages.place(at)) {
///       dynamics.factor(at);
///       stages.solve(dynamics, Q);                        // Q at `at`
///     }
///     settle(system, dynamics, at, on, v, …);             // `at` is the step's end, off the constraints by its error
///
/// and of adaptive, whose error is known once its last stage is, which may be the first of the next part:
///
///     stages.arrive(at, on, v);
///     dynamics.factor(on);
///     stages.solve(dynamics, Q);
///     if (stages.error(on, absolute, relative) <= 1) …    // it may stand; then begin(…, on, …), and go_on() for
///     take()
///
/// No allocation once warm.
class StepInStages {
 public:
  /// @param method  rk4 or adaptive. @param from  kept by address until the step is over. @param h  [s]
  void begin(const Dynamics& dynamics, Method method, const State& from, double h);
  /// The stage placed last, to begin with that at `from`, is what `dynamics` has just been evaluated at, laws and all.
  void take(const Dynamics& dynamics);
  /// Likewise, where it has been factored only. Ideal constraint forces, which with full row rank are not refined: what
  /// that leaves, rounding times the condition of G, the projection of the step's end takes away with the method's own
  /// error. @param Q  [n] @return false where a number is not finite
  [[nodiscard]] bool solve(const Dynamics& dynamics, std::span<const double> Q);
  /// Likewise of a part that begins where the last one, of adaptive, has ended.
  void go_on();
  /// Puts the block's bodies of `at`, and its clock, where the next stage is, or where the step ends.
  /// @return whether it is a stage, to be solved
  bool place(State& at);
  /// Of adaptive: the end that was placed last and lies at `off`, has been brought to `on`, with velocities v [n]. Its
  /// stage comes next.
  void arrive(const State& off, const State& on, std::span<const double> v);
  double weight() const;                                           ///< of the stage solved last, in the step's sums [s]
  std::span<const double> vdot() const { return vdot_[placed_]; }  ///< [n] there
  std::span<const double> lambda() const { return lambda_; }       ///< [m] of ideal and induced forces
  std::span<const double> v() const { return v_; }                 ///< [n] at what was placed last
  /// Of adaptive, once the end has been solved as well: rms(error / (absolute + relative · size)) over positions, turns
  /// and velocities, of which vectors count by their length and a turn's size is 1. @param end  where the step ended
  double error(const State& end, double absolute, double relative);

 private:
  static constexpr std::size_t most = 7;
  Method method_ = Method::rk4;
  const State* from_ = nullptr;
  const Block* block_ = nullptr;
  double h_ = 0;
  std::size_t placed_ = 0;  // stage, or the number of them: the end
  std::vector<double> v0_, v_, chart_, gained_, a_, error_, scale_, lambda_, dv_;
  std::array<std::vector<double>, most> pose_rate_, vdot_;
};

/// How a step by stages came to its end on the constraints.
struct Settling {
  bool converged = false;      ///< poses and velocities
  bool least_squares = false;  ///< likewise, but rows contradict each other (T6)
  int solves = 0;
  double residual = 0;  ///< largest |φ| left [m or the row's unit]
  double moved = 0;     ///< largest |component| of the displacement of a body [m, rad]
  double changed = 0;   ///< and of the change of a velocity [m/s, rad/s]
};

/// Projects first poses, then velocities, in the mass metric (T13), by a chord: solves with the factor of `dynamics`,
/// which was evaluated near, and nothing else. Rows on velocities and accelerations hold displacements; rows on
/// accelerations hold velocities as they are.
/// @param off  where the block is; all others where they are at off.t
/// @param on   in: all others as in `off`; out: the block's bodies on the constraints
/// @param v       [n] in: velocities at `off`; out: those of `on`
/// @param lambda  [m] out: multipliers of the impulses that changed them
/// @param tolerance  on |φ|; a residual at round-off counts as converged
/// No allocation once warm.
Settling settle(const System& system, const Dynamics& dynamics, const State& off, State& on, std::span<double> v,
                std::span<double> lambda, double tolerance, int max_solves);

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
