#include "host/island_builder.h"

#include "host/compliance.h"
#include "host/reactions.h"
#include "host/rollback.h"
#include "math/union_find.h"
#include "model/primitives/list.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace linchpin::host {

using linchpin::detail::DotPrimitive, linchpin::detail::find_root, linchpin::detail::first_row_of,
    linchpin::detail::index_of;

void IslandBuilder::build(std::span<const int> entries) {
  c_.islands.last_group.clear();
  entries_.assign(entries.begin(), entries.end());
  if (entries_.empty()) return;
  add_locked_axes();
  std::sort(entries_.begin(), entries_.end(),
            [&](int a, int b) { return c_.constraints[a].order < c_.constraints[b].order; });
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
  join_by_bodies();
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    if (root(i) != i) continue;
    ConstraintSet set{c_.constraints[entries_[z(i)]].order, c_.constraints[entries_[z(last_[z(i)])]].order, 0};
    for_entries(i, [&](int, const ConstraintEntry&) { ++set.count; });
    const int index = c_.islands.get(set, c_.step);
    c_.islands.last_group.push_back(index);
    update(c_.islands[index], i);
  }
}

void IslandBuilder::add_locked_axes() {
  std::vector<int>& all = entries_;
  for (std::size_t i = 0, count = all.size(); i < count; ++i)
    for (const BodyId id : c_.system.constraint(c_.constraints[all[i]].id).bodies())
      if (const int entry = c_.locked.entry(id); entry >= 0) all.push_back(entry);
}

int IslandBuilder::root(int i) { return find_root(parent_, i); }

void IslandBuilder::join_by_bodies() {
  const int count = static_cast<int>(entries_.size());
  parent_.resize(z(count));
  std::iota(parent_.begin(), parent_.end(), 0);
  first_of_body_.assign(c_.bodies.count(), -1);
  for (int i = 0; i < count; ++i)
    for (const BodyId id : c_.system.constraint(c_.constraints[entries_[z(i)]].id).bodies()) {
      if (c_.system.dof(id) == 0) continue;
      int& first = first_of_body_[z(id.index)];
      if (first < 0) first = i;
      const int a = root(first), b = root(i);
      parent_[z(std::max(a, b))] = std::min(a, b);
    }
  next_.assign(z(count), -1);
  last_.resize(z(count));
  for (int i = 0; i < count; ++i) {
    const int first = root(i);
    if (first != i) next_[z(last_[z(first)])] = i;
    last_[z(first)] = i;
  }
}

// Updates an island. With the same constraints as when it was last used it keeps factor and structure. It does not keep
// data of the step before this one if it did not take part in it.
void IslandBuilder::update(Island& b, int first) {
  History& h = b.history;
  if (h.last_step + 1 < c_.step) {
    h.last_length = h.next_length = h.typical_velocity_error = 0;
    h.extrapolation_steps = 0;
  }
  h.last_step = c_.step;
  h.was_contradictory = true;
  b.report.flags_rank = -1;  // another set may have reported its constraints since
  Topology& t = b.topology;
  bool same = !t.ids.empty();
  std::size_t n = 0;
  const bool kinematic = t.has(Trait::kinematic_body);
  t.traits = 0;
  t.set(Trait::kinematic_body, kinematic);
  for_entries(first, [&](int entry, const ConstraintEntry& r) {
    same = same && n < t.entries.size() && t.entries[n] == entry && t.ids[n] == r.id;
    ++n;
    const bool joint = r.owner == ConstraintEntry::Owner::joint,
               user = r.owner == ConstraintEntry::Owner::user &&
                      (r.unilateral.on || !is_stock_joint(c_.system.constraint(r.id))),
               own_laws = !r.laws.empty() && !has_compliance(c_, r);
    if (user) t.set(Trait::user_constraint, true);
    if (!r.laws.empty()) t.set(Trait::laws, true);
    if (own_laws) t.set(Trait::own_laws, true);
    if (joint && c_.world.needs_forces(entry)) t.set(Trait::forces_read, true);
    if ((joint ? c_.world.breaking_impulse(entry) : r.breaking_impulse) < std::numeric_limits<double>::infinity())
      t.set(Trait::breakable, true);
    if (r.geometry.is_gear) t.set(Trait::gear, true);
    if (r.geometry.is_gear || user) t.set(Trait::state, true);
  });
  if (!same || n != t.entries.size()) lay_out(b, first);
}

void IslandBuilder::lay_out(Island& b, int first) {
  const auto past = std::move(b.past);
  flush_work(c_, b);
  Topology& t = b.topology;
  t.entries.clear();
  t.entries_made = c_.constraints.made();
  t.ids.clear();
  t.bodies.clear();
  t.boundary.clear();
  t.set(Trait::kinematic_body, false);
  for_entries(first, [&](int entry, const ConstraintEntry& r) {
    t.entries.push_back(entry);
    t.ids.push_back(r.id);
    for (const BodyId body : c_.system.constraint(r.id).bodies()) {
      t.bodies.push_back(body);
      if (c_.system.kind(body) == BodyKind::kinematic) t.set(Trait::kinematic_body, true);
    }
  });
  std::sort(t.bodies.begin(), t.bodies.end(), [](BodyId x, BodyId y) { return x.index < y.index; });
  t.bodies.erase(std::unique(t.bodies.begin(), t.bodies.end()), t.bodies.end());
  std::copy_if(t.bodies.begin(), t.bodies.end(), std::back_inserter(t.boundary),
               [&](BodyId id) { return c_.system.dof(id) == 0; });
  lay_out_island(c_.system, t.ids, t.layout);
  t.joints.clear();
  for (std::size_t k = 0; k < t.entries.size(); ++k)
    if (const ConstraintEntry& r = c_.constraints[t.entries[k]]; r.owner == ConstraintEntry::Owner::joint)
      t.joints.push_back({t.entries[k], static_cast<int>(k), t.layout.row[k],
                          has_compliance(c_, r) ? 0 : first_row_of<DotPrimitive>(r.geometry.counts)});
  find_clusters(t);

  b.dynamics.reset();
  b.fast.is_laid_out = false;
  b.report.standing = {};
  b.report.is_current = true;
  b.report.work.assign(z(t.layout.m()), 0.0);
  History& h = b.history;
  h.next_substep = h.last_length = h.typical_velocity_error = 0;
  h.extrapolation_steps = h.failures = 0;
  h.next_try = 0;
  h.extrapolation.resize(t.layout.m());
  if (past && past->entries == t.entries) restore_island(c_, b, *past);
}

// Finds the rigid parts of an island. A weld holds three directions and three turns. All bodies that do not move count
// as one more body.
void IslandBuilder::find_clusters(Topology& t) const {
  const int fixed = static_cast<int>(t.layout.bodies.size());
  t.has_clusters = false;
  t.cluster.resize(z(fixed + 1));
  std::iota(t.cluster.begin(), t.cluster.end(), 0);
  for (const int entry : t.entries) {
    const ConstraintEntry& r = c_.constraints[entry];
    const int turns = r.geometry.counts[index_of<DotPrimitive>()];
    const int directions = first_row_of<DotPrimitive>(r.geometry.counts);
    if (r.owner != ConstraintEntry::Owner::joint || directions != 3 || turns != 3 || has_compliance(c_, r)) continue;
    std::array<int, 2> at;
    for (std::size_t k = 0; k < 2; ++k) {
      const int slot = t.layout.body_index(c_.system.constraint(r.id).bodies()[k]);
      at[k] = find_root(t.cluster, slot < 0 ? fixed : slot);
    }
    t.cluster[z(std::min(at[0], at[1]))] = std::max(at[0], at[1]);
    t.has_clusters = true;
  }
  for (int i = 0; i < fixed; ++i) {
    t.cluster[z(i)] = find_root(t.cluster, i);
    if (t.cluster[z(i)] == fixed) t.cluster[z(i)] = -1;
  }
  t.cluster.pop_back();
}

}  // namespace linchpin::host
