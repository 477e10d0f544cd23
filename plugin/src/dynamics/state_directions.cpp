// Displaces states, and measures directions by the size and the rate of the mechanism.
#include "dynamics/state_directions.h"

#include "math/vector_ops.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>

namespace linchpin {
namespace {

Vector3d three(std::span<const double> x, int at) { return {x[z(at)], x[z(at + 1)], x[z(at + 2)]}; }

/// The distance over which bodies are spread, or the radius of gyration of one.
double spread(const System& system, const IslandLayout& layout, const State& state) {
  double most = 0;
  const Vector3d* first = nullptr;
  for (const BodyId id : layout.bodies) {
    if (system.kind(id) == BodyKind::coordinate) continue;
    if (first == nullptr) first = &state[id].p;
    most = std::max(most, (state[id].p - *first).norm());
    if (system.kind(id) == BodyKind::rigid)
      most = std::max(most, std::sqrt(system.inertia(id).trace() / 3 / system.mass(id)));
    else
      most = std::max(most, 1e-3 * state[id].p.norm());
  }
  return most;
}

/// The largest distance of a centre of mass from a point where a constraint acts on the body.
double longest_lever(const System& system, const IslandLayout& layout, const State& state) {
  double most = 0;
  for (const ConstraintId id : layout.constraints) {
    const Constraint& constraint = system.constraint(id);
    if (constraint.application_point_moves()) continue;
    for (std::size_t k = 0; k < constraint.bodies().size(); ++k)
      if (const BodyId body = constraint.bodies()[k]; system.dof(body) > 0)
        most = std::max(most, (constraint.application_point(static_cast<int>(k), state) - state[body].p).norm());
  }
  return most;
}

}  // namespace

void StateDirections::measure(const State& state, Size size) {
  length_ = spread(system_, layout_, state);
  if (size == Size::of_constraints) {
    length_ = std::max(length_, longest_lever(system_, layout_, state));
    const bool is_lone_particle = layout_.bodies.size() == 1 && system_.kind(layout_.bodies[0]) == BodyKind::particle;
    if (is_lone_particle) length_ = std::max(length_, state[layout_.bodies[0]].p.norm());
  }
  constexpr double no_size = 1e-12;  // A particle at the origin has none [m].
  if (!(length_ > no_size)) length_ = 1;
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
