// Smooth laws however stiff, in steps that do not locate anything: against closed forms, never giving energy. And laws
// that are not what they should be: they jump, are too strong, or too large, and are named.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

namespace linchpin::test::smooth_laws_test {
namespace {

constexpr double g = 9.81;

/// A sledge on level ice: a body of 2 kg on a rail along x.
struct Sledge {
  static constexpr double m = 2;
  System system;
  BodyId body;
  ConstraintId rail;
  explicit Sledge(Law law, double speed = 3, double pull = 0) {
    system.set_gravity({pull / m, 0, -g});
    body = system.add_body("sledge", m, Vector3d(0.1, 0.2, 0.3), {}, {speed, 0, 0});
    rail = system.add(joints::slider("rail", ground, {}, body, {}));
    add_law(system, rail, std::move(law));
  }
};

struct Damped {
  double v = 0, x = 0, least = 0, most_work = -1, imbalance = 0;
};
Damped slide(double c, double dt, double duration) {
  Sledge s(laws::viscous(c));
  Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
  Damped out;
  out.least = 3;
  for (double t = 0; t < duration - 0.5 * dt; t += dt) {
    EXPECT_FALSE(stepper.step(dt).rejected);
    out.least = std::min(out.least, stepper.state()[s.body].v.x());
    out.most_work = std::max(out.most_work, stepper.law_works()[0].last);
    out.imbalance = std::max(out.imbalance, std::fabs(stepper.energy_balance().imbalance()));
  }
  out.v = stepper.state()[s.body].v.x();
  out.x = stepper.state()[s.body].p.x();
  return out;
}

// m v̇ = −c v: v = v₀ e^{−ct/m}, way m v₀/c (1 − e^{−ct/m}).
TEST(Viscous, DampsAtFirstOrderWithoutTurningRoundHoweverStiff) {
  for (const double stiffness : {0.1, 2.5, 100.0}) {
    SCOPED_TRACE("c dt/m = " + std::to_string(stiffness));
    const double dt = 0.01, c = stiffness * Sledge::m / dt;
    const double duration = stiffness > 1 ? 4 * dt : 0.5;
    double error[3];
    for (const int k : {0, 1, 2}) {
      const Damped d = slide(c, dt / (1 << k), duration);
      EXPECT_GE(d.least, 0);
      EXPECT_LE(d.most_work, 0);
      EXPECT_LE(d.imbalance, scaled(1e-13));
      const double end = std::exp(-c * duration / Sledge::m);
      error[k] = std::fabs(d.x - Sledge::m * 3 / c * (1 - end));
      EXPECT_LE(error[k], scaled(dt / (1 << k) * 3));
    }
    EXPECT_LE(error[1], 0.65 * error[0]);
    EXPECT_LE(error[2], 0.65 * error[1]);
  }
  // Where the step is long for the law, what it does is Euler's implicit step, exactly.
  const Damped d = slide(100 * Sledge::m / 0.01, 0.01, 0.02);
  EXPECT_NEAR(d.v, 3 / (101.0 * 101.0), tol_rounding());
}

// A body that comes down onto its terminal speed, far beyond what an explicit step could damp.
TEST(Viscous, PulledThroughHoneyItMovesAtTheForceOverTheCoefficient) {
  const double c = 1e5;
  Sledge s(laws::viscous(c), 0, 7);
  Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
  run(stepper, 1, 100);
  EXPECT_NEAR(stepper.state()[s.body].v.x(), 7 / c, scaled(1e-15));
  EXPECT_NEAR(stepper.law_works()[0].power, -7 * 7 / c, scaled(1e-12));
  EXPECT_EQ(stepper.law_works()[0].switches, 0);
}

// Eight dampers share a body: none of them is stiff alone.
TEST(Viscous, ManyTogetherAreStifferThanOne) {
  System system;
  system.set_gravity({0, 0, -g});
  std::vector<BodyId> bodies;
  const double dt = 0.01, each = 0.4;
  for (int i = 0; i < 10; ++i) {
    bodies.push_back(
        system.add_body("b" + std::to_string(i), 1, Vector3d(0.1, 0.1, 0.1), {}, {i % 2 ? 1.0 : -1.0, 0, 0}));
    const ConstraintId rail = system.add(joints::slider("rail " + std::to_string(i), ground, {}, bodies.back(), {}));
    for (int k = 0; k < 8; ++k) add_law(system, rail, laws::viscous(each / dt));
  }
  Stepper stepper(system, system.initial_state(), semi_implicit());
  double last = kinetic_energy(system, stepper.state());
  for (int k = 0; k < 5; ++k) {
    ASSERT_FALSE(stepper.step(dt).rejected);
    const double now = kinetic_energy(system, stepper.state());
    EXPECT_NEAR(now, last / std::pow(1 + 8 * each, 2), tol_rounding(20));
    last = now;
  }
}

// Coupled through a chain of hinges with torsional dampers.
TEST(Viscous, AChainOfStiffDampersLosesEnergyOnly) {
  System system;
  system.set_gravity({0, -g, 0});
  BodyId last = ground;
  Vector3d at = Vector3d::Zero();
  for (int i = 0; i < 12; ++i) {
    const Vector3d centre = at + Vector3d(0.1, 0, 0);
    const BodyId link =
        system.add_body("l" + std::to_string(i), 0.3, Vector3d(1e-3, 1e-3, 1e-3), {centre, Quaterniond::Identity()});
    const ConstraintId pin = system.add(joints::hinge("h" + std::to_string(i), last, i ? Vector3d(0.1, 0, 0) : at,
                                                      Vector3d::UnitZ(), link, {-0.1, 0, 0}, Vector3d::UnitZ()));
    add_law(system, pin, laws::viscous_torque(i % 3 == 0 ? 50.0 : 0.05));
    last = link;
    at += Vector3d(0.2, 0, 0);
  }
  const double before = energy(system, system.initial_state());
  Stepper stepper(system, system.initial_state(), semi_implicit());
  for (int k = 0; k < 240; ++k) {
    ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
    // The weak ones, taken at the start of the step, may be booked over a spin that turns within it (T11).
    for (const LawWork& law : stepper.law_works()) ASSERT_LE(law.last, 1e-5);
  }
  EXPECT_LE(energy(system, stepper.state()), before + 1e-9);
  EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-10));
}

// Far below its speed regularised friction is a damper μN/speed; here that times dt is five thousand masses.
TEST(Regularized, CoulombStopsAndCreepsAsItSays) {
  const double mu = 0.4, speed = 1e-5, N = Sledge::m * g, dt = 1.0 / 240;
  for (const Law& law : {laws::regularized_coulomb(mu, speed),
                         laws::regularized_stribeck({.mu_static = mu, .mu_kinetic = mu, .speed = 0.1}, speed)}) {
    Sledge s(law, 1, 2.0);  // pulled with less than friction holds
    Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
    double stopped = 0, last = 1;
    for (int k = 0; k < 240; ++k) {
      ASSERT_FALSE(stepper.step(dt).rejected);
      const double v = stepper.state()[s.body].v.x();
      ASSERT_GE(v, 0) << k;
      ASSERT_LE(v, last + 1e-12) << k;
      ASSERT_LE(stepper.law_works()[0].last, 0);
      if (stopped == 0 && v < 1e-3) stopped = stepper.t();
      last = v;
    }
    EXPECT_NEAR(stopped, 1 / (mu * g - 2.0 / Sledge::m), 2 * dt);
    const double share = 2.0 / (mu * N);  // μN v/√(v² + speed²) = pull
    EXPECT_NEAR(stepper.state()[s.body].v.x(), speed * share / std::sqrt(1 - share * share),
                1e-9 * speed + scaled(1e-13));
    EXPECT_EQ(stepper.step(dt).warning, "");
  }
}

// Bristles far stiffer than stiffness·dt² = mass: held, they bend by F/stiffness and swing out; pulled free they slide.
TEST(LuGre, OfAnyStiffnessHoldsAndSlides) {
  for (const double pull : {4.0, 12.0}) {
    Sledge s(laws::lugre(
                 {.stiffness = 1e7, .damping = 300, .mu_static = 0.5, .mu_kinetic = 0.4, .speed = 0.01, .viscous = 1}),
             0, pull);
    Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
    run(stepper, 1, 240);
    const double v = stepper.state()[s.body].v.x();
    if (pull < 9) {
      EXPECT_LE(std::fabs(v), 1e-6);
      EXPECT_LE(stepper.state()[s.body].p.x(), 1e-5);
      EXPECT_NEAR(stepper.law_works()[0].force.force.x(), pull, 1e-3);
    } else {  // m v̇ = pull − μ_k N − v from rest
      const double rest = pull - 0.4 * Sledge::m * g;
      EXPECT_NEAR(v, rest * (1 - std::exp(-1 / Sledge::m)), 0.02);
    }
    EXPECT_LT(kinetic_energy(s.system, stepper.state()), pull * stepper.state()[s.body].p.x() + 1e-9);
  }
}

// Way, velocity and bristles of a sledge of mass m on bristles under the load N, by the classical rule of fourth order
// on LuGre's own two equations in steps of a microsecond.
Vector3d on_bristles(const laws::LuGre& p, double m, double N, double v, double duration) {
  const auto rates = [&](const Vector3d& y) -> Vector3d {  // x, v, z
    const double share = std::exp(-(y[1] / p.speed) * (y[1] / p.speed));
    const double most = N * (p.mu_kinetic + (p.mu_static - p.mu_kinetic) * share);
    const double z_dot = y[1] - std::fabs(y[1]) * p.stiffness * y[2] / most;
    return {y[1], -(p.stiffness * y[2] + p.damping * z_dot + p.viscous * y[1]) / m, z_dot};
  };
  Vector3d y(0, v, 0);
  const double h = 1e-6;  // errors of 1e-13 on soft bristles
  for (double t = 0; t < duration - 0.5 * h; t += h) {
    const Vector3d k1 = rates(y), k2 = rates(y + 0.5 * h * k1), k3 = rates(y + 0.5 * h * k2), k4 = rates(y + h * k3);
    y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  }
  return y;
}

TEST(LuGre, StopsWhereItsEquationsSayInEveryMethodOrSaysThatItCannot) {
  const laws::LuGre p{.stiffness = 1e5, .damping = 300, .mu_static = 0.3, .mu_kinetic = 0.2, .speed = 0.01};
  const double way = on_bristles(p, Sledge::m, Sledge::m * g, 1, 0.4)[0];
  double last = 1;
  for (const double dt : {1e-2, 1e-3, 1e-4}) {
    SCOPED_TRACE(dt);
    Sledge s(laws::lugre(p), 1);
    Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
    run(stepper, 0.4, static_cast<int>(std::lround(0.4 / dt)));
    const double error = std::fabs(stepper.state()[s.body].p.x() - way) / way;
    EXPECT_LE(error, 0.25 * last);
    last = error;
  }
  EXPECT_LE(last, 4e-4);
  for (const double dt : {5e-2, 1e-2, 1e-3, 1e-4}) {
    SCOPED_TRACE(dt);
    Sledge s(laws::lugre(p), 1);
    Stepper stepper(s.system, s.system.initial_state(), rk4());
    bool warned = false;
    for (int i = 0; i < static_cast<int>(std::lround(0.4 / dt)); ++i) {
      const StepReport& report = stepper.step(dt);
      ASSERT_FALSE(report.rejected) << report.reason;
      warned = warned || report.warning.find("lugre") != std::string::npos;
    }
    if (!warned) {
      EXPECT_NEAR(stepper.state()[s.body].p.x(), way, 1e-3 * way);
    }
    EXPECT_TRUE(!warned || dt > 1e-3);
  }
}

// Bristles are part of the state that stages carry: where they stay smooth, a motion on them has the order of the
// method, and adaptive meets its tolerance.
TEST(LuGre, HasTheOrderOfTheMethodAndItsTolerance) {
  const laws::LuGre p{.stiffness = 10, .damping = 1, .mu_static = 0.3, .mu_kinetic = 0.2, .speed = 0.5, .viscous = 0.3};
  const Vector3d end = on_bristles(p, Sledge::m, Sledge::m * g, 3, 0.2);  // never at rest, where |slip| has a kink
  for (const NormalForce normal_force : {NormalForce::frictionless, NormalForce::coupled}) {
    SCOPED_TRACE(normal_force == NormalForce::frictionless ? "ideal" : "actual");
    const auto error = [&](const StepOptions& options, int steps) {
      Sledge s(laws::lugre(p).with_normal_force(normal_force), 3);
      Stepper stepper(s.system, s.system.initial_state(), options);
      for (int i = 0; i < steps; ++i) EXPECT_FALSE(stepper.step(0.2 / steps).rejected);
      return std::fabs(stepper.state()[s.body].p.x() - end[0]) + std::fabs(stepper.state()[s.body].v.x() - end[1]);
    };
    EXPECT_NEAR(slope({error(rk4(), 20), error(rk4(), 40), error(rk4(), 80)}), 4, scaled(0.1));
    // Tolerances that accept everything leave the pair with one part for each step.
    const StepOptions one{.method = Method::adaptive, .relative_tolerance = 1e6, .absolute_tolerance = 1e6};
    EXPECT_NEAR(slope({error(one, 10), error(one, 20), error(one, 40)}), 5, scaled(0.2));
    for (const Method method : {Method::adaptive, Method::adaptive8})
      EXPECT_LE(error({.method = method}, 10), scaled(1e-9)) << to_string(method);
  }
}

TEST(LuGre, IsNamedWhereRattleCannotFollowIt) {
  Sledge s(laws::lugre({.stiffness = 1e5, .damping = 300, .mu_static = 0.3, .mu_kinetic = 0.2, .speed = 0.01}), 0.1);
  Stepper stepper(s.system, s.system.initial_state(), {.method = Method::rattle});
  const StepReport& report = stepper.step(0.01);
  EXPECT_TRUE(report.rejected);
  EXPECT_NE(report.reason.find("law 'lugre' on rail"), std::string::npos) << report.reason;
}

// −√slip stops a body in finite time, and holds it there with a slope without bound: parts end, and the law is named.
TEST(Root, AtZeroSlipIsNamedByAdaptive) {
  Sledge s(Law([](const ConstraintReaction& n) {
             return Vector3d(-3 * std::sqrt(n.slip_velocity.norm()) * n.slip_direction());
           }).with_name("root"),
           1e-3);
  Stepper stepper(s.system, s.system.initial_state(), {.method = Method::adaptive});
  std::string said;
  for (int i = 0; i < 5 && said.empty(); ++i) {
    const StepReport& report = stepper.step(0.01);
    ASSERT_FALSE(report.rejected) << report.reason;
    said = report.warning;
  }
  EXPECT_NE(said.find("law 'root' on rail needs substeps of about"), std::string::npos) << said;
}

// A charge in a magnetic field goes round with qB/m and keeps its speed: to round-off, for the law neither gives nor
// takes at the mean velocity.
TEST(Lorentz, KeepsTheSpeedInAnyStep) {
  System system;
  const double q = 2, B = 6, m = 0.5;
  const BodyId ion = system.add_particle("ion", m, Vector3d::Zero(), {1, 0, 0});
  const ConstraintId plane =
      system.add(joints::point_on_plane("plane", ground, Vector3d::Zero(), Vector3d::UnitZ(), ion, Vector3d::Zero()));
  add_law(system, plane, laws::lorentz(q, Vector3d::Zero(), {0, 0, B}));
  double error[2];
  for (const int k : {0, 1}) {
    const int steps = 240 << k;
    Stepper stepper(system, system.initial_state(), semi_implicit());
    run(stepper, 1, steps);
    const BodyState& s = stepper.state()[ion];
    EXPECT_NEAR(s.v.norm(), 1, tol_rounding(100));
    const double turned = q * B / m;
    error[k] = (s.v - Vector3d(std::cos(turned), -std::sin(turned), 0)).norm();
  }
  EXPECT_LE(error[0], 0.05);
  EXPECT_LE(error[1], 0.3 * error[0]);  // of second order even
}

TEST(Rk4, TakesStiffLawsInShorterPartsAndSaysWhereItCannot) {
  const double c = 30 * Sledge::m / 0.01;
  Sledge s(laws::viscous(c));
  Stepper stepper(s.system, s.system.initial_state(), rk4());
  const StepReport& report = stepper.step(0.01);
  EXPECT_FALSE(report.rejected);
  EXPECT_GT(report.substeps, 15);
  EXPECT_EQ(report.warning, "");
  EXPECT_NEAR(stepper.state()[s.body].v.x(), 3 * std::exp(-30.0), 1e-3);
  EXPECT_NEAR(stepper.law_works()[0].work, -0.5 * Sledge::m * 9, 0.5);
  Sledge hard(laws::viscous(100 * c).with_name("tar"));
  Stepper cannot(hard.system, hard.system.initial_state(), rk4());
  EXPECT_NE(cannot.step(0.01).warning.find("law 'tar' on rail is too stiff even for substeps of dt/"),
            std::string::npos)
      << cannot.step(0.01).warning;
}

// A heavy wheel on a light shaft that turns in oil. The shaft alone would stop within two microseconds, with the wheel
// it takes seconds.
TEST(Rk4, JudgesADamperByTheMotionThatConstraintsLeave) {
  constexpr double oil = 0.5, shaft_inertia = 1e-6, wheel_inertia = 2, rate = 20;
  System system;
  const BodyId shaft = system.add_body("shaft", 1e-3, Vector3d::Constant(shaft_inertia), {}, {0, 0, 0}, {0, 0, rate});
  const BodyId wheel = system.add_body("wheel", 30, Vector3d(1, 1, wheel_inertia), {}, {0, 0, 0}, {0, 0, rate});
  const ConstraintId pin = system.add(
      joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitZ(), shaft, Vector3d::Zero(), Vector3d::UnitZ()));
  system.add(joints::weld("key", shaft, {}, wheel, {}));
  add_law(system, pin, laws::viscous_torque(oil));
  Stepper stepper(system, system.initial_state(), rk4());
  for (int k = 0; k < 100; ++k) {
    const StepReport& report = stepper.step(0.01);
    ASSERT_EQ(report.substeps, 1);
    ASSERT_EQ(report.warning, "");
  }
  EXPECT_NEAR(stepper.state()[wheel].w.z(), rate * std::exp(-oil / (shaft_inertia + wheel_inertia)), scaled(1e-10));

  Dynamics dynamics(system);
  dynamics.compute_rates(true);
  ASSERT_EQ(dynamics.evaluate(stepper.state()), Status::ok);
  EXPECT_NEAR(dynamics.law_report().rate, oil / shaft_inertia, 1e-3 * oil / shaft_inertia);
  dynamics.find_rate(stepper.state(), 1e9);  // no question
  EXPECT_NEAR(dynamics.law_report().rate, oil / shaft_inertia, 1e-3 * oil / shaft_inertia);
  dynamics.find_rate(stepper.state(), 0);
  EXPECT_GE(dynamics.law_report().rate, oil / wheel_inertia);
  EXPECT_LE(dynamics.law_report().rate, 1.2 * oil / wheel_inertia);
}

// The fastest way in which a chain of flywheels between dampers comes to rest: 4 c/I sin²(nπ/(2n + 2)) of n, held at
// both ends.
TEST(Rk4, FindsTheRateOfDampersThatHangTogether) {
  constexpr int n = 12;
  constexpr double c = 3, inertia = 0.2;
  System system;
  BodyId before = ground;
  for (int i = 0; i <= n; ++i) {
    const BodyId next = i == n
                            ? ground
                            : system.add_body("wheel" + std::to_string(i), 1, Vector3d::Constant(inertia),
                                              {Vector3d(0, 0, i), Quaterniond::Identity()}, {0, 0, 0}, {0, 0, 1.0 + i});
    const Vector3d on_next(0, 0, i == n ? n : 0), on_before(0, 0, i == 0 ? 0 : 1);
    const std::string name = "oil" + std::to_string(i);
    const ConstraintId oil = system.add(
        i == n ? joints::hinge(name, before, Vector3d(0, 0, 1), Vector3d::UnitZ(), next, on_next, Vector3d::UnitZ())
               : joints::hinge(name, before, on_before, Vector3d::UnitZ(), next, on_next, Vector3d::UnitZ()));
    add_law(system, oil, laws::viscous_torque(c));
    before = next;
  }
  Dynamics dynamics(system);
  dynamics.compute_rates(true);
  const State at = system.initial_state();
  ASSERT_NE(dynamics.evaluate(at), Status::invalid) << dynamics.reason();
  dynamics.find_rate(at, 0);
  const double fastest = 4 * c / inertia * std::pow(std::sin(n * std::numbers::pi / (2 * n + 2)), 2);
  EXPECT_GE(dynamics.law_report().rate, 0.95 * fastest);
  EXPECT_LE(dynamics.law_report().rate, 1.15 * fastest);
}

// Jumps every ten nanoseconds: no number of parts is enough.
TEST(Adaptive, AForceThatNeverEndsItsJumpsEndsTheStepWithAMessage) {
  System system;
  const BodyId body = system.add_particle("grain", 1, {});
  system.add(Force("rattle", {body},
                   [](ForceFrame& f) { f.add_force(0, Vector3d(std::fmod(f.t, 2e-8) < 1e-8 ? 1 : -1, 0, 0)); }));
  Stepper stepper(system, system.initial_state(), {.method = Method::adaptive});
  const StepReport& report = stepper.step(1);
  EXPECT_TRUE(report.rejected);
  EXPECT_LE(report.substeps, 100000);
  EXPECT_NE(report.reason.find("the step needs more than 100000 substeps (the last one is"), std::string::npos)
      << report.reason;
  EXPECT_NE(report.reason.find("Use a shorter step, or the method semi-implicit"), std::string::npos) << report.reason;
  EXPECT_EQ(stepper.t(), 0);
}

TEST(Rk4, RefusesForcesBeyondAllBoundsWithTheReason) {
  const auto reason = [](Law law) {
    Sledge s(std::move(law));
    Stepper stepper(s.system, s.system.initial_state(), rk4());
    const StepReport& report = stepper.step(0.01);
    EXPECT_TRUE(report.rejected);
    EXPECT_EQ(stepper.state()[s.body].v.x(), 3);
    return report.reason;
  };
  EXPECT_NE(reason(laws::constant_force({1e12, 0, 0})).find("on rail gave a force of 1e+12 N, which is too large"),
            std::string::npos)
      << reason(laws::constant_force({1e12, 0, 0}));
  for (const Law& law : {laws::viscous(1e9), laws::drag(1e9)}) {
    const std::string why = reason(law);
    EXPECT_NE(why.find("which is too large"), std::string::npos) << why;
    EXPECT_NE(why.find("is too stiff for the step. Use a shorter step, or the method semi-implicit"), std::string::npos)
        << why;
  }
}

// ---- laws that are not what they should be ----

const std::string advice = "Use coulomb(), which can stick, or regularized_coulomb(), which is smooth";

Law sign_of_slip(double mu) {
  return [=](const ConstraintReaction& n) {
    const double s = n.slip_velocity.x();
    return Vector3d(-mu * n.magnitude() * (s > 0 ? 1 : s < 0 ? -1 : 0), 0, 0);
  };
}

TEST(BadLaws, ASignOfTheSlipIsHeldAtItsJumpAndNamed) {
  Sledge s(sign_of_slip(0.4).with_name("sign"), 1, 2.0);
  Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
  std::string warning;
  double energy = 1;
  for (int k = 0; k < 240; ++k) {
    const StepReport& report = stepper.step(1.0 / 240);
    ASSERT_FALSE(report.rejected);
    if (!report.warning.empty()) warning = report.warning;
    const double now = kinetic_energy(s.system, stepper.state());
    ASSERT_LE(now, energy + 1e-15);
    energy = now;
  }
  EXPECT_NE(warning.find("law 'sign' on rail: the force jumps where the slip changes sign"), std::string::npos)
      << warning;
  EXPECT_NE(warning.find(advice), std::string::npos);
  EXPECT_LE(std::fabs(stepper.state()[s.body].v.x()), 1e-8);
  EXPECT_LE(stepper.law_works()[0].switches_per_second(), 1);
  ASSERT_EQ(stepper.dynamics().warnings().size(), 1u);
}

TEST(BadLaws, ThatAdaptiveCannotFollowAreRefusedAtOnceAndNamed) {
  // After 25 ms the sledge is where the law jumps; the other damps 10¹² times as fast as the step.
  const auto refused = [](const Law& law, double dt) {
    const auto calls = std::make_shared<long>(0);
    Law counted = law;
    Sledge s(counted.with_name("own") + Law([=](const ConstraintReaction&) {
               ++*calls;
               return Vector3d(0, 0, 0);
             }),
             0.1, 1.0);
    Stepper stepper(s.system, s.system.initial_state(), {.method = Method::adaptive});
    const StepReport& report = stepper.step(dt);
    EXPECT_TRUE(report.rejected);
    EXPECT_LE(*calls, 10000);
    return report.reason;
  };
  const std::string jumps = refused(sign_of_slip(0.4), 0.1);
  EXPECT_NE(jumps.find("law 'own' on rail: the force jumps where the slip changes sign"), std::string::npos) << jumps;
  EXPECT_NE(jumps.find(advice), std::string::npos) << jumps;
  const std::string stiff = refused([](const ConstraintReaction& n) { return Vector3d(-1e12 * n.slip_velocity); }, 0.1);
  EXPECT_NE(stiff.find("law 'own' on rail"), std::string::npos) << stiff;
}

TEST(BadLaws, OneThatIsNoFunctionOfWhatItIsGivenIsCalledThat) {
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    const auto calls = std::make_shared<long>(0);
    Law counts = [=](const ConstraintReaction&) { return Vector3d(-0.1 * static_cast<double>(++*calls % 7), 0, 0); };
    Sledge s(counts.with_name("counts"), 0.1);
    Stepper stepper(s.system, s.system.initial_state(), options);
    std::vector<std::string> said;
    for (int k = 0; k < 10; ++k) {
      const StepReport& report = stepper.step(1.0 / 240);
      ASSERT_FALSE(report.rejected) << report.reason;
      if (!report.warning.empty() && (said.empty() || said.back() != report.warning)) said.push_back(report.warning);
    }
    ASSERT_FALSE(said.empty());
    EXPECT_LE(said.size(), options.method == Method::rk4 ? 2u : 1u);  // rk4 takes it for a stiff one first
    EXPECT_NE(said.back().find("law 'counts' on rail: returns different forces for the same arguments"),
              std::string::npos)
        << said.back();
  }
}

TEST(BadLaws, OneThatChattersBetweenStepsIsCountedAndNamed) {
  // The same by the back door, from the body's own velocity: no slip to ask it for.
  Law hidden = [](const ConstraintReaction& n) { return Vector3d(n.second->v.x() > 0 ? 8 : -8, 0, 0); };
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    Sledge s(hidden.with_name("hidden"), 0.1);
    Stepper stepper(s.system, s.system.initial_state(), options);
    std::string warning;
    for (int k = 0; k < 240; ++k) {
      ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
      if (warning.empty() && !stepper.dynamics().warnings().empty()) warning = stepper.dynamics().warnings()[0];
    }
    EXPECT_NE(warning.find("law 'hidden' on rail: the force reverses"), std::string::npos) << warning;
    EXPECT_NE(warning.find(advice), std::string::npos);
    EXPECT_GT(stepper.law_works()[0].switches_per_second(), 50);
    EXPECT_LE(stepper.law_works()[0].switches_per_second(), 240);
  }
}

TEST(BadLaws, OneThatChattersToOneSideUnderALoadIsNamedHoweverRarelyItReverses) {
  // On a slope of tan θ < 0.3: it slides slower for long, and is pushed back in a step or two. At 0.28 rad it reverses
  // every 70 steps.
  for (const double angle : {0.2, 0.25, 0.28})
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      SCOPED_TRACE(std::to_string(angle) + ", " + to_string(options.method));
      System system;
      system.set_gravity(9.81 * Vector3d(std::sin(angle), 0, -std::cos(angle)));
      const BodyId load = system.add_particle("load", 2, {});
      Law hidden = [](const ConstraintReaction& n) {  // the load is second
        return Vector3d(0.3 * n.magnitude() * (n.second->v.x() > 0 ? 1 : -1), 0, 0);
      };
      add_law(system,
              system.add(
                  joints::point_on_plane("slope", ground, Vector3d::Zero(), Vector3d::UnitZ(), load, Vector3d::Zero())),
              hidden.with_name("hidden"));
      Stepper stepper(system, system.initial_state(), options);
      std::string said;
      for (int k = 0; k < 240 && said.empty(); ++k) said = stepper.step(1.0 / 240).warning;
      EXPECT_NE(said.find("law 'hidden' on slope: the force reverses"), std::string::npos) << said;
      EXPECT_NE(said.find(advice), std::string::npos);
    }
}

TEST(BadLaws, ASignOfTheSlipIsNamedAsSuchByRk4HoweverStrong) {
  for (const double mu : {0.4, 4.0, 400.0}) {
    Sledge s(sign_of_slip(mu).with_name("sign"), 0, 2.0);
    Stepper stepper(s.system, s.system.initial_state(), rk4());
    const std::string said = stepper.step(1.0 / 240).warning;
    EXPECT_NE(said.find("law 'sign' on rail: the force jumps where the slip changes sign"), std::string::npos) << said;
    EXPECT_EQ(said.find("too stiff"), std::string::npos) << said;
  }
}

TEST(BadLaws, AThrustThatRedundancyLeavesOpenIsSaidInEveryStep) {
  for (const int feet : {3, 4})
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      System system;
      system.set_gravity({0, 0, -9.81});
      const BodyId table = system.add_body("table", 10, Vector3d(1, 1, 1), {});
      for (int i = 0; i < feet; ++i)
        add_law(system,
                system.add(joints::point_on_plane("foot" + std::to_string(i), ground, Vector3d::Zero(),
                                                  Vector3d::UnitZ(), table, Vector3d(i % 2, i / 2, 0))),
                laws::coulomb(0.2));
      Stepper stepper(system, system.initial_state(), options);
      for (int k = 0; k < 2; ++k) {
        const std::string said = stepper.step(1.0 / 240).warning;
        const bool open =
            said.find("on foot0, foot1, foot2 and foot3: the normal force is undetermined") != std::string::npos;
        EXPECT_EQ(open, feet == 4) << said;
        if (feet == 3) {
          EXPECT_EQ(said, "");
        }
      }
    }
}

TEST(BadLaws, AnAdaptiveStepDoesNotFollowAJumpForEver) {
  Sledge s(sign_of_slip(0.4).with_name("sign"), 1);  // stops at 1/(0.4 g) = 0.255 s
  StepOptions options = rk4();
  options.method = Method::adaptive;
  Stepper stepper(s.system, s.system.initial_state(), options);
  ASSERT_FALSE(stepper.step(0.25).rejected);
  const StepReport& report = stepper.step(0.1);
  EXPECT_TRUE(report.rejected);
  EXPECT_NE(report.reason.find("become shorter without end"), std::string::npos) << report.reason;
}

TEST(BadLaws, AWeakLawOnWhatHardlyTurnsDoesNotChatter) {
  System system;  // a chain let go from the level: most of its links turn by rounding only
  system.set_gravity({0, 0, -g});
  BodyId before = ground;
  for (int i = 0; i < 60; ++i) {
    const BodyId link =
        system.add_body("link" + std::to_string(i), 1, Vector3d::Constant(0.02), Pose{{0.5 * i + 0.25, 0, 0}});
    const ConstraintId joint =
        system.add(joints::ball("joint" + std::to_string(i), before, {i == 0 ? 0 : 0.25, 0, 0}, link, {-0.25, 0, 0}));
    add_law(system, joint, [](const ConstraintReaction& n) {
      return ForceMoment{Vector3d::Zero(),
                         -1e-6 * n.magnitude() * n.spin_velocity / std::sqrt(n.spin_velocity.squaredNorm() + 1)};
    });
    before = link;
  }
  Stepper stepper(system, system.initial_state(), semi_implicit());
  for (int k = 0; k < 40; ++k) {
    const StepReport& report = stepper.step(1.0 / 240);
    ASSERT_FALSE(report.rejected) << report.reason;
    ASSERT_TRUE(report.warning.empty()) << report.warning;
    ASSERT_TRUE(stepper.dynamics().warnings().empty()) << stepper.dynamics().warnings()[0];
  }
}

TEST(BadLaws, AForceBeyondAllBoundsIsRefusedAndNamed) {
  for (const double size : {1e300, -1e40, 1e20}) {
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      bool begun = false;  // quiet when the stepper looks first
      Sledge s([&](const ConstraintReaction&) { return Vector3d(begun ? size : 0, 0, 0); });
      Stepper stepper(s.system, s.system.initial_state(), options);
      begun = true;
      const StepReport& report = stepper.step(0.01);
      EXPECT_TRUE(report.rejected);
      EXPECT_NE(report.reason.find("law on rail gave a force of"), std::string::npos) << report.reason;
      EXPECT_EQ(stepper.state()[s.body].v.x(), 3);
    }
  }
}

// ---- flaws of laws as such ----

TEST(BadLaws, OneDeclaredDissipativeThatPushesAtRestIsNamed) {
  // Both take energy once something moves. A sledge of 2 kg at rest on a level rail: 5 N make 12.5 W in a second.
  const std::vector<std::function<Vector3d(const ConstraintReaction&)>> pushes{
      [](const ConstraintReaction& n) {
        return n.slip_velocity.norm() < 1e-3 ? Vector3d(5, 0, 0) : Vector3d(-5 * n.slip_velocity);
      },
      [](const ConstraintReaction& n) {
        return n.slip_velocity.norm() == 0 ? Vector3d(5, 0, 0) : Vector3d(-5 * n.slip_velocity);
      }};
  for (const auto& push : pushes)
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      Sledge s(Law(push).with_name("push").dissipative(), 0);
      Stepper stepper(s.system, s.system.initial_state(), options);
      for (int k = 0; k < 3; ++k) {  // said for as long as it is there
        stepper.step(1.0 / 240);
        ASSERT_EQ(stepper.dynamics().warnings().size(), 1u);
        EXPECT_EQ(
            stepper.dynamics().warnings()[0].find("law 'push' on rail is declared dissipative but exerts 5 N at rest. "
                                                  "After one millisecond it would give 0.0125 W"),
            0u)
            << stepper.dynamics().warnings()[0];
      }
      clear_laws(s.system, s.rail);
      add_law(s.system, s.rail, laws::viscous(1));
      EXPECT_EQ(stepper.step(1.0 / 240).warning, "") << "gone with its law";
    }
  for (const Law& law :
       {laws::viscous(3), laws::drag(2), laws::regularized_coulomb(0.3, 1e-4), laws::coulomb(0.3) + laws::viscous(1)}) {
    Sledge s(law, 0);
    Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
    EXPECT_EQ(stepper.step(1.0 / 240).warning, "");
  }
}

TEST(BadLaws, OneThatJumpsElsewhereIsNamedWithThePlace) {
  const auto dry = [](std::function<double(const ConstraintReaction&, double)> sliding) {
    Law::Term term;
    term.name = "stepped";
    term.static_limit = [](const ConstraintReaction& n) { return 0.3 * n.magnitude(); };
    term.sliding_magnitude = std::move(sliding);
    return Law(std::move(term));
  };
  Law step = [](const ConstraintReaction& n) {
    return Vector3d(n.slip_velocity.norm() > 1 ? -8 * n.slip_velocity : Vector3d(-2 * n.slip_velocity));
  };
  Law stepped = dry([](const ConstraintReaction& n, double speed) { return (speed > 1 ? 0.1 : 0.3) * n.magnitude(); });
  Law stiff = [](const ConstraintReaction& n) {
    return Vector3d(n.slip_velocity.norm() > 1 ? -8000 * n.slip_velocity : Vector3d(-2000 * n.slip_velocity));
  };
  Law loaded = [](const ConstraintReaction& n) { return Vector3d((n.magnitude() > 20.5 ? -3 : -1) * n.slip_velocity); };
  struct Case {
    Law law;
    double speed;
    std::string says;
    double at;
  };
  for (const Case& c : {Case{step.with_name("step"), 1.3, "law 'step' on rail: the force jumps where the slip is ", 1},
                        Case{stepped, 1.3, "law 'stepped' on rail: the force jumps where the slip is ", 1},
                        Case{loaded.with_name("loaded"), 1.3,
                             "law 'loaded' on rail: the force jumps where the normal force is ", 20.5}})
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      SCOPED_TRACE(c.says);
      Sledge s(c.law, c.speed);
      s.system.add(Force("press", {s.body}, [](ForceFrame& f) { f.add_force(0, {0, 0, -2 * f.t}); }));
      Stepper stepper(s.system, s.system.initial_state(), options);
      std::string said;
      for (int k = 0; k < 240 && said.empty(); ++k) {
        const StepReport& report = stepper.step(1.0 / 240);
        ASSERT_FALSE(report.rejected) << report.reason;
        said = report.warning;
      }
      ASSERT_NE(said.find(c.says), std::string::npos) << said;
      EXPECT_NEAR(std::stod(said.substr(c.says.size())), c.at, 1e-4 * c.at) << said;
    }
  // Driven to its jump and held there: no slip at a step's end satisfies it.
  Sledge s(stiff.with_name("stiff"), 0.9);
  s.system.add(Force("drive", {s.body}, [](ForceFrame& f) { f.add_force(0, {4000, 0, 0}); }));
  Stepper stepper(s.system, s.system.initial_state(), semi_implicit());
  std::string said;
  for (int k = 0; k < 20 && said.empty(); ++k) said = stepper.step(1.0 / 240).warning;
  EXPECT_NE(said.find("law 'stiff' on rail: the force jumps where the slip is 1"), std::string::npos) << said;
  EXPECT_NEAR(stepper.state()[s.body].v.x(), 1, 1e-3);
}

// What is only steep, or changes much from step to step, does not jump.
TEST(BadLaws, ASteepOneIsNotTakenToJump) {
  const auto over = [](double width) {
    return [=](const ConstraintReaction& n) {
      return Vector3d(-(5 + 3 * std::tanh((n.slip_velocity.norm() - 1) / width)) * n.slip_direction(1e-3));
    };
  };
  for (const Law& law :
       {Law(over(1e-6)), Law(over(0.1)), laws::stribeck({.mu_static = 0.6, .mu_kinetic = 0.2, .speed = 0.01}),
        Law([](const ConstraintReaction& n) { return Vector3d(5 * std::cos(300 * n.t), 0, 0); })})
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      Sledge s(law, 1.2);
      Stepper stepper(s.system, s.system.initial_state(), options);
      for (int k = 0; k < 240; ++k) {
        const StepReport& report = stepper.step(1.0 / 240);
        ASSERT_EQ(report.warning.find("jumps"), std::string::npos) << report.warning;
      }
    }
}

/// The same law, which counts how often it is asked.
Law counted(const Law& law, long& calls) {
  Law sum;
  for (Law::Term term : law.terms()) {
    if (term.force) term.force = [&calls, ask = term.force](const ConstraintReaction& n) { return ++calls, ask(n); };
    if (term.static_limit)
      term.static_limit = [&calls, ask = term.static_limit](const ConstraintReaction& n) { return ++calls, ask(n); };
    if (term.sliding_magnitude)
      term.sliding_magnitude = [&calls, ask = term.sliding_magnitude](const ConstraintReaction& n, double v) {
        return ++calls, ask(n, v);
      };
    sum = sum ? sum + Law(term) : Law(term);
  }
  return sum;
}

// A tumbling body with one point on the ground, where dry friction and a stiff smooth law rub: swept one after the
// other they take some hundred thousand calls in a step.
TEST(StiffLaws, BesideDryFrictionOnOneContactCostNoMoreThanTwoLaws) {
  for (const NormalForce dry_reads : {NormalForce::frictionless, NormalForce::coupled})
    for (const NormalForce smooth_reads : {NormalForce::frictionless, NormalForce::coupled})
      for (const double stiffness : {1.0, 10.0, 1000.0}) {
        System system;
        system.set_gravity({0, 0, -g});
        const BodyId body =
            system.add_body("b", 0.136, Vector3d::Constant(0.0647), Pose{{0, 0, 0.1}}, {1, 0.5, 0}, {0.5, -0.4, 0.3});
        const Vector3d foot(0, 0, -0.1);
        const ConstraintId floor = system.add(holonomic("floor", {body}, [foot](const auto& q) {
                                                return q[0].point(foot).z;
                                              }).set_application_points({foot}));
        long calls = 0;
        add_law(system, floor, counted(laws::coulomb(0.262, 0.18).with_normal_force(dry_reads), calls));
        add_law(system, floor,
                counted(laws::regularized_coulomb(0.0465, 1e-2 / stiffness).with_normal_force(smooth_reads), calls));
        Stepper stepper(system, system.initial_state(), semi_implicit());
        for (int k = 0; k < 90; ++k) {
          const long before = calls;
          const StepReport& report = stepper.step(0.0214);
          ASSERT_FALSE(report.rejected) << report.reason;
          EXPECT_TRUE(report.warning.empty()) << report.warning;
          ASSERT_LE(calls - before, 1500 * std::max(1, report.substeps)) << "step " << k;
        }
        ASSERT_GT(calls, 90);
      }
}

}  // namespace
}  // namespace linchpin::test::smooth_laws_test
