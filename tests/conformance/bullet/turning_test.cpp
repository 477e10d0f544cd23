// Bodies that turn (T15): their gyroscopic torque does no work on them or on what hangs from them, whichever way an
// island is stepped, and turns them as far as it should.
#include "world.h"

#include "allocation_counter.h"
#include "random.h"

#include <linchpin/joints.h>
#include <linchpin/stepper.h>

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

// A box turns at 5 rad/s about a ball joint at its corner. The error of its energy has no trend, and is of second order
// in the step. By implicit Euler, which Bullet uses for free bodies, it loses 0.6 % in 10 s of steps of 1 ms.
TEST(Turning, ABoxOnABallJointKeepsItsEnergy) {
  const double rate = 5, time = 10;
  for (const Way way : every_way)
    for (const double dt : {1. / 1000, 1. / 240, 1. / 100, 1. / 50}) {
      TestWorld w(0);
      const btVector3 half(btScalar(0.5), btScalar(0.15), btScalar(0.3)), spin(2, 3, btScalar(std::sqrt(12)));
      btRigidBody& box = w.box(1, half, half);
      box.getBroadphaseHandle()->m_collisionFilterMask = 0;
      box.setAngularVelocity(spin);
      box.setLinearVelocity(spin.cross(half));
      w.joint<btPoint2PointConstraint>(box, -half);
      bullet::Solver exact(w.world);
      if (way == Way::general)
        exact.constrain("pin", {box}, [h = half.x()](const auto& s) { return s[0].point(-double(h), -0.15, -0.3).x; });
      if (way == Way::with_rows) {
        btRigidBody& wheel = w.ball(0.1, 0.1, half);
        wheel.getBroadphaseHandle()->m_collisionFilterMask = 0;
        wheel.setAngularVelocity(spin);
        wheel.setLinearVelocity(box.getLinearVelocity());
        auto& axle = w.joint<btHingeConstraint>(box, wheel, btVector3(0, 0, 0), btVector3(0, 0, 0), btVector3(0, 0, 1),
                                                btVector3(0, 0, 1));
        axle.enableAngularMotor(true, 0, btScalar(1e-11));  // its work is far below the bound
      }
      const auto energy = [&] {
        double sum = 0;
        for (const auto& b : w.bodies) {
          const btVector3 u = b->getLinearVelocity(), I = b->getInvInertiaDiagLocal(),
                          s = b->getWorldTransform().getBasis().transpose() * b->getAngularVelocity();
          sum += 0.5 * double(u.length2()) / double(b->getInvMass());
          for (int k = 0; k < 3; ++k) sum += 0.5 * double(s[k]) * double(s[k]) / double(I[k]);
        }
        return sum;
      };
      const double start = energy();
      double most = 0;
      for (int i = 0; i < int(time / dt); ++i) {
        w.step(1, dt);
        most = std::max(most, std::abs(energy() / start - 1));
      }
      const double turn = rate * dt;
      EXPECT_LT(most, 0.2 * turn * turn + precision(0, 2e-3)) << name(way) << ", step " << dt;
      EXPECT_LT(worst_books(exact), precision(1e-12, 1e-5)) << name(way) << ", step " << dt;
      EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    }
}

/// The spatial slider-crank of the IFToMM library of multibody benchmarks, with a ball joint at both ends of its rod,
/// whose moments across are equal: in Bullet, and for the core's own stepper. Gravity is along −y.
struct SliderCrank {
  TestWorld w;
  System system;
  State start;
  std::vector<BodyId> ids;

  SliderCrank() {
    system.set_gravity({0, -9.81, 0});
    const Vector3d bearing(0, 0.12, -0.1), pin(0, 0.2, -0.1), wrist(0.2, 0, 0), along = wrist - pin;
    const Vector3d pin_velocity(0, 0, 6 * 0.08), wrist_velocity(0.24, 0, 0), change = wrist_velocity - pin_velocity;
    const Quaterniond lies = Quaterniond::FromTwoVectors(Vector3d::UnitX(), along);
    add(0.12, {1e-4, 1e-4, 1e-5}, bearing, Quaterniond::Identity(), {0, 0, 0}, {6, 0, 0});
    add(0.5, {4e-4, 4e-3, 4e-3}, 0.5 * (pin + wrist), lies, 0.5 * (pin_velocity + wrist_velocity),
        along.cross(change) / along.squaredNorm());
    add(2, {1e-4, 1e-4, 1e-4}, wrist, Quaterniond::Identity(), wrist_velocity, {0, 0, 0});
    const Vector3d zero(0, 0, 0), x(1, 0, 0), up(0, 0.08, 0), end(0.15, 0, 0);
    const JointFrame at_wrist{wrist, Matrix3d::Identity()}, on_slider{zero, Matrix3d::Identity()};
    system.add(joints::hinge("bearing", ground, bearing, x, ids[0], zero, x));
    system.add(joints::ball("pin", ids[0], up, ids[1], -end));
    system.add(joints::ball("wrist", ids[1], end, ids[2], zero));
    system.add(joints::slider("rail", ground, at_wrist, ids[2], on_slider));
    const auto local = [](const Vector3d& p) { return bullet::to_bullet(p); };
    btRigidBody &crank = *w.bodies[0], &rod = *w.bodies[1], &slider = *w.bodies[2];
    w.joint<btHingeConstraint>(crank, local(zero), local(x));
    w.joint<btPoint2PointConstraint>(crank, rod, local(up), local(-end));
    w.joint<btPoint2PointConstraint>(rod, slider, local(end), local(zero));
    auto& rail = w.joint<btSliderConstraint>(slider, btTransform::getIdentity(), true);
    rail.setLowerLinLimit(1), rail.setUpperLinLimit(-1);  // free
    start = system.initial_state();
  }
  void add(double m, const Vector3d& I, const Vector3d& p, const Quaterniond& q, const Vector3d& v, const Vector3d& u) {
    const btQuaternion turn(btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w()));
    btRigidBody& body = w.box(m, btVector3(1, 1, 1), bullet::to_bullet(p), turn);
    body.getBroadphaseHandle()->m_collisionFilterMask = 0;
    body.setMassProps(btScalar(m), bullet::to_bullet(I));
    body.updateInertiaTensor();
    body.setLinearVelocity(bullet::to_bullet(v));
    body.setAngularVelocity(bullet::to_bullet(u));
    ids.push_back(system.add_body("body" + std::to_string(ids.size()), m, I, {p, q}, v, u));
  }
  /// The angle of the crank after some time, by steps of 1 ms of the stepper.
  double by_stepper(double time, const StepOptions& options) {
    Stepper stepper(system, start, options);
    for (int i = 0; i < std::lround(1000 * time); ++i) EXPECT_FALSE(stepper.step(1e-3).rejected);
    const Matrix3d R = stepper.state()[ids[0]].R();
    return std::atan2(R(2, 1), R(1, 1));
  }
  double by_bullet(double time, const bullet::Options& options = {}) {
    bullet::Solver exact(w.world, options);
    w.step(int(std::lround(1000 * time)), 1e-3);
    EXPECT_EQ(exact.counts().fallbacks, 0);
    const btMatrix3x3& R = w.bodies[0]->getWorldTransform().getBasis();
    return std::atan2(double(R[2][1]), double(R[1][1]));
  }
};

// Where bodies turn, a step in Bullet is as exact as the semi-implicit step without a host. By Bullet's own rule for
// the gyroscopic torque the crank is off by five times as much.
TEST(Turning, ASpatialSliderCrankIsAsExactAsWithoutAHost) {
  const double time = 5;
  const double right = SliderCrank().by_stepper(
      time, {.method = Method::adaptive8, .relative_tolerance = 1e-11, .absolute_tolerance = 1e-12});
  const double without = std::abs(std::remainder(SliderCrank().by_stepper(time, {}) - right, 2 * pi)),
               in_bullet = std::abs(std::remainder(SliderCrank().by_bullet(time) - right, 2 * pi));
  EXPECT_LT(without, 4e-3);
  EXPECT_LT(in_bullet, precision(4e-3, 2e-2));
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
