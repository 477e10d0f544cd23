// Bodies that turn far in a step (T15): their spin does no work on what hangs from them, whichever way a block is
// stepped, and turns them as far as it should.
#include "world.h"

#include "allocation_counter.h"
#include "random.h"

#include <gtest/gtest.h>

#include <array>

namespace linchpin::test::turning_test {
namespace {

/// The ways that a block is stepped: of joints alone, beside rows of Bullet's own, as a block of the user's.
enum class Way { plain, with_rows, general };
constexpr std::array every_way{Way::plain, Way::with_rows, Way::general};
const char* name(Way way) { return way == Way::plain ? "plain" : way == Way::with_rows ? "with rows" : "general"; }

/// Bars of 0.1 kg on balls-and-sockets that spin about their length, slanting from the world down to a ball.
struct Chain {
  TestWorld w;
  double dt;
  double fall = 0;  ///< what it can fall, and what spins [J]

  Chain(int links, double load, double rate, double spin) : dt(1 / rate) {
    const btVector3 along(btScalar(std::sin(1.2)), btScalar(-std::cos(1.2)), 0);
    const btQuaternion turn(btVector3(0, 0, 1), btAtan2(along.y(), along.x()));
    const btScalar h(0.25);
    for (int i = 0; i <= links; ++i) {
      const bool last = i == links;
      const btVector3 at = along * (2 * h * btScalar(i) + h);
      btRigidBody& body = last ? w.ball(load, 0.25, at)
                               : w.box(0.1, btVector3(btScalar(0.24), btScalar(0.04), btScalar(0.04)), at, turn);
      if (last) body.setWorldTransform(btTransform(turn, at));
      body.getBroadphaseHandle()->m_collisionFilterMask = 0;
      if (!last) body.setAngularVelocity(along * btScalar(spin));
      if (i == 0)
        w.joint<btPoint2PointConstraint>(body, btVector3(-h, 0, 0));
      else
        w.joint<btPoint2PointConstraint>(*w.bodies[w.bodies.size() - 2], body, btVector3(h, 0, 0), btVector3(-h, 0, 0));
      fall += double(at.length()) * 2 * 9.81 / double(body.getInvMass());
    }
    fall += energy();
  }
  /// Kinetic of the middle of the last step, and of height there [J].
  double energy() const {
    double sum = 0;
    for (const auto& b : w.bodies) {
      const btVector3 u = b->getLinearVelocity(), I = b->getInvInertiaDiagLocal(),
                      s = b->getWorldTransform().getBasis().transpose() * b->getAngularVelocity();
      const double m = 1 / double(b->getInvMass());
      sum += 0.5 * m * double(u.length2()) + m * 9.81 * double(b->getWorldTransform().getOrigin().y());
      sum -= m * 9.81 * 0.5 * dt * double(u.y());
      for (int k = 0; k < 3; ++k) sum += 0.5 * double(s[k]) * double(s[k]) / double(I[k]);
    }
    return sum;
  }
};

TEST(Turning, BarsThatSpinUnderALoadGainNothing) {
  for (const Way way : every_way)
    for (const int links : {1, 2, 5})
      for (const double rate : {60.0, 240.0})
        for (const double spin : {100.0, 300.0}) {
          if (way == Way::general && links == 5) continue;  // the same, at length
          Chain c(links, 100, rate, spin);
          const std::string of =
              std::string(name(way)) + ", " + std::to_string(links) + " at " + std::to_string(rate) + " Hz";
          bullet::Solver exact(c.w.world);
          btRigidBody& ball = *c.w.bodies.back();
          if (way == Way::general) exact.constrain("plane", {ball}, [](const auto& s) { return s[0].position().z; });
          if (way == Way::with_rows) {
            btRigidBody& wheel = c.w.ball(1, 0.1, ball.getWorldTransform().getOrigin());
            wheel.getBroadphaseHandle()->m_collisionFilterMask = 0;
            wheel.setWorldTransform(ball.getWorldTransform());
            auto& axle = c.w.joint<btHingeConstraint>(ball, wheel, btVector3(0, 0, 0), btVector3(0, 0, 0),
                                                      btVector3(0, 0, 1), btVector3(0, 0, 1));
            axle.enableAngularMotor(true, 0, btScalar(1e-6));
          }
          const double start = c.energy();
          double most = 0;
          for (int i = 0; i < int(1.5 * rate); ++i) {
            c.w.step(1, c.dt);
            most = std::max(most, c.energy() - start);
          }
          EXPECT_LT(most, 0.02 * c.fall) << of << ", spin " << spin;
          EXPECT_LT(worst_books(exact), precision(1e-12, 1e-5)) << of;
          EXPECT_EQ(exact.counts().fallbacks, 0) << of << exact.summary();
        }
}

// A top that goes round at the rate at which (I3 ω3 − I1 Ω cos θ) Ω = m g l, I1 about its tip: it neither rises nor
// sinks, and halves of a step come four times nearer to where it should be.
TEST(Turning, ATopGoesRoundAtItsRateToTheSecondOrder) {
  const double m = 2, l = 0.3, across = 0.01, I3 = 0.016, tilt = 1.0, round = 3, time = 0.5;
  const double at_tip = across + m * l * l, spin = (m * 9.81 * l / round + at_tip * round * std::cos(tilt)) / I3;
  const auto axis = [&](double t) {
    return Vector3d(std::sin(tilt) * std::cos(round * t), std::cos(tilt), -std::sin(tilt) * std::sin(round * t));
  };
  const auto off = [&](int steps) {
    TestWorld w;
    const double dt = time / steps;
    const Vector3d e = axis(0);
    btRigidBody& top =
        w.box(m, btVector3(1, 1, 1), btVector3(0, 0, 0), btQuaternion(btVector3(0, 0, 1), btScalar(-tilt)));
    top.setMassProps(btScalar(m), btVector3(btScalar(across), btScalar(I3), btScalar(across)));
    top.setCenterOfMassTransform(
        btTransform(top.getOrientation(), btVector3(btScalar(l * e.x()), btScalar(l * e.y()), 0)));
    top.updateInertiaTensor();
    w.joint<btPoint2PointConstraint>(top, btVector3(0, btScalar(-l), 0));
    // Velocities belong to the middles of steps.
    const Vector3d before = axis(-0.5 * dt), up(0, 1, 0);
    const Vector3d w0 = spin * before + round * (up - std::cos(tilt) * before), v0 = round * l * up.cross(before);
    top.setAngularVelocity(btVector3(btScalar(w0.x()), btScalar(w0.y()), btScalar(w0.z())));
    top.setLinearVelocity(btVector3(btScalar(v0.x()), btScalar(v0.y()), btScalar(v0.z())));
    bullet::Solver exact(w.world);
    w.step(steps, dt);
    EXPECT_EQ(exact.counts().fallbacks, 0);
    const btVector3 at = top.getWorldTransform().getOrigin() / btScalar(l);
    return (Vector3d(double(at.x()), double(at.y()), double(at.z())) - axis(time)).norm();
  };
  const double coarse = off(120), fine = off(240), finest = off(480);
  EXPECT_LT(coarse, 0.025);
  if (single) return;
  EXPECT_NEAR(coarse / fine, 4, 1);
  EXPECT_NEAR(fine / finest, 4, 1);
}

// Of bodies that tumble by radians in a step: a part of one that is refused leaves nothing of its turn to the next try.
TEST(Turning, BooksOfBodiesThatTumbleByRadiansBalance) {
  long parts = 0;
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Vector3d at = random.vector(), tip = random.vector(0.1);
    TestWorld w;
    btRigidBody& body = w.box(0.4, btVector3(btScalar(0.05), btScalar(0.04), btScalar(0.06)), btVector3(0, 0, 0));
    btRigidBody& load = w.ball(std::pow(10, random.uniform(-1.5, 1.5)), 0.1, bullet::to_bullet(at));
    for (btRigidBody* b : {&body, &load}) b->getBroadphaseHandle()->m_collisionFilterMask = 0;
    body.setAngularVelocity(bullet::to_bullet(random.uniform(200, 1700) * random.direction()));
    bullet::Solver exact(w.world);
    exact.constrain("rod", {body, load}, [tip, length = (at - tip).norm()](const auto& s) {
      return norm(s[0].point(tip.x(), tip.y(), tip.z()) - s[1].position()) - length;
    });
    for (int i = 0; i < 10; ++i) {
      w.step(1, 1 / 60.);
      ASSERT_LT(worst_books(exact), precision(1e-9, 1e-5)) << "step " << i << "\n" << exact.summary();
    }
    parts += exact.counts().substeps;
  }
  EXPECT_GT(parts, 0);
}

// Blocks that are stepped side by side are what each is alone, to the last bit, where some spin and others do not.
TEST(Turning, SideBySideIsAsAlone) {
  const std::array<double, 5> spins{300, 0, 100, 30, 200};
  std::vector<btScalar> together, apart;
  const auto run = [](std::span<const double> of) {
    TestWorld w;
    for (const double spin : of) {
      const std::size_t first = w.bodies.size();
      chain(w, 3, 0.1);
      for (std::size_t i = first; i < w.bodies.size(); ++i) {
        w.bodies[i]->getBroadphaseHandle()->m_collisionFilterMask = 0;
        w.bodies[i]->setAngularVelocity(btVector3(btScalar(spin), 0, 0));
      }
    }
    bullet::Solver exact(w.world);
    w.step(120);
    EXPECT_EQ(exact.counts().fallbacks, 0);
    return w.bits();
  };
  together = run(spins);
  for (const double spin : spins)
    for (const btScalar x : run({&spin, 1})) apart.push_back(x);
  ASSERT_EQ(together.size(), apart.size());
  EXPECT_EQ(std::memcmp(together.data(), apart.data(), together.size() * sizeof(btScalar)), 0);
}

// Blocks that are stepped side by side give the same bits as alone. This holds where bodies turn by little in a step
// and some of them have no gyroscopic torque (their flags are zero).
TEST(Turning, SlowTumblersAreSideBySideAsAlone) {
  const std::array<bool, 6> gyroscopic{true, true, true, false, true, false};
  const auto run = [](std::span<const bool> of) {
    TestWorld w;
    for (const bool tumbles : of) {
      const std::size_t first = w.bodies.size();
      chain(w, 3, 0.1);
      for (std::size_t i = first; i < w.bodies.size(); ++i) {
        w.bodies[i]->getBroadphaseHandle()->m_collisionFilterMask = 0;
        w.bodies[i]->setAngularVelocity(btVector3(7, 5, 3));
        if (!tumbles) w.bodies[i]->setFlags(0);
      }
    }
    bullet::Solver exact(w.world);
    w.step(120);
    EXPECT_EQ(exact.counts().fallbacks, 0);
    return w.bits();
  };
  const std::vector<btScalar> together = run(gyroscopic);
  std::vector<btScalar> apart;
  for (const bool& tumbles : gyroscopic)
    for (const btScalar x : run({&tumbles, 1})) apart.push_back(x);
  ASSERT_EQ(together.size(), apart.size());
  EXPECT_EQ(std::memcmp(together.data(), apart.data(), together.size() * sizeof(btScalar)), 0);
}

TEST(Turning, AWarmStepAllocatesNothing) {
  Chain c(3, 10, 240, 200);
  bullet::Solver exact(c.w.world);
  c.w.step(240, c.dt);  // whole steps and steps in parts
  const AllocationCounter allocations;
  c.w.step(480, c.dt);
  EXPECT_EQ(allocations.count(), 0u);
}

}  // namespace
}  // namespace linchpin::test::turning_test
