// Sparse factorisation L S Lᵀ, S = ±1, of symmetric matrices made of small blocks (T7). Hides the ordering, the panels
// in which L is stored, and the treatment of rows that depend on earlier ones. Contains no bodies and no constraints.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::detail {

class BlockCholesky {
 public:
  /// Pattern of the non-zero blocks. Nodes are block rows, and all nodes of one clique are coupled with each other. The
  /// members `sizes` are numbers of rows, and `clique` contains indices of nodes. Nodes marked `negative` have a
  /// negative definite diagonal block. A node marked `late` waits for the negative nodes with which it is coupled,
  /// because dividing by its own block before them is not safe.
  struct Pattern {
    std::vector<int> sizes;
    std::vector<int> clique_start, clique;
    std::vector<char> negative, late;
    int nodes() const { return static_cast<int>(sizes.size()); }
    int cliques() const { return static_cast<int>(clique_start.size()) - 1; }
    void clear();
  };
  enum class Order {
    degree,  // By minimum degree, which is from leaf to root without fill where the cliques form a tree.
    fill,    // By an estimate of the fill, least first. It is better for nets.
    depth    // Chains are cut into halves again and again. Paths to roots are short, and factors of chains are larger.
  };
  /// Orders the nodes. Allocates.
  void analyse(const Pattern& pattern, Order by = Order::degree);

  /// Computes the order that analyse() uses, and the nodes below each node at its elimination. @param structure
  /// [nodes], empty
  static void eliminate(const Pattern& pattern, std::vector<int>& order, std::vector<std::vector<int>>& structure,
                        Order by = Order::degree);

  /// Connected components of the pattern. Each is factored and solved separately.
  int trees() const { return static_cast<int>(tree_start_.size()) - 1; }
  int tree_of(int node) const { return tree_[z(node)]; }
  int size() const { return static_cast<int>(inverse_.size()); }
  /// First row of a node in the vectors of `solve`. The rows of a tree are contiguous.
  int position(int node) const { return position_[z(node)]; }
  int begin(int tree) const { return supers_[z(tree_start_[z(tree)])].first; }
  int end(int tree) const;

  /// Place of block (i, k) for position(i) ≥ position(k): its first element and the distance between its rows. Only the
  /// lower triangle of a diagonal block is read.
  struct Slot {
    std::size_t offset;
    int stride;
  };
  Slot slot(int i, int k) const;
  double* values() { return panels_.data(); }
  void clear(int tree);

  /// Diagonal as assembled, by position. Pivots are compared with it. read_diagonal() stores it. The caller adds the
  /// contribution of negative nodes, where they will add to it.
  double* diagonal() { return diagonal_.data(); }
  void read_diagonal(int tree);
  /// Adds `by` to the diagonal of all nodes that are not negative, before factor().
  void shift(int tree, double by);
  /// Adds by[position] to the diagonal of all nodes that are not negative, before factor().
  void shift(int tree, const double* by);

  struct Outcome {
    int kept = 0;
    double least_kept = 1;       // Least kept pivot relative to the diagonal.
    double largest_dropped = 0;  // Largest dropped pivot relative to the diagonal.
    bool finite = true;
    bool late_needed = false;  // Some nodes must be `late`: see late().
  };
  /// Factors one tree. A row whose pivot is below `drop` times its diagonal depends on earlier rows and is dropped:
  /// solve() gives it zero. Does not allocate.
  Outcome factor(int tree, double drop);
  /// A panel contains the blocks (i, k) of one k, or of several.
  int panels() const { return static_cast<int>(supers_.size()); }
  int panel_of_row(int position) const { return super_of_[z(node_at_[z(position)])]; }
  /// Index of the panel that contains a Slot.
  int panel_at(std::size_t offset) const;
  /// Selects the panels whose factor depends on the values of `panels`: these, and all on the paths from them to their
  /// roots. @return the work of factor_selected(), relative to that of factor() for all trees
  double select(std::span<const int> panels);
  /// Indices of the selected panels, ascending.
  std::span<const int> selected() const { return selected_; }
  /// The same as clear(), read_diagonal() and shift(), for one panel.
  void clear_panel(int panel);
  void read_diagonal_of_panel(int panel);
  void shift_panel(int panel, const double* by);
  /// Factors the selected panels, which contain their values as assembled, after factor() has factored the whole tree.
  /// All panels are then as if factor() had factored the new values. The outcome is that of the selected panels. Does
  /// not allocate.
  Outcome factor_selected(double drop);
  /// Nodes that had almost no pivot while a negative node was still to come. analyse() clears them.
  const std::vector<int>& late() const { return late_; }

  bool kept(int position) const { return inverse_[z(position)] > 0; }
  /// Pivot relative to the assembled diagonal. Infinity where the row was dropped.
  double pivot(int position) const {
    return 1 / (inverse_[z(position)] * inverse_[z(position)] * diagonal_[z(position)]);
  }

  /// Solves in place for the rows of a tree, with zeros in dropped rows. x is a whole vector.
  void solve(int tree, double* x) const;
  /// Computes the null-space vector with a 1 in the given dropped row and 0 in all other dropped rows.
  void null_vector(int tree, int dropped, double* x) const;

  std::size_t bytes() const;

 private:
  struct Super {  // Supernode: nodes with the same rows below them, eliminated together.
    int first = 0, width = 0, height = 0;
    int below_begin = 0, below_end = 0;
    std::size_t panel = 0;    // Offset of (width + height) × width values, row by row.
    std::size_t inverse = 0;  // Offset of (width + height) × width values, for compiled widths: see invert().
    int source_begin = 0, source_end = 0;  // Supernodes that change this one.
    double work = 0;                       // Work of factor_selected(), in products.
    bool negative = false, waits = false;
    bool inverted = false;  // State of the last factor(): see invert().
  };
  struct Below {  // Rows of a node in the panel of an earlier supernode.
    int position = 0, rows = 0;
    int offset = 0;             // Row below the diagonal block.
    int super = 0, column = 0;  // Place where the node itself is eliminated.
  };
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  void lay_out(const Pattern& pattern, const std::vector<int>& order, std::vector<std::vector<int>>& structure);
  std::vector<int> depth_first(const Pattern& p, const std::vector<int>& order,
                               const std::vector<std::vector<int>>& structure, std::vector<int>& parent,
                               std::vector<int>& rows_below, std::vector<int>& tree_begin);
  std::vector<int> make_supers(const Pattern& p, const std::vector<int>& sequence, const std::vector<int>& tree_begin,
                               const std::vector<int>& parent, const std::vector<int>& rows_below);
  void lay_out_panels(const Pattern& p, const std::vector<int>& last_node, std::vector<std::vector<int>>& structure);
  double store_pivot(Super& s, int c, double pivot, double drop, double& diagonal_of_L, Outcome& out);
  template <int W>
  void factor_pivots(Super& s, double drop, Outcome& out);
  void solve_below_dense(const Super& s);
  template <int W>
  void solve_below(const Super& s);
  template <int W>
  void factor_panel(Super& s, double drop, Outcome& out);
  template <int W>
  void update(const Super& s, int only);
  void update_wide(const Super& s, int only);
  template <int W>
  void invert(const Super& s);
  template <int W>
  void forward_super(const Super& s, double* x) const;
  template <int W>
  void backward_super(const Super& s, double* x) const;
  void backward_in(const Super& s, int column, double* own) const;
  void backward(int first, int end, double* x) const;
  template <class Add>
  void each_target(const Super& s, int only, Add add);
  void list_sources();
  template <class Visit>
  static void by_width(int width, Visit visit);

  std::vector<Super> supers_;
  std::vector<Below> below_;
  std::vector<int> tree_start_;  // [trees + 1] First supernode of each tree.
  std::vector<int> tree_, position_, super_of_;
  std::vector<int> node_at_;  // [size] Node of each row.
  std::vector<double> panels_;
  std::vector<double> inverses_;  // D⁻¹ and W of compiled widths.
  std::vector<double> inverse_;   // [size] 1 / L_cc, 0 where dropped.
  std::vector<double> diagonal_;  // [size]
  std::vector<double> work_;      // Work memory of update_wide.
  std::vector<int> late_;
  std::vector<int> sources_;  // By supernode: the earlier ones that have rows of it below them, ascending.
  std::vector<int> selected_;
  std::vector<char> is_selected_;  // By supernode.
  double whole_work_ = 0;          // Work of factor() for all trees, in products.
};

}  // namespace linchpin::detail
