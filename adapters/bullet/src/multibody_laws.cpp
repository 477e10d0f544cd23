// Laws on constraints between links and on the joints of multibodies. A law reads a reaction, and joint coordinates
// know no reactions of their own joints. So the core solves the problem once more, with every link a body of its own
// and every joint a constraint, to the same accelerations. There it also decides which contacts stick (T9, T10). The
// forces that laws prescribe there are then among the forces on the links.
#include "multibody.h"

#include "articulated/tree_joints.h"

#include <algorithm>
#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using articulated::ConstraintRows;
using articulated::LinkMotion;

// ---- the constraints that have laws ----

/// A gear as a constraint between bodies.
Constraint Multibodies::gear_of(const ConstraintRows& c, const std::string& name) {
  std::vector<BodyId> ids;
  std::vector<articulated::GearedJoint> joints;
  const auto index_of = [&](btMultiBody& body, int link) {
    BodyId id;
    register_link({&body, link}, id);
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at != ids.end()) return static_cast<std::size_t>(at - ids.begin());
    ids.push_back(id);
    return ids.size() - 1;
  };
  for (const articulated::GearTerm& term : c.gear) {
    btMultiBody& body = *trees_[z(term.tree)]->body;
    const articulated::LinkModel link = read_link(body, term.link);
    const bool slides = link.joint == articulated::JointKind::prismatic;
    const std::size_t child = index_of(body, term.link), parent = index_of(body, link.parent);
    joints.push_back({child, parent, slides ? link.linear[0] : link.angular[0], slides, term.factor});
  }
  return articulated::gear_constraint(name, ids, std::move(joints));
}

std::string Multibodies::massless(const btMultiBody& body) const {
  for (int i = body.hasFixedBase() ? 0 : -1; i < body.getNumLinks(); ++i) {
    if (!(mass_of(body, i) > 0) || !(inertia_of(body, i).minCoeff() > 0))
      return (i < 0 ? std::string("the base") : "link " + std::to_string(i)) +
             " of its multibody has no mass or no inertia of its own, and so the loads of the joints are not known";
  }
  return {};
}

std::string Multibodies::name_joint(const Link& link, std::string name, int& index) {
  scan();
  const std::string who = "linchpin: adopt '" + name + "': ";
  BodyId child, parent;
  if (std::string why = register_link(link, child); !why.empty()) return who + why;
  if (link.index < 0) return who + "the base of a multibody has no joint";
  if (std::string why = register_link({link.body, link.body->getLink(link.index).m_parent}, parent); !why.empty())
    return who + why;
  if (c_.constraints.find(name) >= 0) return "linchpin: the name '" + name + "' is in use";
  for (const host::ConstraintEntry& r : c_.constraints.all())
    if (r.alive && r.owner == Owner::multibody_joint && r.deferred->bodies()[1] == child)
      return who + "the joint is known already, as '" + r.name + "'";
  index = binding_.joints().add(Owner::multibody_joint, name);
  try {
    c_.constraints[index].deferred = std::make_unique<Constraint>(
        articulated::joint_constraint(read_link(*link.body, link.index), name, parent, child));
  } catch (const std::exception& e) {
    c_.constraints.remove(index);
    return who + e.what();
  }
  layout_is_stale_ = true;
  binding_.joints().order_reactions();
  return {};
}

std::string Multibodies::why_no_law(int entry) {
  const host::ConstraintEntry& r = c_.constraints[entry];
  if (!r.deferred && r.id.index < 0) return "it is left to the native solver: " + r.host_part;
  for (const Stock& s : stock_)
    if (s.entry == entry && s.shape.gear) return "a gear has no place where a law could act";
  if (!r.deferred) return {};
  for (const BodyId id : r.deferred->bodies())
    if (id.index > 0 && is_link(id))
      if (std::string why = massless(*link_of_id_[z(id.index)].body); !why.empty()) return why;
  return {};
}

std::string Multibodies::add_law(int entry, const Law& law) {
  host::ConstraintEntry& r = c_.constraints[entry];
  if (r.link_id.index < 0)
    if (std::string why = c_.system.try_add(*r.deferred, &r.link_id); !why.empty()) return "linchpin: " + why;
  return linchpin::try_add_law(c_.system, r.link_id, law);
}

// ---- layout ----

void Multibodies::forget_laws() {
  for (const ConstraintId id : laws_.joints) c_.system.remove(id);
  laws_.joints.clear();
  for (host::ConstraintEntry& r : c_.constraints.all())
    if (r.link_id.index >= 0) {
      c_.system.remove(r.link_id);
      r.link_id = {};
    }
  laws_.dynamics.reset();
  laws_.are_present = laws_.are_solved = false;
}

// Makes the problem in which every link is a body. If it is not possible, its laws are reported by name, and the rest
// goes on.
void Multibodies::lay_out_laws() {
  c_.laws.constraints_changed();
  laws_.members.clear();
  laws_.fixed.clear();
  std::vector<ConstraintId> ids;
  std::vector<std::pair<int, int>> named;  // constraint of the core, record
  std::string why = add_members();
  if (why.empty()) why = add_joints(ids, named);
  if (why.empty()) why = add_constraints(ids, named);
  if (why.empty()) return start_laws(ids, named);
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i)
    if (const host::ConstraintEntry& r = c_.constraints[i];
        r.alive && !r.laws.empty() && (r.is_on_links() || binding_of(i).with_links))
      notes_.push_back(r.name + "\nits laws are not in force (" + why + ")");
  forget_laws();
}

/// Makes every link and rigid body of the problem a member. @return why not, or empty
std::string Multibodies::add_members() {
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    if (trees_[t]->column < 0) continue;
    btMultiBody& body = *trees_[t]->body;
    if (std::string why = massless(body); !why.empty()) return why;
    for (int i = -1; i < body.getNumLinks(); ++i) {
      BodyId id;
      if (std::string why = register_link({&body, i}, id); !why.empty()) return why;
      (i < 0 && body.hasFixedBase() ? laws_.fixed : laws_.members).push_back({id, static_cast<int>(t), i, -1});
    }
  }
  for (std::size_t i = 0; i < rigid_.size(); ++i) laws_.members.push_back({rigid_[i].id, -1, -1, static_cast<int>(i)});
  return {};
}

/// Adds a constraint to the core with its laws. @return why not, or empty
std::string Multibodies::add_with_laws(host::ConstraintEntry& r, int index, Constraint constraint,
                                       std::vector<ConstraintId>& ids, std::vector<std::pair<int, int>>& named) {
  std::string why = c_.system.try_add(std::move(constraint), &r.link_id);
  if (!why.empty()) return why;
  ids.push_back(r.link_id);
  named.emplace_back(r.link_id.index, index);
  for (const Law& law : r.laws)
    if (why.empty()) why = linchpin::try_add_law(c_.system, r.link_id, law);
  if (r.unilateral.on) linchpin::set_one_sided(c_.system, r.link_id, r.unilateral);
  return why;
}

/// Adds the joints of the trees: those that have a name, with their laws, and then the others.
std::string Multibodies::add_joints(std::vector<ConstraintId>& ids, std::vector<std::pair<int, int>>& named) {
  std::vector<std::vector<char>> has_name(trees_.size());
  for (std::size_t t = 0; t < trees_.size(); ++t)
    if (trees_[t]->column >= 0) has_name[t].assign(z(trees_[t]->tree.links()), 0);
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    host::ConstraintEntry& r = c_.constraints[i];
    if (!r.alive || r.owner != Owner::multibody_joint || !r.enabled || !r.deferred) continue;
    const LinkId& link = link_of_id_[z(r.deferred->bodies()[1].index)];
    const int t = tree_of(link.body);
    if (t < 0 || trees_[z(t)]->column < 0) continue;
    has_name[z(t)][z(link.link)] = 1;
    if (std::string why = add_with_laws(r, i, *r.deferred, ids, named); !why.empty()) return why;
  }
  for (std::size_t t = 0; t < trees_.size(); ++t)
    for (std::size_t i = 0; i < has_name[t].size(); ++i) {
      if (has_name[t][i]) continue;
      btMultiBody& body = *trees_[t]->body;
      const int at = static_cast<int>(i);
      BodyId child, parent;
      register_link({&body, at}, child);
      register_link({&body, body.getLink(at).m_parent}, parent);
      const std::string name = "joint of " + c_.system.name(child);
      ConstraintId id;
      std::string why = c_.system.try_add(articulated::joint_constraint(read_link(body, at), name, parent, child), &id);
      if (!why.empty()) return why;
      laws_.joints.push_back(id);
      ids.push_back(id);
    }
  return {};
}

/// Adds the constraints of the problem.
std::string Multibodies::add_constraints(std::vector<ConstraintId>& ids, std::vector<std::pair<int, int>>& named) {
  for (const ConstraintRows& c : constraints_.constraints()) {
    host::ConstraintEntry& r = entry_of(c);
    if (binding_of(c.owner).with_links) {
      ids.push_back(r.id);
      named.emplace_back(r.id.index, c.owner);
      continue;
    }
    if (std::string why = add_with_laws(r, c.owner, c.is_gear() ? gear_of(c, r.name) : *c.constraint, ids, named);
        !why.empty())
      return why;
  }
  return {};
}

void Multibodies::start_laws(const std::vector<ConstraintId>& ids, const std::vector<std::pair<int, int>>& named) {
  SolveOptions options;
  options.rank_tolerance = c_.options.rank_tolerance;
  laws_.dynamics.emplace(c_.system, ids, options);
  laws_.standing = {};
  if (const auto history = std::exchange(laws_to_restore_, nullptr)) laws_.dynamics->set_law_history(history);
  const Block& block = laws_.dynamics->assembly().block;
  laws_.entry_of_constraint.assign(block.constraints.size(), -1);
  for (std::size_t i = 0; i < block.constraints.size(); ++i)
    for (const auto& [core, record] : named)
      if (core == block.constraints[i].index) laws_.entry_of_constraint[i] = record;
  for (auto* x : {&laws_.Q, &laws_.v0, &laws_.v1}) x->assign(z(block.n()), 0);
  laws_.applied.resize(trees_.size());
  laws_.prescribed.resize(trees_.size());
  for (auto* x : {&laws_.c, &laws_.dv, &laws_.first_dv}) x->assign(solution_.v.size(), 0);
  for (auto* x : {&laws_.lambda, &laws_.first_lambda}) x->assign(scratch_.rows.size(), 0);
  laws_.sticks.clear();
}

// ---- a step ----

// At the step's start: motions of all members, and the forces that laws prescribe as far as they are known, without
// those that depend on the impulses of Bullet's rows.
void Multibodies::evaluate_laws() {
  laws_.are_solved = false;
  if (!laws_.are_present) return;
  for (const auto* list : {&laws_.fixed, &laws_.members})
    for (const Laws::Member& m : *list) {
      if (m.tree < 0) continue;
      const LinkMotion& at = trees_[z(m.tree)]->tree.motion(m.link);
      c_.bodies.start[m.id] = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
      if (list == &laws_.members) update_mass(m);
    }
  collect_forces(false);
  laws_.dynamics->set_step(dt_);  // friction obeys its law at the end of the step (T10)
  laws_.are_solved = laws_.dynamics->evaluate(c_.bodies.start, laws_.Q) != Status::invalid;
  solve_prescribed();
  laws_.first_dv = laws_.dv;
  laws_.first_lambda = laws_.lambda;
}

/// Gives the core the mass of a link where the program has changed it.
void Multibodies::update_mass(const Laws::Member& m) {
  const articulated::TreeModel& model = trees_[z(m.tree)]->tree.model();
  const double mass = model.mass(m.link);
  const Vector3d inertia = model.inertia(m.link);
  if (c_.system.mass(m.id) != mass || c_.system.inertia(m.id).diagonal() != inertia)
    (void)c_.system.try_set_mass(m.id, mass, inertia.asDiagonal());
}

/// Solves the laws again with the impulses of Bullet's rows, which are known now.
void Multibodies::resolve_laws() {
  if (!laws_.are_solved || !has_host_rows_) return;
  collect_forces(true);
  laws_.are_solved = laws_.dynamics->resolve(c_.bodies.start, laws_.Q) != Status::invalid;
  solve_prescribed();
}

/// Collects the forces on every member. @param with_host  with what Bullet's rows did in this step, as mean forces
void Multibodies::collect_forces(bool with_host) {
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    if (trees_[t]->column < 0) continue;
    trees_[t]->tree.applied_wrenches(laws_.applied[t]);
    if (with_host) add_host_forces(*trees_[t], laws_.applied[t]);
  }
  const Block& block = laws_.dynamics->assembly().block;
  std::fill(laws_.Q.begin(), laws_.Q.end(), 0.0);
  for (const Laws::Member& m : laws_.members) {
    const int slot = block.slot(m.id);
    if (slot < 0) continue;
    const int c = block.column[z(slot)];
    if (m.tree >= 0) {
      put(laws_.Q, c, laws_.applied[z(m.tree)][z(m.link + 1)].force);
      put(laws_.Q, c + 3, laws_.applied[z(m.tree)][z(m.link + 1)].moment);
      continue;
    }
    const Rigid& b = rigid_[z(m.rigid)];
    for (int k = 0; k < b.dof; ++k) laws_.Q[z(c + k)] = constraints_.problem().Q[z(b.column + k)];
    if (!with_host || !b.in_pool) continue;
    const Vector6 a = host_acceleration(b);
    host::add(laws_.Q, c, c_.system.mass(b.id) * a.head<3>());
    if (b.dof == 6) host::add(laws_.Q, c + 3, c_.system.world_inertia(b.id, c_.bodies.start[b.id].q) * a.tail<3>());
  }
}

// Adds the wrenches of Bullet's rows on links, as far as they are known by link. The rest of what the rows did, motors
// and limits mostly, is along the joints.
void Multibodies::add_host_forces(const Tree& t, std::vector<Wrench>& on) {
  const std::size_t n = z(t.tree.columns());
  const auto rest = std::span(scratch_.columns).first(n), all = std::span(scratch_.dv).first(n);
  t.tree.generalized(t.host.on_links, rest);
  t.tree.times_mass(std::span(t.host.acceleration).subspan(z(t.tree.fixed_velocities())), all);
  for (std::size_t r = 0; r < n; ++r) rest[r] = all[r] - rest[r];
  for (int i = 0; i <= t.tree.links(); ++i) {
    on[z(i)].force += t.host.on_links[z(i)].force;
    on[z(i)].moment += t.host.on_links[z(i)].moment;
  }
  t.tree.add_joint_forces(rest.subspan(z(t.tree.base_columns())), on);
  if (t.tree.base_columns() == 0) return;
  on[0].moment += head(rest, 0);
  on[0].force += head(rest, 3);
}

/// Solves what the prescribed forces do to the accelerations (T5).
void Multibodies::solve_prescribed() {
  for (auto* x : {&laws_.c, &laws_.dv, &laws_.lambda}) std::fill(x->begin(), x->end(), 0.0);
  if (!laws_.are_solved) {
    ++c_.counts.fallbacks;
    c_.trouble = "links of multibodies: laws were left out of a step: " + laws_.dynamics->reason();
    return;
  }
  spread_prescribed();
  constraints_.to_joint_coordinates(laws_.dv);
  if (constraints_.rows() == 0) return;
  constraints_.row_velocities(laws_.dv, scratch_.rows);
  for (double& x : scratch_.rows) x = -x;
  constraints_.solve(scratch_.rows, laws_.lambda, scratch_.dv);
  for (std::size_t k = 0; k < scratch_.dv.size(); ++k) laws_.dv[k] += scratch_.dv[k];
}

/// Solves the laws as they are at the step's start, because reports are of that time (T11).
void Multibodies::solve_laws_at_start() {
  if (!laws_.are_solved) return;
  laws_.dynamics->answer_at_instant(c_.bodies.start);
  solve_prescribed();
}

/// Writes the prescribed forces along the columns to c, and what they give to the solver's columns to dv.
void Multibodies::spread_prescribed() {
  const Block& block = laws_.dynamics->assembly().block;
  for (std::size_t t = 0; t < trees_.size(); ++t)
    if (trees_[t]->column >= 0) laws_.prescribed[t].assign(z(trees_[t]->tree.links() + 1), Wrench{});
  for (const Prescribed& p : laws_.dynamics->prescribed()) {
    const auto ids = c_.system.constraint(block.constraints[z(p.constraint)]).bodies();
    add_prescribed(ids[0], 1, p);
    if (ids.size() > 1) add_prescribed(ids[1], -1, p);
  }
  constraints_.solver().inverse_mass(laws_.c, laws_.dv);  // of rigid bodies; the trees' columns of c are still zero
  for (std::size_t at = 0; at < trees_.size(); ++at) {
    Tree& t = *trees_[at];
    if (t.column < 0) continue;
    const std::vector<Wrench>& on = laws_.prescribed[at];
    t.tree.generalized(on, t.own(std::span(laws_.c)));
    for (std::size_t i = 0; i < t.wrenches.size(); ++i) t.wrenches[i] << on[i].force, on[i].moment;
    t.tree.solve_factor(t.wrenches, t.own(std::span(laws_.dv)));
  }
}

/// Adds a prescribed force to one of its bodies.
void Multibodies::add_prescribed(BodyId id, double sign, const Prescribed& p) {
  if (id == linchpin::world) return;
  const Vector3d force = sign * p.force, moment = sign * (p.moment + (p.p_WQ - c_.bodies.start[id].p).cross(p.force));
  if (is_link(id)) {
    const LinkId& link = link_of_id_[z(id.index)];
    Wrench& to = laws_.prescribed[z(tree_of(link.body))][z(link.link + 1)];
    to.force += force;
    to.moment += moment;
    return;
  }
  for (const Rigid& b : rigid_) {
    if (b.id != id) continue;
    host::add(laws_.c, b.column, force);
    if (b.dof == 6) host::add(laws_.c, b.column + 3, moment);
  }
}

/// Computes the velocities of the members, at the step's start, when the columns have the velocities v.
void Multibodies::velocities_of_members(std::span<const double> v, std::vector<double>& out) {
  const Block& block = laws_.dynamics->assembly().block;
  int last = -1;
  for (const Laws::Member& m : laws_.members) {
    const int slot = block.slot(m.id);
    if (slot < 0) continue;
    const int c = block.column[z(slot)];
    if (m.tree < 0) {
      const Rigid& b = rigid_[z(m.rigid)];
      for (int k = 0; k < b.dof; ++k) out[z(c + k)] = v[z(b.column + k)];
      continue;
    }
    Tree& t = *trees_[z(m.tree)];
    if (std::exchange(last, m.tree) != m.tree) {
      t.set_velocity(v);
      t.tree.forward_kinematics(t.tree.state().at, t.velocity, t.at_end);
    }
    put(out, c, t.at_end[z(m.link + 1)].v);
    put(out, c + 3, t.at_end[z(m.link + 1)].w);
  }
}

/// Brings sticking contacts to rest again after Newton, which moves them a little. @return whether that moved anything
bool Multibodies::reapply_stick() {
  velocities_of_members(solution_.v, laws_.v1);
  double size = 1;
  for (const double x : solution_.v) size = std::max(size, std::abs(x));
  if (!(laws_.dynamics->hold(c_.bodies.start, laws_.v1) > 1e-15 * size)) return false;
  laws_.last_dv = laws_.dv;
  laws_.last_lambda = laws_.lambda;
  solve_prescribed();
  for (std::size_t k = 0; k < solution_.v.size(); ++k) solution_.v[k] += dt_ * (laws_.dv[k] - laws_.last_dv[k]);
  for (std::size_t r = 0; r < solution_.impulse.size(); ++r)
    solution_.impulse[r] += dt_ * (laws_.lambda[r] - laws_.last_lambda[r]);
  return true;
}

/// Adds up the work of every law in the step, and counts contacts that have begun or ended to stick.
void Multibodies::account_laws() {
  if (!laws_.are_solved) return;
  velocities_of_members(constraints_.start_velocity(), laws_.v0);
  velocities_of_members(solution_.v, laws_.v1);
  (void)c_.laws.all(c_.constraints);  // in their order
  c_.laws.note_warnings(*laws_.dynamics, laws_.dynamics->law_report().trouble, laws_.standing, c_.t, c_.step);
  for (const LawEffort& e : laws_.dynamics->law_efforts()) {
    const int index = laws_.entry_of_constraint[z(e.constraint)];
    if (index < 0) continue;
    host::ConstraintEntry& r = c_.constraints[index];
    for (LawWork& to : c_.laws.of(r)) {
      if (to.law != e.law || to.term != e.term) continue;
      const double work = book_law(c_.system, *laws_.dynamics, c_.bodies.start, e, dt_, laws_.v0, laws_.v1, to);
      to.end_step(dt_);
      if (r.reaction >= 0) c_.reactions.add_work(r, work);
    }
  }
  laws_.dynamics->accept(dt_);
  c_.counts.law_solves += laws_.dynamics->law_report().back_solves;
  const auto contacts = laws_.dynamics->contacts();
  const bool is_known = laws_.sticks.size() == contacts.size();
  laws_.sticks.resize(contacts.size());
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    if (is_known && contacts[i].sticks != static_cast<bool>(laws_.sticks[i])) ++c_.counts.mode_switches;
    laws_.sticks[i] = contacts[i].sticks;
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
