// Numbers one by one or four side by side, and vectors in space of either: what JointKernel is written in. Four
// numbers are summed, multiplied and rounded as each would be alone. A file that is compiled for more than the least of
// processors says so by LINCHPIN_SIMD: its functions must not be taken for those of the others.
#pragma once

#include "math/so3_exp.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

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
/// x where a < b, else y.
inline double where_below(double a, double b, double x, double y) { return a < b ? x : y; }
/// Whether all are.
inline bool positive(double a) { return a > 0; }

/// Four at a time, in as many registers as the processor needs.
using Four = double __attribute__((vector_size(32)));
template <>
struct Lanes<Four> {
  static constexpr int count = 4;
  static double get(const Four& x, int lane) { return x[lane]; }
  static void set(Four& x, int lane, double to) { x[lane] = to; }
  static Four all(double x) { return Four{x, x, x, x}; }
};
inline Four larger(const Four& a, const Four& b) { return a > b ? a : b; }
inline Four smaller(const Four& a, const Four& b) { return a < b ? a : b; }
inline Four magnitude(const Four& a) { return a < 0 ? -a : a; }
inline Four where_below(const Four& a, const Four& b, const Four& x, const Four& y) { return a < b ? x : y; }
inline bool positive(const Four& a) { return a[0] > 0 && a[1] > 0 && a[2] > 0 && a[3] > 0; }
inline Four root(const Four& a) { return Four{std::sqrt(a[0]), std::sqrt(a[1]), std::sqrt(a[2]), std::sqrt(a[3])}; }

/// Memory for them: GCC's allocator takes four numbers to be aligned as one is. Four more can be read than there are.
template <class T>
struct LaneAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{32};
  LaneAllocator() = default;
  template <class U>
  LaneAllocator(const LaneAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t n) {
    constexpr std::size_t most = (std::numeric_limits<std::ptrdiff_t>::max() - sizeof(Four)) / sizeof(T);
    if (n > most) throw std::bad_array_new_length();
    char* const at = static_cast<char*>(::operator new(n * sizeof(T) + sizeof(Four), alignment));
    std::memset(at + n * sizeof(T), 0, sizeof(Four));
    return reinterpret_cast<T*>(at);
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }
  bool operator==(const LaneAllocator&) const { return true; }
};
template <class T>
using Row = std::vector<T, LaneAllocator<T>>;

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
/// Of one for all with one of each lane, too.
template <class A, class B>
auto dot(const V3<A>& a, const V3<B>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class A, class B>
auto cross(const V3<A>& a, const V3<B>& b) -> V3<decltype(a.x * b.x)> {
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

inline void turn_factors(const Four& t2, Four& sine, Four& versine) {
  small_turn_factors(t2, sine, versine);
  for (int lane = 0; lane < 4; ++lane) {
    if (t2[lane] < small_turn) continue;
    double s = 0, v = 0;
    turn_factors(t2[lane], s, v);
    sine[lane] = s;
    versine[lane] = v;
  }
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
