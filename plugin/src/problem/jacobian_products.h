// Products of A, Aᵀ and M of an assembled problem with vectors, and the parts of vectors that belong to one body.
// Private to the core.
#pragma once

#include "math/vector_ops.h"
#include "problem/assembly_parts.h"

#include <linchpin/assembly.h>
#include <linchpin/problem.h>
#include <linchpin/wrench.h>

#include <cmath>
#include <span>

namespace linchpin {

using Vector6d = Vector6;

/// Copies the time and some bodies of a state. The other bodies keep their values, so that the cost for a block of a
/// large world depends on its own size only.
inline void copy_bodies(const State& from, std::span<const BodyId> bodies, State& to) {
  to.t = from.t;
  to.bodies.resize(from.bodies.size());
  for (const BodyId id : bodies) to[id] = from[id];
}

/// y = A x.
inline void multiply(const ConstrainedProblem& problem, std::span<const double> x, std::span<double> y) {
  for (int r = 0; r < problem.m(); ++r) {
    double sum = 0;
    for (int i = problem.row_start[z(r)]; i < problem.row_start[z(r + 1)]; ++i)
      sum += problem.entries[z(i)].value * x[z(problem.entries[z(i)].column)];
    y[z(r)] = sum;
  }
}

/// Computes e = b − A x, and |b| + |A||x|, the size of the terms of that difference. Rows of rigid bodies are processed
/// whole. Others use two sums at a time, which are independent of each other.
inline void difference(const Assembly& assembly, std::span<const double> b, std::span<const double> x,
                       std::span<double> e, std::span<double> scale) {
  const ConstrainedProblem& problem = assembly.problem;
  const auto& parts = AssemblyParts::of(assembly);
  const AssemblyParts::EntryRun* run = parts.entry_runs.data();
  const ConstrainedProblem::Entry* entry = problem.entries.data();
  for (int r = 0; r < problem.m(); ++r) {
    double sum = b[z(r)], size = std::fabs(sum), other_sum = 0, other_size = 0;
    const ConstrainedProblem::Entry* const end = problem.entries.data() + problem.row_start[z(r + 1)];
    for (; entry != end && run->length == 6; entry += 6, ++run) {
      const Vector6d terms = Eigen::Map<const Vector6d>(parts.jacobians.data() + run->source)
                                 .cwiseProduct(Eigen::Map<const Vector6d>(x.data() + entry->column));
      sum -= terms.sum();
      size += terms.cwiseAbs().sum();
    }
    for (const ConstrainedProblem::Entry* other = entry; other != end; ++run) other += run->length;
    for (; end - entry > 1; entry += 2) {
      const double term = entry[0].value * x[z(entry[0].column)], other = entry[1].value * x[z(entry[1].column)];
      sum -= term;
      size += std::fabs(term);
      other_sum -= other;
      other_size += std::fabs(other);
    }
    if (entry != end) {
      const double term = entry->value * x[z(entry->column)];
      sum -= term;
      size += std::fabs(term);
      ++entry;
    }
    e[z(r)] = sum + other_sum;
    scale[z(r)] = size + other_size;
  }
}

/// f += Aᵀλ.
inline void add_transposed(const Assembly& assembly, std::span<const double> lambda, std::span<double> f) {
  const IslandLayout& layout = assembly.layout;
  const auto& parts = AssemblyParts::of(assembly);
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    const int rows = layout.row[i + 1] - layout.row[i], first = parts.slot_start[i];
    const int last = i + 1 < layout.constraints.size() ? parts.slot_start[i + 1] : static_cast<int>(parts.slots.size());
    const double* J = parts.jacobians.data() + parts.jacobian_start[i];
    for (int k = first; k < last; ++k) {
      const int slot = parts.slots[z(k)];
      if (slot < 0) {
        J += 6 * rows;
        continue;
      }
      double* const to = f.data() + layout.column[z(slot)];
      const int dof = layout.column[z(slot) + 1] - layout.column[z(slot)];
      for (int r = layout.row[i]; r < layout.row[i + 1]; ++r, J += 6)
        if (dof == 6)
          Eigen::Map<Vector6d>(to) += lambda[z(r)] * Eigen::Map<const Vector6d>(J);
        else
          for (int j = 0; j < dof; ++j) to[j] += lambda[z(r)] * J[j];
    }
  }
}

/// Calls visit(first slot, M row by row, its size) for every block of the mass matrix. A block belongs to one body, or
/// to coordinates that follow each other.
template <class InstantOrConst, class Visit>
void for_mass_blocks(const IslandLayout& layout, InstantOrConst& problem, Visit visit) {
  auto* M = problem.mass.data();
  std::size_t s = 0;
  int column = 0;
  for (const int size : problem.block_sizes) {
    visit(s, M, size);
    M += size * size;
    column += size;
    while (s < layout.bodies.size() && layout.column[s] < column) ++s;
  }
}

/// xᵀ M x.
inline double mass_norm(const ConstrainedProblem& problem, std::span<const double> x) {
  double sum = 0;
  const double* layout = problem.mass.data();
  int column = 0;
  for (const int size : problem.block_sizes) {
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) sum += x[z(column + i)] * layout[i * size + j] * x[z(column + j)];
    layout += size * size;
    column += size;
  }
  return sum;
}

/// Returns the part of x that belongs to the s-th body of a block. It is zero below the linear part of a particle.
inline Vector6d twist_of(const IslandLayout& layout, std::size_t s, std::span<const double> x) {
  Vector6d u = Vector6d::Zero();
  for (int j = layout.column[s]; j < layout.column[s + 1]; ++j) u[j - layout.column[s]] = x[z(j)];
  return u;
}

/// Returns the wrench of constraint i of a block on its body k, about the centre of mass: A_ikᵀλ [force; moment].
inline Vector6d wrench_at_centre(const Assembly& assembly, int i, int k, std::span<const double> lambda) {
  const auto J = assembly.jacobian(i, k);
  const int first = assembly.layout.row[z(i)], rows = assembly.layout.row[z(i + 1)] - first;
  Vector6d w = Vector6d::Zero();
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < 6; ++j) w[j] += lambda[z(first + r)] * J[z(6 * r + j)];
  return w;
}

/// Returns a wrench about the centre of mass p_WB, moved to p_WQ.
inline Wrench moved_to(const Vector6d& at_centre, const Vector3d& p_WB, const Vector3d& p_WQ) {
  return Wrench{at_centre.head<3>(), at_centre.tail<3>(), p_WB}.about(p_WQ);
}

}  // namespace linchpin
