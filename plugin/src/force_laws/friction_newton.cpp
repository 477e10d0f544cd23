// Newton with fixed modes from the sweeps converges to round-off. It is the only method where reactions feed back so
// strongly that sweeps would diverge. On a problem with rounded corners it needs no modes.
#include "force_laws/friction_problem_impl.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {

// Computes d(law)/d(reaction) of one block by central differences, because laws are callables.
void FrictionProblem::derivatives(Laws& laws, int b, const Six& N, double speed, double size, Six& by_thrust,
                                  double& by_speed) {
  const double h = 1e-6 * std::max(size, 1e-6);
  for (std::size_t k = 0; k < 6; ++k) {
    Six up = N, down = N;
    up[k] += h;
    down[k] -= h;
    by_thrust[k] = (laws.sliding(b, up, speed) - laws.sliding(b, down, speed)) / (2 * h);
  }
  const double ds = 1e-5 * speed;
  by_speed = ds > 0 ? (laws.sliding(b, N, speed + ds) - laws.sliding(b, N, speed - ds)) / (2 * ds) : 0;
}

/// Computes F and J at z for the present modes. Without `turning`, slips count as fixed. @return the largest |F| of
/// laws, relative to the largest effort. `at_worst` receives its block.
double FrictionProblem::linearize(Laws& laws, std::span<const double> z, bool turning, int* at_worst) {
  std::fill(work_.J.begin(), work_.J.end(), 0.0);
  double worst = 0;
  const double size = std::max(largest(z), 1e-300);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    const int id = static_cast<int>(index);
    if (!b.is_smooth() && b.mode == Mode::sticks && !b.is_given()) {
      for (int i = b.start; i < b.start + b.dim; ++i) {
        work_.F[z_(i)] = slip(i, z) / b.mobility;
        for (int j = 0; j < size_; ++j) work_.J[at(i, j)] = W_[at(i, j)] / b.mobility;
      }
      continue;
    }
    const Six N = read(b, z);
    double thrust_size = 0;
    for (const double x : N) thrust_size = std::max(thrust_size, std::fabs(x));
    for (int i = 0; i < b.dim; ++i) work_.J[at(b.start + i, b.start + i)] = 1;
    if (b.is_smooth())
      linearize_smooth(laws, id, N, thrust_size, z, turning);
    else
      linearize_sliding(laws, id, N, thrust_size, z, turning);
    for (int i = b.start; i < b.start + b.dim; ++i) {
      if (!(std::fabs(work_.F[z_(i)]) / size > worst)) continue;
      worst = std::fabs(work_.F[z_(i)]) / size;
      if (at_worst != nullptr) *at_worst = id;
    }
  }
  return worst;
}

void FrictionProblem::linearize_smooth(Laws& laws, int id, const Six& N, double thrust_size, std::span<const double> z,
                                       bool turning) {
  const Block& b = blocks[z_(id)];
  Six f{};
  const Six u = slip_read(b, z);
  laws.effort(id, N, u, f.data());
  for (int i = 0; i < b.dim; ++i) work_.F[z_(b.start + i)] = z[z_(b.start + i)] - f[z_(i)];
  if (b.is_slip_implicit() && turning) {
    Square slope{};
    law_slopes(laws, id, z_(b.dim), N, u, slope);
    for (int i = 0; i < b.dim; ++i)
      for (int k = 0; k < b.dim; ++k) {
        if (slope[z_(i)][z_(k)] == 0) continue;
        for (int j = 0; j < size_; ++j)
          work_.J[at(b.start + i, j)] -= b.slip_fraction * slope[z_(i)][z_(k)] * W_[at(b.start + k, j)];
      }
  }
  const double h = 1e-6 * std::max(thrust_size, 1e-6);
  for (int k = 0; k < 6 && b.reaction_implicit; ++k) {
    Six up = N, down = N, f_up{}, f_down{};
    up[z_(k)] += h;
    down[z_(k)] -= h;
    laws.effort(id, up, u, f_up.data());
    laws.effort(id, down, u, f_down.data());
    for (int i = 0; i < b.dim; ++i) {
      const double slope = (f_up[z_(i)] - f_down[z_(i)]) / (2 * h);
      if (slope == 0) continue;
      for (int j = 0; j < size_; ++j) work_.J[at(b.start + i, j)] -= slope * K_[at(6 * b.site + k, j)];
    }
  }
}

void FrictionProblem::linearize_sliding(Laws& laws, int id, const Six& N, double thrust_size, std::span<const double> z,
                                        bool turning) {
  const Block& b = blocks[z_(id)];
  Six along = b.sense;
  double speed = b.speed;
  if (!b.is_given()) {
    speed = 0;
    for (int i = 0; i < b.dim; ++i) {
      along[z_(i)] = slip(b.start + i, z);
      speed += along[z_(i)] * along[z_(i)];
    }
    speed = std::sqrt(speed);
    double x = 0;
    for (int i = 0; i < b.dim; ++i) x += z[z_(b.start + i)] * z[z_(b.start + i)];
    // One of several redundant elements may be at its bound and yet not move, because the others hold it. Its slip is
    // then rounding without a direction, and the direction of its friction is used.
    if (slip_is_rounding(b, z)) speed = 0;
    for (int i = 0; i < b.dim; ++i)
      along[z_(i)] = speed > 0 ? along[z_(i)] / speed : x > 0 ? -z[z_(b.start + i)] / std::sqrt(x) : 0;
  }
  const double r = laws.sliding(id, N, std::max(speed, 1e-300));
  Six by_thrust{};
  double by_speed = 0;
  if (b.reaction_implicit || !b.is_given())
    derivatives(laws, id, N, std::max(speed, 1e-300), thrust_size, by_thrust, by_speed);
  for (int i = 0; i < b.dim; ++i) work_.F[z_(b.start + i)] = z[z_(b.start + i)] + r * along[z_(i)];
  for (int j = 0; j < size_; ++j) {
    double dr = 0, turned = 0;
    if (b.reaction_implicit)
      for (int k = 0; k < 6; ++k) dr += by_thrust[z_(k)] * K_[at(6 * b.site + k, j)];
    if (turning && !b.is_given() && speed > 0) {
      for (int i = 0; i < b.dim; ++i) turned += along[z_(i)] * W_[at(b.start + i, j)];
      dr += by_speed * turned;
    }
    for (int i = 0; i < b.dim; ++i) {
      double d = dr * along[z_(i)];
      if (turning && !b.is_given() && speed > 0) d += r / speed * (W_[at(b.start + i, j)] - turned * along[z_(i)]);
      work_.J[at(b.start + i, j)] += d;
    }
  }
}

/// F|² of the last linearize() or rounded().
double FrictionProblem::merit() const { return weighted(work_.F); }

/// x|² with efforts of all kinds on one scale.
double FrictionProblem::weighted(std::span<const double> x) const {
  double sum = 0;
  for (int i = 0; i < size_; ++i) sum += weight_[z_(i)] * x[z_(i)] * x[z_(i)];
  return sum;
}

// Computes x ← −J⁻¹ F by elimination with row pivots, along rows of memory. @return whether every pivot was well above
// the rounding of a dependent row. If not, only work_.LU and work_.x are changed.
bool FrictionProblem::eliminate_rows() {
  const std::size_t n = z_(size_);
  std::copy_n(work_.J.begin(), n * n, work_.LU.begin());
  for (std::size_t i = 0; i < n; ++i) {  // Rows of sticking elements may be 10¹⁰ times as large as those of others.
    double* row = &work_.LU[i * n];
    double size = 0;
    for (std::size_t j = 0; j < n; ++j) size = std::max(size, std::fabs(row[j]));
    if (!(size > 1e-6)) return false;  // A direction that others hold, which must not be scaled up.
    const double scale = 1 / size;
    for (std::size_t j = 0; j < n; ++j) row[j] *= scale;
    work_.x[i] = -work_.F[i] * scale;
  }
  double most = 0;
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t i = p + 1; i < n; ++i)
      if (std::fabs(work_.LU[i * n + p]) > std::fabs(work_.LU[best * n + p])) best = i;
    const double pivot = std::fabs(work_.LU[best * n + p]);
    most = std::max(most, pivot);
    if (!(pivot > 1e-6 * most)) return false;
    if (best != p) {
      std::swap_ranges(&work_.LU[p * n], &work_.LU[p * n] + n, &work_.LU[best * n]);
      std::swap(work_.x[p], work_.x[best]);
    }
    const double* row = &work_.LU[p * n];
    for (std::size_t i = p + 1; i < n; ++i) {
      double* other = &work_.LU[i * n];
      const double factor = other[p] / row[p];
      if (factor == 0) continue;
      for (std::size_t j = p + 1; j < n; ++j) other[j] -= factor * row[j];
      work_.x[i] -= factor * work_.x[p];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    double sum = work_.x[i];
    for (std::size_t j = i + 1; j < n; ++j) sum -= work_.LU[i * n + j] * work_.x[j];
    work_.x[i] = sum / work_.LU[i * n + i];
  }
  return true;
}

// The same with complete pivoting, where rows may depend on each other. Unknowns beyond the rank stay zero, so
// redundant sticking elements keep their distribution from the sweeps.
void FrictionProblem::eliminate() {
  if (eliminate_rows()) return;
  const int n = size_;
  for (int i = 0; i < n; ++i) {
    work_.F[z_(i)] = -work_.F[z_(i)];
    work_.row[z_(i)] = work_.column[z_(i)] = i;
  }
  int rank = 0;
  for (; rank < n; ++rank) {
    int r = rank, c = rank;
    double pivot = 0;
    for (int i = rank; i < n; ++i)
      for (int j = rank; j < n; ++j)
        if (const double x = std::fabs(work_.J[at(work_.row[z_(i)], work_.column[z_(j)])]); x > pivot)
          pivot = x, r = i, c = j;
    if (!(pivot > immovable)) break;
    std::swap(work_.row[z_(rank)], work_.row[z_(r)]);
    std::swap(work_.column[z_(rank)], work_.column[z_(c)]);
    const int pr = work_.row[z_(rank)], pc = work_.column[z_(rank)];
    for (int i = rank + 1; i < n; ++i) {
      const int ri = work_.row[z_(i)];
      const double factor = work_.J[at(ri, pc)] / work_.J[at(pr, pc)];
      if (factor == 0) continue;
      for (int j = rank; j < n; ++j)
        work_.J[at(ri, work_.column[z_(j)])] -= factor * work_.J[at(pr, work_.column[z_(j)])];
      work_.F[z_(ri)] -= factor * work_.F[z_(pr)];
    }
  }
  std::fill(work_.x.begin(), work_.x.end(), 0.0);
  for (int i = rank - 1; i >= 0; --i) {
    const int ri = work_.row[z_(i)];
    double sum = work_.F[z_(ri)];
    for (int j = i + 1; j < rank; ++j) sum -= work_.J[at(ri, work_.column[z_(j)])] * work_.x[z_(work_.column[z_(j)])];
    work_.x[z_(work_.column[z_(i)])] = sum / work_.J[at(ri, work_.column[z_(i)])];
  }
}

bool FrictionProblem::newton(Laws& laws, std::span<double> z, Result& result, int most) {
  double last = std::numeric_limits<double>::infinity();
  // Laws that are implicit in their slip saturate. Full steps may then jump from one side of rest to the other for
  // ever.
  most = std::min(most, damped_newton_ ? 15 : 40);
  for (int step = 0; step < most; ++step) {
    ++result.iterations;
    const double residual = linearize(laws, z), before = damped_newton_ ? merit() : 0;
    eliminate();
    const double moves = largest(work_.x), size = largest(z);
    if (!std::isfinite(moves)) return false;
    std::copy(z.begin(), z.end(), work_.last.begin());
    std::copy(work_.x.begin(), work_.x.end(), work_.trial.begin());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += work_.trial[i];
    if (damped_newton_ && residual > 1e-12 && moves > 4 * epsilon * std::max(size, largest(z))) {
      double part = 1;
      while (linearize(laws, z), !(merit() < before)) {
        part *= 0.5;
        if (part < 1e-2) return false;
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = work_.last[i] + part * work_.trial[i];
      }
      if (part < 1) {
        last = std::numeric_limits<double>::infinity();
        continue;
      }
    }
    if (moves <= 4 * epsilon * std::max(size, largest(z))) return true;
    if (moves >= 0.5 * last && moves <= 1e-11 * std::max(size, largest(z))) return true;  // Rounding.
    last = moves;
  }
  return false;
}

// Alternates between modes and their Newton until they agree.
bool FrictionProblem::solve_modes(Laws& laws, std::span<double> z, Result& result, int steps) {
  const int most = damped_newton_ ? 6 : 20;
  for (int round = 0; round < most; ++round) {
    if (!newton(laws, z, result, steps)) return false;
    bool changed = false;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      Block& b = blocks[index];
      if (b.is_smooth() || b.is_given() || b.is_forced()) continue;
      const int id = static_cast<int>(index);
      const Six N = read(b, z);
      const Six u = slips(b, z);
      double x = 0, against = 0;
      for (int i = 0; i < b.dim; ++i) {
        const double xi = z[z_(b.start + i)];
        x += xi * xi;
        against += xi * u[z_(i)];
      }
      x = std::sqrt(x);
      if (b.mode == Mode::sticks) {
        const double r = may_hold(b, u, z) ? laws.holding(id, N) : laws.sliding(id, N, 1e-300);
        if (x > r * (1 + 1e-9) + 1e-300) b.mode = Mode::slips, changed = true;
      } else if (against > 0 && !b.slip_prescribed && !slip_is_rounding(b, z)) {
        b.mode = Mode::sticks, changed = true;
      }
    }
    if (!changed) return true;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      // A block that starts to slide needs a direction. It is the one in which its bound was exceeded.
      const Mode mode = blocks[b].mode;
      if (mode == Mode::slips && !blocks[b].is_smooth() && !blocks[b].is_given()) update_block(laws, b, z);
    }
  }
  return false;
}

/// Evaluates the function that is minimised for reactions that friction does not change. The corner of dry friction is
/// rounded: ½ zᵀWz + Σ r √(|s|² + ε²), s = s₀ + W z. It is convex in z, and its gradient is W F with F = z + r s/√(|s|²
/// + ε²). It fills work_.F and, on request, work_.J = dF/dz. r and ε are by block in work_.radius and work_.round.
/// Every block is dry and free.
double FrictionProblem::rounded(std::span<const double> z, bool with_jacobian) {
  double sum = 0;
  if (with_jacobian) std::fill(work_.J.begin(), work_.J.end(), 0.0);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    const double r = work_.radius[index], round = work_.round[index];
    const Six u = r > 0 ? slips(b, z) : Six{};
    double square = round * round;
    for (int i = 0; r > 0 && i < b.dim; ++i) {
      const std::size_t at_i = z_(b.start + i);
      square += u[z_(i)] * u[z_(i)];
      sum += 0.5 * z[at_i] * (u[z_(i)] - slip0_[at_i]);
    }
    const double d = std::sqrt(square);
    sum += r * d;
    for (int i = 0; i < b.dim; ++i) {
      work_.F[z_(b.start + i)] = z[z_(b.start + i)] + (r > 0 ? r / d * u[z_(i)] : 0);
      if (with_jacobian) work_.J[at(b.start + i, b.start + i)] = 1;
    }
    // Uses the derivative of d z + r s = 0, divided by d, with the present effort in place of −r s/d, to which it
    // converges. So an element at rest stays at rest when the rounding decreases (Chan, Golub, Mulet 1999).
    double length = 0;
    for (int i = 0; i < b.dim; ++i) length += z[z_(b.start + i)] * z[z_(b.start + i)];
    const double limit = std::min(1.0, r / std::max(std::sqrt(length), 1e-300));
    for (int j = 0; with_jacobian && r > 0 && j < size_; ++j) {
      double along = 0;
      for (int i = 0; i < b.dim; ++i) along += u[z_(i)] / d * W_[at(b.start + i, j)];
      for (int i = 0; i < b.dim; ++i)
        work_.J[at(b.start + i, j)] += (r * W_[at(b.start + i, j)] + along * limit * z[z_(b.start + i)]) / d;
    }
  }
  return sum;
}

/// Newton on rounded() with decreasing rounding. A convex function decreases in every step, so it converges for any
/// stiffness, where sweeps are slow. The bounds are those of the slips of each iterate. Once it is clear which elements
/// stick, the problem itself is solved. @param known  whether z is the solution of a similar problem. @return whether
/// the laws are satisfied
bool FrictionProblem::minimize_rounded(Laws& laws, std::span<double> z, bool known, Result& result) {
  work_.radius.assign(blocks.size(), 0.0);
  work_.round.assign(blocks.size(), 0.0);
  bool let_go = false;  // Sliding elements have their kinetic bound, and not the static one.
  // Final rounding, relative to the slip that the whole friction of an element alone would make.
  constexpr double sharp = 1e-10;
  double moves = 0;  // Relative change by the last Newton step.
  for (double part = known ? 1e-3 : 1;; part = std::max(sharp, 0.03 * part)) {
    const double enough = part > sharp ? 0.03 : 1e-11;
    for (int step = 0; step < (part > sharp ? 10 : 30); ++step) {
      ++result.iterations;
      for (std::size_t index = 0; index < blocks.size(); ++index) {
        const Block& b = blocks[index];
        const Six u = slips(b, z), N = read(b, z);
        const double speed = norm(u);
        work_.radius[index] = may_hold(b, u, z) && !(let_go && speed > 30 * work_.round[index])
                                  ? laws.holding(static_cast<int>(index), N)
                                  : laws.sliding(static_cast<int>(index), N, std::max(speed, 1e-300));
        const double size = *std::max_element(b.size.begin(), b.size.begin() + b.dim);
        work_.round[index] = part * work_.radius[index] * std::max(size, immovable * b.mobility);
      }
      const double before = rounded(z, true);
      if (std::sqrt(merit()) <= enough * std::sqrt(weighted(z))) break;
      eliminate();
      moves = largest(work_.x) / std::max(largest(z), 1e-300);
      if (!std::isfinite(moves)) return false;
      std::copy(z.begin(), z.end(), work_.last.begin());
      std::copy(work_.x.begin(), work_.x.end(), work_.trial.begin());
      for (double along = 1; along > 1e-3; along *= 0.5) {
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = work_.last[i] + along * work_.trial[i];
        // It may increase by less than its rounding.
        if (rounded(z, false) < before + 1e-14 * std::fabs(before)) break;
      }
      if (moves <= 1e-11) break;  // The residual has rounding of its own, which stiff corners magnify.
    }
    bool sure = let_go;
    let_go = part < 1e-3;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      Block& b = blocks[index];
      const double speed = norm(slips(b, z));
      const bool sticks = !b.slip_prescribed && speed <= (part > sharp ? 10 : 1e4) * work_.round[index];
      b.mode = sticks ? Mode::sticks : Mode::slips;
      sure = sure && !(speed > 3 * work_.round[index] && speed < 100 * work_.round[index]);
    }
    if (sure && solve_modes_at_rest(laws, z, result)) return true;
    if (!(part > sharp)) break;
  }
  return moves <= 1e-9;  // The modes do not agree. The laws are satisfied to the accuracy of the last rounding.
}

/// Runs solve_modes(), and accepts its result only if a sweep leaves it unchanged. Where a solution at rest and a
/// sliding one exist, sweeps select the one of a body at rest. If there is none, z is unchanged.
bool FrictionProblem::solve_modes_at_rest(Laws& laws, std::span<double> z, Result& result) {
  work_.kept.assign(z.begin(), z.end());
  if (solve_modes(laws, z, result, 12)) {
    std::copy(z.begin(), z.end(), work_.found.begin());
    if (gauss_seidel(laws, z, 1, 1e-9)) {
      std::copy(work_.found.begin(), work_.found.end(), z.begin());
      return true;
    }
  }
  std::copy(work_.kept.begin(), work_.kept.end(), z.begin());
  return false;
}

}  // namespace linchpin::detail
