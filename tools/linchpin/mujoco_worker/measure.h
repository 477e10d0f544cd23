// One MJCF file under one solver: how long its steps take, how well its equalities hold, and what they transmit.
#pragma once

#include "model.h"

#include <string>

namespace linchpin::mujoco_worker {

/// The answer to a job, as `linchpin compare --json` shows it per solver. Kinds of solvers are exact, mujoco and stiff.
/// @throws Refused where the file, the solver or the file to write will not do
Json measure(const worker::Job& job, worker::Progress& progress);

/// The file as a scene for other hosts (mjcf_scene.h). @throws Refused("scene", …)
Json convert(const std::string& file);

/// What the command has to know of a file before a run: `dt`. @throws Refused("scene", …)
Json describe(const std::string& file);

}  // namespace linchpin::mujoco_worker
