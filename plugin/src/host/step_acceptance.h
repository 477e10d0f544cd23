// Whether a step or substep may stand: bounds on the energy that constraints may give, on ω·h, and on turns (T15).
// Constraints that do not move cannot give a mechanism energy. Where a step would end with more energy from them, as of
// a chain that snaps taut within the step, the step was too long, whatever ω·dt says.
#pragma once

#include "host/context.h"

#include <linchpin/projection.h>

#include <span>

namespace linchpin::host {

/// Kinetic energy at the poses of an assembly, ½ vᵀM v [J].
double kinetic_energy(const Assembly& assembly, std::span<const double> v);
/// Kinetic energy of an island at the start of the step [J].
double start_energy(const Context& c, const Island& b);
/// The same without the translation that all bodies share, where no constraint holds the island to anything else [J].
/// What an island may gain in a step must not depend on how fast it flies.
double inner_start_energy(const Context& c, const Island& b);
/// Work of impulses between two velocities [J].
double work_of(std::span<const double> impulses, std::span<const double> v0, std::span<const double> v1);
/// Work of the constraint impulses of the step or substep at hand beyond what time and kinematic bodies do by them [J].
/// x.force and x.newton have what Newton added. Zero for a step that is short enough.
double gain_of_constraints(const Context& c, Island& b, double h, std::span<const double> v0,
                           std::span<const double> v1);
/// Energy that the applied forces could give from rest in one step: below it a gain is rounding, or a start [J].
double energy_floor(const Context& c, const Island& b);

/// Whether a gear's bodies turn further in a step than their poses tell: Newton would end it some teeth away.
bool gear_turns_too_far(const Context& c, const Island& b, const State& end, double h);
/// Whether some body turns further in the step than the host integrates as it is asked to.
bool turns_beyond_host(const Context& c, const Island& b);
/// Whether velocities v turn some body by half a turn against the start velocity: joints would meet again a turn on.
bool starts_half_a_turn_away(const Context& c, const Island& b);
/// A mechanism at a singular pose that has nowhere to go, as planks hinged in a straight line between two posts: the
/// rows of that pose let it go sideways, but no such motion, however small, keeps the joints together. What Newton
/// leaves then is no contradiction: there was none where the step began.
bool held_by_curvature(const Context& c, const Island& b, const NewtonReport& newton);
/// Whether rows contradict each other by more than the allowed gap; a point has three of them.
bool contradicts(const NewtonReport& newton, double h, double gap_tolerance);

}  // namespace linchpin::host
