// The effect of the gyroscopic torque on a rigid body over a step (T2), by the implicit midpoint rule. The torque does
// no work by this rule. An explicit rule gains energy, and implicit Euler loses it.
#pragma once

#include <Eigen/Core>

namespace linchpin::detail {

/// Returns the change of the angular velocity [rad/s] by the gyroscopic torque in a step of h [s]: x of I x + h ū × I ū
/// = 0 with ū = ½ (w0 + given + x). Without the torque the angular velocity would go from w0 to `given`. All vectors
/// are in the principal axes of the body at the start, in which I has the moments of inertia [kg·m²]. Returns zero
/// where Newton does not find x, as for a body that turns by many radians.
Eigen::Vector3d gyroscopic_change(const Eigen::Vector3d& I, const Eigen::Vector3d& w0, const Eigen::Vector3d& given,
                                  double h);

}  // namespace linchpin::detail
