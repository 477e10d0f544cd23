// A .bullet file as bodies and joints of the core, read by the worker in double precision: the command links no engine.
#pragma once

#include <linchpin/scene.h>

#include <string>

namespace linchpin::cli {

/// @throws std::runtime_error when it is no .bullet scene or there is no worker: in words that continue the file's
/// name.
scene::Imported import_bullet(const std::string& path);

}  // namespace linchpin::cli
