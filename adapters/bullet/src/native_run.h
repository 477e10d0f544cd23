// Runs Bullet's own solver on the state of the step beside linchpin's (shadow mode): keeps all that it writes, hands
// its answer over for the comparison, and puts everything back.
#pragma once

#include "bullet_world.h"

#include <linchpin/bullet.h>
#include <linchpin/comparison.h>

#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

class NativeRun {
 public:
  NativeRun(BulletWorld& world, const Options& options)
      : world_(world),
        observes_(options.mode == Mode::passive),
        shadow_(options.compare_native),
        comparison_(world.solver) {}

  /// Returns whether Bullet's solver runs beside linchpin's, and whether its answer is known at all.
  bool runs() const { return shadow_ && !observes_ && world_.world(); }
  bool compares() const { return shadow_ || observes_; }
  host::Comparison& comparison() { return comparison_; }

  /// Keeps all that the native solver writes. Its run follows.
  void save(const Group& group);
  /// Takes its answer, and puts everything back.
  void take(const Group& group);

 private:
  struct SavedBody {
    btRigidBody* body;
    btVector3 v, w;
    btTransform x;
    int companion;
  };
  struct SavedJoint {
    bool enabled;
    btScalar impulse;
    btJointFeedback *feedback, native;
  };
  void save(const btCollisionObject* object);

  BulletWorld& world_;
  const bool observes_, shadow_;
  host::Comparison comparison_;
  std::vector<SavedBody> saved_bodies_;
  std::vector<btManifoldPoint> saved_points_;
  std::vector<SavedJoint> saved_joints_;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
