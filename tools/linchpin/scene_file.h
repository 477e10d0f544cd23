// Opens the file of a scene before anything runs, and checks it.
#pragma once

#include <linchpin/scene.h>

#include <optional>
#include <string>
#include <vector>

namespace linchpin::cli {

/// A scene that can be run, and what it says of that itself.
struct Opened {
  std::string path;
  std::vector<std::string> files;  ///< all that are read for it, itself first: what no output may be
  /// Of a .toml without a .bullet file in it, which only a worker can read. Of an MJCF file for hosts beside MuJoCo.
  std::optional<scene::Model> model;
  bool mjcf = false;      ///< MuJoCo has read it, and can run it
  double dt = 1.0 / 240;  ///< [s]
  double duration = 2;    ///< [s]
  scene::Host host = scene::Host::bullet_float64;
};

/// On stderr: what was read as it stands and is hardly meant, and what of a robot's file was left out.
void warn(const scene::Model& model);

/// The hosts that are to run an MJCF file, or a scene with one.
struct MjcfHosts {
  bool mujoco = true, others = false;
  bool as_scene_says = false;  ///< If the scene names a host, that one in place of MuJoCo.
};

/// Reads and checks, with warnings. Nothing after saying on stderr what is wrong.
/// @param robots  in place of what the scene says. @throws std::invalid_argument for it where the scene has none, and
/// where there is no worker for an MJCF file.
std::optional<Opened> open_scene(const std::string& path, const std::optional<scene::RobotsAs>& robots = {},
                                 MjcfHosts hosts = {});

/// Says why a file has no [params], and what to do. Empty for a scene.
std::string why_no_params(const std::string& path);

/// For the verbs that work without an engine: a model, of a .bullet or an MJCF file too, or nothing after saying why.
std::optional<scene::Model> open_model(const std::string& path);

}  // namespace linchpin::cli
