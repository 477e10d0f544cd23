// The handle of one constraint, and other parts of an adapter's facade.
#include "host/constraint_solver_impl.h"

#include <stdexcept>

namespace linchpin::host {

namespace {
constexpr const char* empty_handle = "linchpin: an empty handle, of no constraint";
constexpr const char* removed = "linchpin: the constraint has been removed";
const Reaction no_reaction{};
const std::string no_name;
}  // namespace

void demand(const std::string& why) {
  if (!why.empty()) throw std::invalid_argument(why);
}
void demand(const std::string& who, const std::string& why) {
  if (!why.empty()) throw std::invalid_argument("linchpin: " + who + ": " + why);
}
void demand_world(const World& world, const std::string& who) {
  if (const char* why = world.why_absent()) demand(who, why);
}

void add_energy(const BodyState& s, double mass, const Vector3d& inverse_inertia, const Vector3d& gravity, double& to) {
  to += 0.5 * mass * s.v.squaredNorm() - mass * gravity.dot(s.p);
  const Vector3d w = s.q.conjugate() * s.w;
  for (int k = 0; k < 3; ++k)
    if (inverse_inertia[k] > 0) to += 0.5 * w[k] * w[k] / inverse_inertia[k];
}

ConstraintHandle::ConstraintHandle(ConstraintSolver& solver, int entry)
    : solver_(&solver), entry_(entry), version_(solver.entry(entry).version) {}

bool ConstraintHandle::valid() const {
  return solver_ && !solver_->world().has_ended() && get().version == version_ && get().alive;
}

std::string ConstraintHandle::why_not_valid() const {
  if (valid()) return {};
  if (!solver_) return empty_handle;
  return solver_->world().has_ended() ? std::string("linchpin: ") + world_has_ended : removed;
}

bool ConstraintHandle::is_there() const {
  if (!valid()) return false;
  if (get().is_joint() && !solver_->world().why_absent()) solver_->world().find_joints();
  return get().alive;
}

const std::string& ConstraintHandle::name() const { return valid() ? get().name : no_name; }

std::string ConstraintHandle::try_law(Law law) noexcept {
  if (!valid()) return why_not_valid();
  if (!is_there()) return removed;
  const ConstraintEntry& r = get();
  const std::string takes_none = "linchpin: '" + r.name + "' takes no law: ";
  if (r.id.index < 0 && !(r.is_on_links() && r.deferred))
    return takes_none + "it is left to the native solver: " + r.host_part;
  if (Companion* const companion = solver_->context().companion; companion && r.is_on_links()) {
    solver_->update_reports();  // before the system's constraint changes
    if (const std::string why = companion->why_no_law(entry_); !why.empty()) return takes_none + why;
    if (std::string why = companion->add_law(entry_, law); !why.empty()) return why;
  }
  return solver_->add_law(entry_, std::move(law));
}

void ConstraintHandle::remove_laws() {
  if (is_there()) solver_->clear_laws(entry_);
}

std::span<const LawWork> ConstraintHandle::laws() const {
  if (!valid()) return {};
  return solver_->laws_of(entry_);
}

std::string ConstraintHandle::try_unilateral(Unilateral how) noexcept {
  return valid() ? solver_->set_unilateral(entry_, how) : why_not_valid();
}

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

const Reaction& ConstraintHandle::reaction() const {
  if (!valid() || get().reaction < 0) return no_reaction;
  solver_->update_redundancy();
  return solver_->reactions()[static_cast<std::size_t>(get().reaction)];
}

RowUnit ConstraintHandle::unit() const {
  if (!valid()) return RowUnit::custom;
  if (get().id.index < 0) return get().is_joint() ? RowUnit::metre : RowUnit::custom;
  const ConstraintFunction& f = solver_->constraint(entry_).function();
  return f.level() == Level::position ? f.unit(0) : RowUnit::custom;
}

const Reaction& ConstraintSolver::reaction(std::string_view name) {
  update_redundancy();
  for (const Reaction& r : reactions())
    if (r.name == name) return r;
  return no_reaction;
}

}  // namespace linchpin::host
