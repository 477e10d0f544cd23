#include <btBulletDynamicsCommon.h>
#include <linchpin/bullet.h>

#include <type_traits>

// The precision must come from the linked target alone.
static_assert(std::is_same_v<btScalar, EXPECTED_SCALAR>);

int main() {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  {
    linchpin::bullet::Solver exact(world);
    world.stepSimulation(btScalar(1) / 240, 0);
  }
  // The destructor gave the native solver back.
  return world.getConstraintSolver() == &native ? 0 : 1;
}
