// Running a system and asking where it went: one method at a given step, the moment something happens, the order of an
// error.
#pragma once

#include "tolerances.h"

#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace linchpin::test {

inline StepOptions rk4() { return {.method = Method::rk4}; }
inline StepOptions semi_implicit() { return {.method = Method::semi_implicit, .newton_tolerance = 1e-15}; }

/// Takes `steps` equal steps over `duration`; every one must be accepted.
inline void run(Stepper& stepper, double duration, int steps) {
  for (int i = 0; i < steps; ++i) {
    const StepReport& report = stepper.step(duration / steps);
    ASSERT_FALSE(report.rejected) << report.reason << " at t = " << stepper.t();
  }
}

/// Steps until `end`, and everything that changed its mode on the way.
inline std::vector<ModeSwitch> switches_until(Stepper& stepper, double end, double dt) {
  std::vector<ModeSwitch> all;
  while (stepper.t() < end - 1e-12) {
    const StepReport& report = stepper.step(std::min(dt, end - stepper.t()));
    EXPECT_FALSE(report.rejected) << report.reason << " at t = " << stepper.t();
    if (report.rejected) break;
    EXPECT_EQ(static_cast<std::size_t>(report.mode_switches), stepper.switches().size());
    all.insert(all.end(), stepper.switches().begin(), stepper.switches().end());
  }
  return all;
}

/// The state after `duration`.
inline State after(System& system, double duration, int steps, StepOptions options = rk4()) {
  Stepper stepper(system, system.initial_state(), options);
  run(stepper, duration, steps);
  return stepper.state();
}

inline const Reaction& named(std::span<const Reaction> all, std::string_view name) {
  for (const Reaction& r : all)
    if (r.name == name) return r;
  ADD_FAILURE() << "no reaction named " << name;
  return all.front();
}

/// The state at which `value` first becomes negative, found by taking the last step again and again with other lengths.
/// Not found by `end`: the state there.
template <class Value>
State crossing(System& system, State state, double dt, double end, StepOptions options, Value value) {
  Stepper stepper(system, state, options);
  while (stepper.t() < end && value(stepper.state()) >= 0) {
    state = stepper.state();
    if (stepper.step(dt).rejected) return state;
  }
  double low = 0, high = dt;
  State found = state;
  for (int i = 0; i < 60; ++i) {  // bisection: sure also where the motion has a kink beyond the crossing
    const double mid = 0.5 * (low + high);
    if (!(mid > low && mid < high)) break;
    stepper.set_state(state);
    stepper.step(mid);
    found = stepper.state();
    (value(found) >= 0 ? low : high) = mid;
  }
  return found;
}

/// p of error ~ hᵖ, from errors at halved steps: the mean slope.
inline double slope(const std::vector<double>& errors) {
  return std::log2(errors.front() / errors.back()) / static_cast<double>(errors.size() - 1);
}

}  // namespace linchpin::test
