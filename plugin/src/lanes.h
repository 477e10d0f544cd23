// Numbers one by one or several side by side, and vectors in space of either: what JointKernel is written in.
#pragma once

#include <cmath>

namespace linchpin::detail {

/// Access to the lanes of a number.
template <class Real>
struct Lanes;
template <>
struct Lanes<double> {
  static constexpr int count = 1;
  static double get(double x, int) { return x; }
  static void set(double& x, int, double to) { x = to; }
  static double all(double x) { return x; }
};

inline double larger(double a, double b) { return a > b ? a : b; }
inline double smaller(double a, double b) { return a < b ? a : b; }
inline double magnitude(double a) { return std::fabs(a); }
inline double root(double a) { return std::sqrt(a); }

template <class Real>
struct V3 {
  Real x, y, z;
  V3 operator+(const V3& u) const { return {x + u.x, y + u.y, z + u.z}; }
  V3 operator-(const V3& u) const { return {x - u.x, y - u.y, z - u.z}; }
  V3 operator-() const { return {-x, -y, -z}; }
  V3& operator+=(const V3& u) { return x += u.x, y += u.y, z += u.z, *this; }
  V3& operator-=(const V3& u) { return x -= u.x, y -= u.y, z -= u.z, *this; }
};
template <class Scale, class Real>
V3<Real> operator*(const Scale& s, const V3<Real>& u) {
  return {s * u.x, s * u.y, s * u.z};
}
template <class Real>
Real dot(const V3<Real>& a, const V3<Real>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class Real>
V3<Real> cross(const V3<Real>& a, const V3<Real>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
/// Component by component.
template <class Real>
V3<Real> scaled(const V3<Real>& a, const V3<Real>& b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z};
}
template <class Real>
V3<Real> absolute(const V3<Real>& u) {
  return {magnitude(u.x), magnitude(u.y), magnitude(u.z)};
}
/// The largest of its components, without their signs.
template <class Real>
Real largest(const V3<Real>& u) {
  return larger(magnitude(u.x), larger(magnitude(u.y), magnitude(u.z)));
}

/// sin t / t and (1 − cos t) / t² of t².
inline void turn_factors(double t2, double& sine, double& versine) {
  // Below the bound the next terms of the series are under 1e-18.
  if (t2 < 4e-2) {
    sine = 1 - t2 * (1. / 6 - t2 * (1. / 120 - t2 * (1. / 5040 - t2 * (1. / 362880 - t2 * (1. / 39916800)))));
    versine = 0.5 - t2 * (1. / 24 - t2 * (1. / 720 - t2 * (1. / 40320 - t2 * (1. / 3628800 - t2 * (1. / 479001600)))));
  } else {
    const double t = std::sqrt(t2), half = std::sin(0.5 * t) / t;
    sine = std::sin(t) / t;
    versine = 2 * half * half;
  }
}

}  // namespace linchpin::detail
