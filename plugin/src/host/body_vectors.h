// Access to the entries of an island's vectors that belong to one body, and the velocities of its rows.
#pragma once

#include "math/vector_ops.h"
#include "problem/assembly_parts.h"

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <span>

namespace linchpin::host {

inline Vector3d head(std::span<const double> x, int column) {
  return {x[z(column)], x[z(column + 1)], x[z(column + 2)]};
}
inline void put(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] = u[i];
}
inline void add(std::span<double> x, int column, const Vector3d& u) {
  for (int i = 0; i < 3; ++i) x[z(column + i)] += u[i];
}
/// Sums from the left. Eigen's own sum has another order, and so other bits.
inline double dot(const Vector3d& a, const Vector3d& b) { return a.x() * b.x() + a.y() * b.y() + a.z() * b.z(); }

/// Number of columns of the body at `slot`: 6, or 3 of a particle.
inline int dof_of(const IslandLayout& layout, std::size_t slot) {
  return layout.column[slot + 1] - layout.column[slot];
}
inline bool turns(const IslandLayout& layout, std::size_t slot) { return dof_of(layout, slot) == 6; }

/// Visits A in order: visit(row, entries of one body, their first column, how many).
template <class Visit>
void for_rows_of_bodies(const Assembly& assembly, Visit visit) {
  const ConstrainedProblem& x = assembly.problem;
  const auto& parts = AssemblyParts::of(assembly);
  const AssemblyParts::EntryRun* run = parts.entry_runs.data();
  for (int r = 0; r < x.m(); ++r)
    for (int k = x.row_start[z(r)]; k < x.row_start[z(r + 1)]; k += run->length, ++run)
      visit(r, parts.jacobians.data() + run->source, x.entries[z(k)].column, run->length);
}

/// out ← A v
inline void row_velocities(const Assembly& assembly, std::span<const double> v, std::span<double> out) {
  std::fill(out.begin(), out.end(), 0.0);
  for_rows_of_bodies(assembly, [&](int row, const double* J, int column, int count) {
    if (count == 6) {
      out[z(row)] += Eigen::Map<const Vector6>(J).dot(Eigen::Map<const Vector6>(v.data() + column));
      return;
    }
    for (int j = 0; j < count; ++j) out[z(row)] += J[j] * v[z(column + j)];
  });
}

/// v ← velocities of the bodies of a block in a state.
inline void read_velocities(const IslandLayout& layout, const State& at, std::span<double> v) {
  for (std::size_t slot = 0; slot < layout.bodies.size(); ++slot) {
    const BodyState& s = at[layout.bodies[slot]];
    put(v, layout.column[slot], s.v);
    if (turns(layout, slot)) put(v, layout.column[slot] + 3, s.w);
  }
}

}  // namespace linchpin::host
