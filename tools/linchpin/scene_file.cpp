#include "scene_file.h"

#include "bullet_description.h"
#include "bullet_import.h"
#include "messages.h"
#include "mjcf.h"
#include "mjcf_scene.h"

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

namespace {

// @return nothing after saying what is wrong with an MJCF file
std::optional<scene::Model> load_with_mjcf(const std::string& path, const scene::BulletImporter& import) {
  scene::Overrides overrides;
  overrides.mjcf_scene = import_mjcf;
  if (kind_of(path) == ".toml" || !is_mjcf(path)) return scene::load(path, import, overrides);
  try {
    (void)import_mjcf(path);
  } catch (const std::runtime_error& e) {
    std::string text;
    if (read_file(path, text)) complain(path, text, e.what());
    return {};
  }
  return scene::load_text(scene_with_mjcf(path), path, import, overrides);
}

void take_model(Opened& out, scene::Model model) {
  out.model = std::move(model);
  warn(*out.model);
  out.files = out.model->files;
  out.dt = out.model->dt, out.duration = out.model->duration, out.host = out.model->host;
}

// @return false after saying what is wrong
bool open_with_mjcf(Opened& out, MjcfHosts hosts) {
  if (hosts.others) try {
      auto model = load_with_mjcf(out.path, {});
      if (!model) return false;
      take_model(out, std::move(*model));
    } catch (const scene::SceneError& e) {
      std::cerr << e.what() << "\n";
      return false;
    }
  if (!hosts.mujoco) return true;
  const auto file = open_mjcf(out.path);
  if (!file) return false;
  out.mjcf = true;
  out.dt = file->dt, out.duration = file->duration;
  return true;
}

}  // namespace

std::optional<Opened> open_scene(const std::string& path, const std::optional<scene::RobotsAs>& robots,
                                 MjcfHosts hosts) {
  Opened out;
  out.path = path;
  out.files = {path};
  const std::string extension = kind_of(path);
  const auto open_mjcf_as = [&](MjcfHosts as) -> std::optional<Opened> {
    if (robots)
      throw std::invalid_argument("--as applies to robots of URDF and SDF files, and this is MJCF. Leave it out");
    if (!open_with_mjcf(out, as)) return {};
    return out;
  };
  if (extension != ".toml" && is_mjcf(path)) return open_mjcf_as(hosts);
  if (is_ours(extension)) {
    try {
      scene::Overrides overrides;
      overrides.robots = robots;
      take_model(out, scene::load(path, {}, overrides));
    } catch (const scene::NeedsHost& e) {  // the worker has the .bullet or MJCF file read, and checks the rest
      if (e.mujoco) {
        out.files = e.files;
        return open_mjcf_as(hosts.as_scene_says && e.host_given ? MjcfHosts{false, true} : hosts);
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

std::string why_no_params(const std::string& path) {
  if (is_mjcf(path))
    return "an MJCF file has no [params]. Include it in a .toml scene: mjcf = \"" +
           std::filesystem::path(path).filename().string() + "\" in [model], and give the scene [params]";
  return path.ends_with(".bullet") ? "a .bullet file has no [params]. Include it in a .toml scene" : "";
}

std::optional<scene::Model> open_model(const std::string& path) {
  const std::string extension = kind_of(path);
  if (!is_ours(extension) && extension != ".bullet" && !is_mjcf(path)) {
    (void)open_scene(path);  // says what it is not
    return {};
  }
  try {
    auto model = load_with_mjcf(path, import_bullet);
    if (model) warn(*model);
    return model;
  } catch (const scene::SceneError& e) {
    std::cerr << e.what() << "\n";
    return {};
  }
}

}  // namespace linchpin::cli
