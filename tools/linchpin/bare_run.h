// A scene without an engine: the core's own stepper, in this process.
#pragma once

#include "simulation_options.h"

#include <linchpin/recording.h>
#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::cli {

/// Methods that take as many parts of a step as their tolerances ask for.
inline bool chooses_parts(Method m) { return m == Method::adaptive || m == Method::adaptive8; }

/// Runs a model and answers as a worker does for one solver (worker/measure.h): the same keys where they have a
/// meaning. @param csv  file to write, empty for none. @throws std::runtime_error when it cannot be written.
/// @param record  null for no `motion` in the answer
nlohmann::ordered_json run_bare(const scene::Model& model, const Simulation& simulation, const std::string& csv,
                                const recording::RecordingOptions* record);

}  // namespace linchpin::cli
