// linchpin-worker-mujoco: runs one MJCF file under one solver for `linchpin compare` and `linchpin run`, in a process
// of its own, so that the command needs no MuJoCo, and a failing model ends this process only.
#include "measure.h"
#include "worker_common/answer.h"

int main(int argc, char** argv) {
  namespace own = linchpin::mujoco_worker;
  using namespace linchpin::worker;
  return run_worker_program(argc, argv, [](const own::Json& job, Progress& progress) {
    if (job.contains("convert")) return own::convert(job["convert"].get<std::string>());
    return job.contains("describe") ? own::describe(job["describe"].get<std::string>())
                                    : own::measure(read_job(job), progress);
  });
}
