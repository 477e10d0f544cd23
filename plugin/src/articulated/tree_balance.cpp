#include "articulated/tree_balance.h"

#include "articulated/column_parts.h"
#include "host/body_vectors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::articulated {

namespace {

Vector6 impulse_of(const Wrench& w, double time) {
  Vector6 out;
  out << time * w.force, time * w.moment;
  return out;
}

/// Updates the largest single impulses of a balance.
void note_single(MomentumBalance& to, const Vector6& impulse) {
  to.gross_force = std::max(to.gross_force, impulse.head<3>().norm());
  to.gross_moment = std::max(to.gross_moment, impulse.tail<3>().norm());
}

}  // namespace

// ---- what a step leaves ----

void TreeBalance::forget() {
  is_current_ = true;
  has_parts_ = false;
  for (auto& tree : t_.trees) tree->step_is_known = false;
}

void TreeBalance::note_rows() {
  for (auto& tree : t_.trees)
    if (tree->was_read) tree->row_wrenches = tree->on_links;
  if (!t_.is_held()) return;
  for (LoopBody& b : t_.loop_bodies)
    b.by_rows = t_.has_rows() && b.among_rows ? row_acceleration(c_, b) : Vector6(Vector6::Zero());
}

void TreeBalance::note_step() {
  is_current_ = false;
  for (std::size_t i = 0; i < t_.trees.size(); ++i) {
    Tree& tree = *t_.trees[i];
    tree.step_is_known = tree.was_read && !tree.was_asleep;
    if (!tree.step_is_known) continue;
    tree.law_wrenches.clear();
    if (!is_in_problem(tree)) continue;
    tree.set_velocity(t_.x.v);
    tree.velocity_end = tree.velocity;
    if (has_laws()) tree.law_wrenches = laws_.prescribed_on(i);
  }
  if (!t_.is_held()) return;
  for (LoopBody& b : t_.loop_bodies) {
    b.by_laws.setZero();
    for (int k = 0; has_laws() && k < b.dof; ++k) b.by_laws[k] = t_.prescribed.c[z(b.column + k)];
  }
}

void TreeBalance::note_velocities(TreeWorld& world) {
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& tree = *t_.trees[z(i)];
    if (!tree.step_is_known) continue;
    tree.velocity_written.resize(z(tree.tree.velocities()));
    world.read_velocity(i, tree.velocity_written);
    if (!is_in_problem(tree)) tree.velocity_end = tree.velocity_written;
  }
}

// ---- the balances ----

void TreeBalance::begin_parts() {
  has_parts_ = true;
  for (auto& tree : t_.trees)
    if (tree->column >= 0) tree->balance.assign(z(tree->tree.links() + 1), MomentumBalance{});
  for (LoopBody& b : t_.loop_bodies) b.balance = {};
}

void TreeBalance::add_part(const State& bodies, double h, double share, std::span<const double> multipliers) {
  const Part part{h, share, multipliers};
  for (auto& tree : t_.trees) {
    if (tree->column < 0) continue;
    tree->set_velocity(t_.x.v);
    tree->velocity_end = tree->velocity;
    add_tree(*tree, part);
  }
  for (LoopBody& b : t_.loop_bodies) add_rigid(b, bodies[b.id], part);
}

void TreeBalance::append() {
  if (std::exchange(is_current_, true)) return;
  const Part whole{t_.dt, 1, t_.x.multipliers};
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& tree = *t_.trees[z(i)];
    if (!tree.step_is_known) continue;
    tree.refresh();
    if (!tree.has_factor()) continue;
    if (!has_parts_ || !is_in_problem(tree)) {
      tree.balance.assign(z(tree.tree.links() + 1), MomentumBalance{});
      add_tree(tree, whole);
    }
    append_tree(i);
  }
  if (!t_.is_held()) return;
  for (LoopBody& b : t_.loop_bodies) {
    if (!has_parts_) {
      b.balance = {};
      add_rigid(b, c_.bodies.start[b.id], whole);
    }
    c_.balance.append(b.balance);
    c_.counts.imbalance = std::max(c_.counts.imbalance, b.balance.imbalance());
  }
}

void TreeBalance::append_tree(int index) {
  Tree& t = *t_.trees[z(index)];
  change_.resize(z(t.tree.columns()));
  for (std::size_t k = 0; k < change_.size(); ++k) {
    const std::size_t at = z(t.tree.fixed_velocities()) + k;
    change_[k] = t.velocity_written[at] - t.velocity_end[at];
  }
  t.tree.motion_impulses(change_, 0, motion_);
  for (int i = -1; i < t.tree.links(); ++i) {
    MomentumBalance& of = t.balance[z(i + 1)];
    if (!t.tree.can_move(i) || !layout_.link_id(index, i, of.body).empty()) continue;
    of.rounding = motion_[z(i + 1)];
    c_.balance.append(of);
    if (is_in_problem(t)) c_.counts.imbalance = std::max(c_.counts.imbalance, of.imbalance());
  }
}

void TreeBalance::add_tree(Tree& t, const Part& part) {
  change_.resize(z(t.tree.columns()));
  for (std::size_t k = 0; k < change_.size(); ++k) {
    const std::size_t at = z(t.tree.fixed_velocities()) + k;
    change_[k] = t.velocity_end[at] - t.tree.state().velocity[at];
  }
  t.tree.motion_impulses(change_, part.h, motion_);
  t.tree.applied_wrenches(applied_);
  for (std::size_t i = 0; i < t.balance.size(); ++i) {
    t.balance[i].momentum += motion_[i];
    t.balance[i].applied += impulse_of(applied_[i], part.h);
  }
  add_rotors(t);
  measure_motion(t);
  outside_.assign(t.balance.size(), Vector6::Zero());
  carried_.resize(t.balance.size());
  add_host(t, part);
  if (is_in_problem(t)) add_constraints(t, part);
  for (std::size_t i = 0; i < t.balance.size(); ++i)
    carried_[i] = motion_[i] - impulse_of(applied_[i], part.h) - outside_[i];
  add_joints(t);
}

/// Adds the impulses by which rotors and damping resist the change of velocity change_, as applied to the links.
void TreeBalance::add_rotors(Tree& t) {
  efforts_.assign(z(t.tree.model().rates), 0);
  bool any = false;
  for (int k = 0; k < t.tree.model().rates; ++k) {
    const int column = t.tree.column_of(k);
    efforts_[z(k)] = -t.tree.added_inertia(column) * change_[z(column)];
    any = any || efforts_[z(k)] != 0;
  }
  if (!any) return;
  pairs_.assign(t.balance.size(), Wrench{});
  t.tree.add_joint_forces(efforts_, pairs_);
  for (std::size_t i = 0; i < t.balance.size(); ++i) {
    t.balance[i].applied += impulse_of(pairs_[i], 1);
    motion_[i] -= impulse_of(pairs_[i], 1);
  }
}

// The rounding of a balance is that of the velocities of the coordinates, of which velocities of links are sums, and
// that of the links outward of its joint, whose terms go through the joint.
void TreeBalance::measure_motion(Tree& t) {
  const std::vector<double>& u = t.tree.state().velocity;
  sizes_.assign(t.balance.size(), {three_at(u, 3).norm(), three_at(u, 0).norm()});
  for (int i = 0; i < t.tree.links(); ++i) {
    const LinkModel& own = t.tree.link(i);
    Size size = sizes_[z(own.parent + 1)];
    size.linear += size.angular * (t.tree.motion(i).p - t.tree.motion(own.parent).p).norm();
    for (int k = 0; k < own.rates; ++k) {
      const double rate = std::abs(u[z(6 + own.first_rate + k)]);
      size.linear += rate * own.linear[z(k)].norm();
      size.angular += rate * own.angular[z(k)].norm();
    }
    sizes_[z(i + 1)] = size;
  }
  for (int i = t.tree.links() - 1; i >= -1; --i) {
    Size& size = sizes_[z(i + 1)];
    size.linear *= t.tree.model().mass(i);
    size.angular *= t.tree.model().inertia(i).maxCoeff();
  }
  for (int i = t.tree.links() - 1; i >= -1; --i) {
    const Size& size = sizes_[z(i + 1)];
    MomentumBalance& to = t.balance[z(i + 1)];
    to.linear_motion = std::max(to.linear_motion, size.linear);
    to.angular_motion = std::max(to.angular_motion, size.angular);
    if (i < 0) continue;
    const int parent = t.tree.link(i).parent;
    Size& up = sizes_[z(parent + 1)];
    up.linear += size.linear;
    up.angular += size.angular + (t.tree.motion(i).p - t.tree.motion(parent).p).norm() * size.linear;
  }
}

// Impulses of the host's rows are known along the coordinates. Their wrenches are known for links other than the base.
// The rest of the rows, motors and limits mostly, acts along the joints and on the base.
void TreeBalance::add_host(Tree& t, const Part& part) {
  const std::size_t n = z(t.tree.columns());
  const double time = part.share * t_.dt;
  rest_.assign(n, 0);
  t.tree.generalized(t.row_wrenches, rest_);
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t at = z(t.tree.fixed_velocities()) + k;
    const double all = part.share * (t.rows.contact[at] + t.rows.friction[at] + t.rows.joint[at]);
    rest_[k] = all - time * rest_[k];
  }
  pairs_.assign(t.balance.size(), Wrench{});
  t.tree.add_joint_forces(std::span(rest_).subspan(z(t.tree.base_columns())), pairs_);
  if (t.tree.base_columns() > 0) {
    pairs_[0].moment += three_at(rest_, 0) - t.tree.base_arm().cross(three_at(rest_, 3));
    pairs_[0].force += three_at(rest_, 3);
  }
  for (std::size_t i = 0; i < t.balance.size(); ++i) {
    const Vector6 impulse = impulse_of(t.row_wrenches[i], time) + impulse_of(pairs_[i], 1);
    t.balance[i].host += impulse;
    outside_[i] += impulse;
  }
}

/// Adds constraints that are held exactly, and what laws prescribe.
void TreeBalance::add_constraints(Tree& t, const Part& part) {
  const auto add = [&](std::size_t i, const Vector6& impulse) {
    t.balance[i].constraints += impulse;
    outside_[i] += impulse;
    note_single(t.balance[i], impulse);
  };
  efforts_.assign(z(t.tree.model().rates), 0);
  for (const ConstraintRows& c : t_.constraints.constraints()) {
    for (const GearTerm& term : c.gear)
      if (t_.trees[z(term.tree)].get() == &t)
        efforts_[z(term.velocity - 6)] += term.derivative * part.multipliers[z(c.row)];
    for (std::size_t k = 0; !c.is_gear() && k < c.bodies.size(); ++k)
      if (const ConstraintBody& body = c.bodies[k]; body.tree >= 0 && t_.trees[z(body.tree)].get() == &t)
        add(z(body.link + 1), t_.constraints.wrench_on(c, static_cast<int>(k), part.multipliers));
  }
  pairs_.assign(t.balance.size(), Wrench{});
  t.tree.add_joint_forces(efforts_, pairs_);
  for (std::size_t i = 0; i < t.balance.size(); ++i) {
    add(i, impulse_of(pairs_[i], 1));
    if (!has_parts_ && !t.law_wrenches.empty()) add(i, impulse_of(t.law_wrenches[i], part.h));
  }
}

/// Adds the reactions of the joints of the tree, from the tips inward. carried_ has what each link lacks.
void TreeBalance::add_joints(Tree& t) {
  leverage_.assign(t.balance.size(), 0);
  for (int i = t.tree.links() - 1; i >= 0; --i) {
    const std::size_t own = z(i + 1), up = z(t.tree.link(i).parent + 1);
    const LinkMotion &at = t.tree.motions()[own], &parent = t.tree.motions()[up];
    const Wrench lacks{carried_[own].head<3>(), carried_[own].tail<3>(), at.p};
    const Wrench reaction = t.tree.without_free_part(i, lacks.about(at.pivot));
    const Vector6 on_link = impulse_of(reaction.about(at.p), 1), on_parent = impulse_of(reaction.about(parent.p), 1);
    t.balance[own].constraints += on_link;
    t.balance[up].constraints -= on_parent;
    carried_[up] += on_parent;
    note_single(t.balance[own], on_link);
    note_single(t.balance[up], on_parent);
    if (has_parts_) {
      t.joint_impulses[own].force += reaction.force;
      t.joint_impulses[own].moment += reaction.moment;
    }
    // The moment about the pivot has the rounding of its terms, on their arms.
    const double arm = (at.p - at.pivot).norm(), arm_of_parent = (at.pivot - parent.p).norm();
    t.balance[own].gross_moment = std::max(t.balance[own].gross_moment, arm * lacks.force.norm() + leverage_[own]);
    leverage_[up] = std::max(leverage_[up], arm_of_parent * lacks.force.norm() + leverage_[own]);
  }
}

void TreeBalance::add_rigid(LoopBody& b, const BodyState& state, const Part& part) {
  MomentumBalance& to = b.balance;
  const bool turns = b.dof == 6;
  const double mass = c_.system.mass(b.id);
  const Matrix3d inertia = turns ? c_.system.world_inertia(b.id, state.q) : Matrix3d(Matrix3d::Zero());
  const auto times_mass = [&](const Vector6& v) {
    Vector6 out;
    out << mass * v.head<3>(), inertia * v.tail<3>();
    return out;
  };
  const auto change = [&](std::span<const double> from, std::span<const double> to_velocity) {
    Vector6 out = Vector6::Zero();
    for (int k = 0; k < b.dof; ++k) out[k] = to_velocity[z(b.column + k)] - from[z(b.column + k)];
    return out;
  };
  to.body = b.id;
  to.momentum += times_mass(change(t_.constraints.start_velocity(), t_.x.v));
  const Vector6 rows = part.share * t_.dt * times_mass(b.by_rows);
  to.host += rows;
  if (b.among_rows && !has_parts_) {
    to.applied += times_mass(b.applied);
  } else {
    for (int k = 0; k < b.dof; ++k) to.applied[k] += part.h * t_.constraints.problem().Q[z(b.column + k)];
    if (has_parts_) to.applied -= rows;  // Q has them, too
  }
  to.linear_motion = std::max(to.linear_motion, mass * state.v.norm());
  to.angular_motion = std::max(to.angular_motion, (inertia * state.w).norm());
  const auto add = [&](Vector6 impulse) {
    if (!turns) impulse.tail<3>().setZero();
    to.constraints += impulse;
    note_single(to, impulse);
  };
  if (!has_parts_) add(part.h * b.by_laws);
  for (const ConstraintRows& c : t_.constraints.constraints())
    for (std::size_t k = 0; !c.is_gear() && k < c.bodies.size(); ++k)
      if (c.bodies[k].id == b.id) add(t_.constraints.wrench_on(c, static_cast<int>(k), part.multipliers));
}

}  // namespace linchpin::articulated
