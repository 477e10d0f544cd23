// Displaces states, and measures directions by the size and the rate of the mechanism.
#include "dynamics/state_directions.h"

#include "math/vector_ops.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>

namespace linchpin {
namespace {

Vector3d three(std::span<const double> x, int at) { return {x[z(at)], x[z(at + 1)], x[z(at + 2)]}; }

/// The size of a mechanism: the distance over which its bodies are spread, their radius of gyration, or the distance at
/// which constraints act. The distance of a lone particle from the origin counts where there is nothing else.
double size_of_mechanism(const System& system, const IslandLayout& layout, const State& state) {
  double most = 0, farthest = 0;
  const Vector3d* first = nullptr;
  for (const BodyId id : layout.bodies) {
    if (system.kind(id) == BodyKind::coordinate) continue;
    if (first == nullptr) first = &state[id].p;
    most = std::max(most, (state[id].p - *first).norm());
    farthest = std::max(farthest, state[id].p.norm());
    if (system.kind(id) == BodyKind::rigid)
      most = std::max(most, std::sqrt(system.inertia(id).trace() / 3 / system.mass(id)));
  }
  for (const ConstraintId id : layout.constraints) {
    const Constraint& constraint = system.constraint(id);
    if (constraint.application_point_moves()) continue;
    for (std::size_t k = 0; k < constraint.bodies().size(); ++k)
      if (const BodyId body = constraint.bodies()[k]; system.dof(body) > 0)
        most = std::max(most, (constraint.application_point(static_cast<int>(k), state) - state[body].p).norm());
  }
  if (!(most > 0)) most = farthest;
  return most > 0 ? most : 1;
}

}  // namespace

void StateDirections::measure(const State& state) {
  length_ = size_of_mechanism(system_, layout_, state);
  const double rate = std::max(rate_of(state), std::sqrt(system_.gravity().norm() / length_));
  rate_ = rate > 0 ? rate : 1;
}

double StateDirections::rate_of(const State& state) const {
  double most = 0;
  for (const BodyId id : layout_.bodies) {
    if (system_.kind(id) == BodyKind::coordinate)
      most = std::max(most, std::fabs(state[id].v.x()));
    else
      most = std::max({most, state[id].v.norm() / length_, state[id].w.norm()});
  }
  return most;
}

void StateDirections::displace(const State& from, std::span<const double> dq, std::span<const double> dv, double part,
                               State& to) const {
  to = from;
  for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
    const BodyId id = layout_.bodies[s];
    BodyState& body = to[id];
    const int at = layout_.column[s];
    if (system_.kind(id) == BodyKind::coordinate) {
      body.p.x() += part * dq[z(at)];
      body.v.x() += part * dv[z(at)];
      continue;
    }
    const bool rigid = system_.kind(id) == BodyKind::rigid;
    advance(body, three(dq, at), rigid ? three(dq, at + 3) : Vector3d(Vector3d::Zero()), part);
    body.v += part * three(dv, at);
    if (rigid) body.w += part * three(dv, at + 3);
  }
}

void StateDirections::difference(const State& from, const State& to, std::span<double> dq, std::span<double> dv) const {
  const auto write = [](std::span<double> out, int at, const Vector3d& u) {
    for (int i = 0; i < 3; ++i) out[z(at + i)] = u[i];
  };
  for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
    const BodyState &a = from[layout_.bodies[s]], &b = to[layout_.bodies[s]];
    const int at = layout_.column[s];
    const BodyKind kind = system_.kind(layout_.bodies[s]);
    if (kind == BodyKind::coordinate) {
      dq[z(at)] = b.p.x() - a.p.x();
      dv[z(at)] = b.v.x() - a.v.x();
      continue;
    }
    write(dq, at, b.p - a.p);
    write(dv, at, b.v - a.v);
    if (kind != BodyKind::rigid) continue;
    write(dq, at + 3, turn_between(a.q, b.q));
    write(dv, at + 3, b.w - a.w);
  }
}

double StateDirections::size_of(std::span<const double> dq, std::span<const double> dv) const {
  double most = 0;
  for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
    const int at = layout_.column[s];
    const BodyKind kind = system_.kind(layout_.bodies[s]);
    if (kind == BodyKind::coordinate) {
      most = std::max({most, std::fabs(dq[z(at)]), std::fabs(dv[z(at)]) / rate_});
      continue;
    }
    most = std::max({most, three(dq, at).norm() / length_, three(dv, at).norm() / (rate_ * length_)});
    if (kind == BodyKind::rigid) most = std::max({most, three(dq, at + 3).norm(), three(dv, at + 3).norm() / rate_});
  }
  return most;
}

}  // namespace linchpin
