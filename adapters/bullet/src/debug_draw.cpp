// Draws reactions as arrows, open gaps as crosses, and the native solver's answer of shadow mode as ghosts.
#include "bodies.h"
#include "world_binding.h"

#include <algorithm>
#include <cmath>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void WorldBinding::debugDraw(btIDebugDraw* draw) {
  if (!draw || !world_ || solver_.counts().steps == 0) return;
  if (options_.draw_force > 0) draw_reactions(*draw);
  if (options_.draw_ghost > 0 && options_.shadow && options_.mode == Mode::exact) draw_ghosts(*draw);
}

void WorldBinding::draw_reactions(btIDebugDraw& draw) {
  const btVector3 on_first(1, btScalar(0.8), 0), on_second(0, btScalar(0.8), 1), open(1, 0, 0);
  solver_.make_reactions();
  solver_.update_reports();
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const host::ConstraintEntry& r = solver_.entry(i);
    if (!r.alive || r.reaction < 0 || r.id.index < 0) continue;
    const auto bodies = solver_.constraint(i).bodies();
    const Reaction& reaction = solver_.reactions()[static_cast<std::size_t>(r.reaction)];
    if (std::isfinite(reaction.gap) && reaction.gap > 0)  // a cross whose arms are as long as it
      for (int axis = 0; axis < 3; ++axis) {
        const Vector3d arm = reaction.gap * Vector3d::Unit(axis), at = reaction.on(0).point;
        draw.drawLine(to_bullet(at - arm), to_bullet(at + arm), open);
      }
    for (int k = 0; k < std::min(2, static_cast<int>(bodies.size())); ++k) {
      const Wrench& w = reaction.on(k);
      const Vector3d along = options_.draw_force * w.force;
      if (solver_.system().dof(bodies[static_cast<std::size_t>(k)]) == 0 || !along.allFinite() || along.isZero())
        continue;
      const btVector3 from = to_bullet(w.point), to = to_bullet(w.point + along);
      const btVector3& color = k == 0 ? on_first : on_second;
      const Vector3d across = along.unitOrthogonal() * along.norm();
      draw.drawLine(from, to, color);
      for (const double side : {-0.1, 0.1}) draw.drawLine(to, to_bullet(w.point + 0.8 * along + side * across), color);
    }
  }
}

void WorldBinding::draw_ghosts(btIDebugDraw&) {
  const btVector3 ghost(btScalar(0.6), btScalar(0.6), 1);
  joints_.scan();  // what has been deleted since the step
  bodies_.drop_gone();
  for (const BodyId id : solver_.solved_bodies()) {
    btRigidBody* const body = bodies_.body(id);
    if (!body || !bodies_.in_world(*body) || !body->getCollisionShape()) continue;
    BodyState s = read_state(*body);
    const Vector3d dv = options_.draw_ghost * (comparison_.velocity(id) - s.v),
                   dw = options_.draw_ghost * (comparison_.angular_velocity(id) - s.w);
    if (!dv.allFinite() || !dw.allFinite()) continue;
    advance(s, dv, dw, solver_.dt());
    btTransform at;
    write_pose(at, s.p, s.q);
    world_->debugDrawObject(at, body->getCollisionShape(), ghost);
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
