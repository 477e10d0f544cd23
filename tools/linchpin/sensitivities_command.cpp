// `linchpin sensitivities`: the derivatives of a motion with respect to parameters of the scene.
#include "bullet_description.h"
#include "commands.h"
#include "csv.h"
#include "messages.h"
#include "mjcf.h"
#include "mjcf_scene.h"
#include "report_file.h"
#include "scene_file.h"
#include "scene_sensitivities.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

struct SensitivitiesArguments {
  std::string scene, until, csv;
  std::vector<std::string> to, columns;
  double dt = 0, duration = 0;
  bool has_dt = false, has_duration = false, json = false;
};

std::string derivative_title(const std::string& column, const std::string& parameter) {
  return "d(" + column.substr(0, column.rfind(" [")) + ")/d(" + parameter + ")";
}

void write_csv(const SceneSensitivities& of, const std::vector<std::string>& parameters, OutputFile& file) {
  std::string text = "t [s]";
  for (const std::string& column : of.columns) {
    text += "," + csv_field(column);
    for (const std::string& parameter : parameters) text += "," + csv_field(derivative_title(column, parameter));
  }
  text += "\n";
  for (const SensitivitySample& sample : of.samples) {
    text += csv_field(sample.t);
    for (std::size_t i = 0; i < of.columns.size(); ++i) {
      text += "," + csv_field(sample.value[i]);
      for (std::size_t j = 0; j < parameters.size(); ++j)
        text += "," + csv_field(sample.derivative[i * parameters.size() + j]);
    }
    text += "\n";
  }
  file.write(text);
}

Json result_json(const SensitivitiesArguments& arguments, const SceneSensitivities& of) {
  Json out = {{"schema", 1},
              {"scene", arguments.scene},
              {"method", of.method},
              {"left_out", of.left_out},
              {"warnings", of.warnings}};
  out["parameters"] = arguments.to;
  out["values"] = of.values;
  const SensitivitySample& end = of.samples.back();
  out["t"] = end.t;
  if (!of.end_time.empty()) out["t_derivatives"] = of.end_time;
  out["columns"] = Json::array();
  const auto p = static_cast<std::ptrdiff_t>(arguments.to.size());
  for (std::size_t i = 0; i < of.columns.size(); ++i) {
    const auto at = end.derivative.begin() + static_cast<std::ptrdiff_t>(i) * p;
    out["columns"].push_back(
        {{"column", of.columns[i]}, {"value", end.value[i]}, {"derivatives", std::vector<double>(at, at + p)}});
  }
  out["events"] = Json::array();
  for (const SensitivityEvent& event : of.events)
    out["events"].push_back(
        {{"t", event.t}, {"constraint", event.constraint}, {"what", event.what}, {"t_derivatives", event.time}});
  return out;
}

/// Prints rows of texts in columns: the first one left-aligned, the others right-aligned.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(width[i] - row[i].size(), ' ');
      std::cout << (i == 0 ? "" : "  ") << (i == 0 ? row[i] + space : space + row[i]);
    }
    std::cout << "\n";
  }
}

void print(const SensitivitiesArguments& arguments, const SceneSensitivities& of) {
  const SensitivitySample& end = of.samples.back();
  std::cout << "at t = " << significant(end.t) << " s";
  if (!of.end_time.empty()) std::cout << ", where " << arguments.until << " crosses zero";
  std::cout << ", with " << of.method << "\n\n";
  std::vector<std::vector<std::string>> rows{{"quantity", "value"}};
  for (std::size_t j = 0; j < arguments.to.size(); ++j)
    rows[0].push_back("d/d(" + arguments.to[j] + " = " + significant(of.values[j]) + ")");
  if (!of.end_time.empty()) {
    rows.push_back({"t [s]", significant(end.t)});
    for (const double x : of.end_time) rows.back().push_back(significant(x));
  }
  for (std::size_t i = 0; i < of.columns.size(); ++i) {
    rows.push_back({of.columns[i], significant(end.value[i])});
    for (std::size_t j = 0; j < arguments.to.size(); ++j)
      rows.back().push_back(significant(end.derivative[i * arguments.to.size() + j]));
  }
  print_table(rows);
  if (of.events.empty()) return;
  constexpr std::size_t most = 20;
  std::cout << "\n";
  rows = {{"event", "t [s]"}};
  for (const std::string& parameter : arguments.to) rows[0].push_back("dt/d(" + parameter + ")");
  for (std::size_t i = 0; i < std::min(most, of.events.size()); ++i) {
    const SensitivityEvent& event = of.events[i];
    rows.push_back({event.constraint + " " + event.what, significant(event.t)});
    for (const double x : event.time) rows.back().push_back(significant(x));
  }
  print_table(rows);
  if (of.events.size() > most) std::cout << "and " << of.events.size() - most << " more events (all of them: --json)\n";
}

int run_sensitivities(const SensitivitiesArguments& arguments) try {
  if (const std::string why = why_no_params(arguments.scene); !why.empty()) return misused("sensitivities", why);
  SensitivityRequest request;
  request.scene = arguments.scene;
  if (!read_file(arguments.scene, request.text)) return exit_bad_input;
  request.parameters = arguments.to;
  for (const std::string& name : request.parameters)
    if (name.empty()) return misused("sensitivities", "--to has an empty name");
  request.columns = arguments.columns;
  request.until = arguments.until;
  if (arguments.has_dt) request.dt = arguments.dt;
  if (arguments.has_duration) request.duration = arguments.duration;
  request.import = import_bullet;
  request.import_mjcf = import_mjcf;
  if (arguments.csv.empty()) request.every = 1'000'000'000;
  OutputFile csv("--csv", arguments.csv, {arguments.scene});
  const SceneSensitivities found = scene_sensitivities(request, [&](const scene::Model& model) { warn(model); });
  if (!arguments.csv.empty()) write_csv(found, arguments.to, csv);
  if (arguments.json) {
    std::cout << result_json(arguments, found).dump(2) << "\n";
    return exit_ok;
  }
  for (const std::string& each : found.warnings) std::cout << "warning: " << each << "\n";
  for (const std::string& each : found.left_out)
    std::cout << "left out: " << each << ", because it depends on the motion before\n";
  print(arguments, found);
  if (!arguments.csv.empty()) std::cout << "wrote " << arguments.csv << "\n";
  return exit_ok;
} catch (const scene::SceneError& e) {
  std::cerr << e.what() << "\n";
  return exit_bad_input;
} catch (const std::invalid_argument& e) {
  std::cerr << "linchpin sensitivities: " << said(e) << "\n";
  return exit_physics;
}

}  // namespace

void add_sensitivities(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<SensitivitiesArguments>();
  CLI::App* verb = app.add_subcommand(
      "sensitivities", "Differentiate the motion of a scene with respect to its parameters, through stick and slip");
  verb->add_option("SCENE", arguments->scene, "A .toml scene with [params]")->required();
  verb->add_option("--to", arguments->to, "Names of numbers in [params], separated by commas")
      ->required()
      ->delimiter(',');
  verb->add_option("--column", arguments->columns,
                   "One more quantity, as in [[log]]: 'norm(bead.velocity)'. Repeat it for more")
      ->allow_extra_args(false);
  verb->add_option("--until", arguments->until,
                   "End the run where this quantity crosses zero: 'bead.x'. The derivatives are those at the crossing, "
                   "whose time changes with the parameters");
  CLI::Option* const dt = verb->add_option("--dt", arguments->dt, "Step [s]. Default: that of the scene");
  dt->check(CLI::PositiveNumber);
  CLI::Option* const duration =
      verb->add_option("--duration", arguments->duration, "Time to simulate [s]. Default: that of the scene");
  duration->check(CLI::PositiveNumber);
  verb->add_option("--csv", arguments->csv, "Write the quantities and their derivatives at each step");
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->footer(
      "The quantities are those of [[log]] and --column, at the end of the run. The derivatives pass through changes\n"
      "between stick and slip, and through contacts that close or open. The run is on the host bare, with the method\n"
      "of the scene if it locates events (rk4, adaptive, adaptive8), and otherwise with rk4.\n\n"
      "  linchpin sensitivities rough-circle.toml --to mu,g --column 'norm(bead.velocity)' --until bead.x\n\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 the run stopped, or the motion has no derivative.");
  verb->callback([arguments, dt, duration, &exit_code] {
    for (std::string& name : arguments->to) {  // "a, b" is as good as "a,b".
      name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
      name.erase(name.find_last_not_of(' ') + 1);
    }
    arguments->has_dt = dt->count() > 0;
    arguments->has_duration = duration->count() > 0;
    exit_code = run_sensitivities(*arguments);
  });
}

}  // namespace linchpin::cli
