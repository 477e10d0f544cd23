// Vectors in space whose components are of any number type: double, or several numbers side by side (math/simd.h). The
// names that the primitives use for them (dot, cross, x_of) work for Eigen's vectors, too.
//
// A file that is compiled for more than the least of processors defines LINCHPIN_SIMD (see math/so3_exp.h). Its
// functions then have names of their own, and the linker does not take them for those of the other files.
#pragma once

#include "math/so3_exp.h"

#include <Eigen/Core>
#include <Eigen/Geometry>

#include <cmath>
#include <type_traits>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

// ---- numbers; of several side by side each is treated as it would be alone

template <class X>
X maximum(const X& a, const X& b) {
  return a > b ? a : b;
}
template <class X>
X minimum(const X& a, const X& b) {
  return a < b ? a : b;
}
inline double absolute(double a) { return std::fabs(a); }
template <class X>
X absolute(const X& a) {
  return a < 0 ? -a : a;
}
inline double square_root(double a) { return std::sqrt(a); }
template <class X>
X square_root(const X& a) {
  X to{};
  for (unsigned lane = 0; lane < sizeof(X) / sizeof(double); ++lane) to[lane] = std::sqrt(a[lane]);
  return to;
}
/// Returns x where a < b, and y elsewhere.
template <class X>
X select_less(const X& a, const X& b, const X& x, const X& y) {
  return a < b ? x : y;
}

// ---- vectors

template <class X>
struct Vector3 {
  X x, y, z;
  Vector3 operator+(const Vector3& u) const { return {x + u.x, y + u.y, z + u.z}; }
  Vector3 operator-(const Vector3& u) const { return {x - u.x, y - u.y, z - u.z}; }
  Vector3 operator-() const { return {-x, -y, -z}; }
  Vector3& operator+=(const Vector3& u) { return x += u.x, y += u.y, z += u.z, *this; }
  Vector3& operator-=(const Vector3& u) { return x -= u.x, y -= u.y, z -= u.z, *this; }
};
/// One vector may scale to several vectors side by side.
template <class Scale, class X>
auto operator*(const Scale& s, const Vector3<X>& u) -> Vector3<std::decay_t<decltype(s * u.x)>> {
  return {s * u.x, s * u.y, s * u.z};
}
template <class A, class B>
auto dot(const Vector3<A>& a, const Vector3<B>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class A, class B>
auto cross(const Vector3<A>& a, const Vector3<B>& b) -> Vector3<std::decay_t<decltype(a.x * b.x)>> {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class X>
Vector3<X> componentwise_product(const Vector3<X>& a, const Vector3<X>& b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z};
}
template <class X>
Vector3<X> componentwise_quotient(const Vector3<X>& a, const Vector3<X>& b) {
  return {a.x / b.x, a.y / b.y, a.z / b.z};
}
template <class X>
X componentwise_quotient(const X& a, const X& b) {
  return a / b;
}
template <class X>
Vector3<X> absolute(const Vector3<X>& u) {
  return {absolute(u.x), absolute(u.y), absolute(u.z)};
}
/// The largest magnitude of a component.
template <class X>
X max_abs(const Vector3<X>& u) {
  return maximum(absolute(u.x), maximum(absolute(u.y), absolute(u.z)));
}
template <class X>
X max_abs(const X& x) {
  return absolute(x);
}
/// The sum of the components. A sum of one number is that number.
template <class X>
X sum(const Vector3<X>& u) {
  return u.x + u.y + u.z;
}
template <class X>
X sum(const X& x) {
  return x;
}

inline double dot(const Eigen::Vector3d& a, const Eigen::Vector3d& b) { return a.dot(b); }
inline Eigen::Vector3d cross(const Eigen::Vector3d& a, const Eigen::Vector3d& b) { return a.cross(b); }

/// (v_A + ω_A × r_A) − (v_B + ω_B × r_B), the difference of the velocities of two points. Eigen's vectors are summed
/// from left to right, so that the general solver keeps the last bits of its results.
template <class A, class B, class C, class D>
auto velocity_difference(const A& v_A, const B& spin_A, const C& v_B, const D& spin_B)
    -> std::decay_t<decltype(spin_A - spin_B)> {
  return (v_A + spin_A) - (v_B + spin_B);
}
inline Eigen::Vector3d velocity_difference(const Eigen::Vector3d& v_A, const Eigen::Vector3d& spin_A,
                                           const Eigen::Vector3d& v_B, const Eigen::Vector3d& spin_B) {
  return v_A + spin_A - v_B - spin_B;
}

/// The components of a vector by name, for code that serves both kinds of vector.
template <class X>
const X& x_of(const Vector3<X>& u) {
  return u.x;
}
template <class X>
const X& y_of(const Vector3<X>& u) {
  return u.y;
}
template <class X>
const X& z_of(const Vector3<X>& u) {
  return u.z;
}
inline double x_of(const Eigen::Vector3d& u) { return u.x(); }
inline double y_of(const Eigen::Vector3d& u) { return u.y(); }
inline double z_of(const Eigen::Vector3d& u) { return u.z(); }

/// The number type of a vector.
template <class V>
using ScalarOf = std::decay_t<decltype(x_of(std::declval<V>()))>;

/// A rotation matrix by its rows.
template <class X>
struct Rotation3 {
  Vector3<X> x, y, z;
};
template <class X>
Vector3<X> operator*(const Rotation3<X>& R, const Vector3<X>& u) {
  return {dot(R.x, u), dot(R.y, u), dot(R.z, u)};
}
/// Rᵀ u
template <class X>
Vector3<X> transposed_times(const Rotation3<X>& R, const Vector3<X>& u) {
  return {R.x.x * u.x + R.y.x * u.y + R.z.x * u.z, R.x.y * u.x + R.y.y * u.y + R.z.y * u.z,
          R.x.z * u.x + R.y.z * u.y + R.z.z * u.z};
}

/// A twist (velocity and angular velocity) or a wrench (force and moment about the centre of mass).
template <class X>
struct SpatialVector {
  Vector3<X> v, w;
  SpatialVector operator+(const SpatialVector& u) const { return {v + u.v, w + u.w}; }
  SpatialVector operator-(const SpatialVector& u) const { return {v - u.v, w - u.w}; }
  /// A vector, and three numbers that follow each other, in the form that v and w have.
  template <class Y>
  static const Vector3<Y>& vector(const Vector3<Y>& u) {
    return u;
  }
  static Vector3<X> load(const X* first) { return {first[0], first[1], first[2]}; }
};

/// The displacement of a body in a step. The rotation by a vector t adds to a vector r that is fixed in the body
/// (sin t / t) t × r + ((1 − cos t) / t²) t × (t × r). Sums are of the size of the step, and not of the world.
template <class V>
struct Displacement {
  V translation, rotation;
  ScalarOf<V> sine, versine;  ///< sin t / t and (1 − cos t) / t²
  V added(const V& r) const {
    const V across = cross(rotation, r);
    return sine * across + versine * cross(rotation, across);
  }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
