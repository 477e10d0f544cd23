// The block L D Lᵀ of G = A M⁻¹ Aᵀ in the order of a JointPattern (T7), of one block or of several alike side by side
// in the lanes of a vector (Real); and solves by it, of as many right-hand sides side by side as X has lanes. Rows that
// depend on rows before them are dropped: their multipliers come out as zero.
#pragma once

#include "joint_null_space.h"
#include "joint_pattern.h"
#include "lanes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_LANES {

template <class Real>
class JointFactor {
 public:
  void lay_out(const JointPattern& p) {
    diagonal_.assign(z(p.rows), Real{});
    values_.assign(z(p.values) + 1, Real{});  // and one that backward() reads beyond
    panel_.assign(z(p.widest_panel), Real{});
  }

  /// Zeros, for G to be summed into the places that the pattern names: of its diagonal blocks the lower half.
  Real* clear() {
    std::fill(values_.begin(), values_.end(), Real{});
    return values_.data();
  }

  /// In the place of D stands D⁻¹, whole. @return positive where every pivot is far from zero or, if dependent rows are
  /// to be dropped, as near to it as rounding comes
  Real factor(const JointPattern& p) {
    for (auto& lane : dropped_) lane.clear();
    for (const JointPattern::Node& node : p.nodes)
      for (int r = 0; r < node.width; ++r)
        diagonal_[z(node.first + r)] = values_[z(node.diagonal + r * node.width + r)];
    return drops_ ? factor_nodes<true>(p) : factor_nodes<false>(p);
  }

  /// From now on. Not from the first: most never need to, and looking takes time.
  void drop_dependent() { drops_ = true; }
  bool drops() const { return drops_; }

  /// Of a lane: whether all rows are in the factor.
  bool whole(int lane) const { return dropped_[z(lane)].empty(); }

  /// The null vectors of Aᵀ that its dropped rows stand for.
  void find_null_space(const JointPattern& p, int lane, JointNullSpace& to) const {
    to.clear();
    for (const Dropped& rows : dropped_[z(lane)])
      to.add(p, rows.node, rows.count, rows.own.data(),
             [&](int place) { return Lanes<Real>::get(values_[z(place)], lane); });
  }

  /// x ← G⁻¹ x, by row of the pattern.
  template <class X>
  void solve(const JointPattern& p, X* x) const {
    const Real* const values = values_.data();
    const JointPattern::Below* const belows = p.belows.data();
    for (const JointPattern::Node& node : p.nodes)
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(belows, node, values, x); });
    for (auto node = p.nodes.rbegin(); node != p.nodes.rend(); ++node)
      of_width(node->width, [&](auto width) { backward<decltype(width)::value>(belows, *node, values, x); });
  }

  /// The same for rows of some nodes, in order, with all that their elimination touches: zeros elsewhere, unread.
  template <class X>
  void solve(const JointPattern& p, const std::vector<int>& nodes, X* x) const {
    const Real* const values = values_.data();
    const JointPattern::Below* const belows = p.belows.data();
    for (const int i : nodes) {
      const JointPattern::Node& node = p.nodes[z(i)];
      of_width(node.width, [&](auto width) { forward<decltype(width)::value>(belows, node, values, x); });
    }
    for (auto i = nodes.rbegin(); i != nodes.rend(); ++i) {
      const JointPattern::Node& node = p.nodes[z(*i)];
      of_width(node.width, [&](auto width) { backward<decltype(width)::value>(belows, node, values, x); });
    }
  }

 private:
  // Relative to the diagonal, above rounding and above what counts as dependent by as many digits as there are between
  // 1e-13 and here: rows are independent, and one refinement has the multipliers to rounding.
  static constexpr double least_pivot = 1e-5;
  // And what is left of a row that depends on others: the square of its distance from them, which is no more than gaps
  // of the pose, and rounding, which is more.
  static constexpr double no_pivot = 1e-12;
  struct Dropped {  // of a node
    int node, count;
    std::array<double, JointPattern::widest * JointPattern::widest> own;  // by dropped row: its null vector there
  };
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  // Joints of usual widths have loops of known lengths; the others are of width 0, and know their own.
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

  // Of a width that is known each on its own, so that the loops within are of known lengths, too.
  template <int W, class Visit>
  static void each(int w, const Visit& visit) {
    if constexpr (W > 0) [&]<int... i>(std::integer_sequence<int, i...>) {
        (visit(std::integral_constant<int, i>{}), ...);
      }
    (std::make_integer_sequence<int, W>{});
    else for (int i = 0; i < w; ++i) visit(i);
  }

  template <bool drops>
  Real factor_nodes(const JointPattern& p) {
    Real margin = Lanes<Real>::all(1);
    for (const JointPattern::Node& node : p.nodes)
      of_width(node.width, [&](auto width) { factor_node<decltype(width)::value, drops>(p, node, margin); });
    return margin;
  }

  template <int W, bool drops>
  void factor_node(const JointPattern& p, const JointPattern::Node& node, Real& margin) {
    const int w = W > 0 ? W : node.width;
    Real* const D = values_.data() + node.diagonal;
    if (!invert<W, !drops>(D, diagonal_.data() + node.first, w, D, margin)) [[unlikely]]
      drop<W>(p, node, margin);
    if (node.height == 0) return;
    Real* const panel = values_.data() + node.panel;
    Real* const made = panel_.data();
    std::array<Real, JointPattern::widest * JointPattern::widest> inverse;
    for (int k = 0; k < w * w; ++k) inverse[z(k)] = D[k];
    for (int r = 0; r < node.height; ++r) {
      std::array<Real, JointPattern::widest> row{};
      for (int k = 0; k < w; ++k) row[z(k)] = panel[r * w + k];
      for (int c = 0; c < w; ++c) {
        Real sum = row[0] * inverse[z(c)];
        for (int k = 1; k < w; ++k) sum += row[z(k)] * inverse[z(k * w + c)];
        made[r * w + c] = sum;
      }
    }
    const int* update = p.updates.data() + node.updates;
    for (int i = node.below; i < node.below_end; ++i) {
      const JointPattern::Below& to = p.belows[z(i)];
      for (int j = node.below; j <= i; ++j) {
        const JointPattern::Below& by = p.belows[z(j)];
        Real* const target = values_.data() + *update++;
        if (to.width == 3 && by.width == 3)
          subtract<W, 3>(made + to.offset * w, panel + by.offset * w, w, 3, 3, i == j, target);
        else
          subtract<W, 0>(made + to.offset * w, panel + by.offset * w, w, to.width, by.width, i == j, target);
      }
    }
    std::copy(made, made + node.height * w, panel);
  }

  template <int W, int R>
  static void subtract(const Real* a, const Real* b, int w, int rows, int columns, bool lower, Real* to) {
    std::array<Real, JointPattern::widest * JointPattern::widest> by;
    for (int k = 0; k < (R > 0 ? R : columns) * w; ++k) by[z(k)] = b[k];
    for (int r = 0; r<(R > 0 ? R : rows); ++r, a += w, to += R> 0 ? R : columns) {
      std::array<Real, JointPattern::widest> row{};
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
    constexpr int widest = JointPattern::widest;
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
  static void invert_made(std::array<Real, JointPattern::widest * JointPattern::widest>& l,
                          const std::array<Real, JointPattern::widest>& d, int width, Real* to) {
    constexpr int widest = JointPattern::widest;
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
  [[gnu::noinline]] void drop(const JointPattern& p, const JointPattern::Node& node, Real& margin) {
    constexpr int widest = JointPattern::widest;
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
      }
      if (rows.count > 0) dropped_[z(lane)].push_back(rows);
    }
  }

  template <int W, class X>
  static void forward(const JointPattern::Below* belows, const JointPattern::Node& node, const Real* values, X* x) {
    const int w = W > 0 ? W : node.width;
    std::array<X, JointPattern::widest> own{};
    for (int k = 0; k < w; ++k) own[z(k)] = x[node.first + k];
    const Real* panel = values + node.panel;
    const auto row = [&](X& to) {
      X sum = panel[0] * own[0];
      for (int k = 1; k < w; ++k) sum += panel[k] * own[z(k)];
      to -= sum;
      panel += w;
    };
    for (const JointPattern::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      X* const to = x + i->first;
      if (i->width == 3)
        row(to[0]), row(to[1]), row(to[2]);
      else
        for (int r = 0; r < i->width; ++r) row(to[r]);
    }
  }

  template <int W, class X>
  static void backward(const JointPattern::Below* belows, const JointPattern::Node& node, const Real* values, X* x) {
    if constexpr (W == 3 && std::is_same_v<Real, double> && std::is_same_v<X, double>) {
      backward_three(belows, node, values, x);
      return;
    }
    const int w = W > 0 ? W : node.width;
    X* const own = x + node.first;
    const Real* D = values + node.diagonal;
    std::array<X, JointPattern::widest> made{}, given{};
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
    for (const JointPattern::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      const X* const from = x + i->first;
      if (i->width == 3)
        row(from[0]), row(from[1]), row(from[2]);
      else
        for (int r = 0; r < i->width; ++r) row(from[r]);
    }
    for (int k = 0; k < w; ++k) own[k] = made[z(k)];
  }

  // The same for three rows of one block, in the lanes of a vector whose last is nothing.
  static void backward_three(const JointPattern::Below* belows, const JointPattern::Node& node, const double* values,
                             double* x) {
    const auto row = [](const double* from) {
      Four four;
      std::memcpy(&four, from, sizeof four);
      return four;
    };
    double* const own = x + node.first;
    const double* const D = values + node.diagonal;  // symmetric: rows are columns
    Four made = row(D) * own[0] + row(D + 3) * own[1] + row(D + 6) * own[2];
    const double* panel = values + node.panel;
    for (const JointPattern::Below* i = belows + node.below; i != belows + node.below_end; ++i) {
      const double* const from = x + i->first;
      for (int r = 0; r < i->width; ++r, panel += 3) made -= row(panel) * from[r];
    }
    own[0] = made[0], own[1] = made[1], own[2] = made[2];
  }

  Row<Real> values_;    // by node D and what is below it
  Row<Real> diagonal_;  // of G, by row
  Row<Real> panel_;
  std::array<std::vector<Dropped>, Lanes<Real>::count> dropped_;
  bool drops_ = false;
};

}  // namespace LINCHPIN_LANES
}  // namespace linchpin::detail
