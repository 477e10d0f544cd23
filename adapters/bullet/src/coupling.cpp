// Native rows on the exact constraints' own motion: where a block has few of them, each is told what its impulse does
// to the whole block with the constraints kept, y = P Jᵀ with P = M⁻¹ − M⁻¹AᵀG⁺AM⁻¹, and moves that. A motor that
// holds a heavy load by a light part then meets the load, not the part; Gauss–Seidel in turns with the block would need
// as many iterations as the one is heavier than the other. Relaxed at most as far as raw rows are, so it cannot diverge
// where those do not.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "host_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

/// Rows of a block up to which each gets a solve of its own per step.
constexpr int most_rows = 64;
/// A row that the constraints leave less than this of its motion is held by them, but for rounding: it keeps the raw
/// step. A tonne a metre out on a hinge pin of a few grams is above.
constexpr double least_freedom = 1e-6;

constexpr int wanted = -2;  ///< of ways that are yet to be found

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

// Contacts between bodies of one rigid part: of what they do to it nothing is left, but the lever by which they do it
// turns with the part, and Bullet has none of the impulses by which the welds would answer. Before any impulse counts.
void Engine::leave_out_rigid_parts(Pools pools) const {
  if (std::none_of(group_.begin(), group_.end(), [&](int i) { return blocks_[z(i)]->welded; })) return;
  const auto part_of = [&](int body) -> std::pair<int, int> {
    const Slot at = slot_of(body);
    if (at.block >= 0) {
      const int part = blocks_[z(at.block)]->part[z(at.slot)];
      return {part < 0 ? -1 : at.block, part};
    }
    const btRigidBody* const free = body >= 0 ? pools.bodies[body].m_originalBody : nullptr;
    return free && !free->isStaticOrKinematicObject() ? std::pair(-2, body) : std::pair(-1, -1);
  };
  for (btConstraintArray* rows : {&pools.contacts, &pools.friction, &pools.rolling})
    for (int i = 0; i < rows->size(); ++i) {
      btSolverConstraint& row = (*rows)[i];
      if (part_of(row.m_solverBodyIdA) != part_of(row.m_solverBodyIdB)) continue;
      for (btVector3* x : {&row.m_contactNormal1, &row.m_contactNormal2, &row.m_relpos1CrossNormal,
                           &row.m_relpos2CrossNormal, &row.m_angularComponentA, &row.m_angularComponentB})
        x->setZero();
      row.m_appliedImpulse = row.m_rhs = row.m_rhsPenetration = row.m_cfm = 0;
    }
}

// After the pushes, whose own pass uses the rows as they were.
bool Engine::couple_rows(Pools pools) {
  responses_.clear();
  response_parts_.clear();
  row_ranges_.clear();
  if ((base_name_ != "sequential impulse" && !multibodies_) || group_.empty()) return false;
  const std::array<btConstraintArray*, 4> all{&pools.contacts, &pools.joints, &pools.friction, &pools.rolling};
  bool ones = false;
  for (const int index : group_) ones = make_one(*blocks_[z(index)], pools) || ones;
  for (btConstraintArray* rows : all)
    for (int i = 0; ones && i < rows->size(); ++i) push_as_one((*rows)[i], pools);
  const auto block_of = [&](int body) { return slot_of(body).block; };
  for (const int index : group_) blocks_[z(index)]->row_count = 0;
  rows_at_.assign(slot_of_pool_.size(), 0);
  for (const btConstraintArray* rows : all)
    for (int i = 0; i < rows->size(); ++i) {
      if (moves_nothing((*rows)[i])) continue;
      const int a = block_of((*rows)[i].m_solverBodyIdA), b = block_of((*rows)[i].m_solverBodyIdB);
      if (a >= 0) ++blocks_[z(a)]->row_count;
      if (b >= 0 && b != a) ++blocks_[z(b)]->row_count;
      for (const int body : {(*rows)[i].m_solverBodyIdA, (*rows)[i].m_solverBodyIdB})
        if (block_of(body) >= 0) ++rows_at_[z(body)];
    }
  bool any = false;
  ways_.clear();
  ways_at_.assign(slot_of_pool_.size(), -1);
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    b.limit_return = 0;
    b.by_rows = !b.failed && b.native_rows && !b.link_rows && b.one < 0 && b.row_count <= most_rows;
    if (!b.by_rows) continue;
    any = true;
    b.met.clear();
    b.met_at.assign(b.pool.size(), -1);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      if (rows_at_[z(b.pool[slot])] == 0) continue;
      b.met_at[slot] = static_cast<int>(b.met.size());
      b.met.push_back(static_cast<int>(slot));
    }
    b.mass = 0;
    for (const BodyId id : b.block.bodies) b.mass += system_.mass(id);
    b.may_give[HeldRow::limit] = limits_may_give(b);
    b.in_turns ? b.plain.aim(b.met) : sort_rows_by_body(b);
  }
  if (!any) return ones;  // of those rows too some may be let be
  for (const btConstraintArray* rows : all)
    for (int i = 0; i < rows->size(); ++i)
      if (goes_by_ways((*rows)[i]))
        for (const int body : {(*rows)[i].m_solverBodyIdA, (*rows)[i].m_solverBodyIdB})
          if (block_of(body) >= 0) ways_at_[z(body)] = wanted;
  for (const int index : group_) find_ways(*blocks_[z(index)]);
  response_moves_.clear();
  for (btConstraintArray* rows : all) {
    if (rows->size() == 0) continue;
    row_ranges_.push_back({&(*rows)[0], rows->size(), static_cast<int>(responses_.size())});
    for (int i = 0; i < rows->size(); ++i) respond((*rows)[i], pools);
  }
  for (const int index : group_) answer_asked(*blocks_[z(index)], response_moves_);
  response_parts_.resize(response_moves_.size() / 3);
  for (std::size_t i = 0; i < response_parts_.size(); ++i)
    response_parts_[i] = to_bullet(head(response_moves_, static_cast<int>(3 * i)));
  for (int i = 0; i < pools.contacts.size(); ++i) push_out_gently(pools.contacts[i], responses_[z(i)], pools);
  for (const RowRange& range : row_ranges_)
    for (int i = 0; i < range.size; ++i)
      if (pools.joints.size() > 0 && range.first == &pools.joints[0])
        drive_back_gently(range.first[i], responses_[z(range.response + i)], pools);
  for (const RowRange& range : row_ranges_)
    for (int i = 0; i < range.size; ++i) step_by_response(range.first[i], responses_[z(range.response + i)]);
  return true;
}

// Welds make one body of a block: to native rows it can be one of Bullet's own.
bool Engine::make_one(BlockSolve& b, Pools pools) const {
  detail::JointStep::One as;
  if (b.failed || !b.native_rows || b.link_rows || multibodies_ || !b.in_turns || !b.plain.as_one(as)) return false;
  b.one = pools.bodies.size();
  btSolverBody one;
  one.m_worldTransform.setIdentity();
  for (btVector3* x :
       {&one.m_deltaLinearVelocity, &one.m_deltaAngularVelocity, &one.m_pushVelocity, &one.m_turnVelocity,
        &one.m_linearVelocity, &one.m_angularVelocity, &one.m_externalForceImpulse, &one.m_externalTorqueImpulse})
    x->setZero();
  one.m_linearFactor = one.m_angularFactor = btVector3(1, 1, 1);
  one.m_invMass = one.m_linearFactor * btScalar(as.inverse_mass);
  one.m_originalBody = body_of_[z(b.block.bodies[0].index)];  // without any, Bullet's rows do not move it
  pools.bodies.push_back(one);
  b.as_one = as;
  return true;
}

// What a row has of velocities so far it has of what it asks for from now on: that body begins at none.
void Engine::push_as_one(btSolverConstraint& row, Pools pools) {
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  std::array<Slot, 2> at;
  for (std::size_t k = 0; k < 2; ++k) {
    at[k] = slot_of(body[k]);
    if (at[k].block >= 0 && blocks_[z(at[k].block)]->one < 0) at[k] = {};
  }
  if (at[0].block == at[1].block) {  // none, or between bodies of one: it moves nothing
    if (at[0].block >= 0) let_be(row);
    return;
  }
  const double raw = double(world_->getSolverInfo().m_sor) / double(row.m_jacDiagABInv);
  double held = raw, had = 0;
  std::array<btVector3, 2> turn, angular;
  for (std::size_t k = 0; k < 2; ++k) {
    if (at[k].block < 0) continue;
    const BlockSolve& b = *blocks_[z(at[k].block)];
    const btSolverBody& sb = pools.bodies[body[k]];
    const btVector3 &n = k == 0 ? row.m_contactNormal1 : row.m_contactNormal2,
                    &rn = k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal;
    had += dot(n, sb.m_deltaLinearVelocity) + dot(rn, sb.m_deltaAngularVelocity);
    held -= dot(n, n * sb.m_invMass * sb.m_linearFactor) +
            dot(rn, (k == 0 ? row.m_angularComponentA : row.m_angularComponentB) * sb.m_angularFactor);
    const Vector3d arm = state_[b.block.bodies[z(at[k].slot)]].p - b.as_one.centre, f = from_bullet(n);
    const Vector3d moment = from_bullet(rn) + arm.cross(f), turns = b.as_one.inverse_inertia * moment;
    held += b.as_one.inverse_mass * f.squaredNorm() + moment.dot(turns);
    turn[k] = to_bullet(moment);
    angular[k] = to_bullet(turns);
  }
  if (!(held > least_freedom * raw)) return let_be(row);
  for (std::size_t k = 0; k < 2; ++k) {
    if (at[k].block < 0) continue;
    btVector3 &rn = k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal,
              &by = k == 0 ? row.m_angularComponentA : row.m_angularComponentB;
    sides_.push_back({&row, static_cast<int>(k), body[k], rn, by});
    rn = turn[k];
    by = angular[k];
    (k == 0 ? row.m_solverBodyIdA : row.m_solverBodyIdB) = blocks_[z(at[k].block)]->one;
  }
  row.m_rhs -= btScalar(had) * row.m_jacDiagABInv;
  const btScalar longer = btScalar(raw / held);
  row.m_jacDiagABInv *= longer;
  row.m_rhs *= longer;
  row.m_cfm *= longer;
}

void Engine::put_rows_back(Pools pools) {
  for (const Side& side : sides_) {
    btSolverConstraint& row = *side.row;
    (side.k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal) = side.turn;
    (side.k == 0 ? row.m_angularComponentA : row.m_angularComponentB) = side.angular;
    (side.k == 0 ? row.m_solverBodyIdA : row.m_solverBodyIdB) = side.body;
  }
  sides_.clear();
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.one < 0) continue;
    btSolverBody& one = pools.bodies[std::exchange(b.one, -1)];
    one.m_originalBody = nullptr;
    // Its bodies have moved with it: what rows did to them is told by that.
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      btSolverBody& body = pools.bodies[b.pool[slot]];
      const btVector3 arm = to_bullet(Vector3d(state_[b.block.bodies[slot]].p - b.as_one.centre));
      body.m_deltaLinearVelocity += one.m_deltaLinearVelocity + one.m_deltaAngularVelocity.cross(arm);
      body.m_deltaAngularVelocity += one.m_deltaAngularVelocity;
    }
  }
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

// What a push moves of the bodies at which rows push: nobody looks at the others before all rows are solved. Added to
// what is at `at` of `to`; of blocks in turns later, several at a time.
void Engine::ask(BlockSolve& b, const detail::JointStep::Push& push, std::size_t at, std::vector<double>& to) {
  if (b.in_turns) {
    b.asked.push_back({at, push});
    return;
  }
  const Block& block = b.block;
  std::fill(b.force.begin(), b.force.end(), 0.0);
  for (const detail::JointStep::Push::At& on : push.at) {
    if (on.body < 0) continue;
    const int c = block.column[z(on.body)];
    add(b.force, c, on.impulse.head<3>());
    if (block.column[z(on.body + 1)] - c == 6) add(b.force, c + 3, on.impulse.tail<3>());
  }
  held_motion(b, push.at[0].body, push.at[1].body);
  for (const int slot : b.met) {
    const int c = block.column[z(slot)];
    for (int j = 0; j < block.column[z(slot + 1)] - c; ++j) to[at + z(j)] += b.dv[z(c + j)];
    at += 6;
  }
}

void Engine::answer_asked(BlockSolve& b, std::vector<double>& to) {
  if (!b.by_rows) return;
  constexpr std::size_t most = detail::JointStep::most;
  std::array<detail::JointStep::Push, most> pushes;
  const std::size_t n = 6 * b.met.size();
  moves_.resize(most * n);
  for (std::size_t i = 0; i < b.asked.size(); i += most) {
    const std::size_t count = std::min(most, b.asked.size() - i);
    for (std::size_t lane = 0; lane < count; ++lane) pushes[lane] = b.asked[i + lane].push;
    b.plain.move(std::span(pushes).first(count), moves_);
    for (std::size_t lane = 0; lane < count; ++lane)
      for (std::size_t j = 0; j < n; ++j) to[b.asked[i + lane].at + j] += moves_[lane * n + j];
  }
  b.asked.clear();
}

// Where many rows push at a body, what each of the six ways to push at it does: what a row does is a sum of those. Not
// where there would be a push for another body of the row besides.
bool Engine::goes_by_ways(const btSolverConstraint& row) const {
  constexpr int many = 6;
  bool any = false;
  for (const int body : {row.m_solverBodyIdA, row.m_solverBodyIdB}) {
    const Slot at = slot_of(body);
    if (at.block < 0 || !blocks_[z(at.block)]->by_rows) continue;
    const std::vector<int>& column = blocks_[z(at.block)]->block.column;
    if (rows_at_[z(body)] <= many || column[z(at.slot + 1)] - column[z(at.slot)] != 6) return false;
    any = true;
  }
  return any;
}

void Engine::find_ways(BlockSolve& b) {
  if (!b.by_rows) return;
  const std::size_t n = 6 * b.met.size();
  for (const int slot : b.met)
    if (int& at = ways_at_[z(b.pool[z(slot)])]; at == wanted) {
      at = static_cast<int>(ways_.size());
      ways_.resize(ways_.size() + 6 * n);
    }
  for (const int slot : b.met) {
    const int at = ways_at_[z(b.pool[z(slot)])];
    for (int way = 0; at >= 0 && way < 6; ++way) {
      detail::JointStep::Push push;
      push.at[0].body = slot;
      push.at[0].impulse.setZero()[way] = 1;
      ask(b, push, z(at) + z(way) * n, ways_);
    }
  }
  answer_asked(b, ways_);
}

// The response of one row: found at once, or asked for.
void Engine::respond(const btSolverConstraint& row, Pools pools) {
  responses_.emplace_back();
  Response& out = responses_.back();
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  std::array<Slot, 2> at;
  bool any = false;
  for (std::size_t k = 0; k < 2; ++k) {
    at[k] = slot_of(body[k]);
    any = any || (at[k].block >= 0 && blocks_[z(at[k].block)]->by_rows);
  }
  if (!any || moves_nothing(row)) return;
  const bool by_ways = goes_by_ways(row);
  std::array<detail::JointStep::Push, 2> asked;  // by block
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
    BlockSolve& b = *blocks_[z(at[k].block)];
    const std::size_t size = 6 * b.met.size();
    const bool both = k == 1 && at[1].block == out.block[0];
    const std::size_t of = both ? 0 : k;
    if (!both) {
      out.block[k] = at[k].block;
      out.first[k] = response_moves_.size() / 3;
      response_moves_.resize(response_moves_.size() + size);
    }
    const Vector6 impulse = (Vector6() << from_bullet(n), from_bullet(rn)).finished();
    if (by_ways) {
      const double* way = ways_.data() + ways_at_[z(body[k])];
      double* const to = response_moves_.data() + 3 * out.first[of];
      for (int i = 0; i < 6; ++i, way += size)
        for (std::size_t j = 0; j < size; ++j) to[j] += impulse[i] * way[j];
      continue;
    }
    detail::JointStep::Push& push = asked[of];
    if (push.at[0].body < 0 || push.at[0].body == at[k].slot) {
      push.at[0].impulse = push.at[0].body < 0 ? impulse : Vector6(push.at[0].impulse + impulse);
      push.at[0].body = at[k].slot;
    } else {
      push.at[1] = {at[k].slot, impulse};
    }
  }
  for (std::size_t k = 0; k < 2; ++k)
    if (asked[k].at[0].body >= 0) ask(*blocks_[z(out.block[k])], asked[k], 3 * out.first[k], response_moves_);
}

/// How far a row that pushes at blocks moves of itself, when it is known what it moves.
double Engine::held_by(const btSolverConstraint& row, const Response& response) const {
  double sum = 0;
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  for (std::size_t k = 0; k < 2; ++k) {
    const Slot at = slot_of(body[k]);
    if (at.block < 0 || !blocks_[z(at.block)]->by_rows) continue;
    const BlockSolve& b = *blocks_[z(at.block)];
    const std::size_t first = response.first[k == 1 && at.block == response.block[0] ? 0 : k];
    const int moved = static_cast<int>(3 * first) + 6 * b.met_at[z(at.slot)];
    sum +=
        from_bullet(k == 0 ? row.m_contactNormal1 : row.m_contactNormal2).dot(head(response_moves_, moved)) +
        from_bullet(k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal).dot(head(response_moves_, moved + 3));
  }
  return sum;
}

/// Of a row, what one of its bodies has of it before rows are solved: it began so, and forces act.
double Engine::speed_at_start(const btSolverConstraint& row, Pools pools, int k) {
  const btSolverBody& sb = pools.bodies[k == 0 ? row.m_solverBodyIdA : row.m_solverBodyIdB];
  return dot(k == 0 ? row.m_contactNormal1 : row.m_contactNormal2, sb.m_linearVelocity + sb.m_externalForceImpulse) +
         dot(k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal,
             sb.m_angularVelocity + sb.m_externalTorqueImpulse);
}

// What iterations end with is where the next step's begin. Where a mechanism is jammed, levers of contacts are short
// and ten iterations may leave them coming nearer faster than at the start, by impulses that grow from step to step:
// such a contact begins anew.
void Engine::forget_unsolved(Pools pools) const {
  constexpr double faster = 2, solved = 1e-4;  // than at the start; of what the bodies' velocities changed by
  for (int i = 0; i < pools.contacts.size(); ++i) {
    btSolverConstraint& row = pools.contacts[i];
    const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
    if (slot_of(body[0]).block < 0 && slot_of(body[1]).block < 0) continue;
    double start = 0, end = 0;
    for (int k = 0; k < 2; ++k) {
      const btSolverBody& sb = pools.bodies[body[z(k)]];
      const double own = speed_at_start(row, pools, k);
      start += std::abs(own) +
               solved * (double(sb.m_deltaLinearVelocity.length()) + double(sb.m_deltaAngularVelocity.length()));
      end += own + dot(k == 0 ? row.m_contactNormal1 : row.m_contactNormal2, sb.m_deltaLinearVelocity) +
             dot(k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal, sb.m_deltaAngularVelocity);
    }
    if (-end > faster * start) row.m_appliedImpulse = 0;
  }
}

// What two bodies overlap by, Bullet makes a velocity of the contact that takes it away in some steps. Where a
// mechanism gives way there by a thousandth of what it moves elsewhere, as a pendulum that is jammed under its pivot,
// all of it would come out of a centimetre at the speed of sound: it is pushed out with no more energy than if it moved
// as one with the contact, which is all that what hangs on nothing ever gets.
void Engine::push_out_gently(btSolverConstraint& row, const Response& response, Pools pools) const {
  const int own = response.block[0] >= 0 ? response.block[0] : response.block[1];
  if (own < 0 || row.m_rhsPenetration != 0) return;
  const btContactSolverInfo& info = world_->getSolverInfo();
  const auto& point = *static_cast<const btManifoldPoint*>(row.m_originalContactPoint);
  const btScalar depth = -(point.getDistance() + info.m_linearSlop);
  if (!(depth > 0)) return;
  const std::array<int, 2> body{row.m_solverBodyIdA, row.m_solverBodyIdB};
  double mass = 0;
  for (std::size_t k = 0; k < 2; ++k) {
    if (response.block[k] >= 0) {
      mass += blocks_[z(response.block[k])]->mass;
      continue;
    }
    const Slot at = slot_of(body[k]);
    const double inverse = double(pools.bodies[body[k]].m_invMass.x());
    if (at.block != own && inverse > 0) mass += 1 / inverse;
  }
  const double share = mass * (response.held + held_by(row, response));
  if (!(share < 1)) return;
  const btScalar erp = point.m_contactPointFlags & BT_CONTACT_FLAG_HAS_CONTACT_ERP ? point.m_contactERP : info.m_erp2;
  row.m_rhs -= btScalar(1 - std::sqrt(std::max(share, 0.0))) * depth * erp / btScalar(dt_) * row.m_jacDiagABInv;
}

// Likewise of a limit or lock that is exceeded: it is driven back no harder than if all that hangs together turned, or
// slid, as one, nor by more energy than limits may give in a step, nor than it came. A mechanism at rest without forces
// has no such energy: what would bring it back as one in some seconds is always there.
void Engine::drive_back_gently(btSolverConstraint& row, const Response& response, Pools pools) const {
  const int own = response.block[0] >= 0 ? response.block[0] : response.block[1];
  const bool limit = is_limit(row);
  if (own < 0 || !(limit || is_lock(row, *this)) || !(row.m_jacDiagABInv > 0)) return;
  const auto known = record_of_.find(static_cast<btTypedConstraint*>(row.m_originalContactPoint));
  if (known == record_of_.end() || records_[z(known->second)].id.index < 0) return;
  const double speed = speed_at_start(row, pools, 0) + speed_at_start(row, pools, 1),
               asked = double(row.m_rhs) / double(row.m_jacDiagABInv) + speed,
               sign = (limit ? row.m_lowerLimit == 0 : asked > 0) ? 1 : -1;
  const double came = std::max(-sign * speed, 0.0);
  const double target = sign * asked;
  if (!(target > came)) return;
  const Vector3d slide = from_bullet(response.block[0] >= 0 ? row.m_contactNormal1 : row.m_contactNormal2),
                 turn = from_bullet(response.block[0] >= 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal);
  BlockSolve& b = *blocks_[z(own)];
  double as_one = b.mass * slide.squaredNorm();
  if (slide.isZero()) {
    const Vector3d about = system_.constraint(records_[z(known->second)].id).acting_point(0, state_);
    for (const BodyId id : b.block.bodies) {
      const BodyState& s = state_[id];
      as_one += system_.mass(id) * turn.cross(s.p - about).squaredNorm();
      if (system_.dof(id) == 6) as_one += turn.dot(system_.world_inertia(id, s.q) * turn);
    }
  }
  const double held = response.held + held_by(row, response);
  const double share = as_one * held;
  constexpr double return_time = 2;  // [s]
  const double slow = std::min(1.0, dt_ / (double(world_->getSolverInfo().m_erp) * return_time)) * target,
               returning = 0.5 * as_one * slow * slow;
  b.limit_return = std::max(b.limit_return, returning);
  const double gently =
      std::max(came, std::min({target, std::sqrt(std::max(share, 0.0)) * target,
                               std::sqrt(2 * std::max(held, 0.0) * std::max(b.may_give[HeldRow::limit], returning))}));
  row.m_rhs -= btScalar(sign * (target - gently)) * row.m_jacDiagABInv;
}

// Makes a row's step the right one for what it moves. Bullet's zero factors act on the body and not on the row: what a
// row then moves of itself may be any number, a negative one too. No further than Bullet's own step, which leaves them
// out, for what it takes itself to move.
void Engine::step_by_response(btSolverConstraint& row, const Response& response) const {
  if (response.block[0] < 0 && response.block[1] < 0) return;
  const double native = double(world_->getSolverInfo().m_sor) / double(row.m_jacDiagABInv);
  const double soft = double(row.m_cfm) / double(row.m_jacDiagABInv);  // gives way by as much of itself
  const double own = std::min(response.raw + soft, native), held = response.held + held_by(row, response) + soft;
  if (!(own > 0)) return;
  if (!(held > least_freedom * own)) return let_be(row);
  const btScalar longer = btScalar(own / held);
  row.m_jacDiagABInv *= longer;
  row.m_rhs *= longer;
  row.m_cfm *= longer;
}

// What pushes at nothing that moves would push more in every iteration, for ever: a contact or limit within what its
// constraints leave no freedom does nothing. What has its limits, a motor, pushes as hard as it can.
void Engine::let_be(btSolverConstraint& row) {
  constexpr btScalar no_limit = btScalar(1e10);  // as Bullet writes it in contacts
  if (row.m_upperLimit < no_limit && row.m_lowerLimit > -no_limit) return;
  row.m_jacDiagABInv = row.m_rhs = row.m_cfm = 0;
}

// As Bullet's own scalar row solver, but for what moves; where that is no more than Bullet takes it to be, Bullet's
// own.
btScalar Engine::resolve_row(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above) {
  // What is let be leaves nothing to do: 0 · ∞ would hide from Bullet, which ends where all rows leave nothing, what
  // the rows before it do.
  if (row.m_jacDiagABInv == 0) return 0;
  const Response* response = nullptr;
  for (const RowRange& range : row_ranges_)
    if (!std::less<>()(&row, range.first) && std::less<>()(&row, range.first + range.size))
      response = &responses_[z(range.response + static_cast<int>(&row - range.first))];
  if (!response || (response->block[0] < 0 && response->block[1] < 0))
    return bounded_above ? native_generic_(a, b, row) : native_lower_(a, b, row);
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
  for (int k = 0; change != 0 && k < 2; ++k) {
    if (response->block[k] >= 0) {
      const BlockSolve& block = *blocks_[z(response->block[k])];
      const btVector3* part = &response_parts_[response->first[k]];
      for (const int slot : block.met) {
        btSolverBody& moved = (*coupled_bodies_)[block.pool[z(slot)]];
        moved.internalGetDeltaLinearVelocity() += part[0] * change;
        moved.internalGetDeltaAngularVelocity() += part[1] * change;
        part += 2;
      }
      continue;
    }
    const Slot at = slot_of(body[z(k)]);
    if (k == 1 && at.block >= 0 && at.block == response->block[0]) continue;  // moved with the other side
    if (k == 0)
      a.internalApplyImpulse(row.m_contactNormal1 * a.internalGetInvMass(), row.m_angularComponentA, change);
    else
      b.internalApplyImpulse(row.m_contactNormal2 * b.internalGetInvMass(), row.m_angularComponentB, change);
  }
  return change * (btScalar(1) / row.m_jacDiagABInv);
}

void Engine::begin_rows(Pools pools, btSingleConstraintRowSolver generic, btSingleConstraintRowSolver lower) {
  solving = this;
  native_generic_ = generic;
  native_lower_ = lower;
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
