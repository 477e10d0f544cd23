// What native rows do in a step that is taken in parts (T15): a blow at its start, the rest as long as forces act. Rows
// were solved once, for a step as one; in its parts a light body turns away from under what they were solved for, and
// they would drive it on. Limits and contacts can give a mechanism nothing: in a part in which they would, those that
// do are let go, and what they have not done is left to the parts after it.
#include "engine.h"

#include "columns.h"
#include "energy_watch.h"
#include "host_rows.h"

#include <functional>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
double speed(const Vector6& J, const Vector3d& v, const Vector3d& w) { return J.head<3>().dot(v) + J.tail<3>().dot(w); }
bool within(const btSolverConstraint& row, const btConstraintArray& rows) {
  return rows.size() > 0 && !std::less<>()(&row, &rows[0]) && std::less<>()(&row, &rows[0] + rows.size());
}
/// Whether what a row does can only be passive: of joints limits and locks; of contacts all, but those of a surface
/// that moves by itself.
bool is_passive(const btSolverConstraint& row, Pools pools, const Engine& engine) {
  if (within(row, pools.joints)) return is_limit(row) || is_lock(row, engine);
  if (within(row, pools.contacts)) return true;
  const auto& point = *static_cast<const btManifoldPoint*>(pools.contacts[row.m_frictionIndex].m_originalContactPoint);
  return point.m_contactMotion1 == 0 && point.m_contactMotion2 == 0;
}
}  // namespace

// Notes the work that a row was solved to do on each block [J]. It is the impulse times the mean of the velocities
// before and after the host's iterations (T11). A passive row has no more of it than it needs to bring its bodies to
// the velocity that it asks for, for example to push out an overlap. What iterations left beyond that has no source.
void Engine::note_work(const btSolverConstraint& row, Pools pools) {
  const double p = double(row.m_appliedImpulse);
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  const std::array<int, 2> of{slot_of(body[0]).block, slot_of(body[1]).block};
  std::array<double, 2> work{};
  double start = 0;
  bool moves = false;  // another block, a free body or one that the program moves
  for (std::size_t k = 0; k < 2; ++k) {
    const btSolverBody& sb = pools.bodies[body[k]];
    if (of[k] < 0) {
      moves = moves || (sb.m_originalBody && !sb.m_originalBody->isStaticObject());
      continue;
    }
    const btVector3 &n = k == 0 ? row.m_contactNormal1 : row.m_contactNormal2,
                    &rn = k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal;
    const double before = velocity_of(n, rn, sb.m_linearVelocity, sb.m_angularVelocity);
    start += before;
    work[k] = p * (before + 0.5 * change_of(n, rn, sb));
  }
  const double sum = work[0] + work[1];
  if (of[0] == of[1]) {
    work[1] = 0;
    work[0] = sum;
  } else {
    moves = moves || (of[0] >= 0 && of[1] >= 0);
  }
  if (!moves && is_passive(row, pools, *this) && row.m_jacDiagABInv > 0) {
    BlockSolve& b = *blocks_[z(std::max(of[0], of[1]))];
    const double target =
        double(row.m_rhs) / double(row.m_jacDiagABInv) + speed_at_start(row, pools, 0) + speed_at_start(row, pools, 1);
    const bool limit = within(row, pools.joints);
    const double as_one = 0.5 * b.mass * target * target,
                 asked = std::min(0.5 * std::max(0.0, p * target), limit ? b.may_give[HeldRow::limit] : as_one);
    b.passive.work += std::min(sum, 0.5 * p * start + asked);
    (limit ? b.passive.limits_ask : b.passive.contacts_ask) += 2 * asked;
    if (!limit) b.passive.contacts_most = std::max(b.passive.contacts_most, as_one);
    b.on_ground = b.on_ground || of[0] != of[1];
    return;
  }
  for (std::size_t k = 0; k < 2; ++k) {
    if (of[k] < 0 || (k == 1 && of[0] == of[1])) continue;
    BlockSolve& b = *blocks_[z(of[k])];
    b.solved_work += work[k];
    b.on_ground = b.on_ground || (!moves && of[0] != of[1]);
  }
}

/// What all passive rows of a block were solved to do, as far as it has a source [J]. Impulses p that bring velocities
/// J v, to which forces add J x, to those that rows ask for do the work ½ pᵀ(J v + target). Solved to the end they have
/// pᵀ J v ≤ pᵀ target − pᵀ J x, so that the work is no more than pᵀ target − ½ pᵀ J x. The last term is at most what
/// the energies of x and of the motion allow together.
double Engine::passive_work(const BlockSolve& b) const {
  const PassiveWork& passive = b.passive;
  if (!(passive.work > 0)) return passive.work;
  const double asked =
      std::min(passive.contacts_ask, passive.contacts_most) + std::min(passive.limits_ask, b.may_give[HeldRow::limit]);
  return std::min(passive.work, asked + 2 * std::sqrt(gain_floor(b) * (energy_at_start(b) + asked)));
}

// One that pushes at another block, at a free body or at one that the program moves gives what it takes there, and what
// it does not do here it has done there all the same: it may give what it was solved for and all there is once more.
/// @return whether it is one that can be let go
bool Engine::keep_row(btSolverConstraint& row, double blow, Wrenches* native, Pools pools) {
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  if (!is_passive(row, pools, *this)) {
    // Where a motor acts, contacts do what they were solved for: what they give may be its.
    for (std::size_t k = 0; within(row, pools.joints) && k < 2; ++k)
      if (const int of = slot_of(body[k]).block; of >= 0) {
        BlockSolve& b = *blocks_[z(of)];
        std::erase_if(b.held_rows, [&](const HeldRow& held) {
          if (within(*held.row, pools.joints)) return false;
          add_row(b, held, held.blow, b.at_once);
          add_row(b, held, held.impulse - held.blow, b.spread);
          return true;
        });
      }
    return false;
  }
  const std::array<Slot, 2> at{slot_of(body[0]), slot_of(body[1])};
  bool both = false;  // sides that move, of other blocks than each other's
  for (std::size_t k = 0; k < 2; ++k) {
    const btSolverBody& sb = pools.bodies[body[k]];
    if (at[k].block < 0 && sb.m_originalBody && !sb.m_originalBody->isStaticObject()) both = true;
    if (at[k].block < 0) continue;
    const std::vector<int>& column = blocks_[z(at[k].block)]->block.column;
    if (column[z(at[k].slot + 1)] - column[z(at[k].slot)] != 6) return false;
  }
  both = both || (at[0].block >= 0 && at[1].block >= 0 && at[0].block != at[1].block);
  if (both && native) return false;
  HeldRow out{};
  out.row = &row;
  out.kind = both ? HeldRow::shared : within(row, pools.joints) ? HeldRow::limit : HeldRow::contact;
  out.native = native;
  out.blow = blow;
  out.impulse = double(row.m_appliedImpulse);
  out.slot = {-1, -1};
  int block = -1;
  for (std::size_t k = 0; k < 2; ++k) {
    if (at[k].block < 0) continue;
    block = at[k].block;
    out.slot[k] = at[k].slot;
    out.J[k] << from_bullet(k == 0 ? row.m_contactNormal1 : row.m_contactNormal2),
        from_bullet(k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal);
    if (!both) continue;
    const btSolverBody& sb = pools.bodies[body[k]];
    const double start = speed_at_start(row, pools, static_cast<int>(k)),
                 change =
                     speed(out.J[k], from_bullet(sb.m_deltaLinearVelocity), from_bullet(sb.m_deltaAngularVelocity));
    BlockSolve& b = *blocks_[z(block)];
    b.takes += std::max(0.0, out.impulse * (start + 0.5 * change));
    b.held_rows.push_back(out);
    out.slot[k] = -1;
  }
  if (!both) blocks_[z(block)]->held_rows.push_back(out);
  return true;
}

void Engine::add_row(const BlockSolve& b, const HeldRow& row, double impulse, std::span<double> to) {
  for (std::size_t k = 0; k < 2; ++k) {
    if (row.slot[k] < 0) continue;
    const int c = b.block.column[z(row.slot[k])];
    add(to, c, impulse * row.J[k].head<3>());
    add(to, c + 3, impulse * row.J[k].tail<3>());
  }
}

void Engine::begin_host_parts(BlockSolve& b) {
  if (!b.held_rows.empty() && !b.held_rows[0].row) b.host.swap(b.sub_host);  // once more, for its records
  for (auto* x : {&b.part_held, &b.part_blow, &b.sub_host}) x->assign(b.host.size(), 0);
  for (HeldRow& row : b.held_rows) {
    row.let_go = row.dropped = false;
    row.strikes = row.blow;
    row.left = row.impulse - row.blow;
  }
  // Contacts as much as constraints: what a part does not have of them lies deeper by the next step.
  if (b.held_rows.empty()) return;
  b.may_give[HeldRow::contact] = may_gain(b);
  b.may_give[HeldRow::limit] = limits_may_give(b);
  b.may_give[HeldRow::shared] = gain_floor(b) + energy_at_start(b) + b.takes;
}

// What of the step a part has of the host's impulses, from `done` on.
void Engine::set_host_part(BlockSolve& b, const State& now, double done, double length) {
  const bool starts = done == 0;
  for (std::size_t j = 0; j < b.part_held.size(); ++j) {
    b.part_held[j] = b.spread[j] / dt_;
    b.part_blow[j] = starts ? b.at_once[j] : 0;
  }
  for (HeldRow& row : b.held_rows) {
    row.before = 0;
    for (std::size_t k = 0; k < 2; ++k)
      if (row.slot[k] >= 0) {
        const BodyState& s = now[b.block.bodies[z(row.slot[k])]];
        row.before += speed(row.J[k], s.v, s.w);
      }
    row.now = row.let_go || row.dropped ? 0 : row.left * std::min(1.0, length / (dt_ - done));
    if (row.now != 0) add_row(b, row, row.now / length, b.part_held);
    if (starts && row.strikes != 0) add_row(b, row, row.strikes, b.part_blow);
  }
}

// Of a part that might stand and ends with the velocities v. Work is that of impulses over the mean velocity (T11).
/// @return whether rows were let go of which it is to be taken once more
bool Engine::let_rows_go(BlockSolve& b, std::span<const double> v, bool starts) {
  std::array<double, HeldRow::kinds> work{};
  for (HeldRow& row : b.held_rows) {
    const double impulse = row.now + (starts ? row.strikes : 0);
    double after = 0;
    for (std::size_t k = 0; impulse != 0 && k < 2; ++k)
      if (row.slot[k] >= 0) {
        const int c = b.block.column[z(row.slot[k])];
        after += speed(row.J[k], head(v, c), head(v, c + 3));
      }
    row.work = impulse != 0 ? 0.5 * impulse * (row.before + after) : 0;
    work[row.kind] += row.work;
  }
  bool again = false;
  for (HeldRow& row : b.held_rows) {
    if (!(work[row.kind] > b.may_give[row.kind]) || !(row.work > 0)) continue;
    row.let_go = again = true;
    if (starts) row.left += std::exchange(row.strikes, 0);
  }
  for (std::size_t kind = 0; !again && kind < work.size(); ++kind) b.may_give[kind] -= std::max(work[kind], 0.0);
  return again;
}

/// The work of all rows in a part between the velocities v0 and v1 [J].
double Engine::work_of_part(const BlockSolve& b, double weight, bool starts, std::span<const double> v0,
                            std::span<const double> v1) {
  double sum = weight * work_of(b.part_held, v0, v1);
  if (starts) sum += work_of(b.part_blow, v0, v1);
  return sum;
}

void Engine::record_host_part(BlockSolve& b, double length) {
  for (std::size_t j = 0; j < b.sub_host.size(); ++j) b.sub_host[j] += length * b.part_held[j] + b.part_blow[j];
  for (HeldRow& row : b.held_rows) {
    row.let_go = false;
    row.left -= row.now;
  }
}

// Bullet and who reads its joints are told what the rows did, once: Bullet's rows do not outlive the step.
void Engine::end_host_parts(BlockSolve& b) {
  if (b.held_rows.empty()) return;
  b.host.swap(b.sub_host);
  for (HeldRow& row : b.held_rows) {
    if (!row.row) continue;
    row.row->m_appliedImpulse = btScalar(row.impulse - row.left);
    for (int k = 0; row.native && k < 2; ++k) {
      const btSolverConstraint& r = *row.row;
      Wrench& w = row.native->on(k);
      w.force -= row.left / dt_ * from_bullet(k == 0 ? r.m_contactNormal1 : r.m_contactNormal2);
      w.moment -= row.left / dt_ * from_bullet(k == 0 ? r.m_relpos1CrossNormal : r.m_relpos2CrossNormal);
    }
    row.row = nullptr;
  }
}

// ---- the energy of a step that native rows act in
// ----------------------------------------------------------------

/// Whether the work of native rows and constraints on a block is bounded by what the rows were solved to do.
bool Engine::watches_energy(const BlockSolve& b) const {
  return options_.mode == Mode::exact && options_.drift_correction && b.native_rows && !b.follows &&
         b.stiffness.empty();
}

void Engine::begin_energy(BlockSolve& b) {
  b.given = 0;
  b.damping.assign(b.v.size(), 0.0);
}

/// Adds up what a step or a part of it has gained, and damps its end velocities v by what exceeds the source and
/// `allowed` [J].
/// @param constraints, rows  what they gave in it [J] @param at  poses at which it began
void Engine::settle_energy(BlockSolve& b, double constraints, double rows, double allowed, const State& at,
                           std::span<double> v) {
  b.given += constraints + rows;
  constexpr double unsolved = 1e-3;  // of what rows were solved to do: the host's iterations end before they are exact
  const double excess = b.given - (1 + unsolved) * std::max(b.solved_work, 0.0) - allowed;
  if (excess > 0) b.given -= damp(b, excess, at, v);
}

void Engine::count_damping(BlockSolve& b) {
  const bool dropped = std::any_of(b.held_rows.begin(), b.held_rows.end(), [](const HeldRow& r) { return r.dropped; });
  if (dropped || largest(b.damping) > 0) ++b.tally.damped;
}

// Damping keeps momenta. Rows that iterations left unsolved by far, among parts that are jammed, push at points from
// which the bodies have turned away, and give them momenta that they do not have. Where a part would as much as double
// the energy that there is, without a source, they are left out of it and of the parts after it.
/// @param gain, kinetic  of the part: what constraints and rows gave in it; what there was at its start [J]
/// @return whether rows were left out of which it is to be taken once more
bool Engine::drop_rows(BlockSolve& b, double gain, double kinetic, double allowed) {
  if (!(b.given + gain - std::max(b.solved_work, 0.0) > 2 * allowed + kinetic)) return false;
  bool again = false;
  for (HeldRow& row : b.held_rows) {
    if (row.dropped || (row.left == 0 && row.strikes == 0)) continue;
    row.dropped = again = true;
    row.left += std::exchange(row.strikes, 0);
  }
  return again;
}

// Takes energy out of velocities and leaves the joints closed. All velocities are scaled towards a common motion of the
// block. That is the motion of the rigid body with the same momenta where no joint holds the block to anything else,
// that of a body that the program moves where one is joined to it, and rest elsewhere. A block on the ground is then
// slowed as a whole.
/// @return what it took [J]
double Engine::damp(BlockSolve& b, double energy, const State& at, std::span<double> v) {
  const Block& block = b.block;
  const auto turns = [&](std::size_t slot) { return block.column[slot + 1] - block.column[slot] == 6; };
  Vector3d centre(0, 0, 0), linear(0, 0, 0),
      angular(0, 0, 0);  // of the common motion: v = linear + angular × (p − centre)
  const bool free = b.outside.empty();
  double mass = 0;
  for (const BodyId id : block.bodies) mass += system_.mass(id);
  if (free) {
    for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
      const double m = system_.mass(block.bodies[slot]) / mass;
      centre += m * at[block.bodies[slot]].p;
      linear += m * head(v, block.column[slot]);
    }
    Vector3d L(0, 0, 0);
    Matrix3d I = Matrix3d::Zero();
    for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
      const BodyId id = block.bodies[slot];
      const int c = block.column[slot];
      const Vector3d r = at[id].p - centre;
      L += system_.mass(id) * r.cross(head(v, c) - linear);
      I += system_.mass(id) * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
      if (!turns(slot)) continue;
      const Matrix3d own = system_.world_inertia(id, at[id].q);
      L += own * head(v, c + 3);
      I += own;
    }
    const Vector3d found = I.ldlt().solve(L);
    if (found.allFinite()) angular = found;
  } else {
    for (const BodyId id : b.outside)
      if (system_.kind(id) == BodyKind::driven) {
        centre = at[id].p;
        linear = at[id].v;
        angular = at[id].w;
        break;
      }
  }
  const auto scale = [&](double by, bool about_common) {
    for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
      const BodyId id = block.bodies[slot];
      const int c = block.column[slot];
      const Vector3d common_v = about_common ? Vector3d(linear + angular.cross(at[id].p - centre)) : Vector3d::Zero(),
                     v0 = head(v, c), change = (by - 1) * (v0 - common_v);
      put(v, c, v0 + change);
      add(b.damping, c, system_.mass(id) * change);
      if (!turns(slot)) continue;
      const Vector3d common_w = about_common ? angular : Vector3d::Zero(), w0 = head(v, c + 3),
                     turn = (by - 1) * (w0 - common_w);
      put(v, c + 3, w0 + turn);
      add(b.damping, c + 3, system_.world_inertia(id, at[id].q) * turn);
    }
  };
  const auto kinetic = [&](bool about_common) {
    double sum = 0;
    for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
      const BodyId id = block.bodies[slot];
      const int c = block.column[slot];
      Vector3d u = head(v, c);
      if (about_common) u -= linear + angular.cross(at[id].p - centre);
      sum += 0.5 * system_.mass(id) * u.squaredNorm();
      if (!turns(slot)) continue;
      const Vector3d w = about_common ? Vector3d(head(v, c + 3) - angular) : head(v, c + 3);
      sum += 0.5 * w.dot(system_.world_inertia(id, at[id].q) * w);
    }
    return sum;
  };
  double taken = 0;
  for (const bool about_common : {true, false}) {
    if (!about_common && !(free && b.on_ground)) break;
    const double there = kinetic(about_common), part = std::min(energy - taken, there);
    if (!(part > 0) || !std::isfinite(there)) continue;
    scale(std::sqrt(std::max(0.0, 1 - part / there)), about_common);
    taken += part;
  }
  b.tally.damping_work -= taken;
  return taken;
}

/// What a block that native rows touch may gain in a step beyond what has a source [J].
double Engine::may_gain(const BlockSolve& b) const { return gain_floor(b) + allowed_gain * inner_energy_at_start(b); }

/// What limits and locks may give in a step [J].
double Engine::limits_may_give(const BlockSolve& b) const {
  return std::max(gain_floor(b) + given_by_limits * inner_energy_at_start(b), b.limit_return);
}

/// Ends a step that stands as a whole: accounts for its energy and sets the pose from which Bullet starts.
/// @param constraints, rows  what they gave in it [J]
void Engine::end_whole(BlockSolve& b, double constraints, double rows) {
  const bool beyond = turns_beyond_host(b);
  const double damped = b.tally.damping_work;
  if (b.native_rows) b.dv.assign(b.v.begin(), b.v.end());
  if (watches_energy(b)) {
    begin_energy(b);
    settle_energy(b, constraints, rows, may_gain(b), state_, b.v);
    count_damping(b);
  }
  if (!beyond && b.tally.damping_work == damped) return;
  pose(b);
  start_from_true_turn(b, b.native_rows ? std::span<const double>(b.dv) : std::span<const double>(b.v));
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
