// The factor of few rows whose rank is beyond doubt, in columns in which the mass is one: of G = A Aᵀ, small and dense.
// Rows that follow from others, as those across the plane of a planar loop, are found and left out. Where a row neither
// follows from others nor is far from it, there is no factor, and the general solver has to decide (T6). Private to the
// core.
#pragma once

#include <linchpin/problem.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace linchpin::articulated {

class GramFactor {
 public:
  /// Factors the rows of a problem, of which those of one constraint have entries in the same columns. @return whether
  /// there is a factor: the rows are few and finite, and their rank is clear
  bool factor(const ConstrainedProblem& problem);

  /// A row that the factor keeps.
  struct KeptRow {
    int row = 0;           ///< of the problem
    double length = 0;     ///< of the row
    double remainder = 0;  ///< what is left of it across the rows that were kept before it
  };
  std::span<const KeptRow> kept() const { return kept_; }
  bool keeps(int row) const { return place_[static_cast<std::size_t>(row)] >= 0; }
  /// Returns whether no row is left out.
  bool full_row_rank() const { return left_out_.empty(); }

  /// λ of least norm and dv = Aᵀλ of least squares in the rows as given, without refinement.
  /// @param problem  whose rows were factored @param lambda  may be empty
  void solve(const ConstrainedProblem& problem, std::span<const double> e, std::span<double> lambda,
             std::span<double> dv) const;
  /// The same, refined. @return as ConstraintFactorization::apply()
  double solve_refined(const ConstrainedProblem& problem, std::span<const double> e, std::span<const double> scale,
                       std::span<double> lambda, std::span<double> dv) const;

 private:
  bool read_rows(const ConstrainedProblem& problem);
  void leave_out_within(const ConstrainedProblem& problem, std::size_t begin, std::size_t end);
  void read_gram(const ConstrainedProblem& problem);
  void read_gram(const ConstrainedProblem& problem, std::span<const int> rows, std::span<const int> others);
  bool factor_gram();
  std::size_t longest_remainder(std::size_t begin, std::size_t end) const;
  void eliminate(std::size_t row, std::size_t at, std::size_t begin, std::size_t end);
  void express_left_out_rows();
  void factor_shares();
  void make_least(std::span<double> x) const;
  void add_solution(const ConstrainedProblem& problem, std::span<const double> e, std::span<double> lambda,
                    std::span<double> dv) const;

  /// Part of a kept row in a row that is left out.
  struct Share {
    int kept;  ///< place in kept_
    double value;
  };
  struct LeftOut {
    int row;
    std::size_t begin = 0, end = 0;  ///< of its shares
  };
  std::span<const Share> shares(const LeftOut& of) const {
    return std::span(shares_).subspan(of.begin, of.end - of.begin);
  }

  /// The candidates of one constraint.
  struct Group {
    std::size_t begin, end;
  };
  std::span<const int> rows_of(const Group& of) const {
    return std::span(candidates_).subspan(of.begin, of.end - of.begin);
  }

  std::size_t rows_ = 0;
  std::vector<double> gram_;       ///< G, lower triangle [rows × rows]
  std::vector<double> square_;     ///< squared lengths of the rows
  std::vector<double> remainder_;  ///< squares of what is left of them across the kept ones
  std::vector<int> candidates_;    ///< rows that do not follow from others of their constraint
  std::vector<Group> groups_;
  enum : int { undecided = -1, left_out = -2 };
  std::vector<int> place_;      ///< by row: its place in kept_, or one of these
  std::vector<KeptRow> kept_;   ///< the longest remainder first
  std::vector<double> factor_;  ///< by row of the problem: its row of L, with inverses on the diagonal [rows × rows]
  std::vector<LeftOut> left_out_;       ///< rows that follow from others: T times the kept ones
  std::vector<Share> shares_;           ///< T
  std::vector<double> share_factor_;    ///< of 1 + T Tᵀ [left out × left out], with inverses on the diagonal
  std::vector<double> inverse_length_;  ///< by row; a row of zeros has that of the longest
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> common_;  ///< scratch: entries of two rows in the same columns
  std::vector<double> dense_shares_;                               ///< scratch
  mutable std::vector<double> x_, y_, residual_;                   ///< scratch
};

}  // namespace linchpin::articulated
