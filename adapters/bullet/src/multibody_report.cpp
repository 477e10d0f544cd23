// Reports of constraints on links: reactions, rank, the sensors in joints, energy.
#include "multibody.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using articulated::ConstraintBody;
using articulated::ConstraintRows;
using Columns = articulated::TreeConstraints::Columns;

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

void Multibodies::update_reports() {
  if (!report_is_current_ && is_solved()) report_constraints();
  report_is_current_ = true;
  if (std::exchange(joint_reports_are_current_, true)) return;
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i)
    if (const host::ConstraintEntry& r = c_.constraints[i];
        r.alive && r.owner == Owner::multibody_joint && r.reaction >= 0)
      report_joint(i, c_.reactions[r.reaction]);
}

/// Collects accelerations and what acts on the links, for the sensors in joints.
void Multibodies::report_accelerations() {
  const bool laws = laws_.are_solved;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->reports.acceleration.resize(z(t->tree.columns()));
    for (int k = 0; k < t->tree.columns(); ++k) {
      const std::size_t c = z(t->column + k);
      t->reports.acceleration[z(k)] =
          constraints_.free_acceleration()[c] + solution_.acceleration[c] + (laws ? laws_.dv[c] : 0);
    }
  }
  for (const ConstraintRows& c : constraints_.constraints()) {
    if (c.is_gear()) continue;
    for (std::size_t k = 0; k < c.bodies.size(); ++k) {
      const ConstraintBody& body = c.bodies[k];
      if (body.tree < 0) continue;
      Vector6 w = constraints_.wrench_on(c, static_cast<int>(k), solution_.reported);
      if (laws) w += constraints_.wrench_on(c, static_cast<int>(k), laws_.lambda);
      add_wrench(trees_[z(body.tree)]->host.on_links[z(body.link + 1)], w);
    }
  }
  if (!laws) return;
  // Forces that laws prescribe between links act here too. In a joint of a multibody they are part of its wrench.
  for (const Prescribed& p : laws_.dynamics->prescribed()) {
    const int index = laws_.entry_of_constraint[z(p.constraint)];
    if (index < 0 || c_.constraints[index].owner == Owner::multibody_joint) continue;
    const auto ids = c_.system.constraint(laws_.dynamics->assembly().block.constraints[z(p.constraint)]).bodies();
    for (std::size_t k = 0; k < std::min<std::size_t>(2, ids.size()); ++k) {
      if (!is_link(ids[k])) continue;
      const LinkId& link = link_of_id_[z(ids[k].index)];
      add_wrench(tree_of(link).host.on_links[z(link.link + 1)],
                 Wrench{p.force, p.moment, p.p_WQ}.about(c_.bodies.start[ids[k]].p), k == 0 ? 1 : -1);
    }
  }
}

// A joint of a multibody that has a name: everything that goes through it but for what acts along it. Laws, and the
// normal forces that they call up, are reported apart where there are any.
void Multibodies::report_joint(int entry, Reaction& to) {
  const LinkId& of = link_of_id_[z(c_.constraints[entry].deferred->bodies()[1].index)];
  Tree* t = nullptr;
  to.native = !tree_with_report("reaction", {of.body, of.link}, t).empty();
  if (to.native) return;
  to.t = c_.bodies.start.t;
  to.lambda.clear();
  to.power = to.gap = to.gap_angle = to.residual = to.velocity_residual = 0;
  to.stabilisation.on_a = to.stabilisation.on_b = Wrench{};
  const bool is_in_problem = is_solved() && t->column >= 0;
  if (laws_.are_solved && is_in_problem) {
    for (std::size_t i = 0; i < laws_.entry_of_constraint.size(); ++i) {
      if (laws_.entry_of_constraint[i] != entry) continue;
      const Reaction& from = laws_.reactions[i];
      static_cast<Wrenches&>(to) = from;
      to.ideal = from.ideal;
      to.prescribed = from.prescribed;
      to.induced = from.induced;
      to.power = from.power;
      to.stabilisation = from.stabilisation;
    }
  } else {
    const Wrench w = t->tree.without_free_part(of.link, wrenches_through_joints(*t)[z(of.link + 1)]);
    to.on_b = to.ideal.on_b = w;
    to.on_a = to.ideal.on_a = opposite(w);
    for (Wrenches* none : {&to.prescribed, &to.induced, &to.stabilisation}) none->on_a = none->on_b = none_at(w.point);
  }
  if (!is_in_problem) return;
  const Wrench w =
      t->tree.without_free_part(of.link, corrections_through_joints(*t)[z(of.link + 1)]).about(to.on_b.point);
  const Wrenches of_laws = std::exchange(to.stabilisation, {});  // what laws do in the step beyond its start
  to.stabilisation.on_b = Wrench{of_laws.on_b.force + w.force, of_laws.on_b.moment + w.moment, w.point};
  to.stabilisation.on_a = Wrench{of_laws.on_a.force - w.force, of_laws.on_a.moment - w.moment, w.point};
}

void Multibodies::report_constraints() {
  if (laws_.are_solved) laws_.dynamics->reactions(c_.bodies.start, laws_.reactions, false);
  constraints_.row_velocities(constraints_.start_velocity(), scratch_.rows);
  for (const ConstraintRows& c : constraints_.constraints())
    if (const host::ConstraintEntry& r = entry_of(c); r.reaction >= 0) report_constraint(c, c_.reactions[r.reaction]);
  for (std::size_t i = 0; laws_.are_solved && i < laws_.entry_of_constraint.size(); ++i) {
    if (laws_.entry_of_constraint[i] < 0) continue;
    const host::ConstraintEntry& r = c_.constraints[laws_.entry_of_constraint[i]];
    if (r.alive && r.reaction >= 0 && r.owner != Owner::multibody_joint)
      report_prescribed(i, laws_.entry_of_constraint[i], c_.reactions[r.reaction]);
  }
}

/// Reports one constraint; scratch_.rows has the velocities of its rows at the start.
void Multibodies::report_constraint(const ConstraintRows& c, Reaction& to) {
  const bool laws = laws_.are_solved;
  to.t = constraints_.problem().t;
  to.native = false;
  to.lambda.assign(solution_.reported.begin() + c.row, solution_.reported.begin() + c.row + c.rows);
  to.power = to.velocity_residual = 0;
  const int K = static_cast<int>(c.bodies.size());
  for (Wrenches* w : {static_cast<Wrenches*>(&to), &to.ideal, &to.prescribed, &to.induced, &to.stabilisation})
    w->others.resize(z(std::max(0, K - 2)));
  for (int k = 0; k < K; ++k) {
    const ConstraintBody& body = c.bodies[z(k)];
    const BodyState s = body.id == linchpin::world ? BodyState{} : c_.bodies.start[body.id];
    const Vector3d point = c.is_gear() ? trees_[z(body.tree)]->tree.motion(body.link).pivot
                                       : c.constraint->acting_point(k, c_.bodies.start);
    const auto at = [&](std::span<const double> lambda) {
      const Vector6 f = constraints_.wrench_on(c, k, lambda);
      return Wrench{f.head<3>(), f.tail<3>(), s.p}.about(point);
    };
    to.on(k) = to.ideal.on(k) = at(solution_.reported);
    to.stabilisation.on(k) = at(solution_.correction);
    to.prescribed.on(k) = to.induced.on(k) = none_at(point);
    if (!laws) continue;
    to.induced.on(k) = at(laws_.lambda);
    to.on(k).force += to.induced.on(k).force;
    to.on(k).moment += to.induced.on(k).moment;
  }
  for (std::size_t i = z(c.row); i < z(c.row + c.rows); ++i) {
    to.velocity_residual = std::max(to.velocity_residual, std::abs(constraints_.velocity()[i]));
    to.power += (solution_.reported[i] + (laws ? laws_.lambda[i] : 0)) * scratch_.rows[i];
  }
}

/// Adds what laws prescribe, and what they do in the step beyond its start. @param i  constraint of the laws' problem
void Multibodies::report_prescribed(std::size_t i, int entry, Reaction& to) {
  const auto ids = c_.constraints.of(c_.constraints[entry]).bodies();
  for (std::size_t k = 0; k < ids.size(); ++k) {
    Wrench& sum = to.stabilisation.on(static_cast<int>(k));
    add_wrench(sum, laws_.reactions[i].stabilisation.on(static_cast<int>(k)).about(sum.point));
  }
  for (std::size_t k = 0; k < std::min<std::size_t>(2, ids.size()); ++k) {
    const int side = static_cast<int>(k);
    const Wrench w = laws_.reactions[i].prescribed.on(side).about(to.on(side).point);
    to.prescribed.on(side) = w;
    add_wrench(to.on(side), w);
    const BodyState& s = c_.bodies.start[ids[k]];
    if (ids[k] != linchpin::world) to.power += w.force.dot(s.v) + w.about(s.p).moment.dot(s.w);
  }
}

RankReport Multibodies::rank_report() const {
  RankReport out;
  if (!is_solved()) return out;
  out = constraints_.solver().report(constraints_.problem().b);
  const auto to_reactions = [&](std::vector<int>& of) {
    std::vector<int> at;
    for (const int i : of)
      if (const int reaction = entry_of(constraints_.constraints()[z(i)]).reaction; reaction >= 0)
        at.push_back(reaction);
    of = at;
  };
  to_reactions(out.redundant);
  to_reactions(out.undetermined);
  out.contradictory.clear();  // found with the forces
  return out;
}

void Multibodies::update_redundancy() {
  if (!is_solved() || flags_rank_ == constraints_.solver().rank()) return;
  flags_rank_ = constraints_.solver().rank();
  for (const ConstraintRows& c : constraints_.constraints())
    if (const int at = entry_of(c).reaction; at >= 0) {
      c_.reactions[at].determined = true;
      c_.reactions[at].redundant = false;
    }
  if (constraints_.solver().full_row_rank()) return;
  const RankReport ranks = rank_report();
  for (const int i : ranks.redundant) c_.reactions[i].redundant = true;
  for (const int i : ranks.undetermined) c_.reactions[i].determined = false;
}

Instant Multibodies::problem() const { return constraints_.problem_in_joint_coordinates(); }

double Multibodies::energy() const {
  double sum = 0;
  const Vector3d g = from_bullet(world_.getGravity());
  KinematicTree tree(host_rotation);
  for (int i = 0; i < world_.getNumMultibodies(); ++i) {
    read_tree(*world_.getMultiBody(i), tree);
    tree.factorize();
    sum += tree.kinetic_energy();
    for (int k = tree.model().fixed_base ? 0 : -1; k < tree.links(); ++k)
      sum -= tree.model().mass(k) * g.dot(tree.motion(k).p);
  }
  return sum;
}

/// Finds the multibody of a joint that is asked about, with the accelerations of the last step.
std::string Multibodies::tree_with_report(const char* verb, const Link& link, Tree*& out) {
  const auto who = [&] { return std::string("linchpin: ") + verb + ": "; };
  const int at = tree_of(link.body);
  if (at < 0) return who() + "the multibody is not in the world";
  Tree& t = *trees_[z(at)];
  if (link.index < 0 || link.index >= t.tree.links())
    return who() + "the multibody has no joint " + std::to_string(link.index);
  if (const std::string why = why_unsupported(*t.body); !why.empty()) return who() + why;
  if (!t.was_read || t.host.on_links.empty()) return who() + "no step has been taken yet";
  JointReports& reports = t.reports;
  if (!reports.acceleration_is_current && (t.column < 0 || !is_solved())) {
    const int n = t.tree.columns();
    reports.acceleration.assign(z(n), 0);
    t.refresh();
    if (!t.has_factor()) return who() + "the mass matrix of the multibody is not positive definite";
    for (int k = 0; !t.was_asleep && k < n; ++k)
      reports.acceleration[z(k)] = t.free[z(k)] + t.host.acceleration[z(t.tree.fixed_velocities() + k)];
  }
  reports.acceleration_is_current = true;
  out = &t;
  return {};
}

std::string Multibodies::joint_wrench(const Link& link, Wrench& out) {
  Tree* t = nullptr;
  if (std::string why = tree_with_report("joint_wrench", link, t); !why.empty()) return why;
  out = wrenches_through_joints(*t)[z(link.index + 1)];
  return {};
}

/// Computes the wrenches through all joints when one is asked for: a caller of one mostly asks for all.
const std::vector<Wrench>& Multibodies::wrenches_through_joints(Tree& t) {
  JointReports& reports = t.reports;
  if (std::exchange(reports.wrenches_are_current, true)) return reports.wrenches;
  reports.outside = t.host.on_links;
  for (std::size_t i = 0; i < reports.outside.size(); ++i) add_wrench(reports.outside[i], t.host.along_joints[i], -1);
  t.tree.joint_wrenches(reports.acceleration, reports.outside, reports.wrenches);
  return reports.wrenches;
}

/// Computes the wrenches through all joints by what constraints gave beyond their reactions to end the step where they
/// are met (T11).
const std::vector<Wrench>& Multibodies::corrections_through_joints(Tree& t) {
  std::vector<Wrench>& out = t.reports.corrections;
  if (std::exchange(t.reports.corrections_are_current, true)) return out;
  const auto dv = t.own(std::span(scratch_.dv));
  std::fill(dv.begin(), dv.end(), 0.0);
  constraints_.add_constraint_force(t, Columns::unit, solution_.correction, dv);
  t.tree.solve_factor_transposed(dv);
  out.assign(z(t.tree.links() + 1), Wrench{});
  for (const ConstraintRows& c : constraints_.constraints())
    for (std::size_t k = 0; !c.is_gear() && k < c.bodies.size(); ++k) {
      const ConstraintBody& body = c.bodies[k];
      if (body.tree >= 0 && trees_[z(body.tree)].get() == &t)
        add_wrench(out[z(body.link + 1)], constraints_.wrench_on(c, static_cast<int>(k), solution_.correction));
    }
  t.tree.joint_wrenches_at_rest(dv, out, out);
  return out;
}

/// Computes the forces along the coordinates by cause.
void Multibodies::report_forces(Tree& t) {
  JointReports& reports = t.reports;
  if (std::exchange(reports.forces_are_current, true)) return;
  const int n = t.tree.columns();
  t.tree.forces_by_cause(from_bullet(world_.getGravity()), reports.forces);
  reports.inertia.assign(z(n), 0);
  t.tree.times_mass(reports.acceleration, reports.inertia);
  reports.constraint.assign(z(n), 0);
  if (!is_solved() || t.column < 0) return;
  for (std::size_t r = 0; r < scratch_.rows.size(); ++r)
    scratch_.rows[r] = solution_.reported[r] + (laws_.are_solved ? laws_.lambda[r] : 0);
  constraints_.add_constraint_force(t, Columns::joint, scratch_.rows, reports.constraint);
}

std::string Multibodies::joint_forces(const Link& link, JointForces& out) {
  Tree* t = nullptr;
  if (std::string why = tree_with_report("joint_forces", link, t); !why.empty()) return why;
  report_forces(*t);
  const KinematicTree::ForcesByCause& forces = t->reports.forces;
  const articulated::LinkModel& joint = t->tree.link(link.index);
  const bool laws = laws_.are_solved && is_solved() && t->column >= 0;
  for (int k = 0; k < joint.rates; ++k) {
    const int rate = 6 + joint.first_rate + k, column = t->tree.column_of(joint.first_rate + k);
    out.gravity[k] = forces.gravity[z(column)];
    out.velocity[k] = forces.velocity[z(column)];
    out.damping[k] = forces.damping[z(column)];
    out.applied[k] = forces.applied[z(column)];
    out.constraint[k] = t->reports.constraint[z(column)];
    out.inertia[k] = t->reports.inertia[z(column)];
    if (laws) out.laws[k] = laws_.c[z(t->column + column)];
    out.contact[k] = t->host.contact[z(rate)] / dt_;
    out.friction[k] = t->host.friction[z(rate)] / dt_;
    out.native[k] = t->host.joint[z(rate)] / dt_;
  }
  if (t->was_asleep) out.native = -(out.gravity + out.velocity + out.damping + out.applied + out.constraint);
  return {};
}

std::vector<host::Finding> Multibodies::check() {
  std::vector<host::Finding> out;
  update_reports();
  phase_ = StepPhase::idle;
  layout_is_stale_ = true;
  scan();
  lay_out();
  if (!is_active()) return out;
  for (auto& t : trees_) {
    read_tree(*t->body, t->tree);
    t->factor = Tree::Factor::stale;
  }
  read_states();
  c_.bodies.start.t = c_.t;
  for (const ConstraintRows& c : constraints_.constraints()) {
    const host::ConstraintEntry& r = entry_of(c);
    if (!r.is_on_links() || c.is_gear()) continue;
    const ConstraintCheck found = check_constraint(c_.system, *c.constraint, c_.bodies.start);
    if (!found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > 1e-4)
      out.push_back({r.name, found.message});
    if (found.residual > 1e-6) out.push_back({r.name, "starts " + std::to_string(found.residual) + " off"});
  }
  return out;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
