// Block vectors by column, and sizes without casts: small change of the step's sources.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace linchpin::bullet {

inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

/// Asks the memory for what is read soon: a host's bodies and joints lie all over it.
inline void prefetch(const void* at, std::size_t bytes) {
#if defined(__GNUC__)
  constexpr std::size_t line = 64;
  const char* const first = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += line) __builtin_prefetch(first + i);
  __builtin_prefetch(first + bytes - 1);
#else
  static_cast<void>(at), static_cast<void>(bytes);
#endif
}

/// visit(row, its entries of one body, their first column, how many) for all of A, in order.
template <class Visit>
void for_rows_of_bodies(const Assembly& assembly, Visit visit) {
  const Instant& x = assembly.instant;
  const Assembly::EntryRun* run = assembly.entry_runs.data();
  for (int r = 0; r < x.m(); ++r)
    for (int k = x.row_start[z(r)]; k < x.row_start[z(r + 1)]; k += run->length, ++run)
      visit(r, assembly.jacobians.data() + run->source, x.entries[z(k)].column, run->length);
}

inline bool finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double a) { return std::isfinite(a); });
}
inline double largest(std::span<const double> x) {
  double most = 0;
  for (const double a : x) most = std::max(most, std::abs(a));
  return most;
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
