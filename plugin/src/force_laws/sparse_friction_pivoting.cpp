// Newton in the modes of the last solution. Most steps change few modes, or none. Then one factorisation and some
// solves end the step. All modes that the result contradicts change at once (block principal pivoting; Júdice and
// Pires, Computers & Operations Research 21, 1994), as long as their number decreases. Reactions that laws read follow
// the efforts in each iteration.
#include "force_laws/friction_problem_impl.h"
#include "force_laws/sparse_friction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {

/// Lets the laws read the reactions that the present efforts make. Multipliers of redundant rows are not unique before
/// the whole problem is solved, so that such reactions stay. @return the largest relative change of a reaction
double SparseFriction::read_reactions(Laws& laws) {
  if (!solver_->full_row_rank()) return 0;
  read_.resize(blocks_->size());
  for (std::size_t k = 0; k < blocks_->size(); ++k) read_[k] = (*blocks_)[k].known;
  laws.read_reactions(lambda_);
  double most = 0;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (b.is_smooth() || b.known == read_[k]) continue;
    double off = 0, size = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      off = std::max(off, std::fabs(b.known[i] - read_[k][i]));
      size = std::max(size, std::fabs(b.known[i]));
    }
    most = std::max(most, off / size);
  }
  return most;
}

/// Changes the modes that z contradicts: blocks that stick beyond their bound, and blocks whose friction drives their
/// slip. @return their number
int SparseFriction::change_contradicted_modes(std::span<const double> z, double tolerance) {
  using Mode = FrictionProblem::Mode;
  int count = 0;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Block& b = (*blocks_)[k];
    if (!has_modes(b)) continue;
    if (b.mode == Mode::sticks) {
      if (!(size_of(b, z) > bounds_[k] * (1 + 1e-12) + tolerance)) continue;
      b.mode = Mode::slips;
    } else {
      double power = 0;
      for (int i = b.start; i < b.start + b.dim; ++i) power += z[z_(i)] * slips_[z_(i)];
      if (!(power > 0 && size_of(b, slips_) > tolerance * mobility(b) && bounds_[k] > tolerance)) continue;
      b.mode = Mode::sticks;
    }
    ++count;
  }
  return count;
}

/// Corrects the residual in trial_F_ for blocks that are linearised at the slips of the last solution, which the
/// efforts would not make now.
void SparseFriction::add_slip_change() {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const double gamma = mobility(b);
    for (int r = 0; r < b.dim; ++r) {
      double change = 0;
      for (int i = 0; i < b.dim; ++i)
        change += factored_[k].axes[z_(i)][z_(r)] * (slips_[z_(b.start + i)] - last_slips[z_(b.start + i)]);
      trial_F_[z_(b.start + r)] += factored_[k].d[z_(r)] / gamma * change;
    }
  }
}

/// @return whether the laws are satisfied. If not, z, the slips and the modes are unchanged.
bool SparseFriction::pivot_to_solution(Laws& laws, std::span<double> z, Result& result) {
  constexpr int most = 30, patience = 3;
  constexpr double rounding = 1e-12, exact = 1e-14, stalled = 1e-10, settled = 1e-2;
  kept_z_.assign(z.begin(), z.end());
  kept_u_ = slips_;
  kept_lambda_ = lambda_;
  kept_modes_.clear();
  for (const Block& b : *blocks_) kept_modes_.push_back(b.mode);
  double last = std::numeric_limits<double>::infinity();
  int least = std::numeric_limits<int>::max(), left = patience;
  for (int iteration = 0; iteration < most; ++iteration) {
    const double change = read_reactions(laws);
    const bool begins = iteration == 0 && last_slips.size() == z.size();
    double worst = residuals(laws, z, begins ? std::span<const double>(last_slips) : slips_, F_, result);
    if (!std::isfinite(worst)) break;
    for (std::size_t k = 0; k < blocks_->size(); ++k)
      if (has_modes((*blocks_)[k]) && (*blocks_)[k].mode == FrictionProblem::Mode::sticks)
        bounds_[k] = bound_of(laws, k, z, slips_);
    if (iteration > 0 && worst <= settled) {
      if (const int count = change_contradicted_modes(z, rounding * largest(z)); count > 0) {
        if (count < least)
          least = count, left = patience;
        else if (--left == 0)
          break;
        worst = residuals(laws, z, slips_, F_, result);
      } else if (std::max(worst, change) <= exact || (std::max(worst, change) <= stalled && worst > 0.1 * last)) {
        reads_at_solution_ = solver_->full_row_rank();
        return result.found = true;
      }
    }
    last = worst;
    if (!factor(result)) break;
    in_directions(F_, trial_F_);
    if (begins) add_slip_change();
    last_slips.clear();
    update(trial_F_);
    ++result.solves;
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] += dz_[i];
      slips_[i] += du_[i];
    }
    for (std::size_t r = 0; r < lambda_.size(); ++r) lambda_[r] += multipliers_[z_(constraint_rows_[r])];
  }
  std::copy(kept_z_.begin(), kept_z_.end(), z.begin());
  slips_ = kept_u_;
  lambda_ = kept_lambda_;
  read_reactions(laws);
  for (std::size_t k = 0; k < blocks_->size(); ++k) (*blocks_)[k].mode = kept_modes_[k];
  return false;
}

}  // namespace linchpin::detail
