// What native rows do in a step that is taken in parts (T15): a blow at its start, the rest as long as forces act. Rows
// were solved once, for a step as one; in its parts a light body turns away from under what they were solved for, and
// they would drive it on. Limits and contacts can give a mechanism nothing: in a part in which they would, those that
// do are let go, and what they have not done is left to the parts after it.
#include "engine.h"

#include "columns.h"
#include "energy_watch.h"

#include <functional>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
double speed(const Vector6& J, const Vector3d& v, const Vector3d& w) { return J.head<3>().dot(v) + J.tail<3>().dot(w); }
bool within(const btSolverConstraint& row, const btConstraintArray& rows) {
  return rows.size() > 0 && !std::less<>()(&row, &rows[0]) && std::less<>()(&row, &rows[0] + rows.size());
}
/// Whether what a row does can only be passive: of joints limits; of contacts all, but those of a surface that moves by
/// itself.
bool is_passive(const btSolverConstraint& row, Pools pools) {
  if (within(row, pools.joints)) return is_limit(row);
  if (within(row, pools.contacts)) return true;
  const auto& point = *static_cast<const btManifoldPoint*>(pools.contacts[row.m_frictionIndex].m_originalContactPoint);
  return point.m_contactMotion1 == 0 && point.m_contactMotion2 == 0;
}
}  // namespace

// One that pushes at another block, at a free body or at one that the program moves gives what it takes there, and what
// it does not do here it has done there all the same: it may give what it was solved for and all there is once more.
/// @return whether it is one that can be let go
bool Engine::keep_row(btSolverConstraint& row, double blow, Wrenches* native, Pools pools) {
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  if (!is_passive(row, pools)) {
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
    row.let_go = false;
    row.strikes = row.blow;
    row.left = row.impulse - row.blow;
  }
  // Limits less than constraints: what those give in one step they take in the next. Contacts as much: what a part does
  // not have of them lies deeper by the next step.
  constexpr double of_limits = 0.2;
  if (b.held_rows.empty()) return;
  const double floor = gain_floor(b), energy = energy_at_start(b);
  b.may_give[HeldRow::contact] = floor + allowed_gain * energy;
  b.may_give[HeldRow::limit] = floor + of_limits * allowed_gain * energy;
  b.may_give[HeldRow::shared] = floor + energy + b.takes;
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
    row.now = row.let_go ? 0 : row.left * std::min(1.0, length / (dt_ - done));
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

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
