#include "host/rollback.h"

#include "host/reactions.h"
#include "host/start_of_step.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

void restore_island(const Context& c, Island& b, const IslandPast& past) {
  b.history = past;
  if (past.laws && !b.dynamics) make_dynamics(c, b);
  if (b.dynamics) b.dynamics->set_law_history(past.laws);
}

void forget_history(const Context& c, Island& b) {
  b.past.reset();
  IslandPast none;
  none.extrapolation.resize(b.topology.ids.empty() ? 0 : b.layout().m());
  none.last_step = b.history.last_step;
  restore_island(c, b, none);
}

namespace {

IslandPast past_of(const Island& b) {
  if (b.past) return *b.past;  // not laid out since it was restored itself
  IslandPast out;
  static_cast<History&>(out) = b.history;
  out.entries = b.topology.entries;
  if (b.has(Trait::laws) && b.dynamics) out.laws = b.dynamics->law_history();
  return out;
}

EntryPast past_of(Context& c, int entry) {
  const ConstraintEntry& r = c.constraints[entry];
  EntryPast out{.entry = entry,
                .version = r.version,
                .order = r.order,
                .frames_moved_at = r.frames_moved_at,
                .enabled = r.enabled,
                .released = r.released,
                .released_to_host = r.joint.released_to_host,
                .outcome = r.outcome,
                .time = r.time,
                .parting_speed = r.parting_speed,
                .work = r.work,
                .state = {},
                .law_works = {}};
  if (r.deferred || r.id.index >= 0) out.state = c.constraints.of(r).function().internal_state();
  const auto works = c.laws.of(r);
  out.law_works.assign(works.begin(), works.end());
  return out;
}

void restore_entry(Context& c, const EntryPast& past, unsigned steps_since) {
  ConstraintEntry& r = c.constraints[past.entry];
  r.order = past.order;
  r.frames_moved_at = past.frames_moved_at + steps_since;
  r.enabled = past.enabled;
  r.released = past.released;
  r.outcome.contradictory = past.outcome.contradictory;
  r.outcome.broken = past.outcome.broken;
  r.time = past.time;
  r.parting_speed = past.parting_speed;
  r.work = 0;
  c.reactions.add_work(r, past.work);
  if (r.owner != ConstraintEntry::Owner::joint) {
    c.world.enable(past.entry, r.enabled && !r.released);
    ++c.structure;
  }
  if (r.deferred) r.deferred->function().set_internal_state(past.state);
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) c.system.constraint(id).function().set_internal_state(past.state);
  if (r.has_limits && !past.state.empty()) r.unilateral.negative = past.state.back() != 0;
  const auto works = c.laws.of(r);
  for (std::size_t k = 0; k < std::min(works.size(), past.law_works.size()); ++k) works[k] = past.law_works[k];
}

/// Returns the island of a set as it was: one that still has its constraints, or one that is laid out when it is
/// needed.
std::unique_ptr<Island> restored(Context& c, std::vector<std::unique_ptr<Island>>& islands, IslandPast past,
                                 unsigned steps_since) {
  const auto same = std::find_if(islands.begin(), islands.end(), [&](const auto& b) {
    return b && !b->topology.ids.empty() && b->topology.entries == past.entries &&
           std::equal(b->topology.ids.begin(), b->topology.ids.end(), past.entries.begin(),
                      [&](ConstraintId id, int entry) { return c.constraints[entry].id == id; });
  });
  for (unsigned* step : {&past.last_step, &past.too_long_at, &past.next_try, &past.fast_from, &past.loose_until})
    *step += steps_since;
  std::unique_ptr<Island> b = same != islands.end() ? std::move(*same) : std::make_unique<Island>();
  b->report.is_current = true;
  b->phase = Phase::failed;  // its last step has no report
  if (b->topology.ids.empty()) {
    b->history.last_step = past.last_step;
    b->past = std::make_unique<const IslandPast>(std::move(past));
  } else {
    b->past.reset();
    restore_island(c, *b, past);
  }
  return b;
}

}  // namespace

std::shared_ptr<SolverHistory> keep_history(Context& c, const SleepPolicy& sleep) {
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  (void)c.laws.all(c.constraints);
  auto out = std::make_shared<SolverHistory>(SolverHistory{.of = c.serial,
                                                           .t = c.t,
                                                           .dt = c.dt,
                                                           .step = c.step,
                                                           .teleported = c.teleported,
                                                           .skipped = c.skipped,
                                                           .motions = c.bodies.motions(),
                                                           .rest_poses = sleep.rest_poses(),
                                                           .entries = {},
                                                           .islands = {},
                                                           .sets = c.islands.sets(),
                                                           .tree_laws = nullptr,
                                                           .counts = c.counts,
                                                           .energy_gains = c.energy_gains,
                                                           .velocity_residuals = c.velocity_residuals,
                                                           .law_warnings = c.laws.warnings,
                                                           .law_failures = c.laws.failures,
                                                           .largest_gap = c.gaps.largest_gap,
                                                           .largest_angle = c.gaps.largest_angle});
  for (int i = 0; i < static_cast<int>(c.constraints.size()); ++i)
    if (c.constraints[i].alive) out->entries.push_back(past_of(c, i));
  for (const auto& b : c.islands.all()) out->islands.push_back(past_of(*b));
  return out;
}

// Constraints that were added or removed since make other islands, of which there is no history.
std::string why_not_restored(const Context& c, const SolverHistory& past) {
  const std::string since = "since the history was taken. Take a new history after each such change",
                    restore = "linchpin: restore(): ";
  if (past.of != c.serial) return restore + "the history belongs to another solver";
  for (const EntryPast& was : past.entries) {
    const ConstraintEntry& r = c.constraints[was.entry];
    if (!r.alive || r.version != was.version)
      return restore + "constraint " + std::to_string(&was - past.entries.data() + 1) + " of " +
             std::to_string(past.entries.size()) + " has been removed " + since;
  }
  if (past.entries.empty()) return {};
  for (int i = 0; i < static_cast<int>(c.constraints.size()); ++i)
    if (c.constraints[i].alive &&
        std::none_of(past.entries.begin(), past.entries.end(), [&](const EntryPast& was) { return was.entry == i; }))
      return restore + "constraint '" + c.constraints[i].name + "' has been added " + since;
  return {};
}

void restore_history(Context& c, SleepPolicy& sleep, const SolverHistory& past) {
  const unsigned steps_since = c.step - past.step;
  (void)c.laws.all(c.constraints);
  for (const EntryPast& was : past.entries) restore_entry(c, was, steps_since);
  std::vector<std::unique_ptr<Island>> islands, old = c.islands.take_all();
  for (const IslandPast& was : past.islands) islands.push_back(restored(c, old, was, steps_since));
  c.islands.replace(std::move(islands), past.sets);
  ++c.structure;
  c.t = past.t;
  c.dt = past.dt;
  c.teleported = past.teleported;
  c.skipped = past.skipped;
  c.bodies.set_motions(past.motions);
  sleep.set_rest_poses(past.rest_poses);
  c.counts = past.counts;
  c.energy_gains = past.energy_gains;
  c.velocity_residuals = past.velocity_residuals;
  c.laws.warnings = past.law_warnings;
  c.laws.failures = past.law_failures;
  c.laws.forget_noted();  // standing warnings may have been noted since
  c.gaps.largest_gap = past.largest_gap;
  c.gaps.largest_angle = past.largest_angle;
}

}  // namespace linchpin::host
