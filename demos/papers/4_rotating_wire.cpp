// A bead on a parabolic wire that turns at a given rate (T-WIRE), from lecture notes on forces of constraint.
//
//     z = b r²   θ̇ = ω   m = 2 kg, b = 0.5 1/m, ω = 2 rad/s, from rest at r = 0.8 m
//
// The constraint contains time, so energy is not kept: the wire does work. What is kept is the Jacobi integral
// h = ½ m (ṙ²(1 + 4b²r²) − ω²r²) + m g b r², which is the energy minus ω times the angular momentum. The notes print
// the right side of the equation of motion as r(ω² + 2bmg); it is r(ω² − 2bg), and r(1 s) is −0.44664 m, not 4.2 m.
// They also leave out the third component of the wire's force, which is the torque 2 m ω r ṙ divided by r. Theory: T3,
// T5.

#include <linchpin/constraint.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

int main() {
  constexpr double m = 2, b = 0.5, omega = 2, g = 9.81, r0 = 0.8;
  linchpin::System system;
  system.set_gravity({0, 0, -g});
  const auto bead = system.add_particle("bead", m, {r0, 0, b * r0 * r0}, {0, omega * r0, 0});
  system.add(linchpin::holonomic("wire", {bead}, [](const auto& s) {
    const auto& p = s[0].position();
    return linchpin::rows(p.z - b * (p.x * p.x + p.y * p.y), p.x * sin(omega * s.t) - p.y * cos(omega * s.t));
  }));
  linchpin::Stepper stepper(system, system.initial_state(), {.method = linchpin::Method::rk4});
  const auto run_until = [&](double t) {
    const double dt = (t - stepper.t()) / 1000;
    for (int i = 0; i < 1000; ++i) stepper.step(dt);
    std::printf("t = %g s\n", t);
  };
  // r is signed: the bead passes through the axis to the other arm of the wire.
  const auto along_wire = [&] { return Vector3d(std::cos(omega * stepper.t()), std::sin(omega * stepper.t()), 0); };
  const auto across_wire = [&] { return Vector3d(-std::sin(omega * stepper.t()), std::cos(omega * stepper.t()), 0); };
  const auto r = [&] { return stepper.state()[bead].p.dot(along_wire()); };

  run_until(0.5);
  expect("r [m]", r(), 0.43465176268);
  run_until(1.0);
  expect("r [m]", r(), -0.44664019002);
  run_until(1.5);
  const Vector3d force = stepper.reactions()[0].on_a.force;
  expect("force of the wire along r [N]", force.dot(along_wire()), 12.0679146605);
  expect("force of the wire along z [N]", force.z(), 15.0866641614);
  expect("torque that keeps it turning [N·m]", r() * force.dot(across_wire()), -0.1476385620);
  run_until(4.0);
  const double h = energy_in_rotating_frame(system, stepper.state(), {0, 0, omega});
  expect("Jacobi integral h [J]", h, 3.7184);
  expect("energy minus the work of the wire [J]", stepper.energy_minus_work(),
         linchpin::energy(system, system.initial_state()));
  return known_answers_missed;
}
