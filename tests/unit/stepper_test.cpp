// The whole motion: order, drift and the ways to handle it, energy, books, steps that have to be cut or refused, and
// what happens when the system changes on the way.
#include "allocation_counter.h"
#include "motion.h"
#include "random.h"

#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <memory>
#include <stdexcept>

namespace linchpin::test::stepper_test {
namespace {

constexpr double g = 9.81;

struct Pendulum {
  System system;
  BodyId bob;
  ConstraintId rod_;
  explicit Pendulum(double theta = 1.2, double mass = 2, double l = 1.5) {
    system.set_gravity({0, 0, -g});
    bob = system.add_particle("bob", mass, l * Vector3d(std::sin(theta), 0, -std::cos(theta)));
    rod_ = system.add(joints::rod("rod", ground, Vector3d::Zero(), bob, Vector3d::Zero(), l));
  }
};

/// Links joined by ball joints, starting level from a fixed point, with a load at the end.
struct Chain {
  System system;
  std::vector<BodyId> links;
  Chain(int count, double load, double l = 0.2, double spin = 0) {
    system.set_gravity({0, 0, -g});
    BodyId previous = ground;
    Vector3d at = Vector3d::Zero();
    for (int i = 0; i < count; ++i) {
      const double m = i + 1 == count ? load : 0.1, a = m * l * l / 12;
      const BodyId link =
          system.add_body("link" + std::to_string(i), m, Vector3d(0.2 * a, a, a),
                          {{l * (i + 0.5), 0, 0}, Quaterniond::Identity()}, Vector3d::Zero(), {spin, 0, 0});
      system.add(joints::ball("joint" + std::to_string(i), previous, at, link, {-l / 2, 0, 0}));
      links.push_back(link);
      previous = link;
      at = {l / 2, 0, 0};
    }
  }
};

double worst_gap(std::span<const Reaction> all) {
  double worst = 0;
  for (const Reaction& r : all) worst = std::max({worst, r.gap, r.gap_angle, r.residual});
  return worst;
}

// ---- order ----

TEST(Order, OfATumblingBody) {
  const auto run_for = [](StepOptions options, int steps) {
    System system;
    const auto body = system.add_body("body", 1, Vector3d(1, 2, 2.6),
                                      {{0, 0, 0}, Quaterniond(Eigen::AngleAxisd(0.3, Vector3d::UnitX()))},
                                      Vector3d::Zero(), {0.7, 2, -1.1});
    return after(system, 1, steps, options)[body].q;
  };
  const Quaterniond exact = run_for(rk4(), 4000);
  std::vector<double> fourth, second;
  for (const int steps : {50, 100, 200}) fourth.push_back(run_for(rk4(), steps).angularDistance(exact));
  for (const int steps : {200, 400, 800}) second.push_back(run_for(semi_implicit(), steps).angularDistance(exact));
  EXPECT_NEAR(slope(fourth), 4, scaled(0.1));
  EXPECT_NEAR(slope(second), 1, scaled(0.1));
}

TEST(Order, OfAChainInSpace) {
  const auto run_for = [](StepOptions options, int steps) {
    Chain chain(3, 0.3, 0.4, 2);
    return after(chain.system, 0.5, steps, options)[chain.links[2]].p;
  };
  const Vector3d exact = run_for(rk4(), 8000);
  std::vector<double> fourth, first;
  for (const int steps : {250, 500, 1000}) fourth.push_back((run_for(rk4(), steps) - exact).norm());
  for (const int steps : {1000, 2000, 4000}) first.push_back((run_for(semi_implicit(), steps) - exact).norm());
  EXPECT_NEAR(slope(fourth), 4, scaled(0.1));
  EXPECT_NEAR(slope(first), 1, scaled(0.1));
}

TEST(Order, OfTheWorkOfMovingConstraints) {
  const auto error = [](int steps) {
    System system;
    system.set_gravity({0, 0, -g});
    const auto bob = system.add_particle("bob", 1.3, {0.6, 0, -0.8}, {0, 1, 0});
    system.add(joints::rod("winch", ground, Vector3d::Zero(), bob, Vector3d::Zero(),
                           [](auto t) { return 1.0 + 0.2 * (1.0 - cos(3.0 * t)); }));
    Stepper stepper(system, system.initial_state(), rk4());
    const double E = stepper.energy_minus_work();
    run(stepper, 1, steps);
    EXPECT_GT(std::fabs(stepper.constraint_work()), 0.1);
    return std::fabs(stepper.energy_minus_work() - E);
  };
  std::vector<double> errors;
  for (const int steps : {100, 200, 400}) errors.push_back(error(steps));
  EXPECT_GT(slope(errors), 3.9);
  EXPECT_LT(errors.back(), 1e-8);
}

// ---- order of every method ----

/// Four bars in space, hinged into a loop: 20 rows of rank 17, crank thrown round. Rigid bodies, a closed loop and
/// redundancy at once.
struct Loop {
  System system;
  BodyId coupler;
  explicit Loop(bool nonideal) {
    system.set_gravity({0, -g, 0});
    const Vector3d O(0, 0, 0), A(0, 0.5, 0), C(2, 0, 0);
    // B is where the coupler of 2.2 meets the rocker of 1.2.
    const Vector3d B(2.0867156820840833, 1.1968627283363338, 0);
    const auto bar = [&](const char* name, const Vector3d& from, const Vector3d& to) {
      const Vector3d along = to - from;
      const double l = along.norm();
      return system.add_body(
          name, l, Vector3d(1e-2, l * l * l / 12, l * l * l / 12),
          {0.5 * (from + to), Quaterniond(Eigen::AngleAxisd(std::atan2(along.y(), along.x()), Vector3d::UnitZ()))},
          Vector3d::Zero(), {0, 0, name[0] == 'c' && name[1] == 'r' ? 3.0 : 0});
    };
    const BodyId crank = bar("crank", O, A), rocker = bar("rocker", C, B);
    coupler = bar("coupler", A, B);
    const auto pin = [&](const char* name, BodyId a, BodyId b, const Vector3d& at) {
      const State s = system.initial_state();
      const auto in = [&](BodyId id) -> Vector3d { return s[id].q.conjugate() * (at - s[id].p); };
      return system.add(joints::hinge(name, a, in(a), Vector3d::UnitZ(), b, in(b), Vector3d::UnitZ()));
    };
    const ConstraintId base = pin("O", ground, crank, O);
    pin("A", crank, coupler, A);
    pin("B", coupler, rocker, B);
    pin("C", ground, rocker, C);
    if (!nonideal) return;
    // Smooth forces that do work: friction of a normal force, and a damper, which reads velocities.
    add_law(system, base, laws::viscous_torque(0.3));
    system.add(spring("damper", crank, Vector3d::Zero(), rocker, Vector3d::Zero(), 5, 1.5, 0.8));
  }
};

TEST(Order, OfEveryMethodOnARigidClosedLoop) {
  for (const bool nonideal : {false, true}) {
    SCOPED_TRACE(nonideal ? "with smooth nonideal forces" : "ideal");
    const auto end = [&](StepOptions options, int steps) {
      Loop loop(nonideal);
      const State s = after(loop.system, 0.5, steps, options);
      return std::pair<Vector3d, Vector3d>(s[loop.coupler].p, s[loop.coupler].v);
    };
    const auto [p, v] = end({.method = Method::adaptive, .relative_tolerance = 1e-13, .absolute_tolerance = 1e-14}, 1);
    const auto order = [&, p = p, v = v](StepOptions options, std::initializer_list<int> counts) {
      std::vector<double> errors;
      for (const int steps : counts) {
        const auto [p_is, v_is] = end(options, steps);
        errors.push_back((p_is - p).norm() + (v_is - v).norm());
      }
      return slope(errors);
    };
    EXPECT_NEAR(order({.method = Method::rattle}, {200, 400, 800}), 2, scaled(0.05));
    EXPECT_NEAR(order({.method = Method::rk4}, {100, 200, 400}), 4, scaled(0.1));
    EXPECT_NEAR(order({.method = Method::rattle4}, {50, 100, 200}), 4, scaled(0.1));
    // Tolerances that accept everything leave the pair with one part for each step.
    EXPECT_NEAR(order({.method = Method::adaptive, .relative_tolerance = 1e6, .absolute_tolerance = 1e6}, {15, 30, 60}),
                5, scaled(0.2));
    // Rounding is reached at ten steps, hence the coarse steps and the width: 7.6 is measured for both.
    EXPECT_NEAR(order({.method = Method::adaptive8, .relative_tolerance = 1e6, .absolute_tolerance = 1e6}, {3, 6}), 8,
                scaled(0.5));
  }
}

// ---- dense output and the user's events ----

TEST(DenseOutput, IsOfItsOrderAndOnTheGroup) {
  // A body that swings and spins about a point, at any time of one step, against the motion that ends there.
  const auto error = [](Method method, double dt) {
    const auto make = [](System& system) {
      system.set_gravity({0, 0, -g});
      const BodyId body = system.add_body("body", 1, Vector3d(0.1, 0.2, 0.3), {{1, 0, 0}, Quaterniond::Identity()},
                                          {0, 0, 0}, {1, 2, 3});
      system.add(joints::ball("joint", ground, {0, 0, 0}, body, {-1, 0, 0}));
      return body;
    };
    double worst = 0;
    for (const double theta : {0.3, 0.7}) {
      System system, again;
      const BodyId body = make(system);
      make(again);
      Stepper stepper(system, system.initial_state(),
                      {.method = method, .relative_tolerance = 1e6, .absolute_tolerance = 1e6});
      EXPECT_FALSE(stepper.step(dt).rejected);
      const State is = stepper.state_at(theta * dt);
      const State exact = after(again, theta * dt, 1,
                                {.method = Method::adaptive, .relative_tolerance = 1e-13, .absolute_tolerance = 1e-14});
      EXPECT_NEAR(is.t, exact.t, 1e-15);
      EXPECT_NEAR(is[body].q.norm(), 1, 1e-14);
      worst = std::max(worst, (is[body].p - exact[body].p).norm() + is[body].q.angularDistance(exact[body].q));
    }
    return worst;
  };
  // The error within one step is of an order more than that of the polynomial.
  {  // so near to rounding below 0.1 s that its order shows in longer steps only
    const double coarse = error(Method::adaptive8, 0.3), fine = error(Method::adaptive8, 0.15);
    EXPECT_GT(std::log2(coarse / fine), 7.7);
    EXPECT_LT(fine, 1e-8);
  }
  for (const auto& [method, power] : {std::pair{Method::adaptive, 5.0}, {Method::rk4, 4.0}, {Method::rattle, 3.0}}) {
    SCOPED_TRACE(to_string(method));
    const double coarse = error(method, 0.08), fine = error(method, 0.04);
    EXPECT_GT(std::log2(coarse / fine), power - 0.3);
    EXPECT_LT(coarse, method == Method::rattle ? 2e-4 : method == Method::rk4 ? 5e-5 : 1e-8);
  }
}

TEST(Crossings, OfAUsersFunctionAreFoundOnThePolynomial) {
  for (const Method method : all_methods) {
    SCOPED_TRACE(to_string(method));
    System system;
    system.set_gravity({0, 0, -g});
    const BodyId ball = system.add_particle("ball", 1, {0, 0, 0}, {1, 0, 5});
    Stepper stepper(system, system.initial_state(), {.method = method});
    EXPECT_EQ(stepper.watch([&](const State& s) { return s[ball].p.z() - 1; }), 0);
    EXPECT_EQ(stepper.watch([&](const State& s) { return s[ball].p.x() - 10; }), 1);
    std::vector<Crossing> all;
    for (int i = 0; i < 10; ++i) {
      ASSERT_FALSE(stepper.step(0.1).rejected);
      all.insert(all.end(), stepper.crossings().begin(), stepper.crossings().end());
    }
    ASSERT_EQ(all.size(), 2u);
    // 5t − gt²/2 = 1, up and down; of order one, a step of 0.1 s is two of its own late
    const double root = std::sqrt(25 - 2 * g), within = method == Method::semi_implicit ? 0.25 : 1e-12;
    EXPECT_NEAR(all[0].t, (5 - root) / g, within);
    EXPECT_NEAR(all[1].t, (5 + root) / g, within);
    EXPECT_TRUE(all[0].rising);
    EXPECT_FALSE(all[1].rising);
    EXPECT_NEAR(all[1].state[ball].p.z(), 1, 1e-12);
  }
}

TEST(Rattle, RefusesWhatItHasNoAnswerFor) {
  System system;
  const BodyId block = system.add_particle("block", 1, {0, 0, 0}, {1, 0, 0});
  system.set_gravity({0, 0, -g});
  const ConstraintId floor =
      system.add(joints::point_on_plane("floor", ground, {0, 0, 0}, Vector3d::UnitZ(), block, {0, 0, 0}));
  add_law(system, floor, laws::coulomb(0.2));
  Stepper stepper(system, system.initial_state(), {.method = Method::rattle});
  const StepReport& report = stepper.step(0.01);
  EXPECT_TRUE(report.rejected);
  EXPECT_NE(report.reason.find("adaptive"), std::string::npos) << report.reason;
  EXPECT_EQ(stepper.t(), 0);

  System own;
  own.add_coordinates({"angle"}, {0}, {1}, kinetic_energy(1, [](const auto& s) { return 0.5 * square(s.rate[0]); }));
  EXPECT_THROW(Stepper(own, own.initial_state(), {.method = Method::rattle4}), std::invalid_argument);
}

TEST(Rattle, KeepsTheAngularMomentumOfATumblingBodyToRounding) {
  System system;
  system.add_body("body", 1, Vector3d(1, 2, 3), {}, {0, 0, 0}, {0.01, 1, 0.3});
  const Vector3d L = angular_momentum(system, system.initial_state());
  const State s = after(system, 100, 2000, {.method = Method::rattle});
  EXPECT_LE((angular_momentum(system, s) - L).norm(), scaled(1e-11));  // the rounding of 2000 steps
}

TEST(TumblingBody, KeepsItsAngularMomentum) {
  System system;
  const auto body = system.add_body("body", 1, Vector3d(1, 2, 3), {}, {0, 0, 0}, {0.01, 1, 0});
  const Vector3d L = angular_momentum(system, system.initial_state());
  const double E = energy(system, system.initial_state());
  Stepper stepper(system, system.initial_state(), rk4());
  run(stepper, 41.5092195293848752 / 2, 4000);  // half a period about the unstable axis (T-DZH)
  EXPECT_NEAR((angular_momentum(system, stepper.state()) - L).norm(), 0, scaled(1e-9));
  EXPECT_NEAR(energy(system, stepper.state()), E, scaled(1e-9));
  const BodyState& s = stepper.state()[body];
  EXPECT_NEAR((s.q.conjugate() * s.w - Vector3d(0.01, -1, 0)).norm(), 0, scaled(1e-7));
}

// ---- drift and energy ----

TEST(Drift, ExactStaysOnTheConstraintAtEveryStep) {
  for (const double rate : {240.0, 60.0}) {
    for (const StepOptions& options : {semi_implicit(), rk4()}) {
      Pendulum p;
      Stepper stepper(p.system, p.system.initial_state(), options);
      for (int i = 0; i < 2000; ++i) {
        ASSERT_FALSE(stepper.step(1 / rate).rejected);
        ASSERT_NEAR(stepper.state()[p.bob].p.norm(), 1.5, scaled(options.method == Method::rk4 ? 1e-13 : 2e-15));
      }
    }
  }
}

TEST(Drift, ExactHoldsAChainInSpace) {
  Chain chain(8, 0.1, 0.2, 1);
  Stepper stepper(chain.system, chain.system.initial_state(), semi_implicit());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
    ASSERT_LE(worst_gap(stepper.reactions()), scaled(1e-14));
    for (const MomentumBalance& book : stepper.momentum_balances()) ASSERT_LE(book.imbalance(), scaled(1e-12));
  }
}

TEST(Drift, TheBareEquationDriftsAndFeedbackGainsEnergy) {
  const auto gap_and_gain = [](Method method, Drift drift) {
    Pendulum p(1.5);
    StepOptions options{.method = method, .drift = drift, .baumgarte_rate = 10};
    Stepper stepper(p.system, p.system.initial_state(), options);
    const double E = energy(p.system, stepper.state());
    run(stepper, 20, 1200);
    return std::pair(worst_gap(stepper.reactions()), energy(p.system, stepper.state()) - E);
  };
  const auto [exact, exact_gain] = gap_and_gain(Method::semi_implicit, Drift::exact);
  const auto [none, none_gain] = gap_and_gain(Method::semi_implicit, Drift::none);
  const auto [feedback, feedback_gain] = gap_and_gain(Method::semi_implicit, Drift::baumgarte);
  EXPECT_LT(exact, 1e-13);
  EXPECT_GT(none, 1e-2);
  EXPECT_LT(feedback, none);
  EXPECT_GT(feedback, 1e-4);
  EXPECT_LT(std::fabs(exact_gain), 0.5);
  EXPECT_GT(feedback_gain, 1);
  EXPECT_GT(gap_and_gain(Method::rk4, Drift::none).first, 1e-9);
  EXPECT_LT(gap_and_gain(Method::rk4, Drift::exact).first, 1e-13);
}

/// Slope of the means over windows of one second, per second, and whether a mean exceeds the first second's span.
struct Trend {
  double slope = 0;
  bool gains = false;
};
Trend energy_trend(System& system, int seconds, int rate) {
  Stepper stepper(system, system.initial_state(), semi_implicit());
  const double E0 = energy(system, stepper.state());
  double low = E0, high = E0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  Trend trend;
  for (int s = 0; s < seconds; ++s) {
    double mean = 0;
    for (int i = 0; i < rate; ++i) {
      EXPECT_FALSE(stepper.step(1.0 / rate).rejected);
      const double E = energy(system, stepper.state());
      mean += E / rate;
      if (s == 0) low = std::min(low, E), high = std::max(high, E);
    }
    trend.gains = trend.gains || mean > E0 + (high - low);
    sum_x += s;
    sum_y += mean;
    sum_xx += static_cast<double>(s) * s;
    sum_xy += s * mean;
  }
  trend.slope = (seconds * sum_xy - sum_x * sum_y) / (seconds * sum_xx - sum_x * sum_x);
  return trend;
}

TEST(Energy, OfAPendulumShowsNoTrend) {
  Pendulum p;
  const double scale = 2 * g * 1.5;
  const Trend trend = energy_trend(p.system, 60, 240);
  EXPECT_LT(std::fabs(trend.slope), 1e-6 * scale);
  EXPECT_FALSE(trend.gains);
}

TEST(Energy, OfATumblingDoublePendulumShowsNoTrend) {
  System system;
  system.set_gravity({0, 0, -g});
  const auto a = system.add_body("a", 1, Vector3d(0.1, 0.12, 0.05), {{0.3, 0, 0}, Quaterniond::Identity()});
  const auto b =
      system.add_body("b", 2, Vector3d(0.2, 0.15, 0.1), {{0.9, 0, 0}, Quaterniond::Identity()}, {0, 0.6, 0}, {0, 0, 2});
  system.add(joints::ball("shoulder", ground, Vector3d::Zero(), a, {-0.3, 0, 0}));
  system.add(joints::ball("elbow", a, {0.3, 0, 0}, b, {-0.3, 0, 0}));
  const Trend trend = energy_trend(system, 60, 240);
  EXPECT_LT(std::fabs(trend.slope), 1e-4 * 20);  // with the gyroscopic torque of the start of the step alone: 2e-2
  EXPECT_FALSE(trend.gains);
}

TEST(Energy, SurvivesStepsThatChangeWithTheMotion) {
  Pendulum p;
  Stepper stepper(p.system, p.system.initial_state(), semi_implicit());
  std::vector<double> means;
  for (int k = 0; k < 6; ++k) {
    double mean = 0;
    for (int i = 0; i < 2000; ++i) {
      const bool low = stepper.state()[p.bob].p.z() < -1;  // finer steps where it is fast
      ASSERT_FALSE(stepper.step(low ? 1.0 / 480 : 1.0 / 60).rejected);
      mean += energy(p.system, stepper.state()) / 2000;
    }
    means.push_back(mean);
  }
  // With each step's own length as the time its forces act, it falls by 6 J and comes to rest.
  EXPECT_NEAR(means.back(), means.front(), 0.02);
}

// ---- books ----

TEST(Books, HoldWhatWasAppliedEachTermFromItsOwnRecord) {
  Pendulum p;
  add_law(p.system, p.rod_, laws::viscous(0.4));
  Stepper stepper(p.system, p.system.initial_state(), semi_implicit());
  const double dt = 1.0 / 240;
  double gravity_work = 0;
  const double start = kinetic_energy(p.system, stepper.state());
  for (int i = 0; i < 500; ++i) {
    const Vector3d v0 = stepper.state()[p.bob].v;
    ASSERT_FALSE(stepper.step(dt).rejected);
    const Vector3d v1 = stepper.state()[p.bob].v;
    const MomentumBalance& book = stepper.momentum_balances()[0];
    EXPECT_EQ(book.body, p.bob);
    ASSERT_NEAR((book.momentum.head<3>() - 2 * (v1 - v0)).norm(), 0, tol_rounding());
    ASSERT_NEAR((book.applied.head<3>() - dt * Vector3d(0, 0, -2 * g)).norm(), 0, tol_rounding());
    ASSERT_LE(book.imbalance(), scaled(1e-12));
    MomentumBalance wrong = book;
    wrong.constraints *= 1 + 1e-9;
    ASSERT_GT(wrong.imbalance(), 1e-10);
    wrong = book;
    wrong.applied[2] *= 1 + 1e-9;
    ASSERT_GT(wrong.imbalance(), 1e-11);
    gravity_work += book.applied.head<3>().dot(0.5 * (v0 + v1));
  }
  // Impulse times mean velocity adds up to the change of kinetic energy, exactly (T11).
  EXPECT_NEAR(stepper.constraint_work() + gravity_work, kinetic_energy(p.system, stepper.state()) - start,
              tol_rounding(20));
  EXPECT_LT(stepper.constraint_work(), -0.5);  // friction
  EXPECT_NEAR(named(stepper.reactions(), "rod").work, stepper.constraint_work(), 0);
}

TEST(Books, HoldTheStabilisationThatEndsTheStepOnTheConstraint) {
  Pendulum p;
  Stepper stepper(p.system, p.system.initial_state(), semi_implicit());
  const double dt = 1.0 / 240;
  for (int i = 0; i < 100; ++i) {
    const Reaction before = named(stepper.reactions(), "rod");
    ASSERT_FALSE(stepper.step(dt).rejected);
    const Wrench beyond = named(stepper.reactions(), "rod").stabilisation.on_b;
    // What the bob got in the step is the reaction at its start and the stabilisation.
    ASSERT_NEAR((stepper.momentum_balances()[0].constraints.head<3>() / dt - before.on_b.force - beyond.force).norm(),
                0, tol_rounding(100));
  }
}

TEST(Books, OfRk4HoldTheMeanForcesToItsOrder) {
  Pendulum p;
  Stepper stepper(p.system, p.system.initial_state(), rk4());
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(stepper.step(1e-3).rejected);
    ASSERT_LE(stepper.momentum_balances()[0].imbalance(), scaled(1e-8));
  }
}

TEST(Books, OfARigidLoopWithADrivenBody) {
  System system;
  system.set_gravity({0, 0, -g});
  const auto crank = system.add_kinematic("crank", {}, [](double t) {
    BodyState s;
    s.q = Quaterniond(Eigen::AngleAxisd(3 * t, Vector3d::UnitY()));
    s.w = {0, 3, 0};
    return s;
  });
  const auto rod_ = system.add_body("rod", 1.5, Vector3d(0.01, 0.2, 0.2), {{0.9, 0, 0}, Quaterniond::Identity()});
  const auto piston = system.add_body("piston", 2, Vector3d(0.1, 0.1, 0.1), {{1.5, 0, 0}, Quaterniond::Identity()});
  system.add(joints::hinge("big end", crank, {0.3, 0, 0}, Vector3d::UnitY(), rod_, {-0.6, 0, 0}, Vector3d::UnitY()));
  system.add(
      joints::hinge("small end", rod_, {0.6, 0, 0}, Vector3d::UnitY(), piston, Vector3d::Zero(), Vector3d::UnitY()));
  const auto bore = system.add(joints::slider("bore", ground, {}, piston, {}));
  add_law(system, bore, laws::regularized_coulomb(0.1, 1e-3));
  Stepper stepper(system, system.initial_state(), semi_implicit());
  for (int i = 0; i < 1000; ++i) {
    const StepReport& report = stepper.step(1.0 / 240);
    ASSERT_FALSE(report.rejected) << report.reason;
    ASSERT_EQ(report.status, Status::redundant);  // a planar mechanism built from joints in space
    for (const MomentumBalance& book : stepper.momentum_balances()) ASSERT_LE(book.imbalance(), scaled(1e-12));
    ASSERT_LE(worst_gap(stepper.reactions()), scaled(1e-13));
    const Vector3d& p = stepper.state()[piston].p;
    const double angle = 3 * stepper.t();
    ASSERT_NEAR(p.x(), 0.3 * std::cos(angle) + std::sqrt(1.44 - 0.09 * std::pow(std::sin(angle), 2)), scaled(1e-12));
  }
  EXPECT_LT(named(stepper.reactions(), "bore").work, -0.1);
}

// ---- steps that are cut, refused or started anew ----

TEST(Substeps, KeepAHeavilyLoadedChainAlive) {
  // A light link under a heavy load swings at √(T l / 2I) ≈ 600 /s: three times what a step of 1/240 s can follow.
  Chain chain(12, 20);
  StepOptions options = semi_implicit();
  Stepper stepper(chain.system, chain.system.initial_state(), options);
  const double E = energy(chain.system, stepper.state());
  int most = 0;
  for (int i = 0; i < 960; ++i) {
    const StepReport& report = stepper.step(1.0 / 240);
    ASSERT_FALSE(report.rejected) << report.reason << " at " << stepper.t();
    ASSERT_LE(report.tension_frequency, options.max_tension_frequency);
    most = std::max(most, report.substeps);
    ASSERT_LE(worst_gap(stepper.reactions()), scaled(1e-12));
    for (const MomentumBalance& book : stepper.momentum_balances()) ASSERT_LE(book.imbalance(), scaled(1e-11));
    ASSERT_LT(energy(chain.system, stepper.state()), E + 30);
  }
  EXPECT_GT(most, 2);
  EXPECT_NEAR(stepper.t(), 4, 1e-12);
}

void expect_untouched(Stepper& stepper, double dt) {
  const State before = stepper.state();
  const StepReport& report = stepper.step(dt);
  EXPECT_TRUE(report.rejected);
  EXPECT_FALSE(report.reason.empty());
  EXPECT_EQ(stepper.t(), before.t);
  for (std::size_t i = 0; i < before.bodies.size(); ++i) {
    EXPECT_EQ(stepper.state().bodies[i].p, before.bodies[i].p);
    EXPECT_EQ(stepper.state().bodies[i].v, before.bodies[i].v);
    EXPECT_EQ(stepper.state().bodies[i].q.coeffs(), before.bodies[i].q.coeffs());
  }
  for (const MomentumBalance& book : stepper.momentum_balances()) EXPECT_EQ(book.constraints.norm(), 0);
}

TEST(Refusal, LeavesTheStateAlone) {
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    SCOPED_TRACE(static_cast<int>(options.method));
    {  // a residual that stops being a number
      System system;
      const auto p = system.add_particle("p", 1, {0, 0, 1}, {1, 0, 0});
      system.add(holonomic("dome", {p},
                           [](const auto& s) { return s[0].position().z - sqrt(1.0 - square(s[0].position().x)); }));
      Stepper stepper(system, system.initial_state(), options);
      int steps = 0;
      while (steps < 1000 && !stepper.step(0.02).rejected) ++steps;
      EXPECT_LT(steps, 1000);
      expect_untouched(stepper, 0.05);
      EXPECT_TRUE(stepper.state()[p].p.allFinite());
    }
    {  // a motion that throws
      System system;
      system.add_kinematic("arm", {}, [](double t) -> BodyState {
        if (t > 0.05) throw std::runtime_error("out of tape");
        return {};
      });
      const auto p = system.add_particle("p", 1, {1, 0, 0});
      system.add(joints::rod("rod", ground, Vector3d::Zero(), p, Vector3d::Zero(), 1));
      Stepper stepper(system, system.initial_state(), options);
      ASSERT_FALSE(stepper.step(0.04).rejected);
      expect_untouched(stepper, 0.04);
      EXPECT_NE(stepper.step(0.04).reason.find("out of tape"), std::string::npos);
    }
    {
      Pendulum p;
      Stepper stepper(p.system, p.system.initial_state(), options);
      for (const double dt : {0.0, -0.1, std::nan(""), std::numeric_limits<double>::infinity()})
        expect_untouched(stepper, dt);
    }
  }
}

TEST(Contradiction, EndsInTheLeastSquaresAndIsReported) {
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    SCOPED_TRACE(static_cast<int>(options.method));
    System system;  // two winches that part at t = 0.1
    const auto p = system.add_particle("p", 1, {1, 0, 0});
    system.add(joints::prescribed_distance("one", ground, Vector3d::Zero(), Vector3d::UnitX(), p, Vector3d::Zero(),
                                           [](auto t) { return 1.0 + t; }));
    system.add(joints::prescribed_distance("two", ground, Vector3d::Zero(), Vector3d::UnitX(), p, Vector3d::Zero(),
                                           [](auto t) {
                                             using T = decltype(t);
                                             return t > 0.1 ? T(1.05 + 0.5 * t) : T(1.0 + t);
                                           }));
    Stepper stepper(system, system.initial_state(), options);
    while (stepper.t() < 0.0999) {
      ASSERT_FALSE(stepper.step(0.01).rejected);
      ASSERT_EQ(stepper.step(0.01).status, Status::redundant);
    }
    for (int i = 0; i < 10; ++i) {
      const StepReport& report = stepper.step(0.01);
      ASSERT_FALSE(report.rejected);
      ASSERT_EQ(report.status, Status::contradictory);
      const double t = stepper.t();
      ASSERT_NEAR(stepper.state()[p].p.x(), 0.5 * (1 + t + 1.05 + 0.5 * t), scaled(1e-12));
    }
    EXPECT_NEAR(named(stepper.reactions(), "one").gap, 0.5 * 0.5 * (stepper.t() - 0.1), scaled(1e-12));
  }
}

// Gauss–Newton to where |y² − 1|² + |y − 2|² is least: 2y (y² − 1) + y − 2 = 0.
TEST(Contradiction, OfCurvedRowsEndsInTheLeastSquaresToo) {
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    SCOPED_TRACE(static_cast<int>(options.method));
    System system;
    const auto p = system.add_particle("p", 1, {0, 1.1, 0});
    system.add(holonomic("ring", {p}, [](const auto& s) { return squared_norm(s[0].position()) - 1; }));
    system.add(holonomic("line", {p}, [](const auto& s) { return s[0].position().y - 2; }));
    Stepper stepper(system, system.initial_state(), options);
    for (int i = 0; i < 10; ++i) {
      const StepReport& report = stepper.step(0.01);
      ASSERT_FALSE(report.rejected) << report.reason;
      ASSERT_EQ(report.status, Status::contradictory);
    }
    // The semi-implicit step has the rows of its beginning: it comes nearer from step to step.
    const double y = stepper.state()[p].p.y();
    EXPECT_NEAR(2 * y * (y * y - 1) + y - 2, 0, 1e-4);
  }
}

TEST(Refusal, OfAStateThatIsNotOne) {
  Pendulum p;
  EXPECT_THROW(Stepper(p.system, State{}), std::invalid_argument);
  State wrong = p.system.initial_state();
  wrong[p.bob].p.x() = std::nan("");
  EXPECT_THROW(Stepper(p.system, wrong), std::invalid_argument);
}

TEST(Start, ClosesGapsAndProjectsVelocities) {
  Pendulum p;
  State state = p.system.initial_state();
  state[p.bob].p = {1.7, 0, 0};
  state[p.bob].v = {3, 2, 0};
  Stepper stepper(p.system, state);
  EXPECT_NEAR(stepper.start().gap, (1.7 * 1.7 - 2.25) / 3, tol_rounding());
  EXPECT_NEAR(stepper.start().moved, 0.2, scaled(1e-12));
  EXPECT_NEAR(stepper.start().impulse_energy, 0.5 * 2 * 9, scaled(1e-12));
  EXPECT_NEAR((stepper.state()[p.bob].p - Vector3d(1.5, 0, 0)).norm(), 0, scaled(1e-12));
  EXPECT_NEAR((stepper.state()[p.bob].v - Vector3d(0, 2, 0)).norm(), 0, scaled(1e-12));
  State teleported = stepper.state();
  teleported[p.bob].p = {0, 1.6, 0};
  stepper.set_state(teleported);
  EXPECT_NEAR(stepper.start().moved, 0.1, scaled(1e-12));
  EXPECT_EQ(stepper.constraint_work(), 0);
}

TEST(Changes, OnTheWayAreNoticedAtTheNextStep) {
  Pendulum p;
  Stepper stepper(p.system, p.system.initial_state(), semi_implicit());
  run(stepper, 1, 240);
  p.system.enable(p.rod_, false);
  const Vector3d v = stepper.state()[p.bob].v;
  ASSERT_EQ(stepper.reactions().size(), 0u);
  run(stepper, 0.1, 24);
  EXPECT_NEAR((stepper.state()[p.bob].v - v - 0.1 * Vector3d(0, 0, -g)).norm(), 0, tol_rounding(10));
  p.system.enable(p.rod_, true);  // out of reach by now: caught, and said so
  run(stepper, 0.1, 24);
  EXPECT_GT(stepper.start().gap, 1e-3);
  EXPECT_GT(stepper.start().impulse_energy, 1e-3);
  EXPECT_NEAR(stepper.state()[p.bob].p.norm(), 1.5, scaled(1e-14));
  const auto second = p.system.add_particle("second", 1, stepper.state()[p.bob].p + Vector3d(0, 0, -1));
  p.system.add(joints::rod("tow", p.bob, Vector3d::Zero(), second, Vector3d::Zero(), 1));
  run(stepper, 0.5, 120);
  EXPECT_NEAR((stepper.state()[second].p - stepper.state()[p.bob].p).norm(), 1, scaled(1e-14));
  EXPECT_EQ(stepper.reactions().size(), 2u);
}

// Released ones have no force, their distance as a gap, and the work until then.
TEST(Unilateral, IsInTheListOfReactionsWhileItIsReleased) {
  for (const StepOptions& options : {semi_implicit(), rk4()}) {
    SCOPED_TRACE(static_cast<int>(options.method));
    System system;
    system.set_gravity({0, 0, -10});
    const auto p = system.add_particle("p", 2, {0, 0, 0});
    const auto q = system.add_particle("q", 1, {1, 0, 0});
    const ConstraintId floor = system.add(joints::prescribed_distance(
        "floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), p, Vector3d::Zero(), [](auto t) {
          using T = decltype(t);
          return t < 0.1 ? T(0.1 * t) : T(0.01 - 20 * square(t - 0.1));  // lifts it, then falls away under it
        }));
    const ConstraintId rail = system.add(joints::prescribed_distance(
        "rail", ground, Vector3d::Zero(), Vector3d::UnitZ(), q, Vector3d::Zero(), [](auto t) { return 0 * t; }));
    set_unilateral(system, floor);
    Stepper stepper(system, system.initial_state(), options);
    run(stepper, 0.1, 10);
    const double work = named(stepper.reactions(), "floor").work;
    run(stepper, 0.1, 10);
    ASSERT_FALSE(system.enabled(floor));
    ASSERT_EQ(stepper.reactions().size(), 2u);
    const Reaction& released = stepper.reactions()[0];
    EXPECT_EQ(released.name, system.name(floor));
    EXPECT_EQ(stepper.reactions()[1].name, system.name(rail));
    EXPECT_EQ(released.on_a.force, Vector3d::Zero());
    EXPECT_EQ(released.lambda, std::vector<double>{0});
    EXPECT_NEAR(released.gap, std::abs(stepper.state()[p].p.z() - (0.01 - 20 * 0.01)), scaled(1e-9));
    EXPECT_GT(released.gap, 0.05);
    EXPECT_NEAR(released.work, work, scaled(0.5));
    EXPECT_GT(released.work, 0.1);
  }
}

TEST(Gears, KeepTheirMemoryOverManyTurns) {
  System system;
  const auto a =
      system.add_body("a", 1, Vector3d(0.1, 0.1, 0.2), {{0, 0, 0}, Quaterniond::Identity()}, {0, 0, 0}, {0, 0, 8});
  const auto b =
      system.add_body("b", 2, Vector3d(0.3, 0.3, 0.5), {{1, 0, 0}, Quaterniond::Identity()}, {0, 0, 0}, {0, 0, -4});
  system.add(joints::hinge("axle a", ground, {0, 0, 0}, Vector3d::UnitZ(), a, {0, 0, 0}, Vector3d::UnitZ()));
  system.add(joints::hinge("axle b", ground, {1, 0, 0}, Vector3d::UnitZ(), b, {0, 0, 0}, Vector3d::UnitZ()));
  system.add(joints::gear("gear", a, Vector3d::UnitZ(), b, Vector3d::UnitZ(), 2));
  Stepper stepper(system, system.initial_state(), semi_implicit());
  run(stepper, 10, 1200);
  EXPECT_NEAR(stepper.state()[a].w.z(), 8, scaled(1e-10));
  EXPECT_NEAR(stepper.state()[b].w.z(), -4, scaled(1e-10));
  EXPECT_LE(named(stepper.reactions(), "gear").gap_angle, scaled(1e-12));
}

TEST(Gears, CopiesInTwoSystemsMoveAsGearsOfTheirOwn) {
  const BodyId a{1}, b{2};
  const auto make = [&] { return joints::gear("gear", a, Vector3d::UnitZ(), b, Vector3d::UnitZ(), 2); };
  const auto build = [&](System& system, double speed, const Constraint& gear) {
    system.add_body("a", 1, Vector3d(0.1, 0.1, 0.2), {{0, 0, 0}, Quaterniond::Identity()}, {0, 0, 0}, {0, 0, speed});
    system.add_body("b", 2, Vector3d(0.3, 0.3, 0.5), {{1, 0, 0}, Quaterniond::Identity()}, {0, 0, 0},
                    {0, 0, -speed / 2});
    system.add(joints::hinge("axle a", ground, {0, 0, 0}, Vector3d::UnitZ(), a, {0, 0, 0}, Vector3d::UnitZ()));
    system.add(joints::hinge("axle b", ground, {1, 0, 0}, Vector3d::UnitZ(), b, {0, 0, 0}, Vector3d::UnitZ()));
    system.add(gear);
  };
  const Constraint shared = make();
  System copies[2], own[2];
  std::vector<std::unique_ptr<Stepper>> with_copy, with_own;
  for (int i = 0; i < 2; ++i) {
    build(copies[i], i == 0 ? 8 : -3, shared);
    build(own[i], i == 0 ? 8 : -3, make());
    with_copy.push_back(std::make_unique<Stepper>(copies[i], copies[i].initial_state(), semi_implicit()));
    with_own.push_back(std::make_unique<Stepper>(own[i], own[i].initial_state(), semi_implicit()));
  }
  for (int step = 0; step < 600; ++step)
    for (auto* steppers : {&with_copy, &with_own})
      for (const auto& stepper : *steppers) ASSERT_FALSE(stepper->step(1.0 / 120).rejected);
  for (std::size_t i = 0; i < 2; ++i)
    for (const BodyId id : {a, b}) {
      EXPECT_EQ(with_copy[i]->state()[id].w, with_own[i]->state()[id].w);
      EXPECT_EQ(with_copy[i]->state()[id].q.coeffs(), with_own[i]->state()[id].q.coeffs());
    }
}

// ---- memory ----

TEST(StepOptions, ThatNoStepCanBeMadeWithAreRefusedByName) {
  System system;
  system.add_particle("bob", 1, {1, 0, 0});
  const auto refusal = [&](const StepOptions& options) -> std::string {
    try {
      Stepper(system, system.initial_state(), options);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal({}), "none");
  const auto says = [&](auto change, const char* name) {
    StepOptions options;
    change(options);
    EXPECT_NE(refusal(options).find(name), std::string::npos) << name << ": " << refusal(options);
  };
  says([](StepOptions& o) { o.method = static_cast<Method>(99); }, "method is 99");
  says([](StepOptions& o) { o.method = Method::rattle4, o.drift = Drift::none; }, "rattle4");
  says([](StepOptions& o) { o.drift = static_cast<Drift>(7); }, "drift is 7");
  says([](StepOptions& o) { o.relative_tolerance = -1; },
       "relative_tolerance must be finite and not below 0, and not both tolerances may be 0, got -1");
  says([](StepOptions& o) { o.absolute_tolerance = std::nan(""); }, "absolute_tolerance");
  says([](StepOptions& o) { o.baumgarte_rate = -10; }, "baumgarte_rate must be above 0, got -10");
  says([](StepOptions& o) { o.newton_tolerance = 0; }, "newton_tolerance");
  says([](StepOptions& o) { o.event_tolerance = -1; }, "event_tolerance");
  says([](StepOptions& o) { o.max_newton = 0; }, "max_newton must be at least 1, got 0");
  says([](StepOptions& o) { o.max_substeps = -1; }, "max_substeps");
}

TEST(Memory, NothingIsAllocatedOnceWarm) {
  for (const Method method : all_methods) {
    for (const Drift drift : {Drift::exact, Drift::none, Drift::baumgarte}) {
      if (drift != Drift::exact && (method == Method::rattle || method == Method::rattle4)) continue;
      SCOPED_TRACE(static_cast<int>(method) * 10 + static_cast<int>(drift));
      Chain chain(6, 0.4, 0.2, 1);
      System& system = chain.system;
      const auto skate = system.add_body("skate", 1, Vector3d(0.1, 0.1, 0.1), {{0, 3, 0}, Quaterniond::Identity()},
                                         {1, 0, 0}, {0, 0, 1});
      system.add(joints::planar("ice", ground, {0, 3, 0}, Vector3d::UnitZ(), skate, {0, 0, 0}, Vector3d::UnitZ()));
      system.add(joints::planar("ice again", ground, {0, 3, 0}, Vector3d::UnitZ(), skate, {0, 0, 0},
                                Vector3d::UnitZ()));  // redundant
      const auto edge = system.add(nonholonomic("edge", {skate}, [](const auto& s) {
                                     return dot(s[0].velocity(), s[0].axis(0, 1, 0));
                                   }).set_application_points({Vector3d::Zero()}));
      add_law(system, edge, laws::regularized_coulomb(0.1, 1e-3));
      system.add(spring("spring", chain.links.back(), Vector3d::Zero(), skate, Vector3d::Zero(), 2, 1, 0.1));
      StepOptions options{.method = method, .drift = drift};
      Stepper stepper(system, system.initial_state(), options);
      for (int i = 0; i < 20; ++i) ASSERT_FALSE(stepper.step(1.0 / 480).rejected);
      const AllocationCounter allocations;
      for (int i = 0; i < 20; ++i) stepper.step(1.0 / 480);
      EXPECT_EQ(allocations.count(), 0u);
    }
  }
}

// What comes and goes beside a pendulum is not seen in its motion, its work or its size.
TEST(Changes, GuestsThatComeAndGoLeaveNothingBehind) {
  Pendulum alone, visited;
  Stepper quiet(alone.system, alone.system.initial_state()), busy(visited.system, visited.system.initial_state());
  double work_of_guests = 0;
  for (int i = 0; i < 400; ++i) {
    const BodyId guest = visited.system.add_particle("guest", 1, {5, 0, -1}, {1, 0, 0});
    const ConstraintId hold = visited.system.add(
        nonholonomic("hold", {guest}, [](const auto& s) { return s[0].velocity().x - 1 - 0.1 * s.t; }));
    ASSERT_FALSE(busy.step(0.01).rejected) << i;
    ASSERT_FALSE(quiet.step(0.01).rejected);
    EXPECT_NEAR(busy.state()[guest].p.z(), -1, 0.01) << "from where it was added";
    for (const Reaction& r : busy.reactions())
      if (r.name == "hold") work_of_guests += r.work;
    visited.system.remove(hold);
    visited.system.remove(guest);
  }
  // Every change of structure projects the velocities anew, which moves the last digits of the pendulum.
  EXPECT_LE((busy.state()[visited.bob].p - quiet.state()[alone.bob].p).norm(), scaled(1e-12));
  EXPECT_LT(visited.system.body_count(), 200);
  EXPECT_LT(visited.system.constraint_count(), 200);
  EXPECT_EQ(busy.state().bodies.size(), static_cast<std::size_t>(visited.system.body_count()));
  double work_of_rod = 0;
  for (const Reaction& r : busy.reactions())
    if (r.name == "rod") work_of_rod = r.work;
  EXPECT_NEAR(busy.constraint_work(), work_of_rod + work_of_guests, scaled(1e-9) * std::abs(work_of_guests));
  EXPECT_GT(std::abs(work_of_guests), 1e-3);
}

TEST(Repeatability, SameInputSameBits) {
  const auto final_state = [] {
    Chain chain(5, 2, 0.2, 1);
    return after(chain.system, 1, 240, semi_implicit());
  };
  const State a = final_state(), b = final_state();
  for (std::size_t i = 0; i < a.bodies.size(); ++i) EXPECT_EQ(a.bodies[i].p, b.bodies[i].p);
}

}  // namespace
}  // namespace linchpin::test::stepper_test
