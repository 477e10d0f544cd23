// What the laws of a run did, as JSON.
#pragma once

#include <linchpin/report.h>

#include <nlohmann/json.hpp>

#include <span>

namespace linchpin::cli {

/// Forces and moments at the end of the run, the largest differences of it.
inline nlohmann::ordered_json laws_json(std::span<const LawWork> laws) {
  using Json = nlohmann::ordered_json;
  Json out = Json::array();
  for (const LawWork& w : laws)
    out.push_back({{"constraint", w.constraint},
                   {"law", w.name},
                   {"normal_force", w.normal_force == NormalForce::coupled ? "coupled" : "frictionless"},
                   {"normal_force_N", w.normal.force.norm()},
                   {"largest_difference_N", w.largest_difference},
                   {"largest_difference_Nm", w.largest_moment_difference},
                   {"work_J", w.work}});
  return out;
}

}  // namespace linchpin::cli
