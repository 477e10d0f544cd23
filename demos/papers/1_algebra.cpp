// The formula itself, and a misprint that no example of the paper can show (T-ALG).
//
// Kalaba & Udwadia (2001) give the ideal constraint force twice: their (33'), M^½ (A M^-½)⁺ (b − A a), is right; their
// (9), with the exponents of M exchanged, is not. Their worked example has M = I, where the two agree. Here M is not I.
//
//     M = diag(1, 4, 9)   Q = (1, −2, ½)   one constraint  q̈₁ + 2 q̈₂ + 3 q̈₃ = 1
//
// Answer: λ = 5/18, Q^N = λ (1, 2, 3), q̈ = (23/18, −13/36, 4/27); the misprint gives accelerations that miss the
// constraint: 0.192 instead of 1. Theory: T5.

#include <linchpin/dynamics.h>

#include <Eigen/QR>

#include "known.h"

int main() {
  linchpin::ConstrainedProblem problem;  // plain data: a problem can be written down without a model
  problem.block_sizes = {1, 1, 1};
  problem.mass = {1, 4, 9};
  problem.Q = {1, -2, 0.5};
  problem.c = {0, 0, 0};
  problem.entries = {{0, 1.0}, {1, 2.0}, {2, 3.0}};
  problem.row_start = {0, 3};
  problem.b = {1};
  problem.row_constraint = {0};
  problem.constraints = {"plane"};
  const linchpin::Acceleration answer = linchpin::solve(problem);

  std::printf("linchpin\n");
  expect("multiplier", answer.lambda[0], 5.0 / 18);
  expect("ideal force", answer.ideal, Eigen::Vector3d(5.0 / 18, 5.0 / 9, 5.0 / 6));
  expect("acceleration", answer.vdot, Eigen::Vector3d(23.0 / 18, -13.0 / 36, 4.0 / 27));

  const Eigen::Vector3d root(1, 2, 3), Q(1, -2, 0.5), a = Q.cwiseQuotient(root.cwiseAbs2());
  const Eigen::RowVector3d A(1, 2, 3);
  const double rest = 1 - A.dot(a);  // b − A a
  const auto pseudo_inverse = [](const Eigen::RowVector3d& row) {
    return Eigen::Vector3d(row.transpose() / row.squaredNorm());
  };

  std::printf("the paper's (33'), typed in\n");
  const Eigen::Vector3d right = root.cwiseProduct(pseudo_inverse(A.cwiseQuotient(root.transpose()))) * rest;
  expect("ideal force", right, answer.ideal);

  std::printf("the paper's (9), typed in as printed\n");
  const Eigen::Vector3d printed = pseudo_inverse(A.cwiseProduct(root.transpose())).cwiseQuotient(root) * rest;
  expect("\"ideal force\"", printed, Eigen::Vector3d(0.00850340, 0.01700680, 0.02551020), 1e-8);
  expect("A times its acceleration, should be 1", A.dot(a + printed.cwiseQuotient(root.cwiseAbs2())), 0.192177, 1e-6);
  return known_answers_missed;
}
