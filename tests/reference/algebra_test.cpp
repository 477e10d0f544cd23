// Closed forms at one instant: the seed papers' examples with M ≠ I, redundant and contradictory rows, degenerate rows.
// Numbers from docs/explanation/theory.md's sources; where a paper misprints, the right number stands here and the
// wrong one is named.
#include "instants.h"
#include "tolerances.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace linchpin::test::algebra_test {
namespace {

constexpr double g = 9.81;

double tol_algebra() { return scaled(1e-12); }

void expect_near(const Eigen::VectorXd& x, std::initializer_list<double> expected, const char* what) {
  EXPECT_LE(error(x, vector(expected)), tol_algebra()) << what << " " << x.transpose();
}

using Names = std::vector<std::string>;

// One row, three unequal masses. Printed as M^-½(AM^½)⁺ the force would be (0.0085, 0.0170, 0.0255): invisible with M =
// I.
TEST(Algebra, ExponentsOfTheMassMatrix) {
  ConstrainedProblem x = diagonal({1, 4, 9}, {1, -2, 0.5});
  add_row(x, "plane", vector({1, 2, 3}), 1);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::ok) << y.reason;
  expect_near(y.ideal, {5.0 / 18, 5.0 / 9, 5.0 / 6}, "ideal");
  expect_near(y.lambda, {5.0 / 18}, "lambda");
  expect_near(y.vdot, {23.0 / 18, -13.0 / 36, 4.0 / 27}, "vdot");
  EXPECT_EQ(y.rank, 1);
  EXPECT_LE(y.residual, tol_algebra());
}

// Bead on a unit circle, x₂ up: force m (g x₂ − v²) x / |x|². With m = 3 the misprinted form would be nine times too
// small.
TEST(Algebra, BeadOnACircleOfMassThree) {
  ConstrainedProblem x = diagonal({3, 3}, {0, -3 * g});
  add_row(x, "circle", vector({0.6, -0.8}), -(1.6 * 1.6 + 1.2 * 1.2));
  expect_near(solve(x).ideal, {-21.3264, 28.4352}, "ideal");
}

// The same bead with m = 1 and friction 0.3 |Q^N| against v: c is tangent, so that it acts whole.
TEST(Algebra, BeadWithFriction) {
  ConstrainedProblem x = diagonal({1, 1}, {0, -g});
  add_row(x, "circle", vector({0.6, -0.8}), -4);
  const Acceleration free = solve(x);
  expect_near(free.ideal, {-7.1088, 9.4784}, "ideal");
  const Eigen::VectorXd c = -0.3 * free.ideal.norm() * vector({1.6, 1.2}) / 2.0;
  x.c = {c[0], c[1]};
  const Acceleration y = solve(x);
  expect_near(y.nonideal, {-2.84352, -2.13264}, "nonideal");
  expect_near(y.vdot, {-9.95232, -2.46424}, "vdot");
  expect_near(y.ideal, {-7.1088, 9.4784}, "ideal");
}

// Particle on the line k x₁ = x₂ with c = (1, 2): only the part of c along the line acts.
TEST(Algebra, NonidealForceOnALine) {
  for (const double k : {3.0, -0.5, 0.75, -1.5, 0.0}) {
    SCOPED_TRACE("k = " + std::to_string(k));
    ConstrainedProblem x = diagonal({1, 1}, {0, -g});
    x.c = {1, 2};
    add_row(x, "line", vector({k, -1}), 0);
    const Acceleration y = solve(x);
    const double s = k * k + 1;
    expect_near(y.ideal, {-g / s * k, g / s}, "ideal");
    EXPECT_LE(norm_inf(y.nonideal - (1 + 2 * k) / s * vector({1, k})), tol_algebra());
    expect_near(y.vdot, {(1 + 2 * k - g * k) / s, k * (1 + 2 * k - g * k) / s}, "vdot");
    EXPECT_NEAR((y.ideal + y.nonideal).dot(vector({1, k})), 1 + 2 * k, tol_algebra());
  }
}

struct Pendulum {  // y down; m = 2 kg, l = 1.5 m, 0.7 rad from the vertical, 1.3 rad/s
  double X = 1.5 * std::sin(0.7), Y = 1.5 * std::cos(0.7), b = -1.5 * 1.5 * 1.3 * 1.3;
  ConstrainedProblem without_rows = diagonal({2, 2}, {0, 2 * g});
};

TEST(Algebra, PendulumTension) {
  const Pendulum p;
  ConstrainedProblem x = p.without_rows;
  add_row(x, "rod", vector({p.X, p.Y}), p.b);
  const Acceleration y = solve(x);
  expect_near(y.ideal, {-12.933445525481895, -15.355127561383734}, "ideal");
  EXPECT_NEAR(y.ideal.norm(), 20.076203714521668, 20 * tol_algebra());
  expect_near(y.lambda, {-13.384135809681112}, "lambda");
  // The multiplier belongs to the row and not to the rod: half as large for x² + y² = l².
  ConstrainedProblem twice = p.without_rows;
  add_row(twice, "rod", vector({2 * p.X, 2 * p.Y}), 2 * p.b);
  expect_near(solve(twice).lambda, {-6.692067904840556}, "lambda");
  expect_near(solve(twice).ideal, {-12.933445525481895, -15.355127561383734}, "ideal");
}

TEST(Algebra, MassWeightsTheProjection) {
  ConstrainedProblem x = diagonal({1, 4}, {0, 0});
  add_row(x, "sum", vector({1, 1}), 1);
  const Acceleration y = solve(x);
  expect_near(y.vdot, {0.8, 0.2}, "vdot");  // A⁺b alone would say (0.5, 0.5)
  expect_near(y.ideal, {0.8, 0.8}, "ideal");
}

TEST(Algebra, NonidealForceIsProjectedInTheMassMetric) {
  ConstrainedProblem x = diagonal({1, 2, 5}, {0, 0, 0});
  add_row(x, "plane", vector({1, -1, 2}), 0);
  x.c = {3, -3, 6};  // 3 Aᵀ: annihilated
  EXPECT_LE(norm_inf(solve(x).nonideal), 10 * tol_algebra());
  x.c = {1, 2, 0};  // M (1, 1, 0) with A (1, 1, 0) = 0: acts whole
  expect_near(solve(x).nonideal, {1, 2, 0}, "nonideal");
}

TEST(Algebra, RowsRepeatedWithFactors) {
  const Pendulum p;
  ConstrainedProblem x = p.without_rows;
  int i = 0;
  for (const double f : {1.0, 1.0, 10.0, 0.0})
    add_row(x, "row " + std::to_string(i++), f * vector({p.X, p.Y}), f * p.b);
  const Acceleration y = solve(x);
  EXPECT_EQ(y.status, Status::redundant);
  EXPECT_EQ(y.rank, 1);
  expect_near(y.ideal, {-12.933445525481895, -15.355127561383734}, "ideal");
  expect_near(y.lambda, {-0.1312170177419717, -0.1312170177419717, -1.312170177419717, 0}, "lambda");
  EXPECT_EQ(y.redundant, (Names{"row 0", "row 1", "row 2", "row 3"}));
  EXPECT_EQ(y.undetermined, (Names{"row 0", "row 1", "row 2"}));  // a zero row has no reaction to leave open
}

// A plate of 100 N on four legs, its centre off the middle; z up, [v_z; ω_x; ω_y]. Least norm, whatever the inertia.
TEST(Algebra, PlateOnFourLegs) {
  for (const double inertia : {0.3, 5.0}) {
    ConstrainedProblem x = diagonal({100 / g, inertia, 2 * inertia}, {-100, 0, 0});
    const double px = 0.2, py = -0.1;
    for (const auto& [sx, sy, name] :
         {std::tuple{1, 1, "front left"}, {-1, 1, "back left"}, {-1, -1, "back right"}, {1, -1, "front right"}}) {
      add_row(x, name, vector({1, sy * 0.4 - py, -(sx * 0.6 - px)}), 0);
    }
    const Acceleration y = solve(x);
    expect_near(y.lambda, {27.083333333333336, 10.416666666666666, 22.916666666666664, 39.583333333333336}, "lambda");
    EXPECT_EQ(y.status, Status::redundant);
    EXPECT_EQ(y.rank, 3);
    EXPECT_EQ(y.undetermined, (Names{"front left", "back left", "back right", "front right"}));
    EXPECT_TRUE(y.contradictory.empty());
    EXPECT_LE(norm_inf(y.vdot), tol_algebra());
  }
}

TEST(Algebra, ContradictoryRowsAreWeightedByTheirScale) {
  ConstrainedProblem x = diagonal({1}, {0});
  add_row(x, "one", vector({1}), 1);
  ConstrainedProblem y = x;
  add_row(x, "three", vector({1}), 3);
  expect_near(solve(x).vdot, {2}, "vdot");
  add_row(y, "three", vector({2}), 6);
  const Acceleration answer = solve(y);
  expect_near(answer.vdot, {2.6}, "vdot");
  EXPECT_EQ(answer.status, Status::contradictory);
  EXPECT_EQ(answer.contradictory, (Names{"one", "three"}));
  EXPECT_NEAR(answer.residual, 1.6, tol_algebra());
}

// ẋ² + ẏ² = k²ż²: A is proportional to the velocity and vanishes at the apex of the throw.
TEST(Algebra, AppellHamelUpToItsApex) {
  const double k2 = 0.75 * 0.75;
  for (const double speed : {1.0, 1e-3, 1e-9, 1e-150, 1e-310}) {
    SCOPED_TRACE("speed " + std::to_string(speed));
    ConstrainedProblem x = diagonal({1, 1, 1}, {0, 0, -g});
    add_row(x, "servo", speed * vector({0.9, 1.2, -k2 * 2}), 0);
    const Acceleration y = solve(x);
    if (speed < 1e-300) {  // denormal rows have no direction: as at the apex itself
      expect_near(y.vdot, {0, 0, -g}, "vdot");
      continue;
    }
    EXPECT_EQ(y.status, Status::ok);
    expect_near(y.ideal, {-2.82528, -3.76704, 3.5316}, "ideal");
    EXPECT_NEAR(y.vdot[2], -6.2784, 10 * tol_algebra());
  }
  ConstrainedProblem apex = diagonal({1, 1, 1}, {0, 0, -g});
  add_row(apex, "servo", vector({0, 0, 0}), 0);
  const Acceleration y = solve(apex);
  EXPECT_EQ(y.status, Status::redundant);
  EXPECT_EQ(y.rank, 0);
  expect_near(y.vdot, {0, 0, -g}, "vdot");
  EXPECT_EQ(norm_inf(y.ideal), 0);
  EXPECT_TRUE(y.undetermined.empty());
}

// Two particles whose velocities stay perpendicular: the row is (v₂, v₁).
TEST(Algebra, PerpendicularVelocities) {
  ConstrainedProblem x = diagonal({1, 1, 2, 2}, {0, -g, 0, -2 * g});
  add_row(x, "perpendicular", vector({0, 2, 1, 0}), 0);
  const Acceleration y = solve(x);
  expect_near(y.lambda, {4.36}, "lambda");
  expect_near(y.ideal, {0, 8.72, 4.36, 0}, "ideal");
  expect_near(y.vdot, {0, -1.09, 2.18, -9.81}, "vdot");
}

}  // namespace
}  // namespace linchpin::test::algebra_test
