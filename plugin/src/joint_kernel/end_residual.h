// Evaluates φ of the rows of an island where a step would end (T12), from the start and from what the step adds. Sums
// are of the size of the step, and not of the world.
#pragma once

#include "joint_kernel/gather.h"
#include "joint_kernel/rows.h"
#include "math/simd.h"
#include "math/tuning.h"
#include "model/primitives/list.h"

#include <cstddef>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class EndResidual {
 public:
  using Rows = KernelRows<Real>;
  using Twist = typename Rows::Twist;

  void lay_out(const SymbolicFactor& p) {
    displacements_.assign(static_cast<std::size_t>(p.all_bodies), Displacement<Vector3<Real>>{});
  }

  /// x ← φ at the end of a step with these twists, by row, less `target` times the φ of the start.
  /// @return the largest magnitude; not a number where one is none
  Real evaluate(const Rows& rows, double dt, const Real& target, const AlignedVector<Twist>& twists,
                AlignedVector<Real>& x) {
    for (std::size_t i = 0; i < rows.moving; ++i) {
      Displacement<Vector3<Real>>& to = displacements_[i];
      to.translation = dt * twists[i].v;
      to.rotation = dt * twists[i].w;
      turn_factors(dot(to.rotation, to.rotation), to.sine, to.versine);
    }
    Real largest{}, probe{};
    for_each_primitive([&]<class P>(P) { evaluate_rows<P>(rows, target, x, largest, probe); });
    return largest + probe;
  }

  /// The largest φ over what the rounding of poses explains of it.
  static Real over_rounding(const Rows& rows, const AlignedVector<Real>& x) {
    Real largest{};
    rows.for_each_row([&]<class P>(P, const typename Rows::template Row<P>& k) {
      const Real positions = max_abs(rows.bodies[Rows::z(k.a)].p) + max_abs(rows.bodies[Rows::z(k.b)].p);
      const auto phi = load_rows<P>(x, k.row);
      largest = maximum(
          largest, max_abs(componentwise_quotient(phi, tuning::residual_rounding * P::residual_scale(k, positions))));
    });
    return largest;
  }

 private:
  template <class P>
  void evaluate_rows(const Rows& rows, const Real& target, AlignedVector<Real>& x, Real& largest, Real& probe) const {
    const auto& list = rows.rows.template of<P>();
    // 0 times what is not finite is not a number.
    const auto evaluate = [&](const auto& pick, auto& most, auto& finite) {
      const auto on = [&](int Rows::BodiesAndRow::*side) -> decltype(auto) {
        return pick([&](std::size_t k) -> const auto& { return displacements_[Rows::z(list[k].*side)]; });
      };
      const auto& A = on(&Rows::BodiesAndRow::a);
      const auto& B = on(&Rows::BodiesAndRow::b);
      const auto& k = pick([&](std::size_t i) -> const typename P::template Start<Vector3<Real>>& { return list[i]; });
      const auto phi = P::end_residual(k, A.translation - B.translation, [&](int side, int, const auto& u) {
        return side == 0 ? A.added(u) : B.added(u);
      });
      const auto error = phi - target * k.phi;
      most = maximum(most, max_abs(error));
      finite += 0 * sum(phi);
      return error;
    };
    std::size_t i = 0;
    if constexpr (SimdTraits<Real>::count == 1 && P::gather_end) {
      Vec4d most{}, finite{};
      for (; i + 4 <= list.size(); i += 4) {
        const auto error = evaluate(PickFour{i}, most, finite);
        for (int lane = 0; lane < 4; ++lane) store_rows(x, list[i + Rows::z(lane)].row, lane_of(error, lane));
      }
      largest = maximum(largest, max_lane(most));
      probe += sum_lanes(finite);
    }
    for (; i < list.size(); ++i) store_rows(x, list[i].row, evaluate(PickOne{i}, largest, probe));
  }

  AlignedVector<Displacement<Vector3<Real>>> displacements_;  // of the bodies, of the step at hand
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
