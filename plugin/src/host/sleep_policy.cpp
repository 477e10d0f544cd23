#include "host/sleep_policy.h"

#include "host/context.h"
#include "host/tuning.h"
#include "host/unilateral.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

namespace {
std::span<const BodyId> bodies_of(const Context& c, const ConstraintEntry& r) {
  if (!r.deferred && r.id.index < 0) return {};
  return c.constraints.of(r).bodies();
}
}  // namespace

void wake(const Context& c, const ConstraintEntry& r) {
  for (const BodyId id : bodies_of(c, r))
    if (c.bodies.in_host(id) && c.system.dof(id) > 0) c.world.wake(id);
}

bool falls_asleep(const Context& c, const Island& b) {
  if (b.report.is_current || b.topology.ids.empty() || b.failed() || b.history.last_step != c.step) return false;
  return std::all_of(b.layout().bodies.begin(), b.layout().bodies.end(),
                     [&](BodyId id) { return c.bodies.in_world(id) && c.world.may_fall_asleep(id); });
}

void wake_beside_kinematic(const Context& c) {
  if (c.options.mode == Mode::passive) return;
  for (const int i : c.lists.with_kinematic) {
    const auto bodies = bodies_of(c, c.constraints[i]);
    const bool moves = std::any_of(bodies.begin(), bodies.end(), [&](BodyId id) {
      if (c.system.kind(id) != BodyKind::kinematic || !c.bodies.in_host(id)) return false;
      BodyState s;
      c.world.read(id, s);
      return !(s.v.isZero(0) && s.w.isZero(0));
    });
    for (const BodyId id : bodies)
      if (moves && c.system.dof(id) > 0 && c.bodies.in_host(id) && !c.world.is_awake(id)) c.world.wake(id);
  }
}

namespace {

/// Returns whether a constraint that depends on time moves its bodies: now, or as soon as they wake.
bool moves_its_bodies(const Context& c, const ConstraintEntry& r) {
  if (r.time == ConstraintEntry::Time::moving) return true;
  const auto bodies = bodies_of(c, r);
  const bool sleeps = std::any_of(bodies.begin(), bodies.end(), [&](BodyId id) {
    return c.bodies.in_host(id) && c.system.dof(id) > 0 && !c.world.is_awake(id);
  });
  if (!sleeps) return false;
  const LinearizedEntry rows = linearize(c, r);
  for (const auto* residual : {&rows.position, &rows.velocity})
    for (const double x : *residual)
      if (std::abs(x) > c.options.gap_tolerance) return true;
  return false;
}

}  // namespace

void SleepPolicy::end_step(Context& c, bool timers_run) {
  for (const int i : c.lists.users) {
    const ConstraintEntry& r = c.constraints[i];
    if (!r.alive || r.time == ConstraintEntry::Time::constant || !r.enabled || r.id.index < 0) continue;
    if (moves_its_bodies(c, r)) wake(c, r);
  }
  if (timers_run)
    restart_timers_of_moved(c);
  else
    rest_.clear();
}

// Restarts the sleep timers of bodies that have moved since their timers began. A host puts bodies to sleep that are
// slow for some seconds, a pendulum in mid-air too. Bodies in contact move slowly by drift; there the host's own rule
// decides.
void SleepPolicy::restart_timers_of_moved(Context& c) {
  rest_.resize(c.bodies.count());
  for (const auto& b : c.islands.all()) {
    if (b->history.last_step != c.step || b->failed() || b->step.rows >= HostRows::contacts ||
        c.options.mode == Mode::passive)
      continue;
    for (const BodyId id : b->layout().bodies) {
      if (!c.bodies.in_host(id)) continue;
      RestPose& rest = rest_[z(id.index)];
      const bool running = c.world.rest_time(id) > 0;
      if (!running) {
        rest.known = false;
        continue;
      }
      BodyState now;
      c.world.read(id, now);
      if (rest.known && (now.p - rest.p).norm() <= tuning::rest_motion &&
          rest.q.angularDistance(now.q) <= tuning::rest_motion)
        continue;
      if (rest.known) c.world.restart_rest_timer(id);
      rest = {true, now.p, now.q};
    }
  }
}

void SleepPolicy::forget(BodyId body) {
  if (z(body.index) < rest_.size()) rest_[z(body.index)] = {};
}

}  // namespace linchpin::host
