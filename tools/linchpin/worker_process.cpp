#include "worker_process.h"

#include "messages.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

extern char** environ;

namespace linchpin::cli {

namespace {

namespace fs = std::filesystem;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close(read);
    close(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

struct File {
  int number = -1;
  explicit File(int n) : number(n) {}
  ~File() { Pipe::close(number); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

// An argument may have 128 KiB on Linux.
constexpr std::size_t longest_argument = 100'000;

// A file with this text that has no name.
int in_memory(const std::string& text) {
  const int file = ::memfd_create("linchpin-job", MFD_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(file, text.data() + at, text.size() - at);
    if (n <= 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "the job of a worker");
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

// "run 480 960": the last line a worker wrote about where it is.
struct Place {
  std::string phase = "start";
  long step = 0, steps = 0;

  void take(std::string& lines) {
    const std::size_t end = lines.rfind('\n');
    if (end == std::string::npos) return;
    const std::size_t before = end == 0 ? std::string::npos : lines.rfind('\n', end - 1);
    char name[32] = "";
    const std::string line = lines.substr(before == std::string::npos ? 0 : before + 1, end);
    if (std::sscanf(line.c_str(), "%31s %ld %ld", name, &step, &steps) >= 1) phase = name;
    lines.erase(0, end + 1);
  }
  bool loading() const { return phase == "start" || phase == "load"; }
};

void show(ProgressLine& line, const std::string& title, const Place& place) {
  const char* doing = place.loading() ? "loading" : place.phase == "time" ? "timing" : "measuring";
  if (place.steps > 0)
    line.show("%s: %s %ld %%", title.c_str(), doing, 100 * place.step / place.steps);
  else
    line.show("%s: %s", title.c_str(), doing);
}

WorkerAnswer read_answer(const std::string& text) {
  WorkerAnswer answer;
  Json j = Json::parse(text, nullptr, false);
  answer.kind = WorkerAnswer::Kind::died;
  if (j.is_object() && j.contains("row")) {
    answer.kind = WorkerAnswer::Kind::row;
    answer.row = std::move(j["row"]);
  } else if (j.is_object() && j.contains("error")) {
    const std::string kind = j["error"].value("kind", std::string());
    answer.message = j["error"].value("message", std::string());
    answer.kind = kind == "scene"    ? WorkerAnswer::Kind::scene
                  : kind == "toml"   ? WorkerAnswer::Kind::toml
                  : kind == "solver" ? WorkerAnswer::Kind::refused
                  : kind == "csv"    ? WorkerAnswer::Kind::csv
                                     : WorkerAnswer::Kind::died;
  }
  return answer;
}

const char* program_of(Engine engine) {
  switch (engine) {
    case Engine::bullet:
      return "linchpin-worker-bullet";
    case Engine::bullet_float64:
      break;
    case Engine::mujoco:
      return "linchpin-worker-mujoco";
  }
  return "linchpin-worker-bullet-float64";
}

std::string missing_text(Engine engine, const std::string& looked) {
  if (engine == Engine::mujoco)
    return "the program for MuJoCo, which reads MJCF files, was not found (looked for " + looked +
           "). Install MuJoCo by \"scripts/setup --mujoco\", and build linchpin again";
  return std::string("the program for Bullet in ") + (engine == Engine::bullet ? "single" : "double") +
         " precision was not found (looked for " + looked +
         "). Build and install linchpin with this precision of Bullet";
}

// A signal of a user or of the system, for example for want of memory, and no fault of the process.
bool stopped_from_outside(int status) {
  return WIFSIGNALED(status) &&
         (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT);
}

}  // namespace

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "ended with code " + std::to_string(WEXITSTATUS(status)) + " and no answer";
}

// Next to the command as in a build tree, or where an installation keeps programs that nobody calls by hand.
std::string find_worker(const std::string& name, std::string& looked) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {own, (own / ".." / "libexec" / "linchpin").lexically_normal()}) {
    const fs::path path = folder / name;
    if (::access(path.c_str(), X_OK) == 0) return path;
    looked += (looked.empty() ? "" : " and ") + path.string();
  }
  return {};
}

Json job_for(const Simulation& simulation, const SolverSpec& solver) {
  Json job;
  job["scene"] = simulation.scene;
  job["solver"] = solver.name;
  job["kind"] = solver.kind;
  job["iterations"] = solver.iterations;
  job["dt"] = simulation.dt;
  job["steps"] = simulation.steps;
  job["warmup_steps"] = simulation.warmup_steps;
  if (simulation.robots) job["multibody"] = *simulation.robots == scene::RobotsAs::multibody;
  job["gravity"] = simulation.gravity ? Json(*simulation.gravity) : Json();
  return job;
}

WorkerAnswer run_worker(Engine engine, const Json& job, const std::string& title) {
  WorkerAnswer answer;
  std::string looked;
  std::string worker = find_worker(program_of(engine), looked);
  if (worker.empty()) {
    answer.message = missing_text(engine, looked);
    return answer;
  }
  const std::string host = engine == Engine::mujoco ? "MuJoCo" : "Bullet";

  std::string text = job.dump(-1, ' ', false, Json::error_handler_t::replace);
  Pipe out, err, progress;
  File input{text.size() > longest_argument ? in_memory(text) : -1};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (input.number >= 0)
    posix_spawn_file_actions_adddup2(&actions, input.number, STDIN_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  // Last: 3 may be the number of one of the other ends. (dup2 onto itself clears close-on-exec, as wanted.)
  posix_spawn_file_actions_adddup2(&actions, progress.write, 3);
  std::string dash = "-";
  std::array<char*, 3> arguments = {worker.data(), input.number >= 0 ? dash.data() : text.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, worker.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    answer.message = worker + " cannot be started: " + std::strerror(failed);
    return answer;
  }
  for (Pipe* pipe : {&out, &err, &progress}) Pipe::close(pipe->write);

  std::optional<ProgressLine> line(0);
  std::string answers, complaints, lines;
  Place place;
  std::array<std::pair<Pipe*, std::string*>, 3> streams = {
      {{&out, &answers}, {&err, &complaints}, {&progress, &lines}}};
  for (;;) {
    std::array<pollfd, 3> wait;
    bool open = false;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      wait[i] = {streams[i].first->read, POLLIN, 0};
      open = open || wait[i].fd >= 0;
    }
    if (!open) break;
    if (::poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (wait[i].fd < 0 || wait[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t n = ::read(wait[i].fd, buffer, sizeof buffer);
      if (n > 0)
        streams[i].second->append(buffer, static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        Pipe::close(streams[i].first->read);
    }
    place.take(lines);
    show(*line, title, place);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  line.reset();

  answer = read_answer(answers);
  if (answer.kind != WorkerAnswer::Kind::died) return answer;
  const bool ended = answer.message.empty();
  if (ended) answer.message = ending(status);
  if (place.loading()) {
    // Nothing but the file has been touched yet.
    answer.kind = WorkerAnswer::Kind::scene;
    if (engine == Engine::mujoco)
      answer.message = "MuJoCo failed while it read the file (" + answer.message + ")";
    else
      answer.message = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                           ? "Bullet's reader of .bullet files did not finish. The file may be damaged"
                           : "Bullet's reader of .bullet files failed (" + answer.message +
                                 "). The file may be truncated or damaged";
  } else {
    const std::string where = " near step " + std::to_string(place.step);
    answer.message = ended
                         ? "the process that runs " + host + " " + answer.message + where +
                               (stopped_from_outside(status) ? "" : ". Please report this scene as a fault of linchpin")
                         : "the process that runs " + host + " failed" + where + ": " + answer.message;
  }
  if (!complaints.empty()) std::fputs(complaints.c_str(), stderr);
  return answer;
}

}  // namespace linchpin::cli
