// What closes the loops of a scene's multibodies where Bullet solves alone: for each constraint of the scene the one
// that Bullet has on btMultiBody, if it has one. The exact solver beside it has the same multibodies and constraints of
// its own.
#pragma once

#include "multibodies.h"

#include <linchpin/scene.h>
#include <linchpin/system.h>

#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::bullet_scene {

class NativeLoops {
 public:
  struct Held {
    std::string name;  ///< of the scene's constraint
    std::string by;    ///< Bullet's, and what it holds beyond it
  };
  /// @param which  of the model's constraints
  /// @param bodies  as the model's, stand-ins for links
  /// @throws Refused("solver", …) that names a constraint for which Bullet has none.
  NativeLoops(const scene::Model& model, const std::vector<std::size_t>& which, const System& mirror,
              const State& start, const Multibodies& multibodies, const std::vector<btRigidBody*>& bodies,
              btMultiBodyDynamicsWorld& world);
  ~NativeLoops();
  NativeLoops(const NativeLoops&) = delete;
  NativeLoops& operator=(const NativeLoops&) = delete;

  /// Sets what moves with time to where it is at the end of a step. Call before the step.
  void aim(const State& now, double end);
  const std::vector<Held>& held() const { return held_; }

 private:
  class Maker;
  void clear();
  btMultiBodyDynamicsWorld& world_;
  std::vector<std::unique_ptr<btMultiBodyConstraint>> constraints_;
  std::vector<std::function<void(const State&, double)>> aims_;
  std::vector<Held> held_;
};

}  // namespace linchpin::bullet_scene
