#include "scene_predictor.h"

#include "messages.h"

#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/modes.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace linchpin::cli {

namespace {

/// Calls a function with the numbers from 0 to count − 1, in several threads. @throws the first exception
void in_threads(int threads, std::size_t count, const std::function<void(std::size_t)>& call) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex lock;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        call(i);
      } catch (...) {
        const std::lock_guard<std::mutex> guard(lock);
        if (!failure) failure = std::current_exception();
        next = count;
      }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min(count, static_cast<std::size_t>(std::max(threads, 1))); ++i)
    others.emplace_back(work);
  work();
  for (std::thread& each : others) each.join();
  if (failure) std::rethrow_exception(failure);
}

bool is_of(const PredictedParameter& parameter, std::size_t run) { return !parameter.run || *parameter.run == run; }

/// Steps to a time, in equal parts that are not longer than a step of the scene.
void advance(Stepper& stepper, const System& system, scene::ModeRecord& modes, double to, double dt) {
  const double from = stepper.t();
  const long parts = static_cast<long>(std::ceil((to - from) / dt - 1e-6));
  for (long i = 0; i < parts; ++i) {
    const double end = i + 1 == parts ? to : from + (to - from) * double(i + 1) / double(parts);
    const StepReport& report = stepper.step(end - stepper.t());
    if (report.rejected)
      throw NoPrediction("the run stopped at " + significant(stepper.t(), 6) + " s: " + report.reason);
    modes.add(system, stepper.switches());
  }
}

/// Places beside a point at which the scene runs, as multiples of a step, in the order in which they are tried. Some
/// may be where the scene has no result.
std::vector<std::vector<int>> places(Derivatives derivatives) {
  if (derivatives == Derivatives::quick) return {{1}, {-1}};
  return {{-1, 1}, {1, 2}, {-1, -2}};
}

}  // namespace

scene::Overrides PredictedScene::overrides(std::size_t run) const {
  scene::Overrides out;
  out.mjcf_scene = import_mjcf;
  for (const auto& [name, value] : runs[run].params) out.params[name] = value;
  return out;
}

/// Predicts the samples of one run.
void ScenePredictor::run(std::size_t number, std::span<const double> x, std::span<double> values) const try {
  scene::Overrides with = of_.overrides(number);
  for (std::size_t j = 0; j < of_.parameters.size(); ++j)
    if (is_of(of_.parameters[j], number)) with.params[of_.parameters[j].name] = x[j];
  with.logs = of_.channels;
  const scene::Model read = of_.load(with);
  const Simulation simulation = of_.simulation(read);
  const scene::Model model = scene::with_joint_limits(read);
  System system = model.system();
  if (simulation.gravity)
    system.set_gravity({(*simulation.gravity)[0], (*simulation.gravity)[1], (*simulation.gravity)[2]});
  StepOptions steps = model.options;
  steps.dense_output = false;
  Stepper stepper(system, system.initial_state(), steps);
  scene::ModeRecord modes;
  (void)stepper.reactions();
  modes.begin(system, stepper.dynamics(), stepper.t());
  const std::span<const scene::Channel> channels(model.logs.end() - static_cast<std::ptrdiff_t>(of_.channels.size()),
                                                 model.logs.end());
  const bool forces =
      std::any_of(channels.begin(), channels.end(), [](const scene::Channel& c) { return c.reads_forces(); });
  const PredictedRun& of = of_.runs[number];
  for (std::size_t k = 0; k < of.times.size(); ++k) {
    advance(stepper, system, modes, of.times[k], simulation.dt);
    const scene::Observation at{system, stepper.state(), forces ? stepper.reactions() : std::span<const Reaction>(),
                                &modes};
    for (const PredictedRun::Sample& each : of.samples[k])
      values[each.index] = of_.factors[each.channel] * channels[each.channel](at)[0];
  }
} catch (const scene::SceneError& e) {
  throw NoPrediction((e.line > 0 ? "line " + std::to_string(e.line) + " of the scene: " : "") + e.message);
} catch (const std::invalid_argument& e) {
  throw NoPrediction(said(e));
}

/// Predictions at one or two places beside a point, for the derivative with respect to one parameter.
struct ScenePredictor::Difference {
  std::size_t parameter, run;
  double step = 0;
  std::vector<int> multiples;               // of the step, at which the scene runs
  std::vector<std::vector<double>> values;  // by place

  double slope(double middle, std::size_t i) const {
    const double a = multiples[0] * step;
    if (multiples.size() == 1) return (values[0][i] - middle) / a;
    const double b = multiples[1] * step;
    return (values[0][i] - middle) / a * (b / (b - a)) - (values[1][i] - middle) / b * (a / (b - a));
  }
};

void ScenePredictor::difference(Difference& of, std::span<const double> x, Derivatives derivatives,
                                const std::vector<double>& middle) const {
  const FreeParameter& parameter = of_.free[of.parameter];
  const double value = x[of.parameter];
  of.step = std::min(
      (derivatives == Derivatives::quick ? 1e-6 : 6e-6) * std::max(std::fabs(value), 0.1 * parameter.typical()),
      0.4 * (parameter.high - parameter.low));
  std::string reason = "the bounds leave no room for a derivative";
  for (const std::vector<int>& multiples : places(derivatives)) {
    const auto is_possible = [&](int multiple) {
      const double at = value + multiple * of.step;
      return at >= parameter.low && at <= parameter.high;
    };
    if (!std::all_of(multiples.begin(), multiples.end(), is_possible)) continue;
    of.multiples = multiples;
    of.values.assign(multiples.size(), middle);
    try {
      for (std::size_t k = 0; k < multiples.size(); ++k) {
        std::vector<double> moved(x.begin(), x.end());
        moved[of.parameter] += multiples[k] * of.step;
        run(of.run, moved, of.values[k]);
      }
      return;
    } catch (const NoPrediction& e) {
      reason = e.what();
    }
  }
  throw NoPrediction(reason);
}

/// Derivatives by differences of runs. [measurements × parameters]
std::vector<double> ScenePredictor::jacobian(std::span<const double> x, Derivatives derivatives,
                                             const std::vector<double>& values) const {
  std::vector<Difference> all;
  for (std::size_t j = 0; j < of_.parameters.size(); ++j)
    for (std::size_t r = 0; r < of_.runs.size(); ++r)
      if (is_of(of_.parameters[j], r)) all.push_back({j, r, 0, {}, {}});
  in_threads(of_.threads, all.size(), [&](std::size_t n) { difference(all[n], x, derivatives, values); });
  std::vector<double> out(of_.measurements * of_.parameters.size());
  for (const Difference& each : all)
    for (const auto& samples : of_.runs[each.run].samples)
      for (const PredictedRun::Sample& sample : samples)
        out[sample.index * of_.parameters.size() + each.parameter] = each.slope(values[sample.index], sample.index);
  return out;
}

Prediction ScenePredictor::operator()(std::span<const double> parameters, Derivatives derivatives) {
  if (!std::equal(parameters.begin(), parameters.end(), place_.begin(), place_.end())) {
    std::vector<double> values(of_.measurements);
    in_threads(of_.threads, of_.runs.size(), [&](std::size_t r) { run(r, parameters, values); });
    place_.assign(parameters.begin(), parameters.end());
    values_ = std::move(values);
  }
  Prediction out{values_, {}};
  if (derivatives != Derivatives::none) out.jacobian = jacobian(parameters, derivatives, values_);
  return out;
}

}  // namespace linchpin::cli
