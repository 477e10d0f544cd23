#include "body_table.h"

#include <algorithm>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

// Bullet numbers its bodies in the order in which it makes them. The number is private and has no accessor; an explicit
// instantiation may name it.
int serial_of(const btRigidBody& body);
template <auto number>
struct SerialPeek {
  friend int serial_of(const btRigidBody& body) { return body.*number; }
};
template struct SerialPeek<&btRigidBody::m_debugBodyId>;

}  // namespace

bool BodyTable::in_world(const btRigidBody& body) const {
  if (is_fixed_body(body)) return true;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const int index = body.getWorldArrayIndex();
  return index >= 0 && index < all.size() && all[index] == &body;
}

int BodyTable::search(const btRigidBody& body) const {
  const auto known = id_of_.find(&body);
  const int id = known == id_of_.end() ? -1 : known->second, place = body.getWorldArrayIndex();
  if (place < 0) return id;
  if (z(place) >= found_.size()) found_.resize(z(place) + 1);
  found_[z(place)] = {&body, id};
  return id;
}

bool BodyTable::is_at_its_place(BodyId id) const { return bodies_[z(id.index)] && is_there(id.index); }

bool BodyTable::is_there(int id) const {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const int place = entries_[z(id)].place;
  return place >= 0 && place < all.size() && all[place] == bodies_[z(id)] && btRigidBody::upcast(all[place]);
}

BodyId BodyTable::id(btRigidBody& body) {
  if (is_fixed_body(body)) return linchpin::ground;
  const BodyKind kind = kind_of(body);
  if (const int old = find(body); old >= 0) drop_if_gone(old);
  const int known = find(body);
  if (known >= 0 && solver_.is_of_kind(at(known), kind)) return at(known);
  const BodyId id = solver_.add_body(kind, read_mass(body), read_inertia(body));
  if (known >= 0) {
    leave(known);
    solver_.replace_body(at(known), id);
  }
  id_of_[&body] = id.index;
  enter(id, &body);
  return id;
}

void BodyTable::enter(BodyId id, btRigidBody* body) {
  if (z(id.index) >= entries_.size()) {
    entries_.resize(z(id.index) + 1);
    bodies_.resize(entries_.size());
  }
  bodies_[z(id.index)] = body;
  entries_[z(id.index)] =
      body ? Entry{std::max(body->getWorldArrayIndex(), 0), serial_of(*body), settings_of(*body)} : Entry{};
  found_.clear();
}

void BodyTable::leave(int id) {
  id_of_.erase(bodies_[z(id)]);
  bodies_[z(id)] = nullptr;
  entries_[z(id)] = {};
  found_.clear();
}

void BodyTable::forget(btRigidBody& body) {
  const int known = find(body);
  if (known < 0) return;
  solver_.release_body(at(known));
  leave(known);
}

// ---- before a step ----

void BodyTable::watch() {
  any_swept_ = false;
  for (int i = 1; z(i) < entries_.size(); ++i) {  // one that changes kind comes again at the end
    if (bodies_[z(i)]) drop_if_gone(i);
    btRigidBody* const body = bodies_[z(i)];
    if (!body) continue;
    if (Settings now = settings_of(*body); now != entries_[z(i)].settings) {
      entries_[z(i)].settings = now;
      if (id(*body) != at(i)) continue;
      solver_.change_body(at(i), read_mass(*body), read_inertia(*body));
    }
    any_swept_ = any_swept_ || body->getCcdSquareMotionThreshold() != 0;
  }
}

// Bodies leave the world and are deleted without notice, and others may come to lie where they lay. A body that is gone
// is not read. A body that a joint of the world names must still exist.
void BodyTable::drop_if_gone(int i) {
  Entry& e = entries_[z(i)];
  if (is_there(i) && serial_of(*bodies_[z(i)]) == e.serial) return;
  e.place = world_->getCollisionObjectArray().findLinearSearch(bodies_[z(i)]);
  if (!is_there(i)) e.place = -1;
  solver_.set_in_world(at(i), e.place >= 0);
  const int serial = e.place < 0 ? -1 : serial_of(*bodies_[z(i)]);
  if (std::exchange(e.serial, serial) != serial) solver_.drop_constraints_on(at(i));
  if (e.place >= 0 || solver_.is_named(at(i))) return;
  leave(i);
  solver_.remove_body(at(i));
}

void BodyTable::drop_gone() {
  for (int i = 1; z(i) < entries_.size(); ++i)
    if (bodies_[z(i)]) drop_if_gone(i);
}

BodyTable::Settings BodyTable::settings_of(const btRigidBody& body) {
  return {body.getCollisionFlags(),      is_disabled(body),      is_turning_point(body), body.getInvMass(),
          body.getInvInertiaDiagLocal(), body.getLinearFactor(), body.getAngularFactor()};
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
