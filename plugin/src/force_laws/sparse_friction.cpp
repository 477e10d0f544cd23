// Semi-smooth Newton for friction in the sparse structure of a mechanism. Each iteration linearises the blocks, factors
// the rows of constraints and efforts with the compliance that the linearised blocks have, and solves once. An
// active-set method begins at the last solution. Where it does not end in a few iterations, an interior-point method
// finds the modes.
#include "force_laws/sparse_friction.h"

#include "force_laws/friction_problem_impl.h"
#include "problem/jacobian_products.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

/// Compliance of a sticking direction, relative to its mobility. It keeps redundant directions apart from those of the
/// constraints. The iterations remove its effect.
constexpr double stick_compliance = 1e-12;
/// Weight of the slip below which an effort does not depend on it.
constexpr double independent = 1e-12;
/// Largest number of whole steps of the active-set method.
constexpr int most_steps = 150;

}  // namespace

void SparseFriction::reset(const ConstrainedProblem& constraints, std::vector<Block>& blocks, double step) {
  constraints_ = &constraints;
  blocks_ = &blocks;
  step_ = step;
  directions.clear();
  is_laid_out_ = is_factored_ = false;
}

double SparseFriction::size_of(const Block& b, std::span<const double> u) {
  double square = 0;
  for (int i = b.start; i < b.start + b.dim; ++i) square += u[z_(i)] * u[z_(i)];
  return std::sqrt(square);
}

/// Lays out rows_: the rows of each constraint, followed by those of its efforts.
void SparseFriction::lay_out() {
  const ConstrainedProblem& from = *constraints_;
  const std::size_t count = from.constraints.size();
  by_unknown_.clear();
  for (std::size_t i = 0; i < directions.size(); ++i)
    if (directions[i].acts) by_unknown_.push_back(static_cast<int>(i));
  const std::size_t unknowns = by_unknown_.size();
  const auto unknown_of = [&](std::size_t direction) {
    return std::lower_bound(by_unknown_.begin(), by_unknown_.end(), static_cast<int>(direction)) - by_unknown_.begin();
  };
  // Directions by constraint, in their order.
  first_by_constraint_.assign(count + 1, 0);
  for (const Direction& d : directions) ++first_by_constraint_[z_(d.constraint) + 1];
  for (std::size_t i = 0; i < count; ++i) first_by_constraint_[i + 1] += first_by_constraint_[i];
  order_.resize(directions.size());
  for (std::size_t i = 0; i < directions.size(); ++i)
    order_[z_(first_by_constraint_[z_(directions[i].constraint)]++)] = static_cast<int>(i);

  rows_.block_sizes = from.block_sizes;
  rows_.mass = from.mass;
  rows_.Q.resize(from.Q.size());
  rows_.c.resize(from.Q.size());
  rows_.constraints.resize(count);
  rows_.entries.clear();
  rows_.row_start.assign(1, 0);
  rows_.row_constraint.clear();
  constraint_rows_.clear();
  entries_.resize(directions.size());
  places_.resize(unknowns);
  compliance_.clear();
  const auto end_row = [&](int constraint) {
    rows_.row_start.push_back(static_cast<int>(rows_.entries.size()));
    rows_.row_constraint.push_back(constraint);
  };
  std::size_t next = 0, row = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int constraint = static_cast<int>(i);
    for (; row < from.b.size() && from.row_constraint[row] == constraint; ++row) {
      rows_.entries.insert(rows_.entries.end(), from.entries.begin() + from.row_start[row],
                           from.entries.begin() + from.row_start[row + 1]);
      constraint_rows_.push_back(static_cast<int>(rows_.row_constraint.size()));
      end_row(constraint);
    }
    for (; next < directions.size() && directions[z_(order_[next])].constraint == constraint; ++next) {
      const std::size_t u = z_(order_[next]);
      const auto& parts = directions[u].parts;
      const int first = parts[0].size > 0 && parts[1].size > 0 && parts[1].column < parts[0].column ? 1 : 0;
      for (const int side : {first, 1 - first}) {
        entries_[u][z_(side)] = static_cast<int>(rows_.entries.size());
        for (int c = 0; c < parts[z_(side)].size; ++c) rows_.entries.push_back({parts[z_(side)].column + c, 0.0});
      }
      compliance_.resize(rows_.row_constraint.size(), 0.0);
      compliance_.push_back(directions[u].acts ? 0 : 1);
      if (directions[u].acts)
        places_[static_cast<std::size_t>(unknown_of(u))] = static_cast<int>(rows_.row_constraint.size());
      end_row(constraint);
    }
  }
  const std::size_t m = rows_.row_constraint.size();
  rows_.b.assign(m, 0.0);
  compliance_.resize(m, 0.0);
  e_.resize(m);
  multipliers_.resize(m);
  for (auto* x : {&lambda_, &dlambda_}) x->resize(from.b.size());
  for (auto* x : {&free_, &dv_, &most_by_column_}) x->resize(from.Q.size());
  for (auto* x : {&F_, &dz_, &du_, &slips_, &trial_F_}) x->resize(unknowns);
  linear_.assign(blocks_->size(), {});
  factored_.resize(blocks_->size());
  roots_.resize(blocks_->size());
  bounds_.resize(blocks_->size());
  bound_is_known_.resize(blocks_->size());
  mobilities_.assign(blocks_->size(), 1e-300);
  for (std::size_t k = 0; k < blocks_->size(); ++k)
    for (int i = (*blocks_)[k].start; i < (*blocks_)[k].start + (*blocks_)[k].dim; ++i)
      mobilities_[k] = std::max(mobilities_[k], direction(i).mobility);
  changed_.reserve(blocks_->size());
}

/// Writes the rows of the efforts of a block, √d qᵀB, and their compliance γ (1 − d)/step.
void SparseFriction::write_rows(std::size_t k) {
  const Block& b = (*blocks_)[k];
  const Linear& as = factored_[k];
  const double gamma = mobility(b);
  for (int r = 0; r < b.dim; ++r) {
    const std::size_t u = index_of(b.start + r);
    const double d = as.d[z_(r)], root = roots_[k][z_(r)] = d > independent ? std::sqrt(d) : 0;
    compliance_[z_(places_[z_(b.start + r)])] = gamma * std::max(1 - d, stick_compliance) / step_;
    for (std::size_t side = 0; side < 2; ++side) {
      auto* const entry = rows_.entries.data() + entries_[u][side];
      for (int c = 0; c < directions[u].parts[side].size; ++c) {
        double sum = 0;
        for (int j = 0; j < b.dim; ++j) sum += as.axes[z_(j)][z_(r)] * direction(b.start + j).parts[side].force[z_(c)];
        entry[c].value = root * sum;
      }
    }
  }
}

/// Returns true if two linear blocks are so nearly the same that the factor of one serves the other.
bool SparseFriction::hardly_differ(const Linear& a, const Linear& b, double same) {
  if (a.sticks && b.sticks) return true;
  bool isotropic = true;
  for (std::size_t i = 0; i < a.d.size(); ++i) {
    const double least = std::max(std::min(a.d[i], 1 - a.d[i]), 1e-3 * stick_compliance);
    if (!(std::fabs(a.d[i] - b.d[i]) <= same * least)) return false;
    isotropic = isotropic && a.d[i] == a.d[0];
  }
  for (std::size_t i = 0; i < a.axes.size() && !isotropic; ++i)
    for (std::size_t j = 0; j < a.axes.size(); ++j)
      if (!(std::fabs(a.axes[i][j] - b.axes[i][j]) <= same)) return false;
  return true;
}

/// Factors the linear blocks. Blocks that hardly differ stay as they are factored. @return whether that succeeded
bool SparseFriction::factor(Result& result, double same) {
  changed_.clear();
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if (is_factored_ && hardly_differ(linear_[k], factored_[k], same)) continue;
    factored_[k] = linear_[k];
    write_rows(k);
    const int constraint = direction((*blocks_)[k].start).constraint;
    if (changed_.empty() || changed_.back() != constraint) changed_.push_back(constraint);
  }
  if (changed_.empty()) return true;
  ++result.factorizations;
  return is_factored_ =
             is_factored_ ? factor_.factor_changed(rows_, compliance_, changed_) : factor_.factor(rows_, compliance_);
}

/// Solves (1 − d) Δz + d/γ Δu = −F for the factored blocks, with F in their directions. Writes Δz and Δu.
void SparseFriction::update(std::span<const double> F) {
  std::fill(free_.begin(), free_.end(), 0.0);
  std::fill(dz_.begin(), dz_.end(), 0.0);
  std::fill(e_.begin(), e_.end(), 0.0);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const double weight = mobilities_[k] / step_;
    for (std::size_t r = 0, u = z_(b.start); r < z_(b.dim); ++r, ++u) {
      if (roots_[k][r] > 0) {
        e_[z_(places_[u])] = -weight * F[u] / roots_[k][r];
      } else {  // Efforts that do not depend on their slips are known.
        for (std::size_t i = 0; i < z_(b.dim); ++i) dz_[z_(b.start) + i] -= factored_[k].axes[i][r] * F[u];
      }
    }
  }
  add_forces(dz_, free_);
  factor_.respond_unrefined(e_, free_, multipliers_, dv_);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    for (std::size_t r = 0, u = z_(b.start); r < z_(b.dim); ++r, ++u) {
      if (!(roots_[k][r] > 0)) continue;
      const double y = roots_[k][r] * multipliers_[z_(places_[u])];
      if (factored_[k].sticks)
        dz_[u] = y;
      else
        for (std::size_t i = 0; i < z_(b.dim); ++i) dz_[z_(b.start) + i] += factored_[k].axes[i][r] * y;
    }
  }
  slips_of(dv_, du_);
}

/// Adds the force of efforts z to `force` [n].
void SparseFriction::add_forces(std::span<const double> z, std::span<double> force) const {
  for (std::size_t u = 0; u < by_unknown_.size(); ++u)
    if (z[u] != 0)
      for (const Direction::Part& part : direction(static_cast<int>(u)).parts)
        for (int c = 0; c < part.size; ++c) force[z_(part.column + c)] += z[u] * part.force[z_(c)];
}

/// u ← step · B v̇.
void SparseFriction::slips_of(std::span<const double> vdot, std::span<double> u) const {
  for (std::size_t i = 0; i < by_unknown_.size(); ++i) {
    double sum = 0;
    for (const Direction::Part& part : direction(static_cast<int>(i)).parts)
      if (part.size > 0) sum += dot(part.force.data(), vdot.data() + part.column, part.size);
    u[i] = step_ * sum;
  }
}

Six SparseFriction::slip_read(const Block& b, std::span<const double> u) const {
  Six out{};
  for (std::size_t i = 0; i < z_(b.dim); ++i)
    out[i] = (1 - b.slip_fraction) * b.start_slip[i] + b.slip_fraction * u[z_(b.start) + i];
  return out;
}

/// Returns the largest effort of a dry block in its mode.
double SparseFriction::bound_of(Laws& laws, std::size_t index, std::span<const double> z, std::span<const double> u) {
  const Block& b = (*blocks_)[index];
  const int id = static_cast<int>(index);
  double turn = 0;
  for (std::size_t i = z_(b.start), k = 0; k < z_(b.dim); ++i, ++k) turn += z[i] * b.start_slip[k];
  const double slides = laws.sliding(id, b.known, std::max(size_of(b, u), 1e-300));
  // An effort along the slip at the start turns it, and so the block passes through rest.
  const bool may_hold = b.mode == FrictionProblem::Mode::sticks && (b.at_rest || turn > 0);
  return may_hold ? std::max(slides, laws.holding(id, b.known)) : slides;
}

void SparseFriction::set_sticking(Linear& to, std::size_t dim) {
  if (to.sticks) return;
  to = {};
  for (std::size_t i = 0; i < dim; ++i) to.axes[i][i] = to.d[i] = to.scale[i] = 1;
  to.sticks = true;
}

/// Linearises a dry block in its mode, and writes its residual F.
void SparseFriction::linearize_dry(Laws& laws, std::size_t index, std::span<const double> z, std::span<const double> u,
                                   std::span<double> F, Linear& to) {
  const Block& b = (*blocks_)[index];
  const std::size_t at = z_(b.start), dim = z_(b.dim);
  const double gamma = mobility(b);
  if (b.mode == FrictionProblem::Mode::sticks) {
    for (std::size_t i = 0; i < dim; ++i) F[at + i] = u[at + i] / gamma;
    return set_sticking(to, dim);
  }
  to = {};
  if (b.is_given()) {
    const double friction = laws.sliding(static_cast<int>(index), b.known, b.speed);
    for (std::size_t i = 0; i < dim; ++i) {
      F[at + i] = z[at + i] + friction * b.sense[i];
      to.axes[i][i] = to.scale[i] = 1;
    }
    return;
  }
  const double bound = bounds_[index] = bound_of(laws, index, z, u);
  Six y{};
  for (std::size_t i = 0; i < dim; ++i) y[i] = z[at + i] - (dim == 1 && z[at] != 0 ? 0 : u[at + i] / gamma);
  const double size = norm(y);
  for (std::size_t i = 0; i < dim; ++i) F[at + i] = z[at + i] - (size > 0 ? bound / size * y[i] : 0);
  if (dim > 1)
    reflect_to(y, size, dim, to.axes);
  else
    to.axes[0][0] = 1;  // The same in both senses.
  for (std::size_t i = 0; i < dim; ++i) {
    to.d[i] = i == 0 || size == 0 ? 0 : std::min(1.0, bound / size);
    to.scale[i] = 1;
  }
}

void SparseFriction::linearize_smooth(Laws& laws, std::size_t index, std::span<const double> z,
                                      std::span<const double> u, std::span<double> F, Linear& to) {
  const Block& b = (*blocks_)[index];
  const int id = static_cast<int>(index);
  const std::size_t at = z_(b.start), dim = z_(b.dim);
  const Six slip = slip_read(b, u);
  Six f{};
  laws.effort(id, b.known, slip, f.data());
  for (std::size_t i = 0; i < dim; ++i) F[at + i] = z[at + i] - f[i];
  to = {};
  Square slope{};
  law_slopes(laws, id, dim, b.known, slip, slope);
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 6, 6>;
  Matrix damping(b.dim, b.dim);
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j < dim; ++j)
      damping(static_cast<int>(i), static_cast<int>(j)) = -0.5 * b.slip_fraction * (slope[i][j] + slope[j][i]);
  const Eigen::SelfAdjointEigenSolver<Matrix> modes(damping);
  const double gamma = mobility(b);
  for (std::size_t k = 0; k < dim; ++k) {
    const double weight = std::max(0.0, modes.eigenvalues()[static_cast<int>(k)]) * gamma;
    to.d[k] = weight / (1 + weight);
    to.scale[k] = 1 / (1 + weight);
    for (std::size_t i = 0; i < dim; ++i)
      to.axes[i][k] = modes.eigenvectors()(static_cast<int>(i), static_cast<int>(k));
  }
}

/// Finds the largest residual, relative to the largest effort.
void SparseFriction::find_worst(std::span<const double> z, std::span<const double> F, Result& result) const {
  const double size = std::max(largest(z), 1e-300);
  result.residual = 0;
  for (std::size_t k = 0; k < blocks_->size(); ++k)
    for (int i = (*blocks_)[k].start; i < (*blocks_)[k].start + (*blocks_)[k].dim; ++i) {
      const double own = std::fabs(F[z_(i)]);
      if (own <= result.residual * size || std::isnan(result.residual)) continue;
      result.residual = own / size;
      result.worst = static_cast<int>(k);
      result.worst_size = own;
    }
}

/// Linearises all blocks in their modes, and computes their residuals.
/// @return the largest one relative to the largest effort
double SparseFriction::residuals(Laws& laws, std::span<const double> z, std::span<const double> u, std::span<double> F,
                                 Result& result) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    if ((*blocks_)[k].is_smooth())
      linearize_smooth(laws, k, z, u, F, linear_[k]);
    else
      linearize_dry(laws, k, z, u, F, linear_[k]);
  }
  find_worst(z, F, result);
  return result.residual;
}

/// Computes how far the laws are from satisfied, whatever the modes: |z − P(z − u/γ)| with P the projection to the
/// bound. Makes that the residual of the result. @return the largest one relative to the largest effort
double SparseFriction::natural_residual(Laws& laws, std::span<const double> z, Result& result) {
  residuals(laws, z, slips_, F_, result);
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (!has_modes(b)) continue;
    bounds_[k] = bound_of(laws, k, z, slips_);
    const double gamma = mobility(b);
    Six y{};
    for (int i = 0; i < b.dim; ++i) y[z_(i)] = z[z_(b.start + i)] - slips_[z_(b.start + i)] / gamma;
    const double size = norm(y), part = size > bounds_[k] ? bounds_[k] / size : 1;
    for (int i = 0; i < b.dim; ++i) F_[z_(b.start + i)] = z[z_(b.start + i)] - part * y[z_(i)];
  }
  find_worst(z, F_, result);
  return result.residual;
}

/// Computes the slips at efforts z.
void SparseFriction::find_slips(std::span<const double> z) {
  respond_to_efforts(z);
  for (std::size_t i = 0; i < slips_.size(); ++i) slips_[i] = slip0_[i] + du_[i];
}

SparseFriction::Result SparseFriction::solve(Laws& laws, const ConstraintFactorization& solver,
                                             std::span<const double> slip0, std::span<double> z,
                                             std::span<const double> slips) {
  Result result;
  reads_at_solution_ = false;
  solver_ = &solver;
  slip0_ = slip0;
  if (!is_laid_out_) lay_out(), is_laid_out_ = true;
  if (slips.empty()) {
    find_slips(z);
    lambda_ = dlambda_;
  } else {
    slips_.assign(slips.begin(), slips.end());
  }
  if (accepted_ > 0 && natural_residual(laws, z, result) <= 2 * accepted_) {
    result.found = true;
    return result;
  }
  accepted_ = 0;
  if (!follow_active_set(laws, z, result, Reactions::follow, most_steps))
    result.found = follow_central_path(laws, z, result);
  return result;
}

void SparseFriction::take_step(double part, std::span<double> z) {
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i] += part * dz_[i];
    slips_[i] += part * du_[i];
  }
}

/// du_ ← the slips that efforts z make, and dlambda_ ← the multipliers of the constraints that they induce.
void SparseFriction::respond_to_efforts(std::span<const double> z) {
  std::fill(free_.begin(), free_.end(), 0.0);
  add_forces(z, free_);
  if (!(largest(free_) > 0)) {
    std::fill(du_.begin(), du_.end(), 0.0);
    std::fill(dlambda_.begin(), dlambda_.end(), 0.0);
    return;
  }
  solver_->inverse_mass(free_, free_);
  const std::span<double> e = std::span(e_).first(constraints_->b.size());
  multiply(*constraints_, free_, e);
  for (double& x : e) x = -x;
  solver_->solve_unrefined(e, dlambda_, {}, dv_);
  for (std::size_t j = 0; j < dv_.size(); ++j) dv_[j] += free_[j];
  slips_of(dv_, du_);
}

/// Writes vectors of efforts in the directions of the factored blocks, scaled as these are.
void SparseFriction::in_directions(std::span<const double> x, std::span<double> to) const {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    for (int r = 0; r < b.dim; ++r) {
      if (factored_[k].sticks) {
        to[z_(b.start + r)] = x[z_(b.start + r)];
        continue;
      }
      double sum = 0;
      for (int i = 0; i < b.dim; ++i) sum += factored_[k].axes[z_(i)][z_(r)] * x[z_(b.start + i)];
      to[z_(b.start + r)] = factored_[k].scale[z_(r)] * sum;
    }
  }
}

void SparseFriction::linearize(Laws& laws, std::span<const double> z) {
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    if (b.is_smooth()) {
      linearize_smooth(laws, k, z, slips_, F_, linear_[k]);
      continue;
    }
    if (b.is_forced() || b.mode == FrictionProblem::Mode::sticks) {
      set_sticking(linear_[k], z_(b.dim));
      continue;
    }
    linear_[k] = {};  // Sliding elements keep their friction.
    for (std::size_t i = 0; i < z_(b.dim); ++i) linear_[k].axes[i][i] = linear_[k].scale[i] = 1;
  }
  Result result;
  factor(result, same);
}

bool SparseFriction::respond(std::span<const double> slips, std::span<double> dz) {
  if (!is_factored_) return false;
  for (std::size_t k = 0; k < blocks_->size(); ++k) {
    const Block& b = (*blocks_)[k];
    const double gamma = mobility(b);
    for (int r = 0; r < b.dim; ++r) {
      double slip = 0, effort = 0;
      for (int i = 0; i < b.dim; ++i) {
        slip += factored_[k].axes[z_(i)][z_(r)] * slips[z_(b.start + i)];
        effort += factored_[k].axes[z_(i)][z_(r)] * dz[z_(b.start + i)];
      }
      const double d = factored_[k].d[z_(r)];
      F_[z_(b.start + r)] = (1 - d) * effort + d / gamma * slip;
    }
  }
  update(F_);
  for (std::size_t i = 0; i < dz.size(); ++i) dz[i] += dz_[i];
  return true;
}

}  // namespace linchpin::detail
