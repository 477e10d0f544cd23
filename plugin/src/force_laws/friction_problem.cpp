// Selects the method for a friction problem: staying at rest (static_friction.cpp), sweeps (friction_gauss_seidel.cpp),
// Newton (friction_newton.cpp), and a search where there may be several solutions.
#include "force_laws/friction_problem_impl.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

/// Sweeps before Newton is tried. Many dampers in a chain make sweeps slow and Newton no slower.
constexpr int few = 12;

/// Number of unknowns above which sweeps of a connected system converge slowly.
constexpr int many = 24;

}  // namespace

void FrictionProblem::reset_slips(int unknowns) {
  size_ = unknowns;
  blocks.clear();
  slip0_.assign(z_(unknowns), 0.0);
  residual_slip_.assign(z_(unknowns), 0.0);
}

void FrictionProblem::reset(int unknowns, int sites, bool same) {
  reset_slips(unknowns);
  sites_ = sites;
  const std::size_t n = z_(unknowns), s = z_(sites);
  if (!same) {
    W_.assign(n * n, 0.0);
    K_.assign(6 * s * n, 0.0);
    weight_.assign(n, 1.0);
  }
  N0_.assign(s, Six{});
  thrusts_.assign(s, Six{});
  work_.J.resize(n * (n + 6));
  work_.LU.resize(n * n);
  for (auto* x : {&work_.F, &work_.x, &work_.trial, &work_.best, &work_.start, &work_.first, &work_.last, &work_.kept,
                  &work_.found, &static_.free_slips, &static_.collapse})
    x->resize(n);
  modes_known_ = false;
  coupled_.unknowns.reserve(n);
  coupled_.response.reserve(6 * n);
  work_.row.resize(n);
  work_.column.resize(n);
  solutions_.values.reserve(8 * n);
}

double FrictionProblem::slip(int i, std::span<const double> z) const {
  // Uses four sums, because compilers keep the order of one.
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

// Returns true if the static bound applies to a dry block. @param u  its slips at z
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
  return b.reaction_implicit ? thrust(b.site, z) : b.known;
}

Six FrictionProblem::slip_read(const Block& b, std::span<const double> z) const {
  Six u{};
  for (int i = 0; b.is_slip_implicit() && i < b.dim; ++i)
    u[z_(i)] = (1 - b.slip_fraction) * b.start_slip[z_(i)] + b.slip_fraction * slip(b.start + i, z);
  return u;
}

/// Returns true if efforts change a reaction by more than its rounding.
bool FrictionProblem::efforts_change_reaction(int site) const {
  constexpr double rounding = 1e-13;
  for (int k = 0; k < 6; ++k)
    for (int j = 0; j < size_; ++j)
      if (std::fabs(K_[at(6 * site + k, j)]) > rounding) return true;
  return false;
}

double FrictionProblem::gain_of(Laws& laws, std::span<const double> z) {
  bool implicit = false;
  for (const Block& b : blocks) implicit = implicit || b.reaction_implicit;
  if (!implicit) return 0;
  // I − J of the implicit blocks without sticking ones is the feedback of efforts on efforts.
  linearize(laws, z, false);
  for (const Block& b : blocks)
    for (int i = b.start; i < b.start + b.dim; ++i)
      for (int j = 0; j < size_; ++j) {
        double& m = work_.J[at(i, j)];
        m = b.reaction_implicit && (b.is_smooth() || b.is_given() || b.mode == Mode::slips) ? (i == j) - m : 0;
      }
  for (std::size_t i = 0; i < work_.x.size(); ++i) work_.x[i] = 1 + 0.37 * static_cast<double>(i % 5);
  double gain = 0;
  for (int k = 0; k < 40; ++k) {
    for (int i = 0; i < size_; ++i) {
      work_.F[z_(i)] = 0;
      for (int j = 0; j < size_; ++j) work_.F[z_(i)] += work_.J[at(i, j)] * work_.x[z_(j)];
    }
    const double before = largest(work_.x), after = largest(work_.F);
    if (!(after > 1e-200)) return 0;
    gain = after / before;
    for (std::size_t i = 0; i < work_.x.size(); ++i) work_.x[i] = work_.F[i] / after;
  }
  return gain;
}

/// Returns true if a block's slip is only rounding beside the slip that its friction alone would make.
bool FrictionProblem::slip_is_rounding(const Block& b, std::span<const double> z) const {
  if (b.slip_prescribed) return false;
  double speed = 0, effort = 0;
  for (int i = b.start; i < b.start + b.dim; ++i) {
    const double s = slip(i, z);
    speed += s * s;
    effort += z[z_(i)] * z[z_(i)];
  }
  return std::sqrt(speed) <= 1e-9 * b.mobility * std::sqrt(effort);
}

/// Redundant elements may be at their bounds and yet not move. An element that does not slip counts as sticking.
void FrictionProblem::stick_where_at_rest(std::span<const double> z) {
  for (Block& b : blocks)
    if (!b.is_smooth() && !b.is_given() && b.mode != Mode::sticks && slip_is_rounding(b, z)) b.mode = Mode::sticks;
}

FrictionProblem::Result FrictionProblem::solve(Laws& laws, std::span<double> z, bool known, Choice choice) {
  Result result;
  Kinds kinds;
  for (Block& b : blocks) {
    kinds.reaction_implicit = kinds.reaction_implicit || (b.reaction_implicit && efforts_change_reaction(b.site));
    kinds.free = kinds.free || !(b.is_smooth() || b.is_given());
    kinds.slip_implicit = kinds.slip_implicit || b.is_slip_implicit();
    kinds.given = kinds.given || b.is_given() || b.is_forced();
    if (b.is_forced()) b.mode = Mode::sticks;
  }
  result.reaction_implicit = kinds.reaction_implicit;
  damped_newton_ = kinds.slip_implicit;
  if (!known) std::fill(z.begin(), z.end(), 0.0);
  if (!known) distribute_static_friction(laws, z);
  std::copy(z.begin(), z.end(), work_.start.begin());

  find_solution(laws, z, known, kinds, result);
  if (kinds.reaction_implicit) {
    if (result.found) result.gain = std::max(result.gain, gain_of(laws, z));
    // A single solution is accepted even if the force of a unilateral constraint has the wrong sign in it. That
    // constraint is released by its multiplier.
    if (!result.found || result.gain >= 0.9) find_all_solutions(laws, z, known, choice, kinds, result);
    if (!result.found) std::copy(work_.first.begin(), work_.first.end(), z.begin());
  }

  if (!std::isfinite(largest(z))) {  // Reactions that increase each other without end, in the search that ran last.
    result.found = false;
    result.solutions = 0;
    std::fill(z.begin(), z.end(), 0.0);
  }
  stick_where_at_rest(z);
  modes_known_ = true;
  result.residual = linearize(laws, z, true, &result.worst);
  result.worst_size = result.residual * std::max(largest(z), 1e-300);
  return result;
}

/// Finds one solution, with the cheapest method first. Leaves the first response of the laws in work_.first.
void FrictionProblem::find_solution(Laws& laws, std::span<double> z, bool known, const Kinds& kinds, Result& result) {
  const bool convex = kinds.free && !kinds.reaction_implicit && !kinds.slip_implicit && !kinds.given && size_ > many;
  bool swept = try_cheap_methods(laws, z, known, convex, kinds, result);
  std::copy(z.begin(), z.end(), work_.first.begin());
  result.gain = gain_of(laws, z);
  const bool one = !kinds.reaction_implicit || result.gain < 0.9;
  if (kinds.reaction_implicit && one && !result.found) {
    swept = gauss_seidel(laws, z, kinds.slip_implicit ? few : 400, 1e-13);
    // The bounds are hardly sufficient.
    if (!swept && distribute_static_friction(laws, z)) swept = gauss_seidel(laws, z, few, 1e-13);
  }
  store_swept(z);
  if (!result.found) result.found = solve_modes(laws, z, result);
  const bool all_dry = std::all_of(blocks.begin(), blocks.end(), [](const Block& b) { return !b.is_smooth(); });
  if (!result.found && !swept && !kinds.reaction_implicit && kinds.free && !kinds.given && !convex && all_dry) {
    // At the edge of slip, sweeps converge slowly, and their error is as large as the slip itself.
    restore_swept(z);
    result.found = minimize_rounded(laws, z, true, result);
  }
  if (!result.found && kinds.reaction_implicit && one &&
      !kinds.slip_implicit) {  // The modes do not agree, as at the edge of slip.
    restore_swept(z);
    result.found = swept || (kinds.free && !kinds.given && all_dry && minimize_rounded(laws, z, true, result));
    if (!result.found) {
      std::copy(work_.best.begin(), work_.best.end(), z.begin());
      // Without feedback through reactions there is one solution (T9). A large ratio of masses reduces its accuracy.
      result.found = gauss_seidel(laws, z, 4000, 1e-12) || linearize(laws, z) <= 1e-6;
    }
    std::copy(z.begin(), z.end(), work_.best.begin());
  }
  if (kinds.slip_implicit && one) alternate_newton_and_sweeps(laws, z, result);
  // The modes do not agree. The result of the sweeps is accurate to their tolerance.
  if (!result.found && !kinds.reaction_implicit) {
    std::copy(work_.best.begin(), work_.best.end(), z.begin());
    result.found = swept || kinds.slip_implicit || gauss_seidel(laws, z, 4000, 1e-12);
  }
  if (kinds.slip_implicit && one) result.found = true;
  if (result.found) result.solutions = 1;
}

/// Tries to stay at rest, and otherwise sweeps. @return whether the sweeps have converged
bool FrictionProblem::try_cheap_methods(Laws& laws, std::span<double> z, bool known, bool convex, const Kinds& kinds,
                                        Result& result) {
  bool swept = false;
  if (known && kinds.free && !kinds.slip_implicit) result.found = stays_at_rest(laws, z);
  if (!result.found && convex && known && modes_known_) result.found = solve_modes_at_rest(laws, z, result);
  // One sweep is the first response of every law to the values without it.
  if (!result.found) swept = gauss_seidel(laws, z, kinds.reaction_implicit || !kinds.free ? 1 : few, 1e-15);
  // The sweeps have not converged, because the elements form a connected system.
  if (convex && !result.found && !swept) {
    std::copy(z.begin(), z.end(), work_.first.begin());
    if (!(result.found = minimize_rounded(laws, z, known, result))) {
      std::copy(work_.first.begin(), work_.first.end(), z.begin());
      swept = gauss_seidel(laws, z, 400, 1e-15);
    }
  }
  return swept;
}

void FrictionProblem::store_swept(std::span<const double> z) {
  std::copy(z.begin(), z.end(), work_.best.begin());
  work_.swept_modes.clear();
  for (const Block& b : blocks) work_.swept_modes.push_back(b.mode);
}

void FrictionProblem::restore_swept(std::span<double> z) {
  std::copy(work_.best.begin(), work_.best.end(), z.begin());
  for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].mode = work_.swept_modes[b];
}

/// Laws that are implicit in their slip may fall with speed, or jump. Newton and sweeps alternate. If neither
/// converges, the end of the sweeps is the result, with its residual.
void FrictionProblem::alternate_newton_and_sweeps(Laws& laws, std::span<double> z, Result& result) {
  for (int round = 0; !result.found && round < 4; ++round) {
    std::copy(work_.best.begin(), work_.best.end(), z.begin());
    result.found = gauss_seidel(laws, z, few, 1e-12);
    std::copy(z.begin(), z.end(), work_.best.begin());
    if (!result.found && !(result.found = solve_modes(laws, z, result)))
      std::copy(work_.best.begin(), work_.best.end(), z.begin());
  }
}

/// Searches for all solutions, of which there may be none or several. Starts Newton from many multiples of the ideal
/// solution, with both signs of the reaction.
void FrictionProblem::find_all_solutions(Laws& laws, std::span<double> z, bool known, Choice choice, const Kinds& kinds,
                                         Result& result) {
  solutions_.values.clear();
  solutions_.modes.clear();
  // Two solutions are different where their reactions are. The distribution over redundant elements does not matter,
  // nor a digit that a large ratio of masses has cost.
  const auto keep = [&](std::span<const double> at) {
    // Larger efforts satisfy their laws only by the rounding of their slips.
    constexpr double beyond = 1e10;
    if (largest(at) > beyond * largest(work_.first) || !reactions_allowed(laws, at)) return;
    for (std::size_t k = 0; k < solutions_.values.size(); k += z.size()) {
      double apart = 0, size = 0;
      for (int s = 0; s < sites_; ++s) {
        const Six N = thrust(s, std::span(solutions_.values).subspan(k, z.size()));
        for (std::size_t i = 0; i < 6; ++i) {
          apart = std::max(apart, std::fabs(N[i] - thrusts_[z_(s)][i]));
          size = std::max(size, std::fabs(N[i]));
        }
      }
      if (apart <= 1e-6 * size) return;
    }
    if (solutions_.values.size() >= 8 * z.size()) return;
    solutions_.values.insert(solutions_.values.end(), at.begin(), at.end());
    for (const Block& b : blocks) solutions_.modes.push_back(b.mode);
    result.gain = std::max(result.gain, gain_of(laws, at));
  };
  if (result.found) keep(z);
  for (const double factor : {1.0, 0.0, 0.1, 10.0, 1e2, 1e3, 1e5, -1.0, -10.0}) {
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = factor * work_.first[i];
    if (solve_modes(laws, z, result)) keep(z);
  }
  // All at rest: a step can end so even if no sliding solution exists (an impact without collision).
  for (Block& b : blocks)
    if (!(b.is_smooth() || b.is_given() || b.slip_prescribed)) b.mode = Mode::sticks;
  if (kinds.free && solve_modes(laws, z, result)) keep(z);
  result.solutions = z.empty() ? 0 : static_cast<int>(solutions_.values.size() / z.size());
  result.found = result.solutions > 0;
  if (result.gain < 0.9) result.solutions = std::min(result.solutions, 1);  // The differences are rounding (T9).
  const std::vector<double>& near = known ? work_.start : work_.first;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < solutions_.values.size(); k += z.size()) {
    double measure = 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double x = solutions_.values[k + i], d = choice == Choice::continuous ? x - near[i] : x;
      measure += d * d;
    }
    if (choice == Choice::largest) measure = -measure;
    if (measure < best) {
      best = measure;
      std::copy_n(solutions_.values.begin() + static_cast<std::ptrdiff_t>(k), z.size(), z.begin());
      for (std::size_t b = 0; b < blocks.size(); ++b)
        blocks[b].mode = solutions_.modes[k / z.size() * blocks.size() + b];
    }
  }
}

bool FrictionProblem::reactions_allowed(Laws& laws, std::span<const double> z) {
  for (int s = 0; s < sites_; ++s) thrusts_[z_(s)] = thrust(s, z);
  return laws.reactions_allowed(thrusts_);
}

void FrictionProblem::correction(std::span<const double> slips, std::span<double> dz) {
  std::fill(work_.J.begin(), work_.J.end(), 0.0);
  for (const Block& b : blocks) {
    const bool sticks = keeps_sticking(b);
    for (int i = b.start; i < b.start + b.dim; ++i) {
      work_.F[z_(i)] = sticks ? slips[z_(i)] / b.mobility : 0;
      for (int j = 0; j < size_; ++j) work_.J[at(i, j)] = sticks ? W_[at(i, j)] / b.mobility : i == j;
    }
  }
  eliminate();
  std::copy(work_.x.begin(), work_.x.end(), dz.begin());
}

void FrictionProblem::linearize_slips(Laws& laws, std::span<const double> z) {
  linear_.slopes.assign(blocks.size(), Square{});
  linear_.scale.assign(z_(size_), 1.0);
  linear_.J.resize(size_, size_);
  const auto J = [&](int i, int j) -> double& { return linear_.J.column(j)[i]; };
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const Block& b = blocks[k];
    Square& slope = linear_.slopes[k];
    if (b.is_slip_implicit()) law_slopes(laws, static_cast<int>(k), z_(b.dim), read(b, z), slip_read(b, z), slope);
    for (Six& row : slope)
      for (double& x : row) x *= b.slip_fraction;
    for (int i = b.start; i < b.start + b.dim; ++i) {
      if (keeps_sticking(b)) {
        for (int j = 0; j < size_; ++j) J(i, j) = W_[at(i, j)] / b.mobility;
      } else {
        J(i, i) = 1;
        for (int l = 0; l < b.dim; ++l)
          for (int j = 0; j < size_; ++j) J(i, j) -= slope[z_(i - b.start)][z_(l)] * W_[at(b.start + l, j)];
      }
      double size = 0;
      for (int j = 0; j < size_; ++j) size = std::max(size, std::fabs(J(i, j)));
      if (!(size > 1)) continue;  // Directions that others hold must not be scaled up.
      linear_.scale[z_(i)] = 1 / size;
      for (int j = 0; j < size_; ++j) J(i, j) /= size;
    }
  }
  linear_.J.factor_pivoted(immovable);
}

void FrictionProblem::respond(std::span<const double> slips, std::span<double> dz) {
  std::vector<double>& x = work_.x;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const Block& b = blocks[k];
    for (int i = b.start; i < b.start + b.dim; ++i) {
      double& to = x[z_(i)] = 0;
      if (keeps_sticking(b)) {
        to = -slips[z_(i)] / b.mobility;
      } else {
        to = -dz[z_(i)];
        for (int l = 0; l < b.dim; ++l) to += linear_.slopes[k][z_(i - b.start)][z_(l)] * slips[z_(b.start + l)];
      }
      to *= linear_.scale[z_(i)];
    }
  }
  linear_.J.apply_transposed(x.data());
  linear_.J.solve(linear_.J.steps, x.data());
  for (int k = 0; k < linear_.J.steps; ++k) dz[z_(linear_.J.pivot[z_(k)])] += x[z_(k)];
}

}  // namespace linchpin::detail
