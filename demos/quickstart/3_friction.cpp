// Friction from the coupled normal force is a law on a joint: a sledge on a level rail, mu = 0.3, starts with 5 m/s and
// is 3 m/s slower after one second. A law of your own is one lambda: the rail is oiled, and 2 m/s are 2/e in another
// second.
#include <linchpin/bullet.h>

#include <cmath>
#include <iostream>

int main() {
  btBoxShape box({0.2, 0.1, 0.1});
  btRigidBody sledge(2, nullptr, &box, {0.02, 0.03, 0.03});
  btSliderConstraint slider(sledge, btTransform::getIdentity(), true);  // slides along x, does not turn
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.addRigidBody(&sledge);
  world.addConstraint(&slider);
  sledge.setLinearVelocity({5, 0, 0});
  linchpin::bullet::Solver exact(world);
  auto rail = exact.name_joint(slider, "rail").law(linchpin::laws::coulomb(0.3));
  for (int i = 0; i < 240; ++i) world.stepSimulation(1. / 240, 0);
  // on_b: Bullet makes the world the first body of a slider that is built with one.
  const linchpin::Reaction& r = rail.reaction();
  std::cout << "friction " << r.prescribed.on_b.force.x() << " N under a normal force of "
            << (r.ideal.on_b.force + r.induced.on_b.force).y() << " N; speed " << sledge.getLinearVelocity().x()
            << " m/s, known 2\n";
  const bool dry = std::abs(sledge.getLinearVelocity().x() - 2) < 1e-9;

  rail.clear_laws().law(
      [](const linchpin::ConstraintReaction& n) { return linchpin::Vector3d(-0.1 * n.magnitude() * n.slip_velocity); });
  for (int i = 0; i < 240; ++i) world.stepSimulation(1. / 240, 0);
  const double known = 2 / std::exp(1), speed = sledge.getLinearVelocity().x();
  std::cout << "oiled: speed " << speed << " m/s, known " << known << " to the order of the step\n";
  world.removeConstraint(&slider);
  return dry && std::abs(speed - known) < known / 240 ? 0 : 1;
}
