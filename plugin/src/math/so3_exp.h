// The factors of a turn by a vector t, the exponential less one: sin t / t times t ×, (1 − cos t) / t² times t × t ×.
// In a namespace of those that include it, as simd.h has it.
#pragma once

#include <cmath>

#ifndef LINCHPIN_SIMD
#define LINCHPIN_SIMD simd_baseline
#endif

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

constexpr double small_turn = 4e-2;  // [rad²], where the next terms of the series below are under 1e-18
template <class Real>
void small_turn_factors(const Real& t2, Real& sine, Real& versine) {
  sine = 1 - t2 * (1. / 6 - t2 * (1. / 120 - t2 * (1. / 5040 - t2 * (1. / 362880 - t2 * (1. / 39916800)))));
  versine = 0.5 - t2 * (1. / 24 - t2 * (1. / 720 - t2 * (1. / 40320 - t2 * (1. / 3628800 - t2 * (1. / 479001600)))));
}
/// sin t / t and (1 − cos t) / t² of t².
inline void turn_factors(double t2, double& sine, double& versine) {
  if (t2 < small_turn) return small_turn_factors(t2, sine, versine);
  const double t = std::sqrt(t2), half = std::sin(0.5 * t) / t;
  sine = std::sin(t) / t;
  versine = 2 * half * half;
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
