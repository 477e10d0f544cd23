// Joints are found by the host's object, and constraints are made from the host's bodies and the points of its world.
#include "link_world.h"
#include "refused.h"

#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>

#include <gtest/gtest.h>

#include <string>

namespace linchpin::test::lookup_test {
namespace {

/// Links of 1 kg that hang from the origin on axes along z, 0.5 m from joint to centre of mass.
btMultiBody& hanging_links(LinkWorld& w, int n) {
  btMultiBody& mb = w.multibody(n, true);
  for (int i = 0; i < n; ++i)
    mb.setupRevolute(i, 1, bt(0.1, 0.1, 0.1), i - 1, straight, bt(0, 0, 1), i ? bt(0, -0.5, 0) : bt(0, 0, 0),
                     bt(0, -0.5, 0), true);
  w.finish(mb);
  return mb;
}

TEST(Lookup, AJointIsFoundByItsObject) {
  TestWorld w;
  btRigidBody& bob = w.ball(2, 0.1, btVector3(1, 0, 0));
  auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(-1, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle handle = exact.handle(pivot);
  ASSERT_TRUE(handle.valid());
  EXPECT_EQ(handle.name(), "point2point#0");
  EXPECT_TRUE(exact.is_exact(pivot));
  EXPECT_EQ(exact.why_native(pivot), "");
  w.step(20);
  EXPECT_EQ(exact.reaction(pivot).name, "point2point#0");
  EXPECT_EQ(exact.reaction(pivot).on_a.force, exact.reactions()[0].on_a.force);
  EXPECT_GT(exact.reaction(pivot).on_a.force.norm(), 1);
  exact.name_joint(pivot, "pivot");
  EXPECT_EQ(exact.reaction(pivot).name, "pivot");
  EXPECT_EQ(exact.find("pivot").reaction().on_a.force, exact.reaction(pivot).on_a.force);
  handle.remove();
  EXPECT_FALSE(exact.is_exact(pivot));
  EXPECT_EQ(exact.why_native(pivot), "all (the program has released it with remove(); name_joint() takes it back)");
}

TEST(Lookup, SaysWhatOfAJointStaysNativeAndWhy) {
  TestWorld w;
  btRigidBody &door = w.box(2, btVector3(1, 1, 1), btVector3(1, 0, 0)), &soft = w.ball(1, 0.1, btVector3(5, 0, 0)),
              &off = w.ball(1, 0.1, btVector3(9, 0, 0)), &loose = w.ball(1, 0.1, btVector3(13, 0, 0));
  auto& hinge = w.joint<btHingeConstraint>(door, btVector3(-1, 0, 0), btVector3(0, 1, 0));
  hinge.setLimit(btScalar(-0.1), btScalar(0.1));
  auto& pivot = w.joint<btPoint2PointConstraint>(soft, btVector3(0, 1, 0));
  pivot.setParam(BT_CONSTRAINT_CFM, btScalar(0.1), -1);
  auto& disabled = w.joint<btPoint2PointConstraint>(off, btVector3(0, 1, 0));
  disabled.setEnabled(false);
  btPoint2PointConstraint stranger(loose, btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  w.step();
  EXPECT_TRUE(exact.is_exact(hinge));
  EXPECT_NE(exact.why_native(hinge).find("limits"), std::string::npos) << exact.why_native(hinge);
  EXPECT_FALSE(exact.is_exact(pivot));
  EXPECT_NE(exact.why_native(pivot).find("the program has set a CFM"), std::string::npos) << exact.why_native(pivot);
  EXPECT_FALSE(exact.is_exact(disabled));
  EXPECT_FALSE(exact.handle(stranger).valid());
  EXPECT_FALSE(exact.is_exact(stranger));
  EXPECT_NE(exact.why_native(stranger).find("not in the world"), std::string::npos);
  expect_refused([&] { (void)exact.reaction(stranger); },
                 "linchpin: the joint is not in the world. Call addConstraint()");
  expect_refused([&] { exact.name_joint(stranger, "stranger"); }, "not in the world");
}

TEST(Lookup, InAPassiveSolverNothingIsExact) {
  TestWorld w;
  btRigidBody& bob = w.ball(2, 0.1, btVector3(1, 0, 0));
  auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(-1, 0, 0));
  bullet::Solver watching(w.world, {.mode = bullet::Mode::passive});
  w.step();
  EXPECT_FALSE(watching.is_exact(pivot));
  EXPECT_EQ(watching.why_native(pivot), "all (Mode::passive)");
}

TEST(Lookup, TheJointOfALinkIsFoundByTheLink) {
  LinkWorld w;
  btMultiBody& mb = hanging_links(w, 2);
  bullet::Solver exact(w.world);
  const bullet::Link elbow = bullet::link(mb, 1);
  EXPECT_EQ(exact.handle(elbow).name(), "joint#0.1");
  EXPECT_EQ(exact.handle(elbow).name(), "joint#0.1") << "it is made once";
  EXPECT_TRUE(exact.is_exact(elbow));
  EXPECT_EQ(exact.why_native(elbow), "");
  w.step(10);
  EXPECT_NEAR(exact.reaction(elbow).on_b.force.y(), 9.81, precision(1e-6, 1e-4));
  EXPECT_EQ(exact.name_joint(elbow, "elbow").name(), "elbow");
  EXPECT_EQ(exact.reaction(elbow).name, "elbow");
  EXPECT_FALSE(exact.find("joint#0.1").valid());
  EXPECT_FALSE(exact.handle(bullet::link(mb, 7)).valid());
  EXPECT_FALSE(exact.handle(bullet::link(mb, -1)).valid());
  expect_refused([&] { exact.name_joint(bullet::link(mb, 7), "seventh"); }, "has no link 7");
  EXPECT_EQ(exact.try_joint_wrench(bullet::link(mb, 9)).error().kind, ErrorKind::argument);
}

TEST(Lookup, AConstraintOfMultibodiesIsFoundByItsObject) {
  LinkWorld w;
  btMultiBody& mb = hanging_links(w, 1);
  btRigidBody& load = w.box(1, bt(0.1, 0.1, 0.1), bt(0, -1, 0));
  btMultiBodyPoint2Point hook(&mb, 0, &load, bt(0, -0.5, 0), bt(0, 0, 0));
  w.world.addMultiBodyConstraint(&hook);
  {
    bullet::Solver exact(w.world);
    w.step();
    EXPECT_TRUE(exact.is_exact(hook)) << exact.why_native(hook);
    EXPECT_NE(exact.reaction(hook).name, "");
    EXPECT_EQ(exact.name_joint(hook, "hook").name(), "hook");
  }
  w.world.removeMultiBodyConstraint(&hook);
}

TEST(Handles, KnowThatTheirSolverIsGone) {
  TestWorld w;
  btRigidBody& bob = w.ball(2, 0.1, btVector3(1, 0, 0));
  auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(-1, 0, 0));
  bullet::Handle handle;
  {
    bullet::Solver exact(w.world);
    handle = exact.handle(pivot);
    EXPECT_TRUE(handle.valid());
  }
  EXPECT_FALSE(handle.valid());
  EXPECT_EQ(handle.name(), "");
  EXPECT_TRUE(handle.bodies().empty());
  EXPECT_FALSE(handle.is_exact());
  EXPECT_EQ(handle.reaction().name, "");
  handle.enable(false).clear_laws().collisions_between_bodies(false);
  handle.remove();
  const Error error = handle.try_law(laws::viscous(1)).error();
  EXPECT_EQ(error.kind, ErrorKind::order);
  EXPECT_EQ(error.message, "linchpin: the solver of this handle has been destroyed");
}

TEST(RunTimeOptions, ChangeBetweenTwoSteps) {
  TestWorld w;
  btRigidBody& bob = w.ball(2, 0.1, btVector3(1, 0, 0));
  auto& pivot = w.joint<btPoint2PointConstraint>(bob, btVector3(-1, 0, 0));
  bullet::Solver exact(w.world, {.newton_tolerance = 1e-6});
  w.step(5);
  bullet::Options options = exact.options();
  EXPECT_EQ(*options.newton_tolerance, 1e-6);
  options.newton_tolerance = {};
  options.stepping = bullet::Stepping::rk4;
  exact.set_options(options);
  EXPECT_EQ(*exact.options().newton_tolerance, precision(1e-15, 1e-10));
  w.step(50);
  EXPECT_GT(exact.counts().integrator_substeps, 0);
  EXPECT_LT(exact.reaction(pivot).gap, precision(1e-12, 1e-6));
  options.stepping = bullet::Stepping::semi_implicit;
  exact.set_options(options);
  const long substeps = exact.counts().integrator_substeps;
  w.step(50);
  EXPECT_EQ(exact.counts().integrator_substeps, substeps);
  const auto refused = [&](auto change) {
    bullet::Options other = exact.options();
    change(other);
    return exact.try_set_options(other).error();
  };
  EXPECT_EQ(refused([](bullet::Options& o) { o.mode = bullet::Mode::passive; }).kind, ErrorKind::argument);
  EXPECT_EQ(refused([](bullet::Options& o) { o.threads = 3; }).kind, ErrorKind::argument);
  EXPECT_EQ(refused([](bullet::Options& o) { o.compare_native = true; }).kind, ErrorKind::argument);
  EXPECT_NE(
      refused([](bullet::Options& o) { o.gap_tolerance = -1; }).message.find("gap_tolerance must be above 0, got -1"),
      std::string::npos);
}

TEST(StepCallback, IsReplacedAndRemoved) {
  TestWorld w;
  w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  int first = 0, second = 0;
  exact.on_step([&](const bullet::Step&) { ++first; });
  w.step(2);
  exact.on_step([&](const bullet::Step&) { ++second; });
  w.step(3);
  exact.on_step({});
  w.step(4);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 3);
}

// ---- constraints from the host's bodies ----

TEST(BodyRefs, NameBodiesLinksAndTheGround) {
  TestWorld w;
  btRigidBody &a = w.ball(1, 0.1, btVector3(0, 0, 0)), &b = w.ball(1, 0.1, btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  exact.constrain("rod", {a, b}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; });
  exact.constrain("hold", {linchpin::ground, a}, [](const auto& s) { return s[1].position() - s[0].position(); });
  exact.constrain_velocity("slide", {&b}, [](const auto& s) { return s[0].velocity().z; });
  exact.constrain_acceleration("push", {b}, [](const auto& s) { return s[0].acceleration().y; });
  w.step(3);
  EXPECT_LT(exact.reactions()[1].gap, 1e-9);
  EXPECT_EQ(exact.native().size(), 0u);
  btRigidBody* const none = nullptr;
  expect_refused([&] { exact.constrain("null", {none}, [](const auto& s) { return s[0].position(); }); },
                 "'null': body 0 is null");
  expect_refused([&] { exact.constrain("empty", {}, [](const auto& s) { return s[0].position(); }); }, "has no body");
  expect_refused([&] { exact.constrain("id", {BodyId{77}}, [](const auto& s) { return s[0].position(); }); }, "");
}

// ---- joints from points of the world ----

/// A door of 3 kg that hangs on a post, both turned in the world.
struct Door {
  TestWorld w;
  btQuaternion turned{btVector3(1, 2, 3).normalized(), btScalar(0.7)};
  btRigidBody& post = w.box(0, btVector3(btScalar(0.1), 1, btScalar(0.1)), btVector3(1, 2, 3), turned);
  btRigidBody& leaf = w.box(3, btVector3(btScalar(0.5), 1, btScalar(0.05)), btVector3(btScalar(1.6), 2, 3));
  btVector3 point{btScalar(1.1), btScalar(2.2), btScalar(3.3)}, axis{0, 2, btScalar(0.5)};
  bullet::Solver exact{w.world};
};

TEST(WorldJoints, HoldAtThePresentPoses) {
  Door d;
  d.exact.hinge("hinge", d.leaf, d.post, d.point, d.axis);
  EXPECT_TRUE(d.exact.check().empty());
  d.w.step(100);
  EXPECT_LT(d.exact.find("hinge").reaction().gap, precision(1e-12, 1e-5));
  EXPECT_GT(d.leaf.getAngularVelocity().length(), 0.02);
  const btVector3 at = d.leaf.getWorldTransform() *
                       btTransform(btQuaternion::getIdentity(), btVector3(btScalar(1.6), 2, 3)).inverse() * d.point;
  EXPECT_LT((at - d.point).length(), precision(1e-9, 1e-4));
}

TEST(WorldJoints, AreAllMadeAndHold) {
  using Make = bullet::Handle (*)(Door&);
  const std::pair<const char*, Make> kinds[] = {
      {"ball", [](Door& d) { return d.exact.ball("j", d.leaf, d.post, d.point); }},
      {"hinge", [](Door& d) { return d.exact.hinge("j", d.leaf, ground, d.point, d.axis); }},
      {"slider", [](Door& d) { return d.exact.slider("j", d.post, d.leaf, d.point, d.axis); }},
      {"weld", [](Door& d) { return d.exact.weld("j", d.leaf, d.post, d.point); }},
      {"universal",
       [](Door& d) {
         return d.exact.universal("j", d.leaf, d.post, d.point, {1, 0, 0}, {0, 1, 0});
       }},
      {"cylindrical", [](Door& d) { return d.exact.cylindrical("j", d.leaf, d.post, d.point, d.axis); }},
      {"planar", [](Door& d) { return d.exact.planar("j", d.post, d.leaf, d.point, d.axis); }},
      {"rod", [](Door& d) { return d.exact.rod("j", d.leaf, d.leaf.getCenterOfMassPosition(), ground, d.point); }},
  };
  for (const auto& [kind, make] : kinds) {
    Door d;
    bullet::Handle joint = make(d);
    ASSERT_TRUE(joint.valid()) << kind;
    EXPECT_TRUE(d.exact.check().empty()) << kind << ": " << d.exact.check()[0].message;
    d.w.step(50);
    EXPECT_LT(joint.reaction().gap, precision(1e-12, 1e-4)) << kind;
    EXPECT_LT(joint.reaction().gap_angle, precision(1e-12, 1e-4)) << kind;
    EXPECT_TRUE(joint.is_exact()) << kind;
  }
}

TEST(WorldJoints, ActOnLinks) {
  LinkWorld w;
  btMultiBody& mb = hanging_links(w, 1);
  btRigidBody& load = w.box(1, bt(0.1, 0.1, 0.1), bt(0, -1.5, 0));
  bullet::Solver exact(w.world);
  bullet::Handle hook = exact.ball("hook", bullet::link(mb, 0), load, bt(0, -1, 0));
  mb.setJointVel(0, 1);
  w.step(60);
  EXPECT_LT(hook.reaction().gap, precision(1e-9, 1e-5));
  EXPECT_GT(hook.reaction().on_a.force.norm(), 5);
}

TEST(WorldJoints, AreRefusedByName) {
  Door d;
  expect_refused([&] { d.exact.hinge("hinge", d.leaf, d.post, d.point, {0, 0, 0}); }, "'hinge'");
  expect_refused([&] { d.exact.rod("rod", d.leaf, d.point, d.post, d.point); }, "'rod': length must be positive");
  expect_refused([&] { d.exact.weld("weld", d.post, linchpin::ground, d.point); }, "'weld'");
  EXPECT_EQ(try_call([&] { return d.exact.ball("ball", d.leaf, d.leaf, d.point); }).error().kind, ErrorKind::argument);
  expect_refused([&] { d.exact.ball("unknown", d.leaf, BodyId{77}, d.point); }, "no body has the index 77");
}

}  // namespace
}  // namespace linchpin::test::lookup_test
