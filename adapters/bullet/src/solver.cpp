// The facade: turns the answers of the binding into exceptions or reasons. multibody_facade.cpp has the calls for
// multibodies.
#include "multibody.h"
#include "world_binding.h"

#include <string>

namespace LINCHPIN_BULLET_NAMESPACE {

using host::demand;
using host::without_throwing;

// ---- Handle ----

Handle::Handle(WorldBinding& binding, int entry)
    : host::ChainedHandle<Handle>(binding.solver(), entry), binding_(&binding) {}
Handle& Handle::collisions_between_bodies(bool on) {
  if (valid() && !binding_->joints()[entry()].joint) binding_->joints().set_collisions(entry(), on);
  return *this;
}
std::span<btRigidBody* const> Handle::bodies() const {
  if (!valid()) return {};
  return binding_->joints()[entry()].bodies;
}

const Reaction& Step::operator[](std::string_view name) const { return solver.core().reaction(name); }

// ---- Solver ----

Solver::Solver(btDiscreteDynamicsWorld& world, Options options)
    : binding_(std::make_unique<WorldBinding>(*this, options)) {
  demand(binding_->install(world));
}
Solver::Solver(Options options) : binding_(std::make_unique<WorldBinding>(*this, options)) { binding_->make_solver(); }
std::unique_ptr<Solver> Solver::try_install(btDiscreteDynamicsWorld& world, std::string& why,
                                            Options options) noexcept {
  return without_throwing(why, [&] { return std::make_unique<Solver>(world, options); });
}
Solver::~Solver() = default;

btConstraintSolver* Solver::constraint_solver() { return binding_->hooks(); }
void Solver::attach(btDiscreteDynamicsWorld& world) { demand(binding_->attach(world)); }
void Solver::detach() { binding_->uninstall(); }

host::ConstraintSolver& Solver::core() const { return binding_->solver(); }

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<btRigidBody*>& bodies) {
  const std::string who = "constraint '" + name + "'";
  host::demand_world(binding_->world(), who);
  if (bodies.empty()) demand("linchpin: " + who + " names no body");
  std::vector<BodyId> ids;
  for (btRigidBody* const body : bodies) {
    const std::string which = "body " + std::to_string(ids.size());
    if (!body) demand(who, which + " is null");
    if (!binding_->bodies().in_world(*body)) demand(who, which + " is not in the world");
    ids.push_back(binding_->bodies().id(*body));
  }
  return ids;
}

Handle Solver::add(Constraint constraint, std::vector<btRigidBody*> bodies) {
  int entry = -1;
  demand(binding_->joints().add_user(std::move(constraint), std::move(bodies), entry));
  return {*binding_, entry};
}

Handle Solver::add(Constraint constraint) {
  int entry = -1;
  if (Multibodies* const links = binding_->multibodies(); links && links->names_link(constraint)) {
    demand(links->add(std::move(constraint), entry));
    return {*binding_, entry};
  }
  std::vector<btRigidBody*> bodies;
  for (const BodyId id : constraint.bodies()) {
    bodies.push_back(id == linchpin::ground ? &btTypedConstraint::getFixedBody() : binding_->bodies().body(id));
    if (!bodies.back())
      demand("linchpin: constraint '" + constraint.name() +
             "' names a body that this solver does not know: use id(body)");
  }
  return add(std::move(constraint), std::move(bodies));
}

Handle Solver::try_add(std::string& why, const std::string& name, const std::vector<btRigidBody*>& bodies,
                       const std::function<Constraint(std::vector<BodyId>)>& make) noexcept {
  return without_throwing(why, [&] { return add(make(ids_of(name, bodies)), bodies); });
}

BodyId Solver::id(btRigidBody& body) {
  host::demand_world(binding_->world(), "id");
  if (!binding_->bodies().in_world(body)) demand("id", "the body is not in the world");
  return binding_->bodies().id(body);
}

Handle Solver::name_joint(btTypedConstraint& joint, std::string name) {
  int entry = -1;
  demand(binding_->joints().name_joint(joint, std::move(name), entry));
  return {*binding_, entry};
}
Handle Solver::try_name_joint(std::string& why, btTypedConstraint& joint, std::string name) noexcept {
  return without_throwing(why, [&] { return name_joint(joint, std::move(name)); });
}
Handle Solver::find(std::string_view name) {
  const int entry = core().find(name);
  return entry < 0 ? Handle{} : Handle{*binding_, entry};
}

std::span<const NativeComparison> Solver::native_comparison() const {
  if (!binding_->native_run().compares()) return {};
  return binding_->native_run().comparison().all();
}
void Solver::on_step(std::function<void(const Step&)> callback) { binding_->set_callback(std::move(callback)); }
void Solver::release_body(btRigidBody& body) { binding_->bodies().forget(body); }
std::string Solver::try_restore(const History& history) noexcept {
  std::string why;
  std::string refused = without_throwing(why, [&] {
    return history.past_ ? core().restore(*history.past_) : "linchpin: restore: an empty history, of no solver";
  });
  return why.empty() ? refused : why;
}
const Options& Solver::options() const { return binding_->options(); }

}  // namespace LINCHPIN_BULLET_NAMESPACE
