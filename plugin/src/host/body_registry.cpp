#include "host/body_registry.h"

#include "host/tuning.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

Bodies::Bodies(System& system) : start(system.initial_state()), system_(system) {
  loads_.resize(1);
  read_at_.resize(1);
  presence_.resize(1);
}

void Bodies::add(BodyId id, bool in_host) {
  const std::size_t n = static_cast<std::size_t>(system_.body_count()), i = static_cast<std::size_t>(id.index);
  for (State* s : {&start, &base, &end}) {
    if (s != &start && !has_ends_) continue;
    s->bodies.resize(n);
    (*s)[id] = {};
  }
  loads_.resize(n);
  read_at_.resize(n);
  presence_.resize(n);
  loads_[i] = {};
  read_at_[i] = 0;
  presence_[i] = in_host ? Presence::in_world : Presence::none;
  is_to_read_current_ = false;
  motions_.erase(id.index);
  changes.any = true;
}

void Bodies::remove(BodyId id) {
  changes.any = changes.any || in_host(id);
  presence_[static_cast<std::size_t>(id.index)] = Presence::none;
  removed_.push_back(id.index);
  is_to_read_current_ = false;
}

void Bodies::replace(BodyId old, BodyId now) {
  remove(old);
  changes.note(now);
  changes.old.push_back(old);
  changes.now.push_back(now);
}

BodyId Bodies::present(BodyId id) const {
  for (std::size_t i = 0; i < changes.old.size(); ++i)
    if (changes.old[i] == id) id = changes.now[i];
  return id;
}

void Bodies::set_mass(BodyId id, double mass, const Vector3d& inertia) {
  const BodyKind kind = system_.kind(id);
  if (kind == BodyKind::particle) {
    if (mass == system_.mass(id)) return;
    (void)system_.try_set_mass(id, mass, Matrix3d::Zero());
    ++mass_changes_;
  } else if (kind == BodyKind::rigid) {
    if (mass == system_.mass(id) && inertia == Vector3d(system_.inertia(id).diagonal())) return;
    (void)system_.try_set_mass(id, mass, inertia.asDiagonal());
    ++mass_changes_;
  }
}

const std::vector<BodyId>& Bodies::to_read() {
  if (std::exchange(is_to_read_current_, true)) return to_read_;
  to_read_.clear();
  for (int i = 1; i < static_cast<int>(count()); ++i)
    if (const BodyId id = system_.body_at(i); in_host(id) && system_.kind(id) != BodyKind::kinematic)
      to_read_.push_back(id);
  return to_read_;
}

void Bodies::read(const World& world, BodyId id, unsigned step) {
  const std::size_t i = static_cast<std::size_t>(id.index);
  world.read_forces(id, loads_[i]);
  world.read(id, start[id]);
  read_at_[i] = step;
}

// A host may find the rate of a kinematic body from an arc cosine, which in single precision is off by percents for
// small turns. Where the pose is one step away from the last one, the turn between the two is more exact.
Vector3d Bodies::kinematic_spin(BodyId id, const BodyState& now, double dt) const {
  const auto past = motions_.find(id.index);
  if (past == motions_.end()) return now.w;
  const Vector3d w = turn_between(past->second.q, now.q) / dt;
  return (w - now.w).norm() <= tuning::kinematic_rate_error * std::max(w.norm(), now.w.norm()) ? w : now.w;
}

void Bodies::read_boundary(const World& world, BodyId id, double dt, bool teleported) {
  if (!in_host(id)) {
    if (has_ends_) base[id] = end[id] = start[id];
    return;
  }
  BodyState s;
  world.read(id, s);
  if (system_.kind(id) == BodyKind::kinematic) {
    make_ends();
    if (teleported) {
      s.v.setZero();
      s.w.setZero();
      start[id] = base[id] = end[id] = s;
      return;
    }
    end[id] = s;
    s.w = kinematic_spin(id, s, dt);
    if (const auto past = motions_.find(id.index); past != motions_.end()) {
      s.a = (s.v - past->second.v) / dt;
      s.alpha = (s.w - past->second.w) / dt;
    }
    start_pose_for_end(world, s.p, s.q, s.v, s.w, dt);
  } else {
    if (system_.dof(id) == 0) {
      s.v.setZero();
      s.w.setZero();
    }
    if (has_ends_) end[id] = s;
  }
  start[id] = s;
  if (has_ends_) base[id] = s;
}

void Bodies::make_ends() {
  if (has_ends_) return;
  has_ends_ = true;
  base.bodies = end.bodies = start.bodies;  // bodies that no equation moves are there
}

void Bodies::note_kinematic(const World& world, double dt) {
  for (int i = 1; i < static_cast<int>(count()); ++i) {
    const BodyId id = system_.body_at(i);
    if (!in_host(id) || system_.kind(id) != BodyKind::kinematic) continue;
    BodyState now;
    world.read(id, now);
    motions_[id.index] = {now.v, kinematic_spin(id, now, dt), now.q};
  }
}

void start_pose_for_end(const World& world, Vector3d& p, Quaterniond& q, const Vector3d& v, const Vector3d& w,
                        double dt) {
  p -= dt * v;
  q = (world.rotation(w, dt).conjugate() * q).normalized();
}

}  // namespace linchpin::host
