// The catalogue of laws, and the storage of laws.
#include <linchpin/laws.h>

#include "model/force_rows.h"
#include "model/format.h"
#include "model/system_impl.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {
namespace {

[[noreturn]] void refuse_law(const std::string& law, const std::string& what) {
  throw std::invalid_argument(law + ": " + what);
}

void require_nonnegative(const std::string& law, const char* what, double x) {
  if (!(x >= 0) || !std::isfinite(x))
    refuse_law(law, std::string(what) + " must be finite and not negative, got " + text(x));
}

void require_positive(const std::string& law, const char* what, double x) {
  if (!(x > 0) || !std::isfinite(x))
    refuse_law(law, std::string(what) + " must be finite and positive, got " + text(x));
}

void require_finite_vector(const std::string& law, const char* what, const Vector3d& x) {
  if (!x.allFinite()) refuse_law(law, std::string(what) + " must be finite, got " + text(x));
}

/// The bound at rest must not be below the sliding friction. Otherwise a body at rest could neither stay nor start to
/// slide.
void require_order(const std::string& law, double mu_static, double mu_kinetic) {
  require_nonnegative(law, "mu_static", mu_static);
  require_nonnegative(law, "mu_kinetic", mu_kinetic);
  if (mu_static < mu_kinetic)
    refuse_law(law, "mu_static must not be below mu_kinetic, got " + text(mu_static) + " and " + text(mu_kinetic));
}

/// World components of a vector given in the axes of one of the bodies.
Vector3d to_world(const ConstraintReaction& n, Axes in, const Vector3d& u) {
  const BodyState* body = in == Axes::of_first ? n.first : in == Axes::of_second ? n.second : nullptr;
  return body == nullptr ? u : Vector3d(body->q * u);
}

Law::Term dry(std::string name, FrictionKind friction_kind,
              std::function<double(const ConstraintReaction&)> static_limit,
              std::function<double(const ConstraintReaction&, double)> sliding_magnitude) {
  Law::Term term;
  term.name = std::move(name);
  term.dissipative = true;
  term.friction_kind = friction_kind;
  term.static_limit = std::move(static_limit);
  term.sliding_magnitude = std::move(sliding_magnitude);
  return term;
}

Law smooth(std::string name, bool dissipative, std::function<ForceMoment(const ConstraintReaction&)> force) {
  Law::Term term;
  term.name = std::move(name);
  term.has_moment = false;
  term.dissipative = dissipative;
  term.force = std::move(force);
  return Law(std::move(term));
}

using laws::JointFriction;
using laws::Stribeck;

double of_speed(const Stribeck& p, double speed) {
  return p.mu_kinetic + (p.mu_static - p.mu_kinetic) * std::exp(-std::pow(speed / p.speed, p.shape));
}

void require(const char* law, const Stribeck& p) {
  require_order(law, p.mu_static, p.mu_kinetic);
  require_positive(law, "speed", p.speed);
  require_positive(law, "shape", p.shape);
  require_nonnegative(law, "viscous", p.viscous);
}

void require(const char* law, const JointFriction& p) {
  require_order(law, p.mu_static, p.mu_kinetic);
  require_nonnegative(law, "pin_radius", p.pin_radius);
  require_nonnegative(law, "friction_radius", p.friction_radius);
  require_nonnegative(law, "bending_arm", p.bending_arm);
  require_nonnegative(law, "preload", p.preload);
}

/// ‖M‖ as a pair of normal forces [N].
double bending(const JointFriction& p, const ConstraintReaction& n) {
  return p.bending_arm > 0 ? n.moment.norm() / p.bending_arm : 0;
}

/// Friction of a joint from `load(n)` [N or N·m], times μ, plus preload.
/// @param radii, radius  names of the parameters that turn load into friction, and the largest of them
Law joint_friction(const char* name, const JointFriction& p, FrictionKind friction_kind, const char* radii,
                   double radius, std::function<double(const ConstraintReaction&)> load) {
  require(name, p);
  if (p.preload == 0 && !(p.mu_static > 0))
    refuse_law(name, "the law would have no effect, because mu_static and preload are both 0");
  if (p.preload == 0 && !(radius > 0))
    refuse_law(name, std::string("the law would have no effect, because ") + radii + " and preload are all 0");
  Law::Term term = dry(
      name, friction_kind, [=](const ConstraintReaction& n) { return p.mu_static * load(n) + p.preload; },
      [=](const ConstraintReaction& n, double) { return p.mu_kinetic * load(n) + p.preload; });
  if (friction_kind == FrictionKind::both) term.arm = p.pin_radius;
  return Law(std::move(term));
}

}  // namespace

Vector3d ConstraintReaction::slip_direction(double speed) const {
  const double s = std::sqrt(slip_velocity.squaredNorm() + speed * speed);
  return s > 0 ? Vector3d(slip_velocity / s) : Vector3d::Zero();
}

Law::Law(Term term) {
  if (term.name.empty()) refuse_law("law", "a term needs a name");
  const int kinds =
      static_cast<bool>(term.force) + static_cast<bool>(term.static_limit) + static_cast<bool>(term.multiplier);
  if (kinds != 1 || static_cast<bool>(term.static_limit) != static_cast<bool>(term.sliding_magnitude))
    refuse_law(term.name,
               "a term needs exactly one of these: force, multiplier, or static_limit with sliding_magnitude");
  if (term.multiplier && term.row < 0)
    refuse_law(term.name, "a term with a multiplier needs the row that it acts along");
  if (static_cast<bool>(term.internal_state_rate) != static_cast<bool>(term.advance_state))
    refuse_law(term.name, "a term with an internal state needs both internal_state_rate and advance_state");
  require_positive(term.name, "arm", term.arm);
  terms_.push_back(std::move(term));
}

Law& Law::with_name(const std::string& name) {
  if (name.empty()) refuse_law("law", "a name must not be empty");
  for (Term& term : terms_) term.name = name;
  return *this;
}

Law& Law::with_normal_force(NormalForce normal_force) {
  for (Term& term : terms_) term.normal_force = normal_force;
  return *this;
}

Law& Law::with_branch(Branch branch) {
  for (Term& term : terms_) term.branch = branch;
  return *this;
}

Law& Law::dissipative(bool declared) {
  for (Term& term : terms_) term.dissipative = declared;
  return *this;
}

Vector3d Law::Term::belt_slip(const ConstraintReaction& n) const {
  if (!belt) return Vector3d::Zero();
  const Side on = belt_on.value_or(n.second == nullptr ? Side::second : Side::first);
  return (on == Side::first ? 1 : -1) * belt(n);
}

Law& Law::on_belt(const Vector3d& velocity) {
  on_belt(velocity, Side::first);
  for (Term& term : terms_) term.belt_on.reset();
  return *this;
}

Law& Law::on_belt(const Vector3d& velocity, Side on, Axes in) {
  for (Term& term : terms_) {
    require_finite_vector(term.name, "the belt's velocity", velocity);
    term.belt_on = on;
    term.belt = [=](const ConstraintReaction& n) { return to_world(n, in, velocity); };
  }
  return *this;
}

ForceMoment Law::operator()(const ConstraintReaction& thrust) const {
  ForceMoment sum;
  for (const Term& term : terms_) {
    if (term.row >= 0) continue;  // It depends on the row, which is not an input of laws.
    ConstraintReaction n = thrust;
    n.slip_velocity += term.belt_slip(n);
    if (term.force) {
      const ForceMoment e = term.force(n);
      sum.force += e.force;
      sum.moment += e.moment;
      continue;
    }
    const bool turns = term.friction_kind == FrictionKind::spin || term.friction_kind == FrictionKind::roll,
               both = term.friction_kind == FrictionKind::both;
    if (term.friction_kind == FrictionKind::roll && n.normal.squaredNorm() > 0)
      n.spin_velocity -= n.normal * (n.normal.dot(n.spin_velocity) / n.normal.squaredNorm());
    const Vector3d slip = turns ? Vector3d::Zero() : n.slip_velocity,
                   spin = turns || both ? n.spin_velocity : Vector3d::Zero();
    const double arm = both ? term.arm : 1;
    const double speed = std::sqrt(slip.squaredNorm() + arm * arm * spin.squaredNorm());
    if (!(speed > 0)) continue;
    const double magnitude = term.sliding_magnitude(n, speed);
    sum.force -= magnitude / speed * slip;
    sum.moment -= magnitude * arm * arm / speed * spin;
  }
  return sum;
}

Law operator+(Law a, const Law& b) {
  a.terms_.insert(a.terms_.end(), b.terms_.begin(), b.terms_.end());
  return a;
}

// ---- catalogue ----

namespace laws {

Law coulomb(double mu) {
  require_nonnegative("coulomb", "mu", mu);
  return coulomb(mu, mu);
}

Law coulomb(double mu_static, double mu_kinetic) {
  require_order("coulomb", mu_static, mu_kinetic);
  return Law(dry(
      "coulomb", FrictionKind::slip, [=](const ConstraintReaction& n) { return mu_static * n.magnitude(); },
      [=](const ConstraintReaction& n, double) { return mu_kinetic * n.magnitude(); }));
}

Law regularized_coulomb(double mu, double speed) {
  require_nonnegative("regularized_coulomb", "mu", mu);
  require_positive("regularized_coulomb", "speed", speed);
  return smooth("regularized_coulomb", true, [=](const ConstraintReaction& n) {
    return ForceMoment{-mu * n.magnitude() * n.slip_direction(speed), Vector3d::Zero()};
  });
}

Law viscous(double coefficient) {
  require_nonnegative("viscous", "coefficient", coefficient);
  return smooth("viscous", true, [=](const ConstraintReaction& n) {
    return ForceMoment{-coefficient * n.slip_velocity, Vector3d::Zero()};
  });
}

Law viscous_torque(double coefficient) {
  require_nonnegative("viscous_torque", "coefficient", coefficient);
  Law::Term term;
  term.name = "viscous_torque";
  term.dissipative = true;
  term.force = [=](const ConstraintReaction& n) {
    return ForceMoment{Vector3d::Zero(), -coefficient * n.spin_velocity};
  };
  return Law(std::move(term));
}

Law stribeck(const Stribeck& p) {
  require("stribeck", p);
  return Law(dry(
      "stribeck", FrictionKind::slip, [=](const ConstraintReaction& n) { return p.mu_static * n.magnitude(); },
      [=](const ConstraintReaction& n, double speed) {
        return of_speed(p, speed) * n.magnitude() + p.viscous * speed;
      }));
}

Law regularized_stribeck(const Stribeck& p, double width) {
  require("regularized_stribeck", p);
  require_positive("regularized_stribeck", "width", width);
  return smooth("regularized_stribeck", true, [=](const ConstraintReaction& n) {
    return ForceMoment{
        -of_speed(p, n.slip_velocity.norm()) * n.magnitude() * n.slip_direction(width) - p.viscous * n.slip_velocity,
        Vector3d::Zero()};
  });
}

Law lugre(const LuGre& p) {
  require_positive("lugre", "stiffness", p.stiffness);
  require_nonnegative("lugre", "damping", p.damping);
  require_order("lugre", p.mu_static, p.mu_kinetic);
  require_positive("lugre", "speed", p.speed);
  require_nonnegative("lugre", "viscous", p.viscous);
  // ż = slip − rate·z
  const auto rate = [=](const ConstraintReaction& n) {
    const double s = n.slip_velocity.norm();
    const double g = n.magnitude() *
                     (p.mu_kinetic + (p.mu_static - p.mu_kinetic) * std::exp(-(s / p.speed) * (s / p.speed))) /
                     p.stiffness;
    return s > 0 ? s / std::max(g, 1e-300) : 0.0;
  };
  Law::Term term;
  term.name = "lugre";
  term.has_moment = false;
  term.force = [=](const ConstraintReaction& n) {
    // Over a step it is the mean rate. Bristles bend within microseconds, and their damping acts over their
    // displacement.
    const Vector3d z_dot = n.internal_state_span > 0
                               ? Vector3d((n.internal_state - n.internal_state_before) / n.internal_state_span)
                               : Vector3d(n.slip_velocity - rate(n) * n.internal_state);
    return ForceMoment{-(p.stiffness * n.internal_state + p.damping * z_dot + p.viscous * n.slip_velocity),
                       Vector3d::Zero()};
  };
  term.internal_state_rate = [=](const ConstraintReaction& n) {
    return Vector3d(n.slip_velocity - rate(n) * n.internal_state);
  };
  // Exact for a normal force and a slip that do not change within dt.
  term.advance_state = [=](const ConstraintReaction& n, double dt) {
    const double r = rate(n), decay = std::exp(-r * dt);
    const double growth = r * dt > 1e-8 ? (1 - decay) / r : dt;
    return Vector3d(decay * n.internal_state + growth * n.slip_velocity);
  };
  return Law(std::move(term));
}

Law drag(double coefficient) {
  require_nonnegative("drag", "coefficient", coefficient);
  return smooth("drag", true, [=](const ConstraintReaction& n) {
    return ForceMoment{-coefficient * n.slip_velocity.norm() * n.slip_velocity, Vector3d::Zero()};
  });
}

Law constant_force(const Vector3d& force, Axes in) {
  require_finite_vector("constant_force", "force", force);
  return smooth("constant_force", false, [=](const ConstraintReaction& n) {
    return ForceMoment{to_world(n, in, force), Vector3d::Zero()};
  });
}

Law lorentz(double charge, const Vector3d& E, const Vector3d& B) {
  if (!std::isfinite(charge)) refuse_law("lorentz", "charge must be finite, got " + text(charge));
  require_finite_vector("lorentz", "E", E);
  require_finite_vector("lorentz", "B", B);
  return smooth("lorentz", false, [=](const ConstraintReaction& n) {
    return ForceMoment{charge * (E + n.relative_velocity.cross(B)), Vector3d::Zero()};
  });
}

Law rolling_resistance(double arm) {
  require_nonnegative("rolling_resistance", "arm", arm);
  return Law(dry(
      "rolling_resistance", FrictionKind::roll, [=](const ConstraintReaction& n) { return arm * n.magnitude(); },
      [=](const ConstraintReaction& n, double) { return arm * n.magnitude(); }));
}

Law hinge_friction(const JointFriction& p) {
  return joint_friction("hinge_friction", p, FrictionKind::spin, "pin_radius, friction_radius",
                        std::max(p.pin_radius, p.friction_radius), [=](const ConstraintReaction& n) {
                          const double axial = n.axis.dot(n.normal);
                          return p.pin_radius * ((n.normal - axial * n.axis).norm() + bending(p, n)) +
                                 p.friction_radius * std::fabs(axial);
                        });
}

Law ball_friction(const JointFriction& p) {
  return joint_friction("ball_friction", p, FrictionKind::spin, "pin_radius", p.pin_radius,
                        [=](const ConstraintReaction& n) { return p.pin_radius * (n.magnitude() + bending(p, n)); });
}

Law slider_friction(const JointFriction& p) {
  return joint_friction("slider_friction", p, FrictionKind::slip, "", 1,
                        [=](const ConstraintReaction& n) { return n.magnitude() + bending(p, n); });
}

Law cylinder_friction(const JointFriction& p) {
  require_positive("cylinder_friction", "pin_radius", p.pin_radius);
  return joint_friction("cylinder_friction", p, FrictionKind::both, "pin_radius", p.pin_radius,
                        [=](const ConstraintReaction& n) { return n.magnitude() + bending(p, n); });
}

}  // namespace laws

// ---- storage of laws ----

void add_law(System& system, ConstraintId on, Law law) {
  auto& entry = SystemParts::of(system).at(on);
  const std::string thing = "constraint '" + entry.constraint.name() + "': ";
  if (entry.removed) throw std::invalid_argument(thing + "has been removed, so no law can be added");
  if (!law) throw std::invalid_argument(thing + "the law is empty");
  const auto ids = entry.constraint.bodies();
  if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return system.kind(id) == BodyKind::coordinate; }))
    throw std::invalid_argument(thing + "laws act on bodies, not on coordinates. Use a generalized force");
  const bool particles =
      std::all_of(ids.begin(), ids.end(), [&](BodyId id) { return system.kind(id) == BodyKind::particle; });
  const bool along_rows =
      std::all_of(law.terms().begin(), law.terms().end(), [](const Law::Term& t) { return t.row >= 0; });
  if (!along_rows && detail::force_rows_of(entry.constraint))
    throw std::invalid_argument(
        thing + "has a motor or compliance, so no law can be added. Make a second constraint for the law");
  if (!along_rows && !entry.constraint.has_application_points() && !particles)
    throw std::invalid_argument(thing +
                                "a law needs an application point. Call set_application_points() for the constraint");
  entry.with_laws().laws.push_back(std::move(law));
  ++SystemParts::of(system).law_changes;
}

Result<void> try_add_law(System& system, ConstraintId on, Law law) noexcept {
  return try_call([&] { add_law(system, on, std::move(law)); });
}

void clear_laws(System& system, ConstraintId on) {
  auto& entry = SystemParts::of(system).at(on);
  entry.with_laws().laws.clear();
  ++entry.with_laws().cleared;
  ++SystemParts::of(system).law_changes;
}

std::span<const Law> laws_on(const System& system, ConstraintId on) {
  const auto& lawful = SystemParts::of(system).at(on).lawful;
  return lawful ? std::span<const Law>(lawful->laws) : std::span<const Law>();
}

void set_unilateral(System& system, ConstraintId on, Unilateral how) {
  auto& entry = SystemParts::of(system).at(on);
  const ConstraintFunction& function = entry.constraint.function();
  if (how.on && (function.level() != Level::position || function.rows() != 1))
    throw std::invalid_argument("constraint '" + entry.constraint.name() +
                                "': only a constraint of one position row can be unilateral");
  entry.unilateral = how;
}

const Unilateral& unilateral(const System& system, ConstraintId on) {
  return SystemParts::of(system).at(on).unilateral;
}

}  // namespace linchpin
