// The catalogue of laws, and the storage of laws.
#include <linchpin/laws.h>

#include "model/format.h"
#include "model/system_impl.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {
namespace {

[[noreturn]] void refuse(const std::string& law, const std::string& what) {
  throw std::invalid_argument(law + ": " + what);
}

void require_nonnegative(const std::string& law, const char* what, double x) {
  if (!(x >= 0) || !std::isfinite(x))
    refuse(law, std::string(what) + " must be finite and not negative, got " + text(x));
}

void require_positive(const std::string& law, const char* what, double x) {
  if (!(x > 0) || !std::isfinite(x)) refuse(law, std::string(what) + " must be finite and positive, got " + text(x));
}

void require_finite(const std::string& law, const char* what, const Vector3d& x) {
  if (!x.allFinite()) refuse(law, std::string(what) + " must be finite, got " + text(x));
}

/// The bound at rest must not be below the sliding friction. Otherwise a body at rest could neither stay nor start to
/// slide.
void require_order(const std::string& law, double mu_static, double mu_kinetic) {
  require_nonnegative(law, "mu_static", mu_static);
  require_nonnegative(law, "mu_kinetic", mu_kinetic);
  if (mu_static < mu_kinetic)
    refuse(law, "mu_static must not be below mu_kinetic, got " + text(mu_static) + " and " + text(mu_kinetic));
}

/// World components of a vector given in the axes of one of the bodies.
Vector3d to_world(const Thrust& n, Axes in, const Vector3d& u) {
  const BodyState* body = in == Axes::of_first ? n.first : in == Axes::of_second ? n.second : nullptr;
  return body == nullptr ? u : Vector3d(body->q * u);
}

Law::Term dry(std::string name, Rubs rubs, std::function<double(const Thrust&)> holding,
              std::function<double(const Thrust&, double)> sliding) {
  Law::Term term;
  term.name = std::move(name);
  term.dissipative = true;
  term.rubs = rubs;
  term.holding = std::move(holding);
  term.sliding = std::move(sliding);
  return term;
}

Law smooth(std::string name, bool dissipative, std::function<Effort(const Thrust&)> effort) {
  Law::Term term;
  term.name = std::move(name);
  term.turns = false;
  term.dissipative = dissipative;
  term.effort = std::move(effort);
  return Law(std::move(term));
}

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
double bending(const JointFriction& p, const Thrust& n) {
  return p.bending_arm > 0 ? n.moment.norm() / p.bending_arm : 0;
}

/// Friction of a joint from `load(n)` [N or N·m], times μ, plus preload.
/// @param radii, radius  names of the parameters that turn load into friction, and the largest of them
Law joint_friction(const char* name, const JointFriction& p, Rubs rubs, const char* radii, double radius,
                   std::function<double(const Thrust&)> load) {
  require(name, p);
  if (p.preload == 0 && !(p.mu_static > 0)) refuse(name, "it would do nothing: mu_static and preload are both zero");
  if (p.preload == 0 && !(radius > 0))
    refuse(name, std::string("it would do nothing: ") + radii + " and preload are all zero");
  Law::Term term = dry(
      name, rubs, [=](const Thrust& n) { return p.mu_static * load(n) + p.preload; },
      [=](const Thrust& n, double) { return p.mu_kinetic * load(n) + p.preload; });
  if (rubs == Rubs::both) term.arm = p.pin_radius;
  return Law(std::move(term));
}

}  // namespace

Vector3d Thrust::slip_direction(double speed) const {
  const double s = std::sqrt(slip.squaredNorm() + speed * speed);
  return s > 0 ? Vector3d(slip / s) : Vector3d::Zero();
}

Law::Law(Term term) {
  if (term.name.empty()) refuse("law", "a term needs a name");
  if (static_cast<bool>(term.effort) == static_cast<bool>(term.holding) ||
      static_cast<bool>(term.holding) != static_cast<bool>(term.sliding))
    refuse(term.name, "a term has either an effort, or both holding and sliding");
  if (static_cast<bool>(term.memory_rate) != static_cast<bool>(term.advance))
    refuse(term.name, "a term with an internal state has both memory_rate and advance");
  require_positive(term.name, "arm", term.arm);
  terms_.push_back(std::move(term));
}

Law& Law::named(const std::string& name) {
  if (name.empty()) refuse("law", "a name must not be empty");
  for (Term& term : terms_) term.name = name;
  return *this;
}

Law& Law::reading(Reads reads) {
  for (Term& term : terms_) term.reads = reads;
  return *this;
}

Law& Law::choosing(Branch branch) {
  for (Term& term : terms_) term.branch = branch;
  return *this;
}

Law& Law::dissipative(bool declared) {
  for (Term& term : terms_) term.dissipative = declared;
  return *this;
}

Vector3d Law::Term::belt_slip(const Thrust& n) const {
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
    require_finite(term.name, "the belt's velocity", velocity);
    term.belt_on = on;
    term.belt = [=](const Thrust& n) { return to_world(n, in, velocity); };
  }
  return *this;
}

Effort Law::operator()(const Thrust& thrust) const {
  Effort sum;
  for (const Term& term : terms_) {
    Thrust n = thrust;
    n.slip += term.belt_slip(n);
    if (term.effort) {
      const Effort e = term.effort(n);
      sum.force += e.force;
      sum.moment += e.moment;
      continue;
    }
    const bool turns = term.rubs == Rubs::spin || term.rubs == Rubs::roll, both = term.rubs == Rubs::both;
    if (term.rubs == Rubs::roll && n.normal.squaredNorm() > 0)
      n.spin -= n.normal * (n.normal.dot(n.spin) / n.normal.squaredNorm());
    const Vector3d slip = turns ? Vector3d::Zero() : n.slip, spin = turns || both ? n.spin : Vector3d::Zero();
    const double arm = both ? term.arm : 1;
    const double speed = std::sqrt(slip.squaredNorm() + arm * arm * spin.squaredNorm());
    if (!(speed > 0)) continue;
    const double magnitude = term.sliding(n, speed);
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

Law coulomb(double mu) {
  require_nonnegative("coulomb", "mu", mu);
  return coulomb(mu, mu);
}

Law coulomb(double mu_static, double mu_kinetic) {
  require_order("coulomb", mu_static, mu_kinetic);
  return Law(dry(
      "coulomb", Rubs::slip, [=](const Thrust& n) { return mu_static * n.magnitude(); },
      [=](const Thrust& n, double) { return mu_kinetic * n.magnitude(); }));
}

Law regularized_coulomb(double mu, double speed) {
  require_nonnegative("regularized_coulomb", "mu", mu);
  require_positive("regularized_coulomb", "speed", speed);
  return smooth("regularized_coulomb", true, [=](const Thrust& n) {
    return Effort{-mu * n.magnitude() * n.slip_direction(speed), Vector3d::Zero()};
  });
}

Law viscous(double coefficient) {
  require_nonnegative("viscous", "coefficient", coefficient);
  return smooth("viscous", true, [=](const Thrust& n) { return Effort{-coefficient * n.slip, Vector3d::Zero()}; });
}

Law viscous_torque(double coefficient) {
  require_nonnegative("viscous_torque", "coefficient", coefficient);
  Law::Term term;
  term.name = "viscous_torque";
  term.dissipative = true;
  term.effort = [=](const Thrust& n) { return Effort{Vector3d::Zero(), -coefficient * n.spin}; };
  return Law(std::move(term));
}

Law stribeck(const Stribeck& p) {
  require("stribeck", p);
  return Law(dry(
      "stribeck", Rubs::slip, [=](const Thrust& n) { return p.mu_static * n.magnitude(); },
      [=](const Thrust& n, double speed) { return of_speed(p, speed) * n.magnitude() + p.viscous * speed; }));
}

Law regularized_stribeck(const Stribeck& p, double width) {
  require("regularized_stribeck", p);
  require_positive("regularized_stribeck", "width", width);
  return smooth("regularized_stribeck", true, [=](const Thrust& n) {
    return Effort{-of_speed(p, n.slip.norm()) * n.magnitude() * n.slip_direction(width) - p.viscous * n.slip,
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
  const auto rate = [=](const Thrust& n) {
    const double s = n.slip.norm();
    const double g = n.magnitude() *
                     (p.mu_kinetic + (p.mu_static - p.mu_kinetic) * std::exp(-(s / p.speed) * (s / p.speed))) /
                     p.stiffness;
    return s > 0 ? s / std::max(g, 1e-300) : 0.0;
  };
  Law::Term term;
  term.name = "lugre";
  term.turns = false;
  term.effort = [=](const Thrust& n) {
    // Over a step it is the mean rate. Bristles bend within microseconds, and their damping acts over their
    // displacement.
    const Vector3d z_dot = n.memory_span > 0 ? Vector3d((n.memory - n.memory_before) / n.memory_span)
                                             : Vector3d(n.slip - rate(n) * n.memory);
    return Effort{-(p.stiffness * n.memory + p.damping * z_dot + p.viscous * n.slip), Vector3d::Zero()};
  };
  term.memory_rate = [=](const Thrust& n) { return Vector3d(n.slip - rate(n) * n.memory); };
  // Exact for a normal force and a slip that do not change within dt.
  term.advance = [=](const Thrust& n, double dt) {
    const double r = rate(n), decay = std::exp(-r * dt);
    const double growth = r * dt > 1e-8 ? (1 - decay) / r : dt;
    return Vector3d(decay * n.memory + growth * n.slip);
  };
  return Law(std::move(term));
}

Law drag(double coefficient) {
  require_nonnegative("drag", "coefficient", coefficient);
  return smooth("drag", true, [=](const Thrust& n) {
    return Effort{-coefficient * n.slip.norm() * n.slip, Vector3d::Zero()};
  });
}

Law constant_force(const Vector3d& force, Axes in) {
  require_finite("constant_force", "force", force);
  return smooth("constant_force", false, [=](const Thrust& n) {
    return Effort{to_world(n, in, force), Vector3d::Zero()};
  });
}

Law lorentz(double charge, const Vector3d& E, const Vector3d& B) {
  if (!std::isfinite(charge)) refuse("lorentz", "charge must be finite, got " + text(charge));
  require_finite("lorentz", "E", E);
  require_finite("lorentz", "B", B);
  return smooth("lorentz", false, [=](const Thrust& n) {
    return Effort{charge * (E + n.relative.cross(B)), Vector3d::Zero()};
  });
}

Law rolling_resistance(double arm) {
  require_nonnegative("rolling_resistance", "arm", arm);
  return Law(dry(
      "rolling_resistance", Rubs::roll, [=](const Thrust& n) { return arm * n.magnitude(); },
      [=](const Thrust& n, double) { return arm * n.magnitude(); }));
}

Law hinge_friction(const JointFriction& p) {
  return joint_friction("hinge_friction", p, Rubs::spin, "pin_radius, friction_radius",
                        std::max(p.pin_radius, p.friction_radius), [=](const Thrust& n) {
                          const double axial = n.axis.dot(n.normal);
                          return p.pin_radius * ((n.normal - axial * n.axis).norm() + bending(p, n)) +
                                 p.friction_radius * std::fabs(axial);
                        });
}

Law ball_friction(const JointFriction& p) {
  return joint_friction("ball_friction", p, Rubs::spin, "pin_radius", p.pin_radius,
                        [=](const Thrust& n) { return p.pin_radius * (n.magnitude() + bending(p, n)); });
}

Law slider_friction(const JointFriction& p) {
  return joint_friction("slider_friction", p, Rubs::slip, "", 1,
                        [=](const Thrust& n) { return n.magnitude() + bending(p, n); });
}

Law cylinder_friction(const JointFriction& p) {
  require_positive("cylinder_friction", "pin_radius", p.pin_radius);
  return joint_friction("cylinder_friction", p, Rubs::both, "pin_radius", p.pin_radius,
                        [=](const Thrust& n) { return n.magnitude() + bending(p, n); });
}

// ---- storage of laws ----

void add_law(System& system, ConstraintId on, Law law) {
  auto& entry = SystemParts::of(system).at(on);
  const std::string thing = "constraint '" + entry.constraint.name() + "': ";
  if (entry.removed) throw std::invalid_argument(thing + "has been removed and takes no law");
  if (!law) throw std::invalid_argument(thing + "an empty law");
  const auto ids = entry.constraint.bodies();
  if (std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return system.kind(id) == BodyKind::coordinate; }))
    throw std::invalid_argument(thing + "laws act on bodies; on coordinates a generalized force does");
  const bool particles =
      std::all_of(ids.begin(), ids.end(), [&](BodyId id) { return system.kind(id) == BodyKind::particle; });
  if (!entry.constraint.has_points() && !particles)
    throw std::invalid_argument(thing + "a law needs to know where it acts; declare it with set_application_points");
  entry.with_laws().laws.push_back(std::move(law));
  ++SystemParts::of(system).law_changes;
}

std::string try_add_law(System& system, ConstraintId on, Law law) noexcept {
  try {
    add_law(system, on, std::move(law));
    return {};
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is not a std::exception was thrown";
  }
}

void clear_laws(System& system, ConstraintId on) {
  auto& entry = SystemParts::of(system).at(on);
  entry.with_laws().laws.clear();
  ++entry.with_laws().cleared;
  ++SystemParts::of(system).law_changes;
}

std::span<const Law> laws(const System& system, ConstraintId on) {
  const auto& lawful = SystemParts::of(system).at(on).lawful;
  return lawful ? std::span<const Law>(lawful->laws) : std::span<const Law>();
}

void set_one_sided(System& system, ConstraintId on, OneSided how) {
  auto& entry = SystemParts::of(system).at(on);
  const ConstraintFunction& function = entry.constraint.function();
  if (how.on && (function.level() != Level::position || function.rows() != 1))
    throw std::invalid_argument("constraint '" + entry.constraint.name() +
                                "': only a constraint of one position row can be unilateral");
  entry.one_sided = how;
}

const OneSided& one_sided(const System& system, ConstraintId on) { return SystemParts::of(system).at(on).one_sided; }

}  // namespace linchpin
