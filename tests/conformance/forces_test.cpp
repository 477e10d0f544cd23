// Reactions where contacts and motors carry part of the load (T11), friction laws, breaking.
#include "world.h"

#include <gtest/gtest.h>

namespace linchpin::test {
namespace {

TEST(Reactions, ABlockWeldedOnTopOfOneOnTheFloorReportsItsWeight) {
  TestWorld w;
  w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-0.5), 0));
  btRigidBody& low = w.box(3, btVector3(btScalar(0.5), btScalar(0.25), btScalar(0.5)), btVector3(0, btScalar(0.25), 0));
  btRigidBody& high =
      w.box(2, btVector3(btScalar(0.5), btScalar(0.25), btScalar(0.5)), btVector3(0, btScalar(0.75), 0));
  w.joint<btFixedConstraint>(low, high, btTransform(btQuaternion::getIdentity(), btVector3(0, btScalar(0.25), 0)),
                             btTransform(btQuaternion::getIdentity(), btVector3(0, btScalar(-0.25), 0)));
  bullet::Solver exact(w.world);
  w.step(480);
  const Reaction& r = exact.reactions()[0];
  const double weight = 2 * double(btScalar(9.81));
  // At rest up to what Bullet's ten contact iterations leave: a velocity error of 1e-4 m/s per step is 0.05 N here.
  EXPECT_NEAR(r.on_b.force.y(), weight, 0.01 * weight);
  EXPECT_NEAR(r.on_a.force.y(), -weight, 0.01 * weight);
  EXPECT_LE(largest_gap(exact), precision(1e-14, 1e-6));
  EXPECT_LE(worst_books(exact), 1e-12);
}

TEST(Reactions, AHingeAcrossAMotorReportsItsLoad) {
  TestWorld w;
  btRigidBody& arm = w.box(2, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(0.5), 0, 0));
  btHingeConstraint& hinge = w.joint<btHingeConstraint>(arm, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1));
  hinge.enableAngularMotor(true, 0, 100);  // holds the arm level against gravity
  bullet::Solver exact(w.world);
  w.step(240);
  const Reaction& r = exact.reactions()[0];
  const double weight = 2 * double(btScalar(9.81));
  EXPECT_NEAR(r.on_a.force.y(), weight,
              2e-3 * weight);  // without the motor's impulse a free arm would report a quarter of it
  EXPECT_LE(r.gap, precision(1e-14, 1e-6));
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("motor"), std::string::npos);
}

// What a joint reports does not depend on who asks: with feedback the reactions are put together in every step, without
// it the number comes from the multipliers and the motor's rows alone.
TEST(Reactions, TheAppliedImpulseOfAPartlyNativeJointIsThatOfItsFeedback) {
  for (const bool sliding : {false, true}) {  // a slider's motor pulls along it: force that no multiplier has
    SCOPED_TRACE(sliding);
    TestWorld asked, silent;
    btJointFeedback feedback;
    btTypedConstraint* joints[2];
    for (TestWorld* w : {&asked, &silent}) {
      btRigidBody& arm =
          w->box(2, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(0.5), 0, 0));
      if (sliding) {
        auto& slider = w->joint<btSliderConstraint>(arm, btTransform::getIdentity(), true);
        slider.setLowerLinLimit(-10);
        slider.setUpperLinLimit(10);
        slider.setPoweredLinMotor(true);
        slider.setTargetLinMotorVelocity(100);
        slider.setMaxLinMotorForce(10);
        joints[w == &silent] = &slider;
      } else {
        auto& hinge = w->joint<btHingeConstraint>(arm, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1));
        hinge.enableAngularMotor(true, btScalar(1), 100);
        joints[w == &silent] = &hinge;
      }
    }
    joints[0]->enableFeedback(true);
    joints[0]->setJointFeedback(&feedback);
    bullet::Solver a(asked.world), b(silent.world);
    for (int i = 0; i < 60; ++i) {
      asked.step();
      silent.step();
      ASSERT_EQ(asked.bits(), silent.bits());
      const double impulse = double(joints[0]->getAppliedImpulse());
      EXPECT_GT(impulse, 0.01);
      EXPECT_NEAR(double(joints[1]->getAppliedImpulse()), impulse, precision(1e-13, 1e-6) * impulse);
      EXPECT_NEAR(double(feedback.m_appliedForceBodyA.length()) / 240, impulse, precision(1e-13, 1e-6) * impulse);
    }
    if (sliding) {
      EXPECT_GT(std::abs(double(feedback.m_appliedForceBodyA.x())), 0.5);
    }
  }
}

TEST(Laws, CoulombFrictionOnASliderIsMuTimesTheNormalThrust) {
  TestWorld w;
  btRigidBody& block = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  btTransform frame;
  frame.setIdentity();
  btSliderConstraint& rail = w.joint<btSliderConstraint>(block, frame, true);
  rail.setLowerLinLimit(1);
  rail.setUpperLinLimit(-1);  // free to slide
  bullet::Solver exact(w.world);
  exact.adopt(rail, "rail").law(coulomb(0.3));
  block.setLinearVelocity(btVector3(2, 0, 0));
  w.step(120);
  const double g = double(btScalar(9.81));
  EXPECT_NEAR(double(block.getLinearVelocity().x()), 2 - 0.3 * g * 0.5, precision(1e-10, 1e-4));
  const Reaction& r = exact.reactions()[0];
  // Bullet's one-body slider has the world as its first body.
  EXPECT_NEAR(r.ideal.on_b.force.y(), 2 * g, precision(1e-10, 1e-4));
  EXPECT_NEAR(r.prescribed.on_b.force.x(), -0.3 * 2 * g, precision(1e-10, 1e-4));
  EXPECT_LT(r.work, 0);
  EXPECT_LE(worst_books(exact), 1e-12);
}

TEST(Breaking, ARowBeyondTheThresholdDisablesTheJointAndTheRestGoesOn) {
  TestWorld w;
  chain(w, 3);
  w.joints[1]->setBreakingImpulseThreshold(
      btScalar(2 * 9.81 / 240 * 1.5));  // carries two links at rest, not this swing
  bullet::Solver exact(w.world);
  w.step(240);
  EXPECT_TRUE(w.joints[0]->isEnabled());
  EXPECT_FALSE(w.joints[1]->isEnabled());
  EXPECT_TRUE(w.finite());
  EXPECT_NE(exact.summary().find("broken joints: 1"), std::string::npos);
  EXPECT_EQ(exact.reactions()[1].on_a.force.norm(), 0);  // what is broken carries nothing
  EXPECT_GT(exact.reactions()[0].on_a.force.norm(), 1);
}

TEST(Redundancy, ASecondWeldBesideTheFirstIsNamedAndLeavesTheMotionAlone) {
  std::vector<btScalar> once, twice;
  for (const bool doubled : {false, true}) {
    TestWorld w;
    btRigidBody& a = w.box(1, btVector3(btScalar(0.2), btScalar(0.2), btScalar(0.2)), btVector3(0, 0, 0));
    btRigidBody& b = w.box(1, btVector3(btScalar(0.2), btScalar(0.2), btScalar(0.2)), btVector3(btScalar(0.5), 0, 0));
    const btTransform fa(btQuaternion::getIdentity(), btVector3(btScalar(0.25), 0, 0)),
        fb(btQuaternion::getIdentity(), btVector3(btScalar(-0.25), 0, 0));
    w.joint<btPoint2PointConstraint>(a, btVector3(0, btScalar(0.3), 0));
    w.joint<btFixedConstraint>(a, b, fa, fb);
    if (doubled) w.joint<btFixedConstraint>(a, b, fa, fb);
    bullet::Solver exact(w.world);
    w.step(120);
    (doubled ? twice : once) = w.bits();
    EXPECT_LE(largest_gap(exact), precision(1e-14, 1e-6));
    if (!doubled) continue;
    EXPECT_TRUE(exact.reactions()[0].determined);
    EXPECT_FALSE(exact.reactions()[1].determined);
    EXPECT_FALSE(exact.reactions()[2].determined);
    const std::string text = exact.summary();
    EXPECT_NE(text.find("redundant: fixed#1, fixed#2"), std::string::npos) << text;
    EXPECT_NE(text.find("undetermined"), std::string::npos) << text;
  }
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(double(once[i]), double(twice[i]), precision(1e-11, 1e-3));
}

}  // namespace
}  // namespace linchpin::test
