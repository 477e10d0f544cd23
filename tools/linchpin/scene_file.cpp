#include "scene_file.h"

#include "bullet_description.h"
#include "bullet_import.h"
#include "messages.h"
#include "mjcf.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

namespace linchpin::cli {

namespace {

// .toml whatever its case: files come from systems that do not mind.
std::string kind_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

bool is_ours(const std::string& extension) {
  return extension == ".toml" || extension == ".urdf" || extension == ".sdf";
}

}  // namespace

void warn(const scene::Model& model) {
  for (const std::string& each : model.warnings) std::cerr << each << "\n";
  constexpr std::size_t most_names = 3;
  for (const scene::Note& each : model.notes) std::cerr << "note: " << each.shown(most_names) << "\n";
}

std::optional<Opened> open_scene(const std::string& path, const std::optional<scene::RobotsAs>& robots) {
  Opened out;
  out.path = path;
  out.files = {path};
  const std::string extension = kind_of(path);
  if (extension != ".toml" && is_mjcf(path)) {
    if (robots)
      throw std::invalid_argument("--as applies to robots in Bullet, and MuJoCo runs an MJCF file. Leave it out");
    const auto file = open_mjcf(path);
    if (!file) return {};
    out.mjcf = true;
    out.dt = file->dt, out.duration = file->duration;
    return out;
  }
  if (is_ours(extension)) {
    try {
      scene::Overrides overrides;
      overrides.robots = robots;
      out.model = scene::load(path, {}, overrides);
      warn(*out.model);
      out.files = out.model->files;
      out.dt = out.model->dt, out.duration = out.model->duration, out.host = out.model->host;
    } catch (const scene::NeedsHost& e) {  // the worker has the .bullet or MJCF file read, and checks the rest
      if (e.mujoco) {
        if (robots)
          throw std::invalid_argument("--as applies to robots in Bullet, and MuJoCo runs this scene. Leave it out");
        const auto file = open_mjcf(path);
        if (!file) return {};
        out.mjcf = true, out.files = e.files;
        out.dt = file->dt, out.duration = file->duration;
        return out;
      }
      out.dt = e.dt, out.duration = e.duration, out.files = e.files;
      out.host = e.host == scene::Host::bare ? scene::Host::bullet_float64 : e.host;
    } catch (const scene::SceneError& e) {
      std::cerr << e.what() << "\n";
      return {};
    }
    return out;
  }
  if (path == "-") {  // it is loaded again for every solver
    std::cerr << "-: error: a scene is read from a file, not from standard input\n";
    return {};
  }
  if (robots)
    throw std::invalid_argument("--as applies to scenes with a robot, and a .bullet file has none. Leave it out");
  std::string bytes;
  if (!read_file(path, bytes)) return {};
  const std::string fault = scene_fault(bytes);
  if (fault.empty()) return out;
  complain(
      path, bytes,
      fault + (extension != ".bullet" ? ". Names of scenes end with .toml, names of robots with .urdf or .sdf" : ""));
  return {};
}

std::optional<scene::Model> open_model(const std::string& path) {
  const std::string extension = kind_of(path);
  if (extension != ".toml" && is_mjcf(path)) {
    complain(path, {}, "is MJCF, the format of MuJoCo. Only \"linchpin run\" and \"linchpin compare\" read it");
    return {};
  }
  if (!is_ours(extension) && extension != ".bullet") {
    (void)open_scene(path);  // says what it is not
    return {};
  }
  try {
    scene::Model model = load(path, import_bullet);
    warn(model);
    return model;
  } catch (const scene::SceneError& e) {
    std::cerr << e.what() << "\n";
    return {};
  }
}

}  // namespace linchpin::cli
