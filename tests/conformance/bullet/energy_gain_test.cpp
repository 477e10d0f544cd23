// Mechanisms without a source of energy, in steps that are often too long for them. What gains energy is named, and
// what does not is left alone (T15). The test computes the energy itself.
#include "link_world.h"

#include "random.h"
#include "world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace linchpin::test::energy_gain_test {
namespace {

struct Outcome {
  double relative = 0;  // Largest growth of the energy, relative to the largest kinetic energy without it until then.
  long named = 0, divided = 0;
};

/// Steps a world, and compares its energy with the least that it had.
class Observer {
 public:
  template <class World>
  Outcome run(World& w, double dt, double seconds, const bullet::Options& options) {
    bullet::Solver exact(w.world, options);
    Outcome out;
    double least = exact.energy(), motion = 0;
    for (double t = 0; t < seconds; t += dt) {
      w.step(1, dt);
      const double now = exact.energy();
      if (!std::isfinite(now)) {
        out.relative = std::numeric_limits<double>::infinity();
        break;
      }
      least = std::min(least, now);
      motion = std::max(motion, kinetic_energy(w, exact) - (now - least));
      out.relative = std::max(out.relative, (now - least) / (motion + floor_of(w, dt)));
    }
    out.named = exact.counts().energy_gains;
    out.divided = exact.counts().divided_steps;
    EXPECT_EQ(out.named > 0, !exact.energy_gains().empty());
    EXPECT_EQ(out.named > 0, exact.summary().find("energy grows without a source") != std::string::npos);
    return out;
  }

 private:
  static double kinetic_energy(const TestWorld& w, bullet::Solver&) {
    double sum = 0;
    for (const auto& b : w.bodies) {
      if (b->getInvMass() == 0) continue;
      const btVector3 &v = b->getLinearVelocity(), &w_ = b->getAngularVelocity(), &I = b->getLocalInertia();
      const btVector3 own = b->getWorldTransform().getBasis().transpose() * w_;
      sum += 0.5 * (double(v.length2() / b->getInvMass()) + double((own * I).dot(own)));
    }
    return sum;
  }
  /// Without gravity.
  static double kinetic_energy(const LinkWorld&, bullet::Solver& exact) { return exact.energy(); }
  template <class World>
  static double floor_of(const World& w, double dt) {
    return 0.5 * mass_of(w) * std::pow(double(w.world.getGravity().length()) * dt, 2);
  }
  static double mass_of(const TestWorld& w) {
    double sum = 0;
    for (const auto& b : w.bodies)
      if (b->getInvMass() > 0) sum += 1 / double(b->getInvMass());
    return sum;
  }
  static double mass_of(const LinkWorld& w) {
    double sum = 0;
    for (const auto& b : w.bodies)
      for (int i = 0; i < b->getNumLinks(); ++i) sum += double(b->getLinkMass(i));
    return sum;
  }
};

/// One to seven bodies of random shapes on each other by random joints, which spin.
struct Tree {
  TestWorld w;
  double dt;
  explicit Tree(std::uint64_t seed) {
    Random random(seed);
    dt = std::pow(10, random.uniform(-3, -1.8));
    const double speed = std::pow(10, random.uniform(0, 2.3));
    const auto vector = [&](double size) { return bullet::to_bullet(random.vector(size)); };
    std::vector<btRigidBody*> all;
    for (int left = random.integer(1, 7); left > 0; --left) {
      const Vector3d half = Vector3d::Constant(0.05) + 0.2 * random.vector(1).cwiseAbs();
      const double mass = std::pow(10, random.uniform(-1, 2));
      btRigidBody* const on =
          all.empty() ? nullptr : all[static_cast<std::size_t>(random.integer(0, static_cast<int>(all.size()) - 1))];
      const btVector3 at = (on ? on->getWorldTransform().getOrigin() : btVector3(0, 0, 0)) + vector(0.3);
      btRigidBody& next = w.box(mass, bullet::to_bullet(half), at);
      next.setAngularVelocity(vector(speed));
      const btVector3 pivot = at - vector(0.2), axis = bullet::to_bullet(random.direction());
      const btVector3 on_next = pivot - at;
      if (!on)
        w.joint<btPoint2PointConstraint>(next, on_next);
      else if (random.coin())
        w.joint<btPoint2PointConstraint>(*on, next, pivot - on->getWorldTransform().getOrigin(), on_next);
      else
        w.joint<btHingeConstraint>(*on, next, pivot - on->getWorldTransform().getOrigin(), on_next, axis, axis);
      all.push_back(&next);
    }
    for (btRigidBody* body : all)
      body->setCollisionFlags(body->getCollisionFlags() | btCollisionObject::CF_NO_CONTACT_RESPONSE);
  }
};

void names_every_growth(std::uint64_t first, int count) {
  int grown = 0, named = 0, divided = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Tree tree(seed);
    const Outcome now = Observer().run(tree.w, tree.dt, 2, {});
    grown += now.relative > 0.25;
    named += now.named > 0;
    divided += now.divided > 0;
    if (now.relative > 0.25) {
      EXPECT_GT(now.named, 0) << "gained " << now.relative;
    }
    if (now.named > 0) {
      EXPECT_GT(now.relative, 0.02) << "named without a gain";
    }
  }
  std::printf("%d of %d mechanisms gain energy, %d are named, %d are divided\n", grown, count, named, divided);
}

TEST(EnergyGain, IsNamedInRandomTrees) { names_every_growth(1, 100); }
TEST(SlowEnergyGain, IsNamedInRandomTrees) { names_every_growth(1000, 3000); }

// A body that turns by 2.7 rad a step about a pivot beside its centre gained 38 % of its energy in three seconds.
TEST(EnergyGain, IsNamedOfAFastSpinBesideThePivot) {
  const auto spin = [](double limit) {
    TestWorld w(0);
    btRigidBody& body =
        w.box(26, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.3)), btVector3(btScalar(0.3), 0, 0));
    body.setAngularVelocity(btVector3(163, 10, 20));
    w.joint<btPoint2PointConstraint>(body, btVector3(btScalar(-0.3), btScalar(0.05), 0));
    return Observer().run(w, 1.0 / 60, 3, {.max_energy_gain = limit});
  };
  const Outcome unwatched = spin(std::numeric_limits<double>::infinity()), watched = spin(0.1);
  std::printf("gains %g without division, %g with it in %ld steps, named %ld times\n", unwatched.relative,
              watched.relative, watched.divided, watched.named);
  EXPECT_EQ(unwatched.named, 0);
  if (watched.relative > 0.25) {
    EXPECT_GT(watched.named, 0);
  }
}

/// Three bars on pins that are not parallel, thrown about. Bullet integrates joint coordinates explicitly.
Outcome run_robot(double speed, double dt) {
  LinkWorld w(0);
  btMultiBody& mb = w.multibody(3, true);
  const btQuaternion across(btVector3(1, 0, 0), btScalar(1.2));
  for (int i = 0; i < 3; ++i)
    mb.setupRevolute(i, 1, bt(1e-3, 0.02, 0.02), i - 1, i == 0 ? straight : across, bt(0, 0.3, 0.95).normalized(),
                     bt(i == 0 ? 0 : 0.25, 0, 0), bt(0.25, 0.02, 0), true);
  w.finish(mb);
  for (int i = 0; i < 3; ++i) mb.setJointVel(i, btScalar(speed * (i == 1 ? -1 : 1)));
  return Observer().run(w, dt, 5, {});
}

// Contacts remove the overlap with a velocity, whose energy is that of the host's own rule and no gain of the chain.
TEST(EnergyGain, IsNoneOfAChainThatOverlapsTheGroundAtRest) {
  for (const double overlap : {0.0, 0.001, 0.01})
    for (const bool box : {false, true}) {
      TestWorld w;
      const btVector3 half(btScalar(0.25), btScalar(0.05), btScalar(0.05)), along(btScalar(0.25), 0, 0), z(0, 0, 1);
      w.box(0, btVector3(10, btScalar(0.5), 10), btVector3(0, btScalar(-0.5), 0));
      for (std::size_t i = 0; i < 6; ++i) {
        btRigidBody& link = w.box(1, half, btVector3(btScalar(0.5 * double(i)), btScalar(0.05 - overlap), 0));
        if (i > 0) w.joint<btHingeConstraint>(*w.bodies[i], link, along, -along, z, z);
      }
      if (box) w.box(5, btVector3(1, 1, 1) * btScalar(0.2), btVector3(btScalar(1.2), btScalar(1.5), 0));
      bullet::Solver exact(w.world);
      w.step(240);
      EXPECT_EQ(exact.counts().energy_gains, 0) << "overlap " << overlap << ", box " << box << "\n" << exact.summary();
      EXPECT_TRUE(w.finite());
    }
}

// Contradictory constraints do work. A shorter step does not help.
TEST(EnergyGain, OfContradictoryConstraintsSaysSo) {
  const EnergyGain gain{.t = 1, .gain = 2, .relative = 0.5, .body = {}, .bodies = 2, .contradictory = true};
  const std::string text = energy_gain_text("bob", gain, 1);
  EXPECT_NE(text.find("Its constraints contradict each other, and their forces therefore do work. Remove one of them"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("shorter step"), std::string::npos) << text;
}

TEST(EnergyGain, OfRobotsUnderTheExplicitIntegratorIsNamed) {
  const Outcome fast = run_robot(15, 1.0 / 60);
  std::printf("gains %g, named %ld times\n", fast.relative, fast.named);
  EXPECT_GT(fast.relative, 0.25);
  EXPECT_GT(fast.named, 0);
}

TEST(EnergyGain, IsNoneOfARobotThatTheStepFollows) {
  const Outcome slow = run_robot(1, 1.0 / 2000);
  std::printf("gains %g, named %ld times\n", slow.relative, slow.named);
  EXPECT_EQ(slow.named, 0);
}

}  // namespace
}  // namespace linchpin::test::energy_gain_test
