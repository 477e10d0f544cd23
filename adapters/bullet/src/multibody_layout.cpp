// Layout of the problem of constraints on links: which constraints and bodies are in it.
#include "multibody.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using articulated::ConstraintRows;

void Multibodies::lay_out() {
  layout_is_stale_ = false;
  laid_out_for_ = c_.structure;
  constraints_.clear();
  replaced_.clear();
  rigid_.clear();
  notes_.clear();
  flags_rank_ = -1;
  forget_laws();
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) binding_of(i).with_links = false;
  for (auto& t : trees_) t->column = -1;
  std::set<int> rigid;  // those that move, by BodyId
  lay_out_link_constraints(rigid);
  lay_out_rigid_joints(rigid);

  std::vector<articulated::ConstrainedTree*> trees;
  for (auto& t : trees_) trees.push_back(t.get());
  std::vector<std::string> names;
  for (const ConstraintRows& c : constraints_.constraints()) names.push_back(entry_of(c).name);
  SolveOptions options;
  options.rank_tolerance = c_.options.rank_tolerance;
  constraints_.lay_out(trees, rigid_bodies(rigid), std::move(names), options);
  projection_.lay_out();
  for (const articulated::RigidBody& b : constraints_.rigid_bodies())
    rigid_.push_back({b.id, binding_.bodies().body(b.id), b.column, b.dof, Vector6::Zero(), Vector6::Zero(), false});
  const std::size_t n = z(constraints_.columns()), m = z(constraints_.rows());
  for (auto* x : {&solution_.v, &solution_.bullet_v, &solution_.acceleration, &scratch_.dv, &scratch_.columns})
    x->assign(n, 0);
  for (auto* x : {&solution_.reported, &solution_.correction, &solution_.impulse, &solution_.row_target, &scratch_.rows,
                  &scratch_.lambda})
    x->assign(m, 0);
  if (laws_.are_present) lay_out_laws();
}

std::vector<articulated::RigidBody> Multibodies::rigid_bodies(const std::set<int>& rigid) const {
  std::vector<articulated::RigidBody> out;
  for (const int index : rigid) {
    articulated::RigidBody b;
    b.id = c_.system.body_at(index);
    b.dof = c_.system.dof(b.id);
    out.push_back(b);
  }
  return out;
}

/// A body of a constraint. Its tree or rigid body is in the problem from here on.
articulated::ConstraintBody Multibodies::take_body(BodyId id, std::set<int>& rigid) {
  articulated::ConstraintBody out;
  out.id = id;
  if (is_link(id)) {
    out.tree = tree_of(link_of_id_[z(id.index)].body);
    out.link = link_of_id_[z(id.index)].link;
    if (out.tree >= 0) trees_[z(out.tree)]->column = 0;
  } else if (id != linchpin::world && c_.system.dof(id) > 0) {
    rigid.insert(id.index);
  }
  return out;
}

void Multibodies::lay_out_link_constraints(std::set<int>& rigid) {
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    host::ConstraintEntry& r = c_.constraints[i];
    if (!r.alive || !r.is_on_links() || !r.enabled || r.released || !r.deferred) continue;
    std::vector<BodyId> ids;  // a rigid body may have changed its kind
    for (const BodyId id : r.deferred->bodies())
      ids.push_back(is_link(id) || id == linchpin::world || !binding_.bodies().body(id)
                        ? id
                        : binding_.bodies().id(*binding_.bodies().body(id)));
    if (!std::equal(ids.begin(), ids.end(), r.deferred->bodies().begin()))
      r.deferred = std::make_unique<Constraint>(r.deferred->between(ids));
    laws_.are_present = laws_.are_present || !r.laws.empty();
    if (r.owner ==
        Owner::multibody_joint) {  // it has no row of its own; with a law, the multibody is part of the problem
      if (!r.laws.empty()) take_body(ids[1], rigid);
      continue;
    }
    ConstraintRows rows;
    rows.owner = i;
    rows.constraint = &*r.deferred;
    for (const BodyId id : ids) rows.bodies.push_back(take_body(id, rigid));
    for (const Stock& s : stock_)
      if (s.entry == rows.owner && s.shape.gear) lay_out_gear(s, rows);
    constraints_.add(std::move(rows));
  }
}

void Multibodies::lay_out_gear(const Stock& s, ConstraintRows& rows) const {
  const auto add_term = [&](int link, double factor) {
    const btMultibodyLink& of = s.constraint->getMultiBodyA()->getLink(link);
    rows.gear.push_back({rows.bodies[0].tree, link, of.m_cfgOffset, 6 + of.m_dofOffset, factor});
  };
  add_term(s.constraint->getLinkA(), 1);
  add_term(s.constraint->getLinkB(), s.shape.ratio);
  if (s.shape.aux >= 0) add_term(s.shape.aux, -1);
  rows.gear_target = s.target;
}

// Rigid joints come in with the bodies that they share with links, and bring in their other bodies.
void Multibodies::lay_out_rigid_joints(std::set<int>& rigid) {
  for (bool more = !rigid.empty(); more;) {
    more = false;
    for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
      const host::ConstraintEntry& r = c_.constraints[i];
      if (!r.alive || r.is_on_links() || binding_of(i).with_links || r.id.index < 0) continue;
      if (r.is_joint() ? !c_.world.is_enabled(i) : !r.enabled || r.released) continue;
      const auto ids = c_.system.constraint(r.id).bodies();
      if (std::none_of(ids.begin(), ids.end(), [&](BodyId id) { return rigid.contains(id.index); })) continue;
      binding_of(i).with_links = more = true;
      ConstraintRows rows;
      rows.owner = i;
      rows.constraint = &c_.system.constraint(r.id);
      for (const BodyId id : ids) rows.bodies.push_back(take_body(id, rigid));
      constraints_.add(std::move(rows));
      laws_.are_present = laws_.are_present || !r.laws.empty();
    }
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
