// A step of Bullet's by the stages of a Runge–Kutta–Munthe-Kaas method (T13): from Bullet's state at its start to the
// constraints at its end, in parts where one would be too long (T15). Bullet goes there with the mean velocity.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "energy_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

/// rk4 is stable up to ω·dt = 2√2 where the semi-implicit step is up to 2, and damps what swings near that instead of
/// feeding it: it may come nearer. Whether a part was short enough for its motion is seen from how far off it ends.
constexpr double swing_factor = 2.4;

/// What a part aims at, of that.
constexpr double swing_margin = 0.9;

/// By how much of itself a part's motion and velocities may be off the constraints before they are projected: more is
/// no error of a smooth motion, but of one that is over before a stage has seen it.
constexpr double most_off = 0.02;

/// Smooth laws are explicit in the stages of rk4, and drive what they should damp where rate · length is far beyond 1.
constexpr double law_limit = 1;

/// Where a driven body is some time after the step's start: Bullet shows where it will be at the end, and by its mean
/// velocities in this step and the last one the motion through those poses bends so much. One that starts, stops or
/// turns round is no such motion: it goes straight.
void follow(const BodyState& start, double dt, double time, BodyState& at) {
  const auto bend = [&](const Vector3d& mean, const Vector3d& rate) -> Vector3d {
    return dt * rate.norm() < 0.5 * mean.norm() ? rate : Vector3d::Zero();
  };
  const Vector3d a = bend(start.v, start.a), alpha = bend(start.w, start.alpha);
  const Vector3d v = start.v - 0.5 * dt * a, w = start.w - 0.5 * dt * alpha;
  at = start;
  advance(at, v + 0.5 * time * a, w + 0.5 * time * alpha, time);
  at.v = v + time * a;
  at.w = w + time * alpha;
  at.a = a;
  at.alpha = alpha;
}

}  // namespace

// Bullet's rows were solved for v₁ that end a step X₀ ⊕ dt·v₁: no other way to its end meets them.
const char* Engine::why_no_stages(const BlockSolve& b) const {
  if (b.with_laws)
    for (const ConstraintId id : b.ids)
      for (const Law& law : laws(system_, id))
        for (const Law::Term& term : law.terms()) {
          if (term.holding) return "laws of dry friction act in the block";
          if (term.advance) return "laws with a memory act in the block";
        }
  if (b.native_rows && (b.pushed || std::any_of(b.host.begin(), b.host.end(), [](double p) { return p != 0; })))
    return b.in_contact ? "contacts or other rows of Bullet's act on the block"
                        : "limits, motors or other rows of Bullet's act on the block";
  if (b.on_the_way) return "a joint is on its way from where it was turned away";
  return nullptr;
}

/// Reactions and books are told as stages go, rather than by taking the step again for who asks.
bool Engine::records_stages(const BlockSolve& b) const { return b.wants_all || b.breaks || b.of_users || b.remembers; }

/// Nobody but stages needs the acceleration at the step's start, and they find it as that of any stage.
bool Engine::stages_answer(const BlockSolve& b) const {
  return options_.stepping != Stepping::semi_implicit && options_.mode == Mode::exact && !records_stages(b) &&
         !why_no_stages(b);
}

void Engine::place_driven(const BlockSolve& b, double done, State& at) const {
  for (const BodyId id : b.outside)
    if (system_.kind(id) == BodyKind::driven) follow(b.states->start[id], dt_, done, at[id]);
}

/// Bullet's forces, and the gyroscopic torque −ω × Iω where the bodies are assembled, with the I that is there.
void Engine::forces_at_stage(BlockSolve& b) {
  const Assembly& assembly = b.dynamics->assembly();
  const double* M = assembly.instant.mass.data();
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const std::size_t size = z(assembly.instant.block_sizes[slot]);
    const Load& load = loads_[z(assembly.block.bodies[slot].index)];
    put(b.Q_host, assembly.block.column[slot], load.force);
    if (size == 6) put(b.Q_host, assembly.block.column[slot] + 3, load.torque);
    if (b.gyroscopic[slot]) {
      const int c = assembly.block.column[slot] + 3;
      const Vector3d w = head(assembly.v, c);
      const Eigen::Map<const Matrix3d, 0, Eigen::OuterStride<6>> I(M + 3 * size + 3);
      add(b.Q_host, c, -w.cross(I * w));
    }
    M += size * size;
  }
}

/// The works that laws have done in the parts that stand.
void Engine::keep_law_works(BlockSolve& b) {
  order_laws();
  b.law_last.clear();
  for (const int i : b.records)
    for (int k = 0; k < records_[z(i)].law_count; ++k)
      b.law_last.push_back(law_works_[z(records_[z(i)].first_law + k)].last);
}

/// What a part has summed so far is another's, or of no part that stands.
void Engine::clear_part(BlockSolve& b) {
  for (auto* x : {&b.part_lambda, &b.part_work}) std::fill(x->begin(), x->end(), 0.0);
  std::size_t at = 0;
  if (b.with_laws)
    for (const int i : b.records)
      for (int k = 0; k < records_[z(i)].law_count; ++k)
        law_works_[z(records_[z(i)].first_law + k)].last = b.law_last[at++];
  if (!b.recorded) return;
  for (auto* x : {&b.part_momentum, &b.part_applied}) std::fill(x->begin(), x->end(), 0.0);
  std::fill(b.part_wrenches.begin(), b.part_wrenches.end(), Vector6::Zero());
}

/// Of the constraints at the problem that is factored, `weight` times their multipliers and the change of velocity, in
/// the sums that become reactions and books.
void Engine::record_impulse(BlockSolve& b, double weight, std::span<const double> lambda, std::span<const double> dv) {
  const Assembly& assembly = b.dynamics->assembly();
  const double* M = assembly.instant.mass.data();
  std::size_t c = 0;
  for (const int size : assembly.instant.block_sizes) {
    const std::size_t n = z(size);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += M[i * n + k] * dv[c + k];
      b.part_momentum[c + i] += weight * sum;
    }
    M += n * n;
    c += n;
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < b.ids.size(); ++i)
    for (std::size_t k = 0; k < system_.constraint(b.ids[i]).bodies().size(); ++k)
      b.part_wrenches[at++] += weight * generalized_force(assembly, static_cast<int>(i), static_cast<int>(k), lambda);
}

/// A stage's part in them, and what laws prescribe there.
void Engine::record_stage(BlockSolve& b, const State& at, double weight) {
  record_impulse(b, weight, b.stages.lambda(), b.stages.vdot());
  for (std::size_t j = 0; j < b.part_applied.size(); ++j) b.part_applied[j] += weight * b.Q_host[j];
  if (!b.with_laws) return;
  book_laws(b, at, weight, b.stages.v(), b.stages.v(), b.part_work);
  std::size_t first = 0;
  int constraint = 0;
  for (const Prescribed& law : b.dynamics->prescribed()) {
    for (; constraint < law.constraint; ++constraint) first += system_.constraint(b.ids[z(constraint)]).bodies().size();
    const auto bodies = system_.constraint(b.ids[z(constraint)]).bodies();
    for (std::size_t k = 0; k < std::min<std::size_t>(2, bodies.size()); ++k) {
      const double share = k == 0 ? weight : -weight;
      const Wrench w = Wrench{law.force, law.moment, law.p_WQ}.about(at[bodies[k]].p);
      b.part_wrenches[first + k].head<3>() += share * w.force;
      if (system_.kind(bodies[k]) != BodyKind::particle) b.part_wrenches[first + k].tail<3>() += share * w.moment;
    }
  }
}

/// What has been recorded belongs to the step.
void Engine::stand(BlockSolve& b) {
  for (std::size_t i = 0; i < b.own_lambda.size(); ++i) b.own_lambda[i] += b.part_lambda[i];
  if (b.with_laws) {
    keep_law_works(b);
    note_trouble(b);
  }
  if (!b.recorded) return;
  const Block& block = b.block;
  for (std::size_t j = 0; j < b.sub_momentum.size(); ++j) {
    b.sub_momentum[j] += b.part_momentum[j];
    b.sub_applied[j] += b.part_applied[j];
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
    const auto bodies = system_.constraint(b.ids[i]).bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const Vector6& p = b.part_wrenches[at++];
      Wrench& sum = r.stabilisation.on(static_cast<int>(k));  // until the reported is taken off
      sum.force += p.head<3>() / dt_;
      sum.moment += p.tail<3>() / dt_;
      if (const int slot = block.slot(bodies[k]); slot >= 0) {
        double* gross = &b.sub_gross[z(2 * slot)];
        gross[0] = std::max(gross[0], p.head<3>().norm());
        gross[1] = std::max(gross[1], p.tail<3>().norm());
      }
    }
  }
}

/// Velocities that the constraints do not allow are no start for a smooth motion: an impulse takes them away (T14). Off
/// by rounding in steps that follow each other; by O(dt) after semi-implicit ones; by anything where the program has
/// thrown a body or switched a constraint on.
bool Engine::start_on_velocities(BlockSolve& b) {
  const Assembly& assembly = b.dynamics->assembly();
  const Block& block = assembly.block;
  State& now = b.states->now;
  const double off = largest(assembly.velocity), size = largest(assembly.v);
  if (!(off > 64 * std::numeric_limits<double>::epsilon() * size)) return true;
  for (std::size_t i = 0; i < b.ids.size(); ++i) {
    const bool says = system_.constraint(b.ids[i]).function().level() != Level::acceleration;
    for (int r = block.row[i]; r < block.row[i + 1]; ++r) b.e[z(r)] = says ? -assembly.velocity[z(r)] : 0.0;
  }
  b.dynamics->solver().apply(b.e, b.lambda, {}, b.dv);
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    BodyState& body = now[block.bodies[slot]];
    body.v += head(b.dv, block.column[slot]);
    if (block.column[slot + 1] - block.column[slot] == 6) body.w += head(b.dv, block.column[slot] + 3);
  }
  clear_part(b);
  std::copy(b.lambda.begin(), b.lambda.end(), b.part_lambda.begin());
  if (b.recorded) record_impulse(b, 1, b.lambda, b.dv);
  stand(b);
  // What velocities do to the accelerations changes with them: not worth a look while it is rounding.
  constexpr double rounding = 1e-6;
  return off <= rounding * size || answer(b, now);
}

/// The problem at a state, and with laws its answer. @return whether there is one
bool Engine::answer(BlockSolve& b, const State& at) {
  ++b.tally.factors;
  if (b.dynamics->factor(at) == Status::invalid) return false;
  forces_at_stage(b);
  return !b.with_laws || b.dynamics->resolve(at, b.Q_host) != Status::invalid;
}

/// @return whether even the shortest part is too long for the laws of the last stage. Parts of the pair find that by
/// their error.
bool Engine::laws_too_stiff(const BlockSolve& b) const {
  return options_.stepping == Stepping::rk4 && b.with_laws &&
         b.dynamics->law_report().rate * dt_ / options_.max_substeps > law_limit;
}

/// The stage placed last, whose problem is there.
bool Engine::solve_stage(BlockSolve& b) {
  if (!b.with_laws) return b.stages.solve(*b.dynamics, b.Q_host);
  b.stages.take(*b.dynamics);
  return true;
}

// One part from `now`, whose problem is there, to `settled`. @return whether it may stand.
// @param carried  its first stage was the last one of the part before
bool Engine::try_stages(BlockSolve& b, double done, double length, bool carried) {
  auto& [start, now, next, end_given, settled] = *b.states;
  Dynamics& dynamics = *b.dynamics;
  const bool adaptive = options_.stepping == Stepping::adaptive;
  b.part_error = std::numeric_limits<double>::infinity();
  clear_part(b);
  b.stages.begin(dynamics, adaptive ? Method::adaptive : Method::rk4, now, length);
  if (carried)
    b.stages.go_on();
  else if (!solve_stage(b))
    return false;
  for (const State* at = &now;; at = &next) {
    if (!adaptive && b.with_laws) {
      dynamics.find_rate(*at, law_limit / length);
      if (dynamics.law_report().rate * length > law_limit) return false;
    }
    if (const double weight = b.stages.weight(); weight != 0) {
      const auto lambda = b.stages.lambda();
      std::span<const double> rate = dynamics.assembly().velocity;  // of each row; what others move is theirs
      if (b.with_driven || b.of_users) {
        velocity_of_rows(b, dynamics.assembly().v, b.e);
        rate = b.e;
      }
      for (std::size_t r = 0; r < lambda.size(); ++r) {
        b.part_lambda[r] += weight * lambda[r];
        b.part_work[r] += weight * lambda[r] * rate[r];
      }
      if (b.recorded) record_stage(b, *at, weight);
    }
    const bool inside = b.stages.place(next);
    place_driven(b, done + (next.t - now.t), next);
    if (!inside) break;
    if (!answer(b, next) || !solve_stage(b)) return false;
  }
  std::copy(b.stages.v().begin(), b.stages.v().end(), b.sub_v.begin());
  if (!finite(b.sub_v)) return false;
  if (!adaptive && swings_too_far(b, next, length)) return false;
  copy_block(b, next, settled);
  if (options_.drift_correction && !end_part(b, length)) return false;
  if (!adaptive) return true;

  b.stages.arrive(next, settled, b.sub_v);
  if (!answer(b, settled) || !solve_stage(b)) return false;
  b.part_error = b.stages.error(settled, options_.tolerance, options_.tolerance);
  return b.part_error <= 1;
}

/// ω·dt of T15 for the mean of the multipliers of a part that ends at `end`, and whether it is too much. A bound on it
/// will do for a whole step that may be followed by another.
bool Engine::swings_too_far(BlockSolve& b, const State& end, double length) {
  for (std::size_t r = 0; r < b.e.size(); ++r) b.e[r] = b.part_lambda[r] / length;
  const double enough = length < dt_ ? 0 : swing_margin * swing_factor * options_.swing_limit / length;
  b.swing = fastest_swing(system_, *b.dynamics, end, b.e, enough) * length;
  return !(b.swing <= swing_factor * options_.swing_limit);
}

/// Projects the part's end, at `next`, to `settled`. @return whether it was near enough
bool Engine::end_part(BlockSolve& b, double length) {
  auto& [start, now, next, end_given, settled] = *b.states;
  Dynamics& dynamics = *b.dynamics;
  double extent = 0;  // poses far out are no better than their own rounding
  for (const BodyId id : dynamics.assembly().block.bodies) extent = std::max(extent, next[id].p.cwiseAbs().maxCoeff());
  const double tolerance = std::max(options_.newton_tolerance, 4 * std::numeric_limits<double>::epsilon() * extent);
  const ProjectionReport end =
      settle(system_, dynamics, next, settled, b.sub_v, b.lambda, tolerance, options_.max_newton);
  b.newton += end.solves;
  b.tally.newton += end.solves;
  const double size = largest(b.sub_v);
  if (!end.converged || turns_too_far(b, settled, length)) return false;
  if (end.moved > std::max(most_off * length * size, options_.gap_tolerance)) return false;
  if (end.changed > std::max(most_off * size, options_.gap_tolerance / length)) return false;
  b.unmet = end.least_squares && std::sqrt(3.0) * end.residual > options_.gap_tolerance;
  for (std::size_t r = 0; r < b.lambda.size(); ++r) b.part_lambda[r] += b.lambda[r];
  if (b.recorded) {
    for (std::size_t j = 0; j < b.dv.size(); ++j) b.dv[j] = b.sub_v[j] - b.stages.v()[j];
    record_impulse(b, 1, b.lambda, b.dv);
  }
  return true;
}

// @param again  for who asks later what the step did: the same once more, with records
bool Engine::take_by_stages(BlockSolve& b, bool again) {
  const Block& block = b.block;
  const std::size_t n = z(block.n()), m = z(block.m());
  auto& [start, now, next, end_given, settled] = *(again ? b.states = substep_states_[0].get() : b.states);
  b.recorded = again || records_stages(b);
  const bool adaptive = options_.stepping == Stepping::adaptive;
  bool known = b.moved == 0 && !b.with_driven;  // the problem at `now`
  bool carried = false;                         // and its answer
  if (again) {
    if (b.dynamics->evaluate(state_, b.Q) == Status::invalid) return false;
  } else {
    if (b.with_laws) {  // as they are at each instant
      b.dynamics->set_step(0);
      b.dynamics->ask_rates(!adaptive);
      if (b.dynamics->resolve(state_, b.Q) == Status::invalid) return false;
      keep_law_works(b);
    }
    b.first_part = b.next_part > 0 ? b.next_part : dt_;
  }
  for (auto* x : {&b.part_lambda, &b.part_work, &b.sub_work}) x->assign(m, 0.0);
  if (b.recorded) {
    keep_reactions(b);
    begin_parts(b);
    for (auto* x : {&b.part_momentum, &b.part_applied}) x->assign(n, 0.0);
    std::size_t count = 0;
    for (const ConstraintId id : b.ids) count += system_.constraint(id).bodies().size();
    b.part_wrenches.assign(count, Vector6::Zero());
  } else {
    b.sub_v.resize(n);
    std::fill(b.own_lambda.begin(), b.own_lambda.end(), 0.0);
    copy_block(b, base_, start);
    copy_block(b, start, now);
  }
  copy_block(b, now, next);
  copy_block(b, now, settled);
  const double finest = dt_ / options_.max_substeps, aim = swing_margin * swing_factor * options_.swing_limit;
  // How long a part may be, were it not for the end of the step: to begin with as the last step would have gone on.
  double done = 0, wish = b.first_part, fastest = 0;
  int taken = 0, refused = 0;
  bool shortened = false;
  forces_at_stage(b);
  while (done < dt_ * (1 - 1e-12)) {
    const double left = dt_ - done;
    const double length = left / std::ceil(left / wish * (1 - 1e-9));  // no short one at the end
    if (!known) {
      now.t = t_ + done;
      place_driven(b, done, now);
      if (!answer(b, now)) return false;
    }
    if (taken == 0 && options_.drift_correction && !start_on_velocities(b)) return false;
    if (!try_stages(b, done, length, carried)) {
      ++refused;
      if (length <= finest * (1 + 1e-9) || laws_too_stiff(b)) {
        b.tally.parts_refused += refused;
        b.next_part = 0;
        clear_part(b);
        return false;
      }
      const bool told = adaptive && std::isfinite(b.part_error);
      wish = length * (told ? std::clamp(0.9 * std::pow(b.part_error, -0.2), 0.1, 0.9) : adaptive ? 0.25 : 0.5);
      if (const double rate = adaptive || !b.with_laws ? 0 : b.dynamics->law_report().rate; rate * length > law_limit)
        wish = std::min(wish, 0.9 * law_limit / rate);
      wish = std::max(wish, finest);
      shortened = true;
      known = carried = false;
      continue;
    }
    stand(b);
    if (b.with_laws) b.dynamics->accept(length);
    for (std::size_t r = 0; r < m; ++r) b.sub_work[r] += b.part_work[r];
    ++taken;
    done += length;
    std::swap(now, settled);
    if (adaptive) {
      known = carried = true;
      const double next_wish =
          length * std::clamp(0.9 * std::pow(std::max(b.part_error, 1e-10), -0.2), 0.2, shortened ? 1.0 : 5.0);
      wish = length < wish && !shortened ? std::max(wish, next_wish) : next_wish;  // cut by the step's end alone
    } else {
      known = false;
      fastest = std::max(fastest, b.swing);
      wish = length * (b.swing > 0 ? std::clamp(aim / b.swing, 0.5, 2.0) : 2.0);
    }
    shortened = false;
  }
  if (!again) b.next_part = wish;
  b.tally.parts += taken;
  b.tally.parts_refused += refused;
  b.in_parts = b.by_stages = b.end_after = true;
  b.substeps = taken;
  b.last_length = 0;  // the velocity is that of the step's end
  b.added_steps = 0;
  b.swing = fastest;
  b.v.swap(b.sub_v);
  for (const BodyId id : block.bodies) end_[id] = now[id];
  if (taken > 1) {
    ++b.tally.substepped;
    b.tally.substeps += taken;
  }
  if (b.recorded) {
    b.applied.swap(b.sub_applied);
    b.host.swap(b.sub_host);
    b.Q_host.swap(b.sub_momentum);  // kept for the books
    take_reported_off(b);
  }
  if (again) {
    b.tally = {};
  } else {
    for (std::size_t r = 0; r < m; ++r) b.work[r] += b.sub_work[r];
  }
  return true;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
