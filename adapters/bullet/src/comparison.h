// The native solver beside linchpin's, on the same state in every step (shadow mode), or in charge and only measured
// (Mode::observe).
#pragma once

#include "joint_table.h"

#include <linchpin/bullet.h>
#include <linchpin/host.h>

#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class Comparison {
 public:
  Comparison(host::ConstraintSolver& solver, const BodyTable& bodies, const JointTable& joints)
      : solver_(solver), bodies_(bodies), joints_(joints) {}

  /// Keeps all that the native solver writes. Its run follows.
  void save(btCollisionObject** bodies, int body_count, btPersistentManifold** manifolds, int manifold_count,
            btTypedConstraint** constraints, int constraint_count);
  /// Takes its answer, and puts everything back.
  void take(btPersistentManifold** manifolds, int manifold_count, btTypedConstraint** constraints,
            int constraint_count);
  /// After the step: compares the answers.
  void compare();
  std::vector<Shadow>& all();
  Vector3d velocity(BodyId id) const { return at(v_, id); }          ///< native, at the end of the step
  Vector3d angular_velocity(BodyId id) const { return at(w_, id); }  ///< likewise

 private:
  struct SavedBody {
    btRigidBody* body;
    btVector3 v, w;
    btTransform x;
    int companion;
  };
  struct SavedPoint {
    btScalar normal, lateral1, lateral2;
    btVector3 dir1, dir2;
    int flags;
  };
  struct SavedJoint {
    bool enabled;
    btScalar impulse;
    btJointFeedback* feedback;
  };
  static Vector3d at(const std::vector<Vector3d>& u, BodyId id) {
    const auto i = static_cast<std::size_t>(id.index);
    return i < u.size() ? u[i] : Vector3d(Vector3d::Zero());
  }
  void save_points(btPersistentManifold** manifolds, int count);
  void restore_points(btPersistentManifold** manifolds, int count) const;

  host::ConstraintSolver& solver_;
  const BodyTable& bodies_;
  const JointTable& joints_;
  std::vector<SavedBody> saved_bodies_;
  std::vector<SavedPoint> saved_points_;
  std::vector<SavedJoint> saved_joints_;
  std::vector<btJointFeedback> feedback_;
  std::vector<Shadow> all_;      // as reactions()
  std::vector<Vector3d> v_, w_;  // by id of body
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
