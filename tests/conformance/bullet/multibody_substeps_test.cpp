// Multibodies whose loops a whole step cannot end on: they are taken in substeps.
#include "allocation_counter.h"
#include "link_world.h"

#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

namespace linchpin::test::multibody_substeps_test {
namespace {

/// A four-bar as a chain of three bars in joint coordinates. A loop closes it at the end of the last one. The crank
/// starts upright; the mass of a bar is its length.
struct FourBar {
  double crank = 0.5, coupler = 2.2, rocker = 1.2, ground = 2;
  std::array<double, 3> angle{}, rate{};  ///< of the joints

  explicit FourBar(double spin) {
    const double d = std::hypot(ground, crank);
    const double x = (coupler * coupler - rocker * rocker + d * d) / (2 * d), h = std::sqrt(coupler * coupler - x * x);
    const double ex = (x * ground + h * crank) / d, ey = crank + (h * ground - x * crank) / d;  // the coupler's end
    const double a2 = std::atan2(ey - crank, ex), a3 = std::atan2(-ey, ground - ex);
    const double A = -coupler * std::sin(a2), B = -rocker * std::sin(a3), C = coupler * std::cos(a2),
                 D = rocker * std::cos(a3), v = spin * crank, w2 = v * D / (A * D - B * C), w3 = -C * w2 / D;
    angle = {pi / 2, a2 - pi / 2, a3 - a2};
    rate = {spin, w2 - spin, w3 - w2};
  }
};

btMultiBody& make(LinkWorld& w, const FourBar& f) {
  btMultiBody& mb = w.multibody(3, true);
  bar(mb, 0, -1, f.crank, 0, f.angle[0]);
  bar(mb, 1, 0, f.coupler, f.crank / 2, f.angle[1]);
  bar(mb, 2, 1, f.rocker, f.coupler / 2, f.angle[2]);
  w.finish(mb);
  mb.setMaxCoordinateVelocity(btScalar(1e6));
  for (int i = 0; i < 3; ++i) mb.setJointVel(i, btScalar(f.rate[static_cast<std::size_t>(i)]));
  return mb;
}

bullet::Handle close(bullet::Solver& exact, const FourBar& f, btMultiBody& mb) {
  return exact.add(joints::point_on_line("loop", linchpin::ground, {f.ground, 0, 0}, Vector3d::UnitZ(),
                                         exact.id(link(mb, 2)), {f.rocker / 2, 0, 0}));
}

// The crank turns by two radians in a step. Whole steps end on the loop only on another branch of it, with a thousand
// times the energy.
TEST(MultibodySubsteps, AFastFourBarEndsEveryStepOnItsLoop) {
  for (const double spin : {60.0, 120.0, 300.0}) {
    const FourBar f(spin);
    LinkWorld w;
    btMultiBody& mb = make(w, f);
    bullet::Solver exact(w.world);
    bullet::Handle loop = close(exact, f, mb);
    const double start = exact.energy();
    for (int i = 0; i < 60; ++i) {
      w.step(1, 1.0 / 60);
      ASSERT_LE(loop.reaction().gap, precision(1e-12, 2e-5)) << spin << " step " << i;
      ASSERT_LE(exact.energy(), 1.03 * start) << spin << " step " << i;
      for (const MomentumBalance& b : exact.momentum_balances())
        ASSERT_LE(b.imbalance(), precision(1e-12, 1e-3)) << spin << " step " << i;
    }
    EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    EXPECT_GT(exact.counts().substepped_steps, 0) << spin;
    EXPECT_GE(exact.counts().substeps, 2 * exact.counts().substepped_steps);
    EXPECT_NE(exact.summary().find("steps taken in"), std::string::npos) << exact.summary();
  }
}

// The reactions of a step in substeps: that of its start, and the rest up to what the substeps applied.
TEST(MultibodySubsteps, ReactionsAddUpToTheImpulsesOfTheSubsteps) {
  const FourBar f(120);
  LinkWorld w;
  btMultiBody& mb = make(w, f);
  bullet::Solver exact(w.world);
  bullet::Handle loop = close(exact, f, mb);
  bullet::Handle elbow = exact.name_joint(link(mb, 2), "elbow");
  const BodyId last = exact.id(link(mb, 2));
  const double dt = 1.0 / 60;
  int divided = 0;
  for (int i = 0; i < 30; ++i) {
    const long before = exact.counts().substepped_steps;
    w.step(1, dt);
    if (exact.counts().substepped_steps == before) continue;
    ++divided;
    const Reaction &a = loop.reaction(), &b = elbow.reaction();
    Vector3d sum = Vector3d::Zero();  // on the last bar: the loop acts on it as its second body, and so does the elbow
    for (const Reaction* r : {&a, &b}) sum += dt * (r->on_b.force + r->stabilisation.on_b.force);
    for (const MomentumBalance& of : exact.momentum_balances())
      if (of.body == last) {
        EXPECT_LE((sum - of.constraints.head<3>()).norm(), precision(1e-11, 1e-3) * of.constraints.norm()) << i;
      }
  }
  EXPECT_GT(divided, 3);
}

// A motor, and a ball that lies on the coupler: their impulses are spread over the substeps.
TEST(MultibodySubsteps, AMotorAndAContactActInSubsteps) {
  const FourBar f(2);
  LinkWorld w;
  btMultiBody& mb = make(w, f);
  w.shapes.push_back(std::make_unique<btBoxShape>(bt(f.coupler / 2, 0.05, 0.05)));
  w.collider(mb, 1, *w.shapes.back());
  w.shapes.push_back(std::make_unique<btSphereShape>(btScalar(0.01)));
  for (const int i : {0, 2}) w.collider(mb, i, *w.shapes.back());
  w.constraint<btMultiBodyJointMotor>(&mb, 0, btScalar(150), btScalar(4));
  btRigidBody& ball = w.box(0.2, bt(0.1, 0.1, 0.1), bt(0.8, 1.4, 0));
  w.world.removeRigidBody(&ball);
  w.world.addRigidBody(&ball);
  bullet::Solver exact(w.world);
  bullet::Handle loop = close(exact, f, mb);
  double host = 0, most = 0;
  for (int i = 0; i < 120; ++i) {
    w.step(1, 1.0 / 60);
    ASSERT_LE(loop.reaction().gap, precision(1e-9, 2e-5)) << i << exact.summary();
    for (const MomentumBalance& b : exact.momentum_balances()) {
      ASSERT_LE(b.imbalance(), precision(1e-9, 1e-2)) << i;
      host = std::max(host, b.host.norm());
    }
    most = std::max(most, exact.energy());
  }
  EXPECT_GT(exact.counts().substepped_steps, 0) << exact.summary();
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_GT(host, 0.1);
}

TEST(MultibodySubsteps, AStepInSubstepsAllocatesNothingOnceWarm) {
  const FourBar f(60);
  LinkWorld w;
  btMultiBody& mb = make(w, f);
  const btVector3 tip = mb.getLink(1).m_cachedWorldTransform.getOrigin();
  btRigidBody& load = w.box(0.1, bt(0.1, 0.1, 0.1), tip + bt(0, -0.3, 0));
  bullet::Solver exact(w.world);
  (void)close(exact, f, mb);
  exact.ball("hook", link(mb, 1), load, tip);
  const auto spin = [&] {
    for (int i = 0; i < 3; ++i) mb.setJointVel(i, btScalar(f.rate[static_cast<std::size_t>(i)]));
  };
  w.step(20, 1.0 / 60);
  const long before = exact.counts().substepped_steps;
  EXPECT_GT(before, 0);
  spin();
  w.step(5, 1.0 / 60);
  spin();
  const AllocationCounter allocations;
  w.step(5, 1.0 / 60);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_GT(exact.counts().substepped_steps, before);
}

// The same step has the same bits after a way back, with nothing to restore but the world.
TEST(MultibodySubsteps, ARepeatedStepHasTheSameBits) {
  const auto run = [](bool repeated) {
    const FourBar f(120);
    LinkWorld w;
    btMultiBody& mb = make(w, f);
    bullet::Solver exact(w.world);
    (void)close(exact, f, mb);
    w.step(5, 1.0 / 60);
    if (repeated) {
      const auto history = exact.history();
      std::array<btScalar, 3> q, u;
      for (int i = 0; i < 3; ++i) {
        q[static_cast<std::size_t>(i)] = mb.getJointPos(i);
        u[static_cast<std::size_t>(i)] = mb.getJointVel(i);
      }
      w.step(3, 1.0 / 60);
      for (int i = 0; i < 3; ++i) {
        mb.setJointPos(i, q[static_cast<std::size_t>(i)]);
        mb.setJointVel(i, u[static_cast<std::size_t>(i)]);
      }
      exact.restore(history);
    }
    w.step(3, 1.0 / 60);
    return std::array<double, 6>{double(mb.getJointPos(0)), double(mb.getJointPos(1)), double(mb.getJointPos(2)),
                                 double(mb.getJointVel(0)), double(mb.getJointVel(1)), double(mb.getJointVel(2))};
  };
  EXPECT_EQ(run(true), run(false));
}

// With friction in a joint the step is not divided, and the reason is told.
TEST(MultibodySubsteps, AProblemWithLawsIsNotDividedAndSaysSo) {
  const FourBar f(120);
  LinkWorld w;
  btMultiBody& mb = make(w, f);
  bullet::Solver exact(w.world);
  (void)close(exact, f, mb);
  exact.name_joint(link(mb, 0), "shoulder").law(laws::coulomb(0.1, 0.01));
  for (int i = 0; i < 10 && exact.counts().fallbacks == 0; ++i) w.step(1, 1.0 / 60);
  EXPECT_EQ(exact.counts().substepped_steps, 0);
  EXPECT_GT(exact.counts().fallbacks, 0);
  EXPECT_NE(exact.summary().find("a multibody with force laws takes no substeps"), std::string::npos)
      << exact.summary();
}

}  // namespace
}  // namespace linchpin::test::multibody_substeps_test
