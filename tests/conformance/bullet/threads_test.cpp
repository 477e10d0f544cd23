// Independent blocks on several threads: the same bits for any number of them, with all that can come up in a step.
#include "world.h"

#include "allocation_counter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace linchpin::test::threads_test {
namespace {

/// Pelvis, chest, head and limbs on ball joints and hinges, thrown into the air with a turn of its own.
void ragdoll(TestWorld& w, int number) {
  const btVector3 at(btScalar(3 * (number % 10)), btScalar(4 * (number / 10 % 10)), btScalar(3 * (number / 100)));
  const auto part = [&](double mass, const btVector3& half, const btVector3& offset) -> btRigidBody& {
    btRigidBody& body = w.box(mass, half, at + offset);
    body.getBroadphaseHandle()->m_collisionFilterMask = 0;
    const btVector3 spin(btScalar(0.1 * (number % 7)), btScalar(0.2 * (number % 5)), btScalar(-0.3 * (number % 3)));
    body.setAngularVelocity(spin);
    body.setLinearVelocity(btVector3(0, 1, 0) + spin.cross(offset));
    return body;
  };
  const auto pin = [&](btRigidBody& a, btRigidBody& b, const btVector3& point) {
    w.joint<btPoint2PointConstraint>(a, b, at + point - a.getCenterOfMassPosition(),
                                     at + point - b.getCenterOfMassPosition());
  };
  const auto bend = [&](btRigidBody& a, btRigidBody& b, const btVector3& point) {
    const btVector3 axis(1, 0, 0);
    w.joint<btHingeConstraint>(a, b, at + point - a.getCenterOfMassPosition(), at + point - b.getCenterOfMassPosition(),
                               axis, axis);
  };
  const btScalar s(0.1), l(0.2);
  btRigidBody &pelvis = part(12, {s, s, s}, {0, 0, 0}), &chest = part(25, {s, l, s}, {0, btScalar(0.3), 0}),
              &head = part(5, {s, s, s}, {0, btScalar(0.6), 0});
  pin(pelvis, chest, {0, s, 0});
  pin(chest, head, {0, btScalar(0.5), 0});
  for (const int side : {-1, 1}) {
    const btScalar x = btScalar(side) * s, y = btScalar(side) * btScalar(0.2);
    btRigidBody &thigh = part(8, {s / 2, l, s / 2}, {x, btScalar(-0.3), 0}),
                &shin = part(4, {s / 2, l, s / 2}, {x, btScalar(-0.7), 0}),
                &upper = part(2.2, {s / 2, l, s / 2}, {y, btScalar(0.25), 0}),
                &lower = part(1.5, {s / 2, l, s / 2}, {y, btScalar(-0.15), 0});
    pin(pelvis, thigh, {x, -s, 0});
    bend(thigh, shin, {x, btScalar(-0.5), 0});
    pin(chest, upper, {y, btScalar(0.45), 0});
    bend(upper, lower, {y, btScalar(0.05), 0});
  }
}

struct Outcome {
  std::vector<btScalar> bits;
  std::vector<double> reactions;
  bullet::Counts counts;
};

/// A hundred ragdolls, one of them torn apart on the way; two chains whipping about a post that the program moves, too
/// fast for the step; and one chain with a law of the program's own.
Outcome run(int threads, bullet::Stepping stepping) {
  TestWorld w;
  for (int i = 0; i < 100; ++i) ragdoll(w, i);
  btRigidBody& post = w.box(0, btVector3(1, 1, 1), btVector3(-20, 0, 0));
  post.setCollisionFlags(post.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
  post.getBroadphaseHandle()->m_collisionFilterMask = 0;
  post.setActivationState(DISABLE_DEACTIVATION);
  btPoint2PointConstraint* last = nullptr;
  for (const int chain : {0, 1, 2}) {
    btRigidBody* before = &post;
    for (int i = 0; i < 8; ++i) {
      const btVector3 start(btScalar(-20 + 0.4 * i), btScalar(chain), btScalar(2 * chain));
      btRigidBody& link =
          w.box(i == 7 && chain == 1 ? 50 : 0.2, btVector3(btScalar(0.2), btScalar(0.05), btScalar(0.05)),
                start + btVector3(btScalar(0.2), 0, 0));
      link.getBroadphaseHandle()->m_collisionFilterMask = 0;
      last = &w.joint<btPoint2PointConstraint>(*before, link, start - before->getCenterOfMassPosition(),
                                               btVector3(btScalar(-0.2), 0, 0));
      before = &link;
    }
  }
  bullet::Solver exact(w.world, {.stepping = stepping, .threads = threads});
  exact.name_joint(*last, "last").law([](const ConstraintReaction& n) {
    return ForceMoment{Vector3d::Zero(), Vector3d(-0.01 * n.spin_velocity)};
  });
  for (int step = 0; step < 60; ++step) {
    const btVector3 rate(0, btScalar(0.5), btScalar(0.2));
    post.setLinearVelocity(rate);
    post.getWorldTransform().setOrigin(post.getWorldTransform().getOrigin() + btScalar(1.0 / 60) * rate);
    if (step == 20)  // a gap to close
      w.bodies[5]->translate(btVector3(btScalar(0.01), 0, 0));
    w.step(1, 1.0 / 60);
  }
  Outcome out;
  out.bits = w.bits();
  for (const Reaction& r : exact.reactions())
    for (const Vector3d& x : {r.on_a.force, r.on_a.moment, r.on_b.force, r.on_b.moment})
      out.reactions.insert(out.reactions.end(), {x.x(), x.y(), x.z()});
  out.counts = exact.counts();
  return out;
}

class AnyNumberOfThreads : public testing::TestWithParam<bullet::Stepping> {};

TEST_P(AnyNumberOfThreads, GivesTheSameBits) {
  const Outcome one = run(1, GetParam());
  EXPECT_GT(one.counts.substepped_steps,
            5);  // in what is compared here everything comes up that waits or is done in turns
  EXPECT_GT(one.counts.gap_corrections, 0);
  EXPECT_EQ(one.counts.fallbacks, 0);
  for (const int threads : {2, 3}) {
    const Outcome several = run(threads, GetParam());
    EXPECT_TRUE(several.bits == one.bits) << threads;
    EXPECT_TRUE(several.reactions == one.reactions) << threads;
    EXPECT_EQ(several.counts.solves, one.counts.solves) << threads;
    EXPECT_EQ(several.counts.newton_solves, one.counts.newton_solves) << threads;
    EXPECT_EQ(several.counts.substeps, one.counts.substeps) << threads;
    EXPECT_EQ(several.counts.order_reductions, one.counts.order_reductions) << threads;
    EXPECT_EQ(several.counts.gap_corrections, one.counts.gap_corrections) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, AnyNumberOfThreads,
                         testing::Values(bullet::Stepping::semi_implicit, bullet::Stepping::rk4), [](const auto& of) {
                           return std::string(of.param == bullet::Stepping::rk4 ? "ByStages" : "SemiImplicitly");
                         });

TEST(Threads, AWarmStepOnSeveralAllocatesNothing) {
  TestWorld w;
  for (int i = 0; i < 20; ++i) ragdoll(w, i);
  bullet::Solver exact(w.world, {.threads = 3});
  w.step(60);
  const AllocationCounter allocations(AllocationCounter::Of::all_threads);
  w.step(30);
  EXPECT_EQ(allocations.count(), 0u);
}

// A block that nobody can solve goes to the native rows, from whichever thread it was refused.
TEST(Threads, WhatIsRefusedFallsBackAsOnOne) {
  const auto outcome = [](int threads) {
    TestWorld w;
    for (int i = 0; i < 10; ++i) ragdoll(w, i);
    bullet::Solver exact(w.world, {.max_substeps = 1, .threads = threads});
    w.bodies[14]->setAngularVelocity(btVector3(0, 0, 3000));
    w.step(10, 1.0 / 30);
    return std::pair(w.bits(), exact.counts().fallbacks);
  };
  const auto one = outcome(1);
  EXPECT_GT(one.second, 0);
  EXPECT_TRUE(outcome(3) == one);
}

/// All that a program may read of a solver between two steps, with the bits of some numbers.
std::vector<double> read_all(bullet::Solver& exact) {
  std::vector<double> out{exact.t(), exact.energy(), static_cast<double>(exact.rank_report().rank)};
  for (const Reaction& r : exact.reactions()) {
    out.insert(out.end(), {r.on_a.force.x(), r.on_a.force.y(), r.on_a.force.z(), r.work, r.gap});
    bullet::Handle handle = exact.find(r.name);
    out.push_back(handle.reaction().power);
    out.push_back(static_cast<double>(handle.is_exact()) + static_cast<double>(handle.why_native().size()));
  }
  for (const MomentumBalance& b : exact.momentum_balances()) out.push_back(b.imbalance());
  for (const LawWork& w : exact.laws()) out.push_back(w.work);
  for (const bullet::LawWarning& w : exact.law_warnings()) out.push_back(w.t);
  for (const auto& native : exact.native()) out.push_back(static_cast<double>(native.why.size()));
  for (const auto& finding : exact.check()) out.push_back(static_cast<double>(finding.message.size()));
  const ConstrainedProblem problem = exact.problem(exact.reactions()[0].name);
  out.insert(out.end(), problem.Q.begin(), problem.Q.end());
  for (const std::size_t n : {exact.summary().size(), write_json(problem).size()})
    out.push_back(static_cast<double>(n));
  out.push_back(static_cast<double>(exact.counts().solves));
  return out;
}

struct RagdollWorld {
  TestWorld w;
  std::unique_ptr<bullet::Solver> exact;
  RagdollWorld() {
    for (int i = 0; i < 3; ++i) ragdoll(w, i);
    exact = std::make_unique<bullet::Solver>(w.world, bullet::Options{.threads = 2});
    exact->name_joint(*w.joints[1], "neck")
        .law(laws::ball_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.05}));
    exact->constrain("own", {*w.bodies[0]}, [](const auto& s) { return s[0].position().x; });
    w.step(2);
  }
};

// Two solvers share nothing: a program may read one in a thread while another thread makes, steps and destroys others.
TEST(Threads, OneReadsASolverWhileAnotherStepsASecondOne) {
  RagdollWorld read, stepped, alone;
  const std::vector<double> expected = read_all(*read.exact);
  alone.w.step(30);
  std::atomic<bool> is_reading = false;
  std::thread stepping([&] {
    while (!is_reading) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) {
      stepped.w.step(10);
      const RagdollWorld another;
    }
    is_reading = false;
  });
  int different = 0;
  is_reading = true;
  do different += read_all(*read.exact) != expected;
  while (is_reading);
  stepping.join();
  EXPECT_EQ(different, 0);
  EXPECT_TRUE(stepped.w.bits() == alone.w.bits());
  EXPECT_TRUE(read_all(*stepped.exact) == read_all(*alone.exact));
}

}  // namespace
}  // namespace linchpin::test::threads_test
