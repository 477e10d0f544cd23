// The quantity of a body that is not finite, in words. A residual at such a state has no value, and the fault is not in
// the residual. Private to the core.
#pragma once

#include "model/format.h"

#include <linchpin/system.h>

#include <cstddef>
#include <span>
#include <string>

namespace linchpin::detail {

/// Returns the text about the first body of a constraint whose pose or velocity is not finite. Empty: all are finite.
inline std::string what_is_not_finite(const System& system, std::span<const BodyId> bodies, const State& state) {
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    const BodyState& s = state[bodies[k]];
    const auto about = [&](const char* quantity, const std::string& value) {
      return std::string("the ") + quantity + " of body " + std::to_string(k) + " ('" + system.name(bodies[k]) +
             "') is " + value + ", which is not finite. Give the body a finite " + quantity;
    };
    if (!s.p.allFinite()) return about("position", text(s.p) + " m");
    if (!s.q.coeffs().allFinite())
      return about("rotation", "a quaternion with the vector " + text(Eigen::Vector3d(s.q.vec())));
    if (!s.v.allFinite()) return about("velocity", text(s.v) + " m/s");
    if (!s.w.allFinite()) return about("angular velocity", text(s.w) + " rad/s");
  }
  return {};
}

}  // namespace linchpin::detail
