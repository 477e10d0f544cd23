// Keeps poses and velocities on the constraints at finite steps. Contains the Newton that ends a step on them (T12),
// projections in the mass metric (T13, T14), and the geometric stiffness of constraint forces (T15).
//
// The structs of this header are plain values. The functions call residuals of the system's constraints in the calling
// thread. A residual that throws counts as not finite. The functions use work memory of the thread: different threads
// may call them for different systems, but a residual must not call them.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/export.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <limits>
#include <span>
#include <vector>

namespace linchpin {

/// Result of the Newton to the end of the step.
struct NewtonReport {
  bool converged = false;  ///< The residuals are within the tolerance.
  /// Converged, but the rows contradict each other. No velocity meets them all, and this one is the nearest.
  bool least_squares = false;
  int solves = 0;       ///< Number of solves.
  double residual = 0;  ///< Largest remaining |φ|/dt or |ψ| [m/s or as the row's unit implies].
};

/// Finds v₁ by Newton such that the host's own map ends on the constraints (T12). Holonomic rows: φ(base ⊕ dt·v₁, t₁) =
/// 0. Nonholonomic rows: ψ(base ⊕ ½dt·v₁, v₁, t₀ + ½dt) = 0. Acceleration rows: A(v₁ − v₀) = dt·b. Uses the factor of
/// `dynamics` from its last evaluation, whose velocities are the v₀ of acceleration rows.
/// @param base     poses from which the step starts, by BodyId. Fixed and kinematic bodies are where they are at t₀.
/// @param end      in: fixed and kinematic bodies where they are at t₁. Out: also the block's bodies there.
/// @param v        [n] in: v before this correction. Out: v₁.
/// @param lambda   [m] added: the impulse multipliers of all solves.
/// @param force    [n] added: their Aᵀλ.
/// @param tolerance  on |φ| [m or the row's unit], and on |ψ|·dt. A residual at round-off counts as converged.
/// @param residual_target  [m] or empty: target of φ in place of 0 [m or the row's unit]. If it does not converge, v,
/// lambda and force hold the best iterate. If no iterate was better, they are unchanged.
LINCHPIN_API NewtonReport solve_end_of_step(const System& system, const Dynamics& dynamics, const State& base,
                                            State& end, double dt, std::span<double> v, std::span<double> lambda,
                                            std::span<double> force, double tolerance, int max_solves,
                                            std::span<const double> residual_target = {});

/// Moves poses in the mass metric until φ = 0 at state.t. Velocities stay unchanged, because an initial gap is not a
/// velocity (T12, T14). Joints that are turned far from their required rotation (`JointRows::Alignment`) are first
/// turned back by the shortest rotation.
/// @param moved   receives the largest displacement [m], when given.
/// @param turned  receives the largest rotation of a body [rad], when given together with `moved`.
/// @param most_turn  limit of the rotation of a body by turning back [rad]. Poses stay where that limit leaves them.
/// @return largest remaining |φ|, and the angle of a joint that is still turned far
LINCHPIN_API double project_positions(const System& system, const Dynamics& dynamics, State& state, double tolerance,
                                      int max_solves, double* moved = nullptr, double* turned = nullptr,
                                      double most_turn = std::numeric_limits<double>::infinity());

/// Projects velocities: v⁺ = v − M⁻¹AᵀG⁺(A v + φ_t), the impulse at activation (T14). @return the kinetic energy of the
/// jump, ½ΔvᵀMΔv [J].
/// @param lambda  [m] added: its multipliers. May be empty. Not added for blocks with acceleration rows.
LINCHPIN_API double project_velocities(const System& system, const Dynamics& dynamics, State& state,
                                       std::span<double> lambda = {});

/// Computes the geometric-stiffness frequency ω of T15 [rad/s]: the largest over the bodies of the block, for rotation
/// about their centres under this block's own forces.
/// @param lambda  [m] multipliers of all that the constraints apply: those of this step, as the mean over the step.
/// @param enough  [rad/s] below this value the result may be an upper bound, ω² ≤ Σ|r||f| / least principal moment. The
/// bound needs stock joints (joints.h) of rigid bodies only, and costs a tenth. 0: exact. Infinity: the bound, where
/// there is one.
LINCHPIN_API double tension_frequency(const System& system, const Dynamics& dynamics, const State& state,
                                      std::span<const double> lambda, double enough = 0);

/// Computes K⁺ of T15 of each body of the block, in block order [N·m/rad], world axes. It is the positive semidefinite
/// part of the symmetric part of Σ (r·f) I₃ − r fᵀ. By it the block's own forces turn a rotated body back. Zero for
/// particles.
/// @param lambda  as in tension_frequency
LINCHPIN_API void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                                      std::span<const double> lambda, std::vector<Matrix3d>& K);

/// Result of the projection at the end of a step in stages.
struct ProjectionReport {
  bool converged = false;      ///< Poses and velocities converged.
  bool least_squares = false;  ///< Both converged, but the rows contradict each other (T6).
  int solves = 0;              ///< Number of solves.
  double residual = 0;         ///< Largest remaining |φ| [m or the row's unit].
  double moved = 0;            ///< Largest |component| of the displacement of a body [m, rad].
  double changed = 0;          ///< Largest |component| of the change of a velocity [m/s, rad/s].
};

/// Projects first poses, then velocities, in the mass metric (T13) by a chord iteration. It solves only with the factor
/// of `dynamics`, which was evaluated nearby. Rows on velocities and accelerations hold displacements. Rows on
/// accelerations keep velocities as they are.
/// @param off  where the block is. All other bodies are where they are at off.t.
/// @param on   in: all other bodies as in `off`. Out: the block's bodies on the constraints.
/// @param v       [n] in: velocities at `off`. Out: those at `on`.
/// @param lambda  [m] out: multipliers of the impulses that changed them.
/// @param tolerance  on |φ|. A residual at round-off counts as converged. Does not allocate after warm-up.
LINCHPIN_API ProjectionReport project_state(const System& system, const Dynamics& dynamics, const State& off, State& on,
                                            std::span<double> v, std::span<double> lambda, double tolerance,
                                            int max_solves);

}  // namespace linchpin
