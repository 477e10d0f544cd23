// The Bullet world of a PyBullet client. PyBullet has no call for it. This file finds it by the public virtual call
// setGuiHelper() of PyBullet's command processor, which hands the world to the helper.
#pragma once

#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorld.h>

#include <string>

namespace linchpin::python {

/// Finds the world of a client and notices when resetSimulation() makes another one. PyBullet's own helper, which draws
/// the window, is put back.
class PyBulletWorld {
 public:
  /// @param processor  PhysicsCommandProcessorInterface of PyBullet @throws std::runtime_error if the parts of PyBullet
  /// are not where this version of it has them
  explicit PyBulletWorld(void* processor);
  btDiscreteDynamicsWorld& world() const { return **slot_; }  ///< The present world.

 private:
  btDiscreteDynamicsWorld** slot_ = nullptr;  ///< where PyBullet has the address of its world
};

}  // namespace linchpin::python
