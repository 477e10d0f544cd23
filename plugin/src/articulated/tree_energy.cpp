#include "articulated/tree_energy.h"

#include "host/energy_gains.h"

#include <cmath>

namespace linchpin::articulated {

void TreeEnergy::note_constraint_work() {
  constraint_work_ = 0;
  for (const ConstraintRows& rows : t_.constraints.constraints()) {
    // A constraint of the user's own may depend on time, and is a source.
    if (c_.constraints[rows.owner].owner == host::ConstraintEntry::Owner::user_on_links) continue;
    for (int k = rows.row; k < rows.row + rows.rows; ++k) constraint_work_ += t_.x.multipliers[z(k)] * t_.x.row[z(k)];
  }
}

void TreeEnergy::end_step() {
  if (!std::isfinite(c_.options.max_energy_gain)) return;
  Change together;
  int first = -1;
  for (int i = 0; i < static_cast<int>(t_.trees.size()); ++i) {
    Tree& tree = *t_.trees[z(i)];
    if (!tree.was_read || tree.was_asleep || tree.tree.links() == 0) continue;
    const bool in_problem = t_.is_held() && tree.column >= 0;
    if (!in_problem) {
      tree.after.update([&](TreeModel& model, TreeState& state) { world_.read(i, model, state); });
      tree.after.forward_kinematics(tree.after.state().at, tree.after.state().velocity, tree.at_end);
    }
    tree.refresh();
    if (!tree.has_factor()) continue;
    const Change change = change_of(tree);
    if (!in_problem) {
      account(tree.energy, change, i);
      continue;
    }
    if (first < 0) first = i;
    together.start += change.start;
    together.end += change.end;
    together.unexplained += change.unexplained;
  }
  if (first < 0) return;
  together.unexplained += constraint_work_;
  account(t_.history.energy, together, first);
}

// M(q₀)(v₁ − v₀) + dt h is the impulse of everything that acts on the tree, with h = the velocity terms at the start.
// Its work is that with the mean velocity. The rest of T(q₁, v₁) − T(q₀, v₀) is T(q₁, v₁) − T(q₀, v₁) − dt hᵀ½(v₀ +
// v₁).
TreeEnergy::Change TreeEnergy::change_of(Tree& tree) {
  tree.tree.forward_kinematics(tree.tree.state().at, tree.after.state().velocity, motions_);
  Change out{.start = tree.tree.kinetic_energy(), .end = tree.tree.kinetic_energy(tree.at_end)};
  double power = 0;
  for (int i = tree.tree.fixed_velocities() > 0 ? 1 : 0; i <= tree.tree.links(); ++i) {
    const LinkForce force = tree.tree.velocity_force(i);
    const LinkMotion &a = tree.tree.motions()[z(i)], &b = motions_[z(i)];
    power += 0.5 * (force.force.dot(a.v + b.v) + force.moment.dot(a.w + b.w));
  }
  out.unexplained = out.end - tree.tree.kinetic_energy(motions_) - c_.dt * power;
  return out;
}

/// Energy that the applied forces could give a tree from rest in a step [J].
double TreeEnergy::energy_from_rest(Tree& tree) {
  tree.tree.forces_by_cause(world_.gravity(), forces_);
  std::vector<double>& force = forces_.gravity;
  for (std::size_t k = 0; k < force.size(); ++k) force[k] += forces_.applied[k];
  tree.wrenches.assign(z(tree.tree.links() + 1), Vector6::Zero());
  tree.tree.solve_factor(tree.wrenches, force);
  double sum = 0;
  for (const double x : force) sum += x * x;
  return 0.5 * c_.dt * c_.dt * sum;
}

void TreeEnergy::account(EnergyAccount& account, const Change& change, int first_tree) {
  const double limit = c_.options.max_energy_gain;
  account.end_step(change.start, change.end, change.unexplained);
  if (account.relative_gain() > limit) {
    const bool is_problem = &account == &t_.history.energy;
    double rest = 0;
    for (int i = first_tree; i < static_cast<int>(t_.trees.size()); ++i)
      if (Tree& tree = *t_.trees[z(i)];
          tree.has_factor() && (is_problem ? t_.is_held() && tree.column >= 0 : i == first_tree))
        rest += energy_from_rest(tree);
    account.raise_floor(rest);
  }
  account.accept_step();
  if (!account.grows() || !(account.relative_gain() > limit)) return;
  const Tree& tree = *t_.trees[z(first_tree)];
  EnergyGain gain{.t = c_.t, .gain = account.gain(), .relative = account.relative_gain(), .body = {}, .bodies = 0};
  (void)layout_.link_id(first_tree, tree.tree.fixed_velocities() > 0 ? 0 : -1, gain.body);
  gain.bodies = tree.tree.links() + (tree.tree.fixed_velocities() > 0 ? 0 : 1);
  host::note_energy_gain(c_, gain);
  account.forget_gain();
}

}  // namespace linchpin::articulated
