// Redundant rows in the sparse solver (T6). Multipliers of least norm and least squares use a second factor, of AᵀA
// over the bodies, or the null vectors of the first factor. The null vectors also name redundant constraints.
#include "problem/sparse_factorization.h"

#include "math/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace linchpin::detail {
namespace {

// Largest part of the force, relative to it, that directions below the usual rank tolerance can make.
constexpr double largest_dropped_force = 1e-4;
constexpr std::size_t max_null_vectors = 32;  // Above this number, orthogonalising them costs more than it saves.
// Relative change of a null vector at which its iteration stops. A correction by the factor reduces the error in
// proportion to the change. So after a change as small as this only rounding is left.
constexpr double null_vector_tolerance = 1e-8;
// ‖Bᵀn‖ of a null vector that is accurate enough to decide which constraints are redundant.
constexpr double null_image_tolerance = 1e-11;
// Largest relative change of the last iteration for multipliers of least norm.
constexpr double minimum_norm_tolerance = 1e-11;

}  // namespace

void SparseFactorization::fill_primal(const Island& island, int tree) const {
  primal_.clear(tree);
  double* const panels = primal_.values();
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    for (int s = node.block_begin; s < node.block_end; ++s) {
      for (int t = node.block_begin; t < node.block_end; ++t) {
        const JacobianBlock &a = pattern_.jacobian_blocks[z(s)], &b = pattern_.jacobian_blocks[z(t)];
        if (primal_.position(a.body) < primal_.position(b.body)) continue;
        const int rows = bodies_[z(a.body)].size, columns = bodies_[z(b.body)].size;
        const auto slot = primal_.slot(a.body, b.body);
        for (int r = 0; r < node.rows; ++r) {
          const double* const Ja = jacobians_.data() + a.value + r * rows;
          const double* const Jb = jacobians_.data() + b.value + r * columns;
          for (int p = 0; p < rows; ++p) {
            double* const to = panels + slot.offset + z(p) * z(slot.stride);
            if (s != t && columns == 6) {
              for (int q = 0; q < 6; ++q) to[q] += Ja[p] * Jb[q];
              continue;
            }
            for (int q = 0; q < (s == t ? p + 1 : columns); ++q) to[q] += Ja[p] * Jb[q];
          }
        }
      }
    }
  }
}

// Factors AᵀA. Two counts of the rank, from the rows and from the columns, must agree. Where columns are graded, their
// pivots need another cut than those of the rows, and the count shows the right one. Where no cut is right, null
// vectors of the rows serve the same purpose.
bool SparseFactorization::factor_primal(int i) const {
  Island& island = islands_[z(i)];
  if (island.body_begin == island.body_end) return false;
  if (island.primal_factored) return true;
  if (island.null_space_known) return island.primal_factored = true;
  // A few null vectors are cheaper than the second factor, and make later solves cheaper.
  const int dropped = island.row_count - island.rank;
  if (4 * dropped <= island.row_count &&
      find_null_space(i, 8 * dropped <= island.row_count ? max_length_ratio : max_length_ratio_before_dense))
    return island.primal_factored = true;
  const int tree = primal_.tree_of(pattern_.bodies_by_island[z(island.body_begin)]);
  BlockCholesky::Outcome out;
  for (const double drop : {1e-10, 1e-8, 1e-12, 1e-13}) {
    fill_primal(island, tree);
    primal_.read_diagonal(tree);
    out = primal_.factor(tree, drop);
    if (out.kept == island.rank && out.finite) return island.primal_factored = true;
  }
  if (find_null_space(i, max_length_ratio_before_dense)) return island.primal_factored = true;
  if (solve_densely(i, "rank not clear from the pivots")) return false;
  return island.primal_factored = out.finite;
}

// work_->part ← M⁻¹Aᵀ work_->inside. @return ‖Bᵀ work_->inside‖²
double SparseFactorization::image_of_inside(const Island& island) const {
  double square = 0;
  clear_part(island);
  add_transposed(island, work_->inside.data(), work_->part.data());
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    double* const f = work_->part.data() + body.column;
    std::copy_n(f, body.size, work_->dropped_force.begin());
    times_inverse_mass(body, work_->dropped_force.data(), f);
    square += dot(work_->dropped_force.data(), f, body.size);
  }
  return square;
}

// work_->x ← the change of the kept rows that removes work_->part = M⁻¹Aᵀn from their range. It is one step of n
// towards a null vector.
void SparseFactorization::null_vector_step(int i) const {
  const Island& island = islands_[z(i)];
  clear_hubs(island);
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    double* const x = work_->x.data() + node.position;
    std::fill_n(x, node.rows, 0.0);
    for (int t = node.block_begin; t < node.block_end; ++t) {
      const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
      const double* J = jacobians_.data() + pattern_.jacobian_blocks[z(t)].value;
      const double* const u = work_->part.data() + body.column;
      for (int r = 0; r < node.rows; ++r, J += body.size) x[r] -= dot(J, u, body.size);
    }
  }
  dual_.solve(i, work_->x.data());
}

// Iterates work_->inside towards the null vector of Aᵀ with the same values in the dropped rows. The nearer it is at
// the start, the fewer iterations it needs. @return ‖Bᵀ work_->inside‖²
double SparseFactorization::refine_null_vector(int i) const {
  constexpr int max_iterations = 4;
  const Island& island = islands_[z(i)];
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    image_of_inside(island);
    null_vector_step(i);
    double size = 0, change = 0;
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r) {
        double& n = work_->inside[z(pattern_.nodes[z(k)].row + r)];
        const double by = work_->x[z(pattern_.nodes[z(k)].position + r)];
        n += by;
        change = std::max(change, std::fabs(by));
        size = std::max(size, std::fabs(n));
      }
    if (change <= null_vector_tolerance * size) break;
  }
  return image_of_inside(island);
}

// Computes null vectors by the factor of the rows. Each is corrected on its residual Aᵀn, and then made orthonormal.
// They distinguish dropped rows that depend on others from rows that only nearly do. Pivots cannot, because they have
// the rounding of squares. ‖Bᵀn‖ over ‖n‖ bounds the largest singular value that is dropped. @return whether it is
// below the cut
bool SparseFactorization::find_null_space(int i, double max_ratio) const {
  Island& island = islands_[z(i)];
  const std::size_t rows = z(island.row_count), count = rows - z(island.rank);
  if (count == 0 || count > max_null_vectors) return false;
  if (null_spaces_.size() < islands_.size()) null_spaces_.resize(islands_.size());
  std::vector<double>& N = null_spaces_[z(i)];
  N.resize(rows * count);
  const auto each_row = [&](const auto& visit) {  // Calls visit(index in N, row, position).
    std::size_t own = 0;
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r)
        visit(own++, z(pattern_.nodes[z(k)].row + r), pattern_.nodes[z(k)].position + r);
  };
  double shortest = std::numeric_limits<double>::infinity(), longest = 0;
  each_row([&](std::size_t, std::size_t row, int) {
    shortest = std::min(shortest, length_[row]);
    longest = std::max(longest, length_[row]);
  });
  if (!(longest <= max_ratio * shortest)) return false;
  const double cut = 0.1 * options_.rank_tolerance;
  double* n = N.data();
  for (int position = dual_.begin(i); position < dual_.end(i); ++position) {
    if (dual_.kept(position)) continue;
    if (n == N.data() + N.size()) return false;
    dual_.null_vector(i, position, work_->x.data());
    each_row([&](std::size_t, std::size_t row, int p) { work_->inside[row] = work_->x[z(p)]; });
    const double left = refine_null_vector(i);
    double size = 0;
    each_row([&](std::size_t own, std::size_t row, int) {
      n[own] = work_->inside[row];
      size += (n[own] * length_[row]) * (n[own] * length_[row]);
    });
    if (!(left <= cut * cut * size)) return false;
    for (int iteration = 0; iteration < 2; ++iteration)
      for (const double* other = N.data(); other != n; other += rows) {
        const double along = std::inner_product(other, other + rows, n, 0.0);
        for (std::size_t r = 0; r < rows; ++r) n[r] -= along * other[r];
      }
    const double square = std::inner_product(n, n + rows, n, 0.0);
    if (!(square > 0) || !std::isfinite(square)) return false;
    const double scale = 1 / std::sqrt(square);
    for (std::size_t r = 0; r < rows; ++r) n[r] *= scale;
    n += rows;
  }
  return island.null_space_known = n == N.data() + N.size();
}

// Tests whether the dropped rows depend on the others, where there are too many null vectors to compute all. Random
// numbers of unit variance in the dropped rows (of unit length) define a vector n. The mean of ‖Bᵀn‖² is the sum of
// ‖Bᵀn‖² over all null vectors, and n is no shorter than those numbers. Assume that one singular value were as large as
// the cut. Then all of six samples would be less than a tenth of it once in four million cases.
bool SparseFactorization::dropped_rows_depend(int i) const {
  const Island& island = islands_[z(i)];
  if (island.rank == island.row_count) return true;
  std::minstd_rand random;
  const auto each_row = [&](const auto& visit) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r)
        visit(z(pattern_.nodes[z(k)].row + r), pattern_.nodes[z(k)].position + r);
  };
  const double cut = 0.1 * options_.rank_tolerance;
  for (int probe = 0; probe < 6; ++probe) {
    each_row([&](std::size_t row, int p) {
      const double uniform = static_cast<double>(random()) / static_cast<double>(std::minstd_rand::max()) - 0.5;
      work_->inside[row] = dual_.kept(p) ? 0 : std::sqrt(12.0) * uniform / length_[row];
    });
    if (!(refine_null_vector(i) <= cut * cut)) return false;
  }
  return true;
}

// Projects rows on range(A), which is orthogonal to null(Aᵀ). It does so twice because of the rounding of the first
// projection.
void SparseFactorization::project_out_null_space(int i, double* rows) const {
  const Island& island = islands_[z(i)];
  const std::vector<double>& N = null_spaces_[z(i)];
  const std::size_t count = z(island.row_count);
  for (int iteration = 0; iteration < 2; ++iteration)
    for (std::size_t start = 0; start < N.size(); start += count) {
      const double* n = N.data() + start;
      double along = 0;
      for (int k = island.node_begin; k < island.node_end; ++k)
        for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r) along += *n++ * rows[pattern_.nodes[z(k)].row + r];
      n = N.data() + start;
      for (int k = island.node_begin; k < island.node_end; ++k)
        for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r) rows[pattern_.nodes[z(k)].row + r] -= along * *n++;
    }
}

// rows += A (AᵀA)⁺ work_->part. @return the relative change of rows
double SparseFactorization::add_image(const Island& island, double* rows) const {
  const int tree = primal_.tree_of(pattern_.bodies_by_island[z(island.body_begin)]);
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const int b = pattern_.bodies_by_island[z(j)];
    std::copy_n(work_->part.begin() + bodies_[z(b)].column, bodies_[z(b)].size, work_->y.begin() + primal_.position(b));
  }
  primal_.solve(tree, work_->y.data());
  double change = 0, size = 0;
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    for (int r = 0; r < node.rows; ++r) {
      double sum = 0;
      for (int t = node.block_begin; t < node.block_end; ++t) {
        const int b = pattern_.jacobian_blocks[z(t)].body, columns = bodies_[z(b)].size;
        const double* const J = jacobians_.data() + pattern_.jacobian_blocks[z(t)].value + r * columns;
        sum += dot(J, work_->y.data() + primal_.position(b), columns);
      }
      double& x = rows[node.row + r];
      x += sum;
      change = std::max(change, std::fabs(sum));
      size = std::max(size, std::fabs(x));
    }
  }
  return size > 0 ? change / size : 0;
}

// work_->inside ← the part of `rows` in range(A), as given. Least squares can meet only this part.
bool SparseFactorization::project(int i, const std::vector<double>& rows) const {
  const Island& island = islands_[z(i)];
  const bool columns = factor_primal(i);
  if (island.kind == Kind::dense) return false;
  if (island.null_space_known) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      std::copy_n(rows.begin() + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows,
                  work_->inside.begin() + pattern_.nodes[z(k)].row);
    project_out_null_space(i, work_->inside.data());
    return true;
  }
  for (int k = island.node_begin; k < island.node_end; ++k)
    std::fill_n(work_->inside.begin() + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, 0.0);
  for (int iteration = 0; columns && iteration < 4; ++iteration) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
        work_->rho[z(r)] = rows[z(r)] - work_->inside[z(r)];
    clear_part(island);
    add_transposed(island, work_->rho.data(), work_->part.data());
    if (add_image(island, work_->inside.data()) < 4 * epsilon) break;
  }
  return true;
}

// work_->lambda ← the least-norm multipliers of work_->force, which are in range(A). work_->part ← the part of
// work_->force that they do not make. @return whether they were found. If not, only work_->lambda is changed.
bool SparseFactorization::minimum_norm_island(int i) const {
  const Island& island = islands_[z(i)];
  if (island.kind == Kind::proximal) return minimum_norm_proximal(i), true;
  const bool columns = factor_primal(i);
  if (island.kind == Kind::dense) return false;
  const bool projected = island.null_space_known;
  for (int k = island.node_begin; k < island.node_end && !projected; ++k)
    std::fill_n(work_->lambda.begin() + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, 0.0);
  if (projected) project_out_null_space(i, work_->lambda.data());
  const auto subtract_from_force = [&] {
    clear_part(island);
    add_transposed(island, work_->lambda.data(), work_->part.data());
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
      for (int c = body.column; c < body.column + body.size; ++c)
        work_->part[z(c)] = work_->force[z(c)] - work_->part[z(c)];
    }
  };
  double change = 0;
  for (int iteration = 0; columns && !projected && iteration < 4; ++iteration) {
    subtract_from_force();
    change = add_image(island, work_->lambda.data());
    if (change < 4 * epsilon) break;
  }
  if (!(change <= minimum_norm_tolerance)) return false;
  subtract_from_force();
  // Some rows depend on others only up to a σ below the cut. For them the least-norm multipliers miss the force by that
  // much. The kept rows make up the rest, and the least-norm part of it is added.
  for (int iteration = 0; iteration < 3 && dropped_force_ratio(island) > minimum_norm_tolerance; ++iteration) {
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
      double* const f = work_->part.data() + body.column;
      times_inverse_mass(body, f, f);
    }
    null_vector_step(i);
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r)
        work_->left[z(pattern_.nodes[z(k)].row + r)] = -work_->x[z(pattern_.nodes[z(k)].position + r)];
    if (!project(i, work_->left)) return false;
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
        work_->lambda[z(r)] += work_->inside[z(r)];
    subtract_from_force();
  }
  remove_dropped_force(island);
  return true;
}

// rows ← A M⁻¹ work_->force; work_->dv ← M⁻¹ work_->force.
void SparseFactorization::image_of_force(const Island& island, double* rows) const {
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    times_inverse_mass(body, work_->force.data() + body.column, work_->dv.data() + body.column);
  }
  for (int k = island.node_begin; k < island.node_end; ++k)
    std::fill_n(rows + pattern_.nodes[z(k)].row, pattern_.nodes[z(k)].rows, 0.0);
  residual(island, rows);
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
      rows[r] = -work_->rho[z(r)];
}

// The same where G + δI is factored. The multipliers for the image of the force in the rows are those of least norm.
// The force becomes the one that they make, and work_->dv follows.
void SparseFactorization::minimum_norm_proximal(int i) const {
  const Island& island = islands_[z(i)];
  const auto each_body = [&](const auto& visit) {
    for (int j = island.body_begin; j < island.body_end; ++j) visit(bodies_[z(pattern_.bodies_by_island[z(j)])]);
  };
  each_body([&](const Body& body) {
    std::copy_n(work_->force.begin() + body.column, body.size, work_->before.begin() + body.column);
    std::copy_n(work_->dv.begin() + body.column, body.size, work_->y.begin() + body.column);
  });
  image_of_force(island, work_->inside.data());
  refine_proximal(i, work_->inside.data(), size_of(island, work_->inside));
  each_body([&](const Body& body) {
    double* const change = work_->before.data() + body.column;
    for (int c = 0; c < body.size; ++c) change[c] = work_->force[z(body.column + c)] - change[c];
    times_inverse_mass(body, change, change);
    for (int c = 0; c < body.size; ++c) work_->dv[z(body.column + c)] = work_->y[z(body.column + c)] + change[c];
  });
}

// Removes from the force a small component in the direction that the rank drops. Rows that are only nearly redundant
// leave it in the force of the kept rows. Without it the reported multipliers make the reported force to rounding. A
// larger component shows the conditioning of AᵀA in the multipliers, and it stays.
void SparseFactorization::remove_dropped_force(const Island& island) const {
  if (!(dropped_force_ratio(island) <= largest_dropped_force)) return;
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    double* const f = work_->part.data() + body.column;
    for (int c = 0; c < body.size; ++c) work_->force[z(body.column + c)] -= f[c];
    times_inverse_mass(body, f, f);
    for (int c = 0; c < body.size; ++c) work_->dv[z(body.column + c)] -= f[c];
  }
}

// ‖work_->part‖∞ over ‖work_->force‖∞.
double SparseFactorization::dropped_force_ratio(const Island& island) const {
  double trace = 0, size = 0;
  for (int j = island.body_begin; j < island.body_end; ++j) {
    const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
    for (int c = body.column; c < body.column + body.size; ++c) {
      trace = std::max(trace, std::fabs(work_->part[z(c)]));
      size = std::max(size, std::fabs(work_->force[z(c)]));
    }
  }
  return trace > 0 ? trace / size : 0;
}

void SparseFactorization::minimum_norm_multipliers(std::span<double> force, std::span<double> lambda,
                                                   std::span<double> v) const noexcept {
  select_scratch();
  std::copy_n(force.begin(), n_, work_->force.begin());
  std::copy(v.begin(), v.end(), work_->dv.begin());
  std::copy_n(lambda.begin(), m_, work_->lambda.begin());
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    const Island& island = islands_[z(i)];
    if (island.kind != Kind::deficient && island.kind != Kind::proximal) continue;
    if (minimum_norm_island(i)) continue;
    if (!solve_densely(i, no_minimum_norm)) continue;
    // The dense solver computes them from the image of the force in the rows.
    std::copy_n(work_->dv.begin(), n_, work_->y.begin());
    image_of_force(island, work_->e.data());
    apply_dense(island);
    std::copy_n(work_->y.begin(), n_, work_->dv.begin());
  }
  write_results(lambda, force, v);
}

// ---- names of redundant constraints ----

// Power iteration on B̂ᵀB̂. Rank and names do not depend on it, so an order of magnitude is enough.
double SparseFactorization::largest_singular_value(const Island& island) const {
  const auto each_column = [&](const auto& visit) {
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const Body& body = bodies_[z(pattern_.bodies_by_island[z(j)])];
      for (int c = body.column; c < body.column + body.size; ++c) visit(c);
    }
  };
  each_column([&](int c) { work_->dv[z(c)] = 1 + static_cast<double>(c * 37 % 101) / 101; });
  double sigma = 0;
  for (int iteration = 0; iteration < 12; ++iteration) {
    double norm = 0, sum = 0;
    each_column([&](int c) { norm += work_->dv[z(c)] * work_->dv[z(c)]; });
    if (!(norm > 0)) break;
    norm = std::sqrt(norm);
    each_column([&](int c) {
      work_->dv[z(c)] /= norm;
      work_->part[z(c)] = 0;
    });
    for (int k = island.node_begin; k < island.node_end; ++k) {
      const Node& node = pattern_.nodes[z(k)];
      for (int r = 0; r < node.rows; ++r) {
        const double length = length_[z(node.row + r)];
        if (!(length > 0)) continue;
        const auto each = [&](const auto& visit) {
          for (int t = node.block_begin; t < node.block_end; ++t) {
            const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
            const double* const B = work_->whitened.data() + pattern_.jacobian_blocks[z(t)].value + r * body.size;
            for (int c = 0; c < body.size; ++c) visit(B[c] / length, z(body.column + c));
          }
        };
        double y = 0;
        each([&](double b, std::size_t j) { y += b * work_->dv[j]; });
        each([&](double b, std::size_t j) { work_->part[j] += b * y; });
        sum += y * y;
      }
    }
    sigma = std::sqrt(sum);
    each_column([&](int c) { work_->dv[z(c)] = work_->part[z(c)]; });
  }
  return island.rank > 0 ? std::max(sigma, 1.0) : 0.0;  // A unit row is a lower bound.
}

// Marks redundant and undetermined constraints (T6). Every dropped row has a null vector of Aᵀ with a 1 in its place,
// and these span all of them. A constraint is redundant when one of them has a component in its rows. It is
// undetermined when that component makes a force.
double SparseFactorization::mark_redundant(int i, std::vector<char>& redundant, std::vector<char>& undetermined) const {
  constexpr double blocks = 1e-6, noise = 30;
  const Island& island = islands_[z(i)];
  const auto size_in_row = [&](int row) {
    const double length = length_[z(row)];
    return std::fabs(work_->inside[z(row)]) * (length > 0 ? length : longest_ > 0 ? longest_ : 1.0);
  };
  double dropped = 0;
  for (int d = dual_.begin(i); d < dual_.end(i); ++d) {
    if (dual_.kept(d)) continue;
    dual_.null_vector(i, d, work_->x.data());
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r)
        work_->inside[z(pattern_.nodes[z(k)].row + r)] = work_->x[z(pattern_.nodes[z(k)].position + r)];
    double square = image_of_inside(island), largest = 0, norm = 0;
    if (square > null_image_tolerance * null_image_tolerance)
      square = refine_null_vector(i);  // One value of the vector is 1.
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r) {
        const double u = size_in_row(r);
        largest = std::max(largest, u);
        norm += u * u;
      }
    // Rows that drift has rotated against each other leave noise of about their angle in the vectors.
    const double left = std::sqrt(square / norm), least = std::max(blocks, noise * left) * largest;
    dropped = std::max(dropped, left);
    for (int k = island.node_begin; k < island.node_end; ++k) {
      const Node& node = pattern_.nodes[z(k)];
      double size = 0, force_size = 0;
      for (int r = node.row; r < node.row + node.rows; ++r) size = std::max(size, size_in_row(r));
      if (!(size > 0)) continue;
      for (int t = node.block_begin; t < node.block_end; ++t) {
        const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
        const double* const B = work_->whitened.data() + pattern_.jacobian_blocks[z(t)].value;
        for (int c = 0; c < body.size; ++c) {
          double sum = 0;
          for (int r = 0; r < node.rows; ++r) sum += B[r * body.size + c] * work_->inside[z(node.row + r)];
          force_size = std::max(force_size, std::fabs(sum));
        }
      }
      const auto c = z(pattern_.row_constraint[z(node.row)]);
      if (size > least) redundant[c] = 1;
      if (force_size > least) undetermined[c] = 1;
    }
  }
  return dropped;
}

// The null vectors need the factor that drops rows. The regularised factor, which solves use, is then restored.
double SparseFactorization::mark_redundant_proximal(int i, std::vector<char>& redundant,
                                                    std::vector<char>& undetermined) const {
  constexpr double drop = 1e-7;
  Island& island = islands_[z(i)];
  fill(island);
  island.largest_dropped = dual_.factor(i, drop).largest_dropped;
  const double dropped = mark_redundant(i, redundant, undetermined);
  regularize(i, reason_);
  return std::max(dropped, std::sqrt(island.largest_dropped));
}

RankReport SparseFactorization::report(std::span<const double> e, std::span<const double> scale,
                                       bool singular_values) const {
  RankReport report;
  std::vector<char> redundant(z(pattern_.constraints), 0), undetermined(z(pattern_.constraints), 0),
      contradictory(z(pattern_.constraints), 0);
  select_scratch();
  whiten();
  // It may leave an island to the dense solver, and leaves residuals in work_->rho.
  if (!e.empty()) apply(e, scale, {}, {}, {});
  report.rank = rank();
  double size = 0, largest = 0;
  for (const Island& island : islands_)
    if (!e.empty()) size = std::max({size, size_of(island, e), scale.empty() ? 0.0 : size_of(island, scale)});
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    const Island& island = islands_[z(i)];
    double own_largest = 0, kept = 0, dropped = 0;
    if (island.kind == Kind::dense) {
      const DenseIsland& own = *dense_islands_[z(island.dense_index)];
      const RankReport part = own.solver.report({}, {}, singular_values);
      for (const int c : part.redundant) redundant[z(own.constraint[z(c)])] = 1;
      for (const int c : part.undetermined) undetermined[z(own.constraint[z(c)])] = 1;
      own_largest = own.solver.largest_singular_value();
      kept = part.smallest_kept * own_largest;
      dropped = part.largest_dropped * own_largest;
    } else {
      if (singular_values) own_largest = largest_singular_value(island);
      if (singular_values && island.rank > 0) kept = smallest_singular_value(i);
      if (island.kind == Kind::deficient) dropped = mark_redundant(i, redundant, undetermined);
      if (island.kind == Kind::proximal) dropped = mark_redundant_proximal(i, redundant, undetermined);
    }
    if (singular_values) {
      largest = std::max(largest, own_largest);
      if (island.rank > 0 && (report.smallest_kept == 0 || kept < report.smallest_kept)) report.smallest_kept = kept;
      report.largest_dropped = std::max(report.largest_dropped, dropped);
    }
    if (e.empty() || island.rank == island.row_count) continue;
    // The directions of rows are uncertain by the dropped part, so smaller residuals are not contradictions.
    const double allowed = std::max(options_.consistency_tolerance, 4 * dropped) * size;
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
        if (unit(r, work_->rho[z(r)]) > allowed) contradictory[z(pattern_.row_constraint[z(r)])] = 1;
  }
  if (largest > 0) {
    report.smallest_kept /= largest;
    report.largest_dropped /= largest;
  }
  for (int c = 0; c < pattern_.constraints; ++c) {
    if (redundant[z(c)]) report.redundant.push_back(c);
    if (undetermined[z(c)]) report.undetermined.push_back(c);
    if (contradictory[z(c)]) report.contradictory.push_back(c);
  }
  return report;
}

}  // namespace linchpin::detail
