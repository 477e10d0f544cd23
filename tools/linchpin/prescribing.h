// Which constraints of a scene do work though they are ideal, for the energy error of a run: on the bare host and in
// the workers.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/system.h>

#include <string>
#include <vector>

namespace linchpin::cli {

/// By constraint of the model: it moves with time, holds a driven body, or asks for velocities. An equation on
/// velocities does no work where it is homogeneous in them, for then A v = 0 on all its solutions; with a term without
/// a velocity, as that of a turntable, it does. Told at the start and at places around it.
std::vector<char> prescribes_motion(const Model& model, const System& system);

/// What the energy error of a run with such constraints is of.
inline constexpr const char* less_work = " less the work of what moves with time";

}  // namespace linchpin::cli
