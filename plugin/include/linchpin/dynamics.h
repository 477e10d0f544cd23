// The explicit equation. `assemble` turns a system at a state into an Instant (plain data), `solve` turns an Instant
// into accelerations and forces; `Solver` and `Dynamics` are the same two, kept for the thousandth call without
// allocation. Hides factorisation, scaling, the rank decision and memory. Leaves time to stepper.h.
#pragma once

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
  Path path = Path::automatic;  ///< dense is the reference (T8)
  /// Singular values of B = A M^-½ with rows of unit length below this fraction of the largest count as zero (T6).
  double rank_tolerance = 1e-6;
  /// Part of b − A a outside range(B), relative to its scale, above which rows are contradictory (T6).
  double consistency_tolerance = 1e-9;
};

/// Which constraints are redundant, undetermined, contradictory (T6), by index into Instant::constraints, ascending.
struct RankReport {
  int rank = 0;
  double smallest_kept = 0;    ///< relative to the largest; 0 when rank is 0
  double largest_dropped = 0;  ///< likewise; 0 when none was dropped
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
  double residual = 0;                                              ///< ‖A v̇ − b‖∞, recomputed from A
  Path path = Path::dense;                                          ///< the one taken
  std::vector<std::string> redundant, contradictory, undetermined;  ///< names (T6)
};

/// The acceleration nearest to the free one, in the kinetic-energy metric, that meets the constraints (T5).
/// Redundant rows change nothing but λ. Contradictory rows give Status::inconsistent and the least-squares v̇ in the
/// rows as given. Never throws; malformed or non-finite data give Status::invalid with the reason, and no numbers.
/// Cost: O(n m min(n, m)). Allocates; a `Solver` does not, once warm.
[[nodiscard]] Acceleration solve(const Instant& instant, const SolveOptions& options = {}) noexcept;

/// One factorisation, many right sides (T8): column-pivoted QR of Bᵀ with unit rows decides rank and row space, a
/// second QR gives the pseudo-inverse in the rows as given. Memory is kept and only grows.
class Solver {
 public:
  explicit Solver(SolveOptions options = {});
  ~Solver();
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;

  const SolveOptions& options() const;
  void set_options(const SolveOptions& options);

  /// Factors A and M of the instant (Q, b, c are not read). @return false when M is not positive definite or a number
  /// is not finite; then nothing may be applied.
  bool factor(const Instant& instant) noexcept;

  int rank() const;
  int rows() const;
  int columns() const;
  bool full_row_rank() const;

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
  /// M⁻¹ f, [n] → [n]; may be done in place.
  void inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept;

  /// Names redundancy for the factored A; `contradictory` for the right side e, judged as by `apply`. Allocates; O(m
  /// r²).
  RankReport report(std::span<const double> e, std::span<const double> scale = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- systems
// ---------------------------------------------------------------------------------------------------------

/// The bodies and constraints of one block and where their columns and rows are. A system may be cut into blocks that
/// share no constraint; each is assembled and solved on its own.
struct Block {
  std::vector<BodyId> bodies;             ///< the movable ones, in column order
  std::vector<int> column;                ///< first column of each, and n at the end
  std::vector<int> body_slot;             ///< by BodyId: index into `bodies`, −1 outside the block
  std::vector<ConstraintId> constraints;  ///< enabled ones, in row order
  std::vector<int> row;                   ///< first row of each, and m at the end

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
  std::string failure;  ///< names the constraint whose residual was not finite or threw; empty when all went well

  /// The jacobian of constraint i of the block with respect to its body k as assembled: [rows × 6], row-major; columns
  /// beyond dof(k) and those of fixed bodies are not in A but are kept here.
  std::span<const double> jacobian(int i, int k) const;

  std::vector<double> jacobians;    ///< per constraint K blocks of [rows × 6]
  std::vector<int> jacobian_start;  ///< per constraint
  std::vector<BodyState> scratch;
  std::vector<double> scratch_rows;
  std::vector<Eigen::Matrix<double, 6, 1>> scratch_wrenches;
};

/// Fills everything of `out` but Q and c, for out.block, at `state`: M, A, b, residuals, v. No allocation once warm.
void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept;
/// Fills Q (T2): gravity, gyroscopic torque, the system's forces; c is set to zero.
void assemble_forces(const System& system, const State& state, Assembly& out) noexcept;

/// One instant of a whole system, ideal constraints only (laws need the ideal forces first: see Dynamics).
[[nodiscard]] Instant assemble(const System& system, const State& state);

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
  /// Another applied force [n] at the state of the last evaluate(), with its rows and its factor: ideal forces, laws
  /// and acceleration anew. What a host's own impulses ask for (T11).
  Status resolve(std::span<const double> Q) noexcept;

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
    int constraint = 0;                 ///< index into the block's constraints
    Vector3d force = Vector3d::Zero();  ///< on the first body; its opposite acts on the second [N]
    Vector3d p_WQ = Vector3d::Zero();   ///< where both act [m]: one point, so that a law makes no angular momentum
  };
  std::span<const Prescribed> prescribed() const;
  RankReport rank_report() const;  ///< allocates

  /// Fills name, t, parts, λ, power, residuals of every constraint of the block, in row order. Reuses memory.
  /// @param ask_rank  also fill `determined` and `redundant`: with redundant rows O(m r²) more, and allocates.
  void reactions(const State& state, std::vector<Reaction>& out, bool ask_rank = true) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
