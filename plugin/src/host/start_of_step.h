// Reads the bodies of an island and the forces on them at the start of a step.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// Begins the step of an island: reads its bodies and the forces on them.
/// @param row_bodies  bodies of the host's row solver
/// @param among_rows  The host sets up rows for the island.
/// @return false with a reason in History::failure
bool read_island(Context& c, Island& b, std::span<const RowBody> row_bodies, bool among_rows);
/// Sizes the vectors that a fast step without host rows does not need, and reads the velocities.
void size_vectors(const Context& c, Island& b);
/// Adds the gyroscopic torques that the fast kernel would have added, for a step on another path.
void add_gyroscopic_torques(const Context& c, Island& b);
/// Makes the problem of an island with its laws. Called when a step first needs it.
void make_dynamics(const Context& c, Island& b);

/// Returns whether a body turns so far in a step that the host's rule for its gyroscopic torque is not exact enough.
bool is_fast_rotation(const Context& c, const Vector3d& w);
/// Returns the mean over h of the gyroscopic torque [N·m] (W) on a body of principal moments I without other torques
/// (T2). It is that of the implicit midpoint rule in its own axes, I Δω + h ω̄ × I ω̄ = 0, which keeps ω·Iω and |Iω| for
/// any h. Where Newton does not find the solution the torque is zero: the body keeps its rate.
Vector3d mean_gyroscopic_torque(const Vector3d& I, const BodyState& s, double h);

/// Returns the length of the step before this one, for the applied forces. A velocity belongs to the middle of a step.
/// After a step of another length the applied forces therefore act from the middle of that step to the middle of this
/// one. Otherwise mechanisms that are often taken in substeps would lose energy. Among host rows it is dt, because the
/// rows were solved with the forces of the whole step.
double length_before(const Context& c, const Island& b);
/// Applies the forces over `time` more seconds.
void add_applied(const Context& c, Island& b, double time);

}  // namespace linchpin::host
