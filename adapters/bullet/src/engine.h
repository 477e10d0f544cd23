// The engine behind linchpin::bullet::Solver: what is known of the world (records), one step of it (groups and blocks),
// and what is told about it. engine.cpp keeps the records; group.cpp, step.cpp, give_back.cpp and books.cpp take the
// step, in this order; shadow.cpp runs the native solver beside it; tell.cpp reports.
#pragma once

#include <linchpin/bullet.h>

#include "joints.h"
#include "proxy.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// The native solver's arrays during one group: the mixin lends them.
struct Pools {
  btAlignedObjectArray<btSolverBody>& bodies;
  btConstraintArray& contacts;
  btConstraintArray& joints;
  btConstraintArray& friction;
  btConstraintArray& rolling;
};

using Vector6 = Eigen::Matrix<double, 6, 1>;

/// One constraint of the world: a stock joint or one of the user's.
struct Record {
  std::string name;
  bool alive = true;
  bool named = false;                  ///< by the user: keeps its name
  btTypedConstraint* joint = nullptr;  ///< null for the user's own
  JointShape shape;
  JointSignature numbers{};
  std::unique_ptr<NativePart> native_part;
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<btRigidBody*> bodies;  ///< of the user's own; two for a joint
  ConstraintId id;                   ///< in the core; −1 when all of it is native
  std::vector<Law> laws;             ///< kept for when the joint is classified again
  std::string why_native;            ///< of the last step, beyond its shape: fallback, unsupported body
  bool enabled = true;               ///< the user's own
  bool linked_collide = true;
  bool broken = false;
  bool unmet = false;            ///< contradicts others: held in the least squares only
  bool time_dependent = false;   ///< φ_t was not zero at some time
  bool moves_by_itself = false;  ///< φ_t is not zero now
  bool released = false;         ///< an adopted joint given back to the native solver
  int fallbacks = 0;
  // of the last step
  Wrenches native;  ///< what Bullet's own rows of it did, mean force [N, N·m] about the centres of mass
  bool native_seen = false;
  int reaction = -1;  ///< index in reactions()
};

/// Constraints and bodies that are solved together.
struct BlockSolve {
  std::vector<int> records;
  std::vector<ConstraintId> ids;  ///< ascending
  std::optional<Dynamics> dynamics;
  std::vector<btRigidBody*> bodies;  ///< by slot
  std::vector<int> pool;             ///< solver body by slot
  std::vector<double> v0, v, applied, host, own, Q, Q_host, lambda, force, e, dv, target;
  std::vector<Vector6> push;
  std::vector<Reaction> reactions;
  std::vector<double> own_lambda;  ///< multipliers of all impulses of the step [m]
  std::optional<Instant> kept;     ///< the problem at the step's start, when substeps have overwritten it
  bool native_rows = false;        ///< some native row touches a body of the block
  bool pushed = false;             ///< split impulse or gap correction changed the start poses
  bool write_pose = false;
  bool failed = false;
  bool done = false;
  int substeps = 1;
  double last_length = 0;  ///< of the last (sub)step [s]; 0 at the start
  double moved = 0;        ///< by which a gap was closed in this step [m]
  double gap_left = 0;     ///< and what was left of it
  double gain_floor = 0;   ///< energy that is no sign of a step too long [J]
  bool unmet = false;      ///< rows contradict each other: least squares
  double swing = 0;
  int newton = 0;
  unsigned last_step = 0;
  int flags_rank = -1;  ///< rank at which determined/redundant were last asked for
};

class Engine final : public btActionInterface {
 public:
  Engine(Solver& owner, Options options);
  ~Engine() override;

  // ---- the world (engine.cpp) ----
  std::string install(btDiscreteDynamicsWorld& world);  ///< empty, or why not
  void make_solver();                                   ///< for construction-time injection
  std::string attach(btDiscreteDynamicsWorld& world);
  void uninstall();
  btConstraintSolver* host_solver() { return host_solver_.get(); }

  BodyId body_id(btRigidBody& body);
  std::string add_user(Constraint constraint, std::vector<btRigidBody*> bodies, int& record);
  std::string name_joint(btTypedConstraint& joint, std::string name, int& record);
  int find(std::string_view name) const;
  void remove(int record);
  void remove_by_user(int record);  ///< an adopted joint stays in the world and goes back to the native solver
  void forget(btRigidBody& body);
  void reset();
  std::string add_law(int record, Law law);
  void clear_laws(int record);
  void set_points(int record, std::vector<Vector3d> points);
  void enable(int record, bool on);
  void link_collisions(int record, bool on);
  bool in_world(const btRigidBody& body) const;

  // ---- one step, called by the mixin (group.cpp, step.cpp, give_back.cpp) ----
  void begin_step();
  void begin_group(btCollisionObject** bodies, int body_count, btTypedConstraint** constraints, int constraint_count,
                   const btContactSolverInfo& info);
  btTypedConstraint** rest() { return rest_.empty() ? nullptr : rest_.data(); }
  int rest_count() const { return static_cast<int>(rest_.size()); }
  /// @return false when a block must go to native rows: the native setup is then to be done again with the new rest().
  bool after_setup(Pools pools);
  void after_push(Pools pools);
  void after_iteration(Pools pools);
  bool after_iterations(Pools pools);  ///< false as after_setup
  void after_finish();
  void drop_pool(Pools pools);  ///< before a native setup is done again

  // ---- shadow (shadow.cpp) ----
  bool wants_shadow() const { return options_.shadow && options_.mode == Mode::exact && world_; }
  void save_world(btCollisionObject** bodies, int body_count, btPersistentManifold** manifolds, int manifold_count,
                  btTypedConstraint** constraints, int constraint_count);
  void take_shadow(btCollisionObject** bodies, int body_count, btPersistentManifold** manifolds, int manifold_count,
                   btTypedConstraint** constraints, int constraint_count);

  // btActionInterface: after the host has integrated
  void updateAction(btCollisionWorld*, btScalar dt) override;
  void debugDraw(btIDebugDraw*) override {}

  // ---- telling (tell.cpp) ----
  void refresh_flags();
  std::string summary() const;
  std::vector<Solver::Native> native() const;
  std::vector<Solver::Finding> check();
  RankReport rank_report() const;
  Instant instant(std::string_view name) const;
  double energy() const;

  // linearised rows for proxies
  void linearize(const Record& record, std::vector<double>& A, std::vector<double>& b, std::vector<double>& position,
                 std::vector<double>& velocity);

  Solver& owner_;
  Options options_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  btConstraintSolver* native_ = nullptr;
  bool world_owned_native_ = false;
  std::unique_ptr<btConstraintSolver> host_solver_;
  std::string base_name_ = "sequential impulse";

  System system_;
  State state_, base_, end_;
  std::vector<btRigidBody*> body_of_;  ///< by BodyId; null for the world
  std::unordered_map<const btRigidBody*, int> id_of_;
  std::vector<Vector3d> last_v_, last_w_;  ///< of driven bodies, by BodyId
  std::vector<char> last_known_;
  std::deque<Record> records_;                                   ///< a deque: native parts refer to the shapes in it
  std::unordered_map<const btTypedConstraint*, int> record_of_;  ///< joints, native parts and proxies
  std::vector<const btTypedConstraint*> world_order_;            ///< as last scanned

  std::vector<std::unique_ptr<BlockSolve>> blocks_;  ///< reused from step to step
  std::unordered_map<int, int> block_of_first_;      ///< first constraint id → index in blocks_
  std::vector<int> group_;                           ///< blocks of the present group
  std::vector<btTypedConstraint*> rest_;
  std::vector<int> exact_records_, parent_, first_in_;
  struct Slot {
    int block = -1, slot = -1;
  };
  std::vector<Slot> slot_of_pool_;

  std::vector<Reaction> reactions_;
  std::vector<BodyBooks> books_;
  std::vector<int> book_of_;  ///< by BodyId: index in books_, −1
  std::vector<Shadow> shadow_;
  std::vector<Vector3d> shadow_v_, shadow_w_;  ///< native end-of-step velocity by BodyId
  std::shared_ptr<const std::function<void(const Step&)>>
      callback_;  ///< shared: it may replace or destroy us while it runs
  Counts counts_;
  double t_ = 0, dt_ = 1.0 / 60;
  unsigned step_ = 0;
  bool stepping_ = false;
  std::string trouble_;  ///< last reason of a fallback
  double max_gap_ = 0, max_angle_ = 0, last_gap_ = 0;

 private:
  // What the native solver changes while it runs in the shadow.
  struct SavedBody {
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
  std::vector<SavedBody> saved_bodies_;
  std::vector<SavedPoint> saved_points_;
  std::vector<SavedJoint> saved_joints_;
  std::vector<btJointFeedback> shadow_feedback_;

  void scan_world();
  void classify_record(int record);
  void sync_mass(btRigidBody& body, BodyId id);
  void sync_body(BodyId id);
  void order_reactions();
  int make_record(btTypedConstraint* joint, std::string name, bool named);
  std::string free_name(std::string base) const;

  BlockSolve& block_for(const std::vector<int>& records);
  bool begin_block(BlockSolve& b, Pools pools);
  void gather_native(Pools pools);
  bool finish_block(BlockSolve& b);
  bool substep_block(BlockSolve& b, double before);
  bool can_do_work(const BlockSolve& b) const;
  void keep_reactions(BlockSolve& b);
  void keep_books(BlockSolve& b);
  void note_time_dependence(BlockSolve& b);
  void keep_awake();
  void measure_gap(Record& record);
  std::span<const BodyState> states_now(
      const Constraint& constraint);  ///< as Bullet has them; valid until the next call
  std::vector<BodyState> states_;
  std::vector<double> residual_;
  void give_back(BlockSolve& b);
  void refuse_non_finite(BlockSolve& b);
  void break_joints(BlockSolve& b);
  void fail_block(BlockSolve& b, const std::string& why);
  void velocity_of_rows(const BlockSolve& b, std::span<const double> v, std::span<double> out) const;
  void compare_with_native();
};

/// Takes the wrench of a constraint's multipliers apart: A_iᵀλ_i on its body k, moment about the centre of mass.
Vector6 generalized_force(const Assembly& assembly, int i, int k, std::span<const double> lambda);

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
