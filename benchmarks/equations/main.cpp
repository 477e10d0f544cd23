// What a typed equation costs beside the same lambda: rows of A, b and residuals, both through the same door. The best
// of many short rounds, taken in turns, so that whatever else the machine does hits both. Exit code 1 above five times.
#include <linchpin/constraint.h>
#include <linchpin/scene.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace linchpin;
using Clock = std::chrono::steady_clock;

struct Timed {
  const Constraint& constraint;
  std::vector<BodyState> X;
  std::vector<double> A, b, position, velocity;
  double best = std::numeric_limits<double>::infinity();

  Timed(const Constraint& c, const State& state) : constraint(c) {
    for (const BodyId id : c.bodies()) X.push_back(state[id]);
    const auto m = static_cast<std::size_t>(c.function().rows());
    A.resize(m * 6 * X.size());
    for (auto* x : {&b, &position, &velocity}) x->resize(m);
  }
  double round(int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) constraint.function().linearize(X, 0.37, {A, b, position, velocity});
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / count;
    best = std::min(best, ns);
    return ns;
  }
};

void compare(const char* what, const std::string& text, const Constraint& lambda) {
  const std::string level = lambda.function().level() == Level::position ? "equation" : "velocity";
  const scene::Model model = scene::load_text(R"(schema = 2
[[body]]
name = "a"
mass = 1.3
shape = { box = [0.2, 0.3, 0.5] }
position = [0.1, 2.0, -0.3]
rotation = { axis = [1, 2, 3], angle = 0.7 }
velocity = [0.4, -0.2, 0.9]
omega = [1.1, -0.7, 0.3]
[[body]]
name = "b"
mass = 2.1
shape = { capsule = [0.1, 0.6] }
position = [-0.4, 0.6, 0.2]
omega = [0.2, 0.9, -1.4]
[[constraint]]
name = "c"
params = { L = 1.5, w = 3.0 }
)" + level + " = \"" + text + "\"\n",
                                              "bench.toml");
  const System system = model.system();
  const State state = system.initial_state();
  Timed typed(system.constraint(system.find_constraint("c")), state), same(lambda, state);
  for (int i = 0; i < 200; ++i) typed.round(200), same.round(200);
  std::printf("%-22s typed %6.0f ns   lambda %6.0f ns   ratio %.2f\n", what, typed.best, same.best,
              typed.best / same.best);
}

}  // namespace

int main() {
  constexpr BodyId a{1}, b{2};
  compare("winch", "dist2(a.point(0,-0.1,0), b.point(0,0.2,0)) = (L + 0.1*(1 - cos(w*t)))^2",
          holonomic("l", {a, b}, [](const auto& s) {
            const auto d = s[0].point(0, -0.1, 0) - s[1].point(0, 0.2, 0);
            return dot(d, d) - square(1.5 + 0.1 * (1 - cos(3.0 * s.t)));
          }));
  compare("points together", "a.point(0.1, 0, 0.2) = b.point(0, 0.3, 0)",
          holonomic("l", {a, b}, [](const auto& s) { return s[0].point(0.1, 0, 0.2) - s[1].point(0, 0.3, 0); }));
  compare("centres apart", "dist2(a.position, b.position) = L^2", holonomic("l", {a, b}, [](const auto& s) {
            const auto d = s[0].position() - s[1].position();
            return dot(d, d) - 1.5 * 1.5;
          }));
  compare("knife edge", "dot(a.velocity(0.1, 0, 0.3), a.axis(0, 1, 0)) = 0",
          nonholonomic("l", {a}, [](const auto& s) { return dot(s[0].velocity(0.1, 0, 0.3), s[0].axis(0, 1, 0)); }));
  compare("transcendental", "atan2(a.x, b.y) + exp(-a.z)/(2 + b.z^3) = t", holonomic("l", {a, b}, [](const auto& s) {
            const auto z = s[1].position().z;
            return atan2(s[0].position().x, s[1].position().y) + exp(-s[0].position().z) / (2.0 + z * (z * z)) - s.t;
          }));
}
