// Private to the sources that evaluate laws for the friction problem.
#pragma once

#include "force_laws/law_solver.h"
#include "math/vector_ops.h"

namespace linchpin {

/// Implements the callbacks of the friction problem by the laws.
class LawSolver::LawCallbacks final : public detail::FrictionProblem::Laws {
 public:
  /// @param reads  blocks read the reactions that the efforts make in each iteration
  LawCallbacks(LawSolver& own, const Scene& scene, bool reads = false) : own_(own), scene_(scene), reads_(reads) {}
  double holding(int block, const detail::Six& N) override { return holding(term_of(block), N); }
  double holding(const UnknownTerm& p, const detail::Six& N) { return own(p).static_limit(thrust(p, N)); }
  double sliding(int block, const detail::Six& N, double speed) override { return sliding(term_of(block), N, speed); }
  double sliding(const UnknownTerm& p, const detail::Six& N, double speed) {
    return own(p).sliding_magnitude(thrust(p, N), speed);
  }
  void effort(int block, const detail::Six& N, const detail::Six& slip, double* out) override {
    const UnknownTerm& p = term_of(block);
    if (own(p).multiplier) {
      out[0] = own_.row_multiplier(p, slip[0]);
      return;
    }
    const ForceMoment e =
        own(p).force(p.slip_implicit ? own_.thrust_at_slip(scene_, p, Eigen::Map<const Vector6d>(N.data()),
                                                           Eigen::Map<const Vector6d>(slip.data()))
                                     : thrust(p, N));
    in_basis(p, e, out);
  }
  /// Returns the effort of an unknown term that is known for its reaction, in its basis.
  Vector6d known(const UnknownTerm& p, const Vector6d& N) {
    detail::Six of{};
    std::copy_n(N.data(), 6, of.begin());
    if (p.element >= 0) return -sliding(p, of, p.slip.norm()) * own_.sliding_sense(p);
    const ForceMoment e = own(p).force(thrust(p, of));
    Vector6d out = Vector6d::Zero();
    in_basis(p, e, out.data());
    return out;
  }
  /// Returns the effort of a smooth unknown term that is implicit in its slip, at the slip that was found.
  Vector6d effort_at_solution(const UnknownTerm& p, const Vector6d& N) {
    const ForceMoment e = own(p).force(own_.thrust_at_slip(scene_, p, N, own_.implicit_slip(p)));
    Vector6d out;
    out << e.force, e.moment;
    return out;
  }
  bool reactions_allowed(std::span<const detail::Six> thrusts) override {
    for (std::size_t s = 0; s < own_.sites_.size(); ++s) {
      const Site& site = own_.sites_[s];
      if (site.unilateral == 0) continue;
      const Vector3d N(thrusts[s][0], thrusts[s][1], thrusts[s][2]);
      if (site.unilateral * N.dot(site.unit_force) < 0) return false;
    }
    return true;
  }
  void read_reactions(std::span<const double> lambda) override {
    if (!reads_) return;
    for (Site& site : own_.sites_)
      site.read = site.without_unknowns + site.read_error + own_.reaction(scene_, site, lambda);
    for (std::size_t k = 0; k < own_.coupling_.terms.size(); ++k) {
      const UnknownTerm& p = term_of(static_cast<int>(k));
      if (p.what->normal_force == NormalForce::coupled)
        std::copy_n(own_.thrust_read(p).data(), 6, own_.coupling_.problem.blocks[k].known.begin());
    }
  }

 private:
  static void in_basis(const UnknownTerm& p, const ForceMoment& e, double* out) {
    for (int k = 0; k < p.dim; ++k)
      out[k] = p.basis.col(k).head<3>().dot(e.force) + p.basis.col(k).tail<3>().dot(e.moment);
  }
  const UnknownTerm& term_of(int block) const { return own_.unknown_terms_[z(own_.coupling_.terms[z(block)])]; }
  const Law::Term& own(const UnknownTerm& p) const {
    own_.set_error_context(own_.sites_[z(p.site)], *p.what);
    return *p.what;
  }
  ConstraintReaction thrust(const UnknownTerm& p, const detail::Six& N) const {
    ConstraintReaction n =
        own_.thrust_of(scene_, own_.sites_[z(p.site)], *p.what, Eigen::Map<const Vector6d>(N.data()));
    if (p.memory >= 0) n.internal_state = own_.persistent_.memories[z(p.memory)].next;
    return n;
  }
  LawSolver& own_;
  const Scene& scene_;
  bool reads_;
};

}  // namespace linchpin
