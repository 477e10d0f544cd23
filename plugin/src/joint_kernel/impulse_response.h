// What impulses of a host's own rows move of a block that holds, M⁻¹ − M⁻¹AᵀG⁺AM⁻¹ times impulses: four side by side,
// and of the bodies that it looks at alone.
#pragma once

#include "joint_kernel/composite_body.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/schur_complement.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <linchpin/detail/joint_step.h>

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
    ways_.resize(z(p.rows));
    for (auto* x : {&free_, &wrenches_}) x->resize(z(p.all_bodies));
    is_aimed_.resize(z(p.all_bodies));
    reached_.resize(p.nodes.size());
  }

  /// At the bodies that are looked at. Solves keep to joints on those, and to all whose elimination these go through:
  /// the others have nothing to say about what such bodies do to each other.
  void aim(const SymbolicFactor& p, std::span<const int> bodies) {
    aimed_.assign(bodies.begin(), bodies.end());
    std::fill(is_aimed_.begin(), is_aimed_.end(), 0);
    for (const int body : bodies) is_aimed_[z(body)] = 1;
    for (auto* x : {&aimed_nodes_, &between_, &beside_}) x->clear();
    for (auto& list : aimed_rows_) list.clear();
    std::fill(reached_.begin(), reached_.end(), p.high_degree_bodies.empty() ? 0 : 1);  // all of them by way of hubs
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[i];
      const bool there = is_aimed_[z(node.a)] || is_aimed_[z(node.b)];
      if (!there && !reached_[i]) continue;
      aimed_nodes_.push_back(static_cast<int>(i));
      if (node.ancestors_begin < node.ancestors_end) reached_[z(p.ancestors[z(node.ancestors_begin)].node)] = 1;
      if (there) beside_.insert(beside_.end(), {node.a, node.b});
      for (std::size_t kind = 0; there && kind < primitive_count; ++kind)
        for (int k = node.primitives.begin[kind]; k < node.primitives.end[kind]; ++k) aimed_rows_[kind].push_back(k);
      for (int r = 0; !there && r < node.width; ++r) between_.push_back(node.first + r);
    }
  }

  /// @param pushes  four at most
  /// @param to      twists, by push and body of aim()
  void move(const SymbolicFactor& p, const Rows& rows, const SchurComplement<Real>& equation,
            std::span<const JointStep::Push> pushes, double* to) {
    if (p.is_composite) return move_as_one(equation.composite(), pushes, to);
    for (std::size_t lane = 0; lane < pushes.size(); ++lane)
      for (const JointStep::Push::At& at : pushes[lane].at) {
        if (at.body < 0) continue;
        SpatialVector<Vec4d>& f = free_[z(at.body)];
        for (auto* u : {&f.v, &f.w}) {
          const double* const from = u == &f.v ? at.impulse.data() : at.impulse.data() + 3;
          u->x[lane] += from[0], u->y[lane] += from[1], u->z[lane] += from[2];
        }
      }
    for (const int i : aimed_) free_[z(i)] = rows.inverse_masses[z(i)] * free_[z(i)];
    for (const int row : between_) ways_[z(row)] = Vec4d{};
    for_each_aimed_row(rows, [&]<class P>(P, const typename Rows::template Row<P>& k) {
      store_rows(ways_, k.row, Rows::rate(k, free_));
    });
    equation.factor().solve(p, aimed_nodes_, ways_.data());
    for (const int i : beside_) wrenches_[z(i)] = SpatialVector<Vec4d>{};
    for_each_aimed_row(rows, [&]<class P>(P, const typename Rows::template Row<P>& k) {
      P::add_constraint_force(k, ways_.data() + k.row, 0, wrenches_[z(k.a)]);
      P::add_constraint_force(k, ways_.data() + k.row, 1, wrenches_[z(k.b)]);
    });
    for (std::size_t k = 0; k < aimed_.size(); ++k) {
      const std::size_t i = z(aimed_[k]);
      SpatialVector<Vec4d>& free = free_[i];
      const SpatialVector<Vec4d> u = free - rows.inverse_masses[i] * wrenches_[i];
      for (std::size_t lane = 0; lane < pushes.size(); ++lane) {
        double* const x = to + 6 * (lane * aimed_.size() + k);
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
  void for_each_aimed_row(const Rows& rows, const Visit& visit) const {
    for_each_primitive([&]<class P>(P) {
      for (const int k : aimed_rows_[index_of<P>()]) visit(P(), rows.rows.template of<P>()[z(k)]);
    });
  }

  void move_as_one(const CompositeBody<Real>& welds, std::span<const JointStep::Push> pushes, double* to) const {
    for (const JointStep::Push& push : pushes) {
      V linear{}, angular{};
      for (const JointStep::Push::At& at : push.at) {
        if (at.body < 0) continue;
        V f, m;
        set_lane(f, 0, at.impulse.data());
        set_lane(m, 0, at.impulse.data() + 3);
        linear += f;
        angular += m + cross(welds.arm(z(at.body)), f);
      }
      const auto all = welds.moved(linear, angular);
      for (const int body : aimed_) {
        const auto u = welds.at(z(body), all);
        get_lane(u.v, 0, to);
        get_lane(u.w, 0, to + 3);
        to += 6;
      }
    }
  }

  AlignedVector<Vec4d> ways_;  // right-hand sides
  AlignedVector<SpatialVector<Vec4d>> free_, wrenches_;
  std::vector<int> aimed_, aimed_nodes_;                      // bodies, and the nodes of a solve in order
  std::array<std::vector<int>, primitive_count> aimed_rows_;  // by primitive, of joints on those bodies
  std::vector<int> beside_, between_;                         // bodies that those pull at; rows of the other nodes
  std::vector<char> is_aimed_, reached_;                      // by body, by node
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
