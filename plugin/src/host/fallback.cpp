#include "host/fallback.h"

#include "host/compliance.h"
#include "host/reactions.h"
#include "host/tuning.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

// Leaves an island to the host. One that has failed several times will most likely fail again, after its shortest
// substeps and its largest solves. It is tried less and less often.
void leave_to_host(Context& c, Island& b) {
  choose_yielding_constraints(c, b);
  History& h = b.history;
  const bool costly = double(b.step.substeps) * b.layout().m() > tuning::costly_try_work ||
                      b.step.outcome.over_budget ||
                      (b.step.gap_left > c.options.gap_tolerance && b.layout().m() > tuning::costly_gap_rows);
  b.phase = Phase::failed;
  h.extrapolation_steps = 0;
  ++c.counts.fallbacks;
  if (h.failure_kind == FailureKind::law) note_law_failure(c, h.failure);
  if (c.step >= h.next_try) {
    h.failures = costly ? std::max(h.failures, tuning::fallback_patience) + 1 : h.failures + 1;
    if (h.failures > tuning::fallback_patience)
      h.next_try = c.step + 1 +
                   (1u << std::min(h.failures - tuning::fallback_patience,
                                   costly ? tuning::max_costly_pause_power : tuning::max_pause_power));
  }
  c.notes.fallback_reason = h.failure;
  if (c.step + 1 < h.next_try)
    c.notes.fallback_reason += " (linchpin tries again in " + std::to_string(h.next_try - c.step) + " steps)";
  for (const int i : b.topology.entries) {
    ConstraintEntry& r = c.constraints[i];
    r.fallback = c.notes.fallback_reason;
    c.left_to_host.push_back(i);
    c.reactions.set_left_to_host(r, true);
    c.world.solve_in_host(i);
  }
}

void note_law_failure(Context& c, std::string_view why) {
  ++c.counts.law_failures;
  c.laws.failures.note(why, c.t, c.step);
}

void keep_finite(Context& c, const Island& b) {
  for (const ConstraintId constraint : b.topology.ids)
    for (const BodyId id : c.system.constraint(constraint).bodies())
      if (c.bodies.in_host(id) && c.system.dof(id) > 0 && c.world.restore_finite(id, c.bodies.start[id]))
        ++c.counts.non_finite;
}

}  // namespace linchpin::host
