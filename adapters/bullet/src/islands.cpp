// In place of Bullet's island pass, whose cost is islands × constraints: the world hands over everything at once, what
// sleeps is left out here, and blocks that nothing native touches are solved straight from their bodies. The rest goes
// to the native solver as one group.
#include "engine.h"

#include "columns.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>

#include <algorithm>
#include <cmath>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

bool sleeps(const btCollisionObject& body) { return body.getActivationState() == ISLAND_SLEEPING; }
bool awake(const btRigidBody& body) { return !body.isStaticOrKinematicObject() && !sleeps(body); }

}  // namespace

// Only while we solve: the setting is the program's, and the next solver's.
void Engine::take_islands() {
  if (islands_) islands_->exchange_split();
  btSimulationIslandManager& islands = *world_->getSimulationIslandManager();
  // Bullet's own pass where nothing is exact, with its order of islands, and bits; but not from several threads.
  whole_world_ = options_.mode == Mode::exact && base_name_ == "sequential impulse" && (has_exact_ || threads_);
  islands_were_split_ = islands.getSplitIslands();
  if (whole_world_) islands.setSplitIslands(false);
}

void Engine::give_islands_back() {
  if (whole_world_) world_->getSimulationIslandManager()->setSplitIslands(islands_were_split_);
  whole_world_ = false;
}

/// Who is who of what the world hands over, mostly what it did in the last step.
void Engine::recognize(btCollisionObject** bodies, int nb, btTypedConstraint** constraints, int nc) {
  const bool same = handed_structure_ == structure_ && handed_objects_.size() == z(nb) &&
                    handed_constraints_.size() == z(nc) && std::equal(bodies, bodies + nb, handed_objects_.begin()) &&
                    std::equal(constraints, constraints + nc, handed_constraints_.begin());
  if (same) return;
  handed_structure_ = structure_;
  handed_objects_.assign(bodies, bodies + nb);
  handed_constraints_.assign(constraints, constraints + nc);
  handed_bodies_.clear();
  handed_ends_.clear();
  const auto find = [&](const btRigidBody* body) {
    const auto known = body ? id_of_.find(body) : id_of_.end();
    return known == id_of_.end() || place_[z(known->second)] < 0 ? -1 : known->second;
  };
  for (int i = 0; i < nb; ++i) handed_bodies_.push_back(find(btRigidBody::upcast(bodies[i])));
  for (int i = 0; i < nc; ++i)
    handed_ends_.push_back({find(&constraints[i]->getRigidBodyA()), find(&constraints[i]->getRigidBodyB())});
}

WorldGroup& Engine::gather_awake(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                 btTypedConstraint** constraints, int nc, btDispatcher* dispatcher) {
  WorldGroup& g = world_group_;
  g.bodies.clear();
  g.manifolds.clear();
  g.constraints.clear();
  recognize(bodies, nb, constraints, nc);
  group_bodies_.clear();
  awake_.assign(body_of_.size(), 0);
  timers_run_ = false;
  constexpr int ahead = 8;
  for (int i = 0; i < nb; ++i) {
    if (i + ahead < nb) prefetch(&bodies[i + ahead]->getAnisotropicFriction(), 7 * sizeof(btVector3));
    const btRigidBody* body = btRigidBody::upcast(bodies[i]);
    timers_run_ = timers_run_ || bodies[i]->getDeactivationTime() > 0;
    if (!body || !awake(*body)) continue;
    const int id = handed_bodies_[z(i)];
    g.bodies.push_back(bodies[i]);
    group_bodies_.push_back(id);
    if (id >= 0) awake_[z(id)] = 1;
  }
  const bool sorted = world_->getDispatchInfo().m_deterministicOverlappingPairs;
  for (int i = 0; i < nm; ++i) {  // as btSimulationIslandManager::buildIslands chooses them
    const btCollisionObject &a = *manifolds[i]->getBody0(), &b = *manifolds[i]->getBody1();
    if ((sorted && manifolds[i]->getNumContacts() == 0) || (sleeps(a) && sleeps(b))) continue;
    // Of bodies that have been joined since, and told not to collide, Bullet keeps the contacts as they were.
    if (!a.checkCollideWith(&b) || !b.checkCollideWith(&a)) continue;
    if (dispatcher->needsResponse(&a, &b)) g.manifolds.push_back(manifolds[i]);
  }
  if (sorted) {
    const auto key = [](const btPersistentManifold* m) {
      return std::pair(m->getBody0()->getBroadphaseHandle()->m_uniqueId,
                       m->getBody1()->getBroadphaseHandle()->m_uniqueId);
    };
    std::sort(g.manifolds.begin(), g.manifolds.end(), [&](const auto* x, const auto* y) { return key(x) < key(y); });
  }
  for (int i = 0; i < nc; ++i) {
    const auto [a, b] = handed_ends_[z(i)];
    if ((a >= 0 ? awake_[z(a)] != 0 : awake(constraints[i]->getRigidBodyA())) ||
        (b >= 0 ? awake_[z(b)] != 0 : awake(constraints[i]->getRigidBodyB())))
      g.constraints.push_back(constraints[i]);
  }
  return g;
}

// Blocks of the group that no contact and no native row touches leave it.
void Engine::set_apart(WorldGroup& g) {
  apart_.clear();
  if (group_.empty()) return;
  touched_by_native_.assign(body_of_.size(), 0);
  const auto touch = [&](const btCollisionObject* object) {
    const btRigidBody* body = btRigidBody::upcast(object);
    if (!body || body->isStaticOrKinematicObject()) return;
    if (const auto known = id_of_.find(body); known != id_of_.end()) touched_by_native_[z(known->second)] = 1;
  };
  for (const btPersistentManifold* m : g.manifolds) {
    if (m->getNumContacts() == 0) continue;
    touch(m->getBody0());
    touch(m->getBody1());
  }
  for (const btTypedConstraint* c : rest_) {
    touch(&c->getRigidBodyA());
    touch(&c->getRigidBodyB());
  }
  const auto kept = std::remove_if(group_.begin(), group_.end(), [&](int index) {
    const std::vector<BodyId>& ids = blocks_[z(index)]->block.bodies;
    if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return touched_by_native_[z(id.index)] != 0; }))
      return false;
    apart_.push_back(index);
    return true;
  });
  group_.erase(kept, group_.end());
  if (apart_.empty()) return;
  set_apart_.assign(body_of_.size(), 0);
  for (const int index : apart_)
    for (const BodyId id : blocks_[z(index)]->block.bodies) set_apart_[z(id.index)] = 1;
  std::size_t left = 0;
  for (std::size_t i = 0; i < g.bodies.size(); ++i) {
    if (const int id = group_bodies_[i]; id >= 0 && set_apart_[z(id)] != 0) {
      set_apart_[z(id)] = 2;
    } else {
      g.bodies[left++] = g.bodies[i];
    }
  }
  g.bodies.resize(left);
  for (const int index : apart_) {  // constrained, but not in the world
    BlockSolve& b = *blocks_[z(index)];
    b.stray = std::any_of(b.block.bodies.begin(), b.block.bodies.end(),
                          [&](BodyId id) { return set_apart_[z(id.index)] == 1; });
  }
}

// What cannot be solved goes to the native solver with the rest.
void Engine::solve_apart(WorldGroup& g) {
  sync_outside(apart_);
  alike_.clear();
  std::size_t first = 0;
  for (std::size_t i = 0; i < apart_.size(); ++i) {
    BlockSolve& b = *blocks_[z(apart_[i])];
    b.stage = BlockSolve::Stage::waits;
    lay_out_plain(b);
    const BlockSolve& before = *blocks_[z(apart_[first])];
    const bool goes_on = i > first && i - first < detail::JointStep::most && b.plain_fits && before.plain_fits &&
                         b.plain.shape() == before.plain.shape();
    if (i > first && !goes_on) {
      alike_.push_back(std::span(apart_).subspan(first, i - first));
      first = i;
    }
  }
  if (!apart_.empty()) alike_.push_back(std::span(apart_).subspan(first));
  if (crew_ && alike_.size() > 1) {
    make_ends();  // of all states, which others write to meanwhile
    solve_on_several_threads();
  }
  for (const std::span<const int> blocks : alike_) {
    begin_apart(blocks, 0);
    for (const int index : blocks) solve_in_turns(*blocks_[z(index)], g);
  }
}

/// Functions and laws of the program's own are called from the program's thread.
bool Engine::calls_the_program(const BlockSolve& b) const { return b.of_users || b.with_laws || b.remembers; }

// Of those that wait for it.
void Engine::begin_apart(std::span<const int> blocks, int member) {
  using Stage = BlockSolve::Stage;
  std::array<int, detail::JointStep::most> read;
  std::size_t count = 0;
  for (const int index : blocks) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.stage != Stage::waits) continue;
    b.states = substep_states_[z(member)].get();
    if (!read_block(b, nullptr)) b.stage = Stage::refused;
    read[count++] = index;
  }
  take_plainly(std::span(read).first(count), member);
  for (const int index : std::span(read).first(count))
    if (BlockSolve& b = *blocks_[z(index)]; b.stage == Stage::waits)
      b.stage = begin_block(b, false) ? Stage::begun : Stage::refused;
}

// What is left of it: all where one thread does everything.
void Engine::solve_in_turns(BlockSolve& b, WorldGroup& g) {
  using Stage = BlockSolve::Stage;
  b.states = substep_states_[0].get();
  if (b.stage == Stage::begun) b.stage = finish_block(b) ? Stage::solved : Stage::refused;
  if (b.stage == Stage::refused) {
    fail_block(b, b.trouble);
    for (const BodyId id : b.block.bodies) g.bodies.push_back(body_of_[z(id.index)]);
  } else if (g.manifolds.empty() && rest_.empty() && !calls_the_program(b)) {
    // While its numbers are at hand; else not before the native solver is done, which writes to the bodies of every
    // manifold, those without contacts too.
    conclude(b);
    b.stage = Stage::concluded;
  }
}

// Each block comes out as it would on one thread: what it reads of others' is read beforehand, and what closes gaps
// waits for the caller, because that is done with memory that remembers the blocks before.
void Engine::solve_on_several_threads() {
  using Stage = BlockSolve::Stage;
  crew_->share(static_cast<int>(alike_.size()), [this](int job, int member) {
    const std::span<const int> blocks = alike_[z(job)];
    if (calls_the_program(*blocks_[z(blocks[0])])) return;  // and is alone there
    begin_apart(blocks, member);
    for (const int index : blocks) {
      BlockSolve& b = *blocks_[z(index)];
      if (b.stage != Stage::begun || largest(b.dynamics->assembly().position) > options_.gap_tolerance ||
          turned_away(b) > 0)
        continue;
      b.stage = finish_block(b) ? Stage::solved : Stage::refused;
    }
  });
}

void Engine::conclude_apart() {
  for (const int index : apart_)
    if (BlockSolve& b = *blocks_[z(index)]; b.stage != BlockSolve::Stage::concluded) conclude(b);
  apart_.clear();
  end_group();
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
