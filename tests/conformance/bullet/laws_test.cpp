// What Bullet tells and does about laws beyond friction: smooth ones however stiff, bad ones, the account of each term,
// constraints that only push, and laws put on bodies that sleep.
#include "world.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

namespace linchpin::test::laws_test {
namespace {

const double g = double(btScalar(9.81));

/// A sledge of 2 kg on a level rail along x.
struct Sledge {
  TestWorld w;
  btRigidBody& body;
  bullet::Solver exact;
  bullet::Handle rail;
  explicit Sledge(double speed = 3)
      : body(w.box(2, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.2)), btVector3(0, 0, 0))), exact(w.world) {
    body.setLinearVelocity(btVector3(btScalar(speed), 0, 0));
    rail = exact.add(joints::slider("rail", ground, JointFrame{}, exact.id(body), JointFrame{}));
  }
  double v() const { return double(body.getLinearVelocity().x()); }
  double x() const { return double(body.getCenterOfMassPosition().x()); }
};

TEST(Laws, ViscousOnesDampAtFirstOrderHoweverStiff) {
  for (const double stiffness : {0.1, 2.5, 100.0}) {
    SCOPED_TRACE("c dt/m = " + std::to_string(stiffness));
    const double c = stiffness * 2 * 240, duration = stiffness > 1 ? 4.0 / 240 : 0.5;
    double error[2];
    for (const int k : {0, 1}) {
      Sledge s;
      s.rail.law(laws::viscous(c));
      const int rate = 240 << k;
      double last = s.v();
      for (int i = 0; i < static_cast<int>(std::lround(duration * rate)); ++i) {
        s.w.step(1, 1.0 / rate);
        ASSERT_GE(s.v(), 0);
        ASSERT_LE(s.v(), last);
        ASSERT_LE(s.rail.laws()[0].last, 0);
        last = s.v();
      }
      error[k] = std::abs(s.x() - 2 * 3 / c * (1 - std::exp(-c * duration / 2)));
      EXPECT_LE(error[k], 3.0 / rate);
      EXPECT_NEAR(s.rail.laws()[0].work, s.v() * s.v() - 9, precision(1e-12, 1e-5));
    }
    EXPECT_LE(error[1], 0.65 * error[0] + precision(0, 1e-9));  // single precision cannot tell shorter ways
  }
}

TEST(Laws, RegularizedCoulombAndLuGreStopWhatTheyShould) {
  for (Law law :
       {laws::regularized_coulomb(0.4, 1e-4),
        laws::lugre({.stiffness = 1e7, .damping = 300, .mu_static = 0.4, .mu_kinetic = 0.4, .speed = 0.01})}) {
    Sledge s(1);
    s.rail.law(law);
    for (int i = 0; i < 240; ++i) {
      s.w.step();
      ASSERT_LE(std::abs(s.v()), 1);
    }
    EXPECT_LE(std::abs(s.v()), 1e-4);
    EXPECT_NEAR(s.x(), 1 / (2 * 0.4 * g), 1.0 / 240);
    EXPECT_EQ(s.exact.summary().find("warning"), std::string::npos) << s.exact.summary();
  }
}

TEST(Laws, WorkAndBalancesHoldInStepsOfAnyLength) {
  constexpr double lengths[] = {1.0 / 240, 1.0 / 1000, 1.0 / 60, 1.0 / 60, 1.0 / 480, 1.0 / 90};
  Sledge s;
  s.rail.law(laws::coulomb(0.3));
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    s.w.step(1, lengths[i % std::size(lengths)]);
    EXPECT_NEAR(s.rail.laws()[0].work, s.v() * s.v() - 9, precision(1e-12, 1e-5));
    EXPECT_NEAR(s.rail.reaction().work, s.v() * s.v() - 9, precision(1e-12, 1e-5));
    EXPECT_LE(worst_books(s.exact), precision(1e-12, 1e-5));
  }
}

// ---- of which state ----

/// An arm of two bars in its plane, damped in both joints, in Bullet and without a host.
struct DampedArm {
  TestWorld w;
  System system;
  std::vector<btRigidBody*> bars;
  std::vector<BodyId> ids;
  std::vector<bullet::Handle> joints;
  DampedArm(bullet::Solver*& exact, std::unique_ptr<bullet::Solver>& keeper, double c, bullet::Options options) {
    system.set_gravity({0, -g, 0});
    for (int i = 0; i < 2; ++i) {
      const btVector3 half(btScalar(0.5), btScalar(0.05), btScalar(0.1)), at(btScalar(0.5 + i), 0, 0);
      bars.push_back(&w.box(1 + i, half, at));
      const btVector3& inverse = bars.back()->getInvInertiaDiagLocal();
      const Vector3d inertia(1 / double(inverse.x()), 1 / double(inverse.y()), 1 / double(inverse.z()));
      ids.push_back(system.add_body("bar" + std::to_string(i), 1 + i, inertia, {}));
    }
    const Vector3d left(-0.5, 0, 0), right(0.5, 0, 0), z = Vector3d::UnitZ();
    auto& shoulder = w.joint<btHingeConstraint>(*bars[0], btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1));
    auto& elbow = w.joint<btHingeConstraint>(*bars[0], *bars[1], btVector3(btScalar(0.5), 0, 0),
                                             btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1), btVector3(0, 0, 1));
    keeper = std::make_unique<bullet::Solver>(w.world, options);
    exact = keeper.get();
    joints = {exact->name_joint(shoulder, "shoulder").law(laws::viscous_torque(c)),
              exact->name_joint(elbow, "elbow").law(laws::viscous_torque(c))};
    add_law(system, system.add(joints::hinge("shoulder", ids[0], left, z, ground, Vector3d::Zero(), z)),
            laws::viscous_torque(c));
    add_law(system, system.add(joints::hinge("elbow", ids[0], right, z, ids[1], left, z)), laws::viscous_torque(c));
    for (int i = 0; i < 2; ++i) bars[std::size_t(i)]->setAngularVelocity(btVector3(0, 0, btScalar(3 - 5 * i)));
    bars[0]->setLinearVelocity(btVector3(0, btScalar(1.5), 0));
    bars[1]->setLinearVelocity(btVector3(0, btScalar(2), 0));
  }
  State now() const {
    State s = system.initial_state();
    for (std::size_t i = 0; i < bars.size(); ++i) {
      const btTransform& at = bars[i]->getCenterOfMassTransform();
      const btQuaternion q = at.getRotation();
      s[ids[i]].p = bullet::from_bullet(at.getOrigin());
      s[ids[i]].q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
      s[ids[i]].v = bullet::from_bullet(bars[i]->getLinearVelocity());
      s[ids[i]].w = bullet::from_bullet(bars[i]->getAngularVelocity());
    }
    return s;
  }
};

// Steps answer to the slip at their end where a damper is stiff, or by stages. What is told of them is of the state
// before them (T11), the same as without a host; and with what the step applied beyond it, it is all that acted.
TEST(Laws, DampedJointsAreReportedAsOfTheStateBeforeTheStep) {
  for (const bullet::Stepping stepping : {bullet::Stepping::semi_implicit, bullet::Stepping::rk4})
    for (const double c : {0.1, 10.0, 1000.0}) {
      SCOPED_TRACE(std::to_string(c) + (stepping == bullet::Stepping::rk4 ? ", rk4" : ""));
      bullet::Solver* exact = nullptr;
      std::unique_ptr<bullet::Solver> keeper;
      DampedArm arm(exact, keeper, c, {.stepping = stepping});
      Dynamics dynamics(arm.system);
      std::vector<Reaction> expected;
      for (int i = 0; i < 20; ++i) {
        const State before = arm.now();
        arm.w.step();
        ASSERT_NE(dynamics.evaluate(before), Status::invalid) << dynamics.reason();
        dynamics.reactions(before, expected);
        double size = 0;
        for (const Reaction& r : expected) size = std::max(size, r.on_a.force.norm() + r.on_a.moment.norm());
        for (std::size_t k = 0; k < 2; ++k) {
          const Reaction& got = arm.joints[k].reaction();
          const Wrench whole = expected[k].on_a, law = expected[k].prescribed.on_a;
          EXPECT_NEAR(got.t, i / 240.0, 1e-6);
          ASSERT_LE((got.on_a.force - whole.force).norm(), precision(1e-9, 1e-3) * size) << i;
          ASSERT_LE((got.on_a.about(whole.point).moment - whole.moment).norm(), precision(1e-9, 1e-3) * size) << i;
          ASSERT_LE((got.prescribed.on_a.moment - law.moment).norm(), precision(1e-9, 1e-3) * size) << i;
          ASSERT_NEAR(got.power, expected[k].power, precision(1e-9, 1e-3) * size * 10) << i;
        }
        for (const MomentumBalance& b : exact->momentum_balances())
          ASSERT_LE(b.imbalance(), precision(1e-11, 1e-9)) << i;
      }
    }
}

// ---- bad laws ----

TEST(BadLaws, OneThatThrowsOrIsNotANumberLeavesItsConstraintNativeAndIsNamed) {
  const auto expect_named = [](Law law, const std::string& what) {
    Sledge s;
    s.rail.law(std::move(law));
    s.w.step(3);
    EXPECT_TRUE(std::isfinite(s.v()) && std::isfinite(s.x()));
    EXPECT_LE(std::abs(s.v()), 4);
    EXPECT_EQ(s.exact.counts().fallbacks, 3);
    EXPECT_EQ(s.exact.counts().law_failures, 3);
    ASSERT_EQ(s.exact.law_failures().size(), 1u);
    EXPECT_NE(s.exact.law_failures()[0].text.find(what), std::string::npos) << s.exact.law_failures()[0].text;
    EXPECT_EQ(s.exact.law_failures()[0].steps, 3);
    EXPECT_EQ(s.exact.law_failures()[0].t, 0);
    ASSERT_EQ(s.exact.native().size(), 1u);
    EXPECT_EQ(s.exact.native()[0].name, "rail");
    EXPECT_NE(s.exact.native()[0].why.find(what), std::string::npos) << s.exact.native()[0].why;
    EXPECT_NE(s.exact.summary().find(what), std::string::npos) << s.exact.summary();
    s.rail.clear_laws();
    s.w.step();
    EXPECT_TRUE(s.exact.native().empty());
    EXPECT_NE(s.exact.summary().find("last problem: "), std::string::npos);
    EXPECT_EQ(s.exact.counts().law_failures, 3);  // a law that recovers has failed
    EXPECT_NE(s.exact.summary().find("no law acted in 3 steps of an island, because law"), std::string::npos);
    s.exact.reset();
    EXPECT_TRUE(s.exact.law_failures().empty());
  };
  expect_named(Law([](const ConstraintReaction&) -> Vector3d { throw std::runtime_error("no oil"); }).with_name("dry"),
               "law 'dry' on rail threw: no oil");
  expect_named(Law([](const ConstraintReaction&) { return Vector3d(NAN, 0, 0); }).with_name("odd"),
               "law 'odd' on rail returned a force that is not finite");
  expect_named(Law([](const ConstraintReaction&) { return Vector3d(1e300, 0, 0); }),
               "law on rail gave a force of 1e+300");
  expect_named(Law([](const ConstraintReaction&) { return Vector3d(1e37, 0, 0); }),
               "law on rail gave a force of 1e+37");
  expect_named(
      Law([](const ConstraintReaction& n) { return Vector3d(5 * n.slip_velocity); }).with_name("push").dissipative(),
      "law 'push' on rail is declared dissipative but gives");
}

TEST(BadLaws, OneThatJumpsIsHeldAtItsJumpOneThatChattersIsCountedAndBothAreNamed) {
  Sledge s(1);
  s.rail.law(
      Law([](const ConstraintReaction& n) {
        return Vector3d(-0.4 * n.magnitude() * (n.slip_velocity.x() > 0 ? 1 : n.slip_velocity.x() < 0 ? -1 : 0), 0, 0);
      }).with_name("sign"));
  bool named = false;
  double last = 1;
  for (int i = 0; i < 240; ++i) {
    s.w.step();
    ASSERT_LE(std::abs(s.v()), last + precision(1e-14, 1e-6));
    last = std::abs(s.v());
    named = named || s.exact.summary().find("law 'sign' on rail: the force jumps where the slip changes sign") !=
                         std::string::npos;
  }
  EXPECT_TRUE(named);
  EXPECT_LE(std::abs(s.v()), precision(1e-8, 1e-6));
  EXPECT_LE(s.rail.laws()[0].switches_per_second(), precision(1, 240));

  Sledge hidden(0.1);
  hidden.rail.law(Law([](const ConstraintReaction& n) {
                    return Vector3d(n.second->v.x() > 0 ? 8 : -8, 0, 0);
                  }).with_name("hidden"));
  hidden.w.step(240);
  EXPECT_NE(hidden.exact.summary().find("law 'hidden' on rail: the force reverses"), std::string::npos)
      << hidden.exact.summary();
  EXPECT_GT(hidden.rail.laws()[0].switches_per_second(), 50);
  EXPECT_LE(hidden.rail.laws()[0].switches_per_second(), 240);
  EXPECT_LE(std::abs(hidden.v()), 0.1 + precision(1e-12, 1e-6));
}

// ---- what is told ----

TEST(Laws, EachTermHasItsAccount) {
  Sledge s(1);
  s.rail.law(laws::coulomb(0.4, 0.3) + laws::viscous(0.5));
  s.w.step();
  const auto laws = s.rail.laws();
  ASSERT_EQ(laws.size(), 2u);
  EXPECT_EQ(s.exact.laws().size(), 2u);
  EXPECT_EQ(laws[0].constraint, "rail");
  EXPECT_EQ(laws[0].name, "coulomb");
  EXPECT_EQ(laws[0].mode, LawWork::Mode::slides);
  EXPECT_EQ(laws[0].normal_force, NormalForce::coupled);
  EXPECT_NEAR(laws[0].normal.force.norm(), 2 * g, precision(1e-12, 1e-5));
  EXPECT_NEAR(laws[0].bound, 0.4 * 2 * g, precision(1e-12, 1e-5));
  EXPECT_NEAR(laws[0].force.force.norm(), 0.3 * 2 * g, precision(1e-12, 1e-5));
  EXPECT_NEAR(laws[0].power, -0.3 * 2 * g, precision(1e-12, 1e-5));
  EXPECT_EQ(laws[0].solutions, 1);
  EXPECT_FALSE(laws[0].fell_back);
  EXPECT_EQ(laws[1].name, "viscous");
  EXPECT_EQ(laws[1].mode, LawWork::Mode::smooth);
  EXPECT_EQ(laws[1].normal_force, NormalForce::coupled);
  s.w.step(240);
  EXPECT_EQ(s.rail.laws()[0].mode, LawWork::Mode::sticks);
  EXPECT_EQ(s.rail.laws()[0].switches, 1);
  EXPECT_NEAR(s.rail.laws()[0].switches_per_second(), 1 / (241.0 / 240), 1e-6);
  // All of its energy, and the sum is what the reaction says.
  EXPECT_NEAR(s.rail.laws()[0].work + s.rail.laws()[1].work, -1, precision(1e-12, 1e-5));
  EXPECT_NEAR(s.rail.reaction().work, -1, precision(1e-12, 1e-5));
  const double before = s.rail.laws()[0].work;
  s.rail.law(laws::drag(0.1));  // another law, and what the first did stays
  EXPECT_EQ(s.rail.laws().size(), 3u);
  EXPECT_EQ(s.rail.laws()[0].work, before);
  s.exact.reset();
  EXPECT_EQ(s.rail.laws()[0].work, 0);
  s.rail.clear_laws();
  EXPECT_TRUE(s.rail.laws().empty());
  EXPECT_TRUE(s.exact.laws().empty());
}

/// Painlevé's rod: its tip slides on the floor at −0.7 m/s, 1 m from its centre; 60° or steeper, turning.
struct Rod {
  TestWorld w;
  btRigidBody& body;
  bullet::Solver exact;
  bullet::Handle tip;
  double inertia;
  Rod(double angle, double spin, const Law& law)
      : body(w.box(1, btVector3(1, btScalar(0.01), btScalar(0.01)),
                   btVector3(btScalar(std::cos(angle)), btScalar(std::sin(angle)), 0),
                   btQuaternion(btVector3(0, 0, 1), btScalar(angle)))),
        exact(w.world) {
    body.setMassProps(1, btVector3(btScalar(0.02), btScalar(1.0 / 3), btScalar(1.0 / 3)));
    body.updateInertiaTensor();
    body.setLinearVelocity(btVector3(btScalar(-0.7 - spin * std::sin(angle)), btScalar(spin * std::cos(angle)), 0));
    body.setAngularVelocity(btVector3(0, 0, btScalar(spin)));
    tip = exact.add(
        joints::point_on_plane("tip", ground, Vector3d::Zero(), Vector3d::UnitY(), exact.id(body), Vector3d(-1, 0, 0)));
    tip.law(law);
  }
  double energy() const { return exact.energy(); }
};

// At 60° and at rest, μ = 0.5: N = g/(1 + 3 cos θ (cos θ − μ sin θ)) = 8.914 N press, where the explicit law of the
// papers reads 5.606 N while 7.686 N press. A step of a host answers to its end, so to the order of the step.
TEST(NormalForce, LawsReadTheActualOneByDefaultAndTheSummarySaysByHowMuchTheyDiffer) {
  Rod physical(pi / 3, 0, laws::coulomb(0.5)),
      papers(pi / 3, 0, laws::coulomb(0.5).with_normal_force(NormalForce::frictionless));
  const std::string none = physical.exact.summary();
  EXPECT_EQ(none.find("normal force"), std::string::npos) << none;
  physical.w.step();
  papers.w.step();
  const LawWork law = physical.tip.laws()[0], explicit_law = papers.tip.laws()[0];
  EXPECT_EQ(law.normal_force, NormalForce::coupled);
  EXPECT_NEAR(law.normal.force.norm(), 8.914284272982343, 0.1);
  EXPECT_NEAR(law.force.force.norm(), 0.5 * law.normal.force.norm(), precision(1e-9, 1e-5));
  EXPECT_NEAR(law.difference.force.norm(), 8.914284272982343 - 5.605714285714285, 0.1);
  EXPECT_EQ(law.largest_difference, law.difference.force.norm());
  EXPECT_EQ(explicit_law.normal_force, NormalForce::frictionless);
  EXPECT_NEAR(explicit_law.normal.force.norm(), 5.605714285714285, precision(1e-9, 1e-5));
  EXPECT_NEAR(explicit_law.difference.force.norm(), 7.686296133336816 - 5.605714285714285, 0.1);
  EXPECT_NE(physical.exact.summary().find(
                "law 'coulomb' on tip used the coupled normal force, which differed from the frictionless "
                "one by up to 3.3"),
            std::string::npos)
      << physical.exact.summary();
  EXPECT_NE(papers.exact.summary().find(
                "law 'coulomb' on tip used the frictionless normal force, which differed from the coupled "
                "one by up to 2.0"),
            std::string::npos)
      << papers.exact.summary();
}

// At 60° and 4 rad/s, μ = 1.6: one thrust pulls and one pushes while it slides, and a third lets it stop within the
// step. N = (g − ω² sin θ)/(1 + 3 cos θ (cos θ ± μ sin θ)) for the pulling one (T-PAIN).
TEST(Painleve, SeveralThrustsOfAStepAreCountedNamedAndChosen) {
  const double theta = pi / 3, mu = 1.6, s = std::sin(theta), c = std::cos(theta);
  const double pulls = (g - 16 * s) / (1 + 3 * c * (c + mu * s));
  for (const Branch branch : {Branch::continuous, Branch::smallest, Branch::largest}) {
    Rod rod(theta, 4, laws::coulomb(mu).with_branch(branch));
    const double before = rod.energy();
    rod.w.step();
    const LawWork law = rod.tip.laws()[0];
    EXPECT_EQ(law.solutions, 3);
    EXPECT_FALSE(law.fell_back);
    EXPECT_EQ(law.branch, branch);
    EXPECT_NE(rod.exact.summary().find("several coupled normal forces satisfy the laws (coupling gain 1.18"),
              std::string::npos)
        << rod.exact.summary();
    EXPECT_NE(rod.exact.summary().find(branch == Branch::smallest  ? "of least magnitude"
                                       : branch == Branch::largest ? "of greatest magnitude"
                                                                   : "nearest to the last"),
              std::string::npos);
    if (branch == Branch::largest) {
      EXPECT_EQ(law.mode, LawWork::Mode::sticks);
      EXPECT_LT(law.normal.force.y(), -40) << "on the floor, which is first: pushed down";
    } else {
      EXPECT_EQ(law.mode, LawWork::Mode::slides);
      EXPECT_NEAR(law.normal.force.y(), -pulls, precision(1e-6, 1e-3)) << "on the floor: pulled up";
    }
    EXPECT_LE(rod.energy(), before + precision(1e-9, 1e-4));
  }
}

// tan θ = 2 from rest: beyond μ = 4/3 no thrust lets the tip slide. It stops within the step with the impulse of an
// impact, and that is said; below, nothing is.
TEST(Painleve, WhereNoThrustLetsItSlideAStepStopsItAndSaysSo) {
  const double theta = std::atan(2.0), s = std::sin(theta), c = std::cos(theta), q = 1 + 3 * c * c, h = 1.0 / 240;
  for (const double mu : {0.5, 1.4}) {
    SCOPED_TRACE(mu);
    Rod rod(theta, 0, laws::coulomb(mu));
    const double before = rod.energy();
    rod.w.step();
    const LawWork law = rod.tip.laws()[0];
    const bool named =
        rod.exact.summary().find(
            "law 'coulomb' on tip: the body cannot slide with any coupled normal force (coupling gain 1.05") !=
        std::string::npos;
    EXPECT_EQ(named, mu > 4.0 / 3) << rod.exact.summary();
    EXPECT_EQ(law.solutions, 1);
    EXPECT_EQ(law.mode, mu > 4.0 / 3 ? LawWork::Mode::sticks : LawWork::Mode::slides);
    const double F = mu > 4.0 / 3 ? (0.7 / h + 3 * s * c * g / q) / (1 + 3 * s * s - 9 * s * s * c * c / q)
                                  : mu * g / (q - 3 * mu * s * c);
    // To the order of the step, in which the rod turns a little.
    EXPECT_NEAR(law.force.force.norm() / F, 1, 1e-2);
    EXPECT_LE(rod.energy(), before + precision(1e-9, 1e-4));
  }
}

TEST(Painleve, WhatAStepHadToWarnOfIsToldToTheEndOfTheRun) {
  Rod rod(std::atan(2.0), 0, laws::coulomb(1.4));
  EXPECT_TRUE(rod.exact.law_warnings().empty());
  const bullet::History start = rod.exact.history();
  rod.w.step();
  const bullet::History after_one = rod.exact.history();
  rod.w.step(30);
  ASSERT_EQ(rod.exact.law_warnings().size(), 1u);
  EXPECT_EQ(rod.exact.law_warnings()[0].t, 0);
  EXPECT_EQ(rod.exact.law_warnings()[0].steps, 1);
  const char* told =
      "warning: law 'coulomb' on tip: the body cannot slide with any coupled normal force (coupling gain 1.05";
  const auto tells = [&] { return rod.exact.summary().find(told) != std::string::npos; };
  EXPECT_TRUE(tells()) << rod.exact.summary();
  EXPECT_NE(rod.exact.summary().find("(in the step that begins at t = 0 s)"), std::string::npos);
  rod.exact.restore(start);
  EXPECT_TRUE(rod.exact.law_warnings().empty()) << "it has not come to that yet";
  EXPECT_FALSE(tells());
  rod.exact.restore(after_one);
  EXPECT_EQ(rod.exact.law_warnings().size(), 1u);
  EXPECT_TRUE(tells());
  rod.exact.reset();
  EXPECT_TRUE(rod.exact.law_warnings().empty());
  EXPECT_FALSE(tells());
}

// A law that jumps where its slip is zero is held there in every step: one sentence, and in how many.
TEST(Laws, AWarningOfManyStepsIsToldOnceWithTheirNumber) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  ball.setLinearVelocity(btVector3(1, 0, 0));
  bullet::Solver exact(w.world);
  exact.set_t(2);
  exact.constrain("floor", {ball}, [](const auto& s) { return s[0].position().y; })
      .set_application_points({Vector3d::Zero()})
      .law([](const ConstraintReaction& n) { return Vector3d(-100 * n.magnitude() * n.slip_direction()); });
  w.step(20);
  ASSERT_EQ(exact.law_warnings().size(), 1u) << exact.summary();
  EXPECT_EQ(exact.law_warnings()[0].t, 2);
  EXPECT_EQ(exact.law_warnings()[0].steps, 20);
  EXPECT_NE(exact.summary().find("(in 20 steps, first in the one that begins at t = 2 s)"), std::string::npos)
      << exact.summary();
}

// What stands of laws is told of blocks that are not solved any more, too.
TEST(Laws, AThrustLeftUndeterminedIsToldAfterItsJointIsSwitchedOff) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  const auto floor = [&](const char* name) {
    return exact.constrain(name, {ball}, [](const auto& s) { return s[0].position().y; })
        .set_application_points({Vector3d::Zero()})
        .law(laws::coulomb(0.3));
  };
  bullet::Handle one = floor("one"), two = floor("two");
  w.step(2);
  one.enable(false);
  two.enable(false);
  w.step(5);
  ASSERT_EQ(exact.law_warnings().size(), 1u) << exact.summary();
  EXPECT_EQ(exact.law_warnings()[0].steps, 0);
  EXPECT_NE(exact.law_warnings()[0].text.find(
                "on one and two: the normal force is undetermined, because redundant constraints share the load"),
            std::string::npos)
      << exact.law_warnings()[0].text;
}

TEST(Laws, GivenToASleepingBodyTheyWakeIt) {
  Sledge s(0);
  s.w.step();
  s.body.forceActivationState(ISLAND_SLEEPING);
  s.rail.law(laws::constant_force({0, 0, 0}) +
             Law([](const ConstraintReaction&) { return Vector3d(-2, 0, 0); }));  // on the rail: +2 on the body
  EXPECT_TRUE(s.body.isActive());
  s.w.step();
  EXPECT_NEAR(s.v(), 1.0 / 240, precision(1e-14, 1e-7));
  s.body.forceActivationState(ISLAND_SLEEPING);
  s.rail.clear_laws();
  EXPECT_TRUE(s.body.isActive());
}

// ---- constraints that only push ----

// A bead leaves a dome at cos θ = 2/3.
TEST(Unilateral, ABeadLeavesADomeWhereNothingPresses) {
  double error[2];
  for (const int k : {0, 1}) {
    TestWorld w;
    const double start = 0.1, R = 1;
    btRigidBody& bead = w.ball(1, 0.05, btVector3(btScalar(R * std::sin(start)), btScalar(R * std::cos(start)), 0));
    bullet::Solver exact(w.world);
    bullet::Handle dome = exact.constrain("dome", {bead}, [](const auto& s) {
      const auto p = s[0].position();
      return sqrt(p.x * p.x + p.y * p.y + p.z * p.z) - 1.0;
    });
    dome.unilateral();
    const int rate = 240 << k;
    double angle = 0;
    for (int i = 0; i < 4 * rate && !dome.released(); ++i) {
      w.step(1, 1.0 / rate);
      const btVector3& p = bead.getCenterOfMassPosition();
      angle = double(p.y()) / double(p.length());
    }
    ASSERT_TRUE(dome.released());
    EXPECT_EQ(exact.counts().released, 1);
    error[k] = std::abs(angle - 2.0 / 3 * std::cos(start));
    w.step(rate / 10, 1.0 / rate);  // and flies
    EXPECT_GT(double(bead.getCenterOfMassPosition().length()), R + 1e-4);
    EXPECT_EQ(exact.counts().engaged, 0);
    EXPECT_EQ(dome.reaction().on_a.force.norm(), 0);
  }
  EXPECT_LE(error[0], 0.02);
  EXPECT_LE(error[1], 0.7 * error[0]);
}

// Thrown up from a floor that only pushes it comes back after 2 v/g, without bouncing, and stays.
TEST(Unilateral, ABallThrownFromAFloorComesBackAndStays) {
  TestWorld w;
  btRigidBody& ball = w.ball(1, 0.1, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle floor = exact.constrain("floor", {ball}, [](const auto& s) { return s[0].position().y; });
  floor.unilateral({.reengage = true});
  w.step(10);
  EXPECT_FALSE(floor.released());
  ball.applyCentralImpulse(btVector3(0, 2, 0));
  double highest = 0;
  int flying = 0;
  for (int i = 0; i < 240; ++i) {
    w.step();
    const double y = double(ball.getCenterOfMassPosition().y());
    ASSERT_GE(y, -precision(1e-12, 1e-6));
    highest = std::max(highest, y);
    flying += floor.released();
  }
  EXPECT_EQ(exact.counts().released, 1);
  EXPECT_EQ(exact.counts().engaged, 1);
  EXPECT_NEAR(highest, 4 / (2 * g), 2 * 2.0 / 240);
  EXPECT_NEAR(flying, 2 * 2 / g * 240, 3);
  EXPECT_LE(std::abs(double(ball.getCenterOfMassPosition().y())), precision(1e-12, 1e-6));
  EXPECT_NEAR(floor.reaction().on_a.force.y(), g, precision(1e-12, 1e-5));
}

TEST(Unilateral, WhatBeginsOpenOrOpeningIsNotPulledShut) {
  for (const bool thrown : {true, false}) {
    TestWorld w;
    const double start = thrown ? 0 : 0.5, up = thrown ? 2 : 0;
    btRigidBody& ball = w.ball(1, 0.1, btVector3(0, btScalar(start), 0));
    ball.setLinearVelocity(btVector3(0, btScalar(up), 0));
    bullet::Solver exact(w.world);
    bullet::Handle floor = exact.constrain("floor", {ball}, [](const auto& s) { return s[0].position().y; });
    floor.unilateral({.reengage = true});
    int flying = 0;
    for (int i = 0; i < 240; ++i) {
      w.step();
      flying += floor.released();
    }
    EXPECT_NEAR(flying, (up + std::sqrt(up * up + 2 * g * start)) / g * 240, 3) << thrown;
    EXPECT_LE(exact.counts().largest_correction, 4.0 / 240)
        << exact.summary();  // what it falls in the step in which it lands
    EXPECT_LE(std::abs(double(ball.getCenterOfMassPosition().y())), precision(1e-12, 1e-6));
  }
}

// A bar on a hinge rests on a stop, nearer than its centre or further out. The hinge then pulls down or pushes up, and
// the stop pushes up in both cases. The stop is released by the sign of its own force, when gravity is reversed.
TEST(Unilateral, AStopBesideAHingeIsReleasedByItsOwnForce) {
  for (const double at : {0.25, 1.0}) {
    SCOPED_TRACE(at);
    TestWorld w;
    btRigidBody& bar =
        w.box(1, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(0.5), 0, 0));
    w.joint<btHingeConstraint>(bar, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1));
    bullet::Solver exact(w.world);
    bullet::Handle stop = exact.constrain("stop", {bar}, [at](const auto& s) { return s[0].point(at - 0.5, 0, 0).y; });
    stop.unilateral();
    w.step(24);
    EXPECT_FALSE(stop.released());
    EXPECT_NEAR(stop.reaction().on_a.force.y(), 0.5 * g / at, precision(1e-9, 1e-3));  // moments about the hinge
    w.world.setGravity(btVector3(0, btScalar(9.81), 0));
    w.step(2);
    EXPECT_TRUE(stop.released());
    EXPECT_EQ(exact.counts().released, 1);
    EXPECT_GT(double(bar.getCenterOfMassPosition().y()), 0);
  }
}

// A falling ball reaches the floor within a step, and this step ends on the floor. From these heights free fall would
// end the step ½ g dt² below the floor. Without gravity during that step it would end above the floor.
TEST(Unilateral, AStepThatGravityEndsBelowTheFloorEndsOnIt) {
  const double dt = 1.0 / 240;
  for (const int steps : {3, 5, 12}) {
    SCOPED_TRACE(steps);
    TestWorld w;
    btRigidBody& ball = w.ball(1, 0.1, btVector3(0, btScalar(0.5 * g * dt * dt * (steps * (steps + 1) - 1)), 0));
    bullet::Solver exact(w.world);
    bullet::Handle floor = exact.constrain("floor", {ball}, [](const auto& s) { return s[0].position().y; });
    floor.unilateral({.reengage = true});
    for (int i = 0; i < 2 * steps; ++i) {
      w.step(1, dt);
      EXPECT_GE(double(ball.getCenterOfMassPosition().y()), -precision(1e-12, 1e-6)) << i;
    }
    EXPECT_EQ(exact.counts().engaged, 1);
    EXPECT_FALSE(floor.released());
  }
}

TEST(Unilateral, IsRefusedWhereItMeansNothing) {
  TestWorld w;
  btRigidBody& body = w.box(1, btVector3(1, 1, 1), btVector3(0, 0, 0));
  btPoint2PointConstraint& ball = w.joint<btPoint2PointConstraint>(body, btVector3(0, 0, 0));
  bullet::Solver exact(w.world);
  bullet::Handle joint = exact.name_joint(ball, "ball");
  EXPECT_NE(joint.try_unilateral().error().message.find("'ball' is a joint of the world"), std::string::npos);
  EXPECT_THROW(joint.unilateral(), std::invalid_argument);
  bullet::Handle line = exact.add(
      joints::point_on_line("line", ground, Vector3d::Zero(), Vector3d::UnitX(), exact.id(body), Vector3d::Zero()));
  EXPECT_NE(line.try_unilateral().error().message.find("only a constraint of one position row can be unilateral"),
            std::string::npos);
  EXPECT_FALSE(joint.released());
}

}  // namespace
}  // namespace linchpin::test::laws_test
