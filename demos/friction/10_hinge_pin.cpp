// A hinge with friction on its pin, from the load it carries: torque up to μ r |F|, as commercial codes have it.
//
//   a wheel on a level pin:     stops with a constant deceleration, after ω₀ I/(μ r m g)
//   a pendulum, length l:       stays where it is at rest if sin θ ≤ μ r/l, because then m g l sin θ ≤ μ r m g
//
// A pendulum at rest hangs with its whole weight m g on the pin, and a moving one does not: the law needs the *coupled*
// normal force, which laws use by default.
#include "bench.h"

namespace {

constexpr double m = 3, I = 0.06, mu = 0.3, radius = 0.02, w0 = 5, l = 0.25;
const Law pin = linchpin::laws::hinge_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = radius});

/// A body on a level pin along y; its centre hangs `below` under the pin when θ = 0.
template <class Bench>
BodyId build(Bench& bench, double below, double theta, double spin) {
  const linchpin::Quaterniond q(Eigen::AngleAxisd(theta, Vector3d::UnitY()));
  const Vector3d w(0, spin, 0), p = q * Vector3d(0, 0, -below);
  const BodyId body = bench.body("wheel", m, Vector3d(I, I, I), {.p = p, .q = q, .v = w.cross(p), .w = w});
  bench.add(linchpin::joints::hinge("pin", linchpin::ground, Vector3d::Zero(), Vector3d::UnitY(), body,
                                    Vector3d(0, 0, below), Vector3d::UnitY()),
            pin);
  return body;
}
double angle(const BodyState& s) { return 2 * std::atan2(s.q.y(), s.q.w()); }

}  // namespace

int main() {
  const double stops = w0 * I / (mu * radius * m * g), stays = std::asin(mu * radius / l);
  std::printf("a wheel on a rough pin, in the stepper\n");
  Free bench;
  build(bench, 0, 0, w0);
  run(bench, 1, 0.01);
  expect("torque of the pin [N m]", bench.reaction("pin").prescribed.on_b.moment.y(), -mu * radius * m * g);
  run(bench, stops + 0.1, 0.01);
  expect("stops after [s]", bench.switches.at(0).t, stops);
  expect("work of the pin [J]", bench.stepper().law_works()[0].work, -0.5 * I * w0 * w0);

  std::printf("a pendulum released where the friction of the pin can, and cannot, hold it\n");
  for (const double part : {1 - 1e-9, 1 + 1e-6}) {
    Free hangs;
    const BodyId bob = build(hangs, l, part * stays, 0);
    run(hangs, 0.2, 0.01);
    expect("moves", hangs[bob].w.norm() > 1e-9, part > 1);
  }
  std::printf("a pendulum swings out\n");
  Free swings;
  const BodyId bob = build(swings, l, 1.5, 0);
  Curve decay;
  run(swings, 20, 2e-3, [&] { decay.push_back({swings.t(), angle(swings[bob])}); });
  expect("stops within the angle that friction holds", std::fabs(angle(swings[bob])) <= stays, 1);
  expect("speed afterwards [rad/s]", swings[bob].w.norm(), 0, 1e-12);
  // All the height is gone into the pin.
  expect("work of the pin [J]", swings.stepper().law_works()[0].work,
         m * g * l * (std::cos(1.5) - std::cos(angle(swings[bob]))), 1e-8);

  std::printf("in Bullet\n");
  double error[2];
  Curve hosted;
  for (const int k : {0, 1}) {
    Hosted host;
    const BodyId same = build(host, 0, 0, w0);
    run(host, stops + 0.5, host_step / (1 << k));
    expect("the wheel has turned by [rad]", std::remainder(angle(host[same]) - 0.5 * w0 * stops, 2 * pi), 0, 0.02);
    expect("speed of the wheel [rad/s]", host[same].w.norm(), 0, 1e-11);
    error[k] = std::fabs(std::remainder(angle(host[same]) - 0.5 * w0 * stops, 2 * pi));
  }
  expect_first_order("error of that angle [rad]", error[0], error[1]);
  Hosted host;
  const BodyId same = build(host, l, 1.5, 0);
  int count = 0;
  run(host, 20, host_step, [&] {
    if (count++ % 24 == 0) hosted.push_back({host.t(), angle(host[same])});
  });
  expect("speed of the pendulum afterwards [rad/s]", host[same].w.norm(), 0, 1e-11);

  const auto level = [](double at) { return Curve{{0, at}, {20, at}}; };
  Plot("A pendulum on a rough pin", "time [s]", "angle [rad]")
      .line("stepper", decay)
      .same()
      .dots("Bullet, every 24th step", hosted)
      .dashed("held between these", level(stays))
      .same()
      .dashed("", level(-stays))
      .save("friction-10-hinge.svg");
  return known_answers_missed;
}
