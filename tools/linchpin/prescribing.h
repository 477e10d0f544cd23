// Which constraints of a scene do work though they are ideal, for the energy error of a run: on the bare host and in
// the workers.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/system.h>

#include <string>
#include <vector>

namespace linchpin::cli {

/// By constraint of the model: it moves with time, holds a kinematic body, or asks for velocities. An equation on
/// velocities that is homogeneous in them does no work, for A v = 0 on all its solutions. One with a term without a
/// velocity does, as that of a turntable. This is decided at the start and at places around it.
std::vector<char> prescribes_motion(const scene::Model& model, const System& system);

/// The energy error of a run is that of the energy with this behind it. Empty where there is neither.
/// @param prescribed  there are such constraints @param impacts  there are unilateral constraints, whose impacts are
/// plastic and dissipate
inline std::string less_work(bool prescribed, bool impacts) {
  const char* const work = "the work of prescribed motions";
  const char* const loss = "the loss in plastic impacts";
  if (!prescribed && !impacts) return {};
  return std::string(" minus ") + (prescribed ? work : "") + (prescribed && impacts ? " and " : "") +
         (impacts ? loss : "");
}

}  // namespace linchpin::cli
