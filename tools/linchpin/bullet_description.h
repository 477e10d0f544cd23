// The contents of a .bullet file as JSON, which a program linked with Bullet writes (worker/describe.h), and as bodies
// and joints of linchpin.
#pragma once

#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace linchpin::cli {

/// The reason why these bytes are no .bullet scene of rigid bodies; empty if they may be one. Bullet's own reader
/// believes every length that a file states, and crashes on a wrong one.
std::string scene_fault(std::string_view bytes);

/// Reads the file and checks it by scene_fault(). @throws std::runtime_error in words that continue the file's name
void require_bullet_scene(const std::string& path);

/// Bodies and joints from the JSON of a .bullet file. The bodies have no shapes.
scene::Imported imported_of(const nlohmann::ordered_json& file);

}  // namespace linchpin::cli
