// The multibodies of a btMultiBodyDynamicsWorld for the core's solver of articulated bodies (linchpin/articulated.h):
// reading and writing btMultiBody, Bullet's own multibody constraints, and Bullet's rows on links. It contains no
// algorithm of its own.
#pragma once

#include "bullet_world.h"
#include "multibody_reading.h"
#include "multibody_stock.h"

#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>

#include <linchpin/articulated.h>

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

class Multibodies final : private articulated::TreeWorld {
 public:
  using Owner = host::ConstraintEntry::Owner;
  Multibodies(BulletWorld& host, btMultiBodyDynamicsWorld& world)
      : host_(host), world_(world), trees_(host.solver, *this, host_rotation) {}

  // ---- the world (multibody.cpp, multibody_stock.cpp) ----
  /// Finds which multibodies and multibody constraints have come or gone. Programs add and remove them without notice.
  void scan();
  void map(int entry);  ///< Classifies a constraint of the world again.
  articulated::TreeSolver& trees() { return trees_; }
  // The following throw std::invalid_argument.
  BodyId id_of(const Link& link);  ///< The core's id of a link.
  bool names_link(const Constraint& constraint) const;
  int add(Constraint constraint);  ///< a constraint that names a link @return its entry, as the following
  int name(btMultiBodyConstraint& constraint, std::string name);
  int name_joint(const Link& link, std::string name);  ///< a joint of a multibody itself
  /// The entry of a constraint, or of a joint where that is null. An entry for a joint is made if there is none. −1:
  /// there is no such joint
  int entry_of(const btMultiBodyConstraint* constraint, const Link& link);
  void forget(const btMultiBody& body);  ///< removes the constraints on it
  bool is_stock(int entry) const;        ///< whether it is a constraint of the world, not of the user's own
  /// Returns whether it is held exactly in this step, and so must not be given to Bullet's solver.
  bool adopted(const btMultiBodyConstraint* constraint) const;

  // ---- a step (multibody_rows.cpp) ----
  void begin_step();
  /// Lets the core put the velocities back on the constraints, in the arrays of Bullet's solver.
  /// @param first  before its iterations, when rows are set up
  void couple(SolverArrays arrays, btMultiBodyJacobianData& data, bool first);
  /// Takes back what Bullet's rows have done to multibodies, before its setup is done again.
  void take_back_rows(btMultiBodyJacobianData& data);
  /// Reads what Bullet's rows have done to multibodies, when a group's iterations are over.
  void read_rows(const LinkRows& rows, const btMultiBodyJacobianData& data);
  void finish();

  // ---- reports ----
  double energy() const;
  Wrench joint_wrench(const Link& link);
  JointForces joint_forces(const Link& link);

 private:
  /// A multibody as the world was last scanned. Its object may be gone: only the pointer is compared.
  struct Tree {
    explicit Tree(btMultiBody& of)
        : body(&of), links(of.getNumLinks()), rates(of.getNumDofs()), fixed(of.hasFixedBase()) {}
    bool operator==(const Tree&) const = default;
    btMultiBody* body;
    int links, rates;
    bool fixed;
  };
  /// A constraint of the world.
  struct Stock {
    btMultiBodyConstraint* constraint;
    int entry;
    StockNumbers numbers;  ///< its settings when it was classified last
    StockShape shape;
  };

  // articulated::TreeWorld
  void find_trees() override { scan(); }
  void mesh_gears() override;
  void read(int tree, articulated::TreeModel& model, articulated::TreeState& state) const override;
  articulated::LinkModel read_link(int tree, int link) const override;
  std::string why_unsupported(int tree) const override;
  bool is_asleep(int tree) const override;
  void wake(int tree) override;
  void move(int tree, const articulated::Configuration& to) override;
  void read_velocity(int tree, std::span<double> v) const override;
  void read_velocity_change(int tree, std::span<double> dv) const override;
  void add_velocity(int tree, std::span<double> dv) override;
  std::string why_limited(int tree, std::span<const double> v) const override;
  void read_row_wrenches(int tree, std::span<Wrench> on) const override;
  Vector3d gravity() const override { return from_bullet(world_.getGravity()); }
  void note_link(BodyId id, int, int) override { host_.bodies.add_foreign(id); }
  BodyId current_id(BodyId body) override;
  bool read_row_body(BodyId body, host::RowBody& out) const override;
  void add_row_velocity(BodyId body, bool turns, Vector3d& v, Vector3d& w) override;

  int tree_of(const btMultiBody* body) const;  ///< −1: not in the world
  int checked_tree_of(const Link& link) const;
  void demand_free(const std::string& name) const;
  int joint_entry(const Link& link);
  int find(const btMultiBodyConstraint& constraint) const;  ///< its entry; −1: not in the world
  btMultiBody& body(int tree) const { return *trees_seen_[static_cast<std::size_t>(tree)].body; }
  void replace_trees(std::vector<Tree> now);
  void scan_stock();
  void classify(Stock& s);
  std::array<BodyId, 2> bodies_of(const Stock& s);
  btSolverBody* solver_body(BodyId id) const;
  bool acts_on_problem(const SolverArrays& arrays);
  articulated::RowImpulses* impulses_on(btMultiBody* body);

  BulletWorld& host_;
  btMultiBodyDynamicsWorld& world_;
  std::vector<Tree> trees_seen_;  // in the world's order
  std::vector<Stock> stock_;      // in the world's order
  std::unordered_map<const btMultiBodyConstraint*, std::size_t> stock_of_;
  articulated::TreeSolver trees_;

  std::optional<int> batch_size_;                 // Bullet's own, while ours is in force
  const SolverArrays* arrays_ = nullptr;          // during couple()
  btMultiBodyJacobianData* jacobians_ = nullptr;  // during couple()
  std::vector<const btRigidBody*> rigid_;         // scratch
  std::vector<btScalar> change_;                  // scratch
  KinematicsMemory kinematics_;                   // scratch
};

// Of the facade. The text of an error begins with `who`, or with the name of the call.
BodyId id_of_link(WorldBinding& binding, const Link& link, const std::string& who);
/// @param constraint  null: the joint of `link` @return its entry
int name_multibody_joint(WorldBinding& binding, btMultiBodyConstraint* constraint, const Link& link, std::string name);

}  // namespace LINCHPIN_BULLET_NAMESPACE
