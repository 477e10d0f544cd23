// The status of a run by what the watch has found in its steps: energy that the motion gained without a source, and
// velocities that do not meet the constraints.
#pragma once

#include <linchpin/report.h>
#include <linchpin/stepper.h>

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

}  // namespace linchpin::cli
