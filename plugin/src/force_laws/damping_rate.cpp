// Finds how fast laws damp or rotate velocities (T10). The bound treats all bodies as free and costs little. The rate
// of the constrained motion is computed on request. A direction that other constraints hold does not move, and a body
// that is joined to a heavy one moves less than it would alone.
#include "force_laws/law_solver.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin {
namespace {

/// The power iteration ends at this relative change. It approaches from below, so its result is enlarged by a margin.
constexpr int most_iterations = 40, least_iterations = 4;
constexpr double settled = 0.03, margin = 1.1;

/// Friction slows a slip within a substep, and so turns it faster at the end of the substep.
constexpr double margin_of_turning = 1.25;

}  // namespace

/// @return whether the friction of an element turns with its slip
bool LawSolver::turns_with_slip(const UnknownTerm& p) const {
  return p.element >= 0 && p.dim > 1 && !elements[z(p.element)].sticks && slides_along_slip(p);
}

/// Friction μN against a slip of several directions damps velocities across the slip at the rate μN/|slip|. It is a
/// rate like that of a stiff smooth law, but belongs to no single term. The sum bounds the coupling of elements that
/// share bodies.
template <class Mobility>
double LawSolver::bound_of_turning(const Mobility& free_mobility) const {
  double sum = 0, most = 0;
  for (const UnknownTerm& p : unknown_terms_) {
    if (!turns_with_slip(p)) continue;
    const double mobility = free_mobility(p);
    sum += elements[z(p.element)].kinetic * std::sqrt(mobility);
    most = std::max(most, std::sqrt(mobility) / p.slip.norm());
  }
  return std::isfinite(sum * most) ? sum * most : 0;
}

/// Computes the bound with the mobility of free bodies.
void LawSolver::bound_turning_rate() {
  rates_.turning = bound_of_turning([&](const UnknownTerm& p) {
    double mobility = 0;
    for (int k = 0; k < p.dim; ++k)
      mobility = std::max(mobility, p.basis.col(k).dot(sites_[z(p.site)].mobility * p.basis.col(k)));
    return mobility;
  });
  update_rate();
}

/// v ← P M⁻¹ f, with P = 1 − M⁻¹AᵀG⁺A. @return √(vᵀM v)
double LawSolver::constrained_response(const Scene& scene, std::span<const double> f, std::span<double> v) {
  scene.solver.inverse_mass(f, v);
  multiply(scene.assembly.problem, v, scratch_.row);
  for (double& r : scratch_.row) r = -r;
  scene.solver.solve_unrefined(scratch_.row, scratch_.lambda, {}, scratch_.dv);
  double square = 0;
  for (std::size_t j = 0; j < v.size(); ++j) {
    v[j] += scratch_.dv[j];
    square += v[j] * f[j];
  }
  return std::sqrt(std::max(0.0, square));
}

/// Computes the largest |eigenvalue| of P M⁻¹ D by power iteration, where D is the sum of all slopes. Leaves its
/// velocities in rates_.velocity.
double LawSolver::fastest_of_slopes(const Scene& scene, double from) {
  // The efforts at the start alternate from law to law, because in chains those excite the fastest motion.
  std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
  for (std::size_t i = 0; i < rates_.slopes.size(); ++i) {
    int column = 0;
    rates_.slopes[i].damping.colwise().squaredNorm().maxCoeff(&column);
    const double weight = (i % 2 == 0 ? 1.0 : -1.0) * (0.75 + 0.5 * std::fmod(0.618 * static_cast<double>(i), 1.0));
    add(scene, sites_[z(rates_.slopes[i].site)], weight * rates_.slopes[i].damping.col(column), scratch_.applied);
  }
  double size = constrained_response(scene, scratch_.applied, rates_.velocity), rate = 0;
  for (int k = 0; k < most_iterations && size > 0 && std::isfinite(size); ++k) {
    for (double& v : rates_.velocity) v /= size;
    std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
    for (const Slope& s : rates_.slopes)
      add(scene, sites_[z(s.site)], s.damping * twist(scene, sites_[z(s.site)], rates_.velocity), scratch_.applied);
    size = constrained_response(scene, scratch_.applied, rates_.velocity);
    const bool done = std::fabs(size - rate) <= settled * size || size < 0.3 * from;
    rate = size;
    if (done && k + 1 >= least_iterations) break;
  }
  return margin * rate;
}

/// @return the index in efforts of the smooth law with the largest power at the velocities rates_.velocity, or −1
int LawSolver::stiffest_of_slopes(const Scene& scene) const {
  double most = 0;
  int which = -1;
  for (const Slope& s : rates_.slopes) {
    const Vector6d u = twist(scene, sites_[z(s.site)], rates_.velocity);
    if (const double power = std::fabs(u.dot(s.damping * u)) + 1e-9 * u.norm() * (s.damping * u).norm(); power > most)
      most = power, which = s.effort;
  }
  return which;
}

void LawSolver::find_rate(const Scene& scene, double from) {
  if (sites_.empty() || !(report.rate > from)) return;
  rates_.velocity.resize(scratch_.applied.size());
  // Poses hardly change within a substep, so the ratio of a rate to its bound is kept.
  const auto find = [&](double& rate, double& ratio, const auto& found) {
    if (!(rate > from)) return;
    const double bound = rate;
    if (!(ratio * bound <= from)) ratio = std::min(1.0, found() / bound);
    rate = ratio * bound;
  };
  find(rates_.smooth, rates_.smooth_ratio, [&] { return rate_of_smooth(scene, from); });
  find(rates_.turning, rates_.turning_ratio, [&] {
    return margin_of_turning * bound_of_turning([&](const UnknownTerm& p) { return mobility_across(scene, p); });
  });
  update_rate();
}

/// Computes the rate of the smooth laws. Laws with an internal state keep their bound.
double LawSolver::rate_of_smooth(const Scene& scene, double from) {
  rates_.slopes.clear();
  for (const SmoothTerm& s : smooth_terms_)
    if (s.slip_implicit && s.memory < 0 && s.rate > 0) rates_.slopes.push_back({s.site, s.effort, s.slope});
  if (rates_.slopes.empty()) return rates_.smooth;  // of compliance, or of laws with an internal state
  const double found = fastest_of_slopes(scene, from);
  const int which = stiffest_of_slopes(scene);
  if (which >= 0 && found > rates_.memory_bound) rates_.stiffest = which;
  return std::max(found + rates_.memory_bound, rates_.row_bound);
}

/// @return the displacement of an element across its slip by a unit effort across its slip, on the constrained motion
/// [1/kg or 1/(kg·m²)]
double LawSolver::mobility_across(const Scene& scene, const UnknownTerm& p) {
  const Vector6d along = p.slip.normalized();
  double sum = 0;
  for (int k = 0; k < (p.dim == 2 ? 1 : p.dim); ++k) {
    const Vector6d across = p.dim == 2 ? Vector6d(-along[1] * Vector6d::Unit(0) + along[0] * Vector6d::Unit(1))
                                       : Vector6d(Vector6d::Unit(k) - along[k] * along);
    std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
    add(scene, sites_[z(p.site)], p.basis * across, scratch_.applied);
    sum += std::pow(constrained_response(scene, scratch_.applied, rates_.velocity), 2);
  }
  return sum;
}

/// The rate of friction that turns with its slip belongs to no single law.
void LawSolver::update_rate() {
  const bool turning = rates_.turning > rates_.smooth;
  report.rate = turning ? rates_.turning : rates_.smooth;
  report.stiffest = turning ? -1 : rates_.stiffest;
}

}  // namespace linchpin
