#include <linchpin/comparison.h>

#include "host/context.h"

#include <algorithm>

namespace linchpin::host {

const std::vector<NativeComparison>& Comparison::all() {
  const auto reactions = solver_.reactions();
  all_.resize(reactions.size());
  for (std::size_t i = 0; i < reactions.size(); ++i) all_[i].name = reactions[i].name;
  return all_;
}

void Comparison::set_wrench(int entry, const Vector3d& force, const Vector3d& moment) {
  (void)all();
  const int at = solver_.entry(entry).reaction;
  if (at < 0) return;
  all_[z(at)].force = force;
  all_[z(at)].moment = moment;
}

void Comparison::set_velocity(BodyId id, const Vector3d& v, const Vector3d& w) {
  if (z(id.index) >= velocities_.size()) velocities_.resize(z(id.index) + 1);
  velocities_[z(id.index)] = {v, w};
}

Comparison::Velocity Comparison::velocity(BodyId id) const {
  return z(id.index) < velocities_.size() ? velocities_[z(id.index)] : Velocity{};
}

void Comparison::compare() {
  (void)all();
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const ConstraintEntry& r = solver_.entry(i);
    if (r.alive && r.reaction >= 0 && r.id.index >= 0) compare(r, solver_.constraint(i), all_[z(r.reaction)]);
  }
}

void Comparison::compare(const ConstraintEntry& r, const Constraint& constraint, NativeComparison& s) {
  const Reaction& exact = solver_.reactions()[z(r.reaction)];
  const auto bodies = constraint.bodies();
  const Vector3d com = solver_.start_state(bodies[0]).p, point = exact.ideal.on_a.point;
  const bool has_rows = r.outcome.has_host_rows;
  if (solver_.options().mode == Mode::passive) {
    const Wrench w = has_rows ? Wrench{r.host->on_a.force, r.host->on_a.moment, com}.about(point) : Wrench{};
    s.force = w.force;
    s.moment = w.moment;
    s.force_difference = (s.force - exact.on_a.force).norm();
    return;
  }
  s.moment = Wrench{s.force, s.moment, com}.about(point).moment;
  const Vector3d ours = exact.on_a.force + (has_rows ? r.host->on_a.force : Vector3d(Vector3d::Zero()));
  s.force_difference = (s.force - ours).norm();
  s.velocity_difference = 0;
  const Context& c = solver_.context();
  for (const BodyId id : bodies) {
    if (c.system.dof(id) == 0 || !c.bodies.in_host(id)) continue;
    BodyState now;
    c.world.read(id, now);
    s.velocity_difference = std::max(s.velocity_difference, (velocity(id).v - now.v).norm());
  }
}

bool Comparison::native_pose(BodyId id, const BodyState& now, double scale, Pose& out) const {
  const auto [v, w] = velocity(id);
  const Vector3d dv = scale * (v - now.v), dw = scale * (w - now.w);
  if (!dv.allFinite() || !dw.allFinite()) return false;
  BodyState s = now;
  advance(s, dv, dw, solver_.dt());
  out = {s.p, s.q};
  return true;
}

}  // namespace linchpin::host
