// Reactions where contacts and motors carry part of the load (T11), friction laws, breaking.
#include "world.h"

#include <gtest/gtest.h>

namespace linchpin::test::forces_test {
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

// A bead is carried round by an arm that the program moves. What the joint does to the bead is its kinetic energy; what
// it does to the arm is in no balance, or the two would be nothing together.
TEST(Reactions, TheWorkOfAJointToAKinematicBodyIsThatOnTheOther) {
  TestWorld w;
  w.world.setGravity(btVector3(0, 0, 0));
  btRigidBody& arm = w.box(0, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.05)), btVector3(0, 0, 0));
  arm.setCollisionFlags(arm.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
  arm.setActivationState(DISABLE_DEACTIVATION);
  btRigidBody& bead = w.box(2, btVector3(btScalar(0.02), btScalar(0.02), btScalar(0.02)), btVector3(1, 0, 0));
  bead.setActivationState(DISABLE_DEACTIVATION);
  w.joint<btPoint2PointConstraint>(arm, bead, btVector3(1, 0, 0), btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  for (int i = 1; i <= 60; ++i) {
    const double t = i / 240.0;
    arm.setWorldTransform(btTransform(btQuaternion(btVector3(0, 0, 1), btScalar(3 * t * t)), btVector3(0, 0, 0)));
    w.step();
    const double energy = double(bead.getLinearVelocity().length2());  // ½ · 2 kg · v²
    ASSERT_NEAR(exact.reactions()[0].work, energy, precision(1e-11, 1e-4) * (1 + energy)) << i;
  }
  EXPECT_GT(exact.reactions()[0].work, 1);
}

// Programs read a motor's torque from it. That a joint has feedback, for which the reactions are put together in every
// step, changes nothing.
TEST(Reactions, TheAppliedImpulseIsTheMotorsAsBulletHasIt) {
  enum class Kind { hinge, slider, free };
  for (const Kind kind : {Kind::hinge, Kind::slider, Kind::free})
    for (const int way : {1, -1}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + " " + std::to_string(way));
      TestWorld asked, silent, native;
      btJointFeedback feedback;
      btTypedConstraint* joints[3];
      TestWorld* worlds[3] = {&asked, &silent, &native};
      for (int i = 0; i < 3; ++i) {
        btRigidBody& arm =
            worlds[i]->box(2, btVector3(btScalar(0.9), btScalar(0.1), btScalar(0.1)), btVector3(2, 0, 0));
        if (kind == Kind::slider) {
          const btTransform up(btQuaternion(btVector3(0, 0, 1), btScalar(way * pi / 2)));
          auto& slider = worlds[i]->joint<btSliderConstraint>(arm, up, true);
          slider.setLowerLinLimit(-100);
          slider.setUpperLinLimit(100);
          slider.setPoweredLinMotor(true);
          slider.setTargetLinMotorVelocity(0);
          slider.setMaxLinMotorForce(1000);
          joints[i] = &slider;
        } else {
          auto& hinge = worlds[i]->joint<btHingeConstraint>(arm, btVector3(-2, 0, 0), btVector3(0, 0, btScalar(way)));
          if (kind == Kind::hinge) hinge.enableAngularMotor(true, 0, 100);
          joints[i] = &hinge;
        }
      }
      joints[0]->enableFeedback(true);
      joints[0]->setJointFeedback(&feedback);
      bullet::Solver a(asked.world), b(silent.world);
      for (int i = 0; i < 60; ++i)
        for (TestWorld* w : worlds) w->step();
      ASSERT_EQ(asked.bits(), silent.bits());
      const double impulse = double(joints[0]->getAppliedImpulse());
      EXPECT_NEAR(double(joints[1]->getAppliedImpulse()), impulse, precision(1e-12, 1e-5) * std::abs(impulse));
      const double weight = 2 * double(btScalar(9.81)) / 240;
      if (kind == Kind::free) {
        EXPECT_NEAR(impulse, double(feedback.m_appliedForceBodyA.length()) / 240, precision(1e-12, 1e-5) * weight);
      } else {
        EXPECT_NEAR(std::abs(impulse), kind == Kind::hinge ? 2 * weight : weight, 1e-4 * weight);
        EXPECT_GT(impulse * double(joints[2]->getAppliedImpulse()), 0);
        EXPECT_NEAR(impulse, double(joints[2]->getAppliedImpulse()), 0.02 * weight);
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
  exact.name_joint(rail, "rail").law(laws::coulomb(0.3));
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
  EXPECT_NE(exact.summary().find("broken constraints: 1"), std::string::npos);
  EXPECT_EQ(exact.reactions()[1].on_a.force.norm(), 0);  // what is broken carries nothing
  EXPECT_GT(exact.reactions()[0].on_a.force.norm(), 1);
}

// Bullet's rows of a joint of six axes lie along the joint's frame in the first body. The post is turned by 45°. Two
// rows therefore carry the weight straight below, each 1/√2 of it.
TEST(Breaking, TheRowsThatBreakTurnWithTheFirstBody) {
  for (const double threshold : {0.65, 0.8}) {
    SCOPED_TRACE(threshold);
    TestWorld w;
    btRigidBody& post = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0),
                              btQuaternion(btVector3(0, 0, 1), SIMD_PI / 4));
    btRigidBody& weight = w.ball(2, 0.1, btVector3(0, -1, 0));
    auto& joint = w.joint<btGeneric6DofConstraint>(
        post, weight, btTransform::getIdentity(),
        btTransform(btQuaternion(btVector3(0, 0, 1), SIMD_PI / 4), btVector3(0, 1, 0)), true);
    for (int i = 3; i < 6; ++i) joint.setLimit(i, 1, -1);  // free
    bullet::Solver exact(w.world);
    joint.setBreakingImpulseThreshold(btScalar(threshold * 2 * 9.81 / 240));
    w.step(10);
    EXPECT_EQ(joint.isEnabled(), threshold > 0.7);
  }
}

// A heavy ball on light links: every step of it is taken in parts.
TEST(Breaking, AJointBreaksInAStepTakenInPartsToo) {
  for (const bool with_law : {false, true}) {
    SCOPED_TRACE(with_law);
    TestWorld w;
    chain(w, 4, 0.1, 0.2);
    btRigidBody& ball = w.ball(50, 0.2, btVector3(1, 0, 0));
    w.joint<btPoint2PointConstraint>(*w.bodies[3], ball, btVector3(btScalar(0.1), 0, 0),
                                     btVector3(btScalar(-0.2), 0, 0));
    bullet::Solver exact(w.world);
    if (with_law) exact.name_joint(*w.joints[4], "oiled").law(laws::viscous(0.1));
    w.step(60);
    const long before = exact.counts().substepped_steps;
    w.step(10);
    ASSERT_EQ(exact.counts().substepped_steps, before + 10);
    const double carried = exact.reactions()[0].on_a.force.norm() / 240;
    w.joints[0]->setBreakingImpulseThreshold(btScalar(2 * carried));
    w.step(1);
    EXPECT_TRUE(w.joints[0]->isEnabled());
    w.joints[0]->setBreakingImpulseThreshold(btScalar(0.5 * carried));
    w.step(1);
    EXPECT_FALSE(w.joints[0]->isEnabled());
  }
}

TEST(Breaking, AThresholdAndFeedbackAreSeenWhicheverComesFirst) {
  for (const bool feedback_first : {false, true}) {
    SCOPED_TRACE(feedback_first);
    TestWorld w;
    chain(w, 2);
    btJointFeedback feedback;
    feedback.m_appliedForceBodyA.setZero();
    bullet::Solver exact(w.world);
    if (feedback_first)
      w.joints[0]->setJointFeedback(&feedback);
    else
      w.joints[0]->setBreakingImpulseThreshold(1000);
    w.step(10);
    w.joints[0]->setJointFeedback(&feedback);
    w.joints[0]->setBreakingImpulseThreshold(btScalar(1e-3));
    w.step(1);
    EXPECT_GT(double(feedback.m_appliedForceBodyA.length()), 1);
    EXPECT_FALSE(w.joints[0]->isEnabled());
  }
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
    EXPECT_NE(text.find("redundant constraints, which other constraints imply: fixed#1, fixed#2"), std::string::npos)
        << text;
    EXPECT_NE(text.find("undetermined"), std::string::npos) << text;
  }
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(double(once[i]), double(twice[i]), precision(1e-11, 1e-3));
}

// The rank stays what it was, whether both weld or one.
TEST(Redundancy, IsToldOfThoseThatAreLeftWhenOneOfTwoGoesAndComes) {
  TestWorld w;
  btRigidBody& a = w.box(1, btVector3(btScalar(0.2), btScalar(0.2), btScalar(0.2)), btVector3(0, 0, 0));
  const btTransform at(btQuaternion::getIdentity(), btVector3(btScalar(0.25), 0, 0));
  for (int i = 0; i < 2; ++i) w.joint<btFixedConstraint>(a, btTypedConstraint::getFixedBody(), at, at);
  bullet::Solver exact(w.world);
  const auto expect = [&](bool both, const char* when) {
    SCOPED_TRACE(when);
    w.step(2);
    for (const Reaction& r : exact.reactions()) {
      EXPECT_EQ(r.determined, !both) << r.name;
      EXPECT_EQ(r.redundant, both) << r.name;
    }
  };
  expect(true, "both");
  w.joints[1]->setEnabled(false);
  expect(false, "the first is left");
  w.joints[1]->setEnabled(true);
  expect(true, "both again");
  w.joints[1]->setBreakingImpulseThreshold(btScalar(1e-6));
  expect(false, "the second is broken");
  EXPECT_FALSE(w.joints[1]->isEnabled());
  w.joints[0]->setEnabled(false);
  w.joints[1]->setBreakingImpulseThreshold(btScalar(SIMD_INFINITY));
  w.joints[1]->setEnabled(true);
  expect(false, "the second alone");
}

}  // namespace
}  // namespace linchpin::test::forces_test
