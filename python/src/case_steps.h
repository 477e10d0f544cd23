// Steps of the runs of a scene that a Python function makes: of the model, or of the caller.
#pragma once

#include "linchpin/simulation_options.h"

#include <linchpin/scene.h>

#include <optional>

namespace linchpin::python {

/// @throws std::invalid_argument if there are no steps, or too many
cli::Simulation case_steps(const scene::Model& model, std::optional<double> dt, std::optional<double> duration);

}  // namespace linchpin::python
