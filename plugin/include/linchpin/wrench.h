// Forces with their moments and the points that the moments are about. The structs of this header are plain values.
#pragma once

#include <linchpin/system.h>

#include <vector>

namespace linchpin {

/// A force and a moment on one body. The sense is *on* that body *by* the source named. World axes.
struct Wrench {
  Vector3d force = Vector3d::Zero();   ///< Force [N] (W).
  Vector3d moment = Vector3d::Zero();  ///< Moment about `point` [N·m] (W).
  Vector3d point = Vector3d::Zero();   ///< Reference point [m] (W).

  /// Returns the same wrench with its moment about another point.
  Wrench about(const Vector3d& q) const { return {force, moment + (point - q).cross(force), q}; }
};

/// One wrench for each body of a constraint.
struct Wrenches {
  Wrench on_a, on_b;           ///< First and second body.
  std::vector<Wrench> others;  ///< Third and later bodies.
  /// The wrench on body k. The reference is valid as long as this object, and until `others` changes.
  Wrench& on(int k) { return k == 0 ? on_a : k == 1 ? on_b : others[static_cast<std::size_t>(k - 2)]; }
  /// The constant wrench on body k.
  const Wrench& on(int k) const { return k == 0 ? on_a : k == 1 ? on_b : others[static_cast<std::size_t>(k - 2)]; }
};

}  // namespace linchpin
