// See instants.h.
#include "instants.h"

#include <Eigen/Dense>

#include <cmath>

namespace linchpin::test {

Eigen::VectorXd singular_values(const Eigen::MatrixXd& A) {
  return Eigen::JacobiSVD<Eigen::MatrixXd>(A).singularValues();
}

Eigen::MatrixXd solve_spd(const Eigen::MatrixXd& S, const Eigen::MatrixXd& B) { return S.ldlt().solve(B); }

Eigen::MatrixXd orthonormal(const Eigen::MatrixXd& X) {
  return Eigen::HouseholderQR<Eigen::MatrixXd>(X).householderQ() * Eigen::MatrixXd::Identity(X.rows(), X.cols());
}

Eigen::MatrixXd virtual_displacements(const Eigen::MatrixXd& A) {
  if (A.rows() == 0) return Eigen::MatrixXd::Identity(A.cols(), A.cols());
  Eigen::FullPivLU<Eigen::MatrixXd> lu(A);
  lu.setThreshold(1e-8);
  if (lu.dimensionOfKernel() == 0) return Eigen::MatrixXd(A.cols(), 0);
  const Eigen::MatrixXd W = lu.kernel();
  return orthonormal(W);
}

Eigen::VectorXd acceleration_by_elimination(const ConstrainedProblem& x) {
  const Eigen::MatrixXd M = mass_matrix(x), A = constraint_matrix(x), W = virtual_displacements(A);
  const Eigen::VectorXd F = vector(x.Q) + vector(x.c);
  Eigen::VectorXd particular = Eigen::VectorXd::Zero(x.n());
  if (x.m() > 0) {
    Eigen::FullPivLU<Eigen::MatrixXd> lu(A);
    lu.setThreshold(1e-8);
    particular = lu.solve(vector(x.b));
  }
  if (W.cols() == 0) return particular;
  const Eigen::MatrixXd reduced = W.transpose() * M * W;
  return particular + W * solve_spd(reduced, W.transpose() * (F - M * particular));
}

Eigen::MatrixXd random_spd(Random& random, int size, double condition) {
  Eigen::MatrixXd X(size, size);
  for (auto& entry : X.reshaped()) entry = random.uniform();
  const Eigen::MatrixXd U = orthonormal(X);
  Eigen::VectorXd d(size);
  for (int i = 0; i < size; ++i) d[i] = std::pow(condition, random.uniform(0, 1));
  const Eigen::MatrixXd M = U * d.asDiagonal() * U.transpose();
  return 0.5 * (M + M.transpose());
}

ConstrainedProblem random_instant(Random& random) {
  ConstrainedProblem x;
  const int blocks = random.integer(1, 6);
  for (int k = 0; k < blocks; ++k) {
    const int size = random.coin() ? 6 : random.coin() ? 3 : 1;
    add_block(x, std::pow(10.0, random.uniform(-1, 1)) * random_spd(random, size, 10));
  }
  const int n = x.n();
  for (double& q : x.Q) q = random.uniform(-10, 10);
  for (double& c : x.c) c = random.uniform(-5, 5);
  const int rows = random.integer(0, n);
  Eigen::MatrixXd A(0, n);
  for (int r = 0; r < rows; ++r) {
    Eigen::RowVectorXd row = Eigen::RowVectorXd::Zero(n);
    for (int turn = 0; turn < 2; ++turn) {
      const int k = random.integer(0, blocks - 1);
      int first = 0;
      for (int l = 0; l < k; ++l) first += x.block_sizes[static_cast<std::size_t>(l)];
      for (int j = 0; j < x.block_sizes[static_cast<std::size_t>(k)]; ++j) row[first + j] = random.uniform();
    }
    Eigen::MatrixXd longer(A.rows() + 1, n);
    longer << A, row;
    const Eigen::VectorXd sigma = singular_values(longer);
    if (longer.rows() <= n && sigma.minCoeff() > 1e-2 * sigma.maxCoeff()) A = longer;
  }
  Eigen::VectorXd b(A.rows());
  for (double& bi : b) bi = random.uniform(-10, 10);
  return with_rows(x, A, b);
}

}  // namespace linchpin::test
