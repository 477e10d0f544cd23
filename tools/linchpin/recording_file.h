// Files of `--record`, read back.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::cli {

/// Whether the file says of itself, at its beginning, that it is a recording.
bool looks_like_recording(const std::string& path);

/// The recordings of one scene as one. @return false after saying on stderr which file is none
/// or what of it is damaged. @throws std::invalid_argument where they are not of one scene
bool read_recordings(const std::vector<std::string>& paths, nlohmann::ordered_json& all);

}  // namespace linchpin::cli
