// One scene under one solver: how long its steps take, how well its joints hold and how true its forces are.
#pragma once

#include "worker_common/job.h"

namespace linchpin::worker {

/// The answer to a job, as `linchpin compare --json` shows it per solver and precision.
/// @throws Refused when the scene, the solver or the file to write will not do.
Json measure(const Job& job, Progress& progress);

}  // namespace linchpin::worker
