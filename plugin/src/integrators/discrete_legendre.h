// Bodies that move by their momenta: the differential of the exponential map, the free rotation for a given momentum,
// and the RATTLE step that ends on the constraints (T13). Private to the core.
#pragma once

#include "problem/jacobian_products.h"

#include <linchpin/projection.h>
#include <linchpin/system.h>

#include <cmath>
#include <limits>

namespace linchpin {

/// Returns θ̇ for R = exp(θ)R₀ rotating with ω, by the inverse differential of the exponential (T13).
inline Vector3d rate_of_rotation(const Vector3d& theta, const Vector3d& omega) {
  const double square = theta.squaredNorm();
  const double half = 0.5 * std::sqrt(square);
  const double factor = square < 1e-6 ? 1.0 / 12 + square / 720 : (1 - half / std::tan(half)) / square;
  const Vector3d first = theta.cross(omega);
  return omega - 0.5 * first + factor * theta.cross(first);
}

/// Returns the constant ω that carries a body over dt. It approximates the free rotation and conserves its angular
/// momentum: L = dexp⁻ᵀ(−dt ω) I ω, the discrete Legendre transform of ½ωᵀIω dt (T13). @param I  world inertia at the
/// beginning. @param omega  in: a guess
inline Vector3d spin_of(const Matrix3d& I, const Vector3d& L, double dt, Vector3d omega) {
  // Newton with the differential of the first two terms. The rest is (dt ω)²/12 of these.
  double before = std::numeric_limits<double>::infinity();
  for (int k = 0; k < 30; ++k) {
    const Vector3d Iw = I * omega, error = rate_of_rotation(-dt * omega, Iw) - L;
    const double size = error.norm();
    if (!(size < before) || size == 0) break;
    before = size;
    Matrix3d J = I;
    for (int j = 0; j < 3; ++j) {
      const Vector3d e = Vector3d::Unit(j);
      J.col(j) += 0.5 * dt * (e.cross(Iw) + omega.cross(I.col(j)));
    }
    omega -= J.inverse() * error;
  }
  return omega;
}

/// Computes the twists [n] that carry the block's bodies over dt for their momenta at its beginning. The components of
/// `momentum` [n] are linear, and angular in world axes about the centre of mass. `v` contains a guess, which the
/// velocities are.
inline void twists_of(const System& system, const IslandLayout& layout, const State& base, double dt,
                      std::span<const double> momentum, std::span<double> v) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyId id = layout.bodies[s];
    const std::size_t first = z(layout.column[s]);
    const double mass = system.mass(id);
    for (std::size_t j = first; j < first + 3; ++j) v[j] = momentum[j] / mass;
    if (system.dof(id) < 6) continue;
    Eigen::Map<Vector3d> w(&v[first + 3]);
    const Vector3d L(momentum[first + 3], momentum[first + 4], momentum[first + 5]);
    w = spin_of(system.world_inertia(id, base[id].q), L, dt, w);
  }
}

/// Returns the velocities [n] of momenta at a state without a step: M⁻¹P. It is the inverse of momenta_of().
inline void velocities_of(const System& system, const IslandLayout& layout, const State& at,
                          std::span<const double> momentum, std::span<double> v) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyId id = layout.bodies[s];
    const std::size_t first = z(layout.column[s]);
    for (std::size_t j = first; j < first + 3; ++j) v[j] = momentum[j] / system.mass(id);
    if (system.dof(id) < 6) continue;
    const Vector3d L(momentum[first + 3], momentum[first + 4], momentum[first + 5]);
    // Uses the same M as momenta_of(). If it were rounded differently, by rotating into the body's axes and back, the
    // pair would gain 4e-16 each time. The reason is that |q|² is 1 + 9e-17 on average, and energy would have a trend.
    Eigen::Map<Vector3d>{&v[first + 3]} = system.world_inertia(id, at[id].q).ldlt().solve(L);
  }
}

/// Computes the momenta [n] of velocities at a state: M v.
inline void momenta_of(const System& system, const IslandLayout& layout, const State& at, std::span<const double> v,
                       std::span<double> momentum) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyId id = layout.bodies[s];
    const std::size_t first = z(layout.column[s]);
    for (std::size_t j = first; j < first + 3; ++j) momentum[j] = system.mass(id) * v[j];
    if (system.dof(id) < 6) continue;
    const Vector3d w(v[first + 3], v[first + 4], v[first + 5]);
    Eigen::Map<Vector3d>{&momentum[first + 3]} = system.world_inertia(id, at[id].q) * w;
  }
}

/// Runs solve_end_of_step (T12) for bodies that are carried by their momenta (twists_of): the impulse Aᵀλ at the base
/// is added to them. Steps backwards have dt < 0.
/// @param momentum  [n] in: before this correction. Out: with it.
/// @param v         [n] in: a guess. Out: the twists that carry the bodies.
NewtonReport end_on_constraints_with_momenta(const System& system, const Dynamics& dynamics, const State& base,
                                             State& end, double dt, std::span<double> momentum, std::span<double> v,
                                             std::span<double> lambda, double tolerance, int max_solves);

}  // namespace linchpin
