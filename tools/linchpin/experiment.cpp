#include "experiment.h"

#include "contradiction.h"
#include "csv.h"
#include "equilibrium_search.h"
#include "linearized_scene.h"
#include "place_of_rest.h"
#include "remarks.h"
#include "run_remarks.h"
#include "watch_status.h"

#include <linchpin/dynamics.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/modes.h>
#include <linchpin/scene/parametric_scene.h>
#include <linchpin/stepper.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace linchpin::cli {

Experiment::Experiment(ExperimentOptions options, std::string text, const ExperimentCases& cases,
                       const std::function<void(const scene::Model&)>& look)
    : options_(std::move(options)), text_(std::move(text)), names_(cases.names) {
  const scene::Model model = any_of(cases);
  look(model);
  if (!options_.until.empty() && (model.logs.back().reads_forces() || model.logs.back().size() != 1))
    throw std::invalid_argument(
        options_.until_option + " is \"" + options_.until +
        "\", expected a scalar quantity of the motion, such as bead.x. Forces are not possible");
  std::size_t expectations = 0;  // that have their columns
  for (const auto& [channel, log] : channels(model)) {
    const std::string unit = bracketed(channel->unit());
    const scene::Expectation* expectation = log ? nullptr : &model.expectations[expectations++];
    const std::string when = log ? "" : at(*expectation);
    for (const std::string& name : value_names(*channel)) add_column(name + when, unit);
    if (!log) tolerances_.resize(columns_.size(), expectation->tolerance);
  }
  if (options_.kind == ExperimentKind::linearization) add_mode_columns(model);
  // The end time of a motion and the stability of an equilibrium are results, too.
  if (columns_.empty() && options_.until.empty() && options_.kind == ExperimentKind::motion)
    throw std::invalid_argument(
        "the sweep would record nothing. Add [[log]] or [[expect]] to the scene, or a quantity such as "
        "norm(body.velocity) by " +
        options_.column_option);
  files_ = model.files;
}

ExperimentResult Experiment::run(const std::vector<double>& values) const {
  ExperimentResult result;
  try {
    const scene::Model model = load(values);
    switch (options_.kind) {
      case ExperimentKind::motion:
        move(model, result);
        break;
      case ExperimentKind::equilibrium:
        rest(model, result);
        break;
      case ExperimentKind::linearization:
        linearized(model, result);
        break;
    }
  } catch (const scene::SceneError& e) {
    result.status = (e.line > 0 ? "line " + std::to_string(e.line) + ": " : "") + e.message;
  } catch (const std::exception& e) {
    result.status = e.what();
  }
  if (!result.values.empty() && result.values.size() != columns_.size()) {
    result = {};
    result.status = "this case has other columns than the first";
  }
  explain_holes(result);
  result.values.resize(columns_.size(), std::nan(""));
  return result;
}

std::vector<double> Experiment::known(const std::vector<double>& values) const {
  const bool moves = options_.kind == ExperimentKind::motion;  // Expectations are of the motion.
  std::vector<double> out(moves ? 0 : columns_.size(), std::nan(""));
  try {
    for (const scene::Expectation& e : out.empty() ? load(values).expectations : std::vector<scene::Expectation>())
      for (int k = 0; k < e.value.size(); ++k)
        out.push_back(e.is.empty() ? std::nan("") : e.is[static_cast<std::size_t>(k)]);
  } catch (const scene::SceneError&) {
  }
  out.resize(columns_.size(), std::nan(""));
  return out;
}

std::vector<double> Experiment::own() const {
  scene::Overrides with = overrides({});
  with.logs = names_;
  return scene::logs_at_start(load_text(text_, options_.scene, options_.import, with), names_.size());
}

// Reads a model for what all cases have in common. Some cases may have values at which an expression has no value.
scene::Model Experiment::any_of(const ExperimentCases& cases) const {
  std::optional<scene::SceneError> first;
  constexpr std::uint64_t tries = 16;
  const std::uint64_t every = std::max<std::uint64_t>(1, cases.size / tries);
  for (std::uint64_t n = 0; n < cases.size; n += every) try {
      return load(cases.values(n));
    } catch (const scene::SceneError& e) {
      if (!first) first = e;
    }
  try {
    return load({});
  } catch (const scene::SceneError&) {
  }
  const std::string what = first->what();
  const std::string_view place = "column:", twice = " error: column:";
  if (!what.starts_with(place)) throw *first;
  std::string text =
      (of_until(cases.values(0)) ? options_.until_option : options_.column_option) + ":" + what.substr(place.size());
  if (const std::size_t again = text.find(twice); again != std::string::npos)
    text.replace(again, twice.size(), " error:");
  throw BadExpression{text};
}

bool Experiment::of_until(const std::vector<double>& values) const try {
  if (options_.until.empty()) return false;
  scene::Overrides with = overrides(values);
  with.logs = {options_.until};
  (void)scene::load_text(text_, options_.scene, options_.import, with);
  return false;
} catch (const scene::SceneError&) {
  return true;
}

// The end of an expectation's title: " at 0.5 s".
std::string Experiment::at(const scene::Expectation& e) const {
  if (options_.kind != ExperimentKind::motion || e.throughout) return "";
  char text[48];
  std::snprintf(text, sizeof text, " at %.12g s", e.at);
  return text;
}

// Adds a remark on the first column that is not finite.
void Experiment::explain_holes(ExperimentResult& result) const {
  for (std::size_t i = tolerances_.size(); i + mode_columns_ < result.values.size() && i < columns_.size(); ++i)
    if (!std::isfinite(result.values[i]) && result.status.starts_with("ok"))
      return add_remark(result.status, not_finite(columns_[i], result.values[i]));
}

scene::Overrides Experiment::overrides(const std::vector<double>& values) const {
  scene::Overrides out;
  out.mjcf_scene = options_.import_mjcf;
  for (std::size_t i = 0; i < values.size(); ++i) out.params[names_[i]] = values[i];
  return out;
}

scene::Model Experiment::load(const std::vector<double>& values) const {
  scene::Overrides with = overrides(values);
  with.logs = options_.columns;
  if (!options_.until.empty()) with.logs.push_back(options_.until);
  return load_text(text_, options_.scene, options_.import, with);
}

// The quantities of a row, and whether each is a log. The others are expectations.
std::vector<std::pair<const scene::Channel*, bool>> Experiment::channels(const scene::Model& model) const {
  std::vector<std::pair<const scene::Channel*, bool>> out;
  for (const scene::Expectation& e : model.expectations) out.emplace_back(&e.value, false);
  for (const scene::Channel& log : model.logs) out.emplace_back(&log, true);
  if (!options_.until.empty()) out.pop_back();
  return out;
}

void Experiment::add_column(const std::string& name, const std::string& unit) {
  std::string whole = name + unit;
  for (int n = 2; std::count(columns_.begin(), columns_.end(), whole) > 0; ++n)
    whole = name + " #" + std::to_string(n) + unit;
  columns_.push_back(whole);
}

System Experiment::system_of(const scene::Model& model) const {
  System system = model.system();
  if (const auto gravity = options_.simulation(model).gravity)
    system.set_gravity({(*gravity)[0], (*gravity)[1], (*gravity)[2]});
  return system;
}

void Experiment::move(const scene::Model& model, ExperimentResult& result) const {
  const Simulation simulation = options_.simulation(model);
  const scene::Model limited = scene::with_joint_limits(model);
  System system = system_of(limited);
  Stepper stepper(system, system.initial_state(), model.options);
  const bool until = !options_.until.empty();
  if (until) stepper.watch([&](const State& state) { return model.logs.back()({system, state, {}})[0]; });
  scene::Judge judge(model, scene::Host::bare, simulation.dt);
  scene::ModeRecord modes;
  modes.begin(system, stepper.dynamics(), stepper.t());
  RunRemarks remarks(model);
  const auto observe = [&] {
    const bool forces = judge.needs_forces(stepper.t());
    judge.see({system, stepper.state(), forces ? stepper.reactions() : std::span<const Reaction>(), &modes});
  };
  std::vector<std::string> warnings;
  bool torn = false;
  // @return whether the case goes on
  const auto take = [&](long step, double dt) {
    const StepReport& report = stepper.step(dt);
    if (report.rejected) {
      result.status = "the run stopped at step " + std::to_string(step) + ": " + report.reason;
      return false;
    }
    modes.add(system, stepper.switches());
    remarks.step(stepper.state());
    if (!report.gains_energy) take_warning(report.warning, warnings);
    torn = torn || report.status == Status::contradictory;
    if (stepper.crossings().empty()) return true;
    const State there = stepper.crossings().front().state;
    stepper.set_state(there);
    result.status = "ok";
    return false;
  };
  const nlohmann::ordered_json rank = dependent_rows(system, limited, system.initial_state());
  result.status = until ? options_.until + " did not cross zero within the duration" : "ok";
  observe();
  bool goes_on = true;
  for (long step = 0; goes_on && step < simulation.steps; ++step)
    for (const double part : judge.parts(stepper.t(), simulation.dt)) {
      goes_on = take(step, part);
      if (!goes_on) break;
      observe();
    }
  result.t = stepper.t();
  if (const std::string found = watch_status(system, stepper); result.status.starts_with("ok") && !found.empty())
    result.status = found;
  if (torn) {
    const auto found = contradiction(system, model, stepper.state());
    add_remark(result.status, found.is_null() ? "constraints contradict each other" : torn_text(found));
  }
  if (!rank.is_null()) add_remark(result.status, rank_text(rank, true));
  for (const std::string& warning : warnings) add_remark(result.status, warning);
  for (const std::string& each : remarks.texts()) add_remark(result.status, each);
  if (!result.status.starts_with("ok")) return;  // A failed case has no numbers.
  const scene::Observation end{system, stepper.state(), stepper.reactions(), &modes};
  std::size_t i = 0;
  for (const auto& [channel, log] : channels(model)) {
    if (log) {
      const auto values = (*channel)(end);
      result.values.insert(result.values.end(), values.begin(), values.end());
      continue;
    }
    const auto& got = judge.verdicts()[i++].got;
    for (int k = 0; k < channel->size(); ++k)
      result.values.push_back(got.empty() ? std::nan("") : got[static_cast<std::size_t>(k)]);
  }
}

void Experiment::rest(const scene::Model& model, ExperimentResult& result) const {
  const System system = system_of(model);
  const PlaceOfRest rest = place_of_rest(model, system, options_.starts);
  Dynamics dynamics(system, model.options.solve);
  std::vector<Reaction> reactions;
  if (dynamics.evaluate(rest.state) != Status::invalid) dynamics.reactions(rest.state, reactions);
  result.status = "ok";
  const nlohmann::ordered_json rank = dependent_rows(system, model, rest.state);
  if (!rank.is_null()) add_remark(result.status, rank_text(rank, true));
  std::string without;
  for (const std::string& each : left_out(model)) without += (without.empty() ? "left out: " : "; ") + each;
  if (!without.empty()) add_remark(result.status, without);
  result.stability = to_string(rest.equilibrium.stability, rest.held.any());
  add_channels(model, system, rest.state, reactions, result);
}

void Experiment::add_channels(const scene::Model& model, const System& system, const State& state,
                              std::span<const Reaction> reactions, ExperimentResult& result) const {
  for (const auto& [channel, log] : channels(model)) {
    const auto values = (*channel)({system, state, reactions});
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
}

/// The state about which a case is linearised.
State Experiment::state_to_linearize(const scene::Model& model, System& system) const {
  if (options_.at_equilibrium) return place_of_rest(model, system, options_.starts).state;
  return Stepper(system, system.initial_state(), model.options).state();
}

void Experiment::add_mode_columns(const scene::Model& model) {
  System system = system_of(model);
  const LinearizedScene linearized = linearize_scene(model, system, state_to_linearize(model, system));
  add_column("largest real part", " [1/s]");
  for (int i = 1; i <= linearized.motion.size(); ++i) {
    add_column("real part " + std::to_string(i), " [1/s]");
    add_column("imaginary part " + std::to_string(i), " [1/s]");
  }
  mode_columns_ = 1 + 2 * static_cast<std::size_t>(linearized.motion.size());
}

void Experiment::linearized(const scene::Model& model, ExperimentResult& result) const {
  System system = system_of(model);
  const State state = state_to_linearize(model, system);
  const LinearizedScene of = linearize_scene(model, system, state);
  Dynamics dynamics(system, model.options.solve);
  std::vector<Reaction> reactions;
  if (dynamics.evaluate(state) != Status::invalid) dynamics.reactions(state, reactions);
  result.status = "ok";
  if (!of.motion.is_steady()) add_remark(result.status, "the motion is not steady, so the eigenvalues are frozen ones");
  result.stability = of.stability();
  add_channels(model, system, state, reactions, result);
  result.values.push_back(of.largest_growth_rate());
  for (const Eigenmode& mode : of.modes) {
    result.values.push_back(mode.eigenvalue.real());
    result.values.push_back(mode.eigenvalue.imag());
  }
}

}  // namespace linchpin::cli
