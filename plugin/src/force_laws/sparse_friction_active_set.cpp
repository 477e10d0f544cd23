// Active-set methods for friction in the sparse structure of a mechanism. The modes of the blocks are the active set.
// A Newton step leads to the solution in the present modes. At its end, blocks that contradict their modes change them:
// block principal pivoting (Kostreva, Linear Algebra and its Applications 21, 1978; Júdice and Pires, Computers &
// Operations Research 21, 1994). Most steps of a motion change few modes, or none.
//
// Such whole steps may change modes in a cycle. Where they make no progress, the parametric active-set method goes on
// (Best, Applied Mathematics and Parallel Computing, 1996; Ferreau, Bock and Diehl, International Journal of Robust and
// Nonlinear Control 18, 2008). It begins at a problem that the present point solves exactly, which has other slips
// without efforts and other bounds. The step to the present problem ends where the first block contradicts its mode.
// That block changes its mode, and the next step leads on from there. Reactions that laws read follow the efforts in
// each iteration.
#include "force_laws/friction_problem_impl.h"
#include "force_laws/sparse_friction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

constexpr double rounding = 1e-12;  // Relative.
/// Reactions that are smaller parts of the largest one need not be as accurate as that. In a large mechanism, rounding
/// of large efforts makes errors in them.
constexpr double negligible = 1e-6;

}  // namespace

/// Lets the laws read the reactions that the present efforts make. @return the largest relative change of a reaction
double SparseFriction::read_reactions(Laws& laws) {
  read_.resize(blocks_->size());
  for (std::size_t k = 0; k < blocks_->size(); ++k) read_[k] = (*blocks_)[k].known;
  laws.read_reactions(lambda_);
  std::fill(bound_is_known_.begin(), bound_is_known_.end(), 0);
  double most = 0, largest = 0;
  for (const Block& b : *blocks_)
    for (const double x : b.known) largest = b.is_smooth() ? largest : std::max(largest, std::fabs(x));
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (b.is_smooth() || b.known == read_[k]) continue;
    double off = 0, size = negligible * largest;
    for (std::size_t i = 0; i < 6; ++i) {
      off = std::max(off, std::fabs(b.known[i] - read_[k][i]));
      size = std::max(size, std::fabs(b.known[i]));
    }
    most = std::max(most, off / size);
  }
  return most;
}

/// Returns true if a block holds more at rest than it resists while it slides. Such a block starts at rest.
bool SparseFriction::may_hold_more(Laws& laws, std::size_t index) const {
  const Block& b = (*blocks_)[index];
  const int id = static_cast<int>(index);
  return b.at_rest && laws.holding(id, b.known) > (1 + rounding) * laws.sliding(id, b.known, 1e-300);
}

/// Finds the bounds of the blocks that stick. The bound of a block at rest depends only on the reaction that it reads.
void SparseFriction::find_static_bounds(Laws& laws, std::span<const double> z) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (bound_is_known_[k] || !has_modes(b) || b.mode != FrictionProblem::Mode::sticks) continue;
    bounds_[k] = bound_of(laws, k, z, path_.slips);
    bound_is_known_[k] = b.at_rest;
  }
}

/// Begins at efforts z. Chooses slips and bounds that agree with them in the modes of the blocks.
void SparseFriction::begin_active_set(Laws& laws, std::span<const double> z) {
  using Mode = FrictionProblem::Mode;
  const bool known = last_slips.size() == z.size();
  path_.slips = known ? last_slips : slips_;
  path_.bounds.assign(blocks_->size(), 0.0);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Block& b = (*blocks_)[k];
    if (!has_modes(b)) continue;
    const double size = size_of(b, z);
    if (size == 0 && !known) b.mode = may_hold_more(laws, k) ? Mode::sticks : Mode::slips;
    const bool sticks = b.mode == Mode::sticks;
    if (sticks || (!known && size > 0)) {
      const double slip = sticks ? 0 : size_of(b, slips_) / size;
      for (int i = b.start; i < b.start + b.dim; ++i) path_.slips[z_(i)] = -slip * z[z_(i)];
    }
    path_.bounds[k] = size;
  }
  find_static_bounds(laws, z);
  for (std::size_t k = 0; k < blocks_->size(); ++k)
    if (has_modes((*blocks_)[k]) && (*blocks_)[k].mode == Mode::sticks)
      path_.bounds[k] = std::max(path_.bounds[k], bounds_[k]);
  last_slips.clear();
}

/// Marks the blocks at rest of a solution. A block that neither slips nor holds anything satisfies both modes.
void SparseFriction::mark_rest(std::span<const double> z) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    Block& b = (*blocks_)[k];
    if (has_modes(b) && size_of(b, path_.slips) <= rest_speed && size_of(b, z) <= bounds_[k])
      b.mode = FrictionProblem::Mode::sticks;
  }
}

/// Adds to the residual in trial_F_ what is still missing from the slips of the path.
void SparseFriction::add_missing_slips() {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const double gamma = mobility(b);
    for (int r = 0; r < b.dim; ++r) {
      if (factored_[k].sticks) {
        trial_F_[z_(b.start + r)] += (slips_[z_(b.start + r)] - path_.slips[z_(b.start + r)]) / gamma;
        continue;
      }
      double missing = 0;
      for (int i = b.start; i < b.start + b.dim; ++i)
        missing += factored_[k].axes[z_(i - b.start)][z_(r)] * (slips_[z_(i)] - path_.slips[z_(i)]);
      trial_F_[z_(b.start + r)] += factored_[k].d[z_(r)] / gamma * missing;
    }
  }
}

/// Returns the part of the step after which a block contradicts its mode. It sticks beyond its bound, or its friction
/// drives its slip. A block that does not do so at the end of the step returns infinity.
double SparseFriction::part_to_contradiction(std::size_t k, std::span<const double> z, double tolerance) const {
  const Block& b = (*blocks_)[k];
  const bool sticks = b.mode == FrictionProblem::Mode::sticks;
  // z·x with x = z or the slip, less the square of the bound of blocks that stick: a + 2 h t + c t².
  double a = 0, h = 0, c = 0, end = 0;
  for (std::size_t i = z_(b.start); i < z_(b.start + b.dim); ++i) {
    const double x = sticks ? z[i] : path_.slips[i], dx = sticks ? dz_[i] : path_.slip_steps[i];
    a += z[i] * x;
    h += 0.5 * (z[i] * dx + dz_[i] * x);
    c += dz_[i] * dx;
    end += (x + dx) * (x + dx);
  }
  end = std::sqrt(end);
  if (sticks) {
    const double last = bounds_[k] * (1 + rounding) + tolerance;
    const double bound = std::max(path_.bounds[k], std::sqrt(a)) + tolerance, step = last - bound;
    if (!(end > last)) return std::numeric_limits<double>::infinity();
    a -= bound * bound;
    h -= bound * step;
    c -= step * step;
  } else if (!(a + 2 * h + c > 0 && end > tolerance * mobility(b) && bounds_[k] > tolerance)) {
    return std::numeric_limits<double>::infinity();
  }
  if (a > 0) return 0;
  const double root = std::sqrt(std::max(0.0, h * h - a * c));
  const double t = h >= 0 ? -a / (h + root) : (root - h) / c;
  return std::isfinite(t) ? std::clamp(t, 0.0, 1.0) : 0;
}

/// Changes the modes of the blocks that contradict them first. @return the part of the step before that, at most 1
double SparseFriction::change_contradicted_modes(std::span<const double> z, double tolerance) {
  using Mode = FrictionProblem::Mode;
  constexpr double together = 1e-2;  // Blocks within this part of the step after the first one change with it.
  path_.parts.assign(blocks_->size(), std::numeric_limits<double>::infinity());
  double first = 1;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if (!has_modes((*blocks_)[k])) continue;
    path_.parts[k] = part_to_contradiction(k, z, tolerance);
    first = std::min(first, path_.parts[k]);
  }
  path_.has_changed = false;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if (!(path_.parts[k] <= first + together)) continue;
    Mode& mode = (*blocks_)[k].mode;
    mode = mode == Mode::sticks ? Mode::slips : Mode::sticks;
    bound_is_known_[k] = false;
    path_.has_changed = true;
  }
  return first;
}

/// Returns by how much a block contradicts its mode at the end of the step: the effort beyond its bound where it
/// sticks, and minus the slip where its friction drives it. A block that does not contradict its mode returns 0.
double SparseFriction::contradiction_at_end(std::size_t k, std::span<const double> z, double tolerance) const {
  const Block& b = (*blocks_)[k];
  double power = 0, effort = 0, slip = 0;  // The latter two are squares.
  for (std::size_t i = z_(b.start); i < z_(b.start + b.dim); ++i) {
    const double zi = z[i] + dz_[i], ui = path_.slips[i] + path_.slip_steps[i];
    power += zi * ui;
    effort += zi * zi;
    slip += ui * ui;
  }
  effort = std::sqrt(effort), slip = std::sqrt(slip);
  if (b.mode == FrictionProblem::Mode::sticks)
    return effort > bounds_[k] * (1 + rounding) + tolerance ? effort - bounds_[k] : 0;
  return power > 0 && slip > tolerance * mobility(b) && bounds_[k] > tolerance ? -slip : 0;
}

/// Changes the modes of blocks that contradict them at the end of the step. Several blocks of one body may stick beyond
/// their bounds. Only the one with the largest excess slides, because that relieves the others.
/// @return the number of all that contradict their modes
int SparseFriction::change_modes_at_end(std::span<const double> z, double tolerance) {
  using Mode = FrictionProblem::Mode;
  constexpr double relevant = 0.1;  // Excesses that are smaller parts of the largest one often vanish with it.
  std::fill(most_by_column_.begin(), most_by_column_.end(), 0.0);
  const auto each_body = [&](std::size_t k, const auto& visit) {
    for (const Direction::Part& part : direction((*blocks_)[k].start).parts)
      if (part.size > 0) visit(most_by_column_[z_(part.column)]);
  };
  double most = 0;
  int count = 0;
  path_.contradictions.assign(blocks_->size(), 0.0);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if (!has_modes((*blocks_)[k])) continue;
    const double off = path_.contradictions[k] = contradiction_at_end(k, z, tolerance);
    if (off == 0) continue;
    ++count;
    most = std::max(most, off);
    if (off > 0) each_body(k, [&](double& largest) { largest = std::max(largest, off); });
  }
  path_.has_changed = count > 0;
  for (std::size_t k = 0; k < blocks_->size() && count > 0; ++k) {
    const double off = path_.contradictions[k];
    bool changes = off < 0 || (off > 0 && off >= relevant * most);
    if (off > 0) each_body(k, [&](double largest) { changes = changes && off >= largest; });
    if (!changes) continue;
    (*blocks_)[k].mode = off > 0 ? Mode::slips : Mode::sticks;
    bound_is_known_[k] = false;
  }
  return count;
}

/// Moves by a part of the step. @return whether that is the whole step, in modes that it does not contradict
bool SparseFriction::take_part(double part, std::span<double> z) {
  take_step(part, z);
  for (std::size_t i = 0; i < z.size(); ++i) path_.slips[i] += part * path_.slip_steps[i];
  for (std::size_t k = 0; k < blocks_->size(); ++k) path_.bounds[k] += part * (bounds_[k] - path_.bounds[k]);
  for (std::size_t r = 0; r < lambda_.size(); ++r) lambda_[r] += part * multipliers_[z_(constraint_rows_[r])];
  if (part == 1) path_.slips = slips_;
  return part == 1 && !path_.has_changed;
}

/// Returns true if the blocks are factored in their present modes.
bool SparseFriction::is_factored_in_modes() const {
  if (!is_factored_) return false;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (has_modes(b) && (b.mode == FrictionProblem::Mode::sticks) != (factored_[k].d[0] == 1)) return false;
  }
  return true;
}

/// Counts the blocks that contradict their modes at the end of a whole step. @return whether such steps make progress
bool SparseFriction::WholeSteps::make_progress(int contradictions) {
  constexpr int first = 3;         // Steps after which the number shows whether there is progress.
  constexpr int persistence = 20;  // Steps after which it must have decreased.
  const bool fewer = ++count <= first || contradictions < fewest;
  if (fewer) fewest = contradictions;
  misses = fewer ? 0 : misses + 1;
  return misses < persistence;
}

/// @param reactions  whether those that the laws read follow the efforts  @param most  largest number of steps
/// @return whether the laws are satisfied. If not, z, the slips and the modes are unchanged.
bool SparseFriction::follow_active_set(Laws& laws, std::span<double> z, Result& result, Reactions reactions, int most) {
  constexpr double exact = 1e-14, stalled = 1e-10;
  constexpr double near = 1e-2, slow = 0.1;  // An old factor serves near the solution, unless progress is slow.
  constexpr double little = 1e-6;
  constexpr int most_parts = 40;  // Steps after the whole ones.
  constexpr int patience = 6;     // Steps in a row that lead on by little.
  kept_z_.assign(z.begin(), z.end());
  kept_u_ = slips_;
  kept_lambda_ = lambda_;
  kept_modes_.clear();
  for (const Block& b : *blocks_) kept_modes_.push_back(b.mode);
  // Multipliers of redundant rows are not unique before the whole problem is solved.
  const bool reads = reactions == Reactions::follow && solver_->full_row_rank();
  std::fill(bound_is_known_.begin(), bound_is_known_.end(), 0);
  double change = reads ? read_reactions(laws) : 0, last = std::numeric_limits<double>::infinity();
  begin_active_set(laws, z);
  path_.slip_steps.resize(z.size());
  bool arrived = false, is_old = false, is_whole = true;
  WholeSteps whole_steps;
  for (int iteration = 0, stays = 0; iteration < most && stays < patience; ++iteration) {
    if (reads && arrived) change = read_reactions(laws);
    const double worst = residuals(laws, z, path_.slips, F_, result), off = std::max(worst, change);
    if (!std::isfinite(worst)) break;
    if (arrived && (off <= exact || (off <= stalled && worst > 0.1 * last))) {
      reads_at_solution_ = reads;
      mark_rest(z);
      return result.found = true;
    }
    find_static_bounds(laws, z);
    is_old = (arrived || iteration == 0) && worst <= near && !(is_old && worst > slow * last) && is_factored_in_modes();
    if (!is_old && !factor(result, arrived || iteration == 0 ? same : similar)) break;
    last = worst;
    in_directions(F_, trial_F_);
    add_missing_slips();
    update(trial_F_);
    ++result.solves;
    for (std::size_t i = 0; i < z.size(); ++i) path_.slip_steps[i] = du_[i] + slips_[i] - path_.slips[i];
    const double tolerance = rounding * std::max(largest(z), largest(bounds_));
    const bool was_whole = is_whole;
    const double part = is_whole ? 1 : change_contradicted_modes(z, tolerance);
    if (is_whole) is_whole = whole_steps.make_progress(change_modes_at_end(z, tolerance));
    arrived = take_part(part, z);
    stays = part < little ? stays + 1 : 0;
    if (is_whole == was_whole) continue;
    begin_active_set(laws, z);
    arrived = false;
    most = iteration + most_parts;
  }
  std::copy(kept_z_.begin(), kept_z_.end(), z.begin());
  slips_ = kept_u_;
  lambda_ = kept_lambda_;
  if (reads) read_reactions(laws);
  for (std::size_t k = 0; k < blocks_->size(); ++k) (*blocks_)[k].mode = kept_modes_[k];
  return false;
}

}  // namespace linchpin::detail
