// The step: MuJoCo's phases, with the exact constraints between its own constraint solve and its integrator.
//
// An error handler of MuJoCo may leave a step by longjmp, as that of the Python package does. So no object with a
// destructor exists in these functions while MuJoCo runs, and a step begins by forgetting one that was left.
#include "model_binding.h"
#include "versions.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::mujoco {

void ModelBinding::step() {
  demand_supported();
  if (!follow_program()) {
    if (std::exchange(has_forces_, false)) forget_forces();
    was_native_ = true;
    mj_step(&m_, &d_);
    solver_.set_t(d_.time);
    return;
  }
  show_model();
  solver_.set_t(d_.time);
  mj_step1(shown_, &d_);
  forward();
  solve_step();
  if (mj_isSparse(&m_)) restore_sparse_rows();
  advance();
  if (shown_ == &m_) restore_options(m_, options_of_program_);
  solver_.end_step({.dt = m_.opt.timestep});
}

void ModelBinding::correct_forward() {
  end_corrected_step();
  demand_supported();
  if (m_.opt.integrator != mjINT_EULER)
    throw OrderError(
        "linchpin: in a plugin of MuJoCo only the integrator Euler is supported. Use it, or Solver::step()");
  if (mj_isSparse(&m_))
    throw OrderError("linchpin: in a plugin of MuJoCo the Jacobian must be dense: <option jacobian=\"dense\"/>");
  if (!follow_program()) return;
  copy_model();
  shown_ = &view_;
  solver_.set_t(d_.time);
  set_damping();
  find_forces_on_bodies();
  solve_step();
  end_of_corrected_ = d_.time + m_.opt.timestep;
}

/// Clears the reports of forces that no longer act, where the last exact constraint was switched off.
void ModelBinding::forget_forces() {
  solver_.begin_step();
  tree_solver_.begin_step(m_.opt.timestep);
  solver_.end_step({.dt = 0});
}

/// Takes over what the program has changed since the last step. @return whether a constraint may be exact
bool ModelBinding::follow_program() {
  follow_model();
  is_stepping_ = false;
  switch_equalities();
  return has_exact();
}

/// MuJoCo has integrated the step that was corrected, unless the program called mj_forward() alone.
void ModelBinding::end_corrected_step() {
  const double end = std::exchange(end_of_corrected_, -1);
  if (end >= 0 && std::abs(d_.time - end) <= 0.01 * m_.opt.timestep) solver_.end_step({.dt = m_.opt.timestep});
}

/// Solves the step from the smooth forces to the acceleration, the forces of constraints and the sensors.
void ModelBinding::solve_step() {
  was_native_ = false;
  has_forces_ = true;
  solver_.begin_step();
  was_moved_ = false;
  const bool holds = tree_solver_.begin_step(m_.opt.timestep);
  if (was_moved_) {
    mj_fwdPosition(shown_, &d_);
    mj_sensorPos(shown_, &d_);
    mj_fwdVelocity(shown_, &d_);
    mj_sensorVel(shown_, &d_);
    forward();
  }
  begin_velocities();
  const bool has_rows = find_rows();
  tree_solver_.begin_rows(has_rows, articulated::RowSolve::at_once);
  solve_rows(holds);
  tree_solver_.finish();
  write_result();
  read_sensors();
}

/// Makes the copy of the model for the step. It has other options.
void ModelBinding::copy_model() {
  view_ = m_;
  keep_rows_dense_and_together(view_);
}

/// Selects the model that MuJoCo's phases of the step get: the copy. Callbacks of the program, such as mjcb_control,
/// must get the program's own model, which then has these options until the end of the step.
void ModelBinding::show_model() {
  const bool has_callbacks = mjcb_passive || mjcb_control || mjcb_contactfilter || mjcb_sensor || mjcb_act_dyn ||
                             mjcb_act_gain || mjcb_act_bias;
  copy_model();
  shown_ = has_callbacks ? &m_ : &view_;
  if (!has_callbacks) return;
  options_of_program_ = m_.opt;
  keep_rows_dense_and_together(m_);
}

void ModelBinding::demand_supported() const {
  if (const char* const why = mujoco::why_unsupported(m_)) throw OrderError(std::string("linchpin: ") + why);
  if (!std::equal(inertial_frames_.begin(), inertial_frames_.begin() + 3 * m_.nbody, m_.body_ipos) ||
      !std::equal(inertial_frames_.begin() + 3 * m_.nbody, inertial_frames_.end(), m_.body_iquat))
    throw OrderError(
        "linchpin: the program has changed body_ipos or body_iquat of the model. Constraints are given in these "
        "frames: make another Solver");
}

/// Makes the rows sparse again for a model that has them so, with the forces that they have got.
void ModelBinding::restore_sparse_rows() {
  saved_forces_.assign(d_.efc_force, d_.efc_force + d_.nefc);
  const int rows = d_.nefc;
  mj_makeConstraint(&m_, &d_);
  mj_referenceConstraint(&m_, &d_);
  if (d_.nefc == rows) std::copy(saved_forces_.begin(), saved_forces_.end(), d_.efc_force);
}

/// Returns whether a constraint may be exact in this step.
bool ModelBinding::has_exact() const {
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const host::ConstraintEntry& r = solver_.entry(i);
    if (r.alive && r.enabled && r.host_part.empty() && (r.owner != Owner::multibody_joint || !r.laws.empty()))
      return true;
  }
  return false;
}

/// Finds the forces at the present state.
void ModelBinding::forward() {
  mj_fwdActuation(shown_, &d_);
  mj_fwdAcceleration(shown_, &d_);
  set_damping();
  find_forces_on_bodies();
}

/// Velocities to which MuJoCo's integrator goes by the smooth forces and these forces of constraints. Everything else
/// of the data stays as it is. Valid until the next call.
std::span<const double> ModelBinding::integrate(std::span<const double> qfrc_constraint) {
  mjModel view = view_;
  leave_out_other_states(view);
  const std::size_t nv = z(m_.nv);
  const mjtNum time = d_.time;
  std::copy_n(d_.qpos, m_.nq, saved_qpos_.begin());
  std::copy_n(d_.qvel, nv, saved_qvel_.begin());
  std::copy_n(d_.qacc_warmstart, nv, saved_warmstart_.begin());
  std::copy(qfrc_constraint.begin(), qfrc_constraint.end(), d_.qfrc_constraint);
  for (std::size_t i = 0; i < nv; ++i) nv2_[i] = d_.qfrc_smooth[i] + qfrc_constraint[i];
  mj_solveM(&view, &d_, d_.qacc, nv2_.data(), 1);
  if (m_.opt.integrator == mjINT_EULER)
    mj_Euler(&view, &d_);
  else
    mj_implicit(&view, &d_);
  std::copy_n(d_.qvel, nv, nv2_.begin());
  d_.time = time;
  std::copy(saved_qpos_.begin(), saved_qpos_.end(), d_.qpos);
  std::copy(saved_qvel_.begin(), saved_qvel_.end(), d_.qvel);
  std::copy(saved_warmstart_.begin(), saved_warmstart_.end(), d_.qacc_warmstart);
  return nv2_;
}

/// Finds the velocities to which MuJoCo's integrator goes by the smooth forces alone.
void ModelBinding::find_free_velocities() {
  std::fill(nv_.begin(), nv_.end(), 0.0);
  const std::span<const double> v = integrate(nv_);
  std::copy(v.begin(), v.end(), free_.begin());
}

/// Gives the trees what the integrator adds to the diagonal of M. An implicit integrator adds more beside the diagonal:
/// this part counts as a force, by the acceleration without constraints.
void ModelBinding::set_damping() {
  const double h = m_.opt.timestep;
  std::fill(implicit_forces_.begin(), implicit_forces_.end(), 0.0);
  damping_is_diagonal_ = m_.opt.integrator == mjINT_EULER;
  if (damping_is_diagonal_) {
    for (int i = 0; i < m_.nv; ++i) damping_[z(i)] = h * euler_damping(m_, d_, i);
  } else {
    find_free_velocities();
    const auto [rownnz, rowadr, colind] = derivative_pattern(m_, d_);
    for (int i = 0; i < m_.nv; ++i)
      for (int k = rowadr[i]; k < rowadr[i] + rownnz[i]; ++k)
        if (colind[k] == i) damping_[z(i)] = model_trees_.is_of_joint(i) ? std::max(0.0, -h * d_.qDeriv[k]) : 0;
  }
  even_damping_of_balls();
  if (!damping_is_diagonal_) {
    if (m_.opt.integrator == mjINT_EULER) find_free_velocities();
    for (int i = 0; i < m_.nv; ++i) nv_[z(i)] = (free_[z(i)] - d_.qvel[i]) / h;
    mj_mulM(&view_, &d_, implicit_forces_.data(), nv_.data());
    for (int i = 0; i < m_.nv; ++i) implicit_forces_[z(i)] += damping_[z(i)] * nv_[z(i)] - d_.qfrc_smooth[i];
  }
  model_trees_.set_damping_inertia(damping_);
}

/// The rates of a ball joint in a tree have other axes than those of MuJoCo, so that only equal numbers are a diagonal
/// in both.
void ModelBinding::even_damping_of_balls() {
  for (int j = 0; j < m_.njnt; ++j) {
    if (m_.jnt_type[j] != mjJNT_BALL) continue;
    double* const of = damping_.data() + m_.jnt_dofadr[j];
    const auto [least, most] = std::minmax({of[0], of[1], of[2]});
    if (least == most) continue;
    damping_is_diagonal_ = false;
    std::fill_n(of, 3, least);
  }
}

/// Sets the velocities to those to which the forces alone lead.
void ModelBinding::begin_velocities() {
  is_stepping_ = true;
  std::fill(change_.begin(), change_.end(), 0.0);
  const std::span<const double> qvel(d_.qvel, z(m_.nv));
  for (int i = 0; i < model_trees_.size(); ++i) {
    const std::span<double> to = model_trees_.part_of(i, std::span(host_));
    if (!damping_is_diagonal_) {
      model_trees_.to_core(i, d_.qpos, free_, to);
      continue;
    }
    model_trees_.to_core(i, d_.qpos, qvel, to);
    std::vector<double>& a = velocity_scratch_;
    a.resize(to.size());
    tree_solver_.free_acceleration(i, a);
    for (std::size_t k = 0; k < to.size(); ++k) to[k] += m_.opt.timestep * a[k];
  }
}

/// The velocities of all trees now, in MuJoCo's coordinates.
void ModelBinding::gather_velocities(std::vector<double>& qvel) const {
  std::vector<double>& u = velocity_scratch_;
  for (int i = 0; i < model_trees_.size(); ++i) {
    const auto now = model_trees_.part_of(i, std::span(host_)), change = model_trees_.part_of(i, std::span(change_));
    u.resize(now.size());
    for (std::size_t k = 0; k < u.size(); ++k) u[k] = now[k] + change[k];
    model_trees_.to_mujoco(i, d_.qpos, u, qvel);
  }
}

/// Writes the acceleration of the step and all forces of constraints into MuJoCo's arrays.
void ModelBinding::write_result() {
  is_stepping_ = false;
  const double h = m_.opt.timestep;
  gather_velocities(nv_);
  for (int i = 0; i < m_.nv; ++i) d_.qacc[i] = (nv_[z(i)] - d_.qvel[i]) / h;
  mj_mulM(&view_, &d_, d_.qfrc_constraint, d_.qacc);
  for (int i = 0; i < m_.nv; ++i)
    d_.qfrc_constraint[i] += damping_[z(i)] * d_.qacc[i] - d_.qfrc_smooth[i] - implicit_forces_[z(i)];
  fill_equality_forces();
}

// ---- sensors ----

/// Adds the mean wrenches of the program's own constraints to the external forces.
void ModelBinding::add_own_wrenches() {
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const host::ConstraintEntry& r = solver_.entry(i);
    if (!r.alive || r.owner != Owner::user_on_links || !tree_solver_.holds(i)) continue;
    const auto ids = r.deferred->bodies();
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const int body = body_of_id(ids[k]);
      if (body < 0) continue;
      const Wrench on = tree_solver_.mean_wrench(i, static_cast<int>(k));
      for (int c = 0; c < 3; ++c) {
        d_.xfrc_applied[6 * body + c] += on.force[c];
        d_.xfrc_applied[6 * body + 3 + c] += on.moment[c];
      }
    }
  }
}

void ModelBinding::read_sensors() {
  saved_applied_.assign(d_.xfrc_applied, d_.xfrc_applied + 6 * m_.nbody);
  add_own_wrenches();
  forget_forces_of_sensors(d_);
  mj_sensorAcc(shown_, &d_);
  std::copy(saved_applied_.begin(), saved_applied_.end(), d_.xfrc_applied);
}

// ---- the end ----

void ModelBinding::advance() {
  mj_checkAcc(shown_, &d_);
  mjModel view = m_;
  integrate_acceleration_as_it_is(view, no_damping_.data());
  mj_Euler(&view, &d_);
}

}  // namespace linchpin::mujoco
