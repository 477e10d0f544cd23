// The response of a constrained island to impulses of rows of the host: (M⁻¹ − M⁻¹AᵀG⁺AM⁻¹) times impulses, the columns
// of the Delassus operator. Four are computed side by side, for selected bodies alone.
#pragma once

#include "joint_kernel/composite_body.h"
#include "joint_kernel/joint_island.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/schur_complement.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class ImpulseResponse {
 public:
  using Rows = KernelRows<Real>;

  void lay_out(const SymbolicFactor& p) {
    responses_.resize(z(p.rows));
    for (auto* x : {&free_, &wrenches_}) x->resize(z(p.all_bodies));
    is_selected_.resize(z(p.all_bodies));
    is_reached_.resize(p.nodes.size());
  }

  /// Selects the bodies. Solves are restricted to the joints on them and to the ancestors of these joints: the other
  /// joints do not couple the selected bodies.
  void select_bodies(const SymbolicFactor& p, std::span<const int> bodies) {
    selected_.assign(bodies.begin(), bodies.end());
    std::fill(is_selected_.begin(), is_selected_.end(), 0);
    for (const int body : bodies) is_selected_[z(body)] = 1;
    for (auto* x : {&nodes_, &passed_rows_, &touched_}) x->clear();
    for (auto& list : rows_) list.clear();
    std::fill(is_reached_.begin(), is_reached_.end(),
              p.high_degree_bodies.empty() ? 0 : 1);  // high-degree bodies couple all
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[i];
      const bool there = is_selected_[z(node.a)] || is_selected_[z(node.b)];
      if (!there && !is_reached_[i]) continue;
      nodes_.push_back(static_cast<int>(i));
      if (node.ancestors_begin < node.ancestors_end) is_reached_[z(p.ancestors[z(node.ancestors_begin)].node)] = 1;
      if (there) touched_.insert(touched_.end(), {node.a, node.b});
      for (std::size_t kind = 0; there && kind < primitive_count; ++kind)
        for (int k = node.primitives.begin[kind]; k < node.primitives.end[kind]; ++k) rows_[kind].push_back(k);
      for (int r = 0; !there && r < node.width; ++r) passed_rows_.push_back(node.first + r);
    }
  }

  /// @param impulses  four at most
  /// @param to      twists, by impulse and selected body
  void apply(const SymbolicFactor& p, const Rows& rows, const SchurComplement<Real>& equation,
             std::span<const JointIsland::Impulse> impulses, double* to) {
    if (p.is_composite) return apply_to_composite(equation.composite(), impulses, to);
    for (std::size_t lane = 0; lane < impulses.size(); ++lane)
      for (const JointIsland::Impulse::At& at : impulses[lane].at) {
        if (at.body < 0) continue;
        SpatialVector<Vec4d>& f = free_[z(at.body)];
        for (auto* u : {&f.v, &f.w}) {
          const double* const from = u == &f.v ? at.impulse.data() : at.impulse.data() + 3;
          u->x[lane] += from[0], u->y[lane] += from[1], u->z[lane] += from[2];
        }
      }
    for (const int i : selected_) free_[z(i)] = rows.inverse_masses[z(i)] * free_[z(i)];
    for (const int row : passed_rows_) responses_[z(row)] = Vec4d{};
    for_each_row(rows, [&]<class P>(P, const typename Rows::template Row<P>& k) {
      store_rows(responses_, k.row, Rows::rate(k, free_));
    });
    equation.factor().solve(p, nodes_, responses_.data());
    for (const int i : touched_) wrenches_[z(i)] = SpatialVector<Vec4d>{};
    for_each_row(rows, [&]<class P>(P, const typename Rows::template Row<P>& k) {
      P::add_constraint_force(k, responses_.data() + k.row, 0, wrenches_[z(k.a)]);
      P::add_constraint_force(k, responses_.data() + k.row, 1, wrenches_[z(k.b)]);
    });
    for (std::size_t k = 0; k < selected_.size(); ++k) {
      const std::size_t i = z(selected_[k]);
      SpatialVector<Vec4d>& free = free_[i];
      const SpatialVector<Vec4d> u = free - rows.inverse_masses[i] * wrenches_[i];
      for (std::size_t lane = 0; lane < impulses.size(); ++lane) {
        double* const x = to + 6 * (lane * selected_.size() + k);
        x[0] = u.v.x[lane], x[1] = u.v.y[lane], x[2] = u.v.z[lane];
        x[3] = u.w.x[lane], x[4] = u.w.y[lane], x[5] = u.w.z[lane];
      }
      free = SpatialVector<Vec4d>{};
    }
  }

 private:
  using V = Vector3<Real>;

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  template <class Visit>
  void for_each_row(const Rows& rows, const Visit& visit) const {
    for_each_primitive([&]<class P>(P) {
      for (const int k : rows_[index_of<P>()]) visit(P(), rows.rows.template of<P>()[z(k)]);
    });
  }

  void apply_to_composite(const CompositeBody<Real>& body, std::span<const JointIsland::Impulse> impulses,
                          double* to) const {
    for (const JointIsland::Impulse& impulse : impulses) {
      V linear{}, angular{};
      for (const JointIsland::Impulse::At& at : impulse.at) {
        if (at.body < 0) continue;
        V f, m;
        set_lane(f, 0, at.impulse.data());
        set_lane(m, 0, at.impulse.data() + 3);
        linear += f;
        angular += m + cross(body.arm(z(at.body)), f);
      }
      const auto all = body.moved(linear, angular);
      for (const int i : selected_) {
        const auto u = body.at(z(i), all);
        get_lane(u.v, 0, to);
        get_lane(u.w, 0, to + 3);
        to += 6;
      }
    }
  }

  AlignedVector<Vec4d> responses_;  // right-hand sides, then multipliers, by row
  AlignedVector<SpatialVector<Vec4d>> free_, wrenches_;
  std::vector<int> selected_, nodes_;                   // bodies; nodes of a solve, in order
  std::array<std::vector<int>, primitive_count> rows_;  // of joints on selected bodies, by primitive
  std::vector<int> touched_, passed_rows_;              // bodies of those joints; rows of the other nodes
  std::vector<char> is_selected_, is_reached_;          // by body, by node
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
