// Parts of three numbers in a vector of columns. Private to the core.
#pragma once

#include "math/vector_ops.h"

#include <linchpin/system.h>

#include <span>

namespace linchpin::articulated {

/// The three numbers from a column on.
inline Vector3d three_at(std::span<const double> x, int column) {
  return {x[z(column)], x[z(column + 1)], x[z(column + 2)]};
}
inline void set_three(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] = u[i];
}
inline void add_three(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] += u[i];
}

}  // namespace linchpin::articulated
