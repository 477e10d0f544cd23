// Dry friction on every joint of random mechanisms, solved in the sparse structure of their constraints. The dense
// backend solves the same friction problem with the whole matrix of responses. Both must find the same accelerations.
#include "random_system.h"
#include "tolerances.h"

#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/law_report.h>
#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string>

namespace linchpin::test::sparse_friction_properties_test {
namespace {

struct Mechanism {
  Built built;
};

Mechanism random_mechanism(std::uint64_t seed, NormalForce normal_force) {
  Random random(seed);
  BlueprintOptions options;
  options.particles = false;
  options.loops = random.integer(0, 3);
  options.fewest = 14;
  options.most = 30;
  Mechanism out{build(random_blueprint(random, options))};
  const bool starts_at_rest = random.coin();
  if (starts_at_rest)
    for (BodyState& body : out.built.state.bodies) body.v.setZero(), body.w.setZero();
  for (const ConstraintId id : out.built.constraints) {
    const double mu = random.uniform(0.01, 0.3);
    const laws::JointFriction pin{.mu_static = mu,
                                  .mu_kinetic = mu * (random.coin() ? 1 : 0.8),
                                  .pin_radius = std::pow(10, random.uniform(-3, -1))};
    Law law = random.coin() ? laws::ball_friction(pin) : laws::cylinder_friction(pin);
    add_law(out.built.system, id, law.with_normal_force(normal_force));
  }
  return out;
}

/// A horizontal chain under gravity, at rest or with turning links, with dry joints. Many of its joints are near their
/// bounds.
Mechanism random_chain(std::uint64_t seed, NormalForce normal_force) {
  Random random(seed);
  Mechanism out;
  System& system = out.built.system;
  system.set_gravity({0, 0, -9.81});
  const double half = 0.05, mu = random.uniform(0.02, 0.3), radius = std::pow(10, random.uniform(-4, -2));
  const bool hinges = random.coin(), rests = random.coin();
  const int links = random.integer(30, 80);
  BodyId last = system.add_fixed("wall", Pose{});
  Vector3d end = Vector3d::Zero();
  for (int i = 0; i < links; ++i) {
    const Vector3d w(0, rests ? 0 : random.uniform(-1, 1), 0), arm(half, 0, 0);
    const std::string name = std::to_string(i);
    const Vector3d p((2 * i + 1) * half, 0, 0), at = i == 0 ? Vector3d(Vector3d::Zero()) : arm;
    const BodyId link = system.add_body("link" + name, 0.1, Vector3d(1e-5, 9e-5, 9e-5),
                                        Pose{p, Quaterniond::Identity()}, end + w.cross(arm), w);
    end += 2 * w.cross(arm);
    const ConstraintId joint =
        system.add(hinges ? joints::hinge("hinge" + name, last, at, Vector3d::UnitY(), link, -arm, Vector3d::UnitY())
                          : joints::ball("ball" + name, last, at, link, -arm));
    const laws::JointFriction pin{.mu_static = mu, .mu_kinetic = mu, .pin_radius = radius};
    add_law(system, joint,
            (hinges ? laws::hinge_friction(pin) : laws::ball_friction(pin)).with_normal_force(normal_force));
    last = link;
  }
  out.built.state = system.initial_state();
  return out;
}

/// Largest difference of two vectors, relative to the largest entry of either.
double relative_difference(std::span<const double> a, std::span<const double> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::fabs(a[i] - b[i]));
    size = std::max({size, std::fabs(a[i]), std::fabs(b[i])});
  }
  return difference / std::max(size, 1e-300);
}

/// Evaluates a mechanism for a step. 0: at an instant.
void evaluate(const Mechanism& m, double step, std::initializer_list<Dynamics*> all) {
  for (Dynamics* dynamics : all) {
    dynamics->set_step(step);
    ASSERT_NE(dynamics->evaluate(m.built.state), Status::invalid) << dynamics->reason();
  }
}

class SparseFriction : public testing::TestWithParam<double> {};

TEST_P(SparseFriction, FindsTheAccelerationsOfTheDenseSolution) {
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    Mechanism m = random_mechanism(seed, NormalForce::frictionless);
    Dynamics sparse(m.built.system), dense(m.built.system, SolveOptions{.backend = Backend::dense});
    ASSERT_NO_FATAL_FAILURE(evaluate(m, GetParam(), {&sparse, &dense}));
    EXPECT_LE(relative_difference(sparse.vdot(), dense.vdot()), scaled(1e-8));
    double largest = 0;
    for (const FrictionElement& e : sparse.friction_elements()) largest = std::max(largest, e.friction);
    for (const FrictionElement& e : sparse.friction_elements())
      EXPECT_LE(e.friction, std::max(e.bound, e.kinetic) + scaled(1e-9 * largest));
  }
}

TEST_P(SparseFriction, AgreesWithTheDenseSolutionOnTheCoupledNormalForce) {
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    Mechanism m = random_mechanism(seed, NormalForce::coupled);
    Dynamics sparse(m.built.system), dense(m.built.system, SolveOptions{.backend = Backend::dense});
    ASSERT_NO_FATAL_FAILURE(evaluate(m, GetParam(), {&sparse, &dense}));
    if (dense.law_report().gain > 0.5 || dense.law_report().fell_back || sparse.law_report().fell_back) continue;
    EXPECT_LE(relative_difference(sparse.vdot(), dense.vdot()), scaled(1e-7));
  }
}

TEST_P(SparseFriction, FindsTheAccelerationsOfTheDenseSolutionOnChains) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Mechanism m = random_chain(seed, NormalForce::frictionless);
    Dynamics sparse(m.built.system), dense(m.built.system, SolveOptions{.backend = Backend::dense});
    ASSERT_NO_FATAL_FAILURE(evaluate(m, GetParam(), {&sparse, &dense}));
    EXPECT_LE(relative_difference(sparse.vdot(), dense.vdot()), scaled(1e-8));
  }
}

/// Ends a step of the evaluated mechanism.
void take_step(Mechanism& m, Dynamics& dynamics, double dt) {
  const IslandLayout& layout = dynamics.assembly().layout;
  for (std::size_t slot = 0; slot < layout.bodies.size(); ++slot) {
    BodyState& body = m.built.state[layout.bodies[slot]];
    const double* const rate = dynamics.vdot().data() + layout.column[slot];
    body.v += dt * Vector3d(rate[0], rate[1], rate[2]);
    body.w += dt * Vector3d(rate[3], rate[4], rate[5]);
    advance(body, body.v, body.w, dt);
  }
  dynamics.accept(dt);
}

/// Expects that an evaluation after earlier ones finds the accelerations of the first evaluation of another object.
void expect_no_memory(const Mechanism& m, Dynamics& warm, double dt) {
  Dynamics cold(m.built.system);
  ASSERT_NO_FATAL_FAILURE(evaluate(m, dt, {&warm, &cold}));
  EXPECT_LE(relative_difference(warm.vdot(), cold.vdot()), scaled(1e-8));
}

TEST(SparseFrictionFromTheLastSolution, EqualsTheSolutionWithoutOne) {
  constexpr double dt = 1e-3;
  for (const std::uint64_t seed : seeds(10)) {
    SCOPED_TRACE(repeat_with(seed));
    Mechanism m = random_chain(seed, seed % 2 == 0 ? NormalForce::frictionless : NormalForce::coupled);
    Dynamics dynamics(m.built.system);
    for (int step = 0; step < 6; ++step) {
      ASSERT_NO_FATAL_FAILURE(expect_no_memory(m, dynamics, dt)) << step;
      take_step(m, dynamics, dt);
    }
  }
}

// All slips reverse between two steps, and later all links come to rest. So nearly all modes and directions change.
TEST(SparseFrictionFromTheLastSolution, EqualsTheSolutionWithoutOneWhereTheModesChange) {
  constexpr double dt = 1e-3;
  for (const std::uint64_t seed : seeds(10)) {
    SCOPED_TRACE(repeat_with(seed));
    Mechanism m = random_chain(seed, seed % 2 == 0 ? NormalForce::frictionless : NormalForce::coupled);
    Dynamics dynamics(m.built.system);
    for (const double factor : {1.0, -1.0, 0.0, 1.0}) {
      for (BodyState& body : m.built.state.bodies) body.v *= factor, body.w *= factor;
      ASSERT_NO_FATAL_FAILURE(expect_no_memory(m, dynamics, dt)) << factor;
      take_step(m, dynamics, dt);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, SparseFriction, testing::Values(0.0, 1e-3, 1.0 / 60));

/// A horizontal chain of `links` equal links, whose joints have thin dry pins.
Mechanism level_chain(int links, bool hinges) {
  Mechanism out;
  System& system = out.built.system;
  system.set_gravity({0, 0, -9.81});
  const Vector3d arm(0.05, 0, 0);
  BodyId last = system.add_fixed("wall", Pose{});
  for (int i = 0; i < links; ++i) {
    const std::string name = std::to_string(i);
    const BodyId link = system.add_body("link" + name, 0.1, Vector3d(1e-5, 9e-5, 9e-5),
                                        Pose{(2 * i + 1) * arm, Quaterniond::Identity()});
    const Vector3d at = i == 0 ? Vector3d(Vector3d::Zero()) : arm;
    const ConstraintId joint =
        system.add(hinges ? joints::hinge("hinge" + name, last, at, Vector3d::UnitY(), link, -arm, Vector3d::UnitY())
                          : joints::ball("ball" + name, last, at, link, -arm));
    const laws::JointFriction pin{.mu_static = 0.1, .mu_kinetic = 0.1, .pin_radius = 1e-3};
    add_law(system, joint, hinges ? laws::hinge_friction(pin) : laws::ball_friction(pin));
    last = link;
  }
  out.built.state = system.initial_state();
  return out;
}

/// Mean number of back-solves in a step of a level chain, after the first steps. Each iteration of the solution is one,
/// or two.
double back_solves_of_chain(int links, bool hinges) {
  constexpr double dt = 1.0 / 480;
  constexpr int first = 10, steps = 40;
  Mechanism m = level_chain(links, hinges);
  Dynamics dynamics(m.built.system);
  double sum = 0;
  for (int step = 0; step < first + steps; ++step) {
    evaluate(m, dt, {&dynamics});
    EXPECT_TRUE(dynamics.law_report().warning.empty()) << dynamics.law_report().warning;
    if (step >= first) sum += dynamics.law_report().back_solves;
    take_step(m, dynamics, dt);
  }
  return sum / steps;
}

class WorkOfSparseFriction : public testing::TestWithParam<bool> {};

TEST_P(WorkOfSparseFriction, IsFewIterationsAStep) {
  EXPECT_LE(back_solves_of_chain(100, GetParam()), 90);  // 77 with balls, 80 with hinges.
}

INSTANTIATE_TEST_SUITE_P(Hinges, WorkOfSparseFriction, testing::Bool());

}  // namespace
}  // namespace linchpin::test::sparse_friction_properties_test
