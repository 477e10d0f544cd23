// Binds linchpin's solver to one Bullet world: installs the hooks, gives the solver the bodies, joints and rows of the
// world, and writes back what it finds. It contains no algorithm of its own; those are in the host module of the core.
#pragma once

#include "comparison.h"
#include "row_reader.h"
#include "world_group.h"

#include <linchpin/bullet.h>
#include <linchpin/host.h>

#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorldMt.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

class btMultiBodyDynamicsWorld;

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class Multibodies;  // multibody.h

/// What Solver::history() keeps.
struct BindingPast {
  std::shared_ptr<host::SolverHistory> solver;
  std::vector<std::pair<int, bool>> given_back;  ///< by entry of a joint
  bool replaced = false;
};

class WorldBinding final : public btActionInterface, private host::World {
 public:
  WorldBinding(Solver& owner, const Options& options);
  ~WorldBinding() override;

  // ---- installing (install.cpp) ----
  std::string install(btDiscreteDynamicsWorld& world);  ///< @return why not, or empty
  void make_solver();                                   ///< for construction-time injection
  std::string attach(btDiscreteDynamicsWorld& world);
  void uninstall();
  btConstraintSolver* hooks() { return hooks_.get(); }
  btDiscreteDynamicsWorld* world() const { return world_; }
  bool world_ended() const { return world_ended_; }
  const char* why_no_world() const;  ///< while there is none

  // ---- the parts ----
  host::ConstraintSolver& solver() { return solver_; }
  BodyTable& bodies() { return bodies_; }
  JointTable& joints() { return joints_; }
  RowReader& rows() { return rows_; }
  Comparison& comparison() { return comparison_; }
  Multibodies* multibodies() const { return multibodies_.get(); }
  bool has_multibodies() const { return multibodies_ != nullptr; }
  bool runs_comparison() const { return options_.shadow && options_.mode == Mode::exact && world_; }
  bool compares() const { return options_.shadow || options_.mode == Mode::observe; }
  const Options& options() const { return options_; }

  // ---- one step, called by the hooks ----
  void begin_step();
  bool takes_islands() const { return groups_.takes_islands(); }
  WorldGroup& gather_awake(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                           btTypedConstraint** constraints, int nc, btDispatcher* dispatcher);
  void begin_group(btTypedConstraint** constraints, int count, const btContactSolverInfo& info);
  void solve_separate(WorldGroup& g);
  void write_separate();
  void write_group();
  void end_solve();
  /// What Bullet solves itself in this group.
  std::vector<btTypedConstraint*>& native_constraints() { return native_constraints_; }
  bool couples_rows() const { return base_name_ == "sequential impulse" || multibodies_; }
  void forget_contacts_of_failed(btPersistentManifold** manifolds, int count) const;
  void updateAction(btCollisionWorld*, btScalar dt) override;
  void debugDraw(btIDebugDraw* draw) override;

  // ---- for the facade ----
  /// Whether an entry exists still: the program deletes joints, and their bodies, without notice.
  bool is_there(int entry);
  bool is_stale(int entry, unsigned version) const;
  void remove_by_user(int entry);  ///< an adopted joint stays in the world and goes back to Bullet's solver
  void forget(btRigidBody& body);
  void reset();
  std::shared_ptr<const BindingPast> history();
  std::string restore(const BindingPast& past);  ///< @return why not, or empty
  std::string summary();
  std::vector<Solver::Finding> check();
  double energy() const;
  void set_callback(std::function<void(const Step&)> callback);

  /// Joints of the world in Bullet's own ways: the applied impulse, and the feedback.
  void report_impulse(int entry, btScalar of_force);
  void report_forces(int entry, const Wrench& on_a, const Wrench& on_b) override;

 private:
  /// The first of the world's actions: what others read and change must be the velocities of the step's end.
  struct FirstAction final : btActionInterface {
    explicit FirstAction(WorldBinding& b) : binding(b) {}
    void updateAction(btCollisionWorld*, btScalar) override {
      if (binding.stepped_) binding.solver_.write_end_velocities();
    }
    void debugDraw(btIDebugDraw*) override {}
    WorldBinding& binding;
  };
  /// A body that a step is not to move.
  struct Still {
    btRigidBody* body;
    btTransform pose;
    btVector3 v, w;
  };

  // host::World
  void read(BodyId id, BodyState& out) const override;
  void read_forces(BodyId id, host::Load& load, host::GyroscopicRule& rule) const override;
  void read_frame(BodyId id, Vector3d& p, Matrix3d& R) const override;
  int row_body(BodyId id) const override;
  void write(std::span<host::Motion> motions) override;
  void replace_velocity(const host::Motion& given, const Vector3d& v, const Vector3d& w) override;
  void move(BodyId id, const Vector3d& p, const Quaterniond& q) override;
  bool restore_finite(BodyId id, const BodyState& was) override;
  Quaterniond rotation(const Vector3d& w, double dt) const override;
  Vector3d gyroscopic_change(BodyId id, const Matrix3d& R) const override;
  Vector3d rounded(const Vector3d& u) const override { return from_bullet(to_bullet(u)); }
  double swept_motion(BodyId id) const override;
  bool is_awake(BodyId id) const override;
  void wake(BodyId id) override;
  bool may_fall_asleep(BodyId id) const override;
  double rest_time(BodyId id) const override;
  void restart_rest_timer(BodyId id) override;
  bool is_enabled(int entry) const override;
  void enable(int entry, bool on) override { joints_.enable(entry, on); }
  bool wants_forces(int entry) const override;
  double breaking_impulse(int entry) const override;
  void break_joint(int entry) override;
  void report_impulses(std::span<const host::JointImpulse> impulses, bool alone) override;
  void solve_in_host(int entry) override;

  std::string find_kind(btDiscreteDynamicsWorld& world);
  std::string choose_hooks(btConstraintSolver& found);
  void enter(btDiscreteDynamicsWorld* world);
  void world_ends();
  void set_solver(btConstraintSolver* solver);
  void add_actions();
  void remove_actions();
  bool others_act() const;
  void watch_bodies();
  void list_group(btTypedConstraint** constraints, int count);
  void stand_still();
  void put_back_still();
  void end_group();
  void show_native_reactions(double dt);
  void draw_reactions(btIDebugDraw& draw);
  void draw_ghosts(btIDebugDraw& draw);

  Solver& owner_;
  const Options options_;
  host::ConstraintSolver solver_;
  BodyTable bodies_;
  JointTable joints_;
  RowReader rows_;
  GroupTaker groups_;
  Comparison comparison_;
  std::unique_ptr<Multibodies> multibodies_;  // of a btMultiBodyDynamicsWorld

  btDiscreteDynamicsWorld* world_ = nullptr;
  btDiscreteDynamicsWorldMt* threads_ = nullptr;     // the same, where it is one of several threads,
  btMultiBodyDynamicsWorld* links_world_ = nullptr;  // or one of multibodies
  std::unique_ptr<WorldIslands> islands_;            // while there is a world
  bool world_ended_ = false;                         // the last one was destroyed before it was left
  std::unique_ptr<btConstraintSolver> hooks_;
  btConstraintSolver* native_ = nullptr;
  btConstraintSolver* native_large_ = nullptr;  // a btDiscreteDynamicsWorldMt's other one, for large islands
  bool world_owned_native_ = false;
  std::string base_name_ = "sequential impulse";
  FirstAction first_action_{*this};

  std::vector<btTypedConstraint*> native_constraints_;
  std::vector<std::pair<btTypedConstraint*, int>> stays_native_;  // and the entry whose native part it is, or −1
  std::vector<const btTypedConstraint*> last_constraints_;        // of the last group, while the structure is the same
  unsigned grouped_structure_ = 0;
  double max_gyroscopic_force_ = 100;
  std::vector<Still> still_;
  bool stepped_ = false;   // this step's solve came to us, directly or through a solver that wraps ours
  bool replaced_ = false;  // another solver solved the last step
  std::shared_ptr<const std::function<void(const Step&)>> callback_;  // shared: it may replace or destroy us
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
