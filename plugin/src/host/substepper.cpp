#include "host/substepper.h"

#include "host/context.h"
#include "host/energy_budget.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

SubstepResult take_substeps(SubstepMethod& method, const SubstepLimits& limits, double dt, double first,
                            double before) {
  constexpr double round_off = 1e-12;  // of the step
  constexpr int all_tries = 7;         // tries in all, for each that is judged by ω·h and gain
  SubstepResult out;
  Substep s;
  s.before = before;
  s.wish = first;
  int tries = 0;
  while (s.done < dt * (1 - round_off)) {
    if (s.taken == limits.most || tries == all_tries * limits.most_judged) return out;
    const double left = dt - s.done;
    s.is_judged = tries < limits.most_judged;
    if (tries++ == limits.most_judged) s.wish = left;
    s.length = left / std::ceil(left / s.wish * (1 - 1e-9));  // equal ones to the end, no short one there
    const Verdict verdict = method.attempt(s);
    if (verdict == Verdict::impossible) return out;
    if (verdict == Verdict::too_long) {
      if (s.length <= limits.shortest * (1 + 1e-9)) return out;
      s.wish = std::max(method.shorter(s), limits.shortest);
      continue;
    }
    if (verdict == Verdict::repeat) {
      s.wish = s.length;
      continue;
    }
    method.accept(s);
    out.taken = ++s.taken;
    s.done += s.length;
    s.before = out.last_length = s.length;
    s.wish = out.next_length = method.next(s);
  }
  out.complete = true;
  return out;
}

double first_substep(const Context& c, double omega_dt) {
  if (!(omega_dt > 0) || !std::isfinite(omega_dt)) return 0.5 * c.dt;
  return std::clamp(0.9 * c.options.swing_limit / omega_dt * c.dt, 0.125 * c.dt, 0.5 * c.dt);
}

double shortest_substep(const Context& c) {
  constexpr int finer = 256;  // than a step shared out evenly
  return c.dt / (finer * double(c.options.max_substeps));
}

double growth(const Context& c, double omega_dt) {
  return omega_dt > 0 ? std::clamp(0.9 * c.options.swing_limit / omega_dt, 0.5, 2.0) : 2.0;
}

SubstepLimits semi_implicit_limits(const Context& c, const Island& b, double price) {
  constexpr double most_work = 6000;  // rows times fast tries: a frame
  constexpr int least = 16, no_limit = 1 << 28;
  const int judged = bounds_energy(c, b)
                         ? std::max(least, static_cast<int>(most_work / (price * std::max(1, b.block().m()))))
                         : no_limit;
  return {shortest_substep(c), c.options.max_substeps, judged};
}

}  // namespace linchpin::host
