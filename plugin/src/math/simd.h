// Four numbers side by side in a SIMD vector. Each is summed, multiplied and rounded as it would be alone, so that a
// result does not depend on how many are computed at a time. A block of joints uses them in three ways: one lane for
// each of four blocks that are alike, four bodies or joints of one block, or the three components of one vector.
#pragma once

#include "math/aligned_vector.h"
#include "math/vec3.h"

#include <cstring>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// Four numbers, in as many registers as the processor needs.
using Vec4d = double __attribute__((vector_size(32)));

template <>
struct SimdTraits<Vec4d> {
  static constexpr int count = 4;
  static double get(const Vec4d& x, int lane) { return x[lane]; }
  static void set(Vec4d& x, int lane, double to) { x[lane] = to; }
  static Vec4d all(double x) { return Vec4d{x, x, x, x}; }
};
/// Returns whether all lanes are positive.
inline bool all_positive(double a) { return a > 0; }
inline bool all_positive(const Vec4d& a) { return a[0] > 0 && a[1] > 0 && a[2] > 0 && a[3] > 0; }
/// Returns whether a lane is positive.
inline bool any_positive(double a) { return a > 0; }
inline bool any_positive(const Vec4d& a) { return a[0] > 0 || a[1] > 0 || a[2] > 0 || a[3] > 0; }
inline double max_lane(const Vec4d& x) { return maximum(maximum(x[0], x[1]), maximum(x[2], x[3])); }
inline double sum_lanes(const Vec4d& x) { return (x[0] + x[1]) + (x[2] + x[3]); }

// ---- four vectors side by side

inline Vec4d gather(double a, double b, double c, double d) { return Vec4d{a, b, c, d}; }
inline Vector3<Vec4d> gather(const Vector3<double>& a, const Vector3<double>& b, const Vector3<double>& c,
                             const Vector3<double>& d) {
  return {Vec4d{a.x, b.x, c.x, d.x}, Vec4d{a.y, b.y, c.y, d.y}, Vec4d{a.z, b.z, c.z, d.z}};
}
inline Rotation3<Vec4d> gather(const Rotation3<double>& a, const Rotation3<double>& b, const Rotation3<double>& c,
                               const Rotation3<double>& d) {
  return {gather(a.x, b.x, c.x, d.x), gather(a.y, b.y, c.y, d.y), gather(a.z, b.z, c.z, d.z)};
}
inline SpatialVector<Vec4d> gather(const SpatialVector<double>& a, const SpatialVector<double>& b,
                                   const SpatialVector<double>& c, const SpatialVector<double>& d) {
  return {gather(a.v, b.v, c.v, d.v), gather(a.w, b.w, c.w, d.w)};
}
inline Displacement<Vector3<Vec4d>> gather(const Displacement<Vector3<double>>& a,
                                           const Displacement<Vector3<double>>& b,
                                           const Displacement<Vector3<double>>& c,
                                           const Displacement<Vector3<double>>& d) {
  return {gather(a.translation, b.translation, c.translation, d.translation),
          gather(a.rotation, b.rotation, c.rotation, d.rotation), gather(a.sine, b.sine, c.sine, d.sine),
          gather(a.versine, b.versine, c.versine, d.versine)};
}
inline double lane_of(const Vec4d& x, int lane) { return x[lane]; }
inline Vector3<double> lane_of(const Vector3<Vec4d>& u, int lane) { return {u.x[lane], u.y[lane], u.z[lane]}; }

// ---- numbers and vectors of one lane

template <class Real>
double get_lane(const Real& x, int lane) {
  return SimdTraits<Real>::get(x, lane);
}
template <class Real>
void set_lane(Real& x, int lane, double to) {
  SimdTraits<Real>::set(x, lane, to);
}
template <class Real>
void get_lane(const Vector3<Real>& x, int lane, double* to) {
  to[0] = get_lane(x.x, lane), to[1] = get_lane(x.y, lane), to[2] = get_lane(x.z, lane);
}
template <class Real>
void set_lane(Vector3<Real>& x, int lane, const double* from) {
  set_lane(x.x, lane, from[0]), set_lane(x.y, lane, from[1]), set_lane(x.z, lane, from[2]);
}

// ---- the three components of one vector

/// Three numbers from one on, and the one after them, which means nothing. AlignedVector has memory for that.
inline Vec4d load3(const double& first) {
  Vec4d x;
  std::memcpy(&x, &first, sizeof x);
  return x;
}
inline Vector3<double> first3(const Vec4d& x) { return {x[0], x[1], x[2]}; }

/// A vector in space in one SIMD vector.
struct Packed3 {
  Vec4d of{};
  Packed3& operator+=(const Packed3& u) { return of += u.of, *this; }
  Packed3& operator-=(const Packed3& u) { return of -= u.of, *this; }
};
inline Packed3 operator*(double s, const Packed3& u) { return {s * u.of}; }
inline Packed3 cross(const Packed3& a, const Packed3& b) {
  const auto next = [](const Vec4d& u) { return Vec4d{u[1], u[2], u[0], u[3]}; };
  return {next(a.of * next(b.of) - next(a.of) * b.of)};
}
/// A wrench in such vectors.
struct PackedSpatialVector {
  Packed3 v, w;
  static Packed3 vector(const Vector3<double>& u) { return {load3(u.x)}; }
  static Packed3 load(const double* first) { return {load3(*first)}; }
};

inline void turn_factors(const Vec4d& t2, Vec4d& sine, Vec4d& versine) {
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
