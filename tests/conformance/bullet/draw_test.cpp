// What linchpin draws through the program's own btIDebugDraw.
#include "one_place.h"
#include "world.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin::test::draw_test {
namespace {

struct Recorder final : btIDebugDraw {
  struct Line {
    Vector3d from, to, color;
  };
  struct Sphere {
    Vector3d at, color;
  };
  std::vector<Line> lines;
  std::vector<Sphere> spheres;
  void drawLine(const btVector3& from, const btVector3& to, const btVector3& color) override {
    lines.push_back({bullet::from_bullet(from), bullet::from_bullet(to), bullet::from_bullet(color)});
  }
  void drawSphere(btScalar, const btTransform& at, const btVector3& color) override {
    spheres.push_back({bullet::from_bullet(at.getOrigin()), bullet::from_bullet(color)});
  }
  void drawContactPoint(const btVector3&, const btVector3&, btScalar, int, const btVector3&) override {}
  void reportErrorWarning(const char*) override {}
  void draw3dText(const btVector3&, const char*) override {}
  void setDebugMode(int) override {}
  int getDebugMode() const override { return DBG_DrawWireframe; }
};

// A ball of 200 kg that hangs on one of 3 kg: its pin carries 200 g up on it, and down on the other.
struct TwoBalls {
  TestWorld w;
  btRigidBody& upper = w.ball(3, 0.1, btVector3(0, -1, 0));
  btRigidBody& lower = w.ball(200, 0.1, btVector3(0, -2, 0));
  Recorder recorder;
  TwoBalls() {
    w.joint<btPoint2PointConstraint>(upper, btVector3(0, 1, 0));
    w.joint<btPoint2PointConstraint>(lower, upper, btVector3(0, btScalar(0.5), 0), btVector3(0, btScalar(-0.5), 0));
    w.world.setDebugDrawer(&recorder);
  }
  bool drawn(const Vector3d& from, const Vector3d& to) const {
    return std::any_of(recorder.lines.begin(), recorder.lines.end(), [&](const Recorder::Line& l) {
      return (l.from - from).norm() <= precision(1e-12, 1e-5) && (l.to - to).norm() <= precision(1e-12, 1e-5);
    });
  }
};

TEST(Draw, ReactionsAreArrowsOfTheirForce) {
  TwoBalls s;
  bullet::Solver exact(s.w.world, {.draw_force = 1e-4});
  s.w.step(10);
  s.w.world.debugDrawWorld();
  const Vector3d top(0, 0, 0), middle(0, -1.5, 0), g(0, 9.81, 0);
  EXPECT_TRUE(s.drawn(top, top + 1e-4 * 203 * g));
  EXPECT_TRUE(s.drawn(middle, middle + 1e-4 * 200 * g));
  EXPECT_TRUE(s.drawn(middle, middle - 1e-4 * 200 * g));
  EXPECT_EQ(s.recorder.spheres.size(), 2u);  // the bodies themselves, no ghosts
}

TEST(Draw, AScaleThatIsNoneIsRefused) {
  const auto why = [](auto call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  TwoBalls s;
  bullet::Solver exact(s.w.world, {.draw_force = 1e-4});
  s.w.step(10);
  for (const auto& [bad, text] : {std::pair{-0.5, "-0.5"},
                                  {std::numeric_limits<double>::infinity(), "inf"},
                                  {std::numeric_limits<double>::quiet_NaN(), "nan"}}) {
    const std::string got = std::string(" must be finite and not below 0, got ") + text;
    EXPECT_EQ(why([&, bad = bad] { exact.set_options({.draw_force = bad}); }), "linchpin: Options::draw_force" + got);
    EXPECT_EQ(why([bad = bad] { bullet::Solver({.draw_native_difference = bad}); }),
              "linchpin: Options::draw_native_difference" + got);
  }
  EXPECT_EQ(exact.options().draw_force, 1e-4);
  s.w.world.debugDrawWorld();
  EXPECT_FALSE(s.recorder.lines.empty());
}

TEST(Draw, GapsAreRedCrossesAsLongAsTheyAre) {
  TwoBalls s;
  bullet::Solver native(s.w.world, {.mode = bullet::Mode::passive, .draw_force = 1e-4});  // whose joints open
  s.w.step(10);
  s.w.world.debugDrawWorld();
  const Reaction& pin = native.reactions()[1];
  ASSERT_GT(pin.gap, 1e-5);
  for (int axis = 0; axis < 3; ++axis) {
    const Vector3d arm = pin.gap * Vector3d::Unit(axis);
    EXPECT_TRUE(s.drawn(pin.on_a.point - arm, pin.on_a.point + arm));
  }
}

TEST(Draw, NothingUnlessAsked) {
  TwoBalls s;
  s.w.world.debugDrawWorld();
  const std::size_t own = s.recorder.lines.size();
  bullet::Solver exact(s.w.world);
  s.recorder.lines.clear();
  s.w.step(10);
  s.w.world.debugDrawWorld();
  EXPECT_EQ(s.recorder.lines.size(), own);
}

TEST(Draw, GhostsStandWhereTheNativeSolverWouldHaveGone) {
  TwoBalls s;
  bullet::Solver exact(s.w.world, {.compare_native = true, .draw_native_difference = 100});
  s.w.step(1);
  s.w.world.debugDrawWorld();
  ASSERT_EQ(s.recorder.spheres.size(), 4u);
  // The exact answer is no motion. The native solver's first step, by itself:
  TwoBalls native;
  native.w.step(1);
  const Vector3d v = bullet::from_bullet(native.lower.getLinearVelocity());
  ASSERT_LT(v.y(), -1e-6);
  const Vector3d expected = Vector3d(0, -2, 0) + 100.0 / 240 * v;
  EXPECT_TRUE(std::any_of(s.recorder.spheres.begin(), s.recorder.spheres.end(), [&](const Recorder::Sphere& sphere) {
    return (sphere.at - expected).norm() <= precision(1e-9, 1e-4);
  }));
}

TEST(Draw, WhatHasBeenDeletedSinceTheStepHasNoGhost) {
  OnePlace place;
  Recorder recorder;
  btSphereShape ball(btScalar(0.1));
  TestWorld w;
  w.world.setDebugDrawer(&recorder);
  chain(w, 1);
  place.for_the_next();
  btRigidBody& tip = w.body(1, ball, btVector3(1, 0, 0), btQuaternion::getIdentity());
  w.joint<btPoint2PointConstraint>(*w.bodies[0], tip, btVector3(btScalar(0.75), 0, 0), btVector3(0, 0, 0));
  bullet::Solver exact(w.world, {.compare_native = true, .draw_native_difference = 100});
  w.step(3);
  w.world.removeConstraint(w.joints[1].get());
  w.joints.pop_back();
  w.world.removeRigidBody(&tip);
  w.bodies.pop_back();
  w.world.debugDrawWorld();
  EXPECT_TRUE(recorder.spheres.empty());
}

}  // namespace
}  // namespace linchpin::test::draw_test
