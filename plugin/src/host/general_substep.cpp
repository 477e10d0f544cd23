#include "host/general_substep.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/general_island_solver.h"
#include "host/island_watch.h"
#include "host/reactions.h"
#include "host/semi_implicit_substep.h"
#include "host/start_of_step.h"
#include "host/step_acceptance.h"
#include "host/substep_records.h"
#include "host/tuning.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

namespace {

class GeneralSubstep final : public SemiImplicitSubstep {
 public:
  GeneralSubstep(Context& c, Island& b, SubstepStates& states, double allowed, bool is_factored)
      : SemiImplicitSubstep(c, b, allowed), states_(states), is_factored_(is_factored) {}

  void accept(const Substep& s) override {
    record(s);
    accepted(s);
    if (b_.has(Trait::laws)) b_.dynamics->accept(s.length);
    copy_island(b_, states_.next, states_.now);
    is_factored_ = false;
  }

 protected:
  State& now() override { return states_.now; }
  std::span<const double> start_velocities() override { return b_.dynamics->assembly().v; }
  std::span<double> end_velocities() override { return b_.sums.v; }

  Acceptance solve(Substep& s) override {
    if (!find_forces(s)) return Acceptance::impossible;
    const int rows = b_.layout().m();
    const bool loose = b_.step.outcome.loose_convergence;
    if (s.taken * rows > (loose ? tuning::max_loose_row_substeps : tuning::max_row_substeps) &&
        !b_.dynamics->solver().full_row_rank()) {
      b_.step.outcome.over_budget = loose;
      return Acceptance::impossible;
    }
    return find_end(s) && is_short_enough(s) ? Acceptance::accepted : Acceptance::too_long;
  }

 private:
  // Evaluates the problem where the substep begins. The effect of friction, rotation and rows on the end of a substep
  // depends on its length. A rejected try of another length therefore computes its own forces with the same factor.
  bool find_forces(const Substep& s) {
    if (is_factored_ && !b_.has(Trait::laws) && !force_depends_on_length_ && b_.rows.passive.empty()) return true;
    states_.now.t = c_.t + s.done;
    force_depends_on_length_ = spread_forces(s.force_time);
    if (b_.has(Trait::laws)) b_.dynamics->set_step(s.force_time);
    if (is_factored_) return b_.dynamics->resolve(states_.now, b_.x.Q_total) != Status::invalid;
    ++b_.stats.factorizations;
    if (b_.dynamics->evaluate(states_.now, b_.x.Q_total) == Status::invalid) return false;
    is_factored_ = true;
    const double rows = b_.layout().m();
    if (b_.dynamics->solver().info().fallbacks > 0) b_.step.dense_flops += rows * rows * b_.layout().n();
    b_.step.outcome.over_budget = b_.step.dense_flops > tuning::max_dense_flops;
    return !b_.step.outcome.over_budget;
  }

  // Sums the applied force, the mean force of the host's impulses without their impacts, and the mean of the gyroscopic
  // torque of free rotation.
  // @return whether the force depends on the length of the substep
  bool spread_forces(double length) {
    const IslandLayout& layout = b_.layout();
    GyroscopicTorques& gyroscopic = b_.gyroscopics.substep;
    gyroscopic.clear();
    gyroscopic.set_time(length);
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = layout.bodies[slot];
      const int column = layout.column[slot];
      put(b_.x.Q_total, column, head(b_.x.Q, column) + head(b_.rows.force_now, column));
      if (!turns(layout, slot)) continue;
      put(b_.x.Q_total, column + 3, c_.bodies.load(id).torque + head(b_.rows.force_now, column + 3));
      if (!b_.gyroscopics.active[slot]) continue;
      gyroscopic.add(static_cast<int>(slot), c_.system.inertia(id).diagonal());
    }
    std::vector<double>& impulses = b_.sums.gyroscopic;
    impulses.assign(b_.x.v.size(), 0);
    gyroscopic.apply_free({c_.system, layout, states_.now}, impulses);
    for (std::size_t j = 0; j < impulses.size(); ++j) b_.x.Q_total[j] += impulses[j] / length;
    return !gyroscopic.empty();
  }

  void place_next(const Substep& s) {
    const auto& [start, now, next, end, projected] = states_;
    copy_island(b_, now, states_.next);
    states_.next.t = now.t + s.length;
    for (const BodyId id : b_.topology.boundary)
      if (c_.system.kind(id) == BodyKind::kinematic) {
        states_.next[id] = start[id];
        advance(states_.next[id], start[id].v, start[id].w, s.done + s.length);
      }
  }

  // A gap that the last step left among rows that nearly depend on each other closes in the time of a step. In a short
  // substep it would take impulses that are the larger, the shorter the substep is.
  void find_residual_target(const Substep& s) {
    const std::vector<double>& position = b_.dynamics->assembly().position;
    std::vector<double>& residual_target = b_.sums.residual_target;
    residual_target.clear();
    if (b_.step.start_gap == StartGap::turned_far)
      residual_target.assign(position.begin(), position.end());
    else if (const double gap = largest(position);
             gap > tuning::substep_gap_rounding && gap <= c_.options.gap_tolerance)
      for (const double phi : position) residual_target.push_back((1 - s.length / c_.dt) * phi);
  }

  bool find_end(Substep& s) {
    const linchpin::ConstraintFactorization& solver = b_.dynamics->solver();
    place_next(s);
    const auto ideal = b_.dynamics->ideal(), nonideal = b_.dynamics->nonideal();
    std::vector<double>&force = b_.x.force, &v = b_.sums.v;
    for (std::size_t j = 0; j < force.size(); ++j) force[j] = s.force_time * (b_.x.Q_total[j] + ideal[j] + nonideal[j]);
    if (s.first())
      for (std::size_t j = 0; j < force.size(); ++j) force[j] += b_.rows.impact_now[j];
    solver.inverse_mass(force, b_.x.dv);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] = b_.dynamics->assembly().v[j] + b_.x.dv[j];
    std::fill(b_.x.newton.begin(), b_.x.newton.end(), 0.0);
    std::fill(force.begin(), force.end(), 0.0);
    if (!finite(v)) return false;
    find_residual_target(s);
    const NewtonReport newton = end_step(c_, b_, states_.now, states_.now, states_.next, s.length, v,
                                         b_.gyroscopics.substep, b_.sums.residual_target);
    contradicts_ = contradicts(newton, s.length, c_.options.gap_tolerance);
    return newton.converged && finite(v) && !gear_turns_too_far(c_, b_, states_.next, s.length);
  }

  bool is_short_enough(Substep& s) {
    const Assembly& assembly = b_.dynamics->assembly();
    for (std::size_t i = 0; i < b_.x.mean_force.size(); ++i)
      b_.x.mean_force[i] = b_.dynamics->lambda()[i] + b_.dynamics->induced()[i] + b_.x.newton[i] / s.force_time;
    const double limit = c_.options.max_tension_frequency;
    s.omega_dt = tension_frequency(c_.system, *b_.dynamics, states_.now, b_.x.mean_force,
                                   tuning::doubling_share * limit / s.length) *
                 s.length;
    if (s.omega_dt > limit && s.is_tested) return false;
    s.gain = gain_of_constraints(c_, b_, s.force_time, assembly.v, b_.sums.v);
    s.explained = explained_gain(c_, b_, s.force_time, s.gain, assembly.v, b_.sums.v);
    s.kinetic = kinetic_energy(assembly, assembly.v);
    s.end_kinetic = kinetic_energy(assembly, b_.sums.v);
    if (s.is_tested && gains_too_much(s, s.gain, s.end_kinetic, s.kinetic)) return false;
    b_.step.outcome.contradictory = contradicts_;
    return true;
  }

  // Adds an accepted substep to the sums, each from its own source.
  void record(const Substep& s) {
    const Assembly& assembly = b_.dynamics->assembly();
    const IslandLayout& layout = b_.layout();
    State& next = states_.next;
    SubstepSums& sums = b_.sums;
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = layout.bodies[slot];
      const int column = layout.column[slot];
      next[id].v = head(sums.v, column);
      add(sums.momentum, column, c_.system.mass(id) * (head(sums.v, column) - head(assembly.v, column)));
      add(sums.applied, column, s.force_time * head(b_.x.Q, column));
      if (!turns(layout, slot)) continue;
      next[id].w = head(sums.v, column + 3);
      add(sums.momentum, column + 3,
          c_.system.world_inertia(id, states_.now[id].q) * (head(sums.v, column + 3) - head(assembly.v, column + 3)));
      add(sums.applied, column + 3, s.force_time * c_.bodies.load(id).torque + head(sums.gyroscopic, column + 3));
    }
    b_.gyroscopics.substep.apply(layout, sums.applied);
    for (std::size_t row = 0; row < b_.x.row.size(); ++row) {
      b_.x.row[row] = s.force_time * (b_.dynamics->lambda()[row] + b_.dynamics->induced()[row]) + b_.x.newton[row];
      sums.multipliers[row] += b_.x.row[row];
    }
    if (reports_later(c_, b_)) record_work();
    if (b_.has(Trait::laws)) {
      c_.laws.book(c_.system, c_.constraints, b_.topology.entries, *b_.dynamics, states_.now, s.force_time, assembly.v,
                   sums.v);
      note_law_trouble(b_);
    }
    record_wrenches();
    add_prescribed(c_, b_, states_.now, s.force_time, c_.dt, sums.wrenches);
  }

  void record_work() {
    for (std::size_t j = 0; j < b_.x.dv.size(); ++j) b_.x.dv[j] = 0.5 * (b_.dynamics->assembly().v[j] + b_.sums.v[j]);
    row_velocities(b_.dynamics->assembly(), b_.x.dv, b_.x.row_velocity);
    for (std::size_t row = 0; row < b_.x.row.size(); ++row) b_.sums.work[row] += b_.x.row[row] * b_.x.row_velocity[row];
  }

  void record_wrenches() {
    const Assembly& assembly = b_.dynamics->assembly();
    std::size_t at = 0;
    for (std::size_t i = 0; i < b_.topology.ids.size(); ++i) {
      const auto bodies = c_.system.constraint(b_.topology.ids[i]).bodies();
      for (std::size_t k = 0; k < bodies.size(); ++k, ++at) {
        const int constraint = static_cast<int>(i), body = static_cast<int>(k);
        const Vector6 all = wrench_at_centre(assembly, constraint, body, b_.x.row);
        b_.sums.wrenches[at] += all / c_.dt;
        const int slot = b_.layout().body_index(bodies[k]);
        if (slot < 0) continue;
        const Vector6 newton = wrench_at_centre(assembly, constraint, body, b_.x.newton);
        note_largest_impulse(b_, slot, std::max(all.head<3>().norm(), newton.head<3>().norm()),
                             std::max(all.tail<3>().norm(), newton.tail<3>().norm()));
      }
    }
  }

  SubstepStates& states_;
  bool is_factored_, force_depends_on_length_ = false, contradicts_ = false;
};

}  // namespace

bool take_general_substeps(Context& c, Island& b, SubstepStates& states, double before, double first,
                           bool is_factored) {
  begin_substeps(c, b, states);
  const double allowed =
      bounds_energy(c, b) ? energy_allowance(c, b)
                          : energy_floor(c, b) + tuning::allowed_gain * kinetic_energy(b.dynamics->assembly(), b.x.v0);
  GeneralSubstep method(c, b, states, allowed, is_factored);
  const SubstepResult result =
      take_substeps(method, semi_implicit_limits(c, b, tuning::general_price), c.dt, first, before);
  if (!result.complete) {
    for (const BodyId id : b.layout().bodies) {
      c.bodies.base[id] = states.start[id];
      c.bodies.end[id] = states.end[id];
    }
    b.step.substeps = result.taken;
    forget_law_works(c, b);
    return false;
  }
  b.x.v.swap(b.sums.v);
  end_semi_implicit_substeps(c, b, states.now, result, method.largest_omega_dt(), true);
  if (reports_later(c, b)) {
    b.history.next_length = result.next_length;
    b.step.problem_is_current = false;
  } else {
    write_stabilisation(c, b);
  }
  return true;
}

}  // namespace linchpin::host
