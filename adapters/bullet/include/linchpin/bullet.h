// linchpin in Bullet Physics 3.24, single or double precision. One line makes an existing program exact:
//
//     linchpin::bullet::Solver exact(world);
//
// The solver then solves equality constraints, which are the joints of the world and the user's own, by the explicit
// Udwadia–Kalaba equation. They end every step satisfied. Contacts, limits, motors and springs stay with Bullet's
// solver and are coupled to them. The destructor restores the native solver.
//
// Every call that throws has a form that returns a Result instead: a twin with the prefix `try_`, or linchpin::try_call
// (linchpin/error.h). Programs that are compiled with -fno-exceptions use these.
//
// Arguments are Bullet's vectors and bodies. Results (Reaction, Wrench) are in double precision, SI units and world
// axes. Points and axes of a residual are in the body's own axes from its centre of mass, which is Bullet's body frame.
//
// Threads. Use a Solver, its handles and its world from one thread at a time. Solvers of different worlds are
// independent. The structs of this header are plain values.
#pragma once

#include <linchpin/articulated.h>
#include <linchpin/comparison.h>
#include <linchpin/constraint.h>
#include <linchpin/error.h>
#include <linchpin/export.h>
#include <linchpin/forces.h>
#include <linchpin/host.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>
#include <linchpin/version.h>
#include <linchpin/world_joints.h>

#include <btBulletDynamicsCommon.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if BT_BULLET_VERSION != 324 && !defined(LINCHPIN_UNTESTED_BULLET)
#error \
    "linchpin supports Bullet 3.24 (BT_BULLET_VERSION 324), and this is another version. Define LINCHPIN_UNTESTED_BULLET to try it at your own risk"
#endif

// Two builds of Bullet share most symbol names. The precision is part of linchpin's names, so that a mix fails to link.
/// The last part of the namespace of the adapter: f32 or f64.
#ifdef BT_USE_DOUBLE_PRECISION
#define LINCHPIN_BULLET_PRECISION f64
#else
#define LINCHPIN_BULLET_PRECISION f32
#endif
/// The namespace of the adapter. Its last part is the precision of Bullet, and is inline.
#define LINCHPIN_BULLET_NAMESPACE linchpin::bullet::inline LINCHPIN_BULLET_PRECISION

/// Marks the public names of the adapter: see linchpin/export.h.
#if defined(LINCHPIN_BULLET_BUILD)
#define LINCHPIN_BULLET_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_BULLET_SHARED)
#define LINCHPIN_BULLET_API LINCHPIN_IMPORT
#else
#define LINCHPIN_BULLET_API LINCHPIN_STATIC
#endif

class btMultiBody;
class btMultiBodyConstraint;

namespace LINCHPIN_BULLET_NAMESPACE {

class Solver;
class WorldBinding;  // src/world_binding.h

/// Converts a vector to the precision of Bullet.
inline btVector3 to_bullet(const Vector3d& u) { return {btScalar(u.x()), btScalar(u.y()), btScalar(u.z())}; }
/// Converts a vector from the precision of Bullet.
inline Vector3d from_bullet(const btVector3& u) { return {double(u.x()), double(u.y()), double(u.z())}; }

using host::Counts;  ///< since the start or the last reset()
using host::law_failure_text;
using host::LawWarning;
using host::Mode;
using host::NativeComparison;
using host::warning_text;

/// How an island goes through a step of Bullet (see linchpin/host.h). An island is a set of bodies that exact
/// constraints connect.
///
/// In the stages of rk4 and adaptive, the forces on a body are those of Bullet, constant over its step. Gyroscopic
/// torques and constraints with time are evaluated at each stage. Kinematic bodies are known by their poses alone and
/// follow a parabola through them. Beside them the order is 2 to 3. Bullet applies its damping as a factor at the start
/// of a step. With damping the order is 1. Bullet's integrator receives the mean velocity, so that swept collisions
/// (CCD) and motion states use the motion from pose to pose. The velocity at the end of the step is set right after,
/// before any action of the program runs. Smooth laws act in the stages. Substeps are so short that no law damps by
/// more than a factor of e in one.
///
/// A step of an island is taken by semi_implicit instead in the following cases. Counts::order_reductions counts these
/// steps, and summary() names them.
/// - Rows of Bullet (contacts, limits, motors, springs) give the island an impulse or a push. Bullet has solved them
///   for X₁ = X₀ ⊕ dt·v₁, so another motion would not meet them.
/// - The island has laws of dry friction, or laws with an internal state.
/// - The step did not succeed in substeps as short as max_substeps makes them.
///
/// Links of multibodies are always stepped semi-implicitly, in substeps where a step does not end on the constraints or
/// gives energy (T15). adaptive takes six factorisations a substep and one a step,
/// rk4 four a substep.
using host::Stepping;

/// A link of a multibody as a body of constraints. Points and axes are in the link's own axes from its centre of mass,
/// as in btMultiBody. Index −1 is the base. It is a reference: the multibody must exist while a call uses it.
struct Link {
  btMultiBody* body = nullptr;  ///< The multibody.
  int index = -1;               ///< Index of the link. −1: the base.
};
/// Makes a Link.
inline Link link(btMultiBody& body, int index) { return {&body, index}; }
/// The generalized forces on one joint of a multibody, by cause.
using articulated::JointForces;
/// A body of a constraint: a rigid body, a link of a multibody, or a body of linchpin's own such as linchpin::ground.
/// It is a reference that is cheap to copy, and it owns nothing. The program owns the body. A constraint is removed
/// when its body leaves the world; see Solver.
class BodyRef {
 public:
  BodyRef(btRigidBody& body) : rigid_(&body) {}  ///< A rigid body.
  /// A rigid body. Null is refused by the call that receives it.
  BodyRef(btRigidBody* body) : rigid_(body), kind_(Kind::rigid) {}
  BodyRef(Link link) : link_(link), kind_(Kind::link) {}  ///< A link of a multibody.
  BodyRef(BodyId id) : id_(id), kind_(Kind::id) {}        ///< A body of linchpin's own, such as linchpin::ground.

 private:
  friend class Solver;
  enum class Kind : unsigned char { rigid, link, id };
  btRigidBody* rigid_ = nullptr;
  Link link_;
  BodyId id_;
  Kind kind_ = Kind::rigid;
};

/// A joint of the world: a constraint of Bullet, a constraint of multibodies, or the joint between a link and its
/// parent. It is a reference that is cheap to copy, and it owns nothing. The joint must exist while a call uses it.
class JointRef {
 public:
  JointRef(btTypedConstraint& joint) : typed_(&joint) {}                    ///< A constraint between rigid bodies.
  JointRef(btMultiBodyConstraint& constraint) : multibody_(&constraint) {}  ///< A constraint of multibodies.
  JointRef(Link link) : link_(link) {}  ///< The joint between a link and its parent.

 private:
  friend class Solver;
  btTypedConstraint* typed_ = nullptr;
  btMultiBodyConstraint* multibody_ = nullptr;
  Link link_;
};

/// Settings of a Solver. `mode`, `threads` and `compare_native` are chosen when it is made. The others can be changed
/// between two steps: see Solver::set_options(). A tolerance that is not set suits the precision of Bullet.
struct Options {
  Mode mode = Mode::exact;  ///< Who solves the equality constraints.
  /// T6. Not set: 1e-6 in double, 1e-5 in single, in which frames are off by 1e-7.
  std::optional<double> rank_tolerance{};
  /// |φ| at the end of a step [m or the row's unit]. Not set: 1e-15 in double, 1e-10 in single.
  std::optional<double> newton_tolerance{};
  int max_newton = 30;                          ///< Largest number of solves of the Newton that ends a step.
  Stepping stepping = Stepping::semi_implicit;  ///< How an island goes through a step.
  /// Error tolerance of adaptive. A substep is accepted when rms(error / (1 + size)) of the island is no larger. The
  /// norm is over positions [m], rotations [rad], velocities [m/s] and rates [rad/s]. The size of a rotation is 1. Not
  /// set: 1e-9 in double, 1e-6 in single.
  std::optional<double> tolerance{};
  /// Limit of the tension frequency ω times dt (T15). A step above it is repeated in substeps. The limit of rk4, which
  /// is stable up to 2√2, is 2.4 times as large. adaptive does not use it, because it estimates its error.
  double max_tension_frequency = 1.0;
  /// Implicit geometric stiffness (T15) in place of substeps where ω·dt is above the limit. It adds ½ dt² K⁺ to the
  /// moments of inertia of the bodies that turn too fast, and applies the torque that belongs to it. Use it in programs
  /// in which every step must cost the same: one solve where a taut chain needs a dozen. It damps these motions and is
  /// not the equation (T1). Counts::stiffened_steps, Counts::stiffness_work and MomentumBalance::constraints report it.
  /// Constraints are met as always. If such a step fails, or something touches the island, the step is taken in
  /// substeps. It is for semi_implicit only. Multibodies do not have it.
  bool geometric_stiffness = false;
  /// Largest number of substeps of one step, as for a chain that becomes taut. Bullet solves an island that needs more.
  /// Multibodies that need more get the velocities that their constraints allow at the start of the step.
  int max_substeps = 1024;
  /// |φ| at the start of a step above which poses are corrected. Not set: 1e-9 in double, 1e-5 in single.
  std::optional<double> gap_tolerance{};
  /// Number of threads, the caller's included, that solve islands on which no row of Bullet acts. Results have the same
  /// bits for any number. Functions and laws of the program are called from the caller's thread only.
  int threads = 1;
  /// Ends each step on the constraints (T12). Without it the solver uses the bare acceleration, which drifts.
  bool drift_correction = true;
  /// Lets joints yield where exact ones cannot bear their load. A straight chain or bridge between two fixed points is
  /// such a case: no finite force holds what pulls across it. Where no step of an island keeps its rows, Bullet solves
  /// that step. From the next step on, the constraints whose rows lack something at its end have this compliance, and
  /// all others of the island stay exact. A constraint keeps it until Handle::equality(). A stiffness that is infinite
  /// is chosen: 100 times the mass of the lighter body over dt². summary() lists the constraints that yield, and by
  /// how much. Not set: Bullet solves such islands.
  std::optional<Compliance> automatic_compliance{};
  /// Largest energy that a mechanism may gain without a source, relative to the largest kinetic energy that its sources
  /// explain (T15). Sources are applied forces, laws, motors, Bullet's own rows, and bodies and constraints that move.
  /// From half of it on, the steps of the mechanism are divided. A larger gain is an EnergyGain: see
  /// Solver::energy_gains(). Infinite: energies are not compared.
  double max_energy_gain = 0.1;
  /// Largest |φ̇| or |ψ| that the velocities at the end of a step may leave in a row, relative to the speeds that its
  /// bodies could give to it (T15). Steps that end on the constraints leave none; without `drift_correction` they do. A
  /// larger residual is a VelocityResidual: see Solver::velocity_residuals(). Infinite: velocities are not compared.
  double max_velocity_residual = 0.1;
  /// Also runs the native solver on the same state in every step; see Solver::native_comparison().
  bool compare_native = false;
  /// Length of the arrows by which world.debugDrawWorld() draws the reactions on bodies that can move [m/N]. The
  /// program's own btIDebugDraw draws them in wireframe mode. Red crosses of the same size show open gaps. 0: none.
  double draw_force = 0;
  /// With compare_native, debugDrawWorld() also draws each body at the pose to which the native solver would have moved
  /// it in this step. The difference is enlarged by this factor. 0: none.
  double draw_native_difference = 0;
  /// The version of Bullet with which the program was compiled. The constructor of Solver compares it with that of
  /// linchpin. Leave it as it is.
  int bullet_version = BT_BULLET_VERSION;
};

/// One constraint of a Solver, by name. Its other calls, such as law(), unilateral() and reaction(), are those of
/// host::ConstraintHandle in linchpin/host.h. That class also states lifetime and threads. A handle owns nothing.
class LINCHPIN_BULLET_API Handle : public host::ChainedHandle<Handle> {
 public:
  Handle() = default;
  /// Sets whether the linked bodies collide, as they do at first. For the user's own constraints only.
  Handle& collisions_between_bodies(bool on);
  /// Returns the bodies in the order of reaction().on(k). Bullet's fixed body stands for the world. Valid until
  /// constraints change.
  std::span<btRigidBody* const> bodies() const;

 private:
  friend class Solver;
  explicit Handle(const char* what_is_missing) : ChainedHandle(what_is_missing) {}
  Handle(WorldBinding& binding, int entry);
  Handle(WorldBinding& binding, std::string_view name);
  WorldBinding* binding_ = nullptr;
};

/// The argument of a step callback. It is valid during the call.
struct LINCHPIN_BULLET_API Step {
  double t = 0;    ///< [s] at the end of the step
  double dt = 0;   ///< [s]
  Solver& solver;  ///< The solver that calls.
  /// Computes the reports of the step, and returns the reaction of a constraint by name.
  /// @throws std::invalid_argument  no constraint has the name
  const Reaction& operator[](std::string_view name);
};

/// The data of a Solver that influence later steps and are not in Bullet's world: see Solver::history(). Copies share
/// one immutable record, so they are cheap, and any thread may keep them.
class History {
 public:
  History() = default;

 private:
  friend class Solver;
  explicit History(std::shared_ptr<const host::SolverHistory> past) : past_(std::move(past)) {}
  std::shared_ptr<const host::SolverHistory> past_;
};

/// Replaces the equality part of a world's constraint solver from construction to destruction.
///
/// Ownership. The program owns the world, its bodies and its joints. The Solver keeps pointers to them, and owns the
/// constraints that constrain() and add() make, their laws and all reports. A body or a joint of Bullet may be deleted
/// without notice after it was removed from the world. The user's constraints on such a body are removed with it:
/// check() and summary() name them. A joint of Bullet must be removed before its body, as Bullet itself requires.
///
/// A world with an island manager of the program's own class does not have this. There, call release_body() before you
/// remove a body on which a constraint of the program acts.
///
/// Lifetime. The Solver may be destroyed before or after its world. References and spans of reports are valid until the
/// next step, and until constraints or laws change. Functions that are not const may compute reports or look for
/// changes of the world.
///
/// Threads. Use a Solver and its world from one thread at a time. Options::threads adds threads inside a step, which
/// call no function of the program.
///
/// Reentrancy. A step and check() call residuals and laws. These must not call the Solver, change the world or step
/// another solver of linchpin. A residual or law that throws leaves its island to Bullet in that step, and summary()
/// has the text. The callback of on_step() may do all this but step the world.
class LINCHPIN_BULLET_API Solver {
 public:
  /// Installs itself. The solver of the world must be exactly a btSequentialImpulseConstraintSolver or a
  /// btNNCGConstraintSolver, or in Mode::passive a btMLCPSolver. It still solves contacts, limits and motors. In a
  /// btMultiBodyDynamicsWorld it must be exactly a btMultiBodyConstraintSolver. The mode must then be Mode::exact
  /// without compare_native.
  /// @throws std::invalid_argument for another solver, a world with soft bodies, or a second linchpin.
  explicit Solver(btDiscreteDynamicsWorld& world, Options options = {});
  /// Makes a solver for a world that does not exist yet. Pass `constraint_solver()` to the world's constructor, and
  /// then call attach(world). As any solver of Bullet, it must exist as long as the world is stepped.
  explicit Solver(Options options = {});
  /// The same as the first constructor, without throwing. The pointer is not null if there is a value.
  static Result<std::unique_ptr<Solver>> try_install(btDiscreteDynamicsWorld& world, Options options = {}) noexcept {
    return try_call([&] { return std::make_unique<Solver>(world, options); });
  }
  /// Restores the native solver and removes the user's constraints from the world. Nothing else of the world changes.
  ///
  /// If the world is destroyed first, the solver is detached as by detach(). Handles are then not valid, energy() is
  /// NaN, and calls that need a world report that it has been destroyed. The island manager that the Solver installs in
  /// the world detects the destruction. A world with an island manager of the program's own class must outlive the
  /// solver.
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  btConstraintSolver* constraint_solver();  ///< The Solver owns it.
  /// @throws std::invalid_argument for a world built with another solver, of a kind the constructors refuse, or a
  /// btMultiBodyDynamicsWorld, which the first constructor takes.
  void attach(btDiscreteDynamicsWorld& world);
  Result<void> try_attach(btDiscreteDynamicsWorld& world) noexcept {
    return try_call([&] { attach(world); });
  }
  /// Does what the destructor does. The native solver then solves all constraints. After attach() it is a new solver
  /// that the world owns.
  void detach();
  /// Returns whether the Solver is installed in a world, which has not been destroyed.
  bool has_world() const;

  // ---- constraints of the program's own ----

  /// Adds a constraint on positions: residual(s) = 0, with the bodies s[0], s[1]… in this order and the time s.t (see
  /// linchpin::holonomic). Bullet's islands, sleeping and collision filters take it into account.
  ///
  ///     exact.constrain("rod", {a, b}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1; });
  ///
  /// A constraint may name links of multibodies: `{link(mb, 2), link(mb, 5)}`. Each multibody with such a constraint is
  /// one block of the mass matrix. The block is the joint-space mass matrix, which is built in every step. That costs
  /// O(n · depth) for n joint coordinates, and a dense factor of n × n.
  ///
  /// With laws, on links or on joints, all links are solved once more as bodies of their own, because a law reads the
  /// load of a joint. That costs O(n). Each link must then have a mass and an inertia. Links have no momentum balance.
  /// @throws std::invalid_argument if the name is in use, if a body is null or not in the world, or if no body can
  /// move.
  /// @throws std::invalid_argument if the multibody does not have the link, is integrated by RK4, keeps global
  /// velocities, or has a planar joint or kinematic or static links. @throws OrderError without a world.
  template <class Phi>
  Handle constrain(std::string name, std::vector<BodyRef> bodies, Phi phi) {
    auto ids = ids_of(name, bodies);
    return add(holonomic(std::move(name), std::move(ids), std::move(phi)));
  }
  /// Adds a constraint on velocities, linear or not (see linchpin::nonholonomic). @throws as constrain().
  template <class Psi>
  Handle constrain_velocity(std::string name, std::vector<BodyRef> bodies, Psi psi) {
    auto ids = ids_of(name, bodies);
    return add(nonholonomic(std::move(name), std::move(ids), std::move(psi)));
  }
  /// Adds a constraint on accelerations (see linchpin::on_acceleration). @throws as constrain().
  template <class Alpha>
  Handle constrain_acceleration(std::string name, std::vector<BodyRef> bodies, Alpha alpha) {
    auto ids = ids_of(name, bodies);
    return add(on_acceleration(std::move(name), std::move(ids), std::move(alpha)));
  }
  /// Adds a constraint, such as a joint of joints.h. Its bodies are those of id(). The Solver takes the constraint by
  /// value, so the program's copies do not influence it.
  /// @throws std::invalid_argument as constrain(), and for an id that this solver does not know.
  Handle add(Constraint constraint);
  /// Returns the id of a body in constraints, for `add`. @throws as constrain().
  BodyId id(BodyRef body);
  /// Gives a body the name that messages, summary() and checks use for it. The default names are body#0, body#1, …
  /// @throws std::invalid_argument as constrain(), for a name that is empty or in use, and for a body that cannot move
  void name_body(BodyRef body, std::string name) { core().system().set_name(id(body), std::move(name)); }
  /// Returns that name. @throws std::invalid_argument for an id that this solver does not know
  const std::string& body_name(BodyId body) { return core().system().name(body); }

  template <class Phi>
  Result<Handle> try_constrain(std::string name, std::vector<BodyRef> bodies, Phi phi) noexcept {
    return try_call([&] { return constrain(std::move(name), std::move(bodies), std::move(phi)); });
  }
  template <class Psi>
  Result<Handle> try_constrain_velocity(std::string name, std::vector<BodyRef> bodies, Psi psi) noexcept {
    return try_call([&] { return constrain_velocity(std::move(name), std::move(bodies), std::move(psi)); });
  }
  template <class Alpha>
  Result<Handle> try_constrain_acceleration(std::string name, std::vector<BodyRef> bodies, Alpha alpha) noexcept {
    return try_call([&] { return constrain_acceleration(std::move(name), std::move(bodies), std::move(alpha)); });
  }
  Result<Handle> try_add(Constraint constraint) noexcept {
    return try_call([&] { return add(std::move(constraint)); });
  }
  Result<BodyId> try_id(BodyRef body) noexcept {
    return try_call([&] { return id(body); });
  }

  // Joints of linchpin's own, from points [m] and axes of the world at the present poses of the bodies
  // (world_joints.h). Unlike Bullet's joints they may act on links and on linchpin::ground. @throws as constrain(), and
  // std::invalid_argument for an axis that is zero or not finite. Without exceptions:
  // `try_call([&] { return exact.hinge(…); })`.
  /// Adds a joint: the bodies keep one point together.
  Handle ball(std::string name, BodyRef a, BodyRef b, const btVector3& point) {
    return add(joints::ball(name, placed(name, a), placed(name, b), from_bullet(point)));
  }
  /// Adds a joint: the bodies turn about one axis through a point.
  Handle hinge(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::hinge(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  /// Adds a joint: b slides along an axis through a point of it, and does not turn.
  Handle slider(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::slider(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  /// Adds a joint: the bodies keep their relative pose. It acts at the point.
  Handle weld(std::string name, BodyRef a, BodyRef b, const btVector3& point) {
    return add(joints::weld(name, placed(name, a), placed(name, b), from_bullet(point)));
  }
  /// Adds a joint: the bodies keep one point together, and axis_a, fixed in a, stays perpendicular to axis_b, fixed in
  /// b.
  Handle universal(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis_a,
                   const btVector3& axis_b) {
    return add(joints::universal(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis_a),
                                 from_bullet(axis_b)));
  }
  /// Adds a joint: b slides along an axis through a point, and turns about it.
  Handle cylindrical(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::cylindrical(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  /// Adds a joint: a point of b stays in the plane of a with this normal, and b turns about the normal only.
  Handle planar(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& normal) {
    return add(joints::planar(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(normal)));
  }
  /// Adds a joint: the two points keep their present distance, which must not be zero.
  Handle rod(std::string name, BodyRef a, const btVector3& point_a, BodyRef b, const btVector3& point_b) {
    return add(joints::rod(name, placed(name, a), from_bullet(point_a), placed(name, b), from_bullet(point_b)));
  }

  // ---- joints of the world, by object or by name ----

  /// Returns the handle of a joint of the world, or of the joint between a link and its parent. The handle is empty for
  /// a joint that is not in the world. The joint of a link gets an entry in reactions() with the first call. Its name
  /// is that of btMultibodyLink::m_jointName, or "joint#2.3" by multibody and link. name_joint() defines its reaction.
  Handle handle(JointRef joint);
  /// Returns the reaction of a joint in the last step, with its parts, work and gap. Valid until the next step and
  /// until constraints change. @throws std::invalid_argument for a joint that is not in the world.
  const Reaction& reaction(JointRef joint) { return handle(joint).reaction(); }
  /// Returns whether linchpin holds the joint, or all its rows except limits, motors and springs. It is false if the
  /// native solver solved the island of the joint in the last step.
  bool is_exact(JointRef joint) { return handle(joint).is_exact(); }
  /// Returns the part of a joint that the native solver solves, and the reason: "limits", "all (it is a contact
  /// constraint)". Empty if there is none.
  std::string why_native(JointRef joint);

  /// Names a joint of the world and returns its handle. The default name of a joint is `hinge#3` by its kind and place
  /// in the world, or as in handle().
  ///
  /// Constraints of multibodies: point2point, fixed, slider and gear are held exactly unless the program bounds their
  /// impulse below Bullet's default of 100. The position of a gear is its target. Without a target it is the position
  /// at which the Solver found the gear.
  ///
  /// The joint of a link: with a name or a handle it can have laws, such as friction. The friction reads the load of
  /// the joint, frictionless or coupled (T9), and can stick (T10). The first body of the joint is the parent.
  /// reaction() contains the constraint force and the forces of its laws. It does not contain motors, limits and
  /// torques along the coordinates of the joint; joint_wrench() contains all. A multibody with such a law is one block
  /// of the mass matrix, as with constraints, and does not sleep.
  /// @throws std::invalid_argument for a joint that is not in the world, a name in use, the base of a multibody, and a
  /// multibody for which constrain() throws.
  Handle name_joint(JointRef joint, std::string name);
  Result<Handle> try_name_joint(JointRef joint, std::string name) noexcept {
    return try_call([&] { return name_joint(joint, std::move(name)); });
  }
  /// Returns the handle of a constraint by name. It is empty if there is none: `if (auto rod = exact.find("rod"))`.
  /// The reaction() of an empty handle throws std::invalid_argument with the name and the nearest known name.
  Handle find(std::string_view name);

  /// Returns the reading of a force/torque sensor in the joint of a link. It is the wrench on the link by its parent,
  /// through the joint, about the joint's pivot. It includes motor, limit and applied torque. It belongs to the last
  /// step, at the state where the step began, as a Reaction does. The multibody needs no exact constraint.
  ///
  /// Impulses of Bullet's rows (contacts, limits, motors) count as mean forces over the step. Torsional and spinning
  /// friction of contacts are left out, because they are not known for each link. The cost is O(n), and O(n³) for a
  /// multibody without exact constraints.
  /// @throws std::invalid_argument for a multibody that is not in the world or for which constrain() throws, and for a
  /// joint that it does not have. @throws OrderError before the first step.
  Wrench joint_wrench(Link link);
  /// Returns the torque or force along the joint of a link, by cause, for the last step. Impulses, costs and exceptions
  /// are as in joint_wrench(). For a multibody that sleeps, `native` is the torque that would hold it. A joint without
  /// coordinates has zeros.
  JointForces joint_forces(Link link);
  Result<Wrench> try_joint_wrench(Link link) noexcept {
    return try_call([&] { return joint_wrench(link); });
  }
  Result<JointForces> try_joint_forces(Link link) noexcept {
    return try_call([&] { return joint_forces(link); });
  }

  // ---- reports ----

  using Finding = host::Finding;  ///< A fault of a constraint.
  /// Checks derivatives, residuals and rank of all constraints at the present state. Empty if there is no fault. It
  /// calls the residuals.
  std::vector<Finding> check() { return core().check(); }

  /// Returns the reactions of the last step, with names, wrenches on every body, parts, power, work and gap. Joints
  /// come in the order of the world, then the user's constraints.
  std::span<const Reaction> reactions() {
    core().update_redundancy();
    return core().reactions();
  }
  /// Returns force, power and work of every term of every law, in the order of reactions().
  std::span<const LawWork> laws() { return core().laws(); }
  /// Returns the momentum balances of the last step, one for each movable body of the exact islands (T11). Then come
  /// the links of multibodies that can move and do not sleep, base first, each as a body with the id of `id(link(…))`.
  /// Links get their ids with the first call. Multibodies without exact constraints have balances, too. After the links
  /// come the rigid bodies that constraints join to them.
  std::span<const MomentumBalance> momentum_balances() {
    core().update_reports();
    return core().momentum_balances();
  }
  /// Returns one comparison for each reaction, with compare_native and in Mode::passive. Empty otherwise.
  std::span<const NativeComparison> native_comparison();
  /// Returns the counts since the start or the last reset().
  const Counts& counts() {
    core().update_reports();
    return core().counts();
  }
  /// Returns the first 16 different warnings of laws since the start or the last reset(). Valid until the next step.
  std::span<const LawWarning> law_warnings() const { return core().law_warnings(); }
  /// Returns the first 16 different failures of laws since the start or the last reset(). Valid until the next step. In
  /// such a step no law of the island acts. Counts::law_failures counts all.
  std::span<const LawWarning> law_failures() const { return core().law_failures(); }
  /// Energy that mechanisms have gained without a source: the first 100 events. Counts::energy_gains counts all.
  std::span<const EnergyGain> energy_gains() const { return core().energy_gains(); }
  /// Velocity residuals above their bound: the first 100 events. Counts::velocity_residuals counts all.
  std::span<const VelocityResidual> velocity_residuals() const { return core().velocity_residuals(); }
  /// Returns several lines of text: gap, energy, rank, redundancy by name, substeps, fallbacks, and the parts that the
  /// native solver solves, with reasons.
  std::string summary() { return core().summary(); }
  using Native = host::HostPart;  ///< The part of a constraint that the native solver solves, and the reason.
  /// Returns the parts of constraints that the native solver solves, with name and reason. Empty if there is none.
  std::vector<Native> native() const { return core().host_parts(); }
  /// Computes the ranks of all exact constraints at the last step. Indices are those of reactions().
  RankReport rank_report() { return core().rank_report(); }
  /// Returns the problem of the island of one constraint at the last step. `linchpin solve` replays it from a file. It
  /// is empty (n() == 0) for an unknown name and before the first step.
  ConstrainedProblem problem(std::string_view constraint) { return core().problem(constraint); }
  /// Computes the kinetic energy plus gravity potential of the world's dynamic bodies and multibodies, in double [J].
  /// It is NaN if the world has been destroyed or none is attached.
  double energy() const { return core().energy(); }

  /// Calls a function after each step, when Bullet has integrated, in the thread that steps the world. A second call
  /// replaces the function of the first one, and an empty function removes it. The function may itself call on_step(),
  /// read reports, change constraints, and destroy the solver. It must not step the world. The Solver owns the
  /// function.
  void on_step(std::function<void(Step)> callback);

  double t() const { return core().t(); }  ///< Time [s]. It advances with the steps of the world.
  /// Sets the time [s].
  void set_t(double t) { core().set_t(t); }
  /// Removes the exact constraints on a multibody. Call it before you delete the multibody.
  void release_body(btMultiBody& body);
  /// Removes the user's constraints on a body from the world, without a note in summary(). The body may stay.
  void release_body(btRigidBody& body);
  /// Clears the data of earlier steps, counts, work and warnings. Call it after teleports. In the next step, kinematic
  /// bodies have no velocity. Without this call their velocity is the displacement since the last step over dt, as in
  /// Bullet. Released unilateral constraints with `reengage` are active again. The time stays: see set_t().
  void reset() { core().reset(); }
  /// Copies the data of the solver for programs that go back and step again (rollback). The program restores the world
  /// itself, and then calls restore(). The steps that follow have the same bits as the steps after history().
  ///
  /// A history contains the time, the counts, the warnings of laws, and the length of the last step. For every island
  /// it contains the method of the last step, the length of the next substep, the start values of Newton, and the
  /// solution of friction. For every constraint it contains the work, whether it is enabled, released or left to
  /// Bullet, and the internal states of the constraint and its laws. It also contains the last poses of kinematic
  /// bodies.
  ///
  /// A history does not contain the data of Bullet. These are poses, interpolated poses, velocities, forces and
  /// activation of bodies, and positions and velocities of multibodies. They are also contacts with their impulses, the
  /// random seed of the native solver, and the settings of joints and of its own constraints.
  ///
  /// reset() in place of restore() also gives the same bits every time, without a history. Reactions and balances stay
  /// those of the last step until the next step.
  History history() { return History(core().history()); }
  /// Continues from a history of this solver. @throws std::invalid_argument for a history of another solver, and if
  /// constraints have been added or removed since. @throws OrderError without a world.
  void restore(const History& history);
  Result<void> try_restore(const History& history) noexcept {
    return try_call([&] { restore(history); });
  }
  /// Returns the options, with the tolerances that suit the precision of Bullet where none were set.
  const Options& options() const;
  /// Changes the options between two steps. Islands are made again, without their warm starts.
  /// @throws std::invalid_argument for a value with which no step is possible, and for another mode, number of threads
  /// or `compare_native`.
  void set_options(const Options& options);
  Result<void> try_set_options(const Options& options) noexcept {
    return try_call([&] { set_options(options); });
  }

 private:
  friend class Handle;
  friend struct Step;
  host::ConstraintSolver& core();
  const host::ConstraintSolver& core() const;
  std::vector<BodyId> ids_of(const std::string& name, const std::vector<BodyRef>& bodies);
  BodyId id_of(const BodyRef& body, const std::string& who, const std::string& which);
  joints::PlacedBody placed(const std::string& name, const BodyRef& body) {
    return core().placed(ids_of(name, {body})[0]);
  }
  std::unique_ptr<WorldBinding> binding_;
};

/// The rows of a stock joint of Bullet that linchpin can hold, in its present configuration.
struct JointMapping {
  std::string kind;  ///< point2point, hinge, slider, 6dof-spring2, …
  JointRows rows;    ///< in the bodies' own axes; none where all is native, and for gears, which have rows of their own
  Vector3d application_A = Vector3d::Zero(), application_B = Vector3d::Zero();  ///< where its wrench is reported [m]
  std::string native;  ///< limits, motors and other parts that stay with Bullet, and why; empty if there are none
};
/// Returns the mapping of a joint, also without a Solver. It changes nothing.
LINCHPIN_BULLET_API JointMapping mapping_of(btTypedConstraint& joint);

}  // namespace LINCHPIN_BULLET_NAMESPACE
