// The number types that derivatives are made of (T3), and vectors of them. Users write ordinary expressions on
// them: sin(x), not std::sin(x). Included by constraint.h; not for direct use.
//
//   Dual<N>   value + gradient in N directions:   f(x + ε d) = value + ε grad·d
//   Taylor    c0 + c1 s + c2 s² along the motion: c1 is the first time derivative, 2 c2 the second
//   Mixed     value and gradient in 6 directions, and the rate of both along one path: for ∂²T/∂q̇∂q̇ and d/dt ∂T/∂q̇
#pragma once

#include <Eigen/Core>

#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace linchpin {

template <int N>
struct Dual {
  double value = 0;
  std::array<double, N> grad{};

  constexpr Dual() = default;
  constexpr Dual(double x) : value(x) {}  // NOLINT: numbers mix freely with double

  /// f(x) with f'(x) = slope.
  constexpr Dual chain(double f, double slope) const {
    Dual r(f);
    for (std::size_t i = 0; i < N; ++i) r.grad[i] = slope * grad[i];
    return r;
  }
  friend constexpr Dual operator+(const Dual& x) { return x; }
  friend constexpr Dual operator-(const Dual& x) { return x.chain(-x.value, -1.0); }
  friend constexpr Dual operator+(Dual x, const Dual& y) { return x += y; }
  friend constexpr Dual operator+(Dual x, double y) {
    x.value += y;
    return x;
  }
  friend constexpr Dual operator+(double x, Dual y) {
    y.value += x;
    return y;
  }
  friend constexpr Dual operator-(Dual x, const Dual& y) { return x -= y; }
  friend constexpr Dual operator-(Dual x, double y) {
    x.value -= y;
    return x;
  }
  friend constexpr Dual operator-(double x, const Dual& y) { return y.chain(x - y.value, -1.0); }
  friend constexpr Dual operator*(const Dual& x, const Dual& y) {
    Dual r(x.value * y.value);
    for (std::size_t i = 0; i < N; ++i) r.grad[i] = x.value * y.grad[i] + y.value * x.grad[i];
    return r;
  }
  friend constexpr Dual operator*(const Dual& x, double y) { return x.chain(x.value * y, y); }
  friend constexpr Dual operator*(double x, const Dual& y) { return y.chain(x * y.value, x); }
  friend constexpr Dual operator/(const Dual& x, const Dual& y) {
    const double inv = 1.0 / y.value, q = x.value * inv;
    Dual r(q);
    for (std::size_t i = 0; i < N; ++i) r.grad[i] = (x.grad[i] - q * y.grad[i]) * inv;
    return r;
  }
  friend constexpr Dual operator/(const Dual& x, double y) { return x.chain(x.value / y, 1.0 / y); }
  friend constexpr Dual operator/(double x, const Dual& y) {
    const double q = x / y.value;
    return y.chain(q, -q / y.value);
  }
  constexpr Dual& operator+=(const Dual& y) {
    value += y.value;
    for (std::size_t i = 0; i < N; ++i) grad[i] += y.grad[i];
    return *this;
  }
  constexpr Dual& operator-=(const Dual& y) {
    value -= y.value;
    for (std::size_t i = 0; i < N; ++i) grad[i] -= y.grad[i];
    return *this;
  }
  constexpr Dual& operator*=(const Dual& y) { return *this = *this * y; }
  constexpr Dual& operator/=(const Dual& y) { return *this = *this / y; }

  friend constexpr bool operator<(const Dual& x, const Dual& y) { return x.value < y.value; }
  friend constexpr bool operator>(const Dual& x, const Dual& y) { return x.value > y.value; }
  friend constexpr bool operator<=(const Dual& x, const Dual& y) { return x.value <= y.value; }
  friend constexpr bool operator>=(const Dual& x, const Dual& y) { return x.value >= y.value; }
};

struct Taylor {
  double c0 = 0, c1 = 0, c2 = 0;

  constexpr Taylor() = default;
  constexpr Taylor(double x) : c0(x) {}  // NOLINT: numbers mix freely with double
  constexpr Taylor(double x0, double x1, double x2) : c0(x0), c1(x1), c2(x2) {}

  /// f(x) with f' and f'' at c0.
  constexpr Taylor chain(double f, double f1, double f2) const { return {f, f1 * c1, f1 * c2 + 0.5 * f2 * c1 * c1}; }
  friend constexpr Taylor operator+(const Taylor& x) { return x; }
  friend constexpr Taylor operator-(const Taylor& x) { return {-x.c0, -x.c1, -x.c2}; }
  friend constexpr Taylor operator+(const Taylor& x, const Taylor& y) {
    return {x.c0 + y.c0, x.c1 + y.c1, x.c2 + y.c2};
  }
  friend constexpr Taylor operator-(const Taylor& x, const Taylor& y) {
    return {x.c0 - y.c0, x.c1 - y.c1, x.c2 - y.c2};
  }
  friend constexpr Taylor operator+(const Taylor& x, double y) { return {x.c0 + y, x.c1, x.c2}; }
  friend constexpr Taylor operator+(double x, const Taylor& y) { return y + x; }
  friend constexpr Taylor operator-(const Taylor& x, double y) { return {x.c0 - y, x.c1, x.c2}; }
  friend constexpr Taylor operator-(double x, const Taylor& y) { return {x - y.c0, -y.c1, -y.c2}; }
  friend constexpr Taylor operator*(const Taylor& x, const Taylor& y) {
    return {x.c0 * y.c0, x.c0 * y.c1 + x.c1 * y.c0, x.c0 * y.c2 + x.c1 * y.c1 + x.c2 * y.c0};
  }
  friend constexpr Taylor operator*(const Taylor& x, double y) { return {x.c0 * y, x.c1 * y, x.c2 * y}; }
  friend constexpr Taylor operator*(double x, const Taylor& y) { return y * x; }
  friend constexpr Taylor operator/(const Taylor& x, const Taylor& y) {
    const double q0 = x.c0 / y.c0;
    const double q1 = (x.c1 - q0 * y.c1) / y.c0;
    return {q0, q1, (x.c2 - q0 * y.c2 - q1 * y.c1) / y.c0};
  }
  friend constexpr Taylor operator/(const Taylor& x, double y) { return {x.c0 / y, x.c1 / y, x.c2 / y}; }
  friend constexpr Taylor operator/(double x, const Taylor& y) { return Taylor(x) / y; }
  constexpr Taylor& operator+=(const Taylor& y) { return *this = *this + y; }
  constexpr Taylor& operator-=(const Taylor& y) { return *this = *this - y; }
  constexpr Taylor& operator*=(const Taylor& y) { return *this = *this * y; }
  constexpr Taylor& operator/=(const Taylor& y) { return *this = *this / y; }

  friend constexpr bool operator<(const Taylor& x, const Taylor& y) { return x.c0 < y.c0; }
  friend constexpr bool operator>(const Taylor& x, const Taylor& y) { return x.c0 > y.c0; }
  friend constexpr bool operator<=(const Taylor& x, const Taylor& y) { return x.c0 <= y.c0; }
  friend constexpr bool operator>=(const Taylor& x, const Taylor& y) { return x.c0 >= y.c0; }
};

struct Mixed {
  double value = 0, rate = 0;
  std::array<double, 6> grad{}, grad_rate{};

  constexpr Mixed() = default;
  constexpr Mixed(double x) : value(x) {}  // NOLINT: numbers mix freely with double

  /// f(x) with f' and f'' at value.
  constexpr Mixed chain(double f, double f1, double f2) const {
    Mixed r(f);
    r.rate = f1 * rate;
    for (std::size_t i = 0; i < 6; ++i) {
      r.grad[i] = f1 * grad[i];
      r.grad_rate[i] = f1 * grad_rate[i] + f2 * rate * grad[i];
    }
    return r;
  }
  friend constexpr Mixed operator+(const Mixed& x) { return x; }
  friend constexpr Mixed operator-(const Mixed& x) { return x.chain(-x.value, -1, 0); }
  friend constexpr Mixed operator+(Mixed x, const Mixed& y) { return x += y; }
  friend constexpr Mixed operator+(Mixed x, double y) {
    x.value += y;
    return x;
  }
  friend constexpr Mixed operator+(double x, Mixed y) { return y + x; }
  friend constexpr Mixed operator-(Mixed x, const Mixed& y) { return x += -y; }
  friend constexpr Mixed operator-(Mixed x, double y) { return x + -y; }
  friend constexpr Mixed operator-(double x, const Mixed& y) { return -y + x; }
  friend constexpr Mixed operator*(const Mixed& x, const Mixed& y) {
    Mixed r(x.value * y.value);
    r.rate = x.value * y.rate + x.rate * y.value;
    for (std::size_t i = 0; i < 6; ++i) {
      r.grad[i] = x.value * y.grad[i] + x.grad[i] * y.value;
      r.grad_rate[i] = x.value * y.grad_rate[i] + x.rate * y.grad[i] + x.grad[i] * y.rate + x.grad_rate[i] * y.value;
    }
    return r;
  }
  friend constexpr Mixed operator*(const Mixed& x, double y) { return x.chain(x.value * y, y, 0); }
  friend constexpr Mixed operator*(double x, const Mixed& y) { return y * x; }
  friend constexpr Mixed operator/(const Mixed& x, const Mixed& y) { return x * (1.0 / y); }
  friend constexpr Mixed operator/(const Mixed& x, double y) { return x.chain(x.value / y, 1 / y, 0); }
  friend constexpr Mixed operator/(double x, const Mixed& y) {
    const double q = x / y.value, slope = -q / y.value;
    return y.chain(q, slope, -2 * slope / y.value);
  }
  constexpr Mixed& operator+=(const Mixed& y) {
    value += y.value;
    rate += y.rate;
    for (std::size_t i = 0; i < 6; ++i) {
      grad[i] += y.grad[i];
      grad_rate[i] += y.grad_rate[i];
    }
    return *this;
  }
  constexpr Mixed& operator-=(const Mixed& y) { return *this += -y; }
  constexpr Mixed& operator*=(const Mixed& y) { return *this = *this * y; }
  constexpr Mixed& operator/=(const Mixed& y) { return *this = *this / y; }

  friend constexpr bool operator<(const Mixed& x, const Mixed& y) { return x.value < y.value; }
  friend constexpr bool operator>(const Mixed& x, const Mixed& y) { return x.value > y.value; }
  friend constexpr bool operator<=(const Mixed& x, const Mixed& y) { return x.value <= y.value; }
  friend constexpr bool operator>=(const Mixed& x, const Mixed& y) { return x.value >= y.value; }
};

namespace detail {

// The only definition of f, f' and f''. Each number type uses the ones that it needs.
template <int N>
constexpr Dual<N> lift(const Dual<N>& x, double f, double f1, double) {
  return x.chain(f, f1);
}
constexpr Taylor lift(const Taylor& x, double f, double f1, double f2) { return x.chain(f, f1, f2); }
constexpr Mixed lift(const Mixed& x, double f, double f1, double f2) { return x.chain(f, f1, f2); }
template <int N>
constexpr double value_of(const Dual<N>& x) {
  return x.value;
}
constexpr double value_of(const Taylor& x) { return x.c0; }
constexpr double value_of(const Mixed& x) { return x.value; }

template <class T>
struct is_number : std::false_type {};
template <int N>
struct is_number<Dual<N>> : std::true_type {};
template <>
struct is_number<Taylor> : std::true_type {};
template <>
struct is_number<Mixed> : std::true_type {};

}  // namespace detail

/// One of the number types of this file (a residual's `T`).
template <class T>
concept Number = detail::is_number<T>::value;

template <Number T>
T sin(const T& x) {
  const double a = detail::value_of(x), s = std::sin(a);
  return detail::lift(x, s, std::cos(a), -s);
}
template <Number T>
T cos(const T& x) {
  const double a = detail::value_of(x), c = std::cos(a);
  return detail::lift(x, c, -std::sin(a), -c);
}
template <Number T>
T tan(const T& x) {
  const double f = std::tan(detail::value_of(x)), d = 1 + f * f;
  return detail::lift(x, f, d, 2 * f * d);
}
template <Number T>
T asin(const T& x) {
  const double a = detail::value_of(x), d = 1 / std::sqrt(1 - a * a);
  return detail::lift(x, std::asin(a), d, a * d * d * d);
}
template <Number T>
T acos(const T& x) {
  const double a = detail::value_of(x), d = 1 / std::sqrt(1 - a * a);
  return detail::lift(x, std::acos(a), -d, -a * d * d * d);
}
template <Number T>
T atan(const T& x) {
  const double a = detail::value_of(x), d = 1 / (1 + a * a);
  return detail::lift(x, std::atan(a), d, -2 * a * d * d);
}
template <Number T>
T sinh(const T& x) {
  const double a = detail::value_of(x), s = std::sinh(a);
  return detail::lift(x, s, std::cosh(a), s);
}
template <Number T>
T cosh(const T& x) {
  const double a = detail::value_of(x), c = std::cosh(a);
  return detail::lift(x, c, std::sinh(a), c);
}
template <Number T>
T tanh(const T& x) {
  const double f = std::tanh(detail::value_of(x)), d = 1 - f * f;
  return detail::lift(x, f, d, -2 * f * d);
}
template <Number T>
T asinh(const T& x) {
  const double a = detail::value_of(x), d = 1 / std::sqrt(1 + a * a);
  return detail::lift(x, std::asinh(a), d, -a * d * d * d);
}
template <Number T>
T exp(const T& x) {
  const double e = std::exp(detail::value_of(x));
  return detail::lift(x, e, e, e);
}
template <Number T>
T log(const T& x) {
  const double a = detail::value_of(x), d = 1 / a;
  return detail::lift(x, std::log(a), d, -d * d);
}
/// It has no derivative at 0: write a distance as dot(d, d) = l² instead.
template <Number T>
T sqrt(const T& x) {
  const double r = std::sqrt(detail::value_of(x));
  return detail::lift(x, r, 0.5 / r, -0.25 / (r * r * r));
}
template <Number T>
T abs(const T& x) {
  return detail::value_of(x) < 0 ? -x : x;
}
template <Number T>
T square(const T& x) {
  return x * x;
}
inline double square(double x) { return x * x; }
template <Number T>
T pow(const T& x, double p) {
  const double a = detail::value_of(x);
  return detail::lift(x, std::pow(a, p), p == 0 ? 0 : p * std::pow(a, p - 1),
                      (p == 0 || p == 1) ? 0 : p * (p - 1) * std::pow(a, p - 2));
}
template <Number T>
T atan2(const T& y, const T& x) {
  // The derivative is that of atan(y/x) away from the cut. The value keeps the quadrant.
  const double y0 = detail::value_of(y), x0 = detail::value_of(x);
  T r = std::fabs(x0) >= std::fabs(y0) ? atan(y / x) : -atan(x / y);
  r += std::atan2(y0, x0) - detail::value_of(r);
  return r;
}
template <Number T>
T hypot(const T& x, const T& y) {
  return sqrt(x * x + y * y);
}

/// Three numbers in world axes, or in body axes where it is stated.
template <class T>
struct Vec3 {
  T x{}, y{}, z{};

  constexpr Vec3() = default;
  constexpr Vec3(T x_, T y_, T z_) : x(x_), y(y_), z(z_) {}
  template <class Derived>
  Vec3(const Eigen::MatrixBase<Derived>& expression) {  // NOLINT: constants mix freely
    const Eigen::Vector3d u = expression;
    x = u.x(), y = u.y(), z = u.z();
  }

  friend Vec3 operator+(const Vec3& u, const Vec3& v) { return {u.x + v.x, u.y + v.y, u.z + v.z}; }
  friend Vec3 operator-(const Vec3& u, const Vec3& v) { return {u.x - v.x, u.y - v.y, u.z - v.z}; }
  friend Vec3 operator-(const Vec3& u) { return {-u.x, -u.y, -u.z}; }
  friend Vec3 operator*(const T& c, const Vec3& u) { return {c * u.x, c * u.y, c * u.z}; }
  friend Vec3 operator*(const Vec3& u, const T& c) { return c * u; }
  friend Vec3 operator/(const Vec3& u, const T& c) { return {u.x / c, u.y / c, u.z / c}; }
  friend T dot(const Vec3& u, const Vec3& v) { return u.x * v.x + u.y * v.y + u.z * v.z; }
  friend Vec3 cross(const Vec3& u, const Vec3& v) {
    return {u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x};
  }
  friend T squared_norm(const Vec3& u) { return dot(u, u); }
  friend T norm(const Vec3& u) { return sqrt(dot(u, u)); }
};

/// A number times a constant vector: cos(s.t) * Vector3d(1, 0, 0).
template <Number T, class Derived>
Vec3<T> operator*(const T& c, const Eigen::MatrixBase<Derived>& u) {
  return c * Vec3<T>(u);
}
template <Number T, class Derived>
Vec3<T> operator*(const Eigen::MatrixBase<Derived>& u, const T& c) {
  return c * Vec3<T>(u);
}

}  // namespace linchpin
