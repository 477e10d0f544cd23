// Velocities that do not meet the rows at the end of a step of Bullet (T15): where they come from, and where there are
// none.
#include "link_world.h"

#include "world.h"

#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace linchpin::test::velocity_residual_test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Bars on ball joints, released from the horizontal.
struct Chain {
  TestWorld w;
  explicit Chain(int bars = 3) {
    btRigidBody* last = nullptr;
    for (int i = 0; i < bars; ++i) {
      btRigidBody& bar = w.box(1, bt(0.5, 0.05, 0.1), bt(i + 0.5, 0, 0));
      bar.setCollisionFlags(bar.getCollisionFlags() | btCollisionObject::CF_NO_CONTACT_RESPONSE);
      if (last)
        w.joint<btPoint2PointConstraint>(*last, bar, bt(0.5, 0, 0), bt(-0.5, 0, 0));
      else
        w.joint<btPoint2PointConstraint>(bar, bt(-0.5, 0, 0));
      last = &bar;
    }
  }
};

void expect_named(bullet::Solver& exact, bool named) {
  EXPECT_EQ(exact.counts().velocity_residuals > 0, named) << exact.summary();
  EXPECT_EQ(!exact.velocity_residuals().empty(), named);
  EXPECT_EQ(exact.summary().find("velocities do not satisfy") != std::string::npos, named) << exact.summary();
}

TEST(VelocityResidual, OfStepsThatEndOnTheConstraintsIsNone) {
  for (const auto stepping : {bullet::Stepping::semi_implicit, bullet::Stepping::rk4, bullet::Stepping::adaptive})
    for (const double rate : {240.0, 60.0, 20.0}) {
      SCOPED_TRACE(rate);
      Chain chain;
      bullet::Solver exact(chain.w.world, {.stepping = stepping, .max_energy_gain = infinite});
      chain.w.step(static_cast<int>(3 * rate), 1 / rate);
      expect_named(exact, false);
    }
}

TEST(VelocityResidual, OfTheBareAccelerationIsNamed) {
  Chain chain;
  bullet::Solver exact(chain.w.world, {.drift_correction = false});
  chain.w.step(100, 0.05);
  expect_named(exact, true);
  EXPECT_LT(exact.counts().velocity_residuals, 50);  // One that stays is one event.
  EXPECT_EQ(exact.counts().divided_steps, 0);        // It has no parts.
  const VelocityResidual first = exact.velocity_residuals().front();
  EXPECT_GT(first.relative, 0.1);
  EXPECT_FALSE(first.constraint.empty());
  exact.reset();
  expect_named(exact, false);
}

TEST(VelocityResidual, IsNotComparedWithAnInfiniteBound) {
  Chain chain;
  bullet::Solver exact(chain.w.world, {.drift_correction = false, .max_velocity_residual = infinite});
  chain.w.step(100, 0.05);
  expect_named(exact, false);
}

// Bullet's velocities are those of the middle of the step. This body turns by 0.3 rad a step. At the time of the poses
// its velocities would miss the rows by half of that, 0.15 of the motion.
TEST(VelocityResidual, IsThatAtTheTimeOfThePoses) {
  constexpr double rate = 30, dt = 0.01;
  TestWorld w(0);
  btRigidBody& body = w.box(1, bt(0.1, 0.1, 0.1), bt(1, 0, 0));
  body.setLinearVelocity(bt(rate * std::sin(0.5 * rate * dt), rate * std::cos(0.5 * rate * dt), 0));
  body.setAngularVelocity(bt(0, 0, rate));
  w.joint<btPoint2PointConstraint>(body, bt(-1, 0, 0));
  bullet::Solver exact(w.world, {.drift_correction = false});
  w.step(3, dt);
  expect_named(exact, false);
}

// A program that throws a body leaves the jump to the next step, which removes what the rows do not allow.
TEST(VelocityResidual, OfVelocitiesThatTheProgramWritesIsNone) {
  Chain chain;
  bullet::Solver exact(chain.w.world, {});
  for (int i = 0; i < 60; ++i) {
    chain.w.bodies.back()->setLinearVelocity(bt(0, 3, i % 2 ? 2 : -2));
    chain.w.step(1, 1.0 / 60);
  }
  expect_named(exact, false);
  EXPECT_GT(exact.counts().activation_energy, 0.1);
}

// The bare acceleration does not remove it.
TEST(VelocityResidual, OfVelocitiesThatTheProgramWritesStaysWithoutCorrection) {
  Chain chain(1);
  bullet::Solver exact(chain.w.world, {.drift_correction = false});
  chain.w.bodies.front()->setLinearVelocity(bt(2, 0, 0));
  chain.w.step(1, 1.0 / 240);
  expect_named(exact, true);
}

/// An arm of two links whose end is held at a point.
struct Loop {
  LinkWorld w;
  btMultiBody& mb = w.multibody(3, true);
  Loop() {
    const btVector3 half(btScalar(0.5), 0, 0);
    for (int i = 0; i < 3; ++i)
      mb.setupRevolute(i, 1, bt(0.01, 0.08, 0.09), i - 1, straight, bt(0, 0, 1), i == 0 ? bt(0, 0, 0) : half, half,
                       true);
    w.finish(mb);
    mb.setJointPos(0, btScalar(1.2));
    mb.setJointPos(1, btScalar(-0.7));
    mb.setJointPos(2, btScalar(-1.4));
    w.constraint<btMultiBodyPoint2Point>(&mb, 2, static_cast<btRigidBody*>(nullptr), half, end());
  }
  btVector3 end() {
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;
    mb.forwardKinematics(turns, places);
    mb.updateCollisionObjectWorldTransforms(turns, places);
    return mb.localPosToWorld(2, btVector3(btScalar(0.5), 0, 0));
  }
};

TEST(VelocityResidual, OfALoopOfLinksIsNamedWithoutCorrection) {
  for (const bool corrects : {true, false}) {
    SCOPED_TRACE(corrects);
    Loop loop;
    bullet::Solver exact(loop.w.world, {.drift_correction = corrects, .max_energy_gain = infinite});
    loop.w.step(400, corrects ? 1.0 / 240 : 1.0 / 20);
    expect_named(exact, !corrects);
  }
}

// Newton finds no end of one of these long steps. It is taken in substeps. Without these the step gets the velocities
// that its start allows.
TEST(VelocityResidual, OfAStepOfLinksWithoutAnEndIsNamed) {
  for (const bool divides : {true, false}) {
    SCOPED_TRACE(divides);
    Loop loop;
    bullet::Solver exact(loop.w.world, {.max_substeps = divides ? 1024 : 1, .max_energy_gain = infinite});
    for (int i = 0; i < 100; ++i) {
      loop.w.step(1, 0.05);
      if (exact.counts().fallbacks == 0) expect_named(exact, false);
    }
    EXPECT_EQ(exact.counts().fallbacks > 0, !divides);
    EXPECT_EQ(exact.counts().substepped_steps > 0, divides);
    expect_named(exact, !divides);
  }
}

}  // namespace
}  // namespace linchpin::test::velocity_residual_test
