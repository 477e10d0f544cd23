// linchpin-worker-<adapter>: runs one scene under one solver for `linchpin compare` and `linchpin run`, in a process of
// its own because Bullet's two precisions cannot share one, and because a file or a diverging solver may take a process
// down.
#include "describe.h"
#include "measure.h"
#include "worker_common/answer.h"

int main(int argc, char** argv) {
  using namespace linchpin::worker;
  return run_worker_program(argc, argv, [](const Json& job, Progress& progress) {
    return job.contains("describe") ? describe(job["describe"].get<std::string>()) : measure(read_job(job), progress);
  });
}
