// The end of a group's step: the host's impulses are read from its own rows, the reactions follow from them (T11), and
// Newton on the host's own map ends the step on the constraints (T12), in halves where the step is too long (T15). What
// cannot be solved is handed to native rows.
#include "engine.h"

#include "bodies.h"
#include "columns.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

/// ½ vᵀM v of a block at the poses of `at` [J].
double kinetic(const System& system, const Block& block, const State& at, std::span<const double> v) {
  double sum = 0;
  for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot];
    sum += 0.5 * system.mass(id) * head(v, c).squaredNorm();
    if (block.column[slot + 1] - c == 6) {
      const Vector3d w = head(v, c + 3);
      sum += 0.5 * w.dot(system.world_inertia(id, at[id].q) * w);
    }
  }
  return sum;
}

/// Work that ideal constraint impulses did where they can do none: impulse · ½(v₀ + v₁), prescribed forces left out
/// [J].
double work_of_constraints(const Dynamics& dynamics, double h, std::span<const double> stabilisation,
                           std::span<const double> v0, std::span<const double> v1) {
  double sum = 0;
  for (std::size_t j = 0; j < v0.size(); ++j) {
    const double impulse =
        h * (dynamics.ideal()[j] + dynamics.nonideal()[j] - dynamics.assembly().instant.c[j]) + stabilisation[j];
    sum += impulse * 0.5 * (v0[j] + v1[j]);
  }
  return sum;
}

// Constraints that do not move cannot give a mechanism energy. Where a step ends with more than this fraction of its
// kinetic energy from them (a chain that snaps taut within the step), the step was too long, whatever ω·dt says.
constexpr double allowed_gain = 0.02;

}  // namespace

// Whether the block's constraints can do work by themselves: explicit time, or a body that the program moves.
bool Engine::can_do_work(const BlockSolve& b) const {
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    if (records_[z(b.records[i])].time_dependent) return true;
    for (const BodyId id : system_.constraint(b.ids[i]).bodies())
      if (system_.kind(id) == BodyKind::driven) return true;
  }
  return false;
}

void Engine::gather_native(Pools pools) {
  for (const int index : group_) std::fill(blocks_[z(index)]->host.begin(), blocks_[z(index)]->host.end(), 0.0);
  const auto take = [&](const btSolverConstraint& row, Record* record) {
    const double p = double(row.m_appliedImpulse);
    const auto side = [&](int body, const btVector3& n, const btVector3& rn, int k) {
      const Vector3d f = p * from_bullet(n), m = p * from_bullet(rn);
      if (record) {
        record->native.on(k).force += f / dt_;
        record->native.on(k).moment += m / dt_;
      }
      if (body < 0 || z(body) >= slot_of_pool_.size() || slot_of_pool_[z(body)].block < 0) return;
      BlockSolve& b = *blocks_[z(slot_of_pool_[z(body)].block)];
      const Block& block = b.dynamics->assembly().block;
      const int slot = slot_of_pool_[z(body)].slot, c = block.column[z(slot)];
      add(b.host, c, f);
      if (block.column[z(slot + 1)] - c == 6) add(b.host, c + 3, m);
    };
    side(row.m_solverBodyIdA, row.m_contactNormal1, row.m_relpos1CrossNormal, 0);
    side(row.m_solverBodyIdB, row.m_contactNormal2, row.m_relpos2CrossNormal, 1);
  };
  for (int i = 0; i < pools.joints.size(); ++i) {
    const auto known = record_of_.find(static_cast<btTypedConstraint*>(pools.joints[i].m_originalContactPoint));
    if (known == record_of_.end()) continue;
    Record& r = records_[z(known->second)];
    r.native_seen = true;
    r.native.on_a = r.native.on_b = Wrench{};
  }
  for (const btConstraintArray* rows : {&pools.contacts, &pools.friction, &pools.rolling})
    for (int i = 0; i < rows->size(); ++i) take((*rows)[i], nullptr);
  const btTypedConstraint* last = nullptr;
  int in_joint = 0, kept = 0;
  std::array<int, 24> own{};
  for (int i = 0; i < pools.joints.size(); ++i) {
    const btSolverConstraint& row = pools.joints[i];
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
      record->native.on_a.force += p * from_bullet(row.m_contactNormal1);
      record->native.on_a.moment += p * from_bullet(row.m_relpos1CrossNormal);
      record->native.on_b.force += p * from_bullet(row.m_contactNormal2);
      record->native.on_b.moment += p * from_bullet(row.m_relpos2CrossNormal);
    } else {
      take(row, options_.mode == Mode::observe && record && record->id.index >= 0 ? nullptr : record);
    }
    ++in_joint;
  }
}

bool Engine::after_iterations(Pools pools) {
  if (group_.empty()) {
    if (world_ && pools.joints.size() > 0) gather_native(pools);
    return true;
  }
  gather_native(pools);
  bool good = true;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || b.done) continue;
    if (!finish_block(b))
      good = false;
    else
      b.done = true;
  }
  if (!good)  // everything of this group is solved again: host impulses change
    for (const int index : group_) blocks_[z(index)]->done = false;
  return good;
}

bool Engine::finish_block(BlockSolve& b) {
  const linchpin::Solver& solver = b.dynamics->solver();
  const Block& block = b.dynamics->assembly().block;
  if (!finite(b.host)) {
    if (options_.mode == Mode::observe) {
      b.failed = true;
      return true;
    }
    std::fill(b.host.begin(), b.host.end(), 0.0);
    ++counts_.non_finite;
    trouble_ = "the native solver returned impulses that are not finite; they were left out";
  }
  // What the host did in this step belongs to the force that the reaction answers (T11).
  for (std::size_t j = 0; j < b.Q.size(); ++j) b.Q_host[j] = b.Q[j] + b.host[j] / dt_;
  if (b.dynamics->resolve(b.Q_host) == Status::invalid) {
    fail_block(b, b.dynamics->reason());
    return false;
  }
  keep_reactions(b);
  note_time_dependence(b);
  if (options_.mode == Mode::observe) return true;

  // A step that begins off its velocity constraints (a constraint just switched on, a body just thrown) gets them by an
  // impulse; how violent it was is reported (T14).
  double off = 0;
  for (const double x : b.dynamics->assembly().velocity) off = std::max(off, std::abs(x));
  if (off > 0 && options_.mode == Mode::exact) {
    for (int i = 0; i < block.m(); ++i) b.e[z(i)] = -b.dynamics->assembly().velocity[z(i)];
    solver.apply(b.e, {}, b.force, b.dv);
    double energy = 0;
    for (std::size_t j = 0; j < b.dv.size(); ++j) energy += 0.5 * b.force[j] * b.dv[j];
    counts_.activation_energy = std::max(counts_.activation_energy, energy);
  }

  // An initial gap, or one that the program made, is closed by moving, not by pushing (T12).
  double gap = 0;
  for (const double phi : b.dynamics->assembly().position) gap = std::max(gap, std::abs(phi));
  if (gap > options_.gap_tolerance && options_.drift_correction) {
    b.gap_left = close_gaps(system_, *b.dynamics, base_, options_.newton_tolerance, options_.max_newton, &b.moved);
    b.pushed = b.write_pose = true;
  }

  // A velocity belongs to the middle of a step: after a step of another length the applied forces act from the middle
  // of that one to the middle of this, or mechanisms that are often stepped in halves lose energy. Not where the host's
  // own rows have answered the full step's forces already.
  const double before = b.last_length > 0 && !b.native_rows ? b.last_length : dt_;
  for (std::size_t j = 0; j < b.applied.size(); ++j) b.applied[j] += 0.5 * (before - dt_) * b.Q[j];

  // v₁ from the records: start, applied, host, ideal + nonideal, then what Newton adds.
  for (std::size_t j = 0; j < b.v.size(); ++j)
    b.force[j] = b.applied[j] + b.host[j] + dt_ * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
  solver.inverse_mass(b.force, b.dv);
  for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] = b.v0[j] + b.dv[j];
  std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
  std::fill(b.force.begin(), b.force.end(), 0.0);
  bool good = finite(b.v);
  if (good && options_.drift_correction) {
    const NewtonReport newton = end_on_constraints(system_, *b.dynamics, base_, end_, dt_, b.v, b.lambda, b.force,
                                                   options_.newton_tolerance, options_.max_newton);
    b.newton += newton.solves;
    counts_.newton += newton.solves;
    good = newton.converged && finite(b.v);
    b.unmet = newton.least_squares && newton.residual * dt_ > options_.gap_tolerance;
  }
  for (int i = 0; i < block.m(); ++i)
    b.own_lambda[z(i)] = dt_ * (b.dynamics->lambda()[z(i)] + b.dynamics->induced()[z(i)]) + b.lambda[z(i)];
  if (good) {
    // ω of T15 from the force this step really applies, least-norm multipliers.
    for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = b.own_lambda[i] / dt_;
    b.swing = fastest_swing(system_, b.dynamics->assembly(), state_, b.e) * dt_;
    good = !(b.swing > options_.swing_limit);
  }
  // What the applied forces could give from rest in one step: below it a gain is rounding, or a start.
  solver.inverse_mass(b.Q, b.dv);
  b.gain_floor = 0;
  for (std::size_t j = 0; j < b.Q.size(); ++j) b.gain_floor += 0.5 * dt_ * dt_ * b.Q[j] * b.dv[j];
  if (good && options_.drift_correction && b.moved == 0 && !can_do_work(b)) {
    const double gain = work_of_constraints(*b.dynamics, dt_, b.force, b.v0, b.v);
    good = !(gain > b.gain_floor + allowed_gain * std::max(kinetic(system_, block, state_, b.v0),
                                                           kinetic(system_, block, state_, b.v)));
  }
  bool turning_fast = false;  // beyond π/4 per step Bullet's own integrator does not turn as it says
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot)
    if (block.column[slot + 1] - block.column[slot] == 6 && head(b.v, block.column[slot] + 3).norm() * dt_ > 0.78)
      turning_fast = true;
  if (!good && options_.drift_correction) {
    if (!substep_block(b, before)) {
      fail_block(b, "no substep as short as dt/" + std::to_string(options_.max_substeps) + " could be solved");
      return false;
    }
  } else {
    // The stabilisation part of each reaction is Newton's own record.
    for (std::size_t i = 0; i < b.ids.size(); ++i) {
      Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
      const auto bodies = system_.constraint(b.ids[i]).bodies();
      for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
        const Vector6 f = generalized_force(b.dynamics->assembly(), static_cast<int>(i), k, b.lambda) / dt_;
        const Vector3d at = r.ideal.on(k).point;
        r.stabilisation.on(k) = Wrench{f.head<3>(), f.tail<3>(), state_[bodies[z(k)]].p}.about(at);
      }
    }
    if (turning_fast) {
      b.write_pose = true;
      for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
        const int c = block.column[slot];
        BodyState& s = base_[block.bodies[slot]];
        const Vector3d v = head(b.v, c), w = block.column[slot + 1] - c == 6 ? head(b.v, c + 3) : Vector3d::Zero();
        advance(s, v, w, dt_);
        back_off(s.p, s.q, v, w, dt_);
      }
    }
  }
  return true;
}

// The step in halves, quarters, … inside Bullet's own step: forces and host impulses spread evenly; Bullet is then made
// to start from where its integrator will end at our end pose (T15).
bool Engine::substep_block(BlockSolve& b, double before) {
  const Block& block = b.dynamics->assembly().block;
  const std::size_t n = b.v.size();
  std::vector<double>& lambda = b.lambda;
  State start = base_, now = base_, next = base_;  // a rejected step is rare enough to allocate
  const State end_given = end_;
  std::vector<Vector6> own(block.bodies.size());
  std::vector<double> applied(n), host(n), v(n), momentum(n);
  b.kept = b.dynamics->assembly().instant;
  for (int parts = 2; parts <= options_.max_substeps; parts *= 2) {
    const double h = dt_ / parts;
    now = start;
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      now[block.bodies[slot]].v = head(b.v0, block.column[slot]);
      if (block.column[slot + 1] - block.column[slot] == 6)
        now[block.bodies[slot]].w = head(b.v0, block.column[slot] + 3);
    }
    std::fill(applied.begin(), applied.end(), 0.0);
    std::fill(momentum.begin(), momentum.end(), 0.0);
    std::fill(host.begin(), host.end(), 0.0);
    std::fill(b.own.begin(), b.own.end(), 0.0);
    for (std::size_t i = 0; i < b.ids.size(); ++i) {
      Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
      for (int k = 0; k < static_cast<int>(system_.constraint(b.ids[i]).bodies().size()); ++k)
        r.stabilisation.on(k) = Wrench{};
    }
    double swing = 0, gain = 0;
    const double limit = b.gain_floor + allowed_gain * kinetic(system_, block, state_, b.v0);
    const bool watch =
        b.moved == 0 && !can_do_work(b) && 2 * parts <= options_.max_substeps;  // the finest is taken as it is
    bool good = true;
    for (int part = 0; part < parts && good; ++part) {
      now.t = t_ + part * h;
      next = now;
      next.t = now.t + h;
      const double at = double(part + 1) / parts;
      for (std::size_t i = 0; i < b.ids.size(); ++i)
        for (const BodyId id : system_.constraint(b.ids[i]).bodies())
          if (system_.kind(id) == BodyKind::driven) {
            next[id] = start[id];
            advance(next[id], start[id].v, start[id].w, at * dt_);
          }
      for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {  // gyroscopic torque at the pose it belongs to
        const BodyId id = block.bodies[slot];
        const int c = block.column[slot];
        put(b.Q_host, c, head(b.Q, c) + head(b.host, c) / dt_);
        if (block.column[slot + 1] - c == 6)
          put(b.Q_host, c + 3,
              head(b.Q, c + 3) + head(b.host, c + 3) / dt_ - system_.gyroscopic_torque(id, state_[id]) +
                  system_.gyroscopic_torque(id, now[id]));
      }
      if (b.dynamics->evaluate(now, b.Q_host) == Status::invalid) {
        good = false;
        break;
      }
      const linchpin::Solver& solver = b.dynamics->solver();
      const Assembly& assembly = b.dynamics->assembly();
      const double w =
          part == 0 && !b.native_rows ? 0.5 * (before + h) : h;  // from middle to middle, as in finish_block
      for (std::size_t j = 0; j < n; ++j)
        b.force[j] = w * b.Q_host[j] + h * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
      solver.inverse_mass(b.force, b.dv);
      for (std::size_t j = 0; j < n; ++j) v[j] = assembly.v[j] + b.dv[j];
      std::fill(lambda.begin(), lambda.end(), 0.0);
      std::fill(b.force.begin(), b.force.end(), 0.0);
      if (!finite(v)) {
        good = false;
        break;
      }
      const NewtonReport newton = end_on_constraints(system_, *b.dynamics, now, next, h, v, lambda, b.force,
                                                     options_.newton_tolerance, options_.max_newton);
      b.newton += newton.solves;
      counts_.newton += newton.solves;
      good = newton.converged && finite(v);
      if (!good) break;
      for (std::size_t i = 0; i < b.e.size(); ++i)
        b.e[i] = b.dynamics->lambda()[i] + b.dynamics->induced()[i] + lambda[i] / h;
      const double omega = fastest_swing(system_, assembly, now, b.e) * h;
      swing = std::max(swing, omega);
      gain += work_of_constraints(*b.dynamics, h, b.force, assembly.v, v);
      good = !(omega > options_.swing_limit) &&
             !(watch && gain > std::max(limit, allowed_gain * kinetic(system_, block, now, v)));
      if (!good) break;
      b.unmet = newton.least_squares && newton.residual * dt_ > options_.gap_tolerance;
      // Records of this substep.
      for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
        const BodyId id = block.bodies[slot];
        const int c = block.column[slot];
        const Vector3d dv = head(v, c) - head(assembly.v, c);
        add(momentum, c, system_.mass(id) * dv);
        add(host, c, (w / dt_) * head(b.host, c));
        add(applied, c, w * head(b.Q, c));
        BodyState& s = next[id];
        s.v = head(v, c);
        if (block.column[slot + 1] - c == 6) {
          add(momentum, c + 3, system_.world_inertia(id, now[id].q) * (head(v, c + 3) - head(assembly.v, c + 3)));
          add(host, c + 3, (w / dt_) * head(b.host, c + 3));
          add(applied, c + 3,
              w * (head(b.Q, c + 3) - system_.gyroscopic_torque(id, state_[id]) +
                   system_.gyroscopic_torque(id, now[id])));
          s.w = head(v, c + 3);
        }
      }
      for (std::size_t i = 0; i < b.ids.size(); ++i) {
        Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
        const auto bodies = system_.constraint(b.ids[i]).bodies();
        for (std::size_t row = 0; row < b.e.size(); ++row)
          b.e[row] = h * (b.dynamics->lambda()[row] + b.dynamics->induced()[row]) + lambda[row];
        for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
          const Vector6 f = generalized_force(assembly, static_cast<int>(i), k, b.e);
          r.stabilisation.on(k).force += f.head<3>() / dt_;  // the sum so far; the reaction is taken off below
          r.stabilisation.on(k).moment += f.tail<3>() / dt_;
        }
      }
      for (std::size_t j = 0; j < n; ++j)
        b.own[j] += h * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]) + b.force[j];
      now = next;
    }
    if (!good) continue;
    // Accepted: end pose and velocity; Bullet starts where its own map leads there.
    b.substeps = parts;
    b.last_length = h;
    b.swing = swing;
    ++counts_.substepped;
    counts_.substeps += parts;
    b.v = v;
    b.applied = applied;
    b.host = host;
    b.Q_host = momentum;  // kept for the books
    b.write_pose = true;
    for (std::size_t i = 0; i < b.ids.size(); ++i) {
      Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
      const auto bodies = system_.constraint(b.ids[i]).bodies();
      for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
        const Vector3d p = r.ideal.on(k).point, com = state_[bodies[z(k)]].p;
        Wrench total{r.stabilisation.on(k).force, r.stabilisation.on(k).moment, com};
        total = total.about(p);
        r.stabilisation.on(k) = Wrench{total.force - r.ideal.on(k).force - r.induced.on(k).force,
                                       total.moment - r.ideal.on(k).moment - r.induced.on(k).moment, p};
      }
    }
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const BodyId id = block.bodies[slot];
      end_[id] = now[id];
      BodyState& s = base_[id];
      s = now[id];
      back_off(s.p, s.q, s.v, s.w, dt_);
    }
    return true;
  }
  base_ = start;
  end_ = end_given;
  return false;
}

void Engine::fail_block(BlockSolve& b, const std::string& why) {
  b.failed = true;
  ++counts_.fallbacks;
  trouble_ = why;
  for (const int index : b.records) {
    Record& r = records_[z(index)];
    r.why_native = why;
    ++r.fallbacks;
    if (r.reaction >= 0) reactions_[z(r.reaction)].native = true;
    if (r.native_part) std::erase(rest_, static_cast<btTypedConstraint*>(r.native_part.get()));
    if (r.joint) rest_.push_back(r.joint);
    for (auto& p : r.proxies) rest_.push_back(p.get());
  }
}

void Engine::drop_pool(Pools pools) {
  // Companion ids of animated bodies outlive a setup: they would index the next pool.
  for (int i = 0; i < pools.bodies.size(); ++i)
    if (pools.bodies[i].m_originalBody) pools.bodies[i].m_originalBody->setCompanionId(-1);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
