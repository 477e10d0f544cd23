// The cases of a sweep: those of the command `linchpin sweep`. linchpin/sweep.py uses it.
#include "linchpin/experiment.h"

#include "arrays.h"
#include "bullet_file.h"
#include "case_steps.h"
#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace nb = nanobind;

namespace linchpin::python {

cli::Simulation case_steps(const scene::Model& model, std::optional<double> dt, std::optional<double> duration) {
  cli::Simulation out;
  out.dt = dt.value_or(model.dt);
  const double time = duration.value_or(model.duration), steps = std::round(time / out.dt);
  if (!(steps >= 1 && steps <= 1e8))
    throw std::invalid_argument("duration is " + std::to_string(time) + " s. It must be from 1 to 1e8 steps of " +
                                std::to_string(out.dt) + " s");
  out.steps = static_cast<long>(steps);
  return out;
}

namespace {

cli::Experiment make_experiment(const std::string& text, const std::string& path, std::vector<std::string> names,
                                const std::vector<std::vector<double>>& cases, std::vector<std::string> columns,
                                const std::string& until, bool equilibrium, int starts, std::optional<double> dt,
                                std::optional<double> duration, const nb::callable& read_bullet,
                                std::vector<std::string>& warnings) {
  cli::ExperimentOptions options;
  options.scene = path;
  options.columns = std::move(columns);
  options.until = until;
  options.kind = equilibrium ? cli::ExperimentKind::equilibrium : cli::ExperimentKind::motion;
  options.starts = starts;
  options.simulation = [dt, duration](const scene::Model& model) { return case_steps(model, dt, duration); };
  options.import = importer_of(read_bullet);
  options.until_option = "until";
  options.column_option = "columns";
  try {
    return {std::move(options),
            text,
            {std::move(names), cases.size(), [&](std::uint64_t n) { return cases[n]; }},
            [&](const scene::Model& model) { warnings = model.warnings; }};
  } catch (const cli::BadExpression& e) {
    throw std::invalid_argument(e.text);
  }
}

}  // namespace

void add_experiment(nb::module_& m) {
  nb::class_<cli::Experiment>(m, "Experiment", "The compiled part of linchpin.sweep.")
      .def_prop_ro("columns", [](const cli::Experiment& self) { return self.columns(); })
      .def(
          "run",
          [](const cli::Experiment& self, const std::vector<double>& values) {
            cli::ExperimentResult result;
            {
              const nb::gil_scoped_release release;
              result = self.run(values);
            }
            return nb::make_tuple(result.status, result.t, result.stability, new_vector(result.values));
          },
          nb::arg("values"));
  m.def(
      "experiment",
      [](const std::string& text, const std::string& path, const std::vector<std::string>& names,
         const std::vector<std::vector<double>>& cases, const std::vector<std::string>& columns,
         const std::string& until, bool equilibrium, int starts, std::optional<double> dt,
         std::optional<double> duration, const nb::callable& read_bullet) {
        std::vector<std::string> warnings;
        cli::Experiment made = make_experiment(text, path, names, cases, columns, until, equilibrium, starts, dt,
                                               duration, read_bullet, warnings);
        return nb::make_tuple(std::move(made), warnings);
      },
      nb::arg("text"), nb::arg("path"), nb::arg("names"), nb::arg("cases"), nb::arg("columns"), nb::arg("until"),
      nb::arg("equilibrium"), nb::arg("starts"), nb::arg("dt").none(), nb::arg("duration").none(),
      nb::arg("read_bullet"));
}

}  // namespace linchpin::python
