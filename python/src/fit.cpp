// Fits of scenes: those of the command `linchpin fit`. linchpin/fit.py gives names to the numbers.
#include "arrays.h"
#include "bullet_file.h"
#include "case_steps.h"
#include "linchpin/scene_fit.h"
#include "module.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// Name, bytes, and the parameters that are known.
using RecordingArgument = std::tuple<std::string, nb::bytes, std::map<std::string, double>>;
/// Name, bounds, and whether every recording has its own value.
using FreeArgument = std::tuple<std::string, double, double, bool>;

std::vector<cli::MeasuredRecording> recordings_of(const std::vector<RecordingArgument>& arguments,
                                                  const std::vector<std::string>& columns) {
  std::vector<cli::MeasuredRecording> out;
  std::vector<std::string> seen;
  for (const auto& [name, bytes, known] : arguments)
    out.push_back({cli::read_recording(name, std::string(bytes.c_str(), bytes.size()), columns, seen), known});
  cli::demand_columns(columns, out, seen);
  return out;
}

nb::list series_of(const cli::SceneFitResult& result) {
  nb::list out;
  for (const cli::FittedSeries& each : result.series) {
    const std::vector<double> predicted(
        result.fit.predicted.begin() + static_cast<std::ptrdiff_t>(each.first),
        result.fit.predicted.begin() + static_cast<std::ptrdiff_t>(each.first + each.t.size()));
    out.append(nb::make_tuple(result.recordings[each.recording], result.columns[each.column].name,
                              result.columns[each.column].unit, new_vector(each.t), new_vector(each.measured),
                              new_vector(predicted)));
  }
  return out;
}

nb::dict as_dict(const cli::SceneFitResult& result) {
  const std::size_t p = result.parameters.size();
  std::vector<std::string> names, bounds;
  std::vector<double> values, errors, intervals;
  std::vector<bool> determined;
  for (std::size_t j = 0; j < p; ++j) {
    const cli::ParameterEstimate& of = result.identifiability.parameters[j];
    names.push_back(result.parameters[j].name);
    determined.push_back(of.determined);
    values.push_back(of.determined ? result.fit.parameters[j] : std::nan(""));
    errors.push_back(of.standard_error);
    intervals.insert(intervals.end(), {of.low, of.high});
    bounds.push_back(result.fit.bounds[j] == cli::AtBound::no    ? ""
                     : result.fit.bounds[j] == cli::AtBound::low ? "low"
                                                                 : "high");
  }
  nb::list combinations, columns;
  for (const cli::ParameterCombination& each : result.identifiability.combinations)
    combinations.append(nb::make_tuple(each.text, each.value, each.standard_error));
  for (std::size_t c = 0; c < result.columns.size(); ++c) {
    const cli::ColumnFit& of = result.fit.columns[c];
    columns.append(
        nb::make_tuple(result.columns[c].name, result.columns[c].unit, of.count, of.rms, of.sigma, of.autocorrelation));
  }
  nb::dict out;
  out["names"] = names;
  out["values"] = new_vector(values);
  out["standard_errors"] = new_vector(errors);
  out["intervals"] = new_array(intervals.data(), {p, 2});
  out["determined"] = determined;
  out["at_bound"] = bounds;
  out["combinations"] = combinations;
  out["not_determined"] = result.identifiability.sentences;
  out["correlation"] = new_array(result.identifiability.correlation.data(), {p, p});
  out["columns"] = columns;
  out["series"] = series_of(result);
  out["converged"] = result.fit.converged;
  out["reason"] = result.fit.reason;
  out["steps"] = result.fit.iterations;
  out["aic"] = result.fit.aic();
  out["aicc"] = result.fit.aicc();
  out["remarks"] = result.remarks;
  return out;
}

nb::tuple fit(const std::string& text, const std::string& path, const std::vector<RecordingArgument>& recordings,
              const std::vector<FreeArgument>& free, const std::map<std::string, double>& params,
              const std::vector<std::string>& columns, const std::map<std::string, std::string>& sigma,
              std::optional<double> dt, std::optional<double> duration, int workers, const nb::callable& read_bullet) {
  cli::SceneFitOptions options;
  options.scene = path;
  options.simulation = [dt, duration](const scene::Model& model) { return case_steps(model, dt, duration); };
  options.import = importer_of(read_bullet);
  options.values = params;
  for (const auto& [name, low, high, each] : free) options.free.push_back({name, low, high, each});
  options.sigma = sigma;
  options.words = {"free", "params", "columns", "sigma", "duration"};
  options.threads = workers;
  std::vector<std::string> warnings;
  std::optional<cli::SceneFitResult> result;
  std::vector<cli::MeasuredRecording> read = recordings_of(recordings, columns);
  {
    const nb::gil_scoped_release release;
    const cli::SceneFit made(std::move(options), text, std::move(read),
                             [&](const scene::Model& model) { warnings = model.warnings; });
    for (const auto& [name, value] : params)
      if (!made.has(name)) throw std::invalid_argument("the scene has no number \"" + name + "\" in [params]");
    try {
      result = made.run();
    } catch (const cli::NoPrediction& e) {
      throw std::invalid_argument(std::string("fit: the scene has no result with the start values: ") + e.what());
    }
  }
  return nb::make_tuple(as_dict(*result), warnings);
}

}  // namespace

void add_fit(nb::module_& m) {
  m.def("fit", &fit, nb::arg("text"), nb::arg("path"), nb::arg("recordings"), nb::arg("free"), nb::arg("params"),
        nb::arg("columns"), nb::arg("sigma"), nb::arg("dt").none(), nb::arg("duration").none(), nb::arg("workers"),
        nb::arg("read_bullet"));
}

}  // namespace linchpin::python
