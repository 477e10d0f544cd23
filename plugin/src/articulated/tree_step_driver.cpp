// The step of trees, in the order in which an adapter calls it:
//
//   begin_step     unilateral constraints, layout, the problem at the start of the step
//   begin_rows     start velocities for the host's rows, once these are set up
//   project_rows   after each iteration of the host
//   finish         impulses of the rows → the end of the step on the constraints → host
//   end_step       after the host has integrated: gaps (called by ConstraintSolver::end_step)
#include "articulated/tree_solver_impl.h"
#include "host/body_vectors.h"
#include "host/breaking.h"

#include <algorithm>
#include <span>
#include <utility>

namespace linchpin::articulated {

using host::head;
using host::put;

// ---- its start ----

bool TreeSolver::begin_step(double dt) {
  Impl& s = *impl_;
  s.world.find_trees();
  s.t.step = {};
  s.t.phase = host::Phase::waiting;
  s.t.history.failure.clear();
  s.t.prescribed.is_known = false;
  s.t.gain.reset();
  s.reports.begin_step();
  s.balance.forget();
  s.c.dt = s.t.dt = dt;
  s.read_trees();
  s.unilateral.switch_all();
  if (!s.layout.is_current() || s.laws.lacks_rotor()) s.lay_out();
  if (!s.t.has_problem()) return false;
  if (!s.wake() || !s.solver.begin(s.t, true)) {
    s.leave_to_host();
    return false;
  }
  s.t.phase = host::Phase::begun;
  return true;
}

void TreeSolver::Impl::read_trees() {
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    Tree& tree = *t.trees[z(i)];
    tree.tree.update([&](TreeModel& model, TreeState& state) { world.read(i, model, state); });
    tree.tree.take_motions(tree.after);
    tree.factor = Tree::Factor::stale;
    tree.was_read = true;
    tree.was_asleep = world.is_asleep(i);
    tree.reports.forget();
    for (auto* x : {&tree.added, &tree.row_acceleration, &tree.rows.contact, &tree.rows.friction, &tree.rows.joint})
      x->assign(z(tree.tree.velocities()), 0);
    tree.rows.along_joints.assign(z(tree.tree.links() + 1), Wrench{});
  }
}

/// Wakes all bodies of the problem. A closed loop at rest in mid-air is no rest to a host's timer.
/// @return whether all bodies are there
bool TreeSolver::Impl::wake() {
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    if (t.trees[z(i)]->column < 0) continue;
    world.wake(i);
    t.trees[z(i)]->was_asleep = false;
  }
  for (LoopBody& b : t.loop_bodies) {
    if (!c.bodies.in_world(b.id))
      return host::fail(t, "body '" + c.system.name(b.id) +
                               "' has a constraint but is not in the world. Add it to the world, or call "
                               "release_body() before you remove it");
    if (!c.world.is_awake(b.id)) c.world.wake(b.id);
    b = {.id = b.id, .column = b.column, .dof = b.dof};
  }
  return true;
}

/// Leaves the constraints of the problem to the host in this step. Joints of rigid bodies are solved without the links.
void TreeSolver::Impl::leave_to_host() {
  const std::string& why = t.history.failure;
  t.phase = host::Phase::failed;
  ++c.counts.fallbacks;
  c.notes.fallback_reason = "multibodies: " + why;
  for (const int entry : t.topology.entries) {
    host::ConstraintEntry& r = c.constraints[entry];
    r.fallback = why;
    c.left_to_host.push_back(entry);
    c.reactions.set_left_to_host(r, true);
  }
  layout.leave_rigid();
}

// ---- beside the host's rows ----

void TreeSolver::free_acceleration(int tree, std::span<double> a) {
  Tree& t = *impl_->t.trees[z(tree)];
  t.refresh();
  std::fill(a.begin(), a.end(), 0.0);
  std::copy(t.free.begin(), t.free.end(), a.begin() + t.tree.fixed_velocities());
}

void TreeSolver::inverse_mass(int tree, std::span<double> f) {
  Tree& t = *impl_->t.trees[z(tree)];
  t.refresh();
  if (!t.has_factor()) return std::fill(f.begin(), f.end(), 0.0);
  t.wrenches.assign(z(t.tree.links() + 1), Vector6::Zero());
  const auto columns = f.subspan(z(t.tree.fixed_velocities()));
  t.tree.solve_factor(t.wrenches, columns);
  t.tree.solve_factor_transposed(columns);
}

void TreeSolver::begin_rows(bool act, RowSolve how) {
  Impl& s = *impl_;
  TreeIsland& t = s.t;
  t.row_solve = how;
  t.step.rows = act && t.is_held() ? host::HostRows::multibody : host::HostRows::none;
  if (!t.is_held()) return;
  s.read_velocities_of_links();
  s.read_velocities_among_rows(true);
  std::fill(t.x.multipliers.begin(), t.x.multipliers.end(), 0.0);
  for (auto& tree : t.trees) std::fill(tree->added.begin(), tree->added.end(), 0.0);
  if (!t.has_rows()) return;  // finish() does it all
  t.vectors.host_v = t.x.v;
  s.solver.start(t);
  for (std::size_t k = 0; k < t.x.v.size(); ++k) t.x.dv[k] = t.x.v[k] - t.vectors.host_v[k];
  s.add_change();
}

int TreeSolver::constraint_jacobian(std::vector<double>& rows) const {
  const TreeIsland& t = impl_->t;
  rows.clear();
  if (!t.is_held()) return 0;
  int count = 0;
  std::vector<double>& columns = impl_->velocity;
  columns.resize(z(t.constraints.columns()));
  for (int r = 0; r < t.constraints.rows(); ++r) {
    if (!t.constraints.is_independent(r)) continue;
    t.constraints.row(r, columns);
    for (const auto& tree : t.trees) {
      rows.insert(rows.end(), z(tree->tree.fixed_velocities()), 0.0);
      if (tree->column < 0) {
        rows.insert(rows.end(), z(tree->tree.columns()), 0.0);
        continue;
      }
      const auto own = tree->own(std::span<const double>(columns));
      rows.insert(rows.end(), own.begin(), own.end());
    }
    ++count;
  }
  return count;
}

void TreeSolver::law_forces(int tree, std::span<double> f) const {
  const TreeIsland& t = impl_->t;
  const Tree& of = *t.trees[z(tree)];
  std::fill(f.begin(), f.end(), 0.0);
  if (!t.prescribed.is_known || of.column < 0) return;
  const auto own = of.own(impl_->laws.forces_for_rows());
  std::copy(own.begin(), own.end(), f.begin() + of.tree.fixed_velocities());
}

bool TreeSolver::improve_law_forces() {
  Impl& s = *impl_;
  if (!s.t.is_held() || !s.t.prescribed.is_known) return false;
  s.read_row_impulses();
  return s.laws.improve_forces_for_rows();
}

void TreeSolver::project_rows() {
  Impl& s = *impl_;
  if (!s.t.is_held() || !s.t.has_rows()) return;
  s.read_velocities_of_links();
  s.read_velocities_among_rows(false);
  s.solver.project(s.t, s.t.x.dv);
  s.add_change();
}

/// Reads the velocities of links as they are now, with those that the host's rows have added.
void TreeSolver::Impl::read_velocities_of_links() {
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    const Tree& tree = *t.trees[z(i)];
    if (tree.column < 0) continue;
    velocity.resize(z(tree.tree.velocities()));
    world.read_velocity(i, velocity);
    std::copy(velocity.begin() + tree.tree.fixed_velocities(), velocity.end(), t.x.v.begin() + tree.column);
  }
}

/// Reads the velocities of the rigid bodies in the host's row solver.
void TreeSolver::Impl::read_velocities_among_rows(bool first) {
  for (LoopBody& b : t.loop_bodies) {
    host::RowBody row_body;
    b.among_rows = world.read_row_body(b.id, row_body);
    if (!b.among_rows) continue;
    if (first) {
      b.applied << row_body.force_v, row_body.force_w;
      b.own.setZero();
    }
    put(t.x.v, b.column, row_body.v + row_body.force_v + row_body.row_v);
    if (b.dof == 6) put(t.x.v, b.column + 3, row_body.w + row_body.force_w + row_body.row_w);
  }
}

/// Adds the change of velocity x.dv to the host's.
void TreeSolver::Impl::add_change() {
  if (!finite(t.x.dv)) return;
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    Tree& tree = *t.trees[z(i)];
    if (tree.column < 0) continue;
    velocity.assign(z(tree.tree.velocities()), 0);
    const auto own = tree.own(std::span(t.x.dv));
    std::copy(own.begin(), own.end(), velocity.begin() + tree.tree.fixed_velocities());
    world.add_velocity(i, velocity);
    for (std::size_t k = 0; k < velocity.size(); ++k) tree.added[k] += velocity[k];
  }
  for (LoopBody& b : t.loop_bodies) {
    if (!b.among_rows) continue;
    const bool turns = b.dof == 6;
    Vector3d v = head(t.x.dv, b.column), w = turns ? head(t.x.dv, b.column + 3) : Vector3d(Vector3d::Zero());
    world.add_row_velocity(b.id, turns, v, w);
    b.own.head<3>() += v;
    b.own.tail<3>() += w;
  }
}

// ---- its end ----

void TreeSolver::finish() {
  Impl& s = *impl_;
  s.reports.make_joints_stale();
  s.read_row_impulses();
  if (!s.t.is_held()) return s.note_step();
  s.reports.make_stale();
  s.read_velocities_of_links();
  s.read_velocities_of_bodies();
  s.t.vectors.host_v = s.t.x.v;
  s.balance.note_rows();
  if (!s.solver.finish(s.t, s.states)) {
    ++s.c.counts.non_finite;
    s.c.notes.fallback_reason = "multibodies: " + s.t.history.failure;
    return;
  }
  s.t.phase = host::Phase::solved;
  s.balance.note_step();
  s.write_velocities();
  s.balance.note_velocities(s.world);
  s.add_work();
  s.laws.account();
  s.report_joints();
  s.unilateral.release_all();
  s.laws.answer_at_start();
  s.reports.collect();
}

/// Keeps the data for the balances of a step in which nothing is held.
void TreeSolver::Impl::note_step() {
  balance.note_rows();
  balance.note_step();
  balance.note_velocities(world);
}

/// Reads what the host's own rows did to every tree, in the problem or not.
void TreeSolver::Impl::read_row_impulses() {
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    Tree& tree = *t.trees[z(i)];
    if (!tree.was_read) continue;
    tree.on_links.assign(z(tree.tree.links() + 1), Wrench{});
    world.read_row_wrenches(i, tree.on_links);
    world.read_velocity_change(i, tree.row_acceleration);
    for (std::size_t k = 0; k < tree.row_acceleration.size(); ++k)
      tree.row_acceleration[k] = (tree.row_acceleration[k] - tree.added[k]) / t.dt;
  }
}

/// Reads the rigid bodies at the end of the host's solve: velocities, and poses, which split impulse may have
/// moved.
void TreeSolver::Impl::read_velocities_of_bodies() {
  for (const LoopBody& b : t.loop_bodies) {
    BodyState now;
    c.world.read(b.id, now);
    put(t.x.v, b.column, now.v);
    if (b.dof == 6) put(t.x.v, b.column + 3, now.w);
    c.bodies.base[b.id].p = now.p;
    c.bodies.base[b.id].q = now.q;
  }
}

void TreeSolver::Impl::write_velocities() {
  for (int i = 0; i < static_cast<int>(t.trees.size()); ++i) {
    const Tree& tree = *t.trees[z(i)];
    if (tree.column < 0) continue;
    velocity.assign(z(tree.tree.velocities()), 0);
    for (int k = 0; k < tree.tree.columns(); ++k) {
      const std::size_t at = z(tree.column + k);
      velocity[z(tree.tree.fixed_velocities() + k)] = t.x.v[at] - t.vectors.host_v[at];
    }
    world.add_velocity(i, velocity);
    if (const std::string why = world.why_limited(i, tree.own(std::span<const double>(t.x.v))); !why.empty())
      c.notes.fallback_reason = "multibodies: " + why;
  }
  for (const LoopBody& b : t.loop_bodies) {
    host::Motion motion;
    motion.body = b.id;
    motion.turns = b.dof == 6;
    motion.v = head(t.x.v, b.column);
    if (motion.turns) motion.w = head(t.x.v, b.column + 3);
    motion.write_pose = t.step.poses.start_changed;
    if (motion.write_pose) motion.start = {c.bodies.base[b.id].p, c.bodies.base[b.id].q};
    c.world.write({&motion, 1});
  }
}

/// Work of the impulses with the mean velocity (T11).
void TreeSolver::Impl::add_work() {
  for (std::size_t k = 0; k < t.x.v.size(); ++k) t.x.change[k] = 0.5 * (t.constraints.start_velocity()[k] + t.x.v[k]);
  t.constraints.row_velocities(t.x.change, t.x.row);
  for (const ConstraintRows& rows : t.constraints.constraints())
    if (host::ConstraintEntry& r = c.constraints[rows.owner]; r.reaction >= 0)
      for (int k = rows.row; k < rows.row + rows.rows; ++k)
        c.reactions.add_work(r, t.in_substeps() ? t.sums.work[z(k)] : t.x.multipliers[z(k)] * t.x.row[z(k)]);
  watch.note_constraint_work();
}

/// Reports the joints between rigid bodies that are solved here, in the host's own ways. Breaks constraints.
void TreeSolver::Impl::report_joints() {
  std::size_t first = 0;  // of its bodies in the sums of substeps
  for (const ConstraintRows& rows : t.constraints.constraints()) {
    if (c.constraints[rows.owner].is_joint()) report_joint(rows, first);
    first += rows.bodies.size();
    host::break_if_overloaded(c, rows.owner, rows.own(std::span<const double>(t.x.multipliers)));
  }
}

void TreeSolver::Impl::report_joint(const ConstraintRows& rows, std::size_t first) {
  Wrench on[2];
  for (const int k : {0, 1}) on[k] = t.mean_wrench(rows, first, k);
  const host::JointImpulse impulse{rows.owner, t.dt * on[0].force.norm()};
  c.world.report_impulses({&impulse, 1});
  if (t.prescribed.is_known)
    for (const Prescribed& law : laws.prescribed()) {
      if (laws.entry_of(z(law.constraint)) != rows.owner) continue;
      for (const int k : {0, 1}) {
        const Wrench w =
            Wrench{law.force, law.moment, law.p_WQ}.about(c.bodies.start[rows.constraint->bodies()[z(k)]].p);
        on[k].force += k == 0 ? w.force : Vector3d(-w.force);
        on[k].moment += k == 0 ? w.moment : Vector3d(-w.moment);
      }
    }
  c.world.report_forces(rows.owner, on[0], on[1]);
}

// ---- when the host has integrated ----

void TreeSolver::Impl::end_step() {
  if (t.is_held()) reports.measure_gaps();
  watch.end_step();
}

}  // namespace linchpin::articulated
