// Reflectors as in Golub & Van Loan. The sign of the diagonal is opposite to that of the pivot. Together with sorted
// rows and pivoted columns, this keeps the error of every row relative to that row's own size.
#include "math/householder_qr.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::detail {
namespace {

using Vector = Eigen::Map<Eigen::VectorXd>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;
using Strided = Eigen::Map<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;

constexpr int panel_width = 32;

// Replaces x [size] by (beta, v₁, v₂, …) with (I − tau v vᵀ) x = beta e₀ and v₀ = 1.
double make_reflector(double* x, int size) {
  if (size <= 1) return 0;
  Vector tail(x + 1, size - 1);
  const double alpha = x[0];
  const double rest = tail.stableNorm();
  if (rest == 0) return 0;
  const double beta = alpha <= 0 ? std::hypot(alpha, rest) : -std::hypot(alpha, rest);
  tail /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// Computes x [size] ← (I − tau v vᵀ) x. v[0] is taken as one.
void reflect(const double* v, double tau, double* x, int size) {
  if (tau == 0) return;
  const ConstVector tail(v + 1, size - 1);
  Vector rest(x + 1, size - 1);
  const double w = tau * (x[0] + tail.dot(rest));
  x[0] -= w;
  rest -= w * tail;
}

}  // namespace

void Reflectors::resize(int rows_, int columns_) {
  rows = rows_;
  columns = columns_;
  steps = 0;
  const auto size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  const auto width = static_cast<std::size_t>(columns);
  if (a.size() < size) a.resize(size);
  std::fill_n(a.begin(), size, 0.0);
  if (tau.size() < width) tau.resize(width);
  if (pivot.size() < width) pivot.resize(width);
  if (norm.size() < 2 * width) norm.resize(2 * width);
  for (int j = 0; j < columns; ++j) pivot[static_cast<std::size_t>(j)] = j;
  height.clear();
}

void Reflectors::factor_pivoted(double stop) {
  double* now = norm.data();              // Downdated norm of the remaining part of each column.
  double* exact = norm.data() + columns;  // The norm when it was last computed.
  for (int j = 0; j < columns; ++j) now[j] = exact[j] = ConstVector(column(j), rows).norm();
  const double recompute = std::sqrt(std::numeric_limits<double>::epsilon());
  const int most = std::min(rows, columns);
  for (int k = 0; k < most; ++k) {
    const int p = static_cast<int>(std::max_element(now + k, now + columns) - now);
    if (!(now[p] > stop)) return;
    if (p != k) {
      std::swap_ranges(column(k), column(k) + rows, column(p));
      std::swap(pivot[static_cast<std::size_t>(k)], pivot[static_cast<std::size_t>(p)]);
      now[p] = now[k];
      exact[p] = exact[k];
    }
    double* v = column(k) + k;
    const int size = rows - k;
    const double t = tau[static_cast<std::size_t>(k)] = make_reflector(v, size);
    steps = k + 1;
    for (int j = k + 1; j < columns; ++j) {
      double* x = column(j) + k;
      reflect(v, t, x, size);
      if (now[j] == 0) continue;
      // Downdating by Pythagoras loses digits when little is left. Then the norm is computed again (LAPACK working note
      // 176).
      const double ratio_to_norm = std::abs(x[0]) / now[j];
      const double left = std::max(0.0, (1 - ratio_to_norm) * (1 + ratio_to_norm));
      const double ratio = now[j] / exact[j];
      if (left * ratio * ratio <= recompute) {
        now[j] = exact[j] = size > 1 ? ConstVector(x + 1, size - 1).norm() : 0.0;
      } else {
        now[j] *= std::sqrt(left);
      }
    }
  }
}

void Reflectors::factor_staircase(const std::vector<int>& reach) {
  steps = std::min(rows, columns);
  height.resize(static_cast<std::size_t>(steps));
  const auto panel_size =
      static_cast<std::size_t>(panel_width) * static_cast<std::size_t>(rows + columns + panel_width);
  if (panel.size() < panel_size) panel.resize(panel_size);
  for (int from = 0; from < steps; from += panel_width) {
    const int to = std::min(from + panel_width, steps);
    const int width = to - from;
    const int bottom = std::max(reach[static_cast<std::size_t>(to - 1)], to);
    const int size = bottom - from;
    for (int k = from; k < to; ++k) {
      double* v = column(k) + k;
      const double t = tau[static_cast<std::size_t>(k)] = make_reflector(v, bottom - k);
      height[static_cast<std::size_t>(k)] = bottom;
      for (int j = k + 1; j < to; ++j) reflect(v, t, column(j) + k, bottom - k);
    }
    if (to == columns) break;
    // Applies the panel's reflectors as I − V T Vᵀ, so that the rest of the matrix is updated by matrix products.
    Eigen::Map<Eigen::MatrixXd> V(panel.data(), size, width);
    V.setZero();
    Eigen::Map<Eigen::MatrixXd> W(panel.data() + static_cast<std::size_t>(size) * static_cast<std::size_t>(width),
                                  width, columns - to);
    Eigen::Matrix<double, panel_width, panel_width> T;
    T.setZero();
    for (int k = 0; k < width; ++k) {
      V(k, k) = 1;
      std::copy(column(from + k) + from + k + 1, column(from + k) + bottom, V.col(k).data() + k + 1);
      const double t = tau[static_cast<std::size_t>(from + k)];
      T(k, k) = t;
      for (int i = 0; i < k; ++i) T(i, k) = -t * V.col(i).tail(size - k).dot(V.col(k).tail(size - k));
      for (int i = 0; i < k; ++i) {
        double sum = 0;
        for (int j = i; j < k; ++j) sum += T(i, j) * T(j, k);
        T(i, k) = sum;
      }
    }
    Strided rest(column(to) + from, size, columns - to, Eigen::OuterStride<>(rows));
    W.noalias() = V.transpose() * rest;
    for (int j = 0; j < W.cols(); ++j) {  // W ← Tᵀ W, last row first, in place.
      for (int i = width - 1; i >= 0; --i) {
        double sum = 0;
        for (int l = 0; l <= i; ++l) sum += T(l, i) * W(l, j);
        W(i, j) = sum;
      }
    }
    rest.noalias() -= V * W;
  }
}

void Reflectors::apply_transposed(double* x) const {
  for (int k = 0; k < steps; ++k) {
    const int bottom = height.empty() ? rows : height[static_cast<std::size_t>(k)];
    reflect(column(k) + k, tau[static_cast<std::size_t>(k)], x + k, bottom - k);
  }
}

void Reflectors::apply(double* x) const {
  for (int k = steps - 1; k >= 0; --k) {
    const int bottom = height.empty() ? rows : height[static_cast<std::size_t>(k)];
    reflect(column(k) + k, tau[static_cast<std::size_t>(k)], x + k, bottom - k);
  }
}

void Reflectors::form(int k, std::vector<double>& q) const {
  const auto n = static_cast<std::size_t>(rows);
  const auto size = n * static_cast<std::size_t>(k);
  if (q.size() < size) q.resize(size);
  std::fill_n(q.begin(), size, 0.0);
  for (int j = 0; j < k; ++j) q[static_cast<std::size_t>(j) * n + static_cast<std::size_t>(j)] = 1;
  // The loop runs backwards, so that reflector i changes only columns i and later.
  for (int i = k - 1; i >= 0; --i) {
    for (int j = i; j < k; ++j) {
      reflect(column(i) + i, tau[static_cast<std::size_t>(i)], q.data() + static_cast<std::size_t>(j) * n + i,
              rows - i);
    }
  }
}

void Reflectors::solve(int k, double* x) const {
  for (int j = k - 1; j >= 0; --j) {
    const double* r = column(j);
    x[j] /= r[j];
    Vector(x, j) -= x[j] * ConstVector(r, j);
  }
}

void Reflectors::solve_transposed(int k, double* x) const {
  for (int j = 0; j < k; ++j) {
    const double* r = column(j);
    x[j] = (x[j] - ConstVector(r, j).dot(ConstVector(x, j))) / r[j];
  }
}

}  // namespace linchpin::detail
