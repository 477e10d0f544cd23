#include "modes_report.h"

#include "recording/base64.h"
#include "recording/columns.h"
#include "report_file.h"
#include "vector_json.h"

#include <linchpin/dynamics.h>
#include <linchpin/recording.h>
#include <linchpin/scene_recorder.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;
using recording::Recording;

/// The state as a recording of one frame. The forces say where joints are.
Json pose_json(const scene::Model& model, const System& system, const State& state) {
  Recording pose({}, model.dt, 1, scene::recorded_bodies(model), scene::recorded_joints(model, system), {});
  const std::size_t joints = pose.links().size();
  std::vector<Recording::Force> forces(joints);
  Dynamics dynamics(system, model.options.solve);
  std::vector<Reaction> reactions;
  if (dynamics.evaluate(state) != Status::invalid) dynamics.reactions(state, reactions, false);
  for (const Reaction& r : reactions)
    for (std::size_t i = 0; i < joints; ++i)
      if (pose.links()[i].name == r.name) forces[i] = Recording::Force::of(r, pose.links()[i].on);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  pose.state(state.t, std::span(state.bodies).subspan(1), std::vector<double>(joints, nan), nan);
  pose.forces(forces, {});
  return recording::Columns::json(std::move(pose));
}

/// Displacements of a mode in the order of the columns of a recording, each as real and imaginary part.
Json shape_columns(const System& system, const LinearizedMotion& motion, const Eigenmode& mode) {
  std::vector<float> position, rotation, coordinate;
  const auto put = [&](std::vector<float>& column, int at, int count, int all) {
    for (int i = 0; i < all; ++i) {
      const std::complex<double> x = i < count ? mode.shape[static_cast<std::size_t>(at + i)] : 0.0;
      column.push_back(static_cast<float>(x.real()));
      column.push_back(static_cast<float>(x.imag()));
    }
  };
  for (int i = 1; i < system.body_count(); ++i) {
    const BodyId id = system.body_at(i);
    const int s = motion.layout.body_index(id);
    const int at = s < 0 ? 0 : motion.layout.column[static_cast<std::size_t>(s)];
    const int size = s < 0 ? 0 : motion.layout.column[static_cast<std::size_t>(s) + 1] - at;
    if (system.kind(id) == BodyKind::coordinate) {
      put(coordinate, at, size, 1);
    } else {
      put(position, at, std::min(size, 3), 3);
      put(rotation, at + 3, size - 3, 3);
    }
  }
  const auto text = [](const std::vector<float>& column) {
    return recording::base64(column.data(), column.size() * sizeof(float));
  };
  return {{"position", text(position)}, {"rotation", text(rotation)}, {"coordinate", text(coordinate)}};
}

bool is_at_rest(const State& state) {
  return std::all_of(state.bodies.begin(), state.bodies.end(),
                     [](const BodyState& body) { return body.v.norm() < 1e-9 && body.w.norm() < 1e-9; });
}

}  // namespace

Json modes_page_json(const std::string& scene, const scene::Model& model, const System& system,
                     const LinearizedScene& of, const ModesRemarks& remarks) {
  Json out = provenance(scene);
  out["kind"] = "linchpin modes";
  out["verb"] = "linearize";
  out["gravity"] = vector_json(system.gravity());
  out["left_out"] = remarks.left_out;
  out["warnings"] = remarks.warnings;
  out["linearization"] = linearization_json(of);
  out["at_rest"] = is_at_rest(of.state);
  out["neutral_modes"] =
      std::count_if(of.modes.begin(), of.modes.end(), [](const Eigenmode& mode) { return mode.eigenvalue == 0.0; });
  out["modes"] = Json::array();
  for (const Eigenmode& mode : of.modes) {
    if (!is_listed(mode)) continue;
    Json each = mode_json(mode);
    each["moves"] = Json::array();
    for (const Share& share : shares(system, of.motion, mode))
      each["moves"].push_back({{"body", share.body}, {"size", share.size}});
    each["columns"] = shape_columns(system, of.motion, mode);
    out["modes"].push_back(std::move(each));
  }
  out["pose"] = pose_json(model, system, of.state);
  return out;
}

}  // namespace linchpin::cli
