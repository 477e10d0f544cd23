// The facade.
#include "model_binding.h"

namespace linchpin::mujoco {

using host::demand;

Solver::Solver(mjModel& model, mjData& data, Options options)
    : binding_(std::make_unique<ModelBinding>(model, data, options)) {}
Solver::~Solver() = default;

void Solver::step() { binding_->step(); }

host::ConstraintSolver& Solver::core() { return binding_->solver(); }
const host::ConstraintSolver& Solver::core() const { return binding_->solver(); }

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<BodyRef>& bodies) {
  if (bodies.empty()) demand("linchpin: constraint '" + name + "' has no body. Name at least one");
  std::vector<BodyId> ids;
  for (const BodyRef& body : bodies) ids.push_back(binding_->id_of(body, "constraint '" + name + "'"));
  return ids;
}

Handle Solver::add(Constraint constraint) { return {core(), binding_->add(std::move(constraint))}; }
BodyId Solver::id(BodyRef body) { return binding_->id_of(body, "id"); }

Vector3d Solver::point(const BodyRef& body, const Vector3d& in_body) const {
  const BodyFrame& frame = binding_->frame_of(body);
  return frame.q.conjugate() * (in_body - frame.p);
}
Vector3d Solver::axis(const BodyRef& body, const Vector3d& in_body) const {
  return binding_->frame_of(body).q.conjugate() * in_body;
}
Solver::Site Solver::site(std::string_view name) { return binding_->site(name); }

Handle Solver::find(std::string_view name) { return {core(), name}; }
Handle Solver::joint(std::string_view name) { return {core(), binding_->joint_entry(name)}; }

Wrench Solver::joint_wrench(std::string_view joint) {
  const LinkPlace place = binding_->place_of_joint(joint);
  return binding_->trees_of_step(joint).joint_wrench(place.tree, place.link);
}
JointForces Solver::joint_forces(std::string_view joint) {
  const LinkPlace place = binding_->place_of_joint(joint);
  return binding_->trees_of_step(joint).joint_forces(place.tree, place.link);
}

void Solver::reset() { binding_->reset(); }
void Solver::restore(const History& history) {
  if (!history.past_) demand("restore()", "the history is empty. Take it from history() of this solver");
  core().restore(*history.past_);
}
const Options& Solver::options() const { return binding_->options(); }
void Solver::set_options(const Options& options) { binding_->set_options(options); }

}  // namespace linchpin::mujoco
