#include "joint_kernel/symbolic.h"

#include "math/block_cholesky.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace linchpin::detail {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
}  // namespace

bool SymbolicFactor::lay_out(const StockJoints& stock, const Block& block, std::vector<BodyId>& ids) {
  constexpr std::size_t most_ends = 8;  // of joints on one body: beyond, it is a hub, so that they do not all meet
  constexpr int most_values = 120;      // per row
  constexpr double few_values = 20;     // likewise: beyond, another order may be the better
  *this = {};
  const int joints = stock.count();
  bodies = static_cast<int>(ids.size());
  const auto body_of = [&](int slot, BodyId id) {
    if (slot >= 0) return slot;
    const auto known = std::find(ids.begin() + bodies, ids.end(), id);
    const int body = static_cast<int>(known - ids.begin());
    if (known == ids.end()) ids.push_back(id);
    return body;
  };
  std::vector<std::vector<std::pair<int, int>>> ends(z(bodies));  // joint and its side
  std::vector<std::array<int, 2>> at(z(joints));
  BlockCholesky::Pattern pattern;
  welds = true;
  for (int i = 0; i < joints; ++i) {
    const StockJoints::Joint& joint = stock.joints[z(i)];
    if (joint.driven_a || joint.driven_b || joint.slot_a == joint.slot_b) return false;
    at[z(i)] = {body_of(joint.slot_a, joint.a), body_of(joint.slot_b, joint.b)};
    for (int side = 0; side < 2; ++side)
      if (at[z(i)][z(side)] < bodies) ends[z(at[z(i)][z(side)])].emplace_back(i, side);
    const int width = block.row[z(joint.constraint) + 1] - joint.row;
    if (width < 1 || width > widest) return false;
    pattern.sizes.push_back(width);
    const StockJoints::Joint& next = stock.joints[z(i) + 1];
    welds = welds && next.point - joint.point == 1 && next.axis == joint.axis && next.dot - joint.dot == 3;
  }
  all_bodies = static_cast<int>(ids.size());
  std::vector<int> hub_of(z(all_bodies), -1);
  for (int body = 0; body < bodies; ++body) {
    if (welds || ends[z(body)].size() <= most_ends) continue;
    hub_of[z(body)] = static_cast<int>(hubs.size());
    hubs.push_back(body);
    pattern.sizes.push_back(hub_columns);
  }
  if (hubs.size() > most_hubs) return false;
  const auto is_last = [&](int joint) {
    return std::all_of(at[z(joint)].begin(), at[z(joint)].end(),
                       [&](int body) { return body >= bodies || hub_of[z(body)] >= 0; });
  };
  pattern.negative.assign(z(joints), 0);
  pattern.negative.resize(pattern.sizes.size(), 1);
  pattern.late.assign(pattern.sizes.size(), 0);
  const auto begin_clique = [&] { pattern.clique_start.push_back(static_cast<int>(pattern.clique.size())); };
  for (int body = 0; body < bodies; ++body) {
    const int of = hub_of[z(body)];
    if (of < 0) begin_clique();
    for (const auto& [joint, side] : ends[z(body)]) {
      if (of >= 0) begin_clique();
      pattern.clique.push_back(joint);
      if (of >= 0) pattern.clique.push_back(joints + of);
    }
  }
  begin_clique();

  std::vector<int> order, place(z(joints));
  std::vector<std::vector<int>> structure(pattern.sizes.size());
  if (welds) {
    order.resize(z(joints));
    std::iota(order.begin(), order.end(), 0);
    eliminated = joints;
  } else {
    BlockCholesky::eliminate(pattern, order, structure);
    const auto work = [&](const std::vector<std::vector<int>>& below, bool squared) {
      double sum = 0;
      for (int i = 0; i < joints; ++i) {
        double height = pattern.sizes[z(i)];
        for (const int j : below[z(i)]) height += pattern.sizes[z(j)];
        sum += pattern.sizes[z(i)] * (squared ? height * height : height);
      }
      return sum;
    };
    if (work(structure, false) > few_values * std::accumulate(pattern.sizes.begin(), pattern.sizes.end(), 0.0)) {
      std::vector<int> other;
      std::vector<std::vector<int>> other_structure(pattern.sizes.size());
      BlockCholesky::eliminate(pattern, other, other_structure, true);
      if (work(other_structure, true) < work(structure, true)) order.swap(other), structure.swap(other_structure);
    }
    std::erase_if(order, [&](int i) { return i >= joints; });
    eliminated = static_cast<int>(
        std::stable_partition(order.begin(), order.end(), [&](int i) { return !is_last(i); }) - order.begin());
  }
  for (int k = 0; k < joints; ++k) place[z(order[z(k)])] = k;
  for (const int i : order) {
    const StockJoints::Joint &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
    Node node;
    node.first = rows;
    node.width = pattern.sizes[z(i)];
    node.a = at[z(i)][0], node.b = at[z(i)][1];
    node.points = static_cast<int>(points.size());
    for (int k = joint.point; k < next.point; ++k) points.push_back(k);
    node.points_end = static_cast<int>(points.size());
    node.axes = static_cast<int>(axes.size());
    for (int k = joint.axis; k < next.axis; ++k) axes.push_back(k);
    node.axes_end = static_cast<int>(axes.size());
    node.dots = static_cast<int>(dots.size());
    for (int k = joint.dot; k < next.dot; ++k) dots.push_back(k);
    node.dots_end = static_cast<int>(dots.size());
    node.axis_row = 3 * (node.points_end - node.points);
    node.dot_row = node.axis_row + (node.axes_end - node.axes);
    for (int r = 0; r < node.width; ++r) row_of.push_back(joint.row + r);
    rows += node.width;
    nodes.push_back(node);
    joint_of.push_back(i);
  }
  for (int k = 0; k < joints; ++k) {
    Node& node = nodes[z(k)];
    std::vector<int>& under = structure[z(order[z(k)])];
    std::sort(under.begin(), under.end());
    node.holds = static_cast<int>(holds.size());
    for (; !under.empty() && under.back() >= joints; under.pop_back()) {
      holds.push_back({under.back() - joints, hold_values});
      hold_values += node.width * hub_stride;
    }
    node.holds_end = static_cast<int>(holds.size());
    for (int& i : under) i = place[z(i)];
    std::sort(under.begin(), under.end());
    node.below = static_cast<int>(belows.size());
    for (const int i : under) {
      belows.push_back({i, nodes[z(i)].first, nodes[z(i)].width, node.height});
      node.height += nodes[z(i)].width;
    }
    node.below_end = static_cast<int>(belows.size());
    node.threes =
        node.width == 3 && std::all_of(under.begin(), under.end(), [&](int i) { return nodes[z(i)].width == 3; });
    node.diagonal = values;
    node.panel = values + node.width * node.width;
    values = node.panel + node.height * node.width;
    widest_panel = std::max(widest_panel, node.height * node.width);
    if (values > most_values * (node.first + node.width) + 1000) return false;
  }
  const auto hold_of = [&](int node, int hub) {
    int i = nodes[z(node)].holds;
    while (holds[z(i)].hub != hub) ++i;
    return holds[z(i)].values;
  };
  for (Node& node : nodes) {
    node.hold_updates = static_cast<int>(hold_updates.size());
    for (int i = node.holds; i < node.holds_end; ++i)
      for (int j = node.below; j < node.below_end; ++j)
        hold_updates.push_back(hold_of(belows[z(j)].node, holds[z(i)].hub));
  }
  for (int body = 0; body < bodies; ++body)
    for (const auto& [joint, side] : ends[z(body)])
      if (const int of = hub_of[z(body)]; of >= 0)
        grips.push_back({place[z(joint)], side, body, hold_of(place[z(joint)], of)});
  std::vector<std::vector<int>> touching(z(joints));
  for (int k = 0; k < joints; ++k)
    for (int i = nodes[z(k)].below; i < nodes[z(k)].below_end; ++i) touching[z(belows[z(i)].node)].push_back(k);
  above.push_back(0);
  for (const auto& of : touching) {
    aboves.insert(aboves.end(), of.begin(), of.end());
    above.push_back(static_cast<int>(aboves.size()));
  }
  for (auto own : ends) {
    std::sort(own.begin(), own.end(), [&](auto x, auto y) { return place[z(x.first)] < place[z(y.first)]; });
    const auto add = [&](int Node::*first, int Node::*last) {
      const int begin = static_cast<int>(body_ends.size());
      for (const auto& [joint, side] : own) {
        const Node& node = nodes[z(place[z(joint)])];
        for (int k = node.*first; k < node.*last; ++k) body_ends.push_back(2 * k + side);
      }
      return begin;
    };
    const int of_points = add(&Node::points, &Node::points_end), of_axes = add(&Node::axes, &Node::axes_end),
              of_dots = add(&Node::dots, &Node::dots_end);
    ends_of.push_back({of_points, of_axes, of_dots});
  }
  const int all = static_cast<int>(body_ends.size());
  ends_of.push_back({all, all, all});
  if (welds) return true;
  const auto place_of = [&](int i, int j) {  // of block (i, j), i not before j
    const Node& node = nodes[z(j)];
    if (i == j) return node.diagonal;
    const auto found = std::lower_bound(belows.begin() + node.below, belows.begin() + node.below_end, i,
                                        [](const Below& below, int of) { return below.node < of; });
    return node.panel + found->offset * node.width;
  };
  for (Node& node : nodes) {
    node.updates = static_cast<int>(updates.size());
    for (int i = node.below; i < node.below_end; ++i)
      for (int j = node.below; j <= i; ++j) updates.push_back(place_of(belows[z(i)].node, belows[z(j)].node));
  }
  for (int body = 0; body < bodies; ++body) {
    if (hub_of[z(body)] >= 0) continue;
    for (const auto& [x, side_x] : ends[z(body)])
      for (const auto& [y, side_y] : ends[z(body)])
        if (place[z(x)] >= place[z(y)])
          meetings.push_back({place[z(x)], place[z(y)], side_x, side_y, body, place_of(place[z(x)], place[z(y)])});
  }
  for (Meeting& m : meetings) {
    const Node &i = nodes[z(m.i)], &j = nodes[z(m.j)];
    const auto is_ball = [](const Node& node) { return node.width == 3 && node.points_end - node.points == 1; };
    if (is_ball(i) && is_ball(j)) m.ball_i = i.points, m.ball_j = j.points;
    m.axes = i.axes_end > i.axes || j.axes_end > j.axes;
  }
  std::stable_sort(meetings.begin(), meetings.end(),
                   [](const Meeting& x, const Meeting& y) { return x.target < y.target; });
  return true;
}

}  // namespace linchpin::detail
