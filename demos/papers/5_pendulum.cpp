// A pendulum, and what a multiplier means (T-PEND), from lecture notes on the constraint relaxation method.
//
//     x, y (y down)   m = 2 kg, l = 1.5 m, θ = 0.7 rad, θ̇ = 1.3 rad/s
//
// The tension is T = m (g cos θ + l θ̇²) = 20.076 N however the rod is written. The multiplier is not: λ = −T/l, the
// notes' answer, belongs to ½(x² + y² − l²) = 0; the row of x² + y² − l² = 0 is twice as long, and its λ half as large.
// Writing the same rod down three times (and once more times zero) changes neither the force nor the motion; the
// multipliers then share it as the least-norm λ does, in proportion to the length of the rows. Theory: T5, T6.

#include <linchpin/constraint.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

namespace {

constexpr double m = 2, l = 1.5, theta = 0.7, omega = 1.3, g = 9.81;
const double T = m * (g * std::cos(theta) + l * omega * omega);
const Vector3d along(std::sin(theta), std::cos(theta), 0), across(std::cos(theta), -std::sin(theta), 0);

/// The rod once per factor: factor · ½(x² + y² − l²) = 0.
linchpin::Acceleration pendulum(std::initializer_list<double> factors) {
  linchpin::System system;
  system.set_gravity({0, g, 0});  // y is down here
  const auto bob = system.add_particle("bob", m, l * along, l * omega * across);
  for (const double factor : factors) {
    const std::string name = "rod #" + std::to_string(system.constraint_count() + 1);
    system.add(linchpin::holonomic(name, {bob}, [factor](const auto& s) {
      const auto& p = s[0].position();
      return factor * 0.5 * (p.x * p.x + p.y * p.y - l * l);
    }));
  }
  const linchpin::Acceleration answer = solve(assemble(system, system.initial_state()));
  expect("force of the rod [N]", answer.ideal, -T * along);
  return answer;
}

}  // namespace

int main() {
  expect("tension [N]", T, 20.0762037145);
  std::printf("as x x' + y y' = 0\n");
  expect("multiplier [N/m]", pendulum({1}).lambda[0], -T / l);
  std::printf("as 2 x x' + 2 y y' = 0\n");
  expect("multiplier [N/m]", pendulum({2}).lambda[0], -T / (2 * l));
  std::printf("as 1, 1, 10 and 0 times x x' + y y' = 0\n");
  const linchpin::Acceleration answer = pendulum({1, 1, 10, 0});
  expect("multipliers [N/m]", answer.lambda, -T / l / 102 * Eigen::Vector4d(1, 1, 10, 0));
  expect("rank", answer.rank, 1);
  std::printf("  status %s, %zu of 4 constraints redundant\n", to_string(answer.status), answer.redundant.size());
  return known_answers_missed;
}
