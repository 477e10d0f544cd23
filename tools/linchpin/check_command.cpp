// `linchpin check`: all that can be said of a scene without a step.
#include "brief.h"
#include "commands.h"
#include "contradiction.h"
#include "messages.h"
#include "recording/compare_text.h"
#include "remarks.h"
#include "scene_file.h"

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/projection.h>
#include <linchpin/scene/analysis.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/modes.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

bool has(const std::vector<int>& list, int i) { return std::find(list.begin(), list.end(), i) != list.end(); }

Json strings(const std::vector<int>& indices, const scene::Model& model) {
  Json out = Json::array();
  for (const int i : indices) out.push_back(model.constraints[static_cast<std::size_t>(i)].name);
  return out;
}

// "holonomic, rheonomic", as the books have it.
std::string words(const scene::Classification& c) {
  std::string out = to_string(c.kind);
  if (!c.linear) out += ", not linear in the velocities";
  out += c.rheonomic ? ", rheonomic" : ", scleronomic";
  if (c.kind != scene::Integrability::holonomic || !c.catastatic)
    out += c.catastatic ? ", catastatic" : ", acatastatic";
  if (!c.integral.empty()) out += "; the rate of " + c.integral;
  return out;
}

// As the constraint is written: on positions, with the rate where it is not zero; or on velocities.
std::string residuals(const Json& c) {
  const double velocity = c["velocity_residual"];
  if (c["class"] != to_string(scene::Integrability::holonomic)) return brief(velocity);
  return brief(c["residual"]) + (velocity > 1e-12 ? ", of its rate " + brief(velocity) : "");
}

// Rows no velocities meet together: what is left of them after the projection a run begins with.
void find_unmet_velocities(const System& system, const Dynamics& dynamics, State state, std::vector<bool>& unmet) {
  const std::vector<double> before = dynamics.assembly().velocity;
  (void)project_velocities(system, dynamics, state);
  Assembly after;
  after.layout = whole_system(system);
  assemble_constraints(system, state, after);
  if (!after.failure.empty()) return;
  double fastest = 1;
  for (const double v : after.v) fastest = std::max(fastest, std::abs(v));
  const ConstrainedProblem& in = after.problem;
  for (std::size_t r = 0; r < unmet.size(); ++r) {
    double size = std::abs(before[r]);
    for (int e = in.row_start[r]; e < in.row_start[r + 1]; ++e)
      size = std::max(size, fastest * std::abs(in.entries[static_cast<std::size_t>(e)].value));
    unmet[r] = std::abs(after.velocity[r]) > 1e-8 * size + 1e-13;
  }
}

Json combination_json(const scene::IntegrableCombination& each, const System& system) {
  Json rows = Json::array();
  for (const scene::IntegrableCombination::Row& row : each.rows)
    rows.push_back({{"constraint", system.constraint(row.constraint).name()},
                    {"row", row.row + 1},
                    {"coefficient", row.coefficient}});
  return {
      {"rows", rows}, {"constant", each.constant}, {"integral", each.integral.empty() ? Json() : Json(each.integral)}};
}

// "row 3 of rolling", "0.5 of row 1 of front + row 2 of rear".
std::string combination_text(const Json& each) {
  std::string out;
  for (const Json& row : each["rows"]) {
    const double x = row["coefficient"];
    const std::string name =
        "row " + std::to_string(row["row"].get<int>()) + " of " + row["constraint"].get<std::string>();
    out += out.empty() ? (x < 0 ? "-" : "") : (x < 0 ? " - " : " + ");
    out += (std::abs(std::abs(x) - 1) < 1e-9 ? "" : brief(std::abs(x)) + " of ") + name;
  }
  const bool one = each["rows"].size() == 1;
  out += !one && !each["constant"].get<bool>() ? ", with the coefficients at the start," : "";
  return out + " is integrable: it is " +
         (each["integral"].is_string() ? "the rate of " + each["integral"].get<std::string>()
                                       : std::string("a condition on positions"));
}

struct CheckArguments {
  std::string scene;
  bool json = false, frames = false;
};

Json json_of(const Vector3d& v) { return {v.x(), v.y(), v.z()}; }
Json json_of(const Quaterniond& q) {
  const double sign = q.w() < 0 ? -1 : 1;
  return {sign * q.w(), sign * q.x(), sign * q.y(), sign * q.z()};
}

// Where the centre of mass and the axes of its body are in each frame, and where the frame is at the start.
Json frames_json(const scene::Model& model, const State& start) {
  Json out = Json::array();
  for (const scene::SceneFrame& frame : model.frames) {
    const BodyState& body = start[frame.body];
    const Quaterniond& q_BF = frame.in_body.q;
    out.push_back({{"name", frame.name},
                   {"body", frame.body == ground ? "world" : model.bodies[std::size_t(frame.body.index) - 1].name},
                   {"centre_of_mass", json_of(Vector3d(-(q_BF.conjugate() * frame.in_body.p)))},
                   {"body_axes", json_of(q_BF.conjugate())},
                   {"position", json_of(body.point(frame.in_body.p))},
                   {"rotation", json_of((body.q * q_BF).normalized())}});
  }
  return out;
}

void print_frames(const Json& frames) {
  if (frames.empty()) {
    std::cout << "the scene has no frames: links of robots and [[frame]] have them\n";
    return;
  }
  std::size_t name = 5, body = 4;
  for (const Json& each : frames) {
    name = std::max(name, each["name"].get<std::string>().size());
    body = std::max(body, each["body"].get<std::string>().size());
  }
  const auto padded = [](std::string text, std::size_t to) {
    return text + std::string(to - std::min(to, text.size()) + 2, ' ');
  };
  const auto row = [&](const Json& v) {
    std::string out;
    for (const Json& x : v) {
      char text[24];
      std::snprintf(text, sizeof text, "%9.5f ", std::abs(x.get<double>()) < 5e-6 ? 0 : x.get<double>());
      out += text;
    }
    return out;
  };
  std::cout << padded("frame", name) << padded("body", body) << padded("   centre of mass in it [m]", 32)
            << padded("body axes in it (w, x, y, z)", 42) << "origin at the start [m]\n";
  for (const Json& each : frames)
    std::cout << padded(each["name"], name) << padded(each["body"], body) << padded(row(each["centre_of_mass"]), 32)
              << padded(row(each["body_axes"]), 42) << row(each["position"]) << "\n";
}

// The limits of joints that constraints of linchpin hold. @param on_host  the model as the host takes it
Json limits_json(const scene::Model& model, const scene::Model& on_host) {
  Json out = Json::array();
  for (std::size_t i = model.constraints.size(); i < on_host.constraints.size(); ++i)
    out.push_back(on_host.constraints[i].name);
  return out;
}

void print_limits(const Json& limits, bool bare) {
  if (limits.empty()) return;
  const scene::Note note(bare ? "the host bare holds the limits of joints by unilateral constraints"
                              : "linchpin holds the limits of joints in compound joints by unilateral constraints",
                         limits.get<std::vector<std::string>>());
  std::cout << note.shown(6) << "\n";
}

int run_check(const CheckArguments& arguments) {
  const auto model = open_model(arguments.scene);
  if (!model) return exit_bad_input;
  System system = model->system();
  const State start = system.initial_state();
  // What is open at the start and may engage later holds nothing there.
  std::vector<char> open;
  for (const scene::SceneConstraint& c : model->constraints) {
    const ConstraintId id = system.find_constraint(c.name);
    open.push_back(c.unilateral && c.unilateral->reengage && scene::is_open(system, id, start));
    if (open.back()) system.enable(id, false);
  }
  Dynamics dynamics(system, model->options.solve);
  if (dynamics.evaluate(start) == Status::invalid) {
    complain(arguments.scene, {}, dynamics.reason());
    return exit_physics;
  }
  const RankReport rank = rank_of(dynamics);
  const Assembly& assembly = dynamics.assembly();

  Json result;
  result["schema"] = 2;
  result["scene"] = arguments.scene;
  result["bodies"] = model->bodies.size();
  result["columns"] = assembly.layout.n();
  result["rows"] = assembly.layout.m();
  result["rank"] = rank.rank;
  result["degrees_of_freedom"] = assembly.layout.n() - rank.rank;
  result["constraints"] = Json::array();
  std::vector<std::string> wrong;
  // What cannot be closed contradicts something, however well its accelerations agree.
  State closed = start;
  const double left = project_positions(system, dynamics, closed, 1e-12, 300);
  std::vector<bool> unmet(static_cast<std::size_t>(assembly.layout.m()), false);  // by row
  Dynamics there(system, model->options.solve);
  if (there.evaluate(closed) != Status::invalid) {
    const Assembly& a = there.assembly();
    if (left > 1e-8)
      for (std::size_t r = 0; r < unmet.size(); ++r) unmet[r] = std::abs(a.position[r]) > 1e-9;
    else
      find_unmet_velocities(system, there, closed, unmet);
  }
  std::vector<int> contradictory = rank.contradictory;
  std::vector<scene::Classification> kinds(static_cast<std::size_t>(system.constraint_count()));
  std::size_t place = 0;  // in the layout
  for (int i = 0; i < static_cast<int>(model->constraints.size()); ++i) {
    const scene::SceneConstraint& c = model->constraints[static_cast<std::size_t>(i)];
    const ConstraintId id = system.find_constraint(c.name);
    const ConstraintCheck check = check_constraint(system, system.constraint(id), start);
    const scene::Classification kind = kinds[static_cast<std::size_t>(id.index)] = scene::classify(system, id, start);
    double residual = 0;
    bool still_open = false;
    const bool holds = !open[static_cast<std::size_t>(i)];
    for (int r = assembly.layout.row[place]; holds && r < assembly.layout.row[place + 1]; ++r) {
      residual = std::max(residual, std::abs(assembly.position[static_cast<std::size_t>(r)]));
      still_open = still_open || unmet[static_cast<std::size_t>(r)];
    }
    place += holds;
    if (still_open && !has(contradictory, i)) contradictory.push_back(i);
    if (!check.ok()) wrong.push_back(check.message);
    if (kind.zero_jacobian && !kind.linear)
      wrong.push_back(
          "constraint \"" + c.name +
          "\": the derivatives of one of its rows are all zero at the start, so no force can hold it. Write x = 0 "
          "instead of x^2 = 0, and start where the equation has a gradient");
    result["constraints"].push_back(
        {{"name", c.name},
         {"type", c.type},
         {"rows", system.constraint(id).function().rows()},
         {"residual", residual},
         {"velocity_residual", holds ? check.velocity : 0.0},
         {"derivative_error", std::max({check.error_A, check.error_b, check.error_velocity})},
         {"derivatives_ok", check.ok()},
         {"redundant", has(rank.redundant, i)},
         {"determined", !has(rank.undetermined, i)},
         {"contradictory", has(contradictory, i)},
         {"class", to_string(kind.kind)},
         {"linear", kind.linear},
         {"rheonomic", kind.rheonomic},
         {"catastatic", kind.catastatic},
         {"zero_jacobian", kind.zero_jacobian},
         {"integral", kind.integral.empty() ? Json() : Json(kind.integral)},
         {"description", words(kind) + (c.unilateral ? ", unilateral" : "") +
                             (c.compliance ? ", with compliance" : "") + (c.dry_friction ? ", with dry friction" : "") +
                             (holds ? "" : ", open at the start, so it has no force there")}});
  }
  result["integrable"] = Json::array();
  for (const scene::IntegrableCombination& each : integrable_combinations(system, kinds, closed))
    result["integrable"].push_back(combination_json(each, system));
  result["frames"] = frames_json(*model, start);
  const bool bare = model->host == scene::Host::bare;
  const scene::Model on_host = bare ? scene::with_joint_limits(*model) : scene::with_compound_limits(*model);
  result["native"] = on_host.native;
  result["limits"] = limits_json(*model, on_host);
  std::vector<std::string> warnings = model->warnings;
  for (const std::string& each : dynamics.warnings()) take_warning(each, warnings);
  for (std::size_t i = model->warnings.size(); i < warnings.size(); ++i)  // The others are printed with their places.
    std::cerr << arguments.scene << ": warning: " << warnings[i] << "\n";
  result["warnings"] = warnings;
  result["notes"] = Json::array();
  for (const scene::Note& each : model->notes) result["notes"].push_back(each.shown());
  result["redundant"] = strings(rank.redundant, *model);
  result["undetermined"] = strings(rank.undetermined, *model);
  result["contradictory"] = strings(contradictory, *model);
  result["status"] = !contradictory.empty() ? "contradictory" : !wrong.empty() ? "wrong" : "ok";

  if (arguments.json) {
    std::cout << result.dump(2) << "\n";
  } else if (arguments.frames) {
    print_frames(result["frames"]);
  } else {
    const bool has_coordinates = static_cast<bool>(model->kinetics);
    std::size_t widest = 4;
    for (const Json& c : result["constraints"]) widest = std::max(widest, c["name"].get<std::string>().size());
    for (const Json& c : result["constraints"]) {
      const std::string name = c["name"];
      std::cout << name << std::string(widest - name.size() + 2, ' ') << c["rows"].get<int>()
                << (c["rows"] == 1 ? " row   " : " rows  ") << "residual " << residuals(c) << "  derivative error "
                << brief(c["derivative_error"]) << "  " << c["description"].get<std::string>()
                << (c["contradictory"].get<bool>()   ? "  CONTRADICTORY"
                    : c["zero_jacobian"].get<bool>() ? "  zero Jacobian at the start"
                    : !c["determined"].get<bool>()   ? "  redundant, force undetermined"
                    : c["redundant"].get<bool>()     ? "  redundant, force determined"
                                                     : "")
                << "\n";
    }
    for (const Json& each : result["integrable"]) std::cout << combination_text(each) << "\n";
    const long bodies = static_cast<long>(model->bodies.size());
    std::cout << (has_coordinates ? "bodies and coordinates: " + std::to_string(bodies)
                                  : counted(bodies, "body", "bodies"))
              << " with " << counted(assembly.layout.n(), "velocity", "velocities") << ", "
              << counted(assembly.layout.m(), "equation") << " of rank " << rank.rank << ": "
              << counted(assembly.layout.n() - rank.rank, "degree") << " of freedom\n";
    print_limits(result["limits"], bare);
    for (const std::string& each : on_host.native)
      std::cout << (bare ? "the host bare leaves out: " : "left to the native solver: ") << each << "\n";
  }
  for (const std::string& each : wrong) std::cerr << arguments.scene << ": " << each << "\n";
  if (!contradictory.empty()) {
    std::cerr << arguments.scene
              << (contradictory.size() == 1 ? ": no motion satisfies this constraint: "
                                            : ": no motion satisfies these constraints together: ")
              << recording::some(result["contradictory"], contradictory.size())
              << (contradictory.size() == 1 ? ". Correct it, or the start\n"
                                            : ". Remove one of them, or correct the start\n");
  }
  return contradictory.empty() && wrong.empty() ? exit_ok : exit_physics;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<CheckArguments>();
  CLI::App* verb = app.add_subcommand(
      "check", "Check a scene without running it: rank, start, derivatives and the kind of every constraint");
  verb->add_option("SCENE", arguments->scene, "A .toml scene, a .urdf or .sdf robot, a .bullet file or an MJCF file")
      ->required();
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->add_flag("--frames", arguments->frames,
                 "Print the named frames instead: of robots' links and joints, and of [[frame]]");
  verb->footer(
      "holonomic: an equation on positions. exact, integrable with a factor: an equation on velocities that is\n"
      "equivalent to one on positions. This is found from the derivatives of its coefficients, to 1e-7 of their\n"
      "size and 1e-10 of that of the row. nonholonomic: an equation on velocities that is not. Combinations of\n"
      "its rows may be integrable and are then listed.\n"
      "rheonomic: it depends on time, or its integral does because it has a term without a velocity. scleronomic:\n"
      "it does not. catastatic: bodies at rest satisfy it. acatastatic: they do not.\n"
      "derivative error: relative difference of the derivatives from finite differences of the residual.\n"
      "residual: that of the start as written. The command run closes it before the first step.\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 constraints contradict each other or a derivative is wrong.");
  verb->callback([arguments, &exit_code] { exit_code = run_check(*arguments); });
}

}  // namespace linchpin::cli
