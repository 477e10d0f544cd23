// A look at a scene file before any worker loads it: Bullet's own reader believes every length a file states, and dies
// on a wrong one.
#pragma once

#include <string>
#include <string_view>

namespace linchpin::cli {

/// Why these bytes are no .bullet scene of rigid bodies; empty when they may be one.
std::string scene_fault(std::string_view bytes);

/// Reads and checks. @return false after saying on stderr what is wrong.
bool check_scene(const std::string& path);

}  // namespace linchpin::cli
