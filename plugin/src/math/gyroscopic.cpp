#include "math/gyroscopic.h"

#include "math/gyroscopic_newton.h"

namespace linchpin::detail {

Eigen::Vector3d gyroscopic_change(const Eigen::Vector3d& I, const Eigen::Vector3d& w0, const Eigen::Vector3d& given,
                                  double h) {
  const auto of = [](const Eigen::Vector3d& x) { return Vector3<double>{x.x(), x.y(), x.z()}; };
  const Vector3<double> x = gyroscopic_change(of(I), of(w0), of(given), h, Vector3<double>{});
  return {x.x, x.y, x.z};
}

}  // namespace linchpin::detail
