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
/// from least norm to the limit. @param anyhow  accepts a utilisation above 1, too. @return whether elements are
/// redundant, and z is within all bounds
bool FrictionProblem::share(Laws& laws, std::span<double> z, bool anyhow) {
  const auto open = [](const Block& b) { return !b.smooth && !b.given && !b.slip_prescribed && b.at_rest; };
  if (std::count_if(blocks.begin(), blocks.end(), open) < 2) return false;
  std::copy(z.begin(), z.end(), kept_.begin());
  const auto refuse = [&] {
    std::copy(kept_.begin(), kept_.end(), z.begin());
    return false;
  };
  for (const Block& b : blocks)
    for (int i = b.start; open(b) && i < b.start + b.dim; ++i) z[z_(i)] = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b)
    if (blocks[b].given) update_block(laws, b, z);

  // Puts efforts of all kinds on one scale, which is the same for all of a block.
  const std::size_t n = z_(size_);
  double* const L = LU_.data();  // [n × rank], rows of n.
  part_.assign(blocks.size(), 0.0);
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const Block& b = blocks[k];
    double most = 0;
    for (int i = b.start; open(b) && i < b.start + b.dim; ++i) most = std::max(most, weight_[z_(i)]);
    part_[k] = most > 0 ? 1 / std::sqrt(most) : 0;
    for (int i = b.start; i < b.start + b.dim; ++i) freed_[z_(i)] = part_[k] * slip(i, z);
  }
  std::size_t rank = 0, directions = 0;
  for (std::size_t k = 0; k < blocks.size(); ++k)
    for (int i = blocks[k].start; i < blocks[k].start + blocks[k].dim; ++i) {
      x_[z_(i)] = part_[k] * part_[k] * W_[at(i, i)];  // Remaining diagonal.
      last_[z_(i)] = part_[k];
      directions += part_[k] > 0;
    }
  const double cut = 1e-9 * largest(x_);
  for (; rank < n; ++rank) {  // Cholesky with pivots.
    const std::size_t p = static_cast<std::size_t>(std::max_element(x_.begin(), x_.end()) - x_.begin());
    if (!(x_[p] > cut)) break;
    const double pivot = std::sqrt(x_[p]);
    row_[rank] = static_cast<int>(p);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = last_[i] * last_[p] * 0.5 * (W_[i * n + p] + W_[p * n + i]);
      for (std::size_t k = 0; k < rank; ++k) sum -= L[i * n + k] * L[p * n + k];
      L[i * n + rank] = sum / pivot;
      x_[i] -= L[i * n + rank] * L[i * n + rank];
    }
    x_[p] = 0;
  }
  if (rank == directions || rank == 0) return refuse();  // Nothing is redundant.
  std::span<double> c = try_, y = gives_way_, g = F_;
  for (std::size_t k = 0; k < rank; ++k) {
    double sum = -freed_[z_(row_[k])];
    for (std::size_t j = 0; j < k; ++j) sum -= L[z_(row_[k]) * n + j] * c[j];
    c[k] = sum / L[z_(row_[k]) * n + k];
  }

  double* const H = J_.data();
  const auto slips_of = [&](const Block& b) {
    Six s{};
    for (int i = 0; i < b.dim; ++i)
      for (std::size_t k = 0; k < rank; ++k) s[z_(i)] += L[z_(b.start + i) * n + k] * y[k];
    return s;
  };
  // Sets efforts −scale · slips and returns the largest utilisation of a bound. The efforts may change the bounds,
  // which are stored.
  radius_.assign(blocks.size(), 0.0);
  const auto take = [&](auto scale) {
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (!(part_[k] > 0)) continue;
      const Six s = slips_of(blocks[k]);
      for (int i = 0; i < blocks[k].dim; ++i) z[z_(blocks[k].start + i)] = -part_[k] * scale(k, s) * s[z_(i)];
    }
    double worst = 0;
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const Block& b = blocks[k];
      if (!(part_[k] > 0)) continue;
      const double bound = laws.holding(static_cast<int>(k), read(b, z));
      double effort = 0;
      for (int i = b.start; i < b.start + b.dim; ++i) effort += z[z_(i)] * z[z_(i)];
      effort = std::sqrt(effort);
      worst = std::max(worst, effort > 0 ? effort / std::max(bound, 1e-300) : 0);
      radius_[k] = bound / part_[k];
    }
    return worst;
  };
  for (std::size_t i = 0; i < rank; ++i) {
    y[i] = -c[i];
    for (std::size_t j = 0; j < rank; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += L[k * n + i] * L[k * n + j];
      H[i * n + j] = sum;
    }
  }
  factor_definite(H, rank, n);
  solve_definite(H, y.data(), rank, n);
  constexpr double within = 1 + 1e-13;
  double worst = take([](std::size_t, const Six&) { return 1.0; });  // Least norm.
  if (worst <= within) return true;
  if (!std::isfinite(worst)) return refuse();
  double along = 0;
  for (std::size_t k = 0; k < rank; ++k) along -= c[k] * y[k];
  if (!(along > 0)) return refuse();
  for (std::size_t k = 0; k < rank; ++k) y[k] /= along;
  double size = 0;
  for (const Block& b : blocks)
    if (open(b)) size = std::max(size, norm(slips_of(b)));

  const auto rounded_power = [&](double round) {
    double sum = 0;
    for (std::size_t k = 0; k < blocks.size(); ++k)
      if (part_[k] > 0) sum += radius_[k] * std::hypot(norm(slips_of(blocks[k])), round);
    return sum;
  };
  constexpr double sharp = 1e-13;
  int settled = 0;
  for (double round = size; settled < 20; round = std::max(0.2 * round, sharp * size)) {
    double power = rounded_power(round), nu = 0;
    for (int step = 0; step < 30; ++step) {
      std::fill_n(g.begin(), rank, 0.0);
      for (std::size_t i = 0; i < rank; ++i) std::fill_n(H + i * n, rank, 0.0);
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        const Block& b = blocks[k];
        if (!(radius_[k] > 0)) continue;
        const Six s = slips_of(b);
        const double d = std::hypot(norm(s), round), r = radius_[k] / d;
        const auto row = [&](int i) { return L + z_(b.start + i) * n; };
        const auto add = [&](double weight, auto kinds) {
          for (std::size_t j = 0; j < rank; ++j)
            for (std::size_t l = 0; l <= j; ++l) H[j * n + l] += weight * kinds(j) * kinds(l);
        };
        for (int i = 0; i < b.dim; ++i) {
          for (std::size_t j = 0; j < rank; ++j) g[j] += r * s[z_(i)] * row(i)[j];
          // I − s sᵀ/d², written without cancellation.
          add(r * (round / d) * (round / d), [&](std::size_t j) { return row(i)[j]; });
          for (int o = 0; o < i; ++o)
            add(r, [&](std::size_t j) { return (s[z_(i)] * row(o)[j] - s[z_(o)] * row(i)[j]) / d; });
        }
      }
      // The step has no component along c, so H may have any curvature there. It gets as much as elsewhere.
      double curvature = 0, square = 0;
      for (std::size_t k = 0; k < rank; ++k) curvature = std::max(curvature, H[k * n + k]), square += c[k] * c[k];
      for (std::size_t j = 0; j < rank; ++j)
        for (std::size_t l = 0; l <= j; ++l) H[j * n + l] += curvature / square * c[j] * c[l];
      // dy = −H⁻¹ g + a H⁻¹ c that keeps cᵀy.
      std::copy_n(g.begin(), rank, x_.begin());
      std::copy_n(c.begin(), rank, last_.begin());
      factor_definite(H, rank, n);
      solve_definite(H, x_.data(), rank, n);
      solve_definite(H, last_.data(), rank, n);
      double top = 0, bottom = 0, moves = 0, length = 0;
      for (std::size_t k = 0; k < rank; ++k) top += c[k] * x_[k], bottom += c[k] * last_[k];
      for (std::size_t k = 0; k < rank; ++k) {
        x_[k] = -x_[k] + top / bottom * last_[k];
        moves = std::max(moves, std::fabs(x_[k]));
        length = std::max(length, std::fabs(y[k]));
      }
      if (!std::isfinite(moves)) return refuse();
      const bool rounding = moves <= 1e-7 * length;
      double part = 1;
      for (;; part *= 0.5) {
        for (std::size_t k = 0; k < rank; ++k) y[k] += part * x_[k];
        const double now = rounded_power(round);
        const bool falls = now < power;
        power = now;
        if (falls || rounding || part < 1e-3) break;
        for (std::size_t k = 0; k < rank; ++k) y[k] -= part * x_[k];
      }
      if (moves <= (round > sharp * size ? 1e-3 : 4 * epsilon) * length || part < 1e-3) break;
    }
    double least = 0;  // Least power, without rounding.
    for (std::size_t k = 0; k < blocks.size(); ++k)
      if (radius_[k] > 0) {
        const double s = norm(slips_of(blocks[k]));
        nu += radius_[k] * s * s / std::hypot(s, round);
        least += radius_[k] * s;
      }
    if (!(nu > 0)) return refuse();
    const double before = worst;
    worst = take([&](std::size_t k, const Six& s) { return radius_[k] / (nu * std::hypot(norm(s), round)); });
    if (!std::isfinite(worst)) return refuse();
    // The utilisation is minimal where it is not above the value of the collapse motion. The bounds may have changed
    // with it.
    if (!(worst * least <= 1 + 1e-14) && round > sharp * size) continue;
    ++settled;
    if (std::fabs(worst - before) <= 4 * epsilon) break;
  }
  return worst <= within || anyhow || refuse();
}

/// Tests whether all elements at rest stay, each within its bound, with the efforts z of the last solution. Where loads
/// have changed, one correction redistributes them over redundant elements. This saves the search for modes, and a
/// factorisation where nothing changes. z is unchanged where an element starts to slide.
bool FrictionProblem::stays_at_rest(Laws& laws, std::span<double> z) {
  for (const Block& b : blocks)
    if (b.smooth || !(b.given || b.forced || (b.at_rest && !b.slip_prescribed))) return false;
  std::copy(z.begin(), z.end(), first_.begin());
  for (Block& b : blocks) b.mode = b.given ? Mode::slips : Mode::sticks;
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
    std::copy(first_.begin(), first_.end(), z.begin());
    return false;
  };
  // Largest relative contradiction between the slips of redundant elements, where constraints are met only to their
  // tolerance.
  constexpr double contradiction = 1e-8;
  // A remaining error would be the same in every step. So no error is accepted for few elements, where a correction is
  // cheap.
  constexpr int few_rows = 12;
  if (const double by = off(); by > (size_ > few_rows ? 16 * epsilon : 0)) {
    if (by > contradiction) share(laws, z), off();
    eliminate();
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += x_[i];
    if (!(off() <= contradiction)) return refuse();
    for (const Block& b : blocks)
      for (int i = b.start; b.given && i < b.start + b.dim; ++i)
        if (!(std::fabs(F_[z_(i)]) <= 1e-13 * largest(z))) return refuse();
  }
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    if (b.given || b.forced) continue;
    double square = 0;
    for (int i = b.start; i < b.start + b.dim; ++i) square += z[z_(i)] * z[z_(i)];
    if (!(std::sqrt(square) <= laws.holding(static_cast<int>(index), read(b, z)))) return refuse();
  }
  return true;
}

}  // namespace linchpin::detail
