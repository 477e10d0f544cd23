// Two particles on a massless rod, pushed across it (T-1.10), after example 1.10 of Greenwood's Advanced Dynamics.
//
//     m₁ = 1 kg, m₂ = 3 kg, rod L = 2 m at θ = 0.4 rad turning at 0.7 rad/s; F = 4 N across the rod, 0.5 m from m₁
//
// The force is given to the particles as the lever law says. Answer: θ̈ = F (l − l_c)/I_c = −4/3 rad/s², with l_c the
// distance of the centre of mass from m₁, and rod tension μ L θ̇² = 0.735 N with the reduced mass μ. Theory: T5.

#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

int main() {
  constexpr double m1 = 1, m2 = 3, L = 2, l = 0.5, F = 4, theta = 0.4, omega = 0.7;
  const Vector3d along(std::cos(theta), std::sin(theta), 0), across(-std::sin(theta), std::cos(theta), 0);
  linchpin::System system;
  const auto p1 = system.add_particle("m1", m1, {0, 0, 0});
  const auto p2 = system.add_particle("m2", m2, L * along, L * omega * across);
  system.add(linchpin::joints::rod("rod", p1, {0, 0, 0}, p2, {0, 0, 0}, L));
  system.add(linchpin::Force("F", {p1, p2}, [=](linchpin::ForceFrame& f) {
    f.add_force(0, F * (1 - l / L) * across);
    f.add_force(1, F * l / L * across);
  }));
  linchpin::Dynamics dynamics(system);
  dynamics.evaluate(system.initial_state());
  std::vector<linchpin::Reaction> reactions;
  dynamics.reactions(system.initial_state(), reactions);

  const Eigen::VectorXd a = vector(dynamics.vdot());
  const Vector3d relative = a.tail<3>() - a.head<3>();
  expect("angular acceleration of the rod [rad/s²]", relative.dot(across) / L, -4.0 / 3);
  expect("tension: force on m1 along the rod [N]", reactions[0].on_a.force.dot(along), 0.735);
  expect("force on m2 is its opposite [N]", reactions[0].on_b.force, -reactions[0].on_a.force);
  return known_answers_missed;
}
