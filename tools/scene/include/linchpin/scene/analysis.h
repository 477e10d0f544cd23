// What can be said of a system without running it: what kind each constraint is, and where it can rest. Works on any
// System, from a file or not.
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

/// Whether rows on velocities are rows on positions in disguise.
enum class Integrability {
  holonomic,           ///< on positions to begin with
  exact,               ///< each row is the rate of a function of positions and time
  integrating_factor,  ///< not as it stands, but times a function, or rows mixed: ω ∧ dω = 0 (Frobenius)
  integrable_here,     ///< not by itself, but together with the other constraints of the system
  nonholonomic         ///< no function of positions and time says the same
};
LINCHPIN_SCENE_API const char* to_string(Integrability kind);

struct Classification {
  Integrability kind = Integrability::nonholonomic;
  bool linear = true;  ///< in the velocities
  /// Changes with time, by itself or by a kinematic body. A row that is integrable is rheonomic also by a term without
  /// a velocity, for its function has time in it: velocity.y = 1 is the rate of y − t. A nonholonomic row is not: that
  /// of a turntable is scleronomic and acatastatic.
  bool rheonomic = false;
  bool catastatic = true;  ///< met by bodies at rest: no term without a velocity
  /// All derivatives of some row vanish at the state, though not around it: nothing could hold it there.
  bool zero_jacobian = false;
  /// Of exact rows: the functions, where they are polynomials of positions, components of body axes, coordinates with
  /// their sines and cosines, and time, to 1e-8 of the row at places they were not found from; else empty.
  std::string integral;
};

/// Decides at the state and at places around it, by the exterior derivative of the rows on (poses, t). Derivatives of A
/// are central differences of order 6; a difference of two of them counts above 1e-7 of their sizes, and above 1e-10 of
/// the row. Costs some (6K)² · 6 linearisations for K bodies, O(n) of them for the whole system when the constraint is
/// not integrable by itself.
[[nodiscard]] LINCHPIN_SCENE_API Classification classify(const System& system, ConstraintId id, const State& state);

/// A combination of rows on velocities that is a condition on positions in disguise, while the constraints it is taken
/// from are nonholonomic as a whole: the row along the normal of a rolling contact holds a wheel on its road.
struct IntegrableCombination {
  struct Row {
    ConstraintId constraint;
    int row = 0;             ///< of the constraint, from 0
    double coefficient = 0;  ///< at the state
  };
  std::vector<Row> rows;  ///< the largest coefficient is 1
  bool constant = false;  ///< the coefficients are the same elsewhere
  std::string integral;   ///< as Classification::integral, of the combination; with constant coefficients only
};

/// Combinations of the rows of constraints that are nonholonomic, together with all constraints that share movable
/// bodies with them. Found from what can be reached along all rows by ways of finite length, numerically to 1e-5 of the
/// rows. Nothing is looked for where these bodies have more than 80 velocities.
/// @param kinds  of all constraints, by ConstraintId. @param state  on the constraints
[[nodiscard]] LINCHPIN_SCENE_API std::vector<IntegrableCombination> integrable_combinations(
    const System& system, std::span<const Classification> kinds, const State& state);

/// A place of rest: applied and constraint forces balance in every virtual displacement (principle of virtual work).
struct Equilibrium {
  State state;
  double residual = 0;  ///< largest generalized force left in a virtual displacement, relative to the largest force
  enum class Stability { stable, unstable, marginal } stability = Stability::marginal;
  /// Squares of the small-oscillation frequencies [1/s²], ascending: stiffness against mass in the virtual
  /// displacements. Negative ones lead away. Those below 1e-9 of the terms they are a sum of, and those that the
  /// rounding of the forces alone can make, are 0. Where one is, nothing is decided: marginal. Velocity-dependent
  /// forces (damping, Coriolis) are not in them.
  std::vector<double> frequencies_squared;
  /// Their imaginary parts where some are complex, else empty: circulatory forces, which have no potential, feed an
  /// oscillation that grows (flutter). The motions are exp(λt) with λ² the negative of the complex square.
  std::vector<double> imaginary_parts;
  std::vector<double> lambda;  ///< of the block's rows, least norm
  /// It belongs to a continuum of places of rest: a way along a rate of 0 goes on through such places, at the same
  /// potential. The search keeps one of those that it comes to.
  bool continuum = false;
};

struct EquilibriumSearch {
  /// From the state given and from places around it, always the same ones. Besides, from where the forces take the
  /// given state, from where components of positions are zero, and from between what was found.
  int starts = 24;
  double spread = 1.0;
  /// Rest in a frame turning with this rate about a line through `centre` [rad/s]: centrifugal forces count, and what
  /// is no place of rest any more when turned with the frame (for its constraints or gravity do not turn) is left out.
  Vector3d omega = Vector3d::Zero(), centre = Vector3d::Zero();
  /// Asked often, with the starts done and known of; false ends the search with what was found so far.
  std::function<bool(int done, int of)> go_on = {};
};

/// Places where the system rests with time held at state.t, laws left out and constraints on velocities taken for what
/// they allow (not for what they ask for: see requiring_motion), each once, lowest potential first. Newton on
/// virtual displacements; O(n³) per step, so for some hundred columns at most.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<Equilibrium> find_equilibria(const System& system, const State& state,
                                                                          const EquilibriumSearch& search = {});

/// The kinematic bodies that move, of those that a constraint or a force mentions.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<BodyId> moving_kinematic_bodies(const System& system);

/// What changes with time by itself, kinematic bodies held where they are: a joint with a prescribed motion, an
/// equation in which t occurs. Told from values at five times, at the start and at a place beside it.
struct TimeDependence {
  std::vector<ConstraintId> constraints;
  std::vector<std::string> forces;
};
[[nodiscard]] LINCHPIN_SCENE_API TimeDependence time_dependence(const System& system);

/// Constraints on velocities that bodies at rest in the frame turning with `omega` [rad/s] about a line through
/// `centre` do not meet at this state: where there is one, it is no place of rest.
[[nodiscard]] LINCHPIN_SCENE_API std::vector<ConstraintId> requiring_motion(const System& system, const State& state,
                                                                            const Vector3d& omega,
                                                                            const Vector3d& centre);

/// The turning at a constant rate that all of them share, when they do: ω and a point of the axis.
[[nodiscard]] LINCHPIN_SCENE_API std::optional<std::pair<Vector3d, Vector3d>> rotation_of_kinematic_bodies(
    const System& system);

}  // namespace linchpin::scene
