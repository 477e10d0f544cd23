// Block Gauss–Seidel finds who sticks and who slides: for thrusts that friction does not change it descends a convex
// function, so it always ends, redundant contacts included. Newton on the modes so found goes to round-off, and is the
// only one used where thrusts answer so strongly that sweeps would diverge.
#include "friction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

std::size_t z_(int i) { return static_cast<std::size_t>(i); }

/// Eigenvalues (diagonal of W) and eigenvectors (columns of U) of a symmetric n × n matrix, n ≤ 6, by Jacobi's
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

double norm(const Six& x) {
  double sum = 0;
  for (const double xi : x) sum += xi * xi;
  return std::sqrt(sum);
}

/// Directions in which a contact cannot be moved at all (other constraints hold it) have a response below this part of
/// that of free bodies; near the cut for rank, squared (T6).
constexpr double immovable = 1e-10;

/// Sweeps after which Newton is tried, where many dampers in a row make sweeps slow and Newton no slower.
constexpr int few = 12;

/// Unknowns above which sweeps of a system that hangs together have far to go.
constexpr int many = 24;

double largest(std::span<const double> x) {
  double most = 0;
  for (const double xi : x) {
    if (std::isnan(xi)) return xi;  // which std::max would pass over
    most = std::max(most, std::fabs(xi));
  }
  return most;
}

/// A = C Cᵀ of a symmetric positive definite A [n × n, rows of `stride`], in its lower half. Pivots that rounding may
/// have made are raised.
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

void FrictionProblem::reset(int unknowns, int sites) {
  size_ = unknowns;
  sites_ = sites;
  blocks.clear();
  const std::size_t n = z_(unknowns), s = z_(sites);
  W_.assign(n * n, 0.0);
  K_.assign(6 * s * n, 0.0);
  slip0_.assign(n, 0.0);
  weight_.assign(n, 1.0);
  N0_.assign(s, Six{});
  ideal_.assign(s, Six{});
  thrusts_.assign(s, Six{});
  J_.resize(n * (n + 6));
  LU_.resize(n * n);
  for (auto* x : {&F_, &x_, &try_, &best_, &start_, &first_, &last_, &kept_, &found_z_, &freed_, &gives_way_})
    x->resize(n);
  modes_known_ = false;
  followers_.reserve(n);
  follow_.reserve(6 * n);
  row_.resize(n);
  column_.resize(n);
  found_.reserve(8 * n);
}

double FrictionProblem::slip(int i, std::span<const double> z) const {
  // Four sums, since compilers keep the order of one.
  const double* row = &W_[at(i, 0)];
  std::array<double, 4> sum{};
  std::size_t j = 0;
  for (const std::size_t n = z_(size_) & ~std::size_t{3}; j < n; j += 4)
    for (std::size_t k = 0; k < 4; ++k) sum[k] += row[j + k] * z[j + k];
  double rest = slip0_[z_(i)];
  for (; j < z_(size_); ++j) rest += row[j] * z[j];
  return rest + (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

Six FrictionProblem::slips(const Block& b, std::span<const double> z) const {
  Six u{};
  for (int i = 0; i < b.dim; ++i) u[z_(i)] = slip(b.start + i, z);
  return u;
}

// Whether the bound of rest holds a dry block. @param u  its slips at z
bool FrictionProblem::may_hold(const Block& b, const Six& u, std::span<const double> z) const {
  Six q = u;
  for (int i = 0; i < b.dim; ++i)
    for (int j = 0; j < b.dim; ++j) q[z_(i)] -= W_[at(b.start + i, b.start + j)] * z[z_(b.start + j)];
  return b.may_hold(q);
}

Six FrictionProblem::thrust(int site, std::span<const double> z) const {
  Six N = N0_[z_(site)];
  for (int k = 0; k < 6; ++k)
    for (int j = 0; j < size_; ++j) N[z_(k)] += K_[at(6 * site + k, j)] * z[z_(j)];
  return N;
}

Six FrictionProblem::read(const Block& b, std::span<const double> z) const {
  return b.implicit ? thrust(b.site, z) : ideal_[z_(b.site)];
}

Six FrictionProblem::slip_read(const Block& b, std::span<const double> z) const {
  Six u{};
  for (int i = 0; b.answers && i < b.dim; ++i)
    u[z_(i)] = (1 - b.share) * b.start_slip[z_(i)] + b.share * slip(b.start + i, z);
  return u;
}

// d(effort)/d(slip), out[i][k] of effort i by slip k, by central differences.
void FrictionProblem::slopes(Laws& laws, int id, const Six& N, const Six& u, Square& out) {
  const std::size_t dim = z_(blocks[z_(id)].dim);
  for (std::size_t k = 0; k < dim; ++k) {
    const std::size_t group = k < 3 ? 0 : 3;  // velocities, and angular velocities
    const double h = 1e-6 * std::max({std::fabs(u[group]), std::fabs(u[group + 1]), std::fabs(u[group + 2])}) + 1e-9;
    Six up = u, down = u, f_up{}, f_down{};
    up[k] += h;
    down[k] -= h;
    laws.effort(id, N, up, f_up.data());
    laws.effort(id, N, down, f_down.data());
    for (std::size_t i = 0; i < dim; ++i) out[i][k] = (f_up[i] - f_down[i]) / (2 * h);
  }
}

// Whether F is no more than what a stiff law makes of the rounding of its slip.
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

// A smooth block that answers to its own slip: Newton, each step as short as |residual| needs to fall. For laws that
// damp there always is such a step; where the law jumps, it ends at the jump, which is where friction would stick.
void FrictionProblem::relax(Laws& laws, std::size_t index, const Six& N, std::span<double> z) {
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
    slopes(laws, id, N, slip_read(b, z), slope);
    if (within_rounding(b, slope, F, z)) return;
    Six x{};
    for (std::size_t i = 0; i < dim; ++i) {
      x[i] = -F[i];
      for (std::size_t j = 0; j < dim; ++j) {
        J[i][j] = i == j;
        for (std::size_t k = 0; k < dim; ++k)
          J[i][j] -= b.share * slope[i][k] * W_[at(b.start + static_cast<int>(k), b.start + static_cast<int>(j))];
      }
    }
    for (std::size_t p = 0; p < dim; ++p) {  // elimination with row pivots
      std::size_t best = p;
      for (std::size_t i = p + 1; i < dim; ++i)
        if (std::fabs(J[i][p]) > std::fabs(J[best][p])) best = i;
      if (J[best][p] == 0) return;
      std::swap(J[p], J[best]);
      std::swap(x[p], x[best]);
      for (std::size_t i = p + 1; i < dim; ++i) {
        const double factor = J[i][p] / J[p][p];
        for (std::size_t j = p; j < dim; ++j) J[i][j] -= factor * J[p][j];
        x[i] -= factor * x[p];
      }
    }
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
    if (!(now < size)) {  // rounding, or a jump
      for (std::size_t i = 0; i < dim; ++i) z[at0 + i] = from[i];
      return;
    }
    size = now;
    if (moves <= 4 * epsilon * std::max(length, moves)) return;
  }
}

// Smooth laws at the site of a dry block that answer to the same slip: what they make of its efforts, as their slopes
// are now. Sweeps in which each answers to the other as it stands hardly move where the smooth law is stiff. Fills
// own_, followers_ and follow_. @return whether there are any that damp
bool FrictionProblem::follow(Laws& laws, std::size_t index, std::span<const double> z) {
  const Block& b = blocks[index];
  const std::size_t dim = z_(b.dim);
  followers_.clear();
  for (const Block& other : blocks)
    for (int i = 0; other.answers && other.site == b.site && i < other.dim; ++i) followers_.push_back(other.start + i);
  const std::size_t n = followers_.size();
  if (n == 0) return false;
  // (I − S W) δz = S δu of the followers, with δu what the dry block alone would do.
  const std::size_t columns = n + dim;
  J_.assign(std::max(J_.size(), n * columns), 0.0);
  std::size_t row = 0;
  for (std::size_t o = 0; o < blocks.size(); ++o) {
    const Block& other = blocks[o];
    if (!other.answers || other.site != b.site) continue;
    Square slope{};
    slopes(laws, static_cast<int>(o), read(other, z), slip_read(other, z), slope);
    for (std::size_t i = 0; i < z_(other.dim); ++i, ++row) {
      J_[row * columns + row] = 1;
      for (int k = 0; k < other.dim; ++k) {
        const double s = other.share * slope[i][z_(k)];
        if (s == 0) continue;
        for (std::size_t j = 0; j < n; ++j) J_[row * columns + j] -= s * W_[at(other.start + k, followers_[j])];
        for (std::size_t j = 0; j < dim; ++j)
          J_[row * columns + n + j] += s * W_[at(other.start + k, b.start + static_cast<int>(j))];
      }
    }
  }
  for (std::size_t p = 0; p < n; ++p) {  // elimination with row pivots
    std::size_t best = p;
    for (std::size_t i = p + 1; i < n; ++i)
      if (std::fabs(J_[i * columns + p]) > std::fabs(J_[best * columns + p])) best = i;
    if (J_[best * columns + p] == 0) return false;
    for (std::size_t j = 0; best != p && j < columns; ++j) std::swap(J_[p * columns + j], J_[best * columns + j]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == p) continue;
      const double factor = J_[i * columns + p] / J_[p * columns + p];
      for (std::size_t j = p; factor != 0 && j < columns; ++j) J_[i * columns + j] -= factor * J_[p * columns + j];
    }
  }
  follow_.assign(6 * n, 0.0);
  double with = 0, without = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < dim; ++k) follow_[6 * i + k] = J_[i * columns + n + k] / J_[i * columns + i];
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t k = 0; k < dim; ++k) {
      const int at_i = b.start + static_cast<int>(i);
      double sum = W_[at(at_i, b.start + static_cast<int>(k))];
      if (i == k) without += sum;
      for (std::size_t j = 0; j < n; ++j) sum += W_[at(at_i, followers_[j])] * follow_[6 * j + k];
      own_[i][k] = sum;
      if (i == k) with += sum;
    }
  return with > 0 && with < without;
}

// One block answers to all others as they stand.
void FrictionProblem::respond(Laws& laws, std::size_t index, std::span<double> z) {
  Block& b = blocks[index];
  const int id = static_cast<int>(index);
  const Six N = read(b, z);
  if (b.answers) return relax(laws, index, N, z);
  if (b.smooth) {
    laws.effort(id, N, Six{}, &z[z_(b.start)]);
    return;
  }
  if (b.given) {
    const double r = laws.sliding(id, N, b.speed);
    for (int i = 0; i < b.dim; ++i) z[z_(b.start + i)] = -r * b.sense[z_(i)];
    return;
  }
  const std::size_t dim = z_(b.dim);
  const bool shared = follow(laws, index, z);
  Six q{}, now{}, along{}, x{}, before{};
  for (std::size_t i = 0; i < dim; ++i) {
    now[i] = q[i] = slip(b.start + static_cast<int>(i), z);
    before[i] = z[z_(b.start) + i];
  }
  if (shared || !b.resolved) {
    Square W{};
    for (std::size_t i = 0; i < dim; ++i)
      for (std::size_t j = 0; j < dim; ++j) {
        const double w = shared ? own_[i][j] : W_[at(b.start + static_cast<int>(i), b.start + static_cast<int>(j))];
        W[i][j] += 0.5 * w;
        W[j][i] += 0.5 * w;
      }
    diagonalize(W, b.axes, dim);
    for (std::size_t i = 0; i < dim; ++i) b.size[i] = std::max(W[i][i], 0.0);
    b.resolved = !shared;
  }
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j < dim; ++j)
      q[i] -= (shared ? own_[i][j] : W_[at(b.start + static_cast<int>(i), b.start + static_cast<int>(j))]) * before[j];
  const Square& U = b.axes;
  const Six& size = b.size;
  double most = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    most = std::max(most, size[i]);
    for (std::size_t k = 0; k < dim; ++k) along[i] += U[k][i] * q[k];
  }
  for (std::size_t i = 0; i < dim; ++i)
    if (size[i] > immovable * b.mobility) x[i] = -along[i] / size[i];

  const double slides = b.forced ? 0 : laws.sliding(id, N, std::max(norm(now), 1e-300));
  const double holds = b.forced ? 0 : b.may_hold(q) ? laws.holding(id, N) : slides;
  if (b.forced || norm(x) <= holds) {
    b.mode = Mode::sticks;
  } else {
    b.mode = Mode::slips;
    // |x| = r along −slip: (W + α) x = −q with α ≥ 0, from below, where Newton on 1/|x| cannot overshoot.
    const double r = slides;
    if (!(r > 0)) {
      x = Six{};
    } else {
      double alpha = std::max(0.0, norm(q) / r - most);
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
    }
  }
  for (std::size_t k = 0; k < dim; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) sum += U[k][i] * x[i];
    z[z_(b.start) + k] = sum;
  }
  for (std::size_t i = 0; shared && i < followers_.size(); ++i)
    for (std::size_t k = 0; k < dim; ++k) z[z_(followers_[i])] += follow_[6 * i + k] * (z[z_(b.start) + k] - before[k]);
}

bool FrictionProblem::sweep(Laws& laws, std::span<double> z, int most, double tolerance) {
  for (int round = 0; round < most; ++round) {
    std::copy(z.begin(), z.end(), try_.begin());
    for (std::size_t b = 0; b < blocks.size(); ++b) respond(laws, b, z);
    for (std::size_t i = 0; i < z.size(); ++i) try_[i] = z[i] - try_[i];
    const double change = largest(try_);
    if (!std::isfinite(change)) return false;
    if (change <= tolerance * largest(z)) return true;
  }
  return false;
}

// d(law)/d(thrust) of one block, by central differences: laws are callables.
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

/// F and J at z for the modes as they are; without `turning`, for slips that stay as they are. @return the largest |F|
/// of laws, relative to the largest effort; `at_worst` receives its block.
double FrictionProblem::linearize(Laws& laws, std::span<const double> z, bool turning, int* at_worst) {
  std::fill(J_.begin(), J_.end(), 0.0);
  double worst = 0;
  const double size = std::max(largest(z), 1e-300);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    const int id = static_cast<int>(index);
    if (!b.smooth && b.mode == Mode::sticks && !b.given) {
      for (int i = b.start; i < b.start + b.dim; ++i) {
        F_[z_(i)] = slip(i, z) / b.mobility;
        for (int j = 0; j < size_; ++j) J_[at(i, j)] = W_[at(i, j)] / b.mobility;
      }
      continue;
    }
    const Six N = read(b, z);
    double thrust_size = 0;
    for (const double x : N) thrust_size = std::max(thrust_size, std::fabs(x));
    for (int i = 0; i < b.dim; ++i) J_[at(b.start + i, b.start + i)] = 1;
    if (b.smooth) {
      Six f{};
      const Six u = slip_read(b, z);
      laws.effort(id, N, u, f.data());
      for (int i = 0; i < b.dim; ++i) F_[z_(b.start + i)] = z[z_(b.start + i)] - f[z_(i)];
      if (b.answers && turning) {
        Square slope{};
        slopes(laws, id, N, u, slope);
        for (int i = 0; i < b.dim; ++i)
          for (int k = 0; k < b.dim; ++k) {
            if (slope[z_(i)][z_(k)] == 0) continue;
            for (int j = 0; j < size_; ++j)
              J_[at(b.start + i, j)] -= b.share * slope[z_(i)][z_(k)] * W_[at(b.start + k, j)];
          }
      }
      const double h = 1e-6 * std::max(thrust_size, 1e-6);
      for (int k = 0; k < 6 && b.implicit; ++k) {
        Six up = N, down = N, f_up{}, f_down{};
        up[z_(k)] += h;
        down[z_(k)] -= h;
        laws.effort(id, up, u, f_up.data());
        laws.effort(id, down, u, f_down.data());
        for (int i = 0; i < b.dim; ++i) {
          const double slope = (f_up[z_(i)] - f_down[z_(i)]) / (2 * h);
          if (slope == 0) continue;
          for (int j = 0; j < size_; ++j) J_[at(b.start + i, j)] -= slope * K_[at(6 * b.site + k, j)];
        }
      }
    } else {
      Six along = b.sense;
      double speed = b.speed;
      if (!b.given) {
        speed = 0;
        for (int i = 0; i < b.dim; ++i) {
          along[z_(i)] = slip(b.start + i, z);
          speed += along[z_(i)] * along[z_(i)];
        }
        speed = std::sqrt(speed);
        double x = 0;
        for (int i = 0; i < b.dim; ++i) x += z[z_(b.start + i)] * z[z_(b.start + i)];
        // One of several redundant contacts may be at its bound and yet not move, held by the others. The slip it then
        // has is rounding and has no direction: it keeps that of its friction.
        if (hardly_moves(b, z)) speed = 0;
        for (int i = 0; i < b.dim; ++i)
          along[z_(i)] = speed > 0 ? along[z_(i)] / speed : x > 0 ? -z[z_(b.start + i)] / std::sqrt(x) : 0;
      }
      const double r = laws.sliding(id, N, std::max(speed, 1e-300));
      Six by_thrust{};
      double by_speed = 0;
      if (b.implicit || !b.given) derivatives(laws, id, N, std::max(speed, 1e-300), thrust_size, by_thrust, by_speed);
      for (int i = 0; i < b.dim; ++i) F_[z_(b.start + i)] = z[z_(b.start + i)] + r * along[z_(i)];
      for (int j = 0; j < size_; ++j) {
        double dr = 0, turned = 0;
        if (b.implicit)
          for (int k = 0; k < 6; ++k) dr += by_thrust[z_(k)] * K_[at(6 * b.site + k, j)];
        if (turning && !b.given && speed > 0) {
          for (int i = 0; i < b.dim; ++i) turned += along[z_(i)] * W_[at(b.start + i, j)];
          dr += by_speed * turned;
        }
        for (int i = 0; i < b.dim; ++i) {
          double d = dr * along[z_(i)];
          if (turning && !b.given && speed > 0) d += r / speed * (W_[at(b.start + i, j)] - turned * along[z_(i)]);
          J_[at(b.start + i, j)] += d;
        }
      }
    }
    for (int i = b.start; i < b.start + b.dim; ++i) {
      if (!(std::fabs(F_[z_(i)]) / size > worst)) continue;
      worst = std::fabs(F_[z_(i)]) / size;
      if (at_worst != nullptr) *at_worst = id;
    }
  }
  return worst;
}

/// |F|² of the last linearize() or rounded().
double FrictionProblem::merit() const { return weighted(F_); }

/// |x|² with efforts of all kinds on one scale.
double FrictionProblem::weighted(std::span<const double> x) const {
  double sum = 0;
  for (int i = 0; i < size_; ++i) sum += weight_[z_(i)] * x[z_(i)] * x[z_(i)];
  return sum;
}

// x ← −J⁻¹ F by elimination with row pivots, along rows of memory. @return whether every pivot was well above what
// rounding may leave of a dependent row; else nothing has happened but that LU_ and x_ are spoiled.
bool FrictionProblem::eliminate_rows() {
  const std::size_t n = z_(size_);
  std::copy_n(J_.begin(), n * n, LU_.begin());
  for (std::size_t i = 0; i < n; ++i) {  // rows of contacts at rest may be 10¹⁰ times those of others
    double* row = &LU_[i * n];
    double size = 0;
    for (std::size_t j = 0; j < n; ++j) size = std::max(size, std::fabs(row[j]));
    if (!(size > 1e-6)) return false;  // a direction that others hold: not to be blown up
    const double scale = 1 / size;
    for (std::size_t j = 0; j < n; ++j) row[j] *= scale;
    x_[i] = -F_[i] * scale;
  }
  double most = 0;
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t i = p + 1; i < n; ++i)
      if (std::fabs(LU_[i * n + p]) > std::fabs(LU_[best * n + p])) best = i;
    const double pivot = std::fabs(LU_[best * n + p]);
    most = std::max(most, pivot);
    if (!(pivot > 1e-6 * most)) return false;
    if (best != p) {
      std::swap_ranges(&LU_[p * n], &LU_[p * n] + n, &LU_[best * n]);
      std::swap(x_[p], x_[best]);
    }
    const double* row = &LU_[p * n];
    for (std::size_t i = p + 1; i < n; ++i) {
      double* other = &LU_[i * n];
      const double factor = other[p] / row[p];
      if (factor == 0) continue;
      for (std::size_t j = p + 1; j < n; ++j) other[j] -= factor * row[j];
      x_[i] -= factor * x_[p];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    double sum = x_[i];
    for (std::size_t j = i + 1; j < n; ++j) sum -= LU_[i * n + j] * x_[j];
    x_[i] = sum / LU_[i * n + i];
  }
  return true;
}

// The same with complete pivoting where rows may depend on each other; what the rank does not reach stays zero.
// (Redundant sticking contacts share what the sweeps have given them.)
void FrictionProblem::eliminate() {
  if (eliminate_rows()) return;
  const int n = size_;
  for (int i = 0; i < n; ++i) {
    F_[z_(i)] = -F_[z_(i)];
    row_[z_(i)] = column_[z_(i)] = i;
  }
  int rank = 0;
  for (; rank < n; ++rank) {
    int r = rank, c = rank;
    double pivot = 0;
    for (int i = rank; i < n; ++i)
      for (int j = rank; j < n; ++j)
        if (const double x = std::fabs(J_[at(row_[z_(i)], column_[z_(j)])]); x > pivot) pivot = x, r = i, c = j;
    if (!(pivot > immovable)) break;
    std::swap(row_[z_(rank)], row_[z_(r)]);
    std::swap(column_[z_(rank)], column_[z_(c)]);
    const int pr = row_[z_(rank)], pc = column_[z_(rank)];
    for (int i = rank + 1; i < n; ++i) {
      const int ri = row_[z_(i)];
      const double factor = J_[at(ri, pc)] / J_[at(pr, pc)];
      if (factor == 0) continue;
      for (int j = rank; j < n; ++j) J_[at(ri, column_[z_(j)])] -= factor * J_[at(pr, column_[z_(j)])];
      F_[z_(ri)] -= factor * F_[z_(pr)];
    }
  }
  std::fill(x_.begin(), x_.end(), 0.0);
  for (int i = rank - 1; i >= 0; --i) {
    const int ri = row_[z_(i)];
    double sum = F_[z_(ri)];
    for (int j = i + 1; j < rank; ++j) sum -= J_[at(ri, column_[z_(j)])] * x_[z_(column_[z_(j)])];
    x_[z_(column_[z_(i)])] = sum / J_[at(ri, column_[z_(i)])];
  }
}

bool FrictionProblem::newton(Laws& laws, std::span<double> z, Answer& answer, int most) {
  double last = std::numeric_limits<double>::infinity();
  // Laws that answer to their slip saturate, and whole steps may then leap from one side of rest to the other for ever.
  most = std::min(most, careful_ ? 15 : 40);
  for (int step = 0; step < most; ++step) {
    ++answer.iterations;
    const double residual = linearize(laws, z), before = careful_ ? merit() : 0;
    eliminate();
    const double moves = largest(x_), size = largest(z);
    if (!std::isfinite(moves)) return false;
    std::copy(z.begin(), z.end(), last_.begin());
    std::copy(x_.begin(), x_.end(), try_.begin());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += try_[i];
    if (careful_ && residual > 1e-12 && moves > 4 * epsilon * std::max(size, largest(z))) {
      double part = 1;
      while (linearize(laws, z), !(merit() < before)) {
        part *= 0.5;
        if (part < 1e-2) return false;
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = last_[i] + part * try_[i];
      }
      if (part < 1) {
        last = std::numeric_limits<double>::infinity();
        continue;
      }
    }
    if (moves <= 4 * epsilon * std::max(size, largest(z))) return true;
    if (moves >= 0.5 * last && moves <= 1e-11 * std::max(size, largest(z))) return true;  // rounding
    last = moves;
  }
  return false;
}

// Modes and their Newton until they agree.
bool FrictionProblem::settle(Laws& laws, std::span<double> z, Answer& answer, int steps) {
  const int most = careful_ ? 6 : 20;
  for (int round = 0; round < most; ++round) {
    if (!newton(laws, z, answer, steps)) return false;
    bool changed = false;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      Block& b = blocks[index];
      if (b.smooth || b.given || b.forced) continue;
      const int id = static_cast<int>(index);
      const Six N = read(b, z);
      const Six u = slips(b, z);
      double x = 0, against = 0, speed = 0;
      for (int i = 0; i < b.dim; ++i) {
        const double xi = z[z_(b.start + i)];
        x += xi * xi;
        against += xi * u[z_(i)];
        speed += u[z_(i)] * u[z_(i)];
      }
      x = std::sqrt(x);
      if (b.mode == Mode::sticks) {
        const double r = may_hold(b, u, z) ? laws.holding(id, N) : laws.sliding(id, N, 1e-300);
        if (x > r * (1 + 1e-9) + 1e-300) b.mode = Mode::slips, changed = true;
      } else if (against > 0 && !hardly_moves(b, z)) {
        b.mode = Mode::sticks, changed = true;
      }
    }
    if (!changed) return true;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      // A block that has just been let go needs a direction to slide in: the one in which its bound was passed.
      const Mode mode = blocks[b].mode;
      if (mode == Mode::slips && !blocks[b].smooth && !blocks[b].given) respond(laws, b, z);
    }
  }
  return false;
}

/// What is minimised for thrusts that friction does not change, with the corner of dry friction rounded:
/// ½ zᵀWz + Σ r √(|s|² + ε²), s = s₀ + W z, convex in z; its gradient is W F with F = z + r s/√(|s|² + ε²). Fills F_
/// and, if asked, J_ = dF/dz. r and ε are by block in radius_ and round_. Every block is dry and answers.
double FrictionProblem::rounded(std::span<const double> z, bool with_jacobian) {
  double sum = 0;
  if (with_jacobian) std::fill(J_.begin(), J_.end(), 0.0);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const Block& b = blocks[index];
    const double r = radius_[index], round = round_[index];
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
      F_[z_(b.start + i)] = z[z_(b.start + i)] + (r > 0 ? r / d * u[z_(i)] : 0);
      if (with_jacobian) J_[at(b.start + i, b.start + i)] = 1;
    }
    // Its derivative is that of d z + r s = 0, by d: the effort as it is in the place of −r s/d, which it comes to be.
    // So what is at rest stays so when it is rounded less (Chan, Golub, Mulet 1999).
    double length = 0;
    for (int i = 0; i < b.dim; ++i) length += z[z_(b.start + i)] * z[z_(b.start + i)];
    const double limit = std::min(1.0, r / std::max(std::sqrt(length), 1e-300));
    for (int j = 0; with_jacobian && r > 0 && j < size_; ++j) {
      double along = 0;
      for (int i = 0; i < b.dim; ++i) along += u[z_(i)] / d * W_[at(b.start + i, j)];
      for (int i = 0; i < b.dim; ++i)
        J_[at(b.start + i, j)] += (r * W_[at(b.start + i, j)] + along * limit * z[z_(b.start + i)]) / d;
    }
  }
  return sum;
}

/// Newton on rounded(), ever less so: a convex function falls in every step, so it ends however stiffly contacts hang
/// together, where sweeps crawl. Bounds are those of the slips on the way. Where it has become clear who sticks, the
/// problem itself is solved. @param known  whether z is of a problem much like this one. @return whether the laws are
/// met
bool FrictionProblem::descend(Laws& laws, std::span<double> z, bool known, Answer& answer) {
  radius_.assign(blocks.size(), 0.0);
  round_.assign(blocks.size(), 0.0);
  bool let_go = false;             // whether what slides has its own bound, and not that of rest
  constexpr double sharp = 1e-10;  // of the slip that the whole friction of a contact alone would make
  double moves = 0;                // by the last Newton step, relative
  for (double part = known ? 1e-3 : 1;; part = std::max(sharp, 0.03 * part)) {
    const double enough = part > sharp ? 0.03 : 1e-11;
    for (int step = 0; step < (part > sharp ? 10 : 30); ++step) {
      ++answer.iterations;
      for (std::size_t index = 0; index < blocks.size(); ++index) {
        const Block& b = blocks[index];
        const Six u = slips(b, z), N = read(b, z);
        const double speed = norm(u);
        radius_[index] = may_hold(b, u, z) && !(let_go && speed > 30 * round_[index])
                             ? laws.holding(static_cast<int>(index), N)
                             : laws.sliding(static_cast<int>(index), N, std::max(speed, 1e-300));
        const double size = *std::max_element(b.size.begin(), b.size.begin() + b.dim);
        round_[index] = part * radius_[index] * std::max(size, immovable * b.mobility);
      }
      const double before = rounded(z, true);
      if (std::sqrt(merit()) <= enough * std::sqrt(weighted(z))) break;
      eliminate();
      moves = largest(x_) / std::max(largest(z), 1e-300);
      if (!std::isfinite(moves)) return false;
      std::copy(z.begin(), z.end(), last_.begin());
      std::copy(x_.begin(), x_.end(), try_.begin());
      for (double along = 1; along > 1e-3; along *= 0.5) {
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = last_[i] + along * try_[i];
        if (rounded(z, false) < before + 1e-14 * std::fabs(before)) break;  // where it falls by less than its rounding
      }
      if (moves <= 1e-11) break;  // the residual has rounding of its own, which stiff corners magnify
    }
    bool sure = let_go;
    let_go = part < 1e-3;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      Block& b = blocks[index];
      const double speed = norm(slips(b, z));
      b.mode = speed <= (part > sharp ? 10 : 1e4) * round_[index] ? Mode::sticks : Mode::slips;
      sure = sure && !(speed > 3 * round_[index] && speed < 100 * round_[index]);
    }
    if (sure && rests(laws, z, answer)) return true;
    if (!(part > sharp)) break;
  }
  return moves <= 1e-9;  // modes that would not agree: laws are met as far as they have been sharpened
}

/// As settle(), but only to where a sweep would stay: of two answers, one at rest and one that slides, sweeps take the
/// one that a body at rest has. z is left as it was where there is none.
bool FrictionProblem::rests(Laws& laws, std::span<double> z, Answer& answer) {
  kept_.assign(z.begin(), z.end());
  if (settle(laws, z, answer, 12)) {
    std::copy(z.begin(), z.end(), found_z_.begin());
    if (sweep(laws, z, 1, 1e-9)) {
      std::copy(found_z_.begin(), found_z_.end(), z.begin());
      return true;
    }
  }
  std::copy(kept_.begin(), kept_.end(), z.begin());
  return false;
}

double FrictionProblem::gain_of(Laws& laws, std::span<const double> z) {
  bool implicit = false;
  for (const Block& b : blocks) implicit = implicit || b.implicit;
  if (!implicit) return 0;
  // I − J of the implicit blocks, sticking ones left out: how efforts call up efforts.
  linearize(laws, z, false);
  for (const Block& b : blocks)
    for (int i = b.start; i < b.start + b.dim; ++i)
      for (int j = 0; j < size_; ++j) {
        double& m = J_[at(i, j)];
        m = b.implicit && (b.smooth || b.given || b.mode == Mode::slips) ? (i == j) - m : 0;
      }
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = 1 + 0.37 * static_cast<double>(i % 5);
  double gain = 0;
  for (int k = 0; k < 40; ++k) {
    for (int i = 0; i < size_; ++i) {
      F_[z_(i)] = 0;
      for (int j = 0; j < size_; ++j) F_[z_(i)] += J_[at(i, j)] * x_[z_(j)];
    }
    const double before = largest(x_), after = largest(F_);
    if (!(after > 1e-200)) return 0;
    gain = after / before;
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = F_[i] / after;
  }
  return gain;
}

/// Whether a block's slip is no more than rounding beside what its friction alone would make.
bool FrictionProblem::hardly_moves(const Block& b, std::span<const double> z) const {
  double speed = 0, effort = 0;
  for (int i = b.start; i < b.start + b.dim; ++i) {
    const double s = slip(i, z);
    speed += s * s;
    effort += z[z_(i)] * z[z_(i)];
  }
  return std::sqrt(speed) <= 1e-9 * b.mobility * std::sqrt(effort);
}

/// Where contacts are redundant some may be at their bounds and yet not move: what does not slip, sticks.
void FrictionProblem::at_rest_sticks(std::span<const double> z) {
  for (Block& b : blocks)
    if (!b.smooth && !b.given && b.mode != Mode::sticks && hardly_moves(b, z)) b.mode = Mode::sticks;
}

/// Where contacts at rest are redundant, how they share is open: sweeps load the first to its bound before they turn to
/// the next, and come to an end slowly where the bounds are hardly enough for all. So z becomes the efforts of least
/// norm that hold all of them, and where these pass bounds, those whose largest part of a bound is least: the share of
/// the limit of rest. With W = L Lᵀ the slips are L y, efforts that hold obey Lᵀz = c, and that part is 1/ν with ν the
/// least of Σ r |L y| over −cᵀy = 1, by which the motion y gives way (limit analysis). Its corners are rounded by ever
/// less (Newton), which goes from the share by least norm to that of the limit. @param anyhow  beyond all bounds too.
/// @return whether contacts are redundant, and z lies within all bounds
bool FrictionProblem::share(Laws& laws, std::span<double> z, bool anyhow) {
  const auto open = [](const Block& b) { return !b.smooth && !b.given && b.at_rest; };
  if (std::count_if(blocks.begin(), blocks.end(), open) < 2) return false;
  std::copy(z.begin(), z.end(), kept_.begin());
  const auto refuse = [&] {
    std::copy(kept_.begin(), kept_.end(), z.begin());
    return false;
  };
  for (const Block& b : blocks)
    for (int i = b.start; open(b) && i < b.start + b.dim; ++i) z[z_(i)] = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b)
    if (blocks[b].given) respond(laws, b, z);

  // Efforts of all kinds on one scale, the same for all of a block.
  const std::size_t n = z_(size_);
  double* const L = LU_.data();  // [n × rank], rows of n
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
      x_[z_(i)] = part_[k] * part_[k] * W_[at(i, i)];  // what is left of the diagonal
      last_[z_(i)] = part_[k];
      directions += part_[k] > 0;
    }
  const double cut = 1e-9 * largest(x_);
  for (; rank < n; ++rank) {  // Cholesky with pivots
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
  if (rank == directions || rank == 0) return refuse();  // nothing is redundant
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
  // The largest part of a bound, of efforts −scale · slips; bounds, which these may change, are known afterwards.
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
  double worst = take([](std::size_t, const Six&) { return 1.0; });  // least norm
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
        const auto add = [&](double weight, auto of) {
          for (std::size_t j = 0; j < rank; ++j)
            for (std::size_t l = 0; l <= j; ++l) H[j * n + l] += weight * of(j) * of(l);
        };
        for (int i = 0; i < b.dim; ++i) {
          for (std::size_t j = 0; j < rank; ++j) g[j] += r * s[z_(i)] * row(i)[j];
          // I − s sᵀ/d², so that nothing cancels.
          add(r * (round / d) * (round / d), [&](std::size_t j) { return row(i)[j]; });
          for (int o = 0; o < i; ++o)
            add(r, [&](std::size_t j) { return (s[z_(i)] * row(o)[j] - s[z_(o)] * row(i)[j]) / d; });
        }
      }
      // Along c the step does not go, so that H may have any curvature there: as much as elsewhere.
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
    double least = 0;  // of the power, not rounded
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
    // The part is as small as can be where it is no more than what the motion says; bounds may have answered to it.
    if (!(worst * least <= 1 + 1e-14) && round > sharp * size) continue;
    ++settled;
    if (std::fabs(worst - before) <= 4 * epsilon) break;
  }
  return worst <= within || anyhow || refuse();
}

/// Whether all that is at rest stays, each within its bound, by the efforts z of the last solution: as they are, or
/// after one correction where loads have changed, which redundant contacts share anew. Spares what rests the search for
/// modes, and where nothing changes a factorisation. z is left as it was where something gives way.
bool FrictionProblem::stays(Laws& laws, std::span<double> z) {
  for (const Block& b : blocks)
    if (b.smooth || !(b.given || b.forced || b.at_rest)) return false;
  std::copy(z.begin(), z.end(), first_.begin());
  for (Block& b : blocks) b.mode = b.given ? Mode::slips : Mode::sticks;
  const auto off = [&] {  // relative to the terms of each slip
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
  // By so much the slips of redundant contacts may disagree, where constraints are met to their tolerance only.
  constexpr double contradiction = 1e-8;
  // What is left goes the same way in every step: of few contacts, where a correction is cheap, nothing is.
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

FrictionProblem::Answer FrictionProblem::solve(Laws& laws, std::span<double> z, bool known, Choice choice) {
  Answer answer;
  bool implicit = false, free = false, answering = false, given = false;
  for (Block& b : blocks) {
    implicit = implicit || b.implicit;
    free = free || !(b.smooth || b.given);
    answering = answering || b.answers;
    given = given || b.given || b.forced;
    if (b.forced) b.mode = Mode::sticks;
  }
  careful_ = answering;
  if (!known) std::fill(z.begin(), z.end(), 0.0);
  if (!known) share(laws, z);
  std::copy(z.begin(), z.end(), start_.begin());

  const auto allowed = [&](std::span<const double> at) {
    for (int s = 0; s < sites_; ++s) thrusts_[z_(s)] = thrust(s, at);
    return laws.allowed(thrusts_);
  };
  // The first answer of every law to what is there without it.
  const bool convex = free && !implicit && !answering && !given && size_ > many;
  bool swept = false;
  if (known && free && !answering) answer.found = stays(laws, z);
  if (!answer.found && convex && known && modes_known_) answer.found = rests(laws, z, answer);
  if (!answer.found) swept = sweep(laws, z, implicit || !free ? 1 : few, 1e-15);
  if (convex && !answer.found && !swept) {  // sweeps have not come to an end where contacts hang together
    std::copy(z.begin(), z.end(), first_.begin());
    if (!(answer.found = descend(laws, z, known, answer))) {
      std::copy(first_.begin(), first_.end(), z.begin());
      swept = sweep(laws, z, 400, 1e-15);
    }
  }
  std::copy(z.begin(), z.end(), first_.begin());
  answer.gain = gain_of(laws, z);
  const bool one = !implicit || answer.gain < 0.9;
  if (implicit && one && !answer.found) {
    swept = sweep(laws, z, answering ? few : 400, 1e-13);
    if (!swept && share(laws, z)) swept = sweep(laws, z, few, 1e-13);  // bounds that are hardly enough
  }
  std::copy(z.begin(), z.end(), best_.begin());
  swept_modes_.clear();
  for (const Block& b : blocks) swept_modes_.push_back(b.mode);
  if (!answer.found) answer.found = settle(laws, z, answer);
  const bool all_dry = std::all_of(blocks.begin(), blocks.end(), [](const Block& b) { return !b.smooth; });
  if (!answer.found && !swept && !implicit && free && !given && !convex && all_dry) {
    // At the edge of slip sweeps crawl, and what they leave is as much as the slip itself.
    std::copy(best_.begin(), best_.end(), z.begin());
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].mode = swept_modes_[b];
    answer.found = descend(laws, z, true, answer);
  }
  if (!answer.found && implicit && one && !answering) {  // modes that would not agree, as at the edge of slip
    std::copy(best_.begin(), best_.end(), z.begin());
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].mode = swept_modes_[b];
    answer.found = swept || (free && !given && all_dry && descend(laws, z, true, answer));
    if (!answer.found) {
      std::copy(best_.begin(), best_.end(), z.begin());
      // Where thrusts call up no others there is one answer (T9); a large ratio of masses costs digits of it.
      answer.found = sweep(laws, z, 4000, 1e-12) || linearize(laws, z) <= 1e-6;
    }
    std::copy(z.begin(), z.end(), best_.begin());
  }
  // Laws that answer to their slip may be falling ones, or jump: Newton and sweeps take turns, and what neither finds
  // is left where the sweeps end, with its residual.
  for (int round = 0; answering && one && !answer.found && round < 4; ++round) {
    std::copy(best_.begin(), best_.end(), z.begin());
    answer.found = sweep(laws, z, few, 1e-12);
    std::copy(z.begin(), z.end(), best_.begin());
    if (!answer.found && !(answer.found = settle(laws, z, answer))) std::copy(best_.begin(), best_.end(), z.begin());
  }
  if (!answer.found && !implicit) {  // modes that would not agree: the sweeps' answer is good to their tolerance
    std::copy(best_.begin(), best_.end(), z.begin());
    answer.found = swept || answering || sweep(laws, z, 4000, 1e-12);
  }
  if (answering && one) answer.found = true;
  if (answer.found) answer.solutions = 1;

  if (implicit) {
    if (answer.found) answer.gain = std::max(answer.gain, gain_of(laws, z));
    if (!answer.found || answer.gain >= 0.9) {
      // There may be none or several: Newton from the ideal answer many times over, in both senses of the thrust.
      found_.clear();
      found_modes_.clear();
      // Two are different where thrusts are: how redundant contacts share does not matter, nor a digit that a large
      // ratio of masses has cost.
      const auto keep = [&](std::span<const double> at) {
        if (!allowed(at)) return;
        for (std::size_t k = 0; k < found_.size(); k += z.size()) {
          double apart = 0, size = 0;
          for (int s = 0; s < sites_; ++s) {
            const Six N = thrust(s, std::span(found_).subspan(k, z.size()));
            for (std::size_t i = 0; i < 6; ++i) {
              apart = std::max(apart, std::fabs(N[i] - thrusts_[z_(s)][i]));
              size = std::max(size, std::fabs(N[i]));
            }
          }
          if (apart <= 1e-6 * size) return;
        }
        if (found_.size() >= 8 * z.size()) return;
        found_.insert(found_.end(), at.begin(), at.end());
        for (const Block& b : blocks) found_modes_.push_back(b.mode);
        answer.gain = std::max(answer.gain, gain_of(laws, at));
      };
      if (answer.found) keep(z);
      for (const double factor : {1.0, 0.0, 0.1, 10.0, 1e2, 1e3, 1e5, -1.0, -10.0}) {
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = factor * first_[i];
        if (settle(laws, z, answer)) keep(z);
      }
      // All at rest: where a step can end so, no sliding thrust need exist (an impact without collision).
      for (Block& b : blocks)
        if (!(b.smooth || b.given)) b.mode = Mode::sticks;
      if (free && settle(laws, z, answer)) keep(z);
      answer.solutions = z.empty() ? 0 : static_cast<int>(found_.size() / z.size());
      answer.found = answer.solutions > 0;
      if (answer.gain < 0.9) answer.solutions = std::min(answer.solutions, 1);  // what differs is rounding (T9)
      const std::vector<double>& near = known ? start_ : first_;
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < found_.size(); k += z.size()) {
        double measure = 0;
        for (std::size_t i = 0; i < z.size(); ++i) {
          const double x = found_[k + i], d = choice == Choice::continuous ? x - near[i] : x;
          measure += d * d;
        }
        if (choice == Choice::largest) measure = -measure;
        if (measure < best) {
          best = measure;
          std::copy_n(found_.begin() + static_cast<std::ptrdiff_t>(k), z.size(), z.begin());
          for (std::size_t b = 0; b < blocks.size(); ++b)
            blocks[b].mode = found_modes_[k / z.size() * blocks.size() + b];
        }
      }
    } else if (!allowed(z)) {
      answer.found = false;
      answer.solutions = 0;
    }
    if (!answer.found) std::copy(first_.begin(), first_.end(), z.begin());
  }

  if (!std::isfinite(largest(z))) {  // thrusts that call each other up without end, in whatever looked last
    answer.found = false;
    answer.solutions = 0;
    std::fill(z.begin(), z.end(), 0.0);
  }
  at_rest_sticks(z);
  modes_known_ = true;
  answer.residual = linearize(laws, z, true, &answer.worst);
  answer.worst_size = answer.residual * std::max(largest(z), 1e-300);
  return answer;
}

void FrictionProblem::correction(std::span<const double> slips, std::span<double> dz) {
  std::fill(J_.begin(), J_.end(), 0.0);
  for (const Block& b : blocks) {
    const bool sticks = !b.smooth && !b.given && b.mode == Mode::sticks;
    for (int i = b.start; i < b.start + b.dim; ++i) {
      F_[z_(i)] = sticks ? slips[z_(i)] / b.mobility : 0;
      for (int j = 0; j < size_; ++j) J_[at(i, j)] = sticks ? W_[at(i, j)] / b.mobility : i == j;
    }
  }
  eliminate();
  std::copy(x_.begin(), x_.end(), dz.begin());
}

}  // namespace linchpin::detail
