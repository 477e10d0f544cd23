// Reads a rotation from a matrix of another library. This header is not for direct use.
#pragma once

#include <linchpin/constraint.h>

#include <cmath>

namespace linchpin::detail {

/// The unit quaternion of a rotation matrix that need not be orthonormal. @param r  r(i, k) is an entry of it
/// It does not go by way of a Matrix3d: hosts read poses several times for each body and step, and the way of the
/// matrix through memory was most of the time.
template <class Entry>
Quaterniond rotation_of(Entry r) {
  // The largest of the four is found from the diagonal, the others over it: all four times that one.
  double q[4];  // x, y, z, w
  const double xx = r(0, 0), yy = r(1, 1), zz = r(2, 2), trace = xx + yy + zz;
  if (trace > 0) {
    q[0] = r(2, 1) - r(1, 2), q[1] = r(0, 2) - r(2, 0), q[2] = r(1, 0) - r(0, 1), q[3] = 1 + trace;
  } else if (xx >= yy && xx >= zz) {
    q[0] = 1 + xx - yy - zz, q[1] = r(0, 1) + r(1, 0), q[2] = r(0, 2) + r(2, 0), q[3] = r(2, 1) - r(1, 2);
  } else if (yy >= zz) {
    q[0] = r(0, 1) + r(1, 0), q[1] = 1 + yy - xx - zz, q[2] = r(1, 2) + r(2, 1), q[3] = r(0, 2) - r(2, 0);
  } else {
    q[0] = r(0, 2) + r(2, 0), q[1] = r(1, 2) + r(2, 1), q[2] = 1 + zz - xx - yy, q[3] = r(1, 0) - r(0, 1);
  }
  const double scale = 1 / std::sqrt((q[0] * q[0] + q[1] * q[1]) + (q[2] * q[2] + q[3] * q[3]));
  return {scale * q[3], scale * q[0], scale * q[1], scale * q[2]};
}

}  // namespace linchpin::detail
