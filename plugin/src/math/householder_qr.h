// Householder QR on flat column-major memory: with column pivoting for rank, and in blocks for tall matrices with
// sparse rows. Hides reflectors and norm downdating. Does not allocate, except where matrix products of the blocked
// form pack their operands.
#pragma once

#include <vector>

namespace linchpin::detail {

/// A QR factorisation in place, as LAPACK stores it: R on and above the diagonal, and reflectors below, scaled to a
/// leading one. Pivoted: A(:, pivot[0…]) = Q R. Memory only grows.
struct Reflectors {
  int rows = 0, columns = 0;
  int steps = 0;              // Number of reflectors.
  std::vector<double> a;      // [rows × columns], leading dimension rows.
  std::vector<double> tau;    // [steps]
  std::vector<int> pivot;     // [columns]
  std::vector<int> height;    // [steps] Number of rows that a reflector changes. Empty: all rows.
  std::vector<double> norm;   // [2 × columns] Work memory of the pivoting.
  std::vector<double> panel;  // Work memory of the blocked form.

  /// Sets a matrix of zeros of this size.
  void resize(int rows_, int columns_);
  double* column(int j) { return a.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows); }
  const double* column(int j) const { return a.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows); }

  /// Factors with column pivoting. Stops before a step when no remaining column is longer than `stop`.
  void factor_pivoted(double stop);
  /// Factors without pivoting, for rows sorted by their first nonzero column. `reach[j]` rows have it at or before
  /// column j. Work and reflectors stay above that staircase.
  void factor_staircase(const std::vector<int>& reach);

  void apply_transposed(double* x) const;  // x [rows] ← Qᵀ x.
  void apply(double* x) const;             // x [rows] ← Q x.
  /// Writes the first `k` ≤ steps columns of Q into q [rows × k].
  void form(int k, std::vector<double>& q) const;

  // With R the leading k × k triangle, in place on x [k].
  void solve(int k, double* x) const;             // x ← R⁻¹ x.
  void solve_transposed(int k, double* x) const;  // x ← R⁻ᵀ x.
};

}  // namespace linchpin::detail
