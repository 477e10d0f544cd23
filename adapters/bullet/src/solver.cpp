// The public door: turns the engine's answers into exceptions or reasons.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "multibody.h"

#include <stdexcept>
#include <string>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
void demand(const std::string& why) {
  if (!why.empty()) throw std::invalid_argument(why);
}
Multibodies& multibodies_of(Engine& engine, const std::string& who) {
  if (!engine.world_) throw std::invalid_argument("linchpin: " + who + ": " + engine.why_no_world());
  if (!engine.multibodies())
    throw std::invalid_argument("linchpin: " + who + ": the world is not a btMultiBodyDynamicsWorld");
  return *engine.multibodies();
}
Multibodies& multibodies_of(Engine& engine, const Link& link, const std::string& who) {
  if (!link.body) throw std::invalid_argument("linchpin: " + who + ": the link is of no multibody");
  return multibodies_of(engine, who);
}
constexpr const char* empty_handle = "linchpin: an empty handle, of no constraint";
constexpr const char* removed = "linchpin: the constraint has been removed";
const Reaction no_reaction{};
const std::string no_name;
}  // namespace

// ---- Handle ----

Handle::Handle(Engine* engine, int record)
    : engine_(engine), record_(record), version_(engine->records_[z(record)].version) {}
bool Handle::valid() const { return engine_ && !engine_->world_ended_ && !engine_->is_stale(record_, version_); }
std::string Handle::why_not_valid() const {
  if (!engine_) return empty_handle;
  return engine_->world_ended_ ? std::string("linchpin: ") + engine_->why_no_world() : removed;
}
const std::string& Handle::name() const { return valid() ? engine_->records_[z(record_)].name : no_name; }
Handle& Handle::law(Law law) {
  demand(try_law(std::move(law)));
  return *this;
}
std::string Handle::try_law(Law law) noexcept {
  if (!valid()) return why_not_valid();
  return engine_->add_law(record_, std::move(law));
}
Handle& Handle::clear_laws() {
  if (valid()) engine_->clear_laws(record_);
  return *this;
}
std::span<const LawWork> Handle::laws() const {
  if (!valid()) return {};
  engine_->order_laws();
  const Record& r = engine_->records_[z(record_)];
  return std::span(engine_->law_works_).subspan(z(std::max(0, r.first_law)), z(r.law_count));
}
Handle& Handle::one_sided(OneSided how) {
  demand(try_one_sided(how));
  return *this;
}
std::string Handle::try_one_sided(OneSided how) noexcept {
  if (!valid()) return why_not_valid();
  return engine_->set_one_sided(record_, how);
}
bool Handle::released() const { return valid() && engine_->records_[z(record_)].let_go; }
Handle& Handle::acting_at(std::vector<Vector3d> points) {
  if (valid()) engine_->set_points(record_, std::move(points));
  return *this;
}
Handle& Handle::enable(bool on) {
  if (valid()) engine_->enable(record_, on);
  return *this;
}
Handle& Handle::collisions_between_bodies(bool on) {
  if (valid()) engine_->link_collisions(record_, on);
  return *this;
}
void Handle::remove() {
  if (valid()) engine_->remove_by_user(record_);
}
const Reaction& Handle::reaction() const {
  if (!valid() || engine_->records_[z(record_)].reaction < 0) return no_reaction;
  engine_->refresh_flags();
  return engine_->reactions_[z(engine_->records_[z(record_)].reaction)];
}
std::span<btRigidBody* const> Handle::bodies() const {
  if (!valid()) return {};
  return engine_->records_[z(record_)].bodies;
}
RowUnit Handle::unit() const {
  if (!valid()) return RowUnit::own;
  const Record& r = engine_->records_[z(record_)];
  if (r.id.index < 0) return r.joint ? RowUnit::metre : RowUnit::own;
  const ConstraintFunction& f = engine_->system_.constraint(r.id).function();
  return f.level() == Level::position ? f.unit(0) : RowUnit::own;
}

const Reaction& Step::operator[](std::string_view name) const {
  for (const Reaction& r : solver.reactions())
    if (r.name == name) return r;
  return no_reaction;
}

// ---- Solver ----

Solver::Solver(btDiscreteDynamicsWorld& world, Options options) : engine_(std::make_unique<Engine>(*this, options)) {
  demand(engine_->install(world));
}
Solver::Solver(Options options) : engine_(std::make_unique<Engine>(*this, options)) { engine_->make_solver(); }
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

btConstraintSolver* Solver::constraint_solver() { return engine_->host_solver(); }
void Solver::attach(btDiscreteDynamicsWorld& world) { demand(engine_->attach(world)); }
void Solver::detach() { engine_->uninstall(); }

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<btRigidBody*>& bodies) {
  if (!engine_->world_) throw std::invalid_argument("linchpin: constraint '" + name + "': " + engine_->why_no_world());
  if (bodies.empty()) throw std::invalid_argument("linchpin: constraint '" + name + "' names no body");
  std::vector<BodyId> ids;
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    if (!bodies[k])
      throw std::invalid_argument("linchpin: constraint '" + name + "': body " + std::to_string(k) + " is null");
    if (!engine_->in_world(*bodies[k]))
      throw std::invalid_argument("linchpin: constraint '" + name + "': body " + std::to_string(k) +
                                  " is not in the world");
    ids.push_back(engine_->body_id(*bodies[k]));
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
    Multibodies& multibodies = multibodies_of(*engine_, "constraint '" + name + "'");
    if (const std::string why = multibodies.id_of(part.link_, link); !why.empty())
      throw std::invalid_argument("linchpin: constraint '" + name + "': " + why);
    ids.push_back(link);
  }
  return ids;
}

BodyId Solver::id(Link link) {
  BodyId id;
  if (const std::string why = multibodies_of(*engine_, "id").id_of(link, id); !why.empty())
    throw std::invalid_argument("linchpin: id: " + why);
  return id;
}

Handle Solver::adopt(btMultiBodyConstraint& constraint, std::string name) {
  int record = -1;
  Multibodies& multibodies = multibodies_of(*engine_, "adopt '" + name + "'");
  demand(multibodies.name(constraint, std::move(name), record));
  return {engine_.get(), record};
}

Handle Solver::adopt(Link link, std::string name) {
  int record = -1;
  Multibodies& multibodies = multibodies_of(*engine_, link, "adopt '" + name + "'");
  demand(multibodies.name_joint(link, std::move(name), record));
  return {engine_.get(), record};
}

Wrench Solver::joint_wrench(Link link) const {
  Wrench out;
  demand(multibodies_of(*engine_, link, "joint_wrench").joint_wrench(link, out));
  return out;
}

JointForces Solver::joint_forces(Link link) const {
  JointForces out;
  demand(multibodies_of(*engine_, link, "joint_forces").joint_forces(link, out));
  return out;
}

Handle Solver::add(Constraint constraint, std::vector<btRigidBody*> bodies) {
  int record = -1;
  demand(engine_->add_user(std::move(constraint), std::move(bodies), record));
  return {engine_.get(), record};
}

Handle Solver::add(Constraint constraint) {
  std::vector<btRigidBody*> bodies;
  if (Multibodies* links = engine_->multibodies()) {
    const auto ids = constraint.bodies();
    if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return id.index >= 0 && links->is_link(id); })) {
      int record = -1;
      demand(links->add(std::move(constraint), record));
      return {engine_.get(), record};
    }
  }
  for (const BodyId id : constraint.bodies()) {
    btRigidBody* body = id == linchpin::world ? &btTypedConstraint::getFixedBody() : engine_->body_of(id);
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
  if (!engine_->world_) throw std::invalid_argument(std::string("linchpin: id: ") + engine_->why_no_world());
  if (!engine_->in_world(body)) throw std::invalid_argument("linchpin: id: the body is not in the world");
  return engine_->body_id(body);
}

Handle Solver::adopt(btTypedConstraint& joint, std::string name) {
  int record = -1;
  demand(engine_->name_joint(joint, std::move(name), record));
  return {engine_.get(), record};
}
Handle Solver::try_adopt(std::string& why, btTypedConstraint& joint, std::string name) noexcept {
  int record = -1;
  try {
    why = engine_->name_joint(joint, std::move(name), record);
  } catch (const std::exception& e) {
    why = e.what();
  }
  return why.empty() ? Handle{engine_.get(), record} : Handle{};
}
Handle Solver::find(std::string_view name) {
  const int record = engine_->find(name);
  return record < 0 ? Handle{} : Handle{engine_.get(), record};
}

std::vector<Solver::Finding> Solver::check() { return engine_->check(); }
std::span<const Reaction> Solver::reactions() const {
  engine_->refresh_flags();
  return engine_->reactions_;
}
std::span<const LawWork> Solver::laws() const {
  engine_->order_laws();
  return engine_->law_works_;
}
std::span<const BodyBooks> Solver::books() const {
  engine_->refresh();
  return engine_->books_;
}
std::span<const Shadow> Solver::shadow() const {
  if (!engine_->tells_native()) return {};
  return engine_->shadow_;
}
const Counts& Solver::counts() const {
  engine_->refresh();
  return engine_->counts_;
}
std::span<const LawWarning> Solver::law_warnings() const { return engine_->law_warnings_.all(); }
std::string Solver::summary() const { return engine_->summary(); }
std::vector<Solver::Native> Solver::native() const { return engine_->native(); }
RankReport Solver::rank_report() const {
  engine_->refresh();  // residuals
  return engine_->rank_report();
}
Instant Solver::instant(std::string_view constraint) const { return engine_->instant(constraint); }
double Solver::energy() const { return engine_->energy(); }
void Solver::on_step(std::function<void(const Step&)> callback) {
  engine_->callback_ =
      callback ? std::make_shared<const std::function<void(const Step&)>>(std::move(callback)) : nullptr;
}
double Solver::t() const { return engine_->t_; }
void Solver::set_t(double t) { engine_->t_ = t; }
void Solver::forget(btMultiBody& body) {
  if (engine_->multibodies()) engine_->multibodies()->forget(body);
}
void Solver::forget(btRigidBody& body) { engine_->forget(body); }
void Solver::reset() { engine_->reset(); }
History Solver::history() const {
  History out;
  out.past_ = engine_->history();
  return out;
}
void Solver::restore(const History& history) { demand(try_restore(history)); }
std::string Solver::try_restore(const History& history) noexcept {
  try {
    return history.past_ ? engine_->go_back(*history.past_) : "linchpin: restore: an empty history, of no solver";
  } catch (const std::exception& e) {
    return e.what();
  }
}
const Options& Solver::options() const { return engine_->options_; }

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
