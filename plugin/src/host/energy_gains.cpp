#include "host/energy_gains.h"

#include "host/body_reading.h"
#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/step_acceptance.h"
#include "host/tuning.h"
#include "model/prescribed_motion.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

namespace {

/// Returns whether a constraint moves its bodies by itself.
bool moves(const Context& c, const Island& b, std::size_t i) {
  if (c.constraints[b.topology.entries[i]].time != ConstraintEntry::Time::constant) return true;
  const auto bodies = c.system.constraint(b.topology.ids[i]).bodies();
  return std::any_of(bodies.begin(), bodies.end(), [&](BodyId id) {
    return c.system.kind(id) == BodyKind::kinematic &&
           (!c.bodies.start[id].v.isZero() || !c.bodies.start[id].w.isZero());
  });
}

bool may_move(const Island& b) { return b.has(Trait::kinematic_body) || b.has(Trait::user_constraint); }

/// Finds constraints whose rate jumps within the step. @return whether there is one
bool starts_suddenly(Context& c, Island& b) {
  bool any = false;
  if (!b.has(Trait::user_constraint)) return false;
  std::vector<BodyState> at;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    ConstraintEntry& r = c.constraints[b.topology.entries[i]];
    const Constraint& constraint = c.system.constraint(b.topology.ids[i]);
    if (r.owner != ConstraintEntry::Owner::user) continue;
    at.clear();
    for (const BodyId id : constraint.bodies()) at.push_back(c.bodies.start[id]);
    if (!linchpin::detail::rate_jumps(constraint, at, c.t, c.dt)) continue;
    r.time = ConstraintEntry::Time::moving;
    any = true;
  }
  return any;
}

/// Energy of the step that no source explains [J].
double unexplained_gain(const Context& c, const Island& b) {
  const IslandStep::Energy& energy = b.step.energy;
  if (b.step.start_gap != StartGap::small) return 0;  // The program, or a joint on its way back, has moved the bodies.
  const bool by_rows = bounds_energy(c, b) && b.step.division != Division::stages;
  const double gain = by_rows ? b.rows.energy_given - b.rows.source_work : energy.constraint_gain;
  return gain - energy.explained;
}

double end_energy(const Context& c, const Island& b) {
  double sum = 0;
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    const int column = b.layout().column[slot];
    sum += 0.5 * c.system.mass(id) * head(b.x.v, column).squaredNorm();
    if (!turns(b.layout(), slot)) continue;
    const Vector3d w = c.bodies.start[id].q.conjugate() * head(b.x.v, column + 3);
    sum += 0.5 * w.dot(c.system.inertia(id) * w);
  }
  return sum;
}

/// Divides the next steps further where energy grows, and less after a number of steps in which it does not.
void plan_division(Context& c, Island& b, bool grows) {
  History& h = b.history;
  if (grows && b.step.rows < HostRows::contacts && (2 << h.halvings) <= c.options.max_substeps &&
      h.halvings < tuning::max_halvings) {
    ++h.halvings;
    h.calm_steps = 0;
  } else if (h.halvings > 0 && ++h.calm_steps >= tuning::calm_steps) {
    --h.halvings;
    h.calm_steps = 0;
  }
  if (h.halvings == 0 || b.step.division == Division::stages || b.step.rows >= HostRows::contacts) return;
  const double longest = longest_part(c, b);
  h.next_length = h.next_length > 0 ? std::min(h.next_length, longest) : longest;
}

}  // namespace

double explained_gain(const Context& c, Island& b, double h, double gain, std::span<const double> v0,
                      std::span<const double> v1) {
  if (!may_move(b)) return 0;
  const Dynamics& dynamics = *b.dynamics;
  const auto reaction = dynamics.lambda(), induced = dynamics.induced();
  double still = 0;
  bool any = false;
  b.x.change.resize(v0.size());
  for (std::size_t j = 0; j < v0.size(); ++j) b.x.change[j] = 0.5 * (v1[j] - v0[j]);
  b.x.row_change.resize(b.x.row.size());
  row_velocities(dynamics.assembly(), b.x.change, b.x.row_change);
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    if (moves(c, b, i)) {
      any = true;
      continue;
    }
    for (std::size_t r = z(b.layout().row[i]); r < z(b.layout().row[i + 1]); ++r)
      still += (h * (reaction[r] + induced[r]) + b.x.newton[r]) * (dynamics.assembly().velocity[r] + b.x.row_change[r]);
  }
  return any ? gain - still : 0;
}

double power_of_moving(const Context& c, Island& b, std::span<const double> lambda) {
  if (!may_move(b)) return 0;
  const Assembly& assembly = b.dynamics->assembly();
  b.x.row_change.resize(b.x.row.size());
  row_velocities(assembly, assembly.v, b.x.row_change);
  double sum = 0;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i)
    if (moves(c, b, i))
      for (std::size_t r = z(b.layout().row[i]); r < z(b.layout().row[i + 1]); ++r)
        sum += lambda[r] * b.x.row_change[r];
  return sum;
}

double longest_part(const Context& c, const Island& b) { return std::ldexp(c.dt, -b.history.halvings); }

void account_energy(Context& c, Island& b) {
  const double limit = c.options.max_energy_gain;
  if (!std::isfinite(limit)) return;
  const bool has_rows = b.step.rows != HostRows::none;
  const double start = has_rows ? start_energy(c, b) : b.step.energy.start,
               end = has_rows ? end_energy(c, b) : b.step.energy.end;
  EnergyAccount& account = b.history.energy;
  account.end_step(start, end, unexplained_gain(c, b));
  bool grows = account.grows() && account.relative_gain() > 0.5 * limit;
  if (grows) {
    account.raise_floor(energy_floor(c, b));
    if (account.relative_gain() > 0.5 * limit && starts_suddenly(c, b)) account.end_step(start, end, 0);
    grows = account.grows() && account.relative_gain() > 0.5 * limit;
  }
  account.accept_step();
  if (b.history.halvings > 0) ++c.counts.divided_steps;
  if (grows || b.history.halvings > 0) plan_division(c, b, grows);
  if (!grows || !(account.relative_gain() > limit)) return;
  note_energy_gain(c, {.t = c.t + c.dt,
                       .gain = account.gain(),
                       .relative = account.relative_gain(),
                       .body = b.layout().bodies.front(),
                       .bodies = static_cast<int>(b.slots())});
  account.forget_gain();
}

void note_energy_gain(Context& c, const EnergyGain& gain) {
  ++c.counts.energy_gains;
  if (c.energy_gains.size() < tuning::max_energy_gains) c.energy_gains.push_back(gain);
}

}  // namespace linchpin::host
