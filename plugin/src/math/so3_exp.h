// Factors of the exponential map of a rotation vector t: sin t / t multiplies t ×, and (1 − cos t) / t² multiplies t ×
// t ×. They give the exponential minus the identity. The namespace depends on the including file, as in simd.h.
#pragma once

#include <cmath>

#ifndef LINCHPIN_SIMD
#define LINCHPIN_SIMD simd_baseline
#endif

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

constexpr double small_turn = 4e-2;  // [rad²] Below it the next terms of the series are under 1e-18.
template <class Real>
void small_turn_factors(const Real& t2, Real& sine, Real& versine) {
  sine = 1 - t2 * (1. / 6 - t2 * (1. / 120 - t2 * (1. / 5040 - t2 * (1. / 362880 - t2 * (1. / 39916800)))));
  versine = 0.5 - t2 * (1. / 24 - t2 * (1. / 720 - t2 * (1. / 40320 - t2 * (1. / 3628800 - t2 * (1. / 479001600)))));
}
/// Computes sin t / t and (1 − cos t) / t² from t².
inline void turn_factors(double t2, double& sine, double& versine) {
  if (t2 < small_turn) return small_turn_factors(t2, sine, versine);
  const double t = std::sqrt(t2), half = std::sin(0.5 * t) / t;
  sine = std::sin(t) / t;
  versine = 2 * half * half;
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
