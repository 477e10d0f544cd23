#include "dynamics/step_watch.h"

#include "math/union_find.h"
#include "model/system_impl.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace linchpin {
namespace {

/// Error of poses that a step may have to close, relative to 1 m or to the distance from the origin.
constexpr double pose_rounding = 1e-12;

}  // namespace

void StepWatch::restructure(const System& system, const IslandLayout& layout) {
  bodies_ = layout.bodies;
  std::vector<int> root(bodies_.size());
  std::iota(root.begin(), root.end(), 0);
  const auto join = [&](std::span<const BodyId> joined) {
    int first = -1;
    for (const BodyId id : joined) {
      const int slot = layout.body_index(id);
      if (slot < 0) continue;
      if (first >= 0) root[z(detail::find_root(root, slot))] = detail::find_root(root, first);
      first = slot;
    }
  };
  for (const ConstraintId id : layout.constraints) join(system.constraint(id).bodies());
  for (const Force& force : system.forces()) join(force.bodies());
  islands_.clear();
  island_of_.assign(bodies_.size(), -1);
  std::vector<int> island_of_root(bodies_.size(), -1);
  for (std::size_t s = 0; s < bodies_.size(); ++s) {
    int& island = island_of_root[z(detail::find_root(root, static_cast<int>(s)))];
    if (island < 0) {
      island = static_cast<int>(islands_.size());
      islands_.push_back({.first = bodies_[s]});
    }
    island_of_[s] = island;
    Island& of = islands_[z(island)];
    ++of.bodies;
    of.has_coordinates = of.has_coordinates || system.kind(bodies_[s]) == BodyKind::coordinate;
  }
  worst_ = -1;
}

double StepWatch::kinetic(const System& system, const State& at, std::size_t slot) const {
  if (islands_[z(island_of_[slot])].has_coordinates) return 0;
  const BodyState& s = at[bodies_[slot]];
  double sum = 0.5 * system.mass(bodies_[slot]) * s.v.squaredNorm();
  if (system.kind(bodies_[slot]) == BodyKind::rigid)
    sum += 0.5 * s.w.dot(system.world_inertia(bodies_[slot], s.q) * s.w);
  return sum;
}

void StepWatch::begin(const System& system, const State& at) {
  for (Island& island : islands_) island.start = 0;
  for (std::size_t s = 0; s < bodies_.size(); ++s) islands_[z(island_of_[s])].start += kinetic(system, at, s);
}

StepWatch::FromRest StepWatch::from_rest(const System& system, const Dynamics& dynamics, const Step& step,
                                         std::size_t slot) {
  const Assembly& assembly = dynamics.assembly();
  const BodyId id = assembly.layout.bodies[slot];
  const BodyState& body = step.end[id];
  FromRest out;
  out.rounding = pose_rounding * std::max(1.0, body.p.cwiseAbs().maxCoeff()) / step.dt;
  if (system.kind(id) == BodyKind::coordinate) return out;
  const Vector6d Q = twist_of(assembly.layout, slot, assembly.problem.Q);
  const double mass = system.mass(id), squared = out.rounding * out.rounding;
  out.v = step.dt / mass * Q.head<3>();
  out.energy = 0.5 * mass * (out.v.squaredNorm() + squared);
  if (system.kind(id) != BodyKind::rigid) return out;
  const Matrix3d inertia = system.world_inertia(id, body.q);
  const Vector3d torque = Q.tail<3>() - system.gyroscopic_torque(id, body);
  out.w = step.dt * (inertia.inverse() * torque);
  out.energy += 0.5 * (step.dt * torque.dot(out.w) + inertia.trace() * squared);
  return out;
}

double StepWatch::compare_energies(const System& system, const Dynamics& dynamics, const Step& step,
                                   std::span<const double> sources) {
  for (Island& island : islands_) island.end = island.sources = island.rest = 0;
  for (std::size_t s = 0; s < bodies_.size(); ++s) {
    Island& island = islands_[z(island_of_[s])];
    if (island.has_coordinates) continue;
    island.end += kinetic(system, step.end, s);
    island.sources += sources[s];
    island.rest += from_rest(system, dynamics, step, s).energy;
  }
  add_potential_work(system, dynamics.assembly().layout, step);
  for (Island& island : islands_) {
    if (island.has_coordinates) continue;
    island.account.raise_floor(island.rest);
    island.account.end_step(island.start, island.end, island.end - island.start - island.sources);
  }
  return find_worst();
}

// The work of a force with a potential is the difference of the potential. Its work along the steps is not: a spring
// that drives a motion which diverges does all the work of it. A potential that depends on time also changes by itself.
// That part is the mean of its changes where the step begins and where it ends, and it is a source.
void StepWatch::add_potential_work(const System& system, const IslandLayout& layout, const Step& step) {
  const auto read = [&](const State& state, BodyId id, double lag) {
    BodyState body = state[id];
    if (lag > 0) advance(body, body.v, body.w, -lag);
    return body;
  };
  for (const Force& force : system.forces()) {
    if (!has_potential_of_bodies(system, force)) continue;
    int island = -1;
    of_force_start_.clear();
    of_force_end_.clear();
    for (const BodyId id : force.bodies()) {
      const int slot = layout.body_index(id);
      if (slot >= 0 && island < 0) island = island_of_[z(slot)];
      of_force_start_.push_back(read(step.start, id, step.start_lag));
      of_force_end_.push_back(read(step.end, id, step.end_lag));
    }
    if (island < 0 || islands_[z(island)].has_coordinates) continue;
    const double t0 = step.start.t, t1 = t0 + step.dt;
    islands_[z(island)].sources += 0.5 * (force.energy(of_force_start_, t0) - force.energy(of_force_end_, t0) +
                                          force.energy(of_force_start_, t1) - force.energy(of_force_end_, t1));
  }
}

double StepWatch::explain(const IslandLayout& layout, BodyId body) {
  const int slot = layout.body_index(body);
  if (slot >= 0) {
    Island& island = islands_[z(island_of_[z(slot)])];
    island.account.end_step(island.start, island.end, 0);
  }
  return find_worst();
}

double StepWatch::find_worst() {
  double most = 0;
  worst_ = -1;
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    const double relative = islands_[i].account.relative_gain();
    if (!(relative > most)) continue;
    most = relative;
    worst_ = static_cast<int>(i);
  }
  return most;
}

void StepWatch::forget_gain() {
  if (worst_ >= 0) islands_[z(worst_)].account.forget_gain();
}

void StepWatch::compare_velocities(const System& system, const Dynamics& dynamics, const Assembly& assembly,
                                   const Step& step) {
  floors_.clear();
  for (std::size_t s = 0; s < bodies_.size(); ++s) {
    const FromRest rest = from_rest(system, dynamics, step, s);
    floors_.push_back({rest.v.norm() + rest.rounding, rest.w.norm() + rest.rounding});
  }
  for (Island& island : islands_) island.residual.begin_step();
  for (int i = 0; i < static_cast<int>(assembly.layout.constraints.size()); ++i)
    for (const BodyId id : system.constraint(assembly.layout.constraints[z(i)]).bodies()) {
      const int slot = assembly.layout.body_index(id);
      if (slot < 0) continue;
      islands_[z(island_of_[z(slot)])].residual.add(
          residual_of_constraint(system, assembly, step.end, i, step.end_lag, floors_));
      break;
    }
}

bool StepWatch::residual_grows(double limit) const {
  return std::any_of(islands_.begin(), islands_.end(), [&](const Island& island) {
    return island.residual.worst().relative > limit && island.residual.grows();
  });
}

}  // namespace linchpin
