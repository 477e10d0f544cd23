// Compares the host's own solver with the exact one: beside it in every step (shadow mode), or in charge and only
// measured (Mode::passive). An adapter runs the host's solver and hands over what it would have done.
#pragma once

#include <linchpin/export.h>
#include <linchpin/host.h>

#include <string>
#include <vector>

namespace linchpin::host {

/// The answer of the host's solver from the same state, one per constraint, as reactions() orders them. A plain value.
struct NativeComparison {
  std::string name;                    ///< name of the constraint
  Vector3d force = Vector3d::Zero();   ///< the host's force on the first body, mean over the step [N]
  Vector3d moment = Vector3d::Zero();  ///< about the reaction's point on the first body [N·m]
  double force_difference = 0;         ///< |the host's − exact force on the first body| [N]
  double velocity_difference = 0;      ///< largest |Δv| of its bodies, the host's against exact end velocity [m/s]
};

/// Collects what the host's solver would have done in a step, and compares it with the exact solution.
///
/// It keeps a reference to the solver, which must outlive it, and owns its results. It calls no function of the program
/// and serves the thread of the solver.
class LINCHPIN_API Comparison {
 public:
  /// Compares with the steps of this solver, which is kept by reference.
  explicit Comparison(ConstraintSolver& solver) : solver_(solver) {}

  /// Sets the wrench of the host at a constraint, on its first body and about its centre of mass.
  void set_wrench(int entry, const Vector3d& force, const Vector3d& moment);
  /// The velocities with which the host would have ended the step.
  void set_velocity(BodyId id, const Vector3d& v, const Vector3d& w);
  /// After the step: compares the answers.
  void compare();
  /// One comparison for each reaction of the solver. The first call after constraints have changed renews the list.
  /// Valid until then.
  const std::vector<NativeComparison>& all();
  /// Computes the pose to which the host would have moved a body in this step. The difference is enlarged by `scale`.
  /// @param now  the state of the body after the step @return whether the pose is finite
  bool native_pose(BodyId id, const BodyState& now, double scale, Pose& out) const;

 private:
  struct Velocity {
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
  };
  Velocity velocity(BodyId id) const;
  void compare(const ConstraintEntry& r, const Constraint& constraint, NativeComparison& s);

  ConstraintSolver& solver_;
  std::vector<NativeComparison> all_;  // as reactions()
  std::vector<Velocity> velocities_;   // by id of body
};

}  // namespace linchpin::host
