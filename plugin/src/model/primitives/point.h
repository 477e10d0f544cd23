// The point primitive.
#pragma once

#include "math/vec3.h"

#include <linchpin/joints.h>

#include <array>
#include <tuple>
#include <type_traits>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The point primitive (P): the point Q of A and the point Q of B stay together. It has three rows, along the world
/// axes.
///
///     φ   = (p_A − p_B) + (r_A − r_B)                             [m]
///     φ̇   = (v_A + ω_A × r_A) − (v_B + ω_B × r_B)                 [m/s]
///     b   = ω_B × (ω_B × r_B) − ω_A × (ω_A × r_A)                 of A v̇ = b (T3)
///     Aᵀλ = force λ at Q of A, force −λ at Q of B
///
///     p_A, p_B  centres of mass (W)
///     r_A, r_B  arms R_A p_AQ and R_B p_BQ, from the centres of mass to the points (W)
///     v, ω      velocity of the centre of mass, and angular velocity (W)
///
/// V is a vector, of Eigen or of math/vec3.h. Side 0 is A, side 1 is B.
struct PointPrimitive {
  static constexpr int rows = 3;
  static constexpr RowUnit unit = RowUnit::metre;
  static constexpr bool gather_start = true, gather_end = true;  ///< The fast kernel computes four points at a time.

  using Parameters = JointRows::Point;
  static const auto& of(const JointRows& joint) { return joint.points; }
  static constexpr auto parameters() { return std::tuple{&Parameters::p_AQ, &Parameters::p_BQ}; }

  /// The vectors that are fixed in the bodies (body axes), and the lengths of the arms.
  template <class V>
  struct Geometry {
    V p_AQ, p_BQ;
    ScalarOf<V> length_A, length_B;
    static constexpr int count = 8;  ///< numbers of it
    static constexpr auto members() {
      return std::tuple{&Geometry::p_AQ, &Geometry::p_BQ, &Geometry::length_A, &Geometry::length_B};
    }
  };
  static Geometry<Vector3d> geometry(const Parameters& p) { return {p.p_AQ, p.p_BQ, p.p_AQ.norm(), p.p_BQ.norm()}; }

  /// The primitive at the start of a step (W).
  template <class V>
  struct Start {
    V r_A, r_B, phi;
    static constexpr auto members() { return std::tuple{&Start::r_A, &Start::r_B, &Start::phi}; }
  };
  template <class V>
  using Value = V;  ///< of φ

  /// @param separation  p_A − p_B
  template <class V, class Fixed, class Rotation>
  static Start<V> start(const Fixed& fixed, const Rotation& R_A, const Rotation& R_B, const V& separation) {
    const V r_A = R_A * fixed.p_AQ, r_B = R_B * fixed.p_BQ;
    return {r_A, r_B, separation + (r_A - r_B)};
  }

  /// φ̇ and b.
  template <class V>
  struct Motion {
    V phi_dot, bias;
  };
  template <class V, class Twist>
  static Motion<V> motion(const Start<V>& k, const Twist& A, const Twist& B) {
    const V v_A = cross(A.w, k.r_A), v_B = cross(B.w, k.r_B);
    return {velocity_difference(A.v, v_A, B.v, v_B), cross(B.w, v_B) - cross(A.w, v_A)};
  }

  /// A times the twists of the bodies.
  template <class V, class Twist>
  static auto rate(const Start<V>& k, const Twist& A, const Twist& B) -> std::decay_t<decltype(cross(A.w, k.r_A))> {
    return (A.v + cross(A.w, k.r_A)) - (B.v + cross(B.w, k.r_B));
  }

  /// φ at the end of a step. @param separation  what the step adds to p_A − p_B
  /// @param added  added(side, i, u): what the step adds to the i-th of the vectors that are fixed in bodies
  template <class V, class Added>
  static V end_residual(const Start<V>& k, const V& separation, const Added& added) {
    const V added_A = added(0, 0, k.r_A), added_B = added(1, 1, k.r_B);
    return k.phi + (separation + (added_A - added_B));
  }
  /// The vectors that are fixed in bodies, in that order: visit(side, i, in body axes).
  static constexpr int fixed_vectors = 2;
  template <class Fixed, class Visit>
  static void for_each_fixed_vector(const Fixed& fixed, Visit visit) {
    visit(0, 0, fixed.p_AQ), visit(1, 1, fixed.p_BQ);
  }

  /// Adds Aᵀλ of one side to a wrench about the centre of mass. @param lambda  of its rows
  template <class V, class X, class Wrench>
  static void add_constraint_force(const Start<V>& k, const X* lambda, int side, Wrench& on) {
    const auto f = Wrench::load(lambda);
    if (side == 0)
      on.v += f, on.w += cross(Wrench::vector(k.r_A), f);
    else
      on.v -= f, on.w -= cross(Wrench::vector(k.r_B), f);
  }

  /// Visits the rows of A of one side: visit(linear, angular).
  template <class V, class Visit>
  static void for_each_row(const Start<V>& k, int side, Visit visit) {
    using Real = ScalarOf<V>;
    const Real zero{}, one = zero + (side == 0 ? 1. : -1.);
    const V r = side == 0 ? k.r_A : V(-k.r_B);
    visit(V{one, zero, zero}, V{zero, z_of(r), -y_of(r)});
    visit(V{zero, one, zero}, V{-z_of(r), zero, x_of(r)});
    visit(V{zero, zero, one}, V{y_of(r), -x_of(r), zero});
  }
  /// The inverse inertia K (W) times the angular part of each of those rows.
  template <class V, class Inertia>
  static std::array<V, 3> weighted_rows(const Start<V>& k, int side, const Inertia& K) {
    const V r = side == 0 ? k.r_A : V(-k.r_B);  // K (0, z, −y), K (−z, 0, x), K (y, −x, 0)
    return {V{K.xy * r.z - K.xz * r.y, K.yy * r.z - K.yz * r.y, K.yz * r.z - K.zz * r.y},
            V{K.xz * r.x - K.xx * r.z, K.yz * r.x - K.xy * r.z, K.zz * r.x - K.xz * r.z},
            V{K.xx * r.y - K.xy * r.x, K.xy * r.y - K.yy * r.x, K.xz * r.y - K.yz * r.x}};
  }
  /// Visits its rows of one side times columns, by component `linear` columns v and angular columns w: products of A
  /// that are sums of three terms, add(a, column, b, column, c, column), and next() after each row.
  template <class V, class Columns, class Add, class Next>
  static void multiply(const Start<V>& k, int side, const ScalarOf<V>& mass, const Columns& v, const Columns& w,
                       Add add, Next next) {
    const V r = side == 0 ? k.r_A : V(-k.r_B);
    add(mass, v[0], r.z, w[1], -r.y, w[2]), next();
    add(mass, v[1], r.x, w[2], -r.z, w[0]), next();
    add(mass, v[2], r.y, w[0], -r.x, w[1]), next();
  }

  /// Visits the forces whose arms give the geometric stiffness Σ (r·f) 1 − r fᵀ (T15): visit(side, r, f).
  template <class V, class X, class Visit>
  static void for_each_tension(const Start<V>& k, const X* lambda, Visit visit) {
    const V f{lambda[0], lambda[1], lambda[2]};
    visit(0, k.r_A, f);
    visit(1, k.r_B, V(-f));
  }
  /// Adds |r||f| of those forces by side, which bounds the stiffness.
  template <class V, class Fixed, class X>
  static void add_tension_bound(const Start<V>&, const Fixed& fixed, const X* lambda, X& on_A, X& on_B) {
    const Vector3<X> f{lambda[0], lambda[1], lambda[2]};
    const X force = square_root(dot(f, f));
    on_A += force * fixed.length_A;
    on_B += force * fixed.length_B;
  }

  /// The size of the terms that φ is a sum of, which its rounding is proportional to.
  /// @param positions  the largest coordinates of p_A and p_B, added up
  template <class V>
  static V residual_scale(const Start<V>& k, const ScalarOf<V>& positions) {
    const V a = absolute(k.r_A), b = absolute(k.r_B);
    return {positions + (a.y + a.z) + (b.y + b.z), positions + (a.x + a.z) + (b.x + b.z),
            positions + (a.x + a.y) + (b.x + b.y)};
  }

  /// φ at poses. @tparam Pose  has p, the centre of mass, and rotate(u), a vector of the body in world axes
  template <class Pose>
  static Vector3d residual(const Parameters& fixed, const Pose& A, const Pose& B) {
    const Vector3d r_A = A.rotate(fixed.p_AQ), r_B = B.rotate(fixed.p_BQ);
    return (A.p - B.p) + (r_A - r_B);
  }
  /// The gap that a report shows [m].
  static double gap(const Vector3d& phi) { return phi.norm(); }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
