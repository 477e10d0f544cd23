// Programs that go back to where a world was and step again: the same bits, as natively, with the solver's history or
// after reset().
#include "link_world.h"

#include "refused.h"

#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace linchpin::test::rollback_test {
namespace {

/// What a program keeps of Bullet's world itself.
struct SavedWorld {
  struct Body {
    btTransform at, interpolated;
    btVector3 v, w, interpolated_v, interpolated_w;
    int activation;
    btScalar time;
  };
  std::vector<Body> bodies;
  std::vector<bool> enabled;
  std::vector<btVector3> pivots;  ///< of point to point joints
  std::vector<std::pair<btPersistentManifold*, btPersistentManifold>> contacts;

  explicit SavedWorld(TestWorld& w) {
    for (const auto& b : w.bodies)
      bodies.push_back({b->getWorldTransform(), b->getInterpolationWorldTransform(), b->getLinearVelocity(),
                        b->getAngularVelocity(), b->getInterpolationLinearVelocity(),
                        b->getInterpolationAngularVelocity(), b->getActivationState(), b->getDeactivationTime()});
    for (const auto& j : w.joints) {
      enabled.push_back(j->isEnabled());
      const auto* point = dynamic_cast<btPoint2PointConstraint*>(j.get());
      pivots.push_back(point ? point->getPivotInA() : btVector3(0, 0, 0));
    }
    for (int i = 0; i < w.dispatcher.getNumManifolds(); ++i) {
      btPersistentManifold* m = w.dispatcher.getManifoldByIndexInternal(i);
      contacts.emplace_back(m, *m);
    }
  }
  void put_back(TestWorld& w) const {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const Body& from = bodies[i];
      btRigidBody& to = *w.bodies[i];
      to.setCenterOfMassTransform(from.at);
      to.setInterpolationWorldTransform(from.interpolated);
      to.setLinearVelocity(from.v);
      to.setAngularVelocity(from.w);
      to.setInterpolationLinearVelocity(from.interpolated_v);
      to.setInterpolationAngularVelocity(from.interpolated_w);
      to.forceActivationState(from.activation);
      to.setDeactivationTime(from.time);
    }
    for (std::size_t i = 0; i < enabled.size(); ++i) {
      w.joints[i]->setEnabled(enabled[i]);
      if (auto* point = dynamic_cast<btPoint2PointConstraint*>(w.joints[i].get())) point->setPivotA(pivots[i]);
    }
    ASSERT_EQ(w.dispatcher.getNumManifolds(), static_cast<int>(contacts.size()));
    for (const auto& [at, was] : contacts) *at = was;
  }
};

/// A world and what happens in it, by step.
struct Scene {
  const char* name;
  bullet::Options options;
  std::function<void(TestWorld&)> build;
  std::function<void(TestWorld&, bullet::Solver&)> install = [](TestWorld&, bullet::Solver&) {};
  std::function<void(TestWorld&, int)> before_step = [](TestWorld&, int) {};
  double dt = 1.0 / 120;
};

std::ostream& operator<<(std::ostream& out, const Scene& scene) { return out << scene.name; }

btRigidBody& floor_of(TestWorld& w) {
  w.shapes.push_back(std::make_unique<btStaticPlaneShape>(btVector3(0, 1, 0), btScalar(0)));
  return w.body(0, *w.shapes.back(), btVector3(0, 0, 0), btQuaternion::getIdentity());
}

/// Two boxes on a hinge with limits and a motor, which slide over a floor.
void sledge(TestWorld& w) {
  floor_of(w).setFriction(btScalar(0.5));
  btRigidBody& a = w.box(1, btVector3(btScalar(0.3), btScalar(0.1), btScalar(0.2)), btVector3(0, btScalar(0.1), 0));
  btRigidBody& b =
      w.box(2, btVector3(btScalar(0.3), btScalar(0.1), btScalar(0.2)), btVector3(btScalar(0.7), btScalar(0.1), 0));
  auto& hinge = w.joint<btHingeConstraint>(a, b, btVector3(btScalar(0.35), 0, 0), btVector3(btScalar(-0.35), 0, 0),
                                           btVector3(0, 1, 0), btVector3(0, 1, 0));
  hinge.setLimit(btScalar(-0.4), btScalar(0.4));
  hinge.enableAngularMotor(true, btScalar(2), btScalar(0.05));
  a.setLinearVelocity(btVector3(2, 0, btScalar(0.3)));
  b.setLinearVelocity(btVector3(2, 0, btScalar(-0.3)));
}

/// A closed chain of hinges: rows that depend on each other.
void loop_of_hinges(TestWorld& w) {
  constexpr int n = 6;
  for (int i = 0; i < n; ++i) {
    const double a = 2 * pi * i / n;
    w.box(1, btVector3(btScalar(0.2), btScalar(0.05), btScalar(0.05)),
          btVector3(btScalar(std::cos(a)), btScalar(std::sin(a)), 0), btQuaternion(btVector3(0, 0, 1), btScalar(a)));
  }
  for (int i = 0; i < n; ++i) {
    btRigidBody &x = *w.bodies[static_cast<std::size_t>(i)], &y = *w.bodies[static_cast<std::size_t>((i + 1) % n)];
    const double a = 2 * pi * (i + 0.5) / n;
    btTransform at(btQuaternion::getIdentity(), btVector3(btScalar(std::cos(a)), btScalar(std::sin(a)), 0));
    w.joint<btHingeConstraint>(x, y, x.getWorldTransform().inverse() * at, y.getWorldTransform().inverse() * at);
  }
  w.bodies[0]->setAngularVelocity(btVector3(btScalar(0.5), 0, 1));
  w.bodies[2]->setLinearVelocity(btVector3(0, 1, btScalar(0.2)));
}

std::vector<Scene> scenes() {
  const auto whip = [](TestWorld& w) {
    chain(w, 6);
    for (const auto& link : w.bodies) link->getBroadphaseHandle()->m_collisionFilterMask = 0;
    w.bodies[5]->setLinearVelocity(btVector3(0, 30, 5));
  };
  const auto hanging = [](TestWorld& w) {
    chain(w, 3);
    w.bodies[2]->setAngularVelocity(btVector3(3, 0, 1));
  };
  const auto lawful = [](Law law) {
    return [law](TestWorld& w, bullet::Solver& exact) { exact.name_joint(*w.joints[0], "pivot").law(law); };
  };
  const auto swinging = [](TestWorld& w) {
    btRigidBody& bob = w.box(1, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.1)), btVector3(1, 0, 0));
    w.joint<btHingeConstraint>(bob, btVector3(-1, 0, 0), btVector3(0, 0, 1));
  };
  const Law bristles =
      laws::lugre({.stiffness = 1e3, .damping = 10, .mu_static = 0.3, .mu_kinetic = 0.2, .speed = 0.01});
  std::vector<Scene> out;
  out.push_back({"Chain", {}, hanging});
  out.push_back({"WhippingChain", {}, whip});
  out.push_back({"WhippingChainStiffened", {.geometric_stiffness = true}, whip});
  out.push_back({"ChainByRungeKutta", {.stepping = bullet::Stepping::rk4}, whip});
  out.push_back({"ChainAdaptively", {.stepping = bullet::Stepping::adaptive}, hanging});
  out.push_back({"Sledge", {}, sledge});
  out.push_back({"LoopOfHinges", {}, loop_of_hinges});
  out.push_back({"DryHinge",
                 {},
                 swinging,
                 lawful(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.25, .pin_radius = 0.05}))});
  out.push_back(
      {"Bristles",
       {},
       [](TestWorld& w) { w.ball(1, 0.1, btVector3(0, 0, 0)).setLinearVelocity(btVector3(btScalar(0.5), 0, 0)); },
       [bristles](TestWorld& w, bullet::Solver& exact) {
         exact.constrain("track", {*w.bodies[0]}, [](const auto& s) { return s[0].position().y; })
             .set_application_points({Vector3d::Zero()})
             .law(bristles);
       }});
  out.push_back({"Rheonomic", {}, hanging, [](TestWorld& w, bullet::Solver& exact) {
                   exact.constrain("moved", {*w.bodies[1]},
                                   [](const auto& s) { return s[0].position().z - 0.1 * sin(3.0 * s.t); });
                 }});
  out.push_back(
      {"OneSided",
       {},
       [](TestWorld& w) {
         btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
         ball.setLinearVelocity(btVector3(1, 0, 0));
       },
       [](TestWorld& w, bullet::Solver& exact) {  // over a hill that it leaves, and comes back to
         exact
             .constrain("hill", {*w.bodies[0]},
                        [](const auto& s) { return s[0].position().y + 0.5 * s[0].position().x * s[0].position().x; })
             .set_application_points({Vector3d::Zero()})
             .unilateral({.reengage = true});
       }});
  out.push_back({"Gear", {}, [](TestWorld& w) {
                   for (const double x : {0.0, 1.0}) {
                     btRigidBody& wheel =
                         w.box(1, btVector3(btScalar(0.3), btScalar(0.3), btScalar(0.1)), btVector3(btScalar(x), 0, 0));
                     w.joint<btHingeConstraint>(wheel, btVector3(0, 0, 0), btVector3(0, 0, 1));
                   }
                   w.joint<btGearConstraint>(*w.bodies[0], *w.bodies[1], btVector3(0, 0, 1), btVector3(0, 0, 1),
                                             btScalar(2));
                   w.bodies[0]->setAngularVelocity(btVector3(0, 0, 5));
                 }});
  out.push_back({"Driven",
                 {},
                 [](TestWorld& w) {
                   btRigidBody& hand =
                       w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
                   hand.setCollisionFlags(hand.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
                   hand.setActivationState(DISABLE_DEACTIVATION);
                   btRigidBody& bob = w.ball(1, 0.1, btVector3(1, 0, 0));
                   w.joint<btPoint2PointConstraint>(bob, hand, btVector3(-1, 0, 0), btVector3(0, 0, 0));
                 },
                 [](TestWorld&, bullet::Solver&) {},
                 [](TestWorld& w, int i) {
                   w.bodies[0]->setWorldTransform(btTransform(btQuaternion(btVector3(0, 1, 0), btScalar(0.02 * i)),
                                                              btVector3(btScalar(0.1 * std::sin(0.1 * i)), 0, 0)));
                 }});
  out.push_back({"JointsSwitched",
                 {},
                 hanging,
                 [](TestWorld&, bullet::Solver&) {},
                 [](TestWorld& w, int i) { w.joints[2]->setEnabled(i < 50 || i > 60); }});
  out.push_back({"FramesMoved",
                 {},
                 hanging,
                 [](TestWorld&, bullet::Solver&) {},
                 [](TestWorld& w, int i) {
                   auto& joint = static_cast<btPoint2PointConstraint&>(*w.joints[1]);
                   joint.setPivotA(btVector3(btScalar(i > 50 ? 0.26 : 0.25), 0, 0));
                 }});
  return out;
}

class GoingBack : public ::testing::TestWithParam<Scene> {};

std::vector<std::vector<btScalar>> bits_of(TestWorld& w, const Scene& scene, int from, int to) {
  std::vector<std::vector<btScalar>> out;
  for (int i = from; i < to; ++i) {
    scene.before_step(w, i);
    w.step(1, scene.dt);
    out.push_back(w.bits());
  }
  return out;
}

TEST_P(GoingBack, NativelyGivesTheSameBits) {
  const Scene& scene = GetParam();
  TestWorld w;
  scene.build(w);
  bits_of(w, scene, 0, 40);
  const SavedWorld saved(w);
  const auto first = bits_of(w, scene, 40, 80);
  saved.put_back(w);
  EXPECT_EQ(bits_of(w, scene, 40, 80), first) << "or the test keeps too little";
}

TEST_P(GoingBack, WithTheHistoryGivesTheSameBits) {
  const Scene& scene = GetParam();
  TestWorld w;
  scene.build(w);
  bullet::Solver exact(w.world, scene.options);
  scene.install(w, exact);
  bits_of(w, scene, 0, 40);
  const SavedWorld saved(w);
  const bullet::History history = exact.history();
  const double work = exact.reactions().empty() ? 0 : exact.reactions()[0].work;
  const auto first = bits_of(w, scene, 40, 80);
  const long fallbacks = exact.counts().fallbacks, steps = exact.counts().steps, substeps = exact.counts().substeps;
  for (const int again : {80, 65, 80}) {  // less far, too, so that what is to come differs when it goes back
    saved.put_back(w);
    exact.restore(history);
    EXPECT_EQ(exact.reactions().empty() ? 0 : exact.reactions()[0].work, work);
    const auto same = bits_of(w, scene, 40, again);
    for (std::size_t i = 0; i < same.size(); ++i) ASSERT_EQ(same[i], first[i]) << scene.name << ", step " << i;
  }
  EXPECT_EQ(exact.counts().fallbacks, fallbacks);
  EXPECT_EQ(exact.counts().steps, steps);
  EXPECT_EQ(exact.counts().substeps, substeps);
}

TEST_P(GoingBack, AfterResetGivesTheSameBits) {
  const Scene& scene = GetParam();
  TestWorld w;
  scene.build(w);
  bullet::Solver exact(w.world, scene.options);
  scene.install(w, exact);
  bits_of(w, scene, 0, 40);
  const SavedWorld saved(w);
  const double t = exact.t();
  std::vector<std::vector<btScalar>> first;
  for (const int again : {0, 1, 2}) {
    saved.put_back(w);
    exact.reset();
    exact.set_t(t);
    const auto now = bits_of(w, scene, 40, 80);
    if (again == 0) first = now;
    for (std::size_t i = 0; i < now.size(); ++i) ASSERT_EQ(now[i], first[i]) << scene.name << ", step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rollback, GoingBack, ::testing::ValuesIn(scenes()),
                         [](const auto& scene) { return scene.param.name; });

// ---- multibodies ----

struct SavedLinks {
  std::vector<btScalar> q, u;
  explicit SavedLinks(const btMultiBody& mb) {
    for (int i = 0; i < mb.getNumLinks(); ++i) q.push_back(mb.getJointPos(i)), u.push_back(mb.getJointVel(i));
  }
  void put_back(btMultiBody& mb) const {
    for (int i = 0; i < mb.getNumLinks(); ++i) {
      mb.setJointPos(i, q[static_cast<std::size_t>(i)]);
      mb.setJointVel(i, u[static_cast<std::size_t>(i)]);
    }
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;
    mb.forwardKinematics(turns, places);
    mb.updateCollisionObjectWorldTransforms(turns, places);
  }
};

TEST(Rollback, OfAMultibodyWithAnExactLoopAndALawGivesTheSameBits) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(3, true);
  for (int i = 0; i < 3; ++i)
    mb.setupRevolute(i, 1, bt(0.01, 0.02, 0.02), i - 1, btQuaternion::getIdentity(), bt(0, 0, 1),
                     i == 0 ? bt(0, 0, 0) : bt(0.25, 0, 0), bt(0.25, 0, 0), true);
  w.finish(mb);
  bullet::Solver exact(w.world);
  exact.constrain("slide", {link(mb, 2)}, [](const auto& s) { return s[0].position().y + 0.1 * s[0].position().x; })
      .set_application_points({Vector3d::Zero()})
      .law(laws::lugre({.stiffness = 1e3, .damping = 10, .mu_static = 0.3, .mu_kinetic = 0.2, .speed = 0.01}));
  mb.setJointVel(0, 1);
  w.step(30);
  const SavedLinks saved(mb);
  const bullet::History history = exact.history();
  const auto run = [&] {
    std::vector<SavedLinks> out;
    for (int i = 0; i < 30; ++i) w.step(), out.emplace_back(mb);
    return out;
  };
  const auto first = run();
  for (int again = 0; again < 2; ++again) {
    saved.put_back(mb);
    exact.restore(history);
    const auto same = run();
    for (std::size_t i = 0; i < same.size(); ++i) {
      ASSERT_EQ(same[i].q, first[i].q) << i;
      ASSERT_EQ(same[i].u, first[i].u) << i;
    }
  }
}

TEST(Rollback, OfAGearBetweenLinksGoesBackOverManyTurns) {
  LinkWorld w(0);
  btMultiBody& mb = w.multibody(2, true);
  for (int i = 0; i < 2; ++i)
    mb.setupRevolute(i, 1, bt(0.01, 0.01, 0.02), -1, straight, bt(0, 0, 1), bt(i, 0, 0), bt(0, 0, 0), true);
  w.finish(mb);
  bullet::Solver exact(w.world);
  bullet::Handle gear = exact.add(
      joints::gear("gear", exact.id(link(mb, 0)), Vector3d::UnitZ(), exact.id(link(mb, 1)), Vector3d::UnitZ(), 0.5));
  mb.setJointVel(0, 20);
  mb.setJointVel(1, -40);
  w.step(60);
  const SavedLinks saved(mb);
  const bullet::History history = exact.history();
  w.step(120);  // 10 rad and 20 rad further
  const SavedLinks first(mb);
  EXPECT_LE(gear.reaction().gap_angle, precision(1e-9, 1e-4));
  saved.put_back(mb);
  exact.restore(history);
  w.step(120);
  const SavedLinks same(mb);
  EXPECT_EQ(same.q, first.q);
  EXPECT_EQ(same.u, first.u);
}

// ---- what it refuses ----

TEST(Rollback, SaysWhatItCannotGoBackTo) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  EXPECT_NE(exact.try_restore({}).error().message.find("the history is empty"), std::string::npos);
  w.step(3);
  const bullet::History before = exact.history();
  bullet::Handle hold = exact.constrain("hold", {*w.bodies[2]}, [](const auto& s) { return s[0].position().z; });
  EXPECT_NE(
      exact.try_restore(before).error().message.find("constraint 'hold' has been added since the history was taken"),
      std::string::npos);
  const bullet::History with = exact.history();
  hold.remove();
  EXPECT_NE(exact.try_restore(with).error().message.find(" has been removed since the history was taken"),
            std::string::npos);
  EXPECT_EQ(exact.try_restore(before).error().message, "");
  TestWorld other;
  chain(other, 3);
  bullet::Solver another(other.world);
  expect_refused([&] { another.restore(before); }, "the history belongs to another solver");
}

}  // namespace
}  // namespace linchpin::test::rollback_test
