// A scene of ours (linchpin/scene.h) made in a Bullet world: bodies, the joints Bullet has too, forces and kinematic
// bodies step by step; what Bullet has no joint for is given to linchpin, whose rows a native solver then solves as
// well.
#pragma once

#include "hinge_limits.h"
#include "multibodies.h"
#include "native_loops.h"
#include "principal_axes.h"

#include <linchpin/bullet.h>
#include <linchpin/scene.h>

#include <btBulletDynamicsCommon.h>

#include <memory>
#include <string>
#include <vector>

namespace linchpin::bullet_scene {

class Built {
 public:
  /// @param imported  the bodies of the world so far, in the order in which the model's importer gave them
  /// @throws Refused("scene", …) for what Bullet cannot hold.
  Built(scene::Model model, btDiscreteDynamicsWorld& world, std::vector<btRigidBody*> imported);
  ~Built();
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;

  const scene::Model& model() const { return model_; }
  /// As the model's bodies; of links of multibodies their stand-ins.
  const std::vector<btRigidBody*>& bodies() const { return bodies_; }
  struct Joint {
    btTypedConstraint* joint;  ///< in no world where it is of a multibody's tree: between stand-ins, for its gap
    std::string name;
  };
  const std::vector<Joint>& joints() const { return joints_; }

  /// Gives the joints of the world the names of the scene. A joint whose name is in use keeps the name of its place.
  void name_joints(bullet::Solver& solver);
  /// Gives the solver what Bullet has no joint for, and the laws. @throws Refused("solver", …) when it cannot.
  void constrain(bullet::Solver& solver, bool exact);
  const Multibodies* multibodies() const { return multibodies_.get(); }
  /// Has Bullet's own constraints hold what the joints of its multibodies do not, for a solver that is all Bullet's.
  /// @throws Refused("solver", …) where there is none, or there are laws.
  void hold_natively();
  /// After hold_natively(); else null.
  const NativeLoops* native_loops() const { return native_loops_.get(); }
  /// Moves kinematic bodies to where they are at the end of the step and applies the forces of its start.
  void before_step(double t, double dt);
  /// Steps in which a force was not finite, and did not act.
  struct ForceFailure {
    std::string force;  ///< the first such one
    std::string last;   ///< the last such one
    double t = 0;       ///< at the start of the first such step [s]
    long steps = 0;
  };
  const ForceFailure& force_failure() const { return force_failure_; }
  /// Stand-ins to where their links are, and residuals that count turns from step to step. @param t  [s] now
  void after_step(double t);

  /// Places all bodies that are not kinematic, with their velocities, and forgets their contacts.
  void place(const State& state);

  /// How a body is turned, in the axes of the scene.
  Quaterniond rotation(std::size_t i) const;
  /// The bodies as the core sees them, kinematic ones exactly.
  State state(double t) const;
  /// A System of the whole model, for energies and residuals; the motion is Bullet's.
  const System& mirror() const { return mirror_; }
  void set_gravity(const Vector3d& g) { mirror_.set_gravity(g); }  ///< of that System
  /// Residuals of all that Bullet has no joint for: positions at the end of a step, velocities in its middle, where a
  /// step meets them. By the order of `constrained()`, largest row.
  void residuals(double t, double dt, std::vector<double>& out);
  struct Constrained {
    std::string name;
    RowUnit unit;
    std::vector<btRigidBody*> bodies;
  };
  const std::vector<Constrained>& constrained() const { return constrained_; }
  /// Why energy is not expected to be conserved, or null.
  const char* why_not_conserved() const;

 private:
  void add_body(btDiscreteDynamicsWorld& world, const scene::SceneBody& body);
  const PrincipalAxes& axes(BodyId id) const;
  bool any_turned(const scene::SceneConstraint& c) const;
  btTypedConstraint* native_joint(const scene::SceneConstraint& c);
  int most_in_a_row(const scene::SceneConstraint& c);
  btRigidBody& body(BodyId id);
  bool on_links(const scene::SceneConstraint& c) const;
  void refuse_laws() const;
  void keep_apart();

  scene::Model model_;
  btDiscreteDynamicsWorld& world_;
  std::vector<std::unique_ptr<btCollisionShape>> shapes_;
  std::vector<std::unique_ptr<btRigidBody>> owned_;
  std::vector<btRigidBody*> bodies_;
  std::vector<PrincipalAxes> axes_;  // of bodies_
  struct Families;
  std::unique_ptr<Families> families_;
  std::unique_ptr<Multibodies> multibodies_;
  std::unique_ptr<NativeLoops> native_loops_;
  std::vector<std::unique_ptr<btTypedConstraint>> owned_joints_;
  std::vector<Joint> joints_;
  HingeLimits hinge_limits_;
  std::vector<std::size_t> not_native_;  // into model_.constraints
  System mirror_;
  std::vector<Constrained> constrained_;
  Assembly assembly_;
  ForceFailure force_failure_;
};

}  // namespace linchpin::bullet_scene
