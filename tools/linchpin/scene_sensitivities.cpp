#include "scene_sensitivities.h"

#include "csv.h"
#include "remarks.h"

#include <linchpin/scene/modes.h>
#include <linchpin/scene/parametric_scene.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace linchpin::cli {

namespace {

/// Reads a scene with the channels that a request needs.
class Reader {
 public:
  explicit Reader(const SensitivityRequest& request) : request_(request), logs_(request.columns) {
    if (!request.until.empty()) logs_.push_back(request.until);
  }
  scene::Model operator()(const std::map<std::string, double, std::less<>>& params) const {
    scene::Overrides overrides;
    overrides.params = params;
    overrides.logs = logs_;
    overrides.mjcf_scene = request_.import_mjcf;
    return scene::load_text(request_.text, request_.scene, request_.import, overrides);
  }
  /// The values that the scene itself gives to the parameters.
  std::vector<double> own() const {
    scene::Overrides overrides;
    overrides.logs = request_.parameters;
    overrides.mjcf_scene = request_.import_mjcf;
    return scene::logs_at_start(load_own(overrides), request_.parameters.size());
  }

 private:
  scene::Model load_own(const scene::Overrides& overrides) const try {
    return scene::load_text(request_.text, request_.scene, request_.import, overrides);
  } catch (const scene::SceneError& e) {
    // The scene itself has been read. So a name is wrong.
    throw std::invalid_argument("a parameter is no number in [params] of the scene: " + e.message);
  }
  const SensitivityRequest& request_;
  std::vector<std::string> logs_;
};

class DifferentiatedRun {
 public:
  DifferentiatedRun(const SensitivityRequest& request, const std::function<void(const scene::Model&)>& look)
      : request_(request), reader_(request), values_(own_values()), scene_(reader_, request.parameters, values_) {
    const scene::Model& model = scene_.model();
    look(model);
    const bool until = !request.until.empty();
    if (until && (model.logs.back().size() != 1 || model.logs.back().reads_forces()))
      throw std::invalid_argument(request.until_option + " is \"" + request.until +
                                  "\", expected a scalar quantity of the motion, such as bead.x. Forces are not "
                                  "possible");
    for (std::size_t i = 0, at = 0; i < model.logs.size() - (until ? 1 : 0); ++i) {
      const scene::Channel& channel = model.logs[i];
      const std::size_t first = at;
      at += static_cast<std::size_t>(channel.size());
      if (channel.reads_history() && i + request.columns.size() + (until ? 1 : 0) < model.logs.size()) {
        out_.left_out.push_back(channel.title());
        continue;
      }
      if (channel.reads_history())
        throw std::invalid_argument("\"" + channel.title() +
                                    "\" depends on the motion before, so it has no derivative here. Leave it out. The "
                                    "events have the derivatives of their times");
      for (std::size_t k = first; k < at; ++k) kept_.push_back(k);
      for (const std::string& name : value_names(channel)) out_.columns.push_back(name + bracketed(channel.unit()));
    }
    if (kept_.empty() && !until)
      throw std::invalid_argument(
          "there is no quantity to differentiate. Add [[log]] to the scene, or a quantity such "
          "as norm(body.velocity) by " +
          request.column_option);
    out_.values = values_;
  }

  SceneSensitivities result() {
    const scene::Model& model = scene_.model();
    SensitivityOptions options{.stepper = model.options};
    if (!locates_events(options.stepper.method)) options.stepper.method = Method::rk4;
    out_.method = to_string(options.stepper.method);
    SensitivityStepper stepper(scene_.system(), options);
    if (!request_.until.empty()) watch(stepper);
    const double dt = request_.dt.value_or(model.dt), duration = request_.duration.value_or(model.duration);
    const double steps = std::round(duration / dt);  // As many as a run and a sweep take.
    if (!(dt > 0 && steps >= 1 && steps <= 1e8))
      throw std::invalid_argument("the duration is " + std::to_string(duration) +
                                  " s. It must be from 1 to 1e8 steps of " + std::to_string(dt) + " s");
    out_.samples.push_back(sample(stepper.t(), stepper.outputs(all(), scene_.outputs(), forces())));
    for (long i = 1; i <= static_cast<long>(steps); ++i) {
      const StepReport& report = stepper.step(dt);
      take_warning(report.warning, out_.warnings);
      if (report.rejected)
        throw std::invalid_argument("the run stopped at " + std::to_string(stepper.t()) + " s: " + report.reason);
      add_events(stepper);
      if (!stepper.crossings().empty()) {
        end_at(stepper, stepper.crossings().front());
        return std::move(out_);
      }
      if (i % request_.every == 0 || i == static_cast<long>(steps))
        out_.samples.push_back(sample(stepper.t(), stepper.outputs(all(), scene_.outputs(), forces())));
    }
    if (!request_.until.empty())
      throw std::invalid_argument("\"" + request_.until + "\" did not cross zero within " + std::to_string(duration) +
                                  " s");
    return std::move(out_);
  }

 private:
  std::vector<double> own_values() const {
    (void)reader_({});  // says what is wrong with the scene, in its own words
    return reader_.own();
  }
  int all() const { return scene_.output_count(); }
  bool forces() const { return scene_.reads_forces(); }
  SensitivitySample sample(double t, const OutputSensitivity& outputs) const {
    SensitivitySample out{t, {}, {}};
    const std::size_t p = request_.parameters.size();
    for (const std::size_t i : kept_) {
      out.value.push_back(outputs.value[i]);
      for (std::size_t j = 0; j < p; ++j) out.derivative.push_back(outputs.derivative[i * p + j]);
    }
    return out;
  }
  void watch(SensitivityStepper& stepper) {
    stepper.watch([outputs = scene_.outputs(), row = std::vector<double>(static_cast<std::size_t>(all()))](
                      const OutputPoint& at, std::span<double> out) mutable {
      outputs(at, row);
      out[0] = row.back();
    });
  }
  void add_events(const SensitivityStepper& stepper) {
    for (const SwitchSensitivity& each : stepper.switches())
      out_.events.push_back(
          {each.event.t, system_.name(each.event.on), scene::to_string(each.event.what), each.t_derivatives});
  }
  void end_at(const SensitivityStepper& stepper, const CrossingSensitivity& crossing) {
    std::erase_if(out_.events, [&](const SensitivityEvent& event) { return event.t > crossing.t; });
    out_.samples.push_back(sample(crossing.t, stepper.outputs_at(crossing, all(), scene_.outputs(), forces())));
    out_.end_time = crossing.t_derivatives;
  }

  const SensitivityRequest& request_;
  Reader reader_;
  std::vector<double> values_;
  scene::ParametricScene scene_;
  const System system_ = scene_.model().system();  // has the names of constraints
  std::vector<std::size_t> kept_;                  // Outputs that are columns.
  SceneSensitivities out_;
};

}  // namespace

SceneSensitivities scene_sensitivities(const SensitivityRequest& request,
                                       const std::function<void(const scene::Model&)>& look) {
  return DifferentiatedRun(request, look).result();
}

}  // namespace linchpin::cli
