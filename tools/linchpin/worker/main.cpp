// linchpin-worker-<adapter>: runs one scene under one solver for `linchpin compare` and `linchpin run`, in a process of
// its own because Bullet's two precisions cannot share one, and because a file or a diverging solver may take a process
// down.
#include "describe.h"
#include "job.h"
#include "measure.h"

#include <linchpin/scene.h>
#include <linchpin/version.h>

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace {

using linchpin::worker::Json;

Json answer(const char* job_text, linchpin::worker::Progress& progress) {
  try {
    const Json job = Json::parse(job_text);
    if (job.contains("describe")) return {{"row", linchpin::worker::describe(job["describe"].get<std::string>())}};
    return {{"row", linchpin::worker::measure(linchpin::worker::read_job(job), progress)}};
  } catch (const linchpin::worker::Refused& e) {
    return {{"error", {{"kind", e.kind}, {"message", e.what()}}}};
  } catch (const linchpin::scene::SceneError& e) {  // says itself where
    return {{"error", {{"kind", "toml"}, {"message", e.what()}}}};
  } catch (const std::exception& e) {
    return {{"error", {{"kind", "worker"}, {"message", e.what()}}}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) == "--help" || std::string(argv[1]) == "--version") {
    std::fprintf(stderr, "linchpin worker " LINCHPIN_VERSION
                         ": `linchpin compare` and `linchpin run` start this program. Do not start it yourself\n");
    return 2;
  }
  // Bullet prints its complaints to stdout, which is ours to answer on.
  const int answers = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  linchpin::worker::Progress progress;
  // Names in a file may be no UTF-8: replaced, not refused.
  const std::string text = answer(argv[1], progress).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(answers, text.data() + written, text.size() - written);
    if (n <= 0) return 1;
    written += static_cast<std::size_t>(n);
  }
  return 0;
}
