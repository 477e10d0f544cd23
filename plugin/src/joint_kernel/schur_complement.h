// G λ = r of a block, G = A M⁻¹ Aᵀ (T7), of one or of several alike side by side in the lanes of a vector (Real): its
// blocks from bodies and rows, its factor or, of nothing but welds, the walk over their tree, and where rows depend on
// each other the multipliers of least norm (T6).
#pragma once

#include "joint_kernel/composite_body.h"
#include "joint_kernel/factor.h"
#include "joint_kernel/null_space.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <linchpin/detail/joint_step.h>

#include <array>
#include <cstring>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class SchurComplement {
 public:
  using Rows = KernelRows<Real>;
  static constexpr int lanes = Lanes<Real>::count;

  void lay_out(const SymbolicFactor& p) { p.welds ? welds_.lay_out(p) : factor_.lay_out(p); }

  /// Made once more where rows depend on each other for the first time, with the null vectors of those that do. Those
  /// of long ladders of welds are as long as the ladder, which the way of all others is spared.
  /// @param wanted  whether anybody waits for a lane
  /// @return positive where there is an answer; else why_not() says why
  template <class Wanted>
  Real factor(const SymbolicFactor& p, Rows& rows, Wanted wanted) {
    if (p.welds) return factor_welds(p, rows);
    fill(p, rows);
    Real margin = factor_.factor(p);
    const auto unclear = [&](int lane) { return wanted(lane) && !(get(margin, lane) > 0); };
    bool again = false;
    for (int lane = 0; lane < lanes && !factor_.drops(); ++lane) again = again || unclear(lane);
    if (again) {
      factor_.drop_dependent();
      fill(p, rows);
      margin = factor_.factor(p);
    }
    redundant_ = false;
    for (int lane = 0; lane < lanes; ++lane) {
      null_spaces_[z(lane)].clear();
      if (!wanted(lane) || !(get(margin, lane) > 0) || factor_.whole(lane)) continue;
      factor_.find_null_space(p, lane, null_spaces_[z(lane)]);
      if (null_spaces_[z(lane)].size() > most_fours * z(p.rows)) set(margin, lane, dear);
      redundant_ = true;
    }
    return margin;
  }
  static const char* why_not(double margin) {
    return margin == dear ? JointStep::too_dear : "rank not clear from the pivots";
  }

  /// x ← multipliers that make these rates, by row.
  void solve(const SymbolicFactor& p, Row<Real>& x) { p.welds ? welds_.solve(x.data()) : factor_.solve(p, x.data()); }

  /// Whether rows depend on each other, in a lane; and in this one.
  bool redundant() const { return redundant_; }
  bool redundant(int lane) const { return welds_.loops() || !null_spaces_[z(lane)].empty(); }

  /// Of the multipliers that do the same those of least norm, which the estimate of T15 needs, too.
  void least_norm(Row<Real>& lambda) {
    for (int lane = 0; lane < lanes; ++lane)
      if (welds_.loops())
        welds_.project(lambda.data(), lane);
      else if (!null_spaces_[z(lane)].empty())
        null_spaces_[z(lane)].project(lambda.data(), lane);
  }

  /// What solve() goes by, for right-hand sides of other kinds: where all are welds, those, else the factor.
  const KernelFactor<Real>& factor() const { return factor_; }
  CompositeBody<Real>& welds() { return welds_; }
  const CompositeBody<Real>& welds() const { return welds_; }

 private:
  using V = V3<Real>;
  using Body = typename Rows::Body;
  using Frame = typename Rows::Frame;
  using Mass = typename Rows::Mass;
  using Point = typename Rows::Point;
  using Axis = typename Rows::Axis;
  using Dot = typename Rows::Dot;
  struct PointMasses {  // K (r × e_i) by side that moves, the second's with its sign
    V on[2][3];
  };
  using ByRow = std::array<Real, SymbolicFactor::widest>;
  struct OfRows {  // of a joint, by component: what its rows pull with at the first of its sides, and K times their
                   // moments
    ByRow v[3], on[2][3];
  };

  static constexpr double dear = -2;             // a margin
  static constexpr std::size_t most_fours = 16;  // of null vectors, by row; windows of four bars have 1.3

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static double get(const Real& x, int lane) { return Lanes<Real>::get(x, lane); }
  static void set(Real& x, int lane, double to) { Lanes<Real>::set(x, lane, to); }

  Real factor_welds(const SymbolicFactor& p, const Rows& rows) {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      typename CompositeBody<Real>::Weld& to = welds_.welds[i];
      const SymbolicFactor::Node& node = p.nodes[i];
      const Point& point = rows.points[z(node.points)];
      to.r_A = point.r_A, to.r_B = point.r_B;
      for (std::size_t k = 0; k < 3; ++k) to.n[k] = rows.dots[z(node.dots) + k].n;
    }
    for (std::size_t i = 0; i < rows.moving; ++i) {
      const Body& from = rows.bodies[i];
      const Frame& R = rows.frames[i];
      const V x = scaled(R.x, from.inertia), y = scaled(R.y, from.inertia), w = scaled(R.z, from.inertia);
      welds_.bodies[i] = {from.mass,   from.p,      dot(x, R.x), dot(y, R.y),
                          dot(w, R.z), dot(x, R.y), dot(x, R.z), dot(y, R.z)};
    }
    redundant_ = welds_.loops();
    return welds_.factor();
  }

  // G = A M⁻¹ Aᵀ into the places of its factor.
  void fill(const SymbolicFactor& p, Rows& rows) {
    Real* const values = factor_.clear();
    for (Axis& k : rows.axes) {
      if (z(k.a) < rows.moving) k.on_a = Rows::times(rows.masses[z(k.a)], k.c_A);
      if (z(k.b) < rows.moving) k.on_b = Rows::times(rows.masses[z(k.b)], k.c_B);
    }
    for (Dot& k : rows.dots) {
      if (z(k.a) < rows.moving) k.on_a = Rows::times(rows.masses[z(k.a)], k.n);
      if (z(k.b) < rows.moving) k.on_b = -Rows::times(rows.masses[z(k.b)], k.n);
    }
    PointMasses ball;
    OfRows of{};
    int ball_of = -1, width_of = -1;
    for (const SymbolicFactor::Meeting& m : p.meetings) {  // all of one j after the other
      const Real inverse = rows.masses[z(m.body)].inverse;
      const Real linear = m.side_i == m.side_j ? inverse : -inverse;
      Real* const to = values + m.target;
      if (m.ball_i >= 0) {
        if (std::exchange(ball_of, m.j) != m.j) ball = masses_on(rows, rows.points[z(m.ball_j)]);
        meet(rows.points[z(m.ball_i)], m.side_i, ball.on[m.side_j], linear, m.i == m.j, to);
        continue;
      }
      if (std::exchange(width_of, m.j) != m.j) take_rows(p.nodes[z(m.j)], rows, of);
      const int width = p.nodes[z(m.j)].width;
      KernelFactor<Real>::of_width(
          width, [&](auto known) { meet<decltype(known)::value>(p.nodes[z(m.i)], m, rows, of, linear, width, to); });
    }
    if (!p.hubs.empty()) fill_hubs(p, rows);
  }

  static PointMasses masses_on(const Rows& rows, const Point& point) {
    PointMasses to;
    for (int side = 0; side < 2; ++side) {
      const std::size_t body = z(side == 0 ? point.a : point.b);
      if (body >= rows.moving) continue;
      const Mass& K = rows.masses[body];
      const V r = side == 0 ? point.r_A : -point.r_B;
      V* on = to.on[side];  // K (0, z, −y), K (−z, 0, x), K (y, −x, 0)
      on[0] = {K.xy * r.z - K.xz * r.y, K.yy * r.z - K.yz * r.y, K.yz * r.z - K.zz * r.y};
      on[1] = {K.xz * r.x - K.xx * r.z, K.yz * r.x - K.xy * r.z, K.zz * r.x - K.xz * r.z};
      on[2] = {K.xx * r.y - K.xy * r.x, K.xy * r.y - K.yy * r.x, K.xz * r.y - K.yz * r.x};
    }
    return to;
  }

  // What joints have in the columns of hubs, and how long that makes their rows; and what those weigh.
  void fill_hubs(const SymbolicFactor& p, const Rows& rows) {
    constexpr int stride = SymbolicFactor::hub_stride;
    for (const SymbolicFactor::Grip& grip : p.grips) {
      const SymbolicFactor::Node& node = p.nodes[z(grip.node)];
      const Real inverse = rows.masses[z(grip.body)].inverse, one = Lanes<Real>::all(grip.side == 0 ? 1 : -1);
      Real* to = factor_.holds() + grip.values;
      Real* length = factor_.lengths() + node.first;
      const auto row = [&](const V& v, const V& w, const Real& square) {
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = w.x, to[4] = w.y, to[5] = w.z;
        to += stride;
        *length++ += square;
      };
      for (int k = node.points; k < node.points_end; ++k) {
        const V r = grip.side == 0 ? rows.points[z(k)].r_A : -rows.points[z(k)].r_B;
        const PointMasses masses = masses_on(rows, rows.points[z(k)]);
        const V* on = masses.on[grip.side];
        row({one, Real{}, Real{}}, {Real{}, r.z, -r.y}, inverse + (r.z * on[0].y - r.y * on[0].z));
        row({Real{}, one, Real{}}, {-r.z, Real{}, r.x}, inverse + (r.x * on[1].z - r.z * on[1].x));
        row({Real{}, Real{}, one}, {r.y, -r.x, Real{}}, inverse + (r.y * on[2].x - r.x * on[2].y));
      }
      for (int k = node.axes; k < node.axes_end; ++k) {
        const Axis& axis = rows.axes[z(k)];
        const V &arm = grip.side == 0 ? axis.c_A : axis.c_B, &on = grip.side == 0 ? axis.on_a : axis.on_b;
        row(grip.side == 0 ? -axis.u : axis.u, arm, inverse * dot(axis.u, axis.u) + dot(arm, on));
      }
      for (int k = node.dots; k < node.dots_end; ++k) {
        const V n = normal(rows.dots[z(k)], grip.side);
        row(V{}, n, dot(n, grip.side == 0 ? rows.dots[z(k)].on_a : rows.dots[z(k)].on_b));
      }
    }
    for (std::size_t i = 0; i < p.hubs.size(); ++i) {
      const Body& body = rows.bodies[z(p.hubs[i])];
      const Frame& R = rows.frames[z(p.hubs[i])];
      Real* to = factor_.hub_mass(static_cast<int>(i));
      for (int k = 0; k < 3; ++k, to += stride) to[k] = body.mass;
      for (const V* x : {&R.x, &R.y, &R.z}) {
        const V I = scaled(*x, body.inertia);
        to[3] = dot(I, R.x), to[4] = dot(I, R.y), to[5] = dot(I, R.z);
        to += stride;
      }
    }
  }

  static V normal(const Dot& k, int side) { return side == 0 ? k.n : -k.n; }

  // What two balls add to each other's rows: (r × e_x) · on[0] and so on; of the diagonal the lower half.
  static void meet(const Point& point, int side, const V* on, const Real& linear, bool lower, Real* x) {
    const V r = side == 0 ? point.r_A : -point.r_B;
    Real *const y = x + 3, *const z = y + 3;
    x[0] += linear + (r.z * on[0].y - r.y * on[0].z);
    y[0] += r.x * on[0].z - r.z * on[0].x;
    z[0] += r.y * on[0].x - r.x * on[0].y;
    y[1] += linear + (r.x * on[1].z - r.z * on[1].x);
    z[1] += r.y * on[1].x - r.x * on[1].y;
    z[2] += linear + (r.y * on[2].x - r.x * on[2].y);
    if (lower) return;
    x[1] += r.z * on[1].y - r.y * on[1].z;
    x[2] += r.z * on[2].y - r.y * on[2].z;
    y[2] += r.x * on[2].z - r.z * on[2].x;
  }

  static void take_rows(const SymbolicFactor::Node& node, const Rows& rows, OfRows& to) {
    std::size_t row = 0;
    const auto add = [&](const V& v, const V& on_a, const V& on_b) {
      to.v[0][row] = v.x, to.v[1][row] = v.y, to.v[2][row] = v.z;
      to.on[0][0][row] = on_a.x, to.on[0][1][row] = on_a.y, to.on[0][2][row] = on_a.z;
      to.on[1][0][row] = on_b.x, to.on[1][1][row] = on_b.y, to.on[1][2][row] = on_b.z;
      ++row;
    };
    const Real one = Lanes<Real>::all(1);
    for (int k = node.points; k < node.points_end; ++k) {
      const PointMasses masses = masses_on(rows, rows.points[z(k)]);
      add({one, Real{}, Real{}}, masses.on[0][0], masses.on[1][0]);
      add({Real{}, one, Real{}}, masses.on[0][1], masses.on[1][1]);
      add({Real{}, Real{}, one}, masses.on[0][2], masses.on[1][2]);
    }
    for (int k = node.axes; k < node.axes_end; ++k) add(-rows.axes[z(k)].u, rows.axes[z(k)].on_a, rows.axes[z(k)].on_b);
    for (int k = node.dots; k < node.dots_end; ++k) add(V{}, rows.dots[z(k)].on_a, rows.dots[z(k)].on_b);
  }

  // What a joint and the rows of another, or its own, add to each other's; of the diagonal at least the lower half.
  template <int W>
  static void meet(const SymbolicFactor::Node& i, const SymbolicFactor::Meeting& m, const Rows& rows, const OfRows& of,
                   const Real& linear, int width, Real* to) {
    const auto& v = of.v;
    const auto& on = of.on[m.side_j];
    const bool lower = m.i == m.j;
    int row = 0;
    const auto add = [&](const Real& a, const ByRow& A, const Real& b, const ByRow& B, const Real& c, const ByRow& C) {
      add_row<W>(to, lower ? row + 1 : width, a, A, b, B, c, C);
    };
    const auto next = [&] { ++row, to += W > 0 ? W : width; };
    for (int k = i.points; k < i.points_end; ++k) {
      const V r = m.side_i == 0 ? rows.points[z(k)].r_A : -rows.points[z(k)].r_B;
      add(linear, v[0], r.z, on[1], -r.y, on[2]), next();
      add(linear, v[1], r.x, on[2], -r.z, on[0]), next();
      add(linear, v[2], r.y, on[0], -r.x, on[1]), next();
    }
    for (int k = i.axes; k < i.axes_end; ++k) {
      const Axis& axis = rows.axes[z(k)];
      const V &arm = m.side_i == 0 ? axis.c_A : axis.c_B, pull = -linear * axis.u;
      add(pull.x, v[0], pull.y, v[1], pull.z, v[2]);
      add(arm.x, on[0], arm.y, on[1], arm.z, on[2]), next();
    }
    for (int k = i.dots; k < i.dots_end; ++k) {
      const V n = normal(rows.dots[z(k)], m.side_i);
      add(n.x, on[0], n.y, on[1], n.z, on[2]), next();
    }
  }

  template <int W>
  [[gnu::always_inline]] static void add_row(Real* to, int count, const Real& a, const ByRow& A, const Real& b,
                                             const ByRow& B, const Real& c, const ByRow& C) {
    const auto one = [&](int k) { to[k] += a * A[z(k)] + (b * B[z(k)] + c * C[z(k)]); };
    if constexpr (W >= 4 && lanes == 1) {  // whole
      const auto four = [](const double* from) {
        Four x;
        std::memcpy(&x, from, sizeof x);
        return x;
      };
      const Four sum = four(to) + (a * four(A.data()) + (b * four(B.data()) + c * four(C.data())));
      std::memcpy(to, &sum, sizeof sum);
      if constexpr (W > 4) one(4);
      if constexpr (W > 5) one(5);
    } else {
      for (int k = 0; k < count; ++k) one(k);
    }
  }

  KernelFactor<Real> factor_;
  CompositeBody<Real> welds_;
  std::array<KernelNullSpace, std::size_t{lanes}> null_spaces_;
  bool redundant_ = false;  // in a lane
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
