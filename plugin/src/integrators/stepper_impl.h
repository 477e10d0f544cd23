// Members that all sources of the stepper share: the state of a motion, its options and the work memory of a step. Each
// kind of step has a source of its own, and so have events and dense output. stepper.cpp begins and ends a step.
// Private to the core.
#pragma once

#include "dynamics/impulse_recorder.h"
#include "dynamics/step_watch.h"
#include "force_laws/law_solver.h"
#include "integrators/tableau.h"

#include <linchpin/stepper.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin {

inline constexpr double stable = 1;  // Limit of rate · h of laws in rk4, whose own limit is 2.78.

inline constexpr const char* too_stiff =
    " is too stiff for the step. Use a shorter step, or the method semi-implicit, which is stable at any step";

inline constexpr const char* end_not_on_constraints =
    "the end of the step does not satisfy the constraints: Newton's method did not converge. Use a shorter step, or "
    "check that the constraints can be satisfied";

inline constexpr const char* state_not_finite =
    "the state is not finite: a force is infinite, or the motion has diverged. Use a shorter step";

/// Two limits of pivots (SolveInfo). Below the first, stages are projected onto the constraints. Below the second, the
/// rounding of gaps divided by the pivot exceeds tolerances. Steps that begin or end there, or fail with a stage there,
/// are repeated with another length.
inline constexpr double singular_pivot = 5e-3, imprecise_pivot = 1e-6;

inline bool by_tolerance(Method m) { return m == Method::adaptive || m == Method::adaptive8; }

inline bool symplectic(Method m) { return m == Method::rattle || m == Method::rattle4; }

struct LINCHPIN_PRIVATE Stepper::Impl {
  System* system;
  State state;
  StepOptions options;
  Dynamics dynamics;
  Dynamics factor_at_start;  // Its factor is that of the beginning of a substep, by which stages are projected.
  ImpulseRecorder recorder;
  Start start;
  StepReport report;
  std::vector<Reaction> reaction_list;
  bool reaction_list_is_current = false;
  std::array<std::optional<std::string>, 2> warned;  // standing_warning() for dependent and independent rows.
  // Structure and laws for which these warnings are valid.
  std::pair<unsigned long, unsigned long> warned_of{~0ul, ~0ul};
  bool restart = false;                    // The system changed and must be assembled again before the next step.
  double last_dt = 0, last_frequency = 0;  // Length [s] and ω [rad/s] of the last accepted step.
  double last_h = 0;                       // Length of the last semi-implicit substep.
  double recorded_until = 0;               // Time up to which the recorder has added its work [s].
  State before;                            // State at the beginning of the step.

  // Modes of friction elements and unilateral constraints between two events (T10).
  struct Mode {
    ConstraintId on;
    int law = 0, term = 0;
    bool sticks = false;
    Vector6d sense = Vector6d::Zero();  // Sense of the slip while it slides.
  };
  struct UnilateralMode {
    ConstraintId on;
    bool negative = false;
  };
  struct Switching {
    bool modes_known = false;
    std::vector<Mode> modes, modes_before;
    // Unilateral constraints that are active and inactive. Inactive ones are watched only if they re-engage.
    std::vector<UnilateralMode> active_unilateral, inactive_unilateral;
    std::vector<UnilateralMode> inactive_before;
    std::vector<ConstraintId> switched_in_step;     // Constraints switched in this step.
    std::vector<ConstraintId> switched_in_substep;  // Constraints switched in this semi-implicit substep.
    std::vector<ModeSwitch> switches;
    std::vector<char> over, over_active, over_inactive;  // Past their event.
    // Unit directions of elements that slide straight in this substep, and zero for the others.
    std::vector<Vector6d> straight;
    std::vector<Vector6d> slide_directions;  // Directions in which elements at an event start to slide.
    double smooth_rate = 0;                  // Rate of smooth laws at the last go_straight() [1/s].
    double law_rate = 0;                     // Largest rate over the stages of the last advance_by() [1/s].
    bool dry_is_fastest = false;             // law_rate belongs to friction that turns with its slip.
    bool slip_reverses = false;              // A slip is reversed in a stage of the last advance_by().
    long try_count = 0;       // Number of substeps tried in this step, and of searches for straight directions.
    std::vector<char> stuck;  // Elements that stuck at the end of the last semi-implicit step.
    std::vector<BodyState> watched;
  };
  Switching switching;

  // Energy that islands gain without a source, velocities that do not meet the rows, and what is done about them (T15).
  struct Watching {
    StepWatch watch;
    Assembly at_end;  // Constraints at the end of the step.
    bool has_velocity_rows = false;
    int halvings = 0;    // Steps are divided into at least 2^halvings parts.
    int calm_steps = 0;  // Steps since one of them last grew so much.
    std::vector<EnergyGain> gains;
    std::vector<VelocityResidual> residuals;
    long gain_count = 0, residual_count = 0, divided_steps = 0, rejected_divisions = 0;
    std::string said;                // Texts of the events of this step.
    bool may_divide = true;          // False: a divided step was rejected, and this step is made of fewer parts.
    double h_before = 0;             // last_h at the beginning of the step.
    std::vector<char> stuck_before;  // Switching::stuck at the beginning of the step.
    long reversals_before = 0;       // law_reversals() at that time.
  };
  Watching watching;

  // Step-size control of the embedded pairs (T13).
  struct StepControl {
    double try_h = 0;          // Planned length of the next substep [s]. 0: not known.
    double last_error = 1e-4;  // Error of the last accepted substep, in units of the tolerance.
    double error_of_step = 0;
    // The last evaluation was at `state`, and is the first stage of the next substep.
    bool first_stage_is_known = false;
    // SolveInfo::smallest_pivot of the last substep at its beginning and its end, and the least of all its stages.
    double pivot_at_start = 1, pivot_at_end = 1, least_pivot = 1;
    bool on_constraints = false;  // Stages are projected onto the constraints before they are evaluated.
    bool keeps_factor = false;    // They are projected with the factor of the beginning of the substep.
  };
  StepControl control;

  // Dense output of a substep: y(θ) = θ(c₀ + (1 − θ)(c₁ + θ(c₂ + (1 − θ)(c₃ + …)))) from its beginning, θ = 0 … 1. The
  // first three coefficients are the cubic that matches values and slopes at both ends.
  struct Segment {
    State base;
    double h = 0;
    std::array<std::vector<double>, 7> pose, rate;  // Chart, and velocity minus that of the beginning.
    std::size_t powers = 3;
    void resize(std::size_t n) {
      for (auto* all : {&pose, &rate})
        for (auto& x : *all) x.resize(n);
    }
  };
  struct DenseOutput {
    Segment trial;
    std::vector<Segment> segments;
    std::size_t segment_count = 0;
    std::vector<std::function<double(const State&)>> functions;
    std::vector<double> values;  // Values of the functions at `state`. NaN: not known.
    std::vector<Crossing> crossings;
  };
  DenseOutput dense;

  using Stages = std::array<std::vector<double>, Tableau::most>;
  // Work memory of a step.
  struct Work {
    State next, stage, between, probe;
    std::vector<double> v0, v1, force, gyroscopic, in_chart, gained, momentum, momentum_before, all_forces;  // [n]
    std::vector<double> beyond, beyond_rate, error, all;                                                     // [m]
    std::vector<double> mass;
    Stages vdot, pose_rate, internal_state_rate;
    /// Internal states of laws (Dynamics::memory()).
    struct LawMemory {
      std::vector<double> before, after, there;
    };
    LawMemory memory;
    Assembly forces_alone;
    std::vector<BodyState> scene;
  };
  Work work;

  Impl(System& s, State at, const StepOptions& o);

  const IslandLayout& block() const { return dynamics.assembly().layout; }

  // ---- what Stepper calls ----

  /// Assembles the start (T14) and resizes the work memory. @return an error message, or empty
  std::string begin_at(bool forget);
  const StepReport& step(double dt);
  std::span<const Reaction> reactions();
  /// Inserts the reactions of released unilateral constraints into the list, which is in the order of ids.
  void add_released_reactions();
  void evaluate_segment(const State& base, const Segment& segment, double theta, State& out);

 private:
  /// Deactivates unilateral constraints that can re-engage and are open, or opening, where the motion begins.
  bool deactivate_open();

  void restructure_dynamics();

  void resize_work_memory();

  bool structure_changed() const;

  void refuse(Status status, std::string why);

  /// Adds feedback α on the residuals, as a change of v̇ by the constraints themselves. Its λ is in beyond_rate.
  void add_feedback(std::span<double> acceleration);

  void move(const State& from, State& to, double h, std::span<const double> v) const;

  /// Returns ω of T15 for the forces of the last evaluation and impulses `beyond` over h.
  double stiffness_frequency(const State& at, double h);

  // ---- semi-implicit (T12) ----

  /// Moves v₁ towards the value with a centred gyroscopic torque. Returns false when it has converged. The torque at v₀
  /// alone adds energy to every tumbling body, at first order and without bound. The mean of before and after the step
  /// makes the step symmetric in time, and energy only oscillates. Example: a double pendulum of 20 J in space gained
  /// 1.4 J in a minute, against 1 mJ.
  bool centre_gyroscopic(double h);

  enum class Outcome { done, too_long, switched, invalid };

  /// Returns the displacement of a constraint of one row by a unit multiplier, if nothing else held its bodies [1/kg].
  double mobility_of(int constraint);

  /// Finds the unilateral constraint whose mode is most wrong in the substep from `state` to `next`. Either its mean
  /// multiplier pulls so much that its gap would open, or it was passed through. Each constraint changes at most twice.
  /// @return whether there is one. over_active and over_inactive say which.
  bool find_wrong_unilateral(double h, double kick);

  /// Makes one substep of h from `state`, which changes only on success. Otherwise `reason` says why not.
  Outcome substep(double h, bool finest, double& swing, const char*& reason);

  /// Computes the velocities v₁ of a substep by the accelerations at `state`. @return the status of the evaluation
  Status start_velocities(double kick);

  /// Corrects v₁ by Newton until the substep ends on the constraints, with sticking elements at rest. @param status
  /// that of start_velocities(). @return whether it converged
  bool solve_end_of_substep(double h, Status status);

  /// Records a substep and makes `next` the state.
  void accept_semi_implicit(double h, double kick);

  /// Records the friction elements that changed their mode in the last substep.
  void record_modes(double t);

  void semi_implicit(double dt);

  // ---- Runge–Kutta–Munthe-Kaas (T13) ----

  const Tableau& tableau() const {
    return options.method == Method::adaptive    ? dormand_prince_5
           : options.method == Method::adaptive8 ? dormand_prince_8
                                                 : runge_kutta_4;
  }

  /// y ← h Σ_k weight_k rate_k, over the first `count` stages.
  void combine(double h, std::span<const double> weight, std::size_t count, const Stages& rate,
               std::span<double> y) const;

  /// Places the bodies of `to` at `pose` in the chart at `from`, with the velocities of `from` plus `rate`.
  void place(const State& from, std::span<const double> pose, std::span<const double> rate, State& to) const;

  /// Computes the rate of the chart at `pose`, when bodies have velocities v.
  void rate_of_chart(std::span<const double> pose, std::span<const double> v, std::span<double> rate) const;

  void velocities(const State& at, std::span<double> v) const;

  /// Evaluates the stages before the end. Near singular positions it repeats them from the beginning, on the
  /// constraints.
  bool evaluate_stages(double dt);

  /// Decides whether the stages are projected with the factor of the beginning. It saves most of the time where the
  /// dense solver factors the rows. The sparse solver factors each stage, which is more accurate where the rank drops.
  /// @return whether the beginning could be factored
  bool choose_projection();

  /// Projects `stage` onto the constraints. Nearly dependent rows that are off them by g contradict each other by g
  /// over their angle, and no step is short enough. The field x ↦ f(projection of x) is the same on the constraints and
  /// smooth off them, and keeps every order (T13). @return the status of its evaluation
  Status project_stage();

  /// Evaluates the equation at a stage, and records its impulses.
  bool evaluate_stage(std::size_t k, double dt);

  /// Makes one step of the method from `state` to `next`, with fixed modes. @return whether it succeeded
  bool step_runge_kutta(double dt);

  /// Moves poses to the least-squares solution of contradictory rows, where a further correction moves nothing.
  /// Gauss–Newton is necessary because closing gaps stops when the largest gap no longer shrinks, which may be earlier.
  /// @return whether it converged
  bool project_in_least_squares(State& end);

  bool is_finite(const State& x) const;

  /// Sets the internal states of laws after dt that `weight` over the first `count` stages gives, in `memory`.
  void integrate_memory(double dt, std::span<const double> weight, std::size_t count, std::vector<double>& memory);

  /// Places the state of stage k of a step of dt in `stage`, and its chart in `in_chart`.
  void place_stage(std::size_t k, double dt);

  /// Returns the difference between the members of the pair, in units of the tolerance: rms over all coordinates and
  /// velocities. Vectors count by their length, so that the axes do not matter.
  double error_norm(double dt);
  double error_norm(double dt, const Tableau::Row& weight);

  // ---- dense output ----

  /// Writes the step from `state` to `next` as a polynomial in the chart at its beginning. It is the cubic that matches
  /// values and slopes at both ends. add_powers() adds the higher powers of the pair.
  void interpolate(double dt, std::span<const double> end_rate, std::span<const double> end_vdot);

  /// @return whether the additional stages could be evaluated
  bool add_powers(double dt);

  /// Interpolates a step of the methods without stages: poses with the velocities of both ends as slopes, velocities
  /// linearly.
  void interpolate_ends(double dt);

  /// Stores the polynomial of the substep that has just been accepted. `next` is where it began.
  void store_segment();

  void find_crossings(const Segment& segment);

  // ---- RATTLE with the exponential map (T13) ----

  /// Computes the negative gyroscopic impulse at a state, because momenta in world axes have no gyroscopic torque.
  void gyroscopic_impulse(const State& at, double h, std::span<double> out);

  /// Adds to `momentum`, whose velocities are v, the impulse of the equation at `at` over h.
  bool kick(const State& at, double h, std::span<const double> v);

  /// Makes one RATTLE step: half a kick, the free motion, half a kick. It is symmetric, and symplectic where forces
  /// have a potential. The multipliers of the first kick put poses on the constraints at the end, those of the second
  /// velocities.
  bool step_rattle(double h, const State& from, State& to);

  /// Makes the first half kick, which is implicit in velocities, and carries the poses. @return whether it succeeded
  bool solve_first_half(double h, const State& from, State& to);

  /// Carries the poses by `momentum` to the end of the step, on the constraints. @return whether it succeeded
  bool carry_poses(double h, const State& from, State& to);

  /// Records the impulses of half a kick, between two velocities.
  void record_half(const State& at, double half, std::span<const double> from, std::span<const double> to);

  /// Refuses the step, because a force depends too strongly on the velocity, with the name of the law.
  void refuse_velocity_dependence(const State& from);

  /// Returns true if forces or laws differ between two states with the same poses.
  bool depends_on_velocity(const State& a, const State& b);

  bool step_symplectic(double dt);

  bool advance_by(double dt) {
    ++switching.try_count;
    return symplectic(options.method) ? step_symplectic(dt) : step_runge_kutta(dt);
  }

  void set_velocities(std::span<const double> v, State& to) const;

  // ---- events (T10) ----

  bool eventful() const {
    return !dynamics.friction_elements().empty() || !switching.active_unilateral.empty() ||
           !switching.inactive_unilateral.empty();
  }

  /// Collects the active unilateral constraints. Inactive ones stay known.
  void collect_unilateral();

  /// Decides the modes of all elements at `state`: the known mode, or otherwise by slip and bound.
  void decide_modes();

  std::size_t dry_terms() const;

  /// Returns LawReport::rate of the last evaluation, which was at or near `at`. It is that of the constrained motion
  /// where the bound of free bodies is above `from` [1/s].
  double rate_of_laws(const State& at, double from);

  /// Sets the modes in Dynamics. A sliding element follows its slip, or its straight direction.
  void apply_modes();

  /// Returns true if an element slides in a direction that may change.
  bool may_turn(std::size_t contact) const;

  /// Returns true if an element that may turn is at rest. It then turns faster than any substep, however short, can
  /// resolve.
  bool begins_to_slide() const;

  /// Ends all straight sliding.
  void clear_straight();

  /// Selects straight directions. Friction turns a slip s with a rate of μN/(m|s|). A slow slip has long reached its
  /// final direction, which changes only as forces do. An element takes the straight direction if it reaches the end of
  /// a substep of h on a straight way, except for motion that counts as rest. The direction is that of its slip at the
  /// end by the laws. (Explicit senses of slips that turn faster than substeps can resolve would oscillate with growing
  /// amplitude.) @param anyhow  all sliding elements take it. @return whether there are any
  bool go_straight(double h, bool anyhow);

  /// Returns true if any element slides straight.
  bool goes_straight() const;

  /// Returns true if the elements with a straight direction did slide straight.
  bool went_straight() const;

  /// Returns the part of `left` for one substep. Elements that slide straight allow a long one. The others allow
  /// `enough`.
  double plan_length(double left, double enough, bool anyhow);

  /// Refuses a step by tolerance that would not end, because a law jumps at rest or is far too stiff, with its name.
  /// @param splinters  number of substeps that a law with a known jump has shortened
  bool refuse_endless(double left, int cut_substeps);

  /// Refuses a step that has used all its substeps, and explains what made it so long. @param part  length of the last
  /// one [s] @return whether it was refused
  bool refuse_too_many(double part);
  long max_mode_switches() const;

  /// Warns of the law, if there is one, that makes a step by tolerance take very many substeps of length `part`.
  void warn_of_slow_law(double part);

  /// Returns the name of the thing that changed its mode most often in this step.
  std::string most_switched() const;

  /// Returns true if an element past its event was not at rest there, but turned round.
  bool turned_round() const;

  /// Makes one substep of rk4 or of rattle, shortened until explicit laws are stable in it. @param left  in: its
  /// largest length. Out: its length
  bool advance_in_stages(double& left, double dt);

  /// Makes one substep of the embedded pairs.
  bool advance_adaptively(double& left, double rest_of_step);

  /// Returns the multiplier of a unilateral constraint with all forces, positive while it pushes.
  double unilateral_force(const UnilateralMode& p) const;

  double gap_of(const UnilateralMode& p, const State& at);

  /// Returns the value of the event that is furthest past, or nearest, at the end of the last advance_by(). It is
  /// negative when past.
  double event_value(const State& at);

  void record_switch(double t, const Mode& mode, ModeSwitch::What what);

  /// Switches modes at an event, which is `state`. Elements past their event come to rest. Their modes are decided
  /// again together with those of elements at rest.
  bool switch_modes();

  /// Switches unilateral constraints at their events, which is `state`. Released ones become inactive, and others
  /// re-engage without bouncing. A semi-implicit step is repeated with them from its beginning, and ends on those that
  /// re-engage. @param t  time of the event
  bool release_and_engage(double t);

  /// Returns a first guess of the length of a substep: a hundredth of the time in which the motion covers its own size.
  double first_guess(double dt);

  /// Makes a substep of the pair, shortened until its error is within the tolerance. Plans the length of the next one
  /// by a proportional-integral controller (Hairer and Wanner, II, IV.2).
  bool advance_within_tolerance(double& part, double left);

  void march(double dt);

  /// Locates the event that a step of `left` has passed, where `e` is its value at the end. Dense output gives a guess,
  /// and steps of the method refine it. @return the length of the step, made last, that ends just past it
  double locate(double left, double e);

  /// Where the event is on the dense output of a step, and the slope of its value there.
  struct Guess {
    double at = 0, slope = 0;
  };
  std::optional<Guess> guess_event(double left, double e, double sharp);

  std::string name_of(const LawForce& e) const;

  /// Returns the text of Dynamics::warnings() on laws with an undetermined normal force or without a free direction.
  /// The text is expensive, so it is computed only when structure, laws or rank have changed.
  const std::string& standing_warning();

  /// Accepts the last substep of h.
  void accept_substep(double h);

  // ---- both ----

  void accept();

  void begin_report();

  /// Assembles the start again after a change of the system. @return whether it succeeded
  bool assemble_again();

  /// Makes one try of a step by the method. A failure is in `report`.
  void take(double dt);

  /// Compares the energy that the step has gained with its sources, and its velocities with the rows. @return true if
  /// the step is to be tried again, in more parts
  bool needs_more_parts(double dt);

  /// Compares energies. @return the largest relative gain of an island
  double relative_energy_gain(const StepWatch::Step& step);

  /// Returns true if the step may leave a velocity residual. The semi-implicit step that ends on the constraints leaves
  /// none: its mean velocity has brought the bodies there. The other methods project the velocities. They leave none
  /// where rows are linear in the velocities and do not depend on each other.
  bool may_leave_residual() const;

  /// Compares velocities with the rows at the end of the step.
  void compare_velocities(const StepWatch::Step& step);

  /// Makes a step of fewer parts, where one that was divided by the watch is rejected. @return false: the step is not
  /// divided
  bool take_less_divided(double h_before);

  /// Returns how often the efforts of laws have reversed so far.
  long law_reversals() const;

  /// Restores the beginning of a step that is tried again.
  void begin_again(double h_before);

  /// Records a gain of energy, with a warning.
  void record_energy_gain(double t, double relative);

  /// Records a velocity residual, with a warning.
  void record_velocity_residual(double t, const RowResidual& row);

  /// Longest part of a step of dt [s].
  double longest_part(double dt) const { return std::ldexp(dt, -watching.halvings); }

  /// Restores everything that a rejected step changed.
  void undo_step(double h_before);

  /// Ends an accepted step: records, internal states and warnings.
  void finish_step(double dt);
};

}  // namespace linchpin
