// Block Gauss–Seidel decides which elements stick and which slide. For reactions that friction does not change, it
// minimises a convex function. So it always converges, with redundant elements, too.
#include "force_laws/friction_problem_impl.h"

#include <algorithm>
#include <cmath>

namespace linchpin::detail {
namespace {

/// Computes eigenvalues (diagonal of W) and eigenvectors (columns of U) of a symmetric n × n matrix, n ≤ 6, by Jacobi
/// rotations.
void diagonalize(Square& W, Square& U, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) U[i][j] = i == j;
  for (int round = 0; round < 40; ++round) {
    double off = 0, size = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) (i == j ? size : off) += W[i][j] * W[i][j];
    if (!(off > 1e-34 * size)) return;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (W[p][q] == 0) continue;
        const double theta = (W[q][q] - W[p][p]) / (2 * W[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double x = W[k][p], y = W[k][q];
          W[k][p] = c * x - s * y;
          W[k][q] = s * x + c * y;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double x = W[p][k], y = W[q][k], u = U[k][p], v = U[k][q];
          W[p][k] = c * x - s * y;
          W[q][k] = s * x + c * y;
          U[k][p] = c * u - s * v;
          U[k][q] = s * u + c * v;
        }
      }
  }
}

// Reduces J x' = x to a triangle by elimination with row pivots. @return false where a pivot is zero
bool eliminate_small(Square& J, Six& x, std::size_t dim) {
  for (std::size_t p = 0; p < dim; ++p) {
    std::size_t best = p;
    for (std::size_t i = p + 1; i < dim; ++i)
      if (std::fabs(J[i][p]) > std::fabs(J[best][p])) best = i;
    if (J[best][p] == 0) return false;
    std::swap(J[p], J[best]);
    std::swap(x[p], x[best]);
    for (std::size_t i = p + 1; i < dim; ++i) {
      const double factor = J[i][p] / J[p][p];
      for (std::size_t j = p; j < dim; ++j) J[i][j] -= factor * J[p][j];
      x[i] -= factor * x[p];
    }
  }
  return true;
}

// Returns the effort x of a sliding element along the eigenvectors of its response: |x| = r along −slip, with
// (W + α) x = −q and α ≥ 0. Newton on 1/|x| starts from below and cannot overshoot.
// @param along  slip q without its own effort, along the eigenvectors. @param size  eigenvalues. @param most  largest
// one
Six sliding_effort(const Six& along, const Six& size, double most, double q, double r, std::size_t dim) {
  Six x{};
  if (!(r > 0)) return x;
  double alpha = std::max(0.0, q / r - most);
  for (std::size_t i = 0; i < dim; ++i) alpha = std::max(alpha, std::fabs(along[i]) / r - size[i]);
  for (int step = 0; step < 60; ++step) {
    double length = 0, slope = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      const double d = size[i] + alpha, xi = d > 0 ? along[i] / d : 0;
      x[i] = -xi;
      length += xi * xi;
      if (d > 0) slope += xi * xi / d;
    }
    length = std::sqrt(length);
    if (!(slope > 0) || std::fabs(length - r) <= 4 * epsilon * r) break;
    alpha = std::max(0.0, alpha + (length - r) / r * length * length / slope);
  }
  if (const double length = norm(x); length > 0)
    for (double& xi : x) xi *= r / length;
  return x;
}

}  // namespace

// Computes d(effort)/d(slip) by central differences: out[i][k] of effort i by slip k.
void law_slopes(FrictionProblem::Laws& laws, int id, std::size_t dim, const Six& N, const Six& u, Square& out) {
  for (std::size_t k = 0; k < dim; ++k) {
    const std::size_t group = k < 3 ? 0 : 3;  // Velocities, and angular velocities.
    const double h = 1e-6 * std::max({std::fabs(u[group]), std::fabs(u[group + 1]), std::fabs(u[group + 2])}) + 1e-9;
    Six up = u, down = u, f_up{}, f_down{};
    up[k] += h;
    down[k] -= h;
    laws.effort(id, N, up, f_up.data());
    laws.effort(id, N, down, f_down.data());
    for (std::size_t i = 0; i < dim; ++i) out[i][k] = (f_up[i] - f_down[i]) / (2 * h);
  }
}

// Returns true if F is no more than the effect of the rounding of the slip on a stiff law.
bool FrictionProblem::within_rounding(const Block& b, const Square& slope, const Six& F,
                                      std::span<const double> z) const {
  Six noise{};
  for (int k = 0; k < b.dim; ++k) {
    const int i = b.start + k;
    double sum = std::fabs(slip0_[z_(i)]) + std::fabs(b.start_slip[z_(k)]);
    for (int j = 0; j < size_; ++j) sum += std::fabs(W_[at(i, j)] * z[z_(j)]);
    noise[z_(k)] = 4 * epsilon * sum;
  }
  for (int i = 0; i < b.dim; ++i) {
    double most = 4 * epsilon * std::fabs(z[z_(b.start + i)]);
    for (int k = 0; k < b.dim; ++k) most += std::fabs(slope[z_(i)][z_(k)]) * noise[z_(k)];
    if (!(std::fabs(F[z_(i)]) <= most)) return false;
  }
  return true;
}

// Solves a smooth block that is implicit in its own slip by Newton. Each step is shortened until |residual| decreases.
// For laws that damp there always is such a step. Where the law jumps, the iteration ends at the jump, where friction
// would stick.
void FrictionProblem::solve_smooth_block(Laws& laws, std::size_t index, const Six& N, std::span<double> z) {
  const Block& b = blocks[index];
  const int id = static_cast<int>(index);
  const std::size_t dim = z_(b.dim), at0 = z_(b.start);
  Six F{};
  const auto residual = [&]() {
    Six f{};
    laws.effort(id, N, slip_read(b, z), f.data());
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      F[i] = z[at0 + i] - f[i];
      sum += weight_[at0 + i] * F[i] * F[i];
    }
    return sum;
  };
  double size = residual();
  for (int step = 0; step < 60 && size > 0; ++step) {
    Square slope{}, J{};
    law_slopes(laws, id, dim, N, slip_read(b, z), slope);
    if (within_rounding(b, slope, F, z)) return;
    Six x{};
    for (std::size_t i = 0; i < dim; ++i) {
      x[i] = -F[i];
      for (std::size_t j = 0; j < dim; ++j) {
        J[i][j] = i == j;
        for (std::size_t k = 0; k < dim; ++k)
          J[i][j] -=
              b.slip_fraction * slope[i][k] * W_[at(b.start + static_cast<int>(k), b.start + static_cast<int>(j))];
      }
    }
    if (!eliminate_small(J, x, dim)) return;
    double moves = 0, length = 0;
    for (std::size_t p = dim; p-- > 0;) {
      for (std::size_t j = p + 1; j < dim; ++j) x[p] -= J[p][j] * x[j];
      x[p] /= J[p][p];
      moves = std::max(moves, std::fabs(x[p]));
      length = std::max(length, std::fabs(z[at0 + p]));
    }
    if (!std::isfinite(moves)) return;
    Six from{};
    for (std::size_t i = 0; i < dim; ++i) from[i] = z[at0 + i];
    double part = 1, now = 0;
    for (;; part *= 0.5) {
      for (std::size_t i = 0; i < dim; ++i) z[at0 + i] = from[i] + part * x[i];
      now = residual();
      if (now < size || part < 1e-9) break;
    }
    if (!(now < size)) {  // Rounding, or a jump.
      for (std::size_t i = 0; i < dim; ++i) z[at0 + i] = from[i];
      return;
    }
    size = now;
    if (moves <= 4 * epsilon * std::max(length, moves)) return;
  }
}

// Computes the response of smooth laws at the site of a dry block that are implicit in the same slip, with their
// present slopes. Without it, sweeps in which each responds to the present value of the other hardly converge where the
// smooth law is stiff. Fills coupled_.own_response, coupled_.unknowns and coupled_.response. @return whether there are
// any that damp
bool FrictionProblem::linearize_coupled_laws(Laws& laws, std::size_t index, std::span<const double> z) {
  const Block& b = blocks[index];
  const std::size_t dim = z_(b.dim);
  coupled_.unknowns.clear();
  for (const Block& other : blocks)
    for (int i = 0; other.is_slip_implicit() && other.site == b.site && i < other.dim; ++i)
      coupled_.unknowns.push_back(other.start + i);
  const std::size_t n = coupled_.unknowns.size();
  if (n == 0) return false;
  // (I − S W) δz = S δu of these laws, where δu is the effect of the dry block alone.
  const std::size_t columns = n + dim;
  work_.J.assign(std::max(work_.J.size(), n * columns), 0.0);
  std::size_t row = 0;
  for (std::size_t o = 0; o < blocks.size(); ++o) {
    const Block& other = blocks[o];
    if (!other.is_slip_implicit() || other.site != b.site) continue;
    Square slope{};
    law_slopes(laws, static_cast<int>(o), z_(other.dim), read(other, z), slip_read(other, z), slope);
    for (std::size_t i = 0; i < z_(other.dim); ++i, ++row) {
      work_.J[row * columns + row] = 1;
      for (int k = 0; k < other.dim; ++k) {
        const double s = other.slip_fraction * slope[i][z_(k)];
        if (s == 0) continue;
        for (std::size_t j = 0; j < n; ++j)
          work_.J[row * columns + j] -= s * W_[at(other.start + k, coupled_.unknowns[j])];
        for (std::size_t j = 0; j < dim; ++j)
          work_.J[row * columns + n + j] += s * W_[at(other.start + k, b.start + static_cast<int>(j))];
      }
    }
  }
  for (std::size_t p = 0; p < n; ++p) {  // Elimination with row pivots.
    std::size_t best = p;
    for (std::size_t i = p + 1; i < n; ++i)
      if (std::fabs(work_.J[i * columns + p]) > std::fabs(work_.J[best * columns + p])) best = i;
    if (work_.J[best * columns + p] == 0) return false;
    for (std::size_t j = 0; best != p && j < columns; ++j)
      std::swap(work_.J[p * columns + j], work_.J[best * columns + j]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == p) continue;
      const double factor = work_.J[i * columns + p] / work_.J[p * columns + p];
      for (std::size_t j = p; factor != 0 && j < columns; ++j)
        work_.J[i * columns + j] -= factor * work_.J[p * columns + j];
    }
  }
  coupled_.response.assign(6 * n, 0.0);
  double with = 0, without = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < dim; ++k)
      coupled_.response[6 * i + k] = work_.J[i * columns + n + k] / work_.J[i * columns + i];
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t k = 0; k < dim; ++k) {
      const int at_i = b.start + static_cast<int>(i);
      double sum = W_[at(at_i, b.start + static_cast<int>(k))];
      if (i == k) without += sum;
      for (std::size_t j = 0; j < n; ++j) sum += W_[at(at_i, coupled_.unknowns[j])] * coupled_.response[6 * j + k];
      coupled_.own_response[i][k] = sum;
      if (i == k) with += sum;
    }
  return with > 0 && with < without;
}

// Computes eigenvalues and eigenvectors of the response of a block's slips to its efforts. @param with_coupled_laws
// uses coupled_.own_response
void FrictionProblem::find_axes(Block& b, bool with_coupled_laws) {
  const std::size_t dim = z_(b.dim);
  Square W{};
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j < dim; ++j) {
      const double w = with_coupled_laws ? coupled_.own_response[i][j]
                                         : W_[at(b.start + static_cast<int>(i), b.start + static_cast<int>(j))];
      W[i][j] += 0.5 * w;
      W[j][i] += 0.5 * w;
    }
  diagonalize(W, b.axes, dim);
  for (std::size_t i = 0; i < dim; ++i) b.size[i] = std::max(W[i][i], 0.0);
  b.resolved = !with_coupled_laws;
}

// Finds prescribed slips. A direction in which no effort moves a block is held by constraints, which prescribe the slip
// there. It is zero where they only guide the bodies. Otherwise it is the slip of a drive, and friction acts against it
// as against any other slip.
void FrictionProblem::find_prescribed_slips(double rest) {
  for (Block& b : blocks) {
    if (b.is_smooth() || b.is_given()) continue;
    find_axes(b, false);
    const std::size_t dim = z_(b.dim);
    double square = 0, left = 0;  // Squared prescribed slip, and remaining mobility of its directions.
    for (std::size_t i = 0; i < dim; ++i) {
      if (b.size[i] > immovable * b.mobility) continue;
      double along = 0;
      for (std::size_t k = 0; k < dim; ++k) {
        const std::size_t at_k = z_(b.start) + k;
        along += b.axes[k][i] * (slip0_[at_k] - residual_slip_[at_k]);
      }
      square += along * along;
      left = std::max(left, b.size[i] / b.mobility);
    }
    // The square root of what is left is the angle between the direction and the one that is held.
    constexpr double rounding = 1e-8;
    b.slip_prescribed = std::sqrt(square) > rest + (rounding + std::sqrt(left)) * b.reach;
    if (b.slip_prescribed && b.is_forced()) b.guidance = Block::Guidance::free;
  }
}

// Solves one block with the present values of all others.
void FrictionProblem::update_block(Laws& laws, std::size_t index, std::span<double> z) {
  const Block& b = blocks[index];
  const int id = static_cast<int>(index);
  const Six N = read(b, z);
  if (b.is_slip_implicit()) return solve_smooth_block(laws, index, N, z);
  if (b.is_smooth()) {
    laws.effort(id, N, Six{}, &z[z_(b.start)]);
    return;
  }
  if (b.is_given()) {
    const double r = laws.sliding(id, N, b.speed);
    for (int i = 0; i < b.dim; ++i) z[z_(b.start + i)] = -r * b.sense[z_(i)];
    return;
  }
  update_dry_block(laws, index, N, z);
}

// Lets a dry block stick or slide at the reaction N, together with the smooth laws that respond to its slip.
void FrictionProblem::update_dry_block(Laws& laws, std::size_t index, const Six& N, std::span<double> z) {
  Block& b = blocks[index];
  const int id = static_cast<int>(index);
  const std::size_t dim = z_(b.dim);
  const bool coupled = linearize_coupled_laws(laws, index, z);
  Six q{}, now{}, along{}, x{}, before{};
  for (std::size_t i = 0; i < dim; ++i) {
    now[i] = q[i] = slip(b.start + static_cast<int>(i), z);
    before[i] = z[z_(b.start) + i];
  }
  if (coupled || !b.resolved) find_axes(b, coupled);
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j < dim; ++j)
      q[i] -= (coupled ? coupled_.own_response[i][j]
                       : W_[at(b.start + static_cast<int>(i), b.start + static_cast<int>(j))]) *
              before[j];
  const Square& U = b.axes;
  const Six& size = b.size;
  double most = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    most = std::max(most, size[i]);
    for (std::size_t k = 0; k < dim; ++k) along[i] += U[k][i] * q[k];
  }
  for (std::size_t i = 0; i < dim; ++i)
    if (size[i] > immovable * b.mobility) x[i] = -along[i] / size[i];

  const double slides = b.is_forced() ? 0 : laws.sliding(id, N, std::max(norm(now), 1e-300));
  const double holds = b.is_forced() ? 0 : b.may_hold(q) ? laws.holding(id, N) : slides;
  if (!b.slip_prescribed && (b.is_forced() || norm(x) <= holds)) {
    b.mode = Mode::sticks;
  } else {
    b.mode = Mode::slips;
    x = sliding_effort(along, size, most, norm(q), slides, dim);
  }
  for (std::size_t k = 0; k < dim; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) sum += U[k][i] * x[i];
    z[z_(b.start) + k] = sum;
  }
  for (std::size_t i = 0; coupled && i < coupled_.unknowns.size(); ++i)
    for (std::size_t k = 0; k < dim; ++k)
      z[z_(coupled_.unknowns[i])] += coupled_.response[6 * i + k] * (z[z_(b.start) + k] - before[k]);
}

bool FrictionProblem::gauss_seidel(Laws& laws, std::span<double> z, int most, double tolerance) {
  for (int round = 0; round < most; ++round) {
    std::copy(z.begin(), z.end(), work_.trial.begin());
    for (std::size_t b = 0; b < blocks.size(); ++b) update_block(laws, b, z);
    for (std::size_t i = 0; i < z.size(); ++i) work_.trial[i] = z[i] - work_.trial[i];
    const double change = largest(work_.trial);
    if (!std::isfinite(change)) return false;
    if (change <= tolerance * largest(z)) return true;
  }
  return false;
}

}  // namespace linchpin::detail
