// High-degree bodies: bodies of so many joints that they are unknowns of their own (T7). There is one HighDegreeBodies
// for each lane.
#pragma once

#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// A row of A in the columns of a high-degree body, and two zeros: for a single island these are two SIMD vectors.
template <class Real>
struct BodyRow {
  std::array<Real, 8> of{};
  static BodyRow load(const Real* from) {
    BodyRow row;
    std::copy_n(from, 8, row.of.begin());
    return row;
  }
  void store(Real* to) const { std::copy_n(of.begin(), 8, to); }
  template <class Scale>
  void add(const Scale& s, const BodyRow& row) {
    for (std::size_t c = 0; c < 8; ++c) of[c] += s * row.of[c];
  }
  void subtract(const BodyRow& row) {
    for (std::size_t c = 0; c < 8; ++c) of[c] -= row.of[c];
  }
};
template <>
struct BodyRow<double> {
  Vec4d a{}, b{};
  static BodyRow load(const double* from) {
    BodyRow row;
    std::memcpy(&row.a, from, sizeof row.a);
    std::memcpy(&row.b, from + 4, sizeof row.b);
    return row;
  }
  void store(double* to) const {
    std::memcpy(to, &a, sizeof a);
    std::memcpy(to + 4, &b, sizeof b);
  }
  void add(double s, const BodyRow& row) { a += s * row.a, b += s * row.b; }
  void subtract(const BodyRow& row) { a -= row.a, b -= row.b; }
};
/// to ← to + x row
template <class X>
void add_to(BodyRow<X>& to, const X& x, const BodyRow<double>& row) {
  if constexpr (std::is_same_v<X, double>) {
    to.add(x, row);
  } else {
    for (unsigned c = 0; c < 4; ++c) to.of[c] += row.a[c] * x, to.of[c + 4] += row.b[c] * x;
  }
}
inline void add_to(BodyRow<Vec4d>& to, const Vec4d& x, const BodyRow<Vec4d>& row) { to.add(x, row); }
/// Returns Σ a_c b_c, for a single island in the lanes of SIMD vectors.
template <class X>
X along(const BodyRow<double>& a, const BodyRow<X>& b) {
  if constexpr (std::is_same_v<X, double>) {
    const Vec4d sum = a.a * b.a + a.b * b.b;
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  } else {
    std::array<X, 4> sum;
    for (unsigned c = 0; c < 4; ++c) sum[c] = a.a[c] * b.of[c] + a.b[c] * b.of[c + 4];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}
inline Vec4d along(const BodyRow<Vec4d>& a, const BodyRow<Vec4d>& b) {
  std::array<Vec4d, 4> sum;
  for (std::size_t c = 0; c < 4; ++c) sum[c] = a.of[c] * b.of[c] + a.of[c + 4] * b.of[c + 4];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The Cholesky factor of a small dense matrix, row by row, in its lower half.
class SmallCholesky {
 public:
  /// @return whether the matrix is positive definite
  bool factor(int n) {
    n_ = n;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) {
        double sum = at(i, j);
        for (int k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        if (i == j && !(sum > 0)) return false;
        at(i, j) = i == j ? std::sqrt(sum) : sum * at(j, j);
        if (i == j) at(i, i) = 1 / at(i, i);
      }
    return true;
  }
  void resize(int n) {
    n_ = n;
    values_.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  }
  double& at(int i, int j) { return values_[static_cast<std::size_t>(i * n_ + j)]; }
  double at(int i, int j) const { return values_[static_cast<std::size_t>(i * n_ + j)]; }
  /// x ← L⁻¹ x. The diagonal of L is kept as its inverse.
  void forward(double* x) const {
    for (int i = 0; i < n_; ++i) {
      for (int k = 0; k < i; ++k) x[i] -= at(i, k) * x[k];
      x[i] *= at(i, i);
    }
  }
  void backward(double* x) const {
    for (int i = n_ - 1; i >= 0; --i) {
      for (int k = i + 1; k < n_; ++k) x[i] -= at(k, i) * x[k];
      x[i] *= at(i, i);
    }
  }

 private:
  int n_ = 0;
  std::vector<double> values_;
};

// S is the matrix of the joints while high-degree bodies are fixed: no two joints are coupled by such a body. U are the
// columns of the joints on these bodies, and u is their motion. The equations are
//     S λ + U u = r,   Uᵀ λ = M u.
// The rows that S drops restrict u, by the null vectors N that they stand for: C u = Nᵀ r with C = NᵀU. Then
// λ = S⁺(r − U u) + N μ, and there remains H u = Uᵀ S⁺ r + Cᵀ μ with H = M + Uᵀ S⁺ U.
// The rows of C are chosen one by one, the one that is farthest from those chosen next. The rest depends on them and
// has no μ.
class HighDegreeBodies {
 public:
  /// @param most  largest number of rows of C
  void lay_out(int columns, int most) {
    columns_ = columns;
    stride_ = (most + 3) / 4 * 4;
    mass_.resize(columns);
    c_.assign(z(columns) * z(stride_), 0.0);
    for (auto* x : {&over_length_, &left_}) x->assign(z(stride_), 0.0);
    q_.assign(z(columns) * z(columns), 0.0);
    kept_.reserve(z(columns));
  }
  void clear() { count_ = 0; }

  /// Begins a row of C, whose values follow by set(). @param length  the square of the length of the dropped row of A,
  /// as on the diagonal of G
  void add(double length) { over_length_[z(count_++)] = 1 / length; }
  void set(int column, double value) { c_[z(column * stride_ + count_ - 1)] = value; }
  /// H, in its lower half.
  double& mass(int i, int j) { return mass_.at(i, j); }

  int count() const { return count_; }
  const std::vector<int>& kept() const { return kept_; }
  /// The rows of C in terms of those kept, column by column.
  const double* shares(int column) const { return shares_.data() + column * stride_; }

  /// Chooses the rows of C. @return positive where each row is either far from those chosen before it, or depends on
  /// them
  double decide(double min_independent_pivot, double max_dependent_pivot) {
    kept_.clear();
    if (!mass_.factor(columns_)) return -1;
    const int n = count_;
    const auto column = [&](int i) { return c_.data() + i * stride_; };
    for (int i = 0; i < columns_; ++i) {  // C ← C L⁻ᵀ
      double* const own = column(i);
      for (int k = 0; k < i; ++k) {
        const double* const other = column(k);
        const double l = mass_.at(i, k);
        for (int r = 0; r < n; ++r) own[r] -= l * other[r];
      }
      const double l = mass_.at(i, i);
      for (int r = 0; r < n; ++r) own[r] *= l;
    }
    if (shares_.size() < z(columns_) * z(stride_)) shares_.resize(z(columns_) * z(stride_));
    double* const left = left_.data();  // of the squares of rows; subtracting from them loses nothing that matters
    std::fill_n(left, n, 0.0);
    for (int i = 0; i < columns_; ++i) {
      const double* const own = column(i);
      for (int r = 0; r < n; ++r) left[r] += own[r] * own[r];
    }
    for (int step = 0;; ++step) {
      int most = -1;
      double clearest = 0;
      for (int r = 0; r < n; ++r) {
        const double clear = left[r] * over_length_[z(r)];
        if (clear <= clearest) continue;
        clearest = clear, most = r;
        if (clear != clear) break;  // something is not finite
      }
      if (clearest < max_dependent_pivot) return 1;
      if (!(clearest > min_independent_pivot) || step == columns_) return -1;
      double *const q = q_.data() + step * columns_, *const share = shares_.data() + step * stride_;
      double square = 0;
      for (int i = 0; i < columns_; ++i) square += column(i)[most] * column(i)[most];
      const double over = 1 / std::sqrt(square);
      for (int i = 0; i < columns_; ++i) q[i] = over * column(i)[most];
      std::fill_n(share, n, 0.0);
      for (int i = 0; i < columns_; ++i) {
        const double *const own = column(i), by = q[i];
        for (int r = 0; r < n; ++r) share[r] += by * own[r];
      }
      for (int i = 0; i < columns_; ++i) {
        double *const own = column(i), by = q[i];
        for (int r = 0; r < n; ++r) own[r] -= by * share[r];
      }
      for (int r = 0; r < n; ++r) left[r] -= share[r] * share[r];
      kept_.push_back(most);
      for (int i = 0; i < columns_; ++i) column(i)[most] = 0;
      left[most] = 0;
    }
  }

  /// @param u  in: Uᵀ S⁺ r; out: u
  /// @param c  [kept] in: Nᵀ r; out: μ
  void solve(double* u, double* c) const {
    const int kept = static_cast<int>(kept_.size());
    mass_.forward(u);
    for (int k = 0; k < kept; ++k) {  // C̃ᵀ = Q R, R_jk the share of j in row k: R⁻ᵀ c
      for (int j = 0; j < k; ++j) c[k] -= share(j, k) * c[j];
      c[k] /= share(k, k);
    }
    for (int k = 0; k < kept; ++k) {
      const double* const q = q_.data() + k * columns_;
      double along = 0;
      for (int i = 0; i < columns_; ++i) along += q[i] * u[i];
      c[k] -= along;
    }
    for (int k = 0; k < kept; ++k) {
      const double* const q = q_.data() + k * columns_;
      for (int i = 0; i < columns_; ++i) u[i] += q[i] * c[k];
    }
    mass_.backward(u);
    for (int k = kept - 1; k >= 0; --k) {
      for (int j = k + 1; j < kept; ++j) c[k] -= share(k, j) * c[j];
      c[k] /= share(k, k);
    }
  }

 private:
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  double share(int j, int k) const { return shares_[z(j * stride_ + kept_[z(k)])]; }

  int columns_ = 0, stride_ = 0, count_ = 0;
  SmallCholesky mass_;
  std::vector<double> c_, over_length_, left_, shares_, q_;  // C and the shares, by columns
  std::vector<int> kept_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
