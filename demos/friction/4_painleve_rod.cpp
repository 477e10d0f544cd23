// Painlevé's rod: its tip slides on the floor at angle θ, half-length 1 m, 1 kg (T-PAIN). σ = ±1 is the sense of
// sliding.
//
//     N p = g − sin θ θ̇²,   p = 1 + 3 cos θ (cos θ + μ σ sin θ)      for a floor that pushes
//
// Pushed into the floor (σ = −1) with enough friction p becomes negative: then no normal force satisfies Coulomb's
// law, or two do. The law on the frictionless normal force does not show this. The law on the coupled one, the default,
// counts the solutions and reports a warning.
#include "bench.h"

namespace {

template <class Bench>
BodyId build(Bench& bench, double theta, double rate, double sigma, Law law) {
  const linchpin::Quaterniond q(Eigen::AngleAxisd(-theta, Vector3d::UnitY()));
  const Vector3d w(0, -rate, 0), from_tip = q * Vector3d(1, 0, 0), v_tip(0.7 * sigma, 0, 0);
  const BodyId rod = bench.body("rod", 1, Vector3d(0.02, 1.0 / 3, 1.0 / 3),
                                {.p = from_tip, .q = q, .v = v_tip + w.cross(from_tip), .w = w});
  const Vector3d tip(-1, 0, 0);
  bench.add(linchpin::holonomic("floor", {rod}, [tip](const auto& s) { return s[0].point(tip).z; })
                .set_application_points({tip}),
            std::move(law));
  bench.add(linchpin::holonomic("plane of motion", {rod}, [](const auto& s) {
    const auto y = s[0].axis(0, 1, 0);
    return linchpin::rows(s[0].position().y, y.x, y.z);
  }));
  return rod;
}

struct Answer {
  double frictionless, coupled;  // normal forces [N]
  int solutions;
  std::string warning;
};
Answer answer(double theta, double rate, double sigma, const Law& law) {
  Free bench;
  build(bench, theta, rate, sigma, law);
  linchpin::Dynamics dynamics(bench.system);
  const linchpin::State state = bench.system.initial_state();
  dynamics.evaluate(state);
  std::vector<Reaction> reactions;
  dynamics.reactions(state, reactions);
  const double frictionless = reactions[0].ideal.on_a.force.z();
  return {frictionless, frictionless + reactions[0].induced.on_a.force.z(), dynamics.law_report().solutions,
          dynamics.law_report().warning};
}

/// The closed form: the normal forces that satisfy N = (g − sin θ θ̇²)/p(sign N).
std::vector<double> closed_form(double theta, double rate, double sigma, double mu) {
  std::vector<double> all;
  for (const double sign : {1.0, -1.0}) {
    const double p = 1 + 3 * std::cos(theta) * (std::cos(theta) + sign * mu * sigma * std::sin(theta));
    const double N = (g - std::sin(theta) * rate * rate) / p;
    if (N * sign > 0) all.push_back(N);
  }
  return all;
}

}  // namespace

int main() {
  struct Row {
    double theta, rate, mu, sigma;
  };
  for (const Row& r : {Row{pi / 3, 0, 0.5, 1}, Row{pi / 3, 0, 0.5, -1}, Row{std::atan(2.0), 0, 1.3, -1},
                       Row{std::atan(2.0), 0, 1.4, -1}, Row{pi / 3, 4, 1.4, -1}}) {
    std::printf("rod at %.4f rad, %g rad/s, mu = %g, sliding %s\n", r.theta, r.rate, r.mu,
                r.sigma > 0 ? "towards its centre" : "away from it");
    const Law law = linchpin::laws::coulomb(r.mu);
    const auto known = closed_form(r.theta, r.rate, r.sigma, r.mu);
    const Answer frictionless = answer(r.theta, r.rate, r.sigma, Law(law).with_normal_force(NormalForce::frictionless));
    const Answer found = answer(r.theta, r.rate, r.sigma, law);
    expect("frictionless normal force [N]", frictionless.frictionless,
           (g - std::sin(r.theta) * r.rate * r.rate) / (1 + 3 * std::cos(r.theta) * std::cos(r.theta)));
    expect("solutions for the coupled normal force", found.solutions, static_cast<double>(known.size()));
    if (known.size() == 1) expect("coupled normal force [N]", found.coupled, known[0]);
    if (known.size() == 2) {
      expect("smaller coupled normal force [N]",
             answer(r.theta, r.rate, r.sigma, Law(law).with_branch(linchpin::Branch::smallest)).coupled, known[1]);
      expect("larger coupled normal force [N]",
             answer(r.theta, r.rate, r.sigma, Law(law).with_branch(linchpin::Branch::largest)).coupled, known[0]);
    }
    if (!found.warning.empty()) std::printf("  warning: %s\n", found.warning.c_str());
  }

  // A step of a host determines the slip at its end, and not an acceleration. If no normal force satisfies the law
  // while the rod slides, the rod stops within the step, however short, as by an impact without collision. From 0.7 m/s
  // to rest in h:
  //
  //     F = (0.7/h + 3 sin θ cos θ g/q)/(1 + 3 sin²θ − 9 sin²θ cos²θ/q),   N = (g + 3 sin θ cos θ F)/q,   q = 1 + 3
  //     cos²θ
  std::printf("in Bullet, where no normal force satisfies the law while it slides\n");
  const double theta = std::atan(2.0), s = std::sin(theta), c = std::cos(theta), q = 1 + 3 * c * c;
  const double F = (0.7 / host_step + 3 * s * c * g / q) / (1 + 3 * s * s - 9 * s * s * c * c / q);
  Hosted host;
  const BodyId rod = build(host, theta, 0, -1, linchpin::laws::coulomb(1.4));
  const double before = host.exact.energy();
  host.step(host_step);
  // What acted in the step, to its order, for the rod also turns a little. The reaction is of the instant before, at
  // which no normal force satisfies the law.
  const linchpin::LawWork& acted = host.exact.laws()[0];
  expect("friction [N]", acted.force.force.x(), F, 2e-3);
  expect("normal force [N]", acted.normal.force.z(), (g + 3 * s * c * F) / q, 2e-3);
  expect("tip after the step [m/s]", host[rod].velocity_of({-1, 0, 0}).x(), 0, 1e-2);
  expect("energy gained [J]", std::max(0.0, host.exact.energy() - before), 0);

  Curve closed[2], found[2], frictionless;  // at tan θ = 2 from rest; at 60° turning with 4 rad/s
  for (double mu = 0.01; mu <= 1.6; mu += 0.02) {
    const Law explicit_law = linchpin::laws::coulomb(mu).with_normal_force(NormalForce::frictionless);
    frictionless.push_back({mu, answer(theta, 0, -1, explicit_law).frictionless});
    for (const linchpin::Branch branch : {linchpin::Branch::largest, linchpin::Branch::smallest})
      for (const int k : {0, 1}) {
        const Law law = linchpin::laws::coulomb(mu).with_branch(branch);
        const Answer a = k ? answer(pi / 3, 4, -1, law) : answer(theta, 0, -1, law);
        if (a.solutions > 0) found[k].push_back({mu, a.coupled});
      }
  }
  for (const int k : {0, 1})
    for (const bool pulls : {false, true}) {
      for (double mu = 0.002; mu <= 1.6; mu += 0.002) {
        double N = NAN;
        for (const double one : k ? closed_form(pi / 3, 4, -1, mu) : closed_form(theta, 0, -1, mu))
          if ((one < 0) == pulls) N = one;
        closed[k].push_back({mu, N});
      }
      closed[k].push_back({NAN, NAN});
    }
  Plot("Painlevé's rod, pushed into the floor", "coefficient of friction", "normal force [N]")
      .line("tan θ = 2, θ̇ = 0: closed form", closed[0])
      .same()
      .dots("computed; none from 4/3 on", found[0])
      .line("60°, 4 rad/s: closed form", closed[1])
      .same()
      .dots("computed; two from 1.347 on", found[1])
      .dashed("tan θ = 2: frictionless normal force", frictionless)
      .y_range(-20, 120)
      .save("friction-4-painleve.svg");
  return known_answers_missed;
}
