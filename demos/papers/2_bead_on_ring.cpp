// A bead on a vertical ring with Coulomb friction (T-BEAD): the example of Kalaba & Udwadia (2001), section 4.
//
//     x₁, x₂ (x₂ up)   x₁² + x₂² = 1   friction of size μ |Q^N| against the velocity
//
// Q^N = m x (g x₂ − |v|²) / |x|². The misprint in their (38), x₂ for ẋ₂ under the root,
// would make the acceleration below (−10.28795, −2.71596). With φ the angle from the bottom, u = φ̇² and φ̇ > 0 the
// motion has the closed form
//
//     u(φ) = (u₀ − p(φ₀)) e^{−2μ(φ−φ₀)} + p(φ),   p = g [2(1 − 2μ²) cos φ − 6μ sin φ] / (1 + 4μ²)
//
// From rest at the height of the centre, μ = 0.2: 3.1854 m/s at the bottom after 0.6541 s; it stops at φ = 0.7777.
// The law is the explicit one of the paper, NormalForce::frictionless. Friction does not change the normal force on a
// particle, so the default law, on the coupled normal force, gives the same. Theory: T5 (third term), T9.

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

namespace {

constexpr double g = 9.81;

linchpin::System ring(double mass, double mu, const Vector3d& p, const Vector3d& v) {
  linchpin::System system;
  system.set_gravity({0, -g, 0});
  const auto bead = system.add_particle("bead", mass, p, v);
  const auto wire = system.add(linchpin::holonomic("wire", {bead}, [](const auto& s) {
    const auto& x = s[0].position();
    return linchpin::rows(x.x * x.x + x.y * x.y - 1.0, x.z);
  }));
  add_law(system, wire, linchpin::laws::coulomb(mu).with_normal_force(linchpin::NormalForce::frictionless));
  return system;
}

void problem(double mass, const Vector3d& ideal) {
  const auto system = ring(mass, 0.3, {0.6, -0.8, 0}, {1.6, 1.2, 0});
  linchpin::Dynamics dynamics(system);
  dynamics.evaluate(system.initial_state());
  std::printf("one instant, mass %g kg, mu = 0.3\n", mass);
  expect("ideal force [N]", vector(dynamics.ideal()), ideal);
  expect("friction [N]", vector(dynamics.nonideal()), mass * Vector3d(-2.84352, -2.13264, 0));
  expect("acceleration [m/s²]", vector(dynamics.vdot()), Vector3d(-9.95232, -2.46424, 0));
}

}  // namespace

int main() {
  problem(1, {-7.1088, 9.4784, 0});
  problem(3, {-21.3264, 28.4352, 0});  // M is not I: the printed (9) gives a ninth of this

  std::printf("from rest at the height of the centre, mu = 0.2\n");
  auto system = ring(1, 0.2, {-1, 0, 0}, {0, 0, 0});
  linchpin::Stepper stepper(system, system.initial_state(), {.method = linchpin::Method::rk4});
  const linchpin::BodyId bead = system.find_body("bead");
  const auto run_until = [&](double t, int steps) {
    const double dt = (t - stepper.t()) / steps;
    for (int i = 0; i < steps; ++i) stepper.step(dt);
  };
  run_until(0.6540672604, 2000);
  expect("speed at the bottom [m/s]", stepper.state()[bead].v.norm(), 3.1853893542, 1e-7);
  expect("normal force at the bottom [N]", stepper.reactions()[0].ideal.on_a.force.norm(), 19.9567053377, 1e-7);
  run_until(1.1011737002, 2000);
  const Vector3d p = stepper.state()[bead].p;
  expect("angle where it first stops [rad]", std::atan2(p.x(), -p.y()), 0.7777241756, 1e-7);
  expect("distance from the ring [m]", p.norm() - 1, 0, 1e-13);
  return known_answers_missed;
}
