#include "scene_fit.h"

#include "messages.h"
#include "scene_predictor.h"
#include "units.h"

#include <linchpin/integration_method.h>
#include <linchpin/scene/parametric_scene.h>
#include <linchpin/system.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

namespace linchpin::cli {

namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

std::string six_digits(double x) { return significant(x, 6); }

/// Ends of titles of `run --csv` that are results of the solver.
constexpr std::string_view no_measurements[] = {".gap", ".qw", ".qx", ".qy", ".qz"};

bool is_no_measurement(const std::string& name) {
  return std::any_of(std::begin(no_measurements), std::end(no_measurements),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// A title of `run --csv` as an expression: "bead.vx" is bead.velocity.x, "rod.Fx" is reaction(rod).x.
std::string expression_of_table(const std::string& name) {
  struct End {
    std::string_view end;
    const char *before, *after;
  };
  static constexpr End ends[] = {{".vx", "", ".velocity.x"},  {".vy", "", ".velocity.y"},  {".vz", "", ".velocity.z"},
                                 {".wx", "", ".omega.x"},     {".wy", "", ".omega.y"},     {".wz", "", ".omega.z"},
                                 {".Fx", "reaction(", ").x"}, {".Fy", "reaction(", ").y"}, {".Fz", "reaction(", ").z"},
                                 {".Mx", "moment(", ").x"},   {".My", "moment(", ").y"},   {".Mz", "moment(", ").z"}};
  for (const End& each : ends)
    if (name.size() > each.end.size() && name.ends_with(each.end))
      return each.before + scene::quoted(name.substr(0, name.size() - each.end.size())) + each.after;
  for (const char* part : {".x", ".y", ".z"})
    if (name.ends_with(part)) return scene::quoted(name.substr(0, name.size() - 2)) + part;
  return name;
}

}  // namespace

struct SceneFit::Impl {
  /// A quantity of the scene that a column measures.
  struct Quantity {
    std::string expression, unit;
  };

  SceneFitOptions options;
  std::vector<MeasuredRecording> recordings;
  PredictedScene predicted;  // one run for each recording, one channel for each column
  std::vector<std::string> files;
  std::vector<FittedColumn> columns;
  std::vector<FittedSeries> series;
  MeasuredValues measured;
  std::vector<std::string> remarks;
  double duration = 0;

  void read(const std::function<void(const scene::Model&)>& look) {
    if (recordings.empty()) throw std::invalid_argument("there are no measurements");
    leave_out_values();
    for (const MeasuredRecording& each : recordings) {
      PredictedRun run;
      run.params = options.values;
      for (const auto& [name, value] : each.known) run.params[name] = value;
      predicted.runs.push_back(std::move(run));
    }
    const scene::Model model = predicted.load(predicted.overrides(0));
    if (look) look(model);
    files = model.files;
    const Simulation simulation = options.simulation(model);
    duration = simulation.dt * static_cast<double>(simulation.steps);
    for (std::size_t r = 1; r < recordings.size(); ++r) (void)predicted.load(predicted.overrides(r));
    take_parameters();
    for (std::size_t r = 0; r < recordings.size(); ++r) take_columns(r, model);
    take_sigma();
    make_schedules();
    if (model.options.method == Method::semi_implicit && has_laws(model))
      remarks.push_back(
          "the scene steps by the method semi-implicit, which locates stick and slip at the ends of steps only. "
          "method = \"rk4\" in [solver] makes estimates exact");
  }

  static bool has_laws(const scene::Model& model) {
    return std::any_of(model.constraints.begin(), model.constraints.end(),
                       [](const scene::SceneConstraint& c) { return !c.laws.empty(); });
  }

  // ---- parameters

  void take_parameters() {
    if (options.free.empty()) throw std::invalid_argument(options.words.free + " names no parameter");
    std::set<std::string> names;
    for (const FreeName& each : options.free) {
      if (!names.insert(each.name).second) throw std::invalid_argument("\"" + each.name + "\" is free twice");
      if (!(each.low < each.high))
        throw std::invalid_argument("the bounds of \"" + each.name + "\" are " + six_digits(each.low) + " and " +
                                    six_digits(each.high) + ". The first must be smaller");
      for (std::size_t r = 0; r < (each.of_each_recording ? recordings.size() : 1); ++r) take_parameter(each, r);
      for (std::size_t r = 0; r < recordings.size(); ++r)
        if (recordings[r].known.contains(each.name) && !each.of_each_recording)
          throw std::invalid_argument("\"" + each.name + "\" is free, but " + recordings[r].measured.file +
                                      " gives it a value");
    }
  }

  void take_parameter(const FreeName& of, std::size_t recording) {
    PredictedParameter slot{of.name, {}};
    FreeParameter parameter{of.name, start_of(of.name, recording), of.low, of.high};
    if (of.of_each_recording) {
      slot.run = recording;
      if (recordings.size() > 1) parameter.name += " of " + recordings[recording].measured.file;
    }
    if (parameter.start < of.low || parameter.start > of.high)
      throw std::invalid_argument("the start value of \"" + of.name + "\" is " + six_digits(parameter.start) +
                                  ", outside of its bounds from " + six_digits(of.low) + " to " + six_digits(of.high) +
                                  ". " + options.words.values + " can give another start value");
    predicted.parameters.push_back(slot);
    predicted.free.push_back(parameter);
  }

  /// The value of a number of [params]. @throws std::invalid_argument if there is none
  double start_of(const std::string& name, std::size_t recording) const {
    scene::Overrides with = predicted.overrides(recording);
    with.params[name] = 0;
    try {
      (void)predicted.load(with);  // of the messages about names
    } catch (const scene::SceneError&) {
    }
    with = predicted.overrides(recording);
    with.logs = {name};
    return scene::logs_at_start(predicted.load(with), 1)[0];
  }

  void leave_out_values() {
    for (auto each = options.values.begin(); each != options.values.end();) {
      scene::Overrides with;
      with.mjcf_scene = options.import_mjcf;
      with.params[each->first] = each->second;
      try {
        (void)predicted.load(with);
      } catch (const std::invalid_argument&) {
        each = options.values.erase(each);
        continue;
      } catch (const scene::SceneError&) {  // of the value
      }
      ++each;
    }
  }

  // ---- columns

  void take_columns(std::size_t recording, const scene::Model& model) {
    const MeasuredFile& file = recordings[recording].measured;
    std::size_t before = 0, after = 0;
    for (const MeasuredColumn& column : file.columns) {
      if (is_rate_of_point(column.name, model)) continue;
      const Quantity quantity = quantity_of(file, column, model, predicted.overrides(recording));
      double factor = 1;  // from its unit to that of the scene
      try {
        factor = conversion(column.unit, quantity.unit);
      } catch (const std::invalid_argument& e) {
        throw measurement_error(file, file.title_line, column.column, "\"" + column.name + "\": " + e.what());
      }
      const std::size_t number = number_of(column, quantity, factor);
      add_series(recording, number, column, factor * predicted.factors[number], before, after);
    }
    if (before + after == 0) return;
    std::size_t left = 0;
    for (const FittedSeries& each : series)
      if (each.recording == recording) left += each.t.size();
    if (left == 0) throw no_overlap(file);
    remarks.push_back(counted(static_cast<long>(before + after), "sample") + " of " + file.file +
                      (before + after == 1 ? " lies" : " lie") + " outside of the run from 0 to " +
                      six_digits(duration) + " s" + (before + after == 1 ? " and is" : " and are") + " left out");
  }

  /// Whether a column of `run --csv` is the angular velocity of a body that has none.
  static bool is_rate_of_point(const std::string& name, const scene::Model& model) {
    for (const scene::SceneBody& body : model.bodies)
      for (const char* part : {".wx", ".wy", ".wz"})
        if (body.kind == BodyKind::particle && body.name + part == name) return true;
    return false;
  }

  scene::SceneError no_overlap(const MeasuredFile& file) const {
    double first = unbounded, last = -unbounded;
    std::size_t line = 0;
    for (const MeasuredColumn& column : file.columns) {
      if (column.t.empty()) continue;
      if (column.t.front() < first && !column.lines.empty()) line = column.lines.front();
      first = std::min(first, column.t.front());
      last = std::max(last, column.t.back());
    }
    return measurement_error(file, line, line > 0 ? 1 : 0,
                             "the times do not overlap with the run: they are from " + six_digits(first) + " to " +
                                 six_digits(last) + " s, and the run is from 0 to " + six_digits(duration) +
                                 " s. Subtract the time of the start, or give a longer " + options.words.duration);
  }

  /// Finds what a column measures. @throws SceneError at its title
  Quantity quantity_of(const MeasuredFile& file, const MeasuredColumn& column, const scene::Model& model,
                       scene::Overrides with) const {
    std::vector<std::string> titles;
    for (const scene::Channel& log : model.logs) {
      titles.push_back(log.title());
      if (log.title() == column.name && log.size() == 1) return {log.text(), log.unit()};
      for (const char* part : {".x", ".y", ".z"})
        if (log.size() == 3 && log.title() + part == column.name) return {"(" + log.text() + ")" + part, log.unit()};
    }
    std::optional<std::string> failure;
    for (const std::string& expression : {column.name, expression_of_table(column.name)}) {
      with.logs = {expression};
      try {
        const scene::Model read = predicted.load(with);
        const scene::Channel& channel = read.logs.back();
        if (channel.size() == 1) return {expression, channel.unit()};
        failure = "\"" + column.name + "\" is a vector. Measure a component, such as " + column.name + ".x";
      } catch (const scene::SceneError& e) {
        if (e.file != "column") throw;
        const std::string_view what = "column: ";
        if (!failure)
          failure = "\"" + column.name + "\" is no quantity of " + options.scene + ": " +
                    (e.message.starts_with(what) ? e.message.substr(what.size()) : e.message);
      }
    }
    const std::string near = scene::nearest(column.name, titles);
    throw measurement_error(file, file.title_line, column.column,
                            *failure + (failure->ends_with('?') ? "" : ".") +
                                (near.empty() ? "" : " A log has the name \"" + near + "\".") + " " +
                                options.words.columns + " can name the columns that are measurements");
  }

  std::size_t number_of(const MeasuredColumn& column, const Quantity& quantity, double factor) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (predicted.channels[i] == quantity.expression) return i;
    columns.push_back({column.name, column.unit});
    predicted.channels.push_back(quantity.expression);
    predicted.factors.push_back(1 / factor);
    measured.columns.push_back({column.name, {}});
    return columns.size() - 1;
  }

  void add_series(std::size_t recording, std::size_t column, const MeasuredColumn& from, double factor,
                  std::size_t& before, std::size_t& after) {
    FittedSeries out;
    out.recording = recording;
    out.column = column;
    out.first = measured.values.size();
    for (std::size_t i = 0; i < from.t.size(); ++i) {
      if (from.t[i] < 0) {
        ++before;
        continue;
      }
      if (from.t[i] > duration * (1 + 1e-12)) {
        ++after;
        continue;
      }
      out.t.push_back(from.t[i]);
      out.measured.push_back(factor * from.values[i]);
      measured.values.push_back(out.measured.back());
      measured.column.push_back(column);
    }
    series.push_back(std::move(out));
  }

  // ---- noise levels

  void take_sigma() {
    for (const auto& [name, level] : options.sigma) {
      std::vector<std::string> names;
      bool found = false;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        names.push_back(columns[i].name);
        if (columns[i].name != name) continue;
        measured.columns[i].sigma = sigma_of(columns[i], level);
        found = true;
      }
      const std::string near = scene::nearest(name, names);
      if (!found)
        throw std::invalid_argument(options.words.sigma + ": there is no column \"" + name + "\"" +
                                    (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
    }
  }

  double sigma_of(const FittedColumn& column, const std::string& text) const {
    double out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    const std::string unit(end, text.data() + text.size());
    const auto first = unit.find_first_not_of(' ');
    if (error != std::errc() || !(out > 0) || !std::isfinite(out))
      throw std::invalid_argument(options.words.sigma + " of \"" + column.name + "\" is \"" + text +
                                  "\", expected a positive number, with or without a unit");
    if (first == std::string::npos) return out;
    try {
      return out * conversion(unit.substr(first), column.unit);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(options.words.sigma + " of \"" + column.name + "\": " + e.what());
    }
  }

  // ---- runs

  void make_schedules() {
    predicted.measurements = measured.values.size();
    for (std::size_t r = 0; r < recordings.size(); ++r) {
      std::map<double, std::vector<PredictedRun::Sample>> by_time;
      for (const FittedSeries& each : series)
        for (std::size_t i = 0; each.recording == r && i < each.t.size(); ++i)
          by_time[each.t[i]].push_back({each.column, each.first + i});
      for (auto& [t, samples] : by_time) {
        predicted.runs[r].times.push_back(t);
        predicted.runs[r].samples.push_back(std::move(samples));
      }
    }
  }
};

SceneFit::SceneFit(SceneFitOptions options, std::string text, std::vector<MeasuredRecording> recordings,
                   const std::function<void(const scene::Model&)>& look)
    : impl_(std::make_unique<Impl>()) {
  PredictedScene& predicted = impl_->predicted;
  predicted.scene = options.scene;
  predicted.text = std::move(text);
  predicted.simulation = options.simulation;
  predicted.import = options.import;
  predicted.import_mjcf = options.import_mjcf;
  predicted.threads = options.threads;
  impl_->options = std::move(options);
  impl_->recordings = std::move(recordings);
  impl_->read(look);
}

SceneFit::~SceneFit() = default;
SceneFit::SceneFit(SceneFit&&) noexcept = default;

bool SceneFit::has(const std::string& name) const { return impl_->options.values.contains(name); }

const std::vector<std::string>& SceneFit::files() const { return impl_->files; }

SceneFitResult SceneFit::run() const {
  const Impl& of = *impl_;
  SceneFitResult out;
  out.scene = of.options.scene;
  out.parameters = of.predicted.free;
  out.columns = of.columns;
  for (const MeasuredRecording& each : of.recordings) out.recordings.push_back(each.measured.file);
  out.series = of.series;
  out.remarks = of.remarks;
  ScenePredictor predict(of.predicted);
  out.fit = least_squares(std::ref(predict), of.measured, of.predicted.free);
  out.identifiability = identifiability(out.fit, of.predicted.free);
  out.fit.estimates -= out.identifiability.open_directions;
  for (std::size_t c = 0; c < out.columns.size(); ++c) {
    const ColumnFit& column = out.fit.columns[c];
    if (!column.affected)
      out.remarks.push_back("the column \"" + out.columns[c].name + "\" does not depend on the free parameters");
    else if (column.is_far)
      out.remarks.push_back("the prediction of \"" + out.columns[c].name +
                            "\" is far from the data: the residuals are more than half as large as the variation of "
                            "the data. If the search has found the wrong minimum, another start value helps (" +
                            of.options.words.values + ")");
    else if (column.residuals_follow)
      out.remarks.push_back("the residuals of \"" + out.columns[c].name + "\" follow each other (autocorrelation " +
                            six_digits(std::round(100 * column.autocorrelation) / 100) +
                            "). The scene lacks something, or the noise is not independent. The true errors are then "
                            "larger than the standard errors");
  }
  return out;
}

namespace {

bool is_asked_for(const std::string& asked, const std::string& name, const std::string& title) {
  return asked == name || asked == title;
}

[[noreturn]] void refuse_column(const std::string& asked, const MeasuredFile& file,
                                const std::vector<std::string>& seen) {
  const std::string near = scene::nearest(asked, seen);
  throw measurement_error(
      file, file.title_line, file.title_line > 0 ? 1 : 0,
      "there is no column \"" + asked + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

}  // namespace

MeasuredFile read_recording(const std::string& file, std::string bytes, const std::vector<std::string>& columns,
                            std::vector<std::string>& seen) {
  const auto wanted = [&](const std::string& name, const std::string& title) {
    if (std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(name);
    if (columns.empty()) return !is_no_measurement(name);
    return std::any_of(columns.begin(), columns.end(),
                       [&](const std::string& each) { return is_asked_for(each, name, title); });
  };
  MeasuredFile out = read_measurements(file, std::move(bytes), wanted);
  if (!out.columns.empty()) return out;
  if (!columns.empty()) refuse_column(columns.front(), out, seen);
  throw measurement_error(out, out.title_line, 1, "there is no column beside the time");
}

void demand_columns(const std::vector<std::string>& columns, const std::vector<MeasuredRecording>& recordings,
                    const std::vector<std::string>& seen) {
  for (const std::string& asked : columns) {
    bool found = false;
    for (const MeasuredRecording& recording : recordings)
      for (const MeasuredColumn& each : recording.measured.columns)
        found = found || is_asked_for(asked, each.name, each.name + " [" + each.unit + "]");
    if (!found) refuse_column(asked, recordings.front().measured, seen);
  }
}

ModelComparison compare_models(const std::vector<SceneFitResult>& fits) {
  ModelComparison out;
  for (const SceneFitResult& each : fits) out.corrected = out.corrected && std::isfinite(each.fit.aicc());
  std::vector<double> criterion;
  for (const SceneFitResult& each : fits) criterion.push_back(out.corrected ? each.fit.aicc() : each.fit.aic());
  out.best = static_cast<std::size_t>(std::min_element(criterion.begin(), criterion.end()) - criterion.begin());
  double sum = 0, second = unbounded;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    out.excess.push_back(criterion[i] - criterion[out.best]);
    out.weights.push_back(std::exp(-0.5 * out.excess.back()));
    sum += out.weights.back();
    if (i != out.best) second = std::min(second, out.excess.back());
  }
  for (double& each : out.weights) each /= sum;
  const std::string& best = fits[out.best].scene;
  const std::string name = out.corrected ? "AICc" : "AIC";
  if (!std::isfinite(second)) return out;
  if (second < 2)
    out.verdict = "the data do not decide: another scene is within " + six_digits(second) + " of the smallest " + name;
  else if (second < 6)
    out.verdict = best + " is better, but the evidence is weak: its " + name + " is smaller by " + six_digits(second);
  else
    out.verdict = best + " is better: its " + name + " is smaller by " + six_digits(second);
  return out;
}

}  // namespace linchpin::cli
