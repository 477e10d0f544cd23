// The axis primitive.
#pragma once

#include "math/vec3.h"

#include <linchpin/joints.h>

#include <array>
#include <cmath>
#include <tuple>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The axis primitive (L): the point Q of B stays at the distance d0 from the point Q of A, along an axis u of A. It
/// has one row.
///
///     φ   = u · d − d0                                            [m]
///     φ̇   = u̇ · d + u · ḋ                                         [m/s]
///     b   = −(ü · d + 2 u̇ · ḋ + u · d̈) with v̇ = 0                 of A v̇ = b (T3)
///     A   = [−u, c_A, u, c_B]
///     Aᵀλ = force −λ u on A and force λ u on B, both at Q of B
///
///     u         the axis R_A u_A (W)
///     r_A, r_B  arms R_A p_AQ and R_B p_BQ (W)
///     d         (p_B − p_A) + (r_B − r_A), from Q of A to Q of B (W)
///     c_A, c_B  u × (r_A + d) and r_B × u, the angular parts of the row
///
/// V is a vector, of Eigen or of math/vec3.h. Side 0 is A, side 1 is B. The functions are those of PointPrimitive.
struct AxisPrimitive {
  static constexpr int rows = 1;
  static constexpr RowUnit unit = RowUnit::metre;
  static constexpr bool gather_start = false, gather_end = false;

  using Parameters = JointRows::Axis;
  static const auto& of(const JointRows& joint) { return joint.axes; }
  static constexpr auto parameters() {
    return std::tuple{&Parameters::u_A, &Parameters::p_AQ, &Parameters::p_BQ, &Parameters::d0};
  }

  template <class V>
  struct Geometry {
    V u_A, p_AQ, p_BQ;
    ScalarOf<V> d0;
    static constexpr int count = 10;  ///< numbers of it
    static constexpr auto members() {
      return std::tuple{&Geometry::u_A, &Geometry::p_AQ, &Geometry::p_BQ, &Geometry::d0};
    }
  };
  static Geometry<Vector3d> geometry(const Parameters& p) { return {p.u_A, p.p_AQ, p.p_BQ, p.d0}; }

  template <class V>
  struct Start {
    V u, r_A, r_B, d, c_A, c_B;
    ScalarOf<V> phi;
    static constexpr auto members() {
      return std::tuple{&Start::u, &Start::r_A, &Start::r_B, &Start::d, &Start::c_A, &Start::c_B, &Start::phi};
    }
  };
  template <class V>
  using Value = ScalarOf<V>;

  template <class V, class Fixed, class Rotation>
  static Start<V> start(const Fixed& fixed, const Rotation& R_A, const Rotation& R_B, const V& separation) {
    const V u = R_A * fixed.u_A, r_A = R_A * fixed.p_AQ, r_B = R_B * fixed.p_BQ;
    const V d = (r_B - r_A) - separation, at_B = r_A + d;
    return {u, r_A, r_B, d, cross(u, at_B), cross(r_B, u), dot(u, d) - fixed.d0};
  }

  template <class V>
  struct Motion {
    ScalarOf<V> phi_dot, bias;
  };
  template <class V, class Twist>
  static Motion<V> motion(const Start<V>& k, const Twist& A, const Twist& B) {
    const V v_A = cross(A.w, k.r_A), v_B = cross(B.w, k.r_B);
    const V d_dot = velocity_difference(B.v, v_B, A.v, v_A), u_dot = cross(A.w, k.u);
    const V centripetal = cross(B.w, v_B) - cross(A.w, v_A);
    return {dot(u_dot, k.d) + dot(k.u, d_dot),
            -(dot(cross(A.w, u_dot), k.d) + 2 * dot(u_dot, d_dot) + dot(k.u, centripetal))};
  }

  template <class V, class Twist>
  static auto rate(const Start<V>& k, const Twist& A, const Twist& B) {
    const auto relative = B.v - A.v;
    return dot(k.u, relative) + (dot(k.c_A, A.w) + dot(k.c_B, B.w));
  }

  /// (u + Δu) · (d + Δd) − d0, less the φ of the start, is of the size of the step.
  template <class V, class Added>
  static ScalarOf<V> end_residual(const Start<V>& k, const V& separation, const Added& added) {
    const V added_u = added(0, 0, k.u), added_A = added(0, 1, k.r_A), added_B = added(1, 2, k.r_B);
    const V added_d = (added_B - added_A) - separation, u = k.u + added_u;
    return k.phi + (dot(added_u, k.d) + dot(u, added_d));
  }
  static constexpr int fixed_vectors = 3;
  template <class Fixed, class Visit>
  static void for_each_fixed_vector(const Fixed& fixed, Visit visit) {
    visit(0, 0, fixed.u_A), visit(0, 1, fixed.p_AQ), visit(1, 2, fixed.p_BQ);
  }

  template <class V, class X, class Wrench>
  static void add_constraint_force(const Start<V>& k, const X* lambda, int side, Wrench& on) {
    const X p = lambda[0];
    if (side == 0)
      on.v -= p * Wrench::vector(k.u), on.w += p * Wrench::vector(k.c_A);
    else
      on.v += p * Wrench::vector(k.u), on.w += p * Wrench::vector(k.c_B);
  }

  template <class V, class Visit>
  static void for_each_row(const Start<V>& k, int side, Visit visit) {
    if (side == 0)
      visit(V(-k.u), k.c_A);
    else
      visit(k.u, k.c_B);
  }
  template <class V, class Inertia>
  static std::array<V, 1> weighted_rows(const Start<V>& k, int side, const Inertia& K) {
    return {K * (side == 0 ? k.c_A : k.c_B)};
  }
  template <class V, class Columns, class Add, class Next>
  static void multiply(const Start<V>& k, int side, const ScalarOf<V>& mass, const Columns& v, const Columns& w,
                       Add add, Next next) {
    const V &arm = side == 0 ? k.c_A : k.c_B, along = -mass * k.u;
    add(along.x, v[0], along.y, v[1], along.z, v[2]);
    add(arm.x, w[0], arm.y, w[1], arm.z, w[2]), next();
  }

  template <class V, class X, class Visit>
  static void for_each_tension(const Start<V>& k, const X* lambda, Visit visit) {
    const V f = lambda[0] * k.u;
    visit(0, V(k.r_A + k.d), V(-f));
    visit(1, k.r_B, f);
  }
  template <class V, class Fixed, class X>
  static void add_tension_bound(const Start<V>& k, const Fixed&, const X* lambda, X& on_A, X& on_B) {
    const X force = absolute(lambda[0]);
    const V r_A = k.r_A + k.d;
    on_A += force * square_root(dot(r_A, r_A));
    on_B += force * square_root(dot(k.r_B, k.r_B));
  }

  template <class V>
  static ScalarOf<V> residual_scale(const Start<V>& k, const ScalarOf<V>& positions) {
    const V u = absolute(k.u), a = absolute(k.c_A), b = absolute(k.c_B);
    return (u.x + u.y + u.z) * positions + (a.x + a.y + a.z) + (b.x + b.y + b.z);
  }

  template <class Pose>
  static double residual(const Parameters& fixed, const Pose& A, const Pose& B) {
    const Vector3d u = A.rotate(fixed.u_A), r_A = A.rotate(fixed.p_AQ), r_B = B.rotate(fixed.p_BQ);
    return u.dot((B.p - A.p) + (r_B - r_A)) - fixed.d0;
  }
  /// [m]
  static double gap(double phi) { return std::fabs(phi); }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
