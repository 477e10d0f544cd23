#include "host/fast_island_solver.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/semi_implicit_substep.h"
#include "host/start_of_step.h"
#include "host/step_acceptance.h"
#include "host/tuning.h"
#include "host/whole_step.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace linchpin::host {

namespace {

using Kernel = linchpin::detail::JointIsland;

// The null space may be large because of the poses, as of a net that lies flat at its start, or because of how the
// joints are connected. The fast path is therefore tried again after one step, then after two, then after four.
void note_refusal(Island& b, Kernel::Refusal refusal, unsigned step) {
  if (refusal != Kernel::Refusal::null_space_too_large) return;
  b.history.fast_pause = std::clamp(2 * b.history.fast_pause, 1u, tuning::max_fast_pause);
  b.history.fast_from = step + b.history.fast_pause;
}

Kernel::Job job_of(Island& b) {
  return {.island = &b.fast.kernel,
          .vectors = {.Q = b.x.Q,
                      .applied_impulse = b.x.applied,
                      .newton_impulses = b.x.newton,
                      .v = b.x.v,
                      .total_impulses = b.x.multipliers,
                      .mean_row_velocities = b.x.row_velocity,
                      .gyroscopic = b.gyroscopics.step.slots(),
                      .gyroscopic_time = b.gyroscopics.step.time(),
                      .springs = b.fast.springs},
          .typical_velocity_error = b.history.typical_velocity_error};
}

/// @param coarse  share of the limit of ω·dt up to which an upper bound of ω·dt is enough
Kernel::Limits limits_of(const Context& c, double length, double coarse) {
  return {.dt = length,
          .newton_tolerance = c.options.newton_tolerance,
          .gap_tolerance = c.options.gap_tolerance,
          .max_solves = c.options.max_newton,
          .max_omega_dt = c.options.max_tension_frequency,
          .residual_share = 1 - length / c.dt,  // a gap at the start closes in the time of a step
          .coarse_omega_dt = coarse * c.options.max_tension_frequency};
}

class FastSubstep final : public SemiImplicitSubstep {
 public:
  FastSubstep(Context& c, Island& b, double allowed, bool keeps_records, int worker)
      : SemiImplicitSubstep(c, b, allowed), keeps_records_(keeps_records), worker_(worker) {
    for (const BodyId id : b.layout().bodies) now()[id] = c.bodies.start[id];
    SubstepSums& sums = b.sums;
    const std::size_t n = b.x.v.size(), m = b.x.multipliers.size();
    for (auto* x : {&sums.h_applied, &b.x.Q_total}) x->resize(n);
    for (auto* x : {&sums.work, &sums.multipliers}) x->assign(m, 0.0);
    b.fast.spring_sums.assign(b.fast.springs.size(), {});
    if (!keeps_records) return;
    for (auto* x : {&sums.applied, &sums.momentum}) x->assign(n, 0.0);
    b.x.momentum.resize(n);
    sums.h_joint_impulses.resize(12 * b.topology.ids.size());
    sums.joint_impulses.assign(sums.h_joint_impulses.size(), 0.0);
    sums.largest_impulse.assign(2 * b.slots(), 0.0);
  }

  void accept(const Substep& s) override {
    const IslandLayout& layout = b_.layout();
    const std::vector<double>& motion = bounds_energy() ? undamped_ : b_.x.v;  // damping does not move the end
    b_.gyroscopics.substep.apply_of_step({c_.system, layout, now()}, motion, b_.sums.h_applied);
    for (std::size_t r = 0; r < b_.sums.work.size(); ++r) {
      b_.sums.work[r] += b_.x.multipliers[r] * b_.x.row_velocity[r];
      b_.sums.multipliers[r] += b_.x.multipliers[r];
    }
    for (std::size_t i = 0; i < b_.fast.springs.size(); ++i) add_spring(b_.fast.springs[i], b_.fast.spring_sums[i]);
    accepted(s);
    if (keeps_records_) record(s.force_time);
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      BodyState& body = now()[layout.bodies[slot]];
      const int column = layout.column[slot];
      advance(body, head(motion, column), head(motion, column + 3), s.length);
      body.v = head(b_.x.v, column);
      body.w = head(b_.x.v, column + 3);
    }
  }

  /// Returns the outcome of the first substep, which has the data of the step's start.
  const Kernel::Outcome& at_start() const { return at_start_; }
  int solves() const { return solves_; }
  int factors() const { return factors_; }

 protected:
  State& now() override { return c_.bodies.end; }
  std::span<const double> start_velocities() override {
    read_velocities(b_.layout(), now(), b_.x.dv);
    return b_.x.dv;
  }
  std::span<double> end_velocities() override { return b_.x.v; }

  Acceptance solve(Substep& s) override {
    find_forces(s);
    const Kernel::Outcome found = run(s);
    solves_ += found.newton_solves;
    if (s.first()) at_start_ = found;
    s.omega_dt = found.omega_dt;
    s.gain = found.constraint_work;
    s.kinetic = found.start_energy;
    s.end_kinetic = found.end_energy;
    const bool gains = gains_too_much(s, found.constraint_work, found.end_energy, found.start_energy);
    if (!found.refused() && !(gains && s.is_tested)) return Acceptance::accepted;
    return found.has_start_multipliers ? Acceptance::too_long : Acceptance::impossible;
  }

 private:
  void find_forces(const Substep& s) {
    const IslandLayout& layout = b_.layout();
    GyroscopicTorques& gyroscopic = b_.gyroscopics.substep;
    gyroscopic.clear();
    gyroscopic.set_time(s.force_time);
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = layout.bodies[slot];
      const int column = layout.column[slot];
      const BodyState& at = now()[id];
      Vector3d force = head(b_.x.Q, column), torque = c_.bodies.load(id).torque;
      if (b_.step.is_sized) {
        force += head(b_.rows.force_now, column);
        torque += head(b_.rows.force_now, column + 3);
      }
      put(b_.x.Q_total, column, force);
      put(b_.x.Q_total, column + 3, torque);
      put(b_.sums.h_applied, column, s.force_time * force);
      put(b_.sums.h_applied, column + 3, s.force_time * torque);
      if (!b_.gyroscopics.active[slot]) continue;
      const Vector3d& I = b_.fast.kernel.inertia()[slot];
      add(b_.x.Q_total, column + 3, gyroscopic_torque(at.R(), I, at.w));
      gyroscopic.add(static_cast<int>(slot), I);
    }
    if (s.first() && b_.step.is_sized)
      for (std::size_t j = 0; j < b_.rows.impact_now.size(); ++j) b_.sums.h_applied[j] += b_.rows.impact_now[j];
    std::fill(b_.x.newton.begin(), b_.x.newton.end(), 0.0);
  }

  Kernel::Outcome run(const Substep& s) {
    Kernel::Limits limits = limits_of(c_, s.length, tuning::doubling_share);
    if (!s.is_tested) limits.max_omega_dt = std::numeric_limits<double>::infinity();
    Kernel::Job job = job_of(b_);
    // Multipliers at the step's start are those of its forces.
    job.vectors.Q = s.first() ? forces_with_rows(c_, b_) : std::span<const double>(b_.x.Q_total);
    job.vectors.applied_impulse = b_.sums.h_applied;
    job.vectors.gyroscopic = b_.gyroscopics.substep.slots();
    job.vectors.gyroscopic_time = s.force_time;
    if (keeps_records_) job.vectors.constraint_impulses = b_.sums.h_joint_impulses;
    if (!s.first()) job.typical_velocity_error = std::numeric_limits<double>::infinity();
    // The factor of the step's start is there. Springs add to it by the length of the step.
    if (s.first() && b_.step.path == Path::coupled && b_.fast.springs.empty()) {
      b_.fast.kernel.solve_end_of_step(limits, job);
    } else {
      Kernel::solve_steps(now(), limits, {&job, 1}, worker_);
      ++factors_;
    }
    return job.outcome;
  }

  static void add_spring(const Kernel::SpringImpulse& spring, Kernel::SpringImpulse& to) {
    to.impulse += spring.impulse;
    to.work += spring.work;
    for (const std::size_t k : {0, 1}) to.on[k] += spring.on[k];
  }

  void record(double weight) {
    record_joint_impulses();
    SubstepSums& sums = b_.sums;
    for (std::size_t j = 0; j < b_.x.v.size(); ++j) sums.applied[j] += sums.h_applied[j];
    if (b_.step.is_sized)  // the balance has a term of its own for host rows
      for (std::size_t j = 0; j < b_.x.v.size(); ++j)
        sums.applied[j] -= weight * b_.rows.force_now[j] + b_.rows.impact_now[j];
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = b_.layout().bodies[slot];
      const BodyState& s = now()[id];
      const int column = b_.layout().column[slot];
      add(sums.momentum, column, c_.system.mass(id) * (head(b_.x.v, column) - s.v));
      const Matrix3d R = s.R();
      add(sums.momentum, column + 3,
          R * b_.fast.kernel.inertia()[slot].cwiseProduct(R.transpose() * (head(b_.x.v, column + 3) - s.w)));
    }
  }

  void record_joint_impulses() {
    SubstepSums& sums = b_.sums;
    for (std::size_t i = 0; i < sums.h_joint_impulses.size(); ++i) sums.joint_impulses[i] += sums.h_joint_impulses[i];
    for (std::size_t i = 0; i < b_.topology.ids.size(); ++i)
      for (const std::size_t k : {0, 1}) {
        const int slot = b_.fast.sides[2 * i + k];
        if (slot < 0) continue;
        const double* const p = sums.h_joint_impulses.data() + 12 * i + 6 * k;
        double &force = sums.largest_impulse[2 * z(slot)], &moment = sums.largest_impulse[2 * z(slot) + 1];
        force = std::max(force, Vector3d(p[0], p[1], p[2]).norm());
        moment = std::max(moment, Vector3d(p[3], p[4], p[5]).norm());
      }
  }

  const bool keeps_records_;
  const int worker_;
  Kernel::Outcome at_start_;
  int solves_ = 0, factors_ = 0;
};

/// @param at_start  out: the outcome of the first substep
/// @return whether the step is accepted
bool take_fast_substeps(Context& c, Island& b, double length, double before, int worker, bool keeps_records,
                        Kernel::Outcome& at_start) {
  c.bodies.make_ends();
  const double allowed =
      bounds_energy(c, b) ? energy_allowance(c, b) : energy_floor(c, b) + tuning::allowed_gain * start_energy(c, b);
  b.step.fast_substeps = {length, before};
  b.step.keeps_records = keeps_records;
  FastSubstep method(c, b, allowed, keeps_records, worker);
  const SubstepResult result = take_substeps(method, semi_implicit_limits(c, b, 1), c.dt, length, before);
  at_start = method.at_start();
  b.history.next_length = result.next_length;
  if (!result.complete) return false;
  end_semi_implicit_substeps(c, b, c.bodies.end, result, method.largest_omega_dt(), keeps_records);
  b.step.newton_solves = method.solves();
  b.stats.factorizations += method.factors();
  return true;
}

}  // namespace

void FastIslandSolver::lay_out(Island& b) {
  b.fast.fits = false;
  const SolverOptions& o = c_.options;
  if (o.mode != Mode::exact || !o.drift_correction || o.stepping != Stepping::semi_implicit || b.has(Trait::own_laws) ||
      b.has(Trait::user_constraint) || b.has(Trait::kinematic_body) || b.has(Trait::gear))
    return;
  if (c_.gaps.turned_far() > 0 && std::any_of(b.topology.entries.begin(), b.topology.entries.end(),
                                              [&](int i) { return c_.constraints[i].geometry.turned_far; }))
    return;
  if (!std::exchange(b.fast.is_laid_out, true)) {
    b.history.fast_from = b.history.fast_pause = 0;
    b.fast.sides.clear();
    if (b.fast.kernel.lay_out(c_.system, b.layout(), topologies_))
      for (const ConstraintId id : b.topology.ids)
        for (const BodyId body : c_.system.constraint(id).bodies()) b.fast.sides.push_back(b.layout().body_index(body));
    b.fast.springs.assign(b.fast.kernel.springs().size(), {});
  }
  b.fast.fits = b.fast.kernel.topology() != nullptr && c_.step >= b.history.fast_from;
  const unsigned masses = c_.bodies.mass_changes();
  if (b.fast.fits && std::exchange(b.fast.masses_at, masses) != masses) b.fast.kernel.read_masses(c_.system);
}

// ---- without host rows ----

void FastIslandSolver::solve_steps(std::span<Island* const> islands, int worker) {
  std::array<Kernel::Job, Kernel::max_jobs> jobs;
  std::array<Island*, Kernel::max_jobs> of{};
  std::size_t count = 0;
  for (Island* const island : islands) {
    Island& b = *island;
    if (!b.fast.fits || b.phase == Phase::refused || !b.stiffness.empty()) continue;
    const double before = length_before(c_, b);
    add_applied(c_, b, 0.5 * (before - c_.dt));
    if (begins_with_substeps(b)) {
      take_substeps_without_try(b, before, worker);
      continue;
    }
    extrapolate_newton(c_, b);
    of[count] = &b;
    jobs[count++] = job_of(b);
  }
  if (count == 0) return;
  Kernel::solve_steps(c_.bodies.start, limits_of(c_, c_.dt, 1), std::span(jobs).first(count), worker);
  for (std::size_t i = 0; i < count; ++i) accept_or_substep(*of[i], jobs[i].outcome, length_before(c_, *of[i]), worker);
}

// A step is not tried as a whole where the last step was too long for that.
bool FastIslandSolver::begins_with_substeps(const Island& b) const {
  return b.history.next_length > 0 && b.history.next_length <= 0.5 * c_.dt && !c_.options.geometric_stiffness;
}

bool FastIslandSolver::take_substeps_without_try(Island& b, double before, int worker) {
  Kernel::Outcome first;
  const bool accepted = take_fast_substeps(c_, b, std::exchange(b.history.next_length, 0), before, worker,
                                           b.has(Trait::forces_read), first);
  if (accepted)
    accept(b, first);
  else
    leave_to_general_solver(b, before);
  keep_substeps(c_, b);
  return accepted;
}

// Accepts a whole step that was tried, or takes its substeps where it was too long.
// @return whether the step is accepted
bool FastIslandSolver::accept_or_substep(Island& b, const Kernel::Outcome& whole, double before, int worker) {
  // A Newton that stops at rounding does not show that the step is too long. The general solver decides such a step.
  const bool sticks = whole.refused() && whole.omega_dt == 0 && whole.residual < tuning::newton_rounding;
  const double rows = !whole.refused() && bounds_energy(c_, b) ? work_of(b.rows.total, b.x.v0, b.x.v) : 0,
               gain = std::max(whole.constraint_work, whole.constraint_work + rows - std::max(b.rows.solved_work, 0.0));
  const bool gains =
      gain > tuning::allowed_gain * std::max(whole.start_energy, whole.end_energy) &&
      gain > energy_floor(c_, b) + tuning::allowed_gain * std::max(start_energy(c_, b), whole.end_energy);
  if (!whole.refused() && !gains) {
    b.step.omega_dt = whole.omega_dt;
    b.step.newton_solves = whole.newton_solves;
    b.step.energy = {.start = whole.start_energy, .end = whole.end_energy, .constraint_gain = whole.constraint_work};
    b.history.next_length = 0;
    if (b.step.path == Path::coupled) {
      b.gyroscopics.step.apply_of_step({c_.system, b.layout(), c_.bodies.start}, b.x.v, b.x.applied);
      b.history.extrapolation_steps = 0;
    } else {  // start_problem() applies the gyroscopic impulses when a report needs them
      b.history.extrapolation.add(b.history.extrapolation_steps, b.x.newton);
    }
    end_whole_step(c_, b, whole.constraint_work, rows);
    accept(b, whole);
    return true;
  }
  Kernel::Outcome first;
  if (whole.has_start_multipliers && !sticks && !c_.options.geometric_stiffness &&
      take_fast_substeps(c_, b, first_substep(c_, whole.omega_dt), before, worker, b.has(Trait::forces_read), first)) {
    b.history.rejected_ratio =
        whole.omega_dt > 0 && b.step.omega_dt > 0 ? whole.omega_dt / (b.step.omega_dt * b.step.substeps) : 0;
    keep_substeps(c_, b);
    accept(b, whole);
    return true;
  }
  note_refusal(b, whole.refusal, c_.step);
  leave_to_general_solver(b, before);
  return false;
}

void FastIslandSolver::accept(Island& b, const Kernel::Outcome& at_start) {
  b.history.fast_pause = 0;
  b.phase = Phase::solved;
  if (b.step.path == Path::general) b.step.path = Path::fast;
  b.step.problem_is_current = false;
  b.step.has_forces = true;
  b.report.is_current = false;
  b.history.typical_velocity_error = at_start.velocity_error;
  b.stats.activation_energy = std::max(b.stats.activation_energy, at_start.activation_energy);
  b.stats.newton_solves += b.step.newton_solves;
  ++b.stats.factorizations;
  ++b.stats.solves;
  b.history.stiffness.clear();
}

// Restores the step as it was, for the general solver.
void FastIslandSolver::leave_to_general_solver(Island& b, double before) {
  std::fill(b.x.newton.begin(), b.x.newton.end(), 0.0);
  b.history.next_length = 0;
  add_applied(c_, b, -0.5 * (before - c_.dt));
}

// ---- coupled with host rows ----

bool FastIslandSolver::begin(Island& b, bool) {
  lay_out(b);
  b.step.path = Path::general;
  if (!b.fast.fits || !b.stiffness.empty()) return false;
  const Kernel::Refusal refusal = b.fast.kernel.factor(c_.bodies.start, c_.dt, c_.options.gap_tolerance);
  note_refusal(b, refusal, c_.step);
  if (refusal != Kernel::Refusal::none) return false;
  b.step.path = Path::coupled;
  b.step.has_forces = false;
  b.gyroscopics.step.apply_free({c_.system, b.layout(), c_.bodies.start}, b.x.applied);
  return true;
}

bool FastIslandSolver::start(Island& b) {
  for (std::size_t j = 0; j < b.x.v.size(); ++j) b.x.force[j] = b.x.applied[j] + b.rows.total[j];
  const double tolerance = std::max(c_.options.newton_tolerance, tuning::start_tolerance);
  const bool in_substeps = starts_in_substeps(c_, b);
  if (!in_substeps) {
    for (const auto& forces : {std::span<const double>(), forces_with_rows(c_, b)})
      if (b.fast.kernel.find_start_velocities(c_.dt, tolerance, tuning::start_solves, b.x.force, forces, b.x.v) <
              tuning::start_slack * tolerance &&
          !starts_half_a_turn_away(c_, b))
        return true;
  }
  b.fast.kernel.find_linearized_start_velocities(in_substeps ? extrapolation_time(c_, b) : 0, b.x.force, b.x.v);
  return true;
}

void FastIslandSolver::project(Island& b, std::span<double> change) {
  std::copy(b.x.v.begin(), b.x.v.end(), change.begin());
  b.fast.kernel.project(change);
  for (std::size_t j = 0; j < b.x.v.size(); ++j) change[j] -= b.x.v[j];
}

void FastIslandSolver::prepare_responses(Island& b) { b.fast.kernel.select_response_bodies(b.rows.contacted); }

void FastIslandSolver::respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) {
  b.fast.kernel.find_impulse_responses(impulses, motion);
}

bool FastIslandSolver::is_composite(const Island& b, CompositeBody& out) const {
  Kernel::CompositeMass found;
  if (!b.fast.kernel.composite_body(found)) return false;
  out.inverse_mass = found.inverse_mass;
  out.centre = found.centre;
  out.inverse_inertia = found.inverse_inertia;
  return true;
}

bool FastIslandSolver::finish(Island& b, SubstepStates&) {
  const double before = length_before(c_, b);
  add_applied(c_, b, 0.5 * (before - c_.dt));
  if (begins_with_substeps(b)) return take_substeps_without_try(b, before, 0);
  b.gyroscopics.step.remove_from(b.layout(), b.x.applied);
  for (std::size_t j = 0; j < b.x.force.size(); ++j) b.x.force[j] = b.x.applied[j] + b.rows.total[j];
  Kernel::Job job = job_of(b);
  job.vectors.Q = forces_with_rows(c_, b);
  job.vectors.applied_impulse = b.x.force;
  b.fast.kernel.solve_end_of_step(limits_of(c_, c_.dt, 1), job);
  if (job.outcome.refused() && job.outcome.has_start_multipliers && ask_for_rows_again(c_, b)) return false;
  return accept_or_substep(b, job.outcome, before, 0);
}

// ---- reports ----

std::span<const double> forces_with_rows(const Context& c, Island& b) {
  if (!b.step.is_sized) return b.x.Q;  // no row acts on it
  for (std::size_t j = 0; j < b.x.dv.size(); ++j) b.x.dv[j] = b.x.Q[j] + b.rows.total[j] / c.dt;
  return b.x.dv;
}

void record_fast_substeps(Context& c, Island& b) {
  if (b.step.keeps_records) return;
  const IslandStats stats = b.stats;
  const double next = b.history.next_length;
  Kernel::Outcome at_start;
  take_fast_substeps(c, b, b.step.fast_substeps.first_length, b.step.fast_substeps.length_before, 0, true, at_start);
  b.stats = stats;
  b.history.next_length = next;
}

void sum_fast_wrenches(const Context& c, Island& b) {
  std::size_t count = 0;
  for (const ConstraintId id : b.topology.ids) count += c.system.constraint(id).bodies().size();
  b.sums.wrenches.assign(count, Vector6::Zero());
  for (std::size_t at = 0; at < count; ++at)  // of two bodies each
    for (int j = 0; j < 6; ++j) b.sums.wrenches[at][j] = b.sums.joint_impulses[6 * at + z(j)] / c.dt;
}

}  // namespace linchpin::host
