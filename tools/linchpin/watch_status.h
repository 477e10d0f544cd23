// The status of a run by what the watch has found in its steps: energy that the motion gained without a source, and
// velocities that do not meet the constraints.
#pragma once

#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>

namespace linchpin::cli {

/// Returns the text of the first event of each kind, with the number of the others. Empty: there is none.
/// @param body  name of the body of the first gain
inline std::string watch_status(const std::string& body, std::span<const EnergyGain> gains, long gain_count,
                                std::span<const VelocityResidual> residuals, long residual_count) {
  std::string out;
  if (gain_count > 0) out = energy_gain_text(body, gains.front(), gain_count);
  if (residual_count > 0) out += (out.empty() ? "" : "; ") + velocity_residual_text(residuals.front(), residual_count);
  return out;
}
/// The same of a motion on the bare host.
inline std::string watch_status(const System& system, const Stepper& stepper) {
  const auto gains = stepper.energy_gains();
  return watch_status(gains.empty() ? "" : system.name(gains.front().body), gains, stepper.energy_gain_count(),
                      stepper.velocity_residuals(), stepper.velocity_residual_count());
}

/// Puts the gains, the first 100 of them, and the number of all.
/// @param name_of  returns the name of a body
template <class NameOf>
void put_energy_gains(nlohmann::ordered_json& row, std::span<const EnergyGain> gains, long count,
                      const NameOf& name_of) {
  row["energy_gains"] = nlohmann::ordered_json::array();
  for (const EnergyGain& g : gains)
    row["energy_gains"].push_back(
        {{"t", g.t}, {"body", name_of(g.body)}, {"bodies", g.bodies}, {"gain_J", g.gain}, {"relative", g.relative}});
  row["energy_gains_in_all"] = count;
}
/// One line with the first `most` gains where there are several. Otherwise empty, because the status has the gain.
inline std::string energy_gains_text(const nlohmann::ordered_json& row, std::size_t most = 5) {
  const auto& gains = row["energy_gains"];
  if (gains.size() < 2) return {};
  std::string out = "  energy gains:";
  for (std::size_t i = 0; i < std::min(gains.size(), most); ++i) {
    char text[80];
    std::snprintf(text, sizeof text, "%s %.3g %% at %.4g s", i == 0 ? "" : ",",
                  100 * gains[i]["relative"].get<double>(), gains[i]["t"].get<double>());
    out += text + (" (" + gains[i]["body"].get<std::string>() + ")");
  }
  if (const long left = row["energy_gains_in_all"].get<long>() - static_cast<long>(most); left > 0)
    out += " and " + std::to_string(left) + " more (" +
           (gains.size() < row["energy_gains_in_all"].get<std::size_t>() ? "the first " + std::to_string(gains.size())
                                                                         : std::string("all of them")) +
           ": --json)";
  return out + "\n";
}
}  // namespace linchpin::cli
