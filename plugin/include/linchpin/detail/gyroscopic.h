// The gyroscopic torque of a rigid body over a step (T2), by the midpoint rule, which conserves its energy. An explicit
// rule gains energy, and implicit Euler loses it.
#pragma once

#include <Eigen/Core>

#include <cstddef>

namespace linchpin::detail {

/// Solves (I + h ([u]× I − [L]×)) x = f for x, in the body's axes. It is a Newton step of I w + h w × I w where w = u
/// and L = I u.
/// @param I  principal moments of inertia [kg·m²]
Eigen::Vector3d solve_gyroscopic(const Eigen::Vector3d& I, const Eigen::Vector3d& u, const Eigen::Vector3d& L, double h,
                                 const Eigen::Vector3d& f);

/// Returns the angular velocity w [rad/s] at the end of a step of h [s]: I (w − given) + h ū × I ū = 0 with ū = ½ (w0 +
/// w). `given` is the angular velocity after the impulses alone. The gyroscopic torque of the mean ū is added to it and
/// does no work. All vectors are in the body's axes at the start. Returns `given` where Newton does not converge, as
/// for a body that turns by many radians in the step.
Eigen::Vector3d turned(const Eigen::Vector3d& I, const Eigen::Vector3d& w0, const Eigen::Vector3d& given, double h);

/// A body that rotates far in a step, with the data that its joints need.
struct Turning {
  std::size_t body = 0;
  int lane = 0;
  double h = 0;
  Eigen::Vector3d I = Eigen::Vector3d::Zero();
  Eigen::Matrix3d R = Eigen::Matrix3d::Identity();
  /// Angular velocity at the start and at the end [rad/s] (W).
  Eigen::Vector3d w0 = Eigen::Vector3d::Zero(), w = Eigen::Vector3d::Zero();
  /// Replaces w by its turned().
  void turn();
};

}  // namespace linchpin::detail
