#include "host/momentum_balance.h"

#include "host/body_vectors.h"
#include "host/context.h"

#include <algorithm>

namespace linchpin::host {

void MomentumBalances::add(Context& c, Island& b) {
  add_bodies(c, b);
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) add_constraint(c, b, i);
  for (const BodyId id : b.layout().bodies)
    c.counts.imbalance = std::max(c.counts.imbalance, all_[z(of_body_[z(id.index)])].imbalance());
}

void MomentumBalances::add_bodies(const Context& c, const Island& b) {
  of_body_.resize(c.bodies.count(), -1);
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    of_body_[z(id.index)] = static_cast<int>(all_.size());
    MomentumBalance& to = all_.emplace_back();
    const int column = b.layout().column[slot];
    const BodyState& start = c.bodies.start[id];
    const bool in_substeps = b.step.division != Division::whole;
    const auto part = [&](int at, const auto& inertia, auto&& rows) {
      rows(to.rounding) = inertia * (c.world.rounded(head(b.x.v, at)) - head(b.x.v, at));
      rows(to.applied) = head(b.x.applied, at);
      rows(to.host) = head(b.rows.total, at);
      if (!b.rows.damping.empty()) rows(to.constraints) += head(b.rows.damping, at);
      rows(to.momentum) =
          in_substeps ? head(b.x.momentum, at) : Vector3d(inertia * (head(b.x.v, at) - head(b.x.v0, at)));
    };
    to.body = id;
    to.linear_motion = c.system.mass(id) * start.v.norm();
    part(column, c.system.mass(id), [](auto& x) { return x.template head<3>(); });
    if (!turns(b.layout(), slot)) continue;
    const Matrix3d inertia = c.system.world_inertia(id, start.q);
    to.angular_motion = (inertia * start.w).norm();
    part(column + 3, inertia, [](auto& x) { return x.template tail<3>(); });
    if (b.stiffness.empty()) continue;
    to.applied.tail<3>() += b.stiffness[slot] * head(b.x.v0, column + 3);  // −½ dt² K⁺ω₁ of torque and inertia together
    to.constraints.tail<3>() -= b.stiffness[slot] * head(b.x.v, column + 3);
  }
}

// Constraint impulses are those of the reactions, moved to the centres of mass. Their work is that with the mean
// velocity. Kinematic bodies are in no balance: an ideal joint does as much work on them as it takes from the others.
void MomentumBalances::add_constraint(Context& c, Island& b, std::size_t i) {
  ConstraintEntry& entry = c.constraints[b.topology.entries[i]];
  const Reaction& r = c.reactions[entry.reaction];
  const auto bodies = c.system.constraint(b.topology.ids[i]).bodies();
  for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
    const BodyId id = bodies[z(k)];
    const int slot = b.layout().body_index(id);
    if (slot < 0) continue;
    const BodyState& start = c.bodies.start[id];
    Vector6 impulse = Vector6::Zero();
    double gross_force = 0, gross_moment = 0;  // of the parts, which may cancel
    for (const Wrenches* part : {static_cast<const Wrenches*>(&r.ideal), &r.prescribed, &r.induced, &r.stabilisation}) {
      const Wrench w = part->on(k).about(start.p);
      impulse.head<3>() += c.dt * w.force;
      impulse.tail<3>() += c.dt * w.moment;
      gross_force = std::max(gross_force, c.dt * w.force.norm());
      gross_moment = std::max(gross_moment, c.dt * w.moment.norm());
    }
    const int column = b.layout().column[z(slot)];
    const bool turns = host::turns(b.layout(), z(slot));
    const Vector3d v = 0.5 * (start.v + head(b.x.v, column)),
                   w = turns ? Vector3d(0.5 * (start.w + head(b.x.v, column + 3))) : start.w;
    MomentumBalance& to = all_[z(of_body_[z(id.index)])];
    to.constraints.head<3>() += impulse.head<3>();
    if (b.step.division != Division::whole) {
      gross_force = std::max(gross_force, b.sums.largest_impulse[z(2 * slot)]);
      gross_moment = std::max(gross_moment, b.sums.largest_impulse[z(2 * slot + 1)]);
    }
    to.gross_force = std::max(to.gross_force, gross_force);
    // A moment about the centre has the rounding of its terms: of the force times its lever.
    const double lever = (r.ideal.on(k).point - start.p).norm();
    to.gross_moment = std::max({to.gross_moment, gross_moment, lever * gross_force});
    if (turns) to.constraints.tail<3>() += impulse.tail<3>();
    if (b.report.work_in_balance) c.reactions.add_work(entry, impulse.head<3>().dot(v) + impulse.tail<3>().dot(w));
  }
}

}  // namespace linchpin::host
