#include "joint_table.h"

#include "prefetch.h"
#include "world_peek.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

std::size_t z(int i) { return static_cast<std::size_t>(i); }

/// How the program reads forces off a joint: a bit for each way.
unsigned char ways_to_read_forces(const btTypedConstraint& joint) {
  return (joint.getJointFeedback() ? 1 : 0) | (joint.getBreakingImpulseThreshold() < SIMD_INFINITY ? 2 : 0);
}

bool contains(const std::vector<btRigidBody*>& bodies, const btRigidBody& body) {
  return std::find(bodies.begin(), bodies.end(), &body) != bodies.end();
}

}  // namespace

int JointTable::find(const btTypedConstraint* constraint) const {
  const auto known = entry_of_.find(constraint);
  return known == entry_of_.end() ? -1 : known->second;
}

int JointTable::Numbers::take(int size) {
  if (std::vector<int>& free = free_[size]; !free.empty()) {
    const int first = free.back();
    free.pop_back();
    return first;
  }
  const int first = static_cast<int>(numbers_.size());
  numbers_.resize(numbers_.size() + z(size));
  return first;
}

// ---- entries ----

int JointTable::add(Owner owner, std::string name) {
  const int entry = solver_.add_entry(owner, std::move(name));
  if (z(entry) == bindings_.size())
    bindings_.emplace_back();
  else
    (*this)[entry] = JointBinding{};
  return entry;
}

int JointTable::add_joint(btTypedConstraint& joint, std::string name) {
  const int entry = add(Owner::joint, std::move(name));
  JointBinding& made = (*this)[entry];
  made.joint = &joint;
  made.type = class_of(joint);
  entry_of_[&joint] = entry;
  made.kind = joint_kind(joint);
  made.numbers_size = count_numbers(joint, made.kind);
  made.numbers = numbers_.take(made.numbers_size);
  classify(entry);
  return entry;
}

void JointTable::forget_numbers(int entry) {
  JointBinding& j = (*this)[entry];
  numbers_.give(j.numbers, j.numbers_size);
  j.numbers_size = 0;
}

std::string JointTable::add_user(Constraint constraint, std::vector<btRigidBody*> bodies, int& entry) {
  const std::string name = constraint.name(), of = "linchpin: constraint '" + name + "'";
  if (solver_.find(name) >= 0) return "linchpin: the name '" + name + "' is in use";
  for (std::size_t k = 0; k < bodies.size(); ++k)
    if (!bodies[k] || !bodies_.in_world(*bodies[k])) return of + ": body " + std::to_string(k) + " is not in the world";
  for (const btRigidBody* body : bodies)
    if (part_of(*body) == BodyPart::unsupported)
      return of + " is on " + why_unsupported(*body) + ", which has no mass matrix";
  State now = solver_.system().initial_state();
  for (std::size_t k = 0; k < bodies.size(); ++k) now[constraint.bodies()[k]] = read_state(*bodies[k]);
  now.t = solver_.t();
  if (const ConstraintCheck found = check_constraint(solver_.system(), constraint, now); !found.ok())
    return "linchpin: " + found.message;
  entry = add(Owner::user, name);
  if (std::string why = solver_.attach(entry, std::move(constraint)); !why.empty()) {
    solver_.remove(entry);
    return "linchpin: " + why;
  }
  (*this)[entry].bodies = std::move(bodies);
  add_proxies(entry);
  for (btRigidBody* body : (*this)[entry].bodies) body->activate();
  solver_.append_reaction(entry);  // the user's own come in the order of their entries
  return {};
}

// Bullet's islands do not reach across a body that stands, so the first body of a proxy is one that moves. A native
// solver that runs the rows sees two bodies at a time and takes the others as they stand. Of bodies that do stand one
// pair says everything; a second pair, with less of the row in it, would hold the first one back.
void JointTable::add_proxies(int entry) {
  JointBinding& j = (*this)[entry];
  const ProxyRows& rows = *this;
  const int count = static_cast<int>(j.bodies.size());
  const auto stands = [&](int k) { return j.bodies[z(k)]->isStaticOrKinematicObject(); };
  int first = 0;
  while (first < count - 1 && stands(first)) ++first;
  int partners = 0;
  for (int k = 0; k < count; ++k) partners += k != first && !stands(k);
  for (int k = 0; k < count; ++k) {
    if (k == first && count > 1) continue;
    if (count > 1 && stands(k) && (partners > 0 || !j.proxies.empty())) continue;
    btRigidBody& second = count > 1 ? *j.bodies[z(k)] : btTypedConstraint::getFixedBody();
    j.proxies.push_back(std::make_unique<Proxy>(rows, entry, *j.bodies[z(first)], second, first, count > 1 ? k : -1));
    entry_of_[j.proxies.back().get()] = entry;
    world_->addConstraint(j.proxies.back().get(), false);
    world_order_.emplace_back(j.proxies.back().get());
  }
}

int JointTable::rows(int entry) const { return solver_.constraint(entry).function().rows(); }

void JointTable::linearize(int entry, LinearRows& out) const {
  solver_.linearize(entry, out.A, out.b, out.position, out.velocity);
  out.level = solver_.constraint(entry).function().level();
  out.bodies = (*this)[entry].bodies;
}

std::string JointTable::adopt(btTypedConstraint& joint, std::string name, int& entry) {
  if (name.empty()) return "linchpin: adopt: a joint needs a name";
  scan();
  const int known = find(&joint);
  if (known < 0 || !is_alive(known)) return "linchpin: adopt '" + name + "': the joint is not in the world";
  if (const int other = solver_.find(name); other >= 0 && other != known)
    return "linchpin: the name '" + name + "' is in use";
  solver_.update_reports();
  const bool was_left_to_host = solver_.entry(known).outcome.left_to_host;
  solver_.rename(known, std::move(name));
  JointBinding& j = (*this)[known];
  const bool back = std::exchange(j.given_back, false);
  j.is_classified = false;  // the system's constraint is made again under the new name
  classify(known);
  entry = known;
  if (solver_.entry(known).reaction < 0 || back)
    order_reactions();
  else
    solver_.refresh_reaction(known);
  if (was_left_to_host && !back) solver_.set_left_to_host(known, true);  // its report is still that of the last step
  return {};
}

void JointTable::remove(int entry) {
  if (!is_alive(entry)) return;
  JointBinding& j = (*this)[entry];
  if (solver_.entry(entry).owner == Owner::locked_axes) {
    const BodyId of = solver_.constraint(entry).bodies()[0];
    solver_.set_locked_axes(of, -1);
    if (z(of.index) < locked_.size()) locked_[z(of.index)] = 0;
  }
  solver_.remove(entry);
  // Where a deleted joint lay something else may lie by now, as a proxy made since the world was last looked at.
  if (find(j.joint) == entry) entry_of_.erase(j.joint);
  if (j.native_part) entry_of_.erase(j.native_part.get());
  for (auto& p : j.proxies) {
    entry_of_.erase(p.get());
    take_out(*p);
    std::erase_if(world_order_, [&](const Seen& here) { return here.joint == p.get(); });
    p->setEnabled(false);  // Bullet may hold it in its list for this step
    past_proxies_.push_back(std::move(p));
  }
  j.proxies.clear();
  j.native_part.reset();
  order_reactions();
}

void JointTable::give_back(int entry) {
  (*this)[entry].given_back = true;
  (*this)[entry].is_classified = false;
  classify(entry);
  order_reactions();
}

void JointTable::set_collisions(int entry, bool on) {
  JointBinding& j = (*this)[entry];
  if (j.linked_collide == on || !world_) return;
  j.linked_collide = on;
  for (auto& p : j.proxies) {
    world_->removeConstraint(p.get());
    world_->addConstraint(p.get(), !on);
  }
}

void JointTable::enable(int entry, bool on) {
  JointBinding& j = (*this)[entry];
  if (j.joint && world_) j.joint->setEnabled(on);
  for (auto& p : j.proxies) p->setEnabled(on);
}

// A proxy that the program has taken out already may name bodies that are no more.
void JointTable::take_out(Proxy& p) {
  for (int i = 0; world_ && i < world_->getNumConstraints(); ++i)
    if (world_->getConstraint(i) == &p) return world_->removeConstraint(&p);
}

// A body that is no longer in the world has most likely been deleted, as programs do before they come to the solver: it
// is not touched. Should it live on, it still names the proxy, which therefore stays, switched off.
void JointTable::take_out_for_good(std::unique_ptr<Proxy> p) {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const auto there = [&](btRigidBody& body) {
    return &body == &btTypedConstraint::getFixedBody() || all.findLinearSearch(&body) < all.size();
  };
  if (there(p->getRigidBodyA()) && there(p->getRigidBodyB())) return take_out(*p);
  WorldPeek::joints(*world_).remove(p.get());
  p->setEnabled(false);
  static std::mutex adding;
  static auto* const left_behind = new std::vector<std::unique_ptr<Proxy>>;  // to the end of the program
  const std::lock_guard<std::mutex> lock(adding);
  left_behind->push_back(std::move(p));
}

void JointTable::leave_world() {
  for (JointBinding& j : bindings_) {
    for (auto& p : j.proxies) take_out_for_good(std::move(p));
    j.proxies.clear();
  }
}

void JointTable::order_reactions() {
  std::vector<int> joints;
  std::vector<char> taken(z(solver_.entry_count()), 0);
  for (const Seen& here : world_order_) {
    const int entry = find(here.joint);
    if (entry < 0 || std::exchange(taken[z(entry)], 1)) continue;
    if (is_alive(entry) && (*this)[entry].joint == here.joint) joints.push_back(entry);
  }
  solver_.set_order(joints);
}

// ---- the world's joints ----

bool JointTable::is_marked(btTypedConstraint& joint) {
  const btScalar impulse = joint.internalGetAppliedImpulse();
  return impulse != 0 || std::signbit(impulse);
}
void JointTable::mark(btTypedConstraint& joint) {
  if (!is_marked(joint)) joint.internalSetAppliedImpulse(btScalar(-0.0));
}
void JointTable::mark_all() {
  for (int i = 0; i < world_->getNumConstraints(); ++i)
    if (find(world_->getConstraint(i)) >= 0) mark(*world_->getConstraint(i));
}

// Whether the constraints of the world are those that were there; in the same walk, whether each is as it was
// classified.
bool JointTable::is_same_world() {
  const btAlignedObjectArray<btTypedConstraint*>& joints = WorldPeek::joints(*world_);
  const int n = joints.size();
  is_edited_ = false;
  if (n != static_cast<int>(world_order_.size())) return false;
  constexpr int ahead = 6;
  for (int i = 0; i < n; ++i) {
    if (i + ahead < n) {
      const Seen& next = world_order_[z(i + ahead)];
      prefetch(next.joint, sizeof(btTypedConstraint));
      if (next.reach.size > 0) prefetch(reinterpret_cast<const char*>(next.joint) + next.reach.at, next.reach.size);
    }
    const Seen& seen = world_order_[z(i)];
    btTypedConstraint& joint = *joints[i];
    if (seen.joint != &joint || !seen.is_still(joint)) return false;
    if (seen.entry >= 0 && !is_edited_)
      is_edited_ = seen.enabled != joint.isEnabled() || seen.asks != ways_to_read_forces(joint) ||
                   !unchanged(joint, seen.kind, numbers_.at(seen.numbers));
  }
  return true;
}

void JointTable::scan() {
  if (is_same_world()) return;
  const int n = world_->getNumConstraints();
  world_order_.clear();
  std::vector<std::size_t> seen(bindings_.size(), 0);
  // Joints that are new, and their places, which do not stay: removing a constraint takes its proxies out of the order.
  std::vector<std::pair<int, btTypedConstraint*>> fresh;
  for (int i = 0; i < n; ++i) {
    world_order_.emplace_back(world_->getConstraint(i));
    const Seen& here = world_order_.back();
    const int entry = find(here.joint);
    const JointBinding* const j = entry < 0 ? nullptr : &(*this)[entry];
    if (!j || (j->joint &&
               !(j->type == here.type && j->bodies[0] == here.a && j->bodies[1] == here.b && is_marked(*here.joint))))
      fresh.emplace_back(i, here.joint);
    else
      ++seen[z(entry)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {  // removed without notice; of the user's own, one of its proxies
    const JointBinding& j = bindings_[i];
    if (is_alive(static_cast<int>(i)) && seen[i] < (j.joint ? 1 : j.proxies.size())) remove(static_cast<int>(i));
  }
  if (fresh.size() > bindings_.size())  // most of the world is new
    solver_.system().reserve(static_cast<int>(bodies_.count()) + world_->getNumCollisionObjects(),
                             solver_.system().constraint_count() + n);
  for (const auto& [i, joint] : fresh)
    if (find(joint) < 0)  // somebody may have added it twice
      add_joint(*joint, solver_.free_name(std::string(kind_of(*joint)) + "#" + std::to_string(i)));
  for (const Seen& here : world_order_) mark(*here.joint);
  order_reactions();
}

void JointTable::watch() {
  if (!lists_are_current()) {
    classify_all();
    list_world();
    solver_.update_lists();
    watched_structure_ = solver_.structure();
  } else if (is_edited_) {
    solver_.structure_changed();
    watch();
  }
}

void JointTable::classify_all() {
  for (int i = 0; i < static_cast<int>(bindings_.size()); ++i)
    if (is_alive(i) && bindings_[z(i)].joint) classify(i);
}

// Notes of each constraint of the world what is_same_world() compares.
void JointTable::list_world() {
  for (Seen& seen : world_order_) {
    const int entry = find(seen.joint);
    seen.entry = entry >= 0 && is_alive(entry) && (*this)[entry].joint == seen.joint ? entry : -1;
    if (seen.entry < 0) continue;
    const JointBinding& j = (*this)[entry];
    seen.kind = j.kind;
    seen.numbers = j.numbers;
    seen.reach = reach_of_numbers(*seen.joint, j.kind);
    seen.enabled = seen.joint->isEnabled();
    seen.asks = ways_to_read_forces(*seen.joint);
  }
  is_edited_ = false;
}

bool JointTable::is_unchanged(int entry) const {
  const JointBinding& j = (*this)[entry];
  return unchanged(*j.joint, j.kind, numbers_.at(j.numbers));
}

void JointTable::classify_anew() {
  scan();
  for (int i = 0; i < static_cast<int>(bindings_.size()); ++i) {
    JointBinding& j = bindings_[z(i)];
    if (!is_alive(i) || !j.joint) continue;
    if (j.shape.function || !is_unchanged(i)) j.is_classified = false;  // gears mesh anew where they are
    classify(i);
  }
  solver_.order_by_age();
}

void JointTable::classify(int entry) {
  JointBinding& j = (*this)[entry];
  host::ConstraintEntry& r = solver_.entry(entry);
  const BodyId a = bodies_.id(j.joint->getRigidBodyA()), b = bodies_.id(j.joint->getRigidBodyB());
  const bool was_exact = r.id.index >= 0;
  const auto same_bodies = [&] {
    const auto ids = solver_.constraint(entry).bodies();
    return ids[0] == a && ids[1] == b;
  };
  if (j.is_classified && is_unchanged(entry) && (!was_exact || same_bodies())) return;
  if (was_exact && j.is_classified) solver_.note_frames_moved(entry);  // else a body has changed, not the joint
  read_numbers(*j.joint, j.kind, numbers_.at(j.numbers));
  j.is_classified = true;
  solver_.structure_changed();
  solver_.set_left_to_host(entry, true);  // until it is solved exactly
  solver_.detach(entry);
  if (j.native_part) entry_of_.erase(j.native_part.get());
  j.native_part.reset();
  j.bodies = {&j.joint->getRigidBodyA(), &j.joint->getRigidBodyB()};
  JointShape shape = shape_of(j);
  if (shape.any_exact())
    if (std::string why = attach(entry, shape, a, b); !why.empty()) {
      shape.native = "all (" + why + ")";
      shape.rows = {};
      shape.function.reset();
    }
  solver_.set_geometry(entry, shape.rows);
  solver_.set_turned_far(entry, r.geometry.has_orientation &&
                                    linchpin::detail::turned_away(shape.rows.alignment, read_state(*j.bodies[0]).R(),
                                                                  read_state(*j.bodies[1]).R()) > 0);
  r.geometry.is_gear = shape.function != nullptr;
  r.geometry.breaking_axes = shape.row_axes_world ? nullptr : std::make_unique<Matrix3d>(shape.row_axes_A);
  r.host_part = shape.native;
  j.shape = std::move(static_cast<JointSummary&>(shape));
  r.may_have_host_rows = r.id.index >= 0 && j.shape.may_emit_native;
  if (r.id.index < 0) {
    if (was_exact) solver_.clear_reaction(entry);
    return;
  }
  if (!r.may_have_host_rows) return;
  j.native_part = std::make_unique<NativePart>(*j.joint, j.shape);
  entry_of_[j.native_part.get()] = entry;
}

JointShape JointTable::shape_of(const JointBinding& j) const {
  JointShape native;
  for (const btRigidBody* body : j.bodies)
    if (part_of(*body) == BodyPart::unsupported) native.native = std::string("all (") + why_unsupported(*body) + ")";
  if (j.given_back) native.native = "all (given back)";
  if (j.bodies[0] == j.bodies[1]) native.native = "all (it joins a body to itself)";
  return native.native.empty() ? bullet::classify(*j.joint) : native;
}

// @return why the solver does not take the exact part of a joint, or empty
std::string JointTable::attach(int entry, JointShape& shape, BodyId a, BodyId b) {
  if (solver_.system().dof(a) + solver_.system().dof(b) == 0 || a == b) return "neither body can move";
  std::string name = solver_.entry(entry).name;
  if (solver_.system().find_constraint(name).index >= 0) name += "~" + std::to_string(entry);
  try {
    return solver_.attach(entry, shape.function
                                     ? Constraint(name, {a, b}, shape.function)
                                     : linchpin::joint(name, a, b, shape.rows, shape.acting_A, shape.acting_B));
  } catch (const std::exception& e) {  // frames that are no numbers: nothing throws out of a step
    return e.what();
  }
}

// ---- bodies that change ----

bool JointTable::names(const btRigidBody& body) const {
  for (int i = 0; i < static_cast<int>(bindings_.size()); ++i)
    if (is_alive(i) && solver_.entry(i).owner != Owner::locked_axes && contains(bindings_[z(i)].bodies, body))
      return true;
  return false;
}

void JointTable::forget_classification(const btRigidBody& body) {
  for (int i = 0; i < static_cast<int>(bindings_.size()); ++i)
    if (is_alive(i) && bindings_[z(i)].joint && contains(bindings_[z(i)].bodies, body))
      bindings_[z(i)].is_classified = false;
}

void JointTable::note_changed_bodies(const std::vector<const btRigidBody*>& changed) {
  if (changed.empty()) return;
  for (int i = 0; i < static_cast<int>(bindings_.size()); ++i) {
    JointBinding& j = bindings_[z(i)];
    const host::ConstraintEntry& r = solver_.entry(i);
    if (!r.alive || r.owner == Owner::locked_axes || r.is_on_links() ||
        std::none_of(j.bodies.begin(), j.bodies.end(), [&](const btRigidBody* body) {
          return std::binary_search(changed.begin(), changed.end(), body, std::less<>());
        }))
      continue;
    if (j.joint) {
      j.is_classified = false;
      continue;
    }
    const auto ids = solver_.constraint(i).bodies();
    bool other = r.id.index < 0;                  // it waits for one of them to move again
    for (std::size_t k = 0; k < ids.size(); ++k)  // or one moves by itself that stood, as the system has it do still
      other = other || ids[k] != bodies_.id(*j.bodies[k]) || part_of(*j.bodies[k]) == BodyPart::unsupported;
    if (other) rejoin(i);
  }
}

// A body that became kinematic, or dynamic again, has another id.
void JointTable::rejoin(int entry) {
  JointBinding& j = (*this)[entry];
  host::ConstraintEntry& r = solver_.entry(entry);
  std::vector<BodyId> ids;
  std::string why;
  for (btRigidBody* body : j.bodies) {
    ids.push_back(bodies_.id(*body));
    if (part_of(*body) == BodyPart::unsupported) why = why_unsupported(*body);
  }
  Constraint same = solver_.constraint(entry).between(std::move(ids));
  solver_.detach(entry);
  if (why.empty()) why = solver_.attach(entry, same);
  if (why.empty()) {
    r.deferred.reset();
    r.host_part.clear();
  } else {  // until a body of it can move again
    r.deferred = std::make_unique<Constraint>(std::move(same));
    r.host_part = "all (" + why + ")";
  }
}

// A body whose factors forbid it some axes has an entry of its own, which takes part wherever the body does.
void JointTable::lock_axes() {
  bool changed = false;
  locked_.resize(bodies_.count());
  locked_entry_.resize(bodies_.count(), -1);
  for (std::size_t i = 1; i < bodies_.count(); ++i) {
    const BodyId id = solver_.system().body_at(static_cast<int>(i));
    btRigidBody* const body = bodies_.body(id);
    const unsigned locked = body ? locked_axes(*body) : 0;
    const bool there = locked_entry_[i] >= 0 && is_alive(locked_entry_[i]);
    if (locked == locked_[i] && there == (locked != 0)) continue;
    if (there) remove(locked_entry_[i]);
    locked_[i] = locked;
    locked_entry_[i] = -1;
    changed = true;
    if (locked == 0) continue;
    const std::string name = solver_.free_name(solver_.system().name(id) + " held axes");
    const int entry = add(Owner::locked_axes, name);
    if (!solver_.attach(entry, Constraint(name, {id}, hold_axes(locked))).empty()) {
      solver_.remove(entry);
      continue;
    }
    (*this)[entry].bodies = {body};
    locked_entry_[i] = entry;
    solver_.set_locked_axes(id, entry);
  }
  if (changed) order_reactions();
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
