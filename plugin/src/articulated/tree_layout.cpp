#include "articulated/tree_layout.h"

#include "articulated/tree_joints.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace linchpin::articulated {

using Owner = host::ConstraintEntry::Owner;

int LinkTable::find(Place place) const {
  const auto at = std::find(places_.begin(), places_.end(), place);
  return at == places_.end() ? -1 : static_cast<int>(at - places_.begin());
}

void LinkTable::set(int body, Place place) {
  places_.resize(std::max(places_.size(), z(body) + 1));
  places_[z(body)] = place;
}

// ---- trees and links ----

std::vector<int> TreeLayout::set_trees(std::span<const int> before) {
  is_stale_ = true;
  std::vector<std::unique_ptr<Tree>> fresh;
  std::vector<int> now(t_.trees.size(), -1);  // by index before
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] >= 0) now[z(before[i])] = static_cast<int>(i);
    fresh.push_back(before[i] >= 0 ? std::move(t_.trees[z(before[i])]) : std::make_unique<Tree>(t_.rotation));
  }
  for (auto& tree : t_.trees)
    if (tree) t_.gone.push_back(std::move(tree));
  t_.trees = std::move(fresh);
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    t_.trees[z(i)]->tree.update([&](TreeModel& model, TreeState& state) { world_.read(i, model, state); });
    t_.trees[z(i)]->step_is_known = false;
  }

  std::vector<int> entries;
  for (int i = 0; i < t_.links.size(); ++i) {
    const BodyId id = c_.system.body_at(i);
    const LinkTable::Place place = t_.links[id];
    if (place.tree < 0) continue;
    t_.links.set(i, now[z(place.tree)] < 0 ? LinkTable::Place{} : LinkTable::Place{now[z(place.tree)], place.link});
    if (t_.links.has(id)) continue;
    for (int entry = 0; entry < static_cast<int>(c_.constraints.size()); ++entry) {
      const host::ConstraintEntry& r = c_.constraints[entry];
      if (!r.alive || !r.is_on_links() || !r.deferred) continue;
      const auto ids = r.deferred->bodies();
      if (std::find(ids.begin(), ids.end(), id) != ids.end()) entries.push_back(entry);
    }
    c_.bodies.remove(id);
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

std::string TreeLayout::link_id(int tree, int link, BodyId& id) {
  if (tree < 0 || z(tree) >= t_.trees.size()) return "the multibody is not in the world";
  if (link < -1 || link >= t_.trees[z(tree)]->tree.links()) return "the multibody has no link " + std::to_string(link);
  if (const std::string why = world_.why_unsupported(tree); !why.empty())
    return "the multibody cannot be held exactly: " + why;
  if (const int known = t_.links.find({tree, link}); known >= 0) {
    id = c_.system.body_at(known);
    return {};
  }
  // To the rest of the core it is a rigid body with a mass of its own; only the tree solver knows that it is part of a
  // tree.
  const std::string name = c_.bodies.new_name("link");
  const LinkModel model = world_.read_link(tree, link);
  const bool is_fixed = link < 0 && t_.trees[z(tree)]->tree.model().fixed_base;
  if (is_fixed || !(model.mass > 0) || !(model.inertia.minCoeff() > 0)) {
    id = c_.system.add_fixed(name, Pose{});
  } else {
    const Result<BodyId> added = c_.system.try_add_body(name, 1, Matrix3d::Identity(), Pose{});
    if (!added) return added.error().message;
    id = *added;
    if (const Result<void> set = c_.system.try_set_mass(id, model.mass, model.inertia.asDiagonal()); !set)
      return set.error().message;
  }
  c_.bodies.add(id, false);
  world_.note_link(id, tree, link);
  t_.links.set(id.index, {tree, link});
  return {};
}

std::string TreeLayout::why_massless(int tree) const {
  const TreeModel& known = t_.trees[z(tree)]->tree.model();
  for (int i = known.fixed_base ? 0 : -1; i < t_.trees[z(tree)]->tree.links(); ++i) {
    const LinkModel link = world_.read_link(tree, i);
    if (!(link.mass > 0) || !(link.inertia.minCoeff() > 0))
      return world_.link_name(tree, i) +
             " has no mass or no inertia, so linchpin cannot compute the loads of its joints. Give each link a mass "
             "and "
             "an inertia, and each joint a link of its own";
  }
  return {};
}

// ---- constraints ----

bool TreeLayout::read_state(BodyId body, BodyState& out, bool& moves) const {
  const LinkTable::Place place = t_.links[body];
  if (place.tree < 0) return false;
  KinematicTree tree(t_.rotation);
  std::vector<LinkMotion> motions;
  tree.update([&](TreeModel& model, TreeState& state) { world_.read(place.tree, model, state); });
  tree.forward_kinematics(tree.state().at, tree.state().velocity, motions);
  const LinkMotion& at = motions[z(place.link + 1)];
  out = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
  moves = tree.can_move(place.link);
  return true;
}

bool TreeLayout::read_states(const Constraint& constraint, State& now) const {
  bool moves = false;
  for (const BodyId id : constraint.bodies()) {
    if (bool link_moves = false; read_state(id, now[id], link_moves)) {
      moves = moves || link_moves;
    } else if (c_.bodies.in_host(id)) {
      now[id] = {};
      c_.world.read(id, now[id]);
      moves = moves || c_.system.dof(id) > 0;
    }
  }
  return moves;
}

std::string TreeLayout::why_not_held(const Constraint& constraint) const {
  State now = c_.bodies.start;
  now.t = c_.t;
  if (!read_states(constraint, now))
    return "linchpin: constraint '" + constraint.name() + "': none of its bodies and links can move";
  const ConstraintCheck found = check_constraint(c_.system, constraint, now);
  const bool is_wrong = !found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > 1e-5;
  return !found.ok() && is_wrong ? "linchpin: " + found.message : std::string();
}

void TreeLayout::set_constraint(int entry, std::unique_ptr<Constraint> constraint) {
  is_stale_ = true;
  gears_.erase(entry);
  auto& deferred = c_.constraints[entry].deferred;
  if (deferred) replaced_.push_back(std::move(deferred));
  deferred = std::move(constraint);
}

void TreeLayout::set_gear(int entry, Gear gear) {
  is_stale_ = true;
  gears_[entry] = std::move(gear);
}

const Gear* TreeLayout::gear(int entry) const {
  const auto found = gears_.find(entry);
  return found == gears_.end() ? nullptr : &found->second;
}

Constraint TreeLayout::with_current_bodies(const Constraint& constraint) const {
  std::vector<BodyId> ids;
  for (const BodyId id : constraint.bodies()) ids.push_back(c_.bodies.in_host(id) ? world_.current_id(id) : id);
  return constraint.between(ids);
}

Constraint TreeLayout::make_joint(int tree, int link, const std::string& name) {
  BodyId child, parent;
  host::demand(link_id(tree, link, child));
  if (link < 0) host::demand("the base of a multibody has no joint");
  const LinkModel model = world_.read_link(tree, link);
  host::demand(link_id(tree, model.parent, parent));
  return joint_constraint(model, name, parent, child);
}

int TreeLayout::find_joint(int tree, int link) {
  BodyId child;
  host::demand(link_id(tree, link, child));
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i)
    if (const host::ConstraintEntry& r = c_.constraints[i];
        r.alive && r.owner == Owner::multibody_joint && r.deferred->bodies()[1] == child)
      return i;
  return -1;
}

// ---- the problem ----

void TreeLayout::lay_out() {
  is_stale_ = false;
  made_for_ = c_.structure;
  t_.constraints.clear();
  replaced_.clear();
  t_.gone.clear();
  t_.loop_bodies.clear();
  t_.topology.entries.clear();
  t_.topology.traits = 0;
  t_.report.flags_rank = -1;
  has_rigid_.assign(c_.constraints.size(), 0);
  rigid_.clear();
  for (auto& tree : t_.trees) tree->column = -1;
  lay_out_link_constraints();
  lay_out_rigid_constraints();

  std::vector<ConstrainedTree*> trees;
  for (auto& tree : t_.trees) trees.push_back(tree.get());
  std::vector<RigidBody> rigid;
  for (const int index : rigid_) {
    RigidBody& b = rigid.emplace_back();
    b.id = c_.system.body_at(index);
    b.dof = c_.system.dof(b.id);
  }
  std::vector<std::string> names;
  for (const ConstraintRows& rows : t_.constraints.constraints()) {
    names.push_back(c_.constraints[rows.owner].name);
    t_.topology.entries.push_back(rows.owner);
  }
  SolveOptions options;
  options.rank_tolerance = c_.options.rank_tolerance;
  t_.constraints.lay_out(trees, std::move(rigid), std::move(names), options);
  t_.projection.lay_out();
  t_.topology.bodies.clear();
  for (const RigidBody& b : t_.constraints.rigid_bodies()) {
    t_.loop_bodies.push_back({.id = b.id, .column = b.column, .dof = b.dof});
    t_.topology.bodies.push_back(b.id);
  }
  size_vectors();
}

void TreeLayout::size_vectors() {
  const std::size_t n = z(t_.constraints.columns()), m = z(t_.constraints.rows());
  for (auto* x : {&t_.x.v, &t_.x.dv, &t_.x.change, &t_.vectors.host_v, &t_.vectors.acceleration}) x->assign(n, 0);
  for (auto* x :
       {&t_.x.multipliers, &t_.x.target, &t_.x.row, &t_.x.row_change, &t_.vectors.reported, &t_.vectors.correction})
    x->assign(m, 0);
}

/// A body of a constraint. Its tree or rigid body is in the problem from here on.
ConstraintBody TreeLayout::take_body(BodyId id) {
  const LinkTable::Place place = t_.links[id];
  if (place.tree >= 0)
    t_.trees[z(place.tree)]->column = 0;
  else if (id != linchpin::ground && c_.system.dof(id) > 0)
    rigid_.insert(id.index);
  return {.id = id, .tree = place.tree, .link = place.link};
}

/// Puts a constraint between the bodies that stand for its own now.
void TreeLayout::follow_bodies(host::ConstraintEntry& r) const {
  const auto has_moved = [&](BodyId id) { return c_.bodies.in_host(id) && !(world_.current_id(id) == id); };
  if (std::ranges::any_of(r.deferred->bodies(), has_moved))
    r.deferred = std::make_unique<Constraint>(with_current_bodies(*r.deferred));
}

void TreeLayout::lay_out_link_constraints() {
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    host::ConstraintEntry& r = c_.constraints[i];
    if (!is_in_force_on_links(r)) continue;
    follow_bodies(r);
    const auto ids = r.deferred->bodies();
    if (!r.laws.empty()) t_.topology.set(host::Trait::laws, true);
    if (r.owner == Owner::multibody_joint) {
      // It has no row of its own. With a law, the tree is part of the problem.
      if (!r.laws.empty()) take_body(ids[1]);
      continue;
    }
    ConstraintRows rows;
    rows.owner = i;
    rows.constraint = &*r.deferred;
    for (const BodyId id : ids) rows.bodies.push_back(take_body(id));
    if (const Gear* const of = gear(i)) add_gear_terms(*of, rows);
    t_.constraints.add(std::move(rows));
  }
}

void TreeLayout::add_gear_terms(const Gear& gear, ConstraintRows& rows) const {
  const auto add = [&](const Gear::Term& term, bool is_input) {
    const int tree = rows.bodies[rows.gear.size() < rows.bodies.size() ? rows.gear.size() : 0].tree;
    const LinkModel& link = t_.trees[z(tree)]->tree.link(term.link);
    rows.gear.push_back(
        {tree, term.link, link.first_position, 6 + link.first_rate, term.factor, is_input, term.factor});
  };
  for (const Gear::Term& term : gear.terms) add(term, false);
  for (const Gear::Term& term : gear.inputs) add(term, true);
  rows.gear_target = gear.target;
  rows.gear_polynomial = gear.polynomial;
}

// Constraints on rigid bodies come in with the bodies that they share with links, and bring in their other bodies.
void TreeLayout::lay_out_rigid_constraints() {
  for (bool more = !rigid_.empty(); more;) {
    more = false;
    for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
      const host::ConstraintEntry& r = c_.constraints[i];
      if (!r.alive || r.is_on_links() || has_rigid_[z(i)] || r.id.index < 0) continue;
      if (r.is_joint() ? !c_.world.is_enabled(i) : !r.enabled || r.released) continue;
      const auto ids = c_.system.constraint(r.id).bodies();
      if (std::none_of(ids.begin(), ids.end(), [&](BodyId id) { return rigid_.contains(id.index); })) continue;
      has_rigid_[z(i)] = more = true;
      ConstraintRows rows;
      rows.owner = i;
      rows.constraint = &c_.system.constraint(r.id);
      for (const BodyId id : ids) rows.bodies.push_back(take_body(id));
      t_.constraints.add(std::move(rows));
      if (!r.laws.empty()) t_.topology.set(host::Trait::laws, true);
    }
  }
}

void TreeLayout::leave_rigid() {
  has_rigid_.assign(has_rigid_.size(), 0);
  made_for_ = 0;
}

}  // namespace linchpin::articulated
