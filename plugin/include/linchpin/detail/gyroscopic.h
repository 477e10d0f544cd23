// What a rigid body's own spin does to it in a step (T2), by the midpoint rule, which keeps its energy. An explicit one
// gains it, implicit Euler loses it.
#pragma once

#include <Eigen/Core>

#include <cstddef>

namespace linchpin::detail {

/// x of (I + h ([u]× I − [L]×)) x = f, in the body's axes: a Newton step of I w + h w × I w where w = u and L = I u.
/// @param I  principal moments of inertia [kg·m²]
Eigen::Vector3d solve_gyroscopic(const Eigen::Vector3d& I, const Eigen::Vector3d& u, const Eigen::Vector3d& L, double h,
                                 const Eigen::Vector3d& f);

/// The angular velocity [rad/s] at the end of a step of h [s], w of I (w − given) + h ū × I ū = 0 with ū = ½ (w0 + w):
/// what impulses, which alone would make it `given`, and the gyroscopic torque of its mean make of w0. That torque does
/// no work in it. All in the body's axes at the start. `given` itself where Newton does not find it, as of a body that
/// turns by many radians: it turns on at its rate.
Eigen::Vector3d turned(const Eigen::Vector3d& I, const Eigen::Vector3d& w0, const Eigen::Vector3d& given, double h);

/// A body that turns far in a step, as the joints that pull at it have to know.
struct Turning {
  std::size_t body = 0;
  int lane = 0;
  double h = 0;
  Eigen::Vector3d I = Eigen::Vector3d::Zero();
  Eigen::Matrix3d R = Eigen::Matrix3d::Identity();
  Eigen::Vector3d w0 = Eigen::Vector3d::Zero(), w = Eigen::Vector3d::Zero();  ///< (W)
  /// w ← turned() of it.
  void turn();
};

}  // namespace linchpin::detail
