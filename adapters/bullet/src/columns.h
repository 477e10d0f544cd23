// Block vectors by column, and sizes without casts: small change of the step's sources.
#pragma once

#include <linchpin/system.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace linchpin::bullet {

inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

inline bool finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double a) { return std::isfinite(a); });
}
inline Vector3d head(std::span<const double> x, int column) {
  return {x[z(column)], x[z(column + 1)], x[z(column + 2)]};
}
inline void put(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] = u[i];
}
inline void add(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] += u[i];
}

}  // namespace linchpin::bullet
