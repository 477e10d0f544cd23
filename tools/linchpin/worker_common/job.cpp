#include "job.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace linchpin::worker {

Job read_job(const Json& j) {
  Job job;
  job.scene = j.at("scene").get<std::string>();
  job.solver = j.at("solver").get<std::string>();
  job.kind = j.at("kind").get<std::string>();
  job.iterations = j.at("iterations").get<int>();
  job.dt = j.at("dt").get<double>();
  job.steps = j.at("steps").get<long>();
  job.warmup_steps = j.at("warmup_steps").get<long>();
  if (j.contains("gravity") && !j["gravity"].is_null()) job.gravity = j["gravity"].get<std::array<double, 3>>();
  if (j.contains("multibody"))
    job.robots = j["multibody"].get<bool>() ? scene::RobotsAs::multibody : scene::RobotsAs::bodies;
  const Json scenes = j.value("mjcf", Json::object());
  for (const auto& [path, scene] : scenes.items()) job.mjcf[path] = cli::mjcf_scene_of(scene);
  job.time_apart = j.value("time_apart", true);
  job.csv = j.value("csv", std::string());
  if (j.contains("record"))
    job.record = {j["record"].at("frames_per_second").get<double>(), j["record"].at("most_bytes").get<double>(),
                  j["record"].at("full").get<bool>(), j["record"].at("least_frames").get<long>(),
                  j["record"].at("least_bytes").get<double>()};
  return job;
}

Progress::Progress() {
  if (::fcntl(3, F_GETFD) != -1) fd_ = 3;
}

void Progress::phase(const char* name) {
  phase_ = name;
  say(0, 0);
}

void Progress::step(long step, long steps) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const long long ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  if (ns - last_ns_ < 100'000'000) return;
  last_ns_ = ns;
  say(step, steps);
}

void Progress::say(long step, long steps) {
  if (fd_ < 0) return;
  char line[96];
  const int n = std::snprintf(line, sizeof line, "%s %ld %ld\n", phase_, step, steps);
  // When the command is gone, SIGPIPE ends us: nobody is left to read the answer.
  if (n > 0 && ::write(fd_, line, static_cast<std::size_t>(n)) < 0) fd_ = -1;
}

}  // namespace linchpin::worker
