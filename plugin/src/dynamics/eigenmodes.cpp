// The modes of linearised equations of motion, with the errors of their eigenvalues.
#include <linchpin/linearization.h>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace linchpin {
namespace {

using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The time by which velocities are multiplied, so that both halves of A have about the same size.
double time_scale(const MatrixXd& A, Eigen::Index displacements) {
  const double by_velocity = A.topRows(displacements).rightCols(A.cols() - displacements).norm();
  const double by_displacement = A.bottomRows(A.rows() - displacements).leftCols(displacements).norm();
  return by_velocity > 0 && by_displacement > 0 ? std::sqrt(by_velocity / by_displacement) : 1;
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
  const Eigen::EigenSolver<MatrixXd> solver(A);
  if (solver.info() != Eigen::Success)
    throw std::invalid_argument("the eigenvalues of the linearised equations do not converge");
  const MatrixXcd right = solver.eigenvectors();
  const MatrixXcd left = right.partialPivLu().inverse();
  const Eigen::Map<const RowMajor> basis(motion.basis.data(), n2, k);
  const double size = A.norm(), off = std::max(motion.error, 10 * std::numeric_limits<double>::epsilon()) * size;
  std::vector<Eigenmode> out;
  for (Eigen::Index i = 0; i < k; ++i) {
    Eigenmode& mode = out.emplace_back();
    const double condition = left.row(i).norm() * right.col(i).norm();
    mode.error = std::isfinite(condition) ? std::min(condition * off, std::sqrt(off * size)) : std::sqrt(off * size);
    std::complex<double> value = solver.eigenvalues()[i];
    if (std::abs(value) <= mode.error) value = 0;
    if (std::fabs(value.real()) <= mode.error) value.real(0);
    if (std::fabs(value.imag()) <= mode.error) value.imag(0);
    mode.eigenvalue = value;
    const Eigen::VectorXcd shape = basis * scale.cwiseInverse().asDiagonal() * right.col(i);
    mode.shape.assign(shape.begin(), shape.end());
    normalize(mode.shape);
  }
  const auto key = [](const Eigenmode& m) {
    return std::make_tuple(m.frequency(), m.eigenvalue.real(), -m.eigenvalue.imag());
  };
  std::stable_sort(out.begin(), out.end(), [&](const Eigenmode& a, const Eigenmode& b) { return key(a) < key(b); });
  return out;
}

}  // namespace linchpin
