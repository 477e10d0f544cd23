// A block slides down a rough wedge (α = 35°) that stands on a smooth floor (T-WEDGE). The wedge can move, so
// friction changes the normal force on which it depends. The law on the *coupled* normal force, the default, is
// implicit. The explicit law of the papers uses the *frictionless* normal force.
//
//     N = m g cos α / (1 + (m/M) sin α (sin α − μ cos α)),   A = N (sin α − μ cos α)/M
//
// The frictionless normal force is that of μ = 0 for every μ. A law that uses it gives less friction than μ times the
// normal force that acts.
#include "bench.h"

namespace {

constexpr double m = 2, M = 5, alpha = 35 * pi / 180;
const Vector3d down(std::cos(alpha), 0, -std::sin(alpha)), normal(std::sin(alpha), 0, std::cos(alpha));

template <class Bench>
std::pair<BodyId, BodyId> build(Bench& bench, double mu, NormalForce normal_force) {
  const BodyId wedge = bench.body("wedge", M, Vector3d(1, 1, 1), {});
  const BodyId block = bench.body("block", m, Vector3d(0.1, 0.1, 0.1), {.p = 0.3 * normal, .v = 0.2 * down});
  // The wedge does not turn, so its slope may be written in world axes.
  bench.add(linchpin::holonomic("slope", {block, wedge},
                                [](const auto& s) {
                                  const auto d = s[0].position() - s[1].position();
                                  return d.x * normal.x() + d.z * normal.z() - 0.3;
                                })
                .set_application_points({Vector3d::Zero(), Vector3d::Zero()}),
            linchpin::laws::coulomb(mu).with_normal_force(normal_force));
  bench.add(linchpin::holonomic("floor", {wedge}, [](const auto& s) {
    const auto x = s[0].axis(1, 0, 0), y = s[0].axis(0, 1, 0);
    return linchpin::rows(s[0].position().z, s[0].position().y, x.y, x.z, y.z);
  }));
  return {block, wedge};
}

double exact_N(double mu) {
  return m * g * std::cos(alpha) / (1 + m / M * std::sin(alpha) * (std::sin(alpha) - mu * std::cos(alpha)));
}
double exact_A(double mu) { return exact_N(mu) * (std::sin(alpha) - mu * std::cos(alpha)) / M; }
// With the friction μ N(0) on the wedge, down the slope, and the normal force that belongs to it.
double exact_A_frictionless(double mu) {
  const double N0 = exact_N(0), friction = mu * N0;
  const double N = (m * g * std::cos(alpha) + m / M * friction * std::sin(alpha) * std::cos(alpha)) /
                   (1 + m / M * std::sin(alpha) * std::sin(alpha));
  return (N * std::sin(alpha) - friction * std::cos(alpha)) / M;
}

struct Found {
  double normal_force, friction, wedge;  // [N], [N], acceleration of the wedge [m/s²]
};
template <class Bench>
Found after_a_step(double mu, NormalForce normal_force) {
  Bench bench;
  const BodyId wedge = build(bench, mu, normal_force).second;
  bench.step(host_step);
  const Reaction& r = bench.reaction("slope");
  return {(r.ideal.on_a.force + r.induced.on_a.force).norm(), r.prescribed.on_a.force.norm(),
          -bench[wedge].v.x() / host_step};
}

template <class Bench>
void table(const char* where) {
  std::printf("block on a wedge, %s\n", where);
  for (const double mu : {0.0, 0.2, 0.4}) {
    char label[64];
    const auto show = [&](const char* what, double computed, double known) {
      std::snprintf(label, sizeof label, "mu = %.1f, %s", mu, what);
      expect(label, computed, known, 1e-8);
    };
    const Found coupled = after_a_step<Bench>(mu, NormalForce::coupled),
                frictionless = after_a_step<Bench>(mu, NormalForce::frictionless);
    show("coupled: normal force [N]", coupled.normal_force, exact_N(mu));
    show("coupled: friction [N]", coupled.friction, mu * exact_N(mu));
    show("coupled: wedge [m/s²]", coupled.wedge, exact_A(mu));
    show("frictionless: friction [N]", frictionless.friction, mu * exact_N(0));
    show("frictionless: wedge [m/s²]", frictionless.wedge, exact_A_frictionless(mu));
  }
}

}  // namespace

int main() {
  table<Free>("in the stepper");
  table<Hosted>("in Bullet");

  Plot plot("A block on a wedge that can move", "coefficient of friction", "acceleration of the wedge [m/s²]");
  for (const NormalForce normal_force : {NormalForce::coupled, NormalForce::frictionless}) {
    const std::string law =
        normal_force == NormalForce::coupled ? "coupled normal force, " : "frictionless normal force, ";
    Curve closed, free, hosted;
    for (int i = 0; i <= 70; ++i) {  // up to tan 35°, beyond which the block sticks
      const double mu = 0.01 * i;
      closed.push_back({mu, normal_force == NormalForce::coupled ? exact_A(mu) : exact_A_frictionless(mu)});
      if (i % 4 == 0) free.push_back({mu, after_a_step<Free>(mu, normal_force).wedge});
      if (i % 4 == 2) hosted.push_back({mu, after_a_step<Hosted>(mu, normal_force).wedge});
    }
    plot.line(law + "closed form", closed).same().dots(law + "stepper", free).same().crosses(law + "Bullet", hosted);
  }
  plot.save("friction-3-wedge.svg");
  return known_answers_missed;
}
