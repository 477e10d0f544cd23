// The test whether a step is accepted. It computes the work of the multipliers, the energy, and the frequency ω of the
// geometric stiffness, which a step of length dt follows only up to some ω·dt (T15).
#pragma once

#include "joint_kernel/compliant_rows.h"
#include "joint_kernel/joint_island.h"
#include "joint_kernel/kernel_data.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class StepAcceptance {
 public:
  using Rows = KernelRows<Real>;
  using Twist = typename Rows::Twist;
  static constexpr int lanes = SimdTraits<Real>::count;

  void lay_out(const SymbolicFactor& p) {
    stiffness_.assign(z(p.all_bodies), Stiffness{});
    bounds_.resize(stiffness_.size());
  }

  /// Computes the work of the multipliers of exact rows, the energy at the end, and ω·dt. Refuses lanes whose ω·dt is
  /// too large.
  /// @param twists  at the end
  /// @param total   impulses of the whole step, by row
  /// @param means   out: mean of the rates of the rows at the start and the end
  void check(const Rows& rows, const CompliantRows<Real>& compliance, const JointIsland::Limits& limits,
             const AlignedVector<Twist>& twists, const AlignedVector<Real>& total, AlignedVector<Real>& means,
             LaneOutcomes<Real>& result) {
    std::fill(bounds_.begin(), bounds_.end(), Real{});
    Real gain{}, probe{};
    for_each_primitive([&]<class P>(P) {
      const auto& list = rows.rows.template of<P>();
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto& k = list[i];
        const auto mean = 0.5 * (load_rows<P>(rows.velocities, k.row) + Rows::rate(k, twists));
        gain += product(load_rows<P>(total, k.row), mean);
        P::add_tension_bound(k, rows.geometry.template of<P>()[i], total.data() + k.row, bounds_[z(k.a)],
                             bounds_[z(k.b)]);
        store_rows(means, k.row, decltype(load_rows<P>(total, 0))(mean));
      }
    });
    if (compliance.any()) gain -= compliance.work(total, means);
    Real most{}, energy{};
    for (std::size_t i = 0; i < rows.moving; ++i) {
      const Body& b = rows.bodies[i];
      const Twist& u = twists[i];
      const Rotation3<Real>& R = rows.rotations[i];
      const V w = transposed_times(R, u.w);
      energy += 0.5 * (b.mass * dot(u.v, u.v) + dot(componentwise_product(b.inertia, w), w));
      const Real bound = bounds_[i] / b.least_inertia;
      most = maximum(most, bound);
      probe += 0 * (bound + dot(twists[i].v, twists[i].w));
    }
    bool fast = false;
    for (int lane = 0; lane < lanes; ++lane) {
      JointIsland::Outcome& out = result.of[z(lane)];
      out.constraint_work = get_lane(gain, lane);
      out.end_energy = get_lane(energy, lane);
      out.omega_dt =
          std::sqrt(get_lane(most, lane) * limits.dt);  // impulses are dt times forces, which makes it ω² dt²
      if (get_lane(probe, lane) != 0) result.refuse(lane, JointIsland::Refusal::not_finite);
      fast = fast || (!out.refused() && !(out.omega_dt <= limits.coarse_omega_dt));
    }
    if (!fast) return;
    stiffen(rows, total);
    for (int lane = 0; lane < lanes; ++lane) {
      JointIsland::Outcome& out = result.of[z(lane)];
      if (out.refused() || out.omega_dt <= limits.coarse_omega_dt) continue;
      out.omega_dt = tension_frequency(rows, limits.dt, lane);
      if (!(out.omega_dt <= limits.max_omega_dt)) result.refuse(lane, JointIsland::Refusal::step_too_long);
    }
  }

 private:
  using V = Vector3<Real>;
  using Body = typename Rows::Body;
  using Stiffness = Symmetric3<Real>;

  static Real product(const Real& a, const Real& b) { return a * b; }
  static Real product(const V& a, const V& b) { return dot(a, b); }

  // Computes J Rᵀ K R J of every body. K is the geometric stiffness of T15 from impulses, and J² is the inverse inertia
  // in the axes of the body. The eigenvalues are ω² dt.
  void stiffen(const Rows& rows, const AlignedVector<Real>& total) {
    std::fill(stiffness_.begin(), stiffness_.end(), Stiffness{});
    const auto add = [&](int body, const V& r, const V& f) {
      Stiffness& K = stiffness_[z(body)];
      const Real along = dot(r, f);
      K.xx += along - r.x * f.x, K.yy += along - r.y * f.y, K.zz += along - r.z * f.z;
      K.xy -= 0.5 * (r.x * f.y + r.y * f.x), K.xz -= 0.5 * (r.x * f.z + r.z * f.x);
      K.yz -= 0.5 * (r.y * f.z + r.z * f.y);
    };
    rows.for_each_row([&]<class P>(P, const typename Rows::template Row<P>& k) {
      P::for_each_tension(k, total.data() + k.row,
                          [&](int side, const V& r, const V& f) { add(side == 0 ? k.a : k.b, r, f); });
    });
    for (std::size_t i = 0; i < rows.moving; ++i) {
      Stiffness& K = stiffness_[i];
      const Rotation3<Real>& R = rows.rotations[i];
      const V& inverse = rows.bodies[i].inverse_inertia;
      const V x = square_root(inverse.x) * V{R.x.x, R.y.x, R.z.x}, y = square_root(inverse.y) * V{R.x.y, R.y.y, R.z.y},
              z = square_root(inverse.z) * V{R.x.z, R.y.z, R.z.z};  // the body's axes (W)
      const V Kx = K * x, Ky = K * y, Kz = K * z;
      K = {dot(x, Kx), dot(x, Ky), dot(x, Kz), dot(y, Ky), dot(y, Kz), dot(z, Kz)};
      bounds_[i] = mean_of(K) + 2 * spread_of(K);
    }
  }

  // A symmetric K has the eigenvalues m + 2p cos θ with θ, θ ± 2π/3. m is their mean, and 6p² the sum of the squares of
  // K − m 1.
  static Real mean_of(const Stiffness& K) { return (1. / 3) * (K.xx + K.yy + K.zz); }
  static Real spread_of(const Stiffness& K) {
    const Real m = mean_of(K), x = K.xx - m, y = K.yy - m, z = K.zz - m;
    return square_root((1. / 6) * (x * x + y * y + z * z + 2 * (K.xy * K.xy + K.xz * K.xz + K.yz * K.yz)));
  }

  // Returns the largest ω dt of a lane, to half the digits at least. The bounds of the eigenvalues exclude most bodies.
  double tension_frequency(const Rows& rows, double dt, int lane) const {
    std::size_t widest = 0;
    for (std::size_t i = 0; i < rows.moving; ++i)
      if (!(get_lane(bounds_[i], lane) <= get_lane(bounds_[widest], lane))) widest = i;
    if (!std::isfinite(get_lane(bounds_[widest], lane))) return std::numeric_limits<double>::infinity();
    double most = 0;
    const auto consider = [&](std::size_t i) {
      if (!(get_lane(bounds_[i], lane) > most)) return;
      const Stiffness& K = stiffness_[i];
      const double m = get_lane(mean_of(K), lane), p = get_lane(spread_of(K), lane);
      if (!(p > 0)) {
        most = std::max(most, m);
        return;
      }
      const double c = (most - m) / (2 * p);  // cos θ, which is at least ½, of the largest so far
      const double x = (get_lane(K.xx, lane) - m) / p, y = (get_lane(K.yy, lane) - m) / p,
                   z = (get_lane(K.zz, lane) - m) / p;
      const double xy = get_lane(K.xy, lane) / p, xz = get_lane(K.xz, lane) / p, yz = get_lane(K.yz, lane) / p;
      const double det = x * (y * z - yz * yz) - xy * (xy * z - yz * xz) + xz * (xy * yz - y * xz);
      const double cosine = std::clamp(0.5 * det, -1.0, 1.0);  // cos 3θ = 4 cos³ θ − 3 cos θ
      if (c >= 0.5 && c * (4 * c * c - 3) >= cosine) return;
      most = std::max(most, m + 2 * p * std::cos(std::acos(cosine) / 3));
    };
    consider(widest);
    for (std::size_t i = 0; i < rows.moving; ++i)
      if (i != widest) consider(i);
    return std::sqrt(most * dt);
  }

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  AlignedVector<Stiffness> stiffness_;
  AlignedVector<Real> bounds_;  // of ω², by body
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
