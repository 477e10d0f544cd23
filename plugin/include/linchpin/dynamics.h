// The explicit equation. `assemble` turns a system at a state into an Instant (plain data), `solve` turns an Instant
// into accelerations and forces; `Solver` and `Dynamics` are the same two, kept for the thousandth call without
// allocation. Hides factorisation, scaling, the rank decision and memory. Leaves time to stepper.h.
#pragma once

#include <linchpin/laws.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// Everything `solve` needs, at one time: M v̇ = Q + Q^N + Q^W under A v̇ = b (T5). Plain data: print it, save it, mail
/// it, replay it (`write_json`, `read_json`). SI, world axes; n columns, m rows.
struct Instant {
  struct Entry {
    int column = 0;
    double value = 0;
  };
  double t = 0;                     ///< [s]
  std::vector<int> block_sizes;     ///< sizes n_k of the diagonal blocks of M; their sum is n
  std::vector<double> mass;         ///< the blocks one after the other, each row by row; symmetric positive definite
  std::vector<double> Q;            ///< [n] applied force, gravity and gyroscopic terms included
  std::vector<double> c;            ///< [n] prescribed nonideal force; zeros where there is none
  std::vector<Entry> entries;       ///< A, row after row; columns of a row ascending, each at most once
  std::vector<int> row_start;       ///< [m + 1] where each row's entries start
  std::vector<double> b;            ///< [m]
  std::vector<int> row_constraint;  ///< [m] index into `constraints`; rows of one constraint are consecutive
  std::vector<std::string> constraints;  ///< names, distinct

  int n() const { return static_cast<int>(Q.size()); }
  int m() const { return static_cast<int>(b.size()); }
  /// Forgets the content, keeps the memory.
  void clear();
  /// Why this is not a problem: shapes, non-finite numbers, M not symmetric positive definite; empty when it is one.
  [[nodiscard]] std::string invalid() const;
};

/// The file form of an Instant, schema 1 (docs/architecture.md). Numbers with 17 digits: a round trip is exact.
[[nodiscard]] std::string write_json(const Instant& instant);
/// @throws std::invalid_argument naming the place (line and column, or the key and index) and what is wrong.
/// Shapes are checked here; positive definiteness and finiteness are left to `solve`.
[[nodiscard]] Instant read_json(std::string_view text);

enum class Status { ok, redundant, inconsistent, invalid };  ///< in rising precedence
const char* to_string(Status status);
enum class Path { automatic, dense, sparse };
const char* to_string(Path path);

struct SolveOptions {
  /// Dense is the reference (T8); sparse and automatic factor over the graph of bodies and constraints (T7) and leave
  /// to the reference only what they cannot answer for.
  Path path = Path::automatic;
  /// Singular values of B = A M^-½ with rows of unit length below this fraction of the largest count as zero (T6).
  double rank_tolerance = 1e-6;
  /// Part of b − A a outside range(B), relative to its scale, above which rows are contradictory (T6).
  double consistency_tolerance = 1e-9;
  /// Of islands whose pivots are so small that they tell nothing of rank, those of no more rows than this are left to
  /// the reference, which takes a millisecond at 120 rows and a tenth of a second at 600; larger ones are factored as
  /// G + δI (T7).
  int reference_rows = 600;
};

/// How the last factorisation was done.
struct SolveInfo {
  Path path = Path::dense;  ///< dense also when every island was left to the reference
  int islands = 0;    ///< groups of constraints that share movable bodies, solved one by one; 0 when dense was asked
  int fallbacks = 0;  ///< islands left to the reference, some perhaps by `apply` only
  const char* reason = "";  ///< why the last of them was, or an island too large for it is factored with G + δI (T7)
  /// The smallest square that a row of unit length still has across all rows before it, of those kept: an upper bound
  /// of the square of the smallest singular value kept, and near 0 close to a position where the rank drops. 1 without
  /// rows.
  double smallest_pivot = 1;
};

/// Which constraints are redundant, undetermined, contradictory (T6), by index into Instant::constraints, ascending.
struct RankReport {
  int rank = 0;
  /// Smallest singular value kept, relative to the largest; 0 when rank is 0. Exact from the reference, else an
  /// estimate by iteration.
  double smallest_kept = 0;
  double largest_dropped = 0;  ///< likewise of those dropped; 0 when none was
  std::vector<int> redundant, undetermined, contradictory;
};

/// The answer of `solve` (T5): M v̇ = Q + ideal + nonideal.
struct Acceleration {
  Status status = Status::ok;
  std::string reason;        ///< for invalid: what and where; else empty
  Eigen::VectorXd vdot;      ///< [n] v̇
  Eigen::VectorXd ideal;     ///< [n] Q^N = Aᵀλ: does no work in any virtual displacement
  Eigen::VectorXd nonideal;  ///< [n] Q^W = c − AᵀG⁺A M⁻¹c
  Eigen::VectorXd lambda;    ///< [m] of Q^N, least norm in the rows as given
  int rank = 0;
  double residual = 0;      ///< ‖A v̇ − b‖∞, recomputed from A
  Path path = Path::dense;  ///< the one taken
  std::string fallback;     ///< why islands were left to the reference; empty when none was
  std::vector<std::string> redundant, contradictory, undetermined;  ///< names (T6)
};

/// The acceleration nearest to the free one, in the kinetic-energy metric, that meets the constraints (T5).
/// Redundant rows change nothing but λ. Contradictory rows give Status::inconsistent and the least-squares v̇ in the
/// rows as given. Never throws; malformed or non-finite data give Status::invalid with the reason, and no numbers.
/// Cost: in proportion to bodies and rows where constraints form trees, O(n m min(n, m)) on the dense path. Allocates;
/// a `Solver` does not, once warm.
[[nodiscard]] Acceleration solve(const Instant& instant, const SolveOptions& options = {}) noexcept;

/// One factorisation, many right sides (T7, T8). What depends only on which bodies which rows touch is kept while that
/// stays the same, and so is memory, which only grows.
class Solver {
 public:
  explicit Solver(SolveOptions options = {});
  ~Solver();
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;

  const SolveOptions& options() const;
  void set_options(const SolveOptions& options);

  /// Factors A and M of the instant (Q, b, c are not read). A block of M may be singular where rows that touch no other
  /// block complete it, M + Σ κ aᵀa positive definite ([M; A] of full column rank, as Udwadia and Phohomsiri ask, Proc.
  /// R. Soc. A 462 (2006) 2097): then that is what is factored, v̇ and λ are the same once Q is completed likewise.
  /// @return false when M is neither positive definite nor completed, or a number is not finite; then nothing may be
  /// applied.
  bool factor(const Instant& instant) noexcept;
  /// Of a singular M: Q += Σ κ aᵀb, with which inverse_mass(Q) is an a that the equation may begin from. Else nothing.
  void complete_force(std::span<const double> b, std::span<double> Q) const noexcept;

  int rank() const;
  int rows() const;
  int columns() const;
  bool full_row_rank() const;
  SolveInfo info() const;

  /// λ = G⁺ e for G = A M⁻¹ Aᵀ: the exact answer to "A Δv = e with the least M-norm of Δv".
  /// @param e       [m]
  /// @param lambda  [m] out: least norm in the rows as given; may be empty
  /// @param force   [n] out: Aᵀλ; may be empty
  /// @param dv      [n] out: M⁻¹Aᵀλ; may be empty
  /// @param scale   [m] size of the terms that e is a difference of, |b| + |A||a| for e = b − A a; may be empty.
  /// Without
  ///                it an e that is all cancellation, as in a structure at rest, has rounding for a scale.
  /// @return  part of e outside range(A), as a fraction of ‖e‖∞ (or of ‖scale‖∞ if larger) in unit rows, 0 with full
  ///          row rank: above consistency_tolerance the rows contradict each other and Δv is the least-squares one.
  /// One solver serves one thread at a time.
  double apply(std::span<const double> e, std::span<double> lambda, std::span<double> force, std::span<double> dv,
               std::span<const double> scale = {}) const noexcept;
  /// `apply` without refinement and without a verdict, at half its cost or, with redundant rows, a tenth: for
  /// iterations that look at their own residual. With redundant rows λ is some solution, see `shortest`, and rows that
  /// depend on others are met only as far as these imply them: where they contradict each other it is not the least
  /// squares.
  void approach(std::span<const double> e, std::span<double> lambda, std::span<double> force,
                std::span<double> dv) const noexcept;
  /// @param force   [n] in: Aᵀλ; out: the same, but for a trace that only rows below the rank's cut could make
  /// @param lambda  [m] in: multipliers that make it; out: those of least norm in the rows as given
  /// @param v       [n] in: some velocity; out: less M⁻¹ of that trace; may be empty
  void shortest(std::span<double> force, std::span<double> lambda, std::span<double> v = {}) const noexcept;
  /// M⁻¹ f, [n] → [n]; may be done in place.
  void inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept;

  /// Names redundancy for the factored A; `contradictory` for the right side e, judged as by `apply`. Allocates. Costs
  /// a back-solve per redundant row, O(m r²) on the dense path.
  RankReport report(std::span<const double> e, std::span<const double> scale = {}) const;

 private:
  friend Acceleration solve(const Instant&, const SolveOptions&) noexcept;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- systems
// ---------------------------------------------------------------------------------------------------------

/// The bodies and constraints of one block and where their columns and rows are. A system may be cut into blocks that
/// share no constraint; each is assembled and solved on its own.
struct Block {
  std::vector<BodyId> bodies;             ///< the movable ones, in column order, which is that of BodyId
  std::vector<int> column;                ///< first column of each, and n at the end
  std::vector<ConstraintId> constraints;  ///< enabled ones, in row order
  std::vector<int> row;                   ///< first row of each, and m at the end

  /// Index of a body in `bodies`, −1 outside the block. O(log).
  int slot(BodyId id) const;
  int n() const { return column.empty() ? 0 : column.back(); }
  int m() const { return row.empty() ? 0 : row.back(); }
};

/// The whole system as one block.
Block whole(const System& system);
/// Only the given constraints (and all movable bodies they touch, in BodyId order). Reuses `out`'s memory.
void make_block(const System& system, std::span<const ConstraintId> constraints, Block& out);

/// A, b and the residuals (T4) of a block at a state, beside the Instant they are part of.
struct Assembly {
  Block block;
  Instant instant;
  std::vector<double> position;  ///< [m] φ (0 for rows of the other levels)
  std::vector<double> velocity;  ///< [m] φ̇ = A v + φ_t, or ψ
  std::vector<double> v;         ///< [n] the block's velocities, as in the state
  std::vector<double> bias;      ///< [n] h of M q̈ + h = Q for coordinates (Kinetics); zero for bodies
  std::string failure;  ///< names the constraint whose residual was not finite or threw; empty when all went well

  /// The jacobian of constraint i of the block with respect to its body k as assembled: [rows × 6], row-major; columns
  /// beyond dof(k) and those of fixed bodies are not in A but are kept here.
  std::span<const double> jacobian(int i, int k) const;
  /// Index of body k of constraint i in block.bodies, −1 outside.
  int slot(int i, int k) const { return slots[static_cast<std::size_t>(slot_start[static_cast<std::size_t>(i)] + k)]; }

  std::vector<double> jacobians;    ///< per constraint K blocks of [rows × 6]
  std::vector<int> jacobian_start;  ///< per constraint
  std::vector<int> slot_start;      ///< per constraint, in `slots`
  std::vector<int> slots;           ///< of each of its bodies: index into block.bodies, −1 outside
  Block laid_out;                   ///< the block whose pattern `instant` has,
  unsigned long laid_out_for = 0;   ///< and the System::structure() it was laid out for
  struct EntryRun {
    int source = 0, length = 0;  // in `jacobians`
  };
  std::vector<EntryRun> entry_runs;  ///< the entries of `instant` in order, one row of one body after the other
  std::vector<BodyState> scratch;
  std::vector<double> scratch_rows, scratch_q;
  std::vector<Eigen::Matrix<double, 6, 1>> scratch_wrenches;
};

/// Fills everything of `out` but Q and c, for out.block, at `state`: M, A, b, residuals, v. No allocation once warm.
void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept;
/// Fills Q (T2): gravity, gyroscopic torque, the system's forces; c is set to zero.
void assemble_forces(const System& system, const State& state, Assembly& out) noexcept;

/// One instant of a whole system, ideal constraints only (laws need the ideal forces first: see Dynamics).
[[nodiscard]] Instant assemble(const System& system, const State& state);

// ---- laws at a state ----

/// How a dry contact is to be held (T10).
enum class Grip {
  automatic,  ///< as its slip and its bound say
  slips,      ///< it slides, in the sense given
  sticks      ///< it holds, whatever its bound says: `Contact::friction` against `Contact::bound` tells when to let go
};

/// One dry friction term of a law on a constraint, at the last evaluation. Rubbing velocities are [slip m/s; spin
/// rad/s] in world axes, spin times the arm where both share one bound (Rubs::both).
struct Contact {
  int constraint = 0;     ///< index into the block's constraints
  int law = 0, term = 0;  ///< of laws(system, id)[law].terms()[term]
  int dim = 0;            ///< free directions it rubs in; 0: it has none and does nothing
  bool sticks = false;
  Eigen::Matrix<double, 6, 1> rubbing = Eigen::Matrix<double, 6, 1>::Zero();  ///< at the state, belts included
  Eigen::Matrix<double, 6, 1> gaining = Eigen::Matrix<double, 6, 1>::Zero();  ///< its rate of change; 0 while it sticks
  Eigen::Matrix<double, 6, 1> effort = Eigen::Matrix<double, 6, 1>::Zero();   ///< on the first body [N; N·m]
  double friction = 0;  ///< the same as a norm, moments divided by the arm where both share one bound [N or N·m]
  double bound = 0;     ///< what rest could hold at this thrust [N or N·m]
  double kinetic = 0;   ///< what sliding takes at this thrust, at its speed or that of the step's end [N or N·m]
};

/// What one term of one law prescribed at the last evaluation: on the first body at Prescribed::p_WQ, and its opposite
/// on the second.
struct LawEffort {
  int constraint = 0;                  ///< index into the block's constraints
  int law = 0, term = 0;               ///< of laws(system, id)[law].terms()[term]
  Vector3d force = Vector3d::Zero();   ///< [N] (W)
  Vector3d moment = Vector3d::Zero();  ///< [N·m] (W), about p_WQ
  Vector3d p_WQ = Vector3d::Zero();    ///< where both act [m] (W)
  double power = 0;  ///< on the two bodies together, at the state [W]; a belt's motor is not one of them
  Reads reads =
      Reads::ideal;  ///< the thrust it was given; ideal too where it asked for the actual one and none was found
  Vector3d thrust = Vector3d::Zero();         ///< that thrust: force on the first body [N] (W)
  Vector3d thrust_moment = Vector3d::Zero();  ///< and moment about p_WQ [N·m] (W)
  /// The actual thrust less the ideal one, whichever of the two it was given [N; N·m] (W). Zero where they differ by no
  /// more than rounding, and where the law gives the same for both.
  Vector3d difference = Vector3d::Zero(), difference_moment = Vector3d::Zero();
  int contact = -1;  ///< of dry friction: index into contacts()
  long switches =
      0;  ///< up to the last accept(): times a dry one began to stick or slide, or a smooth one's force reversed
};

/// How the laws were answered at the last evaluation.
struct LawReport {
  int contacts = 0, sticking = 0;  ///< dry ones
  int back_solves = 0;  ///< with the factor: 1 where friction does not change what laws read and nothing rests (T5)
  double residual = 0;  ///< of laws on the actual thrust, relative to the largest effort
  double gain = 0;      ///< how strongly such laws call themselves up; below 1 there is one answer (T9)
  int solutions = 0;  ///< found of the actual thrust: 0 none, several where the gain allows it; 0 also if none reads it
  int most_different = -1;  ///< index into law_efforts(): LawEffort::difference is largest there; −1: all are zero
  Branch branch = Branch::continuous;  ///< which of several solutions was taken
  bool fell_back = false;              ///< none was found: those laws were given the ideal thrust instead
  double rate = 0;  ///< bound on how fast smooth laws damp or turn what they act on [1/s]: an explicit step is shorter.
                    ///< It takes bodies as free, until Dynamics::find_rate() has found better. At an instant also of
                    ///< dry friction that turns with its slip; `stiffest` then is −1. Of smooth laws where it is looked
                    ///< for: with a step, or after ask_rates()
  int stiffest = -1;    ///< the one of them that does so fastest: index into law_efforts()
  std::string trouble;  ///< names laws and constraint when one of these is worth a warning; else empty
};

struct Reaction;  // report.h

/// The full equation (T5) at a state, kept for many: assembles, factors, solves for the ideal forces, asks the laws,
/// solves again with the same factor. One block; no allocation once warm.
class Dynamics {
 public:
  explicit Dynamics(const System& system, SolveOptions options = {});
  Dynamics(const System& system, std::span<const ConstraintId> constraints, SolveOptions options = {});
  ~Dynamics();
  Dynamics(Dynamics&&) noexcept;

  /// Looks again at which constraints are enabled; call after enable, remove, add.
  void restructure();

  /// @return ok, redundant, inconsistent or invalid; `reason()` for the last. Never throws.
  Status evaluate(const State& state) noexcept;
  /// The same with the applied force given instead of assembled [n], block order: what hosts use.
  Status evaluate(const State& state, std::span<const double> Q) noexcept;
  /// The rows and the factor alone, for a host that does not know all its forces yet: `assembly` and `solver` are of
  /// `state`, everything else is that of the last answer until resolve() gives one. @return ok, redundant or invalid.
  Status factor(const State& state) noexcept;
  /// Another applied force [n], as a host's own impulses are (T11), with the rows and the factor of the last evaluate()
  /// or factor(), whose state this is. @return ok, invalid, or redundant: rank_report() tells what is contradictory.
  Status resolve(const State& state, std::span<const double> Q) noexcept;

  /// Adds to the moment of inertia of each body of the block, in block order, at every evaluation and factorisation
  /// from here on [kg·m²], world axes, symmetric positive semidefinite: w dt² K⁺ of implicit geometric stiffness (T15).
  /// Particles and coordinates take none. What is solved is then not (T1); whoever does it owes the torque that goes
  /// with it and a word in the report. Empty: none.
  void add_inertia(std::span<const Eigen::Matrix3d> by_slot);

  const std::string& reason() const;
  const Assembly& assembly() const;          ///< A, b, Q, c, residuals of the last evaluation
  const Solver& solver() const;              ///< its factorisation
  std::span<const double> vdot() const;      ///< [n]
  std::span<const double> ideal() const;     ///< [n] Q^N
  std::span<const double> nonideal() const;  ///< [n] Q^W
  std::span<const double> lambda() const;    ///< [m] of Q^N
  std::span<const double> induced() const;   ///< [m] multipliers of −AᵀG⁺A M⁻¹c
  /// What the laws of one constraint returned, in row order of the constraints that have one.
  struct Prescribed {
    int constraint = 0;                  ///< index into the block's constraints
    Vector3d force = Vector3d::Zero();   ///< on the first body; its opposite acts on the second [N]
    Vector3d p_WQ = Vector3d::Zero();    ///< where both act [m]: one point, so that a law makes no angular momentum
    Vector3d moment = Vector3d::Zero();  ///< on the first body about p_WQ, and its opposite on the second [N·m]
  };
  std::span<const Prescribed> prescribed() const;
  /// The same term by term, in row order.
  std::span<const LawEffort> law_efforts() const;

  // Dry friction (T10). Rows of stick are not put into A: the factor of A answers for them too, one back-solve for each
  // free direction of a contact that may stick, and a small problem over all of them decides who sticks. The reaction
  // of stick is a prescribed force like that of slip, and is reported as one.
  //
  // A host that takes steps without events calls set_step(dt) once and evaluates or resolves as ever: what it then gets
  // makes the slip at the *end* of the step obey the law (at rest if the bound allows it, else friction against that
  // slip), so contacts stop and stay stopped, and no step gains energy by friction. After its own end-of-step Newton it
  // may call hold(v₁). A stepper that locates events leaves the step at 0, where laws are those of the instant, and
  // holds each contact by grip() between two events.

  /// @param dt  of the steps that evaluations are for [s]; 0: instantaneous laws (the default)
  void set_step(double dt);
  double step() const;
  /// Laws of the instant between two steps of dt [s] (T11). What such a step leaves in a contact that stuck at the last
  /// accept() is no slip: the contact is at rest, and holds what its bound allows. 0: as set_step(0).
  void set_instant(double dt);
  void ask_rates(bool on);  ///< LawReport::rate also for laws of the instant, for some more calls of each smooth law
  /// Finds LawReport::rate of the last evaluation, which was at `state`, on the motion that the constraints leave. It
  /// does nothing where the bound of free bodies is not above `from` [1/s]. It costs some ten back-solves.
  void find_rate(const State& state, double from);
  /// Every dry term of every law of the block, in row order; same order while laws and constraints stay.
  std::span<const Contact> contacts() const;
  /// From the next evaluation on, until changed or the number of contacts changes. @param sense  rubbing velocity whose
  /// direction counts, for Grip::slips: of one free direction only the sign; of several where the slip itself is
  /// turned back, or no faster than `sense` is long (and than 1e-9). Zero: the slip's own.
  void grip(int contact, Grip how, const Eigen::Matrix<double, 6, 1>& sense = Eigen::Matrix<double, 6, 1>::Zero());
  void release_grips();  ///< all automatic again
  /// With a step: every contact answers once more to the slips that the block has when it moves with the velocities `v`
  /// [n] (in the middle of the step, T12), by correcting `v` and the forces of the last evaluation; bounds are kept.
  /// Without: takes away, by an impulse, the slip that sticking contacts have at the state.
  /// @param state  that of the last evaluation. @return the largest change of `v`, or the largest slip before.
  double hold(const State& state, std::span<double> v);
  /// Internal states of laws (LuGre), three numbers for each law that has one, in row order: those of the last
  /// evaluation, and their rates there. Evaluations at an instant later than the last accept() advance them from there
  /// with their thrust, to first order; an integrator that takes them along in its stages gives them.
  std::span<const double> memory() const;
  std::span<const double> memory_rate() const;
  /// Internal states for the evaluations at an instant until accept(), which keeps them. Empty: no longer.
  void give_memory(std::span<const double> values);
  /// Lets laws with an internal state live through dt, with the thrusts of the last evaluation, or as they were given.
  void accept(double dt);
  /// Answers the laws once more at the instant of `state`, which is that of the last evaluate() or resolve() (T11).
  /// Smooth laws are then taken at the slips of the state, and contacts are at rest as set_instant() says. Until the
  /// next evaluation prescribed(), reaction(), reactions() and assembly().instant.c are of that instant.
  /// Reaction::stabilisation holds what the laws do in the step beyond it. Everything else stays that of the step.
  /// Without a step this call does nothing, and reaction() leaves the stabilisation as it is.
  void answer_at_instant(const State& state) noexcept;
  /// What laws carry from one evaluation to the next: internal states and where friction was found.
  struct LawHistory;
  std::shared_ptr<const LawHistory> law_history() const;
  /// Back to there, in this Dynamics or another of the same constraints and laws: what is evaluated then is the same to
  /// the last bit. Null: as if nothing had been evaluated yet.
  void set_law_history(const std::shared_ptr<const LawHistory>& history);
  const LawReport& law_report() const;
  /// Laws whose thrust redundancy leaves undetermined (T6), by name and with what to do, laws with nothing to rub on,
  /// and law_report().trouble. With redundant rows O(m r²); allocates.
  std::vector<std::string> warnings() const;
  RankReport rank_report() const;  ///< allocates

  /// Fills name, t, parts, λ, power, residuals of every constraint of the block, in row order. Reuses memory.
  /// @param ask_rank  also fill `determined` and `redundant`: with redundant rows O(m r²) more, and allocates.
  void reactions(const State& state, std::vector<Reaction>& out, bool ask_rank = true) const;
  /// The same of constraint i of the block alone, but for name, gaps, residual and flags: what is there of them stays.
  void reaction(int i, const State& state, Reaction& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
