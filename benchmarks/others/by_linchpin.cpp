// linchpin, without an engine: scenes of the gallery, and the chain by the API; free bodies and all constraints exact.
#include "scenes.h"

#include <linchpin/joints.h>
#include <linchpin/scene.h>
#include <linchpin/stepper.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace linchpin::others {

namespace {

Model gallery(const std::string& name) {
  std::ifstream file(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/" + name + ".toml");
  std::stringstream text;
  text << file.rdbuf();
  return load_text(text.str(), name + ".toml");
}

System chain(const Scene& scene) {
  System system;
  system.set_gravity({0, -9.81, 0});
  std::vector<BodyId> ids;
  for (const Body& b : scene.bodies) ids.push_back(system.add_body(b.name, b.mass, b.inertia, {b.p, b.q}, b.v, b.w));
  for (const Joint& j : scene.joints) {
    const auto in = [&](int i) -> Vector3d {
      const Body& b = scene.bodies[std::size_t(i)];
      return b.q.conjugate() * (j.at - b.p);
    };
    system.add(ball("joint " + std::to_string(j.b), j.a < 0 ? ground : ids[std::size_t(j.a)], j.a < 0 ? j.at : in(j.a),
                    ids[std::size_t(j.b)], in(j.b)));
  }
  return system;
}

}  // namespace

void by_linchpin(const Scene& scene, const std::function<void(const Row&)>& out) {
  const bool own = scene.name.starts_with("W1");
  const auto run = [&](const std::string& method, StepOptions options, double h) {
    System system = own ? chain(scene) : gallery(scene.name).system();
    options.dense_output = false;
    Stepper stepper(system, system.initial_state(), options);
    Row row{.code = "linchpin", .formulation = "free bodies, exact", .method = method};
    measure(
        scene, row,
        [&](double t) {
          const double from = stepper.t();
          const long steps = std::lround((t - from) / h);
          long parts = 0;
          for (long i = 0; i < steps; ++i) {
            const StepReport& report = stepper.step((t - from) / double(steps));
            if (report.rejected) throw std::runtime_error(report.reason);
            parts += report.substeps;
          }
          return parts;
        },
        [&](int body, const Vector3d& local) -> Vector3d {
          // The four-bars of the gallery are of particles: the top of an upright is one of them.
          if (scene.name == "n-four-bar") return stepper.state()[system.find_body("B0")].p;
          return stepper.state()[system.find_body(scene.bodies[std::size_t(body)].name)].point(local);
        });
    out(row);
  };
  const auto at = [](int per_second) { return ", h = 1/" + std::to_string(per_second) + " s"; };
  for (const int n : own ? std::vector{240, 960} : std::vector{240, 1000})
    run("semi-implicit" + at(n), {.method = Method::semi_implicit}, 1.0 / n);
  for (const int n : {240, 1000}) run("rattle" + at(n), {.method = Method::rattle}, 1.0 / n);
  for (const int n : own ? std::vector{60, 120, 240} : std::vector{60, 240, 1000})
    run("rk4" + at(n), {.method = Method::rk4}, 1.0 / n);
  for (const auto& [text, tolerance] : {std::pair{"1e-6", 1e-6}, {"1e-8", 1e-8}, {"1e-10", 1e-10}})
    run(std::string("adaptive8, ") + text,
        {.method = Method::adaptive8, .relative_tolerance = tolerance, .absolute_tolerance = 1e-2 * tolerance}, 1);
}

}  // namespace linchpin::others
