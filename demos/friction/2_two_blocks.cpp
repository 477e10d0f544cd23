// A is thrown onto B, which lies on the floor; equal masses, μ = 0.5 between them and 0.1 below (T-BLOCKS). A drags B
// along until both have 0.375 v₀ at t = 1.25 v₀/g. Then they stick, and the friction between them slows A with B. Both
// stop at 5 v₀/g, B after 0.9375 v₀²/g and A after 1.5625 v₀²/g.
#include "bench.h"

namespace {

constexpr double v0 = 3, m = 2, sticks = 1.25 * v0 / g, stops = 5 * v0 / g;

template <class Bench>
std::pair<BodyId, BodyId> build(Bench& bench) {
  const Vector3d inertia(0.02, 0.02, 0.02);
  const BodyId A = bench.body("A", m, inertia, {.p = {0, 0, 1}, .v = {v0, 0, 0}});
  const BodyId B = bench.body("B", m, inertia, {});
  bench.add(
      linchpin::holonomic("A on B", {A, B}, [](const auto& s) { return s[0].position().z - s[1].position().z - 1.0; })
          .set_application_points({Vector3d::Zero(), Vector3d::Zero()}),
      linchpin::laws::coulomb(0.5));
  bench.add(linchpin::holonomic("B on floor", {B}, [](const auto& s) { return s[0].position().z; })
                .set_application_points({Vector3d::Zero()}),
            linchpin::laws::coulomb(0.1));
  // Blocks do not tip.
  for (const auto& [name, body] : {std::pair{"A upright", A}, std::pair{"B upright", B}})
    bench.add(linchpin::holonomic(name, {body}, [](const auto& s) {
      const auto x = s[0].axis(1, 0, 0), y = s[0].axis(0, 1, 0);
      return linchpin::rows(x.y, x.z, y.z);
    }));
  return {A, B};
}
double exact_A(double t) { return t < sticks ? v0 - 0.5 * g * t : std::max(0.0, 0.1 * g * (stops - t)); }
double exact_B(double t) { return t < sticks ? 0.3 * g * t : exact_A(t); }

}  // namespace

int main() {
  std::printf("two blocks, in the stepper\n");
  Free bench;
  const auto [A, B] = build(bench);
  Curve free_A, free_B;
  int seen = 0;
  const auto see = [&, A = A, B = B] {
    if (seen++ % 4) return;
    free_A.push_back({bench.t(), bench[A].v.x()});
    free_B.push_back({bench.t(), bench[B].v.x()});
  };
  run(bench, v0 / g, 0.01, see);
  expect("friction on A while it slides [N]", bench.reaction("A on B").prescribed.on_a.force.x(), -0.5 * m * g);
  run(bench, 2 * v0 / g, 0.01, see);
  expect("friction on A while it sticks [N]", bench.reaction("A on B").prescribed.on_a.force.x(), -0.1 * m * g);
  run(bench, 6 * v0 / g, 0.01, see);
  expect("A sticks to B [s]", bench.switches.at(0).t, sticks);
  expect("both stop [s]", bench.switches.at(1).t, stops);
  expect("distance of B [m]", bench[B].p.x(), 0.9375 * v0 * v0 / g);
  expect("distance of A [m]", bench[A].p.x(), 1.5625 * v0 * v0 / g);
  expect("heat between A and B [J]", -bench.stepper().law_works()[0].work, 0.5 * m * g * 0.625 * v0 * v0 / g);
  expect("heat on the floor [J]", -bench.stepper().law_works()[1].work, 0.2 * m * g * 0.9375 * v0 * v0 / g);
  expect("imbalance of the energy balance [J]", bench.stepper().energy_balance().imbalance(), 0);

  std::printf("in Bullet\n");
  Curve of_A, of_B;
  double error[2];
  for (const int k : {0, 1}) {
    Hosted host;
    const auto [hosted_A, hosted_B] = build(host);
    int count = 0;
    run(host, 6 * v0 / g, host_step / (1 << k), [&] {
      if (k == 1 || count++ % 10) return;
      of_A.push_back({host.t(), host[hosted_A].v.x()});
      of_B.push_back({host.t(), host[hosted_B].v.x()});
    });
    expect("distance of A [m]", host[hosted_A].p.x(), 1.5625 * v0 * v0 / g, 0.005);
    expect("speed of A afterwards [m/s]", host[hosted_A].v.norm(), 0, 1e-11);
    error[k] = std::fabs(host[hosted_A].p.x() - 1.5625 * v0 * v0 / g);
  }
  expect_first_order("error of the distance of A [m]", error[0], error[1]);

  Curve exact_of_A, exact_of_B;
  for (double t = 0; t < 6 * v0 / g; t += 0.002) {
    exact_of_A.push_back({t, exact_A(t)});
    exact_of_B.push_back({t, exact_B(t)});
  }
  Plot("A block thrown onto another", "time [s]", "velocity [m/s]")
      .line("A, closed form", exact_of_A)
      .same()
      .dots("A, stepper", free_A)
      .same()
      .crosses("A, Bullet, every 10th step", of_A)
      .line("B, closed form", exact_of_B)
      .same()
      .dots("B, stepper", free_B)
      .same()
      .crosses("B, Bullet, every 10th step", of_B)
      .save("friction-2-blocks.svg");
  return known_answers_missed;
}
