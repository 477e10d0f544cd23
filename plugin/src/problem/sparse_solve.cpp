// Solutions by the sparse factor (T7). They are corrected on the true residual until only rounding is left. Where rows
// contradict each other, they are least-squares solutions. Where G + δI is factored, the effect of δ is removed.
#include "problem/sparse_factorization.h"

#include "math/vector_ops.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {
namespace {

constexpr double residual_tolerance = 1e-10;  // Residual that refinement must reach, relative to the right side.
constexpr double rounding = 16 * epsilon;     // Relative residual at which refinement stops.
// The same where no pivot is small, so that the residual is the rounding of the solve itself.
constexpr double certain_rounding = 512 * epsilon;
constexpr double projected_tolerance = 1e-11;  // Relative residual for a right side that was projected on the range.
// Relative residual in dropped rows above which equations are solved as least squares.
constexpr double least_squares_threshold = 1e-12;
// Residual, 4 √δ, that directions of σ² < δ may keep without a contradiction.
constexpr double proximal_tolerance = 4e-5;
constexpr const char* too_dependent =
    "the constraint equations are too nearly dependent for the sparse solver, and too many for the dense one. Remove "
    "redundant constraints";

}  // namespace

int SparseFactorization::rank() const {
  int rank = 0;
  for (const Island& island : islands_) rank += island.rank;
  return rank;
}

SolveInfo SparseFactorization::info() const {
  SolveInfo info{.islands = static_cast<int>(islands_.size()), .fallbacks = fallbacks_, .reason = reason_};
  for (const Island& island : islands_) info.smallest_pivot = std::min(info.smallest_pivot, island.least_kept);
  info.backend = info.fallbacks > 0 && info.fallbacks == info.islands ? Backend::dense : Backend::sparse;
  return info;
}

double SparseFactorization::unit(int row, double value) const { return std::fabs(value) * inverse_length_[z(row)]; }

double SparseFactorization::size_of(const Island& island, std::span<const double> e) const {
  double largest = 0, probe = 0;
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r) {
      const double u = unit(r, e[z(r)]);
      probe += u;
      largest = std::max(largest, u);
    }
  return std::isnan(probe) ? std::numeric_limits<double>::infinity() : largest;
}

void SparseFactorization::clear_part(const Island& island) const {
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    std::fill_n(work_->part.begin() + body.column, body.size, 0.0);
  }
}

// f += Aᵀλ.
void SparseFactorization::add_transposed(const Island& island, const double* lambda, double* f) const {
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    const double* const l = lambda + node.row;
    for (int t = node.block_begin; t < node.block_end; ++t) {
      const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
      const double* J = jacobians_.data() + pattern_.jacobian_blocks[z(t)].value;
      double* const to = f + body.column;
      if (body.size == 6) {
        for (int r = 0; r < node.rows; ++r, J += 6)
          for (int c = 0; c < 6; ++c) to[c] += l[r] * J[c];
      } else {
        for (int r = 0; r < node.rows; ++r, J += body.size)
          for (int c = 0; c < body.size; ++c) to[c] += l[r] * J[c];
      }
    }
  }
}

// Returns f = Jᵀx of all constraints on a body of six columns. Joints of three rows are the most frequent, and have
// compiled code.
inline SparseFactorization::Six SparseFactorization::constraint_force(const Body& body, const double* x) const {
  using Row = Eigen::Map<const Six>;
  Six f = Six::Zero();
  for (int p = body.column_block_begin; p < body.column_block_end; ++p) {
    const ColumnBlock& column_block = pattern_.column_blocks[z(p)];
    const double* J = jacobians_.data() + column_block.value;
    const double* const l = x + column_block.position;
    if (column_block.rows == 3) {
      f += l[0] * Row(J);
      f += l[1] * Row(J + 6);
      f += l[2] * Row(J + 12);
      continue;
    }
    for (int r = 0; r < column_block.rows; ++r, J += 6) f += l[r] * Row(J);
  }
  return f;
}

// Solves once for work_->rho, and adds the result to λ, force and Δv. Δv is the sum of its corrections and is not
// recomputed from λ. So it keeps its digits where large multipliers nearly cancel. @param first  starts from zero
void SparseFactorization::correct(int i, bool first) const {
  const Island& island = islands_[z(i)];
  clear_hubs(island);
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    for (int r = 0; r < node.rows; ++r) work_->x[z(node.position + r)] = work_->rho[z(node.row + r)];
  }
  dual_.solve(i, work_->x.data());
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    double* const lambda = work_->lambda.data() + node.row;
    const double* const x = work_->x.data() + node.position;
    for (int r = 0; r < node.rows; ++r) lambda[r] = first ? x[r] : lambda[r] + x[r];
  }
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    if (body.size == 6) {
      const Six f = constraint_force(body, work_->x.data());
      Six du;
      times_inverse_mass(body, f.data(), du.data());
      Eigen::Map<Six> force(work_->force.data() + body.column), dv(work_->dv.data() + body.column);
      if (first) {
        force = f;
        dv = du;
      } else {
        force += f;
        dv += du;
      }
      continue;
    }
    if (first) {
      std::fill_n(work_->force.begin() + body.column, body.size, 0.0);
      std::fill_n(work_->dv.begin() + body.column, body.size, 0.0);
    }
    double* const f = work_->part.data() + body.column;
    std::fill_n(f, body.size, 0.0);
    for (int p = body.column_block_begin; p < body.column_block_end; ++p) {
      const ColumnBlock& column_block = pattern_.column_blocks[z(p)];
      const double* J = jacobians_.data() + column_block.value;
      for (int r = 0; r < column_block.rows; ++r, J += body.size)
        for (int c = 0; c < body.size; ++c) f[c] += work_->x[z(column_block.position + r)] * J[c];
    }
    for (int c = 0; c < body.size; ++c) work_->force[z(body.column + c)] += f[c];
    times_inverse_mass(body, f, f);
    for (int c = 0; c < body.size; ++c) work_->dv[z(body.column + c)] += f[c];
  }
}

// work_->rho ← e − A Δv.
SparseFactorization::Error SparseFactorization::residual(const Island& island, const double* e) const {
  Error error;
  const bool full = island.kind == Kind::full;
  double probe = 0;
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    double* const rho = work_->rho.data() + node.row;
    for (int r = 0; r < node.rows; ++r) rho[r] = e[node.row + r];
    for (int t = node.block_begin; t < node.block_end; ++t) {
      const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
      const double* J = jacobians_.data() + pattern_.jacobian_blocks[z(t)].value;
      const double* const x = work_->dv.data() + body.column;
      if (body.size == 6) {
        for (int r = 0; r < node.rows; ++r, J += 6) rho[r] -= dot6(J, x);
      } else {
        for (int r = 0; r < node.rows; ++r, J += body.size) rho[r] -= dot(J, x, body.size);
      }
    }
    for (int r = 0; r < node.rows; ++r) {
      const double u = unit(node.row + r, rho[r]);
      probe += u;
      error.all = std::max(error.all, u);
      if (!full && dual_.kept(node.position + r)) error.kept = std::max(error.kept, u);
    }
  }
  if (std::isnan(probe)) error.all = error.kept = std::numeric_limits<double>::infinity();
  if (full) error.kept = error.all;
  return error;
}

// Replaces the multipliers of the kept rows by those of least norm. The former may be a thousand times as long. Their
// cancellation leaves its rounding in the force, and through light bodies in the motion. The residual is corrected once
// more, without cancellation. @return whether they were found
bool SparseFactorization::use_minimum_norm(int i, double size) const {
  const Island& island = islands_[z(i)];
  residual(island, work_->e.data());
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
      work_->target[z(r)] = work_->e[z(r)] - work_->rho[z(r)];
  for (int iteration = 0;; ++iteration) {
    if (!minimum_norm_island(i)) return false;
    for (int j = island.body_begin; iteration == 0 && j < island.body_end; ++j) {
      const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
      times_inverse_mass(body, work_->force.data() + body.column, work_->dv.data() + body.column);
    }
    if (!(residual(island, work_->target.data()).kept > certain_rounding * size) || iteration == 2) return true;
    correct(i, false);
  }
}

// @param size  in unit rows, of the right side or of the terms whose difference it is
void SparseFactorization::apply_island(int i, double size, bool with_lambda) const {
  const Island& island = islands_[z(i)];
  if (size == 0) {
    clear(island);
    residual(island, work_->e.data());
    return;
  }
  if (island.kind == Kind::proximal) return apply_proximal(i, size, with_lambda);
  if (island.kind != Kind::dense) apply_sparse(i, size, with_lambda);
  if (island.kind == Kind::dense) apply_dense(island);
}

// Solves by the sparse factor. Where that fails, the island becomes dense or proximal.
void SparseFactorization::apply_sparse(int i, double size, bool with_lambda) const {
  const Island& island = islands_[z(i)];
  const double* const e = work_->e.data();
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
      work_->rho[z(r)] = e[z(r)];
  Error error = refine(i, e, size, true);
  const bool has_dependent_rows = island.kind == Kind::deficient && !island.drops_zeros_only;
  if (has_dependent_rows && error.all > least_squares_threshold * size && std::isfinite(error.all) &&
      project(i, work_->e)) {
    error = refine_least_squares(i, size);
    // Otherwise the projection was not accurate enough.
    if (!(error.all <= projected_tolerance * size) && solve_densely(i, "least squares not found by the sparse factor"))
      return;
  }
  constexpr const char* not_vanished = "the solution does not satisfy the equations to the required accuracy";
  if (!(error.kept <= residual_tolerance * size) && !solve_densely(i, not_vanished) &&
      !(error.kept <= size)) {  // A solution with a larger residual than the right side is rejected.
    whiten();
    if (regularize(i, not_vanished)) return apply_proximal(i, size, with_lambda);
    unsolvable_ = true;
    reason_ = too_dependent;
    return clear(island);
  }
  if (has_dependent_rows && with_lambda && !use_minimum_norm(i, size)) solve_densely(i, no_minimum_norm);
}

// Solves for work_->rho, and repeats on the residual of e until that is rounding. @param first  starts from zero
SparseFactorization::Error SparseFactorization::refine(int i, const double* e, double size, bool first) const {
  constexpr int max_iterations = 6;  // Largest number of solves for one right side.
  const Island& island = islands_[z(i)];
  Error error;
  double before = std::numeric_limits<double>::infinity();
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    correct(i, first && iteration == 0);
    error = residual(island, e);
    // The next residual is known to be rounding where this iteration reduced as much as the next one has to reduce.
    if ((island.kind == Kind::full || island.drops_zeros_only) && iteration == 0 &&
        error.kept <= residual_tolerance * size && error.kept * error.kept <= rounding * size * size) {
      if (error.kept > (island.least_kept >= certain_pivot ? certain_rounding : rounding) * size) correct(i, false);
      break;
    }
    if (error.kept <= rounding * size || !(error.kept < 0.25 * before)) break;
    before = error.kept;
  }
  return error;
}

// Solves for the part of e inside range(A), in the rows as given (T6), which is in work_->inside.
SparseFactorization::Error SparseFactorization::refine_least_squares(int i, double size) const {
  const Island& island = islands_[z(i)];
  const double* const e = work_->inside.data();
  residual(island, e);
  Error error = refine(i, e, size, false);
  // A right side in range(A) is met in the dropped rows as well. The exception is the contribution of singular values
  // below the cut of the kept rows. So the part of the residual in range(A) is solved again.
  for (int iteration = 0; iteration < 3 && error.all > projected_tolerance * size && std::isfinite(error.all);
       ++iteration) {
    if (iteration > 0) correct(i, false);
    residual(island, work_->e.data());
    std::swap(work_->rho, work_->left);
    if (!project(i, work_->left)) break;
    for (int k = island.node_begin; k < island.node_end; ++k)
      std::copy_n(work_->inside.begin() + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows,
                  work_->rho.begin() + pattern_.nodes[z(k)].row);
    error.all = error.kept = size_of(island, work_->inside);
  }
  return error;
}

// Computes λ, force and Δv for e where G + δI is factored. Each iteration leaves δ/(σ² + δ) of the residual in the
// direction of a singular value σ. The rest is a part that no row can meet, and the sum of the iterations is the
// least-squares solution.
// @return the residual in unit rows
double SparseFactorization::refine_proximal(int i, const double* e, double size) const {
  constexpr int max_iterations = 16;
  const Island& island = islands_[z(i)];
  for (int k = island.node_begin; k < island.node_end; ++k)
    std::copy_n(e + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, work_->rho.begin() + pattern_.nodes[z(k)].row);
  double before = std::numeric_limits<double>::infinity();
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    correct(i, iteration == 0);
    const double error = residual(island, e).all;
    if (error <= rounding * size || !(error < 0.5 * before)) return error;
    before = error;
  }
  return before;
}

void SparseFactorization::apply_proximal(int i, double size, bool with_lambda) const {
  const Island& island = islands_[z(i)];
  double error = refine_proximal(i, work_->e.data(), size);
  // A contradiction, even of rounding size, appears 1/δ times in the multipliers. So the solve is repeated without it.
  if ((with_lambda || error > least_squares_threshold * size) && std::isfinite(error)) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
        work_->inside[z(r)] = work_->e[z(r)] - work_->rho[z(r)];
    error = refine_proximal(i, work_->inside.data(), size);
  }
  if (error <= size) return;
  unsolvable_ = true;
  reason_ = too_dependent;
  clear(island);
}

void SparseFactorization::clear(const Island& island) const {
  for (int k = island.node_begin; k < island.node_end; ++k)
    std::fill_n(work_->lambda.begin() + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, 0.0);
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    std::fill_n(work_->force.begin() + body.column, body.size, 0.0);
    std::fill_n(work_->dv.begin() + body.column, body.size, 0.0);
  }
}

// Clears the bodies that belong to no island.
void SparseFactorization::clear_unconstrained() const {
  if (pattern_.bodies_by_island.size() == bodies_.size()) return;
  for (const Body& body : bodies_) {
    if (body.column_block_begin != body.column_block_end) continue;
    std::fill_n(work_->force.begin() + body.column, body.size, 0.0);
    std::fill_n(work_->dv.begin() + body.column, body.size, 0.0);
  }
}

double SparseFactorization::apply(std::span<const double> e, std::span<const double> scale, std::span<double> lambda,
                                  std::span<double> force, std::span<double> dv) const noexcept {
  select_scratch();
  std::copy_n(e.data(), m_, work_->e.data());  // `e` and `lambda` may be one array.
  clear_unconstrained();
  unsolvable_ = false;
  double outside = 0, size = 0;
  bool full = true;
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    const Island& island = islands_[z(i)];
    const double own = std::max(size_of(island, work_->e), scale.empty() ? 0.0 : size_of(island, scale));
    size = std::max(size, own);
    apply_island(i, own, !lambda.empty());
    if (island.rank == island.row_count) continue;
    full = false;
    const double left = residual(island, work_->e.data()).all;
    if (island.kind == Kind::proximal && left <= proximal_tolerance * own) continue;
    outside = std::max(outside, left);
  }
  write_results(lambda, force, dv);
  if (unsolvable_) return std::numeric_limits<double>::infinity();
  if (size == 0) return 0;
  outside /= size;
  if (!std::isfinite(outside)) return std::numeric_limits<double>::infinity();
  return full ? 0 : outside;
}

// Dropped rows are left out, as in the factor. They are met only as far as the kept rows imply them.
void SparseFactorization::solve_unrefined(std::span<const double> e, std::span<double> lambda, std::span<double> force,
                                          std::span<double> dv) const noexcept {
  select_scratch();
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    if (islands_[z(i)].kind == Kind::dense) continue;
    load_errors(islands_[z(i)], e);
    dual_.solve(i, work_->x.data());
    store_multipliers(islands_[z(i)], lambda);
  }
  for (const Body& body : bodies_) {
    double* const u = dv.empty() ? work_->part.data() + body.column : dv.data() + body.column;
    respond_unrefined(body, force, u);
  }
  for (const Island& island : islands_)
    if (island.kind == Kind::dense) solve_unrefined_by_dense(island, e, lambda, force, dv);
}

void SparseFactorization::respond_unrefined(std::span<const double> e, std::span<const double> f,
                                            std::span<double> lambda, std::span<double> dv) const noexcept {
  select_scratch();
  for (const Island& island : islands_) load_errors(island, e);
  for (const Body& body : bodies_) subtract_response(body, f.data() + body.column);
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    dual_.solve(i, work_->x.data());
    store_multipliers(islands_[z(i)], lambda);
  }
  for (const Body& body : bodies_) {
    double* const u = dv.data() + body.column;
    respond_unrefined(body, {}, u);
    for (int c = 0; c < body.size; ++c) u[c] += work_->y[z(body.column + c)];
  }
}

// work_->x ← e, for the rows of an island.
inline void SparseFactorization::load_errors(const Island& island, std::span<const double> e) const {
  clear_hubs(island);
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    double* const x = work_->x.data() + node.position;
    for (int r = 0; r < node.rows; ++r) x[r] = e[z(node.row + r)];
  }
}

// work_->x −= A M⁻¹ f and work_->y ← M⁻¹ f, for the force on one body.
inline void SparseFactorization::subtract_response(const Body& body, const double* f) const {
  double* const u = work_->y.data() + body.column;
  if (std::all_of(f, f + body.size, [](double x) { return x == 0; })) {
    std::fill_n(u, body.size, 0.0);
    return;
  }
  times_inverse_mass(body, f, u);
  for (int p = body.column_block_begin; p < body.column_block_end; ++p) {
    const ColumnBlock& column_block = pattern_.column_blocks[z(p)];
    const double* J = jacobians_.data() + column_block.value;
    double* const x = work_->x.data() + column_block.position;
    for (int r = 0; r < column_block.rows; ++r, J += body.size) x[r] -= dot(J, u, body.size);
  }
}

// λ ← work_->x, for the rows of an island.
inline void SparseFactorization::store_multipliers(const Island& island, std::span<double> lambda) const {
  for (int k = island.node_begin; k < island.node_end && !lambda.empty(); ++k) {
    const Node& node = pattern_.nodes[z(k)];
    const double* const x = work_->x.data() + node.position;
    for (int r = 0; r < node.rows; ++r) lambda[z(node.row + r)] = x[r];
  }
}

// Computes the force of work_->x on a body, and the response u of its velocity.
inline void SparseFactorization::respond_unrefined(const Body& body, std::span<double> force, double* u) const {
  if (body.rigid_form && !force.empty()) {
    const Six f = constraint_force(body, work_->x.data());
    Eigen::Map<Six>(force.data() + body.column) = f;
    times_inverse_mass(body, f.data(), u);
    return;
  }
  if (body.rigid_form) {  // Uses M⁻¹ itself, because callers that iterate do not need the last digit.
    const Six f = constraint_force(body, work_->x.data());
    const double* const L = roots_.data() + body.mass;
    const double m = L[inverse_mass_itself];
    const double* const I = L + inverse_inertia;
    u[0] = m * f[0], u[1] = m * f[1], u[2] = m * f[2];
    u[3] = I[0] * f[3] + I[1] * f[4] + I[3] * f[5];
    u[4] = I[1] * f[3] + I[2] * f[4] + I[4] * f[5];
    u[5] = I[3] * f[3] + I[4] * f[4] + I[5] * f[5];
    return;
  }
  std::fill_n(u, body.size, 0.0);
  for (int p = body.column_block_begin; p < body.column_block_end; ++p) {
    const ColumnBlock& column_block = pattern_.column_blocks[z(p)];
    const double* J = jacobians_.data() + column_block.value;
    for (int r = 0; r < column_block.rows; ++r, J += body.size)
      for (int c = 0; c < body.size; ++c) u[c] += work_->x[z(column_block.position + r)] * J[c];
  }
  if (!force.empty()) std::copy_n(u, body.size, force.data() + body.column);
  times_inverse_mass(body, u, u);
}

void SparseFactorization::solve_unrefined_by_dense(const Island& island, std::span<const double> e,
                                                   std::span<double> lambda, std::span<double> force,
                                                   std::span<double> dv) const {
  const auto own_rows = [&](const double* from, double* to) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      std::copy_n(from + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, to + pattern_.nodes[z(k)].row);
  };
  const auto own_columns = [&](const double* from, double* to) {
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
      std::copy_n(from + body.column, body.size, to + body.column);
    }
  };
  own_rows(e.data(), work_->e.data());
  apply_dense(island);
  if (!lambda.empty()) own_rows(work_->lambda.data(), lambda.data());
  if (!force.empty()) own_columns(work_->force.data(), force.data());
  if (!dv.empty()) own_columns(work_->dv.data(), dv.data());
}

void SparseFactorization::write_results(std::span<double> lambda, std::span<double> force, std::span<double> dv) const {
  if (!lambda.empty()) std::copy_n(work_->lambda.begin(), m_, lambda.begin());
  if (!force.empty()) std::copy_n(work_->force.begin(), n_, force.begin());
  if (!dv.empty()) std::copy_n(work_->dv.begin(), n_, dv.begin());
}

void SparseFactorization::times_inverse_mass(const Body& body, const double* f, double* dv) const {
  const double* const L = roots_.data() + body.mass;
  const int size = body.size;
  if (body.rigid_form) {
    // Solves by substitution and division. Then I Δω is the moment to rounding, for any condition of I, and the
    // momentum balance closes. The divisions are independent of each other.
    const double m = L[whole_mass];
    const double* const U = L + unit_lower;
    const double* const D = L + pivots;
    const double y = f[4] - U[0] * f[3], w = f[5] - U[1] * f[3] - U[2] * y;
    dv[0] = f[0] / m, dv[1] = f[1] / m, dv[2] = f[2] / m;
    const double d3 = f[3] / D[0], d4 = y / D[1], d5 = w / D[2];
    dv[5] = d5;
    dv[4] = d4 - U[2] * d5;
    dv[3] = d3 - U[0] * dv[4] - U[1] * d5;
    return;
  }
  if (f != dv) std::copy_n(f, size, dv);
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < i; ++j) dv[i] -= L[i * size + j] * dv[j];
    dv[i] /= L[i * size + i];
  }
  for (int i = size - 1; i >= 0; --i) {
    for (int j = i + 1; j < size; ++j) dv[i] -= L[j * size + i] * dv[j];
    dv[i] /= L[i * size + i];
  }
}

void SparseFactorization::inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept {
  for (const Body& body : bodies_) times_inverse_mass(body, f.data() + body.column, dv.data() + body.column);
}

void SparseFactorization::size_of_terms(std::span<const double> b, std::span<const double> a,
                                        std::span<double> scale) const {
  select_scratch();
  whiten();
  for (const Body& body : bodies_) {  // ‖Lᵀa‖, in the first column of each body.
    const double* L = roots_.data() + body.mass;
    const double* const u = a.data() + body.column;
    double sum = 0;
    if (body.rigid_form) {
      for (int j = 0; j < 3; ++j) sum += L[root_mass] * u[j] * (L[root_mass] * u[j]);
      L += L_itself;
      for (int j = 0; j < 3; ++j) {
        double y = 0;
        for (int i = j; i < 3; ++i) y += L[i * (i + 1) / 2 + j] * u[3 + i];
        sum += y * y;
      }
    } else {
      for (int j = 0; j < body.size; ++j) {
        double y = 0;
        for (int i = j; i < body.size; ++i) y += L[i * body.size + j] * u[i];
        sum += y * y;
      }
    }
    if (body.size > 0) work_->part[z(body.column)] = std::sqrt(sum);
  }
  for (const Node& node : pattern_.nodes)
    for (int r = 0; r < node.rows; ++r) {
      double terms = b.empty() ? 0.0 : std::fabs(b[z(node.row + r)]);
      for (int t = node.block_begin; t < node.block_end; ++t) {
        const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
        const double* B = work_->whitened.data() + pattern_.jacobian_blocks[z(t)].value + r * body.size;
        terms += std::sqrt(dot(B, B, body.size)) * work_->part[z(body.column)];
      }
      scale[z(node.row + r)] = terms;
    }
}

}  // namespace linchpin::detail
