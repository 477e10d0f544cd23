// The geometries of a body as shapes of a recording.
#pragma once

#include "model.h"

#include <linchpin/recording.h>

#include <vector>

namespace linchpin::mujoco_worker {

/// In the axes of the body (Model::state), from its centre of mass. Those that MuJoCo's viewer shows by default, or all
/// where it shows none.
std::vector<recording::PlacedVisualShape> shapes_of(const mjModel& m, int body);

}  // namespace linchpin::mujoco_worker
