// `linchpin compare`: the same scene under several solvers, one worker process each.
#include "bare_worker.h"
#include "commands.h"
#include "messages.h"
#include "mjcf.h"
#include "recording/compare_text.h"
#include "recording/gltf.h"
#include "recording/mcap.h"
#include "recording/output_file.h"
#include "recording/page.h"
#include "recording_file.h"
#include "report_file.h"
#include "scene_file.h"
#include "simulation_options.h"
#include "solver_spec.h"
#include "worker_process.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::cli {

namespace {

struct CompareArguments {
  SimulationOptions simulation;
  std::string with, precision, csv;
  ReportOptions report;
  std::vector<std::string> more;
  bool json = false;
};

std::vector<std::string> precisions(const std::string& word) {
  if (word.empty()) return {"double"};
  if (word == "both") return {"double", "single"};
  if (word == "double" || word == "single") return {word};
  throw std::invalid_argument("--precision is \"" + word + "\", expected single, double or both");
}

// PREFIX-bullet-si-50-double.csv
std::string table_of(const std::string& prefix, const SolverSpec& solver, const std::string& precision) {
  if (prefix.empty()) return {};
  std::string name = solver.name;
  std::replace(name.begin(), name.end(), ':', '-');
  return prefix + "-" + name + "-" + precision + ".csv";
}

// The host of a solver.
enum class RunsOn { bare, bullet, bullet_float64, mujoco };

struct ComparedRun {
  SolverSpec solver;
  std::string precision;
  RunsOn on = RunsOn::bullet_float64;
};

// MuJoCo for an MJCF file, unless all solvers are of other hosts.
MjcfHosts hosts_of_all(const std::vector<SolverSpec>& solvers) {
  MjcfHosts out{solvers.empty(), false, false};
  for (const SolverSpec& solver : solvers) {
    const bool other = solver.is_of_bullet() || solver.is_bare();
    out.others = out.others || other;
    out.mujoco = out.mujoco || !other;
  }
  return out;
}

void demand_solvers(const Opened& opened, const std::vector<SolverSpec>& solvers, const std::string& precision) {
  const bool all_mujoco =
      opened.mjcf && std::none_of(solvers.begin(), solvers.end(), [](const auto& s) { return s.is_of_bullet(); });
  if (all_mujoco && !precision.empty())
    throw std::invalid_argument("--precision applies to Bullet, and MuJoCo computes in double precision. Leave it out");
  for (const SolverSpec& solver : solvers) {
    if (!opened.mjcf) demand_solver_of(false, solver);
    if (solver.is_bare() && !opened.model)
      throw std::invalid_argument("solver \"bare:exact\" runs .toml, .urdf, .sdf and MJCF files only. Leave it out");
  }
}

// Bullet runs in each precision, the other hosts in double precision.
std::vector<ComparedRun> runs_of(const Opened& opened, const std::vector<SolverSpec>& solvers,
                                 const std::vector<std::string>& in) {
  std::vector<ComparedRun> out;
  for (const SolverSpec& solver : solvers) {
    if (solver.is_bare() || (opened.mjcf && !solver.is_of_bullet())) {
      out.push_back({solver, "double", solver.is_bare() ? RunsOn::bare : RunsOn::mujoco});
      continue;
    }
    for (const std::string& precision : in)
      out.push_back({solver, precision, precision == "single" ? RunsOn::bullet : RunsOn::bullet_float64});
  }
  return out;
}

WorkerAnswer run_compared(RunsOn on, const Opened& opened, const Simulation& simulation, Json job,
                          const ReportFiles& report, const std::string& title) {
  switch (on) {
    case RunsOn::bare:
      break;
    case RunsOn::mujoco:
      return run_worker(Engine::mujoco, job, title);
    default:
      job["mjcf"] = imported_mjcf();
      return run_worker(on == RunsOn::bullet ? Engine::bullet : Engine::bullet_float64, job, title);
  }
  const std::string name = job["solver"];
  WorkerAnswer answer = run_bare_as_worker(*opened.model, simulation, job["csv"], report.recording());
  if (answer.kind != WorkerAnswer::Kind::row) return answer;
  Json row = empty_row(name, "double", "");
  row.update(answer.row);
  row["name"] = name;
  row["force_note"] = "there is no dense solution to compare with, because the host bare solves by itself";
  answer.row = std::move(row);
  return answer;
}

void print(const Json& comparison, bool json) {
  std::cout << (json ? comparison.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                     : comparison_text(comparison));
  std::cout.flush();
}

bool failed(const Json& row) { return is_exact(row) && !row.at("status").get<std::string>().starts_with("ok"); }

// A comparison without a number is none.
int verdict(const Json& rows) {
  if (std::any_of(rows.begin(), rows.end(), failed)) return exit_physics;
  if (std::any_of(rows.begin(), rows.end(),
                  [](const Json& row) { return row.at("status").get<std::string>().starts_with("ok"); }))
    return exit_ok;
  std::cerr << "linchpin compare: no solver finished. The table gives the reason for each\n";
  return exit_physics;
}

// Runs that were recorded: nothing is run, so what is of a run is refused.
int compare_recordings(const CompareArguments& arguments, const CLI::App& verb) try {
  for (const char* option :
       {"--dt", "--duration", "--warmup-steps", "--gravity", "--with", "--precision", "--csv", "--frames"})
    if (verb.count(option) > 0)
      throw std::invalid_argument(std::string(option) +
                                  " has no effect on recordings, which have already been run. Leave it out");
  demand_other_places(arguments.report.outputs());
  std::vector<std::string> files = {arguments.simulation.scene};
  files.insert(files.end(), arguments.more.begin(), arguments.more.end());
  OutputFile page("--report", arguments.report.report, files, "recording");
  OutputFile record("--record", arguments.report.record, files, "recording");
  OutputFile animation("--gltf", arguments.report.gltf, files, "recording");
  OutputFile log("--mcap", arguments.report.mcap, files, "recording");
  const bool binary = is_binary_gltf(arguments.report.gltf);
  Json all;
  if (!read_recordings(files, all)) return exit_bad_input;
  const Json& comparison = all.at("comparison");
  const std::string shown = arguments.report.gltf.empty() ? "" : gltf(all, binary);
  log.write(arguments.report.mcap.empty() ? "" : mcap(all));
  animation.write(shown);
  if (!arguments.report.record.empty()) record.write(all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!arguments.report.report.empty()) page.write(report_page(all));
  print(comparison, arguments.json);
  return verdict(comparison.at("solvers"));
} catch (const std::invalid_argument& e) {
  std::cerr << "linchpin compare: " << e.what() << "\n";
  return exit_usage;
}

int run_compare(const CompareArguments& arguments) try {
  std::vector<SolverSpec> solvers;
  if (!arguments.with.empty()) solvers = parse_solvers(arguments.with);
  const auto opened = arguments.simulation.open(hosts_of_all(solvers));
  if (!opened) return exit_bad_input;
  if (solvers.empty()) solvers = parse_solvers(opened->mjcf ? default_mujoco_solvers : default_solvers);
  demand_solvers(*opened, solvers, arguments.precision);
  const std::vector<ComparedRun> runs = runs_of(*opened, solvers, precisions(arguments.precision));
  const Simulation simulation = arguments.simulation.check(*opened);
  Json result;
  result["schema"] = 2;
  result["scene"] = simulation.scene;
  result["dt"] = simulation.dt;
  result["duration"] = simulation.dt * static_cast<double>(simulation.steps);
  result["warmup_steps"] = simulation.warmup_steps;
  for (const char* key : {"gravity", "gravity_from", "bodies", "joints"}) result[key] = nullptr;
  result["solvers"] = Json::array();
  std::vector<std::string> failures;
  auto outputs = arguments.report.outputs();
  for (const auto& [solver, precision, on] : runs)
    outputs.emplace_back("--csv", table_of(arguments.csv, solver, precision));
  demand_other_places(outputs);
  std::vector<std::unique_ptr<OutputFile>> tables;  // kept at the end: a comparison that is refused leaves no files
  ReportFiles report(arguments.report, opened->files, runs.size());
  Json motions = Json::array();
  for (const auto& [solver, precision, on] : runs) {
    auto output = std::make_unique<OutputFile>("--csv", table_of(arguments.csv, solver, precision), opened->files);
    Json job = job_for(simulation, solver);
    job["csv"] = output->temporary();
    if (report.wanted()) job["record"] = report.recording_json();
    const WorkerAnswer answer = run_compared(on, *opened, simulation, job, report, solver.name + ", " + precision);
    Json row;
    switch (answer.kind) {
      case WorkerAnswer::Kind::row:
        row = answer.row;
        tables.push_back(std::move(output));
        for (const char* key : {"gravity", "gravity_from", "bodies", "joints"}) {
          if (result[key].is_null()) result[key] = row[key];  // in double precision, where that was asked for
          row.erase(key);
        }
        row.erase("summary");
        break;
      case WorkerAnswer::Kind::scene:
        complain(simulation.scene, {}, answer.message);
        return exit_bad_input;
      case WorkerAnswer::Kind::toml:
        std::cerr << answer.message << "\n";
        return exit_bad_input;
      case WorkerAnswer::Kind::refused:
        row = empty_row(solver.name, precision, "refused: " + answer.message);
        break;
      case WorkerAnswer::Kind::csv:
      case WorkerAnswer::Kind::died:
        row = empty_row(solver.name, precision, answer.message);
        break;
      case WorkerAnswer::Kind::missing:
        std::cerr << "linchpin compare: " << answer.message << "\n";
        return exit_usage;
    }
    motions.push_back(row.contains("motion") ? std::move(row["motion"]) : Json());
    row.erase("motion");
    if (failed(row))
      failures.push_back(row["name"].get<std::string>() + ", " + precision + ": " + row["status"].get<std::string>());
    result["solvers"].push_back(std::move(row));
  }
  report.write("compare", simulation.scene, result, std::move(motions));
  for (const auto& table : tables) table->keep();
  print(result, arguments.json);
  for (const std::string& each : failures) std::cerr << "linchpin compare: " << each << "\n";
  return verdict(result["solvers"]);
} catch (const std::invalid_argument& e) {
  std::cerr << "linchpin compare: " << e.what() << "\n";
  return exit_usage;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* verb =
      app.add_subcommand("compare", "Run a scene with several solvers and compare gaps, forces, energy and time");
  arguments->simulation.add_to(*verb, true);
  verb->add_option("RECORDING", arguments->more, "Instead of a scene: recordings of one scene, written with --record");
  verb->add_option(
      "--with", arguments->with,
      "Solvers, separated by commas: exact, bullet:si[:N], bullet:nncg[:N] (N iterations, 10 by default), "
      "bullet:mlcp, bullet:lemke; for an MJCF file exact (in MuJoCo), mujoco (as the model is), mujoco:stiff "
      "(equalities at their stiffest) and those of Bullet; bullet:exact and bare:exact (without an engine). Default: " +
          std::string(default_solvers) + ", or " + default_mujoco_solvers + " for an MJCF file");
  verb->add_option("--precision", arguments->precision, "Precision of Bullet. Default: double")
      ->type_name("{single,double,both}");
  verb->add_option(
      "--csv", arguments->csv,
      "Prefix of tables, one per solver (PREFIX-exact-double.csv): states, gaps and forces as in run, and the "
      "energy and force errors, from which all numbers of the comparison but the times follow");
  arguments->report.add_to(*verb);
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->footer(
      "Force error: relative rms difference between the reported joint forces and a dense solution at the same\n"
      "state and with the same contacts, at samples over the run: sqrt(sum |reported - dense|^2 / sum |dense|^2).\n"
      "Where single reactions are undetermined, their sums on the bodies are compared. Impulse error: the same\n"
      "for the applied impulses.\n"
      "Energy error: largest change of the energy since the start, as drawn in a report. Where constraints\n"
      "prescribe motion, it is that of the energy minus their work, and a note says so. Native solvers do not\n"
      "report that work.\n"
      "A dash means that there is no number: the solver did not finish, no row has that unit, or the energy is\n"
      "not conserved.\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene or recording, 4 exact failed, or no solver finished.\n"
      "With --json, stdout stays empty on exit codes 2 and 3. The error is on stderr.");
  verb->callback([arguments, verb, &exit_code] {
    const bool recorded = !arguments->more.empty() || looks_like_recording(arguments->simulation.scene);
    exit_code = recorded ? compare_recordings(*arguments, *verb) : run_compare(*arguments);
  });
}

}  // namespace linchpin::cli
