// Evaluates laws beside a solution. Dry friction keeps its mode: it slides along its slip or in the given sense, or it
// sticks with the effort of the solution.
#include "force_laws/law_partials.h"

#include "math/vector_ops.h"

#include <stdexcept>

namespace linchpin {

int LawPartials::site_of(int constraint) const {
  int site = 0;
  while (constraint_of(site) != constraint) ++site;
  return site;
}

void LawPartials::keep(const LawSolver::Scene& scene, const LawSolution& solution, KeptLaws& out) {
  laws_.collect_terms(scene);
  out.internal_state.assign(solution.internal_state.begin(), solution.internal_state.end());
  laws_.set_internal_state(out.internal_state);
  out.terms.assign(laws_.efforts.size(), {});
  out.sticking = 0;
  out.any_coupled = out.any_frictionless = out.directions_read = false;
  for (std::size_t i = 0; i < out.terms.size(); ++i) {
    const LawForce& force = solution.forces[i];
    KeptLaws::Term& term = out.terms[i];
    term.constraint = force.constraint;
    term.reads_coupled = force.normal_force == NormalForce::coupled;
    term.basis.setZero();
  }
  for (const LawSolver::SmoothTerm& s : laws_.smooth_terms_)
    (out.terms[z(s.effort)].reads_coupled ? out.any_coupled : out.any_frictionless) = true;
  for (const LawSolver::UnknownTerm& p : laws_.unknown_terms_) {
    KeptLaws::Term& term = out.terms[z(p.effort)];
    const FrictionElement& element = solution.elements[z(p.element)];
    term.kind = element.sticks ? KeptLaws::Kind::sticks : KeptLaws::Kind::slides;
    const Vector6& sense = solution.senses[z(p.element)];
    Vector6 given = Vector6::Zero();
    for (int k = 0; k < p.dim; ++k) given[k] = p.axes.col(k).dot(sense);
    // With several free directions, a slip along a given sense and faster than it counts itself.
    const bool along_slip =
        p.dim > 1 && p.slip.dot(given) > 0 && p.slip.norm() > std::max(detail::rest_speed, sense.norm());
    if (!along_slip) term.sense = sense;
    term.effort = element.force;
    term.dim = p.dim;
    term.basis = p.basis;
    if (element.sticks) out.sticking += p.dim;
    if (p.what->friction_kind == FrictionKind::roll || p.what->belt) out.any_frictionless = out.directions_read = true;
    if (!element.sticks && p.what->row < 0) (term.reads_coupled ? out.any_coupled : out.any_frictionless) = true;
  }
}

void LawPartials::evaluate(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot,
                           std::span<const double> induced) {
  laws_.collect_terms(scene);
  if (laws_.efforts.size() != kept.terms.size())
    throw std::runtime_error("the laws are not those of the solution: " + std::to_string(laws_.efforts.size()) +
                             " terms in place of " + std::to_string(kept.terms.size()));
  compliance_.clear();
  for (const LawSolver::Site& site : laws_.sites_) compliance_.push_back(site.effort);
  add_laws(scene, kept, vdot, induced);
}

void LawPartials::evaluate_at_multipliers(const LawSolver::Scene& scene, const KeptLaws& kept,
                                          std::span<const double> vdot, std::span<const double> induced) {
  if (kept.directions_read) return evaluate(scene, kept, vdot, induced);
  for (std::size_t i = 0; i < compliance_.size(); ++i) {
    laws_.sites_[i].ideal = laws_.reaction(scene, laws_.sites_[i], scene.lambda);
    laws_.sites_[i].effort = compliance_[i];
  }
  add_laws(scene, kept, vdot, induced);
}

void LawPartials::add_laws(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot,
                           std::span<const double> induced) {
  for (LawSolver::Site& site : laws_.sites_) site.actual = site.ideal + laws_.reaction(scene, site, induced);
  add_smooth(scene, kept);
  add_dry(scene, kept, vdot);
}

void LawPartials::add_smooth(const LawSolver::Scene& scene, const KeptLaws& kept) {
  for (const LawSolver::SmoothTerm& s : laws_.smooth_terms_) {
    LawSolver::Site& site = laws_.sites_[z(s.site)];
    ConstraintReaction n =
        laws_.thrust_of(scene, site, *s.what, kept.terms[z(s.effort)].reads_coupled ? site.actual : site.ideal);
    if (s.memory >= 0) n.internal_state = Eigen::Map<const Vector3d>(&kept.internal_state[3 * z(s.memory)]);
    const ForceMoment e = s.what->force(n);
    site.effort.head<3>() += e.force;
    site.effort.tail<3>() += e.moment;
  }
}

void LawPartials::add_dry(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot) {
  slip_accelerations_.clear();
  for (const LawSolver::UnknownTerm& p : laws_.unknown_terms_) {
    const KeptLaws::Term& term = kept.terms[z(p.effort)];
    if (term.kind == KeptLaws::Kind::sticks) {
      add_sticking(scene, term, p, vdot);
      continue;
    }
    LawSolver::Site& site = laws_.sites_[z(p.site)];
    ConstraintReaction n = laws_.thrust_of(scene, site, *p.what, term.reads_coupled ? site.actual : site.ideal);
    if (p.memory >= 0) n.internal_state = Eigen::Map<const Vector3d>(&kept.internal_state[3 * z(p.memory)]);
    Vector6 along = p.slip;
    if (term.sense.squaredNorm() > 0)
      for (int k = 0; k < p.dim; ++k) along[k] = p.axes.col(k).dot(term.sense);
    const double scale = p.what->sliding_magnitude(n, p.slip.norm()) / along.norm();
    for (int k = 0; k < p.dim; ++k) site.effort -= scale * along[k] * p.basis.col(k);
  }
}

/// Adds the effort of the solution in the present free directions, and stores the slip accelerations along those of the
/// solution. Projections do not depend on the choice of a basis, which may jump from state to state.
void LawPartials::add_sticking(const LawSolver::Scene& scene, const KeptLaws::Term& term,
                               const LawSolver::UnknownTerm& p, std::span<const double> vdot) {
  LawSolver::Site& site = laws_.sites_[z(p.site)];
  const auto projected = [&](const Vector6& x) {
    Vector6 sum = Vector6::Zero();
    for (int k = 0; k < p.dim; ++k) sum += p.axes.col(k).dot(x) * p.axes.col(k);
    return sum;
  };
  site.effort += projected(term.effort);
  Vector6 rate = laws_.twist(scene, site, vdot);
  if (p.what->row >= 0) {
    slip_accelerations_.push_back(p.basis.col(0).dot(rate) + laws_.row_of(site, *p.what).bias);
    return;
  }
  rate.head<3>() += site.bias;
  rate.tail<3>() += site.bias_spin;
  rate = projected(rate);
  for (int k = 0; k < term.dim; ++k) slip_accelerations_.push_back(term.basis.col(k).dot(rate));
}

}  // namespace linchpin
