// A drawer that is pushed beside its middle: the push P, e beside the rail, is a moment P e, which the bearing of
// length h takes by a pair of forces P e/h. Friction is up to μ (|F| + |M|/h), so that
//
//     a = P (1 − μ e/h)/m,   and from e = h/μ on it jams, however hard it is pushed
//
// Pulled by its own weight across the rail it also carries F = m g: the bound is μ (m g + P e/h).
#include "bench.h"

namespace {

constexpr double m = 2, mu = 0.4, h = 0.1;
const Law bearing = linchpin::laws::slider_friction({.mu_static = mu, .mu_kinetic = mu, .bending_arm = h});

/// Pushed along x at (0, e, 0) of the drawer. Without gravity unless `weight`.
template <class Bench>
BodyId build(Bench& bench, double push, double e, bool weight = false) {
  if (!weight) bench.gravity({0, 0, 0});
  const BodyId drawer = bench.body("drawer", m, Vector3d(0.02, 0.02, 0.02), {});
  bench.add(linchpin::joints::slider("rail", linchpin::ground, {}, drawer, {}), bearing);
  bench.add(linchpin::Force("hand", {drawer}, [=](linchpin::ForceFrame& f) {
    f.add_force(0, {push, 0, 0}, f[0].point({0, e, 0}));
  }));
  return drawer;
}

template <class Bench>
double speed_after(double t, double dt, double push, double e, bool weight = false) {
  Bench bench;
  const BodyId drawer = build(bench, push, e, weight);
  run(bench, t, dt);
  return bench[drawer].v.x();
}

template <class Bench>
void table(const char* where, double dt) {
  std::printf("a drawer pushed beside its middle, %s: speed after 0.5 s\n", where);
  char label[64];
  for (const double e : {0.0, 0.1, 0.2, 0.24, 0.26})
    for (const double push : {10.0, 1000.0}) {
      std::snprintf(label, sizeof label, "%4g N at %.2f m [m/s]", push, e);
      expect(label, speed_after<Bench>(0.5, dt, push, e), std::max(0.0, 0.5 * push * (1 - mu * e / h) / m));
    }
  expect("20 N at 0.10 m, with its weight [m/s]", speed_after<Bench>(0.5, dt, 20, 0.1, true),
         0.5 * std::max(0.0, 20 * (1 - mu * 0.1 / h) - mu * m * g) / m);
}

}  // namespace

int main() {
  table<Free>("in the stepper", 0.01);
  table<Hosted>("in Bullet", host_step);

  Curve known, free, hosted;
  for (double e = 0; e <= 0.4; e += 0.002) known.push_back({e, std::max(0.0, 5 * (1 - mu * e / h) / m)});
  for (double e = 0.005; e <= 0.4; e += 0.02) {
    free.push_back({e, speed_after<Free>(0.5, 0.05, 10, e)});
    hosted.push_back({e + 0.01, speed_after<Hosted>(0.5, host_step, 10, e + 0.01)});
  }
  Plot("A drawer pushed with 10 N beside its middle", "offset of the push [m]", "speed after 0.5 s [m/s]")
      .line("closed form: jams at 0.25 m", known)
      .dots("stepper", free)
      .crosses("Bullet", hosted)
      .save("friction-11-drawer.svg");
  return known_answers_missed;
}
