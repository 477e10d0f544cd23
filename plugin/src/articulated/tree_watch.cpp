#include "articulated/tree_watch.h"

#include "dynamics/step_events.h"
#include "host/island_watch.h"
#include "host/tuning.h"

#include <algorithm>
#include <cmath>

namespace linchpin::articulated {

bool may_give_energy(const host::Context& c, const ConstraintRows& rows) {
  return c.constraints[rows.owner].owner == host::ConstraintEntry::Owner::user_on_links;
}

// M(q₀)(v₁ − v₀) + dt h is the impulse of everything that acts on the tree, with h = the velocity terms at the start.
// Its work is that with the mean velocity. The rest of T(q₁, v₁) − T(q₀, v₀) is T(q₁, v₁) − T(q₀, v₁) − dt hᵀ½(v₀ +
// v₁).
double energy_of_integration(const KinematicTree& tree, std::span<const double> v1, std::span<const LinkMotion> at_end,
                             double dt, std::vector<LinkMotion>& scratch) {
  tree.velocities_at_state(v1, scratch);
  double power = 0;
  for (int i = tree.fixed_velocities() > 0 ? 1 : 0; i <= tree.links(); ++i) {
    const LinkForce force = tree.velocity_force(i);
    const LinkMotion &a = tree.motions()[z(i)], &b = scratch[z(i)];
    power += 0.5 * (force.force.dot(a.v + b.v) + force.moment.dot(a.w + b.w));
  }
  return tree.kinetic_energy(at_end, v1) - tree.kinetic_energy(scratch, v1) - dt * power;
}

void TreeWatch::note_constraint_work() {
  constraint_work_ = 0;
  for (const ConstraintRows& rows : t_.constraints.constraints()) {
    if (may_give_energy(c_, rows)) continue;
    for (int k = rows.row; k < rows.row + rows.rows; ++k)
      constraint_work_ += t_.in_substeps() ? t_.sums.work[z(k)] : t_.x.multipliers[z(k)] * t_.x.row[z(k)];
  }
}

void TreeWatch::end_step() {
  compare_energies();
  compare_velocities();
}

void TreeWatch::compare_energies() {
  if (!std::isfinite(c_.options.max_energy_gain)) return;
  const bool is_known = t_.gain && !t_.in_substeps() && has_moved_as_solved();
  Change together;
  if (is_known) together = {t_.gain->start, t_.gain->end, t_.gain->by_integration};
  int first = -1;
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& tree = *t_.trees[z(i)];
    if (!tree.was_read || tree.was_asleep || tree.tree.links() == 0) continue;
    const bool in_problem = t_.is_held() && tree.column >= 0;
    if (!in_problem) {
      tree.after.update([&](TreeModel& model, TreeState& state) { world_.read(i, model, state); });
      tree.after.forward_kinematics(tree.after.state().at, tree.after.state().velocity, tree.at_end);
      tree.forget_motion();
    }
    tree.refresh();
    if (!tree.has_factor()) continue;
    if (!in_problem) {
      account(tree.energy, change_of(tree), i);
      continue;
    }
    if (first < 0) first = i;
    if (is_known) continue;
    const Change change = change_of(tree);
    together.start += change.start;
    together.end += change.end;
    together.unexplained += change.unexplained;
  }
  if (first < 0) return;
  if (t_.in_substeps()) together.unexplained = t_.unexplained_energy;
  together.unexplained += constraint_work_;
  account(t_.history.energy, together, first);
}

/// Returns whether the trees of the problem have the velocities of the solution, so that their energies are known.
bool TreeWatch::has_moved_as_solved() const {
  constexpr double rounding = 1e-12;
  return std::all_of(t_.trees.begin(), t_.trees.end(), [&](const auto& tree) {
    if (tree->column < 0) return true;
    const std::vector<double>&now = tree->after.state().velocity, &solved = tree->velocity_end;
    const double size = rounding * (1 + largest(solved));
    return std::equal(now.begin(), now.end(), solved.begin(), solved.end(),
                      [&](double a, double b) { return std::abs(a - b) <= size; });
  });
}

TreeWatch::Change TreeWatch::change_of(Tree& tree) {
  return {.start = tree.tree.kinetic_energy(),
          .end = tree.tree.kinetic_energy(tree.at_end, tree.after.state().velocity),
          .unexplained = energy_of_integration(tree.tree, tree.after.state().velocity, tree.at_end, c_.dt, t_.motions)};
}

void TreeWatch::account(EnergyAccount& account, const Change& change, int first_tree) {
  const double limit = c_.options.max_energy_gain;
  account.end_step(change.start, change.end, change.unexplained);
  if (account.relative_gain() > limit) {
    const bool is_problem = &account == &t_.history.energy;
    double rest = 0;
    for (int i = first_tree; i < static_cast<int>(t_.trees.size()); ++i)
      if (Tree& tree = *t_.trees[z(i)];
          tree.has_factor() && (is_problem ? t_.is_held() && tree.column >= 0 : i == first_tree))
        rest += tree.energy_from_rest(world_.gravity(), c_.dt);
    account.raise_floor(rest);
  }
  account.accept_step();
  if (!account.grows() || !(account.relative_gain() > limit)) return;
  const Tree& tree = *t_.trees[z(first_tree)];
  EnergyGain gain{.t = c_.t, .gain = account.gain(), .relative = account.relative_gain(), .body = {}, .bodies = 0};
  (void)layout_.link_id(first_tree, tree.tree.fixed_velocities() > 0 ? 0 : -1, gain.body);
  gain.bodies = tree.tree.links() + (tree.tree.fixed_velocities() > 0 ? 0 : 1);
  add_event(gain, c_.energy_gains, c_.counts.energy_gains);
  account.forget_gain();
}

void TreeWatch::compare_velocities() {
  const double limit = c_.options.max_velocity_residual;
  if (!std::isfinite(limit) || !t_.is_held()) return;
  if (c_.options.drift_correction && !t_.step.outcome.no_step_keeps_rows) return;  // the step ended on the constraints
  ResidualAccount& account = t_.history.residual;
  account.begin_step();
  const auto constraints = t_.constraints.constraints();
  for (int i = 0; i < static_cast<int>(constraints.size()); ++i)
    if (!constraints[z(i)].is_gear()) account.add(residual_of(constraints[z(i)], i));  // A gear has constant rows.
  const RowResidual worst = account.worst();
  if (account.accept_step(limit)) host::note_velocity_residual(c_, c_.t, worst, constraints[z(worst.constraint)].owner);
}

/// The host moves links and bodies by the velocities at the end of its step. They belong to the middle of it.
RowResidual TreeWatch::residual_of(const ConstraintRows& rows, int index) {
  RowResidual worst;
  const ConstraintFunction& function = rows.constraint->function();
  if (function.level() == Level::acceleration) return worst;
  const double rounding = host::tuning::floor_pose_roundings * c_.capabilities.rounding / c_.dt;
  const SpeedFloor floor{c_.dt * world_.gravity().norm() + rounding, rounding};
  states_.clear();
  for (const ConstraintBody& body : rows.bodies) {
    BodyState& state = states_.emplace_back();
    if (body.tree >= 0)
      state = t_.constraints.state_of(body, true);
    else if (c_.bodies.in_host(body.id))
      c_.world.read(body.id, state);
    state.a.setZero();
    state.alpha.setZero();
  }
  const std::size_t count = z(rows.rows), bodies = rows.bodies.size();
  A_.resize(6 * bodies * count);
  rows_.resize(3 * count);
  const std::span<double> b = std::span(rows_).first(count), position = std::span(rows_).subspan(count, count),
                          rate = std::span(rows_).last(count);
  try {
    function.linearize(states_, c_.t, {A_, b, position, rate});
  } catch (...) {
    return worst;  // The next step fails with its text.
  }
  for (std::size_t r = 0; r < count; ++r) {
    RowComparison row;
    for (std::size_t k = 0; k < bodies; ++k)
      row.add(A_.data() + 6 * (r * bodies + k), states_[k], BodyKind::rigid, floor);
    const RowResidual found = row.residual(rate[r], rate[r] + 0.5 * c_.dt * b[r], index);
    if (found.relative > worst.relative) worst = found;
  }
  return worst;
}

}  // namespace linchpin::articulated
