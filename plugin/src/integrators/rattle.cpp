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

void Stepper::Impl::take_gyroscopic(const State& at, double h, std::span<double> out) {
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
  std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot[0].begin());
  std::fill(beyond.begin(), beyond.end(), 0.0);
  if (options.drift == Drift::baumgarte) {
    add_feedback(vdot[0]);
    for (std::size_t r = 0; r < beyond.size(); ++r) beyond[r] = h * beyond_rate[r];
  }
  take_gyroscopic(at, h, gyroscopic);
  for (std::size_t j = 0; j < gained.size(); ++j) gained[j] = v[j] + h * vdot[0][j];
  momenta_of(*system, block(), at, gained, momentum);
  for (std::size_t j = 0; j < momentum.size(); ++j) momentum[j] += gyroscopic[j];
  return true;
}

bool Stepper::Impl::step_rattle(double h, const State& from, State& to) {
  const Block& b = block();
  const double half = 0.5 * h;
  velocities(from, v0);
  stage = from;
  // Forces that depend on velocities see that of the middle in both kicks, the first of which is implicit in it.
  double moved_before = std::numeric_limits<double>::infinity();
  for (int round = 0;; ++round) {
    if (round > 0) {
      velocities_of(*system, b, from, momentum, gained);
      give(gained, stage);
      if (!depends_on_velocity(from, stage)) break;
      std::copy(momentum.begin(), momentum.end(), momentum_before.begin());
    }
    if (!kick(stage, half, v0)) return false;
    to = from;
    to.t = from.t + h;
    system->update_driven(to);
    std::copy(v0.begin(), v0.end(), v1.begin());
    if (options.drift == Drift::exact) {
      // Newton goes on to a hundredth of what is promised: poses are rounded once more after it has looked at them, and
      // what it leaves is work of the constraints, which would give energy a trend (T13).
      const NewtonReport newton = end_on_constraints_with_momenta(*system, dynamics, from, to, h, momentum, v1, beyond,
                                                                  0.01 * options.newton_tolerance, options.max_newton);
      report.newton_solves += newton.solves;
      const bool met = newton.residual * std::fabs(h) <= options.newton_tolerance;  // as far as its rounding lets it
      if (newton.least_squares && !met) report.status = Status::inconsistent;
      if (!newton.converged && !met && report.status != Status::inconsistent)
        return refuse(report.status, step_went_astray), false;
    } else {
      twists_of(*system, b, from, h, momentum, v1);
      move(from, to, h, v1);
    }
    if (round == 0) continue;
    double moved = 0, size = 0;
    for (std::size_t j = 0; j < momentum.size(); ++j) {
      moved = std::max(moved, std::fabs(momentum[j] - momentum_before[j]));
      size = std::max(size, std::fabs(momentum[j]));
    }
    if (moved <= 1e-15 * size || (moved <= 1e-9 * size && moved > 0.5 * moved_before)) break;
    moved_before = moved;
    if (round == 50 || !std::isfinite(moved)) {
      dynamics.ask_rates(true);
      const bool known = dynamics.evaluate(from) != Status::invalid && dynamics.law_report().stiffest >= 0;
      dynamics.ask_rates(false);
      const std::string what = known ? name_of(dynamics.law_efforts()[z(dynamics.law_report().stiffest)]) : "a force";
      return refuse(report.status, what + " changes so fast with the velocity that half a step cannot be found"), false;
    }
  }
  velocities_of(*system, b, from, momentum, gained);
  recorder.record(*system, dynamics, from, half, beyond, v0, gained);
  recorder.record_applied(b, gyroscopic, v0, gained);
  recorder.record_momentum(b, dynamics.assembly().instant, dynamics.assembly().instant.mass, v0, gained);

  velocities_of(*system, b, to, momentum, v0);  // v of the middle, as M at the end has it
  give(v0, to);
  if (!is_finite(to)) return refuse(report.status, "the state is not finite"), false;
  if (!kick(to, half, v0)) return false;
  velocities_of(*system, b, to, momentum, v1);
  give(v1, to);
  if (options.drift == Drift::exact) project_velocities(*system, dynamics, to, beyond);
  velocities(to, v1);
  if (!is_finite(to)) return refuse(report.status, "the state is not finite"), false;
  report.swing = std::max(report.swing, std::fabs(h) * swing_of(to, half));
  recorder.record(*system, dynamics, to, half, beyond, v0, v1);
  recorder.record_applied(b, gyroscopic, v0, v1);
  recorder.record_momentum(b, dynamics.assembly().instant, dynamics.assembly().instant.mass, v0, v1);
  return true;
}

bool Stepper::Impl::depends_on_velocity(const State& a, const State& b) {
  if (!dynamics.law_efforts().empty() || !dynamics.contacts().empty()) return true;
  for (const ConstraintId id : block().constraints)
    if (!laws(*system, id).empty()) return true;
  assemble_forces(*system, a, forces_alone);
  all_forces = forces_alone.instant.Q;
  take_gyroscopic(a, 1, gained);
  for (std::size_t j = 0; j < all_forces.size(); ++j) all_forces[j] += gained[j];
  assemble_forces(*system, b, forces_alone);
  take_gyroscopic(b, 1, gained);
  for (std::size_t j = 0; j < all_forces.size(); ++j) {
    const double force_there = forces_alone.instant.Q[j] + gained[j];
    // What is left of a gyroscopic torque taken away is no force.
    if (std::fabs(force_there - all_forces[j]) > 1e-13 * (std::fabs(force_there) + std::fabs(gained[j]))) return true;
  }
  return false;
}

bool Stepper::Impl::step_symplectic(double dt) {
  if (options.method == Method::rattle) {
    if (!step_rattle(dt, state, next)) return false;
  } else {
    between = state;
    for (const double part : composition_4()) {
      if (!step_rattle(part * dt, between, next)) return false;
      std::swap(between, next);
    }
    std::swap(between, next);
    next.t = state.t + dt;
  }
  interpolate_ends(dt);
  return true;
}

namespace {

/// Velocities that carry the bodies across the step as their momenta say.
class MomentumUpdate final : public VelocityUpdate {
 public:
  MomentumUpdate(const System& system, const Block& block, const State& base, double dt, std::span<double> momentum,
                 std::span<double> v)
      : system_(system), block_(block), base_(base), dt_(dt), momentum_(momentum), v_(v) {}
  void add(std::span<const double> force, std::span<const double>) override {
    for (std::size_t j = 0; j < momentum_.size(); ++j) momentum_[j] += force[j];
    twists_of(system_, block_, base_, dt_, momentum_, v_);
  }

 private:
  const System& system_;
  const Block& block_;
  const State& base_;
  double dt_;
  std::span<double> momentum_, v_;
};

}  // namespace

NewtonReport end_on_constraints_with_momenta(const System& system, const Dynamics& dynamics, const State& base,
                                             State& end, double dt, std::span<double> momentum, std::span<double> v,
                                             std::span<double> lambda, double tolerance, int max_solves) {
  const Block& block = dynamics.assembly().block;
  twists_of(system, block, base, dt, momentum, v);
  MomentumUpdate update(system, block, base, dt, momentum, v);
  const EndOfStep step{system, dynamics, base, end, dt};
  const EndOfStepNewton::Options options{.tolerance = tolerance, .max_solves = max_solves, .needs_force = true};
  return EndOfStepNewton(step, options, v, update).solve(lambda, {});
}

}  // namespace linchpin
