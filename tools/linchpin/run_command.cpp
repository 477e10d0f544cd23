// `linchpin run`: one scene under one solver, for what it says of the motion and, on request, every number of it.
#include "bare_worker.h"
#include "commands.h"
#include "messages.h"
#include "mjcf.h"
#include "mode_changes.h"
#include "recording/compare_text.h"
#include "recording/output_file.h"
#include "report_file.h"
#include "scene_file.h"
#include "simulation_options.h"
#include "solver_spec.h"
#include "verdicts.h"
#include "watch_status.h"
#include "worker_process.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

struct RunArguments {
  SimulationOptions simulation;
  std::string solver = "exact", host, csv, method;
  ReportOptions report;
  bool json = false;
};

// Keys of a row that are of the scene, not of the solver.
constexpr const char* moved_out[] = {"gravity", "gravity_from", "bodies", "joints"};

/// What runs a scene: a host of scenes, or MuJoCo, which runs MJCF files.
struct RunHost {
  scene::Host host = scene::Host::bare;
  bool mujoco = false;
  std::string name() const { return mujoco ? "mujoco" : to_string(host); }
  bool is_bare() const { return !mujoco && host == scene::Host::bare; }
  Engine engine() const {
    return mujoco ? Engine::mujoco : host == scene::Host::bullet ? Engine::bullet : Engine::bullet_float64;
  }
};

// What is said of the run, whatever the solver did.
Json frame_of(const Simulation& simulation, const RunHost& host, const Json& row) {
  Json result;
  result["schema"] = 2;
  result["scene"] = simulation.scene;
  result["dt"] = simulation.dt;
  result["duration"] = simulation.dt * static_cast<double>(simulation.steps);
  result["host"] = host.name();
  for (const char* key : moved_out) result[key] = row[key];
  return result;
}

void print(const RunArguments& arguments, const Simulation& simulation, const RunHost& host, Json row) {
  if (!arguments.json) {
    std::cout << row.value("summary", std::string());
    if (row.contains("energy_gains")) std::cout << energy_gains_text(row);
    if (row.contains("mode_changes")) std::cout << mode_changes_text(row["mode_changes"]);
    if (row["status"] != "ok") std::cout << "status: " << row["status"].get<std::string>() << "\n";
    if (row.contains("expect")) std::cout << "expected\n" << verdicts_text(row["expect"]);
    if (!arguments.csv.empty()) std::cout << "wrote " << arguments.csv << "\n";
    for (const std::string& file : arguments.report.files()) std::cout << "wrote " << file << "\n";
    return;
  }
  Json result = frame_of(simulation, host, row);
  for (const char* key : moved_out) row.erase(key);
  result["csv"] = arguments.csv.empty() ? Json() : Json(arguments.csv);
  result["solver"] = std::move(row);
  std::cout << result.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

const std::vector<std::string> scene_hosts = {"bare", "bullet", "bullet-float64"};

void demand_host(const std::string& host) {
  if (host.empty() || host == "mujoco" || std::count(scene_hosts.begin(), scene_hosts.end(), host) > 0) return;
  std::vector<std::string> all = scene_hosts;
  all.emplace_back("mujoco");
  const std::string near = nearest(host, all);
  throw std::invalid_argument("--host is \"" + host + "\", expected bare, bullet, bullet-float64 or mujoco" +
                              (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

// MuJoCo, unless the option or the solver is of another host.
MjcfHosts hosts_of(const RunArguments& arguments, const SolverSpec& solver) {
  const bool others = arguments.host.empty() ? solver.is_of_bullet() : arguments.host != "mujoco";
  return {!others, others, arguments.host.empty() && !solver.is_of_mujoco()};
}

RunHost host_of(const RunArguments& arguments, const Opened& opened, const SolverSpec& solver) {
  demand_solver_of(opened.mjcf, solver);
  if (opened.mjcf) return {scene::Host::bare, true};
  if (arguments.host == "mujoco")
    throw std::invalid_argument("--host mujoco runs MJCF files only. Use bare, bullet or bullet-float64 for this file");
  if (arguments.host.empty())
    return {opened.host == scene::Host::bare && solver.kind != "exact" ? scene::Host::bullet_float64 : opened.host};
  const auto found = std::find(scene_hosts.begin(), scene_hosts.end(), arguments.host);
  const scene::Host host = static_cast<scene::Host>(found - scene_hosts.begin());
  if (host == scene::Host::bare && solver.kind != "exact")
    throw std::invalid_argument("--host bare has the solver exact only. " + solver.name +
                                " needs --host bullet or bullet-float64");
  if (host == scene::Host::bare && !opened.model)
    throw std::invalid_argument(
        "--host bare runs .toml, .urdf and .sdf files only. A .bullet file needs --host bullet or bullet-float64");
  return {host};
}

WorkerAnswer run_on(const RunHost& host, const Opened& opened, const Simulation& simulation, const SolverSpec& solver,
                    const std::string& csv, const ReportFiles& report, const std::optional<Method>& method) {
  if (!host.is_bare()) {
    Json job = job_for(simulation, solver);
    if (!host.mujoco) job["mjcf"] = imported_mjcf();
    job["time_apart"] = false;
    job["csv"] = csv;
    if (report.wanted()) job["record"] = report.recording_json();
    return run_worker(host.engine(), job, solver.name + ", " + host.name());
  }
  scene::Model model = *opened.model;
  if (method) model.options.method = *method;
  return run_bare_as_worker(model, simulation, csv, report.recording());
}

std::optional<Method> method_of(const RunArguments& arguments, const RunHost& host) {
  if (arguments.method.empty()) return {};
  std::vector<std::string> names;
  for (const Method method : all_methods) {
    names.emplace_back(to_string(method));
    if (names.back() != arguments.method) continue;
    if (host.is_bare()) return method;
    if (host.mujoco)
      throw std::invalid_argument(
          "--method applies to --host bare only. For MuJoCo, set integrator in <option> of the file");
    throw std::invalid_argument(
        "--method applies to --host bare only. For Bullet, write stepping = \"…\" in the scene");
  }
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  const std::string near = nearest(arguments.method, names);
  throw std::invalid_argument("--method is \"" + arguments.method + "\", expected one of " + known +
                              (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

int run_run(const RunArguments& arguments) try {
  const SolverSpec solver = parse_solver(arguments.solver);
  if (!solver.host.empty())
    throw std::invalid_argument("solver \"" + solver.name + "\" is one of compare. Use --solver exact --host " +
                                (solver.is_bare() ? "bare" : "bullet-float64"));
  demand_host(arguments.host);
  const auto opened = arguments.simulation.open(hosts_of(arguments, solver));
  if (!opened) return exit_bad_input;
  const Simulation simulation = arguments.simulation.check(*opened);
  const RunHost host = host_of(arguments, *opened, solver);
  const std::optional<Method> method = method_of(arguments, host);
  auto outputs = arguments.report.outputs();
  outputs.emplace_back("--csv", arguments.csv);
  demand_other_places(outputs);
  OutputFile output("--csv", arguments.csv, opened->files);
  ReportFiles report(arguments.report, opened->files, 1);

  WorkerAnswer answer = run_on(host, *opened, simulation, solver, output.temporary(), report, method);
  switch (answer.kind) {
    case WorkerAnswer::Kind::row:
      break;
    case WorkerAnswer::Kind::toml:
      std::cerr << answer.message << "\n";
      return exit_bad_input;
    case WorkerAnswer::Kind::scene:
      complain(simulation.scene, {}, answer.message);
      return exit_bad_input;
    case WorkerAnswer::Kind::csv:
      return misused("run", "--csv: \"" + arguments.csv + "\" " + answer.message);
    case WorkerAnswer::Kind::missing:
      return misused("run", answer.message);
    case WorkerAnswer::Kind::refused:
    case WorkerAnswer::Kind::died:
      std::cerr << "linchpin run: " << solver.name << ": " << answer.message << "\n";
      return exit_physics;
  }
  Json motions = Json::array();
  motions.push_back(answer.row.contains("motion") ? std::move(answer.row["motion"]) : Json());
  answer.row.erase("motion");
  if (report.wanted()) {
    Json comparison = frame_of(simulation, host, answer.row);
    Json row = empty_row(solver.name, answer.row["precision"], "");
    row.update(answer.row);
    row.erase("summary");
    for (const char* key : moved_out) row.erase(key);
    comparison["solvers"] = Json::array({std::move(row)});
    report.write("run", simulation.scene, comparison, std::move(motions));
  }
  output.keep();  // rows up to a failure are worth having
  print(arguments, simulation, host, answer.row);
  if (answer.row["status"].get<std::string>().starts_with("ok")) {
    const Json expected = answer.row.value("expect", Json::array());
    const int wrong = unmet(expected);
    if (wrong == 0) return exit_ok;
    const long unjudged = std::count_if(expected.begin(), expected.end(), [](const Json& v) {
      return v["met"].is_boolean() && v.contains("not_judged");
    });
    if (unjudged > 0)
      std::cerr << "linchpin run: " << counted(unjudged, "expectation")
                << " could not be tested, because the run ended before their time or a force is not known\n";
    if (wrong > unjudged)
      std::cerr << "linchpin run: " << wrong - unjudged
                << (wrong - unjudged == 1 ? " expectation of the scene ([[expect]]) was"
                                          : " expectations of the scene ([[expect]]) were")
                << " not met. If you have changed the scene, change its expectations too\n";
    return exit_physics;
  }
  std::cerr << "linchpin run: " << solver.name << ": " << answer.row["status"].get<std::string>() << "\n";
  return exit_physics;
} catch (const std::invalid_argument& e) {
  return misused("run", e.what());
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* verb = app.add_subcommand("run", "Run a scene with one solver; options write motion and forces to files");
  arguments->simulation.add_to(*verb, false);
  verb->add_option(
          "--solver", arguments->solver,
          "exact, bullet:si[:N], bullet:nncg[:N], bullet:mlcp or bullet:lemke; for an MJCF file exact, mujoco or "
          "mujoco:stiff")
      ->capture_default_str();
  verb->add_option(
          "--host", arguments->host,
          "bare (no engine), bullet (single precision), bullet-float64 (double precision) or mujoco (MJCF files). "
          "Default: that of the scene, bullet-float64 for a .bullet file, or mujoco for an MJCF file")
      ->type_name("{bare,bullet,bullet-float64,mujoco}");
  std::string methods;
  for (const Method method : all_methods) methods += (methods.empty() ? "" : ",") + std::string(to_string(method));
  verb->add_option("--method", arguments->method, "Integration method of --host bare. Default: that of the scene")
      ->type_name("{" + methods + "}");
  verb->add_option("--csv", arguments->csv,
                   "Write one row per step: the state at its start, and the gaps and forces at that state. A last row "
                   "has the state at the end");
  arguments->report.add_to(*verb);
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->footer(
      "A run continues if constraints contradict each other, and its status lists them.\n"
      "A run of the solver exact fails if the native solver had to solve constraints in more than half of its\n"
      "steps.\n"
      "A run also fails if energy grew without a source. Its status names the bodies.\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 the solver failed or an expectation of the scene was not met.\n"
      "With --json, stdout stays empty on exit codes 2 and 3. The error is on stderr.");
  verb->callback([arguments, &exit_code] { exit_code = run_run(*arguments); });
}

}  // namespace linchpin::cli
