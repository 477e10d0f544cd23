// Symbolic phase of the sparse solver (T7): all lists that depend only on the pattern of A, such as the ordering, the
// islands, and the block products that make G.
#include "problem/sparse_factorization.h"

#include "math/vector_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace linchpin::detail {
namespace {

constexpr int max_joint_degree = 12;  // Number of constraints on a body above which it stays an unknown.

template <class List>
int end_of(const List& list) {
  return static_cast<int>(list.size());
}

}  // namespace

void SparseFactorization::analyse(const ConstrainedProblem& problem) {
  n_ = problem.n();
  m_ = problem.m();
  pattern_.constraints = static_cast<int>(problem.constraints.size());
  pattern_.block_sizes = problem.block_sizes;
  pattern_.row_start = problem.row_start;
  pattern_.row_constraint = problem.row_constraint;
  roots_.assign(problem.mass.size(), 0.0);
  for (auto* x : {&length_, &inverse_length_}) x->assign(z(m_), 0.0);
  const std::vector<int> body_of = list_bodies();
  const std::vector<int> degree = list_nodes(problem, body_of);
  for (std::size_t b = 0; b < bodies_.size(); ++b) bodies_[b].hub = degree[b] > max_joint_degree;
  find_late_nodes();
  order();
  primal_known_ = false;
  pattern_.entry_runs.shrink_to_fit();
  pattern_.jacobian_blocks.shrink_to_fit();
  pattern_.nodes.shrink_to_fit();
  known_ = true;
}

// @return the index of the body of each column
std::vector<int> SparseFactorization::list_bodies() {
  bodies_.clear();
  std::vector<int> body_of(z(n_));
  Place mass = 0;
  int column = 0;
  for (const int size : pattern_.block_sizes) {
    std::fill_n(body_of.begin() + column, size, end_of(bodies_));
    bodies_.push_back({.column = column, .size = size, .mass = mass});
    mass += static_cast<Place>(size * size);
    column += size;
  }
  return body_of;
}

// Lists the constraints with their Jacobian blocks, and the runs of entries in these. @return the number of constraints
// on each body
std::vector<int> SparseFactorization::list_nodes(const ConstrainedProblem& problem, const std::vector<int>& body_of) {
  pattern_.nodes.clear();
  pattern_.jacobian_blocks.clear();
  pattern_.entry_runs.clear();
  std::vector<int> degree(bodies_.size(), 0), last_node(bodies_.size(), -1), last_block(bodies_.size(), -1);
  for (int r = 0; r < m_;) {
    Node node{.row = r, .block_begin = end_of(pattern_.jacobian_blocks)};
    const int index = end_of(pattern_.nodes);
    for (; r < m_ && pattern_.row_constraint[z(r)] == pattern_.row_constraint[z(node.row)]; ++r) {
      int before = -1;
      for (int i = pattern_.row_start[z(r)]; i < pattern_.row_start[z(r) + 1]; ++i) {
        const int entry = problem.entries[z(i)].column;
        const auto b = z(body_of[z(entry)]);
        if (before >= 0 && entry == before + 1 && body_of[z(before)] == body_of[z(entry)]) {
          ++pattern_.entry_runs.back().length;
        } else {
          if (last_node[b] != index) {
            last_node[b] = index;
            last_block[b] = end_of(pattern_.jacobian_blocks);
            ++degree[b];
            pattern_.jacobian_blocks.push_back({.body = static_cast<int>(b)});
          }
          pattern_.entry_runs.push_back({.length = 1, .column = entry, .block = last_block[b], .row = r - node.row});
        }
        before = entry;
      }
    }
    node.rows = r - node.row;
    node.block_end = end_of(pattern_.jacobian_blocks);
    pattern_.nodes.push_back(node);
  }
  return degree;
}

// Marks the constraints that must wait for their hub, because their other bodies have too few columns.
void SparseFactorization::find_late_nodes() {
  pattern_.late.assign(pattern_.nodes.size(), 0);
  for (std::size_t k = 0; k < pattern_.nodes.size(); ++k) {
    int free = 0;
    bool hub = false;
    for (int t = pattern_.nodes[k].block_begin; t < pattern_.nodes[k].block_end; ++t) {
      const Body& body = bodies_[z(pattern_.jacobian_blocks[z(t)].body)];
      if (body.hub)
        hub = true;
      else
        free += body.size;
    }
    pattern_.late[k] = hub && free < pattern_.nodes[k].rows;
  }
}

// Computes all that follows from nodes, Jacobian blocks and late nodes.
void SparseFactorization::order() {
  std::sort(pattern_.nodes.begin(), pattern_.nodes.end(), [](const Node& a, const Node& b) { return a.row < b.row; });
  const BodyBlocks on = list_blocks_by_body();
  std::vector<int> hub_node(bodies_.size(), -1);
  dual_.analyse(make_pattern(on, hub_node), order_);
  const Place values = list_islands();
  list_products(on, hub_node);
  move_jacobians(values);
  list_column_blocks(on);
  pattern_.widest = 0;
  for (const Body& body : bodies_) pattern_.widest = std::max(pattern_.widest, body.size);
  select_scratch();
  if (known_) whiten();
  std::sort(pattern_.nodes.begin(), pattern_.nodes.end(),
            [](const Node& a, const Node& b) { return a.position < b.position; });
  primal_known_ = parts_known_ = false;
  pattern_.block_products.shrink_to_fit();
  pattern_.column_blocks.shrink_to_fit();
}

SparseFactorization::BodyBlocks SparseFactorization::list_blocks_by_body() const {
  BodyBlocks on(bodies_.size());
  for (int k = 0; k < end_of(pattern_.nodes); ++k)
    for (int t = pattern_.nodes[z(k)].block_begin; t < pattern_.nodes[z(k)].block_end; ++t)
      on[z(pattern_.jacobian_blocks[z(t)].body)].emplace_back(k, t);
  return on;
}

// Makes the pattern of [G B_H; B_Hᵀ −I]. @param hub_node  [bodies] in: −1. Out: node of each hub
BlockCholesky::Pattern SparseFactorization::make_pattern(const BodyBlocks& on, std::vector<int>& hub_node) const {
  BlockCholesky::Pattern pattern;
  pattern.clear();
  for (const Node& node : pattern_.nodes) pattern.sizes.push_back(node.rows);
  pattern.late = pattern_.late;
  const auto close = [&] { pattern.clique_start.push_back(end_of(pattern.clique)); };
  for (std::size_t b = 0; b < bodies_.size(); ++b) {
    if (bodies_[b].hub) {
      hub_node[b] = pattern.nodes();
      pattern.sizes.push_back(bodies_[b].size);
      pattern.late.push_back(0);
    }
    for (const auto& [k, t] : on[b]) {
      pattern.clique.push_back(k);
      if (!bodies_[b].hub) continue;
      pattern.clique.push_back(hub_node[b]);
      close();
    }
    if (!bodies_[b].hub && !on[b].empty()) close();
  }
  pattern.negative.assign(pattern_.nodes.size(), 0);
  pattern.negative.resize(z(pattern.nodes()), 1);
  return pattern;
}

// Lists the nodes and bodies of each island in the order of elimination, and places the Jacobian blocks in that order.
// @return the number of values of A
SparseFactorization::Place SparseFactorization::list_islands() {
  const int count = end_of(pattern_.nodes);
  islands_.assign(z(dual_.trees()), {});
  std::vector<int> sequence(z(count));
  std::iota(sequence.begin(), sequence.end(), 0);
  std::sort(sequence.begin(), sequence.end(), [&](int a, int b) { return dual_.position(a) < dual_.position(b); });
  std::vector<int> island_of_body(bodies_.size(), -1);
  pattern_.bodies_by_island.clear();
  Place value = 0;
  for (int s = 0; s < count;) {
    const int tree = dual_.tree_of(sequence[z(s)]);
    Island& island = islands_[z(tree)];
    island.node_begin = s;
    island.body_begin = end_of(pattern_.bodies_by_island);
    for (; s < count && dual_.tree_of(sequence[z(s)]) == tree; ++s) {
      Node& node = pattern_.nodes[z(sequence[z(s)])];
      node.position = dual_.position(sequence[z(s)]);
      island.row_count += node.rows;
      for (int t = node.block_begin; t < node.block_end; ++t) {
        JacobianBlock& block = pattern_.jacobian_blocks[z(t)];
        block.value = value;
        value += static_cast<Place>(node.rows * bodies_[z(block.body)].size);
        if (island_of_body[z(block.body)] >= 0) continue;
        island_of_body[z(block.body)] = tree;
        pattern_.bodies_by_island.push_back(block.body);
      }
    }
    island.node_end = s;
    island.body_end = end_of(pattern_.bodies_by_island);
    island.rank = 0;
  }
  return value;
}

// Lists the products and blocks from which the matrix of each island is filled.
void SparseFactorization::list_products(const BodyBlocks& on, const std::vector<int>& hub_node) {
  pattern_.block_products.clear();
  pattern_.hub_blocks.clear();
  pattern_.hubs.clear();
  for (Island& island : islands_) {
    island.product_begin = end_of(pattern_.block_products);
    island.hub_block_begin = end_of(pattern_.hub_blocks);
    island.hub_begin = end_of(pattern_.hubs);
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const int b = pattern_.bodies_by_island[z(j)];
      if (bodies_[z(b)].hub)
        add_hub(bodies_[z(b)], hub_node[z(b)], on[z(b)]);
      else
        add_products(bodies_[z(b)], on[z(b)]);
    }
    island.product_end = end_of(pattern_.block_products);
    island.hub_block_end = end_of(pattern_.hub_blocks);
    island.hub_end = end_of(pattern_.hubs);
  }
}

void SparseFactorization::add_hub(const Body& body, int hub_node, const std::vector<std::pair<int, int>>& blocks) {
  for (const auto& [k, t] : blocks) {
    const bool transposed = dual_.position(hub_node) > pattern_.nodes[z(k)].position;
    const auto slot = transposed ? dual_.slot(hub_node, k) : dual_.slot(k, hub_node);
    pattern_.hub_blocks.push_back({.from = pattern_.jacobian_blocks[z(t)].value,
                                   .to = static_cast<Place>(slot.offset),
                                   .rows = pattern_.nodes[z(k)].rows,
                                   .size = body.size,
                                   .stride = slot.stride,
                                   .transposed = transposed});
  }
  const auto slot = dual_.slot(hub_node, hub_node);
  pattern_.hubs.push_back({.to = static_cast<Place>(slot.offset),
                           .position = dual_.position(hub_node),
                           .size = body.size,
                           .stride = slot.stride});
}

void SparseFactorization::add_products(const Body& body, const std::vector<std::pair<int, int>>& blocks) {
  for (std::size_t p = 0; p < blocks.size(); ++p)
    for (std::size_t q = 0; q <= p; ++q) {
      auto a = blocks[p], c = blocks[q];
      if (dual_.position(a.first) < dual_.position(c.first)) std::swap(a, c);
      const auto slot = dual_.slot(a.first, c.first);
      pattern_.block_products.push_back({.a = pattern_.jacobian_blocks[z(a.second)].value,
                                         .b = pattern_.jacobian_blocks[z(c.second)].value,
                                         .to = static_cast<Place>(slot.offset),
                                         .rows_a = pattern_.nodes[z(a.first)].rows,
                                         .rows_b = pattern_.nodes[z(c.first)].rows,
                                         .size = body.size,
                                         .stride = slot.stride});
    }
}

// Moves the values of A to the places of a new order, and the runs of entries with them.
void SparseFactorization::move_jacobians(Place values) {
  const std::vector<double> old = std::move(jacobians_);
  jacobians_.assign(values, 0.0);
  for (EntryRun& run : pattern_.entry_runs) {
    const JacobianBlock& block = pattern_.jacobian_blocks[z(run.block)];
    const Body& body = bodies_[z(block.body)];
    const Place now = block.value + static_cast<Place>(run.row * body.size + (run.column - body.column));
    if (known_)  // For a new order the numbers have already been read.
      std::copy_n(old.begin() + run.value, run.length, jacobians_.begin() + now);
    run.value = now;
  }
}

void SparseFactorization::list_column_blocks(const BodyBlocks& on) {
  pattern_.column_blocks.clear();
  for (std::size_t b = 0; b < bodies_.size(); ++b) {
    bodies_[b].column_block_begin = end_of(pattern_.column_blocks);
    for (const auto& [k, t] : on[b])
      pattern_.column_blocks.push_back({.value = pattern_.jacobian_blocks[z(t)].value,
                                        .rows = pattern_.nodes[z(k)].rows,
                                        .position = pattern_.nodes[z(k)].position});
    bodies_[b].column_block_end = end_of(pattern_.column_blocks);
  }
}

void SparseFactorization::list_parts() {
  const std::size_t panels = z(dual_.panels()), nodes = pattern_.nodes.size();
  // Indices of Jacobian blocks by the place of their values.
  std::vector<std::pair<Place, int>> block_at;
  for (int t = 0; t < end_of(pattern_.jacobian_blocks); ++t)
    block_at.emplace_back(pattern_.jacobian_blocks[z(t)].value, t);
  std::sort(block_at.begin(), block_at.end());
  const auto block_of = [&](Place value) {
    return std::lower_bound(block_at.begin(), block_at.end(), std::pair<Place, int>(value, 0))->second;
  };
  // Groups indices by a key, in their order. @param key_of  of an index  @param add  stores an index
  const auto group = [&](int count, std::vector<Parts::Range>& ranges, std::size_t keys, const auto& key_of,
                         const auto& add) {
    std::vector<int> order(z(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
    ranges.assign(keys, {});
    for (int i = 0; i < count; ++i) {
      Parts::Range& range = ranges[z(key_of(order[z(i)]))];
      if (range.end == 0) range.begin = i;
      range.end = i + 1;
      add(order[z(i)]);
    }
  };
  parts_ = {};
  group(
      end_of(pattern_.block_products), parts_.of_products, panels,
      [&](int i) { return dual_.panel_at(pattern_.block_products[z(i)].to); },
      [&](int i) {
        const BlockProduct& p = pattern_.block_products[z(i)];
        parts_.products.push_back({i, block_of(p.a), block_of(p.b)});
      });
  group(
      end_of(pattern_.hub_blocks), parts_.of_hub_blocks, panels,
      [&](int i) { return dual_.panel_at(pattern_.hub_blocks[z(i)].to); },
      [&](int i) {
        parts_.hub_blocks.push_back({i, block_of(pattern_.hub_blocks[z(i)].from), 0});
      });
  group(
      end_of(pattern_.hubs), parts_.of_hubs, panels, [&](int i) { return dual_.panel_at(pattern_.hubs[z(i)].to); },
      [&](int i) { parts_.hubs.push_back(i); });
  parts_.nodes.assign(panels, {});
  for (int k = 0; k < static_cast<int>(nodes); ++k) {  // Nodes and panels have the same order.
    Parts::Range& range = parts_.nodes[z(dual_.panel_of_row(pattern_.nodes[z(k)].position))];
    if (range.end == 0) range.begin = k;
    range.end = k + 1;
  }

  std::vector<int> node_of_block(pattern_.jacobian_blocks.size(), 0);
  parts_.node_of_constraint.assign(z(pattern_.constraints), -1);
  for (std::size_t k = 0; k < nodes; ++k) {
    const Node& node = pattern_.nodes[k];
    parts_.node_of_constraint[z(pattern_.row_constraint[z(node.row)])] = static_cast<int>(k);
    for (int t = node.block_begin; t < node.block_end; ++t) node_of_block[z(t)] = static_cast<int>(k);
  }
  parts_.runs.assign(nodes, {});
  for (int i = 0; i < end_of(pattern_.entry_runs); ++i) {  // Runs of one node are consecutive.
    Parts::Range& range = parts_.runs[z(node_of_block[z(pattern_.entry_runs[z(i)].block)])];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  std::vector<std::pair<int, int>> panels_of_nodes;
  const auto add_panels = [&](const std::vector<Parts::Item>& items, const std::vector<Parts::Range>& ranges,
                              bool both) {
    for (std::size_t panel = 0; panel < panels; ++panel)
      for (int i = ranges[panel].begin; i < ranges[panel].end; ++i) {
        panels_of_nodes.emplace_back(node_of_block[z(items[z(i)].block_a)], static_cast<int>(panel));
        if (both) panels_of_nodes.emplace_back(node_of_block[z(items[z(i)].block_b)], static_cast<int>(panel));
      }
  };
  add_panels(parts_.products, parts_.of_products, true);
  add_panels(parts_.hub_blocks, parts_.of_hub_blocks, false);
  for (std::size_t k = 0; k < nodes; ++k)
    panels_of_nodes.emplace_back(static_cast<int>(k), dual_.panel_of_row(pattern_.nodes[k].position));
  std::sort(panels_of_nodes.begin(), panels_of_nodes.end());
  panels_of_nodes.erase(std::unique(panels_of_nodes.begin(), panels_of_nodes.end()), panels_of_nodes.end());
  group(
      end_of(panels_of_nodes), parts_.of_panels, nodes, [&](int i) { return panels_of_nodes[z(i)].first; },
      [&](int i) { parts_.panels.push_back(panels_of_nodes[z(i)].second); });
  parts_.touched.reserve(parts_.panels.size());
  parts_.whitened_at.assign(pattern_.jacobian_blocks.size(), 0);
  parts_known_ = true;
}

void SparseFactorization::prepare_primal() {
  BlockCholesky::Pattern pattern;
  pattern.clear();
  for (const Body& body : bodies_) pattern.sizes.push_back(body.size);
  for (const Node& node : pattern_.nodes) {
    for (int t = node.block_begin; t < node.block_end; ++t)
      pattern.clique.push_back(pattern_.jacobian_blocks[z(t)].body);
    pattern.clique_start.push_back(static_cast<int>(pattern.clique.size()));
  }
  pattern.negative.assign(bodies_.size(), 0);
  pattern.late.assign(bodies_.size(), 0);
  primal_.analyse(pattern);
  primal_known_ = true;
}

}  // namespace linchpin::detail
