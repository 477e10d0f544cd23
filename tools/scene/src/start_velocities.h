// Start velocities of a mechanism, assembled from given rates (T14).
#pragma once

#include "expression.h"

#include <linchpin/scene.h>

#include <memory>
#include <string>

namespace linchpin::scene {

/// Changes the start velocities of all that moves, by the least kinetic energy, to velocities that meet the constraints
/// and the equations of the tape. Poses stay as they are. @return why there are none, in words; empty where there are
std::string assemble_velocities(Model& model, const std::shared_ptr<const Tape>& given);

}  // namespace linchpin::scene
