// Uses two factorisations for two purposes. Column-pivoted QR of B̂ᵀ (rows of unit length) decides the rank and gives
// an orthonormal basis V of the row space. QR of C = B V gives the pseudo-inverse in the rows as given (T6): B⁺ = V C⁺.
#include "problem/dense_factorization.h"

#include "math/vector_ops.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

using Matrix = Eigen::Map<Eigen::MatrixXd>;
using Vector = Eigen::Map<Eigen::VectorXd>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;
using ConstMatrix = Eigen::Map<const Eigen::MatrixXd>;
using ConstStrided = Eigen::Map<const Eigen::MatrixXd, 0, Eigen::OuterStride<>>;

// Below it the direction of a row is noise of denormal numbers, and it counts as a zero row.
constexpr double smallest_row_length = 1e-300;
constexpr double max_even_ratio = 1e3;  // Ratio of row lengths up to which rows may enter a QR in any order.

template <class T>
void grow(std::vector<T>& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

}  // namespace

bool DenseFactorization::factor(const ConstrainedProblem& problem, const SolveOptions& options) noexcept {
  n_ = problem.n();
  m_ = problem.m();
  rank_ = 0;
  tall_ = m_ >= 2 * n_ && n_ >= 100;
  reduced_ = uneven_ = false;
  consistency_ = options.consistency_tolerance;
  const auto most = z(std::max(m_, n_));
  for (auto* v : {&scratch_.e, &scratch_.rho, &scratch_.work, &scratch_.z, &scratch_.dz, &scratch_.x, &scratch_.dv})
    grow(*v, most);
  if (!factor_mass(problem) || !scale_rows(problem)) return false;
  tolerance_ = std::max(options.rank_tolerance, static_cast<double>(most) * epsilon);
  factor_row_space(tolerance_);
  return factor_images();
}

bool DenseFactorization::factor_mass(const ConstrainedProblem& problem) {
  const auto blocks = problem.block_sizes.size();
  grow(mass_.start, blocks + 1);
  grow(mass_.value, blocks);
  grow(mass_.of, z(n_));
  grow(mass_.cholesky, problem.mass.size());
  std::size_t value = 0;
  int column = 0;
  for (std::size_t k = 0; k < blocks; ++k) {
    const int size = problem.block_sizes[k];
    mass_.start[k] = column;
    mass_.value[k] = value;
    for (int i = 0; i < size; ++i) mass_.of[z(column + i)] = static_cast<int>(k);
    column += size;
    value += z(size) * z(size);
  }
  mass_.start[blocks] = column;
  return cholesky(problem, mass_.cholesky.data()) < 0;
}

bool DenseFactorization::scale_rows(const ConstrainedProblem& problem) {
  const auto m = z(m_);
  grow(a_.start, m + 1);
  grow(b_.start, m + 1);
  grow(length_, m);
  grow(constraint_, m);
  grow(a_.column, problem.entries.size());
  grow(a_.value, problem.entries.size());
  constraints_ = static_cast<int>(problem.constraints.size());
  longest_ = 0;
  std::size_t filled = 0;
  a_.start[0] = b_.start[0] = 0;
  for (int r = 0; r < m_; ++r) {
    constraint_[z(r)] = problem.row_constraint[z(r)];
    const int end = problem.row_start[z(r) + 1];
    int block = -1;
    double largest = 0;
    for (int i = problem.row_start[z(r)]; i < end; ++i) {
      const auto& entry = problem.entries[z(i)];
      if (!std::isfinite(entry.value)) return false;
      a_.column[z(i)] = entry.column;
      a_.value[z(i)] = entry.value;
      const int k = mass_.of[z(entry.column)];
      const int first = mass_.start[z(k)], size = mass_.start[z(k) + 1] - first;
      if (k != block) {  // L⁻¹ fills a block from the row of the entry on, so the block is kept whole.
        block = k;
        grow(b_.column, filled + z(size));
        grow(b_.value, filled + z(size));
        for (int j = 0; j < size; ++j) {
          b_.column[filled + z(j)] = first + j;
          b_.value[filled + z(j)] = 0;
        }
        filled += z(size);
      }
      b_.value[filled - z(size) + z(entry.column - first)] = entry.value;
      const bool last = i + 1 == end || mass_.of[z(problem.entries[z(i) + 1].column)] != k;
      if (last) lower(k, b_.value.data() + filled - z(size));
    }
    a_.start[z(r) + 1] = end;
    b_.start[z(r) + 1] = static_cast<int>(filled);
    double* b = b_.value.data() + b_.start[z(r)];
    const int count = static_cast<int>(filled) - b_.start[z(r)];
    for (int j = 0; j < count; ++j) {
      if (!std::isfinite(b[j])) return false;
      largest = std::max(largest, std::abs(b[j]));
    }
    double length = 0;
    if (largest > smallest_row_length) {
      double sum = 0;
      for (int j = 0; j < count; ++j) sum += (b[j] / largest) * (b[j] / largest);
      length = largest * std::sqrt(sum);
      if (!std::isfinite(length)) return false;
    }
    for (int j = 0; j < count; ++j) b[j] = length > 0 ? b[j] / length : 0.0;
    length_[z(r)] = length;
    longest_ = std::max(longest_, length);
  }
  return true;
}

// ---- rank and row space ----

void DenseFactorization::sort_by_lead() {
  // Sorts by counting, so that equal rows keep their order and nothing is allocated.
  grow(order_.lead, z(m_));
  grow(order_.reach, z(n_) + 1);
  grow(order_.by_lead, z(m_));
  std::fill_n(order_.reach.begin(), n_ + 1, 0);
  for (int r = 0; r < m_; ++r) {
    const int start = b_.start[z(r)];
    order_.lead[z(r)] = start == b_.start[z(r) + 1] ? n_ - 1 : b_.column[z(start)];
    ++order_.reach[z(order_.lead[z(r)]) + 1];
  }
  for (int j = 0; j < n_; ++j) order_.reach[z(j) + 1] += order_.reach[z(j)];
  for (int r = 0; r < m_; ++r) order_.by_lead[z(order_.reach[z(order_.lead[z(r)])]++)] = r;
  // Each order_.reach[j] has increased to the number of rows whose first entry is at or before j.
}

void DenseFactorization::sort_by_length() {
  grow(order_.by_length, z(m_));
  for (int r = 0; r < m_; ++r) order_.by_length[z(r)] = r;
  std::sort(order_.by_length.begin(), order_.by_length.begin() + m_,
            [this](int a, int b) { return length_[z(a)] != length_[z(b)] ? length_[z(a)] > length_[z(b)] : a < b; });
}

void DenseFactorization::factor_row_space(double rank_tolerance) {
  if (!tall_) {
    space_.resize(n_, m_);
    for (int r = 0; r < m_; ++r) {
      double* column = space_.column(r);
      for (int i = b_.start[z(r)]; i < b_.start[z(r) + 1]; ++i) column[b_.column[z(i)]] = b_.value[z(i)];
    }
  } else {
    sort_by_lead();
    unit_rows_.resize(m_, n_);
    for (int s = 0; s < m_; ++s) {
      const auto r = z(order_.by_lead[z(s)]);
      for (int i = b_.start[r]; i < b_.start[r + 1]; ++i) unit_rows_.column(b_.column[z(i)])[s] = b_.value[z(i)];
    }
    unit_rows_.factor_staircase(order_.reach);
    space_.resize(n_, n_);
    for (int j = 0; j < n_; ++j) {
      for (int i = 0; i <= j; ++i) space_.column(i)[j] = unit_rows_.column(j)[i];
    }
  }
  space_.factor_pivoted(1e-3 * rank_tolerance);
  decide_rank(rank_tolerance);
}

void DenseFactorization::decide_rank(double rank_tolerance) {
  const double cut = rank_tolerance * largest_singular_value();
  int k = 0;
  while (k < space_.steps && std::abs(space_.column(k)[k]) > cut) ++k;
  double tail = 0;
  for (int j = k; j < space_.columns; ++j) {
    const int bottom = j < space_.steps ? j + 1 : n_;
    for (int i = k; i < bottom; ++i) tail += space_.column(j)[i] * space_.column(j)[i];
  }
  dropped_ = std::sqrt(tail);
  kept_ = k > 0 ? smallest_singular_value(k) : 0;
  rank_ = k;
  // Pivots are not singular values, but they bound them: σ_k ≥ σ_min(R₁₁), σ_{k+1} ≤ ‖R₂₂‖. Where the cut is not
  // clearly between the two, the singular values decide (T6).
  if ((k == 0 || kept_ > 3 * cut) && 1.5 * dropped_ < cut) {
    space_.form(rank_, basis_);
  } else if (longest_ > 0) {
    rank_by_singular_values(rank_tolerance);
  }
}

double DenseFactorization::smallest_pivot() const {
  // Rows have unit length. Where they were reduced first, the pivots are still no smaller than σ_min.
  double least = 1;
  for (int k = 0; k < std::min(rank_, space_.steps); ++k)
    least = std::min(least, space_.column(k)[k] * space_.column(k)[k]);
  return least;
}

double DenseFactorization::largest_singular_value() const {
  // Power iteration on B̂ᵀB̂. Only the order of magnitude of the cut depends on it.
  for (int j = 0; j < n_; ++j) scratch_.x[z(j)] = 1 + static_cast<double>(j * 37 % 101) / 101;
  double sigma = 0;
  for (int iteration = 0; iteration < 8; ++iteration) {
    const double norm = ConstVector(scratch_.x.data(), n_).norm();
    if (!(norm > 0)) break;
    Vector(scratch_.x.data(), n_) /= norm;
    std::fill_n(scratch_.dv.begin(), n_, 0.0);
    double sum = 0;
    for (int r = 0; r < m_; ++r) {
      double y = 0;
      for (int i = b_.start[z(r)]; i < b_.start[z(r) + 1]; ++i) y += b_.value[z(i)] * scratch_.x[z(b_.column[z(i)])];
      for (int i = b_.start[z(r)]; i < b_.start[z(r) + 1]; ++i) scratch_.dv[z(b_.column[z(i)])] += b_.value[z(i)] * y;
      sum += y * y;
    }
    sigma = std::sqrt(sum);
    scratch_.x.swap(scratch_.dv);
  }
  return longest_ > 0 ? std::max(sigma, 1.0) : 0.0;  // A unit row is a lower bound.
}

double DenseFactorization::smallest_singular_value(int k) const {
  for (int j = 0; j < k; ++j) scratch_.x[z(j)] = 1 + static_cast<double>(j * 37 % 101) / 101;
  double sigma = 0;
  for (int iteration = 0; iteration < 4; ++iteration) {
    Vector x(scratch_.x.data(), k);
    x /= x.norm();
    space_.solve_transposed(k, scratch_.x.data());
    const double grown = x.norm();
    if (!(grown > 0) || !std::isfinite(grown)) return 0;
    sigma = 1 / grown;
    space_.solve(k, scratch_.x.data());
  }
  return sigma;
}

// ---- rows as given ----

// image ← B V or B̂ V, row by row in the given order.
void DenseFactorization::map_basis(const std::vector<int>* order, bool as_given, Reflectors& image) const {
  image.resize(m_, rank_);
  for (int j = 0; j < rank_; ++j) {
    const double* v = basis_.data() + z(j) * z(n_);
    double* c = image.column(j);
    for (int s = 0; s < m_; ++s) {
      const auto r = order ? z((*order)[z(s)]) : z(s);
      double sum = 0;
      for (int i = b_.start[r]; i < b_.start[r + 1]; ++i) sum += b_.value[z(i)] * v[b_.column[z(i)]];
      c[s] = as_given ? length_[r] / longest_ * sum : sum;
    }
  }
}

bool DenseFactorization::factor_images() {
  if (rank_ == 0 || rank_ == m_) return true;
  const ConstMatrix V(basis_.data(), n_, rank_);
  double least = longest_;
  for (int r = 0; r < m_; ++r) {
    if (length_[z(r)] > 0) least = std::min(least, length_[z(r)]);
  }
  uneven_ = longest_ > max_even_ratio * least;
  reduced_ = tall_ && !uneven_;
  if (reduced_) {
    given_rows_.resize(m_, n_);
    for (int s = 0; s < m_; ++s) {
      const auto r = z(order_.by_lead[z(s)]);
      for (int i = b_.start[r]; i < b_.start[r + 1]; ++i) {
        given_rows_.column(b_.column[z(i)])[s] = length_[r] / longest_ * b_.value[z(i)];
      }
    }
    given_rows_.factor_staircase(order_.reach);
    given_image_.resize(n_, rank_);
    const ConstStrided R(given_rows_.a.data(), n_, n_, Eigen::OuterStride<>(m_));
    Matrix(given_image_.a.data(), n_, rank_).noalias() = R.triangularView<Eigen::Upper>() * V;
  } else {
    // Long rows are first, and columns are pivoted. Then every row keeps its own digits, for any lengths (Cox and
    // Higham).
    sort_by_length();
    map_basis(&order_.by_length, true, given_image_);
  }
  given_image_.factor_pivoted(-1);
  for (int j = 0; j < rank_; ++j) {
    if (given_image_.column(j)[j] == 0) return false;  // The scales are farther apart than doubles can represent.
  }
  if (!uneven_) return true;
  // Least squares weights long rows most. If these are nearly dependent, their rounding dominates. Where the equations
  // are consistent, unit rows have the same solution and weight all rows equally.
  if (tall_) {
    unit_image_.resize(n_, rank_);
    const ConstStrided R(unit_rows_.a.data(), n_, n_, Eigen::OuterStride<>(m_));
    Matrix(unit_image_.a.data(), n_, rank_).noalias() = R.triangularView<Eigen::Upper>() * V;
  } else {
    map_basis(nullptr, false, unit_image_);
  }
  unit_image_.factor_pivoted(-1);
  return true;
}

void DenseFactorization::pseudo_inverse(const double* e, bool as_given, double* y) const {
  double* w = scratch_.work.data();
  if (rank_ == m_) {  // Pᵀ B̂ V = Rᵀ
    for (int i = 0; i < m_; ++i) {
      const auto r = z(space_.pivot[z(i)]);
      y[i] = e[r] / length_[r];
    }
    space_.solve_transposed(m_, y);
    return;
  }
  const Reflectors& image = as_given ? given_image_ : unit_image_;
  if (as_given) {
    const auto& order = reduced_ ? order_.by_lead : order_.by_length;
    for (int s = 0; s < m_; ++s) w[s] = e[order[z(s)]] / longest_;
    if (reduced_) given_rows_.apply_transposed(w);
  } else {
    for (int s = 0; s < m_; ++s) {
      const auto r = tall_ ? z(order_.by_lead[z(s)]) : z(s);
      w[s] = length_[r] > 0 ? e[r] / length_[r] : 0.0;
    }
    if (tall_) unit_rows_.apply_transposed(w);
  }
  image.apply_transposed(w);
  image.solve(rank_, w);
  for (int j = 0; j < rank_; ++j) y[image.pivot[z(j)]] = w[j];
}

void DenseFactorization::multipliers(const double* y, std::span<double> lambda) const {
  double* w = scratch_.work.data();
  if (rank_ == m_) {
    std::copy(y, y + m_, w);
    space_.solve(m_, w);
    for (int i = 0; i < m_; ++i) {
      const auto r = z(space_.pivot[z(i)]);
      lambda[r] = w[i] / length_[r];
    }
    return;
  }
  for (int j = 0; j < rank_; ++j) w[j] = y[given_image_.pivot[z(j)]];
  given_image_.solve_transposed(rank_, w);
  std::fill(w + rank_, w + std::max(m_, n_), 0.0);
  given_image_.apply(w);
  if (reduced_) given_rows_.apply(w);
  const auto& order = reduced_ ? order_.by_lead : order_.by_length;
  for (int s = 0; s < m_; ++s) lambda[z(order[z(s)])] = w[s] / longest_;
}

// ---- solving ----

double DenseFactorization::apply(std::span<const double> e, std::span<const double> scale, std::span<double> lambda,
                                 std::span<double> force, std::span<double> dv) const noexcept {
  std::copy_n(e.data(), m_, scratch_.e.data());  // `e` and `lambda` may be one array.
  const double size = std::max(largest_unit({scratch_.e.data(), z(m_)}), scale.empty() ? 0.0 : largest_unit(scale));
  double outside = 0;
  const auto answer = [&](bool as_given) {
    if (rank_ > 0) pseudo_inverse(scratch_.e.data(), as_given, scratch_.z.data());
    for (int iteration = 0;; ++iteration) {
      expand(scratch_.z.data(), scratch_.x.data());
      std::copy_n(scratch_.x.data(), n_, scratch_.dv.data());
      lower_transposed(scratch_.dv.data());
      residual(scratch_.e.data(), scratch_.dv.data(), scratch_.rho.data());
      outside = size > 0 ? largest_unit({scratch_.rho.data(), z(m_)}) / size : 0;
      if (!std::isfinite(outside)) outside = std::numeric_limits<double>::infinity();
      // Repeats on the residual, where that is neither rounding nor contradiction.
      if (iteration > 0 || rank_ == 0 || outside < 16 * epsilon || (rank_ < m_ && outside > 1e-6) ||
          std::isinf(outside))
        return;
      pseudo_inverse(scratch_.rho.data(), as_given, scratch_.dz.data());
      Vector(scratch_.z.data(), rank_) += ConstVector(scratch_.dz.data(), rank_);
    }
  };
  answer(!uneven_);
  if (uneven_ && outside > consistency_) answer(true);  // Contradictory rows: least squares in the rows as given (T6).
  if (!dv.empty()) std::copy_n(scratch_.dv.data(), n_, dv.data());
  if (!force.empty()) times_lower(scratch_.x.data(), force.data());
  if (!lambda.empty()) {
    std::fill_n(lambda.data(), m_, 0.0);
    if (rank_ > 0) multipliers(scratch_.z.data(), lambda);
  }
  return rank_ == m_ && std::isfinite(outside) ? 0 : outside;
}

void DenseFactorization::inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept {
  if (f.data() != dv.data()) std::copy_n(f.data(), n_, dv.data());
  for (int j = 0; j < n_; j = mass_.start[z(mass_.of[z(j)]) + 1]) lower(mass_.of[z(j)], dv.data() + j);
  lower_transposed(dv.data());
}

void DenseFactorization::size_of_terms(std::span<const double> b, std::span<const double> a,
                                       std::span<double> scale) const {
  int size = 0;
  for (int first = 0; first < n_; first += size) {  // x ← ‖Lᵀa‖ of its block, in every column.
    const int block = mass_.of[z(first)];
    size = mass_.start[z(block) + 1] - first;
    const double* L = mass_.cholesky.data() + mass_.value[z(block)];
    double sum = 0;
    for (int j = 0; j < size; ++j) {
      double y = 0;
      for (int i = j; i < size; ++i) y += L[i * size + j] * a[z(first + i)];
      sum += y * y;
    }
    std::fill_n(scratch_.x.begin() + first, size, std::sqrt(sum));
  }
  for (int r = 0; r < m_; ++r) {
    double terms = 0, sum = 0;
    for (int i = b_.start[z(r)]; i < b_.start[z(r) + 1]; ++i) {
      sum += b_.value[z(i)] * b_.value[z(i)];
      const bool last = i + 1 == b_.start[z(r) + 1] || mass_.of[z(b_.column[z(i + 1)])] != mass_.of[z(b_.column[z(i)])];
      if (!last) continue;
      terms += std::sqrt(sum) * scratch_.x[z(b_.column[z(i)])];
      sum = 0;
    }
    scale[z(r)] = terms * length_[z(r)] + (b.empty() ? 0.0 : std::abs(b[z(r)]));
  }
}

void DenseFactorization::expand(const double* y, double* x) const {
  Vector out(x, n_);
  out.setZero();
  for (int j = 0; j < rank_; ++j) out += y[j] * ConstVector(basis_.data() + z(j) * z(n_), n_);
}

void DenseFactorization::residual(const double* e, const double* dv, double* rho) const {
  for (int r = 0; r < m_; ++r) {
    double sum = e[r];
    for (int i = a_.start[z(r)]; i < a_.start[z(r) + 1]; ++i) sum -= a_.value[z(i)] * dv[a_.column[z(i)]];
    rho[r] = sum;
  }
}

// A zero row has no length of its own. It is compared with the length of the longest row.
double DenseFactorization::unit(int row, double value) const {
  const double length = length_[z(row)] > 0 ? length_[z(row)] : longest_;
  return std::abs(value) / (length > 0 ? length : 1.0);
}

double DenseFactorization::largest_unit(std::span<const double> e) const {
  double largest = 0;
  for (int r = 0; r < m_; ++r) {
    const double u = unit(r, e[z(r)]);
    if (!(u <= largest)) largest = u;  // A NaN stays.
    if (std::isnan(largest)) return std::numeric_limits<double>::infinity();
  }
  return largest;
}

void DenseFactorization::lower(int block, double* x) const {
  const int size = mass_.start[z(block) + 1] - mass_.start[z(block)];
  const double* L = mass_.cholesky.data() + mass_.value[z(block)];
  for (int i = 0; i < size; ++i) {
    double sum = x[i];
    for (int j = 0; j < i; ++j) sum -= L[i * size + j] * x[j];
    x[i] = sum / L[i * size + i];
  }
}

void DenseFactorization::lower_transposed(double* x) const {
  int size = 0;
  for (int first = 0; first < n_; first += size) {
    const int block = mass_.of[z(first)];
    size = mass_.start[z(block) + 1] - first;
    const double* L = mass_.cholesky.data() + mass_.value[z(block)];
    double* y = x + first;
    for (int i = size - 1; i >= 0; --i) {
      double sum = y[i];
      for (int j = i + 1; j < size; ++j) sum -= L[j * size + i] * y[j];
      y[i] = sum / L[i * size + i];
    }
  }
}

void DenseFactorization::times_lower(const double* x, double* y) const {
  int size = 0;
  for (int first = 0; first < n_; first += size) {
    const int block = mass_.of[z(first)];
    size = mass_.start[z(block) + 1] - first;
    const double* L = mass_.cholesky.data() + mass_.value[z(block)];
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      for (int j = 0; j <= i; ++j) sum += L[i * size + j] * x[first + j];
      y[first + i] = sum;
    }
  }
}

}  // namespace linchpin::detail
