#include "host/write_back.h"

#include "host/body_vectors.h"
#include "host/breaking.h"
#include "host/compliance.h"
#include "host/fallback.h"
#include "host/general_island_solver.h"
#include "host/island_watch.h"
#include "host/joint_feedback.h"
#include "host/reactions.h"
#include "host/substep_records.h"
#include "host/tuning.h"
#include "host/unilateral.h"
#include "host/whole_step.h"

#include <linchpin/projection.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace linchpin::host {

void note_law_warnings(Context& c, Island& b) {
  if (b.has(Trait::laws) && !b.failed() && b.step.path == Path::general) {
    note_law_trouble(b);
    c.laws.note_warnings(*b.dynamics, b.report.law_trouble, b.report.standing, c.t, c.step);
  }
  b.report.law_trouble.clear();
}

void count_start_gap(Context& c, const Island& b) {
  const IslandStep& s = b.step;
  const bool on_the_way = s.start_gap == StartGap::turned_far;
  if (std::max(s.moved, s.turned) > 0 && (on_the_way || s.gap_left <= c.options.gap_tolerance)) {
    ++c.counts.gap_corrections;
    c.counts.largest_correction = std::max(c.counts.largest_correction, s.moved);
    c.counts.largest_correction_angle = std::max(c.counts.largest_correction_angle, s.turned);
  }
  if (!(s.turned_away > 0)) return;
  ++c.counts.realigned_steps;
  if (s.turned_away > c.counts.largest_misalignment) {
    c.counts.largest_misalignment = s.turned_away;
    c.notes.widest_turned = c.constraints[s.turned_entry].name;
  }
}

void note_friction_modes(Context& c, Island& b) {
  c.counts.law_solves += b.dynamics->law_report().back_solves;
  const auto contacts = b.dynamics->friction_elements();
  std::vector<char>& sticking = b.history.sticking;
  const bool known = sticking.size() == contacts.size();
  sticking.resize(contacts.size());
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    if (known && contacts[i].sticks != static_cast<bool>(sticking[i])) ++c.counts.mode_switches;
    sticking[i] = contacts[i].sticks;
  }
}

namespace {

void collect_counts(Context& c, Island& b) {
  const IslandStats done = std::exchange(b.stats, {});
  Counts& n = c.counts;
  n.solves += done.solves;
  n.factorizations += done.factorizations;
  n.newton_solves += done.newton_solves;
  n.substepped_steps += done.substepped_steps;
  n.substeps += done.substeps;
  n.stiffened_steps += done.stiffened_steps;
  n.stiffness_work += done.stiffness_work;
  n.damped_steps += done.damped_steps;
  n.damping_work += done.damping_work;
  n.integrator_substeps += done.integrator_substeps;
  n.rejected_substeps += done.rejected_substeps;
  n.order_reductions += done.order_reductions;
  if (done.order_reductions > 0) c.notes.order_reductions = b.step.order_reductions;
  n.activation_energy = std::max(n.activation_energy, done.activation_energy);
}

void note_contradictions(Context& c, Island& b) {
  const bool contradictory = b.step.outcome.contradictory ||
                             (b.step.gap_left > c.options.gap_tolerance && b.step.start_gap != StartGap::turned_far);
  if (contradictory || b.history.was_contradictory)
    for (const int i : b.topology.entries) c.constraints[i].outcome.contradictory = contradictory;
  b.history.was_contradictory = contradictory;
}

/// Returns the velocities that the host is to integrate, and the pose that it starts from.
Motion motion_of(const Context& c, const Island& b, std::size_t slot) {
  const BodyId id = b.layout().bodies[slot];
  const int column = b.layout().column[slot];
  const BodyState& base = c.bodies.base[id];
  Motion out;
  out.body = id;
  out.turns = turns(b.layout(), slot);
  out.write_pose = b.step.poses.start_changed;
  out.v = head(b.x.v, column);
  if (out.turns) out.w = head(b.x.v, column + 3);
  if (out.write_pose) out.start = {base.p, base.q};
  if (!b.step.poses.end_velocity_later) return out;
  const BodyState& end = c.bodies.end[id];
  out.start.p = base.p;
  out.v = (end.p - base.p) / c.dt;
  if (!out.turns) return out;
  out.w = turn_between(base.q, end.q) / c.dt;
  if (out.w.norm() * c.dt > c.capabilities.largest_turn) {
    out.start.q = (c.world.rotation(out.w, c.dt).conjugate() * end.q).normalized();
    out.write_pose = true;
  }
  return out;
}

void write_velocities(Context& c, Island& b) {
  std::array<Motion, 8> motions;  // a large island is written in several parts, without memory
  const bool later = b.step.poses.end_velocity_later;
  b.report.written.clear();
  for (std::size_t first = 0; first < b.slots(); first += motions.size()) {
    const std::size_t count = std::min(motions.size(), b.slots() - first);
    for (std::size_t i = 0; i < count; ++i) motions[i] = motion_of(c, b, first + i);
    c.world.write(std::span(motions).first(count));
    for (const Motion& m : std::span(motions).first(count)) {
      if (!m.written) ++c.counts.non_finite;  // the body keeps what the host's solver gave it
      if (later) b.report.written.push_back(m);
    }
  }
}

void end_laws(Context& c, Island& b) {
  if (b.step.division == Division::whole) {
    c.laws.book(c.system, c.constraints, b.topology.entries, *b.dynamics, c.bodies.start, b.step.force_time, b.x.v0,
                b.x.v);
    b.dynamics->accept(c.dt);
  }
  (void)c.laws.all(c.constraints);  // in their order
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    ConstraintEntry& r = c.constraints[b.topology.entries[i]];
    // Stages find the work of laws row by row. A constraint without rows has no place there.
    const bool has_rows = b.layout().row[i] < b.layout().row[i + 1];
    const bool adds = b.step.division == Division::stages ? !has_rows : !b.report.work_in_balance;
    for (LawWork& law : c.laws.of(r)) {
      if (adds) c.reactions.add_work(r, law.last);
      law.end_step(c.dt);
    }
  }
  note_friction_modes(c, b);
}

// Adds the work of the impulses with the mean velocity (T11). It is found row by row where rows do all of it, from the
// sums of fast substeps, or else with the momentum balance.
void add_work(const Context& c, Island& b) {
  const Division division = b.step.division;
  const bool fast = b.step.path != Path::general;
  const bool summed = division == Division::substeps && (fast || reports_later(c, b));
  b.report.work_in_balance = division != Division::stages && !summed &&
                             (b.has(Trait::forces_read) || b.has(Trait::kinematic_body) ||
                              b.step.start_gap == StartGap::frames_moved || division != Division::whole);
  std::vector<double>& work = b.report.work;
  if (summed) {
    for (std::size_t i = 0; i < work.size(); ++i) work[i] += b.sums.work[i];
    return;
  }
  if (division == Division::stages || b.report.work_in_balance) return;
  if (!fast) {  // else the kernel has found the row velocities
    for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.dv[j] = 0.5 * (b.x.v0[j] + b.x.v[j]);
    row_velocities(b.dynamics->assembly(), b.x.dv, b.x.row_velocity);
  }
  for (std::size_t i = 0; i < work.size(); ++i) work[i] += b.x.multipliers[i] * b.x.row_velocity[i];
}

}  // namespace

void write_island(Context& c, Island& b) {
  collect_counts(c, b);
  note_law_warnings(c, b);
  if (c.options.mode == Mode::passive) return;
  if (b.failed()) return keep_finite(c, b);
  b.history.failures = 0;
  if (b.step.division == Division::whole) b.history.last_length = c.dt;
  count_start_gap(c, b);
  note_contradictions(c, b);
  watch_step(c, b);
  write_velocities(c, b);
  add_work(c, b);
  if (b.has(Trait::laws)) b.step.path == Path::general ? end_laws(c, b) : record_springs(c, b);
  release_all_unilateral(c, b);
  report_joint_impulses(c, b, c.joint_impulses);
  const bool report_now = b.step.division == Division::stages ? b.step.keeps_records
                                                              : b.report.work_in_balance || b.has(Trait::forces_read);
  if (report_now) {
    update_report(c, b);
    report_joint_forces(c, b);
  }
  if (b.has(Trait::breakable)) break_joints(c, b);
  b.phase = Phase::written;
}

void write_end_velocities(Context& c, Island& b) {
  if (!b.took_part(c.step) || !b.step.poses.end_velocity_later) return;
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const Motion& given = b.report.written[slot];
    if (!c.bodies.in_host(given.body) || !given.written) continue;
    const int column = b.layout().column[slot];
    c.world.replace_velocity(given, head(b.x.v, column),
                             given.turns ? head(b.x.v, column + 3) : Vector3d(Vector3d::Zero()));
  }
}

void clip_to_swept_bodies(Context& c, Island& b, SubstepStates& states) {
  double part = 1;  // of the step
  for (const BodyId id : b.layout().bodies) {
    if (!c.bodies.in_host(id)) return;  // it was taken out since the solve
    const double threshold = c.world.swept_motion(id);
    if (threshold == 0) continue;
    set_poses(c, b);
    BodyState at;
    c.world.read(id, at);
    const BodyState& from = c.bodies.base[id];
    const Vector3d whole = b.step.poses.end_velocity_later ? Vector3d(c.bodies.end[id].p - from.p) : c.dt * at.v,
                   gone = at.p - from.p;
    if (!(whole.squaredNorm() > threshold)) continue;
    const double rounding = tuning::swept_roundings * c.capabilities.rounding * (1 + from.p.norm()) / whole.norm(),
                 covered = gone.dot(whole) / whole.squaredNorm();
    if (covered < 1 - rounding) part = std::min(part, std::max(covered, 0.0));
  }
  if (part == 1) return;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i)
    if (const ConstraintEntry& r = c.constraints[b.topology.entries[i]]; !r.alive || r.id != b.topology.ids[i]) return;
  State& now = states.now;
  copy_island(b, c.bodies.end, now);
  now.t = c.t;
  for (const BodyId id : b.layout().bodies) {
    const BodyState &from = c.bodies.start[id], &to = c.bodies.end[id];
    now[id] = from;
    advance(now[id], to.p - from.p, turn_between(from.q, to.q), part);
  }
  project_positions(c.system, start_problem(c, b), now, c.options.newton_tolerance, c.options.max_newton);
  for (const BodyId id : b.layout().bodies) c.world.move(id, now[id].p, now[id].q);
}

}  // namespace linchpin::host
