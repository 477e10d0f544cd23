// The handle of one constraint, and other parts of an adapter's facade.
#include "host/constraint_solver_impl.h"
#include "host/diagnostics.h"

#include <linchpin/detail/edits.h>

#include <algorithm>
#include <stdexcept>

namespace linchpin::host {

namespace {
constexpr const char* empty_handle = "linchpin: the handle is empty. Make it by constrain(), find() or handle()";
constexpr const char* removed = "linchpin: the constraint has been removed";
const Reaction no_reaction{};
const std::string no_name;

/// Returns whether all bodies of a constraint are in the host's world, as last looked at.
bool has_bodies(const Context& c, ConstraintId id) {
  const auto bodies = c.system.constraint(id).bodies();
  return std::none_of(bodies.begin(), bodies.end(),
                      [&](BodyId body) { return c.bodies.in_host(body) && !c.bodies.in_world(body); });
}
}  // namespace

void demand(const std::string& why) {
  if (!why.empty()) throw std::invalid_argument(why);
}
void demand(const std::string& who, const std::string& why) {
  if (!why.empty()) throw std::invalid_argument("linchpin: " + who + ": " + why);
}
void demand_world(const World& world, const std::string& who) {
  if (const char* why = world.why_absent()) throw OrderError("linchpin: " + who + ": " + why);
}

void add_energy(const BodyState& s, double mass, const Vector3d& inverse_inertia, const Vector3d& gravity, double& to) {
  to += 0.5 * mass * s.v.squaredNorm() - mass * gravity.dot(s.p);
  const Vector3d w = s.q.conjugate() * s.w;
  for (int k = 0; k < 3; ++k)
    if (inverse_inertia[k] > 0) to += 0.5 * w[k] * w[k] / inverse_inertia[k];
}

ConstraintHandle::ConstraintHandle(ConstraintSolver& solver, int entry)
    : solver_(&solver), life_(solver.life()), entry_(entry), version_(solver.entry(entry).version) {}

ConstraintHandle::ConstraintHandle(ConstraintSolver& solver, std::string_view name) {
  if (const int entry = solver.find(name); entry >= 0) {
    *this = ConstraintHandle(solver, entry);
    return;
  }
  solver_ = &solver;
  life_ = solver.life();
  name_not_found_ = std::make_shared<const std::string>(name);
}

bool ConstraintHandle::valid() const {
  return entry_ >= 0 && has_solver() && !solver_->world().has_ended() && get().version == version_ && get().alive;
}

void ConstraintHandle::demand_constraint() const {
  if (entry_ >= 0) return;
  if (what_is_missing_) demand(std::string("linchpin: ") + what_is_missing_);
  if (!name_not_found_) throw OrderError(empty_handle);
  std::vector<std::string> known;
  for (int i = 0; has_solver() && i < solver_->entry_count(); ++i)
    if (solver_->entry(i).alive) known.push_back(solver_->entry(i).name);
  std::string why = "linchpin: no constraint has the name '" + *name_not_found_ + "'";
  if (const std::string near = linchpin::detail::nearest(*name_not_found_, known); !near.empty())
    why += "; did you mean '" + near + "'?";
  else if (!known.empty())
    why += ". The names are: " + list_of(known);
  demand(why);
}

void ConstraintHandle::demand_valid() const {
  if (ConstraintHandle(*this).is_there()) return;
  demand_constraint();
  if (!has_solver()) throw OrderError("linchpin: the solver of this handle has been destroyed");
  throw OrderError(solver_->world().has_ended() ? std::string("linchpin: ") + world_has_ended : removed);
}

bool ConstraintHandle::is_there() {
  if (!valid()) return false;
  World& world = solver_->world();
  if (!world.why_absent()) get().is_joint() ? world.find_joints() : world.look_at_bodies(false);
  return get().alive;
}

const std::string& ConstraintHandle::name() const { return valid() ? get().name : no_name; }

Result<void> ConstraintHandle::try_law(Law law) noexcept {
  return try_call([&] {
    demand_valid();
    const ConstraintEntry& r = get();
    const std::string takes_none = "linchpin: no law can act on '" + r.name + "': ";
    if (r.id.index < 0 && !(r.is_on_links() && r.deferred))
      demand(takes_none + "the native solver holds it (" + r.host_part + ")");
    if (Companion* const companion = solver_->context().companion; companion && r.is_on_links()) {
      solver_->update_reports();  // before the system's constraint changes
      if (const std::string why = companion->why_no_law(entry_); !why.empty()) demand(takes_none + why);
      companion->add_law(entry_, law);
    }
    solver_->add_law(entry_, std::move(law));
  });
}

void ConstraintHandle::remove_laws() {
  if (is_there()) solver_->clear_laws(entry_);
}

std::span<const LawWork> ConstraintHandle::laws() {
  if (!valid()) return {};
  return solver_->laws_of(entry_);
}

Result<void> ConstraintHandle::try_unilateral(Unilateral how) noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_unilateral(entry_, how);
  });
}

Result<void> ConstraintHandle::try_motor(const Motor& motor) noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_motor(entry_, motor);
  });
}

Result<void> ConstraintHandle::try_compliance(const Compliance& compliance) noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_compliance(entry_, compliance);
  });
}

Result<void> ConstraintHandle::try_equality() noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_equality(entry_);
  });
}

Result<void> ConstraintHandle::try_limits(double lower, double upper) noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_limits(entry_, lower, upper);
  });
}

Result<void> ConstraintHandle::try_breaking_impulse(double impulse) noexcept {
  return try_call([&] {
    demand_valid();
    solver_->set_breaking_impulse(entry_, impulse);
  });
}

bool ConstraintHandle::broken() const { return valid() && get().outcome.broken; }

bool ConstraintHandle::released() const { return valid() && get().released; }

void ConstraintHandle::set_application_points(std::vector<Vector3d> p_BQ) {
  if (valid()) solver_->set_application_points(entry_, std::move(p_BQ));
}

void ConstraintHandle::set_enabled(bool on) {
  if (is_there()) solver_->enable(entry_, on);
}

void ConstraintHandle::remove() {
  if (is_there()) solver_->release_to_host(entry_);
}

const Reaction& ConstraintHandle::reaction() {
  demand_constraint();
  if (!valid() || get().reaction < 0) return no_reaction;
  solver_->update_redundancy();
  return solver_->reactions()[static_cast<std::size_t>(get().reaction)];
}

bool ConstraintHandle::is_exact() {
  if (!is_there()) return false;
  if (get().is_joint() && !solver_->world().why_absent()) solver_->world().look_at_bodies(false);
  const ConstraintEntry& r = get();
  if (!solver_->world().is_enabled(entry_) || r.released || !r.fallback.empty()) return false;
  if (r.id.index >= 0 && !has_bodies(solver_->context(), r.id)) return false;
  return r.is_on_links() ? r.deferred != nullptr : r.id.index >= 0 && solver_->options().mode == Mode::exact;
}

std::string ConstraintHandle::why_native() {
  if (!is_there()) return {};
  const ConstraintEntry& r = get();
  if (!r.fallback.empty()) return "all rows in this step, because " + r.fallback;
  return r.host_part.empty() && solver_->options().mode == Mode::passive ? "all (Mode::passive)" : r.host_part;
}

RowUnit ConstraintHandle::unit() const {
  if (!valid()) return RowUnit::custom;
  if (get().id.index < 0) return get().is_joint() ? RowUnit::metre : RowUnit::custom;
  const ConstraintFunction& f = solver_->constraint(entry_).function();
  return f.level() == Level::position ? f.unit(0) : RowUnit::custom;
}

const Reaction& ConstraintSolver::reaction(std::string_view name) { return ConstraintHandle(*this, name).reaction(); }

}  // namespace linchpin::host
