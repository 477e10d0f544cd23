// `linchpin compare` for people: a verdict, a table, and footnotes for what the numbers alone would hide.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::recording {

/// @param comparison  what `compare --json` prints
std::string comparison_text(const nlohmann::ordered_json& comparison);
/// Its parts, of the `solvers` in it: who holds how tight, a line per precision; what the numbers alone would hide, a
/// line each.
std::string verdict_text(const nlohmann::ordered_json& solvers);
std::string notes_text(const nlohmann::ordered_json& solvers);

/// Returns whether a row is of linchpin on some host, and not of a native solver.
bool is_exact(const nlohmann::ordered_json& row);

/// A run's name: the solver's and, where it ran otherwise than the head of the table says, how.
std::string run_label(const nlohmann::ordered_json& row);

/// "a, b, c and 7 more" of an array of names.
std::string some(const nlohmann::ordered_json& names, std::size_t at_most = 5);

/// The answer of a solver that gave no numbers: all keys, with nothing in them.
nlohmann::ordered_json empty_row(const std::string& solver, const std::string& precision, const std::string& status);

/// "24 hinges: limits; winch: motor" from [{name, why}], most frequent first.
std::string grouped_natives(const nlohmann::ordered_json& natives);

}  // namespace linchpin::recording
