#include "host/semi_implicit_substep.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/passive_rows.h"
#include "host/step_acceptance.h"
#include "host/tuning.h"

#include <algorithm>

namespace linchpin::host {

SemiImplicitSubstep::SemiImplicitSubstep(Context& c, Island& b, double energy_allowed)
    : c_(c), b_(b), undamped_(b.x.force), bounds_energy_(host::bounds_energy(c, b)), allowed_(energy_allowed) {
  b.step.energy = {};
  if (b.step.is_sized) begin_row_substeps(c, b);
  if (bounds_energy_) reset_energy(b);
}

Acceptance SemiImplicitSubstep::attempt(Substep& s) {
  const bool has_rows = b_.step.rows != HostRows::none;
  // Forces act from the middle of the last substep to the middle of this one, see length_before().
  s.force_time = has_rows ? s.length : 0.5 * (s.previous_length + s.length);
  if (has_rows) set_row_substep(c_, b_, now(), s.done, s.length);
  s.gain = s.explained = 0;
  if (const Acceptance v = solve(s); v != Acceptance::accepted) return v;
  if (has_rows && release_rows(b_, end_velocities(), s.first())) return Acceptance::repeat;
  if (!bounds_energy_) {
    gained_ += s.gain;
    return Acceptance::accepted;
  }
  const std::span<double> v = end_velocities();
  const double rows = row_work(b_, s.force_time, s.first(), start_velocities(), v);
  if (gains_far_too_much(b_, s.gain + rows, s.kinetic, allowed_) && drop_rows(b_)) return Acceptance::repeat;
  undamped_.assign(v.begin(), v.end());
  damp_excess_energy(c_, b_, s.gain, rows, allowed_, now(), v);
  return Acceptance::accepted;
}

// The first bound is on the substeps so far. It does not apply to very short ones, whose gain is rounding. The second
// bound applies to any substep: no more than the present energy once more.
bool SemiImplicitSubstep::gains_too_much(const Substep& s, double gain, double end_energy, double start_energy) const {
  const bool is_long = s.length > 1.5 * c_.dt / c_.options.max_substeps;
  return (is_long && gained_ + gain > std::max(allowed_, tuning::allowed_gain * end_energy)) ||
         gain > allowed_ + start_energy;
}

void SemiImplicitSubstep::accepted(const Substep& s) {
  largest_omega_dt_ = std::max(largest_omega_dt_, s.omega_dt);
  IslandStep::Energy& energy = b_.step.energy;
  if (s.first()) energy.start = s.kinetic;
  energy.end = s.end_kinetic;
  energy.constraint_gain += s.gain;
  energy.explained += s.explained;
  if (b_.step.rows != HostRows::none) accept_row_substep(b_, s.force_time);
}

void end_semi_implicit_substeps(Context& c, Island& b, const State& end, const SubstepResult& result,
                                double largest_omega_dt, bool keeps_records) {
  if (b.step.is_sized) end_row_substeps(c, b);
  if (bounds_energy(c, b)) count_damping(b);
  b.step.substeps = result.taken;
  b.step.division = Division::substeps;
  b.step.omega_dt = largest_omega_dt;
  b.step.keeps_records = keeps_records;
  b.step.poses.start_changed = b.step.poses.current = true;
  b.history.last_length = result.last_length;
  b.history.extrapolation_steps = 0;
  ++b.stats.substepped_steps;
  b.stats.substeps += result.taken;
  b.x.multipliers.swap(b.sums.multipliers);
  if (keeps_records) {
    b.x.applied.swap(b.sums.applied);
    b.x.momentum.swap(b.sums.momentum);
  }
  for (const BodyId id : b.layout().bodies) {
    BodyState& from = c.bodies.base[id];
    c.bodies.end[id] = from = end[id];
    start_pose_for_end(c.world, from.p, from.q, from.v, from.w, c.dt);
  }
}

}  // namespace linchpin::host
