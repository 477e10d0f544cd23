#include "articulated/tree_laws.h"

#include "articulated/tree_joints.h"
#include "host/body_vectors.h"
#include "host/fallback.h"
#include "host/write_back.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace linchpin::articulated {

using host::head;
using host::put;
using Owner = host::ConstraintEntry::Owner;

// ---- the laws of a constraint ----

std::string TreeLaws::why_no_law(int entry) const {
  const host::ConstraintEntry& r = c_.constraints[entry];
  if (!r.deferred && r.id.index < 0) return "the native solver holds it (" + r.host_part + ")";
  if (layout_.is_gear(entry)) return "a gear has no application point. Put the law on one of its joints";
  if (!r.deferred) return {};
  for (const BodyId id : r.deferred->bodies())
    if (t_.links.has(id))
      if (std::string why = layout_.why_massless(t_.links[id].tree); !why.empty()) return why;
  return {};
}

void TreeLaws::add(int entry, const Law& law) {
  host::ConstraintEntry& r = c_.constraints[entry];
  if (r.link_id.index < 0) r.link_id = c_.system.add(*r.deferred);
  linchpin::add_law(c_.system, r.link_id, law);
}

// ---- layout ----

void TreeLaws::forget() {
  for (const ConstraintId id : joints_) c_.system.remove(id);
  joints_.clear();
  for (host::ConstraintEntry& r : c_.constraints.all())
    if (r.link_id.index >= 0) {
      c_.system.remove(r.link_id);
      r.link_id = {};
    }
  t_.dynamics.reset();
  t_.topology.set(host::Trait::laws, false);
  t_.prescribed.is_known = false;
}

void TreeLaws::lay_out(std::vector<host::HostPart>& notes) {
  c_.laws.constraints_changed();
  members_.clear();
  fixed_.clear();
  Made made;
  std::string why = add_members();
  if (why.empty()) why = add_joints(made);
  if (why.empty()) why = add_rotors(made);
  if (why.empty()) why = add_constraints(made);
  if (why.empty()) return start(made);
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i)
    if (const host::ConstraintEntry& r = c_.constraints[i];
        r.alive && !r.laws.empty() && (r.is_on_links() || layout_.has_rigid(i)))
      notes.push_back({r.name, "its force laws do not act (" + why + ")"});
  forget();
}

/// A gear as a constraint between bodies.
Constraint TreeLaws::gear_of(const ConstraintRows& c, const std::string& name) {
  std::vector<BodyId> ids;
  std::vector<GearedJoint> joints;
  const auto index_of = [&](int tree, int link) {
    BodyId id;
    layout_.link_id(tree, link, id);
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at != ids.end()) return static_cast<std::size_t>(at - ids.begin());
    ids.push_back(id);
    return ids.size() - 1;
  };
  for (const GearTerm& term : c.gear) {
    const LinkModel link = world_.read_link(term.tree, term.link);
    const bool slides = link.joint == JointKind::prismatic;
    const std::size_t child = index_of(term.tree, term.link), parent = index_of(term.tree, link.parent);
    joints.push_back({child, parent, slides ? link.linear[0] : link.angular[0], slides, term.factor});
  }
  return gear_constraint(name, ids, std::move(joints));
}

/// Makes every link and rigid body of the problem a member. @return why not, or empty
std::string TreeLaws::add_members() {
  for (int t = 0; t < static_cast<int>(t_.trees.size()); ++t) {
    const Tree& tree = *t_.trees[z(t)];
    if (tree.column < 0) continue;
    if (std::string why = layout_.why_massless(t); !why.empty()) return why;
    for (int i = -1; i < tree.tree.links(); ++i) {
      BodyId id;
      if (std::string why = layout_.link_id(t, i, id); !why.empty()) return why;
      (i < 0 && tree.tree.model().fixed_base ? fixed_ : members_).push_back({id, {t, i}, -1});
    }
  }
  for (std::size_t i = 0; i < t_.loop_bodies.size(); ++i)
    members_.push_back({t_.loop_bodies[i].id, {}, static_cast<int>(i)});
  return {};
}

/// Adds a constraint to the system with the laws of its entry. @return why not, or empty
std::string TreeLaws::add_with_laws(int entry, Constraint constraint, Made& made) {
  host::ConstraintEntry& r = c_.constraints[entry];
  const Result<ConstraintId> added = c_.system.try_add(std::move(constraint));
  if (!added) return added.error().message;
  r.link_id = *added;
  made.ids.push_back(r.link_id);
  made.entries.emplace_back(r.link_id.index, entry);
  std::string why;
  for (const Law& law : r.laws)
    if (why.empty()) why = linchpin::try_add_law(c_.system, r.link_id, law).error().message;
  if (r.unilateral.on) linchpin::set_unilateral(c_.system, r.link_id, r.unilateral);
  return why;
}

/// Adds the joints that have a name, with their laws. @param has_name  by tree and link: out
std::string TreeLaws::add_named_joints(Made& made, std::vector<std::vector<char>>& has_name) {
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    const host::ConstraintEntry& r = c_.constraints[i];
    if (!r.alive || r.owner != Owner::multibody_joint || !r.enabled || !r.deferred) continue;
    const LinkTable::Place link = t_.links[r.deferred->bodies()[1]];
    if (link.tree < 0 || t_.tree(link).column < 0) continue;
    has_name[z(link.tree)][z(link.link)] = 1;
    if (std::string why = add_with_laws(i, *r.deferred, made); !why.empty()) return why;
  }
  return {};
}

/// Adds the joints of the trees: those that have a name, and then the others.
std::string TreeLaws::add_joints(Made& made) {
  std::vector<std::vector<char>> has_name(t_.trees.size());
  for (std::size_t t = 0; t < t_.trees.size(); ++t)
    if (t_.trees[t]->column >= 0) has_name[t].assign(z(t_.trees[t]->tree.links()), 0);
  if (std::string why = add_named_joints(made, has_name); !why.empty()) return why;
  for (int t = 0; t < static_cast<int>(t_.trees.size()); ++t)
    for (int i = 0; i < static_cast<int>(has_name[z(t)].size()); ++i) {
      if (has_name[z(t)][z(i)]) continue;
      const LinkModel link = world_.read_link(t, i);
      BodyId child, parent;
      layout_.link_id(t, i, child);
      layout_.link_id(t, link.parent, parent);
      const std::string name = "joint of " + c_.system.name(child);
      const Result<ConstraintId> id = c_.system.try_add(joint_constraint(link, name, parent, child));
      if (!id) return id.error().message;
      joints_.push_back(*id);
      made.ids.push_back(*id);
    }
  return {};
}

// ---- rotors ----

double TreeLaws::inertia_of(const Rotor& rotor) const {
  const KinematicTree& tree = t_.trees[z(rotor.tree)]->tree;
  return tree.added_inertia(tree.column_of(rotor.rate));
}

bool TreeLaws::lacks_rotor() const {
  if (!t_.has(host::Trait::laws)) return false;
  std::size_t known = 0;
  for (int t = 0; t < static_cast<int>(t_.trees.size()); ++t) {
    if (t_.trees[z(t)]->column < 0) continue;
    for (int k = 0; k < t_.trees[z(t)]->tree.model().rates; ++k) {
      const bool has = known < rotors_.size() && rotors_[known].tree == t && rotors_[known].rate == k;
      if (!has && inertia_of({{}, t, k}) > 0) return true;
      known += has ? 1 : 0;
    }
  }
  return false;
}

/// Adds a rotor for every joint rate that has an inertia of its own, in the order of trees and rates.
std::string TreeLaws::add_rotors(Made& made) {
  rotors_.clear();
  for (int t = 0; t < static_cast<int>(t_.trees.size()); ++t) {
    if (t_.trees[z(t)]->column < 0) continue;
    const TreeModel& model = t_.trees[z(t)]->tree.model();
    for (int i = 0; i < static_cast<int>(model.links.size()); ++i)
      for (int k = 0; k < model.links[z(i)].rates; ++k) {
        const Rotor rotor{rotor_id(rotors_.size()), t, model.links[z(i)].first_rate + k};
        if (!(inertia_of(rotor) > 0)) continue;
        if (std::string why = add_rotor(rotor, i, made); !why.empty()) return why;
      }
  }
  return {};
}

std::string TreeLaws::add_rotor(const Rotor& rotor, int link, Made& made) {
  const LinkModel& model = t_.trees[z(rotor.tree)]->tree.link(link);
  const std::size_t k = z(rotor.rate - model.first_rate);
  const bool slides = model.joint == JointKind::prismatic;
  BodyId child, parent;
  layout_.link_id(rotor.tree, link, child);
  layout_.link_id(rotor.tree, model.parent, parent);
  const Result<ConstraintId> id =
      c_.system.try_add(rotor_constraint("rotor of " + c_.system.name(rotor.id), rotor.id, child, parent,
                                         slides ? model.linear[k] : model.angular[k], slides));
  if (!id) return id.error().message;
  joints_.push_back(*id);
  made.ids.push_back(*id);
  rotors_.push_back(rotor);
  return {};
}

/// A particle for a rotor. Those of earlier layouts are used again.
BodyId TreeLaws::rotor_id(std::size_t index) {
  while (rotor_ids_.size() <= index) {
    const BodyId id = c_.system.add_particle(c_.bodies.new_name("rotor"), 1, Vector3d::Zero());
    c_.bodies.add(id, false);
    rotor_ids_.push_back(id);
  }
  return rotor_ids_[index];
}

/// Takes over inertias and rates at the step's start.
void TreeLaws::read_rotors() {
  for (const Rotor& rotor : rotors_) {
    const double least = 1e-12;  // in place of 0, if the program has removed what was there
    const double inertia = std::max(least, inertia_of(rotor));
    if (c_.system.mass(rotor.id) != inertia) (void)c_.system.try_set_mass(rotor.id, inertia, Matrix3d::Zero());
    const double rate = t_.trees[z(rotor.tree)]->tree.state().velocity[z(6 + rotor.rate)];
    c_.bodies.start[rotor.id] =
        BodyState{Vector3d::Zero(), Quaterniond::Identity(), Vector3d(rate, 0, 0), Vector3d::Zero()};
  }
}

/// Adds the constraints of the problem.
std::string TreeLaws::add_constraints(Made& made) {
  for (const ConstraintRows& c : t_.constraints.constraints()) {
    const host::ConstraintEntry& r = c_.constraints[c.owner];
    if (layout_.has_rigid(c.owner)) {
      made.ids.push_back(r.id);
      made.entries.emplace_back(r.id.index, c.owner);
      continue;
    }
    if (!c.is_linear_gear()) return "the gear '" + r.name + "' is not linear";
    if (std::string why = add_with_laws(c.owner, c.is_gear() ? gear_of(c, r.name) : *c.constraint, made); !why.empty())
      return why;
  }
  return {};
}

void TreeLaws::start(const Made& made) {
  SolveOptions options;
  options.rank_tolerance = c_.options.rank_tolerance;
  t_.dynamics.emplace(c_.system, made.ids, options);
  t_.report.standing = {};
  t_.history.sticking.clear();
  if (const auto history = std::exchange(to_restore_, nullptr)) t_.dynamics->set_law_history(history);
  const IslandLayout& layout = t_.dynamics->assembly().layout;
  entry_of_constraint_.assign(layout.constraints.size(), -1);
  for (std::size_t i = 0; i < layout.constraints.size(); ++i)
    for (const auto& [constraint, entry] : made.entries)
      if (constraint == layout.constraints[i].index) entry_of_constraint_[i] = entry;
  for (auto* x : {&Q_, &v0_, &v1_}) x->assign(z(layout.n()), 0);
  applied_.resize(t_.trees.size());
  prescribed_.resize(t_.trees.size());
  PrescribedMotion& p = t_.prescribed;
  for (auto* x : {&p.c, &p.dv, &p.first_dv}) x->assign(t_.x.v.size(), 0);
  for (auto* x : {&p.lambda, &p.first_lambda}) x->assign(t_.x.row.size(), 0);
}

std::shared_ptr<const Dynamics::LawHistory> TreeLaws::history() const {
  return t_.dynamics ? t_.dynamics->law_history() : nullptr;
}

void TreeLaws::reset() {
  to_restore_ = nullptr;
  if (t_.dynamics) t_.dynamics->set_law_history(nullptr);
}

// ---- a step ----

void TreeLaws::evaluate() {
  PrescribedMotion& p = t_.prescribed;
  p.is_known = false;
  if (!t_.has(host::Trait::laws)) return;
  for (const auto* list : {&fixed_, &members_})
    for (const Member& m : *list) {
      if (m.link.tree < 0) continue;
      const LinkMotion& at = t_.tree(m.link).tree.motion(m.link.link);
      c_.bodies.start[m.id] = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
      if (list == &members_) update_mass(m);
    }
  read_rotors();
  collect_forces(false);
  t_.dynamics->set_step(c_.dt);  // friction obeys its law at the end of the step (T10)
  p.is_known = t_.dynamics->evaluate(c_.bodies.start, Q_) != Status::invalid;
  solve_prescribed();
  p.first_dv = p.dv;
  p.first_lambda = p.lambda;
}

/// Gives the system the mass of a link where the program has changed it.
void TreeLaws::update_mass(const Member& m) {
  const TreeModel& model = t_.tree(m.link).tree.model();
  const double mass = model.mass(m.link.link);
  const Vector3d inertia = model.inertia(m.link.link);
  if (c_.system.mass(m.id) != mass || c_.system.inertia(m.id).diagonal() != inertia)
    (void)c_.system.try_set_mass(m.id, mass, inertia.asDiagonal());
}

void TreeLaws::resolve() {
  if (!t_.prescribed.is_known || !t_.has_rows()) return;
  collect_forces(true);
  t_.prescribed.is_known = t_.dynamics->resolve(c_.bodies.start, Q_) != Status::invalid;
  solve_prescribed();
}

/// Calls visit(member, its first column) for every member that the maximal problem moves.
template <class Visit>
void TreeLaws::for_members(Visit visit) const {
  const IslandLayout& layout = t_.dynamics->assembly().layout;
  for (const Member& m : members_)
    if (const int slot = layout.body_index(m.id); slot >= 0) visit(m, layout.column[z(slot)]);
}

/// Collects the forces on every member. @param with_rows  with what the host's rows did in this step, as mean forces
void TreeLaws::collect_forces(bool with_rows) {
  for (std::size_t t = 0; t < t_.trees.size(); ++t) {
    if (t_.trees[t]->column < 0) continue;
    t_.trees[t]->tree.applied_wrenches(applied_[t]);
    if (with_rows) add_row_forces(*t_.trees[t], applied_[t]);
  }
  std::fill(Q_.begin(), Q_.end(), 0.0);
  for_members([&](const Member& m, int c) {
    if (m.link.tree >= 0) {
      const Wrench& on = applied_[z(m.link.tree)][z(m.link.link + 1)];
      put(Q_, c, on.force);
      put(Q_, c + 3, on.moment);
      return;
    }
    const LoopBody& b = t_.loop_bodies[z(m.loop_body)];
    for (int k = 0; k < b.dof; ++k) Q_[z(c + k)] = t_.constraints.problem().Q[z(b.column + k)];
    if (!with_rows || !b.among_rows) return;
    const Vector6 a = row_acceleration(c_, b);
    host::add(Q_, c, c_.system.mass(b.id) * a.head<3>());
    if (b.dof == 6) host::add(Q_, c + 3, c_.system.world_inertia(b.id, c_.bodies.start[b.id].q) * a.tail<3>());
  });
}

// Adds the wrenches of the host's rows on links, as far as they are known by link. The rest of what the rows did,
// motors and limits mostly, is along the joints.
void TreeLaws::add_row_forces(const Tree& t, std::vector<Wrench>& on) {
  const std::size_t n = z(t.tree.columns());
  const auto rest = std::span(t_.x.change).first(n), all = std::span(t_.x.dv).first(n);
  t.tree.generalized(t.on_links, rest);
  t.tree.times_mass(std::span(t.row_acceleration).subspan(z(t.tree.fixed_velocities())), all);
  for (std::size_t r = 0; r < n; ++r) rest[r] = all[r] - rest[r];
  for (int i = 0; i <= t.tree.links(); ++i) {
    on[z(i)].force += t.on_links[z(i)].force;
    on[z(i)].moment += t.on_links[z(i)].moment;
  }
  t.tree.add_joint_forces(rest.subspan(z(t.tree.base_columns())), on);
  if (t.tree.base_columns() == 0) return;
  on[0].moment += head(rest, 0);
  on[0].force += head(rest, 3);
}

/// Solves what the prescribed forces do to the accelerations (T5).
void TreeLaws::solve_prescribed() {
  PrescribedMotion& p = t_.prescribed;
  for (auto* x : {&p.c, &p.dv, &p.lambda}) std::fill(x->begin(), x->end(), 0.0);
  if (!p.is_known) {
    ++c_.counts.fallbacks;
    c_.notes.fallback_reason = "multibodies: force laws did not act in a step, because " + t_.dynamics->reason();
    if (t_.dynamics->failure() == FailureKind::law) host::note_law_failure(c_, t_.dynamics->reason());
    return;
  }
  spread_prescribed();
  add_rows_response(p.dv, p.lambda);
}

/// Takes dv to joint coordinates, and adds what the rows do so that it keeps them.
void TreeLaws::add_rows_response(std::vector<double>& dv, std::vector<double>& lambda) {
  t_.constraints.to_joint_coordinates(dv);
  if (t_.constraints.rows() == 0) return;
  t_.constraints.row_velocities(dv, t_.x.row);
  for (double& x : t_.x.row) x = -x;
  dv_of_rows_.resize(dv.size());
  t_.constraints.solve(t_.x.row, lambda, dv_of_rows_);
  for (std::size_t k = 0; k < dv.size(); ++k) dv[k] += dv_of_rows_[k];
}

void TreeLaws::begin_rows() {
  t_.x.before_rows = t_.x.v;
  response_.efforts.clear();
  forces_for_rows_ = t_.prescribed.c;
  anderson_.begin();
  rows_solved_ = 0;
  least_difference_ = std::numeric_limits<double>::infinity();
}

bool TreeLaws::improve_forces_for_rows() {
  constexpr double tolerance = 1e-7;  // of a difference, as a share of the largest force
  constexpr double far = 1e3;         // differences that large, as a multiple of the least one, lead nowhere
  constexpr int most = 50;
  resolve();
  if (!t_.prescribed.is_known) return false;
  const std::vector<double>& given = t_.prescribed.c;
  difference_.resize(given.size());
  double size = 0, worst = 0;
  for (std::size_t k = 0; k < given.size(); ++k) {
    difference_[k] = given[k] - forces_for_rows_[k];
    size = std::max(size, std::abs(given[k]));
    worst = std::max(worst, std::abs(difference_[k]));
  }
  if (!finite(difference_)) return false;
  if (worst <= tolerance * size || rows_solved_ > most) return false;
  if (worst < least_difference_) {
    least_difference_ = worst;
    best_forces_for_rows_ = forces_for_rows_;
  }
  if (++rows_solved_ > most || worst > far * least_difference_) {
    rows_solved_ = most + 1;
    t_.report.law_trouble = "the host's contacts and the laws did not agree: the forces of laws differ by up to " +
                            std::to_string(least_difference_) +
                            " N or N m from those with which the contacts were solved. Use a shorter step";
    return std::exchange(forces_for_rows_, best_forces_for_rows_) != best_forces_for_rows_;
  }
  change_ = difference_;
  anderson_.improve<1>(difference_, {change_}, true);
  for (std::size_t k = 0; k < given.size(); ++k) forces_for_rows_[k] += change_[k];
  return true;
}

void TreeLaws::add_response(std::span<double> change) {
  if (!t_.prescribed.is_known) return;
  total_.resize(change.size());
  for (std::size_t k = 0; k < change.size(); ++k) total_[k] = t_.x.v[k] + change[k] - t_.x.before_rows[k];
  velocities_of_members(total_, v1_);
  t_.dynamics->add_law_response(c_.bodies.start, v1_, response_);
  c_rows_.assign(t_.prescribed.c.size(), 0.0);
  dv_rows_.assign(t_.prescribed.dv.size(), 0.0);
  lambda_rows_.assign(t_.prescribed.lambda.size(), 0.0);
  clear_prescribed();
  for_members([&](const Member& m, int c) {
    if (m.link.tree < 0) {
      const LoopBody& b = t_.loop_bodies[z(m.loop_body)];
      for (int k = 0; k < b.dof; ++k) c_rows_[z(b.column + k)] = response_.impulse[z(c + k)];
      return;
    }
    Wrench& on = prescribed_[z(m.link.tree)][z(m.link.link + 1)];
    on.force = host::head(response_.impulse, c);
    on.moment = host::head(response_.impulse, c + 3);
  });
  spread_on_columns(c_rows_, dv_rows_);
  add_rows_response(dv_rows_, lambda_rows_);
  PrescribedMotion& p = t_.prescribed;
  for (std::size_t k = 0; k < change.size(); ++k) {
    change[k] += dv_rows_[k];
    p.first_dv[k] += dv_rows_[k] / c_.dt;
  }
  for (std::size_t r = 0; r < lambda_rows_.size(); ++r) {
    t_.x.multipliers[r] += lambda_rows_[r];
    p.first_lambda[r] += lambda_rows_[r] / c_.dt;
  }
}

void TreeLaws::answer_at_start() {
  if (!t_.prescribed.is_known) return;
  t_.dynamics->evaluate_laws_at(c_.bodies.start, c_.dt);
  solve_prescribed();
}

std::span<const BodyId> TreeLaws::bodies_of(const Prescribed& p) const {
  return c_.system.constraint(t_.dynamics->assembly().layout.constraints[z(p.constraint)]).bodies();
}

/// Writes the prescribed forces along the columns to c, and what they give to the solver's columns to dv.
void TreeLaws::spread_prescribed() {
  clear_prescribed();
  for (const Prescribed& p : prescribed()) {
    const auto ids = bodies_of(p);
    add_prescribed(ids[0], 1, p);
    if (ids.size() > 1) add_prescribed(ids[1], -1, p);
  }
  spread_on_columns(t_.prescribed.c, t_.prescribed.dv);
}

void TreeLaws::clear_prescribed() {
  for (std::size_t t = 0; t < t_.trees.size(); ++t)
    if (t_.trees[t]->column >= 0) prescribed_[t].assign(z(t_.trees[t]->tree.links() + 1), Wrench{});
}

/// Adds the forces on links to c, and writes what c gives to the solver's columns to dv.
/// @param c  [columns] in: forces on the rigid bodies alone
void TreeLaws::spread_on_columns(std::vector<double>& c, std::vector<double>& dv) {
  t_.constraints.solver().inverse_mass(c, dv);
  for (std::size_t at = 0; at < t_.trees.size(); ++at) {
    Tree& t = *t_.trees[at];
    if (t.column < 0) continue;
    const std::vector<Wrench>& on = prescribed_[at];
    t.tree.generalized(on, t.own(std::span(c)));
    for (std::size_t i = 0; i < t.wrenches.size(); ++i) t.wrenches[i] << on[i].force, on[i].moment;
    t.tree.solve_factor(t.wrenches, t.own(std::span(dv)));
  }
}

/// Adds a prescribed force to one of its bodies.
void TreeLaws::add_prescribed(BodyId id, double sign, const Prescribed& p) {
  if (id == linchpin::ground) return;
  const Vector3d force = sign * p.force, moment = sign * (p.moment + (p.p_WQ - c_.bodies.start[id].p).cross(p.force));
  if (const LinkTable::Place link = t_.links[id]; link.tree >= 0) {
    Wrench& to = prescribed_[z(link.tree)][z(link.link + 1)];
    to.force += force;
    to.moment += moment;
    return;
  }
  for (const LoopBody& b : t_.loop_bodies) {
    if (b.id != id) continue;
    host::add(t_.prescribed.c, b.column, force);
    if (b.dof == 6) host::add(t_.prescribed.c, b.column + 3, moment);
  }
}

/// Computes the velocities of the members, at the step's start, when the columns have the velocities v.
void TreeLaws::velocities_of_members(std::span<const double> v, std::vector<double>& out) {
  int last = -1;
  for_members([&](const Member& m, int c) {
    if (m.link.tree < 0) {
      const LoopBody& b = t_.loop_bodies[z(m.loop_body)];
      for (int k = 0; k < b.dof; ++k) out[z(c + k)] = v[z(b.column + k)];
      return;
    }
    Tree& t = t_.tree(m.link);
    if (std::exchange(last, m.link.tree) != m.link.tree) {
      t.set_velocity(v);
      t.tree.forward_kinematics(t.tree.state().at, t.velocity, t.at_end);
      t.forget_motion();
    }
    put(out, c, t.at_end[z(m.link.link + 1)].v);
    put(out, c + 3, t.at_end[z(m.link.link + 1)].w);
  });
  const IslandLayout& layout = t_.dynamics->assembly().layout;
  for (const Rotor& rotor : rotors_)
    if (const int slot = layout.body_index(rotor.id); slot >= 0) {
      const Tree& t = *t_.trees[z(rotor.tree)];
      put(out, layout.column[z(slot)], Vector3d(v[z(t.column + t.tree.column_of(rotor.rate))], 0, 0));
    }
}

bool TreeLaws::reapply_stick() {
  velocities_of_members(t_.x.v, v1_);
  double size = 1;
  for (const double x : t_.x.v) size = std::max(size, std::abs(x));
  if (!(t_.dynamics->reapply_stick(c_.bodies.start, v1_) > 1e-15 * size)) return false;
  const PrescribedMotion& p = t_.prescribed;
  last_dv_ = p.dv;
  last_lambda_ = p.lambda;
  solve_prescribed();
  for (std::size_t k = 0; k < t_.x.v.size(); ++k) t_.x.v[k] += c_.dt * (p.dv[k] - last_dv_[k]);
  for (std::size_t r = 0; r < t_.x.multipliers.size(); ++r)
    t_.x.multipliers[r] += c_.dt * (p.lambda[r] - last_lambda_[r]);
  return true;
}

void TreeLaws::account() {
  if (!t_.prescribed.is_known) return;
  velocities_of_members(t_.constraints.start_velocity(), v0_);
  velocities_of_members(t_.x.v, v1_);
  (void)c_.laws.all(c_.constraints);  // in their order
  host::note_law_warnings(c_, t_);
  for (const LawForce& e : t_.dynamics->law_forces()) {
    const int entry = entry_of_constraint_[z(e.constraint)];
    if (entry < 0) continue;
    host::ConstraintEntry& r = c_.constraints[entry];
    for (LawWork& to : c_.laws.of(r)) {
      if (to.law != e.law || to.term != e.term) continue;
      const double work = add_law_work(c_.system, *t_.dynamics, c_.bodies.start, e, c_.dt, v0_, v1_, to);
      to.end_step(c_.dt);
      if (r.reaction >= 0) c_.reactions.add_work(r, work);
    }
  }
  t_.dynamics->accept(c_.dt);
  host::note_friction_modes(c_, t_);
}

std::span<const Reaction> TreeLaws::update_reactions() {
  t_.dynamics->reactions(c_.bodies.start, reactions_, false);
  return reactions_;
}

Vector6 row_acceleration(const host::Context& c, const LoopBody& b) {
  BodyState now;
  c.world.read(b.id, now);
  const BodyState& then = c.bodies.start[b.id];
  Vector6 change;
  change << now.v - then.v, now.w - then.w;
  return (change - b.applied - b.own) / c.dt;
}

}  // namespace linchpin::articulated
