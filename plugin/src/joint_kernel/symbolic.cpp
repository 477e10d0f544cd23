#include "joint_kernel/symbolic.h"

#include "joint_kernel/tuning.h"
#include "math/block_cholesky.h"
#include "math/vector_ops.h"
#include "model/force_rows.h"
#include "model/stock_joints.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace linchpin::detail {

namespace {

template <class List>
int size_of(const List& list) {
  return static_cast<int>(list.size());
}

/// Makes a SymbolicFactor. Each of its functions is called once, in the order of this list.
class SymbolicFactorBuilder {
 public:
  SymbolicFactorBuilder(const StockJoints& stock, const IslandLayout& layout, SymbolicFactor& factor)
      : stock_(stock), block_(layout), factor_(factor), joints_(stock.count()) {}

  bool read_joints(std::vector<BodyId>& ids);
  bool select_high_degree_bodies();
  void order_joints();
  void make_nodes();
  void list_rows(int joint);
  bool make_ancestors();
  void list_couplings();
  void list_descendants();
  void list_body_ends();
  void list_updates();
  void list_block_pairs();

 private:
  using Node = SymbolicFactor::Node;

  BlockCholesky::Pattern pattern();
  void choose_ordering(const BlockCholesky::Pattern& pattern);
  bool is_on_high_degree_or_fixed(int joint) const;
  int coupling_of(int node, int index) const;
  int place_of(int i, int j) const;

  const StockJoints& stock_;
  const IslandLayout& block_;
  SymbolicFactor& factor_;
  const int joints_;
  std::vector<int> widths_;                             // of joints, then of high-degree bodies
  std::vector<std::array<int, 2>> bodies_of_;           // by joint
  std::vector<std::vector<std::pair<int, int>>> ends_;  // by body that moves: joints and their sides
  std::vector<int> high_degree_index_;                  // by body, −1: it is none
  std::vector<int> order_, node_of_;                    // joints by node, nodes by joint
  std::vector<std::vector<int>> structure_;             // by joint: what its elimination fills
};

/// @return false where a joint is not of the kind
bool SymbolicFactorBuilder::read_joints(std::vector<BodyId>& ids) {
  factor_.bodies = size_of(ids);
  ends_.resize(z(factor_.bodies));
  factor_.is_composite = true;
  const auto body_of = [&](int slot, BodyId id) {
    if (slot >= 0) return slot;
    const auto known = std::find(ids.begin() + factor_.bodies, ids.end(), id);
    const int body = static_cast<int>(known - ids.begin());
    if (known == ids.end()) ids.push_back(id);
    return body;
  };
  for (int i = 0; i < joints_; ++i) {
    const StockJoints::Joint& joint = stock_.joints[z(i)];
    if (joint.driven_a || joint.driven_b || joint.slot_a == joint.slot_b) return false;
    bodies_of_.push_back({body_of(joint.slot_a, joint.a), body_of(joint.slot_b, joint.b)});
    for (int side = 0; side < 2; ++side)
      if (const int body = bodies_of_.back()[z(side)]; body < factor_.bodies) ends_[z(body)].emplace_back(i, side);
    const int width = first_row_of<NoPrimitive>(counts_of(stock_.ranges(i)));
    if (width < 1 || width > SymbolicFactor::max_width) return false;
    widths_.push_back(width);
    factor_.is_composite = factor_.is_composite && is_weld(stock_.ranges(i)) && !joint.compliance;
  }
  factor_.all_bodies = size_of(ids);
  return true;
}

/// Finds bodies of many joints. In the factor each joint of such a body would be coupled with all others of it. The
/// motion of the body therefore becomes an unknown of its own (T7).
/// @return false where there are too many such bodies
bool SymbolicFactorBuilder::select_high_degree_bodies() {
  high_degree_index_.assign(z(factor_.all_bodies), -1);
  for (int body = 0; body < factor_.bodies; ++body) {
    if (factor_.is_composite || ends_[z(body)].size() <= tuning::max_eliminated_joints) continue;
    high_degree_index_[z(body)] = size_of(factor_.high_degree_bodies);
    factor_.high_degree_bodies.push_back(body);
    widths_.push_back(SymbolicFactor::body_columns);
  }
  return factor_.high_degree_bodies.size() <= SymbolicFactor::max_high_degree;
}

bool SymbolicFactorBuilder::is_on_high_degree_or_fixed(int joint) const {
  return std::all_of(bodies_of_[z(joint)].begin(), bodies_of_[z(joint)].end(),
                     [&](int body) { return body >= factor_.bodies || high_degree_index_[z(body)] >= 0; });
}

/// Makes the graph of the joints. All joints on one body are neighbours of each other. A high-degree body is a
/// neighbour of each of its joints.
BlockCholesky::Pattern SymbolicFactorBuilder::pattern() {
  BlockCholesky::Pattern pattern;
  pattern.sizes = widths_;
  pattern.negative.assign(z(joints_), 0);
  pattern.negative.resize(widths_.size(), 1);
  pattern.late.assign(widths_.size(), 0);
  const auto begin_clique = [&] { pattern.clique_start.push_back(size_of(pattern.clique)); };
  for (int body = 0; body < factor_.bodies; ++body) {
    const int index = high_degree_index_[z(body)];
    if (index < 0) begin_clique();
    for (const auto& [joint, side] : ends_[z(body)]) {
      if (index >= 0) begin_clique();
      pattern.clique.push_back(joint);
      if (index >= 0) pattern.clique.push_back(joints_ + index);
    }
  }
  begin_clique();
  return pattern;
}

/// Finds an order of elimination by minimum degree. Where that order fills much, another order is taken if it needs
/// less work.
void SymbolicFactorBuilder::choose_ordering(const BlockCholesky::Pattern& pattern) {
  BlockCholesky::eliminate(pattern, order_, structure_);
  const auto work = [&](const std::vector<std::vector<int>>& structure, bool squared) {
    double sum = 0;
    for (int i = 0; i < joints_; ++i) {
      double height = widths_[z(i)];
      for (const int j : structure[z(i)]) height += widths_[z(j)];
      sum += widths_[z(i)] * (squared ? height * height : height);
    }
    return sum;
  };
  if (work(structure_, false) <= tuning::good_fill_in * std::accumulate(widths_.begin(), widths_.end(), 0.0)) return;
  std::vector<int> other;
  std::vector<std::vector<int>> other_structure(widths_.size());
  BlockCholesky::eliminate(pattern, other, other_structure, BlockCholesky::Order::fill);
  if (work(other_structure, true) < work(structure_, true)) order_.swap(other), structure_.swap(other_structure);
}

void SymbolicFactorBuilder::order_joints() {
  structure_.resize(widths_.size());
  if (factor_.is_composite) {
    order_.resize(z(joints_));
    std::iota(order_.begin(), order_.end(), 0);
    factor_.eliminated = joints_;
  } else {
    choose_ordering(pattern());
    std::erase_if(order_, [&](int i) { return i >= joints_; });
    const auto last =
        std::stable_partition(order_.begin(), order_.end(), [&](int i) { return !is_on_high_degree_or_fixed(i); });
    factor_.eliminated = static_cast<int>(last - order_.begin());
  }
  node_of_.resize(z(joints_));
  for (int k = 0; k < joints_; ++k) node_of_[z(order_[z(k)])] = k;
}

void SymbolicFactorBuilder::make_nodes() {
  for (const int i : order_) {
    Node node;
    node.first = factor_.rows;
    node.width = widths_[z(i)];
    node.a = bodies_of_[z(i)][0], node.b = bodies_of_[z(i)][1];
    const PrimitiveRanges of = stock_.ranges(i);
    for (std::size_t kind = 0; kind < primitive_count; ++kind) {
      std::vector<int>& list = factor_.primitives[kind];
      node.primitives.begin[kind] = size_of(list);
      for (int k = of.begin[kind]; k < of.end[kind]; ++k) list.push_back(k);
      node.primitives.end[kind] = size_of(list);
    }
    list_rows(i);
    factor_.rows += node.width;
    factor_.nodes.push_back(node);
    factor_.joint_of.push_back(i);
  }
}

/// Lists the places of the multipliers of the rows of a joint.
void SymbolicFactorBuilder::list_rows(int joint) {
  const StockJoints::Joint& of = stock_.joints[z(joint)];
  for (int r = 0, exact = 0; r < widths_[z(joint)]; ++r) {
    const bool is_exact =
        !of.compliance || std::count(of.compliance->exact().begin(), of.compliance->exact().end(), r) > 0;
    factor_.row_of.push_back(is_exact ? of.row + exact++ : block_.m() + size_of(factor_.compliant));
    if (!is_exact) factor_.compliant.push_back({.row = factor_.rows + r, .joint = joint, .joint_row = r});
  }
}

/// Lists the blocks that the elimination of each joint fills, and the places of the numbers of the factor.
/// @return false where they are too many
bool SymbolicFactorBuilder::make_ancestors() {
  auto compliant = factor_.compliant.begin();
  for (int k = 0; k < joints_; ++k) {
    Node& node = factor_.nodes[z(k)];
    std::vector<int>& filled = structure_[z(order_[z(k)])];
    std::sort(filled.begin(), filled.end());
    node.couplings_begin = size_of(factor_.couplings);
    for (; !filled.empty() && filled.back() >= joints_; filled.pop_back()) {
      factor_.couplings.push_back({filled.back() - joints_, factor_.coupling_values});
      factor_.coupling_values += node.width * SymbolicFactor::body_stride;
    }
    node.couplings_end = size_of(factor_.couplings);
    for (int& i : filled) i = node_of_[z(i)];
    std::sort(filled.begin(), filled.end());
    node.ancestors_begin = size_of(factor_.ancestors);
    node.three_rows_only = node.width == 3;
    for (const int i : filled) {
      const Node& to = factor_.nodes[z(i)];
      factor_.ancestors.push_back({i, to.first, to.width, node.height});
      node.height += to.width;
      node.three_rows_only = node.three_rows_only && to.width == 3;
    }
    node.ancestors_end = size_of(factor_.ancestors);
    node.diagonal = factor_.values;
    for (; compliant != factor_.compliant.end() && compliant->row < node.first + node.width; ++compliant)
      compliant->diagonal = node.diagonal + compliant->joint_row * (node.width + 1);
    node.panel = factor_.values + node.width * node.width;
    factor_.values = node.panel + node.height * node.width;
    factor_.widest_panel = std::max(factor_.widest_panel, node.height * node.width);
    if (factor_.values > tuning::max_fill_in * (node.first + node.width) + tuning::fill_in_allowance) return false;
  }
  return true;
}

int SymbolicFactorBuilder::coupling_of(int node, int index) const {
  int i = factor_.nodes[z(node)].couplings_begin;
  while (factor_.couplings[z(i)].index != index) ++i;
  return factor_.couplings[z(i)].values;
}

void SymbolicFactorBuilder::list_couplings() {
  for (Node& node : factor_.nodes) {
    node.coupling_updates = size_of(factor_.coupling_updates);
    for (int i = node.couplings_begin; i < node.couplings_end; ++i)
      for (int j = node.ancestors_begin; j < node.ancestors_end; ++j)
        factor_.coupling_updates.push_back(coupling_of(factor_.ancestors[z(j)].node, factor_.couplings[z(i)].index));
  }
  for (int body = 0; body < factor_.bodies; ++body)
    for (const auto& [joint, side] : ends_[z(body)])
      if (const int index = high_degree_index_[z(body)]; index >= 0)
        factor_.high_degree_ends.push_back({node_of_[z(joint)], side, body, coupling_of(node_of_[z(joint)], index)});
}

void SymbolicFactorBuilder::list_descendants() {
  std::vector<std::vector<int>> descendants(z(joints_));
  for (int k = 0; k < joints_; ++k) {
    const Node& node = factor_.nodes[z(k)];
    for (int i = node.ancestors_begin; i < node.ancestors_end; ++i)
      descendants[z(factor_.ancestors[z(i)].node)].push_back(k);
  }
  factor_.descendants_begin.push_back(0);
  for (const auto& of : descendants) {
    factor_.descendants.insert(factor_.descendants.end(), of.begin(), of.end());
    factor_.descendants_begin.push_back(size_of(factor_.descendants));
  }
}

void SymbolicFactorBuilder::list_body_ends() {
  for (auto own : ends_) {
    std::sort(own.begin(), own.end(), [&](auto x, auto y) { return node_of_[z(x.first)] < node_of_[z(y.first)]; });
    PrimitiveIndices begin{};
    for (std::size_t kind = 0; kind < primitive_count; ++kind) {
      begin[kind] = size_of(factor_.body_ends);
      for (const auto& [joint, side] : own) {
        const PrimitiveRanges& of = factor_.nodes[z(node_of_[z(joint)])].primitives;
        for (int k = of.begin[kind]; k < of.end[kind]; ++k) factor_.body_ends.push_back(2 * k + side);
      }
    }
    factor_.ends_of.push_back(begin);
  }
  factor_.ends_of.emplace_back().fill(size_of(factor_.body_ends));
}

/// Returns the place of block (i, j) of the factor. Node i is not eliminated before node j.
int SymbolicFactorBuilder::place_of(int i, int j) const {
  const Node& node = factor_.nodes[z(j)];
  if (i == j) return node.diagonal;
  const auto first = factor_.ancestors.begin();
  const auto found =
      std::lower_bound(first + node.ancestors_begin, first + node.ancestors_end, i,
                       [](const SymbolicFactor::Ancestor& ancestor, int of) { return ancestor.node < of; });
  return node.panel + found->offset * node.width;
}

void SymbolicFactorBuilder::list_updates() {
  for (Node& node : factor_.nodes) {
    node.updates = size_of(factor_.updates);
    for (int i = node.ancestors_begin; i < node.ancestors_end; ++i)
      for (int j = node.ancestors_begin; j <= i; ++j)
        factor_.updates.push_back(place_of(factor_.ancestors[z(i)].node, factor_.ancestors[z(j)].node));
  }
}

/// Lists the products whose sum is G. Products of the same place follow each other.
void SymbolicFactorBuilder::list_block_pairs() {
  for (int body = 0; body < factor_.bodies; ++body) {
    if (high_degree_index_[z(body)] >= 0) continue;
    for (const auto& [x, side_x] : ends_[z(body)])
      for (const auto& [y, side_y] : ends_[z(body)]) {
        const int i = node_of_[z(x)], j = node_of_[z(y)];
        if (i >= j) factor_.block_pairs.push_back({i, j, side_x, side_y, body, place_of(i, j)});
      }
  }
  for (SymbolicFactor::BlockPair& pair : factor_.block_pairs) {
    const Node &i = factor_.nodes[z(pair.i)], &j = factor_.nodes[z(pair.j)];
    if (!is_ball(i.primitives) || !is_ball(j.primitives)) continue;
    pair.point_i = i.primitives.begin[index_of<PointPrimitive>()];
    pair.point_j = j.primitives.begin[index_of<PointPrimitive>()];
  }
  std::stable_sort(factor_.block_pairs.begin(), factor_.block_pairs.end(),
                   [](const auto& x, const auto& y) { return x.target < y.target; });
}

}  // namespace

bool SymbolicFactor::lay_out(const StockJoints& stock, const IslandLayout& layout, std::vector<BodyId>& ids) {
  *this = {};
  SymbolicFactorBuilder build(stock, layout, *this);
  if (!build.read_joints(ids) || !build.select_high_degree_bodies()) return false;
  build.order_joints();
  build.make_nodes();
  if (!build.make_ancestors()) return false;
  build.list_couplings();
  build.list_descendants();
  build.list_body_ends();
  if (is_composite) return true;
  build.list_updates();
  build.list_block_pairs();
  return true;
}

}  // namespace linchpin::detail
