// Two beads on rods falling off at 45° on both sides of an apex, joined by a rod (T-1.11), after example 1.11 of
// Greenwood's Advanced Dynamics.
//
//     masses m (left) and 2m (right), rod L dipping to the right by θ; m = 1.3 kg, L = 0.9 m
//
// Equilibrium at tan θ = 1/3 with rod tension √(5/2) m g, and since V'' = √(5/2) m g L > 0 there, oscillations with
// ω² = √(5/2) g / (1.2 L). From rest at θ = 0.6: θ̈ = −4.578 rad/s², tension 20.359 N. Theory: T5.

#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

namespace {

constexpr double m = 1.3, L = 0.9, g = 9.81;
const double pi = std::acos(-1.0);

struct Answer {
  double theta_dd, tension;
  Eigen::VectorXd acceleration;
};

Answer at_rest(double theta) {
  const double left = L * std::cos(pi / 4 + theta), right = L * std::cos(pi / 4 - theta);  // distances down the rods
  const Vector3d down_left = Vector3d(-1, -1, 0) / std::sqrt(2.0), down_right = Vector3d(1, -1, 0) / std::sqrt(2.0);
  linchpin::System system;
  system.set_gravity({0, -g, 0});
  const auto a = system.add_particle("a", m, left * down_left), b = system.add_particle("b", 2 * m, right * down_right);
  system.add(linchpin::joints::point_on_line("left", linchpin::ground, {0, 0, 0}, down_left, a, {0, 0, 0}));
  system.add(linchpin::joints::point_on_line("right", linchpin::ground, {0, 0, 0}, down_right, b, {0, 0, 0}));
  const auto rod = system.add(linchpin::joints::rod("rod", a, {0, 0, 0}, b, {0, 0, 0}, L));
  const linchpin::State state = system.initial_state();
  linchpin::Dynamics dynamics(system);
  dynamics.evaluate(state);
  std::vector<linchpin::Reaction> reactions;
  dynamics.reactions(state, reactions);

  const Eigen::VectorXd acceleration = vector(dynamics.vdot());
  const Vector3d d = state[b].p - state[a].p, across = Vector3d(d.y(), -d.x(), 0) / L;
  return {(acceleration.tail<3>() - acceleration.head<3>()).dot(across) / L,
          reactions[static_cast<std::size_t>(rod.index)].on_a.force.dot(d) / L, acceleration};
}

}  // namespace

int main() {
  const double equilibrium = std::atan(1.0 / 3);
  std::printf("at tan theta = 1/3\n");
  expect("angular acceleration [rad/s²]", at_rest(equilibrium).theta_dd, 0);
  expect("tension / (m g)", at_rest(equilibrium).tension / (m * g), std::sqrt(2.5));
  std::printf("close to it\n");
  constexpr double offset = 1e-6;
  expect("square of the frequency times L/g", -at_rest(equilibrium + offset).theta_dd / offset * L / g, 1.31762, 1e-5);
  std::printf("from rest at theta = 0.6\n");
  const Answer answer = at_rest(0.6);
  expect("angular acceleration [rad/s²]", answer.theta_dd, -4.5782541697);
  expect("tension [N]", answer.tension, 20.3591954287);
  Eigen::VectorXd known(6);
  known << -2.8636528404, -2.8636528404, 0, -0.5370837580, 0.5370837580, 0;
  expect("acceleration [m/s²]", answer.acceleration, known);
  return known_answers_missed;
}
