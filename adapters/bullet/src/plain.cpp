// The step of a block that is nothing but stock joints and asks for nothing out of the ordinary: what most mechanisms
// are in most steps. It is taken whole (linchpin::detail::JointStep), four alike at a time where no native row touches
// them, in turns with those where some do, without the problem written down; that is made up for when somebody asks.
// Whatever is not plain in it goes the way of all others (group.cpp, step.cpp).
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "energy_watch.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
// Rows that depend on each other in ways that are dear may be a matter of where bodies are, as of a net that lies flat
// at its start, or of how they are joined: it is looked at again after a step, after two, after four.
void note_dear(BlockSolve& b, const char* refused, unsigned step) {
  if (!refused || std::string_view(refused) != detail::JointStep::too_dear) return;
  constexpr unsigned most = 1024;
  b.plain_waits = std::clamp(2 * b.plain_waits, 1u, most);
  b.plain_from = step + b.plain_waits;
}
}  // namespace

void Engine::lay_out_plain(BlockSolve& b) {
  b.plain_fits = false;
  if (options_.mode != Mode::exact || !options_.drift_correction || options_.stepping != Stepping::semi_implicit ||
      b.with_laws || b.of_users || b.with_driven || b.geared)
    return;
  if (turned_away_ > 0 &&
      std::any_of(b.records.begin(), b.records.end(), [&](int i) { return records_[z(i)].turned_away; }))
    return;
  if (!std::exchange(b.plain_known, true)) {
    b.plain_from = b.plain_waits = 0;
    b.sides.clear();
    if (b.plain.lay_out(system_, b.block, joint_shapes_))
      for (const ConstraintId id : b.ids)
        for (const BodyId body : system_.constraint(id).bodies()) b.sides.push_back(b.block.slot(body));
  }
  b.plain_fits = b.plain.shape() != nullptr && step_ >= b.plain_from;
  if (b.plain_fits && std::exchange(b.masses_at, mass_changes_) != mass_changes_) b.plain.take_masses(system_);
}

detail::JointStep::Job Engine::plain_job(BlockSolve& b) const {
  return {.of = &b.plain,
          .numbers = {.Q = b.Q,
                      .applied = b.applied,
                      .newton = b.lambda,
                      .v = b.v,
                      .total = b.own_lambda,
                      .mean = b.e,
                      .turning = b.turning.slots(),
                      .turning_for = b.turning.time(),
                      .spinning = b.spins ? std::span<const char>(b.spinning) : std::span<const char>()},
          .usual_off = b.usual_off};
}

/// Of a whole step and of its parts.
detail::JointStep::Limits Engine::plain_limits(double length, double enough) const {
  return {.dt = length,
          .newton_tolerance = options_.newton_tolerance,
          .gap_tolerance = options_.gap_tolerance,
          .max_solves = options_.max_newton,
          .swing = options_.swing_limit,
          .left_open = 1 - length / dt_,  // as in try_substep
          .enough = enough * options_.swing_limit};
}

// Takes the plain steps among those of some blocks of one shape whose bodies have been read. Where one does not stand,
// nothing that others read was changed.
void Engine::take_plainly(std::span<const int> blocks, int member) {
  std::array<detail::JointStep::Job, detail::JointStep::most> jobs;
  std::array<BlockSolve*, detail::JointStep::most> of{};
  std::size_t count = 0;
  for (const int index : blocks) {
    BlockSolve& b = *blocks_[z(index)];
    if (!b.plain_fits || b.stage == BlockSolve::Stage::refused || !b.stiffness.empty()) continue;
    const double before = length_before(b);
    if (before != dt_) add_spins(b);
    add_applied(b, 0.5 * (before - dt_));
    if (goes_in_parts(b)) {
      go_in_parts(b, before, member);
      continue;
    }
    predict(b);
    b.turning.leave_out(b.block, b.applied);
    of[count] = &b;
    jobs[count++] = plain_job(b);
  }
  if (count == 0) return;
  detail::JointStep::take(state_, plain_limits(dt_, 1), std::span(jobs).first(count), member);
  for (std::size_t i = 0; i < count; ++i) settle_plainly(*of[i], jobs[i].outcome, length_before(*of[i]), member);
}

/// Where the last step was too long for one, this is taken for no other.
bool Engine::goes_in_parts(const BlockSolve& b) const {
  return b.next_length > 0 && b.next_length <= 0.5 * dt_ && !options_.geometric_stiffness;
}

/// @return whether it stands
bool Engine::go_in_parts(BlockSolve& b, double before, int member) {
  detail::JointStep::Outcome first;
  const bool stands = substep_plainly(b, std::exchange(b.next_length, 0), before, member, first, b.wants_all);
  stands ? end_plainly(b, first) : leave_plainly(b, before);
  expect_parts(b);
  return stands;
}

/// Parts of half a step may well swing by so little that twice as long ones seem to do, of which the whole step is one
/// that was found too long. As long as what was found then says that it still is it is not tried again.
void Engine::expect_parts(BlockSolve& b) const {
  if (b.next_length > 0.5 * dt_ && b.whole_swing * b.swing * b.substeps > options_.swing_limit)
    b.next_length = 0.5 * dt_;
}

// A whole step that was tried, or where that was too long for one its parts. @return whether it stands
bool Engine::settle_plainly(BlockSolve& b, const detail::JointStep::Outcome& whole, double before, int member) {
  // A Newton that sticks here is not one of too long a step: what its rows allow is looked at closer elsewhere.
  constexpr double round_off = 1e-12;
  const bool sticks = whole.refused && whole.swing == 0 && whole.residual < round_off;
  const double rows = !whole.refused && watches_energy(b) ? work_of(b.host, b.v0, b.v) : 0,
               gain = std::max(whole.gain, whole.gain + rows - std::max(b.solved_work, 0.0));
  const bool gains = gain > allowed_gain * std::max(whole.kinetic, whole.energy) &&
                     gain > gain_floor(b) + allowed_gain * std::max(energy_at_start(b), whole.energy);
  if (!whole.refused && !gains) {
    b.swing = whole.swing;
    b.newton = whole.solves;
    b.next_length = 0;
    b.turning.apply_found(b.block, b.v, b.applied);
    b.in_turns ? void(b.added_steps = 0) : note_added(b);
    end_whole(b, whole.gain, rows);
    end_plainly(b, whole);
    return true;
  }
  detail::JointStep::Outcome first;
  if (whole.answered && !sticks && !options_.geometric_stiffness &&
      substep_plainly(b, first_part(whole.swing), before, member, first, b.wants_all)) {
    b.whole_swing = whole.swing > 0 && b.swing > 0 ? whole.swing / (b.swing * b.substeps) : 0;
    expect_parts(b);
    end_plainly(b, whole);
    return true;
  }
  note_dear(b, whole.refused, step_);
  leave_plainly(b, before);
  return false;
}

void Engine::end_plainly(BlockSolve& b, const detail::JointStep::Outcome& at_start) {
  b.plain_waits = 0;
  b.stage = BlockSolve::Stage::solved;
  b.plainly = b.answered = true;
  b.told = false;
  b.usual_off = at_start.off;
  b.tally.activation_energy = std::max(b.tally.activation_energy, at_start.activation);
  b.tally.newton += b.newton;
  ++b.tally.factors;
  ++b.tally.solves;
  b.next_stiffness.clear();
}

/// To the way of all others, as it was.
void Engine::leave_plainly(BlockSolve& b, double before) {
  std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
  b.next_length = 0;
  add_applied(b, -0.5 * (before - dt_));
}

/// Kinetic [J].
double Engine::energy_at_start(const BlockSolve& b) const {
  double sum = 0;
  for (const BodyId id : b.block.bodies) {
    const BodyState& s = state_[id];
    sum += 0.5 * (system_.mass(id) * s.v.squaredNorm() + s.w.dot(system_.world_inertia(id, s.q) * s.w));
  }
  return sum;
}

/// Kinetic, without that of the translation that all bodies share, where no joint holds the block to anything else [J].
/// What a block may gain in a step must not depend on how fast it flies.
double Engine::inner_energy_at_start(const BlockSolve& b) const {
  const double all = energy_at_start(b);
  if (!b.outside.empty()) return all;
  double mass = 0;
  Vector3d momentum(0, 0, 0);
  for (const BodyId id : b.block.bodies) {
    mass += system_.mass(id);
    momentum += system_.mass(id) * state_[id].v;
  }
  return std::max(0.0, all - 0.5 * momentum.squaredNorm() / mass);
}

void Engine::put_velocities(const BlockSolve& b, const State& at, std::span<double> v) {
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyState& s = at[b.block.bodies[slot]];
    const int c = b.block.column[slot];
    put(v, c, s.v);
    if (b.block.column[slot + 1] - c == 6) put(v, c + 3, s.w);
  }
}

// Of the part just taken.
void Engine::note_pull(BlockSolve& b) {
  for (std::size_t i = 0; i < b.part_pull.size(); ++i) b.sub_pull[i] += b.part_pull[i];
  for (std::size_t i = 0; i < b.ids.size(); ++i)
    for (const int k : {0, 1}) {
      const int slot = b.sides[2 * i + z(k)];
      if (slot < 0) continue;
      const double* const p = b.part_pull.data() + 12 * i + 6 * z(k);
      double &force = b.sub_gross[2 * z(slot)], &moment = b.sub_gross[2 * z(slot) + 1];
      force = std::max(force, Vector3d(p[0], p[1], p[2]).norm());
      moment = std::max(moment, Vector3d(p[3], p[4], p[5]).norm());
    }
}

// As substep_block: the same rules, by plain steps.
// @param records  what the parts did to each body and joint is summed up as they go; else it is done when somebody asks
bool Engine::substep_plainly(BlockSolve& b, double length, double before, int member,
                             detail::JointStep::Outcome& at_start, bool records) {
  const Block& block = b.block;
  make_ends();
  add_spins(b);
  State& now = end_;
  for (const BodyId id : block.bodies) now[id] = state_[id];
  const double finest = finest_part();
  const bool watches = watches_energy(b);
  const double allowed = watches ? may_gain(b) : gain_floor(b) + allowed_gain * energy_at_start(b);
  double done = 0, gain = 0, fastest = 0;
  int solves = 0, factors = 0;
  const int most = most_tries(b, 1);
  b.parts_length = length;
  b.parts_before = before;
  b.recorded = records;
  for (auto* x : {&b.part_applied, &b.Q_host}) x->resize(b.v.size());
  for (auto* x : {&b.sub_work, &b.sub_lambda}) x->assign(b.own_lambda.size(), 0.0);
  if (records) {
    for (auto* x : {&b.sub_applied, &b.sub_momentum}) x->assign(b.v.size(), 0.0);
    b.part_pull.resize(12 * b.ids.size());
    b.sub_pull.assign(b.part_pull.size(), 0.0);
    b.sub_gross.assign(2 * b.pool.size(), 0.0);
  }
  if (b.sized) begin_host_parts(b);
  if (watches) begin_energy(b);
  int parts = 0, tries = 0;
  while (done < dt_ * (1 - 1e-12)) {
    if (parts == options_.max_substeps || tries == all_tries * most) return false;
    const double left = dt_ - done;
    const bool at_any_swing = tries >= most;
    if (tries++ == most) length = left;
    length = left / std::ceil(left / length * (1 - 1e-9));
    const double weight = b.native_rows ? length : 0.5 * (before + length);  // as in substep_block
    const bool starts = done == 0;
    b.part_turning.clear();
    if (b.sized) set_host_part(b, now, done, length);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {  // as spread_forces
      const BodyId id = block.bodies[slot];
      const int c = block.column[slot];
      Vector3d force = head(b.Q, c), torque = loads_[z(id.index)].torque;
      const Vector3d& I = b.plain.inertia()[slot];
      if (b.gyroscopic[slot])
        torque += turns_far(now[id].w)
                      ? Vector3d(b.part_turning.add(static_cast<int>(slot), now[id], I, weight) / weight)
                      : mean_gyroscopic_torque(I, now[id], weight);
      if (b.sized) force += head(b.part_held, c), torque += head(b.part_held, c + 3);
      put(b.Q_host, c, force);
      put(b.Q_host, c + 3, torque);
      put(b.part_applied, c, weight * force);
      put(b.part_applied, c + 3, weight * torque);
    }
    b.part_turning.leave_out(block, b.part_applied);
    for (std::size_t j = 0; starts && b.sized && j < b.part_blow.size(); ++j) b.part_applied[j] += b.part_blow[j];
    std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
    // Multipliers at the step's start are those of its forces.
    detail::JointStep::Limits limits = plain_limits(length, 0.45);
    if (at_any_swing) limits.swing = std::numeric_limits<double>::infinity();
    detail::JointStep::Job job = plain_job(b);
    job.numbers.Q = starts ? forces_with_host(b) : b.Q_host;
    job.numbers.applied = b.part_applied;
    job.numbers.turning = b.part_turning.slots();
    job.numbers.turning_for = weight;
    if (records) job.numbers.pull = b.part_pull;
    if (!starts) job.usual_off = std::numeric_limits<double>::infinity();
    if (starts && b.in_turns) {  // its factor is there
      b.plain.end(limits, job);
    } else {
      detail::JointStep::take(now, limits, {&job, 1}, member);
      ++factors;
    }
    solves += job.outcome.solves;
    if (starts) at_start = job.outcome;
    const bool watched = length > 1.5 * dt_ / options_.max_substeps;
    const bool gains = (watched && gain + job.outcome.gain > std::max(allowed, allowed_gain * job.outcome.energy)) ||
                       job.outcome.gain > allowed + job.outcome.kinetic;  // however short: all there is once more
    if (job.outcome.refused || (gains && !at_any_swing)) {
      if (!job.outcome.answered || length <= finest * (1 + 1e-9)) return false;
      length = std::max(0.5 * length, finest);
      continue;
    }
    if (b.sized && let_rows_go(b, b.v, starts)) continue;
    b.part_turning.apply_found(block, b.v, b.part_applied);
    if (watches) {
      b.force.assign(b.v.begin(), b.v.end());
      put_velocities(b, now, b.dv);
      const double rows = work_of_part(b, weight, starts, b.dv, b.v);
      if (drop_rows(b, job.outcome.gain + rows, job.outcome.kinetic, allowed)) continue;
      settle_energy(b, job.outcome.gain, rows, allowed, now, b.v);
    } else {
      gain += job.outcome.gain;
    }
    fastest = std::max(fastest, job.outcome.swing);
    for (std::size_t r = 0; r < b.sub_work.size(); ++r) {
      b.sub_work[r] += b.own_lambda[r] * b.e[r];
      b.sub_lambda[r] += b.own_lambda[r];
    }
    if (b.sized) record_host_part(b, weight);
    if (records) record_part(b, now, weight);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      BodyState& s = now[block.bodies[slot]];
      const int c = block.column[slot];
      const std::vector<double>& way = watches ? b.force : b.v;  // what is damped ends where it was to end
      advance(s, head(way, c), head(way, c + 3), length);
      s.v = head(b.v, c);
      s.w = head(b.v, c + 3);
    }
    ++parts;
    done += length;
    before = length;
    length *= at_any_swing ? 2 : longer_by(job.outcome.swing);
    b.next_length = length;
  }
  if (b.sized) end_host_parts(b);
  if (watches) count_damping(b);
  b.own_lambda.swap(b.sub_lambda);
  end_parts(b, now, parts, before, fastest, records);
  b.plain_parts = b.posed = true;
  b.added_steps = 0;
  b.newton = solves;
  b.tally.factors += factors;
  return true;
}

/// Of a part from `now`: what was applied in it, what it did to each body, and its joints.
void Engine::record_part(BlockSolve& b, const State& now, double weight) {
  const Block& block = b.block;
  note_pull(b);
  for (std::size_t j = 0; j < b.v.size(); ++j) b.sub_applied[j] += b.part_applied[j];
  for (std::size_t j = 0; b.sized && j < b.v.size(); ++j)  // the host has books of its own
    b.sub_applied[j] -= weight * b.part_held[j] + b.part_blow[j];
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const BodyState& s = now[id];
    const int c = block.column[slot];
    add(b.sub_momentum, c, system_.mass(id) * (head(b.v, c) - s.v));
    const Matrix3d R = s.R();
    add(b.sub_momentum, c + 3, R * b.plain.inertia()[slot].cwiseProduct(R.transpose() * (head(b.v, c + 3) - s.w)));
  }
}

/// The same step once more, to the last bit, with records, for who asks.
void Engine::record_parts(BlockSolve& b) {
  if (b.recorded) return;
  const BlockSolve::Tally tally = b.tally;
  const double next = b.next_length;
  detail::JointStep::Outcome at_start;
  substep_plainly(b, b.parts_length, b.parts_before, 0, at_start, true);
  b.tally = tally;
  b.next_length = next;
}

// What the joints did in the parts of a plain step, as a mean force, beside the reactions at its start.
void Engine::tell_parts(BlockSolve& b) {
  keep_reactions(b);
  for (std::size_t i = 0; i < b.ids.size(); ++i)
    for (const int k : {0, 1}) {
      const double* const p = b.sub_pull.data() + 12 * i + 6 * z(k);
      Wrench& sum = reactions_[z(records_[z(b.records[i])].reaction)].stabilisation.on(k);
      sum.force = Vector3d(p[0], p[1], p[2]) / dt_;
      sum.moment = Vector3d(p[3], p[4], p[5]) / dt_;
    }
  take_reported_off(b);
}

// Of a plain step, for who asks: it does without.
void Engine::pose(BlockSolve& b) {
  if (std::exchange(b.posed, true)) return;
  make_ends();
  const Block& block = b.block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    BodyState& end = end_[id];
    base_[id] = end = state_[id];
    end.v = head(b.v, block.column[slot]);
    end.w = head(b.v, block.column[slot] + 3);
    advance(end, end.v, end.w, dt_);
  }
}

/// Forces on it at the step's start, until the next call.
std::span<const double> Engine::forces_with_host(BlockSolve& b) const {
  if (!b.sized) return b.Q;  // there is none
  for (std::size_t j = 0; j < b.dv.size(); ++j) b.dv[j] = b.Q[j] + b.host[j] / dt_;
  return b.dv;
}

// ---- in turns with native rows (group.cpp, coupling.cpp)
// -------------------------------------------------------------------------------

/// @return whether its step can be taken so, as far as its start tells
bool Engine::begin_in_turns(BlockSolve& b) {
  lay_out_plain(b);
  b.in_turns = false;
  if (!b.plain_fits || !b.stiffness.empty()) return false;
  const char* why = b.plain.begin(state_, options_.gap_tolerance);
  note_dear(b, why, step_);
  if (why) return false;
  b.in_turns = true;
  b.answered = false;
  return true;
}

// As start_block.
bool Engine::start_in_turns(BlockSolve& b) {
  for (std::size_t j = 0; j < b.v.size(); ++j) b.force[j] = b.applied[j] + b.host[j];
  const double tolerance = std::max(options_.newton_tolerance, start_tolerance);
  const bool in_parts = starts_in_parts(b);
  if (!in_parts) {
    for (const auto& forces : {std::span<const double>(), forces_with_host(b)})
      if (b.plain.reach(dt_, tolerance, start_solves, b.force, forces, b.v) < start_slack * tolerance &&
          !starts_a_turn_on(b))
        return true;
  }
  b.plain.keep(in_parts ? curved_for(b) : 0, b.force, b.v);
  return true;
}

/// @return false where it is for the way of all others to end it
bool Engine::finish_in_turns(BlockSolve& b) {
  const double before = length_before(b);
  add_applied(b, 0.5 * (before - dt_));
  if (goes_in_parts(b)) return go_in_parts(b, before, 0);
  b.turning.leave_out(b.block, b.applied);
  for (std::size_t j = 0; j < b.force.size(); ++j) b.force[j] = b.applied[j] + b.host[j];
  detail::JointStep::Job job = plain_job(b);
  job.numbers.Q = forces_with_host(b);
  job.numbers.applied = b.force;
  b.plain.end(plain_limits(dt_, 1), job);
  if (job.outcome.refused && job.outcome.answered && ask_for_rows_again(b)) return false;
  return settle_plainly(b, job.outcome, before, 0);
}

/// To the way of all others, from where the step began.
bool Engine::leave_turns(BlockSolve& b) {
  b.in_turns = false;
  return begin_block(b, true);
}

Dynamics& Engine::problem(BlockSolve& b) const {
  if (!b.dynamics) make_dynamics(b);
  if (!b.plainly) return *b.dynamics;
  b.plainly = false;
  add_spins(b);
  if (!b.sized) size_up(b);
  b.dynamics->evaluate(state_, forces_with_host(b));
  if (b.in_parts) return *b.dynamics;
  // Both records in the digits of the one that is asked for.
  const auto lambda = b.dynamics->lambda();
  for (std::size_t i = 0; i < b.lambda.size(); ++i) b.lambda[i] = b.own_lambda[i] - dt_ * lambda[i];
  return *b.dynamics;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
