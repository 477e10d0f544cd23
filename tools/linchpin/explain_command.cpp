// `linchpin explain`: the equation at one time, row by row, and what acts on what.
#include "commands.h"
#include "contradiction.h"
#include "messages.h"
#include "recording/compare_text.h"
#include "remarks.h"
#include "run_to_time.h"
#include "scene_file.h"
#include "vector_json.h"

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/stepper.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ExplainArguments {
  std::string scene, constraint;
  double at = 0;
  bool json = false;
};

bool has(const Json& names, const std::string& name) {
  return std::find(names.begin(), names.end(), Json(name)) != names.end();
}

std::string vector_text(const Json& v) {
  char text[128];
  const auto part = [&](std::size_t i) { return v[i].get<double>() + 0.0; };  // never "-0"
  std::snprintf(text, sizeof text, "(%.6g, %.6g, %.6g)", part(0), part(1), part(2));
  return text;
}

Json wrench_json(const std::string& body, const Wrench& w) {
  return {{"body", body},
          {"force", vector_json(w.force)},
          {"moment", vector_json(w.moment)},
          {"point", vector_json(w.point)}};
}

// A unilateral constraint that is released: it has no row, and its distance is no residual.
Json released(const Reaction& r) {
  return {{"name", r.name},         {"released", true},   {"gap", std::max({r.gap, r.gap_angle, r.residual})},
          {"rows", Json::array()},  {"determined", true}, {"redundant", false},
          {"contradictory", false}, {"power_W", 0.0},     {"on", Json::array()}};
}

// One constraint of an evaluated system: its rows and what it does.
Json explained(const scene::Model& model, const System& system, const Dynamics& dynamics, const Reaction& r,
               std::size_t i, bool contradictory) {
  static const char* const parts[] = {"vx", "vy", "vz", "wx", "wy", "wz"};
  const Assembly& a = dynamics.assembly();
  const ConstraintId id = a.layout.constraints[i];
  const Constraint& c = system.constraint(id);
  Json out;
  out["name"] = c.name();
  out["rows"] = Json::array();
  const std::size_t K = c.bodies().size();
  for (int row = a.layout.row[i]; row < a.layout.row[i + 1]; ++row) {
    const std::size_t local = static_cast<std::size_t>(row - a.layout.row[i]);
    Json A = Json::object();
    for (std::size_t k = 0; k < K; ++k) {
      const auto J = a.jacobian(static_cast<int>(i), static_cast<int>(k));
      for (int j = 0; j < system.dof(c.bodies()[k]); ++j)
        if (const double x = J[local * 6 + static_cast<std::size_t>(j)]; x != 0)
          A[system.name(c.bodies()[k]) +
            (system.kind(c.bodies()[k]) == BodyKind::coordinate ? "'" : std::string(".") + parts[j])] = x;
    }
    out["rows"].push_back({{"A", A},
                           {"b", a.problem.b[static_cast<std::size_t>(row)]},
                           {"lambda", r.lambda[local]},
                           {"position_residual", a.position[static_cast<std::size_t>(row)]},
                           {"velocity_residual", a.velocity[static_cast<std::size_t>(row)]}});
  }
  out["determined"] = r.determined;
  out["redundant"] = r.redundant;
  out["contradictory"] = contradictory;
  out["power_W"] = r.power;
  out["on"] = Json::array();
  for (std::size_t k = 0; k < K; ++k) {
    const int body = static_cast<int>(k);
    const BodyId who = c.bodies()[k];
    if (system.kind(who) == BodyKind::coordinate) {
      const std::string unit = scene::force_unit(model.bodies[static_cast<std::size_t>(who.index) - 1].unit);
      out["on"].push_back({{"coordinate", system.name(who)},
                           {"generalized_force", r.on(body).force.x()},
                           {"unit", unit.empty() ? Json() : Json(unit)}});
      continue;
    }
    Json on = wrench_json(system.name(c.bodies()[k]), r.on(body));
    on["law_force"] = vector_json(r.prescribed.on(body).force);
    out["on"].push_back(on);
  }
  return out;
}

// "plank 1.vx" is 'plank 1'.vx in an equation.
std::string as_typed(const std::string& column) {
  const std::size_t dot = column.rfind('.');
  return dot == std::string::npos ? column : scene::quoted(column.substr(0, dot)) + column.substr(dot);
}

// The unit of what released() calls the gap.
std::string unit_of_gap(const Reaction& r) {
  if (r.residual > std::max(r.gap, r.gap_angle)) return " in the unit of its equation";
  return r.gap_angle > r.gap ? " rad" : " m";
}

void print(const Json& c, const std::string& unit) {
  std::cout << c["name"].get<std::string>() << "\n";
  if (c.contains("released")) {
    std::cout << "  is open by " << c["gap"].get<double>() << unit << " and has no force\n";
    return;
  }
  for (const Json& row : c["rows"]) {
    std::cout << "  ";
    bool first = true;
    for (const auto& [column, x] : row["A"].items()) {
      char term[64];
      const double value = x.get<double>();
      std::snprintf(term, sizeof term, "%s%.6g ", first ? (value < 0 ? "-" : "") : (value < 0 ? "- " : "+ "),
                    std::abs(value));
      std::cout << term << as_typed(column) << "' ";
      first = false;
    }
    char rest[96];
    std::snprintf(rest, sizeof rest, "%s= %.6g    lambda = %.6g", first ? "0 " : "", row["b"].get<double>() + 0.0,
                  row["lambda"].get<double>() + 0.0);
    std::cout << rest << "\n";
  }
  for (const Json& on : c["on"]) {
    if (on.contains("coordinate")) {
      std::cout << "  acts on " << on["coordinate"].get<std::string>() << " with the generalized force "
                << on["generalized_force"].get<double>()
                << (on["unit"].is_string() ? " " + on["unit"].get<std::string>() : "") << "\n";
      continue;
    }
    std::cout << "  acts on " << on["body"].get<std::string>() << " with F = " << vector_text(on["force"])
              << " N, M = " << vector_text(on["moment"]) << " N m about " << vector_text(on["point"]) << " m";
    if (on["law_force"] != Json({0.0, 0.0, 0.0}))
      std::cout << ", of which " << vector_text(on["law_force"]) << " N by its laws";
    std::cout << "\n";
  }
  std::cout
      << "  "
      << (c["contradictory"].get<bool>()
              ? "CONTRADICTORY: no motion satisfies this constraint and the others. This is the least-squares solution"
          : c["determined"].get<bool>()
              ? (c["redundant"].get<bool>() ? "determined, though redundant" : "determined")
              : "UNDETERMINED: redundant constraints share the load. This is the distribution of least norm")
      << ", power " << c["power_W"].get<double>() << " W\n";
}

int run_explain(const ExplainArguments& arguments) {
  auto model = open_model(arguments.scene);
  if (!model) return exit_bad_input;
  model = scene::with_joint_limits(*std::move(model));
  if (!is_possible_time("explain", arguments.at)) return exit_usage;
  System system = model->system();
  if (!arguments.constraint.empty() && system.find_constraint(arguments.constraint).index < 0) {
    std::vector<std::string> names;
    for (const scene::SceneConstraint& c : model->constraints) names.push_back(c.name);
    const std::string near = nearest(arguments.constraint, names);
    std::cerr << "linchpin explain: there is no constraint \"" << arguments.constraint << "\""
              << (near.empty() ? (names.empty() ? "" : "; known: " + recording::some(Json(names), 6))
                               : "; did you mean \"" + near + "\"?")
              << "\n";
    return exit_usage;
  }
  std::vector<std::string> warnings;
  const auto run = run_to_time("explain", arguments.scene, *model, system, arguments.at, warnings);
  if (!run) return exit_physics;
  Stepper& stepper = *run;
  // The stepper's own: laws with a memory, and the branch that one of several answers is on, are of the motion.
  const auto reactions = stepper.reactions();
  const Dynamics& dynamics = stepper.dynamics();
  if (!dynamics.reason().empty()) {
    std::cerr << "linchpin explain: " << dynamics.reason() << "\n";
    return exit_physics;
  }
  for (const std::string& each : dynamics.warnings()) take_warning(each, warnings);
  const Json dependent = dependent_rows(system, *model, stepper.state());
  const Json contradictory = contradiction(system, *model, stepper.state());
  const Json torn = contradictory.is_null() ? Json::array() : contradictory["contradictory"];
  Json result;
  result["schema"] = 2;
  result["scene"] = arguments.scene;
  result["t"] = stepper.t();
  result["native"] = model->native;
  result["warnings"] = warnings;
  if (!dependent.is_null()) result["rank"] = dependent;
  result["constraints"] = Json::array();
  std::vector<std::string> units;  // of the gaps of these
  std::size_t place = 0;           // in the layout, which has no released ones
  for (const Reaction& r : reactions) {
    const bool holds = system.enabled(system.find_constraint(r.name));
    if (arguments.constraint.empty() || r.name == arguments.constraint) {
      result["constraints"].push_back(holds ? explained(*model, system, dynamics, r, place, has(torn, r.name))
                                            : released(r));
      units.push_back(unit_of_gap(r));
    }
    place += holds;
  }
  if (arguments.json) {
    std::cout << result.dump(2) << "\n";
    return exit_ok;
  }
  std::cout << "at t = " << stepper.t()
            << " s (a prime marks a rate of a velocity; w is the angular velocity in world axes; each force acts on "
               "the named body)\n";
  for (const std::string& each : model->native) std::cout << "the host bare leaves out: " << each << "\n";
  if (!dependent.is_null()) std::cout << rank_text(dependent, false) << "\n";
  for (const std::string& each : warnings) std::cout << "warning: " << each << "\n";
  for (std::size_t i = 0; i < units.size(); ++i) print(result["constraints"][i], units[i]);
  if (model->constraints.empty()) std::cout << "the scene has no constraints, so there is nothing to explain\n";
  return exit_ok;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* verb = app.add_subcommand(
      "explain", "Show the equation of a scene at one time: rows of A and b, multipliers and forces");
  verb->add_option("SCENE", arguments->scene, "A .toml scene, a .urdf or .sdf robot, a .bullet file or an MJCF file")
      ->required();
  verb->add_option("CONSTRAINT", arguments->constraint, "One joint or constraint of the scene. Default: all");
  verb->add_option("--at", arguments->at, at_option)->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->footer(
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 the run stopped before that time.\n"
      "With --json, stdout stays empty on exit codes 2 and 3. The error is on stderr.");
  verb->callback([arguments, &exit_code] { exit_code = run_explain(*arguments); });
}

}  // namespace linchpin::cli
