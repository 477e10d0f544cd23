// Reading forces: a door of 20 kg on two hinges, one more than its motion needs. Together they carry its weight, 200 N.
// Their shares are undetermined, and each reaction reports this.
#include <linchpin/bullet.h>

#include <cstdio>

int main() {
  btBoxShape panel({0.5, 1, 0.02});
  btRigidBody door(20, nullptr, &panel, {6.7, 1.7, 8.3});
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.addRigidBody(&door);
  linchpin::bullet::Solver exact(world);
  for (const double y : {0.8, -0.8})  // the library's own joints, by name; Bullet's are read in the same way
    exact.add(linchpin::joints::hinge(y > 0 ? "upper" : "lower", exact.id(door), {-0.5, y, 0}, {0, 1, 0},
                                      linchpin::ground, {-0.5, y, 0}, {0, 1, 0}));
  for (int i = 0; i < 240; ++i) world.stepSimulation(1. / 240, 0);
  double carried = 0;
  for (const linchpin::Reaction& r : exact.reactions()) {
    std::printf("%s  F = (%7.2f, %6.2f, %5.2f) N at (%.1f, %.1f, %.1f) m  %s\n", r.name.c_str(), r.on_a.force.x(),
                r.on_a.force.y(), r.on_a.force.z(), r.on_a.point.x(), r.on_a.point.y(), r.on_a.point.z(),
                r.determined ? "" : "(share undetermined; of least norm)");
    carried += r.on_a.force.y();
  }
  std::printf("together %.9f N, known 200\n", carried);
  return std::abs(carried - 200) < 1e-9 ? 0 : 1;
}
