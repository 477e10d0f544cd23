// Which constraints of a scene no motion meets, by name: for the bare host, the workers, and verbs that take no step.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace linchpin::cli {

/// The rank report of a Dynamics, with the indices of the scene's constraints in place of those of its layout.
RankReport rank_of(const Dynamics& dynamics);

/// `rank` of an answer: how many equations there are, how many of them independent, and by name which are not.
/// @param report  of rank_of()
nlohmann::ordered_json rank_json(const RankReport& report, int rows, const scene::Model& model);

/// Who contradicts whom at a state: in accelerations, or in what is left of gaps and velocities where no motion takes
/// it away. Unilateral constraints that are open there hold nothing. As rank_json, null where there is no
/// contradiction. A few solves; some hundred where gaps do not close.
nlohmann::ordered_json contradiction(const System& system, const scene::Model& model, State at);

/// "constraints contradict each other: a (0.2 m), b, c and 7 more" of a `rank`, with what `now` leaves open of each;
/// "this constraint cannot be met: a" of one.
std::string torn_text(const nlohmann::ordered_json& rank, std::span<const Reaction> now = {});

}  // namespace linchpin::cli
