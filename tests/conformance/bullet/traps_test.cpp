// What real programs do to a world while it runs, and what Bullet does to those who look on: one test for each.
#include "one_place.h"
#include "world.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>

#include <BulletDynamics/ConstraintSolver/btGearConstraint.h>
#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cmath>
#include <stdexcept>
#include <string>

namespace linchpin::test::traps_test {
namespace {

const double closed = precision(1e-12, 1e-5);

void make_kinematic(btRigidBody& body, bool on) {
  const int flag = btCollisionObject::CF_KINEMATIC_OBJECT;
  body.setCollisionFlags(on ? body.getCollisionFlags() | flag : body.getCollisionFlags() & ~flag);
  body.setLinearVelocity(btVector3(0, 0, 0));
  body.setAngularVelocity(btVector3(0, 0, 0));
}

// ---- bodies that change what they are

TEST(Traps, AnEmptyWorldSteps) {
  TestWorld w;
  bullet::Solver exact(w.world);
  w.step(3);
  EXPECT_EQ(exact.counts().steps, 3);
}

TEST(Traps, ABodyTurnedKinematicAndBackKeepsItsJointsExact) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  w.step(5);
  for (int i = 0; i < 6; ++i) {
    make_kinematic(*w.bodies[1], i % 2 == 0);
    w.step(5);
    EXPECT_LE(largest_gap(exact), closed);
    EXPECT_TRUE(exact.native().empty());
  }
  EXPECT_TRUE(w.finite());
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(Traps, AConstraintWhoseBodiesAllStandStillForAWhileComesBack) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("shelf", {ball}, [](const auto& s) { return s[0].position().y; });
  w.step(5);
  make_kinematic(ball, true);
  w.step(5);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("shelf"), std::string::npos) << exact.native()[0].why;
  make_kinematic(ball, false);
  w.step(60);
  EXPECT_TRUE(exact.native().empty());
  EXPECT_NEAR(double(ball.getWorldTransform().getOrigin().y()), 0, closed);
  EXPECT_NEAR(exact.find("shelf").reaction().on_a.force.y(), 9.81, 1e-5);
}

TEST(Traps, AUsersConstraintOnABodyWithAHalfFactorIsNativeAndSaysSo) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("shelf", {ball}, [](const auto& s) { return s[0].position().y; });
  ball.setLinearFactor(btVector3(1, btScalar(0.5), 1));
  w.step(10);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("linear factor"), std::string::npos) << exact.native()[0].why;
  ball.setLinearFactor(btVector3(1, 1, 1));
  w.step(10);
  EXPECT_TRUE(exact.native().empty());
}

// To the core it does not move before nor after, and a constraint that took it to stand would be open from then on.
TEST(Traps, AUsersConstraintOnABodyThatComesToLifeWithAHalfFactorIsNativeAndSaysSo) {
  TestWorld w;
  btRigidBody &post = w.ball(0, 0.1, btVector3(0, 0, 0)), &ball = w.ball(1, 0.1, btVector3(1, 0, 0));
  post.setLinearFactor(btVector3(1, btScalar(0.5), 1));
  bullet::Solver exact(w.world);
  exact.constrain("rod", {post, ball}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; });
  w.step(10);
  EXPECT_TRUE(exact.native().empty());
  w.world.removeRigidBody(&post);
  post.setMassProps(4, btVector3(1, 1, 1) * btScalar(0.016));
  w.world.addRigidBody(&post);
  w.step(10);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("linear factor"), std::string::npos) << exact.native()[0].why;
  post.setLinearFactor(btVector3(1, 1, 1));
  w.step(10);
  EXPECT_TRUE(exact.native().empty());
  EXPECT_LE(exact.reactions()[0].residual, precision(1e-12, 1e-5));
}

// ---- things that go without a word (B9)

TEST(Traps, BodiesAndJointsAreDeletedWithoutAWord) {
  TestWorld w;
  chain(w, 4);
  bullet::Solver exact(w.world);
  w.bodies[3]->setLinearFactor(btVector3(1, 1, 0));  // it carries a record of its own
  w.step(5);
  w.world.removeConstraint(w.joints[3].get());
  w.joints.pop_back();
  w.world.removeRigidBody(w.bodies[3].get());
  w.bodies.pop_back();
  EXPECT_FALSE(exact.summary().empty());
  EXPECT_TRUE(exact.check().empty());
  w.step(5);
  EXPECT_EQ(exact.reactions().size(), 3u);
  EXPECT_LE(largest_gap(exact), closed);
  EXPECT_TRUE(w.finite());
}

// As programs clean up: joints, bodies, and only then what steps them. A body under a constraint of the user's own that
// only leaves the world comes back without it.
TEST(Traps, BodiesUnderConstraintsOfTheUsersOwnAreDeletedBeforeTheSolver) {
  TestWorld w;
  btRigidBody& kept = w.box(1, btVector3(1, 1, 1) * btScalar(0.1), btVector3(3, 0, 0));
  chain(w, 3);
  auto exact = std::make_unique<bullet::Solver>(w.world);
  const auto level = [](const auto& s) { return s[0].position().z; };
  for (const auto& body : w.bodies)
    if (!body->isStaticObject())
      exact->constrain("level " + std::to_string(body->getWorldArrayIndex()), {*body}, level);
  w.step(5);
  for (const auto& joint : w.joints) w.world.removeConstraint(joint.get());
  w.joints.clear();
  for (const auto& body : w.bodies) w.world.removeRigidBody(body.get());
  std::erase_if(w.bodies, [&](const auto& body) { return body.get() != &kept; });
  exact.reset();
  EXPECT_EQ(w.world.getNumConstraints(), 0);
  w.world.addRigidBody(&kept);
  w.step(5);
  EXPECT_TRUE(w.finite());
}

/// Two balls on a rod of the user's own, the second of them at a place that cannot be read once it is deleted.
struct RodOnOnePlace {
  explicit RodOnOnePlace(const bullet::Options& options = {}, bool collide = true)
      : first(w.ball(1, 0.1, btVector3(0, 0, 0))), exact(std::make_unique<bullet::Solver>(w.world, options)) {
    make_second();
    rod = exact->constrain("rod", {first, *second}, distance);
    rod.collisions_between_bodies(collide);
    w.step(3);
  }
  static constexpr auto distance = [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; };
  void make_second() {
    place.for_the_next();
    second = &w.body(1, shape, btVector3(1, 0, 0), btQuaternion::getIdentity());
  }
  void delete_second() {
    w.world.removeRigidBody(second);
    w.bodies.pop_back();
  }
  OnePlace place;
  btSphereShape shape{btScalar(0.1)};
  TestWorld w;
  btRigidBody &first, *second = nullptr;
  std::unique_ptr<bullet::Solver> exact;
  bullet::Handle rod;
};

TEST(Traps, ABodyUnderAConstraintOfTheUsersOwnIsDeletedWithoutAWord) {
  for (const bool collide : {true, false})
    for (const auto& options :
         {bullet::Options{}, bullet::Options{.stepping = bullet::Stepping::rk4},
          bullet::Options{.compare_native = true}, bullet::Options{.mode = bullet::Mode::passive}}) {
      RodOnOnePlace r(options, collide);
      r.delete_second();
      r.w.step(3);
      EXPECT_FALSE(r.rod.valid());
      EXPECT_EQ(r.w.world.getNumConstraints(), 0);
      ASSERT_EQ(r.exact->check().size(), 1u);
      EXPECT_EQ(r.exact->check()[0].constraint, "rod");
      EXPECT_NE(r.exact->check()[0].message.find("body 1 (body#2) is no longer in the world"), std::string::npos)
          << r.exact->check()[0].message;
      EXPECT_NE(
          r.exact->summary().find("1 constraint was removed, because a body of it is no longer in the world: rod"),
          std::string::npos)
          << r.exact->summary();
      EXPECT_TRUE(r.w.finite());
      r.exact->reset();
      EXPECT_TRUE(r.exact->check().empty());
    }
}

TEST(Traps, ReportsDoNotReadABodyThatIsDeleted) {
  const std::vector<std::function<void(RodOnOnePlace&)>> calls{
      [](RodOnOnePlace& r) { EXPECT_EQ(r.exact->check().size(), 1u); },
      [](RodOnOnePlace& r) { EXPECT_NE(r.exact->summary().find("rod"), std::string::npos); },
      [](RodOnOnePlace& r) { (void)r.exact->reactions(); },
      [](RodOnOnePlace& r) { (void)r.exact->momentum_balances(); },
      [](RodOnOnePlace& r) { (void)r.exact->rank_report(); },
      [](RodOnOnePlace& r) { (void)r.exact->problem("rod"); },
      [](RodOnOnePlace& r) { (void)r.exact->energy(); },
      [](RodOnOnePlace& r) { (void)r.rod.reaction(); },
      [](RodOnOnePlace& r) { EXPECT_FALSE(r.rod.is_exact()); },
      [](RodOnOnePlace& r) { r.rod.remove(); },
      [](RodOnOnePlace& r) { r.rod.enable(false).collisions_between_bodies(true).collisions_between_bodies(false); },
      [](RodOnOnePlace& r) { r.exact->reset(); },
      [](RodOnOnePlace& r) { r.exact->restore(r.exact->history()); },
      [](RodOnOnePlace& r) { r.exact->set_options({}); },
      [](RodOnOnePlace& r) { r.exact->detach(); },
      [](RodOnOnePlace& r) { r.exact.reset(); }};
  for (const auto& call : calls) {
    RodOnOnePlace r;
    r.delete_second();
    call(r);
    r.w.step(2);
    EXPECT_EQ(r.w.world.getNumConstraints(), 0);
    EXPECT_TRUE(r.w.finite());
  }
}

// Nothing in the world shows it but the number that Bullet gives to each body.
TEST(Traps, ABodyAtTheAddressOfADeletedOneDoesNotInheritItsConstraints) {
  for (const bool constrained_again : {false, true}) {
    RodOnOnePlace r;
    r.delete_second();
    r.make_second();
    if (constrained_again) r.exact->constrain("rod 2", {r.first, *r.second}, RodOnOnePlace::distance);
    r.w.step(3);
    EXPECT_FALSE(r.rod.valid());
    EXPECT_EQ(r.exact->reactions().size(), constrained_again ? 1u : 0u);
    EXPECT_EQ(r.w.world.getNumConstraints(), constrained_again ? 1 : 0);
    EXPECT_TRUE(r.w.finite());
    r.delete_second();
  }
}

TEST(Traps, AnActionOrTheCallbackDeletesABodyUnderAConstraintOfTheUsersOwn) {
  struct Scissors : btActionInterface {
    std::function<void()> cut;
    void updateAction(btCollisionWorld*, btScalar) override {
      if (const auto now = std::exchange(cut, nullptr)) now();
    }
    void debugDraw(btIDebugDraw*) override {}
  };
  for (const bool by_action : {true, false}) {
    RodOnOnePlace r;
    Scissors scissors;
    if (by_action) {
      scissors.cut = [&] { r.delete_second(); };
      r.w.world.addAction(&scissors);
    } else {
      r.exact->on_step([&](const bullet::Step&) {
        r.delete_second();
        r.exact->on_step({});
      });
    }
    r.w.step(3);
    EXPECT_FALSE(r.rod.valid());
    EXPECT_EQ(r.exact->check().size(), 1u);
    EXPECT_TRUE(r.w.finite());
    r.w.world.removeAction(&scissors);
  }
}

TEST(Traps, OfManyConstraintsThatWereRemovedWithTheirBodiesTheFirstAreNamed) {
  TestWorld w;
  bullet::Solver exact(w.world);
  for (int i = 0; i < 20; ++i) {
    btRigidBody& ball = w.ball(1, 0.1, btVector3(btScalar(i), 0, 0));
    exact.constrain("hold " + std::to_string(i), {ball}, [](const auto& s) { return s[0].position().z; });
  }
  w.step();
  while (!w.bodies.empty()) {
    w.world.removeRigidBody(w.bodies.back().get());
    w.bodies.pop_back();
  }
  w.step();
  EXPECT_EQ(exact.check().size(), 16u);
  EXPECT_NE(exact.summary().find("20 constraints were removed, because a body of each is no longer in the world: "),
            std::string::npos)
      << exact.summary();
  EXPECT_NE(exact.summary().find(" and 14 more"), std::string::npos) << exact.summary();
}

TEST(Traps, ReactionsCanBeReadBetweenRemovals) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  std::vector<bullet::Handle> holds;
  for (int i = 0; i < 3; ++i)
    holds.push_back(exact.constrain("hold " + std::to_string(i), {*w.bodies[std::size_t(i)]},
                                    [](const auto& s) { return s[0].position().z; }));
  w.step(5);
  for (std::size_t i = 0; i < 3; ++i) {
    holds[i].remove();
    EXPECT_EQ(exact.reactions().size(), 5 - i);
    for (const Reaction& r : exact.reactions()) EXPECT_TRUE(r.on_a.force.allFinite());
    EXPECT_TRUE(exact.rank_report().contradictory.empty());
    EXPECT_FALSE(exact.summary().empty());
  }
}

// An allocator likes to hand out the same place again: the new joint is another one all the same.
TEST(Traps, AJointMadeWhereAnotherLayIsAnotherJoint) {
  TestWorld w;
  btRigidBody& a = w.box(1, btVector3(1, 1, 1) * btScalar(0.1), btVector3(0, 0, 0));
  btRigidBody& b = w.box(1, btVector3(1, 1, 1) * btScalar(0.1), btVector3(1, 0, 0));
  alignas(16) unsigned char place[std::max(sizeof(btHingeConstraint), sizeof(btSliderConstraint))];
  btTransform frame;
  frame.setIdentity();
  btTypedConstraint* joint = new (place) btHingeConstraint(a, frame);
  w.world.addConstraint(joint);
  bullet::Solver exact(w.world);
  exact.name_joint(*joint, "door");
  w.step(5);
  EXPECT_EQ(exact.reactions()[0].lambda.size(), 5u);
  w.world.removeConstraint(joint);
  joint->~btTypedConstraint();
  joint = new (place) btSliderConstraint(b, frame, true);
  w.world.addConstraint(joint);
  w.step(1);
  ASSERT_EQ(exact.reactions().size(), 1u);
  EXPECT_EQ(exact.reactions()[0].name, "slider#0");
  w.world.removeConstraint(joint);
  joint->~btTypedConstraint();
}

// What a constraint of the user's own has in the world may come to lie where a joint was that nobody has said is gone.
TEST(Traps, AConstraintOfTheUsersMadeWhereAJointLayIsHeld) {
  OnePlace place;
  TestWorld w;
  btRigidBody& a = w.ball(1, 0.1, btVector3(0, 0, 0));
  btRigidBody& b = w.ball(1, 0.1, btVector3(1, 0, 0));
  place.for_the_next();
  btTypedConstraint* const joint = new btPoint2PointConstraint(a, btVector3(0, 0, 0));
  w.world.addConstraint(joint);
  bullet::Solver exact(w.world);
  w.step(3);
  w.world.removeConstraint(joint);
  delete joint;
  place.for_the_next();
  bullet::Handle rod =
      exact.constrain("rod", {a, b}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; });
  ASSERT_EQ(w.world.getConstraint(0), joint);
  a.setAngularVelocity(btVector3(0, 0, 1));
  b.setLinearVelocity(btVector3(0, 1, 1));
  for (int i = 0; i < 5; ++i) {
    w.step();
    ASSERT_EQ(exact.reactions().size(), 1u) << i;
    EXPECT_EQ(exact.reactions()[0].name, "rod") << i;
    EXPECT_FALSE(exact.reactions()[0].native) << i;
    EXPECT_LE(rod.reaction().residual, closed) << i;
  }
  EXPECT_TRUE(exact.native().empty());
  // And when the world is looked through again, it is no joint that the program has made.
  w.joint<btPoint2PointConstraint>(b, btVector3(0, 0, 0));
  w.step(3);
  ASSERT_EQ(exact.reactions().size(), 2u);
  EXPECT_TRUE(rod.valid());
  EXPECT_TRUE(exact.native().empty());
  EXPECT_LE(largest_gap(exact), closed);
}

// And not even looks at what is deleted.
TEST(Traps, AHandleOfAJointThatIsDeletedWithoutAWordDoesNothing) {
  using Call = void (*)(bullet::Handle&);
  static constexpr Call calls[] = {
      [](bullet::Handle& h) { h.remove(); }, [](bullet::Handle& h) { h.enable(false); },
      [](bullet::Handle& h) { h.clear_laws(); },
      [](bullet::Handle& h) { EXPECT_NE(h.try_law(laws::viscous(1)).error().message, ""); }};
  for (const Call call : calls)
    for (const bool stepped : {false, true})
      for (const bool body_lies_there : {false, true}) {
        OnePlace place;
        btSphereShape ball(btScalar(0.1));
        TestWorld w;
        chain(w, 1);
        if (body_lies_there) place.for_the_next();
        btRigidBody& tip = w.body(1, ball, btVector3(1, 0, 0), btQuaternion::getIdentity());
        if (!body_lies_there) place.for_the_next();
        w.joint<btPoint2PointConstraint>(*w.bodies[0], tip, btVector3(btScalar(0.75), 0, 0), btVector3(0, 0, 0));
        bullet::Solver exact(w.world);
        bullet::Handle handle = exact.name_joint(*w.joints[1], "tip");
        w.step(3);
        w.world.removeConstraint(w.joints[1].get());
        w.joints.pop_back();
        w.world.removeRigidBody(&tip);
        w.bodies.pop_back();
        if (stepped) w.step();
        call(handle);
        EXPECT_FALSE(handle.valid());
        EXPECT_EQ(exact.reactions().size(), 1u);
        w.step(3);
        EXPECT_LE(largest_gap(exact), closed);
      }
}

TEST(Traps, AnActionTakesAJointAndItsBodyBeforeTheStepHasEnded) {
  struct Scissors : btActionInterface {
    TestWorld* w = nullptr;
    bool cut = false;
    void updateAction(btCollisionWorld*, btScalar) override {
      if (!std::exchange(cut, false)) return;
      w->world.removeConstraint(w->joints.back().get());
      w->joints.pop_back();
      w->world.removeRigidBody(w->bodies.back().get());
      w->bodies.pop_back();
    }
    void debugDraw(btIDebugDraw*) override {}
  } scissors;
  TestWorld w;
  scissors.w = &w;
  chain(w, 4);
  w.world.addAction(&scissors);  // before ours
  bullet::Solver exact(w.world);
  w.step(3);
  scissors.cut = true;
  w.step(1);
  EXPECT_EQ(exact.reactions().size(), 3u);
  w.step(3);
  EXPECT_LE(largest_gap(exact), closed);
  w.world.removeAction(&scissors);
}

TEST(Traps, AJointAddedTwiceIsHeldOnce) {
  TestWorld w;
  chain(w, 2);
  w.world.addConstraint(w.joints[0].get());
  bullet::Solver exact(w.world);
  w.step(20);
  EXPECT_EQ(exact.reactions().size(), 2u);
  EXPECT_TRUE(exact.rank_report().redundant.empty());
  EXPECT_LE(largest_gap(exact), closed);
}

// As programs do that leave a level: constraints they never made are among them.
TEST(Traps, ClearingTheWorldTakesTheUsersOwnConstraintsOutToo) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  bullet::Handle hold =
      exact.constrain("hold", {w.bodies[0].get(), w.bodies[1].get(), w.bodies[2].get()},
                      [](const auto& s) { return s[0].position().z + s[1].position().z + s[2].position().z; });
  w.step(5);
  while (w.world.getNumConstraints() > 0) w.world.removeConstraint(w.world.getConstraint(0));
  w.joints.clear();
  while (!w.bodies.empty()) {
    w.world.removeRigidBody(w.bodies.back().get());
    w.bodies.pop_back();
  }
  w.step(2);
  EXPECT_FALSE(hold.valid());
  EXPECT_TRUE(exact.reactions().empty());
  w.ball(1, 0.1, btVector3(0, 0, 0));
  w.step(2);
  EXPECT_TRUE(w.finite());
}

TEST(Traps, AJointWhoseFrameIsNoNumberStaysNativeAndSaysSo) {
  TestWorld w;
  chain(w, 2);
  bullet::Solver exact(w.world);
  auto& bad = w.joint<btPoint2PointConstraint>(*w.bodies[1], btVector3(btScalar(NAN), 0, 0));
  w.step(1);
  const auto native = exact.native();
  for (int i = 0; i < 12; ++i) {  // the rest, whose native neighbour is no number, is named with its reason every time
    w.step(1);
    for (const auto& n : exact.native()) EXPECT_EQ(n.why.find("because  ("), std::string::npos) << n.why;
  }
  w.world.removeConstraint(&bad);
  ASSERT_FALSE(native.empty());
  EXPECT_EQ(native.back().name, "point2point#2");
  EXPECT_NE(native.back().why.find("finite"), std::string::npos) << native.back().why;
}

// A row of Bullet's own brings a body into its solve that nobody will move (B12).
TEST(Traps, ABodyConstrainedButNotInTheWorldLeavesItsBlockNativeAndSaysSo) {
  for (const bool with_native_row : {false, true}) {
    TestWorld w;
    chain(w, 3);
    btRigidBody& tool = w.ball(1, 0.1, btVector3(btScalar(1.5), 0, 0));
    btHingeConstraint& grip = w.joint<btHingeConstraint>(*w.bodies[2], tool, btVector3(btScalar(0.25), 0, 0),
                                                         btVector3(0, 0, 0), btVector3(0, 0, 1), btVector3(0, 0, 1));
    if (with_native_row) grip.enableAngularMotor(true, 1, 1);
    w.ball(1, 0.1,
           btVector3(9, 0, 0));  // or the tool's stale island number is one that Bullet's own islands do not have
    bullet::Solver exact(w.world);
    w.step(5);
    w.world.removeRigidBody(&tool);
    w.step(5);
    ASSERT_FALSE(exact.native().empty());
    EXPECT_NE(exact.native().back().why.find("not in the world"), std::string::npos) << exact.native().back().why;
    w.world.addRigidBody(&tool);
    w.step(5);
    EXPECT_LE(largest_gap(exact), closed);
    EXPECT_TRUE(w.finite());
  }
}

TEST(Traps, AForgottenBodyThatStaysKeepsItsJoints) {
  TestWorld w;
  chain(w, 3);
  w.bodies[1]->setLinearFactor(btVector3(1, 1, 0));
  bullet::Solver exact(w.world);
  w.step(5);
  exact.release_body(*w.bodies[1]);
  w.bodies[1]->setLinearVelocity(btVector3(0, 0, 0));
  w.step(5);
  EXPECT_EQ(exact.reactions().size(), 4u);  // the body's held axis is the fourth
  EXPECT_LE(largest_gap(exact), closed);
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

// ---- books

TEST(Traps, BooksCloseWhereLawsActInAStepDoneInHalves) {
  TestWorld w;
  chain(w, 8);
  bullet::Solver exact(w.world);
  for (std::size_t i = 0; i < 8; ++i)
    exact.name_joint(*w.joints[i], "pin " + std::to_string(i)).law(laws::viscous_torque(0.05));
  for (int i = 0; i < 60; ++i) {
    w.step(1, 1.0 / 40);
    EXPECT_LE(worst_books(exact), 1e-11);
  }
  EXPECT_GT(exact.counts().substepped_steps, 5);
}

// ---- the user's own code

// Bullet's islands reach from a body to the next that moves; what hangs two bodies on a third that stands is one all
// the same.
TEST(Traps, AConstraintWhoseFirstBodiesStandHoldsTheOthers) {
  for (const bool two_stand : {true, false}) {
    TestWorld w;
    btNNCGConstraintSolver nncg;  // this one is solved island by island
    if (!two_stand) w.world.setConstraintSolver(&nncg);
    btRigidBody& a = w.ball(0, 0.1, btVector3(-1, 0, 0));
    btRigidBody& b = w.ball(two_stand ? 0 : 5, 0.1, btVector3(0, 0, 0));
    btRigidBody& c = w.ball(5, 0.1, btVector3(1, 0, 0));
    w.world.getSolverInfo().m_minimumSolverBatchSize = 1;
    {
      bullet::Solver exact(w.world);
      exact.constrain("level", {&a, &b, &c},
                      [](const auto& s) { return s[0].position().y + 2.0 * s[1].position().y + s[2].position().y; });
      w.step(60);
      EXPECT_TRUE(exact.native().empty());
      EXPECT_EQ(exact.counts().fallbacks, 0);
      EXPECT_LE(largest_gap(exact), closed);
      EXPECT_GT(exact.reactions()[0].on(2).force.norm(), 1);
    }
    w.world.setConstraintSolver(w.native.get());
  }
}

TEST(Traps, AResidualThatThrowsIsLeftOutAndNamed) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("moody", {ball}, [](const auto& s) {
    if (s.t > 0.05) throw std::runtime_error("no more");
    return s[0].position().y;
  });
  w.step(60);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("no more"), std::string::npos) << exact.native()[0].why;
  EXPECT_LT(double(ball.getLinearVelocity().y()), -0.1);
  EXPECT_TRUE(w.finite());
}

// ---- other solvers

TEST(Traps, AnotherSolverMayTakeOverForAWhile) {
  TestWorld w;
  chain(w, 4);
  bullet::Solver exact(w.world);
  w.step(5);
  btSequentialImpulseConstraintSolver other;
  w.world.setConstraintSolver(&other);
  EXPECT_TRUE(w.world.getSimulationIslandManager()->getSplitIslands());
  int calls = 0;
  exact.on_step([&](const bullet::Step&) { ++calls; });
  w.step(5);
  w.world.removeConstraint(w.joints[3].get());
  w.joints.pop_back();
  w.world.removeRigidBody(w.bodies[3].get());
  w.bodies.pop_back();
  w.step(5);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(exact.counts().steps, 5);
  EXPECT_NEAR(exact.t(), 15.0 / 240, 1e-6);
  w.world.setConstraintSolver(exact.constraint_solver());
  w.step(5);
  EXPECT_EQ(calls, 5);
  EXPECT_LE(largest_gap(exact), closed);
}

TEST(Traps, IslandsAreSplitAsTheProgramSaysWheneverItLooks) {
  TestWorld w;
  chain(w, 2);
  btSimulationIslandManager& islands = *w.world.getSimulationIslandManager();
  {
    bullet::Solver exact(w.world);
    w.step(2);
    EXPECT_TRUE(islands.getSplitIslands());
    islands.setSplitIslands(false);
    w.step(2);
    EXPECT_LE(largest_gap(exact), closed);
  }
  EXPECT_FALSE(islands.getSplitIslands());
}

// Bullet wakes nobody for an animated body, nor moves what an animated body that kept its mass was pushed out of.
TEST(Traps, WhatSleepsUnderAnAnimatedBodyFollowsIt) {
  for (const double mass : {0.0, 3.0}) {
    SCOPED_TRACE(mass);
    TestWorld w;
    btRigidBody& hand = w.box(mass, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 2, 0));
    hand.setCollisionFlags(hand.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
    hand.setActivationState(DISABLE_DEACTIVATION);
    w.box(0, btVector3(2, btScalar(0.1), 2), btVector3(btScalar(2.15), 2, 0));  // in the hand's way
    btRigidBody& load = w.ball(1, 0.1, btVector3(0, 1, 0));
    btRigidBody& below = w.ball(1, 0.1, btVector3(0, 0, 0));
    w.joint<btPoint2PointConstraint>(hand, load, btVector3(0, 0, 0), btVector3(0, 1, 0));
    w.joint<btPoint2PointConstraint>(load, below, btVector3(0, 0, 0), btVector3(0, 1, 0));
    bullet::Solver exact(w.world);
    w.step(5);
    for (btRigidBody* body : {&load, &below}) {
      body->setLinearVelocity(btVector3(0, 0, 0));
      body->forceActivationState(ISLAND_SLEEPING);
    }
    w.step(5);
    EXPECT_FALSE(load.isActive());
    for (int i = 0; i < 60; ++i) {
      hand.getWorldTransform().getOrigin() += btVector3(btScalar(0.002), 0, 0);
      w.step();
      ASSERT_LE(largest_gap(exact), closed) << i;
    }
    EXPECT_TRUE(load.isActive());
    EXPECT_TRUE(below.isActive());
    EXPECT_NEAR(double(hand.getWorldTransform().getOrigin().x()), 0.12, precision(1e-12, 1e-6));
  }
}

// Bullet's rows give such a body a velocity, which it asks the program for only once in several substeps.
TEST(Traps, AnAnimatedBodyThatKeptItsMassStandsThroughSubstepsWhateverPullsAtIt) {
  double angle[2][2];
  for (const bool shadow : {false, true})
    for (const double mass : {0.0, 3.0}) {
      SCOPED_TRACE(std::to_string(mass) + (shadow ? " kg, the native solver beside" : " kg"));
      TestWorld w;
      btRigidBody& hand = w.box(mass, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 2, 0));
      btRigidBody& arm = w.ball(1, 0.1, btVector3(1, 2, 0));
      auto& hinge = w.joint<btHingeConstraint>(hand, arm, btVector3(0, 0, 0), btVector3(-1, 0, 0), btVector3(0, 0, 1),
                                               btVector3(0, 0, 1));
      hinge.setLimit(btScalar(-0.05), btScalar(0.05));  // the arm falls on its stop
      hand.setCollisionFlags(hand.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
      hand.setActivationState(DISABLE_DEACTIVATION);
      bullet::Solver exact(w.world, {.compare_native = shadow});
      for (int i = 0; i < 60; ++i) {
        hand.applyTorque(btVector3(5, 0, 0));
        w.world.stepSimulation(btScalar(4.0 / 240), 4, btScalar(1.0 / 240));
        ASSERT_EQ(hand.getAngularVelocity().length(), 0) << i;
        ASSERT_EQ(hand.getLinearVelocity().length(), 0) << i;
        ASSERT_LE(largest_gap(exact), closed) << i;
      }
      angle[shadow][mass > 0] = double(hinge.getHingeAngle());
    }
  EXPECT_GT(std::abs(angle[0][0]), 0.02);  // it has fallen
  EXPECT_NEAR(angle[0][0], angle[0][1], precision(1e-9, 1e-5));
  for (const int kept : {0, 1}) EXPECT_EQ(angle[0][kept], angle[1][kept]);
}

// Bullet wakes nobody for a joint that is switched on.
TEST(Traps, AJointSwitchedOnAgainWakesWhatSleptUnderIt) {
  TestWorld w(0);
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  auto& pin = w.joint<btPoint2PointConstraint>(ball, btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  w.step(2);
  pin.setEnabled(false);
  w.step(2);
  ball.getWorldTransform().getOrigin() += btVector3(0, btScalar(0.01), 0);
  ball.forceActivationState(ISLAND_SLEEPING);
  w.step(2);
  ASSERT_FALSE(ball.isActive());
  pin.setEnabled(true);
  w.step(1);
  EXPECT_TRUE(ball.isActive());
  EXPECT_LE(largest_gap(exact), closed);
}

TEST(Traps, AJointThatIsSwitchedOffIsNotReportedAsNative) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  w.step(5);
  w.joints[1]->setEnabled(false);
  w.step(1);
  static_cast<btPoint2PointConstraint&>(*w.joints[1]).setPivotA(btVector3(btScalar(0.2), 0, 0));
  w.step(2);
  EXPECT_FALSE(exact.reactions()[1].native);
  EXPECT_TRUE(exact.native().empty());
}

// Bullet no longer looks at their contacts, and does not drop them either: they would push where the bodies were.
TEST(Traps, ContactsOfBodiesThatHaveSinceBeenJoinedDoNotPush) {
  TestWorld w(0);
  const btVector3 half(btScalar(0.1), btScalar(0.1), btScalar(0.1)), x(btScalar(0.095), 0, 0);
  btRigidBody &a = w.box(1, half, -x), &b = w.box(1, half, x);
  bullet::Solver exact(w.world);
  w.step(1);
  ASSERT_GT(w.dispatcher.getManifoldByIndexInternal(0)->getNumContacts(), 0);
  w.joint<btPoint2PointConstraint>(a, b, x, -x);
  b.setAngularVelocity(btVector3(0, 0, 3));
  w.step(1);
  const double energy = exact.energy();
  w.step(240);
  for (const MomentumBalance& books : exact.momentum_balances()) EXPECT_EQ(books.host.norm(), 0);
  EXPECT_NEAR(exact.energy(), energy, 0.01 * energy);
  EXPECT_LE(largest_gap(exact), closed);
}

TEST(Traps, AJointIsNotGivenAnEmptyName) {
  TestWorld w;
  chain(w, 2);
  bullet::Solver exact(w.world);
  EXPECT_THROW(exact.name_joint(*w.joints[1], ""), std::invalid_argument);
  w.step(2);
  EXPECT_TRUE(exact.native().empty());
}

TEST(Traps, AJointOfABodyWithItselfIsNativeAndSaysSo) {
  TestWorld w;
  btRigidBody& body = w.box(1, btVector3(1, 1, 1), btVector3(0, 0, 0));
  w.joint<btPoint2PointConstraint>(body, body, btVector3(0, 0, 0), btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  w.step(1);
  ASSERT_EQ(exact.native().size(), 1u);
  EXPECT_NE(exact.native()[0].why.find("itself"), std::string::npos) << exact.native()[0].why;
}

TEST(Traps, GapsAreTheLastStepsWhateverIsAddedBeforeTheyAreRead) {
  TestWorld w;
  chain(w, 3, 5);
  bullet::Solver exact(w.world, {.mode = bullet::Mode::passive});  // native gaps, another after every step
  w.step(20);
  const double before = exact.reactions()[0].gap;
  w.step(5);
  exact.constrain("own", {*w.bodies[2]}, [](const auto& s) { return s[0].position().z; });
  const double gap = double((w.bodies[0]->getWorldTransform() * btVector3(btScalar(-0.25), 0, 0)).length());
  EXPECT_NE(before, gap);
  EXPECT_NEAR(exact.reactions()[0].gap, gap, precision(1e-12, 1e-6));
}

// The program moves a carriage off its rail to one of four sides. Bullet's own rows bring it back in some steps. The
// gap that is reported is the distance from the rail on each side.
TEST(Traps, AGapToEitherSideOfARailIsToldAlike) {
  for (const int axis : {1, 2})
    for (const int way : {1, -1}) {
      SCOPED_TRACE(std::to_string(axis) + (way > 0 ? " forward" : " back"));
      TestWorld w(0);
      btRigidBody& post = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
      btVector3 beside(0, 0, 0);
      beside[axis] = btScalar(0.1 * way);
      btRigidBody& cart = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), beside);
      auto& rail =
          w.joint<btSliderConstraint>(post, cart, btTransform::getIdentity(), btTransform::getIdentity(), true);
      rail.setLowerLinLimit(-1);
      rail.setUpperLinLimit(1);
      bullet::Solver exact(w.world, {.mode = bullet::Mode::passive});
      w.step();
      const double off = std::abs(double(cart.getCenterOfMassPosition()[axis]));
      EXPECT_GT(off, 1e-3);
      EXPECT_NEAR(exact.reactions()[0].gap, off, precision(1e-12, 1e-6));
    }
}

double kinetic(const btRigidBody& body) {
  const btVector3 w = body.getWorldTransform().getBasis().transpose() * body.getAngularVelocity();
  double sum = double(body.getLinearVelocity().length2() / body.getInvMass());
  for (int i = 0; i < 3; ++i) sum += double(w[i] * w[i] / body.getInvInertiaDiagLocal()[i]);
  return 0.5 * sum;
}

// The gyroscopic torque at the start of a step, over the whole of a step in which the body turns many times, is no
// measure of what forces could do in it.
TEST(Traps, AGearBetweenBodiesThatTumbleManyTimesAStepGivesThemNoEnergy) {
  TestWorld w(0);
  btRigidBody& a = w.box(2.4, btVector3(btScalar(0.02), btScalar(0.1), btScalar(0.06)), btVector3(0, 0, 0));
  btRigidBody& b = w.box(1.1, btVector3(btScalar(0.1), btScalar(0.015), btScalar(0.02)), btVector3(1, 0, 0));
  const btVector3 u(btScalar(0.6), 0, btScalar(0.8)), v(0, btScalar(0.8), btScalar(-0.6));
  w.joint<btGearConstraint>(a, b, u, v, btScalar(1.3));
  bullet::Solver exact(w.world);
  a.setAngularVelocity(btVector3(700, 900, -400));
  b.setAngularVelocity(btVector3(-300, 500, 800));
  const double start = kinetic(a) + kinetic(b);
  for (int i = 0; i < 40; ++i) {
    w.step(1, 1.0 / 50);
    if (single && exact.counts().fallbacks > 0) return;  // from here it is the native solver's
    ASSERT_LE(kinetic(a) + kinetic(b), 1.1 * start) << i << exact.summary();
  }
}

// The tail tears the head along within the step, so that no contact was looked for where it goes. Bullet then stops the
// head at the wall, and lets the tail fly on.
TEST(Traps, MotionThatBulletCutsShortIsCutForTheWholeMechanism) {
  for (const bool with_us : {true, false}) {
    TestWorld w(0);
    w.box(0, btVector3(btScalar(0.02), 2, 2), btVector3(2, 0, 0));
    btRigidBody& head = w.ball(1, 0.1, btVector3(btScalar(1.7), 0, 0));
    btRigidBody& tail = w.box(1, btVector3(btScalar(0.05), btScalar(0.05), btScalar(0.05)),
                              btVector3(btScalar(1.2), btScalar(0.01), 0));
    const btVector3 on_head(btScalar(-0.3), 0, 0), on_tail(btScalar(0.2), btScalar(-0.01), 0);
    w.joint<btPoint2PointConstraint>(head, tail, on_head, on_tail);
    head.setCcdMotionThreshold(btScalar(0.05));
    head.setCcdSweptSphereRadius(btScalar(0.09));
    tail.setLinearVelocity(btVector3(40, 0, 0));
    std::unique_ptr<bullet::Solver> exact;
    if (with_us) exact = std::make_unique<bullet::Solver>(w.world);
    w.step(1, 1.0 / 60);
    const double x = double(head.getWorldTransform().getOrigin().x());
    const double gap = double((head.getWorldTransform() * on_head - tail.getWorldTransform() * on_tail).length());
    EXPECT_LT(x, 1.95) << with_us;
    EXPECT_LT(x - 1.7, 0.8 * double(head.getLinearVelocity().x()) / 60) << with_us << ": it was not cut";
    if (with_us) {
      EXPECT_LE(gap, precision(1e-12, 1e-5));
      EXPECT_LE(largest_gap(*exact), precision(1e-12, 1e-5));
      EXPECT_EQ(exact->counts().fallbacks, 0);
    } else {
      EXPECT_GT(gap, 0.05);
    }
  }
}

// Bullet itself does so with bodies that leave all bounds, and then moves them no more, whatever velocity they get.
TEST(Traps, ABodyDisabledFromSimulationStandsAndTheRestHangsOnIt) {
  TestWorld w;
  chain(w, 4);
  bullet::Solver exact(w.world);
  w.step(60);
  btRigidBody& middle = *w.bodies[1];
  middle.forceActivationState(DISABLE_SIMULATION);
  const btVector3 at = middle.getWorldTransform().getOrigin();
  for (int i = 0; i < 120; ++i) {
    w.step();
    ASSERT_LE(largest_gap(exact), precision(1e-12, 1e-5)) << i;
  }
  EXPECT_EQ(middle.getWorldTransform().getOrigin(), at);
  EXPECT_GT(w.bodies[3]->getLinearVelocity().length(), 0.01);
  middle.forceActivationState(DISABLE_DEACTIVATION);
  for (int i = 0; i < 120; ++i) {
    w.step();
    ASSERT_LE(largest_gap(exact), precision(1e-12, 1e-5)) << i;
  }
  EXPECT_GT((middle.getWorldTransform().getOrigin() - at).length(), 0.01);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}

// Infinite inertia is the default of a body's construction: as long as it does not turn it is a point.
TEST(Traps, ABodyThatTurnsAndCannotBeTurnedIsLeftToNativeRows) {
  double gap[2] = {0, 0};
  for (const bool exactly : {false, true}) {
    TestWorld w(0);
    btRigidBody& spinner = w.ball(1, 0.1, btVector3(0, 0, 0));
    spinner.setMassProps(1, btVector3(0, 0, 0));
    spinner.updateInertiaTensor();
    btRigidBody& other = w.ball(1, 0.1, btVector3(0, -1, 0));
    auto& joint = w.joint<btPoint2PointConstraint>(spinner, other, btVector3(0, btScalar(-0.5), 0),
                                                   btVector3(0, btScalar(0.5), 0));
    std::optional<bullet::Solver> exact;
    if (exactly) exact.emplace(w.world);
    w.step(10);
    if (exactly) {
      EXPECT_TRUE(exact->native().empty());
    }
    spinner.setAngularVelocity(btVector3(0, 0, 3));
    for (int i = 0; i < 240; ++i) {
      w.step();
      gap[exactly] = std::max(gap[exactly], double((spinner.getWorldTransform() * joint.getPivotInA() -
                                                    other.getWorldTransform() * joint.getPivotInB())
                                                       .length()));
    }
    if (!exactly) continue;
    ASSERT_EQ(exact->native().size(), 1u);
    EXPECT_NE(exact->native()[0].why.find("rotates but has infinite inertia"), std::string::npos)
        << exact->native()[0].why;
    spinner.setAngularVelocity(btVector3(0, 0, 0));
    w.step(240);
    EXPECT_TRUE(exact->native().empty()) << exact->summary();
    EXPECT_LE(largest_gap(*exact), precision(1e-9, 1e-4));
  }
  EXPECT_LE(gap[1], 1.01 * gap[0] + precision(0, 1e-5));
}

// Backwards, or over no finite time, joints cannot be kept together: what is under them waits for the next step.
TEST(Traps, AStepOfNegativeOrNoFiniteLengthMovesNothingAndIsNamed) {
  for (const double dt : {-5.0, -1.0 / 240, double(INFINITY), double(NAN)}) {
    SCOPED_TRACE(dt);
    TestWorld w;
    chain(w, 5);
    bullet::Solver exact(w.world);
    w.step(60);
    const std::vector<btScalar> before = w.bits();
    const double t = exact.t();
    w.world.stepSimulation(btScalar(dt), 0);
    EXPECT_EQ(w.bits(), before);
    EXPECT_EQ(exact.t(), t);
    EXPECT_NE(exact.summary().find("did not move in this step"), std::string::npos) << exact.summary();
    w.step(60);
    EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-5));
    EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    EXPECT_TRUE(w.finite());
  }
}

TEST(Traps, AVelocityThatIsNoNumberOnceSquaredIsTakenForNoneAndNamed) {
  for (const double size : {1e200, double(INFINITY), double(NAN)})
    for (const bool turning : {false, true}) {
      SCOPED_TRACE(size);
      TestWorld w;
      chain(w, 5);
      w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, -2, 0));
      bullet::Solver exact(w.world);
      w.step(20);
      if (turning)
        w.bodies[2]->setAngularVelocity(btVector3(0, 0, btScalar(size)));
      else
        w.bodies[2]->setLinearVelocity(btVector3(0, btScalar(size), 0));
      for (int i = 0; i < 120; ++i) {
        w.step();
        ASSERT_TRUE(w.finite());
        EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
      }
      EXPECT_EQ(exact.counts().non_finite, 1);
      EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
      EXPECT_NE(exact.summary().find(turning ? "rad/s, which is not finite or too large"
                                             : "m/s, which is not finite or too large"),
                std::string::npos)
          << exact.summary();
    }
}

// Further than a chain reaches: it is drawn together again in that very step, by moving, and gets no velocity from it.
TEST(Traps, ALinkTeleportedBeyondItsChainsReachComesBackWithoutVelocity) {
  for (const double rate : {60.0, 240.0})
    for (const bool landed : {false, true}) {
      SCOPED_TRACE(std::to_string(rate) + (landed ? ", in contact" : ""));
      TestWorld w;
      chain(w, 5);
      if (landed) w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-0.55), 0));
      bullet::Solver exact(w.world);
      w.step(20, 1 / rate);
      double before = 0, after = 0;
      for (const auto& body : w.bodies) before = std::max(before, double(body->getLinearVelocity().length()));
      w.bodies[2]->setWorldTransform(btTransform(w.bodies[2]->getWorldTransform().getRotation(),
                                                 w.bodies[2]->getCenterOfMassPosition() + btVector3(0, 10, 0)));
      w.step(1, 1 / rate);
      for (const auto& body : w.bodies) after = std::max(after, double(body->getLinearVelocity().length()));
      EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-4));
      EXPECT_LE(after, 2 * before + 1);
      EXPECT_NE(exact.summary().find("at the start of a step to close gaps, by at most "), std::string::npos)
          << exact.summary();
      double fastest = 0;
      for (int i = 0; i < 2 * rate; ++i) {
        w.step(1, 1 / rate);
        ASSERT_TRUE(w.finite());
        EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-4));
        for (const auto& body : w.bodies) fastest = std::max(fastest, double(body->getLinearVelocity().length()));
      }
      EXPECT_LE(fastest, 25);  // all of it upright, let fall: an end whips at a few times √(2 g 2.5 m) = 7 m/s
      EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    }
}

// Bullet solves island by island, in its order; all in one group would come out otherwise in the last bits.
TEST(Traps, AWorldWithNothingExactIsTheNativeOneToTheLastBit) {
  std::vector<btScalar> bits[2];
  const auto at = [](double x, double y, double z) { return btVector3(btScalar(x), btScalar(y), btScalar(z)); };
  for (const bool held : {false, true}) {
    TestWorld w;
    w.box(0, at(20, 1, 20), at(0, -1, 0));
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 6; ++i)
        w.box(1, at(0.2, 0.2, 0.2), at(k * 1.5 - 6, 0.2 + 0.41 * i, 0.03 * ((i * 7 + k) % 3)));
    auto& soft = w.joint<btPoint2PointConstraint>(*w.bodies[3], at(0, 0, 0));
    soft.m_setting.m_impulseClamp = btScalar(1);
    std::unique_ptr<bullet::Solver> exact;
    if (held) exact = std::make_unique<bullet::Solver>(w.world);
    w.step(200, 1.0 / 120);
    bits[held] = w.bits();
  }
  EXPECT_EQ(bits[0], bits[1]);
}

// Plates in a flat sheet: every mesh has rows in its plane too many, which bending makes nearly dependent, and there
// are too many of them for the dense reference. What is left to native rows are the steps in which the sheet snaps
// taut.
TEST(Traps, ANetOfPlatesThatIsTooLargeForTheReferenceIsHeldExactly) {
  constexpr int k = 16, steps = 48;
  TestWorld w;
  std::vector<btRigidBody*> plates;
  for (int i = 0; i < k * k; ++i)
    plates.push_back(&w.box(1, btVector3(btScalar(0.125), btScalar(0.025), btScalar(0.125)),
                            btVector3(btScalar(0.25 * (i / k)), 0, btScalar(0.25 * (i % k)))));
  std::vector<btPoint2PointConstraint*> joints;
  const auto at = [&](int i, int j) -> btRigidBody& { return *plates[static_cast<std::size_t>(i * k + j)]; };
  const btScalar h = btScalar(0.125);
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) {
      if (i + 1 < k)
        joints.push_back(
            &w.joint<btPoint2PointConstraint>(at(i, j), at(i + 1, j), btVector3(h, 0, 0), btVector3(-h, 0, 0)));
      if (j + 1 < k)
        joints.push_back(
            &w.joint<btPoint2PointConstraint>(at(i, j), at(i, j + 1), btVector3(0, 0, h), btVector3(0, 0, -h)));
    }
  w.joint<btPoint2PointConstraint>(at(0, 0), btVector3(-h, 0, -h));
  w.joint<btPoint2PointConstraint>(at(0, k - 1), btVector3(-h, 0, h));
  bullet::Solver exact(w.world);
  double worst = 0;
  for (int i = 0; i < steps; ++i) {
    w.step();
    for (const btPoint2PointConstraint* joint : joints) {
      const btVector3 apart = joint->getRigidBodyA().getWorldTransform() * joint->getPivotInA() -
                              joint->getRigidBodyB().getWorldTransform() * joint->getPivotInB();
      worst = std::max(worst, double(apart.length()));
    }
  }
  EXPECT_EQ(exact.counts().fallbacks, 0u);
  EXPECT_LE(worst, precision(1e-9, 2e-5));
  EXPECT_TRUE(w.finite());
}

// Pulled straight between two fixed points a chain can only stay, and no finite force of it bears what pulls across:
// with the rounding of a float host's poses to sag by it is held, else it is left to native rows.
TEST(Traps, ATautChainUnderALoadIsHeldOrLeftToNativeRowsByName) {
  TestWorld w;
  chain(w, 6);
  auto& end = w.joint<btPoint2PointConstraint>(*w.bodies.back(), btVector3(btScalar(0.25), 0, 0));
  end.setPivotB(btVector3(3, 0, 0));
  bullet::Solver exact(w.world);
  w.step(60);
  EXPECT_TRUE(w.finite());
  if (exact.counts().fallbacks == 0)
    EXPECT_LE(largest_gap(exact), precision(1e-9, 1e-5)) << exact.summary();
  else
    EXPECT_NE(exact.summary().find("could not be solved"), std::string::npos) << exact.summary();
}

// A bridge whose planks lie flat between their posts: in single precision every step takes some hundred substeps, each
// by the reference, and the program would wait for seconds. It is left to native rows, and tried again more and more
// rarely.
TEST(Traps, ATautBridgeDoesNotMakeTheProgramWait) {
  TestWorld w;
  constexpr int planks = 20;
  btRigidBody* last = &w.box(0, btVector3(btScalar(0.23), btScalar(0.05), 1), btVector3(0, 0, 0));
  for (int i = 1; i <= planks + 1; ++i) {
    btRigidBody& next =
        w.box(i > planks ? 0 : 5, btVector3(btScalar(0.23), btScalar(0.05), 1), btVector3(btScalar(0.5 * i), 0, 0));
    w.joint<btHingeConstraint>(*last, next, btVector3(btScalar(0.25), 0, 0), btVector3(btScalar(-0.25), 0, 0),
                               btVector3(0, 0, 1), btVector3(0, 0, 1));
    last = &next;
  }
  bullet::Solver exact(w.world);
  w.step(30, 1.0 / 60);
  EXPECT_TRUE(w.finite());
  EXPECT_LE(exact.counts().factorizations, 10000)
      << exact.summary();  // every step anew: 21 000, and most by the reference
  if (exact.counts().fallbacks > 0) {
    EXPECT_NE(exact.summary().find("could not be solved"), std::string::npos) << exact.summary();
  }
}

// A body that becomes kinematic is another one to the core. Who names it first, a new constraint of the user's own, is
// not the only one that is on it.
TEST(Traps, AConstraintOnABodyThatHasJustBecomeKinematicLeavesNoOtherBehind) {
  TestWorld w;
  btRigidBody &hand = w.ball(1, 0.1, btVector3(0, 0, 0)), &near = w.ball(1, 0.1, btVector3(1, 0, 0)),
              &far = w.ball(1, 0.1, btVector3(0, 0, 2));
  bullet::Solver exact(w.world);
  exact.constrain("near", {hand, near}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; });
  w.step(3);
  hand.setMassProps(0, btVector3(0, 0, 0));
  hand.setCollisionFlags(hand.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
  exact.constrain("far", {hand, far}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 2.0; });
  w.step(60);
  for (const auto& [ball, length] : {std::pair(&near, 1.0), std::pair(&far, 2.0)})
    EXPECT_NEAR(double((ball->getCenterOfMassPosition() - hand.getCenterOfMassPosition()).length()), length,
                precision(1e-9, 1e-5));
  EXPECT_EQ(exact.counts().fallbacks, 0);
  EXPECT_LT(double(near.getCenterOfMassPosition().y()), -0.1);
}

}  // namespace
}  // namespace linchpin::test::traps_test
