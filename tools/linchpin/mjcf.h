// Files of MuJoCo, which only a worker process reads.
#pragma once

#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace linchpin::cli {

/// Returns whether the root element of a file is <mujoco>, whatever the end of its name. False where there is no such
/// file.
bool is_mjcf(const std::string& path);

/// What the worker says of a file before a run.
struct MjcfFile {
  double dt = 0;        ///< [s]
  double duration = 2;  ///< [s]
};
/// Has the worker read an MJCF file, or a scene with one, with its warnings. Nothing after saying on stderr what is
/// wrong with it.
/// @throws std::invalid_argument where there is no worker
std::optional<MjcfFile> open_mjcf(const std::string& path);

/// Has the worker make the scene of an MJCF file for other hosts, once for each file.
/// @throws std::runtime_error in words that continue the file's name
scene::MjcfScene import_mjcf(const std::string& path);
/// The scenes that import_mjcf() has made, by path, for the job of another worker (worker_common/job.h).
const nlohmann::ordered_json& imported_mjcf();

}  // namespace linchpin::cli
