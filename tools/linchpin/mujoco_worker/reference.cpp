#include "reference.h"

#include "versions.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <span>

namespace linchpin::mujoco_worker {

using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int most_velocities = 400;  // of a dense solution that takes no second
constexpr long most_samples = 200;
constexpr double rank_tolerance = 1e-6;

}  // namespace

Reference::Reference(Model& model, mujoco::Solver* solver, long steps, bool is_complete)
    : model_(model),
      solver_(solver),
      view_(model.model()),
      at_(mj_makeData(&model.model())),
      stride_(std::max(1L, steps / most_samples)) {
  view_.opt.jacobian = mjJAC_DENSE;
  const mjModel& m = model.model();
  qpos_.resize(static_cast<std::size_t>(m.nq));
  qvel_.resize(static_cast<std::size_t>(m.nv));
  if (m.nv > most_velocities)
    note_ = "the model has " + std::to_string(m.nv) +
            " velocities, too many for the dense solution that the forces are compared with";
  const bool is_damped = std::any_of(m.dof_damping, m.dof_damping + m.nv, [](mjtNum x) { return x != 0; });
  if (solver && (m.opt.integrator != mjINT_EULER || is_damped))
    remark_ =
        "MuJoCo's integrator is implicit in velocities, and the forces of exact are, too. The dense solution is not";
  if (!is_complete) note_ = "the dense solution has no constraints and laws of the scene";
  if (m.opt.integrator == mjINT_RK4) note_ = "the integrator RK4 leaves the forces of its last stage";
}

Reference::~Reference() { mj_deleteData(at_); }

void Reference::before(long step) {
  if (!is_sample(step)) return;
  std::copy_n(model_.data().qpos, qpos_.size(), qpos_.begin());
  std::copy_n(model_.data().qvel, qvel_.size(), qvel_.begin());
}

void Reference::after(long step) {
  if (is_sample(step) && model_.equalities() > 0 && solve()) ++samples_;
}

// Rows of all constraints, the equalities first, beside the state before the step. @param shift  [s] along the motion
MatrixXd Reference::jacobian_at(double shift) {
  const mjModel& m = model_.model();
  const mjData& d = model_.data();
  std::copy(qpos_.begin(), qpos_.end(), at_->qpos);
  std::copy(qvel_.begin(), qvel_.end(), at_->qvel);
  std::copy_n(d.mocap_pos, 3 * m.nmocap, at_->mocap_pos);
  std::copy_n(d.mocap_quat, 4 * m.nmocap, at_->mocap_quat);
  copy_switches(m, d, *at_);
  if (shift != 0) mj_integratePos(&m, at_->qpos, at_->qvel, shift);
  mj_fwdPosition(&view_, at_);
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return RowMajor::Map(at_->efc_J, at_->nefc, m.nv);
}

void Reference::add_wrench(const Wrench& wrench, int body, VectorXd& to) const {
  if (body > 0)
    mj_applyFT(&model_.model(), at_, wrench.force.data(), wrench.moment.data(), wrench.point.data(), body, to.data());
}

// The generalized force of the reactions of linchpin, which belong to the state before the step.
VectorXd Reference::reported() {
  const mjModel& m = model_.model();
  VectorXd out = VectorXd::Zero(m.nv);
  const std::span<const Reaction> reactions = solver_->reactions();
  for (std::size_t i = 0; i < model_.equalities(); ++i) {
    const Link& link = model_.links()[i];
    const Reaction& r = reactions[i];
    if (m.eq_type[i] == mjEQ_CONNECT || m.eq_type[i] == mjEQ_WELD) {
      add_wrench(r.on(0), link.bodies[0], out);
      add_wrench(r.on(1), link.bodies[1], out);
      continue;
    }
    for (int row = 0; row < at_->nefc && !r.lambda.empty(); ++row)
      if (at_->efc_type[row] == mjCNSTR_EQUALITY && at_->efc_id[row] == link.index)
        out += r.lambda[0] * VectorXd::Map(at_->efc_J + static_cast<std::ptrdiff_t>(row) * m.nv, m.nv);
  }
  return out;
}

bool Reference::solve() {
  const mjModel& m = model_.model();
  const mjData& d = model_.data();
  constexpr double shift = 1e-5;
  const auto rows_of_equalities = [&] {
    int n = 0;
    while (n < at_->nefc && at_->efc_type[n] == mjCNSTR_EQUALITY) ++n;
    return n;
  };
  const MatrixXd later = jacobian_at(shift);
  const int rows = rows_of_equalities();
  const MatrixXd earlier = jacobian_at(-shift);
  if (rows_of_equalities() != rows || rows == 0) return false;
  const MatrixXd J = jacobian_at(0);
  // The step is of other rows where it began with a correction of positions.
  if (J.rows() != d.nefc || !std::equal(at_->efc_type, at_->efc_type + d.nefc, d.efc_type)) return false;
  const MatrixXd A = J.topRows(rows);
  const VectorXd v = VectorXd::Map(qvel_.data(), m.nv);
  const VectorXd b = -(later.topRows(rows) - earlier.topRows(rows)) * v / (2 * shift);
  const VectorXd efc = VectorXd::Map(d.efc_force, d.nefc);
  VectorXd Q = VectorXd::Map(d.qfrc_smooth, m.nv);
  Q += J.bottomRows(J.rows() - rows).transpose() * efc.tail(J.rows() - rows);
  MatrixXd M(m.nv, m.nv);
  for (int i = 0; i < m.nv; ++i) {
    const VectorXd unit = VectorXd::Unit(m.nv, i);
    mj_mulM(&m, at_, M.col(i).data(), unit.data());
  }
  const Eigen::LLT<MatrixXd> cholesky(M);
  if (cholesky.info() != Eigen::Success) return false;
  // B = A L⁻ᵀ with M = L Lᵀ: the least y with B y = b − A M⁻¹ Q, and f = L y.
  MatrixXd B = cholesky.matrixL().solve(A.transpose()).transpose();
  VectorXd r = b - A * cholesky.solve(Q);
  for (int i = 0; i < rows; ++i) {
    const double length = B.row(i).norm();
    if (!(length > 0)) continue;
    B.row(i) /= length;
    r[i] /= length;
  }
  Eigen::CompleteOrthogonalDecomposition<MatrixXd> decomposition;
  decomposition.setThreshold(rank_tolerance);
  decomposition.compute(B);
  const VectorXd should = decomposition.solve(r);
  const VectorXd applied = A.transpose() * efc.head(rows);
  const auto in_metric = [&](const VectorXd& f) { return VectorXd(cholesky.matrixL().solve(f)); };
  force_ += (in_metric(solver_ ? reported() : applied) - should).squaredNorm();
  impulse_ += (in_metric(applied) - should).squaredNorm();
  size_ += should.squaredNorm();
  load_ += in_metric(Q).squaredNorm();
  return true;
}

void Reference::report(Json& row) const {
  const auto relative = [&](double difference) {
    if (samples_ == 0) return Json();
    if (difference == 0) return Json(0.0);
    const double value = std::sqrt(difference / size_);
    return size_ > 1e-12 * load_ && std::isfinite(value) ? Json(value) : Json();
  };
  row["force_rms_error_rel"] = relative(force_);
  row["moment_rms_error_rel"] = nullptr;
  row["impulse_rms_error_rel"] = relative(impulse_);
  row["force_samples"] = samples_;
  row["force_basis"] = "coordinates";
  const bool idle = samples_ > 0 && row["force_rms_error_rel"].is_null();
  row["force_note"] = !note_.empty() ? Json(note_)
                      : idle         ? Json("all forces of equalities are 0, so there is no relative error")
                      : samples_ > 0 && !remark_.empty() ? Json(remark_)
                                                         : Json();
}

}  // namespace linchpin::mujoco_worker
