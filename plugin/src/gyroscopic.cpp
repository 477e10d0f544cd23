// How a rigid body's own spin turns it in a step.
#include <linchpin/detail/gyroscopic.h>

namespace linchpin::detail {

Vector3d solve_gyroscopic(const Vector3d& I, const Vector3d& u, const Vector3d& L, double h, const Vector3d& f) {
  const Vector3d x(I.x(), h * (u.z() * I.x() - L.z()), h * (L.y() - u.y() * I.x())),
      y(h * (L.z() - u.z() * I.y()), I.y(), h * (u.x() * I.y() - L.x())),
      k(h * (u.y() * I.z() - L.y()), h * (L.x() - u.x() * I.z()), I.z());
  const Vector3d yk = y.cross(k);
  return Vector3d(f.dot(yk), x.dot(f.cross(k)), x.dot(y.cross(f))) / x.dot(yk);
}

Vector3d turned(const Vector3d& I, const Vector3d& w0, const Vector3d& given, double h) {
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

void Turning::turn() { w = R * turned(I, R.transpose() * w0, R.transpose() * w, h); }

}  // namespace linchpin::detail
