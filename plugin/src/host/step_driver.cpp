// The step of a world, in the order in which an adapter calls it.
//
//   begin_step          reads changes of the world; releases and engages unilateral constraints; clears the last step
//   build_islands       constraints → islands
//   begin_islands       the step of the islands begins
//   separate_islands    islands without host rows leave the group
//   solve_separate      … and are solved, on several threads where there are
//   begin_among_rows    the others are read and factored,                          ┐ once more where an
//   start_rows          start velocities for the host's rows,                      │ island is left to the
//   push                split impulses move start poses,                           │ host, or was too long
//   find_responses      what rows do to whole islands,                             │ for the rows
//   project             after each iteration of the host,                          │
//   finish_rows         impulses of the rows → the end of the step on the constraints ┘
//   write_group         velocities, start poses, joints → host
//   end_step            after the host has integrated: gaps, sleep, motion of kinematic bodies
#include "host/body_reading.h"
#include "host/body_vectors.h"
#include "host/constraint_solver_impl.h"
#include "host/entry_lists.h"
#include "host/fallback.h"
#include "host/geometric_damping.h"
#include "host/passive_rows.h"
#include "host/reactions.h"
#include "host/row_impulses.h"
#include "host/start_gap.h"
#include "host/start_of_step.h"
#include "host/unilateral.h"
#include "host/write_back.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace linchpin::host {

// ---- the start of a step ----

namespace {

/// Gives indices of removed entries and bodies free.
void release_places(Context& c) {
  c.constraints.release_places([&](int entry) {
    if (c.world.keeps_entry(entry)) return false;
    c.gaps.forget_geometry(c.constraints[entry]);
    return true;
  });
  std::erase_if(c.bodies.removed(), [&](int index) {
    const BodyId id = c.system.body_at(index);
    if (c.constraints.names(id)) return false;
    c.system.remove(id);
    return true;
  });
}

void update_lists(Context& c) {
  if (c.lists.made_for != c.structure) make_lists(c);
}

}  // namespace

void ConstraintSolver::begin_step() {
  Context& c = impl_->c;
  for (const auto& b : c.islands.all()) {
    if (falls_asleep(c, *b)) update_report(c, *b);
    b->report.is_current = true;  // reports that nobody has read are lost
  }
  ++c.step;
  if (c.world.why_absent()) return;
  c.world.find_joints();
  apply_automatic_compliance();
  do {
    c.world.look_at_bodies(true);
    read_bodies(c);
    update_bodies();
    c.world.map_joints(false);
  } while (c.bodies.changes.any);  // a joint that is mapped again may name a new body
  switch_all_unilateral(c);
  update_lists(c);
  c.laws.begin_step(c.constraints);
  wake_beside_kinematic(c);
  for (const int i : c.left_to_host) {
    c.constraints[i].fallback.clear();
    c.constraints[i].outcome.has_host_rows = false;
  }
  c.left_to_host.clear();
  for (const int i : c.lists.with_host_rows) c.constraints[i].outcome.has_host_rows = false;
  c.islands.group.clear();
  c.balance.begin_step();
  release_places(c);
}

// ---- islands ----

void ConstraintSolver::build_islands(std::span<const int> entries) { impl_->builder.build(entries); }

std::span<const BodyId> ConstraintSolver::begin_islands(double dt) {
  Context& c = impl_->c;
  c.dt = dt;
  impl_->bodies.clear();
  if (!(dt > 0 && std::isfinite(dt))) {
    impl_->leave_out_islands();
    return impl_->bodies;
  }
  c.islands.group = c.islands.last_group;
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    b.history.last_step = c.step;
    b.phase = Phase::waiting;
    b.detached = false;
  }
  return {};
}

/// Lists the bodies of all islands of the group, which are not solved in this step.
void ConstraintSolver::Impl::leave_out_islands() {
  c.islands.group.clear();
  if (c.options.mode == Mode::passive) return;
  for (const int index : c.islands.last_group) {
    Island& b = c.islands[index];
    b.history.last_step = c.step - 1;
    for (const BodyId id : b.layout().bodies)
      if (c.bodies.in_host(id)) bodies.push_back(id);
  }
  if (bodies.empty()) return;
  char length[32];
  std::snprintf(length, sizeof length, "%g", c.dt);
  c.notes.fallback_reason =
      "the step length was " + std::string(length) +
      " s. Bodies with exact constraints did not move in this step. Give a positive and finite length";
}

std::span<const char> ConstraintSolver::separate_islands(std::span<const char> touched, std::span<const int> group) {
  enum : char { other, missing, taken };
  Context& c = impl_->c;
  std::vector<int>& islands = c.islands.group;
  std::vector<char>& found = impl_->separated;
  c.islands.separate.clear();
  found.assign(c.bodies.count(), other);
  const auto kept = std::remove_if(islands.begin(), islands.end(), [&](int index) {
    const std::vector<BodyId>& ids = c.islands[index].layout().bodies;
    if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return touched[z(id.index)] != 0; })) return false;
    c.islands.separate.push_back(index);
    for (const BodyId id : ids) found[z(id.index)] = missing;
    return true;
  });
  islands.erase(kept, islands.end());
  if (c.islands.separate.empty()) return {};
  for (const int id : group)
    if (id >= 0 && found[z(id)] == missing) found[z(id)] = taken;
  for (const int index : c.islands.separate) {
    const std::vector<BodyId>& ids = c.islands[index].layout().bodies;
    c.islands[index].detached =
        std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return found[z(id.index)] == missing; });
  }
  return found;
}

bool ConstraintSolver::has_group() const { return !impl_->c.islands.group.empty(); }

namespace {

/// Reads what islands share, before any of them is solved: the clock, and the bodies that no equation moves.
void read_boundaries(Context& c, const std::vector<int>& islands) {
  c.bodies.start.t = c.bodies.base.t = c.t;
  c.bodies.end.t = c.t + c.dt;
  for (const int index : islands)
    for (const BodyId id : c.islands[index].topology.boundary) c.bodies.read_boundary(c.world, id, c.dt, c.teleported);
}

}  // namespace

// ---- islands without host rows ----

std::span<const BodyId> ConstraintSolver::solve_separate(bool host_is_idle) {
  Context& c = impl_->c;
  impl_->bodies.clear();
  read_boundaries(c, c.islands.separate);
  impl_->group_by_topology();
  if (impl_->pool && impl_->same_topology.size() > 1) {
    c.bodies.make_ends();
    impl_->solve_on_threads();
  }
  for (const auto& islands : impl_->same_topology) {
    impl_->begin_separate(islands, 0);
    for (Island* const b : islands) {
      if (b->phase == Phase::begun) b->phase = impl_->finish(*b) ? Phase::solved : Phase::refused;
      if (b->phase == Phase::refused) {
        leave_to_host(c, *b);
        impl_->bodies.insert(impl_->bodies.end(), b->layout().bodies.begin(), b->layout().bodies.end());
      } else if (host_is_idle && impl_->bodies.empty() && !impl_->calls_the_program(*b)) {
        // It is written while its numbers are in the cache. Otherwise it is written after the host has solved, because
        // the host writes to the bodies of every contact pair, those without contacts too.
        write_island(c, *b);
      }
    }
  }
  return impl_->bodies;
}

void ConstraintSolver::write_separate() {
  Context& c = impl_->c;
  for (const int index : c.islands.separate)
    if (Island& b = c.islands[index]; b.phase != Phase::written) write_island(c, b);
  c.islands.separate.clear();
  c.islands.group.clear();
}

/// Finds runs of islands of one shape, which the joint kernel steps side by side.
void ConstraintSolver::Impl::group_by_topology() {
  separate.clear();
  same_topology.clear();
  for (const int index : c.islands.separate) separate.push_back(&c.islands[index]);
  std::size_t first = 0;
  for (std::size_t i = 0; i < separate.size(); ++i) {
    Island& b = *separate[i];
    b.phase = Phase::waiting;
    fast.lay_out(b);
    const Island& before = *separate[first];
    const bool goes_on = i > first && i - first < linchpin::detail::JointIsland::max_jobs && b.fast.fits &&
                         before.fast.fits && b.fast.kernel.topology() == before.fast.kernel.topology();
    if (i > first && !goes_on) {
      same_topology.push_back(std::span(separate).subspan(first, i - first));
      first = i;
    }
  }
  if (!separate.empty()) same_topology.push_back(std::span(separate).subspan(first));
}

/// Functions and laws of the program's own are called from the program's thread.
bool ConstraintSolver::Impl::calls_the_program(const Island& b) const {
  return b.has(Trait::user_constraint) || b.has(Trait::own_laws) || b.has(Trait::state);
}

void ConstraintSolver::Impl::begin_separate(std::span<Island* const> islands, int worker) {
  std::array<Island*, linchpin::detail::JointIsland::max_jobs> read{};
  std::size_t count = 0;
  for (Island* const b : islands) {
    if (b->phase != Phase::waiting) continue;
    if (!read_island(c, *b, false)) b->phase = Phase::refused;
    read[count++] = b;
  }
  fast.solve_steps(std::span(read).first(count), worker);
  for (Island* const b : std::span(read).first(count))
    if (b->phase == Phase::waiting) b->phase = general.begin(*b, false) ? Phase::begun : Phase::refused;
}

// Results are identical for any number of threads. Shared data are read before. Islands with a start gap stay on the
// calling thread, because closing a gap uses memory that islands share.
void ConstraintSolver::Impl::solve_on_threads() {
  pool->share(static_cast<int>(same_topology.size()), [this](int job, int worker) {
    const std::span<Island* const> islands = same_topology[z(job)];
    if (calls_the_program(*islands[0])) return;  // and it is alone in its run
    begin_separate(islands, worker);
    for (Island* const b : islands) {
      if (b->phase != Phase::begun || largest(b->dynamics->assembly().position) > c.options.gap_tolerance ||
          find_turned_away(c, *b) > 0)
        continue;
      b->phase = general.finish(*b, states[z(worker)]) ? Phase::solved : Phase::refused;
    }
  });
}

// ---- islands among host rows ----

bool ConstraintSolver::begin_among_rows(const Rows& rows) {
  Context& c = impl_->c;
  impl_->coupling.slots.resize(rows.bodies.size());
  read_boundaries(c, c.islands.group);
  bool good = true;
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (b.failed()) continue;
    if (!read_island(c, b, true) || !(impl_->fast.begin(b, true) || impl_->general.begin(b, true))) {
      leave_to_host(c, b);
      good = false;
      continue;
    }
    for (std::size_t slot = 0; slot < b.solver_body.size(); ++slot)
      impl_->coupling.slots.set(b.solver_body[slot], {index, static_cast<int>(slot)});
  }
  return good;
}

bool ConstraintSolver::acts_on_island(int row_body) const { return impl_->coupling.slots[row_body].island >= 0; }

bool ConstraintSolver::is_within_rigid_part(const Rows& rows, const Row& row) const {
  return impl_->coupling.is_within_cluster(rows, row);
}

namespace {

void note_acting_rows(Context& c, const BodySlots& slots, const Rows& rows) {
  const auto note = [&](const std::vector<Row>& of, HostRows kind) {
    for (const Row& row : of) {
      if (kind != HostRows::multibody && row.moves_nothing()) continue;
      for (const Row::Side& side : row.side)
        if (const int island = slots[side.body].island; island >= 0) {
          HostRows& acting = c.islands[island].step.rows;
          acting = std::max(acting, kind);
        }
    }
  };
  note(rows.contacts, HostRows::contacts);
  note(rows.joints, HostRows::joints);
  note(rows.multibody, HostRows::multibody);
}

}  // namespace

// Geometric stiffness comes from tensions. With the tensions of an impact, the next impact would act on a body that is
// too stiff. Islands in contact therefore have none.
bool ConstraintSolver::start_rows(Rows& rows) {
  Context& c = impl_->c;
  if (c.options.mode == Mode::passive) return true;
  note_acting_rows(c, impl_->coupling.slots, rows);
  bool good = true;
  const auto left_to_host = [&](Island& b) {
    leave_to_host(c, b);
    good = false;
  };
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (b.failed() || b.step.rows < HostRows::contacts || b.stiffness.empty()) continue;
    set_stiffness(c, b, {});
    if (!impl_->fast.begin(b, true) && !impl_->general.begin(b, true)) left_to_host(b);
  }
  read_row_impulses(c, impl_->coupling.slots, rows, false);
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (b.failed() || b.step.rows == HostRows::none) continue;
    if (!impl_->start(b)) left_to_host(b);
  }
  impl_->list_bodies();
  return good;
}

bool ConstraintSolver::Impl::start(Island& b) {
  if (!coupling.solver_of(b).start(b)) return false;
  return finite(b.x.v) ||
         fail(b,
              "the velocities at the end of the step are not finite. Check the applied forces, or use a shorter step");
}

/// Lists the bodies of islands on which rows act, with their velocities.
void ConstraintSolver::Impl::list_bodies() {
  coupled.clear();
  for (const int index : c.islands.group) {
    const Island& b = c.islands[index];
    if (b.failed() || b.step.rows == HostRows::none) continue;
    for (std::size_t slot = 0; slot < b.slots(); ++slot) {
      const int column = b.layout().column[slot];
      const bool turns = host::turns(b.layout(), slot);
      coupled.push_back({b.solver_body[slot], turns, head(b.x.v, column),
                         turns ? head(b.x.v, column + 3) : Vector3d(Vector3d::Zero())});
    }
  }
}

std::span<RowVelocity> ConstraintSolver::coupled_bodies() { return impl_->coupled; }

void ConstraintSolver::push() {
  Context& c = impl_->c;
  if (c.options.mode == Mode::passive) return;
  const RowVelocity* next = impl_->coupled.data();
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (b.failed() || b.step.rows == HostRows::none) continue;
    std::vector<double>& push = b.x.change;
    push.assign(z(b.layout().n()), 0.0);
    bool any = false;
    for (std::size_t slot = 0; slot < b.slots(); ++slot, ++next) {
      any = any || !next->v.isZero() || !next->w.isZero();
      put(push, b.layout().column[slot], next->v);
      if (next->turns) put(push, b.layout().column[slot] + 3, next->w);
    }
    if (!any) continue;
    if (b.step.path == Path::coupled) {
      if (!impl_->general.begin(b, true)) continue;
      row_velocities(b.dynamics->assembly(), b.x.v, b.x.target);
    }
    impl_->general.push(b, push);
  }
}

std::span<const CompositeBody> ConstraintSolver::find_composites() { return impl_->coupling.find_composites(); }
std::span<const CompositeBody> ConstraintSolver::composites() const { return impl_->coupling.composites(); }
CompositeRow ConstraintSolver::on_composites(const Rows& rows, const Row& row) const {
  return impl_->coupling.on_composites(rows, row);
}

bool ConstraintSolver::find_responses(const Rows& rows, const RowSettings& settings) {
  if (impl_->c.capabilities.coupling != Capabilities::Coupling::rows) return false;
  return impl_->coupling.find_responses(rows, settings);
}
const Response& ConstraintSolver::response(std::span<const Row> rows, std::size_t i) const {
  return impl_->coupling.response(rows, i);
}
const RowChange& ConstraintSolver::row_change(std::span<const Row> rows, std::size_t i) const {
  return impl_->coupling.change(rows, i);
}
std::span<const double> ConstraintSolver::response_motion() const { return impl_->coupling.motion(); }
std::span<const int> ConstraintSolver::response_bodies(int island) const {
  return impl_->c.islands[island].rows.contacted_bodies;
}

namespace {
bool is_projected(const Island& b) {
  return !b.failed() && b.step.rows != HostRows::none && b.step.method == RowMethod::alternating;
}
}  // namespace

std::span<RowVelocity> ConstraintSolver::projected_bodies() {
  Context& c = impl_->c;
  impl_->projected.clear();
  if (c.options.mode == Mode::passive || c.capabilities.coupling == Capabilities::Coupling::after_solve) return {};
  for (const int index : c.islands.group) {
    const Island& b = c.islands[index];
    if (!is_projected(b)) continue;
    for (std::size_t slot = 0; slot < b.slots(); ++slot)
      impl_->projected.push_back({b.solver_body[slot], turns(b.layout(), slot), {}, {}});
  }
  return impl_->projected;
}

void ConstraintSolver::project() {
  Context& c = impl_->c;
  RowVelocity* next = impl_->projected.data();
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (!is_projected(b)) continue;
    const IslandLayout& layout = b.layout();
    for (std::size_t slot = 0; slot < b.slots(); ++slot) {
      put(b.x.v, layout.column[slot], next[slot].v);
      if (next[slot].turns) put(b.x.v, layout.column[slot] + 3, next[slot].w);
    }
    impl_->coupling.solver_of(b).project(b, b.x.dv);
    for (std::size_t slot = 0; slot < b.slots(); ++slot) {
      next[slot].v = head(b.x.dv, layout.column[slot]);
      if (next[slot].turns) next[slot].w = head(b.x.dv, layout.column[slot] + 3);
    }
    next += b.slots();
  }
}

// ---- the end of islands ----

bool ConstraintSolver::finish_rows(Rows& rows) {
  Context& c = impl_->c;
  read_row_impulses(c, impl_->coupling.slots, rows, true);
  bool good = true;
  for (const int index : c.islands.group) {
    Island& b = c.islands[index];
    if (b.failed() || b.phase == Phase::solved) continue;
    b.before = b.history;
    if (impl_->finish(b)) {
      if (!b.failed()) b.phase = Phase::solved;
      continue;
    }
    if (!std::exchange(b.step.outcome.repeats_rows, false)) leave_to_host(c, b);
    good = false;
  }
  if (good) {
    impl_->forget_approaching(rows);
    return true;
  }
  for (const int index : c.islands.group) {  // all of this group is solved again, because impulses of the host change
    Island& b = c.islands[index];
    if (b.phase != Phase::solved) continue;
    b.phase = Phase::begun;
    static_cast<RetryState&>(b.history) = b.before;
    forget_law_works(c, b);
  }
  return false;
}

/// @return whether the step of the island is accepted; false also where the host's rows are to be solved once more
bool ConstraintSolver::Impl::finish(Island& b) {
  if (b.step.is_sized && !finite(b.rows.total)) {
    if (c.options.mode == Mode::passive) {
      b.phase = Phase::failed;
      return true;
    }
    for (auto* x : {&b.rows.total, &b.rows.impact, &b.rows.sustained}) std::fill(x->begin(), x->end(), 0.0);
    b.rows.passive.clear();
    ++c.counts.non_finite;
    c.notes.fallback_reason =
        "the native solver returned impulses that are infinite or not numbers. linchpin did not apply them. Check "
        "masses, motors and contacts of this island";
  }
  if (b.step.path == Path::coupled) {
    if (fast.finish(b, states[0])) return true;
    if (b.step.outcome.repeats_rows) return false;
    if (!general.begin(b, true)) return false;
  }
  return general.finish(b, states[0]);
}

/// Leaves out the impulses of contacts that iterations have left approaching: the next step does not start from them.
void ConstraintSolver::Impl::forget_approaching(Rows& rows) {
  for (Row& contact : rows.contacts)
    if (is_left_approaching(coupling.slots, rows, contact)) {
      contact.was_cut = true;
      contact.impulse = 0;
    }
}

std::span<const int> ConstraintSolver::entries_left_to_host() const { return impl_->c.left_to_host; }

void ConstraintSolver::write_group() {
  Context& c = impl_->c;
  for (const int index : c.islands.group) write_island(c, c.islands[index]);
}

void ConstraintSolver::end_group() {
  Context& c = impl_->c;
  for (const int i : c.lists.with_host_rows) {  // a limit row that broke breaks its joint
    if (!c.world.is_host_part_broken(i) || !c.world.is_enabled(i)) continue;
    c.world.break_joint(i);
    c.constraints[i].outcome.broken = true;
  }
  c.islands.group.clear();
}

// ---- after the host has integrated ----

void ConstraintSolver::write_end_velocities() {
  for (const auto& b : impl_->c.islands.all()) host::write_end_velocities(impl_->c, *b);
}

namespace {

/// Functions with an internal state advance to where the step has ended.
void advance_states(Context& c, std::vector<BodyState>& memory) {
  for (const auto& b : c.islands.all()) {
    if (!b->took_part(c.step) || !b->has(Trait::state)) continue;
    for (std::size_t i = 0; i < b->topology.ids.size(); ++i) {
      const ConstraintEntry& r = c.constraints[b->topology.entries[i]];
      if (!r.alive || r.id != b->topology.ids[i]) continue;
      Constraint& constraint = c.system.constraint(r.id);
      constraint.function().accept(read_states(c, constraint, memory), c.t);
    }
  }
}

}  // namespace

void ConstraintSolver::skip_step(double dt) {
  Context& c = impl_->c;
  if (dt > 0 && std::isfinite(dt)) c.t += dt;
  c.teleported = false;
  c.skipped = true;
  c.bodies.forget_motions();
}

void ConstraintSolver::end_step(const StepEnd& end) {
  Context& c = impl_->c;
  update_lists(c);
  if (end.dt > 0 && std::isfinite(end.dt)) c.t += end.dt;
  c.teleported = c.skipped = false;
  ++c.counts.steps;
  for (const int i : c.lists.off) {
    ConstraintEntry& r = c.constraints[i];
    if (c.reactions.exist()) c.reactions.clear(c, r);
    c.laws.clear_forces(r);
    r.outcome.contradictory = false;
    if (r.time == ConstraintEntry::Time::moving) r.time = ConstraintEntry::Time::stopped;
  }
  if (end.may_stop_bodies && c.options.drift_correction && c.options.mode == Mode::exact)
    for (const auto& b : c.islands.all())
      if (b->took_part(c.step)) clip_to_swept_bodies(c, *b, impl_->states[0]);
  c.gaps.measure(c);
  if (c.companion) c.companion->end_step();
  advance_states(c, impl_->read_memory);
  write_host_reactions(c, end.dt);
  c.bodies.note_kinematic(c.world, c.dt);
  impl_->sleep.end_step(c, end.timers_run);
}

}  // namespace linchpin::host
