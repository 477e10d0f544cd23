// One block in vectors of four numbers: four bodies, points or dots of it side by side, or the three components of one.
// To the last bit what each would come to alone, and to what it comes to in the lanes of simd.h.
#pragma once

#include "math/simd.h"

#include <cstring>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

inline V3<Four> together(const V3<double>& a, const V3<double>& b, const V3<double>& c, const V3<double>& d) {
  return {Four{a.x, b.x, c.x, d.x}, Four{a.y, b.y, c.y, d.y}, Four{a.z, b.z, c.z, d.z}};
}
inline V3<double> one_of(const V3<Four>& u, int lane) { return {u.x[lane], u.y[lane], u.z[lane]}; }

/// Three numbers from one on, and whatever is behind them: Row has memory for that.
inline Four three(const double& first) {
  Four x;
  std::memcpy(&x, &first, sizeof x);
  return x;
}
inline V3<double> of_three(const Four& x) { return {x[0], x[1], x[2]}; }
inline Four cross(const Four& a, const Four& b) {
  const auto next = [](const Four& u) { return Four{u[1], u[2], u[0], u[3]}; };
  return next(a * next(b) - next(a) * b);
}
/// A twist, or a wrench.
struct Threes {
  Four v, w;
};

inline double largest_of(const Four& x) { return larger(larger(x[0], x[1]), larger(x[2], x[3])); }

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
