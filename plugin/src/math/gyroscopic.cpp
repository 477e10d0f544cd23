// The effect of the gyroscopic torque on a rigid body over a step.
#include "math/fast_rotation.h"
#include "math/gyroscopic_newton.h"

#include <linchpin/detail/gyroscopic.h>

#include <Eigen/Geometry>

namespace linchpin::detail {

using Eigen::Vector3d;

Vector3d solve_gyroscopic(const Vector3d& I, const Vector3d& u, const Vector3d& L, double h, const Vector3d& f) {
  const auto of = [](const Vector3d& x) { return Vector3<double>{x.x(), x.y(), x.z()}; };
  const Vector3<double> x = solve_gyroscopic_step(of(I), of(u), of(L), h, of(f));
  return {x.x, x.y, x.z};
}

Vector3d end_angular_velocity(const Vector3d& I, const Vector3d& w0, const Vector3d& given, double h) {
  Vector3d w = given;
  const double size = I.cwiseProduct(w0).squaredNorm() + I.cwiseProduct(given).squaredNorm();
  for (int i = 0; i < 20; ++i) {
    const Vector3d u = 0.5 * (w + w0), L = I.cwiseProduct(u), off = I.cwiseProduct(w - given) + h * u.cross(L);
    if (off.squaredNorm() <= 1e-28 * size) return w;
    w -= solve_gyroscopic(I, u, L, 0.5 * h, off);
    if (!w.allFinite()) break;
  }
  return given;
}

void FastRotatingBody::add_gyroscopic_torque() {
  w = R * end_angular_velocity(I, R.transpose() * w0, R.transpose() * w, h);
}

}  // namespace linchpin::detail
