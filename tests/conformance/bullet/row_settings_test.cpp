// What a user's own constraint can have of a Bullet joint: breaking, limits, a motor with a largest force, compliance.
#include "world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test::row_settings_test {
namespace {

const btVector3 half_box(btScalar(0.1), btScalar(0.1), btScalar(0.1));
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

/// A wheel on a hinge about z, without gravity, with a row for its angular velocity.
struct Wheel {
  TestWorld w{0};
  btRigidBody& base = w.box(0, half_box, btVector3(0, 0, 0));
  btRigidBody& wheel = w.box(2, half_box, btVector3(1, 0, 0));
  bullet::Solver exact{w.world};
  bullet::Handle motor;
  double inertia = 0;
  Wheel() {
    exact.hinge("axle", base, wheel, btVector3(1, 0, 0), btVector3(0, 0, 1));
    motor = exact.constrain_velocity(
        "motor", {base, wheel}, [](const auto& s) { return dot(s[0].axis(0, 0, 1), s[1].omega() - s[0].omega()); });
    inertia = 1 / double(wheel.getInvInertiaDiagLocal().z());
  }
  double rate() const { return double(wheel.getAngularVelocity().z()); }
};

TEST(RowSettings, AMotorPushesWithItsLargestForceAndThenHoldsItsSpeed) {
  Wheel s;
  const double torque = 0.1, dt = 1.0 / 240;
  s.motor.motor({.speed = 10, .max_force = torque});
  for (int i = 1; i <= 480; ++i) {
    s.w.step();
    EXPECT_NEAR(s.rate(), std::min(10.0, i * dt * torque / s.inertia), precision(1e-10, 1e-4)) << i;
    EXPECT_LE(worst_books(s.exact), precision(1e-12, 1e-5));
  }
  ASSERT_EQ(s.motor.laws().size(), 1u);
  EXPECT_EQ(s.motor.laws()[0].mode, LawWork::Mode::sticks);
  EXPECT_NEAR(s.motor.laws()[0].work, 0.5 * s.inertia * 100, precision(1e-9, 1e-3));
  EXPECT_TRUE(s.motor.is_exact());
}

TEST(RowSettings, AMotorHoldsALoadUpToItsLargestForce) {
  Wheel s;
  s.motor.motor({.speed = 0, .max_force = 1});
  for (int i = 0; i < 100; ++i) {
    s.wheel.applyTorque(btVector3(0, 0, btScalar(0.9)));
    s.w.step();
  }
  EXPECT_NEAR(s.rate(), 0, precision(1e-12, 1e-6));
  EXPECT_NEAR(s.motor.reaction().on(1).moment.z(), -0.9, precision(1e-9, 1e-4));
  s.wheel.applyTorque(btVector3(0, 0, btScalar(1.5)));
  s.w.step();
  EXPECT_NEAR(s.rate(), 0.5 / s.inertia / 240, precision(1e-10, 1e-4));
}

TEST(RowSettings, AMotorThatIsOffReportsNoForceAndKeepsItsWork) {
  Wheel s;
  s.motor.motor({.speed = 10, .max_force = 0.1});
  s.w.step(24);
  const double work = s.motor.laws()[0].work;
  EXPECT_NE(s.motor.laws()[0].force.moment.z(), 0);
  s.motor.enable(false);
  s.w.step();
  EXPECT_EQ(s.motor.laws()[0].force.moment.norm(), 0);
  EXPECT_EQ(s.motor.laws()[0].power, 0);
  EXPECT_EQ(s.motor.laws()[0].work, work);
}

TEST(RowSettings, TheSpeedOfAMotorCanBeChangedInEveryStep) {
  Wheel s;
  s.motor.motor({.speed = 0, .max_force = 100});
  s.w.step();
  const long factorizations = s.exact.counts().factorizations;
  for (int i = 0; i < 100; ++i) {
    s.motor.motor({.speed = 0.1 * i, .max_force = 100});
    s.w.step();
    EXPECT_NEAR(s.rate(), 0.1 * i, precision(1e-11, 1e-5));
  }
  EXPECT_EQ(s.exact.counts().factorizations - factorizations, 100);
}

TEST(RowSettings, AMotorOnPositionsDrivesItsRate) {
  TestWorld w;
  btRigidBody& load = w.box(2, half_box, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("guide", {load}, [](const auto& s) { return rows(s[0].position().x, s[0].position().z); });
  bullet::Handle winch = exact.constrain("winch", {load}, [](const auto& s) { return s[0].position().y; });
  winch.motor({.speed = 0.5, .max_force = 100});
  w.step(240);
  EXPECT_NEAR(double(load.getLinearVelocity().y()), 0.5, precision(1e-12, 1e-5));
  EXPECT_NEAR(winch.laws()[0].force.force.y(), 2 * 9.81, precision(1e-9, 1e-3));
  winch.motor({.speed = 0.5, .max_force = 10});  // less than the weight
  w.step(24);
  EXPECT_NEAR(double(load.getLinearVelocity().y()), 0.5 - 0.1 * (9.81 - 5), precision(1e-9, 1e-4));
  EXPECT_EQ(exact.summary().find("winch"), std::string::npos) << exact.summary();  // it has no gap
}

TEST(RowSettings, ASlowMotorKeepsItsBodiesAwake) {
  TestWorld w;
  w.box(0, btVector3(50, 1, 50), btVector3(0, -1, 0)).setFriction(0);
  btRigidBody& load = w.box(2, half_box, btVector3(0, btScalar(0.1), 0));
  load.forceActivationState(ACTIVE_TAG);
  bullet::Solver exact(w.world);
  exact.constrain("winch", {load}, [](const auto& s) { return s[0].position().x; })
      .motor({.speed = 0.05, .max_force = 100});
  w.step(10 * 240);
  EXPECT_NEAR(double(load.getWorldTransform().getOrigin().x()), 0.5, 1e-3);
}

TEST(RowSettings, LimitsHoldOnlyAtTheirEnds) {
  TestWorld w;
  btRigidBody& load = w.box(2, half_box, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("guide", {load}, [](const auto& s) { return rows(s[0].position().x, s[0].position().z); });
  bullet::Handle range = exact.constrain("range", {load}, [](const auto& s) { return s[0].position().y; });
  range.limits(-0.5, 0.25);
  const auto y = [&] { return double(load.getWorldTransform().getOrigin().y()); };
  w.step(24);  // it falls freely
  EXPECT_TRUE(range.released());
  EXPECT_NEAR(double(load.getLinearVelocity().y()), -0.981, precision(1e-9, 1e-4));
  for (int i = 0; i < 240; ++i) {
    w.step();
    EXPECT_GE(y(), -0.5 - precision(1e-12, 1e-5));
  }
  EXPECT_FALSE(range.released());
  EXPECT_NEAR(y(), -0.5, precision(1e-12, 1e-5));
  EXPECT_NEAR(range.reaction().on(0).force.y(), 2 * 9.81, precision(1e-9, 1e-3));
  load.setLinearVelocity(btVector3(0, 5, 0));  // up to the other end
  for (int i = 0; i < 240 && y() < 0.25 - 1e-9; ++i) {
    w.step();
    EXPECT_LE(y(), 0.25 + precision(1e-12, 1e-5));
  }
  EXPECT_NEAR(y(), 0.25, precision(1e-12, 1e-5));
  w.step(480);
  EXPECT_NEAR(y(), -0.5, precision(1e-12, 1e-5));
  range.limits(-0.75, infinity);
  w.step(240);
  EXPECT_NEAR(y(), -0.75, precision(1e-12, 1e-5));
}

TEST(RowSettings, AConstraintBreaksAboveItsImpulse) {
  TestWorld w;
  btRigidBody& load = w.box(2, half_box, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle rope = exact.constrain("rope", {load}, [](const auto& s) { return s[0].position().y; });
  rope.breaking_impulse(2 * 9.81 / 240 * 1.5);
  w.step(10);
  EXPECT_FALSE(rope.broken());
  load.applyCentralForce(btVector3(0, -20, 0));
  w.step();
  EXPECT_TRUE(rope.broken());
  EXPECT_FALSE(rope.is_exact());
  EXPECT_NE(exact.summary().find("broken constraints: 1"), std::string::npos) << exact.summary();
  const double y = double(load.getWorldTransform().getOrigin().y());
  w.step(24);
  EXPECT_LT(double(load.getWorldTransform().getOrigin().y()), y - 0.04);
  rope.enable(true);  // repaired
  EXPECT_FALSE(rope.broken());
}

TEST(RowSettings, ComplianceIsASpringWithDamping) {
  TestWorld w;
  btRigidBody& load = w.box(2, half_box, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  const double k = 4000, c = 50, m = 2, h = 1.0 / 240;
  bullet::Handle spring = exact.constrain("spring", {load}, [](const auto& s) { return s[0].position().y; });
  spring.compliance({.stiffness = k, .damping = c});
  double y = 0, v = 0;
  for (int i = 0; i < 480; ++i) {
    w.step();
    v = (m * (v - h * 9.81) - h * k * y) / (m + h * h * k + h * c);
    y += h * v;
    EXPECT_NEAR(double(load.getLinearVelocity().y()), v, precision(1e-10, 1e-4)) << i;
    EXPECT_LE(worst_books(exact), precision(1e-12, 1e-5));
  }
  EXPECT_NEAR(spring.reaction().residual, m * 9.81 / k, precision(1e-6, 1e-5));
  EXPECT_NE(exact.summary().find("largest deformations by compliance: spring"), std::string::npos) << exact.summary();
  spring.equality();
  w.step(240);
  EXPECT_NEAR(double(load.getWorldTransform().getOrigin().y()), 0, precision(1e-12, 1e-5));
}

TEST(RowSettings, AStiffBridgeIsStableAndSagsByItsCompliance) {
  TestWorld w;
  bullet::Solver exact(w.world);
  btRigidBody* before = &w.box(0, half_box, btVector3(0, 0, 0));
  const int n = 8;
  for (int i = 0; i <= n; ++i) {
    btRigidBody& next = w.box(i == n ? 0 : 1, half_box, btVector3(btScalar(i + 1), 0, 0));
    exact.ball("link" + std::to_string(i), *before, next, btVector3(btScalar(i + 0.5), 0, 0))
        .compliance({.stiffness = 1e6, .damping = 1e4});
    before = &next;
  }
  w.step(2400);
  EXPECT_TRUE(w.finite());
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  double least = 0;
  for (const auto& b : w.bodies) least = std::min(least, double(b->getWorldTransform().getOrigin().y()));
  EXPECT_LT(least, -0.01);
  EXPECT_GT(least, -0.5);
}

TEST(RowSettings, WhatCannotBeIsRefusedWithTheReason) {
  TestWorld w;
  btRigidBody& a = w.box(1, half_box, btVector3(0, 0, 0));
  btRigidBody& b = w.box(1, half_box, btVector3(1, 0, 0));
  auto& joint = w.joint<btPoint2PointConstraint>(a, b, btVector3(1, 0, 0), btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle stock = exact.handle(joint);
  EXPECT_NE(message_of([&] { stock.motor({.speed = 1, .max_force = 1}); }).find("joint of the world"),
            std::string::npos);
  EXPECT_NE(message_of([&] { stock.breaking_impulse(1); }).find("joint of the world"), std::string::npos);
  bullet::Handle two =
      exact.constrain("two", {a}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); });
  EXPECT_NE(message_of([&] { two.motor({.speed = 1, .max_force = 1}); }).find("one row"), std::string::npos);
  EXPECT_NE(message_of([&] { two.limits(0, 1); }).find("one position row"), std::string::npos);
  EXPECT_NE(message_of([&] { two.compliance({.stiffness = -1}); }).find("-1"), std::string::npos);
  EXPECT_NE(message_of([&] { two.compliance({}); }).find("angular_stiffness"), std::string::npos);
  EXPECT_NE(message_of([&] { two.breaking_impulse(0); }).find("above 0"), std::string::npos);
  bullet::Handle one = exact.constrain("one", {b}, [](const auto& s) { return s[0].position().z; });
  EXPECT_NE(message_of([&] { one.limits(1, 1); }).find("below"), std::string::npos);
  one.limits(-1, 1);
  EXPECT_NE(message_of([&] { one.motor({.speed = 1, .max_force = 1}); }).find("limits"), std::string::npos);
  EXPECT_NE(message_of([&] { one.unilateral(); }).find("limits"), std::string::npos);
  bullet::Handle sum =
      exact.constrain("sum", {a, b}, [](const auto& s) { return s[0].position().y + s[1].position().y; });
  EXPECT_NE(message_of([&] { sum.motor({.speed = 1, .max_force = 1}); }).find("opposite"), std::string::npos);
  one.equality().motor({.speed = 1, .max_force = 1});
  one.equality().equality();
  w.step(10);
  EXPECT_TRUE(w.finite());
  EXPECT_NEAR(one.reaction().residual, 0, precision(1e-12, 1e-6));
}

// The links are light and thin, so that the springs turn them back many times in a step.
TEST(RowSettings, ASwingingChainWithComplianceGainsNoEnergy) {
  for (const double k : {1e4, 1e6, 1e8})
    for (const double c : {0.0, 1e2}) {
      SCOPED_TRACE(std::to_string(k) + ", " + std::to_string(c));
      TestWorld w;
      bullet::Solver exact(w.world);
      btRigidBody* before = &w.box(0, half_box, btVector3(0, 0, 0));
      for (int i = 0; i < 10; ++i) {
        btRigidBody& next = w.box(0.1, half_box, btVector3(btScalar(i + 1), 0, 0));
        next.setMassProps(btScalar(0.1), btVector3(btScalar(0.003), btScalar(0.009), btScalar(0.009)));
        exact.ball("j" + std::to_string(i), *before, next, btVector3(btScalar(i + 0.5), 0, 0))
            .compliance({.stiffness = k, .damping = c});
        before = &next;
      }
      double most = 0;
      for (int i = 0; i < 600; ++i) {
        w.step(1, 1.0 / 60);
        most = std::max(most, exact.energy());
      }
      EXPECT_LE(most, 2);  // of 50 J that the fall to the lowest place gives
      EXPECT_TRUE(w.finite());
    }
}

TEST(RowSettings, TheGroundNeedNotBeInTheResidual) {
  Wheel s;
  s.exact.constrain_velocity("drive", {ground, s.wheel}, [](const auto& b) { return b[1].omega().z; })
      .motor({.speed = 3, .max_force = 100});
  s.motor.enable(false);
  s.w.step(24);
  EXPECT_NEAR(s.rate(), 3, precision(1e-10, 1e-5));
}

TEST(RowSettings, BulletsOwnRowsOfAMotorHaveItsLargestForce) {
  TestWorld w(0);
  btRigidBody& base = w.box(0, half_box, btVector3(0, 0, 0));
  btRigidBody& wheel = w.box(2, half_box, btVector3(1, 0, 0));
  bullet::Solver exact(w.world, {.mode = bullet::Mode::passive});  // Bullet solves all
  exact.hinge("axle", base, wheel, btVector3(1, 0, 0), btVector3(0, 0, 1));
  const auto relative = [](const auto& s) { return dot(s[0].axis(0, 0, 1), s[1].omega() - s[0].omega()); };
  exact.constrain_velocity("motor", {base, wheel}, relative).motor({.speed = 10, .max_force = 0.1});
  w.step(80);
  const double inertia = 1 / double(wheel.getInvInertiaDiagLocal().z());
  EXPECT_NEAR(double(wheel.getAngularVelocity().z()), 80.0 / 240 * 0.1 / inertia, 1e-3);
  w.step(400);
  EXPECT_NEAR(double(wheel.getAngularVelocity().z()), 10, 1e-3);
}

TEST(RowSettings, ComplianceInStagesIsOfTheirOrder) {
  TestWorld w(0);
  btRigidBody& load = w.box(2, half_box, btVector3(btScalar(0.1), 0, 0));
  bullet::Solver exact(w.world, {.stepping = bullet::Stepping::rk4});
  exact.constrain("guide", {load}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); });
  bullet::Handle spring = exact.constrain("spring", {load}, [](const auto& s) { return s[0].position().x; });
  spring.compliance({.stiffness = 200});
  w.step(240);
  const double x = double(load.getWorldTransform().getOrigin().x());
  EXPECT_NEAR(x, 0.1 * std::cos(10), precision(1e-7, 1e-5));
  EXPECT_EQ(exact.counts().order_reductions, 0);
  EXPECT_NEAR(spring.reaction().work, 0.5 * 200 * (0.01 - x * x), precision(1e-7, 1e-4));
}

TEST(RowSettings, AMotorDrivesAWheelThatRollsOnTheGround) {
  TestWorld w;
  w.box(0, btVector3(50, 1, 50), btVector3(0, -1, 0)).setFriction(1);
  btRigidBody& frame =
      w.box(4, btVector3(btScalar(0.3), btScalar(0.05), btScalar(0.3)), btVector3(0, btScalar(0.6), 0));
  bullet::Solver exact(w.world);
  for (const double x : {-0.3, 0.3})
    for (const double z : {-0.4, 0.4}) {
      btRigidBody& wheel = w.ball(0.5, 0.25, btVector3(btScalar(x), btScalar(0.25), btScalar(z)));
      wheel.setFriction(1);
      const std::string name = std::to_string(x) + std::to_string(z);
      exact.hinge("axle" + name, frame, wheel, btVector3(btScalar(x), btScalar(0.25), btScalar(z)), btVector3(0, 0, 1));
      exact
          .constrain_velocity("motor" + name, {frame, wheel},
                              [](const auto& s) { return dot(s[0].axis(0, 0, 1), s[1].omega() - s[0].omega()); })
          .motor({.speed = -8, .max_force = 1});
    }
  w.step(1200);
  EXPECT_TRUE(w.finite());
  EXPECT_NEAR(double(frame.getLinearVelocity().x()), 8 * 0.25, 0.05);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}

TEST(RowSettings, SettingsSurviveARollback) {
  TestWorld w;
  btRigidBody& load = w.box(2, half_box, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("range", {load}, [](const auto& s) { return s[0].position().y; }).limits(-0.2, 0.1);
  w.step(120);
  const bullet::History past = exact.history();
  const btTransform pose = load.getWorldTransform();
  const btVector3 v = load.getLinearVelocity();
  load.setLinearVelocity(btVector3(0, 5, 0));
  w.step(20);
  load.setWorldTransform(pose);
  load.setInterpolationWorldTransform(pose);
  load.setLinearVelocity(v);
  exact.restore(past);
  w.step(120);
  EXPECT_NEAR(double(load.getWorldTransform().getOrigin().y()), -0.2, precision(1e-12, 1e-5));
}

}  // namespace
}  // namespace linchpin::test::row_settings_test
