// The Schur complement G = A M⁻¹ Aᵀ of an island (T7), and solves of G λ = r. It assembles G from bodies and
// rows and factors it; an island of nothing but welds is a composite body instead. Where rows depend on each other it
// has the multipliers of least norm (T6).
#pragma once

#include "joint_kernel/composite_body.h"
#include "joint_kernel/factor.h"
#include "joint_kernel/joint_island.h"
#include "joint_kernel/null_space.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/symbolic.h"
#include "joint_kernel/tuning.h"
#include "math/simd.h"

#include <array>
#include <cstring>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class SchurComplement {
 public:
  using Rows = KernelRows<Real>;
  static constexpr int lanes = SimdTraits<Real>::count;

  void lay_out(const SymbolicFactor& p) { p.is_composite ? composite_.lay_out(p) : factor_.lay_out(p); }

  /// Assembles and factors G + γ. Where rows depend on each other for the first time, it does so again and drops them,
  /// with their null vectors. Null vectors of long ladders are as long as the ladder: the general solver is cheaper
  /// there.
  /// @param gamma   on the diagonal of the compliant rows [1/kg]
  /// @param wanted  wanted(lane): whether the lane needs an answer
  /// @return positive where there is an answer; else why_not() says why
  template <class Wanted>
  Real factor(const SymbolicFactor& p, Rows& rows, const AlignedVector<Real>& gamma, Wanted wanted) {
    if (p.is_composite) return factor_composite(p, rows);
    fill(p, rows, gamma);
    Real margin = factor_.factor(p);
    const auto unclear = [&](int lane) { return wanted(lane) && !(get_lane(margin, lane) > 0); };
    bool again = false;
    for (int lane = 0; lane < lanes && !factor_.drops(); ++lane) again = again || unclear(lane);
    if (again) {
      factor_.drop_dependent();
      fill(p, rows, gamma);
      margin = factor_.factor(p);
    }
    redundant_ = false;
    for (int lane = 0; lane < lanes; ++lane) {
      null_spaces_[z(lane)].clear();
      if (!wanted(lane) || !(get_lane(margin, lane) > 0) || factor_.whole(lane)) continue;
      factor_.find_null_space(p, lane, null_spaces_[z(lane)]);
      if (null_spaces_[z(lane)].size() > tuning::max_null_space_fill_in * z(p.rows))
        set_lane(margin, lane, null_space_too_large);
      redundant_ = true;
    }
    return margin;
  }
  static JointIsland::Refusal why_not(double margin) {
    return margin == null_space_too_large ? JointIsland::Refusal::null_space_too_large
                                          : JointIsland::Refusal::rank_unclear;
  }

  /// x ← multipliers that make the rates x, by row.
  void solve(const SymbolicFactor& p, AlignedVector<Real>& x) {
    p.is_composite ? composite_.solve(x.data()) : factor_.solve(p, x.data());
  }

  /// Returns whether rows depend on each other in some lane, or in this one.
  bool redundant() const { return redundant_; }
  bool redundant(int lane) const { return composite_.loops() || !null_spaces_[z(lane)].empty(); }

  /// Replaces multipliers by those of least norm that do the same. The estimate of T15 needs these, too.
  void least_norm(AlignedVector<Real>& lambda) {
    for (int lane = 0; lane < lanes; ++lane)
      if (composite_.loops())
        composite_.project(lambda.data(), lane);
      else if (!null_spaces_[z(lane)].empty())
        null_spaces_[z(lane)].project(lambda.data(), lane);
  }

  /// The factor that solve() uses, where not all joints are welds. Where all are, it uses the composite body.
  const KernelFactor<Real>& factor() const { return factor_; }
  CompositeBody<Real>& composite() { return composite_; }
  const CompositeBody<Real>& composite() const { return composite_; }

 private:
  using V = Vector3<Real>;
  using Body = typename Rows::Body;
  using Point = typename Rows::template Row<PointPrimitive>;
  using WeightedPoint = std::array<std::array<V, 3>, 2>;  // K times the angular parts of its rows, by side
  using ByRow = std::array<Real, SymbolicFactor::max_width>;
  struct OfRows {  // of a joint, by component: linear parts of its rows on side 0, and K times the angular parts
                   // by side
    ByRow v[3], on[2][3];
  };

  static constexpr double null_space_too_large = -2;  // a margin that names the reason

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  Real factor_composite(const SymbolicFactor& p, const Rows& rows) {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      typename CompositeBody<Real>::Weld& to = composite_.welds[i];
      const SymbolicFactor::Node& node = p.nodes[i];
      for_each_of<PointPrimitive>(node.primitives, [&](std::size_t k) {
        const auto& point = rows.rows.template of<PointPrimitive>()[k];
        to.r_A = point.r_A, to.r_B = point.r_B;
      });
      std::size_t dot = 0;
      for_each_of<DotPrimitive>(node.primitives,
                                [&](std::size_t k) { to.n[dot++] = rows.rows.template of<DotPrimitive>()[k].n; });
    }
    for (std::size_t i = 0; i < rows.moving; ++i) {
      const Body& from = rows.bodies[i];
      const Rotation3<Real>& R = rows.rotations[i];
      const V x = componentwise_product(R.x, from.inertia), y = componentwise_product(R.y, from.inertia),
              w = componentwise_product(R.z, from.inertia);
      composite_.bodies[i] = {from.mass,   from.p,      dot(x, R.x), dot(y, R.y),
                              dot(w, R.z), dot(x, R.y), dot(x, R.z), dot(y, R.z)};
    }
    redundant_ = composite_.loops();
    return composite_.factor();
  }

  // Assembles G = A M⁻¹ Aᵀ, and γ on its diagonal, in the places of its factor.
  void fill(const SymbolicFactor& p, Rows& rows, const AlignedVector<Real>& gamma) {
    Real* const values = factor_.clear();
    for_each_primitive([&]<class P>(P) {
      if constexpr (P::rows == 1)
        for (auto& k : rows.rows.template of<P>())
          for (const int side : {0, 1})
            if (const std::size_t body = z(side == 0 ? k.a : k.b); body < rows.moving)
              k.weighted[z(side)] = P::weighted_rows(k, side, rows.inverse_masses[body].angular)[0];
    });
    WeightedPoint ball;
    const auto& points = rows.rows.template of<PointPrimitive>();
    OfRows of{};
    int ball_of = -1, width_of = -1;
    for (const SymbolicFactor::BlockPair& m : p.block_pairs) {  // pairs of one node j follow each other
      const Real inverse = rows.inverse_masses[z(m.body)].linear;
      const Real linear = m.side_i == m.side_j ? inverse : -inverse;
      Real* const to = values + m.target;
      if (m.point_i >= 0) {
        if (std::exchange(ball_of, m.j) != m.j) ball = weighted(rows, points[z(m.point_j)]);
        add_products(points[z(m.point_i)], m.side_i, ball[z(m.side_j)], linear, m.i == m.j, to);
        continue;
      }
      if (std::exchange(width_of, m.j) != m.j) take_rows(p.nodes[z(m.j)], rows, of);
      const int width = p.nodes[z(m.j)].width;
      KernelFactor<Real>::of_width(width, [&](auto known) {
        add_products<decltype(known)::value>(p.nodes[z(m.i)], m, rows, of, linear, width, to);
      });
    }
    for (std::size_t i = 0; i < gamma.size(); ++i) values[p.compliant[i].diagonal] += gamma[i];
    if (!p.high_degree_bodies.empty()) fill_high_degree(p, rows);
  }

  static WeightedPoint weighted(const Rows& rows, const Point& point) {
    WeightedPoint to{};
    for (const int side : {0, 1})
      if (const std::size_t body = z(side == 0 ? point.a : point.b); body < rows.moving)
        to[z(side)] = PointPrimitive::weighted_rows(point, side, rows.inverse_masses[body].angular);
    return to;
  }

  // Writes the columns of high-degree bodies, what they add to the lengths of rows, and their masses.
  void fill_high_degree(const SymbolicFactor& p, const Rows& rows) {
    constexpr int stride = SymbolicFactor::body_stride;
    for (const SymbolicFactor::HighDegreeEnd& end : p.high_degree_ends) {
      const SymbolicFactor::Node& node = p.nodes[z(end.node)];
      const InverseMass<Real>& K = rows.inverse_masses[z(end.body)];
      Real* to = factor_.couplings() + end.values;
      Real* length = factor_.lengths() + node.first;
      for_each_primitive([&]<class P>(P) {
        for_each_of<P>(node.primitives, [&](std::size_t k) {
          const auto& row = rows.rows.template of<P>()[k];
          const auto weighted = P::weighted_rows(row, end.side, K.angular);
          std::size_t i = 0;
          P::for_each_row(row, end.side, [&](const V& v, const V& w) {
            to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = w.x, to[4] = w.y, to[5] = w.z;
            to += stride;
            *length++ += K.linear * dot(v, v) + dot(w, weighted[i++]);
          });
        });
      });
    }
    for (std::size_t i = 0; i < p.high_degree_bodies.size(); ++i) {
      const Body& body = rows.bodies[z(p.high_degree_bodies[i])];
      const Rotation3<Real>& R = rows.rotations[z(p.high_degree_bodies[i])];
      Real* to = factor_.high_degree_mass(static_cast<int>(i));
      for (int k = 0; k < 3; ++k, to += stride) to[k] = body.mass;
      for (const V* x : {&R.x, &R.y, &R.z}) {
        const V I = componentwise_product(*x, body.inertia);
        to[3] = dot(I, R.x), to[4] = dot(I, R.y), to[5] = dot(I, R.z);
        to += stride;
      }
    }
  }

  // Adds the product of two points: (r × e_x) · on[0] and so on; of a diagonal block the lower half.
  static void add_products(const Point& point, int side, const std::array<V, 3>& on, const Real& linear, bool lower,
                           Real* x) {
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
    for_each_primitive([&]<class P>(P) {
      for_each_of<P>(node.primitives, [&](std::size_t k) {
        const auto& own = rows.rows.template of<P>()[k];
        std::size_t i = 0;
        if constexpr (P::rows == 1) {
          P::for_each_row(own, 0, [&](const V& v, const V&) { add(v, own.weighted[0], own.weighted[1]); });
        } else {
          const WeightedPoint both = weighted(rows, own);
          P::for_each_row(own, 0, [&](const V& v, const V&) { add(v, both[0][i], both[1][i]), ++i; });
        }
      });
    });
  }

  // Adds the product of a joint with the rows of another or its own; of a diagonal block at least the lower half.
  template <int W>
  static void add_products(const SymbolicFactor::Node& i, const SymbolicFactor::BlockPair& m, const Rows& rows,
                           const OfRows& of, const Real& linear, int width, Real* to) {
    const auto& v = of.v;
    const auto& on = of.on[m.side_j];
    const bool lower = m.i == m.j;
    int row = 0;
    const auto add = [&](const Real& a, const ByRow& A, const Real& b, const ByRow& B, const Real& c, const ByRow& C) {
      add_row<W>(to, lower ? row + 1 : width, a, A, b, B, c, C);
    };
    const auto next = [&] { ++row, to += W > 0 ? W : width; };
    for_each_primitive([&]<class P>(P) {
      for_each_of<P>(i.primitives, [&](std::size_t k) {
        P::multiply(rows.rows.template of<P>()[k], m.side_i, linear, v, on, add, next);
      });
    });
  }

  template <int W>
  [[gnu::always_inline]] static void add_row(Real* to, int count, const Real& a, const ByRow& A, const Real& b,
                                             const ByRow& B, const Real& c, const ByRow& C) {
    const auto one = [&](int k) { to[k] += a * A[z(k)] + (b * B[z(k)] + c * C[z(k)]); };
    if constexpr (W >= 4 && lanes == 1) {  // all of them
      const auto four = [](const double* from) {
        Vec4d x;
        std::memcpy(&x, from, sizeof x);
        return x;
      };
      const Vec4d sum = four(to) + (a * four(A.data()) + (b * four(B.data()) + c * four(C.data())));
      std::memcpy(to, &sum, sizeof sum);
      if constexpr (W > 4) one(4);
      if constexpr (W > 5) one(5);
    } else {
      for (int k = 0; k < count; ++k) one(k);
    }
  }

  KernelFactor<Real> factor_;
  CompositeBody<Real> composite_;
  std::array<KernelNullSpace, std::size_t{lanes}> null_spaces_;
  bool redundant_ = false;  // in some lane
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
