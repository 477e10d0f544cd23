#include "recorder.h"

#include "gaps.h"

#include <linchpin/bullet_recorder.h>
#include <linchpin/scene_recorder.h>

#include <algorithm>
#include <cmath>

namespace linchpin::worker {

namespace {

const char* unit_of(RowUnit unit) { return unit == RowUnit::metre ? "m" : unit == RowUnit::radian ? "rad" : ""; }

}  // namespace

Recorder::Recorder(const recording::RecordingOptions& options, Scene& scene,
                   const std::vector<std::string>& joint_names, double dt, long steps)
    : scene_(scene),
      dt_(dt),
      bodies_(scene.bodies()),
      recording_(make(options, joint_names, dt, steps)),
      states_(bodies_.size()),
      forces_(joint_names.size()) {}

recording::Recording Recorder::make(const recording::RecordingOptions& options,
                                    const std::vector<std::string>& joint_names, double dt, long steps) const {
  std::vector<recording::Recording::Body> bodies;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    bodies.push_back({scene_.body_names()[i], bullet::kind_of(*bodies_[i]), {}, "", ""});
    // The links of robots have several shapes, which are known by themselves.
    const scene::SceneBody* of = scene_.built() ? &scene_.built()->model().bodies[i] : nullptr;
    if (of && !of->more_shapes.empty())
      bodies.back().parts = scene::placed_visual_shapes(*of);
    else
      bodies.back().shape = bullet::visual_shape_of(*bodies_[i]->getCollisionShape());
  }
  const auto index = [&](const btRigidBody& body) {
    const auto at = std::find(bodies_.begin(), bodies_.end(), &body);
    return at == bodies_.end() ? -1 : static_cast<int>(at - bodies_.begin());
  };
  std::vector<recording::Recording::Joint> links;
  for (std::size_t i = 0; i < joint_names.size(); ++i) {
    recording::Recording::Joint link{joint_names[i], "m", {}};
    if (i < scene_.joints().size()) {
      const btTypedConstraint& joint = *scene_.joints()[i];
      link.bodies = {index(joint.getRigidBodyA()), index(joint.getRigidBodyB())};
    } else {
      const Built::Constrained& own = scene_.built()->constrained()[i - scene_.joints().size()];
      link.unit = unit_of(own.unit);
      for (const btRigidBody* body : own.bodies) link.bodies.push_back(index(*body));
    }
    links.push_back(std::move(link));
  }
  std::vector<recording::Recording::Signal> signals;
  if (scene_.built()) signals = scene::recorded_signals(scene_.built()->model());
  return {options, dt, steps, std::move(bodies), std::move(links), std::move(signals)};
}

void Recorder::state(double t, const Watch& watch) {
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const btTransform& x = bodies_[i]->getWorldTransform();
    states_[i].p = bullet::from_bullet(x.getOrigin());
    states_[i].q = scene_.rotation(i);
  }
  gaps_.clear();
  for (btTypedConstraint* joint : scene_.joints()) {
    const Gap gap = measure_gap(*joint);
    gaps_.push_back(gap.any ? gap.metres : std::nan(""));
  }
  if (scene_.built()) {
    scene_.built()->residuals(t, dt_, residuals_);
    // The distance of a released constraint is no residual.
    for (std::size_t i = 0; i < residuals_.size(); ++i)
      gaps_.push_back(watch.released(i) ? std::nan("") : residuals_[i]);
  }
  recording_.state(t, states_, gaps_, watch.energy(t));
}

void Recorder::forces(const JointForces& forces, bullet::Solver* solver, std::span<const double> logs) {
  if (!recording_.is_frame()) return;
  for (std::size_t i = 0; i < forces_.size(); ++i) {
    const std::size_t body = recording_.links()[i].on;
    if (const Reaction* r = forces.exact(i, solver)) {
      forces_[i] = recording::Recording::Force::of(*r, body);
      continue;
    }
    const Wrench on_a = forces.on_a(i, solver);
    forces_[i] = {};
    forces_[i].on = body == 0 ? on_a : Wrench{-on_a.force, -on_a.moment, on_a.point};
  }
  recording_.forces(forces_, logs);
}

}  // namespace linchpin::worker
