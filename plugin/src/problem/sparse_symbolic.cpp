// Symbolic phase of the sparse solver (T7): all lists that depend only on the pattern of A, such as the ordering, the
// islands, and the block products that make G.
#include "problem/sparse_factorization.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace linchpin::detail {
namespace {

constexpr int max_joint_degree = 12;  // Number of constraints on a body above which it stays an unknown.

std::size_t at(int i) { return static_cast<std::size_t>(i); }

template <class List>
int end_of(const List& list) {
  return static_cast<int>(list.size());
}

}  // namespace

void SparseFactorization::analyse(const Instant& instant) {
  n_ = instant.n();
  m_ = instant.m();
  constraints_ = static_cast<int>(instant.constraints.size());
  block_sizes_ = instant.block_sizes;
  row_start_ = instant.row_start;
  row_constraint_ = instant.row_constraint;
  roots_.assign(instant.mass.size(), 0.0);
  for (auto* x : {&length_, &inverse_length_}) x->assign(at(m_), 0.0);
  const std::vector<int> body_of = list_bodies();
  const std::vector<int> degree = list_nodes(instant, body_of);
  for (std::size_t b = 0; b < bodies_.size(); ++b) bodies_[b].hub = degree[b] > max_joint_degree;
  find_late_nodes();
  order();
  primal_known_ = false;
  entry_runs_.shrink_to_fit();
  jacobian_blocks_.shrink_to_fit();
  nodes_.shrink_to_fit();
  known_ = true;
}

// @return the index of the body of each column
std::vector<int> SparseFactorization::list_bodies() {
  bodies_.clear();
  std::vector<int> body_of(at(n_));
  Place mass = 0;
  int column = 0;
  for (const int size : block_sizes_) {
    std::fill_n(body_of.begin() + column, size, end_of(bodies_));
    bodies_.push_back({.column = column, .size = size, .mass = mass});
    mass += static_cast<Place>(size * size);
    column += size;
  }
  return body_of;
}

// Lists the constraints with their Jacobian blocks, and the runs of entries in these. @return the number of constraints
// on each body
std::vector<int> SparseFactorization::list_nodes(const Instant& instant, const std::vector<int>& body_of) {
  nodes_.clear();
  jacobian_blocks_.clear();
  entry_runs_.clear();
  std::vector<int> degree(bodies_.size(), 0), last_node(bodies_.size(), -1), last_block(bodies_.size(), -1);
  for (int r = 0; r < m_;) {
    Node node{.row = r, .block_begin = end_of(jacobian_blocks_)};
    const int index = end_of(nodes_);
    for (; r < m_ && row_constraint_[at(r)] == row_constraint_[at(node.row)]; ++r) {
      int before = -1;
      for (int i = row_start_[at(r)]; i < row_start_[at(r) + 1]; ++i) {
        const int entry = instant.entries[at(i)].column;
        const auto b = at(body_of[at(entry)]);
        if (before >= 0 && entry == before + 1 && body_of[at(before)] == body_of[at(entry)]) {
          ++entry_runs_.back().length;
        } else {
          if (last_node[b] != index) {
            last_node[b] = index;
            last_block[b] = end_of(jacobian_blocks_);
            ++degree[b];
            jacobian_blocks_.push_back({.body = static_cast<int>(b)});
          }
          entry_runs_.push_back({.length = 1, .column = entry, .block = last_block[b], .row = r - node.row});
        }
        before = entry;
      }
    }
    node.rows = r - node.row;
    node.block_end = end_of(jacobian_blocks_);
    nodes_.push_back(node);
  }
  return degree;
}

// Marks the constraints that must wait for their hub, because their other bodies have too few columns.
void SparseFactorization::find_late_nodes() {
  late_.assign(nodes_.size(), 0);
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    int free = 0;
    bool hub = false;
    for (int t = nodes_[k].block_begin; t < nodes_[k].block_end; ++t) {
      const Body& body = bodies_[at(jacobian_blocks_[at(t)].body)];
      if (body.hub)
        hub = true;
      else
        free += body.size;
    }
    late_[k] = hub && free < nodes_[k].rows;
  }
}

// Computes all that follows from nodes, Jacobian blocks and late nodes.
void SparseFactorization::order() {
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.row < b.row; });
  const BodyBlocks on = list_blocks_by_body();
  std::vector<int> hub_node(bodies_.size(), -1);
  dual_.analyse(make_pattern(on, hub_node));
  const Place values = list_islands();
  list_products(on, hub_node);
  move_jacobians(values);
  list_column_blocks(on);
  widest_ = 0;
  for (const Body& body : bodies_) widest_ = std::max(widest_, body.size);
  select_scratch();
  if (known_) whiten();
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.position < b.position; });
  primal_known_ = false;
  block_products_.shrink_to_fit();
  column_blocks_.shrink_to_fit();
}

SparseFactorization::BodyBlocks SparseFactorization::list_blocks_by_body() const {
  BodyBlocks on(bodies_.size());
  for (int k = 0; k < end_of(nodes_); ++k)
    for (int t = nodes_[at(k)].block_begin; t < nodes_[at(k)].block_end; ++t)
      on[at(jacobian_blocks_[at(t)].body)].emplace_back(k, t);
  return on;
}

// Makes the pattern of [G B_H; B_Hᵀ −I]. @param hub_node  [bodies] in: −1. Out: node of each hub
BlockCholesky::Pattern SparseFactorization::make_pattern(const BodyBlocks& on, std::vector<int>& hub_node) const {
  BlockCholesky::Pattern pattern;
  pattern.clear();
  for (const Node& node : nodes_) pattern.sizes.push_back(node.rows);
  pattern.late = late_;
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
  pattern.negative.assign(nodes_.size(), 0);
  pattern.negative.resize(at(pattern.nodes()), 1);
  return pattern;
}

// Lists the nodes and bodies of each island in the order of elimination, and places the Jacobian blocks in that order.
// @return the number of values of A
SparseFactorization::Place SparseFactorization::list_islands() {
  const int count = end_of(nodes_);
  islands_.assign(at(dual_.trees()), {});
  std::vector<int> sequence(at(count));
  std::iota(sequence.begin(), sequence.end(), 0);
  std::sort(sequence.begin(), sequence.end(), [&](int a, int b) { return dual_.position(a) < dual_.position(b); });
  std::vector<int> island_of_body(bodies_.size(), -1);
  bodies_by_island_.clear();
  Place value = 0;
  for (int s = 0; s < count;) {
    const int tree = dual_.tree_of(sequence[at(s)]);
    Island& island = islands_[at(tree)];
    island.node_begin = s;
    island.body_begin = end_of(bodies_by_island_);
    for (; s < count && dual_.tree_of(sequence[at(s)]) == tree; ++s) {
      Node& node = nodes_[at(sequence[at(s)])];
      node.position = dual_.position(sequence[at(s)]);
      island.row_count += node.rows;
      for (int t = node.block_begin; t < node.block_end; ++t) {
        JacobianBlock& block = jacobian_blocks_[at(t)];
        block.value = value;
        value += static_cast<Place>(node.rows * bodies_[at(block.body)].size);
        if (island_of_body[at(block.body)] >= 0) continue;
        island_of_body[at(block.body)] = tree;
        bodies_by_island_.push_back(block.body);
      }
    }
    island.node_end = s;
    island.body_end = end_of(bodies_by_island_);
    island.rank = 0;
  }
  return value;
}

// Lists the products and blocks from which the matrix of each island is filled.
void SparseFactorization::list_products(const BodyBlocks& on, const std::vector<int>& hub_node) {
  block_products_.clear();
  hub_blocks_.clear();
  hubs_.clear();
  for (Island& island : islands_) {
    island.product_begin = end_of(block_products_);
    island.hub_block_begin = end_of(hub_blocks_);
    island.hub_begin = end_of(hubs_);
    for (int j = island.body_begin; j < island.body_end; ++j) {
      const int b = bodies_by_island_[at(j)];
      if (bodies_[at(b)].hub)
        add_hub(bodies_[at(b)], hub_node[at(b)], on[at(b)]);
      else
        add_products(bodies_[at(b)], on[at(b)]);
    }
    island.product_end = end_of(block_products_);
    island.hub_block_end = end_of(hub_blocks_);
    island.hub_end = end_of(hubs_);
  }
}

void SparseFactorization::add_hub(const Body& body, int hub_node, const std::vector<std::pair<int, int>>& blocks) {
  for (const auto& [k, t] : blocks) {
    const bool transposed = dual_.position(hub_node) > nodes_[at(k)].position;
    const auto slot = transposed ? dual_.slot(hub_node, k) : dual_.slot(k, hub_node);
    hub_blocks_.push_back({.from = jacobian_blocks_[at(t)].value,
                           .to = static_cast<Place>(slot.offset),
                           .rows = nodes_[at(k)].rows,
                           .size = body.size,
                           .stride = slot.stride,
                           .transposed = transposed});
  }
  const auto slot = dual_.slot(hub_node, hub_node);
  hubs_.push_back({.to = static_cast<Place>(slot.offset),
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
      block_products_.push_back({.a = jacobian_blocks_[at(a.second)].value,
                                 .b = jacobian_blocks_[at(c.second)].value,
                                 .to = static_cast<Place>(slot.offset),
                                 .rows_a = nodes_[at(a.first)].rows,
                                 .rows_b = nodes_[at(c.first)].rows,
                                 .size = body.size,
                                 .stride = slot.stride});
    }
}

// Moves the values of A to the places of a new order, and the runs of entries with them.
void SparseFactorization::move_jacobians(Place values) {
  const std::vector<double> old = std::move(jacobians_);
  jacobians_.assign(values, 0.0);
  for (EntryRun& run : entry_runs_) {
    const JacobianBlock& block = jacobian_blocks_[at(run.block)];
    const Body& body = bodies_[at(block.body)];
    const Place now = block.value + static_cast<Place>(run.row * body.size + (run.column - body.column));
    if (known_)  // For a new order the numbers have already been read.
      std::copy_n(old.begin() + run.value, run.length, jacobians_.begin() + now);
    run.value = now;
  }
}

void SparseFactorization::list_column_blocks(const BodyBlocks& on) {
  column_blocks_.clear();
  for (std::size_t b = 0; b < bodies_.size(); ++b) {
    bodies_[b].column_block_begin = end_of(column_blocks_);
    for (const auto& [k, t] : on[b])
      column_blocks_.push_back(
          {.value = jacobian_blocks_[at(t)].value, .rows = nodes_[at(k)].rows, .position = nodes_[at(k)].position});
    bodies_[b].column_block_end = end_of(column_blocks_);
  }
}

void SparseFactorization::prepare_primal() {
  BlockCholesky::Pattern pattern;
  pattern.clear();
  for (const Body& body : bodies_) pattern.sizes.push_back(body.size);
  for (const Node& node : nodes_) {
    for (int t = node.block_begin; t < node.block_end; ++t) pattern.clique.push_back(jacobian_blocks_[at(t)].body);
    pattern.clique_start.push_back(static_cast<int>(pattern.clique.size()));
  }
  pattern.negative.assign(bodies_.size(), 0);
  pattern.late.assign(bodies_.size(), 0);
  primal_.analyse(pattern);
  primal_known_ = true;
}

}  // namespace linchpin::detail
