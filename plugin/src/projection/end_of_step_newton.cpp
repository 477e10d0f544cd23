#include "projection/end_of_step_newton.h"

#include "projection/tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin {

namespace tuning = detail::tuning;

namespace {
/// Laws read slips to the last digit, so that poses and velocities must be those at which the laws are evaluated.
bool has_laws(const EndOfStep& step) {
  return !step.displacements_only &&
         (!step.dynamics.law_forces().empty() || !step.dynamics.friction_elements().empty());
}
}  // namespace

EndOfStepNewton::EndOfStepNewton(const EndOfStep& step, const Options& options, std::span<double> v,
                                 VelocityUpdate& update)
    : step_(step),
      options_(options),
      v_(v),
      update_(update),
      work_(workspace()),
      assembly_(step.dynamics.assembly()),
      solver_(step.dynamics.solver()),
      length_(std::fabs(step.dt)),
      by_joints_(!has_laws(step) && work_.joints.begin(step.dynamics, step.base, step.end, step.dt)),
      general_(step, work_),
      stock_(step, work_),
      model_(by_joints_ ? static_cast<EndResidualModel&>(stock_) : general_),
      with_force_(options.needs_force || has_laws(step) || !solver_.full_row_rank()) {
  const std::size_t n = z(assembly_.layout.n()), m = z(assembly_.layout.m());
  work_.start.assign(v.begin(), v.end());
  work_.positions_only = step.displacements_only || by_joints_ ||
                         (!has_level(step.system, assembly_.layout, Level::velocity) &&
                          !has_level(step.system, assembly_.layout, Level::acceleration));
  for (auto* x : {&work_.error, &work_.previous, &work_.lambda}) x->resize(m);
  for (auto* x : {&work_.force, &work_.dv}) x->resize(n);
  work_.lambda_sum.assign(m, 0.0);
  if (with_force_) work_.force_sum.assign(n, 0.0);
}

NewtonReport EndOfStepNewton::solve(std::span<double> lambda, std::span<double> force) {
  work_.anderson.begin();
  for (;; ++report_.solves) {
    work_.previous.swap(work_.error);
    evaluate();
    if (report_.solves == 0) first_residual_ = report_.residual;
    if (has_to_follow_multipliers()) restart_in_least_squares();
    if (report_.converged || !std::isfinite(report_.residual)) break;
    if (stalls() && handle_stall() == Stall::ends) break;
    if (report_.solves == options_.max_solves) break;
    previous_residual_ = report_.residual;
    step();
  }
  if (!report_.converged && !(report_.residual <= first_residual_))
    take_back();
  else
    finish(lambda, force);
  return report_;
}

void EndOfStepNewton::evaluate() {
  report_.residual = model_.evaluate(v_, work_.error);
  if (!options_.target.empty() && std::isfinite(report_.residual)) {
    for (std::size_t r = 0; r < work_.error.size(); ++r) work_.error[r] += options_.target[r] / step_.dt;
    report_.residual = largest(work_.error);
  }
  report_.converged = report_.residual * length_ <= options_.tolerance;
}

/// Near a singular pose the multipliers of a solve do not make quite the velocities that it gives.
bool EndOfStepNewton::has_to_follow_multipliers() const {
  return report_.converged && !with_force_ && !step_.displacements_only && report_.solves > 0 &&
         solver_.info().smallest_pivot < tuning::near_singular_pivot;
}

/// Computes the force once, from the sum of the multipliers, and the velocities from the force: they then agree to
/// rounding.
void EndOfStepNewton::follow_multipliers() {
  work_.force_sum.assign(v_.size(), 0.0);
  add_transposed(assembly_, work_.lambda_sum, work_.force_sum);
  solver_.inverse_mass(work_.force_sum, work_.dv);
  for (std::size_t j = 0; j < v_.size(); ++j) v_[j] = work_.start[j] + work_.dv[j];
  with_force_ = true;
}

void EndOfStepNewton::restart_in_least_squares() {
  follow_multipliers();
  least_squares_ = true;
  accelerates_ = false;
  work_.anderson.begin();
  previous_residual_ = std::numeric_limits<double>::infinity();
  evaluate();
}

/// The residual no longer shrinks: because it cannot, or because it never will.
EndOfStepNewton::Stall EndOfStepNewton::handle_stall() {
  // Redundant rows may contradict each other: first none of them is left out any more.
  if (!solver_.full_row_rank() && !std::exchange(least_squares_, true)) return Stall::goes_on;
  if (by_joints_) model_.place(v_);
  report_.converged = at_round_off(step_.system, assembly_, step_.end, step_.dt, work_.error);
  // Rows that contradict each other, by a little (frames of a float host) or by much, keep a residual that no velocity
  // can take away. The least squares are reached when a solve no longer moves anything (T6).
  double size = 0, moves = 0;
  for (std::size_t j = 0; j < v_.size(); ++j) {
    size = std::max(size, std::fabs(v_[j]));
    moves = std::max(moves, std::fabs(work_.dv[j]));
  }
  report_.least_squares =
      !report_.converged && (moves * length_ <= options_.tolerance || moves <= tuning::velocity_rounding * size);
  report_.converged = report_.converged || report_.least_squares;
  if (report_.converged || report_.residual > tuning::newton_divergence * first_residual_) return Stall::ends;
  const bool gains = report_.residual <= tuning::stall_residual_gain * previous_residual_ ||
                     moves <= tuning::stall_move_gain * previous_move_;
  stalls_without_gain_ = gains ? 0 : stalls_without_gain_ + 1;
  previous_move_ = moves;
  if (stalls_without_gain_ == tuning::max_stalls_without_gain) return Stall::ends;
  // Near a singular pose rows turn within a step, and the last chord predicts the next. Elsewhere a chord that does not
  // contract shows that the step is too long.
  if (solver_.full_row_rank() && solver_.info().smallest_pivot < tuning::near_singular_pivot &&
      !std::exchange(accelerates_, true))
    work_.anderson.improve<3>(
        work_.previous, {work_.lambda, with_force_ ? std::span(work_.force) : std::span<double>(), work_.dv}, false);
  return Stall::goes_on;
}

/// One solve with the factor at the base (T12).
void EndOfStepNewton::step() {
  const std::span<double> force = with_force_ ? std::span(work_.force) : std::span<double>();
  if (least_squares_)
    solver_.apply(work_.error, work_.lambda, force, work_.dv);
  else
    solver_.solve_unrefined(work_.error, work_.lambda, force, work_.dv);
  if (accelerates_) work_.anderson.improve<3>(work_.error, {work_.lambda, force, work_.dv}, true);
  update_.add(work_.force, work_.dv);
  for (std::size_t j = 0; with_force_ && j < work_.force_sum.size(); ++j) work_.force_sum[j] += work_.force[j];
  for (std::size_t r = 0; r < work_.lambda_sum.size(); ++r) work_.lambda_sum[r] += work_.lambda[r];
}

/// It made things worse: the caller gets back what it gave.
void EndOfStepNewton::take_back() {
  std::copy(work_.start.begin(), work_.start.end(), v_.begin());
  model_.place(v_);
}

void EndOfStepNewton::finish(std::span<double> lambda, std::span<double> force) {
  if (!with_force_ && !step_.displacements_only && report_.solves > 0) follow_multipliers();
  if (by_joints_) model_.place(v_);
  if (report_.solves == 0) return;
  if (!lambda.empty() && !solver_.full_row_rank()) {
    solver_.minimum_norm_multipliers(work_.force_sum, work_.lambda_sum,
                                     options_.minimum_norm_velocities ? v_ : std::span<double>());
    model_.place(v_);
    report_.residual = step_residuals(step_.system, assembly_, step_.base, step_.end, step_.dt, v_, work_);
    report_.least_squares =
        report_.least_squares || (report_.converged && report_.residual * length_ > options_.tolerance &&
                                  !at_round_off(step_.system, assembly_, step_.end, step_.dt, work_.error));
  }
  for (std::size_t r = 0; r < std::min(work_.lambda_sum.size(), lambda.size()); ++r) lambda[r] += work_.lambda_sum[r];
  for (std::size_t j = 0; j < std::min(work_.force_sum.size(), force.size()); ++j) force[j] += work_.force_sum[j];
}

NewtonReport solve_end_of_step(const System& system, const Dynamics& dynamics, const State& base, State& end, double dt,
                               std::span<double> v, std::span<double> lambda, std::span<double> force, double tolerance,
                               int max_solves, std::span<const double> residual_target) {
  const EndOfStep step{system, dynamics, base, end, dt};
  AddedVelocities update(v);
  const EndOfStepNewton::Options options{
      .tolerance = tolerance, .max_solves = max_solves, .minimum_norm_velocities = true, .target = residual_target};
  return EndOfStepNewton(step, options, v, update).solve(lambda, force);
}

}  // namespace linchpin
