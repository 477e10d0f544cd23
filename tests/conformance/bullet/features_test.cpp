// What Bullet itself does to bodies and joints, beside and under exact constraints: each line of
// docs/reference/bullet-features.md that no other test has.
#include "world.h"

#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>
#include <BulletWorldImporter/btBulletWorldImporter.h>

#include <gtest/gtest.h>

namespace linchpin::test::features_test {
namespace {

btFixedConstraint& weld(TestWorld& w, btRigidBody& a, btRigidBody& b) {
  const btTransform middle(btQuaternion::getIdentity(),
                           (a.getCenterOfMassPosition() + b.getCenterOfMassPosition()) / btScalar(2));
  return w.joint<btFixedConstraint>(a, b, a.getWorldTransform().inverse() * middle,
                                    b.getWorldTransform().inverse() * middle);
}

TEST(Features, AHinge2HoldsItsThreeRowsAndLeavesItsSpringAndLimitsNative) {
  TestWorld w;
  btRigidBody& frame = w.box(0, btVector3(1, btScalar(0.1), 1), btVector3(0, 2, 0));
  btRigidBody& wheel = w.ball(10, 0.3, btVector3(0, 1, 0));
  btVector3 anchor(0, 1, 0), up(0, 1, 0), axle(1, 0, 0);
  auto& joint = w.joint<btHinge2Constraint>(frame, wheel, anchor, up, axle);
  joint.setStiffness(2, 2000);
  joint.setDamping(2, 200);
  joint.setUpperLimit(btScalar(0.5));  // of the steering
  joint.setLowerLimit(btScalar(-0.5));
  wheel.setAngularVelocity(btVector3(3, btScalar(0.4), 0));
  bullet::Solver exact(w.world);
  double gap = 0;
  for (int i = 0; i < 3 * 240; ++i) {
    w.step();
    gap = std::max(gap, largest_gap(exact));
  }
  ASSERT_EQ(exact.reactions().size(), 1u);
  EXPECT_EQ(exact.reactions()[0].lambda.size(), 3u);
  EXPECT_LE(gap, precision(1e-14, 2e-6));
  EXPECT_NEAR(double(wheel.getCenterOfMassPosition().y()), 1 - 10 * 9.81 / 2000, 2e-4);  // where the spring bears it
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(Features, ASpringOfASixDofStaysNativeBesideItsLockedAxes) {
  TestWorld w;
  btRigidBody& body = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  btTransform frame = btTransform::getIdentity();
  auto& joint = w.joint<btGeneric6DofSpring2Constraint>(body, frame);
  joint.setLinearLowerLimit(btVector3(0, 1, 0));  // free along y: the lower limit is above the upper one
  joint.setLinearUpperLimit(btVector3(0, 0, 0));
  joint.setAngularLowerLimit(btVector3(0, 0, 0));
  joint.setAngularUpperLimit(btVector3(0, 0, 0));
  joint.enableSpring(1, true);
  joint.setStiffness(1, 400);
  joint.setDamping(1, 40);
  joint.setEquilibriumPoint(1, 0);
  bullet::Solver exact(w.world);
  w.step(5 * 240);
  ASSERT_EQ(exact.reactions().size(), 1u);
  EXPECT_EQ(exact.reactions()[0].lambda.size(), 5u);
  EXPECT_LE(largest_gap(exact), precision(1e-14, 2e-6));
  EXPECT_NEAR(double(body.getCenterOfMassPosition().y()), -2 * 9.81 / 400, 1e-4);
}

// A ball with another welded into it rolls to a stop as one ball of their mass and inertia does natively.
TEST(Features, RollingFrictionActsOnWhatIsWelded) {
  const auto floor = [](TestWorld& w) {
    btRigidBody& ground = w.box(0, btVector3(20, btScalar(0.5), 20), btVector3(0, btScalar(-0.5), 0));
    ground.setFriction(1);
    ground.setRollingFriction(1);
  };
  const auto roll = [](btRigidBody& ball) {
    ball.setFriction(1);
    ball.setRollingFriction(btScalar(0.01));
    ball.setLinearVelocity(btVector3(2, 0, 0));
    ball.setAngularVelocity(btVector3(0, 0, -4));
  };
  TestWorld one, two;
  floor(one);
  floor(two);
  btRigidBody &whole = one.ball(3, 0.5, btVector3(0, btScalar(0.5), 0)),
              &shell = two.ball(2, 0.5, btVector3(0, btScalar(0.5), 0)),
              &core = two.ball(1, 0.5, btVector3(0, btScalar(0.5), 0));
  core.getBroadphaseHandle()->m_collisionFilterMask = 0;
  shell.getBroadphaseHandle()->m_collisionFilterMask = ~0;
  for (btRigidBody* ball : {&whole, &shell, &core}) roll(*ball);
  weld(two, shell, core);
  bullet::Solver exact(two.world);
  one.step(2 * 240);
  two.step(2 * 240);
  EXPECT_LT(double(whole.getLinearVelocity().x()), 1.9);
  EXPECT_NEAR(double(shell.getCenterOfMassPosition().x()), double(whole.getCenterOfMassPosition().x()), 0.01);
  EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-5));
}

// Split impulse: what begins inside the floor is pushed out of it, as one piece and without a velocity of its own.
TEST(Features, SplitImpulsePushesAWeldedPairOutWithoutVelocity) {
  TestWorld w(0);
  w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-0.5), 0));
  const btVector3 half(btScalar(0.2), btScalar(0.2), btScalar(0.2));
  btRigidBody &low = w.box(1, half, btVector3(0, btScalar(0.1), 0)),
              &high = w.box(1, half, btVector3(0, btScalar(0.6), 0));
  weld(w, low, high);
  w.world.getSolverInfo().m_splitImpulsePenetrationThreshold = 0;  // else what is deeper than 4 cm only
  bullet::Solver exact(w.world);
  double gap = 0, fastest = 0;
  for (int i = 0; i < 120; ++i) {
    w.step();
    gap = std::max(gap, largest_gap(exact));
    fastest = std::max(fastest, double(high.getLinearVelocity().length()));
  }
  EXPECT_NEAR(double(low.getCenterOfMassPosition().y()), 0.2, 1e-3);
  EXPECT_NEAR(double((high.getCenterOfMassPosition() - low.getCenterOfMassPosition()).y()), 0.5,
              precision(1e-13, 1e-6));
  EXPECT_LE(gap, precision(1e-13, 1e-6));
  EXPECT_LE(fastest, precision(1e-12, 1e-5));
}

// What contacts are warm-started with is written to their points, as programs read it: at rest, the weight.
TEST(Features, ContactsRememberTheImpulseThatCarriesTheWeight) {
  TestWorld w;
  w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-0.5), 0));
  const btVector3 half(btScalar(0.2), btScalar(0.2), btScalar(0.2));
  weld(w, w.box(2, half, btVector3(0, btScalar(0.2), 0)), w.box(3, half, btVector3(0, btScalar(0.65), 0)));
  bullet::Solver exact(w.world);
  w.step(480);
  double sum = 0;
  for (int i = 0; i < w.dispatcher.getNumManifolds(); ++i)
    for (int k = 0; k < w.dispatcher.getManifoldByIndexInternal(i)->getNumContacts(); ++k)
      sum += double(w.dispatcher.getManifoldByIndexInternal(i)->getContactPoint(k).getAppliedImpulse());
  EXPECT_NEAR(sum, 5 * 9.81 / 240, 1e-3 * 5 * 9.81 / 240);
}

// v (1 − d) in a second, by Bullet's own rule, on bodies under exact constraints too.
TEST(Features, DampingSlowsAsBulletSays) {
  TestWorld w(0);
  const btVector3 half(btScalar(0.2), btScalar(0.2), btScalar(0.2));
  btRigidBody &a = w.box(1, half, btVector3(0, 0, 0)), &b = w.box(2, half, btVector3(1, 0, 0));
  weld(w, a, b);
  for (btRigidBody* body : {&a, &b}) {
    body->setDamping(btScalar(0.25), 0);
    body->setLinearVelocity(btVector3(0, 2, 0));
  }
  bullet::Solver exact(w.world);
  w.step(240);
  EXPECT_NEAR(double(a.getLinearVelocity().y()), 1.5, precision(1e-12, 1e-5));
  EXPECT_NEAR(double(b.getLinearVelocity().y()), 1.5, precision(1e-12, 1e-5));
}

TEST(Features, ABodyWithoutTheWorldsGravityOrWithItsOwnKeepsThat) {
  TestWorld w;
  const btVector3 half(btScalar(0.2), btScalar(0.2), btScalar(0.2));
  btRigidBody &a = w.box(1, half, btVector3(0, 0, 0)), &b = w.box(3, half, btVector3(1, 0, 0)),
              &c = w.box(1, half, btVector3(2, 0, 0));
  a.setFlags(a.getFlags() | BT_DISABLE_WORLD_GRAVITY);
  a.setGravity(btVector3(0, 0, 0));
  c.setGravity(btVector3(0, btScalar(-2 * 9.81), 0));
  // Of point masses: no moment turns what follows.
  for (btRigidBody* body : {&a, &b, &c}) body->setAngularFactor(0);
  weld(w, a, b);
  weld(w, b, c);
  bullet::Solver exact(w.world);
  constexpr int steps = 240;
  w.step(steps);
  const double rounding = steps * 0.5 * (std::nextafter(btScalar(9.81), btScalar(10)) - btScalar(9.81));
  for (const btRigidBody* body : {&a, &b, &c})
    EXPECT_NEAR(double(body->getLinearVelocity().y()), -9.81, precision(1e-12, rounding));
}

// A world is saved with its own joints while constraints of the user's stand in it, and comes back with them.
TEST(Features, AWorldIsSavedAndLoadedWithTheUsersConstraintsLeftOut) {
  TestWorld w, again;
  chain(w, 4);
  bullet::Solver exact(w.world);
  exact.constrain("in a plane", {*w.bodies.back()}, [](const auto& s) { return s[0].position().z; });
  w.step(10);
  btDefaultSerializer file;
  w.world.serialize(&file);
  btBulletWorldImporter in(&again.world);
  ASSERT_TRUE(in.loadFileFromMemory(reinterpret_cast<char*>(const_cast<unsigned char*>(file.getBufferPointer())),
                                    file.getCurrentBufferSize()));
  EXPECT_EQ(again.world.getNumCollisionObjects(), 4);
  EXPECT_EQ(again.world.getNumConstraints(), 4);
  {
    bullet::Solver of_the_other(again.world);
    again.step(240);
    EXPECT_LE(largest_gap(of_the_other), precision(1e-13, 1e-5));
  }
  in.deleteAllData();
}

}  // namespace
}  // namespace linchpin::test::features_test
