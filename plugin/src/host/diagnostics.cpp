#include "host/diagnostics.h"

#include "host/compliance.h"
#include "host/reactions.h"
#include "host/tuning.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>

namespace linchpin::host {

namespace {

/// Returns whether a constraint is not met to the tolerance.
bool is_open(const Reaction& r, double tolerance) {
  return std::max({r.gap, r.gap_angle, r.residual, r.velocity_residual}) > tolerance;
}

std::vector<std::string> names_of(Context& c, const std::vector<int>& reactions) {
  std::vector<std::string> out;
  for (const int i : reactions) out.push_back(c.reactions[i].name);
  return out;
}

/// Returns whether a constraint is switched on now.
bool is_on(const Context& c, int entry) {
  const ConstraintEntry& r = c.constraints[entry];
  return r.is_joint() ? c.world.is_enabled(entry) : r.enabled && !r.released;
}

const char* plural(long count) { return count == 1 ? "" : "s"; }

}  // namespace

std::string list_of(const std::vector<std::string>& names, std::size_t most, std::size_t total) {
  total = std::max(total, names.size());
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += (i ? ", " : "") + names[i];
  if (total > most) out += " and " + std::to_string(total - most) + " more";
  return out;
}

// An island that cannot be met cannot be met as a whole. Constraints of it that are met nevertheless are not the
// reason.
std::vector<int> contradictory_reactions(Context& c) {
  c.reactions.make(c);
  std::vector<int> all, open;
  for (const ConstraintEntry& r : c.constraints.all()) {
    if (!r.alive || !r.outcome.contradictory || r.reaction < 0) continue;
    all.push_back(r.reaction);
    if (is_open(c.reactions[r.reaction], c.options.gap_tolerance)) open.push_back(r.reaction);
  }
  return open.empty() ? all : open;
}

RankReport rank_report(Context& c) {
  RankReport all;
  bool first = true;
  const auto add = [&](const RankReport& ranks, const auto& reaction) {
    all.rank += ranks.rank;
    if (ranks.rank > 0)
      all.smallest_kept =
          std::exchange(first, false) ? ranks.smallest_kept : std::min(all.smallest_kept, ranks.smallest_kept);
    all.largest_dropped = std::max(all.largest_dropped, ranks.largest_dropped);
    const auto take = [&](const std::vector<int>& from, std::vector<int>& to) {
      for (const int i : from)
        if (const int at = reaction(i); at >= 0) to.push_back(at);
    };
    take(ranks.redundant, all.redundant);
    take(ranks.undetermined, all.undetermined);
    take(ranks.contradictory, all.contradictory);
  };
  for (const auto& b : c.islands.all())
    if (b->took_part(c.step))
      add(start_problem(c, *b).rank_report(), [&](int i) { return c.constraints[b->topology.entries[z(i)]].reaction; });
  if (c.companion) add(c.companion->rank_report(), [](int i) { return i; });
  // Poses or velocities alone may show that constraints contradict each other.
  for (const int i : contradictory_reactions(c)) all.contradictory.push_back(i);
  for (auto* x : {&all.redundant, &all.undetermined, &all.contradictory}) {
    std::sort(x->begin(), x->end());
    x->erase(std::unique(x->begin(), x->end()), x->end());
  }
  return all;
}

ConstrainedProblem problem_of(Context& c, std::string_view constraint) {
  const int entry = c.constraints.find(constraint);
  if (c.companion && c.companion->has(entry)) return c.companion->problem();
  Island* last = nullptr;  // sets of constraints from before a joint was switched still have islands
  const auto holds = [&](const Topology& t) {  // an earlier entry may have had its index
    return std::find(t.entries.begin(), t.entries.end(), entry) != t.entries.end() &&
           c.constraints[entry].version <= t.entries_made;
  };
  for (const auto& b : c.islands.all())
    if (!b->topology.ids.empty() && !b->failed() && (!last || b->history.last_step > last->history.last_step) &&
        holds(b->topology))
      last = b.get();
  const auto gone = [&](ConstraintId id) { return c.system.removed(id); };
  if (!last ||
      (!last->step.problem_is_current && std::any_of(last->topology.ids.begin(), last->topology.ids.end(), gone)))
    return {};
  if (last->step.division == Division::stages && !last->report.has_start_problem) update_report(c, *last);
  return last->report.has_start_problem ? last->report.start_problem : start_problem(c, *last).assembly().problem;
}

std::vector<HostPart> host_parts(const Context& c) {
  std::vector<HostPart> out;
  std::vector<const ConstraintEntry*> order(z(c.constraints.reactions), nullptr);
  for (const ConstraintEntry& r : c.constraints.all())
    if (r.alive && r.reaction >= 0) order[z(r.reaction)] = &r;
  for (const ConstraintEntry* r : order) {
    if (!r) continue;
    if (!r->fallback.empty())
      out.push_back({r->name, "all rows in this step, because " + r->fallback});
    else if (!r->host_part.empty())
      out.push_back({r->name, r->host_part});
  }
  if (c.companion)
    for (HostPart& part : c.companion->host_parts()) out.push_back(std::move(part));
  return out;
}

std::vector<Finding> check(const Context& c, const State& now) {
  std::vector<Finding> out = c.notes.dropped;
  std::vector<ConstraintId> ids;
  std::vector<const ConstraintEntry*> of;
  for (int i = 0; i < static_cast<int>(c.constraints.size()); ++i) {
    const ConstraintEntry& r = c.constraints[i];
    if (!r.alive || r.id.index < 0) continue;
    if (!is_on(c, i)) continue;
    ids.push_back(r.id);
    of.push_back(&r);
    const ConstraintCheck found = check_constraint(c.system, c.system.constraint(r.id), now);
    if (!found.ok()) out.push_back({r.name, found.message});
    const double large = r.is_joint() ? tuning::reported_joint_residual : tuning::reported_user_residual;
    if (found.residual > large) {
      const bool positions = c.system.constraint(r.id).function().level() == Level::position;
      std::ostringstream text;
      text << "does not satisfy its equation at the start: " << (positions ? "position" : "velocity") << " residual "
           << found.residual;
      if (c.options.mode == Mode::exact && (c.options.drift_correction || !positions))
        text << ". The first step closes it by " << (positions ? "moving bodies" : "a change of velocity");
      out.push_back({r.name, text.str()});
    }
  }
  if (c.companion)
    for (Finding& found : c.companion->check()) out.push_back(std::move(found));
  if (ids.empty()) return out;
  Dynamics all(c.system, ids);
  if (all.evaluate(now) == Status::invalid) {
    out.push_back({"", all.reason()});
    return out;
  }
  const RankReport ranks = all.rank_report();
  const auto& block = all.assembly().layout.constraints;
  const auto named = [&](int i) {
    const auto at = std::find(ids.begin(), ids.end(), block[z(i)]);
    return at == ids.end() ? std::string() : of[static_cast<std::size_t>(at - ids.begin())]->name;
  };
  for (const int i : ranks.contradictory)
    out.push_back({named(i), "contradicts other constraints: no motion satisfies all of them. Remove one of them"});
  for (const int i : ranks.redundant) {
    const bool open = std::find(ranks.undetermined.begin(), ranks.undetermined.end(), i) != ranks.undetermined.end();
    out.push_back({named(i), open ? "is redundant: other constraints imply its equations, and its reaction is "
                                    "undetermined (the one of least norm is reported)"
                                  : "is redundant: other constraints imply its equations, but its reaction is "
                                    "determined"});
  }
  return out;
}

void draw_reactions(Context& c, double scale, const ConstraintSolver::DrawLine& draw) {
  using Line = ConstraintSolver::Line;
  for (const ConstraintEntry& r : c.constraints.all()) {
    if (!r.alive || r.reaction < 0 || r.id.index < 0) continue;
    const auto bodies = c.system.constraint(r.id).bodies();
    const Reaction& reaction = c.reactions[r.reaction];
    if (std::isfinite(reaction.gap) && reaction.gap > 0)  // a cross whose arms are as long as it
      for (int axis = 0; axis < 3; ++axis) {
        const Vector3d arm = reaction.gap * Vector3d::Unit(axis), at = reaction.on(0).point;
        draw(at - arm, at + arm, Line::gap);
      }
    for (int k = 0; k < std::min(2, static_cast<int>(bodies.size())); ++k) {
      const Wrench& w = reaction.on(k);
      const Vector3d along = scale * w.force, tip = w.point + along;
      if (c.system.dof(bodies[z(k)]) == 0 || !along.allFinite() || along.isZero()) continue;
      const Line line = k == 0 ? Line::on_first : Line::on_second;
      const Vector3d across = along.unitOrthogonal() * along.norm();
      draw(w.point, tip, line);
      for (const double side : {-0.1, 0.1}) draw(tip, w.point + 0.8 * along + side * across, line);
    }
  }
}

namespace {

/// @return the number of exact constraints
int write_constraints(Context& c, std::ostream& s) {
  using Owner = ConstraintEntry::Owner;
  int exact = 0, compliant = 0, joints = 0, user = 0, off = 0;
  for (int i = 0; i < static_cast<int>(c.constraints.size()); ++i) {
    const ConstraintEntry& r = c.constraints[i];
    if (!r.alive) continue;
    const bool on = is_on(c, i);
    if (has_compliance(c, r) && on)
      ++compliant;
    else if ((r.id.index >= 0 || (r.is_on_links() && r.deferred)) && on)
      ++(r.owner == Owner::multibody_joint ? joints : exact);
    if (!on && !r.outcome.broken) ++off;
    if (r.is_of_user()) ++user;
  }
  s << "\n  t = " << c.t << " s, " << c.counts.steps << (c.counts.steps == 1 ? " step, " : " steps, ") << exact
    << " exact constraint" << plural(exact);
  if (user) s << " (the program has added " << user << " constraint" << plural(user) << ")";
  if (compliant) s << ", " << compliant << " with compliance";
  if (joints) s << ", " << joints << " joint" << plural(joints) << " of multibodies (held by joint coordinates)";
  if (off) s << ", " << off << " switched off";
  return exact;
}

void write_rank(Context& c, std::ostream& s, int exact) {
  int rows = 0, rank = 0;
  bool any_island = c.companion && c.companion->rows() > 0;
  for (const auto& b : c.islands.all())
    if (b->took_part(c.step)) {
      any_island = true;
      rows += start_problem(c, *b).solver().rows();
      rank += start_problem(c, *b).solver().rank();
    }
  if (c.companion) {
    rows += c.companion->rows();
    rank += c.companion->rank();
  }
  if (rows > 0)
    s << "\n  " << rank << " of " << rows << " constraint equation" << plural(rows) << (rank == 1 ? " is" : " are")
      << " independent" << (rank < rows ? " (the others depend on them)" : "");
  else if (exact > 0 && !any_island)
    s << "\n  no island was solved in the last step: its bodies sleep, or the native solver has solved it";
  const std::vector<std::string> open = names_of(c, contradictory_reactions(c));
  if (!open.empty())
    s << "\n  contradictory constraints: " << list_of(open)
      << ". No motion satisfies all of them, so linchpin satisfies them in the least-squares sense. Remove one of them "
         "or give one compliance";
  if (rank >= rows) return;
  const RankReport ranks = rank_report(c);
  if (!ranks.redundant.empty())
    s << "\n  redundant constraints, which other constraints imply: " << list_of(names_of(c, ranks.redundant));
  if (!ranks.undetermined.empty())
    s << "\n  undetermined reactions (the load can be shared in several ways; reported is the distribution of least "
         "norm): "
      << list_of(names_of(c, ranks.undetermined));
  if (!ranks.contradictory.empty() && open.empty())
    s << "\n  contradictory constraints: " << list_of(names_of(c, ranks.contradictory));
}

/// Lists the constraints with compliance that have deformed most.
void write_compliance(Context& c, std::ostream& s) {
  std::vector<const Reaction*> deformed;
  for (const ConstraintEntry& r : c.constraints.all())
    if (r.alive && r.reaction >= 0 && has_compliance(c, r))
      if (const Reaction& x = c.reactions[r.reaction]; std::max({x.gap, x.gap_angle, x.residual}) > 0)
        deformed.push_back(&x);
  if (deformed.empty()) return;
  const auto size = [](const Reaction* x) { return std::max({x->gap, x->gap_angle, x->residual}); };
  std::sort(deformed.begin(), deformed.end(), [&](const auto* a, const auto* b) { return size(a) > size(b); });
  std::vector<std::string> texts;
  for (const Reaction* x : deformed) {
    std::ostringstream one;
    one << std::setprecision(3) << x->name;
    if (x->gap > 0) one << " " << x->gap << " m";
    if (x->gap_angle > 0) one << " " << x->gap_angle << " rad";
    if (x->residual > 0) one << " " << x->residual << " in the unit of its equation";
    texts.push_back(one.str());
  }
  s << "\n  largest deformations by compliance: " << list_of(texts);
  if (c.counts.yielding > 0)
    s << "\n  " << c.counts.yielding << (c.counts.yielding == 1 ? " constraint has" : " constraints have")
      << " compliance because exact ones could not bear their load (Options::automatic_compliance)";
}

void write_counts(const Context& c, std::ostream& s) {
  const Counts& n = c.counts;
  s << "\n  " << n.solves << " solve" << plural(n.solves) << " of islands, " << n.newton_solves << " Newton iteration"
    << plural(n.newton_solves) << ", " << n.substepped_steps << " step" << plural(n.substepped_steps) << " taken in "
    << n.substeps << " substep" << plural(n.substeps) << ", " << n.fallbacks << " step" << plural(n.fallbacks)
    << " left to the native solver";
  if (n.stiffened_steps)
    s << "\n  " << n.stiffened_steps << " step" << plural(n.stiffened_steps)
      << " with geometric stiffness, whose damping did " << n.stiffness_work << " J of work";
  if (n.damped_steps)
    s << "\n  " << n.damped_steps << (n.damped_steps == 1 ? " step was" : " steps were")
      << " damped, because contacts, limits or motors would have added energy (work of the damping " << n.damping_work
      << " J)";
  if (n.divided_steps)
    s << "\n  " << n.divided_steps << (n.divided_steps == 1 ? " step was" : " steps were")
      << " divided, because the energy grew without a source, or a velocity residual grew";
  if (n.energy_gains) s << "\n  " << energy_gain_text(c.system, c.energy_gains.front(), n.energy_gains);
  if (n.velocity_residuals) s << "\n  " << velocity_residual_text(c.velocity_residuals.front(), n.velocity_residuals);
  if (n.integrator_substeps) {
    s << "\n  Runge-Kutta integration in " << n.integrator_substeps << " substep" << plural(n.integrator_substeps);
    if (n.rejected_substeps)
      s << "; " << n.rejected_substeps << " more " << (n.rejected_substeps == 1 ? "was" : "were")
        << " rejected and repeated with a shorter length";
    if (c.options.stepping == Stepping::adaptive) s << " (tolerance " << c.options.tolerance << ")";
  }
  if (n.order_reductions)
    s << "\n  " << n.order_reductions << (n.order_reductions == 1 ? " step was" : " steps were")
      << " semi-implicit (first order) instead of Runge-Kutta; cause of the last one: " << c.notes.order_reductions;
  if (n.released)
    s << "\n  unilateral constraints opened " << n.released << " time" << plural(n.released) << " and closed "
      << n.engaged << " time" << plural(n.engaged);
  if (n.mode_switches) s << "\n  changes between sticking and sliding: " << n.mode_switches;
}

void write_laws(Context& c, std::ostream& s) {
  if (c.counts.law_failures) s << "\n  " << law_failure_text(c.laws.failures.all(), c.counts.law_failures);
  for (const std::string& difference : normal_force_differences(c.laws.all(c.constraints))) s << "\n  " << difference;
  for (const LawWarning& warning : c.laws.warnings.all()) s << "\n  warning: " << warning_text(warning);
  if (c.laws.warnings.full())
    s << "\n  warning: there were more than " << tuning::max_law_warnings
      << " different warnings of laws; later ones are not kept. Solver::reset() clears the list";
}

void write_dropped(const Context& c, std::ostream& s) {
  const long n = c.notes.dropped_count;
  if (n == 0) return;
  std::vector<std::string> names;
  for (const Finding& dropped : c.notes.dropped) names.push_back(dropped.constraint);
  s << "\n  " << n << (n == 1 ? " constraint was" : " constraints were") << " removed, because a body of "
    << (n == 1 ? "it" : "each") << " is no longer in the world: " << list_of(names, 6, z(static_cast<int>(n)));
}

void write_corrections(const Context& c, std::ostream& s) {
  const Counts& n = c.counts;
  if (!c.balance.all().empty() && n.imbalance > 0)
    s << "\n  momentum balance of every body that was checked: largest error " << n.imbalance
      << " of the largest impulse";
  else if (!c.balance.all().empty())
    s << "\n  momentum balance of every body that was checked: exact up to the rounding of the velocities";
  if (n.activation_energy > tuning::reported_activation)
    s << "\n  energy of the largest change of velocity at the start of a step, needed to satisfy the constraints: "
      << n.activation_energy << " J";
  if (n.gap_corrections)
    s << "\n  bodies were moved " << n.gap_corrections << " time" << plural(n.gap_corrections)
      << " at the start of a step to close gaps, by at most " << n.largest_correction << " m and "
      << n.largest_correction_angle << " rad (their velocities did not change)";
  if (n.realigned_steps)
    s << "\n  joints were rotated away from the pose that they hold, by at most " << n.largest_misalignment << " rad ("
      << c.notes.widest_turned << "). They were rotated back in " << n.realigned_steps << " step"
      << plural(n.realigned_steps);
  if (n.non_finite)
    s << "\n  " << n.non_finite << (n.non_finite == 1 ? " value was" : " values were")
      << " infinite or not a number and " << (n.non_finite == 1 ? "was" : "were")
      << " not written to the world; see the line \"last problem\"";
  const auto broken = std::count_if(c.constraints.all().begin(), c.constraints.all().end(),
                                    [](const auto& r) { return r.alive && r.outcome.broken; });
  if (broken) s << "\n  broken constraints: " << broken;
  write_dropped(c, s);
  if (!c.notes.fallback_reason.empty()) s << "\n  last problem: " << c.notes.fallback_reason;
}

}  // namespace

std::string summary(Context& c, double energy) {
  std::ostringstream s;
  s << std::setprecision(3) << "linchpin in " << c.world.name()
    << (c.options.mode == Mode::passive ? " (mode: passive)" : "");
  const int exact = write_constraints(c, s);
  if (c.skipped)
    s << "\n  another constraint solver has solved the last step. Gaps and forces are those of the last step that "
         "linchpin has solved. Give the world the solver of linchpin again for new ones";
  s << "\n  largest gap " << c.gaps.largest_gap << " m, " << c.gaps.largest_angle << " rad";
  for (const ConstraintEntry& r : c.constraints.all())
    if (r.alive && !r.is_joint() && r.reaction >= 0 && c.reactions[r.reaction].residual > 0 && !has_compliance(c, r))
      s << "; largest residual of \"" << r.name << "\" " << c.reactions[r.reaction].residual
        << " in the unit of its equation";
  write_compliance(c, s);
  s << "\n  energy " << std::setprecision(6) << energy << " J" << std::setprecision(3);
  write_rank(c, s, exact);
  write_counts(c, s);
  write_laws(c, s);
  write_corrections(c, s);
  std::map<std::string, std::vector<std::string>> why;
  for (const HostPart& part : host_parts(c)) why[part.why].push_back(part.name);
  for (const auto& [reason, names] : why)
    s << "\n  solved by the native solver: " << names.size() << " constraint" << plural(static_cast<int>(names.size()))
      << " (" << list_of(names, 3) << "): " << reason;
  s << "\n";
  return s.str();
}

}  // namespace linchpin::host
