// Records a scene::Simulation, on any host, for a report that opens with a double click:
//
//     linchpin::scene::Recorder recorder(simulation);
//     for (int i = 0; i < 1000; ++i) simulation.step(), recorder.add();
//     recorder.write("run.html");                          // or .rec, .glb, .gltf, .mcap
//
// Link linchpin::recording beside the library of the simulation. The header is compiled with the program. It also has
// the parts of a scene as a Recording shows them.
#pragma once

#include <linchpin/error.h>
#include <linchpin/recording.h>
#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/scene/simulation.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace linchpin::scene {

/// Converts a shape for viewers.
inline recording::VisualShape visual_shape(const Shape& shape) {
  // The kinds of both are in the same order.
  recording::VisualShape out{static_cast<recording::VisualShape::Kind>(shape.kind), shape.size, {}, {}};
  if (shape.hull) out.vertices = shape.hull->vertices, out.triangles = shape.hull->faces;
  return out;
}

/// Converts the shapes of a robot's link for viewers, in body axes.
inline std::vector<recording::PlacedVisualShape> placed_visual_shapes(const SceneBody& body) {
  std::vector<recording::PlacedVisualShape> out;
  for (const PlacedShape& each : body.more_shapes) out.push_back({visual_shape(each.shape), each.pose.p, each.pose.q});
  return out;
}

/// The bodies and coordinates of a scene, in its order.
inline std::vector<recording::Recording::Body> recorded_bodies(const Model& model) {
  std::vector<recording::Recording::Body> out;
  for (const SceneBody& body : model.bodies)
    out.push_back(
        {body.name, body.kind, visual_shape(body.shape), body.unit, force_unit(body.unit), placed_visual_shapes(body)});
  return out;
}

/// The unit of the gap of a constraint of a system: that of its first row, or custom for a condition on velocities.
inline RowUnit gap_unit(const System& system, const SceneConstraint& constraint) {
  const ConstraintFunction& f = system.constraint(system.find_constraint(constraint.name)).function();
  return f.level() == Level::position ? f.unit(0) : RowUnit::custom;
}

/// The constraints of a scene, in its order.
inline std::vector<recording::Recording::Joint> recorded_joints(const Model& model, const System& system) {
  std::vector<recording::Recording::Joint> out;
  for (const SceneConstraint& c : model.constraints) {
    const RowUnit unit = gap_unit(system, c);
    recording::Recording::Joint joint{c.name, unit == RowUnit::metre ? "m" : unit == RowUnit::radian ? "rad" : "", {}};
    for (const BodyId id : c.bodies) joint.bodies.push_back(id == ground ? -1 : id.index - 1);
    out.push_back(std::move(joint));
  }
  return out;
}

/// The channels of a scene, in its order. A vector has three signals.
inline std::vector<recording::Recording::Signal> recorded_signals(const Model& model) {
  std::vector<recording::Recording::Signal> out;
  for (const Channel& log : model.logs) {
    if (log.size() == 1) out.push_back({log.title(), log.unit()});
    for (const char* part : {".x", ".y", ".z"})
      if (log.size() == 3) out.push_back({log.title() + part, log.unit()});
  }
  return out;
}

/// Records a simulation. It keeps a reference to the simulation, which must exist as long as the recorder adds states.
/// One thread at a time may use both.
class Recorder {
 public:
  /// Begins with the present state.
  explicit Recorder(Simulation& simulation, const recording::RecordingOptions& options = {})
      : simulation_(simulation),
        recording_(options, simulation.model().dt, 0, recorded_bodies(simulation.model()),
                   recorded_joints(simulation.model(), std::as_const(simulation).system()),
                   recorded_signals(simulation.model())),
        start_(simulation.t()) {
    for (const recording::Recording::Joint& joint : recording_.links()) place_.emplace(joint.name, place_.size());
    add();
  }

  /// Adds the present state of the simulation. Call it after each step.
  void add() {
    const Simulation& simulation = simulation_;
    const auto& joints = recording_.links();
    gaps_.assign(joints.size(), std::nan(""));
    forces_.assign(joints.size(), {});
    const std::span<const Reaction> reactions = reactions_or_none();
    for (const Reaction& r : reactions) {
      const auto found = place_.find(r.name);
      if (found == place_.end()) continue;  // the limits of a joint
      const recording::Recording::Joint& joint = joints[found->second];
      forces_[found->second] = recording::Recording::Force::of(r, joint.on);
      // The distance of a released constraint is no residual, and that of one that yields is a deformation.
      const System& system = simulation.system();
      if (!system.enabled(system.find_constraint(r.name))) continue;
      gaps_[found->second] = joint.gap_of(r);
      if (simulation.model().constraints[found->second].yields()) continue;
      if (joint.unit == "m" && !(gap_ >= r.gap)) gap_ = r.gap, joint_ = r.name;
    }
    const State& state = simulation.state();
    recording_.state(state.t, std::span(state.bodies).subspan(1), gaps_, energy(simulation.system(), state));
    ++states_;
    if (!recording_.is_frame()) return;
    signals_.clear();
    for (const Channel& log : simulation.model().logs)
      for (const double x : log({simulation.system(), state, reactions})) signals_.push_back(x);
    recording_.forces(reactions.empty() ? std::span<const recording::Recording::Force>()
                                        : std::span<const recording::Recording::Force>(forces_),
                      signals_);
  }

  /// Writes a file; see recording::write(). @param host  name of the host, for the page
  void write(const std::string& path, const std::string& host = "bare") const {
    const Model& model = simulation_.model();
    recording::RecordedRun run;
    run.title = model.file;
    run.command = model.file;
    run.host = host;
    run.precision = host == "bullet" ? "single" : "double";
    run.integrator = host == "bare" ? linchpin::to_string(model.options.method) : linchpin::to_string(model.stepping);
    run.steps = states_ - 1;
    run.dt = model.dt;
    run.duration = simulation_.t() - start_;
    if (!joint_.empty()) run.max_gap = gap_, run.max_gap_joint = joint_;
    run.gravity = model.gravity;
    run.bodies = model.bodies.size();
    run.joints = model.constraints.size();
    recording::write(path, recording_, run);
  }

 private:
  /// Reactions, none in an engine before its first step.
  std::span<const Reaction> reactions_or_none() {
    const auto reactions = try_call([this] { return simulation_.reactions(); });
    return reactions ? *reactions : std::span<const Reaction>();
  }

  Simulation& simulation_;
  recording::Recording recording_;
  double start_ = 0, gap_ = -1;
  long states_ = 0;
  std::string joint_;  // with the largest gap
  std::unordered_map<std::string, std::size_t> place_;
  std::vector<double> gaps_, signals_;
  std::vector<recording::Recording::Force> forces_;
};

}  // namespace linchpin::scene
