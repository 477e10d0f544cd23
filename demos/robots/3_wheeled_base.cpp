// A base on two driven wheels whose friction is proportional to the load that they carry. With full torque the wheels
// slip, and the traction is mu times their load: a payload over the axle makes the base faster than one over the
// caster.
#include <linchpin/scene/simulation.h>

#include <cmath>
#include <cstdio>

using namespace linchpin::scene;

static bool drive(double payload, double ahead) {
  Simulation base(load(LINCHPIN_ROBOTS_DIR "/wheeled-base.toml", {},
                       {.params = {{"payload", payload}, {"ahead", ahead}}, .logs = {}, .robots = {}}));
  for (const char* wheel : {"left wheel", "right wheel"}) base.joint(wheel).set_force(8);  // [N m]
  base.run(0.5);
  double load = 0, mass = 0;
  for (const linchpin::Reaction& r : base.reactions())
    if (r.name == "left tyre" || r.name == "right tyre") load += (r.ideal.on_a.force + r.induced.on_a.force).z();
  for (const SceneBody& body : base.model().bodies) mass += body.mass;
  const double speed = base.state()[linchpin::BodyId{1}].v.x(), acceleration = 0.5 * load / mass;
  std::printf("payload %4.1f kg, %+.1f m from the axle: load of the wheels %.3f N, speed %.6f m/s, known %.6f\n",
              payload, ahead, load, speed, 0.5 * acceleration);
  return std::abs(speed - 0.5 * acceleration) < 1e-6 * speed;
}

int main() {
  const bool empty = drive(0, 0), over_the_axle = drive(10, 0), over_the_caster = drive(10, 0.3);
  return empty && over_the_axle && over_the_caster ? 0 : 1;
}
