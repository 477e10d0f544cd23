// A constraint of your own is one lambda: a winch that pays out and hauls in a load. s.t is the time; write cos, not
// std::cos, because the derivatives are made from the same expression. The load hangs straight, so the pull on it has
// the closed form m (g − l̈) = 5 (10 − 0.9 cos 3t).
#include <linchpin/bullet.h>

#include <iostream>

int main() {
  btSphereShape ball(0.1);
  btRigidBody load(5, nullptr, &ball, {0.02, 0.02, 0.02});
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.addRigidBody(&load);
  linchpin::bullet::Solver exact(world);
  auto winch = exact.constrain("winch", {load}, [](const auto& s) {
    auto rope = linchpin::Vector3d(0, 1.6, 0) - s[0].point(0, 0.1, 0);
    return norm(rope) - (1.5 + 0.1 * (1 - cos(3 * s.t)));  // kept at 0
  });
  for (int i = 0; i < 2400; ++i) world.stepSimulation(1. / 240, 0);
  const linchpin::Reaction& r = winch.reaction();
  std::cout << r << "known " << 5 * (10 - 0.9 * std::cos(3 * r.t)) << " N\n";
  return std::abs(r.on_a.force.y() - 5 * (10 - 0.9 * std::cos(3 * r.t))) < 1e-9 && r.residual < 1e-12 ? 0 : 1;
}
