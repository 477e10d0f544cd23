#include "recorder.h"

#include "recording/columns.h"
#include "shapes.h"

#include <linchpin/scene_recorder.h>

#include <cmath>
#include <string>
#include <utility>

namespace linchpin::mujoco_worker {

namespace {

std::string text_of(const std::optional<RowUnit>& unit) {
  return !unit ? "" : *unit == RowUnit::metre ? "m" : *unit == RowUnit::radian ? "rad" : "";
}

recording::Recording make(const recording::RecordingOptions& options, const Model& model, const scene::Model* scene,
                          double dt, long steps) {
  std::vector<recording::Recording::Body> bodies;
  for (int i = 1; i < model.model().nbody; ++i)
    bodies.push_back(
        {model.body_names()[static_cast<std::size_t>(i) - 1], model.kind(i), {}, "", "", shapes_of(model.model(), i)});
  std::vector<recording::Recording::Joint> links;
  for (const Link& each : model.links()) {
    recording::Recording::Joint link{each.name, text_of(each.unit), {}};
    for (const int body : each.bodies) link.bodies.push_back(body - 1);
    for (std::size_t k = 0; k < link.bodies.size(); ++k)
      if (link.bodies[k] >= 0 && model.kind(each.bodies[k]) == BodyKind::rigid) {
        link.on = k;
        break;
      }
    links.push_back(std::move(link));
  }
  return {options,
          dt,
          steps,
          std::move(bodies),
          std::move(links),
          scene ? scene::recorded_signals(*scene) : std::vector<recording::Recording::Signal>()};
}

}  // namespace

Recorder::Recorder(const recording::RecordingOptions& options, Model& model, const scene::Model* scene, double dt,
                   long steps)
    : model_(model), recording_(make(options, model, scene, dt, steps)), states_(model.body_names().size()) {}

void Recorder::state() {
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i] = model_.state(static_cast<int>(i) + 1);
  gaps_.clear();
  for (const Link& link : model_.links()) gaps_.push_back(link.unit ? model_.gap(link).in(*link.unit) : std::nan(""));
  recording_.state(model_.data().time, states_, gaps_, model_.energy());
}

void Recorder::forces(const LinkForces& forces, std::span<const double> logs) {
  if (!recording_.is_frame()) return;
  forces_.clear();
  for (std::size_t i = 0; i < model_.links().size(); ++i) forces_.push_back(forces.of(i, recording_.links()[i].on));
  recording_.forces(forces_, logs);
}

Json Recorder::json() const { return recording::Columns::json(recording_); }

}  // namespace linchpin::mujoco_worker
