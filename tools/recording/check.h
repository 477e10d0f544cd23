// Whether a recording is one, before anything believes it: the file may have come from anywhere.
#pragma once

#include <nlohmann/json.hpp>

namespace linchpin::recording {

/// Every field that pages, tables and animations read: there, of its type, and columns as long as bodies, constraints
/// and frames say (docs/how-to/reports.md). @throws std::runtime_error naming the field, its value and what was
/// expected.
void demand_sound(const nlohmann::ordered_json& recording);

}  // namespace linchpin::recording
