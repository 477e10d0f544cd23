// Vectors in the JSON objects of all verbs.
#pragma once

#include <linchpin/system.h>

#include <nlohmann/json.hpp>

namespace linchpin::cli {

/// The three components.
inline nlohmann::ordered_json vector_json(const Vector3d& v) { return {v.x(), v.y(), v.z()}; }

}  // namespace linchpin::cli
