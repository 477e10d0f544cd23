// Numbers and vectors in messages. Private to the core.
#pragma once

#include <Eigen/Core>

#include <cstdio>
#include <string>

namespace linchpin {

inline std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", x);
  return buffer;
}

/// (x, y, z)
inline std::string text(const Eigen::Vector3d& u) {
  return "(" + text(u.x()) + ", " + text(u.y()) + ", " + text(u.z()) + ")";
}

}  // namespace linchpin
