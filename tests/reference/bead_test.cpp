// A bead on a vertical ring with friction: the example of the nonideal equation, to its last stop. Everything has a
// closed form in φ, the angle from the bottom: u = φ̇² is exponential plus harmonic.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::bead_test {
namespace {

constexpr double g = 9.81, pi = std::numbers::pi;

/// Unit ring, φ̇ > 0, while g cos φ + u > 0.
struct Bead {
  double mu, g;
  double p(double phi) const {
    return g * (2 * (1 - 2 * mu * mu) * std::cos(phi) - 6 * mu * std::sin(phi)) / (1 + 4 * mu * mu);
  }
  double u(double phi, double phi0, double u0) const {
    return (u0 - p(phi0)) * std::exp(-2 * mu * (phi - phi0)) + p(phi);
  }
  double normal(double phi, double u) const { return g * std::cos(phi) + u; }  // per mass
};

struct Ring {
  System system;
  BodyId bead;
  ConstraintId ring;

  Ring(double mass, const Vector3d& p, const Vector3d& v, Law law, double gravity = g) {
    system.set_gravity({0, -gravity, 0});
    bead = system.add_particle("bead", mass, p, v);
    ring = system.add(holonomic("ring", {bead}, [](const auto& s) {
      const auto& x = s[0].position();
      return rows(0.5 * (x.x * x.x + x.y * x.y - 1.0), x.z);
    }));
    add_law(system, ring, std::move(law));
  }
  static double phi(const State& s) { return std::atan2(s.bodies[1].p.x(), -s.bodies[1].p.y()); }
  /// φ̇
  static double speed(const State& s) {
    return -s.bodies[1].p.y() * s.bodies[1].v.x() + s.bodies[1].p.x() * s.bodies[1].v.y();
  }
};

TEST(Bead, ForcesAtAnInstant) {
  for (const double mass : {1.0, 3.0}) {
    Ring r(mass, {0.6, -0.8, 0}, {1.6, 1.2, 0}, laws::coulomb(0.3));
    Dynamics dynamics(r.system);
    const State state = r.system.initial_state();
    ASSERT_EQ(dynamics.evaluate(state), Status::ok);
    std::vector<Reaction> reactions;
    dynamics.reactions(state, reactions);
    const Reaction& ring = reactions.at(0);
    const double tol = scaled(1e-12 * mass * 10);
    EXPECT_NEAR((ring.ideal.on_a.force - mass * Vector3d(-7.1088, 9.4784, 0)).norm(), 0, tol);
    EXPECT_NEAR((ring.prescribed.on_a.force - mass * Vector3d(-2.84352, -2.13264, 0)).norm(), 0, tol);
    EXPECT_NEAR(ring.induced.on_a.force.norm(), 0, tol);  // friction of a particle calls up no normal force
    EXPECT_NEAR((ring.on_a.force - ring.ideal.on_a.force - ring.prescribed.on_a.force).norm(), 0, tol);
    EXPECT_NEAR(dynamics.vdot()[0], -9.95232, scaled(1e-11));
    EXPECT_NEAR(dynamics.vdot()[1], -2.46424, scaled(1e-11));
    EXPECT_NEAR(ring.power, mass * Vector3d(-2.84352, -2.13264, 0).dot(Vector3d(1.6, 1.2, 0)), tol);
    // Q^W of the equation against the parts of the ledger.
    EXPECT_NEAR(dynamics.nonideal()[0], ring.prescribed.on_a.force.x(), tol);
    EXPECT_NEAR(dynamics.ideal()[1], ring.ideal.on_a.force.y(), tol);
  }
}

TEST(Bead, FromRestAtTheSideThroughTheBottom) {
  struct Case {
    double mu, g, speed;
  };
  for (const Case c : {Case{0.2, 9.81, 3.1853893541687053}, Case{0.5, 10, 1.3717894717260997},
                       Case{0.3, 9.81, 2.6020020058411877}, Case{0.1, 9.81, 3.788704081325636}}) {
    SCOPED_TRACE(c.mu);
    EXPECT_NEAR(std::sqrt((Bead{c.mu, c.g}.u(0, -pi / 2, 0))), c.speed, scaled(1e-12));
    Ring r(1.7, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(c.mu), c.g);
    const State bottom =
        crossing(r.system, r.system.initial_state(), 1e-3, 3, rk4(), [](const State& s) { return -Ring::phi(s); });
    EXPECT_NEAR(Ring::speed(bottom), c.speed, scaled(1e-9));
    if (c.mu != 0.2) continue;
    EXPECT_NEAR(bottom.t, 0.6540672603968352, scaled(1e-9));
    Stepper there(r.system, bottom, rk4());
    EXPECT_NEAR(named(there.reactions(), "ring").ideal.on_a.force.norm() / 1.7, 19.95670533765132, scaled(1e-8));
  }
}

TEST(Bead, SpeedFollowsTheClosedFormAllTheWay) {
  const Bead exact{0.2, g};
  Ring r(1, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(0.2));
  Stepper stepper(r.system, r.system.initial_state(), rk4());
  while (Ring::phi(stepper.state()) < 0.77) {
    ASSERT_FALSE(stepper.step(1e-3).rejected);
    const double phi = Ring::phi(stepper.state()), w = Ring::speed(stepper.state());
    const double u = exact.u(phi, -pi / 2, 0);
    ASSERT_NEAR(w * w, u, scaled(1e-8));
    ASSERT_NEAR(named(stepper.reactions(), "ring").ideal.on_a.force.norm(), exact.normal(phi, u), scaled(1e-8));
  }
  // What friction took is what the books say, and the energy lost.
  EXPECT_NEAR(stepper.constraint_work(), energy(r.system, stepper.state()), scaled(1e-8));
  EXPECT_LT(stepper.constraint_work(), -1);
}

/// Steps from rest at the side until it sticks or `end`; every stop on the way.
struct Stop {
  double t, phi;
  bool stays;
};
std::vector<Stop> stops(Ring& r, double end, double dt) {
  std::vector<Stop> all;
  State before = r.system.initial_state();
  Stepper stepper(r.system, before, rk4());
  while (stepper.t() < end && (all.empty() || !all.back().stays)) {
    before = stepper.state();
    const StepReport& report = stepper.step(dt);
    EXPECT_FALSE(report.rejected) << report.reason;
    if (report.rejected) break;
    for (const ModeSwitch& s : stepper.switches()) {
      // Where it was just then: the same step again, only so far.
      Ring again(1, {-1, 0, 0}, {0, 0, 0}, laws_on(r.system, r.ring)[0]);
      Stepper there(again.system, before, rk4());
      if (s.t > before.t) there.step(s.t - before.t);
      all.push_back({s.t, Ring::phi(there.state()), s.what == ModeSwitch::What::sticks});
    }
  }
  return all;
}

TEST(Bead, TurnsWhereTheClosedFormSaysAndStays) {
  Ring r(1, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(0.2));
  const auto all = stops(r, 10, 1e-3);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NEAR(all[0].phi, 0.7777241756245302, scaled(1e-8));
  EXPECT_NEAR(all[0].t, 1.1011737001724367, scaled(1e-8));
  EXPECT_NEAR(all[1].phi, -0.3036742852278878, scaled(1e-8));
  EXPECT_NEAR(all[2].phi, -0.09404817815809761, scaled(1e-8));
  // The later times are ∫ dφ/√u of the closed form, by quadrature in 30 digits.
  EXPECT_NEAR(all[1].t, 2.1149967125051161, scaled(1e-8));
  EXPECT_NEAR(all[2].t, 3.1089985752864876, scaled(1e-8));
  EXPECT_FALSE(all[0].stays || all[1].stays);  // too steep
  EXPECT_TRUE(all[2].stays);                   // |tan φ| ≤ μ
}

TEST(Bead, StaysWhereItStuck) {
  Ring r(1, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(0.2));
  Stepper stepper(r.system, r.system.initial_state(), rk4());
  run(stepper, 5, 2500);
  EXPECT_NEAR(Ring::phi(stepper.state()), -0.09404817815809761, scaled(1e-8));
  EXPECT_LE(stepper.state()[r.bead].v.norm(), scaled(1e-15));
  // At rest friction carries what gravity pulls along the ring, and no more.
  const Reaction& ring = named(stepper.reactions(), "ring");
  EXPECT_NEAR(ring.prescribed.on_a.force.norm(), 9.81 * std::sin(0.09404817815809761), scaled(1e-7));
  EXPECT_NEAR(ring.power, 0, scaled(1e-14));
  // Friction has taken the whole height it fell.
  EXPECT_NEAR(stepper.law_works()[0].work, -9.81 * std::cos(0.09404817815809761), scaled(1e-8));
}

TEST(Bead, TheFrictionThatStopsItAtTheBottomIsFoundBySweeping) {
  const double mu = 0.60334223875704734;
  EXPECT_NEAR(3 * mu * std::exp(-pi * mu) + 2 * mu * mu, 1, scaled(1e-14));
  EXPECT_NEAR((Bead{mu, g}.u(0, -pi / 2, 0)), 0, scaled(1e-13));
  // φ of the first stop falls with μ; where it is 0, by the secant method.
  const auto first_stop = [](double tried) {
    Ring r(1, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(tried));
    const auto all = stops(r, 3, 2e-3);
    return all.empty() ? std::nan("") : all[0].phi;
  };
  double a = 0.59, b = 0.62, at_a = first_stop(a), at_b = first_stop(b);
  EXPECT_GT(at_a, 0);
  EXPECT_LT(at_b, 0);
  for (int k = 0; k < 12 && std::fabs(b - a) > 1e-13 && at_a != at_b; ++k) {
    const double c = b - at_b * (b - a) / (at_b - at_a);
    a = b, at_a = at_b;
    b = c, at_b = first_stop(c);
  }
  EXPECT_NEAR(b, mu, scaled(1e-9));
}

TEST(Bead, SemiImplicitIsOfFirstOrder) {
  const Bead exact{0.2, g};
  std::vector<double> errors;
  for (const int steps : {150, 300, 600, 1200}) {
    Ring r(1, {-1, 0, 0}, {0, 0, 0}, laws::coulomb(0.2));
    const State s = after(r.system, 0.8, steps, semi_implicit());
    EXPECT_NEAR(s.bodies[1].p.norm(), 1, scaled(1e-14));
    errors.push_back(std::fabs(Ring::speed(s) - std::sqrt(exact.u(Ring::phi(s), -pi / 2, 0))));
  }
  EXPECT_NEAR(slope(errors), 1, scaled(0.1));
}

}  // namespace
}  // namespace linchpin::test::bead_test
