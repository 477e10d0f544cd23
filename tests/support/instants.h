// Small problems by hand and random ones by seed, their matrices, and a second way to solve them that shares nothing
// with ours: null-space elimination with full pivoting.
#pragma once

#include "random.h"

#include <linchpin/dynamics.h>

#include <Eigen/Core>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::test {

inline Eigen::VectorXd vector(const std::vector<double>& x) {
  return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
}
inline Eigen::VectorXd vector(std::initializer_list<double> x) { return vector(std::vector<double>(x)); }

inline double norm_inf(const Eigen::VectorXd& x) { return x.size() ? x.cwiseAbs().maxCoeff() : 0; }

/// |x − y|∞ relative to |y|∞; absolute where y vanishes.
inline double error(const Eigen::VectorXd& x, const Eigen::VectorXd& y) {
  if (x.size() != y.size()) return 1e300;
  const double size = norm_inf(y);
  return norm_inf(x - y) / (size > 0 ? size : 1);
}

inline void add_block(ConstrainedProblem& x, const Eigen::MatrixXd& M) {
  if (x.row_start.empty()) x.row_start.push_back(0);
  x.block_sizes.push_back(static_cast<int>(M.rows()));
  for (Eigen::Index i = 0; i < M.rows(); ++i)
    for (Eigen::Index j = 0; j < M.cols(); ++j) x.mass.push_back(M(i, j));
  x.Q.insert(x.Q.end(), static_cast<std::size_t>(M.rows()), 0.0);
  x.c.insert(x.c.end(), static_cast<std::size_t>(M.rows()), 0.0);
}

/// A row of constraint `name`, given densely; zeros are left out.
inline void add_row(ConstrainedProblem& x, const std::string& name, const Eigen::VectorXd& row, double b) {
  for (Eigen::Index j = 0; j < row.size(); ++j)
    if (row[j] != 0) x.entries.push_back({static_cast<int>(j), row[j]});
  x.row_start.push_back(static_cast<int>(x.entries.size()));
  const auto found = std::find(x.constraints.begin(), x.constraints.end(), name);
  x.row_constraint.push_back(static_cast<int>(found - x.constraints.begin()));
  if (found == x.constraints.end()) x.constraints.push_back(name);
  x.b.push_back(b);
}

/// M diagonal, Q given, no rows yet.
inline ConstrainedProblem diagonal(std::initializer_list<double> masses, std::initializer_list<double> Q) {
  ConstrainedProblem x;
  for (const double m : masses) add_block(x, Eigen::MatrixXd::Constant(1, 1, m));
  x.Q = Q;
  return x;
}

inline Eigen::MatrixXd mass_matrix(const ConstrainedProblem& x) {
  Eigen::MatrixXd M = Eigen::MatrixXd::Zero(x.n(), x.n());
  Eigen::Index first = 0;
  std::size_t value = 0;
  for (const int size : x.block_sizes) {
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) M(first + i, first + j) = x.mass[value++];
    first += size;
  }
  return M;
}

inline Eigen::MatrixXd constraint_matrix(const ConstrainedProblem& x) {
  Eigen::MatrixXd A = Eigen::MatrixXd::Zero(x.m(), x.n());
  for (int r = 0; r < x.m(); ++r)
    for (int i = x.row_start[static_cast<std::size_t>(r)]; i < x.row_start[static_cast<std::size_t>(r) + 1]; ++i)
      A(r, x.entries[static_cast<std::size_t>(i)].column) = x.entries[static_cast<std::size_t>(i)].value;
  return A;
}

/// The same problem with other rows, given densely; one constraint per row unless `names` says otherwise.
inline ConstrainedProblem with_rows(const ConstrainedProblem& x, const Eigen::MatrixXd& A, const Eigen::VectorXd& b,
                                    std::vector<std::string> names = {}) {
  ConstrainedProblem y = x;
  y.entries.clear();
  y.row_start = {0};
  y.b.clear();
  y.row_constraint.clear();
  y.constraints.clear();
  for (Eigen::Index r = 0; r < A.rows(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    add_row(y, i < names.size() ? names[i] : "row " + std::to_string(r), A.row(r), b[r]);
  }
  return y;
}

// Decompositions, compiled once: each takes seconds to compile.

/// Descending.
Eigen::VectorXd singular_values(const Eigen::MatrixXd& A);
/// X of S X = B, S symmetric and positive definite.
Eigen::MatrixXd solve_spd(const Eigen::MatrixXd& S, const Eigen::MatrixXd& B);
/// Q of X = Q R, as many columns as X.
Eigen::MatrixXd orthonormal(const Eigen::MatrixXd& X);

/// Orthonormal columns that span {w : A w = 0}.
Eigen::MatrixXd virtual_displacements(const Eigen::MatrixXd& A);

/// v̇ of consistent rows by elimination: Wᵀ M v̇ = Wᵀ(Q + c) for A W = 0 (Kane), A v̇ = b.
Eigen::VectorXd acceleration_by_elimination(const ConstrainedProblem& x);

Eigen::MatrixXd random_spd(Random& random, int size, double condition);

/// A consistent problem of full row rank: blocks of 1, 3 and 6, masses over three decades, rows that touch some blocks.
/// Singular values of A stay within a few hundred of each other, so that errors are rounding and not conditioning.
ConstrainedProblem random_instant(Random& random);

}  // namespace linchpin::test
