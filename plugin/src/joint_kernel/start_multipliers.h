// The multipliers at the start of a step: the equation of constrained motion (T5), solved with the factor, its residual
// checked, and refined once where the residual is more than rounding.
#pragma once

#include "joint_kernel/kernel_data.h"
#include "joint_kernel/tuning.h"
#include "math/simd.h"
#include "model/primitives/list.h"

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class StartMultipliers {
 public:
  using Data = KernelData<Real>;
  using Vector = typename Data::Vector;
  static constexpr int lanes = Data::lanes;

  /// λ ← G⁺ x. Refuses lanes whose residual is too large.
  void solve(const SymbolicFactor& p, Data& data, LaneOutcomes<Real>& result) {
    const Vector& biases = data.schur.redundant() ? consistent_biases(data) : data.rows.biases;
    data.schur.solve(p, data.x);
    std::swap(data.lambda, data.x);
    // Before the residual: the error of a null vector is part of it, and is refined with it.
    if (data.schur.redundant()) data.schur.least_norm(data.lambda);
    Real worst = residual(p, data, biases);
    // Gaps of single precision let welds be one body, and rows depend on each other, to seven digits only.
    const auto rough = [&](int lane) {
      return !(get_lane(worst, lane) <= tuning::max_start_residual * get_lane(data.start.size, lane)) &&
             (p.is_composite || data.schur.redundant(lane));
    };
    if (refine(p, data, data.schur.redundant(), rough)) worst = residual(p, data, biases);
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(worst, lane) <= tuning::max_start_residual * get_lane(data.start.size, lane)))
        result.refuse(lane, JointIsland::Refusal::residual_too_large);
    if (result.refused()) return;
    refine(p, data, false, [&](int lane) {
      return !result.refused(lane) &&
             !(get_lane(worst, lane) <= tuning::smooth_start_residual * get_lane(data.start.size, lane));
    });
  }

  /// Sets the energy of the impulse that would remove φ̇ at the start (T14), for islands that begin a step farther off
  /// the velocity constraints than they usually do.
  void measure_activation(const SymbolicFactor& p, Data& data, std::span<const JointIsland::Job> jobs,
                          LaneOutcomes<Real>& result) {
    const auto is_unusual = [&](std::size_t i) {
      const JointIsland::Outcome& out = result.of[i];
      return !out.refused() && out.velocity_error > tuning::activation_factor * jobs[i].typical_velocity_error &&
             out.velocity_error > tuning::activation_rounding * out.largest_velocity;
    };
    bool any = false;
    for (std::size_t i = 0; i < jobs.size(); ++i) any = any || is_unusual(i);
    if (!any) return;
    const Vector& velocities = data.rows.velocities;
    data.x = velocities;
    if (data.schur.redundant()) data.schur.least_norm(data.x);
    data.schur.solve(p, data.x);
    Real energy{};
    for (std::size_t r = 0; r < data.x.size(); ++r) energy += 0.5 * (data.x[r] * velocities[r]);
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (is_unusual(i)) result.of[i].activation_energy = get_lane(energy, static_cast<int>(i));
  }

 private:
  // Redundant rows have right-hand sides that need not agree: velocities at the start are off the constraints by O(dt),
  // and so are accelerations. b is projected on the range of A, which meets it in the least squares (T6). The biases of
  // the rows stay as they are for the later solves of a coupled step.
  const Vector& consistent_biases(Data& data) {
    projected_ = data.x;
    data.schur.least_norm(projected_);
    consistent_.resize(data.x.size());
    for (std::size_t r = 0; r < data.x.size(); ++r) consistent_[r] = data.rows.biases[r] - (data.x[r] - projected_[r]);
    std::swap(data.x, projected_);
    return consistent_;
  }

  // x ← b − A v̇ with λ. @return the largest magnitude, not a number where one is none
  static Real residual(const SymbolicFactor& p, Data& data, const Vector& biases) {
    data.rows.add_response(p, data.lambda, data.accelerations, data.twists);
    Real worst{}, probe{};
    data.rows.for_each_row([&]<class P>(P, const typename KernelRows<Real>::template Row<P>& k) {
      const auto e = load_rows<P>(biases, k.row) - KernelRows<Real>::rate(k, data.twists);
      worst = maximum(worst, max_abs(e));
      probe += 0 * sum(e);
      store_rows(data.x, k.row, e);
    });
    if (data.compliance.any()) return data.compliance.complete_start_residual(data.lambda, data.x);
    return worst + probe;
  }

  // Solves for the residual in the lanes that are wanted. @return whether there is one
  template <class Wanted>
  static bool refine(const SymbolicFactor& p, Data& data, bool least_norm, const Wanted& wanted) {
    Real share{};
    bool any = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (!wanted(lane)) continue;
      set_lane(share, lane, 1);
      any = true;
    }
    if (!any) return false;
    data.schur.solve(p, data.x);
    if (least_norm) data.schur.least_norm(data.x);
    for (std::size_t r = 0; r < data.x.size(); ++r) data.lambda[r] += share * data.x[r];
    return true;
  }

  Vector projected_, consistent_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
