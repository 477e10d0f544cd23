// The place where a scene rests, for verbs that need one.
#pragma once

#include "equilibrium_search.h"

namespace linchpin::cli {

/// A place of rest of a scene.
struct PlaceOfRest {
  scene::Equilibrium equilibrium;
  State state;  ///< there, moving with the frame of the kinematic bodies where these rotate
  Held held;    ///< what moves or changes with time, and is held as at the start
};

/// Finds the stable equilibrium of the lowest potential, or the lowest one if none is stable.
/// @throws std::invalid_argument  there is none, or the scene is too large
PlaceOfRest place_of_rest(const scene::Model& model, const System& system, int starts);

}  // namespace linchpin::cli
