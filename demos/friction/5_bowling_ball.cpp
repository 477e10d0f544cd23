// A bowling ball is thrown without spin and slides until it rolls (T-BOWL):
//
//     t = 2 v₀/(7 μ g),   v = 5 v₀/7,   distance 12 v₀²/(49 μ g),   work of friction −m v₀²/7
//
// From then on friction holds the contact and does no work. Rolling resistance of arm δ decelerates it by (5/7)(δ/a) g.
#include "bench.h"

namespace {

constexpr double m = 6, a = 0.108, v0 = 8, mu = 0.12, delta = 0.02;
constexpr double rolls = 2 * v0 / (7 * mu * g), rolling = 5 * v0 / 7, way = 12 * v0 * v0 / (49 * mu * g);
constexpr double slows = 5.0 / 7 * delta / a * g;

template <class Bench>
BodyId build(Bench& bench, const Law& law, double v = v0, double spin = 0) {
  const double I = 0.4 * m * a * a;
  const BodyId ball = bench.body("ball", m, Vector3d(I, I, I), {.p = {0, 0, a}, .v = {v, 0, 0}, .w = {0, spin, 0}});
  bench.add(
      linchpin::holonomic("lane", {ball}, [](const auto& s) { return s[0].position().z - a; })
          .set_application_point([ball](const linchpin::State& s) { return Vector3d(s[ball].p - Vector3d(0, 0, a)); }),
      law);
  return ball;
}

}  // namespace

int main() {
  std::printf("bowling ball, in the stepper\n");
  Free bench;
  const BodyId ball = build(bench, linchpin::laws::coulomb(mu));
  Curve free_speed, free_rim;
  int seen = 0;
  const auto see = [&] {
    if (seen++ % 10) return;
    free_speed.push_back({bench.t(), bench[ball].v.x()});
    free_rim.push_back({bench.t(), a * bench[ball].w.y()});
  };
  run(bench, rolls + 0.1, 0.01, see);
  expect("rolls after [s]", bench.switches.at(0).t, rolls);
  expect("speed then [m/s]", bench[ball].v.x(), rolling);
  expect("distance until then [m]", bench[ball].p.x() - 0.1 * rolling, way);
  expect("work of friction [J]", bench.stepper().law_works()[0].work, -m * v0 * v0 / 7);
  run(bench, 3, 0.01, see);
  expect("friction while it rolls [N]", bench.reaction("lane").prescribed.on_a.force.norm(), 0);

  std::printf("with rolling resistance, from rolling\n");
  Free slowed;
  const BodyId tired =
      build(slowed, linchpin::laws::coulomb(0.3) + linchpin::laws::rolling_resistance(delta), 2, 2 / a);
  run(slowed, 2 / slows + 0.1, 0.01);
  expect("stops after [s]", slowed.switches.empty() ? NAN : slowed.switches.back().t, 2 / slows, 1e-8);
  expect("speed afterwards [m/s]", slowed[tired].v.norm(), 0, 1e-12);

  std::printf("in Bullet\n");
  double error[2];
  Curve speed, rim, speed_exact, rim_exact;
  for (const int k : {0, 1}) {
    Hosted host;
    const BodyId same = build(host, linchpin::laws::coulomb(mu));
    int count = 0;
    run(host, 3, host_step / (1 << k), [&] {
      if (k == 1 || count++ % 30) return;
      speed.push_back({host.t(), host[same].v.x()});
      rim.push_back({host.t(), a * host[same].w.y()});
    });
    expect("speed at the end [m/s]", host[same].v.x(), rolling);
    error[k] = std::fabs(host[same].p.x() - way - rolling * (3 - rolls));
  }
  expect_first_order("error of the distance [m]", error[0], error[1]);

  for (double t = 0; t <= 3; t += 0.005) {
    speed_exact.push_back({t, t < rolls ? v0 - mu * g * t : rolling});
    rim_exact.push_back({t, t < rolls ? 2.5 * mu * g * t : rolling});
  }
  Plot("A bowling ball slides, then rolls", "time [s]", "speed [m/s]")
      .line("centre, closed form", speed_exact)
      .same()
      .dots("centre, stepper", free_speed)
      .same()
      .crosses("centre, Bullet, every 30th step", speed)
      .line("rim, closed form", rim_exact)
      .same()
      .dots("rim, stepper", free_rim)
      .same()
      .crosses("rim, Bullet, every 30th step", rim)
      .save("friction-5-bowling.svg");
  return known_answers_missed;
}
