// Implicit geometric stiffness (T15), Options::geometric_stiffness: every step a whole one, at the price of damping
// that is told.
#include "random.h"
#include "world.h"

#include <programs/measure.h>
#include <programs/program.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace linchpin::test::stiffness_test {
namespace {

bullet::Options stiff() {
  bullet::Options options;
  options.geometric_stiffness = true;
  return options;
}

// A ton on twenty links of 0.1 kg takes 4 substeps a step without it.
TEST(GeometricStiffness, TakesAWreckingBallThroughAMinuteInWholeSteps) {
  const auto program = programs::wrecking_ball_alone();
  bullet::Solver exact(program->world, stiff());
  programs::Watch watch;
  while (program->t < 60 && watch.alive) {
    program->step();
    watch.look(*program);
  }
  const bullet::Counts& counts = exact.counts();
  EXPECT_TRUE(watch.alive);
  EXPECT_LE(watch.gap.length, precision(1e-9, 1e-4));
  EXPECT_EQ(counts.fallbacks, 0) << exact.summary();
  EXPECT_LE(watch.gain, 0) << exact.summary();  // of a mean over a second above the highest of the first
  EXPECT_GT(counts.stiffened_steps, 0.9 * 60 * 240);
  EXPECT_LE(counts.substeps, 0.1 * 60 * 240) << exact.summary();
  EXPECT_LT(counts.stiffness_work, 0);
  EXPECT_NE(exact.summary().find("geometric stiffness"), std::string::npos);
}

// What it took is what it says that it took, and every body's books close with it.
TEST(GeometricStiffness, IsInTheBooks) {
  TestWorld w;
  chain(w, 20, 0.1);
  btRigidBody& ball = w.ball(1000, 0.5, btVector3(btScalar(10.5), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[19], ball, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.5), 0, 0));
  bullet::Solver exact(w.world, stiff());
  for (int i = 0; i < 240; ++i) {
    w.step();
    ASSERT_LE(worst_books(exact), precision(1e-10, 1e-4)) << i;
    ASSERT_LE(largest_gap(exact), precision(1e-12, 1e-4)) << i;
  }
  EXPECT_GT(exact.counts().stiffened_steps, 200);
}

/// Where a chain of links that is let go sideways has its end after 0.4 s.
Eigen::Vector3d end_of_chain(int rate, const bullet::Options& options) {
  TestWorld w;
  chain(w, 4);
  bullet::Solver exact(w.world, options);
  w.step(2 * rate / 5, 1.0 / rate);
  EXPECT_EQ(exact.counts().stiffened_steps > 0, options.geometric_stiffness);
  EXPECT_EQ(exact.counts().substepped_steps, 0);
  const btVector3& at = w.bodies.back()->getWorldTransform().getOrigin();
  return {double(at.x()), double(at.y()), double(at.z())};
}

TEST(GeometricStiffness, ChangesTheMotionToTheOrderOfTheStep) {
  if (single) GTEST_SKIP() << "the differences are below the rounding of single precision";
  bullet::Options always = stiff();
  always.max_tension_frequency = 1e-6;  // all that swings at all
  const Eigen::Vector3d true_end = end_of_chain(240 * 256, {});
  const double coarse = (end_of_chain(960, always) - true_end).norm(),
               fine = (end_of_chain(3840, always) - true_end).norm();
  EXPECT_NEAR(coarse / fine, 4, 0.4);
  EXPECT_LE(fine, 5e-3);
}

// A box on a short rail that is jammed by contacts: what a blow pulls at it is no stiffness for the next.
TEST(GeometricStiffness, HasNoPartInContacts) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    TestWorld w;
    const btVector3 half(btScalar(0.1), btScalar(0.1), btScalar(0.1));
    btRigidBody& post = w.box(0, half, btVector3(0, 3, 0));
    btRigidBody& carrier = w.box(8.2, half, btVector3(btScalar(0.3), btScalar(2.97), btScalar(0.2)));
    btRigidBody& slide = w.box(3.7, half, btVector3(btScalar(0.164), btScalar(2.974), btScalar(0.058)));
    w.joint<btFixedConstraint>(
        post, carrier, btTransform(btQuaternion::getIdentity(), btVector3(btScalar(0.15), 0, btScalar(0.1))),
        btTransform(btQuaternion::getIdentity(), btVector3(btScalar(-0.15), btScalar(0.03), btScalar(-0.1))));
    const Quaterniond q = random.rotation();
    const btTransform rail(btQuaternion(btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())),
                           btVector3(btScalar(0.23), btScalar(2.97), btScalar(0.13)));
    auto& slider = w.joint<btSliderConstraint>(carrier, slide, carrier.getWorldTransform().inverse() * rail,
                                               slide.getWorldTransform().inverse() * rail, true);
    slider.setLowerLinLimit(btScalar(-0.2));
    slider.setUpperLinLimit(btScalar(0.2));
    bullet::Solver exact(w.world, stiff());
    for (int i = 0; i < 60; ++i) {
      w.step(1, 1 / 120.);
      ASSERT_LT(double(slide.getLinearVelocity().length()), 20) << "step " << i << "\n" << exact.summary();
    }
  }
}

// A heavy ball on light links swings in a plane with geometric stiffness, and falls on a floor. In a step in contact
// only weight, contacts and joints act on a link. The stiffness of the step before has no part in it.
TEST(GeometricStiffness, IsGoneFromWhatIsAppliedInAStepOfContact) {
  TestWorld w;
  chain(w, 6, 0.1);
  for (const auto& body : w.bodies) body->getBroadphaseHandle()->m_collisionFilterMask = 0;
  btRigidBody& ball = w.ball(100, 0.3, btVector3(btScalar(3.3), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[5], ball, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.3), 0, 0));
  w.box(0, btVector3(5, 1, 5), btVector3(0, btScalar(-3), 0));
  bullet::Solver exact(w.world, stiff());
  int touched = 0;
  long stiffened_steps = 0;
  for (int i = 0; i < 360; ++i) {
    w.step();
    double host = 0;
    for (const MomentumBalance& b : exact.momentum_balances()) host = std::max(host, b.host.norm());
    if (host == 0) {
      stiffened_steps = exact.counts().stiffened_steps;
      continue;
    }
    touched += stiffened_steps > 0;
    for (const MomentumBalance& b : exact.momentum_balances()) {  // in its plane no link has a gyroscopic torque
      ASSERT_LE(b.applied.tail<3>().norm(), precision(1e-12, 1e-5)) << i;
      ASSERT_LE(std::abs(b.applied[1] / b.applied.head<3>().norm() + 1), precision(1e-12, 1e-6)) << i;
    }
  }
  EXPECT_GT(stiffened_steps, 30);
  EXPECT_GT(touched, 3);
}

// Where nothing swings too fast it has nothing to do, and nothing changes.
TEST(GeometricStiffness, LeavesSlowMechanismsAlone) {
  const auto bits = [](const bullet::Options& options) {
    TestWorld w;
    chain(w, 4);
    bullet::Solver exact(w.world, options);
    w.step(120);
    EXPECT_EQ(exact.counts().stiffened_steps, 0);
    return w.bodies.back()->getWorldTransform().getOrigin();
  };
  const btVector3 with = bits(stiff()), without = bits({});
  EXPECT_TRUE(with.x() == without.x() && with.y() == without.y() && with.z() == without.z());
}

}  // namespace
}  // namespace linchpin::test::stiffness_test
