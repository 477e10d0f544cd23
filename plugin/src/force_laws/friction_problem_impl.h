// Helpers shared by the sources of the friction problem. Private to them.
#pragma once

#include "force_laws/friction_problem.h"
#include "math/vector_ops.h"

#include <algorithm>
#include <cmath>

namespace linchpin::detail {

inline std::size_t z_(int i) { return static_cast<std::size_t>(i); }

inline double norm(const Six& x) {
  double sum = 0;
  for (const double xi : x) sum += xi * xi;
  return std::sqrt(sum);
}

/// Relative response of immovable directions. Other constraints hold an element in them, and their response is below
/// this part of that of free bodies. It is near the square of the rank cut (T6).
constexpr double immovable = 1e-10;

/// Computes d(effort)/d(slip) of a law by central differences: out[i][k] of effort i by slip k.
void law_slopes(FrictionProblem::Laws& laws, int block, std::size_t dim, const Six& N, const Six& slip, Square& out);

inline double largest(std::span<const double> x) {
  double most = 0;
  for (const double xi : x) {
    if (std::isnan(xi)) return xi;  // std::max would ignore a NaN.
    most = std::max(most, std::fabs(xi));
  }
  return most;
}

/// Writes orthonormal axes of which the first is along x, as columns.
inline void reflect_to(const Six& x, double length, std::size_t dim, Square& axes) {
  Six v{};
  double square = 0;
  for (std::size_t i = 0; i < dim && length > 0; ++i) {
    v[i] = x[i] / length + (i > 0 ? 0 : x[0] < 0 ? -1 : 1);
    square += v[i] * v[i];
  }
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j < dim; ++j) axes[i][j] = (i == j) - (square > 0 ? 2 * v[i] * v[j] / square : 0);
}

}  // namespace linchpin::detail
