// Steps of islands that consist of stock joints, which the joint kernel takes (joint_kernel/joint_step.h), against the
// general solver, to which a law that does nothing sends an island: motion, forces, work and impulses, in whole steps
// and in parts.
#include "world.h"

#include <linchpin/laws.h>

#include <BulletDynamics/ConstraintSolver/btConeTwistConstraint.h>
#include <BulletDynamics/ConstraintSolver/btHingeConstraint.h>
#include <BulletDynamics/ConstraintSolver/btSliderConstraint.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace linchpin::test::plain_test {
namespace {

void let_go_chain(TestWorld& w) { chain(w, 8); }

/// Taut by a ton that swings around: too fast for whole steps.
void load_on_chain(TestWorld& w) {
  chain(w, 8, 0.1);
  btRigidBody& load = w.ball(1000, 0.3, btVector3(btScalar(4.3), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[7], load, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.3), 0, 0));
  const btVector3 spin(0, 0, -3);
  for (const auto& body : w.bodies) {
    body->setAngularVelocity(spin);
    body->setLinearVelocity(spin.cross(body->getWorldTransform().getOrigin()));
  }
}

/// Hinges, welds and balls branching from a tumbling trunk.
void tree(TestWorld& w) {
  const btVector3 half(btScalar(0.2), btScalar(0.1), btScalar(0.15));
  btRigidBody& trunk = w.box(3, half, btVector3(0, 0, 0));
  trunk.setAngularVelocity(btVector3(1, 2, btScalar(-0.5)));
  for (int limb = 0; limb < 4; ++limb) {
    const btScalar side = btScalar(limb % 2 == 0 ? 1 : -1), along = btScalar(limb < 2 ? 0.15 : -0.15);
    btRigidBody& upper = w.box(1, half, btVector3(along, btScalar(0.3) * side, 0));
    btRigidBody& lower = w.box(0.5, half, btVector3(along, btScalar(0.6) * side, 0));
    const btVector3 up(0, btScalar(0.15) * side, 0);
    w.joint<btPoint2PointConstraint>(trunk, upper, btVector3(along, btScalar(0.15) * side, 0), -up);
    if (limb == 3) {
      w.joint<btFixedConstraint>(upper, lower, btTransform(btQuaternion::getIdentity(), up),
                                 btTransform(btQuaternion::getIdentity(), -up));
    } else {
      w.joint<btHingeConstraint>(upper, lower, up, -up, btVector3(0, 0, 1), btVector3(0, 0, 1));
    }
  }
}

/// Bodies that slide along each other, free of limits and motors: on a rail that turns about the world's pin a carriage
/// that slides and turns, on it a slide that only slides, and on that by joints of six axes one that is free in a plane
/// and one free along and about a line at a place off its middle.
void slides(TestWorld& w) {
  const btVector3 half(btScalar(0.2), btScalar(0.1), btScalar(0.15));
  const auto at = [](double x, double y, double z, const btQuaternion& turn = btQuaternion::getIdentity()) {
    return btTransform(turn, btVector3(btScalar(x), btScalar(y), btScalar(z)));
  };
  const btQuaternion upright(btVector3(0, 0, 1), btScalar(pi / 2));  // x along y
  btRigidBody& rail = w.box(3, half, btVector3(0, 0, 0));
  btRigidBody& carriage = w.box(1, half, btVector3(btScalar(0.6), 0, 0));
  btRigidBody& slide = w.box(0.7, half, btVector3(btScalar(0.6), btScalar(0.5), 0));
  btRigidBody& plate = w.box(0.5, half, btVector3(btScalar(0.6), btScalar(0.9), btScalar(0.3)));
  btRigidBody& ring = w.box(0.4, half, btVector3(btScalar(1.2), btScalar(0.5), 0));
  w.joint<btHingeConstraint>(rail, btVector3(btScalar(-0.3), 0, 0), btVector3(0, 0, 1));
  auto& turning = w.joint<btSliderConstraint>(rail, carriage, at(0.3, 0, 0.1), at(-0.2, 0, 0.1), true);
  turning.setLowerAngLimit(1), turning.setUpperAngLimit(-1);  // free
  auto& sliding = w.joint<btSliderConstraint>(carriage, slide, at(0, 0.2, 0, upright), at(0, -0.2, 0, upright), true);
  for (btSliderConstraint* joint : {&turning, &sliding}) joint->setLowerLinLimit(1), joint->setUpperLinLimit(-1);
  auto& planar = w.joint<btGeneric6DofSpring2Constraint>(slide, plate, at(0, 0.2, 0.15), at(0, -0.2, -0.15));
  planar.setLinearLowerLimit(btVector3(1, 0, 1)), planar.setLinearUpperLimit(btVector3(-1, 0, -1));
  planar.setAngularLowerLimit(btVector3(0, 1, 0)), planar.setAngularUpperLimit(btVector3(0, -1, 0));
  auto& loose = w.joint<btGeneric6DofSpring2Constraint>(slide, ring, at(0.3, 0, 0.1), at(-0.3, 0.1, 0));
  loose.setLinearLowerLimit(btVector3(1, btScalar(0.1), btScalar(-0.1)));  // held where they are, off the frames
  loose.setLinearUpperLimit(btVector3(-1, btScalar(0.1), btScalar(-0.1)));
  loose.setAngularLowerLimit(btVector3(1, 0, 0)), loose.setAngularUpperLimit(btVector3(-1, 0, 0));
  rail.setAngularVelocity(btVector3(0, 0, 2));
  carriage.setAngularVelocity(btVector3(1, 0, btScalar(-0.5)));
  plate.setLinearVelocity(btVector3(btScalar(0.3), 0, btScalar(-0.2)));
}

/// The same whirling load with carriages that slide along the links, which are thrown outwards.
void load_and_slides(TestWorld& w) {
  load_on_chain(w);
  const auto at = [](double x, double y) {
    return btTransform(btQuaternion::getIdentity(), btVector3(btScalar(x), btScalar(y), 0));
  };
  for (std::size_t i = 1; i < 8; i += 2) {
    btRigidBody& link = *w.bodies[i];
    const btVector3 p = link.getWorldTransform().getOrigin() + btVector3(0, btScalar(0.2), 0),
                    spin = link.getAngularVelocity();
    btRigidBody& carriage = w.box(0.1, btVector3(btScalar(0.05), btScalar(0.05), btScalar(0.05)), p);
    if (i % 4 == 1) {
      auto& slide = w.joint<btSliderConstraint>(link, carriage, at(0, 0.1), at(0, -0.1), true);
      slide.setLowerLinLimit(1), slide.setUpperLinLimit(-1);  // free
    } else {
      auto& slide = w.joint<btGeneric6DofSpring2Constraint>(link, carriage, at(0, 0.1), at(0, -0.1));
      slide.setLinearLowerLimit(btVector3(1, 0, 0)), slide.setLinearUpperLimit(btVector3(-1, 0, 0));
      slide.setAngularLowerLimit(btVector3(0, 0, 0)), slide.setAngularUpperLimit(btVector3(0, 0, 0));
    }
    carriage.setAngularVelocity(spin);
    carriage.setLinearVelocity(spin.cross(p));
  }
}

/// Three windows of four bars side by side, in a plane askew: each closes a loop that is planar anyway.
void windows(TestWorld& w) {
  const btQuaternion askew(btVector3(btScalar(0.6), 0, btScalar(0.8)), btScalar(0.4));
  const btVector3 half(btScalar(0.18), btScalar(0.05), btScalar(0.04));  // they end before they touch
  const btQuaternion leans(btVector3(0, 0, 1), btScalar(-1));
  const btVector3 along = quatRotate(leans, btVector3(btScalar(0.5), 0, 0)), axis(0, 0, 1), end(btScalar(0.25), 0, 0);
  const btVector3 turned = quatRotate(leans.inverse(), axis);
  btRigidBody* last = nullptr;
  for (int i = 0; i <= 3; ++i) {
    const btVector3 top(btScalar(0.5 * i), 0, 0);
    btRigidBody& bar = w.box(1, half, quatRotate(askew, top + along / 2), askew * leans);
    w.joint<btHingeConstraint>(bar, -end, turned);
    if (last) {
      btRigidBody& coupler = w.box(1, half, quatRotate(askew, top + along - end), askew);
      w.joint<btHingeConstraint>(coupler, *last, -end, end, axis, turned);
      w.joint<btHingeConstraint>(coupler, bar, end, end, axis, turned);
    }
    last = &bar;
  }
}

/// A plate that ten limbs of two links hang from, itself on a ball joint: more joints than may meet on one body.
void plate_of_limbs(TestWorld& w) {
  const btVector3 top(0, 1, 0), half(btScalar(0.04), btScalar(0.12), btScalar(0.05));
  btRigidBody& plate = w.box(2, btVector3(1, btScalar(0.05), 1), top);
  w.joint<btPoint2PointConstraint>(plate, btVector3(btScalar(0.1), btScalar(0.2), 0));
  for (int i = 0; i < 10; ++i) {
    const btVector3 at(std::cos(btScalar(0.6 * i)), btScalar(-0.1), std::sin(btScalar(0.6 * i)));
    const btVector3 down(0, btScalar(-0.15), 0), axis(0, 0, 1);
    btRigidBody& upper = w.box(1, half, top + at + down);
    btRigidBody& lower = w.box(1, half, top + at + 3 * down);
    if (i % 2 == 0)
      w.joint<btPoint2PointConstraint>(plate, upper, at, -down);
    else
      w.joint<btHingeConstraint>(plate, upper, at, -down, axis, axis);
    w.joint<btHingeConstraint>(upper, lower, down, -down, axis, axis);
    lower.setAngularVelocity(btVector3(0, 0, btScalar(0.5 * i)));
    lower.setLinearVelocity(lower.getAngularVelocity().cross(down));
  }
}

/// A ball on two rods, as in Newton's cradle, and four boxes welded in a ring that hangs from it. What hangs on a body
/// that the program moves goes the way of all others.
void rods_and_welds(TestWorld& w, bool on_an_animated_post) {
  btRigidBody& ball = w.ball(2, 0.1, btVector3(0, 0, 0));
  btRigidBody& post = w.box(0, btVector3(1, 1, 1), btVector3(0, 9, 0));
  if (on_an_animated_post) post.setCollisionFlags(btCollisionObject::CF_KINEMATIC_OBJECT);
  for (const double side : {-0.4, 0.4}) {
    const btVector3 end(btScalar(-0.5), 1, btScalar(side));
    w.joint<btPoint2PointConstraint>(ball, post, end, end - btVector3(0, 9, 0));
  }
  const btVector3 half(btScalar(0.1), btScalar(0.15), btScalar(0.05));
  std::vector<btRigidBody*> ring;
  for (int i = 0; i < 4; ++i)
    ring.push_back(&w.box(1, half, btVector3(btScalar(i % 3 == 0 ? 0 : 0.3), btScalar(i < 2 ? -0.5 : -0.9), 0)));
  w.joint<btPoint2PointConstraint>(ball, *ring[0], btVector3(0, btScalar(-0.2), 0), btVector3(0, btScalar(0.3), 0));
  for (std::size_t i = 0; i < 4; ++i) {
    btRigidBody &a = *ring[i], &b = *ring[(i + 1) % 4];
    const btVector3 to = (b.getCenterOfMassPosition() - a.getCenterOfMassPosition()) / 2;
    w.joint<btFixedConstraint>(a, b, btTransform(btQuaternion::getIdentity(), to),
                               btTransform(btQuaternion::getIdentity(), -to));
  }
}

struct Case {
  const char* name;
  std::function<void(TestWorld&)> build;
  bool parts, redundant = false;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class PlainSteps : public ::testing::TestWithParam<Case> {};

TEST_P(PlainSteps, AreWhatOthersAre) {
  if (single) GTEST_SKIP() << "rounding to single precision after every step would be all there is to see";
  TestWorld plain, other;
  GetParam().build(plain);
  GetParam().build(other);
  bullet::Solver a(plain.world), b(other.world);
  b.name_joint(*other.joints[0], "first").law(laws::viscous(0));
  // The substeps of the two solvers differ a little in their lengths, and so does where they end, by the square of
  // that.
  const double loose = GetParam().parts ? 1e4 : 1;
  for (int step = 1, steps = GetParam().parts ? 7 : 60; step <= steps; ++step) {  // light links swing further apart
    plain.step();
    other.step();
    for (std::size_t i = 0; i < plain.bodies.size(); ++i) {
      const btRigidBody &x = *plain.bodies[i], &y = *other.bodies[i];
      ASSERT_LE((x.getWorldTransform().getOrigin() - y.getWorldTransform().getOrigin()).length(), loose * 1e-9) << step;
      ASSERT_LE((x.getLinearVelocity() - y.getLinearVelocity()).length(), loose * 1e-7) << step;
      ASSERT_LE((x.getAngularVelocity() - y.getAngularVelocity()).length(), loose * 1e-6) << step;
    }
    double size = 0;
    for (std::size_t j = 0; j < plain.joints.size(); ++j)
      size = std::max(size, std::abs(double(other.joints[j]->getAppliedImpulse())));
    for (std::size_t j = 0; j < plain.joints.size(); ++j)
      ASSERT_NEAR(plain.joints[j]->getAppliedImpulse(), other.joints[j]->getAppliedImpulse(), loose * 1e-6 * size)
          << step;
    if (step % 7 != 0) continue;  // asked now and then, and not at all in between
    double force = 0, added = 0;
    for (const Reaction& r : b.reactions()) {
      force = std::max(force, r.on_a.force.norm());
      added = std::max(added, r.stabilisation.on_a.force.norm());
    }
    for (std::size_t j = 0; j < plain.joints.size(); ++j) {
      const Reaction &r = a.reactions()[j], &s = b.reactions()[j];
      for (const int k : {0, 1}) {
        ASSERT_LE((r.on(k).force - s.on(k).force).norm(), loose * 1e-6 * force) << step;
        ASSERT_LE((r.on(k).moment - s.on(k).moment).norm(), loose * 1e-6 * force) << step;
        ASSERT_LE((r.stabilisation.on(k).force - s.stabilisation.on(k).force).norm(), loose * 1e-6 * added) << step;
        ASSERT_LE((r.stabilisation.on(k).moment - s.stabilisation.on(k).moment).norm(), loose * 1e-6 * added) << step;
      }
      // Of parts the work, none but for rounding, is summed part by part here (2e-3 J of 80 kJ), and with the mean of a
      // step's ends there (6e-2 J).
      ASSERT_NEAR(r.work, s.work, GetParam().parts ? 0.5 : 1e-9) << step;
      ASSERT_EQ(r.determined, s.determined);
      ASSERT_EQ(r.redundant, s.redundant);
      ASSERT_FALSE(r.native);
    }
    const RankReport rank = a.rank_report(), other_rank = b.rank_report();
    ASSERT_EQ(rank.rank, other_rank.rank);
    ASSERT_EQ(rank.redundant, other_rank.redundant);
    ASSERT_EQ(rank.undetermined, other_rank.undetermined);
    ASSERT_EQ(rank.undetermined.empty(), !GetParam().redundant);
    ASSERT_TRUE(rank.contradictory.empty());
    ASSERT_LE(worst_books(a), 1e-10) << step;
  }
  EXPECT_EQ(a.counts().fallbacks, 0);
  if (GetParam().parts) {
    EXPECT_NE(a.counts().newton_solves, b.counts().newton_solves);  // The two solvers have a Newton of their own each.
  }
  EXPECT_NEAR(a.counts().substeps, b.counts().substeps, 0.1 * b.counts().substeps);
  EXPECT_EQ(a.counts().substepped_steps > 0, GetParam().parts);
  EXPECT_LE(largest_gap(a), 1e-13);
}

// Being asked or not is no part of the motion.
TEST_P(PlainSteps, AreTheSameToTheLastBitWhoeverAsks) {
  TestWorld silent, asked;
  GetParam().build(silent);
  GetParam().build(asked);
  bullet::Solver a(silent.world), b(asked.world);
  for (int step = 0; step < 60; ++step) {
    silent.step();
    asked.step();
    EXPECT_FALSE(b.summary().empty());
    EXPECT_FALSE(b.reactions().empty());
    EXPECT_GT(b.rank_report().rank, 0);
    EXPECT_GT(b.problem(b.reactions()[0].name).m(), 0);
    ASSERT_EQ(silent.bits(), asked.bits()) << step;
  }
}

// Thresholds are on multipliers of least norm, whether somebody reads the forces or not: in a block whose rows depend
// on each other others would be as right.
TEST(PlainBreaking, IsTheSameWhereForcesAreReadAndOnTheWayOfAllOthers) {
  const auto broken_at = [](bool normal_force, bool animated, double threshold, bool with_law = false) {
    TestWorld w;
    rods_and_welds(w, animated);
    for (const auto& body : w.bodies)
      if (!body->isStaticOrKinematicObject()) body->setAngularVelocity(btVector3(btScalar(0.1), 0, btScalar(2)));
    bullet::Solver exact(w.world);
    if (with_law) exact.name_joint(*w.joints[0], "oiled").law(laws::viscous(0));
    btJointFeedback feedback;
    if (normal_force) w.joints[0]->setJointFeedback(&feedback);
    for (const auto& joint : w.joints) joint->setBreakingImpulseThreshold(btScalar(threshold));
    std::vector<int> out(w.joints.size(), -1);
    for (int step = 0; step < 60; ++step) {
      w.world.stepSimulation(btScalar(1. / 240), 0);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] < 0 && !w.joints[i]->isEnabled()) out[i] = step;
    }
    return out;
  };
  int broken = 0, all = 0;
  for (double threshold = 0.01; threshold < 1; threshold *= 1.05) {
    const std::vector<int> unread = broken_at(false, false, threshold);
    EXPECT_EQ(broken_at(true, false, threshold), unread) << threshold;
    EXPECT_EQ(broken_at(false, true, threshold), unread) << threshold;
    EXPECT_EQ(broken_at(false, false, threshold, true), unread) << threshold;
    for (const int step : unread) broken += step > 0;
    all += static_cast<int>(unread.size());
  }
  EXPECT_GT(broken, 0);
  EXPECT_LT(broken, all);
}

// Light links that tumble between a wall and a load snap taut, in hundreds of substeps a step: what is told of them is
// what they did, not what the like of them would do.
TEST(PlainParts, AreToldAsTheyWere) {
  int steps = 0;
  for (const int links : {2, 3, 4}) {
    TestWorld w;
    chain(w, links, 0.1);
    btRigidBody& load = w.ball(50, 0.3, btVector3(btScalar(0.5 * links + 0.3), 0, 0));
    w.joint<btPoint2PointConstraint>(*w.bodies[static_cast<std::size_t>(links) - 1], load,
                                     btVector3(btScalar(0.25), 0, 0), btVector3(btScalar(-0.3), 0, 0));
    for (const auto& body : w.bodies) {
      const btVector3 spin(btScalar(0.3), btScalar(0.5), -9), at = body->getWorldTransform().getOrigin();
      body->setAngularVelocity(spin + btVector3(20 * at.x(), -15, 8));
      body->setLinearVelocity(spin.cross(at));
      body->setCollisionFlags(body->getCollisionFlags() | btCollisionObject::CF_NO_CONTACT_RESPONSE);
    }
    bullet::Solver exact(w.world);
    long before = 0;
    for (int i = 0; i < 100; ++i) {
      std::vector<btVector3> v;
      for (const auto& body : w.bodies) v.push_back(body->getLinearVelocity());
      w.step(1, 1.0 / 60);
      const long parts = exact.counts().substeps - before;
      before += parts;
      if (exact.counts().fallbacks > 0) break;
      steps += parts > 1;
      double off = 0, size = 0;
      for (const MomentumBalance& books : exact.momentum_balances())
        for (std::size_t k = 0; k < w.bodies.size(); ++k) {
          if (!(exact.id(*w.bodies[k]) == books.body)) continue;
          const btVector3 gained = (w.bodies[k]->getLinearVelocity() - v[k]) / w.bodies[k]->getInvMass();
          const Vector3d p(double(gained.x()), double(gained.y()), double(gained.z()));
          off = std::max(off, (books.momentum.head<3>() - p).norm());
          size = std::max(size, p.norm() + 1e-3);
        }
      ASSERT_LE(off, precision(1e-9, 1e-3) * size) << links << " links, step " << i << ", " << parts << " parts";
      ASSERT_LE(worst_books(exact), precision(1e-9, 1e-3));
    }
  }
  EXPECT_GT(steps, 20);
}

// Who reads forces off a joint has what its parts did summed up as they go; who asks afterwards has the step taken once
// more. Both are told the same, to the last bit.
TEST(PlainParts, AreTheSameReadAtOnceOrAskedAboutLater) {
  TestWorld at_once, later;
  for (TestWorld* w : {&at_once, &later}) load_on_chain(*w);
  bullet::Solver a(at_once.world), b(later.world);
  btJointFeedback feedback;
  at_once.joints[0]->setJointFeedback(&feedback);
  int parts = 0;
  for (int step = 0; step < 60; ++step) {
    const long before = a.counts().substepped_steps;
    at_once.step();
    later.step();
    ASSERT_EQ(at_once.bits(), later.bits()) << step;
    if (a.counts().substepped_steps == before) continue;
    ++parts;
    const auto asked = b.reactions();
    for (std::size_t i = 0; i < asked.size(); ++i)
      for (const int k : {0, 1}) {
        const Reaction &x = a.reactions()[i], &y = asked[i];
        ASSERT_EQ(x.stabilisation.on(k).force, y.stabilisation.on(k).force) << step;
        ASSERT_EQ(x.stabilisation.on(k).moment, y.stabilisation.on(k).moment) << step;
        ASSERT_EQ(x.on(k).force, y.on(k).force) << step;
      }
    ASSERT_EQ(a.momentum_balances().size(), b.momentum_balances().size());
    for (std::size_t i = 0; i < a.momentum_balances().size(); ++i) {
      const MomentumBalance &x = a.momentum_balances()[i], &y = b.momentum_balances()[i];
      ASSERT_EQ(x.momentum, y.momentum) << step;
      ASSERT_EQ(x.applied, y.applied) << step;
      ASSERT_EQ(x.constraints, y.constraints) << step;
    }
    ASSERT_EQ(a.counts().substeps, b.counts().substeps);
    ASSERT_EQ(a.counts().newton_solves, b.counts().newton_solves);
  }
  EXPECT_GT(parts, 30);
}

// Sets of constraints that a switched joint leaves behind are remembered; what is told is of the one that was stepped.
TEST(PlainParts, AnInstantIsOfTheBlockThatWasStepped) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world);
  w.step(5);
  const std::string first = exact.reactions()[0].name;
  EXPECT_EQ(exact.problem(first).m(), 9);
  w.joints[2]->setEnabled(false);
  w.step(5);
  EXPECT_EQ(exact.problem(first).m(), 6);
  w.joints[2]->setEnabled(true);
  w.step(1);
  w.world.removeConstraint(w.joints[2].get());
  w.world.removeRigidBody(w.bodies[2].get());
  w.step(1);
  EXPECT_EQ(exact.problem(first).m(), 6);
}

// Joints of a net that lies flat say many things twice, all over it, which is left to the way of all others; once it
// hangs they do not, and its steps are plain. Neither leaves a gap.
TEST(PlainParts, OfANetThatWasFlat) {
  if (single) GTEST_SKIP() << "as above";
  TestWorld w;
  constexpr std::size_t k = 16;
  const btVector3 half(btScalar(0.125), btScalar(0.025), btScalar(0.125));
  const btVector3 x(btScalar(0.125), 0, 0), z(0, 0, btScalar(0.125));
  std::vector<btRigidBody*> plate;
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < k; ++j) {
      plate.push_back(&w.box(1, half, btScalar(2 * i) * x + btScalar(2 * j) * z));
      plate.back()->setCollisionFlags(plate.back()->getCollisionFlags() | btCollisionObject::CF_NO_CONTACT_RESPONSE);
      const std::size_t at = plate.size() - 1;
      if (i > 0) w.joint<btPoint2PointConstraint>(*plate[at - k], *plate[at], x, -x);
      if (j > 0) w.joint<btPoint2PointConstraint>(*plate[at - 1], *plate[at], z, -z);
    }
  w.joint<btPoint2PointConstraint>(*plate[0], -x - z);
  w.joint<btPoint2PointConstraint>(*plate[k - 1], z - x);
  bullet::Solver exact(w.world);
  for (int step = 0; step < 10; ++step) {
    w.step(1);
    EXPECT_EQ(exact.counts().fallbacks, 0) << step;
    EXPECT_LE(largest_gap(exact), 1e-9) << step;
    EXPECT_LE(worst_books(exact), 1e-9) << step;
  }
}

// Sides of a falling ladder come to lie in a line with its rungs, where rows all but depend on each other and plain
// steps leave them to the way of all others.
TEST(PlainParts, OfALadderThatPassesWhereItsRowsLoseTheirRank) {
  if (single) GTEST_SKIP() << "as above";
  for (const int rungs : {6, 8, 9, 10}) {
    TestWorld w;
    const btVector3 along_x(btScalar(0.25), btScalar(0.05), btScalar(0.05)),
        along_y(btScalar(0.05), btScalar(0.25), btScalar(0.05));
    const auto part = [&](const btVector3& half, double x, double y) -> btRigidBody& {
      btRigidBody& made = w.box(1, half, {btScalar(x), btScalar(y), 0});
      made.setCollisionFlags(made.getCollisionFlags() | btCollisionObject::CF_NO_CONTACT_RESPONSE);
      return made;
    };
    const btVector3 x(btScalar(0.25), 0, 0), y(0, btScalar(0.25), 0);
    std::array<btRigidBody*, 2> last{};
    for (int i = 0; i < rungs; ++i) {
      const std::array side{&part(along_x, 0.5 * i + 0.25, 0), &part(along_x, 0.5 * i + 0.25, 0.5)};
      for (std::size_t k = 0; k < 2; ++k)
        if (last[k])
          w.joint<btPoint2PointConstraint>(*side[k], *last[k], -x, x);
        else
          w.joint<btPoint2PointConstraint>(*side[k], -x);
      btRigidBody& rung = part(along_y, 0.5 * (i + 1), 0.25);
      w.joint<btPoint2PointConstraint>(rung, *side[0], -y, x);
      w.joint<btPoint2PointConstraint>(rung, *side[1], y, x);
      last = side;
    }
    bullet::Solver exact(w.world);
    double gap = 0;
    for (int step = 0; step < 480; ++step) {
      w.step(1);
      gap = std::max(gap, largest_gap(exact));
    }
    EXPECT_LE(gap, 1e-13) << rungs << " rungs";  // rounding of poses five metres out
    EXPECT_EQ(exact.counts().fallbacks, 0) << rungs << " rungs";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PlainSteps,
                         ::testing::Values(Case{"chain", let_go_chain, false}, Case{"load", load_on_chain, true},
                                           Case{"tree", tree, false}, Case{"hub", plate_of_limbs, false},
                                           Case{"slides", slides, false},
                                           Case{"load_and_slides", load_and_slides, true},
                                           Case{"windows", windows, false, true},
                                           Case{"rods", [](TestWorld& w) { rods_and_welds(w, false); }, false, true}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace linchpin::test::plain_test
