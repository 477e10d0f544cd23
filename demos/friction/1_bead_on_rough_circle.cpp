// A bead on a vertical circle with dry friction, released at the height of the centre (T-BEAD). φ from the bottom,
// u = φ̇², φ̇ > 0:
//
//     u(φ) = (u₀ − p(φ₀)) e^{−2μ(φ−φ₀)} + p(φ),   p = g [2(1 − 2μ²) cos φ − 6μ sin φ] / (1 + 4μ²)
//
// It turns where u = 0 and stays where |tan φ| ≤ μ. With 3μ e^{−πμ} + 2μ² = 1 it stops at the bottom, and no sooner.
#include "bench.h"

namespace {

template <class Bench>
BodyId build(Bench& bench, double mu) {
  const BodyId bead = bench.body("bead", 1, Vector3d(0.01, 0.01, 0.01), {.p = {-1, 0, 0}});
  bench.add(linchpin::holonomic("wire", {bead},
                                [](const auto& s) {
                                  const auto& x = s[0].position();
                                  return linchpin::rows(0.5 * (x.x * x.x + x.z * x.z - 1.0), x.y);
                                })
                .set_application_points({Vector3d::Zero()}),
            linchpin::laws::coulomb(mu));
  return bead;
}
double angle(const BodyState& s) { return std::atan2(s.p.x(), -s.p.z()); }
double rate(const BodyState& s) { return (s.p.x() * s.v.z() - s.p.z() * s.v.x()) / s.p.squaredNorm(); }

/// φ̇ on the way from the left side to the first stop, NaN beyond it.
double exact_rate(double mu, double phi) {
  const auto p = [mu](double at) {
    return g * (2 * (1 - 2 * mu * mu) * std::cos(at) - 6 * mu * std::sin(at)) / (1 + 4 * mu * mu);
  };
  return std::sqrt(-p(-pi / 2) * std::exp(-2 * mu * (phi + pi / 2)) + p(phi));
}

/// φ of the first stop: runs to the step of the stop, then again only as far as the stop.
double first_stop(double mu) {
  Free bench;
  const BodyId bead = build(bench, mu);
  linchpin::State before;
  while (bench.switches.empty() && bench.t() < 4) {
    before = bench.stepper().state();
    bench.step(2e-3);
  }
  if (bench.switches.empty()) return NAN;
  bench.stepper().set_state(before);
  bench.step(bench.switches[0].t - before.t);
  return angle(bench[bead]);
}

}  // namespace

int main() {
  std::printf("bead on a rough circle, mu = 0.2\n");
  Free bench;
  const BodyId bead = build(bench, 0.2);
  Curve swing;
  run(bench, 5, 1e-3, [&] { swing.push_back({angle(bench[bead]), rate(bench[bead])}); });
  expect("times it came to rest", static_cast<double>(bench.switches.size()), 3);
  expect("first stop [s]", bench.switches.at(0).t, 1.1011737001724367, 1e-8);
  expect("first stop [rad]", first_stop(0.2), 0.7777241756245302, 1e-8);
  expect("where it stays [rad]", angle(bench[bead]), -0.09404817815809761, 1e-8);
  expect("work of friction [J]", bench.stepper().law_works()[0].work, -g * std::cos(0.09404817815809761), 1e-8);

  std::printf("the friction that stops it at the bottom, by the secant method\n");
  double a = 0.59, b = 0.62, at_a = first_stop(a), at_b = first_stop(b);
  for (int k = 0; k < 8 && std::fabs(b - a) > 1e-13 && at_a != at_b; ++k) {
    const double c = b - at_b * (b - a) / (at_b - at_a);
    a = b, at_a = at_b, b = c, at_b = first_stop(c);
  }
  expect("mu", b, 0.60334223875704734);

  std::printf("in Bullet, mu = 0.2\n");
  double error[2];
  Curve hosted;
  for (const int k : {0, 1}) {
    Hosted host;
    const BodyId same = build(host, 0.2);
    int count = 0;
    run(host, 5, host_step / (1 << k), [&] {
      if (k == 0 && count++ % 6 == 0) hosted.push_back({angle(host[same]), rate(host[same])});
    });
    expect("where it stays [rad]", angle(host[same]), -0.09404817815809761, 0.02);
    expect("speed there [m/s]", host[same].v.norm(), 0, 1e-11);
    error[k] = std::fabs(angle(host[same]) + 0.09404817815809761);
  }
  expect_first_order("error of that [rad]", error[0], error[1]);

  Plot plot("A bead on a rough circle, released at the side", "angle from the bottom [rad]",
            "angular velocity [rad/s]");
  plot.line("stepper, μ = 0.2", swing).same().dots("Bullet, every 6th step", hosted);
  plot.crosses("known: where it stops", {{0.7777241756, 0}, {-0.3036742852, 0}, {-0.0940481782, 0}});
  for (const double mu : {0.1, 0.4, 0.60334223875704734}) {
    Curve exact;
    for (double phi = -pi / 2; phi < pi / 2; phi += 0.002) exact.push_back({phi, exact_rate(mu, phi)});
    char name[32];
    std::snprintf(name, sizeof name, "closed form, μ = %.4g", mu);
    plot.dashed(name, exact);
  }
  plot.save("friction-1-bead.svg");
  return known_answers_missed;
}
