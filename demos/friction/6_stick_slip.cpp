// A block on a running belt, held by a spring: the stick-slip oscillator. It sticks to the belt (speed V) until the
// spring pulls with μ_s N. Then it slides, swings about the place where the spring pulls with μ_k N, and sticks again
// when it is as fast as the belt. With ω = √(k/m), off = (μ_s − μ_k) g/ω² one period is
//
//     2 off/V (sticking) + 2 (π − atan(off ω/V))/ω (sliding),   furthest at μ_k g/ω² + √(off² + (V/ω)²)
#include "bench.h"

namespace {

constexpr double m = 1, k = 50, V = 0.2, mu_s = 0.5, mu_k = 0.3;

template <class Bench>
BodyId build(Bench& bench) {
  const BodyId block = bench.body("block", m, Vector3d(0.01, 0.01, 0.01), {.v = {V, 0, 0}});
  bench.add(linchpin::joints::slider("belt", linchpin::ground, {}, block, {}),
            linchpin::laws::coulomb(mu_s, mu_k).on_belt({V, 0, 0}));
  bench.add(linchpin::spring("spring", linchpin::ground, Vector3d(-1, 0, 0), block, Vector3d::Zero(), k, 1));
  return block;
}

}  // namespace

int main() {
  const double omega = std::sqrt(k / m), off = (mu_s - mu_k) * g / (omega * omega);
  const double sticks = 2 * off / V, slides = 2 * (pi - std::atan(off * omega / V)) / omega, period = sticks + slides;
  const double furthest = mu_k * g / (omega * omega) + std::hypot(off, V / omega);
  const double start = mu_s * g / (omega * omega);  // of a slide [m]
  const auto exact = [&](double t) {
    const double since = t - start / V, tau = std::fmod(since, period);
    if (since < 0) return V * t;
    if (tau > slides) return start - V * (period - tau);
    return start - off + off * std::cos(omega * tau) + V / omega * std::sin(omega * tau);
  };

  std::printf("stick-slip oscillator, in the stepper\n");
  Free bench;
  const BodyId block = build(bench);  // sticking, the spring at its length
  Curve phase;
  bench.stepper().watch([block](const linchpin::State& at) { return at[block].v.x(); });
  double far = 0;  // where it turns, between two steps
  run(bench, 6 * period, 1e-3, [&] {
    for (const linchpin::Crossing& c : bench.stepper().crossings()) far = std::max(far, c.state[block].p.x());
    const BodyState& s = bench[block];
    phase.push_back({s.p.x(), s.v.x()});
  });
  std::vector<double> sticks_at, slides_at;
  for (const auto& s : bench.switches)
    (s.what == linchpin::ModeSwitch::What::sticks ? sticks_at : slides_at).push_back(s.t);
  expect("begins to slide [s]", slides_at.at(0), start / V);
  expect("slides for [s]", sticks_at.at(0) - slides_at.at(0), slides);
  expect("sticks for [s]", slides_at.at(1) - sticks_at.at(0), sticks);
  expect("one period [s]", slides_at.at(3) - slides_at.at(2), period);
  expect("largest displacement [m]", far, furthest);

  std::printf("in Bullet\n");
  Curve hosted;
  double error[2];
  for (const int fine :
       {0, 1}) {  // at 240 and 3840 steps a second: slides begin and end on steps, so errors are jagged
    Hosted host;
    const BodyId same = build(host);
    double worst = 0;
    int count = 0;
    run(host, 6 * period, fine ? host_step / 16 : host_step, [&] {
      const BodyState s = host[same];
      worst = std::max(worst, std::fabs(s.p.x() - exact(host.t())));
      if (!fine && count++ % 3 == 0) hosted.push_back({s.p.x(), s.v.x()});
    });
    expect("position after 6 periods [m]", host[same].p.x(), exact(6 * period), 5e-3);
    error[fine] = worst;
  }
  expect_first_order("worst error of the position [m]", error[0], error[1], 16);

  Curve circle;
  const double radius = furthest - mu_k * g / (omega * omega), centre = mu_k * g / (omega * omega);
  for (double angle = 0; angle <= 2 * pi + 0.01; angle += 0.02)
    circle.push_back({centre + radius * std::cos(angle), radius * omega * std::sin(angle)});
  Plot("Stick-slip: a block on a belt, held by a spring", "position [m]", "velocity [m/s]")
      .line("stepper", phase)
      .same()
      .dots("Bullet, every 3rd step", hosted)
      .dashed("closed form: slides lie here", circle)
      .same()
      .dashed("", {{0, V}, {start, V}})
      .save("friction-6-stick-slip.svg");
  return known_answers_missed;
}
