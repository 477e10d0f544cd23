// The bodies of an island and the forces on them at the start of a step.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Begins the step of an island: reads its bodies and the forces on them.
/// @param row_bodies  those of the host's row solver @param among_rows  the host sets up rows for the island
/// @return false with a reason in History::failure
bool read_island(Context& c, Island& b, std::span<const RowBody> row_bodies, bool among_rows);
/// Gives vectors their size that a fast step without host rows does not need, and reads the velocities.
void size_vectors(const Context& c, Island& b);
/// Adds the gyroscopic torques that the fast kernel would have added, for a step on another path.
void add_gyroscopic_torques(const Context& c, Island& b);
/// Makes the problem of an island with its laws, where no step has needed it yet.
void make_dynamics(const Context& c, Island& b);

/// Whether a body turns so far in a step that the host's rule for its gyroscopic torque is not good enough.
bool turns_far(const Context& c, const Vector3d& w);
/// Mean over h of the gyroscopic torque [N·m] (W) on a body of principal moments I that nothing else turns (T2), by the
/// implicit midpoint rule in its own axes, I Δω + h ω̄ × I ω̄ = 0, which keeps ω·Iω and |Iω| for any h. Where Newton does
/// not find the solution the torque is zero: the body turns on at its rate.
Vector3d mean_gyroscopic_torque(const Vector3d& I, const BodyState& s, double h);

/// Length of the step that the applied forces go back to. A velocity belongs to the middle of a step: after a step of
/// another length the applied forces act from the middle of that step to the middle of this one. Otherwise mechanisms
/// that are often taken in substeps would lose energy. Host rows have answered the forces of the whole step already.
double length_before(const Context& c, const Island& b);
/// Applies the forces over `time` more seconds.
void add_applied(const Context& c, Island& b, double time);

}  // namespace linchpin::host
