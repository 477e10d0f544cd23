// The engine behind linchpin::bullet::Solver: what is known of the world (records), one step of it (groups and blocks),
// and what is told about it. engine.cpp keeps the records; islands.cpp, group.cpp, coupling.cpp, step.cpp, stages.cpp,
// substeps.cpp, host_parts.cpp, give_back.cpp and books.cpp take the step, in this order, or plain.cpp the plain one;
// shadow.cpp runs the native solver beside it; tell.cpp reports.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/detail/alignment.h>
#include <linchpin/detail/free_list.h>
#include <linchpin/detail/joint_step.h>
#include <linchpin/detail/name_index.h>
#include <linchpin/projection.h>
#include <linchpin/stages.h>

#include "class_of.h"
#include "crew.h"
#include "joints.h"
#include "law_warnings.h"
#include "proxy.h"
#include "turning.h"
#include "world_islands.h"

#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorldMt.h>
#include <BulletDynamics/Featherstone/btMultiBodySolverConstraint.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

class btMultiBodyDynamicsWorld;

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class Multibodies;  // multibody.h

/// Programs that read forces off the joint itself get them in every step: a bit for each way to ask.
inline unsigned char asks_for_forces(const btTypedConstraint& joint) {
  return (joint.getJointFeedback() ? 1 : 0) | (joint.getBreakingImpulseThreshold() < SIMD_INFINITY ? 2 : 0);
}

/// Native rows that touch a multibody, and perhaps a rigid body; none in a world without.
using LinkRows = std::array<const btMultiBodyConstraintArray*, 5>;

/// The native solver's arrays during one group: the mixin lends them.
struct Pools {
  btAlignedObjectArray<btSolverBody>& bodies;
  btConstraintArray& contacts;
  btConstraintArray& joints;
  btConstraintArray& friction;
  btConstraintArray& rolling;
  LinkRows link_rows{};
};

/// Whether a row was left out: neither side of it has a direction.
inline bool moves_nothing(const btSolverConstraint& row) {
  return row.m_contactNormal1.isZero() && row.m_relpos1CrossNormal.isZero() && row.m_contactNormal2.isZero() &&
         row.m_relpos2CrossNormal.isZero();
}

/// Of a joint's row, whether it pushes without bounds and one way only, which no motor does.
inline bool is_limit(const btSolverConstraint& row) {
  constexpr btScalar no_limit = btScalar(1e9);
  return (row.m_lowerLimit == 0 && row.m_upperLimit >= no_limit) ||
         (row.m_upperLimit == 0 && row.m_lowerLimit <= -no_limit);
}

/// The velocity of one side of a row at the velocities of its body.
inline double velocity_of(const btVector3& n, const btVector3& rn, const btVector3& v, const btVector3& w) {
  const auto dot = [](const btVector3& a, const btVector3& b) {
    return double(a.x()) * double(b.x()) + double(a.y()) * double(b.y()) + double(a.z()) * double(b.z());
  };
  return dot(n, v) + dot(rn, w);
}
/// By how much forces and rows have changed it since the step began.
inline double change_of(const btVector3& n, const btVector3& rn, const btSolverBody& body) {
  return velocity_of(n, rn, body.m_externalForceImpulse, body.m_externalTorqueImpulse) +
         velocity_of(n, rn, body.m_deltaLinearVelocity, body.m_deltaAngularVelocity);
}

/// What of the world takes part in a step.
struct WorldGroup {
  std::vector<btCollisionObject*> bodies;
  std::vector<btPersistentManifold*> manifolds;
  std::vector<btTypedConstraint*> constraints;
};

using Vector6 = Eigen::Matrix<double, 6, 1>;

/// An optional that is a pointer's size until it is first used, and stays where it is.
template <class T>
class Rare {
 public:
  T& emplace(T x) { return made().emplace(std::move(x)); }
  Rare& operator=(T x) {
    emplace(std::move(x));
    return *this;
  }
  void reset() {
    if (at_) at_->reset();
  }
  explicit operator bool() const { return at_ && at_->has_value(); }
  T& operator*() { return **at_; }
  const T& operator*() const { return **at_; }
  T* operator->() { return &**at_; }
  const T* operator->() const { return &**at_; }

 private:
  std::optional<T>& made() {
    if (!at_) at_ = std::make_unique<std::optional<T>>();
    return *at_;
  }
  std::unique_ptr<std::optional<T>> at_;
};

/// Runs of numbers in one array, used again when what they were of is gone.
class NumberRuns {
 public:
  /// @return where a run of this length begins
  int take(int size) {
    if (std::vector<int>& free = free_[size]; !free.empty()) {
      const int first = free.back();
      free.pop_back();
      return first;
    }
    const int first = static_cast<int>(numbers_.size());
    numbers_.resize(numbers_.size() + static_cast<std::size_t>(size));
    return first;
  }
  void give(int first, int size) {
    if (size > 0) free_[size].push_back(first);
  }
  double* data() { return numbers_.data(); }
  const double* data() const { return numbers_.data(); }

 private:
  std::vector<double> numbers_;
  std::map<int, std::vector<int>> free_;  ///< by length
};

/// One constraint of the world: a stock joint or one of the user's.
struct Record {
  // Looked at in every step.
  btTypedConstraint* joint = nullptr;  ///< null for the user's own
  int numbers = 0, numbers_size = 0;   ///< first of those of a joint, in Engine::joint_numbers_
  int primitives = 0;                  ///< first number of those of its exact part, in Engine::gap_numbers_
  int primitives_size = 0;
  short points = 0, axes = 0, dots = 0;  ///< how many of each
  bool oriented = false;                 ///< and behind them how the bodies are to be turned, as R_AB by rows
  bool turned_away = false;              ///< they were turned far from there when last looked at
  bool seen_to =
      false;  ///< its numbers are those that it was last classified by, and its bodies have stayed what they were
  std::unique_ptr<NativePart> native_part;
  JointKind kind = JointKind::other;
  ConstraintId id;                    ///< in the core; −1 when all of it is native
  int reaction = -1;                  ///< index in reactions()
  int first_law = -1, law_count = 0;  ///< its terms in Engine::law_works_
  bool alive = true;
  unsigned version = 0;          ///< how many had been made when it was: another may come to have its place
  unsigned order = 0;            ///< likewise, of constraints given to the core, when `id` was: blocks have them so
  bool enabled = true;           ///< the user's own
  bool native_seen = false;      ///< `native` is of the last step
  bool unmet = false;            ///< contradicts others: held in the least squares only
  bool let_go = false;           ///< one-sided, and not holding
  bool time_dependent = false;   ///< φ_t was not zero at some time
  bool moves_by_itself = false;  ///< φ_t is not zero now
  bool named = false;            ///< by the user: keeps its name
  bool joint_on = true;          ///< a joint of the world: switched on, when last looked at
  bool linked_collide = true;
  bool broken = false;
  bool released = false;  ///< an adopted joint given back to the native solver
  bool held = false;      ///< stands for a body's zero factors, not for a joint
  bool on_links = false;  ///< names a link of a multibody (multibody.h): `waiting` is its constraint, `id` stays −1
  bool by_links = false;  ///< a rigid joint that is solved with those
  bool in_tree = false;   ///< one on links that is a multibody's own joint: no row, as its coordinates keep to it
  bool reports_native = false;  ///< Reaction::native of it
  double work = 0;              ///< of it since the start [J]
  // The rest.
  std::string name;
  const void* type = nullptr;  ///< class_of() the joint: another may come to lie where it was
  JointSummary shape;
  Rare<Matrix3d> row_axes;  ///< JointShape::row_axes_A, where they are not the world's
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<btRigidBody*> bodies;  ///< of the user's own; two for a joint
  Rare<Constraint> waiting;          ///< of the user's own, while the core cannot take it: no body of it can move
  std::vector<Law> laws;             ///< kept for when the joint is classified again
  std::string why_native;            ///< of the last step, beyond its shape: fallback, unsupported body
  OneSided one_sided{.on = false};   ///< kept as laws are
  unsigned moved_step = 0;           ///< in which its frames or limits were last found changed while it held
  double parting = 0;                ///< one-sided: |φ̇| at the start of the last step
  ConstraintId link_id;              ///< one on links in the core, where it is while links have laws
  /// What Bullet's own rows of it did, mean force [N, N·m] about the centres of mass; there where it has had any.
  std::unique_ptr<Wrenches> native;
};

/// States of a step taken in parts; only the bodies of the block at hand are current.
struct SubstepStates {
  State start, now, next, end_given, settled;
};

/// A limit or contact of bodies of a block with each other or with what does not move, or what one shared with others
/// does on this side.
struct HeldRow {
  enum Kind : std::size_t { contact, limit, shared, kinds };
  btSolverConstraint* row;
  std::array<int, 2> slot;  ///< −1: does not move
  std::array<Vector6, 2> J;
  Wrenches* native;      ///< what is told of its joint; null: nothing
  double impulse, blow;  ///< of the step as it was solved; what of it begins the step, see blow_of()
  double strikes, left;  ///< of a step in parts: of the blow, and of the rest, what is yet to be done
  double now;            ///< of the rest in the part at hand
  double before, work;   ///< velocity of the row where that begins, and what it does in it [J]
  Kind kind;
  bool let_go;   ///< not in the part at hand
  bool dropped;  ///< nor in those after it
};

/// What limits, locks and contacts with what does not move, or among a block's own bodies, were solved to do [J].
struct PassiveWork {
  double work = 0;           ///< of all
  double contacts_ask = 0;   ///< Σ p · target, of each no more than twice what it may give
  double contacts_most = 0;  ///< all bodies at the largest of these
  double limits_ask = 0;
};

/// What a step of a block leaves to its next.
struct CarriedOn {
  double last_length = 0;  ///< of the last (sub)step [s]; 0 at the start
  double next_length = 0;  ///< of plain substeps, where the last step was taken in such: of the next [s]
  double whole_swing = 0;  ///< of a whole step, the last time that it was too long, over that of its parts, summed up
  double next_part = 0;    ///< how long the next step's first part may be [s], 0: not known
  double usual_off = 0;    ///< by which its last step began off the velocity constraints, O(dt)
  int added_steps = 0;     ///< steps in a row that BlockSolve::added goes back
  unsigned plain_from = 0, plain_waits = 0;  ///< it cost more than the way of all others: not before that step
  unsigned creeps_until = 0;                 ///< from the step before which an end at rounding is looked for again
  std::vector<Matrix3d> next_stiffness;      ///< K⁺ at the end of the last step, where the next will need it
};

/// What else its next steps depend on, for Solver::history(). Steps are counted as by the engine.
struct BlockPast : CarriedOn {
  std::vector<int> records;
  std::vector<double> added;
  std::array<double, 6> added_size{};
  int added_in_vain = 0, added_rest = 0, failures = 0;
  bool was_unmet = true;
  unsigned last_step = 0, too_long_at = 0, next_try = 0;
  std::string trouble;
  std::vector<char> stuck;
  std::shared_ptr<const Dynamics::LawHistory> laws;
};

/// Constraints and bodies that are solved together. Blocks share nothing that their solution writes but what is theirs
/// in the engine's states, records and reactions: several may be solved at a time.
struct BlockSolve : CarriedOn {
  CarriedOn before;                       ///< as this step was given it, when it has to be taken once more
  std::unique_ptr<const BlockPast> past;  ///< what it goes back to, when it is laid out
  std::vector<int> records;
  unsigned records_made = 0;      ///< how many had been when it was laid out
  std::vector<ConstraintId> ids;  ///< by Record::order
  Block block;
  std::optional<Dynamics> dynamics;              ///< where a step has needed it
  detail::JointStep plain;                       ///< for steps of nothing but joints (plain.cpp)
  unsigned masses_at = 0;                        ///< Engine::mass_changes_ when it took them
  bool plain_known = false, plain_fits = false;  ///< whether it was tried to lay it out for that; it may be used now
  bool posed = false;      ///< the poses from which Bullet starts and those of the end are written down
  std::vector<int> sides;  ///< of a block laid out for plain steps: slot of each of its joints' two bodies, −1: none
  bool in_turns = false;   ///< it is taken plainly, in turns with native rows
  bool plain_parts = false;                   ///< the last step was taken in plain substeps
  std::vector<double> part_pull, sub_pull;    ///< of plain substeps, by joint: see JointStep::Numbers::pull; their sums
  double parts_length = 0, parts_before = 0;  ///< with which they began [s]
  bool plainly = false;         ///< the last step was taken so, and its problem is not evaluated: see Engine::problem()
  std::vector<BodyId> touched;  ///< every body that its constraints name, fixed and driven ones too
  std::vector<BodyId> outside;  ///< the fixed and driven ones of them
  std::vector<int> part;        ///< by slot, of bodies that welds make one the same; −1: held to what does not move
  bool welded = false;          ///< there are such
  std::vector<int> pool;        ///< solver body by slot
  std::vector<double> v, applied, Q, lambda, e;
  std::vector<double> v0, host, Q_host, force, dv, target;  ///< of plain steps that no native row touches: none
  std::vector<double> change, row_change;                   ///< of velocities in a step, and of rows: scratch
  std::vector<HeldRow> held_rows;                 ///< of the rows in `host` those that can be let go in parts of a step
  std::vector<double> at_once, spread;            ///< of others what begins such a step, see blow_of(), and the rest
  std::vector<double> part_held, part_blow;       ///< of all in the part at hand, as forces, and at its start
  double takes = 0;                               ///< what shared ones were solved to do on it [J]
  double solved_work = 0;                         ///< of all native rows on it, as they were solved [J]
  PassiveWork passive;                            ///< is part of it
  double limit_return = 0;                        ///< what may bring back a limit that is exceeded, whatever moves [J]
  double given = 0;                               ///< by native rows and constraints in this step so far [J]
  std::vector<double> damping;                    ///< impulses of what damps this step; empty: none could
  std::array<double, HeldRow::kinds> may_give{};  ///< what those of a kind may yet do in the step [J]
  std::vector<double> own_lambda;                 ///< multipliers of all impulses of the step [m]
  std::vector<double> sub_v, sub_applied, sub_host, sub_momentum;  ///< of a step redone in smaller ones
  std::vector<double> sub_gross;       ///< largest impulse and angular impulse summed in them, by slot
  std::vector<double> left_open;       ///< [m] φ that a substep is to end on
  std::vector<double> sub_gyroscopic;  ///< what a substep's torque has beyond that of the step's start, which is in Q
  Instant kept;                        ///< the problem at the step's start, when substeps have overwritten it
  bool has_kept = false;
  bool sized = false;        ///< what plain steps do without has the size of the block
  bool creeps = false;       ///< no end at rounding was found: what is closed to gap_tolerance stands
  bool native_rows = false;  ///< some native row touches a body of the block
  bool answered = false;     ///< its accelerations are known before the native rows are solved
  bool in_contact = false;   ///< one of them is a contact
  bool on_ground = false;    ///< one of them pushes at what does not move
  bool link_rows = false;    ///< one of them touches a multibody, too
  bool by_rows = false;      ///< each of them knows what it does to the whole block (coupling.cpp)
  int row_count = 0;         ///< how many there are
  double mass = 0;           ///< where by_rows: of all its bodies [kg]
  int one = -1;              ///< solver body for all of it, where welds make it one; only during the iterations
  detail::JointStep::One as_one;
  std::vector<int> met;     ///< where by_rows: slots of bodies that native rows touch
  std::vector<int> met_at;  ///< by slot its place among those, −1: none
  struct Asked {
    std::size_t at;  ///< where the answer goes
    detail::JointStep::Push push;
  };
  std::vector<Asked> asked;  ///< pushes that are yet to be answered
  bool pushed = false;       ///< split impulse or gap correction changed the start poses
  bool write_pose = false;
  bool stray = false;  ///< one of its bodies is not in the world
  bool failed = false;
  bool done = false;
  enum class Stage { waits, begun, solved, refused, concluded } stage = Stage::waits;  ///< of a block set apart
  std::string trouble;                                                                 ///< why it was refused
  SubstepStates* states = nullptr;                                                     ///< of whoever solves it
  struct Tally {  ///< for Counts, since it was last collected
    long solves = 0, factors = 0, newton = 0, substepped = 0, substeps = 0, parts = 0, parts_refused = 0,
         stepped_down = 0, stiffened = 0;
    long damped = 0;
    double activation_energy = 0, stiffness_work = 0, damping_work = 0;
  } tally;
  /// Of a joint, the rows that are forces: along orthonormal axes, so that their norm is the force's.
  struct JointRow {
    btTypedConstraint* joint;
    int index, row, count;  ///< its place among the records, its rows of force
  };
  std::vector<JointRow> joints;
  /// Entries of A by body, for pushes at one of them: slot_rows[slot_begin[i]] and on are those of slot i.
  struct SlotRow {
    const double* J;
    int row, count;
  };
  std::vector<SlotRow> slot_rows;
  std::vector<int> slot_begin;
  bool remembers = false;    ///< some function of it has a memory
  bool geared = false;       ///< of turns, which poses tell less than half of
  bool of_users = false;     ///< some constraint of it is the user's own
  bool with_driven = false;  ///< or touches a body that the program moves
  bool with_laws = false;
  std::vector<char> stuck;  ///< which dry contacts of its laws stuck at the end of the last step
  std::string law_trouble;  ///< the first that laws had in the parts of this step that stand
  StandingTold standing_told;
  bool wants_all = false;      ///< or has laws or feedback: its reactions are needed in every step
  bool breaks = false;         ///< some joint of it has a threshold
  bool work_in_books = false;  ///< the last step's work is counted when its books are put together
  bool told = true;            ///< reactions and books say what its last step did
  std::vector<double> work;    ///< done by each row and not yet in the reactions [m] [J]
  /// What Newton added to the multipliers in the last step, and its backward differences over the steps before: row by
  /// row [m × added_orders]; the largest of each order.
  static constexpr int added_orders = 6;
  std::vector<double> added;
  std::array<double, added_orders> added_size{};
  int added_in_vain = 0, added_rest = 0;  ///< steps that nothing was foretold of, and those not to be looked at
  bool in_parts = false;   ///< the step was taken in parts or by stages: another problem than its start's is factored
  bool by_stages = false;  ///< by stages, of which
  bool recorded = false;   ///< reactions and books have been told as they went, or what they take has been summed up
  bool end_after = false;  ///< Bullet integrates with the mean velocity, and is given that of the end after
  const char* stepped_down = nullptr;  ///< why not by stages, where Options::stepping asks for them
  StepInStages stages;
  std::vector<char> gyroscopic;  ///< by slot, whether it has such a torque,
  std::vector<char> spinning;    ///< and whether Q and `applied` lack it, which a plain step adds; see add_spins()
  bool spins = false;            ///< some body does
  TurningBodies turning, part_turning;                                      ///< of the step; of its part at hand
  std::vector<double> part_lambda, part_work, part_applied, part_momentum;  ///< of a part until it stands
  std::vector<double> sub_work, sub_lambda;                                 ///< by row, of the parts that do
  std::vector<Vector6> mean;           ///< velocities by slot that Bullet integrates with; not finite: it has its own
  std::vector<Vector6> part_wrenches;  ///< impulses by constraint and body about the centres of mass
  double first_part = 0;               ///< how long this step's was tried to be [s]
  double part_error = 0;               ///< of the part tried last, in units of the tolerance
  std::vector<double> law_last;        ///< LawWork::last of its laws in the parts that stand
  std::vector<double> law_memory;      ///< Dynamics::memory() at the step's start,
  double lived = 0;                    ///< through so much of which parts have taken it [s]
  std::vector<Matrix3d> stiffness;     ///< by slot, ½ dt² K⁺ of this step (T15); empty: none
  int substeps = 1;
  double moved = 0;         ///< by which a gap was closed in this step [m]
  double gap_left = 0;      ///< and what was left of it
  double turned = 0;        ///< the largest turn of a body by that [rad]
  double away = 0;          ///< by which a joint was turned far from where it is held, at the start [rad]
  int away_record = -1;     ///< and which
  bool on_the_way = false;  ///< it still is, for a step brings it back by no more than so much
  bool follows = false;     ///< its joints' frames have moved, and its bodies go with them in this step
  bool unmet = false;       ///< rows contradict each other: least squares
  bool was_unmet = true;    ///< or did in the last step
  double swing = 0;
  int newton = 0;
  unsigned last_step = 0;
  unsigned too_long_at = 0;  ///< step in which native rows began from the velocities of a whole one that it cannot take
  bool again = false;        ///< they are to be solved once more, from others
  double by_reference = 0;   ///< m² n of the factors that substeps of this step had from the reference
  bool too_dear = false;     ///< and they were too many
  int failures = 0;          ///< tries in a row that failed
  unsigned next_try = 0;     ///< left to native rows until this step
  int flags_rank = -1;       ///< rank at which determined/redundant were last asked for
};

/// Of a body that the program moves, where it was at the end of the last step, and how fast.
struct PastOfDriven {
  Vector3d v, w;
  Quaterniond q;
};
/// Where a body was when Bullet's sleep timer began.
struct RestPose {
  bool known = false;
  Vector3d p = Vector3d::Zero();
  Quaterniond q = Quaterniond::Identity();
};
/// By Record::order what one step's sets differ in (the first alone would do), and mostly those of different steps too.
struct ConstraintSet {
  unsigned first, last;
  int count;
  bool operator==(const ConstraintSet&) const = default;
  struct Hash {
    std::size_t operator()(const ConstraintSet& s) const {
      return s.first * 73856093u ^ s.last * 19349663u ^ unsigned(s.count) * 83492791u;
    }
  };
};

/// Of a record what Solver::history() keeps.
struct RecordPast {
  int index;
  unsigned version, order, moved_step;
  bool enabled, let_go, unmet, time_dependent, moves_by_itself, joint_on, broken, released;
  double parting, work;
  std::vector<double> memory;  ///< of its function
  std::vector<LawWork> law_works;
};
/// And of all, with the solver's own marks where it is `of`.
struct EnginePast {
  unsigned long of;
  double t, dt;
  unsigned step;
  bool teleported, replaced;
  std::unordered_map<int, PastOfDriven> driven;
  std::vector<RestPose> rest_poses;
  std::vector<RecordPast> records;
  std::vector<BlockPast> blocks;
  std::unordered_map<ConstraintSet, int, ConstraintSet::Hash> block_of_set;
  std::shared_ptr<const Dynamics::LawHistory> link_laws;
  Counts counts;
  LawWarnings law_warnings;
  double max_gap, max_angle;
};

class Engine final : public btActionInterface {
 public:
  Engine(Solver& owner, Options options);
  ~Engine() override;

  // ---- the world (engine.cpp) ----
  std::string install(btDiscreteDynamicsWorld& world);  ///< empty, or why not
  void make_solver();                                   ///< for construction-time injection
  std::string attach(btDiscreteDynamicsWorld& world);
  void world_ends();
  const char* why_no_world() const;  ///< while there is none
  void uninstall();
  btConstraintSolver* host_solver() { return host_solver_.get(); }

  BodyId body_id(btRigidBody& body);
  btRigidBody* body_of(BodyId id) const;  ///< null for the world, and for one that is gone
  std::string add_user(Constraint constraint, std::vector<btRigidBody*> bodies, int& record);
  std::string name_joint(btTypedConstraint& joint, std::string name, int& record);
  int find(std::string_view name) const;
  /// Null where it is gone, by now: the program deletes joints, and their bodies, without a word.
  Record* still_there(int record);
  bool is_stale(int record, unsigned version) const {
    const Record& r = records_[static_cast<std::size_t>(record)];
    return r.version != version || !r.alive;
  }
  void rename(int record, std::string name);
  void remove(int record);
  void remove_by_user(int record);  ///< an adopted joint stays in the world and goes back to the native solver
  void forget(btRigidBody& body);
  void reset();
  std::shared_ptr<const EnginePast> history();
  std::string go_back(const EnginePast& past);  ///< empty, or why not
  std::string add_law(int record, Law law);
  void clear_laws(int record);
  std::string set_one_sided(int record, OneSided how);
  void set_points(int record, std::vector<Vector3d> points);
  void enable(int record, bool on);
  void link_collisions(int record, bool on);
  bool in_world(const btRigidBody& body) const;

  // ---- one step, called by the mixin (islands.cpp, group.cpp, step.cpp, give_back.cpp) ----
  void begin_step();
  void take_islands();
  void give_islands_back();
  bool takes_islands() const { return whole_world_; }
  WorldGroup& gather_awake(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                           btTypedConstraint** constraints, int nc, btDispatcher* dispatcher);
  void begin_group(btTypedConstraint** constraints, int constraint_count, const btContactSolverInfo& info);
  void set_apart(WorldGroup& g);
  void solve_apart(WorldGroup& g);
  void conclude_apart();
  btTypedConstraint** rest() { return rest_.empty() ? nullptr : rest_.data(); }
  int rest_count() const { return static_cast<int>(rest_.size()); }
  /// @return false when a block must go to native rows: the native setup is then to be done again with the new rest().
  bool after_setup(Pools pools);
  void after_push(Pools pools);
  /// Gives native rows of small number the motion of whole blocks. @return whether there are any, to be solved by
  /// row_generic and row_lower instead of Bullet's own between begin_rows() and the end of the iterations.
  bool couple_rows(Pools pools);
  void begin_rows(Pools pools, btSingleConstraintRowSolver generic, btSingleConstraintRowSolver lower);
  static btScalar row_generic(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row);
  static btScalar row_lower(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row);
  void after_iteration(Pools pools);
  bool after_iterations(Pools pools);  ///< false as after_setup
  void after_finish();
  void drop_pool(Pools pools);  ///< before a native setup is done again
  void forget_contacts_of_failed(btPersistentManifold** manifolds, int count) const;

  // ---- shadow (shadow.cpp) ----
  bool wants_shadow() const { return options_.shadow && options_.mode == Mode::exact && world_; }
  bool tells_native() const { return options_.shadow || options_.mode == Mode::observe; }
  void save_world(btCollisionObject** bodies, int body_count, btPersistentManifold** manifolds, int manifold_count,
                  btTypedConstraint** constraints, int constraint_count);
  void take_shadow(btPersistentManifold** manifolds, int manifold_count, btTypedConstraint** constraints,
                   int constraint_count);

  // ---- links of multibodies (multibody.h) ----
  Multibodies* multibodies() const { return multibodies_.get(); }
  void end_links();  ///< all islands are solved
  std::string new_body_name(const char* kind);
  void make_room(BodyId id, btRigidBody* body);  ///< for a body new to the core
  void leave_body(int index);                    ///< it is gone: its place is free when nothing names it any more

  void end_velocities();  ///< right after the host has integrated
  // btActionInterface: after that
  void updateAction(btCollisionWorld*, btScalar dt) override;
  void debugDraw(btIDebugDraw* draw) override;  ///< tell.cpp

  // ---- telling (tell.cpp) ----
  void order_laws();      ///< where something has changed; before law_works_ is read
  void make_reactions();  ///< by any of the crew
  void make_ends();       ///< likewise
  void silence(Record& r);
  void report_native(Record& r, bool native);
  void add_work(Record& r, double work);
  void refresh();        ///< reactions and books of the last step, where nobody has asked yet
  void refresh_flags();  ///< and which of them are redundant or undetermined
  void tell(BlockSolve& b);
  void flush_work(BlockSolve& b);
  std::string summary();
  std::vector<Solver::Native> native() const;
  std::vector<Solver::Finding> check();
  RankReport rank_report();
  /// Of constraints that cannot be met, as indices into reactions(): those that something is left of.
  std::vector<int> unmet();
  Instant instant(std::string_view name);
  double energy() const;

  const Constraint& own(const Record& record) const;  ///< of the user's, in the core or waiting
  // linearised rows for proxies
  void linearize(const Record& record, std::vector<double>& A, std::vector<double>& b, std::vector<double>& position,
                 std::vector<double>& velocity);

  Solver& owner_;
  Options options_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  btDiscreteDynamicsWorldMt* threads_ = nullptr;     ///< the same, where it is one of several threads,
  btMultiBodyDynamicsWorld* links_world_ = nullptr;  ///< or one of multibodies
  std::unique_ptr<WorldIslands> islands_;            ///< while there is a world
  bool world_ended_ = false;                         ///< the last one was destroyed before it was left
  btConstraintSolver* native_ = nullptr;
  btConstraintSolver* native_large_ = nullptr;  ///< a btDiscreteDynamicsWorldMt's other one, for large islands
  bool world_owned_native_ = false;
  std::unique_ptr<btConstraintSolver> host_solver_;
  std::string base_name_ = "sequential impulse";
  std::unique_ptr<Multibodies> multibodies_;  ///< of a btMultiBodyDynamicsWorld
  /// The first of the world's actions: what others read and change must be the velocities of the step's end.
  struct FirstAction final : btActionInterface {
    explicit FirstAction(Engine& e) : engine(e) {}
    void updateAction(btCollisionWorld*, btScalar) override { engine.end_velocities(); }
    void debugDraw(btIDebugDraw*) override {}
    Engine& engine;
  } first_action_{*this};

  System system_;
  State state_, base_, end_;
  std::vector<std::unique_ptr<SubstepStates>> substep_states_;  ///< by member of the crew
  std::unique_ptr<Crew> crew_;                                  ///< none where one thread does it all
  detail::JointShapes joint_shapes_;                            ///< of blocks that are nothing but joints
  std::vector<btRigidBody*> body_of_;                           ///< by BodyId; null for the world
  std::unordered_map<const btRigidBody*, int> id_of_;
  std::vector<int> place_;  ///< in the world's array of objects, by BodyId; −1: not in the world
  using Past = PastOfDriven;
  std::unordered_map<int, Past> past_of_driven_;  ///< by BodyId
  /// What of a body's settings the core's system depends on, and when it was last looked at.
  struct BodyWatch {
    const btRigidBody* body = nullptr;
    int flags = 0;
    int settings = 0;      ///< btRigidBody::getFlags()
    unsigned read_at = 0;  ///< step at whose beginning state_ and loads_ have it
    btScalar inverse_mass = -1, inverse_inertia[3] = {0, 0, 0};
  };
  std::vector<BodyWatch> body_watch_;  ///< by BodyId
  struct Factors {
    btVector3 linear{1, 1, 1}, angular{1, 1, 1};
  };
  std::unordered_map<int, Factors> odd_factors_;  ///< by BodyId, of bodies of which some are not 1
  struct Load {
    Vector3d force = Vector3d::Zero(), torque = Vector3d::Zero();  ///< that the program applies, gravity included
  };
  std::vector<Load> loads_;     ///< by BodyId
  std::vector<int> driven_;     ///< BodyIds of what the program moves
  bool any_swept_ = false;      ///< some body is to be stopped in mid-step (CCD)
  bool timers_run_ = true;      ///< Bullet's sleep timer may run for some body
  bool joints_edited_ = false;  ///< a joint of the world is not as it was classified, as last scanned
  NumberRuns joint_numbers_;    ///< that joints are classified by, one joint's after the other's
  std::vector<const btRigidBody*> changed_bodies_;
  std::vector<int> with_native_part_, failed_records_, timed_records_, off_records_, with_driven_;
  bool has_exact_ = false;                                  ///< something in the world is exact
  std::vector<const btTypedConstraint*> last_constraints_;  ///< of the last group, as long as the structure is the same
  bool bodies_came_ = false;                                ///< since they were last watched
  int bodies_made_ = 1;                                     ///< in the core, the world with them
  std::vector<int> bodies_gone_;                            ///< whose places in the core are not free yet
  unsigned mass_changes_ = 1;                               ///< counts them
  unsigned structure_ = 1, watched_structure_ = 0, grouped_structure_ = 0;  ///< counts changes of what there is
  struct Held {
    unsigned locked = 0;
    int record = -1;
    unsigned in_group = 0;  ///< the last group it was taken into
  };
  unsigned group_count_ = 0;
  std::vector<Held> held_;            ///< by BodyId
  std::vector<RestPose> rest_poses_;  ///< where a body was when Bullet's sleep timer began, by BodyId; none: none did
  std::deque<Record> records_;        ///< a deque: native parts refer to the shapes in it
  detail::NameIndex names_;           ///< of those that are alive
  detail::FreeList free_records_;
  std::vector<int> records_gone_;  ///< whose places are not free yet
  unsigned records_made_ = 0, orders_given_ = 0;
  std::unordered_map<const btTypedConstraint*, int> record_of_;  ///< joints, native parts and proxies
  /// A constraint of the world. The program may delete one and make another at its address: a pointer is not enough.
  struct Seen {
    btTypedConstraint* joint;
    const void* type;  ///< class_of()
    const btRigidBody *a, *b;
    // Of one that has a record, what is looked at in every step; the rest only when it changed.
    int record = -1, numbers = 0;
    JointKind kind = JointKind::other;
    Reach reach;
    bool enabled = false;
    unsigned char asks = 0;
    explicit Seen(btTypedConstraint* c)
        : joint(c), type(class_of(*c)), a(&c->getRigidBodyA()), b(&c->getRigidBodyB()) {}
    bool still(btTypedConstraint& c) const {
      return type == class_of(c) && a == &c.getRigidBodyA() && b == &c.getRigidBodyB() && marked(c);
    }
  };
  std::vector<Seen> world_order_;                     ///< as last scanned
  std::vector<std::unique_ptr<Proxy>> past_proxies_;  ///< removed since the last step began

  std::vector<std::unique_ptr<BlockSolve>> blocks_;                           ///< reused from step to step
  std::unordered_map<ConstraintSet, int, ConstraintSet::Hash> block_of_set_;  ///< index in blocks_
  std::vector<int> group_;                   ///< blocks of the present group that native rows may touch
  std::vector<int> apart_;                   ///< and those that none does
  std::vector<std::span<const int>> alike_;  ///< of them, those next to each other that are stepped side by side
  WorldGroup world_group_;
  std::vector<char> touched_by_native_;  ///< by BodyId
  /// What the world handed over last, pointer by pointer, and the BodyIds of it: −1 none.
  std::vector<const void*> handed_objects_, handed_constraints_;
  std::vector<int> handed_bodies_;
  std::vector<std::array<int, 2>> handed_ends_;
  std::vector<int> group_bodies_;        ///< of world_group_.bodies
  std::vector<char> awake_, set_apart_;  ///< by BodyId
  unsigned handed_structure_ = 0;
  bool whole_world_ = false, islands_were_split_ = true;
  std::vector<btTypedConstraint*> rest_;
  std::vector<int> exact_records_, parent_, first_in_, next_in_, last_in_, last_group_;
  std::vector<std::pair<btTypedConstraint*, int>> stays_native_;  ///< and the record whose native part it is, or −1
  struct Slot {
    int block = -1, slot = -1;
  };
  std::vector<Slot> slot_of_pool_;
  /// Of a solver body as rows name it: none where there is none, or it belongs to no block.
  Slot slot_of(int body) const {
    const auto i = static_cast<std::size_t>(body);
    return body >= 0 && i < slot_of_pool_.size() ? slot_of_pool_[i] : Slot{};
  }
  /// What an impulse of one on a native row changes, per side: of a block all its bodies, else (−1) Bullet's one.
  struct Response {
    int block[2] = {-1, -1};
    std::size_t first[2] = {0, 0};  ///< in response_parts_, linear and angular by BlockSolve::met
    double raw = 0, held = 0;  ///< of the row's own motion by a unit impulse: without constraints; on what has none
  };
  struct RowRange {
    btSolverConstraint* first;
    int size, response;
  };
  std::vector<Response> responses_;
  std::vector<double> response_moves_, moves_;  ///< the same in double; of pushes answered together
  std::vector<btVector3> response_parts_;
  std::vector<RowRange> row_ranges_;
  /// What of a row is another while it pushes at a block as at one body.
  struct Side {
    btSolverConstraint* row;
    int k, body;
    btVector3 turn, angular;
  };
  std::vector<Side> sides_;
  struct Still {
    btRigidBody* body;
    btTransform pose;
    btVector3 v, w;
  };
  std::vector<Still> still_;  ///< bodies that this step is not to move
  std::vector<double> response_change_;
  std::vector<Vector6> push_;           ///< of one block, by slot
  std::vector<int> rows_at_, ways_at_;  ///< by Bullet's solver body: rows that push at it; its six ways in ways_, or −1
  std::vector<double> ways_;            ///< of each the motion of BlockSolve::met [6 × 6·met]
  btAlignedObjectArray<btSolverBody>* coupled_bodies_ = nullptr;  ///< during the iterations
  btSingleConstraintRowSolver native_generic_ = nullptr, native_lower_ = nullptr;

  std::vector<Reaction> reactions_;  ///< none before somebody asks for one, or a step needs them
  int reaction_count_ = 0;           ///< how many there are then
  std::mutex making_;
  std::atomic<bool> reactions_made_ = false, ends_made_ = false;  ///< base_ and end_ are the ends
  std::vector<BodyBooks> books_;
  std::vector<int> book_of_;        ///< by BodyId: index in books_, −1
  std::vector<LawWork> law_works_;  ///< of all records, in the order of reactions_ once order_laws() has run
  bool laws_changed_ = false;       ///< who has which laws, since then
  unsigned law_edits_ = 1;          ///< counts the times that what stands of laws is to be told anew
  LawWarnings law_warnings_;
  std::vector<Shadow> shadow_;                 ///< where tells_native(), as reactions_
  std::vector<Vector3d> shadow_v_, shadow_w_;  ///< native end-of-step velocity by BodyId, likewise
  std::shared_ptr<const std::function<void(const Step&)>>
      callback_;  ///< shared: it may replace or destroy us while it runs
  Counts counts_;
  static constexpr double first_dt = 1.0 / 60;
  double t_ = 0, dt_ = first_dt, max_gyroscopic_force_ = 100;
  unsigned step_ = 0;
  const unsigned long serial_ = next_serial();  ///< no other engine's
  const char* stepped_down_ = nullptr;          ///< last reason of Counts::stepped_down
  bool stepped_ = false;  ///< this step's solve came to us, directly or through a solver that wraps ours
  std::string trouble_;   ///< last reason of a fallback
  double max_gap_ = 0, max_angle_ = 0;
  std::string widest_turned_;  ///< the joint of Counts::widest

 private:
  friend class Multibodies;
  // What the native solver changes while it runs in the shadow.
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
  std::vector<SavedBody> saved_bodies_;
  std::vector<SavedPoint> saved_points_;
  std::vector<SavedJoint> saved_joints_;
  std::vector<btJointFeedback> shadow_feedback_;

  std::string find_kind(btDiscreteDynamicsWorld& world);
  void enter(btDiscreteDynamicsWorld& world);
  static unsigned long next_serial();
  void set_solver(btConstraintSolver* solver);
  void add_actions();
  void remove_actions();
  static bool marked(btTypedConstraint& joint);
  static void mark(btTypedConstraint& joint);
  void mark_joints();
  bool same_world();
  void scan_world();
  bool others_act() const;
  void free_places();
  bool is_named(BodyId id) const;
  void drop_bodies_gone();
  bool drop_if_gone(std::size_t i);
  void refuse_velocities(btRigidBody& body, int id);
  void take_state(BodyId id);
  void size_up(BlockSolve& b) const;
  bool has_other_factors(int id, const btRigidBody& body);
  bool note_settings(std::size_t i, const btRigidBody& body);
  void recognize(btCollisionObject** bodies, int nb, btTypedConstraint** constraints, int nc);
  void take_out(Proxy& p);
  void take_out_for_good(std::unique_ptr<Proxy> p);
  void watch_bodies();
  bool falls_asleep(const BlockSolve& b) const;
  void follow_driven();
  void watch_joints();
  void join_anew(Record& r);
  void make_blocks();
  static void keep_past(const BlockSolve& b, BlockPast& past);
  void go_back(BlockSolve& b, const BlockPast& past) const;
  void go_back(Record& r, const RecordPast& past, unsigned later);
  std::string why_not_back(const EnginePast& past) const;
  void hold_locked_axes();
  void wake(const Record& r);
  void switch_on(Record& r, bool on);
  void engage_one_sided();
  void release_one_sided(BlockSolve& b);
  void forget_law_works(BlockSolve& b);
  static void note_trouble(BlockSolve& b);
  /// @param trouble  of laws in this step
  void note_warnings(const Dynamics& dynamics, std::string_view trouble, StandingTold& told);
  /// @param by_row  [m] or empty: what they do to bodies that the equations move is added to their constraint's first
  void book_laws(BlockSolve& b, const State& at, double dt, std::span<const double> v0, std::span<const double> v1,
                 std::span<double> by_row = {});
  void classify_record(int record);
  void classify_anew();
  void sync_mass(btRigidBody& body, BodyId id);
  void sync_outside(const std::vector<int>& blocks);
  void sync_body(BodyId id);
  Vector3d driven_spin(BodyId id, const BodyState& now) const;
  void order_reactions();
  void describe(const Record& r, Reaction& reaction) const;
  int make_record(btTypedConstraint* joint, std::string name, bool named);
  std::string free_name(std::string base) const;

  BlockSolve& block_for(const std::vector<int>& records);
  bool read_block(BlockSolve& b, const Pools* pools);
  void make_dynamics(BlockSolve& b) const;
  bool begin_block(BlockSolve& b, bool among_rows);
  bool start_block(BlockSolve& b);
  /// Newton to where native rows start from: rows that iterate need no last digits, the end of the step has them [m].
  static constexpr double start_tolerance = 1e-9, start_slack = 1e3;
  static constexpr int start_solves = 5;
  void lay_out_plain(BlockSolve& b);
  void take_plainly(std::span<const int> blocks, int member);
  detail::JointStep::Job plain_job(BlockSolve& b) const;
  detail::JointStep::Limits plain_limits(double length, double enough) const;
  double length_before(const BlockSolve& b) const;
  void add_applied(BlockSolve& b, double time) const;
  bool turns_far(const Vector3d& w) const;
  bool substep_plainly(BlockSolve& b, double length, double before, int member, detail::JointStep::Outcome& at_start,
                       bool records);
  void record_part(BlockSolve& b, const State& now, double weight);
  void record_parts(BlockSolve& b);
  bool goes_in_parts(const BlockSolve& b) const;
  void expect_parts(BlockSolve& b) const;
  bool go_in_parts(BlockSolve& b, double before, int member);
  bool settle_plainly(BlockSolve& b, const detail::JointStep::Outcome& whole, double before, int member);
  void end_plainly(BlockSolve& b, const detail::JointStep::Outcome& at_start);
  bool begin_in_turns(BlockSolve& b);
  double curved_for(const BlockSolve& b) const;
  bool starts_in_parts(const BlockSolve& b) const;
  bool ask_for_rows_again(BlockSolve& b) const;
  bool start_in_turns(BlockSolve& b);
  bool starts_a_turn_on(const BlockSolve& b) const;
  bool finish_in_turns(BlockSolve& b);
  bool leave_turns(BlockSolve& b);
  std::span<const double> forces_with_host(BlockSolve& b) const;
  void leave_plainly(BlockSolve& b, double before);
  void note_pull(BlockSolve& b);
  void tell_parts(BlockSolve& b);
  double energy_at_start(const BlockSolve& b) const;
  double inner_energy_at_start(const BlockSolve& b) const;
  double may_gain(const BlockSolve& b) const;
  double limits_may_give(const BlockSolve& b) const;
  static void put_velocities(const BlockSolve& b, const State& at, std::span<double> v);
  void pose(BlockSolve& b);
  /// The problem of a block's last step as it was at its start.
  Dynamics& problem(BlockSolve& b) const;
  void conclude(BlockSolve& b);
  bool refuse(BlockSolve& b, std::string why) const;
  bool calls_the_program(const BlockSolve& b) const;
  void begin_apart(std::span<const int> blocks, int member);
  void solve_in_turns(BlockSolve& b, WorldGroup& g);
  void solve_on_several_threads();
  void add_spin(BlockSolve& b, int slot, bool by_host) const;
  void add_spins(BlockSolve& b) const;
  Vector3d gyroscopic_change(const btRigidBody* body, int flags, const Matrix3d& R, const Vector3d& I,
                             const Vector3d& u, const Vector3d& L, double most) const;
  void end_group();
  void held_motion(BlockSolve& b, int slot, int other);
  bool make_one(BlockSolve& b, Pools pools) const;
  void push_as_one(btSolverConstraint& row, Pools pools);
  void put_rows_back(Pools pools);
  static double speed_at_start(const btSolverConstraint& row, Pools pools, int k);
  void forget_unsolved(Pools pools) const;
  void ask(BlockSolve& b, const detail::JointStep::Push& push, std::size_t at, std::vector<double>& to);
  void answer_asked(BlockSolve& b, std::vector<double>& to);
  bool goes_by_ways(const btSolverConstraint& row) const;
  void find_ways(BlockSolve& b);
  void respond(const btSolverConstraint& row, Pools pools);
  double held_by(const btSolverConstraint& row, const Response& response) const;
  void push_out_gently(btSolverConstraint& row, const Response& response, Pools pools) const;
  void drive_back_gently(btSolverConstraint& row, const Response& response, Pools pools) const;
  void step_by_response(btSolverConstraint& row, const Response& response) const;
  static void let_be(btSolverConstraint& row);
  void find_rigid_parts(BlockSolve& b);
  void leave_out_rigid_parts(Pools pools) const;
  btScalar resolve_row(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above);
  void hold_animated(Pools pools) const;
  void stand_still();
  void gather_native(Pools pools, bool solved);
  void note_work(const btSolverConstraint& row, Pools pools);
  double passive_work(const BlockSolve& b) const;
  bool keep_row(btSolverConstraint& row, double blow, Wrenches* native, Pools pools);
  static void add_row(const BlockSolve& b, const HeldRow& row, double impulse, std::span<double> to);
  void begin_host_parts(BlockSolve& b);
  void set_host_part(BlockSolve& b, const State& now, double done, double length);
  bool let_rows_go(BlockSolve& b, std::span<const double> v, bool starts);
  static double work_of_part(const BlockSolve& b, double weight, bool starts, std::span<const double> v0,
                             std::span<const double> v1);
  void record_host_part(BlockSolve& b, double length);
  void end_host_parts(BlockSolve& b);
  bool watches_energy(const BlockSolve& b) const;
  static void begin_energy(BlockSolve& b);
  void settle_energy(BlockSolve& b, double constraints, double rows, double allowed, const State& at,
                     std::span<double> v);
  static void count_damping(BlockSolve& b);
  static bool drop_rows(BlockSolve& b, double gain, double kinetic, double allowed);
  double damp(BlockSolve& b, double energy, const State& at, std::span<double> v);
  void end_whole(BlockSolve& b, double constraints, double rows);
  static double blow_of(const btSolverConstraint& row, Pools pools);
  bool finish_block(BlockSolve& b);
  struct Substep {
    double done = 0, length = 0, before = 0;  ///< time behind it in this step; its own; the last one's [s]
    double weight = 0;                        ///< time over which applied forces act in it [s]
    double swing = 0;                         ///< ω·length (T15)
    double gain = 0, allowed = 0;             ///< energy from constraints that can do no work, so far [J]
    bool watched = false;
    bool at_any_swing = false;  ///< and gain: what it gains is damped
  };
  static constexpr int all_tries = 7;  ///< so many times as those that are judged by swing and gain
  int most_tries(const BlockSolve& b, double price) const;
  bool substep_block(BlockSolve& b, double before);
  bool try_substep(BlockSolve& b, Substep& s);
  void record_substep(BlockSolve& b, const Substep& s);
  bool spread_forces(BlockSolve& b, const State& at, double length);
  void begin_parts(BlockSolve& b);
  double first_part(double swing) const;
  double finest_part() const;
  double longer_by(double swing) const;
  void end_parts(BlockSolve& b, const State& now, int taken, double last_length, double fastest, bool recorded);
  void take_reported_off(BlockSolve& b);
  const char* why_no_stages(const BlockSolve& b) const;
  bool records_stages(const BlockSolve& b) const;
  bool stages_answer(const BlockSolve& b) const;
  bool take_by_stages(BlockSolve& b, bool again = false);
  bool try_stages(BlockSolve& b, double done, double length, bool carried);
  bool answer(BlockSolve& b, const State& at);
  bool laws_too_stiff(const BlockSolve& b) const;
  bool solve_stage(BlockSolve& b);
  bool swings_too_far(BlockSolve& b, const State& end, double length);
  bool end_part(BlockSolve& b, double length);
  void keep_law_works(BlockSolve& b);
  void clear_part(BlockSolve& b);
  void record_stage(BlockSolve& b, const State& at, double weight);
  void record_impulse(BlockSolve& b, double weight, std::span<const double> lambda, std::span<const double> dv);
  void stand(BlockSolve& b);
  bool start_on_velocities(BlockSolve& b);
  void forces_at_stage(BlockSolve& b);
  void place_driven(const BlockSolve& b, double done, State& at) const;
  void copy_block(const BlockSolve& b, const State& from, State& to) const;
  bool can_do_work(const BlockSolve& b) const;
  double gain_of_constraints(BlockSolve& b, double h, std::span<const double> v0, std::span<const double> v1);
  bool turns_too_far(const BlockSolve& b, const State& end, double h) const;
  void note_activation(BlockSolve& b);
  NewtonReport end_step(BlockSolve& b, const State& evaluated, const State& base, State& end, double h,
                        std::span<double> v, TurningBodies& turning, std::span<const double> left_open = {});
  void note_grips(BlockSolve& b);
  double gain_floor(const BlockSolve& b) const;
  bool held_by_curvature(const BlockSolve& b, const NewtonReport& newton) const;
  double start_gap(const BlockSolve& b, bool moved) const;
  double turned_away(BlockSolve& b) const;
  bool close_start_gap(BlockSolve& b);
  enum class Outcome { stands, too_long, lost };
  Outcome try_step(BlockSolve& b);
  void set_stiffness(BlockSolve& b, std::span<const Matrix3d> K);
  bool find_stiffness(BlockSolve& b);
  bool stiffen(BlockSolve& b);
  void note_stiffness(BlockSolve& b);
  bool stop_at_end(BlockSolve& b);
  bool predict(BlockSolve& b);
  void stay_of_least_norm(BlockSolve& b) const;
  bool turns_beyond_host(const BlockSolve& b) const;
  void note_added(BlockSolve& b);
  void start_from_true_turn(BlockSolve& b, std::span<const double> way);
  void keep_reactions(BlockSolve& b);
  void keep_books(BlockSolve& b);
  void note_time_dependence(BlockSolve& b);
  void keep_awake();
  void keep_slow_ones_awake();
  struct Gap {
    double length = 0, angle = 0, own = 0;  ///< [m], [rad], a user's own unit
  };
  struct GapWatch {
    const btRigidBody *a, *b;
    int record;
    ConstraintId id;
    int first;  ///< of its primitives in gap_numbers_; −1: ask the constraint's function
    short points, axes, dots;
    bool oriented;
    Gap gap{};
  };
  std::vector<GapWatch> gap_watch_, gaps_before_;
  NumberRuns gap_numbers_;
  bool gaps_told_ = true;    ///< the reactions have them
  int turned_away_ = 0;      ///< so many records are
  bool teleported_ = false;  ///< reset() since the last step: animated bodies have not moved to where they are
  bool replaced_ = false;    ///< another solver solved the last step
  Gap gap_of(const GapWatch& w) const;
  void watch_gap(int record);
  void keep_primitives(Record& r, const JointRows& rows);
  Gap gap_of(Constraint& constraint);
  void cut_together(BlockSolve& b);
  void measure_gaps();
  void note_turned_away(Record& r, bool is) { turned_away_ += r.turned_away = is; }
  void tell_gaps();
  std::span<const BodyState> states_now(
      const Constraint& constraint);  ///< as Bullet has them; valid until the next call
  std::vector<BodyState> states_;
  std::vector<double> residual_;
  void give_back(BlockSolve& b);
  void refuse_non_finite(BlockSolve& b);
  void report_impulse(const Record& r, btScalar of_force);
  void report_forces(const Record& r, const Wrench& on_a, const Wrench& on_b);
  void give_feedback(BlockSolve& b);
  void break_joints(const BlockSolve& b);
  void break_beyond(Record& r, std::span<const double> lambda);
  void add_pull(const BlockSolve& b, std::span<const double> lambda, std::span<double> force) const;
  void fail_block(BlockSolve& b, const std::string& why);
  void velocity_of_rows(const BlockSolve& b, std::span<const double> v, std::span<double> out) const;
  void compare_with_native();
};

/// Takes the wrench of a constraint's multipliers apart: A_iᵀλ_i on its body k, moment about the centre of mass.
Vector6 generalized_force(const Assembly& assembly, int i, int k, std::span<const double> lambda);

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
