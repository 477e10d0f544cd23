// A model of MuJoCo as a scene in TOML, for the hosts that are not MuJoCo.
#pragma once

#include "model.h"

#include <linchpin/scene.h>

#include <string>

namespace linchpin::mujoco_worker {

/// Writes the model as a robot in `urdf_text`, with joints for its equalities and actuators for its servos. Bodies,
/// joints, equalities and sites have the names that they have on MuJoCo, and bodies have the same axes. The notes name
/// what the scene has not.
scene::MjcfScene scene_text_of(Model& model);

}  // namespace linchpin::mujoco_worker
