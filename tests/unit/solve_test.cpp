// The solver's diseases by name: each a matrix that breaks a careless solver.
#include "allocation_counter.h"
#include "instants.h"
#include "random.h"
#include "tolerances.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace linchpin::test::solve_test {
namespace {

using Names = std::vector<std::string>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Solve, EmptySystem) {
  const ConstrainedProblem nothing;
  const Acceleration y = solve(nothing);
  EXPECT_EQ(y.status, Status::invalid);  // not even row_start: never assembled
  ConstrainedProblem empty;
  empty.row_start = {0};
  EXPECT_EQ(solve(empty).status, Status::ok);
  EXPECT_EQ(solve(empty).vdot.size(), 0);
}

TEST(Solve, WithoutRowsBodiesFallFreely) {
  ConstrainedProblem x = diagonal({2, 4}, {1, 2});
  x.c = {1, 0};
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::ok);
  EXPECT_LE(error(y.vdot, vector({1, 0.5})), tol_rounding());
  EXPECT_LE(error(y.nonideal, vector({1, 0})), tol_rounding());
  EXPECT_EQ(norm_inf(y.ideal), 0);
  EXPECT_EQ(y.rank, 0);
}

TEST(Solve, RowsWithoutColumns) {
  ConstrainedProblem x;
  x.row_start = {0};
  add_row(x, "holds", Eigen::VectorXd(0), 0);
  EXPECT_EQ(solve(x).status, Status::redundant);
  add_row(x, "cannot", Eigen::VectorXd(0), 1);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::contradictory);
  EXPECT_EQ(y.contradictory, Names{"cannot"});
}

TEST(Solve, Singleton) {
  ConstrainedProblem x = diagonal({5}, {3});
  add_row(x, "only", vector({2}), 8);
  const Acceleration y = solve(x);
  EXPECT_NEAR(y.vdot[0], 4, tol_rounding(4));
  EXPECT_NEAR(y.ideal[0], 17, tol_rounding(17));
  EXPECT_NEAR(y.lambda[0], 8.5, tol_rounding(8.5));
}

TEST(Solve, RepeatedRow) {
  ConstrainedProblem x = diagonal({1, 2, 3}, {1, 1, 1});
  add_row(x, "a", vector({1, 1, 0}), 1);
  const Acceleration once = solve(x);
  add_row(x, "b", vector({1, 1, 0}), 1);
  const Acceleration twice = solve(x);
  EXPECT_EQ(twice.status, Status::redundant);
  EXPECT_LE(error(twice.vdot, once.vdot), tol_rounding());
  EXPECT_LE(error(twice.ideal, once.ideal), tol_rounding());
  EXPECT_LE(error(twice.lambda, vector({once.lambda[0] / 2, once.lambda[0] / 2})), tol_rounding());
  EXPECT_EQ(twice.undetermined, (Names{"a", "b"}));
}

// Repeated within one constraint: redundant, but what the constraint does is determined.
TEST(Solve, RepeatedRowWithinOneConstraint) {
  ConstrainedProblem x = diagonal({1, 2}, {1, 1});
  add_row(x, "guide", vector({1, 1}), 1);
  add_row(x, "guide", vector({2, 2}), 2);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.redundant, Names{"guide"});
  EXPECT_TRUE(y.undetermined.empty());
}

// Only those that share the redundancy are named.
TEST(Solve, BystandersAreNotNamed) {
  ConstrainedProblem x = diagonal({1, 1, 1}, {1, 2, 3});
  add_row(x, "left", vector({1, 0, 0}), 0);
  add_row(x, "innocent", vector({0, 1, 1}), 0);
  add_row(x, "right", vector({1, 0, 0}), 0);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.redundant, (Names{"left", "right"}));
  EXPECT_EQ(y.undetermined, (Names{"left", "right"}));
}

TEST(Solve, ContradictoryRow) {
  ConstrainedProblem x = diagonal({1, 1}, {0, 0});
  add_row(x, "low", vector({1, 0}), 1);
  add_row(x, "fair", vector({0, 1}), 5);
  add_row(x, "high", vector({1, 0}), 3);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::contradictory);
  EXPECT_EQ(y.contradictory, (Names{"low", "high"}));
  EXPECT_LE(error(y.vdot, vector({2, 5})), tol_rounding());
  EXPECT_NEAR(y.residual, 1, tol_rounding());
}

// With very different scales the long row has its way; both are still named where it can be seen.
TEST(Solve, ContradictoryRowsOfVeryDifferentScale) {
  ConstrainedProblem x = diagonal({1}, {0});
  add_row(x, "short", vector({1e-3}), 3e-3);
  add_row(x, "long", vector({1e3}), 1e3);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::contradictory);
  EXPECT_NEAR(y.vdot[0], (1e6 * 1 + 1e-6 * 3) / (1e6 + 1e-6), tol_rounding());
}

TEST(Solve, ZeroRow) {
  ConstrainedProblem x = diagonal({1, 1}, {4, 5});
  add_row(x, "zero", vector({0, 0}), 0);
  add_row(x, "real", vector({1, 0}), 0);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::redundant);
  EXPECT_EQ(y.redundant, Names{"zero"});
  EXPECT_TRUE(y.undetermined.empty());
  EXPECT_LE(error(y.vdot, vector({0, 5})), tol_rounding());
  x.b[0] = 1e-3;
  EXPECT_EQ(solve(x).status, Status::contradictory);
  EXPECT_EQ(solve(x).contradictory, Names{"zero"});
}

TEST(Solve, MoreRowsThanColumns) {
  ConstrainedProblem x = diagonal({1, 2}, {1, 1});
  const Eigen::VectorXd v = vector({3, -2});
  for (int i = 0; i < 7; ++i) {
    const Eigen::VectorXd row = vector({std::cos(i), std::sin(i)});
    add_row(x, "spoke " + std::to_string(i), row, row.dot(v));
  }
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::redundant);
  EXPECT_EQ(y.rank, 2);
  EXPECT_LE(error(y.vdot, v), tol_rounding(3));
  EXPECT_EQ(y.undetermined.size(), 7u);
}

TEST(Solve, AllColumnsHeld) {
  ConstrainedProblem x = diagonal({1, 2}, {1, 1});
  add_row(x, "a", vector({1, 1}), 2);
  add_row(x, "b", vector({1, -1}), 0);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::ok);
  EXPECT_LE(error(y.vdot, vector({1, 1})), tol_rounding());
}

// A feather on an anvil: the rows are scaled in the mass metric, so that nothing is lost.
TEST(Solve, HugeMassRatio) {
  for (const double ratio : {1e6, 1e9, 1e12}) {
    SCOPED_TRACE(ratio);
    ConstrainedProblem x = diagonal({1, ratio, 1}, {0, -9.81 * ratio, -9.81});
    add_row(x, "rope", vector({0, 1, 1}), 0);
    add_row(x, "rail", vector({1, 0, 0}), 1);
    const Acceleration y = solve(x);
    EXPECT_EQ(y.status, Status::ok);
    const double a = -9.81 * (ratio - 1) / (ratio + 1);  // Atwood
    EXPECT_LE(error(y.vdot, vector({1, a, -a})), scaled(1e-12));
    EXPECT_NEAR(y.ideal[2] / (9.81 * 2 * ratio / (ratio + 1)), 1, scaled(1e-12));
  }
}

// Parallel to within an angle: above the cut two rows with a large reaction, below it one row said twice.
TEST(Solve, NearlyParallelRows) {
  for (const double angle : {1e-2, 1e-4, 1e-9}) {
    SCOPED_TRACE(angle);
    ConstrainedProblem x;
    add_block(x, Eigen::MatrixXd::Identity(3, 3));
    x.Q = {0, -1, 0};
    add_row(x, "one", vector({1, 0, 0}), 0);
    add_row(x, "other", vector({1, angle, 0}), 0);
    const Acceleration y = solve(x);
    if (angle > 1e-6) {
      EXPECT_EQ(y.status, Status::ok);
      EXPECT_NEAR(y.lambda[1], 1 / angle, scaled(1e-10) / (angle * angle));
      EXPECT_NEAR(y.vdot[1], 0, scaled(1e-11));
    } else {
      EXPECT_EQ(y.status, Status::redundant);
      EXPECT_EQ(y.rank, 1);
      EXPECT_NEAR(y.vdot[1], -1, scaled(1e-8));
    }
  }
}

// Graded rows whose pivots hide the rank (Kahan): singular values decide.
TEST(Solve, RankThatPivotsDoNotShow) {
  const int n = 60;
  const double s = std::sin(1.2), c = std::cos(1.2);
  Eigen::MatrixXd K = Eigen::MatrixXd::Zero(n, n);
  for (int i = 0; i < n; ++i) {
    K(i, i) = std::pow(s, i);
    for (int j = i + 1; j < n; ++j) K(i, j) = -c * std::pow(s, i);
  }
  ConstrainedProblem x = diagonal({1}, {0});
  x = ConstrainedProblem();
  for (int i = 0; i < n; ++i) add_block(x, Eigen::MatrixXd::Identity(1, 1));
  x = with_rows(x, K.transpose(), Eigen::VectorXd::Ones(n));
  Eigen::MatrixXd unit = K.transpose();
  unit.rowwise().normalize();
  const Eigen::VectorXd sigma = singular_values(unit);
  for (const double tolerance : {1e-3, 1e-6, 1e-9}) {
    ConstraintFactorization solver({.rank_tolerance = tolerance});
    ASSERT_TRUE(solver.factor(x));
    EXPECT_EQ(solver.rank(), (sigma.array() > tolerance * sigma[0]).count()) << tolerance;
  }
}

// Singular values close around the cut: counted, not guessed, and the dropped ones stay out of the answer.
TEST(Solve, SingularValuesAroundTheCut) {
  Random random(5);
  const int n = 12;
  Eigen::MatrixXd X(n, n), Y(n, n);
  for (double& x : X.reshaped()) x = random.uniform();
  for (double& y : Y.reshaped()) y = random.uniform();
  const Eigen::MatrixXd U = orthonormal(X), W = orthonormal(Y);
  Eigen::VectorXd sigma(n);
  for (int i = 0; i < n; ++i) sigma[i] = i < 6 ? 1.0 : std::pow(10.0, -4.4 - 0.4 * (i - 6));
  const Eigen::MatrixXd A = U * sigma.asDiagonal() * W.transpose();
  ConstrainedProblem x;
  for (int i = 0; i < n; ++i) add_block(x, Eigen::MatrixXd::Identity(1, 1));
  x = with_rows(x, A, A * Eigen::VectorXd::Ones(n));
  Eigen::MatrixXd unit = A;
  unit.rowwise().normalize();
  const Eigen::VectorXd true_sigma = singular_values(unit);
  const auto kept = (true_sigma.array() > 1e-6 * true_sigma[0]).count();
  ConstraintFactorization solver;
  ASSERT_TRUE(solver.factor(x));
  EXPECT_EQ(solver.rank(), kept);
  const RankReport report = solver.report(x.b);
  EXPECT_NEAR(report.smallest_kept, true_sigma[kept - 1] / true_sigma[0], scaled(1e-10));
  EXPECT_NEAR(report.largest_dropped, true_sigma[kept] / true_sigma[0], scaled(1e-10));
  std::vector<double> dv(x.Q.size());
  solver.apply(x.b, {}, {}, dv);
  EXPECT_LE(norm_inf(vector(dv)), 2);  // the dropped directions would add nothing finite to speak of, or blow up
}

// Drift opens the exact rank: noise far above rounding, far below the cut, must neither count nor be amplified (F1).
TEST(Solve, RedundantRowsWithDrift) {
  Random random(11);
  for (const double noise : {1e-12, 1e-9, 1e-7}) {
    SCOPED_TRACE(noise);
    ConstrainedProblem x;
    add_block(x, random_spd(random, 6, 10));
    for (double& q : x.Q) q = random.uniform();
    Eigen::MatrixXd A(6, 6);
    for (double& a : A.reshaped()) a = random.uniform();
    A.row(4) = A.row(0) + A.row(1);
    A.row(5) = A.row(2) - A.row(3);
    const Eigen::VectorXd exact = solve(with_rows(x, A, Eigen::VectorXd::Zero(6))).vdot;
    for (double& a : A.reshaped()) a += noise * random.uniform();
    ConstraintFactorization solver;
    const ConstrainedProblem drifted = with_rows(x, A, Eigen::VectorXd::Zero(6));
    const Acceleration y = solve(drifted);
    EXPECT_EQ(y.rank, 4);
    EXPECT_LE(norm_inf(y.vdot - exact), 100 * noise);
    EXPECT_EQ(y.redundant.size(), 6u);
  }
}

TEST(Solve, RowsScaledOverTwelveDecades) {
  ConstrainedProblem x = diagonal({1, 2, 3}, {1, -1, 2});
  add_row(x, "a", vector({1, 2, 3}), 1);
  add_row(x, "b", vector({0, 1, -1}), 2);
  const Acceleration plain = solve(x);
  add_row(x, "c", vector({1, 3, 2}), 3);
  const std::array<double, 3> scales = {1e6, 1e-6, 1};
  Eigen::MatrixXd A = constraint_matrix(x);
  Eigen::VectorXd b = vector(x.b);
  for (int turn = 0; turn < 3; ++turn) {
    Eigen::VectorXd s(3);
    for (int i = 0; i < 3; ++i) s[i] = scales[static_cast<std::size_t>((i + turn) % 3)];
    const Acceleration y = solve(with_rows(x, s.asDiagonal() * A, s.asDiagonal() * b));
    EXPECT_LE(error(y.vdot, plain.vdot), tol_rounding(10));
    EXPECT_LE(error(y.ideal, plain.ideal), tol_rounding(10));
    EXPECT_EQ(y.status, Status::redundant);
  }
}

// A structure at rest: b and A a cancel, and what is left is rounding in every direction. No contradiction (T6).
TEST(Solve, EquilibriumIsNotContradictory) {
  ConstrainedProblem x = diagonal({3, 3, 3}, {3 * 0.1, -3 * 9.81, 3 * 0.7});
  const Eigen::VectorXd a = vector({0.1, -9.81, 0.7});
  for (int i = 0; i < 5; ++i) {
    const Eigen::VectorXd row = vector({std::cos(i), std::sin(1.3 * i), 1.0 / (i + 1)});
    add_row(x, "bar " + std::to_string(i), row, row.dot(a));
  }
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::redundant);
  EXPECT_LE(norm_inf(y.ideal), tol_rounding(30));
}

// ---- invalid data: named, never thrown, no numbers
// ---------------------------------------------------------------------

void expect_invalid(const ConstrainedProblem& x, const std::string& says) {
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::invalid);
  EXPECT_NE(y.reason.find(says), std::string::npos) << y.reason;
  EXPECT_EQ(y.reason, x.invalid().empty() ? y.reason : x.invalid());
  EXPECT_EQ(y.vdot.size(), 0);
}

TEST(Solve, InvalidDataIsNamed) {
  ConstrainedProblem good = diagonal({1, 2}, {1, 1});
  add_row(good, "rod", vector({1, 1}), 1);
  EXPECT_EQ(good.invalid(), "");
  ConstrainedProblem x = good;
  x.mass[1] = -2;
  expect_invalid(x, "mass_blocks[1] is not positive definite");
  x = good;
  x.mass[1] = 0;
  expect_invalid(x, "mass_blocks[1] is not positive definite");
  x = good;
  x.mass[0] = nan;
  expect_invalid(x, "mass_blocks[0]");
  x = good;
  x.Q[1] = nan;
  expect_invalid(x, "Q[1] is not a number");
  x = good;
  x.c[0] = std::numeric_limits<double>::infinity();
  expect_invalid(x, "c[0] is infinite");
  x = good;
  x.b[0] = nan;
  expect_invalid(x, "rod");
  x = good;
  x.entries[1].value = nan;
  expect_invalid(x, "rod");
  x = good;
  x.entries[1].column = 7;
  expect_invalid(x, "outside");
  x = good;
  x.entries[1].column = 0;
  expect_invalid(x, "ascending");
  x = good;
  x.c.pop_back();
  expect_invalid(x, "c and Q");
  x = good;
  x.row_constraint[0] = 3;
  expect_invalid(x, "row_constraint");
  x = good;
  add_row(x, "twin", vector({1, 0}), 0);
  x.constraints[1] = "rod";
  expect_invalid(x, "\"rod\"");
  x = good;
  x.entries[0].value = 1e300;
  x.b[0] = 1e308;
  x.mass[0] = 1e-300;
  expect_invalid(x, "double precision");
}

TEST(Solve, MassThatIsNotSymmetric) {
  ConstrainedProblem x;
  Eigen::MatrixXd M(2, 2);
  M << 2, 0.5, 0.4, 2;
  add_block(x, M);
  expect_invalid(x, "not symmetric");
  M << 1, 1, 1, 1;  // singular
  ConstrainedProblem y;
  add_block(y, M);
  expect_invalid(y, "not positive definite");
}

// M of rank n − 1, computed: rounding gives the missing direction a pivot of its own, above or below zero, which may
// not pass for inertia.
TEST(Solve, ASingularMassIsSeenThroughItsRounding) {
  for (const auto seed : seeds(300)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const int n = random.integer(2, 6);
    Eigen::MatrixXd M = Eigen::MatrixXd::Zero(n, n), A(1, n);
    for (int k = 0; k + 1 < n; ++k) {
      Eigen::VectorXd w(n);
      for (int j = 0; j < n; ++j) w[j] = random.uniform(-1, 1) * std::pow(10, random.uniform(-1, 1));
      const double mass = random.uniform(0.1, 3);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) M(i, j) += mass * (w[i] * w[j]);
    }
    for (int j = 0; j < n; ++j) A(0, j) = random.uniform(-1, 1);
    const double b = random.uniform(-1, 1);
    Eigen::VectorXd pushed(n);
    for (int j = 0; j < n; ++j) pushed[j] = random.uniform(-1, 1);
    const Eigen::VectorXd Q = M * pushed;
    ConstrainedProblem x;
    add_block(x, M);
    x.Q.assign(Q.data(), Q.data() + n);
    EXPECT_NE(x.invalid(), "");  // without a row that completes it
    add_row(x, "link", A.row(0).transpose(), b);
    ASSERT_EQ(x.invalid(), "");
    // M v̇ = Q + Aᵀλ with Q in the range of M: v̇ is `pushed` but for the direction u without inertia, λ = 0.
    Eigen::FullPivLU<Eigen::MatrixXd> lu(M);
    lu.setThreshold(1e-12);
    const Eigen::VectorXd u = lu.kernel().col(0);
    const Eigen::VectorXd expected = pushed + u * ((b - A.row(0).dot(pushed)) / A.row(0).dot(u));
    for (const Backend backend : {Backend::automatic, Backend::dense}) {
      SolveOptions options;
      options.backend = backend;
      const Acceleration y = solve(x, options);
      ASSERT_EQ(y.status, Status::ok) << y.reason;
      EXPECT_LE((y.vdot - expected).norm(), scaled(1e-8) * (1 + expected.norm()));
    }
  }
}

// Small inertia is not none: twelve decades apart, and nearly dependent to eleven digits.
TEST(Solve, SmallInertiaIsKept) {
  Eigen::MatrixXd M(2, 2);
  M << 1e12, 0, 0, 1e-12;
  ConstrainedProblem x;
  add_block(x, M);
  x.Q = {1, 1};
  EXPECT_EQ(x.invalid(), "");
  EXPECT_LE(error(solve(x).vdot, vector({1e-12, 1e12})), tol_rounding());
  M << 1, 1, 1, 1 + 1e-11;
  ConstrainedProblem y;
  add_block(y, M);
  y.Q = {1, 1};
  EXPECT_EQ(y.invalid(), "");
}

// Both paths say how near the rows are to dependence: two rows at an angle of θ leave sin²θ.
TEST(Solve, TheSmallestPivotOfBothPaths) {
  for (const double angle : {0.5, 1e-2, 1e-4}) {
    ConstrainedProblem x = diagonal({1, 1, 1}, {0, 0, 0});
    add_row(x, "first", vector({1, 0, 0}), 0);
    add_row(x, "second", vector({std::cos(angle), std::sin(angle), 0}), 0);
    for (const Backend backend : {Backend::automatic, Backend::dense}) {
      SolveOptions options;
      options.backend = backend;
      ConstraintFactorization solver(options);
      ASSERT_TRUE(solver.factor(x));
      EXPECT_NEAR(solver.info().smallest_pivot / std::pow(std::sin(angle), 2), 1, scaled(1e-6));
    }
  }
}

// T-SINGM: M of rank 2, and a row that supplies the third (Udwadia and Phohomsiri 2006).
TEST(Solve, ASingularMassIsCompletedByTheRows) {
  Eigen::MatrixXd M(3, 3);
  M << 1, 0, 0, 0, 2, 2, 0, 2, 2;
  ConstrainedProblem x;
  add_block(x, M);
  x.Q = {-3, 0, 4};
  add_row(x, "link", vector({1, -1, 0}), 0);
  for (const Backend backend : {Backend::automatic, Backend::dense}) {
    SolveOptions options;
    options.backend = backend;
    const Acceleration y = solve(x, options);
    ASSERT_EQ(y.status, Status::ok) << y.reason;
    EXPECT_LE((y.vdot - vector({-7, -7, 9})).norm(), scaled(1e-13));
    EXPECT_LE((y.ideal - vector({-4, 4, 0})).norm(), scaled(1e-13));
    EXPECT_NEAR(y.lambda[0], -4, scaled(1e-13));
  }
  // The row twice, the second of another length: the same motion, and λ the shortest.
  add_row(x, "again", vector({3, -3, 0}), 0);
  const Acceleration twice = solve(x);
  EXPECT_EQ(twice.status, Status::redundant);
  EXPECT_LE((twice.vdot - vector({-7, -7, 9})).norm(), scaled(1e-12));
  EXPECT_LE((twice.lambda - vector({-0.4, -1.2})).norm(), scaled(1e-12));

  // A row that says nothing of the direction without inertia completes nothing; nor does any an M that is not one.
  ConstrainedProblem other;
  add_block(other, M);
  add_row(other, "fixed", vector({1, 0, 0}), 0);
  expect_invalid(other, "not positive definite");
  M << 1, 0, 0, 0, 2, 2, 0, 2, 1;
  ConstrainedProblem wrong;
  add_block(wrong, M);
  add_row(wrong, "link", vector({1, -1, 0}), 0);
  expect_invalid(wrong, "not positive definite");
}

// Two coordinates that share one inertia, and random rows: as the form of Udwadia and Phohomsiri, [(I − A⁺A)M; A]⁺[Q;
// b], says.
TEST(Solve, SingularMassesAgreeWithTheFormOfUdwadiaAndPhohomsiri) {
  std::srand(1);
  for (int k = 0; k < 50; ++k) {
    const int n = 5, m = 2;
    const Eigen::MatrixXd F = Eigen::MatrixXd::Random(3, 3), A = Eigen::MatrixXd::Random(m, n);
    Eigen::MatrixXd M = Eigen::MatrixXd::Zero(n, n);
    M.topLeftCorner(3, 3) = F * F.transpose() + Eigen::MatrixXd::Identity(3, 3);
    M.bottomRightCorner(2, 2).setConstant(0.1 + 0.3 * k);
    const Eigen::VectorXd Q = Eigen::VectorXd::Random(n), b = Eigen::VectorXd::Random(m);
    ConstrainedProblem x;
    add_block(x, M);
    x.Q.assign(Q.data(), Q.data() + n);
    for (int r = 0; r < m; ++r) add_row(x, "row" + std::to_string(r), A.row(r).transpose(), b[r]);
    Eigen::MatrixXd K(n + m, n);
    K << (Eigen::MatrixXd::Identity(n, n) - A.completeOrthogonalDecomposition().pseudoInverse() * A) * M, A;
    Eigen::VectorXd right(n + m);
    right << (Eigen::MatrixXd::Identity(n, n) - A.completeOrthogonalDecomposition().pseudoInverse() * A) * Q, b;
    const Eigen::VectorXd vdot = K.completeOrthogonalDecomposition().solve(right);
    const Acceleration y = solve(x);
    ASSERT_EQ(y.status, Status::ok) << y.reason;
    EXPECT_LE((y.vdot - vdot).norm(), scaled(1e-8) * (1 + vdot.norm()));
    EXPECT_LE((M * y.vdot - Q - y.ideal).norm(), scaled(1e-8) * (1 + vdot.norm()));
  }
}

TEST(Solve, OptionsOutOfRangeAreRefused) {
  ConstrainedProblem x = diagonal({1}, {1});
  EXPECT_EQ(solve(x, {.rank_tolerance = nan}).status, Status::invalid);
  EXPECT_EQ(solve(x, {.rank_tolerance = -1}).status, Status::invalid);
  EXPECT_EQ(solve(x, {.rank_tolerance = 1}).status, Status::invalid);
  EXPECT_EQ(solve(x, {.rank_tolerance = 0}).status, Status::ok);
}

// ---- the keeper
// --------------------------------------------------------------------------------------------------------

TEST(ConstraintFactorization, RefusesWhatItCannotFactorAndRecovers) {
  ConstrainedProblem x = diagonal({1, 2}, {1, 1});
  add_row(x, "rod", vector({1, 1}), 1);
  ConstraintFactorization solver;
  ConstrainedProblem bad = x;
  bad.mass[0] = -1;
  EXPECT_FALSE(solver.factor(bad));
  bad = x;
  bad.entries[0].value = nan;
  EXPECT_FALSE(solver.factor(bad));
  bad = x;
  bad.row_start.pop_back();
  EXPECT_FALSE(solver.factor(bad));
  EXPECT_TRUE(solver.factor(x));
  EXPECT_EQ(solver.rows(), 1);
  EXPECT_EQ(solver.columns(), 2);
  EXPECT_TRUE(solver.full_row_rank());
}

TEST(ConstraintFactorization, MayWriteOverItsInput) {
  ConstrainedProblem x = diagonal({1, 2}, {0, 0});
  add_row(x, "rod", vector({1, 1}), 0);
  ConstraintFactorization solver;
  ASSERT_TRUE(solver.factor(x));
  std::vector<double> e = {3}, f = {2, 2};
  solver.apply(e, e, {}, {});
  EXPECT_NEAR(e[0], 2, tol_rounding());
  solver.inverse_mass(f, f);
  EXPECT_LE(error(vector(f), vector({2, 1})), tol_rounding());
}

TEST(ConstraintFactorization, SaysHowMuchLiesOutside) {
  ConstrainedProblem x = diagonal({1}, {0});
  add_row(x, "a", vector({1}), 0);
  add_row(x, "b", vector({1}), 0);
  ConstraintFactorization solver;
  ASSERT_TRUE(solver.factor(x));
  EXPECT_NEAR(solver.apply(std::vector<double>{1, 3}, {}, {}, {}), 1.0 / 3, tol_rounding());
  EXPECT_LE(solver.apply(std::vector<double>{2, 2}, {}, {}, {}), tol_rounding());
  EXPECT_EQ(solver.apply(std::vector<double>{0, 0}, {}, {}, {}), 0);
  // As a difference of larger terms it is their rounding.
  const std::vector<double> scale = {1e9, 1e9};
  EXPECT_NEAR(solver.apply(std::vector<double>{1, 3}, {}, {}, {}, scale), 1e-9, 1e-15);
}

TEST(ConstraintFactorization, SmallerAndLargerProblemsInTurn) {
  ConstraintFactorization solver;
  Random random(9);
  for (int turn = 0; turn < 30; ++turn) {
    const ConstrainedProblem x = random_instant(random);
    ASSERT_TRUE(solver.factor(x));
    std::vector<double> dv(x.Q.size());
    solver.apply(x.b, {}, {}, dv);
    if (x.m() > 0) {
      EXPECT_LE(norm_inf(constraint_matrix(x) * vector(dv) - vector(x.b)), scaled(1e-11) * (1 + norm_inf(vector(dv))));
    }
  }
}

TEST(ConstraintFactorization, WarmTallWorkStaysOffTheHeap) {
  Random random(2);
  ConstrainedProblem x;
  for (int k = 0; k < 4; ++k) add_block(x, random_spd(random, 6, 10));
  Eigen::MatrixXd A(60, 24);
  for (double& a : A.reshaped()) a = random.uniform();
  x = with_rows(x, A, A * Eigen::VectorXd::Ones(24));
  ConstraintFactorization solver;
  ASSERT_TRUE(solver.factor(x));
  std::vector<double> lambda(60), force(24), dv(24);
  const AllocationCounter allocations;
  ASSERT_TRUE(solver.factor(x));
  solver.apply(x.b, lambda, force, dv, x.b);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_LE(error(vector(dv), Eigen::VectorXd::Ones(24)), tol_rounding());
}

TEST(Solve, WordsForStatusAndPath) {
  EXPECT_STREQ(to_string(Status::ok), "ok");
  EXPECT_STREQ(to_string(Status::redundant), "redundant");
  EXPECT_STREQ(to_string(Status::contradictory), "contradictory");
  EXPECT_STREQ(to_string(Status::invalid), "invalid");
  EXPECT_STREQ(to_string(Backend::automatic), "auto");
  EXPECT_STREQ(to_string(Backend::dense), "dense");
  EXPECT_STREQ(to_string(Backend::sparse), "sparse");
}

}  // namespace
}  // namespace linchpin::test::solve_test
