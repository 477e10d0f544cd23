#include "articulated/tree_reports.h"

#include "host/reactions.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>
#include <utility>

namespace linchpin::articulated {

using Columns = TreeConstraints::Columns;
using Owner = host::ConstraintEntry::Owner;

namespace {

void add_wrench(Wrench& to, const Wrench& w, double sign = 1) {
  to.force += sign * w.force;
  to.moment += sign * w.moment;
}
void add_wrench(Wrench& to, const Vector6& w) {
  to.force += w.head<3>();
  to.moment += w.tail<3>();
}
Wrench opposite(const Wrench& w) { return {-w.force, -w.moment, w.point}; }
Wrench none_at(const Vector3d& point) { return {Vector3d::Zero(), Vector3d::Zero(), point}; }

}  // namespace

void TreeReports::update() {
  if (!is_current_ && t_.is_held()) report_constraints();
  is_current_ = true;
  if (std::exchange(joints_are_current_, true)) return;
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i)
    if (const host::ConstraintEntry& r = c_.constraints[i];
        r.alive && r.owner == Owner::multibody_joint && r.reaction >= 0)
      report_joint(i, c_.reactions[r.reaction]);
}

// ---- at the end of a step ----

void TreeReports::collect() {
  for (auto& t : t_.trees) {
    if (t->column < 0) continue;
    t->reports.acceleration.resize(z(t->tree.columns()));
    for (int k = 0; k < t->tree.columns(); ++k) {
      const std::size_t c = z(t->column + k);
      t->reports.acceleration[z(k)] =
          t_.constraints.free_acceleration()[c] + t_.vectors.acceleration[c] + (has_laws() ? t_.prescribed.dv[c] : 0);
    }
  }
  for (const ConstraintRows& c : t_.constraints.constraints()) {
    if (c.is_gear()) continue;
    for (std::size_t k = 0; k < c.bodies.size(); ++k) {
      const ConstraintBody& body = c.bodies[k];
      if (body.tree < 0) continue;
      Vector6 w = t_.constraints.wrench_on(c, static_cast<int>(k), t_.vectors.reported);
      if (has_laws()) w += t_.constraints.wrench_on(c, static_cast<int>(k), t_.prescribed.lambda);
      add_wrench(t_.trees[z(body.tree)]->on_links[z(body.link + 1)], w);
    }
  }
  if (!has_laws()) return;
  // Forces that laws prescribe between links act here too. In a joint of a tree they are part of its wrench.
  for (const Prescribed& p : laws_.prescribed()) {
    const int entry = laws_.entry_of(z(p.constraint));
    if (entry < 0 || c_.constraints[entry].owner == Owner::multibody_joint) continue;
    const auto ids = laws_.bodies_of(p);
    for (std::size_t k = 0; k < std::min<std::size_t>(2, ids.size()); ++k) {
      const LinkTable::Place link = t_.links[ids[k]];
      if (link.tree < 0) continue;
      add_wrench(t_.tree(link).on_links[z(link.link + 1)],
                 Wrench{p.force, p.moment, p.p_WQ}.about(c_.bodies.start[ids[k]].p), k == 0 ? 1 : -1);
    }
  }
}

void TreeReports::measure_gaps() {
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& t = *t_.trees[z(i)];
    if (t.column < 0) continue;
    t.after.update([&](TreeModel& model, TreeState& state) { world_.read(i, model, state); });
    t.after.find_motions();
    t.at_end = t.after.motions();
    t.forget_motion();
    t.end = t.after.state().at;
  }
  for (const ConstraintRows& c : t_.constraints.constraints()) {
    const host::ConstraintEntry& r = c_.constraints[c.owner];
    if (r.is_on_links() && r.reaction >= 0) measure_gap(c, c_.reactions[r.reaction]);
  }
}

void TreeReports::measure_gap(const ConstraintRows& c, Reaction& to) {
  to.gap = to.gap_angle = to.residual = 0;
  if (c.is_gear()) {
    to.gap_angle = std::abs(t_.constraints.gear_residual_at_end(c));
    c_.gaps.largest_angle = std::max(c_.gaps.largest_angle, to.gap_angle);
    return;
  }
  ConstraintFunction& function = c.constraint->function();
  states_.clear();
  for (const ConstraintBody& body : c.bodies) {
    states_.push_back(body.tree >= 0 ? t_.constraints.state_of(body, true) : BodyState{});
    if (body.tree < 0 && c_.bodies.in_host(body.id)) c_.world.read(body.id, states_.back());
  }
  if (function.level() == Level::position) {
    const host::GapMonitor::Gap gap = host::gap_of(function, states_, c_.t, residual_);
    to.gap = gap.length;
    to.gap_angle = gap.angle;
    to.residual = gap.own;
    if (const JointRows::Alignment* const alignment = detail::alignment_of(function))
      to.gap_angle = std::max(to.gap_angle, detail::turned_away(*alignment, states_[0].R(), states_[1].R()));
    c_.gaps.largest_gap = std::max(c_.gaps.largest_gap, to.gap);
    c_.gaps.largest_angle = std::max(c_.gaps.largest_angle, to.gap_angle);
  }
  function.accept(states_, c_.t);
  if (const ConstraintId id = c_.constraints[c.owner].link_id; id.index >= 0 && !c.is_gear())
    c_.system.constraint(id).function().accept(states_, c_.t);  // the copy whose laws are evaluated
}

// ---- reactions ----

void TreeReports::report_constraints() {
  if (has_laws()) laws_.update_reactions();
  t_.constraints.row_velocities(t_.constraints.start_velocity(), t_.x.row);
  std::size_t first = 0;  // of its bodies in the sums of substeps
  for (const ConstraintRows& c : t_.constraints.constraints()) {
    if (const host::ConstraintEntry& r = c_.constraints[c.owner]; r.reaction >= 0)
      report_constraint(c, first, c_.reactions[r.reaction]);
    first += c.bodies.size();
  }
  for (std::size_t i = 0; has_laws() && i < laws_.constraints(); ++i) {
    if (laws_.entry_of(i) < 0) continue;
    const host::ConstraintEntry& r = c_.constraints[laws_.entry_of(i)];
    if (r.alive && r.reaction >= 0 && r.owner != Owner::multibody_joint)
      add_prescribed(i, laws_.entry_of(i), c_.reactions[r.reaction]);
  }
}

/// Where a constraint acts on one of its bodies: that of a gear at the joint's pivot.
Vector3d TreeReports::application_point(const ConstraintRows& c, int body) const {
  if (!c.is_gear()) return c.constraint->application_point(body, c_.bodies.start);
  const ConstraintBody& of = c.bodies[z(body)];
  return t_.constraints.trees()[z(of.tree)]->tree.motion(of.link).pivot;
}

/// Reports one constraint; x.row has the velocities of its rows at the start.
/// @param first  place of its bodies in the sums of substeps
void TreeReports::report_constraint(const ConstraintRows& c, std::size_t first, Reaction& to) {
  to.t = t_.constraints.problem().t;
  to.native = false;
  const auto reported = c.own(std::span<const double>(t_.vectors.reported));
  to.lambda.assign(reported.begin(), reported.end());
  to.power = to.velocity_residual = 0;
  const int K = static_cast<int>(c.bodies.size());
  for (Wrenches* w : {static_cast<Wrenches*>(&to), &to.ideal, &to.prescribed, &to.induced, &to.stabilisation})
    w->others.resize(z(std::max(0, K - 2)));
  for (int k = 0; k < K; ++k) {
    const BodyId id = c.bodies[z(k)].id;
    const BodyState s = id == linchpin::ground ? BodyState{} : c_.bodies.start[id];
    const Vector3d point = application_point(c, k);
    const auto at = [&](std::span<const double> lambda) {
      const Vector6 f = t_.constraints.wrench_on(c, k, lambda);
      return Wrench{f.head<3>(), f.tail<3>(), s.p}.about(point);
    };
    to.on(k) = to.ideal.on(k) = at(t_.vectors.reported);
    to.stabilisation.on(k) = at(t_.vectors.correction);
    if (t_.in_substeps()) {
      const Vector6& mean = t_.sums.wrenches[first + z(k)];
      to.stabilisation.on(k) = Wrench{mean.head<3>(), mean.tail<3>(), s.p}.about(point);
      add_wrench(to.stabilisation.on(k), to.ideal.on(k), -1);
    }
    to.prescribed.on(k) = to.induced.on(k) = none_at(point);
    if (!has_laws()) continue;
    to.induced.on(k) = at(t_.prescribed.lambda);
    add_wrench(to.on(k), to.induced.on(k));
  }
  for (std::size_t i = z(c.row); i < z(c.row + c.rows); ++i) {
    to.velocity_residual = std::max(to.velocity_residual, std::abs(t_.constraints.velocity()[i]));
    to.power += (t_.vectors.reported[i] + (has_laws() ? t_.prescribed.lambda[i] : 0)) * t_.x.row[i];
  }
}

/// Adds what laws prescribe, and what they do in the step beyond its start. @param constraint  of the laws' problem
void TreeReports::add_prescribed(std::size_t constraint, int entry, Reaction& to) {
  const Reaction& from = laws_.reaction(constraint);
  const auto ids = c_.constraints.of(c_.constraints[entry]).bodies();
  for (int k = 0; k < static_cast<int>(ids.size()); ++k) {
    Wrench& sum = to.stabilisation.on(k);
    add_wrench(sum, from.stabilisation.on(k).about(sum.point));
  }
  for (int k = 0; k < std::min(2, static_cast<int>(ids.size())); ++k) {
    const Wrench w = from.prescribed.on(k).about(to.on(k).point);
    to.prescribed.on(k) = w;
    add_wrench(to.on(k), w);
    const BodyId id = ids[z(k)];
    const BodyState& s = c_.bodies.start[id];
    if (id != linchpin::ground) to.power += w.force.dot(s.v) + w.about(s.p).moment.dot(s.w);
  }
}

// A joint of a tree that has a name: everything that goes through it but for what acts along it. Laws, and the normal
// forces that they call up, are reported apart where there are any.
void TreeReports::report_joint(int entry, Reaction& to) {
  const LinkTable::Place joint = t_.links[c_.constraints[entry].deferred->bodies()[1]];
  to.native = joint.tree < 0 || !why_no_report(joint).empty();
  if (to.native) return;
  Tree& t = t_.tree(joint);
  to.t = c_.bodies.start.t;
  to.lambda.clear();
  to.power = to.gap = to.gap_angle = to.residual = to.velocity_residual = 0;
  to.stabilisation.on_a = to.stabilisation.on_b = Wrench{};
  write_joint_reaction(entry, joint, t, to);
  if (!is_in_problem(t)) return;
  const Wrench w = correction_through_joint(t, joint.link, to.ideal.on_b).about(to.on_b.point);
  const Wrenches of_laws = std::exchange(to.stabilisation, {});  // what laws do in the step beyond its start
  to.stabilisation.on_b = Wrench{of_laws.on_b.force + w.force, of_laws.on_b.moment + w.moment, w.point};
  to.stabilisation.on_a = Wrench{of_laws.on_a.force - w.force, of_laws.on_a.moment - w.moment, w.point};
}

void TreeReports::write_joint_reaction(int entry, LinkTable::Place joint, Tree& t, Reaction& to) {
  if (!has_laws() || !is_in_problem(t)) {
    const Wrench w = t.tree.without_free_part(joint.link, wrenches_through_joints(t)[z(joint.link + 1)]);
    to.on_b = to.ideal.on_b = w;
    to.on_a = to.ideal.on_a = opposite(w);
    for (Wrenches* none : {&to.prescribed, &to.induced, &to.stabilisation}) none->on_a = none->on_b = none_at(w.point);
    return;
  }
  for (std::size_t i = 0; i < laws_.constraints(); ++i) {
    if (laws_.entry_of(i) != entry) continue;
    const Reaction& from = laws_.reaction(i);
    static_cast<Wrenches&>(to) = from;
    to.ideal = from.ideal;
    to.prescribed = from.prescribed;
    to.induced = from.induced;
    to.power = from.power;
    to.stabilisation = from.stabilisation;
  }
}

// ---- rank ----

/// The ranks of the rows in joint coordinates. There a redundant row of links makes no force, but the wrench on the
/// links that belongs to it is undetermined.
RankReport TreeReports::ranks() const {
  RankReport out = t_.constraints.solver().report(t_.constraints.problem().b);
  for (const int i : out.redundant) {
    const ConstraintRows& rows = t_.constraints.constraints()[z(i)];
    const bool on_links =
        std::any_of(rows.bodies.begin(), rows.bodies.end(), [](const auto& b) { return b.tree >= 0; });
    if (on_links && std::find(out.undetermined.begin(), out.undetermined.end(), i) == out.undetermined.end())
      out.undetermined.push_back(i);
  }
  std::sort(out.undetermined.begin(), out.undetermined.end());
  return out;
}

RankReport TreeReports::rank_report() const {
  RankReport out;
  if (!t_.is_held()) return out;
  out = ranks();
  for (std::vector<int>* of : {&out.redundant, &out.undetermined}) {
    for (int& i : *of) i = c_.constraints[t_.topology.entries[z(i)]].reaction;
    std::erase_if(*of, [](int reaction) { return reaction < 0; });
  }
  out.contradictory.clear();  // found with the forces
  return out;
}

void TreeReports::update_redundancy() {
  if (!t_.is_held()) return;
  const linchpin::ConstraintFactorization& solver = t_.constraints.solver();
  host::update_redundancy(c_, t_, solver, [&] { return ranks(); });
}

// ---- the sensors in joints ----

constexpr const char* no_step_yet = "no step has been taken yet";

/// Finds the accelerations of the last step of the tree of a joint. @return why the joint has no report, or empty
std::string TreeReports::why_no_report(LinkTable::Place joint) {
  Tree& t = t_.tree(joint);
  if (joint.link < 0 || joint.link >= t.tree.links()) return "the multibody has no joint " + std::to_string(joint.link);
  if (std::string why = world_.why_unsupported(joint.tree); !why.empty()) return why;
  if (!t.was_read || t.on_links.empty()) return no_step_yet;
  if (!t.reports.acceleration_is_current && !is_in_problem(t)) {
    const int n = t.tree.columns();
    t.reports.acceleration.assign(z(n), 0);
    t.refresh();
    if (!t.has_factor()) return "the mass matrix of the multibody is not positive definite";
    for (int k = 0; !t.was_asleep && k < n; ++k)
      t.reports.acceleration[z(k)] = t.free[z(k)] + t.row_acceleration[z(t.tree.fixed_velocities() + k)];
  }
  t.reports.acceleration_is_current = true;
  return {};
}

void TreeReports::demand_report(LinkTable::Place joint) {
  const std::string why = why_no_report(joint);
  if (why == no_step_yet) throw OrderError(why);
  host::demand(why);
}

Wrench TreeReports::joint_wrench(int tree, int link) {
  demand_report({tree, link});
  return wrenches_through_joints(*t_.trees[z(tree)])[z(link + 1)];
}

/// Computes the wrenches through all joints when one is asked for: a caller of one mostly asks for all.
const std::vector<Wrench>& TreeReports::wrenches_through_joints(Tree& t) {
  JointReports& reports = t.reports;
  if (std::exchange(reports.wrenches_are_current, true)) return reports.wrenches;
  reports.outside = t.on_links;
  for (std::size_t i = 0; i < reports.outside.size(); ++i) add_wrench(reports.outside[i], t.rows.along_joints[i], -1);
  t.tree.joint_wrenches(reports.acceleration, reports.outside, reports.wrenches);
  return reports.wrenches;
}

/// Computes the wrenches through all joints by what constraints gave beyond their reactions to end the step where they
/// are met (T11).
const std::vector<Wrench>& TreeReports::corrections_through_joints(Tree& t) {
  std::vector<Wrench>& out = t.reports.corrections;
  if (std::exchange(t.reports.corrections_are_current, true)) return out;
  const auto dv = t.own(std::span(t_.x.dv));
  std::fill(dv.begin(), dv.end(), 0.0);
  t_.constraints.add_constraint_force(t, Columns::unit, t_.vectors.correction, dv);
  t.tree.solve_factor_transposed(dv);
  out.assign(z(t.tree.links() + 1), Wrench{});
  for (const ConstraintRows& c : t_.constraints.constraints())
    for (std::size_t k = 0; !c.is_gear() && k < c.bodies.size(); ++k) {
      const ConstraintBody& body = c.bodies[k];
      if (body.tree >= 0 && t_.constraints.trees()[z(body.tree)] == &t)
        add_wrench(out[z(body.link + 1)], t_.constraints.wrench_on(c, static_cast<int>(k), t_.vectors.correction));
    }
  t.tree.joint_wrenches_at_rest(dv, out, out);
  return out;
}

/// What the step applied beyond the reaction through the joint of a link, but for what acts along it.
Wrench TreeReports::correction_through_joint(Tree& t, int link, const Wrench& reaction) {
  if (!t_.in_substeps()) return t.tree.without_free_part(link, corrections_through_joints(t)[z(link + 1)]);
  const Wrench& sum = t.joint_impulses[z(link + 1)];
  const Wrench then = reaction.about(t.tree.motion(link).pivot);
  return {sum.force / t_.dt - then.force, sum.moment / t_.dt - then.moment, then.point};
}

/// Computes the forces along the coordinates by cause.
void TreeReports::update_forces(Tree& t) {
  JointReports& reports = t.reports;
  if (std::exchange(reports.forces_are_current, true)) return;
  const int n = t.tree.columns();
  t.tree.forces_by_cause(world_.gravity(), reports.forces);
  reports.inertia.assign(z(n), 0);
  t.tree.times_mass(reports.acceleration, reports.inertia);
  reports.constraint.assign(z(n), 0);
  if (!is_in_problem(t)) return;
  for (std::size_t r = 0; r < t_.x.row.size(); ++r)
    t_.x.row[r] = t_.vectors.reported[r] + (has_laws() ? t_.prescribed.lambda[r] : 0);
  t_.constraints.add_constraint_force(t, Columns::joint, t_.x.row, reports.constraint);
}

JointForces TreeReports::joint_forces(int tree, int link) {
  demand_report({tree, link});
  JointForces out;
  Tree& t = *t_.trees[z(tree)];
  update_forces(t);
  const KinematicTree::ForcesByCause& forces = t.reports.forces;
  const LinkModel& joint = t.tree.link(link);
  for (int k = 0; k < joint.rates; ++k) {
    const int column = t.tree.column_of(joint.first_rate + k);
    const std::size_t rate = z(6 + joint.first_rate + k);
    out.gravity[k] = forces.gravity[z(column)];
    out.velocity[k] = forces.velocity[z(column)];
    out.damping[k] = forces.damping[z(column)];
    out.applied[k] = forces.applied[z(column)];
    out.constraint[k] = t.reports.constraint[z(column)];
    out.inertia[k] = t.reports.inertia[z(column)];
    if (has_laws() && is_in_problem(t)) out.laws[k] = t_.prescribed.c[z(t.column + column)];
    out.contact[k] = t.rows.contact[rate] / t_.dt;
    out.friction[k] = t.rows.friction[rate] / t_.dt;
    out.native[k] = t.rows.joint[rate] / t_.dt;
  }
  if (t.was_asleep) out.native = -(out.gravity + out.velocity + out.damping + out.applied + out.constraint);
  return out;
}

}  // namespace linchpin::articulated
