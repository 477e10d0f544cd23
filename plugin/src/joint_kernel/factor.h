// The block L D Lᵀ of G = A M⁻¹ Aᵀ in the order of a SymbolicFactor (T7), of one block or of several alike side by side
// in the lanes of a vector (Real); and solves by it, of as many right-hand sides side by side as X has lanes. Rows that
// depend on rows before them are dropped: their multipliers come out as zero. Hubs are no part of that G, but unknowns
// of their own (HighDegreeBodies).
#pragma once

#include "joint_kernel/high_degree_bodies.h"
#include "joint_kernel/null_space.h"
#include "joint_kernel/symbolic.h"
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
    values_.assign(z(p.values) + 1, Real{});  // and one that backward() reads beyond
    panel_.assign(z(p.widest_panel), Real{});
    eliminations_.assign(p.nodes.begin(), p.nodes.end());
    nines_.assign(Lanes<Real>::count == 1 ? z(p.widest_panel / 3) : 0, Nine{});
    const int columns = p.hub_columns * static_cast<int>(p.hubs.size());
    holds_.assign(z(p.hold_values), Real{});
    hub_masses_.assign(p.hubs.size() * (p.hubs.size() + 1) / 2 * z(hub_block), Real{});
    lengths_.assign(columns > 0 ? z(p.rows) : 0, Real{});
    for (auto& lane : hubs_)
      if (columns > 0) lane.lay_out(columns, p.rows);
  }

  /// Zeros, for G to be summed into the places that the pattern names: of its diagonal blocks the lower half.
  Real* clear() {
    for (auto* x : {&values_, &holds_, &hub_masses_, &lengths_}) std::fill(x->begin(), x->end(), Real{});
    return values_.data();
  }
  /// Likewise for what joints have in the columns of hubs, SymbolicFactor::hub_stride apart.
  Real* holds() { return holds_.data(); }
  /// By row, for what hubs add to the diagonal of G.
  Real* lengths() { return lengths_.data(); }
  /// For the mass of one, whole, likewise apart.
  Real* hub_mass(int hub) { return hub_masses_.data() + block_of(hub, hub); }

  /// In the place of D stands D⁻¹, whole. @return positive where every pivot is far from zero or, if dependent rows are
  /// to be dropped, as near to it as rounding comes
  Real factor(const SymbolicFactor& p) {
    for (auto& lane : dropped_) lane.clear();
    for (const SymbolicFactor::Node& node : p.nodes)
      for (int r = 0; r < node.width; ++r)
        diagonal_[z(node.first + r)] = values_[z(node.diagonal + r * node.width + r)];
    if (p.hubs.empty()) return drops_ ? factor_nodes<true, false>(p) : factor_nodes<false, false>(p);
    return with_hubs(p, [&] { return drops_ ? factor_nodes<true, true>(p) : factor_nodes<false, true>(p); });
  }

  /// From now on. Not from the first: most never need to, and looking takes time.
  void drop_dependent() { drops_ = true; }
  bool drops() const { return drops_; }

  /// Of a lane: whether all rows are in the factor.
  bool whole(int lane) const {
    const HighDegreeBodies& hubs = hubs_[z(lane)];
    return dropped_[z(lane)].empty() || (hubs.count() > 0 && hubs.count() == static_cast<int>(hubs.kept().size()));
  }

  /// The null vectors of Aᵀ that its dropped rows stand for.
  void find_null_space(const SymbolicFactor& p, int lane, KernelNullSpace& to) const {
    to.clear();
    for (const Dropped& rows : dropped_[z(lane)])
      to.add(p, rows.node, rows.count, rows.own.data(),
             [&](int place) { return Lanes<Real>::get(values_[z(place)], lane); });
    if (!p.hubs.empty()) to.hold(hubs_[z(lane)]);
  }

  /// x ← G⁻¹ x, by row of the pattern.
  template <class X>
  void solve(const SymbolicFactor& p, X* x) const {
    if (!p.hubs.empty()) return solve_with_hubs(p, x);
    const Real* const values = values_.data();
    const SymbolicFactor::Below* const belows = p.belows.data();
    for (const SymbolicFactor::Elimination& node : eliminations_)
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(belows, node, values, x); });
    for (auto node = eliminations_.rbegin(); node != eliminations_.rend(); ++node)
      of_width(node->width, [&](auto width) { backward<decltype(width)::value>(belows, *node, values, x); });
  }

  /// The same for rows of some nodes, in order, with all that their elimination touches, all where there are hubs:
  /// zeros elsewhere, unread.
  template <class X>
  void solve(const SymbolicFactor& p, const std::vector<int>& nodes, X* x) const {
    if (!p.hubs.empty()) return solve_with_hubs(p, x);
    const Real* const values = values_.data();
    const SymbolicFactor::Below* const belows = p.belows.data();
    for (const int i : nodes) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(belows, node, values, x); });
    }
    for (auto i = nodes.rbegin(); i != nodes.rend(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(*i)];
      of_width(node.width, [&](auto width) { backward<decltype(width)::value>(belows, node, values, x); });
    }
  }

  /// Joints of usual widths have loops of known lengths; the others are of width 0, and know their own.
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
  // Relative to the diagonal: rows are independent, for what counts as dependent is smaller by as many digits as there
  // are between no_pivot and here, and one refinement, of what 1e-16 / 1e-8 leaves, has the multipliers to rounding.
  static constexpr double least_pivot = 1e-8;
  // And what is left of a row that depends on others: the square of its distance from them, which is no more than gaps
  // of the pose, and rounding, which is more.
  static constexpr double no_pivot = 1e-12;
  static constexpr int hub_columns = SymbolicFactor::hub_columns, hub_stride = SymbolicFactor::hub_stride,
                       hub_block = hub_columns * hub_stride;
  using OfNode = std::array<double, SymbolicFactor::widest * SymbolicFactor::widest>;
  struct Dropped {  // of a node
    int node, count;
    OfNode own;                                   // by dropped row: its null vector there
    std::array<int, SymbolicFactor::widest> row;  // and which it is
    OfNode coupled;                               // likewise, what it has of S in rows that are not; with hubs
  };
  struct Kept {  // dropped rows that have multipliers after all: what they tell of hubs no other does
    int first, width, row;
    std::array<double, SymbolicFactor::widest> own, coupled;
  };
  static constexpr std::size_t z(int i) { return static_cast<std::size_t>(i); }

  // Of a width that is known each on its own, so that the loops within are of known lengths, too.
  template <int W, class Visit>
  static void each(int w, const Visit& visit) {
    if constexpr (W > 0) [&]<int... i>(std::integer_sequence<int, i...>) {
        (visit(std::integral_constant<int, i>{}), ...);
      }
    (std::make_integer_sequence<int, W>{});
    else for (int i = 0; i < w; ++i) visit(i);
  }

  template <bool drops, bool hubs>
  Real factor_nodes(const SymbolicFactor& p) {
    Real margin = Lanes<Real>::all(1);
    for (int i = 0; i < (hubs ? p.eliminated : static_cast<int>(p.nodes.size())); ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { factor_node<decltype(width)::value, drops, hubs>(p, node, margin); });
    }
    return margin;
  }

  template <int W, bool drops, bool hubs>
  void factor_node(const SymbolicFactor& p, const SymbolicFactor::Node& node, Real& margin) {
    const int w = W > 0 ? W : node.width;
    Real* const D = values_.data() + node.diagonal;
    if (!invert<W, !drops>(D, diagonal_.data() + node.first, w, D, margin)) [[unlikely]]
      drop<W>(p, node, margin);
    if constexpr (hubs) hold<W>(p, node);
    if (node.height == 0) return;
    Real* const panel = values_.data() + node.panel;
    Real* const made = panel_.data();
    std::array<Real, SymbolicFactor::widest * SymbolicFactor::widest> inverse;
    for (int k = 0; k < w * w; ++k) inverse[z(k)] = D[k];
    for (int r = 0; r < node.height; ++r) {
      std::array<Real, SymbolicFactor::widest> row{};
      for (int k = 0; k < w; ++k) row[z(k)] = panel[r * w + k];
      for (int c = 0; c < w; ++c) {
        Real sum = row[0] * inverse[z(c)];
        for (int k = 1; k < w; ++k) sum += row[z(k)] * inverse[z(k * w + c)];
        made[r * w + c] = sum;
      }
    }
    if constexpr (W == 3 && std::is_same_v<Real, double>) {
      if (node.threes) return subtract_threes(p, node, made);
    }
    const int* update = p.updates.data() + node.updates;
    for (int i = node.below; i < node.below_end; ++i) {
      const SymbolicFactor::Below& to = p.belows[z(i)];
      for (int j = node.below; j <= i; ++j) {
        const SymbolicFactor::Below& by = p.belows[z(j)];
        Real* const target = values_.data() + *update++;
        if (to.width == 3 && by.width == 3)
          subtract<W, 3>(made + to.offset * w, panel + by.offset * w, w, 3, 3, i == j, target);
        else
          subtract<W, 0>(made + to.offset * w, panel + by.offset * w, w, to.width, by.width, i == j, target);
      }
    }
    std::copy(made, made + node.height * w, panel);
  }

  // The same for three rows on nothing but such of one block: nine numbers as two vectors of four and one.
  struct Nine {
    Four a, b;
    double c;
    void add(const Nine& x, const Nine& y) { a += x.a * y.a, b += x.b * y.b, c += x.c * y.c; }
  };
  void subtract_threes(const SymbolicFactor& p, const SymbolicFactor::Node& node, const double* made) {
    const int count = node.below_end - node.below;
    const double* const panel = values_.data() + node.panel;
    Nine* const columns = nines_.data();
    for (int j = 0; j < count; ++j)
      for (int k = 0; k < 3; ++k) {
        const double x = panel[9 * j + k], y = panel[9 * j + 3 + k], w = panel[9 * j + 6 + k];
        columns[3 * j + k] = Nine{Four{x, y, w, x}, Four{y, w, x, y}, w};
      }
    const int* update = p.updates.data() + node.updates;
    for (int i = 0; i < count; ++i) {
      std::array<Nine, 3> rows;
      for (int k = 0; k < 3; ++k, ++made) {
        const double x = made[0], y = made[3], w = made[6];
        rows[z(k)] = Nine{Four{x, x, x, y}, Four{y, y, w, w}, w};
      }
      made += 6;
      for (int j = 0; j <= i; ++j) {  // of the diagonal more than anybody reads
        double* const to = values_.data() + *update++;
        const Nine* const by = columns + 3 * j;
        Nine sum{rows[0].a * by[0].a, rows[0].b * by[0].b, rows[0].c * by[0].c};
        sum.add(rows[1], by[1]);
        sum.add(rows[2], by[2]);
        Four a, b;
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
    std::array<Real, SymbolicFactor::widest * SymbolicFactor::widest> by;
    for (int k = 0; k < (R > 0 ? R : columns) * w; ++k) by[z(k)] = b[k];
    for (int r = 0; r<(R > 0 ? R : rows); ++r, a += w, to += R> 0 ? R : columns) {
      std::array<Real, SymbolicFactor::widest> row{};
      for (int k = 0; k < w; ++k) row[z(k)] = a[k];
      for (int c = 0; c < (lower ? r + 1 : R > 0 ? R : columns); ++c) {
        Real sum = row[0] * by[z(c * w)];
        for (int k = 1; k < w; ++k) sum += row[z(k)] * by[z(c * w + k)];
        to[c] -= sum;
      }
    }
  }

  // `to` ← D⁻¹, whole, from the lower half; unless always, only if its pivots are clear in all lanes.
  // @return whether it did; margin: less where they are not, which is not positive where they are not far from zero
  template <int W, bool always>
  static bool invert(const Real* D, const Real* diagonal, int w, Real* to, Real& margin) {
    constexpr int widest = SymbolicFactor::widest;
    if constexpr (W == 3) {  // its adjugate: one division
      const Real a = D[0], b = D[3], c = D[6], d = D[4], e = D[7], f = D[8];
      const Real cxx = d * f - e * e, cxy = c * e - b * f, cxz = b * e - c * d, minor = a * d - b * b;
      const Real det = a * cxx + b * cxy + c * cxz, inverse = 1 / det;
      // Pivots a, minor / a, det / minor, each against its diagonal.
      const Real clear = smaller(a - least_pivot * diagonal[0], smaller(minor - least_pivot * (a * diagonal[1]),
                                                                        det - least_pivot * (minor * diagonal[2])));
      if (!always && !positive(clear)) return false;
      margin = smaller(margin, clear);
      to[0] = cxx * inverse, to[4] = (a * f - c * c) * inverse, to[8] = minor * inverse;
      to[1] = to[3] = cxy * inverse, to[2] = to[6] = cxz * inverse, to[5] = to[7] = (b * c - a * e) * inverse;
      return true;
    } else {
      std::array<Real, widest * widest> l;  // L below its ones, then its inverse
      std::array<Real, widest> d;
      Real clear = Lanes<Real>::all(1);
      each<W>(w, [&](auto at) {
        const int i = at;
        for (int j = 0; j <= i; ++j) {
          Real sum = D[i * w + j];
          for (int k = 0; k < j; ++k) sum -= l[z(i * widest + k)] * l[z(j * widest + k)] * d[z(k)];
          if (j < i)
            l[z(i * widest + j)] = sum / d[z(j)];
          else
            d[z(i)] = sum;
        }
        clear = smaller(clear, d[z(i)] - least_pivot * diagonal[i]);
      });
      if (!always && !positive(clear)) return false;
      margin = smaller(margin, clear);
      for (int i = 0; i < w; ++i) d[z(i)] = 1 / d[z(i)];
      invert_made<W>(l, d, w, to);
      return true;
    }
  }

  // `to` ← L⁻ᵀ d L⁻¹, whole. l is L below its ones, overwritten by its inverse.
  template <int W>
  static void invert_made(std::array<Real, SymbolicFactor::widest * SymbolicFactor::widest>& l,
                          const std::array<Real, SymbolicFactor::widest>& d, int width, Real* to) {
    constexpr int widest = SymbolicFactor::widest;
    const int w = W > 0 ? W : width;
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j < i; ++j) {
        Real sum = -l[z(i * widest + j)];
        for (int k = j + 1; k < i; ++k) sum -= l[z(i * widest + k)] * l[z(k * widest + j)];
        l[z(i * widest + j)] = sum;  // rows above are inverted already
      }
    });
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j <= i; ++j) {  // Σ_k≥i (L⁻¹)_ki d_k (L⁻¹)_kj
        Real sum = i == j ? d[z(i)] : d[z(i)] * l[z(i * widest + j)];
        for (int k = i + 1; k < w; ++k) sum += l[z(k * widest + i)] * d[z(k)] * l[z(k * widest + j)];
        to[i * w + j] = to[j * w + i] = sum;
      }
    });
  }

  // D ← D⁻¹ of a joint with pivots that are not clear. In those lanes rows that depend on rows before them are left
  // out, zeros in D⁻¹; in the others it is what it always is.
  template <int W>
  [[gnu::noinline]] void drop(const SymbolicFactor& p, const SymbolicFactor::Node& node, Real& margin) {
    constexpr int widest = SymbolicFactor::widest;
    const int w = W > 0 ? W : node.width;
    Real* const D = values_.data() + node.diagonal;
    const Real* const diagonal = diagonal_.data() + node.first;
    const Real one = Lanes<Real>::all(1);
    std::array<Real, widest * widest> S, others, l;
    for (int i = 0; i < w; ++i)
      for (int j = 0; j <= i; ++j) S[z(i * w + j)] = S[z(j * w + i)] = D[i * w + j];
    Real clear{};
    if constexpr (Lanes<Real>::count > 1) {  // else it is known not to be
      clear = one;
      invert<W, true>(S.data(), diagonal, w, others.data(), clear);
    }
    std::array<Real, widest> d, kept;
    Real left = one;
    each<W>(w, [&](auto at) {
      const int i = at;
      for (int j = 0; j <= i; ++j) {
        Real sum = S[z(i * w + j)];
        for (int k = 0; k < j; ++k) sum -= l[z(i * widest + k)] * l[z(j * widest + k)] * d[z(k)];
        if (j < i) {
          l[z(i * widest + j)] = kept[z(j)] * (sum / d[z(j)]);
          continue;
        }
        const Real none = no_pivot * diagonal[i], size = magnitude(sum);
        d[z(i)] = where_below(size, none, one, sum);
        kept[z(i)] = where_below(size, none, Real{}, one);
        left = smaller(left, where_below(size, none, one, sum - least_pivot * diagonal[i]));
      }
    });
    for (int i = 0; i < w; ++i) d[z(i)] = kept[z(i)] / d[z(i)];
    invert_made<W>(l, d, w, D);
    if constexpr (Lanes<Real>::count > 1)
      for (int k = 0; k < w * w; ++k) D[k] = where_below(Real{}, clear, others[z(k)], D[k]);
    margin = smaller(margin, where_below(Real{}, clear, clear, left));
    for (int lane = 0; lane < Lanes<Real>::count; ++lane) {
      const auto get = [&](const Real& x) { return Lanes<Real>::get(x, lane); };
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
        if (p.hubs.empty()) continue;
        rows.row[z(rows.count - 1)] = j;
        for (int i = 0; i < w; ++i) rows.coupled[z(w * (rows.count - 1) + i)] = get(kept[z(i)]) * get(S[z(i * w + j)]);
      }
      if (rows.count > 0) dropped_[z(lane)].push_back(rows);
    }
  }

  // ---- hubs

  // Of one and itself or one before it.
  static std::size_t block_of(int i, int j) { return z((i * (i + 1) / 2 + j) * hub_block); }

  // What a joint has in the columns of the hubs, U, after those eliminated into it: D⁻¹ U in its place, and of what
  // comes after it, and of H, their share.
  template <int W>
  void hold(const SymbolicFactor& p, const SymbolicFactor::Node& node) {
    const int w = W > 0 ? W : node.width, index = static_cast<int>(&node - p.nodes.data());
    for (int lane = 0; lane < Lanes<Real>::count; ++lane)
      if (auto& rows = dropped_[z(lane)]; !rows.empty() && rows.back().node == index)
        tell_hubs(p, node, rows.back(), lane);
    const Real *const D = values_.data() + node.diagonal, *const panel = values_.data() + node.panel;
    const int* update = p.hold_updates.data() + node.hold_updates;
    std::array<HubRow<Real>, SymbolicFactor::widest> raw, made;
    for (int i = node.holds; i < node.holds_end; ++i) {
      Real* const own = holds_.data() + p.holds[z(i)].values;
      for (int r = 0; r < w; ++r) raw[z(r)] = HubRow<Real>::load(own + r * hub_stride);
      for (int r = 0; r < w; ++r) {
        HubRow<Real> sum;
        for (int k = 0; k < w; ++k) sum.add(D[r * w + k], raw[z(k)]);
        sum.store(own + r * hub_stride);
        made[z(r)] = sum;
      }
      for (int j = node.holds; j <= i; ++j) {
        const Real* const other = holds_.data() + p.holds[z(j)].values;
        Real* to = hub_masses_.data() + block_of(p.holds[z(j)].hub, p.holds[z(i)].hub);
        for (int a = 0; a < hub_columns; ++a, to += hub_stride) {
          HubRow<Real> sum = HubRow<Real>::load(to);
          for (int k = 0; k < w; ++k) sum.add(other[k * hub_stride + a], raw[z(k)]);
          sum.store(to);
        }
      }
      for (int j = node.below; j < node.below_end; ++j) {
        const SymbolicFactor::Below& below = p.belows[z(j)];
        Real* to = holds_.data() + *update++;
        const Real* l = panel + below.offset * w;
        for (int r = 0; r < below.width; ++r, to += hub_stride, l += w) {
          HubRow<Real> sum, left = HubRow<Real>::load(to);
          for (int k = 0; k < w; ++k) sum.add(l[k], made[z(k)]);
          left.subtract(sum);
          left.store(to);
        }
      }
    }
  }

  // What dropped rows of a joint say of the hubs.
  void tell_hubs(const SymbolicFactor& p, const SymbolicFactor::Node& node, const Dropped& rows, int lane) {
    HighDegreeBodies& hubs = hubs_[z(lane)];
    for (int i = 0; i < rows.count; ++i) {
      const int row = node.first + rows.row[z(i)];
      hubs.add(Lanes<Real>::get(diagonal_[z(row)], lane) + Lanes<Real>::get(lengths_[z(row)], lane));
      if (p.hubs.size() > 1)
        for (int c = 0; c < hub_columns * static_cast<int>(p.hubs.size()); ++c) hubs.set(c, 0);
      for (int j = node.holds; j < node.holds_end; ++j) {
        const SymbolicFactor::Hold& on = p.holds[z(j)];
        std::array<double, hub_stride> sum;
        if constexpr (std::is_same_v<Real, double>) {
          HubRow<double> said;
          for (int k = 0; k < node.width; ++k)
            said.add(rows.own[z(node.width * i + k)], HubRow<double>::load(holds_.data() + on.values + k * hub_stride));
          said.store(sum.data());
        } else {
          sum.fill(0);
          for (int k = 0; k < node.width; ++k)
            for (int c = 0; c < hub_columns; ++c)
              sum[z(c)] +=
                  rows.own[z(node.width * i + k)] * Lanes<Real>::get(holds_[z(on.values + k * hub_stride + c)], lane);
        }
        for (int c = 0; c < hub_columns; ++c) hubs.set(hub_columns * on.hub + c, sum[z(c)]);
      }
      if (node.holds == node.holds_end)
        for (int c = 0; c < hub_columns; ++c) hubs.set(c, 0);
    }
  }

  template <class Factor>
  Real with_hubs(const SymbolicFactor& p, const Factor& factor_all) {
    for (HighDegreeBodies& lane : hubs_) lane.clear();
    Real margin = factor_all();
    for (int lane = 0; lane < Lanes<Real>::count; ++lane) {
      for (int i = p.eliminated; i < static_cast<int>(p.nodes.size()); ++i) {
        const SymbolicFactor::Node& node = p.nodes[z(i)];
        Dropped rows{i, node.width, {}, {}, {}};
        for (int r = 0; r < node.width; ++r) rows.row[z(r)] = r, rows.own[z(r * node.width + r)] = 1;
        dropped_[z(lane)].push_back(rows);
        tell_hubs(p, node, rows, lane);
      }
      if (!(Lanes<Real>::get(margin, lane) > 0)) continue;
      HighDegreeBodies& hubs = hubs_[z(lane)];
      for (int i = 0; i < static_cast<int>(p.hubs.size()); ++i)
        for (int j = 0; j <= i; ++j)
          for (int a = 0; a < hub_columns; ++a)
            for (int b = 0; b < (i == j ? a + 1 : hub_columns); ++b)
              hubs.mass(hub_columns * i + a, hub_columns * j + b) =
                  Lanes<Real>::get(hub_masses_[block_of(i, j) + z(a * hub_stride + b)], lane);
      const double clear = hubs.decide(least_pivot, no_pivot);
      if (!(clear > 0)) Lanes<Real>::set(margin, lane, clear);
      keep(p, lane);
    }
    return margin;
  }

  // The multipliers of dropped rows that are kept pass through D⁻¹ as they are.
  void keep(const SymbolicFactor& p, int lane) {
    kept_[z(lane)].clear();
    for (int of : hubs_[z(lane)].kept()) {
      const Dropped* rows = dropped_[z(lane)].data();
      for (; of >= rows->count; ++rows) of -= rows->count;
      const SymbolicFactor::Node& node = p.nodes[z(rows->node)];
      const int w = node.width;
      Kept kept{node.first, w, rows->row[z(of)], {}, {}};
      std::copy_n(rows->own.begin() + of * w, w, kept.own.begin());
      std::copy_n(rows->coupled.begin() + of * w, w, kept.coupled.begin());
      kept_[z(lane)].push_back(kept);
      Lanes<Real>::set(values_[z(node.diagonal + kept.row * w + kept.row)], lane, 1);
    }
  }

  template <class X>
  void solve_with_hubs(const SymbolicFactor& p, X* x) const {
    const Real* const values = values_.data();
    const SymbolicFactor::Below* const belows = p.belows.data();
    std::array<X, z(SymbolicFactor::most_hubs * hub_stride)> u;
    std::fill_n(u.begin(), p.hubs.size() * z(hub_stride), X{});
    for (int i = 0; i < p.eliminated; ++i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(belows, node, values, x); });
      for (int j = node.holds; j < node.holds_end; ++j) {
        const SymbolicFactor::Hold& on = p.holds[z(j)];
        const Real* from = holds_.data() + on.values;
        HubRow<X> sum = HubRow<X>::load(u.data() + hub_stride * on.hub);
        for (int k = 0; k < node.width; ++k, from += hub_stride)
          add_to(sum, x[node.first + k], HubRow<Real>::load(from));
        sum.store(u.data() + hub_stride * on.hub);
      }
    }
    for (int lane = 0; lane < Lanes<X>::count; ++lane) solve_hubs(p, lane, u.data(), x);
    for (int i = p.eliminated - 1; i >= 0; --i) {
      const SymbolicFactor::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { backward<decltype(width)::value>(belows, node, values, x); });
      for (int j = node.holds; j < node.holds_end; ++j) {
        const SymbolicFactor::Hold& on = p.holds[z(j)];
        const Real* from = holds_.data() + on.values;
        const HubRow<X> by = HubRow<X>::load(u.data() + hub_stride * on.hub);
        for (int k = 0; k < node.width; ++k, from += hub_stride)
          x[node.first + k] -= along(HubRow<Real>::load(from), by);
      }
    }
  }

  // In between: what the hubs do, and the multipliers of rows that are kept for them.
  template <class X>
  void solve_hubs(const SymbolicFactor& p, int lane, X* u, X* x) const {
    const std::size_t of = Lanes<Real>::count == 1 ? 0 : z(lane);
    constexpr std::size_t most = z(hub_columns * SymbolicFactor::most_hubs);
    const int hubs = static_cast<int>(p.hubs.size());
    std::array<double, most> moves, mu;
    for (int i = 0; i < hubs; ++i)
      for (int c = 0; c < hub_columns; ++c) moves[z(hub_columns * i + c)] = Lanes<X>::get(u[hub_stride * i + c], lane);
    double* to = mu.data();
    for (const Kept& kept : kept_[of]) {
      double sum = 0;
      for (int k = 0; k < kept.width; ++k) sum += kept.own[z(k)] * Lanes<X>::get(x[kept.first + k], lane);
      *to++ = sum;
    }
    hubs_[of].solve(moves.data(), mu.data());
    for (int i = 0; i < hubs; ++i)
      for (int c = 0; c < hub_columns; ++c) Lanes<X>::set(u[hub_stride * i + c], lane, moves[z(hub_columns * i + c)]);
    for (int i = p.eliminated; i < static_cast<int>(p.nodes.size()); ++i)
      for (int k = 0; k < p.nodes[z(i)].width; ++k) Lanes<X>::set(x[p.nodes[z(i)].first + k], lane, 0);
    to = mu.data();
    for (const Kept& kept : kept_[of]) Lanes<X>::set(x[kept.first + kept.row], lane, *to++);
    to = mu.data();
    for (const Kept& kept : kept_[of]) {
      for (int k = 0; k < kept.width; ++k) {
        X& own = x[kept.first + k];
        Lanes<X>::set(own, lane, Lanes<X>::get(own, lane) - kept.coupled[z(k)] * *to);
      }
      ++to;
    }
  }

  template <int W, class X>
  [[gnu::always_inline]] static void forward(const SymbolicFactor::Below* belows,
                                             const SymbolicFactor::Elimination& node, const Real* values, X* x) {
    const int w = W > 0 ? W : node.width;
    std::array<X, SymbolicFactor::widest> own{};
    for (int k = 0; k < w; ++k) own[z(k)] = x[node.first + k];
    const Real* panel = values + node.panel;
    const auto row = [&](X& to) {
      X sum = panel[0] * own[0];
      for (int k = 1; k < w; ++k) sum += panel[k] * own[z(k)];
      to -= sum;
      panel += w;
    };
    for (const SymbolicFactor::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      X* const to = x + i->first;
      if (i->width == 3)
        row(to[0]), row(to[1]), row(to[2]);
      else
        for (int r = 0; r < i->width; ++r) row(to[r]);
    }
  }

  template <int W, class X>
  [[gnu::always_inline]] static void backward(const SymbolicFactor::Below* belows,
                                              const SymbolicFactor::Elimination& node, const Real* values, X* x) {
    if constexpr (W == 3 && std::is_same_v<Real, double> && std::is_same_v<X, double>) {
      backward_three(belows, node, values, x);
      return;
    }
    if constexpr (W == 3) {  // in three sums, to the last bit as backward_three() has them
      X* const own = x + node.first;
      const Real *const D = values + node.diagonal, *panel = values + node.panel;
      std::array<std::array<X, 3>, 3> sums;
      for (int k = 0; k < 3; ++k)
        for (int r = 0; r < 3; ++r) sums[z(k)][z(r)] = D[3 * k + r] * own[k];
      for (const SymbolicFactor::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
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
    std::array<X, SymbolicFactor::widest> made{}, given{};
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
    for (const SymbolicFactor::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      const X* const from = x + i->first;
      if (i->width == 3)
        row(from[0]), row(from[1]), row(from[2]);
      else
        for (int r = 0; r < i->width; ++r) row(from[r]);
    }
    for (int k = 0; k < w; ++k) own[k] = made[z(k)];
  }

  // The same for three rows of one block, in the lanes of a vector whose last is nothing.
  static void backward_three(const SymbolicFactor::Below* belows, const SymbolicFactor::Elimination& node,
                             const double* values, double* x) {
    const auto row = [](const double* from) {
      Four four;
      std::memcpy(&four, from, sizeof four);
      return four;
    };
    double* const own = x + node.first;
    const double* const D = values + node.diagonal;  // symmetric: rows are columns
    // Three sums: each waits for its last product alone.
    Four x0 = row(D) * own[0], x1 = row(D + 3) * own[1], x2 = row(D + 6) * own[2];
    const double* panel = values + node.panel;
    for (const SymbolicFactor::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      const double* const from = x + i->first;
      if (i->width == 3) {
        x0 -= row(panel) * from[0], x1 -= row(panel + 3) * from[1], x2 -= row(panel + 6) * from[2];
        panel += 9;
      } else {
        for (int r = 0; r < i->width; ++r, panel += 3) x0 -= row(panel) * from[r];
      }
    }
    const Four made = x0 + (x1 + x2);
    own[0] = made[0], own[1] = made[1], own[2] = made[2];
  }

  Row<Real> values_;    // by node D and what is below it
  Row<Real> diagonal_;  // of G, by row
  Row<Real> panel_;
  std::vector<SymbolicFactor::Elimination>
      eliminations_;  // of the pattern's joints, for solves to pass over in long chains
  Row<Nine> nines_;
  std::array<std::vector<Dropped>, Lanes<Real>::count> dropped_;
  Row<Real> holds_, hub_masses_;  // U by node and hub, then D⁻¹ U; H
  Row<Real> lengths_;
  std::array<HighDegreeBodies, Lanes<Real>::count> hubs_;
  std::array<std::vector<Kept>, Lanes<Real>::count> kept_;
  bool drops_ = false;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
