// A rigid body on rough feet, more of them than it takes: normals that redundancy leaves undetermined, and more
// directions of friction than the body has to slide in (T9, T10). How the feet share is open; whether they hold all
// together, and how the body moves, is not.
#include "motion.h"
#include "tolerances.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace linchpin::test {
namespace {

StepOptions with(Method method) { return {.method = method}; }

/// 2 kg on feet 0.1 m below its centre of mass, on a slope of 20 degrees that falls along x: tan 20° = 0.36397.
constexpr double g = 9.81, pi = 3.14159265358979324;

struct Slope {
  static constexpr double angle = 20 * pi / 180;
  System system;
  BodyId block;

  Slope(int feet, double mu, Reads reads, double speed = 0) {
    system.set_gravity(g * Vector3d(std::sin(angle), 0, -std::cos(angle)));
    block = system.add_body("block", 2, Vector3d(0.1, 0.2, 0.3), Pose{{0, 0, 0.1}}, {speed, 0, 0});
    std::vector<Vector3d> points = {{0.5, 0.3, -0.1},  {-0.5, 0.3, -0.1}, {-0.5, -0.3, -0.1},
                                    {0.5, -0.3, -0.1}, {0, 0.3, -0.1},    {0.1, -0.3, -0.1}};
    if (feet == 3) points = {{0.5, 0.3, -0.1}, {-0.5, 0, -0.1}, {0.5, -0.3, -0.1}};
    for (int i = 0; i < feet; ++i)
      add_law(system,
              system.add(point_on_plane("foot" + std::to_string(i), world, Vector3d::Zero(), Vector3d::UnitZ(), block,
                                        points[static_cast<std::size_t>(i)])),
              coulomb(mu).reading(reads));
  }
};

TEST(Feet, HoldABlockOnASlopeUpToTheTangentHoweverMany) {
  for (const int feet : {3, 4, 5, 6})
    for (const Reads reads : {Reads::actual, Reads::ideal})
      for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
        for (const double mu : {0.4, 0.365, 0.36397024}) {  // the last by a part in 10⁸
          SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(mu) +
                       (reads == Reads::actual ? ", actual" : ", ideal"));
          Slope s(feet, mu, reads);
          Stepper stepper(s.system, s.system.initial_state(), with(method));
          for (int k = 0; k < 24; ++k) {
            const StepReport& report = stepper.step(1.0 / 240);
            ASSERT_FALSE(report.rejected) << report.reason;
            ASSERT_EQ(report.warning.find("actual thrust"), std::string::npos) << report.warning;
            ASSERT_EQ(report.mode_switches, 0);
            ASSERT_EQ(report.sticking, feet);
          }
          const BodyState& end = stepper.state()[s.block];
          EXPECT_LE(end.v.norm() + end.w.norm(), scaled(1e-13));
          EXPECT_LE(end.p.head<2>().norm(), scaled(1e-14));
          // A distribution that is one: each within its bound, all together what the slope pulls with.
          Vector3d sum = Vector3d::Zero();
          double pressing = 0;
          for (const Contact& c : stepper.dynamics().contacts()) {
            EXPECT_TRUE(c.sticks);
            EXPECT_LE(c.friction, c.bound * (1 + 1e-9));
            sum -= c.effort.head<3>();  // the world is first
            pressing += c.bound / mu;
          }
          EXPECT_NEAR(sum.x(), -2 * g * std::sin(Slope::angle), scaled(1e-10));
          EXPECT_NEAR(sum.y(), 0, scaled(1e-10));
          EXPECT_NEAR(pressing, 2 * g * std::cos(Slope::angle), scaled(1e-9));
        }
}

TEST(Feet, ShareAlikeWhereNothingSaysOtherwise) {
  // Far from their bounds all feet of a rectangle hold the same: the efforts of least norm.
  for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive}) {
    Slope s(4, 0.8, Reads::actual);
    Stepper stepper(s.system, s.system.initial_state(), with(method));
    ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
    for (const Contact& c : stepper.dynamics().contacts())
      EXPECT_NEAR(c.friction, 0.5 * g * std::sin(Slope::angle), scaled(1e-6));
  }
}

TEST(Feet, LetABlockGoBelowTheTangentAndSlideAsOneBlockWould) {
  for (const int feet : {3, 4, 5, 6})
    for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
      for (const double speed : {0.0, 0.3}) {
        SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(speed) + " m/s");
        Slope s(feet, 0.363, Reads::actual, speed);
        Stepper stepper(s.system, s.system.initial_state(), with(method));
        for (int k = 0; k < 6; ++k) {
          const StepReport& report = stepper.step(1.0 / 240);
          ASSERT_FALSE(report.rejected) << report.reason;
          ASSERT_EQ(report.warning.find("actual thrust"), std::string::npos) << report.warning;
        }
        const BodyState& end = stepper.state()[s.block];
        const double a = g * (std::sin(Slope::angle) - 0.363 * std::cos(Slope::angle));
        EXPECT_NEAR(end.v.x(), speed + a * 6 / 240, scaled(1e-9));
        EXPECT_LE(end.w.norm() + std::fabs(end.v.y()), scaled(1e-9));
      }
}

TEST(Feet, OfAReleasedBlockStopTogetherAndStay) {
  // 0.3 m/s against μ = 0.5: stops after v/(g (μ cos − sin)), which events know to 10⁻¹⁰ s.
  const double stops = 0.3 / (g * (0.5 * std::cos(Slope::angle) - std::sin(Slope::angle)));
  for (const int feet : {3, 4, 6})
    for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive}) {
      SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method));
      Slope s(feet, 0.5, Reads::actual, 0.3);
      Stepper stepper(s.system, s.system.initial_state(), with(method));
      int switches = 0;
      for (int k = 0; k < 84; ++k) {
        const StepReport& report = stepper.step(1.0 / 240);
        ASSERT_FALSE(report.rejected) << report.reason;
        ASSERT_EQ(report.warning.find("actual thrust"), std::string::npos) << report.warning;
        switches += report.mode_switches;
        for (const ModeSwitch& m : stepper.switches())
          EXPECT_NEAR(m.t, stops, method == Method::semi_implicit ? 1.0 / 240 : 1e-10) << s.system.name(m.on);
      }
      EXPECT_EQ(switches, feet) << "each once";
      const BodyState& end = stepper.state()[s.block];
      EXPECT_LE(end.v.norm() + end.w.norm(), scaled(1e-12));
      EXPECT_NEAR(end.p.x(), 0.15 * stops, method == Method::semi_implicit ? 0.3 / 240 : 1e-10);
    }
}

}  // namespace
}  // namespace linchpin::test
