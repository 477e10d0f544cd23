// What the rooms of the stepper share: the state of a motion, its options and the memory of a step. One room for each
// kind of step (step_*.cpp), one for events, one for dense output; stepper.cpp opens and closes a step. Private to the
// core.
#pragma once

#include "dynamics/impulse_recorder.h"
#include "force_laws/law_solver.h"
#include "integrators/tableau.h"

#include <linchpin/stepper.h>

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin {

inline constexpr double stable = 1;  // rate · h of laws in rk4, whose own limit is 2.78

inline constexpr const char* too_stiff =
    " damps faster than the step can follow. Take a shorter step, or Method::semi_implicit, which damps with it at any "
    "step";

inline constexpr const char* step_went_astray = "the end of the step did not come to lie on the constraints";

/// Pivots (SolveInfo) below which stages are brought onto the constraints, and below which rounding in the gaps,
/// divided by the pivot, outweighs tolerances: steps that begin or end there, or have a stage there and fail, are taken
/// differently.
inline constexpr double nearly_singular = 5e-3, blurred = 1e-6;

inline bool by_tolerance(Method m) { return m == Method::adaptive || m == Method::adaptive8; }

inline bool symplectic(Method m) { return m == Method::rattle || m == Method::rattle4; }

struct Stepper::Impl {
  System* system;
  State state;
  StepOptions options;
  Dynamics dynamics;
  ImpulseRecorder recorder;
  Start start;
  StepReport report;
  std::vector<Reaction> list;
  bool list_current = false;
  std::array<std::optional<std::string>, 2> warned;  // standing_warning(), where rows depend on each other or do not
  std::pair<unsigned long, unsigned long> warned_of{~0ul, ~0ul};  // structure and laws that these are of
  bool restart = false;                // the system changed: assemble again before the next step
  double last_dt = 0, last_swing = 0;  // of the last accepted step; ω [rad/s]
  double last_h = 0;                   // of the last semi-implicit part of a step

  // How contacts and one-sided constraints are between two events (T10).
  struct Mode {
    ConstraintId on;
    int law = 0, term = 0;
    bool sticks = false;
    Vector6d sense = Vector6d::Zero();  // of the rubbing, while it slides
  };
  struct Pusher {
    ConstraintId on;
    bool negative = false;
  };
  std::vector<Mode> modes, modes_before;
  std::vector<Pusher> held, let_go;  // one-sided constraints; those let go are watched only if they re-engage
  std::vector<Pusher> let_go_before;
  std::vector<ConstraintId> toggled;  // in this step
  std::vector<ConstraintId> tried;    // likewise, in this part of a semi-implicit one
  std::vector<ModeSwitch> switches;
  std::vector<char> over, over_held, over_gone;  // past their event
  std::vector<Vector6d> straight;  // unit; the ways of contacts that do not turn in this part of a step, else zero
  std::vector<Vector6d> ways;      // by which contacts at an event give way
  double smooth_rate = 0;          // of smooth laws, as go_straight() has last met them [1/s]
  bool dry_is_fastest = false;     // law_rate is that of friction which turns with its slip
  bool modes_known = false, turned_back = false;
  long tries = 0;           // parts that were tried in this step, and ways of contacts that were looked for
  double closed = 0;        // up to when the recorder counts [s]
  double law_rate = 0;      // the largest of the stages of the last advance_by() [1/s]
  std::vector<char> stuck;  // contacts at the end of the last semi-implicit step
  std::vector<BodyState> watched;

  // The pairs (T13).
  double try_h = 0;          // how long the next part may be [s]; 0: not known
  double last_error = 1e-4;  // of the last accepted part, in units of the tolerance
  double error_of_step = 0;
  bool fresh = false;  // the last evaluation was at `state`, and is the first of the next part
  // Of the last part, SolveInfo::smallest_pivot at its beginning, its end, and the least of all its stages; whether
  // stages are brought onto the constraints before they are evaluated.
  double pivot_at_start = 1, pivot_at_end = 1, least_pivot = 1;
  bool on_constraints = false;

  // Dense output: of a part of a step, y(θ) = θ(c₀ + (1 − θ)(c₁ + θ(c₂ + (1 − θ)(c₃ + …)))) from its beginning,
  // θ = 0 … 1. The first three are the cubic with the right ends and slopes.
  struct Segment {
    State base;
    double h = 0;
    std::array<std::vector<double>, 7> pose, rate;  // chart; velocity less that of the beginning
    std::size_t powers = 3;
    void resize(std::size_t n) {
      for (auto* all : {&pose, &rate})
        for (auto& x : *all) x.resize(n);
    }
  };
  Segment trial;
  std::vector<Segment> segments;
  std::size_t segment_count = 0;
  std::vector<std::function<double(const State&)>> functions;
  std::vector<double> values;  // of the functions at `state`; NaN: not known
  std::vector<Crossing> crossings;

  // Memory of a step.
  using Stages = std::array<std::vector<double>, Tableau::most>;
  State before, next, stage, between, probe;
  std::vector<double> v0, v1, beyond, beyond_rate, force, gyroscopic, error, all, mass, in_chart, gained, momentum,
      momentum_before, all_forces;
  Stages vdot, pose_rate, memory_rate;
  std::vector<double> memory_before, memory_after, memory_there;  // internal states of laws (Dynamics::memory())
  Assembly forces_alone;
  std::vector<BodyState> scene;

  Impl(System& s, State at, const StepOptions& o);

  const Block& block() const { return dynamics.assembly().block; }

  /// Assembles the start (T14) and makes room for what a step needs. @return what is wrong.
  std::string begin_at(bool forget);
  /// One-sided constraints that are to land some time and are open, or opening, where the motion begins, begin let go.
  bool open_those_apart();

  void make_room();

  bool structure_changed() const;

  void refuse(Status status, std::string why);

  /// Feedback α on the residuals, as a change of v̇ by the constraints themselves; also its λ, in beyond_rate.
  void add_feedback(std::span<double> acceleration);

  void move(const State& from, State& to, double h, std::span<const double> v) const;

  /// ω of T15 for the forces of the last evaluation and impulses `beyond` over h.
  double swing_of(const State& at, double h);

  // ---- semi-implicit (T12) ----

  /// The gyroscopic torque at v₀ alone feeds energy into everything that tumbles, at first order and without end. The
  /// mean of before and after the step makes the step symmetric in time, and energy only oscillates (a double pendulum
  /// of 20 J in space: 1.4 J gained in a minute, against 1 mJ). Brings v₁ nearer to that; false when it is there.
  bool centre_gyroscopic(double h);

  enum class Outcome { done, too_long, switched, invalid };

  /// How far a unit multiplier of a constraint of one row moves it, if nothing else held its bodies [1/kg].
  double mobility_of(int constraint);

  /// The one-sided constraint that the part of a step from `state` to `next` shows held or let go wrongly, by most:
  /// pulled on by its mean multiplier so much that its gap would open, or passed through. Each changes twice at most.
  /// @return whether there is one; over_held and over_gone say which.
  bool one_sided_is_wrong(double h, double kick);

  /// One substep of h from `state`, which moves only when all went well; else `trouble` says why not.
  Outcome substep(double h, bool finest, double& swing, const char*& trouble);

  /// What stuck or slid differently in the last part of a step.
  void note_modes(double t);

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

  /// Bodies of `to` where the chart at `from` has `pose`, with the velocities of `from` and `rate` more.
  void place(const State& from, std::span<const double> pose, std::span<const double> rate, State& to) const;

  /// The rate of the chart where it has `pose`, when bodies have velocities v.
  void rate_of_chart(std::span<const double> pose, std::span<const double> v, std::span<double> rate) const;

  void velocities(const State& at, std::span<double> v) const;

  /// The stages before the end. Near singular positions once more, from the beginning, on the constraints.
  bool take_stages(double dt);

  /// Brings `stage` onto the constraints. Off them by g, where rows are nearly dependent, they are contradictory by g
  /// over their angle, and no step is short enough; the field x ↦ f(projection of x) is the same on the constraints,
  /// smooth off them, and keeps every order (T13). @return what its evaluation says
  Status settle_stage();

  /// The equation at a stage, with its part of the books.
  bool evaluate_stage(std::size_t k, double dt);

  /// One step of the method from `state` to `next`, contacts held in their modes. @return whether it went well.
  bool step_runge_kutta(double dt);

  /// Rows that contradict each other have no end to meet: poses go to their least squares, where a further correction
  /// moves nothing (Gauss–Newton: closing gaps stops where the largest of them no longer shrinks, which may be before).
  /// @return whether they got there
  bool settle_in_least_squares(State& end);

  bool is_finite(const State& x) const;

  /// Gives the laws the internal states that `weight` over the first `count` stages makes after dt, in `memory`.
  void remember(double dt, std::span<const double> weight, std::size_t count, std::vector<double>& memory);

  /// The state at stage k of a step of dt, in `stage`; its chart in `in_chart`.
  void place_stage(std::size_t k, double dt);

  /// What the members of the pair disagree by, in units of the tolerance: rms over all coordinates and velocities.
  /// Vectors are judged by their length, so that the axes do not matter.
  double error_norm(double dt);
  double error_norm(double dt, const Tableau::Row& weight);

  // ---- dense output ----

  /// The step from `state` to `next` as a polynomial in the chart at its beginning: the cubic with the right ends and
  /// slopes, to which add_powers() adds what the pair knows more.
  void interpolate(double dt, std::span<const double> end_rate, std::span<const double> end_vdot);

  /// @return whether the stages that only they need could be evaluated
  bool add_powers(double dt);

  /// A step of the methods without stages: poses with the velocities of both ends as slopes, velocities on a line.
  void interpolate_ends(double dt);

  void look_inside(const State& base, const Segment& segment, double theta, State& out);

  /// The polynomial of the part of a step that has just been taken, `next` being where it began.
  void keep_segment();

  void find_crossings(const Segment& segment);

  // ---- RATTLE with the exponential map (T13) ----

  /// Forces at a state, without the gyroscopic torque: momenta in world axes have none.
  void take_gyroscopic(const State& at, double h, std::span<double> out);

  /// The equation at `at` gives the bodies the impulse that it has in h: added to `momentum`, whose velocities are v.
  bool kick(const State& at, double h, std::span<const double> v);

  /// Half a kick, the free motion, half a kick: symmetric, and symplectic where forces have a potential. The
  /// multipliers of the first make poses obey at the end, those of the second velocities.
  bool step_rattle(double h, const State& from, State& to);

  /// Whether forces or laws differ between two states that have the same poses.
  bool depends_on_velocity(const State& a, const State& b);

  bool step_symplectic(double dt);

  bool advance_by(double dt) {
    ++tries;
    return symplectic(options.method) ? step_symplectic(dt) : step_runge_kutta(dt);
  }

  void give(std::span<const double> v, State& to) const;

  // ---- events (T10) ----

  bool eventful() const { return !dynamics.contacts().empty() || !held.empty() || !let_go.empty(); }

  /// Finds the one-sided constraints that are held; those let go stay known.
  void watch();

  /// Modes of all contacts at `state`: as they were where they were known, else as slip and bound say.
  void decide_modes();

  std::size_t dry_terms() const;

  /// LawReport::rate of the last evaluation, which was at or near `at`: of the constrained motion where the bound by
  /// free bodies is above `from` [1/s].
  double rate_of_laws(const State& at, double from);

  /// Gives the contacts their modes. A sliding one goes along its slip, or straight.
  void apply_modes();

  /// Whether a contact slides, in a direction that may change.
  bool may_turn(std::size_t contact) const;

  /// Whether one that may turn is at rest: it turns faster than any part of a step, however short, can follow.
  bool begins_to_slide() const;

  /// No contact goes straight any more.
  void let_turn();

  /// Friction turns a slip s with a rate of μN/(m|s|), and a slow one long is where it goes to: it moves in a direction
  /// that changes only as forces do. Contacts that so come to the end of a part of h from `state` on a straight way,
  /// but for what counts as rest, take it: the way of their slip at the end, as the laws have it there. (Explicit
  /// senses of slips that turn faster than parts can follow would swing to and fro, ever more.) @param anyhow  all that
  /// slide take it. @return whether there are any
  bool go_straight(double h, bool anyhow);

  /// Whether any contact does.
  bool goes_straight() const;

  /// Whether those that were to go straight did, as far as counts.
  bool went_straight() const;

  /// How much of `left` may be taken in one part: what goes straight goes far, else `enough`.
  double plan(double left, double enough, bool anyhow);

  /// Whether a step by tolerance comes to no end, because a law jumps at rest or is far too stiff: refuses it by name.
  /// @param splinters  parts that a law which is known to jump has cut short
  bool hopeless(double left, int splinters);

  /// Refuses a step that has had all the parts it may have, and says what made it so long. @param part  the last [s]
  /// @return whether it did
  bool takes_too_many(double part);

  /// Warns of the law, if it is one, for which a step by tolerance takes very many parts, now of `part`.
  void name_what_slows(double part);

  /// What has changed its mode most often in this step, by name.
  std::string most_switched() const;

  /// Whether a contact past its event was not at rest there, but went round.
  bool turned_round() const;

  /// One part of rk4 or of rattle, shortened until explicit laws are stable in it. @param left  in: at most; out
  bool advance_in_stages(double& left, double dt);

  /// One part of the pairs.
  bool advance_adaptively(double& left, double rest_of_step);

  /// The multiplier that all forces leave a one-sided constraint, counted positive while it pushes.
  double push_of(const Pusher& p) const;

  double gap_of(const Pusher& p, const State& at);

  /// The event that is furthest past at the end of the last advance_by(), or nearest: negative when past.
  double event_value(const State& at);

  void note(double t, const Mode& mode, ModeSwitch::What what);

  /// At an event, which is `state`: contacts past theirs come to rest and are judged anew together with those at rest.
  bool switch_modes();

  /// One-sided constraints at their events, which is `state`: released ones go, others come back without bouncing.
  /// A semi-implicit step is taken again with them from its beginning, and ends on those that come back. @param t  when
  bool release_and_engage(double t);

  /// A first guess of how long a part may be: a hundredth of the time in which the motion leaves its own size.
  double first_guess(double dt);

  /// A part of the pair, shortened until its error is within the tolerance, and how long the next one may be (a
  /// proportional-integral controller, Hairer and Wanner, II, IV.2).
  bool advance_within_tolerance(double& part, double left);

  void march(double dt);

  /// Where the event lies that a step of `left` has passed, its value being `e` there: dense output says where to look,
  /// and steps of the method find it. @return the length of the step, taken last, that ends just past it.
  double locate(double left, double e);

  std::string name_of(const LawEffort& e) const;

  /// What Dynamics::warnings() says of laws whose thrust is open or which have nothing to rub on: names are dear to
  /// find, and looked for where structure, laws or rank are new.
  const std::string& standing_warning();

  /// The part of a step that has just been found good.
  void take(double h);

  // ---- both ----

  void accept();

  const StepReport& step(double dt);

  std::span<const Reaction> reactions();
};

}  // namespace linchpin
