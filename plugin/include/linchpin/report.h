// Reports of forces: wrenches on bodies and their parts, power, work, residuals, and the balances of momentum and
// energy. The structs of this header are plain values. The functions change no system. Those of energy call the
// functions of kinetic energies and potentials, so one thread at a time may call them for one system.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/export.h>
#include <linchpin/system.h>
#include <linchpin/wrench.h>

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// Reaction of one constraint at one time (design: two forces, T11). The wrenches of the base are the instantaneous
/// reaction: ideal + induced + prescribed.
struct Reaction : Wrenches {
  std::string name;  ///< Name of the constraint.
  /// Time [s] of the state to which the forces belong, laws included. In a host it is the state before the step, and
  /// without a host the current state.
  double t = 0;
  Wrenches ideal;       ///< A_iᵀλ, which does no virtual work (T9).
  Wrenches prescribed;  ///< Forces that the laws returned, such as friction (T9).
  Wrenches induced;     ///< Normal forces that all prescribed forces induce: −A_iᵀ(G⁺A M⁻¹Σc)_i (T9).
  /// Mean over the last step of all that was applied beyond the reaction, to end the step on the constraint.
  Wrenches stabilisation;
  /// Multiplier of the ideal part per row, least norm [N or N·m or as the row's unit implies].
  std::vector<double> lambda;
  double power = 0;              ///< Power of the reaction at t, on those of its bodies that the equations move [W].
  double work = 0;               ///< Work since the start, the last step included: impulse · ½(v₀ + v₁) [J].
  double gap = 0;                ///< Largest |φ| of rows in metres [m].
  double gap_angle = 0;          ///< Largest |φ| of rows in radians [rad].
  double residual = 0;           ///< Largest |φ| of rows in the user's own unit.
  double velocity_residual = 0;  ///< Largest |φ̇| or |ψ| at t.
  /// T6: false where redundancy leaves this reaction undetermined (λ is the least-norm choice).
  bool determined = true;
  bool redundant = false;  ///< Some rows follow from those of other constraints (T6).
  bool native = false;     ///< In the last step the host solved the constraint, and there is no exact reaction.
};

/// Energy that an island has gained without a source, because the step is too long for its motion (T15). An island is a
/// set of bodies that constraints and forces join.
struct EnergyGain {
  double t = 0;         ///< Time at the end of the step [s].
  double gain = 0;      ///< Energy gained since the last such event, or since the island had least [J].
  double relative = 0;  ///< The gain relative to the largest kinetic energy that the sources explain.
  BodyId body;          ///< First body of the island.
  int bodies = 0;       ///< Number of its bodies.
  /// Some of its constraints contradict each other: no motion satisfies all of them. Their forces then do work.
  bool contradictory = false;
};

/// Velocities at the end of a step that do not meet the row of a constraint (T15). Methods that end a step on the
/// constraints leave none. It belongs to steps without correction of drift, and to rows that no motion meets.
struct VelocityResidual {
  double t = 0;            ///< Time at the end of the step [s].
  double residual = 0;     ///< |φ̇| or |ψ| [m/s, rad/s or as the row's unit implies].
  double relative = 0;     ///< The same relative to the speeds that the bodies of the constraint could give to the row.
  std::string constraint;  ///< Its name.
};

/// Returns what an EnergyGain says, with the name of the body, the values, and what to do.
/// @param body  its name @param count  of all gains, of which this is the first
LINCHPIN_API std::string energy_gain_text(const std::string& body, const EnergyGain& gain, long count = 1);
/// The same with the name that the system has for the body.
LINCHPIN_API std::string energy_gain_text(const System& system, const EnergyGain& gain, long count = 1);
/// Returns what a VelocityResidual says, with the name of the constraint, the values, and what to do.
/// @param count  of all residuals, of which this is the first
LINCHPIN_API std::string velocity_residual_text(const VelocityResidual& residual, long count = 1);

/// Momentum balance of one body over one step, in impulses [N·s, N·m·s]: momentum = applied + host + constraints +
/// (imbalance). Each term is recorded separately, none by subtraction (T11).
struct LINCHPIN_API MomentumBalance {
  BodyId body;                         ///< The body. A link of an articulated body counts as one.
  Vector6 momentum = Vector6::Zero();  ///< M (v₁ − v₀).
  Vector6 applied = Vector6::Zero();   ///< dt·Q as the step applied it.
  /// Contacts, limits, motors and springs of the host.
  Vector6 host = Vector6::Zero();
  /// All constraints: the sum of the impulses of their `Reaction`s, and the torque of geometric stiffness (T15). On a
  /// link also the joints of its articulated body.
  Vector6 constraints = Vector6::Zero();
  /// M·(velocity as written to the host − v₁).
  Vector6 rounding = Vector6::Zero();
  /// Largest single impulse summed in `constraints`. The round-off of the sum is measured by it.
  double gross_force = 0, gross_moment = 0;
  /// Size of M v₀. The imbalance ignores 16 roundings of it. For a link: summed without cancellation over the links
  /// outward of its joint, whose motion goes through the joint.
  double linear_motion = 0, angular_motion = 0;
  /// |momentum − applied − host − constraints| relative to the largest term or single impulse. Forces and moments are
  /// compared separately. The scale of moments is at least that of the forces on an arm of 1 mm. The scale of forces is
  /// at least that of the moments over 1 km.
  double imbalance() const;
};

/// Energy balance: changes of the kinetic energy since the start [J], as works of impulses ½(v₀ + v₁)·p (T11). kinetic
/// = applied + laws + constraints + (imbalance). Each term is recorded separately. Without a host there is no fifth
/// term.
struct EnergyBalance {
  double kinetic = 0;  ///< Σ ½(v₀ + v₁)·M(v₁ − v₀).
  double applied = 0;  ///< Work of Q: gravity, springs and all impressed forces, those with a potential included.
  double laws = 0;     ///< Work of the prescribed forces of laws, on bodies that the equations move.
  /// Work of all other constraint forces: of rheonomic constraints and of the end-of-step corrections.
  double constraints = 0;
  /// The part of the change that no term explains [J].
  double imbalance() const { return kinetic - applied - laws - constraints; }
};

/// One term of one law: its effort at the end of the last step, and sums since the start. Work is on its two bodies
/// together, kinematic and fixed ones included. It is ≤ 0 for dissipative laws without a belt.
struct LINCHPIN_API LawWork {
  /// How the term acts.
  enum class Mode {
    smooth,  ///< Not dry friction.
    sticks,  ///< Dry friction without slip.
    slides   ///< Dry friction with slip.
  };
  ConstraintId on;               ///< The constraint.
  int law = 0, term = 0;         ///< Position in laws_on(system, on)[law].terms()[term].
  double work = 0;               ///< Work since the start [J].
  double last = 0;               ///< Work in the last step [J].
  std::string constraint, name;  ///< Names of the constraint and of the term.

  // At the last evaluation of the last step: as the law acted in the step, or at its end where the law is implicit
  // (T10). Reaction::prescribed is that of the state before it.
  Wrench force;              ///< Force and moment on the first body. Its opposite acts on the second.
  double power = 0;          ///< Power at the state before the step [W].
  Mode mode = Mode::smooth;  ///< How the term acts.
  double bound = 0;          ///< Bound of dry friction at rest [N or N·m].
  /// The normal force that the law received. It is also `frictionless` where the law selects the coupled one and
  /// none was found.
  NormalForce normal_force = NormalForce::frictionless;
  Wrench normal;      ///< That normal force, as a wrench on the first body.
  int solutions = 0;  ///< Number of solutions for the coupled normal force. 0 if no law reads it, or none was found.
  Branch branch = Branch::continuous;  ///< The branch that was taken where there are several.
  bool fell_back = false;              ///< The law asked for the coupled normal force and there was none.
  Wrench difference;                   ///< As LawForce::difference.

  double largest_difference = 0;         ///< Largest such force difference since the start [N].
  double largest_moment_difference = 0;  ///< Largest such moment difference since the start [N·m].
  double normal_force_there = 0;         ///< Normal force where the force differed most, or otherwise its moment.

  /// Number of mode changes. Dry: each start of sticking or sliding. Smooth: each reversal of the force from step to
  /// step.
  long switches = 0;
  double time = 0;   ///< Time over which they are counted [s].
  long counted = 0;  ///< LawForce::switches counted up to now.
  /// Mean number of switches in a second.
  double switches_per_second() const { return time > 0 ? static_cast<double>(switches) / time : 0; }

  void end_step(double dt);  ///< Adds the values of the last step to the sums and maxima.
};

/// Texts on the differences between the coupled and the frictionless normal force of laws since the start, and on which
/// of them the laws read. One line for each law with more than rounding, the largest first. Beyond `most` lines, the
/// last line gives the number of the others.
LINCHPIN_API std::vector<std::string> normal_force_differences(std::span<const LawWork> laws, std::size_t most = 4);

/// Adds the work of `e` to `to`, its member `last` included. The effort acted for dt between the velocities v0 and v1
/// [n] of the block. It is of the last evaluation of `dynamics` at `state`. @return the part of the work on bodies that
/// the equations move.
LINCHPIN_API double add_law_work(const System& system, const Dynamics& dynamics, const State& state, const LawForce& e,
                                 double dt, std::span<const double> v0, std::span<const double> v1, LawWork& to);

/// Kinetic energy [J]: ½ vᵀM v of bodies, T of coordinates.
LINCHPIN_API double kinetic_energy(const System& system, const State& state);
/// Potential energy of gravity and of all forces that declare a potential [J].
LINCHPIN_API double potential_energy(const System& system, const State& state);
/// Returns true if every force of the system has a potential, no law is active and no kinetic energy depends on time.
/// Only then does energy have a meaning.
LINCHPIN_API bool conservative(const System& system);
/// Kinetic and potential energy together [J].
LINCHPIN_API double energy(const System& system, const State& state);
/// Jacobi's integral Σ q̇ ∂L/∂q̇ − L [J]. It is the energy, except for a kinetic energy of coordinates. There terms of
/// first degree in the rates do not count, and terms of degree zero count negatively. It is constant where T and V do
/// not change with time.
LINCHPIN_API double energy_integral(const System& system, const State& state);
/// Momentum [kg·m/s] (W).
LINCHPIN_API Vector3d linear_momentum(const System& system, const State& state);
/// Angular momentum about a world point [kg·m²/s] (W).
LINCHPIN_API Vector3d angular_momentum(const System& system, const State& state,
                                       const Vector3d& about = Vector3d::Zero());
/// E − ω·L for a frame that rotates uniformly with `omega` [rad/s] about a line through the origin. It is constant
/// where forces and constraints do not change in that frame (T-WIRE, T-HOOP).
LINCHPIN_API double energy_in_rotating_frame(const System& system, const State& state, const Vector3d& omega);

/// Writes "hinge  F = (…) N at (…) m …", one line per reaction.
LINCHPIN_API std::ostream& operator<<(std::ostream& out, const Reaction& r);

}  // namespace linchpin
