// What a constraint computes, as matrices, and the same by central differences of its residual: the judge of A and b.
#pragma once

#include "tolerances.h"

#include <linchpin/constraint.h>

#include <gtest/gtest.h>

#include <Eigen/Core>

#include <algorithm>
#include <span>
#include <vector>

namespace linchpin::test {

struct Linearized {
  Eigen::MatrixXd A;  // [rows × 6K]
  Eigen::VectorXd b, position, velocity;
};

inline Linearized linearized(const ConstraintFunction& f, std::span<const BodyState> X, double t) {
  const auto m = static_cast<std::size_t>(f.rows()), K = X.size();
  // Filled with nonsense, so that what is not written shows.
  std::vector<double> A(m * 6 * K, 7e7), b(m, 7e7), position(m, 7e7), velocity(m, 7e7);
  f.linearize(X, t, {A, b, position, velocity});
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto rows = static_cast<Eigen::Index>(m), columns = static_cast<Eigen::Index>(6 * K);
  const auto vector = [&](const std::vector<double>& x) { return Eigen::Map<const Eigen::VectorXd>(x.data(), rows); };
  return {Eigen::Map<const RowMajor>(A.data(), rows, columns), vector(b), vector(position), vector(velocity)};
}

inline Eigen::VectorXd residual(const ConstraintFunction& f, std::span<const BodyState> X, double t) {
  Eigen::VectorXd r(f.rows());
  f.residual(X, t, {r.data(), static_cast<std::size_t>(r.size())});
  return r;
}

/// The residual a time s later along the motion with the accelerations in X (T3).
inline Eigen::VectorXd residual_along(const ConstraintFunction& f, std::span<const BodyState> X, double t, double s) {
  std::vector<BodyState> moved(X.begin(), X.end());
  for (BodyState& x : moved) {
    advance(x, x.v + 0.5 * s * x.a, x.w + 0.5 * s * x.alpha, s);
    x.v += s * x.a;
    x.w += s * x.alpha;
  }
  return residual(f, moved, t + s);
}

/// The same numbers from nothing but `residual`.
inline Linearized by_differences(const ConstraintFunction& f, std::span<const BodyState> X, double t) {
  const Level level = f.level();
  Linearized d;
  d.A.resize(f.rows(), static_cast<Eigen::Index>(6 * X.size()));
  for (std::size_t k = 0; k < X.size(); ++k)
    for (int j = 0; j < 6; ++j) {
      const auto stepped = [&](double h) {
        std::vector<BodyState> Y(X.begin(), X.end());
        const Vector3d u = h * Vector3d::Unit(j % 3), none = Vector3d::Zero();
        if (level == Level::position) advance(Y[k], j < 3 ? u : none, j < 3 ? none : u, 1);
        if (level == Level::velocity) (j < 3 ? Y[k].v : Y[k].w) += u;
        if (level == Level::acceleration) (j < 3 ? Y[k].a : Y[k].alpha) += u;
        return residual(f, Y, t);
      };
      const double h = difference_step;
      d.A.col(static_cast<Eigen::Index>(6 * k) + j) = (stepped(h) - stepped(-h)) / (2 * h);
    }
  const double h = second_difference_step, h1 = first_difference_step;
  const auto at = [&](double s) { return residual_along(f, X, t, s); };
  const Eigen::VectorXd first = (at(-2 * h1) - 8 * at(-h1) + 8 * at(h1) - at(2 * h1)) / (12 * h1);
  const Eigen::VectorXd second = (-at(-2 * h) + 16 * at(-h) - 30 * at(0) + 16 * at(h) - at(2 * h)) / (12 * h * h);
  const Eigen::VectorXd zero = Eigen::VectorXd::Zero(f.rows());
  d.position = level == Level::position ? at(0) : zero;
  d.velocity = level == Level::position ? first : level == Level::velocity ? at(0) : zero;
  d.b = level == Level::position   ? Eigen::VectorXd(-second)
        : level == Level::velocity ? Eigen::VectorXd(-first)
                                   : Eigen::VectorXd(-at(0));
  return d;
}

inline double size_of(const Eigen::MatrixXd& x) { return x.size() ? x.cwiseAbs().maxCoeff() : 0; }

/// Judged relative to the largest entry of each.
inline void expect_same(const Linearized& x, const Linearized& y, double tolerance_A, double tolerance_b) {
  const auto error = [](const Eigen::MatrixXd& p, const Eigen::MatrixXd& q) {
    return size_of(p - q) / std::max(1.0, size_of(q));
  };
  EXPECT_LE(error(x.A, y.A), tolerance_A) << "A\n" << x.A << "\nexpected\n" << y.A;
  EXPECT_LE(error(x.b, y.b), tolerance_b) << "b " << x.b.transpose() << "\nexpected " << y.b.transpose();
  EXPECT_LE(error(x.position, y.position), tolerance_A)
      << "position " << x.position.transpose() << "\nexpected " << y.position.transpose();
  EXPECT_LE(error(x.velocity, y.velocity), tolerance_A)
      << "velocity " << x.velocity.transpose() << "\nexpected " << y.velocity.transpose();
}

inline void expect_true_derivatives(const ConstraintFunction& f, std::span<const BodyState> X, double t) {
  expect_same(linearized(f, X, t), by_differences(f, X, t), tol_difference(), tol_second_difference());
}

}  // namespace linchpin::test
