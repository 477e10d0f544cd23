#include "host/unilateral.h"

#include "host/sleep_policy.h"

#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::host {

LinearizedEntry linearize(const Context& c, const ConstraintEntry& r) {
  const Constraint& constraint = c.constraints.of(r);
  const std::size_t m = z(constraint.function().rows()), bodies = constraint.bodies().size();
  LinearizedEntry out;
  out.A.assign(m * 6 * bodies, 0);
  for (auto* x : {&out.b, &out.position, &out.velocity}) x->assign(m, 0);
  std::vector<BodyState> X;
  read_states(c, constraint, X);
  try {
    constraint.function().linearize(X, c.t, {out.A, out.b, out.position, out.velocity});
  } catch (...) {  // a user's residual: nothing throws out of a step
    std::fill(out.A.begin(), out.A.end(), std::numeric_limits<double>::quiet_NaN());
  }
  return out;
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

void switch_all_unilateral(Context& c) {
  const bool listed = c.lists.made_for == c.structure;  // the lists lack a constraint that was just made
  const int count = static_cast<int>(listed ? c.lists.users.size() : c.constraints.size());
  for (int i = 0; i < count; ++i) {
    const int entry = listed ? c.lists.users[z(i)] : i;
    const ConstraintEntry& r = c.constraints[entry];
    if (!r.alive || !r.unilateral.on || r.id.index < 0 || !r.enabled || (r.released && !r.unilateral.reengage))
      continue;
    const LinearizedEntry rows = linearize(c, r);
    UnilateralState at{rows.position[0], rows.velocity[0], -c.dt * rows.b[0]};
    const auto bodies = c.system.constraint(r.id).bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const BodyId id = bodies[k];
      if (c.system.dof(id) == 0) continue;
      const Load& load = c.bodies.load(id);
      const Vector3d a = load.force / c.system.mass(id);
      Vector3d alpha = Vector3d::Zero();
      if (c.system.dof(id) == 6) {
        const Quaterniond& q = c.bodies.start[id].q;
        alpha = q * (q.conjugate() * load.torque).cwiseQuotient(Vector3d(c.system.inertia(id).diagonal()));
      }
      for (int j = 0; j < 3; ++j) at.gain += c.dt * (rows.A[6 * k + z(j)] * a[j] + rows.A[6 * k + 3 + z(j)] * alpha[j]);
    }
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
    release_unilateral(c, b.topology.entries[i], b.x.multipliers[z(b.block().row[i])]);
}

}  // namespace linchpin::host
