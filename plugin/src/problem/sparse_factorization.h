// The sparse solver (T7): G = A M⁻¹Aᵀ factored over the graph of bodies and constraints, island by island. Hides the
// ordering, hubs, dependent rows, refinement on the true residual, and the islands that use the dense solver.
#pragma once

#include "math/block_cholesky.h"
#include "problem/dense_factorization.h"

#include <linchpin/problem.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace linchpin::detail {

inline constexpr const char* no_minimum_norm = "multipliers of least norm not found by the sparse factor";
/// Ratio of an island's row lengths up to which null vectors keep their digits. Light rods on hinges are within it.
inline constexpr double max_length_ratio = 200;
/// The same limit where the alternative is the dense solver. Light bodies between heavy ones keep more digits with it.
inline constexpr double max_length_ratio_before_dense = 30;

/// Pivots above this make the rank certain, so that no estimate is needed.
inline constexpr double certain_pivot = 1e-2;

inline double dot6(const double* a, const double* b) {
  using Vector = Eigen::Map<const Eigen::Matrix<double, 6, 1>>;
  return Vector(a).dot(Vector(b));
}
inline double dot(const double* a, const double* b, int size) {
  if (size == 6) return dot6(a, b);
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

class SparseFactorization {
 public:
  explicit SparseFactorization(BlockCholesky::Order order = BlockCholesky::Order::degree) : order_(order) {}
  /// Factors A and M. Data that depend only on the pattern of A are kept while that stays the same. @return false when
  /// the instant is malformed, M is not positive definite or a number is not finite.
  bool factor(const ConstrainedProblem& problem, const SolveOptions& options) noexcept;
  /// Factors G + C, where C is diagonal: a row with the compliance c may yield by −c times its multiplier. The rank is
  /// not decided, and rows without a pivot are dropped. Use solve_unrefined(), and check its residual.
  /// @param compliance  [m] ≥ 0
  bool factor(const ConstrainedProblem& problem, std::span<const double> compliance) noexcept;
  /// The same after factor() of that problem, where only the rows of some constraints, and their compliance, have
  /// changed since. It factors what depends on these. The result is that of factor().
  /// @param changed  indices of constraints
  bool factor_changed(const ConstrainedProblem& problem, std::span<const double> compliance,
                      std::span<const int> changed) noexcept;

  /// Number of panels of the factor that the last call computed, of all.
  int factored_panels() const { return factored_panels_; }

  int rank() const;
  int rows() const { return m_; }
  int columns() const { return n_; }
  SolveInfo info() const;

  /// Solve as Solver::apply and Solver::approach. The result is infinity, without a correction, for an island that is
  /// too large for the dense solver and whose sparse factor fails.
  double apply(std::span<const double> e, std::span<const double> scale, std::span<double> lambda,
               std::span<double> force, std::span<double> dv) const noexcept;
  void solve_unrefined(std::span<const double> e, std::span<double> lambda, std::span<double> force,
                       std::span<double> dv) const noexcept;
  /// Solves for the errors e − A M⁻¹ f, and adds M⁻¹ f to dv. Few bodies should have a force f. It is for a factor with
  /// compliance.
  void respond_unrefined(std::span<const double> e, std::span<const double> f, std::span<double> lambda,
                         std::span<double> dv) const noexcept;
  /// The same as Solver::shortest.
  void minimum_norm_multipliers(std::span<double> force, std::span<double> lambda, std::span<double> v) const noexcept;
  void inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept;
  /// The same as DenseFactorization::size_of_terms.
  void size_of_terms(std::span<const double> b, std::span<const double> a, std::span<double> scale) const;
  RankReport report(std::span<const double> e, std::span<const double> scale, bool singular_values) const;

 private:
  // Offsets in lists of numbers. A problem that fits into memory has fewer than 2³² numbers. The lists that every solve
  // reads are half as long as with std::size_t.
  using Place = std::uint32_t;
  struct Body {
    int column = 0, size = 0;
    Place mass = 0;           // Start of its block in ConstrainedProblem::mass and in roots_.
    bool rigid_form = false;  // M = diag(m I₃, I), and roots_ has the short form: see factor_body().
    bool hub = false;
    int column_block_begin = 0, column_block_end = 0;
  };
  // The short form of M = diag(m I₃, I), I = L Lᵀ. It contains 1/√m, m and √m, the lower triangles of L⁻¹ and L, 1/m,
  // the lower triangle of I⁻¹, and I again as U D Uᵀ.
  enum Short : std::size_t {
    inverse_root = 0,
    whole_mass = 1,
    root_mass = 2,
    L_inverse = 3,
    L_itself = 9,
    inverse_mass_itself = 15,
    inverse_inertia = 16,
    unit_lower = 22,  // I = U D Uᵀ: entries below the diagonal of U, and D.
    pivots = 25
  };
  // Block of A of a constraint and one of its bodies: [rows × size] in jacobians_ and in `whitened`.
  struct JacobianBlock {
    int body = 0;
    Place value = 0;
  };
  struct Node {  // Consecutive rows of one constraint.
    int row = 0, rows = 0, position = 0;
    int block_begin = 0, block_end = 0;
  };
  struct ColumnBlock {  // The same block in the list of its body, for the constraint force on the body.
    Place value = 0;
    int rows = 0, position = 0;
  };
  struct EntryRun {  // Entries of one row in neighbouring columns of one body, and their place in jacobians_.
    Place value = 0;
    int length = 0, column = 0;
    int block = 0, row = 0;  // The row counts within the constraint.
  };
  struct BlockProduct {  // Panel block (a, b) += B_a B_bᵀ.
    Place a = 0, b = 0, to = 0;
    int rows_a = 0, rows_b = 0, size = 0, stride = 0;
  };
  struct HubBlock {  // Off-diagonal block of a constraint and a hub: B, or Bᵀ where the hub comes later.
    Place from = 0, to = 0;
    int rows = 0, size = 0, stride = 0;
    bool transposed = false;
  };
  struct Hub {  // Diagonal block −I of a hub.
    Place to = 0;
    int position = 0, size = 0, stride = 0;
  };
  enum class Kind { full, deficient, proximal, dense };  // `proximal`: see regularize().
  struct Island {
    int node_begin = 0, node_end = 0, body_begin = 0, body_end = 0;
    int product_begin = 0, product_end = 0, hub_block_begin = 0, hub_block_end = 0, hub_begin = 0, hub_end = 0;
    int row_count = 0;
    Kind kind = Kind::full;
    int rank = 0;
    double largest_dropped = 0, least_kept = 1;
    int dense_index = -1;  // Index in dense_islands_, where kind is dense.
    bool primal_factored = false;
    bool null_space_known = false;  // It is stored in null_spaces_.
    // Deficient by rows of zeros alone. The solution of the kept rows is then the least-squares one, of least norm.
    bool drops_zeros_only = false;
  };
  // Work memory that is used only during a call. Each thread has one. So thousands of small problems that a thread
  // solves in sequence use the same cache lines.
  struct Scratch {
    std::vector<double> e, rho, lambda, inside, left, target;    // [m]
    std::vector<double> force, dv, part, before, dropped_force;  // [n], and of the widest body.
    std::vector<double> x, y;      // Vectors of BlockCholesky::solve, of rows and of columns.
    std::vector<double> whitened;  // B, in the order of `Pattern::jacobian_blocks`.
  };
  struct DenseIsland {  // An island as a problem of its own.
    ConstrainedProblem problem;
    DenseFactorization solver;
    std::vector<int> constraint;  // Indices of its constraints in the whole problem.
    std::vector<int> bodies, nodes, blocks;
    std::vector<double> e, scale, lambda, force, dv;
  };

  // All data that depend only on the pattern of A.
  struct Pattern {
    int constraints = 0;
    int widest = 0;                                           // Number of columns of the largest body.
    std::vector<int> block_sizes, row_start, row_constraint;  // As given.
    std::vector<EntryRun> entry_runs;
    std::vector<int> bodies_by_island;
    std::vector<Node> nodes;  // In order of position.
    std::vector<JacobianBlock> jacobian_blocks;
    std::vector<ColumnBlock> column_blocks;
    std::vector<BlockProduct> block_products;
    std::vector<HubBlock> hub_blocks;
    std::vector<Hub> hubs;
    std::vector<char> late;  // [nodes in the order of rows] See BlockCholesky.
  };

  // By panel of dual_ and by node: what factor_changed() reads and fills again. It is made when that is first called.
  struct Parts {
    struct Item {
      int index = 0, block_a = 0, block_b = 0;  // Index in the list of the pattern, and those of its Jacobian blocks.
    };
    struct Range {
      int begin = 0, end = 0;
    };
    std::vector<Item> products, hub_blocks;                  // By panel.
    std::vector<int> hubs;                                   // By panel.
    std::vector<Range> of_products, of_hub_blocks, of_hubs;  // [panels]
    std::vector<Range> nodes;                                // [panels] Nodes whose rows the panel contains.
    std::vector<int> node_of_constraint;                     // −1 without rows.
    std::vector<int> panels;                                 // By node: panels that contain products of its rows.
    std::vector<Range> of_panels, runs;                      // [nodes] The latter: entry runs.
    std::vector<int> touched;                                // Work memory: panels.
    std::vector<int> whitened_at;                            // By Jacobian block: the call that whitened it last.
    int calls = 0;
  };
  void list_parts();
  static bool read_run(const EntryRun& run, const ConstrainedProblem::Entry* entry, double* J, double& probe);
  bool read_node(const ConstrainedProblem& problem, int node);
  void whiten_once(int block, int rows);
  void fill_panel(int panel);
  int island_of_panel(int panel) const;

  bool prepare(const ConstrainedProblem& problem) noexcept;
  template <class FactorIsland>
  void factor_islands(FactorIsland factor_island);
  void select_scratch() const;
  bool read(const ConstrainedProblem& problem);

  // Symbolic phase, in sparse_symbolic.cpp.
  using BodyBlocks = std::vector<std::vector<std::pair<int, int>>>;  // By body: node and Jacobian block.
  void analyse(const ConstrainedProblem& problem);
  std::vector<int> list_bodies();
  std::vector<int> list_nodes(const ConstrainedProblem& problem, const std::vector<int>& body_of);
  void find_late_nodes();
  void order();
  BodyBlocks list_blocks_by_body() const;
  BlockCholesky::Pattern make_pattern(const BodyBlocks& on, std::vector<int>& hub_node) const;
  Place list_islands();
  void list_products(const BodyBlocks& on, const std::vector<int>& hub_node);
  void add_hub(const Body& body, int hub_node, const std::vector<std::pair<int, int>>& blocks);
  void add_products(const Body& body, const std::vector<std::pair<int, int>>& blocks);
  void move_jacobians(Place values);
  void list_column_blocks(const BodyBlocks& on);
  void prepare_primal();

  bool factor_body(Body& body, const double* M);
  void whiten() const;
  void whiten(const JacobianBlock& block, int rows) const;
  void fill(const Island& island) const;
  void add_product(const BlockProduct& p, const double* B, double* panels) const;
  static void set_hub(const Hub& hub, double* panels);
  static void set_hub_block(const HubBlock& s, const double* B, double* panels);
  bool factor_island(int i);
  bool factor_compliant_island(int i, std::span<const double> compliance);
  void measure_rows(const Island& island);
  void measure_rows(const Node& node, bool hubs);
  double smallest_singular_value(int i) const;
  bool solve_densely(int i, const char* why) const;
  void add_mass(const Body& body, ConstrainedProblem& x) const;
  void add_rows(const Node& node, DenseIsland& own) const;
  bool regularize(int i, const char* why) const;

  void apply_island(int i, double size, bool with_lambda) const;
  void apply_sparse(int i, double size, bool with_lambda) const;
  void load_errors(const Island& island, std::span<const double> e) const;
  void subtract_response(const Body& body, const double* f) const;
  void store_multipliers(const Island& island, std::span<double> lambda) const;
  void respond_unrefined(const Body& body, std::span<double> force, double* u) const;
  void solve_unrefined_by_dense(const Island& island, std::span<const double> e, std::span<double> lambda,
                                std::span<double> force, std::span<double> dv) const;
  double refine_proximal(int i, const double* e, double size) const;
  void apply_proximal(int i, double size, bool with_lambda) const;
  void clear(const Island& island) const;
  void clear_unconstrained() const;
  void write_results(std::span<double> lambda, std::span<double> force, std::span<double> dv) const;
  void apply_dense(const Island& island) const;
  void clear_hubs(const Island& island) const;
  using Six = Eigen::Matrix<double, 6, 1>;
  Six constraint_force(const Body& body, const double* x) const;
  void correct(int i, bool first) const;
  struct Error {  // Largest residual in unit rows.
    double kept = 0, all = 0;
  };
  Error residual(const Island& island, const double* e) const;
  Error refine(int i, const double* e, double size, bool first) const;
  Error refine_least_squares(int i, double size) const;
  double size_of(const Island& island, std::span<const double> e) const;
  void fill_primal(const Island& island, int tree) const;
  bool factor_primal(int i) const;
  double image_of_inside(const Island& island) const;
  double refine_null_vector(int i) const;
  void image_of_force(const Island& island, double* rows) const;
  void null_vector_step(int i) const;
  bool find_null_space(int i, double max_ratio) const;
  bool dropped_rows_depend(int i) const;
  void project_out_null_space(int i, double* rows) const;
  double add_image(const Island& island, double* rows) const;
  void clear_part(const Island& island) const;
  double dropped_force_ratio(const Island& island) const;
  bool project(int i, const std::vector<double>& rows) const;
  bool minimum_norm_island(int i) const;
  bool use_minimum_norm(int i, double size) const;
  void minimum_norm_proximal(int i) const;
  void remove_dropped_force(const Island& island) const;
  void add_transposed(const Island& island, const double* lambda, double* f) const;
  void times_inverse_mass(const Body& body, const double* f, double* dv) const;
  double largest_singular_value(const Island& island) const;
  double mark_redundant(int i, std::vector<char>& redundant, std::vector<char>& undetermined) const;
  double mark_redundant_proximal(int i, std::vector<char>& redundant, std::vector<char>& undetermined) const;
  double unit(int row, double value) const;

  int n_ = 0, m_ = 0;
  BlockCholesky::Order order_;
  SolveOptions options_;
  Pattern pattern_;
  Parts parts_;
  bool parts_known_ = false;
  int factored_panels_ = 0;
  bool known_ = false;   // `pattern_` is that of the last instant.
  bool finite_ = false;  // The entries are finite.

  std::vector<Body> bodies_;  // In column order.
  mutable std::vector<Island> islands_;
  mutable BlockCholesky dual_;    // Factor of G: rows and hubs.
  mutable BlockCholesky primal_;  // Factor of AᵀA: columns. It is made when an island first is deficient.
  bool primal_known_ = false;
  // For each island where it is known: an orthonormal basis of null(Aᵀ), vector after vector, with rows in order of
  // position.
  mutable std::vector<std::vector<double>> null_spaces_;

  std::vector<double> roots_;           // Factors of the blocks of M.
  std::vector<double> jacobians_;       // A, in the order of `Pattern::jacobian_blocks`.
  std::vector<double> length_;          // [m] Lengths of the rows of B.
  std::vector<double> inverse_length_;  // [m] A zero row has that of the longest row.
  double longest_ = 0;

  mutable std::vector<std::unique_ptr<DenseIsland>> dense_islands_;
  mutable int dense_islands_used_ = 0;
  mutable int fallbacks_ = 0;
  mutable bool unsolvable_ = false;  // Some island had no solution in the last apply().
  mutable const char* reason_ = "";
  mutable Scratch* work_ = nullptr;  // Scratch memory of the thread that called last.
};

}  // namespace linchpin::detail
