// Constraints that contain time: a rod of length l(t), a sphere of radius R(t) and a knife edge of prescribed direction
// (T-ROD, T-PKNIFE), the rheonomic constraints that Greenwood's Advanced Dynamics names.
//
//     l = R = 0.8 + 0.3 t;  masses 1 and 2.5 kg on the rod, 1 kg on the sphere, both turning at 4 rad/s at t = 0
//     edge turning at Ω = 1.7 rad/s, 0.9 kg at 2.2 m/s
//
// No force acts, so angular momentum is kept: θ = (ω₀ l₀²/c)(1/l₀ − 1/l), tension μ_r l θ̇². The edge leads its particle
// around a circle of radius V/Ω with the force m V Ω. Nothing but the residual is written down; the terms with ∂/∂t
// follow from it. Theory: T3.

#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

namespace {

void run(linchpin::Stepper& stepper, double t) {
  const double dt = (t - stepper.t()) / 1000;
  for (int i = 0; i < 1000; ++i) stepper.step(dt);
}

/// Angle of d in the plane, between 0 and 2π.
double angle(const Vector3d& d) {
  const double a = std::atan2(d.y(), d.x());
  return a < 0 ? a + 2 * std::acos(-1.0) : a;
}

const auto length = [](const auto& t) { return 0.8 + 0.3 * t; };
constexpr double w0 = 4, l0 = 0.8, ldot = 0.3;

void rod() {
  std::printf("rod of length l(t)\n");
  linchpin::System system;
  const auto a = system.add_particle("a", 1.0, {0, 0, 0});
  const auto b = system.add_particle("b", 2.5, {l0, 0, 0}, {ldot, w0 * l0, 0});
  system.add(linchpin::joints::rod("rod", a, {0, 0, 0}, b, {0, 0, 0}, length));
  linchpin::Stepper stepper(system, system.initial_state(), {.method = linchpin::Method::rk4});
  const auto d = [&] { return Vector3d(stepper.state()[b].p - stepper.state()[a].p); };
  const auto tension = [&] { return stepper.reactions()[0].on_a.force.dot(d().normalized()); };
  expect("tension at t = 0 [N]", tension(), 9.1428571429);
  run(stepper, 2);
  expect("angle at t = 2 s [rad]", angle(d()), 4.5714285714);
  expect("tension at t = 2 s [N]", tension(), 1.7059558517);
  run(stepper, 4);
  expect("angle at t = 4 s [rad]", angle(d()), 6.4 - 2 * std::acos(-1.0));
}

void sphere() {
  std::printf("sphere of radius R(t)\n");
  linchpin::System system;
  const auto p = system.add_particle("p", 1.0, {l0, 0, 0}, {ldot, w0 * l0, 0});
  system.add(linchpin::holonomic("sphere", {p}, [](const auto& s) { return norm(s[0].position()) - length(s.t); }));
  linchpin::Stepper stepper(system, system.initial_state(), {.method = linchpin::Method::rk4});
  run(stepper, 2);
  expect("longitude at t = 2 s [rad]", angle(stepper.state()[p].p), 4.5714285714);
  expect("force outwards at t = 2 s [N]", stepper.reactions()[0].on_a.force.dot(stepper.state()[p].p.normalized()),
         -2.3883381924);
}

void edge() {
  std::printf("knife edge of prescribed direction\n");
  constexpr double Omega = 1.7, V = 2.2, m = 0.9;
  linchpin::System system;
  const auto p = system.add_particle("p", m, {0, 0, 0}, {V, 0, 0});
  system.add(linchpin::nonholonomic("edge", {p}, [](const auto& s) {
    return s[0].velocity().x * sin(Omega * s.t) - s[0].velocity().y * cos(Omega * s.t);
  }));
  linchpin::Stepper stepper(system, system.initial_state(), {.method = linchpin::Method::rk4});
  expect("sideways force [N]", stepper.reactions()[0].on_a.force.norm(), m * V * Omega);
  run(stepper, std::acos(-1.0) / Omega);  // half a turn: one diameter away
  expect("diameter of its circle [m]", stepper.state()[p].p.norm(), 2 * V / Omega);
  expect("speed [m/s]", stepper.state()[p].v.norm(), V);
}

}  // namespace

int main() {
  rod();
  sphere();
  edge();
  return known_answers_missed;
}
