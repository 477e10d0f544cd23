// The laws of constraints that do work: what a law sees (`Thrust`), what it answers (`Effort`), what must be known of
// it besides (which thrust it reads, whether it only takes energy, what it holds at rest), a catalogue, and where laws
// are kept. Hides how a set-valued law is written down. Leaves solving for them to dynamics (T9, T10).
#pragma once

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

/// What a law sees of its constraint. World axes. *Free* directions are those in which the constraint can apply no
/// force (for `slip`) or no moment about `point` (for `spin`): along a rail, about a hinge's axis.
struct Thrust {
  double t = 0;                        ///< [s]
  Vector3d point = Vector3d::Zero();   ///< where the constraint acts on the first body [m]
  Vector3d normal = Vector3d::Zero();  ///< force of the constraint on the first body [N]; ideal or actual, as read (T9)
  Vector3d moment = Vector3d::Zero();  ///< its moment on the first body about `point` [N·m]
  Vector3d slip = Vector3d::Zero();    ///< velocity of the first body at `point` over the second's, free part [m/s]
  Vector3d spin = Vector3d::Zero();    ///< angular velocity of the first body over the second's, free part [rad/s]
  Vector3d axis = Vector3d::Zero();    ///< unit axis of the free rotation if there is exactly one, else zero
  Vector3d relative = Vector3d::Zero();  ///< velocity at `point` of the first body over the second's, whole [m/s]
  Vector3d memory = Vector3d::Zero();    ///< the law's internal state, for laws that have one
  const BodyState* first = nullptr;      ///< the two bodies; second is null for a constraint on one body
  const BodyState* second = nullptr;
  Vector3d memory_before = Vector3d::Zero();  ///< where `memory` was `memory_span` ago, for laws at a step's end
  double memory_span = 0;                     ///< [s]; 0: the law is asked for an instant

  /// ‖normal‖ [N]: the thrust of one contact as a vector norm; never mixed with moments.
  double magnitude() const { return normal.norm(); }
  /// Unit vector along the slip, zero without slip. With `speed` > 0 [m/s]: slip / √(slip² + speed²), smooth through
  /// zero (a regularisation: it creeps where real friction sticks).
  Vector3d slip_direction(double speed = 0) const;
};

/// What a law prescribes: on the first body at Thrust::point; the opposite acts on the second.
struct Effort {
  Vector3d force = Vector3d::Zero();   ///< [N] (W)
  Vector3d moment = Vector3d::Zero();  ///< [N·m] (W)
};

/// Which normal force a law reads (T9). The two agree for a single particle, and differ where friction itself presses.
enum class Reads {
  actual,  ///< what is there while all laws act: implicit, and there may be none or several (Painlevé); the default
  ideal    ///< of Q^N, that of the constraint without laws: explicit, always there; the explicit law of the papers
};
/// Which one, where the actual thrust has several answers.
enum class Branch {
  continuous,  ///< nearest to that of the last evaluation; at the first one, to the ideal thrust. The default
  smallest,    ///< of magnitude
  largest
};
/// Against what a dry law rubs.
enum class Rubs {
  slip,  ///< sliding: a force [N] along the free directions
  spin,  ///< turning: a moment [N·m] about the free axes
  roll,  ///< turning about free axes across the thrust only: rolling resistance
  both   ///< sliding and turning of one surface of radius `arm`: force and moment / arm share one bound
};
/// In whose axes a vector is given.
enum class Axes { of_world, of_first, of_second };
enum class Side { first, second };  ///< one of the two bodies of a law

/// A law for the nonideal force of a constraint: a value, made from a lambda
///
///     Law law = [](const Thrust& n) { return Vector3d(-0.2 * n.magnitude() * n.slip_direction(1e-3)); };
///
/// that returns a force [N] or an Effort, or taken from the catalogue below; laws add with +. A lambda is called
/// several times in one evaluation, with slips and thrusts that are tried, so it must not count or remember. One that
/// throws, or returns what is not finite or beyond all bounds, gives Status::invalid with the law and the constraint
/// named. One that jumps where its slip changes sign is named in a warning, and held there by steps of a host and
/// Method::semi_implicit; rk4 and adaptive follow it from one side to the other: take `coulomb`.
class Law {
 public:
  /// One summand. Exactly one of `effort` and `holding` is set.
  struct Term {
    std::string name = "law";
    Reads reads = Reads::actual;
    Branch branch = Branch::continuous;
    bool turns = true;         ///< false: the effort has no moment, which saves half the work of an actual thrust
    bool dissipative = false;  ///< declared to take energy only: found to give some, the evaluation is invalid
    std::function<Effort(const Thrust&)> effort;  ///< smooth in its thrust and velocities where `reads` is actual

    // Dry friction: opposes what it rubs against, and at rest takes any value up to `holding` (T10).
    Rubs rubs = Rubs::slip;
    double arm = 1;                                              ///< [m] of Rubs::both
    std::function<double(const Thrust&)> holding;                ///< bound at rest [N or N·m] ≥ 0
    std::function<double(const Thrust&, double speed)> sliding;  ///< magnitude at a speed > 0 [m/s or rad/s]

    /// Velocity [m/s] (W) of a surface that runs along on the body `belt_on` (a conveyor), beyond the body's own. Not
    /// said on which: as Law::on_belt(velocity).
    std::function<Vector3d(const Thrust&)> belt;
    std::optional<Side> belt_on;
    /// What the belt adds to Thrust::slip [m/s] (W); zero without one.
    Vector3d belt_slip(const Thrust& n) const;

    /// Internal state (LuGre), where there is one both are given: its rate at Thrust::memory, which rk4 and the
    /// adaptive methods integrate in their stages as they do velocities; and its value after `dt` at this thrust, from
    /// Thrust::memory, which all other steps take: exact, where the rate is fast for the step.
    std::function<Vector3d(const Thrust&)> memory_rate;
    std::function<Vector3d(const Thrust&, double dt)> advance;
  };

  Law() = default;  ///< no law; refused by add_law
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Law> && std::invocable<const std::remove_cvref_t<F>&, const Thrust&>)
      Law(F f) {  // NOLINT: implicit, so that a lambda is a law
    Term term;
    if constexpr (std::convertible_to<std::invoke_result_t<const F&, const Thrust&>, Effort>) {
      term.effort = std::move(f);
    } else {
      static_assert(std::convertible_to<std::invoke_result_t<const F&, const Thrust&>, Vector3d>,
                    "linchpin: a law returns a force (Vector3d) or an Effort");
      term.turns = false;
      term.effort = [f = std::move(f)](const Thrust& n) { return Effort{f(n), Vector3d::Zero()}; };
    }
    terms_.push_back(std::move(term));
  }
  /// @throws std::invalid_argument unless the term has a name, exactly one of effort and holding (with sliding), and
  /// memory_rate and advance together or neither.
  explicit Law(Term term);

  // All of them change every summand of this law and return it.
  Law& named(const std::string& name);  ///< how messages call it; not empty
  /// `reading(Reads::ideal)` makes it the explicit law of the papers. Where the two normal forces differ, and by how
  /// much, is in LawEffort::difference and LawWork::difference.
  Law& reading(Reads reads);
  Law& choosing(Branch branch);
  Law& dissipative(bool declared = true);
  /// Rubs on a belt: what lies still on it is carried along with `velocity`, of the surface beyond its body's own [m/s]
  /// (W). The belt is the first body of a joint, which has its surface or rail; a constraint on one body lies on a belt
  /// of the world:
  ///
  ///     add_law(model, model.add(planar("belt", world, …, parcel, …)), coulomb(0.3).on_belt({2, 0, 0}));
  ///     add_law(model, model.add(holonomic("belt", {parcel}, φ).acting_at(…)), coulomb(0.3).on_belt({2, 0, 0}));
  ///
  /// carry the parcel towards +x, both.
  Law& on_belt(const Vector3d& velocity);
  /// The same of a belt on the body `on`, which carries the other one: a tracked vehicle is the first body of its
  /// constraint with the ground, and with Side::first and {−2, 0, 0} drives towards +x. @param in  axes of `velocity`
  Law& on_belt(const Vector3d& velocity, Side on, Axes in = Axes::of_world);

  /// What it prescribes for a thrust; dry friction without slip: zero. (What rest holds back is dynamics' business.)
  Effort operator()(const Thrust& thrust) const;
  std::span<const Term> terms() const { return terms_; }
  explicit operator bool() const { return !terms_.empty(); }

  friend Law operator+(Law a, const Law& b);

 private:
  std::vector<Term> terms_;
};

// ---- catalogue ----
// All throw std::invalid_argument naming law, parameter and value. All are dissipative by declaration unless said
// otherwise. Coefficients ≥ 0 and finite.

/// Dry friction μ·N against the slip; sticks up to the same bound.
Law coulomb(double mu);
/// Sticks up to mu_static·N, slides with mu_kinetic·N ≤ that.
Law coulomb(double mu_static, double mu_kinetic);
/// −μ N slip/√(slip² + speed²), smooth through zero: creeps where `coulomb` sticks. @param speed [m/s] > 0.
Law regularized_coulomb(double mu, double speed);
/// −coefficient·slip. @param coefficient [N·s/m].
Law viscous(double coefficient);
/// −coefficient·spin. @param coefficient [N·m·s/rad].
Law viscous_torque(double coefficient);
/// Friction that falls with speed: N (μ_k + (μ_s − μ_k) exp(−(|slip|/speed)^shape)) + viscous·|slip|; sticks to μ_s N.
struct Stribeck {
  double mu_static = 0, mu_kinetic = 0;  ///< mu_static ≥ mu_kinetic
  double speed = 0;                      ///< [m/s] > 0
  double shape = 2;                      ///< > 0
  double viscous = 0;                    ///< [N·s/m]
};
Law stribeck(const Stribeck& parameters);
/// The same smoothed through zero over `width` [m/s] > 0 as regularized_coulomb is.
Law regularized_stribeck(const Stribeck& parameters, double width);
/// LuGre: bristles of deflection z with ż = slip − |slip| z/g, g = N (μ_k + (μ_s − μ_k) e^{−(|slip|/speed)²}) /
/// stiffness; force −(stiffness z + damping ż + viscous slip). Regular: it creeps elastically. Not declared
/// dissipative: bristles give back what they stored.
struct LuGre {
  double stiffness = 0;  ///< [N/m] > 0
  double damping = 0;    ///< [N·s/m]
  double mu_static = 0, mu_kinetic = 0;
  double speed = 0;    ///< [m/s] > 0
  double viscous = 0;  ///< [N·s/m]
};
Law lugre(const LuGre& parameters);
/// −coefficient·|slip|·slip. @param coefficient [N·s²/m²].
Law drag(double coefficient);
/// A given force [N] on the first body at the acting point. Not dissipative.
Law constant_force(const Vector3d& force, Axes in = Axes::of_world);
/// charge·(E + u × B), u the velocity at the point over the second body. Not dissipative.
/// @param charge [C]. @param E [V/m] (W). @param B [T] (W).
Law lorentz(double charge, const Vector3d& E, const Vector3d& B);
/// A moment of arm·N against free turning across the thrust. @param arm [m].
Law rolling_resistance(double arm);

/// Friction of a joint from its whole reaction, as commercial codes have it. Refused where it would do nothing: neither
/// preload nor coefficient, or neither preload nor a radius. F is the force, M the moment about the acting point;
/// radial and axial are across and along the free axis (without a single one, all of F is radial).
struct JointFriction {
  double mu_static = 0, mu_kinetic = 0;  ///< mu_static ≥ mu_kinetic
  double pin_radius = 0;                 ///< [m] of the pin, ball or bore on which radial force rubs
  double friction_radius = 0;            ///< [m] of the collar on which axial force rubs
  double bending_arm = 0;                ///< [m] over which M becomes a pair of normal forces M/arm; 0: M is not read
  double preload = 0;                    ///< friction without load [N·m; slider: N]
};
/// Torque about the free axis up to μ (pin_radius (|F_radial| + |M|/bending_arm) + friction_radius |F_axial|) +
/// preload.
Law hinge_friction(const JointFriction& parameters);
/// The same against the whole free spin, with all of F radial.
Law ball_friction(const JointFriction& parameters);
/// Force along the free direction up to μ (|F| + |M|/bending_arm) + preload.
Law slider_friction(const JointFriction& parameters);
/// One bore that slides and turns: force and torque/pin_radius share the slider's bound. @param pin_radius > 0.
Law cylinder_friction(const JointFriction& parameters);

// ---- where laws are kept ----

/// Puts a law on a constraint (several add up). It acts between the first two of the constraint's bodies, however many
/// there are, and sees the force of the constraint on the first. @throws std::invalid_argument if it is not known where
/// the constraint acts (made from a residual without `acting_at` or `acting_where`, and between bodies other than
/// particles and, with one particle, fixed and driven ones).
void add_law(System& system, ConstraintId on, Law law);
[[nodiscard]] std::string try_add_law(System& system, ConstraintId on, Law law) noexcept;
void clear_laws(System& system, ConstraintId on);
std::span<const Law> laws(const System& system, ConstraintId on);

/// A constraint that only pushes: held while its multiplier is ≥ 0 for φ ≥ 0 on the free side (or ≤ 0 and φ ≤ 0).
struct OneSided {
  bool on = true;
  bool negative = false;  ///< the free side is φ < 0 instead of φ > 0
  bool reengage = false;  ///< taken up again when φ comes back to zero (inelastically); else it stays off
};
/// Says so for a constraint of one position row. `Stepper` obeys it: rk4 and adaptive at the event itself,
/// semi_implicit in the step in which it lies; rattle rejects the step (stepper.h).
/// @throws std::invalid_argument for other constraints.
void set_one_sided(System& system, ConstraintId on, OneSided how = {});
const OneSided& one_sided(const System& system, ConstraintId on);

}  // namespace linchpin
