// A block slides down a rough wedge (α = 35°) that stands on a smooth floor (T-WEDGE). The wedge gives way, so friction
// changes the thrust that makes it: the law on the *actual* thrust, the default, is implicit. The explicit law of the
// papers reads the *ideal* thrust.
//
//     N = m g cos α / (1 + (m/M) sin α (sin α − μ cos α)),   A = N (sin α − μ cos α)/M
//
// The ideal thrust is that of μ = 0, whatever μ. A law that reads it drags with less than μ times what really presses.
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
double exact_A_ideal(double mu) {  // drag μ N(0) down the slope on the wedge, the normal force answers
  const double N0 = exact_N(0), drag = mu * N0;
  const double N = (m * g * std::cos(alpha) + m / M * drag * std::sin(alpha) * std::cos(alpha)) /
                   (1 + m / M * std::sin(alpha) * std::sin(alpha));
  return (N * std::sin(alpha) - drag * std::cos(alpha)) / M;
}

struct Found {
  double thrust, drag, wedge;  // what presses [N], what drags [N], acceleration of the wedge [m/s²]
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
    const Found actual = after_a_step<Bench>(mu, NormalForce::coupled),
                ideal = after_a_step<Bench>(mu, NormalForce::frictionless);
    show("actual: thrust [N]", actual.thrust, exact_N(mu));
    show("actual: friction [N]", actual.drag, mu * exact_N(mu));
    show("actual: wedge [m/s²]", actual.wedge, exact_A(mu));
    show("ideal: friction [N]", ideal.drag, mu * exact_N(0));
    show("ideal: wedge [m/s²]", ideal.wedge, exact_A_ideal(mu));
  }
}

}  // namespace

int main() {
  table<Free>("in the stepper");
  table<Hosted>("in Bullet");

  Plot plot("A block on a wedge that gives way: by what it is pushed", "coefficient of friction",
            "acceleration of the wedge [m/s²]");
  for (const NormalForce normal_force : {NormalForce::coupled, NormalForce::frictionless}) {
    const std::string law = normal_force == NormalForce::coupled ? "coupled normal force, " : "ideal thrust, ";
    Curve closed, free, hosted;
    for (int i = 0; i <= 70; ++i) {  // up to tan 35°, beyond which the block sticks
      const double mu = 0.01 * i;
      closed.push_back({mu, normal_force == NormalForce::coupled ? exact_A(mu) : exact_A_ideal(mu)});
      if (i % 4 == 0) free.push_back({mu, after_a_step<Free>(mu, normal_force).wedge});
      if (i % 4 == 2) hosted.push_back({mu, after_a_step<Hosted>(mu, normal_force).wedge});
    }
    plot.line(law + "closed form", closed).same().dots(law + "stepper", free).same().crosses(law + "Bullet", hosted);
  }
  plot.save("friction-3-wedge.svg");
  return known_answers_missed;
}
