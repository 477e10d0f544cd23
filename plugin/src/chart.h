// The chart of the exponential map in which Runge–Kutta–Munthe-Kaas methods have their stages (T13): where a block is
// when its chart at a state has some coordinates, and how fast those change. Private to the core.
#pragma once

#include "columns.h"
#include "variational.h"

#include <linchpin/system.h>

#include <algorithm>
#include <span>

namespace linchpin {

/// y ← h Σ_k weight_k rate_k over the first `count` stages.
template <class Rates>
void combine_rates(double h, std::span<const double> weight, std::size_t count, const Rates& rate,
                   std::span<double> y) {
  std::fill(y.begin(), y.end(), 0.0);
  for (std::size_t k = 0; k < count; ++k) {
    if (weight[k] == 0) continue;
    const double w = h * weight[k];
    const double* const from = rate[k].data();
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += w * from[j];
  }
}

/// Bodies of `to` where the chart at `from` has `pose`, with the velocities of `from` and `gained` more.
inline void place_in_chart(const Block& block, const State& from, std::span<const double> pose,
                           std::span<const double> gained, State& to) {
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    const Vector6d u = twist_of(block, s, pose), dv = twist_of(block, s, gained);
    BodyState& body = to[block.bodies[s]];
    body = from[block.bodies[s]];
    advance(body, u.head<3>(), u.tail<3>(), 1.0);
    body.v += dv.head<3>();
    body.w += dv.tail<3>();
  }
}

/// The rate of the chart where it has `pose`, when bodies have velocities v.
inline void rates_in_chart(const Block& block, std::span<const double> pose, std::span<const double> v,
                           std::span<double> rate) {
  std::copy(v.begin(), v.end(), rate.begin());
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    if (block.column[s + 1] - block.column[s] != 6) continue;
    Eigen::Map<Vector3d> turning(&rate[z(block.column[s] + 3)]);
    turning = rate_of_rotation(Eigen::Map<const Vector3d>(&pose[z(block.column[s] + 3)]), turning);
  }
}

}  // namespace linchpin
