// Pendulums, a kinematic rod and two beads on sloping wires: closed forms for forces at an instant,
// one-degree-of-freedom equations or published digits for the motion, and the order of both methods.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <array>
#include <numbers>

namespace linchpin::test::holonomic_test {
namespace {

constexpr double g = 9.81, pi = std::numbers::pi;

// ---- pendulum
// ---------------------------------------------------------------------------------------------------------

TEST(Pendulum, ForcesAtAnInstant) {
  // y points down.
  const double m = 2, l = 1.5, theta = 0.7, omega = 1.3;
  const Vector3d p(l * std::sin(theta), l * std::cos(theta), 0);
  const Vector3d v = l * omega * Vector3d(std::cos(theta), -std::sin(theta), 0);
  for (const double factor : {0.5, 1.0}) {
    System system;
    system.set_gravity({0, g, 0});
    const auto bob = system.add_particle("bob", m, p, v);
    system.add(holonomic("rod", {bob}, [=](const auto& s) {
      const auto& x = s[0].position();
      return factor * (x.x * x.x + x.y * x.y - l * l);
    }));
    Dynamics dynamics(system);
    ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
    EXPECT_NEAR(dynamics.ideal()[0], -12.933445525481895, scaled(1e-11));
    EXPECT_NEAR(dynamics.ideal()[1], -15.355127561383734, scaled(1e-11));
    EXPECT_NEAR(dynamics.vdot()[0], -6.466722762740948, scaled(1e-11));
    EXPECT_NEAR(dynamics.vdot()[1], 2.1324362193081337, scaled(1e-11));
    // λ follows how the row is written; the force does not.
    EXPECT_NEAR(dynamics.lambda()[0], factor == 0.5 ? -13.384135809681112 : -6.692067904840556, scaled(1e-11));
  }
}

struct HorizontalStart {
  System system;
  BodyId bob;
  explicit HorizontalStart(double mass = 1) {
    system.set_gravity({0, -g, 0});
    bob = system.add_particle("bob", mass, {-1, 0, 0});
    system.add(joints::rod("rod", ground, Vector3d::Zero(), bob, Vector3d::Zero(), 1));
    system.add(joints::point_on_plane("plane", ground, Vector3d::Zero(), Vector3d::UnitZ(), bob, Vector3d::Zero()));
  }
};

TEST(Pendulum, TenSecondsFromTheHorizontal) {
  HorizontalStart p(2.5);  // the published problem has mass 1; the motion does not mind
  Stepper stepper(p.system, p.system.initial_state(), rk4());
  run(stepper, 1, 2000);
  EXPECT_NEAR(stepper.state()[p.bob].p.x(), 0.98629175113188, scaled(1e-9));
  EXPECT_NEAR(stepper.state()[p.bob].p.y(), -0.16501085312554, scaled(1e-9));
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_b.force.norm(), 2.5 * 4.85626940748468, scaled(1e-7));
  run(stepper, 9, 18000);
  const BodyState& bob = stepper.state()[p.bob];
  EXPECT_NEAR((bob.p - Vector3d(-0.27508746257612, -0.96141920509913, 0)).norm(), 0, scaled(1e-8));
  EXPECT_NEAR((bob.v - Vector3d(4.17559810095173, -1.19474905456048, 0)).norm(), 0, scaled(1e-8));
}

TEST(Pendulum, OrderOfBothMethods) {
  const auto error = [](StepOptions options, int steps) {
    HorizontalStart p;
    const State s = after(p.system, 1, steps, options);
    return (s[p.bob].p - Vector3d(0.98629175113188, -0.16501085312554, 0)).norm();
  };
  std::vector<double> fourth, first;
  for (const int steps : {320, 640, 1280}) fourth.push_back(error(rk4(), steps));
  for (const int steps : {800, 1600, 3200}) first.push_back(error(semi_implicit(), steps));
  EXPECT_NEAR(slope(fourth), 4, scaled(0.1));
  EXPECT_NEAR(slope(first), 1, scaled(0.1));
}

TEST(ConicalPendulum, RunsInACircle) {
  const double l = 1.2, beta = 35 * pi / 180, m = 0.8, w = std::sqrt(g / (l * std::cos(beta)));
  EXPECT_NEAR(w, 3.1590872516, scaled(1e-10));
  const double radius = l * std::sin(beta);
  System system;
  system.set_gravity({0, 0, -g});
  const auto bob = system.add_particle("bob", m, {radius, 0, -l * std::cos(beta)}, {0, radius * w, 0});
  system.add(joints::rod("rod", ground, Vector3d::Zero(), bob, Vector3d::Zero(), l));
  Stepper stepper(system, system.initial_state(), rk4());
  run(stepper, 2, 1000);
  EXPECT_NEAR(
      (stepper.state()[bob].p - Vector3d(radius * std::cos(2 * w), radius * std::sin(2 * w), -l * std::cos(beta)))
          .norm(),
      0, scaled(1e-9));
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_b.force.norm(), 9.5806389726, scaled(1e-9));
}

// ---- two particles on a rod, pushed across
// ----------------------------------------------------------------------------

TEST(PushedRod, TurnsWithConstantAccelerationUnderAFollowingForce) {
  const double m1 = 1, m2 = 3, L = 2, l = 0.5, F = 4, theta0 = 0.4, omega0 = 0.7;
  const Vector3d along(std::cos(theta0), std::sin(theta0), 0), across(-std::sin(theta0), std::cos(theta0), 0);
  System system;
  const auto p1 = system.add_particle("1", m1, Vector3d::Zero(), Vector3d::Zero());
  const auto p2 = system.add_particle("2", m2, L * along, L * omega0 * across);
  system.add(joints::rod("rod", p1, Vector3d::Zero(), p2, Vector3d::Zero(), L));
  system.add(Force("push", {p1, p2}, [=](ForceFrame& f) {
    const Vector3d e = (f[1].p - f[0].p) / L, n = Vector3d::UnitZ().cross(e);
    f.add_force(0, F * (1 - l / L) * n);
    f.add_force(1, F * l / L * n);
  }));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  const double digits[6] = {-0.491275196333831, 3.0494054636055132, 0, -0.35546605763359035, 0.21161283746867562, 0};
  for (std::size_t j = 0; j < 6; ++j) EXPECT_NEAR(dynamics.vdot()[j], digits[j], scaled(1e-11));

  Stepper stepper(system, system.initial_state(), rk4());
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_a.force.dot(along), 0.735, scaled(1e-12));
  run(stepper, 1, 500);
  const Vector3d d = stepper.state()[p2].p - stepper.state()[p1].p;
  const double omega = omega0 - 4.0 / 3;
  EXPECT_NEAR(std::atan2(d.y(), d.x()), theta0 + omega0 - 2.0 / 3, scaled(1e-10));
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_a.force.dot(d) / L, 0.75 * L * omega * omega, scaled(1e-10));
  EXPECT_FALSE(conservative(system));
}

// ---- two beads on sloping wires, joined by a rod
// ----------------------------------------------------------------------

/// In the tilt θ of the rod; knows nothing of us: Lagrange's equation for x₁ = L cos(π/4 + θ), x₂ = L cos(π/4 − θ).
struct SlopingWires {
  double m = 1.3, L = 0.9;
  double acceleration(double theta, double rate) const {
    const double s1 = std::sin(pi / 4 + theta), s2 = std::sin(pi / 4 - theta);
    const double c1 = std::cos(pi / 4 + theta), c2 = std::cos(pi / 4 - theta);
    const double inertia = m * L * L * (s1 * s1 + 2 * s2 * s2), slope = m * L * L * (s1 * c1 - 2 * s2 * c2);
    return (m * g * L / std::sqrt(2) * (2 * s2 - s1) - slope * rate * rate) / inertia;
  }
  /// θ after a time, by steps of fourth order.
  double after(double theta, double duration, int steps) const {
    using State2 = std::array<double, 2>;
    State2 x{theta, 0};
    const double h = duration / steps;
    const auto f = [this](const State2& s) { return State2{s[1], acceleration(s[0], s[1])}; };
    const auto plus = [](const State2& s, double k, const State2& d) {
      return State2{s[0] + k * d[0], s[1] + k * d[1]};
    };
    for (int i = 0; i < steps; ++i) {
      const auto a = f(x), b = f(plus(x, h / 2, a)), c = f(plus(x, h / 2, b)), d = f(plus(x, h, c));
      x = plus(plus(plus(plus(x, h / 6, a), h / 3, b), h / 3, c), h / 6, d);
    }
    return x[0];
  }
};

struct BeadsOnWires {
  System system;
  BodyId p1, p2;
  explicit BeadsOnWires(double theta, double m = 1.3, double L = 0.9) {
    system.set_gravity({0, -g, 0});
    const double x1 = L * std::cos(pi / 4 + theta), x2 = L * std::cos(pi / 4 - theta), k = std::sqrt(0.5);
    p1 = system.add_particle("m", m, {-k * x1, -k * x1, 0});
    p2 = system.add_particle("2m", 2 * m, {k * x2, -k * x2, 0});
    system.add(joints::point_on_line("left", ground, Vector3d::Zero(), {1, 1, 0}, p1, Vector3d::Zero()));
    system.add(joints::point_on_line("right", ground, Vector3d::Zero(), {1, -1, 0}, p2, Vector3d::Zero()));
    system.add(joints::rod("rod", p1, Vector3d::Zero(), p2, Vector3d::Zero(), L));
  }
  double theta(const State& s) const {
    const Vector3d d = s[p2].p - s[p1].p;
    return std::atan2(d.y(), d.x());  // of the rod against the horizontal; the heavier bead hangs lower
  }
};

TEST(SlopingWires, FromRestAtAnInstant) {
  BeadsOnWires wires(0.6);
  Dynamics dynamics(wires.system);
  const State s = wires.system.initial_state();
  ASSERT_EQ(dynamics.evaluate(s), Status::ok);
  const double digits[6] = {-2.8636528403743458, -2.863652840374342, 0, -0.537083757971343, 0.5370837579713499, 0};
  for (std::size_t j = 0; j < 6; ++j) EXPECT_NEAR(dynamics.vdot()[j], digits[j], scaled(1e-11));
  EXPECT_NEAR((SlopingWires{}.acceleration(0.6, 0)), -4.5782541697265895, scaled(1e-12));
  std::vector<Reaction> reactions;
  dynamics.reactions(s, reactions);
  EXPECT_NEAR(named(reactions, "rod").on_a.force.norm(), 20.359195428732, scaled(1e-10));
}

TEST(SlopingWires, Equilibrium) {
  const double theta = std::atan(1.0 / 3);
  BeadsOnWires wires(theta);
  Stepper stepper(wires.system, wires.system.initial_state(), semi_implicit());
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_a.force.norm(), std::sqrt(10) / 2 * 1.3 * g, scaled(1e-11));
  run(stepper, 2, 500);
  EXPECT_NEAR(std::fabs(wires.theta(stepper.state())), theta, scaled(1e-10));
}

TEST(SlopingWires, Oscillation) {
  const SlopingWires exact;
  BeadsOnWires wires(0.6);
  Stepper stepper(wires.system, wires.system.initial_state(), rk4());
  const double E = energy(wires.system, stepper.state());
  for (int i = 1; i <= 4; ++i) {
    run(stepper, 0.5, 500);
    EXPECT_NEAR(-wires.theta(stepper.state()), exact.after(0.6, 0.5 * i, 4000 * i), scaled(1e-9));
    EXPECT_NEAR(energy(wires.system, stepper.state()), E, scaled(1e-10));
    EXPECT_NEAR(stepper.constraint_work(), 0, scaled(1e-10));
  }
}

TEST(SlopingWires, SmallOscillation) {
  const double theta = std::atan(1.0 / 3), w = std::sqrt(std::sqrt(2.5) * g / (1.2 * 0.9));
  EXPECT_NEAR(w * w, 14.36201103993139, scaled(1e-12));
  BeadsOnWires wires(theta + 1e-3);
  const State half = crossing(wires.system, wires.system.initial_state(), 1e-3, 2, rk4(), [&](const State& s) {
    return s.t < 0.1 ? 1 : -s[wires.p1].v.x();  // down its wire first, then back
  });
  EXPECT_NEAR(half.t, pi / w, scaled(1e-5));
}

}  // namespace
}  // namespace linchpin::test::holonomic_test
