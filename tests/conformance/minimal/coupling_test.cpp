// Coupling with the rows of a host, substeps, and the acceptance of steps, on the toy engine: each mechanism alone,
// with known answers.
#include "toy_bodies.h"

#include <linchpin/minimal.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test {

namespace {

using Coupling = host::Capabilities::Coupling;

constexpr double weight_of_one = 9.81, step_of_240_hz = 1.0 / 240;

/// A light bar on a hinge at one end, and a heavy ball on a ball joint at the other one. The ball rests on the ground.
struct Lever {
  static constexpr double length = 2, bar_mass = 0.1, ball_mass = 10, radius = 0.1;
  toy::World world;
  int bar, load, hinge;

  Lever() {
    bar = world.add(toy_box(bar_mass, Vector3d(length / 2, 0.02, 0.02), Vector3d(length / 2, radius, 0)));
    load = world.add(toy_ball(ball_mass, radius, Vector3d(length, radius, 0)));
    hinge = world.add(toy_joint(toy::Joint::Kind::hinge, -1, bar, Vector3d(0, radius, 0), Vector3d(-length / 2, 0, 0)));
    world.add(toy_joint(toy::Joint::Kind::ball, bar, load, Vector3d(length / 2, 0, 0), Vector3d::Zero()));
    world.friction = 0;
  }
  /// What the ground carries: the ball, and half of the bar.
  static constexpr double carried = (ball_mass + bar_mass / 2) * weight_of_one;
};

/// Mean force of the host's rows on a body in the last step.
Vector3d host_force(minimal::Solver& exact, int body) {
  exact.solver().update_reports();
  for (const MomentumBalance& of : exact.solver().momentum_balances())
    if (of.body == exact.id(body)) return of.host.head<3>() / exact.solver().dt();
  return Vector3d::Zero();
}

TEST(Coupling, RowsThatKnowTheIslandFindTheForceOfTheGround) {
  Lever s;
  minimal::Solver exact(s.world, {}, Coupling::rows);
  for (int i = 0; i < 240; ++i) s.world.step(step_of_240_hz);
  EXPECT_NEAR(host_force(exact, s.load).y(), Lever::carried, 1e-6 * Lever::carried);
  const Reaction& hinge = exact.reaction(exact.entry_of_joint(s.hinge));
  EXPECT_NEAR(hinge.on_b.force.y(), Lever::bar_mass / 2 * weight_of_one, 1e-5 * Lever::carried);
}

// Every host has one of three abilities. The constraints hold in each; the impulses of the rows are better with more.
TEST(Coupling, HoldsTheConstraintsWithWhateverTheHostCanDo) {
  for (const Coupling coupling : {Coupling::after_solve, Coupling::between_iterations, Coupling::rows}) {
    Lever s;
    minimal::Solver exact(s.world, {}, coupling);
    for (int i = 0; i < 240; ++i) {
      s.world.step(step_of_240_hz);
      const Reaction& r = exact.reaction(exact.entry_of_joint(s.hinge));
      ASSERT_LT(r.gap, 1e-12) << static_cast<int>(coupling) << ", step " << i;
      for (const MomentumBalance& of : exact.solver().momentum_balances()) ASSERT_LT(of.imbalance(), 1e-9) << i;
    }
    EXPECT_NEAR(s.world.body(s.load)->p.y(), Lever::radius, 0.03) << static_cast<int>(coupling);
    EXPECT_EQ(exact.solver().counts().fallbacks, 0);
  }
}

TEST(Coupling, BetweenIterationsConvergesWithTheirNumber) {
  const auto error = [](int iterations) {
    Lever s;
    s.world.iterations = iterations;
    minimal::Solver exact(s.world, {}, Coupling::between_iterations);
    for (int i = 0; i < 60; ++i) s.world.step(step_of_240_hz);
    return std::abs(host_force(exact, s.load).y() - Lever::carried);
  };
  EXPECT_LT(error(200), 1e-3 * Lever::carried);
  EXPECT_LE(error(200), error(5));
}

// A contact of a body that its joints hold to the world can change nothing: it must not push without end.
TEST(Coupling, RowsThatCannotMoveAnythingAreInactive) {
  toy::World world;
  const int post = world.add(toy_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 0.05, 0)));  // it overlaps the ground
  world.body(post)->contact_points = {Vector3d(0, -0.1, 0)};
  const int weld = world.add(toy_joint(toy::Joint::Kind::weld, -1, post, Vector3d(0, 0.05, 0), Vector3d::Zero()));
  for (const Coupling coupling : {Coupling::after_solve, Coupling::between_iterations, Coupling::rows}) {
    minimal::Solver exact(world, {}, coupling);
    for (int i = 0; i < 20; ++i) world.step(step_of_240_hz);
    EXPECT_NEAR(host_force(exact, post).y(), 0, 1e-9) << static_cast<int>(coupling);
    EXPECT_NEAR(exact.reaction(exact.entry_of_joint(weld)).on_b.force.y(), weight_of_one, 1e-9);
    EXPECT_NEAR(world.body(post)->p.y(), 0.05, 1e-13);
  }
}

/// A pair of short pendulums, one light, that swings fast.
struct Whip {
  toy::World world;
  int tip = -1;
  explicit Whip(double speed) {
    world.has_ground = false;
    const int first = world.add(toy_ball(1, 0.02, Vector3d(0.1, 0, 0)));
    tip = world.add(toy_ball(0.01, 0.02, Vector3d(0.2, 0, 0)));
    world.add(toy_joint(toy::Joint::Kind::ball, -1, first, Vector3d::Zero(), Vector3d(-0.1, 0, 0)));
    world.add(toy_joint(toy::Joint::Kind::ball, first, tip, Vector3d::Zero(), Vector3d(-0.1, 0, 0)));
    world.body(tip)->v = Vector3d(0, speed, 0);
  }
};

TEST(Acceptance, ASlowStepIsTakenAsOne) {
  toy::World world;
  const int bob = world.add(toy_ball(1, 0.02, Vector3d(1, 2, 0)));
  world.add(toy_joint(toy::Joint::Kind::ball, -1, bob, Vector3d(0, 2, 0), Vector3d(-1, 0, 0)));
  minimal::Solver exact(world);
  for (int i = 0; i < 60; ++i) world.step(step_of_240_hz);
  EXPECT_EQ(exact.solver().counts().substepped_steps, 0);
  EXPECT_EQ(exact.solver().counts().fallbacks, 0);
}

TEST(Acceptance, AStepAboveTheSwingLimitIsTakenAgainInSubsteps) {
  long last = 0;
  for (const double limit : {2.0, 1.0, 0.25}) {
    Whip s(30);
    host::SolverOptions options;
    options.max_tension_frequency = limit;
    minimal::Solver exact(s.world, options);
    for (int i = 0; i < 60; ++i) s.world.step(step_of_240_hz);
    EXPECT_GT(exact.solver().counts().substeps, last) << limit;
    last = exact.solver().counts().substeps;
  }
}

TEST(Acceptance, DoesNotLetConstraintsGiveEnergy) {
  Whip s(40);
  s.world.gravity.setZero();
  minimal::Solver exact(s.world);
  double energy = s.world.energy();
  for (int i = 0; i < 480; ++i) {
    s.world.step(step_of_240_hz);
    ASSERT_LT(s.world.energy(), energy * (1 + 1e-2)) << "step " << i;
    energy = std::min(energy, s.world.energy());
  }
}

// The position after 1/8 s against that of much shorter steps. Without forces substeps converge with order 2. (Forces
// act as the host applies them, once in a step.)
TEST(Substeps, ConvergeToTheMotionOfShortSteps) {
  const auto run = [](double limit, int rate) {
    Whip s(10);
    host::SolverOptions options;
    options.max_tension_frequency = limit;
    s.world.gravity.setZero();
    minimal::Solver exact(s.world, options);
    for (int i = 0; i < rate / 8; ++i) s.world.step(1.0 / rate);
    return Vector3d(s.world.body(s.tip)->p);
  };
  const Vector3d reference = run(1, 80000);
  const double coarse = (run(0.5, 240) - reference).norm(), fine = (run(0.05, 240) - reference).norm();
  EXPECT_LT(fine, 0.03 * coarse);
  EXPECT_LT(fine, 2e-5);
}

TEST(Substeps, BeyondTheirMostLeaveTheIslandToTheHost) {
  Whip s(300);
  host::SolverOptions options;
  options.max_substeps = 1;
  minimal::Solver exact(s.world, options);
  s.world.step(step_of_240_hz);
  EXPECT_EQ(exact.solver().counts().fallbacks, 1);
  EXPECT_FALSE(exact.solver().fallback_reason().empty());
  EXPECT_TRUE(exact.reaction(exact.find("ball#1")).native);
  for (int i = 0; i < 20; ++i) s.world.step(step_of_240_hz);
  EXPECT_TRUE(s.world.body(s.tip)->p.allFinite());
}

// What the toy engine and its adapter cannot do, and say: the lines of adapters/README.md.
TEST(Declared, AWorldHasOneHook) {
  Whip s(0);
  minimal::Solver exact(s.world);
  EXPECT_THROW(minimal::Solver(s.world), std::invalid_argument);
}

TEST(Declared, AConstraintOfTheProgramThatIsLeftToTheHostIsNotHeldInThatStep) {
  Whip s(300);
  host::SolverOptions options;
  options.max_substeps = 1;
  minimal::Solver exact(s.world, options);
  const int entry = exact.constrain("plane", {s.tip}, [](const auto& x) { return x[0].point(0, 0, 0).z; });
  s.world.body(s.tip)->force = Vector3d(0, 0, 1);
  s.world.step(step_of_240_hz);
  ASSERT_GE(exact.solver().counts().fallbacks, 1);
  EXPECT_TRUE(exact.reaction(entry).native);
  EXPECT_GT(s.world.body(s.tip)->p.z(), 0);
}

TEST(Declared, StepsOfNoLengthAreRefused) {
  Whip s(0);
  for (const double dt : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(s.world.step(dt), std::invalid_argument);
}

TEST(Declared, BodiesThatAreNotThereAreNamed) {
  Whip s(0);
  minimal::Solver exact(s.world);
  try {
    (void)exact.id(7);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("no body 7"), std::string::npos);
  }
}

}  // namespace

}  // namespace linchpin::test
