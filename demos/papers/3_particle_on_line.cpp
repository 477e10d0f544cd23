// A particle on a line with a nonideal force other than friction (T-LINE): the example of Udwadia, Kalaba & Fan (2005),
// section 4.
//
//     k x₁ − x₂ = 0   gravity along −x₂   nonideal force c = (1, 2), unit mass
//
// Answer: F^L = −g/(k² + 1) (k, −1), F^C = (1 + 2k)/(k² + 1) (1, k). Not c acts but its part along the line; what is
// normal to it is taken by the line and does not change F^L. At k = −½ nothing of c is left. The law
// is the given force c of the paper and reads no normal force. Theory: T5.

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/stepper.h>

#include "known.h"

using linchpin::Vector3d;

int main() {
  constexpr double g = 9.81;
  for (const double k : {3.0, -0.5, 0.75}) {
    linchpin::System system;
    system.set_gravity({0, -g, 0});
    const auto particle = system.add_particle("particle", 1, {1, k, 0});
    const auto line = system.add(linchpin::holonomic("line", {particle}, [k](const auto& s) {
      return linchpin::rows(k * s[0].position().x - s[0].position().y, s[0].position().z);
    }));
    add_law(system, line, [](const linchpin::ConstraintReaction&) { return Vector3d(1, 2, 0); });
    linchpin::Dynamics dynamics(system);
    dynamics.evaluate(system.initial_state());

    std::printf("k = %g\n", k);
    const double norm = k * k + 1;
    expect("ideal force F^L [N]", vector(dynamics.ideal()), -g / norm * Vector3d(k, -1, 0));
    expect("nonideal force F^C [N]", vector(dynamics.nonideal()), (1 + 2 * k) / norm * Vector3d(1, k, 0));
    expect("acceleration [m/s²]", vector(dynamics.vdot()), (1 + 2 * k - g * k) / norm * Vector3d(1, k, 0));
    expect("work of both along (1, k) [J]",
           (vector(dynamics.ideal()) + vector(dynamics.nonideal())).dot(Vector3d(1, k, 0)), 1 + 2 * k);
  }
  return known_answers_missed;
}
