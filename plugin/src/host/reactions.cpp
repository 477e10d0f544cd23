#include "host/reactions.h"

#include "host/body_vectors.h"
#include "host/compliance.h"
#include "host/context.h"
#include "host/fast_island_solver.h"
#include "host/staged_integrator.h"
#include "host/start_of_step.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

bool is_left_to_host(const ConstraintEntry& entry) {
  return entry.id.index < 0 && !(entry.is_on_links() && entry.deferred);
}

namespace {
void describe(const ConstraintEntry& entry, const Constraint* constraint, Reaction& reaction) {
  reaction.name = entry.name;
  reaction.native = is_left_to_host(entry);
  if (constraint && constraint->bodies().size() > 2) reaction.others.resize(constraint->bodies().size() - 2);
}
const Constraint* constraint_of(const Context& c, const ConstraintEntry& entry) {
  return entry.deferred || entry.id.index >= 0 ? &c.constraints.of(entry) : nullptr;
}
}  // namespace

void ReactionTable::make(Context& c) {
  if (made_) return;
  const std::lock_guard<std::mutex> lock(making_);
  if (made_) return;
  all_.resize(z(c.constraints.reactions));
  for (ConstraintEntry& r : c.constraints.all()) {
    if (!r.alive || r.reaction < 0) continue;
    Reaction& reaction = all_[z(r.reaction)];
    host::describe(r, constraint_of(c, r), reaction);
    reaction.native = reaction.native || r.outcome.left_to_host;
    reaction.work = r.work;
  }
  if (c.counts.steps > 0)
    for (const int i : c.lists.off)
      if (ConstraintEntry& r = c.constraints[i]; r.alive && r.reaction >= 0) clear(c, r);
  made_ = true;
}

void ReactionTable::set_order(Context& c, std::span<const int> joints) {
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  ++c.structure;
  std::vector<int> order(joints.begin(), joints.end());
  std::vector<char> taken(c.constraints.size(), 0);
  for (const int i : joints) taken[z(i)] = 1;
  for (std::size_t i = 0; i < c.constraints.size(); ++i) {
    ConstraintEntry& r = c.constraints[static_cast<int>(i)];
    if (r.alive && r.owner != ConstraintEntry::Owner::joint)
      order.push_back(static_cast<int>(i));
    else if (!taken[i])
      r.reaction = -1;  // no longer in the world
  }
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(joints.size()), order.end(),
            [&](int a, int b) { return c.constraints[a].version < c.constraints[b].version; });
  std::vector<Reaction> fresh(made_ ? order.size() : 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    ConstraintEntry& r = c.constraints[order[i]];
    if (made_) {
      if (r.reaction >= 0 && z(r.reaction) < all_.size() && all_[z(r.reaction)].name == r.name)
        fresh[i] = std::move(all_[z(r.reaction)]);
      host::describe(r, constraint_of(c, r), fresh[i]);
    }
    r.reaction = static_cast<int>(i);
    r.outcome.left_to_host = false;
  }
  all_ = std::move(fresh);
  c.constraints.reactions = static_cast<int>(order.size());
  c.laws.constraints_changed();
}

void ReactionTable::append(Context& c, ConstraintEntry& entry) {
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  ++c.structure;
  c.laws.constraints_changed();
  entry.reaction = c.constraints.reactions++;
  if (made_) host::describe(entry, constraint_of(c, entry), all_.emplace_back());
}

void ReactionTable::describe(ConstraintEntry& entry) {
  entry.outcome.left_to_host = false;
  if (!made_) return;
  all_[z(entry.reaction)].name = entry.name;
  all_[z(entry.reaction)].native = is_left_to_host(entry);
}

void ReactionTable::set_left_to_host(ConstraintEntry& entry, bool is) {
  entry.outcome.left_to_host = is;
  if (made_ && entry.reaction >= 0) all_[z(entry.reaction)].native = is;
}

void ReactionTable::add_work(ConstraintEntry& entry, double work) {
  entry.work += work;
  if (made_ && entry.reaction >= 0) all_[z(entry.reaction)].work = entry.work;
}

void ReactionTable::clear(const Context& c, ConstraintEntry& entry) {
  Reaction& reaction = all_[z(entry.reaction)];
  for (Wrenches* part : {static_cast<Wrenches*>(&reaction), &reaction.ideal, &reaction.prescribed, &reaction.induced,
                         &reaction.stabilisation}) {
    for (const int k : {0, 1}) part->on(k).force = part->on(k).moment = Vector3d::Zero();
    for (Wrench& w : part->others) w.force = w.moment = Vector3d::Zero();  // there are none before the first report
  }
  std::fill(reaction.lambda.begin(), reaction.lambda.end(), 0.0);
  reaction.power = reaction.gap = reaction.gap_angle = reaction.residual = reaction.velocity_residual = 0;
  reaction.t = c.t;
  reaction.determined = true;
  reaction.redundant = false;
  entry.outcome.left_to_host = reaction.native = is_left_to_host(entry);  // not as in the last step in which it was on
}

void ReactionTable::forget_work() {
  for (Reaction& r : all_) r.work = 0;
}

void write_start_reactions(Context& c, Island& b) {
  c.reactions.make(c);
  // Reports belong to the step's start (T11), but the laws of the step may have been evaluated for its end.
  const bool is_done =  // by evaluate_start()
      b.step.path != Path::general || (b.step.division == Division::substeps && reports_later(c, b));
  if (b.has(Trait::laws) && !is_done) b.dynamics->evaluate_laws_at(c.bodies.start, c.dt);
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    ConstraintEntry& r = c.constraints[b.topology.entries[i]];
    Reaction& to = c.reactions[r.reaction];
    b.dynamics->reaction(static_cast<int>(i), c.bodies.start, to);  // the rank is found when somebody reads it
    to.native = r.outcome.left_to_host = c.options.mode == Mode::passive;
  }
}

void write_host_reactions(Context& c, double dt) {
  if (c.options.mode != Mode::exact) return;
  for (const int i : c.lists.with_host_rows) {
    const ConstraintEntry& r = c.constraints[i];
    if (!r.alive || !r.is_joint() || r.id.index >= 0 || r.reaction < 0 || !r.outcome.has_host_rows) continue;
    c.reactions.make(c);
    Reaction& reaction = c.reactions[r.reaction];
    reaction.t = c.t - dt;
    for (const int k : {0, 1}) {
      BodyState now;
      c.world.read(r.joint.bodies[z(k)], now);
      reaction.on(k) = {r.host->on(k).force, r.host->on(k).moment, now.p - dt * now.v};
    }
  }
}

void write_stabilisation(Context& c, Island& b) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < b.topology.ids.size(); ++i) {
    Reaction& r = c.reactions[c.constraints[b.topology.entries[i]].reaction];
    const auto bodies = c.system.constraint(b.topology.ids[i]).bodies();
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k, ++at) {
      const Vector6& sum = b.sums.wrenches[at];
      const Vector3d point = r.ideal.on(k).point;
      Wrench& to = r.stabilisation.on(k);
      to = Wrench{sum.head<3>(), sum.tail<3>(), c.bodies.start[bodies[z(k)]].p}.about(point);
      for (const Wrenches* part : {&r.ideal, &r.induced, &r.prescribed}) {
        const Wrench reported = part->on(k).about(point);
        to.force -= reported.force;
        to.moment -= reported.moment;
      }
    }
  }
}

namespace {

/// Writes the stabilisation of a whole step: the impulses of Newton, those of ideal forces beyond the step's length,
/// and those of laws beyond their force at the start.
void write_newton_impulses(Context& c, Island& b) {
  const bool fast = b.step.path != Path::general, beyond = !fast && b.has(Trait::laws) && c.options.mode == Mode::exact;
  const double longer = b.step.force_time - c.dt;
  std::vector<double>& impulses = b.x.row;
  for (std::size_t i = 0; i < impulses.size(); ++i) impulses[i] = b.x.newton[i] + longer * b.dynamics->lambda()[i];
  for (std::size_t i = 0; i < b.topology.ids.size(); ++i) {
    Reaction& r = c.reactions[c.constraints[b.topology.entries[i]].reaction];
    const auto bodies = c.system.constraint(b.topology.ids[i]).bodies();
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const Vector6 f = wrench_at_centre(b.dynamics->assembly(), static_cast<int>(i), k, impulses) / c.dt;
      const Wrench of_laws = r.stabilisation.on(k);
      Wrench& sum = r.stabilisation.on(k);
      sum = moved_to(f, c.bodies.start[bodies[z(k)]].p, r.ideal.on(k).point);
      if (!beyond) continue;
      sum.force += of_laws.force;
      sum.moment += of_laws.moment;
    }
  }
  if (fast) write_spring_stabilisation(c, b);
}

/// Evaluates the problem of the step's start, with the history that the laws had there.
void evaluate_start(const Context& c, Island& b) {
  if (!b.has(Trait::laws)) {
    b.dynamics->evaluate(c.bodies.start, forces_with_rows(c, b));
    return;
  }
  const auto history = b.dynamics->law_history();
  b.dynamics->return_to_marked_law_history();
  b.dynamics->set_step(c.dt);
  if (b.dynamics->evaluate(c.bodies.start, forces_with_rows(c, b)) != Status::invalid)
    b.dynamics->evaluate_laws_at(c.bodies.start, c.dt);
  b.dynamics->set_law_history(history);
}

}  // namespace

Dynamics& start_problem(const Context& c, Island& b) {
  if (!b.dynamics) make_dynamics(c, b);
  if (std::exchange(b.step.problem_is_current, true)) return *b.dynamics;
  if (!b.step.is_sized) size_vectors(c, b);
  evaluate_start(c, b);
  if (b.step.division != Division::whole) return *b.dynamics;
  if (b.step.path == Path::fast)
    b.gyroscopics.step.apply_of_step({c.system, b.layout(), c.bodies.start}, b.x.v, b.x.applied);
  // Splits the total impulse of the fast kernel by the multipliers of the problem that is reported. The sum keeps its
  // digits.
  const auto lambda = b.dynamics->lambda(), induced = b.dynamics->induced();
  for (std::size_t i = 0; i < b.x.newton.size(); ++i)
    b.x.newton[i] = b.x.multipliers[i] - c.dt * (lambda[i] + induced[i]);
  return *b.dynamics;
}

bool reports_later(const Context& c, const Island& b) {
  return b.has(Trait::laws) && !b.has(Trait::forces_read) && !b.has(Trait::kinematic_body) &&
         b.step.start_gap == StartGap::small && c.options.mode == Mode::exact &&
         c.options.stepping == Stepping::semi_implicit && !c.options.geometric_stiffness;
}

void update_report(Context& c, Island& b) {
  if (std::exchange(b.report.is_current, true)) return;
  c.reactions.make(c);
  start_problem(c, b);
  const bool fast = b.step.path != Path::general;
  if (b.step.division == Division::substeps && (fast || reports_later(c, b))) {
    if (fast) record_fast_substeps(c, b);
    write_start_reactions(c, b);
    if (fast) sum_fast_wrenches(c, b);
    write_stabilisation(c, b);
  }
  if (b.step.division == Division::stages && !b.step.keeps_records) repeat_stages_with_records(c, b);
  if (b.step.division == Division::whole) {
    write_start_reactions(c, b);
    write_newton_impulses(c, b);
  }
  if (c.options.mode == Mode::exact) c.balance.add(c, b);
  flush_work(c, b);
}

void flush_work(Context& c, Island& b) {
  if (b.topology.ids.empty()) return;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    ConstraintEntry& r = c.constraints[b.topology.entries[i]];
    double work = 0;
    const bool counts = r.alive && r.reaction >= 0;
    if (counts) work = r.work;
    for (int row = b.layout().row[i]; row < b.layout().row[i + 1]; ++row)
      work += std::exchange(b.report.work[z(row)], 0.0);
    if (!counts) continue;
    r.work = work;
    c.reactions.add_work(r, 0);
  }
}

void update_reports(Context& c) {
  for (const auto& b : c.islands.all())
    if (b->took_part(c.step))
      update_report(c, *b);
    else
      flush_work(c, *b);  // of a set that a switched or broken joint has left behind
  if (c.companion) c.companion->update_reports();
  c.gaps.report(c);
}

void update_redundancy(Context& c) {
  for (const auto& b : c.islands.all())
    if (b->took_part(c.step))
      update_redundancy(c, *b, start_problem(c, *b).solver(), [&] { return start_problem(c, *b).rank_report(); });
}

void update_redundancy(Context& c, Island& b, const linchpin::ConstraintFactorization& solver,
                       const std::function<RankReport()>& find_ranks) {
  if (std::exchange(b.report.flags_rank, solver.rank()) == solver.rank()) return;
  const auto reaction = [&](int place) -> Reaction* {  // null: removed since
    const int at = c.constraints[b.topology.entries[z(place)]].reaction;
    return at < 0 ? nullptr : &c.reactions[at];
  };
  for (int place = 0; place < static_cast<int>(b.topology.entries.size()); ++place)
    if (Reaction* r = reaction(place)) {
      r->determined = true;
      r->redundant = false;
    }
  if (solver.full_row_rank()) return;
  const RankReport ranks = find_ranks();
  for (const int i : ranks.redundant)
    if (Reaction* r = reaction(i)) r->redundant = true;
  for (const int i : ranks.undetermined)
    if (Reaction* r = reaction(i)) r->determined = false;
}

}  // namespace linchpin::host
