// Sparse factorisation L S Lᵀ, S = ±1, of symmetric matrices made of small blocks (T7). Hides the ordering, the panels
// that L is kept in, and what becomes of rows that depend on earlier ones. Knows no bodies and no constraints.
#pragma once

#include <cstddef>
#include <vector>

namespace linchpin::detail {

class BlockCholesky {
 public:
  /// Which blocks are not zero: nodes are block rows, those of one clique are coupled with each other. Sizes and
  /// indices; `negative` nodes have a negative definite diagonal. A `late` node waits for the negative nodes it is
  /// coupled with: its own block is not safe to divide by before.
  struct Pattern {
    std::vector<int> sizes;
    std::vector<int> clique_start, clique;
    std::vector<char> negative, late;
    int nodes() const { return static_cast<int>(sizes.size()); }
    int cliques() const { return static_cast<int>(clique_start.size()) - 1; }
    void clear();
  };
  /// Orders by minimum degree: leaf to root without fill where the cliques form a tree. Allocates.
  void analyse(const Pattern& pattern);

  /// The order that analyse() takes, and the nodes below each when it is eliminated. @param structure  [nodes], empty
  /// @param by_fill  another order: those first that couple fewest that were not, to a guess. Of nets it is the better.
  static void eliminate(const Pattern& pattern, std::vector<int>& order, std::vector<std::vector<int>>& structure,
                        bool by_fill = false);

  /// Connected parts of the pattern; each is factored and solved on its own.
  int trees() const { return static_cast<int>(tree_start_.size()) - 1; }
  int tree_of(int node) const { return tree_[z(node)]; }
  int size() const { return static_cast<int>(inverse_.size()); }
  /// Where a node's rows stand in the vectors of `solve`; a tree's stand together.
  int position(int node) const { return position_[z(node)]; }
  int begin(int tree) const { return supers_[z(tree_start_[z(tree)])].first; }
  int end(int tree) const;

  /// Block (i, k) for position(i) ≥ position(k): its first element and the distance between its rows. Of a diagonal
  /// block only the lower triangle is read.
  struct Slot {
    std::size_t offset;
    int stride;
  };
  Slot slot(int i, int k) const;
  double* values() { return panels_.data(); }
  void clear(int tree);

  /// The diagonal as filled in, by position: what pivots are compared with. Taken by read_diagonal(); where negative
  /// nodes will add to it, the caller does so too.
  double* diagonal() { return diagonal_.data(); }
  void read_diagonal(int tree);
  /// Adds to the diagonal of all nodes that are not negative, before factor().
  void shift(int tree, double by);

  struct Outcome {
    int kept = 0;
    double least_kept = 1;       // pivots relative to the diagonal
    double largest_dropped = 0;  // likewise
    bool finite = true;
    bool late_needed = false;  // some nodes must be `late`: see late()
  };
  /// Rows whose pivot falls below `drop` of their diagonal depend on earlier ones and are left out: solve() gives them
  /// zero. Allocates nothing.
  Outcome factor(int tree, double drop);
  /// Nodes that had almost no pivot while a negative node was still to come; emptied by analyse().
  const std::vector<int>& late() const { return late_; }

  bool kept(int position) const { return inverse_[z(position)] > 0; }
  /// Pivot relative to the diagonal as filled in; infinity where the row was dropped.
  double pivot(int position) const {
    return 1 / (inverse_[z(position)] * inverse_[z(position)] * diagonal_[z(position)]);
  }

  /// x ← the solution with zeros in dropped rows, in place, for the rows of a tree; x is a whole vector.
  void solve(int tree, double* x) const;
  /// x ← the vector of the null space that has a 1 in the dropped row and 0 in all others dropped.
  void null_vector(int tree, int dropped, double* x) const;

  std::size_t bytes() const;

 private:
  struct Super {  // nodes with the same rows below them, eliminated together
    int first = 0, width = 0, height = 0;
    int below_begin = 0, below_end = 0;
    std::size_t panel = 0;  // (width + height) × width, row by row
    std::size_t pivot = 0;  // width × width, of compiled widths
    bool negative = false, waits = false;
    bool inverted = false;  // as of the last factor: see invert()
  };
  struct Below {  // a node's rows in the panel of an earlier super
    int position = 0, rows = 0;
    int offset = 0;             // row below the diagonal block
    int super = 0, column = 0;  // where the node itself is eliminated
  };
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  void lay_out(const Pattern& pattern, const std::vector<int>& order, std::vector<std::vector<int>>& structure);
  template <int W>
  void factor_panel(Super& s, double drop, Outcome& out);
  template <int W>
  void update(const Super& s);
  void update_wide(const Super& s);
  template <int W>
  void invert(const Super& s);
  template <int W>
  void forward_super(const Super& s, double* x) const;
  template <int W>
  void backward_super(const Super& s, double* x) const;
  void backward_in(const Super& s, int column, double* own) const;
  void backward(int first, int end, double* x) const;
  template <class Add>
  void each_target(const Super& s, Add add);
  template <class Visit>
  static void by_width(int width, Visit visit);

  std::vector<Super> supers_;
  std::vector<Below> below_;
  std::vector<int> tree_start_;  // [trees + 1] first super of each
  std::vector<int> tree_, position_, super_of_;
  std::vector<int> node_at_;  // [size] node of each row
  std::vector<double> panels_;
  std::vector<double> pivots_;    // D⁻¹ of compiled widths
  std::vector<double> inverse_;   // [size] 1 / L_cc, 0 where dropped
  std::vector<double> diagonal_;  // [size]
  std::vector<double> work_;      // of update_wide
  std::vector<int> late_;
};

}  // namespace linchpin::detail
