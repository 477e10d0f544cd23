// Before and during Bullet's native iterations. A group of islands is cut into blocks of bodies joined by exact
// constraints; the native rows of a block (contacts, limits, motors) start from velocities that meet its constraints,
// and after every native iteration the block is solved directly again: a block Gauss–Seidel. Split-impulse pushes are
// held likewise.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "multibody.h"

#include <linchpin/detail/turned_joints.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
/// All that watch_bodies() reads of a body, which may be gone by now: it is not asked where that lies.
void prefetch_body(const btRigidBody* body) {
  static const auto lies = [] {
    const btRigidBody& any = btTypedConstraint::getFixedBody();
    const auto at = [&](const void* part) {
      return static_cast<const char*>(part) - static_cast<const char*>(static_cast<const void*>(&any));
    };
    return std::array{at(&any.getWorldTransform()), at(&any.getAnisotropicFriction()), at(&any.getLinearVelocity()),
                      at(&any.getAngularFactor()) - std::ptrdiff_t{3 * sizeof(btVector3)}};
  }();
  const char* const first = static_cast<const char*>(static_cast<const void*>(body));
  prefetch(first + lies[0], sizeof(btTransform));
  prefetch(first + lies[1], 7 * sizeof(btVector3));  // to flags, kind and thresholds
  prefetch(first + lies[2], 9 * sizeof(btVector3));  // to loads
  prefetch(first + lies[3], 4 * sizeof(btVector3));  // with flags
}

/// One that the last step did not need, when there are more of those than of others; −1 when not.
int unused_block(const std::vector<std::unique_ptr<BlockSolve>>& blocks, unsigned step) {
  std::size_t used = 0;
  int oldest = -1;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]->last_step + 1 >= step)
      ++used;
    else if (oldest < 0 || blocks[i]->last_step < blocks[z(oldest)]->last_step)
      oldest = static_cast<int>(i);
  }
  return blocks.size() > 2 * used + 8 ? oldest : -1;
}

}  // namespace

void Engine::begin_step() {
  for (const auto& b : blocks_) {
    if (falls_asleep(*b)) tell(*b);
    b->told = true;  // what nobody asked about is past
  }
  ++step_;
  if (!world_) return;
  stepped_ = true;
  past_proxies_.clear();
  scan_world();
  still_.clear();
  watch_bodies();
  engage_one_sided();
  watch_joints();
  while (bodies_came_) {  // a joint classified again may name a body not known before
    watch_bodies();
    watch_joints();
  }
  timers_run_ = true;
  take_islands();
  order_laws();
  for (LawWork& law : law_works_) law.last = 0;
  follow_driven();
  for (const int i : failed_records_) {
    records_[z(i)].why_native.clear();
    records_[z(i)].native_seen = false;
  }
  failed_records_.clear();
  for (const int i : with_native_part_) records_[z(i)].native_seen = false;
  group_.clear();
  books_.clear();
  if (multibodies_) multibodies_->begin_step();
  free_places();
}

/// Whether all of a block that was stepped last may be put to sleep in the step that begins. What is told of it then is
/// that of its last step awake, which knows nobody else: bodies forget their forces.
bool Engine::falls_asleep(const BlockSolve& b) const {
  if (b.told || !world_ || b.ids.empty() || b.failed || b.last_step != step_) return false;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  return std::all_of(b.block.bodies.begin(), b.block.bodies.end(), [&](BodyId id) {
    const int at = place_[z(id.index)];  // it may be gone by now
    if (at < 0 || at >= all.size() || !body_of_[z(id.index)] || all[at] != body_of_[z(id.index)]) return false;
    const int state = all[at]->getActivationState();
    return state == WANTS_DEACTIVATION || state == ISLAND_SLEEPING;
  });
}

// What sleeps does not follow an animated body: Bullet wakes nobody for it, and the joint between them would open. In
// time for this step's islands, which wake whatever hangs on it.
void Engine::follow_driven() {
  if (options_.mode == Mode::observe) return;
  for (const int i : with_driven_) {
    const Record& r = records_[z(i)];
    const bool moves = std::any_of(r.bodies.begin(), r.bodies.end(), [](const btRigidBody* body) {
      return body->isKinematicObject() && !(body->getLinearVelocity().isZero() && body->getAngularVelocity().isZero());
    });
    for (btRigidBody* body : r.bodies)
      if (moves && !body->isStaticOrKinematicObject() && !body->isActive()) body->activate();
  }
}

// One-sided constraints that let go hold again in the step in which their gap would close: it then ends on the surface.
// Those that hold let go before a step that begins with bodies thrown apart, faster than steps leave them, or put
// apart.
void Engine::engage_one_sided() {
  const bool listed = watched_structure_ == structure_;  // those of a constraint just made are not yet
  const int count = static_cast<int>(listed ? timed_records_.size() : records_.size());
  for (int i = 0; i < count; ++i) {
    Record& r = records_[z(listed ? timed_records_[z(i)] : i)];
    if (!r.alive || !r.one_sided.on || r.id.index < 0 || !r.enabled || (r.let_go && !r.one_sided.reengage)) continue;
    std::vector<double> A, b, position, velocity;
    linearize(r, A, b, position, velocity);
    double gain = -dt_ * b[0];  // of φ̇ by the applied forces alone
    for (std::size_t k = 0; k < r.bodies.size(); ++k) {
      const btRigidBody& body = *r.bodies[k];
      if (body.isStaticOrKinematicObject()) continue;
      const Vector3d a = double(body.getInvMass()) * from_bullet(body.getTotalForce()),
                     alpha = from_bullet(body.getInvInertiaTensorWorld() * body.getTotalTorque());
      for (std::size_t j = 0; j < 3; ++j)
        gain += dt_ * (A[6 * k + j] * a[static_cast<int>(j)] + A[6 * k + 3 + j] * alpha[static_cast<int>(j)]);
    }
    const double sign = r.one_sided.negative ? -1 : 1, parts = sign * velocity[0];
    if (!r.let_go) {
      const bool open = r.one_sided.reengage && sign * position[0] > options_.gap_tolerance;
      if (open || parts > 2 * r.parting + 2 * std::abs(gain)) {
        r.let_go = true;
        ++counts_.released;
        switch_on(r, false);
      }
      r.parting = std::abs(parts);
    } else if (sign * (position[0] + dt_ * (velocity[0] + gain)) < 0) {
      r.let_go = false;
      r.parting = std::abs(parts);
      ++counts_.engaged;
      switch_on(r, r.enabled);
      wake(r);
    }
  }
}

/// What of a body's factors is not 1, remembered. @return whether it is other than it was
bool Engine::has_other_factors(int id, const btRigidBody& body) {
  const auto known = odd_factors_.find(id);
  const Factors is{body.getLinearFactor(), body.getAngularFactor()};
  if (known != odd_factors_.end() && known->second.linear == is.linear && known->second.angular == is.angular)
    return false;
  odd_factors_[id] = is;
  return true;
}

/// What the core's system depends on. @return whether it is other than it was
bool Engine::note_settings(std::size_t i, const btRigidBody& body) {
  constexpr int disabled = 1 << 30, turning = 1 << 29, odd_linear = 1 << 28, odd_angular = 1 << 27;
  const auto ones = [](const btVector3& u) { return u.x() == 1 && u.y() == 1 && u.z() == 1; };
  const btVector3& inverse_inertia = body.getInvInertiaDiagLocal();
  const int flags = body.getCollisionFlags() | (is_disabled(body) ? disabled : 0) |
                    (is_turning_point(body) ? turning : 0) | (ones(body.getLinearFactor()) ? 0 : odd_linear) |
                    (ones(body.getAngularFactor()) ? 0 : odd_angular);
  const bool odd = (flags & (odd_linear | odd_angular)) != 0;
  BodyWatch& w = body_watch_[i];
  const bool other_factors = odd && has_other_factors(static_cast<int>(i), body);
  if (w.body == &body && w.flags == flags && w.inverse_mass == body.getInvMass() &&
      w.inverse_inertia[0] == inverse_inertia.x() && w.inverse_inertia[1] == inverse_inertia.y() &&
      w.inverse_inertia[2] == inverse_inertia.z() && !other_factors)
    return false;
  w.body = &body;
  w.flags = flags;
  w.inverse_mass = body.getInvMass();
  for (int k = 0; k < 3; ++k) w.inverse_inertia[k] = inverse_inertia[k];
  if (!odd) odd_factors_.erase(static_cast<int>(i));
  return true;
}

/// Pose, velocities and loads of a body as they are.
void Engine::take_state(BodyId id) {
  const btRigidBody& body = *body_of_[z(id.index)];
  read_state(body, state_[id]);
  loads_[z(id.index)] = {from_bullet(body.getTotalForce()), from_bullet(body.getTotalTorque())};
  body_watch_[z(id.index)].settings = body.getFlags();
}

// One walk over the bodies for all that is looked at before a step: whether each is still there, a velocity that is no
// number, what else the program may change at any time (mass, factors, kind), and what the step starts from.
void Engine::watch_bodies() {
  bool changed = std::exchange(bodies_came_, false);
  driven_.clear();
  any_swept_ = false;
  constexpr std::size_t ahead = 3;
  for (std::size_t i = 1; i < body_of_.size(); ++i) {  // one that changes kind comes again at the end
    if (i + ahead < body_of_.size() && body_of_[i + ahead]) prefetch_body(body_of_[i + ahead]);
    if (body_of_[i]) drop_if_gone(i);
    btRigidBody* body = body_of_[i];
    BodyWatch& w = body_watch_[i];
    if (!body) {
      changed = changed || w.body;
      w = {};
      continue;
    }
    const bool moves = !body->isStaticOrKinematicObject();
    if (moves && options_.mode != Mode::observe) refuse_velocities(*body, static_cast<int>(i));
    if (note_settings(i, *body)) {
      changed = true;
      const BodyId id = body_id(*body);
      if (id.index == static_cast<int>(i)) sync_mass(*body, id);
      changed_bodies_.push_back(body);
      if (id.index != static_cast<int>(i)) continue;
    }
    if (body->isKinematicObject()) driven_.push_back(static_cast<int>(i));
    any_swept_ = any_swept_ || body->getCcdSquareMotionThreshold() != 0;
    if (!moves) continue;
    take_state(system_.body_at(static_cast<int>(i)));
    body_watch_[i].read_at = step_;
  }
  std::sort(changed_bodies_.begin(), changed_bodies_.end(), std::less<>());
  for (std::size_t k = 0; k < records_.size() && !changed_bodies_.empty(); ++k) {
    Record& r = records_[k];
    if (!r.alive || r.held || r.on_links ||
        std::none_of(r.bodies.begin(), r.bodies.end(), [&](const btRigidBody* body) {
          return std::binary_search(changed_bodies_.begin(), changed_bodies_.end(), body, std::less<>());
        }))
      continue;
    if (r.joint) {
      r.seen_to = false;
    } else {
      const std::vector<BodyId> ids(own(r).bodies().begin(), own(r).bodies().end());
      bool other = r.id.index < 0;                  // it waits for one of them to move again
      for (std::size_t j = 0; j < ids.size(); ++j)  // or one moves by itself that stood, as the core has it do still
        other = other || ids[j] != body_id(*r.bodies[j]) || part_of(*r.bodies[j]) == BodyPart::unsupported;
      if (other) join_anew(r);
    }
  }
  changed_bodies_.clear();
  if (!changed) return;
  ++structure_;
  hold_locked_axes();
}

// A body that became kinematic, or dynamic again, is another one to the core.
void Engine::join_anew(Record& r) {
  std::vector<BodyId> ids;
  std::string why;
  for (btRigidBody* body : r.bodies) {
    ids.push_back(body_id(*body));
    if (part_of(*body) == BodyPart::unsupported) why = why_unsupported(*body);
  }
  Constraint same = own(r).between(std::move(ids));
  if (r.id.index >= 0) system_.remove(r.id);
  r.id = {};
  if (why.empty()) why = system_.try_add(same, &r.id);
  if (!why.empty()) {  // until a body of it can move again
    r.id = {};
    r.waiting = std::move(same);
    r.shape.native = "all (" + why + ")";
    return;
  }
  r.waiting.reset();
  r.order = ++orders_given_;
  r.shape.native.clear();
  for (const Law& law : r.laws) linchpin::add_law(system_, r.id, law);
  if (r.one_sided.on) linchpin::set_one_sided(system_, r.id, r.one_sided);
  laws_changed_ = true;
}

// Joints are classified again when their own numbers change; switching one on or off changes who is in which block.
void Engine::watch_joints() {
  if (watched_structure_ != structure_) {
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (records_[i].alive && records_[i].joint) classify_record(static_cast<int>(i));
    gaps_before_.clear();
    if (!gaps_told_ && reactions_made_) tell_gaps();
    if (!gaps_told_) gaps_before_.swap(gap_watch_);
    for (Seen& seen : world_order_) {
      const auto known = record_of_.find(seen.joint);
      const int at = known == record_of_.end() ? -1 : known->second;
      seen.record = at >= 0 && records_[z(at)].alive && records_[z(at)].joint == seen.joint ? at : -1;
      if (seen.record < 0) continue;
      const Record& r = records_[z(at)];
      seen.kind = r.kind;
      seen.numbers = r.numbers;
      seen.reach = reach_of_numbers(*seen.joint, r.kind);
      seen.enabled = seen.joint->isEnabled();
      seen.asks = asks_for_forces(*seen.joint);
    }
    joints_edited_ = false;
    with_native_part_.clear();
    timed_records_.clear();
    off_records_.clear();
    with_driven_.clear();
    gap_watch_.clear();
    has_exact_ = false;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      Record& r = records_[i];
      if (!r.alive) continue;
      const bool off = r.joint ? !r.joint->isEnabled() : !r.enabled || r.let_go;
      has_exact_ = has_exact_ || (!off && !r.held && r.id.index >= 0);
      if (r.joint) {
        // Nobody else would close the gap that has opened under bodies asleep.
        const bool was_on = std::exchange(r.joint_on, r.joint->isEnabled());
        if (r.joint_on && !was_on && r.id.index >= 0 && options_.mode == Mode::exact) wake(r);
      }
      if (r.native_part || r.id.index < 0 || options_.mode == Mode::observe)
        with_native_part_.push_back(static_cast<int>(i));
      if (!r.joint && !r.held && !r.on_links) timed_records_.push_back(static_cast<int>(i));
      if (!r.held && r.id.index >= 0 && (r.joint ? r.joint->isEnabled() : r.enabled) &&
          std::any_of(r.bodies.begin(), r.bodies.end(), [](const btRigidBody* b) { return b->isKinematicObject(); }))
        with_driven_.push_back(static_cast<int>(i));
      if (r.reaction < 0) continue;
      if (off)
        off_records_.push_back(static_cast<int>(i));
      else if (r.id.index >= 0 && system_.constraint(r.id).function().level() == Level::position)
        watch_gap(static_cast<int>(i));
    }
    watched_structure_ = structure_;
    for (std::size_t i = 0, k = 0; i < gap_watch_.size(); ++i) {  // in the order of records, both
      while (k < gaps_before_.size() && gaps_before_[k].record < gap_watch_[i].record) ++k;
      if (k < gaps_before_.size() && gaps_before_[k].record == gap_watch_[i].record)
        gap_watch_[i].gap = gaps_before_[k].gap;
    }
    return;
  }
  if (!joints_edited_) return;
  ++structure_;
  watch_joints();
}

// ---- a group: who is exact, who is native, which blocks
// ----------------------------------------------------------------

void Engine::begin_group(btTypedConstraint** constraints, int count, const btContactSolverInfo& info) {
  dt_ = double(info.m_timeStep);
  max_gyroscopic_force_ = double(info.m_maxGyroscopicForce);
  rest_.clear();
  group_.clear();
  const bool same = whole_world_ && grouped_structure_ == structure_ && last_constraints_.size() == z(count) &&
                    std::equal(last_constraints_.begin(), last_constraints_.end(), constraints);
  if (!same) {
    exact_records_.clear();
    stays_native_.clear();
    for (int i = 0; i < count; ++i) {
      btTypedConstraint* c = constraints[i];
      const auto known = world_ ? record_of_.find(c) : record_of_.end();
      if (known == record_of_.end()) {
        stays_native_.push_back({c, -1});
        continue;
      }
      Record& r = records_[z(known->second)];
      const bool exact = r.alive && r.id.index >= 0 && c->isEnabled();
      if (exact && !r.by_links)
        exact_records_.push_back(known->second);  // the user's own, by whichever of its proxies is awake
      if (!exact || options_.mode == Mode::observe)
        stays_native_.push_back({c, -1});
      else if (r.native_part)
        stays_native_.push_back({r.native_part.get(), known->second});
    }
    make_blocks();
    last_constraints_.assign(constraints, constraints + count);
    grouped_structure_ = structure_;
  }
  for (const auto& [constraint, record] : stays_native_) {
    if (record >= 0) {
      const btTypedConstraint& joint = *records_[z(record)].joint;
      constraint->setBreakingImpulseThreshold(joint.getBreakingImpulseThreshold());
      constraint->setOverrideNumSolverIterations(joint.getOverrideNumSolverIterations());
      constraint->setEnabled(true);
    }
    rest_.push_back(constraint);
  }
  if (!(dt_ > 0) || !std::isfinite(dt_)) return stand_still();
  group_ = last_group_;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    b.last_step = step_;
    b.failed = b.done = b.stray = false;
  }
}

// A step of no length, of a negative one or of one that is no number: joints cannot be kept together over it, and where
// Bullet integrates its bodies to is no place for them. They stay where they are, and as fast.
void Engine::stand_still() {
  if (options_.mode == Mode::observe) return;
  for (const int index : last_group_) {
    blocks_[z(index)]->last_step = step_ - 1;  // it is not solved in this one
    for (const BodyId id : blocks_[z(index)]->block.bodies)
      if (btRigidBody* body = body_of_[z(id.index)])
        still_.push_back({body, body->getWorldTransform(), body->getLinearVelocity(), body->getAngularVelocity()});
  }
  if (still_.empty()) return;
  char length[32];
  std::snprintf(length, sizeof length, "%g", dt_);
  trouble_ = "a step of " + std::string(length) + " s: what is under exact constraints stood still in it";
}

// A velocity that is no number once Bullet squares it (the program's own: a step leaves none) would be in every pose
// after it.
void Engine::refuse_velocities(btRigidBody& body, int id) {
  for (const bool turning : {false, true}) {
    const btVector3& u = turning ? body.getAngularVelocity() : body.getLinearVelocity();
    if (can_be_squared(u)) continue;
    char size[32];
    std::snprintf(size, sizeof size, "%g %s", std::hypot(double(u.x()), double(u.y()), double(u.z())),
                  turning ? "rad/s" : "m/s");
    trouble_ = "body '" + system_.name(system_.body_at(id)) + "' had a velocity of " + size +
               ", whose square is no number: it was taken for 0";
    ++counts_.non_finite;
    turning ? body.setAngularVelocity(btVector3(0, 0, 0)) : body.setLinearVelocity(btVector3(0, 0, 0));
  }
}

// Blocks: union–find over the movable bodies that exact constraints share.
void Engine::make_blocks() {
  last_group_.clear();
  if (exact_records_.empty()) return;
  ++group_count_;
  for (std::size_t i = 0, joints = exact_records_.size(); i < joints; ++i)
    for (const BodyId id : system_.constraint(records_[z(exact_records_[i])].id).bodies())
      if (Held& h = held_[z(id.index)]; h.record >= 0 && h.in_group != group_count_) {
        h.in_group = group_count_;
        exact_records_.push_back(h.record);
      }
  std::sort(exact_records_.begin(), exact_records_.end(),
            [&](int a, int b) { return records_[z(a)].order < records_[z(b)].order; });
  exact_records_.erase(std::unique(exact_records_.begin(), exact_records_.end()),
                       exact_records_.end());  // by several proxies, or added twice
  const int count = static_cast<int>(exact_records_.size());
  parent_.resize(z(count));
  std::iota(parent_.begin(), parent_.end(), 0);
  const auto root = [&](int i) {
    while (parent_[z(i)] != i) i = parent_[z(i)] = parent_[z(parent_[z(i)])];
    return i;
  };
  first_in_.assign(body_of_.size(), -1);
  for (int i = 0; i < count; ++i)
    for (const BodyId id : system_.constraint(records_[z(exact_records_[z(i)])].id).bodies()) {
      if (system_.dof(id) == 0) continue;
      int& first = first_in_[z(id.index)];
      if (first < 0) first = i;
      const int a = root(first), b = root(i);
      parent_[z(std::max(a, b))] = std::min(a, b);
    }
  // Members of each root in order: a chain of links through the list.
  next_in_.assign(z(count), -1);
  last_in_.resize(z(count));
  for (int i = 0; i < count; ++i) {
    const int first = root(i);
    if (first != i) next_in_[z(last_in_[z(first)])] = i;
    last_in_[z(first)] = i;
  }
  for (int i = 0; i < count; ++i) {
    if (root(i) != i) continue;
    // Sets of constraints are known again: what a joint that is switched off and on leaves and makes is analysed once.
    ConstraintSet key{records_[z(exact_records_[z(i)])].order, records_[z(exact_records_[z(last_in_[z(i)])])].order, 0};
    for (int j = i; j >= 0; j = next_in_[z(j)]) ++key.count;
    const auto known = block_of_set_.find(key);
    int index = known != block_of_set_.end() ? known->second : unused_block(blocks_, step_);
    if (index < 0) {
      index = static_cast<int>(blocks_.size());
      blocks_.push_back(std::make_unique<BlockSolve>());
    }
    if (known == block_of_set_.end()) {
      std::erase_if(block_of_set_, [&](const auto& x) { return x.second == index; });
      block_of_set_.emplace(key, index);
    }
    BlockSolve& b = *blocks_[z(index)];
    last_group_.push_back(index);
    // Same constraints as when it was last used: keep the factor's memory and the structure, but not what belongs to
    // the step before this.
    std::size_t n = 0;
    bool same = !b.ids.empty();
    if (b.last_step + 1 < step_) {
      b.last_length = b.next_length = b.usual_off = 0;
      b.added_steps = 0;
    }
    b.last_step = step_;
    for (int j = i; j >= 0; j = next_in_[z(j)], ++n)
      same = same && n < b.records.size() && b.records[n] == exact_records_[z(j)] &&
             b.ids[n] == records_[z(exact_records_[z(j)])].id;
    b.was_unmet = true;
    b.flags_rank = -1;  // another set may have told of its joints since
    b.of_users = b.with_laws = b.wants_all = b.breaks = b.remembers = b.geared = false;
    for (int j = i; j >= 0; j = next_in_[z(j)]) {
      const Record& r = records_[z(exact_records_[z(j)])];
      b.of_users = b.of_users || (!r.joint && !r.held);
      b.with_laws = b.with_laws || !r.laws.empty();
      b.wants_all = b.wants_all || b.with_laws || (r.joint && r.joint->getJointFeedback());
      b.breaks = b.breaks || (r.joint && r.joint->getBreakingImpulseThreshold() < SIMD_INFINITY);
      b.remembers = b.remembers || r.shape.function || (!r.joint && !r.held);
      b.geared = b.geared || r.shape.function;
    }
    if (same && n == b.records.size()) continue;
    const auto past = std::move(b.past);
    flush_work(b);
    b.records.clear();
    b.records_made = records_made_;
    b.ids.clear();
    b.touched.clear();
    b.outside.clear();
    b.with_driven = false;
    for (int j = i; j >= 0; j = next_in_[z(j)]) {
      const Record& r = records_[z(exact_records_[z(j)])];
      b.records.push_back(exact_records_[z(j)]);
      b.ids.push_back(r.id);
      for (const BodyId body : system_.constraint(r.id).bodies()) {
        b.touched.push_back(body);
        b.with_driven = b.with_driven || system_.kind(body) == BodyKind::driven;
      }
    }
    std::sort(b.touched.begin(), b.touched.end(), [](BodyId x, BodyId y) { return x.index < y.index; });
    b.touched.erase(std::unique(b.touched.begin(), b.touched.end()), b.touched.end());
    std::copy_if(b.touched.begin(), b.touched.end(), std::back_inserter(b.outside),
                 [&](BodyId id) { return system_.dof(id) == 0; });
    make_block(system_, b.ids, b.block);
    b.dynamics.reset();
    b.standing_told = {};
    b.plain_known = false;
    b.next_part = 0;
    b.last_length = b.usual_off = 0;
    b.added_steps = b.failures = 0;
    b.next_try = 0;
    b.added.assign(z(BlockSolve::added_orders * b.block.m()), 0.0);
    b.told = true;
    b.work.assign(z(b.block.m()), 0.0);
    b.joints.clear();
    for (std::size_t k = 0; k < b.records.size(); ++k)
      if (const Record& r = records_[z(b.records[k])]; r.joint)
        b.joints.push_back({r.joint, static_cast<int>(k), b.block.row[k], 3 * r.points + r.axes});
    find_rigid_parts(b);
    if (past && past->records == b.records) go_back(b, *past);
  }
}

// Bodies that welds hold to each other, directly or through others. What does not move is one more of them.
void Engine::find_rigid_parts(BlockSolve& b) {
  const int fixed = static_cast<int>(b.block.bodies.size());
  b.welded = false;
  b.part.resize(z(fixed + 1));
  std::iota(b.part.begin(), b.part.end(), 0);
  const auto root = [&](int i) {
    while (b.part[z(i)] != i) i = b.part[z(i)] = b.part[z(b.part[z(i)])];
    return i;
  };
  for (const int index : b.records) {
    const Record& r = records_[z(index)];
    if (!r.joint || 3 * r.points + r.axes != 3 || r.dots != 3) continue;
    std::array<int, 2> at;
    for (std::size_t k = 0; k < 2; ++k) {
      const int slot = b.block.slot(system_.constraint(r.id).bodies()[k]);
      at[k] = root(slot < 0 ? fixed : slot);
    }
    b.part[z(std::min(at[0], at[1]))] = std::max(at[0], at[1]);
    b.welded = true;
  }
  for (int i = 0; i < fixed; ++i)
    if (b.part[z(i)] = root(i); b.part[z(i)] == fixed) b.part[z(i)] = -1;
  b.part.pop_back();
}

// Bullet takes the rate of an animated body from an arc cosine, which in single precision is off by percents for small
// turns. Where its pose is a step away from the last one, the turn itself says better.
Vector3d Engine::driven_spin(BodyId id, const BodyState& now) const {
  const auto past = past_of_driven_.find(id.index);
  if (past == past_of_driven_.end()) return now.w;
  const Vector3d w = turn_between(past->second.q, now.q) / dt_;
  return (w - now.w).norm() <= 0.25 * std::max(w.norm(), now.w.norm()) ? w : now.w;
}

// What blocks share is read before any of them is solved: the clock, and the bodies that no equation moves.
void Engine::sync_outside(const std::vector<int>& blocks) {
  state_.t = base_.t = t_;
  end_.t = t_ + dt_;
  for (const int index : blocks)
    for (const BodyId id : blocks_[z(index)]->outside) sync_body(id);
}

void Engine::sync_body(BodyId id) {
  btRigidBody* body = body_of_[z(id.index)];
  const bool driven = body && system_.kind(id) == BodyKind::driven;
  if (driven) make_ends();
  if (!body) {
    if (ends_made_) base_[id] = end_[id] = state_[id];
    return;
  }
  BodyState s = read_state(*body);
  if (driven) {
    // Bullet shows an animated body where it will be at the end of the step, with its mean velocity; one that was
    // teleported is there and stands.
    if (teleported_) {
      s.v.setZero();
      s.w.setZero();
      state_[id] = base_[id] = end_[id] = s;
      return;
    }
    end_[id] = s;
    s.w = driven_spin(id, s);
    if (const auto past = past_of_driven_.find(id.index); past != past_of_driven_.end()) {
      s.a = (s.v - past->second.v) / dt_;
      s.alpha = (s.w - past->second.w) / dt_;
    }
    back_off(s.p, s.q, s.v, s.w, dt_);
  } else {
    if (system_.dof(id) == 0) {
      s.v.setZero();
      s.w.setZero();
    }
    if (ends_made_) end_[id] = s;
  }
  state_[id] = s;
  if (ends_made_) base_[id] = s;
}

// ---- before the native iterations
// --------------------------------------------------------------------------------------

// Its bodies and forces.
bool Engine::read_block(BlockSolve& b, const Pools* pools) {
  const Block& block = b.block;
  for (const BodyId id : block.bodies)  // a native setup that is done again finds bodies that we have moved
    if (pools || body_watch_[z(id.index)].read_at != step_) take_state(id);
  b.posed = b.sized = false;
  if (step_ < b.next_try) return refuse(b, std::move(b.trouble));
  const std::size_t n = z(block.n()), m = z(block.m());
  for (auto* x : {&b.v, &b.applied, &b.Q}) x->resize(n);  // all of it is written
  for (auto* x : {&b.e, &b.own_lambda}) x->resize(m);
  b.lambda.assign(m, 0);
  if (options_.mode == Mode::observe) {  // but where nobody steps
    b.v.assign(n, 0);
    b.own_lambda.assign(m, 0);
  }
  b.pool.assign(block.bodies.size(), -1);
  const bool by_stages = options_.stepping != Stepping::semi_implicit;
  for (auto* x : {&b.gyroscopic, &b.spinning}) x->assign(block.bodies.size(), 0);
  b.spins = false;
  b.turning.clear();
  b.native_rows = b.in_contact = b.on_ground = b.link_rows = b.by_rows = b.pushed = b.write_pose = false;
  b.damping.clear();
  b.one = -1;
  b.creeps = step_ < b.creeps_until;
  b.substeps = 1;
  b.in_parts = b.by_stages = b.recorded = b.end_after = b.plainly = b.plain_parts = b.in_turns = false;
  b.stepped_down = nullptr;
  b.has_kept = false;
  b.moved = b.gap_left = b.turned = b.away = b.by_reference = 0;
  if (std::exchange(b.on_the_way, false) && b.dynamics) detail::hold_as_made(system_, *b.dynamics);
  b.too_dear = false;
  b.follows = false;
  b.unmet = false;
  b.newton = 0;
  b.swing = 0;
  const bool plain = !pools && b.plain_fits;
  if (!plain) size_up(b);
  for (int slot = 0; slot < static_cast<int>(block.bodies.size()); ++slot) {
    const BodyId id = block.bodies[z(slot)];
    btRigidBody& body = *body_of_[z(id.index)];
    const int index = pools ? body.getCompanionId() : -1;
    const bool here =
        pools ? index >= 0 && index < pools->bodies.size() && pools->bodies[index].m_originalBody == &body : !b.stray;
    if (!here || place_[z(id.index)] < 0) {  // a native row may have brought in a body that nobody will move
      return refuse(b, "body '" + system_.name(id) + "' is constrained but not part of the island (not in the world?)");
    }
    b.pool[z(slot)] = index;
    const int c = block.column[z(slot)], dof = block.column[z(slot + 1)] - c;
    const auto& [force, torque] = loads_[z(id.index)];
    put(b.Q, c, force);
    if (pools)
      put(b.applied, c, system_.mass(id) * from_bullet(pools->bodies[index].m_externalForceImpulse));
    else  // as btSequentialImpulseConstraintSolver::initSolverBody and convertBodies have it
      put(b.applied, c, dt_ * force);
    if (dof != 6) continue;
    const int flags = body_watch_[z(id.index)].settings;
    b.gyroscopic[z(slot)] = is_gyroscopic(flags);
    put(b.Q, c + 3, torque);
    if (pools) {
      const Matrix3d R = state_[id].R();
      put(b.applied, c + 3,
          R * system_.inertia(id).diagonal().cwiseProduct(R.transpose() *
                                                          from_bullet(pools->bodies[index].m_externalTorqueImpulse)));
    } else {
      put(b.applied, c + 3, dt_ * torque);
    }
    if (!b.gyroscopic[z(slot)]) continue;
    constexpr int kinds = BT_ENABLE_GYROSCOPIC_FORCE_EXPLICIT | BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_WORLD |
                          BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY;
    if (plain && !options_.geometric_stiffness && (flags & kinds) == BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY &&
        !turns_far(state_[id].w))
      b.spinning[z(slot)] = b.spins = true;
    else
      add_spin(b, slot, pools != nullptr);
  }
  if (options_.geometric_stiffness && !by_stages && options_.mode == Mode::exact) {
    if (!b.sized) size_up(b);
    b.stiffness.clear();
    const bool goes_on = b.last_length == dt_ && b.next_stiffness.size() == block.bodies.size();
    set_stiffness(b, goes_on ? std::span<const Matrix3d>(b.next_stiffness) : std::span<const Matrix3d>{});
  }
  return true;
}

/// Of a body that is gyroscopic, the torque of its own spin (T2): at the step's start in Q, and what the step has of it
/// in `applied`.
/// @param by_host  which has Bullet's part of it already
void Engine::add_spin(BlockSolve& b, int slot, bool by_host) const {
  const BodyId id = b.block.bodies[z(slot)];
  const int c = b.block.column[z(slot)] + 3, flags = body_watch_[z(id.index)].settings;
  const Matrix3d R = state_[id].R();
  const Vector3d I = system_.inertia(id).diagonal();  // all that Bullet's bodies have
  const Vector3d& w = state_[id].w;
  const Vector3d u = R.transpose() * w, L = I.cwiseProduct(u);
  const bool fast = w.squaredNorm() * (dt_ * dt_) > 0.25, far = turns_far(w);
  const Vector3d change = by_host && !fast && !far
                              ? Vector3d::Zero()
                              : gyroscopic_change(body_of_[z(id.index)], flags, R, I, u, L, max_gyroscopic_force_);
  if (!by_host) add(b.applied, c, R * I.cwiseProduct(change));
  // Bullet's rules make one step of Newton's, or none, and may multiply the rate of a body that tumbles fast.
  if (far)
    add(b.applied, c, b.turning.add(slot, state_[id], I, dt_) - R * I.cwiseProduct(change));
  else if (fast && (u + change).dot(I.cwiseProduct(u + change)) > u.dot(L))
    add(b.applied, c, dt_ * mean_gyroscopic_torque(I, state_[id], dt_) - R * I.cwiseProduct(change));
  add(b.Q, c, -(R * u.cross(L)));
}

/// What plain steps find themselves, for those that do not.
void Engine::add_spins(BlockSolve& b) const {
  if (!std::exchange(b.spins, false)) return;
  for (int slot = 0; slot < static_cast<int>(b.spinning.size()); ++slot)
    if (b.spinning[z(slot)]) add_spin(b, slot, false);
}

/// Room for what plain steps that no native row touches do without, and the velocities at the step's start.
void Engine::size_up(BlockSolve& b) const {
  const Block& block = b.block;
  const std::size_t n = z(block.n());
  for (auto* x : {&b.v0, &b.Q_host}) x->resize(n);
  if (options_.mode == Mode::observe)
    for (auto* x : {&b.force, &b.dv}) x->assign(n, 0);
  else
    for (auto* x : {&b.force, &b.dv}) x->resize(n);
  b.target.resize(z(block.m()));
  for (auto* x : {&b.host, &b.at_once, &b.spread}) x->assign(n, 0);
  b.held_rows.clear();
  b.sized = true;
  for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
    const BodyState& s = state_[block.bodies[slot]];
    const int c = block.column[slot];
    put(b.v0, c, s.v);
    if (block.column[slot + 1] - c == 6) put(b.v0, c + 3, s.w);
  }
}

// Not before something is asked of it that a plain step does not need.
void Engine::make_dynamics(BlockSolve& b) const {
  SolveOptions solve;
  solve.rank_tolerance = options_.rank_tolerance;
  solve.reference_rows = 120;  // a step does not wait
  b.dynamics.emplace(system_, b.ids, solve);
}

/// @param among_rows  its group has native rows
bool Engine::begin_block(BlockSolve& b, bool among_rows) {
  add_spins(b);
  if (!b.dynamics) make_dynamics(b);
  if (!b.sized) size_up(b);
  make_ends();
  b.next_length = 0;
  for (const BodyId id : b.block.bodies) base_[id] = end_[id] = state_[id];
  b.posed = true;
  if (b.with_laws) b.dynamics->set_step(dt_);  // friction obeys its law at the end of the step (T10)
  ++b.tally.factors;
  // Among Bullet's rows the answer waits for their impulses; friction's state is needed before (T10). Stages find their
  // own.
  const bool later =
      (among_rows && !b.with_laws && options_.mode == Mode::exact && options_.drift_correction) || stages_answer(b);
  if ((later ? b.dynamics->factor(state_) : b.dynamics->evaluate(state_, b.Q)) == Status::invalid)
    return refuse(b, b.dynamics->reason());
  b.answered = !later;
  ++b.tally.solves;
  return true;
}

// How Bullet's gyroscopic term changes a body's angular velocity in a step [rad/s], in the body's axes. Of its three
// kinds the one that bodies have unless told otherwise, a Newton step of implicit Euler, is taken here, in double.
/// @param body  asked about Bullet's other two kinds only: of the first it may be gone by now
Vector3d Engine::gyroscopic_change(const btRigidBody* body, int flags, const Matrix3d& R, const Vector3d& I,
                                   const Vector3d& u, const Vector3d& L, double most) const {
  const btScalar h = btScalar(dt_);
  Vector3d change = Vector3d::Zero();
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_EXPLICIT)
    change -= R.transpose() *
              from_bullet(body->computeGyroscopicForceExplicit(btScalar(most)) * body->getInvInertiaTensorWorld() * h);
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_WORLD)
    change += R.transpose() * from_bullet(body->computeGyroscopicImpulseImplicit_World(h));
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY)
    change -= detail::solve_gyroscopic(I, u, L, dt_, dt_ * u.cross(L));
  return change;
}

/// An animated body that kept its mass is moved by Bullet's rows, warm start and pushes, and by forces on it: away from
/// where the program and the constraints have it, and with a velocity that it still has in the next of several
/// substeps.
void Engine::hold_animated(Pools pools) const {
  if (options_.mode == Mode::observe) return;
  for (int i = 0; i < pools.bodies.size(); ++i) {
    btSolverBody& sb = pools.bodies[i];
    if (!sb.m_originalBody || !sb.m_originalBody->isKinematicObject() || !id_of_.contains(sb.m_originalBody)) continue;
    for (btVector3* x : {&sb.m_linearFactor, &sb.m_angularFactor, &sb.m_externalForceImpulse,
                         &sb.m_externalTorqueImpulse, &sb.m_deltaLinearVelocity, &sb.m_deltaAngularVelocity})
      x->setZero();
  }
}

bool Engine::after_setup(Pools pools) {
  hold_animated(pools);
  slot_of_pool_.assign(z(pools.bodies.size()), Slot{});
  bool good = true;
  sync_outside(group_);
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed) continue;
    b.states = substep_states_[0].get();
    if (!read_block(b, &pools) || !(begin_in_turns(b) || begin_block(b, true))) {
      fail_block(b, b.trouble);
      good = false;
      continue;
    }
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot)
      slot_of_pool_[z(b.pool[slot])] = {index, static_cast<int>(slot)};
  }
  if (!good) return false;
  if (options_.mode == Mode::observe) return true;
  leave_out_rigid_parts(pools);
  const auto touch = [&](const btConstraintArray& rows, bool contact) {
    for (int i = 0; i < rows.size(); ++i)
      for (const int body : {rows[i].m_solverBodyIdA, rows[i].m_solverBodyIdB})
        if (const int of = slot_of(body).block; of >= 0 && !moves_nothing(rows[i])) {
          BlockSolve& b = *blocks_[z(of)];
          b.native_rows = true;
          b.in_contact = b.in_contact || contact;
        }
  };
  touch(pools.contacts, true);
  touch(pools.joints, false);
  for (const btMultiBodyConstraintArray* rows : pools.link_rows)
    for (int i = 0; rows && i < rows->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      for (const int body : {row.m_multiBodyA ? -1 : row.m_solverBodyIdA, row.m_multiBodyB ? -1 : row.m_solverBodyIdB})
        if (const int of = slot_of(body).block; of >= 0) {
          BlockSolve& b = *blocks_[z(of)];
          b.native_rows = b.link_rows = b.in_contact = true;
        }
    }
  // Stiffness is of tensions that a blow has made, and makes the next blow one on a body that hardly gives.
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.in_contact || b.stiffness.empty()) continue;
    set_stiffness(b, {});
    if (begin_in_turns(b) || begin_block(b, true)) continue;
    fail_block(b, b.trouble);
    good = false;
  }
  gather_native(pools, false);
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows) continue;
    const bool started = b.in_turns ? start_in_turns(b) : start_block(b);
    if (!started || !finite(b.v)) {
      fail_block(b, started ? "the step's velocities are not finite" : b.trouble);
      good = false;
      continue;
    }
    const Block& block = b.block;
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

/// Of a step that is likely to be taken in parts: the time over which what rows have of accelerations at its start
/// makes up the mean of their velocities. A body that turns comes no further than across its circle.
double Engine::curved_for(const BlockSolve& b) const {
  if (b.of_users) return 0;  // whose rows may turn though no body does
  double fastest = 0;
  for (const BodyId id : b.block.bodies) fastest = std::max(fastest, state_[id].w.squaredNorm());
  return fastest * dt_ * dt_ > 4 ? 4 / (fastest * dt_) : dt_;
}

/// Whether native rows are told the mean velocities of a step in parts.
bool Engine::starts_in_parts(const BlockSolve& b) const {
  return (b.last_length > 0 && b.last_length < 0.99 * dt_) || b.too_long_at == step_;
}

/// Of a step that is found too long only now, when what native rows did is for velocities that it does not have.
/// @return whether they are solved again
bool Engine::ask_for_rows_again(BlockSolve& b) const {
  if (!b.in_contact || starts_in_parts(b)) return false;
  b.too_long_at = step_;
  return b.again = true;
}

// Native rows start from velocities that meet the block's constraints at the step's end. The impulses that Bullet has
// warm-started its contacts with are part of them: rows remember these, so velocities must.
bool Engine::start_block(BlockSolve& b) {
  constexpr double far_open = 1e-3;  // [m]
  const linchpin::Solver& solver = b.dynamics->solver();
  for (std::size_t j = 0; j < b.Q.size(); ++j) b.Q_host[j] = b.Q[j] + b.host[j] / dt_;
  const auto start = [&](bool answered) {
    for (std::size_t j = 0; j < b.v.size(); ++j) {
      b.force[j] = b.applied[j] + b.host[j];
      if (answered) b.force[j] += dt_ * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
    }
    solver.inverse_mass(b.force, b.dv);
    for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] = b.v0[j] + b.dv[j];
    if (!options_.drift_correction) return true;
    const NewtonReport newton = end_on_constraints(system_, *b.dynamics, base_, end_, dt_, b.v, {}, {},
                                                   std::max(options_.newton_tolerance, start_tolerance), start_solves);
    b.newton += newton.solves;
    return (newton.converged || newton.residual * dt_ < start_slack * start_tolerance) && !starts_a_turn_on(b);
  };
  // A block that moves too fast for one step has no such velocities: the mean of those that its rows allow will do.
  const auto start_now = [&] {
    for (std::size_t j = 0; j < b.v.size(); ++j) b.force[j] = b.applied[j] + b.host[j];
    solver.inverse_mass(b.force, b.v);
    velocity_of_rows(b, b.v, b.e);
    const Assembly& assembly = b.dynamics->assembly();
    const double time = curved_for(b);
    for (std::size_t i = 0; i < b.e.size(); ++i)
      b.e[i] = 0.5 * time * assembly.instant.b[i] - b.e[i] - assembly.velocity[i];
    solver.approach(b.e, {}, {}, b.dv);
    for (std::size_t j = 0; j < b.v.size(); ++j) b.v[j] += b.v0[j] + b.dv[j];
  };
  // Newton answers for all forces at once; far off the constraints their linear answer is a better start.
  // And a gap at the start is closed by moving, when the rows are done: no velocity of theirs is to close it.
  const bool open = std::max(start_gap(b, false), turned_away(b)) > std::max(options_.gap_tolerance, far_open);
  if (!b.with_laws && options_.drift_correction && (open || starts_in_parts(b))) {
    start_now();
  } else if (b.answered || !start(false)) {
    const bool warm = std::any_of(b.host.begin(), b.host.end(), [](double p) { return p != 0; });
    if ((warm || !b.answered) && b.dynamics->resolve(state_, b.Q_host) == Status::invalid)
      return refuse(b, b.dynamics->reason());
    if (!start(true) && !b.with_laws) start_now();
  }
  velocity_of_rows(b, b.v, b.target);
  return true;
}

// Impulses that bodies do not follow for a whole step may turn them so far that joints meet again a turn on.
bool Engine::starts_a_turn_on(const BlockSolve& b) const {
  constexpr double half_turn = 3;  // [rad], and a little to spare
  const Block& block = b.block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const int c = block.column[slot];
    if (block.column[slot + 1] - c == 6 &&
        !((head(b.v, c + 3) - state_[block.bodies[slot]].w).norm() * dt_ < half_turn))
      return true;
  }
  return false;
}

void Engine::velocity_of_rows(const BlockSolve& b, std::span<const double> v, std::span<double> out) const {
  std::fill(out.begin(), out.end(), 0.0);
  for_rows_of_bodies(b.dynamics->assembly(), [&](int row, const double* J, int column, int count) {
    if (count == 6) {
      out[z(row)] += Eigen::Map<const Vector6>(J).dot(Eigen::Map<const Vector6>(v.data() + column));
      return;
    }
    for (int j = 0; j < count; ++j) out[z(row)] += J[j] * v[z(column + j)];
  });
}

void Engine::after_push(Pools pools) {
  if (options_.mode == Mode::observe) return;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows) continue;
    const Block& block = b.block;
    const btScalar erp = world_->getSolverInfo().m_splitImpulseTurnErp;
    bool pushed = false;
    push_.resize(b.pool.size());
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const btSolverBody& sb = pools.bodies[b.pool[slot]];
      const Vector3d u = from_bullet(sb.m_pushVelocity), w = from_bullet(sb.m_turnVelocity * erp);
      push_[slot] << u, w;
      pushed = pushed || !push_[slot].isZero();
    }
    if (!pushed) continue;
    if (b.in_turns) {
      if (!leave_turns(b)) continue;
      velocity_of_rows(b, b.v, b.target);
    }
    // The push that keeps the block together, nearest to Bullet's in the mass metric.
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      put(b.dv, c, push_[slot].head<3>());
      if (dof == 6) put(b.dv, c + 3, push_[slot].tail<3>());
    }
    velocity_of_rows(b, b.dv, b.e);
    for (int i = 0; i < block.m(); ++i) b.e[z(i)] = -b.e[z(i)];
    for (std::size_t i = 0; i < b.ids.size(); ++i)  // only conditions on poses hold a push
      if (system_.constraint(b.ids[i]).function().level() != Level::position)
        for (int r = block.row[i]; r < block.row[i + 1]; ++r) b.e[z(r)] = 0;
    b.dynamics->solver().apply(b.e, {}, {}, b.dv);
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      push_[slot].head<3>() += head(b.dv, c);
      if (dof == 6) push_[slot].tail<3>() += head(b.dv, c + 3);
      BodyState& s = base_[block.bodies[slot]];
      advance(s, push_[slot].head<3>(), push_[slot].tail<3>(), dt_);
    }
    b.pushed = b.write_pose = true;
    // Bodies pushed along tangents are off the constraints by the square of the push: Newton would take that for a
    // velocity, and rows that depend on each other would do so but for that little. What was off before is not ours.
    if (options_.drift_correction && largest(b.dynamics->assembly().position) <= options_.gap_tolerance)
      close_gaps(system_, *b.dynamics, base_, options_.newton_tolerance, options_.max_newton);
  }
}

void Engine::after_iteration(Pools pools) {
  if (options_.mode == Mode::observe) return;
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (b.failed || !b.native_rows || b.by_rows || b.one >= 0) continue;
    const Block& block = b.block;
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
    if (b.in_turns) {
      b.dv = b.v;
      b.plain.hold(b.dv);
      for (std::size_t j = 0; j < b.v.size(); ++j) b.dv[j] -= b.v[j];
    } else {
      velocity_of_rows(b, b.v, b.e);
      for (std::size_t i = 0; i < b.e.size(); ++i) b.e[i] = b.target[i] - b.e[i];
      b.dynamics->solver().approach(b.e, {}, {}, b.dv);  // what it leaves is in the next iteration's
    }
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
