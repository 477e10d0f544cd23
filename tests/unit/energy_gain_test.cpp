// What counts as a source of energy on the bare host, and what a step does where energy grows (T15).
#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test::energy_gain_test {
namespace {

// A constraint takes a particle from rest to 1 m/s within a step. It does the work.
TEST(EnergyGain, IsNotTheWorkOfADisplacementThatBeginsToMove) {
  for (const Method method : {Method::semi_implicit, Method::rk4, Method::rattle}) {
    SCOPED_TRACE(to_string(method));
    System system;
    const BodyId cart = system.add_particle("cart", 2, {0, 0, 0});
    system.add(holonomic("drive", {cart}, [](const auto& s) {
      return s.t < 0.0525 ? s[0].position().x + 0.0 * s.t : s[0].position().x - (s.t - 0.0525);
    }));
    Stepper stepper(system, system.initial_state(), {.method = method});
    for (int i = 0; i < 100; ++i) ASSERT_FALSE(stepper.step(1e-3).rejected);
    EXPECT_EQ(stepper.energy_gain_count(), 0);
    EXPECT_EQ(stepper.divided_steps(), 0);
    EXPECT_NEAR(stepper.state()[cart].v.x(), 1, 1e-9);
  }
}

TEST(EnergyGain, IsNotTheWorkOfABodyThatBeginsToMove) {
  System system;
  const BodyId hand = system.add_kinematic("hand", {}, [](double t) {
    BodyState s;
    s.p.x() = std::max(0.0, t - 0.0525);
    s.v.x() = t > 0.0525 ? 1 : 0;
    return s;
  });
  const BodyId cart = system.add_particle("cart", 2, {0, 0, 0});
  system.add(holonomic("grip", {hand, cart}, [](const auto& s) { return s[1].position().x - s[0].position().x; }));
  Stepper stepper(system, system.initial_state(), {});
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(stepper.step(1e-3).rejected);
  EXPECT_EQ(stepper.energy_gain_count(), 0);
  EXPECT_EQ(stepper.divided_steps(), 0);
}

/// A particle on a spring of k dt²/m = `stiffness`, released from rest.
struct OnASpring {
  static constexpr double dt = 1e-2;
  System system;
  BodyId ball = system.add_particle("ball", 1, {0.1, 0, 0});
  explicit OnASpring(double stiffness) {
    system.add(spring("spring", ground, {0, 0, 0}, ball, {0, 0, 0}, stiffness / (dt * dt), 0));
  }
};

TEST(EnergyGain, OfASpringThatIsTooStiffForTheStepIsNamed) {
  OnASpring s(10);
  Stepper stepper(s.system, s.system.initial_state(), {.max_substeps = 1});
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(stepper.step(OnASpring::dt).rejected);
  ASSERT_GT(stepper.energy_gain_count(), 0);
  EXPECT_EQ(stepper.energy_gains().front().body, s.ball);
}

TEST(EnergyGain, OfASpringThatIsTooStiffForTheStepDividesIt) {
  OnASpring s(10);
  const double start = energy(s.system, s.system.initial_state());
  Stepper stepper(s.system, s.system.initial_state(), {});
  double most = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_FALSE(stepper.step(OnASpring::dt).rejected);
    most = std::max(most, energy(s.system, stepper.state()));
  }
  EXPECT_GT(stepper.divided_steps(), 0);
  EXPECT_LT(most, 5 * start);  // undivided it grows by a factor of 60 in a step
}

// Velocities are those of the middle of a step, and so is the potential with which they are compared.
TEST(EnergyGain, OfASpringThatTheStepFollowsIsNone) {
  for (const double stiffness : {0.01, 0.05, 0.1})
    for (const Method method : {Method::semi_implicit, Method::rk4, Method::rattle}) {
      SCOPED_TRACE(std::string(to_string(method)) + ", k dt²/m = " + std::to_string(stiffness));
      OnASpring s(stiffness);
      Stepper stepper(s.system, s.system.initial_state(), {.method = method});
      for (int i = 0; i < 2000; ++i) ASSERT_FALSE(stepper.step(OnASpring::dt).rejected);
      EXPECT_EQ(stepper.energy_gain_count(), 0);
      EXPECT_EQ(stepper.divided_steps(), 0);
    }
}

// A potential that depends on time does work by itself: a spring whose stiffness grows.
TEST(EnergyGain, IsNotTheWorkOfAPotentialThatDependsOnTime) {
  System system;
  const BodyId ball = system.add_particle("ball", 1, {0.1, 0, 0});
  const auto stiffness = [](double t) { return 10 * (1 + 5 * t); };
  system.add(Force(
      "stiffening", {ball}, [=](ForceFrame& f) { f.add_force(0, Vector3d(-stiffness(f.t) * f[0].p)); },
      [=](std::span<const BodyState> bodies, double t) { return 0.5 * stiffness(t) * bodies[0].p.squaredNorm(); }));
  Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
  for (int i = 0; i < 4000; ++i) ASSERT_FALSE(stepper.step(1e-3).rejected);
  EXPECT_GT(energy(system, stepper.state()), 1.5 * energy(system, system.initial_state()));
  EXPECT_EQ(stepper.energy_gain_count(), 0);
}

// The body at the side cannot be placed within a step, so that no divided step succeeds.
TEST(EnergyGain, LeavesAStepWholeWhereTheDividedOneIsRejected) {
  OnASpring s(10);
  s.system.add_kinematic("clock", {}, [](double t) -> BodyState {
    const double steps = t / OnASpring::dt;
    if (std::abs(steps - std::round(steps)) > 1e-6) throw std::runtime_error("between two ticks");
    return {};
  });
  Stepper stepper(s.system, s.system.initial_state(), {});
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(stepper.step(OnASpring::dt).rejected) << i;
  EXPECT_GT(stepper.rejected_divisions(), 0);
  EXPECT_EQ(stepper.divided_steps(), 0);
  EXPECT_GT(stepper.energy_gain_count(), 0);
}

/// A load on two legs of two bars each, which stretch out under it.
struct FiveBar {
  System system;
  FiveBar() {
    constexpr double load = 654e3, leg = 10, length = 1, hip = 0.5, drop = 0.4;
    system.set_gravity({0, -9.81, 0});
    const Vector3d z = Vector3d::UnitZ(), foot(0, drop - std::sqrt(4 * length * length - hip * hip), 0);
    const BodyId body = system.add_body("load", load, Vector3d::Constant(0.1 * load), {foot, Quaterniond::Identity()});
    for (const double side : {-1.0, 1.0}) {
      const std::string name = side < 0 ? "left " : "right ";
      const Vector3d top(side * hip, 0, 0), along = foot - top, middle = 0.5 * (top + foot);
      Vector3d out = along.cross(z).normalized();
      if (out.x() * side < 0) out = -out;
      const Vector3d knee = middle + std::sqrt(length * length - 0.25 * along.squaredNorm()) * out;
      const auto bar = [&](const std::string& which, const Vector3d& from, const Vector3d& to) {
        const double inertia = leg * length * length / 12;
        const Quaterniond turn = Quaterniond::FromTwoVectors(Vector3d::UnitX(), to - from);
        return system.add_body(name + which, leg, Vector3d(0.1 * inertia, inertia, inertia), {0.5 * (from + to), turn});
      };
      const BodyId upper = bar("upper", top, knee), lower = bar("lower", knee, foot);
      const Vector3d end(0.5 * length, 0, 0);
      system.add(joints::hinge(name + "hip", ground, top, z, upper, -end, z));
      system.add(joints::hinge(name + "knee", upper, end, z, lower, -end, z));
      system.add(joints::hinge(name + "foot", lower, end, z, body, Vector3d::Zero(), z));
    }
  }
  /// @return the largest growth of the energy [J]
  double growth(double limit) {
    Stepper stepper(system, system.initial_state(), {.method = Method::rk4, .max_energy_gain = limit});
    double least = energy(system, stepper.state()), most = 0;
    for (int i = 0; i < 2000 && !stepper.step(2e-4).rejected; ++i) {
      const double now = energy(system, stepper.state());
      least = std::min(least, now);
      most = std::max(most, now - least);
    }
    named = stepper.energy_gain_count();
    return most;
  }
  long named = 0;
};

// The bars snap through with the energy of the load, which was up to 1e9 J for 2.6e6 J of the fall.
TEST(SlowEnergyGain, OfALinkageThatStretchesOutIsTenTimesLess) {
  FiveBar linkage;
  const double unwatched = linkage.growth(std::numeric_limits<double>::infinity());
  const double watched = linkage.growth(0.1);
  EXPECT_GT(unwatched, 1e7);
  EXPECT_LT(10 * watched, unwatched);
}

}  // namespace
}  // namespace linchpin::test::energy_gain_test
