// The job that the command gives to a worker, and the progress that the worker reports. The job is one JSON object in
// argv[1], or on standard input if that is "-": a Job, {"describe": file}, or {"convert": file} for an MJCF file. The
// answer is one JSON object on stdout: {"row": {…}} or
// {"error": {"kind": "scene" | "solver" | "csv", "message": …}}.
#pragma once

#include "bullet_scene/refused.h"
#include "mjcf_scene.h"

#include <linchpin/recording.h>
#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>

namespace linchpin::worker {

using Json = nlohmann::ordered_json;

/// One scene under one solver.
struct Job {
  std::string scene;
  std::string solver;     ///< as the user named it, for the answer
  std::string kind;       ///< exact, si, nncg, mlcp, lemke
  int iterations = 10;    ///< of the native solver
  double dt = 1.0 / 240;  ///< [s]
  long steps = 480;
  long warmup_steps = 0;                         ///< first steps left out of the statistics
  std::optional<std::array<double, 3>> gravity;  ///< [m/s²]; else the file's, else 9.81 down y
  std::optional<scene::RobotsAs> robots;         ///< else as the scene says
  cli::MjcfScenes mjcf;                          ///< scenes of the MJCF files that the scene has
  bool time_apart = true;  ///< for a comparison: the time in a run of its own, and errors in the file
  std::string csv;         ///< file to write, empty for none
  std::optional<recording::RecordingOptions> record;  ///< the answer then has `motion` (docs/how-to/reports.md)
};

/// @throws nlohmann::json::exception when a key is missing or of the wrong type.
Job read_job(const Json& job);

using bullet_scene::Refused;

/// Writes lines "<phase> <step> <steps>" to descriptor 3, where the command listens: for its progress display, and to
/// know after a crash where it happened. Silent when nobody opened descriptor 3.
class Progress {
 public:
  Progress();
  void phase(const char* name);
  /// At most ten lines a second.
  void step(long step, long steps);

 private:
  void say(long step, long steps);
  int fd_ = -1;
  const char* phase_ = "start";
  long long last_ns_ = 0;
};

}  // namespace linchpin::worker
