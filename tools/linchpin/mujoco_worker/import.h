// The bodies, frames, joints and equalities of a model of MuJoCo as those of a scene.
#pragma once

#include "model.h"

#include <linchpin/scene.h>

namespace linchpin::mujoco_worker {

/// Body i + 1 of MuJoCo is body i. Joints are those of bodies with one joint: a body with several has links between
/// them that no scene names. Connects and welds are `imported` constraints.
scene::Imported imported_of(Model& model);

}  // namespace linchpin::mujoco_worker
