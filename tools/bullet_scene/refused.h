// Why a scene or a solver cannot be used in Bullet.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin::bullet_scene {

/// The error of a scene in Bullet. The text names the thing and says what to do.
struct Refused : std::runtime_error {
  Refused(std::string kind_, const std::string& message) : std::runtime_error(message), kind(std::move(kind_)) {}
  std::string kind;  ///< "scene", "solver", or another part of a job, by which the command chooses its exit code
};

}  // namespace linchpin::bullet_scene
