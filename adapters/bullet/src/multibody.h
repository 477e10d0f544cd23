// Exact constraints on the links of btMultiBody: the adapter's side of articulated/tree_constraints.h. Links, rigid
// bodies that share a constraint with them, and the exact joints among those are one problem for the whole world. It is
// solved beside the islands of rigid bodies. Everything else that Bullet does to multibodies (contacts, limits, motors,
// damping) stays with Bullet.
//
// A step has four parts: begin_step() before Bullet adds forces to velocities, couple() after its rows are set up and
// after each of its iterations, finish() when all islands are solved, after_step() when it has integrated.
#pragma once

#include "articulated/tree_constraints.h"
#include "articulated/tree_projection.h"
#include "bodies.h"
#include "host/body_vectors.h"
#include "host/context.h"
#include "multibody_reading.h"
#include "world_binding.h"

#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using host::head;
using host::put;
using host::Vector6;

/// The rows of a stock multibody constraint that can be held exactly; `native` says why there are none.
struct StockShape {
  const char* kind = "multibody constraint";
  std::string native;
  JointRows rows;  ///< between link A and link B, or a rigid body, or the world
  Vector3d acting_A = Vector3d::Zero(), acting_B = Vector3d::Zero();
  btRigidBody* rigid = nullptr;  ///< in place of link B
  bool gear = false;
  double ratio = 0, target = 0;
  int aux = -1;  ///< gear: third link, −1: none
  bool has_target = false;
};
StockShape shape_of(btMultiBodyConstraint& constraint);
/// All settings that the shape depends on.
using StockNumbers = std::array<double, 40>;
StockNumbers numbers_of(btMultiBodyConstraint& constraint);

class Multibodies final : public host::Companion {
 public:
  using Owner = host::ConstraintEntry::Owner;
  Multibodies(WorldBinding& binding, btMultiBodyDynamicsWorld& world)
      : binding_(binding), c_(binding.solver().context()), world_(world) {
    binding_.solver().set_companion(this);
    c_.bodies.make_ends();
  }
  ~Multibodies() override { binding_.solver().set_companion(nullptr); }
  Multibodies(const Multibodies&) = delete;
  Multibodies& operator=(const Multibodies&) = delete;

  // ---- the world ----
  void look() { scan(); }
  /// The core's id of a link. @return a reason, or empty.
  std::string id_of(const Link& link, BodyId& id);
  bool is_link(BodyId id) const { return z(id.index) < link_of_id_.size() && link_of_id_[z(id.index)].body != nullptr; }
  std::string add(Constraint constraint, int& record);  ///< a constraint that names a link
  std::string name(btMultiBodyConstraint& constraint, std::string name, int& record);
  std::string name_joint(const Link& link, std::string name, int& record);  ///< a joint of a multibody itself
  /// @return why a constraint on links, or a joint that shares a body with some, takes no law; empty when it does.
  std::string why_no_law(int entry) override;
  std::string add_law(int entry, const Law& law) override;
  void reset() override;                 ///< gears mesh again where they are
  void forget(const btMultiBody& body);  ///< removes the constraints on it
  bool is_stock(int entry) const;        ///< whether it is a constraint of the world, not of the user's own
  bool give_back(int entry) override;    ///< gives one of those back to Bullet's solver; false for others
  /// Whether it is held exactly in this step, and so must not be given to Bullet's solver.
  bool adopted(const btMultiBodyConstraint* constraint) const;

  // ---- a step ----
  void begin_step() override;
  bool keeps_place(int entry) const override { return is_stock(entry); }
  /// Puts the velocities of everything in the problem back on the constraints, in the arrays of Bullet's solver.
  /// @param first  before its iterations
  void couple(SolverArrays arrays, btMultiBodyJacobianData& data, bool first);
  /// Takes back what Bullet's rows have done to multibodies, before its setup is done again.
  void take_back_host_rows(btMultiBodyJacobianData& data);
  /// Reads what Bullet's rows have done to multibodies, when a group's iterations are over.
  void read_host_rows(const LinkRows& rows, const btMultiBodyJacobianData& data);
  /// Finds out whether some row of Bullet's touches a body of the problem.
  void find_host_rows(SolverArrays arrays);
  void finish();
  void end_step() override;

  // ---- reports ----
  void update_reports() override;
  void update_redundancy() override;
  bool has(int entry) const override;
  /// State that the laws carry from step to step; null where there are none.
  std::shared_ptr<const Dynamics::LawHistory> law_history() const override {
    return laws_.dynamics ? laws_.dynamics->law_history() : nullptr;
  }
  void restore(std::shared_ptr<const Dynamics::LawHistory> laws) override {
    laws_to_restore_ = std::move(laws);
    layout_is_stale_ = true;
  }
  /// The problem in the multibodies' own coordinates, with their mass matrices.
  Instant problem() const override;
  int rows() const override { return is_solved() ? constraints_.solver().rows() : 0; }
  int rank() const override { return is_solved() ? constraints_.solver().rank() : 0; }
  RankReport rank_report() const override;
  double energy() const override;
  std::string joint_wrench(const Link& link, Wrench& out);
  std::string joint_forces(const Link& link, JointForces& out);
  std::vector<host::HostPart> host_parts() const override;
  std::vector<host::Finding> check() override;

 private:
  /// Effect of Bullet's own rows on a tree in a step.
  struct HostImpulses {
    std::vector<double> acceleration;              ///< change of velocity by them, per dt [velocities]
    std::vector<double> contact, friction, joint;  ///< impulses along the velocities, by kind of row
    std::vector<Wrench> on_links;                  ///< on the links; reports add the exact constraints to it
    std::vector<Wrench> along_joints;              ///< of these, what rows along joints do: it goes through the joints
  };
  /// Reports of joints, computed when one is asked for.
  struct JointReports {
    bool acceleration_is_current = false, wrenches_are_current = false, forces_are_current = false,
         corrections_are_current = false;
    std::vector<double> acceleration;           ///< [columns]
    std::vector<Wrench> wrenches, corrections;  ///< through all joints; by what ended the step on the constraints
    KinematicTree::ForcesByCause forces;
    std::vector<double> inertia, constraint;  ///< M v̇ and Aᵀλ [columns]
    std::vector<Wrench> outside;              ///< scratch
  };
  /// A multibody of the world.
  struct Tree : articulated::ConstrainedTree {
    explicit Tree(btMultiBody& of) : ConstrainedTree(host_rotation), body(&of), after(host_rotation) {}
    btMultiBody* body;
    KinematicTree after;        ///< where Bullet has taken it
    std::vector<double> added;  ///< change of velocity that was added to Bullet's for the constraints in this step
    HostImpulses host;
    JointReports reports;
    bool was_read = false;    ///< in a step
    bool was_asleep = false;  ///< at the start of the step
  };
  struct LinkId {
    btMultiBody* body = nullptr;
    int link = -1;
  };
  /// Laws (T9, T10). They read reactions of joints too, which joint coordinates do not know. So the problem is solved
  /// once more with every link a body of its own and every joint a constraint: T5 is the same in any coordinates. The
  /// forces that laws prescribe there act in the problem itself.
  struct Laws {
    struct Member {
      BodyId id;
      int tree = -1, link = -1;  ///< or −1: a rigid body,
      int rigid = -1;            ///< this one
    };
    std::optional<Dynamics> dynamics;
    std::vector<Member> members;           ///< all that move, in the order of the block
    std::vector<Member> fixed;             ///< bases that do not
    std::vector<ConstraintId> joints;      ///< of multibodies, that have no name
    std::vector<int> entry_of_constraint;  ///< by constraint of the block; −1: such a joint
    std::vector<double> Q, v0, v1;
    std::vector<std::vector<Wrench>> applied;     ///< by tree: forces on links
    std::vector<std::vector<Wrench>> prescribed;  ///< by tree: what laws prescribe on links
    std::vector<Reaction> reactions;
    std::vector<char> sticks;  ///< by friction element, in the last step
    host::StandingWarnings standing;
    std::vector<double> c, dv, lambda;           ///< prescribed, along the columns; what that does to v̇; its rows'
    std::vector<double> first_dv, first_lambda;  ///< before Bullet's rows were known
    std::vector<double> last_dv, last_lambda;    ///< before stick was reapplied
    bool are_present = false;                    ///< some constraint of the problem has laws
    bool are_solved = false;                     ///< and in this step they have an answer
  };
  struct Stock {
    btMultiBodyConstraint* constraint;
    int entry;
    StockNumbers numbers;  ///< its settings when it was classified last
    StockShape shape;
    double target = 0;
  };
  /// A rigid body of the problem.
  struct Rigid {
    BodyId id;
    btRigidBody* body;
    int column, dof;
    Vector6 applied, own;  ///< change of velocity by applied forces, which Bullet adds; by the constraints
    bool in_pool = false;  ///< whether it is in the group that Bullet solves
  };
  /// The numbers of a step.
  struct Solution {
    std::vector<double> v;             ///< velocities at hand [columns]
    std::vector<double> bullet_v;      ///< velocities that Bullet has [columns]
    std::vector<double> acceleration;  ///< by the reported forces [columns]
    std::vector<double> reported;      ///< multipliers of the report [rows]
    std::vector<double> correction;    ///< mean multipliers of the step beyond these [rows]
    std::vector<double> impulse;       ///< of the step [rows]
    std::vector<double> row_target;    ///< velocities of the rows that Bullet's own rows are kept to [rows]
    std::vector<double> v_before_newton, impulse_before_newton;
  };
  struct Scratch {
    std::vector<double> dv, columns;   ///< [columns]
    std::vector<double> rows, lambda;  ///< [rows]
    std::vector<double> unilateral_row, unilateral_columns;
    std::vector<BodyState> states;
    std::vector<btScalar> bullet_dv;
  };
  enum class StepPhase {
    idle,    ///< no problem is solved in this step
    solved,  ///< rows are factored, and held until the step's end
    failed   ///< the constraints were left to Bullet
  };
  class Poses;

  // the world
  std::string register_link(const Link& link, BodyId& id);
  int tree_of(const btMultiBody* body) const;
  Tree& tree_of(const LinkId& link) const { return *trees_[z(tree_of(link.body))]; }
  void scan();
  bool scan_trees();
  void scan_stock();
  void classify_stock(Stock& s);
  std::string find_stock_bodies(const Stock& s, BodyId& id_a, BodyId& id_b);
  double gear_target(const Stock& s) const;
  void release_link(std::size_t id);

  // layout
  void lay_out();
  articulated::ConstraintBody take_body(BodyId id, std::set<int>& rigid);
  void lay_out_link_constraints(std::set<int>& rigid);
  void lay_out_gear(const Stock& s, articulated::ConstraintRows& rows) const;
  void lay_out_rigid_joints(std::set<int>& rigid);
  std::vector<articulated::RigidBody> rigid_bodies(const std::set<int>& rigid) const;
  bool is_active() const { return constraints_.columns() > 0 && (constraints_.rows() > 0 || laws_.are_present); }

  // a step
  void read_trees();
  bool wake_all();
  bool read_problem();
  void read_states();
  articulated::TreeStep step() const;
  void close_gaps();
  void engage_unilateral(int entry);
  bool read_unilateral_row(const host::ConstraintEntry& r, double& position, double& velocity, double& gain);
  void release_unilateral();
  void read_host_impulses();
  void read_velocities_of_links(std::span<double> v) const;
  void read_velocities_of_bodies(std::span<double> v);
  Tree* read_tree_of(const btMultiBody* body);
  void read_pool_velocities(SolverArrays arrays, bool first);
  void start_coupling();
  void add_to_multibodies(btMultiBodyJacobianData& data);
  void add_to_pools(SolverArrays arrays);
  void solve_forces();
  void add_forces();
  void end_on_constraints();
  void subtract_reported();
  void write_velocities();
  void add_work();
  void write_joint_reports();
  void fail(const std::string& why);
  Vector6 host_acceleration(const Rigid& b) const;
  void measure_gap(const articulated::ConstraintRows& c, Reaction& to);
  bool is_solved() const { return phase_ == StepPhase::solved; }

  // reports (multibody_report.cpp)
  void report_accelerations();
  void report_constraints();
  void report_constraint(const articulated::ConstraintRows& c, Reaction& to);
  void report_prescribed(std::size_t i, int entry, Reaction& to);
  void report_joint(int entry, Reaction& to);
  std::string tree_with_report(const char* verb, const Link& link, Tree*& out);
  const std::vector<Wrench>& wrenches_through_joints(Tree& t);
  const std::vector<Wrench>& corrections_through_joints(Tree& t);
  void report_forces(Tree& t);

  // laws (multibody_laws.cpp)
  std::string massless(const btMultiBody& body) const;
  Constraint gear_of(const articulated::ConstraintRows& c, const std::string& name);
  void forget_laws();
  void lay_out_laws();
  std::string add_members();
  std::string add_with_laws(host::ConstraintEntry& r, int index, Constraint constraint, std::vector<ConstraintId>& ids,
                            std::vector<std::pair<int, int>>& named);
  std::string add_joints(std::vector<ConstraintId>& ids, std::vector<std::pair<int, int>>& named);
  std::string add_constraints(std::vector<ConstraintId>& ids, std::vector<std::pair<int, int>>& named);
  void start_laws(const std::vector<ConstraintId>& ids, const std::vector<std::pair<int, int>>& named);
  void evaluate_laws();
  void update_mass(const Laws::Member& m);
  void resolve_laws();
  void collect_forces(bool with_host);
  void add_host_forces(const Tree& t, std::vector<Wrench>& on);
  void solve_prescribed();
  void solve_laws_at_start();
  void spread_prescribed();
  void add_prescribed(BodyId id, double sign, const Prescribed& p);
  bool reapply_stick();
  void velocities_of_members(std::span<const double> v, std::vector<double>& out);
  void account_laws();

  host::ConstraintEntry& entry_of(const articulated::ConstraintRows& c) const { return c_.constraints[c.owner]; }
  JointBinding& binding_of(int entry) const { return binding_.joints()[entry]; }

  WorldBinding& binding_;
  host::Context& c_;
  btMultiBodyDynamicsWorld& world_;
  std::vector<std::unique_ptr<Tree>> trees_;
  std::vector<LinkId> link_of_id_;
  std::vector<Stock> stock_;  ///< in the world's order
  std::unordered_map<const btMultiBodyConstraint*, std::size_t> stock_of_;
  std::vector<Rigid> rigid_;
  std::vector<std::string> notes_;
  std::vector<std::unique_ptr<Constraint>> replaced_;  ///< that the layout still names

  articulated::TreeConstraints constraints_;
  articulated::TreeProjection projection_{constraints_, host_rotation};
  Laws laws_;
  std::shared_ptr<const Dynamics::LawHistory> laws_to_restore_;

  unsigned laid_out_for_ = 0;  ///< Context::structure of the layout
  bool layout_is_stale_ = true;
  bool has_host_rows_ = false;  ///< in this step: some row of Bullet's touches a body or multibody of the problem
  bool report_is_current_ = true, joint_reports_are_current_ = true;
  StepPhase phase_ = StepPhase::idle;
  std::optional<int> batch_size_;  ///< Bullet's own, while ours is in force
  double dt_ = 0;
  int flags_rank_ = -1;  ///< the rank for which flags were reported last

  Solution solution_;
  Scratch scratch_;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
