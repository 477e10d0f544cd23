// The null vectors N of Aᵀ that the dropped rows of a KernelFactor stand for, and the multipliers of least norm (T6,
// T7): λ − N (NᵀN)⁻¹ Nᵀ λ. There is one null space for each lane, because lanes may drop different rows.
#pragma once

#include "joint_kernel/high_degree_bodies.h"
#include "joint_kernel/symbolic.h"
#include "joint_kernel/tuning.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

// A dropped row k has the null vector n with Lᵀ n = e_k. In its own joint n is e_k − D⁻ S e_k, and from there it runs
// to the descendants of the joint, as half a solve does. A row that closes a loop has its values along the loop
// alone: N is sparse. Two null vectors overlap only where one joint is an ancestor of the other. So NᵀN, factored in
// the order of elimination, has no fill. Each n is 1 in its own dropped row and 0 in all others, so that NᵀN ≥ 1. The
// null vectors of one joint stand side by side in as many SIMD vectors as they need.
class KernelNullSpace {
 public:
  void clear() {
    for (const Part& part : parts_) latest_[z(part.node)] = -1;
    groups_.clear();
    parts_.clear();
    values_.clear();
    blocks_.clear();
    factor_.clear();
    t_.clear();
    kept_count_ = 0;
  }

  bool empty() const { return groups_.empty(); }
  std::size_t size() const { return values_.size(); }  ///< in SIMD vectors: the cost of a projection

  /// Adds the null vectors of the dropped rows of a joint. Joints come in the order of elimination.
  /// @param own  [dropped × width] the null vectors in the joint itself
  /// @param value  value(place): the values of L (SymbolicFactor::Node::panel)
  template <class Value>
  void add(const SymbolicFactor& p, int node, int dropped, const double* own, const Value& value) {
    if (n_.empty()) {  // the first time: most islands never need it
      reached_.assign(p.nodes.size() / 64 + 1, 0);
      active_.assign(p.nodes.size(), 0);
      latest_.assign(p.nodes.size(), -1);
      n_.resize(z(p.rows) * max_vectors);
    }
    Group g;
    g.count = dropped;
    g.vectors = (dropped + 3) / 4;
    g.t = static_cast<int>(t_.size());
    g.y = max_width * max_vectors * static_cast<int>(groups_.size());
    g.parts = static_cast<int>(parts_.size());
    alike_ = groups_.empty() || alike_ == dropped ? dropped : 0;
    groups_.push_back(g);
    t_.resize(t_.size() + z(g.vectors));
    for (auto* x : {&y_, &inverse_})
      if (x->size() < z(g.y + max_width * max_vectors)) x->resize(z(g.y + max_width * max_vectors));
    if (g.vectors == 1)
      trace<1>(p, node, own, value);
    else
      trace<2>(p, node, own, value);
    const int group = static_cast<int>(groups_.size()) - 1;
    switch (dropped) {
      case 1:
        return factor<1>(group);
      case 3:
        return factor<3>(group);
      case 4:
        return factor<4>(group);
      default:
        return factor<0>(group);
    }
  }

  /// Allows only combinations t of the null vectors that leave high-degree bodies alone, Cᵀt = 0 (HighDegreeBodies).
  /// All null vectors have been added.
  void constrain(const HighDegreeBodies& high_degree) {
    kept_count_ = static_cast<int>(high_degree.kept().size());
    const std::size_t size = t_.size();
    for (auto* x : {&shares_, &solved_shares_}) x->assign(z(kept_count_) * size, Vec4d{});
    gram_.resize(kept_count_);
    for (int j = 0; j < kept_count_; ++j) {
      const double* share = high_degree.shares(j);
      double* const to = scalars(shares_.data() + z(j) * size);
      for (const Group& g : groups_)
        for (int a = 0; a < g.count; ++a) to[4 * g.t + a] = *share++;
      std::copy_n(shares_.data() + z(j) * size, size, t_.data());
      solve_all();
      std::copy_n(t_.data(), size, solved_shares_.data() + z(j) * size);
      for (int i = 0; i <= j; ++i) gram_.at(j, i) = inner(shares_.data() + z(i) * size, t_.data());
    }
    gram_.factor(kept_count_);  // positive: HighDegreeBodies keeps rows of C that are independent
  }

  /// Replaces multipliers by those of least norm with the same Aᵀλ. @param x  by row; one lane of it
  template <class Real>
  void project(Real* x, int lane) {
    for (const Group& g : groups_) of_count(g.count, [&](auto count) { gather<decltype(count)::value>(g, x, lane); });
    solve_all();
    if (kept_count_ > 0) project_out_high_degree();
    for (const Group& g : groups_) of_count(g.count, [&](auto count) { scatter<decltype(count)::value>(g, x, lane); });
  }

 private:
  static constexpr int max_width = SymbolicFactor::max_width, max_vectors = 2;
  struct Group {  // the null vectors of the dropped rows of a joint
    int count = 0, vectors = 0;
    int t = 0, y = 0;  // places in t_ and y_
    int parts = 0, parts_end = 0;
    int parent = -1;                   // in the elimination of NᵀN
    int blocks = -1, last_block = -1;  // its column of the factor
    int stamp = -1;
  };
  struct Part {  // a group in a joint
    int node, group, first, width;
    int values;    // [width × vectors]
    int previous;  // part of the same joint
  };
  struct Block {  // of the factor of NᵀN
    int row;      // group
    int values;   // [count of the column × vectors of the row]
    int next;     // block of the same column
  };

  // Up to three null vectors are summed number by number, more as SIMD vectors.
  template <class Visit>
  static void of_count(int count, const Visit& visit) {
    switch (count) {
      case 1:
        return visit(std::integral_constant<int, 1>{});
      case 2:
        return visit(std::integral_constant<int, 2>{});
      case 3:
        return visit(std::integral_constant<int, 3>{});
      case 4:
        return visit(std::integral_constant<int, 4>{});
      default:
        return visit(std::integral_constant<int, 8>{});
    }
  }

  // t ← Nᵀx
  template <int count, class Real>
  void gather(const Group& g, const Real* x, int lane) {
    constexpr int C = (count + 3) / 4, D = count < 4 ? count : C;
    std::array<std::conditional_t<(count < 4), double, Vec4d>, D> t{};
    for (int i = g.parts; i < g.parts_end; ++i) {
      const Part& part = parts_[z(i)];
      const Vec4d* n = values_.data() + part.values;
      for (int r = 0; r < part.width; ++r, n += C) {
        const double own = SimdTraits<Real>::get(x[part.first + r], lane);
        for (int c = 0; c < D; ++c)
          if constexpr (count < 4)
            t[z(c)] += own * scalars(n)[c];
          else
            t[z(c)] += own * n[c];
      }
    }
    if constexpr (count < 4)
      std::copy_n(t.begin(), D, scalars(t_.data() + g.t));
    else
      std::copy_n(t.begin(), D, t_.data() + g.t);
  }

  // x ← x − N t
  template <int count, class Real>
  void scatter(const Group& g, Real* x, int lane) const {
    constexpr int C = (count + 3) / 4, D = count < 4 ? count : C;
    std::array<std::conditional_t<(count < 4), double, Vec4d>, D> t;
    if constexpr (count < 4)
      std::copy_n(scalars(t_.data() + g.t), D, t.begin());
    else
      std::copy_n(t_.data() + g.t, D, t.begin());
    for (int i = g.parts; i < g.parts_end; ++i) {
      const Part& part = parts_[z(i)];
      const Vec4d* n = values_.data() + part.values;
      for (int r = 0; r < part.width; ++r, n += C) {
        double own = SimdTraits<Real>::get(x[part.first + r], lane);
        if constexpr (count < 4) {
          for (int c = 0; c < D; ++c) own -= scalars(n)[c] * t[z(c)];
        } else {
          Vec4d sum = n[0] * t[0];
          for (int c = 1; c < D; ++c) sum += n[c] * t[z(c)];
          own -= total(sum);
        }
        SimdTraits<Real>::set(x[part.first + r], lane, own);
      }
    }
  }

  template <class T>
  static constexpr std::size_t z(T i) {
    return static_cast<std::size_t>(i);
  }
  static double at(const Vec4d* x, int i) { return x[static_cast<unsigned>(i) / 4][static_cast<unsigned>(i) % 4]; }
  // The type of a SIMD vector aliases that of its lanes.
  static const double* scalars(const Vec4d* x) { return reinterpret_cast<const double*>(x); }
  static double* scalars(Vec4d* x) { return reinterpret_cast<double*>(x); }
  static double total(const Vec4d& x) { return (x[0] + x[1]) + (x[2] + x[3]); }
  static int last_bit(std::uint64_t bits) {
    int at = 0;
    for (int step = 32; step > 0; step /= 2)
      if (bits >> step) bits >>= step, at += step;
    return at;
  }

  // Follows the null vectors of the last group from their joint to its descendants.
  template <int C, class Value>
  void trace(const SymbolicFactor& p, int node, const double* own, const Value& value) {
    std::array<Vec4d, max_width * C> n{};
    const int width = p.nodes[z(node)].width;
    for (int c = 0; c < groups_.back().count; ++c)
      for (int r = 0; r < width; ++r) n[z(r * C + c / 4)][c % 4] = own[c * width + r];
    double size = store_part<C>(p, node, n, 0);
    for (int word = node / 64; word >= 0; --word)
      while (std::uint64_t& bits = reached_[z(word)]) {
        const int bit = last_bit(bits);
        bits &= ~(std::uint64_t{1} << bit);
        size = std::max(size, trace_node<C>(p, 64 * word + bit, size, value));
      }
    groups_.back().parts_end = static_cast<int>(parts_.size());
    for (std::size_t i = z(groups_.back().parts); i < parts_.size(); ++i) active_[z(parts_[i].node)] = 0;
  }

  // Keeps the part of the last group in a joint. @return its largest value, 0 where that is rounding of `size`
  template <int C>
  double store_part(const SymbolicFactor& p, int node, const std::array<Vec4d, max_width * C>& n, double size) {
    const SymbolicFactor::Node& of = p.nodes[z(node)];
    Vec4d all{};
    for (int i = 0; i < of.width * C; ++i) all = maximum(all, absolute(n[z(i)]));
    const double most = std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
    if (most <= tuning::null_vector_rounding * size) return 0;
    parts_.push_back({node, static_cast<int>(groups_.size()) - 1, of.first, of.width, static_cast<int>(values_.size()),
                      latest_[z(node)]});
    latest_[z(node)] = static_cast<int>(parts_.size()) - 1;
    active_[z(node)] = 1;
    std::copy_n(n.data(), of.width * C, n_.data() + of.first * C);
    values_.insert(values_.end(), n.data(), n.data() + of.width * C);
    for (int i = p.descendants_begin[z(node)]; i < p.descendants_begin[z(node) + 1]; ++i) {
      const int k = p.descendants[z(i)];
      reached_[z(k / 64)] |= std::uint64_t{1} << (k % 64);
    }
    return most;
  }

  // −L_ancestorᵀ n_ancestor
  template <int C, class Value>
  double trace_node(const SymbolicFactor& p, int node, double size, const Value& value) {
    const SymbolicFactor::Node& of = p.nodes[z(node)];
    const int w = of.width;
    std::array<Vec4d, max_width * C> sum{};
    for (int i = of.ancestors_begin; i < of.ancestors_end; ++i) {
      const SymbolicFactor::Ancestor& ancestor = p.ancestors[z(i)];
      if (!active_[z(ancestor.node)]) continue;
      int at = of.panel + ancestor.offset * w;
      const Vec4d* n = n_.data() + ancestor.first * C;
      for (int r = 0; r < ancestor.width; ++r, n += C)
        for (int k = 0; k < w; ++k, ++at) {
          const double l = value(at);
          for (int c = 0; c < C; ++c) sum[z(k * C + c)] -= l * n[c];
        }
    }
    return store_part<C>(p, node, sum, size);
  }

  // Computes the next rows of NᵀN = L D Lᵀ, by blocks of groups.
  template <int count>
  void factor(int group) {
    Group& g = groups_[z(group)];
    const int d = count > 0 ? count : g.count, C = (d + 3) / 4;
    std::array<Vec4d, max_width * max_vectors> own{};  // [d × vectors]
    reach_.clear();
    for (std::size_t i = z(g.parts); i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const Vec4d* const n = values_.data() + part.values;
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < part.width; ++r)
          for (int a = 0; a < d; ++a) own[z(a * C + c)] += at(n + r * C, a) * n[r * C + c];
      for (int j = part.previous; j >= 0; j = parts_[z(j)].previous) {
        const Part& other = parts_[z(j)];
        reach(other.group, group);
        const Group& h = groups_[z(other.group)];
        const Vec4d* const m = values_.data() + other.values;
        Vec4d* const y = y_.data() + h.y;
        for (int r = 0; r < part.width; ++r)
          for (int b = 0; b < h.count; ++b)
            for (int c = 0; c < C; ++c) y[b * C + c] += at(m + r * h.vectors, b) * n[r * C + c];
      }
    }
    std::sort(reach_.begin(), reach_.end());
    for (const int index : reach_) {
      Group& h = groups_[z(index)];
      const Vec4d* const y = y_.data() + h.y;
      for (int i = h.blocks; i >= 0;
           i = blocks_[z(i)].next) {  // the later groups of its column, all of which are reached
        const Group& later = groups_[z(blocks_[z(i)].row)];
        const Vec4d* l = factor_.data() + blocks_[z(i)].values;
        Vec4d* const to = y_.data() + later.y;
        for (int k = 0; k < h.count; ++k, l += later.vectors)
          for (int b = 0; b < later.count; ++b)
            for (int c = 0; c < C; ++c) to[b * C + c] -= at(l, b) * y[k * C + c];
      }
      const int place = static_cast<int>(factor_.size()), block = static_cast<int>(blocks_.size());
      blocks_.push_back({group, place, -1});
      (h.blocks < 0 ? h.blocks : blocks_[z(h.last_block)].next) = block;
      h.last_block = block;
      const Vec4d* const inverse = inverse_.data() + h.y;
      for (int b = 0; b < h.count; ++b)
        for (int c = 0; c < C; ++c) {
          Vec4d sum{};
          for (int k = 0; k < h.count; ++k) sum += at(inverse + b * h.vectors, k) * y[k * C + c];
          factor_.push_back(sum);
        }
      const Vec4d* const l = factor_.data() + place;
      for (int b = 0; b < h.count; ++b)
        for (int a = 0; a < d; ++a)
          for (int c = 0; c < C; ++c) own[z(a * C + c)] -= at(l + b * C, a) * y[b * C + c];
    }
    invert<count>(own.data(), d, C, inverse_.data() + g.y);
  }

  // Lists the groups whose columns of the factor have values in the row of a group that overlaps `from`.
  void reach(int from, int group) {
    for (int at = from; at != group && groups_[z(at)].stamp != group; at = groups_[z(at)].parent) {
      Group& h = groups_[z(at)];
      h.stamp = group;
      reach_.push_back(at);
      std::fill_n(y_.data() + h.y, h.count * groups_[z(group)].vectors, Vec4d{});
      if (h.parent < 0) h.parent = group;
    }
  }

  // Inverts a matrix that is ≥ 1, which needs no pivoting.
  template <int count>
  static void invert(Vec4d* S, int rows, int vectors, Vec4d* to) {
    const int d = count > 0 ? count : rows, C = count > 0 ? (count + 3) / 4 : vectors;
    for (int k = 0; k < d; ++k) {
      const double pivot = 1 / at(S + k * C, k);
      S[k * C + k / 4][k % 4] = 1;
      for (int c = 0; c < C; ++c) S[k * C + c] *= pivot;
      for (int i = 0; i < d; ++i) {
        if (i == k) continue;
        const double by = at(S + i * C, k);
        S[i * C + k / 4][k % 4] = 0;
        for (int c = 0; c < C; ++c) S[i * C + c] -= by * S[k * C + c];
      }
    }
    std::copy_n(S, d * C, to);
  }

  void solve_all() {
    if (alike_ == 3)  // null vectors of loops of hinges
      solve<3>();
    else if (alike_ == 4)  // of bars on hinges at both ends
      solve<4>();
    else
      solve<0>();
  }

  // Projects t = (NᵀN)⁻¹ Nᵀλ, in the metric of NᵀN, on Cᵀt = 0.
  void project_out_high_degree() {
    const std::size_t size = t_.size();
    std::array<double, z(SymbolicFactor::body_columns * SymbolicFactor::max_high_degree)> along;
    for (int j = 0; j < kept_count_; ++j) along[z(j)] = inner(shares_.data() + z(j) * size, t_.data());
    gram_.forward(along.data());
    gram_.backward(along.data());
    for (int j = 0; j < kept_count_; ++j) {
      const Vec4d* const solved = solved_shares_.data() + z(j) * size;
      for (std::size_t i = 0; i < size; ++i) t_[i] -= along[z(j)] * solved[i];
    }
  }
  double inner(const Vec4d* a, const Vec4d* b) const {
    Vec4d sum{};
    for (std::size_t i = 0; i < t_.size(); ++i) sum += a[i] * b[i];
    return total(sum);
  }

  // t ← (NᵀN)⁻¹ t. @tparam count  null vectors of every group, or 0 where they differ
  template <int count>
  void solve() {
    const auto size = [](const Group& g) { return count > 0 ? count : g.count; };
    const auto stride = [&](const Group& g) { return count > 0 ? 4 * ((count + 3) / 4) : 4 * g.vectors; };
    double* const t = scalars(t_.data());
    const double *const factor = scalars(factor_.data()), *const inverses = scalars(inverse_.data());
    for (const Group& g : groups_)
      for (int i = g.blocks; i >= 0; i = blocks_[z(i)].next) {
        const Group& h = groups_[z(blocks_[z(i)].row)];
        const double* l = factor + 4 * blocks_[z(i)].values;
        const double* const own = t + 4 * g.t;
        double* const to = t + 4 * h.t;
        for (int b = 0; b < size(g); ++b, l += stride(h))
          for (int a = 0; a < size(h); ++a) to[a] -= l[a] * own[b];
      }
    for (auto g = groups_.rbegin(); g != groups_.rend(); ++g) {
      std::array<double, max_width> x;
      double* const own = t + 4 * g->t;
      const double* inverse = inverses + 4 * g->y;
      for (int a = 0; a < size(*g); ++a, inverse += stride(*g)) {
        double sum = 0;
        for (int b = 0; b < size(*g); ++b) sum += inverse[b] * own[b];
        x[z(a)] = sum;
      }
      for (int i = g->blocks; i >= 0; i = blocks_[z(i)].next) {
        const Group& h = groups_[z(blocks_[z(i)].row)];
        const double* l = factor + 4 * blocks_[z(i)].values;
        const double* const from = t + 4 * h.t;
        for (int b = 0; b < size(*g); ++b, l += stride(h))
          for (int a = 0; a < size(h); ++a) x[z(b)] -= l[a] * from[a];
      }
      for (int a = 0; a < size(*g); ++a) own[a] = x[z(a)];
    }
  }

  std::vector<Group> groups_;
  std::vector<Part> parts_;
  int alike_ = 0;                // null vectors of every group, or 0 where they differ
  AlignedVector<Vec4d> values_;  // N, by part
  std::vector<Block> blocks_;
  AlignedVector<Vec4d> factor_, inverse_;  // of NᵀN: L by block, D⁻¹ by group
  std::vector<std::uint64_t> reached_;     // by bit: joints that are yet to be followed
  std::vector<char> active_;
  std::vector<int> latest_, reach_;
  AlignedVector<Vec4d> n_, y_, t_;
  int kept_count_ = 0;                           // rows of C
  AlignedVector<Vec4d> shares_, solved_shares_;  // by row of C, each like t: E, and (NᵀN)⁻¹ E
  SmallCholesky gram_;                           // Eᵀ (NᵀN)⁻¹ E
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
