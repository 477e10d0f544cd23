// The facade: turns the answers of the binding into exceptions or reasons.
#include "multibody.h"
#include "world_binding.h"

#include <stdexcept>
#include <string>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
void demand(const std::string& why) {
  if (!why.empty()) throw std::invalid_argument(why);
}
Multibodies& multibodies_of(WorldBinding& binding, const std::string& who) {
  if (!binding.world()) throw std::invalid_argument("linchpin: " + who + ": " + binding.why_no_world());
  if (!binding.multibodies())
    throw std::invalid_argument("linchpin: " + who + ": the world is not a btMultiBodyDynamicsWorld");
  return *binding.multibodies();
}
Multibodies& multibodies_of(WorldBinding& binding, const Link& link, const std::string& who) {
  if (!link.body) throw std::invalid_argument("linchpin: " + who + ": the link is of no multibody");
  return multibodies_of(binding, who);
}
constexpr const char* empty_handle = "linchpin: an empty handle, of no constraint";
constexpr const char* removed = "linchpin: the constraint has been removed";
const Reaction no_reaction{};
const std::string no_name;
}  // namespace

// ---- Handle ----

Handle::Handle(WorldBinding* binding, int entry)
    : binding_(binding), entry_(entry), version_(binding->solver().entry(entry).version) {}
bool Handle::valid() const { return binding_ && !binding_->world_ended() && !binding_->is_stale(entry_, version_); }
std::string Handle::why_not_valid() const {
  if (!binding_) return empty_handle;
  return binding_->world_ended() ? std::string("linchpin: ") + binding_->why_no_world() : removed;
}
const std::string& Handle::name() const { return valid() ? binding_->solver().entry(entry_).name : no_name; }
Handle& Handle::law(Law law) {
  demand(try_law(std::move(law)));
  return *this;
}
std::string Handle::try_law(Law law) noexcept {
  if (!valid()) return why_not_valid();
  if (!binding_->is_there(entry_)) return removed;
  host::ConstraintSolver& solver = binding_->solver();
  const host::ConstraintEntry& r = solver.entry(entry_);
  const std::string takes_none = "linchpin: '" + r.name + "' takes no law: ";
  if (r.id.index < 0 && !(r.is_on_links() && r.deferred))
    return takes_none + "it is left to the native solver: " + r.host_part;
  if (r.is_on_links()) {
    solver.update_reports();  // before the system's constraint changes
    articulated::TreeSolver& trees = binding_->multibodies()->trees();
    if (const std::string why = trees.why_no_law(entry_); !why.empty()) return takes_none + why;
    if (std::string why = trees.add_law(entry_, law); !why.empty()) return why;
  }
  return solver.add_law(entry_, std::move(law));
}
Handle& Handle::clear_laws() {
  if (valid() && binding_->is_there(entry_)) binding_->solver().clear_laws(entry_);
  return *this;
}
std::span<const LawWork> Handle::laws() const {
  if (!valid()) return {};
  return binding_->solver().laws_of(entry_);
}
Handle& Handle::one_sided(OneSided how) {
  demand(try_one_sided(how));
  return *this;
}
std::string Handle::try_one_sided(OneSided how) noexcept {
  if (!valid()) return why_not_valid();
  return binding_->solver().set_unilateral(entry_, how);
}
bool Handle::released() const { return valid() && binding_->solver().entry(entry_).released; }
Handle& Handle::acting_at(std::vector<Vector3d> points) {
  if (valid()) binding_->solver().set_application_points(entry_, std::move(points));
  return *this;
}
Handle& Handle::enable(bool on) {
  if (valid() && binding_->is_there(entry_)) binding_->solver().enable(entry_, on);
  return *this;
}
Handle& Handle::collisions_between_bodies(bool on) {
  if (valid() && !binding_->joints()[entry_].joint) binding_->joints().set_collisions(entry_, on);
  return *this;
}
void Handle::remove() {
  if (valid()) binding_->remove_by_user(entry_);
}
const Reaction& Handle::reaction() const {
  if (!valid() || binding_->solver().entry(entry_).reaction < 0) return no_reaction;
  binding_->solver().update_redundancy();
  return binding_->solver().reactions()[z(binding_->solver().entry(entry_).reaction)];
}
std::span<btRigidBody* const> Handle::bodies() const {
  if (!valid()) return {};
  return binding_->joints()[entry_].bodies;
}
RowUnit Handle::unit() const {
  if (!valid()) return RowUnit::own;
  const host::ConstraintEntry& r = binding_->solver().entry(entry_);
  if (r.id.index < 0) return r.is_joint() ? RowUnit::metre : RowUnit::own;
  const ConstraintFunction& f = binding_->solver().constraint(entry_).function();
  return f.level() == Level::position ? f.unit(0) : RowUnit::own;
}

const Reaction& Step::operator[](std::string_view name) const {
  for (const Reaction& r : solver.reactions())
    if (r.name == name) return r;
  return no_reaction;
}

// ---- Solver ----

Solver::Solver(btDiscreteDynamicsWorld& world, Options options)
    : binding_(std::make_unique<WorldBinding>(*this, options)) {
  demand(binding_->install(world));
}
Solver::Solver(Options options) : binding_(std::make_unique<WorldBinding>(*this, options)) { binding_->make_solver(); }
std::unique_ptr<Solver> Solver::try_install(btDiscreteDynamicsWorld& world, std::string& why,
                                            Options options) noexcept {
  try {
    why.clear();
    return std::make_unique<Solver>(world, options);
  } catch (const std::exception& e) {
    why = e.what();
  }
  return nullptr;
}
Solver::~Solver() = default;

btConstraintSolver* Solver::constraint_solver() { return binding_->hooks(); }
void Solver::attach(btDiscreteDynamicsWorld& world) { demand(binding_->attach(world)); }
void Solver::detach() { binding_->uninstall(); }

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<btRigidBody*>& bodies) {
  if (!binding_->world())
    throw std::invalid_argument("linchpin: constraint '" + name + "': " + binding_->why_no_world());
  if (bodies.empty()) throw std::invalid_argument("linchpin: constraint '" + name + "' names no body");
  std::vector<BodyId> ids;
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    if (!bodies[k])
      throw std::invalid_argument("linchpin: constraint '" + name + "': body " + std::to_string(k) + " is null");
    if (!binding_->bodies().in_world(*bodies[k]))
      throw std::invalid_argument("linchpin: constraint '" + name + "': body " + std::to_string(k) +
                                  " is not in the world");
    ids.push_back(binding_->bodies().id(*bodies[k]));
  }
  return ids;
}

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<Part>& parts) {
  std::vector<BodyId> ids;
  for (const Part& part : parts) {
    if (part.rigid_) {
      ids.push_back(ids_of(name, std::vector<btRigidBody*>{part.rigid_})[0]);
      continue;
    }
    BodyId link;
    Multibodies& multibodies = multibodies_of(*binding_, "constraint '" + name + "'");
    if (const std::string why = multibodies.id_of(part.link_, link); !why.empty())
      throw std::invalid_argument("linchpin: constraint '" + name + "': " + why);
    ids.push_back(link);
  }
  return ids;
}

BodyId Solver::id(Link link) {
  BodyId id;
  if (const std::string why = multibodies_of(*binding_, "id").id_of(link, id); !why.empty())
    throw std::invalid_argument("linchpin: id: " + why);
  return id;
}

Handle Solver::adopt(btMultiBodyConstraint& constraint, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, "adopt '" + name + "'");
  demand(multibodies.name(constraint, std::move(name), entry));
  return {binding_.get(), entry};
}

Handle Solver::adopt(Link link, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, link, "adopt '" + name + "'");
  demand(multibodies.name_joint(link, std::move(name), entry));
  return {binding_.get(), entry};
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
  return {binding_.get(), entry};
}

Handle Solver::add(Constraint constraint) {
  std::vector<btRigidBody*> bodies;
  if (Multibodies* links = binding_->multibodies()) {
    const auto ids = constraint.bodies();
    if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return id.index >= 0 && links->trees().is_link(id); })) {
      int entry = -1;
      demand(links->add(std::move(constraint), entry));
      return {binding_.get(), entry};
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
  try {
    why.clear();
    return add(make(ids_of(name, bodies)), bodies);
  } catch (const std::exception& e) {
    why = e.what();
  }
  return {};
}

BodyId Solver::id(btRigidBody& body) {
  if (!binding_->world()) throw std::invalid_argument(std::string("linchpin: id: ") + binding_->why_no_world());
  if (!binding_->bodies().in_world(body)) throw std::invalid_argument("linchpin: id: the body is not in the world");
  return binding_->bodies().id(body);
}

Handle Solver::adopt(btTypedConstraint& joint, std::string name) {
  int entry = -1;
  demand(binding_->joints().adopt(joint, std::move(name), entry));
  return {binding_.get(), entry};
}
Handle Solver::try_adopt(std::string& why, btTypedConstraint& joint, std::string name) noexcept {
  int entry = -1;
  try {
    why = binding_->joints().adopt(joint, std::move(name), entry);
  } catch (const std::exception& e) {
    why = e.what();
  }
  return why.empty() ? Handle{binding_.get(), entry} : Handle{};
}
Handle Solver::find(std::string_view name) {
  const int entry = binding_->solver().find(name);
  return entry < 0 ? Handle{} : Handle{binding_.get(), entry};
}

std::vector<Solver::Finding> Solver::check() { return binding_->check(); }
std::span<const Reaction> Solver::reactions() const {
  binding_->solver().update_redundancy();
  return binding_->solver().reactions();
}
std::span<const LawWork> Solver::laws() const { return binding_->solver().laws(); }
std::span<const BodyBooks> Solver::books() const {
  binding_->solver().update_reports();
  return binding_->solver().balances();
}
std::span<const Shadow> Solver::shadow() const {
  if (!binding_->compares()) return {};
  return binding_->comparison().all();
}
const Counts& Solver::counts() const {
  binding_->solver().update_reports();
  return binding_->solver().counts();
}
std::span<const LawWarning> Solver::law_warnings() const { return binding_->solver().law_warnings(); }
std::string Solver::summary() const { return binding_->summary(); }
std::vector<Solver::Native> Solver::native() const { return binding_->solver().host_parts(); }
RankReport Solver::rank_report() const { return binding_->solver().rank_report(); }
Instant Solver::instant(std::string_view constraint) const { return binding_->solver().problem(constraint); }
double Solver::energy() const { return binding_->energy(); }
void Solver::on_step(std::function<void(const Step&)> callback) { binding_->set_callback(std::move(callback)); }
double Solver::t() const { return binding_->solver().t(); }
void Solver::set_t(double t) { binding_->solver().set_t(t); }
void Solver::forget(btMultiBody& body) {
  if (binding_->multibodies()) binding_->multibodies()->forget(body);
}
void Solver::forget(btRigidBody& body) { binding_->forget(body); }
void Solver::reset() { binding_->reset(); }
History Solver::history() const {
  History out;
  out.past_ = binding_->history();
  return out;
}
void Solver::restore(const History& history) { demand(try_restore(history)); }
std::string Solver::try_restore(const History& history) noexcept {
  try {
    return history.past_ ? binding_->restore(*history.past_) : "linchpin: restore: an empty history, of no solver";
  } catch (const std::exception& e) {
    return e.what();
  }
}
const Options& Solver::options() const { return binding_->options(); }

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
