#include "host/entry_lists.h"

#include "host/context.h"
#include "host/sleep_policy.h"
#include "model/force_rows.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

namespace {
bool has_gap(const Constraint& constraint) {
  if (constraint.function().level() != Level::position) return false;
  const auto* const forces = linchpin::detail::force_rows_of(constraint);
  return !forces || !forces->is_motor;
}
}  // namespace

void make_lists(Context& c) {
  using Owner = ConstraintEntry::Owner;
  EntryLists& lists = c.lists;
  lists.with_host_rows.clear();
  lists.users.clear();
  lists.off.clear();
  lists.with_kinematic.clear();
  lists.any_exact = false;
  c.gaps.begin_list(c);
  for (int i = 0; i < static_cast<int>(c.constraints.size()); ++i) {
    ConstraintEntry& r = c.constraints[i];
    if (!r.alive) continue;
    const bool is_joint = r.owner == Owner::joint, is_lock = r.owner == Owner::locked_axes, exact = r.id.index >= 0;
    if (is_joint) {
      // The gap that has opened while its bodies slept is closed only when they are awake.
      const bool was_on = std::exchange(r.enabled, c.world.is_enabled(i));
      if (r.enabled && !was_on && exact && c.options.mode == Mode::exact) wake(c, r);
    }
    const bool off = !r.enabled || r.released;
    lists.any_exact = lists.any_exact || (!off && !is_lock && exact);
    if (r.may_have_host_rows || !exact || c.options.mode == Mode::passive) lists.with_host_rows.push_back(i);
    if (r.owner == Owner::user) lists.users.push_back(i);
    if (!is_lock && exact && r.enabled) {
      const auto bodies = c.system.constraint(r.id).bodies();
      if (std::any_of(bodies.begin(), bodies.end(),
                      [&](BodyId id) { return c.system.kind(id) == BodyKind::kinematic; }))
        lists.with_kinematic.push_back(i);
    }
    if (r.reaction < 0) continue;
    if (off)
      lists.off.push_back(i);
    else if (exact && has_gap(c.system.constraint(r.id)))
      c.gaps.watch(c, i);
  }
  c.gaps.end_list();
  lists.made_for = c.structure;
}

}  // namespace linchpin::host
