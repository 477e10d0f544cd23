// The module linchpin-sdf.so exports an SdfModule with the name linchpin_sdf.
#pragma once

#include "robot_file.h"

#include <linchpin/version.h>

#include <cstddef>
#include <string>

namespace linchpin::scene {

struct SdfModule {
  const char* version;  ///< LINCHPIN_VERSION of the module; the types below are those of this version
  /// As read_sdf().
  RobotFile (*read)(const std::string& text, const std::string& path, std::size_t mesh_hulls);
};

}  // namespace linchpin::scene
