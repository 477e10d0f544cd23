#include "directions.h"

namespace linchpin::analysis {

std::vector<BodyId> movable(const System& system) {
  std::vector<BodyId> out;
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) out.push_back(id);
  return out;
}

std::vector<Direction> directions_of(const System& system, std::span<const BodyId> bodies) {
  std::vector<Direction> out;
  for (const BodyId id : bodies)
    for (int k = 0; k < system.dof(id); ++k) out.push_back({id, k});
  return out;
}

void displace(State& state, const Direction& d, double h) {
  const Vector3d e = Vector3d::Unit(d.axis % 3);
  advance(state[d.body], d.axis < 3 ? e : Vector3d::Zero(), d.axis < 3 ? Vector3d::Zero() : e, h);
}

void displace(State& state, const std::vector<Direction>& directions, const Eigen::VectorXd& by) {
  for (std::size_t i = 0; i < directions.size();) {
    const BodyId id = directions[i].body;
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
    for (; i < directions.size() && directions[i].body == id; ++i)
      (directions[i].axis < 3 ? v : w)[directions[i].axis % 3] = by[static_cast<Eigen::Index>(i)];
    advance(state[id], v, w, 1);
  }
}

State at_rest(const System& system, State state) {
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) state[id].v.setZero(), state[id].w.setZero();
  return state;
}

}  // namespace linchpin::analysis
