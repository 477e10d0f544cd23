#include "articulated/tree_substep.h"

#include "articulated/column_parts.h"
#include "articulated/tree_watch.h"
#include "host/substepper.h"
#include "host/tuning.h"

#include <linchpin/system.h>

#include <algorithm>
#include <string>

namespace linchpin::articulated {

using host::Acceptance;
using host::Substep;

namespace {

class TreeSubstep final : public host::SubstepMethod {
 public:
  TreeSubstep(const TreeContext& context, TreeBalance& balance, host::SubstepStates& states, double rounding)
      : c_(context.host),
        world_(context.world),
        t_(context.island),
        balance_(balance),
        states_(states),
        rounding_(rounding) {}

  void begin();
  Acceptance attempt(Substep& s) override;
  void accept(const Substep& s) override;
  double next(const Substep& s) override { return host::tuning::max_growth * s.length; }
  /// Ends a step that is complete: the host gets the poses from which it ends where the substeps have ended.
  void write_starts();
  /// Makes the problem that of the start of the step again.
  void restore();

 private:
  bool linearize(const Substep& s);
  void add_row_forces();
  void place_next(const Substep& s);
  bool gains_too_much(Substep& s);
  void record();
  template <class Visit>
  void for_boundaries(Visit visit) const;

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  TreeBalance& balance_;
  host::SubstepStates& states_;
  const double rounding_;  // [m, rad]
  bool is_linearized_ = false;
  double allowed_ = 0, gained_ = 0;  // [J]
};

/// Calls visit(id) for the bodies of constraints that no equation moves.
template <class Visit>
void TreeSubstep::for_boundaries(Visit visit) const {
  for (const ConstraintRows& c : t_.constraints.constraints())
    for (const ConstraintBody& body : c.bodies)
      if (body.tree < 0 && body.dof == 0 && body.id != linchpin::ground) visit(body.id);
}

// ---- a step ----

// The mean forces of the host's rows are those of the start of the step, where the rows were solved.
void TreeSubstep::begin() {
  host::SubstepSums& sums = t_.sums;
  for (auto* x : {&sums.multipliers, &sums.work, &sums.h_multipliers}) x->assign(t_.x.multipliers.size(), 0);
  std::size_t bodies = 0;
  for (const ConstraintRows& c : t_.constraints.constraints()) bodies += c.bodies.size();
  sums.wrenches.assign(bodies, Vector6::Zero());
  t_.unexplained_energy = 0;
  allowed_ = allowed_energy(c_, t_, world_.gravity());
  states_.now = c_.bodies.start;
  for (const LoopBody& b : t_.loop_bodies) {  // The host's split impulse may have moved them.
    states_.now[b.id].p = c_.bodies.base[b.id].p;
    states_.now[b.id].q = c_.bodies.base[b.id].q;
  }
  states_.next = states_.now;
  for (auto& tree : t_.trees) {
    if (tree->column < 0) continue;
    tree->start = tree->tree.state();
    tree->joint_impulses.assign(z(tree->tree.links() + 1), Wrench{});
    tree->row_forces.resize(z(tree->tree.columns()));
    tree->tree.times_mass(std::span<const double>(tree->row_acceleration).subspan(z(tree->tree.fixed_velocities())),
                          tree->row_forces);
  }
  for (std::size_t i = 0; i < t_.loop_bodies.size(); ++i) {
    const LoopBody& b = t_.loop_bodies[i];
    RigidBody& rigid = t_.constraints.rigid_bodies()[i];
    rigid.force += c_.system.mass(b.id) * b.by_rows.head<3>();
    if (b.dof == 6) rigid.moment += c_.system.world_inertia(b.id, c_.bodies.start[b.id].q) * b.by_rows.tail<3>();
  }
}

/// Linearizes the problem where the substep begins, and solves its forces. A rejected try of another length needs no
/// others.
bool TreeSubstep::linearize(const Substep& s) {
  states_.now.t = c_.t + s.done;
  t_.constraints.write_link_states(states_.now);
  if (!t_.constraints.linearize(c_.system, states_.now, states_.now.t, TreeConstraints::FarJoints::as_they_are).empty())
    return false;
  add_row_forces();
  (void)t_.constraints.solve_forces(t_.vectors.reported, t_.vectors.acceleration);
  ++c_.counts.factorizations;
  is_linearized_ = true;
  return true;
}

void TreeSubstep::add_row_forces() {
  const std::span<double> free = t_.constraints.free_acceleration();
  for (auto& tree : t_.trees) {
    if (tree->column < 0) continue;
    const std::span<double> response = tree->own(std::span(t_.x.change));
    std::copy(tree->row_forces.begin(), tree->row_forces.end(), response.begin());
    std::fill(tree->wrenches.begin(), tree->wrenches.end(), Vector6::Zero());
    tree->tree.solve_factor(tree->wrenches, response);
    tree->tree.solve_factor_transposed(response);
    for (std::size_t k = 0; k < response.size(); ++k) free[z(tree->column) + k] += response[k];
  }
}

void TreeSubstep::place_next(const Substep& s) {
  states_.next.t = states_.now.t + s.length;
  const bool is_last = s.done + s.length >= c_.dt * (1 - host::tuning::time_rounding);
  for_boundaries([&](BodyId id) {
    if (c_.system.kind(id) != BodyKind::kinematic) return;
    BodyState& next = states_.next[id];
    next = c_.bodies.start[id];
    if (is_last) {
      next.p = c_.bodies.end[id].p;
      next.q = c_.bodies.end[id].q;
    } else {
      linchpin::advance(next, next.v, next.w, s.done + s.length);
    }
  });
}

Acceptance TreeSubstep::attempt(Substep& s) {
  s.force_time = s.length;
  if (!is_linearized_ && !linearize(s)) return Acceptance::impossible;
  place_next(s);
  const std::span<const double> v0 = t_.constraints.start_velocity(), free = t_.constraints.free_acceleration();
  std::vector<double>&v = t_.x.v, &impulse = t_.sums.h_multipliers;
  for (std::size_t k = 0; k < v.size(); ++k) v[k] = v0[k] + s.length * (free[k] + t_.vectors.acceleration[k]);
  for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] = s.length * t_.vectors.reported[r];
  if (!finite(v)) return Acceptance::impossible;
  const TreeStep step{c_.system, states_.now, states_.now, states_.next, states_.now.t, s.length};
  const bool ends = t_.projection.solve_end_of_step(step, v, impulse, rounding_, c_.options.max_newton);
  c_.counts.newton_solves += t_.projection.take_solves();
  if (!ends || !finite(v)) return Acceptance::too_long;
  return gains_too_much(s) ? Acceptance::too_long : Acceptance::accepted;
}

bool TreeSubstep::gains_too_much(Substep& s) {
  const TreeEnergyGain of = energy_gain(t_, s.length, t_.sums.h_multipliers);
  s.gain = of.gain;
  s.kinetic = of.start;
  s.end_kinetic = of.end;
  const bool is_long = s.length > 1.5 * c_.dt / c_.options.max_substeps;
  return (is_long && is_too_much(gained_ + s.gain, allowed_, s.end_kinetic)) || s.gain > allowed_ + s.kinetic;
}

// ---- what an accepted substep leaves ----

void TreeSubstep::accept(const Substep& s) {
  balance_.add_part(states_.now, s.length, s.length / c_.dt, t_.sums.h_multipliers);
  record();
  gained_ += s.gain;
  for (auto& tree : t_.trees) {
    if (tree->column < 0) continue;
    tree->try_motion(t_.x.v, s.length);
    t_.unexplained_energy += energy_of_integration(tree->tree, tree->velocity, tree->at_end, s.length, t_.motions);
    tree->tree.update([&](TreeModel&, TreeState& state) {
      state.at = tree->end;
      state.velocity = tree->velocity;
    });
    tree->factor = ConstrainedTree::Factor::stale;
  }
  for (const LoopBody& b : t_.loop_bodies) {
    BodyState& now = states_.now[b.id];
    now.v = three_at(t_.x.v, b.column);
    now.p += s.length * now.v;
    if (b.dof != 6) continue;
    now.w = three_at(t_.x.v, b.column + 3);
    now.q = (t_.rotation(now.w, s.length) * now.q).normalized();
  }
  for_boundaries([&](BodyId id) { states_.now[id] = states_.next[id]; });
  is_linearized_ = false;
}

/// Adds impulses, their work and their wrenches to the sums.
void TreeSubstep::record() {
  host::SubstepSums& sums = t_.sums;
  for (std::size_t k = 0; k < t_.x.v.size(); ++k)
    t_.x.change[k] = 0.5 * (t_.constraints.start_velocity()[k] + t_.x.v[k]);
  t_.constraints.row_velocities(t_.x.change, t_.x.row);
  for (std::size_t r = 0; r < sums.multipliers.size(); ++r) {
    sums.multipliers[r] += sums.h_multipliers[r];
    sums.work[r] += sums.h_multipliers[r] * t_.x.row[r];
  }
  std::size_t at = 0;
  for (const ConstraintRows& c : t_.constraints.constraints())
    for (std::size_t k = 0; k < c.bodies.size(); ++k)
      sums.wrenches[at++] += t_.constraints.wrench_on(c, static_cast<int>(k), sums.h_multipliers) / c_.dt;
}

void TreeSubstep::write_starts() {
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& tree = *t_.trees[z(i)];
    if (tree.column < 0) continue;
    tree.tree.integrate_back(tree.tree.state().at, tree.tree.state().velocity, c_.dt, tree.end);
    world_.move(i, tree.end);
  }
  for (const LoopBody& b : t_.loop_bodies) {
    const BodyState& end = states_.now[b.id];
    BodyState& from = c_.bodies.base[b.id];
    from.p = end.p;
    from.q = end.q;
    host::start_pose_for_end(c_.world, from.p, from.q, end.v, end.w, c_.dt);
  }
}

void TreeSubstep::restore() {
  for (auto& tree : t_.trees) {
    if (tree->column < 0) continue;
    tree->tree.update([&](TreeModel&, TreeState& state) { state = tree->start; });
    tree->factor = ConstrainedTree::Factor::stale;
  }
  for (RigidBody& b : t_.constraints.rigid_bodies()) {
    b.force = c_.bodies.load(b.id).force;
    b.moment = c_.bodies.load(b.id).torque;
  }
  t_.constraints.write_link_states(c_.bodies.start);
  (void)t_.constraints.linearize(c_.system, c_.bodies.start, c_.t, TreeConstraints::FarJoints::as_they_are);
}

}  // namespace

TreeEnergyGain energy_gain(TreeIsland& t, double h, std::span<const double> multipliers) {
  TreeEnergyGain out;
  for (std::size_t k = 0; k < t.x.v.size(); ++k) t.x.change[k] = 0.5 * (t.x.v[k] - t.constraints.start_velocity()[k]);
  t.constraints.row_velocities(t.x.change, t.x.row);
  for (std::size_t r = 0; r < t.x.row.size(); ++r)
    out.gain += multipliers[r] * (t.constraints.velocity()[r] + t.x.row[r]);
  for (auto& tree : t.trees) {
    if (tree->column < 0) continue;
    tree->try_motion(t.x.v, h);
    out.start += tree->tree.kinetic_energy();
    out.end += tree->tree.kinetic_energy(tree->at_end, tree->velocity);
    out.by_integration += energy_of_integration(tree->tree, tree->velocity, tree->at_end, h, t.motions);
  }
  out.gain += out.by_integration;
  return out;
}

double allowed_energy(const host::Context& c, TreeIsland& t, const Vector3d& gravity) {
  double sum = 0;
  for (auto& tree : t.trees)
    if (tree->column >= 0)
      sum += tree->energy_from_rest(gravity, c.dt) + host::tuning::allowed_gain * tree->tree.kinetic_energy();
  return sum;
}

bool is_too_much(double gain, double allowed, double end_energy) {
  return gain > std::max(allowed, host::tuning::allowed_gain * end_energy);
}

const char* why_no_substeps(const TreeIsland& t) {
  if (t.has(host::Trait::laws)) return "a multibody with force laws takes no substeps";
  return nullptr;
}

bool take_tree_substeps(const TreeContext& context, TreeBalance& balance, host::SubstepStates& states,
                        double rounding) {
  host::Context& c = context.host;
  TreeIsland& t = context.island;
  TreeSubstep method(context, balance, states, rounding);
  balance.begin_parts();
  method.begin();
  // No light link turns over within a tree, so that shorter ones than those of an even division would not help.
  const host::SubstepLimits limits{c.dt / c.options.max_substeps, c.dt, c.options.max_substeps, host::tuning::no_limit};
  const host::SubstepResult result =
      host::take_substeps(method, limits, c.dt, host::tuning::max_first_substep * c.dt, c.dt);
  if (result.complete) method.write_starts();
  method.restore();
  if (!result.complete) {
    balance.drop_parts();
    return false;
  }
  t.step.division = host::Division::substeps;
  t.step.substeps = result.taken;
  t.step.poses.start_changed = true;
  t.last_length = result.last_length;
  t.x.multipliers.swap(t.sums.multipliers);
  ++c.counts.substepped_steps;
  c.counts.substeps += result.taken;
  return true;
}

}  // namespace linchpin::articulated
