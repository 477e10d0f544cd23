// Projections in the mass metric: poses (gaps and joints that are turned far), velocities, and both at the end of a
// step.
#include "projection/end_of_step_newton.h"
#include "projection/tuning.h"

#include <linchpin/constraint.h>
#include <linchpin/detail/alignment.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>

namespace linchpin {

namespace tuning = detail::tuning;

namespace {

/// Displaces the block's bodies by M⁻¹Aᵀ of a solve: a twist over unit time.
void displace(const IslandLayout& layout, std::span<const double> d, double scale, State& state) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const Vector6d u = scale * twist_of(layout, s, d);
    advance(state[layout.bodies[s]], u.head<3>(), u.tail<3>(), 1.0);
  }
}

/// Factors the constraints of the block that have one of two levels, at `state`, in the workspace. The factor of the
/// step may be too far away, or have rows of other levels.
bool own_factor(const System& system, const Dynamics& dynamics, const State& state, Level level, Level or_level,
                double gap, Workspace& work) {
  work.chosen.clear();
  for (const ConstraintId id : dynamics.assembly().layout.constraints) {
    const Level l = system.constraint(id).function().level();
    if (l == level || l == or_level) work.chosen.push_back(id);
  }
  lay_out_island(system, work.chosen, work.assembly.layout);
  assemble_constraints(system, state, work.assembly);
  if (!work.assembly.failure.empty()) return false;
  work.assembly.problem.Q.assign(z(work.assembly.layout.n()), 0.0);
  work.assembly.problem.c.assign(z(work.assembly.layout.n()), 0.0);
  // Redundant rows with a gap between them look independent at a singular value of the gap over the lever (T6).
  SolveOptions options = dynamics.solver().options();
  options.rank_tolerance = std::max(options.rank_tolerance, std::min(gap, tuning::max_gap_rank_tolerance));
  work.solver.set_options(options);
  return work.solver.factor(work.assembly.problem);
}

void resize(Workspace& work, const IslandLayout& layout) {
  for (auto* x : {&work.error, &work.minus}) x->assign(z(layout.m()), 0.0);
  work.dv.assign(z(layout.n()), 0.0);
}

/// The largest angle [rad] that a displacement turns a body by.
double turn_of(const IslandLayout& layout, std::span<const double> d) {
  double most = 0;
  for (std::size_t s = 0; s < layout.bodies.size(); ++s)
    if (layout.column[s + 1] - layout.column[s] == 6)
      most = std::max(most, Eigen::Map<const Vector3d>(&d[z(layout.column[s] + 3)]).norm());
  return most;
}

/// Closes the gap by chords with one factor.
/// @param limited  set where a step was shortened because it would have turned a body too far
double close_by_chord(const System& system, const Assembly& assembly, const ConstraintFactorization& solver,
                      State& state, double tolerance, int& solves_left, Workspace& work, bool& limited) {
  using detail::far_turn;  // beyond it the rows do not tell where a step leads
  resize(work, assembly.layout);
  double gap = position_residuals(system, assembly.layout, state, work.X, work.error);
  while (gap > tolerance && solves_left > 0) {
    for (std::size_t r = 0; r < work.error.size(); ++r) work.minus[r] = -work.error[r];
    solver.apply(work.minus, {}, {}, work.dv);
    --solves_left;
    // A full step that does not help is halved a few times: far from the constraints the chord overshoots.
    const double turn = turn_of(assembly.layout, work.dv);
    limited = turn > far_turn;
    double scale = limited ? far_turn / turn : 1, next = 0;
    const double least = tuning::min_chord_share * scale;
    displace(assembly.layout, work.dv, scale, state);
    while (next = position_residuals(system, assembly.layout, state, work.X, work.error),
           !(next < gap) && scale > least) {
      displace(assembly.layout, work.dv, -0.5 * scale, state);
      scale *= 0.5;
    }
    if (!(next < gap)) {
      displace(assembly.layout, work.dv, -scale, state);
      return gap;
    }
    const bool slow = next > tuning::slow_chord * gap;
    gap = next;
    if (slow) break;
  }
  return gap;
}

/// Returns the share of one step, with a factor of its own, in a projection over a long way. A body that the program
/// put elsewhere comes back in about thirty steps. A mechanism that cannot reach would go on without end, and its rows
/// nearly depend on each other: a hundred rows take the dense solver seconds. So a way has as many steps as some tens
/// of milliseconds allow, and no fewer than a way that is merely long takes.
double share_of_a_long_way(const IslandLayout& layout, const ConstraintFactorization& solver) {
  const double m = layout.m(), n = layout.n();
  return 1 / std::clamp(solver.info().fallbacks > 0 ? tuning::max_dense_way_work / (m * m * n)
                                                    : tuning::max_sparse_way_work / m,
                        tuning::min_way_steps, tuning::max_way_steps);
}

/// Turns joints that are turned far back, the shortest way and with the other constraints kept, until their dots tell
/// the way.
/// @param most_turn  largest turn of a body by all of it [rad]
/// @param widest  in and out: the widest angle that is left [rad]; not 0 where joints contradict each other, too
/// @return whether it ended because of `most_turn`
bool turn_back(const System& system, const Dynamics& dynamics, State& state, double most_turn, double& widest,
               Workspace& work) {
  double turned = 0;
  for (double way = 0; widest > 0 && way < 1;) {
    if (!(turned < most_turn)) return true;
    work.assembly.closing = true;
    const bool factored = own_factor(system, dynamics, state, Level::position, Level::position, detail::far_turn, work);
    work.assembly.closing = false;
    if (!factored) break;
    const Assembly& assembly = work.assembly;
    work.minus.assign(assembly.position.begin(), assembly.position.end());
    for (double& x : work.minus) x = -x;
    work.dv.assign(z(assembly.layout.n()), 0.0);
    work.solver.apply(work.minus, {}, {}, work.dv);
    const double turn = turn_of(assembly.layout, work.dv), allowed = std::min(detail::far_turn, most_turn - turned);
    if (!finite(work.dv)) break;
    const double scale = turn > allowed ? allowed / turn : 1;
    displace(assembly.layout, work.dv, scale, state);
    const double next = detail::widest_turn(dynamics, state);
    if (!(next < widest)) {
      displace(assembly.layout, work.dv, -scale, state);
      break;
    }
    widest = next;
    turned += std::min(turn, allowed);
    way += share_of_a_long_way(assembly.layout, work.solver);
  }
  return false;
}

}  // namespace

double project_positions(const System& system, const Dynamics& dynamics, State& state, double tolerance, int max_solves,
                         double* moved, double* turned, double most_turn) {
  const IslandLayout& layout = dynamics.assembly().layout;
  Workspace& work = workspace();
  if (moved != nullptr) *moved = 0;
  if (turned != nullptr) *turned = 0;
  if (!has_level(system, layout, Level::position)) return 0;
  resize(work, layout);
  double gap = position_residuals(system, layout, state, work.X, work.error);
  double away = detail::widest_turn(dynamics, state);
  if ((gap <= tolerance && away == 0) || !std::isfinite(gap)) return gap;
  if (moved != nullptr) work.poses = state;
  const bool from_afar = away > 0;
  bool on_the_way = false;  // the dots of a joint that is still turned far lead elsewhere
  if (from_afar) {
    on_the_way = turn_back(system, dynamics, state, most_turn, away, work);
    resize(work, layout);
    gap = position_residuals(system, layout, state, work.X, work.error);
  }

  int left = on_the_way ? 0 : max_solves;
  double way = 0;
  bool limited = false;
  const bool positions_only =
      !has_level(system, layout, Level::velocity) && !has_level(system, layout, Level::acceleration);
  if (positions_only && gap < tuning::near_gap && !from_afar)
    gap = close_by_chord(system, dynamics.assembly(), dynamics.solver(), state, tolerance, left, work, limited);
  double of_gap = 1;  // near the end of a long way rows seem to depend on each other that do not
  while (gap > tolerance && left > 0) {
    const double before = gap;
    if (!own_factor(system, dynamics, state, Level::position, Level::position, of_gap * gap, work)) break;
    gap = close_by_chord(system, work.assembly, work.solver, state, tolerance, left, work, limited);
    if (limited && gap < before && (way += share_of_a_long_way(work.assembly.layout, work.solver)) < 1) {
      left = max_solves;
      continue;
    }
    if (gap < tuning::projection_gain * before) continue;
    if (!from_afar || of_gap < 1) break;  // at round-off, or the constraints cannot all be met
    of_gap = tuning::fine_gap_share;
  }
  if (moved != nullptr && turned != nullptr)
    for (const BodyId id : layout.bodies)
      *turned = std::max(*turned, turn_between(work.poses[id].q, state[id].q).norm());
  for (const ConstraintId id : layout.constraints) {
    if (moved == nullptr) break;
    const Constraint& constraint = system.constraint(id);
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const BodyState &was = work.poses[constraint.bodies()[z(k)]], &is = state[constraint.bodies()[z(k)]];
      *moved = std::max(
          {*moved, (is.p - was.p).norm(), (is.point(constraint.point(k)) - was.point(constraint.point(k))).norm()});
    }
  }
  return std::max(gap, away);
}

double project_velocities(const System& system, const Dynamics& dynamics, State& state, std::span<double> lambda) {
  const IslandLayout& layout = dynamics.assembly().layout;
  Workspace& work = workspace();
  const bool mixed = has_level(system, layout, Level::acceleration);
  if (mixed) {
    if (!own_factor(system, dynamics, state, Level::position, Level::velocity, 0, work)) return 0;
  } else {
    work.assembly.layout = layout;
    assemble_constraints(system, state, work.assembly);
    if (!work.assembly.failure.empty()) return 0;
    work.assembly.problem.Q.assign(z(layout.n()), 0.0);
    work.assembly.problem.c.assign(z(layout.n()), 0.0);
    work.solver.set_options(dynamics.solver().options());
  }
  const IslandLayout& own = work.assembly.layout;
  resize(work, own);
  work.start = work.assembly.v;
  const ConstraintFactorization* solver = mixed ? &work.solver : &dynamics.solver();

  // One solve is the answer for the factor at this very state; a chord from a neighbouring one, or rows that are not
  // linear in the velocity, take a few.
  double worst = largest(work.assembly.velocity);
  for (int solves = 0; solves < tuning::max_velocity_solves && worst > 0 && std::isfinite(worst); ++solves) {
    for (std::size_t r = 0; r < work.minus.size(); ++r) work.minus[r] = -work.assembly.velocity[r];
    const bool record = !mixed && !lambda.empty();
    if (record) work.lambda.resize(lambda.size());
    solver->apply(work.minus, record ? std::span(work.lambda) : std::span<double>(), {}, work.dv);  // (T14)
    for (std::size_t r = 0; record && r < lambda.size(); ++r) lambda[r] += work.lambda[r];
    for (std::size_t s = 0; s < own.bodies.size(); ++s) {
      const Vector6d u = twist_of(own, s, work.dv);
      state[own.bodies[s]].v += u.head<3>();
      state[own.bodies[s]].w += u.tail<3>();
    }
    assemble_constraints(system, state, work.assembly);
    const double next = largest(work.assembly.velocity);
    if (!(next < tuning::velocity_stall * worst)) {
      if (solver == &work.solver || next < tuning::small_velocity_error) break;
      if (!work.solver.factor(work.assembly.problem)) break;
      solver = &work.solver;
    }
    worst = next;
  }
  for (std::size_t j = 0; j < work.start.size(); ++j) work.start[j] = work.assembly.v[j] - work.start[j];
  return 0.5 * mass_norm(work.assembly.problem, work.start);
}

namespace {

/// Sets the velocities of the block in `state`.
void set_velocities(const IslandLayout& layout, std::span<const double> v, State& state) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const Vector6d u = twist_of(layout, s, v);
    state[layout.bodies[s]].v = u.head<3>();
    state[layout.bodies[s]].w = u.tail<3>();
  }
}

/// φ̇ or ψ of the rows at fixed poses, as a function of the velocities. Rows on accelerations have none.
class RowVelocities {
 public:
  RowVelocities(const System& system, const Dynamics& dynamics, State& state, Workspace& work)
      : system_(system),
        block_(dynamics.assembly().layout),
        state_(state),
        work_(work),
        by_joints_(detail::stock_of(dynamics).rigid),
        accelerations_(!by_joints_ && has_level(system, block_, Level::acceleration)) {
    if (by_joints_) {
      work_.joint_rates.begin(dynamics, state);
      work_.error.resize(z(block_.m()));
    } else {
      work_.assembly.layout = block_;
    }
  }

  /// Sets work.error. @return the largest magnitude
  double evaluate(std::span<const double> v) {
    if (by_joints_) return work_.joint_rates.residuals(v, work_.error);
    set_velocities(block_, v, state_);
    assemble_constraints(system_, state_, work_.assembly);
    if (!work_.assembly.failure.empty()) return std::numeric_limits<double>::infinity();
    work_.error = work_.assembly.velocity;
    for (std::size_t i = 0; accelerations_ && i < block_.constraints.size(); ++i)
      if (constraint_at(system_, block_.constraints[i]).function().level() == Level::acceleration)
        std::fill(work_.error.begin() + block_.row[i], work_.error.begin() + block_.row[i + 1], 0.0);
    return largest(work_.error);
  }

 private:
  const System& system_;
  const IslandLayout& block_;
  State& state_;
  Workspace& work_;
  const bool by_joints_, accelerations_;
};

/// Projects velocities at the poses in `on`, by chords. Sets `converged` and `least_squares`, and adds to `solves`.
void project_velocities_by_chords(const System& system, const Dynamics& dynamics, State& on, std::span<double> v,
                                  std::span<double> lambda, int max_solves, Workspace& work, ProjectionReport& out) {
  RowVelocities residual(system, dynamics, on, work);
  work.lambda.resize(lambda.size());
  work.dv.resize(v.size());
  const double size = largest(v);
  double previous = std::numeric_limits<double>::max();
  for (int solves = 0;; ++solves) {
    const double worst = residual.evaluate(v);
    out.converged = worst <= tuning::velocity_tolerance * size;
    if (out.converged || !std::isfinite(worst)) break;
    if (worst >
        tuning::velocity_stall * previous) {  // as far as rounding, or rows that contradict each other, let it come
      const double moves = largest(work.dv);
      out.converged = worst <= tuning::stalled_velocity_error * size || moves <= tuning::velocity_rounding * size;
      out.least_squares = out.least_squares || worst > tuning::stalled_velocity_error * size;
      break;
    }
    if (solves == max_solves) break;
    previous = worst;
    for (double& e : work.error) e = -e;
    dynamics.solver().solve_unrefined(work.error, work.lambda, {}, work.dv);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] += work.dv[j];
    for (std::size_t r = 0; r < lambda.size(); ++r) lambda[r] += work.lambda[r];
    ++out.solves;
  }
  set_velocities(dynamics.assembly().layout, v, on);
}

}  // namespace

ProjectionReport project_state(const System& system, const Dynamics& dynamics, const State& off, State& on,
                               std::span<double> v, std::span<double> lambda, double tolerance, int max_solves) {
  const Assembly& assembly = dynamics.assembly();
  Workspace& work = workspace();
  ProjectionReport out;
  std::fill(lambda.begin(), lambda.end(), 0.0);
  work.shift.assign(v.size(), 0.0);
  const EndOfStep displacement{
      .system = system, .dynamics = dynamics, .base = off, .end = on, .dt = 1, .displacements_only = true};
  AddedVelocities update(work.shift);
  const EndOfStepNewton::Options options{.tolerance = tolerance, .max_solves = max_solves};
  const NewtonReport poses = EndOfStepNewton(displacement, options, work.shift, update).solve({}, {});
  out.solves = poses.solves;
  out.residual = poses.residual;
  out.least_squares = poses.least_squares;
  out.moved = largest(work.shift);
  set_velocities(assembly.layout, v, on);
  if (!poses.converged || !finite(work.shift)) return out;

  work.shift.assign(v.begin(), v.end());
  project_velocities_by_chords(system, dynamics, on, v, lambda, max_solves, work, out);
  if (!dynamics.solver().full_row_rank()) {
    work.force_sum.assign(v.size(), 0.0);
    add_transposed(assembly, lambda, work.force_sum);
    dynamics.solver().minimum_norm_multipliers(work.force_sum, lambda);
  }
  for (std::size_t j = 0; j < v.size(); ++j) out.changed = std::max(out.changed, std::fabs(v[j] - work.shift[j]));
  out.converged = out.converged && finite(v);
  return out;
}

}  // namespace linchpin
