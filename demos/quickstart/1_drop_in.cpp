// One line makes an existing Bullet program exact: a pendulum dropped from the horizontal, ten seconds of it.
#include <linchpin/bullet.h>

#include <iostream>

int main() {
  btSphereShape ball(0.1);  // bodies and joints outlive the world
  btRigidBody bob(1, nullptr, &ball, {0.004, 0.004, 0.004});
  btPoint2PointConstraint pivot(bob, {1, 0, 0});
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.addRigidBody(&bob);
  world.addConstraint(&pivot);
  linchpin::bullet::Solver exact(world);  // the only new line
  for (int i = 0; i < 2400; ++i) world.stepSimulation(1. / 240, 0);
  std::cout << exact.summary();  // gap, energy, rank, and what the native solver solves and why
  world.removeConstraint(&pivot);
  return exact.reactions()[0].gap < 1e-12 ? 0 : 1;  // [m]
}
