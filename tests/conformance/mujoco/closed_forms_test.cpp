// Motions with a closed form, of free bodies and hinges of MuJoCo with constraints and laws of the program. The step is
// of first order: half of it halves the error.
#include "model.h"

#include "motion.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace linchpin::test::closed_forms_test {
namespace {

constexpr double g = 9.81;

std::string numbers(const Vector3d& x) {
  return std::to_string(x.x()) + " " + std::to_string(x.y()) + " " + std::to_string(x.z());
}

/// One free body "b" with its inertial frame at its origin.
Model free_body(double dt, const Vector3d& gravity, double mass, const Vector3d& inertia) {
  Model m("<mujoco><option timestep='" + std::to_string(dt) +
          "'/><worldbody><body name='b'><freejoint/><inertial pos='0 0 0' mass='" + std::to_string(mass) +
          "' diaginertia='" + numbers(inertia) + "'/></body></worldbody></mujoco>");
  m.m().opt.timestep = dt;
  for (int k = 0; k < 3; ++k) m.m().opt.gravity[k] = gravity[k];
  return m;
}
void place(const Model& m, const Vector3d& p, const Vector3d& v, const Quaterniond& q = Quaterniond::Identity(),
           const Vector3d& w = Vector3d::Zero()) {
  const Vector3d own = q.conjugate() * w;
  for (int k = 0; k < 3; ++k) m.d().qpos[k] = p[k], m.d().qvel[k] = v[k], m.d().qvel[3 + k] = own[k];
  m.d().qpos[3] = q.w(), m.d().qpos[4] = q.x(), m.d().qpos[5] = q.y(), m.d().qpos[6] = q.z();
}
Vector3d position(const Model& m) { return {m.d().qpos[0], m.d().qpos[1], m.d().qpos[2]}; }
void take(mujoco::Solver& exact, const Model& m, double seconds) {
  const int steps = static_cast<int>(std::round(seconds / m.m().opt.timestep));
  for (int i = 0; i < steps; ++i) exact.step();
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_EQ(exact.counts().law_failures, 0) << exact.summary();
}

void expect_order(const std::function<double(double dt)>& error, double dt, double largest, double ratio) {
  const double coarse = error(dt), middle = error(dt / 2), fine = error(dt / 4);
  EXPECT_LT(coarse, largest);
  EXPECT_NEAR(coarse / middle, ratio, 0.25) << coarse << ", " << middle << ", " << fine;
  EXPECT_NEAR(middle / fine, ratio, 0.15) << coarse << ", " << middle << ", " << fine;
}
void expect_first_order(const std::function<double(double dt)>& error, double dt, double largest) {
  expect_order(error, dt, largest, 2);
}

// r = r₀ cosh ωt along a straight wire that turns with ω; the wire pushes across itself with 2 m ω ṙ. The step is here
// the leapfrog from rest along the wire, of second order.
TEST(RotatingWire, ThrowsABeadOut) {
  constexpr double w = 2, r0 = 0.5, mass = 0.3, T = 1;
  double force_error[3] = {};
  int k = 0;
  expect_order(
      [&](double dt) {
        const Model m = free_body(dt, Vector3d::Zero(), mass, Vector3d(1, 1, 1));
        place(m, Vector3d(r0, 0, 0), Vector3d(0, w * r0, 0));
        mujoco::Solver exact(m.m(), m.d());
        mujoco::Handle wire = exact.constrain("wire", {"b"}, [w = w](const auto& s) {
          return rows(cos(w * s.t) * s[0].position().y - sin(w * s.t) * s[0].position().x, s[0].position().z);
        });
        take(exact, m, T);
        const Reaction& r = wire.reaction();
        force_error[k++] = std::abs(r.on_a.force.norm() - 2 * mass * w * w * r0 * std::sinh(w * r.t));
        EXPECT_NEAR(r.t, T - dt, scaled(1e-9));
        EXPECT_LT(std::abs(std::cos(w * T) * position(m).y() - std::sin(w * T) * position(m).x()), scaled(1e-12));
        return (position(m) - r0 * std::cosh(w * T) * Vector3d(std::cos(w * T), std::sin(w * T), 0)).norm();
      },
      2e-3, 2e-2, 4);
  EXPECT_NEAR(force_error[0] / force_error[1], 4, 0.25);
}

// The axis of a top in steady precession with Ω keeps its height: I₁ Ω² cos θ − I₃ s Ω + m g l = 0.
TEST(HeavyTop, PrecessesSteadily) {
  constexpr double mass = 2, l = 0.3, It = 0.01, I3 = 0.008, Omega = 3, theta = 0.6, T = 1;
  const double I1 = It + mass * l * l;
  const double s = (mass * g * l + I1 * Omega * Omega * std::cos(theta)) / (I3 * Omega);
  const Vector3d axis(std::sin(theta), 0, std::cos(theta));
  const Vector3d w = Omega * Vector3d::UnitZ() + (s - Omega * std::cos(theta)) * axis;
  expect_first_order(
      [&](double dt) {
        const Model m = free_body(dt, Vector3d(0, 0, -g), mass, Vector3d(It, It, I3));
        const Quaterniond q(Eigen::AngleAxisd(theta, Vector3d::UnitY()));
        place(m, l * axis, w.cross(l * axis), q, w);
        mujoco::Solver exact(m.m(), m.d());
        exact.add(joints::ball("pivot", ground, Vector3d::Zero(), exact.id("b"), Vector3d(0, 0, -l)));
        take(exact, m, T);
        EXPECT_NEAR(position(m).norm(), l, scaled(1e-12));
        const Vector3d there = Eigen::AngleAxisd(Omega * T, Vector3d::UnitZ()) * axis;
        return (position(m) - l * there).norm();
      },
      2.5e-4, 2e-2);
}

// A knife edge on an incline goes along a cycloid, and not downhill.
TEST(KnifeEdge, GoesAlongACycloid) {
  constexpr double alpha = 0.5, w = 1.2, mass = 2, T = 2;
  const double amplitude = g * std::sin(alpha) / (2 * w * w);
  expect_first_order(
      [&](double dt) {
        const Model m =
            free_body(dt, Vector3d(g * std::sin(alpha), 0, -g * std::cos(alpha)), mass, Vector3d(0.2, 0.25, 0.3));
        place(m, Vector3d::Zero(), Vector3d::Zero(), Quaterniond::Identity(), Vector3d(0, 0, w));
        mujoco::Solver exact(m.m(), m.d());
        exact.add(joints::planar("plane", ground, Vector3d::Zero(), Vector3d::UnitZ(), exact.id("b"), Vector3d::Zero(),
                                 Vector3d::UnitZ()));
        exact.constrain_velocity("knife", {"b"},
                                 [](const auto& s) { return dot(s[0].velocity(), s[0].axis(0, 1, 0)); });
        take(exact, m, T);
        return (position(m) - amplitude * Vector3d(std::pow(std::sin(w * T), 2), w * T - 0.5 * std::sin(2 * w * T), 0))
            .norm();
      },
      4e-3, 5e-2);
}

// Without weight, a bead on a rough circle has v = v₀/(1 + μ v₀ t/R), because the circle pushes with m v²/R.
TEST(RoughCircle, SlowsABeadDown) {
  constexpr double R = 0.7, mu = 0.3, v0 = 2, mass = 0.4, T = 1.5;
  expect_first_order(
      [&](double dt) {
        const Model m = free_body(dt, Vector3d::Zero(), mass, Vector3d(1, 1, 1));
        place(m, Vector3d(R, 0, 0), Vector3d(0, v0, 0));
        mujoco::Solver exact(m.m(), m.d());
        mujoco::Handle circle = exact.constrain("circle", {"b"}, [R = R](const auto& s) {
          const auto p = s[0].position();
          return rows((p.x * p.x + p.y * p.y - R * R) / (2 * R), p.z);
        });
        circle.set_application_points({Vector3d::Zero()}).law(laws::coulomb(mu));
        take(exact, m, T);
        EXPECT_EQ(circle.laws()[0].mode, LawWork::Mode::slides);
        const double angle = std::log(1 + mu * v0 * T / R) / mu, v = v0 / (1 + mu * v0 * T / R);
        const double work = 0.5 * mass * (v * v - v0 * v0);
        EXPECT_NEAR(circle.laws()[0].work, work, 10 * dt);
        return (position(m) - R * Vector3d(std::cos(angle), std::sin(angle), 0)).norm();
      },
      2e-3, 1e-2);
}

// ---- a hinge with friction from its load ----

constexpr double pin_mass = 3, pin_inertia = 0.06, pin_mu = 0.3, pin_radius = 0.02, pin_length = 0.25;
Law pin_friction() {
  return laws::hinge_friction({.mu_static = pin_mu, .mu_kinetic = pin_mu, .pin_radius = pin_radius});
}
Model pendulum(double dt, double below) {
  Model m("<mujoco><worldbody><body name='b'><joint name='pin' axis='0 1 0'/><inertial pos='0 0 " +
          std::to_string(-below) + "' mass='" + std::to_string(pin_mass) + "' diaginertia='" +
          numbers(pin_inertia * Vector3d::Ones()) + "'/></body></worldbody></mujoco>");
  m.m().opt.timestep = dt;
  return m;
}

/// Angle of the same pendulum after `T`, by the core's own steps.
double angle_in_core(double start, double T, int steps, StepOptions options) {
  System system;
  system.set_gravity({0, 0, -g});
  const Quaterniond q(Eigen::AngleAxisd(start, Vector3d::UnitY()));
  const BodyId body =
      system.add_body("b", pin_mass, pin_inertia * Vector3d::Ones(), Pose{q * Vector3d(0, 0, -pin_length), q});
  add_law(system,
          system.add(joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitY(), body, Vector3d(0, 0, pin_length),
                                   Vector3d::UnitY())),
          pin_friction());
  const State end = after(system, T, steps, options);
  return std::atan2(-end[body].p.x(), -end[body].p.z());
}

TEST(HingeFriction, DampsAPendulumAsInTheCore) {
  constexpr double start = 1.5, T = 2;
  const double reference = angle_in_core(start, T, 4000, rk4());
  const auto angle = [&](double dt) {
    const Model m = pendulum(dt, pin_length);
    m.d().qpos[0] = start;
    mujoco::Solver exact(m.m(), m.d());
    exact.joint("pin").law(pin_friction());
    take(exact, m, T);
    return m.d().qpos[0];
  };
  expect_first_order([&](double dt) { return std::abs(angle(dt) - reference); }, 2e-3, 2e-2);
  // The core's own step of first order in maximal coordinates has an error of the same size.
  EXPECT_NEAR(angle(1e-3), angle_in_core(start, T, 2000, semi_implicit()), 1e-2);
}

TEST(HingeFriction, StopsAWheelAndHoldsIt) {
  constexpr double w0 = 5;
  const double stops = w0 * pin_inertia / (pin_mu * pin_radius * pin_mass * g);
  const Model m = pendulum(1e-3, 0);
  m.d().qvel[0] = w0;
  mujoco::Solver exact(m.m(), m.d());
  mujoco::Handle pin = exact.joint("pin");
  pin.law(pin_friction());
  take(exact, m, 0.5 * stops);
  EXPECT_NEAR(m.d().qvel[0], 0.5 * w0, 0.01);
  EXPECT_NEAR(pin.reaction().prescribed.on_b.moment.y(), -pin_mu * pin_radius * pin_mass * g, scaled(1e-9));
  EXPECT_NEAR(pin.reaction().on_b.force.z(), pin_mass * g, scaled(1e-9));
  take(exact, m, stops);
  EXPECT_NEAR(m.d().qvel[0], 0, scaled(1e-11));
  ASSERT_EQ(pin.laws().size(), 1u);
  EXPECT_EQ(pin.laws()[0].mode, LawWork::Mode::sticks);
  EXPECT_NEAR(pin.laws()[0].work, -0.5 * pin_inertia * w0 * w0, 1e-3);
  const double there = m.d().qpos[0];
  take(exact, m, 1);
  EXPECT_NEAR(m.d().qpos[0], there, scaled(1e-11));
  // Without the law, step() is mj_step() again: the wheel is free.
  pin.clear_laws();
  m.d().qfrc_applied[0] = 0.06;
  take(exact, m, 1);
  EXPECT_NEAR(m.d().qvel[0], 1, 1e-2);
}

TEST(HingeFriction, OnABodyWithSeveralJointsIsRefusedByName) {
  const Model m(std::string(
      R"(<mujoco><worldbody><body name="b"><joint name="x" type="slide" axis="1 0 0"/><joint name="pin" axis="0 1 0"/>
    <geom size="0.1" mass="1"/></body></worldbody></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  try {
    exact.joint("pin").law(pin_friction());
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("the part of body 'b' between its joints 'x' and 'pin' has no mass"),
              std::string::npos)
        << e.what();
  }
  exact.step();
}

}  // namespace
}  // namespace linchpin::test::closed_forms_test
