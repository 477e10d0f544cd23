#include "math/block_cholesky.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <type_traits>
#include <utility>

namespace linchpin::detail {
namespace {

constexpr int max_width = 64;      // Largest number of rows eliminated together.
constexpr int compiled_width = 6;  // Largest width with compiled kernels: the rows of one joint.
// Least relative pivot of such widths with which a block may be inverted without loss of digits.
constexpr double invertible_pivot = 0.05;
constexpr int wide = 8;  // Least width for which dense products are faster.
// Least relative pivot that may be divided by while a negative node has still to come.
constexpr double unsafe_pivot = 1e-5;
// Degree of a node within a chain of joints. See Order::depth.
constexpr int chain_degree = 2 * compiled_width;
// Degree of negative nodes. They come after all nodes that need not wait for them.
constexpr int last_degree = 1 << 28;

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Returns Σ a_l b_l for l < count. For a compiled width W, count is known to be small.
template <int W>
double inner(const double* a, const double* b, int count) {
  if constexpr (W == 0) {
    if (count >= 4) return Eigen::Map<const Eigen::VectorXd>(a, count).dot(Eigen::Map<const Eigen::VectorXd>(b, count));
  }
  double sum = 0;
  for (int l = 0; l < count; ++l) sum += a[l] * b[l];
  return sum;
}

template <int W>
double dot(const double* a, const double* b) {
  double sum = a[0] * b[0];
  for (int l = 1; l < W; ++l) sum += a[l] * b[l];
  return sum;
}

}  // namespace

void BlockCholesky::Pattern::clear() {
  sizes.clear();
  clique_start.assign(1, 0);
  clique.clear();
  negative.clear();
  late.clear();
}

// ---- ordering ----

void BlockCholesky::analyse(const Pattern& pattern, Order by) {
  std::vector<int> order;
  std::vector<std::vector<int>> structure(z(pattern.nodes()));
  eliminate(pattern, order, structure, by);
  lay_out(pattern, order, structure);
  late_.clear();
  late_.reserve(z(pattern.nodes()));
}

namespace {

// The matrix that remains during the elimination, as a set of cliques ("elements").
class QuotientGraph {
 public:
  explicit QuotientGraph(const BlockCholesky::Pattern& pattern)
      : pattern_(pattern),
        members_(z(pattern.cliques())),
        cliques_of_(z(pattern.nodes())),
        stamp_(z(pattern.nodes()), -1) {
    for (int e = 0; e < pattern.cliques(); ++e) {
      members_[z(e)].assign(pattern.clique.begin() + pattern.clique_start[z(e)],
                            pattern.clique.begin() + pattern.clique_start[z(e) + 1]);
      for (const int v : members_[z(e)]) cliques_of_[z(v)].push_back(e);
    }
  }

  // Calls visit(u) for every node u that is coupled with v.
  template <class Visit>
  void each_neighbour(int v, const Visit& visit) {
    stamp_[z(v)] = ++now_;
    for (const int e : cliques_of_[z(v)])
      for (const int u : members_[z(e)])
        if (stamp_[z(u)] != now_) {
          stamp_[z(u)] = now_;
          visit(u);
        }
  }

  // Number of rows of the largest clique of v, without those of v.
  double largest_clique(int v) const {
    double most = 0;
    for (const int e : cliques_of_[z(v)]) {
      double rows = -pattern_.sizes[z(v)];
      for (const int u : members_[z(e)]) rows += pattern_.sizes[z(u)];
      most = std::max(most, rows);
    }
    return most;
  }

  // Joins the cliques of v to one, whose members are the nodes below v.
  void eliminate(int v, const std::vector<int>& below) {
    for (const int e : cliques_of_[z(v)]) std::vector<int>().swap(members_[z(e)]);
    std::vector<int>().swap(cliques_of_[z(v)]);
    const int joined = static_cast<int>(members_.size());
    members_.push_back(below);
    for (const int u : below) {
      auto& cliques = cliques_of_[z(u)];
      // A body of high degree has as many cliques as joints. Searching all of them each time would cost their square.
      if (!pattern_.negative[z(u)]) std::erase_if(cliques, [&](int e) { return members_[z(e)].empty(); });
      cliques.push_back(joined);
    }
  }

 private:
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  const BlockCholesky::Pattern& pattern_;
  std::vector<std::vector<int>> members_, cliques_of_;
  std::vector<int> stamp_;
  int now_ = 0;
};

}  // namespace

// Minimum degree on the quotient graph. Ties go to the lower index, so that equal patterns get equal orders.
//
// With Order::fill nodes are ranked by the fill. It is the number of pairs of neighbours outside the largest clique,
// divided by the number of neighbours. This favours nodes of low degree. Ties go to the node whose neighbours have not
// been eliminated for the longest time. So a net is eliminated from all sides, not from one corner.
//
// With Order::depth, nodes within chains rank as their ends do, and ties go to the least height above the leaves of the
// elimination tree. So every second node of a chain is eliminated, then every second of the rest.
void BlockCholesky::eliminate(const Pattern& p, std::vector<int>& order, std::vector<std::vector<int>>& structure,
                              Order by) {
  const int n = p.nodes();
  QuotientGraph graph(p);
  std::vector<char> gone(z(n), 0);
  std::vector<std::pair<double, int>> rank(z(n), {last_degree, 0});
  std::vector<int> height(z(n), 0);
  using Next = std::pair<std::pair<double, int>, int>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  const auto enqueue = [&](int v) {
    if (!p.negative[z(v)]) {
      int d = 0;
      bool waits = false;
      graph.each_neighbour(v, [&](int u) {
        d += p.sizes[z(u)];
        waits = waits || p.negative[z(u)];
      });
      if (waits && p.late[z(v)]) {  // It is enqueued again when the last of those is eliminated.
        rank[z(v)] = {last_degree + 1, 0};
        return;
      }
      // Ties go to the nodes that have waited longest. Chains are eliminated from both ends alternately, and the two
      // halves do not depend on each other.
      rank[z(v)] = {d, static_cast<int>(order.size())};
      if (by == Order::depth) rank[z(v)] = {std::max(d, chain_degree), height[z(v)]};
      if (by == Order::fill) {
        const double most = graph.largest_clique(v);
        rank[z(v)] = {(1.0 * d * d - most * most) / (d + 1), static_cast<int>(order.size())};
      }
    }
    queue.emplace(rank[z(v)], v);
  };
  for (int v = 0; v < n; ++v) enqueue(v);

  order.reserve(z(n));
  while (!queue.empty()) {
    const auto [d, v] = queue.top();
    queue.pop();
    if (gone[z(v)] || d != rank[z(v)]) continue;
    gone[z(v)] = 1;
    order.push_back(v);
    auto& below = structure[z(v)];
    graph.each_neighbour(v, [&](int u) { below.push_back(u); });
    graph.eliminate(v, below);
    for (const int u : below) {
      height[z(u)] = std::max(height[z(u)], height[z(v)] + 1);
      if (!p.negative[z(u)]) enqueue(u);
    }
  }
}

void BlockCholesky::lay_out(const Pattern& p, const std::vector<int>& order, std::vector<std::vector<int>>& structure) {
  std::vector<int> parent(z(p.nodes()), -1), rows_below(z(p.nodes()), 0), tree_begin;
  const std::vector<int> sequence = depth_first(p, order, structure, parent, rows_below, tree_begin);
  const std::vector<int> last_node = make_supers(p, sequence, tree_begin, parent, rows_below);
  lay_out_panels(p, last_node, structure);
}

// Computes the elimination tree and an order of its nodes, depth first. The child with the most rows below is last,
// because it can be eliminated together with its parent. @param tree_begin  out: places in the order where trees begin,
// and its end
std::vector<int> BlockCholesky::depth_first(const Pattern& p, const std::vector<int>& order,
                                            const std::vector<std::vector<int>>& structure, std::vector<int>& parent,
                                            std::vector<int>& rows_below, std::vector<int>& tree_begin) {
  const int n = p.nodes();
  std::vector<int> when(z(n));
  for (int k = 0; k < n; ++k) when[z(order[z(k)])] = k;
  std::vector<std::vector<int>> children(z(n));
  for (const int v : order) {
    for (const int u : structure[z(v)]) {
      rows_below[z(v)] += p.sizes[z(u)];
      if (parent[z(v)] < 0 || when[z(u)] < when[z(parent[z(v)])]) parent[z(v)] = u;
    }
    if (parent[z(v)] >= 0) children[z(parent[z(v)])].push_back(v);
  }

  std::vector<int> sequence, stack;
  sequence.reserve(z(n));
  tree_.assign(z(n), 0);
  std::vector<char> opened(z(n), 0);
  for (const int root : order) {
    if (parent[z(root)] >= 0) continue;
    tree_begin.push_back(static_cast<int>(sequence.size()));
    stack.push_back(root);
    while (!stack.empty()) {
      const int v = stack.back();
      if (!opened[z(v)]) {
        opened[z(v)] = 1;
        auto& own = children[z(v)];
        std::stable_sort(own.begin(), own.end(), [&](int a, int b) { return rows_below[z(a)] > rows_below[z(b)]; });
        stack.insert(stack.end(), own.begin(), own.end());
        continue;
      }
      stack.pop_back();
      tree_[z(v)] = static_cast<int>(tree_begin.size()) - 1;
      sequence.push_back(v);
    }
  }
  tree_begin.push_back(n);
  return sequence;
}

// Groups nodes of the sequence to supernodes. @return the last node of each, whose structure is that of the supernode
std::vector<int> BlockCholesky::make_supers(const Pattern& p, const std::vector<int>& sequence,
                                            const std::vector<int>& tree_begin, const std::vector<int>& parent,
                                            const std::vector<int>& rows_below) {
  const int n = p.nodes();
  position_.assign(z(n), 0);
  super_of_.assign(z(n), 0);
  supers_.clear();
  node_at_.clear();
  tree_start_.clear();
  int position = 0, tree = 0;
  std::vector<int> last_node;
  for (int k = 0; k < n; ++k) {
    const int v = sequence[z(k)];
    const bool new_tree = k == tree_begin[z(tree)];
    const int before = k > 0 ? sequence[z(k) - 1] : -1;
    const bool joins = !new_tree && parent[z(before)] == v &&
                       rows_below[z(before)] == p.sizes[z(v)] + rows_below[z(v)] &&
                       p.negative[z(before)] == p.negative[z(v)] && supers_.back().width + p.sizes[z(v)] <= max_width;
    if (new_tree) {
      tree_start_.push_back(static_cast<int>(supers_.size()));
      ++tree;
    }
    if (!joins) {
      supers_.push_back({.first = position, .negative = p.negative[z(v)] != 0});
      last_node.push_back(v);
    }
    supers_.back().width += p.sizes[z(v)];
    last_node.back() = v;
    super_of_[z(v)] = static_cast<int>(supers_.size()) - 1;
    position_[z(v)] = position;
    position += p.sizes[z(v)];
    node_at_.insert(node_at_.end(), z(p.sizes[z(v)]), v);
  }
  tree_start_.push_back(static_cast<int>(supers_.size()));
  return last_node;
}

// Lists the rows below each supernode, and allocates the panels.
void BlockCholesky::lay_out_panels(const Pattern& p, const std::vector<int>& last_node,
                                   std::vector<std::vector<int>>& structure) {
  below_.clear();
  std::size_t panel = 0, inverse = 0;
  int tallest = 0;
  for (std::size_t s = 0; s < supers_.size(); ++s) {
    Super& super = supers_[s];
    auto& under = structure[z(last_node[s])];
    std::sort(under.begin(), under.end(), [&](int a, int b) { return position_[z(a)] < position_[z(b)]; });
    super.below_begin = static_cast<int>(below_.size());
    for (const int u : under) {
      const int t = super_of_[z(u)];
      below_.push_back({.position = position_[z(u)],
                        .rows = p.sizes[z(u)],
                        .offset = super.height,
                        .super = t,
                        .column = position_[z(u)] - supers_[z(t)].first});
      super.height += p.sizes[z(u)];
      super.waits = super.waits || (p.negative[z(u)] && !super.negative);
    }
    super.below_end = static_cast<int>(below_.size());
    super.panel = panel;
    panel += z(super.width + super.height) * z(super.width);
    super.inverse = inverse;
    if (super.width <= compiled_width) inverse += z(super.width + super.height) * z(super.width);
    if (super.width >= wide) tallest = std::max(tallest, super.height);
  }
  supers_.shrink_to_fit();
  below_.shrink_to_fit();
  node_at_.shrink_to_fit();
  panels_.assign(panel, 0.0);
  inverses_.assign(inverse, 0.0);
  inverse_.assign(node_at_.size(), 0.0);
  diagonal_.assign(node_at_.size(), 0.0);
  work_.assign(z(tallest) * z(tallest), 0.0);
  list_sources();
}

void BlockCholesky::list_sources() {
  const auto each_target_super = [&](const Super& s, const auto& visit) {
    for (int b = s.below_begin; b < s.below_end; ++b)
      if (b == s.below_begin || below_[z(b)].super != below_[z(b - 1)].super) visit(supers_[z(below_[z(b)].super)]);
  };
  whole_work_ = 0;
  for (Super& s : supers_) {
    const double own = 1.0 * s.width * (s.width + s.height) * (s.width + s.height), update = 1.0 * s.width * s.height;
    s.work += own;
    whole_work_ += own + update * s.height;
    each_target_super(s, [&](Super& t) {
      ++t.source_end;
      t.work += update * (s.width > compiled_width ? s.height : std::min(s.height, t.width));
    });
  }
  int count = 0;
  for (Super& s : supers_) {
    s.source_begin = count;
    count += s.source_end;
    s.source_end = s.source_begin;
  }
  sources_.assign(z(count), 0);
  for (std::size_t i = 0; i < supers_.size(); ++i)
    each_target_super(supers_[i], [&](Super& t) { sources_[z(t.source_end++)] = static_cast<int>(i); });
  selected_.clear();
  selected_.reserve(supers_.size());
  is_selected_.assign(supers_.size(), 0);
}

int BlockCholesky::end(int tree) const {
  const Super& s = supers_[z(tree_start_[z(tree) + 1]) - 1];
  return s.first + s.width;
}

BlockCholesky::Slot BlockCholesky::slot(int i, int k) const {
  const Super& s = supers_[z(super_of_[z(k)])];
  const int column = position_[z(k)] - s.first;
  int row = position_[z(i)] - s.first;
  if (super_of_[z(i)] != super_of_[z(k)]) {
    const auto found = std::lower_bound(below_.begin() + s.below_begin, below_.begin() + s.below_end, position_[z(i)],
                                        [](const Below& b, int position) { return b.position < position; });
    row = s.width + found->offset;
  }
  return {s.panel + z(row) * z(s.width) + z(column), s.width};
}

void BlockCholesky::clear(int tree) {
  const Super &first = supers_[z(tree_start_[z(tree)])], &final = supers_[z(tree_start_[z(tree) + 1]) - 1];
  std::fill(panels_.begin() + static_cast<std::ptrdiff_t>(first.panel),
            panels_.begin() + static_cast<std::ptrdiff_t>(final.panel + z(final.width + final.height) * z(final.width)),
            0.0);
}

std::size_t BlockCholesky::bytes() const {
  return (panels_.capacity() + inverses_.capacity()) * sizeof(double) +
         (inverse_.capacity() + diagonal_.capacity()) * sizeof(double) + supers_.capacity() * sizeof(Super) +
         below_.capacity() * sizeof(Below) + (sources_.capacity() + selected_.capacity()) * sizeof(int) +
         (tree_.capacity() + position_.capacity() + super_of_.capacity() + node_at_.capacity()) * sizeof(int);
}

// ---- numeric factorisation ----

// Stores the root of a pivot and its inverse, or drops the row. @return 1 / pivot, or 0 where it is dropped
inline double BlockCholesky::store_pivot(Super& s, int c, double pivot, double drop, double& diagonal_of_L,
                                         Outcome& out) {
  const double diagonal = diagonal_[z(s.first + c)];
  const bool keep = pivot > drop * diagonal;
  s.inverted = s.inverted && pivot > invertible_pivot * diagonal;
  const double over = keep ? 1 / pivot : 0, root = keep ? std::sqrt(pivot) : 0;
  diagonal_of_L = root;
  inverse_[z(s.first + c)] = root * over;
  if (!std::isfinite(pivot) || !std::isfinite(over)) out.finite = false;
  if (keep) {
    ++out.kept;
    if (pivot < out.least_kept * diagonal) out.least_kept = pivot / diagonal;
  } else if (diagonal > 0) {
    out.largest_dropped = std::max(out.largest_dropped, std::fabs(pivot) / diagonal);
  }
  if (s.waits && !(keep && pivot > unsafe_pivot * diagonal)) {
    const int node = node_at_[z(s.first + c)];
    if (late_.empty() || late_.back() != node) late_.push_back(node);
    out.late_needed = true;
  }
  return over;
}

// Factors the diagonal block of a supernode with compiled width W. W = 0 reads the width at run time.
template <int W>
inline void BlockCholesky::factor_pivots(Super& s, double drop, Outcome& out) {
  double* const A = panels_.data() + s.panel;
  double* const inverse = inverse_.data() + s.first;
  if constexpr (W > 0) {
    // Uses U = L D in place of L, so that no pivot waits for the square root of the one before.
    double U[W][W], M[W][W], over[W];
    for (int c = 0; c < W; ++c) {
      double pivot = A[c * W + c];
      for (int l = 0; l < c; ++l) {
        double sum = A[c * W + l];
        for (int k = 0; k < l; ++k) sum -= U[c][k] * M[l][k];
        U[c][l] = sum;
        M[c][l] = sum * over[l];
        pivot -= sum * M[c][l];
      }
      over[c] = store_pivot(s, c, pivot, drop, A[c * W + c], out);
    }
    for (int c = 1; c < W; ++c)
      for (int l = 0; l < c; ++l) A[c * W + l] = U[c][l] * inverse[l];
  } else {
    for (int c = 0; c < s.width; ++c) {
      double* const row = A + c * s.width;
      double pivot = row[c];
      for (int l = 0; l < c; ++l) {
        row[l] = (row[l] - inner<W>(row, A + l * s.width, l)) * inverse[l];
        pivot -= row[l] * row[l];
      }
      store_pivot(s, c, pivot, drop, row[c], out);
    }
  }
}

// Divides the rows below by the triangle, by a dense product.
void BlockCholesky::solve_below_dense(const Super& s) {
  const int w = s.width;
  double* const A = panels_.data() + s.panel;
  const double* const inverse = inverse_.data() + s.first;
  // Dropped columns of L are zero. With a 1 on the diagonal they pass through the triangular solve without changing
  // others.
  for (int c = 0; c < w; ++c)
    if (inverse[c] == 0) A[c * w + c] = 1;
  Eigen::Map<Rows> below(A + w * w, s.height, w);
  auto columns = below.transpose();
  Eigen::Map<const Rows>(A, w, w).triangularView<Eigen::Lower>().solveInPlace(columns);
  for (int c = 0; c < w; ++c) {
    if (inverse[c] != 0) continue;
    A[c * w + c] = 0;
    below.col(c).setZero();
  }
}

// Divides the rows below by the triangle, row by row.
template <int W>
inline void BlockCholesky::solve_below(const Super& s) {
  const int w = W > 0 ? W : s.width;
  const double* const A = panels_.data() + s.panel;
  const double* const inverse = inverse_.data() + s.first;
  double* row = panels_.data() + s.panel + w * w;
  if constexpr (W > 0) {
    double L[W][W];
    for (int c = 0; c < W; ++c) {
      for (int l = 0; l < c; ++l) L[c][l] = A[c * W + l];
      L[c][c] = inverse[c];
    }
    for (int r = 0; r < s.height; ++r, row += W)
      for (int c = 0; c < W; ++c) {
        double sum = 0;
        for (int l = 0; l < c; ++l) sum += row[l] * L[c][l];
        row[c] = (row[c] - sum) * L[c][c];
      }
  } else {
    for (int r = 0; r < s.height; ++r, row += w)
      for (int c = 0; c < w; ++c) row[c] = (row[c] - inner<W>(row, A + c * w, c)) * inverse[c];
  }
}

// Factors the panel of a supernode with compiled width W. W = 0 reads the width at run time.
template <int W>
void BlockCholesky::factor_panel(Super& s, double drop, Outcome& out) {
  double* const A = panels_.data() + s.panel;
  if (s.negative)
    for (std::size_t i = 0; i < z(s.width + s.height) * z(s.width); ++i) A[i] = -A[i];
  s.inverted = W > 0;
  factor_pivots<W>(s, drop, out);
  if (W == 0 && s.width >= wide && s.height >= wide)
    solve_below_dense(s);
  else
    solve_below<W>(s);
}

// Visits every block (i, k) that a supernode changes, with i and k among its rows below. @param only  the supernode of
// k. −1: any
template <class Add>
inline void BlockCholesky::each_target(const Super& s, int only, Add add) {
  for (int b = s.below_begin; b < s.below_end; ++b) {
    const Below& k = below_[z(b)];
    if (only >= 0 && k.super != only) continue;
    const Super& t = supers_[z(k.super)];
    double* const base = panels_.data() + t.panel + k.column;
    const Below* next = below_.data() + t.below_begin;
    for (int a = b; a < s.below_end; ++a) {
      const Below& i = below_[z(a)];
      int row = 0;
      if (i.super == k.super) {
        row = i.position - t.first;
      } else {
        while (next->position != i.position) ++next;
        row = t.width + next->offset;
      }
      add(base + static_cast<std::ptrdiff_t>(row) * t.width, t.width, i, k, a == b);
    }
  }
}

template <int W>
void BlockCholesky::update(const Super& s, int only) {
  const double* const P = panels_.data() + s.panel + s.width * s.width;
  const double sign = s.negative ? -1 : 1;
  each_target(s, only, [&](double* to, int stride, const Below& i, const Below& k, bool diagonal) {
    const double* const Pi = P + i.offset * W;
    const double* const Pk = P + k.offset * W;
    if (diagonal && i.rows == W && !s.negative) {  // The usual case: joints of one kind in a chain.
      for (int r = 0; r < W; ++r, to += stride)
        for (int q = 0; q <= r; ++q) to[q] -= dot<W>(Pi + r * W, Pi + q * W);
      return;
    }
    for (int r = 0; r < i.rows; ++r, to += stride) {
      const int columns = diagonal ? r + 1 : k.rows;
      for (int q = 0; q < columns; ++q) to[q] -= sign * dot<W>(Pi + r * W, Pk + q * W);
    }
  });
}

void BlockCholesky::update_wide(const Super& s, int only) {
  const int h = s.height;
  if (h == 0) return;
  const Eigen::Map<const Rows> P(panels_.data() + s.panel + s.width * s.width, h, s.width);
  if (work_.size() < z(h) * z(h)) work_.resize(z(h) * z(h));
  Eigen::Map<Rows> U(work_.data(), h, h);
  if (s.width >= wide && h >= wide) {
    U.triangularView<Eigen::Lower>().setZero();
    U.selfadjointView<Eigen::Lower>().rankUpdate(P, s.negative ? -1.0 : 1.0);
  } else {
    U.noalias() = (s.negative ? -1.0 : 1.0) * P.lazyProduct(P.transpose());
  }
  each_target(s, only, [&](double* to, int stride, const Below& i, const Below& k, bool diagonal) {
    for (int r = 0; r < i.rows; ++r, to += stride) {
      const double* const from = work_.data() + static_cast<std::ptrdiff_t>(i.offset + r) * h + k.offset;
      const int columns = diagonal ? r + 1 : k.rows;
      for (int q = 0; q < columns; ++q) to[q] -= from[q];
    }
  });
}

void BlockCholesky::read_diagonal(int tree) {
  for (int t = tree_start_[z(tree)]; t < tree_start_[z(tree) + 1]; ++t) read_diagonal_of_panel(t);
}

void BlockCholesky::read_diagonal_of_panel(int panel) {
  const Super& s = supers_[z(panel)];
  const double* A = panels_.data() + s.panel;
  for (int c = 0; c < s.width; ++c, A += s.width + 1) diagonal_[z(s.first + c)] = std::fabs(*A);
}

void BlockCholesky::shift(int tree, double by) {
  for (int t = tree_start_[z(tree)]; t < tree_start_[z(tree) + 1]; ++t) {
    const Super& s = supers_[z(t)];
    double* A = panels_.data() + s.panel;
    for (int c = 0; c < s.width && !s.negative; ++c, A += s.width + 1) *A += by;
  }
}

void BlockCholesky::shift(int tree, const double* by) {
  for (int t = tree_start_[z(tree)]; t < tree_start_[z(tree) + 1]; ++t) shift_panel(t, by);
}

void BlockCholesky::shift_panel(int panel, const double* by) {
  const Super& s = supers_[z(panel)];
  double* A = panels_.data() + s.panel;
  for (int c = 0; c < s.width && !s.negative; ++c, A += s.width + 1) *A += by[s.first + c];
}

void BlockCholesky::clear_panel(int panel) {
  const Super& s = supers_[z(panel)];
  std::fill_n(panels_.begin() + static_cast<std::ptrdiff_t>(s.panel), z(s.width + s.height) * z(s.width), 0.0);
}

// Where no pivot is small, stores D⁻¹ = ±L⁻ᵀL⁻¹ and W = P L⁻¹. A solve then needs one product per joint. Triangles
// would make each row wait for the one before.
template <int W>
void BlockCholesky::invert(const Super& s) {
  const double* const A = panels_.data() + s.panel;
  const double* const inverse = inverse_.data() + s.first;
  double X[W][W];  // L⁻¹.
  for (int c = 0; c < W; ++c) {
    X[c][c] = inverse[c];
    for (int r = c + 1; r < W; ++r) {
      double sum = 0;
      for (int l = c; l < r; ++l) sum += A[r * W + l] * X[l][c];
      X[r][c] = -sum * inverse[r];
    }
  }
  double* const D = inverses_.data() + s.inverse;
  for (int r = 0; r < W; ++r)
    for (int c = 0; c <= r; ++c) {
      double sum = 0;
      for (int l = r; l < W; ++l) sum += X[l][r] * X[l][c];
      D[r * W + c] = D[c * W + r] = s.negative ? -sum : sum;
    }
  const double* row = A + W * W;
  double* to = D + W * W;
  for (int r = 0; r < s.height; ++r, row += W, to += W)
    for (int c = 0; c < W; ++c) {
      double sum = 0;
      for (int l = c; l < W; ++l) sum += row[l] * X[l][c];
      to[c] = sum;
    }
}

// Computes x below −= W x, x ← D⁻¹ x. Where the supernode is not inverted: x ← ±L⁻¹ x, x below −= P L⁻¹ x.
template <int W>
void BlockCholesky::forward_super(const Super& s, double* x) const {
  double* const own = x + s.first;
  if constexpr (W > 0) {
    const double* D = inverses_.data() + s.inverse;
    const double* row = D + W * W;
    double y[W];
    for (int c = 0; c < W; ++c) y[c] = own[c];
    for (int b = s.below_begin; b < s.below_end; ++b) {
      double* const to = x + below_[z(b)].position;
      if (below_[z(b)].rows == W) {
        for (int r = 0; r < W; ++r, row += W) to[r] -= dot<W>(row, y);
        continue;
      }
      for (int r = 0; r < below_[z(b)].rows; ++r, row += W) to[r] -= dot<W>(row, y);
    }
    for (int c = 0; c < W; ++c, D += W) own[c] = dot<W>(D, y);
    return;
  }
  const int w = s.width;
  const double* row = panels_.data() + s.panel + w * w;
  const double* const inverse = inverse_.data() + s.first;
  const double* triangle = panels_.data() + s.panel;
  for (int c = 0; c < w; ++c, triangle += w) own[c] = (own[c] - inner<0>(triangle, own, c)) * inverse[c];
  for (int b = s.below_begin; b < s.below_end; ++b) {
    double* const to = x + below_[z(b)].position;
    for (int r = 0; r < below_[z(b)].rows; ++r, row += w) to[r] -= inner<0>(row, own, w);
  }
  for (int c = 0; s.negative && c < w; ++c) own[c] = -own[c];
}

template <int W>
void BlockCholesky::backward_super(const Super& s, double* x) const {
  double* const own = x + s.first;
  if constexpr (W > 0) {
    const double* row = inverses_.data() + s.inverse + W * W;
    double y[W];
    for (int l = 0; l < W; ++l) y[l] = own[l];
    for (int b = s.below_begin; b < s.below_end; ++b) {
      const double* const from = x + below_[z(b)].position;
      if (below_[z(b)].rows == W) {
        for (int r = 0; r < W; ++r, row += W)
          for (int l = 0; l < W; ++l) y[l] -= row[l] * from[r];
        continue;
      }
      for (int r = 0; r < below_[z(b)].rows; ++r, row += W)
        for (int l = 0; l < W; ++l) y[l] -= row[l] * from[r];
    }
    for (int l = 0; l < W; ++l) own[l] = y[l];
    return;
  }
  const int w = s.width;
  const double* row = panels_.data() + s.panel + w * w;
  for (int b = s.below_begin; b < s.below_end; ++b) {
    const double* const from = x + below_[z(b)].position;
    for (int r = 0; r < below_[z(b)].rows; ++r, row += w)
      for (int l = 0; l < w; ++l) own[l] -= row[l] * from[r];
  }
  backward_in(s, w, own);
}

// Computes own ← L⁻ᵀ own for the columns before `column`. The value of that column itself is not scaled.
void BlockCholesky::backward_in(const Super& s, int column, double* own) const {
  const double* const A = panels_.data() + s.panel;
  for (int c = std::min(column, s.width - 1); c >= 0; --c) {
    if (c < column) own[c] *= inverse_[z(s.first + c)];
    for (int l = 0; l < c; ++l) own[l] -= A[c * s.width + l] * own[c];
  }
}

template <class Visit>
void BlockCholesky::by_width(int width, Visit visit) {
  switch (width) {
    case 1:
      return visit(std::integral_constant<int, 1>());
    case 2:
      return visit(std::integral_constant<int, 2>());
    case 3:
      return visit(std::integral_constant<int, 3>());
    case 4:
      return visit(std::integral_constant<int, 4>());
    case 5:
      return visit(std::integral_constant<int, 5>());
    case 6:
      return visit(std::integral_constant<int, 6>());
    default:
      return visit(std::integral_constant<int, 0>());
  }
}

BlockCholesky::Outcome BlockCholesky::factor(int tree, double drop) {
  Outcome out;
  for (int t = tree_start_[z(tree)]; t < tree_start_[z(tree) + 1]; ++t) {
    Super& s = supers_[z(t)];
    by_width(s.width, [&](auto width) {
      factor_panel<width>(s, drop, out);
      if constexpr (width > 0) {
        update<width>(s, -1);
        if (s.inverted) invert<width>(s);
      } else {
        update_wide(s, -1);
      }
    });
  }
  return out;
}

int BlockCholesky::panel_at(std::size_t offset) const {
  const auto after = std::upper_bound(supers_.begin(), supers_.end(), offset,
                                      [](std::size_t at, const Super& s) { return at < s.panel; });
  return static_cast<int>(after - supers_.begin()) - 1;
}

double BlockCholesky::select(std::span<const int> panels) {
  double work = 0;
  for (const int t : selected_) is_selected_[z(t)] = 0;
  selected_.clear();
  for (const int panel : panels)
    for (int t = panel; !is_selected_[z(t)];) {
      is_selected_[z(t)] = 1;
      selected_.push_back(t);
      const Super& s = supers_[z(t)];
      work += s.work;
      if (s.below_begin == s.below_end) break;
      t = below_[z(s.below_begin)].super;
    }
  std::sort(selected_.begin(), selected_.end());
  return work / whole_work_;
}

// Each panel is changed by the same earlier ones as in factor(), and in the same order.
BlockCholesky::Outcome BlockCholesky::factor_selected(double drop) {
  Outcome out;
  for (const int t : selected_) {
    Super& s = supers_[z(t)];
    for (int i = s.source_begin; i < s.source_end; ++i) {
      const Super& source = supers_[z(sources_[z(i)])];
      by_width(source.width, [&](auto width) {
        if constexpr (width > 0)
          update<width>(source, t);
        else
          update_wide(source, t);
      });
    }
    by_width(s.width, [&](auto width) {
      factor_panel<width>(s, drop, out);
      if constexpr (width > 0) {
        if (s.inverted) invert<width>(s);
      }
    });
  }
  return out;
}

// The right-hand side of a unit impulse is zero except on the path from its rows to the root. Zero supernodes are
// skipped.
void BlockCholesky::solve(int tree, double* x) const {
  const int first = tree_start_[z(tree)], end = tree_start_[z(tree) + 1];
  for (int t = first; t < end; ++t) {
    const Super& s = supers_[z(t)];
    if (std::all_of(x + s.first, x + s.first + s.width, [](double a) { return a == 0; })) continue;
    by_width(s.inverted ? s.width : 0, [&](auto width) { forward_super<width>(s, x); });
  }
  backward(first, end, x);
}

void BlockCholesky::backward(int first, int end, double* x) const {
  for (int t = end - 1; t >= first; --t) {
    const Super& s = supers_[z(t)];
    by_width(s.inverted ? s.width : 0, [&](auto width) { backward_super<width>(s, x); });
  }
}

void BlockCholesky::null_vector(int tree, int dropped, double* x) const {
  std::fill(x + begin(tree), x + end(tree), 0.0);
  x[dropped] = 1;
  const int super = super_of_[z(node_at_[z(dropped)])];
  const Super& s = supers_[z(super)];
  backward_in(s, dropped - s.first, x + s.first);
  backward(tree_start_[z(tree)], super, x);
}

}  // namespace linchpin::detail
