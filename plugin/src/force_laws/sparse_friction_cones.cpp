// Interior-point method for friction in the sparse structure of a mechanism. It follows the central path of the convex
// problem with the bounds of dry blocks as second-order cones, with the scaling of Nesterov and Todd and the predictor
// and corrector of Mehrotra. Its number of iterations hardly depends on the number of blocks. The active-set method
// ends it.
#include "force_laws/friction_problem_impl.h"
#include "force_laws/sparse_friction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

/// Blocks whose bound is a smaller part of the largest one have no effort.
constexpr double negligible_bound = 1e-15;
/// Slip within which a block at rest may be held, relative to the slip by which the path is from the corner.
constexpr double hold_range = 15;
/// A block sticks or slides clearly if the ratio of its margins is below this.
constexpr double clear = 1e-3;

}  // namespace

ConeVector SparseFriction::cone_effort(std::size_t k, std::span<const double> z) const {
  const Block& b = (*blocks_)[k];
  ConeVector x = ConeVector::Zero();
  x[0] = cones_[k].bound;
  for (int i = 0; i < b.dim; ++i) x[1 + i] = z[z_(b.start + i)];
  return x;
}

ConeVector SparseFriction::cone_slip(std::size_t k) const {
  ConeVector s = cone_effort(k, slips_);
  s[0] = cones_[k].top;
  return s;
}

ConeVector SparseFriction::cone_effort_step(std::size_t k) const {
  ConeVector d = cone_effort(k, dz_);
  d[0] = 0;
  return d;
}

ConeVector SparseFriction::cone_slip_step(std::size_t k) const {
  ConeVector d = cone_effort(k, du_);
  d[0] = cones_[k].top_step;
  return d;
}

/// The mean product of efforts and slips in their cones after a part of the step. It is 0 at the solution.
double SparseFriction::mean_gap(std::span<const double> z, double part) const {
  double sum = 0;
  int count = 0;
  for (std::size_t k = 0; k < cones_.size(); ++k) {
    if (!cones_[k].inside) continue;
    sum += (cone_effort(k, z) + part * cone_effort_step(k)).dot(cone_slip(k) + part * cone_slip_step(k));
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

/// The largest part of the step, at most 1, after which all points are in their cones.
double SparseFriction::part_within_cones(std::span<const double> z) const {
  double part = 1;
  for (std::size_t k = 0; k < cones_.size(); ++k) {
    if (!cones_[k].inside) continue;
    part = std::min(part, step_to_cone_boundary(cone_effort(k, z), cone_effort_step(k)));
    part = std::min(part, step_to_cone_boundary(cone_slip(k), cone_slip_step(k)));
  }
  return part;
}

/// Starts at dry efforts of zero, in the axis of their cones, with slips well inside theirs.
void SparseFriction::enter_cones(Laws& laws, std::span<double> z) {
  cones_.assign(blocks_->size(), Cone{});
  double most = 0;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (!has_modes(b)) continue;
    cones_[k].bound = laws.sliding(static_cast<int>(k), b.known, std::max(size_of(b, slips_), 1e-300));
    if (b.at_rest) cones_[k].bound = std::max(cones_[k].bound, laws.holding(static_cast<int>(k), b.known));
    most = std::max(most, cones_[k].bound);
    std::fill_n(z.begin() + b.start, b.dim, 0.0);
  }
  find_slips(z);
  double sum = 0;
  int count = 0;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Cone& cone = cones_[k];
    cone.inside = cone.bound > negligible_bound * most;
    if (cone.inside) sum += cone.bound * size_of((*blocks_)[k], slips_), ++count;
  }
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Cone& cone = cones_[k];
    if (cone.inside) cone.top = size_of((*blocks_)[k], slips_) + sum / count / cone.bound;
  }
}

/// Sets the bounds of the laws at the present slips. Efforts beyond a bound that has decreased are reduced with it.
void SparseFriction::update_cone_bounds(Laws& laws, std::span<double> z, double gap) {
  bool reduces = false;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Cone& cone = cones_[k];
    if (!cone.inside) continue;
    const Block& b = (*blocks_)[k];
    const int id = static_cast<int>(k);
    const double speed = size_of(b, slips_);
    double bound = laws.sliding(id, b.known, std::max(speed, 1e-300));
    if (b.at_rest && speed * cone.bound <= hold_range * gap) bound = std::max(bound, laws.holding(id, b.known));
    for (int i = b.start; bound < cone.bound && i < b.start + b.dim; ++i) z[z_(i)] *= bound / cone.bound;
    reduces = reduces || bound < cone.bound;
    cone.bound = bound;
    cone.inside = bound > 0;
  }
  if (!reduces) return;
  respond_to_efforts(z);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const double before = size_of(b, slips_);
    for (int i = b.start; i < b.start + b.dim; ++i) slips_[z_(i)] = slip0_[z_(i)] + du_[z_(i)];
    cones_[k].top += std::max(0.0, size_of(b, slips_) - before);
  }
}

/// Finds the step towards the points with the product `target`. @param corrects  include the second-order terms
void SparseFriction::find_cone_step(std::span<const double> z, double target, bool corrects) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const Cone& cone = cones_[k];
    if (!has_modes(b)) continue;  // Their residuals are those of their linear form.
    if (!cone.inside) {
      for (int i = b.start; i < b.start + b.dim; ++i) F_[z_(i)] = z[z_(i)];
      continue;
    }
    const ConeVector l = cone.scaling.scale(cone_effort(k, z));
    ConeVector wanted = -cone_product(l, l);
    wanted[0] += target;
    if (corrects) wanted -= cone.correction;
    const ConeVector right = cone.scaling.scale(cone_quotient(l, wanted));
    for (int i = 0; i < b.dim; ++i) F_[z_(b.start + i)] = -right[1 + i];
    cones_[k].top_step = right[0];
  }
  in_directions(F_, trial_F_);
  update(trial_F_);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Cone& cone = cones_[k];
    if (!cone.inside) continue;
    const ConeScaling& scaling = cone.scaling;
    const ConeVector dx = cone_effort_step(k);
    cone.top_step -= 2 * scaling.ratio() * scaling.w()[0] * scaling.w().dot(dx);
    if (!corrects) cone.correction = cone_product(scaling.scale(dx), scaling.scale_dual(cone_slip_step(k)));
  }
}

/// Linearises all blocks, factors once, and finds the step along the central path. @return whether that succeeded
bool SparseFriction::find_central_step(Laws& laws, std::span<const double> z, double gap, Result& result) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    Linear& to = linear_[k];
    if (!has_modes(b)) {
      b.is_smooth() ? linearize_smooth(laws, k, z, slips_, F_, to) : linearize_dry(laws, k, z, slips_, F_, to);
      continue;
    }
    to = {};
    if (!cones_[k].inside) {
      for (std::size_t i = 0; i < z_(b.dim); ++i) to.axes[i][i] = to.scale[i] = 1;
      continue;
    }
    const ConeScaling& scaling = cones_[k].scaling = ConeScaling(cone_effort(k, z), cone_slip(k));
    Six w{};
    for (int i = 0; i < b.dim; ++i) w[z_(i)] = scaling.w()[1 + i];
    const double size = norm(w), gamma = mobility(b);
    reflect_to(w, size, z_(b.dim), to.axes);
    for (std::size_t i = 0; i < z_(b.dim); ++i) {
      const double stiffness = scaling.ratio() * (i == 0 ? 1 + 2 * size * size : 1);
      to.d[i] = gamma / (gamma + stiffness);
      to.scale[i] = 1 / (gamma + stiffness);
    }
  }
  if (!factor(result, same)) return false;
  find_cone_step(z, 0, false);
  const double predicted = mean_gap(z, part_within_cones(z)) / gap;
  find_cone_step(z, std::pow(std::clamp(predicted, 0.0, 1.0), 3) * gap, true);
  result.solves += 2;
  return true;
}

/// How far a block is from where it may both stick and slide: its slip, and the effort that its bound leaves, as a
/// slip.
SparseFriction::Margins SparseFriction::margins(std::size_t k, std::span<const double> z) const {
  const Block& b = (*blocks_)[k];
  return {(cones_[k].bound - size_of(b, z)) * mobility(b), cones_[k].top + size_of(b, slips_)};
}

/// Blocks stick that are nearer to rest than to their bound. @return whether that is clear for all of them
bool SparseFriction::choose_modes_by_cones(std::span<const double> z) {
  using Mode = FrictionProblem::Mode;
  bool all_clear = true;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Block& b = (*blocks_)[k];
    if (!has_modes(b)) continue;
    const Margins m = margins(k, z);
    b.mode = cones_[k].inside && m.bound > m.slip ? Mode::sticks : Mode::slips;
    all_clear = all_clear && (!cones_[k].inside || m.ratio() < clear);
  }
  return all_clear;
}

/// Ends at the present point of the path, where rounding of the slips hides which modes the undecided blocks have.
/// The active-set method may satisfy their laws better. @return whether the laws are satisfied but for that rounding
bool SparseFriction::accept_cones(Laws& laws, std::span<double> z, Result& result) {
  constexpr double acceptable = 1e-4;
  constexpr int few_steps = 10;
  kept_path_z_.assign(z.begin(), z.end());
  kept_path_u_ = slips_;
  find_undecided(z);
  if (settle_undecided(laws, z, result)) return true;
  std::copy(kept_path_z_.begin(), kept_path_z_.end(), z.begin());
  slips_ = kept_path_u_;
  choose_modes_by_cones(z);
  if (follow_active_set(laws, z, result, Reactions::fixed, few_steps)) return true;
  accepted_ = natural_residual(laws, z, result);
  if (accepted_ <= acceptable) return true;
  accepted_ = 0;
  return false;
}

/// Follows the central path until the active-set method ends from there. @return whether the laws are satisfied
bool SparseFriction::follow_central_path(Laws& laws, std::span<double> z, Result& result) {
  constexpr int most = 60, few_steps = 6;
  constexpr double small = 1e-7, slow = 0.5;
  enter_cones(laws, z);
  double scale = 0, last = 0;
  int tries = 0, slow_steps = 0;
  for (int iteration = 0; iteration < most; ++iteration) {
    std::fill(dz_.begin(), dz_.end(), 0.0);
    std::fill(du_.begin(), du_.end(), 0.0);
    for (Cone& cone : cones_) cone.top_step = 0;
    const double gap = mean_gap(z, 0);
    if (iteration == 0) scale = gap;
    // Rounding may put a point on the boundary of its cone. The point before it is then the end of the path.
    const bool is_lost = !std::isfinite(gap);
    if (is_lost && (iteration == 0 || !(last <= small * scale))) return false;
    if (is_lost) {
      std::copy(kept_path_z_.begin(), kept_path_z_.end(), z.begin());
      slips_ = kept_path_u_;
      for (Cone& cone : cones_) cone.top = cone.kept_top;
      return accept_cones(laws, z, result);
    }
    // In the end only rounding of the slips keeps the product from 0.
    slow_steps = gap > slow * last ? slow_steps + 1 : 0;
    const bool ends = gap <= small * scale && slow_steps >= 2;
    if ((choose_modes_by_cones(z) && tries < 2) || ends) {
      if (ends) return accept_cones(laws, z, result);
      if (follow_active_set(laws, z, result, Reactions::fixed, few_steps)) return true;
      ++tries;
    }
    last = gap;
    update_cone_bounds(laws, z, gap);
    if (!find_central_step(laws, z, gap, result)) return false;
    const double part = std::min(1.0, 0.99 * part_within_cones(z));
    kept_path_z_.assign(z.begin(), z.end());
    kept_path_u_ = slips_;
    take_step(part, z);
    for (Cone& cone : cones_) {
      cone.kept_top = cone.top;
      cone.top += part * cone.top_step;
    }
  }
  return false;
}

}  // namespace linchpin::detail
