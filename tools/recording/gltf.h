// The motions of a recording as a glTF 2.0 animation: for Blender, and for what shows 3D on the web and on desktops.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::recording {

/// One scene with a node per body and run; the first exact run (or the first of all) solid, others as ghosts. +Y is up,
/// metres and seconds. Poses up to the first that is not finite.
/// @param binary  a .glb, else the JSON with its buffer in it
/// @throws std::invalid_argument when no run has a body in space; what Motion throws of a damaged recording.
std::string gltf(const nlohmann::ordered_json& recording, bool binary);

}  // namespace linchpin::recording
