// One step inside Bullet's. Each group of islands is cut into blocks of bodies joined by exact constraints. The native
// rows of a block (contacts, limits, motors) are solved by Bullet on velocities that meet the block's constraints: a
// block Gauss–Seidel in which the exact block is solved directly after every native iteration. At the end the host's
// impulses are read from its own rows, the reactions follow from them (T11), and Newton on the host's own map ends the
// step on the constraints (T12).
#include "engine.h"

#include "bodies.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

std::size_t z(int i) { return static_cast<std::size_t>(i); }

bool finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double a) { return std::isfinite(a); });
}

Vector3d head(std::span<const double> x, int column) { return {x[z(column)], x[z(column + 1)], x[z(column + 2)]}; }
void put(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] = u[i];
}
void add(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] += u[i];
}

}  // namespace

Vector6 generalized_force(const Assembly& assembly, int i, int k, std::span<const double> lambda) {
  Vector6 f = Vector6::Zero();
  const auto J = assembly.jacobian(i, k);
  const int first = assembly.block.row[z(i)], count = assembly.block.row[z(i + 1)] - first;
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < 6; ++c) f[c] += J[z(6 * r + c)] * lambda[z(first + r)];
  return f;
}

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

// ---- after the native iterations
// ---------------------------------------------------------------------------------------

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
    double moved = 0;
    close_gaps(system_, *b.dynamics, base_, options_.newton_tolerance, options_.max_newton, &moved);
    ++counts_.gap_corrections;
    counts_.corrected = std::max(counts_.corrected, moved);
    b.pushed = b.write_pose = true;
  }

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
  }
  for (int i = 0; i < block.m(); ++i)
    b.own_lambda[z(i)] = dt_ * (b.dynamics->lambda()[z(i)] + b.dynamics->induced()[z(i)]) + b.lambda[z(i)];
  if (good) {
    // ω of T15 from the force this step really applies, least-norm multipliers.
    for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = b.own_lambda[i] / dt_;
    b.swing = fastest_swing(system_, b.dynamics->assembly(), state_, b.e) * dt_;
    good = !(b.swing > options_.swing_limit);
  }
  bool turning_fast = false;  // beyond π/4 per step Bullet's own integrator does not turn as it says
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot)
    if (block.column[slot + 1] - block.column[slot] == 6 && head(b.v, block.column[slot] + 3).norm() * dt_ > 0.78)
      turning_fast = true;
  if (!good && options_.drift_correction) {
    if (!substep_block(b)) {
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
bool Engine::substep_block(BlockSolve& b) {
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
    double swing = 0;
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
      for (std::size_t j = 0; j < n; ++j)
        b.force[j] = h * (b.Q_host[j] + b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
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
      good = !(omega > options_.swing_limit);
      if (!good) break;
      // Records of this substep.
      for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
        const BodyId id = block.bodies[slot];
        const int c = block.column[slot];
        const Vector3d dv = head(v, c) - head(assembly.v, c);
        add(momentum, c, system_.mass(id) * dv);
        add(host, c, head(b.host, c) / parts);
        add(applied, c, h * head(b.Q, c));
        BodyState& s = next[id];
        s.v = head(v, c);
        if (block.column[slot + 1] - c == 6) {
          add(momentum, c + 3, system_.world_inertia(id, now[id].q) * (head(v, c + 3) - head(assembly.v, c + 3)));
          add(host, c + 3, head(b.host, c + 3) / parts);
          add(applied, c + 3,
              h * (head(b.Q, c + 3) - system_.gyroscopic_torque(id, state_[id]) +
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

// ---- writing back
// ------------------------------------------------------------------------------------------------------

void Engine::after_finish() {
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (options_.mode == Mode::observe) continue;
    if (b.failed) {
      refuse_non_finite(b);
      continue;
    }
    keep_books(b);
    give_back(b);
    break_joints(b);
  }
  for (const auto& [pointer, index] : record_of_) {  // a limit row that broke breaks its joint
    Record& r = records_[z(index)];
    if (r.native_part && r.joint && pointer == r.native_part.get() && !r.native_part->isEnabled() &&
        r.joint->isEnabled()) {
      r.joint->setEnabled(false);
      r.broken = true;
    }
  }
  group_.clear();
}

// The native solver has no such check: a body that it made non-finite stays where and as fast as it was.
void Engine::refuse_non_finite(BlockSolve& b) {
  for (const ConstraintId c : b.ids)
    for (const BodyId id : system_.constraint(c).bodies()) {
      btRigidBody* body = body_of_[z(id.index)];
      if (!body || system_.dof(id) == 0) continue;
      const BodyState now = read_state(*body);
      if (now.v.allFinite() && now.w.allFinite() && now.p.allFinite() && now.q.coeffs().allFinite()) continue;
      ++counts_.non_finite;
      body->setLinearVelocity(to_bullet(state_[id].v));
      body->setAngularVelocity(to_bullet(state_[id].w));
      write_pose(body->getWorldTransform(), state_[id].p, state_[id].q);
    }
}

void Engine::give_back(BlockSolve& b) {
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    btRigidBody& body = *b.bodies[slot];
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    const Vector3d v = head(b.v, c), w = dof == 6 ? head(b.v, c + 3) : from_bullet(body.getAngularVelocity());
    if (!v.allFinite() || !w.allFinite()) {
      ++counts_.non_finite;
      continue;  // the body keeps what the native solver gave it
    }
    body.setLinearVelocity(to_bullet(v));
    if (dof == 6) body.setAngularVelocity(to_bullet(w));
    if (b.write_pose) write_pose(body.getWorldTransform(), base_[id].p, base_[id].q);
    BodyBooks& books = books_[z(book_of_[z(id.index)])];
    books.rounding.head<3>() = system_.mass(id) * (from_bullet(body.getLinearVelocity()) - v);
    if (dof == 6)
      books.rounding.tail<3>() = system_.world_inertia(id, state_[id].q) * (from_bullet(body.getAngularVelocity()) - w);
  }
}

void Engine::break_joints(BlockSolve& b) {
  bool any = false;
  for (const int index : b.records)
    any = any || (records_[z(index)].joint && records_[z(index)].joint->getBreakingImpulseThreshold() < SIMD_INFINITY);
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (!r.joint) continue;
    const Reaction& reaction = reactions_[z(r.reaction)];
    // Bullet's own reports: feedback as forces and torques about the centres of mass, native rows included; applied
    // impulse as the norm of the force's impulse, not as the last row's.
    const auto total = [&](int k) {
      const Vector3d com = state_[system_.constraint(r.id).bodies()[z(k)]].p;
      Wrench w = reaction.on(k).about(com);
      if (r.native_seen) {
        w.force += r.native.on(k).force;
        w.moment += r.native.on(k).moment;
      }
      return w;
    };
    const Wrench on_a = total(0), on_b = total(1);
    if (btJointFeedback* fb = r.joint->getJointFeedback()) {
      fb->m_appliedForceBodyA = to_bullet(on_a.force);
      fb->m_appliedTorqueBodyA = to_bullet(on_a.moment);
      fb->m_appliedForceBodyB = to_bullet(on_b.force);
      fb->m_appliedTorqueBodyB = to_bullet(on_b.moment);
    }
    r.joint->internalSetAppliedImpulse(btScalar(on_a.force.norm() * dt_));
  }
  if (!any || b.substeps > 1) return;  // after substeps the factor is another pose's: breaking waits for the next step
  // Least-norm multipliers of the whole impulse: λ = G⁺A M⁻¹(AᵀL); Newton's raw sum carries null-space noise (T12).
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t j = 0; j < b.force.size(); ++j)
    b.force[j] +=
        dt_ * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]) - dt_ * b.dynamics->assembly().instant.c[j];
  b.dynamics->solver().inverse_mass(b.force, b.dv);
  velocity_of_rows(b, b.dv, b.e);
  b.dynamics->solver().apply(b.e, b.lambda, {}, {});
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (!r.joint) continue;
    const double threshold = double(r.joint->getBreakingImpulseThreshold());
    if (threshold >= double(SIMD_INFINITY)) continue;
    double worst = 0;
    int row = block.row[i];
    for (std::size_t k = 0; k < r.shape.rows.points.size(); ++k, row += 3) {
      Vector3d p(b.lambda[z(row)], b.lambda[z(row + 1)], b.lambda[z(row + 2)]);
      if (!r.shape.row_axes_world)
        p = r.shape.row_axes_A.transpose() * (state_[system_.constraint(r.id).bodies()[0]].q.conjugate() * p);
      worst = std::max(worst, p.cwiseAbs().maxCoeff());
    }
    for (; row < block.row[i + 1]; ++row) worst = std::max(worst, std::abs(b.lambda[z(row)]));
    if (worst >= threshold) {  // per row, as Bullet
      r.joint->setEnabled(false);
      r.broken = true;
    }
  }
}

// ---- books
// -------------------------------------------------------------------------------------------------------------

void Engine::keep_reactions(BlockSolve& b) {
  b.dynamics->reactions(state_, b.reactions, false);  // rank is asked for when somebody reads it
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    Reaction& to = reactions_[z(r.reaction)];
    Reaction& from = b.reactions[i];
    const double work = to.work;
    const bool determined = to.determined, redundant = to.redundant;
    const double gap = to.gap, angle = to.gap_angle, residual = to.residual;
    to.t = from.t;
    to.on_a = from.on_a;
    to.on_b = from.on_b;
    to.others = from.others;
    to.ideal = from.ideal;
    to.prescribed = from.prescribed;
    to.induced = from.induced;
    to.stabilisation = from.stabilisation;
    to.lambda = from.lambda;
    to.power = from.power;
    to.velocity_residual = from.velocity_residual;
    to.work = work;
    to.determined = determined;
    to.redundant = redundant;
    to.gap = gap;
    to.gap_angle = angle;
    to.residual = residual;
    to.native = options_.mode == Mode::observe;
  }
}

void Engine::note_time_dependence(BlockSolve& b) {
  const Assembly& a = b.dynamics->assembly();
  velocity_of_rows(b, a.v, b.e);
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (r.joint) continue;
    double own = 0, size = 0;  // φ_t, and what the bodies contribute
    for (int row = a.block.row[i]; row < a.block.row[i + 1]; ++row) {
      own = std::max(own, std::abs(a.velocity[z(row)] - b.e[z(row)]));
      size = std::max({size, std::abs(a.velocity[z(row)]), std::abs(b.e[z(row)])});
    }
    r.moves_by_itself = own > 1e-9 * size && own > 0;
    r.time_dependent = r.time_dependent || r.moves_by_itself;
  }
}

// A constraint that moves with time moves its bodies: they must not fall asleep, and must wake when it starts again.
void Engine::keep_awake() {
  for (Record& r : records_) {
    if (!r.alive || !r.time_dependent || !r.enabled || r.id.index < 0) continue;
    bool wake = r.moves_by_itself;
    if (!wake) {
      for (const btRigidBody* body : r.bodies) wake = wake || (!body->isStaticOrKinematicObject() && !body->isActive());
      if (!wake) continue;
      std::vector<double> A, b, position, velocity;  // only while its bodies sleep
      linearize(r, A, b, position, velocity);
      wake = false;
      for (const auto* residual : {&position, &velocity})
        for (const double x : *residual) wake = wake || std::abs(x) > options_.gap_tolerance;
    }
    if (!wake) continue;
    for (btRigidBody* body : r.bodies)
      if (!body->isStaticOrKinematicObject()) body->activate();
  }
}

void Engine::keep_books(BlockSolve& b) {
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    book_of_[z(id.index)] = static_cast<int>(books_.size());
    BodyBooks* at = &books_.emplace_back();
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    at->body = id;
    at->applied.head<3>() = head(b.applied, c);
    at->host.head<3>() = head(b.host, c);
    if (b.substeps > 1)
      at->momentum.head<3>() = head(b.Q_host, c);
    else
      at->momentum.head<3>() = system_.mass(id) * (head(b.v, c) - head(b.v0, c));
    if (dof == 6) {
      at->applied.tail<3>() = head(b.applied, c + 3);
      at->host.tail<3>() = head(b.host, c + 3);
      if (b.substeps > 1)
        at->momentum.tail<3>() = head(b.Q_host, c + 3);
      else
        at->momentum.tail<3>() = system_.world_inertia(id, state_[id].q) * (head(b.v, c + 3) - head(b.v0, c + 3));
    }
  }
  // Own impulses, from what the reactions say, moved to the centres of mass; and their work with the mean velocity
  // (T11).
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
    const auto bodies = system_.constraint(b.ids[i]).bodies();
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const BodyId id = bodies[z(k)];
      const Vector3d com = state_[id].p;
      Vector6 impulse = Vector6::Zero();
      for (const Wrenches* part : {&r.ideal, &r.prescribed, &r.induced, &r.stabilisation}) {
        const Wrench w = part->on(k).about(com);
        impulse.head<3>() += dt_ * w.force;
        impulse.tail<3>() += dt_ * w.moment;
      }
      const int slot = block.body_slot[z(id.index)];
      Vector3d v = state_[id].v, w = state_[id].w;
      if (slot >= 0) {
        const int c = block.column[z(slot)];
        v = 0.5 * (v + head(b.v, c));
        if (block.column[z(slot + 1)] - c == 6) w = 0.5 * (w + head(b.v, c + 3));
        BodyBooks& books = books_[z(book_of_[z(id.index)])];
        books.own.head<3>() += impulse.head<3>();
        books.gross_force = std::max(books.gross_force, impulse.head<3>().norm());
        books.gross_moment = std::max(books.gross_moment, impulse.tail<3>().norm());
        if (block.column[z(slot + 1)] - c == 6) books.own.tail<3>() += impulse.tail<3>();
      }
      r.work += impulse.head<3>().dot(v) + impulse.tail<3>().dot(w);
    }
  }
  for (const BodyId id : block.bodies)
    counts_.imbalance = std::max(counts_.imbalance, books_[z(book_of_[z(id.index)])].imbalance());
}

// ---- after the host has integrated
// -------------------------------------------------------------------------------------

void Engine::updateAction(btCollisionWorld*, btScalar dt) {
  t_ += double(dt);
  ++counts_.steps;
  last_gap_ = 0;
  std::array<double, 64> small;
  std::vector<double> large;
  std::array<BodyState, 8> X8;
  std::vector<BodyState> many;
  for (Record& r : records_) {
    if (!r.alive || r.id.index < 0 || r.reaction < 0) continue;
    const Constraint& c = system_.constraint(r.id);
    Reaction& reaction = reactions_[z(r.reaction)];
    if (r.joint ? !r.joint->isEnabled() : !r.enabled) continue;
    if (c.function().level() != Level::position) continue;
    const std::size_t K = c.bodies().size(), m = z(c.function().rows());
    std::span<BodyState> X = std::span(X8).first(std::min(K, X8.size()));
    if (K > X8.size()) {
      many.resize(K);
      X = many;
    }
    std::span<double> phi = std::span(small).first(std::min(m, small.size()));
    if (m > small.size()) {
      large.resize(m);
      phi = large;
    }
    for (std::size_t k = 0; k < K; ++k) X[k] = r.bodies[k] ? read_state(*r.bodies[k]) : BodyState{};
    c.function().residual(X, t_, phi);
    reaction.gap = reaction.gap_angle = reaction.residual = 0;
    for (std::size_t i = 0; i < m; ++i) {
      const RowUnit unit = c.function().unit(static_cast<int>(i));
      double& to = unit == RowUnit::metre    ? reaction.gap
                   : unit == RowUnit::radian ? reaction.gap_angle
                                             : reaction.residual;
      to = std::max(to, std::abs(phi[i]));
    }
    const auto points = r.shape.rows.points.size();
    if (r.joint && points == 1) reaction.gap = std::sqrt(phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2]);
    last_gap_ = std::max(last_gap_, reaction.gap);
    max_angle_ = std::max(max_angle_, reaction.gap_angle);
  }
  max_gap_ = std::max(max_gap_, last_gap_);
  for (auto& b : blocks_)
    if (b->last_step == step_ && !b->failed) {
      for (const ConstraintId id : b->ids) {
        Constraint& c = system_.constraint(id);
        const std::size_t K = c.bodies().size();
        std::span<BodyState> X = std::span(X8).first(std::min(K, X8.size()));
        if (K > X8.size()) {
          many.resize(K);
          X = many;
        }
        for (std::size_t k = 0; k < K; ++k)
          X[k] = body_of_[z(c.bodies()[k].index)] ? read_state(*body_of_[z(c.bodies()[k].index)]) : BodyState{};
        c.function().accept(X, t_);
      }
    }
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i] && body_of_[i]->isKinematicObject()) {
      last_v_[i] = from_bullet(body_of_[i]->getLinearVelocity());
      last_w_[i] = from_bullet(body_of_[i]->getAngularVelocity());
      last_known_[i] = 1;
    }
  keep_awake();
  if (options_.shadow || options_.mode == Mode::observe) compare_with_native();
  if (callback_) callback_(Step{t_, double(dt), owner_});
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
