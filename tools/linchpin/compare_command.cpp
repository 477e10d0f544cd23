// `linchpin compare`: the same scene under several solvers, one worker process each.
#include "commands.h"
#include "compare_text.h"
#include "messages.h"
#include "output_file.h"
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
#include <vector>

namespace linchpin::cli {

namespace {

struct CompareArguments {
  SimulationOptions simulation;
  std::string with = "exact,bullet:si", precision = "double", csv;
  bool json = false;
};

std::vector<std::string> precisions(const std::string& word) {
  if (word == "both") return {"double", "single"};
  if (word == "double" || word == "single") return {word};
  throw std::invalid_argument("--precision is \"" + word + "\", expected single, double or both");
}

// Of a solver that gave no numbers.
Json empty_row(const SolverSpec& solver, const std::string& precision, const std::string& status) {
  Json row;
  row["name"] = solver.name;
  row["precision"] = precision;
  row["steps"] = 0;
  for (const char* key : {"ns_per_step", "max_gap_m", "rms_gap_m", "max_gap_rad", "max_gap_joint"}) row[key] = nullptr;
  row["user_gaps"] = Json::object();
  for (const char* key : {"max_energy_error_J", "energy_note"}) row[key] = nullptr;
  row["broken"] = 0;
  for (const char* key : {"force_rms_error_rel", "moment_rms_error_rel", "impulse_rms_error_rel"}) row[key] = nullptr;
  row["force_samples"] = 0;
  for (const char* key : {"force_basis", "force_note"}) row[key] = nullptr;
  row["fallbacks"] = 0;
  row["substepped"] = 0;
  row["gap_corrected_m"] = nullptr;
  row["native"] = Json::array();
  row["status"] = status;
  return row;
}

// PREFIX-bullet-si-50-double.csv
std::string table_of(const std::string& prefix, const SolverSpec& solver, const std::string& precision) {
  if (prefix.empty()) return {};
  std::string name = solver.name;
  std::replace(name.begin(), name.end(), ':', '-');
  return prefix + "-" + name + "-" + precision + ".csv";
}

int run_compare(const CompareArguments& arguments) try {
  Simulation simulation;
  std::vector<SolverSpec> solvers;
  std::vector<std::string> in;
  solvers = parse_solvers(arguments.with);
  in = precisions(arguments.precision);
  const auto opened = open_scene(arguments.simulation.scene);
  if (!opened) return exit_bad_input;
  simulation = arguments.simulation.check(*opened);
  Json result;
  result["schema"] = 1;
  result["scene"] = simulation.scene;
  result["dt"] = simulation.dt;
  result["duration"] = simulation.dt * static_cast<double>(simulation.steps);
  result["settle"] = simulation.settle;
  for (const char* key : {"gravity", "gravity_from", "bodies", "joints"}) result[key] = nullptr;
  result["solvers"] = Json::array();
  bool exact_failed = false;
  for (const SolverSpec& solver : solvers) {
    for (const std::string& precision : in) {
      OutputFile output(table_of(arguments.csv, solver, precision), simulation.scene);
      Json job = job_for(simulation, solver);
      job["csv"] = output.temporary();
      const WorkerAnswer answer = run_worker(precision, job, solver.name + ", " + precision);
      Json row;
      switch (answer.kind) {
        case WorkerAnswer::Kind::row:
          row = answer.row;
          output.keep();
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
          row = empty_row(solver, precision, "refused: " + answer.message);
          break;
        case WorkerAnswer::Kind::csv:
        case WorkerAnswer::Kind::died:
          row = empty_row(solver, precision, answer.message);
          break;
        case WorkerAnswer::Kind::missing:
          std::cerr << "linchpin compare: " << answer.message << "\n";
          return exit_usage;
      }
      exact_failed = exact_failed || (solver.kind == "exact" && !row["status"].get<std::string>().starts_with("ok"));
      result["solvers"].push_back(std::move(row));
    }
  }
  std::cout << (arguments.json ? result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                               : comparison_text(result));
  std::cout.flush();
  return exact_failed ? exit_physics : exit_ok;
} catch (const std::invalid_argument& e) {
  std::cerr << "linchpin compare: " << e.what() << "\n";
  return exit_usage;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* verb = app.add_subcommand("compare", "Run a scene under several solvers: gaps, forces, energy, time");
  arguments->simulation.add_to(*verb, true);
  verb->add_option("--with", arguments->with,
                   "Solvers, separated by commas: exact, bullet:si[:N], bullet:nncg[:N] (N iterations, 10 by default), "
                   "bullet:mlcp, bullet:lemke")
      ->capture_default_str();
  verb->add_option("--precision", arguments->precision, "Of Bullet: single, double or both")->capture_default_str();
  verb->add_option(
      "--csv", arguments->csv,
      "Write a table per solver, <this>-exact-double.csv and so on: states, gaps and forces as of run, and "
      "the energy and force errors from which all numbers but the time can be found again");
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->footer("Exit codes: 0 ok, 2 usage, 3 bad scene, 4 exact failed.");
  verb->callback([arguments, &exit_code] { exit_code = run_compare(*arguments); });
}

}  // namespace linchpin::cli
