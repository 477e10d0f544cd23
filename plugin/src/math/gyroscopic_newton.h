// A Newton step of the gyroscopic torque, for one rigid body or for several side by side (Real), in the axes of the
// body.
#pragma once

#include "math/vec3.h"

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// Returns x of (I + h ([u]× I − [L]×)) x = f, as solve_gyroscopic() does.
template <class Real>
Vector3<Real> solve_gyroscopic_step(const Vector3<Real>& I, const Vector3<Real>& u, const Vector3<Real>& L, double h,
                                    const Vector3<Real>& f) {
  const Vector3<Real> x{I.x, h * (u.z * I.x - L.z), h * (L.y - u.y * I.x)},
      y{h * (L.z - u.z * I.y), I.y, h * (u.x * I.y - L.x)}, k{h * (u.y * I.z - L.y), h * (L.x - u.x * I.z), I.z};
  const Vector3<Real> yk = cross(y, k);
  const Real scale = 1 / dot(x, yk);
  return {scale * dot(f, yk), scale * dot(x, cross(f, k)), scale * dot(x, cross(y, f))};
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
