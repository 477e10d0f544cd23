// The page of `linearize --report`: the modes of a scene at a state, for the template of tools/report.
#pragma once

#include "linearized_scene.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::cli {

/// Remarks of the page beside the modes.
struct ModesRemarks {
  std::vector<std::string> left_out, warnings;  ///< of the host, and of the steps to the state
};

/// The page as one JSON object (docs/how-to/reports.md): the pose at the state, and the modes with their shapes.
/// @param scene  name of the file
nlohmann::ordered_json modes_page_json(const std::string& scene, const scene::Model& model, const System& system,
                                       const LinearizedScene& of, const ModesRemarks& remarks);

}  // namespace linchpin::cli
