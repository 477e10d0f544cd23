// The scene of an MJCF file as the worker of MuJoCo gives it to the command, and the command to the workers of Bullet.
#pragma once

#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace linchpin::cli {

/// Scenes by the path of the MJCF file.
using MjcfScenes = std::map<std::string, scene::MjcfScene>;

inline nlohmann::ordered_json json_of(const scene::MjcfScene& scene) {
  nlohmann::ordered_json out = {{"text", scene.text}, {"notes", nlohmann::ordered_json::array()}};
  for (const scene::Note& note : scene.notes) out["notes"].push_back({note.text, note.names, note.more});
  return out;
}

inline scene::MjcfScene mjcf_scene_of(const nlohmann::ordered_json& j) {
  scene::MjcfScene out{j.at("text").get<std::string>(), {}};
  for (const auto& note : j.at("notes"))
    out.notes.emplace_back(note[0].get<std::string>(), note[1].get<std::vector<std::string>>(),
                           note[2].get<std::string>());
  return out;
}

/// A text as a string of TOML.
inline std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// A scene that consists of an MJCF file. Its path is that of the file.
inline std::string scene_with_mjcf(const std::string& path) {
  return "schema = 2\n[model]\nmjcf = " + toml_string(std::filesystem::path(path).filename().string()) + "\n";
}

}  // namespace linchpin::cli
