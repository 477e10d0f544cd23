// Bodies of few joints are eliminated in closed form, which gives blocks of G = A M⁻¹Aᵀ. Bodies of many joints (hubs)
// stay unknowns, [G B_H; B_Hᵀ −I], so that their joints are not all coupled (T7). Rows that depend on earlier ones are
// dropped from the factor. With λ = 0 there, consistent equations have the same v̇ and the same forces.
#include "problem/sparse_factorization.h"

#include "math/vector_ops.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace linchpin::detail {
namespace {

constexpr int max_dense_rows = 600;  // Largest number of rows of an island for the dense solver.
constexpr double certain_eigenvalue = 3e-8;
constexpr double max_squared_ratio = 1e3;   // Ratio of row lengths up to which rows as given can be squared.
constexpr double compliant_drop = 1e-14;    // Relative pivot below which rows with compliance are dropped.
constexpr double proximity = 1e-10;         // δ of regularize(), relative to the mean square of a row.
constexpr double independent_pivot = 1e-7;  // Rows with smaller pivots count as dependent on others.

// to += A Bᵀ of two blocks of three rows in six columns. `lower` omits the entries above the diagonal.
template <bool lower>
void add_product3(const double* a, const double* b, double* to, int stride) {
  for (int r = 0; r < 3; ++r, a += 6, to += stride)
    for (int c = 0; c < (lower ? r + 1 : 3); ++c) to[c] += dot6(a, b + 6 * c);
}

}  // namespace

/// Reads the numbers of a problem, and whitens its rows.
bool SparseFactorization::prepare(const ConstrainedProblem& problem) noexcept {
  fallbacks_ = dense_islands_used_ = 0;
  reason_ = "";
  if (!read(problem)) {
    known_ = false;
    if (!well_formed(problem, nullptr)) return false;
    analyse(problem);
    read(problem);
  }
  if (!finite_) return false;
  const double* M = problem.mass.data();
  for (Body& body : bodies_)
    if (!factor_body(body, M + body.mass)) return false;
  select_scratch();
  whiten();
  return true;
}

/// Fills and factors all islands. @param factor_island  returns false when the ordering has to change first
template <class FactorIsland>
void SparseFactorization::factor_islands(FactorIsland factor_island) {
  longest_ = 0;
  factored_panels_ = dual_.panels();
  int passes = 0;
  for (int i = 0; i < static_cast<int>(islands_.size()); ++i) {
    fill(islands_[z(i)]);
    if (!factor_island(i)) {
      // Division by the block of a constraint on a hub came too early. From now on the constraint waits for the hub.
      if (++passes > 4) std::fill(pattern_.late.begin(), pattern_.late.end(), 1);
      for (const int v : dual_.late()) pattern_.late[z(v)] = 1;
      order();
      longest_ = 0;
      fallbacks_ = dense_islands_used_ = 0;
      i = -1;
    }
  }
}

bool SparseFactorization::factor(const ConstrainedProblem& problem, std::span<const double> compliance) noexcept {
  if (!prepare(problem)) return false;
  bool finite = true;
  factor_islands([&](int i) {
    if (!factor_compliant_island(i, compliance)) return false;
    finite = finite && islands_[z(i)].kind == Kind::full;
    return true;
  });
  return finite;
}

/// Reads the entries of the rows of a node. @return whether they are in the columns of the pattern, and finite
bool SparseFactorization::read_node(const ConstrainedProblem& problem, int node) {
  const Parts::Range runs = parts_.runs[z(node)];
  const ConstrainedProblem::Entry* entry = problem.entries.data() + problem.row_start[z(pattern_.nodes[z(node)].row)];
  double probe = 0;
  for (int i = runs.begin; i < runs.end; ++i) {
    const EntryRun& run = pattern_.entry_runs[z(i)];
    if (!read_run(run, entry, jacobians_.data() + run.value, probe)) return false;
    entry += run.length;
  }
  return std::isfinite(probe);
}

// Other factorisations use the same work memory. So no block is whitened from an earlier call.
void SparseFactorization::whiten_once(int block, int rows) {
  if (parts_.whitened_at[z(block)] == parts_.calls) return;
  parts_.whitened_at[z(block)] = parts_.calls;
  whiten(pattern_.jacobian_blocks[z(block)], rows);
}

// The products of a panel are added in the same order as in fill().
void SparseFactorization::fill_panel(int panel) {
  dual_.clear_panel(panel);
  double* const panels = dual_.values();
  const double* const B = work_->whitened.data();
  const auto each = [&](const auto& list, Parts::Range range, const auto& visit) {
    for (int i = range.begin; i < range.end; ++i) visit(list[z(i)]);
  };
  each(parts_.products, parts_.of_products[z(panel)], [&](const Parts::Item& item) {
    const BlockProduct& p = pattern_.block_products[z(item.index)];
    whiten_once(item.block_a, p.rows_a);
    whiten_once(item.block_b, p.rows_b);
    add_product(p, B, panels);
  });
  each(parts_.hubs, parts_.of_hubs[z(panel)], [&](int hub) { set_hub(pattern_.hubs[z(hub)], panels); });
  each(parts_.hub_blocks, parts_.of_hub_blocks[z(panel)], [&](const Parts::Item& item) {
    const HubBlock& s = pattern_.hub_blocks[z(item.index)];
    whiten_once(item.block_a, s.rows);
    set_hub_block(s, B, panels);
  });
}

bool SparseFactorization::factor_changed(const ConstrainedProblem& problem, std::span<const double> compliance,
                                         std::span<const int> changed) noexcept {
  constexpr double worthwhile = 0.7;  // Part of the work above which all panels are factored.
  if (!parts_known_) list_parts();
  parts_.touched.clear();
  for (const int constraint : changed) {
    const int node = parts_.node_of_constraint[z(constraint)];
    if (node < 0) continue;
    const Parts::Range panels = parts_.of_panels[z(node)];
    parts_.touched.insert(parts_.touched.end(), parts_.panels.begin() + panels.begin,
                          parts_.panels.begin() + panels.end);
  }
  if (dual_.select(parts_.touched) > worthwhile) return factor(problem, compliance);
  select_scratch();
  ++parts_.calls;
  for (const int constraint : changed) {
    const int node = parts_.node_of_constraint[z(constraint)];
    if (node >= 0 && !read_node(problem, node)) return factor(problem, compliance);
  }
  for (const int panel : dual_.selected()) {
    fill_panel(panel);
    const Parts::Range nodes = parts_.nodes[z(panel)];
    for (int k = nodes.begin; k < nodes.end; ++k) {
      const Node& node = pattern_.nodes[z(k)];
      for (int r = 0; r < node.rows; ++r) work_->x[z(node.position + r)] = compliance[z(node.row + r)];
    }
    dual_.shift_panel(panel, work_->x.data());
    dual_.read_diagonal_of_panel(panel);
    for (int k = nodes.begin; k < nodes.end; ++k) {
      for (int t = pattern_.nodes[z(k)].block_begin; t < pattern_.nodes[z(k)].block_end; ++t)
        whiten_once(t, pattern_.nodes[z(k)].rows);
      measure_rows(pattern_.nodes[z(k)], !pattern_.hubs.empty());
    }
  }
  const BlockCholesky::Outcome out = dual_.factor_selected(compliant_drop);
  if (out.late_needed || !out.finite) return factor(problem, compliance);
  factored_panels_ = static_cast<int>(dual_.selected().size());
  return true;
}

/// The same as factor_island(), with compliance. The island is Kind::dense where its factor is not finite.
bool SparseFactorization::factor_compliant_island(int i, std::span<const double> compliance) {
  Island& island = islands_[z(i)];
  for (int k = island.node_begin; k < island.node_end; ++k) {
    const Node& node = pattern_.nodes[z(k)];
    for (int r = 0; r < node.rows; ++r) work_->x[z(node.position + r)] = compliance[z(node.row + r)];
  }
  dual_.shift(i, work_->x.data());
  dual_.read_diagonal(i);
  measure_rows(island);
  const BlockCholesky::Outcome out = dual_.factor(i, compliant_drop);
  if (out.late_needed) return false;
  island.kind = out.finite ? Kind::full : Kind::dense;
  island.primal_factored = island.null_space_known = false;
  island.dense_index = -1;
  return true;
}

bool SparseFactorization::factor(const ConstrainedProblem& problem, const SolveOptions& options) noexcept {
  options_ = options;
  if (!prepare(problem)) return false;
  factor_islands([&](int i) { return factor_island(i); });
  // A zero row has no length of its own. It is compared with the length of the longest row.
  const double longest = longest_ > 0 ? longest_ : 1.0;
  for (int r = 0; r < m_; ++r) inverse_length_[z(r)] = 1 / (length_[z(r)] > 0 ? length_[z(r)] : longest);
  for (Island& island : islands_) {
    if (island.kind != Kind::deficient) continue;
    if (!primal_known_) prepare_primal();
    double least = longest_, most = 0;
    int zeros = 0;
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r) {
        most = std::max(most, length_[z(r)]);
        if (length_[z(r)] > 0)
          least = std::min(least, length_[z(r)]);
        else
          ++zeros;
      }
    island.drops_zeros_only = zeros == island.row_count - island.rank;
    if (most > max_squared_ratio * least)
      solve_densely(static_cast<int>(&island - islands_.data()), "redundant rows of very different length");
  }
  return true;
}

// Reads the numbers of A if its pattern is the known one.
bool SparseFactorization::read(const ConstrainedProblem& problem) {
  if (!known_ || z(pattern_.row_start.back()) != problem.entries.size() || problem.c.size() != problem.Q.size() ||
      problem.n() != n_ || problem.row_start != pattern_.row_start ||
      problem.row_constraint != pattern_.row_constraint || problem.block_sizes != pattern_.block_sizes ||
      problem.m() != m_ || problem.mass.size() != roots_.size() ||
      static_cast<int>(problem.constraints.size()) != pattern_.constraints)
    return false;
  const ConstrainedProblem::Entry* entry = problem.entries.data();
  double probe = 0;  // It is not finite if a number is not, or when the numbers overflow together.
  for (const EntryRun& run : pattern_.entry_runs) {
    if (!read_run(run, entry, jacobians_.data() + run.value, probe)) return false;
    entry += run.length;
  }
  finite_ = std::isfinite(probe) ||
            std::all_of(jacobians_.begin(), jacobians_.end(), [](double x) { return std::isfinite(x); });
  return true;
}

// @return whether the entries are in the columns of the run
inline bool SparseFactorization::read_run(const EntryRun& run, const ConstrainedProblem::Entry* entry, double* J,
                                          double& probe) {
  int wrong = 0;
  if (run.length == 6) {  // The sum is made of pairs. Added one by one, each number would wait for the one before it.
    for (int i = 0; i < 6; ++i) {
      wrong |= entry[i].column ^ (run.column + i);
      J[i] = entry[i].value;
    }
    probe += (J[0] + J[1]) + (J[2] + J[3]) + (J[4] + J[5]);
  } else {
    for (int i = 0; i < run.length; ++i) {
      wrong |= entry[i].column ^ (run.column + i);
      J[i] = entry[i].value;
      probe += J[i];
    }
  }
  return wrong == 0;
}

// ---- numeric factorisation ----

bool SparseFactorization::factor_body(Body& body, const double* M) {
  double* const L = roots_.data() + body.mass;
  const int size = body.size;
  const double m = M[0];
  const bool known = body.rigid_form && L[whole_mass] == m;  // The mass usually does not change.
  body.rigid_form = size == 6 && M[7] == m && M[14] == m && M[1] == 0 && M[2] == 0 && M[8] == 0;
  if (body.rigid_form) {
    for (int i = 0; i < 3; ++i)
      body.rigid_form = body.rigid_form && M[6 * i + 3] == 0 && M[6 * i + 4] == 0 && M[6 * i + 5] == 0;
  }
  if (!body.rigid_form) return cholesky_block(M, size, L);
  const double least = 24 * epsilon;
  const double a = M[21], b = M[27], c = M[28], d = M[33], e = M[34], f = M[35];
  if (!(m > 0) || !(a > 0) || !std::isfinite(m)) return false;
  const double l00 = std::sqrt(a), i00 = 1 / l00, l10 = b * i00, l20 = d * i00;
  const double p = c - l10 * l10;
  if (!(p > least * c)) return false;
  const double l11 = std::sqrt(p), i11 = 1 / l11, l21 = (e - l20 * l10) * i11;
  const double q = f - l20 * l20 - l21 * l21;
  if (!(q > least * f) || !std::isfinite(q)) return false;
  const double l22 = std::sqrt(q), i22 = 1 / l22;
  const double i10 = -l10 * i00 * i11, i21 = -l21 * i11 * i22, i20 = -(l20 * i00 + l21 * i10) * i22;
  if (!known) {
    L[whole_mass] = m;
    L[root_mass] = std::sqrt(m);
    L[inverse_root] = 1 / L[root_mass];
    L[inverse_mass_itself] = 1 / m;
  }
  double* x = L + L_inverse;
  x[0] = i00, x[1] = i10, x[2] = i11, x[3] = i20, x[4] = i21, x[5] = i22;
  x = L + L_itself;
  x[0] = l00, x[1] = l10, x[2] = l11, x[3] = l20, x[4] = l21, x[5] = l22;
  x = L + inverse_inertia;
  x[0] = i00 * i00 + i10 * i10 + i20 * i20;
  x[1] = i10 * i11 + i20 * i21, x[2] = i11 * i11 + i21 * i21;
  x[3] = i20 * i22, x[4] = i21 * i22, x[5] = i22 * i22;
  x = L + unit_lower;
  x[0] = b / a, x[1] = d / a, x[2] = l21 / l11;
  x = L + pivots;
  x[0] = a, x[1] = p, x[2] = q;
  return true;
}

// Resizes the scratch memory of this thread and selects it. Its content is undefined.
void SparseFactorization::select_scratch() const {
  thread_local Scratch scratch;
  const auto grow = [](std::vector<double>& x, std::size_t size) {
    if (x.size() < size) x.resize(size);
  };
  for (auto* x : {&scratch.e, &scratch.rho, &scratch.lambda, &scratch.inside, &scratch.left, &scratch.target})
    grow(*x, z(m_));
  for (auto* x : {&scratch.force, &scratch.dv, &scratch.part, &scratch.y, &scratch.before}) grow(*x, z(n_));
  grow(scratch.dropped_force, z(pattern_.widest));
  grow(scratch.x, z(dual_.size()));
  grow(scratch.whitened, jacobians_.size());
  work_ = &scratch;
}

void SparseFactorization::whiten() const {
  for (const Node& node : pattern_.nodes)
    for (int t = node.block_begin; t < node.block_end; ++t) whiten(pattern_.jacobian_blocks[z(t)], node.rows);
}

// B = A L⁻ᵀ, row by row.
void SparseFactorization::whiten(const JacobianBlock& block, int rows) const {
  const Body& body = bodies_[z(block.body)];
  const double* const L = roots_.data() + body.mass;
  const double* J = jacobians_.data() + block.value;
  double* B = work_->whitened.data() + block.value;
  const int size = body.size;
  if (body.rigid_form) {
    const double r = L[inverse_root];
    const double* const T = L + L_inverse;
    for (int i = 0; i < rows; ++i, J += 6, B += 6) {
      B[0] = r * J[0], B[1] = r * J[1], B[2] = r * J[2];
      B[3] = T[0] * J[3];
      B[4] = T[1] * J[3] + T[2] * J[4];
      B[5] = T[3] * J[3] + T[4] * J[4] + T[5] * J[5];
    }
    return;
  }
  for (int r = 0; r < rows; ++r, J += size, B += size) {
    for (int i = 0; i < size; ++i) {
      double sum = J[i];
      for (int j = 0; j < i; ++j) sum -= L[i * size + j] * B[j];
      B[i] = sum / L[i * size + i];
    }
  }
}

void SparseFactorization::fill(const Island& island) const {
  const int tree = static_cast<int>(&island - islands_.data());
  dual_.clear(tree);
  double* const panels = dual_.values();
  const double* const B = work_->whitened.data();
  for (int i = island.product_begin; i < island.product_end; ++i) add_product(pattern_.block_products[z(i)], B, panels);
  for (int i = island.hub_begin; i < island.hub_end; ++i) set_hub(pattern_.hubs[z(i)], panels);
  for (int i = island.hub_block_begin; i < island.hub_block_end; ++i)
    set_hub_block(pattern_.hub_blocks[z(i)], B, panels);
}

inline void SparseFactorization::add_product(const BlockProduct& p, const double* B, double* panels) const {
  const double* a = B + p.a;
  double* to = panels + p.to;
  const bool diagonal = p.a == p.b;
  if (p.size == 6) {
    if (p.rows_a == 3 && p.rows_b == 3) {
      diagonal ? add_product3<true>(a, a, to, p.stride) : add_product3<false>(a, B + p.b, to, p.stride);
      return;
    }
    for (int r = 0; r < p.rows_a; ++r, a += 6, to += p.stride) {
      const double* b = B + p.b;
      const int columns = diagonal ? r + 1 : p.rows_b;
      for (int c = 0; c < columns; ++c, b += 6) to[c] += dot6(a, b);
    }
    return;
  }
  for (int r = 0; r < p.rows_a; ++r, a += p.size, to += p.stride) {
    const double* b = B + p.b;
    const int columns = diagonal ? r + 1 : p.rows_b;
    for (int c = 0; c < columns; ++c, b += p.size) to[c] += dot(a, b, p.size);
  }
}

void SparseFactorization::set_hub(const Hub& hub, double* panels) {
  for (int c = 0; c < hub.size; ++c) panels[hub.to + z(c) * z(hub.stride + 1)] = -1;
}

void SparseFactorization::set_hub_block(const HubBlock& s, const double* B, double* panels) {
  const double* from = B + s.from;
  for (int r = 0; r < s.rows; ++r)
    for (int c = 0; c < s.size; ++c)
      panels[s.to + (s.transposed ? z(c) * z(s.stride) + z(r) : z(r) * z(s.stride) + z(c))] = *from++;
}

// Computes the lengths of the rows of B, by which residuals are divided.
void SparseFactorization::measure_rows(const Island& island) {
  const bool hubs = island.hub_end > island.hub_begin;
  for (int k = island.node_begin; k < island.node_end; ++k) measure_rows(pattern_.nodes[z(k)], hubs);
}

inline void SparseFactorization::measure_rows(const Node& node, bool hubs) {
  double* const diagonal = dual_.diagonal();
  for (int r = 0; r < node.rows; ++r) {
    double& square = diagonal[node.position + r];
    for (int t = node.block_begin; hubs && t < node.block_end; ++t) {
      const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
      const double* b = work_->whitened.data() + pattern_.jacobian_blocks[z(t)].value + r * body.size;
      if (body.hub) square += dot(b, b, body.size);
    }
    const double length = std::sqrt(square);
    length_[z(node.row + r)] = length;
    longest_ = std::max(longest_, length);
  }
}

// Pivots are squares of the quantities of the rank decision (T6). Pivots far from the square of the cut decide it, and
// the dense solver decides the rest. @return false when the ordering has to change first
bool SparseFactorization::factor_island(int i) {
  Island& island = islands_[z(i)];
  const double cut = options_.rank_tolerance * options_.rank_tolerance;
  // Rounding leaves up to 1e-12 of a dependent row where fill is heavy (grids). So both limits keep a distance from the
  // cut.
  const double drop = std::max(100 * cut, 1e-13), doubtful = std::max(1000 * cut, 1e-10);
  dual_.read_diagonal(i);
  measure_rows(island);
  const BlockCholesky::Outcome out = dual_.factor(i, drop);
  if (out.late_needed) return false;
  int hub_rows = 0;
  for (int h = island.hub_begin; h < island.hub_end; ++h) hub_rows += pattern_.hubs[z(h)].size;
  island.rank = out.kept - hub_rows;
  island.kind = island.rank == island.row_count ? Kind::full : Kind::deficient;
  island.largest_dropped = out.largest_dropped;
  island.least_kept = out.least_kept;
  island.primal_factored = island.null_space_known = false;
  island.dense_index = -1;
  constexpr const char* not_clear = "rank not clear from the pivots";
  if (!out.finite) {
    solve_densely(i, "numbers too far apart");
  } else if (out.least_kept < doubtful) {
    const bool waits = island.row_count <= options_.reference_rows && solve_densely(i, not_clear);
    if (!waits && !regularize(i, not_clear)) solve_densely(i, not_clear);
  } else {
    bool sure = out.largest_dropped <= cut;
    // The rounding in the pivot of a dependent row is ε over the smallest eigenvalue of the rows before it. Both must
    // be below this limit.
    const double least = sure && out.least_kept >= certain_pivot ? 1 : smallest_singular_value(i);
    sure = sure && least * least > std::max(10 * doubtful, certain_eigenvalue);
    // Long mechanisms have smaller eigenvalues than that. Then the dropped rows themselves are tested.
    if (!sure && !(least > 30 * options_.rank_tolerance &&
                   (find_null_space(i, max_length_ratio_before_dense) || dropped_rows_depend(i))))
      solve_densely(i, not_clear);
  }
  return true;
}

// Inverse iteration on the kept rows with unit length.
double SparseFactorization::smallest_singular_value(int i) const {
  const Island& island = islands_[z(i)];
  const auto each = [&](const auto& visit) {
    for (int k = island.node_begin; k < island.node_end; ++k)
      for (int r = 0; r < pattern_.nodes[z(k)].rows; ++r)
        if (dual_.kept(pattern_.nodes[z(k)].position + r))
          visit(pattern_.nodes[z(k)].row + r, z(pattern_.nodes[z(k)].position + r));
  };
  std::fill(work_->x.begin() + dual_.begin(i), work_->x.begin() + dual_.end(i), 0.0);
  each([&](int row, std::size_t p) { work_->x[p] = 1 + static_cast<double>(row * 37 % 101) / 101; });
  double sigma = 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    double norm = 0, grown = 0;
    each([&](int, std::size_t p) { norm += work_->x[p] * work_->x[p]; });
    if (!(norm > 0)) return 0;
    const double scale = 1 / std::sqrt(norm);
    each([&](int row, std::size_t p) { work_->x[p] *= scale * length_[z(row)]; });
    clear_hubs(island);
    dual_.solve(i, work_->x.data());
    each([&](int row, std::size_t p) {
      work_->x[p] *= length_[z(row)];
      grown += work_->x[p] * work_->x[p];
    });
    if (!(grown > 0) || !std::isfinite(grown)) return 0;
    sigma = 1 / std::sqrt(std::sqrt(grown));
  }
  return sigma;
}

void SparseFactorization::clear_hubs(const Island& island) const {
  for (int h = island.hub_begin; h < island.hub_end; ++h)
    std::fill_n(work_->x.begin() + pattern_.hubs[z(h)].position, pattern_.hubs[z(h)].size, 0.0);
}

// ---- dense solver for single islands ----

// Large islands always keep their sparse factor, because the dense solver would take minutes.
bool SparseFactorization::solve_densely(int i, const char* why) const {
  Island& island = islands_[z(i)];
  if (island.kind == Kind::dense) return true;  // It exists already.
  if (island.row_count > max_dense_rows) return false;
  if (dense_islands_used_ == static_cast<int>(dense_islands_.size()))
    dense_islands_.push_back(std::make_unique<DenseIsland>());
  DenseIsland& own = *dense_islands_[z(dense_islands_used_)];
  own.problem.clear();
  own.constraint.clear();
  own.problem.row_start.push_back(0);
  own.bodies.assign(pattern_.bodies_by_island.begin() + island.body_begin,
                    pattern_.bodies_by_island.begin() + island.body_end);
  std::sort(own.bodies.begin(), own.bodies.end());
  for (const int b : own.bodies) add_mass(bodies_[z(b)], own.problem);
  own.problem.c.assign(own.problem.Q.size(), 0.0);
  own.nodes.resize(z(island.node_end - island.node_begin));
  std::iota(own.nodes.begin(), own.nodes.end(), island.node_begin);
  std::sort(own.nodes.begin(), own.nodes.end(),
            [&](int a, int b) { return pattern_.nodes[z(a)].row < pattern_.nodes[z(b)].row; });
  for (const int k : own.nodes) add_rows(pattern_.nodes[z(k)], own);
  own.problem.constraints.resize(own.constraint.size());
  for (auto* v : {&own.e, &own.scale, &own.lambda}) v->assign(z(island.row_count), 0.0);
  for (auto* v : {&own.force, &own.dv}) v->assign(own.problem.Q.size(), 0.0);
  if (!own.solver.factor(own.problem, options_)) return false;
  island.kind = Kind::dense;
  island.rank = own.solver.rank();
  island.dense_index = dense_islands_used_++;
  ++fallbacks_;
  reason_ = why;
  return true;
}

// Adds the mass matrix of a body, from its factor, as a block.
void SparseFactorization::add_mass(const Body& body, ConstrainedProblem& x) const {
  const double* L = roots_.data() + body.mass;
  const auto start = x.mass.size();
  x.block_sizes.push_back(body.size);
  x.mass.resize(start + z(body.size) * z(body.size), 0.0);
  double* M = x.mass.data() + start;
  const int size = body.size;
  if (body.rigid_form) {
    for (int j = 0; j < 3; ++j) M[7 * j] = L[whole_mass];
    L += L_itself;
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 3; ++k)
        for (int l = 0; l <= std::min(j, k); ++l)
          M[6 * (3 + j) + 3 + k] += L[j * (j + 1) / 2 + l] * L[k * (k + 1) / 2 + l];
  } else {
    for (int j = 0; j < size; ++j)
      for (int k = 0; k < size; ++k)
        for (int l = 0; l <= std::min(j, k); ++l) M[j * size + k] += L[j * size + l] * L[k * size + l];
  }
  x.Q.insert(x.Q.end(), z(size), 0.0);
}

// Adds the rows of a constraint to the problem of its island.
void SparseFactorization::add_rows(const Node& node, DenseIsland& own) const {
  ConstrainedProblem& x = own.problem;
  if (own.constraint.empty() || own.constraint.back() != pattern_.row_constraint[z(node.row)])
    own.constraint.push_back(pattern_.row_constraint[z(node.row)]);
  // The Jacobian blocks in column order, which is required for the rows of an instant.
  own.blocks.clear();
  for (int t = node.block_begin; t < node.block_end; ++t) own.blocks.push_back(t);
  std::sort(own.blocks.begin(), own.blocks.end(),
            [&](int a, int b) { return pattern_.jacobian_blocks[z(a)].body < pattern_.jacobian_blocks[z(b)].body; });
  for (int r = 0; r < node.rows; ++r) {
    int column = 0;
    std::size_t next = 0;
    for (const int t : own.blocks) {
      for (; own.bodies[next] != pattern_.jacobian_blocks[z(t)].body; ++next)
        column += bodies_[z(own.bodies[next])].size;
      const int size = bodies_[z(pattern_.jacobian_blocks[z(t)].body)].size;
      const double* J = jacobians_.data() + pattern_.jacobian_blocks[z(t)].value + r * size;
      for (int c = 0; c < size; ++c) x.entries.push_back({column + c, J[c]});
    }
    x.row_start.push_back(static_cast<int>(x.entries.size()));
    x.b.push_back(0);
    x.row_constraint.push_back(static_cast<int>(own.constraint.size()) - 1);
  }
}

// Factors G + δI in place of G, and drops no row. It is for islands that are too large for the dense solver and whose
// rows are so nearly dependent that their pivots are rounding. Solutions are refined on the true residual (T7). B must
// be available.
// @return whether it succeeded
bool SparseFactorization::regularize(int i, const char* why) const {
  Island& island = islands_[z(i)];
  double square = 0;
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int r = pattern_.nodes[z(k)].row; r < pattern_.nodes[z(k)].row + pattern_.nodes[z(k)].rows; ++r)
      square += length_[z(r)] * length_[z(r)];
  square /= island.row_count;
  fill(island);
  dual_.shift(i, proximity * square);
  const BlockCholesky::Outcome out = dual_.factor(i, 0);
  if (!out.finite || out.late_needed) return false;
  island.kind = Kind::proximal;
  island.least_kept = proximity;
  island.rank = 0;
  for (int k = island.node_begin; k < island.node_end; ++k)
    for (int p = pattern_.nodes[z(k)].position; p < pattern_.nodes[z(k)].position + pattern_.nodes[z(k)].rows; ++p)
      island.rank += dual_.kept(p) && dual_.pivot(p) > independent_pivot ? 1 : 0;
  reason_ = why;
  return true;
}

void SparseFactorization::apply_dense(const Island& island) const {
  DenseIsland& own = *dense_islands_[z(island.dense_index)];
  std::size_t r = 0, j = 0;
  for (const int k : own.nodes)
    for (int i = 0; i < pattern_.nodes[z(k)].rows; ++i, ++r) own.e[r] = work_->e[z(pattern_.nodes[z(k)].row + i)];
  own.solver.apply(own.e, {}, own.lambda, own.force, own.dv);
  r = 0;
  for (const int k : own.nodes)
    for (int i = 0; i < pattern_.nodes[z(k)].rows; ++i, ++r)
      work_->lambda[z(pattern_.nodes[z(k)].row + i)] = own.lambda[r];
  for (const int b : own.bodies)
    for (int i = 0; i < bodies_[z(b)].size; ++i, ++j) {
      work_->force[z(bodies_[z(b)].column + i)] = own.force[j];
      work_->dv[z(bodies_[z(b)].column + i)] = own.dv[j];
    }
}

}  // namespace linchpin::detail
