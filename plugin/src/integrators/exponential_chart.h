// The chart of the exponential map, in which Runge–Kutta–Munthe-Kaas methods have their stages (T13). Converts between
// coordinates of the chart at a state and states of a block, and computes the rates of the coordinates. Private to the
// core.
#pragma once

#include "integrators/discrete_legendre.h"
#include "problem/jacobian_products.h"

#include <linchpin/system.h>

#include <algorithm>
#include <span>
#include <utility>

namespace linchpin {

/// y ← h Σ_k weight_k rate_k over the first `count` stages.
template <class Rates>
void combine_rates(double h, std::span<const double> weight, std::size_t count, const Rates& rate,
                   std::span<double> y) {
  bool first = true;
  for (std::size_t k = 0; k < count; ++k) {
    if (weight[k] == 0) continue;
    const double w = h * weight[k];
    const double* const from = rate[k].data();
    if (std::exchange(first, false))
      for (std::size_t j = 0; j < y.size(); ++j) y[j] = w * from[j];
    else
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += w * from[j];
  }
  if (first) std::fill(y.begin(), y.end(), 0.0);
}

/// Places the bodies of `to` at `pose` in the chart at `from`, with the velocities of `from` plus `gained`.
inline void place_in_chart(const IslandLayout& layout, const State& from, std::span<const double> pose,
                           std::span<const double> gained, State& to) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const Vector6d u = twist_of(layout, s, pose), dv = twist_of(layout, s, gained);
    BodyState& body = to[layout.bodies[s]];
    body = from[layout.bodies[s]];
    advance(body, u.head<3>(), u.tail<3>(), 1.0);
    body.v += dv.head<3>();
    body.w += dv.tail<3>();
  }
}

/// Computes the rate of the chart at `pose`, when bodies have velocities v.
inline void rates_in_chart(const IslandLayout& layout, std::span<const double> pose, std::span<const double> v,
                           std::span<double> rate) {
  std::copy(v.begin(), v.end(), rate.begin());
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    if (layout.column[s + 1] - layout.column[s] != 6) continue;
    Eigen::Map<Vector3d> turning(&rate[z(layout.column[s] + 3)]);
    turning = rate_of_rotation(Eigen::Map<const Vector3d>(&pose[z(layout.column[s] + 3)]), turning);
  }
}

/// Updates the chart for the projection of the end of a step from `off` to `on`.
inline void follow_in_chart(const IslandLayout& layout, const State& off, const State& on, std::span<double> pose) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyState &was = off[layout.bodies[s]], &is = on[layout.bodies[s]];
    const int first = layout.column[s], dof = layout.column[s + 1] - first;
    for (int j = 0; j < std::min(3, dof); ++j) pose[z(first + j)] += is.p[j] - was.p[j];
    if (dof == 6) Eigen::Map<Vector3d>(&pose[z(first + 3)]) += turn_between(was.q, is.q);
  }
}

/// Returns Σ (e / (absolute + relative · size))² of the difference e between the members of a pair. Vectors count by
/// their length, so that the axes do not matter. @param poses  in the chart, where the size of a rotation is 1.
/// Otherwise in velocities
inline double squares_in_chart(const IslandLayout& layout, const State& from, const State& to,
                               std::span<const double> e, bool poses, double absolute, double relative) {
  double sum = 0;
  const auto add = [&](int first, int count, double size) {
    const double scale = absolute + relative * size;
    for (int j = first; j < first + count; ++j) sum += e[z(j)] * e[z(j)] / (scale * scale);
  };
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyState &a = from[layout.bodies[s]], &b = to[layout.bodies[s]];
    const int first = layout.column[s], dof = layout.column[s + 1] - first;
    add(first, std::min(3, dof), poses ? std::max(a.p.norm(), b.p.norm()) : std::max(a.v.norm(), b.v.norm()));
    if (dof == 6) add(first + 3, 3, poses ? 1 : std::max(a.w.norm(), b.w.norm()));
  }
  return sum;
}

}  // namespace linchpin
