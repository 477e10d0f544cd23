// What a step of a block, or of several alike side by side in the lanes of a vector (Real), has come to: the work of
// its multipliers, its energy, and how fast the tension makes bodies swing, against how long it is (T15).
#pragma once

#include "joint_kernel/rows.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <linchpin/detail/joint_step.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
struct JointResult {
  static constexpr int lanes = Lanes<Real>::count;
  std::array<JointStep::Outcome, std::size_t{lanes}> of;

  void refuse(int lane, const char* why) {
    JointStep::Outcome& out = of[static_cast<std::size_t>(lane)];
    if (!out.refused) out.refused = why;
  }
  /// Whether all are.
  bool refused() const {
    return std::all_of(of.begin(), of.end(), [](const auto& out) { return out.refused != nullptr; });
  }
};

template <class Real>
class StepAcceptance {
 public:
  using Rows = KernelRows<Real>;
  using Twist = typename Rows::Twist;
  static constexpr int lanes = Lanes<Real>::count;

  void lay_out(const SymbolicFactor& p) {
    stiffness_.assign(z(p.all_bodies), Mass{});
    bounds_.resize(stiffness_.size());
  }

  /// The work of multipliers, the energy at the end, and how fast the tension makes bodies swing; refuses what is too
  /// fast for the step.
  /// @param twists  at the end
  /// @param total   multipliers of the whole step, impulses by row
  /// @param means   velocities of the rows, of start and end
  void judge(const Rows& rows, const JointStep::Limits& limits, const Row<Twist>& twists, const Row<Real>& total,
             Row<Real>& means, JointResult<Real>& result) {
    std::fill(bounds_.begin(), bounds_.end(), Real{});
    Real gain{}, probe{};
    for (std::size_t i = 0; i < rows.points.size(); ++i) {
      const Point& k = rows.points[i];
      const Twist &a = twists[z(k.a)], &b = twists[z(k.b)];
      const V mean =
          0.5 * (Rows::read(rows.velocities, k.row) + ((a.v + cross(a.w, k.r_A)) - (b.v + cross(b.w, k.r_B))));
      const V p = Rows::read(total, k.row);
      gain += dot(p, mean);
      const Real force = root(dot(p, p));
      bounds_[z(k.a)] += force * rows.point_places[i].arm_A;
      bounds_[z(k.b)] += force * rows.point_places[i].arm_B;
      Rows::write(means, k.row, mean);
    }
    for (const Axis& k : rows.axes) {
      const Real mean = 0.5 * (rows.velocities[z(k.row)] + Rows::rate(k, twists));
      const Real p = total[z(k.row)], force = magnitude(p);
      const V r_A = k.r_A + k.d;
      gain += p * mean;
      bounds_[z(k.a)] += force * root(dot(r_A, r_A));
      bounds_[z(k.b)] += force * root(dot(k.r_B, k.r_B));
      means[z(k.row)] = mean;
    }
    for (const Dot& k : rows.dots) {
      const Real mean = 0.5 * (rows.velocities[z(k.row)] + dot(k.n, twists[z(k.a)].w - twists[z(k.b)].w));
      gain += total[z(k.row)] * mean;
      means[z(k.row)] = mean;
    }
    Real most{}, energy{};
    for (std::size_t i = 0; i < rows.moving; ++i) {
      const Body& b = rows.bodies[i];
      const Twist& u = twists[i];
      const Frame& R = rows.frames[i];
      const V w{R.x.x * u.w.x + R.y.x * u.w.y + R.z.x * u.w.z, R.x.y * u.w.x + R.y.y * u.w.y + R.z.y * u.w.z,
                R.x.z * u.w.x + R.y.z * u.w.y + R.z.z * u.w.z};
      energy += 0.5 * (b.mass * dot(u.v, u.v) + dot(scaled(b.inertia, w), w));
      const Real bound = bounds_[i] / b.least_inertia;
      most = larger(most, bound);
      probe += 0 * (bound + dot(twists[i].v, twists[i].w));
    }
    bool fast = false;
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      out.gain = get(gain, lane);
      out.energy = get(energy, lane);
      out.swing = std::sqrt(get(most, lane) * limits.dt);  // ω² dt² with impulses, which are dt times forces
      if (get(probe, lane) != 0) result.refuse(lane, "numbers that are not finite");
      fast = fast || (!out.refused && !(out.swing <= limits.enough));
    }
    if (!fast) return;
    stiffen(rows, total);
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      if (out.refused || out.swing <= limits.enough) continue;
      out.swing = swing(rows, limits.dt, lane);
      if (!(out.swing <= limits.swing)) result.refuse(lane, "too long a step");
    }
  }

 private:
  using V = V3<Real>;
  using Body = typename Rows::Body;
  using Frame = typename Rows::Frame;
  using Mass = typename Rows::Mass;
  using Point = typename Rows::Point;
  using Axis = typename Rows::Axis;
  using Dot = typename Rows::Dot;

  // J Rᵀ K R J of every body, K the geometric stiffness of T15 from impulses and J² the inverse inertia in the body's
  // axes: its eigenvalues are ω² dt.
  void stiffen(const Rows& rows, const Row<Real>& total) {
    std::fill(stiffness_.begin(), stiffness_.end(), Mass{});
    const auto add = [&](int body, const V& r, const V& f) {
      Mass& K = stiffness_[z(body)];
      const Real along = dot(r, f);
      K.xx += along - r.x * f.x, K.yy += along - r.y * f.y, K.zz += along - r.z * f.z;
      K.xy -= 0.5 * (r.x * f.y + r.y * f.x), K.xz -= 0.5 * (r.x * f.z + r.z * f.x);
      K.yz -= 0.5 * (r.y * f.z + r.z * f.y);
    };
    for (const Point& k : rows.points) {
      const V p = Rows::read(total, k.row);
      add(k.a, k.r_A, p);
      add(k.b, k.r_B, -p);
    }
    for (const Axis& k : rows.axes) {
      const V p = total[z(k.row)] * k.u;
      add(k.a, k.r_A + k.d, -p);
      add(k.b, k.r_B, p);
    }
    for (std::size_t i = 0; i < rows.moving; ++i) {
      Mass& K = stiffness_[i];
      const Frame& R = rows.frames[i];
      const V& inverse = rows.bodies[i].inverse_inertia;
      const V x = root(inverse.x) * V{R.x.x, R.y.x, R.z.x}, y = root(inverse.y) * V{R.x.y, R.y.y, R.z.y},
              z = root(inverse.z) * V{R.x.z, R.y.z, R.z.z};  // the body's axes (W)
      const V Kx = Rows::times(K, x), Ky = Rows::times(K, y), Kz = Rows::times(K, z);
      K = {K.inverse, dot(x, Kx), dot(x, Ky), dot(x, Kz), dot(y, Ky), dot(y, Kz), dot(z, Kz)};
      bounds_[i] = mean_of(K) + 2 * spread_of(K);
    }
  }

  // A symmetric K has eigenvalues m + 2p cos θ with θ, θ ± 2π/3: m their mean, 6p² the squares of K − m1 summed.
  static Real mean_of(const Mass& K) { return (1. / 3) * (K.xx + K.yy + K.zz); }
  static Real spread_of(const Mass& K) {
    const Real m = mean_of(K), x = K.xx - m, y = K.yy - m, z = K.zz - m;
    return root((1. / 6) * (x * x + y * y + z * z + 2 * (K.xy * K.xy + K.xz * K.xz + K.yz * K.yz)));
  }

  // The largest ω dt of a lane, to half the digits at least. What bounds an eigenvalue tells of most that they are not.
  double swing(const Rows& rows, double dt, int lane) const {
    std::size_t widest = 0;
    for (std::size_t i = 0; i < rows.moving; ++i)
      if (!(get(bounds_[i], lane) <= get(bounds_[widest], lane))) widest = i;
    if (!std::isfinite(get(bounds_[widest], lane))) return std::numeric_limits<double>::infinity();
    double most = 0;
    const auto look = [&](std::size_t i) {
      if (!(get(bounds_[i], lane) > most)) return;
      const Mass& K = stiffness_[i];
      const double m = get(mean_of(K), lane), p = get(spread_of(K), lane);
      if (!(p > 0)) {
        most = std::max(most, m);
        return;
      }
      const double c = (most - m) / (2 * p);  // cos θ, no less than ½, if this were what is there already
      const double x = (get(K.xx, lane) - m) / p, y = (get(K.yy, lane) - m) / p, z = (get(K.zz, lane) - m) / p;
      const double xy = get(K.xy, lane) / p, xz = get(K.xz, lane) / p, yz = get(K.yz, lane) / p;
      const double det = x * (y * z - yz * yz) - xy * (xy * z - yz * xz) + xz * (xy * yz - y * xz);
      const double cosine = std::clamp(0.5 * det, -1.0, 1.0);  // of 3θ, 4 cos³ θ − 3 cos θ
      if (c >= 0.5 && c * (4 * c * c - 3) >= cosine) return;
      most = std::max(most, m + 2 * p * std::cos(std::acos(cosine) / 3));
    };
    look(widest);
    for (std::size_t i = 0; i < rows.moving; ++i)
      if (i != widest) look(i);
    return std::sqrt(most * dt);
  }

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static double get(const Real& x, int lane) { return Lanes<Real>::get(x, lane); }

  Row<Mass> stiffness_;
  Row<Real> bounds_;  // of the squares of frequencies, by body
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
