#include "dynamics/energy_watch.h"

#include "math/union_find.h"
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

void EnergyWatch::restructure(const System& system, const IslandLayout& layout) {
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
    if (system.kind(bodies_[s]) == BodyKind::coordinate) continue;
    int& island = island_of_root[z(detail::find_root(root, static_cast<int>(s)))];
    if (island < 0) {
      island = static_cast<int>(islands_.size());
      islands_.push_back({.first = bodies_[s]});
    }
    island_of_[s] = island;
    ++islands_[z(island)].bodies;
  }
  // A coordinate shares the energy of its island with bodies.
  for (std::size_t s = 0; s < bodies_.size(); ++s)
    if (system.kind(bodies_[s]) == BodyKind::coordinate)
      if (const int island = island_of_root[z(detail::find_root(root, static_cast<int>(s)))]; island >= 0)
        for (int& other : island_of_)
          if (other == island) other = -1;
  worst_ = -1;
}

double EnergyWatch::kinetic(const System& system, const State& at, std::size_t slot) const {
  const BodyState& s = at[bodies_[slot]];
  double sum = 0.5 * system.mass(bodies_[slot]) * s.v.squaredNorm();
  if (system.kind(bodies_[slot]) == BodyKind::rigid)
    sum += 0.5 * s.w.dot(system.world_inertia(bodies_[slot], s.q) * s.w);
  return sum;
}

void EnergyWatch::begin(const System& system, const State& at) {
  for (Island& island : islands_) island.start = 0;
  for (std::size_t s = 0; s < bodies_.size(); ++s)
    if (island_of_[s] >= 0) islands_[z(island_of_[s])].start += kinetic(system, at, s);
}

double EnergyWatch::end(const System& system, const Dynamics& dynamics, const State& at,
                        std::span<const double> sources, double dt) {
  for (Island& island : islands_) island.end = island.pending = island.rest = 0;
  const Assembly& assembly = dynamics.assembly();
  for (std::size_t s = 0; s < bodies_.size(); ++s) {
    if (island_of_[s] < 0) continue;
    Island& island = islands_[z(island_of_[s])];
    const BodyId id = bodies_[s];
    const BodyState& body = at[id];
    const double mass = system.mass(id), open = pose_rounding * std::max(1.0, body.p.cwiseAbs().maxCoeff()) / dt;
    const Vector6d Q = twist_of(assembly.layout, s, assembly.problem.Q);
    island.end += kinetic(system, at, s);
    island.pending -= sources[s];
    island.rest += 0.5 * (dt * dt * Q.head<3>().squaredNorm() / mass + mass * open * open);
    if (system.kind(id) != BodyKind::rigid) continue;
    const Matrix3d inertia = system.world_inertia(id, body.q);
    const Vector3d torque = Q.tail<3>() - system.gyroscopic_torque(id, body);
    island.rest += 0.5 * (dt * dt * torque.dot(inertia.inverse() * torque) + inertia.trace() * open * open);
  }
  double most = 0;
  worst_ = -1;
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    Island& island = islands_[i];
    island.pending += island.end - island.start;
    island.floor = std::max(island.floor, island.rest);
    const double gain = std::max(0.0, island.gain + island.pending);
    const double scale = std::max(island.scale, std::max(island.start, island.end - gain)) + island.floor;
    const double relative = scale > 0 ? gain / scale : 0;
    if (!(relative > most)) continue;
    most = relative;
    worst_ = static_cast<int>(i);
  }
  return most;
}

void EnergyWatch::accept() {
  for (Island& island : islands_) {
    island.gain = std::max(0.0, island.gain + island.pending);
    island.scale = std::max(island.scale, island.end - island.gain);
  }
}

void EnergyWatch::forget_gain() {
  if (worst_ < 0) return;
  Island& island = islands_[z(worst_)];
  island.scale = std::max(island.scale, island.end);
  island.gain = 0;
}

}  // namespace linchpin
