// A constrained problem at one time and its solution. An `Instant` is plain data: mass matrix, forces, constraint rows.
// `solve` turns it into accelerations and constraint forces; `Solver` does the same for many right-hand sides without
// allocation. The sources hide factorisation, scaling, the rank decision and memory.
#pragma once

#include <Eigen/Core>

#include <memory>
#include <span>
#include <string>
#include <string_view>
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

}  // namespace linchpin
