// The facade of the tree solver, and its part of the reports. tree_step_driver.cpp has the step.
#include "articulated/tree_check.h"
#include "articulated/tree_solver_impl.h"

#include <algorithm>
#include <utility>

namespace linchpin::articulated {

std::string TreeWorld::link_name(int, int link) const {
  return (link < 0 ? std::string("the base") : "link " + std::to_string(link)) + " of its multibody";
}

TreeSolver::TreeSolver(host::ConstraintSolver& solver, TreeWorld& world, RotationOverStep rotation)
    : impl_(std::make_unique<Impl>(solver, world, rotation)) {
  solver.set_companion(impl_.get());
  impl_->c.bodies.make_ends();
}
TreeSolver::~TreeSolver() { impl_->owner.set_companion(nullptr); }

std::vector<int> TreeSolver::set_trees(std::span<const int> before) { return impl_->layout.set_trees(before); }
BodyId TreeSolver::link_id(int tree, int link) {
  BodyId id;
  host::demand(impl_->layout.link_id(tree, link, id));
  return id;
}
bool TreeSolver::is_link(BodyId id) const { return impl_->t.links.has(id); }

std::string TreeSolver::why_not_held(const Constraint& constraint) const {
  return impl_->layout.why_not_held(constraint);
}
void TreeSolver::set_constraint(int entry, std::unique_ptr<Constraint> constraint) {
  impl_->layout.set_constraint(entry, std::move(constraint));
}
void TreeSolver::set_gear(int entry, Gear gear) { impl_->layout.set_gear(entry, std::move(gear)); }
Constraint TreeSolver::make_joint(int tree, int link, const std::string& name) {
  return impl_->layout.make_joint(tree, link, name);
}
int TreeSolver::find_joint(int tree, int link) { return impl_->layout.find_joint(tree, link); }

bool TreeSolver::holds(int entry) const {
  const host::ConstraintEntry& r = impl_->c.constraints[entry];
  if (!r.is_on_links()) return impl_->layout.has_rigid(entry);
  return impl_->t.has_problem() && !impl_->t.failed() && r.alive && r.deferred && r.enabled;
}

bool TreeSolver::moves(int tree) const {
  return impl_->t.is_held() && tree >= 0 && impl_->t.trees[z(tree)]->column >= 0;
}

std::span<const BodyId> TreeSolver::rigid_bodies() const { return impl_->t.topology.bodies; }

RowImpulses* TreeSolver::rows_on(int tree) {
  Tree& t = *impl_->t.trees[z(tree)];
  return t.was_read ? &t.rows : nullptr;
}

std::span<const double> TreeSolver::impulses(int entry) const {
  const TreeIsland& t = impl_->t;
  if (t.phase != host::Phase::solved) return {};
  for (const ConstraintRows& rows : t.constraints.constraints())
    if (rows.owner == entry) return rows.own(std::span<const double>(t.x.multipliers));
  return {};
}

Wrench TreeSolver::mean_wrench(int entry, int body) const {
  const TreeIsland& t = impl_->t;
  if (t.phase != host::Phase::solved) return {};
  std::size_t first = 0;
  for (const ConstraintRows& rows : t.constraints.constraints()) {
    if (rows.owner == entry) return t.mean_wrench(rows, first, body);
    first += rows.bodies.size();
  }
  return {};
}

Wrench TreeSolver::joint_wrench(int tree, int link) { return impl_->reports.joint_wrench(tree, link); }
JointForces TreeSolver::joint_forces(int tree, int link) { return impl_->reports.joint_forces(tree, link); }

void add_energy(const TreeModel& model, const TreeState& state, const Vector3d& g, double& sum) {
  KinematicTree tree(nullptr);  // it goes through no step
  tree.update([&](TreeModel& to_model, TreeState& to_state) {
    to_model = model;
    to_state = state;
  });
  tree.factorize();
  sum += tree.kinetic_energy();
  for (int k = model.fixed_base ? 0 : -1; k < tree.links(); ++k) sum -= model.mass(k) * g.dot(tree.motion(k).p);
}

// ---- the part of the reports ----

bool TreeSolver::Impl::has(int entry) const {
  const auto& entries = t.topology.entries;
  return t.is_held() && std::find(entries.begin(), entries.end(), entry) != entries.end();
}

void TreeSolver::Impl::restore(std::shared_ptr<const Dynamics::LawHistory> history) {
  laws.restore(std::move(history));
  layout.make_stale();
}

void TreeSolver::Impl::lay_out() {
  notes.clear();
  laws.forget();
  layout.lay_out();
  if (!t.has(host::Trait::laws)) return;
  laws.lay_out(notes);  // adds constraints to the system, so that others move in memory
  t.constraints.find_constraints_again([&](const ConstraintRows& rows) {
    return layout.has_rigid(rows.owner) ? &c.system.constraint(c.constraints[rows.owner].id) : rows.constraint;
  });
}

std::vector<host::Finding> TreeSolver::Impl::check() {
  update_reports();  // of the trees that had the last step
  world.find_trees();
  return check_link_constraints(parts, layout);
}

}  // namespace linchpin::articulated
