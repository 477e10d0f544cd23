// The motions of a recording as an MCAP file: for Foxglove, Lichtblick, PlotJuggler and their like, and for programs.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace linchpin::recording {

/// Frames as transforms, bodies as a scene, a channel per constraint for its wrench and for its gap, one per
/// coordinate, per signal and for the energy. Messages are JSON, numbers in double precision; docs/how-to/reports.md
/// has the topics. Motions that were not recorded in full have what single precision leaves of it, and no moments.
/// @throws std::invalid_argument when there is none; what Motion throws.
std::string mcap(const nlohmann::ordered_json& recording);

}  // namespace linchpin::recording
