#include "articulated/tree_island_solver.h"

#include "articulated/tree_substep.h"
#include "host/tuning.h"
#include "host/write_back.h"

#include <algorithm>
#include <string>
#include <utility>

namespace linchpin::articulated {

namespace {

/// The solver is given islands of trees only.
TreeIsland& trees_of(host::Island& b) { return static_cast<TreeIsland&>(b); }

/// Poses in the host while gaps are closed.
class HostPoses final : public PoseAccess {
 public:
  HostPoses(host::Context& c, TreeWorld& world, TreeIsland& t) : c_(c), world_(world), t_(t) {}
  void move_tree(int tree, const Configuration& to) override {
    world_.move(tree, to);
    t_.trees[z(tree)]->tree.update([&](TreeModel& model, TreeState& state) { world_.read(tree, model, state); });
  }
  void move_body(BodyId id, const BodyState& to) override {
    BodyState now;
    c_.world.read(id, now);
    host::Motion motion{.body = id, .turns = false, .write_pose = true, .v = now.v, .start = {to.p, to.q}};
    c_.world.write({&motion, 1});
  }
  void read_bodies() override { read_boundaries({c_, world_, t_}); }

 private:
  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
};

}  // namespace

void read_boundaries(const TreeContext& context) {
  host::Context& c = context.host;
  for (const ConstraintRows& rows : context.island.constraints.constraints())
    for (const ConstraintBody& body : rows.bodies)
      if (body.tree < 0 && body.id != linchpin::ground) c.bodies.read_boundary(c.world, body.id, c.dt, c.teleported);
}

// ---- its start ----

bool TreeIslandSolver::begin(host::Island& b, bool) {
  TreeIsland& t = trees_of(b);
  if (!read_problem(t)) return false;
  laws_.evaluate();
  ++c_.counts.solves;
  return true;
}

/// Reads the problem at the step's start, and closes its gaps.
bool TreeIslandSolver::read_problem(TreeIsland& t) {
  c_.bodies.start.t = c_.bodies.base.t = c_.t;
  c_.bodies.end.t = c_.t + c_.dt;
  t.projection.set_options({c_.options.gap_tolerance, c_.options.newton_tolerance, c_.options.max_newton});
  t.projection.begin_step();
  for (RigidBody& b : t.constraints.rigid_bodies()) {
    if (!c_.bodies.was_read(b.id, c_.step)) c_.bodies.read(c_.world, b.id, c_.step);  // it was made in this step
    b.force = c_.bodies.load(b.id).force;
    b.moment = c_.bodies.load(b.id).torque;
    b.gyroscopic = c_.bodies.load(b.id).gyroscopic;
  }
  read_boundaries({c_, world_, t});
  t.constraints.write_link_states(c_.bodies.start);
  t.constraints.reset_rank_cut();
  if (std::string why =
          t.constraints.linearize(c_.system, c_.bodies.start, c_.t, TreeConstraints::FarJoints::as_they_are);
      !why.empty())
    return host::fail(t, std::move(why));
  if (c_.options.drift_correction && t.projection.has_gap(c_.bodies.start)) project_positions(t);
  return t.history.failure.empty();
}

TreeStep TreeIslandSolver::step() const {
  return {c_.system, c_.bodies.start, c_.bodies.base, c_.bodies.end, c_.t, c_.dt};
}

void TreeIslandSolver::project_positions(TreeIsland& t) {
  HostPoses poses(c_, world_, t);
  GapClosing done = t.projection.project_positions(step(), poses);
  t.step.moved = done.moved;
  t.step.turned = done.turned;
  t.step.turned_away = done.widest;
  if (done.widest > 0) t.step.turned_entry = t.topology.entries[z(done.widest_constraint)];
  host::count_start_gap(c_, t);
  if (!done.failure.empty()) host::fail(t, std::move(done.failure));
}

// ---- beside the host's rows ----

/// Finds the velocities that end the step on the constraints. The host's rows start from the row velocities there, and
/// are kept to them.
bool TreeIslandSolver::start(host::Island& b) {
  constexpr double loose = 1e3;  // times the tolerance of the end of the step: rows change the velocities again
  TreeIsland& t = trees_of(b);
  constexpr int most_solves = 6;
  if (t.prescribed.is_known) {
    for (std::size_t k = 0; k < t.x.v.size(); ++k) t.x.v[k] += c_.dt * t.prescribed.dv[k];
    for (std::size_t r = 0; r < t.x.multipliers.size(); ++r) t.x.multipliers[r] = c_.dt * t.prescribed.lambda[r];
  }
  if (t.row_solve == RowSolve::at_once)  // such rows have no part along the constraints: one solve is near enough
    t.projection.correct_once(step(), t.x.v, t.x.multipliers);
  else
    t.projection.solve_end_of_step(step(), t.x.v, t.x.multipliers, loose * c_.options.newton_tolerance, most_solves);
  c_.counts.newton_solves += t.projection.take_solves();
  t.constraints.row_velocities(t.x.v, t.x.target);
  if (t.has(host::Trait::laws)) laws_.begin_rows();
  return true;
}

void TreeIslandSolver::project(host::Island& b, std::span<double> change) {
  TreeIsland& t = trees_of(b);
  t.constraints.row_velocities(t.x.v, t.x.row);
  for (std::size_t r = 0; r < t.x.row.size(); ++r) t.x.row[r] = t.x.target[r] - t.x.row[r];
  t.constraints.solve_kept(t.x.row, t.x.row_change, change);
  for (std::size_t r = 0; r < t.x.row.size(); ++r) t.x.multipliers[r] += t.x.row_change[r];
  if (t.has(host::Trait::laws)) laws_.add_response(change);
}

// ---- its end ----

bool TreeIslandSolver::finish(host::Island& b, host::SubstepStates& states) {
  TreeIsland& t = trees_of(b);
  laws_.resolve();
  solve_forces(t);
  if (finite(t.x.v)) {
    add_forces(t);
    if (c_.options.drift_correction) solve_end_of_step(t, states);
  }
  // The step's impulses beyond the reported forces, as mean multipliers.
  for (std::size_t r = 0; r < t.x.multipliers.size(); ++r)
    t.vectors.correction[r] =
        t.x.multipliers[r] / c_.dt - t.vectors.reported[r] - (t.prescribed.is_known ? t.prescribed.lambda[r] : 0);
  return finite(t.x.v) || host::fail(t, "the velocities are not finite and were not written to the world");
}

/// Solves the instantaneous forces (T5) at the step's start, with what the host's rows did as a mean force (T11).
void TreeIslandSolver::solve_forces(TreeIsland& t) {
  const std::span<double> free = t.constraints.free_acceleration();
  for (const auto& tree : t.trees)
    for (int k = 0; tree->column >= 0 && k < tree->tree.columns(); ++k)
      free[z(tree->column + k)] += tree->row_acceleration[z(tree->tree.fixed_velocities() + k)];
  for (const LoopBody& b : t.loop_bodies) {
    if (!t.has_rows() || !b.among_rows) continue;
    const Vector6 rows = row_acceleration(c_, b);
    for (int k = 0; k < b.dof; ++k) free[z(b.column + k)] += rows[k];
  }
  const double contradiction = t.constraints.solve_forces(t.vectors.reported, t.vectors.acceleration);
  // The velocities of a host obey redundant rows only to O(dt), so that these rows disagree by that much in the
  // accelerations (T11). A contradiction of positions or velocities is known by what the end of the step leaves open.
  const bool disagrees = contradiction > SolveOptions{}.consistency_tolerance;
  for (const ConstraintRows& rows : t.constraints.constraints())
    c_.constraints[rows.owner].outcome.contradictory =
        disagrees && (!c_.options.drift_correction || rows.level() == Level::acceleration);
}

/// Adds the reaction over the whole step, with that of the laws, to the velocities.
void TreeIslandSolver::add_forces(TreeIsland& t) {
  const double dt = c_.dt;
  const PrescribedMotion& laws = t.prescribed;
  const std::span<const double> v0 = t.constraints.start_velocity(), free = t.constraints.free_acceleration();
  std::vector<double>&v = t.x.v, &impulse = t.x.multipliers;
  if (!t.has_rows()) {
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += dt * t.vectors.acceleration[k];
    for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] = dt * t.vectors.reported[r];
    if (laws.is_known) {  // from our own numbers: sticking contacts rest to the last bit, in single precision too
      for (std::size_t k = 0; k < v.size(); ++k) v[k] = v0[k] + dt * (free[k] + t.vectors.acceleration[k] + laws.dv[k]);
      for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] += dt * laws.lambda[r];
    }
  } else if (t.has(host::Trait::laws)) {
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += dt * (laws.dv[k] - laws.first_dv[k]);
    for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] += dt * (laws.lambda[r] - laws.first_lambda[r]);
  }
}

void TreeIslandSolver::solve_end_of_step(TreeIsland& t, host::SubstepStates& states) {
  const double tolerance = std::max(c_.options.newton_tolerance, t.constraints.pose_rounding());
  t.vectors.v_before_newton = t.x.v;
  t.vectors.impulse_before_newton = t.x.multipliers;
  const auto newton = [&] {
    return t.projection.solve_end_of_step(step(), t.x.v, t.x.multipliers, tolerance, c_.options.max_newton);
  };
  bool ends = newton();
  for (int round = 1; round < 4 && ends && t.prescribed.is_known && laws_.reapply_stick(); ++round)
    ends = newton();  // the constraints have the last iteration
  c_.counts.newton_solves += t.projection.take_solves();
  t.last_length = c_.dt;
  if (!ends || gains_too_much(t)) {
    t.vectors.v_of_whole = t.x.v;
    t.vectors.impulse_of_whole = t.x.multipliers;
    if (redo_in_substeps(t, states, tolerance)) {
      ends = true;
    } else if (ends) {
      t.x.v = t.vectors.v_of_whole;
      t.x.multipliers = t.vectors.impulse_of_whole;
      ends = newton();  // at its end
    }
  }
  t.step.outcome.no_step_keeps_rows = !ends;
  if (!ends) {
    // The step is too long. It gets the velocities that the constraints allow now; the gap that is left is closed by
    // moving.
    ++c_.counts.fallbacks;
    const char* const why = why_no_substeps(t);
    c_.notes.fallback_reason =
        std::string("multibodies: the end of a step does not satisfy the constraints, and ") +
        (why ? why : "neither do its substeps") +
        ". linchpin has corrected its velocities only; the next step closes the gap. Use a shorter step";
    t.x.v = t.vectors.v_before_newton;
    t.x.multipliers = t.vectors.impulse_before_newton;
    t.projection.project_velocities(t.x.v, t.x.multipliers);
  }
  // Rows that contradict others are known by the residual that is left of them.
  for (const ConstraintRows& c : t.constraints.constraints())
    if (t.projection.is_unmet(c, t.last_length)) c_.constraints[c.owner].outcome.contradictory = true;
}

namespace {

/// Returns whether contacts of the host have acted on what the problem moves, or rows of it that may be contacts.
bool has_contacts(const TreeIsland& t) {
  const auto acts = [](double impulse) { return impulse != 0; };
  for (const auto& tree : t.trees)
    if (tree->column >= 0 && std::any_of(tree->rows.contact.begin(), tree->rows.contact.end(), acts)) return true;
  return std::any_of(t.loop_bodies.begin(), t.loop_bodies.end(),
                     [](const LoopBody& b) { return !b.by_rows.isZero(0); });
}

}  // namespace

/// Returns whether the energy of a step that ends on the constraints shows that it was too long. Rows that contradict
/// each other may give energy. Contacts that are spread over substeps are deeper, so they are not for this alone.
bool TreeIslandSolver::gains_too_much(TreeIsland& t) {
  if (why_no_substeps(t) || has_contacts(t)) return false;
  for (const ConstraintRows& c : t.constraints.constraints())
    if (t.projection.is_unmet(c, c_.dt)) return false;
  const TreeEnergyGain of = t.gain.emplace(energy_gain(t, c_.dt, t.x.multipliers));
  return of.gain > host::tuning::allowed_gain * std::max(of.start, of.end) &&
         is_too_much(of.gain, allowed_energy(c_, t, world_.gravity()), of.end);
}

/// Takes the step in substeps, and makes the reported forces those of the step's start again.
bool TreeIslandSolver::redo_in_substeps(TreeIsland& t, host::SubstepStates& states, double tolerance) {
  if (why_no_substeps(t)) return false;
  const bool ends = take_tree_substeps({c_, world_, t}, balance_, states, tolerance);
  solve_forces(t);
  return ends;
}

}  // namespace linchpin::articulated
