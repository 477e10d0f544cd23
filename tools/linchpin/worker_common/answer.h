// The frame of all worker programs: they take a job from the command line and answer on standard output (job.h).
#pragma once

#include "job.h"

#include <functional>
#include <string>

namespace linchpin::worker {

/// Runs a worker program: calls `work` with the job, and writes its result, or the error that it throws. The
/// engine's output goes to standard error. @return exit code of the program
int run_worker_program(int argc, char** argv, const std::function<Json(const Json& job, Progress& progress)>& work);

/// Writes an error as the answer, and ends the process without destructors. For engines that report an error by a
/// function that must not return. @param kind  as in job.h
[[noreturn]] void end_with_error(const std::string& kind, const std::string& message);

}  // namespace linchpin::worker
