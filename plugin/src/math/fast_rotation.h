// The effect of the gyroscopic torque on a rigid body over a step (T2), by the midpoint rule, which keeps the energy.
// An explicit rule gains energy, and implicit Euler loses it.
#pragma once

#include <Eigen/Core>

#include <cstddef>

namespace linchpin::detail {

/// Returns the angular velocity [rad/s] at the end of a step of h [s]: w of I (w − given) + h ū × I ū = 0 with
/// ū = ½ (w0 + w). Impulses alone would make it `given`. The gyroscopic torque is that of the mean ū, and does no work.
/// All vectors are in the axes of the body at the start. Returns `given` where Newton does not find w, as for a body
/// that turns by many radians.
Eigen::Vector3d end_angular_velocity(const Eigen::Vector3d& I, const Eigen::Vector3d& w0, const Eigen::Vector3d& given,
                                     double h);

/// A body that turns so far in a step that its gyroscopic torque depends on the velocity at the end.
struct FastRotatingBody {
  std::size_t body = 0;
  int lane = 0;
  double h = 0;
  Eigen::Vector3d I = Eigen::Vector3d::Zero();
  Eigen::Matrix3d R = Eigen::Matrix3d::Identity();
  Eigen::Vector3d w0 = Eigen::Vector3d::Zero(), w = Eigen::Vector3d::Zero();  ///< (W)
  /// Replaces w, which impulses alone would make, by end_angular_velocity() of it.
  void add_gyroscopic_torque();
};

}  // namespace linchpin::detail
