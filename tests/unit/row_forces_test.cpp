// Forces along rows in place of the rows: motors and compliance (row_forces.h).
#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/row_forces.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin {
namespace {

constexpr double h = 0.01;

/// A particle that a row holds at x = 0.
struct OneRow {
  System model;
  BodyId mass;
  Constraint row() const {
    return holonomic("row", {mass}, [](const auto& s) { return s[0].position().x; });
  }
  explicit OneRow(double m, double x = 0) : mass(model.add_particle("mass", m, {x, 0, 0})) {}
};

TEST(RowForces, AMotorPushesWithItsLargestForceUntilItHasItsSpeed) {
  OneRow one(2);
  add_motor(one.model, one.row(), {.speed = 3, .max_force = 4});
  Stepper stepper(one.model, one.model.initial_state(), {.method = Method::semi_implicit});
  for (int i = 1; i <= 200; ++i) {
    ASSERT_FALSE(stepper.step(h).rejected);
    EXPECT_NEAR(stepper.state()[one.mass].v.x(), std::min(3.0, 0.02 * i), 1e-12) << i;
  }
}

TEST(RowForces, AMotorHoldsAgainstALoadUpToItsLargestForce) {
  for (const double load : {3.0, 5.0}) {
    OneRow one(2);
    one.model.set_gravity({-load / 2, 0, 0});
    add_motor(one.model, one.row(), {.speed = 0, .max_force = 4});
    Stepper stepper(one.model, one.model.initial_state(), {.method = Method::semi_implicit});
    for (int i = 0; i < 100; ++i) ASSERT_FALSE(stepper.step(h).rejected);
    EXPECT_NEAR(stepper.state()[one.mass].v.x(), load > 4 ? -(load - 4) / 2 : 0, 1e-12);
    const auto laws = stepper.law_works();
    ASSERT_EQ(laws.size(), 1u);
    EXPECT_NEAR(laws[0].force.force.x(), std::min(load, 4.0), 1e-12);
    EXPECT_EQ(laws[0].mode, load > 4 ? LawWork::Mode::slides : LawWork::Mode::sticks);
  }
}

TEST(RowForces, ComplianceIsTheImplicitSpring) {
  const double m = 2, k = 1e5, c = 30;
  OneRow one(m, 0.1);
  add_compliant(one.model, one.row(), {.stiffness = k, .damping = c});
  Stepper stepper(one.model, one.model.initial_state(), {.method = Method::semi_implicit});
  double x = 0.1, v = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(stepper.step(h).rejected);
    v = (m * v - h * k * x) / (m + h * h * k + h * c);
    x += h * v;
    EXPECT_NEAR(stepper.state()[one.mass].v.x(), v, 1e-11) << i;
    EXPECT_NEAR(stepper.state()[one.mass].p.x(), x, 1e-13) << i;
  }
}

TEST(RowForces, ComplianceIsTheSpringInStages) {
  const double m = 2, k = 200, dt = 0.001;
  OneRow one(m, 0.1);
  add_compliant(one.model, one.row(), {.stiffness = k});
  Stepper stepper(one.model, one.model.initial_state(), {.method = Method::rk4});
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(stepper.step(dt).rejected);
  EXPECT_NEAR(stepper.state()[one.mass].p.x(), 0.1 * std::cos(10), 1e-10);
}

TEST(RowForces, AComplianceOfOneKindLeavesTheOtherRowsExact) {
  System model;
  const BodyId body = model.add_body("body", 2, Vector3d(0.1, 0.2, 0.3), {{1, 0, 0}});
  model.set_gravity({0, 0, -10});
  add_compliant(model, joints::weld("weld", ground, {}, body, {Vector3d(-1, 0, 0)}),
                {.angular_stiffness = 500, .angular_damping = 20});
  Stepper stepper(model, model.initial_state(), {.method = Method::semi_implicit});
  for (int i = 0; i < 2000; ++i) ASSERT_FALSE(stepper.step(h).rejected);
  const BodyState& s = stepper.state()[body];
  EXPECT_NEAR(s.point({-1, 0, 0}).norm(), 0, 1e-9);
  const double angle = std::asin(-s.p.z());
  // Its row is sin(angle), so the torque is 500·sin·cos. The weight has the torque 20·cos.
  EXPECT_NEAR(500 * std::sin(angle), 20, 1e-9);
}

TEST(RowForces, BadValuesAreRefused) {
  OneRow one(1);
  EXPECT_THROW(add_motor(one.model, one.row(), {.speed = 1, .max_force = -1}), std::invalid_argument);
  EXPECT_THROW(add_motor(one.model, one.row(), {.speed = NAN, .max_force = 1}), std::invalid_argument);
  EXPECT_THROW(add_compliant(one.model, one.row(), {.stiffness = -1}), std::invalid_argument);
  EXPECT_THROW(add_compliant(one.model, one.row(), {}), std::invalid_argument);
  const BodyId other = one.model.add_particle("other", 1, {1, 0, 0});
  const Constraint sum =
      holonomic("sum", {one.mass, other}, [](const auto& s) { return s[0].position().x + s[1].position().x; });
  EXPECT_THROW(add_compliant(one.model, sum, {.stiffness = 1}), std::invalid_argument);
  EXPECT_EQ(one.model.find_constraint("row").index, -1);
}

}  // namespace
}  // namespace linchpin
