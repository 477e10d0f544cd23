// The constraints of a host's world: joints as the host has them, the user's own, and the locked axes of bodies.
#include "host/constraint_solver_impl.h"
#include "host/reactions.h"
#include "host/unilateral.h"
#include "model/force_rows.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>
#include <utility>

namespace linchpin::host {

ConstraintEntry& ConstraintSolver::entry(int index) { return impl_->c.constraints[index]; }
const ConstraintEntry& ConstraintSolver::entry(int index) const { return impl_->c.constraints[index]; }
int ConstraintSolver::entry_count() const { return static_cast<int>(impl_->c.constraints.size()); }
const Constraint& ConstraintSolver::constraint(int entry) const {
  return impl_->c.constraints.of(impl_->c.constraints[entry]);
}
int ConstraintSolver::find(std::string_view name) const { return impl_->c.constraints.find(name); }
std::string ConstraintSolver::free_name(std::string base) const {
  return impl_->c.constraints.free_name(std::move(base));
}

int ConstraintSolver::add_entry(ConstraintEntry::Owner owner, std::string name) {
  structure_changed();
  return impl_->c.constraints.add(owner, std::move(name));
}

int ConstraintSolver::add_constraint(Constraint constraint) {
  Context& c = impl_->c;
  const std::string name = constraint.name();
  if (find(name) >= 0) demand("linchpin: another constraint has the name '" + name + "'. Choose a different name");
  State now = c.system.initial_state();
  for (const BodyId id : constraint.bodies()) {
    if (const char* why = c.world.why_unsupported(id))
      demand("linchpin: constraint '" + name + "': one of its bodies has no mass matrix: " + why);
    c.world.read(id, now[id]);
  }
  now.t = c.t;
  if (const ConstraintCheck found = check_constraint(c.system, constraint, now); !found.ok())
    demand("linchpin: " + found.message);
  const int entry = add_entry(ConstraintEntry::Owner::user, name);
  c.laws.constraints_changed();
  if (std::string why = c.constraints.attach(entry, std::move(constraint)); !why.empty()) {
    remove(entry);
    demand("linchpin: " + why);
  }
  host::wake(c, c.constraints[entry]);
  c.reactions.append(c, c.constraints[entry]);  // the user's own come in the order of their entries
  return entry;
}

void ConstraintSolver::remove(int entry) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints.at(entry);
  if (!r.alive) return;
  update_reports();
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  if (r.owner == ConstraintEntry::Owner::locked_axes && r.id.index >= 0)
    c.locked.set(c.system.constraint(r.id).bodies()[0], 0, -1);
  c.constraints.remove(entry);
  c.world.entry_removed(entry);
  refresh_order();
}

namespace {

/// Returns the place of a body among those of a constraint; −1: the constraint does not name it.
int place_of(const Context& c, const ConstraintEntry& r, BodyId body) {
  const auto bodies = c.constraints.bodies(r);
  const auto at = std::ranges::find_if(bodies, [&](BodyId id) { return c.bodies.present(id) == body; });
  return at == bodies.end() ? -1 : static_cast<int>(at - bodies.begin());
}

}  // namespace

void ConstraintSolver::release_body(BodyId body) {
  Context& c = impl_->c;
  update_reports();
  for (int i = 0; i < entry_count(); ++i)
    if (const ConstraintEntry& r = c.constraints[i]; r.alive && !r.is_joint() && place_of(c, r, body) >= 0) remove(i);
  remove_body(body);
  clear_islands();
}

void ConstraintSolver::drop_constraints_on(BodyId body) {
  Context& c = impl_->c;
  for (int i = 0; i < entry_count(); ++i) {
    const ConstraintEntry& r = c.constraints[i];
    if (!r.alive || !r.is_of_user()) continue;
    const int place = place_of(c, r, body);
    if (place < 0) continue;
    if (++c.notes.dropped_count <= tuning::max_dropped_constraints)
      c.notes.dropped.push_back({r.name, "was removed, because body " + std::to_string(place) + " (" +
                                             c.system.name(body) +
                                             ") is no longer in the world. Add the constraint again where the body "
                                             "comes back, or call release_body() before you remove the body"});
    remove(i);
  }
}

// ---- joints of the host ----

bool ConstraintSolver::is_to_be_mapped(int entry, const std::array<BodyId, 2>& bodies, bool changed) const {
  const ConstraintEntry& r = impl_->c.constraints[entry];
  return !r.joint.is_mapped || changed || (r.id.index >= 0 && r.joint.bodies != bodies);
}

namespace {

/// Takes the constraint of an entry out of the system. Reports of the last step are brought up to date first.
void detach(Context& c, int entry) {
  if (c.constraints[entry].id.index < 0) return;
  update_reports(c);
  c.constraints.detach(entry);
}

std::string why_host_has_all(const Context& c, const ConstraintEntry& r) {
  std::string why;
  for (const BodyId id : r.joint.bodies)
    if (const char* unsupported = c.world.why_unsupported(id)) why = unsupported;
  if (r.joint.released_to_host) why = "the program has released it with remove(); name_joint() takes it back";
  if (r.joint.bodies[0] == r.joint.bodies[1]) why = "it joins a body to itself";
  return why;
}

/// @return why the system does not take the exact part of a joint, or empty
std::string attach(Context& c, int entry, JointShape& shape) {
  ConstraintEntry& r = c.constraints[entry];
  const auto [a, b] = r.joint.bodies;
  if (c.system.dof(a) + c.system.dof(b) == 0) return "neither body can move";
  std::string name = r.name;
  if (c.system.find_constraint(name).index >= 0) name += "~" + std::to_string(entry);
  c.laws.constraints_changed();
  try {
    Constraint constraint = shape.function
                                ? Constraint(name, {a, b}, shape.function->clone())
                                : joints::joint(name, a, b, shape.rows, shape.application_A, shape.application_B);
    if (r.compliance) {
      linchpin::detail::RowForces springs = linchpin::detail::compliance_of(constraint, *r.compliance);
      r.laws.assign(1, std::move(springs.law));
      constraint = std::move(springs.constraint);
    }
    return c.constraints.attach(entry, std::move(constraint));
  } catch (const std::exception& e) {  // frames that are no numbers: nothing throws out of a step
    return e.what();
  }
}

/// Returns whether the bodies of a joint are turned far from where it holds them, as they are in the host now.
bool is_turned_far(const Context& c, const ConstraintEntry& r, const JointShape& shape) {
  if (!r.geometry.has_orientation) return false;
  BodyState a, b;
  c.world.read(r.joint.bodies[0], a);
  c.world.read(r.joint.bodies[1], b);
  return linchpin::detail::turned_away(shape.rows.alignment, a.R(), b.R()) > 0;
}

}  // namespace

void ConstraintSolver::set_joint(int entry, const std::array<BodyId, 2>& bodies, JointShape shape) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  const bool was_exact = r.id.index >= 0;
  if (was_exact && r.joint.is_mapped) r.frames_moved_at = c.step;  // else a body has changed, not the joint
  r.joint.bodies = bodies;
  r.joint.is_mapped = true;
  structure_changed();
  c.reactions.set_left_to_host(r, true);  // until it is solved exactly
  detach(c, entry);
  std::string why = why_host_has_all(c, r);
  if (why.empty() && shape.any_exact()) why = attach(c, entry, shape);
  if (!why.empty()) {
    shape = JointShape();
    shape.leave_all(why);
  }
  c.gaps.set_geometry(r, shape.rows);
  c.gaps.set_turned_far(r, is_turned_far(c, r, shape));
  r.geometry.is_gear = shape.function != nullptr;
  r.geometry.breaking_axes = shape.breaking_axes ? std::make_unique<Matrix3d>(*shape.breaking_axes) : nullptr;
  r.host_part = std::move(shape.host_part);
  r.may_have_host_rows = r.id.index >= 0 && !r.host_part.empty();
  if (was_exact && r.id.index < 0 && c.reactions.exist() && r.reaction >= 0) c.reactions.clear(c, r);
}

void ConstraintSolver::name_joint(int entry, std::string name) {
  if (name.empty()) demand("name_joint", "a joint needs a name");
  if (const int other = find(name); other >= 0 && other != entry)
    demand("linchpin: another constraint has the name '" + name + "'. Choose a different name");
  update_reports();
  ConstraintEntry& r = this->entry(entry);
  const bool was_left_to_host = r.outcome.left_to_host && !r.joint.released_to_host;
  impl_->c.constraints.rename(entry, std::move(name));
  r.joint.released_to_host = r.joint.is_mapped = false;  // the system's constraint is made again under the new name
  impl_->c.world.map_joint(entry);
  refresh_reaction(entry);
  if (was_left_to_host) impl_->c.reactions.set_left_to_host(r, true);  // its report is still that of the last step
}

void ConstraintSolver::release_to_host(int entry) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  if (!r.is_of_host()) return remove(entry);
  update_reports();
  if (c.world.why_absent()) return;
  r.joint.released_to_host = true;
  r.joint.is_mapped = false;
  c.world.map_joint(entry);
  refresh_reaction(entry);
}

// The reaction keeps its place: a program that names ten thousand joints does not wait for as many sorts.
void ConstraintSolver::refresh_reaction(int entry) {
  Context& c = impl_->c;
  if (c.constraints[entry].reaction < 0) return refresh_order();
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  structure_changed();
  c.reactions.describe(c.constraints[entry]);
  c.laws.constraints_changed();
}

// ---- bodies that change ----

bool ConstraintSolver::is_named(BodyId body) const {
  const Context& c = impl_->c;
  return std::any_of(c.constraints.all().begin(), c.constraints.all().end(), [&](const ConstraintEntry& r) {
    return r.alive && r.owner != ConstraintEntry::Owner::locked_axes && place_of(c, r, body) >= 0;
  });
}

namespace {

/// Puts a constraint of the user's own on the bodies that its bodies have become, as far as they have a mass matrix.
void rejoin(Context& c, int entry) {
  ConstraintEntry& r = c.constraints[entry];
  const auto was = c.constraints.of(r).bodies();
  std::vector<BodyId> ids;
  std::string why;
  for (const BodyId id : was) {
    ids.push_back(c.bodies.present(id));
    if (const char* unsupported = c.world.why_unsupported(ids.back())) why = unsupported;
  }
  const bool waits = r.id.index < 0;  // for one of its bodies to move again
  if (!waits && why.empty() && std::equal(ids.begin(), ids.end(), was.begin())) return;
  Constraint same = c.constraints.of(r).between(std::move(ids));
  detach(c, entry);
  c.laws.constraints_changed();
  if (why.empty()) why = c.constraints.attach(entry, same);
  r.deferred = why.empty() ? nullptr : std::make_unique<Constraint>(std::move(same));
  r.host_part = why.empty() ? "" : "all (" + why + ")";
}

}  // namespace

void ConstraintSolver::update_bodies() {
  Context& c = impl_->c;
  if (!c.bodies.changes.any) return;
  std::vector<char> changed(c.bodies.count(), 0);
  for (const BodyId id : c.bodies.changes.bodies) changed[z(c.bodies.present(id).index)] = 1;
  for (int i = 0; i < entry_count() && !c.bodies.changes.bodies.empty(); ++i) {
    ConstraintEntry& r = c.constraints[i];
    if (!r.alive || r.owner == ConstraintEntry::Owner::locked_axes || r.is_on_links()) continue;
    const auto bodies = c.constraints.bodies(r);
    if (std::none_of(bodies.begin(), bodies.end(), [&](BodyId id) { return changed[z(c.bodies.present(id).index)]; }))
      continue;
    if (r.is_joint())
      r.joint.is_mapped = false;
    else
      rejoin(c, i);
  }
  c.bodies.changes = {};
  structure_changed();
  lock_axes();
}

void ConstraintSolver::lock_axes() {
  Context& c = impl_->c;
  bool changed = false;
  for (int i = 1; i < static_cast<int>(c.bodies.count()); ++i) {
    const BodyId id = c.system.body_at(i);
    const unsigned axes = c.bodies.in_host(id) ? c.world.locked_axes(id) : 0;
    const int old = c.locked.entry(id);
    const bool there = old >= 0 && c.constraints[old].alive;
    if (axes == c.locked.axes(id) && there == (axes != 0)) continue;
    if (there) remove(old);
    c.locked.set(id, axes, -1);
    changed = true;
    if (axes == 0) continue;
    const std::string name = free_name(c.system.name(id) + " held axes");
    const int entry = add_entry(ConstraintEntry::Owner::locked_axes, name);
    c.laws.constraints_changed();
    if (c.constraints.attach(entry, Constraint(name, {id}, hold_axes(axes))).empty())
      c.locked.set(id, axes, entry);
    else
      remove(entry);
  }
  if (changed) refresh_order();
}

// ---- laws and settings ----

void ConstraintSolver::add_law(int entry, Law law) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints.at(entry);
  update_reports();
  if (r.id.index >= 0) linchpin::add_law(c.system, r.id, law);
  r.laws.push_back(std::move(law));
  structure_changed();
  c.laws.laws_changed();
  host::wake(c, r);
}

void ConstraintSolver::clear_laws(int entry) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints.at(entry);
  if (!r.laws.empty() && r.laws[0].terms()[0].row >= 0) return;  // the law of its motor or compliance
  update_reports();
  structure_changed();
  r.laws.clear();
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) linchpin::clear_laws(c.system, id);
  r.law_range.count = 0;
  c.laws.laws_changed();
  host::wake(c, r);
}

void ConstraintSolver::set_application_points(int entry, std::vector<Vector3d> points) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  if (r.id.index >= 0) return void(c.system.constraint(r.id).set_application_points(std::move(points)));
  if (!r.is_on_links() || !r.deferred) return;
  if (r.link_id.index >= 0) c.system.constraint(r.link_id).set_application_points(points);
  r.deferred->set_application_points(std::move(points));
}

void ConstraintSolver::enable(int entry, bool on) {
  ConstraintEntry& r = impl_->c.constraints[entry];
  r.enabled = on;
  r.released = false;
  if (on && !r.is_joint()) r.outcome.broken = false;
  structure_changed();
  impl_->c.world.enable(entry, on);
  host::wake(impl_->c, r);
}

void ConstraintSolver::wake(int entry) { host::wake(impl_->c, impl_->c.constraints[entry]); }

void ConstraintSolver::set_order(std::span<const int> joints) {
  std::vector<int> order;
  std::vector<char> taken(z(entry_count()), 0);
  for (const int i : joints)
    if (i >= 0 && entry(i).is_joint() && !std::exchange(taken[z(i)], 1)) order.push_back(i);
  impl_->c.reactions.set_order(impl_->c, order);
}

void ConstraintSolver::refresh_order() {
  Context& c = impl_->c;
  std::vector<int> joints;
  for (int i = 0; i < entry_count(); ++i)
    if (const ConstraintEntry& r = c.constraints[i]; r.alive && r.is_joint() && r.reaction >= 0) joints.push_back(i);
  std::sort(joints.begin(), joints.end(),
            [&](int a, int b) { return c.constraints[a].reaction < c.constraints[b].reaction; });
  set_order(joints);
}

void ConstraintSolver::order_by_age() {
  Context& c = impl_->c;
  std::vector<ConstraintEntry*> all;
  for (ConstraintEntry& r : c.constraints.all())
    if (r.alive && r.id.index >= 0) all.push_back(&r);
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->version < b->version; });
  if (std::is_sorted(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->order < b->order; })) return;
  for (ConstraintEntry* r : all) c.constraints.put_last(*r);
  structure_changed();
}

void ConstraintSolver::structure_changed() { ++impl_->c.structure; }
unsigned ConstraintSolver::structure() const { return impl_->c.structure; }
bool ConstraintSolver::has_exact_constraints() const { return impl_->c.lists.any_exact; }
bool ConstraintSolver::has_user_constraints() const { return impl_->c.constraints.user_count > 0; }

}  // namespace linchpin::host
