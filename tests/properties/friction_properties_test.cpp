// What friction must never do, over random systems under random laws: make a NaN, give energy, switch without end, or
// exceed its bound.
#include "motion.h"
#include "random_system.h"

#include <linchpin/report.h>

#include <algorithm>
#include <cmath>

namespace linchpin::test::friction_properties_test {
namespace {

/// A law that a joint of this kind can take, dissipative by declaration. One in four is explicit.
Law random_law(Random& random, bool stiff) {
  const double mu = random.uniform(0, 0.8), less = mu * random.uniform(0.3, 1);
  const laws::JointFriction pin{.mu_static = mu,
                                .mu_kinetic = less,
                                .pin_radius = random.uniform(0.01, 0.2),
                                .friction_radius = random.uniform(0, 0.1),
                                .bending_arm = random.uniform(0.2, 1),
                                .preload = random.uniform(0, 0.5)};
  Law law;
  const auto decades = [&](double low, double high) { return std::pow(10, random.uniform(low, high)); };
  switch (random.integer(0, stiff ? 14 : 8)) {
    case 0:
      law = laws::coulomb(mu);
      break;
    case 1:
      law = laws::coulomb(mu, less);
      break;
    case 2:
      law = laws::stribeck({.mu_static = mu, .mu_kinetic = less, .speed = random.uniform(0.01, 1), .viscous = 0.1});
      break;
    case 3:
      law = laws::hinge_friction(pin);
      break;
    case 4:
      law = laws::ball_friction(pin);
      break;
    case 5:
      law = laws::slider_friction(pin);
      break;
    case 6:
      law = laws::cylinder_friction(pin);
      break;
    case 7:
      law = laws::regularized_coulomb(mu, 0.1) + laws::viscous_torque(0.2);
      break;
    case 9:
      law = laws::viscous(decades(-1, 6)) + laws::viscous_torque(decades(-2, 5));
      break;
    case 10:
      law = laws::regularized_coulomb(mu, decades(-6, -1));
      break;
    case 11:
      law = laws::regularized_stribeck({.mu_static = mu, .mu_kinetic = less, .speed = random.uniform(0.1, 1)},
                                       decades(-6, -2));
      break;
    case 12:
      return laws::lugre({.stiffness = decades(2, 7),
                          .damping = decades(0, 3),
                          .mu_static = mu + 0.01,
                          .mu_kinetic = less + 0.01,
                          .speed = random.uniform(0.01, 1)});
    case 13:
      law = laws::drag(decades(-1, 5));
      break;
    case 14:  // what a user writes first
      return Law([=](const ConstraintReaction& n) { return Vector3d(-mu * n.magnitude() * n.slip_direction()); })
          .with_name("sign");
    default:
      law = laws::rolling_resistance(0.05) + laws::drag(0.1);
  }
  // Weak enough that the coupled normal force has one answer nearly always; where it has none the ideal one is taken.
  return random.integer(0, 3) == 0 ? law.with_normal_force(NormalForce::frictionless) : law;
}

struct Rubbing {
  Built built;
  int laws = 0;
  Rubbing(const Blueprint& plan, Random& random, bool stiff = false) : built(build(plan)) {
    for (const ConstraintId id : built.constraints)
      if (random.coin()) {
        add_law(built.system, id, random_law(random, stiff));
        ++laws;
      }
  }
};

bool finite(const State& state) {
  return std::all_of(state.bodies.begin(), state.bodies.end(), [](const BodyState& s) {
    return s.p.allFinite() && s.v.allFinite() && s.w.allFinite() && s.q.coeffs().allFinite();
  });
}

struct Tally {
  int steps = 0, rejected = 0, switches = 0, sticking = 0;
};

/// Runs a system and checks every step of it.
void endure(Rubbing& rubbing, StepOptions options, double dt, int steps, Tally& tally) {
  System& system = rubbing.built.system;
  Stepper stepper(system, rubbing.built.state, options);
  long parts = 0;
  for (int k = 0; k < steps; ++k) {
    const double before = kinetic_energy(system, stepper.state());
    const StepReport& report = stepper.step(dt);
    ++tally.steps;
    ASSERT_NE(report.status, Status::invalid) << report.reason;
    ASSERT_TRUE(finite(stepper.state()));
    if (report.rejected) {
      ++tally.rejected;
      return;
    }
    // Of the laws here only one jumps; stiff ones that are not met are not told so.
    if (report.warning.find("jumps where") != std::string::npos) {
      ASSERT_NE(report.warning.find("law 'sign' on"), std::string::npos) << report.warning;
    }
    parts += std::max(1, report.substeps);
    tally.switches += report.mode_switches;
    tally.sticking += report.sticking;
    // Near Painlevé's case forces know no bounds, and a smooth law, explicit in a step, overshoots: finite is all there
    // is.
    if (stepper.dynamics().law_report().gain > 0.8) return;
    const double size = 1 + before + kinetic_energy(system, stepper.state());
    // The law that jumps is met nowhere near its jump, which is named. Contacts that read the normal force it calls up
    // are then met to its residual only.
    const bool met = report.warning.find("jumps where") == std::string::npos;
    for (const FrictionElement& c : stepper.dynamics().friction_elements()) {
      ASSERT_TRUE(std::isfinite(c.friction));
      if (!met) continue;
      ASSERT_LE(c.friction, std::max(c.bound, c.kinetic) * (1 + 1e-6) + 1e-6 * size);
    }
    for (const LawWork& law : stepper.law_works()) {
      if (law.name == "lugre") continue;           // bristles give back
      ASSERT_LE(law.switches, parts) << law.name;  // at most once in each part of a step
      if (options.method == Method::rk4) {
        // What sticks moves at the stages, and is at rest at the end, to the order of the method: (ω dt)⁵ of the
        // forces' work, with ω up to some ten per second. In a step in which a contact with several free directions
        // stops, its slip turns by up to a right angle in the last stage, whatever the step.
        ASSERT_LE(law.last, scaled((report.mode_switches > 0 ? 1e-4 : 1e-6) * size));
        continue;
      }
      // A contact that stops within a step may have been pushed on by friction while it still moved, by T11's measure
      // of work: by no more than ½ dt μN times the speed that the step itself makes.
      // A damper answers to the end of a step, so it takes energy at the end slip. Where other forces turn the slip
      // round within the step, it is booked over the mean of both, and half of what it does at the start may be a gain.
      const double turned = law.mode == LawWork::Mode::smooth ? 0.5 * dt * std::max(0.0, law.power) : 0;
      if (turned > 0 && report.substeps > 1) continue;  // the power is of the last part only
      ASSERT_LE(law.last, turned + 0.05 * size)
          << law.name << " on " << law.constraint << ", step " << k << ", residual "
          << stepper.dynamics().law_report().residual << " " << stepper.dynamics().law_report().warning;
    }
    if (options.method == Method::semi_implicit) {
      ASSERT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-9 * size * (k + 1)));
    }
  }
}

class Friction : public testing::Test {};

TEST_F(Friction, OfRandomSystemsIsFiniteAndTakesEnergyOnly) {
  Tally located, stepped;
  for (const auto seed : seeds(1000)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Blueprint plan = random_blueprint(random, {.most = 6});
    Rubbing a(plan, random), b(plan, random, true);
    endure(a, rk4(), 1.0 / 240, 6, located);
    endure(b, semi_implicit(), 1.0 / 240, 12, stepped);
    if (HasFatalFailure()) return;
  }
  // Neither always nor never: the test would say nothing.
  EXPECT_GT(located.switches, 20);
  EXPECT_LT(located.switches, located.steps);
  EXPECT_GT(stepped.sticking, 100);
  EXPECT_LT(located.rejected + stepped.rejected, 8);
  RecordProperty("switches", located.switches);
}

TEST_F(Friction, OfLargerSystems) {
  Tally tally;
  for (const auto seed : seeds(100)) {  // one in twenty of those above
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Blueprint plan = random_blueprint(random, {.loops = 0, .fewest = 20, .most = 50});
    Rubbing rubbing(plan, random, true);
    endure(rubbing, semi_implicit(), 1.0 / 240, 4, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(tally.rejected, 0);
}

// What T12 means by no gain of energy: no second's mean is above the energy at the start by more than the integrator's
// own span, which is that of the same system without laws. Friction must not add to it.
void watch_energy(std::uint64_t seed, int seconds) {
  SCOPED_TRACE(repeat_with(seed));
  Random random(seed + 500000);
  const Blueprint plan = random_blueprint(random, {.most = 8});
  Rubbing rubbing(plan, random);
  Built smooth = build(plan);
  double start = 0, span = 0;
  for (const bool rubs : {false, true}) {
    System& system = rubs ? rubbing.built.system : smooth.system;
    Stepper stepper(system, rubs ? rubbing.built.state : smooth.state, semi_implicit());
    const auto energy = [&] {
      return kinetic_energy(system, stepper.state()) + potential_energy(system, stepper.state());
    };
    start = energy();
    double least = start, most = start;
    for (int second = 0; second < seconds; ++second) {
      double sum = 0;
      for (int k = 0; k < 240; ++k) {
        if (stepper.step(1.0 / 240).rejected) return;  // a dead point: counted by the tests above
        const double now = energy();
        sum += now;
        least = std::min(least, now);
        most = std::max(most, now);
      }
      if (rubs) {
        ASSERT_LE(sum / 240, start + span + scaled(1e-9) * (1 + std::fabs(start))) << "second " << second;
      }
    }
    span = most - least;
  }
}

TEST_F(Friction, AddsNoEnergyOverSeconds) {
  for (const auto seed : seeds(40)) {
    watch_energy(seed, 4);
    if (HasFatalFailure()) return;
  }
}

TEST(SlowFriction, AddsNoEnergyOverTwentySeconds) {
  for (const auto seed : seeds(25)) {
    watch_energy(seed + 1000, 20);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Ten thousand systems, of which one in twenty has twenty to fifty bodies.
TEST(SlowFriction, TenThousandRandomSystems) {
  Tally located, stepped, larger;
  for (const auto seed : seeds(500)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed + 100000);
    const Blueprint plan = random_blueprint(random, {.loops = 0, .fewest = 20, .most = 50});
    Rubbing rubbing(plan, random, true);
    endure(rubbing, semi_implicit(), 1.0 / 240, 8, larger);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const auto seed : seeds(4750)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Blueprint plan = random_blueprint(random, {.most = 6});
    Rubbing a(plan, random), b(plan, random, true);
    endure(a, rk4(), 1.0 / 240, 8, located);
    endure(b, semi_implicit(), 1.0 / 240, 24, stepped);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_LT(located.rejected + stepped.rejected + larger.rejected, 160);
  EXPECT_LT(located.switches, located.steps);
}

}  // namespace
}  // namespace linchpin::test::friction_properties_test
