// The dot primitive.
#pragma once

#include "math/vec3.h"

#include <linchpin/joints.h>

#include <array>
#include <cmath>
#include <tuple>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The dot primitive (D): a vector u of A and a vector w of B keep their angle. It has one row.
///
///     φ   = u · w − c                                             [rad]
///     φ̇   = n · (ω_A − ω_B)                                       [rad/s]
///     b   = −(ü · w + 2 u̇ · ẇ + u · ẅ) with v̇ = 0                 of A v̇ = b (T3)
///     A   = [0, n, 0, −n]
///     Aᵀλ = moment λ n on A, moment −λ n on B
///
///     u, w  R_A u_A and R_B w_B (W)
///     n     u × w
///
/// V is a vector, of Eigen or of math/vec3.h. Side 0 is A, side 1 is B. The functions are those of PointPrimitive.
struct DotPrimitive {
  static constexpr int rows = 1;
  static constexpr RowUnit unit = RowUnit::radian;
  static constexpr bool gather_start = false, gather_end = true;

  using Parameters = JointRows::Dot;
  static const auto& of(const JointRows& joint) { return joint.dots; }
  static constexpr auto parameters() { return std::tuple{&Parameters::u_A, &Parameters::w_B, &Parameters::c}; }

  template <class V>
  struct Geometry {
    V u_A, w_B;
    ScalarOf<V> c;
    static constexpr int count = 7;  ///< numbers of it
    static constexpr auto members() { return std::tuple{&Geometry::u_A, &Geometry::w_B, &Geometry::c}; }
  };
  static Geometry<Vector3d> geometry(const Parameters& p) { return {p.u_A, p.w_B, p.c}; }

  template <class V>
  struct Start {
    V u, w, n;
    ScalarOf<V> c, phi;
    static constexpr auto members() { return std::tuple{&Start::u, &Start::w, &Start::n, &Start::c, &Start::phi}; }
  };
  template <class V>
  using Value = ScalarOf<V>;

  template <class V, class Fixed, class Rotation>
  static Start<V> start(const Fixed& fixed, const Rotation& R_A, const Rotation& R_B, const V&) {
    const V u = R_A * fixed.u_A, w = R_B * fixed.w_B;
    return {u, w, cross(u, w), fixed.c, dot(u, w) - fixed.c};
  }

  template <class V>
  struct Motion {
    ScalarOf<V> phi_dot, bias;
  };
  template <class V, class Twist>
  static Motion<V> motion(const Start<V>& k, const Twist& A, const Twist& B) {
    const V u_dot = cross(A.w, k.u), w_dot = cross(B.w, k.w), relative = A.w - B.w;
    return {dot(k.n, relative), -(dot(cross(A.w, u_dot), k.w) + 2 * dot(u_dot, w_dot) + dot(k.u, cross(B.w, w_dot)))};
  }

  template <class V, class Twist>
  static auto rate(const Start<V>& k, const Twist& A, const Twist& B) {
    const auto relative = A.w - B.w;
    return dot(k.n, relative);
  }

  template <class V, class Added>
  static ScalarOf<V> end_residual(const Start<V>& k, const V&, const Added& added) {
    const V u = k.u + added(0, 0, k.u), w = k.w + added(1, 1, k.w);
    return dot(u, w) - k.c;
  }
  static constexpr int fixed_vectors = 2;
  template <class Fixed, class Visit>
  static void for_each_fixed_vector(const Fixed& fixed, Visit visit) {
    visit(0, 0, fixed.u_A), visit(1, 1, fixed.w_B);
  }

  template <class V, class X, class Wrench>
  static void add_constraint_force(const Start<V>& k, const X* lambda, int side, Wrench& on) {
    const auto m = lambda[0] * Wrench::vector(k.n);
    if (side == 0)
      on.w += m;
    else
      on.w -= m;
  }

  template <class V, class Visit>
  static void for_each_row(const Start<V>& k, int side, Visit visit) {
    using Real = ScalarOf<V>;
    visit(V{Real{}, Real{}, Real{}}, side == 0 ? k.n : V(-k.n));
  }
  template <class V, class Inertia>
  static std::array<V, 1> weighted_rows(const Start<V>& k, int side, const Inertia& K) {
    const V w = K * k.n;
    return {side == 0 ? w : V(-w)};
  }
  template <class V, class Columns, class Add, class Next>
  static void multiply(const Start<V>& k, int side, const ScalarOf<V>&, const Columns&, const Columns& w, Add add,
                       Next next) {
    const V n = side == 0 ? k.n : V(-k.n);
    add(n.x, w[0], n.y, w[1], n.z, w[2]), next();
  }

  /// It has moments alone, which give no geometric stiffness.
  template <class V, class X, class Visit>
  static void for_each_tension(const Start<V>&, const X*, Visit) {}
  template <class V, class Fixed, class X>
  static void add_tension_bound(const Start<V>&, const Fixed&, const X*, X&, X&) {}

  template <class V>
  static ScalarOf<V> residual_scale(const Start<V>& k, const ScalarOf<V>&) {
    const V n = absolute(k.n);
    return 2 * (n.x + n.y + n.z);
  }

  template <class Pose>
  static double residual(const Parameters& fixed, const Pose& A, const Pose& B) {
    return A.rotate(fixed.u_A).dot(B.rotate(fixed.w_B)) - fixed.c;
  }
  /// [rad]
  static double gap(double phi) { return std::fabs(phi); }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
