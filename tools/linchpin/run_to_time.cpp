#include "run_to_time.h"

#include "messages.h"
#include "remarks.h"

#include <cmath>
#include <iostream>
#include <stdexcept>

namespace linchpin::cli {

bool is_possible_time(const std::string& verb, double at) {
  if (at >= 0 && at <= 86400) return true;
  std::cerr << "linchpin " << verb << ": --at is " << at << ", expected a time from 0 to 86400 s\n";
  return false;
}

std::unique_ptr<Stepper> run_to_time(const std::string& verb, const std::string& scene, const scene::Model& model,
                                     System& system, double at, std::vector<std::string>& warnings) {
  std::unique_ptr<Stepper> stepper;
  try {
    stepper = std::make_unique<Stepper>(system, system.initial_state(), model.options);
  } catch (const std::invalid_argument& e) {
    complain(scene, {}, said(e));
    return {};
  }
  const long steps = static_cast<long>(std::ceil(at / model.dt - 1e-6));
  for (long i = 0; i < steps; ++i) {
    const double left = at - double(i) * model.dt;  // The last step may be shorter.
    const StepReport& report = stepper->step(left < (1 - 1e-6) * model.dt ? left : model.dt);
    take_warning(report.warning, warnings);
    if (!report.rejected) continue;
    std::cerr << "linchpin " << verb << ": the run stopped at " << stepper->t() << " s: " << report.reason << "\n";
    return {};
  }
  return stepper;
}

}  // namespace linchpin::cli
