// The facade of a Bullet world.
#include "multibody.h"
#include "world_binding.h"

namespace LINCHPIN_BULLET_NAMESPACE {

using host::demand;

// ---- Handle ----

Handle::Handle(WorldBinding& binding, int entry) : ChainedHandle(binding.solver(), entry), binding_(&binding) {}
Handle::Handle(WorldBinding& binding, std::string_view name)
    : ChainedHandle(binding.solver(), name), binding_(&binding) {}
Handle& Handle::collisions_between_bodies(bool on) {
  if (valid() && !binding_->joints()[entry()].joint) binding_->joints().set_collisions(entry(), on);
  return *this;
}
std::span<btRigidBody* const> Handle::bodies() const {
  return valid() ? std::span<btRigidBody* const>(binding_->joints()[entry()].bodies) : std::span<btRigidBody* const>();
}

const Reaction& Step::operator[](std::string_view name) { return solver.core().reaction(name); }

// ---- Solver ----

Solver::Solver(btDiscreteDynamicsWorld& world, Options options)
    : binding_(std::make_unique<WorldBinding>(*this, options)) {
  demand(binding_->install(world));
}
Solver::Solver(Options options) : binding_(std::make_unique<WorldBinding>(*this, options)) { binding_->make_solver(); }
Solver::~Solver() = default;

btConstraintSolver* Solver::constraint_solver() { return binding_->hooks(); }
void Solver::attach(btDiscreteDynamicsWorld& world) { demand(binding_->attach(world)); }
void Solver::detach() { binding_->uninstall(); }
bool Solver::has_world() const { return binding_->world().world() != nullptr; }

host::ConstraintSolver& Solver::core() { return binding_->solver(); }
const host::ConstraintSolver& Solver::core() const { return binding_->solver(); }

// ---- constraints of the program's own ----

BodyId Solver::id_of(const BodyRef& body, const std::string& who, const std::string& which) {
  host::demand_world(binding_->world(), who);
  if (body.kind_ == BodyRef::Kind::id) return body.id_;
  if (body.kind_ == BodyRef::Kind::link) return id_of_link(*binding_, body.link_, who);
  if (!body.rigid_) demand(who, which + " is null");
  if (!binding_->bodies().in_world(*body.rigid_)) demand(who, which + " is not in the world");
  return binding_->bodies().id(*body.rigid_);
}

BodyId Solver::id(BodyRef body) { return id_of(body, "id", "the body"); }

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<BodyRef>& bodies) {
  const std::string who = "constraint '" + name + "'";
  if (bodies.empty()) demand("linchpin: " + who + " has no body. Name at least one");
  std::vector<BodyId> ids;
  for (const BodyRef& body : bodies) ids.push_back(id_of(body, who, "body " + std::to_string(ids.size())));
  return ids;
}

Handle Solver::add(Constraint constraint) {
  const std::string who = "constraint '" + constraint.name() + "'";
  host::demand_world(binding_->world(), who);
  if (Multibodies* const links = binding_->multibodies(); links && links->names_link(constraint))
    return {*binding_, links->add(std::move(constraint))};
  std::vector<btRigidBody*> bodies;
  for (const BodyId id : constraint.bodies()) {
    bodies.push_back(id == linchpin::ground ? &btTypedConstraint::getFixedBody() : binding_->bodies().body(id));
    if (!bodies.back()) demand("linchpin: " + who + " names a body that this solver does not know: use id(body)");
  }
  return {*binding_, binding_->joints().add_user(std::move(constraint), std::move(bodies))};
}

// ---- joints of the world ----

Handle Solver::handle(JointRef joint) {
  if (const char* why = binding_->world().why_absent()) return Handle(why);
  if (joint.typed_ && !binding_->joints().is_known(*joint.typed_)) binding_->world().find_joints();
  const int entry = joint.typed_              ? binding_->joints().find(joint.typed_)
                    : binding_->multibodies() ? binding_->multibodies()->entry_of(joint.multibody_, joint.link_)
                                              : -1;
  if (entry < 0 || !core().entry(entry).alive) return Handle("the joint is not in the world. Call addConstraint()");
  return {*binding_, entry};
}

std::string Solver::why_native(JointRef joint) {
  Handle of = handle(joint);
  return of.valid() ? of.why_native() : "all (the joint is not in the world; call addConstraint())";
}

Handle Solver::name_joint(JointRef joint, std::string name) {
  const std::string who = "name_joint '" + name + "'";
  host::demand_world(binding_->world(), who);
  if (joint.typed_) return {*binding_, binding_->joints().name_joint(*joint.typed_, std::move(name))};
  return {*binding_, name_multibody_joint(*binding_, joint.multibody_, joint.link_, std::move(name))};
}

Handle Solver::find(std::string_view name) { return {*binding_, name}; }

std::span<const NativeComparison> Solver::native_comparison() {
  if (NativeRun& run = binding_->native_run(); run.compares()) return run.comparison().all();
  return {};
}
void Solver::on_step(std::function<void(Step)> callback) { binding_->set_callback(std::move(callback)); }
void Solver::release_body(btRigidBody& body) { binding_->bodies().forget(body); }
void Solver::restore(const History& history) {
  if (!history.past_) demand("restore()", "the history is empty. Take it from history() of this solver");
  core().restore(*history.past_);
}
const Options& Solver::options() const { return binding_->options(); }
void Solver::set_options(const Options& options) { binding_->set_options(options); }

}  // namespace LINCHPIN_BULLET_NAMESPACE
