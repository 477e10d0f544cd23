// Native rows on the exact constraints' own motion: where a block has few of them, each is told what its impulse does
// to the whole block with the constraints kept, y = P Jᵀ with P = M⁻¹ − M⁻¹AᵀG⁺AM⁻¹, and moves that. A motor that
// holds a heavy load by a light part then meets the load, not the part; Gauss–Seidel in turns with the block would need
// as many iterations as the one is heavier than the other. Relaxed at most as far as raw rows are, so it cannot diverge
// where those do not.
#include "engine.h"

#include "bodies.h"
#include "columns.h"

#include <algorithm>
#include <functional>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

/// Rows of a block up to which each gets a solve of its own per step.
constexpr int most_rows = 64;
/// A row that the constraints leave less than this of its motion is held by them, but for rounding: it keeps the raw
/// step. A tonne a metre out on a hinge pin of a few grams is above.
constexpr double least_freedom = 1e-6;

thread_local Engine* solving = nullptr;

void sort_rows_by_body(BlockSolve& b) {
  const Assembly& assembly = b.dynamics->assembly();
  const std::vector<int>& column = assembly.block.column;
  const auto slot_of = [&](int c) { return std::upper_bound(column.begin(), column.end(), c) - column.begin() - 1; };
  b.slot_begin.assign(column.size() + 1, 0);  // one further on while they are counted
  for_rows_of_bodies(assembly, [&](int, const double*, int c, int) { ++b.slot_begin[z(slot_of(c)) + 2]; });
  for (std::size_t i = 2; i < b.slot_begin.size(); ++i) b.slot_begin[i] += b.slot_begin[i - 1];
  b.slot_rows.resize(z(b.slot_begin.back()));
  for_rows_of_bodies(assembly, [&](int row, const double* J, int c, int count) {
    b.slot_rows[z(b.slot_begin[z(slot_of(c)) + 1]++)] = {J, row, count};
  });
}

double dot(const btVector3& a, const btVector3& b) {
  return double(a.x()) * double(b.x()) + double(a.y()) * double(b.y()) + double(a.z()) * double(b.z());
}

}  // namespace

// After the pushes, whose own pass uses the rows as they were.
bool Engine::couple_rows(Pools pools) {
  responses_.clear();
  response_parts_.clear();
  row_ranges_.clear();
  if ((base_name_ != "sequential impulse" && !multibodies_) || group_.empty()) return false;
  const std::array<btConstraintArray*, 4> all{&pools.contacts, &pools.joints, &pools.friction, &pools.rolling};
  const auto block_of = [&](int body) {
    return body >= 0 && z(body) < slot_of_pool_.size() ? slot_of_pool_[z(body)].block : -1;
  };
  for (const int index : group_) blocks_[z(index)]->row_count = 0;
  rows_at_.assign(slot_of_pool_.size(), 0);
  for (const btConstraintArray* rows : all)
    for (int i = 0; i < rows->size(); ++i) {
      const int a = block_of((*rows)[i].m_solverBodyIdA), b = block_of((*rows)[i].m_solverBodyIdB);
      if (a >= 0) ++blocks_[z(a)]->row_count;
      if (b >= 0 && b != a) ++blocks_[z(b)]->row_count;
      for (const int body : {(*rows)[i].m_solverBodyIdA, (*rows)[i].m_solverBodyIdB})
        if (block_of(body) >= 0) ++rows_at_[z(body)];
    }
  bool any = false;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    b.by_rows = !b.failed && b.native_rows && !b.link_rows && b.row_count <= most_rows;
    any = any || b.by_rows;
    if (b.by_rows && !b.in_turns) sort_rows_by_body(b);
  }
  if (!any) return false;
  ways_.clear();
  ways_at_.assign(slot_of_pool_.size(), -1);
  for (btConstraintArray* rows : all) {
    if (rows->size() == 0) continue;
    row_ranges_.push_back({&(*rows)[0], rows->size(), static_cast<int>(responses_.size())});
    for (int i = 0; i < rows->size(); ++i) respond((*rows)[i], pools);
  }
  answer_asked();
  for (const RowRange& range : row_ranges_)
    for (int i = 0; i < range.size; ++i) step_by_response(range.first[i], responses_[z(range.response + i)]);
  return true;
}

// dv ← P f, for an f that pushes at one or two bodies alone.
void Engine::held_motion(BlockSolve& b, int slot, int other) {
  b.dynamics->solver().inverse_mass(b.force, b.dv);
  std::fill(b.e.begin(), b.e.end(), 0.0);
  const auto meet = [&](int at) {
    const double* const moved = b.dv.data() + b.block.column[z(at)];
    for (int i = b.slot_begin[z(at)]; i < b.slot_begin[z(at + 1)]; ++i) {
      const BlockSolve::SlotRow& at_row = b.slot_rows[z(i)];
      for (int c = 0; c < at_row.count; ++c) b.e[z(at_row.row)] -= at_row.J[c] * moved[c];
    }
  };
  meet(slot);
  if (other >= 0 && other != slot) meet(other);
  response_change_.resize(b.dv.size());
  b.dynamics->solver().approach(b.e, {}, {},
                                response_change_);  // the step's end is found by Newton, whatever rows did
  for (std::size_t j = 0; j < b.dv.size(); ++j) b.dv[j] += response_change_[j];
}

// What each of the six ways to push at a body does: where many rows do, what a row does is a sum of those.
void Engine::find_ways(BlockSolve& b, int body, int slot) {
  if (ways_at_[z(body)] >= 0) return;
  ways_at_[z(body)] = static_cast<int>(ways_.size());
  const int c = b.block.column[z(slot)];
  const std::size_t n = b.dv.size();
  if (b.in_turns) {
    constexpr std::size_t most = detail::JointStep::most;
    std::array<detail::JointStep::Push, 6> pushes;
    for (std::size_t way = 0; way < 6; ++way) {
      pushes[way].at[0].body = slot;
      pushes[way].at[0].impulse.setZero()[static_cast<Eigen::Index>(way)] = 1;
    }
    const std::size_t first = ways_.size();
    ways_.resize(first + 6 * n);
    const std::span<double> to = std::span(ways_).subspan(first);
    b.plain.move(std::span(pushes).first(most), to);
    b.plain.move(std::span(pushes).subspan(most), to.subspan(most * n));
    return;
  }
  std::fill(b.force.begin(), b.force.end(), 0.0);
  for (int way = 0; way < 6; ++way) {
    b.force[z(c + way)] = 1;
    held_motion(b, slot, -1);
    b.force[z(c + way)] = 0;
    ways_.insert(ways_.end(), b.dv.begin(), b.dv.end());
  }
}

// The response of one row: found at once, or asked for.
void Engine::respond(const btSolverConstraint& row, Pools pools) {
  responses_.emplace_back();
  Response& out = responses_.back();
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  std::array<Slot, 2> at;
  bool any = false;
  for (std::size_t k = 0; k < 2; ++k) {
    if (body[k] >= 0 && z(body[k]) < slot_of_pool_.size()) at[k] = slot_of_pool_[z(body[k])];
    any = any || (at[k].block >= 0 && blocks_[z(at[k].block)]->by_rows);
  }
  if (!any) return;
  for (std::size_t k = 0; k < 2; ++k) {
    const btSolverBody& sb = pools.bodies[body[k]];
    const btVector3 &n = k == 0 ? row.m_contactNormal1 : row.m_contactNormal2,
                    &rn = k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal;
    const double own = dot(n, n * sb.m_invMass * sb.m_linearFactor) +
                       dot(rn, (k == 0 ? row.m_angularComponentA : row.m_angularComponentB) * sb.m_angularFactor);
    out.raw += own;
    if (at[k].block < 0 || !blocks_[z(at[k].block)]->by_rows) {
      out.held += own;
      continue;
    }
    if (k == 1 && at[1].block == out.block[0]) continue;  // both sides at once
    BlockSolve& b = *blocks_[z(at[k].block)];
    const Block& block = b.block;
    const bool both = k == 0 && at[1].block == at[0].block;
    const std::size_t sides = both && at[1].slot != at[0].slot ? 2 : 1;
    out.block[k] = at[k].block;
    out.first[k] = response_parts_.size();
    response_parts_.resize(response_parts_.size() + 2 * b.pool.size());
    detail::JointStep::Push push;
    push.at[0] = {at[k].slot, (Vector6() << from_bullet(n), from_bullet(rn)).finished()};
    if (both) {
      const Vector6 other =
          (Vector6() << from_bullet(row.m_contactNormal2), from_bullet(row.m_relpos2CrossNormal)).finished();
      if (sides == 2)
        push.at[1] = {at[1].slot, other};
      else
        push.at[0].impulse += other;
    }
    bool by_ways = true;
    for (std::size_t side = k; side < k + sides; ++side)
      by_ways = by_ways && rows_at_[z(body[side])] > 6 &&
                block.column[z(at[side].slot + 1)] - block.column[z(at[side].slot)] == 6;
    if (by_ways) {
      for (std::size_t side = k; side < k + sides; ++side) find_ways(b, body[side], at[side].slot);
      std::fill(b.dv.begin(), b.dv.end(), 0.0);
      for (std::size_t side = 0; side < sides; ++side) {
        const double* way = ways_.data() + ways_at_[z(body[k + side])];
        for (int i = 0; i < 6; ++i)
          for (double& dv : b.dv) dv += push.at[side].impulse[i] * *way++;
      }
    } else if (b.in_turns) {
      asked_.push_back({static_cast<int>(responses_.size()) - 1, at[k].block, push});
      continue;
    } else {
      std::fill(b.force.begin(), b.force.end(), 0.0);
      for (std::size_t side = 0; side < sides; ++side) {
        const int slot = push.at[side].body, c = block.column[z(slot)];
        add(b.force, c, push.at[side].impulse.head<3>());
        if (block.column[z(slot + 1)] - c == 6) add(b.force, c + 3, push.at[side].impulse.tail<3>());
      }
      held_motion(b, push.at[0].body, push.at[1].body);
    }
    note_response(out, b, static_cast<int>(k), push, b.dv);
  }
}

/// What was asked of blocks in turns, several at a time.
void Engine::answer_asked() {
  std::array<detail::JointStep::Push, detail::JointStep::most> pushes;
  for (std::size_t i = 0; i < asked_.size();) {
    const int block = asked_[i].block;
    std::size_t count = 0;
    while (count < pushes.size() && i + count < asked_.size() && asked_[i + count].block == block) {
      pushes[count] = asked_[i + count].push;
      ++count;
    }
    BlockSolve& b = *blocks_[z(block)];
    const std::size_t n = b.dv.size();
    asked_moves_.resize(count * n);
    b.plain.move(std::span(pushes).first(count), asked_moves_);
    for (std::size_t lane = 0; lane < count; ++lane, ++i) {
      Response& out = responses_[z(asked_[i].response)];
      note_response(out, b, out.block[0] == block ? 0 : 1, asked_[i].push,
                    std::span<const double>(asked_moves_).subspan(lane * n, n));
    }
  }
  asked_.clear();
}

/// Of a row on one side, or with both on one block.
void Engine::note_response(Response& out, const BlockSolve& b, int side, const detail::JointStep::Push& push,
                           std::span<const double> dv) {
  const Block& block = b.block;
  for (const detail::JointStep::Push::At& at : push.at)
    for (int j = 0; at.body >= 0 && j < block.column[z(at.body + 1)] - block.column[z(at.body)]; ++j)
      out.held += at.impulse[j] * dv[z(block.column[z(at.body)] + j)];
  btVector3* part = &response_parts_[out.first[side]];
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const int c = block.column[slot];
    *part++ = to_bullet(head(dv, c));
    *part++ = block.column[slot + 1] - c == 6 ? to_bullet(head(dv, c + 3)) : btVector3(0, 0, 0);
  }
}

// Makes a row's step the right one for what it moves. Bullet's zero factors act on the body and not on the row: what a
// row then moves of itself may be any number, a negative one too. No further than Bullet's own step, which leaves them
// out, for what it takes itself to move.
void Engine::step_by_response(btSolverConstraint& row, const Response& response) const {
  if (response.block[0] < 0 && response.block[1] < 0) return;
  const double own = std::min(response.raw, double(world_->getSolverInfo().m_sor) / double(row.m_jacDiagABInv));
  if (!(own > 0 && response.held > least_freedom * own)) return;
  const btScalar longer = btScalar(own / response.held);
  row.m_jacDiagABInv *= longer;
  row.m_rhs *= longer;
  row.m_cfm *= longer;
}

// As Bullet's own scalar row solver, but for what moves.
btScalar Engine::resolve_row(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above) {
  const Response* response = nullptr;
  for (const RowRange& range : row_ranges_)
    if (!std::less<>()(&row, range.first) && std::less<>()(&row, range.first + range.size))
      response = &responses_[z(range.response + static_cast<int>(&row - range.first))];
  const btScalar before = btScalar(row.m_appliedImpulse);
  btScalar change = row.m_rhs - before * row.m_cfm;
  change -= (row.m_contactNormal1.dot(a.internalGetDeltaLinearVelocity()) +
             row.m_relpos1CrossNormal.dot(a.internalGetDeltaAngularVelocity())) *
            row.m_jacDiagABInv;
  change -= (row.m_contactNormal2.dot(b.internalGetDeltaLinearVelocity()) +
             row.m_relpos2CrossNormal.dot(b.internalGetDeltaAngularVelocity())) *
            row.m_jacDiagABInv;
  btScalar sum = before + change;
  if (sum < row.m_lowerLimit) sum = row.m_lowerLimit;
  if (bounded_above && sum > row.m_upperLimit) sum = row.m_upperLimit;
  change = sum - before;
  row.m_appliedImpulse = sum;
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  for (int k = 0; k < 2; ++k) {
    if (response && response->block[k] >= 0) {
      const BlockSolve& block = *blocks_[z(response->block[k])];
      const btVector3* part = &response_parts_[response->first[k]];
      for (const int index : block.pool) {
        btSolverBody& moved = (*coupled_bodies_)[index];
        moved.internalGetDeltaLinearVelocity() += part[0] * change;
        moved.internalGetDeltaAngularVelocity() += part[1] * change;
        part += 2;
      }
      continue;
    }
    const Slot at = z(body[z(k)]) < slot_of_pool_.size() ? slot_of_pool_[z(body[z(k)])] : Slot{};
    if (response && k == 1 && at.block >= 0 && at.block == response->block[0]) continue;  // moved with the other side
    if (k == 0)
      a.internalApplyImpulse(row.m_contactNormal1 * a.internalGetInvMass(), row.m_angularComponentA, change);
    else
      b.internalApplyImpulse(row.m_contactNormal2 * b.internalGetInvMass(), row.m_angularComponentB, change);
  }
  return change * (btScalar(1) / row.m_jacDiagABInv);
}

void Engine::begin_rows(Pools pools) {
  solving = this;
  coupled_bodies_ = &pools.bodies;  // not its first element: Bullet adds bodies to it between the rows of an iteration
}
btScalar Engine::row_generic(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row) {
  return solving->resolve_row(a, b, row, true);
}
btScalar Engine::row_lower(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row) {
  return solving->resolve_row(a, b, row, false);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
