#include "host/joint_feedback.h"

#include "host/compliance.h"

#include <cmath>

namespace linchpin::host {

void report_joint_impulses(Context& c, const Island& b, std::vector<JointImpulse>& impulses) {
  impulses.clear();
  for (const Topology::Joint& j : b.topology.joints) {
    double square = 0;
    const ConstraintEntry& r = c.constraints[j.entry];
    if (has_compliance(c, r))
      for (const LawWork& law : c.laws.of(r)) square += (c.dt * law.force.force).squaredNorm();
    for (int row = j.row; row < j.row + j.force_rows; ++row)
      square += b.x.multipliers[z(row)] * b.x.multipliers[z(row)];
    impulses.push_back({j.entry, std::sqrt(square)});
  }
  c.world.report_impulses(impulses);
}

void report_joint_forces(Context& c, const Island& b) {
  for (const Topology::Joint& j : b.topology.joints) {
    if (!c.world.needs_forces(j.entry)) continue;
    const ConstraintEntry& r = c.constraints[j.entry];
    const Reaction& reaction = c.reactions[r.reaction];
    Wrench on[2];
    for (const int k : {0, 1}) {
      const Vector3d com = c.bodies.start[c.system.constraint(r.id).bodies()[z(k)]].p;
      const Wrench beyond = reaction.stabilisation.on(k).about(com);
      on[k] = reaction.on(k).about(com);
      on[k].force += beyond.force;
      on[k].moment += beyond.moment;
    }
    c.world.report_forces(j.entry, on[0], on[1]);
  }
}

}  // namespace linchpin::host
