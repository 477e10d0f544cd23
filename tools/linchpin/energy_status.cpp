#include "energy_status.h"

namespace linchpin::cli {

std::string energy_status(const System& system, const Stepper& stepper) {
  if (stepper.energy_gain_count() == 0) return "ok";
  const long more = stepper.energy_gain_count() - 1;
  return energy_gain_text(system, stepper.energy_gains().front()) +
         (more == 0 ? "" : " (and " + std::to_string(more) + (more == 1 ? " more time)" : " more times)"));
}

}  // namespace linchpin::cli
