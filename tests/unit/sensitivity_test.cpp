// Sensitivities of trajectories against closed forms and against differences of whole trajectories: smooth motion,
// start positions, stick and slip, release and impact, and the adjoint method.
#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/sensitivity.h>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test::sensitivity_test {
namespace {

constexpr double pi = 3.14159265358979323846;

/// A bead on a rough vertical circle of 1 m, let go at the height of its centre. Parameters: mu, g.
ParametricSystem rough_circle() {
  return {{"mu", "g"}, {0.2, 9.81}, [](std::span<const double> p) {
            System system;
            system.set_gravity({0, -p[1], 0});
            const BodyId bead = system.add_particle("bead", 1, {-1, 0, 0});
            const ConstraintId circle = system.add(holonomic("circle", {bead}, [](const auto& s) {
              const auto x = s[0].position();
              return rows(x.x * x.x + x.y * x.y - 1.0, x.z);
            }));
            add_law(system, circle, laws::coulomb(p[0]));
            return system;
          }};
}

/// Differences of order 4 of a function of one parameter.
template <class F>
double difference(F f, double h) {
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

/// Angle from the bottom of the circle, and its derivative by a parameter.
double angle(const State& state) { return std::atan2(state.bodies[1].p.x(), -state.bodies[1].p.y()); }

TEST(Sensitivity, SpeedAtTheBottomOfARoughCircleIsTheClosedForm) {
  SensitivityStepper run(rough_circle());
  run.watch([](const OutputPoint& at, std::span<double> y) { y[0] = at.state.bodies[1].p.x(); });
  while (run.crossings().empty()) run.step(1e-3);
  const OutputSensitivity speed = run.outputs_at(
      run.crossings()[0], 1, [](const OutputPoint& at, std::span<double> y) { y[0] = at.state.bodies[1].v.norm(); });
  EXPECT_TRUE(run.crossings()[0].rising);
  EXPECT_NEAR(speed.value[0], 3.185389354168705, 1e-9);
  EXPECT_NEAR(speed.derivative[0], -5.900044573944802, 1e-9);
}

TEST(Sensitivity, FirstStopOnARoughCirclePassesThroughTheEvent) {
  SensitivityStepper run(rough_circle());
  while (run.switches().empty()) run.step(1e-3);
  ASSERT_EQ(run.switches().size(), 1u);
  const SwitchSensitivity& stop = run.switches()[0];
  EXPECT_NEAR(angle(stop.state), 0.7777241756245301, 1e-9);
  // The derivative of the time of the stop agrees with that of whole runs.
  const auto time_of_stop = [](double mu) {
    ParametricSystem family = rough_circle();
    family.values[0] = mu;
    System system = family.make(family.values);
    Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
    while (stepper.switches().empty()) stepper.step(1e-3);
    return stepper.switches()[0].t;
  };
  EXPECT_NEAR(stop.t_derivatives[0], difference([&](double h) { return time_of_stop(0.2 + h); }, 1e-3), 1e-8);
  const OutputSensitivity place =
      run.outputs_at(stop, 1, [](const OutputPoint& now, std::span<double> y) { y[0] = angle(now.state); });
  EXPECT_NEAR(place.derivative[0], -2.804287869663848, 1e-9);
}

/// Steps to a time and returns p and v of all bodies, with their derivatives.
OutputSensitivity all_states(SensitivityStepper& run, double end, double dt) {
  const int count = 13 * static_cast<int>(run.state().bodies.size());
  for (int i = 0; i < static_cast<int>(std::lround(end / dt)); ++i) {
    const StepReport& report = run.step(dt);
    EXPECT_FALSE(report.rejected) << report.reason;
  }
  return run.outputs(count, [](const OutputPoint& at, std::span<double> y) {
    std::size_t i = 0;
    for (const BodyState& body : at.state.bodies) {
      for (const double x : {body.p.x(), body.p.y(), body.p.z(), body.q.x(), body.q.y(), body.q.z(), body.q.w(),
                             body.v.x(), body.v.y(), body.v.z(), body.w.x(), body.w.y(), body.w.z()})
        y[i++] = x;
    }
  });
}

/// The same derivatives by differences of whole runs.
std::vector<double> by_differences(const ParametricSystem& family, std::size_t parameter, double end, double dt,
                                   const StepOptions& options, double h) {
  std::vector<double> out;
  for (const auto& [offset, weight] : {std::pair{-2.0, 1.0 / 12}, {-1.0, -2.0 / 3}, {1.0, 2.0 / 3}, {2.0, -1.0 / 12}}) {
    std::vector<double> values = family.values;
    values[parameter] += offset * h;
    System system = family.make(values);
    Stepper stepper(system, system.initial_state(), options);
    for (int i = 0; i < static_cast<int>(std::lround(end / dt)); ++i) EXPECT_FALSE(stepper.step(dt).rejected);
    std::size_t i = 0;
    for (const BodyState& body : stepper.state().bodies)
      for (const double x : {body.p.x(), body.p.y(), body.p.z(), body.q.x(), body.q.y(), body.q.z(), body.q.w(),
                             body.v.x(), body.v.y(), body.v.z(), body.w.x(), body.w.y(), body.w.z()}) {
        if (i >= out.size()) out.push_back(0);
        out[i++] += weight / h * x;
      }
  }
  return out;
}

void expect_differences(const ParametricSystem& family, double end, double dt, const StepOptions& options,
                        double tolerance, int min_events = 0) {
  const bool is_small = family.make(family.values).body_count() <= 2;  // Jacobians cost as 2n parameters.
  SensitivityStepper run(family, {.stepper = options, .keep_jacobians = is_small});
  int events = 0;
  const long steps = std::lround(end / dt);
  for (long i = 0; i < steps; ++i) {
    run.step(dt);
    events += static_cast<int>(run.switches().size());
  }
  EXPECT_GE(events, min_events);
  const OutputSensitivity found = all_states(run, 0, dt);
  const std::size_t p = family.names.size();
  for (std::size_t j = 0; j < p; ++j) {
    const double h = 1e-3 * std::max(std::fabs(family.values[j]), 0.1);
    const std::vector<double> expected = by_differences(family, j, end, dt, options, h);
    double size = 1e-3;
    for (const double x : expected) size = std::max(size, std::fabs(x));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found.derivative[i * p + j], expected[i], tolerance * size) << family.names[j] << ", output " << i;
  }
  if (!is_small) return;
  // The adjoint method is the transposed of the forward method.
  const std::size_t n = static_cast<std::size_t>(run.layout().n());
  StateWeights weights{steps, std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> expected(p, 0.0);
  double size = 0;
  for (std::size_t i = 0; i < n; ++i) {
    weights.displacement[i] = std::sin(1.0 + double(i)), weights.velocity[i] = std::cos(2.0 + 3 * double(i));
    for (std::size_t j = 0; j < p; ++j) {
      const double d = weights.displacement[i] * run.displacement()[i * p + j],
                   v = weights.velocity[i] * run.velocity()[i * p + j];
      expected[j] += d + v;
      size = std::max({size, std::fabs(d), std::fabs(v)});
    }
  }
  const std::vector<double> gradient = run.gradient({&weights, 1});
  for (std::size_t j = 0; j < p; ++j) EXPECT_NEAR(gradient[j], expected[j], 1e-11 * size) << family.names[j];
}

/// A four-bar of rigid bars with a redundant weld of planarity: a closed loop in space. Parameters: length of the
/// coupler's bar, mass, gravity, stiffness of a spring, start angle by the crank.
ParametricSystem four_bar() {
  return {{"mass", "length", "stiffness", "damping", "rate"}, {2, 0.5, 30, 0.3, 1.5}, [](std::span<const double> p) {
            System system;
            system.set_gravity({0, -9.81, 0});
            const double l = p[1];
            const Vector3d inertia(0.01, 0.02, 0.02);
            const BodyId crank = system.add_body("crank", 1, inertia, {{0, l / 2, 0}, Quaterniond::Identity()},
                                                 {-p[4] * l / 2, 0, 0}, {0, 0, p[4]});
            const BodyId coupler =
                system.add_body("coupler", p[0], inertia, {{0.5, l, 0}, Quaterniond::Identity()}, {-p[4] * l, 0, 0});
            const BodyId rocker = system.add_body("rocker", 1, inertia, {{1, l / 2, 0}, Quaterniond::Identity()},
                                                  {-p[4] * l / 2, 0, 0}, {0, 0, p[4]});
            const Vector3d z = Vector3d::UnitZ();
            system.add(joints::hinge("A", ground, {0, 0, 0}, z, crank, {0, -l / 2, 0}, z));
            system.add(joints::hinge("B", crank, {0, l / 2, 0}, z, coupler, {-0.5, 0, 0}, z));
            system.add(joints::hinge("C", coupler, {0.5, 0, 0}, z, rocker, {0, l / 2, 0}, z));
            const ConstraintId d = system.add(joints::hinge("D", ground, {1, 0, 0}, z, rocker, {0, -l / 2, 0}, z));
            add_law(system, d, laws::viscous_torque(p[3]));
            system.add(spring("spring", ground, {0.3, 1, 0}, coupler, {0, 0, 0}, p[2], 0.2));
            return system;
          }};
}

TEST(Sensitivity, OfAClosedLoopAgreesWithDifferencesOfRuns) {
  expect_differences(four_bar(), 0.2, 1e-3, {.method = Method::rk4}, 1e-7);
  expect_differences(four_bar(), 0.2, 2e-2,
                     {.method = Method::adaptive8, .relative_tolerance = 1e-12, .absolute_tolerance = 1e-14}, 1e-7);
}

/// A block on a belt: sticks, is pulled off by its spring, slides, sticks again.
ParametricSystem block_on_belt() {
  return {{"mu", "stiffness", "mass"}, {0.3, 40, 1}, [](std::span<const double> p) {
            System system;
            system.set_gravity({0, -9.81, 0});
            const BodyId block = system.add_particle("block", p[2], {0, 0, 0}, {0.4, 0, 0});
            const ConstraintId floor = system.add(
                holonomic("floor", {block}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
            add_law(system, floor, laws::coulomb(p[0], 0.7 * p[0]).on_belt({0.4, 0, 0}));
            system.add(spring("spring", ground, {0, 0, 0}, block, {0, 0, 0}, p[1], 0));
            return system;
          }};
}

TEST(Sensitivity, PassesThroughStickAndSlip) {
  expect_differences(block_on_belt(), 1.5, 1e-3, {.method = Method::rk4}, 1e-7, 3);
}

/// A bead on a hill that leaves it, and one that falls onto an inclined floor and slides on.
ParametricSystem falls_onto_slope() {
  return {{"height", "slope", "mu"}, {0.3, 0.5, 0.2}, [](std::span<const double> p) {
            System system;
            system.set_gravity({0, -9.81, 0});
            const BodyId ball = system.add_particle("ball", 1, {0, p[0], 0}, {0.2, 0, 0.4});
            const double c = std::cos(p[1]), s = std::sin(p[1]);
            const ConstraintId slope = system.add(holonomic(
                "slope", {ball}, [c, s](const auto& x) { return s * x[0].position().x + c * x[0].position().y; }));
            set_unilateral(system, slope, {.on = true, .negative = false, .reengage = true});
            add_law(system, slope, laws::viscous(p[2]));
            return system;
          }};
}

TEST(Sensitivity, PassesThroughAnImpact) {
  expect_differences(falls_onto_slope(), 0.6, 1e-3, {.method = Method::rk4}, 1e-7, 1);
}

/// A bead that slides from the top of a ball and leaves it.
ParametricSystem leaves_ball() {
  return {{"radius", "speed", "g"}, {1, 0.8, 9.81}, [](std::span<const double> p) {
            System system;
            system.set_gravity({0, -p[2], 0});
            const BodyId bead = system.add_particle("bead", 1, {0, p[0], 0}, {p[1], 0, 0});
            const double r = p[0];
            const ConstraintId ball = system.add(holonomic("ball", {bead}, [r](const auto& s) {
              return dot(s[0].position(), s[0].position()) / (2 * r) - r / 2;
            }));
            set_unilateral(system, ball);
            return system;
          }};
}

TEST(Sensitivity, PassesThroughARelease) {
  expect_differences(leaves_ball(), 0.8, 1e-3, {.method = Method::rk4}, 1e-7, 1);
}

/// A block that a growing force pushes. It rests until the force is the bound of its friction.
TEST(Sensitivity, OfABlockThatRestsIsZeroUntilItSlides) {
  const ParametricSystem family{
      {"mass", "rate", "mu"}, {3, 10, 0.4}, [](std::span<const double> p) {
        System system;
        system.set_gravity({0, -10, 0});
        const BodyId block = system.add_particle("block", p[0], {0, 0, 0});
        const ConstraintId floor = system.add(
            holonomic("floor", {block}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
        add_law(system, floor, laws::coulomb(p[2]));
        const double k = p[1];
        system.add(Force("finger", {block}, [k](ForceFrame& f) { f.add_force(0, {k * f.t, 0, 0}); }));
        return system;
      }};
  SensitivityStepper run(family);
  while (run.switches().empty()) {
    run.step(1e-2);
    if (!run.switches().empty()) break;
    for (const double x : run.displacement()) ASSERT_NEAR(x, 0, 1e-12);
  }
  const double expected[3] = {0.4, -0.12, 3};  // t = mu m g / k
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(run.switches()[0].t_derivatives[j], expected[j], 1e-7);
}

/// A ball that hits a ceiling and falls from it at once, and one that lands on a rough floor and stays.
TEST(Sensitivity, OfEventsThatFollowFromAnImpact) {
  const ParametricSystem ceiling{{"distance", "speed", "g"}, {0.05, 2, 10}, [](std::span<const double> p) {
                                   System system;
                                   system.set_gravity({0, -p[2], 0});
                                   const BodyId ball = system.add_particle("ball", 1, {0, 0.2 + p[0], 0}, {1, p[1], 0});
                                   const ConstraintId top = system.add(holonomic(
                                       "ceiling", {ball}, [](const auto& s) { return 0.4 - s[0].position().y; }));
                                   set_unilateral(system, top, {.on = true, .negative = false, .reengage = true});
                                   return system;
                                 }};
  expect_differences(ceiling, 0.5, 1e-2, {.method = Method::rk4}, 1e-7, 2);
  const ParametricSystem floor{{"height", "speed"}, {0.21, 0}, [](std::span<const double> p) {
                                 System system;
                                 system.set_gravity({0, -10, 0});
                                 const BodyId ball = system.add_particle("ball", 1, {0, p[0], 0}, {p[1], 0, 0});
                                 const ConstraintId ground_row = system.add(
                                     holonomic("floor", {ball}, [](const auto& s) { return s[0].position().y; }));
                                 set_unilateral(system, ground_row, {.on = true, .negative = false, .reengage = true});
                                 add_law(system, ground_row, laws::coulomb(0.5));
                                 return system;
                               }};
  SensitivityStepper run(floor);
  while (run.t() < 0.6) run.step(1e-2);
  // It flies for sqrt(2 h/g), and stops in a distance of second order in its speed.
  EXPECT_NEAR(run.displacement()[1], std::sqrt(2 * 0.21 / 10), 1e-6);
  for (const double x : run.velocity()) EXPECT_NEAR(x, 0, 1e-9);
}

/// A block that slides in a plane, pulled by two springs, and comes to rest.
TEST(Sensitivity, OfSlidingInAPlaneThatComesToRest) {
  const ParametricSystem family{{"mu", "stiffness"}, {0.3, 20}, [](std::span<const double> p) {
                                  System system;
                                  system.set_gravity({0, 0, -9.81});
                                  const BodyId block = system.add_particle("block", 1, {0.5, 0, 0}, {0, 0.8, 0});
                                  const ConstraintId floor = system.add(
                                      holonomic("floor", {block}, [](const auto& s) { return s[0].position().z; }));
                                  add_law(system, floor, laws::coulomb(p[0]));
                                  system.add(spring("spring", ground, {0, 0.1, 0}, block, {0, 0, 0}, p[1], 0));
                                  return system;
                                }};
  // The last direction of a slip that comes to rest has an error of first order in the step, in runs as well.
  expect_differences(family, 1.6, 2.5e-4, {.method = Method::rk4}, 1e-3, 1);
}

TEST(Sensitivity, StartsOnTheAssembledStart) {
  // The start of the second body depends on the length of the rod, and is off it: the assembly closes the gap.
  const ParametricSystem family{
      {"length"}, {1.2}, [](std::span<const double> p) {
        System system;
        system.set_gravity({0, -9.81, 0});
        const BodyId a = system.add_particle("a", 1, {0.9, 0, 0});
        const double l = p[0];
        system.add(holonomic("rod", {a}, [l](const auto& s) { return dot(s[0].position(), s[0].position()) - l * l; }));
        return system;
      }};
  SensitivityStepper run(family);
  EXPECT_NEAR(run.displacement()[0], 1, 1e-9);
  expect_differences(family, 0.4, 1e-3, {.method = Method::rk4}, 1e-7);
}

TEST(Sensitivity, ReactionsHaveDerivatives) {
  SensitivityStepper run(rough_circle());
  for (int i = 0; i < 200; ++i) run.step(1e-3);
  const OutputSensitivity found = run.outputs(
      1, [](const OutputPoint& at, std::span<double> y) { y[0] = at.reactions[0].on_a.force.norm(); }, true);
  const auto force = [](double mu) {
    ParametricSystem family = rough_circle();
    family.values[0] = mu;
    System system = family.make(family.values);
    Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
    for (int i = 0; i < 200; ++i) stepper.step(1e-3);
    return stepper.reactions()[0].on_a.force.norm();
  };
  EXPECT_NEAR(found.derivative[0], difference([&](double h) { return force(0.2 + h); }, 1e-3), 1e-8);
}

TEST(Sensitivity, AtTheEndOfARangeDifferencesAreOneSided) {
  ParametricSystem family = rough_circle();
  family.values[0] = 0;
  SensitivityStepper run(family);
  for (int i = 0; i < 300; ++i) run.step(1e-3);
  const double v = run.state().bodies[1].v.norm();
  const OutputSensitivity found =
      run.outputs(1, [](const OutputPoint& at, std::span<double> y) { y[0] = at.state.bodies[1].v.norm(); });
  family.values[0] = 1e-4;
  System system = family.make(family.values);
  Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
  for (int i = 0; i < 300; ++i) stepper.step(1e-3);
  EXPECT_NEAR(found.derivative[0], (stepper.state().bodies[1].v.norm() - v) / 1e-4, 1e-3);
}

std::string refused(const ParametricSystem& family, const SensitivityOptions& options = {}) {
  try {
    const SensitivityStepper run(family, options);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Sensitivity, RefusesByName) {
  EXPECT_NE(refused(rough_circle(), {.stepper = {.method = Method::semi_implicit}}).find("semi-implicit"),
            std::string::npos);
  ParametricSystem family = rough_circle();
  family.values[1] = NAN;
  EXPECT_NE(refused(family).find("\"g\" is nan"), std::string::npos);
  family = rough_circle();
  family.make = [make = family.make](std::span<const double> p) {
    System system = make(p);
    if (p[0] > 0.2) system.add_particle("other", 1, {5, 0, 0});
    return system;
  };
  EXPECT_NE(refused(family).find("another number of bodies"), std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::sensitivity_test
