// A rope on a rough drum, as n beads joined by rods. Pulled with T₁ against T₀ it is about to slip when
//
//     T₁/T₀ = ((1 + μ tan δ/2)/(1 − μ tan δ/2))ⁿ → e^{μθ},   δ = θ/n
//
// Friction increases the tension, and the tension increases the normal force: this is the *coupled* normal force. With
// the *frictionless* normal force, that of a smooth drum, the tension is linear along the rope, and
//
//     T₁/T₀ = (1 + μ n tan δ/2)/(1 − μ n tan δ/2) → (1 + μθ/2)/(1 − μθ/2),
//
// the first Padé approximant of the same exponential: right for little friction, and infinite at μθ = 2.
#include "bench.h"

namespace {

constexpr double mu = 0.3, T0 = 10, m = 0.05;

/// Beads at (k + ½)δ on the unit circle, sliding with next to no speed towards the end that T₁ pulls.
template <class Bench>
BodyId build(Bench& bench, int n, double theta, double T1, NormalForce normal_force, double speed = 1e-7) {
  bench.gravity({0, 0, 0});
  const double delta = theta / n;
  std::vector<BodyId> beads;
  const auto at = [](double angle) { return Vector3d(std::cos(angle), 0, std::sin(angle)); };
  const auto along = [](double angle) { return Vector3d(-std::sin(angle), 0, std::cos(angle)); };
  for (int k = 0; k < n; ++k) {
    const double angle = (k + 0.5) * delta;
    beads.push_back(bench.body("bead " + std::to_string(k), m, Vector3d(1e-3, 1e-3, 1e-3),
                               {.p = at(angle), .v = speed * along(angle)}));
  }
  for (int k = 0; k < n; ++k) {
    const BodyId bead = beads[static_cast<std::size_t>(k)];
    bench.add(linchpin::holonomic("drum under " + std::to_string(k), {bead},
                                  [](const auto& s) {
                                    const auto& x = s[0].position();
                                    return linchpin::rows(0.5 * (x.x * x.x + x.z * x.z - 1.0), x.y);
                                  })
                  .set_application_points({Vector3d::Zero()}),
              linchpin::laws::coulomb(mu).with_normal_force(normal_force));
    if (k > 0)
      bench.add(linchpin::joints::rod("rope " + std::to_string(k), beads[static_cast<std::size_t>(k - 1)],
                                      Vector3d::Zero(), bead, Vector3d::Zero(), 2 * std::sin(delta / 2)));
  }
  // The ends leave along the tangents at 0 and θ, as one more rod would.
  bench.add(linchpin::Force("pull", {beads.front(), beads.back()}, [=](linchpin::ForceFrame& f) {
    f.add_force(0, -T0 * along(0));
    f.add_force(1, T1 * along(theta));
  }));
  return beads.back();
}

/// Acceleration of the rope towards T₁ [m/s²].
double acceleration(int n, double theta, double T1, NormalForce normal_force) {
  Free bench;
  build(bench, n, theta, T1, normal_force);
  linchpin::Dynamics dynamics(bench.system);
  if (dynamics.evaluate(bench.system.initial_state()) != linchpin::Status::ok) return NAN;
  return vector(dynamics.vdot())
      .segment<3>(dynamics.vdot().size() - 6)
      .dot(Vector3d(-std::sin(theta * (1 - 0.5 / n)), 0, std::cos(theta * (1 - 0.5 / n))));
}
/// T₁/T₀ for which that vanishes: the acceleration is linear in T₁.
double holding_ratio(int n, double theta, NormalForce normal_force) {
  const double a = acceleration(n, theta, 3 * T0, normal_force), b = acceleration(n, theta, 4 * T0, normal_force);
  return 3 - a / (b - a);
}
double exact_ratio(int n, double theta) {
  const double t = mu * std::tan(theta / (2 * n));
  return std::pow((1 + t) / (1 - t), n);
}
double exact_ideal(int n, double theta) {
  const double t = mu * n * std::tan(theta / (2 * n));
  return (1 + t) / (1 - t);
}
void expect_slip(double part, double speed) {
  char label[64];
  std::snprintf(label, sizeof label, "pulled with %.2f of the limit: slips", part);
  expect(label, speed > 1e-9, part > 1);
}

}  // namespace

int main() {
  const double theta = 1.5 * pi;
  std::printf("a rope over three quarters of a drum, mu = 0.3: T1/T0\n");
  double gap[3] = {};
  int row = 0;
  for (const int n : {6, 12, 24}) {
    char label[64];
    const double found = holding_ratio(n, theta, NormalForce::coupled);
    std::snprintf(label, sizeof label, "%d beads, coupled normal force", n);
    expect(label, found, exact_ratio(n, theta), 1e-8);
    std::snprintf(label, sizeof label, "%d beads, frictionless normal force", n);
    expect(label, holding_ratio(n, theta, NormalForce::frictionless), exact_ideal(n, theta), 1e-8);
    gap[row++] = found - std::exp(mu * theta);
  }
  expect("extrapolated to a rope: e^(mu theta)", std::exp(mu * theta) + (4 * gap[2] - gap[1]) / 3, std::exp(mu * theta),
         1e-3);
  expect("order in the number of beads", std::log2(gap[1] / gap[2]), 2, 0.02);

  std::printf("at rest, 6 beads\n");
  for (const double part : {0.98, 1.02}) {
    Free bench;
    const BodyId end = build(bench, 6, theta, part * exact_ratio(6, theta) * T0, NormalForce::coupled, 0);
    run(bench, 0.1, 0.01);
    expect_slip(part, bench[end].v.norm());
  }
  std::printf("in Bullet, 6 beads\n");
  for (const double part : {0.98, 1.02}) {
    Hosted host;
    const BodyId end = build(host, 6, theta, part * exact_ratio(6, theta) * T0, NormalForce::coupled, 0);
    run(host, 0.1, host_step);
    expect_slip(part, host[end].v.norm());
  }

  Curve exponential, pade, actual, ideal;
  for (double angle = 0.05; angle <= 2 * pi; angle += 0.05) {
    exponential.push_back({angle, std::exp(mu * angle)});
    pade.push_back({angle, (1 + mu * angle / 2) / (1 - mu * angle / 2)});
  }
  for (int k = 1; k <= 16; ++k) {
    const double angle = k * pi / 8;
    actual.push_back({angle, holding_ratio(32, angle, NormalForce::coupled)});
    ideal.push_back({angle, holding_ratio(32, angle, NormalForce::frictionless)});
  }
  Plot("A rope on a drum, μ = 0.3", "angle of wrap [rad]", "T1/T0 at which it slips")
      .line("exp(μθ)", exponential)
      .same()
      .dots("32 beads, coupled normal force", actual)
      .dashed("(1 + μθ/2)/(1 − μθ/2)", pade)
      .same()
      .dots("32 beads, frictionless normal force", ideal)
      .y_range(0, 14)
      .save("friction-8-capstan.svg");
  return known_answers_missed;
}
