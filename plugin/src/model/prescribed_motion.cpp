#include "model/prescribed_motion.h"

#include <algorithm>
#include <cmath>

namespace linchpin::detail {
namespace {

/// Change of a rate within a step, relative to it, from which it has jumped.
constexpr double jump = 0.5;
/// Part of the step over which the rates at its ends are taken.
constexpr double end_part = 1e-3;
/// Difference of residuals that is their rounding, relative to them.
constexpr double rounding = 1e-12;

}  // namespace

// At the poses of the start a residual changes by its own dependence on time alone.
bool rate_jumps(const Constraint& constraint, std::span<const BodyState> at, double t, double dt) {
  const ConstraintFunction& function = constraint.function();
  if (function.level() == Level::acceleration) return false;
  std::vector<BodyState> bodies(at.begin(), at.end());
  for (BodyState& body : bodies) body.v.setZero(), body.w.setZero();
  const auto residual = [&](double time) {
    std::vector<double> out(static_cast<std::size_t>(function.rows()));
    function.residual(bodies, time, out);
    return out;
  };
  const std::vector<double> start = residual(t), end = residual(t + dt);
  const bool of_positions = function.level() == Level::position;
  const double h = end_part * dt;
  const std::vector<double> after_start = of_positions ? residual(t + h) : start,
                            before_end = of_positions ? residual(t + dt - h) : end;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double first = of_positions ? after_start[i] - start[i] : start[i],
                 last = of_positions ? end[i] - before_end[i] : end[i],
                 size = std::max(std::abs(start[i]), std::abs(end[i]));
    if (std::abs(last - first) > jump * std::max(std::abs(first), std::abs(last)) + rounding * size) return true;
  }
  return false;
}

bool motion_jumps(const BodyState& start, const BodyState& end) {
  return (end.v - start.v).norm() > jump * std::max(end.v.norm(), start.v.norm()) ||
         (end.w - start.w).norm() > jump * std::max(end.w.norm(), start.w.norm());
}

}  // namespace linchpin::detail
