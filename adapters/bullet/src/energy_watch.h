// Constraints that do not move cannot give a mechanism energy: where a step would end with more of it from them, as in
// a chain that snaps taut within the step, the step was too long, whatever ω·dt says.
#pragma once

#include "columns.h"

#include <linchpin/dynamics.h>
#include <linchpin/projection.h>

namespace linchpin::bullet {

/// The fraction of its kinetic energy that a step may gain from constraints that can do no work.
inline constexpr double allowed_gain = 0.02;

/// ½ vᵀM v at the poses of an assembly [J].
inline double kinetic(const Assembly& assembly, std::span<const double> v) {
  double sum = 0;
  const double* M = assembly.instant.mass.data();
  std::size_t c = 0;
  for (const int size : assembly.instant.block_sizes) {  // masses on the diagonal, a body's inertia below
    const std::size_t n = z(size);
    sum += M[0] * (v[c] * v[c] + v[c + 1] * v[c + 1] + v[c + 2] * v[c + 2]);
    for (std::size_t i = 3; i < n; ++i)
      for (std::size_t k = 3; k < n; ++k) sum += v[c + i] * M[i * n + k] * v[c + k];
    M += n * n;
    c += n;
  }
  return 0.5 * sum;
}

/// The part of it that needs no inertia: no more than the whole.
inline double kinetic_of_centres(const Assembly& assembly, std::span<const double> v) {
  double sum = 0;
  const double* M = assembly.instant.mass.data();
  std::size_t c = 0;
  for (const int size : assembly.instant.block_sizes) {
    sum += M[0] * (v[c] * v[c] + v[c + 1] * v[c + 1] + v[c + 2] * v[c + 2]);
    M += size * size;
    c += z(size);
  }
  return 0.5 * sum;
}

/// Work of impulses between velocities [J].
inline double work_of(std::span<const double> impulses, std::span<const double> v0, std::span<const double> v1) {
  double sum = 0;
  for (std::size_t j = 0; j < impulses.size(); ++j) sum += 0.5 * impulses[j] * (v0[j] + v1[j]);
  return sum;
}

/// Work that ideal constraint impulses did where they can do none: impulse · ½(v₀ + v₁), prescribed forces left out
/// [J].
inline double work_of_constraints(const Dynamics& dynamics, double h, std::span<const double> stabilisation,
                                  std::span<const double> v0, std::span<const double> v1) {
  const auto ideal = dynamics.ideal(), nonideal = dynamics.nonideal();
  const std::vector<double>& c = dynamics.assembly().instant.c;
  double sum = 0;
  for (std::size_t j = 0; j < v0.size(); ++j) {
    const double impulse = h * (ideal[j] + nonideal[j] - c[j]) + stabilisation[j];
    sum += impulse * 0.5 * (v0[j] + v1[j]);
  }
  return sum;
}

/// Whether rows contradict each other by more than a gap is allowed, of which a point's has three of them.
inline bool contradicts(const NewtonReport& newton, double h, double gap_tolerance) {
  return newton.least_squares && std::sqrt(3.0) * newton.residual * h > gap_tolerance;
}

}  // namespace linchpin::bullet
