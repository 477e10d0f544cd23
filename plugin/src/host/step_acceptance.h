// Decides whether a step or substep is accepted, by bounds on the energy that constraints may give, and on turns (T15).
// Constraints that do not move cannot give energy to a mechanism. A step that would end with energy from them was too
// long, whatever its ω·dt: a chain may have become taut within the step.
//
// Each way of stepping compares its step with these bounds: try_whole_step (general_island_solver.cpp),
// accept_or_substep (fast_island_solver.cpp), SemiImplicitSubstep::attempt (semi_implicit_substep.cpp) and
// StagedSubstep (staged_integrator.cpp). The joint kernel has the same bounds for four islands at a time
// (joint_kernel/acceptance.h).
#pragma once

#include "host/body_vectors.h"
#include "host/context.h"

#include <linchpin/projection.h>

#include <span>

namespace linchpin::host {

/// The result of a try of a step or a substep.
enum class Acceptance {
  accepted,
  repeat,  ///< The same length is to be tried once more: host rows were left out.
  too_long,
  impossible  ///< No shorter substep would help.
};

/// Returns the kinetic energy at the poses of an assembly, ½ vᵀM v [J].
double kinetic_energy(const Assembly& assembly, std::span<const double> v);
/// A motion of a rigid body: v = linear + angular × (p − centre).
struct RigidMotion {
  Vector3d centre{0, 0, 0}, linear{0, 0, 0}, angular{0, 0, 0};
  Vector3d at(const Vector3d& p) const { return linear + angular.cross(p - centre); }
};
/// Returns the kinetic energy of velocities v at poses, relative to a rigid motion [J].
double kinetic_energy(const System& system, const IslandLayout& layout, const State& poses, std::span<const double> v,
                      const RigidMotion& relative_to = {});
/// Returns the kinetic energy of an island in a state [J].
double energy_of(const Context& c, const Island& b, const State& at);
/// Returns the kinetic energy of an island at the start of the step [J].
double start_energy(const Context& c, const Island& b);
/// Returns the same without the translation that all bodies share, where no constraint joins the island to other bodies
/// [J]. The energy that an island may gain in a step must not depend on how fast it flies.
double inner_start_energy(const Context& c, const Island& b);
/// Returns the work of impulses between two velocities [J].
double work_of(std::span<const double> impulses, std::span<const double> v0, std::span<const double> v1);
/// Returns the work of the constraint impulses of the current step or substep, without that of time and kinematic
/// bodies [J]. x.force and x.newton contain the impulses of Newton. The work is zero for a step that is short enough.
double gain_of_constraints(const Context& c, Island& b, double h, std::span<const double> v0,
                           std::span<const double> v1);
/// Returns the work of the impulses of rows in the current step or substep, with the mean velocities of the rows [J].
/// @param counts  counts(i): whether constraint i of the island counts
template <class Counts>
double work_of_rows(Island& b, double h, std::span<const double> v0, std::span<const double> v1, Counts counts) {
  const Dynamics& dynamics = *b.dynamics;
  const auto reaction = dynamics.lambda(), induced = dynamics.induced();
  b.x.change.resize(v0.size());
  for (std::size_t j = 0; j < v0.size(); ++j) b.x.change[j] = 0.5 * (v1[j] - v0[j]);
  b.x.row_change.resize(b.x.row.size());
  row_velocities(dynamics.assembly(), b.x.change, b.x.row_change);
  double sum = 0;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    if (!counts(i)) continue;
    for (std::size_t r = z(b.layout().row[i]); r < z(b.layout().row[i + 1]); ++r)
      sum += (h * (reaction[r] + induced[r]) + b.x.newton[r]) * (dynamics.assembly().velocity[r] + b.x.row_change[r]);
  }
  return sum;
}
/// Returns the displacement that the rounding of a pose and the tolerance of Newton may leave open [m, rad].
double open_by_rounding(const Context& c, const BodyState& s);
/// Returns the energy that the applied forces could give from rest in one step [J]. A gain below it is rounding, or the
/// start of a motion.
double energy_floor(const Context& c, const Island& b);

/// Returns whether bodies of a gear turn further in a step than their poses show: Newton would end it some teeth away.
bool gear_turns_too_far(const Context& c, const Island& b, const State& end, double h);
/// Returns whether some body turns further in the step than the host integrates exactly.
bool turns_beyond_host(const Context& c, const Island& b);
/// Returns whether velocities v turn some body by half a turn against the start velocity. Joints would then close a
/// turn too far.
bool starts_half_a_turn_away(const Context& c, const Island& b);
/// Returns whether a mechanism at a singular pose is held by curvature, as planks hinged in a straight line between two
/// posts. The rows of that pose permit a sideways motion, but no such motion, however small, keeps the joints together.
/// The residual of Newton is then no contradiction, because there was none at the start.
bool held_by_curvature(const Context& c, const Island& b, const NewtonReport& newton);
/// Returns whether rows contradict each other by more than the allowed gap. A point has three of them.
bool contradicts(const NewtonReport& newton, double h, double gap_tolerance);

}  // namespace linchpin::host
