#include "host/substepper.h"

#include "host/context.h"
#include "host/energy_budget.h"
#include "host/island_watch.h"
#include "host/tuning.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

SubstepResult take_substeps(SubstepMethod& method, const SubstepLimits& limits, double dt, double first,
                            double previous) {
  SubstepResult out;
  Substep s;
  s.previous_length = previous;
  s.desired_length = first;
  int tries = 0;
  while (s.done < dt * (1 - tuning::time_rounding)) {
    if (s.taken == limits.max_accepted || tries == tuning::tries_per_tested * limits.max_tested) return out;
    const double left = dt - s.done;
    s.is_tested = tries < limits.max_tested;
    if (tries++ == limits.max_tested) s.desired_length = left;
    s.desired_length = std::min(s.desired_length, limits.longest);
    s.length = left / std::ceil(left / s.desired_length *
                                (1 - tuning::substep_rounding));  // equal ones to the end, no short one there
    const Acceptance acceptance = method.attempt(s);
    if (acceptance == Acceptance::impossible) return out;
    if (acceptance == Acceptance::too_long) {
      if (s.length <= limits.shortest * (1 + tuning::substep_rounding)) return out;
      s.desired_length = std::max(method.shorter(s), limits.shortest);
      continue;
    }
    if (acceptance == Acceptance::repeat) {
      s.desired_length = s.length;
      continue;
    }
    method.accept(s);
    out.taken = ++s.taken;
    s.done += s.length;
    s.previous_length = out.last_length = s.length;
    s.desired_length = out.next_length = method.next(s);
  }
  out.complete = true;
  return out;
}

double first_substep(const Context& c, double omega_dt) {
  if (!(omega_dt > 0) || !std::isfinite(omega_dt)) return tuning::max_first_substep * c.dt;
  return std::clamp(tuning::omega_safety * c.options.max_tension_frequency / omega_dt * c.dt,
                    tuning::min_first_substep * c.dt, tuning::max_first_substep * c.dt);
}

void keep_substeps(const Context& c, Island& b) {
  if (b.history.next_length > 0.5 * c.dt &&
      b.history.rejected_ratio * b.step.omega_dt * b.step.substeps > c.options.max_tension_frequency)
    b.history.next_length = 0.5 * c.dt;
}

double shortest_substep(const Context& c) {
  return c.dt / (tuning::shortest_fraction * double(c.options.max_substeps));
}

double growth(const Context& c, double omega_dt) {
  return omega_dt > 0 ? std::clamp(tuning::omega_safety * c.options.max_tension_frequency / omega_dt,
                                   tuning::min_growth, tuning::max_growth)
                      : tuning::max_growth;
}

SubstepLimits semi_implicit_limits(const Context& c, const Island& b, double price) {
  const int max_tested =
      bounds_energy(c, b)
          ? std::max(tuning::min_tested, static_cast<int>(tuning::tested_work / (price * std::max(1, b.layout().m()))))
          : tuning::no_limit;
  return {shortest_substep(c), longest_part(c, b), c.options.max_substeps, max_tested};
}

}  // namespace linchpin::host
