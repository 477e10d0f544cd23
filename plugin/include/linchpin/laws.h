// Force laws of constraints that do work. Defines the input of a law (`ConstraintReaction`), its result (`ForceMoment`)
// and a catalogue of laws. Defines the properties that a solver needs: which normal force a law reads, whether it only
// dissipates, and its bound at rest. Hides how a set-valued law is written down. The laws are solved in dynamics (T9,
// T10).
//
// The structs of this header are plain values, except where a comment says otherwise. Any thread may call the functions
// of the catalogue. Functions with a System serve one thread at a time for one system.
#pragma once

#include <linchpin/export.h>
#include <linchpin/system.h>

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin {

/// Input of a law: the reaction of its constraint and the relative motion. World axes. *Free* directions are those in
/// which the constraint can apply no force (for `slip`) or no moment about `point` (for `spin`): along a rail, about a
/// hinge's axis. A plain value, but `first` and `second` are valid during the call of the law only.
struct LINCHPIN_API ConstraintReaction {
  double t = 0;                       ///< Time [s].
  Vector3d point = Vector3d::Zero();  ///< Point where the constraint acts on the first body [m].
  /// Normal force: force of the constraint on the first body [N], coupled or frictionless, as `NormalForce` selects
  /// (T9).
  Vector3d normal = Vector3d::Zero();
  Vector3d moment = Vector3d::Zero();         ///< Moment of the constraint on the first body about `point` [N·m].
  Vector3d slip_velocity = Vector3d::Zero();  ///< Slip velocity: free part of `relative` [m/s].
  /// Spin velocity: free part of the angular velocity of the first body relative to the second [rad/s].
  Vector3d spin_velocity = Vector3d::Zero();
  Vector3d axis = Vector3d::Zero();  ///< Unit axis of the free rotation if there is exactly one, otherwise zero.
  Vector3d relative_velocity =
      Vector3d::Zero();                        ///< Velocity of the first body relative to the second at `point` [m/s].
  Vector3d internal_state = Vector3d::Zero();  ///< Internal state of the law, for laws that have one.
  const BodyState* first = nullptr;            ///< The two bodies. `second` is null for a constraint on one body.
  const BodyState* second = nullptr;           ///< Second body. Null for a constraint on one body.
  /// The value of `internal_state` a time `internal_state_span` ago, for laws at the end of a step.
  Vector3d internal_state_before = Vector3d::Zero();
  double internal_state_span = 0;  ///< Time since `internal_state_before` [s]. 0: the law is evaluated at an instant.

  /// ‖normal‖ [N]: the normal force of one contact as a vector norm. Moments are never mixed into it.
  double magnitude() const { return normal.norm(); }
  /// Unit vector along the slip, zero without slip. With `speed` > 0 [m/s] it is slip / √(slip² + speed²), which is
  /// smooth through zero. This regularisation slides slowly where real friction sticks.
  Vector3d slip_direction(double speed = 0) const;
};

/// Result of a law: acts on the first body at `ConstraintReaction::point`, and its opposite acts on the second.
struct ForceMoment {
  Vector3d force = Vector3d::Zero();   ///< Force [N] (W).
  Vector3d moment = Vector3d::Zero();  ///< Moment [N·m] (W).
};

/// The normal force that a law reads (T9). Both are the same for a single particle. They differ where the friction
/// itself changes the normal force.
enum class NormalForce {
  /// The normal force while all laws act (the default). It is implicit, and there may be none or several (Painlevé).
  coupled,
  /// The normal force of Q^N, which is that of the constraint without laws. It is explicit and always exists. The
  /// explicit law of the papers reads it.
  frictionless
};
/// Selects one solution where there are several for the coupled normal force.
enum class Branch {
  /// Nearest to that of the last evaluation, or at the first evaluation nearest to the frictionless normal force. The
  /// default.
  continuous,
  smallest,  ///< Smallest magnitude.
  largest    ///< Largest magnitude.
};
/// The relative motion that dry friction opposes.
enum class FrictionKind {
  slip,  ///< Sliding: a force [N] along the free directions.
  spin,  ///< Rotation: a moment [N·m] about the free axes.
  roll,  ///< Rotation about free axes perpendicular to the normal force only: rolling resistance.
  both   ///< Sliding and rotation of one surface of radius `arm`. Force and moment / arm share one bound.
};
/// The axes in which a vector is given.
enum class Axes {
  of_world,  ///< World axes.
  of_first,  ///< Axes of the first body of the constraint.
  of_second  ///< Axes of the second body.
};
/// One of the two bodies of a law.
enum class Side {
  first,  ///< The first body.
  second  ///< The second body.
};

/// A law for the nonideal force of a constraint. It is a value. Either it is made from a lambda
///
///     Law law = [](const ConstraintReaction& n) { return Vector3d(-0.2 * n.magnitude() * n.slip_direction(1e-3)); };
///
/// that returns a force [N] or a ForceMoment, or it is taken from the catalogue below. Laws add with +. One evaluation
/// calls a lambda several times, with trial slips and normal forces, so it must not count or remember. A lambda that
/// throws, or returns a value that is not finite or beyond all bounds, gives Status::invalid with the names of law and
/// constraint.
///
/// A copy of a Law copies its functions as C++ copies them: what they capture by reference or by pointer is the same
/// object for all copies and must outlive them. Laws of the catalogue share nothing. The internal state of a law is not
/// in the Law but in the solver. A solver calls the functions from its thread. They must not change the system or call
/// a solver: solvers of one thread share work memory.
///
/// A lambda that jumps where its slip changes sign causes a warning with its name. Steps of a host and
/// Method::semi_implicit hold it at the jump. rk4 and adaptive follow it from one side to the other, so use `coulomb`
/// instead.
class LINCHPIN_API Law {
 public:
  /// One summand. Exactly one of `force`, `static_limit` and `multiplier` is set.
  struct Term {
    std::string name = "law";                         ///< Name in messages and reports.
    NormalForce normal_force = NormalForce::coupled;  ///< The normal force that it reads.
    Branch branch = Branch::continuous;               ///< The solution that it takes where there are several.
    bool has_moment = true;  ///< False: the force has no moment. This saves half the work of a coupled normal force.
    /// Declared to dissipate energy only. An evaluation in which it gives energy is invalid.
    bool dissipative = false;
    /// Smooth in the normal force and velocities where `normal_force` is coupled.
    std::function<ForceMoment(const ConstraintReaction&)> force;

    // Dry friction opposes the relative motion of `friction_kind`. At rest it takes any value up to `static_limit`
    // (T10).
    FrictionKind friction_kind = FrictionKind::slip;                ///< The motion that dry friction opposes.
    double arm = 1;                                                 ///< Radius for `FrictionKind::both` [m].
    std::function<double(const ConstraintReaction&)> static_limit;  ///< Bound at rest [N or N·m] ≥ 0.
    std::function<double(const ConstraintReaction&, double speed)>
        sliding_magnitude;  ///< Magnitude at a speed > 0 [m/s or rad/s].

    /// Velocity [m/s] (W) of a surface that moves along the body `belt_on` (a conveyor), relative to that body. Without
    /// `belt_on` the body is that of Law::on_belt(velocity).
    std::function<Vector3d(const ConstraintReaction&)> belt;
    std::optional<Side> belt_on;  ///< The body along which the surface moves.
    /// Contribution of the belt to `ConstraintReaction::slip` [m/s] (W). Zero without a belt.
    LINCHPIN_API Vector3d belt_slip(const ConstraintReaction& n) const;

    /// Internal state (LuGre). Both functions are given where there is a state. `internal_state_rate` is the rate at
    /// `ConstraintReaction::internal_state`. Methods rk4 and the adaptive methods integrate it in their stages as they
    /// integrate velocities. `advance` is the value after `dt` at this normal force, starting from
    /// `ConstraintReaction::internal_state`. All other steps use it, because it is exact where the rate is fast for the
    /// step.
    std::function<Vector3d(const ConstraintReaction&)> internal_state_rate;
    std::function<Vector3d(const ConstraintReaction&, double dt)> advance_state;  ///< Value of the state after `dt`.

    /// Row of the residual along which the term acts, in place of the row (row_forces.h). −1: it acts in the free
    /// directions of its constraint. Dry friction along a row opposes the velocity of the row.
    int row = -1;
    /// Multiplier of that row from its position and velocity, for compliance.
    std::function<double(double position, double velocity)> multiplier;
  };

  Law() = default;  ///< No law. add_law refuses it.
  /// Makes a law from a function that returns a force (Vector3d) or a ForceMoment.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Law> &&
           std::invocable<const std::remove_cvref_t<F>&, const ConstraintReaction&>)
      Law(F f) {  // NOLINT: implicit, so that a lambda is a law
    Term term;
    if constexpr (std::convertible_to<std::invoke_result_t<const F&, const ConstraintReaction&>, ForceMoment>) {
      term.force = std::move(f);
    } else {
      static_assert(std::convertible_to<std::invoke_result_t<const F&, const ConstraintReaction&>, Vector3d>,
                    "linchpin: a law must return a force (Vector3d) or a ForceMoment");
      term.has_moment = false;
      term.force = [f = std::move(f)](const ConstraintReaction& n) { return ForceMoment{f(n), Vector3d::Zero()}; };
    }
    terms_.push_back(std::move(term));
  }
  /// @throws std::invalid_argument unless the term has a name, exactly one of force and static_limit (with
  /// sliding_magnitude), and both or neither of internal_state_rate and advance_state.
  explicit Law(Term term);

  // Each of these functions changes every summand of this law and returns the law.
  Law& with_name(const std::string& name);  ///< Name of the law in messages. Not empty.
  /// `with_normal_force(NormalForce::frictionless)` makes it the explicit law of the papers. LawForce::difference and
  /// LawWork::difference report by how much the two normal forces differ.
  Law& with_normal_force(NormalForce normal_force);
  Law& with_branch(Branch branch);  ///< The solution that the law takes where there are several.
  /// Declares that the law only dissipates energy, or that it may give energy.
  Law& dissipative(bool declared = true);
  /// Lets friction act on a belt. A thing that lies still on the belt is carried along with `velocity`, of the surface
  /// relative to its body [m/s] (W). The belt is the first body of a joint, which has its surface or rail. A constraint
  /// on one body lies on a belt of the world. Both of these carry the parcel towards +x:
  ///
  ///     add_law(model, model.add(planar("belt", world, …, parcel, …)), coulomb(0.3).on_belt({2, 0, 0}));
  ///     add_law(model, model.add(holonomic("belt", {parcel}, φ).set_application_points(…)), coulomb(0.3).on_belt({2,
  ///     0, 0}));
  Law& on_belt(const Vector3d& velocity);
  /// Lets friction act on a belt of the body `on`, which carries the other body. Example: a tracked vehicle is the
  /// first body of its constraint with the ground. With Side::first and {−2, 0, 0} it drives towards +x. @param in
  /// axes of `velocity`
  Law& on_belt(const Vector3d& velocity, Side on, Axes in = Axes::of_world);

  /// Force and moment of the law for an input. Dry friction without slip gives zero, because only dynamics can compute
  /// friction at rest.
  ForceMoment operator()(const ConstraintReaction& n) const;
  std::span<const Term> terms() const { return terms_; }  ///< Valid until the Law is changed or assigned.
  /// Returns whether it has a summand.
  explicit operator bool() const { return !terms_.empty(); }

  /// The sum of two laws.
  friend LINCHPIN_API Law operator+(Law a, const Law& b);

 private:
  std::vector<Term> terms_;
};

/// The catalogue. All functions throw std::invalid_argument that names law, parameter and value. All laws are declared
/// dissipative unless stated otherwise. Coefficients are finite and ≥ 0.
namespace laws {

/// Dry friction μ·N against the slip. It sticks up to the same bound.
LINCHPIN_API Law coulomb(double mu);
/// Dry friction that sticks up to mu_static·N and slides with mu_kinetic·N, which is not larger.
LINCHPIN_API Law coulomb(double mu_static, double mu_kinetic);
/// Friction −μ N slip/√(slip² + speed²), smooth through zero. It slides slowly where `coulomb` sticks. @param speed
/// [m/s] > 0.
LINCHPIN_API Law regularized_coulomb(double mu, double speed);
/// Viscous force −coefficient·slip. @param coefficient [N·s/m].
LINCHPIN_API Law viscous(double coefficient);
/// Viscous torque −coefficient·spin. @param coefficient [N·m·s/rad].
LINCHPIN_API Law viscous_torque(double coefficient);
/// Friction that falls with speed: N (μ_k + (μ_s − μ_k) exp(−(|slip|/speed)^shape)) + viscous·|slip|. It sticks up to
/// μ_s N.
struct Stribeck {
  double mu_static = 0, mu_kinetic = 0;  ///< mu_static ≥ mu_kinetic.
  double speed = 0;                      ///< Stribeck speed [m/s] > 0.
  double shape = 2;                      ///< Exponent > 0.
  double viscous = 0;                    ///< Viscous coefficient [N·s/m].
};
/// Friction with the Stribeck effect; see Stribeck. @throws std::invalid_argument for parameters out of their range
LINCHPIN_API Law stribeck(const Stribeck& parameters);
/// `stribeck` smoothed through zero over `width` [m/s] > 0, as regularized_coulomb is.
LINCHPIN_API Law regularized_stribeck(const Stribeck& parameters, double width);
/// LuGre friction with bristles of deflection z. ż = slip − |slip| z/g with g = N (μ_k + (μ_s − μ_k)
/// e^{−(|slip|/speed)²}) / stiffness. The force is −(stiffness z + damping ż + viscous slip). It is regular: below the
/// bound it yields elastically. It is not declared dissipative, because bristles release the energy that they stored.
struct LuGre {
  double stiffness = 0;                  ///< Bristle stiffness [N/m] > 0.
  double damping = 0;                    ///< Bristle damping [N·s/m].
  double mu_static = 0, mu_kinetic = 0;  ///< Coefficients of friction at rest and in motion.
  double speed = 0;                      ///< Stribeck speed [m/s] > 0.
  double viscous = 0;                    ///< Viscous coefficient [N·s/m].
};
/// LuGre friction; see LuGre. @throws std::invalid_argument for parameters out of their range
LINCHPIN_API Law lugre(const LuGre& parameters);
/// Quadratic drag −coefficient·|slip|·slip. @param coefficient [N·s²/m²].
LINCHPIN_API Law drag(double coefficient);
/// A given force [N] on the first body at the application point. Not dissipative.
LINCHPIN_API Law constant_force(const Vector3d& force, Axes in = Axes::of_world);
/// Force charge·(E + u × B), where u is the velocity at the point relative to the second body. Not dissipative. @param
/// charge [C]. @param E [V/m] (W). @param B [T] (W).
LINCHPIN_API Law lorentz(double charge, const Vector3d& E, const Vector3d& B);
/// Moment arm·N against free rotation about axes perpendicular to the normal force. @param arm [m].
LINCHPIN_API Law rolling_resistance(double arm);

/// Friction of a joint from its whole reaction, as in commercial codes. A law without effect is refused: neither
/// preload nor coefficient, or neither preload nor a radius. F is the force, M the moment about the application point.
/// Radial and axial are perpendicular to the free axis and along it. Without a single free axis all of F is radial.
struct JointFriction {
  double mu_static = 0, mu_kinetic = 0;  ///< mu_static ≥ mu_kinetic.
  double pin_radius = 0;                 ///< Radius of the pin, ball or bore on which radial force acts [m].
  double friction_radius = 0;            ///< Radius of the collar on which axial force acts [m].
  double bending_arm = 0;  ///< Arm over which M becomes a pair of normal forces M/arm [m]. 0: M is not read.
  double preload = 0;      ///< Friction without load [N·m; slider: N].
};
/// Torque about the free axis up to μ (pin_radius (|F_radial| + |M|/bending_arm) + friction_radius |F_axial|) +
/// preload.
LINCHPIN_API Law hinge_friction(const JointFriction& parameters);
/// Torque against the whole free spin, with the same bound and all of F radial.
LINCHPIN_API Law ball_friction(const JointFriction& parameters);
/// Force along the free direction up to μ (|F| + |M|/bending_arm) + preload.
LINCHPIN_API Law slider_friction(const JointFriction& parameters);
/// Friction of one bore that slides and rotates. Force and torque/pin_radius share the slider's bound. The pin_radius
/// is above 0.
LINCHPIN_API Law cylinder_friction(const JointFriction& parameters);

}  // namespace laws

// ---- storage of laws ----

/// Puts a law on a constraint. Several laws add up. A law acts between the first two of the constraint's bodies, and
/// reads the force of the constraint on the first. @throws std::invalid_argument if the application point of the
/// constraint is unknown. It is unknown for a residual without `set_application_points` or `set_application_point`.
/// Constraints between particles only, or between one particle and fixed or kinematic bodies, need neither.
LINCHPIN_API void add_law(System& system, ConstraintId on, Law law);
LINCHPIN_API Result<void> try_add_law(System& system, ConstraintId on, Law law) noexcept;
/// Removes all laws of a constraint.
LINCHPIN_API void clear_laws(System& system, ConstraintId on);
/// The laws of a constraint. Valid until a law or a constraint is added or removed.
LINCHPIN_API std::span<const Law> laws_on(const System& system, ConstraintId on);

/// A unilateral constraint: active while its multiplier is ≥ 0 for φ ≥ 0 on the free side (or ≤ 0 for φ ≤ 0).
struct Unilateral {
  bool on = true;         ///< False: the constraint is an equality.
  bool negative = false;  ///< The free side is φ < 0 instead of φ > 0.
  bool reengage = false;  ///< Activated again when φ comes back to zero (inelastically). Otherwise it stays inactive.
};
/// Makes a constraint of one position row unilateral. In `Stepper`, rk4 and adaptive switch it at the event itself.
/// semi_implicit switches it in the step in which the event lies. rattle rejects the step (stepper.h). @throws
/// std::invalid_argument for other constraints.
LINCHPIN_API void set_unilateral(System& system, ConstraintId on, Unilateral how = {});
/// The reference is valid until constraints are added.
LINCHPIN_API const Unilateral& unilateral(const System& system, ConstraintId on);

}  // namespace linchpin
