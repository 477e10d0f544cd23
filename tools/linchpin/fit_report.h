// The results of `linchpin fit` as JSON, as a page and as a table of residuals.
#pragma once

#include "scene_fit.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::cli {

/// The numbers of one fit. A parameter that the data do not determine has no value.
nlohmann::ordered_json fit_json(const SceneFitResult& result);

nlohmann::ordered_json comparison_json(const std::vector<SceneFitResult>& fits, const ModelComparison& comparison);

/// What the template of tools/report draws. @param fits  the first is that of the scene, others are compared with it
nlohmann::ordered_json fit_page(const std::vector<SceneFitResult>& fits, const ModelComparison& comparison);

/// Measured and predicted values of all samples, one row for each. @throws std::runtime_error
void write_residuals(const std::string& file, const SceneFitResult& result);

}  // namespace linchpin::cli
