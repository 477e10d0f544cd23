// Evaluates the bodies and the rows of an island at the start of a step: poses, velocities and forces give φ, φ̇, b of
// A v̇ = b (T3), and what the forces leave of b.
#pragma once

#include "joint_kernel/gather.h"
#include "joint_kernel/rows.h"
#include "math/simd.h"
#include "model/primitives/list.h"

#include <cstddef>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The largest values of an island at the start, by lane.
template <class Real>
struct StartSummary {
  Real position_error;  ///< |φ|; not a number where one is none [m, rad]
  Real velocity_error;  ///< |φ̇| [m/s, rad/s]
  Real fastest;         ///< of the components of all velocities [m/s, rad/s]
  Real kinetic;         ///< kinetic energy of the centres of mass [J]
  Real size;            ///< of biases, and of the rates that the forces make
  Real extent;          ///< coordinates of the bodies [m]
};

template <class Real>
class StartEvaluation {
 public:
  using Rows = KernelRows<Real>;
  using Twist = typename Rows::Twist;

  /// @param free           in: impulses; out: velocities with them
  /// @param accelerations  in: forces; out: accelerations that they make
  /// @param residual       by row, b less the rates of those accelerations
  static StartSummary<Real> evaluate(Rows& rows, AlignedVector<Twist>& free, AlignedVector<Twist>& accelerations,
                                     AlignedVector<Real>& residual) {
    StartSummary<Real> summary{};
    make_masses(rows, free, accelerations);
    for (std::size_t i = 0; i < rows.moving; ++i) {
      const Twist& now = rows.start[i];
      summary.fastest = maximum(summary.fastest, maximum(max_abs(now.v), max_abs(now.w)));
      summary.kinetic += rows.bodies[i].mass * dot(now.v, now.v);
      summary.extent = maximum(summary.extent, max_abs(rows.bodies[i].p));
    }
    summary.kinetic *= 0.5;
    Real probe{};
    for_each_primitive([&]<class P>(P) { evaluate_rows<P>(rows, accelerations, residual, summary, probe); });
    summary.position_error += probe;
    return summary;
  }

 private:
  static constexpr int lanes = SimdTraits<Real>::count;

  // Rotations and inverse masses of the bodies, and what they make of impulses and forces.
  static void make_masses(Rows& rows, AlignedVector<Twist>& free, AlignedVector<Twist>& accelerations) {
    using Body = typename Rows::Body;
    const auto make = [&](const auto& pick, auto& R, auto& K, auto& by_forces, auto& with_impulses) {
      const auto of = [&](auto Body::*member) {
        return pick([&](std::size_t i) -> const auto& { return rows.bodies[i].*member; });
      };
      R = rotation(of(&Body::qx), of(&Body::qy), of(&Body::qz), of(&Body::qw));
      K.linear = pick([&](std::size_t i) -> const auto& { return rows.inverse_masses[i].linear; });
      K.angular = inverse_inertia(R, of(&Body::inverse_inertia));
      by_forces = K * pick([&](std::size_t i) -> const auto& { return accelerations[i]; });
      with_impulses = pick([&](std::size_t i) -> const auto& { return rows.start[i]; }) +
                      K * pick([&](std::size_t i) -> const auto& { return free[i]; });
    };
    std::size_t i = 0;
    if constexpr (lanes == 1)
      for (; i + 4 <= rows.moving; i += 4) {
        Rotation3<Vec4d> R;
        InverseMass<Vec4d> K;
        SpatialVector<Vec4d> by_forces, with_impulses;
        make(PickFour{i}, R, K, by_forces, with_impulses);
        for (int lane = 0; lane < 4; ++lane) {
          const std::size_t at = i + Rows::z(lane);
          const Symmetric3<Vec4d>& I = K.angular;
          rows.rotations[at] = {lane_of(R.x, lane), lane_of(R.y, lane), lane_of(R.z, lane)};
          rows.inverse_masses[at] = {K.linear[lane],
                                     {I.xx[lane], I.xy[lane], I.xz[lane], I.yy[lane], I.yz[lane], I.zz[lane]}};
          accelerations[at] = {lane_of(by_forces.v, lane), lane_of(by_forces.w, lane)};
          free[at] = {lane_of(with_impulses.v, lane), lane_of(with_impulses.w, lane)};
        }
      }
    for (; i < rows.moving; ++i) make(PickOne{i}, rows.rotations[i], rows.inverse_masses[i], accelerations[i], free[i]);
    for (; i < rows.bodies.size(); ++i) {
      const Body& b = rows.bodies[i];
      rows.rotations[i] = rotation(b.qx, b.qy, b.qz, b.qw);
    }
  }

  template <class P>
  static void evaluate_rows(Rows& rows, const AlignedVector<Twist>& accelerations, AlignedVector<Real>& residual,
                            StartSummary<Real>& summary, Real& probe) {
    auto& list = rows.rows.template of<P>();
    const auto& geometry = rows.geometry.template of<P>();
    // 0 times what is not finite is not a number.
    const auto evaluate = [&](const auto& pick, auto& gap, auto& off, auto& size, auto& finite, const auto& store) {
      const auto on = [&](const auto& of, int Rows::BodiesAndRow::*side) -> decltype(auto) {
        return pick([&](std::size_t k) -> const auto& { return of[Rows::z(list[k].*side)]; });
      };
      constexpr auto a = &Rows::BodiesAndRow::a, b = &Rows::BodiesAndRow::b;
      const auto k = P::start(
          pick([&](std::size_t i) -> const auto& { return geometry[i]; }), on(rows.rotations, a), on(rows.rotations, b),
          pick([&](std::size_t i) { return rows.bodies[Rows::z(list[i].a)].p - rows.bodies[Rows::z(list[i].b)].p; }));
      const auto motion = P::motion(k, on(rows.start, a), on(rows.start, b));
      const auto forced = P::rate(k, on(accelerations, a), on(accelerations, b));
      gap = maximum(gap, max_abs(k.phi));
      off = maximum(off, max_abs(motion.phi_dot));
      size = maximum(size, maximum(max_abs(motion.bias), max_abs(forced)));
      finite += 0 * sum(k.phi + motion.phi_dot + motion.bias);
      store(k, motion, decltype(forced)(motion.bias - forced));
    };
    std::size_t i = 0;
    if constexpr (lanes == 1 && P::gather_start) {
      Vec4d gap{}, off{}, size{}, finite{};
      for (; i + 4 <= list.size(); i += 4)
        evaluate(PickFour{i}, gap, off, size, finite, [&](const auto& k, const auto& motion, const auto& rest) {
          for (int lane = 0; lane < 4; ++lane) {
            auto& to = list[i + Rows::z(lane)];
            scatter_lane(k, lane, static_cast<typename P::template Start<Vector3<double>>&>(to));
            store_rows(rows.velocities, to.row, lane_of(motion.phi_dot, lane));
            store_rows(rows.biases, to.row, lane_of(motion.bias, lane));
            store_rows(residual, to.row, lane_of(rest, lane));
          }
        });
      summary.position_error = maximum(summary.position_error, max_lane(gap));
      summary.velocity_error = maximum(summary.velocity_error, max_lane(off));
      summary.size = maximum(summary.size, max_lane(size));
      probe += sum_lanes(finite);
    }
    for (; i < list.size(); ++i)
      evaluate(PickOne{i}, summary.position_error, summary.velocity_error, summary.size, probe,
               [&](const auto& k, const auto& motion, const auto& rest) {
                 auto& to = list[i];
                 static_cast<typename P::template Start<Vector3<Real>>&>(to) = k;
                 store_rows(rows.velocities, to.row, motion.phi_dot);
                 store_rows(rows.biases, to.row, motion.bias);
                 store_rows(residual, to.row, rest);
               });
  }

  template <class X>
  static Rotation3<X> rotation(const X& qx, const X& qy, const X& qz, const X& qw) {
    const X x2 = qx + qx, y2 = qy + qy, z2 = qz + qz;
    const X wx = x2 * qw, wy = y2 * qw, wz = z2 * qw, xx = x2 * qx, xy = y2 * qx, xz = z2 * qx, yy = y2 * qy,
            yz = z2 * qy, zz = z2 * qz;
    return {{1 - (yy + zz), xy - wz, xz + wy}, {xy + wz, 1 - (xx + zz), yz - wx}, {xz - wy, yz + wx, 1 - (xx + yy)}};
  }
  // R I⁻¹ Rᵀ
  template <class X>
  static Symmetric3<X> inverse_inertia(const Rotation3<X>& R, const Vector3<X>& of_body) {
    const Vector3<X> x = componentwise_product(R.x, of_body), y = componentwise_product(R.y, of_body),
                     z = componentwise_product(R.z, of_body);
    return {dot(x, R.x), dot(x, R.y), dot(x, R.z), dot(y, R.y), dot(y, R.z), dot(z, R.z)};
  }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
