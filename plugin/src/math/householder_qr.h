// Householder QR on flat column-major memory: with column pivoting for rank, in blocks for tall sparse-rowed matrices.
// Hides reflectors and norm downdating. Allocates nothing, except where matrix products of the blocked form pack their
// operands.
#pragma once

#include <vector>

namespace linchpin::detail {

/// A QR factorisation in place, as LAPACK stores it: R on and above the diagonal, reflectors below, scaled to a leading
/// one. Pivoted: A(:, pivot[0…]) = Q R. Memory only grows.
struct Reflectors {
  int rows = 0, columns = 0;
  int steps = 0;              // reflectors made
  std::vector<double> a;      // [rows × columns], leading dimension rows
  std::vector<double> tau;    // [steps]
  std::vector<int> pivot;     // [columns]
  std::vector<int> height;    // [steps] rows a reflector reaches; empty: all rows
  std::vector<double> norm;   // [2 × columns], work of the pivoting
  std::vector<double> panel;  // work of the blocked form

  /// Room for a matrix of zeros.
  void resize(int rows_, int columns_);
  double* column(int j) { return a.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows); }
  const double* column(int j) const { return a.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows); }

  /// Column-pivoted, stops before a step when no remaining column is longer than `stop`.
  void factor_pivoted(double stop);
  /// Unpivoted, for rows sorted by their first nonzero column: `reach[j]` rows have it at or before column j. Work and
  /// reflectors stay above that staircase.
  void factor_staircase(const std::vector<int>& reach);

  void apply_transposed(double* x) const;  // x [rows] ← Qᵀ x
  void apply(double* x) const;             // x [rows] ← Q x
  /// The first `k` ≤ steps columns of Q into q [rows × k].
  void form(int k, std::vector<double>& q) const;

  // With R the leading k × k triangle, in place on x [k]:
  void solve(int k, double* x) const;             // R⁻¹ x
  void solve_transposed(int k, double* x) const;  // R⁻ᵀ x
};

}  // namespace linchpin::detail
