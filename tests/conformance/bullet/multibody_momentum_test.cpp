// Momentum balances of multibodies: every link as a body of its own, its joints among the constraints that act on it,
// against momenta that are computed here from the velocities of the links.
#include "allocation_counter.h"
#include "link_world.h"

#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace linchpin::test::multibody_momentum_test {
namespace {

double worst_imbalance(bullet::Solver& exact) {
  double worst = 0;
  for (const MomentumBalance& b : exact.momentum_balances()) worst = std::max(worst, b.imbalance());
  return worst;
}

const MomentumBalance& balance_of(bullet::Solver& exact, BodyId id) {
  for (const MomentumBalance& b : exact.momentum_balances())
    if (b.body == id) return b;
  static const MomentumBalance none;
  ADD_FAILURE() << "no balance of body " << id.index;
  return none;
}

// ---- a chain in a plane, whose links move by formulas ----

/// Bars in a row that turn about z, on a base at the origin that stands still.
struct Chain {
  std::vector<double> length{0.7, 0.5, 0.9};
  /// Momentum [N·s] and angular momentum [N·m·s] that each bar gains from rates u0 to rates u1 in a step h: at the
  /// angles q, with its centripetal acceleration.
  std::vector<Vector6> gains(const std::vector<double>& q, const std::vector<double>& u0, const std::vector<double>& u1,
                             double h) const {
    std::vector<Vector6> out;
    double angle = 0, w0 = 0, w1 = 0;
    Vector3d v0 = Vector3d::Zero(), v1 = v0, a = v0;  // of the pivot
    const Vector3d z = Vector3d::UnitZ();
    for (std::size_t i = 0; i < length.size(); ++i) {
      angle += q[i], w0 += u0[i], w1 += u1[i];
      const double m = length[i], inertia = m * m * m / 12;  // a bar's mass is its length
      const Vector3d half = 0.5 * length[i] * Vector3d(std::cos(angle), std::sin(angle), 0);
      Vector6 gain = Vector6::Zero();
      gain.head<3>() = m * (v1 - v0 + (w1 - w0) * z.cross(half) + h * (a - w0 * w0 * half));
      gain[5] = inertia * (w1 - w0);
      out.push_back(gain);
      v0 += 2 * w0 * z.cross(half), v1 += 2 * w1 * z.cross(half), a -= 2 * w0 * w0 * half;
    }
    return out;
  }
};

struct ChainCase {
  bool loop = false, motor = false, damping = false, torque = false, friction = false;
};

void run_chain(const ChainCase& of) {
  LinkWorld w;
  const Chain chain;
  const int n = static_cast<int>(chain.length.size());
  btMultiBody& mb = w.multibody(n, true);
  for (int i = 0; i < n; ++i)
    bar(mb, i, i - 1, chain.length[static_cast<std::size_t>(i)],
        i ? chain.length[static_cast<std::size_t>(i - 1)] / 2 : 0, i ? 0.7 : -0.4);
  w.finish(mb);
  if (of.damping) {
    mb.setLinearDamping(btScalar(0.1));
    mb.setAngularDamping(btScalar(0.2));
  }
  for (int i = 0; i < n; ++i) mb.setJointVel(i, btScalar(1.5 - i));
  if (of.motor) {  // Bullet solves the constraints of links that have colliders.
    w.shapes.push_back(std::make_unique<btSphereShape>(btScalar(0.01)));
    for (int i = 0; i < n; ++i) w.collider(mb, i, *w.shapes.back());
    w.constraint<btMultiBodyJointMotor>(&mb, 1, btScalar(2), btScalar(0.01));
  }
  bullet::Solver exact(w.world);
  std::vector<BodyId> ids;
  for (int i = 0; i < n; ++i) ids.push_back(exact.id(link(mb, i)));
  if (of.loop) {
    const btTransform& last = mb.getLink(n - 1).m_cachedWorldTransform;
    const Vector3d end(chain.length.back() / 2, 0, 0);
    exact.add(joints::point_on_line("loop", linchpin::ground, bullet::from_bullet(last * bullet::to_bullet(end)),
                                    Vector3d::UnitZ(), ids.back(), end));
  }
  if (of.friction) exact.name_joint(link(mb, 0), "shoulder").law(laws::coulomb(0.3, 0.05));
  std::vector<double> q(ids.size()), u0 = q, u1 = q;
  const double h = 1.0 / 240;
  bool any_host = false;
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < n; ++i) {
      q[static_cast<std::size_t>(i)] = double(mb.getJointPos(i));
      u0[static_cast<std::size_t>(i)] = double(mb.getJointVel(i));
    }
    if (of.torque) mb.addJointTorque(2, btScalar(0.3));
    w.step(1, h);
    for (int i = 0; i < n; ++i) u1[static_cast<std::size_t>(i)] = double(mb.getJointVel(i));
    const std::vector<Vector6> gains = chain.gains(q, u0, u1, h);
    ASSERT_EQ(exact.momentum_balances().size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const MomentumBalance& b = balance_of(exact, ids[i]);
      const double size = std::max({b.applied.norm(), b.constraints.norm(), gains[i].norm()});
      ASSERT_LE((b.momentum + b.rounding - gains[i]).norm(), precision(1e-12, 1e-4) * size) << step << " link " << i;
      ASSERT_LE(b.imbalance(), precision(1e-12, 1e-4)) << step << " link " << i;
      ASSERT_GT(b.constraints.norm(), 0);
      any_host = any_host || b.host.norm() > 1e-6;
    }
  }
  EXPECT_EQ(any_host, of.motor);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}

TEST(MultibodyMomentum, ABarOfAChainGainsWhatActsOnIt) { run_chain({}); }
TEST(MultibodyMomentum, AChainWithALoop) { run_chain({.loop = true}); }
TEST(MultibodyMomentum, AChainWithMotorDampingAndTorque) {
  run_chain({.motor = true, .damping = true, .torque = true});
}
TEST(MultibodyMomentum, AChainWithALoopMotorDampingAndTorque) {
  run_chain({.loop = true, .motor = true, .damping = true, .torque = true});
}
TEST(MultibodyMomentum, AChainWithFrictionInAJoint) { run_chain({.friction = true}); }
TEST(MultibodyMomentum, AChainWithALoopAMotorAndFrictionInAJoint) {
  run_chain({.loop = true, .motor = true, .friction = true});
}

// ---- trees of all joints, on bases that stand and that fly ----

/// Momenta of the links of a multibody as it is now, about their centres, and the gyroscopic torques w × L, base first.
struct Momenta {
  std::vector<Vector6> momentum;
  std::vector<Vector3d> gyroscopic;
};
Momenta momenta(btMultiBody& mb) {
  btAlignedObjectArray<btQuaternion> turns;
  btAlignedObjectArray<btVector3> places;
  mb.forwardKinematics(turns, places);
  const auto n = static_cast<std::size_t>(mb.getNumLinks() + 1);
  std::vector<btVector3> omega(n), vel(n);
  mb.compTreeLinkVelocities(omega.data(), vel.data());
  Momenta out;
  for (std::size_t k = 0; k < n; ++k) {
    const int i = static_cast<int>(k) - 1;
    const btMatrix3x3 R =
        i < 0 ? btMatrix3x3(mb.getWorldToBaseRot().inverse()) : mb.getLink(i).m_cachedWorldTransform.getBasis();
    const btScalar m = i < 0 ? mb.getBaseMass() : mb.getLinkMass(i);
    const btVector3 I = i < 0 ? mb.getBaseInertia() : mb.getLinkInertia(i);
    Vector6 momentum;
    momentum << bullet::from_bullet(R * (m * vel[k])), bullet::from_bullet(R * (I * omega[k]));
    out.momentum.push_back(momentum);
    out.gyroscopic.push_back(bullet::from_bullet(R * omega[k]).cross(momentum.tail<3>()));
  }
  return out;
}

// A step is balanced with the inertia of its start, and the gyroscopic torque is among the applied forces, as for rigid
// bodies. The momenta of the links at both ends differ from that by O(dt²). Single precision rounds the velocity of a
// link to 1e-7 of its size, and half a millisecond changes it by about 1e-3 of that. A light link near the base also
// carries the rounding of all links beyond it. The largest imbalance of these trees is then 3.2e-3.
TEST(MultibodyMomentum, TreesBookWhatTheirLinksGain) {
  for (unsigned seed = 0; seed < 12; ++seed)
    for (const bool loop : {false, true}) {
      double error[2] = {};
      for (const int k : {0, 1}) {
        LinkWorld w;
        System s;
        const RandomTree tree = random_tree(w, s, seed);
        bullet::Solver exact(w.world);
        if (loop)
          exact.add(joints::ball("loop", exact.id(link(*tree.body, 5)), tree.on_last, linchpin::ground, tree.meets));
        const double h = k == 0 ? 1e-3 : 5e-4;
        w.step(1, h);  // velocities that the loop allows
        const Momenta before = momenta(*tree.body);
        w.step(1, h);
        const Momenta after = momenta(*tree.body);
        ASSERT_EQ(exact.momentum_balances().size(), seed % 2 == 0 ? 6u : 7u);
        EXPECT_LE(worst_imbalance(exact), precision(1e-12, 1e-2)) << seed << loop;
        for (int i = seed % 2 == 0 ? 0 : -1; i < 6; ++i) {
          const auto z = static_cast<std::size_t>(i + 1);
          const MomentumBalance& b = balance_of(exact, exact.id(link(*tree.body, i)));
          Vector6 gain = after.momentum[z] - before.momentum[z];
          gain.tail<3>() -= h * before.gyroscopic[z];
          error[k] = std::max(error[k], (b.momentum - gain).norm());
        }
        for (int i = 0; i < 120; ++i) {
          w.step(1, h);
          ASSERT_LE(worst_imbalance(exact), precision(1e-12, 1e-2)) << seed << loop << " step " << i;
        }
      }
      if (!single) {
        EXPECT_GT(error[0], 2 * error[1]) << seed << loop;
      }
    }
}

// ---- rows of the host, rigid bodies, memory ----

TEST(MultibodyMomentum, ContactsOnALinkAndOnABaseThatFallsAreRowsOfTheHost) {
  LinkWorld w;
  w.box(0, bt(5, 0.5, 5), bt(0, -0.5, 0)).setFriction(btScalar(0.5));
  btRigidBody& floor = *w.rigid.back();
  w.world.removeRigidBody(&floor);
  w.world.addRigidBody(&floor);
  btMultiBody& mb = w.multibody(2, false, 2, bt(0.05, 0.05, 0.05));
  mb.setBasePos(bt(0, 0.25, 0));
  bar(mb, 0, -1, 0.8, 0.2, 0.1);
  bar(mb, 1, -1, 0.6, -0.2, 3);
  w.finish(mb);
  mb.setBaseVel(bt(1, -0.5, 0.3));
  w.shapes.push_back(std::make_unique<btBoxShape>(bt(0.2, 0.2, 0.2)));
  w.collider(mb, -1, *w.shapes.back());
  w.shapes.push_back(std::make_unique<btSphereShape>(btScalar(0.1)));
  w.collider(mb, 0, *w.shapes.back());
  bullet::Solver exact(w.world);
  for (const bool loop : {false, true}) {
    if (loop) {
      const btTransform a = mb.getLink(0).m_cachedWorldTransform, b = mb.getLink(1).m_cachedWorldTransform;
      const Vector3d on_a(0.4, 0, 0), tip = bullet::from_bullet(a * bullet::to_bullet(on_a));
      exact.rod("rod", link(mb, 0), bullet::to_bullet(tip), link(mb, 1), b.getOrigin());
    }
    double host = 0;
    for (int i = 0; i < 240; ++i) {
      w.step();
      ASSERT_EQ(exact.momentum_balances().size(), 3u);
      for (const MomentumBalance& b : exact.momentum_balances()) {
        ASSERT_LE(b.imbalance(), precision(1e-10, 1e-3)) << loop << " step " << i;
        host = std::max(host, b.host.norm());
      }
    }
    EXPECT_GT(host, 1e-2);
  }
}

TEST(MultibodyMomentum, ARigidBodyOnALinkHasABalanceToo) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(2, true);
  bar(mb, 0, -1, 1, 0, 0.3);
  bar(mb, 1, 0, 0.5, 0.5, 0.4);
  w.finish(mb);
  const btVector3 end = mb.getLink(1).m_cachedWorldTransform * bt(0.25, 0, 0);
  btRigidBody& load = w.box(0.4, bt(0.1, 0.05, 0.1), end + bt(0, -0.3, 0));
  load.setAngularVelocity(bt(0.5, 2, 0.3));
  bullet::Solver exact(w.world);
  exact.ball("hook", link(mb, 1), load, end);
  for (int i = 0; i < 240; ++i) {
    w.step();
    ASSERT_EQ(exact.momentum_balances().size(), 3u);
    ASSERT_LE(worst_imbalance(exact), precision(1e-11, 1e-4)) << i;
  }
  const MomentumBalance& of = balance_of(exact, exact.id(load));
  EXPECT_GT(of.constraints.norm(), 1e-3);
  EXPECT_LE(exact.counts().imbalance, precision(1e-11, 1e-4));
}

TEST(MultibodyMomentum, ReadingBalancesAllocatesNothingOnceWarm) {
  LinkWorld w;
  System s;
  const RandomTree tree = random_tree(w, s, 3);
  bullet::Solver exact(w.world);
  exact.add(joints::ball("loop", exact.id(link(*tree.body, 5)), tree.on_last, linchpin::ground, tree.meets));
  const auto steps = [&] {
    for (int i = 0; i < 60; ++i) {
      w.step();
      (void)exact.momentum_balances();
    }
  };
  for (int i = 0; i < 4; ++i) steps();  // Newton has its own memory where it first converges slowly.
  const AllocationCounter allocations;
  steps();
  EXPECT_EQ(allocations.count(), 0u);
}

// What sleeps, what is gone and what no step has moved has no balance.
TEST(MultibodyMomentum, BalancesBelongToTheLastStep) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(1, true);
  bar(mb, 0, -1, 1, 0);
  w.finish(mb);
  bullet::Solver exact(w.world);
  EXPECT_EQ(exact.momentum_balances().size(), 0u);
  w.step();
  EXPECT_EQ(exact.momentum_balances().size(), 1u);
  EXPECT_EQ(exact.momentum_balances().size(), 1u);  // once
  w.world.removeMultiBody(&mb);
  w.step();
  EXPECT_EQ(exact.momentum_balances().size(), 0u);
}

}  // namespace
}  // namespace linchpin::test::multibody_momentum_test
