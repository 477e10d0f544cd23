// The forces of equalities that would have been exact, found a second time: with MuJoCo's own mass matrix and Jacobian
// at the state before a step, MuJoCo's forces of that step, and Eigen's decompositions. The forces that a solver
// reports are compared with them, as generalized forces f in the metric of M⁻¹.
#pragma once

#include "model.h"

#include <linchpin/mujoco.h>

#include <Eigen/Core>

#include <memory>
#include <string>
#include <vector>

namespace linchpin::mujoco_worker {

class Reference {
 public:
  /// @param solver  null: MuJoCo alone solves
  /// @param is_complete  all constraint forces are MuJoCo's or those of equalities
  Reference(Model& model, mujoco::Solver* solver, long steps, bool is_complete);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Call before a step.
  void before(long step);
  /// Call after a step of the statistics. Looks at some 200 steps of a run.
  void after(long step);
  /// force_rms_error_rel, moment_rms_error_rel, impulse_rms_error_rel, force_samples, force_basis, force_note.
  void report(Json& row) const;

 private:
  bool solve();
  Eigen::MatrixXd jacobian_at(double shift);
  Eigen::VectorXd reported();
  void add_wrench(const Wrench& wrench, int body, Eigen::VectorXd& to) const;
  bool is_sample(long step) const { return note_.empty() && step % stride_ == 0; }

  Model& model_;
  mujoco::Solver* solver_;
  mjModel view_;  // with dense Jacobians; the arrays are the model's
  mjData* at_;    // the state before the step
  long stride_ = 1, samples_ = 0;
  std::string note_;    // why there is no dense solution
  std::string remark_;  // on what it leaves out
  std::vector<mjtNum> qpos_, qvel_;
  // Sums of squares: differences of what is reported and of what was applied in the step, and what should be.
  double force_ = 0, impulse_ = 0, size_ = 0, load_ = 0;
};

}  // namespace linchpin::mujoco_worker
