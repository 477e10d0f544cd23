// What the engine tells: summary, what stayed native, rank, checks, energy.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "multibody.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

// "a, b, c and 4 more"
std::string list(const std::vector<std::string>& names, std::size_t most = 6) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > most) out += " and " + std::to_string(names.size() - most) + " more";
  return out;
}

// Something is left of it, beyond what is no gap.
bool open(const Reaction& r, double tolerance) {
  return std::max({r.gap, r.gap_angle, r.residual, r.velocity_residual}) > tolerance;
}
}  // namespace

std::string told(const LawWarning& warning) {
  if (warning.steps == 0) return warning.text;
  std::ostringstream out;
  out << std::setprecision(6) << warning.text << " (" << (warning.steps == 1 ? "in" : "first in")
      << " the step that begins at t = " << warning.t << " s";
  if (warning.steps > 1) out << "; in " << warning.steps << " steps";
  out << ")";
  return out.str();
}

// A block that cannot be met is so as a whole; those of its constraints that are met nevertheless are not the reason.
std::vector<int> Engine::unmet() {
  make_reactions();
  std::vector<int> all, with_residual;
  for (const Record& r : records_) {
    if (!r.alive || !r.unmet || r.reaction < 0) continue;
    all.push_back(r.reaction);
    if (open(reactions_[z(r.reaction)], options_.gap_tolerance)) with_residual.push_back(r.reaction);
  }
  return with_residual.empty() ? all : with_residual;
}

void Engine::refresh() {
  for (auto& b : blocks_)
    if (!b->ids.empty() && b->last_step == step_ && !b->failed)
      tell(*b);
    else
      flush_work(*b);  // of a set that a switched or broken joint left behind
  if (multibodies_) multibodies_->tell();
  tell_gaps();
}

// Before reactions are put in another order, too: those that are watched are known by their place.
void Engine::tell_gaps() {
  if (std::exchange(gaps_told_, true)) return;
  make_reactions();
  for (const GapWatch& w : gap_watch_) {
    const int at = records_[z(w.record)].reaction;
    if (at < 0) continue;  // gone since
    Reaction& r = reactions_[z(at)];
    r.gap = w.gap.length;
    r.gap_angle = w.gap.angle;
    r.residual = w.gap.own;
  }
}

void Engine::refresh_flags() {
  make_reactions();
  refresh();
  if (multibodies_) multibodies_->tell_flags();
  for (auto& b : blocks_) {
    if (b->ids.empty() || b->last_step != step_ || b->failed) continue;
    const linchpin::Solver& solver = problem(*b).solver();
    if (b->flags_rank == solver.rank()) continue;
    b->flags_rank = solver.rank();
    const auto reaction = [&](int index) -> Reaction* {  // null: removed since
      const int at = records_[z(index)].reaction;
      return at < 0 ? nullptr : &reactions_[z(at)];
    };
    for (const int index : b->records)
      if (Reaction* r = reaction(index)) {
        r->determined = true;
        r->redundant = false;
      }
    if (solver.full_row_rank()) continue;
    const RankReport ranks = problem(*b).rank_report();
    for (const int i : ranks.redundant)
      if (Reaction* r = reaction(b->records[z(i)])) r->redundant = true;
    for (const int i : ranks.undetermined)
      if (Reaction* r = reaction(b->records[z(i)])) r->determined = false;
  }
}

RankReport Engine::rank_report() {
  RankReport all;
  bool first = true;
  for (const auto& b : blocks_) {
    if (b->ids.empty() || b->last_step != step_ || b->failed) continue;
    const RankReport ranks = problem(*b).rank_report();
    all.rank += ranks.rank;
    if (ranks.rank > 0)
      all.smallest_kept = first ? ranks.smallest_kept : std::min(all.smallest_kept, ranks.smallest_kept);
    if (ranks.rank > 0) first = false;
    all.largest_dropped = std::max(all.largest_dropped, ranks.largest_dropped);
    const auto take = [&](const std::vector<int>& from, std::vector<int>& to) {
      for (const int i : from)
        if (const int at = records_[z(b->records[z(i)])].reaction; at >= 0) to.push_back(at);
    };
    take(ranks.redundant, all.redundant);
    take(ranks.undetermined, all.undetermined);
    take(ranks.contradictory, all.contradictory);
  }
  if (multibodies_) {
    const RankReport ranks = multibodies_->rank_report();
    all.rank += ranks.rank;
    if (ranks.rank > 0)
      all.smallest_kept = first ? ranks.smallest_kept : std::min(all.smallest_kept, ranks.smallest_kept);
    all.largest_dropped = std::max(all.largest_dropped, ranks.largest_dropped);
    all.redundant.insert(all.redundant.end(), ranks.redundant.begin(), ranks.redundant.end());
    all.undetermined.insert(all.undetermined.end(), ranks.undetermined.begin(), ranks.undetermined.end());
  }
  for (const int i : unmet()) all.contradictory.push_back(i);  // and those that only poses or velocities give away
  for (auto* x : {&all.redundant, &all.undetermined, &all.contradictory}) {
    std::sort(x->begin(), x->end());
    x->erase(std::unique(x->begin(), x->end()), x->end());
  }
  return all;
}

Instant Engine::instant(std::string_view name) {
  const int index = find(name);
  if (multibodies_ && multibodies_->holds(index)) return multibodies_->instant();
  BlockSolve* last = nullptr;                    // sets that a switched joint leaves behind are remembered
  const auto holds = [&](const BlockSolve& b) {  // of one before it in its place it may be
    return std::find(b.records.begin(), b.records.end(), index) != b.records.end() &&
           records_[z(index)].version <= b.records_made;
  };
  for (const auto& b : blocks_)
    if (!b->ids.empty() && !b->failed && (!last || b->last_step > last->last_step) && holds(*b)) last = b.get();
  const auto gone = [&](ConstraintId id) { return system_.removed(id); };
  if (!last || (last->plainly && std::any_of(last->ids.begin(), last->ids.end(), gone))) return {};
  if (last->by_stages && !last->has_kept) tell(*last);
  return last->has_kept ? last->kept : problem(*last).assembly().instant;
}

double Engine::energy() const {
  if (!world_) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  for (int i = 0; i < all.size(); ++i) {
    const btRigidBody* body = btRigidBody::upcast(all[i]);
    if (!body || body->isStaticOrKinematicObject() || body->getInvMass() == 0) continue;
    const BodyState s = read_state(*body);
    const double mass = 1 / double(body->getInvMass());
    sum += 0.5 * mass * s.v.squaredNorm() - mass * from_bullet(body->getGravity()).dot(s.p);
    const Vector3d w = s.q.conjugate() * s.w;
    for (int k = 0; k < 3; ++k) {
      const double inv = double(body->getInvInertiaDiagLocal()[k]);
      if (inv > 0) sum += 0.5 * w[k] * w[k] / inv;
    }
  }
  if (multibodies_) sum += multibodies_->energy();
  return sum;
}

std::vector<Solver::Native> Engine::native() const {
  std::vector<Solver::Native> out;
  std::vector<const Record*> order(z(reaction_count_), nullptr);
  for (const Record& r : records_)
    if (r.alive && r.reaction >= 0) order[z(r.reaction)] = &r;
  for (const Record* r : order) {
    if (!r) continue;
    if (!r->why_native.empty())
      out.push_back({r->name, "all, this step (" + r->why_native + ")"});
    else if (!r->shape.native.empty())
      out.push_back({r->name, r->shape.native});
  }
  if (multibodies_)
    for (Solver::Native& note : multibodies_->notes()) out.push_back(std::move(note));
  return out;
}

std::vector<Solver::Finding> Engine::check() {
  std::vector<Solver::Finding> out;
  if (!world_) return {{"", world_ended_ ? "the world has been destroyed" : "the solver is not attached to a world"}};
  scan_world();
  drop_bodies_gone();
  for (std::size_t i = 0; i < records_.size(); ++i)
    if (records_[i].alive && records_[i].joint) classify_record(static_cast<int>(i));
  State now = state_;
  now.t = t_;
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i]) now.bodies[i] = read_state(*body_of_[i]);
  std::vector<ConstraintId> ids;
  std::vector<const Record*> of;
  for (const Record& r : records_) {
    if (!r.alive || r.id.index < 0) continue;
    if (r.joint ? !r.joint->isEnabled() : !r.enabled || r.let_go) continue;
    ids.push_back(r.id);
    of.push_back(&r);
    const ConstraintCheck found = check_constraint(system_, system_.constraint(r.id), now);
    if (!found.ok()) out.push_back({r.name, found.message});
    const double large = r.joint ? 1e-3 : 1e-6;
    if (found.residual > large) {
      std::ostringstream text;
      text << "starts " << found.residual << " off ("
           << (system_.constraint(r.id).function().level() == Level::position ? "position" : "velocity")
           << " residual)";
      out.push_back({r.name, text.str()});
    }
  }
  if (multibodies_)
    for (Solver::Finding& found : multibodies_->check()) out.push_back(std::move(found));
  if (ids.empty()) return out;
  Dynamics all(system_, ids);
  if (all.evaluate(now) == Status::invalid) {
    out.push_back({"", all.reason()});
    return out;
  }
  const RankReport ranks = all.rank_report();
  const auto& block = all.assembly().block.constraints;
  const auto named = [&](int i) {
    for (std::size_t k = 0; k < ids.size(); ++k)
      if (ids[k] == block[z(i)]) return of[k]->name;
    return std::string();
  };
  for (const int i : ranks.contradictory) out.push_back({named(i), "contradicts other constraints"});
  for (const int i : ranks.redundant) {
    const bool open = std::find(ranks.undetermined.begin(), ranks.undetermined.end(), i) != ranks.undetermined.end();
    out.push_back({named(i), open ? "is redundant: its reaction is not determined by the equations" : "is redundant"});
  }
  return out;
}

// Arrows of the reactions, and the native solver's answer of shadow mode as ghosts.
void Engine::debugDraw(btIDebugDraw* draw) {
  if (!draw || !world_ || counts_.steps == 0) return;
  const btVector3 on_first(1, btScalar(0.8), 0), on_second(0, btScalar(0.8), 1), ghost(btScalar(0.6), btScalar(0.6), 1),
      open(1, 0, 0);
  if (options_.draw_force > 0) {
    make_reactions();
    refresh();
    for (const Record& r : records_) {
      if (!r.alive || r.reaction < 0 || r.id.index < 0) continue;
      const auto bodies = system_.constraint(r.id).bodies();
      const Reaction& reaction = reactions_[z(r.reaction)];
      if (std::isfinite(reaction.gap) && reaction.gap > 0)  // a cross whose arms are as long as it
        for (int axis = 0; axis < 3; ++axis) {
          const Vector3d arm = reaction.gap * Vector3d::Unit(axis), at = reaction.on(0).point;
          draw->drawLine(to_bullet(at - arm), to_bullet(at + arm), open);
        }
      for (int k = 0; k < std::min(2, static_cast<int>(bodies.size())); ++k) {
        const Wrench& w = reaction.on(k);
        const Vector3d along = options_.draw_force * w.force;
        if (system_.dof(bodies[z(k)]) == 0 || !along.allFinite() || along.isZero()) continue;
        const btVector3 from = to_bullet(w.point), to = to_bullet(w.point + along);
        const btVector3& color = k == 0 ? on_first : on_second;
        const Vector3d across = along.unitOrthogonal() * along.norm();
        draw->drawLine(from, to, color);
        for (const double side : {-0.1, 0.1})
          draw->drawLine(to, to_bullet(w.point + 0.8 * along + side * across), color);
      }
    }
  }
  if (!(options_.draw_ghost > 0) || !options_.shadow || options_.mode != Mode::exact) return;
  scan_world();  // what has been deleted since the step
  drop_bodies_gone();
  for (const auto& b : blocks_) {
    if (b->last_step != step_ || b->failed) continue;
    for (const BodyId id : b->block.bodies) {
      btRigidBody* body = body_of_[z(id.index)];
      if (!body || !in_world(*body) || !body->getCollisionShape()) continue;
      BodyState s = read_state(*body);
      const Vector3d dv = options_.draw_ghost * (shadow_v_[z(id.index)] - s.v),
                     dw = options_.draw_ghost * (shadow_w_[z(id.index)] - s.w);
      if (!dv.allFinite() || !dw.allFinite()) continue;
      advance(s, dv, dw, dt_);
      btTransform at;
      write_pose(at, s.p, s.q);
      world_->debugDrawObject(at, body->getCollisionShape(), ghost);
    }
  }
}

std::string Engine::summary() {
  std::ostringstream s;
  if (!world_) return world_ended_ ? "linchpin: the world has been destroyed\n" : "linchpin: not attached to a world\n";
  scan_world();
  make_reactions();
  refresh();
  s << std::setprecision(3);
  int exact = 0, joints = 0, user = 0, broken = 0, off = 0;
  for (const Record& r : records_) {
    if (!r.alive) continue;
    const bool on = r.joint ? r.joint->isEnabled() : r.enabled && !r.let_go;
    // A multibody's own joint has no rows: its coordinates are all there is of it.
    if ((r.id.index >= 0 || (r.on_links && r.waiting)) && on) ++(r.in_tree ? joints : exact);
    if (r.alive && !on && !r.broken) ++off;
    if (!r.joint && !r.held && !r.in_tree && !(r.on_links && multibodies_ && multibodies_->stock(r))) ++user;
    if (r.broken) ++broken;
  }
  s << "linchpin in Bullet (" << (sizeof(btScalar) == 4 ? "single" : "double")
    << " precision, native part: " << base_name_ << ")";
  if (options_.mode == Mode::observe) s << ", observing";
  s << "\n  t = " << t_ << " s, " << counts_.steps << " steps, " << exact << " exact constraint"
    << (exact == 1 ? "" : "s");
  if (user) s << " (" << user << " of the user's own)";
  if (joints) s << ", " << joints << " joint" << (joints == 1 ? "" : "s") << " of multibodies by coordinates";
  if (off) s << ", " << off << " switched off";
  if (replaced_)
    s << "\n  another constraint solver has solved the last step: gaps and forces are of the last one of ours";
  s << "\n  largest gap " << max_gap_ << " m, " << max_angle_ << " rad";
  for (const Record& r : records_)
    if (r.alive && !r.joint && r.reaction >= 0 && reactions_[z(r.reaction)].residual > 0)
      s << "; " << r.name << " " << reactions_[z(r.reaction)].residual;
  s << "\n  energy " << std::setprecision(6) << energy() << " J" << std::setprecision(3);
  int rows = 0, rank = 0;
  for (const auto& b : blocks_)
    if (!b->ids.empty() && b->last_step == step_ && !b->failed) {
      rows += problem(*b).solver().rows();
      rank += problem(*b).solver().rank();
    }
  if (multibodies_) {
    rows += multibodies_->rows();
    rank += multibodies_->rank();
  }
  if (rows > 0)
    s << "\n  rank " << rank << " of " << rows << " rows";
  else if (exact > 0)
    s << "\n  no exact block was solved in the last step (asleep, or left to native rows)";
  std::vector<std::string> left_open;
  for (const int i : unmet()) left_open.push_back(reactions_[z(i)].name);
  if (!left_open.empty())
    s << "\n  contradictory: " << list(left_open) << " (no motion meets them all: held in the least squares)";
  if (rank < rows) {
    std::vector<std::string> redundant, undetermined, contradictory;
    const RankReport ranks = rank_report();
    for (const int i : ranks.redundant) redundant.push_back(reactions_[z(i)].name);
    for (const int i : ranks.undetermined) undetermined.push_back(reactions_[z(i)].name);
    for (const int i : ranks.contradictory) contradictory.push_back(reactions_[z(i)].name);
    if (!redundant.empty()) s << "\n  redundant: " << list(redundant);
    if (!undetermined.empty())
      s << "\n  undetermined loads (the equations leave them open; reported is the least-norm choice): "
        << list(undetermined);
    if (!contradictory.empty() && left_open.empty()) s << "\n  contradictory: " << list(contradictory);
  }
  s << "\n  solves " << counts_.solves << ", Newton " << counts_.newton << ", steps in halves " << counts_.substepped
    << " (" << counts_.substeps << " substeps), fallbacks " << counts_.fallbacks;
  if (counts_.stiffened)
    s << "\n  block steps with geometric stiffness, which damps: " << counts_.stiffened << " (work "
      << counts_.stiffness_work << " J)";
  if (counts_.damped)
    s << "\n  block steps damped, as contacts, limits or motors would have given energy from no source: "
      << counts_.damped << " (work " << counts_.damping_work << " J)";
  if (counts_.parts) {
    s << "\n  by stages in " << counts_.parts << " parts";
    if (counts_.parts_refused) s << ", another " << counts_.parts_refused << " taken again shorter";
    if (options_.stepping == Stepping::adaptive) s << ", to a tolerance of " << options_.tolerance;
  }
  if (counts_.stepped_down)
    s << "\n  block steps taken semi-implicitly, not by stages: " << counts_.stepped_down
      << " (the last: " << stepped_down_ << ")";
  if (counts_.released)
    s << "\n  one-sided constraints let go " << counts_.released << " times, held again " << counts_.engaged;
  if (counts_.mode_switches) s << "\n  contacts of laws that began to stick or to slide: " << counts_.mode_switches;
  order_laws();
  for (const std::string& difference : thrust_differences(law_works_)) s << "\n  " << difference;
  for (const LawWarning& warning : law_warnings_.all()) s << "\n  warning: " << told(warning);
  if (law_warnings_.full()) s << "\n  warning: laws had more to warn of than these " << LawWarnings::most;
  if (!books_.empty() && counts_.imbalance > 0)
    s << "\n  books, of the bodies and steps looked at, balance to " << counts_.imbalance << " of their largest entry";
  else if (!books_.empty())
    s << "\n  books, of the bodies and steps looked at, balance to the rounding of the velocities";
  if (counts_.activation_energy > 1e-3)
    s << "\n  largest jump in velocity that the constraints asked for at the start of a step: "
      << counts_.activation_energy << " J";
  if (counts_.gap_corrections)
    s << "\n  start gaps closed by moving bodies, without velocity: " << counts_.gap_corrections << " times, at most "
      << counts_.corrected << " m, " << counts_.turned << " rad";
  if (counts_.turned_back)
    s << "\n  joints turned far from where they are held: at most " << counts_.widest << " rad, " << widest_turned_
      << "; brought back by moving bodies in " << counts_.turned_back << " block steps";
  if (counts_.non_finite) s << "\n  non-finite numbers kept from the world: " << counts_.non_finite;
  if (broken) s << "\n  broken joints: " << broken;
  if (!trouble_.empty()) s << "\n  last trouble: " << trouble_;
  std::map<std::string, std::vector<std::string>> why;
  for (const Solver::Native& n : native()) why[n.why].push_back(n.name);
  for (const auto& [reason, names] : why)
    s << "\n  native: " << names.size() << " constraint" << (names.size() == 1 ? "" : "s") << " (" << list(names, 3)
      << "): " << reason;
  s << "\n";
  return s.str();
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
