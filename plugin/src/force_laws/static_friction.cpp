// Distribution of static friction over redundant elements at rest, and the test whether all stay at rest.
#include "force_laws/friction_problem_impl.h"

#include <algorithm>
#include <cmath>

namespace linchpin::detail {
namespace {

/// Factors A = C Cᵀ of a symmetric positive definite A [n × n, rows of `stride`], in its lower half. Pivots that may be
/// rounding are raised.
void factor_definite(double* A, std::size_t n, std::size_t stride) {
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, A[i * stride + i]);
  for (std::size_t j = 0; j < n; ++j) {
    double* row = A + j * stride;
    for (std::size_t i = 0; i <= j; ++i) {
      double sum = row[i];
      for (std::size_t k = 0; k < i; ++k) sum -= row[k] * A[i * stride + k];
      row[i] = i < j ? sum / A[i * stride + i] : std::sqrt(std::max(sum, epsilon * most));
    }
  }
}

/// x ← (C Cᵀ)⁻¹ x.
void solve_definite(const double* C, double* x, std::size_t n, std::size_t stride) {
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) x[j] -= C[j * stride + k] * x[k];
    x[j] /= C[j * stride + j];
  }
  for (std::size_t j = n; j-- > 0;) {
    for (std::size_t k = j + 1; k < n; ++k) x[j] -= C[k * stride + j] * x[k];
    x[j] /= C[j * stride + j];
  }
}

}  // namespace

/// Distributes static friction over redundant elements at rest, where it is statically indeterminate. Gauss–Seidel
/// would load the first one to its bound before it turns to the next. It converges slowly where the bounds are hardly
/// sufficient.
///
/// First z becomes the efforts of least norm that hold all elements. If these exceed bounds, z becomes the efforts
/// whose largest utilisation of a bound is least (limit analysis). With W = L Lᵀ the slips are L y, and efforts that
/// hold obey Lᵀz = c. The least utilisation is 1/ν, where ν is the least of Σ r |L y| over −cᵀy = 1. That y is the
/// motion of the collapse. The corners of the function are rounded with decreasing size (Newton), so the solution moves
/// from least norm to the limit. Blocks at rest are scaled by 1/√weight, so that efforts of all kinds are on one scale.
class FrictionProblem::StaticDistribution {
 public:
  StaticDistribution(FrictionProblem& problem, Laws& laws, std::span<double> z)
      : p_(problem),
        laws_(laws),
        z_(z),
        n_(static_cast<std::size_t>(problem.size_)),
        L_(problem.work_.LU.data()),
        H_(problem.work_.J.data()),
        c_(problem.work_.trial),
        y_(problem.static_.collapse),
        g_(problem.work_.F) {}

  /// @param anyhow  accepts a utilisation above 1, too. @return whether elements are redundant, and z is within all
  /// bounds. If not, z is unchanged.
  bool run(bool anyhow) {
    if (std::count_if(p_.blocks.begin(), p_.blocks.end(), at_rest) < 2) return false;
    std::copy(z_.begin(), z_.end(), p_.work_.kept.begin());
    if (distribute(anyhow)) return true;
    std::copy(p_.work_.kept.begin(), p_.work_.kept.end(), z_.begin());
    return false;
  }

 private:
  enum class Step { continues, converged, failed };
  static constexpr double within = 1 + 1e-13, sharp = 1e-13;

  static bool at_rest(const Block& b) { return !b.is_smooth() && !b.is_given() && !b.slip_prescribed && b.at_rest; }

  bool distribute(bool anyhow) {
    clear_efforts_at_rest();
    scale_blocks();
    if (!factor_compliance()) return false;
    solve_loads();
    double worst = set_least_norm();
    if (worst <= within) return true;
    if (!std::isfinite(worst) || !normalise_motion()) return false;
    return analyse_limit(worst) && (worst <= within || anyhow);
  }

  void clear_efforts_at_rest() {
    for (const Block& b : p_.blocks)
      for (int i = b.start; at_rest(b) && i < b.start + b.dim; ++i) z_[idx(i)] = 0;
    for (std::size_t b = 0; b < p_.blocks.size(); ++b)
      if (p_.blocks[b].is_given()) p_.update_block(laws_, b, z_);
  }

  /// Puts efforts of all kinds on one scale, which is the same for all of a block.
  void scale_blocks() {
    p_.static_.scale.assign(p_.blocks.size(), 0.0);
    for (std::size_t k = 0; k < p_.blocks.size(); ++k) {
      const Block& b = p_.blocks[k];
      double most = 0;
      for (int i = b.start; at_rest(b) && i < b.start + b.dim; ++i) most = std::max(most, p_.weight_[idx(i)]);
      p_.static_.scale[k] = most > 0 ? 1 / std::sqrt(most) : 0;
      for (int i = b.start; i < b.start + b.dim; ++i)
        p_.static_.free_slips[idx(i)] = p_.static_.scale[k] * p_.slip(i, z_);
    }
  }

  /// Factors W = L Lᵀ by Cholesky with pivots, L [n × rank] in rows of n. @return whether there is redundancy
  bool factor_compliance() {
    std::vector<double>&diagonal = p_.work_.x, &scale = p_.work_.last;  // Remaining diagonal; scale of each unknown.
    std::size_t directions = 0;
    for (std::size_t k = 0; k < p_.blocks.size(); ++k)
      for (int i = p_.blocks[k].start; i < p_.blocks[k].start + p_.blocks[k].dim; ++i) {
        diagonal[idx(i)] = p_.static_.scale[k] * p_.static_.scale[k] * p_.W_[p_.at(i, i)];
        scale[idx(i)] = p_.static_.scale[k];
        directions += p_.static_.scale[k] > 0;
      }
    const double cut = 1e-9 * largest(diagonal);
    for (rank_ = 0; rank_ < n_; ++rank_) {
      const std::size_t p =
          static_cast<std::size_t>(std::max_element(diagonal.begin(), diagonal.end()) - diagonal.begin());
      if (!(diagonal[p] > cut)) break;
      const double pivot = std::sqrt(diagonal[p]);
      p_.work_.row[rank_] = static_cast<int>(p);
      for (std::size_t i = 0; i < n_; ++i) {
        double sum = scale[i] * scale[p] * 0.5 * (p_.W_[i * n_ + p] + p_.W_[p * n_ + i]);
        for (std::size_t k = 0; k < rank_; ++k) sum -= L_[i * n_ + k] * L_[p * n_ + k];
        L_[i * n_ + rank_] = sum / pivot;
        diagonal[i] -= L_[i * n_ + rank_] * L_[i * n_ + rank_];
      }
      diagonal[p] = 0;
    }
    return rank_ != directions && rank_ != 0;
  }

  /// Computes c, the right side of Lᵀz = c.
  void solve_loads() {
    for (std::size_t k = 0; k < rank_; ++k) {
      const std::size_t row = idx(p_.work_.row[k]);
      double sum = -p_.static_.free_slips[row];
      for (std::size_t j = 0; j < k; ++j) sum -= L_[row * n_ + j] * c_[j];
      c_[k] = sum / L_[row * n_ + k];
    }
  }

  Six slips_of(const Block& b) const {
    Six s{};
    for (int i = 0; i < b.dim; ++i)
      for (std::size_t k = 0; k < rank_; ++k) s[idx(i)] += L_[idx(b.start + i) * n_ + k] * y_[k];
    return s;
  }

  /// Sets efforts −scale · slips and returns the largest utilisation of a bound. The efforts may change the bounds,
  /// which are stored.
  template <class Scale>
  double set_efforts(Scale scale) {
    for (std::size_t k = 0; k < p_.blocks.size(); ++k) {
      if (!(p_.static_.scale[k] > 0)) continue;
      const Six s = slips_of(p_.blocks[k]);
      for (int i = 0; i < p_.blocks[k].dim; ++i)
        z_[idx(p_.blocks[k].start + i)] = -p_.static_.scale[k] * scale(k, s) * s[idx(i)];
    }
    double worst = 0;
    for (std::size_t k = 0; k < p_.blocks.size(); ++k) {
      const Block& b = p_.blocks[k];
      if (!(p_.static_.scale[k] > 0)) continue;
      const double bound = laws_.holding(static_cast<int>(k), p_.read(b, z_));
      double effort = 0;
      for (int i = b.start; i < b.start + b.dim; ++i) effort += z_[idx(i)] * z_[idx(i)];
      effort = std::sqrt(effort);
      worst = std::max(worst, effort > 0 ? effort / std::max(bound, 1e-300) : 0);
      p_.work_.radius[k] = bound / p_.static_.scale[k];
    }
    return worst;
  }

  /// @return the largest utilisation of a bound
  double set_least_norm() {
    p_.work_.radius.assign(p_.blocks.size(), 0.0);
    for (std::size_t i = 0; i < rank_; ++i) {
      y_[i] = -c_[i];
      for (std::size_t j = 0; j < rank_; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < n_; ++k) sum += L_[k * n_ + i] * L_[k * n_ + j];
        H_[i * n_ + j] = sum;
      }
    }
    factor_definite(H_, rank_, n_);
    solve_definite(H_, y_.data(), rank_, n_);
    return set_efforts([](std::size_t, const Six&) { return 1.0; });
  }

  /// Scales y to −cᵀy = 1. @return whether that is possible
  bool normalise_motion() {
    double along = 0;
    for (std::size_t k = 0; k < rank_; ++k) along -= c_[k] * y_[k];
    if (!(along > 0)) return false;
    for (std::size_t k = 0; k < rank_; ++k) y_[k] /= along;
    slip_size_ = 0;
    for (const Block& b : p_.blocks)
      if (at_rest(b)) slip_size_ = std::max(slip_size_, norm(slips_of(b)));
    return true;
  }

  double rounded_power(double round) const {
    double sum = 0;
    for (std::size_t k = 0; k < p_.blocks.size(); ++k)
      if (p_.static_.scale[k] > 0) sum += p_.work_.radius[k] * std::hypot(norm(slips_of(p_.blocks[k])), round);
    return sum;
  }

  /// Finds the motion of the collapse, and sets its efforts. @param worst  in and out: largest utilisation of a bound.
  /// @return whether all numbers are finite
  bool analyse_limit(double& worst) {
    int settled = 0;
    for (double round = slip_size_; settled < 20; round = std::max(0.2 * round, sharp * slip_size_)) {
      double power = rounded_power(round), nu = 0;
      Step step = Step::continues;
      for (int k = 0; k < 30 && step == Step::continues; ++k) step = newton_step(round, power);
      if (step == Step::failed) return false;
      double least = 0;  // Least power, without rounding.
      for (std::size_t k = 0; k < p_.blocks.size(); ++k)
        if (p_.work_.radius[k] > 0) {
          const double s = norm(slips_of(p_.blocks[k]));
          nu += p_.work_.radius[k] * s * s / std::hypot(s, round);
          least += p_.work_.radius[k] * s;
        }
      if (!(nu > 0)) return false;
      const double before = worst;
      worst = set_efforts(
          [&](std::size_t k, const Six& s) { return p_.work_.radius[k] / (nu * std::hypot(norm(s), round)); });
      if (!std::isfinite(worst)) return false;
      // The utilisation is minimal where it is not above the value of the collapse motion. The bounds may have changed
      // with it.
      if (!(worst * least <= 1 + 1e-14) && round > sharp * slip_size_) continue;
      ++settled;
      if (std::fabs(worst - before) <= 4 * epsilon) break;
    }
    return true;
  }

  /// Makes one Newton step of y on the rounded power. @param power  in and out: its value
  Step newton_step(double round, double& power) {
    linearize_power(round);
    std::vector<double>&step = p_.work_.x, &along_c = p_.work_.last;
    // dy = −H⁻¹ g + a H⁻¹ c that keeps cᵀy.
    std::copy_n(g_.begin(), rank_, step.begin());
    std::copy_n(c_.begin(), rank_, along_c.begin());
    factor_definite(H_, rank_, n_);
    solve_definite(H_, step.data(), rank_, n_);
    solve_definite(H_, along_c.data(), rank_, n_);
    double top = 0, bottom = 0, moves = 0, length = 0;
    for (std::size_t k = 0; k < rank_; ++k) top += c_[k] * step[k], bottom += c_[k] * along_c[k];
    for (std::size_t k = 0; k < rank_; ++k) step[k] = -step[k] + top / bottom * along_c[k];
    remove_along_c(step);
    for (std::size_t k = 0; k < rank_; ++k) {
      moves = std::max(moves, std::fabs(step[k]));
      length = std::max(length, std::fabs(y_[k]));
    }
    if (!std::isfinite(moves)) return Step::failed;
    const bool rounding = moves <= 1e-7 * length;
    double part = 1;
    for (;; part *= 0.5) {
      for (std::size_t k = 0; k < rank_; ++k) y_[k] += part * step[k];
      const double now = rounded_power(round);
      const bool falls = now < power;
      power = now;
      if (falls || rounding || part < 1e-3) break;
      for (std::size_t k = 0; k < rank_; ++k) y_[k] -= part * step[k];
    }
    const bool converged = moves <= (round > sharp * slip_size_ ? 1e-3 : 4 * epsilon) * length || part < 1e-3;
    return converged ? Step::converged : Step::continues;
  }

  /// Removes the component along c from x. Where corners are hardly rounded, H is small, and the difference of two long
  /// vectors leaves a rounding along c that is longer than y.
  void remove_along_c(std::span<double> x) const {
    double along = 0, square = 0;
    for (std::size_t k = 0; k < rank_; ++k) along += c_[k] * x[k], square += c_[k] * c_[k];
    for (std::size_t k = 0; k < rank_; ++k) x[k] -= along / square * c_[k];
  }

  /// Computes the gradient g and the Hessian H of the rounded power at y.
  void linearize_power(double round) {
    std::fill_n(g_.begin(), rank_, 0.0);
    for (std::size_t i = 0; i < rank_; ++i) std::fill_n(H_ + i * n_, rank_, 0.0);
    for (std::size_t k = 0; k < p_.blocks.size(); ++k) {
      const Block& b = p_.blocks[k];
      if (!(p_.work_.radius[k] > 0)) continue;
      const Six s = slips_of(b);
      const double d = std::hypot(norm(s), round), r = p_.work_.radius[k] / d;
      const auto row = [&](int i) { return L_ + idx(b.start + i) * n_; };
      const auto add = [&](double weight, auto of) {
        for (std::size_t j = 0; j < rank_; ++j)
          for (std::size_t l = 0; l <= j; ++l) H_[j * n_ + l] += weight * of(j) * of(l);
      };
      for (int i = 0; i < b.dim; ++i) {
        for (std::size_t j = 0; j < rank_; ++j) g_[j] += r * s[idx(i)] * row(i)[j];
        // I − s sᵀ/d², written without cancellation.
        add(r * (round / d) * (round / d), [&](std::size_t j) { return row(i)[j]; });
        for (int o = 0; o < i; ++o)
          add(r, [&](std::size_t j) { return (s[idx(i)] * row(o)[j] - s[idx(o)] * row(i)[j]) / d; });
      }
    }
    // The step has no component along c, so H may have any curvature there. It gets as much as elsewhere.
    double curvature = 0, square = 0;
    for (std::size_t k = 0; k < rank_; ++k) curvature = std::max(curvature, H_[k * n_ + k]), square += c_[k] * c_[k];
    for (std::size_t j = 0; j < rank_; ++j)
      for (std::size_t l = 0; l <= j; ++l) H_[j * n_ + l] += curvature / square * c_[j] * c_[l];
  }

  static std::size_t idx(int i) { return static_cast<std::size_t>(i); }

  FrictionProblem& p_;
  Laws& laws_;
  std::span<double> z_;
  std::size_t n_, rank_ = 0;
  double* L_;
  double* H_;
  std::span<double> c_, y_, g_;
  double slip_size_ = 0;
};

bool FrictionProblem::distribute_static_friction(Laws& laws, std::span<double> z, bool anyhow) {
  return StaticDistribution(*this, laws, z).run(anyhow);
}

/// Tests whether all elements at rest stay, each within its bound, with the efforts z of the last solution. Where loads
/// have changed, one correction redistributes them over redundant elements. This saves the search for modes, and a
/// factorisation where nothing changes. z is unchanged where an element starts to slide.
bool FrictionProblem::stays_at_rest(Laws& laws, std::span<double> z) {
  for (const Block& b : blocks)
    if (b.is_smooth() || !(b.is_given() || b.is_forced() || (b.at_rest && !b.slip_prescribed))) return false;
  std::copy(z.begin(), z.end(), work_.first.begin());
  for (Block& b : blocks) b.mode = b.is_given() ? Mode::slips : Mode::sticks;
  const auto off = [&] {  // Relative to the terms of each slip.
    double worst = linearize(laws, z);
    for (const Block& b : blocks)
      for (int i = b.start; b.mode == Mode::sticks && i < b.start + b.dim; ++i) {
        double size = std::fabs(slip0_[z_(i)]), sum = slip0_[z_(i)];
        for (int j = 0; j < size_; ++j) {
          const double term = W_[at(i, j)] * z[z_(j)];
          sum += term;
          size += std::fabs(term);
        }
        if (sum != 0) worst = std::max(worst, std::fabs(sum) / size);
      }
    return worst;
  };
  const auto refuse = [&] {
    std::copy(work_.first.begin(), work_.first.end(), z.begin());
    return false;
  };
  // Largest relative contradiction between the slips of redundant elements, where constraints are met only to their
  // tolerance.
  constexpr double contradiction = 1e-8;
  // A remaining error would be the same in every step. So no error is accepted for few elements, where a correction is
  // cheap.
  constexpr int few_rows = 12;
  if (const double by = off(); by > (size_ > few_rows ? 16 * epsilon : 0)) {
    if (by > contradiction) distribute_static_friction(laws, z), off();
    eliminate();
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += work_.x[i];
    if (!(off() <= contradiction)) return refuse();
    for (const Block& b : blocks)
      for (int i = b.start; b.is_given() && i < b.start + b.dim; ++i)
        if (!(std::fabs(work_.F[z_(i)]) <= 1e-13 * largest(z))) return refuse();
  }
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    if (b.is_given() || b.is_forced()) continue;
    double square = 0;
    for (int i = b.start; i < b.start + b.dim; ++i) square += z[z_(i)] * z[z_(i)];
    if (!(std::sqrt(square) <= laws.holding(static_cast<int>(index), read(b, z)))) return refuse();
  }
  return true;
}

}  // namespace linchpin::detail
