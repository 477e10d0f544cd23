#include "host/unilateral.h"

#include "host/sleep_policy.h"
#include "model/force_rows.h"
#include "model/limited_row.h"

#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::host {

LinearizedEntry linearize(const Context& c, const ConstraintEntry& r) {
  const Constraint& constraint = c.constraints.of(r);
  LinearizedEntry out;
  std::vector<BodyState> X;
  linearize(constraint, read_states(c, constraint, X), c.t, out);
  return out;
}

bool linearize(const Constraint& constraint, std::span<const BodyState> X, double t, LinearizedEntry& out) {
  const auto* const forces = linchpin::detail::force_rows_of(constraint);
  const std::size_t m = z(linchpin::detail::whole_function(constraint).rows());
  out.A.assign(m * 6 * X.size(), 0);
  for (auto* x : {&out.b, &out.position, &out.velocity}) x->assign(m, 0);
  try {
    if (forces) {
      const auto& all = forces->evaluate(X, t);
      out = {all.A, all.b, all.position, all.velocity};
    } else {
      constraint.function().linearize(X, t, {out.A, out.b, out.position, out.velocity});
    }
  } catch (...) {  // a user's residual: nothing throws out of a step
    std::fill(out.A.begin(), out.A.end(), std::numeric_limits<double>::quiet_NaN());
    return false;
  }
  return true;
}

void add_applied_gain(const Context& c, BodyId id, const double* row, double& gain) {
  if (c.system.dof(id) == 0) return;
  const Load& load = c.bodies.load(id);
  const Vector3d a = load.force / c.system.mass(id);
  Vector3d alpha = Vector3d::Zero();
  if (c.system.dof(id) == 6) {
    const Quaterniond& q = c.bodies.start[id].q;
    alpha = q * (q.conjugate() * load.torque).cwiseQuotient(Vector3d(c.system.inertia(id).diagonal()));
  }
  for (int j = 0; j < 3; ++j) gain += c.dt * (row[j] * a[j] + row[3 + j] * alpha[j]);
}

void switch_unilateral(Context& c, int entry, const UnilateralState& at) {
  ConstraintEntry& r = c.constraints[entry];
  const double sign = r.unilateral.negative ? -1 : 1, parting = sign * at.velocity;
  if (!r.released) {
    const bool open = r.unilateral.reengage && sign * at.position > c.options.gap_tolerance;
    if (open || parting > 2 * r.parting_speed + 2 * std::abs(at.gain)) {
      r.released = true;
      ++c.counts.released;
      c.world.enable(entry, false);
      ++c.structure;
    }
    r.parting_speed = std::abs(parting);
  } else if (sign * (at.position + c.dt * (at.velocity + at.gain)) < 0) {
    r.released = false;
    r.parting_speed = std::abs(parting);
    ++c.counts.engaged;
    c.world.enable(entry, r.enabled);
    ++c.structure;
    wake(c, r);
  }
}

namespace {

/// Chooses the limit at which a constraint acts when it is engaged: the one that it would pass in this step.
void choose_limit(Context& c, ConstraintEntry& r, UnilateralState& at) {
  auto& row = static_cast<linchpin::detail::LimitedRow&>(c.system.constraint(r.id).function());
  const double position = at.position + row.bound(), end = position + c.dt * (at.velocity + at.gain);
  if (end < row.lower())
    row.at_upper = false;
  else if (end > row.upper())
    row.at_upper = true;
  at.position = position - row.bound();
  r.unilateral.negative = row.at_upper;
  linchpin::set_unilateral(c.system, r.id, r.unilateral);
}

}  // namespace

void switch_all_unilateral(Context& c) {
  const bool listed = c.lists.made_for == c.structure;  // the lists lack a constraint that was just made
  const int count = static_cast<int>(listed ? c.lists.users.size() : c.constraints.size());
  for (int i = 0; i < count; ++i) {
    const int entry = listed ? c.lists.users[z(i)] : i;
    ConstraintEntry& r = c.constraints[entry];
    if (!r.alive || !r.unilateral.on || r.id.index < 0 || !r.enabled || (r.released && !r.unilateral.reengage))
      continue;
    const LinearizedEntry rows = linearize(c, r);
    UnilateralState at{rows.position[0], rows.velocity[0], -c.dt * rows.b[0]};
    const auto bodies = c.system.constraint(r.id).bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) add_applied_gain(c, bodies[k], rows.A.data() + 6 * k, at.gain);
    if (r.has_limits && r.released) choose_limit(c, r, at);
    switch_unilateral(c, entry, at);
  }
}

void release_unilateral(Context& c, int entry, double impulse) {
  ConstraintEntry& r = c.constraints[entry];
  if (!r.alive || !r.unilateral.on || r.owner == ConstraintEntry::Owner::joint) return;
  if (!((r.unilateral.negative ? -impulse : impulse) < 0)) return;
  r.released = true;
  ++c.counts.released;
  c.world.enable(entry, false);
  ++c.structure;
}

void release_all_unilateral(Context& c, const Island& b) {
  if (!b.has(Trait::user_constraint)) return;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i)
    if (const int row = b.layout().row[i]; row < b.layout().row[i + 1])
      release_unilateral(c, b.topology.entries[i], b.x.multipliers[z(row)]);
}

}  // namespace linchpin::host
