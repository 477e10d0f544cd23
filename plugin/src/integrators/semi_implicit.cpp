// The semi-implicit step (T12). Substeps are as short as the geometric stiffness of its own forces requires (T15).
// Unilateral constraints release or engage within it.
#include "integrators/stepper_impl.h"
#include "model/format.h"

#include <linchpin/constraint.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace linchpin {

namespace {
constexpr const char* tension_too_fast = "the tension frequency of a body is too high for the step";
}

bool Stepper::Impl::centre_gyroscopic(double h) {
  double most = 0, size = 0;
  std::fill(work.force.begin(), work.force.end(), 0.0);
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const BodyId id = block().bodies[s];
    if (system->kind(id) != BodyKind::rigid) continue;
    BodyState body = state[id];
    const Vector3d at_start = system->gyroscopic_torque(id, body);
    body.w = twist_of(block(), s, work.v1).tail<3>();
    const Vector3d turned = 0.5 * h * (system->gyroscopic_torque(id, body) - at_start);
    for (int j = 0; j < 3; ++j) {
      const std::size_t column = z(block().column[s] + 3 + j);
      work.force[column] = turned[j] - work.gyroscopic[column];
      most = std::max(most, std::fabs(work.force[column]));
      size = std::max(size, h * std::fabs(at_start[j]));
    }
  }
  if (!(most > 1e-9 * size)) return false;
  for (std::size_t j = 0; j < work.force.size(); ++j) work.gyroscopic[j] += work.force[j];
  dynamics.solver().inverse_mass(work.force, work.force);
  for (std::size_t j = 0; j < work.v1.size(); ++j) work.v1[j] += work.force[j];
  return true;
}

double Stepper::Impl::mobility_of(int constraint) {
  const IslandLayout& b = block();
  const auto& bodies = system->constraint(b.constraints[z(constraint)]).bodies();
  std::fill(work.force.begin(), work.force.end(), 0.0);
  std::fill(work.all.begin(), work.all.end(), 0.0);
  work.all[z(b.row[z(constraint)])] = 1;
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    const int slot = b.body_index(bodies[k]);
    if (slot < 0) continue;
    const Vector6d w = wrench_at_centre(dynamics.assembly(), constraint, static_cast<int>(k), work.all);
    for (int j = b.column[z(slot)]; j < b.column[z(slot + 1)]; ++j) work.force[z(j)] += w[j - b.column[z(slot)]];
  }
  work.gained = work.force;
  dynamics.solver().inverse_mass(work.force, work.force);
  double sum = 0;
  for (std::size_t j = 0; j < work.force.size(); ++j) sum += work.gained[j] * work.force[j];
  return sum;
}

bool Stepper::Impl::find_wrong_unilateral(double h, double kick) {
  switching.over_active.assign(switching.active_unilateral.size(), 0);
  switching.over_inactive.assign(switching.inactive_unilateral.size(), 0);
  char* worst = nullptr;
  double most = std::max(10 * options.newton_tolerance, 1e-15);
  const auto consider = [&](ConstraintId on, double depth, char& which) {
    if (!(depth > most) ||
        std::count(switching.switched_in_substep.begin(), switching.switched_in_substep.end(), on) >= 2)
      return;
    most = depth;
    worst = &which;
  };
  for (std::size_t k = 0; k < switching.active_unilateral.size(); ++k)
    for (std::size_t i = 0; i < block().constraints.size(); ++i) {
      if (block().constraints[i] != switching.active_unilateral[k].on) continue;
      const std::size_t r = z(block().row[i]);
      const double push = (switching.active_unilateral[k].negative ? -1 : 1) *
                          (dynamics.lambda()[r] + dynamics.induced()[r] + work.beyond[r] / kick);
      if (push < 0)
        consider(switching.active_unilateral[k].on, -push * kick * h * mobility_of(static_cast<int>(i)),
                 switching.over_active[k]);
    }
  for (std::size_t k = 0; k < switching.inactive_unilateral.size(); ++k)
    consider(switching.inactive_unilateral[k].on, -gap_of(switching.inactive_unilateral[k], work.next),
             switching.over_inactive[k]);
  if (worst == nullptr) return false;
  *worst = 1;
  return true;
}

Stepper::Impl::Outcome Stepper::Impl::substep(double h, bool finest, double& swing, const char*& reason) {
  // Velocities belong to the middle of their steps, and from one middle to the next is half of each step. With h alone,
  // a pendulum with short steps where it is fast comes to rest within minutes.
  const double kick = last_h > 0 ? 0.5 * (last_h + h) : h;
  const Status status = start_velocities(kick);
  if (status == Status::invalid) return Outcome::invalid;

  work.next = state;
  work.next.t = state.t + h;
  system->update_kinematic(work.next);
  std::fill(work.gyroscopic.begin(), work.gyroscopic.end(), 0.0);
  if (options.drift != Drift::exact) {
    move(state, work.next, h, work.v1);
  } else if (!solve_end_of_substep(h, status)) {
    reason = end_not_on_constraints;
    return Outcome::too_long;
  }
  reason = "the velocity is not finite: a force is infinite, or the motion has diverged. Use a shorter step";
  if (!finite(work.v1)) return Outcome::too_long;
  if (!(switching.active_unilateral.empty() && switching.inactive_unilateral.empty()) && find_wrong_unilateral(h, kick))
    return release_and_engage(state.t + h) ? Outcome::switched : Outcome::invalid;
  swing = stiffness_frequency(state, kick);
  reason = tension_too_fast;
  // At the finest substep the limit of stability is used. Beyond it the result is rejected (T15).
  const double limit = finest ? std::max(options.max_tension_frequency, 2.0) : options.max_tension_frequency;
  if (options.drift == Drift::exact && !(swing * h <= limit)) return Outcome::too_long;
  accept_semi_implicit(h, kick);
  return Outcome::done;
}

Status Stepper::Impl::start_velocities(double kick) {
  dynamics.set_step(kick);  // Friction obeys its law at the end of the step.
  const Status status = dynamics.evaluate(state);
  if (status == Status::invalid) return status;
  report.status = std::max(report.status, status);
  std::copy(dynamics.assembly().v.begin(), dynamics.assembly().v.end(), work.v0.begin());
  std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), work.vdot[0].begin());
  std::fill(work.beyond.begin(), work.beyond.end(), 0.0);
  if (options.drift == Drift::baumgarte) {
    add_feedback(work.vdot[0]);
    for (std::size_t r = 0; r < work.beyond.size(); ++r) work.beyond[r] = kick * work.beyond_rate[r];
  }
  for (std::size_t j = 0; j < work.v0.size(); ++j) work.v1[j] = work.v0[j] + kick * work.vdot[0][j];
  return status;
}

bool Stepper::Impl::solve_end_of_substep(double h, Status status) {
  // Each Newton moves sticking elements a little, so they are brought to rest again.
  const auto unsettled = [&] {
    const bool turned = centre_gyroscopic(h);
    return dynamics.reapply_stick(state, work.v1) > 1e-15 * (1 + largest(work.v1)) || turned;
  };
  for (int round = 0; round == 0 || (round < 4 && unsettled()); ++round) {
    const NewtonReport newton = solve_end_of_step(*system, dynamics, state, work.next, h, work.v1, work.beyond, {},
                                                  options.newton_tolerance, options.max_newton);
    report.newton_solves += newton.solves;
    // Contradictory rows cannot be met at the end of the step. The step is then the least-squares one, and its status
    // says so.
    if (newton.least_squares) report.status = Status::contradictory;
    if (!newton.converged && status != Status::contradictory) return false;
  }
  return true;
}

void Stepper::Impl::accept_semi_implicit(double h, double kick) {
  recorder.record(*system, dynamics, state, kick, work.beyond, work.v0, work.v1);
  recorder.record_applied(block(), work.gyroscopic, work.v0, work.v1);
  record_modes(state.t + h);
  dynamics.accept(h);
  const ConstrainedProblem& problem = dynamics.assembly().problem;
  recorder.record_momentum(block(), problem, problem.mass, work.v0, work.v1);
  interpolate_ends(h);
  std::swap(state, work.next);
  store_segment();
  last_h = h;
}

void Stepper::Impl::record_modes(double t) {
  const auto contacts = dynamics.friction_elements();
  report.sticking = dynamics.law_report().sticking;
  const bool known = switching.stuck.size() == contacts.size();
  if (!known) switching.stuck.assign(contacts.size(), 0);
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    const FrictionElement& c = contacts[i];
    if (known && c.sticks != static_cast<bool>(switching.stuck[i]))
      record_switch(t, {block().constraints[z(c.constraint)], c.law, c.term},
                    c.sticks ? ModeSwitch::What::sticks : ModeSwitch::What::slides);
    switching.stuck[i] = c.sticks;
  }
}

void Stepper::Impl::semi_implicit(double dt) {
  // Time in a step is counted in its smallest parts, so that halves meet the end exactly. The frequency of the last
  // step is only a first guess. A substep is accepted by the forces that it had itself.
  const int parts = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1, options.max_substeps))));
  const int longest = std::max(1, parts >> watching.halvings);
  int stride = longest;
  while (stride > 1 && last_frequency * dt * stride / parts > options.max_tension_frequency) stride /= 2;
  report.substeps = 0;
  double fastest = 0;
  switching.switched_in_substep.clear();
  for (int done = 0; done < parts;) {
    const double h = dt * stride / parts;
    double swing = 0;
    const char* reason = nullptr;
    const Outcome outcome = substep(h, stride == 1, swing, reason);
    if (outcome == Outcome::invalid) return refuse(Status::invalid, dynamics.reason());
    if (outcome == Outcome::switched) continue;
    switching.switched_in_substep.clear();
    if (outcome == Outcome::too_long) {
      if (stride == 1)
        return refuse(report.status, reason != tension_too_fast
                                         ? std::string(reason)
                                         : "the tension frequency of a body is too high for the step (omega dt = " +
                                               text(swing * h) + " in the shortest substep). Use a shorter step");
      stride /= 2;
      continue;
    }
    done += stride;
    ++report.substeps;
    report.tension_frequency = std::max(report.tension_frequency, swing * h);
    fastest = std::max(fastest, swing);
    if (stride < longest && done % (2 * stride) == 0 && 2 * swing * h < 0.75 * options.max_tension_frequency)
      stride *= 2;
  }
  last_frequency = fastest;
}

}  // namespace linchpin
