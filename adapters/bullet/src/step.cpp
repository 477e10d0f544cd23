// The end of a group's step: the host's impulses are read from its own rows, the reactions follow from them (T11), and
// Newton on the host's own map ends the step on the constraints (T12), in shorter ones where it is too long (T15,
// substeps.cpp), or by stages (T13, stages.cpp). What cannot be solved is handed to native rows.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "energy_watch.h"
#include "host_rows.h"

#include <linchpin/detail/turned_joints.h>

#include <limits>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

/// Whether a step's forces are known only once Bullet's rows are solved: then they are in Q_host.
bool among_rows(const BlockSolve& b) { return b.native_rows || b.pool[0] >= 0 || !b.answered; }
std::span<const double> all_forces(const BlockSolve& b) { return among_rows(b) ? b.Q_host : b.Q; }

}  // namespace

// Whether the block's constraints can do work by themselves: explicit time, or a body that the program moves.
bool Engine::can_do_work(const BlockSolve& b) const {
  if (b.with_driven) return true;
  return b.of_users &&
         std::any_of(b.records.begin(), b.records.end(), [&](int i) { return records_[z(i)].time_dependent; });
}

/// What constraint impulses of a step or part gave beyond what time and driven bodies do by them [J]: nothing, were it
/// short enough. b.force and b.lambda have what Newton added.
double Engine::gain_of_constraints(BlockSolve& b, double h, std::span<const double> v0, std::span<const double> v1) {
  const Dynamics& dynamics = *b.dynamics;
  if (!can_do_work(b)) return work_of_constraints(dynamics, h, b.force, v0, v1);
  b.change.resize(v0.size());
  for (std::size_t j = 0; j < v0.size(); ++j) b.change[j] = 0.5 * (v1[j] - v0[j]);
  b.row_change.resize(b.e.size());
  velocity_of_rows(b, b.change, b.row_change);
  const auto reaction = dynamics.lambda(), induced = dynamics.induced();
  double sum = 0;
  for (std::size_t i = 0; i < b.e.size(); ++i)
    sum += (h * (reaction[i] + induced[i]) + b.lambda[i]) * (dynamics.assembly().velocity[i] + b.row_change[i]);
  return sum;
}

// Whether a gear's bodies turn further in a step than their poses tell: Newton would end it some teeth away.
bool Engine::turns_too_far(const BlockSolve& b, const State& end, double h) const {
  constexpr double half_turn = 3;  // [rad], and a little to spare
  if (!b.geared) return false;
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    if (!records_[z(b.records[i])].shape.function) continue;
    for (const BodyId id : system_.constraint(b.ids[i]).bodies())
      if (!(end[id].w.norm() * h < half_turn)) return true;
  }
  return false;
}

// What a row's impulse changes of its velocity is a blow, at the start of the step: spread over the parts of one it
// would let come nearer until its end what it is to stop. What it holds against forces acts as long as they do.
double Engine::blow_of(const btSolverConstraint& row, Pools pools) {
  const double p = double(row.m_appliedImpulse);
  if (p == 0) return 0;
  double change = 0;
  change += change_of(row.m_contactNormal1, row.m_relpos1CrossNormal, pools.bodies[row.m_solverBodyIdA]) +
            change_of(row.m_contactNormal2, row.m_relpos2CrossNormal, pools.bodies[row.m_solverBodyIdB]);
  const double blow = change * double(row.m_jacDiagABInv);
  return p > 0 ? std::clamp(blow, 0.0, p) : std::clamp(blow, p, 0.0);
}

/// @param solved  what a step in parts needs is gathered, too
void Engine::gather_native(Pools pools, bool solved) {
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    for (auto* x : {&b.host, &b.at_once, &b.spread}) std::fill(x->begin(), x->end(), 0.0);
    b.held_rows.clear();
    b.takes = b.solved_work = 0;
    b.passive = {};
    if (!solved || !b.native_rows) continue;
    b.may_give[HeldRow::limit] = limits_may_give(b);
    b.mass = 0;
    for (const BodyId id : b.block.bodies) b.mass += system_.mass(id);
  }
  const auto take = [&](btSolverConstraint& row, Record* record) {
    const double p = double(row.m_appliedImpulse);
    const bool ours = slot_of(row.m_solverBodyIdA).block >= 0 || slot_of(row.m_solverBodyIdB).block >= 0;
    const double blow = ours && solved ? blow_of(row, pools) : 0;
    if (ours && solved && p != 0) note_work(row, pools);
    const bool kept = ours && solved && p != 0 && options_.mode == Mode::exact &&
                      keep_row(row, blow, record ? record->native.get() : nullptr, pools);
    const auto side = [&](int body, const btVector3& n, const btVector3& rn, int k) {
      const Vector3d f = p * from_bullet(n), m = p * from_bullet(rn);
      if (record) {
        record->native->on(k).force += f / dt_;
        record->native->on(k).moment += m / dt_;
      }
      const auto [of, slot] = slot_of(body);
      if (of < 0) return;
      BlockSolve& b = *blocks_[z(of)];
      const Block& block = b.block;
      const int c = block.column[z(slot)];
      const bool turns = block.column[z(slot + 1)] - c == 6;
      add(b.host, c, f);
      if (turns) add(b.host, c + 3, m);
      if (kept || !solved) return;
      add(b.at_once, c, blow * from_bullet(n));
      add(b.spread, c, (p - blow) * from_bullet(n));
      if (!turns) return;
      add(b.at_once, c + 3, blow * from_bullet(rn));
      add(b.spread, c + 3, (p - blow) * from_bullet(rn));
    };
    side(row.m_solverBodyIdA, row.m_contactNormal1, row.m_relpos1CrossNormal, 0);
    side(row.m_solverBodyIdB, row.m_contactNormal2, row.m_relpos2CrossNormal, 1);
  };
  for (int i = 0; i < pools.joints.size(); ++i) {
    const auto known = record_of_.find(static_cast<btTypedConstraint*>(pools.joints[i].m_originalContactPoint));
    if (known == record_of_.end()) continue;
    Record& r = records_[z(known->second)];
    r.native_seen = true;
    if (!r.native) r.native = std::make_unique<Wrenches>();
    r.native->on_a = r.native->on_b = Wrench{};
  }
  for (btConstraintArray* rows : {&pools.contacts, &pools.friction, &pools.rolling})
    for (int i = 0; i < rows->size(); ++i) take((*rows)[i], nullptr);
  for (const btMultiBodyConstraintArray* rows : pools.link_rows)  // what multibodies do to rigid bodies
    for (int i = 0; rows && i < rows->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      const auto side = [&](int body, const btVector3& n, const btVector3& rn) {
        const auto [of, slot] = slot_of(body);
        if (of < 0) return;
        BlockSolve& b = *blocks_[z(of)];
        const Block& block = b.block;
        const int c = block.column[z(slot)];
        const double p = double(row.m_appliedImpulse);
        const btSolverBody& sb = pools.bodies[body];
        b.solved_work +=
            p * (velocity_of(n, rn, sb.m_linearVelocity, sb.m_angularVelocity) + 0.5 * change_of(n, rn, sb));
        for (auto* x : {&b.host, &b.spread}) {
          add(*x, c, p * from_bullet(n));
          if (block.column[z(slot + 1)] - c == 6) add(*x, c + 3, p * from_bullet(rn));
        }
      };
      if (!row.m_multiBodyA) side(row.m_solverBodyIdA, row.m_contactNormal1, row.m_relpos1CrossNormal);
      if (!row.m_multiBodyB) side(row.m_solverBodyIdB, row.m_contactNormal2, row.m_relpos2CrossNormal);
    }
  const btTypedConstraint* last = nullptr;
  int in_joint = 0, kept = 0;
  std::array<int, 24> own{};
  for (int i = 0; i < pools.joints.size(); ++i) {
    btSolverConstraint& row = pools.joints[i];
    auto* c = static_cast<btTypedConstraint*>(row.m_originalContactPoint);
    const auto known = record_of_.find(c);
    Record* record = known == record_of_.end() ? nullptr : &records_[z(known->second)];
    if (c != last) {
      last = c;
      in_joint = 0;
      kept = 0;
      if (options_.mode == Mode::observe && record && record->id.index >= 0) {
        int emitted = 0;
        for (int j = i; j < pools.joints.size() && pools.joints[j].m_originalContactPoint == c; ++j) ++emitted;
        kept = record->joint ? NativePart::native_rows(*record->joint, record->shape, emitted, own) : 0;
      }
    }
    if (options_.mode == Mode::observe && record && record->id.index >= 0 &&
        std::find(own.begin(), own.begin() + kept, in_joint) == own.begin() + kept) {
      // An equality row, solved by Bullet: not a host impulse but its answer for the reaction.
      const double p = double(row.m_appliedImpulse) / dt_;
      record->native->on_a.force += p * from_bullet(row.m_contactNormal1);
      record->native->on_a.moment += p * from_bullet(row.m_relpos1CrossNormal);
      record->native->on_b.force += p * from_bullet(row.m_contactNormal2);
      record->native->on_b.moment += p * from_bullet(row.m_relpos2CrossNormal);
    } else {
      take(row, options_.mode == Mode::observe && record && record->id.index >= 0 ? nullptr : record);
    }
    ++in_joint;
  }
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    b.solved_work += passive_work(b);
  }
}

bool Engine::after_iterations(Pools pools) {
  put_rows_back(pools);
  hold_animated(pools);  // the iterations bring in bodies that no row knows
  if (group_.empty()) {
    if (world_ && pools.joints.size() > 0) gather_native(pools, true);
    return true;
  }
  gather_native(pools, true);
  bool good = true;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || b.done) continue;
    b.before = b;
    b.done = finish_block(b);
    if (b.done) continue;
    if (!std::exchange(b.again, false)) fail_block(b, b.trouble);
    good = false;
  }
  for (const int index : group_) {  // everything of this group is solved again: host impulses change
    BlockSolve& b = *blocks_[z(index)];
    if (good || !std::exchange(b.done, false)) continue;
    static_cast<CarriedOn&>(b) = b.before;
    forget_law_works(b);
  }
  if (good) forget_unsolved(pools);
  return good;
}

/// Of this step, as far as it had come; what laws remember has lived through the parts that do not stand.
void Engine::forget_law_works(BlockSolve& b) {
  if (!b.with_laws) return;
  b.law_trouble.clear();
  if (b.lived > 0 && !b.law_memory.empty()) {
    b.dynamics->give_memory(b.law_memory);
    b.dynamics->accept(-std::exchange(b.lived, 0));
  }
  for (const int i : b.records)
    for (int k = 0; k < records_[z(i)].law_count; ++k) law_works_[z(records_[z(i)].first_law + k)].last = 0;
}

bool Engine::finish_block(BlockSolve& b) {
  b.lived = 0;
  if (b.with_laws) {
    const auto memory = b.dynamics->memory();
    b.law_memory.assign(memory.begin(), memory.end());
  }
  if (!finite(b.host)) {
    if (options_.mode == Mode::observe) {
      b.failed = true;
      return true;
    }
    for (auto* x : {&b.host, &b.at_once, &b.spread}) std::fill(x->begin(), x->end(), 0.0);
    b.held_rows.clear();
    ++counts_.non_finite;
    trouble_ = "the native solver returned impulses that are not finite; they were left out";
  }
  if (b.in_turns) {
    if (finish_in_turns(b)) return true;
    if (b.again) return false;
    if (!leave_turns(b)) return false;
  }
  // What the host did in this step belongs to the force that the reaction answers (T11).
  bool open = false;
  if (among_rows(b)) {
    for (std::size_t j = 0; j < b.Q.size(); ++j) b.Q_host[j] = b.Q[j] + b.host[j] / dt_;
    open = stages_answer(b);
    if (!open && b.dynamics->resolve(state_, b.Q_host) == Status::invalid) return refuse(b, b.dynamics->reason());
  }
  b.told = false;
  if (b.of_users) note_time_dependence(b);
  if (options_.mode == Mode::observe) {
    tell(b);
    return true;
  }
  note_activation(b);

  // An initial gap, or one that the program made by moving bodies, is closed by moving, not by pushing (T12). Where it
  // has moved a joint's frame or limit, the bodies go with it: the step ends on the constraints, in the time that it
  // has.
  if (options_.drift_correction) {
    const double gap = start_gap(b, false), moved = start_gap(b, true), away = turned_away(b);
    b.follows = moved > options_.gap_tolerance && gap <= options_.gap_tolerance && away == 0 &&
                options_.stepping == Stepping::semi_implicit;
    if (std::max({gap, moved, away}) > options_.gap_tolerance && !b.follows && !close_start_gap(b))
      return refuse(b, b.dynamics->reason());
  }

  if (options_.stepping != Stepping::semi_implicit) {
    b.stepped_down = why_no_stages(b);
    if (!b.stepped_down) {
      if (take_by_stages(b)) return true;
      b.stepped_down = options_.stepping == Stepping::adaptive
                           ? "no part of the step was short enough for its tolerance"
                       : laws_too_stiff(b) ? "laws damp faster than max_substeps parts of the step can follow"
                                           : "no part of the step was short enough to be taken by stages";
      if (b.with_laws) b.dynamics->set_step(dt_);
      forget_law_works(b);
      ++b.tally.factors;
      if (b.dynamics->evaluate(state_, all_forces(b)) == Status::invalid) return refuse(b, b.dynamics->reason());
    } else if (open && b.dynamics->resolve(state_, b.Q_host) == Status::invalid) {
      return refuse(b, b.dynamics->reason());
    }
    ++b.tally.stepped_down;
  }

  const double before = length_before(b);
  add_applied(b, 0.5 * (before - dt_));

  Outcome outcome = try_step(b);
  if (outcome == Outcome::too_long && options_.geometric_stiffness && !b.in_contact && stiffen(b))
    outcome = try_step(b);
  if (outcome == Outcome::lost) return refuse(b, b.dynamics->reason());
  if (outcome == Outcome::too_long) {
    if (ask_for_rows_again(b)) return false;
    b.added_steps = 0;
    // Parts of a step would each have to know how far the frame has come by then: too fast, it is a teleport.
    if (std::exchange(b.follows, false) && !close_start_gap(b)) return refuse(b, b.dynamics->reason());
    if (!b.stiffness.empty()) {
      set_stiffness(b, {});
      ++b.tally.factors;
      if (b.dynamics->evaluate(state_, all_forces(b)) == Status::invalid) return refuse(b, b.dynamics->reason());
    }
    keep_reactions(b);  // substeps overwrite the problem that they answer
    if (substep_block(b, before)) return true;
    constexpr unsigned for_steps = 60;
    if (!b.too_dear && !b.creeps && !b.dynamics->solver().full_row_rank()) {
      b.creeps = true;
      b.creeps_until = step_ + for_steps;
      ++b.tally.factors;
      if (b.dynamics->evaluate(state_, all_forces(b)) != Status::invalid && substep_block(b, before)) return true;
    }
    if (b.too_dear)
      return refuse(
          b, "its rows nearly depend on each other, and no number of substeps that is worth its time could be solved");
    return refuse(
        b, b.substeps < options_.max_substeps
               ? "no substep as short as dt/" + std::to_string(std::lround(dt_ / finest_part())) + " could be solved"
               : "it would take more than " + std::to_string(options_.max_substeps) + " substeps");
  }
  if (options_.geometric_stiffness) note_stiffness(b);
  const bool watched = watches_energy(b);
  end_whole(b, watched ? gain_of_constraints(b, dt_, b.v0, b.v) : 0, watched ? work_of(b.host, b.v0, b.v) : 0);
  return true;
}

// Beyond π/4 per step Bullet does not turn as it says.
bool Engine::turns_beyond_host(const BlockSolve& b) const {
  const Block& block = b.block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot)
    if (block.column[slot + 1] - block.column[slot] == 6 &&
        head(b.v, block.column[slot] + 3).squaredNorm() * (dt_ * dt_) > 0.78 * 0.78)
      return true;
  return false;
}

// A velocity belongs to the middle of a step: after a step of another length the applied forces act from the middle
// of that one to the middle of this, or mechanisms that are often stepped in halves lose energy. Not where the host's
// own rows have answered the full step's forces already.
double Engine::length_before(const BlockSolve& b) const {
  return b.last_length > 0 && !b.native_rows ? b.last_length : dt_;
}

// Whether Bullet's rule for its gyroscopic torque will not do: where it turns less, that costs nothing.
bool Engine::turns_far(const Vector3d& w) const {
  constexpr double far = 0.1;  // [rad]
  return options_.mode == Mode::exact && options_.drift_correction && !options_.geometric_stiffness &&
         options_.stepping == Stepping::semi_implicit && w.squaredNorm() * (dt_ * dt_) > far * far;
}

/// What is applied over so much more time.
void Engine::add_applied(BlockSolve& b, double time) const {
  for (std::size_t j = 0; time != 0 && j < b.applied.size(); ++j) b.applied[j] += time * b.Q[j];
  for (const int slot : b.turning.slots()) {  // Q has the torque of the start
    const int c = b.block.column[z(slot)] + 3;
    add(b.applied, c, time * (loads_[z(b.block.bodies[z(slot)].index)].torque - head(b.Q, c)));
  }
  b.turning.apply_alone(b.block, time, b.applied);
}

/// The largest |φ| at the step's start, of the joints that the program has moved since the last step or of all others.
double Engine::start_gap(const BlockSolve& b, bool moved) const {
  const Assembly& assembly = b.dynamics->assembly();
  double gap = 0;
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    if ((records_[z(b.records[i])].moved_step == step_) != moved) continue;
    for (int row = assembly.block.row[i]; row < assembly.block.row[i + 1]; ++row)
      gap = std::max(gap, std::abs(assembly.position[z(row)]));
  }
  return gap;
}

/// The widest angle by which a joint of the block is turned from where it is held, where that is so far that its dots
/// do not tell the way [rad].
double Engine::turned_away(BlockSolve& b) const {
  b.away = 0;
  if (turned_away_ == 0 && largest(b.dynamics->assembly().position) <= options_.gap_tolerance) return 0;
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    const Constraint& constraint = system_.constraint(b.ids[i]);
    const JointRows::Alignment* const alignment = detail::alignment_of(constraint.function());
    if (!alignment) continue;
    const auto bodies = constraint.bodies();
    const double angle = detail::turned_away(*alignment, state_[bodies[0]].R(), state_[bodies[1]].R());
    if (angle <= b.away) continue;
    b.away = angle;
    b.away_record = b.records[i];
  }
  return b.away;
}

/// @return false where the equation cannot be evaluated at the poses that close it
bool Engine::close_start_gap(BlockSolve& b) {
  constexpr double most_turn = 0.5;  // [rad] in a step: bodies come from afar by a way that others see
  b.gap_left = close_gaps(system_, *b.dynamics, base_, options_.newton_tolerance, options_.max_newton, &b.moved,
                          &b.turned, most_turn);
  b.on_the_way = b.away > 0 && b.gap_left > detail::far_turn && b.turned > 0.9 * most_turn;
  if (b.on_the_way) detail::hold_as_turned(*b.dynamics, base_);
  b.pushed = b.write_pose = true;
  // Rows of where the bodies were would hold them askew of where they are: near a dead point without bound. Not for
  // what a host in single precision leaves in every step, which is no more than its rounding.
  constexpr double far_moved = 1e-4;  // [m, rad]
  if (std::max(b.moved, b.turned) <= far_moved) return true;
  for (const BodyId id : b.block.bodies) {
    state_[id].p = base_[id].p;
    state_[id].q = base_[id].q;
  }
  b.turning.move_to(b.block, state_, b.applied);
  ++b.tally.factors;
  return b.dynamics->evaluate(state_, all_forces(b)) != Status::invalid;
}

// The whole step from its records to velocities that end on the constraints, and whether it may stand.
Engine::Outcome Engine::try_step(BlockSolve& b) {
  const linchpin::Solver& solver = b.dynamics->solver();
  const Assembly& assembly = b.dynamics->assembly();
  // v₁ from the records: start, applied, host, ideal + nonideal, then what Newton adds.
  const auto ideal = b.dynamics->ideal(), nonideal = b.dynamics->nonideal();
  std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
  std::fill(b.force.begin(), b.force.end(), 0.0);
  if (options_.drift_correction && predict(b)) {
    add_pull(b, b.lambda, b.force);
    if (!solver.full_row_rank()) stay_of_least_norm(b);
  }
  for (std::size_t j = 0; j < b.v.size(); ++j)
    b.dv[j] = b.applied[j] + b.host[j] + dt_ * (ideal[j] + nonideal[j]) + b.force[j];
  solver.inverse_mass(b.dv, b.dv);
  for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] = b.v0[j] + b.dv[j];
  bool good = finite(b.v), stopped = false;
  if (good && options_.drift_correction) {
    b.left_open.clear();  // gaps of what is on its way stay as they are for the step
    if (b.on_the_way) b.left_open.assign(assembly.position.begin(), assembly.position.end());
    NewtonReport newton = end_step(b, state_, base_, end_, dt_, b.v, b.turning, b.left_open);
    if (!b.on_the_way && held_by_curvature(b, newton)) {
      b.turning.apply(b.block, b.applied);  // of which velocities are made anew
      if (!stop_at_end(b)) return Outcome::lost;
      stopped = true;
      newton = end_step(b, state_, base_, end_, dt_, b.v, b.turning);
    }
    good = newton.converged && finite(b.v) && !turns_too_far(b, end_, dt_);
    b.unmet = contradicts(newton, dt_, options_.gap_tolerance);
    b.turning.apply(b.block, b.applied);
  }
  if (stopped)
    b.added_steps = 0;
  else if (good)
    note_added(b);
  const auto reaction = b.dynamics->lambda(), induced = b.dynamics->induced();
  for (std::size_t i = 0; i < b.own_lambda.size(); ++i)
    b.own_lambda[i] = dt_ * (reaction[i] + induced[i]) + b.lambda[i];
  // ω of T15 from the force this step really applies, least-norm multipliers.
  for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = good ? b.own_lambda[i] / dt_ : reaction[i] + induced[i];
  if (good && !stopped) {
    constexpr double stiffened_limit = 1.9;  // ½ dt² K⁺ in the inertia leaves √2, but K⁺ may be the last step's
    const double limit = b.stiffness.empty() ? options_.swing_limit : std::max(stiffened_limit, options_.swing_limit);
    b.swing = fastest_swing(system_, *b.dynamics, state_, b.e, limit / dt_) * dt_;
    good = !(b.swing > limit);
  }
  if (good && options_.drift_correction && !b.follows) {
    double gain = gain_of_constraints(b, dt_, b.v0, b.v);
    if (watches_energy(b)) gain = std::max(gain, gain + work_of(b.host, b.v0, b.v) - std::max(b.solved_work, 0.0));
    if (gain > allowed_gain * kinetic_of_centres(assembly, b.v0) &&
        gain > allowed_gain * std::max(kinetic(assembly, b.v0), kinetic(assembly, b.v)))
      good = !(gain > gain_floor(b) + allowed_gain * std::max(kinetic(assembly, b.v0), kinetic(assembly, b.v)));
  }
  return good || !options_.drift_correction ? Outcome::stands : Outcome::too_long;
}

// ½ dt² K⁺ of the given K⁺ by slot into the moments of inertia, −½ dt² K⁺ω into what is applied (T15); none: as it was.
void Engine::set_stiffness(BlockSolve& b, std::span<const Matrix3d> K) {
  const Block& block = b.block;
  const auto apply = [&](double sign) {
    for (std::size_t slot = 0; slot < b.stiffness.size(); ++slot) {
      if (b.stiffness[slot].isZero(0)) continue;
      const int c = block.column[slot] + 3;
      const Vector3d impulse = sign * (b.stiffness[slot] * head(b.v0, c));
      add(b.applied, c, impulse);
      for (auto* Q : {&b.Q, &b.Q_host}) add(*Q, c, impulse / dt_);
    }
  };
  apply(1);
  b.stiffness.assign(K.begin(), K.end());
  for (Matrix3d& k : b.stiffness) k *= 0.5 * dt_ * dt_;
  apply(-1);
  if (b.stiffness.empty() && !b.dynamics) return;
  if (!b.dynamics) make_dynamics(b);
  b.dynamics->add_inertia(b.stiffness);
}

/// K⁺ of the forces b.e, of those bodies that swing through half of what a step allows, or more. @return whether there
/// is one
bool Engine::find_stiffness(BlockSolve& b) {
  const Block& block = b.block;
  geometric_stiffness(system_, *b.dynamics, state_, b.e, b.next_stiffness);
  const double slow = 0.25 * options_.swing_limit * options_.swing_limit / (dt_ * dt_);
  bool any = false;
  for (std::size_t slot = 0; slot < b.next_stiffness.size(); ++slot) {
    Matrix3d& K = b.next_stiffness[slot];
    if (K.isZero(0)) continue;
    const double least = system_.inertia(block.bodies[slot]).diagonal().minCoeff();  // all that Bullet's bodies have
    if (!K.allFinite() || K.norm() <= slow * least)
      K.setZero();
    else
      any = true;
  }
  if (!any) b.next_stiffness.clear();
  return any;
}

/// Makes a step that was too long ready to be tried once more with stiffness. @return whether that is of use
bool Engine::stiffen(BlockSolve& b) {
  if (!find_stiffness(b)) return false;
  b.added_steps = 0;
  set_stiffness(b, b.next_stiffness);
  ++b.tally.factors;
  return b.dynamics->evaluate(state_, all_forces(b)) != Status::invalid;
}

/// Of a step that stands: what its stiffness did, and what the next one's is to be.
void Engine::note_stiffness(BlockSolve& b) {
  const Block& block = b.block;
  for (std::size_t slot = 0; slot < b.stiffness.size(); ++slot) {
    if (b.stiffness[slot].isZero(0)) continue;
    const int c = block.column[slot] + 3;
    const Vector3d w0 = head(b.v0, c), w1 = head(b.v, c);
    b.tally.stiffness_work -= (b.stiffness[slot] * w1).dot(0.5 * (w0 + w1));
  }
  if (b.stiffness.empty()) return b.next_stiffness.clear();  // begun where a step is too long, not before
  ++b.tally.stiffened;
  find_stiffness(b);
}

// A mechanism at a singular pose that has nowhere to go, as planks hinged in a straight line between two posts: rows of
// that pose let it go sideways, and no such motion, however small, keeps the joints together. What Newton leaves then
// is not a contradiction: there was none where the step began.
bool Engine::held_by_curvature(const BlockSolve& b, const NewtonReport& newton) const {
  constexpr double round_off = 1e-12;  // [m]
  return newton.least_squares && !b.with_laws &&
         newton.residual * dt_ > round_off + 10 * largest(b.dynamics->assembly().position) &&
         std::all_of(b.ids.begin(), b.ids.end(),
                     [&](ConstraintId id) { return system_.constraint(id).function().level() == Level::position; });
}

// Rows of beyond where the step's forces would have taken it do know: with them, and without the velocities that they
// forbid, it is taken again. The nearer to the singular pose the larger their multipliers: of where it would have ended
// they would be tensions under which what else can move is not stable in steps as long (T15).
bool Engine::stop_at_end(BlockSolve& b) {
  constexpr double beyond = 10;
  const Block& block = b.block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    BodyState& s = state_[block.bodies[slot]];
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    const auto u = [&](int at) -> Vector3d { return head(b.v0, at) + beyond * (head(b.v, at) - head(b.v0, at)); };
    advance(s, u(c), dof == 6 ? u(c + 3) : Vector3d(0, 0, 0), dt_);
  }
  ++b.tally.factors;
  if (b.dynamics->evaluate(state_, all_forces(b)) == Status::invalid) return false;
  const Assembly& assembly = b.dynamics->assembly();
  const linchpin::Solver& solver = b.dynamics->solver();
  for (std::size_t j = 0; j < b.v.size(); ++j) b.dv[j] = b.applied[j] + b.host[j] + dt_ * b.dynamics->ideal()[j];
  solver.inverse_mass(b.dv, b.v);  // so far without v₀, which the rows at its velocity already count
  velocity_of_rows(b, b.v, b.e);
  for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = -b.e[i] - assembly.velocity[i];
  solver.apply(b.e, b.lambda, b.force, b.dv);
  for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] += b.v0[j] + b.dv[j];
  return true;
}

// What Newton will have to add is of third order in the step and changes smoothly: a polynomial through the last steps
// starts it many contractions nearer. The sum of backward differences goes on as long as they shrink: where motion is
// rough that is none of them, and where it is smooth the last is rounding. It only ever changes how many solves there
// are, not where they end. Motion that stays rough is left alone for a while: to look at it takes time, too.
bool Engine::predict(BlockSolve& b) {
  constexpr int orders = BlockSolve::added_orders, patience = 12, rest = 64;  // [steps]
  if (b.added_rest > 0) {
    --b.added_rest;
    return false;
  }
  if (b.native_rows || std::max(b.moved, b.turned) > 0 || b.last_length != dt_) b.added_steps = 0;
  int terms = 0;  // what is left out is of the size of the first of these
  const int known = std::min(b.added_steps, orders);
  for (int k = 1; k < known; ++k)
    if (b.added_size[z(k)] < b.added_size[z(terms)]) terms = k;
  // A start that is not well below what is left to do saves no solve, and is not free.
  constexpr double worth = 0.1;
  if (terms == 0 || b.added_size[z(terms)] > worth * b.added_size[0]) {
    if (known == orders && ++b.added_in_vain == patience) {
      b.added_in_vain = b.added_steps = 0;
      b.added_rest = rest;
    }
    return false;
  }
  b.added_in_vain = 0;
  if (terms == known - 1) ++terms;
  const double* differences = b.added.data();
  for (double& lambda : b.lambda) {
    lambda = differences[0];
    for (int k = 1; k < terms; ++k) lambda += differences[k];
    differences += orders;
  }
  return true;
}

// What was added in the last steps was of least norm at their poses, and is to be so at this one (T6): what is told of
// it is no chance of the way here, nor what breaks by it. The reference makes multipliers from errors only, and starts
// from none.
void Engine::stay_of_least_norm(BlockSolve& b) const {
  const linchpin::Solver& solver = b.dynamics->solver();
  if (solver.info().fallbacks == 0) return solver.shortest(b.force, b.lambda);
  for (auto* x : {&b.lambda, &b.force}) std::fill(x->begin(), x->end(), 0.0);
}

// force += Aᵀλ
void Engine::add_pull(const BlockSolve& b, std::span<const double> lambda, std::span<double> force) const {
  for_rows_of_bodies(b.dynamics->assembly(), [&](int row, const double* J, int column, int count) {
    if (count == 6) {
      Eigen::Map<Vector6>(force.data() + column) += lambda[z(row)] * Eigen::Map<const Vector6>(J);
      return;
    }
    for (int j = 0; j < count; ++j) force[z(column + j)] += J[j] * lambda[z(row)];
  });
}

void Engine::note_added(BlockSolve& b) {
  constexpr int orders = BlockSolve::added_orders;
  if (b.added_rest > 0) return;
  if (b.added_steps == 0) std::fill(b.added.begin(), b.added.end(), 0.0);
  double* differences = b.added.data();
  std::array<double, orders> size{};
  for (double now : b.lambda) {
    for (int k = 0; k < orders; ++k) {
      const double next = now - differences[k];
      differences[k] = now;
      size[z(k)] = std::max(size[z(k)], std::abs(now));
      now = next;
    }
    differences += orders;
  }
  b.added_size = size;
  ++b.added_steps;
}

// Newton to the end of the step (T12); what sticks is brought to rest again after each, which moves it a little, and
// what turns far turned by what it has become.
NewtonReport Engine::end_step(BlockSolve& b, const State& evaluated, const State& base, State& end, double h,
                              std::span<double> v, TurningBodies& turning, std::span<const double> left_open) {
  double extent = 0;  // poses far out are no better than their own rounding
  for (const BodyId id : b.block.bodies) extent = std::max(extent, base[id].p.cwiseAbs().maxCoeff());
  const double tolerance = std::max(options_.newton_tolerance, 4 * std::numeric_limits<double>::epsilon() * extent);
  NewtonReport report;
  const int rounds = turning.empty() ? 4 : 20;
  for (int round = 0; round < rounds; ++round) {
    NewtonReport newton = end_on_constraints(system_, *b.dynamics, base, end, h, v, b.lambda, b.force, tolerance,
                                             options_.max_newton, left_open);
    // Among rows that depend on each other as nearly as a flat net's Newton creeps where it should arrive, in short
    // steps no less than in long ones: what it has closed as far as joints are held closed may stand.
    if (b.creeps && !newton.converged && !b.dynamics->solver().full_row_rank() &&
        std::sqrt(3.0) * newton.residual * h <= options_.gap_tolerance)
      newton.converged = newton.least_squares = true;
    const int solves = report.solves + newton.solves;
    report = newton;
    report.solves = solves;
    if (!newton.converged || round + 1 == rounds) break;  // the last word is the constraints'
    bool changed = turning.turn(b.block, v);
    if (b.with_laws && round < 3) {
      double size = 1;
      for (const double x : v) size = std::max(size, std::abs(x));
      changed = b.dynamics->hold(evaluated, v) > 1e-15 * size || changed;
    }
    if (!changed) break;
  }
  b.newton += report.solves;
  b.tally.newton += report.solves;
  return report;
}

// What its laws took, and which of their contacts stick or slide other than after the last step: chatter shows there.
void Engine::note_grips(BlockSolve& b) {
  counts_.law_solves += b.dynamics->law_report().back_solves;
  const auto contacts = b.dynamics->contacts();
  const bool known = b.stuck.size() == contacts.size();
  b.stuck.resize(contacts.size());
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    if (known && contacts[i].sticks != static_cast<bool>(b.stuck[i])) ++counts_.mode_switches;
    b.stuck[i] = contacts[i].sticks;
  }
}

// A step that begins off its velocity constraints (a constraint just switched on, a body just thrown) gets them by an
// impulse; how violent it was is reported (T14). Steps of Bullet's kind are always off by O(dt): only what is far off
// the last step's is looked at.
void Engine::note_activation(BlockSolve& b) {
  const Assembly& assembly = b.dynamics->assembly();
  double off = 0;
  for (const double x : assembly.velocity) off = std::max(off, std::abs(x));
  constexpr double rounding = 1e-13;  // all that steps by stages leave
  if (off > 2 * b.usual_off && off > rounding * largest(assembly.v)) {
    for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = -assembly.velocity[i];
    b.dynamics->solver().apply(b.e, {}, b.force, b.dv);
    double energy = 0;
    for (std::size_t j = 0; j < b.dv.size(); ++j) energy += 0.5 * b.force[j] * b.dv[j];
    b.tally.activation_energy = std::max(b.tally.activation_energy, energy);
  }
  b.usual_off = off;
}

// What the applied forces could give from rest in one step [J]: below it a gain is rounding, or a start. From rest
// there is no gyroscopic torque; of a body that turns by ω·dt ≫ 1 in the step it would allow (ω·dt)² times all its
// energy. And no step tells less than the poses it begins with: what the host has rounded there, and Newton left open,
// is closed again, which in mid-air is all that a structure at rest does.
double Engine::gain_floor(const BlockSolve& b) const {
  constexpr double ulps = 4;
  const Block& block = b.block;
  double sum = 0, rounding = 0;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot];
    const double open = 100 * options_.newton_tolerance +
                        ulps * double(SIMD_EPSILON) * std::max(1.0, state_[id].p.cwiseAbs().maxCoeff());
    sum += head(b.Q, c).squaredNorm() / system_.mass(id);
    rounding += system_.mass(id) * open * open;
    if (block.column[slot + 1] - c != 6) continue;
    const Vector3d own = state_[id].q.conjugate() * loads_[z(id.index)].torque,
                   I = system_.inertia(id).diagonal();  // all that Bullet has
    sum += own.cwiseQuotient(I).dot(own);
    rounding += I.sum() * open * open;
  }
  return 0.5 * (dt_ * dt_ * sum + rounding / (dt_ * dt_));
}

/// Of a whole step by the velocities `way`, which ends with b.v: Bullet integrates these to the same end.
void Engine::start_from_true_turn(BlockSolve& b, std::span<const double> way) {
  const Block& block = b.block;
  b.write_pose = true;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const int c = block.column[slot];
    BodyState& s = base_[block.bodies[slot]];
    const auto turning = [&](std::span<const double> v) -> Vector3d {
      return block.column[slot + 1] - c == 6 ? head(v, c + 3) : Vector3d::Zero();
    };
    advance(s, head(way, c), turning(way), dt_);
    back_off(s.p, s.q, head(b.v, c), turning(b.v), dt_);
  }
}

bool Engine::refuse(BlockSolve& b, std::string why) const {
  b.trouble = std::move(why);
  return false;
}

// To the native rows; not while other blocks are being solved. A block that failed time and again most likely fails
// again, after its shortest substeps and its largest solves: it is tried less and less often.
void Engine::fail_block(BlockSolve& b, const std::string& why) {
  constexpr int patience = 8, rarest = 6, rarest_if_long = 9;  // tries without a pause; every 2⁶, 2⁹ steps
  constexpr double dear = 1e5;  // rows times substeps of a try: a second that the program waits
  constexpr int large = 60;     // rows of a gap that does not close, of which each step has a factor
  b.failed = true;
  b.added_steps = 0;
  b.trouble = why;  // told again in the steps in which it is not tried
  ++counts_.fallbacks;
  if (step_ >= b.next_try) {
    const bool long_try = double(b.substeps) * b.block.m() > dear || b.too_dear ||
                          (b.gap_left > options_.gap_tolerance && b.block.m() > large);
    b.failures = long_try ? std::max(b.failures, patience) + 1 : b.failures + 1;
    if (b.failures > patience)
      b.next_try = step_ + 1 + (1u << std::min(b.failures - patience, long_try ? rarest_if_long : rarest));
  }
  trouble_ = why;
  if (step_ + 1 < b.next_try) trouble_ += " (tried again in " + std::to_string(b.next_try - step_) + " steps)";
  for (const int index : b.records) {
    Record& r = records_[z(index)];
    r.why_native = trouble_;
    failed_records_.push_back(index);
    report_native(r, true);
    if (r.native_part) std::erase(rest_, static_cast<btTypedConstraint*>(r.native_part.get()));
    if (r.joint) rest_.push_back(r.joint);
    for (auto& p : r.proxies) rest_.push_back(p.get());
  }
}

// Their impulses are those of bodies that their joints held exactly, which may be any number of times what stops the
// bodies alone: native rows begin without.
void Engine::forget_contacts_of_failed(btPersistentManifold** manifolds, int count) const {
  const auto failed = [&](const btCollisionObject* object) {
    return std::any_of(failed_records_.begin(), failed_records_.end(), [&](int index) {
      const auto& bodies = records_[z(index)].bodies;
      return !object->isStaticOrKinematicObject() && std::find(bodies.begin(), bodies.end(), object) != bodies.end();
    });
  };
  for (int i = 0; i < count; ++i) {
    if (!failed(manifolds[i]->getBody0()) && !failed(manifolds[i]->getBody1())) continue;
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k) {
      btManifoldPoint& point = manifolds[i]->getContactPoint(k);
      point.m_appliedImpulse = point.m_appliedImpulseLateral1 = point.m_appliedImpulseLateral2 = 0;
    }
  }
}

void Engine::drop_pool(Pools pools) {
  // Companion ids of animated bodies outlive a setup: they would index the next pool.
  for (int i = 0; i < pools.bodies.size(); ++i)
    if (pools.bodies[i].m_originalBody) pools.bodies[i].m_originalBody->setCompanionId(-1);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
