// Stick, slip and what happens between them, against closed forms: blocks on blocks, a bead on a level ring, an
// incline, an oscillator, a bowling ball. (The bead on a vertical ring has a file of its own.)
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::friction_test {
namespace {

constexpr double pi = std::numbers::pi;
using What = ModeSwitch::What;

// ---- two blocks: A thrown onto B, B on the floor ----

struct Blocks {
  static constexpr double g = 9.81, v0 = 3, m = 2;
  System system;
  BodyId A, B;
  ConstraintId on_B, on_floor;
  Blocks() {
    system.set_gravity({0, -g, 0});
    A = system.add_particle("A", m, {0, 1, 0}, {v0, 0, 0});
    B = system.add_particle("B", m, {0, 0, 0});
    on_B = system.add(
        holonomic("A on B", {A, B}, [](const auto& s) { return s[0].position().y - s[1].position().y - 1.0; }));
    on_floor = system.add(holonomic("B on floor", {B}, [](const auto& s) { return s[0].position().y; }));
    add_law(system, on_B, laws::coulomb(0.5));
    add_law(system, on_floor, laws::coulomb(0.1));
  }
};

TEST(Blocks, SlideStickAndStop) {
  Blocks b;
  constexpr double g = Blocks::g, v0 = Blocks::v0;
  Stepper stepper(b.system, b.system.initial_state(), rk4());
  const auto all = switches_until(stepper, 6 * v0 / g, 0.01);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].on, b.on_B);  // the friction between A and B turns its part here
  EXPECT_EQ(all[0].what, What::sticks);
  EXPECT_NEAR(all[0].t, 1.25 * v0 / g, scaled(1e-9));
  EXPECT_EQ(all[1].on, b.on_floor);
  EXPECT_EQ(all[1].what, What::sticks);
  EXPECT_NEAR(all[1].t, 5 * v0 / g, scaled(1e-9));
  const State& s = stepper.state();
  EXPECT_NEAR(s[b.B].p.x(), 0.9375 * v0 * v0 / g, scaled(1e-9));
  EXPECT_NEAR(s[b.A].p.x(), 1.5625 * v0 * v0 / g, scaled(1e-9));
  EXPECT_NEAR(s[b.A].v.norm() + s[b.B].v.norm(), 0, scaled(1e-14));
  // All energy went into the two laws: μ m g times the sliding of A on B, and 2 μ m g times that of B.
  ASSERT_EQ(stepper.law_works().size(), 2u);
  EXPECT_NEAR(stepper.law_works()[0].work, -0.5 * Blocks::m * g * 0.625 * v0 * v0 / g, scaled(1e-9));
  EXPECT_NEAR(stepper.law_works()[1].work, -0.2 * Blocks::m * g * 0.9375 * v0 * v0 / g, scaled(1e-9));
  EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-9));
}

TEST(Blocks, FrictionBetweenThemTurnsRound) {
  Blocks b;
  Stepper stepper(b.system, b.system.initial_state(), rk4());
  switches_until(stepper, Blocks::v0 / Blocks::g, 0.01);
  EXPECT_NEAR(named(stepper.reactions(), "A on B").prescribed.on_a.force.x(), -0.5 * Blocks::m * Blocks::g,
              scaled(1e-9));
  switches_until(stepper, 2 * Blocks::v0 / Blocks::g, 0.01);
  // Sticking, A is slowed by B: still −, but of 0.1 m g, and below its bound.
  EXPECT_NEAR(named(stepper.reactions(), "A on B").prescribed.on_a.force.x(), -0.1 * Blocks::m * Blocks::g,
              scaled(1e-9));
  EXPECT_NEAR(stepper.dynamics().friction_elements()[0].bound, 0.5 * Blocks::m * Blocks::g, scaled(1e-9));
}

TEST(Blocks, InStepsOfAHostToTheOrderOfTheStep) {
  std::vector<double> errors;
  for (const int steps : {60, 120, 240, 480}) {
    Blocks b;
    const double T = 6 * Blocks::v0 / Blocks::g;
    Stepper stepper(b.system, b.system.initial_state(), semi_implicit());
    run(stepper, T, steps);
    EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-12));
    EXPECT_LE(stepper.state()[b.A].v.norm(), scaled(1e-13));  // at rest to the rounding of a solve; seen 2e-14
    errors.push_back(std::fabs(stepper.state()[b.A].p.x() - 1.5625 * Blocks::v0 * Blocks::v0 / Blocks::g));
  }
  EXPECT_GE(slope(errors), 0.9);
}

// ---- a bead on a level ring ----

struct LevelRing {
  System system;
  BodyId bead;
  LevelRing(double mass, double R, double v0, double gravity, Law law) {
    system.set_gravity({0, 0, -gravity});
    bead = system.add_particle("bead", mass, {R, 0, 0}, {0, v0, 0});
    const ConstraintId ring = system.add(holonomic("ring", {bead}, [R](const auto& s) {
      const auto& x = s[0].position();
      return rows((x.x * x.x + x.y * x.y - R * R) / (2 * R), x.z);
    }));
    add_law(system, ring, std::move(law));
  }
};

double angle_travelled(Stepper& stepper, BodyId bead, double end, double dt) {
  double theta = 0;
  Vector3d last = stepper.state()[bead].p;
  while (stepper.t() < end - 1e-12) {
    EXPECT_FALSE(stepper.step(std::min(dt, end - stepper.t())).rejected);
    const Vector3d now = stepper.state()[bead].p;
    theta += std::atan2(last.x() * now.y() - last.y() * now.x(), last.dot(now));
    last = now;
  }
  return theta;
}

TEST(LevelRing, SlowsForEverWithoutGravity) {
  LevelRing r(1.4, 0.6, 3, 0, laws::coulomb(0.25));
  Stepper stepper(r.system, r.system.initial_state(), rk4());
  const double theta = angle_travelled(stepper, r.bead, 2, 2e-3);
  EXPECT_NEAR(theta, 5.011051873981472, scaled(1e-9));
  EXPECT_NEAR(stepper.state()[r.bead].v.norm(), 0.8571428571428571, scaled(1e-9));
}

TEST(LevelRing, StopsUnderGravityByTheVectorNormOfBothNormals) {
  struct Case {
    double R, mu, g, distance, time;
  };
  for (const Case& c : {Case{1, 0.5, 9.8, 0.8224570815884079, 0.5730388518383656},
                        Case{0.6, 0.25, 9.81, 1.452925281205528, 1.0634170413358297}}) {
    SCOPED_TRACE(c.R);
    LevelRing r(1.4, c.R, 3, c.g, laws::coulomb(c.mu));
    Stepper stepper(r.system, r.system.initial_state(), rk4());
    std::vector<ModeSwitch> all;
    double theta = 0;
    Vector3d last = stepper.state()[r.bead].p;
    while (stepper.t() < c.time + 0.1) {
      ASSERT_FALSE(stepper.step(2e-3).rejected);
      const Vector3d now = stepper.state()[r.bead].p;
      theta += std::atan2(last.x() * now.y() - last.y() * now.x(), last.dot(now));
      last = now;
      all.insert(all.end(), stepper.switches().begin(), stepper.switches().end());
    }
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].what, What::sticks);
    EXPECT_NEAR(all[0].t, c.time, scaled(1e-9));
    EXPECT_NEAR(c.R * theta, c.distance, scaled(1e-9));
    EXPECT_LE(stepper.state()[r.bead].v.norm(), scaled(1e-14));
  }
}

// ---- an incline ----

struct Incline {
  System system;
  BodyId block;
  ConstraintId plane;
  static constexpr double alpha = 0.5235987755982988, g = 9.81;  // 30°
  Vector3d up{std::cos(alpha), 0, std::sin(alpha)};
  explicit Incline(Law law, double speed = 0) {
    system.set_gravity({0, 0, -g});
    const Vector3d n(-std::sin(alpha), 0, std::cos(alpha));
    block = system.add_body("block", 1.3, Vector3d(0.1, 0.2, 0.3),
                            {0.2 * n, Quaterniond(Eigen::AngleAxisd(-alpha, Vector3d::UnitY()))}, speed * up);
    plane = system.add(joints::planar("slope", ground, Vector3d::Zero(), n, block, {0, 0, -0.2}, Vector3d::UnitZ()));
    add_law(system, plane, std::move(law));
  }
  double along(const State& s) const { return s[block].p.dot(up); }
};

TEST(Incline, HoldsUpToTheTangent) {
  for (const double mu : {0.5773502691896256 + 1e-9, 0.7}) {
    Incline i(laws::coulomb(mu));
    Stepper stepper(i.system, i.system.initial_state(), rk4());
    EXPECT_TRUE(switches_until(stepper, 1, 0.01).empty());
    EXPECT_NEAR(stepper.state()[i.block].p.dot(i.up), 0, scaled(1e-14));
    EXPECT_EQ(stepper.dynamics().law_report().sticking, 1);
  }
  Incline i(laws::coulomb(0.5773502691896256 - 1e-9));
  Stepper stepper(i.system, i.system.initial_state(), rk4());
  switches_until(stepper, 1, 0.01);
  EXPECT_NEAR(i.along(stepper.state()), -0.5 * 9.81 * 1e-9 * std::cos(Incline::alpha), scaled(1e-13));
}

TEST(Incline, SlidesUpStopsAndComesBackOrStays) {
  {
    Incline i(laws::coulomb(0.3), 4);
    Stepper stepper(i.system, i.system.initial_state(), rk4());
    const auto all = switches_until(stepper, 1, 0.01);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].what, What::turns);
    EXPECT_NEAR(all[0].t, 0.536645310465236, scaled(1e-9));
    const double after = 1 - all[0].t;
    EXPECT_NEAR(i.along(stepper.state()), 1.073290620930472 - 0.5 * 2.3562872366623964 * after * after, scaled(1e-9));
  }
  {
    Incline i(laws::coulomb(0.7), 4);
    Stepper stepper(i.system, i.system.initial_state(), rk4());
    const auto all = switches_until(stepper, 1, 0.01);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].what, What::sticks);
    const double a = 9.81 * (std::sin(Incline::alpha) + 0.7 * std::cos(Incline::alpha));
    EXPECT_NEAR(all[0].t, 4 / a, scaled(1e-9));
    EXPECT_NEAR(i.along(stepper.state()), 8 / a, scaled(1e-9));
  }
  {  // slides down and is braked
    Incline i(laws::coulomb(0.7), -1);
    Stepper stepper(i.system, i.system.initial_state(), rk4());
    switches_until(stepper, 0.5, 0.01);
    EXPECT_NEAR(stepper.state()[i.block].v.dot(i.up), -1 + 1.0419964477877406 * 0.5, scaled(1e-9));
  }
}

TEST(Incline, ABlockAtRestDoesNotCreepInStepsOfAHost) {
  Incline i(laws::coulomb(0.6));
  Stepper stepper(i.system, i.system.initial_state(), semi_implicit());
  for (int k = 0; k < 60 * 60; ++k) {
    const StepReport& report = stepper.step(1.0 / 60);
    ASSERT_FALSE(report.rejected);
    ASSERT_EQ(report.sticking, 1);
    ASSERT_EQ(report.mode_switches, 0);
  }
  EXPECT_LE(std::fabs(i.along(stepper.state())), scaled(1e-12));
}

TEST(Incline, AStaticBoundAboveTheKineticOneIsKept) {
  // tan 30° lies between the two: it stays if it is at rest, and goes on if it slides down already.
  const Law law = laws::coulomb(0.6, 0.5);
  Incline rests(law), slides(law, -0.1), up(law, 1);
  for (StepOptions options : {rk4(), semi_implicit()}) {
    Stepper a(rests.system, rests.system.initial_state(), options),
        b(slides.system, slides.system.initial_state(), options), c(up.system, up.system.initial_state(), options);
    for (Stepper* s : {&a, &b, &c}) switches_until(*s, 1, 0.01);
    EXPECT_LE(a.state()[rests.block].v.norm(), scaled(1e-14));
    EXPECT_NEAR(b.state()[slides.block].v.norm(), 0.1 + 9.81 * (0.5 - 0.5 * std::cos(Incline::alpha)), scaled(1e-9));
    EXPECT_LE(c.state()[up.block].v.norm(), scaled(1e-14)) << "came to rest on the way up, and stays";
  }
}

// ---- an oscillator with dry friction ----

TEST(FrictionOscillator, TurningPointsLieOnTwoLinesAndItStops) {
  System system;
  system.set_gravity({0, 0, -9.81});
  const BodyId block = system.add_particle("block", 1, {0.25, 0, 0});
  const ConstraintId floor =
      system.add(holonomic("floor", {block}, [](const auto& s) { return rows(s[0].position().z, s[0].position().y); }));
  // The normal force of the floor alone; the guide in y carries nothing.
  add_law(system, floor, laws::coulomb(0.2));
  system.add(spring("spring", ground, Vector3d::Zero(), block, Vector3d::Zero(), 100, 0));
  Stepper stepper(system, system.initial_state(), rk4());
  std::vector<double> turns, times;
  double last_x = 0.25;
  for (int k = 0; k < 2000; ++k) {
    ASSERT_FALSE(stepper.step(1e-3).rejected);
    for (const ModeSwitch& s : stepper.switches()) {
      times.push_back(s.t);
      EXPECT_EQ(s.what, times.size() == 6 ? What::sticks : What::turns);
    }
    last_x = stepper.state()[block].p.x();
  }
  ASSERT_EQ(times.size(), 6u);
  for (std::size_t k = 0; k < 6; ++k) EXPECT_NEAR(times[k], static_cast<double>(k + 1) * pi / 10, scaled(1e-9));
  EXPECT_NEAR(times[5], 1.8849555921538759, scaled(1e-9));
  EXPECT_NEAR(last_x, 0.01456, scaled(1e-9));
  EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-9));
  // What friction took is μ m g times the way: 0.25 to each turning point and back.
  const double points[] = {.25, -.21076, .17152, -.13228, .09304, -.0538, .01456};
  double way = 0;
  for (int k = 0; k < 6; ++k) way += std::fabs(points[k + 1] - points[k]);
  EXPECT_NEAR(stepper.law_works()[0].work, -0.2 * 9.81 * way, scaled(1e-9));
}

// ---- a bowling ball ----

struct Bowling {
  System system;
  BodyId ball;
  ConstraintId lane;
  static constexpr double m = 6, a = 0.108, v0 = 8;
  explicit Bowling(Law law) {
    system.set_gravity({0, 0, -9.81});
    const double I = 0.4 * m * a * a;
    ball = system.add_body("ball", m, Vector3d(I, I, I), {{0, 0, a}, Quaterniond::Identity()}, {v0, 0, 0});
    const BodyId id = ball;
    lane = system.add(holonomic("lane", {ball}, [](const auto& s) {
                        return s[0].position().z - a;
                      }).set_application_point([id](const State& s) { return Vector3d(s[id].p - Vector3d(0, 0, a)); }));
    add_law(system, lane, std::move(law));
  }
};

TEST(BowlingBall, SlidesUntilItRolls) {
  Bowling b(laws::coulomb(0.12));
  Stepper stepper(b.system, b.system.initial_state(), rk4());
  std::vector<ModeSwitch> all;
  while (stepper.t() < 1.95) {
    ASSERT_FALSE(stepper.step(0.01).rejected);
    all.insert(all.end(), stepper.switches().begin(), stepper.switches().end());
  }
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, What::sticks);
  EXPECT_NEAR(all[0].t, 1.941653317800107, scaled(1e-9));
  const BodyState& s = stepper.state()[b.ball];
  EXPECT_NEAR(s.v.x(), 5.714285714285714, scaled(1e-9));
  EXPECT_NEAR(s.p.x() - s.v.x() * (stepper.t() - all[0].t), 13.314194179200733, scaled(1e-9));
  EXPECT_NEAR(s.v.x() - s.w.y() * Bowling::a, 0, scaled(1e-12));
  EXPECT_NEAR(stepper.law_works()[0].work, -54.857142857142854, scaled(1e-8));
  // Rolling, it needs no force at all.
  EXPECT_NEAR(named(stepper.reactions(), "lane").prescribed.on_a.force.norm(), 0, scaled(1e-9));
}

TEST(BowlingBall, InStepsOfAHost) {
  std::vector<double> errors;
  for (const int steps : {120, 240, 480, 960}) {
    Bowling b(laws::coulomb(0.12));
    Stepper stepper(b.system, b.system.initial_state(), semi_implicit());
    run(stepper, 4, steps);
    EXPECT_NEAR(stepper.state()[b.ball].v.x(), 5.714285714285714, scaled(1e-9));
    errors.push_back(
        std::fabs(stepper.state()[b.ball].p.x() - 13.314194179200733 - 5.714285714285714 * (4 - 1.941653317800107)));
  }
  EXPECT_GE(slope(errors), 0.9);
}

TEST(BowlingBall, RollingResistanceStopsIt) {
  // From rolling: arm δ takes (5/7)(δ/a) g, as friction at the contact keeps it rolling.
  Bowling b(laws::coulomb(0.12) + laws::rolling_resistance(0.002));
  Stepper stepper(b.system, b.system.initial_state(), rk4());
  const auto slid = switches_until(stepper, 2.5, 0.01);
  ASSERT_EQ(slid.size(), 1u);
  const double v = stepper.state()[b.ball].v.x(), a = 5.0 / 7 * 0.002 / Bowling::a * 9.81;
  const auto stops = switches_until(stepper, 2.5 + v / a + 0.1, 0.05);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_NEAR(stops[0].t, 2.5 + v / a, scaled(1e-8));
  EXPECT_LE(stepper.state()[b.ball].v.norm(), scaled(1e-12));
}

// A grain rests on a turntable: friction holds it on its circle with m r ω². The semi-implicit step rests in its
// middle, and between two steps the grain has a slip of ½ dt r ω² that is none.
TEST(Turntable, FrictionThatHoldsAGrainIsReportedAsSuchByEveryMethod) {
  const double radius = 0.5, omega = 1.2, mass = 2;
  for (const Method method : {Method::semi_implicit, Method::rk4, Method::adaptive}) {
    SCOPED_TRACE(to_string(method));
    System system;
    system.set_gravity({0, 0, -9.81});
    const BodyId table = system.add_kinematic("table", Pose{}, [omega](double t) {
      BodyState s;
      s.q = Quaterniond(Eigen::AngleAxisd(omega * t, Vector3d::UnitZ()));
      s.w = {0, 0, omega};
      return s;
    });
    const BodyId grain = system.add_particle("grain", mass, {radius, 0, 0}, {0, radius * omega, 0});
    const ConstraintId floor = system.add(
        joints::point_on_plane("floor", table, Vector3d::Zero(), Vector3d::UnitZ(), grain, Vector3d::Zero()));
    add_law(system, floor, laws::coulomb(0.8));
    Stepper stepper(system, system.initial_state(), {.method = method});
    for (int k = 0; k < 240; ++k) {
      ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
      ASSERT_NEAR(stepper.reactions()[0].prescribed.on_a.force.norm(), mass * radius * omega * omega, 1e-4) << k;
    }
  }
}

}  // namespace
}  // namespace linchpin::test::friction_test
