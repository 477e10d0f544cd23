// Sensitivities of random systems agree with differences of whole runs, and the adjoint method with the forward method:
// with loops, redundant rows, velocity constraints, and laws that slide, stick and change between both.
#include "motion.h"
#include "random_system.h"

#include <linchpin/laws.h>
#include <linchpin/sensitivity.h>

#include <algorithm>
#include <cmath>

namespace linchpin::test::sensitivity_properties_test {
namespace {

/// What a random system has beside its blueprint.
struct Extras {
  int copies = 1;
  bool dry = false, velocity_row = false;
};

ParametricSystem family(const Blueprint& plan, const Extras& extras) {
  return {{"mass", "gravity", "friction"}, {plan.bodies[0].mass, 1, 0.2}, [plan, extras](std::span<const double> p) {
            Blueprint changed = plan;
            changed.bodies[0].mass = p[0];
            changed.gravity *= p[1];
            for (Blueprint::Joint& joint : changed.joints) joint.friction = false;
            Built built = build(changed, {}, {}, {}, extras.copies);
            if (extras.velocity_row)
              built.system.add(nonholonomic("drive", {built.bodies[0]}, [](const auto& s) {
                return s[0].velocity().x + 0.5 * s[0].position().y - 0.2 * sin(3.0 * s.t);
              }));
            for (std::size_t i = 0; i < plan.joints.size(); ++i) {
              if (!plan.joints[i].friction) continue;
              const ConstraintId on = built.constraints[i];
              if (extras.dry && plan.joints[i].kind == Blueprint::Kind::hinge)
                add_law(built.system, on,
                        laws::hinge_friction({.mu_static = p[2], .mu_kinetic = p[2], .pin_radius = 0.1}));
              else if (extras.dry && plan.joints[i].kind == Blueprint::Kind::on_plane)
                add_law(built.system, on, laws::coulomb(p[2]));
              else
                add_law(built.system, on, laws::regularized_coulomb(p[2], 0.1) + laws::viscous(0.3));
            }
            return std::move(built.system);
          }};
}

/// Poses and velocities after a number of steps, as changes from a state in block order.
std::vector<double> after(const ParametricSystem& family, std::vector<double> values, int steps, double dt,
                          const IslandLayout& layout, const State& from) {
  System system = family.make(values);
  Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
  for (int i = 0; i < steps; ++i) EXPECT_FALSE(stepper.step(dt).rejected);
  std::vector<double> out;
  for (const BodyId id : layout.bodies) {
    const BodyState &a = from[id], &b = stepper.state()[id];
    const Vector3d turn = turn_between(a.q, b.q);
    const bool rigid = system.kind(id) == BodyKind::rigid;
    for (int k = 0; k < 3; ++k) out.insert(out.end(), {b.p[k] - a.p[k], b.v[k] - a.v[k]});
    for (int k = 0; rigid && k < 3; ++k) out.insert(out.end(), {turn[k], b.w[k] - a.w[k]});
  }
  return out;
}

/// Differences of order 4 of runs to a number of steps, and how much they change with their step.
struct Differences {
  std::vector<double> value;
  double error = 0, size = 1e-2;
};
Differences differences(const ParametricSystem& of, std::size_t parameter, int steps, double dt,
                        const SensitivityStepper& run) {
  Differences out;
  std::vector<double> coarse;
  for (const double relative : {1e-3, 3e-4}) {
    const double h = relative * of.values[parameter];
    coarse.swap(out.value);
    out.value.assign(2 * static_cast<std::size_t>(run.layout().n()), 0);
    for (const auto& [offset, weight] :
         {std::pair{-2.0, 1.0 / 12}, {-1.0, -2.0 / 3}, {1.0, 2.0 / 3}, {2.0, -1.0 / 12}}) {
      std::vector<double> values = of.values;
      values[parameter] += offset * h;
      const std::vector<double> moved = after(of, values, steps, dt, run.layout(), run.state());
      for (std::size_t i = 0; i < moved.size(); ++i) out.value[i] += weight / h * moved[i];
    }
  }
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    out.error = std::max(out.error, std::fabs(out.value[i] - coarse[i]));
    out.size = std::max(out.size, std::fabs(out.value[i]));
  }
  return out;
}

bool contradicts(const SensitivityStepper& run, const ParametricSystem& of) {
  const System system = of.make(of.values);
  Dynamics dynamics(system);
  return dynamics.evaluate(run.state()) == Status::contradictory;
}

TEST(Sensitivities, AgreeWithDifferencesOfRuns) {
  constexpr int steps = 40;
  constexpr double dt = 2e-4;  // Sensitivities and runs are both of order 4, with errors that differ.
  int compared = 0, wanted = 0;
  for (const auto seed : seeds(12)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Blueprint plan = random_blueprint(random, {.friction = true, .most = 4});
    const Extras extras{
        .copies = random.integer(1, 2), .dry = random.coin(), .velocity_row = random.integer(0, 3) == 0};
    const ParametricSystem of = family(plan, extras);
    SensitivityStepper run(of);
    if (contradicts(run, of)) continue;  // The velocity row drives a body that joints hold.
    for (int i = 0; i < steps; ++i) ASSERT_FALSE(run.step(dt).rejected);
    const std::size_t p = of.values.size(), n = static_cast<std::size_t>(run.layout().n());
    for (std::size_t j = 0; j < p; ++j) {
      const Differences expected = differences(of, j, steps, dt, run);
      ++wanted;
      if (expected.error > 3e-8 * expected.size) continue;  // Runs are not smooth over these differences.
      ++compared;
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(run.displacement()[i * p + j], expected.value[2 * i], 1e-7 * expected.size)
            << of.names[j] << ", column " << i;
        EXPECT_NEAR(run.velocity()[i * p + j], expected.value[2 * i + 1], 1e-7 * expected.size)
            << of.names[j] << ", column " << i;
      }
    }
  }
  EXPECT_GT(compared, 0.9 * wanted);
}

TEST(Sensitivities, AdjointIsTheTransposedOfForward) {
  constexpr int steps = 5;
  for (const auto seed : seeds(8)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Blueprint plan = random_blueprint(random, {.friction = true, .most = 3});
    const ParametricSystem of = family(plan, {.copies = random.integer(1, 2), .dry = random.coin()});
    SensitivityStepper run(of, {.keep_jacobians = true});
    for (int i = 0; i < steps; ++i) ASSERT_FALSE(run.step(1e-3).rejected);
    const std::size_t p = of.values.size(), n = static_cast<std::size_t>(run.layout().n());
    StateWeights weights{steps, std::vector<double>(n), std::vector<double>(n)};
    for (std::size_t i = 0; i < n; ++i)
      weights.displacement[i] = random.uniform(-1, 1), weights.velocity[i] = random.uniform(-1, 1);
    const std::vector<double> gradient = run.gradient({&weights, 1});
    for (std::size_t j = 0; j < p; ++j) {
      double sum = 0, size = 1e-6;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = weights.displacement[i] * run.displacement()[i * p + j],
                     v = weights.velocity[i] * run.velocity()[i * p + j];
        sum += x + v;
        size += std::fabs(x) + std::fabs(v);
      }
      EXPECT_NEAR(gradient[j], sum, 1e-12 * size) << of.names[j];
    }
  }
}

}  // namespace
}  // namespace linchpin::test::sensitivity_properties_test
