// Laws that do work, in Bullet: friction that sticks, slides and stops against closed forms, at the order of the step.
#include "world.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

namespace linchpin::test::friction_test {
namespace {

const double g = double(btScalar(9.81));

/// A block that can only slide along a slope of 30°: linchpin's own joint to the world.
struct Slope {
  static constexpr double angle = pi / 6;
  TestWorld w;
  btRigidBody& block;
  bullet::Solver exact;
  bullet::Handle rail;
  Vector3d up{std::cos(angle), std::sin(angle), 0};

  explicit Slope(Law law, double speed = 0)
      : block(w.box(2, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.2)), btVector3(0, 0, 0),
                    btQuaternion(btVector3(0, 0, 1), btScalar(angle)))),
        exact(w.world) {
    block.setLinearVelocity(bullet::to_bullet(speed * up));
    const Eigen::Matrix3d turned = Eigen::AngleAxisd(angle, Vector3d::UnitZ()).toRotationMatrix();
    rail =
        exact.add(joints::slider("rail", exact.id(block), JointFrame{}, ground, JointFrame{Vector3d::Zero(), turned}));
    rail.law(std::move(law));
  }
  double along() const { return bullet::from_bullet(block.getCenterOfMassPosition()).dot(up); }
  double speed() const { return bullet::from_bullet(block.getLinearVelocity()).dot(up); }
};

TEST(Friction, ABlockAtRestOnARoughSlopeDoesNotCreep) {
  Slope s(laws::coulomb(0.6));  // tan 30° = 0.577
  s.w.step(60 * 240);
  EXPECT_LE(std::abs(s.along()), precision(1e-12, 1e-6));
  EXPECT_EQ(s.exact.counts().mode_switches, 0);
  const Reaction& r = s.rail.reaction();
  EXPECT_NEAR(r.prescribed.on_a.force.norm(), 2 * g * std::sin(Slope::angle), precision(1e-12, 1e-5));
  EXPECT_NEAR(r.on_a.force.y(), 2 * g, precision(1e-12, 1e-5));  // rail and friction together carry its weight
}

// After a step of another length the applied forces act from the middle of that step to the middle of this one. So does
// the friction that balances them.
TEST(Friction, WhatSticksStaysAtRestInStepsOfAnyLength) {
  constexpr double lengths[] = {1.0 / 240, 1.0 / 1000, 1.0 / 60, 1.0 / 60, 1.0 / 480, 1.0 / 90, 1.0 / 8000, 1.0 / 240};
  Slope slope(laws::coulomb(0.6));
  TestWorld w;
  btRigidBody& arm = w.box(1, btVector3(btScalar(0.4), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(0.4), 0, 0));
  btHingeConstraint& pin = w.joint<btHingeConstraint>(arm, btVector3(btScalar(-0.4), 0, 0), btVector3(0, 0, 1), true);
  bullet::Solver exact(w.world);
  exact.handle(pin).law(
      laws::hinge_friction({.mu_static = 1, .mu_kinetic = 1, .pin_radius = 0.5}));  // 4.9 N·m hold 3.9 N·m
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const double dt = lengths[(i * i) % std::size(lengths)];
    slope.w.step(1, dt);
    w.step(1, dt);
    EXPECT_LE(std::abs(slope.speed()), precision(1e-15, 1e-7));
    EXPECT_LE(double(arm.getAngularVelocity().length()), precision(1e-14, 1e-6));
    EXPECT_LE(worst_books(slope.exact), precision(1e-12, 1e-5));
    EXPECT_LE(worst_books(exact), precision(1e-12, 1e-5));
  }
  EXPECT_EQ(slope.exact.counts().mode_switches, 0);
  EXPECT_EQ(exact.counts().mode_switches, 0);
}

TEST(Friction, AReleasedBlockStopsWhereItShouldAndStays) {
  // Up the slope with v, decelerating by g (sin + mu cos): way v²/2a.
  const double a = g * (std::sin(Slope::angle) + 0.7 * std::cos(Slope::angle));
  double error[2];
  for (const int k : {0, 1}) {
    Slope s(laws::coulomb(0.7), 4);
    const int rate = 240 << k;
    s.w.step(rate, 1.0 / rate);
    const double stopped = s.along();
    error[k] = std::abs(stopped - 16 / (2 * a));
    s.w.step(10 * rate, 1.0 / rate);
    EXPECT_LE(std::abs(s.along() - stopped), precision(1e-12, 1e-6));
    EXPECT_LE(std::abs(s.speed()), precision(1e-14, 1e-6));
    EXPECT_EQ(s.exact.counts().mode_switches, 1);
    EXPECT_NEAR(s.rail.reaction().work, -0.5 * 2 * 16 + 2 * g * std::sin(Slope::angle) * stopped, precision(0.1, 0.1));
  }
  EXPECT_LE(error[0], 4.0 / 240);
  EXPECT_LE(error[1], 0.7 * error[0]);
}

// A thrown onto B, B on the floor: ways 0.9375 and 1.5625 v₀²/g, over at 5 v₀/g.
TEST(Friction, TwoBlocksStopWhereTheyShould) {
  const double v0 = 3;
  double error[2][3];
  for (const int k : {0, 1}) {
    TestWorld w;
    btRigidBody& A = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 1, 0));
    btRigidBody& B = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    for (btRigidBody* body : {&A, &B}) {  // points: what rubs below their centres does not turn them
      body->setMassProps(2, btVector3(0, 0, 0));
      body->updateInertiaTensor();
    }
    A.setLinearVelocity(btVector3(btScalar(v0), 0, 0));
    bullet::Solver exact(w.world);
    bullet::Handle on_B =
        exact.constrain("A on B", {A, B}, [](const auto& s) { return s[0].position().y - s[1].position().y - 1.0; });
    bullet::Handle on_floor = exact.constrain("B on floor", {B}, [](const auto& s) { return s[0].position().y; });
    on_B.law(laws::coulomb(0.5));
    on_floor.law(laws::coulomb(0.1));
    const int rate = 240 << k;
    double together = 0, stopped = 0;
    for (int i = 1; i <= 2 * rate; ++i) {
      w.step(1, 1.0 / rate);
      if (together == 0 && on_B.laws()[0].mode == LawWork::Mode::sticks) together = double(i) / rate;
      if (stopped == 0 && on_floor.laws()[0].mode == LawWork::Mode::sticks) stopped = double(i) / rate;
    }
    EXPECT_NEAR(together, 1.25 * v0 / g, 2.0 / rate);
    EXPECT_NEAR(stopped, 5 * v0 / g, 2.0 / rate);
    EXPECT_EQ(on_B.laws()[0].switches, 1);
    error[k][0] = std::abs(double(A.getCenterOfMassPosition().x()) - 1.5625 * v0 * v0 / g);
    error[k][1] = std::abs(double(B.getCenterOfMassPosition().x()) - 0.9375 * v0 * v0 / g);
    error[k][2] = std::abs(on_B.laws()[0].work + on_floor.laws()[0].work + 0.5 * 2 * v0 * v0);
    EXPECT_LE(error[k][2], precision(1e-12, 1e-4));
  }
  for (const int j : {0, 1}) {
    EXPECT_LE(error[0][j], v0 / 240);
    EXPECT_LE(error[1][j], 0.6 * error[0][j] + precision(0, 1e-5));
  }
}

// A block slides down a wedge that gives way: accelerations at once, ways at the order of the step.
TEST(Friction, ABlockOnAWedgeConvergesToBothLaws) {
  struct Row {
    NormalForce normal_force;
    double A;
  };
  // g = 9.81, α = 35°, m = 2, M = 5, μ = 0.4 (T9): on the actual and on the frictionless normal force.
  for (const Row row :
       {Row{NormalForce::coupled, 0.7482432112537729}, Row{NormalForce::frictionless, 0.8067726287023402}}) {
    double error[2];
    for (const int k : {0, 1}) {
      TestWorld w;
      const double alpha = 0.6108652381980153;
      const Vector3d down(std::cos(alpha), -std::sin(alpha), 0), normal(std::sin(alpha), std::cos(alpha), 0);
      btRigidBody& wedge = w.box(5, btVector3(1, btScalar(0.1), 1), btVector3(0, 0, 0));
      btRigidBody& block =
          w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), bullet::to_bullet(0.3 * normal));
      for (btRigidBody* body : {&wedge, &block}) {
        body->setMassProps(btScalar(body == &wedge ? 5 : 2), btVector3(0, 0, 0));
        body->updateInertiaTensor();
      }
      block.setLinearVelocity(bullet::to_bullet(0.2 * down));
      bullet::Solver exact(w.world);
      auto slope = exact.constrain("slope", {block, wedge}, [normal](const auto& s) {
        const auto d = s[0].position() - s[1].position();
        return d.x * normal.x() + d.y * normal.y() - 0.3;
      });
      slope.law(laws::coulomb(0.4).with_normal_force(row.normal_force));
      slope.collisions_between_bodies(false);
      exact.constrain("floor", {wedge}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); });
      const int rate = 240 << k;
      w.step(rate, 1.0 / rate);
      EXPECT_NEAR(double(wedge.getLinearVelocity().x()), -row.A, precision(1e-8, 1e-4));
      error[k] = std::abs(double(wedge.getCenterOfMassPosition().x()) + 0.5 * row.A);
    }
    EXPECT_LE(error[0], 1.0 / 240);
    EXPECT_LE(error[1], 0.55 * error[0] + precision(0, 1e-5));
  }
}

TEST(Friction, BelowTheBoundItSlidesWithTheKineticCoefficient) {
  Slope s(laws::coulomb(0.3));
  s.w.step(240);
  const double a = g * (std::sin(Slope::angle) - 0.3 * std::cos(Slope::angle));
  EXPECT_NEAR(s.speed(), -a, precision(1e-10, 1e-4));
}

// A wheel on a level pin: μ r m g slows it evenly, and it stays.
TEST(Friction, AHingeWithPinFrictionStops) {
  TestWorld w;
  btRigidBody& wheel = w.box(3, btVector3(btScalar(0.3), btScalar(0.3), btScalar(0.05)), btVector3(0, 0, 0));
  wheel.setAngularVelocity(btVector3(0, 0, 5));
  btHingeConstraint& pin = w.joint<btHingeConstraint>(wheel, btVector3(0, 0, 0), btVector3(0, 0, 1));
  bullet::Solver exact(w.world);
  const double mu = 0.3, radius = 0.02, inertia = 1 / double(wheel.getInvInertiaDiagLocal().z());
  exact.name_joint(pin, "pin").law(laws::hinge_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = radius}));
  const double slowing = mu * radius * 3 * g / inertia, stop = 5 / slowing;
  w.step(240);
  EXPECT_NEAR(double(wheel.getAngularVelocity().z()), 5 - slowing, precision(1e-10, 1e-4));
  EXPECT_NEAR(exact.find("pin").reaction().prescribed.on_a.moment.norm(), mu * radius * 3 * g, precision(1e-10, 1e-4));
  EXPECT_LE(worst_books(exact), 1e-12);
  w.step(static_cast<int>((stop - 1) * 240) - 2);
  EXPECT_GT(double(wheel.getAngularVelocity().z()), 0);
  w.step(4);
  for (int i = 0; i < 240; ++i) {
    w.step();
    EXPECT_LE(std::abs(double(wheel.getAngularVelocity().z())), precision(1e-14, 1e-6));
  }
  EXPECT_EQ(exact.counts().mode_switches, 1);
}

// Slides until it rolls: v = 5/7 v₀ at t = 2 v₀/(7 μ g).
TEST(Friction, ABowlingBallRollsAtFiveSevenths) {
  const double radius = double(btScalar(0.108)), v0 = 8, mu = 0.12;
  double error[2];
  for (const int k : {0, 1}) {
    TestWorld w;
    btRigidBody& ball = w.ball(6, radius, btVector3(0, btScalar(radius), 0));
    ball.setLinearVelocity(btVector3(btScalar(v0), 0, 0));
    bullet::Solver exact(w.world);
    const BodyId id = exact.id(ball);
    exact
        .add(holonomic("lane", {id}, [radius](const auto& s) { return s[0].position().y - radius; })
                 .set_application_point(
                     [id, radius](const State& s) { return Vector3d(s[id].p - Vector3d(0, radius, 0)); }))
        .law(laws::coulomb(mu));
    const int rate = 240 << k;
    w.step(3 * rate, 1.0 / rate);
    EXPECT_NEAR(double(ball.getLinearVelocity().x()), 5 * v0 / 7, precision(1e-9, 1e-4));
    EXPECT_NEAR(double(ball.getLinearVelocity().x() + ball.getAngularVelocity().z() * btScalar(radius)), 0,
                precision(1e-12, 1e-5));
    const double t = 2 * v0 / (7 * mu * g), x = v0 * t - 0.5 * mu * g * t * t + 5 * v0 / 7 * (3 - t);
    error[k] = std::abs(double(ball.getCenterOfMassPosition().x()) - x);
    EXPECT_EQ(exact.counts().mode_switches, 1);
  }
  EXPECT_LE(error[0], 0.02);
  EXPECT_LE(error[1], precision(0.6, 1.1) * error[0]);
}

// A block on a belt, held back by a spring: sticks until the spring pulls μ_s m g, then slides; over and over.
TEST(Friction, ABlockOnABeltSticksAndSlips) {
  TestWorld w;
  btRigidBody& block = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  const double stiffness = 50, speed = 0.2, mu_s = 0.5, mu_k = 0.3;
  bullet::Handle belt = exact.add(joints::slider("belt", ground, JointFrame{}, exact.id(block), JointFrame{}));
  belt.law(laws::coulomb(mu_s, mu_k).on_belt({speed, 0, 0}));
  double furthest = 0, stuck = 0;
  for (int i = 0; i < 20 * 240; ++i) {
    block.applyCentralForce(btVector3(btScalar(-stiffness) * block.getCenterOfMassPosition().x(), 0, 0));
    w.step();
    const double x = double(block.getCenterOfMassPosition().x());
    furthest = std::max(furthest, x);
    stuck += std::abs(double(block.getLinearVelocity().x()) - speed) < 1e-6;
  }
  // It lets go at μ_s N with the belt's speed and swings about where the spring holds μ_k N.
  const double off = (mu_s - mu_k) * g / stiffness, swing = std::hypot(off, speed / std::sqrt(stiffness));
  EXPECT_NEAR(furthest, mu_k * g / stiffness + swing, 1e-3);
  EXPECT_GT(stuck, 0.3 * 20 * 240);
  const long switches = exact.counts().mode_switches;
  // One period: stick from the end of the slip to its start, 2 (μ_s − μ_k) N / (k v), and a slip of about π √(m/k) and
  // a bit.
  const double period = 2 * (mu_s - mu_k) * g / (stiffness * speed) +
                        2 * (pi - std::atan((mu_s - mu_k) * g / (speed * std::sqrt(stiffness)))) / std::sqrt(stiffness);
  EXPECT_NEAR(double(switches), 2 * 20 / period, 3);
}

// Friction and the end of the step move each other; constraints have the last word.
TEST(Friction, JointsStayShutWhereManyLawsRub) {
  TestWorld w;
  chain(w, 6, 1, 1);
  for (const auto& body : w.bodies) {  // easily turned, so that friction and joints answer each other strongly
    body->setMassProps(2, btVector3(btScalar(0.015), btScalar(0.015), btScalar(0.015)));
    body->updateInertiaTensor();
    body->setAngularVelocity(btVector3(btScalar(0.5), btScalar(-0.7), btScalar(0.3)));
  }
  bullet::Solver exact(w.world);
  for (int i = 0; i < 6; ++i)
    exact.name_joint(*w.world.getConstraint(i), "pin " + std::to_string(i))
        .law(laws::ball_friction({.mu_static = 0.5, .mu_kinetic = 0.1, .pin_radius = 0.1}));
  double gap = 0;
  for (int i = 0; i < 240; ++i) {
    w.step();
    gap = std::max(gap, largest_gap(exact));
  }
  EXPECT_LE(gap, precision(1e-13, 1e-6));
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(Friction, WarningsAndTheSummaryNameWhatALawReads) {
  TestWorld w;
  btRigidBody& door = w.box(5, btVector3(btScalar(0.4), 1, btScalar(0.03)), btVector3(btScalar(0.4), 0, 0));
  btHingeConstraint& low =
      w.joint<btHingeConstraint>(door, btVector3(btScalar(-0.4), btScalar(-0.8), 0), btVector3(0, 1, 0));
  w.joint<btHingeConstraint>(door, btVector3(btScalar(-0.4), btScalar(0.8), 0), btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  exact.name_joint(low, "low").law(laws::hinge_friction({.mu_static = 0.2, .mu_kinetic = 0.2, .pin_radius = 0.01}));
  w.step(10);
  EXPECT_NE(exact.summary().find("warning: "), std::string::npos) << exact.summary();
  EXPECT_NE(exact.summary().find("undetermined"), std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::friction_test
