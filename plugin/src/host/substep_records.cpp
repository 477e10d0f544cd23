#include "host/substep_records.h"

#include "host/body_vectors.h"
#include "host/reactions.h"

#include <algorithm>

namespace linchpin::host {

void copy_island(const Island& b, const State& from, State& to) {
  to.bodies.resize(from.bodies.size());
  to.t = from.t;
  for (const BodyId id : b.topology.bodies) to[id] = from[id];
}

void begin_substeps(const Context& c, Island& b, SubstepStates& states) {
  SubstepSums& sums = b.sums;
  const std::size_t n = b.x.v.size();
  for (auto* x : {&sums.v, &sums.applied, &sums.momentum}) x->assign(n, 0);
  b.x.momentum.resize(n);
  sums.largest_impulse.assign(2 * b.slots(), 0);
  sums.multipliers.assign(b.x.multipliers.size(), 0);
  sums.work.assign(b.x.multipliers.size(), 0);
  std::size_t count = 0;
  for (const ConstraintId id : b.topology.ids) count += c.system.constraint(id).bodies().size();
  sums.wrenches.assign(count, Vector6::Zero());
  copy_island(b, c.bodies.base, states.start);
  copy_island(b, c.bodies.end, states.end);
  b.report.has_start_problem = !reports_later(c, b);
  if (b.report.has_start_problem) b.report.start_problem = b.dynamics->assembly().problem;
  copy_island(b, states.start, states.now);
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    BodyState& s = states.now[b.layout().bodies[slot]];
    s.v = head(b.x.v0, b.layout().column[slot]);
    if (turns(b.layout(), slot)) s.w = head(b.x.v0, b.layout().column[slot] + 3);
  }
}

void add_prescribed(const Context& c, const Island& b, const State& at, double time, double over,
                    std::span<Vector6> wrenches) {
  std::size_t first = 0;
  int constraint = 0;
  for (const Prescribed& law : b.dynamics->prescribed()) {
    for (; constraint < law.constraint; ++constraint)
      first += c.system.constraint(b.topology.ids[z(constraint)]).bodies().size();
    const auto bodies = c.system.constraint(b.topology.ids[z(constraint)]).bodies();
    for (std::size_t k = 0; k < std::min<std::size_t>(2, bodies.size()); ++k) {
      const double share = (k == 0 ? time : -time) / over;
      const Wrench w = Wrench{law.force, law.moment, law.p_WQ}.about(at[bodies[k]].p);
      wrenches[first + k].head<3>() += share * w.force;
      if (c.system.kind(bodies[k]) != BodyKind::particle) wrenches[first + k].tail<3>() += share * w.moment;
    }
  }
}

void note_largest_impulse(Island& b, int slot, double force, double moment) {
  if (slot < 0) return;
  double* const largest = &b.sums.largest_impulse[z(2 * slot)];
  largest[0] = std::max(largest[0], force);
  largest[1] = std::max(largest[1], moment);
}

}  // namespace linchpin::host
