// Joint feedback: the impulses and the forces of exact joints, as the host's own joints report them.
#pragma once

#include "host/context.h"
#include "host/island.h"

#include <vector>

namespace linchpin::host {

/// Reports the impulse of each exact joint of an island over the step: the norm of those along its force rows.
/// @param impulses  memory
void report_joint_impulses(Context& c, const Island& b, std::vector<JointImpulse>& impulses);
/// Reports the mean forces of joints over the step, about the centres of mass, where the program reads them. The
/// reactions of the island must be current.
void report_joint_forces(Context& c, const Island& b);

}  // namespace linchpin::host
