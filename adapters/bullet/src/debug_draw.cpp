// Draws reactions as arrows, open gaps as crosses, and the native solver's answer of shadow mode as ghosts.
#include "world_binding.h"

namespace LINCHPIN_BULLET_NAMESPACE {

void WorldBinding::debugDraw(btIDebugDraw* draw) {
  using Line = host::ConstraintSolver::Line;
  if (!draw || !world_.world() || solver().counts().steps == 0) return;
  if (options_.draw_force > 0)
    solver().draw_reactions(options_.draw_force, [&](const Vector3d& from, const Vector3d& to, Line what) {
      const btVector3 open(1, 0, 0), on_first(1, btScalar(0.8), 0), on_second(0, btScalar(0.8), 1);
      draw->drawLine(to_bullet(from), to_bullet(to),
                     what == Line::gap        ? open
                     : what == Line::on_first ? on_first
                                              : on_second);
    });
  if (options_.draw_native_difference > 0 && native_run_.runs()) draw_ghosts();
}

void WorldBinding::draw_ghosts() {
  const btVector3 ghost(btScalar(0.6), btScalar(0.6), 1);
  joints().scan();  // what has been deleted since the step
  bodies().drop_gone();
  for (const BodyId id : solver().solved_bodies()) {
    btRigidBody* const body = bodies().body(id);
    Pose pose;
    if (!body || !bodies().in_world(*body) || !body->getCollisionShape() ||
        !native_run_.comparison().native_pose(id, read_state(*body), options_.draw_native_difference, pose))
      continue;
    btTransform at;
    write_pose(at, pose.p, pose.q);
    world_.world()->debugDrawObject(at, body->getCollisionShape(), ghost);
  }
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
