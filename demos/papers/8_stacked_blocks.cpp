// Two equal blocks, A thrown onto B, B on the floor (T-BLOCKS), after the friction example at Fig. 1.18 of Greenwood's
// Advanced Dynamics (its statement is recovered from its solution).
//
//     μ = 0.5 between A and B, 0.1 between B and floor; A starts with v₀, B at rest
//
// While A slides: a_A = −0.5 g, a_B = 0.3 g, until t₁ = 1.25 v₀/g at the common speed 0.375 v₀. Then A sticks to B,
// which is not a law but one more constraint: no slip, held by 0.1 m g as long as that is below 0.5 m g. Both stop
// after 5 v₀/g, B at 0.9375 v₀²/g and A at 1.5625 v₀²/g. The law is Coulomb's on the coupled normal
// force, the default. Theory: T9 (normal force of each contact), T10 (stick).

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include "known.h"

int main() {
  constexpr double m = 2, g = 9.81, v0 = 3;
  linchpin::System system;
  system.set_gravity({0, -g, 0});
  // Accelerations are constant while A slides, so any instant of it will do: A at 0.8 v₀, B at 0.1 v₀.
  const auto A = system.add_particle("A", m, {0, 1, 0}, {0.8 * v0, 0, 0});
  const auto B = system.add_particle("B", m, {0, 0, 0}, {0.1 * v0, 0, 0});
  const auto on_B = system.add(
      linchpin::holonomic("A on B", {A, B}, [](const auto& s) { return s[0].position().y - s[1].position().y - 1.0; }));
  const auto on_floor =
      system.add(linchpin::holonomic("B on floor", {B}, [](const auto& s) { return s[0].position().y; }));
  add_law(system, on_B, linchpin::laws::coulomb(0.5));
  add_law(system, on_floor, linchpin::laws::coulomb(0.1));

  std::printf("A slides on B\n");
  linchpin::Dynamics dynamics(system);
  dynamics.evaluate(system.initial_state());
  const double a_A = dynamics.vdot()[0], a_B = dynamics.vdot()[3];
  expect("a_A / g", a_A / g, -0.5);
  expect("a_B / g", a_B / g, 0.3);
  const double t1 = v0 / (a_B - a_A), v1 = a_B * t1;
  expect("t1 g / v0", t1 * g / v0, 1.25);
  expect("v1 / v0", v1 / v0, 0.375);

  std::printf("A sticks to B\n");
  clear_laws(system, on_B);
  const auto stick = system.add(
      linchpin::nonholonomic("stick", {A, B}, [](const auto& s) { return s[0].velocity().x - s[1].velocity().x; }));
  linchpin::State state = system.initial_state();
  state[A].v.x() = state[B].v.x() = v1;
  linchpin::Dynamics together(system);
  together.evaluate(state);
  const double a = together.vdot()[0];
  std::vector<linchpin::Reaction> reactions;
  together.reactions(state, reactions);
  expect("common acceleration / g", a / g, -0.1);
  expect("force of B on A / (m g), below 0.5",
         reactions[static_cast<std::size_t>(stick.index)].on_a.force.x() / (m * g), -0.1);

  std::printf("both stop\n");
  const double t2 = -v1 / a, x_B = 0.5 * v1 * (t1 + t2);
  expect("total time times g / v0", (t1 + t2) * g / v0, 5);
  expect("x_B times g / v0²", x_B * g / (v0 * v0), 0.9375);
  expect("x_A times g / v0²", (x_B + 0.5 * v0 * t1) * g / (v0 * v0), 1.5625);
  return known_answers_missed;
}
