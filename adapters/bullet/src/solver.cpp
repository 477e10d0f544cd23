// The facade: turns the answers of the binding into exceptions or reasons.
#include "multibody.h"
#include "world_binding.h"

#include <stdexcept>
#include <string>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using host::demand;

namespace {
std::invalid_argument refusal(const std::string& who, const std::string& why) {
  return std::invalid_argument("linchpin: " + who + ": " + why);
}
Multibodies& multibodies_of(WorldBinding& binding, const std::string& who) {
  if (const char* why = binding.world().why_absent()) throw refusal(who, why);
  if (!binding.multibodies()) throw refusal(who, "the world is not a btMultiBodyDynamicsWorld");
  return *binding.multibodies();
}
Multibodies& multibodies_of(WorldBinding& binding, const Link& link, const std::string& who) {
  if (!link.body) throw refusal(who, "the link is of no multibody");
  return multibodies_of(binding, who);
}
BodyId id_of(WorldBinding& binding, const Link& link, const std::string& who) {
  BodyId id;
  if (const std::string why = multibodies_of(binding, who).id_of(link, id); !why.empty()) throw refusal(who, why);
  return id;
}
/// Calls `make`. @return what it made, or nothing, and the reason in `why`
template <class Make>
auto without_throwing(std::string& why, Make make) noexcept -> decltype(make()) {
  try {
    why.clear();
    return make();
  } catch (const std::exception& e) {
    why = e.what();
  }
  return {};
}
}  // namespace

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
  if (const char* why = binding_->world().why_absent()) throw refusal(who, why);
  if (bodies.empty()) throw std::invalid_argument("linchpin: " + who + " names no body");
  std::vector<BodyId> ids;
  for (btRigidBody* const body : bodies) {
    const std::string which = "body " + std::to_string(ids.size());
    if (!body) throw refusal(who, which + " is null");
    if (!binding_->bodies().in_world(*body)) throw refusal(who, which + " is not in the world");
    ids.push_back(binding_->bodies().id(*body));
  }
  return ids;
}

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<Part>& parts) {
  std::vector<BodyId> ids;
  for (const Part& part : parts)
    ids.push_back(part.rigid_ ? ids_of(name, std::vector<btRigidBody*>{part.rigid_})[0]
                              : id_of(*binding_, part.link_, "constraint '" + name + "'"));
  return ids;
}

BodyId Solver::id(Link link) { return id_of(*binding_, link, "id"); }

Handle Solver::adopt(btMultiBodyConstraint& constraint, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, "adopt '" + name + "'");
  demand(multibodies.name(constraint, std::move(name), entry));
  return {*binding_, entry};
}

Handle Solver::adopt(Link link, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, link, "adopt '" + name + "'");
  demand(multibodies.name_joint(link, std::move(name), entry));
  return {*binding_, entry};
}

Wrench Solver::joint_wrench(Link link) const {
  Wrench out;
  demand(multibodies_of(*binding_, link, "joint_wrench").joint_wrench(link, out));
  return out;
}

JointForces Solver::joint_forces(Link link) const {
  JointForces out;
  demand(multibodies_of(*binding_, link, "joint_forces").joint_forces(link, out));
  return out;
}

Handle Solver::add(Constraint constraint, std::vector<btRigidBody*> bodies) {
  int entry = -1;
  demand(binding_->joints().add_user(std::move(constraint), std::move(bodies), entry));
  return {*binding_, entry};
}

Handle Solver::add(Constraint constraint) {
  std::vector<btRigidBody*> bodies;
  if (Multibodies* links = binding_->multibodies()) {
    const auto ids = constraint.bodies();
    if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return id.index >= 0 && links->is_link(id); })) {
      int entry = -1;
      demand(links->add(std::move(constraint), entry));
      return {*binding_, entry};
    }
  }
  for (const BodyId id : constraint.bodies()) {
    btRigidBody* body = id == linchpin::world ? &btTypedConstraint::getFixedBody() : binding_->bodies().body(id);
    if (!body)
      throw std::invalid_argument("linchpin: constraint '" + constraint.name() +
                                  "' names a body that this solver does not know: use id(body)");
    bodies.push_back(body);
  }
  return add(std::move(constraint), std::move(bodies));
}

Handle Solver::try_add(std::string& why, const std::string& name, const std::vector<btRigidBody*>& bodies,
                       const std::function<Constraint(std::vector<BodyId>)>& make) noexcept {
  return without_throwing(why, [&] { return add(make(ids_of(name, bodies)), bodies); });
}

BodyId Solver::id(btRigidBody& body) {
  if (const char* why = binding_->world().why_absent()) throw refusal("id", why);
  if (!binding_->bodies().in_world(body)) throw refusal("id", "the body is not in the world");
  return binding_->bodies().id(body);
}

Handle Solver::adopt(btTypedConstraint& joint, std::string name) {
  int entry = -1;
  demand(binding_->joints().adopt(joint, std::move(name), entry));
  return {*binding_, entry};
}
Handle Solver::try_adopt(std::string& why, btTypedConstraint& joint, std::string name) noexcept {
  return without_throwing(why, [&] { return adopt(joint, std::move(name)); });
}
Handle Solver::find(std::string_view name) {
  const int entry = core().find(name);
  return entry < 0 ? Handle{} : Handle{*binding_, entry};
}

std::span<const Shadow> Solver::shadow() const {
  if (!binding_->native_run().compares()) return {};
  return binding_->native_run().comparison().all();
}
void Solver::on_step(std::function<void(const Step&)> callback) { binding_->set_callback(std::move(callback)); }
void Solver::forget(btMultiBody& body) {
  if (binding_->multibodies()) binding_->multibodies()->forget(body);
}
void Solver::forget(btRigidBody& body) { binding_->forget(body); }
void Solver::restore(const History& history) {
  demand(history.past_ ? core().restore(*history.past_) : "linchpin: restore: an empty history, of no solver");
}
std::string Solver::try_restore(const History& history) noexcept {
  std::string why;
  without_throwing(why, [&] {
    restore(history);
    return true;
  });
  return why;
}
const Options& Solver::options() const { return binding_->options(); }

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
