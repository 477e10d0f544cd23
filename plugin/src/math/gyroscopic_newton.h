// Newton for the gyroscopic torque over a step, for one rigid body or for several side by side (Real), in the axes of
// the body. Each body is treated as it would be alone, to the last bit.
#pragma once

#include "math/simd.h"
#include "math/vec3.h"

#include <limits>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// Returns x of (I + h ([u]× I − [L]×)) x = f, which is a Newton step of I w + h u × L with L = I u.
/// @param I  principal moments of inertia [kg·m²]
template <class Real>
Vector3<Real> solve_gyroscopic_step(const Vector3<Real>& I, const Vector3<Real>& u, const Vector3<Real>& L,
                                    const Real& h, const Vector3<Real>& f) {
  const Vector3<Real> x{I.x, h * (u.z * I.x - L.z), h * (L.y - u.y * I.x)},
      y{h * (L.z - u.z * I.y), I.y, h * (u.x * I.y - L.x)}, k{h * (u.y * I.z - L.y), h * (L.x - u.x * I.z), I.z};
  const Vector3<Real> yk = cross(y, k);
  const Real scale = 1 / dot(x, yk);
  return {scale * dot(f, yk), scale * dot(x, cross(f, k)), scale * dot(x, cross(y, f))};
}

/// Returns the change of the angular velocity as gyroscopic_change() of math/gyroscopic.h does.
/// @param h       length of the step [s]; 0: the change is zero
/// @param change  where Newton starts. A change that this function has returned for the same arguments is returned
///                again.
template <class Real>
Vector3<Real> gyroscopic_change(const Vector3<Real>& I, const Vector3<Real>& w0, const Vector3<Real>& given,
                                const Real& h, Vector3<Real> change) {
  constexpr int most_solves = 20;
  constexpr double squared_rounding = 1e-28;  // relative to the angular momenta
  const Vector3<Real> L0 = componentwise_product(I, w0), L1 = componentwise_product(I, given);
  const Real most = squared_rounding * (dot(L0, L0) + dot(L1, L1)) + std::numeric_limits<double>::min(), half = 0.5 * h;
  for (int solves = 0;; ++solves) {
    const Vector3<Real> u = 0.5 * (w0 + given + change), L = componentwise_product(I, u),
                        off = componentwise_product(I, change) + h * cross(u, L);
    const Real size = dot(off, off);
    if (solves == most_solves || !any_positive(size - most)) {
      const auto where_found = [&](const Real& x) { return select_less(size, most, x, Real{}); };
      return {where_found(change.x), where_found(change.y), where_found(change.z)};
    }
    const Vector3<Real> step = solve_gyroscopic_step(I, u, L, half, off);
    const auto where_open = [&](const Real& x, const Real& by) { return select_less(most, size, x - by, x); };
    change = {where_open(change.x, step.x), where_open(change.y, step.y), where_open(change.z, step.z)};
  }
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
