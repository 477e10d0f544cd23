// What a motion on the bare host says beside its numbers, alike for every verb that steps there: warnings of laws, each
// once, and which equations depend on each other.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/system.h>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::cli {

/// Adds a warning of a step (StepReport::warning) unless it is empty, was said before with other numbers, or there are
/// eight already.
void take_warning(const std::string& warning, std::vector<std::string>& warnings);

/// As rank_json, at a state; null where all equations are independent.
nlohmann::ordered_json dependent_rows(const System& system, const scene::Model& model, const State& at);

/// "5 of 6 constraint equations are independent" of a `rank`; with `forces` also which reactions are undetermined.
std::string rank_text(const nlohmann::ordered_json& rank, bool forces);

}  // namespace linchpin::cli
