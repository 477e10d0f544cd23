// A constrained problem at one time and its solution. A `ConstrainedProblem` is plain data: mass matrix, forces,
// constraint rows. `solve` computes accelerations and constraint forces. `ConstraintFactorization` does the same for
// many right-hand sides without allocation. The sources hide factorisation, scaling, the rank decision and memory.
//
// The structs of this header are plain values. Any number of threads may call the free functions at the same time.
#pragma once

#include <linchpin/export.h>

#include <Eigen/Core>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin {

/// All data that `solve` needs, at one time: M v̇ = Q + Q^N + Q^W under A v̇ = b (T5). It is plain data, so that a
/// program can print, save and replay it (`write_json`, `read_json`). SI units, world axes, n columns, m rows.
struct LINCHPIN_API ConstrainedProblem {
  /// An entry of A.
  struct Entry {
    int column = 0;    ///< Column of the entry.
    double value = 0;  ///< Value of the entry.
  };
  double t = 0;                     ///< Time [s].
  std::vector<int> block_sizes;     ///< Sizes n_k of the diagonal blocks of M. Their sum is n.
  std::vector<double> mass;         ///< The blocks one after the other, each row by row, symmetric positive definite.
  std::vector<double> Q;            ///< [n] Applied force, gravity and gyroscopic terms included.
  std::vector<double> c;            ///< [n] Prescribed nonideal force, zero where there is none.
  std::vector<Entry> entries;       ///< A, row after row. Columns of a row are ascending, each at most once.
  std::vector<int> row_start;       ///< [m + 1] Where the entries of each row start.
  std::vector<double> b;            ///< [m] Right-hand side.
  std::vector<int> row_constraint;  ///< [m] Index into `constraints`. Rows of one constraint are consecutive.
  std::vector<std::string> constraints;  ///< Distinct names.

  int n() const { return static_cast<int>(Q.size()); }  ///< Number of columns.
  int m() const { return static_cast<int>(b.size()); }  ///< Number of rows.
  /// Clears the content and keeps the memory.
  void clear();
  /// Returns why this is not a problem: shapes, non-finite numbers, M not symmetric positive definite. Empty when it is
  /// one.
  [[nodiscard]] std::string invalid() const;
};

/// The file form of a ConstrainedProblem, schema 1 (docs/explanation/architecture.md). Numbers have 17 digits, so that
/// a round trip is exact.
[[nodiscard]] LINCHPIN_API std::string write_json(const ConstrainedProblem& problem);
/// @throws std::invalid_argument that names the place (line and column, or the key and index) and the error. Shapes are
/// checked here. `solve` checks positive definiteness and finiteness.
[[nodiscard]] LINCHPIN_API ConstrainedProblem read_json(std::string_view text);

/// The outcome of a solution. The values are in rising precedence.
enum class Status {
  ok,             ///< The rows are independent.
  redundant,      ///< Some rows follow from the others.
  contradictory,  ///< No acceleration meets all rows.
  invalid         ///< The data are wrong, and there are no numbers.
};
/// Text of a status: "ok", "redundant", …
LINCHPIN_API const char* to_string(Status status);
/// The solvers.
enum class Backend {
  automatic,  ///< The library chooses.
  dense,      ///< The dense reference solver (T8).
  sparse      ///< Factorisation over the graph of bodies and constraints (T7).
};
/// Text of a backend: "auto", "dense", "sparse".
LINCHPIN_API const char* to_string(Backend backend);

/// Settings of a solution.
struct SolveOptions {
  /// `dense` is the dense reference solver (T8). `sparse` and `automatic` factor over the graph of bodies and
  /// constraints (T7). They use the dense solver only for islands that they cannot solve.
  Backend backend = Backend::automatic;
  /// Relative rank tolerance (T6). Singular values of B = A M^-½ with rows of unit length count as zero below this
  /// fraction of the largest.
  double rank_tolerance = 1e-6;
  /// Relative size of the part of b − A a outside range(B) above which rows are contradictory (T6).
  double consistency_tolerance = 1e-9;
  /// Row limit of the dense solver for islands whose pivots are too small to decide the rank. Islands with no more rows
  /// use it. It takes a millisecond at 120 rows and a tenth of a second at 600. Larger islands are factored as G + δI
  /// (T7).
  int reference_rows = 600;
};

/// How the last factorisation was done.
struct SolveInfo {
  Backend backend = Backend::dense;  ///< Also `dense` when every island used the dense solver.
  /// Number of groups of constraints that share movable bodies and are solved separately. 0 when `dense` was requested.
  int islands = 0;
  int fallbacks = 0;  ///< Islands that used the dense solver, some perhaps in `apply` only.
  /// Why the last of them did so, or why an island that is too large for it is factored with G + δI (T7).
  const char* reason = "";
  /// The smallest pivot of the kept rows: the smallest square that a row of unit length still has across all rows
  /// before it. It is an upper bound of the square of the smallest singular value kept. It is near 0 close to a
  /// position where the rank drops, and 1 without rows.
  double smallest_pivot = 1;
};

/// Redundant, undetermined and contradictory constraints (T6), by index into ConstrainedProblem::constraints,
/// ascending.
struct RankReport {
  int rank = 0;  ///< Rank of all rows.
  /// Smallest singular value kept, relative to the largest. 0 when the rank is 0. It is exact from the dense solver,
  /// and otherwise an estimate by iteration.
  double smallest_kept = 0;
  /// Largest dropped singular value, relative to the largest of all. 0 when none was dropped.
  double largest_dropped = 0;
  std::vector<int> redundant, undetermined, contradictory;  ///< The constraints.
};

/// A vector of any length. Its memory is not aligned for vector units, so that a program and the library that are built
/// for different ones may pass it to each other.
using VectorX = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::DontAlign>;

/// The result of `solve` (T5): M v̇ = Q + ideal + nonideal.
struct Acceleration {
  Status status = Status::ok;        ///< Outcome.
  std::string reason;                ///< For `invalid`: what is wrong and where. Otherwise empty.
  VectorX vdot;                      ///< [n] v̇.
  VectorX ideal;                     ///< [n] Q^N = Aᵀλ. It does no work in any virtual displacement.
  VectorX nonideal;                  ///< [n] Q^W = c − AᵀG⁺A M⁻¹c.
  VectorX lambda;                    ///< [m] Multipliers of Q^N, least norm in the rows as given.
  int rank = 0;                      ///< Rank of A.
  double residual = 0;               ///< ‖A v̇ − b‖∞, recomputed from A.
  Backend backend = Backend::dense;  ///< The solver that was used.
  std::string fallback;              ///< Why islands used the dense solver. Empty when none did.
  std::vector<std::string> redundant, contradictory, undetermined;  ///< Names (T6).
};

/// Computes the acceleration that meets the constraints and is nearest to the free one in the kinetic-energy metric
/// (T5). Redundant rows change nothing but λ. Contradictory rows give Status::contradictory and the least-squares v̇ in
/// the rows as given. Never throws. Malformed or non-finite data give Status::invalid with the reason, and no numbers.
/// The cost is proportional to bodies and rows where constraints form trees, and O(n m min(n, m)) with the dense
/// solver. Allocates. A `ConstraintFactorization` does not allocate after warm-up.
[[nodiscard]] LINCHPIN_API Acceleration solve(const ConstrainedProblem& problem,
                                              const SolveOptions& options = {}) noexcept;

/// One factorisation for many right-hand sides (T7, T8). Data that depend only on which rows use which bodies are kept
/// while that stays the same. Memory only grows.
///
/// An object owns its factor and does not refer to the problem after factor(). It can be moved but not copied. It calls
/// no function of the program. Const functions solve with work memory of the object, so one thread at a time may use
/// one object. Different objects are independent.
class LINCHPIN_API ConstraintFactorization {
 public:
  /// Makes an object without a factor.
  explicit ConstraintFactorization(SolveOptions options = {});
  ~ConstraintFactorization();
  ConstraintFactorization(ConstraintFactorization&&) noexcept;
  ConstraintFactorization& operator=(ConstraintFactorization&&) noexcept;

  const SolveOptions& options() const;  ///< The options.
  /// Changes the options for the next factorisation.
  void set_options(const SolveOptions& options);

  /// Factors A and M of the instant. Q, b and c are not read. A block of M may be singular where rows that use no other
  /// block complete it: M + Σ κ aᵀa is positive definite. This means that [M; A] has full column rank, as Udwadia and
  /// Phohomsiri require, Proc. R. Soc. A 462 (2006) 2097. Then the completed matrix is factored. v̇ and λ are the same
  /// once complete_force() has completed Q.
  /// @return false when M is neither positive definite nor completed, or a number is not finite. Then apply nothing.
  bool factor(const ConstrainedProblem& problem) noexcept;
  /// Completes Q for a singular M: Q += Σ κ aᵀb. Then inverse_mass(Q) is an acceleration a from which the equation can
  /// start. For other M it does nothing.
  void complete_force(std::span<const double> b, std::span<double> Q) const noexcept;

  int rank() const;            ///< Rank of the factored A.
  int rows() const;            ///< Number of rows m.
  int columns() const;         ///< Number of columns n.
  bool full_row_rank() const;  ///< Returns whether no row is redundant.
  SolveInfo info() const;      ///< How the factorisation was done.

  /// Computes λ = G⁺ e for G = A M⁻¹ Aᵀ: the exact solution of A Δv = e with the least M-norm of Δv.
  /// @param e       [m]
  /// @param lambda  [m] out: least norm in the rows as given. May be empty.
  /// @param force   [n] out: Aᵀλ. May be empty.
  /// @param dv      [n] out: M⁻¹Aᵀλ. May be empty.
  /// @param scale   [m] size of the terms whose difference is e: |b| + |A||a| for e = b − A a. May be empty. Without
  /// it, an e that is all cancellation, as in a structure at rest, is compared with its own rounding.
  /// @return  the part of e outside range(A) in unit rows, as a fraction of ‖e‖∞ (or of ‖scale‖∞ if that is larger). It
  /// is 0 with full row rank. Above consistency_tolerance the rows contradict each other, and Δv is the least-squares
  /// one.
  double apply(std::span<const double> e, std::span<double> lambda, std::span<double> force, std::span<double> dv,
               std::span<const double> scale = {}) const noexcept;
  /// Solves as `apply` does, without refinement and without the consistency test. It costs half as much, and a tenth
  /// with redundant rows. It is for iterations that compute their own residual. With redundant rows λ is some solution,
  /// see `minimum_norm_multipliers`. Dependent rows are then met only as far as the kept rows imply them. Where they
  /// contradict each other, the result is not the least-squares one.
  void solve_unrefined(std::span<const double> e, std::span<double> lambda, std::span<double> force,
                       std::span<double> dv) const noexcept;
  /// Computes the multipliers of least norm.
  /// @param force   [n] in: Aᵀλ. Out: the same without the component that only dropped rows (below the rank tolerance)
  /// can make.
  /// @param lambda  [m] in: multipliers of `force`. Out: those of least norm in the rows as given.
  /// @param v       [n] in: some velocity. Out: the velocity minus M⁻¹ of that component. May be empty.
  void minimum_norm_multipliers(std::span<double> force, std::span<double> lambda,
                                std::span<double> v = {}) const noexcept;
  /// Computes M⁻¹ f, [n] → [n]. It may be done in place.
  void inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept;

  /// Names redundant constraints of the factored A, and contradictory ones for the right side e, by the test of
  /// `apply`. Allocates. Costs a back-solve per redundant row, or O(m r²) with the dense solver.
  RankReport report(std::span<const double> e, std::span<const double> scale = {}) const;

 private:
  friend Acceleration solve(const ConstrainedProblem&, const SolveOptions&) noexcept;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
