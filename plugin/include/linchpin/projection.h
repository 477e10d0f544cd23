// Keeping poses and velocities on the constraints at finite steps: the Newton that ends a step on them (T12),
// projections in the mass metric (T13, T14), and the geometric stiffness of constraint forces (T15).
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <limits>
#include <span>
#include <vector>

namespace linchpin {

/// What end-of-step satisfaction did.
struct NewtonReport {
  bool converged = false;
  bool least_squares =
      false;  ///< converged, but rows contradict each other: no velocity meets them all, this comes nearest
  int solves = 0;
  double residual = 0;  ///< largest |φ|/dt or |ψ| left [m/s or as the row's unit implies]
};

/// Newton for v₁ such that the host's own map ends on the constraints (T12): φ(base ⊕ dt·v₁, t₁) = 0 for holonomic
/// rows, ψ(base ⊕ ½dt·v₁, v₁, t₀ + ½dt) = 0 for nonholonomic ones, A(v₁ − v₀) = dt·b for acceleration rows. Uses the
/// factor of `dynamics` (its last evaluation, whose velocities are the v₀ of acceleration rows).
/// @param base     the poses the step really starts from, by BodyId; fixed and driven bodies where they are at t₀
/// @param end      in: fixed and driven bodies where they are at t₁; out: also the block's bodies there
/// @param v        [n] in: v before this correction; out: v₁
/// @param lambda   [m] added: the impulse multipliers of all solves
/// @param force    [n] added: their Aᵀλ
/// @param tolerance  on |φ| [m or the row's unit], and on |ψ|·dt; a residual at round-off counts as converged
/// @param left_open  [m] or empty: what φ ends on in place of 0 [m or the row's unit]
/// Not converged: v, lambda and force hold what was reached; if nothing was gained they are as they came.
NewtonReport end_on_constraints(const System& system, const Dynamics& dynamics, const State& base, State& end,
                                double dt, std::span<double> v, std::span<double> lambda, std::span<double> force,
                                double tolerance, int max_solves, std::span<const double> left_open = {});

/// Moves poses in the mass metric until φ = 0 at state.t, velocities untouched (an initial gap is not a velocity, T12,
/// T14).
/// Joints that are turned far from where they are held (`JointRows::Alignment`) are turned back first, the shortest
/// way.
/// @param moved   receives the largest displacement [m] when given
/// @param turned  receives the largest turn of a body [rad] when given with `moved`
/// @param most_turn  of a body by turning back [rad]; poses stay where that leaves them
/// @return largest |φ| left, the angle of a joint that is still turned far included
double close_gaps(const System& system, const Dynamics& dynamics, State& state, double tolerance, int max_solves,
                  double* moved = nullptr, double* turned = nullptr,
                  double most_turn = std::numeric_limits<double>::infinity());

/// v⁺ = v − M⁻¹AᵀG⁺(A v + φ_t): the impulse at activation (T14). @return its kinetic-energy norm ½ΔvᵀMΔv [J].
/// @param lambda  [m] added: its multipliers; may be empty. Not told of blocks with acceleration rows
double project_velocities(const System& system, const Dynamics& dynamics, State& state, std::span<double> lambda = {});

/// ω of T15: the fastest swing of any body of the block about its centre under this block's own forces [rad/s].
/// @param lambda  multipliers of all that the constraints apply, [m]: this step's own, mean over the step
/// @param enough  [rad/s] what is found to be below it may be a bound, ω² ≤ Σ|r||f| / least principal moment, where all
///   are stock joints (joints.h) of rigid bodies: a tenth of the cost. 0: exact; infinity: the bound, where there is
///   one
double fastest_swing(const System& system, const Dynamics& dynamics, const State& state, std::span<const double> lambda,
                     double enough = 0);

/// K⁺ of T15 of each body of the block, in block order: the part without negative eigenvalues of the symmetric part of
/// Σ (r·f) I₃ − r fᵀ, by which the block's own forces turn a body back that has turned [N·m/rad], world axes; zero for
/// particles. @param lambda  as in fastest_swing
void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, std::vector<Matrix3d>& K);

/// How a step by stages came to its end on the constraints.
struct ProjectionReport {
  bool converged = false;      ///< poses and velocities
  bool least_squares = false;  ///< likewise, but rows contradict each other (T6)
  int solves = 0;
  double residual = 0;  ///< largest |φ| left [m or the row's unit]
  double moved = 0;     ///< largest |component| of the displacement of a body [m, rad]
  double changed = 0;   ///< and of the change of a velocity [m/s, rad/s]
};

/// Projects first poses, then velocities, in the mass metric (T13), by a chord: solves with the factor of `dynamics`,
/// which was evaluated near, and nothing else. Rows on velocities and accelerations hold displacements; rows on
/// accelerations hold velocities as they are.
/// @param off  where the block is; all others where they are at off.t
/// @param on   in: all others as in `off`; out: the block's bodies on the constraints
/// @param v       [n] in: velocities at `off`; out: those of `on`
/// @param lambda  [m] out: multipliers of the impulses that changed them
/// @param tolerance  on |φ|; a residual at round-off counts as converged
/// No allocation once warm.
ProjectionReport settle(const System& system, const Dynamics& dynamics, const State& off, State& on,
                        std::span<double> v, std::span<double> lambda, double tolerance, int max_solves);

}  // namespace linchpin
