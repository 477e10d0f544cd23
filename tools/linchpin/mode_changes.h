// When friction changed between stick and slip in a run, as JSON and as text.
#pragma once

#include <linchpin/scene/modes.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace linchpin::cli {

/// The first changes, `most` of them; the number of all is `mode_changes_in_all`.
inline void put_mode_changes(nlohmann::ordered_json& row, const scene::ModeRecord& record, std::size_t most = 1000) {
  using Json = nlohmann::ordered_json;
  Json out = Json::array();
  for (const scene::ModeChange& c : record.changes()) {
    if (out.size() == most) break;
    out.push_back({{"t", c.t}, {"constraint", c.constraint}});
    if (!c.law.empty()) out.back()["law"] = c.law;
    out.back()["what"] = scene::to_string(c.what);
  }
  row["mode_changes"] = std::move(out);
  row["mode_changes_in_all"] = record.changes().size();
}

/// One line for each constraint that changed its mode, `most_lines` of them: "  rail: slides at 0.4 s, sticks at 0.71 s
/// and 3 more". A constraint that releases at 0 s "is open at the start".
inline std::string mode_changes_text(const nlohmann::ordered_json& changes, std::size_t most_lines = 10,
                                     std::size_t most = 6) {
  std::vector<std::string> names, lines;
  std::vector<std::size_t> counts;
  for (const auto& c : changes) {
    const std::string name = c["constraint"];
    std::size_t i = 0;
    while (i < names.size() && names[i] != name) ++i;
    if (i == names.size()) names.push_back(name), lines.emplace_back(), counts.push_back(0);
    if (++counts[i] > most) continue;
    char text[64];
    if (c["what"] == "releases" && c["t"] == 0.0)
      std::snprintf(text, sizeof text, " is open at the start");
    else
      std::snprintf(text, sizeof text, " %s at %.6g s", c["what"].get<std::string>().c_str(), c["t"].get<double>());
    lines[i] += (counts[i] > 1 ? "," : "") + std::string(text);
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most_lines); ++i)
    out += "  " + names[i] + ":" + lines[i] +
           (counts[i] > most ? " and " + std::to_string(counts[i] - most) + " more" : "") + "\n";
  if (names.size() > most_lines)
    out += "  and " + std::to_string(names.size() - most_lines) + " more constraints (all of them: --json)\n";
  return out;
}

}  // namespace linchpin::cli
