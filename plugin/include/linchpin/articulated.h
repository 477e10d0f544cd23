// Articulated bodies of a host, as trees of links in joint coordinates (Featherstone, Rigid Body Dynamics Algorithms,
// 2008), and exact constraints on their links. An adapter implements `TreeWorld`, which reads and writes the trees of
// the host. It drives one `TreeSolver` beside the `ConstraintSolver` of host.h.
//
// All quantities are in double precision, SI units and world axes, except where a comment names other axes. Everything
// else that the host does to trees (contacts, limits, motors, damping) stays with the host.
//
// The structs of this header are plain values.
#pragma once

#include <linchpin/export.h>
#include <linchpin/host.h>
#include <linchpin/system.h>
#include <linchpin/wrench.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::articulated {

// ---- the description of a tree ----

/// How a link moves against its parent.
enum class JointKind {
  fixed,      ///< not at all
  revolute,   ///< by an angle about an axis
  prismatic,  ///< by a length along an axis
  spherical,  ///< by a rotation, whose position is a quaternion in the order x, y, z, w
  other       ///< in a way that no exact constraint can rely on: the link is placed as if its joint were fixed
};

/// One link with the joint to its parent. Link −1 is the base.
struct LinkModel {
  static constexpr std::size_t most_rates = 3;  ///< largest number of rates of one joint

  int parent = -1;                        ///< below the link's own index
  JointKind joint = JointKind::fixed;     ///< how it moves against its parent
  int first_position = 0, positions = 0;  ///< its numbers in Configuration::joints
  int first_rate = 0, rates = 0;          ///< its numbers among the joint rates
  /// Angular and linear velocity of the link's centre of mass per unit of each rate (link axes).
  std::array<Vector3d, most_rates> angular{}, linear{};
  Matrix3d R_PL_at_zero = Matrix3d::Identity();  ///< link to parent, at joint position zero
  Vector3d p_PJ = Vector3d::Zero();     ///< from the parent's centre of mass to the joint's pivot (parent axes)
  Vector3d p_JL = Vector3d::Zero();     ///< from the pivot to the link's centre of mass (link axes)
  double mass = 0;                      ///< [kg]
  Vector3d inertia = Vector3d::Zero();  ///< principal, about the centre of mass (link axes) [kg·m²]
  /// Inertia of each rate itself, such as that of a rotor behind a gear. It adds to the diagonal of M, and to the
  /// kinetic energy [kg·m² or kg].
  std::array<double, most_rates> rotor_inertia{};
  /// What the host's integrator adds to the diagonal of M where it takes damping at the end of the step: dt times the
  /// damping of the rate [kg·m² or kg]. It has no kinetic energy.
  std::array<double, most_rates> damping_inertia{};
};

/// The part of the description that does not change while the tree moves.
struct TreeModel {
  std::vector<LinkModel> links;              ///< every parent before its children
  int positions = 0, rates = 0;              ///< joint positions and joint rates of all links together
  bool fixed_base = false;                   ///< the base does not move
  double base_mass = 0;                      ///< mass of the base [kg]
  Vector3d base_inertia = Vector3d::Zero();  ///< principal inertia of the base (base axes) [kg·m²]
  /// The point of the base whose velocity is its coordinate, and which the host's integrator moves by it, from the
  /// centre of mass (base axes) [m].
  Vector3d base_origin = Vector3d::Zero();
  double linear_damping = 0;   ///< c of the force −m c (1 + |v|) v on a link: a drag that grows with the speed
  double angular_damping = 0;  ///< d of the torque −d (1 + |w|) I w
  bool gyroscopic = true;      ///< whether the host gives the links the torque −w × I w

  /// Mass of a link, or of the base for −1 [kg].
  double mass(int link) const { return link < 0 ? base_mass : links[static_cast<std::size_t>(link)].mass; }
  /// Principal inertia of a link, or of the base for −1 [kg·m²].
  const Vector3d& inertia(int link) const {
    return link < 0 ? base_inertia : links[static_cast<std::size_t>(link)].inertia;
  }
};

/// Where the tree is.
struct Configuration {
  Vector3d p = Vector3d::Zero();            ///< centre of mass of the base [m] (W)
  Quaterniond q = Quaterniond::Identity();  ///< base to world
  std::vector<double> joints;               ///< joint positions [rad, m, or a quaternion]
  /// Returns whether all numbers are the same.
  bool operator==(const Configuration& other) const {
    return p == other.p && q.coeffs() == other.q.coeffs() && joints == other.joints;
  }
};

/// A force and a moment about a link's centre of mass, world axes.
struct LinkForce {
  Vector3d force, moment;  ///< force [N] and moment [N·m]
};

/// Where the tree is, how it moves and what acts on it at one time.
struct TreeState {
  Configuration at;  ///< where the tree is
  /// [angular velocity of the base, the velocity of its origin, joint rates], world axes: 6 + joint rates numbers.
  std::vector<double> velocity;
  std::vector<LinkForce> forces;     ///< applied, gravity included, base first [links + 1]
  std::vector<double> joint_forces;  ///< applied along the joint rates [N, N·m]
};

/// The rotation by which the host's integrator turns a body of angular velocity `w` over dt. It is the host's
/// convention: hosts clamp fast rotation or use a series, and the step has to end on the constraints where the host
/// really ends (T12).
using RotationOverStep = Quaterniond (*)(const Vector3d& w, double dt);

/// Adds the mechanical energy of a tree [J], with the potential energy of its moving links in the gravity `g` [m/s²].
LINCHPIN_API void add_energy(const TreeModel& model, const TreeState& state, const Vector3d& g, double& sum);

// ---- the host's own rows ----

/// Impulses of the host's own rows on one tree in a step, by kind of row.
struct RowImpulses {
  std::vector<double> contact, friction, joint;  ///< along the velocities [6 + joint rates]
  /// Mean wrenches on the links of rows along joints, base first [links + 1]. The host writes such rows as couples on
  /// two links, from outside; they go through the joint.
  std::vector<Wrench> along_joints;
};

/// A gear between joints, Σ factor · position = target + P(Σ factor · position of the inputs). The links of its terms,
/// and then those of its inputs, are the bodies of its constraint, in the same order. Terms beyond the bodies are of
/// the tree of the first one.
struct Gear {
  /// One joint of the gear.
  struct Term {
    int link = -1;      ///< whose joint has one position and one rate
    double factor = 1;  ///< factor of its position
  };
  std::vector<Term> terms;             ///< the joints
  double target = 0;                   ///< value of the sum
  std::vector<Term> inputs{};          ///< the joints of which P is a function; laws act on no gear that has some
  std::array<double, 5> polynomial{};  ///< P, by power; the first coefficient is a constant
};

// ---- reports ----

/// The generalized forces that move one joint of a tree, by cause [N·m for a joint that turns, N for one that slides].
/// They act along its coordinates, each on everything that hangs on the joint. The joint's row of T5:
///   inertia = gravity + velocity + damping + applied + constraint + contact + friction + laws + native.
/// One number per coordinate of the joint and zeros after them; a spherical joint's three are about its link's own
/// axes.
struct JointForces {
  Vector3d gravity = Vector3d::Zero();     ///< weight, by the world's gravity
  Vector3d velocity = Vector3d::Zero();    ///< centrifugal, Coriolis and gyroscopic terms
  Vector3d damping = Vector3d::Zero();     ///< the host's linear and angular damping of the tree
  Vector3d applied = Vector3d::Zero();     ///< by the program: torques on joints, forces and torques on links
  Vector3d constraint = Vector3d::Zero();  ///< constraints that are held exactly (T5)
  Vector3d contact = Vector3d::Zero();     ///< normal forces of contacts
  Vector3d friction = Vector3d::Zero();    ///< friction of contacts, torsional and spinning friction too
  Vector3d laws = Vector3d::Zero();        ///< what laws prescribe, on the joint itself or elsewhere
  Vector3d native = Vector3d::Zero();      ///< other rows of the host's: motors, limits, constraints left to it
  Vector3d inertia = Vector3d::Zero();     ///< (M q̈) of the joint: zero at rest and in steady motion along it
};

// ---- what an adapter implements ----

/// The trees of a host, by their index in the order of TreeSolver::set_trees(). Velocities have 6 + joint rates
/// numbers, as TreeState has them. An implementation contains no algorithm. No call may throw.
///
/// The program owns the TreeWorld. It must outlive its TreeSolver, which keeps a reference. The solvers call it only
/// from the thread that calls them. Spans are valid during the call. find_trees() and mesh_gears() may call the
/// functions that their comments name. No other function may change a solver.
class LINCHPIN_API TreeWorld {
 public:
  virtual ~TreeWorld() = default;

  // Trees.
  /// Calls TreeSolver::set_trees() when trees have come or gone, and reads the host's own constraints on links.
  virtual void find_trees() {}
  /// Calls TreeSolver::set_gear() for gears that keep the position at which they mesh: they mesh where they are now.
  virtual void mesh_gears() {}
  /// Reads a tree as it is now.
  virtual void read(int tree, TreeModel& model, TreeState& state) const = 0;
  /// A link with its joint; −1: the base, which has only mass, inertia and no parent.
  virtual LinkModel read_link(int tree, int link) const = 0;
  /// Name of a link, or of the base (−1), within a message: "link 3 of its multibody".
  virtual std::string link_name(int tree, int link) const;
  /// @return why a tree cannot take part in exact constraints, or empty
  virtual std::string why_unsupported(int tree) const = 0;
  /// Returns whether a tree sleeps.
  virtual bool is_asleep(int tree) const = 0;
  /// Wakes a tree that sleeps.
  virtual void wake(int tree) = 0;
  /// Moves a tree to a configuration, without a velocity.
  virtual void move(int tree, const Configuration& to) = 0;
  /// Velocities as they are now, with the changes that rows and add_velocity() have made in the step.
  virtual void read_velocity(int tree, std::span<double> v) const = 0;
  /// The sum of those changes.
  virtual void read_velocity_change(int tree, std::span<double> dv) const = 0;
  /// Adds to the velocities, and to those of the host's row solver while it iterates.
  /// @param dv  in and out: what was added in the host's precision
  virtual void add_velocity(int tree, std::span<double> dv) = 0;
  /// Returns why the host will not integrate these velocities [columns] as they are, or an empty text.
  virtual std::string why_limited(int /*tree*/, std::span<const double> /*v*/) const { return {}; }
  /// Mean wrenches of the host's own rows on the links, about their centres, base first [links + 1].
  virtual void read_row_wrenches(int tree, std::span<Wrench> on) const = 0;
  /// Gravity of the world [m/s²] (W).
  virtual Vector3d gravity() const = 0;

  // Bodies.
  /// A link, or the base (−1), has got an id of its own among the bodies of the solver. The host may name it.
  virtual void note_link(BodyId /*id*/, int /*tree*/, int /*link*/) {}
  /// The id of a rigid body now. A body that the program has fixed or freed gets another.
  virtual BodyId current_id(BodyId body) = 0;
  /// Reads a rigid body of the host's row solver. @return false where it is not there
  virtual bool read_row_body(BodyId body, host::RowBody& out) const = 0;
  /// Adds to the velocities of such a body. @param v, w  in and out: what was added in the host's precision
  virtual void add_row_velocity(BodyId body, bool turns, Vector3d& v, Vector3d& w) = 0;
};

// ---- what an adapter calls ----

/// How a host solves its own rows.
enum class RowSolve {
  by_iterations,  ///< It calls project_rows() after each of them.
  at_once         ///< It solves them in one call, on rows that it projects by constraint_jacobian().
};

/// Solves all constraints on links of trees, and the joints of rigid bodies that share a body with them, as one problem
/// beside the islands of rigid bodies.
///
/// Call begin_step() before the host adds forces to velocities, and begin_rows() when its rows are set up. Call
/// project_rows() after each of its iterations, and finish() when all islands are solved. ConstraintSolver::end_step()
/// contains the end of the step of trees.
///
/// It keeps references to both arguments of its constructor. Destroy it before the ConstraintSolver and before the
/// TreeWorld. The entries of the ConstraintSolver own the constraints. Spans and pointers that it returns are valid
/// until the next step and until trees or constraints change.
///
/// It serves the thread of its ConstraintSolver. begin_step(), project_rows(), finish() and the reports call functions
/// of constraints and laws in that thread. Such a function must not call a solver.
class LINCHPIN_API TreeSolver {
 public:
  /// Adds itself to the reports and to the step of `solver`.
  /// @param solver, world  kept by reference
  /// @param rotation       of the host's integrator
  TreeSolver(host::ConstraintSolver& solver, TreeWorld& world, RotationOverStep rotation);
  ~TreeSolver();
  TreeSolver(const TreeSolver&) = delete;
  TreeSolver& operator=(const TreeSolver&) = delete;

  // ---- trees and their links ----
  /// Takes the trees of the host's world.
  /// @param before  by tree: the index that it had before; −1: it is new
  /// @return entries that name links of trees that are gone: the adapter is to remove them
  std::vector<int> set_trees(std::span<const int> before);
  /// The id of a link, −1 the base, as a body of constraints. @throws std::invalid_argument  it has none
  BodyId link_id(int tree, int link);
  /// Returns whether an id is that of a link or a base.
  bool is_link(BodyId id) const;

  // ---- constraints on links, by entry ----
  /// @return why a constraint cannot be held, or empty
  std::string why_not_held(const Constraint& constraint) const;
  /// Gives an entry its constraint, or none where the host keeps all of it.
  void set_constraint(int entry, std::unique_ptr<Constraint> constraint);
  /// Makes the constraint of an entry the row of a gear. Its own function only says between which bodies.
  void set_gear(int entry, Gear gear);
  /// Makes the constraint that the coordinates of a joint keep. @throws std::invalid_argument  for the base, and for a
  /// joint of a kind that is not supported
  Constraint make_joint(int tree, int link, const std::string& name);
  /// The entry whose constraint make_joint() has made for a joint. −1: none
  int find_joint(int tree, int link);

  // ---- a step ----
  /// Reads all trees, and the problem of the step. @param dt  [s] @return whether constraints are solved in this
  /// step
  bool begin_step(double dt);
  /// Returns whether an entry is held in this step, and so must not be given to the host or to an island of rigid
  /// bodies.
  bool holds(int entry) const;
  /// Returns whether the problem of this step moves a tree.
  bool moves(int tree) const;
  /// The rigid bodies that the problem moves, if anything is solved in this step.
  std::span<const BodyId> rigid_bodies() const;
  /// M⁻¹(Q − h) of a tree at the start of the step, without constraints [6 + joint rates].
  void free_acceleration(int tree, std::span<double> a);
  /// M⁻¹ of forces along the velocities of a tree, in place, at the start of the step [6 + joint rates].
  void inverse_mass(int tree, std::span<double> f);
  /// Rows are set up. @param act  some row of the host acts on what the problem moves
  void begin_rows(bool act, RowSolve how = RowSolve::by_iterations);
  /// Puts the velocities back on the constraints.
  void project_rows();
  /// For a host that solves all of its rows in one call: writes the independent rows of the constraints, A at the start
  /// of the step. Rows J of the host become J (1 − M⁻¹Aᵀ (A M⁻¹Aᵀ)⁻¹ A) on the mechanism as the constraints let it
  /// move. Call it between begin_rows() and finish().
  /// @param rows  out [count × numbers], one row after the other: along the velocities of all trees in their order, 6 +
  /// joint rates each
  /// @return their count
  int constraint_jacobian(std::vector<double>& rows) const;
  /// Writes the forces of laws for which such a host solves its rows, along the velocities of a tree [6 + joint rates].
  /// Zero where no law acts.
  void law_forces(int tree, std::span<double> f) const;
  /// Compares the forces of laws for which the rows were solved with those that laws give for the result. Friction that
  /// sticks, for example, carries what a contact presses on it. Call it after the impulses of rows are added, and
  /// before project_rows().
  /// @return whether to solve the rows again, for the forces that law_forces() has then. False once both agree, or if
  /// they do not come closer
  bool improve_law_forces();
  /// Returns where impulses of rows on a tree are to be added, when the iterations are over. Null: it was not read.
  RowImpulses* rows_on(int tree);
  /// The iterations are over: takes the impulses of rows on trees, ends the steps of the links, and writes velocities.
  void finish();

  // ---- reports of the last step ----
  /// Impulses of the rows of a constraint in the step, its end included, without laws [N·s, N·m·s]. Empty: it was not
  /// held.
  std::span<const double> impulses(int entry) const;
  /// The mean wrench of these on one of its bodies, about the centre of mass. @param body  by place in the constraint
  Wrench mean_wrench(int entry, int body) const;
  /// Returns the wrench on a link by its parent, through the joint, about the pivot. Computes the reports of the step
  /// if they are not known yet. @throws std::invalid_argument  if there is no such joint, or the tree is unsupported
  /// @throws OrderError  before the first step
  Wrench joint_wrench(int tree, int link);
  /// The forces along the coordinates of a joint. @throws as joint_wrench()
  JointForces joint_forces(int tree, int link);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin::articulated
