#include "host/start_gap.h"

#include "host/tuning.h"
#include "math/vector_ops.h"
#include "projection/turned_joints.h"

#include <linchpin/detail/alignment.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>

namespace linchpin::host {

double start_gap(const Context& c, const Island& b, bool frames_moved) {
  const Assembly& assembly = b.dynamics->assembly();
  double gap = 0;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    if ((c.constraints[b.topology.entries[i]].frames_moved_at == c.step) != frames_moved) continue;
    for (int row = assembly.layout.row[i]; row < assembly.layout.row[i + 1]; ++row)
      gap = std::max(gap, std::abs(assembly.position[z(row)]));
  }
  return gap;
}

double find_turned_away(const Context& c, Island& b) {
  b.step.turned_away = 0;
  if (c.gaps.turned_far() == 0 && largest(b.dynamics->assembly().position) <= c.options.gap_tolerance) return 0;
  for (std::size_t i = 0; i < b.topology.ids.size(); ++i) {
    const Constraint& constraint = c.system.constraint(b.topology.ids[i]);
    const JointRows::Alignment* const alignment = linchpin::detail::alignment_of(constraint.function());
    if (!alignment) continue;
    const auto bodies = constraint.bodies();
    const double angle =
        linchpin::detail::turned_away(*alignment, c.bodies.start[bodies[0]].R(), c.bodies.start[bodies[1]].R());
    if (angle <= b.step.turned_away) continue;
    b.step.turned_away = angle;
    b.step.turned_entry = b.topology.entries[i];
  }
  return b.step.turned_away;
}

bool close_start_gap(Context& c, Island& b) {
  IslandStep& step = b.step;
  step.gap_left = project_positions(c.system, *b.dynamics, c.bodies.base, c.options.newton_tolerance,
                                    c.options.max_newton, &step.moved, &step.turned, tuning::max_turn_back);
  const bool on_the_way = step.turned_away > 0 && step.gap_left > linchpin::detail::far_turn &&
                          step.turned > tuning::used_turn_back * tuning::max_turn_back;
  step.start_gap = on_the_way ? StartGap::turned_far : StartGap::small;
  if (on_the_way) linchpin::detail::hold_as_turned(*b.dynamics, c.bodies.base);
  step.poses.pushed = step.poses.start_changed = true;
  // Rows of the old poses would hold the bodies askew at the new ones, near a dead point without bound.
  if (std::max(step.moved, step.turned) <= tuning::far_moved) return true;
  for (const BodyId id : b.layout().bodies) {
    c.bodies.start[id].p = c.bodies.base[id].p;
    c.bodies.start[id].q = c.bodies.base[id].q;
  }
  b.gyroscopics.step.apply_free({c.system, b.layout(), c.bodies.start}, b.x.applied);
  ++b.stats.factorizations;
  return b.dynamics->evaluate(c.bodies.start, all_forces(b)) != Status::invalid;
}

}  // namespace linchpin::host
