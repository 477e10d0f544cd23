// Blocks may stick or slide where the end of the central path does not show which. Such blocks are few. Their problem
// is small and dense, with all other blocks responding in their modes, and FrictionProblem solves it.
#include "force_laws/friction_problem_impl.h"
#include "force_laws/sparse_friction.h"

#include <algorithm>
#include <cmath>

namespace linchpin::detail {
namespace {

/// A block is decided if the ratio of its margins is at most this.
constexpr double decided = 1e-5;
/// Largest number of unknowns that are solved together.
constexpr int most_undecided = 150;

/// The laws of the undecided blocks, by their numbers in the small problem.
class UndecidedLaws final : public FrictionProblem::Laws {
 public:
  UndecidedLaws(FrictionProblem::Laws& all, std::span<const int> blocks) : all_(all), blocks_(blocks) {}
  double holding(int k, const Six& thrust) override { return all_.holding(blocks_[z_(k)], thrust); }
  double sliding(int k, const Six& thrust, double speed) override {
    return all_.sliding(blocks_[z_(k)], thrust, speed);
  }
  void effort(int k, const Six& thrust, const Six& slip, double* out) override {
    all_.effort(blocks_[z_(k)], thrust, slip, out);
  }
  bool reactions_allowed(std::span<const Six>) override { return true; }

 private:
  FrictionProblem::Laws& all_;
  std::span<const int> blocks_;
};

}  // namespace

/// Finds the blocks of which the present point does not show clearly whether they stick.
void SparseFriction::find_undecided(std::span<const double> z) {
  undecided_.clear();
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if (cones_[k].inside && margins(k, z).ratio() > decided) undecided_.push_back(static_cast<int>(k));
  }
}

/// Poses the problem of the undecided blocks, to which all others respond in their modes. @return false if it is too
/// large
bool SparseFriction::pose_undecided(std::span<const double> z) {
  int size = 0;
  for (const int k : undecided_) size += (*blocks_)[z_(k)].dim;
  if (size == 0 || size > most_undecided) return false;
  small_.reset(size, 1);
  small_z_.resize(z_(size));
  int start = 0;
  for (const int k : undecided_) {
    Block& b = small_.blocks.emplace_back((*blocks_)[z_(k)]);
    b.start = start;
    b.site = 0;
    b.resolved = false;
    start += b.dim;
  }
  for (std::size_t k = 0, j = 0; k < undecided_.size(); ++k) {
    const Block& b = (*blocks_)[z_(undecided_[k])];
    for (int i = b.start; i < b.start + b.dim; ++i, ++j) {
      small_z_[j] = z[z_(i)];
      std::fill(trial_F_.begin(), trial_F_.end(), 0.0);
      trial_F_[z_(i)] = -1;
      update(trial_F_);
      int row = 0;
      for (const int other : undecided_)
        for (int r = 0; r < (*blocks_)[z_(other)].dim; ++r)
          small_.W(row++, static_cast<int>(j)) = du_[z_((*blocks_)[z_(other)].start + r)];
    }
  }
  int row = 0;
  for (const int k : undecided_)
    for (int r = 0; r < (*blocks_)[z_(k)].dim; ++r, ++row) {
      double slip = slips_[z_((*blocks_)[z_(k)].start + r)];
      for (int j = 0; j < size; ++j) slip -= small_.W(row, j) * small_z_[z_(j)];
      small_.slip0(row) = slip;
      small_.weight(row) = mobility((*blocks_)[z_(k)]);
    }
  return true;
}

/// Solves the problem of the undecided blocks, and then all blocks in the modes that it has. @return whether the laws
/// are satisfied
bool SparseFriction::settle_undecided(Laws& laws, std::span<double> z, Result& result) {
  constexpr int rounds = 4, few_steps = 6;
  constexpr double exact = 1e-13;
  UndecidedLaws laws_of_undecided(laws, undecided_);
  for (int round = 0; round < rounds; ++round) {
    residuals(laws, z, slips_, F_, result);
    for (const int k : undecided_) {
      const Block& b = (*blocks_)[z_(k)];
      Linear& to = linear_[z_(k)];
      to = {};
      for (int i = 0; i < b.dim; ++i) to.axes[z_(i)][z_(i)] = to.scale[z_(i)] = 1, F_[z_(b.start + i)] = 0;
    }
    if (!std::isfinite(largest(F_)) || !factor(result, same)) return false;
    in_directions(F_, trial_F_);
    update(trial_F_);
    const double change = largest(dz_);
    take_step(1, z);
    if (!pose_undecided(z)) return false;
    result.solves += 2 + static_cast<int>(small_z_.size());
    small_.solve(laws_of_undecided, small_z_, true, FrictionProblem::Choice::continuous);
    std::fill(trial_F_.begin(), trial_F_.end(), 0.0);
    for (std::size_t k = 0, j = 0; k < undecided_.size(); ++k) {
      Block& b = (*blocks_)[z_(undecided_[k])];
      b.mode = small_.blocks[k].mode;
      for (int i = b.start; i < b.start + b.dim; ++i, ++j) trial_F_[z_(i)] = z[z_(i)] - small_z_[j];
    }
    update(trial_F_);
    take_step(1, z);
    if (round > 0 && std::max(change, largest(dz_)) <= exact * largest(z)) break;
  }
  return follow_active_set(laws, z, result, Reactions::fixed, few_steps);
}

}  // namespace linchpin::detail
