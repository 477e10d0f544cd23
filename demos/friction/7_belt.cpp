// A parcel is laid on a running belt that climbs by α. Friction drives it, a = g (μ cos α − sin α), until it sticks:
//
//     after the time V/a and the distance V²/2a. The belt has run twice as far
//
// Here friction does positive work on the parcel. The motor of the belt does more work, and the difference is heat.
// With μ < tan α the same law lets the parcel slide back.
#include "bench.h"

namespace {

constexpr double m = 4, V = 1.5, mu = 0.5, alpha = 12 * pi / 180;
const Vector3d up(std::cos(alpha), 0, std::sin(alpha)), normal(-std::sin(alpha), 0, std::cos(alpha));

template <class Bench>
BodyId build(Bench& bench, double friction) {
  const BodyId parcel = bench.body("parcel", m, Vector3d(0.05, 0.05, 0.05), {});
  bench.add(
      linchpin::joints::planar("belt", linchpin::ground, Vector3d::Zero(), normal, parcel, Vector3d::Zero(), normal),
      linchpin::laws::coulomb(friction).on_belt(V * up));
  return parcel;
}

}  // namespace

int main() {
  const double a = g * (mu * std::cos(alpha) - std::sin(alpha)), sticks = V / a;
  std::printf("a parcel on a climbing belt, in the stepper\n");
  Free bench;
  const BodyId parcel = build(bench, mu);
  Curve free[2], hosted[2];
  run(bench, 1, 0.02, [&] { free[0].push_back({bench.t(), bench[parcel].v.dot(up)}); });
  expect("sticks after [s]", bench.switches.at(0).t, sticks);
  expect("distance [m]", bench[parcel].p.dot(up), V * V / (2 * a) + V * (1 - sticks));
  const double friction = mu * m * g * std::cos(alpha), holds = m * g * std::sin(alpha);
  const double given = friction * V * V / (2 * a) + holds * V * (1 - sticks);
  expect("friction that carries it [N]", bench.reaction("belt").prescribed.on_b.force.norm(), holds);
  expect("work of friction on the parcel [J]", bench.stepper().law_works()[0].work, given);
  expect("its kinetic and potential energy [J]", given, 0.5 * m * V * V + holds * bench[parcel].p.dot(up));
  expect("changes between sliding and sticking", static_cast<double>(bench.switches.size()), 1);

  std::printf("with less friction than tan(12°) = 0.2126\n");
  Free slips;
  const BodyId back = build(slips, 0.2);
  run(slips, 1, 0.04, [&] { free[1].push_back({slips.t(), slips[back].v.dot(up)}); });
  expect("slides back at [m/s]", slips[back].v.dot(up), g * (0.2 * std::cos(alpha) - std::sin(alpha)));

  std::printf("in Bullet\n");
  double error[2];
  for (const int k : {0, 1}) {
    Hosted host;
    const BodyId same = build(host, mu);
    int count = 0;
    run(host, 1, host_step / (1 << k), [&] {
      if (k == 0 && count++ % 8 == 0) hosted[0].push_back({host.t(), host[same].v.dot(up)});
    });
    expect("speed at the end [m/s]", host[same].v.dot(up), V, 1e-12);
    error[k] = std::fabs(host[same].p.dot(up) - V * V / (2 * a) - V * (1 - sticks));
  }
  expect_first_order("error of the distance [m]", error[0], error[1]);
  Hosted host;
  const BodyId same = build(host, 0.2);
  int count = 0;
  run(host, 1, host_step, [&] {
    if (count++ % 12 == 0) hosted[1].push_back({host.t(), host[same].v.dot(up)});
  });
  expect("with less friction, slides back at [m/s]", host[same].v.dot(up),
         g * (0.2 * std::cos(alpha) - std::sin(alpha)));

  Curve exact, poor;
  for (double t = 0; t <= 1; t += 0.005) {
    exact.push_back({t, std::min(V, a * t)});
    poor.push_back({t, g * (0.2 * std::cos(alpha) - std::sin(alpha)) * t});
  }
  Plot("A parcel laid on a belt that climbs by 12°", "time [s]", "speed up the belt [m/s]")
      .line("μ = 0.5, closed form", exact)
      .same()
      .dots("μ = 0.5, stepper", free[0])
      .same()
      .crosses("μ = 0.5, Bullet, every 8th step", hosted[0])
      .line("μ = 0.2 < tan 12°, closed form", poor)
      .same()
      .dots("μ = 0.2, stepper", free[1])
      .same()
      .crosses("μ = 0.2, Bullet, every 12th step", hosted[1])
      .save("friction-7-belt.svg");
  return known_answers_missed;
}
