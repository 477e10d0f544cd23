#include "answer.h"

#include <linchpin/scene.h>
#include <linchpin/version.h>

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>

namespace linchpin::worker {

namespace {

int answers = STDOUT_FILENO;  // where answers go

Json error_json(const std::string& kind, const std::string& message) {
  return {{"error", {{"kind", kind}, {"message", message}}}};
}

bool write_answer(const Json& answer) {
  // Names in a file may be no UTF-8: replaced, not refused.
  const std::string text = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(answers, text.data() + written, text.size() - written);
    if (n <= 0) return false;
    written += static_cast<std::size_t>(n);
  }
  return true;
}

Json job_of(const std::string& argument) {
  if (argument != "-") return Json::parse(argument);
  return Json::parse(std::string{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
}

}  // namespace

int run_worker_program(int argc, char** argv, const std::function<Json(const Json& job, Progress& progress)>& work) {
  if (argc != 2 || std::string(argv[1]) == "--help" || std::string(argv[1]) == "--version") {
    std::fprintf(stderr, "linchpin worker " LINCHPIN_VERSION
                         ": `linchpin compare` and `linchpin run` start this program. Do not start it yourself\n");
    return 2;
  }
  // Engines print to stdout, which is ours to answer on.
  answers = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  Progress progress;
  Json answer;
  try {
    answer = {{"row", work(job_of(argv[1]), progress)}};
  } catch (const Refused& e) {
    answer = error_json(e.kind, e.what());
  } catch (const scene::SceneError& e) {  // says itself where
    answer = error_json("toml", e.what());
  } catch (const std::exception& e) {
    answer = error_json("worker", e.what());
  }
  return write_answer(answer) ? 0 : 1;
}

void end_with_error(const std::string& kind, const std::string& message) {
  ::_exit(write_answer(error_json(kind, message)) ? 0 : 1);
}

}  // namespace linchpin::worker
