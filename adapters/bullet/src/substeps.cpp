// A step of Bullet's that is too long for a block is taken in shorter ones inside it (T15): forces, and what host
// impulses hold against them, spread evenly, the rest of those at its start, each substep ending on the constraints and
// judged by its own swing and energy, as long as those allow. Bullet is then made to start from where its integrator
// will end at our end pose.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "energy_watch.h"

#include <algorithm>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Engine::copy_block(const BlockSolve& b, const State& from, State& to) const {
  to.bodies.resize(from.bodies.size());
  to.t = from.t;
  for (const BodyId id : b.touched) to[id] = from[id];
}

/// Applied force, host impulses but for their blows as a mean force, and the gyroscopic torque of the substep, for
/// bodies that have one.
/// @return whether the force depends on how long the substep is
bool Engine::spread_forces(BlockSolve& b, const State& at, double length) {
  const Block& block = b.block;
  bool turns = false;
  b.sub_gyroscopic.assign(b.v.size(), 0);
  b.part_turning.clear();
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot];
    put(b.Q_host, c, head(b.Q, c) + head(b.part_held, c));
    if (block.column[slot + 1] - c != 6) continue;
    Vector3d torque = loads_[z(id.index)].torque;
    if (b.gyroscopic[slot]) {
      const Vector3d I = system_.inertia(id).diagonal(),  // all that Bullet's bodies have
          mean = turns_far(at[id].w) ? Vector3d(b.part_turning.add(static_cast<int>(slot), at[id], I, length) / length)
                                     : mean_gyroscopic_torque(I, at[id], length);
      torque += mean;
      put(b.sub_gyroscopic, c + 3, torque - head(b.Q, c + 3));
      turns = turns || !mean.isZero();
    }
    put(b.Q_host, c + 3, torque + head(b.part_held, c + 3));
  }
  // One that turns by radians has none alone, but is turned with its joints: a try that is refused leaves that behind.
  return turns || !b.part_turning.empty();
}

// One substep from now to next with the factor that is there. @return whether it may stand.
bool Engine::try_substep(BlockSolve& b, Substep& s) {
  const linchpin::Solver& solver = b.dynamics->solver();
  const Assembly& assembly = b.dynamics->assembly();
  auto& [start, now, next, end_given, settled] = *b.states;
  copy_block(b, now, next);
  next.t = now.t + s.length;
  for (const BodyId id : b.touched)
    if (system_.kind(id) == BodyKind::driven) {
      next[id] = start[id];
      advance(next[id], start[id].v, start[id].w, s.done + s.length);
    }
  for (std::size_t j = 0; j < b.force.size(); ++j)
    b.force[j] = s.weight * b.Q_host[j] + s.length * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]);
  for (std::size_t j = 0; s.done == 0 && j < b.force.size(); ++j) b.force[j] += b.part_blow[j];
  solver.inverse_mass(b.force, b.dv);
  for (std::size_t j = 0; j < b.sub_v.size(); ++j) b.sub_v[j] = assembly.v[j] + b.dv[j];
  std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
  std::fill(b.force.begin(), b.force.end(), 0.0);
  if (!finite(b.sub_v)) return false;
  constexpr double close = 1e-12;
  // What the last step left open among rows that are nearly dependent closes in the time of a step: in that of a short
  // substep it would take impulses that are the larger, the shorter it is. Not what steps of native rows have opened:
  // that is no velocity.
  b.left_open.clear();
  if (b.on_the_way)
    b.left_open.assign(assembly.position.begin(), assembly.position.end());
  else if (const double gap = largest(assembly.position); gap > close && gap <= options_.gap_tolerance)
    for (const double phi : assembly.position) b.left_open.push_back((1 - s.length / dt_) * phi);
  const NewtonReport newton = end_step(b, now, now, next, s.length, b.sub_v, b.part_turning, b.left_open);
  if (!newton.converged || !finite(b.sub_v) || turns_too_far(b, next, s.length)) return false;
  for (std::size_t i = 0; i < b.e.size(); ++i)
    b.e[i] = b.dynamics->lambda()[i] + b.dynamics->induced()[i] + b.lambda[i] / s.length;
  // Slower than half of what a substep may have, and the next may be twice as long.
  s.swing = fastest_swing(system_, *b.dynamics, now, b.e, 0.45 * options_.swing_limit / s.length) * s.length;
  if (s.swing > options_.swing_limit && !s.at_any_swing) return false;
  if (!b.follows) {
    const double gain = gain_of_constraints(b, s.length, assembly.v, b.sub_v), energy = kinetic(assembly, b.sub_v);
    if (!s.at_any_swing) {
      if (s.watched && s.gain + gain > std::max(s.allowed, allowed_gain * energy)) return false;
      if (gain > s.allowed + kinetic(assembly, assembly.v)) return false;  // however short: all there is once more
    }
    s.gain += gain;
  }
  b.unmet = contradicts(newton, s.length, options_.gap_tolerance);
  return true;
}

// Each record takes its share of an accepted substep from its own source.
void Engine::record_substep(BlockSolve& b, const Substep& s) {
  auto& [start, now, next, end_given, settled] = *b.states;
  const Assembly& assembly = b.dynamics->assembly();
  const Block& block = assembly.block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot];
    add(b.sub_momentum, c, system_.mass(id) * (head(b.sub_v, c) - head(assembly.v, c)));
    add(b.sub_applied, c, s.weight * head(b.Q, c));
    next[id].v = head(b.sub_v, c);
    if (block.column[slot + 1] - c != 6) continue;
    add(b.sub_momentum, c + 3, system_.world_inertia(id, now[id].q) * (head(b.sub_v, c + 3) - head(assembly.v, c + 3)));
    add(b.sub_applied, c + 3, s.weight * (head(b.Q, c + 3) + head(b.sub_gyroscopic, c + 3)));
    next[id].w = head(b.sub_v, c + 3);
  }
  b.part_turning.apply(block, b.sub_applied);
  record_host_part(b, s.weight);
  for (std::size_t row = 0; row < b.e.size(); ++row) {
    b.e[row] = s.length * (b.dynamics->lambda()[row] + b.dynamics->induced()[row]) + b.lambda[row];
    b.own_lambda[row] += b.e[row];
  }
  if (b.with_laws) {
    book_laws(b, now, s.length, assembly.v, b.sub_v);
    note_trouble(b);
  }
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
    for (int k = 0; k < static_cast<int>(system_.constraint(b.ids[i]).bodies().size()); ++k) {
      const Vector6 f = generalized_force(assembly, static_cast<int>(i), k, b.e);
      r.stabilisation.on(k).force += f.head<3>() / dt_;  // the sum so far; the reaction is taken off at the end
      r.stabilisation.on(k).moment += f.tail<3>() / dt_;
      // Where rows are nearly dependent, impulses of substeps are large and cancel: their sum says nothing of their
      // rounding.
      const int slot = block.slot(system_.constraint(b.ids[i]).bodies()[z(k)]);
      if (slot < 0) continue;
      const Vector6 newton = generalized_force(assembly, static_cast<int>(i), k, b.lambda);
      b.sub_gross[z(2 * slot)] = std::max({b.sub_gross[z(2 * slot)], f.head<3>().norm(), newton.head<3>().norm()});
      b.sub_gross[z(2 * slot + 1)] =
          std::max({b.sub_gross[z(2 * slot + 1)], f.tail<3>().norm(), newton.tail<3>().norm()});
    }
  }
  for (const Prescribed& law : b.dynamics->prescribed()) {  // what laws did, at this substep's state
    const auto bodies = system_.constraint(b.ids[z(law.constraint)]).bodies();
    Reaction& r = reactions_[z(records_[z(b.records[z(law.constraint)])].reaction)];
    for (int k = 0; k < std::min(2, static_cast<int>(bodies.size())); ++k) {
      const double share = (k == 0 ? s.length : -s.length) / dt_;
      const Wrench w = Wrench{law.force, law.moment, law.p_WQ}.about(now[bodies[z(k)]].p);
      r.stabilisation.on(k).force += share * w.force;
      if (system_.kind(bodies[z(k)]) != BodyKind::particle) r.stabilisation.on(k).moment += share * w.moment;
    }
  }
}

/// A step in parts: empty sums, from where it begins, and the problem of that kept for who asks.
void Engine::begin_parts(BlockSolve& b) {
  auto& [start, now, next, end_given, settled] = *b.states;
  const Block& block = b.block;
  for (auto* x : {&b.sub_v, &b.sub_applied, &b.sub_host, &b.sub_momentum}) x->assign(b.v.size(), 0);
  b.sub_gross.assign(2 * b.pool.size(), 0);
  std::fill(b.own_lambda.begin(), b.own_lambda.end(), 0.0);
  copy_block(b, base_, start);
  copy_block(b, end_, end_given);
  b.kept = b.dynamics->assembly().instant;
  b.has_kept = true;
  copy_block(b, start, now);
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    now[block.bodies[slot]].v = head(b.v0, block.column[slot]);
    if (block.column[slot + 1] - block.column[slot] == 6)
      now[block.bodies[slot]].w = head(b.v0, block.column[slot] + 3);
  }
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
    for (int k = 0; k < static_cast<int>(system_.constraint(b.ids[i]).bodies().size()); ++k)
      r.stabilisation.on(k) = Wrench{};
  }
}

/// What the parts did together, as a mean force, less what is reported of the step's start: the stabilisation.
void Engine::take_reported_off(BlockSolve& b) {
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
    const auto bodies = system_.constraint(b.ids[i]).bodies();
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const Vector3d p = r.ideal.on(k).point, com = state_[bodies[z(k)]].p;
      const Wrench total = Wrench{r.stabilisation.on(k).force, r.stabilisation.on(k).moment, com}.about(p);
      r.stabilisation.on(k) = total;
      for (const Wrenches* part : {&r.ideal, &r.induced, &r.prescribed}) {
        const Wrench reported = part->on(k).about(p);
        r.stabilisation.on(k).force -= reported.force;
        r.stabilisation.on(k).moment -= reported.moment;
      }
    }
  }
}

/// The first part of a step whose swing as a whole was ω·dt. That says about how short; no shorter than an eighth, for
/// it may be as wrong as the step was.
double Engine::first_part(double swing) const {
  if (!(swing > 0) || !std::isfinite(swing)) return 0.5 * dt_;
  return std::clamp(0.9 * options_.swing_limit / swing * dt_, 0.125 * dt_, 0.5 * dt_);
}

/// The shortest that is tried. A light link that a heavy load turns over as it snaps taut needs ones far shorter than a
/// step shared out evenly, and few of them.
double Engine::finest_part() const {
  constexpr int finer = 256;
  return dt_ / (finer * double(options_.max_substeps));
}

/// How many times as long as a substep that swung by ω·length the next may be.
double Engine::longer_by(double swing) const {
  return swing > 0 ? std::clamp(0.9 * options_.swing_limit / swing, 0.5, 2.0) : 2.0;
}

/// Of a step that stands in so many parts, of which `now` is the end, and their sums the block's where they are
/// recorded.
void Engine::end_parts(BlockSolve& b, const State& now, int taken, double last_length, double fastest, bool recorded) {
  b.substeps = taken;
  b.in_parts = true;
  b.last_length = last_length;
  b.swing = fastest;
  ++b.tally.substepped;
  b.tally.substeps += taken;
  if (recorded) {
    b.applied.swap(b.sub_applied);
    b.Q_host.swap(b.sub_momentum);  // kept for the books
  }
  b.write_pose = true;
  for (const BodyId id : b.block.bodies) {
    BodyState& from = base_[id];
    end_[id] = from = now[id];
    back_off(from.p, from.q, from.v, from.w, dt_);
  }
}

/// How many tries of parts, refused ones included, may be judged by their swing and gain. Later parts of a block that
/// native rows touch are as long as Newton allows, and what they gain is damped: a game cannot wait longer than a
/// frame.
/// @param price  of a try, over that of a plain one
int Engine::most_tries(const BlockSolve& b, double price) const {
  constexpr double dear = 6000;  // rows times tries
  constexpr int least = 16, no_limit = 1 << 28;
  return watches_energy(b) ? std::max(least, static_cast<int>(dear / (price * std::max(1, b.block.m())))) : no_limit;
}

bool Engine::substep_block(BlockSolve& b, double before) {
  auto& [start, now, next, end_given, settled] = *b.states;
  const Block& block = b.block;
  begin_parts(b);
  begin_host_parts(b);

  const double finest = finest_part();
  const bool watches = watches_energy(b);
  if (watches) begin_energy(b);
  constexpr double price = 8;
  const int most = most_tries(b, price);
  Substep s;
  s.before = before;
  s.allowed = watches ? may_gain(b) : gain_floor(b) + allowed_gain * kinetic(b.dynamics->assembly(), b.v0);
  s.length = first_part(b.swing);
  constexpr int dear = 10000, dearest = 200000;  // rows times substeps
  const int rows = block.m();
  // A taut bridge takes hundreds of substeps in every step, each factored by the reference, and a program that waits
  // seconds for each does not run at all.
  constexpr double most_by_reference = 2e7;  // m² n of dense factors in one step, a tenth of a second
  const double by_reference = double(rows) * rows * block.n();
  int taken = 0, tries = 0;
  double fastest = 0;
  bool factored = false, turns = false;
  while (s.done < dt_ * (1 - 1e-12) && taken < options_.max_substeps && tries < all_tries * most) {
    const double left = dt_ - s.done;
    s.at_any_swing = tries >= most;
    if (tries++ == most) s.length = left;
    s.length = left / std::ceil(left / s.length * (1 - 1e-9));  // no short one at the end
    // From the middle of the last (sub)step to the middle of this, as in finish_block.
    s.weight = b.native_rows ? s.length : 0.5 * (s.before + s.length);
    if (b.native_rows) set_host_part(b, now, s.done, s.length);
    if (!factored) {
      now.t = t_ + s.done;
      turns = spread_forces(b, now, s.weight);
      if (b.with_laws) b.dynamics->set_step(s.length);
      ++b.tally.factors;
      if (b.dynamics->evaluate(now, b.Q_host) == Status::invalid) break;
      factored = true;
      if (b.dynamics->solver().info().fallbacks > 0) b.by_reference += by_reference;
      if (b.by_reference > most_by_reference) {
        b.too_dear = true;
        break;
      }
    } else if (b.with_laws || turns || !b.held_rows.empty()) {
      // What friction, turning and rows do to the end of a step depends on its length.
      spread_forces(b, now, s.weight);
      if (b.with_laws) b.dynamics->set_step(s.length);
      if (b.dynamics->resolve(now, b.Q_host) == Status::invalid) break;
    }
    s.watched = s.length > 1.5 * dt_ / options_.max_substeps;
    // To rounding, or not at that price.
    if (taken * rows > (b.creeps ? dearest : dear) && !b.dynamics->solver().full_row_rank()) {
      b.too_dear = b.creeps;
      break;
    }
    const double gain = s.gain;
    if (!try_substep(b, s)) {
      if (s.length <= finest * (1 + 1e-9)) break;
      s.length = std::max(0.5 * s.length, finest);
      continue;
    }
    if (let_rows_go(b, b.sub_v, s.done == 0)) {
      s.gain = gain;
      continue;
    }
    if (watches) {
      const std::vector<double>& v = b.dynamics->assembly().v;
      const double constraints = s.gain - gain, of_rows = work_of_part(b, s.weight, s.done == 0, v, b.sub_v);
      s.gain = gain;
      if (drop_rows(b, constraints + of_rows, kinetic(b.dynamics->assembly(), v), s.allowed)) continue;
      settle_energy(b, constraints, of_rows, s.allowed, now, b.sub_v);
    }
    record_substep(b, s);
    if (b.with_laws) {
      b.dynamics->accept(s.length);
      b.lived += s.length;
    }
    ++taken;
    fastest = std::max(fastest, s.swing);
    s.done += s.length;
    s.before = s.length;
    copy_block(b, next, now);
    factored = false;
    s.length *= s.at_any_swing ? 2 : longer_by(s.swing);
  }
  if (s.done < dt_ * (1 - 1e-12)) {
    for (const BodyId id : block.bodies) {  // nothing else of the block was changed
      base_[id] = start[id];
      end_[id] = end_given[id];
    }
    b.substeps = taken;  // and for nothing
    forget_law_works(b);
    return false;
  }

  b.v.swap(b.sub_v);
  end_parts(b, now, taken, s.before, fastest, true);
  end_host_parts(b);
  if (watches) count_damping(b);
  take_reported_off(b);
  return true;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
