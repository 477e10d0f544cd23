// The block factor L D Lᵀ of G = A M⁻¹ Aᵀ in the order of a SymbolicFactor (T7), and solves with it. Real has a lane
// for each of several islands of one topology, and X has a lane for each of several right-hand sides. Rows that depend
// on rows before them are dropped: their multipliers are zero. High-degree bodies are no part of that G, but unknowns
// of their own (HighDegreeBodies).
#pragma once

#include "joint_kernel/high_degree_bodies.h"
#include "joint_kernel/null_space.h"
#include "joint_kernel/symbolic.h"
#include "joint_kernel/tuning.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class KernelFactor {
 public:
  void lay_out(const SymbolicFactor& p) {
    diagonal_.assign(z(p.rows), Real{});
    values_.assign(z(p.values) + 1, Real{});  // backward() reads one number more
    panel_.assign(z(p.widest_panel), Real{});
    eliminations_.assign(p.nodes.begin(), p.nodes.end());
    blocks_3x3_.assign(SimdTraits<Real>::count == 1 ? z(p.widest_panel / 3) : 0, Block3x3{});
    const int columns = p.body_columns * static_cast<int>(p.high_degree_bodies.size());
    couplings_.assign(z(p.coupling_values), Real{});
    high_degree_masses_.assign(p.high_degree_bodies.size() * (p.high_degree_bodies.size() + 1) / 2 * z(mass_block),
                               Real{});
    lengths_.assign(columns > 0 ? z(p.rows) : 0, Real{});
    for (auto& lane : high_degree_)
      if (columns > 0) lane.lay_out(columns, p.rows);
  }

  /// Sets G to zero. @return where it is summed, at the places of the symbolic factor; of diagonal blocks the lower
  /// half
  Real* clear() {
    for (auto* x : {&values_, &couplings_, &high_degree_masses_, &lengths_}) std::fill(x->begin(), x->end(), Real{});
    return values_.data();
  }
  /// Where the columns of high-degree bodies are written, in rows that are body_stride apart.
  Real* couplings() { return couplings_.data(); }
  /// Where it is written, by row, what high-degree bodies would add to the diagonal of G.
  Real* lengths() { return lengths_.data(); }
  /// Where the mass matrix of a high-degree body is written, whole, in rows that are body_stride apart.
  Real* high_degree_mass(int index) { return high_degree_masses_.data() + block_of(index, index); }

  /// Factors. D⁻¹ takes the place of D, whole. @return positive where every pivot is far from zero, or, if dependent
  /// rows are dropped, zero to rounding
  Real factor(const SymbolicFactor& p) {
    for (auto& lane : dropped_) lane.clear();
    for (const SymbolicFactor::Node& node : p.nodes)
      for (int r = 0; r < node.width; ++r)
        diagonal_[z(node.first + r)] = values_[z(node.diagonal + r * node.width + r)];
    if (p.high_degree_bodies.empty()) return drops_ ? factor_nodes<true, false>(p) : factor_nodes<false, false>(p);
    return factor_with_high_degree(p,
                                   [&] { return drops_ ? factor_nodes<true, true>(p) : factor_nodes<false, true>(p); });
  }

  /// Drops dependent rows from now on. Most islands never need it, and the test takes time.
  void drop_dependent() { drops_ = true; }
  bool drops() const { return drops_; }

  /// Returns whether all rows of a lane are in the factor.
  bool whole(int lane) const {
    const HighDegreeBodies& high_degree = high_degree_[z(lane)];
    return dropped_[z(lane)].empty() ||
           (high_degree.count() > 0 && high_degree.count() == static_cast<int>(high_degree.kept().size()));
  }

  /// Adds the null vectors of Aᵀ that the dropped rows of a lane stand for.
  void find_null_space(const SymbolicFactor& p, int lane, KernelNullSpace& to) const {
    to.clear();
    for (const Dropped& rows : dropped_[z(lane)])
      to.add(p, rows.node, rows.count, rows.own.data(),
             [&](int place) { return SimdTraits<Real>::get(values_[z(place)], lane); });
    if (!p.high_degree_bodies.empty()) to.constrain(high_degree_[z(lane)]);
  }

  /// x ← G⁻¹ x, by row of the symbolic factor.
  template <class X>
  void solve(const SymbolicFactor& p, X* x) const {
    if (!p.high_degree_bodies.empty()) return solve_with_high_degree(p, x);
    const Real* const values = values_.data();
    const SymbolicFactor::Ancestor* const ancestors = p.ancestors.data();
    for (const SymbolicFactor::Elimination& node : eliminations_)
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(ancestors, node, values, x); });
    for (auto node = eliminations_.rbegin(); node != eliminations_.rend(); ++node)
      of_width(node->width, [&](auto width) { backward<decltype(width)::value>(ancestors, *node, values, x); });
  }

  /// The same for the rows of some nodes and of all their ancestors, in order. The others are zero, and not read. Where
  /// there are high-degree bodies it is for all rows.
  template <class X>
  void solve(const SymbolicFactor& p, const std::vector<int>& nodes, X* x) const {
    if (!p.high_degree_bodies.empty()) return solve_with_high_degree(p, x);
    const Real* const values = values_.data();
    const SymbolicFactor::Ancestor* const ancestors = p.ancestors.data();
    for (const int i : nodes) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(ancestors, node, values, x); });
    }
    for (auto i = nodes.rbegin(); i != nodes.rend(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(*i)];
      of_width(node.width, [&](auto width) { backward<decltype(width)::value>(ancestors, node, values, x); });
    }
  }

  /// Calls visit(width): a constant for the usual widths, so that loops have known lengths, and 0 for the others.
  template <class Visit>
  static void of_width(int width, const Visit& visit) {
    switch (width) {
      case 3:
        return visit(std::integral_constant<int, 3>{});
      case 4:
        return visit(std::integral_constant<int, 4>{});
      case 5:
        return visit(std::integral_constant<int, 5>{});
      case 6:
        return visit(std::integral_constant<int, 6>{});
      default:
        return visit(std::integral_constant<int, 0>{});
    }
  }

 private:
  static constexpr int body_columns = SymbolicFactor::body_columns, body_stride = SymbolicFactor::body_stride,
                       mass_block = body_columns * body_stride;
  using OfNode = std::array<double, SymbolicFactor::max_width * SymbolicFactor::max_width>;
  struct Dropped {  // dropped rows of a node
    int node, count;
    OfNode own;                                      // by dropped row: its null vector in the node
    std::array<int, SymbolicFactor::max_width> row;  // by dropped row: its number in the node
    OfNode coupled;  // by dropped row: its S in rows that are kept; with high-degree bodies
  };
  struct Kept {  // a dropped row that has a multiplier, because it alone holds a motion of high-degree bodies
    int first, width, row;
    std::array<double, SymbolicFactor::max_width> own, coupled;
  };
  static constexpr std::size_t z(int i) { return static_cast<std::size_t>(i); }

  // Where the width is known each number is a constant, so that inner loops have known lengths, too.
  template <int W, class Visit>
  static void each(int w, const Visit& visit) {
    if constexpr (W > 0) [&]<int... i>(std::integer_sequence<int, i...>) {
        (visit(std::integral_constant<int, i>{}), ...);
      }
    (std::make_integer_sequence<int, W>{});
    else for (int i = 0; i < w; ++i) visit(i);
  }

  template <bool drops, bool high_degree>
  Real factor_nodes(const SymbolicFactor& p) {
    Real margin = SimdTraits<Real>::all(1);
    for (int i = 0; i < (high_degree ? p.eliminated : static_cast<int>(p.nodes.size())); ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width,
               [&](auto width) { factor_node<decltype(width)::value, drops, high_degree>(p, node, margin); });
    }
    return margin;
  }

  template <int W, bool drops, bool high_degree>
  void factor_node(const SymbolicFactor& p, const SymbolicFactor::Node& node, Real& margin) {
    const int w = W > 0 ? W : node.width;
    Real* const D = values_.data() + node.diagonal;
    if (!invert<W, !drops>(D, diagonal_.data() + node.first, w, D, margin)) [[unlikely]]
      drop<W>(p, node, margin);
    if constexpr (high_degree) eliminate_couplings<W>(p, node);
    if (node.height == 0) return;
    Real* const panel = values_.data() + node.panel;
    Real* const made = panel_.data();
    std::array<Real, SymbolicFactor::max_width * SymbolicFactor::max_width> inverse;
    for (int k = 0; k < w * w; ++k) inverse[z(k)] = D[k];
    for (int r = 0; r < node.height; ++r) {
      std::array<Real, SymbolicFactor::max_width> row{};
      for (int k = 0; k < w; ++k) row[z(k)] = panel[r * w + k];
      for (int c = 0; c < w; ++c) {
        Real sum = row[0] * inverse[z(c)];
        for (int k = 1; k < w; ++k) sum += row[z(k)] * inverse[z(k * w + c)];
        made[r * w + c] = sum;
      }
    }
    if constexpr (W == 3 && std::is_same_v<Real, double>) {
      if (node.three_rows_only) return subtract_3x3(p, node, made);
    }
    const int* update = p.updates.data() + node.updates;
    for (int i = node.ancestors_begin; i < node.ancestors_end; ++i) {
      const SymbolicFactor::Ancestor& to = p.ancestors[z(i)];
      for (int j = node.ancestors_begin; j <= i; ++j) {
        const SymbolicFactor::Ancestor& by = p.ancestors[z(j)];
        Real* const target = values_.data() + *update++;
        if (to.width == 3 && by.width == 3)
          subtract<W, 3>(made + to.offset * w, panel + by.offset * w, w, 3, 3, i == j, target);
        else
          subtract<W, 0>(made + to.offset * w, panel + by.offset * w, w, to.width, by.width, i == j, target);
      }
    }
    std::copy(made, made + node.height * w, panel);
  }

  // The update of nodes of three rows by one of three rows, of one block: nine numbers as two SIMD vectors and one
  // number.
  struct Block3x3 {
    Vec4d a, b;
    double c;
    void add(const Block3x3& x, const Block3x3& y) { a += x.a * y.a, b += x.b * y.b, c += x.c * y.c; }
  };
  void subtract_3x3(const SymbolicFactor& p, const SymbolicFactor::Node& node, const double* made) {
    const int count = node.ancestors_end - node.ancestors_begin;
    const double* const panel = values_.data() + node.panel;
    Block3x3* const columns = blocks_3x3_.data();
    for (int j = 0; j < count; ++j)
      for (int k = 0; k < 3; ++k) {
        const double x = panel[9 * j + k], y = panel[9 * j + 3 + k], w = panel[9 * j + 6 + k];
        columns[3 * j + k] = Block3x3{Vec4d{x, y, w, x}, Vec4d{y, w, x, y}, w};
      }
    const int* update = p.updates.data() + node.updates;
    for (int i = 0; i < count; ++i) {
      std::array<Block3x3, 3> rows;
      for (int k = 0; k < 3; ++k, ++made) {
        const double x = made[0], y = made[3], w = made[6];
        rows[z(k)] = Block3x3{Vec4d{x, x, x, y}, Vec4d{y, y, w, w}, w};
      }
      made += 6;
      for (int j = 0; j <= i; ++j) {  // of diagonal blocks also the half that nobody reads
        double* const to = values_.data() + *update++;
        const Block3x3* const by = columns + 3 * j;
        Block3x3 sum{rows[0].a * by[0].a, rows[0].b * by[0].b, rows[0].c * by[0].c};
        sum.add(rows[1], by[1]);
        sum.add(rows[2], by[2]);
        Vec4d a, b;
        std::memcpy(&a, to, sizeof a);
        std::memcpy(&b, to + 4, sizeof b);
        a -= sum.a, b -= sum.b;
        std::memcpy(to, &a, sizeof a);
        std::memcpy(to + 4, &b, sizeof b);
        to[8] -= sum.c;
      }
    }
    std::copy_n(panel_.data(), 9 * count, values_.data() + node.panel);
  }

  template <int W, int R>
  static void subtract(const Real* a, const Real* b, int w, int rows, int columns, bool lower, Real* to) {
    std::array<Real, SymbolicFactor::max_width * SymbolicFactor::max_width> by;
    for (int k = 0; k < (R > 0 ? R : columns) * w; ++k) by[z(k)] = b[k];
    for (int r = 0; r<(R > 0 ? R : rows); ++r, a += w, to += R> 0 ? R : columns) {
      std::array<Real, SymbolicFactor::max_width> row{};
      for (int k = 0; k < w; ++k) row[z(k)] = a[k];
      for (int c = 0; c < (lower ? r + 1 : R > 0 ? R : columns); ++c) {
        Real sum = row[0] * by[z(c * w)];
        for (int k = 1; k < w; ++k) sum += row[z(k)] * by[z(c * w + k)];
        to[c] -= sum;
      }
    }
  }

  // `to` ← D⁻¹, whole, from the lower half. Unless `always`, only where the pivots are far from zero in all lanes.
  // @return whether it did. @param margin  reduced to what the pivots are above the least, not positive below it
  template <int W, bool always>
  static bool invert(const Real* D, const Real* diagonal, int w, Real* to, Real& margin) {
    constexpr int max_width = SymbolicFactor::max_width;
    if constexpr (W == 3) {  // by the adjugate: one division
      const Real a = D[0], b = D[3], c = D[6], d = D[4], e = D[7], f = D[8];
      const Real cxx = d * f - e * e, cxy = c * e - b * f, cxz = b * e - c * d, minor = a * d - b * b;
      const Real det = a * cxx + b * cxy + c * cxz, inverse = 1 / det;
      // Pivots a, minor / a, det / minor, each against its diagonal.
      const Real clear = minimum(a - tuning::min_independent_pivot * diagonal[0],
                                 minimum(minor - tuning::min_independent_pivot * (a * diagonal[1]),
                                         det - tuning::min_independent_pivot * (minor * diagonal[2])));
      if (!always && !all_positive(clear)) return false;
      margin = minimum(margin, clear);
      to[0] = cxx * inverse, to[4] = (a * f - c * c) * inverse, to[8] = minor * inverse;
      to[1] = to[3] = cxy * inverse, to[2] = to[6] = cxz * inverse, to[5] = to[7] = (b * c - a * e) * inverse;
      return true;
    } else {
      std::array<Real, max_width * max_width> l;  // L below its ones, then its inverse
      std::array<Real, max_width> d;
      Real clear = SimdTraits<Real>::all(1);
      each<W>(w, [&](auto at) {
        const int i = at;
        for (int j = 0; j <= i; ++j) {
          Real sum = D[i * w + j];
          for (int k = 0; k < j; ++k) sum -= l[z(i * max_width + k)] * l[z(j * max_width + k)] * d[z(k)];
          if (j < i)
            l[z(i * max_width + j)] = sum / d[z(j)];
          else
            d[z(i)] = sum;
        }
        clear = minimum(clear, d[z(i)] - tuning::min_independent_pivot * diagonal[i]);
      });
      if (!always && !all_positive(clear)) return false;
      margin = minimum(margin, clear);
      for (int i = 0; i < w; ++i) d[z(i)] = 1 / d[z(i)];
      invert_made<W>(l, d, w, to);
      return true;
    }
  }

  // `to` ← L⁻ᵀ d L⁻¹, whole. l is L below its ones, and is overwritten by its inverse.
  template <int W>
  static void invert_made(std::array<Real, SymbolicFactor::max_width * SymbolicFactor::max_width>& l,
                          const std::array<Real, SymbolicFactor::max_width>& d, int width, Real* to) {
    constexpr int max_width = SymbolicFactor::max_width;
    const int w = W > 0 ? W : width;
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j < i; ++j) {
        Real sum = -l[z(i * max_width + j)];
        for (int k = j + 1; k < i; ++k) sum -= l[z(i * max_width + k)] * l[z(k * max_width + j)];
        l[z(i * max_width + j)] = sum;  // rows above are inverted already
      }
    });
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j <= i; ++j) {  // Σ_k≥i (L⁻¹)_ki d_k (L⁻¹)_kj
        Real sum = i == j ? d[z(i)] : d[z(i)] * l[z(i * max_width + j)];
        for (int k = i + 1; k < w; ++k) sum += l[z(k * max_width + i)] * d[z(k)] * l[z(k * max_width + j)];
        to[i * w + j] = to[j * w + i] = sum;
      }
    });
  }

  // D ← D⁻¹ of a joint with pivots near zero. In those lanes rows that depend on rows before them are dropped: they are
  // zero in D⁻¹. The other lanes have the usual D⁻¹.
  template <int W>
  [[gnu::noinline]] void drop(const SymbolicFactor& p, const SymbolicFactor::Node& node, Real& margin) {
    constexpr int max_width = SymbolicFactor::max_width;
    const int w = W > 0 ? W : node.width;
    Real* const D = values_.data() + node.diagonal;
    const Real* const diagonal = diagonal_.data() + node.first;
    const Real one = SimdTraits<Real>::all(1);
    std::array<Real, max_width * max_width> S, others, l;
    for (int i = 0; i < w; ++i)
      for (int j = 0; j <= i; ++j) S[z(i * w + j)] = S[z(j * w + i)] = D[i * w + j];
    Real clear{};
    if constexpr (SimdTraits<Real>::count > 1) {  // a single lane has pivots near zero
      clear = one;
      invert<W, true>(S.data(), diagonal, w, others.data(), clear);
    }
    std::array<Real, max_width> d, kept;
    Real left = one;
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j <= i; ++j) {
        Real sum = S[z(i * w + j)];
        for (int k = 0; k < j; ++k) sum -= l[z(i * max_width + k)] * l[z(j * max_width + k)] * d[z(k)];
        if (j < i) {
          l[z(i * max_width + j)] = kept[z(j)] * (sum / d[z(j)]);
          continue;
        }
        const Real none = tuning::max_dependent_pivot * diagonal[i], size = absolute(sum);
        d[z(i)] = select_less(size, none, one, sum);
        kept[z(i)] = select_less(size, none, Real{}, one);
        left = minimum(left, select_less(size, none, one, sum - tuning::min_independent_pivot * diagonal[i]));
      }
    });
    for (int i = 0; i < w; ++i) d[z(i)] = kept[z(i)] / d[z(i)];
    invert_made<W>(l, d, w, D);
    if constexpr (SimdTraits<Real>::count > 1)
      for (int k = 0; k < w * w; ++k) D[k] = select_less(Real{}, clear, others[z(k)], D[k]);
    margin = minimum(margin, select_less(Real{}, clear, clear, left));
    for (int lane = 0; lane < SimdTraits<Real>::count; ++lane) {
      const auto get = [&](const Real& x) { return SimdTraits<Real>::get(x, lane); };
      if (get(clear) > 0) continue;
      Dropped rows;
      rows.node = static_cast<int>(&node - p.nodes.data());
      rows.count = 0;
      for (int j = 0; j < w; ++j) {
        if (get(kept[z(j)]) != 0) continue;
        double* const n = rows.own.data() + w * rows.count++;  // e_j − D⁻ S e_j
        for (int i = 0; i < w; ++i) {
          n[i] = i == j ? 1 : 0;
          for (int k = 0; k < w; ++k) n[i] -= get(D[i * w + k]) * get(S[z(k * w + j)]);
        }
        if (p.high_degree_bodies.empty()) continue;
        rows.row[z(rows.count - 1)] = j;
        for (int i = 0; i < w; ++i) rows.coupled[z(w * (rows.count - 1) + i)] = get(kept[z(i)]) * get(S[z(i * w + j)]);
      }
      if (rows.count > 0) dropped_[z(lane)].push_back(rows);
    }
  }

  // ---- high-degree bodies

  // The place of the block of body i and body j ≤ i.
  static std::size_t block_of(int i, int j) { return z((i * (i + 1) / 2 + j) * mass_block); }

  // Eliminates a joint from the columns U of high-degree bodies: D⁻¹ U takes the place of U, and the columns of its
  // ancestors and H are updated.
  template <int W>
  void eliminate_couplings(const SymbolicFactor& p, const SymbolicFactor::Node& node) {
    const int w = W > 0 ? W : node.width, index = static_cast<int>(&node - p.nodes.data());
    for (int lane = 0; lane < SimdTraits<Real>::count; ++lane)
      if (auto& rows = dropped_[z(lane)]; !rows.empty() && rows.back().node == index)
        add_dropped_rows(p, node, rows.back(), lane);
    const Real *const D = values_.data() + node.diagonal, *const panel = values_.data() + node.panel;
    const int* update = p.coupling_updates.data() + node.coupling_updates;
    std::array<BodyRow<Real>, SymbolicFactor::max_width> raw, made;
    for (int i = node.couplings_begin; i < node.couplings_end; ++i) {
      Real* const own = couplings_.data() + p.couplings[z(i)].values;
      for (int r = 0; r < w; ++r) raw[z(r)] = BodyRow<Real>::load(own + r * body_stride);
      for (int r = 0; r < w; ++r) {
        BodyRow<Real> sum;
        for (int k = 0; k < w; ++k) sum.add(D[r * w + k], raw[z(k)]);
        sum.store(own + r * body_stride);
        made[z(r)] = sum;
      }
      for (int j = node.couplings_begin; j <= i; ++j) {
        const Real* const other = couplings_.data() + p.couplings[z(j)].values;
        Real* to = high_degree_masses_.data() + block_of(p.couplings[z(j)].index, p.couplings[z(i)].index);
        for (int a = 0; a < body_columns; ++a, to += body_stride) {
          BodyRow<Real> sum = BodyRow<Real>::load(to);
          for (int k = 0; k < w; ++k) sum.add(other[k * body_stride + a], raw[z(k)]);
          sum.store(to);
        }
      }
      for (int j = node.ancestors_begin; j < node.ancestors_end; ++j) {
        const SymbolicFactor::Ancestor& ancestor = p.ancestors[z(j)];
        Real* to = couplings_.data() + *update++;
        const Real* l = panel + ancestor.offset * w;
        for (int r = 0; r < ancestor.width; ++r, to += body_stride, l += w) {
          BodyRow<Real> sum, left = BodyRow<Real>::load(to);
          for (int k = 0; k < w; ++k) sum.add(l[k], made[z(k)]);
          left.subtract(sum);
          left.store(to);
        }
      }
    }
  }

  // Adds the rows C of dropped rows of a joint, which hold high-degree bodies directly.
  void add_dropped_rows(const SymbolicFactor& p, const SymbolicFactor::Node& node, const Dropped& rows, int lane) {
    HighDegreeBodies& high_degree = high_degree_[z(lane)];
    for (int i = 0; i < rows.count; ++i) {
      const int row = node.first + rows.row[z(i)];
      high_degree.add(SimdTraits<Real>::get(diagonal_[z(row)], lane) + SimdTraits<Real>::get(lengths_[z(row)], lane));
      if (p.high_degree_bodies.size() > 1)
        for (int c = 0; c < body_columns * static_cast<int>(p.high_degree_bodies.size()); ++c) high_degree.set(c, 0);
      for (int j = node.couplings_begin; j < node.couplings_end; ++j) {
        const SymbolicFactor::Coupling& on = p.couplings[z(j)];
        std::array<double, body_stride> sum;
        if constexpr (std::is_same_v<Real, double>) {
          BodyRow<double> said;
          for (int k = 0; k < node.width; ++k)
            said.add(rows.own[z(node.width * i + k)],
                     BodyRow<double>::load(couplings_.data() + on.values + k * body_stride));
          said.store(sum.data());
        } else {
          sum.fill(0);
          for (int k = 0; k < node.width; ++k)
            for (int c = 0; c < body_columns; ++c)
              sum[z(c)] += rows.own[z(node.width * i + k)] *
                           SimdTraits<Real>::get(couplings_[z(on.values + k * body_stride + c)], lane);
        }
        for (int c = 0; c < body_columns; ++c) high_degree.set(body_columns * on.index + c, sum[z(c)]);
      }
      if (node.couplings_begin == node.couplings_end)
        for (int c = 0; c < body_columns; ++c) high_degree.set(c, 0);
    }
  }

  template <class Factor>
  Real factor_with_high_degree(const SymbolicFactor& p, const Factor& factor_all) {
    for (HighDegreeBodies& lane : high_degree_) lane.clear();
    Real margin = factor_all();
    for (int lane = 0; lane < SimdTraits<Real>::count; ++lane) {
      for (int i = p.eliminated; i < static_cast<int>(p.nodes.size()); ++i) {
        const SymbolicFactor::Node& node = p.nodes[z(i)];
        Dropped rows{i, node.width, {}, {}, {}};
        for (int r = 0; r < node.width; ++r) rows.row[z(r)] = r, rows.own[z(r * node.width + r)] = 1;
        dropped_[z(lane)].push_back(rows);
        add_dropped_rows(p, node, rows, lane);
      }
      if (!(SimdTraits<Real>::get(margin, lane) > 0)) continue;
      HighDegreeBodies& high_degree = high_degree_[z(lane)];
      for (int i = 0; i < static_cast<int>(p.high_degree_bodies.size()); ++i)
        for (int j = 0; j <= i; ++j)
          for (int a = 0; a < body_columns; ++a)
            for (int b = 0; b < (i == j ? a + 1 : body_columns); ++b)
              high_degree.mass(body_columns * i + a, body_columns * j + b) =
                  SimdTraits<Real>::get(high_degree_masses_[block_of(i, j) + z(a * body_stride + b)], lane);
      const double clear = high_degree.decide(tuning::min_independent_pivot, tuning::max_dependent_pivot);
      if (!(clear > 0)) SimdTraits<Real>::set(margin, lane, clear);
      store_kept_rows(p, lane);
    }
    return margin;
  }

  // Multipliers of dropped rows that are kept pass through D⁻¹ unchanged.
  void store_kept_rows(const SymbolicFactor& p, int lane) {
    kept_[z(lane)].clear();
    for (int of : high_degree_[z(lane)].kept()) {
      const Dropped* rows = dropped_[z(lane)].data();
      for (; of >= rows->count; ++rows) of -= rows->count;
      const SymbolicFactor::Node& node = p.nodes[z(rows->node)];
      const int w = node.width;
      Kept kept{node.first, w, rows->row[z(of)], {}, {}};
      std::copy_n(rows->own.begin() + of * w, w, kept.own.begin());
      std::copy_n(rows->coupled.begin() + of * w, w, kept.coupled.begin());
      kept_[z(lane)].push_back(kept);
      SimdTraits<Real>::set(values_[z(node.diagonal + kept.row * w + kept.row)], lane, 1);
    }
  }

  template <class X>
  void solve_with_high_degree(const SymbolicFactor& p, X* x) const {
    const Real* const values = values_.data();
    const SymbolicFactor::Ancestor* const ancestors = p.ancestors.data();
    std::array<X, z(SymbolicFactor::max_high_degree * body_stride)> u;
    std::fill_n(u.begin(), p.high_degree_bodies.size() * z(body_stride), X{});
    for (int i = 0; i < p.eliminated; ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(ancestors, node, values, x); });
      for (int j = node.couplings_begin; j < node.couplings_end; ++j) {
        const SymbolicFactor::Coupling& on = p.couplings[z(j)];
        const Real* from = couplings_.data() + on.values;
        BodyRow<X> sum = BodyRow<X>::load(u.data() + body_stride * on.index);
        for (int k = 0; k < node.width; ++k, from += body_stride)
          add_to(sum, x[node.first + k], BodyRow<Real>::load(from));
        sum.store(u.data() + body_stride * on.index);
      }
    }
    for (int lane = 0; lane < SimdTraits<X>::count; ++lane) solve_high_degree(p, lane, u.data(), x);
    for (int i = p.eliminated - 1; i >= 0; --i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { backward<decltype(width)::value>(ancestors, node, values, x); });
      for (int j = node.couplings_begin; j < node.couplings_end; ++j) {
        const SymbolicFactor::Coupling& on = p.couplings[z(j)];
        const Real* from = couplings_.data() + on.values;
        const BodyRow<X> by = BodyRow<X>::load(u.data() + body_stride * on.index);
        for (int k = 0; k < node.width; ++k, from += body_stride)
          x[node.first + k] -= along(BodyRow<Real>::load(from), by);
      }
    }
  }

  // Between both halves of a solve: the motion of high-degree bodies, and the multipliers of rows that are kept for
  // them.
  template <class X>
  void solve_high_degree(const SymbolicFactor& p, int lane, X* u, X* x) const {
    const std::size_t of = SimdTraits<Real>::count == 1 ? 0 : z(lane);
    constexpr std::size_t most = z(body_columns * SymbolicFactor::max_high_degree);
    const int high_degree = static_cast<int>(p.high_degree_bodies.size());
    std::array<double, most> moves, mu;
    for (int i = 0; i < high_degree; ++i)
      for (int c = 0; c < body_columns; ++c)
        moves[z(body_columns * i + c)] = SimdTraits<X>::get(u[body_stride * i + c], lane);
    double* to = mu.data();
    for (const Kept& kept : kept_[of]) {
      double sum = 0;
      for (int k = 0; k < kept.width; ++k) sum += kept.own[z(k)] * SimdTraits<X>::get(x[kept.first + k], lane);
      *to++ = sum;
    }
    high_degree_[of].solve(moves.data(), mu.data());
    for (int i = 0; i < high_degree; ++i)
      for (int c = 0; c < body_columns; ++c)
        SimdTraits<X>::set(u[body_stride * i + c], lane, moves[z(body_columns * i + c)]);
    for (int i = p.eliminated; i < static_cast<int>(p.nodes.size()); ++i)
      for (int k = 0; k < p.nodes[z(i)].width; ++k) SimdTraits<X>::set(x[p.nodes[z(i)].first + k], lane, 0);
    to = mu.data();
    for (const Kept& kept : kept_[of]) SimdTraits<X>::set(x[kept.first + kept.row], lane, *to++);
    to = mu.data();
    for (const Kept& kept : kept_[of]) {
      for (int k = 0; k < kept.width; ++k) {
        X& own = x[kept.first + k];
        SimdTraits<X>::set(own, lane, SimdTraits<X>::get(own, lane) - kept.coupled[z(k)] * *to);
      }
      ++to;
    }
  }

  template <int W, class X>
  [[gnu::always_inline]] static void forward(const SymbolicFactor::Ancestor* ancestors,
                                             const SymbolicFactor::Elimination& node, const Real* values, X* x) {
    const int w = W > 0 ? W : node.width;
    std::array<X, SymbolicFactor::max_width> own{};
    for (int k = 0; k < w; ++k) own[z(k)] = x[node.first + k];
    const Real* panel = values + node.panel;
    const auto row = [&](X& to) {
      X sum = panel[0] * own[0];
      for (int k = 1; k < w; ++k) sum += panel[k] * own[z(k)];
      to -= sum;
      panel += w;
    };
    for (const SymbolicFactor::Ancestor* i = ancestors + node.ancestors_begin; i != ancestors + node.ancestors_end;
         ++i) {
      X* const to = x + i->first;
      if (i->width == 3)
        row(to[0]), row(to[1]), row(to[2]);
      else
        for (int r = 0; r < i->width; ++r) row(to[r]);
    }
  }

  template <int W, class X>
  [[gnu::always_inline]] static void backward(const SymbolicFactor::Ancestor* ancestors,
                                              const SymbolicFactor::Elimination& node, const Real* values, X* x) {
    if constexpr (W == 3 && std::is_same_v<Real, double> && std::is_same_v<X, double>) {
      backward_three(ancestors, node, values, x);
      return;
    }
    if constexpr (W == 3) {  // in three sums, with the bits of backward_three()
      X* const own = x + node.first;
      const Real *const D = values + node.diagonal, *panel = values + node.panel;
      std::array<std::array<X, 3>, 3> sums;
      for (int k = 0; k < 3; ++k)
        for (int r = 0; r < 3; ++r) sums[z(k)][z(r)] = D[3 * k + r] * own[k];
      for (const SymbolicFactor::Ancestor* i = ancestors + node.ancestors_begin; i != ancestors + node.ancestors_end;
           ++i) {
        const X* const from = x + i->first;
        for (int k = 0; k < i->width; ++k, panel += 3)
          for (int r = 0; r < 3; ++r) sums[i->width == 3 ? z(k) : 0][z(r)] -= panel[r] * from[k];
      }
      for (int r = 0; r < 3; ++r) own[r] = sums[0][z(r)] + (sums[1][z(r)] + sums[2][z(r)]);
      return;
    }
    const int w = W > 0 ? W : node.width;
    X* const own = x + node.first;
    const Real* D = values + node.diagonal;
    std::array<X, SymbolicFactor::max_width> made{}, given{};
    for (int k = 0; k < w; ++k) given[z(k)] = own[k];
    for (int r = 0; r < w; ++r, D += w) {
      X sum = D[0] * given[0];
      for (int k = 1; k < w; ++k) sum += D[k] * given[z(k)];
      made[z(r)] = sum;
    }
    const Real* panel = values + node.panel;
    const auto row = [&](const X& from) {
      for (int k = 0; k < w; ++k) made[z(k)] -= panel[k] * from;
      panel += w;
    };
    for (const SymbolicFactor::Ancestor* i = ancestors + node.ancestors_begin; i != ancestors + node.ancestors_end;
         ++i) {
      const X* const from = x + i->first;
      if (i->width == 3)
        row(from[0]), row(from[1]), row(from[2]);
      else
        for (int r = 0; r < i->width; ++r) row(from[r]);
    }
    for (int k = 0; k < w; ++k) own[k] = made[z(k)];
  }

  // The same for three rows of one block, in a SIMD vector whose last lane means nothing.
  static void backward_three(const SymbolicFactor::Ancestor* ancestors, const SymbolicFactor::Elimination& node,
                             const double* values, double* x) {
    const auto row = [](const double* from) {
      Vec4d four;
      std::memcpy(&four, from, sizeof four);
      return four;
    };
    double* const own = x + node.first;
    const double* const D = values + node.diagonal;  // symmetric: rows are columns
    // Each of three sums waits for its own last product alone.
    Vec4d x0 = row(D) * own[0], x1 = row(D + 3) * own[1], x2 = row(D + 6) * own[2];
    const double* panel = values + node.panel;
    for (const SymbolicFactor::Ancestor* i = ancestors + node.ancestors_begin; i != ancestors + node.ancestors_end;
         ++i) {
      const double* const from = x + i->first;
      if (i->width == 3) {
        x0 -= row(panel) * from[0], x1 -= row(panel + 3) * from[1], x2 -= row(panel + 6) * from[2];
        panel += 9;
      } else {
        for (int r = 0; r < i->width; ++r, panel += 3) x0 -= row(panel) * from[r];
      }
    }
    const Vec4d made = x0 + (x1 + x2);
    own[0] = made[0], own[1] = made[1], own[2] = made[2];
  }

  AlignedVector<Real> values_;    // by node: D, and its panel
  AlignedVector<Real> diagonal_;  // of G, by row
  AlignedVector<Real> panel_;
  std::vector<SymbolicFactor::Elimination> eliminations_;  // of the nodes: solves of long chains read less memory
  AlignedVector<Block3x3> blocks_3x3_;
  std::array<std::vector<Dropped>, SimdTraits<Real>::count> dropped_;
  AlignedVector<Real> couplings_, high_degree_masses_;  // U, then D⁻¹ U, by node and body; H
  AlignedVector<Real> lengths_;
  std::array<HighDegreeBodies, SimdTraits<Real>::count> high_degree_;
  std::array<std::vector<Kept>, SimdTraits<Real>::count> kept_;
  bool drops_ = false;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
