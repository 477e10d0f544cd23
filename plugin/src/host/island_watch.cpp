#include "host/island_watch.h"

#include "dynamics/step_events.h"
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

/// Divides the next steps further where energy or a residual grows, and less after a number of steps in which neither
/// does. A step without correction of drift is one evaluation, and has no parts.
void plan_division(Context& c, Island& b, bool grows) {
  History& h = b.history;
  const bool has_parts = c.options.drift_correction || b.step.division == Division::stages;
  if (grows && has_parts && b.step.rows < HostRows::contacts && (2 << h.halvings) <= c.options.max_substeps &&
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
  bool any = false;
  const double still = work_of_rows(b, h, v0, v1, [&](std::size_t i) {
    const bool moving = moves(c, b, i);
    any = any || moving;
    return !moving;
  });
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

namespace {

/// Returns whether some constraints of an island contradict each other, as last found.
bool has_contradiction(const Context& c, const Island& b) {
  return b.step.outcome.contradictory ||
         std::ranges::any_of(b.topology.entries, [&](int i) { return c.constraints[i].outcome.contradictory; });
}

/// @return whether energy has grown by more than half of what it may
bool compare_energies(Context& c, Island& b) {
  const double limit = c.options.max_energy_gain;
  if (!std::isfinite(limit)) return false;
  const bool has_rows = b.step.rows != HostRows::none;
  const double start = has_rows ? start_energy(c, b) : b.step.energy.start,
               end = has_rows ? kinetic_energy(c.system, b.layout(), c.bodies.start, b.x.v) : b.step.energy.end;
  EnergyAccount& account = b.history.energy;
  account.end_step(start, end, unexplained_gain(c, b));
  const auto grows = [&] { return account.grows() && account.relative_gain() > 0.5 * limit; };
  if (grows()) {
    account.raise_floor(energy_floor(c, b));
    if (account.relative_gain() > 0.5 * limit && starts_suddenly(c, b)) account.end_step(start, end, 0);
  }
  account.accept_step();
  if (!grows()) return false;
  if (account.relative_gain() > limit) {
    add_event(EnergyGain{.t = c.t + c.dt,
                         .gain = account.gain(),
                         .relative = account.relative_gain(),
                         .body = b.layout().bodies.front(),
                         .bodies = static_cast<int>(b.slots()),
                         .contradictory = has_contradiction(c, b)},
              c.energy_gains, c.counts.energy_gains);
    account.forget_gain();
  }
  return true;
}

/// Returns whether the velocities of the step may leave a residual. A step that ends on the constraints leaves none:
/// its mean velocity has brought the bodies there. Stages are projected, and leave only what no velocity meets.
bool may_leave_residual(const Context& c, const Island& b) {
  return std::isfinite(c.options.max_velocity_residual) &&
         (!c.options.drift_correction ||
          (b.step.division == Division::stages && !b.dynamics->solver().full_row_rank()));
}

SpeedFloor speed_floor(const Context& c, const Island& b, std::size_t slot) {
  const BodyId id = b.layout().bodies[slot];
  const BodyState& s = c.bodies.start[id];
  const double rounding = open_by_rounding(c, s) / c.dt;
  SpeedFloor out{c.dt * head(b.x.Q, b.layout().column[slot]).norm() / c.system.mass(id) + rounding, rounding};
  if (!turns(b.layout(), slot)) return out;
  const Vector3d torque = s.q.conjugate() * c.bodies.load(id).torque;
  out.angular += c.dt * torque.cwiseQuotient(c.system.inertia(id).diagonal()).norm();
  return out;
}

/// Sets the state at the end of a step that no Newton has brought to its end.
void move_to_end(Context& c, Island& b) {
  c.bodies.make_ends();
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    BodyState& body = c.bodies.end[id];
    body = b.step.poses.pushed ? c.bodies.base[id] : c.bodies.start[id];
    body.v = head(b.x.v, b.layout().column[slot]);
    if (turns(b.layout(), slot)) body.w = head(b.x.v, b.layout().column[slot] + 3);
    advance(body, body.v, body.w, c.dt);
  }
}

/// @return whether a residual has grown to more than half of its bound, and shorter parts of the step would leave less
bool compare_velocities(Context& c, Island& b) {
  if (!may_leave_residual(c, b)) return false;
  const double limit = c.options.max_velocity_residual;
  const bool by_stages = b.step.division == Division::stages;
  if (!by_stages) move_to_end(c, b);
  if (!b.at_end) b.at_end = std::make_unique<Assembly>();
  Assembly& assembly = *b.at_end;
  assembly.layout = b.layout();
  const State& end = c.bodies.end;
  assemble_constraints(c.system, end, assembly);
  if (!assembly.failure.empty()) return false;
  b.floors.clear();
  for (std::size_t slot = 0; slot < b.slots(); ++slot) b.floors.push_back(speed_floor(c, b, slot));
  ResidualAccount& account = b.history.residual;
  account.begin_step();
  // The host moves bodies by the velocities at the end of the step. They belong to its middle.
  const double lag = by_stages ? 0 : 0.5 * c.dt;
  for (int i = 0; i < static_cast<int>(b.topology.ids.size()); ++i)
    account.add(residual_of_constraint(c.system, assembly, end, i, lag, b.floors));
  const RowResidual worst = account.worst();
  const bool grows = account.grows() && worst.relative > 0.5 * limit;
  if (account.accept_step(limit)) note_velocity_residual(c, c.t + c.dt, worst, b.topology.entries[z(worst.constraint)]);
  return grows && !c.options.drift_correction;
}

}  // namespace

void watch_step(Context& c, Island& b) {
  const bool gain_grows = compare_energies(c, b), residual_grows = compare_velocities(c, b);
  if (b.history.halvings > 0) ++c.counts.divided_steps;
  if (gain_grows || residual_grows || b.history.halvings > 0) plan_division(c, b, gain_grows || residual_grows);
}

void note_velocity_residual(Context& c, double t, const RowResidual& row, int entry) {
  add_event(
      VelocityResidual{
          .t = t, .residual = row.value, .relative = row.relative, .constraint = c.constraints[entry].name},
      c.velocity_residuals, c.counts.velocity_residuals);
}

}  // namespace linchpin::host
