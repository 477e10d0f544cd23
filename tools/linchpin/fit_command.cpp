// `linchpin fit`: parameters of a scene from measurements, with their errors and what the measurements leave open.
#include "bullet_import.h"
#include "commands.h"
#include "csv.h"
#include "fit_report.h"
#include "messages.h"
#include "mjcf.h"
#include "recording/output_file.h"
#include "recording/page.h"
#include "report_file.h"
#include "scene_file.h"
#include "scene_fit.h"
#include "simulation_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace linchpin::cli {

namespace {

struct FitArguments {
  SimulationOptions simulation;
  std::vector<std::string> data, free, free_each, sets, columns, sigma, against;
  std::string out, report;
  int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool json = false;
};

std::string digits_of(double x, int digits = 6) { return significant(x, digits); }

// ---- words of the command line

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == separator)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

double number_of(const std::string& option, const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out))
    throw std::invalid_argument(option + ": \"" + text + "\" is not a number");
  return out;
}

/// "mu,speed=0:1": names, each with or without bounds.
void add_free(const std::string& option, const std::string& text, bool each, std::vector<FreeName>& out) {
  for (const std::string& part : parts_of(text, ',')) {
    const auto equals = part.find('=');
    FreeName made;
    made.name = part.substr(0, equals);
    made.of_each_recording = each;
    if (made.name.empty())
      throw std::invalid_argument(option + " is \"" + text + "\", expected names such as mu,speed=0:1");
    if (equals != std::string::npos) {
      const std::vector<std::string> bounds = parts_of(part.substr(equals + 1), ':');
      if (bounds.size() != 2)
        throw std::invalid_argument(option + ": \"" + part + "\" must have two bounds, as in " + made.name +
                                    "=0:1. --set " + made.name + "=VALUE gives the start value");
      if (!bounds[0].empty()) made.low = number_of(option, bounds[0]);
      if (!bounds[1].empty()) made.high = number_of(option, bounds[1]);
    }
    out.push_back(made);
  }
}

/// "load=2,angle=0.1"
std::map<std::string, double> assignments(const std::string& option, const std::string& text) {
  std::map<std::string, double> out;
  for (const std::string& part : parts_of(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw std::invalid_argument(option + ": \"" + part + "\" is no value of a parameter, such as load=2");
    out[part.substr(0, equals)] = number_of(option, part.substr(equals + 1));
  }
  return out;
}

/// "file:words" at the last colon that has a name behind it.
std::pair<std::string, std::string> file_and_words(const std::string& text, bool with_values) {
  const auto colon = with_values ? text.rfind(':', text.find('=')) : text.find(".toml:");
  if (with_values && (text.find('=') == std::string::npos || colon == std::string::npos)) return {text, ""};
  if (colon == std::string::npos) return {text, ""};
  const std::size_t end = with_values ? colon : colon + 5;
  return {text.substr(0, end), text.substr(end + 1)};
}

// ---- what is read

/// @return nothing after saying on stderr which file cannot be read
std::optional<std::vector<MeasuredRecording>> read_recordings_of(const FitArguments& arguments) {
  std::vector<MeasuredRecording> out;
  std::vector<std::string> seen;
  for (const std::string& each : arguments.data) {
    const auto [file, words] = file_and_words(each, true);
    MeasuredRecording made;
    if (!words.empty()) made.known = assignments("\"" + each + "\"", words);
    std::string bytes;
    if (!read_file(file, bytes)) return {};
    made.measured = read_recording(file, std::move(bytes), arguments.columns, seen);
    out.push_back(std::move(made));
  }
  demand_columns(arguments.columns, out, seen);
  return out;
}

SceneFitOptions fit_options(const FitArguments& arguments, const std::string& scene, const std::string& free) {
  SceneFitOptions out;
  out.scene = scene;
  out.simulation = [&arguments](const scene::Model& model) { return arguments.simulation.check(model); };
  out.import = import_bullet;
  out.import_mjcf = import_mjcf;
  out.threads = arguments.jobs;
  if (!free.empty()) {
    add_free("--against", free, false, out.free);
  } else {
    for (const std::string& each : arguments.free) add_free("--free", each, false, out.free);
    for (const std::string& each : arguments.free_each) add_free("--free-each", each, true, out.free);
  }
  for (const std::string& each : arguments.sets) out.values.merge(assignments("--set", each));
  for (const std::string& each : arguments.sigma) {
    const auto equals = each.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw std::invalid_argument("--sigma is \"" + each + "\", expected COLUMN=LEVEL");
    out.sigma[each.substr(0, equals)] = each.substr(equals + 1);
  }
  return out;
}

/// @return nothing after saying on stderr that a file cannot be read
std::optional<SceneFit> open_fit(const FitArguments& arguments, const std::string& scene, const std::string& free,
                                 const std::vector<MeasuredRecording>& recordings) {
  if (scene.ends_with(".bullet") || is_mjcf(scene))
    throw std::invalid_argument("\"" + scene + "\" has no [params]. Include it in a .toml scene");
  std::string text;
  if (!read_file(scene, text)) return {};
  return SceneFit(fit_options(arguments, scene, free), std::move(text), recordings, [](const scene::Model& model) {
    warn(model);
    for (const std::string& each : model.native) std::cerr << "the host bare leaves out: " << each << "\n";
  });
}

/// @throws std::invalid_argument for a name of --set that no scene has
void demand_values(const FitArguments& arguments, const std::vector<SceneFit>& scenes) {
  for (const std::string& text : arguments.sets)
    for (const auto& [name, value] : assignments("--set", text))
      if (std::none_of(scenes.begin(), scenes.end(), [&](const SceneFit& each) { return each.has(name); }))
        throw std::invalid_argument("--set: no scene has a number \"" + name + "\" in [params]");
}

// ---- what is printed

/// As many digits as the error leaves.
std::string with_error(double value, double error) {
  if (!std::isfinite(error) || error <= 0 || value == 0) return digits_of(value, 10);
  const int digits = static_cast<int>(std::floor(std::log10(std::fabs(value))) - std::floor(std::log10(error))) + 2;
  return digits_of(value, std::clamp(digits, 2, 12));
}

void print_parameters(const SceneFitResult& result) {
  std::size_t width = 9;
  for (const FreeParameter& each : result.parameters) width = std::max(width, each.name.size());
  std::printf("  %-*s  %-16s %-15s %s\n", static_cast<int>(width), "parameter", "value", "standard error",
              "95 % interval");
  for (std::size_t j = 0; j < result.parameters.size(); ++j) {
    const FreeParameter& of = result.parameters[j];
    const ParameterEstimate& estimate = result.identifiability.parameters[j];
    std::printf("  %-*s  ", static_cast<int>(width), of.name.c_str());
    const double value = result.fit.parameters[j];
    if (result.fit.bounds[j] != AtBound::no) {
      std::printf("%-16s at its %s bound\n", digits_of(value).c_str(),
                  result.fit.bounds[j] == AtBound::low ? "lower" : "upper");
    } else if (!estimate.determined) {
      std::printf("not determined\n");
    } else if (!std::isfinite(estimate.standard_error)) {
      std::printf("%-16s unknown: there are as many parameters as measurements\n", digits_of(value, 10).c_str());
    } else {
      std::printf("%-16s %-15s %s to %s\n", with_error(value, estimate.standard_error).c_str(),
                  digits_of(estimate.standard_error, 2).c_str(),
                  with_error(estimate.low, estimate.standard_error).c_str(),
                  with_error(estimate.high, estimate.standard_error).c_str());
    }
  }
}

void print_combinations(const SceneFitResult& result) {
  for (const std::string& each : result.identifiability.sentences) std::printf("NOT DETERMINED: %s\n", each.c_str());
  for (const ParameterCombination& each : result.identifiability.combinations)
    std::printf("  %s = %s, standard error %s\n", each.text.c_str(),
                with_error(each.value, each.standard_error).c_str(), digits_of(each.standard_error, 2).c_str());
}

void print_correlations(const SceneFitResult& result) {
  const std::size_t p = result.parameters.size();
  for (std::size_t i = 0; i < p; ++i)
    for (std::size_t j = i + 1; j < p; ++j)
      if (const double r = result.identifiability.correlation[i * p + j]; std::fabs(r) > 0.9)
        std::printf("correlation of %s and %s: %s\n", result.parameters[i].name.c_str(),
                    result.parameters[j].name.c_str(), digits_of(r).c_str());
}

void print(const SceneFitResult& result) {
  std::printf("%s: %s, %s\n", result.scene.c_str(),
              counted(static_cast<long>(result.fit.measurements), "sample").c_str(),
              counted(result.fit.iterations, "step").c_str());
  if (!result.fit.converged) std::printf("NOT CONVERGED: %s\n", result.fit.reason.c_str());
  print_parameters(result);
  print_combinations(result);
  print_correlations(result);
  for (std::size_t c = 0; c < result.columns.size(); ++c) {
    const ColumnFit& of = result.fit.columns[c];
    std::printf("  %s%s: %s, rms residual %s, noise level %s (%s)\n", result.columns[c].name.c_str(),
                bracketed(result.columns[c].unit).c_str(), counted(static_cast<long>(of.count), "sample").c_str(),
                digits_of(of.rms, 3).c_str(), digits_of(of.sigma, 3).c_str(), of.sigma_given ? "given" : "estimated");
  }
  std::printf("AIC %s", digits_of(result.fit.aic(), 8).c_str());
  if (std::isfinite(result.fit.aicc())) std::printf(", AICc %s", digits_of(result.fit.aicc(), 8).c_str());
  std::printf("\n");
  for (const std::string& each : result.remarks) std::printf("note: %s\n", each.c_str());
}

void print(const std::vector<SceneFitResult>& fits, const ModelComparison& comparison) {
  std::printf("comparison by %s\n", comparison.corrected ? "AICc" : "AIC");
  for (std::size_t i = 0; i < fits.size(); ++i)
    std::printf("  %s: %s above the smallest, Akaike weight %s\n", fits[i].scene.c_str(),
                digits_of(comparison.excess[i], 4).c_str(), digits_of(comparison.weights[i], 4).c_str());
  std::printf("%s\n", comparison.verdict.c_str());
}

// ---- the command

bool is_complete(const SceneFitResult& result) {
  return result.fit.converged && result.identifiability.all_determined();
}

int run_fit(const FitArguments& arguments) try {
  std::vector<std::pair<std::string, std::string>> scenes = {{arguments.simulation.scene, ""}};
  for (const std::string& each : arguments.against) scenes.push_back(file_and_words(each, false));
  const auto recordings = read_recordings_of(arguments);
  if (!recordings) return exit_bad_input;
  std::vector<SceneFit> all;
  std::vector<std::string> input;
  for (const auto& [scene, free] : scenes) {
    auto made = open_fit(arguments, scene, free, *recordings);
    if (!made) return exit_bad_input;
    input.insert(input.end(), made->files().begin(), made->files().end());
    all.push_back(*std::move(made));
  }
  demand_values(arguments, all);
  for (const MeasuredRecording& each : *recordings) input.push_back(each.measured.file);
  demand_other_places({{"--out", arguments.out}, {"--report", arguments.report}});
  OutputFile table("--out", arguments.out, input), page("--report", arguments.report, input);

  std::vector<SceneFitResult> fits;
  for (const SceneFit& each : all) fits.push_back(each.run());
  const ModelComparison comparison = compare_models(fits);
  if (!arguments.out.empty()) {
    write_residuals(table.temporary(), fits.front());
    table.keep();
  }
  if (!arguments.report.empty()) page.write(report_page(fit_page(fits, comparison)));
  if (arguments.json) {
    nlohmann::ordered_json out = {{"schema", 1}};
    out.update(fit_json(fits.front()));
    out["against"] = nlohmann::ordered_json::array();
    for (std::size_t i = 1; i < fits.size(); ++i) out["against"].push_back(fit_json(fits[i]));
    out["comparison"] = fits.size() > 1 ? comparison_json(fits, comparison) : nlohmann::ordered_json();
    std::cout << out.dump(2) << "\n";
  } else {
    for (const SceneFitResult& each : fits) print(each);
    if (fits.size() > 1) print(fits, comparison);
    for (const std::string& each : {arguments.out, arguments.report})
      if (!each.empty()) std::printf("wrote %s\n", each.c_str());
  }
  return std::all_of(fits.begin(), fits.end(), is_complete) ? exit_ok : exit_physics;
} catch (const scene::SceneError& e) {
  std::cerr << e.what() << "\n";
  return exit_bad_input;
} catch (const NoPrediction& e) {
  std::cerr << "linchpin fit: the scene has no result with the start values: " << e.what() << "\n";
  return exit_physics;
} catch (const std::invalid_argument& e) {
  return misused("fit", e.what());
} catch (const std::runtime_error& e) {
  return misused("fit", e.what());
}

}  // namespace

void add_fit(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<FitArguments>();
  CLI::App* verb = app.add_subcommand("fit", "Estimate parameters of a scene from measurements");
  const auto one_each = [](CLI::Option* option) { return option->expected(1)->take_all(); };
  arguments->simulation.add_to(*verb, false);
  verb->add_option("DATA", arguments->data,
                   "Recordings: .csv tables, or .mcap files that linchpin has written. FILE:name=value,… gives the "
                   "parameters that are known in one recording")
      ->required()
      ->expected(1, -1);
  one_each(verb->add_option("--free", arguments->free,
                            "Names in [params] that are estimated, with or without bounds: mu,speed=0:1")
               ->required());
  one_each(verb->add_option("--free-each", arguments->free_each,
                            "The same for names that have another value in each recording"));
  one_each(verb->add_option("--set", arguments->sets,
                            "name=value,… in place of values of [params]. For a free name, the start of the search"));
  one_each(verb->add_option("--column", arguments->columns,
                            "Use this column of the recordings and no others. Repeat it for more"));
  one_each(verb->add_option("--sigma", arguments->sigma,
                            "COLUMN=LEVEL: standard deviation of its noise, in its unit or with a unit. Default: "
                            "estimated from the residuals. Repeat it for more"));
  one_each(verb->add_option("--against", arguments->against,
                            "Fit this scene to the same data too, and compare by Akaike's criterion. SCENE:names has "
                            "free names of its own. Repeat it for more"));
  verb->add_option("-j,--jobs", arguments->jobs, "Number of threads. Default: one per core")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--out", arguments->out, "Write measured and predicted values with their residuals, a .csv file");
  verb->add_option("--report", arguments->report,
                   "Write a page for a browser: parameters with errors, and plots of the residuals");
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->footer(
      "One column of a table is the time, \"t [s]\". The titles of the others are expressions of the scene or names "
      "of\n"
      "its logs, with a unit: \"joint_position(pin) [deg]\", \"bead.x [mm]\", \"reaction(rod).x [N]\". An empty field "
      "is\n"
      "no sample. Tables that `linchpin run --csv` has written fit, too.\n"
      "Noise levels that are not given are estimated for each column. The intervals hold for independent noise.\n"
      "A parameter that the data do not determine has no number. The output then has the combinations that they\n"
      "determine. The scene runs on the host bare.\n"
      "\n"
      "  linchpin fit rough-circle.toml angle.csv --free mu=0:1 --report page.html\n"
      "  linchpin fit hinge.toml light.csv:load=2 heavy.csv:load=5 --free mu --free-each angle\n"
      "  linchpin fit hinge.toml swing.csv --free mu --against constant.toml:torque\n"
      "\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene or measurements, 4 a fit has not converged, or the data do not "
      "determine\n"
      "a parameter.");
  verb->callback([arguments, &exit_code] { exit_code = run_fit(*arguments); });
}

}  // namespace linchpin::cli
