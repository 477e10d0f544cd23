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

INSTANTIATE_TEST_SUITE_P(Steps, SparseFriction, testing::Values(0.0, 1e-3, 1.0 / 60));

}  // namespace
}  // namespace linchpin::test::sparse_friction_properties_test
