// A recording as one JSON object (docs/how-to/reports.md), and the page made from it: the template of tools/report with
// the recording in it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::recording {

/// What made a recording, a sweep, a fit or a page of modes: its first keys, `kind` and `verb` still to be said.
/// @param scene  file, bytes, text
nlohmann::ordered_json provenance(const std::string& command, nlohmann::ordered_json scene);

/// Verdict and notes, from the comparison in it.
void add_words(nlohmann::ordered_json& recording);

/// The page that shows a recording, a sweep, a fit or modes.
std::string report_page(const nlohmann::ordered_json& recording);

/// Recordings of one scene as one: the solvers of all. @throws std::invalid_argument where they are not of one scene,
/// naming what differs.
nlohmann::ordered_json merge(std::vector<nlohmann::ordered_json> recordings);

}  // namespace linchpin::recording
