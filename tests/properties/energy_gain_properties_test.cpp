// Random passive mechanisms at steps that are often too long for their motion. A mechanism without a source must not
// gain energy. The test computes the energy itself and compares it with what the stepper reports (T15).
#include "random_system.h"

#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace linchpin::test::energy_gain_properties_test {
namespace {

struct Program {
  Blueprint blueprint;
  StepOptions options;
  double dt = 0;
};

Program random_program(std::uint64_t seed) {
  Random random(seed);
  Program out;
  out.blueprint = random_moving_blueprint(random, 1.5, 2);
  const std::array methods{Method::semi_implicit, Method::semi_implicit, Method::rk4, Method::rattle};
  out.options.method = methods[static_cast<std::size_t>(random.integer(0, 3))];
  // Without substeps, nothing but the name of the gain is left.
  out.options.max_substeps = random.coin() ? 1 : 64;
  out.dt = std::pow(10, random.uniform(-3, -1.3));
  return out;
}

struct Outcome {
  double growth = 0;    // Largest growth of the energy after a time at which it was less [J].
  double motion = 0;    // Largest kinetic energy without that growth [J].
  double relative = 0;  // Largest growth relative to the largest such energy until then.
  double floor = 0;     // Energy that gravity could give from rest in one step [J].
  long named = 0, divided = 0;
  bool ended = true;
};

Outcome outcome_of(const Program& program, double dt, double max_energy_gain) {
  Built built = build(program.blueprint);
  Outcome out;
  StepOptions options = program.options;
  options.max_energy_gain = max_energy_gain;
  Stepper stepper(built.system, built.state, options);
  double least = energy(built.system, stepper.state());
  for (const BodyId id : built.bodies)
    out.floor += 0.5 * built.system.mass(id) * (dt * built.system.gravity()).squaredNorm();
  for (double t = 0; t < 1; t += dt) {
    if (stepper.step(dt).rejected) {
      out.ended = false;
      break;
    }
    const double now = energy(built.system, stepper.state());
    least = std::min(least, now);
    out.growth = std::max(out.growth, now - least);
    out.motion = std::max(out.motion, kinetic_energy(built.system, stepper.state()) - (now - least));
    out.relative = std::max(out.relative, (now - least) / (out.motion + out.floor));
  }
  out.named = stepper.energy_gain_count();
  out.divided = stepper.divided_steps();
  return out;
}

void names_every_growth(std::uint64_t first, int count) {
  int grown = 0, named = 0, divided = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    SCOPED_TRACE(repeat_with(seed));
    const Program program = random_program(seed);
    const Outcome now = outcome_of(program, program.dt, 0.1);
    named += now.named > 0;
    divided += now.divided > 0;
    // Semi-implicit energies are those of the middle of steps, so that they oscillate with the power of gravity.
    if (now.relative > 0.25 && now.ended) {
      const Outcome fine = outcome_of(program, program.dt / 10, std::numeric_limits<double>::infinity());
      if (fine.growth > 0.1 * now.growth) continue;  // The energy that the test computes grows at any step.
      ++grown;
      EXPECT_GT(now.named, 0) << "gained " << now.growth << " J";
    }
    if (now.named > 0) {
      EXPECT_GT(now.relative, 0.02) << "named without a gain";
    }
  }
  std::printf("%d of %d programs gain energy, %d are named, %d are divided\n", grown, count, named, divided);
}

TEST(EnergyGain, IsNamedInRandomPassiveMechanisms) { names_every_growth(1, 300); }
TEST(SlowEnergyGain, IsNamedInTenThousandRandomPassiveMechanisms) { names_every_growth(1000, 10000); }

TEST(SlowEnergyGain, IsRareWhereStepsAreDivided) {
  int before = 0, after = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Program program = random_program(seed);
    program.options.max_substeps = 64;
    const Outcome unwatched = outcome_of(program, program.dt, std::numeric_limits<double>::infinity());
    const Outcome watched = outcome_of(program, program.dt, 0.1);
    before += unwatched.relative > 0.25;
    after += watched.relative > 0.25;
  }
  std::printf("%d programs gain energy without division, %d with it\n", before, after);
  EXPECT_LE(10 * after, before);
}

}  // namespace
}  // namespace linchpin::test::energy_gain_properties_test
