// Decides which friction elements slide through the whole step. Their friction is known before anything is solved (T5).
#include "force_laws/friction_callbacks.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

/// Returns the slip velocity of an unknown term after h with the accelerations vdot. For h = 0 returns its rate.
double LawSolver::end_slip(const Scene& scene, const UnknownTerm& p, int k, std::span<const double> vdot,
                           double h) const {
  const Site& site = sites_[z(p.site)];
  Vector6d rate = twist(scene, site, vdot);
  double bias = 0;
  if (p.what->row >= 0) {
    bias = row_of(site, *p.what).bias;
  } else {
    rate.head<3>() += site.bias;
    rate.tail<3>() += site.bias_spin;
  }
  const double gain = p.basis.col(k).dot(rate) + bias;
  return h > 0 ? p.slip[k] + h * gain : gain;
}

/// Returns true if a slip is only the single-precision rounding of a host at rest. It is then small beside the change
/// that one step makes with the accelerations vdot, without its own friction. At the start of a step, an element that
/// stuck at the end of the last one may have all of that change. The reason is that steps bring it to rest in their
/// middle.
bool LawSolver::rounded_rest(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot) const {
  const double length = step > 0 ? step : span;
  double gain = 0;
  for (int k = 0; k < p.dim && length > 0; ++k) gain += std::pow(end_slip(scene, p, k, vdot, length) - p.slip[k], 2);
  const bool stuck = step == 0 && z(p.effort) < records_.stuck_before.size() && records_.stuck_before[z(p.effort)];
  return length > 0 && p.slip.norm() <= (stuck ? 1 : 1e-3) * std::sqrt(gain);
}

/// Returns true if a sliding element slides along its slip, and not in a given sense.
bool LawSolver::slides_along_slip(const UnknownTerm& p) const {
  const ModeRequest& hold = persistent_.requested_modes[z(p.element)];
  Vector6d given = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) given[k] = p.axes.col(k).dot(hold.sense);
  return hold.how != FrictionMode::slips || !(given.squaredNorm() > 0) ||
         (p.dim > 1 && p.slip.dot(given) > 0 && p.slip.norm() > std::max(rest_speed, hold.sense.norm()));
}

/// Returns the sense in which an element slides, in the basis of its unknown term.
Vector6d LawSolver::sliding_sense(const UnknownTerm& p) const {
  Vector6d sense = p.slip;
  if (!slides_along_slip(p))
    for (int k = 0; k < p.dim; ++k) sense[k] = p.axes.col(k).dot(persistent_.requested_modes[z(p.element)].sense);
  const double length = sense.norm();
  return length > 0 ? Vector6d(sense / length) : sense;
}

/// Finds the terms whose effort is known for a given normal force (T5): smooth ones that are weak for the step, and
/// elements that slide. All others become unknowns of the friction problem. Within a step, explicit sliding friction is
/// correct only far from rest. It also has to be weak for the step where it turns with the slip. It damps across the
/// slip at a rate of r/|slip|, and an explicit step is unstable where that is large for the mass. Example: four feet of
/// a table that slides slowly begin to yaw.
void LawSolver::classify_sliding(const Scene& scene) {
  LawCallbacks callbacks(*this, scene);
  const auto on_bodies = [&](const UnknownTerm& p, const auto& visit) {
    for (const int slot : sites_[z(p.site)].slots)
      if (slot >= 0) visit(rates_.root[z(slot)]);
  };
  std::fill(rates_.root.begin(), rates_.root.end(), 0.0);
  scratch_.values.assign(2 * unknown_terms_.size(),
                         0.0);  // √mobility over the step, and its contribution to the rate of its bodies.
  for (std::size_t i = 0; i < unknown_terms_.size(); ++i) {
    UnknownTerm& p = unknown_terms_[i];
    p.block = p.element >= 0 || p.slip_implicit || p.reaction_implicit ? 0 : -1;
    p.slides_in_problem = false;
    if (p.element < 0 || p.reaction_implicit) continue;
    const FrictionMode how = persistent_.requested_modes[z(p.element)].how;
    const double speed = p.slip.norm();
    if (how == FrictionMode::sticks || (speed <= rest_speed && (how == FrictionMode::automatic || step > 0)) ||
        rounded_rest(scene, p, ideal_.vdot))
      continue;
    detail::Six N{};
    std::copy_n(sites_[z(p.site)].ideal.data(), 6, N.begin());
    const double friction = callbacks.sliding(p, N, speed);
    p.known = -friction * sliding_sense(p);
    p.classified_friction = p.known.norm();
    p.block = -1;
    if (step == 0 || p.dim == 1) continue;
    double mobility = 0;
    for (int k = 0; k < p.dim; ++k)
      mobility = std::max(mobility, step * p.basis.col(k).dot(sites_[z(p.site)].mobility * p.basis.col(k)));
    scratch_.values[2 * i] = std::sqrt(mobility);
    scratch_.values[2 * i + 1] = friction / speed * scratch_.values[2 * i];
    on_bodies(p, [&](double& sum) { sum += scratch_.values[2 * i + 1]; });
  }
  for (std::size_t i = 0; i < unknown_terms_.size(); ++i) {
    if (!(scratch_.values[2 * i] > 0)) continue;
    double sum = 0;
    int bodies = 0;
    on_bodies(unknown_terms_[i], [&](double& rate) { sum += rate, ++bodies; });
    // Gershgorin's bound for the elements that share bodies. Bodies held by other constraints move less.
    if (scratch_.values[2 * i] * (sum - (bodies == 2 ? scratch_.values[2 * i + 1] : 0)) > 0.5)
      unknown_terms_[i].block = 0;
  }
}

/// Returns true if a sliding element still slides at the end of the step, in about the same direction and at least at
/// `part` of its speed. Its work is then negative.
bool LawSolver::keeps_sliding(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot,
                              double part) const {
  double along = 0, end = 0;
  for (int k = 0; k < p.dim; ++k) {
    const double s = end_slip(scene, p, k, vdot, step);
    along += s * p.slip[k];
    end += s * s;
  }
  const double begin = p.slip.norm();
  return along > part * begin * std::max(begin, std::sqrt(end));
}

/// Returns true if the elements that were classified as sliding slide with the solution. If not, other friction has
/// turned one of them, and all friction is solved together. An element whose friction has become larger than when it
/// was classified also turns faster. It becomes an unknown.
bool LawSolver::keeps_classification(const Scene& scene, std::span<const double> vdot) {
  constexpr double much = 1.1;
  if (step == 0) return true;
  const bool slides = std::all_of(unknown_terms_.begin(), unknown_terms_.end(), [&](const UnknownTerm& p) {
    return !is_known_to_slide(p) || keeps_sliding(scene, p, vdot, 0.25);
  });
  bool keeps = true;
  for (UnknownTerm& p : unknown_terms_) {
    const bool grows = is_known_to_slide(p) && p.dim > 1 && p.what->normal_force == NormalForce::coupled &&
                       friction_of(p) > much * p.classified_friction;
    if (p.element < 0 || (slides && !grows)) continue;
    keeps = keeps && !is_known_to_slide(p);
    p.block = 0;
    p.slides_in_problem = false;
  }
  return keeps;
}

/// Returns the size of the effort of an unknown term, in its basis.
double LawSolver::friction_of(const UnknownTerm& p) const {
  double sum = 0;
  for (int k = 0; k < p.dim; ++k) sum += std::pow(p.block < 0 ? p.known[k] : coupling_.efforts[z(p.start + k)], 2);
  return std::sqrt(sum);
}

/// Adds all known efforts: smooth laws that are simply added, and the friction of sliding elements. It needs one
/// back-solve. It needs a second one where an element comes near rest or turns, and becomes an unknown instead.
/// @param reclassifies  whether elements may become unknowns
void LawSolver::add_known_efforts(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                                  std::span<double> induced, bool reclassifies) {
  add_response_to_known(scene, vdot, nonideal, induced);
  if (step == 0 || !reclassifies) return;
  bool stays = true;
  for (UnknownTerm& p : unknown_terms_)
    if (is_known_to_slide(p) && !keeps_sliding(scene, p, vdot, 0.5)) p.block = 0, stays = false;
  if (stays) return;
  restore_without_laws(scene, vdot, nonideal, induced);
  add_response_to_known(scene, vdot, nonideal, induced);
}

/// Adds the response to all efforts that are not in the friction problem.
void LawSolver::add_response_to_known(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                                      std::span<double> induced) {
  std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
  for (const Site& site : sites_) add(scene, site, site.effort, scratch_.applied);
  for (const UnknownTerm& p : unknown_terms_) {
    if (p.block < 0) add(scene, sites_[z(p.site)], p.basis * p.known, scratch_.applied);
    if (p.slip_implicit) add(scene, sites_[z(p.site)], p.across, scratch_.applied);
  }
  if (largest(scratch_.applied) > 0) add_response(scene, scratch_.applied, vdot, nonideal, induced);
}

void LawSolver::read_thrusts(const Scene& scene, std::span<const double> induced) {
  for (Site& site : sites_) site.actual = site.ideal + reaction(scene, site, induced);
}

namespace {

template <class Vector>
double relative_difference(const Vector& a, const Vector& b, double least) {
  const double off = (a - b).norm(), size = std::max({a.norm(), b.norm(), least});
  return off > 0 ? off / size : 0.0;
}

}  // namespace

/// Returns by how much the effort of an unknown term at the coupled normal force differs from the one it gave, relative
/// to the larger.
/// @param least  smallest size to which a difference is relative
double LawSolver::relative_disagreement(LawCallbacks& callbacks, UnknownTerm& p, double least) const {
  const auto relative = [&](const auto& a, const auto& b) { return relative_difference(a, b, least); };
  const Vector6d &was = thrust_read(p), &is = sites_[z(p.site)].actual;
  if (p.block < 0) {
    p.next = callbacks.known(p, is);
    return relative(p.next, p.known);
  }
  if (p.slip_implicit) return relative(callbacks.effort_at_solution(p, is), callbacks.effort_at_solution(p, was));
  const auto& layout = coupling_.problem.blocks[z(p.block)];
  detail::Six before{}, after{};
  std::copy_n(was.data(), 6, before.begin());
  std::copy_n(is.data(), 6, after.begin());
  double speed = 0;
  for (int k = 0; k < p.dim; ++k) speed += std::pow(slip_of(p.start + k), 2);
  if (layout.mode == detail::FrictionProblem::Mode::sticks) {  // Its bound does not matter as long as it is sufficient.
    const double bound = callbacks.holding(p, after);
    if (friction_of(p) <= (1 + 1e-12) * bound) return 0;
    return relative(Vector1d(bound), Vector1d(callbacks.holding(p, before)));
  }
  speed = std::max(layout.is_given() ? layout.speed : std::sqrt(speed), 1e-300);
  return relative(Vector1d(callbacks.sliding(p, after, speed)), Vector1d(callbacks.sliding(p, before, speed)));
}

/// Returns true if the laws agree with the coupled normal forces that result from their efforts (T9). Otherwise they
/// read these in the next iteration, as long as that probably ends in fewer iterations than there are unknowns. If not,
/// terms that do not agree become unknowns that read their normal force implicitly. For more unknowns than a dense
/// solution allows, the last forces remain, with a warning.
bool LawSolver::laws_agree(const Scene& scene, std::span<const double> induced, FixedPointState& iteration) {
  constexpr double rounding = 1e-15, stalled = 1e-11;
  if (!reads_actual_) return true;
  read_thrusts(scene, induced);
  LawCallbacks callbacks(*this, scene);
  // In a large mechanism, rounding of large efforts makes errors in the normal forces of small ones.
  constexpr double negligible = 1e-6;
  const double least = coupling_.is_sparse ? negligible * largest(coupling_.efforts) : 0;
  double change = 0, followed = 0;
  int unknowns = 0;
  bool anew = false;
  for (UnknownTerm& p : unknown_terms_) {
    p.disagrees = false;
    if (p.what->normal_force != NormalForce::coupled) continue;
    unknowns += p.dim;
    if (stiffens(scene, p)) anew = true;
    if (p.block >= 0 && (p.reaction_implicit || anew)) continue;
    const double off = relative_disagreement(callbacks, p, least);
    p.disagrees = off > rounding;
    change = std::max(change, off);
    if (!p.slides_in_problem || iteration.rounds > 0) continue;
    p.next = callbacks.known(p, sites_[z(p.site)].actual);
    followed = std::max(followed, relative_difference(p.next, p.known, least));
  }
  const auto is_slow = [&](double change, double rate) {
    return !(rate < 0.9) || iteration.rounds + std::log(rounding / change) / std::log(rate) >= unknowns;
  };
  // Efforts that follow the normal force far need as many iterations as if they had not, so that the same elements stay
  // known to slide.
  if (followed > 0 && unknowns <= most_dense_unknowns && is_slow(followed, followed))
    change = std::max(change, followed);
  const double rate = iteration.rounds > 0 ? change / iteration.change : change;
  const double accuracy = coupling_.is_sparse ? std::max(stalled, 10 * report.residual) : stalled;
  const bool round_off = change <= rounding || (iteration.rounds > 0 && change <= accuracy && rate > 0.5);
  const bool was_read = !coupling_.terms.empty() && coupling_.is_sparse && coupling_.sparse->reads_at_solution();
  for (Site& site : sites_) {
    if (was_read) site.read_error += site.actual - site.read;
    site.read = site.actual;
  }
  if (!anew && !round_off) {
    report.gain = rate;
    iteration.ended = iteration.ended || (unknowns <= few_unknowns && change > stalled) || is_slow(change, rate);
    ++iteration.rounds;
    iteration.change = change;
  }
  const bool stays_open = iteration.ended && coupling_.is_sparse && unknowns > most_dense_unknowns;
  if (stays_open)
    report.warning = "dry friction at " + std::to_string(coupling_.terms.size()) +
                     " places agrees with its normal forces only to " + text(change) + ". Use a shorter step";
  if (!anew && (round_off || stays_open)) {
    for (const int i : coupling_.terms)  // hold() uses these values.
      if (const UnknownTerm& p = unknown_terms_[z(i)]; !report.fell_back)
        std::copy_n(thrust_read(p).data(), 6, coupling_.problem.blocks[z(p.block)].known.begin());
    return true;
  }
  for (UnknownTerm& p : unknown_terms_) {
    if (p.what->normal_force != NormalForce::coupled) continue;
    if (iteration.ended && p.slides_in_problem) {
      p.slides_in_problem = false;
      p.block = -1;
      p.next = callbacks.known(p, sites_[z(p.site)].actual);
      p.disagrees = relative_difference(p.next, p.known, least) > rounding;
    }
    if (iteration.ended && (p.disagrees || (p.block >= 0 && p.element >= 0))) {
      p.reaction_implicit = true;
      p.block = 0;
      if (p.slip_implicit) set_basis(p, Vector6d::Zero());
    } else if (p.block < 0) {
      p.known = p.next;
    } else if (p.slip_implicit && !p.reaction_implicit && p.memory < 0) {
      const Site& site = sites_[z(p.site)];
      set_basis(p, effort_at(scene, smooth_terms_[z(p.smooth)], site.actual, site.relative, site.relative_spin));
    }
  }
  return false;
}

}  // namespace linchpin
