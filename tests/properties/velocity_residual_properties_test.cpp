// Random passive mechanisms with and without correction of drift. The test computes velocity residuals itself, from
// differences of the positions' residuals, and compares them with what the stepper reports (T15).
#include "random_system.h"

#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace linchpin::test::velocity_residual_properties_test {
namespace {

struct Program {
  Blueprint blueprint;
  StepOptions options;
  double dt = 0;
};

Program random_program(std::uint64_t seed) {
  Random random(seed);
  Program out;
  out.blueprint = random_moving_blueprint(random, 1, 1);
  const std::array drifts{Drift::exact, Drift::none, Drift::none, Drift::baumgarte};
  out.options.drift = drifts[static_cast<std::size_t>(random.integer(0, 3))];
  const std::array methods{Method::semi_implicit, Method::rk4, Method::rattle};
  out.options.method = methods[static_cast<std::size_t>(random.integer(0, out.options.drift == Drift::exact ? 2 : 1))];
  out.options.baumgarte_rate = 3;
  out.options.max_substeps = 1;
  out.options.max_energy_gain = std::numeric_limits<double>::infinity();
  out.dt = std::pow(10, random.uniform(-2.5, -1.2));
  return out;
}

/// Residuals of the positions of one constraint, with bodies moved by twists over a time.
class Rows {
 public:
  Rows(const System& system, ConstraintId id) : of_(system.constraint(id)) {}
  std::vector<double> at(const State& state, double time) const {
    std::vector<BodyState> bodies;
    for (const BodyId id : of_.bodies()) {
      bodies.push_back(state[id]);
      advance(bodies.back(), bodies.back().v, bodies.back().w, time);
    }
    return residual(bodies, state.t + time);
  }
  /// Σ ‖A_v‖ (‖v‖ + floor) + ‖A_ω‖ ‖ω‖ by row, with A from differences.
  std::vector<double> sizes(const State& state, double floor) const {
    std::vector<BodyState> bodies;
    for (const BodyId id : of_.bodies()) bodies.push_back(state[id]);
    std::vector<double> out(static_cast<std::size_t>(of_.function().rows()), 0.0);
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const BodyState here = bodies[k];
      for (const bool turns : {false, true}) {
        std::vector<double> squares(out.size(), 0.0);
        for (int axis = 0; axis < 3; ++axis) {
          const Vector3d unit = Vector3d::Unit(axis), none = Vector3d::Zero();
          std::array<std::vector<double>, 2> moved;
          for (const int side : {0, 1}) {
            bodies[k] = here;
            advance(bodies[k], turns ? none : unit, turns ? unit : none, side == 0 ? -step_ : step_);
            moved[static_cast<std::size_t>(side)] = residual(bodies, state.t);
          }
          for (std::size_t r = 0; r < out.size(); ++r)
            squares[r] += std::pow((moved[1][r] - moved[0][r]) / (2 * step_), 2);
        }
        bodies[k] = here;
        const double speed = turns ? here.w.norm() : here.v.norm() + floor;
        for (std::size_t r = 0; r < out.size(); ++r) out[r] += std::sqrt(squares[r]) * speed;
      }
    }
    return out;
  }
  static constexpr double step_ = 1e-6;

 private:
  std::vector<double> residual(const std::vector<BodyState>& bodies, double t) const {
    std::vector<double> out(static_cast<std::size_t>(of_.function().rows()));
    of_.function().residual(bodies, t, out);
    return out;
  }
  const Constraint& of_;
};

struct Outcome {
  double relative = 0;  // Largest residual of a row, relative to what its bodies could give to it.
  long named = 0;
  bool comparable = true;
};

Outcome outcome_of(const Program& program) {
  Built built = build(program.blueprint);
  Outcome out;
  Stepper stepper(built.system, built.state, program.options);
  const double dt = program.dt;
  const bool by_middles = program.options.method == Method::semi_implicit;
  for (double t = 0; t < 2; t += dt) {
    const State before = stepper.state();
    if (stepper.step(dt).rejected) break;
    const State& now = stepper.state();
    // A turn of a step must be small, if differences over the step are to be rates in its middle.
    for (const BodyId id : built.bodies) out.comparable = out.comparable && now[id].w.norm() * dt < 0.5;
    if (!out.comparable || !std::isfinite(energy(built.system, now))) break;
    for (const ConstraintId id : built.constraints) {
      const Rows rows(built.system, id);
      const std::vector<double> first = by_middles ? rows.at(before, 0) : rows.at(now, -Rows::step_),
                                last = by_middles ? rows.at(now, 0) : rows.at(now, Rows::step_),
                                sizes = rows.sizes(now, dt * built.system.gravity().norm());
      for (std::size_t r = 0; r < first.size(); ++r)
        out.relative = std::max(out.relative,
                                std::abs(last[r] - first[r]) / (by_middles ? dt : 2 * Rows::step_) / (sizes[r] + 1e-6));
    }
  }
  out.named = stepper.velocity_residual_count();
  return out;
}

void names_every_residual(std::uint64_t first, int count) {
  int large = 0, named = 0, compared = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    SCOPED_TRACE(repeat_with(seed));
    const Program program = random_program(seed);
    const Outcome found = outcome_of(program);
    if (program.options.drift == Drift::exact) {
      EXPECT_EQ(found.named, 0);
      continue;
    }
    if (!found.comparable) continue;
    ++compared;
    large += found.relative > 0.15;
    named += found.named > 0;
    if (found.relative > 0.15) {
      EXPECT_GT(found.named, 0) << "a residual of " << found.relative;
    }
    // The mean over a step that turns by up to half a radian is a few hundredths off its rate in the middle.
    if (found.named > 0) {
      EXPECT_GT(found.relative, 0.05) << "named without a residual";
    }
  }
  std::printf("%d of %d programs without correction have a residual, %d are named\n", large, compared, named);
  EXPECT_GT(large, 0);
}

TEST(VelocityResidual, IsNamedInRandomMechanisms) { names_every_residual(1, 300); }
TEST(SlowVelocityResidual, IsNamedInRandomMechanisms) { names_every_residual(1000, 10000); }

}  // namespace
}  // namespace linchpin::test::velocity_residual_properties_test
