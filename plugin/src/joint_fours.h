// Four bodies, points or dots of one block side by side: their numbers as they are worked out in lanes (lanes.h), to
// the last bit what each would come to alone.
#pragma once

#include "lanes.h"

namespace linchpin::detail {
inline namespace LINCHPIN_LANES {

inline V3<Four> together(const V3<double>& a, const V3<double>& b, const V3<double>& c, const V3<double>& d) {
  return {Four{a.x, b.x, c.x, d.x}, Four{a.y, b.y, c.y, d.y}, Four{a.z, b.z, c.z, d.z}};
}
inline V3<double> one_of(const V3<Four>& u, int lane) { return {u.x[lane], u.y[lane], u.z[lane]}; }
inline double largest_of(const Four& x) { return larger(larger(x[0], x[1]), larger(x[2], x[3])); }

}  // namespace LINCHPIN_LANES
}  // namespace linchpin::detail
