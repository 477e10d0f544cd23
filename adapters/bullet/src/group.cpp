// Before and during Bullet's native iterations. A group of islands is cut into blocks of bodies joined by exact
// constraints; the native rows of a block (contacts, limits, motors) start from velocities that meet its constraints,
// and after every native iteration the block is solved directly again: a block Gauss–Seidel. Split-impulse pushes are
// held likewise.
#include "engine.h"

#include "bodies.h"
#include "columns.h"

#include <numeric>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Engine::begin_step() {
  ++step_;
  if (!world_) return;
  scan_world();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Record& r = records_[i];
    if (!r.alive) continue;
    r.native_seen = false;
    if (r.joint) classify_record(static_cast<int>(i));
    r.why_native.clear();
    if (r.reaction >= 0 && r.id.index < 0) reactions_[z(r.reaction)].native = true;
  }
  group_.clear();
  books_.clear();
  book_of_.assign(body_of_.size(), -1);
}

// ---- a group: who is exact, who is native, which blocks
// ----------------------------------------------------------------

void Engine::begin_group(btCollisionObject**, int, btTypedConstraint** constraints, int count,
                         const btContactSolverInfo& info) {
  dt_ = double(info.m_timeStep);
  rest_.clear();
  group_.clear();
  exact_records_.clear();
  for (int i = 0; i < count; ++i) {
    btTypedConstraint* c = constraints[i];
    const auto known = world_ ? record_of_.find(c) : record_of_.end();
    if (known == record_of_.end()) {
      rest_.push_back(c);
      continue;
    }
    Record& r = records_[z(known->second)];
    const bool exact = r.alive && r.id.index >= 0 && c->isEnabled() && r.why_native.empty();
    const bool first_proxy = r.joint || (!r.proxies.empty() && r.proxies.front().get() == c);
    if (exact && first_proxy) exact_records_.push_back(known->second);
    if (!exact || options_.mode == Mode::observe) {
      rest_.push_back(c);
    } else if (r.native_part) {
      r.native_part->setBreakingImpulseThreshold(c->getBreakingImpulseThreshold());
      r.native_part->setOverrideNumSolverIterations(c->getOverrideNumSolverIterations());
      r.native_part->setEnabled(true);
      rest_.push_back(r.native_part.get());
    }
  }
  if (exact_records_.empty()) return;
  // Blocks: union–find over the movable bodies that exact constraints share.
  std::sort(exact_records_.begin(), exact_records_.end(),
            [&](int a, int b) { return records_[z(a)].id.index < records_[z(b)].id.index; });
  parent_.resize(exact_records_.size());
  std::iota(parent_.begin(), parent_.end(), 0);
  const auto root = [&](int i) {
    while (parent_[z(i)] != i) i = parent_[z(i)] = parent_[z(parent_[z(i)])];
    return i;
  };
  first_in_.assign(body_of_.size(), -1);
  for (int i = 0; i < static_cast<int>(exact_records_.size()); ++i)
    for (const BodyId id : system_.constraint(records_[z(exact_records_[z(i)])].id).bodies()) {
      if (system_.dof(id) == 0) continue;
      int& first = first_in_[z(id.index)];
      if (first < 0) first = i;
      const int a = root(first), b = root(i);
      parent_[z(std::max(a, b))] = std::min(a, b);
    }
  for (int i = 0; i < static_cast<int>(exact_records_.size()); ++i) {
    if (root(i) != i) continue;
    const ConstraintId key = records_[z(exact_records_[z(i)])].id;
    auto [at, fresh] = block_of_first_.try_emplace(key.index, static_cast<int>(blocks_.size()));
    if (fresh) blocks_.push_back(std::make_unique<BlockSolve>());
    BlockSolve& b = *blocks_[z(at->second)];
    // Same constraints as last time: keep the factor's memory and the structure.
    std::size_t n = 0;
    bool same = b.dynamics.has_value();
    for (int j = i; j < static_cast<int>(exact_records_.size()); ++j) {
      if (root(j) != i) continue;
      if (same && (n >= b.records.size() || b.records[n] != exact_records_[z(j)] ||
                   b.ids[n] != records_[z(exact_records_[z(j)])].id))
        same = false;
      ++n;
    }
    if (!same || n != b.records.size()) {
      b.records.clear();
      b.ids.clear();
      for (int j = i; j < static_cast<int>(exact_records_.size()); ++j)
        if (root(j) == i) {
          b.records.push_back(exact_records_[z(j)]);
          b.ids.push_back(records_[z(exact_records_[z(j)])].id);
        }
      SolveOptions solve;
      solve.rank_tolerance = options_.rank_tolerance;
      b.dynamics.emplace(system_, b.ids, solve);
      b.flags_rank = -1;
      b.last_length = 0;
      b.reactions.clear();
    }
    b.last_step = step_;
    b.failed = b.done = false;
    group_.push_back(at->second);
  }
}

void Engine::sync_body(BodyId id) {
  btRigidBody* body = body_of_[z(id.index)];
  if (!body) {
    base_[id] = end_[id] = state_[id];
    return;
  }
  BodyState s = read_state(*body);
  if (system_.kind(id) == BodyKind::driven) {
    // Bullet shows an animated body where it will be at the end of the step, with its mean velocity.
    end_[id] = s;
    if (last_known_[z(id.index)]) {
      s.a = (s.v - last_v_[z(id.index)]) / dt_;
      s.alpha = (s.w - last_w_[z(id.index)]) / dt_;
    }
    back_off(s.p, s.q, s.v, s.w, dt_);
  } else if (system_.dof(id) == 0) {
    s.v.setZero();
    s.w.setZero();
    end_[id] = s;
  } else {
    end_[id] = s;
  }
  state_[id] = base_[id] = s;
}

// ---- before the native iterations
// --------------------------------------------------------------------------------------

bool Engine::begin_block(BlockSolve& b, Pools pools) {
  state_.t = base_.t = t_;
  end_.t = t_ + dt_;
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t i = 0; i < b.ids.size(); ++i)
    for (const BodyId id : system_.constraint(b.ids[i]).bodies()) sync_body(id);
  const std::size_t n = z(block.n()), m = z(block.m());
  for (auto* x : {&b.v0, &b.v, &b.applied, &b.host, &b.own, &b.Q, &b.Q_host, &b.force, &b.dv}) x->assign(n, 0);
  for (auto* x : {&b.lambda, &b.e, &b.target, &b.own_lambda}) x->assign(m, 0);
  b.push.assign(block.bodies.size(), Vector6::Zero());
  b.bodies.resize(block.bodies.size());
  b.pool.assign(block.bodies.size(), -1);
  b.native_rows = b.pushed = b.write_pose = false;
  b.substeps = 1;
  b.kept.reset();
  b.moved = b.gap_left = 0;
  b.unmet = false;
  b.newton = 0;
  b.swing = 0;
  for (int slot = 0; slot < static_cast<int>(block.bodies.size()); ++slot) {
    const BodyId id = block.bodies[z(slot)];
    btRigidBody& body = *body_of_[z(id.index)];
    sync_mass(body, id);
    const int index = body.getCompanionId();
    if (index < 0 || index >= pools.bodies.size() || pools.bodies[index].m_originalBody != &body) {
      fail_block(b, "body '" + system_.name(id) + "' is constrained but not part of the island (not in the world?)");
      return false;
    }
    b.bodies[z(slot)] = &body;
    b.pool[z(slot)] = index;
    const btSolverBody& sb = pools.bodies[index];
    const int c = block.column[z(slot)], dof = block.column[z(slot + 1)] - c;
    state_[id].v = base_[id].v = from_bullet(sb.m_linearVelocity);
    state_[id].w = base_[id].w = from_bullet(sb.m_angularVelocity);
    put(b.v0, c, state_[id].v);
    const double mass = system_.mass(id);
    put(b.applied, c, mass * from_bullet(sb.m_externalForceImpulse));
    put(b.Q, c, from_bullet(body.getTotalForce()));
    if (dof == 6) {
      put(b.v0, c + 3, state_[id].w);
      put(b.applied, c + 3, system_.world_inertia(id, state_[id].q) * from_bullet(sb.m_externalTorqueImpulse));
      Vector3d torque = from_bullet(body.getTotalTorque());
      constexpr int gyro = BT_ENABLE_GYROSCOPIC_FORCE_EXPLICIT | BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_WORLD |
                           BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY;
      if (body.getFlags() & gyro) torque += system_.gyroscopic_torque(id, state_[id]);
      put(b.Q, c + 3, torque);
    }
  }
  if (b.dynamics->evaluate(state_, b.Q) == Status::invalid) {
    fail_block(b, b.dynamics->reason());
    return false;
  }
  ++counts_.solves;
  return true;
}

bool Engine::after_setup(Pools pools) {
  slot_of_pool_.assign(z(pools.bodies.size()), Slot{});
  bool good = true;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed) continue;
    if (!begin_block(b, pools)) {
      good = false;
      continue;
    }
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot)
      slot_of_pool_[z(b.pool[slot])] = {index, static_cast<int>(slot)};
  }
  if (!good) return false;
  if (options_.mode == Mode::observe) return true;
  const auto touch = [&](const btConstraintArray& rows) {
    for (int i = 0; i < rows.size(); ++i)
      for (const int body : {rows[i].m_solverBodyIdA, rows[i].m_solverBodyIdB})
        if (body >= 0 && z(body) < slot_of_pool_.size() && slot_of_pool_[z(body)].block >= 0)
          blocks_[z(slot_of_pool_[z(body)].block)]->native_rows = true;
  };
  touch(pools.contacts);
  touch(pools.joints);
  gather_native(pools);
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows) continue;
    // Native rows start from velocities that meet the block's constraints at the step's end. The impulses that Bullet
    // has warm-started its contacts with are part of them: rows remember these, so velocities must.
    const linchpin::Solver& solver = b.dynamics->solver();
    const Block& block = b.dynamics->assembly().block;
    for (std::size_t j = 0; j < b.Q.size(); ++j) b.Q_host[j] = b.Q[j] + b.host[j] / dt_;
    if (b.dynamics->resolve(b.Q_host) == Status::invalid) {
      fail_block(b, b.dynamics->reason());
      good = false;
      continue;
    }
    for (std::size_t j = 0; j < b.v.size(); ++j)
      b.force[j] = b.applied[j] + b.host[j] + dt_ * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
    solver.inverse_mass(b.force, b.dv);
    for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] = b.v0[j] + b.dv[j];
    if (options_.drift_correction) {
      const NewtonReport newton = end_on_constraints(system_, *b.dynamics, base_, end_, dt_, b.v, b.lambda, b.force,
                                                     options_.newton_tolerance * 1e3, 4);
      b.newton += newton.solves;
    }
    if (!finite(b.v)) {
      fail_block(b, "the step's velocities are not finite");
      good = false;
      continue;
    }
    velocity_of_rows(b, b.v, b.target);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      btSolverBody& sb = pools.bodies[b.pool[slot]];
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      sb.internalGetDeltaLinearVelocity() = to_bullet(head(b.v, c)) - sb.m_linearVelocity - sb.m_externalForceImpulse;
      if (dof == 6)
        sb.internalGetDeltaAngularVelocity() =
            to_bullet(head(b.v, c + 3)) - sb.m_angularVelocity - sb.m_externalTorqueImpulse;
    }
  }
  return good;
}

void Engine::velocity_of_rows(const BlockSolve& b, std::span<const double> v, std::span<double> out) const {
  const Instant& x = b.dynamics->assembly().instant;
  for (int i = 0; i < x.m(); ++i) {
    double sum = 0;
    for (int k = x.row_start[z(i)]; k < x.row_start[z(i + 1)]; ++k)
      sum += x.entries[z(k)].value * v[z(x.entries[z(k)].column)];
    out[z(i)] = sum;
  }
}

void Engine::after_push(Pools pools) {
  if (options_.mode == Mode::observe) return;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows) continue;
    const Block& block = b.dynamics->assembly().block;
    const btScalar erp = world_->getSolverInfo().m_splitImpulseTurnErp;
    bool pushed = false;
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const btSolverBody& sb = pools.bodies[b.pool[slot]];
      const Vector3d u = from_bullet(sb.m_pushVelocity), w = from_bullet(sb.m_turnVelocity * erp);
      b.push[slot] << u, w;
      pushed = pushed || !b.push[slot].isZero();
    }
    if (!pushed) continue;
    // The push that keeps the block together, nearest to Bullet's in the mass metric.
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      put(b.dv, c, b.push[slot].head<3>());
      if (dof == 6) put(b.dv, c + 3, b.push[slot].tail<3>());
    }
    velocity_of_rows(b, b.dv, b.e);
    for (int i = 0; i < block.m(); ++i) b.e[z(i)] = -b.e[z(i)];
    for (std::size_t i = 0; i < b.ids.size(); ++i)  // only conditions on poses hold a push
      if (system_.constraint(b.ids[i]).function().level() != Level::position)
        for (int r = block.row[i]; r < block.row[i + 1]; ++r) b.e[z(r)] = 0;
    b.dynamics->solver().apply(b.e, {}, {}, b.dv);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      b.push[slot].head<3>() += head(b.dv, c);
      if (dof == 6) b.push[slot].tail<3>() += head(b.dv, c + 3);
      BodyState& s = base_[block.bodies[slot]];
      advance(s, b.push[slot].head<3>(), b.push[slot].tail<3>(), dt_);
    }
    b.pushed = b.write_pose = true;
  }
}

void Engine::after_iteration(Pools pools) {
  if (options_.mode == Mode::observe) return;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows) continue;
    const Block& block = b.dynamics->assembly().block;
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const btSolverBody& sb = pools.bodies[b.pool[slot]];
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      put(b.v, c,
          from_bullet(sb.m_linearVelocity) + from_bullet(sb.m_externalForceImpulse) +
              from_bullet(sb.m_deltaLinearVelocity));
      if (dof == 6)
        put(b.v, c + 3,
            from_bullet(sb.m_angularVelocity) + from_bullet(sb.m_externalTorqueImpulse) +
                from_bullet(sb.m_deltaAngularVelocity));
    }
    velocity_of_rows(b, b.v, b.e);
    for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = b.target[i] - b.e[i];
    b.dynamics->solver().apply(b.e, {}, {}, b.dv);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      btSolverBody& sb = pools.bodies[b.pool[slot]];
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      sb.internalGetDeltaLinearVelocity() += to_bullet(head(b.dv, c));
      if (dof == 6) sb.internalGetDeltaAngularVelocity() += to_bullet(head(b.dv, c + 3));
    }
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
