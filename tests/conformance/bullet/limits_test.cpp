// Limits that span whole turns, that cross half a turn, and whose lower is above the upper. Each joint is as free, as
// stopped and as locked as Bullet has it, and the reports say so.
#include "world.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

namespace linchpin::test::limits_test {
namespace {

struct Range {
  double lower, upper;
  std::string text() const { return "[" + std::to_string(lower) + ", " + std::to_string(upper) + "]"; }
};

btTransform turned_about_z(double angle, double x = 0) {
  return btTransform(btQuaternion(btVector3(0, 0, 1), btScalar(angle)), btVector3(btScalar(x), 0, 0));
}
// The frame whose axis of that number lies along z.
btQuaternion to_z(int axis) {
  if (axis == 0) return btQuaternion(btVector3(0, 1, 0), -SIMD_HALF_PI);
  if (axis == 1) return btQuaternion(btVector3(1, 0, 0), SIMD_HALF_PI);
  return btQuaternion::getIdentity();
}

/// A wheel that turns about z on the world with no gravity, by whichever joint.
struct Wheel {
  TestWorld w{0};
  btRigidBody &post, &wheel;
  explicit Wheel(double speed = 2)
      : post(w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0))),
        wheel(w.box(1, btVector3(btScalar(0.3), btScalar(0.2), btScalar(0.1)), btVector3(0, 0, 0))) {
    wheel.setAngularVelocity(btVector3(0, 0, btScalar(speed)));
  }
  double angle() const {
    const btMatrix3x3& R = wheel.getWorldTransform().getBasis();
    return std::atan2(double(R[1][0]), double(R[0][0]));
  }
  /// How far it turns in so many steps, whole turns counted; a limit may push it back.
  double turn(int steps) {
    double sum = 0, last = angle(), most = 0;
    for (int i = 0; i < steps; ++i) {
      w.step();
      sum += std::remainder(angle() - last, 2 * pi);
      last = angle();
      most = std::max(most, sum);
    }
    return most;
  }
};

const Range whole_turns[] = {{-2 * pi, 2 * pi}, {0, 2 * pi}, {-4 * pi, 4 * pi}, {-4, 4}, {-pi, pi}, {1, 8}};

TEST(Limits, AHingeThatMayTurnAWholeTurnIsFreeAndSaysSo) {
  for (const Range& range : whole_turns) {
    SCOPED_TRACE(range.text());
    Wheel t;
    auto& hinge = t.w.joint<btHingeConstraint>(t.post, t.wheel, turned_about_z(0), turned_about_z(0));
    hinge.setLimit(btScalar(range.lower), btScalar(range.upper));
    bullet::Solver exact(t.w.world);
    EXPECT_NEAR(t.turn(960), 8, 1e-3);
    EXPECT_EQ(exact.reactions()[0].lambda.size(), 5u);
    EXPECT_TRUE(exact.native().empty()) << exact.native()[0].why;
  }
}

TEST(Limits, AHingeWhoseLowerLimitIsAboveItsUpperIsFree) {
  for (const Range& range : {Range{2 * pi, -2 * pi}, Range{pi, -pi}, Range{1, -1}, Range{4 * pi, 0}}) {
    SCOPED_TRACE(range.text());
    Wheel t;
    auto& hinge = t.w.joint<btHingeConstraint>(t.post, t.wheel, turned_about_z(0), turned_about_z(0));
    hinge.setLimit(btScalar(range.lower), btScalar(range.upper));
    bullet::Solver exact(t.w.world);
    EXPECT_NEAR(t.turn(480), 4, 1e-3);
    EXPECT_TRUE(exact.native().empty());
  }
}

TEST(Limits, AHingeIsLockedAndFreedByLimitsThatReadAlike) {
  Wheel t;
  auto& hinge = t.w.joint<btHingeConstraint>(t.post, t.wheel, turned_about_z(0), turned_about_z(0));
  bullet::Solver exact(t.w.world);
  const auto rows = [&] { return exact.reactions()[0].lambda.size(); };
  hinge.setLimit(0, 0);
  t.w.step(2);
  EXPECT_EQ(rows(), 6u);
  EXPECT_NEAR(double(t.wheel.getAngularVelocity().z()), 0, precision(1e-12, 1e-6));
  for (const Range& free : {Range{-2 * pi, 2 * pi}, Range{2 * pi, -2 * pi}}) {
    hinge.setLimit(btScalar(free.lower), btScalar(free.upper));
    t.wheel.setAngularVelocity(btVector3(0, 0, 2));
    EXPECT_NEAR(t.turn(240), 2, 1e-3);
    EXPECT_EQ(rows(), 5u);
    const double at = -double(hinge.getHingeAngle());
    hinge.setLimit(btScalar(-at), btScalar(-at));
    t.w.step(2);
    EXPECT_EQ(rows(), 6u);
    EXPECT_NEAR(double(t.wheel.getAngularVelocity().z()), 0, precision(1e-9, 1e-4));
  }
}

// Bullet's limits of a hinge cross half a turn where they span less than a whole one.
TEST(Limits, AHingeStopsAtLimitsBeyondHalfATurn) {
  for (const Range& range : {Range{2.5, 4}, Range{-4, -2.5}, Range{-0.5, 4}, Range{6, 7}}) {
    SCOPED_TRACE(range.text());
    const double middle = 0.5 * (range.lower + range.upper), reach = 0.5 * (range.upper - range.lower);
    Wheel t;
    t.wheel.setWorldTransform(turned_about_z(-middle));  // the hinge's angle is that of its first body
    auto& hinge = t.w.joint<btHingeConstraint>(t.post, t.wheel, turned_about_z(0), turned_about_z(0));
    hinge.setLimit(btScalar(range.lower), btScalar(range.upper), btScalar(0.9), btScalar(0.3), 0);
    bullet::Solver exact(t.w.world);
    EXPECT_NEAR(t.turn(960), reach, 0.02);
    ASSERT_EQ(exact.native().size(), 1u);
    EXPECT_EQ(exact.native()[0].why, "limits");
  }
}

TEST(Limits, ALockThatStaysNativeIsStillALock) {
  const auto hang = [](const std::function<void(btHingeConstraint&)>& with, std::string* why) {
    TestWorld w;
    btRigidBody& post = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    btRigidBody& arm =
        w.box(1, btVector3(btScalar(0.25), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(0.5), 0, 0));
    auto& hinge = w.joint<btHingeConstraint>(post, arm, turned_about_z(0), turned_about_z(0, -0.5));
    hinge.setLimit(0, 0);
    with(hinge);
    std::optional<bullet::Solver> exact;
    if (why) exact.emplace(w.world);
    w.step(240);
    if (why) *why = exact->native().empty() ? "" : exact->native()[0].why;
    return double(hinge.getHingeAngle());
  };
  std::string why;
  const auto soft = [](btHingeConstraint& h) { h.setParam(BT_CONSTRAINT_STOP_CFM, btScalar(0.01)); };
  EXPECT_NEAR(hang(soft, &why), hang(soft, nullptr), 0.02);
  EXPECT_EQ(why, "limits");
  const auto motor = [](btHingeConstraint& h) { h.enableAngularMotor(true, 1, 100); };
  EXPECT_NEAR(hang(motor, &why), hang(motor, nullptr), 0.02);
  EXPECT_EQ(why, "limits, motor");
}

// Every other joint normalises each limit when it is set: what whole turns come to there is a lock in Bullet itself.
TEST(Limits, JointsAreAsFreeByTheirLimitsAsBulletHasThem) {
  struct Kind {
    const char* name;
    std::function<void(Wheel&, const Range&)> join;
  };
  std::vector<Kind> kinds;
  kinds.push_back({"slider", [](Wheel& t, const Range& range) {
                     const btTransform f(to_z(0), btVector3(0, 0, 0));
                     auto& slider = t.w.joint<btSliderConstraint>(t.post, t.wheel, f, f, true);
                     slider.setLowerLinLimit(0), slider.setUpperLinLimit(0);
                     slider.setLowerAngLimit(btScalar(range.lower)), slider.setUpperAngLimit(btScalar(range.upper));
                   }});
  for (const int axis : {0, 2}) {  // the middle one has no more than half a turn
    kinds.push_back({axis == 0 ? "6dof x" : "6dof z", [axis](Wheel& t, const Range& range) {
                       const btTransform f(to_z(axis), btVector3(0, 0, 0));
                       auto& d6 = t.w.joint<btGeneric6DofConstraint>(t.post, t.wheel, f, f, true);
                       for (int i = 0; i < 6; ++i) d6.setLimit(i, 0, 0);
                       d6.setLimit(3 + axis, btScalar(range.lower), btScalar(range.upper));
                     }});
    kinds.push_back({axis == 0 ? "6dof spring 2 x" : "6dof spring 2 z", [axis](Wheel& t, const Range& range) {
                       const btTransform f(to_z(axis), btVector3(0, 0, 0));
                       auto& d6 = t.w.joint<btGeneric6DofSpring2Constraint>(t.post, t.wheel, f, f);
                       for (int i = 0; i < 6; ++i) d6.setLimit(i, 0, 0);
                       d6.setLimit(3 + axis, btScalar(range.lower), btScalar(range.upper));
                     }});
  }
  const Range ranges[] = {{-2 * pi, 2 * pi}, {0, 2 * pi}, {-4 * pi, 4 * pi}, {-pi, pi}, {1, -1},
                          {-4, 4},           {0, 4},      {-0.5, 0.5},       {0, 0},    {2 * pi, -2 * pi}};
  for (const Kind& kind : kinds)
    for (const Range& range : ranges) {
      SCOPED_TRACE(kind.name + (" " + range.text()));
      double by[2];
      for (const bool held : {false, true}) {
        Wheel t;
        kind.join(t, range);
        std::optional<bullet::Solver> exact;
        if (held) exact.emplace(t.w.world);
        by[held] = t.turn(480);
        if (held && std::abs(by[0]) > 3.9) {
          EXPECT_NEAR(by[1], 4, 1e-3);
          // Spring2's own rows act ahead of a limit, at half a turn as elsewhere.
          EXPECT_TRUE(exact->native().empty()) << exact->native()[0].why;
        }
      }
      EXPECT_NEAR(by[1], by[0], 0.05);
    }
}

TEST(Limits, AConeTwistWithSpansOfHalfATurnIsABallAndSaysSo) {
  for (const double span : {pi, 2 * pi, 1e18}) {
    SCOPED_TRACE(span);
    Wheel t;
    const btTransform f(to_z(0), btVector3(0, 0, 0));
    t.w.joint<btConeTwistConstraint>(t.post, t.wheel, f, f).setLimit(btScalar(span), btScalar(span), btScalar(span));
    bullet::Solver exact(t.w.world);
    EXPECT_NEAR(t.turn(960), 8, 1e-3);
    EXPECT_TRUE(exact.native().empty()) << exact.native()[0].why;
  }
}

// The energy that limits may give was a share of what moves and of what forces could give, which is nothing here.
TEST(Limits, BringBackWhatRestsBeyondThemWithoutForces) {
  for (const int kind : {0, 1, 2}) {
    SCOPED_TRACE(kind);
    Wheel t(0);
    const btTransform frame = turned_about_z(0);
    const btScalar least = btScalar(0.3), most = btScalar(1.2);
    if (kind == 0) {
      t.w.joint<btHingeConstraint>(t.post, t.wheel, frame, frame).setLimit(-most, -least);
    } else if (kind == 1) {
      auto& slider = t.w.joint<btSliderConstraint>(t.post, t.wheel, frame, frame, true);
      slider.setLowerLinLimit(least);
      slider.setUpperLinLimit(most);
    } else {
      auto& joint = t.w.joint<btGeneric6DofConstraint>(t.post, t.wheel, frame, frame, true);
      for (int i = 0; i < 6; ++i) joint.setLimit(i, 0, 0);
      joint.setLimit(0, least, most);
    }
    bullet::Solver exact(t.w.world);
    double far = 0;
    for (int i = 0; i < 600; ++i) {
      t.w.step(1, 1.0 / 60);
      far = std::max(far, kind == 0 ? std::abs(t.angle()) : double(t.wheel.getWorldTransform().getOrigin().x()));
    }
    EXPECT_GE(far, 0.29);
  }
}

// Their solver body moves for all of them: without that contacts seemed to have done no work.
TEST(Limits, WeldedBodiesComeOutOfAnOverlapWithoutForces) {
  TestWorld w(0);
  const btVector3 half(btScalar(0.5), btScalar(0.1), btScalar(0.1));
  w.box(0, half, btVector3(0, 0, 0));
  btRigidBody &low = w.box(1, half, btVector3(0, btScalar(0.15), 0)),
              &high = w.box(1, half, btVector3(0, btScalar(0.35), 0));
  btTransform in_low = btTransform::getIdentity(), in_high = in_low;
  in_low.setOrigin(btVector3(0, btScalar(0.1), 0));
  in_high.setOrigin(btVector3(0, btScalar(-0.1), 0));
  w.joint<btFixedConstraint>(low, high, in_low, in_high);
  bullet::Solver exact(w.world);
  w.step(60, 1.0 / 60);
  EXPECT_GE(double(low.getWorldTransform().getOrigin().y()), 0.2);
  EXPECT_EQ(exact.counts().damped_steps, 0);
  EXPECT_EQ(exact.counts().substepped_steps, 0);
}

}  // namespace
}  // namespace linchpin::test::limits_test
