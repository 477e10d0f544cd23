// Newton step for the gyroscopic torque of a rigid body, in its axes. Real is one body or several in SIMD lanes.
#pragma once

#include "math/simd.h"

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The same as solve_gyroscopic().
template <class Real>
V3<Real> solve_spin(const V3<Real>& I, const V3<Real>& u, const V3<Real>& L, double h, const V3<Real>& f) {
  const V3<Real> x{I.x, h * (u.z * I.x - L.z), h * (L.y - u.y * I.x)},
      y{h * (L.z - u.z * I.y), I.y, h * (u.x * I.y - L.x)}, k{h * (u.y * I.z - L.y), h * (L.x - u.x * I.z), I.z};
  const V3<Real> yk = cross(y, k);
  const Real scale = 1 / dot(x, yk);
  return {scale * dot(f, yk), scale * dot(x, cross(f, k)), scale * dot(x, cross(y, f))};
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
