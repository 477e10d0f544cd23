// The modes of linearised equations of motion, with the errors of their eigenvalues.
#include <linchpin/linearization.h>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace linchpin {
namespace {

using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using Eigen::VectorXcd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The time by which velocities are multiplied [s], so that both halves of A have about the same size. Where nothing
/// pulls displacements back, their part of A is rounding, and any time serves.
double time_scale(const MatrixXd& A, Eigen::Index displacements) {
  constexpr double shortest = 1e-6, longest = 1e6;
  const double by_velocity = A.topRows(displacements).rightCols(A.cols() - displacements).norm();
  const double by_displacement = A.bottomRows(A.rows() - displacements).leftCols(displacements).norm();
  if (!(by_velocity > 0 && by_displacement > 0)) return 1;
  const double time = std::sqrt(by_velocity / by_displacement);
  return time < longest ? std::max(time, shortest) : 1;
}

/// Scales a shape so that its largest displacement, or else its largest velocity change, is 1.
void normalize(std::vector<std::complex<double>>& shape) {
  const std::size_t n = shape.size() / 2;
  const auto largest = [&](std::size_t from, std::size_t to) {
    std::size_t at = from;
    for (std::size_t i = from; i < to; ++i)
      if (std::abs(shape[i]) > (1 + 1e-9) * std::abs(shape[at])) at = i;
    return at;
  };
  if (n == 0) return;
  const std::size_t moved = largest(0, n), fastest = largest(n, 2 * n);
  const bool rests = std::abs(shape[moved]) <= 1e-12 * std::abs(shape[fastest]);
  const std::complex<double> unit = shape[rests ? fastest : moved];
  if (std::abs(unit) > 0)
    for (std::complex<double>& x : shape) x /= unit;
}

/// The nonzero eigenvalues of a matrix apart from the zero ones. Rounding would spread the latter, because they belong
/// to Jordan blocks wherever something moves on steadily. Null spaces are removed one after the other until the rest is
/// regular: the staircase form.
class Deflation {
 public:
  /// @param off  absolute error of the entries
  Deflation(const MatrixXd& A, double off) : rest_(A) {
    const double size = A.norm();
    while (rest_.rows() > 0) {
      Eigen::ColPivHouseholderQR<MatrixXd> qr(rest_.transpose());
      qr.setThreshold(100 * off / std::max(size, std::numeric_limits<double>::min()));
      const Eigen::Index rank = size > 0 ? qr.rank() : 0, k = rest_.rows();
      if (rank == k) break;
      const MatrixXd Q = qr.householderQ();
      MatrixXd ordered(k, k);  // The null space first.
      ordered << Q.rightCols(k - rank), Q.leftCols(rank);
      const MatrixXd turned = ordered.transpose() * rest_ * ordered;
      stages_.push_back({ordered, turned.topRightCorner(k - rank, rank)});
      rest_ = turned.bottomRightCorner(rank, rank).eval();
    }
  }
  const MatrixXd& rest() const { return rest_; }
  /// Vectors of the zero eigenvalues: eigenvectors first, then generalized ones.
  std::vector<VectorXcd> zero_vectors() const {
    std::vector<VectorXcd> out;
    for (std::size_t i = 0; i < stages_.size(); ++i)
      for (Eigen::Index j = 0; j < stages_[i].coupling.rows(); ++j) {
        VectorXcd x = VectorXcd::Unit(stages_[i].basis.rows(), j);
        for (std::size_t at = i + 1; at-- > 0;) {
          x = (stages_[at].basis * x).eval();
          if (at > 0) x = padded(at - 1, VectorXcd::Zero(stages_[at - 1].coupling.rows()), x);
        }
        out.push_back(x);
      }
    return out;
  }
  /// The eigenvector of the whole matrix that belongs to one of the rest.
  VectorXcd whole_vector(std::complex<double> eigenvalue, VectorXcd x) const {
    for (std::size_t at = stages_.size(); at-- > 0;)
      x = (stages_[at].basis * padded(at, stages_[at].coupling * x / eigenvalue, x)).eval();
    return x;
  }

 private:
  struct Stage {
    MatrixXd basis;     // Orthonormal. The null space first.
    MatrixXd coupling;  // Rows of the null space, columns of the others.
  };
  VectorXcd padded(std::size_t at, const VectorXcd& null_part, const VectorXcd& others) const {
    VectorXcd out(stages_[at].basis.rows());
    out << null_part, others;
    return out;
  }
  MatrixXd rest_;
  std::vector<Stage> stages_;
};

}  // namespace

double Eigenmode::frequency() const { return std::fabs(eigenvalue.imag()); }

double Eigenmode::damping_ratio() const {
  const double size = std::abs(eigenvalue);
  return size > 0 ? -eigenvalue.real() / size : 0;
}

std::vector<Eigenmode> eigenmodes(const LinearizedMotion& motion) {
  const Eigen::Index k = motion.size(), n2 = 2 * motion.layout.n();
  if (k == 0) return {};
  MatrixXd A = Eigen::Map<const RowMajor>(motion.A.data(), k, k);
  if (!A.allFinite())
    throw std::invalid_argument("the matrix A of the linearised equations has an entry that is not finite");
  Eigen::VectorXd scale = Eigen::VectorXd::Ones(k);
  scale.tail(motion.velocities).setConstant(time_scale(A, motion.displacements));
  A = (scale.asDiagonal() * A * scale.cwiseInverse().asDiagonal()).eval();
  const double size = A.norm(), off = std::max(motion.error, 10 * std::numeric_limits<double>::epsilon()) * size;
  const Deflation deflation(A, off);
  const Eigen::Map<const RowMajor> basis(motion.basis.data(), n2, k);
  std::vector<Eigenmode> out;
  const auto add = [&](std::complex<double> value, double error, const VectorXcd& vector) {
    Eigenmode& mode = out.emplace_back();
    mode.error = error;
    if (std::fabs(value.real()) <= error) value.real(0);
    if (std::fabs(value.imag()) <= error) value.imag(0);
    mode.eigenvalue = value;
    const VectorXcd shape = basis * scale.cwiseInverse().asDiagonal() * vector;
    mode.shape.assign(shape.begin(), shape.end());
    normalize(mode.shape);
  };
  for (const VectorXcd& x : deflation.zero_vectors()) add(0, off, x);
  if (deflation.rest().rows() > 0) {
    const Eigen::EigenSolver<MatrixXd> solver(deflation.rest());
    if (solver.info() != Eigen::Success)
      throw std::invalid_argument("the eigenvalues of the linearised equations do not converge");
    if (!solver.eigenvalues().allFinite())
      throw std::invalid_argument("an eigenvalue of the linearised equations is not finite");
    const MatrixXcd right = solver.eigenvectors(), left = right.partialPivLu().inverse();
    for (Eigen::Index i = 0; i < right.cols(); ++i) {
      const double condition = left.row(i).norm() * right.col(i).norm();
      const std::complex<double> value = solver.eigenvalues()[i];
      add(value, std::isfinite(condition) ? std::min(condition * off, size) : size,
          deflation.whole_vector(value, right.col(i)));
    }
  }
  // Frequencies that differ by their rounding alone count as the same.
  const double same = 1e-9 * std::max(A.norm(), std::numeric_limits<double>::min());
  const auto key = [&](const Eigenmode& m) {
    return std::make_tuple(std::round(m.frequency() / same), m.eigenvalue.real(), -m.eigenvalue.imag());
  };
  std::stable_sort(out.begin(), out.end(), [&](const Eigenmode& a, const Eigenmode& b) { return key(a) < key(b); });
  return out;
}

}  // namespace linchpin
