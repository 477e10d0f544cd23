// Forces with their moments and the points that these are about.
#pragma once

#include <linchpin/system.h>

#include <vector>

namespace linchpin {

/// A force and a moment on one body, *on* the body *by* what is named, in world axes.
struct Wrench {
  Vector3d force = Vector3d::Zero();   ///< [N]
  Vector3d moment = Vector3d::Zero();  ///< about `point` [N·m]
  Vector3d point = Vector3d::Zero();   ///< [m] (W)

  /// The same wrench with its moment about another point.
  Wrench about(const Vector3d& q) const { return {force, moment + (point - q).cross(force), q}; }
};

/// One wrench for each body of a constraint.
struct Wrenches {
  Wrench on_a, on_b;           ///< first and second body
  std::vector<Wrench> others;  ///< third and later
  Wrench& on(int k) { return k == 0 ? on_a : k == 1 ? on_b : others[static_cast<std::size_t>(k - 2)]; }
  const Wrench& on(int k) const { return const_cast<Wrenches*>(this)->on(k); }
};

}  // namespace linchpin
