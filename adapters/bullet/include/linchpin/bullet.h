// linchpin in Bullet Physics 3.24, single or double precision. One line makes an existing program exact:
//
//     linchpin::bullet::Solver exact(world);
//
// Equality constraints (the world's own joints and the user's) are then solved by the explicit Udwadia–Kalaba equation
// and end every step satisfied; contacts, limits, motors and springs stay with Bullet's solver and are coupled to them.
// The destructor puts the native solver back. Compiles with -fno-exceptions: use the `try_` calls there.
//
// Bullet's vectors and bodies go in; what comes out (Reaction, Wrench) is in double, SI, world axes. Points and axes of
// a residual are in the body's own axes from its centre of mass, which is Bullet's body frame.
#pragma once

#include <linchpin/articulated.h>
#include <linchpin/comparison.h>
#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/host.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <btBulletDynamicsCommon.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Two builds of Bullet share most symbol names: the precision is part of ours, so that a mix fails to link.
#ifdef BT_USE_DOUBLE_PRECISION
#define LINCHPIN_BULLET_PRECISION f64
#else
#define LINCHPIN_BULLET_PRECISION f32
#endif
/// The namespace of the adapter. Its last part is the precision of Bullet, and is inline.
#define LINCHPIN_BULLET_NAMESPACE linchpin::bullet::inline LINCHPIN_BULLET_PRECISION

class btMultiBody;
class btMultiBodyConstraint;

namespace LINCHPIN_BULLET_NAMESPACE {

class Solver;
class WorldBinding;  // src/world_binding.h

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
/// What a constraint in a btMultiBodyDynamicsWorld may name: a rigid body or a link.
class BodyRef {
 public:
  BodyRef(btRigidBody& body) : rigid_(&body) {}
  BodyRef(Link link) : link_(link) {}

 private:
  friend class Solver;
  btRigidBody* rigid_ = nullptr;
  Link link_;
};

/// Few, public, reported by summary().
struct Options {
  Mode mode = Mode::exact;
  double rank_tolerance = 0;    ///< T6; 0: 1e-6 in double, 1e-5 in single (whose frames are off by 1e-7)
  double newton_tolerance = 0;  ///< end-of-step |φ| [m or the row's unit]; 0: 1e-15 in double, 1e-10 in single
  int max_newton = 30;
  Stepping stepping = Stepping::semi_implicit;
  /// Error tolerance of adaptive. A substep is accepted when rms(error / (1 + size)) of the island is no larger. The
  /// norm is over positions [m], rotations [rad], velocities [m/s] and rates [rad/s]. The size of a rotation is 1. 0:
  /// 1e-9 in double, 1e-6 in single.
  double tolerance = 0;
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
  int max_substeps = 1024;   ///< of one step, as for a chain that becomes taut; beyond it Bullet solves the island
  double gap_tolerance = 0;  ///< start-of-step |φ| above which poses are corrected; 0: 1e-9 in double, 1e-5 in single
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
};

/// One constraint of a Solver, by name. Its other calls, such as law(), unilateral() and reaction(), are those of any
/// host: see linchpin/host.h.
class Handle : public host::ChainedHandle<Handle> {
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
struct Step {
  double t = 0;   ///< [s] at the end of the step
  double dt = 0;  ///< [s]
  const Solver& solver;
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
class Solver {
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
  /// The same as the first constructor without throwing: null, and the reason in `why`.
  [[nodiscard]] static std::unique_ptr<Solver> try_install(btDiscreteDynamicsWorld& world, std::string& why,
                                                           Options options = {}) noexcept;
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
  /// What the destructor does, now: the native solver (after attach(): a new one of the world's own) solves from here
  /// on.
  void detach();

  /// A constraint of the user's own on one, two or more bodies: residual(s) = 0 with s[0], s[1]… the bodies in this
  /// order, s.t the time (see linchpin::holonomic). Known to Bullet's islands, sleeping and collision filters.
  /// @throws std::invalid_argument for a name in use, a body not in the world, or bodies none of which can move.
  template <class Phi>
  Handle constrain(std::string name, btRigidBody& a, Phi phi) {
    return constrain(std::move(name), std::vector<btRigidBody*>{&a}, std::move(phi));
  }
  template <class Phi>
  Handle constrain(std::string name, btRigidBody& a, btRigidBody& b, Phi phi) {
    return constrain(std::move(name), std::vector<btRigidBody*>{&a, &b}, std::move(phi));
  }
  template <class Phi>
  Handle constrain(std::string name, std::vector<btRigidBody*> bodies, Phi phi) {
    auto ids = ids_of(name, bodies);
    return add(holonomic(std::move(name), std::move(ids), std::move(phi)), std::move(bodies));
  }
  /// On velocities, linear or not (see linchpin::nonholonomic).
  template <class Psi>
  Handle constrain_velocity(std::string name, btRigidBody& a, Psi psi) {
    return constrain_velocity(std::move(name), std::vector<btRigidBody*>{&a}, std::move(psi));
  }
  template <class Psi>
  Handle constrain_velocity(std::string name, btRigidBody& a, btRigidBody& b, Psi psi) {
    return constrain_velocity(std::move(name), std::vector<btRigidBody*>{&a, &b}, std::move(psi));
  }
  template <class Psi>
  Handle constrain_velocity(std::string name, std::vector<btRigidBody*> bodies, Psi psi) {
    auto ids = ids_of(name, bodies);
    return add(nonholonomic(std::move(name), std::move(ids), std::move(psi)), std::move(bodies));
  }
  /// On accelerations (see linchpin::on_acceleration).
  template <class Alpha>
  Handle constrain_acceleration(std::string name, std::vector<btRigidBody*> bodies, Alpha alpha) {
    auto ids = ids_of(name, bodies);
    return add(on_acceleration(std::move(name), std::move(ids), std::move(alpha)), std::move(bodies));
  }
  // Constraints that name links of multibodies: `constrain("loop", link(mb, 2), link(mb, 5), phi)`. Each multibody with
  // such a constraint is one block of the mass matrix, its joint-space mass matrix, which is built in every step: O(n ·
  // depth) for n joint coordinates, and a dense factor of n × n. With laws, on them or on joints (name_joint), all
  // links are solved once more as bodies of their own, O(n), since a law reads a joint's load; each must then have a
  // mass and an inertia. They have no momentum balance yet.
  /// @throws std::invalid_argument as the others do, and for a multibody not in the world, a link it does not have, and
  /// a multibody that is integrated by RK4, keeps global velocities, has a planar joint or kinematic or static links.
  template <class Phi>
  Handle constrain(std::string name, std::vector<BodyRef> parts, Phi phi) {
    auto ids = ids_of(name, parts);
    return add(holonomic(std::move(name), std::move(ids), std::move(phi)));
  }
  template <class Phi>
  Handle constrain(std::string name, Link a, Phi phi) {
    return constrain(std::move(name), std::vector<BodyRef>{a}, std::move(phi));
  }
  template <class Phi>
  Handle constrain(std::string name, Link a, Link b, Phi phi) {
    return constrain(std::move(name), std::vector<BodyRef>{a, b}, std::move(phi));
  }
  template <class Phi>
  Handle constrain(std::string name, Link a, btRigidBody& b, Phi phi) {
    return constrain(std::move(name), std::vector<BodyRef>{a, b}, std::move(phi));
  }
  template <class Phi>
  Handle constrain(std::string name, btRigidBody& a, Link b, Phi phi) {
    return constrain(std::move(name), std::vector<BodyRef>{a, b}, std::move(phi));
  }
  template <class Psi>
  Handle constrain_velocity(std::string name, std::vector<BodyRef> parts, Psi psi) {
    auto ids = ids_of(name, parts);
    return add(nonholonomic(std::move(name), std::move(ids), std::move(psi)));
  }
  template <class Alpha>
  Handle constrain_acceleration(std::string name, std::vector<BodyRef> parts, Alpha alpha) {
    auto ids = ids_of(name, parts);
    return add(on_acceleration(std::move(name), std::move(ids), std::move(alpha)));
  }
  /// The core's id of a link, for linchpin's own joints. @throws std::invalid_argument as constrain() does for links.
  BodyId id(Link link);
  /// Names one of the world's multibody constraints: point2point, fixed, slider and gear are held exactly unless the
  /// program bounds their impulse below Bullet's default of 100. A gear's position is its target, or where it was when
  /// linchpin first saw it. @throws std::invalid_argument for one not in the world or a name in use.
  Handle name_joint(btMultiBodyConstraint& constraint, std::string name);
  /// Names the joint by which a link hangs on its parent, so that it can have laws: friction that reads the joint's
  /// true load, ideal or actual (T9), and sticks (T10). Its first body is the parent. Its reaction() is what holds the
  /// joint and what its laws prescribe, without motors, limits and torques along its coordinates; joint_wrench() has
  /// all. A multibody with such a law is one mass block as those with constraints are, and does not sleep.
  /// @throws std::invalid_argument as id(Link) does, for the base, a name in use and a joint that has a name.
  Handle name_joint(Link joint, std::string name);
  /// What a force/torque sensor in the joint of a link shows: the wrench on the link, by its parent, through the joint,
  /// about the joint's pivot; its motor, limit and applied torque included. Of the last step, at the state the step
  /// began from, like Reaction; any multibody of the world, with exact constraints or without. Native impulses
  /// (contacts, limits, motors) are taken as mean forces over the step; torsional and spinning friction of contacts are
  /// not known link by link and left out.
  /// @throws std::invalid_argument for a multibody that is not in the world or that constrain() refuses, a joint it
  /// does not have, and before the first step. Cost: O(n), O(n³) for multibodies without exact constraints.
  Wrench joint_wrench(Link link) const;
  /// The torque (or force) along the joint of a link, split by cause; of the last step, as joint_wrench(), with native
  /// impulses as mean forces over the step. `native` of a multibody asleep is what would hold it.
  /// @throws std::invalid_argument and costs as joint_wrench(). A joint without coordinates has zeros.
  JointForces joint_forces(Link link) const;

  /// A constraint built with linchpin's own joints (joints.h) on bodies of this world: pass id(body) for its bodies.
  Handle add(Constraint constraint);
  /// The core's id of a body of this world (registers it). @throws std::invalid_argument if it is not in the world.
  BodyId id(btRigidBody& body);
  /// `constrain` and its kin without throwing: an invalid handle, and the reason in `why`.
  template <class Phi>
  [[nodiscard]] Handle try_constrain(std::string& why, std::string name, std::vector<btRigidBody*> bodies,
                                     Phi phi) noexcept {
    return try_add(why, name, bodies,
                   [&](std::vector<BodyId> ids) { return holonomic(name, std::move(ids), std::move(phi)); });
  }
  template <class Psi>
  [[nodiscard]] Handle try_constrain_velocity(std::string& why, std::string name, std::vector<btRigidBody*> bodies,
                                              Psi psi) noexcept {
    return try_add(why, name, bodies,
                   [&](std::vector<BodyId> ids) { return nonholonomic(name, std::move(ids), std::move(psi)); });
  }

  /// Names one of the world's joints and returns its handle. Joints not named so are called `hinge#3` by kind and place
  /// in the world. @throws std::invalid_argument for a joint not in the world or a name in use.
  Handle name_joint(btTypedConstraint& joint, std::string name);
  [[nodiscard]] Handle try_name_joint(std::string& why, btTypedConstraint& joint, std::string name) noexcept;
  /// By name; empty where there is none.
  Handle find(std::string_view name);

  /// Derivative self-test, start residuals, rank of everything at the present state; empty findings when all is well.
  using Finding = host::Finding;
  std::vector<Finding> check() { return core().check(); }

  /// Of the last step, in world order, then the user's. Names, wrenches on every body, parts, power, work, gap.
  std::span<const Reaction> reactions() const {
    core().update_redundancy();
    return core().reactions();
  }
  /// What every term of every law does and has done, in the order of reactions().
  std::span<const LawWork> laws() const { return core().laws(); }
  /// Momentum balances of the last step, one for each movable body of the exact islands (T11).
  std::span<const MomentumBalance> momentum_balances() const {
    core().update_reports();
    return core().momentum_balances();
  }
  /// With compare_native and in Mode::passive: one for each reaction. Empty otherwise.
  std::span<const NativeComparison> native_comparison() const;
  const Counts& counts() const {
    core().update_reports();
    return core().counts();
  }
  /// Of all steps since the start or the last reset(), each once, whatever its numbers; the first 16. Valid until the
  /// next step.
  std::span<const LawWarning> law_warnings() const { return core().law_warnings(); }
  /// Gap, energy, rank, redundancy by name, substeps, fallbacks, what stayed native and why. Several lines of text.
  std::string summary() const { return core().summary(); }
  /// What stayed with the native solver and why, by constraint name; empty when nothing did.
  using Native = host::HostPart;
  std::vector<Native> native() const { return core().host_parts(); }
  RankReport rank_report() const {
    return core().rank_report();
  }  ///< of all exact constraints at the last step; indices as reactions()
  /// Problem of the island of one constraint at the last step, to save and replay with `linchpin solve`. Empty (n() ==
  /// 0) for a name that is not there and before the first step.
  ConstrainedProblem problem(std::string_view constraint) const { return core().problem(constraint); }
  /// Kinetic energy plus gravity potential of the world's dynamic bodies and multibodies, in double [J]. NaN
  /// where there is no world: it has been destroyed, or none is attached.
  double energy() const { return core().energy(); }

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
  History history() const { return History(core().history()); }
  /// @throws std::invalid_argument for another solver's history, and where constraints have come or gone since.
  void restore(const History& history) { host::demand(try_restore(history)); }
  [[nodiscard]] std::string try_restore(const History& history) noexcept;  ///< empty when it went well
  const Options& options() const;

 private:
  friend class Handle;
  friend struct Step;
  host::ConstraintSolver& core() const;
  std::vector<BodyId> ids_of(const std::string& name, const std::vector<btRigidBody*>& bodies);
  std::vector<BodyId> ids_of(const std::string& name, const std::vector<BodyRef>& parts);
  Handle add(Constraint constraint, std::vector<btRigidBody*> bodies);
  Handle try_add(std::string& why, const std::string& name, const std::vector<btRigidBody*>& bodies,
                 const std::function<Constraint(std::vector<BodyId>)>& make) noexcept;
  std::unique_ptr<WorldBinding> binding_;
};

/// What linchpin holds of a stock joint as it is configured now, whoever solves it; nothing is installed or changed.
struct JointMapping {
  std::string kind;  ///< point2point, hinge, slider, 6dof-spring2, …
  JointRows rows;    ///< in the bodies' own axes; none where all is native, and for gears, which have rows of their own
  Vector3d application_A = Vector3d::Zero(), application_B = Vector3d::Zero();  ///< where its wrench is reported [m]
  std::string native;  ///< limits, motors and whatever else stays with Bullet, and why; empty when nothing does
};
JointMapping mapping_of(btTypedConstraint& joint);

inline btVector3 to_bullet(const Vector3d& u) { return {btScalar(u.x()), btScalar(u.y()), btScalar(u.z())}; }
inline Vector3d from_bullet(const btVector3& u) { return {double(u.x()), double(u.y()), double(u.z())}; }

}  // namespace LINCHPIN_BULLET_NAMESPACE
