// The gaps of joints, measured from packed parameters: what a host does for every joint after every step.
#pragma once

#include "model/primitives/list.h"
#include "model/primitives/ranges.h"

#include <linchpin/joints.h>

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The largest gaps of a joint.
struct JointGap {
  double length = 0;  ///< of points and axes [m]
  double angle = 0;   ///< of dots [rad]
};

inline int packed_size_of(const Vector3d&) { return 3; }
inline int packed_size_of(double) { return 1; }
inline double* pack(const Vector3d& u, double* to) { return std::copy_n(u.data(), 3, to); }
inline double* pack(double x, double* to) { return *to = x, to + 1; }
inline void unpack(const double*& from, Vector3d& u) { u = {from[0], from[1], from[2]}, from += 3; }
inline void unpack(const double*& from, double& x) { x = *from++; }

/// The numbers that the packed parameters of so many primitives take: 6 of a point, 10 of an axis, 7 of a dot.
inline int packed_size(const PrimitiveIndices& counts) {
  int size = 0;
  for_each_primitive([&]<class P>(P) {
    const typename P::Parameters parameters{};
    std::apply([&](auto... member) { size += counts[index_of<P>()] * (packed_size_of(parameters.*member) + ...); },
               P::parameters());
  });
  return size;
}

/// Packs the parameters of all primitives of a joint. @return the end of the packed parameters
inline double* pack(const JointRows& joint, double* to) {
  for_each_primitive([&]<class P>(P) {
    for (const auto& parameters : P::of(joint))
      std::apply([&](auto... member) { ((to = pack(parameters.*member, to)), ...); }, P::parameters());
  });
  return to;
}

/// Measures the gaps of a joint at poses. @tparam Pose  see PointPrimitive::residual
/// @param packed  in: the packed parameters; out: their end
template <class Pose>
JointGap gap_of(const double*& packed, const PrimitiveIndices& counts, const Pose& A, const Pose& B) {
  JointGap gap;
  for_each_primitive([&]<class P>(P) {
    double& most = P::unit == RowUnit::radian ? gap.angle : gap.length;
    for (int i = 0; i < counts[index_of<P>()]; ++i) {
      typename P::Parameters parameters;
      std::apply([&](auto... member) { (unpack(packed, parameters.*member), ...); }, P::parameters());
      most = std::max(most, P::gap(P::residual(parameters, A, B)));
    }
  });
  return gap;
}

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
