// Contacts of dry friction as hosts and users see them: joints, belts, several at once, one-sided constraints, laws
// that misbehave.
#include "support/allocation_counter.h"
#include "support/motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <limits>
#include <stdexcept>

namespace linchpin::test::contacts_test {
namespace {

constexpr double g = 9.81;
using What = ModeSwitch::What;

// ---- joints ----

/// A balanced wheel on a level pin: μ r m g slows it evenly.
struct Wheel {
  System system;
  BodyId wheel;
  ConstraintId pin;
  static constexpr double m = 3, I = 0.4, r = 0.02, mu = 0.3, w0 = 5;
  explicit Wheel(Law law) {
    system.set_gravity({0, 0, -g});
    wheel = system.add_body("wheel", m, Vector3d(0.25, I, 0.25), {}, Vector3d::Zero(), {0, w0, 0});
    pin = system.add(
        joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitY(), wheel, Vector3d::Zero(), Vector3d::UnitY()));
    add_law(system, pin, std::move(law));
  }
};

TEST(JointFriction, StopsAWheelOnItsPin) {
  const double torque = Wheel::mu * Wheel::r * Wheel::m * g + 0.01, stop = Wheel::I * Wheel::w0 / torque;
  const laws::JointFriction p{.mu_static = Wheel::mu, .mu_kinetic = Wheel::mu, .pin_radius = Wheel::r, .preload = 0.01};
  Wheel exact(laws::hinge_friction(p)), stepped(hinge_friction(p));
  Stepper a(exact.system, exact.system.initial_state(), rk4());
  const auto all = switches_until(a, stop + 0.5, 0.05);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, What::sticks);
  EXPECT_NEAR(all[0].t, stop, scaled(1e-9));
  EXPECT_LE(a.state()[exact.wheel].w.norm(), scaled(1e-14));
  EXPECT_NEAR(a.law_works()[0].work, -0.5 * Wheel::I * Wheel::w0 * Wheel::w0, scaled(1e-9));

  Stepper b(stepped.system, stepped.system.initial_state(), semi_implicit());
  const auto found = switches_until(b, stop + 0.5, 1.0 / 240);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].t, stop, 1.0 / 240);
  EXPECT_LE(b.state()[stepped.wheel].w.norm(), scaled(1e-15));
  const Reaction& pin = named(b.reactions(), "pin");
  EXPECT_NEAR(pin.prescribed.on_b.moment.norm(), 0, scaled(1e-12));
}

TEST(JointFriction, OfASliderGrowsWithItsSideLoad) {
  // Pushed across the rail by F and along it by P; the centre of pressure is the rail's, so no moment is read.
  for (const bool holds : {true, false}) {
    System system;
    const BodyId car = system.add_body("car", 2, Vector3d(1, 1, 1), {});
    const ConstraintId rail = system.add(joints::slider("rail", ground, {}, car, {}));
    add_law(system, rail, laws::slider_friction({.mu_static = 0.25, .mu_kinetic = 0.2, .preload = 3}));
    const double P = 0.25 * 50 + 3 + (holds ? -0.1 : 0.1);
    system.add(Force("push", {car}, [P](ForceFrame& f) { f.add_force(0, {P, 30, 40}); }));
    Dynamics dynamics(system);
    ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok) << dynamics.reason();
    ASSERT_EQ(dynamics.friction_elements().size(), 1u);
    const FrictionElement& c = dynamics.friction_elements()[0];
    EXPECT_EQ(c.dim, 1);
    EXPECT_EQ(c.sticks, holds);
    EXPECT_NEAR(c.bound, 15.5, scaled(1e-12));
    EXPECT_NEAR(dynamics.vdot()[0], holds ? 0 : (P - 0.2 * 50 - 3) / 2, scaled(1e-12));
    EXPECT_NEAR(c.friction, holds ? P : 13, scaled(1e-12));
  }
}

TEST(JointFriction, OfACylinderSharesItsBoundBetweenSlidingAndTurning) {
  System system;
  const BodyId shaft = system.add_body("shaft", 2, Vector3d(0.5, 1, 1), {});
  const ConstraintId bore = system.add(joints::cylindrical("bore", ground, Vector3d::Zero(), Vector3d::UnitX(), shaft,
                                                           Vector3d::Zero(), Vector3d::UnitX()));
  add_law(system, bore, laws::cylinder_friction({.mu_static = 0.5, .mu_kinetic = 0.5, .pin_radius = 0.1}));
  double F = 3, T = 0.39;  // √(3² + 3.9²) < 5
  system.add(Force("push", {shaft}, [&](ForceFrame& f) {
    f.add_force(0, {F, 0, 10});
    f.add_moment(0, {T, 0, 0});
  }));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_TRUE(dynamics.friction_elements()[0].sticks);
  EXPECT_NEAR(dynamics.friction_elements()[0].friction, std::hypot(3, 3.9), scaled(1e-12));
  T = 0.41;  // either alone would hold
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_FALSE(dynamics.friction_elements()[0].sticks);
  EXPECT_NEAR(dynamics.friction_elements()[0].friction, 5, scaled(1e-12));
  EXPECT_GT(dynamics.vdot()[0], 0);
  EXPECT_GT(dynamics.vdot()[3], 0);
}

// ---- several at once, redundant ----

TEST(Contacts, FourFeetOnASlopeStickTogether) {
  for (const double mu : {0.58, 0.57}) {  // tan 30° = 0.5774
    System system;
    system.set_gravity({g * 0.5, 0, -g * std::sqrt(0.75)});
    const BodyId table = system.add_body("table", 10, Vector3d(1, 1, 1), {{0, 0, 0.01}, Quaterniond::Identity()});
    for (int i = 0; i < 4; ++i) {
      const Vector3d foot(i % 2 ? 0.5 : -0.5, i / 2 ? 0.4 : -0.4, -0.01);
      const ConstraintId on = system.add(
          joints::point_on_plane("foot" + std::to_string(i), ground, Vector3d::Zero(), Vector3d::UnitZ(), table, foot));
      add_law(system, on, laws::coulomb(mu));
    }
    Dynamics dynamics(system);
    ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::redundant) << dynamics.reason();
    const double a = mu > 0.5774 ? 0 : g * (0.5 - mu * std::sqrt(0.75));
    EXPECT_NEAR(dynamics.vdot()[0], a, scaled(1e-9));
    for (const FrictionElement& c : dynamics.friction_elements()) EXPECT_LE(c.friction, c.bound * (1 + 1e-9));
    // Which foot carries what is open, and one sentence says so for all of them.
    const auto warnings = dynamics.warnings();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("law 'coulomb' on foot0, foot1, foot2 and foot3: "), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find("undetermined"), std::string::npos);
    EXPECT_EQ(warnings[0].find("preload"), std::string::npos) << "coulomb has none";

    Stepper stepper(system, system.initial_state(), semi_implicit());
    for (int k = 0; k < 240; ++k) ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
    EXPECT_NEAR(stepper.state()[table].v.x(), a, scaled(1e-9));
    EXPECT_LE(std::fabs(stepper.state()[table].w.z()), scaled(1e-9));
  }
}

TEST(Contacts, ALevelTableHoldsAndSlidesAsOneBlockWould) {
  // 100 N on feet of coulomb(0.2), pulled level through the centre of mass: 20 N hold it, beyond them (F − 20)/10 m/s².
  struct Case {
    int feet;
    double pull, dt;
    StepOptions how;
  };
  for (const auto& [feet, pull, dt, how] :
       {Case{4, 18, 0.01, rk4()}, Case{4, 19.9, 0.01, rk4()}, Case{4, 21, 0.01, rk4()}, Case{2, 21, 0.01, rk4()},
        Case{3, 21, 0.01, rk4()}, Case{4, 18, 0.01, semi_implicit()}, Case{4, 19, 0.001, semi_implicit()}}) {
    SCOPED_TRACE(std::to_string(feet) + " feet, " + std::to_string(pull) + " N, " + to_string(how.method));
    System system;
    system.set_gravity({0, 0, -10});
    const BodyId table = system.add_body("table", 10, Vector3d(1, 1, 1), {});
    std::vector<Vector3d> points = {{-0.6, -0.4, 0}, {-0.6, 0.4, 0}, {0.6, -0.4, 0}, {0.6, 0.4, 0}};
    if (feet == 3) points = {{-0.6, -0.4, 0}, {-0.6, 0.4, 0}, {0.6, 0, 0}};
    points.resize(static_cast<std::size_t>(feet));
    for (const Vector3d& p : points)
      add_law(system,
              system.add(holonomic("foot" + std::to_string(system.constraint_count()), {table},
                                   [p](const auto& s) { return s[0].point(p).z; })
                             .set_application_points({p})),
              laws::coulomb(0.2));
    if (feet == 2) system.add(holonomic("guide", {table}, [](const auto& s) { return s[0].axis(0, 0, 1).x; }));
    system.add(Force("pull", {table}, [f0 = pull](ForceFrame& f) { f.add_force(0, Vector3d(f0, 0, 0)); }));
    Stepper stepper(system, system.initial_state(), how);
    const auto all = switches_until(stepper, 0.5, dt);
    const BodyState& end = stepper.state()[table];
    EXPECT_NEAR(end.v.x(), pull > 20 ? (pull - 20) / 10 * 0.5 : 0, 1e-9);
    EXPECT_LE(std::fabs(end.v.y()) + end.w.norm(), 1e-9);
    EXPECT_TRUE(all.empty()) << "nothing changes its mode";
    EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, 1e-9);
  }
}

TEST(Contacts, AHostMayHoldThemItself) {
  System system;
  system.set_gravity({3, 0, -10});
  const BodyId block = system.add_particle("block", 2, Vector3d::Zero());
  const ConstraintId floor =
      system.add(joints::point_on_plane("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, Vector3d::Zero()));
  add_law(system, floor, laws::coulomb(0.2, 0.1));
  const State state = system.initial_state();
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(state), Status::ok);
  EXPECT_FALSE(dynamics.friction_elements()[0].sticks);  // 6 N pull, 4 N hold, 2 N drag
  EXPECT_NEAR(dynamics.vdot()[0], 2, tol_rounding(10));
  EXPECT_NEAR(dynamics.friction_elements()[0].slip_acceleration.head<3>().norm(), 2, tol_rounding(10));
  dynamics.set_friction_mode(0, FrictionMode::sticks);
  ASSERT_EQ(dynamics.evaluate(state), Status::ok);
  EXPECT_NEAR(dynamics.vdot()[0], 0, tol_rounding(10));
  EXPECT_NEAR(dynamics.friction_elements()[0].friction, 6, tol_rounding(10));  // more than its bound: time to let go
  EXPECT_NEAR(dynamics.friction_elements()[0].bound, 4, tol_rounding(10));
  EXPECT_NEAR(dynamics.prescribed()[0].force.x(), 6, tol_rounding(10)) << "on the world, which is first";
  // Sliding up the pull, though it has not begun: the first body is the floor, so rubbing is minus the block's way.
  Vector6 sense = Vector6::Zero();
  sense[0] = 1;
  dynamics.set_friction_mode(0, FrictionMode::slips, sense);
  ASSERT_EQ(dynamics.evaluate(state), Status::ok);
  EXPECT_NEAR(dynamics.vdot()[0], 4, tol_rounding(10));
  dynamics.reset_friction_modes();
  // A step of 0.1 s: moving at 0.1 m/s against a pull that would turn it round, it stops if rest can hold it.
  system.set_gravity({-1.5, 0, -10});
  State moving = state;
  moving[block].v.x() = 0.1;
  dynamics.set_step(0.1);
  ASSERT_EQ(dynamics.evaluate(moving), Status::ok);
  EXPECT_TRUE(dynamics.friction_elements()[0].sticks);
  EXPECT_NEAR(0.1 + 0.1 * dynamics.vdot()[0], 0, tol_rounding());
  // A rounded rest is rest: 3 N pull, 4 N hold, 2 N drag.
  moving[block].v.x() = -1e-6;
  ASSERT_EQ(dynamics.evaluate(moving), Status::ok);
  EXPECT_TRUE(dynamics.friction_elements()[0].sticks);
  moving[block].v.x() = -1e-3;
  ASSERT_EQ(dynamics.evaluate(moving), Status::ok);
  EXPECT_FALSE(dynamics.friction_elements()[0].sticks);
  moving[block].v.x() = 10;  // far from rest: one back-solve, kinetic friction
  ASSERT_EQ(dynamics.evaluate(moving), Status::ok);
  EXPECT_EQ(dynamics.law_report().back_solves, 1);
  EXPECT_NEAR(dynamics.vdot()[0], -2.5, tol_rounding(10));
}

// What slides and reads the ideal thrust is known before anything is solved (T5), beside something that rests too: the
// free directions of what rests are looked into, and no others.
TEST(Contacts, WhatSlidesThroughoutCostsOneBackSolveBesideWhatRests) {
  for (const double h : {0.0, 1.0 / 240}) {
    SCOPED_TRACE(h);
    System system;
    system.set_gravity({1, 0, -10});
    for (int i = 0; i < 8; ++i) {
      const BodyId block = system.add_particle("block" + std::to_string(i), 2, Vector3d(i, 0, 0),
                                               i == 3 ? Vector3d(0, 0, 0) : Vector3d(0, 1 + i, 0));
      add_law(system,
              system.add(joints::point_on_plane("floor" + std::to_string(i), ground, Vector3d::Zero(),
                                                Vector3d::UnitZ(), block, Vector3d::Zero())),
              laws::coulomb(0.2));
    }
    Dynamics dynamics(system);
    dynamics.set_step(h);
    ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
    EXPECT_EQ(dynamics.law_report().back_solves, 1 + 2 + 1);  // what slides, two directions of what rests, its friction
    EXPECT_EQ(dynamics.law_report().sticking, 1);
    for (int i = 0; i < 8; ++i) {
      EXPECT_NEAR(dynamics.vdot()[static_cast<std::size_t>(3 * i)], i == 3 ? 0 : 1, tol_rounding(10));
      EXPECT_NEAR(dynamics.vdot()[static_cast<std::size_t>(3 * i + 1)], i == 3 ? 0 : -2, tol_rounding(10));
    }
  }
}

// A light cart rolls to the left with hardly any friction on the ground, and a heavy load slides to the right on it and
// takes it along: what by itself would slide throughout is turned round by friction beside it. All answer together
// then.
TEST(Contacts, WhatIsTurnedByFrictionBesideItIsNotTakenToSlide) {
  System system;
  system.set_gravity({0, 0, -10});
  const BodyId cart = system.add_particle("cart", 1, Vector3d::Zero(), {-0.02, 0, 0});
  const BodyId load = system.add_particle("load", 50, {0, 0, 1}, {0.05, 0, 0});
  const auto on_ground = [](const auto& s) { return rows(s[0].position().y, s[0].position().z); };
  add_law(system, system.add(holonomic("ground", {cart}, on_ground)), laws::coulomb(0.003));
  const auto on_cart = [](const auto& s) {
    const auto d = s[0].position() - s[1].position();
    return rows(d.y, d.z - 1.0);
  };
  add_law(system, system.add(holonomic("top", {load, cart}, on_cart)),
          laws::coulomb(0.4).with_normal_force(NormalForce::coupled));
  Dynamics dynamics(system);
  const double h = 1.0 / 240;
  dynamics.set_step(h);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok) << dynamics.reason();
  // Both go on together: 200 N can hold, and the load gives them (50·0.05 − 0.02)/51, less 1.53 N of the ground's.
  const double end = (50 * 0.05 - 0.02 - h * 0.003 * 510) / 51;
  EXPECT_NEAR(-0.02 + h * dynamics.vdot()[0], end, tol_rounding());
  EXPECT_NEAR(0.05 + h * dynamics.vdot()[3], end, tol_rounding());
  EXPECT_TRUE(dynamics.friction_elements()[1].sticks);
}

// A bead leaves the bottom of a rough bowl under a push that grows along one direction: its way is straight on the
// bowl, though not in the world, and friction turns nowhere. Steps of rk4 need no parts for it.
TEST(Contacts, AStraightWayOnACurvedSurfaceIsStraight) {
  long parts = 0;
  const auto end = [&](Method method) {
    System system;
    system.set_gravity({0, 0, -10});
    const BodyId bead = system.add_particle("bead", 1, {0, 0, -1});
    const ConstraintId bowl = system.add(joints::rod("bowl", ground, Vector3d::Zero(), bead, Vector3d::Zero(), 1));
    add_law(system, bowl, laws::coulomb(0.3));
    system.add(Force("push", {bead}, [](ForceFrame& f) { f.add_force(0, Vector3d(2.5 + f.t, 0, 0)); }));
    Stepper stepper(system, system.initial_state(), {.method = method});
    parts = 0;
    for (int k = 0; k < 100; ++k) parts += stepper.step(0.01).substeps;
    return stepper.state()[bead].p;
  };
  // φ̈ = F cos φ − g sin φ − μN, N = g cos φ + F sin φ + φ̇², from where the push is μg.
  double phi = 0, rate = 0;
  constexpr int steps = 1000;
  const double h = 0.5 / steps;
  const auto gain = [](double t, double angle, double speed) {
    const double F = 3 + t, N = 10 * std::cos(angle) + F * std::sin(angle) + speed * speed;
    return F * std::cos(angle) - 10 * std::sin(angle) - 0.3 * N;
  };
  for (int k = 0; k < steps; ++k) {
    const double t = h * k, a = gain(t, phi, rate), b = gain(t + h / 2, phi + h / 2 * rate, rate + h / 2 * a),
                 c = gain(t + h / 2, phi + h / 2 * (rate + h / 2 * a), rate + h / 2 * b),
                 d = gain(t + h, phi + h * (rate + h / 2 * b), rate + h * c);
    phi += h * rate + h * h / 6 * (a + b + c);
    rate += h / 6 * (a + 2 * b + 2 * c + d);
  }
  for (const Method method : {Method::adaptive, Method::rk4})
    EXPECT_LE((end(method) - Vector3d(std::sin(phi), 0, -std::cos(phi))).norm(), 1e-10) << to_string(method);
  EXPECT_LE(parts, 110);  // of rk4
}

// ---- belts ----

TEST(Belt, CarriesABlockUntilItsSpringHoldsItBack) {
  System system;
  system.set_gravity({0, 0, -g});
  const double k = 50, speed = 0.2, mu = 0.3;
  const BodyId block = system.add_particle("block", 1, Vector3d::Zero(), {speed, 0, 0});
  const ConstraintId belt =
      system.add(joints::point_on_plane("belt", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, Vector3d::Zero()));
  add_law(system, belt, laws::coulomb(mu, 0.2).on_belt({speed, 0, 0}));
  system.add(spring("spring", ground, Vector3d::Zero(), block, Vector3d::Zero(), k, 0));
  Stepper stepper(system, system.initial_state(), rk4());
  const auto all = switches_until(stepper, 1.0, 0.01);
  ASSERT_GE(all.size(), 1u);
  EXPECT_EQ(all[0].what, What::slides);
  EXPECT_NEAR(all[0].t, mu * g / (k * speed), scaled(1e-9));
}

// ---- one-sided constraints ----

TEST(Unilateral, ABeadLeavesADomeWhereNothingPressesAnyMore) {
  System system;
  system.set_gravity({0, 0, -g});
  const double v0 = 0.5;
  const BodyId bead = system.add_particle("bead", 0.7, {0, 0, 1}, {v0, 0, 0});
  const ConstraintId dome =
      system.add(joints::point_on_sphere("dome", ground, Vector3d::Zero(), 1, bead, Vector3d::Zero()));
  set_unilateral(system, dome);
  Stepper stepper(system, system.initial_state(), rk4());
  std::vector<ModeSwitch> all;
  State before = stepper.state();
  while (all.empty() && stepper.t() < 3) {
    before = stepper.state();
    ASSERT_FALSE(stepper.step(0.01).rejected);
    all.assign(stepper.switches().begin(), stepper.switches().end());
  }
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, What::releases);
  EXPECT_EQ(all[0].on, dome);
  EXPECT_FALSE(system.enabled(dome));
  // cos θ = 2/3 + v₀²/3g at the event: back there on the parabola it has flown since.
  const double since = stepper.t() - all[0].t;
  const double z_then = stepper.state()[bead].p.z() - stepper.state()[bead].v.z() * since - 0.5 * g * since * since;
  EXPECT_NEAR(z_then, 2.0 / 3 + v0 * v0 / (3 * g), scaled(1e-8));
  run(stepper, 1, 100);
  EXPECT_GT(stepper.state()[bead].p.norm(), 1);
}

// Thrown up, or held above, it is not pulled down: it flies, lands without bouncing, and rubs from then on.
TEST(Unilateral, WhatBeginsOpenOrOpeningLandsWhenItFalls) {
  for (const Method method : {Method::rk4, Method::adaptive, Method::semi_implicit})
    for (const bool thrown : {true, false}) {
      System system;
      system.set_gravity({0, 0, -g});
      const double mu = 0.3, z0 = thrown ? 0 : 0.5, up = thrown ? 2 : 0, dt = 1e-3;
      const BodyId block = system.add_particle("block", 1, {0, 0, z0}, {3, 0, up});
      const ConstraintId floor =
          system.add(holonomic("floor", {block}, [](const auto& s) { return s[0].position().z; }));
      set_unilateral(system, floor, {.reengage = true});
      add_law(system, floor, laws::coulomb(mu));
      Stepper stepper(system, system.initial_state(), {.method = method});
      EXPECT_EQ(stepper.start().gap, 0);
      EXPECT_EQ(stepper.start().impulse_energy, 0);
      run(stepper, 600 * dt, 600);
      const double lands = (up + std::sqrt(up * up + 2 * g * z0)) / g;
      const double order = method == Method::semi_implicit ? 2 * mu * g * dt : scaled(1e-7);
      EXPECT_NEAR(stepper.state()[block].v.x(), 3 - mu * g * (0.6 - lands), order) << thrown;
      EXPECT_NEAR(stepper.state()[block].p.z(), 0, scaled(1e-9)) << thrown;
      EXPECT_TRUE(system.enabled(floor));
    }
}

TEST(Unilateral, AStoneOnAShakingTableLeavesAndLandsWithoutBouncing) {
  System system;
  system.set_gravity({0, 0, -g});
  const double a = 0.05, w = 20;  // a w² = 2.04 g
  const BodyId stone = system.add_particle("stone", 1, Vector3d::Zero(), {0, 0, a * w});
  const ConstraintId table =
      system.add(holonomic("table", {stone}, [=](const auto& s) { return s[0].position().z - a * sin(w * s.t); }));
  set_unilateral(system, table, {.reengage = true});
  Stepper stepper(system, system.initial_state(), rk4());
  const auto all = switches_until(stepper, 0.5, 0.005);
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[0].what, What::releases);
  const double leaves = std::asin(g / (a * w * w)) / w;
  EXPECT_NEAR(all[0].t, leaves, scaled(1e-9));
  EXPECT_EQ(all[1].what, What::engages);
  const double flown = all[1].t - leaves;
  EXPECT_NEAR(a * std::sin(w * leaves) + a * w * std::cos(w * leaves) * flown - 0.5 * g * flown * flown,
              a * std::sin(w * all[1].t), scaled(1e-9));
  EXPECT_LT(all.size(), 12u);

  // A step that is rejected after a release leaves no constraint switched: the force is none once the stone flies.
  system.enable(table, true);
  system.add(Force("storm", {stone}, [=](ForceFrame& f) {
    f.add_force(0, {0, 0, f[0].p.z() - a * std::sin(w * f.t) > 1e-4 ? std::nan("") : 0});
  }));
  Stepper refused(system, system.initial_state(), rk4());
  const StepReport& report = refused.step(0.05);
  EXPECT_TRUE(report.rejected);
  EXPECT_NE(report.reason.find("not finite"), std::string::npos) << report.reason;
  EXPECT_TRUE(system.enabled(table));
  EXPECT_TRUE(refused.switches().empty());
  EXPECT_EQ(refused.state().t, 0);
  EXPECT_FALSE(refused.step(0.02).rejected) << "before it leaves, all is well";
}

TEST(Unilateral, StepsOfAHostLetGoInTheStepThatWouldPull) {
  // Lifted by more than its weight from the first step on: n steps of h of a constant a go a h² n(n + 1)/2.
  System system;
  system.set_gravity({0, 0, -g});
  const BodyId load = system.add_particle("load", 1, Vector3d::Zero(), {2, 0, 0});
  const ConstraintId floor = system.add(holonomic("floor", {load}, [](const auto& s) { return s[0].position().z; }));
  set_unilateral(system, floor, {.reengage = true});
  system.add(Force("lift", {load}, [](ForceFrame& f) { f.add_force(0, {0, 0, f.t < 0.2 ? 0 : 30.0}); }));
  Stepper stepper(system, system.initial_state(), semi_implicit());
  const auto all = switches_until(stepper, 0.7, 0.01);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, What::releases);
  EXPECT_EQ(all[0].on, floor);
  EXPECT_NEAR(all[0].t, 0.2, 0.0101);
  EXPECT_NEAR(stepper.state()[load].p.z(), (30 - g) * 1e-4 * 50 * 51 / 2, (30 - g) * 1e-4 * 51);
  EXPECT_NEAR(stepper.state()[load].p.x(), 1.4, scaled(1e-12));
  EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-11));
}

TEST(Unilateral, StepsOfAHostLeaveADomeAndAShakingTableAtFirstOrder) {
  std::vector<double> leaves, lands;
  for (const double h : {1.0 / 240, 1.0 / 960}) {
    System system;
    system.set_gravity({0, 0, -g});
    const double v0 = 0.5;
    const BodyId bead = system.add_particle("bead", 0.7, {0, 0, 1}, {v0, 0, 0});
    set_unilateral(system,
                   system.add(joints::point_on_sphere("dome", ground, Vector3d::Zero(), 1, bead, Vector3d::Zero())));
    Stepper stepper(system, system.initial_state(), semi_implicit());
    State before = stepper.state();
    while (stepper.switches().empty() && stepper.t() < 3) {
      before = stepper.state();
      ASSERT_FALSE(stepper.step(h).rejected);
    }
    ASSERT_EQ(stepper.switches().size(), 1u);
    leaves.push_back(std::fabs(before[bead].p.z() - 2.0 / 3 - v0 * v0 / (3 * g)));
    EXPECT_GT(stepper.state()[bead].p.norm(), 1);

    System shaken;
    shaken.set_gravity({0, 0, -g});
    const double a = 0.05, w = 20;
    const BodyId stone = shaken.add_particle("stone", 1, Vector3d::Zero(), {0, 0, a * w});
    const ConstraintId table =
        shaken.add(holonomic("table", {stone}, [=](const auto& s) { return s[0].position().z - a * sin(w * s.t); }));
    set_unilateral(shaken, table, {.reengage = true});
    Stepper thrown(shaken, shaken.initial_state(), semi_implicit());
    std::vector<ModeSwitch> all;
    while (thrown.t() < 0.5) {
      ASSERT_FALSE(thrown.step(h).rejected);
      all.insert(all.end(), thrown.switches().begin(), thrown.switches().end());
      EXPECT_GE(thrown.state()[stone].p.z() - a * std::sin(w * thrown.t()), -1e-13) << "nothing is passed through";
    }
    ASSERT_GE(all.size(), 2u);
    EXPECT_EQ(all[0].what, What::releases);
    EXPECT_EQ(all[1].what, What::engages);
    EXPECT_NEAR(all[0].t, std::asin(g / (a * w * w)) / w, 2 * h);
    Stepper exact(shaken, shaken.initial_state(), rk4());
    shaken.enable(table, true);
    const auto found = switches_until(exact, 0.5, 0.005);
    lands.push_back(std::fabs(all[1].t - found[1].t));
    EXPECT_EQ(all.size(), found.size());
    EXPECT_LE(lands.back(), 6 * h);
  }
  EXPECT_LE(leaves[0], 0.02);
  EXPECT_LE(leaves[1], 0.4 * leaves[0]);
}

TEST(Unilateral, ATableOnFourFeetStandsUntilItsLoadIsBeyondThem) {
  // Redundant: a load over one foot leaves the opposite one unloaded in the least-norm share, and the table stands.
  for (const double beside : {0.3, 0.7}) {  // within the feet, and beyond them
    System system;
    system.set_gravity({0, 0, -10});
    const BodyId table = system.add_body("table", 10, Vector3d(1, 1, 1), {});
    for (const double x : {-0.5, 0.5})
      for (const double y : {-0.5, 0.5}) {
        const ConstraintId foot = system.add(holonomic("foot" + std::to_string(x) + std::to_string(y), {table},
                                                       [=](const auto& s) { return s[0].point(x, y, 0).z; }));
        set_unilateral(system, foot, {.reengage = true});
      }
    system.add(Force("load", {table}, [=](ForceFrame& f) {
      f.add_force(0, {0, 0, -300}, f[0].point(Vector3d(beside, beside, 0)));
    }));
    Stepper stepper(system, system.initial_state(), semi_implicit());
    for (int i = 0; i < 25; ++i) ASSERT_FALSE(stepper.step(0.004).rejected) << stepper.dynamics().reason();
    double down = 0;
    for (const Reaction& r : stepper.reactions()) {
      EXPECT_GE(r.lambda[0], -1e-9);
      down += r.lambda[0];
    }
    if (beside > 0.5) {  // about the foot under the load's corner: 300 N · 0.2 √2 m against 100 N · 0.5 √2 m
      EXPECT_GT(stepper.state()[table].p.z(), 1e-3);
      continue;
    }
    EXPECT_LE(stepper.state()[table].v.norm() + stepper.state()[table].w.norm(), 1e-9);
    EXPECT_NEAR(down, 400, 1e-8);
  }
}

// ---- laws that misbehave ----

struct Sledge {
  System system;
  BodyId sledge;
  ConstraintId rail;
  State state;
  explicit Sledge(Law law) {
    system.set_gravity({0, 0, -g});
    sledge = system.add_body("sledge", 2, Vector3d(1, 1, 1), {}, {3, 0, 0});
    rail = system.add(joints::slider("rail", ground, {}, sledge, {}));
    add_law(system, rail, std::move(law));
    state = system.initial_state();
  }
  std::string fails() const {
    Dynamics dynamics(system);
    EXPECT_EQ(dynamics.evaluate(state), Status::invalid);
    EXPECT_EQ(dynamics.failure(), FailureKind::law);
    for (const double x : dynamics.vdot()) EXPECT_EQ(x, 0);
    return dynamics.reason();
  }
};

Law::Term dry_term(double holding, double sliding) {
  Law::Term term;
  term.name = "own";
  term.static_limit = [=](const ConstraintReaction&) { return holding; };
  term.sliding_magnitude = [=](const ConstraintReaction&, double) { return sliding; };
  return term;
}

TEST(BadLaws, AreNamed) {
  Law gives = [](const ConstraintReaction& n) { return Vector3d(2 * n.slip_velocity); };
  gives.with_name("motor").dissipative();
  EXPECT_NE(Sledge(gives).fails().find("law 'motor' on rail is declared dissipative but gives"), std::string::npos);
  EXPECT_NE(Sledge(Law(dry_term(1, -1))).fails().find("law 'own' on rail has a negative friction bound of -"),
            std::string::npos);
  EXPECT_NE(Sledge(Law(dry_term(std::nan(""), 1))).fails().find("law 'own' on rail"), std::string::npos);
  Law throws = [](const ConstraintReaction&) -> Vector3d { throw std::runtime_error("no oil"); };
  EXPECT_EQ(Sledge(throws.with_normal_force(NormalForce::coupled)).fails(), "law on rail threw: no oil");
  Law nan = [](const ConstraintReaction&) { return Vector3d(std::nan(""), 0, 0); };
  EXPECT_NE(Sledge(nan.with_normal_force(NormalForce::coupled))
                .fails()
                .find("law on rail returned a force that is not finite"),
            std::string::npos);
}

TEST(BadLaws, ADiscontinuousOneOnTheActualThrustIsGivenTheIdealOne) {
  // The rail is off the centre of mass, so friction presses: the law jumps down just where its own force takes it.
  System system;
  system.set_gravity({0, 0, -g});
  const BodyId block =
      system.add_body("block", 1, Vector3d(0.1, 0.1, 0.1), {{0, 0, 1}, Quaterniond::Identity()}, {1, 0, 0});
  const ConstraintId tip =
      system.add(joints::point_on_plane("tip", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, {0.6, 0, -1}));
  double ideal = 0, reached = 0;
  add_law(system, tip, [](const ConstraintReaction&) { return Vector3d(0.1, 0, 0); });
  Dynamics first(system);
  ASSERT_EQ(first.evaluate(system.initial_state()), Status::ok);
  ideal = std::fabs(first.lambda()[0]);
  reached = std::fabs(first.lambda()[0] + first.induced()[0]);
  ASSERT_GT(std::fabs(ideal - reached), 1e-3);
  clear_laws(system, tip);
  const double edge = 0.5 * (ideal + reached);
  const bool grows = reached > ideal;
  Law jumps = [=](const ConstraintReaction& n) { return Vector3d((n.magnitude() > edge) == grows ? 0 : 0.1, 0, 0); };
  add_law(system, tip, jumps.with_name("jumps").with_normal_force(NormalForce::coupled));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok) << dynamics.reason();
  EXPECT_TRUE(dynamics.law_report().fell_back);
  EXPECT_NE(dynamics.law_report().warning.find(
                "law 'jumps' on tip: no coupled normal force was found that satisfies the law"),
            std::string::npos)
      << dynamics.law_report().warning;
  EXPECT_EQ(dynamics.warnings().size(), 1u);
}

TEST(Books, OfLawsThatHaveBeenClearedAreClosed) {
  System system;
  const BodyId block = system.add_particle("block", 1, Vector3d::Zero(), {1, 0, 0});
  const ConstraintId floor =
      system.add(joints::point_on_plane("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, Vector3d::Zero()));
  add_law(system, floor, laws::viscous(1));
  Stepper stepper(system, system.initial_state(), rk4());
  ASSERT_FALSE(stepper.step(0.1).rejected);
  ASSERT_EQ(stepper.law_works().size(), 1u);
  clear_laws(system, floor);
  ASSERT_FALSE(stepper.step(0.1).rejected);
  EXPECT_TRUE(stepper.law_works().empty());
  add_law(system, floor, laws::drag(1));  // at the place of the other, and no more than its own work
  const double before = kinetic_energy(system, stepper.state());
  ASSERT_FALSE(stepper.step(0.1).rejected);
  ASSERT_EQ(stepper.law_works().size(), 1u);
  EXPECT_EQ(stepper.law_works()[0].name, "drag");
  EXPECT_NEAR(stepper.law_works()[0].work, kinetic_energy(system, stepper.state()) - before, 1e-6);
}

// ---- internal state ----

TEST(LuGreBlock, HoldsOnASlopeAndSlidesBeyondIt) {
  for (const double slope : {0.2, 0.5}) {
    System system;
    system.set_gravity({g * slope, 0, -g});
    const BodyId block = system.add_particle("block", 1, Vector3d::Zero());
    const ConstraintId floor = system.add(
        joints::point_on_plane("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, Vector3d::Zero()));
    add_law(system, floor,
            laws::lugre({.stiffness = 1e4, .damping = 200, .mu_static = 0.4, .mu_kinetic = 0.3, .speed = 0.01}));
    Stepper stepper(system, system.initial_state(), rk4());
    run(stepper, 1, 2000);
    // Bristles bend by z = F/stiffness while the block creeps by more, dz/dx = 1 − z stiffness/(μ_s N); a little beyond
    // that as it swings in.
    if (slope < 0.4)
      EXPECT_NEAR(stepper.state()[block].p.x(), -0.4 * g / 1e4 * std::log(1 - slope / 0.4), 2e-5);
    else
      EXPECT_NEAR(stepper.state()[block].v.x(), g * (slope - 0.3), 0.05);
  }
}

TEST(Contacts, ALawWithNothingToRubOnIsNamed) {
  System system;
  const BodyId body = system.add_body("body", 1, Vector3d(0.1, 0.1, 0.1), {}, {1, 0, 0});
  const ConstraintId rail = system.add(joints::slider("rail", ground, {}, body, {}));
  add_law(system, rail, laws::coulomb(0.1) + laws::rolling_resistance(0.1));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_TRUE(dynamics.warnings().empty()) << dynamics.warnings()[0];
  add_law(system, rail, laws::hinge_friction({.mu_static = 0.1, .mu_kinetic = 0.1, .pin_radius = 0.1}));
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  ASSERT_EQ(dynamics.warnings().size(), 1u);
  EXPECT_EQ(dynamics.warnings()[0],
            "law 'hinge_friction' on rail: the constraint leaves no axis to turn about, so the law has no effect. For "
            "a slider use coulomb() or slider_friction()");
}

TEST(Contacts, ASmoothLawWithNothingToRubOnIsNamedToo) {
  System system;
  const BodyId a = system.add_body("a", 1, Vector3d(0.1, 0.1, 0.1), {});
  const BodyId b = system.add_body("b", 1, Vector3d(0.1, 0.1, 0.1), {});
  const ConstraintId rail = system.add(joints::slider("rail", ground, {}, a, {}));
  const ConstraintId seam = system.add(joints::weld("seam", a, {}, b, {}));
  add_law(system, seam, laws::viscous(0.1) + laws::viscous_torque(0.1) + laws::constant_force({1, 0, 0}));
  // It is not declared dissipative, but it is zero without slip. A constant force loads the constraint.
  add_law(system, seam, Law([](const ConstraintReaction& n) { return Vector3d(-n.slip_velocity); }).with_name("own"));
  add_law(system, rail, laws::viscous(0.1));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  const std::vector<std::string> said = dynamics.warnings();
  const std::string why =
      " on seam: the constraint leaves no direction to slide in and no axis to turn about, so the law has no effect. "
      "Remove the law, or use a joint that can move";
  const std::vector<std::string> expected = {"law 'viscous'" + why, "law 'viscous_torque'" + why, "law 'own'" + why};
  EXPECT_EQ(said, expected);
}

// ---- cost ----

TEST(Contacts, NothingIsAllocatedOnceWarm) {
  for (const StepOptions& options : {rk4(), semi_implicit()}) {
    Wheel wheel(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.02}) + laws::coulomb(0.1));
    const BodyId rider =
        wheel.system.add_body("rider", 1, Vector3d(0.1, 0.1, 0.1), {{0, 1, 0}, Quaterniond::Identity()});
    const ConstraintId rail = wheel.system.add(joints::slider("rail", ground, {.origin = {0, 1, 0}}, rider, {}));
    add_law(wheel.system, rail, laws::coulomb(0.4, 0.3).with_normal_force(NormalForce::coupled));  // at rest
    Stepper stepper(wheel.system, wheel.system.initial_state(), options);
    for (int k = 0; k < 3; ++k) ASSERT_FALSE(stepper.step(0.01).rejected);
    const AllocationCounter allocations;
    for (int k = 0; k < 10; ++k) stepper.step(0.01);
    EXPECT_EQ(allocations.count(), 0u);
  }
}

}  // namespace
}  // namespace linchpin::test::contacts_test
