// The dense solver (T8): complete orthogonal decomposition of B = A L⁻ᵀ, M = L Lᵀ. It is slow but reliable, and the
// faster solver is checked against it. Hides scaling, the rank decision and the two factorisations behind one factor()
// and many apply().
#pragma once

#include "math/householder_qr.h"

#include <linchpin/problem.h>

#include <span>
#include <string>
#include <vector>

namespace linchpin::detail {

/// Returns true if the shapes of an instant fit together, so that its indices are valid. Otherwise names the first
/// fault in `reason`, when given. Allocates only then.
bool well_formed(const ConstrainedProblem& problem, std::string* reason) noexcept;
/// Factors M = L Lᵀ of one block [size × size], L below the diagonal. @return false when M is not finite or not
/// positive definite to working precision. Scaled to a unit diagonal, no direction may have less than 32 ε size.
bool cholesky_block(const double* M, int size, double* L) noexcept;
/// Factors M = L Lᵀ block by block, L below the diagonal, in the layout of the instant's blocks [mass.size()]. The
/// instant must be well formed. @return the first block that is not positive definite to working precision, or −1.
int cholesky(const ConstrainedProblem& problem, double* L) noexcept;

/// Completes a singular block of M to a positive definite one, by rows a of A that use no other block, each with its κ.
struct Completion {
  struct Term {
    int row = 0, column = 0;
    double value = 0;  // κ a_column.
  };
  ConstrainedProblem problem;  // M + Σ κ aᵀa in place of M.
  std::vector<Term> terms;
  std::vector<double> scratch;
  /// @return false when there is nothing to complete, a block is not positive semidefinite, or its rows do not suffice
  bool make(const ConstrainedProblem& given) noexcept;
};

class DenseFactorization {
 public:
  /// The instant must be well formed. @return false when M is not positive definite or a number is not finite.
  bool factor(const ConstrainedProblem& problem, const SolveOptions& options) noexcept;

  int rank() const { return rank_; }
  int rows() const { return m_; }
  int columns() const { return n_; }

  /// Solves as Solver::apply. @param scale [m] size of the terms whose difference is e, or empty
  double apply(std::span<const double> e, std::span<const double> scale, std::span<double> lambda,
               std::span<double> force, std::span<double> dv) const noexcept;
  void inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept;
  /// Computes the size of the terms of b − A a, row by row: |b| + Σ ‖B_k‖‖L_kᵀ a_k‖ over the blocks of M. It does not
  /// depend on the axes of a body. b may be empty.
  void size_of_terms(std::span<const double> b, std::span<const double> a, std::span<double> scale) const;
  RankReport report(std::span<const double> e, std::span<const double> scale, bool singular_values) const;
  double largest_singular_value() const;  ///< Largest singular value of B̂, to its order of magnitude.
  double smallest_pivot() const;          ///< As SolveInfo::smallest_pivot.

 private:
  bool factor_mass(const ConstrainedProblem& problem);
  bool scale_rows(const ConstrainedProblem& problem);
  void factor_row_space(double rank_tolerance);
  void decide_rank(double rank_tolerance);
  void rank_by_singular_values(double rank_tolerance);
  bool factor_images();
  void map_basis(const std::vector<int>* order, bool as_given, Reflectors& image) const;
  void sort_by_lead();
  void sort_by_length();

  double smallest_singular_value(int k) const;
  Eigen::MatrixXd orthonormal_range() const;
  void find_redundant(const std::vector<std::vector<int>>& rows_of, RankReport& report) const;
  void find_contradictory(std::span<const double> e, std::span<const double> scale,
                          const std::vector<std::vector<int>>& rows_of, RankReport& report) const;
  void pseudo_inverse(const double* e, bool as_given, double* y) const;  // y = (B V)⁺ e, or (B̂ V)⁺ ê.
  void multipliers(const double* y, std::span<double> lambda) const;     // Least norm with (B V)ᵀ λ = y.
  void expand(const double* y, double* x) const;                         // x = V y.
  void residual(const double* e, const double* dv, double* rho) const;
  double unit(int row, double value) const;  // Error in a row, per unit row of B.
  double largest_unit(std::span<const double> e) const;
  void lower(int block, double* x) const;  // x ← L⁻¹ x within a block.
  void lower_transposed(double* x) const;  // x ← L⁻ᵀ x.
  void times_lower(const double* x, double* y) const;

  int n_ = 0, m_ = 0, rank_ = 0;
  bool tall_ = false;     // B̂ was reduced to its triangle first.
  bool reduced_ = false;  // B, with rows as given, was reduced as well.
  bool uneven_ = false;   // Rows differ so much in length that consistent equations are better solved in unit rows.
  double tolerance_ = 0, consistency_ = 0;

  /// Lower factors of the blocks of M.
  struct MassFactor {
    std::vector<int> start, of;      // [blocks + 1] First column. [n] Block of each column.
    std::vector<std::size_t> value;  // [blocks] Start of the factor of each block.
    std::vector<double> cholesky;    // Row by row, as ConstrainedProblem::mass.
  };
  MassFactor mass_;
  struct SparseRows {
    std::vector<int> start, column;
    std::vector<double> value;
  };
  SparseRows a_;                // A as given.
  SparseRows b_;                // B̂: B with rows of unit length. Zero rows stay zero.
  std::vector<double> length_;  // [m] Lengths of the rows of B.
  double longest_ = 0;
  std::vector<int> constraint_;  // [m] Constraint of each row.
  int constraints_ = 0;

  Reflectors space_;           // Pivoted QR of B̂ᵀ, or of R₀ᵀ with B̂ = Q₀ R₀ when tall.
  Reflectors unit_rows_;       // B̂ = Q₀ R₀ when tall.
  Reflectors unit_image_;      // QR of B̂ V, or of R₀ V when tall, where uneven.
  Reflectors given_rows_;      // B = Q_b R_b when folded.
  Reflectors given_image_;     // Pivoted QR of C = B V, or of R_b V when folded.
  std::vector<double> basis_;  // V [n × rank]: orthonormal basis of the row space.
  /// Orders of the rows [m].
  struct RowOrder {
    std::vector<int> by_lead, by_length;  // Orders of factorisation.
    std::vector<int> lead, reach;
  };
  RowOrder order_;
  double kept_ = 0, dropped_ = 0;  // Estimates of the smallest singular value kept and of all that was dropped.

  struct Scratch {
    std::vector<double> e, rho, work, z, dz, x, dv;
  };
  mutable Scratch scratch_;
};

}  // namespace linchpin::detail
