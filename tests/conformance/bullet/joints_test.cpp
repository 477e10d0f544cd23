// Every stock joint: adopted by limits and flags, exact rows exact, native rows still native.
#include "world.h"

#include "random.h"

#include <gtest/gtest.h>

namespace linchpin::test::joints_test {
namespace {

const btVector3 half(btScalar(0.2), btScalar(0.1), btScalar(0.15));
btTransform frame_at(double x, const btQuaternion& q = btQuaternion::getIdentity()) {
  return btTransform(q, btVector3(btScalar(x), 0, 0));
}

struct Two {
  TestWorld w;
  btRigidBody &a, &b;
  Two() : a(w.box(2, half, btVector3(0, 0, 0))), b(w.box(1, half, btVector3(btScalar(0.6), 0, 0))) {
    w.joint<btPoint2PointConstraint>(a, btVector3(btScalar(-0.2), btScalar(0.1), 0));
    a.setAngularVelocity(btVector3(btScalar(0.5), btScalar(-0.3), btScalar(0.4)));
    b.setLinearVelocity(btVector3(btScalar(0.1), btScalar(0.2), btScalar(-0.1)));
  }
  int rows(bullet::Solver& exact) {
    w.step();
    return static_cast<int>(exact.reactions()[1].lambda.size());
  }
};

void stays_closed(Two& two, int rows) {
  bullet::Solver exact(two.w.world);
  EXPECT_EQ(two.rows(exact), rows);
  double gap = 0;
  for (int i = 0; i < 240; ++i) {
    two.w.step();
    gap = std::max(gap, largest_gap(exact));
    EXPECT_LE(worst_books(exact), 1e-12);
  }
  EXPECT_LE(gap, precision(2e-14, 2e-6));
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(Joints, Point2PointIsThreeRows) {
  Two t;
  t.w.joint<btPoint2PointConstraint>(t.a, t.b, btVector3(btScalar(0.3), 0, 0), btVector3(btScalar(-0.3), 0, 0));
  stays_closed(t, 3);
}
TEST(Joints, HingeIsFiveRowsWithASkewAxisToo) {  // Bullet's own frame is not orthonormal for this axis
  Two t;
  const btVector3 axis(btScalar(0.7071067811865476), btScalar(0.7071067811865476), 0);
  t.w.joint<btHingeConstraint>(t.a, t.b, btVector3(btScalar(0.3), 0, 0), btVector3(btScalar(-0.3), 0, 0), axis, axis);
  stays_closed(t, 5);
}
TEST(Joints, LockedHingeIsSixRowsAtItsAngle) {
  Two t;
  btHingeConstraint& hinge = t.w.joint<btHingeConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3));
  hinge.setLimit(0, 0);
  stays_closed(t, 6);
  EXPECT_NEAR(double(hinge.getHingeAngle()), 0, precision(1e-13, 1e-5));
}
TEST(Joints, SliderLocksItsTwistByDefault) {
  Two t;
  btSliderConstraint& slider = t.w.joint<btSliderConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3), true);
  slider.setLowerLinLimit(-2);
  slider.setUpperLinLimit(2);
  stays_closed(t, 5);
}
TEST(Joints, SliderWithLockedTravelIsSixRows) {
  Two t;
  btSliderConstraint& slider = t.w.joint<btSliderConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3), true);
  slider.setLowerLinLimit(0);
  slider.setUpperLinLimit(0);
  stays_closed(t, 6);
}
TEST(Joints, FixedIsSixRows) {
  Two t;
  t.w.joint<btFixedConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3));
  stays_closed(t, 6);
}
TEST(Joints, UniversalIsFourRows) {
  Two t;
  t.w.joint<btUniversalConstraint>(t.a, t.b, btVector3(btScalar(0.3), 0, 0), btVector3(0, 1, 0), btVector3(0, 0, 1));
  stays_closed(t, 4);
}
TEST(Joints, SixDofWithLockedPointAndFreeTurningIsThreeRows) {
  Two t;
  btGeneric6DofConstraint& d6 = t.w.joint<btGeneric6DofConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3), true);
  for (int i = 3; i < 6; ++i) d6.setLimit(i, 1, -1);
  stays_closed(t, 3);
}

// All three Euler angles locked at angles that are not zero, in every order: Bullet must read back what it asked for.
class SixDofOrder : public ::testing::TestWithParam<int> {};
TEST_P(SixDofOrder, HoldsTheEulerAnglesItWasLockedAt) {
  const RotateOrder order = static_cast<RotateOrder>(GetParam());
  Two t;
  const double angles[3] = {0.3, -0.2, 0.25};
  btGeneric6DofSpring2Constraint& d6 =
      t.w.joint<btGeneric6DofSpring2Constraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3), order);
  for (int i = 0; i < 3; ++i) {
    d6.setLimit(i, 0, 0);
    d6.setLimit(i + 3, btScalar(angles[i]), btScalar(angles[i]));
  }
  bullet::Solver exact(t.w.world);
  EXPECT_EQ(t.rows(exact), 6);
  EXPECT_GE(exact.counts().gap_corrections, 1);  // the bodies start level
  t.w.step(60);
  d6.calculateTransforms();
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(double(d6.getAngle(i)), angles[i], precision(1e-12, 1e-5)) << "axis " << i;
  EXPECT_LE(largest_gap(exact), precision(2e-14, 2e-6));
}
INSTANTIATE_TEST_SUITE_P(AllOrders, SixDofOrder, ::testing::Range(0, 6));

TEST(Joints, ConeTwistIsThreeRowsAndItsLimitsStayNative) {
  Two t;
  btConeTwistConstraint& cone = t.w.joint<btConeTwistConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3));
  cone.setLimit(btScalar(0.4), btScalar(0.3), btScalar(0.2));
  bullet::Solver exact(t.w.world);
  EXPECT_EQ(t.rows(exact), 3);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_EQ(exact.native()[0].why, "swing limits, twist limits");
  t.b.setAngularVelocity(btVector3(3, 4, 5));  // against the limits
  double gap = 0, swing = 0;
  for (int i = 0; i < 480; ++i) {
    t.w.step();
    gap = std::max(gap, largest_gap(exact));
    const btVector3 x_a = t.a.getWorldTransform().getBasis().getColumn(0),
                    x_b = t.b.getWorldTransform().getBasis().getColumn(0);
    swing = std::max(swing, double(x_a.angle(x_b)));
  }
  EXPECT_LE(gap, precision(2e-14, 2e-6));
  EXPECT_GT(swing, 0.25);  // it was reached,
  EXPECT_LT(swing, 0.6);   // and Bullet's own rows held it
}
TEST(Joints, ConeTwistWithNoSpansIsSixRows) {
  Two t;
  t.w.joint<btConeTwistConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3)).setLimit(0, 0, 0);
  stays_closed(t, 6);
}
TEST(Joints, ConeTwistWithATwistSpanIsFiveRows) {
  Two t;
  t.w.joint<btConeTwistConstraint>(t.a, t.b, frame_at(0.3), frame_at(-0.3)).setLimit(0, 0, btScalar(0.5));
  stays_closed(t, 5);
}

// Two wheels on the world, meshed. With torque τ on the first: α = τ / (I₁ + I₂/ratio²), and the gear carries
// −I₂α/ratio².
TEST(Joints, AGearCarriesItsTorqueAndDoesNotDrift) {
  for (const bool with_us : {true, false}) {
    TestWorld w(0);
    btRigidBody& a = w.box(2, half, btVector3(0, 0, 0));
    btRigidBody& b = w.box(1, half, btVector3(1, 0, 0));
    const btVector3 z(0, 0, 1);
    w.joint<btHingeConstraint>(a, btVector3(0, 0, 0), z);
    w.joint<btHingeConstraint>(b, btVector3(0, 0, 0), z);
    const double ratio = 2.5;
    w.joint<btGearConstraint>(a, b, z, z, btScalar(ratio));
    std::unique_ptr<bullet::Solver> exact;
    if (with_us) exact = std::make_unique<bullet::Solver>(w.world);
    const double Ia = 1 / double(a.getInvInertiaDiagLocal().z()), Ib = 1 / double(b.getInvInertiaDiagLocal().z());
    double turned_a = 0, turned_b = 0, worst = 0;
    for (int i = 0; i < 600; ++i) {
      const double torque = 0.02 + 0.01 * std::cos(0.01 * i);
      a.applyTorque(btVector3(0, 0, btScalar(torque)));
      w.step();
      turned_a += double(a.getAngularVelocity().z()) / 240;
      turned_b += double(b.getAngularVelocity().z()) / 240;
      worst = std::max(worst, std::abs(turned_a + ratio * turned_b));
      if (!with_us) continue;
      const double alpha = double(btScalar(torque)) / (Ia + Ib / (ratio * ratio));
      EXPECT_NEAR(exact->reactions()[2].on_a.moment.z(), -Ib * alpha / (ratio * ratio), precision(1e-13, 1e-7));
      EXPECT_LE(worst_books(*exact), 1e-12);
    }
    EXPECT_LT(worst, precision(1e-12, 1e-4)) << with_us;
    if (!with_us) continue;
    EXPECT_GT(std::abs(turned_a), 1.0);
    EXPECT_LE(exact->find("gear#2").reaction().gap_angle, precision(1e-13, 1e-5));
  }
}

// A plane mechanism as games make it: factors hold a body in the plane. They become rows, so that the others pull on it
// exactly.
TEST(Joints, ZeroFactorsBecomeRows) {
  TestWorld w;
  chain(w, 4);
  btRigidBody& held = *w.bodies[1];
  held.setLinearFactor(btVector3(1, 1, 0));
  held.setAngularFactor(btVector3(0, 0, 1));
  bullet::Solver exact(w.world);
  w.bodies[3]->setLinearVelocity(btVector3(0, 0, 2));
  w.bodies[3]->setAngularVelocity(btVector3(3, 1, 0));
  double out_of_plane = 0, gap = 0, pulled = 0;
  for (int i = 0; i < 480; ++i) {
    w.step();
    out_of_plane =
        std::max({out_of_plane, std::abs(double(held.getLinearVelocity().z())),
                  std::abs(double(held.getAngularVelocity().x())), std::abs(double(held.getAngularVelocity().y()))});
    gap = std::max(gap, largest_gap(exact));
    EXPECT_LE(worst_books(exact), 1e-12);
    pulled = std::max(pulled, std::abs(exact.reactions().back().on_a.force.z()));
  }
  EXPECT_TRUE(exact.native().empty());
  EXPECT_LE(out_of_plane, precision(1e-12, 1e-5));
  EXPECT_LE(gap, precision(2e-14, 2e-6));
  EXPECT_GT(pulled, 0.1);  // the free links pull it sideways, and its own rows answer
  EXPECT_EQ(exact.counts().fallbacks, 0);

  held.setLinearFactor(btVector3(1, 1, 1));  // and back, at run time
  held.setAngularFactor(btVector3(1, 1, 1));
  const std::size_t before = exact.reactions().size();
  w.step(60);
  EXPECT_EQ(exact.reactions().size(), before - 1);
  EXPECT_GT(std::abs(double(held.getLinearVelocity().z())), 1e-4);
}

TEST(Joints, SoftOrClampedOnesStayNativeAndSaySo) {
  Two t;
  btPoint2PointConstraint& p =
      t.w.joint<btPoint2PointConstraint>(t.a, t.b, btVector3(btScalar(0.3), 0, 0), btVector3(btScalar(-0.3), 0, 0));
  p.m_setting.m_impulseClamp = 5;
  bullet::Solver exact(t.w.world);
  t.w.step(10);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_EQ(exact.native()[0].why, "all (the program has set an impulse clamp)");
  EXPECT_TRUE(exact.reactions()[1].native);
  EXPECT_GT(exact.reactions()[1].on_b.force.norm(), 0.1);  // what Bullet's own rows did
  p.m_setting.m_impulseClamp = 0;                          // a change is seen at the next step
  t.w.step(1);
  EXPECT_TRUE(exact.native().empty());
  EXPECT_FALSE(exact.reactions()[1].native);
}

TEST(Joints, HingeLimitStaysNativeAndHolds) {
  TestWorld w;
  btRigidBody& a = w.box(1, btVector3(btScalar(0.25), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(0.25), 0, 0));
  btHingeConstraint& h = w.joint<btHingeConstraint>(a, btVector3(btScalar(-0.25), 0, 0), btVector3(0, 0, 1));
  h.setLimit(btScalar(-0.4), btScalar(0.4));
  bullet::Solver exact(w.world);
  w.step(480);
  EXPECT_NEAR(std::abs(double(h.getHingeAngle())), 0.4, 0.01);
  EXPECT_LE(largest_gap(exact), precision(2e-14, 2e-6));
}

TEST(Joints, AnAnimatedBodyCarriesItsJointAlong) {
  TestWorld w;
  btRigidBody& hand = w.box(0, half, btVector3(0, 0, 0));
  hand.setCollisionFlags(hand.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
  hand.setActivationState(DISABLE_DEACTIVATION);
  struct Motion : btMotionState {
    btTransform x = btTransform::getIdentity();
    void getWorldTransform(btTransform& to) const override { to = x; }
    void setWorldTransform(const btTransform&) override {}
  } motion;
  hand.setMotionState(&motion);
  btRigidBody& load = w.box(1, half, btVector3(0, -1, 0));
  w.joint<btPoint2PointConstraint>(hand, load, btVector3(0, 0, 0), btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  double gap = 0;
  for (int i = 1; i <= 240; ++i) {
    motion.x.setOrigin(btVector3(btScalar(0.5 * std::sin(i / 40.0)), 0, 0));
    w.step();
    gap = std::max(gap, exact.reactions()[0].gap);
  }
  EXPECT_LE(gap, precision(2e-14, 2e-6));
  hand.setMotionState(nullptr);
}

}  // namespace
}  // namespace linchpin::test::joints_test
