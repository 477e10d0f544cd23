// A nut on a square thread, mean radius r, lead angle λ, friction angle φ = atan μ, under an axial load W:
//
//     torque that lowers it  W r tan(φ − λ)     torque that raises it  W r tan(φ + λ)
//
// With φ ≥ λ it does not come down by itself: the screw is self-locking, and its efficiency tan λ/tan(λ+φ) is below one
// half. The thread is one point of the nut on a helicoid: the normal force is normal to the flank, and the slip runs
// along the helix. Friction presses the flanks together, which the *coupled* normal force of the law includes.
#include "bench.h"

namespace {

constexpr double m = 3, r = 0.02, W = m * g;

template <class Bench>
BodyId build(Bench& bench, double lambda, double mu, double torque, double turning = 0) {
  const double pitch = r * std::tan(lambda);  // per radian
  // Turning about z, its axis; the point on the thread is a radius away along its own x.
  const BodyId nut =
      bench.body("nut", m, Vector3d(2e-3, 2e-3, 2e-3), {.v = {0, 0, pitch * turning}, .w = {0, 0, turning}});
  bench.add(linchpin::joints::cylindrical("bore", linchpin::ground, Vector3d::Zero(), Vector3d::UnitZ(), nut,
                                          Vector3d::Zero(), Vector3d::UnitZ()));
  bench.add(linchpin::joints::point_on_surface(
                "thread", linchpin::ground,
                [pitch](const auto& p) {  // up for a nut that lies on the flank
                  return (p.x * sin(p.z / pitch) - p.y * cos(p.z / pitch)) * (pitch / r);
                },
                nut, Vector3d(r, 0, 0)),
            linchpin::laws::coulomb(mu));
  bench.add(linchpin::Force("wrench", {nut}, [torque](linchpin::ForceFrame& f) { f.add_moment(0, {0, 0, torque}); }));
  return nut;
}

/// Torque at which a nut that turns in this sense neither speeds up nor slows down; linear in the torque.
double even_torque(double lambda, double mu, double sense) {
  const auto alpha = [&](double torque) {
    Free bench;
    build(bench, lambda, mu, torque, 1e-6 * sense);
    linchpin::Dynamics dynamics(bench.system);
    return dynamics.evaluate(bench.system.initial_state()) == linchpin::Status::ok ? dynamics.vdot()[5] : NAN;
  };
  const double T = sense * W * r, a = alpha(0), b = alpha(T);
  return T * a / (a - b);
}

}  // namespace

int main() {
  const double lambda = 5 * pi / 180;
  std::printf("a nut on a thread of 5°, in the stepper\n");
  for (const double mu : {0.05, 0.15}) {
    const double phi = std::atan(mu);
    char label[64];
    std::snprintf(label, sizeof label, "mu = %.2f, torque that raises [N m]", mu);
    expect(label, even_torque(lambda, mu, 1), W * r * std::tan(phi + lambda));
    std::snprintf(label, sizeof label, "mu = %.2f, torque that lowers [N m]", mu);
    expect(label, even_torque(lambda, mu, -1), -W * r * std::tan(phi - lambda));
  }

  // Left alone: stays by tan λ = 0.0875, or runs down with an acceleration that has a closed form.
  const auto falls = [lambda](double mu) {  // W r tan(λ − φ) turns the inertia and, through the lead, the mass
    const double drive = r * std::tan(lambda - std::atan(mu));
    return W * drive / (2e-3 + m * drive * r * std::tan(lambda));
  };
  for (const double mu : {0.08, 0.09}) {
    Free bench;
    const BodyId nut = build(bench, lambda, mu, 0);
    run(bench, 0.5, 0.01);
    Hosted host;
    const BodyId same = build(host, lambda, mu, 0);
    run(host, 0.5, host_step);
    char label[64];
    std::snprintf(label, sizeof label, "mu = %.2f, left alone for 0.5 s [rad/s]", mu);
    const double known = mu < std::tan(lambda) ? -0.5 * falls(mu) : 0;
    expect(label, bench[nut].w.z(), known);
    expect("the same in Bullet [rad/s]", host[same].w.z(), known, 1e-4);
  }

  Plot plot("A screw: efficiency of raising a load", "lead angle [°]", "efficiency (useful work/work)");
  for (const double mu : {0.05, 0.15, 0.3}) {
    Curve known, found;
    for (double degrees = 0.5; degrees <= 60; degrees += 0.5)
      known.push_back({degrees, std::tan(degrees * pi / 180) / std::tan(degrees * pi / 180 + std::atan(mu))});
    for (double degrees = 2; degrees <= 60; degrees += 4)
      found.push_back({degrees, W * r * std::tan(degrees * pi / 180) / even_torque(degrees * pi / 180, mu, 1)});
    char name[48];
    std::snprintf(name, sizeof name, "μ = %.2f, closed form", mu);
    plot.line(name, known);
    std::snprintf(name, sizeof name, "μ = %.2f, equation with laws", mu);
    plot.same().dots(name, found);
  }
  Curve locks;
  for (double mu = 0; mu <= 0.45; mu += 0.005)
    locks.push_back({std::atan(mu) * 180 / pi, 0.5 * (1 - mu * mu)});  // λ = φ
  plot.dashed("left of it: self-locking", locks).save("friction-9-screw.svg");
  return known_answers_missed;
}
