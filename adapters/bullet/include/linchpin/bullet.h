// linchpin in Bullet Physics 3.24, single or double precision. One line makes an existing program exact:
//
//     linchpin::bullet::Solver exact(world);
//
// Equality constraints (the world's own joints and the user's) are then solved by the explicit Udwadia–Kalaba equation
// and end every step satisfied; contacts, limits, motors and springs stay with Bullet's solver and are coupled to them.
// The destructor puts the native solver back. Every call that throws has a form that returns a Result instead: a twin
// with the prefix `try_`, or linchpin::try_call (linchpin/error.h). Programs that are compiled with -fno-exceptions use
// these.
//
// Bullet's vectors and bodies go in; what comes out (Reaction, Wrench) is in double, SI, world axes. Points and axes of
// a residual are in the body's own axes from its centre of mass, which is Bullet's body frame.
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
    "linchpin was tested with Bullet 3.24 only (BT_BULLET_VERSION 324). Define LINCHPIN_UNTESTED_BULLET to try another"
#endif

// Two builds of Bullet share most symbol names: the precision is part of ours, so that a mix fails to link.
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

inline btVector3 to_bullet(const Vector3d& u) { return {btScalar(u.x()), btScalar(u.y()), btScalar(u.z())}; }
inline Vector3d from_bullet(const btVector3& u) { return {double(u.x()), double(u.y()), double(u.z())}; }

using host::Counts;  ///< since the start or the last reset()
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
/// (CCD) and motion states see the way from pose to pose. The velocity at the end of the step is set right after,
/// before any action of the program runs. Smooth laws act in the stages. Substeps are so short that no law damps by
/// more than a factor of e in one.
///
/// A step of an island is taken by semi_implicit instead in the following cases. Counts::order_reductions counts these
/// steps, and summary() names them.
/// - Rows of Bullet (contacts, limits, motors, springs) give the island an impulse or a push. Bullet has solved them
/// for
///   X₁ = X₀ ⊕ dt·v₁, so another motion would not meet them.
/// - The island has laws of dry friction, or laws with an internal state.
/// - The step did not succeed in substeps as short as max_substeps makes them.
///
/// Links of multibodies are always stepped semi-implicitly. adaptive takes six factorisations a substep and one a step,
/// rk4 four a substep.
using host::Stepping;

/// A link of a multibody, as a constraint sees it: a body whose points and axes are in the link's own axes from its
/// centre of mass, as btMultiBody has them. Index −1 is the base.
struct Link {
  btMultiBody* body = nullptr;
  int index = -1;
};
inline Link link(btMultiBody& body, int index) { return {&body, index}; }
/// What moves one joint of a multibody, by cause.
using articulated::JointForces;
/// A body that a constraint names: a rigid body, a link of a multibody, or a body of linchpin's own such as
/// linchpin::ground. It is a reference: the body must be in the world while the constraint is.
class BodyRef {
 public:
  BodyRef(btRigidBody& body) : rigid_(&body) {}
  BodyRef(btRigidBody* body) : rigid_(body), kind_(Kind::rigid) {}
  BodyRef(Link link) : link_(link), kind_(Kind::link) {}
  BodyRef(BodyId id) : id_(id), kind_(Kind::id) {}

 private:
  friend class Solver;
  enum class Kind : unsigned char { rigid, link, id };
  btRigidBody* rigid_ = nullptr;
  Link link_;
  BodyId id_;
  Kind kind_ = Kind::rigid;
};

/// A joint of the world: a constraint of Bullet, a constraint of multibodies, or the joint by which a link hangs on its
/// parent. It is a reference: the joint must exist while a call uses it.
class JointRef {
 public:
  JointRef(btTypedConstraint& joint) : typed_(&joint) {}
  JointRef(btMultiBodyConstraint& constraint) : multibody_(&constraint) {}
  JointRef(Link link) : link_(link) {}

 private:
  friend class Solver;
  btTypedConstraint* typed_ = nullptr;
  btMultiBodyConstraint* multibody_ = nullptr;
  Link link_;
};

/// Settings of a Solver. `mode`, `threads` and `compare_native` are chosen when it is made. The others can be changed
/// between two steps: see Solver::set_options(). A tolerance that is not set suits the precision of Bullet.
struct Options {
  Mode mode = Mode::exact;
  /// T6. Not set: 1e-6 in double, 1e-5 in single, in which frames are off by 1e-7.
  std::optional<double> rank_tolerance{};
  /// |φ| at the end of a step [m or the row's unit]. Not set: 1e-15 in double, 1e-10 in single.
  std::optional<double> newton_tolerance{};
  int max_newton = 30;
  Stepping stepping = Stepping::semi_implicit;
  /// Error tolerance of adaptive. A substep is accepted when rms(error / (1 + size)) of the island is no larger. The
  /// norm is over positions [m], rotations [rad], velocities [m/s] and rates [rad/s]. The size of a rotation is 1. Not
  /// set: 1e-9 in double, 1e-6 in single.
  std::optional<double> tolerance{};
  /// Limit of the tension frequency ω times dt (T15). A step above it is repeated in substeps. The limit of rk4, which
  /// is stable up to 2√2, is 2.4 times as large. adaptive does not use it, because it estimates its error.
  double max_tension_frequency = 1.0;
  /// Implicit geometric stiffness (T15) in place of substeps where ω·dt is above the limit. ½ dt² K⁺ is added to the
  /// moments of inertia of the bodies that turn too fast, and the torque that belongs to it is applied. Use it in
  /// programs in which every step must cost the same: one solve where a taut chain needs a dozen. It damps these
  /// motions and is not the equation (T1). Counts::stiffened_steps, Counts::stiffness_work and
  /// MomentumBalance::constraints report it. Constraints are met as always. If such a step fails, or something touches
  /// the island, the step is taken in substeps. For semi_implicit only; multibodies have none.
  bool geometric_stiffness = false;
  int max_substeps = 1024;  ///< of one step, as for a chain that becomes taut; beyond it Bullet solves the island
  /// |φ| at the start of a step above which poses are corrected. Not set: 1e-9 in double, 1e-5 in single.
  std::optional<double> gap_tolerance{};
  /// Number of threads, the caller's included, that solve islands without native rows. Results have the same bits for
  /// any number. Functions and laws of the program are called from the caller's thread only.
  int threads = 1;
  bool drift_correction = true;  ///< end-of-step satisfaction (T12); off: the bare acceleration, which drifts
  bool compare_native = false;   ///< also run the native solver on the same state every step; see native_comparison()
  /// world.debugDrawWorld() draws the reactions on bodies that can move as arrows of this length [m/N], through the
  /// program's own btIDebugDraw (wireframe mode), and open gaps as red crosses whose arms are as long; 0: none.
  double draw_force = 0;
  /// With compare_native: also draws each body where the native solver would have taken it in this step, with the
  /// difference enlarged by this factor. 0: none.
  double draw_native_difference = 0;
  /// The version of Bullet with which the program was compiled. The constructor of Solver compares it with that of
  /// linchpin. Leave it as it is.
  int bullet_version = BT_BULLET_VERSION;
};

/// One constraint of a Solver, by name. Its other calls, such as law(), unilateral() and reaction(), are those of any
/// host: see linchpin/host.h.
class LINCHPIN_BULLET_API Handle : public host::ChainedHandle<Handle> {
 public:
  Handle() = default;
  /// Whether Bullet lets the linked bodies collide (it does to begin with). The user's own constraints only.
  Handle& collisions_between_bodies(bool on);
  /// In the order of reaction().on(k); Bullet's fixed body stands for the world. Valid until constraints change.
  std::span<btRigidBody* const> bodies() const;

 private:
  friend class Solver;
  Handle(WorldBinding& binding, int entry);
  WorldBinding* binding_ = nullptr;
};

/// What a step callback sees, after Bullet has integrated.
struct LINCHPIN_BULLET_API Step {
  double t = 0;   ///< [s] at the end of the step
  double dt = 0;  ///< [s]
  Solver& solver;
  /// By name; an empty reaction named "" where there is none.
  const Reaction& operator[](std::string_view name) const;
};

/// What a Solver carries from one step to the next, beside what is in Bullet's world: see Solver::history().
class History {
 public:
  History() = default;

 private:
  friend class Solver;
  explicit History(std::shared_ptr<const host::SolverHistory> past) : past_(std::move(past)) {}
  std::shared_ptr<const host::SolverHistory> past_;
};

/// Replaces the equality part of a world's constraint solver for as long as it lives.
class LINCHPIN_BULLET_API Solver {
 public:
  /// Installs itself: the solver found must be a btSequentialImpulseConstraintSolver or a btNNCGConstraintSolver
  /// exactly (in Mode::passive also a btMLCPSolver); it keeps solving contacts, limits and motors. In a
  /// btMultiBodyDynamicsWorld it must be a btMultiBodyConstraintSolver exactly, and the mode must be Mode::exact
  /// without compare_native.
  /// @throws std::invalid_argument for another solver, a world with soft bodies, or a second linchpin.
  explicit Solver(btDiscreteDynamicsWorld& world, Options options = {});
  /// Construction-time injection: give `constraint_solver()` to the world's constructor, then attach(world). Like any
  /// Bullet solver it has to be there for as long as the world is stepped.
  explicit Solver(Options options = {});
  /// The same as the first constructor, without throwing. The pointer is not null if there is a value.
  static Result<std::unique_ptr<Solver>> try_install(btDiscreteDynamicsWorld& world, Options options = {}) noexcept {
    return try_call([&] { return std::make_unique<Solver>(world, options); });
  }
  /// Puts the native solver back and takes the user's constraints out of the world; nothing else of the world is
  /// touched. When a world is destroyed first, its solver leaves it as by detach(). Handles are then not valid, and
  /// calls that need a world say that it has been destroyed; energy() is NaN. The world's island manager, which is
  /// linchpin's meanwhile, tells the solver. A world with an island manager of the program's own class must outlive the
  /// solver.
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  btConstraintSolver* constraint_solver();
  /// @throws std::invalid_argument for a world built with another solver, of a kind the constructors refuse, or a
  /// btMultiBodyDynamicsWorld, which the first constructor takes.
  void attach(btDiscreteDynamicsWorld& world);
  Result<void> try_attach(btDiscreteDynamicsWorld& world) noexcept {
    return try_call([&] { attach(world); });
  }
  /// What the destructor does, now: the native solver (after attach(): a new one of the world's own) solves from here
  /// on.
  void detach();

  // ---- constraints of the program's own ----

  /// A constraint on positions: residual(s) = 0 with s[0], s[1]… the bodies in this order, s.t the time (see
  /// linchpin::holonomic). Bullet's islands, sleeping and collision filters know it.
  ///
  ///     exact.constrain("rod", {a, b}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1; });
  ///
  /// A constraint may name links of multibodies: `{link(mb, 2), link(mb, 5)}`. Each multibody with such a constraint is
  /// one block of the mass matrix, its joint-space mass matrix, which is built in every step: O(n · depth) for n joint
  /// coordinates, and a dense factor of n × n. With laws, on them or on joints, all links are solved once more as
  /// bodies of their own, O(n), since a law reads a joint's load. Each link must then have a mass and an inertia. Links
  /// have no momentum balance yet.
  /// @throws std::invalid_argument for a name in use, a body that is null or not in the world, bodies none of which can
  /// move, a link that the multibody does not have, and a multibody that is integrated by RK4, keeps global velocities,
  /// has a planar joint or kinematic or static links. @throws OrderError without a world.
  template <class Phi>
  Handle constrain(std::string name, std::vector<BodyRef> bodies, Phi phi) {
    auto ids = ids_of(name, bodies);
    return add(holonomic(std::move(name), std::move(ids), std::move(phi)));
  }
  /// On velocities, linear or not (see linchpin::nonholonomic). @throws as constrain().
  template <class Psi>
  Handle constrain_velocity(std::string name, std::vector<BodyRef> bodies, Psi psi) {
    auto ids = ids_of(name, bodies);
    return add(nonholonomic(std::move(name), std::move(ids), std::move(psi)));
  }
  /// On accelerations (see linchpin::on_acceleration). @throws as constrain().
  template <class Alpha>
  Handle constrain_acceleration(std::string name, std::vector<BodyRef> bodies, Alpha alpha) {
    auto ids = ids_of(name, bodies);
    return add(on_acceleration(std::move(name), std::move(ids), std::move(alpha)));
  }
  /// A constraint that is made already, as one of linchpin's own joints (joints.h): pass id(body) for its bodies.
  /// @throws std::invalid_argument as constrain(), and for an id that this solver does not know.
  Handle add(Constraint constraint);
  /// The core's id of a body, for `add`. @throws as constrain().
  BodyId id(BodyRef body);

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

  // Joints of linchpin's own, from points [m] and axes of the world as the bodies are now (world_joints.h). Unlike
  // Bullet's joints they may act on links and on linchpin::ground. @throws as constrain(), and std::invalid_argument
  // for an axis that is zero or not finite.
  Handle ball(std::string name, BodyRef a, BodyRef b, const btVector3& point) {
    return add(joints::ball(name, placed(name, a), placed(name, b), from_bullet(point)));
  }
  Handle hinge(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::hinge(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  Handle slider(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::slider(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  Handle weld(std::string name, BodyRef a, BodyRef b, const btVector3& point) {
    return add(joints::weld(name, placed(name, a), placed(name, b), from_bullet(point)));
  }
  Handle universal(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis_a,
                   const btVector3& axis_b) {
    return add(joints::universal(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis_a),
                                 from_bullet(axis_b)));
  }
  Handle cylindrical(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& axis) {
    return add(joints::cylindrical(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(axis)));
  }
  Handle planar(std::string name, BodyRef a, BodyRef b, const btVector3& point, const btVector3& normal) {
    return add(joints::planar(name, placed(name, a), placed(name, b), from_bullet(point), from_bullet(normal)));
  }
  Handle rod(std::string name, BodyRef a, const btVector3& point_a, BodyRef b, const btVector3& point_b) {
    return add(joints::rod(name, placed(name, a), from_bullet(point_a), placed(name, b), from_bullet(point_b)));
  }

  // ---- joints of the world, by object or by name ----

  /// The handle of a joint of the world, or of the joint by which a link hangs on its parent. Empty for a joint that is
  /// not in the world. The joint of a link gets an entry in reactions() with the first call. Its name is that of
  /// btMultibodyLink::m_jointName, or "joint#2.3" by multibody and link. See name_joint() for what its reaction is.
  Handle handle(JointRef joint);
  /// What holds a joint: the reaction of the last step, with its parts, work and gap. An empty one named "" for a joint
  /// that is not in the world. Valid until constraints change.
  const Reaction& reaction(JointRef joint) { return handle(joint).reaction(); }
  /// Whether linchpin holds the joint, or the rows of it that are no limit, motor or spring; false also where the last
  /// step of its island was left to the native solver.
  bool is_exact(JointRef joint) { return handle(joint).is_exact(); }
  /// What of a joint the native solver solves, and why: "limits", "all (it is a contact constraint)". Empty where that
  /// is nothing.
  std::string why_native(JointRef joint);

  /// Names a joint of the world and returns its handle. A joint that has no name is called `hinge#3` by its kind and
  /// place in the world, or as handle() says.
  ///
  /// Constraints of multibodies: point2point, fixed, slider and gear are held exactly unless the program bounds their
  /// impulse below Bullet's default of 100. A gear's position is its target, or where it was when linchpin first saw
  /// it.
  ///
  /// The joint of a link: with a name or a handle it can have laws, such as friction that reads the joint's true load,
  /// frictionless or coupled (T9), and sticks (T10). Its first body is the parent. Its reaction() is what holds the
  /// joint and what its laws prescribe, without motors, limits and torques along its coordinates; joint_wrench() has
  /// all. A multibody with such a law is one mass block as those with constraints are, and does not sleep.
  /// @throws std::invalid_argument for a joint not in the world, a name in use, the base of a multibody, and a
  /// multibody that constrain() refuses.
  Handle name_joint(JointRef joint, std::string name);
  Result<Handle> try_name_joint(JointRef joint, std::string name) noexcept {
    return try_call([&] { return name_joint(joint, std::move(name)); });
  }
  /// By name; empty where there is none.
  Handle find(std::string_view name);

  /// What a force/torque sensor in the joint of a link shows: the wrench on the link, by its parent, through the joint,
  /// about the joint's pivot; its motor, limit and applied torque included. Of the last step, at the state the step
  /// began from, like Reaction; any multibody of the world, with exact constraints or without. Native impulses
  /// (contacts, limits, motors) are taken as mean forces over the step; torsional and spinning friction of contacts are
  /// not known link by link and left out.
  /// @throws std::invalid_argument for a multibody that is not in the world or that constrain() refuses, and a joint it
  /// does not have. @throws OrderError before the first step. Cost: O(n), O(n³) for multibodies without exact
  /// constraints.
  Wrench joint_wrench(Link link);
  /// The torque (or force) along the joint of a link, split by cause; of the last step, as joint_wrench(), with native
  /// impulses as mean forces over the step. `native` of a multibody asleep is what would hold it.
  /// @throws and costs as joint_wrench(). A joint without coordinates has zeros.
  JointForces joint_forces(Link link);
  Result<Wrench> try_joint_wrench(Link link) noexcept {
    return try_call([&] { return joint_wrench(link); });
  }
  Result<JointForces> try_joint_forces(Link link) noexcept {
    return try_call([&] { return joint_forces(link); });
  }

  // ---- reports ----

  /// Derivative self-test, start residuals, rank of everything at the present state; empty findings when all is well.
  using Finding = host::Finding;
  std::vector<Finding> check() { return core().check(); }

  /// Of the last step, in world order, then the user's. Names, wrenches on every body, parts, power, work, gap.
  std::span<const Reaction> reactions() {
    core().update_redundancy();
    return core().reactions();
  }
  /// What every term of every law does and has done, in the order of reactions().
  std::span<const LawWork> laws() { return core().laws(); }
  /// Momentum balances of the last step, one for each movable body of the exact islands (T11).
  std::span<const MomentumBalance> momentum_balances() {
    core().update_reports();
    return core().momentum_balances();
  }
  /// With compare_native and in Mode::passive: one for each reaction. Empty otherwise.
  std::span<const NativeComparison> native_comparison() const;
  const Counts& counts() {
    core().update_reports();
    return core().counts();
  }
  /// Of all steps since the start or the last reset(), each once, whatever its numbers; the first 16. Valid until the
  /// next step.
  std::span<const LawWarning> law_warnings() const { return core().law_warnings(); }
  /// Gap, energy, rank, redundancy by name, substeps, fallbacks, what stayed native and why. Several lines of text.
  std::string summary() { return core().summary(); }
  /// What stayed with the native solver and why, by constraint name; empty when nothing did.
  using Native = host::HostPart;
  std::vector<Native> native() { return core().host_parts(); }
  RankReport rank_report() {
    return core().rank_report();
  }  ///< of all exact constraints at the last step; indices as reactions()
  /// Problem of the island of one constraint at the last step, to save and replay with `linchpin solve`. Empty (n() ==
  /// 0) for a name that is not there and before the first step.
  ConstrainedProblem problem(std::string_view constraint) { return core().problem(constraint); }
  /// Kinetic energy plus gravity potential of the world's dynamic bodies and multibodies, in double [J]. NaN
  /// where there is no world: it has been destroyed, or none is attached.
  double energy() const { return core().energy(); }

  /// Calls a function after each step, when Bullet has integrated. A second call replaces the function of the first
  /// one, and an empty function removes it. The function may itself call on_step(), change constraints, and destroy the
  /// solver.
  void on_step(std::function<void(const Step&)> callback);

  double t() const { return core().t(); }  ///< [s]; advances with the host's steps
  void set_t(double t) { core().set_t(t); }
  /// Call before deleting a multibody: takes the constraints on it out of the world's exact ones.
  void release_body(btMultiBody& body);
  /// Call before deleting a body: takes the user's constraints on it out of the world.
  void release_body(btRigidBody& body);
  /// After teleports: forgets what was remembered from step to step, clears counts, work and warnings. The next step
  /// takes kinematic bodies to stand where they are; without it they have got there by moving, as Bullet has it.
  /// Released unilateral constraints with `reengage` act again. The time stays: see set_t().
  void reset() { core().reset(); }
  /// For programs that go back and step again (rollback). The program puts the world back as it was, and then calls
  /// restore(). The steps that follow have the same bits as the steps after history().
  /// A history holds:
  /// - the time, the counts, the warnings of laws, and the length of the last step;
  /// - of every island, how its last step was taken, how long the next substep may be, what Newton began
  ///   from, and where friction was found;
  /// - of every constraint, its work, whether it is enabled, is released or left to Bullet, and the angles and bristles
  ///   that it and its laws remember;
  /// - of bodies that the program moves, where they came from.
  /// The program itself keeps what is Bullet's, as it does without linchpin: poses, interpolated poses, velocities,
  /// forces and activation of bodies; positions and velocities of multibodies; contacts with their impulses; the native
  /// solver's random seed; settings of joints, and whether they are enabled.
  /// reset() in place of restore() has the same bits every time, too, but without a history.
  /// Reactions and balances stay those of the last step until the next one. Cost: a copy of what is listed.
  History history() { return History(core().history()); }
  /// @throws std::invalid_argument for another solver's history, and where constraints have come or gone since.
  void restore(const History& history);
  Result<void> try_restore(const History& history) noexcept {
    return try_call([&] { restore(history); });
  }
  /// With the tolerances that were chosen for the precision of Bullet.
  const Options& options() const;
  /// Changes the options between two steps. Islands are made again, without their warm starts.
  /// @throws std::invalid_argument for a value that no step can be made with, and for another mode, number of threads
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

/// What linchpin holds of a stock joint as it is configured now, whoever solves it; nothing is installed or changed.
struct JointMapping {
  std::string kind;  ///< point2point, hinge, slider, 6dof-spring2, …
  JointRows rows;    ///< in the bodies' own axes; none where all is native, and for gears, which have rows of their own
  Vector3d application_A = Vector3d::Zero(), application_B = Vector3d::Zero();  ///< where its wrench is reported [m]
  std::string native;  ///< limits, motors and whatever else stays with Bullet, and why; empty when nothing does
};
LINCHPIN_BULLET_API JointMapping mapping_of(btTypedConstraint& joint);

}  // namespace LINCHPIN_BULLET_NAMESPACE
