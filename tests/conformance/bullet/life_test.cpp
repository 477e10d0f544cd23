// Coming, staying and leaving: installation, refusals, the native solver given back, steps too long for the stiffness
// that exactness lays bare, memory.
#include "world.h"

#include "allocation_counter.h"
#include "random.h"
#include "refused.h"

#include <linchpin/laws.h>

#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>
#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorldMt.h>
#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyMLCPConstraintSolver.h>
#include <BulletDynamics/MLCPSolvers/btDantzigSolver.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>

#include <gtest/gtest.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <cmath>
#include <stdexcept>

namespace linchpin::test::life_test {
namespace {

void furnish(TestWorld& w) {
  chain(w, 6);
  w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-1.9), 0));
  btRigidBody& lone = w.ball(1, 0.2, btVector3(2, 1, 2));
  lone.forceActivationState(ACTIVE_TAG);
}

// The solver destroyed after k steps, against one left alive but replaced by a fresh native solver at the same step.
class LeavingAfter : public ::testing::TestWithParam<int> {};
TEST_P(LeavingAfter, LeavesARunBitIdenticalToOneWithAFreshNativeSolver) {
  std::vector<btScalar> left, replaced, at_leaving;
  {
    TestWorld w;
    furnish(w);
    auto exact = std::make_unique<bullet::Solver>(w.world);
    w.step(GetParam());
    const auto before = w.bits();
    exact.reset(nullptr);
    EXPECT_EQ(before, w.bits());  // poses, velocities and sleep flags as found
    EXPECT_EQ(w.world.getConstraintSolver(), w.native.get());
    w.step(100);
    left = w.bits();
  }
  {
    TestWorld w;
    furnish(w);
    bullet::Solver exact(w.world);
    w.step(GetParam());
    btSequentialImpulseConstraintSolver fresh;
    btConstraintSolver* ours = w.world.getConstraintSolver();
    w.world.setConstraintSolver(&fresh);
    w.step(100);
    replaced = w.bits();
    w.world.setConstraintSolver(ours);
  }
  EXPECT_EQ(left, replaced);
}
INSTANTIATE_TEST_SUITE_P(AnyStep, LeavingAfter, ::testing::Values(0, 1, 7, 200));

TEST(Life, AWorldThatOwnsItsSolverGetsItBack) {
  TestWorld w(9.81, nullptr, false);  // Bullet makes its own
  btConstraintSolver* own = w.world.getConstraintSolver();
  chain(w, 3);
  {
    bullet::Solver exact(w.world);
    w.step(5);
    EXPECT_NE(w.world.getConstraintSolver(), own);
  }
  EXPECT_EQ(w.world.getConstraintSolver(), own);
  w.step(5);
}

TEST(Life, CanBePassedToTheWorldsConstructor) {
  bullet::Solver exact;
  TestWorld w(9.81, exact.constraint_solver());
  exact.attach(w.world);
  chain(w, 3);
  w.step(240);
  EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-6));
}

TEST(Life, PassedToTheConstructorItCanLeaveAWorldThatLivesOn) {
  auto exact = std::make_unique<bullet::Solver>();
  TestWorld w(9.81, exact->constraint_solver());
  exact->attach(w.world);
  chain(w, 3);
  exact->constrain("still", {*w.bodies[2]}, [](const auto& s) { return s[0].position().z; });
  w.step(10);
  exact->detach();
  exact.reset();
  w.step(10);
  EXPECT_EQ(w.world.getNumConstraints(), 3);
  EXPECT_TRUE(w.finite());
}

TEST(Life, SitsOnTheSolverItFinds) {
  TestWorld w(9.81, nullptr, false);
  btNNCGConstraintSolver nncg;
  w.world.setConstraintSolver(&nncg);
  chain(w, 3, 4);
  bullet::Solver exact(w.world);
  w.step(60);
  EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-6));
  EXPECT_NE(exact.summary().find("NNCG"), std::string::npos);
}

TEST(Life, RefusesWhatItDoesNotKnowByName) {
  TestWorld w;
  std::string why;
  {
    bullet::Solver first(w.world);
    EXPECT_NE(why = bullet::Solver::try_install(w.world).error().message, "");
    EXPECT_NE(why.find("already has a linchpin"), std::string::npos);
  }
  btDantzigSolver dantzig;
  btMLCPSolver mlcp(&dantzig);
  w.world.setConstraintSolver(&mlcp);
  EXPECT_NE(why = bullet::Solver::try_install(w.world).error().message, "");
  EXPECT_NE(why.find("has the type btMLCPSolver, which linchpin does not support. Supported are exactly these classes"),
            std::string::npos)
      << why;
  EXPECT_TRUE(bullet::Solver::try_install(w.world, {.mode = bullet::Mode::passive}));
  w.world.setConstraintSolver(w.native.get());

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btMultiBodyMLCPConstraintSolver solver(&dantzig);
  btMultiBodyDynamicsWorld many(&dispatcher, &broadphase, &solver, &config);
  EXPECT_THROW(bullet::Solver{many}, std::invalid_argument);
  EXPECT_NE(why = bullet::Solver::try_install(many).error().message, "");
  EXPECT_NE(why.find("btMultiBodyMLCPConstraintSolver"), std::string::npos) << why;
}

/// A chain of three boxes over a floor, and a box beside it that nothing holds.
template <class World>
struct Scene {
  template <class... Solvers>
  explicit Scene(Solvers*... solvers) : dispatcher(&config), world(&dispatcher, &broadphase, solvers..., &config) {
    world.setGravity(btVector3(0, btScalar(-9.81), 0));
    for (int i = 0; i < 5; ++i) {
      const btScalar mass = i < 4 ? btScalar(1) : btScalar(0);
      const btVector3 at = i < 3   ? btVector3(btScalar(0.3 * i), btScalar(0.3), 0)
                           : i < 4 ? btVector3(3, btScalar(0.5), 0)
                                   : btVector3(0, btScalar(-0.5), 0);
      btCollisionShape& shape = i < 4 ? static_cast<btCollisionShape&>(box) : floor;
      btVector3 inertia(0, 0, 0);
      if (mass > 0) shape.calculateLocalInertia(mass, inertia);
      bodies.push_back(std::make_unique<btRigidBody>(mass, nullptr, &shape, inertia));
      bodies.back()->setWorldTransform(btTransform(btQuaternion::getIdentity(), at));
      world.addRigidBody(bodies.back().get());
    }
    const btVector3 right(btScalar(0.15), 0, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      joints.push_back(std::make_unique<btPoint2PointConstraint>(*bodies[i], *bodies[i + 1], right, -right));
      world.addConstraint(joints.back().get(), true);
    }
  }
  ~Scene() {
    for (const auto& joint : joints) world.removeConstraint(joint.get());
    for (const auto& body : bodies) world.removeRigidBody(body.get());
  }
  void step(int n) {
    for (int i = 0; i < n; ++i) world.stepSimulation(btScalar(1.0 / 240), 0, btScalar(1.0 / 240));
  }
  std::vector<btScalar> bits() const {
    std::vector<btScalar> out;
    for (const auto& body : bodies)
      for (int i = 0; i < 3; ++i) {
        out.push_back(body->getWorldTransform().getOrigin()[i]);
        out.push_back(body->getLinearVelocity()[i]);
        out.push_back(body->getAngularVelocity()[i]);
      }
    return out;
  }

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher;
  btDbvtBroadphase broadphase;
  btBoxShape box{btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1))}, floor{btVector3(9, btScalar(0.5), 9)};
  World world;
  std::vector<std::unique_ptr<btRigidBody>> bodies;
  std::vector<std::unique_ptr<btPoint2PointConstraint>> joints;
};

// Its islands are then solved by one solver, in the thread that steps the world; what Bullet does in several threads
// beside that stays so.
TEST(Life, AWorldOfThreadsIsSolvedAsAnyOther) {
  btConstraintSolverPoolMt pool(2);
  btSequentialImpulseConstraintSolver large, plain;
  Scene<btDiscreteDynamicsWorldMt> threads(static_cast<btConstraintSolverPoolMt*>(&pool),
                                           static_cast<btConstraintSolver*>(&large));
  Scene<btDiscreteDynamicsWorld> one(static_cast<btConstraintSolver*>(&plain));
  {
    bullet::Solver exact(threads.world), other(one.world);
    for (int i = 0; i < 240; ++i) {
      threads.step(1);
      one.step(1);
      ASSERT_LE(largest_gap(exact), precision(1e-13, 1e-6)) << i;
    }
    EXPECT_EQ(threads.bits(), one.bits());
    EXPECT_EQ(exact.counts().solves, other.counts().solves);
    EXPECT_EQ(exact.counts().fallbacks, 0);
  }
  // It goes on as one that had been native all along from here.
  EXPECT_EQ(threads.world.getConstraintSolver(), &pool);
  threads.joints[0]->setEnabled(false);
  one.joints[0]->setEnabled(false);
  threads.step(60);
  one.step(60);
  EXPECT_EQ(threads.bits(), one.bits());
}

TEST(Life, AWorldOfThreadsIsRefusedByNameWhereItsOwnSolversWouldRun) {
  btConstraintSolverPoolMt pool(1);
  Scene<btDiscreteDynamicsWorldMt> threads(static_cast<btConstraintSolverPoolMt*>(&pool),
                                           static_cast<btConstraintSolver*>(nullptr));
  std::string why;
  EXPECT_NE(why = bullet::Solver::try_install(threads.world, {.mode = bullet::Mode::passive}).error().message, "");
  EXPECT_NE(why.find("btDiscreteDynamicsWorldMt"), std::string::npos) << why;
  auto* nncg = new btNNCGConstraintSolver;  // the pool frees it
  btConstraintSolver* of_another_kind[] = {nncg};
  btConstraintSolverPoolMt others(of_another_kind, 1);
  Scene<btDiscreteDynamicsWorldMt> conjugate(static_cast<btConstraintSolverPoolMt*>(&others),
                                             static_cast<btConstraintSolver*>(nullptr));
  EXPECT_NE(why = bullet::Solver::try_install(conjugate.world).error().message, "");
  EXPECT_NE(why.find("btConstraintSolverPoolMt"), std::string::npos) << why;
}

TEST(Life, JointsAndBodiesMayComeAndGoWithoutAWord) {
  TestWorld w;
  chain(w, 4);
  bullet::Solver exact(w.world);
  w.step(10);
  w.world.removeConstraint(w.joints[2].get());
  w.step(10);
  EXPECT_EQ(exact.reactions().size(), 3u);
  w.world.addConstraint(w.joints[2].get(), true);
  w.joints[1]->setEnabled(false);
  w.step(10);
  EXPECT_EQ(exact.reactions().size(), 4u);
  w.bodies[0]->setMassProps(5, btVector3(btScalar(0.1), btScalar(0.2), btScalar(0.3)));
  w.bodies[0]->updateInertiaTensor();
  w.step(10);
  EXPECT_TRUE(w.finite());
  EXPECT_LE(worst_books(exact), 1e-12);
}

TEST(Life, AJointMadeWhereADeletedOneLayIsAnotherOne) {
  for (const bool stepped : {false, true}) {
    SCOPED_TRACE(stepped);
    TestWorld w;
    btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
    btRigidBody& b = w.ball(1, 0.1, btVector3(1, 0, 0));
    bullet::Solver exact(w.world);
    alignas(btPoint2PointConstraint) unsigned char place[sizeof(btPoint2PointConstraint)];
    const auto make = [&] {
      auto* joint =
          new (place) btPoint2PointConstraint(a, b, btVector3(btScalar(0.5), 0, 0), btVector3(btScalar(-0.5), 0, 0));
      w.world.addConstraint(joint);
      return joint;
    };
    auto* joint = make();
    auto mine = exact.name_joint(*joint, "mine");
    mine.law(laws::viscous(1));
    if (stepped) w.step(3);
    w.world.removeConstraint(joint);
    joint->~btPoint2PointConstraint();
    joint = make();
    w.step(3);
    EXPECT_EQ(exact.reactions().size(), 1u);
    EXPECT_EQ(exact.reactions()[0].name, "point2point#0");
    EXPECT_EQ(exact.reactions()[0].prescribed.on_a.force.norm(), 0);
    EXPECT_FALSE(mine.valid());
    w.world.removeConstraint(joint);
    joint->~btPoint2PointConstraint();
  }
}

// A program that takes some of a constraint's proxies out of the world and puts a joint among the others.
TEST(Life, AJointAmongTheProxiesOfAConstraintThatLeavesIsFound) {
  TestWorld w(0);
  btRigidBody* on[4];
  for (int i = 0; i < 4; ++i) on[i] = &w.ball(1, 0.1, btVector3(btScalar(i), 0, 0));
  bullet::Solver exact(w.world);
  auto mean = exact.constrain("mean", {on, on + 4}, [](const auto& s) {
    return s[0].position() + s[1].position() + s[2].position() - 3.0 * s[3].position();
  });
  w.step();
  ASSERT_EQ(w.world.getNumConstraints(), 3);
  btTypedConstraint* last = w.world.getConstraint(2);
  w.world.removeConstraint(w.world.getConstraint(1));
  w.world.removeConstraint(last);
  w.joint<btPoint2PointConstraint>(*on[0], *on[1], btVector3(btScalar(0.5), 0, 0), btVector3(btScalar(-0.5), 0, 0));
  w.world.addConstraint(last);
  for (int i = 0; i < 3; ++i) {
    w.step();
    EXPECT_FALSE(mean.valid());
    ASSERT_EQ(w.world.getNumConstraints(), 1);
    ASSERT_EQ(exact.reactions().size(), 1u);
    EXPECT_EQ(exact.reactions()[0].name, "point2point#1");
    EXPECT_FALSE(exact.reactions()[0].native);
  }
}

// The rows of a straight line let its middle go sideways; no motion that way, however small, keeps the joints together.
TEST(Life, PlanksHingedInAStraightLineBetweenPostsStay) {
  if (single) GTEST_SKIP() << "the gap that says so is below the rounding of single precision";
  for (const double rate : {60.0, 240.0, 1000.0})
    for (const int planks : {2, 3}) {
      SCOPED_TRACE(std::to_string(planks) + " planks at " + std::to_string(rate) + " Hz");
      TestWorld w;
      btRigidBody* last = &w.box(0, btVector3(btScalar(0.3), btScalar(0.05), 1), btVector3(0, 3, 0));
      for (int i = 1; i <= planks + 1; ++i) {
        btRigidBody& next =
            w.box(i > planks ? 0 : 5, btVector3(btScalar(0.3), btScalar(0.05), 1), btVector3(btScalar(0.7 * i), 3, 0));
        w.joint<btHingeConstraint>(*last, next, btVector3(btScalar(0.35), 0, 0), btVector3(btScalar(-0.35), 0, 0),
                                   btVector3(0, 0, 1), btVector3(0, 0, 1));
        last = &next;
      }
      bullet::Solver exact(w.world);
      double fastest = 0;
      for (int i = 0; i < 2 * rate; ++i) {
        w.step(1, 1 / rate);
        for (const auto& b : w.bodies) fastest = std::max(fastest, double(b->getLinearVelocity().length()));
      }
      EXPECT_LE(fastest, 1e-9);
      EXPECT_LE(largest_gap(exact), 1e-12);
      EXPECT_EQ(exact.counts().fallbacks, 0);
      EXPECT_LE(worst_books(exact), 1e-9);
    }
}

// Servos and dragged pivots: a frame or a locked limit that the program moves carries its bodies along, with the
// velocity that it has, and what they push is pushed.
TEST(Life, AJointThatTheProgramMovesCarriesItsBodiesAlong) {
  TestWorld w(0);
  btRigidBody& ram = w.box(5, btVector3(btScalar(0.3), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  btRigidBody& load = w.box(5, btVector3(btScalar(0.3), btScalar(0.3), btScalar(0.3)), btVector3(btScalar(0.61), 0, 0));
  auto& servo = w.joint<btSliderConstraint>(ram, btTransform::getIdentity(), true);
  servo.setLowerLinLimit(0);
  servo.setUpperLinLimit(0);
  btRigidBody& bob = w.ball(2, 0.1, btVector3(0, 5, 0));
  auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  w.step(1, 1.0 / 120);  // a gap of the first step is one that it starts with
  double deepest = 0;
  for (int i = 1; i <= 120; ++i) {
    servo.setLowerLinLimit(btScalar(i / 120.0));
    servo.setUpperLinLimit(btScalar(i / 120.0));
    pivot.setPivotB(btVector3(btScalar(2 * i / 120.0), 5, 0));
    w.step(1, 1.0 / 120);
    ASSERT_NEAR(double(ram.getLinearVelocity().x()), 1, precision(1e-9, 1e-3)) << i;
    ASSERT_NEAR(double(bob.getLinearVelocity().x()), 2, precision(1e-9, 1e-3)) << i;
    ASSERT_LE(largest_gap(exact), precision(1e-12, 1e-6)) << i;
    for (int m = 0; m < w.dispatcher.getNumManifolds(); ++m)
      for (int k = 0; k < w.dispatcher.getManifoldByIndexInternal(m)->getNumContacts(); ++k)
        deepest =
            std::max(deepest, -double(w.dispatcher.getManifoldByIndexInternal(m)->getContactPoint(k).getDistance()));
  }
  // Pushed, and thrown a little: Bullet turns a fifth of how deep a contact is when it is found into velocity.
  EXPECT_GE(double(load.getLinearVelocity().x()), 0.99);
  EXPECT_LE(double(load.getLinearVelocity().x()), 1.25);
  EXPECT_LE(deepest, 0.0115);  // 1.5 times the native solver's 7.6 mm
  EXPECT_EQ(exact.counts().gap_corrections, 0) << exact.summary();
  EXPECT_EQ(exact.counts().fallbacks, 0);
  // Let go it keeps its velocity.
  w.world.removeConstraint(&pivot);
  w.step(12, 1.0 / 120);
  EXPECT_NEAR(double(bob.getLinearVelocity().x()), 2, precision(1e-9, 1e-3));
  w.world.addConstraint(&pivot);
}

// And says so in both of Bullet's ways: its one number for a joint is there without feedback, too.
TEST(Life, ALiftThatTheProgramAcceleratesFeelsIt) {
  constexpr double load = 20 * (9.81 + 4);
  for (const bool asked : {true, false}) {
    SCOPED_TRACE(asked ? "with feedback" : "without");
    TestWorld w;
    btRigidBody& cage = w.box(20, btVector3(1, 1, 1), btVector3(0, 0, 0));
    auto& lift = w.joint<btGeneric6DofSpring2Constraint>(cage, btTransform::getIdentity());
    for (int axis = 0; axis < 6; ++axis) lift.setLimit(axis, 0, 0);
    btJointFeedback feedback;
    if (asked) lift.setJointFeedback(&feedback);
    bullet::Solver exact(w.world);
    double force = 0, impulse = 0;
    for (int i = 1; i <= 120; ++i) {
      const double t = i / 120.0, at = 0.5 * 4 * t * t;
      lift.setLimit(1, btScalar(at), btScalar(at));
      w.step(1, 1.0 / 120);
      force += std::abs(double(feedback.m_appliedForceBodyB.y())) / 120;
      impulse += double(lift.getAppliedImpulse());
    }
    if (asked) {
      EXPECT_NEAR(force, load, 0.01 * load) << exact.summary();
    }
    EXPECT_NEAR(impulse, load, 0.01 * load) << exact.summary();  // of a second
  }
}

TEST(Life, ATeleportIsClosedByMovingNotByPushing) {
  TestWorld w(0);
  chain(w, 3);
  bullet::Solver exact(w.world);
  w.step(2);
  w.bodies[2]->getWorldTransform().getOrigin() += btVector3(0, btScalar(0.05), 0);
  w.step(1);
  EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-6));
  for (const auto& b : w.bodies) EXPECT_LE(double(b->getLinearVelocity().length()), precision(1e-9, 1e-3));
  EXPECT_GE(exact.counts().gap_corrections, 1);
}

// The counts report a correction as a displacement and as a rotation. Each of the two is zero where only the other is
// corrected.
TEST(Life, ATeleportIsToldByItsWayAndByItsTurn) {
  for (const bool turned : {false, true}) {
    SCOPED_TRACE(turned);
    TestWorld w(0);
    btRigidBody& post = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    btRigidBody& body = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 1, 0));
    w.joint<btFixedConstraint>(post, body, btTransform(btQuaternion::getIdentity(), btVector3(0, 1, 0)),
                               btTransform::getIdentity());
    bullet::Solver exact(w.world);
    w.step(2);
    if (turned)
      body.setWorldTransform(btTransform(btQuaternion(btVector3(0, 0, 1), btScalar(0.2)), btVector3(0, 1, 0)));
    else
      body.setWorldTransform(btTransform(btQuaternion::getIdentity(), btVector3(btScalar(0.05), 1, 0)));
    w.step();
    EXPECT_EQ(exact.counts().gap_corrections, 1);
    EXPECT_NEAR(exact.counts().largest_correction, turned ? 0 : 0.05, precision(1e-9, 1e-5));
    EXPECT_NEAR(exact.counts().largest_correction_angle, turned ? 0.2 : 0, precision(1e-9, 1e-5));
  }
}

// The velocity after a step in substeps belongs to the middle of the last substep, and the forces of the next step act
// from there. A mechanism that is joined again after some steps has no such last substep. Its first step has the whole
// weight.
TEST(Life, AMechanismThatIsJoinedAgainFeelsItsWholeWeight) {
  TestWorld w;
  chain(w, 6, 0.1);
  btRigidBody& load = w.ball(1000, 0.3, btVector3(btScalar(3.3), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[5], load, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.3), 0, 0));
  std::vector<btTransform> start;
  for (const auto& body : w.bodies) {
    body->getBroadphaseHandle()->m_collisionFilterMask = 0;
    start.push_back(body->getWorldTransform());
  }
  bullet::Solver exact(w.world);
  w.step(120);
  const long before = exact.counts().substepped_steps;
  ASSERT_GT(before, 0);
  w.step();
  ASSERT_EQ(exact.counts().substepped_steps, before + 1);  // the last one too
  w.joints[0]->setEnabled(false);
  w.step(5);
  w.joints[0]->setEnabled(true);
  for (std::size_t i = 0; i < w.bodies.size(); ++i) {
    w.bodies[i]->setWorldTransform(start[i]);
    w.bodies[i]->setLinearVelocity(btVector3(0, 0, 0));
    w.bodies[i]->setAngularVelocity(btVector3(0, 0, 0));
  }
  w.step();
  ASSERT_EQ(exact.momentum_balances().size(), w.bodies.size());
  for (const MomentumBalance& b : exact.momentum_balances()) {
    const double weight = (b.body == exact.id(load) ? 1000 : 0.1) * double(btScalar(9.81));
    EXPECT_NEAR(b.applied[1], -weight / 240, precision(1e-12, 1e-6) * weight);
  }
}

TEST(Life, AKinematicBodyTeleportsAfterReset) {
  for (const bool told : {false, true}) {
    SCOPED_TRACE(told);
    TestWorld w;
    btRigidBody& hook = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    hook.setCollisionFlags(hook.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
    hook.setActivationState(DISABLE_DEACTIVATION);
    btRigidBody* last = &hook;
    for (int i = 1; i <= 4; ++i) {
      btRigidBody& next = w.ball(1, 0.1, btVector3(0, btScalar(-0.5 * i), 0));
      w.joint<btPoint2PointConstraint>(*last, next, btVector3(0, btScalar(-0.25), 0), btVector3(0, btScalar(0.25), 0));
      last = &next;
    }
    bullet::Solver exact(w.world);
    w.step(10);
    hook.setWorldTransform(btTransform(btQuaternion::getIdentity(), btVector3(btScalar(0.5), 0, 0)));
    if (told) exact.reset();
    double fastest = 0;
    for (int i = 0; i < 24; ++i) {
      w.step();
      for (const auto& b : w.bodies)
        if (!b->isStaticOrKinematicObject()) fastest = std::max(fastest, double(b->getLinearVelocity().length()));
    }
    if (told)
      EXPECT_LT(fastest, 5);  // it swings from where it hangs now
    else
      EXPECT_GT(fastest, 20);  // it was pulled there in one step
    EXPECT_LE(largest_gap(exact), precision(1e-9, 1e-4));
  }
}

// W6: twenty links of 0.1 kg, then 1000 kg. Every fixed-step engine tears or blows it up at 240 Hz.
TEST(Life, AWreckingBallIsSteppedInHalvesWhereTheStepIsTooLongForItsTension) {
  TestWorld w;
  chain(w, 20, 0.1);
  btRigidBody& ball = w.ball(1000, 0.5, btVector3(btScalar(10.5), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[19], ball, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.5), 0, 0));
  bullet::Solver exact(w.world);
  const double start = exact.energy();
  double gap = 0;
  for (int i = 0; i < 480; ++i) {
    w.step();
    gap = std::max(gap, largest_gap(exact));
    EXPECT_LE(worst_books(exact), 1e-11);  // one digit lost to 64 substeps with a mass ratio of 10⁴
  }
  EXPECT_TRUE(w.finite());
  EXPECT_LE(gap, precision(1e-12, 1e-4));
  EXPECT_GT(exact.counts().substepped_steps, 0);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_LE(std::abs(exact.energy() - start), 0.05 * 1000 * 9.81 * 10.5);
}

// A box swung on a rope so fast that every step is taken in substeps, and tumbling by 12 radians in each step, which
// the rope at its centre does not see: nothing changes its energy of rotation.
TEST(Life, ATumblingBodyKeepsItsEnergyInSubsteps) {
  TestWorld w;
  w.world.setGravity(btVector3(0, 0, 0));
  btRigidBody& box =
      w.box(1, btVector3(btScalar(0.05), btScalar(0.15), btScalar(0.25)), btVector3(btScalar(0.3), 0, 0));
  box.setLinearVelocity(btVector3(0, 30, 0));
  box.setAngularVelocity(btVector3(400, 500, 300));
  bullet::Solver exact(w.world);
  exact.constrain("rope", {box}, [](const auto& s) { return dot(s[0].position(), s[0].position()) - 0.09; });
  const auto rotation = [&] {
    const Eigen::Vector3d half(0.05, 0.15, 0.25);
    const btVector3 turn = box.getWorldTransform().getBasis().transpose() * box.getAngularVelocity();
    double sum = 0;  // a box of 1 kg: I₁ = (b² + c²)/3 with half sides a, b, c
    for (int i = 0; i < 3; ++i) sum += (half.squaredNorm() - half[i] * half[i]) / 6 * double(turn[i]) * double(turn[i]);
    return sum;
  };
  const double start = rotation();
  for (int i = 0; i < 120; ++i) {
    w.step(1, 1.0 / 60);
    ASSERT_NEAR(rotation(), start, precision(1e-9, 1e-3) * start) << i;
  }
  EXPECT_EQ(exact.counts().substepped_steps, 120);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}

// Links folded to and fro and a load that falls past them: they snap taut, and are turned over in far less than a
// thousandth of a step, by a load that is twenty thousand times as heavy. Natively they are torn apart by metres.
TEST(Life, ALoadThatSnapsFoldedLinksTautIsHeld) {
  for (const int links : {2, 3, 4}) {
    TestWorld w;
    const btScalar h(0.25), apart(0.06);
    for (int i = 0; i < links; ++i) {
      btRigidBody& link =
          w.box(0.05, btVector3(h, btScalar(0.05), btScalar(0.05)), btVector3(h, 0, 2 * apart * btScalar(i)));
      link.getBroadphaseHandle()->m_collisionFilterMask = 0;
      const btVector3 side(i % 2 ? h : -h, 0, 0), across(0, 0, apart);
      if (i == 0)
        w.joint<btPoint2PointConstraint>(link, side);
      else
        w.joint<btPoint2PointConstraint>(*w.bodies[w.bodies.size() - 2], link, side + across, side - across);
    }
    btRigidBody& last = *w.bodies.back();
    const btVector3 end(links % 2 ? h : -h, 0, 0), hook(0, btScalar(-0.3), 0);
    btRigidBody& load = w.box(1000, btVector3(h, h, h), last.getWorldTransform() * end - hook);
    load.getBroadphaseHandle()->m_collisionFilterMask = 0;
    w.joint<btPoint2PointConstraint>(last, load, end, hook);
    bullet::Solver exact(w.world);
    const double start = exact.energy();
    double highest = start;
    for (int i = 0; i < 120; ++i) {
      w.step(1, 1.0 / 60);
      highest = std::max(highest, exact.energy());
      ASSERT_LE(largest_gap(exact), precision(1e-9, 1e-4)) << links << " links, step " << i;
    }
    EXPECT_EQ(exact.counts().fallbacks, 0) << links << " links: " << exact.summary();
    EXPECT_LE(highest - start, 0.01 * 1000 * 9.81 * links) << links << " links";
  }
}

// A whip: its end snaps taut within a step. Constraints that do not move must not give energy.
TEST(Life, AWhipDoesNotGainEnergy) {
  TestWorld w;
  btRigidBody* last = nullptr;
  for (int i = 0; i < 10; ++i) {
    btRigidBody& link =
        w.box(1, btVector3(btScalar(0.2), btScalar(0.02), btScalar(0.3)), btVector3(btScalar(0.5 * i + 0.25), 0, 0));
    const btVector3 end(btScalar(0.25), 0, 0);
    if (last)
      w.joint<btPoint2PointConstraint>(*last, link, end, -end);
    else
      w.joint<btPoint2PointConstraint>(link, -end);
    last = &link;
  }
  bullet::Solver exact(w.world);
  const double start = exact.energy(), scale = 10 * 9.81 * 5;
  double highest = start, before = start, jump = 0;
  for (int i = 0; i < 8 * 240; ++i) {
    w.step();
    const double now = exact.energy();
    highest = std::max(highest, now);
    jump = std::max(jump, now - before);
    before = now;
  }
  // Without the watch on what the constraints do, one step alone gave 20 J.
  EXPECT_LE(jump, 0.01 * scale);
  EXPECT_LE(highest - start, 0.02 * scale);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_LE(exact.counts().imbalance, 1e-12);
}

TEST(Life, TheClockAndTheCallbackFollowTheHost) {
  TestWorld w;
  chain(w, 2);
  bullet::Solver exact(w.world);
  exact.name_joint(*w.joints[0], "pivot");
  exact.set_t(5);
  int calls = 0;
  double last = 0;
  exact.on_step([&](bullet::Step s) {
    ++calls;
    last = s.t;
    EXPECT_EQ(s["pivot"].name, "pivot");
    expect_refused([&] { (void)s["pivto"]; }, "no constraint has the name 'pivto'; did you mean 'pivot'?");
  });
  for (int i = 0; i < 10; ++i) w.world.stepSimulation(btScalar(1.0 / 60), 4, btScalar(1.0 / 240));
  EXPECT_NEAR(calls, 40, 1);
  EXPECT_NEAR(last, 5 + calls / 240.0, 1e-5);
  EXPECT_EQ(exact.find("nobody").valid(), false);
}

// Bullet puts a pendulum of 1 m and 0.2 rad to sleep in mid-air after two seconds: it is slower than 0.8 m/s.
// Links are thrown so fast that their steps are taken in substeps. Joints that do not move should do no work. All
// substeps of a step together may gain no more than a whole step may: 2 % of the kinetic energy (T15).
TEST(Life, WhipsGainNoMoreInAStepInPartsThanInAWholeOne) {
  long parts = 0;
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    TestWorld w(0);
    chain(w, random.integer(3, 9), random.uniform(0.02, 1), random.uniform(0.1, 0.5));
    for (const auto& link : w.bodies) {
      link->getBroadphaseHandle()->m_collisionFilterMask = 0;
      link->setLinearVelocity(bullet::to_bullet(random.vector(10)));
      link->setAngularVelocity(bullet::to_bullet(random.vector(10)));
    }
    bullet::Solver exact(w.world);
    const auto work = [&] {
      double sum = 0;
      for (const Reaction& r : exact.reactions()) sum += r.work;
      return sum;
    };
    w.step(1, 1.0 / 30);  // which puts the velocities on the joints
    double before = work(), energy = exact.energy();
    for (int i = 0; i < 60; ++i) {
      w.step(1, 1.0 / 30);
      const double most = std::max(energy, exact.energy());
      energy = exact.energy();
      ASSERT_LE(work() - before, (0.02 + precision(1e-9, 1e-4)) * most) << "step " << i << "\n" << exact.summary();
      before = work();
    }
    parts += exact.counts().substepped_steps;
  }
  EXPECT_GT(parts, 300);
}

// A load on light links hangs on a pivot that the program moves at a steady speed. Steps are taken in substeps. Each
// substep ends where the pivot is at that time, so that the joint at the pivot stays closed. A law excludes the fast
// path for stock joints.
TEST(Life, AKinematicPivotGoesOnThroughThePartsOfAStep) {
  for (const bool with_law : {false, true}) {
    SCOPED_TRACE(with_law);
    TestWorld w;
    btRigidBody& pivot = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    pivot.setCollisionFlags(pivot.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
    pivot.setActivationState(DISABLE_DEACTIVATION);
    const btScalar h(0.25), speed(2);
    btRigidBody* last = &pivot;
    for (int i = 0; i <= 6; ++i) {
      const btVector3 at(btScalar(0.5 * i + 0.25), 0, 0), half(h, btScalar(0.05), btScalar(0.05));
      btRigidBody& next = w.box(i < 6 ? 0.1 : 1000, half, at);
      next.getBroadphaseHandle()->m_collisionFilterMask = 0;
      next.setLinearVelocity(btVector3(speed, 0, 0));
      w.joint<btPoint2PointConstraint>(*last, next, i > 0 ? btVector3(h, 0, 0) : btVector3(0, 0, 0),
                                       btVector3(-h, 0, 0));
      last = &next;
    }
    bullet::Solver exact(w.world);
    if (with_law) exact.name_joint(*w.joints[3], "oiled").law(laws::viscous(0.1));
    for (int i = 1; i <= 120; ++i) {
      pivot.setWorldTransform(btTransform(btQuaternion::getIdentity(), btVector3(speed * btScalar(i / 240.0), 0, 0)));
      w.step();
      ASSERT_LE(largest_gap(exact), precision(1e-11, 1e-4)) << i;
    }
    EXPECT_GT(exact.counts().substepped_steps, 30);
    EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  }
}

TEST(Life, ASlowMechanismDoesNotFreezeAndOneAtRestSleeps) {
  for (const bool moving : {true, false}) {
    TestWorld w;
    const double angle = moving ? 0.2 : 0;
    btRigidBody& bob = w.ball(1, 0.1, btVector3(btScalar(std::sin(angle)), btScalar(-std::cos(angle)), 0));
    bob.forceActivationState(ACTIVE_TAG);
    w.joint<btPoint2PointConstraint>(bob, btVector3(btScalar(-std::sin(angle)), btScalar(std::cos(angle)), 0));
    bullet::Solver exact(w.world);
    double least = 1, most = -1;
    for (int i = 0; i < 10 * 240; ++i) {
      w.step();
      if (i > 8 * 240) {
        least = std::min(least, double(bob.getWorldTransform().getOrigin().x()));
        most = std::max(most, double(bob.getWorldTransform().getOrigin().x()));
      }
    }
    EXPECT_EQ(bob.isActive(), moving);
    if (moving) {
      EXPECT_NEAR(most, std::sin(0.2), 2e-3);
      EXPECT_NEAR(least, -std::sin(0.2), 2e-3);
    }
  }
}

TEST(Life, ReactionsOfWhatSleepsAreOfItsLastStepAwakeWhoeverHadAsked) {
  for (const int asked_until : {0, 60, 1200}) {
    TestWorld w;
    btRigidBody& bob = w.ball(2, 0.1, btVector3(0, -1, 0));
    bob.forceActivationState(ACTIVE_TAG);
    auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(0, 1, 0));
    bullet::Solver exact(w.world);
    for (int i = 0; i < 1200; ++i) {
      if (i == 240) {
        bob.setMassProps(10, btVector3(1, 1, 1));
        bob.setGravity(btVector3(0, btScalar(-9.81), 0));
        bob.activate();
      }
      w.step();
      if (i < asked_until) (void)exact.reactions();
    }
    ASSERT_FALSE(bob.isActive());
    const Reaction& r = exact.reactions()[0];
    const Vector3d f = &pivot.getRigidBodyA() == &bob ? r.on_a.force : r.on_b.force;
    EXPECT_NEAR(f.y(), 98.1, precision(1e-9, 1e-3)) << "asked in the first " << asked_until << " steps";
    EXPECT_FALSE(r.native);
  }
}

TEST(Life, AWarmStepAllocatesNothing) {
  TestWorld w;
  chain(w, 8);
  btRigidBody& lone = w.ball(1, 0.1, btVector3(0, 3, 0));
  bullet::Solver exact(w.world);
  exact.constrain("hold", {lone}, [](const auto& s) { return dot(s[0].position(), s[0].position()) - 9.0; })
      .set_application_points({Vector3d::Zero()})
      .law([](const ConstraintReaction& n) { return Vector3d(-0.01 * n.slip_velocity); });
  w.step(30);
  const AllocationCounter allocations;
  w.step(30);
  EXPECT_EQ(allocations.count(), 0u);
}

TEST(Life, AWarmStepInContactAllocatesNothing) {
  TestWorld w;
  chain(w, 8);
  w.box(0, btVector3(8, btScalar(0.5), 8), btVector3(0, btScalar(-1.2), 0));
  bullet::Solver exact(w.world);
  w.step(480);  // it swings down, drags over the floor and comes to rest there
  const AllocationCounter allocations;
  w.step(60);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_GT(w.dispatcher.getNumManifolds(), 3);
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(Life, AWarmStepDoneInHalvesAllocatesNothing) {
  TestWorld w;
  chain(w, 8);
  for (const auto& link : w.bodies) link->getBroadphaseHandle()->m_collisionFilterMask = 0;  // Bullet's own memory
  bullet::Solver exact(w.world);
  // Far too long for a whipping chain. Most are plain substeps; what others need is allocated when one is first taken.
  w.step(180, 1.0 / 40);
  const auto before = exact.counts().substepped_steps;
  const AllocationCounter allocations;
  w.step(60, 1.0 / 40);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_GT(exact.counts().substepped_steps, before + 5);
}

// While nobody asks for reactions, ranks or counts.
TEST(Life, ALinkTakesFourKilobytesBesideBulletsOwn) {
#if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 33) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "nobody tells how much is taken";
#else
  const auto taken = [] {
    const struct mallinfo2 info = mallinfo2();
    return double(info.uordblks) + double(info.hblkhd);
  };
  if (single) GTEST_SKIP() << "a kilometre out poses are rounded by more than a gap may have: no step there is plain";
  constexpr int links = 2000;
  TestWorld w;
  chain(w, links);
  for (const auto& link : w.bodies) link->getBroadphaseHandle()->m_collisionFilterMask = 0;
  const btVector3 gravity = w.world.getGravity();
  w.world.setGravity(btVector3(0, 0, 0));  // so that no joint opens
  w.step(3);                               // whatever Bullet takes
  w.world.setGravity(gravity);
  const double before = taken();
  bullet::Solver exact(w.world);
  w.step(10);
  // 4 KiB. 36 bytes of them are the gyroscopic torque of the mean velocities, from which the next Newton starts.
  EXPECT_LE((taken() - before) / links, 4096);
  EXPECT_GT(exact.counts().solves, 0);
#endif
}

// A set of constraints that was there before is known again, with the order in which it is eliminated.
TEST(Life, AJointSwitchedOffAndOnIsAnalysedOnce) {
  TestWorld w;
  chain(w, 300);
  for (const auto& link : w.bodies) link->getBroadphaseHandle()->m_collisionFilterMask = 0;
  bullet::Solver exact(w.world);
  w.step(2);
  btTypedConstraint& middle = *w.joints[150];
  const auto allocations_of_a_turn = [&](btTypedConstraint& joint) {
    const AllocationCounter allocations;
    joint.setEnabled(false);
    w.step();
    joint.setEnabled(true);
    w.step();
    return allocations.count();
  };
  const std::size_t first = allocations_of_a_turn(middle);  // what closing the gap takes is part of it
  const std::size_t again = allocations_of_a_turn(middle);
  EXPECT_GT(first, 1000u);
  EXPECT_LT(again, first / 20);
  EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
  // Each joint in its turn leaves other sets behind: they are not all kept.
  for (int i = 0; i < 60; ++i) allocations_of_a_turn(*w.joints[static_cast<std::size_t>(10 + 4 * i)]);
  EXPECT_GT(allocations_of_a_turn(middle), 1000u);
  EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
}

TEST(Life, AJointGivenBackIsExactAgainOnceItIsAdoptedAgain) {
  TestWorld w;
  btRigidBody& bob = w.ball(1, 0.1, btVector3(1, 0, 0));
  btTypedConstraint& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(-1, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle handle = exact.name_joint(pivot, "pivot");
  w.step(100);
  handle.remove();
  EXPECT_TRUE(handle.valid());
  EXPECT_NE(handle.try_law(laws::viscous(1)).error().message, "");
  w.step(100);
  EXPECT_TRUE(handle.reaction().native);
  EXPECT_EQ(handle.reaction().gap, 0);                // not what it was when it was looked at
  EXPECT_GT(handle.reaction().on_a.force.norm(), 1);  // of Bullet's rows
  EXPECT_EQ(exact.name_joint(pivot, "pivot").name(), "pivot");
  w.step(2);
  EXPECT_FALSE(handle.reaction().native);
  EXPECT_TRUE(exact.native().empty());
  EXPECT_EQ(handle.try_law(laws::viscous(1)).error().message, "");
  EXPECT_LE(handle.reaction().gap, precision(1e-12, 1e-6));
  w.step(100);
  EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-6));
}

/// A joint is made and deleted in every frame (a hand that grabs and lets go), or a ragdoll comes and another goes.
struct Churn {
  explicit Churn(bool bodies, bool users = false) : with_bodies(bodies), of_users(users) {
    keep = &make();
    exact = std::make_unique<bullet::Solver>(w.world);
  }
  ~Churn() {
    exact.reset();
    w.world.removeRigidBody(keep);
    delete keep;
  }
  btRigidBody& make() {
    auto* body = new btRigidBody(1, nullptr, &shape, btVector3(btScalar(.004), btScalar(.004), btScalar(.004)));
    body->setActivationState(DISABLE_DEACTIVATION);
    w.world.addRigidBody(body);
    return *body;
  }
  void frames(int n) {
    for (int i = 0; i < n; ++i) {
      btRigidBody& body = with_bodies ? make() : *keep;
      btTypedConstraint* joint = nullptr;
      bullet::Handle handle;
      if (of_users) {
        handle = exact->constrain("hold", {body}, [](const auto& s) { return s[0].position().z; });
      } else {
        joint = new btPoint2PointConstraint(body, btVector3(1, 0, 0));
        w.world.addConstraint(joint, true);
      }
      largest = std::max(largest, exact->id(body).index);
      w.step();
      if (of_users) handle.remove();
      if (joint) w.world.removeConstraint(joint);
      delete joint;
      if (!with_bodies) continue;
      w.world.removeRigidBody(&body);
      delete &body;
    }
  }
  const bool with_bodies, of_users;
  btSphereShape shape{btScalar(.1)};
  TestWorld w;
  btRigidBody* keep = nullptr;
  std::unique_ptr<bullet::Solver> exact;
  int largest = 0;
};

class ChurnOf : public ::testing::TestWithParam<std::pair<bool, bool>> {};
TEST_P(ChurnOf, WhatIsGoneTakesNoMemoryAndNoAllocations) {
  Churn churn(GetParam().first, GetParam().second);
  churn.frames(400);
  const int largest = churn.largest;
  EXPECT_LT(largest, 200);
  std::size_t allocations = 0;
  const auto taken = [] {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct mallinfo2 info = mallinfo2();
    return double(info.uordblks) + double(info.hblkhd);
#else
    return 0.0;
#endif
  };
  const double before = taken();
  for (const bool second : {false, true}) {
    const AllocationCounter counter;
    churn.frames(400);
    if (!second)
      allocations = counter.count();
    else  // hash tables are laid out anew now and then
      EXPECT_NEAR(double(counter.count()), double(allocations), 0.02 * double(allocations));
  }
  EXPECT_LT(taken() - before, 800 * 20) << "bytes per joint or body that was";
  EXPECT_LE(churn.largest, largest + 20);  // the allocator chooses which addresses are used again
  churn.w.step();
  EXPECT_EQ(churn.exact->reactions().size(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Life, ChurnOf,
                         ::testing::Values(std::pair(false, false), std::pair(true, false), std::pair(false, true),
                                           std::pair(true, true)),
                         [](const auto& of) {
                           return std::string(of.param.second ? "OwnConstraints" : "Joints") +
                                  (of.param.first ? "WithBodies" : "");
                         });

TEST(Life, HandlesOfWhatIsGoneDoNotNameWhatHasItsPlace) {
  TestWorld w;
  btRigidBody& bob = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  const auto hold = [&] { return exact.constrain("hold", {bob}, [](const auto& s) { return s[0].position().z; }); };
  std::vector<bullet::Handle> stale;
  for (int i = 0; i < 400; ++i) {
    stale.push_back(hold());
    w.step();
    stale.back().remove();
  }
  bullet::Handle now = hold();
  w.step();
  for (bullet::Handle& gone : stale) {
    EXPECT_FALSE(gone.valid());
    EXPECT_EQ(gone.name(), "");
    EXPECT_EQ(gone.reaction().name, "");
    EXPECT_TRUE(gone.bodies().empty());
    EXPECT_TRUE(gone.laws().empty());
    EXPECT_NE(gone.try_law(laws::viscous(1)).error().message.find("has been removed"), std::string::npos);
    EXPECT_NE(gone.try_unilateral().error().message.find("has been removed"), std::string::npos);
    gone.enable(false).clear_laws().remove();
  }
  EXPECT_TRUE(now.valid());
  EXPECT_EQ(now.reaction().name, "hold");
  w.step(10);
  EXPECT_EQ(exact.reactions().size(), 1u);
  EXPECT_LE(std::abs(double(bob.getWorldTransform().getOrigin().z())), precision(1e-15, 1e-6));
}

/// All that can be asked of a solver, whatever has become of its world.
void ask_everything(bullet::Solver& exact, bullet::Handle joint, bullet::Handle own, btRigidBody& body) {
  EXPECT_TRUE(std::isnan(exact.energy())) << exact.energy();
  for (bullet::Handle handle : {joint, own}) {
    EXPECT_FALSE(handle.valid());
    EXPECT_EQ(handle.name(), "");
    EXPECT_TRUE(handle.bodies().empty());
    EXPECT_FALSE(handle.released());
    (void)try_call([&] { return handle.reaction(); });  // an empty one throws
    (void)handle.laws();
    (void)handle.unit();
    for (const std::string& why :
         {handle.try_law(laws::viscous(1)).error().message, handle.try_unilateral().error().message})
      EXPECT_TRUE(why.find("the world of this solver has been destroyed") != std::string::npos ||
                  why.find("the handle is empty") != std::string::npos)
          << why;
    handle.enable(false).enable(true).collisions_between_bodies(true).clear_laws();
    handle.remove();
  }
  (void)exact.reactions();
  (void)exact.momentum_balances();
  (void)exact.counts();
  (void)exact.native();
  (void)exact.rank_report();
  (void)exact.problem("own");
  EXPECT_FALSE(exact.find("own").valid());
  exact.reset();
  (void)exact.history();
  const auto made = exact.try_constrain("new", {&body}, [](const auto& s) { return s[0].position().x; });
  EXPECT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::order);
  const std::string& why = made.error().message;
  EXPECT_NE(why.find("the world of this solver has been destroyed"), std::string::npos) << why;
  EXPECT_NE(exact.summary().find("the world has been destroyed"), std::string::npos);
  ASSERT_EQ(exact.check().size(), 1u);
  EXPECT_NE(exact.check()[0].message.find("destroyed"), std::string::npos);
  expect_refused([&] { exact.id(body); }, "the world of this solver has been destroyed");
  btMultiBody links(1, btScalar(1), btVector3(1, 1, 1), true, false);
  expect_refused([&] { exact.joint_wrench(bullet::link(links, 0)); }, "the world of this solver has been destroyed");
  expect_refused([&] { exact.id(bullet::link(links, 0)); }, "the world of this solver has been destroyed");
}

// Members of a game are destroyed in the order of its class; nobody thinks of the solver's.
TEST(Life, ASolverThatOutlivesItsWorldKnowsItIsGone) {
  for (const bool bodies_first : {false, true}) {
    auto w = std::make_unique<TestWorld>();
    auto elsewhere = std::make_unique<TestWorld>();
    chain(*w, 4);
    auto exact = std::make_unique<bullet::Solver>(w->world);
    bullet::Handle joint = exact->name_joint(*w->joints[1], "joint");
    bullet::Handle own = exact->constrain("own", {*w->bodies[2]}, [](const auto& s) { return s[0].position().z; });
    joint.law(laws::viscous(0.1));
    w->step(10);
    (void)exact->reactions();
    w->step(1);
    btRigidBody& other = elsewhere->ball(1, 0.1, btVector3(0, 0, 0));
    if (bodies_first) {  // taken out and deleted, as games do
      while (w->world.getNumConstraints() > 0) w->world.removeConstraint(w->world.getConstraint(0));
      w->joints.clear();
      while (w->world.getNumCollisionObjects() > 0)
        w->world.removeCollisionObject(w->world.getCollisionObjectArray()[0]);
      w->bodies.clear();
    }
    w.reset();
    ask_everything(*exact, joint, own, other);
    exact.reset();
  }
}

TEST(Life, AConstraintOfABodyThatHasLeftTheWorldIsNotExact) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle hold = exact.constrain("hold", {ball}, [](const auto& s) { return s[0].position().y; });
  w.step();
  EXPECT_TRUE(hold.is_exact());
  w.world.removeRigidBody(&ball);
  EXPECT_FALSE(hold.is_exact());
  w.step();
  EXPECT_FALSE(hold.is_exact());
  EXPECT_FALSE(exact.find("hold").is_exact());
  w.world.addRigidBody(&ball);
  w.step();
  EXPECT_EQ(hold.is_exact(), hold.reaction().on_a.force.norm() > 0);
}

TEST(Life, AWorldDestroyedFirstFreesItsOwnSolverAndHasNothingOfOursLeft) {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSphereShape shape(btScalar(.1));
  btRigidBody body(1, nullptr, &shape, btVector3(1, 1, 1));
  std::unique_ptr<bullet::Solver> exact;
  {
    btDiscreteDynamicsWorld world(&dispatcher, &broadphase, nullptr, &config);  // whose solver is its own
    world.addRigidBody(&body);
    exact = std::make_unique<bullet::Solver>(world);
    exact->constrain("hold", {body}, [](const auto& s) { return s[0].position().z; }).collisions_between_bodies(false);
    world.stepSimulation(btScalar(1) / 60, 0);
    EXPECT_FALSE(body.checkCollideWith(&btTypedConstraint::getFixedBody()));
  }
  EXPECT_TRUE(body.checkCollideWith(&btTypedConstraint::getFixedBody())) << "it goes on without us";
  btDiscreteDynamicsWorld next(&dispatcher, &broadphase, nullptr, &config);
  next.addRigidBody(&body);
  next.stepSimulation(btScalar(1) / 60, 0);
  bullet::Solver again(next);
  next.stepSimulation(btScalar(1) / 60, 0);
  next.removeRigidBody(&body);
}

TEST(Life, WorldsOfThreadsAndOfMultibodiesMayGoFirstToo) {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  TestWorld elsewhere;
  btRigidBody& other = elsewhere.ball(1, 0.1, btVector3(0, 0, 0));
  std::unique_ptr<bullet::Solver> threads, links;
  {
    btConstraintSolverPoolMt pool(1);
    btDiscreteDynamicsWorldMt world(&dispatcher, &broadphase, &pool, nullptr, &config);
    threads = std::make_unique<bullet::Solver>(world);
    world.stepSimulation(btScalar(1) / 60, 0, btScalar(1) / 60);
  }
  {
    btMultiBodyConstraintSolver native;
    btMultiBodyDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
    links = std::make_unique<bullet::Solver>(world);
    world.stepSimulation(btScalar(1) / 60, 0);
  }
  for (const auto& exact : {threads.get(), links.get()}) ask_everything(*exact, {}, {}, other);
}

TEST(Life, PassedToTheConstructorItMayBeDestroyedBeforeTheWorld) {
  auto exact = std::make_unique<bullet::Solver>();
  TestWorld w(9.81, exact->constraint_solver());
  exact->attach(w.world);
  chain(w, 3);
  w.step(10);
  exact.reset();
  w.step(10);  // by a native solver of the world's own
  EXPECT_TRUE(w.finite());
}

TEST(Life, AReactionByAWrongNameSaysWhichNameIsMeant) {
  TestWorld w;
  btRigidBody& bob = w.ball(1, 0.1, btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  expect_refused([&] { (void)exact.find("ram").reaction(); }, "linchpin: no constraint has the name 'ram'");
  exact.constrain("ram", {bob}, [](const auto& s) { return s[0].position().z; });
  exact.constrain("hydraulic lift", {bob}, [](const auto& s) { return s[0].position().y; });
  w.step();
  expect_refused([&] { (void)exact.find("rma").reaction(); },
                 "linchpin: no constraint has the name 'rma'; did you mean 'ram'?");
  expect_refused([&] { (void)exact.find("wheel of the cart").reaction(); },
                 "no constraint has the name 'wheel of the cart'. The names are: ram, hydraulic lift");
  EXPECT_EQ(try_call([&] { return exact.find("rm").reaction(); }).error().kind, ErrorKind::argument);
  if (auto ram = exact.find("ram"))
    EXPECT_EQ(ram.reaction().name, "ram");
  else
    ADD_FAILURE() << "the handle is empty";
  if (exact.find("rm")) ADD_FAILURE() << "the handle is not empty";
}

TEST(Life, AnEmptyHandleSaysSo) {
  TestWorld w;
  btRigidBody& bob = w.ball(1, 0.1, btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle none = exact.find("no such joint");
  EXPECT_FALSE(none);
  expect_refused([&] { none.law(laws::viscous(1)); }, "no constraint has the name 'no such joint'");
  expect_refused([&] { none.unilateral(); }, "no constraint has the name 'no such joint'");
  EXPECT_EQ(none.enable(false).name(), "");
  none.remove();
  expect_refused([&] { (void)bullet::Handle().reaction(); }, "the handle is empty");
  exact.detach();
  expect_refused([&] { exact.id(bob); }, "attach the solver to a world first");
}

}  // namespace
}  // namespace linchpin::test::life_test
