// Impressed forces against their potentials.
#include "support/random.h"
#include "support/refused.h"
#include "support/tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <limits>

namespace linchpin::test::forces_test {
namespace {

using Vector6d = Vector6;
constexpr BodyId a{1}, b{2};
const Vector3d zero = Vector3d::Zero();

std::vector<Vector6d> wrenches(const Force& force, std::span<const BodyState> X, double t = 0) {
  std::vector<Vector6d> out(X.size(), Vector6d::Zero());
  ForceFrame frame(t, X, out);
  force.act(frame);
  return out;
}

std::vector<BodyState> bodies(Random& random, int count) {
  std::vector<BodyState> X;
  for (int k = 0; k < count; ++k) X.push_back(random.body_state(2));
  return X;
}

// ---- forces ----

TEST(ForceFrame, TurnsForcesAtPointsIntoWrenchesAtTheCentre) {
  Random random(1);
  const auto X = bodies(random, 2);
  std::vector<Vector6d> out(2, Vector6d::Zero());
  ForceFrame frame(0.5, X, out);
  const Vector3d f = random.vector(), p = random.vector(), m = random.vector();
  frame.add_force(0, f, p);
  frame.add_force(0, f);
  frame.add_moment(1, m);
  EXPECT_LE((out[0].head<3>() - 2 * f).norm(), tol_rounding());
  EXPECT_LE((out[0].tail<3>() - (p - X[0].p).cross(f)).norm(), tol_rounding());
  EXPECT_LE((out[1].tail<3>() - m).norm(), 0);
  EXPECT_EQ(frame.t, 0.5);
}

TEST(Spring, IsMinusTheGradientOfItsEnergy) {
  for (const std::uint64_t seed : seeds(50)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Force force = spring("s", a, random.vector(), b, random.vector(), 30, random.uniform(0, 2));
    ASSERT_TRUE(force.has_energy());
    const auto X = bodies(random, 2);
    const auto out = wrenches(force, X);
    for (std::size_t k = 0; k < 2; ++k)
      for (int j = 0; j < 6; ++j) {
        const auto energy = [&](double h) {
          auto Y = X;
          const Vector3d u = h * Vector3d::Unit(j % 3);
          advance(Y[k], j < 3 ? u : zero, j < 3 ? zero : u, 1);
          return force.energy(Y, 0);
        };
        const double slope = (energy(difference_step) - energy(-difference_step)) / (2 * difference_step);
        EXPECT_NEAR(out[k][j], -slope, tol_difference(1000));  // stiffness 30, lengths to 7
      }
  }
}

TEST(Spring, KeepsMomentumAndTakesEnergyOutWhenDamped) {
  for (const std::uint64_t seed : seeds(50)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Vector3d p = random.vector(), q = random.vector();
    const Force damper = spring("d", a, p, b, q, 0, 1, 5);
    EXPECT_FALSE(damper.has_energy());
    const auto X = bodies(random, 2);
    const auto out = wrenches(damper, X);
    EXPECT_LE((out[0] + out[1]).head<3>().norm(), tol_rounding(50));
    const Vector3d about_origin =
        out[0].tail<3>() + X[0].p.cross(out[0].head<3>()) + out[1].tail<3>() + X[1].p.cross(out[1].head<3>());
    EXPECT_LE(about_origin.norm(), tol_rounding(500));
    // Power is −c (rate of length)².
    const Vector3d u = (X[1].point(q) - X[0].point(p)).normalized();
    const double rate = u.dot(X[1].velocity_of(q) - X[0].velocity_of(p));
    double power = 0;
    for (std::size_t k = 0; k < 2; ++k) power += out[k].head<3>().dot(X[k].v) + out[k].tail<3>().dot(X[k].w);
    EXPECT_NEAR(power, -5 * rate * rate, tol_rounding(500));
  }
}

TEST(Spring, PullsWhenStretchedAndIsSmoothWithoutARestLength) {
  std::vector<BodyState> X(2);
  X[1].p.x() = 3;
  EXPECT_NEAR(wrenches(spring("s", a, zero, b, zero, 10, 1), X)[0][0], 20, tol_rounding());
  X[1].p.x() = 0;
  EXPECT_EQ(wrenches(spring("s", a, zero, b, zero, 10, 1), X)[0].norm(), 0) << "no direction where the points meet";
  X[1].p.x() = 1e-300;
  EXPECT_TRUE(wrenches(spring("s", a, zero, b, zero, 10, 0, 1), X)[0].allFinite());
}

TEST(Force, RefusesWhatCannotBeRightByName) {
  const auto act = [](ForceFrame&) {};
  expect_refused([&] { Force("", {a}, act); }, "a force needs a name");
  expect_refused([&] { Force("wind", {}, act); }, "force 'wind': it names no body");
  expect_refused([&] { Force("wind", {a, b, a}, act); }, "force 'wind': body 1 is named twice");
  expect_refused([&] { Force("wind", {a}, {}); }, "force 'wind': it has no function");
  expect_refused([&] { spring("s", a, zero, b, zero, -1, 0); },
                 "force 's': stiffness must be finite and not negative, got -1");
  expect_refused([&] { spring("s", a, zero, b, zero, 1, -1); }, "force 's': rest length");
  expect_refused([&] { spring("s", a, zero, b, zero, 1, 1, INFINITY); }, "force 's': damping");
  expect_refused(
      [&] {
        spring("s", a, {NAN, 0, 0}, b, zero, 1, 1);
      },
      "force 's': the anchor point p_AQ on the first body must be finite");
}

}  // namespace
}  // namespace linchpin::test::forces_test
