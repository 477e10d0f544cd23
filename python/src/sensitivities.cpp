// Derivatives of a motion with respect to parameters: those of the command `linchpin sensitivities`.
// linchpin/sensitivities.py gives names to them.
#include "arrays.h"
#include "bullet_file.h"
#include "linchpin/scene_sensitivities.h"
#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

nb::dict as_arrays(const cli::SceneSensitivities& of, std::size_t parameters) {
  const std::size_t samples = of.samples.size(), columns = of.columns.size(), events = of.events.size();
  std::vector<double> t, values, derivatives, event_times, event_derivatives;
  std::vector<std::string> constraints, what;
  for (const cli::SensitivitySample& sample : of.samples) {
    t.push_back(sample.t);
    values.insert(values.end(), sample.value.begin(), sample.value.end());
    derivatives.insert(derivatives.end(), sample.derivative.begin(), sample.derivative.end());
  }
  for (const cli::SensitivityEvent& event : of.events) {
    event_times.push_back(event.t);
    event_derivatives.insert(event_derivatives.end(), event.time.begin(), event.time.end());
    constraints.push_back(event.constraint);
    what.push_back(event.what);
  }
  nb::dict out;
  out["values"] = new_vector(of.values);
  out["columns"] = of.columns;
  out["t"] = new_vector(t);
  out["data"] = new_array(values.data(), {samples, columns});
  out["derivatives"] = new_array(derivatives.data(), {samples, columns, parameters});
  out["event_t"] = new_vector(event_times);
  out["event_constraints"] = constraints;
  out["event_kinds"] = what;
  out["event_derivatives"] = new_array(event_derivatives.data(), {events, parameters});
  out["end_derivatives"] = of.end_time.empty() ? nb::none() : nb::cast(new_vector(of.end_time));
  out["method"] = of.method;
  out["warnings"] = of.warnings;
  return out;
}

nb::dict sensitivities(const std::string& text, const std::string& path, std::vector<std::string> parameters,
                       std::vector<std::string> columns, const std::string& until, std::optional<double> dt,
                       std::optional<double> duration, int every, const nb::callable& read_bullet) {
  cli::SensitivityRequest request;
  request.scene = path;
  request.text = text;
  request.parameters = std::move(parameters);
  request.columns = std::move(columns);
  request.until = until;
  request.dt = dt;
  request.duration = duration;
  request.every = every;
  request.import = importer_of(read_bullet);
  request.until_option = "until";
  request.column_option = "columns";
  std::vector<std::string> remarks;
  cli::SceneSensitivities found;
  {
    const nb::gil_scoped_release release;
    found = cli::scene_sensitivities(request, [&](const scene::Model& model) { remarks = model.warnings; });
  }
  found.warnings.insert(found.warnings.begin(), remarks.begin(), remarks.end());
  return as_arrays(found, request.parameters.size());
}

}  // namespace

void add_sensitivities(nb::module_& m) {
  m.def("sensitivities", &sensitivities, nb::arg("text"), nb::arg("path"), nb::arg("parameters"), nb::arg("columns"),
        nb::arg("until"), nb::arg("dt").none(), nb::arg("duration").none(), nb::arg("every"), nb::arg("read_bullet"));
}

}  // namespace linchpin::python
