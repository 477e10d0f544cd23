#include "host/staged_integrator.h"

#include "host/body_vectors.h"
#include "host/general_island_solver.h"
#include "host/island_watch.h"
#include "host/reactions.h"
#include "host/step_acceptance.h"
#include "host/substep_records.h"
#include "host/substepper.h"
#include "host/tuning.h"
#include "math/tuning.h"
#include "problem/jacobian_products.h"

#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::host {

namespace {

/// Places a kinematic body some time after the step's start. The host shows its pose at the end. Its mean velocities in
/// this step and in the last one give the acceleration of the motion through those poses. A body that starts, stops or
/// turns round has no such motion: it goes straight.
void place_on_path(const BodyState& start, double dt, double time, BodyState& at) {
  const auto bend = [&](const Vector3d& mean, const Vector3d& rate) -> Vector3d {
    return dt * rate.norm() < tuning::max_kinematic_bend * mean.norm() ? rate : Vector3d::Zero();
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

/// Returns whether reactions and balances are summed during the stages, rather than by repeating the step when they are
/// read.
bool keeps_records(const Island& b) {
  return b.has(Trait::laws) || b.has(Trait::forces_read) || b.has(Trait::breakable) || b.has(Trait::user_constraint) ||
         b.has(Trait::state);
}

class StagedSubstep final : public SubstepMethod {
 public:
  StagedSubstep(Context& c, Island& b, SubstepStates& states, bool problem_is_known)
      : c_(c), b_(b), states_(states), dynamics_(*b.dynamics), problem_is_known_(problem_is_known) {}

  Acceptance attempt(Substep& s) override {
    if (!problem_is_known_) {
      states_.now.t = c_.t + s.done;
      place_kinematic(s.done, states_.now);
      if (!evaluate(states_.now)) return Acceptance::impossible;
    }
    if (s.taken == 0 && c_.options.drift_correction && !start_on_velocities()) return Acceptance::impossible;
    if (integrate(s)) return Acceptance::accepted;
    ++refused_;
    if (laws_are_too_stiff(c_, b_)) return Acceptance::impossible;
    was_shortened_ = true;
    problem_is_known_ = first_stage_is_known_ = false;
    return Acceptance::too_long;
  }

  double shorter(const Substep& s) override {
    const bool error_is_known = is_adaptive() && std::isfinite(b_.step.substep_error);
    double wish = s.length * (error_is_known  ? std::clamp(tuning::stage_safety * std::pow(b_.step.substep_error, -0.2),
                                                           tuning::min_shortening, tuning::max_shortening)
                              : is_adaptive() ? tuning::unknown_shortening
                                              : tuning::rk4_shortening);
    if (const double rate = is_adaptive() || !has_laws() ? 0 : dynamics_.law_report().rate;
        rate * s.length > tuning::max_law_rate)
      wish = std::min(wish, tuning::stage_safety * tuning::max_law_rate / rate);
    return wish;
  }

  void accept(const Substep& s) override {
    commit();
    work_of_step_ += source_work_;
    if (has_laws()) dynamics_.accept(s.length);
    for (std::size_t r = 0; r < b_.sums.work.size(); ++r) b_.sums.work[r] += b_.sums.h_work[r];
    std::swap(states_.now, states_.projected);
    problem_is_known_ = first_stage_is_known_ = is_adaptive();
    if (!is_adaptive()) largest_omega_dt_ = std::max(largest_omega_dt_, b_.step.omega_dt);
  }

  double next(const Substep& s) override {
    const bool was_shortened = std::exchange(was_shortened_, false);
    if (!is_adaptive()) {
      const double aim = tuning::rk4_omega_margin * tuning::rk4_omega_factor * c_.options.max_tension_frequency,
                   now = b_.step.omega_dt;
      return s.length * (now > 0 ? std::clamp(aim / now, tuning::min_growth, tuning::max_growth) : tuning::max_growth);
    }
    const double wish =
        s.length *
        std::clamp(tuning::stage_safety * std::pow(std::max(b_.step.substep_error, tuning::min_stage_error), -0.2),
                   tuning::min_stage_growth, was_shortened ? 1.0 : tuning::max_stage_growth);
    return s.length < s.desired_length && !was_shortened ? std::max(s.desired_length, wish)
                                                         : wish;  // only the end of the step has shortened it
  }

  int refused() const { return refused_; }
  double largest_omega_dt() const { return largest_omega_dt_; }
  /// Work of applied forces and of constraints that move, in the accepted substeps [J].
  double work_of_sources() const { return work_of_step_; }

  /// Clears the sums of a substep that is not accepted.
  void clear() {
    SubstepSums& sums = b_.sums;
    for (auto* x : {&sums.h_multipliers, &sums.h_work}) std::fill(x->begin(), x->end(), 0.0);
    source_work_ = 0;
    std::size_t at = 0;
    if (has_laws())
      for (const int i : b_.topology.entries)
        for (LawWork& law : c_.laws.of(c_.constraints[i])) law.last = sums.law_last[at++];
    if (!b_.step.keeps_records) return;
    for (auto* x : {&sums.h_momentum, &sums.h_applied}) std::fill(x->begin(), x->end(), 0.0);
    std::fill(sums.h_wrenches.begin(), sums.h_wrenches.end(), Vector6::Zero());
  }

  /// Stores the work of laws in the accepted substeps.
  void store_law_works() {
    (void)c_.laws.all(c_.constraints);  // in their order
    b_.sums.law_last.clear();
    for (const int i : b_.topology.entries)
      for (const LawWork& law : c_.laws.of(c_.constraints[i])) b_.sums.law_last.push_back(law.last);
  }

  /// Sums the host's forces, and the gyroscopic torque −ω × Iω where the bodies are assembled.
  void find_forces() {
    const Assembly& assembly = dynamics_.assembly();
    const double* M = assembly.problem.mass.data();
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const std::size_t size = z(assembly.problem.block_sizes[slot]);
      const int column = assembly.layout.column[slot];
      const Load& load = c_.bodies.load(assembly.layout.bodies[slot]);
      put(b_.x.Q_total, column, load.force);
      if (size == 6) put(b_.x.Q_total, column + 3, load.torque);
      if (b_.gyroscopics.active[slot]) {
        const Vector3d w = head(assembly.v, column + 3);
        const Eigen::Map<const Matrix3d, 0, Eigen::OuterStride<6>> I(M + 3 * size + 3);
        add(b_.x.Q_total, column + 3, -w.cross(I * w));
      }
      M += size * size;
    }
  }

 private:
  bool is_adaptive() const { return c_.options.stepping == Stepping::adaptive; }
  bool has_laws() const { return b_.has(Trait::laws); }

  void place_kinematic(double done, State& at) const {
    for (const BodyId id : b_.topology.boundary)
      if (c_.system.kind(id) == BodyKind::kinematic) place_on_path(states_.start[id], c_.dt, done, at[id]);
  }

  /// Evaluates the problem at a state, and with laws its forces. @return whether it has a solution
  bool evaluate(const State& at) {
    ++b_.stats.factorizations;
    if (dynamics_.factor(at) == Status::invalid) return false;
    find_forces();
    return !has_laws() || dynamics_.resolve(at, b_.x.Q_total) != Status::invalid;
  }

  /// Solves the stage that was placed last, whose problem is evaluated.
  bool solve_stage() {
    if (!has_laws()) return b_.stages.solve(dynamics_, b_.x.Q_total);
    b_.stages.store(dynamics_);
    return true;
  }

  // Removes velocities that the constraints do not allow by an impulse (T14), because a smooth motion cannot start with
  // them. They are off by rounding in steps that follow each other, and by O(dt) after semi-implicit steps. They may be
  // off by any amount where the program has thrown a body or switched a constraint on.
  bool start_on_velocities() {
    const Assembly& assembly = dynamics_.assembly();
    const IslandLayout& layout = assembly.layout;
    const double off = largest(assembly.velocity), size = largest(assembly.v);
    if (!(off > linchpin::detail::tuning::velocity_rounding * size)) return true;
    for (std::size_t i = 0; i < b_.topology.ids.size(); ++i) {
      const bool has_rate = c_.system.constraint(b_.topology.ids[i]).function().level() != Level::acceleration;
      for (int r = layout.row[i]; r < layout.row[i + 1]; ++r)
        b_.x.row[z(r)] = has_rate ? -assembly.velocity[z(r)] : 0.0;
    }
    dynamics_.solver().apply(b_.x.row, b_.x.newton, {}, b_.x.dv);
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      BodyState& body = states_.now[layout.bodies[slot]];
      body.v += head(b_.x.dv, layout.column[slot]);
      if (turns(layout, slot)) body.w += head(b_.x.dv, layout.column[slot] + 3);
    }
    clear();
    std::copy(b_.x.newton.begin(), b_.x.newton.end(), b_.sums.h_multipliers.begin());
    if (b_.step.keeps_records) record_impulse(1, b_.x.newton, b_.x.dv);
    commit();
    // Accelerations change with the velocities. While the change is rounding they are not evaluated again.
    return off <= tuning::small_start_impulse * size || evaluate(states_.now);
  }

  /// Takes one substep from `now`, whose problem is evaluated, to `projected`.
  /// @return whether it may be accepted
  bool integrate(const Substep& s) {
    b_.step.substep_error = std::numeric_limits<double>::infinity();
    clear();
    b_.stages.begin(dynamics_, is_adaptive() ? Method::adaptive : Method::rk4, states_.now, s.length);
    if (first_stage_is_known_)
      b_.stages.continue_from_last();
    else if (!solve_stage())
      return false;
    if (!run_stages(s)) return false;
    std::copy(b_.stages.v().begin(), b_.stages.v().end(), b_.sums.v.begin());
    if (!finite(b_.sums.v)) return false;
    if (!is_adaptive() && swings_too_far(s.length)) return false;
    copy_island(b_, states_.next, states_.projected);
    if (c_.options.drift_correction && !project(s.length)) return false;
    if (!is_adaptive()) return true;

    b_.stages.set_projected_end(states_.next, states_.projected, b_.sums.v);
    if (!evaluate(states_.projected) || !solve_stage()) return false;
    b_.step.substep_error = b_.stages.error(states_.projected, c_.options.tolerance, c_.options.tolerance);
    return b_.step.substep_error <= 1;
  }

  bool run_stages(const Substep& s) {
    State& next = states_.next;
    for (const State* at = &states_.now;; at = &next) {
      if (!is_adaptive() && has_laws()) {
        dynamics_.find_rate(*at, tuning::max_law_rate / s.length);
        if (dynamics_.law_report().rate * s.length > tuning::max_law_rate) return false;
      }
      if (const double weight = b_.stages.weight(); weight != 0) add_stage(*at, weight);
      const bool inside = b_.stages.next_stage(next);
      place_kinematic(s.done + (next.t - states_.now.t), next);
      if (!inside) return true;
      if (!evaluate(next) || !solve_stage()) return false;
    }
  }

  void add_stage(const State& at, double weight) {
    const auto lambda = b_.stages.lambda();
    add_power_of_sources(weight);
    std::span<const double> rate = dynamics_.assembly().velocity;
    if (b_.has(Trait::kinematic_body) ||
        b_.has(Trait::user_constraint)) {  // work of motions that are given is not counted here
      row_velocities(dynamics_.assembly(), dynamics_.assembly().v, b_.x.row);
      rate = b_.x.row;
    }
    for (std::size_t r = 0; r < lambda.size(); ++r) {
      b_.sums.h_multipliers[r] += weight * lambda[r];
      b_.sums.h_work[r] += weight * lambda[r] * rate[r];
    }
    if (!b_.step.keeps_records) return;
    record_impulse(weight, b_.stages.lambda(), b_.stages.vdot());
    for (std::size_t j = 0; j < b_.sums.h_applied.size(); ++j) b_.sums.h_applied[j] += weight * b_.x.Q_total[j];
    if (!has_laws()) return;
    c_.laws.book(c_.system, c_.constraints, b_.topology.entries, dynamics_, at, weight, b_.stages.v(), b_.stages.v(),
                 b_.sums.h_work);
    add_prescribed(c_, b_, at, weight, 1, b_.sums.h_wrenches);
  }

  /// Adds the work of applied forces, without gyroscopic torques, and of constraints that move.
  void add_power_of_sources(double weight) {
    const std::vector<double>& v = dynamics_.assembly().v;
    double power = 0;
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const int column = b_.layout().column[slot];
      const Load& load = c_.bodies.load(b_.layout().bodies[slot]);
      power += load.force.dot(head(v, column));
      if (turns(b_.layout(), slot)) power += load.torque.dot(head(v, column + 3));
    }
    source_work_ += weight * (power + power_of_moving(c_, b_, b_.stages.lambda()));
  }

  /// Adds `weight` times the multipliers of the problem that is factored, and the change of momentum.
  void record_impulse(double weight, std::span<const double> lambda, std::span<const double> dv) {
    const Assembly& assembly = dynamics_.assembly();
    const double* M = assembly.problem.mass.data();
    std::size_t column = 0;
    for (const int size : assembly.problem.block_sizes) {
      const std::size_t n = z(size);
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < n; ++k) sum += M[i * n + k] * dv[column + k];
        b_.sums.h_momentum[column + i] += weight * sum;
      }
      M += n * n;
      column += n;
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < b_.topology.ids.size(); ++i)
      for (std::size_t k = 0; k < c_.system.constraint(b_.topology.ids[i]).bodies().size(); ++k)
        b_.sums.h_wrenches[at++] +=
            weight * wrench_at_centre(assembly, static_cast<int>(i), static_cast<int>(k), lambda);
  }

  /// Adds the sums of an accepted substep to those of the step.
  void commit() {
    SubstepSums& sums = b_.sums;
    for (std::size_t i = 0; i < sums.multipliers.size(); ++i) sums.multipliers[i] += sums.h_multipliers[i];
    if (has_laws()) {
      store_law_works();
      note_law_trouble(b_);
    }
    if (!b_.step.keeps_records) return;
    for (std::size_t j = 0; j < sums.momentum.size(); ++j) {
      sums.momentum[j] += sums.h_momentum[j];
      sums.applied[j] += sums.h_applied[j];
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < b_.topology.ids.size(); ++i)
      for (const BodyId id : c_.system.constraint(b_.topology.ids[i]).bodies()) {
        const Vector6& p = sums.h_wrenches[at];
        sums.wrenches[at++] += p / c_.dt;
        note_largest_impulse(b_, b_.layout().body_index(id), p.head<3>().norm(), p.tail<3>().norm());
      }
  }

  /// Finds ω·dt of T15 for the mean multipliers of a substep. A bound on ω is enough for a whole step that may be
  /// followed by another.
  /// @return whether it is too large
  bool swings_too_far(double length) {
    for (std::size_t r = 0; r < b_.x.mean_force.size(); ++r) b_.x.mean_force[r] = b_.sums.h_multipliers[r] / length;
    const double limit = tuning::rk4_omega_factor * c_.options.max_tension_frequency;
    const double enough = length < c_.dt ? 0
                                         : tuning::rk4_omega_margin * tuning::rk4_omega_factor *
                                               c_.options.max_tension_frequency / length;
    b_.step.omega_dt = tension_frequency(c_.system, dynamics_, states_.next, b_.x.mean_force, enough) * length;
    return !(b_.step.omega_dt <= limit);
  }

  /// Projects the end of a substep to the constraints. @return whether it was near enough to them
  bool project(double length) {
    double extent = 0;  // poses far from the origin are no more exact than their own rounding
    for (const BodyId id : b_.layout().bodies) extent = std::max(extent, states_.next[id].p.cwiseAbs().maxCoeff());
    const double tolerance = std::max(c_.options.newton_tolerance, linchpin::detail::tuning::pose_rounding * extent);
    const ProjectionReport end = project_state(c_.system, dynamics_, states_.next, states_.projected, b_.sums.v,
                                               b_.x.newton, tolerance, c_.options.max_newton);
    b_.step.newton_solves += end.solves;
    b_.stats.newton_solves += end.solves;
    const double size = largest(b_.sums.v), gap = c_.options.gap_tolerance;
    if (!end.converged || gear_turns_too_far(c_, b_, states_.projected, length)) return false;
    if (end.moved > std::max(tuning::max_projection_share * length * size, gap)) return false;
    if (end.changed > std::max(tuning::max_projection_share * size, gap / length)) return false;
    b_.step.outcome.contradictory = end.least_squares && std::sqrt(3.0) * end.residual > gap;
    for (std::size_t r = 0; r < b_.x.newton.size(); ++r) b_.sums.h_multipliers[r] += b_.x.newton[r];
    if (!b_.step.keeps_records) return true;
    for (std::size_t j = 0; j < b_.x.dv.size(); ++j) b_.x.dv[j] = b_.sums.v[j] - b_.stages.v()[j];
    record_impulse(1, b_.x.newton, b_.x.dv);
    return true;
  }

  Context& c_;
  Island& b_;
  SubstepStates& states_;
  Dynamics& dynamics_;
  bool problem_is_known_;              // at `now`
  bool first_stage_is_known_ = false;  // it was the last one of the substep before
  bool was_shortened_ = false;
  int refused_ = 0;
  double largest_omega_dt_ = 0;
  double source_work_ = 0, work_of_step_ = 0;  // of the current substep, and of the accepted ones [J]
};

void begin_sums(Context& c, Island& b, SubstepStates& states) {
  SubstepSums& sums = b.sums;
  const std::size_t n = z(b.layout().n()), m = z(b.layout().m());
  for (auto* x : {&sums.h_multipliers, &sums.h_work, &sums.work}) x->assign(m, 0.0);
  if (b.step.keeps_records) {
    write_start_reactions(c, b);
    begin_substeps(c, b, states);
    for (auto* x : {&sums.h_momentum, &sums.h_applied}) x->assign(n, 0.0);
    sums.h_wrenches.assign(sums.wrenches.size(), Vector6::Zero());
  } else {
    sums.v.resize(n);
    sums.multipliers.assign(m, 0.0);
    copy_island(b, c.bodies.base, states.start);
    copy_island(b, states.start, states.now);
  }
  copy_island(b, states.now, states.next);
  copy_island(b, states.now, states.projected);
}

/// @return whether the step was complete
bool take_substeps_by_stages(Context& c, Island& b, SubstepStates& states, double& next_substep) {
  begin_sums(c, b, states);
  StagedSubstep method(c, b, states, b.step.moved == 0 && !b.has(Trait::kinematic_body));
  method.find_forces();
  const double longest = c.options.stepping == Stepping::adaptive ? c.dt : longest_part(c, b);
  const SubstepResult result =
      take_substeps(method, {c.dt / c.options.max_substeps, longest, tuning::no_limit, tuning::no_limit}, c.dt,
                    b.step.first_substep, 0);
  b.stats.rejected_substeps += method.refused();
  if (!result.complete) {
    next_substep = 0;
    method.clear();
    return false;
  }
  next_substep = result.next_length;
  b.stats.integrator_substeps += result.taken;
  b.step.division = Division::stages;
  b.step.poses.end_velocity_later = true;
  b.step.substeps = result.taken;
  b.step.omega_dt = method.largest_omega_dt();
  b.history.last_length = 0;  // the velocity is that of the step's end
  b.history.extrapolation_steps = 0;
  b.x.v.swap(b.sums.v);
  b.x.multipliers.swap(b.sums.multipliers);
  for (const BodyId id : b.layout().bodies) c.bodies.end[id] = states.now[id];
  const double start = start_energy(c, b), end = energy_of(c, b, states.now);
  b.step.energy = {.start = start, .end = end, .constraint_gain = end - start - method.work_of_sources()};
  if (b.has(Trait::laws))
    for (const int i : b.topology.entries)
      for (const LawWork& law : c.laws.of(c.constraints[i])) b.step.energy.constraint_gain -= law.last;
  if (result.taken > 1) {
    ++b.stats.substepped_steps;
    b.stats.substeps += result.taken;
  }
  if (b.step.keeps_records) {
    b.x.applied.swap(b.sums.applied);
    b.x.momentum.swap(b.sums.momentum);
    std::fill(b.rows.total.begin(), b.rows.total.end(), 0.0);  // no host row acts on such a step
    write_stabilisation(c, b);
  }
  return true;
}

}  // namespace

// The host's rows were solved for v₁ that end a step X₀ ⊕ dt·v₁. A step by stages would not satisfy them.
const char* why_no_stages(const Context& c, const Island& b) {
  if (b.has(Trait::laws))
    for (const ConstraintId id : b.topology.ids)
      for (const Law& law : laws_on(c.system, id))
        for (const Law::Term& term : law.terms()) {
          if (term.static_limit) return "dry friction acts on the island";
          if (term.advance_state) return "force laws with an internal state act on the island";
        }
  if (b.step.rows != HostRows::none &&
      (b.step.poses.pushed || std::any_of(b.rows.total.begin(), b.rows.total.end(), [](double p) { return p != 0; })))
    return b.step.rows >= HostRows::contacts ? "contacts act on the island"
                                             : "limits, motors or springs act on the island";
  if (b.step.start_gap == StartGap::turned_far) return "a joint is being rotated back to the pose that it holds";
  return nullptr;
}

bool stages_find_forces(const Context& c, const Island& b) {
  return c.options.stepping != Stepping::semi_implicit && c.options.mode == Mode::exact && !keeps_records(b) &&
         !why_no_stages(c, b);
}

bool laws_are_too_stiff(const Context& c, const Island& b) {
  return c.options.stepping == Stepping::rk4 && b.has(Trait::laws) &&
         b.dynamics->law_report().rate * c.dt / c.options.max_substeps > tuning::max_law_rate;
}

bool take_step_by_stages(Context& c, Island& b, SubstepStates& states) {
  b.step.keeps_records = keeps_records(b);
  if (b.has(Trait::laws)) {  // as they are at each instant
    b.dynamics->set_step(0);
    b.dynamics->compute_rates(c.options.stepping != Stepping::adaptive);
    if (b.dynamics->resolve(c.bodies.start, b.x.Q) == Status::invalid) return false;
    StagedSubstep(c, b, states, true).store_law_works();
  }
  b.step.first_substep = b.history.next_substep > 0 ? b.history.next_substep : c.dt;
  if (!take_substeps_by_stages(c, b, states, b.history.next_substep)) return false;
  for (std::size_t r = 0; r < b.report.work.size(); ++r) b.report.work[r] += b.sums.work[r];
  return true;
}

void repeat_stages_with_records(Context& c, Island& b) {
  b.step.keeps_records = true;
  if (b.dynamics->evaluate(c.bodies.start, b.x.Q) == Status::invalid) return;
  SubstepStates states;
  double next_substep = 0;
  const IslandStats stats = std::exchange(b.stats, {});
  take_substeps_by_stages(c, b, states, next_substep);
  b.stats = stats;
}

}  // namespace linchpin::host
