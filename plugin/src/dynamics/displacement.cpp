#include "dynamics/displacement.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

namespace {

double length_of_motion(const System& system, const IslandLayout& layout, const State& state) {
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
  return most > 0 ? most : 1;
}

}  // namespace

double speed_of_motion(const System& system, const IslandLayout& layout, const State& state, double length) {
  double most = 0;
  for (const BodyId id : layout.bodies) {
    if (system.kind(id) == BodyKind::coordinate)
      most = std::max(most, std::fabs(state[id].v.x()));
    else
      most = std::max({most, state[id].v.norm() / length, state[id].w.norm()});
  }
  return most;
}

MotionScale motion_scale(const System& system, const IslandLayout& layout, const State& state) {
  const double length = length_of_motion(system, layout, state);
  const double rate =
      std::max(speed_of_motion(system, layout, state, length), std::sqrt(system.gravity().norm() / length));
  return {length, rate > 0 ? rate : 1};
}

void displace(const System& system, const IslandLayout& layout, const State& from, const Eigen::VectorXd& dq,
              const Eigen::VectorXd& dv, double part, State& to) {
  to = from;
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyId id = layout.bodies[s];
    BodyState& body = to[id];
    const int at = layout.column[s];
    if (system.kind(id) == BodyKind::coordinate) {
      body.p.x() += part * dq[at];
      body.v.x() += part * dv[at];
      continue;
    }
    const bool rigid = system.kind(id) == BodyKind::rigid;
    advance(body, dq.segment<3>(at), rigid ? Vector3d(dq.segment<3>(at + 3)) : Vector3d(Vector3d::Zero()), part);
    body.v += part * dv.segment<3>(at);
    if (rigid) body.w += part * dv.segment<3>(at + 3);
  }
}

double relative_size(const System& system, const IslandLayout& layout, const MotionScale& scale,
                     const Eigen::VectorXd& dq, const Eigen::VectorXd& dv) {
  double most = 0;
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const int at = layout.column[s];
    const BodyKind kind = system.kind(layout.bodies[s]);
    if (kind == BodyKind::coordinate) {
      most = std::max({most, std::fabs(dq[at]), std::fabs(dv[at]) / scale.rate});
      continue;
    }
    most = std::max(
        {most, dq.segment<3>(at).norm() / scale.length, dv.segment<3>(at).norm() / (scale.rate * scale.length)});
    if (kind == BodyKind::rigid)
      most = std::max({most, dq.segment<3>(at + 3).norm(), dv.segment<3>(at + 3).norm() / scale.rate});
  }
  return most;
}

void difference(const System& system, const IslandLayout& layout, const State& from, const State& to,
                Eigen::Ref<Eigen::VectorXd> dq, Eigen::Ref<Eigen::VectorXd> dv) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyId id = layout.bodies[s];
    const int at = layout.column[s];
    if (system.kind(id) == BodyKind::coordinate) {
      dq[at] = to[id].p.x() - from[id].p.x();
      dv[at] = to[id].v.x() - from[id].v.x();
      continue;
    }
    dq.segment<3>(at) = to[id].p - from[id].p;
    dv.segment<3>(at) = to[id].v - from[id].v;
    if (system.kind(id) != BodyKind::rigid) continue;
    dq.segment<3>(at + 3) = turn_between(from[id].q, to[id].q);
    dv.segment<3>(at + 3) = to[id].w - from[id].w;
  }
}

}  // namespace linchpin
