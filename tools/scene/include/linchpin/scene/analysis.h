// What can be said of a system without running it: what kind each constraint is, and where it can rest. Works on any
// System, from a file or not.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

#include <optional>
#include <string>
#include <vector>

namespace linchpin {

/// Whether rows on velocities are rows on positions in disguise.
enum class Integrability {
  holonomic,           ///< on positions to begin with
  exact,               ///< each row is the rate of a function of positions and time
  integrating_factor,  ///< not as it stands, but times a function, or rows mixed: ω ∧ dω = 0 (Frobenius)
  integrable_here,     ///< not by itself, but together with the other constraints of the system
  nonholonomic         ///< no function of positions and time says the same
};
const char* to_string(Integrability kind);

struct Classification {
  Integrability kind = Integrability::nonholonomic;
  bool linear = true;      ///< in the velocities
  bool rheonomic = false;  ///< changes with time, by itself or by a driven body
  bool catastatic = true;  ///< met by bodies at rest: no term without a velocity
  /// Of exact rows: the functions, where they are polynomials of positions, components of body axes, coordinates with
  /// their sines and cosines, and time; else empty.
  std::string integral;
};

/// Decides at the state and at places around it, by the exterior derivative of the rows on (poses, t); derivatives of
/// A by central differences, tolerance 1e-5 relative. Costs (6K)² linearisations for K bodies, O(n²) of them for the
/// whole system when the constraint is not integrable by itself.
[[nodiscard]] Classification classify(const System& system, ConstraintId id, const State& state);

/// A place of rest: applied and constraint forces balance in every virtual displacement (principle of virtual work).
struct Equilibrium {
  State state;
  double residual = 0;  ///< largest generalized force left in a virtual displacement, relative to the largest force
  enum class Stability { stable, unstable, marginal } stability = Stability::marginal;
  /// Squares of the small-oscillation frequencies [1/s²], ascending: stiffness against mass in the virtual
  /// displacements. Negative ones lead away. Velocity-dependent forces (damping, Coriolis) are not in them.
  std::vector<double> frequencies_squared;
  std::vector<double> lambda;  ///< of the block's rows, least norm
};

struct EquilibriumSearch {
  int starts = 24;  ///< from the state given and from places around it, always the same ones
  double spread = 1.0;
  /// Rest in a frame turning with this rate about a line through `centre` [rad/s]: centrifugal forces count.
  Vector3d omega = Vector3d::Zero(), centre = Vector3d::Zero();
};

/// Places where the system rests with time held at state.t, laws left out, each once, lowest potential first. Newton on
/// virtual displacements; O(n³) per step, so for some hundred columns at most.
[[nodiscard]] std::vector<Equilibrium> find_equilibria(const System& system, const State& state,
                                                       const EquilibriumSearch& search = {});

/// The uniform turning that all driven bodies share, when they do: ω and a point of the axis.
[[nodiscard]] std::optional<std::pair<Vector3d, Vector3d>> turning_of_driven(const System& system);

}  // namespace linchpin
