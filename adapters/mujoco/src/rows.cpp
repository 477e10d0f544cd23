// MuJoCo's own rows: contacts, limits, friction losses and soft equalities, on the mechanism as exact constraints let
// it move.
//
// MuJoCo minimises ½ |a − a₀|² in the metric of M, plus a cost of J a. Its solver gets the Jacobian J P, in which P
// takes out what the exact constraints take of a motion, and for a₀ the acceleration that meets them. Whatever it finds
// is then a solution on the constrained mechanism, in one solve. The rows of exact equalities become zero.
//
// Forces of laws belong to a₀. They depend on the forces of the rows, as those of a joint that sticks do on a contact
// that it carries. So the two are found in turn until they agree.
#include "model_binding.h"
#include "versions.h"

#include <algorithm>
#include <utility>

namespace linchpin::mujoco {

/// Separates the rows of exact equalities from all others. @return whether there are others
bool ModelBinding::find_rows() {
  exact_rows_.clear();
  other_rows_.clear();
  for (int i = 0; i < d_.nefc; ++i) {
    const bool exact = d_.efc_type[i] == mjCNSTR_EQUALITY && z(d_.efc_id[i]) < equalities_.size() &&
                       equalities_[z(d_.efc_id[i])].why_native.empty() &&
                       tree_solver_.holds(equalities_[z(d_.efc_id[i])].entry);
    (exact ? exact_rows_ : other_rows_).push_back(i);
  }
  return !other_rows_.empty();
}

/// Lets MuJoCo solve its rows, and adds what they do to the velocities.
/// @param holds  something is held exactly
void ModelBinding::solve_rows(bool holds) {
  std::fill(row_wrenches_.begin(), row_wrenches_.end(), Wrench{});
  if (d_.nefc > 0) std::fill_n(d_.efc_force, d_.nefc, 0.0);
  if (other_rows_.empty()) return;
  const std::size_t nv = z(m_.nv), size = z(d_.nefc) * nv;
  saved_jacobian_.assign(d_.efc_J, d_.efc_J + size);
  saved_reference_.assign(d_.efc_aref, d_.efc_aref + d_.nefc);
  std::copy_n(d_.qfrc_smooth, nv, saved_smooth_.begin());
  std::copy_n(d_.qacc_smooth, nv, saved_qacc_.begin());
  last_forces_.assign(z(d_.nefc), 0);
  if (holds) project_rows_of_model();
  do {
    if (holds) begin_rows_of_model();
    mj_fwdConstraint(shown_, &d_);
    std::copy(saved_smooth_.begin(), saved_smooth_.end(), d_.qfrc_smooth);  // the integrator starts from these
    add_row_impulses();
  } while (holds && tree_solver_.improve_law_forces());
  tree_solver_.project_rows();
  std::copy(saved_jacobian_.begin(), saved_jacobian_.end(), d_.efc_J);
  std::copy(saved_reference_.begin(), saved_reference_.end(), d_.efc_aref);
  std::copy(saved_qacc_.begin(), saved_qacc_.end(), d_.qacc_smooth);
}

/// Projects the Jacobian of the rows onto the exact constraints.
void ModelBinding::project_rows_of_model() {
  const std::size_t nv = z(m_.nv), length = z(model_trees_.velocities());
  const int count = tree_solver_.constraint_jacobian(tree_rows_);
  rows_.assign(z(count) * nv, 0);
  for (std::size_t r = 0; r < z(count); ++r)
    for (int i = 0; i < model_trees_.size(); ++i)
      model_trees_.forces_to_mujoco(
          i, d_.qpos, model_trees_.part_of(i, std::span<const double>(tree_rows_).subspan(r * length, length)),
          std::span(rows_).subspan(r * nv, nv));
  projection_.begin(view_, d_, rows_, count);
  for (const int row : other_rows_) projection_.project({d_.efc_J + z(row) * nv, nv});
  for (const int row : exact_rows_) std::fill_n(d_.efc_J + z(row) * nv, nv, 0.0);
  mj_projectConstraint(&view_, &d_);
  gather_velocities(target_);
  for (std::size_t k = 0; k < nv; ++k) target_[k] = (target_[k] - d_.qvel[k]) / m_.opt.timestep;
}

/// Gives MuJoCo the acceleration a₀ that meets the constraints without its rows.
void ModelBinding::begin_rows_of_model() {
  const std::size_t nv = z(m_.nv);
  const std::span<double> start(d_.qacc_smooth, nv);
  std::fill(nv_.begin(), nv_.end(), 0.0);
  for (int i = 0; i < model_trees_.size(); ++i) {
    velocity_scratch_.resize(z(6 + model_trees_[i].model.rates));
    tree_solver_.law_forces(i, velocity_scratch_);
    model_trees_.forces_to_mujoco(i, d_.qpos, velocity_scratch_, nv_);
  }
  for (std::size_t k = 0; k < nv; ++k) nv_[k] += saved_smooth_[k];
  mj_solveM(&view_, &d_, start.data(), nv_.data(), 1);
  projection_.constrain(start, target_);
  mj_mulM(&view_, &d_, d_.qfrc_smooth, start.data());
  for (const int row : other_rows_) {
    const double *const projected = d_.efc_J + z(row) * nv, *const whole = saved_jacobian_.data() + z(row) * nv;
    d_.efc_aref[row] = saved_reference_[z(row)];
    for (std::size_t k = 0; k < nv; ++k) d_.efc_aref[row] -= (whole[k] - projected[k]) * start[k];
  }
  for (const int row : exact_rows_) d_.efc_aref[row] = 0;
}

/// Adds the impulses of MuJoCo's rows, beyond those that were added before, to the reports by kind, and their effect to
/// the velocities.
void ModelBinding::add_row_impulses() {
  const std::size_t nv = z(m_.nv);
  const double h = m_.opt.timestep;
  std::array<std::vector<double>*, 3> kinds{&contact_forces_, &friction_forces_, &joint_forces_};
  for (auto* x : kinds) x->assign(nv, 0);
  const auto add = [&](std::vector<double>& to, int row, double factor) {
    for (std::size_t k = 0; k < nv; ++k) to[k] += factor * saved_jacobian_[z(row) * nv + k];
  };
  for (std::size_t r = 0; r < other_rows_.size(); ++r) {
    const int row = other_rows_[r];
    const double f = d_.efc_force[row] - std::exchange(last_forces_[z(row)], d_.efc_force[row]);
    switch (d_.efc_type[row]) {
      case mjCNSTR_CONTACT_FRICTIONLESS:
        add(contact_forces_, row, f);
        break;
      case mjCNSTR_CONTACT_ELLIPTIC:
        add(d_.contact[d_.efc_id[row]].efc_address == row ? contact_forces_ : friction_forces_, row, f);
        break;
      case mjCNSTR_CONTACT_PYRAMIDAL: {  // two neighbours are normal ± friction
        const int first = d_.contact[d_.efc_id[row]].efc_address, pair = (row - first) % 2 == 0 ? row + 1 : row - 1;
        add(contact_forces_, row, 0.5 * f);
        add(contact_forces_, pair, 0.5 * f);
        add(friction_forces_, row, 0.5 * f);
        add(friction_forces_, pair, -0.5 * f);
        break;
      }
      default:
        add(joint_forces_, row, f);
    }
  }
  for (std::size_t k = 0; k < nv; ++k) row_forces_[k] = contact_forces_[k] + friction_forces_[k] + joint_forces_[k];
  if (!damping_is_diagonal_) {
    const std::span<const double> v = integrate(row_forces_);
    for (std::size_t k = 0; k < nv; ++k) nv_[k] = v[k] - free_[k];
    add_implicit_response();
  }
  find_row_wrenches();
  for (int i = 0; i < model_trees_.size(); ++i) {
    std::vector<double>& u = velocity_scratch_;
    u.resize(z(6 + model_trees_[i].model.rates));
    if (!damping_is_diagonal_) {
      model_trees_.to_core(i, d_.qpos, nv_, u);
    } else {
      model_trees_.forces_to_core(i, d_.qpos, row_forces_, u);
      tree_solver_.inverse_mass(i, u);
      for (double& x : u) x *= h;
    }
    add_velocity(i, u);
    articulated::RowImpulses* const on = tree_solver_.rows_on(i);
    if (!on) continue;
    for (const std::size_t kind : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
      model_trees_.forces_to_core(i, d_.qpos, *kinds[kind], u);
      std::vector<double>& to = kind == 0 ? on->contact : kind == 1 ? on->friction : on->joint;
      for (std::size_t k = 0; k < u.size(); ++k) to[k] += h * u[k];
    }
  }
}

/// Adds to the forces along joints what the integrator adds, beside the damping of the trees, to the response nv_ of
/// the velocities to the rows.
void ModelBinding::add_implicit_response() {
  const double h = m_.opt.timestep;
  mj_mulM(&view_, &d_, nv2_.data(), nv_.data());
  for (std::size_t k = 0; k < nv_.size(); ++k) {
    const double more = (nv2_[k] + damping_[k] * nv_[k]) / h - row_forces_[k];
    joint_forces_[k] += more;
    implicit_forces_[k] += more;
  }
}

}  // namespace linchpin::mujoco
