// The interface between linchpin and a physics engine, the host. An adapter implements `World`, which reads and writes
// the bodies and joints of the host. It drives one `ConstraintSolver`, which finds the constraint forces.
// docs/how-to/write-an-adapter.md explains the order of the calls; adapters/minimal is a complete small adapter.
//
// All quantities are in double precision, SI units and world axes. A moment acts about the centre of mass of its body.
// A `ConstraintSolver` serves one thread at a time. It uses `World` from that thread only.
//
// The structs of this header are plain values, but ConstraintEntry and JointGeometry can only be moved.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/error.h>
#include <linchpin/export.h>
#include <linchpin/joint_mapping.h>
#include <linchpin/laws.h>
#include <linchpin/report.h>
#include <linchpin/row_forces.h>
#include <linchpin/system.h>
#include <linchpin/world_joints.h>

#include <array>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::host {

// ---- options and counts ----

/// Who solves the equality constraints.
enum class Mode {
  exact,   ///< linchpin solves them.
  passive  ///< The host solves them. linchpin measures gaps and the forces that would have been exact.
};

/// How an island goes through a step of the host.
enum class Stepping {
  /// Order 1, as hosts themselves: v₁ = v₀ + dt·a, X₁ = X₀ ⊕ dt·v₁, ending on the constraints (T12).
  semi_implicit,
  /// Order 4: Runge–Kutta–Munthe-Kaas stages inside the host's step, then a projection in the mass metric (T13). The
  /// forces on a body are those of the host, constant over its step.
  rk4,
  /// Order 5(4): the pair of Dormand and Prince, in as many substeps as `SolverOptions::tolerance` needs (T13).
  adaptive
};

/// Settings of a solver. `mode` and `threads` are chosen when it is made. The others can be changed between two steps:
/// see ConstraintSolver::set_options().
struct SolverOptions {
  Mode mode = Mode::exact;                      ///< Who solves the equality constraints.
  Stepping stepping = Stepping::semi_implicit;  ///< How an island goes through a step of the host.
  double rank_tolerance = 1e-6;                 ///< T6
  double newton_tolerance = 1e-15;              ///< |φ| at the end of a step [m or the row's unit] (T12)
  double gap_tolerance = 1e-9;       ///< |φ| at the start of a step above which poses are corrected [m or rad]
  double tolerance = 1e-9;           ///< error of a substep of Stepping::adaptive
  double max_tension_frequency = 1;  ///< ω·dt above which a step is taken in substeps (T15)
  int max_newton = 30;               ///< solves of one end-of-step Newton
  int max_substeps = 1024;           ///< of one step; above it the island is left to the host
  int threads = 1;                   ///< that solve islands without host rows, the caller's included
  bool geometric_stiffness = false;  ///< T15: implicit geometric stiffness in place of substeps
  bool drift_correction = true;      ///< T12; false: the bare acceleration, which drifts
  /// Compliance of constraints that yield. Empty: none yields, and the host solves an island whose exact rows cannot
  /// bear their load. See the option of the adapter.
  std::optional<Compliance> automatic_compliance{};
  /// Largest energy that an island may gain without a source, relative to the largest kinetic energy that its sources
  /// explain. Sources are applied forces, laws, motors, rows of the host, and bodies and constraints that move. From
  /// half of it on, the steps of the island are divided. A larger gain is an EnergyGain (T15). Infinite: energies are
  /// not compared.
  double max_energy_gain = 0.1;
  /// Largest |φ̇| or |ψ| that the velocities at the end of a step may leave in a row, relative to the speeds that its
  /// bodies could give to it. Steps that end on the constraints leave none. Steps by stages are divided while more than
  /// half of that grows. A larger residual is a VelocityResidual (T15). Infinite: velocities are not compared.
  double max_velocity_residual = 0.1;
};

/// Sets the tolerances of an adapter's options that the program has not chosen.
/// @tparam O  has std::optional tolerances with the names of those of SolverOptions
/// @param single  The host computes in single precision, in which frames are off by 1e-7.
template <class O>
O with_default_tolerances(O options, bool single) {
  const auto set = [&](std::optional<double>& x, double in_double, double in_single) {
    if (!x) x = single ? in_single : in_double;
  };
  set(options.rank_tolerance, 1e-6, 1e-5);
  set(options.newton_tolerance, 1e-15, 1e-10);
  set(options.gap_tolerance, 1e-9, 1e-5);
  set(options.tolerance, 1e-9, 1e-6);
  return options;
}

/// The options of an adapter that have the names of SolverOptions. Its tolerances must be set.
template <class O>
SolverOptions options_of(const O& o) {
  return {.mode = o.mode,
          .stepping = o.stepping,
          .rank_tolerance = *o.rank_tolerance,
          .newton_tolerance = *o.newton_tolerance,
          .gap_tolerance = *o.gap_tolerance,
          .tolerance = *o.tolerance,
          .max_tension_frequency = o.max_tension_frequency,
          .max_newton = o.max_newton,
          .max_substeps = o.max_substeps,
          .threads = o.threads,
          .geometric_stiffness = o.geometric_stiffness,
          .drift_correction = o.drift_correction,
          .automatic_compliance = o.automatic_compliance,
          .max_energy_gain = o.max_energy_gain,
          .max_velocity_residual = o.max_velocity_residual};
}

/// Counts since the start or the last reset().
struct Counts {
  long steps = 0;             ///< steps of the host
  long solves = 0;            ///< solves of islands
  long factorizations = 0;    ///< factorisations: one for a step or substep, more where a gap is closed
  long newton_solves = 0;     ///< back-solves of the end-of-step Newton
  long substepped_steps = 0;  ///< steps of islands that were redone in substeps (T15)
  long substeps = 0;          ///< substeps of those
  long stiffened_steps = 0;   ///< steps of islands with geometric stiffness instead
  double stiffness_work = 0;  ///< work of its torques: what it damped, negative [J]
  long damped_steps = 0;      ///< steps of islands that were damped, as host rows would have given energy (T15)
  double damping_work = 0;    ///< work of that damping, negative [J]
  long energy_gains = 0;      ///< times an island had gained energy without a source (T15)
  /// times velocities had come to leave more than max_velocity_residual in a row of an island (T15)
  long velocity_residuals = 0;
  /// steps of islands that were divided, because energy grew without a source, or a velocity residual did (T15)
  long divided_steps = 0;
  long integrator_substeps = 0;  ///< substeps of rk4 and adaptive
  long rejected_substeps = 0;    ///< tried besides, and taken again shorter
  long order_reductions = 0;     ///< steps of islands taken semi-implicitly although SolverOptions::stepping is another
  long law_solves = 0;           ///< back-solves for laws, of the last evaluation of each step of an island (T9)
  long mode_switches = 0;        ///< times a friction element of a law began to stick or to slide (T10)
  long released = 0;             ///< times a unilateral constraint was released
  long engaged = 0;              ///< times it was engaged again
  long fallbacks = 0;            ///< steps of islands that were left to the host
  long law_failures = 0;         ///< steps of islands in which no law acted, because one of them failed
  long yielding = 0;             ///< constraints that were given SolverOptions::automatic_compliance
  long non_finite = 0;           ///< times a non-finite number was kept from the host
  long gap_corrections = 0;      ///< corrections of poses at the start of a step
  double largest_correction = 0;        ///< largest displacement of one of them [m]
  double largest_correction_angle = 0;  ///< largest turn of a body by one of them [rad]
  long realigned_steps = 0;         ///< steps of islands that began with a joint turned far (0.5 rad) from its place
  double largest_misalignment = 0;  ///< the largest such turn [rad]
  double imbalance = 0;  ///< largest MomentumBalance::imbalance() of any body at any step whose balance was read
  double activation_energy = 0;  ///< largest ½ΔvᵀMΔv by which a step began off its velocity constraints [J]
};

/// A warning of a law. Examples: a step without a solution for the coupled normal force (Painlevé's case) or with
/// several, an effort that jumps, or a normal force that redundancy leaves undetermined. The text names law and
/// constraint.
struct LawWarning {
  std::string text;  ///< With the numbers of the first step.
  double t = 0;      ///< Time at the start of the first such step [s].
  long steps = 0;    ///< Number of such steps; 0: it holds as long as laws and constraints stay as they are.
};
/// Returns the text of a warning, and its first time and number of steps, as a summary prints it.
LINCHPIN_API std::string warning_text(const LawWarning& warning);
/// Returns one sentence on steps in which no law acted, because one of them failed. It names the first such law, its
/// reason and its first step, and says what to do. @param failures  not empty  @param count  Counts::law_failures
LINCHPIN_API std::string law_failure_text(std::span<const LawWarning> failures, long count);

// ---- bodies and rows of the host ----

/// Forces on a body in a step.
struct Load {
  /// That the program applies, gravity included, without the gyroscopic torque [N, N·m] (W).
  Vector3d force = Vector3d::Zero(), torque = Vector3d::Zero();
  /// Whether the body has its gyroscopic torque −ω × Iω (T2). Under exact constraints the solver adds it by the
  /// implicit midpoint rule (T15). Other bodies have it by the host's own rule.
  bool gyroscopic = true;
};

/// A body of the host's row solver during a step, with the velocities that its rows change.
struct RowBody {
  /// How a body moves.
  enum class Motion : unsigned char {
    fixed,      ///< The body does not move.
    kinematic,  ///< The program prescribes its motion.
    free        ///< Forces move it.
  };
  BodyId body;                                          ///< Its index is −1 where linchpin does not know the body.
  Motion motion = Motion::fixed;                        ///< how it moves
  double inverse_mass = 0;                              ///< along the first axis [1/kg]
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();  ///< at the start of the step
  Vector3d force_v = Vector3d::Zero(), force_w = Vector3d::Zero();    ///< change by applied forces
  Vector3d v_forces = Vector3d::Zero(), w_forces = Vector3d::Zero();  ///< v + force_v in the host's own arithmetic
  Vector3d row_v = Vector3d::Zero(), row_w = Vector3d::Zero();        ///< change by rows
};

/// One row of the host's own: a contact, friction, a limit, a motor, a spring. Its target is a velocity along J. It
/// applies the impulse Jᵀ · impulse.
struct Row {
  /// The kind of a row, by what made it.
  enum class Kind : unsigned char {
    contact,   ///< the normal of a contact
    friction,  ///< of a contact, rolling friction included
    belt,      ///< friction against a surface that moves by itself
    limit,     ///< of a joint: pushes without bound, and one way only
    lock,      ///< of a joint: holds an angle both ways, without bound
    motor,     ///< any other row of a joint
    equality,  ///< Mode::passive: the host's row of an equality constraint that linchpin knows
    multibody  ///< acts on an articulated body as well
  };
  /// One of the two bodies of a row, and how the row acts on it.
  struct Side {
    int body = -1;                ///< index in Rows::bodies; −1: the row has no body there
    Vector6 J = Vector6::Zero();  ///< force and moment of an impulse of one
    double mobility = 0;          ///< J M⁻¹ Jᵀ of that body alone, in the host's own arithmetic [1/kg]
  };
  Kind kind = Kind::motor;     ///< what made the row
  bool penetrates = false;     ///< a contact whose target velocity removes an overlap
  bool bounded = false;        ///< It has a bound on both sides: it gives way where it cannot hold.
  bool was_cut = false;        ///< out: a part of the impulse was left out, and `impulse` is the rest
  int index = -1;              ///< in the host's array; for the adapter alone
  int constraint = -1;         ///< entry of the joint that it belongs to; −1: none
  double limit_sign = 1;       ///< of a limit: the direction in which it pushes
  double velocity_change = 0;  ///< target change of velocity when the host begins to iterate [m/s or rad/s]
  double effective_mass = 0;   ///< impulse for each unit of velocity [kg]
  double softness = 0;         ///< compliance of the row [1/kg]
  double host_mobility = 0;    ///< motion of the row by a unit impulse that the host relaxes to [1/kg]
  double impulse = 0;          ///< [N·s or N·m·s]
  std::array<Side, 2> side;    ///< first and second body of the row

  /// Returns whether an impulse on the row moves neither of its bodies.
  bool moves_nothing() const { return side[0].J.isZero(0) && side[1].J.isZero(0); }
  /// Returns whether the row belongs to a joint, as a limit, a lock or a motor.
  bool of_joint() const { return kind == Kind::limit || kind == Kind::lock || kind == Kind::motor; }
  /// Returns whether the row can only be passive.
  bool is_passive() const { return kind != Kind::belt && kind != Kind::motor; }
};

/// Rows of the host that act on islands or belong to joints that linchpin knows, in the order of the host's arrays.
struct Rows {
  std::vector<RowBody> bodies;  ///< all bodies on which rows act; Row::Side::body is an index into them
  /// The rows, by kind. `rolling` has rolling friction. `multibody` has all rows on articulated bodies.
  std::vector<Row> contacts, joints, friction, rolling, multibody;
  /// Returns the body of a side of a row. It is a fixed body where the side has none.
  const RowBody& body_of(const Row::Side& side) const {
    static const RowBody none;
    return side.body < 0 ? none : bodies[static_cast<std::size_t>(side.body)];
  }
  /// All but `multibody`, in the order in which their responses are found.
  std::array<std::vector<Row>*, 4> all() { return {&contacts, &joints, &friction, &rolling}; }
  /// The same lists of constant rows.
  std::array<const std::vector<Row>*, 4> all() const { return {&contacts, &joints, &friction, &rolling}; }
};

/// A row of a constraint for a host whose rows act on two bodies. All other bodies are taken to move as they do.
struct PairRow {
  std::array<Vector6, 2> J;  ///< By side: derivatives by linear and angular velocity (W).
  double target = 0;         ///< Velocity of the row.
  /// Largest magnitude of its impulse: of a motor. 0: the row is not finite and must do nothing; J and the target are
  /// zero.
  double max_impulse = std::numeric_limits<double>::infinity();
};
/// Chooses pairs of the bodies of a constraint for a host whose islands and rows know two bodies. The first body of all
/// pairs is one that moves. The second is −1 where there is one body.
/// @param stands  by body: it does not move by forces
LINCHPIN_API std::vector<std::array<int, 2>> pairs_of_bodies(std::span<const char> stands);

/// Settings of the host's row solver.
struct RowSettings {
  double joint_erp = 0.2;  ///< share of a position error of a joint that a row removes in a step
};

/// Changes of a row that are to be made before the iterations, in this order.
struct RowChange {
  double overlap_less = 0;  ///< Share to subtract from the velocity that removes an overlap.
  double target_less = 0;   ///< Velocity to subtract from the target.
  double scale = 1;         ///< Factor on effective mass, target impulse and softness.
  bool inactive = false;    ///< The row is to do nothing.
};

/// The response to a unit impulse on a row. By side, it moves the bodies of an island on which rows act, or the host's
/// body.
struct Response {
  std::array<int, 2> island{-1, -1};       ///< −1: The side moves the host's body alone.
  std::array<std::size_t, 2> first{0, 0};  ///< First number in ConstraintSolver::response_motion().
  bool second_with_first = false;          ///< Both sides act on the island of the first one, which moves as a whole.
  bool moves_body(int side) const {        ///< A side moves the host's own body.
    return island[static_cast<std::size_t>(side)] < 0 && !(side == 1 && second_with_first);
  }
  double raw = 0;   ///< Motion of the row itself in the host's arithmetic [1/kg].
  double held = 0;  ///< Part of that motion by bodies outside of islands [1/kg].
};

/// Velocities of a body of the host's row solver.
struct RowVelocity {
  int body;       ///< index in Rows::bodies
  bool turns;     ///< false: a particle, which has no angular velocity
  Vector3d v, w;  ///< linear [m/s] and angular velocity [rad/s] (W)
};

/// An island that welds make one rigid body of the host's row solver.
struct CompositeBody {
  /// One of the bodies that the welds join.
  struct Member {
    int body;      ///< index in Rows::bodies
    Vector3d arm;  ///< from the centre of the whole
  };
  int island = -1;                              ///< index of the island; −1: none
  double inverse_mass = 0;                      ///< 0: the welds hold it to what does not move
  Vector3d centre = Vector3d::Zero();           ///< centre of mass of the whole [m] (W)
  Matrix3d inverse_inertia = Matrix3d::Zero();  ///< (W)
  std::vector<Member> members;                  ///< the bodies, in the order of the island
};
/// A row as it acts on composite bodies.
struct CompositeRow {
  std::array<int, 2> composite{-1, -1};  ///< Index in ConstraintSolver::composites(); −1: that side is unchanged.
  std::array<Vector3d, 2> moment, turn;  ///< Moment of a unit impulse; the angular velocity by it.
  double had = 0;                        ///< Velocity of the row so far. The composite body does not have it.
  RowChange change;                      ///< Change of the row that belongs to it.
};

// ---- constraints ----

/// The exact part of a stock joint, by primitives.
struct JointGeometry {
  std::array<int, JointRows::primitive_count> counts{};  ///< Number of each primitive, in the order of their rows.
  bool has_orientation = false;                          ///< It holds all three axes of turning.
  bool is_gear = false;     ///< A function with an internal state is in place of primitives.
  bool turned_far = false;  ///< Its bodies were turned far from its required rotation when last measured.
  int first = 0, size = 0;  ///< Its numbers in the gap monitor.
  std::unique_ptr<Matrix3d> breaking_axes;  ///< Axes in the first body for the breaking test; null: world axes.
};

/// One constraint that the solver knows, by its index: a joint of the host, one of the user's own, or the locked axes
/// of a body.
struct ConstraintEntry {
  /// What the constraint is, and who owns it.
  enum class Owner : unsigned char {
    joint,                 ///< a joint of the host's world
    user,                  ///< a constraint of the user's own on rigid bodies
    locked_axes,           ///< axes that a body of the host may not move along
    user_on_links,         ///< a constraint of the user's own on links of multibodies
    multibody_constraint,  ///< a constraint of the host's world on links
    multibody_joint        ///< a joint of a multibody: no row, as its coordinates keep to it
  };
  /// Whether the constraint depends on time explicitly.
  enum class Time : unsigned char {
    constant,  ///< φ_t has always been zero.
    stopped,   ///< φ_t was not zero in an earlier step.
    moving     ///< φ_t is not zero now: the constraint moves its bodies.
  };
  /// The outcome of the last step.
  struct Outcome {
    bool contradictory = false;  ///< contradicts others: met in the least squares only
    bool left_to_host = false;   ///< no exact reaction
    bool has_host_rows = false;  ///< `host` is of the last step
    bool broken = false;         ///< It broke in the step.
  };
  /// The state of a joint of the host.
  struct Joint {
    std::array<BodyId, 2> bodies;   ///< first and second body
    bool is_mapped = false;         ///< as it is configured, and its bodies have stayed what they were
    bool released_to_host = false;  ///< It has a name, but the host solves it until it is adopted again.
  };
  /// A range of ConstraintSolver::laws().
  struct LawRange {
    int first = -1, count = 0;  ///< first term, and number of terms; −1: it has none
  };
  /// Returns whether it is a joint of the host's world between rigid bodies.
  bool is_joint() const { return owner == Owner::joint; }
  /// Returns whether it is a constraint of the user's own.
  bool is_of_user() const { return owner == Owner::user || owner == Owner::user_on_links; }
  /// Returns whether it acts on links of articulated bodies.
  bool is_on_links() const { return owner >= Owner::user_on_links; }
  /// Returns whether the host can solve it.
  bool is_of_host() const { return is_joint() || owner == Owner::multibody_constraint; }
  Owner owner = Owner::user;           ///< what the constraint is
  bool alive = true;                   ///< false: it has been removed, and another entry may take its place
  bool enabled = true;                 ///< by the program
  bool released = false;               ///< unilateral, and not holding
  bool may_have_host_rows = false;     ///< The host keeps rows of it, such as limits, or all of it.
  ConstraintId id;                     ///< in the system; −1 while the host has all of it
  std::string name;                    ///< its name in reports
  unsigned version = 0;                ///< number of entries made before: another entry may take its place
  unsigned order = 0;                  ///< number of constraints that the system had been given before
  int reaction = -1;                   ///< place in reactions(); −1: the host's world does not contain it
  LawRange law_range;                  ///< its terms in laws()
  Time time = Time::constant;          ///< its dependence on time
  Outcome outcome;                     ///< outcome of the last step
  unsigned frames_moved_at = 0;        ///< step in which the program was last found to have moved its frames
  double work = 0;                     ///< since the start [J]
  double parting_speed = 0;            ///< unilateral: |φ̇| at the start of the last step
  Unilateral unilateral{.on = false};  ///< how it is unilateral, if it is
  bool has_limits = false;             ///< unilateral at one of two limits
  /// Of the user's own: impulse of one row above which the constraint breaks [N·s or N·m·s].
  double breaking_impulse = std::numeric_limits<double>::infinity();
  std::vector<Law> laws;                 ///< its laws, where the entry keeps them
  std::optional<Compliance> compliance;  ///< of a joint of the host; its springs are the law of it
  std::unique_ptr<Constraint> deferred;  ///< while the system cannot take it: none of its bodies can move
  ConstraintId link_id;                  ///< in the system, of one on links of multibodies that have laws
  std::string host_part;                 ///< what the host keeps and why; empty: nothing
  std::string fallback;                  ///< why the host had all of it in the last step; empty: it had not
  Joint joint;                           ///< for joints of the host only
  JointGeometry geometry;                ///< for joints of the host only: the exact part
  std::unique_ptr<Wrenches> host;        ///< mean wrenches of the host's own rows of it, about the centres of mass
};

// ---- what an adapter implements ----

/// The ways in which a host can couple linchpin with its own solver.
struct Capabilities {
  /// How far the host couples its rows with the islands. Each value includes those before it.
  enum class Coupling : unsigned char {
    after_solve,         ///< linchpin reads the impulses of the host's rows when the host has solved them.
    between_iterations,  ///< It also puts velocities back on the constraints between two iterations of the host.
    rows                 ///< Rows also know what their impulses do to a whole island, and the host applies that.
  };
  Coupling coupling = Coupling::after_solve;                 ///< how far the host couples its rows
  double rounding = std::numeric_limits<double>::epsilon();  ///< of poses as the host stores them, relative
  /// Largest rotation in one step up to which the host integrates the angular velocity that it gets [rad].
  double largest_turn = std::numeric_limits<double>::infinity();
};

/// Velocities that a body is to have when the host integrates, and the pose that it starts from.
struct Motion {
  BodyId body;              ///< the body
  bool turns = true;        ///< false: a particle, whose w the host keeps
  bool write_pose = false;  ///< `start` is another pose than the host has
  bool written = false;     ///< out: false where a velocity is not finite in the host's precision
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();  ///< linear [m/s] and angular velocity [rad/s] (W)
  Pose start;                                           ///< pose from which the host integrates
};

/// Impulse of the force rows of a joint in the step [N·s].
struct JointImpulse {
  int entry;       ///< entry of the joint
  double impulse;  ///< magnitude [N·s]
};

/// The bodies and joints of a host. An adapter implements it; it contains no algorithm. Bodies are identified by the
/// ids that ConstraintSolver::add_body() returned, joints by their entries. No call may throw.
///
/// The program owns the World. It must outlive its ConstraintSolver, which keeps a reference. The solver calls it only
/// inside calls of the solver, and only from the thread that makes them. Arguments are valid during the call. Functions
/// of a World may call const functions of the solver. find_joints(), look_at_bodies(), map_joints() and map_joint() may
/// also call the functions that their comments name. No other function may change the solver or begin a step.
class LINCHPIN_API World {
 public:
  virtual ~World() = default;
  /// Pose and velocities of a body as they are now. A kinematic body is where it is at the end of the step, with its
  /// mean velocity. Accelerations are left as they are.
  virtual void read(BodyId body, BodyState& out) const = 0;
  /// Returns why a body that is to move has no mass matrix, in words. Null: it has one. The solver copies the text.
  virtual const char* why_unsupported(BodyId) const { return nullptr; }
  /// Axes of the world along which a body must not change its motion: bit i for linear x y z, bit 3 + i for angular.
  virtual unsigned locked_axes(BodyId) const { return 0; }
  /// Forces on a body that can move.
  virtual void read_forces(BodyId body, Load& load) const = 0;
  /// Index of a body in the host's row solver during a step; −1: it is not there.
  virtual int row_body(BodyId) const { return -1; }
  /// The pose as the host stores it: position of the centre of mass, and a rotation matrix that is not made
  /// orthonormal.
  virtual void read_frame(BodyId body, Vector3d& p, Matrix3d& R) const;
  /// Writes velocities, and poses where Motion::write_pose is set. Sets Motion::written.
  virtual void write(std::span<Motion> motions) = 0;
  /// After the host has integrated: the velocities that were written as `given` become v and w; what the host has added
  /// since stays added. Default: write().
  virtual void replace_velocity(const Motion& given, const Vector3d& v, const Vector3d& w);
  /// After the host has integrated: moves a body to a pose, without a velocity. Default: write().
  virtual void move(BodyId body, const Vector3d& p, const Quaterniond& q);
  /// Gives a body whose state is not finite in the host's precision the state `was`. Default: in double, by write().
  /// @return whether it was not finite
  virtual bool restore_finite(BodyId body, const BodyState& was);
  /// Rotation by which the host's integrator turns a body of angular velocity w in dt. Default: the exponential map.
  virtual Quaterniond rotation(const Vector3d& w, double dt) const;
  /// Returns whether the host can compute with a velocity. Default: it is finite.
  virtual bool can_hold(const Vector3d& u) const { return u.allFinite(); }
  /// A velocity in the host's precision. Default: itself.
  virtual Vector3d rounded(const Vector3d& u) const { return u; }
  /// Square of the displacement in a step above which the host may stop a body in mid-step [m²]; 0: never.
  virtual double swept_motion(BodyId) const { return 0; }

  // Sleeping. By default the host has none.
  /// Returns whether the host moves a body in this step.
  virtual bool is_awake(BodyId) const { return true; }
  /// Wakes a body that sleeps.
  virtual void wake(BodyId) {}
  virtual bool may_fall_asleep(BodyId) const { return false; }  ///< in the step that begins
  virtual double rest_time(BodyId) const { return 0; }          ///< since when the sleep timer runs [s]
  /// Starts the sleep timer of a body again at zero.
  virtual void restart_rest_timer(BodyId) {}

  // The world itself. The solver calls the following only while why_absent() is null.
  virtual std::string name() const { return "a host"; }  ///< for summaries
  /// Returns why there is no world, as before the solver is attached to one. Null: there is one.
  virtual const char* why_absent() const { return nullptr; }
  virtual bool has_ended() const { return false; }  ///< The world has been destroyed before its solver.
  virtual double energy() const { return 0; }       ///< of its bodies that move, gravity included [J]

  /// What the solver reads of a body.
  enum class Access {
    frame,  ///< position and rotation
    state   ///< frame, velocities and forces
  };
  /// A hint, without effect on results: the solver reads the body soon.
  virtual void prefetch_body(BodyId, Access) const {}

  // Changes that the program may have made.
  /// Adds joints that are new in the world, and removes those that the program has deleted. Then set_order().
  virtual void find_joints() {}
  /// Looks at all bodies: whether they are still there (ConstraintSolver::set_in_world, drop_constraints_on,
  /// remove_body) and, in a step that begins, what has changed of them (change_body, replace_body). The solver then
  /// reads the bodies.
  virtual void look_at_bodies(bool /*step_begins*/) {}
  /// Calls ConstraintSolver::set_joint() for joints that are to be mapped. The argument `is_anew` is true where joints
  /// are to be mapped as if they had always been as they are.
  virtual void map_joints(bool /*is_anew*/) {}
  virtual void map_joint(int) {}                         ///< Maps one joint, or one constraint of the host on links.
  virtual void entry_removed(int) {}                     ///< An entry is gone.
  virtual bool keeps_entry(int) const { return false; }  ///< It still names an entry that is gone.

  // Joints and the user's constraints, by entry.
  /// Returns whether the host has a joint, or a constraint of the user's own, enabled.
  virtual bool is_enabled(int) const { return true; }
  /// Enables or disables a joint, or a constraint of the user's own.
  virtual void enable(int, bool) {}
  /// Returns whether the program reads the forces of a joint in every step.
  virtual bool needs_forces(int) const { return false; }
  /// Impulse of one row above which a joint breaks [N·s or N·m·s].
  virtual double breaking_impulse(int) const { return std::numeric_limits<double>::infinity(); }
  /// Breaks a joint as the host does: it is disabled.
  virtual void break_joint(int) {}
  virtual bool is_host_part_broken(int) const { return false; }  ///< The host has broken its own rows of a joint.
  /// Receives the impulses of joints in the step, for hosts that store them in their joints.
  virtual void report_impulses(std::span<const JointImpulse>) {}
  /// Mean forces of a joint in the step, about the centres of mass, without the host's own rows of it.
  virtual void report_forces(int, const Wrench&, const Wrench&) {}
  /// The host is to solve a constraint itself in this step.
  virtual void solve_in_host(int entry) = 0;
};

// ---- reports ----

/// The part of a constraint that a host solves, and the reason.
struct HostPart {
  std::string name, why;  ///< name of the constraint, and what the host solves and why
};
/// A fault of a constraint.
struct Finding {
  std::string constraint, message;  ///< name of the constraint, and the fault
};

/// A solver of constraints beside the islands of rigid bodies, as that of articulated bodies. Reports contain what it
/// solves. The ConstraintSolver keeps a pointer, does not own it, and calls it from its own thread. Before it is
/// destroyed, call set_companion(nullptr).
class LINCHPIN_API Companion {
 public:
  virtual ~Companion() = default;
  /// Computes the reactions of the last step, if they are not known yet.
  virtual void update_reports() = 0;
  /// Appends the momentum balances of its bodies in the last step to those of the solver, if it has not yet.
  virtual void append_balances() {}
  /// Computes which of its constraints are redundant or undetermined.
  virtual void update_redundancy() = 0;
  /// Number of rows of its constraints.
  virtual int rows() const = 0;
  /// Rank of these rows.
  virtual int rank() const = 0;
  virtual RankReport rank_report() const = 0;           ///< indices as reactions()
  virtual bool has(int entry) const = 0;                ///< It solves the constraint.
  virtual std::string why_no_law(int entry) const = 0;  ///< why the constraint takes no law, or empty
  virtual void add_law(int entry, const Law& law) = 0;  ///< @throws what linchpin::add_law throws
  /// The problem of the last step.
  virtual ConstrainedProblem problem() const = 0;
  /// Parts of its constraints that the host solves, with reasons.
  virtual std::vector<HostPart> host_parts() const = 0;
  /// Checks its constraints at the present state. Empty if there is no fault.
  virtual std::vector<Finding> check() = 0;
  /// History of its laws, for a history of the solver.
  virtual std::shared_ptr<const Dynamics::LawHistory> law_history() const = 0;
  /// Restores a history of its laws. Null: as at the start.
  virtual void restore(std::shared_ptr<const Dynamics::LawHistory> laws) = 0;
  virtual void end_step() = 0;                                     ///< after the host has integrated
  virtual bool read_state(BodyId body, BodyState& out) const = 0;  ///< @return false: the body is none of its own
  /// Clears the data of earlier steps, counts and work.
  virtual void reset() = 0;
};

/// Adds the energy of a body that moves, that of its weight included [J].
/// @param inverse_inertia  [1/(kg·m²)], body axes; zeros: it does not turn about that axis
LINCHPIN_API void add_energy(const BodyState& s, double mass, const Vector3d& inverse_inertia, const Vector3d& gravity,
                             double& to);

// ---- what an adapter calls ----

struct SolverHistory;
struct Context;

/// Finds the constraint forces of a host's world, step by step.
///
/// Ownership. The solver owns its System, the constraints, their laws and all reports. It keeps a reference to the
/// World, which must outlive it. A constraint or a law is taken by value.
///
/// Lifetime. A reference to an entry stays valid as long as the solver, but another entry may take its index after it
/// was removed. References and spans of reports are valid until the next step, and until constraints or laws change.
/// Spans of the functions of a step are valid until the next call of the same function.
///
/// Threads. One thread at a time may use a solver. SolverOptions::threads adds threads inside solve_separate(). They
/// call neither the World nor a function of the program. Solvers of different worlds are independent.
///
/// Reentrancy. The functions of a step, reports and check() call the World. They also call functions of constraints and
/// laws, in the calling thread. These functions must not call the solver, or another solver of linchpin: solvers of one
/// thread share work memory. Only World may call back, as its comment says. A function that throws leaves its island to
/// the host in that step.
class LINCHPIN_API ConstraintSolver {
 public:
  /// @param world  kept by reference; it must live longer than the solver
  /// @throws std::invalid_argument  if a tolerance or the tension frequency limit is not above 0, or a count is too
  /// small
  ConstraintSolver(World& world, const SolverOptions& options);
  ~ConstraintSolver();
  ConstraintSolver(const ConstraintSolver&) = delete;
  ConstraintSolver& operator=(const ConstraintSolver&) = delete;

  /// Returns the options. Valid as long as the solver.
  const SolverOptions& options() const;
  /// Changes the options between two steps. Islands are made again, without their warm starts.
  /// @throws std::invalid_argument  as the constructor, and for another mode or another number of threads
  void set_options(const SolverOptions& options);

  // ---- bodies ----

  /// Returns the model. Change its bodies and constraints only by the functions of this class.
  System& system();
  /// Adds a body. A kinematic body has BodyKind::kinematic. @param mass, inertia  [kg], principal moments [kg·m²]
  /// @return its id; where the mass or the inertia is no number that a body can have, that of a fixed body
  BodyId add_body(BodyKind kind, double mass, const Vector3d& inertia);
  bool is_of_kind(BodyId body, BodyKind kind) const;  ///< also where its numbers are no mass
  /// The body is gone. Its id is used again when no constraint names it any more.
  void remove_body(BodyId body);
  /// Removes the user's constraints on a body, and the body itself. The program is about to delete it.
  void release_body(BodyId body);
  /// Removes the user's constraints on a body that the program has taken out of the world, and perhaps deleted. Each of
  /// them is a Finding of check() and a line of summary(), until reset().
  void drop_constraints_on(BodyId body);
  /// A body has become one of another kind: `now` takes the place of `old`, which is removed.
  void replace_body(BodyId old, BodyId now);
  /// Settings of a body have changed: its mass, or what World says about it.
  void change_body(BodyId body, double mass, const Vector3d& inertia);
  bool is_named(BodyId body) const;  ///< Some constraint names it.
  /// Sets whether a body is in the host's world now. A constraint on a body outside of it is not exact.
  void set_in_world(BodyId body, bool is);

  // ---- constraints ----

  /// Returns an entry by its index, which is below entry_count().
  ConstraintEntry& entry(int index);
  /// Returns a constant entry by its index, which is below entry_count().
  const ConstraintEntry& entry(int index) const;
  /// Number of entries, removed ones included. Indices are below it.
  int entry_count() const;
  /// The constraint of an entry, deferred or in the system.
  const Constraint& constraint(int entry) const;
  int find(std::string_view name) const;  ///< −1: none
  /// Returns `base` if no entry has this name. Otherwise returns it with the first free number: "base.2".
  std::string free_name(std::string base) const;
  /// Adds an entry without a constraint, such as a joint that is mapped later. @return its index
  int add_entry(ConstraintEntry::Owner owner, std::string name);
  /// Adds a constraint of the user's own and its reaction, behind all others. Calls its function to check its
  /// derivatives at the present state of its bodies. @return its entry @throws std::invalid_argument  if the name is in
  /// use, a body has no mass matrix, no body can move, or derivatives are wrong
  int add_constraint(Constraint constraint);
  /// Returns whether set_joint() is to be called. @param changed  the settings are not those of the last call
  bool is_to_be_mapped(int entry, const std::array<BodyId, 2>& bodies, bool changed) const;
  /// Holds a joint of the host exactly as far as `shape` says.
  void set_joint(int entry, const std::array<BodyId, 2>& bodies, JointShape shape);
  /// The next set_joint() of an entry is not for a change of its settings.
  void invalidate_mapping(int entry) { this->entry(entry).joint.is_mapped = false; }
  /// Names a joint, and takes it back if it was given back. @throws std::invalid_argument  an empty name, a name in use
  void name_joint(int entry, std::string name);
  /// Leaves a joint, or a constraint of the host on links, to the host until it is adopted again. Removes an entry of
  /// another kind.
  void release_to_host(int entry);
  /// The following throw std::out_of_range for an index that no entry has had.
  void remove(int entry);
  void add_law(int entry, Law law);  ///< @throws also what linchpin::add_law throws
  /// Removes all laws of a constraint.
  void clear_laws(int entry);
  /// @throws also std::invalid_argument  a joint of the host, or a constraint that is not one position row
  void set_unilateral(int entry, Unilateral how);
  // The following four throw std::invalid_argument for a joint of the host and for values that have no meaning. The
  // first three throw it also for a constraint that has another of these settings, a law or unilateral().
  /// Makes one row a motor (row_forces.h).
  void set_motor(int entry, const Motor& motor);
  /// Makes rows springs and dampers (row_forces.h).
  void set_compliance(int entry, const Compliance& compliance);
  /// Gives compliance to the constraints that the last step has chosen (SolverOptions::automatic_compliance).
  void apply_automatic_compliance();
  /// All rows are exact equations again. @throws std::invalid_argument  a joint of the host
  void set_equality(int entry);
  /// φ of one position row stays between two limits, one of which may be infinite.
  void set_limits(int entry, double lower, double upper);
  /// @param impulse  > 0; infinite: it does not break
  void set_breaking_impulse(int entry, double impulse);
  /// Sets the points at which a constraint of the user's own acts, one for each body [m], in body axes.
  void set_application_points(int entry, std::vector<Vector3d> p_BQ);
  /// Enables or disables a constraint. Enabling also repairs a broken constraint of the user's own.
  void enable(int entry, bool on);
  /// Wakes the bodies of a constraint.
  void wake(int entry);
  /// All joints of the host's world, in its order. Reactions are ordered so, then those of all other entries. Other
  /// numbers in the list have no effect.
  void set_order(std::span<const int> joints);
  void refresh_order();  ///< Entries have come or gone that are no joints.
  /// Bodies, constraints or their settings have changed.
  void structure_changed();
  /// Returns a number that changes with structure_changed(). Use it as a key for results that depend on the structure.
  unsigned structure() const;
  bool has_exact_constraints() const;  ///< in the step that has begun
  bool has_user_constraints() const;   ///< on rigid bodies, now
  /// The rows of a constraint between two of its bodies, at the states that its bodies have in the host now.
  /// @param first, second  among the bodies of the constraint; second −1: none
  /// @param rate  steps per second [1/s] @param erp  share of a position error that a row removes in a step
  /// A motor has a row with a largest impulse. Rows with compliance are rigid.
  std::vector<PairRow> pair_rows(int entry, int first, int second, double rate, double erp) const;
  /// Number of rows that pair_rows() returns for each pair.
  int pair_row_count(int entry) const;

  // ---- a step, in this order ----

  /// Sets what the host can do, before its first step.
  void set_capabilities(const Capabilities& capabilities);
  /// Reads the changes of the world, and switches unilateral constraints.
  void begin_step();
  /// Makes the islands of a group. @param entries  constraints that are to be exact in it
  void build_islands(std::span<const int> entries);
  /// Begins the step of the islands that build_islands() has made last. @param dt  [s]
  /// @return bodies that the host must not move. These are the bodies of all islands if dt is not a positive number,
  /// because joints cannot be kept together over such a step
  std::span<const BodyId> begin_islands(double dt);
  /// Separates the islands on which no row of the host acts from the group.
  /// @param touched  by id of body: a row or contact of the host may act on it
  /// @param group    ids of the bodies that the host has in the group; −1: not known
  /// @return by id of body: it is no longer in the group. Empty where no island is separated
  std::span<const char> separate_islands(std::span<const char> touched, std::span<const int> group);
  /// Solves the separated islands. @param host_is_idle  the host solves nothing after them: velocities are written at
  /// once
  /// @return bodies of islands that the host must solve
  std::span<const BodyId> solve_separate(bool host_is_idle);
  /// Writes velocities, and start poses where they changed, of the separated islands to the host. Ends the group.
  void write_separate();
  bool has_group() const;  ///< some island of the group is not separated

  /// Rows are set up: reads the islands of the group. @return false where an island is left to the host, and rows have
  /// to be set up once more
  bool begin_among_rows(const Rows& rows);
  /// Returns whether a body of Rows::bodies belongs to an exact island of the group.
  bool acts_on_island(int row_body) const;
  /// Returns whether both bodies of a row belong to one rigid part, so that the row can change nothing.
  bool is_within_rigid_part(const Rows& rows, const Row& row) const;
  /// Finds the velocities that rows start from, coupled_bodies(). @return false as begin_among_rows()
  bool start_rows(Rows& rows);
  /// Bodies of islands on which rows act.
  std::span<RowVelocity> coupled_bodies();
  /// Takes the host's split impulses, given as velocities in coupled_bodies(), to the start poses of islands.
  void push();
  /// Finds the islands of the group that welds make rigid. The result is also that of composites().
  std::span<const CompositeBody> find_composites();
  /// Returns the composite bodies that find_composites() has found.
  std::span<const CompositeBody> composites() const;
  /// Returns how a row acts on composite bodies, with the change that belongs to it.
  CompositeRow on_composites(const Rows& rows, const Row& row) const;
  /// Finds the responses to unit impulses on all rows. @return false where the host must not use responses
  bool find_responses(const Rows& rows, const RowSettings& settings);
  /// Returns the response to a unit impulse on row i of a list of Rows.
  const Response& response(std::span<const Row> rows, std::size_t i) const;
  /// Returns the change that is to be made to row i of a list of Rows before the iterations.
  const RowChange& row_change(std::span<const Row> rows, std::size_t i) const;
  /// Returns the motions of all responses: six numbers for each body, a linear and an angular velocity (W).
  std::span<const double> response_motion() const;
  /// Indices in Rows::bodies of the bodies that responses of an island move, in the order of their numbers.
  std::span<const int> response_bodies(int island) const;
  /// Bodies of islands that are to be projected between two iterations. Write their velocities into them; project()
  /// replaces these by changes.
  std::span<RowVelocity> projected_bodies();
  /// Projects the velocities that were written into projected_bodies(), and replaces them by their changes.
  void project();
  /// The iterations are over: ends the steps of the group, and takes the mean wrenches of the host's rows of joints,
  /// also where there are no islands. Row::was_cut says which impulses are other ones. @return false as
  /// begin_among_rows()
  bool finish_rows(Rows& rows);
  /// Entries that the host solves in this step although they are exact.
  std::span<const int> entries_left_to_host() const;
  /// Writes velocities, and start poses where they changed, of the islands of the group to the host.
  void write_group();
  /// Ends the group. A joint breaks if the host has broken its own rows of it.
  void end_group();

  /// Right after the host has integrated: end velocities of steps by stages.
  void write_end_velocities();
  /// After a step. @param dt  by which the clock goes on @param may_stop_bodies  CCD may have stopped bodies in
  /// mid-step
  /// @param timers_run  the host's sleep timer may run for some body
  struct StepEnd {
    double dt = 0;                 ///< length of the step [s]
    bool may_stop_bodies = false;  ///< CCD may have stopped bodies in mid-step
    bool timers_run = true;        ///< the host's sleep timer may run for some body
  };
  /// Ends a step, when the host has integrated.
  void end_step(const StepEnd& end);
  /// The host has taken a step without this solver.
  void skip_step(double dt);

  // ---- reports ----

  /// Makes the list of reactions again if constraints have changed.
  void make_reactions();
  void update_reports();     ///< reactions and balances of the last step
  void update_redundancy();  ///< and which of them are redundant or undetermined
  /// Returns the reactions, in the order of set_order().
  std::span<Reaction> reactions();
  const Reaction& reaction(std::string_view name);  ///< @throws std::invalid_argument  no constraint has this name
  /// Returns the reports of all terms of all laws, in the order of the reactions.
  std::span<LawWork> laws();
  std::span<LawWork> laws_of(int entry);  ///< @throw std::out_of_range  there is no such entry
  /// Returns the momentum balances of the last step, one for each body that exact islands move. A companion adds its
  /// own.
  std::span<const MomentumBalance> momentum_balances() const;
  /// Returns the counts since the start or the last reset().
  Counts& counts();
  /// Returns the first 16 different warnings of laws since the start or the last reset().
  const std::vector<LawWarning>& law_warnings() const;
  /// Returns the first 16 different failures of laws since the start or the last reset(). Counts::law_failures counts
  /// all.
  const std::vector<LawWarning>& law_failures() const;
  /// Gains of energy without a source since the start, the first 100 of them. Counts::energy_gains counts all.
  std::span<const EnergyGain> energy_gains() const;
  /// Velocity residuals above their bound since the start, the first 100 of them. One that stays is one event.
  /// Counts::velocity_residuals counts all.
  std::span<const VelocityResidual> velocity_residuals() const;
  std::string& fallback_reason();  ///< reason of the last fallback
  std::string summary();           ///< text about the last step
  double energy() const;           ///< of the world [J]; NaN where there is none
  /// Returns the parts of constraints that the host solves, with reasons.
  std::vector<HostPart> host_parts() const;
  /// Computes the ranks of all exact constraints at the last step. Indices are those of reactions().
  RankReport rank_report();
  /// Returns the problem of the island of one constraint at the last step. It is empty for an unknown name.
  ConstrainedProblem problem(std::string_view constraint);
  /// Checks derivatives, residuals and rank of all constraints at the present state. Empty if there is no fault.
  std::vector<Finding> check();
  /// What a line of draw_reactions() shows.
  enum class Line {
    gap,       ///< an arm of the cross at an open gap
    on_first,  ///< a reaction on the first body
    on_second  ///< a reaction on the second body
  };
  /// Draws reactions on the first two bodies as arrows of `scale` [m/N], and open gaps as crosses whose arms are as
  /// long.
  using DrawLine = std::function<void(const Vector3d& from, const Vector3d& to, Line what)>;
  /// Calls `draw` for each line before it returns. `draw` must not change the solver.
  /// @throws std::invalid_argument  `scale` is negative or not finite, or `draw` is empty
  void draw_reactions(double scale, const DrawLine& draw);
  /// Returns the state of a body at which the last step began.
  const BodyState& start_state(BodyId body) const;
  /// A body, or a link, with the pose that the host has now. @throws std::invalid_argument  the system has no such body
  joints::PlacedBody placed(BodyId body) const;
  std::span<const BodyId> solved_bodies();  ///< bodies of the islands that were solved in the last step
  /// Time [s].
  double t() const;
  /// Sets the time [s].
  void set_t(double t);
  /// Length of the last step [s].
  double dt() const;

  /// Clears all islands. They are made and analysed again.
  void clear_islands();
  /// Clears histories, counts and work.
  void reset();
  /// Returns a copy of the data that later steps depend on.
  std::shared_ptr<SolverHistory> history();
  /// @throws std::invalid_argument  of another solver, or constraints have come or gone since
  /// @throws OrderError  there is no world
  void restore(const SolverHistory& past);

  /// Sets or, by null, removes a solver beside this one. It is not owned.
  void set_companion(Companion* companion);
  /// Expires with this solver.
  std::weak_ptr<const void> life() const { return life_; }
  /// For solvers inside the core only.
  Context& context();
  /// Returns the World of the constructor.
  World& world();

 private:
  void update_bodies();
  void lock_axes();
  void refresh_reaction(int entry);
  void order_by_age();

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::shared_ptr<const void> life_ = std::make_shared<char>();
};

// ---- for the facade of an adapter ----

/// Text of World::why_absent() after the world has been destroyed.
inline constexpr const char* world_has_ended = "the world of this solver has been destroyed";

/// @throws std::invalid_argument with the reason, where there is one
LINCHPIN_API void demand(const std::string& why);
/// @throws std::invalid_argument "linchpin: who: why", where there is a reason
LINCHPIN_API void demand(const std::string& who, const std::string& why);
/// @throws OrderError with the reason why a world is absent, where it is
LINCHPIN_API void demand_world(const World& world, const std::string& who);

/// One constraint of a solver. A handle is a reference that is cheap to copy. It owns nothing, and destroying it
/// changes nothing. It is valid while its solver exists, the world has not been destroyed and the constraint has not
/// been removed; see valid().
///
/// A handle that is not valid is safe to use. Settings such as law() and unilateral() then throw OrderError with the
/// reason, such as "the constraint has been removed". name() is empty, and all other calls do nothing. A handle stays
/// invalid when another constraint gets the place.
///
/// An empty handle is one that has never had a constraint: it was made without one, or no constraint was found. Its
/// reaction() and its settings throw an error, which names what was not found. All other calls do nothing.
///
/// Use a handle in the thread of its solver, and not inside a residual or a law. Functions that are not const look for
/// joints that the program has deleted, or compute reports. References and spans are valid until the next step and
/// until constraints or laws change.
class LINCHPIN_API ConstraintHandle {
 public:
  ConstraintHandle() = default;
  /// Makes the handle of an entry.
  ConstraintHandle(ConstraintSolver& solver, int entry);
  /// Makes the handle of the constraint with a name. It is empty if there is none.
  ConstraintHandle(ConstraintSolver& solver, std::string_view name);
  /// Returns whether the constraint exists still.
  bool valid() const;
  explicit operator bool() const { return valid(); }  ///< Returns whether the constraint exists still.
  /// Returns its name. It is empty if the handle is not valid.
  const std::string& name() const;
  Result<void> try_law(Law law) noexcept;
  /// Returns the report of its laws, term by term: force, work, power, friction mode, normal force and branch. The
  /// numbers are those of the last step.
  std::span<const LawWork> laws();
  Result<void> try_unilateral(Unilateral how = {}) noexcept;
  Result<void> try_motor(const Motor& motor) noexcept;
  Result<void> try_compliance(const Compliance& compliance) noexcept;
  Result<void> try_equality() noexcept;
  Result<void> try_limits(double lower, double upper) noexcept;
  Result<void> try_breaking_impulse(double impulse) noexcept;
  bool released() const;  ///< It is unilateral or has limits, and is inactive now.
  bool broken() const;    ///< It was loaded beyond its breaking impulse.
  /// Removes the user's constraint from the world. A joint of the world goes back to the native solver. It stays there
  /// until name_joint() is called again, and its handle stays valid.
  void remove();
  /// Computes the reports of the last step where they are not known yet, and returns the reaction. It is an empty
  /// reaction named "" after the constraint has been removed.
  /// @throws std::invalid_argument  the handle is empty, because no constraint has the name or the joint is not in the
  /// world @throws OrderError  the handle was made without a constraint
  const Reaction& reaction();
  /// Returns whether linchpin solves the constraint, as an equality, a motor or compliance: its bodies are in the
  /// world, and it is not disabled, not released, and not left to the host in the last step. Rows of a joint that the
  /// host keeps, such as limits, do not count.
  bool is_exact();
  /// Returns the part of the constraint that the host solves, and the reason. Empty if there is none.
  std::string why_native();
  /// Returns the unit of its first row. A constraint on velocities or accelerations has a unit of its own.
  RowUnit unit() const;

 protected:
  /// Makes an empty handle. @param what_is_missing  text of the error of its calls, valid as long as the handle
  explicit ConstraintHandle(const char* what_is_missing) : what_is_missing_(what_is_missing) {}
  /// Index of the entry; −1: the handle is empty.
  int entry() const { return entry_; }
  /// Returns whether the constraint exists still. Looks for joints that the program has deleted.
  bool is_there();
  /// Removes all laws.
  void remove_laws();
  /// Sets the points at which the constraint acts, one for each body [m], in body axes.
  void set_application_points(std::vector<Vector3d> p_BQ);
  /// Enables or disables the constraint.
  void set_enabled(bool on);

 private:
  void demand_constraint() const;  ///< @throws std::invalid_argument, OrderError  the handle is empty
  void demand_valid() const;       ///< @throws as demand_constraint(), and OrderError
  const ConstraintEntry& get() const { return solver_->entry(entry_); }
  bool has_solver() const { return solver_ && !life_.expired(); }
  ConstraintSolver* solver_ = nullptr;
  std::weak_ptr<const void> life_;  ///< of the solver
  int entry_ = -1;
  unsigned version_ = 0;                               ///< of what was there when it was made
  const char* what_is_missing_ = nullptr;              ///< of an empty handle
  std::shared_ptr<const std::string> name_not_found_;  ///< of an empty handle
};

/// A handle whose calls can be chained. Threads and lifetime are those of ConstraintHandle. @tparam Derived  the handle
/// of an adapter
template <class Derived>
class ChainedHandle : public ConstraintHandle {
 public:
  /// Has the constructors of ConstraintHandle.
  using ConstraintHandle::ConstraintHandle;
  /// Adds a law for the nonideal force; see linchpin::Law. Laws add up. @throws std::invalid_argument as add_law does.
  Derived& law(Law law) {
    try_law(std::move(law)).value();
    return self();
  }
  /// Removes all laws of the constraint.
  Derived& clear_laws() {
    remove_laws();
    return self();
  }
  /// Makes the user's constraint of one position row unilateral, so that it only pushes. It becomes inactive after a
  /// step that ends with a multiplier of the other sign. With `reengage` it is active again in the step in which its
  /// gap would close. Counts::released and Counts::engaged count the switches. Contacts of the host are not concerned.
  /// @throws std::invalid_argument for joints of the world and for constraints of more rows or of another level.
  Derived& unilateral(Unilateral how = {}) {
    try_unilateral(how).value();
    return self();
  }
  // A setting that is refused leaves the constraint as it was. Settings are not part of a history.

  /// Makes the user's constraint of one row a motor: a multiplier of at most `max_force` brings φ̇, or ψ of a
  /// constraint on velocities, to `speed`. A second call changes both, without a new analysis of the island. laws() has
  /// the force, the power and the work, and whether the motor reaches its speed (LawWork::Mode::sticks).
  ///
  ///     exact.constrain_velocity("motor", {base, wheel}, [](const auto& s) {
  ///       return dot(s[0].axis(0, 0, 1), s[1].omega() - s[0].omega());
  ///     }).motor({.speed = 10, .max_force = 2});
  ///
  /// Its bodies sleep by the rules of the host unless its speed is not zero.
  /// @throws std::invalid_argument for joints of the world, constraints of more rows or on accelerations, on more than
  /// two bodies or with forces that are not opposite, and beside laws, limits, compliance or unilateral().
  Derived& motor(const Motor& motor) {
    try_motor(motor).value();
    return self();
  }
  /// Replaces exact rows of a constraint on positions by springs and dampers (row_forces.h). It may be the user's own
  /// or a joint of the world. Its gap in reaction() is then the deformation. energy() does not contain that of the
  /// springs. Where the host solves the island, as in Mode::passive, the rows are rigid. Contacts are coupled as with a
  /// motor. Springs of joints of points, axes and dots cost what exact rows cost.
  /// @throws std::invalid_argument  for constraints that are not on positions, on more than two bodies or with forces
  /// that are not opposite, beside laws, limits or unilateral(), for values that Compliance excludes, and for a joint
  /// that the host solves.
  Derived& compliance(const Compliance& compliance) {
    try_compliance(compliance).value();
    return self();
  }
  /// Makes all rows exact equations again: without motor, compliance, limits and unilateral(). A joint of the world can
  /// have compliance only.
  Derived& equality() {
    try_equality().value();
    return self();
  }
  /// Lets φ of the user's constraint of one position row move between two limits [unit of φ]. At a limit the row pushes
  /// only, without rebound. One limit may be infinite. A second call changes the limits.
  /// @throws std::invalid_argument unless lower < upper, for joints of the world, constraints on links and of more
  /// rows, and beside compliance, a motor or unilateral().
  Derived& limits(double lower, double upper) {
    try_limits(lower, upper).value();
    return self();
  }
  /// Switches the user's constraint off after a step in which one of its rows had an impulse above `impulse` [N·s or
  /// N·m·s], as the breaking threshold of a joint of the host does. broken() is then true.
  /// enable(true) repairs it. @throws std::invalid_argument unless impulse > 0, and for joints of the world.
  Derived& breaking_impulse(double impulse) {
    try_breaking_impulse(impulse).value();
    return self();
  }
  /// Sets the points at which a constraint made from a residual acts, one per body [m], in body axes. law() needs them
  /// unless all bodies are particles.
  Derived& set_application_points(std::vector<Vector3d> p_BQ) {
    ConstraintHandle::set_application_points(std::move(p_BQ));
    return self();
  }
  /// Enables or disables the constraint. Enabling also repairs a broken one.
  Derived& enable(bool on) {
    set_enabled(on);
    return self();
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace linchpin::host
