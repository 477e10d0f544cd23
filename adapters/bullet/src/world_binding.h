// Binds linchpin's solver to one Bullet world: installs the hooks, and calls the solver in the order of Bullet's step.
// It contains no algorithm of its own; those are in the host module of the core.
#pragma once

#include "native_run.h"
#include "world_group.h"
#include "world_islands.h"

#include <linchpin/bullet.h>

#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorldMt.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

class btMultiBodyDynamicsWorld;

namespace LINCHPIN_BULLET_NAMESPACE {

class WorldBinding final : public btActionInterface {
 public:
  WorldBinding(Solver& owner, const Options& options);
  ~WorldBinding() override;

  // ---- installing ----
  std::string install(btDiscreteDynamicsWorld& world);  ///< @return why not, or empty
  void make_solver();                                   ///< for construction-time injection
  std::string attach(btDiscreteDynamicsWorld& world);
  void uninstall();
  btConstraintSolver* hooks() { return hooks_.get(); }

  // ---- the parts ----
  host::ConstraintSolver& solver() { return world_.solver; }
  BodyTable& bodies() { return world_.bodies; }
  JointTable& joints() { return world_.joints; }
  BulletWorld& world() { return world_; }
  GroupTaker& groups() { return groups_; }
  NativeRun& native_run() { return native_run_; }
  Multibodies* multibodies() const { return world_.multibodies.get(); }
  const Options& options() const { return options_; }
  void set_options(const Options& options);
  bool couples_rows() const { return world_.native_solver == "sequential impulse" || multibodies(); }

  // ---- one step, called by the hooks (solver_hooks.cpp) ----
  void begin_step();
  void begin_group(std::span<btTypedConstraint* const> constraints, const btContactSolverInfo& info);
  void write_separate();
  void write_group();
  void end_solve();
  void forget_contacts_of_failed(std::span<btPersistentManifold* const> manifolds) const;
  void updateAction(btCollisionWorld*, btScalar dt) override;
  void debugDraw(btIDebugDraw* draw) override;

  // ---- for the facade ----
  void set_callback(std::function<void(Step)> callback);

 private:
  /// The first of the world's actions: what others read and change must be the velocities of the step's end.
  struct FirstAction final : btActionInterface {
    explicit FirstAction(WorldBinding& b) : binding(b) {}
    void updateAction(btCollisionWorld*, btScalar) override {
      if (binding.stepped_) binding.solver().write_end_velocities();
    }
    void debugDraw(btIDebugDraw*) override {}
    WorldBinding& binding;
  };
  /// A body that a step is not to move.
  struct Still {
    BodyId id;
    btTransform pose;
    btVector3 v, w;
  };
  /// The solvers that the world had before, and gets back.
  struct Found {
    btConstraintSolver* solver = nullptr;
    btConstraintSolver* large = nullptr;  // a btDiscreteDynamicsWorldMt's other one, for large islands
    bool owned = false;
  };

  std::string find_kind(btDiscreteDynamicsWorld& world);
  std::string choose_hooks(btConstraintSolver& found);
  void enter(btDiscreteDynamicsWorld* world);
  void world_ends();
  void set_solver(btConstraintSolver* solver);
  bool steps_by_stages() const { return options_.stepping != Stepping::semi_implicit && options_.mode == Mode::exact; }
  void add_actions();
  void remove_actions();
  void put_back_still();
  void end_group();
  void draw_ghosts();

  Solver& owner_;
  Options options_;
  BulletWorld world_;
  GroupTaker groups_;
  NativeRun native_run_;
  btDiscreteDynamicsWorldMt* threads_ = nullptr;     // the world, where it is one of several threads,
  btMultiBodyDynamicsWorld* links_world_ = nullptr;  // or one of multibodies
  std::unique_ptr<WorldIslands> islands_;            // while there is a world
  std::unique_ptr<btConstraintSolver> hooks_;
  Found found_;
  FirstAction first_action_{*this};
  std::vector<Still> still_;
  bool stepped_ = false;  // this step's solve came to us, directly or through a solver that wraps ours
  std::shared_ptr<const std::function<void(Step)>> callback_;  // shared: it may replace or destroy us
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
