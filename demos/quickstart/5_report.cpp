// A report from a program of one's own: a chain of ten planks swings down, held by the exact solver and again by
// Bullet's own. Each run writes a page; `linchpin compare exact.rec native.rec --report both.html` compares them.
#include <linchpin/bullet_recorder.h>

#include <cstdio>
#include <deque>
#include <string>

static double largest_gap(linchpin::bullet::Mode mode, const std::string& name) {
  btBoxShape plank({0.1, 0.01, 0.05});
  std::deque<btRigidBody> planks;
  std::deque<btPoint2PointConstraint> pins;
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  for (int i = 0; i < 10; ++i) {
    btVector3 inertia;
    plank.calculateLocalInertia(0.5, inertia);
    btRigidBody& body = planks.emplace_back(0.5, nullptr, &plank, inertia);
    body.setWorldTransform(btTransform(btQuaternion::getIdentity(), {0.1 + 0.22 * i, 0, 0}));
    world.addRigidBody(&body);
    if (i == 0)
      pins.emplace_back(body, btVector3(-0.11, 0, 0));
    else
      pins.emplace_back(body, planks[planks.size() - 2], btVector3(-0.11, 0, 0), btVector3(0.11, 0, 0));
    world.addConstraint(&pins.back(), true);
  }
  double worst = 0;
  {
    linchpin::bullet::Solver solver(world, {.mode = mode});
    linchpin::bullet::Recorder recorder(solver, world, {.title = "chain"});
    for (int i = 0; i < 10; ++i) recorder.name(planks[i], "plank " + std::to_string(i + 1));
    for (int i = 0; i < 480; ++i) {
      world.stepSimulation(1. / 240, 0);
      for (const linchpin::Reaction& r : solver.reactions()) worst = std::max(worst, r.gap);
    }
    recorder.write(name + ".html");  // the one call: open it with a double click
    recorder.write(name + ".rec");   // the same for `linchpin compare` and `linchpin report`
  }
  for (btPoint2PointConstraint& pin : pins) world.removeConstraint(&pin);
  return worst;
}

int main() {
  const double exact = largest_gap(linchpin::bullet::Mode::exact, "exact");
  const double native = largest_gap(linchpin::bullet::Mode::passive, "native");
  std::printf("largest gap: exact %.1e m, native %.1e m; exact.html and native.html show both\n", exact, native);
  return exact < 1e-12 && native > 1e-5 ? 0 : 1;
}
