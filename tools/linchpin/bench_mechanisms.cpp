#include "bench_mechanisms.h"

#include "bare_run.h"
#include "brief.h"
#include "messages.h"
#include "templates.h"
#include "verdicts.h"

#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/stepper.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

double cpu_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

struct Run {
  std::string status = "ok";
  double seconds = 0, gap = 0;
  std::optional<double> energy;  // of scenes that conserve it
  long steps = 0, parts = 0;
};

// Scenes whose own method is one for every frame, which Bullet's hosts need short: in long steps the pair of order 8 is
// cheaper and goes through their singular positions (T13).
void choose_method(std::string_view scene, StepOptions& options) {
  if (scene != "n-four-bar" && scene != "slider-crank") return;
  options.method = Method::adaptive8;
  options.relative_tolerance = 1e-10;
}

// Methods that choose their own parts are asked for the times of expectations and a hundred others, not for every frame
// of the scene: how many of its steps may be one.
long stride(const scene::Model& model) {
  const auto steps = static_cast<long>(std::round(model.duration / model.dt));
  if (!chooses_parts(model.options.method)) return 1;
  const auto hits = [&](long k) {
    return steps % k == 0 &&
           std::all_of(model.expectations.begin(), model.expectations.end(), [&](const scene::Expectation& e) {
             const double at = e.at / (model.dt * double(k));
             return e.throughout || std::abs(at - std::round(at)) < 1e-6;
           });
  };
  for (long k = steps / 100; k > 1; --k)
    if (hits(k)) return k;
  return 1;
}

// Steps alone are timed; the judge and the reactions that it asks for are not part of what others publish.
Run run(const scene::Model& model, scene::Judge* judge) {
  System system = model.system();
  Run out;
  StepOptions options = model.options;
  options.dense_output = false;  // nobody looks between steps
  Stepper stepper(system, system.initial_state(), options);
  const long every = stride(model);
  const double dt = model.dt * double(every);
  const bool conserved = conservative(system);
  const double energy0 = stepper.energy_minus_work();
  const auto look = [&] {
    if (judge == nullptr) return;
    judge->see({system, stepper.state(), stepper.reactions()});
    for (const Reaction& r : stepper.reactions()) out.gap = std::max({out.gap, r.gap, r.gap_angle, r.residual});
    if (conserved) out.energy = std::max(out.energy.value_or(0), std::abs(stepper.energy_minus_work() - energy0));
  };
  look();
  const long steps = static_cast<long>(std::round(model.duration / model.dt)) / every;
  for (; out.steps < steps; ++out.steps) {
    const double start = cpu_seconds();
    const StepReport& report = stepper.step(dt);
    out.seconds += cpu_seconds() - start;
    out.parts += report.substeps;
    if (report.rejected) {
      out.status = report.reason;
      break;
    }
    look();
  }
  if (judge) judge->end(dt * double(steps));
  return out;
}

}  // namespace

int bench_mechanisms(bool json) {
  Json rows = Json::array();
  int failed = 0;
  if (!json)
    std::printf("%-22s %-9s %9s %9s %11s %11s %11s %11s  %s\n", "scene", "method", "simul. s", "substeps", "CPU s",
                "largest gap", "energy err.", "error", "of");
  for (const Template& scene : mechanisms()) {
    scene::Model model = scene::load_text(scene.text, std::string(scene.name) + ".toml");
    choose_method(scene.name, model.options);
    scene::Judge judge(model, scene::Host::bare, model.dt * double(stride(model)));
    const Run judged = run(model, &judge);
    const double seconds = std::min(judged.seconds, run(model, nullptr).seconds);  // once warm
    const Json verdicts = verdicts_json(judge);
    // The worst expectation, measured by what is allowed.
    double error = 0, share = -1;
    std::string of;
    for (const auto& v : verdicts) {
      if (!v["error"].is_number()) continue;
      const double part = v["error"].get<double>() / std::max(1e-300, v["tolerance"].get<double>());
      if (!(part > share)) continue;
      share = part, error = v["error"].get<double>(), of = v["value"].get<std::string>();
      if (v["at"].is_number()) of += " at " + Json(v["at"]).dump() + " s";
    }
    const bool good = judged.status == "ok" && unmet(verdicts) == 0;
    failed += !good;
    if (json) {
      rows.push_back({{"scene", scene.name},
                      {"method", to_string(model.options.method)},
                      {"duration", model.duration},
                      {"steps", judged.steps},
                      {"substeps", judged.parts},
                      {"cpu_s", seconds},
                      {"max_gap", judged.gap},
                      {"max_energy_error_J", judged.energy ? Json(*judged.energy) : Json(nullptr)},
                      {"error", error},
                      {"of", of},
                      {"met", good},
                      {"status", judged.status},
                      {"expect", verdicts}});
      continue;
    }
    std::printf("%-22s %-9s %9g %9ld %11.4g %11.2g %11s %11.2g  %s%s\n", std::string(scene.name).c_str(),
                to_string(model.options.method), model.duration, judged.parts, seconds, judged.gap,
                judged.energy ? brief(*judged.energy).c_str() : "-", error, of.c_str(), good ? "" : "  NOT MET");
    std::fflush(stdout);
  }
  if (json) std::printf("%s\n", Json{{"schema", 2}, {"rows", rows}}.dump(2).c_str());
  return failed == 0 ? exit_ok : exit_physics;
}

}  // namespace linchpin::cli
