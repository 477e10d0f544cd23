// RATTLE on momenta with the exponential map, and its composition of order 4 (T13).
#include "integrators/discrete_legendre.h"
#include "integrators/stepper_impl.h"
#include "projection/end_of_step_newton.h"

#include <linchpin/constraint.h>
#include <linchpin/laws.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin {

void Stepper::Impl::gyroscopic_impulse(const State& at, double h, std::span<double> out) {
  std::fill(out.begin(), out.end(), 0.0);
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const BodyId id = block().bodies[s];
    if (system->kind(id) != BodyKind::rigid) continue;
    const Vector3d torque = system->gyroscopic_torque(id, at[id]);
    for (int k = 0; k < 3; ++k) out[z(block().column[s] + 3 + k)] = -h * torque[k];
  }
}

bool Stepper::Impl::kick(const State& at, double h, std::span<const double> v) {
  const Status status = dynamics.evaluate(at);
  if (status == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
  report.status = std::max(report.status, status);
  std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), work.vdot[0].begin());
  std::fill(work.beyond.begin(), work.beyond.end(), 0.0);
  if (options.drift == Drift::baumgarte) {
    add_feedback(work.vdot[0]);
    for (std::size_t r = 0; r < work.beyond.size(); ++r) work.beyond[r] = h * work.beyond_rate[r];
  }
  gyroscopic_impulse(at, h, work.gyroscopic);
  for (std::size_t j = 0; j < work.gained.size(); ++j) work.gained[j] = v[j] + h * work.vdot[0][j];
  momenta_of(*system, block(), at, work.gained, work.momentum);
  for (std::size_t j = 0; j < work.momentum.size(); ++j) work.momentum[j] += work.gyroscopic[j];
  return true;
}

bool Stepper::Impl::step_rattle(double h, const State& from, State& to) {
  const IslandLayout& b = block();
  const double half = 0.5 * h;
  velocities(from, work.v0);
  if (!solve_first_half(h, from, to)) return false;
  velocities_of(*system, b, from, work.momentum, work.gained);
  record_half(from, half, work.v0, work.gained);

  velocities_of(*system, b, to, work.momentum, work.v0);  // Velocity of the middle, with M at the end.
  set_velocities(work.v0, to);
  if (!is_finite(to)) return refuse(report.status, state_not_finite), false;
  if (!kick(to, half, work.v0)) return false;
  velocities_of(*system, b, to, work.momentum, work.v1);
  set_velocities(work.v1, to);
  if (options.drift == Drift::exact) project_velocities(*system, dynamics, to, work.beyond);
  velocities(to, work.v1);
  if (!is_finite(to)) return refuse(report.status, state_not_finite), false;
  report.tension_frequency = std::max(report.tension_frequency, std::fabs(h) * stiffness_frequency(to, half));
  record_half(to, half, work.v0, work.v1);
  return true;
}

void Stepper::Impl::record_half(const State& at, double half, std::span<const double> from,
                                std::span<const double> to) {
  const ConstrainedProblem& problem = dynamics.assembly().problem;
  recorder.record(*system, dynamics, at, half, work.beyond, from, to);
  recorder.record_applied(block(), work.gyroscopic, from, to);
  recorder.record_momentum(block(), problem, problem.mass, from, to);
}

bool Stepper::Impl::solve_first_half(double h, const State& from, State& to) {
  work.stage = from;
  // Forces that depend on velocities use the velocity of the middle in both kicks. The first kick is implicit in it.
  double moved_before = std::numeric_limits<double>::infinity();
  for (int round = 0;; ++round) {
    if (round > 0) {
      velocities_of(*system, block(), from, work.momentum, work.gained);
      set_velocities(work.gained, work.stage);
      if (!depends_on_velocity(from, work.stage)) return true;
      std::copy(work.momentum.begin(), work.momentum.end(), work.momentum_before.begin());
    }
    if (!kick(work.stage, 0.5 * h, work.v0)) return false;
    to = from;
    to.t = from.t + h;
    system->update_kinematic(to);
    std::copy(work.v0.begin(), work.v0.end(), work.v1.begin());
    if (!carry_poses(h, from, to)) return false;
    if (round == 0) continue;
    double moved = 0, size = 0;
    for (std::size_t j = 0; j < work.momentum.size(); ++j) {
      moved = std::max(moved, std::fabs(work.momentum[j] - work.momentum_before[j]));
      size = std::max(size, std::fabs(work.momentum[j]));
    }
    if (moved <= 1e-15 * size || (moved <= 1e-9 * size && moved > 0.5 * moved_before)) return true;
    moved_before = moved;
    if (round == 50 || !std::isfinite(moved)) return refuse_velocity_dependence(from), false;
  }
}

bool Stepper::Impl::carry_poses(double h, const State& from, State& to) {
  if (options.drift != Drift::exact) {
    twists_of(*system, block(), from, h, work.momentum, work.v1);
    move(from, to, h, work.v1);
    return true;
  }
  // Newton continues to a hundredth of the promised tolerance. Poses are rounded once more after its last test, and the
  // remaining error is work of the constraints. It would give energy a trend (T13).
  const NewtonReport newton =
      end_on_constraints_with_momenta(*system, dynamics, from, to, h, work.momentum, work.v1, work.beyond,
                                      0.01 * options.newton_tolerance, options.max_newton);
  report.newton_solves += newton.solves;
  // It converged as far as its rounding allows.
  const bool met = newton.residual * std::fabs(h) <= options.newton_tolerance;
  if (newton.least_squares && !met) report.status = Status::contradictory;
  if (!newton.converged && !met && report.status != Status::contradictory)
    return refuse(report.status, end_not_on_constraints), false;
  return true;
}

void Stepper::Impl::refuse_velocity_dependence(const State& from) {
  dynamics.compute_rates(true);
  const bool known = dynamics.evaluate(from) != Status::invalid && dynamics.law_report().stiffest >= 0;
  dynamics.compute_rates(false);
  const std::string what = known ? name_of(dynamics.law_forces()[z(dynamics.law_report().stiffest)]) : "a force";
  refuse(report.status, what + " depends too strongly on the velocity for the method " +
                            std::string(to_string(options.method)) + ". Use a shorter step, or semi-implicit");
}

bool Stepper::Impl::depends_on_velocity(const State& a, const State& b) {
  if (!dynamics.law_forces().empty() || !dynamics.friction_elements().empty()) return true;
  for (const ConstraintId id : block().constraints)
    if (!laws_on(*system, id).empty()) return true;
  assemble_forces(*system, a, work.forces_alone);
  work.all_forces = work.forces_alone.problem.Q;
  gyroscopic_impulse(a, 1, work.gained);
  for (std::size_t j = 0; j < work.all_forces.size(); ++j) work.all_forces[j] += work.gained[j];
  assemble_forces(*system, b, work.forces_alone);
  gyroscopic_impulse(b, 1, work.gained);
  for (std::size_t j = 0; j < work.all_forces.size(); ++j) {
    const double force_there = work.forces_alone.problem.Q[j] + work.gained[j];
    // The rounding left after subtracting a gyroscopic torque is not a force.
    if (std::fabs(force_there - work.all_forces[j]) > 1e-13 * (std::fabs(force_there) + std::fabs(work.gained[j])))
      return true;
  }
  return false;
}

bool Stepper::Impl::step_symplectic(double dt) {
  if (options.method == Method::rattle) {
    if (!step_rattle(dt, state, work.next)) return false;
  } else {
    work.between = state;
    for (const double part : composition_4()) {
      if (!step_rattle(part * dt, work.between, work.next)) return false;
      std::swap(work.between, work.next);
    }
    std::swap(work.between, work.next);
    work.next.t = state.t + dt;
  }
  interpolate_ends(dt);
  return true;
}

namespace {

/// Velocities that carry the bodies across the step as their momenta say.
class MomentumUpdate final : public VelocityUpdate {
 public:
  MomentumUpdate(const System& system, const IslandLayout& layout, const State& base, double dt,
                 std::span<double> momentum, std::span<double> v)
      : system_(system), block_(layout), base_(base), dt_(dt), momentum_(momentum), v_(v) {}
  void add(std::span<const double> force, std::span<const double>) override {
    for (std::size_t j = 0; j < momentum_.size(); ++j) momentum_[j] += force[j];
    twists_of(system_, block_, base_, dt_, momentum_, v_);
  }

 private:
  const System& system_;
  const IslandLayout& block_;
  const State& base_;
  double dt_;
  std::span<double> momentum_, v_;
};

}  // namespace

NewtonReport end_on_constraints_with_momenta(const System& system, const Dynamics& dynamics, const State& base,
                                             State& end, double dt, std::span<double> momentum, std::span<double> v,
                                             std::span<double> lambda, double tolerance, int max_solves) {
  const IslandLayout& layout = dynamics.assembly().layout;
  twists_of(system, layout, base, dt, momentum, v);
  MomentumUpdate update(system, layout, base, dt, momentum, v);
  const EndOfStep step{system, dynamics, base, end, dt};
  const EndOfStepNewton::Options options{.tolerance = tolerance, .max_solves = max_solves, .needs_force = true};
  return EndOfStepNewton(step, options, v, update).solve(lambda, {});
}

}  // namespace linchpin
