#include "articulated/gram_factor.h"

#include "math/vector_ops.h"

#include <algorithm>
#include <cmath>

namespace linchpin::articulated {

namespace {

constexpr std::size_t most_rows = 64;  // Beyond them, a factor that uses the graph is cheaper.
// Parts of the square of a row that are left of it across the rows before it. Rows with more than `clear_part` are
// kept. Rows with less than `no_part` follow from others, and only rounding is left of them. Between them, the rank is
// in doubt.
constexpr double clear_part = 1e-4, no_part = 1e-12;
constexpr double least_square = 1e-200, most_square = 1e200;  // Beyond them, products lose their digits.

double dot(const double* a, const double* b, std::size_t size) {
  double sum = 0;
  for (std::size_t k = 0; k < size; ++k) sum += a[k] * b[k];
  return sum;
}

/// x ← L⁻ᵀ x. @param row  row(i): the row i of L, with inverses on the diagonal
template <class Row>
void solve_transposed(std::span<double> x, Row row) {
  for (std::size_t i = x.size(); i-- > 0;) {
    const double* const own = row(i);
    x[i] *= own[i];
    for (std::size_t k = 0; k < i; ++k) x[k] -= own[k] * x[i];
  }
}

/// x ← L⁻ᵀ L⁻¹ x.
template <class Row>
void solve_cholesky(std::span<double> x, Row row) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - dot(row(i), x.data(), i)) * row(i)[i];
  solve_transposed(x, row);
}

/// The product of two rows of one constraint, which have entries in the same columns.
double row_product(const ConstrainedProblem& problem, std::size_t a, std::size_t b) {
  const ConstrainedProblem::Entry *const own = problem.entries.data() + problem.row_start[a],
                                         *const other = problem.entries.data() + problem.row_start[b];
  double sum = 0;
  for (int k = 0; k < problem.row_start[a + 1] - problem.row_start[a]; ++k) sum += own[k].value * other[k].value;
  return sum;
}

double times_row(const ConstrainedProblem& problem, std::size_t r, std::span<const double> v) {
  double sum = 0;
  for (int k = problem.row_start[r]; k < problem.row_start[r + 1]; ++k)
    sum += problem.entries[z(k)].value * v[z(problem.entries[z(k)].column)];
  return sum;
}

}  // namespace

bool GramFactor::factor(const ConstrainedProblem& problem) {
  if (!read_rows(problem)) return false;
  for (std::size_t begin = 0; begin < rows_;) {
    std::size_t end = begin + 1;
    while (end < rows_ && problem.row_constraint[end] == problem.row_constraint[begin]) ++end;
    leave_out_within(problem, begin, end);
    begin = end;
  }
  read_gram(problem);
  if (!factor_gram()) return false;
  express_left_out_rows();
  factor_shares();
  return true;
}

/// Measures the rows. @return whether these can be factored
bool GramFactor::read_rows(const ConstrainedProblem& problem) {
  rows_ = z(problem.m());
  if (rows_ > most_rows) return false;
  gram_.resize(rows_ * rows_);
  factor_.resize(rows_ * rows_);
  square_.resize(rows_);
  inverse_length_.resize(rows_);
  candidates_.clear();
  groups_.clear();
  left_out_.clear();
  shares_.clear();
  double most = 0;
  for (std::size_t r = 0; r < rows_; ++r) {
    square_[r] = gram_[r * rows_ + r] = row_product(problem, r, r);
    if (square_[r] != 0 && !(square_[r] > least_square && square_[r] < most_square)) return false;
    most = std::max(most, square_[r]);
  }
  for (std::size_t r = 0; r < rows_; ++r) {
    const double square = square_[r] > 0 ? square_[r] : most;
    inverse_length_[r] = square > 0 ? 1 / std::sqrt(square) : 1;
  }
  remainder_ = square_;
  place_.assign(rows_, undecided);
  return true;
}

/// Leaves out rows of a constraint that follow from others of it.
void GramFactor::leave_out_within(const ConstrainedProblem& problem, std::size_t begin, std::size_t end) {
  const std::size_t size = end - begin, first = candidates_.size();
  for (std::size_t r = begin; r < end; ++r)
    for (std::size_t other = begin; other < r; ++other) gram_[r * rows_ + other] = row_product(problem, r, other);
  for (std::size_t count = 0; count < size; ++count) {
    const std::size_t next = longest_remainder(begin, end);
    if (next == end) break;
    place_[next] = static_cast<int>(candidates_.size());
    candidates_.push_back(static_cast<int>(next));
    eliminate(next, count, begin, end);
  }
  groups_.push_back({first, candidates_.size()});
  for (std::size_t r = begin; r < end; ++r) {
    if (place_[r] != undecided) continue;
    left_out_.push_back({static_cast<int>(r), shares_.size(), shares_.size()});
    const std::size_t kept = candidates_.size() - first;
    dense_shares_.assign(factor_.begin() + static_cast<std::ptrdiff_t>(r * rows_),
                         factor_.begin() + static_cast<std::ptrdiff_t>(r * rows_ + kept));
    solve_transposed(dense_shares_, [&](std::size_t i) { return factor_.data() + z(candidates_[first + i]) * rows_; });
    for (std::size_t k = 0; k < kept; ++k)
      if (dense_shares_[k] != 0) shares_.push_back({candidates_[first + k], dense_shares_[k]});
    left_out_.back().end = shares_.size();
  }
}

/// The row that has not been decided on and is the longest across those before it; `end` where nothing is left.
std::size_t GramFactor::longest_remainder(std::size_t begin, std::size_t end) const {
  std::size_t next = end;
  for (std::size_t r = begin; r < end; ++r)
    if (place_[r] == undecided && remainder_[r] > no_part * square_[r] &&
        (next == end || remainder_[r] > remainder_[next]))
      next = r;
  return next;
}

/// Takes out of all rows that have not been decided on what they have along a row. @param at  its column in L
void GramFactor::eliminate(std::size_t row, std::size_t at, std::size_t begin, std::size_t end) {
  double* const own = factor_.data() + row * rows_;
  own[at] = 1 / std::sqrt(remainder_[row]);
  for (std::size_t r = begin; r < end; ++r) {
    if (place_[r] != undecided) continue;
    double* const other = factor_.data() + r * rows_;
    other[at] = (gram_[std::max(r, row) * rows_ + std::min(r, row)] - dot(own, other, at)) * own[at];
    remainder_[r] -= other[at] * other[at];
  }
}

/// Computes G between rows of different constraints.
void GramFactor::read_gram(const ConstrainedProblem& problem) {
  for (std::size_t i = 0; i < groups_.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) read_gram(problem, rows_of(groups_[i]), rows_of(groups_[k]));
}

/// The same between the rows of two of them.
void GramFactor::read_gram(const ConstrainedProblem& problem, std::span<const int> rows, std::span<const int> others) {
  if (rows.empty() || others.empty()) return;
  const auto entries = [&](int r) { return problem.entries.data() + problem.row_start[z(r)]; };
  const auto end = [&](int r) { return problem.entries.data() + problem.row_start[z(r + 1)]; };
  common_.clear();
  for (auto own = entries(rows[0]), its = entries(others[0]); own != end(rows[0]) && its != end(others[0]);) {
    const int own_column = own->column, its_column = its->column;
    if (own_column == its_column) common_.push_back({own - entries(rows[0]), its - entries(others[0])});
    own += own_column <= its_column;
    its += its_column <= own_column;
  }
  for (const int r : rows)
    for (const int other : others) {
      const auto *const own = entries(r), *const its = entries(other);
      double sum = 0;
      for (const auto& [i, k] : common_) sum += own[i].value * its[k].value;
      gram_[z(r) * rows_ + z(other)] = sum;
    }
}

// Cholesky with the longest remainder first, so that rows which are left out are sums of others with small factors.
bool GramFactor::factor_gram() {
  kept_.clear();
  for (const int r : candidates_) {
    remainder_[z(r)] = square_[z(r)];
    place_[z(r)] = undecided;
  }
  for (const LeftOut& of : left_out_) place_[z(of.row)] = left_out;
  for (;;) {
    const std::size_t next = longest_remainder(0, rows_);
    if (next == rows_) break;
    if (!(remainder_[next] > clear_part * square_[next])) return false;
    place_[next] = static_cast<int>(kept_.size());
    kept_.push_back({static_cast<int>(next), std::sqrt(square_[next]), std::sqrt(remainder_[next])});
    eliminate(next, kept_.size() - 1, 0, rows_);
  }
  return true;
}

/// Finds T with A_left_out = T A_kept.
void GramFactor::express_left_out_rows() {
  const std::size_t own = left_out_.size(), m = kept_.size();
  for (const int r : candidates_) {
    if (place_[z(r)] != undecided) continue;
    left_out_.push_back({r, shares_.size(), shares_.size() + m});
    dense_shares_.assign(factor_.begin() + r * static_cast<std::ptrdiff_t>(rows_),
                         factor_.begin() + r * static_cast<std::ptrdiff_t>(rows_) + static_cast<std::ptrdiff_t>(m));
    solve_transposed(dense_shares_, [&](std::size_t i) { return factor_.data() + z(kept_[i].row) * rows_; });
    for (std::size_t k = 0; k < m; ++k) shares_.push_back({static_cast<int>(k), dense_shares_[k]});
  }
  // The others are known by rows of their constraint, of which some may have been left out since.
  for (std::size_t i = 0; i < own; ++i) {
    LeftOut& of = left_out_[i];
    dense_shares_.assign(m, 0);
    bool any = false;
    for (std::size_t k = of.begin; k < of.end; ++k) {
      const Share share = shares_[k];
      if (const int place = place_[z(share.kept)]; place >= 0) {
        shares_[k].kept = place;
        continue;
      }
      any = true;
      const auto known = std::find_if(left_out_.begin(), left_out_.end(),
                                      [&](const LeftOut& other) { return other.row == share.kept; });
      for (const Share& part : shares(*known)) dense_shares_[z(part.kept)] += share.value * part.value;
      shares_[k] = {0, 0};
    }
    if (!any) continue;
    for (const Share& part : shares(of)) dense_shares_[z(part.kept)] += part.value;
    of.begin = shares_.size();
    for (std::size_t k = 0; k < m; ++k) shares_.push_back({static_cast<int>(k), dense_shares_[k]});
    of.end = shares_.size();
  }
}

/// Factors 1 + T Tᵀ.
void GramFactor::factor_shares() {
  const std::size_t size = shares_.empty() ? 0 : left_out_.size();
  share_factor_.assign(size * size, 0);
  dense_shares_.assign(kept_.size(), 0);
  for (std::size_t r = 0; r < size; ++r) {
    double* const own = share_factor_.data() + r * size;
    for (const Share& part : shares(left_out_[r])) dense_shares_[z(part.kept)] = part.value;
    for (std::size_t c = 0; c <= r; ++c) {
      const double* const other = share_factor_.data() + c * size;
      double sum = c == r ? 1 : 0;
      for (const Share& part : shares(left_out_[c])) sum += part.value * dense_shares_[z(part.kept)];
      sum -= dot(own, other, c);
      own[c] = c == r ? 1 / std::sqrt(sum) : sum * other[c];
    }
    for (const Share& part : shares(left_out_[r])) dense_shares_[z(part.kept)] = 0;
  }
}

/// x ← (1 + TᵀT)⁻¹ x = x − Tᵀ (1 + T Tᵀ)⁻¹ T x.
void GramFactor::make_least(std::span<double> x) const {
  if (share_factor_.empty()) return;
  const std::size_t size = left_out_.size();
  y_.assign(size, 0);
  for (std::size_t i = 0; i < size; ++i)
    for (const Share& part : shares(left_out_[i])) y_[i] += part.value * x[z(part.kept)];
  solve_cholesky(y_, [&](std::size_t i) { return share_factor_.data() + i * size; });
  for (std::size_t i = 0; i < size; ++i)
    for (const Share& part : shares(left_out_[i])) x[z(part.kept)] -= part.value * y_[i];
}

/// Adds the solution for e to lambda, where it is not empty, and to dv.
void GramFactor::add_solution(const ConstrainedProblem& problem, std::span<const double> e, std::span<double> lambda,
                              std::span<double> dv) const {
  x_.resize(kept_.size());
  for (std::size_t k = 0; k < kept_.size(); ++k) x_[k] = e[z(kept_[k].row)];
  for (const LeftOut& of : left_out_)
    for (const Share& part : shares(of)) x_[z(part.kept)] += part.value * e[z(of.row)];
  make_least(x_);
  solve_cholesky(x_, [&](std::size_t i) { return factor_.data() + z(kept_[i].row) * rows_; });
  for (std::size_t k = 0; k < kept_.size(); ++k)
    for (int j = problem.row_start[z(kept_[k].row)]; j < problem.row_start[z(kept_[k].row + 1)]; ++j)
      dv[z(problem.entries[z(j)].column)] += problem.entries[z(j)].value * x_[k];
  if (lambda.empty()) return;
  make_least(x_);
  for (std::size_t k = 0; k < kept_.size(); ++k) lambda[z(kept_[k].row)] += x_[k];
  for (const LeftOut& of : left_out_)
    for (const Share& part : shares(of)) lambda[z(of.row)] += part.value * x_[z(part.kept)];
}

void GramFactor::solve(const ConstrainedProblem& problem, std::span<const double> e, std::span<double> lambda,
                       std::span<double> dv) const {
  std::fill(dv.begin(), dv.end(), 0.0);
  std::fill(lambda.begin(), lambda.end(), 0.0);
  add_solution(problem, e, lambda, dv);
}

double GramFactor::solve_refined(const ConstrainedProblem& problem, std::span<const double> e,
                                 std::span<const double> scale, std::span<double> lambda, std::span<double> dv) const {
  solve(problem, e, lambda, dv);
  residual_.resize(rows_);
  double size = 0, outside = 0;
  for (std::size_t r = 0; r < rows_; ++r) {
    residual_[r] = e[r] - times_row(problem, r, dv);
    size = std::max(size, std::max(std::abs(e[r]), scale[r]) * inverse_length_[r]);
    outside = std::max(outside, std::abs(residual_[r]) * inverse_length_[r]);
  }
  add_solution(problem, residual_, lambda, dv);
  return size > 0 && !full_row_rank() ? outside / size : 0;
}

}  // namespace linchpin::articulated
