// `linchpin equilibrium`: where a scene can rest, by the principle of virtual work, and whether it stays there.
#include "commands.h"
#include "contradiction.h"
#include "equilibrium_search.h"
#include "messages.h"
#include "recording/compare_text.h"
#include "scene_file.h"
#include "vector_json.h"

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/scene/analysis.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <complex>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

struct EquilibriumArguments {
  std::string scene;
  int starts = 24;
  double seconds = 20;
  bool json = false;
};

Json equilibrium_json(const scene::Model& model, const System& system, Dynamics& dynamics, const scene::Equilibrium& e,
                      bool held) {
  Json out;
  out["stability"] = to_string(e.stability, held);
  out["frequencies_squared"] = e.frequencies_squared;
  if (!e.imaginary_parts.empty()) out["imaginary_parts"] = e.imaginary_parts;
  out["continuum"] = e.continuum;
  out["potential_J"] = potential_energy(system, e.state);
  out["residual"] = e.residual;
  out["coordinates"] = Json::object();
  out["units"] = Json::object();  // of coordinates
  out["bodies"] = Json::object();
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    const BodyId id{static_cast<int>(i) + 1};
    if (system.dof(id) == 0) continue;
    const BodyState& s = e.state[id];
    if (system.kind(id) == BodyKind::coordinate) {
      out["coordinates"][model.bodies[i].name] = s.p.x();
      out["units"][model.bodies[i].name] = model.bodies[i].unit;
      continue;
    }
    Json body = {{"position", vector_json(s.p)}};
    if (system.kind(id) == BodyKind::rigid) body["rotation"] = {s.q.w(), s.q.x(), s.q.y(), s.q.z()};
    out["bodies"][model.bodies[i].name] = body;
  }
  // Forces of the rows on each body, with the multipliers that hold the place.
  out["forces"] = Json::object();
  if (dynamics.evaluate(e.state) == Status::invalid) return out;
  const Assembly& a = dynamics.assembly();
  for (std::size_t i = 0; i < a.layout.constraints.size(); ++i) {
    const Constraint& c = system.constraint(a.layout.constraints[i]);
    Json on = Json::object();
    for (std::size_t k = 0; k < c.bodies().size(); ++k) {
      if (system.dof(c.bodies()[k]) == 0) continue;
      Vector3d force = Vector3d::Zero();
      const auto J = a.jacobian(static_cast<int>(i), static_cast<int>(k));
      for (int row = a.layout.row[i]; row < a.layout.row[i + 1]; ++row)
        for (int j = 0; j < 3; ++j)
          force[j] += J[static_cast<std::size_t>(row - a.layout.row[i]) * 6 + static_cast<std::size_t>(j)] *
                      e.lambda[static_cast<std::size_t>(row)];
      const bool coordinate = system.kind(c.bodies()[k]) == BodyKind::coordinate;
      on[system.name(c.bodies()[k])] = coordinate ? Json(force.x()) : vector_json(force);
    }
    out["forces"][c.name()] = on;
  }
  return out;
}

std::string shown(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", std::abs(x) < 1e-12 ? 0.0 : x);
  return text;
}

std::string shown(const Json& v) {
  std::string out = "(";
  for (const Json& x : v) out += (out.size() > 1 ? ", " : "") + shown(x.get<double>());
  return out + ")";
}

std::string behind(const std::string& unit) { return unit.empty() ? "" : " " + unit; }

void print(const Json& e, std::size_t number) {
  std::cout << number << ". " << e["stability"].get<std::string>();
  const Json& w2 = e["frequencies_squared"];
  bool first = true;
  for (std::size_t i = 0; i < std::min<std::size_t>(w2.size(), 6); ++i) {
    const double x = w2[i], y = e.contains("imaginary_parts") ? e["imaginary_parts"][i].get<double>() : 0;
    char text[64];
    if (y < 0) continue;  // one of a pair
    if (y > 0) {          // λ² = −x ± iy
      const std::complex<double> rate = std::sqrt(std::complex(-x, y));
      std::snprintf(text, sizeof text, "flutter at %.6g rad/s, growth rate %.6g 1/s", rate.imag(), rate.real());
    } else if (x < 0)
      std::snprintf(text, sizeof text, "growth rate %.6g 1/s", std::sqrt(-x));
    else
      std::snprintf(text, sizeof text, "%.6g rad/s", std::sqrt(x));
    std::cout << (first ? ": " : ", ") << text;
    first = false;
  }
  std::cout << "; potential " << shown(e["potential_J"].get<double>()) << " J\n";
  if (e["continuum"].get<bool>())
    std::cout
        << "   one of many equilibria beside each other, all with the same potential (the frequency along them is 0)\n";
  for (const auto& [name, value] : e["coordinates"].items())
    std::cout << "   " << name << " = " << shown(value.get<double>()) << behind(e["units"][name]) << "\n";
  std::size_t count = 0;
  for (const auto& [name, body] : e["bodies"].items()) {
    if (++count > 12) {
      std::cout << "   and " << e["bodies"].size() - 12 << " more bodies\n";
      break;
    }
    std::cout << "   " << name << " at " << shown(body["position"]);
    if (body.contains("rotation")) std::cout << ", turned " << shown(body["rotation"]);
    std::cout << "\n";
  }
  count = 0;
  for (const auto& [name, on] : e["forces"].items()) {
    if (++count > 12) break;
    for (const auto& [body, force] : on.items())
      std::cout << "   " << name << " acts on " << body << " with "
                << (force.is_array() ? shown(force) + " N"
                                     : "the generalized force " + shown(force.get<double>()) +
                                           behind(scene::force_unit(e["units"][body].get<std::string>())))
                << "\n";
  }
}

int run_equilibrium(const EquilibriumArguments& arguments) {
  if (arguments.starts < 1 || arguments.starts > 10000) {
    std::cerr << "linchpin equilibrium: --starts is " << arguments.starts
              << ", expected a whole number from 1 to 10000\n";
    return exit_usage;
  }
  if (!(arguments.seconds > 0)) {
    std::cerr << "linchpin equilibrium: --seconds is " << arguments.seconds << ", expected a number above 0\n";
    return exit_usage;
  }
  const auto model = open_model(arguments.scene);
  if (!model) return exit_bad_input;
  const System system = model->system();
  const State start = system.initial_state();
  Dynamics dynamics(system, model->options.solve);
  if (dynamics.evaluate(start) == Status::invalid) {
    complain(arguments.scene, {}, dynamics.reason());
    return exit_physics;
  }
  if (dynamics.assembly().layout.n() > most_velocities) {
    std::cerr << "linchpin equilibrium: the scene has " << dynamics.assembly().layout.n()
              << " velocities, but the search supports at most " << most_velocities << "\n";
    return exit_usage;
  }
  const auto turning = scene::rotation_of_kinematic_bodies(system);
  scene::EquilibriumSearch search = search_around(start, turning, arguments.starts);
  const Held held = held_at_start(*model, system, turning.has_value());
  std::optional<ProgressLine> progress(1);
  int tried = 0, starts = arguments.starts;
  bool stopped = false;
  search.go_on = [&](int done, int of) {
    tried = done, starts = of;
    progress->show("start %d of %d, %.0f s", done, of, progress->seconds());
    stopped = stopped || progress->seconds() > arguments.seconds;
    return !stopped;
  };
  auto found = scene::find_equilibria(system, start, search);
  progress.reset();
  const std::vector<std::string> moving = drop_moving(system, search, found);
  Json result;
  result["schema"] = 2;
  result["scene"] = arguments.scene;
  result["frame_angular_velocity"] = turning ? vector_json(turning->first) : Json();
  result["frozen_at_start"] = held.bodies;
  for (const std::string& name : held.others) result["frozen_at_start"].push_back(name);
  result["requires_motion"] = moving;
  const std::vector<std::string> without = left_out(*model);
  result["left_out"] = without;
  result["starts_tried"] = tried;
  result["stopped_early"] = stopped;
  result["equilibria"] = Json::array();
  for (const scene::Equilibrium& e : found)
    result["equilibria"].push_back(equilibrium_json(*model, system, dynamics, e, held.any()));
  if (arguments.json) {
    std::cout << result.dump(2) << "\n";
  } else {
    if (turning)
      std::cout << "in the frame of the kinematic bodies, which rotates with " << shown(vector_json(turning->first))
                << " rad/s\n";
    for (const std::string& name : held.bodies)
      std::cout << name
                << " moves, but not with one constant rotation of all kinematic bodies. The search uses its pose at "
                   "the start\n";
    for (const std::string& name : held.others)
      std::cout << name << " depends on time. The search uses its value at the start\n";
    if (held.any() && !found.empty())
      std::cout << "the results below, stability included, are those of the system at its start pose, not of the "
                   "moving system\n";
    for (const std::string& each : without) std::cout << "left out: " << each << "\n";
    if (!without.empty() && !found.empty())
      std::cout << "the equilibria below do not take " << (without.size() == 1 ? "it" : "them")
                << " into account. With " << (without.size() == 1 ? "it" : "them")
                << " the scene may have others, or may not rest there\n";
    std::size_t number = 0;
    for (const Json& e : result["equilibria"]) print(e, ++number);
  }
  if (stopped)
    std::cerr << "linchpin equilibrium: the search stopped after " << arguments.seconds << " s, at start " << tried
              << " of " << starts << ". Give it more time with --seconds\n";
  if (!found.empty()) return exit_ok;
  if (!moving.empty()) {
    std::cerr << "linchpin equilibrium: there is no equilibrium, because " << recording::some(moving, 6)
              << (moving.size() == 1 ? " prescribes" : " prescribe") << " a motion\n";
    return exit_physics;
  }
  if (const Json torn = contradiction(system, *model, start); !torn.is_null()) {
    std::cerr << "linchpin equilibrium: there is no equilibrium, because " << torn_text(torn) << "\n";
    return exit_physics;
  }
  std::cerr << "linchpin equilibrium: no equilibrium was found from " << tried << " starts\n";
  return exit_physics;
}

}  // namespace

void add_equilibrium(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<EquilibriumArguments>();
  CLI::App* verb = app.add_subcommand(
      "equilibrium",
      "Find where a scene can rest (principle of virtual work), its frequencies there and its stability");
  verb->add_option("SCENE", arguments->scene, "A .toml scene, a .urdf or .sdf robot, a .bullet file or an MJCF file")
      ->required();
  verb->add_option("--starts", arguments->starts, "Number of start poses of the search. The first is that of the scene")
      ->capture_default_str();
  verb->add_option("--seconds", arguments->seconds, "Stop the search after this time [s] and print what it has found")
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->footer(
      "The search uses time 0. If all kinematic bodies that move and matter rotate about one axis at a constant\n"
      "rate, it looks for rest in their frame, with centrifugal forces. Otherwise it uses their poses at the\n"
      "start and says so. Constraints and forces that depend on time are taken at time 0, too. The stability then\n"
      "has \"while frozen\" behind it. A constraint that prescribes velocities allows no rest.\n"
      "Stability is that of the stiffness in the virtual displacements, with forces that have no potential\n"
      "(flutter). Damping and Coriolis forces are left out. Force laws, limits and motors are left out, too, and\n"
      "listed.\n"
      "Rows on velocities hold on every path of the search, so what they imply for positions stays true: a wheel\n"
      "that rolls stays on its road.\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 no equilibrium was found.");
  verb->callback([arguments, &exit_code] { exit_code = run_equilibrium(*arguments); });
}

}  // namespace linchpin::cli
