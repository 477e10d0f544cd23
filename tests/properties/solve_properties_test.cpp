// The laws that every answer of solve obeys (end of docs/explanation/theory.md), over seeded random problems with M ≠
// I.
#include "allocation_counter.h"
#include "instants.h"
#include "random.h"
#include "tolerances.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace linchpin::test::solve_properties_test {
namespace {

constexpr int cases = 250;

double tol_law() { return scaled(1e-11); }  // condition numbers stay below some thousand
double tol_rows() { return scaled(1e-10); }

// A law that fails leaves its problem behind; moved to tests/regression/instants it becomes the test of the fix.
class SolveLaw : public testing::Test {
 protected:
  void check(const ConstrainedProblem& x, std::uint64_t seed) {
    if (!HasFailure() || saved_) return;
    saved_ = true;
    const std::string file = LINCHPIN_FAILURES_DIR "/failed-instant-" + std::to_string(seed) + ".json";
    std::ofstream(file) << write_json(x);
    std::printf("the problem is in %s\n", file.c_str());
  }

 private:
  bool saved_ = false;
};

Eigen::VectorXd wiggle(Random& random, Eigen::Index size) {
  Eigen::VectorXd x(size);
  for (double& xi : x) xi = random.uniform();
  return x;
}

TEST_F(SolveLaw, ObeysTheRowsAndNewton) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    const Acceleration y = solve(x);
    ASSERT_EQ(y.status, Status::ok) << y.reason;
    const Eigen::MatrixXd M = mass_matrix(x), A = constraint_matrix(x);
    const double size = std::max(1.0, norm_inf(y.vdot));
    EXPECT_LE(norm_inf(A * y.vdot - vector(x.b)), tol_law() * size);
    EXPECT_NEAR(y.residual, norm_inf(A * y.vdot - vector(x.b)), tol_law() * size);  // its own report, recomputed
    const double force = std::max(10.0, norm_inf(y.ideal));
    EXPECT_LE(norm_inf(M * y.vdot - vector(x.Q) - y.ideal - y.nonideal), tol_law() * force);
    EXPECT_LE(norm_inf(A.transpose() * y.lambda - y.ideal), tol_law() * force);
    EXPECT_EQ(y.rank, x.m());
    check(x, seed);
  }
}

TEST_F(SolveLaw, GaussAndDAlembert) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    ConstrainedProblem x = random_instant(random);
    const Acceleration with_c = solve(x);
    const Eigen::VectorXd c = vector(x.c);
    std::fill(x.c.begin(), x.c.end(), 0.0);
    const Acceleration y = solve(x);
    const Eigen::MatrixXd M = mass_matrix(x), A = constraint_matrix(x), W = virtual_displacements(A);
    if (W.cols() == 0) continue;
    const double force = std::max(10.0, norm_inf(y.ideal));
    // The ideal force does no virtual work; the nonideal one that of c; and the first does not know of the second.
    EXPECT_LE(norm_inf(W.transpose() * y.ideal), tol_law() * force);
    EXPECT_LE(norm_inf(W.transpose() * (with_c.nonideal - c)), tol_law() * force);
    EXPECT_LE(norm_inf(with_c.ideal - y.ideal), tol_law() * force);
    // No admissible variation lowers (v̇ − a)ᵀM(v̇ − a).
    const Eigen::VectorXd a = solve_spd(M, vector(x.Q));
    const auto gauss = [&](const Eigen::VectorXd& vdot) { return (vdot - a).dot(M * (vdot - a)); };
    const double least = gauss(y.vdot);
    for (int turn = 0; turn < 5; ++turn) {
      const Eigen::VectorXd w = W * wiggle(random, W.cols());
      EXPECT_GE(gauss(y.vdot + w) - least, w.dot(M * w) * (1 - 1e-6) - tol_law() * std::max(1.0, least));
    }
    check(x, seed);
  }
}

TEST_F(SolveLaw, AgreesWithElimination) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    const Eigen::VectorXd other = acceleration_by_elimination(x);
    EXPECT_LE(norm_inf(solve(x).vdot - other), scaled(1e-10) * std::max(1.0, norm_inf(other)));
    check(x, seed);
  }
}

// Rows added that say nothing new, recombined with condition ≤ 100, then scaled over twelve decades: motion and forces
// stay, and the multipliers still make them.
TEST_F(SolveLaw, RedundantRecombinedAndScaledRowsChangeNothing) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    if (x.m() == 0) continue;
    const Acceleration y = solve(x);
    const int m = x.m(), more = random.integer(0, m + 2);
    Eigen::MatrixXd mix = Eigen::MatrixXd::Zero(m + more, m);
    mix.topRows(m) = random_spd(random, m, 100);
    for (int r = 0; r < more; ++r) {
      if (random.coin()) {
        mix.row(m + r) = mix.row(random.integer(0, m - 1));
      } else {
        mix.row(m + r) = wiggle(random, m).transpose();
      }
    }
    Eigen::VectorXd scale(m + more);
    for (double& s : scale) s = std::pow(10.0, random.uniform(-6, 6));
    mix = scale.asDiagonal() * mix;
    const ConstrainedProblem z = with_rows(x, mix * constraint_matrix(x), mix * vector(x.b));
    const Acceleration other = solve(z);
    EXPECT_EQ(other.rank, m);
    EXPECT_EQ(other.status, more > 0 ? Status::redundant : Status::ok) << other.reason;
    EXPECT_LE(error(other.vdot, y.vdot), tol_rows());
    EXPECT_LE(norm_inf(other.ideal - y.ideal), tol_rows() * std::max(10.0, norm_inf(y.ideal)));
    EXPECT_LE(norm_inf(other.nonideal - y.nonideal), tol_rows() * std::max(10.0, norm_inf(y.nonideal)));
    // The shortest multipliers may pull long, nearly dependent rows against each other: rounding of the sum's terms
    // counts.
    const Eigen::MatrixXd At = constraint_matrix(z).transpose();
    const double terms = norm_inf(At.cwiseAbs() * other.lambda.cwiseAbs());
    EXPECT_LE(norm_inf(At * other.lambda - y.ideal),
              tol_rows() * std::max(10.0, norm_inf(y.ideal)) + tol_rounding(terms));
    check(z, seed);
  }
}

// Least norm in the rows as given: no other multipliers make the same force with less.
TEST_F(SolveLaw, MultipliersAreTheShortest) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    if (x.m() == 0) continue;
    Eigen::MatrixXd mix(2 * x.m(), x.m());
    mix << Eigen::MatrixXd::Identity(x.m(), x.m()), 3 * random_spd(random, x.m(), 10);
    const ConstrainedProblem z = with_rows(x, mix * constraint_matrix(x), mix * vector(x.b));
    const Acceleration y = solve(z);
    const Eigen::MatrixXd idle = virtual_displacements(constraint_matrix(z).transpose());  // Aᵀ idle = 0
    EXPECT_LE(norm_inf(idle.transpose() * y.lambda), tol_rows() * std::max(1.0, norm_inf(y.lambda)));
    check(z, seed);
  }
}

TEST_F(SolveLaw, ContradictoryRowsGiveLeastSquaresInTheRowsAsGiven) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    ConstrainedProblem x = random_instant(random);
    if (x.m() == 0) continue;
    Eigen::MatrixXd mix(2 * x.m(), x.m());
    mix << Eigen::MatrixXd::Identity(x.m(), x.m()), random_spd(random, x.m(), 10);
    Eigen::VectorXd b = mix * vector(x.b) + wiggle(random, 2 * x.m());
    const ConstrainedProblem z = with_rows(x, mix * constraint_matrix(x), b);
    const Acceleration y = solve(z);
    EXPECT_EQ(y.status, Status::contradictory);
    EXPECT_FALSE(y.contradictory.empty());
    const Eigen::MatrixXd A = constraint_matrix(z);
    const Eigen::VectorXd residual = A * y.vdot - b;
    EXPECT_LE(norm_inf(A.transpose() * residual), tol_rows() * std::max(1.0, norm_inf(b)) * A.norm());
    check(z, seed);
  }
}

TEST_F(SolveLaw, OrderOfRowsAndColumnsDoesNotMatter) {
  for (const auto seed : seeds(cases)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    const Acceleration y = solve(x);
    // Blocks of M in reverse, rows shuffled.
    std::vector<int> first(x.block_sizes.size());
    std::exclusive_scan(x.block_sizes.begin(), x.block_sizes.end(), first.begin(), 0);
    const Eigen::MatrixXd M = mass_matrix(x), A = constraint_matrix(x);
    ConstrainedProblem z;
    std::vector<int> from;  // column of x that is column j of z
    for (std::size_t k = x.block_sizes.size(); k-- > 0;) {
      add_block(z, M.block(first[k], first[k], x.block_sizes[k], x.block_sizes[k]));
      for (int j = 0; j < x.block_sizes[k]; ++j) from.push_back(first[k] + j);
    }
    for (std::size_t j = 0; j < from.size(); ++j) {
      z.Q[j] = x.Q[static_cast<std::size_t>(from[j])];
      z.c[j] = x.c[static_cast<std::size_t>(from[j])];
    }
    std::vector<int> row(static_cast<std::size_t>(x.m()));
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = row.size(); i > 1; --i)
      std::swap(row[i - 1], row[static_cast<std::size_t>(random.integer(0, static_cast<int>(i) - 1))]);
    const ConstrainedProblem shuffled = with_rows(z, A(row, from), vector(x.b)(row));
    const Acceleration other = solve(shuffled);
    EXPECT_LE(norm_inf(other.vdot - y.vdot(from)), tol_rows() * std::max(1.0, norm_inf(y.vdot)));
    EXPECT_LE(norm_inf(other.lambda - y.lambda(row)), tol_rows() * std::max(1.0, norm_inf(y.lambda)));
    EXPECT_EQ(other.status, y.status);
    check(x, seed);
  }
}

// Tall systems are reduced by another route first; it must not show.
TEST_F(SolveLaw, TallSystemsAgreeWithElimination) {
  for (const double spread : {0.0, 5.0}) {  // decades of row scales: past three the other route is left again
    Random random(7);
    ConstrainedProblem x;
    for (int k = 0; k < 20; ++k) add_block(x, std::pow(10.0, random.uniform(-1, 1)) * random_spd(random, 6, 10));
    for (double& q : x.Q) q = random.uniform(-10, 10);
    for (double& c : x.c) c = random.uniform(-5, 5);
    const Eigen::VectorXd v = wiggle(random, x.n());  // rows are consistent because v meets them all
    for (int k = 0; k < 50; ++k) {
      const int a = random.integer(0, 18), b = random.integer(a + 1, 19);
      for (int r = 0; r < 6; ++r) {
        Eigen::VectorXd row = Eigen::VectorXd::Zero(x.n());
        row.segment(6 * a, 6) = wiggle(random, 6);
        row.segment(6 * b, 6) = -row.segment(6 * a, 6);  // internal: the six common motions stay free
        row *= std::pow(10.0, random.uniform(-spread / 2, spread / 2));
        add_row(x, "weld " + std::to_string(k), row, row.dot(v));
      }
    }
    ASSERT_GE(x.m(), 2 * x.n());
    const Acceleration y = solve(x);
    EXPECT_EQ(y.rank, 114);
    EXPECT_EQ(y.status, Status::redundant);
    EXPECT_GE(y.redundant.size(), 45u);  // a body that hangs on one weld alone makes that one needed
    EXPECT_TRUE(y.contradictory.empty());
    const Eigen::VectorXd other = acceleration_by_elimination(x);
    EXPECT_LE(error(y.vdot, other), tol_rows());
    const Eigen::MatrixXd A = constraint_matrix(x);
    EXPECT_LE(error(A.transpose() * y.lambda, y.ideal), tol_rows());

    Eigen::VectorXd b = vector(x.b);
    b += wiggle(random, b.size());
    x.b.assign(b.begin(), b.end());
    const Acceleration torn = solve(x);
    EXPECT_EQ(torn.status, Status::contradictory);
    const Eigen::VectorXd residual = A * torn.vdot - b;
    EXPECT_LE(norm_inf(A.transpose() * residual), tol_rows() * A.norm() * norm_inf(residual));
  }
}

TEST_F(SolveLaw, NothingIsAllocatedOnceWarm) {
  for (const auto seed : seeds(40)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    ConstrainedProblem x = random_instant(random);
    if (random.coin() && x.m() > 0) {
      Eigen::MatrixXd twice(2 * x.m(), x.n());
      twice << constraint_matrix(x), constraint_matrix(x);
      Eigen::VectorXd b(2 * x.m());
      b << vector(x.b), vector(x.b);
      x = with_rows(x, twice, b);
    }
    ConstraintFactorization solver;
    std::vector<double> lambda(x.b.size()), force(x.Q.size()), dv(x.Q.size());
    ASSERT_TRUE(solver.factor(x));
    const AllocationCounter allocations;
    ASSERT_TRUE(solver.factor(x));
    solver.apply(x.b, lambda, force, dv);
    solver.inverse_mass(x.Q, dv);
    EXPECT_EQ(allocations.count(), 0u);
  }
}

TEST_F(SolveLaw, SameBitsEveryTime) {
  Random random(3);
  const ConstrainedProblem x = random_instant(random), y = random_instant(random);
  ConstraintFactorization used, fresh;
  ASSERT_TRUE(used.factor(y));  // what was there before leaves no trace
  ASSERT_TRUE(used.factor(x));
  ASSERT_TRUE(fresh.factor(x));
  std::vector<double> a(x.Q.size()), b(x.Q.size());
  used.apply(x.b, {}, {}, a);
  fresh.apply(x.b, {}, {}, b);
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace linchpin::test::solve_properties_test
