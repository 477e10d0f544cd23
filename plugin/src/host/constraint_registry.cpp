#include "host/constraint_registry.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin::host {

ConstraintEntry& Constraints::at(int entry) {
  if (entry < 0 || z(entry) >= size())
    throw std::out_of_range("linchpin: there is no constraint with index " + std::to_string(entry) + " (there " +
                            (size() == 1 ? "is " : "are ") + std::to_string(size()) + ")");
  return (*this)[entry];
}

int Constraints::add(Owner owner, std::string name) {
  ConstraintEntry r;
  r.owner = owner;
  r.version = ++made_;
  user_count += owner == Owner::user;
  int index = free_.take(entries_.size());
  if (index < 0) {
    index = static_cast<int>(entries_.size());
    entries_.push_back(std::move(r));
  } else {
    entries_[z(index)] = std::move(r);
  }
  rename(index, std::move(name));
  return index;
}

void Constraints::rename(int entry, std::string name) {
  ConstraintEntry& r = entries_[z(entry)];
  names_.erase(entry, r.name);
  r.name = std::move(name);
  names_.add(entry, [this](int i) -> const std::string& { return entries_[z(i)].name; });
}

int Constraints::find(std::string_view name) const {
  return names_.find(name, [this](int i) -> const std::string& { return entries_[z(i)].name; });
}

std::string Constraints::free_name(std::string base) const {
  std::string name = base;
  for (int i = 2; find(name) >= 0; ++i) name = base + "." + std::to_string(i);
  return name;
}

std::string Constraints::attach(int entry, Constraint constraint) {
  ConstraintEntry& r = entries_[z(entry)];
  const Result<ConstraintId> added = system_.try_add(std::move(constraint));
  r.id = added ? *added : ConstraintId{};
  if (!added) return added.error().message;
  put_last(r);
  for (const Law& law : r.laws) linchpin::add_law(system_, r.id, law);
  if (r.unilateral.on) linchpin::set_unilateral(system_, r.id, r.unilateral);
  return {};
}

void Constraints::detach(int entry) {
  ConstraintEntry& r = entries_[z(entry)];
  if (r.id.index >= 0) system_.remove(r.id);
  r.id = {};
}

void Constraints::remove(int entry) {
  ConstraintEntry& r = entries_[z(entry)];
  r.alive = false;
  user_count -= r.owner == Owner::user;
  removed_.push_back(entry);
  names_.erase(entry, r.name);
  if (r.id.index >= 0) system_.remove(r.id);
  if (r.link_id.index >= 0) system_.remove(r.link_id);
  r.link_id = {};
  r.laws.clear();
  r.reaction = -1;
}

bool Constraints::names(BodyId id) const {
  const auto names = [&](const Constraint& c) {
    return std::find(c.bodies().begin(), c.bodies().end(), id) != c.bodies().end();
  };
  return std::any_of(entries_.begin(), entries_.end(), [&](const ConstraintEntry& r) {
    return r.alive && ((r.id.index >= 0 && names(system_.constraint(r.id))) || (r.deferred && names(*r.deferred)) ||
                       (r.link_id.index >= 0 && names(system_.constraint(r.link_id))));
  });
}

std::span<const BodyId> Constraints::bodies(const ConstraintEntry& r) const {
  if (r.is_joint()) return r.joint.bodies;
  if (!r.deferred && r.id.index < 0) return {};
  return of(r).bodies();
}

void Constraints::replace_body(BodyId old, BodyId now) {
  for (ConstraintEntry& r : entries_)
    if (r.alive && r.is_joint() &&
        std::find(r.joint.bodies.begin(), r.joint.bodies.end(), old) != r.joint.bodies.end()) {
      std::replace(r.joint.bodies.begin(), r.joint.bodies.end(), old, now);
      r.joint.is_mapped = false;
    }
}

std::vector<ConstraintEntry*> Constraints::by_reaction(bool forget_laws) {
  std::vector<ConstraintEntry*> order(z(reactions), nullptr);
  for (ConstraintEntry& r : entries_) {
    if (r.alive && r.reaction >= 0 && z(r.reaction) < order.size())
      order[z(r.reaction)] = &r;
    else if (forget_laws)
      r.law_range.count = 0;
  }
  return order;
}

}  // namespace linchpin::host
