// Steps a scene on the host bare up to a time, for verbs that look at one state.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <memory>
#include <string>
#include <vector>

namespace linchpin::cli {

/// The text of --at for verbs that use run_to_time().
inline constexpr const char* at_option = "Time [s]. The scene runs up to it on the host bare";

/// Returns whether a time can be that of --at. If not, it says so on stderr.
bool is_possible_time(const std::string& verb, double at);

/// Assembles the start of a scene and steps it to a time.
/// @param warnings  receives those of the steps
/// @return nothing after saying on stderr why the run stopped
std::unique_ptr<Stepper> run_to_time(const std::string& verb, const std::string& scene, const scene::Model& model,
                                     System& system, double at, std::vector<std::string>& warnings);

}  // namespace linchpin::cli
