// linchpin in MuJoCo. One line makes the equality constraints of a model exact, and one call steps it:
//
//     linchpin::mujoco::Solver exact(*model, *data);
//     exact.step();                                   // in place of mj_step(model, data)
//
// The equalities connect, weld, joint and tendon of the model are then held by the explicit Udwadia–Kalaba equation,
// and so are constraints of the program's own. They end every step satisfied. Contacts, limits, friction losses,
// actuators and the integrator stay MuJoCo's. MuJoCo finds their forces on the mechanism as its constraints let it
// move.
//
// Every call that throws has a form that returns a Result instead: see linchpin::try_call (linchpin/error.h).
//
// All quantities are in SI units and world axes. Points and axes of a residual are in the axes of linchpin, from the
// centre of mass of the body: MuJoCo's inertial frame. Solver::point() and Solver::axis() convert from MuJoCo's frame
// of a body.
//
// Threads. Use a Solver, its handles, its model and its data from one thread at a time. Solvers of different data are
// independent, and may share a model that none of them changes.
#pragma once

#include <linchpin/articulated.h>
#include <linchpin/constraint.h>
#include <linchpin/error.h>
#include <linchpin/export.h>
#include <linchpin/host.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/version.h>

#include <mujoco/mujoco.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Marks the public names of the adapter: see linchpin/export.h.
#if defined(LINCHPIN_MUJOCO_BUILD)
#define LINCHPIN_MUJOCO_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_MUJOCO_SHARED)
#define LINCHPIN_MUJOCO_API LINCHPIN_IMPORT
#else
#define LINCHPIN_MUJOCO_API LINCHPIN_STATIC
#endif

namespace linchpin::mujoco {

class ModelBinding;  // src/model_binding.h

using articulated::JointForces;
using host::Counts;

/// Settings of a Solver. They can be changed between two steps: see Solver::set_options().
struct Options {
  double rank_tolerance = 1e-6;        ///< T6
  double newton_tolerance = 1e-15;     ///< |φ| at the end of a step [m or the row's unit] (T12)
  double gap_tolerance = 1e-9;         ///< |φ| at the start of a step above which positions are corrected [m or rad]
  int max_newton = 30;                 ///< Largest number of solves of the Newton that ends a step.
  double max_tension_frequency = 1;    ///< ω·dt above which a step is taken in substeps (T15)
  int max_substeps = 1024;             ///< Largest number of substeps of one step.
  bool drift_correction = true;        ///< Ends each step on the constraints (T12).
  double max_energy_gain = 0.1;        ///< As host::SolverOptions::max_energy_gain.
  double max_velocity_residual = 0.1;  ///< As host::SolverOptions::max_velocity_residual.
  bool equalities = true;              ///< Takes the equalities of the model. False: they stay with MuJoCo.
  int mujoco_version = mjVERSION_HEADER;  ///< The version with which the program was compiled. Leave it as it is.
};

/// A body of a constraint: a body of the model by its name or its number, or linchpin::ground. It is a reference that
/// is cheap to copy, and it owns nothing.
class BodyRef {
 public:
  BodyRef(const char* name) : name_(name) {}             ///< By name.
  BodyRef(std::string name) : name_(std::move(name)) {}  ///< By name.
  BodyRef(int body) : body_(body) {}                     ///< By number in the model.
  BodyRef(BodyId id) : id_(id), is_id_(true) {}          ///< A body of linchpin, such as linchpin::ground.

 private:
  friend class ModelBinding;
  std::string name_;
  int body_ = -1;
  BodyId id_;
  bool is_id_ = false;
};

/// One constraint of a Solver, by name. Its other calls, such as law() and reaction(), are those of
/// host::ConstraintHandle in linchpin/host.h, which also states lifetime and threads. A handle owns nothing.
class LINCHPIN_MUJOCO_API Handle : public host::ChainedHandle<Handle> {
 public:
  Handle() = default;

 private:
  friend class Solver;
  using ChainedHandle::ChainedHandle;
};

/// The data of a Solver that influence later steps and are not in mjData: see Solver::history(). Copies share one
/// immutable record, so they are cheap, and any thread may keep them.
class History {
 public:
  History() = default;

 private:
  friend class Solver;
  explicit History(std::shared_ptr<const host::SolverHistory> past) : past_(std::move(past)) {}
  std::shared_ptr<const host::SolverHistory> past_;
};

/// Holds the equalities of a model, and constraints of the program's own, exactly.
///
/// Ownership. The program owns model and data. The Solver keeps references to them, and they must outlive it. It owns
/// the constraints that constrain() and add() make, their laws and all reports. It changes nothing outside of step().
///
/// The program may change numbers of the model between two steps, such as masses, damping and the data of equalities.
/// It must not change the inertial frames of bodies (body_ipos, body_iquat): constraints are given in them. step()
/// throws OrderError then.
///
/// Reentrancy. step() and check() call residuals and laws. These must not call the Solver or step the data. A residual
/// that throws leaves the constraints to MuJoCo in that step. Where a law throws, no law acts in that step. summary()
/// has the text.
class LINCHPIN_MUJOCO_API Solver {
 public:
  /// @param model, data  kept by reference
  /// @throws std::invalid_argument  for an integrator other than Euler, implicit and implicitfast, for a model with
  /// sleeping bodies, where the program, this library and the loaded MuJoCo are of different versions, and for options
  /// that have no meaning
  Solver(mjModel& model, mjData& data, Options options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  /// Steps the data, as mj_step(). Without an active exact constraint it is mj_step(), bit for bit. No reaction acts
  /// then.
  ///
  /// Afterwards qacc is the acceleration of the step, qvel and qpos are on the constraints, and qfrc_constraint has all
  /// constraint forces. efc_force has the forces of exact equalities: mean values of the step. The rows of the
  /// program's own constraints are in no array of MuJoCo; the sensors of the model contain their forces.
  ///
  /// The cost is linear in the number of links on trees, and cubic in the rows of the constraints between them.
  /// @throws OrderError  where the program has changed the model to one that is not supported
  void step();

  // ---- constraints of the program's own ----

  /// Adds a constraint on positions: residual(s) = 0, with the bodies s[0], s[1]… in this order and the time s.t (see
  /// linchpin::holonomic).
  ///
  ///     exact.constrain("rod", {"a", "b"}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1; });
  /// @throws std::invalid_argument  if the name is in use, if a body is unknown, or if no body can move
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
  /// Adds a constraint, such as a joint of joints.h. Its bodies are those of id(). @throws as constrain().
  Handle add(Constraint constraint);
  /// Returns the id of a body in constraints. A body that cannot move is linchpin::ground.
  /// @throws std::invalid_argument for a body that the model does not have.
  BodyId id(BodyRef body);
  /// Returns a point of MuJoCo's frame of a body [m], as constraints have it: from the centre of mass, in linchpin's
  /// axes. For a body that cannot move it is the point of the world. @throws as id().
  Vector3d point(const BodyRef& body, const Vector3d& in_body) const;
  /// Returns a direction of MuJoCo's frame of a body in linchpin's axes. @throws as id().
  Vector3d axis(const BodyRef& body, const Vector3d& in_body) const;
  /// A point that a site marks.
  struct Site {
    BodyId body;        ///< The body of the site.
    Vector3d position;  ///< In the axes of the body, from its centre of mass [m].
    Matrix3d rotation;  ///< From the axes of the site to those of the body.
  };
  /// Returns a site of the model by its name. @throws std::invalid_argument for a site that the model does not have.
  Site site(std::string_view name);

  // ---- constraints and joints of the model ----

  /// Returns the handle of a constraint by name: an equality of the model, or one of the program's own. The equality
  /// without a name is "equality#2" by its number. The handle is empty if there is none.
  Handle find(std::string_view name);
  /// Returns the handle of a hinge, slide or ball joint of the model, to put laws on it. Its reaction() is the force
  /// that the joint transmits, without actuators, limits, springs and damping along its axis.
  /// @throws std::invalid_argument for a joint that the model does not have.
  Handle joint(std::string_view name);
  /// Returns the wrench on the body of a joint by its parent, through the joint, about the anchor of the joint, at the
  /// state where the last step began. It includes actuators, springs, damping and limits. Tendons, actuators on sites,
  /// contacts and the compensation of gravity act on it where they act on bodies. Drag of the fluid, adhesion and
  /// slider-cranks count along the joints only.
  /// @throws std::invalid_argument as joint(). @throws OrderError before the first step, and where no exact constraint
  /// was active in the last one
  Wrench joint_wrench(std::string_view joint);
  /// Returns the forces along the coordinates of a joint in the last step, by cause. @throws as joint_wrench().
  JointForces joint_forces(std::string_view joint);

  // ---- reports ----

  using Finding = host::Finding;  ///< A fault of a constraint.
  using Native = host::HostPart;  ///< A part that MuJoCo solves, and the reason.
  /// Checks derivatives and residuals of all constraints at the present state. Empty if there is no fault. Reports of
  /// the last step stay as they are. rank_report() has the constraints that are not independent.
  std::vector<Finding> check() { return core().check(); }
  /// Returns the reactions of the last step, in the order of the model's equalities, then the others.
  std::span<const Reaction> reactions() {
    core().update_redundancy();
    return core().reactions();
  }
  /// Returns force, power and work of every term of every law, in the order of reactions().
  std::span<const LawWork> laws() { return core().laws(); }
  /// Returns the momentum balances of the bodies in the last step (T11). A body with several joints has one for each
  /// joint; all but that of id() belong to the parts without mass between its joints.
  std::span<const MomentumBalance> momentum_balances() {
    core().update_reports();
    return core().momentum_balances();
  }
  /// Returns the counts since the start or the last reset().
  const Counts& counts() {
    core().update_reports();
    return core().counts();
  }
  /// Returns the first 16 different warnings of laws since the start or the last reset().
  std::span<const host::LawWarning> law_warnings() const { return core().law_warnings(); }
  /// Returns the first 16 different failures of laws since the start or the last reset(). In the steps of a failure, no
  /// law acts on the constraints that are joined to its own. Counts::law_failures counts all.
  std::span<const host::LawWarning> law_failures() const { return core().law_failures(); }
  /// Energy that mechanisms have gained without a source: the first 100 events.
  std::span<const EnergyGain> energy_gains() const { return core().energy_gains(); }
  /// Velocity residuals above their bound: the first 100 events.
  std::span<const VelocityResidual> velocity_residuals() const { return core().velocity_residuals(); }
  /// Returns several lines of text: gap, energy, rank, redundancy by name, substeps, and what stays with MuJoCo.
  std::string summary() { return core().summary(); }
  /// Returns the equalities that stay with MuJoCo, with the reason.
  std::vector<Native> native() const { return core().host_parts(); }
  /// Computes the ranks of all exact constraints at the last step. Indices are those of reactions().
  RankReport rank_report() { return core().rank_report(); }
  /// Returns the problem of one constraint at the last step. It is empty (n() == 0) for an unknown name.
  ConstrainedProblem problem(std::string_view constraint) { return core().problem(constraint); }
  /// Computes the kinetic energy of all bodies and rotors, plus the potential of gravity [J].
  double energy() const { return core().energy(); }
  double t() const { return core().t(); }  ///< Time at the end of the last step [s].
  /// Clears the data of earlier steps, counts and work. Call it after mj_resetData() and other jumps of the state.
  void reset();
  /// Copies the data of the solver for programs that go back and step again (rollback). The program restores mjData
  /// itself, by mj_copyData(), or by mj_setState() with mjSTATE_INTEGRATION, which has the warm start. Then it calls
  /// restore(). The steps that follow have the same bits as the steps after history().
  ///
  /// A history contains the time, counts, warnings of laws, the start values of Newton and of friction, the work of
  /// constraints, whether each is enabled or released, and the internal states of constraints and laws. Reports stay
  /// those of the last step until the next one.
  History history() { return History(core().history()); }
  /// Continues from a history of this solver. @throws std::invalid_argument for a history of another solver, for an
  /// empty one, and if constraints have been added or removed since.
  void restore(const History& history);
  Result<void> try_restore(const History& history) noexcept {
    return try_call([&] { restore(history); });
  }
  /// Returns the options.
  const Options& options() const;
  /// Changes the options between two steps. @throws std::invalid_argument as the constructor
  void set_options(const Options& options);

 private:
  host::ConstraintSolver& core();
  const host::ConstraintSolver& core() const;
  std::vector<BodyId> ids_of(const std::string& name, const std::vector<BodyRef>& bodies);
  std::unique_ptr<ModelBinding> binding_;
};

}  // namespace linchpin::mujoco
