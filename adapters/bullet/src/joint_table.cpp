#include "joint_table.h"

#include "world_peek.h"

#include <linchpin/detail/prefetch.h>

#include <algorithm>
#include <cmath>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

/// How the program reads forces off a joint: a bit for each way.
unsigned char ways_to_read_forces(const btTypedConstraint& joint) {
  return (joint.getJointFeedback() ? 1 : 0) | (joint.getBreakingImpulseThreshold() < SIMD_INFINITY ? 2 : 0);
}

}  // namespace

int JointTable::find(const btTypedConstraint* constraint) const {
  const auto known = entry_of_.find(constraint);
  return known == entry_of_.end() ? -1 : known->second;
}

bool JointTable::is_known(btTypedConstraint& joint) const {
  const int entry = find(&joint);
  const JointBinding* const j = entry < 0 ? nullptr : &(*this)[entry];
  return j && (!j->joint || (j->type == class_of(joint) && j->bodies[0] == &joint.getRigidBodyA() &&
                             j->bodies[1] == &joint.getRigidBodyB() && is_marked(joint)));
}

// ---- the user's constraints ----

int JointTable::add_user(Constraint constraint, std::vector<btRigidBody*> bodies) {
  for (std::size_t k = 0; k < bodies.size(); ++k)
    if (!bodies[k] || !bodies_.in_world(*bodies[k]))
      host::demand("constraint '" + constraint.name() + "'", "body " + std::to_string(k) + " is not in the world");
  const int entry = solver_.add_constraint(std::move(constraint));
  (*this)[entry].bodies = std::move(bodies);
  add_proxies(entry);
  return entry;
}

void JointTable::add_proxies(int entry) {
  JointBinding& j = (*this)[entry];
  std::vector<char> stands;
  for (const btRigidBody* body : j.bodies) stands.push_back(body->isStaticOrKinematicObject());
  for (const auto& [first, second] : host::pairs_of_bodies(stands)) {
    btRigidBody& other = second < 0 ? btTypedConstraint::getFixedBody() : *j.bodies[z(second)];
    Proxy& made =
        *j.proxies.emplace_back(std::make_unique<Proxy>(solver_, entry, *j.bodies[z(first)], other, first, second));
    entry_of_[&made] = entry;
    WorldPeek::joints(*bodies_.world()).push_back(&made);
    world_order_.emplace_back(&made);
  }
}

void JointTable::set_collisions(int entry, bool on) {
  JointBinding& j = (*this)[entry];
  if (!bodies_.world() || std::exchange(j.linked_collide, on) == on) return;
  for (auto& p : j.proxies) set_collisions(*p, on);
}

// As Bullet does it, but no body names a proxy, so that the body and the proxy may be deleted in any order. A body that
// is no longer in the world may have been deleted: it is not read.
void JointTable::set_collisions(Proxy& p, bool on) {
  btCollisionObjectArray& all = bodies_.world()->getCollisionObjectArray();
  btRigidBody &a = p.getRigidBodyA(), &b = p.getRigidBodyB();
  if (all.findLinearSearch(&a) < all.size()) a.setIgnoreCollisionCheck(&b, !on);
  if (all.findLinearSearch(&b) < all.size()) b.setIgnoreCollisionCheck(&a, !on);
}

void JointTable::enable(int entry, bool on) {
  JointBinding& j = (*this)[entry];
  if (j.joint && bodies_.world()) j.joint->setEnabled(on);
  for (auto& p : j.proxies) p->setEnabled(on);
}

void JointTable::forget(int entry) {
  JointBinding j = std::exchange((*this)[entry], {});
  // Where a deleted joint lay something else may lie by now, as a proxy made since the world was last looked at.
  if (find(j.joint) == entry) entry_of_.erase(j.joint);
  if (j.native_part) entry_of_.erase(j.native_part.get());
  take_out(j);
}

void JointTable::take_out(JointBinding& j) {
  for (auto& p : j.proxies) {
    entry_of_.erase(p.get());
    std::erase_if(world_order_, [&](const Seen& here) { return here.joint == p.get(); });
    p->setEnabled(false);  // Bullet may hold it in its list for this step
    if (bodies_.world()) WorldPeek::joints(*bodies_.world()).remove(p.get());
    if (bodies_.world() && !j.linked_collide) set_collisions(*p, true);
    past_proxies_.push_back(std::move(p));
  }
  j.proxies.clear();
}

void JointTable::leave_world() {
  for (const auto& j : bindings_) take_out(*j);
}

// ---- the world's joints ----

int JointTable::name_joint(btTypedConstraint& joint, std::string name) {
  scan();
  const int entry = find(&joint);
  if (entry < 0 || !solver_.entry(entry).alive)
    host::demand("name_joint '" + name + "'", "the joint is not in the world");
  solver_.name_joint(entry, std::move(name));
  return entry;
}

void JointTable::add_joint(btTypedConstraint& joint, int place) {
  const JointClass& of = joint_class(joint);
  const int entry = solver_.add_entry(host::ConstraintEntry::Owner::joint,
                                      solver_.free_name(std::string(of.name) + "#" + std::to_string(place)));
  JointBinding& made = (*this)[entry];
  made.joint = &joint;
  made.type = class_of(joint);
  made.of = &of;
  entry_of_[&joint] = entry;
  map(entry);
}

void JointTable::map(int entry) {
  JointBinding& j = (*this)[entry];
  const std::uint64_t settings = j.of->settings(*j.joint);
  j.bodies = {&j.joint->getRigidBodyA(), &j.joint->getRigidBodyB()};
  const std::array<BodyId, 2> ids{bodies_.id(*j.bodies[0]), bodies_.id(*j.bodies[1])};
  if (!solver_.is_to_be_mapped(entry, ids, std::exchange(j.settings, settings) != settings)) return;
  if (j.native_part) entry_of_.erase(j.native_part.get());
  j.native_part.reset();
  host::JointShape shape = j.of->map(*j.joint);
  j.exact_axis = shape.exact_axis;
  solver_.set_joint(entry, ids, std::move(shape));
  if (!solver_.entry(entry).may_have_host_rows) return;
  j.native_part = std::make_unique<NativePart>(*j.joint, j.exact_axis);
  entry_of_[j.native_part.get()] = entry;
}

bool JointTable::is_marked(btTypedConstraint& joint) {
  const btScalar impulse = joint.internalGetAppliedImpulse();
  return impulse != 0 || std::signbit(impulse);
}
void JointTable::mark(btTypedConstraint& joint) {
  if (!is_marked(joint)) joint.internalSetAppliedImpulse(btScalar(-0.0));
}
void JointTable::mark_all() {
  for (int i = 0; i < bodies_.world()->getNumConstraints(); ++i)
    if (find(bodies_.world()->getConstraint(i)) >= 0) mark(*bodies_.world()->getConstraint(i));
}

bool JointTable::Seen::is_still(btTypedConstraint& c) const {
  return joint == &c && type == class_of(c) && a == &c.getRigidBodyA() && b == &c.getRigidBodyB() && is_marked(c);
}
bool JointTable::Seen::is_edited() const {
  return enabled != joint->isEnabled() || read_forces != ways_to_read_forces(*joint) ||
         settings != of->settings(*joint);
}

// Returns whether the constraints of the world are those of the last scan. Finds in the same loop whether each is as it
// was mapped.
bool JointTable::is_same_world() {
  const btAlignedObjectArray<btTypedConstraint*>& joints = WorldPeek::joints(*bodies_.world());
  is_edited_ = false;
  if (z(joints.size()) != world_order_.size()) return false;
  constexpr int ahead = 6;
  for (int i = 0; i < joints.size(); ++i) {
    if (i + ahead < joints.size())
      linchpin::detail::prefetch(world_order_[z(i + ahead)].joint, sizeof(btHingeConstraint));
    const Seen& seen = world_order_[z(i)];
    if (!seen.is_still(*joints[i])) return false;
    if (seen.entry >= 0 && !is_edited_) is_edited_ = seen.is_edited();
  }
  return true;
}

void JointTable::scan() {
  if (is_same_world()) return;
  const int n = bodies_.world()->getNumConstraints();
  world_order_.clear();
  std::vector<std::size_t> seen(bindings_.size(), 0);
  // Joints that are new, and their places, which do not stay: removing a constraint takes its proxies out of the order.
  std::vector<std::pair<int, btTypedConstraint*>> fresh;
  for (int i = 0; i < n; ++i) {
    const Seen& here = world_order_.emplace_back(bodies_.world()->getConstraint(i));
    if (is_known(*here.joint))
      ++seen[z(find(here.joint))];
    else
      fresh.emplace_back(i, here.joint);
  }
  for (int i = 0; z(i) < seen.size(); ++i) {  // removed without notice; of the user's own, one of its proxies
    const JointBinding& j = *bindings_[z(i)];
    if (solver_.entry(i).alive && seen[z(i)] < (j.joint ? 1 : j.proxies.size())) solver_.remove(i);
  }
  if (fresh.size() > bindings_.size())  // most of the world is new
    solver_.system().reserve(static_cast<int>(bodies_.count()) + bodies_.world()->getNumCollisionObjects(),
                             solver_.system().constraint_count() + n);
  for (const auto& [i, joint] : fresh)
    if (find(joint) < 0) add_joint(*joint, i);  // else it was added twice
  std::vector<int> order;
  for (const Seen& here : world_order_) {
    mark(*here.joint);
    order.push_back(find(here.joint));
  }
  solver_.set_order(order);
}

void JointTable::watch() {
  if (is_edited_) solver_.structure_changed();
  if (watched_structure_ == solver_.structure()) return;
  for (int i = 0; z(i) < bindings_.size(); ++i)
    if (bindings_[z(i)]->joint) map(i);
  list_world();
  watched_structure_ = solver_.structure();
}

void JointTable::map_anew() {
  for (int i = 0; z(i) < bindings_.size(); ++i) {
    const JointBinding& j = *bindings_[z(i)];
    if (!j.joint) continue;
    if (j.settings != j.of->settings(*j.joint)) solver_.invalidate_mapping(i);
    map(i);
  }
}

// Notes of each constraint of the world what is_same_world() compares.
void JointTable::list_world() {
  for (Seen& seen : world_order_) {
    const int entry = find(seen.joint);
    seen.entry = entry >= 0 && (*this)[entry].joint == seen.joint ? entry : -1;
    if (seen.entry < 0) continue;
    seen.of = (*this)[entry].of;
    seen.settings = (*this)[entry].settings;
    seen.enabled = seen.joint->isEnabled();
    seen.read_forces = ways_to_read_forces(*seen.joint);
  }
  is_edited_ = false;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
