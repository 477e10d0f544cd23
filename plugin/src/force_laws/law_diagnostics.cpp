// Finds faulty laws: laws that jump, and laws that push at rest although they are declared dissipative. Uses mostly
// evaluations that are made anyway. The fault is reported as long as the law exists.
#include "force_laws/law_solver.h"
#include "model/format.h"
#include "model/system_impl.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>

namespace linchpin {

/// Returns the value of a term: the effort of a smooth one, the bounds of a dry one.
Vector6d LawSolver::evaluate_term(const Scene& scene, const Site& site, const Law::Term& term, const LawInput& in) {
  set_error_context(site, term);
  const ConstraintReaction n = thrust_of(scene, site, term, in.normal, in.relative, in.spin);
  Vector6d out = Vector6d::Zero();
  if (term.force) {
    const ForceMoment e = term.force(n);
    out << e.force, e.moment;
    return out;
  }
  Vector3d spin = n.spin_velocity;
  if (term.friction_kind == FrictionKind::roll && n.normal.squaredNorm() > 0)
    spin -= n.normal * (n.normal.dot(spin) / n.normal.squaredNorm());
  const double speed = term.friction_kind == FrictionKind::slip ? n.slip_velocity.norm()
                       : term.friction_kind == FrictionKind::both
                           ? std::hypot(n.slip_velocity.norm(), term.arm * spin.norm())
                           : spin.norm();
  out[0] = term.static_limit(n);
  out[1] = term.sliding_magnitude(n, std::max(speed, 1e-300));
  return out;
}

/// Describes where a term jumps on the way from a to b. Empty if it does not. Halving the interval halves the change of
/// a smooth function, however steep, but not a jump.
std::string LawSolver::jump_between(const Scene& scene, const Site& site, const Law::Term& term, LawInput a,
                                    LawInput b) {
  Vector6d at_a = evaluate_term(scene, site, term, a), at_b = evaluate_term(scene, site, term, b);
  if ((evaluate_term(scene, site, term, a) - at_a).norm() > 0)
    return ": returns different forces for the same arguments. A law must be a function of its argument. It must not "
           "count its calls, read a clock or use random numbers";
  const double whole = (at_b - at_a).norm();
  const LawInput begin = a, end = b;
  if (!(whole > 0.02 * std::max(at_a.norm(), at_b.norm())) || !std::isfinite(whole)) return {};
  constexpr int halvings = 48;  // Down to the rounding of the interval.
  for (int k = 0; k < halvings; ++k) {
    const LawInput middle{0.5 * (a.relative + b.relative), 0.5 * (a.spin + b.spin), 0.5 * (a.normal + b.normal)};
    const Vector6d at_middle = evaluate_term(scene, site, term, middle);
    const double left = (at_middle - at_a).norm(), right = (at_b - at_middle).norm();
    if (!(std::max(left, right) > 0.05 * whole)) return {};
    (left > right ? b : a) = middle;
    (left > right ? at_b : at_a) = at_middle;
  }
  const double jump = (at_b - at_a).norm();
  const auto causes = [&](const LawInput& other) {
    return (evaluate_term(scene, site, term, other) - at_a).norm() > 0.5 * jump;
  };
  if (causes({a.relative, a.spin, b.normal}))
    return ": the force jumps where the normal force is " + text(a.normal.head<3>().norm()) +
           " N, so steps near this value use one of the two values. Make the law smooth in its normal force";
  const ConstraintReaction n = thrust_of(scene, site, term, a.normal, a.relative, a.spin);
  const bool by_slip = causes({b.relative, a.spin, a.normal});
  const Vector3d& where = by_slip ? n.slip_velocity : n.spin_velocity;
  const double speed = where.norm();
  const double way = by_slip ? (end.relative - begin.relative).norm() : (end.spin - begin.spin).norm();
  if (speed <= 1e-9 + 1e-6 * way)
    return ": the force jumps where the slip changes sign. Use coulomb(), which can stick, or regularized_coulomb(), "
           "which is smooth";
  // The law may jump by any component, so the whole vector is printed unless it is along an axis.
  const bool along_axis = where.cwiseAbs().maxCoeff() >= (1 - 1e-9) * speed;
  const std::string what = along_axis ? text(speed) : text(where);
  return std::string(": the force jumps where the ") + (by_slip ? "slip is " : "spin is ") + what +
         (by_slip ? " m/s" : " rad/s") +
         ", so steps near this value use one of the two values. Make the law smooth over a range of " +
         (by_slip ? "slip" : "spin");
}

LawSolver::LawInput LawSolver::input_of(const Site& site, const LawForce& e) const {
  LawInput out{site.relative, site.relative_spin, Vector6d::Zero()};
  out.normal << e.normal, e.normal_moment;
  return out;
}

/// Returns true if a smooth law that is explicit in the step has reversed with its slip, by more than the slip change
/// justifies. Its slope on that way times the mobility times the step is then above 1. Under a load this is the only
/// sign of a law that jumps at rest, because it rarely reverses.
bool LawSolver::overshoots(const Site& site, const History& h, const LawInput& input, const Vector6d& now, int effort,
                           double dt) const {
  if (!h.known || !(now.dot(h.last) < 0) || !(std::min(now.norm(), h.last.norm()) > 0.1 * h.largest)) return false;
  const auto simple = [&](const SmoothTerm& s) { return s.effort == effort && s.memory < 0; };
  if (std::none_of(smooth_terms_.begin(), smooth_terms_.end(), simple) ||
      std::any_of(unknown_terms_.begin(), unknown_terms_.end(),
                  [&](const UnknownTerm& p) { return p.effort == effort && p.slip_implicit; }))
    return false;
  Vector6d before, after;
  before << h.input.relative, h.input.spin;
  after << input.relative, input.spin;
  const Vector6d change = now - h.last;
  const double along = -change.dot(after - before);
  return change.dot(before) > 0 && change.dot(after) < 0 && dt * change.dot(site.mobility * change) > along;
}

/// A term that changed much from one step to the next may have jumped between them.
void LawSolver::check_jump(const Scene& scene, const Site& site, const Law::Term& term, int effort,
                           const Vector6d& value) {
  records_.values[z(effort)] = value;
  if (records_.histories.size() != efforts.size()) return;
  const History& h = records_.histories[z(effort)];
  const double change = (value - h.value).norm();
  if (!h.known || !fault_.text.empty() || !(change > 0.1 * std::max({value.norm(), h.value.norm(), h.largest}))) return;
  const std::string jump = jump_between(scene, site, term, h.input, input_of(site, efforts[z(effort)]));
  if (!jump.empty()) set_fault(scene, site, term, jump);
}

void LawSolver::check_jumps(const Scene& scene) {
  records_.values.assign(efforts.size(), Vector6d::Zero());
  for (const SmoothTerm& s : smooth_terms_)
    if (s.memory < 0) check_jump(scene, sites_[z(s.site)], *s.what, s.effort, s.e);
  for (const UnknownTerm& p : unknown_terms_) {
    if (p.element < 0) continue;
    Vector6d bounds = Vector6d::Zero();
    bounds[0] = elements[z(p.element)].bound;
    bounds[1] = elements[z(p.element)].kinetic;
    check_jump(scene, sites_[z(p.site)], *p.what, p.effort, bounds);
  }
}

/// Tests a law that damps so fast at a slip near rest for a jump there.
void LawSolver::check_jump_at_rest(const Scene& scene, const Site& site, const Law::Term& term) {
  if (!fault_.text.empty()) return;
  const ConstraintReaction n = thrust_of(scene, site, term, site.ideal);
  constexpr double about = 1e-6;  // In m/s and rad/s.
  if (n.slip_velocity.norm() > about || n.spin_velocity.norm() > about) return;
  const auto look = [&](const Vector3d& slip, const Vector3d& spin) {
    const Vector3d relative = site.relative - n.slip_velocity, turning = site.relative_spin - n.spin_velocity;
    const std::string jump =
        jump_between(scene, site, term, {relative - about * slip, turning - about * spin, site.ideal},
                     {relative + about * slip, turning + about * spin, site.ideal});
    if (!jump.empty() && fault_.text.empty()) set_fault(scene, site, term, jump);
  };
  for (int k = 0; k < site.slips; ++k) look(site.free_slip.col(k), Vector3d::Zero());
  for (int k = 0; k < site.spins && term.has_moment; ++k) look(Vector3d::Zero(), site.free_spin.col(k));
}

/// A dissipative law gives no force along the free directions where nothing moves, because it would start a motion.
void LawSolver::check_push_at_rest(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& e) {
  if (!fault_.text.empty()) return;
  const ConstraintReaction n = thrust_of(scene, site, term, site.ideal);
  if (n.slip_velocity.norm() > rest_speed || (term.has_moment && n.spin_velocity.norm() > rest_speed)) return;
  Vector6d free = Vector6d::Zero();
  for (int k = 0; k < site.slips; ++k) free.head<3>() += site.free_slip.col(k).dot(e.head<3>()) * site.free_slip.col(k);
  for (int k = 0; k < site.spins && term.has_moment; ++k)
    free.tail<3>() += site.free_spin.col(k).dot(e.tail<3>()) * site.free_spin.col(k);
  // Against the small motion there it may have any strength.
  if (free.head<3>().dot(n.slip_velocity) + free.tail<3>().dot(n.spin_velocity) < 0) return;
  // Power at the velocity that the force makes in a millisecond.
  const double power = 1e-3 * free.dot(site.mobility * free);
  if (!(power > 1e-15)) return;  // Rounding.
  set_fault(
      scene, site, term,
      " is declared dissipative but exerts " +
          (free.head<3>().norm() > 0 ? text(free.head<3>().norm()) + " N" : text(free.tail<3>().norm()) + " N·m") +
          " at rest. After one millisecond it would give " + text(power) +
          " W. Correct the law, or remove dissipative()");
}

/// The fault is in every report until laws change.
void LawSolver::set_fault(const Scene& scene, const Site& site, const Law::Term& term, const std::string& what) {
  fault_.text = name_of(scene, site, term) + what;
}

void LawSolver::refresh_fault(const System& system) {
  const unsigned long now = SystemParts::of(system).law_changes;
  if (now != fault_.law_changes) fault_.text.clear();
  fault_.law_changes = now;
}

}  // namespace linchpin
