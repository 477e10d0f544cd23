// Friction in Bullet against closed forms, at several steps about 240 Hz: errors fall at first order or better, as
// slopes of a fit to their logarithms, in both precisions.
#include "world.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <functional>

namespace linchpin::test::friction_order_test {
namespace {

const double g = double(btScalar(9.81));

/// Order p of errors ~ dtᵖ at rates [1/s]: the slope of a straight line through their logarithms.
double order(const std::vector<int>& rates, const std::function<double(int)>& error) {
  double x = 0, y = 0, xx = 0, xy = 0;
  std::string shown;
  for (const int rate : rates) {
    const double e = error(rate), a = -std::log(double(rate)), b = std::log(e);
    x += a, y += b, xx += a * a, xy += a * b;
    shown += " " + std::to_string(rate) + " Hz: " + std::to_string(e * 1e3) + "e-3,";
  }
  const double n = double(rates.size()), p = (n * xy - x * y) / (n * xx - x * x);
  std::printf("  order %.3f;%s\n", p, shown.c_str());
  return p;
}
const std::vector<int> about_240{60, 120, 240, 480, 960};

void without_turning(btRigidBody& body, double mass) {
  body.setMassProps(btScalar(mass), btVector3(0, 0, 0));
  body.updateInertiaTensor();
}

// A block of 2 kg on a rough wedge of 5 kg, 35°, that gives way with A (T-WEDGE): it has gone ½ A t².
TEST(FrictionOrder, Wedge) {
  struct Row {
    double mu, A;
    NormalForce normal_force;
  };
  for (const Row& row :
       {Row{0.2, 1.203892381865133, NormalForce::coupled}, Row{0.4, 0.7482432112537729, NormalForce::coupled},
        Row{0.2, 1.2180220008882532, NormalForce::frictionless},
        Row{0.4, 0.8067726287023402, NormalForce::frictionless}}) {
    const auto error = [&](int rate) {
      TestWorld w;
      const double alpha = 35 * pi / 180;
      const Vector3d down(std::cos(alpha), -std::sin(alpha), 0), normal(std::sin(alpha), std::cos(alpha), 0);
      btRigidBody& wedge = w.box(5, btVector3(1, btScalar(0.1), 1), btVector3(0, 0, 0));
      btRigidBody& block =
          w.box(2, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), bullet::to_bullet(0.3 * normal));
      without_turning(wedge, 5);
      without_turning(block, 2);
      block.setLinearVelocity(bullet::to_bullet(0.2 * down));
      bullet::Solver exact(w.world);
      auto slope = exact.constrain("slope", {block, wedge}, [normal](const auto& s) {
        const auto d = s[0].position() - s[1].position();
        return d.x * normal.x() + d.y * normal.y() - 0.3;
      });
      slope.law(laws::coulomb(row.mu).with_normal_force(row.normal_force));
      slope.collisions_between_bodies(false);
      exact.constrain("floor", {wedge}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); });
      w.step(rate / 2, 1.0 / rate);
      return std::abs(double(wedge.getCenterOfMassPosition().x()) + 0.125 * row.A);
    };
    EXPECT_GE(order(about_240, error), 0.95) << row.mu;
  }
}

// Slides until it rolls, T-BOWL: the way after 2.4 s. Seen from one that rolls with the ball, so that single precision
// has digits left: the lane runs back at 6 m/s.
TEST(FrictionOrder, BowlingBall) {
  const double radius = double(btScalar(0.108)), v0 = 8, mu = 0.12, seen = 6, duration = 2.4;
  const double rolls = 2 * v0 / (7 * mu * g), v = 5 * v0 / 7;
  const double way = v0 * rolls - 0.5 * mu * g * rolls * rolls + v * (duration - rolls) - seen * duration;
  const auto error = [&](int rate) {
    TestWorld w;
    btRigidBody& ball = w.ball(6, radius, btVector3(0, btScalar(radius), 0));
    ball.setLinearVelocity(btVector3(btScalar(v0 - seen), 0, 0));
    bullet::Solver exact(w.world);
    const BodyId id = exact.id(ball);
    exact
        .add(holonomic("lane", {id}, [radius](const auto& s) { return s[0].position().y - radius; })
                 .set_application_point(
                     [id, radius](const State& s) { return Vector3d(s[id].p - Vector3d(0, radius, 0)); }))
        .law(laws::coulomb(mu).on_belt({-seen, 0, 0}));
    w.step(static_cast<int>(std::lround(duration * rate)), 1.0 / rate);
    EXPECT_NEAR(double(ball.getLinearVelocity().x()), v - seen, precision(1e-9, 1e-4));
    return std::abs(double(ball.getCenterOfMassPosition().x()) - way);
  };
  EXPECT_GE(order(about_240, error), 0.95);
}

// A block on a belt, held by a spring, through three periods of sticking and slipping. It lets go at the end of the
// step in which it should, late by more or less of a step, and the next times by what is left of a period: what falls
// evenly is the root of the mean square over beginnings and speeds of the belt that are spread.
TEST(SlowFrictionOrder, StickSlip) {
  const double k = 50, mu_s = 0.5, mu_k = 0.3, omega = std::sqrt(k), off = (mu_s - mu_k) * g / k;
  const double begins = mu_s * g / k;  // a slide, here
  const auto error = [&](int rate) {
    constexpr int runs = 24;
    double sum = 0;
    for (int j = 0; j < runs; ++j) {
      const double V = 0.2 + 0.1 * std::fmod(0.618034 * j, 1.0);
      const double slides = 2 * (pi - std::atan(off * omega / V)) / omega, period = 2 * off / V + slides;
      const double x0 = double(btScalar(begins - 0.02 - V / rate * (j + 0.5) / runs));
      TestWorld w;
      btRigidBody& block =
          w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(x0), 0, 0));
      block.setLinearVelocity(btVector3(btScalar(V), 0, 0));
      bullet::Solver exact(w.world);
      exact.add(joints::slider("belt", ground, JointFrame{}, exact.id(block), JointFrame{}))
          .law(laws::coulomb(mu_s, mu_k).on_belt({V, 0, 0}));
      double worst = 0;
      for (int i = 1; i <= static_cast<int>(3 * period * rate); ++i) {
        block.applyCentralForce(btVector3(btScalar(-k) * block.getCenterOfMassPosition().x(), 0, 0));
        w.step(1, 1.0 / rate);
        const double since = double(i) / rate - (begins - x0) / V, tau = std::fmod(since, period);
        const double x = since < 0 ? x0 + V * i / rate
                         : tau > slides
                             ? begins - V * (period - tau)
                             : begins - off + off * std::cos(omega * tau) + V / omega * std::sin(omega * tau);
        worst = std::max(worst, std::abs(double(block.getCenterOfMassPosition().x()) - x));
      }
      sum += worst * worst;
    }
    return std::sqrt(sum / runs);
  };
  EXPECT_GE(order(about_240, error), 0.95);
}

// A wheel on a rough pin: it turns by ω₀²/(2 α) and stays, α = μ r m g/I.
TEST(FrictionOrder, HingeWithPinFriction) {
  const auto error = [](int rate) {
    TestWorld w;
    btRigidBody& wheel = w.box(3, btVector3(btScalar(0.3), btScalar(0.3), btScalar(0.05)), btVector3(0, 0, 0));
    wheel.setAngularVelocity(btVector3(0, 0, 5));
    btHingeConstraint& pin = w.joint<btHingeConstraint>(wheel, btVector3(0, 0, 0), btVector3(0, 0, 1));
    bullet::Solver exact(w.world);
    exact.name_joint(pin, "pin").law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.02}));
    const double slowing = 0.3 * 0.02 * 3 * g * double(wheel.getInvInertiaDiagLocal().z());
    double turned = 0;
    for (int i = 0; i < static_cast<int>((5 / slowing + 0.5) * rate); ++i) {
      w.step(1, 1.0 / rate);
      turned += double(wheel.getAngularVelocity().z()) / rate;
    }
    EXPECT_LE(std::abs(double(wheel.getAngularVelocity().z())), precision(1e-14, 1e-6));
    return std::abs(turned - 12.5 / slowing);
  };
  EXPECT_GE(order(about_240, error), 0.95);
}

}  // namespace
}  // namespace linchpin::test::friction_order_test
