// Constraints of the user's own: one lambda each, in a real world, and what is said when they are wrong.
#include "world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace linchpin::test::user_constraint_test {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(UserConstraint, ARheonomicRodBetweenTwoBodiesEndsEveryStepAtItsLength) {
  TestWorld w;
  btRigidBody& hook = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 2, 0));
  btRigidBody& load =
      w.box(3, btVector3(btScalar(0.2), btScalar(0.2), btScalar(0.2)), btVector3(btScalar(0.3), btScalar(0.2), 0));
  bullet::Solver exact(w.world);
  const double start = std::sqrt(0.3 * 0.3 + 1.5 * 1.5);
  exact.constrain("winch", {hook, load}, [=](const auto& s) {
    auto d = s[0].point(0, -0.1, 0) - s[1].point(0, 0.2, 0);
    return dot(d, d) - square(start + 0.1 * (1 - cos(3.0 * s.t)));
  });
  double residual = 0;
  for (int i = 0; i < 480; ++i) {
    w.step();
    residual = std::max(residual, exact.reactions()[0].residual);
    EXPECT_LE(worst_books(exact), 1e-12);
  }
  EXPECT_LE(residual, precision(1e-13, 1e-5));
  const Reaction& r = exact.reactions()[0];
  EXPECT_EQ(r.name, "winch");
  EXPECT_NEAR(exact.t(), 2, 1e-6);
}

TEST(UserConstraint, OneThatMovesWithTimeKeepsItsBodiesAwakeAndWakesThem) {
  TestWorld w(0);
  btRigidBody& load = w.ball(1, 0.1, btVector3(0, 0, 0));
  load.forceActivationState(ACTIVE_TAG);
  bullet::Solver exact(w.world);
  // Slow enough to count as rest in Bullet; stands still from 4 s to 12 s.
  exact.constrain("lift", {load}, [](const auto& s) {
    const auto rise = s.t < 4.0 ? 0.1 * s.t : s.t < 12.0 ? 0.4 + 0.0 * s.t : 0.4 + 0.1 * (s.t - 12.0);
    return rows(s[0].position().x, s[0].position().y - rise, s[0].position().z);
  });
  w.step(4 * 240);
  EXPECT_TRUE(load.isActive());
  EXPECT_NEAR(double(load.getWorldTransform().getOrigin().y()), 0.4, precision(1e-12, 1e-5));
  w.step(7 * 240);
  EXPECT_FALSE(load.isActive());  // true rest still sleeps
  w.step(3 * 240);
  EXPECT_NEAR(double(load.getWorldTransform().getOrigin().y()), 0.6, precision(1e-9, 1e-4));
}

TEST(UserConstraint, OneOverThreeBodiesIsKnownToIslandsPairByPair) {
  TestWorld w(0);
  btRigidBody& a = w.ball(1, 0.1, btVector3(-1, 0, 0));
  btRigidBody& b = w.ball(2, 0.1, btVector3(0, 0, 0));
  btRigidBody& c = w.ball(1, 0.1, btVector3(1, 0, 0));
  w.world.getSolverInfo().m_minimumSolverBatchSize =
      1;  // one call per island: the trap of a constraint that is not one
  a.setLinearVelocity(btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  exact.constrain("middle", {a, b, c},
                  [](const auto& s) { return s[0].position() + s[2].position() - 2.0 * s[1].position(); });
  double residual = 0;
  for (int i = 0; i < 240; ++i) {
    w.step();
    residual = std::max(residual, exact.reactions()[0].residual);
  }
  EXPECT_LE(residual, precision(1e-13, 1e-5));
  EXPECT_LE(
      (exact.reactions()[0].on(0).force + exact.reactions()[0].on(1).force + exact.reactions()[0].on(2).force).norm(),
      1e-9);
}

TEST(UserConstraint, OneOverThreeBodiesThatIsOffFromTheStartCarriesNothing) {
  TestWorld w(0);
  btRigidBody& a = w.ball(1, 0.1, btVector3(-1, 0, 0));
  btRigidBody& b = w.ball(2, 0.1, btVector3(0, 0, 0));
  btRigidBody& c = w.ball(1, 0.1, btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  auto middle = exact.constrain(
      "middle", {a, b, c}, [](const auto& s) { return s[0].position() + s[2].position() - 2.0 * s[1].position(); });
  middle.enable(false);
  ASSERT_EQ(exact.reactions().size(), 1u);
  w.step(2);
  EXPECT_TRUE(exact.reactions()[0].on(2).force.isZero(0));
  middle.enable(true);
  w.step();
  EXPECT_LE(exact.reactions()[0].residual, precision(1e-13, 1e-5));
}

// Rows that the native solver runs for us: a body that stands, as a gear's carrier does, adds no second pair that would
// hold the first back.
TEST(UserConstraint, AStandingThirdBodyLeavesTheNativeRowsAlone) {
  double turning[2] = {0, 0};
  for (const bool solved : {true, false}) {
    TestWorld w(0);
    const btVector3 half(btScalar(0.2), btScalar(0.2), btScalar(0.2));
    btRigidBody& a = w.box(1, half, btVector3(-1, 0, 0));
    btRigidBody& b = w.box(4, half, btVector3(1, 0, 0));
    bullet::Options options;
    options.mode = solved ? bullet::Mode::exact : bullet::Mode::passive;
    bullet::Solver solver(w.world, options);
    solver.add(joints::gear("mesh", solver.id(a), Vector3d::UnitZ(), solver.id(b), Vector3d::UnitZ(), 2));
    for (int i = 0; i < 24; ++i) {
      a.applyTorque(btVector3(0, 0, btScalar(0.1)));
      w.step();
    }
    turning[solved] = double(a.getAngularVelocity().z());
    EXPECT_NEAR(double(b.getAngularVelocity().z()), -0.5 * turning[solved], precision(1e-6, 1e-4));
  }
  EXPECT_GT(turning[true], 0.1);
  EXPECT_NEAR(turning[false], turning[true], 1e-3 * turning[true]);
}

TEST(UserConstraint, AKnifeEdgeHoldsItsMidpointCondition) {
  TestWorld w(0);
  btRigidBody& blade = w.box(2, btVector3(btScalar(0.3), btScalar(0.05), btScalar(0.05)), btVector3(0, 0, 0));
  blade.setLinearVelocity(btVector3(2, 0, 0));
  blade.setAngularVelocity(btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  exact.constrain_velocity("skate", {blade}, [](const auto& s) { return dot(s[0].velocity(), s[0].axis(0, 0, 1)); });
  w.step(240 * 20);
  EXPECT_NEAR(double(blade.getLinearVelocity().length()), 2,
              precision(1e-4, 1e-3));  // the end point would pump it to 2.2
}

// A skate runs in a groove of a turntable that the program turns. The skate's velocity at the end of a step is along
// the direction that the groove has in the middle of the step (T12).
TEST(UserConstraint, AConditionOnVelocitiesMeetsAKinematicBodyInTheMiddleOfTheStep) {
  TestWorld w(0);
  btRigidBody& table = w.box(0, btVector3(1, btScalar(0.05), 1), btVector3(0, -1, 0));
  table.setCollisionFlags(table.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
  table.setActivationState(DISABLE_DEACTIVATION);
  btRigidBody& skate = w.ball(2, 0.1, btVector3(0, 0, 0));
  skate.setLinearVelocity(btVector3(2, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain_velocity("groove", {skate, table},
                           [](const auto& s) { return dot(s[0].velocity(), s[1].axis(0, 0, 1)); });
  const double turn = 0.01;  // [rad] in a step
  for (int i = 1; i <= 240; ++i) {
    table.setWorldTransform(btTransform(btQuaternion(btVector3(0, 1, 0), btScalar(turn * i)), btVector3(0, -1, 0)));
    w.step();
    if (i == 1) continue;  // Bullet has no velocity of it before
    const double middle = turn * (i - 0.5);
    const btVector3 v = skate.getLinearVelocity();
    ASSERT_NEAR(double(v.x()) * std::sin(middle) + double(v.z()) * std::cos(middle), 0, precision(1e-9, 1e-4)) << i;
  }
}

TEST(UserConstraint, SaysWhatIsWrongWithIt) {
  TestWorld w, other;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  btRigidBody& b = w.ball(1, 0.1, btVector3(0, 0, 0));
  btRigidBody& floor = w.box(0, btVector3(1, 1, 1), btVector3(0, -5, 0));
  btRigidBody& stranger = other.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  const auto together = [](const auto& s) { return s[0].position() - s[1].position(); };
  const auto distance = [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; };
  EXPECT_NE(message_of([&] {
              exact.constrain("tie", {a, stranger}, together);
            }).find("'tie': body 1 is not in the world"),
            std::string::npos);
  EXPECT_NE(message_of([&] { exact.constrain("dist", {a, b}, distance); }).find("dist"), std::string::npos);
  EXPECT_NE(message_of([&] {
              exact.constrain("still", {floor}, [](const auto& s) { return s[0].position(); });
            }).find("still"),
            std::string::npos);
  exact.constrain("one", {a, b}, together);
  EXPECT_NE(message_of([&] {
              exact.constrain("one", {a, b}, together);
            }).find("another constraint has the name 'one'"),
            std::string::npos);
  const auto again = exact.try_constrain("again", {&a, &stranger}, together);
  EXPECT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::argument);
  EXPECT_NE(again.error().message.find("again"), std::string::npos);
  w.step(3);
  EXPECT_EQ(exact.reactions().size(), 1u);
}

TEST(UserConstraint, ContradictoryOnesAreNamed) {
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain_acceleration("up", {&a}, [](const auto& s) { return s[0].acceleration().y - 1.0; });
  exact.constrain_acceleration("down", {&a}, [](const auto& s) { return s[0].acceleration().y - 3.0; });
  const auto findings = exact.check();
  ASSERT_GE(findings.size(), 2u);
  w.step(2);
  const RankReport ranks = exact.rank_report();
  EXPECT_EQ(ranks.contradictory.size(), 2u);
  EXPECT_NE(exact.summary().find("contradictory constraints: up, down"), std::string::npos) << exact.summary();
  EXPECT_NEAR(double(a.getLinearVelocity().y()), 2 * 2.0 / 240,
              precision(1e-12, 1e-6));  // least squares: 2 m/s² (T-INC)
}

TEST(UserConstraint, PosesAndVelocitiesThatContradictAreNamedToo) {
  TestWorld w(0);
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  btRigidBody& b = w.ball(1, 0.1, btVector3(5, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("here", {a}, [](const auto& s) { return s[0].position().x; });
  exact.constrain("there", {a}, [](const auto& s) { return s[0].position().x - 1.0; });
  exact.constrain_velocity("slow", {b}, [](const auto& s) { return s[0].velocity().x - 1.0; });
  exact.constrain_velocity("fast", {b}, [](const auto& s) { return s[0].velocity().x - 2.0; });
  w.step(20);
  EXPECT_NE(exact.summary().find("contradictory constraints: here, there, slow, fast"), std::string::npos)
      << exact.summary();
  EXPECT_EQ(exact.rank_report().contradictory.size(), 4u);
  EXPECT_NEAR(double(a.getWorldTransform().getOrigin().x()), 0.5, precision(1e-9, 1e-5));
  EXPECT_NEAR(double(b.getLinearVelocity().x()), 1.5, precision(1e-12, 1e-5));
  EXPECT_EQ(exact.counts().gap_corrections, 0);  // nothing was closed
}

TEST(UserConstraint, OneThatStopsBeingFiniteIsLeftOutAndNamedAndNoNaNReachesTheWorld) {
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("fades", {a}, [](const auto& s) {
    return dot(s[0].position(), s[0].position()) - sqrt(0.5 - s.t) * 0.0 - 0.0 * s.t;
  });
  w.step(240);
  EXPECT_TRUE(w.finite());
  EXPECT_GT(exact.counts().fallbacks, 0);
  EXPECT_NE(exact.summary().find("fades"), std::string::npos) << exact.summary();
}

TEST(UserConstraint, WhatFailsTimeAndAgainIsTriedNowAndThenAndHoldsAgainOnceItCan) {
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  double scale = 1;
  long calls = 0;
  exact.constrain("hold", {a}, [&](const auto& s) {
    ++calls;
    return scale * s[0].position();
  });
  const auto calls_in = [&](int steps) {
    const long before = calls;
    w.step(steps);
    return calls - before;
  };
  w.step(3);
  ASSERT_EQ(exact.counts().fallbacks, 0);
  scale = NAN;
  const long each_tried = calls_in(8);
  EXPECT_EQ(exact.counts().fallbacks, 8);
  w.step(200);
  EXPECT_EQ(exact.counts().fallbacks, 208);
  EXPECT_LT(calls_in(64), 8 * each_tried);
  EXPECT_NE(exact.summary().find("tries again in"), std::string::npos) << exact.summary();
  scale = 1;
  w.step(66);
  const long left = exact.counts().fallbacks;
  w.step(10);
  EXPECT_EQ(exact.counts().fallbacks, left);
  EXPECT_NEAR(double(a.getWorldTransform().getOrigin().y()), 0, precision(1e-9, 1e-5));

  scale = NAN;
  w.step(40);
  scale = 1;
  exact.reset();
  w.step(2);
  EXPECT_EQ(exact.counts().fallbacks, 0);  // counted anew: there was nothing to wait for
}

// One step in ten fails. The constraint holds in the steps between, so that every failure is followed by a new try in
// the next step.
TEST(UserConstraint, WhatFailsNowAndThenIsHeldInAllOtherSteps) {
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  double scale = 1;
  exact.constrain("hold", {a}, [&](const auto& s) { return scale * s[0].position(); });
  for (int i = 1; i <= 30; ++i) {
    scale = NAN;
    w.step();
    scale = 1;
    w.step(9);
    ASSERT_EQ(exact.counts().fallbacks, i) << exact.summary();
  }
}

TEST(UserConstraint, CanBeSwitchedRemovedAndForgotten) {
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle hold = exact.constrain("hold", {a}, [](const auto& s) { return s[0].position(); });
  w.step(10);
  EXPECT_NEAR(double(a.getLinearVelocity().y()), 0, precision(1e-13, 1e-5));
  hold.enable(false);
  w.step(10);
  EXPECT_LT(double(a.getLinearVelocity().y()), -0.1);
  EXPECT_EQ(w.world.getNumConstraints(), 1);
  hold.remove();
  EXPECT_FALSE(hold.valid());
  EXPECT_EQ(w.world.getNumConstraints(), 0);
  bullet::Handle again = exact.constrain("hold", {a}, [](const auto& s) { return s[0].position(); });
  exact.release_body(a);
  EXPECT_FALSE(again.valid());
  EXPECT_EQ(w.world.getNumConstraints(), 0);
  w.step(2);
  EXPECT_TRUE(exact.reactions().empty());
}

}  // namespace
}  // namespace linchpin::test::user_constraint_test
