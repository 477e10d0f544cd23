#include "body_table.h"

#include "prefetch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
}  // namespace

bool BodyTable::in_world(const btRigidBody& body) const {
  if (&body == &btTypedConstraint::getFixedBody()) return true;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const int index = body.getWorldArrayIndex();
  return index >= 0 && index < all.size() && all[index] == &body;
}

btRigidBody* BodyTable::body(BodyId id) const {
  return id.index > 0 && z(id.index) < body_of_.size() ? body_of_[z(id.index)] : nullptr;
}

int BodyTable::find(const btRigidBody& body) const {
  const auto known = id_of_.find(&body);
  return known == id_of_.end() ? -1 : known->second;
}

int BodyTable::find_in_world(const btRigidBody& body) const {
  const int id = find(body);
  return id < 0 || place_[z(id)] < 0 ? -1 : id;
}

bool BodyTable::is_at_its_place(BodyId id) const {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const int at = place_[z(id.index)];
  return at >= 0 && at < all.size() && body_of_[z(id.index)] && all[at] == body_of_[z(id.index)];
}

BodyId BodyTable::id(btRigidBody& body) {
  if (&body == &btTypedConstraint::getFixedBody()) return world;
  const BodyPart part = part_of(body);
  const auto kind = part == BodyPart::fixed || part == BodyPart::unsupported ? BodyKind::fixed
                    : part == BodyPart::driven                               ? BodyKind::driven
                    : part == BodyPart::point                                ? BodyKind::particle
                                                                             : BodyKind::rigid;
  if (const auto known = id_of_.find(&body); known != id_of_.end()) {
    const BodyId id = solver_.system().body_at(known->second);
    if (solver_.is_of_kind(id, kind)) return id;
    id_of_.erase(known);  // a new body of the solver takes its place
    body_of_[z(id.index)] = nullptr;
    place_[z(id.index)] = -1;
    solver_.remove_body(id);
    changed_.push_back(&body);
    constraints_.changed_kind(body);
  }
  const BodyId id = solver_.add_body(kind, 1 / double(body.getInvMass()), read_inertia(body));
  id_of_[&body] = id.index;
  make_room(id, &body);
  return id;
}

void BodyTable::add_foreign(BodyId id) { make_room(id, nullptr); }

void BodyTable::make_room(BodyId id, btRigidBody* body) {
  const std::size_t n = std::max(body_of_.size(), z(id.index) + 1), i = z(id.index);
  body_of_.resize(n, nullptr);
  body_of_[i] = body;
  place_.resize(n, 0);
  place_[i] = body ? std::max(body->getWorldArrayIndex(), 0) : -1;
  watch_.resize(n);
  watch_[i] = {};
  other_factors_.erase(id.index);
  has_new_ = true;
  if (body) note_settings(i, *body);
}

void BodyTable::forget(btRigidBody& body) {
  const auto known = id_of_.find(&body);
  if (known == id_of_.end()) return;
  const BodyId id = solver_.system().body_at(known->second);
  body_of_[z(id.index)] = nullptr;
  place_[z(id.index)] = -1;
  solver_.remove_body(id);
  id_of_.erase(known);
}

// ---- before a step ----

bool BodyTable::watch(std::vector<const btRigidBody*>& changed) {
  bool any = std::exchange(has_new_, false);
  kinematic_.clear();
  any_swept_ = false;
  constexpr std::size_t ahead = 3;
  for (std::size_t i = 1; i < body_of_.size(); ++i) {  // one that changes kind comes again at the end
    if (i + ahead < body_of_.size() && body_of_[i + ahead]) prefetch_body(body_of_[i + ahead]);
    if (body_of_[i]) drop_if_gone(i);
    btRigidBody* body = body_of_[i];
    Watch& w = watch_[i];
    if (!body) {
      any = any || w.body;
      w = {};
      continue;
    }
    const BodyId id = solver_.system().body_at(static_cast<int>(i));
    const bool moves = !body->isStaticOrKinematicObject();
    if (moves && refuses_velocities_) refuse_velocities(*body, id);
    if (note_settings(i, *body)) {
      any = true;
      const BodyId now = this->id(*body);
      if (now == id) solver_.set_mass(id, 1 / double(body->getInvMass()), read_inertia(*body));
      changed_.push_back(body);
      if (now != id) continue;
    }
    if (body->isKinematicObject()) kinematic_.push_back(id);
    any_swept_ = any_swept_ || body->getCcdSquareMotionThreshold() != 0;
    if (moves) solver_.read_body(id);
  }
  std::sort(changed_.begin(), changed_.end(), std::less<>());
  changed.swap(changed_);
  changed_.clear();
  return any;
}

// Bodies leave the world and are deleted without notice. A body that a constraint of the world names must still exist.
bool BodyTable::drop_if_gone(std::size_t i) {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  btRigidBody* body = body_of_[i];
  const auto there = [&] {
    return place_[i] >= 0 && place_[i] < all.size() && all[place_[i]] == body && btRigidBody::upcast(all[place_[i]]);
  };
  if (there()) return false;
  place_[i] = all.findLinearSearch(body);
  const BodyId id = solver_.system().body_at(static_cast<int>(i));
  if (there()) {
    solver_.set_in_world(id, true);
    return false;
  }
  place_[i] = -1;
  solver_.set_in_world(id, false);
  if (constraints_.name(*body)) return false;
  id_of_.erase(body);
  body_of_[i] = nullptr;
  solver_.remove_body(id);
  return true;
}

void BodyTable::drop_gone() {
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i]) drop_if_gone(i);
}

void BodyTable::find_kinematic() {
  kinematic_.clear();
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i] && body_of_[i]->isKinematicObject())
      kinematic_.push_back(solver_.system().body_at(static_cast<int>(i)));
}

// A velocity that is no number once Bullet squares it would be in every pose after it. It comes from the program: a
// step leaves none.
void BodyTable::refuse_velocities(btRigidBody& body, BodyId id) {
  for (const bool turning : {false, true}) {
    const btVector3& u = turning ? body.getAngularVelocity() : body.getLinearVelocity();
    if (can_be_squared(u)) continue;
    char size[32];
    std::snprintf(size, sizeof size, "%g %s", std::hypot(double(u.x()), double(u.y()), double(u.z())),
                  turning ? "rad/s" : "m/s");
    solver_.trouble() = "body '" + solver_.system().name(id) + "' had a velocity of " + size +
                        ", whose square is no number: it was taken for 0";
    ++solver_.counts().non_finite;
    if (turning)
      body.setAngularVelocity(btVector3(0, 0, 0));
    else
      body.setLinearVelocity(btVector3(0, 0, 0));
  }
}

// @return whether factors that are not 1 are other than they were
bool BodyTable::has_other_factors(int id, const btRigidBody& body) {
  const auto known = other_factors_.find(id);
  const Factors is{body.getLinearFactor(), body.getAngularFactor()};
  if (known != other_factors_.end() && known->second.linear == is.linear && known->second.angular == is.angular)
    return false;
  other_factors_[id] = is;
  return true;
}

// @return whether settings are other than they were
bool BodyTable::note_settings(std::size_t i, const btRigidBody& body) {
  constexpr int disabled = 1 << 30, turning = 1 << 29, other_linear = 1 << 28, other_angular = 1 << 27;
  const auto ones = [](const btVector3& u) { return u.x() == 1 && u.y() == 1 && u.z() == 1; };
  const btVector3& inverse_inertia = body.getInvInertiaDiagLocal();
  const int flags = body.getCollisionFlags() | (is_disabled(body) ? disabled : 0) |
                    (is_turning_point(body) ? turning : 0) | (ones(body.getLinearFactor()) ? 0 : other_linear) |
                    (ones(body.getAngularFactor()) ? 0 : other_angular);
  const bool has_factors = (flags & (other_linear | other_angular)) != 0;
  Watch& w = watch_[i];
  const bool changed_factors = has_factors && has_other_factors(static_cast<int>(i), body);
  if (w.body == &body && w.flags == flags && w.inverse_mass == body.getInvMass() &&
      w.inverse_inertia[0] == inverse_inertia.x() && w.inverse_inertia[1] == inverse_inertia.y() &&
      w.inverse_inertia[2] == inverse_inertia.z() && !changed_factors)
    return false;
  w.body = &body;
  w.flags = flags;
  w.inverse_mass = body.getInvMass();
  for (int k = 0; k < 3; ++k) w.inverse_inertia[k] = inverse_inertia[k];
  if (!has_factors) other_factors_.erase(static_cast<int>(i));
  return true;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
