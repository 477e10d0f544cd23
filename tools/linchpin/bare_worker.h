// A run without an engine that answers as a worker does.
#pragma once

#include "bare_run.h"
#include "worker_process.h"

namespace linchpin::cli {

/// run_bare() with its exceptions as the kinds of a worker's answer.
WorkerAnswer run_bare_as_worker(const scene::Model& model, const Simulation& simulation, const std::string& csv,
                                const recording::RecordingOptions* record);

}  // namespace linchpin::cli
