// Runge–Kutta–Munthe-Kaas steps (T13): stages in the chart of the exponential map, projection at the end, and step-size
// control of the embedded pairs.
#include "integrators/exponential_chart.h"
#include "integrators/stepper_impl.h"
#include "model/format.h"

#include <linchpin/constraint.h>
#include <linchpin/laws.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace linchpin {

void Stepper::Impl::combine(double h, std::span<const double> weight, std::size_t count, const Stages& rate,
                            std::span<double> y) const {
  combine_rates(h, weight, count, rate, y);
}

void Stepper::Impl::place(const State& from, std::span<const double> pose, std::span<const double> rate,
                          State& to) const {
  place_in_chart(block(), from, pose, rate, to);
}

void Stepper::Impl::rate_of_chart(std::span<const double> pose, std::span<const double> v,
                                  std::span<double> rate) const {
  rates_in_chart(block(), pose, v, rate);
}

bool Stepper::Impl::evaluate_stage(std::size_t k, double dt) {
  const double weight = tableau().weight[k];
  const bool known = k == 0 && control.first_stage_is_known;
  if (k == 0) dynamics.set_internal_state({});
  control.first_stage_is_known = false;
  const bool projects = control.on_constraints && k > 0 && k != tableau().stages;
  Status status = known ? report.status : projects ? project_stage() : dynamics.evaluate(work.stage);
  if (status == Status::invalid) {
    const bool stiff = options.method == Method::rk4 && dynamics.law_report().rate * dt > stable;
    return refuse(Status::invalid, dynamics.reason() + (stiff ? ". The law" + std::string(too_stiff) : "")), false;
  }
  // Stages between the ends are off the constraints by their error, so redundant rows disagree by that much.
  const bool on_the_way = k > 0 && status == Status::contradictory;
  report.status = std::max(report.status, on_the_way ? Status::redundant : status);
  const std::vector<double>& v = dynamics.assembly().v;
  if (k == 0) work.v0 = v, switching.slip_reverses = switching.dry_is_fastest = false, switching.law_rate = 0;
  // A pair controls the length of a substep by its error.
  const double from = options.method == Method::rk4 ? stable / dt : std::numeric_limits<double>::infinity();
  if (const double rate = rate_of_laws(work.stage, from); rate > switching.law_rate) {
    switching.law_rate = rate;
    switching.dry_is_fastest = dynamics.law_report().stiffest < 0;
  }
  for (std::size_t i = 0; k > 0 && i < switching.modes.size() && i < dynamics.friction_elements().size(); ++i)
    switching.slip_reverses =
        switching.slip_reverses ||
        (!switching.modes[i].sticks && dynamics.friction_elements()[i].slip_velocity.dot(switching.modes[i].sense) < 0);
  const double pivot = dynamics.solver().info().smallest_pivot;
  if (k == 0) control.pivot_at_start = control.least_pivot = pivot;
  if (k == tableau().stages) control.pivot_at_end = pivot;
  control.least_pivot = std::min(control.least_pivot, pivot);
  // M(v₁ − v₀) is accurate to second order with M of the middle (stage 2 of rk4), or the mean of both ends.
  const std::vector<double>& M = dynamics.assembly().problem.mass;
  if (k == (tableau().pair ? 0 : 2)) work.mass = M;
  if (tableau().pair && k == tableau().stages)
    for (std::size_t j = 0; j < work.mass.size(); ++j) work.mass[j] = 0.5 * (work.mass[j] + M[j]);
  std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), work.vdot[k].begin());
  if (k == 0) work.memory.before.assign(dynamics.internal_state().begin(), dynamics.internal_state().end());
  work.internal_state_rate[k].assign(dynamics.internal_state_rate().begin(), dynamics.internal_state_rate().end());
  if (const auto laws_now = dynamics.law_forces(); !laws_now.empty() && largest(work.vdot[k]) * dt > fastest_by_laws) {
    const auto size = [](const LawForce& e) { return std::max(e.force.norm(), e.moment.norm()); };
    const LawForce& most = *std::max_element(laws_now.begin(), laws_now.end(),
                                             [&](const auto& a, const auto& b) { return size(a) < size(b); });
    if (size(most) > 0)
      return refuse(Status::invalid,
                    name_of(most) + beyond_all_bounds(size(most), largest(work.vdot[k])) +
                        (switching.law_rate * dt > stable ? ". The law" + std::string(too_stiff) : "")),
             false;
  }
  std::fill(work.beyond.begin(), work.beyond.end(), 0.0);
  if (options.drift == Drift::baumgarte) {
    add_feedback(work.vdot[k]);
    for (std::size_t r = 0; r < work.beyond.size(); ++r) work.beyond[r] = weight * dt * work.beyond_rate[r];
  }
  rate_of_chart(work.in_chart, v, work.pose_rate[k]);
  // Records the power of each stage with the weights of the method, so that work is as accurate as the motion.
  if (weight != 0) recorder.record(*system, dynamics, work.stage, weight * dt, work.beyond, v, v);
  return true;
}

bool Stepper::Impl::evaluate_stages(double dt) {
  const bool may_project = tableau().pair && options.drift == Drift::exact;
  const auto once = [&] {
    work.stage = state;
    std::fill(work.in_chart.begin(), work.in_chart.end(), 0.0);
    for (std::size_t k = 0; k < tableau().stages; ++k) {
      if (k > 0) place_stage(k, dt);
      if (!evaluate_stage(k, dt)) return false;
      if (k == 0 && control.on_constraints && !choose_projection()) return false;
      if (may_project && !control.on_constraints && control.least_pivot < singular_pivot) return true;
    }
    return true;
  };
  if (!once()) return false;
  if (may_project && !control.on_constraints && control.least_pivot < singular_pivot) {
    control.on_constraints = true;
    recorder.restore();
    return once();
  }
  control.on_constraints = control.on_constraints && control.least_pivot < 2 * singular_pivot;
  return true;
}

bool Stepper::Impl::choose_projection() {
  control.keeps_factor = dynamics.solver().info().fallbacks > 0;
  if (!control.keeps_factor || factor_at_start.factor(state) != Status::invalid) return true;
  return refuse(Status::invalid, factor_at_start.reason()), false;
}

Status Stepper::Impl::project_stage() {
  const Dynamics& nearby = control.keeps_factor ? factor_at_start : dynamics;
  const auto factored = [&] { return control.keeps_factor || dynamics.factor(work.stage) != Status::invalid; };
  if (!factored()) return Status::invalid;
  project_positions(*system, nearby, work.stage, options.newton_tolerance, options.max_newton);
  if (!factored()) return Status::invalid;
  project_velocities(*system, nearby, work.stage);
  return dynamics.evaluate(work.stage);
}

bool Stepper::Impl::step_runge_kutta(double dt) {
  const Tableau& method = tableau();
  const IslandLayout& b = block();
  if (!evaluate_stages(dt)) return false;
  report.tension_frequency = std::max(report.tension_frequency, dt * stiffness_frequency(work.stage, dt));

  work.next = state;
  work.next.t = state.t + dt;
  system->update_kinematic(work.next);
  combine(dt, method.weight, method.stages, work.pose_rate, work.in_chart);
  combine(dt, method.weight, method.stages, work.vdot, work.gained);
  place(state, work.in_chart, work.gained, work.next);
  integrate_memory(dt, method.weight, method.stages, work.memory.after);
  if (!is_finite(work.next)) return refuse(report.status, state_not_finite), false;
  if (options.drift == Drift::exact) {
    work.stage = work.next;
    const double gap = project_positions(*system, dynamics, work.next, options.newton_tolerance, options.max_newton);
    if (!(gap <= std::max(options.newton_tolerance, 1e-6))) {
      // Either the step was too long, or the rows contradict each other.
      if (!std::isfinite(gap) || !project_in_least_squares(work.next))
        return refuse(report.status, end_not_on_constraints), false;
      report.status = Status::contradictory;
    }
    project_velocities(*system, dynamics, work.next);
    if (!is_finite(work.next)) return refuse(report.status, state_not_finite), false;
    follow_in_chart(b, work.stage, work.next, work.in_chart);
  }
  if (method.pair) {  // Its last stage, on the constraints, is the first of the next step.
    work.stage = work.next;
    if (!evaluate_stage(method.stages, dt)) return false;
  } else if (eventful() && dynamics.evaluate(work.next) == Status::invalid) {
    return refuse(Status::invalid, dynamics.reason()), false;
  }
  velocities(work.next, work.v1);
  // At the end itself, sticking elements are brought to rest, and events are tested.
  if (eventful() && dynamics.reapply_stick(work.next, work.v1) > 0) set_velocities(work.v1, work.next);
  if (method.pair) control.error_of_step = error_norm(dt);
  const std::size_t last = method.pair ? method.stages : method.stages - 1;
  interpolate(dt, work.pose_rate[last], work.vdot[last]);
  recorder.record_momentum(b, dynamics.assembly().problem, work.mass, work.v0, work.v1);
  return add_powers(dt);
}

void Stepper::Impl::integrate_memory(double dt, std::span<const double> weight, std::size_t count,
                                     std::vector<double>& memory) {
  if (work.memory.before.empty()) return;
  // Where rk4 is unstable, and reports it, its stages would grow. The states that the laws compute by themselves are
  // bounded.
  if (options.method == Method::rk4 && switching.law_rate * dt > 2 * stable && !switching.dry_is_fastest) {
    memory.clear();
    return dynamics.set_internal_state({});
  }
  memory.resize(work.memory.before.size());
  combine(dt, weight, count, work.internal_state_rate, memory);
  for (std::size_t j = 0; j < memory.size(); ++j) memory[j] += work.memory.before[j];
  dynamics.set_internal_state(memory);
}

void Stepper::Impl::place_stage(std::size_t k, double dt) {
  const Tableau& method = tableau();
  combine(dt, method.from[k], k, work.pose_rate, work.in_chart);
  combine(dt, method.from[k], k, work.vdot, work.gained);
  place(state, work.in_chart, work.gained, work.stage);
  integrate_memory(dt, method.from[k], k, work.memory.there);
  work.stage.t = state.t + method.at[k] * dt;
  system->update_kinematic(work.stage);
}

bool Stepper::Impl::project_in_least_squares(State& end) {
  double last = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 30; ++round) {
    if (dynamics.evaluate(end) == Status::invalid) return false;
    dynamics.solver().apply(dynamics.assembly().position, {}, {}, work.force);
    const double moves = largest(work.force);
    if (moves <= 1e-6 * largest(dynamics.assembly().position)) return true;
    // Independent rows do not contradict each other here.
    if (dynamics.solver().full_row_rank() || !(moves < 0.5 * last)) return false;
    last = moves;
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const Vector6d u = twist_of(block(), s, work.force);
      advance(end[block().bodies[s]], u.head<3>(), u.tail<3>(), -1.0);
    }
  }
  return false;
}

double Stepper::Impl::error_norm(double dt) {
  const Tableau& method = tableau();
  const double fine = error_norm(dt, method.error);
  if (!method.third || fine == 0) return fine;
  return fine / std::hypot(1.0, 0.1 * error_norm(dt, method.coarse_error) / fine);  // (Hairer et al., II.10)
}

double Stepper::Impl::error_norm(double dt, const Tableau::Row& weight) {
  double sum = 0;
  for (const Stages* rate : {&work.pose_rate, &work.vdot}) {
    combine(dt, weight, tableau().stages + 1, *rate, work.gained);
    sum += squares_in_chart(block(), state, work.next, work.gained, rate == &work.pose_rate, options.absolute_tolerance,
                            options.relative_tolerance);
  }
  work.memory.there.resize(work.memory.before.size());
  combine(dt, weight, tableau().stages + 1, work.internal_state_rate, work.memory.there);
  for (std::size_t j = 0; j < work.memory.there.size(); j += 3) {
    const auto length = [&](const std::vector<double>& x) { return Eigen::Map<const Vector3d>(&x[j]).norm(); };
    const double size = std::max(length(work.memory.before), length(work.memory.after));
    sum += std::pow(length(work.memory.there) / (options.absolute_tolerance + options.relative_tolerance * size), 2);
  }
  return std::sqrt(sum / std::max(1.0, 2.0 * block().n() + static_cast<double>(work.memory.there.size())));
}

double Stepper::Impl::first_guess(double dt) {
  if (dynamics.evaluate(state) == Status::invalid) return dt;
  double size = 0, rate = 0;
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const BodyState& body = state[block().bodies[s]];
    const Vector6d a = twist_of(block(), s, dynamics.vdot());
    const auto add = [&](double x, double x_dot) {
      const double scale = options.absolute_tolerance + options.relative_tolerance * x;
      size = std::max(size, x / scale);
      rate = std::max(rate, x_dot / scale);
    };
    add(body.p.norm(), body.v.norm());
    add(body.v.norm(), a.head<3>().norm());
    if (system->dof(block().bodies[s]) < 6) continue;
    add(1, body.w.norm());
    add(body.w.norm(), a.tail<3>().norm());
  }
  return rate > 0 && size > 0 ? std::min(dt, 0.01 * size / rate) : dt;
}

bool Stepper::Impl::advance_within_tolerance(double& part, double left) {
  const double power = 1.0 / tableau().order;
  const double wanted = control.try_h,
               shortest = 16 * std::numeric_limits<double>::epsilon() * (std::fabs(state.t) + left);
  const Status status = report.status;
  const double planned = part;
  std::size_t sidesteps = 0;
  for (bool first = true;; first = false) {
    report.status = status;
    const bool went = advance_by(part);
    const double e = went ? std::max(control.error_of_step, 1e-10) : std::numeric_limits<double>::infinity();
    // Stages on both sides of a singular position pass it. Shorter steps would only approach it slowly.
    constexpr double beside[] = {0.93, 1.07, 0.86, 1.14, 0.79, 0.65};
    const bool too_near =
        control.pivot_at_end < imprecise_pivot || (e > 1 && control.least_pivot < 10 * imprecise_pivot);
    if (went && too_near && control.pivot_at_start > 10 * imprecise_pivot && sidesteps < std::size(beside)) {
      part = std::min(beside[sidesteps++] * planned, left);
      recorder.restore();
      continue;
    }
    if (e <= 1) {
      const double factor = 0.9 * std::pow(e, -0.7 * power) * std::pow(control.last_error, 0.4 * power);
      const double next_h = part * std::clamp(factor, 0.2, first ? 5.0 : 1.0);
      // The substep was shortened only by the end of the step.
      control.try_h = part < wanted && first ? std::max(wanted, next_h) : next_h;
      control.last_error = std::max(e, 1e-4);
      return true;
    }
    part *= went ? std::clamp(0.9 * std::pow(e, -power), 0.1, 0.9) : 0.25;
    if (!(part > shortest)) {
      if (went)
        refuse(report.status,
               "the error exceeds the tolerance even in the shortest substep. A force may be discontinuous, or the "
               "pose singular. Use a larger tolerance, or semi-implicit");
      return false;
    }
    report.rejected = false;
    report.reason.clear();
    recorder.restore();
  }
}

}  // namespace linchpin
