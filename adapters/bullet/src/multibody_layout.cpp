// How the problem of constraints on links is laid out: which constraints and bodies are in it, their rows and columns.
#include "multibody.h"

#include "columns.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// Which constraints are in the problem, where their rows and the columns of their bodies are.
void Multibodies::lay_out() {
  changed_ = false;
  laid_out_for_ = engine_.structure_;
  items_.clear();
  moving_.clear();
  notes_.clear();
  flags_rank_ = -1;
  forget_bodies();
  for (Record& r : engine_.records_) r.by_links = false;
  for (auto& t : trees_) t->column = -1;
  std::set<int> bodies;  // rigid ones that move, by BodyId
  lay_out_own(bodies);
  lay_out_rigid(bodies);
  unit_.clear();
  const int n = lay_out_columns(bodies), m = lay_out_rows();
  for (auto* x : {&v0_, &v_, &before_, &free_, &dv_, &half_, &dense_, &part_row_, &unit_row_, &force_})
    x->assign(z(n), 0);
  for (auto* x : {&position_, &velocity_, &e_, &scale_, &lambda_, &one_, &impulse_, &target_, &half_rows_, &one_report_,
                  &length_, &length_beside_, &rest_size_, &left_open_})
    x->assign(z(m), 0);
  silent_.assign(z(m), 0);
  unit_.Q.assign(z(n), 0);
  unit_.c.assign(z(n), 0);
  unit_.b.assign(z(m), 0);
  SolveOptions options;
  options.rank_tolerance = engine_.options_.rank_tolerance;
  solver_.set_options(options);
  if (bodies_.present) lay_out_bodies();
  active_ = n > 0 && (m > 0 || bodies_.present);
}

/// A part of a constraint; what it is on is in the problem from here on.
Multibodies::Part Multibodies::part_of_problem(BodyId id, std::set<int>& bodies) {
  Part p;
  p.id = id;
  if (is_link(id)) {
    p.tree = tree_of(link_of_id_[z(id.index)].body);
    p.link = link_of_id_[z(id.index)].link;
    if (p.tree >= 0) trees_[z(p.tree)]->column = 0;
  } else if (id != linchpin::world && engine_.system_.dof(id) > 0) {
    bodies.insert(id.index);
  }
  return p;
}

void Multibodies::lay_out_own(std::set<int>& bodies) {
  for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
    Record& r = engine_.records_[i];
    if (!r.alive || !r.on_links || !r.enabled || r.let_go || !r.waiting) continue;
    std::vector<BodyId> ids;  // a rigid body may have changed its kind
    for (const BodyId id : r.waiting->bodies())
      ids.push_back(is_link(id) || id == linchpin::world || !engine_.body_of_[z(id.index)]
                        ? id
                        : engine_.body_id(*engine_.body_of_[z(id.index)]));
    if (!std::equal(ids.begin(), ids.end(), r.waiting->bodies().begin())) r.waiting = r.waiting->between(ids);
    bodies_.present = bodies_.present || !r.laws.empty();
    if (r.in_tree) {  // no row of its own; with a law the multibody is part of the problem
      if (!r.laws.empty()) part_of_problem(ids[1], bodies);
      continue;
    }
    Item item;
    item.record = static_cast<int>(i);
    item.constraint = &*r.waiting;
    for (const BodyId id : ids) item.parts.push_back(part_of_problem(id, bodies));
    for (const Stock& s : stock_) {
      if (s.record != item.record || !s.shape.gear) continue;
      const auto coordinate = [&](int link, double factor) {
        const btMultibodyLink& l = s.constraint->getMultiBodyA()->getLink(link);
        item.coordinates.push_back({item.parts[0].tree, link, l.m_cfgOffset, 6 + l.m_dofOffset, factor});
      };
      coordinate(s.constraint->getLinkA(), 1);
      coordinate(s.constraint->getLinkB(), s.shape.ratio);
      if (s.shape.aux >= 0) coordinate(s.shape.aux, -1);
      item.target = s.target;
    }
    items_.push_back(std::move(item));
  }
}

// Rigid joints come in with the bodies that they share with links, and bring theirs.
void Multibodies::lay_out_rigid(std::set<int>& bodies) {
  for (bool more = !bodies.empty(); more;) {
    more = false;
    for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
      Record& r = engine_.records_[i];
      if (!r.alive || r.on_links || r.by_links || r.id.index < 0) continue;
      if (r.joint ? !r.joint->isEnabled() : !r.enabled || r.let_go) continue;
      const auto ids = engine_.system_.constraint(r.id).bodies();
      if (std::none_of(ids.begin(), ids.end(), [&](BodyId id) { return bodies.contains(id.index); })) continue;
      r.by_links = more = true;
      Item item;
      item.record = static_cast<int>(i);
      item.constraint = &engine_.system_.constraint(r.id);
      for (const BodyId id : ids) item.parts.push_back(part_of_problem(id, bodies));
      items_.push_back(std::move(item));
      bodies_.present = bodies_.present || !r.laws.empty();
    }
  }
}

// What its rows may touch: the links of its parts, in a gear of its coordinates, with their ancestors.
void Multibodies::lay_path(Item& item) {
  item.paths.clear();
  item.columns.clear();
  item.joints = 0;
  for (std::size_t at = 0; at < trees_.size(); ++at) {
    const Tree& t = *trees_[at];
    std::vector<std::size_t> on;  // how many of its parts hang on a link
    const auto take = [&](int tree, int link) {
      if (tree != static_cast<int>(at)) return;
      on.resize(z(t.a.links() + 1), 0);
      ++on[0];
      for (int i = link; i >= 0; i = t.body->getLink(i).m_parent) ++on[z(i + 1)];
    };
    for (const Part& p : item.parts) take(p.tree, p.link);
    for (const Coordinate& c : item.coordinates) take(c.tree, c.link);
    if (on.empty()) continue;
    Path path{static_cast<int>(at), {}};
    for (int c = 0; c < 6 - t.a.fixed_velocities(); ++c) item.columns.push_back(t.column + c);
    for (int i = 0; i < t.a.links(); ++i) {
      const btMultibodyLink& own = t.body->getLink(i);
      for (int k = 0; on[z(i + 1)] && k < own.m_dofCount; ++k)
        item.columns.push_back(t.column + 6 - t.a.fixed_velocities() + own.m_dofOffset + k);
    }
    for (int i = t.a.links() - 1; i >= -1; --i) {
      if (on[z(i + 1)]) path.links.push_back(i);
      if (i >= 0 && on[z(i + 1)] && on[z(i + 1)] < item.parts.size()) ++item.joints;
    }
    item.paths.push_back(std::move(path));
  }
  for (const Part& p : item.parts)
    for (int k = 0; k < p.dof; ++k) item.columns.push_back(p.column + k);
  std::sort(item.columns.begin(), item.columns.end());  // bodies of a constraint come in any order
  item.columns.erase(std::unique(item.columns.begin(), item.columns.end()), item.columns.end());
}

/// @return how many columns there are
int Multibodies::lay_out_columns(const std::set<int>& bodies) {
  int n = 0;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->column = n;
    t->on.assign(z(t->a.links() + 1), Vector6::Zero());
    n += t->a.columns();
    for (const int size : t->a.column_group_sizes()) {
      unit_.block_sizes.push_back(size);
      for (int i = 0; i < size * size; ++i) unit_.mass.push_back(i % (size + 1) == 0 ? 1 : 0);
    }
  }
  bodies_from_ = n;
  for (const int id : bodies) {
    const BodyId of = engine_.system_.body_at(id);
    const int dof = engine_.system_.dof(of);
    moving_.push_back({of, engine_.body_of_[z(id)], n, dof, Vector6::Zero(), Vector6::Zero(), false});
    unit_.block_sizes.push_back(dof);
    unit_.mass.resize(unit_.mass.size() + z(dof * dof));
    n += dof;
  }
  return n;
}

/// @return how many rows there are
int Multibodies::lay_out_rows() {
  int m = 0;
  for (Item& item : items_) {
    for (Part& p : item.parts)
      for (const Moving& b : moving_)
        if (b.id == p.id) p.column = b.column, p.dof = b.dof;
    lay_path(item);
    item.row = m;
    item.rows = item.coordinates.empty() ? item.constraint->function().rows() : 1;
    item.A.assign(z(item.rows) * 6 * item.parts.size(), 0);
    m += item.rows;
    unit_.constraints.push_back(record(item).name);
    for (int r = 0; r < item.rows; ++r) unit_.row_constraint.push_back(static_cast<int>(unit_.constraints.size()) - 1);
  }
  return m;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
