// Velocities at the end of a step that do not meet the rows, and what a step does about them (T15).
#include <linchpin/constraint.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace linchpin::test::velocity_residual_test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Bars on ball joints, released from the horizontal.
struct Chain {
  System system;
  explicit Chain(int bars = 3) {
    system.set_gravity({0, -9.81, 0});
    BodyId last = ground;
    for (int i = 0; i < bars; ++i) {
      const BodyId bar = system.add_body("bar" + std::to_string(i), 1, Vector3d(0.01, 0.08, 0.09),
                                         {Vector3d(i + 0.5, 0, 0), Quaterniond::Identity()});
      system.add(joints::ball("joint" + std::to_string(i), last, i == 0 ? Vector3d::Zero() : Vector3d(0.5, 0, 0), bar,
                              Vector3d(-0.5, 0, 0)));
      last = bar;
    }
  }
};

/// A body that spins about a pivot beside its centre.
struct Spin {
  System system;
  explicit Spin(double rate) {
    const BodyId body =
        system.add_body("body", 1, Vector3d(0.1, 0.1, 0.1), {Vector3d(1, 0, 0), Quaterniond::Identity()},
                        Vector3d(0, rate, 0), Vector3d(0, 0, rate));
    system.add(joints::ball("pivot", ground, Vector3d::Zero(), body, Vector3d(-1, 0, 0)));
  }
};

/// A sled that turns on its skate.
struct Sled {
  System system;
  Sled() {
    const BodyId sled = system.add_body("sled", 1, Vector3d(0.1, 0.1, 0.1), {}, Vector3d(1, 0, 0), Vector3d(0, 0, 3));
    system.add(nonholonomic("skate", {sled}, [](const auto& s) { return dot(s[0].axis(0, 1, 0), s[0].velocity()); }));
  }
};

struct Outcome {
  long named = 0, divided = 0;
  std::string warning;
};

Outcome run(System& system, const StepOptions& options, double dt, double seconds) {
  Stepper stepper(system, system.initial_state(), options);
  Outcome out;
  for (double t = 0; t < seconds; t += dt) {
    const StepReport& report = stepper.step(dt);
    if (report.rejected) break;
    EXPECT_EQ(report.leaves_velocity_residual, report.warning.find("velocities do not satisfy") != std::string::npos);
    if (out.warning.empty() && report.leaves_velocity_residual) out.warning = report.warning;
  }
  out.named = stepper.velocity_residual_count();
  out.divided = stepper.divided_steps();
  EXPECT_EQ(out.named > 0, !stepper.velocity_residuals().empty());
  return out;
}

TEST(VelocityResidual, OfStepsThatEndOnTheConstraintsIsNone) {
  for (const Method method : all_methods)
    for (const double dt : {1e-3, 1e-2, 5e-2}) {
      SCOPED_TRACE(std::string(to_string(method)) + " " + std::to_string(dt));
      const StepOptions options{.method = method, .max_energy_gain = infinite};
      Chain chain;
      Spin spin(20);
      Sled sled;
      for (System* const system : {&chain.system, &spin.system, &sled.system}) {
        const Outcome found = run(*system, options, dt, 2);
        EXPECT_EQ(found.named, 0) << found.warning;
        EXPECT_EQ(found.divided, 0);
      }
    }
}

TEST(VelocityResidual, OfStepsWithoutCorrectionOfDriftIsNamed) {
  for (const Method method : {Method::semi_implicit, Method::rk4})
    for (const Drift drift : {Drift::none, Drift::baumgarte}) {
      SCOPED_TRACE(std::string(to_string(method)) + (drift == Drift::none ? " none" : " baumgarte"));
      Chain chain;
      const StepOptions options{
          .method = method, .drift = drift, .baumgarte_rate = 1, .max_substeps = 1, .max_energy_gain = infinite};
      const Outcome found = run(chain.system, options, method == Method::rk4 ? 0.1 : 0.05, 5);
      EXPECT_GT(found.named, 0);
      EXPECT_NE(found.warning.find("velocities do not satisfy 'joint"), std::string::npos) << found.warning;
    }
}

TEST(VelocityResidual, OfASkateIsNamed) {
  Sled sled;
  const StepOptions options{.drift = Drift::none, .max_substeps = 1, .max_energy_gain = infinite};
  const Outcome found = run(sled.system, options, 0.3, 6);
  EXPECT_GT(found.named, 0);
  EXPECT_NE(found.warning.find("'skate'"), std::string::npos) << found.warning;
}

// A tolerance is correction enough.
TEST(VelocityResidual, OfStepsByToleranceIsNone) {
  for (const Method method : {Method::adaptive, Method::adaptive8}) {
    SCOPED_TRACE(to_string(method));
    Chain chain;
    EXPECT_EQ(run(chain.system, {.method = method, .drift = Drift::none}, 0.05, 5).named, 0);
  }
}

// Semi-implicit velocities are those of the middle of the step. As they are, they miss the rows at its end by half the
// turn of a step, 0.15 of the motion.
TEST(VelocityResidual, IsThatAtTheTimeOfThePoses) {
  Spin spin(30);
  EXPECT_EQ(run(spin.system, {.drift = Drift::none}, 0.01, 0.025).named, 0);
}

TEST(VelocityResidual, IsOneEventWhileItStays) {
  Chain chain(1);
  const StepOptions options{.drift = Drift::none, .max_substeps = 1, .max_energy_gain = infinite};
  const Outcome found = run(chain.system, options, 0.05, 20);
  EXPECT_GT(found.named, 0);
  EXPECT_LT(found.named, 200);  // of 400 steps
}

TEST(VelocityResidual, ThatGrowsDividesTheStep) {
  const auto gap_of = [](double limit) {
    Chain chain(1);
    Stepper stepper(chain.system, chain.system.initial_state(),
                    {.drift = Drift::none, .max_energy_gain = infinite, .max_velocity_residual = limit});
    for (int i = 0; i < 60; ++i) EXPECT_FALSE(stepper.step(0.05).rejected);
    double gap = 0;
    for (const Reaction& reaction : stepper.reactions()) gap = std::max(gap, reaction.gap);
    EXPECT_EQ(stepper.divided_steps() > 0, std::isfinite(limit));
    EXPECT_EQ(stepper.velocity_residual_count() > 0, std::isfinite(limit));
    return gap;
  };
  EXPECT_LT(4 * gap_of(0.01), gap_of(infinite));
}

// The rows of hinges across the plane repeat each other.
TEST(VelocityResidual, OfRedundantRowsIsNone) {
  for (const Method method : {Method::rk4, Method::adaptive, Method::rattle}) {
    SCOPED_TRACE(to_string(method));
    System system;
    const Vector3d z = Vector3d::UnitZ(), end(0.5, 0, 0), inertia(0.01, 0.08, 0.08);
    const Quaterniond up(Eigen::AngleAxisd(0.5 * std::acos(-1.0), z));
    const BodyId left = system.add_body("left", 1, inertia, {{0, 0.5, 0}, up}, {-0.5, 0, 0}, z),
                 right = system.add_body("right", 1, inertia, {{1, 0.5, 0}, up}, {-0.5, 0, 0}, z),
                 top = system.add_body("top", 1, inertia, {{0.5, 1, 0}, Quaterniond::Identity()}, {-1, 0, 0});
    system.add(joints::hinge("a", ground, {0, 0, 0}, z, left, -end, z));
    system.add(joints::hinge("b", left, end, z, top, -end, z));
    system.add(joints::hinge("c", ground, {1, 0, 0}, z, right, -end, z));
    system.add(joints::hinge("d", right, end, z, top, end, z));
    EXPECT_EQ(run(system, {.method = method}, 0.01, 5).named, 0);
  }
}

// Their accelerations agree, so that nothing else shows it.
TEST(VelocityResidual, OfRowsThatNoVelocityMeetsIsNamed) {
  System system;
  const BodyId cart = system.add_particle("cart", 2, {0, 0, 0}, {1, 0, 0});
  system.add(nonholonomic("slow", {cart}, [](const auto& s) { return s[0].velocity().x - 1.0; }));
  system.add(nonholonomic("fast", {cart}, [](const auto& s) { return s[0].velocity().x - 2.0; }));
  for (const Method method : {Method::rk4, Method::adaptive, Method::rattle}) {
    SCOPED_TRACE(to_string(method));
    Stepper stepper(system, system.initial_state(), {.method = method});
    for (int i = 0; i < 10; ++i) {
      const StepReport& report = stepper.step(1e-3);
      ASSERT_FALSE(report.rejected) << report.reason;
      EXPECT_EQ(report.divisions, 1);
    }
    EXPECT_EQ(stepper.velocity_residual_count(), 1);
  }
}

}  // namespace
}  // namespace linchpin::test::velocity_residual_test
