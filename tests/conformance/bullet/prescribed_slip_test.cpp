// Dry friction against a slip that another constraint prescribes, in a host: a drawn block, a motor, a rope on a drum.
#include "world.h"

#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <gtest/gtest.h>

namespace linchpin::test::prescribed_slip_test {
namespace {

const Reaction& named(bullet::Solver& exact, const char* name) {
  for (const Reaction& r : exact.reactions())
    if (r.name == name) return r;
  ADD_FAILURE() << "no reaction named " << name;
  return exact.reactions()[0];
}

// y'' = (F − μ m g y'/√(v² + y'²))/m, integrated by itself; the host's steps are of first order.
TEST(PrescribedSlip, ADrawnBlockGivesWayToASmallSideForce) {
  for (const NormalForce normal_force : {NormalForce::frictionless, NormalForce::coupled}) {
    double error[2];
    for (const int k : {0, 1}) {
      TestWorld w(0);
      btRigidBody& block = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
      block.setLinearVelocity(btVector3(1, 0, 0));
      block.setGravity(btVector3(0, 0, -10));
      bullet::Solver exact(w.world);
      const BodyId id = exact.id(block);
      bullet::Handle floor = exact.add(joints::planar("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), id,
                                                      Vector3d::Zero(), Vector3d::UnitZ()));
      floor.law(laws::coulomb(0.3).with_normal_force(normal_force));
      exact.add(holonomic("drawn", {id}, [](const auto& s) {
                  return s[0].position().x - s.t;
                }).set_application_points({Vector3d::Zero()}));
      const int steps = 240 << k;
      for (int i = 0; i < steps; ++i) {
        block.applyCentralForce(btVector3(0, btScalar(1.2), 0));
        w.step(1, 1.0 / steps);
      }
      const double dt = 1.0 / steps;
      error[k] = std::abs(double(block.getLinearVelocity().y()) - 0.192533005958);
      EXPECT_LE(error[k], 0.1 * dt + precision(1e-9, 1e-5));
      EXPECT_NEAR(named(exact, "drawn").on_a.force.x(), 5.89179235856, 0.1 * dt + precision(1e-9, 1e-4));
      EXPECT_NEAR(named(exact, "floor").prescribed.on_b.force.norm(), 6, precision(1e-9, 1e-4));
      EXPECT_LE(worst_books(exact), precision(1e-12, 1e-6));
    }
    EXPECT_LE(error[1], 0.55 * error[0] + precision(0, 1e-5));
  }
}

TEST(PrescribedSlip, AMotorBearsTheFrictionOfItsPin) {
  for (const NormalForce normal_force : {NormalForce::frictionless, NormalForce::coupled}) {
    TestWorld w(10);
    btRigidBody& wheel = w.ball(3, 0.2, btVector3(0, 0, 0));
    wheel.setAngularVelocity(btVector3(0, 0, 2));
    bullet::Solver exact(w.world);
    const BodyId id = exact.id(wheel);
    bullet::Handle pin = exact.add(
        joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitZ(), id, Vector3d::Zero(), Vector3d::UnitZ()));
    pin.law(laws::hinge_friction({.mu_static = 0.2, .mu_kinetic = 0.2, .pin_radius = 0.05})
                .with_normal_force(normal_force));
    exact.add(joints::prescribed_angle("motor", ground, Vector3d::UnitZ(), Vector3d::UnitX(), id, Vector3d::UnitX(),
                                       [](auto t) { return 2.0 * t; }));
    w.step(48, 1.0 / 960);
    EXPECT_NEAR(named(exact, "motor").on_b.moment.z(), 0.3, precision(1e-9, 1e-4));
    EXPECT_NEAR(named(exact, "motor").work, 0.3 * 2 * 0.05, precision(1e-9, 1e-5));
    EXPECT_NEAR(named(exact, "pin").work, -0.3 * 2 * 0.05, precision(1e-9, 1e-5));
    EXPECT_NEAR(double(wheel.getAngularVelocity().z()), 2, precision(1e-9, 1e-4));
  }
}

// A hand draws the bead beyond the last one round the drum; the other end is loaded. As slow as that, m v² is rounding.
TEST(PrescribedSlip, ARopeDrawnOverADrumHasTheTensionsOfACapstan) {
  constexpr int n = 10;
  const double mu = 0.3, delta = pi / n, load = 10, speed = precision(1e-4, 1e-2);
  const double t = mu * std::tan(delta / 2), ratio = std::pow((1 + t) / (1 - t), n);
  TestWorld w(0);
  const auto at = [](double angle) { return Vector3d(std::cos(angle), 0, std::sin(angle)); };
  const auto along = [](double angle) { return Vector3d(-std::sin(angle), 0, std::cos(angle)); };
  const auto scalar = [](const Vector3d& x) { return btVector3(btScalar(x.x()), btScalar(x.y()), btScalar(x.z())); };
  std::vector<btRigidBody*> beads;
  for (int k = 0; k < n; ++k) {
    const double angle = (k + 0.5) * delta;
    beads.push_back(&w.ball(0.05, 0.02, scalar(at(angle))));
    beads.back()->setLinearVelocity(scalar(speed * along(angle)));
  }
  bullet::Solver exact(w.world);
  const double chord = 2 * std::sin(delta / 2), hand = (n + 0.5) * delta;
  for (std::size_t k = 0; k < beads.size(); ++k) {
    bullet::Handle drum = exact.add(holonomic("drum" + std::to_string(k), {exact.id(*beads[k])}, [](const auto& s) {
                                      const auto& x = s[0].position();
                                      return rows(0.5 * (x.x * x.x + x.z * x.z - 1.0), x.y);
                                    }).set_application_points({Vector3d::Zero()}));
    drum.law(laws::coulomb(mu).with_normal_force(NormalForce::coupled));
    if (k > 0)
      exact.add(joints::rod("rope" + std::to_string(k), exact.id(*beads[k - 1]), Vector3d::Zero(), exact.id(*beads[k]),
                            Vector3d::Zero(), chord));
  }
  exact.add(holonomic("hand", {exact.id(*beads.back())}, [=](const auto& s) {
              const auto angle = hand + speed * s.t;
              const auto dx = s[0].position().x - cos(angle), dz = s[0].position().z - sin(angle);
              return (dx * dx + dz * dz - chord * chord) / (2 * chord);
            }).set_application_points({Vector3d::Zero()}));
  for (int i = 0; i < 5; ++i) {
    const btVector3 x = beads.front()->getCenterOfMassPosition();
    const double angle = std::atan2(double(x.z()), double(x.x())) - delta / 2;  // the tangent half a chord before it
    beads.front()->applyCentralForce(scalar(-load * along(angle)));
    w.step();
    const double drawn = named(exact, "hand").on_a.force.norm() / load;
    ASSERT_NEAR(drawn, ratio, precision(1e-9, 1e-4)) << "step " << i;
  }
}

// A guide without a drive does not keep a contact from resting, also where the host rounds its poses and velocities.
TEST(PrescribedSlip, AGuideThatOnlyHoldsLeavesABlockAtRest) {
  TestWorld w(0);
  btRigidBody& block = w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(0.3), 0, 0));
  block.setGravity(btVector3(0, 0, -10));
  bullet::Solver exact(w.world);
  const BodyId id = exact.id(block);
  bullet::Handle floor = exact.add(
      joints::planar("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), id, Vector3d::Zero(), Vector3d::UnitZ()));
  floor.law(laws::coulomb(0.3).with_normal_force(NormalForce::coupled));
  exact.add(holonomic("guide", {id}, [](const auto& s) {
              return s[0].position().x - 0.3;
            }).set_application_points({Vector3d::Zero()}));
  for (int i = 0; i < 120; ++i) {
    block.applyCentralForce(btVector3(btScalar(0.7), btScalar(5.9), 0));
    w.step();
    ASSERT_NEAR(named(exact, "floor").prescribed.on_b.force.y(), -5.9, precision(1e-9, 1e-4)) << "step " << i;
  }
  EXPECT_LE(std::abs(double(block.getLinearVelocity().y())), precision(1e-12, 1e-6));
  EXPECT_LE(std::abs(double(block.getCenterOfMassPosition().y())), precision(1e-12, 1e-6));
}

}  // namespace
}  // namespace linchpin::test::prescribed_slip_test
