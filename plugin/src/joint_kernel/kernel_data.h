// The numbers of a step of one island, or of several islands of one topology side by side in the lanes of Real.
#pragma once

#include "joint_kernel/compliant_rows.h"
#include "joint_kernel/dispatch.h"
#include "joint_kernel/joint_island.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/schur_complement.h"
#include "joint_kernel/start_evaluation.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The outcomes of the islands, by lane.
template <class Real>
struct LaneOutcomes {
  static constexpr int lanes = SimdTraits<Real>::count;
  std::array<JointIsland::Outcome, std::size_t{lanes}> of;

  void refuse(int lane, JointIsland::Refusal why) {
    JointIsland::Outcome& out = of[static_cast<std::size_t>(lane)];
    if (!out.refused()) out.refusal = why;
  }
  bool refused(int lane) const { return of[static_cast<std::size_t>(lane)].refused(); }
  /// Returns whether all lanes are refused.
  bool refused() const {
    return std::all_of(of.begin(), of.end(), [](const auto& out) { return out.refused(); });
  }
};

template <class Real>
struct KernelData {
  static constexpr int lanes = SimdTraits<Real>::count;
  using Twist = SpatialVector<Real>;
  using Vector = AlignedVector<Real>;  // by row

  KernelRows<Real> rows;
  CompliantRows<Real> compliance;
  SchurComplement<Real> schur;
  StartSummary<Real> start;
  AlignedVector<Twist> free, accelerations;  // without the joints: velocities at the end, accelerations at the start
  AlignedVector<Twist> twists;               // of the bodies, with the joints
  Vector lambda;                             // multipliers at the start
  Vector newton, total;                      // impulses: what Newton adds to dt λ, and the sum of both
  Vector x;  // right-hand side of a solve, and its solution; residuals; at the end, mean rates of the rows

  void lay_out(const SymbolicFactor& p) {
    rows.lay_out(p);
    compliance.lay_out(p);
    schur.lay_out(p);
    for (auto* of : {&free, &accelerations, &twists}) of->assign(z(p.all_bodies), Twist{});
    for (auto* of : {&x, &lambda, &newton, &total}) of->assign(z(p.rows), Real{});
  }

  /// Evaluates the start from `free` (impulses) and `accelerations` (forces). x ← b less what the forces make.
  /// @param dt  length of the step, for springs at its end
  void evaluate_start(double dt) {
    start = StartEvaluation<Real>::evaluate(rows, free, accelerations, x);
    if (compliance.any()) compliance.begin(rows, dt, start, x);
  }

  /// free ← the velocities at the start, and what impulses [N·s, N·m·s] make of them
  void set_free(std::span<const double> impulses) requires(lanes == 1) {
    for (std::size_t i = 0; i < rows.moving; ++i)
      free[i] = rows.start[i] + rows.inverse_masses[i] * twist_of_lane(0, impulses, i);
  }
  /// x ← b less what these forces [N, N·m] make, as evaluate_start() has it of those that it is given.
  void set_right_hand_side(std::span<const double> forces) requires(lanes == 1) {
    for (std::size_t i = 0; i < rows.moving; ++i)
      twists[i] = accelerations[i] = rows.inverse_masses[i] * twist_of_lane(0, forces, i);
    rows.rates(twists, x);
    start.size = Real{};
    for (std::size_t r = 0; r < x.size(); ++r) {
      start.size = maximum(start.size, maximum(absolute(rows.biases[r]), absolute(x[r])));
      x[r] = rows.biases[r] - x[r];
    }
  }

  LaneOutcomes<Real> start_result() const {
    LaneOutcomes<Real> result;
    for (int lane = 0; lane < lanes; ++lane) {
      JointIsland::Outcome& out = result.of[z(lane)];
      out.velocity_error = get_lane(start.velocity_error, lane);
      out.largest_velocity = get_lane(start.fastest, lane);
      out.start_energy = get_lane(start.kinetic, lane);
    }
    return result;
  }

  static Twist twist_of_lane(int lane, std::span<const double> from, std::size_t body) {
    Twist to{};
    set_lane(to.v, lane, from.data() + 6 * body);
    set_lane(to.w, lane, from.data() + 6 * body + 3);
    return to;
  }
  void write_velocities(int lane, std::span<double> v) const {
    for (std::size_t i = 0; i < rows.moving; ++i) {
      get_lane(twists[i].v, lane, v.data() + 6 * i);
      get_lane(twists[i].w, lane, v.data() + 6 * i + 3);
    }
  }
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
