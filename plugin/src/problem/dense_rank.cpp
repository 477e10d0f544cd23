// The slow functions of the dense solver, which allocate. They decide the rank by singular values where pivots do not,
// and find redundant, undetermined and contradictory constraints (T6).
#include "problem/dense_factorization.h"

#include "math/vector_ops.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>

namespace linchpin::detail {
namespace {

using ConstMatrix = Eigen::Map<const Eigen::MatrixXd>;
using ConstStrided = Eigen::Map<const Eigen::MatrixXd, 0, Eigen::OuterStride<>>;

// Returns the first `rows` rows of QᵀB̂ᵀP after the pivoted QR, with all that is below the triangle when it stopped
// early.
Eigen::MatrixXd remaining_rows(const Reflectors& qr, int rows) {
  Eigen::MatrixXd R = Eigen::MatrixXd::Zero(rows, qr.columns);
  for (int j = 0; j < qr.columns; ++j) {
    const int bottom = std::min(rows, j < qr.steps ? j + 1 : qr.rows);
    for (int i = 0; i < bottom; ++i) R(i, j) = qr.column(j)[i];
  }
  return R;
}

struct Singular {
  Eigen::VectorXd values;
  Eigen::MatrixXd left;
};

Singular singular(const Eigen::MatrixXd& R, bool vectors) {
  const unsigned options = vectors ? unsigned{Eigen::ComputeThinU} : 0U;
  if (std::min(R.rows(), R.cols()) <= 48) {  // Jacobi is more accurate for small values, and fast enough.
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(R, options);
    return {svd.singularValues(), vectors ? Eigen::MatrixXd(svd.matrixU()) : Eigen::MatrixXd()};
  }
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(R, options);
  return {svd.singularValues(), vectors ? Eigen::MatrixXd(svd.matrixU()) : Eigen::MatrixXd()};
}

}  // namespace

void DenseFactorization::rank_by_singular_values(double rank_tolerance) {
  const Singular svd = singular(remaining_rows(space_, space_.steps), true);
  int r = 0;
  while (r < svd.values.size() && svd.values[r] > rank_tolerance * svd.values[0]) ++r;
  rank_ = r;
  kept_ = r > 0 ? svd.values[r - 1] : 0;
  dropped_ = r < svd.values.size() ? svd.values.tail(svd.values.size() - r).norm() : 0;
  space_.form(space_.steps, basis_);
  if (r == m_) return;  // The triangle itself is used for solving, so V must be its Q.
  const Eigen::MatrixXd V = ConstMatrix(basis_.data(), n_, space_.steps) * svd.left.leftCols(r);
  std::copy_n(V.data(), V.size(), basis_.data());
}

RankReport DenseFactorization::report(std::span<const double> e, std::span<const double> scale,
                                      bool singular_values) const {
  RankReport report;
  report.rank = rank_;
  if (singular_values && rank_ > 0) {
    const Eigen::VectorXd sigma = singular(remaining_rows(space_, n_), false).values;
    report.smallest_kept = sigma[rank_ - 1] / sigma[0];
    if (rank_ < std::min(n_, m_) && rank_ < sigma.size()) report.largest_dropped = sigma[rank_] / sigma[0];
  }
  if (rank_ == m_) return report;
  std::vector<std::vector<int>> rows_of(z(constraints_));
  for (int r = 0; r < m_; ++r) rows_of[z(constraint_[z(r)])].push_back(r);
  find_redundant(rows_of, report);
  if (!e.empty()) find_contradictory(e, scale, rows_of, report);
  return report;
}

// Returns Q_r, an orthonormal basis of range(B̂), row by row [m × r].
Eigen::MatrixXd DenseFactorization::orthonormal_range() const {
  Eigen::MatrixXd Q(m_, rank_);
  for (int j = 0; j < rank_; ++j) {
    const double* v = basis_.data() + z(j) * z(n_);
    for (int r = 0; r < m_; ++r) {
      double sum = 0;
      for (int i = b_.start[z(r)]; i < b_.start[z(r) + 1]; ++i) sum += b_.value[z(i)] * v[b_.column[z(i)]];
      Q(r, j) = sum;
    }
  }
  if (rank_ > 0 && tall_ && kept_ > 1e-3) {
    // R₀V is a small matrix with the same triangle. Dividing by it is safe as long as it is well conditioned.
    const ConstStrided R0(unit_rows_.a.data(), n_, n_, Eigen::OuterStride<>(m_));
    const Eigen::MatrixXd image = R0.triangularView<Eigen::Upper>() * ConstMatrix(basis_.data(), n_, rank_);
    const Eigen::MatrixXd T = Eigen::HouseholderQR<Eigen::MatrixXd>(image).matrixQR().topRows(rank_);
    T.triangularView<Eigen::Upper>().solveInPlace<Eigen::OnTheRight>(Q);
  } else if (rank_ > 0) {
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(Q);
    Q = qr.householderQ() * Eigen::MatrixXd::Identity(m_, rank_);
  }
  return Q;
}

void DenseFactorization::find_redundant(const std::vector<std::vector<int>>& rows_of, RankReport& report) const {
  const Eigen::MatrixXd Q = orthonormal_range();
  // Directions below the cut rotate range(B̂) by about dropped / kept. An amplitude below that is not redundancy.
  const double amplitude = std::max(1e-6, kept_ > 0 ? 4 * dropped_ / kept_ : 0.0);
  Eigen::VectorXd reaction(n_);
  for (int c = 0; c < constraints_; ++c) {
    const auto& rows = rows_of[z(c)];
    if (rows.empty()) continue;
    const Eigen::MatrixXd Qi = Q(rows, Eigen::all);
    const auto k = static_cast<Eigen::Index>(rows.size());
    const Eigen::MatrixXd S = Eigen::MatrixXd::Identity(k, k) - Qi * Qi.transpose();
    const double redundancy = S.norm();
    if (redundancy <= amplitude * amplitude) continue;
    report.redundant.push_back(c);
    double undetermined_part = 0;
    for (Eigen::Index s = 0; s < k; ++s) {  // Columns of B̂_iᵀ (I − Q_i Q_iᵀ).
      reaction.setZero();
      for (Eigen::Index l = 0; l < k; ++l) {
        const auto r = z(rows[static_cast<std::size_t>(l)]);
        for (int i = b_.start[r]; i < b_.start[r + 1]; ++i) reaction[b_.column[z(i)]] += S(l, s) * b_.value[z(i)];
      }
      undetermined_part = std::max(undetermined_part, reaction.norm());
    }
    if (undetermined_part > amplitude * std::sqrt(redundancy)) report.undetermined.push_back(c);
  }
}

void DenseFactorization::find_contradictory(std::span<const double> e, std::span<const double> scale,
                                            const std::vector<std::vector<int>>& rows_of, RankReport& report) const {
  apply(e, scale, {}, {}, {});  // Leaves the residual in scratch_.rho.
  const double size = std::max(largest_unit(e), scale.empty() ? 0.0 : largest_unit(scale));
  // The directions of rows are uncertain by the dropped part, so smaller residuals are not contradictions.
  const double allowed = std::max(consistency_, 4 * dropped_) * size;
  for (int c = 0; c < constraints_; ++c) {
    for (const int r : rows_of[z(c)]) {
      if (unit(r, scratch_.rho[z(r)]) > allowed) {
        report.contradictory.push_back(c);
        break;
      }
    }
  }
}

}  // namespace linchpin::detail
