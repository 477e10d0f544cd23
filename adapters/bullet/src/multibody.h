// Exact constraints on the links of btMultiBody. A multibody is one mass block of the explicit equation (T5), given by
// the factor of its articulated inertias: the solver gets rows and velocities in columns in which that mass is one. A
// link is seen by a constraint like a body whose acceleration has a known part, J̇q̇. Links, rigid bodies that share a
// constraint with them, and the exact joints among those are one problem for the whole world, solved beside the blocks
// of rigid bodies. What Bullet does to multibodies otherwise (contacts, limits, motors, damping) stays Bullet's.
//
// One step: begin_step() before Bullet adds forces to velocities, couple() after its rows are set up and after each of
// its iterations, finish() when all islands are solved, after_step() when it has integrated.
#pragma once

#include "bodies.h"
#include "columns.h"
#include "engine.h"
#include "multibody_reading.h"

#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>

#include <linchpin/detail/anderson.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// What of a stock multibody constraint can be held exactly; `native` says why it is not.
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
/// Everything of its settings that the shape depends on.
using StockNumbers = std::array<double, 40>;
StockNumbers numbers_of(btMultiBodyConstraint& constraint);

class Multibodies {
 public:
  Multibodies(Engine& engine, btMultiBodyDynamicsWorld& world) : engine_(engine), world_(world) {}

  // ---- what there is ----
  void look() { scan(); }
  /// The core's id of a link. @return a reason, or empty.
  std::string id_of(const Link& link, BodyId& id);
  bool is_link(BodyId id) const { return z(id.index) < link_of_id_.size() && link_of_id_[z(id.index)].body != nullptr; }
  std::string add(Constraint constraint, int& record);  ///< one that names a link
  std::string name(btMultiBodyConstraint& constraint, std::string name, int& record);
  std::string name_joint(const Link& link, std::string name, int& record);  ///< a multibody's own
  /// @return why a constraint on links, or a joint that shares a body with some, takes no law; empty when it does.
  std::string why_no_law(const Record& r);
  std::string add_law(Record& r, const Law& law);
  void reset();                          ///< gears mesh anew where they are
  void forget(const btMultiBody& body);  ///< removes the constraints on it
  bool stock(const Record& r) const;     ///< a constraint of the world, not of the user's own
  bool give_back(int record);            ///< one of those, to the native solver; false for others
  bool adopted(const btMultiBodyConstraint* constraint) const;  ///< not to be given to the native solver in this step

  // ---- a step ----
  void begin_step();
  /// The native solver's arrays during its iterations. Velocities of everything in the problem are put back on the
  /// constraints. @param first  before the iterations
  void couple(Pools pools, btMultiBodyJacobianData& data, bool first);
  /// Before a native setup is done again: takes back what rows have done to multibodies.
  void drop(btMultiBodyJacobianData& data);
  /// What native rows have done to multibodies, when a group's iterations are over.
  void gather(const LinkRows& rows, const btMultiBodyJacobianData& data);
  void finish();
  void after_step();
  void look_for_rows(Pools pools);

  // ---- telling ----
  void tell();
  void tell_flags();
  bool holds(int record) const;
  /// What its laws carry from step to step; null where there are none.
  std::shared_ptr<const Dynamics::LawHistory> law_history() const {
    return bodies_.dynamics ? bodies_.dynamics->law_history() : nullptr;
  }
  void go_back(std::shared_ptr<const Dynamics::LawHistory> laws) {
    laws_to_go_back_to_ = std::move(laws), changed_ = true;
  }
  /// In the multibodies' own coordinates, with their mass matrices.
  Instant instant() const;
  int rows() const { return solved_ ? solver_.rows() : 0; }
  int rank() const { return solved_ ? solver_.rank() : 0; }
  RankReport rank_report() const;  ///< indices as reactions()
  double energy() const;
  std::string joint_wrench(const Link& link, Wrench& out);
  std::string joint_forces(const Link& link, JointForces& out);
  std::vector<Solver::Native> notes() const;
  std::vector<Solver::Finding> check();

 private:
  struct Tree {
    explicit Tree(btMultiBody& of) : body(&of), a(host_rotation), after(host_rotation) {}
    btMultiBody* body;
    KinematicTree a;                 ///< at the step's start
    KinematicTree after;             ///< where Bullet has taken it
    int column = -1;                 ///< first in the problem, −1: not in it
    std::vector<double> u, own;      ///< velocities at hand; what was added to Bullet's by us in this step
    std::vector<double> vdot, host;  ///< of the report; what native rows changed, per dt
    std::vector<double> free;        ///< M⁻¹(Q − h), where `ready`
    std::vector<Wrench> others;      ///< by native rows and exact constraints on the links
    std::vector<Wrench> within;      ///< of these what rows along joints are said to do, which goes through the joints
    std::vector<Wrench> outside;     ///< the others
    std::vector<double> contact, friction, joint_rows;  ///< impulses of native rows along the rates
    articulated::Configuration end;
    std::vector<articulated::LinkMotion> at_end;
    std::vector<Vector6> on;              ///< wrenches on links on their way inward
    std::vector<Wrench> through;          ///< of all joints, where they have been asked for
    std::vector<Wrench> correction;       ///< likewise: by what ended the step on the constraints
    KinematicTree::ForcesByCause causes;  ///< likewise, with M v̇ and Aᵀλ
    std::vector<double> inertia, exact;
    bool captured = false, slept = false, told = false, told_wrenches = false, told_causes = false,
         told_corrected = false;
    bool ready = false, good = false;  ///< places and factor are the captured state's; M is positive definite
  };
  /// Links of a tree that a constraint touches, with all that they hang on, children first.
  struct Path {
    int tree;
    std::vector<int> links;
  };
  struct LinkId {
    btMultiBody* body = nullptr;
    int link = -1;
  };
  struct Part {
    BodyId id;
    int tree = -1, link = -1;
    int column = -1, dof = 0;  ///< of a rigid body that moves
  };
  struct Coordinate {
    int tree, link, position, rate;
    double factor;
  };
  /// Laws (T9, T10). What they read are reactions of joints too, which joint coordinates do not know: the problem once
  /// more with every link a body of its own and every joint a constraint (T5 is the same in any coordinates). What laws
  /// prescribe there acts in the problem itself.
  struct Bodies {
    struct Member {
      BodyId id;
      int tree = -1, link = -1;  ///< or −1: a rigid body,
      int moving = -1;           ///< this one
    };
    std::optional<Dynamics> dynamics;
    std::vector<Member> members;       ///< all that move, in the order of the block
    std::vector<Member> fixed;         ///< bases that do not
    std::vector<ConstraintId> joints;  ///< of multibodies, that nobody gave a name
    std::vector<int> record_of;        ///< by constraint of the block; −1: such a joint
    std::vector<double> Q, v0, v1;
    std::vector<std::vector<Wrench>> on;          ///< by tree: forces on links
    std::vector<std::vector<Wrench>> prescribed;  ///< by tree: what laws prescribe on links
    std::vector<Reaction> reactions;
    std::vector<char> stuck;
    StandingTold standing_told;
    std::vector<double> c, dv, lambda;           ///< prescribed, along the columns; what that does to v̇; its rows'
    std::vector<double> first_dv, first_lambda;  ///< before native rows were known
    bool present = false;                        ///< some constraint of the problem has laws
    bool good = false;                           ///< and in this step they answered
  };
  struct Item {
    int record = -1;
    const Constraint* constraint = nullptr;
    std::vector<Part> parts;
    std::vector<Path> paths;
    std::vector<int> columns;             ///< that its rows may touch, ascending
    std::vector<Coordinate> coordinates;  ///< of a gear, instead of parts' rows
    double target = 0;
    int row = 0, rows = 0;
    int joints = 0;         ///< of multibodies that its forces go through
    std::vector<double> A;  ///< [rows × 6 parts]
  };
  struct Stock {
    btMultiBodyConstraint* constraint;
    int record;
    StockNumbers numbers;  ///< its settings when it was looked at last
    StockShape shape;
    double target = 0;
  };
  /// A step that closes gaps.
  struct Approach {
    bool ends = false;           ///< there is none that would
    bool on_a_long_way = false;  ///< shortened, from where gaps are wide
    double length = 0;           ///< [m]
    double turn = 0;             ///< [rad]
  };
  struct Moving {
    BodyId id;
    btRigidBody* body;
    int column, dof;
    Vector6 applied, own;  ///< Bullet's own change of velocity by forces; ours
    bool in_pool = false;
  };

  std::string register_link(const Link& link, BodyId& id);
  int tree_of(const btMultiBody* body) const;
  void scan();
  void scan_stock();
  void make_stock(Stock& s);
  void lay_out();
  Part part_of_problem(BodyId id, std::set<int>& bodies);
  void lay_out_own(std::set<int>& bodies);
  void lay_out_rigid(std::set<int>& bodies);
  int lay_out_columns(const std::set<int>& bodies);
  int lay_out_rows();
  void lay_path(Item& item);
  void close_gaps();
  void close_gaps_so();
  double turned_away(const Item*& which) const;
  Approach approach_gaps();
  double turn_of(std::span<const double> d) const;
  double reach(std::span<const double> d, double scale);
  bool displace(std::span<const double> d, double scale);
  bool arrive(std::span<const double> d, double scale);
  double gap() const;
  void states_at_start();
  bool linearize();
  bool settle_rank();
  void measure_row(const Item& item, int row);
  void masses_and_forces();
  void gear_row(const Item& item);
  bool rows_of(Item& item);
  void append_row(const Item& item, int row);
  Tree& ready(Tree& t);
  void from_unit(std::span<double> v) const;
  double residuals(std::span<const double> v, std::span<double> e);
  void hush(std::span<double> e) const;
  bool newton(std::span<double> v, double tolerance, int most);
  void row_velocities(std::span<const double> v, std::span<double> out) const;
  void velocities_of(const Tree& t, std::span<const double> v, std::vector<double>& u) const;
  void velocities_of_links(std::span<double> v) const;
  BodyState state_of(const Part& p, bool end) const;
  void note_native_rows();
  void add_forces();
  void end_on_constraints();
  void give_velocities();
  void engage_one_sided();
  void release_one_sided();
  void report_joints();
  void solve_report();
  void tell_forces();
  void tell_constraints();
  void tell_joint(const Record& r, Reaction& to);

  Vector6 native_change(const Moving& b) const;
  // laws (multibody_laws.cpp)
  Constraint joint_of(const Link& link, const std::string& name, BodyId parent, BodyId child) const;
  Constraint gear_of(const Item& item, const std::string& name);
  std::string massless(const btMultiBody& body) const;
  void forget_bodies();
  void lay_out_bodies();
  void evaluate_laws();
  void take_forces(bool native);
  void answer_laws();
  void answer_laws_at_start();
  void take_reported_off();
  void spread_prescribed();
  bool hold_laws();
  void velocities_of_bodies(std::span<const double> v, std::vector<double>& out);
  void book_laws();
  std::string told_tree(const char* verb, const Link& link, Tree*& out);
  const std::vector<Wrench>& through(Tree& t);
  const std::vector<Wrench>& corrected(Tree& t);
  void tell_causes(Tree& t);
  std::size_t mass_of_bodies() const;
  void fail(const std::string& why);
  Vector6 wrench_on(const Item& item, int k, std::span<const double> lambda) const;
  const Record& record(const Item& item) const { return engine_.records_[z(item.record)]; }

  Engine& engine_;
  btMultiBodyDynamicsWorld& world_;
  std::vector<std::unique_ptr<Tree>> trees_;
  void leave_link(std::size_t id);
  std::vector<LinkId> link_of_id_;
  std::vector<Stock> stock_;  ///< in the world's order
  std::unordered_map<const btMultiBodyConstraint*, std::size_t> stock_of_;
  std::vector<Item> items_;
  std::vector<Moving> moving_;
  std::vector<std::string> notes_;
  unsigned laid_out_for_ = 0;
  bool changed_ = true, active_ = false, solved_ = false, told_ = true, failed_ = false;
  bool joints_told_ = true;   ///< reactions of joints of multibodies that have names
  bool native_rows_ = false;  ///< of this step: some native row touches a body or multibody of the problem
  int batch_ = 0;
  bool batched_ = false;
  double dt_ = 0;

  /// As the solver has it: columns of multibodies are those of L⁻¹, so that their mass is one; Q is only in them.
  Instant unit_;
  std::vector<Instant::Entry> entries_;  ///< A in the multibodies' own coordinates, where unit_ has A L⁻ᵀ
  linchpin::Solver solver_;
  Bodies bodies_;
  std::shared_ptr<const Dynamics::LawHistory> laws_to_go_back_to_;
  std::vector<double> position_, velocity_, unit_row_, v0_, v_, before_, before_newton_, impulse_before_newton_,
      one_sided_row_, one_sided_, before_law_dv_, before_law_lambda_, free_, e_, scale_, dv_, lambda_, one_, impulse_,
      target_, half_, dense_, part_row_, force_, half_rows_, one_report_;
  bool closing_ = false;           ///< a joint that is turned far has the rows of the way back, not those of its dots
  std::vector<double> left_open_;  ///< by row, of a gap that no motion closes: it is held as it is
  std::vector<double> best_v_, best_impulse_;  ///< where a Newton has been nearest to its end
  linchpin::detail::AndersonAcceleration anderson_;
  std::vector<BodyState> X_;
  std::vector<btScalar> narrow_;
  /// Of rank (multibody_rank.cpp): rows as long as their bodies make them; what is left of them across those before,
  /// row by row [m × n]; which are left out, as they say no more than others; the cut of this step.
  std::vector<double> length_, length_beside_, rest_, rest_size_;
  std::vector<char> silent_, done_;
  int bodies_from_ = 0;  ///< first column of a rigid body
  double cut_ = 0;
  int flags_rank_ = -1;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
