// Settings of the user's own constraints that change what their rows do: unilateral, limits, motors, compliance and
// breaking.
#include "host/constraint_solver_impl.h"
#include "host/sleep_policy.h"
#include "host/unilateral.h"
#include "model/constraint_parts.h"
#include "model/force_rows.h"
#include "model/format.h"
#include "model/limited_row.h"

#include <cmath>
#include <utility>

namespace linchpin::host {

using linchpin::detail::ConstraintParts;
using linchpin::detail::force_rows_of;
using linchpin::detail::LimitedRow;

namespace {

std::string named(const ConstraintEntry& r) { return "linchpin: constraint '" + r.name + "': "; }

/// @throws std::invalid_argument  a joint of the host
ConstraintEntry& require_own(Context& c, int entry, const char* what) {
  ConstraintEntry& r = c.constraints.at(entry);
  if (r.is_of_host() || r.owner == ConstraintEntry::Owner::multibody_joint)
    demand("linchpin: '" + r.name + "' is a joint of the world, and " + what +
           " is for constraints of your own only. Use the setting of the joint itself");
  return r;
}

/// @throws std::invalid_argument  a joint of the host, or a constraint that has a setting that excludes `what`
ConstraintEntry& require_own_without(Context& c, int entry, const char* what, bool law_excludes, bool limits_exclude) {
  ConstraintEntry& r = require_own(c, entry, what);
  const bool has_forces = force_rows_of(c.constraints.of(r)) != nullptr;
  const char* has = nullptr;
  if (has_forces && !law_excludes) has = "a motor or compliance";
  if (!has_forces && !r.laws.empty() && law_excludes) has = "a law";
  if (r.has_limits && limits_exclude) has = "limits";
  if (r.unilateral.on && !r.has_limits) has = "unilateral()";
  if (has)
    demand(named(r) + "has " + has + " and cannot have " + what +
           " as well. Make a second constraint with the same residual, or call equality() first");
  return r;
}

/// Returns the result of a call whose messages lack the name of the library.
template <class Call>
auto valid(Call call) {
  auto made = try_call(call);
  if (!made) demand("linchpin: " + made.error().message);
  return std::move(*made);
}

/// Puts another constraint in the place of that of an entry. Its id in the system changes.
void replace(ConstraintSolver& solver, Context& c, int entry, Constraint constraint) {
  ConstraintEntry& r = c.constraints[entry];
  solver.update_reports();
  c.laws.constraints_changed();
  c.laws.laws_changed();
  solver.structure_changed();
  if (r.deferred) {
    *r.deferred = std::move(constraint);
    return;
  }
  c.constraints.detach(entry);
  if (const std::string why = c.constraints.attach(entry, std::move(constraint)); !why.empty())
    demand("linchpin: " + why);
}

void set_forces(ConstraintSolver& solver, Context& c, int entry, linchpin::detail::RowForces forces) {
  ConstraintEntry& r = c.constraints[entry];
  const Constraint& now = c.constraints.of(r);
  std::vector<BodyState> X;
  read_states(c, now, X);
  for (std::size_t k = 0; c.companion && k < X.size(); ++k) (void)c.companion->read_state(now.bodies()[k], X[k]);
  if (const std::string why = linchpin::detail::why_no_row_forces(c.system, now, X, c.t); !why.empty())
    demand("linchpin: " + why);
  r.laws.assign(1, std::move(forces.law));
  replace(solver, c, entry, std::move(forces.constraint));
  wake(c, c.constraints[entry]);
}

/// Sets how an entry is unilateral. One that is not unilateral any more acts again.
void apply_unilateral(ConstraintSolver& solver, Context& c, int entry, Unilateral how) {
  ConstraintEntry& r = c.constraints[entry];
  r.unilateral = how;
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) linchpin::set_unilateral(c.system, id, how);
  if (!r.released || how.on) return;
  r.released = false;
  c.world.enable(entry, r.enabled);
  solver.structure_changed();
}

}  // namespace

void ConstraintSolver::set_motor(int entry, const Motor& motor) {
  Context& c = impl_->c;
  ConstraintEntry& r = require_own_without(c, entry, "a motor", true, true);
  linchpin::detail::RowForces forces = valid([&] { return linchpin::detail::motor_on(c.constraints.of(r), motor); });
  const auto* const now = force_rows_of(c.constraints.of(r));
  if (!now || !now->is_motor || r.deferred) return set_forces(*this, c, entry, std::move(forces));
  // Only the values of a motor change. The island keeps its analysis.
  update_reports();
  c.system.constraint(r.id) = forces.constraint;
  linchpin::clear_laws(c.system, r.id);
  linchpin::add_law(c.system, r.id, forces.law);
  r.laws.assign(1, std::move(forces.law));
  host::wake(c, r);
}

namespace {

/// Maps a joint of the host again, with the compliance that its entry has now.
void remap_joint(ConstraintSolver& solver, Context& c, int entry) {
  ConstraintEntry& r = c.constraints[entry];
  solver.update_reports();
  c.laws.laws_changed();
  r.joint.is_mapped = false;
  c.world.map_joint(entry);
  wake(c, r);
}

void set_joint_compliance(ConstraintSolver& solver, Context& c, int entry, const Compliance& compliance) {
  ConstraintEntry& r = c.constraints[entry];
  if (r.id.index < 0)
    demand("linchpin: '" + r.name + "' cannot have compliance, because the native solver holds it (" + r.host_part +
           ")");
  if (!r.laws.empty() && !r.compliance)
    demand("linchpin: '" + r.name + "' has a law and cannot have compliance as well. Call clear_laws() first");
  (void)valid([&] { return linchpin::detail::compliance_of(c.constraints.of(r), compliance); });
  r.compliance = compliance;
  remap_joint(solver, c, entry);
}

}  // namespace

void ConstraintSolver::set_compliance(int entry, const Compliance& compliance) {
  Context& c = impl_->c;
  if (c.constraints.at(entry).is_joint()) return set_joint_compliance(*this, c, entry, compliance);
  ConstraintEntry& r = require_own_without(c, entry, "compliance", true, true);
  set_forces(*this, c, entry, valid([&] { return linchpin::detail::compliance_of(c.constraints.of(r), compliance); }));
}

void ConstraintSolver::set_equality(int entry) {
  Context& c = impl_->c;
  if (ConstraintEntry& joint = c.constraints.at(entry); joint.is_joint()) {
    if (!std::exchange(joint.compliance, std::nullopt)) return;
    joint.laws.clear();
    return remap_joint(*this, c, entry);
  }
  ConstraintEntry& r = require_own(c, entry, "equality()");
  const Constraint& now = c.constraints.of(r);
  if (r.unilateral.on) apply_unilateral(*this, c, entry, {.on = false});
  const auto* const forces = force_rows_of(now);
  if (forces) r.laws.clear();
  if (std::exchange(r.has_limits, false))
    replace(*this, c, entry,
            ConstraintParts::with_function(now, static_cast<const LimitedRow&>(now.function()).row().clone()));
  else if (forces)
    replace(*this, c, entry, ConstraintParts::with_function(now, forces->whole().clone()));
  host::wake(c, r);
}

void ConstraintSolver::apply_automatic_compliance() {
  Context& c = impl_->c;
  for (const Context::Yielding& chosen : std::exchange(c.yielding, {})) {
    const ConstraintEntry& r = c.constraints[chosen.entry];
    if (r.alive && r.version == chosen.version && try_call([&] { set_compliance(chosen.entry, chosen.compliance); }))
      ++c.counts.yielding;
  }
}

void ConstraintSolver::set_limits(int entry, double lower, double upper) {
  Context& c = impl_->c;
  ConstraintEntry& r = require_own_without(c, entry, "limits", false, false);
  if (r.is_on_links())
    demand(named(r) +
           "acts on links of multibodies, for which limits are not supported. Use a joint limit of the engine");
  const Constraint& now = c.constraints.of(r);
  if (now.function().level() != Level::position || now.function().rows() != 1)
    demand(named(r) + "only a constraint of one position row can have limits");
  if (!(lower < upper) || (std::isinf(lower) && std::isinf(upper)))
    demand(named(r) + "the lower limit must be below the upper one, and one of them finite, got " + text(lower) +
           " and " + text(upper));
  const bool has_limits = linchpin::detail::is_exactly<LimitedRow>(now.function());
  const ConstraintFunction& free = has_limits ? static_cast<const LimitedRow&>(now.function()).row() : now.function();
  auto row = std::make_unique<LimitedRow>(free.clone(), lower, upper);
  row->at_upper = std::isinf(lower);
  r.has_limits = true;
  r.unilateral = {.on = true, .negative = row->at_upper, .reengage = true};
  r.released = true;  // until a step finds that it reaches a limit
  c.world.enable(entry, false);
  replace(*this, c, entry, ConstraintParts::with_function(now, std::move(row)));
  host::wake(c, r);
}

void ConstraintSolver::set_breaking_impulse(int entry, double impulse) {
  ConstraintEntry& r = require_own(impl_->c, entry, "breaking_impulse()");
  if (!(impulse > 0)) demand(named(r) + "the breaking impulse must be above 0, got " + text(impulse));
  r.breaking_impulse = impulse;
  structure_changed();
}

void ConstraintSolver::set_unilateral(int entry, Unilateral how) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  if (r.is_joint())
    demand("linchpin: '" + r.name +
           "' is a joint of the world and cannot be unilateral. Write the constraint with constrain()");
  if (r.has_limits) demand(named(r) + "has limits, which are unilateral already. Call equality() to remove them first");
  const ConstraintFunction& function = c.constraints.of(r).function();
  if (function.level() != Level::position || function.rows() != 1)
    demand(named(r) + "only a constraint of one position row can be unilateral");
  apply_unilateral(*this, c, entry, how);
  host::wake(c, r);
}

}  // namespace linchpin::host
