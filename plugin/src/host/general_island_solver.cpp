#include "host/general_island_solver.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/general_substep.h"
#include "host/geometric_damping.h"
#include "host/island_watch.h"
#include "host/reactions.h"
#include "host/staged_integrator.h"
#include "host/start_gap.h"
#include "host/start_of_step.h"
#include "host/step_acceptance.h"
#include "host/substepper.h"
#include "host/tuning.h"
#include "host/whole_step.h"
#include "joint_kernel/tuning.h"
#include "math/tuning.h"
#include "model/force_rows.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::host {

// ---- before and between the host's iterations ----

bool GeneralIslandSolver::begin(Island& b, bool among_rows) {
  b.step.path = Path::general;
  b.gyroscopics.step.apply_free({c_.system, b.layout(), c_.bodies.start}, b.x.applied);
  if (!b.dynamics) make_dynamics(c_, b);
  if (!b.step.is_sized) size_vectors(c_, b);
  b.step.fast_substeps.first_length = predicted_length(b, among_rows);
  b.history.next_length = 0;
  c_.bodies.make_ends();
  for (const BodyId id : b.layout().bodies) c_.bodies.base[id] = c_.bodies.end[id] = c_.bodies.start[id];
  b.step.poses.current = true;
  if (b.has(Trait::laws)) prepare_laws(b);
  ++b.stats.factorizations;
  // Among host rows the forces are found when the impulses of the rows are known. The state of friction is needed
  // before that (T10). Stages find their own forces.
  const bool later =
      (among_rows && !b.has(Trait::laws) && c_.options.mode == Mode::exact && c_.options.drift_correction) ||
      stages_find_forces(c_, b) || b.step.fast_substeps.first_length > 0;
  const Status status = later ? b.dynamics->factor(c_.bodies.start) : b.dynamics->evaluate(c_.bodies.start, b.x.Q);
  if (status == Status::invalid) return fail(b, *b.dynamics);
  b.step.has_forces = !later;
  ++b.stats.solves;
  return true;
}

// A step is not tried as a whole where the last step was too long for that. The friction problem of the whole step
// would be solved for nothing.
double GeneralIslandSolver::predicted_length(const Island& b, bool among_rows) const {
  const bool is_short = b.history.next_length > 0 && b.history.next_length <= 0.5 * c_.dt;
  return is_short && !among_rows && c_.options.drift_correction && reports_later(c_, b) ? b.history.next_length : 0;
}

// The impulses with which the host has warm-started its contacts are part of the start velocities: rows contain these
// impulses, so velocities must contain them, too.
bool GeneralIslandSolver::start(Island& b) {
  for (std::size_t j = 0; j < b.x.Q.size(); ++j) b.x.Q_total[j] = b.x.Q[j] + b.rows.total[j] / c_.dt;
  // Newton takes all forces into account at once. Far off the constraints the linear solution is a better start. A gap
  // at the start is closed by moving when the rows are solved, so that no velocity of the rows has to close it.
  const bool open =
      std::max(start_gap(c_, b, false), find_turned_away(c_, b)) > std::max(c_.options.gap_tolerance, tuning::far_open);
  if (!b.has(Trait::laws) && c_.options.drift_correction && (open || starts_in_substeps(c_, b))) {
    start_from_rows(b);
  } else if (b.step.has_forces || !start_from_forces(b, false)) {
    const bool warm = std::any_of(b.rows.total.begin(), b.rows.total.end(), [](double p) { return p != 0; });
    if ((warm || !b.step.has_forces) && b.dynamics->resolve(c_.bodies.start, b.x.Q_total) == Status::invalid)
      return fail(b, *b.dynamics);
    if (!start_from_forces(b, true) && !b.has(Trait::laws)) start_from_rows(b);
  }
  row_velocities(b.dynamics->assembly(), b.x.v, b.x.target);
  if (b.has(Trait::laws)) note_state_before_rows(b);
  return true;
}

void GeneralIslandSolver::prepare_laws(Island& b) {
  b.dynamics->set_step(c_.dt);  // friction obeys its law at the end of the step (T10)
  if (b.history.slides_at != c_.step) release_friction_modes(b);
  if (std::exchange(b.history.laws_marked_at, c_.step) == c_.step)
    b.dynamics->return_to_marked_law_history();  // the step is repeated
  else
    b.dynamics->mark_law_history();
}

void GeneralIslandSolver::note_state_before_rows(Island& b) {
  b.x.before_rows = b.x.v;
  b.x.law_response.efforts.clear();
  b.x.sticks.clear();
  for (const FrictionElement& e : b.dynamics->friction_elements()) b.x.sticks.push_back(e.sticks);
}

// Rows find friction that sticks at their start as hard to move as a constraint. Where their impulses exceed its bound,
// they are solved once more with friction that slides.
bool GeneralIslandSolver::ask_for_rows_with_sliding(Island& b) {
  if (!b.has(Trait::laws) || b.step.rows < HostRows::contacts || b.step.method != RowMethod::responses ||
      c_.options.mode == Mode::passive || b.history.slides_at == c_.step)
    return false;
  const auto elements = b.dynamics->friction_elements();
  const auto starts_to_slide = [&](std::size_t i) { return b.x.sticks[i] && !elements[i].sticks; };
  bool any = false;
  for (std::size_t i = 0; i < elements.size() && elements.size() == b.x.sticks.size(); ++i) {
    if (!starts_to_slide(i)) continue;
    b.dynamics->set_friction_mode(static_cast<int>(i), FrictionMode::slips, -elements[i].force);
    any = true;
  }
  if (!any) return false;
  b.history.slides_at = c_.step;
  return b.step.outcome.repeats_rows = true;
}

void GeneralIslandSolver::release_friction_modes(Island& b) {
  if (b.history.slides_at == 0) return;
  b.dynamics->reset_friction_modes();
  if (b.history.slides_at != c_.step) b.history.slides_at = 0;
}

// @return whether the velocities end the step on the constraints
bool GeneralIslandSolver::start_from_forces(Island& b, bool with_constraint_forces) {
  for (std::size_t j = 0; j < b.x.v.size(); ++j) {
    b.x.force[j] = b.x.applied[j] + b.rows.total[j];
    if (with_constraint_forces) b.x.force[j] += c_.dt * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
  }
  b.dynamics->solver().inverse_mass(b.x.force, b.x.dv);
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.v[j] = b.x.v0[j] + b.x.dv[j];
  if (!c_.options.drift_correction) return true;
  const NewtonReport newton =
      solve_end_of_step(c_.system, *b.dynamics, c_.bodies.base, c_.bodies.end, c_.dt, b.x.v, {}, {},
                        std::max(c_.options.newton_tolerance, tuning::start_tolerance), tuning::start_solves);
  b.step.newton_solves += newton.solves;
  return (newton.converged || newton.residual * c_.dt < tuning::start_slack * tuning::start_tolerance) &&
         !starts_half_a_turn_away(c_, b);
}

// An island that moves too fast for one step has no velocities that end it on the constraints. It gets the mean of the
// velocities that its rows allow.
void GeneralIslandSolver::start_from_rows(Island& b) {
  const linchpin::ConstraintFactorization& solver = b.dynamics->solver();
  const Assembly& assembly = b.dynamics->assembly();
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.force[j] = b.x.applied[j] + b.rows.total[j];
  solver.inverse_mass(b.x.force, b.x.v);
  row_velocities(assembly, b.x.v, b.x.row);
  const double time = extrapolation_time(c_, b);
  for (std::size_t i = 0; i < b.x.row.size(); ++i)
    b.x.row[i] = 0.5 * time * assembly.problem.b[i] - b.x.row[i] - assembly.velocity[i];
  solver.solve_unrefined(b.x.row, {}, {}, b.x.dv);
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.v[j] += b.x.v0[j] + b.x.dv[j];
}

void GeneralIslandSolver::project(Island& b, std::span<double> change) {
  row_velocities(b.dynamics->assembly(), b.x.v, b.x.row);
  for (std::size_t i = 0; i < b.x.row.size(); ++i) b.x.row[i] = b.x.target[i] - b.x.row[i];
  b.dynamics->solver().solve_unrefined(b.x.row, {}, {}, change);  // the next iteration solves the rest
  if (!b.has(Trait::laws)) return;
  std::vector<double>& total = b.x.change;  // by the rows so far
  total.resize(b.x.v.size());
  for (std::size_t j = 0; j < total.size(); ++j) total[j] = b.x.v[j] + change[j] - b.x.before_rows[j];
  b.dynamics->add_law_response(c_.bodies.start, total, b.x.law_response);
  for (std::size_t j = 0; j < total.size(); ++j) change[j] = total[j] + b.x.before_rows[j] - b.x.v[j];
}

void GeneralIslandSolver::push(Island& b, std::span<const double> push) {
  std::copy(push.begin(), push.end(), b.x.dv.begin());
  row_velocities(b.dynamics->assembly(), b.x.dv, b.x.row);
  for (double& e : b.x.row) e = -e;
  for (std::size_t i = 0; i < b.topology.ids.size(); ++i)  // only conditions on poses apply to a split impulse
    if (c_.system.constraint(b.topology.ids[i]).function().level() != Level::position)
      for (int r = b.layout().row[i]; r < b.layout().row[i + 1]; ++r) b.x.row[z(r)] = 0;
  b.dynamics->solver().apply(b.x.row, {}, {}, b.x.dv);
  for (std::size_t j = 0; j < push.size(); ++j) b.x.dv[j] += push[j];
  if (b.has(Trait::laws) && b.step.method == RowMethod::alternating)  // other rows were solved with their response
    b.dynamics->add_law_response(c_.bodies.start, b.x.dv);
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const int column = b.layout().column[slot];
    const Vector3d v = head(b.x.dv, column),
                   w = turns(b.layout(), slot) ? head(b.x.dv, column + 3) : Vector3d(Vector3d::Zero());
    advance(c_.bodies.base[b.layout().bodies[slot]], v, w, c_.dt);
  }
  b.step.poses.pushed = b.step.poses.start_changed = true;
  // Bodies that are displaced along tangents are off the constraints by the square of the displacement. Newton would
  // make a velocity of that error, and redundant rows would disagree by it. A gap that was there before stays.
  if (c_.options.drift_correction && largest(b.dynamics->assembly().position) <= c_.options.gap_tolerance)
    project_positions(c_.system, *b.dynamics, c_.bodies.base, c_.options.newton_tolerance, c_.options.max_newton);
}

void GeneralIslandSolver::prepare_responses(Island& b) { b.rows_by_body.sort(b.dynamics->assembly()); }

void GeneralIslandSolver::respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) {
  const linchpin::ConstraintFactorization& solver = b.dynamics->solver();
  const IslandLayout& layout = b.layout();
  std::size_t at = 0;
  for (const Impulse& impulse : impulses) {
    std::fill(b.x.force.begin(), b.x.force.end(), 0.0);
    for (const Impulse::At& on : impulse.at) {
      if (on.body < 0) continue;
      const int column = layout.column[z(on.body)];
      add(b.x.force, column, on.impulse.head<3>());
      if (turns(layout, z(on.body))) add(b.x.force, column + 3, on.impulse.tail<3>());
    }
    solver.inverse_mass(b.x.force, b.x.dv);
    std::fill(b.x.row.begin(), b.x.row.end(), 0.0);
    b.rows_by_body.subtract_velocities(layout, impulse.at[0].body, b.x.dv, b.x.row);
    if (const int other = impulse.at[1].body; other >= 0 && other != impulse.at[0].body)
      b.rows_by_body.subtract_velocities(layout, other, b.x.dv, b.x.row);
    b.x.change.resize(b.x.dv.size());
    solver.solve_unrefined(b.x.row, {}, {}, b.x.change);  // Newton finds the step's end for any impulses of the rows
    for (std::size_t j = 0; j < b.x.dv.size(); ++j) b.x.dv[j] += b.x.change[j];
    if (b.has(Trait::laws)) b.dynamics->add_law_response(c_.bodies.start, b.x.dv);
    for (const int slot : b.rows.contacted) {
      const int column = layout.column[z(slot)], dof = dof_of(layout, z(slot));
      for (int j = 0; j < 6; ++j) motion[at++] = j < dof ? b.x.dv[z(column + j)] : 0;
    }
  }
}

// ---- the end of the step ----

// The impulses of the host in this step belong to the force from which reactions are computed (T11).
bool GeneralIslandSolver::finish(Island& b, SubstepStates& states) {
  release_friction_modes(b);
  bool forces_are_open = false;
  if (waits_for_rows(b) && b.step.fast_substeps.first_length == 0) {
    for (std::size_t j = 0; j < b.x.Q.size(); ++j) b.x.Q_total[j] = b.x.Q[j] + b.rows.total[j] / c_.dt;
    forces_are_open = stages_find_forces(c_, b);
    if (!forces_are_open && b.dynamics->resolve(c_.bodies.start, b.x.Q_total) == Status::invalid)
      return fail(b, *b.dynamics);
  }
  if (ask_for_rows_with_sliding(b)) return false;
  b.report.is_current = false;
  if (b.has(Trait::user_constraint)) note_time_dependence(c_, b);
  if (c_.options.mode == Mode::passive) {
    update_report(c_, b);
    return true;
  }
  note_activation(b);
  if (!correct_start_gap(b)) return false;
  if (c_.options.stepping != Stepping::semi_implicit) {
    bool done = false;
    if (!try_stages(b, states, forces_are_open, done)) return false;
    if (done) return true;
  }
  return take_semi_implicit(b, states);
}

// An initial gap, or one that the program made by moving bodies, is closed by moving bodies, without a velocity (T12).
// Where the program has moved a joint's frame or limit, the bodies follow with a velocity: the step ends on the
// constraints.
bool GeneralIslandSolver::correct_start_gap(Island& b) {
  if (!c_.options.drift_correction) return true;
  const double tolerance = c_.options.gap_tolerance;
  const double gap = start_gap(c_, b, false), moved = start_gap(c_, b, true), away = find_turned_away(c_, b);
  if (moved > tolerance && gap <= tolerance && away == 0 && c_.options.stepping == Stepping::semi_implicit) {
    b.step.start_gap = StartGap::frames_moved;
    return true;
  }
  if (std::max({gap, moved, away}) > tolerance && !close_start_gap(c_, b)) return fail(b, *b.dynamics);
  return true;
}

bool GeneralIslandSolver::try_stages(Island& b, SubstepStates& states, bool forces_are_open, bool& done) {
  b.step.order_reductions = why_no_stages(c_, b);
  if (!b.step.order_reductions) {
    done = take_step_by_stages(c_, b, states);
    if (done) return true;
    b.step.order_reductions =
        c_.options.stepping == Stepping::adaptive ? "even the shortest substep did not meet Options::tolerance"
        : laws_are_too_stiff(c_, b)               ? "a force law is too stiff for Options::max_substeps substeps"
                                                  : "even the shortest substep failed in the Runge-Kutta method";
    if (b.has(Trait::laws)) b.dynamics->set_step(c_.dt);
    forget_law_works(c_, b);
    ++b.stats.factorizations;
    if (b.dynamics->evaluate(c_.bodies.start, all_forces(b)) == Status::invalid) return fail(b, *b.dynamics);
  } else if (forces_are_open && b.dynamics->resolve(c_.bodies.start, b.x.Q_total) == Status::invalid) {
    return fail(b, *b.dynamics);
  }
  ++b.stats.order_reductions;
  return true;
}

bool GeneralIslandSolver::take_semi_implicit(Island& b, SubstepStates& states) {
  const double before = length_before(c_, b);
  b.step.force_time = 0.5 * (before + c_.dt);
  add_applied(c_, b, 0.5 * (before - c_.dt));
  if (b.step.fast_substeps.first_length > 0) {
    if (take_substeps_without_try(b, states, before)) return true;
    for (std::size_t j = 0; j < b.x.Q.size(); ++j) b.x.Q_total[j] = b.x.Q[j];
    b.dynamics->set_step(b.step.force_time);
    if (b.dynamics->evaluate(c_.bodies.start, b.x.Q_total) == Status::invalid) return fail(b, *b.dynamics);
  } else if (before != c_.dt && !set_law_time(b)) {
    return fail(b, *b.dynamics);
  }
  if (b.history.halvings > 0 && b.step.rows < HostRows::contacts && b.step.start_gap == StartGap::small)
    return redo_in_substeps(b, states, before);
  Acceptance outcome = try_whole_step(b);
  if (outcome == Acceptance::too_long && c_.options.geometric_stiffness && b.step.rows < HostRows::contacts &&
      add_stiffness(c_, b))
    outcome = try_whole_step(b);
  if (outcome == Acceptance::impossible) return fail(b, *b.dynamics);
  if (outcome == Acceptance::too_long) return redo_in_substeps(b, states, before);
  if (c_.options.geometric_stiffness) note_stiffness(c_, b);
  const Assembly& assembly = b.dynamics->assembly();
  const double gain = gain_of_constraints(c_, b, b.step.force_time, b.x.v0, b.x.v);
  b.step.energy = {.start = kinetic_energy(assembly, b.x.v0),
                   .end = kinetic_energy(assembly, b.x.v),
                   .constraint_gain = gain,
                   .explained = explained_gain(c_, b, b.step.force_time, gain, b.x.v0, b.x.v)};
  const bool bounded = bounds_energy(c_, b);
  end_whole_step(c_, b, bounded ? gain : 0, bounded ? work_of(b.rows.total, b.x.v0, b.x.v) : 0);
  return true;
}

// Constraint and law forces act for the same time as the applied forces. Friction that sticks otherwise balances only
// a part of the applied impulse.
bool GeneralIslandSolver::set_law_time(Island& b) {
  if (!b.has(Trait::laws)) return true;
  b.dynamics->set_step(b.step.force_time);
  return b.dynamics->resolve(c_.bodies.start, all_forces(b)) != Status::invalid;
}

bool GeneralIslandSolver::take_substeps_without_try(Island& b, SubstepStates& states, double before) {
  const double length = std::exchange(b.step.fast_substeps.first_length, 0);
  const bool moved = b.step.poses.pushed || b.step.poses.start_changed;
  if (!reports_later(c_, b) || !take_general_substeps(c_, b, states, before, length, !moved)) return false;
  keep_substeps(c_, b);
  return true;
}

bool GeneralIslandSolver::redo_in_substeps(Island& b, SubstepStates& states, double before) {
  if (ask_for_rows_again(c_, b)) return false;
  b.history.extrapolation_steps = 0;
  // Substeps would have to know how far the frame has moved at their ends. A motion that is too fast for one step is
  // therefore a teleport.
  if (b.step.start_gap == StartGap::frames_moved) {
    b.step.start_gap = StartGap::small;
    if (!close_start_gap(c_, b)) return fail(b, *b.dynamics);
  }
  const auto evaluate = [&] {
    ++b.stats.factorizations;
    return b.dynamics->evaluate(c_.bodies.start, all_forces(b)) != Status::invalid;
  };
  if (!b.stiffness.empty()) {
    set_stiffness(c_, b, {});
    if (!evaluate()) return fail(b, *b.dynamics);
  }
  // Substeps overwrite the problem that the reactions are made from.
  if (!reports_later(c_, b)) write_start_reactions(c_, b);
  const double whole = b.step.omega_dt, first = first_substep(c_, whole);
  if (take_general_substeps(c_, b, states, before, first)) {
    if (!reports_later(c_, b)) return true;
    b.history.rejected_ratio = whole > 0 && b.step.omega_dt > 0 ? whole / (b.step.omega_dt * b.step.substeps) : 0;
    keep_substeps(c_, b);
    return true;
  }
  if (!b.step.outcome.over_budget && !b.step.outcome.loose_convergence && !b.dynamics->solver().full_row_rank()) {
    b.step.outcome.loose_convergence = true;
    b.history.loose_until = c_.step + tuning::loose_steps;
    if (evaluate() && take_general_substeps(c_, b, states, before, first)) return true;
  }
  b.step.outcome.no_step_keeps_rows = true;
  if (b.dynamics->failure() == FailureKind::law) return fail(b, *b.dynamics);
  if (b.step.outcome.over_budget)
    return fail(b,
                "the constraint equations are nearly dependent, and the step could not be solved within its time "
                "budget. Remove redundant joints, or give them compliance");
  if (b.step.substeps < c_.options.max_substeps)
    return fail(b, "even substeps of dt/" + std::to_string(std::lround(c_.dt / shortest_substep(c_))) +
                       " could not be solved. A straight chain or bridge under a load has no exact solution: give its "
                       "joints compliance, or some slack");
  return fail(b, "the step needs more than " + std::to_string(c_.options.max_substeps) +
                     " substeps (Options::max_substeps). Use a shorter step");
}

// ---- a step as a whole ----

Acceptance GeneralIslandSolver::try_whole_step(Island& b) {
  WholeStep found = find_whole_velocities(b);
  if (found.is_impossible) return Acceptance::impossible;
  bool good = found.converged;
  if (found.is_re_linearized)
    b.history.extrapolation_steps = 0;
  else if (good)
    b.history.extrapolation.add(b.history.extrapolation_steps, b.x.newton);
  find_multipliers(b, good);
  if (good && !found.is_re_linearized) {
    const double limit = b.stiffness.empty()
                             ? c_.options.max_tension_frequency
                             : std::max(tuning::max_stiffened_omega_dt, c_.options.max_tension_frequency);
    b.step.omega_dt = tension_frequency(c_.system, *b.dynamics, c_.bodies.start, b.x.mean_force, limit / c_.dt) * c_.dt;
    good = !(b.step.omega_dt > limit);
  }
  if (good && c_.options.drift_correction && b.step.start_gap != StartGap::frames_moved) good = is_energy_acceptable(b);
  return good || !c_.options.drift_correction ? Acceptance::accepted : Acceptance::too_long;
}

// Computes v₁ from its parts: start velocity, applied, host, ideal and nonideal impulses, then the impulses that Newton
// adds.
GeneralIslandSolver::WholeStep GeneralIslandSolver::find_whole_velocities(Island& b) {
  const linchpin::ConstraintFactorization& solver = b.dynamics->solver();
  const auto ideal = b.dynamics->ideal(), nonideal = b.dynamics->nonideal();
  start_newton(b);
  for (std::size_t j = 0; j < b.x.v.size(); ++j)
    b.x.dv[j] = b.x.applied[j] + b.rows.total[j] + b.step.force_time * (ideal[j] + nonideal[j]) + b.x.force[j];
  solver.inverse_mass(b.x.dv, b.x.dv);
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.v[j] = b.x.v0[j] + b.x.dv[j];
  WholeStep out{.converged = finite(b.x.v)};
  if (!out.converged || !c_.options.drift_correction) return out;
  State &start = c_.bodies.start, &base = c_.bodies.base, &end = c_.bodies.end;
  GyroscopicTorques& gyroscopic = b.gyroscopics.step;
  const bool on_the_way = b.step.start_gap == StartGap::turned_far;
  std::vector<double>& residual_target = b.sums.residual_target;  // a joint on its way back keeps its residual
  residual_target.clear();
  if (on_the_way) {
    const std::vector<double>& position = b.dynamics->assembly().position;
    residual_target.assign(position.begin(), position.end());
  }
  NewtonReport newton = end_step(c_, b, start, base, end, c_.dt, b.x.v, gyroscopic, residual_target);
  if (!on_the_way && held_by_curvature(c_, b, newton)) {
    gyroscopic.apply(b.layout(), b.x.applied);  // the velocities are computed again from it
    if (!re_linearize_ahead(b)) return {.is_impossible = true};
    out.is_re_linearized = true;
    newton = end_step(c_, b, start, base, end, c_.dt, b.x.v, gyroscopic);
  }
  out.converged = newton.converged && finite(b.x.v) && !gear_turns_too_far(c_, b, end, c_.dt);
  b.step.outcome.contradictory = contradicts(newton, c_.dt, c_.options.gap_tolerance);
  gyroscopic.apply(b.layout(), b.x.applied);
  return out;
}

// The extrapolated multipliers were of least norm at the poses of the last steps. They are made to have least norm at
// this pose (T6), so that neither reports nor breaking depend on the past motion. The dense solver computes multipliers
// from errors only, and starts from none.
void GeneralIslandSolver::start_newton(Island& b) {
  for (auto* x : {&b.x.newton, &b.x.force}) std::fill(x->begin(), x->end(), 0.0);
  if (!c_.options.drift_correction || !extrapolate_newton(c_, b)) return;
  add_transposed(b.dynamics->assembly(), b.x.newton, b.x.force);
  const linchpin::ConstraintFactorization& solver = b.dynamics->solver();
  if (solver.full_row_rank()) return;
  if (solver.info().fallbacks == 0) return solver.minimum_norm_multipliers(b.x.force, b.x.newton);
  for (auto* x : {&b.x.newton, &b.x.force}) std::fill(x->begin(), x->end(), 0.0);
}

// At a singular pose the Jacobian permits a motion that the constraints do not. The problem is linearised again at a
// pose extrapolated ten steps ahead, where it does not. The velocities are projected, and the step is repeated. A
// problem extrapolated only to the end of the step would have huge multipliers, whose geometric stiffness is unstable
// in steps of this length (T15).
bool GeneralIslandSolver::re_linearize_ahead(Island& b) {
  const IslandLayout& layout = b.layout();
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const int column = layout.column[slot];
    const auto ahead = [&](int at) -> Vector3d {
      return head(b.x.v0, at) + tuning::re_linearisation_steps * (head(b.x.v, at) - head(b.x.v0, at));
    };
    advance(c_.bodies.start[layout.bodies[slot]], ahead(column),
            turns(layout, slot) ? ahead(column + 3) : Vector3d(0, 0, 0), c_.dt);
  }
  ++b.stats.factorizations;
  if (b.dynamics->evaluate(c_.bodies.start, all_forces(b)) == Status::invalid) return false;
  const Assembly& assembly = b.dynamics->assembly();
  const linchpin::ConstraintFactorization& solver = b.dynamics->solver();
  for (std::size_t j = 0; j < b.x.v.size(); ++j)
    b.x.dv[j] = b.x.applied[j] + b.rows.total[j] + b.step.force_time * b.dynamics->ideal()[j];
  solver.inverse_mass(b.x.dv, b.x.v);  // without v₀, which the velocities of the rows already contain
  row_velocities(assembly, b.x.v, b.x.row);
  for (std::size_t i = 0; i < b.x.row.size(); ++i) b.x.row[i] = -b.x.row[i] - assembly.velocity[i];
  solver.apply(b.x.row, b.x.newton, b.x.force, b.x.dv);
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.v[j] += b.x.v0[j] + b.x.dv[j];
  return true;
}

// ω of T15 belongs to the force that this step really applies, by multipliers of least norm.
void GeneralIslandSolver::find_multipliers(Island& b, bool accepted) {
  const auto reaction = b.dynamics->lambda(), induced = b.dynamics->induced();
  for (std::size_t i = 0; i < b.x.multipliers.size(); ++i)
    b.x.multipliers[i] = b.step.force_time * (reaction[i] + induced[i]) + b.x.newton[i];
  for (std::size_t i = 0; i < b.x.mean_force.size(); ++i)
    b.x.mean_force[i] = accepted ? b.x.multipliers[i] / b.step.force_time : reaction[i] + induced[i];
}

bool GeneralIslandSolver::is_energy_acceptable(Island& b) {
  double gain = gain_of_constraints(c_, b, b.step.force_time, b.x.v0, b.x.v);
  if (bounds_energy(c_, b))
    gain = std::max(gain, gain + work_of(b.rows.total, b.x.v0, b.x.v) - std::max(b.rows.solved_work, 0.0));
  if (!(gain > 0)) return true;
  const Assembly& assembly = b.dynamics->assembly();
  const double kinetic = std::max(kinetic_energy(assembly, b.x.v0), kinetic_energy(assembly, b.x.v));
  return !(gain > tuning::allowed_gain * kinetic && gain > energy_floor(c_, b) + tuning::allowed_gain * kinetic);
}

NewtonReport end_step(const Context& c, Island& b, const State& evaluated, const State& base, State& end, double h,
                      std::span<double> v, GyroscopicTorques& gyroscopic, std::span<const double> residual_target) {
  const SolverOptions& options = c.options;
  double extent = 0;  // poses far from the origin are no more exact than their own rounding
  for (const BodyId id : b.layout().bodies) extent = std::max(extent, base[id].p.cwiseAbs().maxCoeff());
  const double tolerance = std::max(options.newton_tolerance, linchpin::detail::tuning::pose_rounding * extent);
  NewtonReport report;
  // Where stiffness is in the inertia, the impulses of the torques stay those of free rotation.
  const bool turns = !gyroscopic.empty() && b.stiffness.empty();
  if (turns) gyroscopic.update(b.layout(), v);
  const int rounds = turns ? tuning::max_end_rounds_with_gyroscopic : tuning::max_end_rounds;
  for (int round = 0; round < rounds; ++round) {
    NewtonReport newton = solve_end_of_step(c.system, *b.dynamics, base, end, h, v, b.x.newton, b.x.force, tolerance,
                                            options.max_newton, residual_target);
    // Among rows that depend on each other as nearly as those of a flat net, Newton converges slowly, in short steps as
    // in long ones. A result whose gaps are below the gap tolerance is accepted.
    if (b.step.outcome.loose_convergence && !newton.converged && !b.dynamics->solver().full_row_rank() &&
        std::sqrt(3.0) * newton.residual * h <= options.gap_tolerance)
      newton.converged = newton.least_squares = true;
    const int solves = report.solves + newton.solves;
    report = newton;
    report.solves = solves;
    if (!newton.converged || round + 1 == rounds) break;
    bool changed = turns && gyroscopic.update(b.layout(), v);
    if (b.has(Trait::laws) && round < tuning::max_stick_rounds) {
      double size = 1;
      for (const double x : v) size = std::max(size, std::abs(x));
      changed = b.dynamics->reapply_stick(evaluated, v) > tuning::stick_rounding * size || changed;
    }
    if (!changed) break;
  }
  b.step.newton_solves += report.solves;
  b.stats.newton_solves += report.solves;
  return report;
}

void note_activation(Island& b) {
  const Assembly& assembly = b.dynamics->assembly();
  double error = 0;
  for (const double x : assembly.velocity) error = std::max(error, std::abs(x));
  if (error > linchpin::detail::tuning::activation_factor * b.history.typical_velocity_error &&
      error > linchpin::detail::tuning::activation_rounding * largest(assembly.v)) {
    for (std::size_t i = 0; i < b.x.row.size(); ++i) b.x.row[i] = -assembly.velocity[i];
    b.dynamics->solver().apply(b.x.row, {}, b.x.force, b.x.dv);
    double energy = 0;
    for (std::size_t j = 0; j < b.x.dv.size(); ++j) energy += 0.5 * b.x.force[j] * b.x.dv[j];
    b.stats.activation_energy = std::max(b.stats.activation_energy, energy);
  }
  b.history.typical_velocity_error = error;
}

void note_law_trouble(Island& b) {
  if (b.report.law_trouble.empty()) b.report.law_trouble = b.dynamics->law_report().warning;
}

void note_time_dependence(Context& c, Island& b) {
  using Time = ConstraintEntry::Time;
  const Assembly& a = b.dynamics->assembly();
  row_velocities(a, a.v, b.x.row);
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    ConstraintEntry& r = c.constraints[b.topology.entries[i]];
    if (r.owner != ConstraintEntry::Owner::user) continue;
    if (const auto* const forces = linchpin::detail::force_rows_of(c.system.constraint(r.id))) {
      r.time = forces->is_motor && forces->speed != 0 ? Time::moving : Time::constant;
      continue;
    }
    double own = 0, size = 0;  // |φ_t|, and the contribution of the bodies
    for (int row = a.layout.row[i]; row < a.layout.row[i + 1]; ++row) {
      own = std::max(own, std::abs(a.velocity[z(row)] - b.x.row[z(row)]));
      size = std::max({size, std::abs(a.velocity[z(row)]), std::abs(b.x.row[z(row)])});
    }
    if (own > tuning::time_dependence * size && own > 0)
      r.time = Time::moving;
    else if (r.time == Time::moving)
      r.time = Time::stopped;
  }
}

void forget_law_works(Context& c, Island& b) {
  if (!b.has(Trait::laws)) return;
  b.report.law_trouble.clear();
  b.dynamics->return_to_marked_law_history();
  for (const int i : b.topology.entries)
    for (LawWork& law : c.laws.of(c.constraints[i])) law.last = 0;
}

}  // namespace linchpin::host
