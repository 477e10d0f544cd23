// Analysis of a system without a simulation: the kind of each constraint, and places of equilibrium. It works on any
// System, from a file or not.
//
// The structs of this header are plain values. The functions do not change the system. They call the functions of its
// constraints, forces and kinematic bodies in the calling thread, so one thread at a time may use one system. These
// functions must not call a solver.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/scene/export.h>
#include <linchpin/system.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::scene {

/// The relation of rows on velocities to rows on positions.
enum class Integrability {
  holonomic,           ///< on positions to begin with
  exact,               ///< each row is the rate of a function of positions and time
  integrating_factor,  ///< not as it stands, but times a function, or rows mixed: ω ∧ dω = 0 (Frobenius)
  integrable_here,     ///< not by itself, but together with the other constraints of the system
  nonholonomic         ///< no function of positions and time says the same
};
/// Text of a value.
LINCHPIN_SCENE_API const char* to_string(Integrability kind);

/// The kind of a constraint.
struct Classification {
  Integrability kind = Integrability::nonholonomic;  ///< its relation to rows on positions
  bool linear = true;                                ///< in the velocities
  /// Changes with time, by itself or by a kinematic body. An integrable row with a term without a velocity is also
  /// rheonomic, because its function contains time: velocity.y = 1 is the rate of y − t. A nonholonomic row with such a
  /// term is not: that of a turntable is scleronomic and acatastatic.
  bool rheonomic = false;
  bool catastatic = true;  ///< met by bodies at rest: no term without a velocity
  /// All derivatives of some row vanish at the state, though not around it: nothing could hold it there.
  bool zero_jacobian = false;
  /// The functions of exact rows, if they are polynomials. The variables are positions, components of body axes,
  /// coordinates with their sines and cosines, and time. The functions agree with the row to 1e-8 at places that were
  /// not used to find them. Otherwise empty.
  std::string integral;
};

/// Decides at the state and at places around it, by the exterior derivative of the rows on (poses, t). Derivatives of A
/// are central differences of order 6; a difference of two of them counts above 1e-7 of their sizes, and above 1e-10 of
/// the row. Costs some (6K)² · 6 linearisations for K bodies, O(n) of them for the whole system when the constraint is
/// not integrable by itself.
[[nodiscard]] LINCHPIN_SCENE_API Classification classify(const System& system, ConstraintId id, const State& state);

/// A combination of rows on velocities that is equivalent to a condition on positions. The constraints of these rows
/// are nonholonomic as a whole. Example: the row along the normal of a rolling contact holds a wheel on its road.
struct IntegrableCombination {
  /// A row of the combination, with its coefficient.
  struct Row {
    ConstraintId constraint;  ///< the constraint
    int row = 0;              ///< of the constraint, from 0
    double coefficient = 0;   ///< at the state
  };
  std::vector<Row> rows;  ///< the largest coefficient is 1
  bool constant = false;  ///< the coefficients are the same elsewhere
  std::string integral;   ///< as Classification::integral, of the combination; with constant coefficients only
};

/// Finds combinations of the rows of nonholonomic constraints, together with all constraints that share movable bodies
/// with them. It computes which places can be reached along all rows by paths of finite length, to 1e-5 of the rows. It
/// does not search where these bodies have more than 80 velocities.
/// @param kinds  of all constraints, by ConstraintId. @param state  on the constraints
[[nodiscard]] LINCHPIN_SCENE_API std::vector<IntegrableCombination> integrable_combinations(
    const System& system, std::span<const Classification> kinds, const State& state);

/// A place of rest: applied and constraint forces balance in every virtual displacement (principle of virtual work).
struct Equilibrium {
  State state;          ///< the place, at rest
  double residual = 0;  ///< largest generalized force left in a virtual displacement, relative to the largest force
  /// What happens after a small displacement.
  enum class Stability {
    stable,                           ///< small motions stay small
    unstable,                         ///< some small motion grows
    marginal                          ///< the frequencies do not decide it
  } stability = Stability::marginal;  ///< by the frequencies
  /// Squares of the small-oscillation frequencies [1/s²], ascending: stiffness against mass in the virtual
  /// displacements. Negative ones belong to motions away from the equilibrium. Values below 1e-9 of the terms of their
  /// sum, and values that rounding of the forces alone can make, are 0. With such a value the stability is marginal.
  /// Velocity-dependent forces (damping, Coriolis) are not included.
  std::vector<double> frequencies_squared;
  /// Their imaginary parts, if some are complex. Otherwise empty. Circulatory forces, which have no potential, then
  /// increase an oscillation (flutter). The motions are exp(λt) with λ² the negative of the complex square.
  std::vector<double> imaginary_parts;
  std::vector<double> lambda;  ///< of the block's rows, least norm
  /// It belongs to a continuum of equilibria at the same potential, along a direction of frequency 0. The search keeps
  /// one of those that it finds.
  bool continuum = false;
};

/// Settings of find_equilibria().
struct EquilibriumSearch {
  /// Number of starts: at the given state and at places around it, which are always the same. Further starts are where
  /// the forces move the given state, where components of positions are zero, and between the equilibria found.
  int starts = 24;
  /// scale of the random displacements from the given state to the starts [m, rad, or the unit of a coordinate]
  double spread = 1.0;
  /// Rate of a rotating frame about a line through `centre` [rad/s]. The search then finds equilibria in that frame,
  /// with centrifugal forces. It leaves out those that are no equilibria after a rotation with the frame, because
  /// constraints or gravity do not rotate.
  Vector3d omega = Vector3d::Zero(), centre = Vector3d::Zero();
  /// Called often in the thread of the search, with the number of starts done and known. If it returns false, the
  /// search ends with the equilibria found so far.
  std::function<bool(int done, int of)> go_on = {};
};

/// Finds equilibria of the system at the time state.t, each once, lowest potential first. It leaves out laws.
/// Constraints on velocities count by the displacements that they allow, not by the velocities that they prescribe; see
/// requiring_motion(). The method is Newton on virtual displacements. It costs O(n³) per iteration, so it is for some
/// hundred columns at most.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<Equilibrium> find_equilibria(const System& system, const State& state,
                                                                          const EquilibriumSearch& search = {});

/// The kinematic bodies that move, of those that a constraint or a force mentions.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<BodyId> moving_kinematic_bodies(const System& system);

/// Constraints and forces that depend on time explicitly, with kinematic bodies at rest. Examples are a joint with a
/// prescribed motion and an equation that contains t. The values are compared at five times, at the start and at a
/// place beside it.
struct TimeDependence {
  std::vector<ConstraintId> constraints;  ///< the constraints
  std::vector<std::string> forces;        ///< names of the forces
};
/// Finds the constraints and forces that depend on time explicitly.
[[nodiscard]] LINCHPIN_SCENE_API TimeDependence time_dependence(const System& system);

/// Returns the constraints on velocities that exclude rest at this state. The frame of rest rotates with `omega`
/// [rad/s] about a line through `centre`. With such a constraint the state is no equilibrium.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<ConstraintId> requiring_motion(const System& system, const State& state,
                                                                            const Vector3d& omega,
                                                                            const Vector3d& centre);

/// Returns the constant rotation that all moving kinematic bodies share, if there is one: ω and a point of the axis.
[[nodiscard]] LINCHPIN_SCENE_API std::optional<std::pair<Vector3d, Vector3d>> rotation_of_kinematic_bodies(
    const System& system);

}  // namespace linchpin::scene
