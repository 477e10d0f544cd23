// A base on two driven wheels whose friction is proportional to the load that they carry. With full torque the wheels
// slip, and the traction is mu times their load: a payload over the axle makes the base faster than one over the
// caster.
#include <linchpin/scene/simulation.h>

#include <cmath>
#include <cstdio>

using namespace linchpin::scene;

// The load of the wheels, from the moments about the axle's place on the ground, where the wheels slip.
static double known_load(const Model& model, double mu, double torque, double r, double b, double g) {
  double mass = 0, behind = 0, height = 0;  // Σ m, Σ m times the distance behind the axle, Σ m times the height
  for (const SceneBody& body : model.bodies) {
    mass += body.mass;
    behind -= body.mass * body.start.p.x();
    height += body.mass * body.start.p.z();
  }
  return (mass * g - (behind * g + torque) / b) / (1 + mu * (height / mass - r) / b);
}

static bool drive(double payload, double behind) {
  const std::string file = LINCHPIN_ROBOTS_DIR "/wheeled-base.toml";
  Simulation base(load(file, {}, {.params = {{"load", payload}, {"behind", behind}}, .logs = {}, .robots = {}}));
  for (const char* wheel : {"left wheel", "right wheel"}) base.joint(wheel).set_force(6);  // [N m]
  base.run(0.5);
  double load = 0;
  for (const linchpin::Reaction& r : base.reactions())
    if (r.name == "left tyre" || r.name == "right tyre") load += (r.ideal.on_a.force + r.induced.on_a.force).z();

  const double known = known_load(base.model(), 0.5, 2 * 6, 0.1, 0.3, 9.81);
  std::printf("payload %4.1f kg, %.1f m behind the axle: load of the wheels %.4f N, known %.4f; speed %.3f m/s\n",
              payload, behind, load, known, base.state()[linchpin::BodyId{1}].v.x());
  return std::abs(load - known) < 1e-3 * known;
}

int main() {
  const bool empty = drive(0, 0), over_the_axle = drive(10, 0), over_the_caster = drive(10, 0.3);
  return empty && over_the_axle && over_the_caster ? 0 : 1;
}
