// `linchpin compare` for people: a verdict, a table, and footnotes for what the numbers alone would hide.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::cli {

/// @param comparison  what `compare --json` prints
std::string comparison_text(const nlohmann::ordered_json& comparison);

/// "24 hinges: limits; winch: motor" from [{name, why}], most frequent first.
std::string grouped_natives(const nlohmann::ordered_json& natives);

}  // namespace linchpin::cli
