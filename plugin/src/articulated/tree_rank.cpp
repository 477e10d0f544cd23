#include "articulated/tree_rank.h"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>

namespace linchpin::articulated {

namespace {

constexpr double far_from_cut = 100;  // Times the cut: a factor that is this far from it needs no closer look.

Eigen::Map<Eigen::VectorXd> row_of(std::vector<double>& rows, std::size_t r, int columns) {
  return {rows.data() + r * z(columns), columns};
}

}  // namespace

void TreeRank::resize(int rows) {
  for (auto* x : {&length_, &rigid_square_, &initial_remainder_size_}) x->assign(z(rows), 0);
  dropped_.assign(z(rows), 0);
}

void TreeRank::keep_all_rows() { std::fill(dropped_.begin(), dropped_.end(), 0); }

void TreeRank::zero_dropped_rows(std::span<double> e) const {
  for (std::size_t r = 0; r < dropped_.size(); ++r)
    if (dropped_[r]) e[r] = 0;
}

void TreeRank::set_length(int row, double links_square, double rigid_square, int joints) {
  const double square = links_square + rigid_square;
  length_[z(row)] = std::isfinite(square) ? std::sqrt(square * (1 + joints)) : 0;
  rigid_square_[z(row)] = rigid_square;
}

bool TreeRank::drop_dependent_rows(ConstrainedProblem& problem, double smallest_pivot, Tolerances tolerances,
                                   const System& system, const State& state, std::span<const RigidBody> rigid) {
  // A factor that is this far from the cut is clear without a closer look, which compares every row with every other.
  // With very many rows there is no closer look.
  constexpr int many = 500;
  const int first_rigid_column = rigid.empty() ? problem.n() : rigid.front().column;
  const double least = smallest_relative_length(problem, first_rigid_column);
  if (problem.m() > many || !(least * std::sqrt(smallest_pivot) < far_from_cut * tolerances.cut)) return false;
  fill_rows(problem, system, state, rigid);
  orthogonalize(tolerances.cut);
  bool any = false;
  for (std::size_t r = 0; r < dropped_.size(); ++r) {
    const double left = row_of(remainder_, r, columns_).norm();
    if (done_[r] || dropped_[r] || left <= tolerances.rank * initial_remainder_size_[r]) continue;
    dropped_[r] = 1;
    any = true;
    for (int k = problem.row_start[r]; k < problem.row_start[r + 1]; ++k) problem.entries[z(k)].value = 0;
  }
  return any;
}

bool TreeRank::is_clear(std::span<const GramFactor::KeptRow> rows, double cut) const {
  return std::all_of(rows.begin(), rows.end(), [&](const GramFactor::KeptRow& of) {
    return of.remainder >= far_from_cut * cut * std::max(length_[z(of.row)], of.length);
  });
}

/// The smallest length of a row in joint coordinates, relative to its length in maximal ones.
double TreeRank::smallest_relative_length(const ConstrainedProblem& problem, int first_rigid_column) const {
  double least = 1;
  for (std::size_t r = 0; r < length_.size(); ++r) {
    double size = rigid_square_[r];
    for (int k = problem.row_start[r]; k < problem.row_start[r + 1]; ++k)
      if (const double x = problem.entries[z(k)].value; problem.entries[z(k)].column < first_rigid_column)
        size += x * x;
    size = std::sqrt(size);
    if (size > 0) least = std::min(least, size / std::max(length_[r], size));
  }
  return least;
}

/// Takes the rows of B, in units of their length in maximal coordinates.
void TreeRank::fill_rows(const ConstrainedProblem& problem, const System& system, const State& state,
                         std::span<const RigidBody> rigid) {
  columns_ = problem.n();
  remainder_.assign(length_.size() * z(columns_), 0);
  for (std::size_t r = 0; r < length_.size(); ++r) {
    auto row = row_of(remainder_, r, columns_);
    for (int k = problem.row_start[r]; k < problem.row_start[r + 1]; ++k)
      row[problem.entries[z(k)].column] = problem.entries[z(k)].value;
    for (const RigidBody& b : rigid) {
      row.segment<3>(b.column) /= std::sqrt(system.mass(b.id));
      if (b.dof == 6)
        system.world_inertia(b.id, state[b.id].q).llt().matrixL().solveInPlace(row.segment<3>(b.column + 3));
    }
    const double own = row.norm();
    if (own > 0) row /= std::max(own, length_[r]);
    initial_remainder_size_[r] = row.norm();
  }
}

/// Gram–Schmidt with the longest remainder first, so that the rows that say least are the ones to be dropped. It ends
/// where all remainders are below the cut.
void TreeRank::orthogonalize(double cut) {
  const std::size_t m = length_.size();
  done_.assign(m, 0);
  for (;;) {
    std::size_t next = m;
    double most = cut;
    for (std::size_t r = 0; r < m; ++r)
      if (const double size = row_of(remainder_, r, columns_).norm(); !done_[r] && size > most) most = size, next = r;
    if (next == m) return;
    done_[next] = 1;
    auto unit = row_of(remainder_, next, columns_);
    unit /= most;
    for (std::size_t r = 0; r < m; ++r) {
      if (done_[r]) continue;
      auto row = row_of(remainder_, r, columns_);
      for (int twice = 0; twice < 2; ++twice) row -= unit.dot(row) * unit;
    }
  }
}

}  // namespace linchpin::articulated
