// A Newton step of the gyroscopic torque on a rigid body (T2). This header is not for direct use.
#pragma once

#include <linchpin/export.h>

#include <Eigen/Core>

namespace linchpin::detail {

/// Returns x of (I + h ([u]× I − [L]×)) x = f, in the axes of the body. It is a Newton step of I w + h w × I w where w
/// = u and L = I u.
/// @param I  principal moments of inertia [kg·m²]
LINCHPIN_API Eigen::Vector3d solve_gyroscopic(const Eigen::Vector3d& I, const Eigen::Vector3d& u,
                                              const Eigen::Vector3d& L, double h, const Eigen::Vector3d& f);

}  // namespace linchpin::detail
