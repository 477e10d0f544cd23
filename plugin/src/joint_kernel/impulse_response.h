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
    for (auto* x : {&aimed_nodes_, &aimed_points_, &aimed_axes_, &aimed_dots_, &between_, &beside_}) x->clear();
    std::fill(reached_.begin(), reached_.end(), p.hubs.empty() ? 0 : 1);  // all of them by way of hubs
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[i];
      const bool there = is_aimed_[z(node.a)] || is_aimed_[z(node.b)];
      if (!there && !reached_[i]) continue;
      aimed_nodes_.push_back(static_cast<int>(i));
      if (node.below < node.below_end) reached_[z(p.belows[z(node.below)].node)] = 1;
      if (there) beside_.insert(beside_.end(), {node.a, node.b});
      for (int k = node.points; there && k < node.points_end; ++k) aimed_points_.push_back(k);
      for (int k = node.axes; there && k < node.axes_end; ++k) aimed_axes_.push_back(k);
      for (int k = node.dots; there && k < node.dots_end; ++k) aimed_dots_.push_back(k);
      for (int r = 0; !there && r < node.width; ++r) between_.push_back(node.first + r);
    }
  }

  /// @param pushes  four at most
  /// @param to      twists, by push and body of aim()
  void move(const SymbolicFactor& p, const Rows& rows, const SchurComplement<Real>& equation,
            std::span<const JointStep::Push> pushes, double* to) {
    if (p.welds) return move_as_one(equation.welds(), pushes, to);
    for (std::size_t lane = 0; lane < pushes.size(); ++lane)
      for (const JointStep::Push::At& at : pushes[lane].at) {
        if (at.body < 0) continue;
        TwistOf<Four>& f = free_[z(at.body)];
        for (auto* u : {&f.v, &f.w}) {
          const double* const from = u == &f.v ? at.impulse.data() : at.impulse.data() + 3;
          u->x[lane] += from[0], u->y[lane] += from[1], u->z[lane] += from[2];
        }
      }
    for (const int i : aimed_) free_[z(i)] = rows.moved(z(i), free_[z(i)]);
    for (const int row : between_) ways_[z(row)] = Four{};
    for (const int k : aimed_points_) Rows::write(ways_, rows.points[z(k)].row, Rows::rate(rows.points[z(k)], free_));
    for (const int k : aimed_axes_) ways_[z(rows.axes[z(k)].row)] = Rows::rate(rows.axes[z(k)], free_);
    for (const int k : aimed_dots_) ways_[z(rows.dots[z(k)].row)] = Rows::rate(rows.dots[z(k)], free_);
    equation.factor().solve(p, aimed_nodes_, ways_.data());
    for (const int i : beside_) wrenches_[z(i)] = TwistOf<Four>{};
    for (const int k : aimed_points_) Rows::add_pull(rows.points[z(k)], ways_, wrenches_);
    for (const int k : aimed_axes_) Rows::add_pull(rows.axes[z(k)], ways_, wrenches_);
    for (const int k : aimed_dots_) Rows::add_pull(rows.dots[z(k)], ways_, wrenches_);
    for (std::size_t k = 0; k < aimed_.size(); ++k) {
      const std::size_t i = z(aimed_[k]);
      TwistOf<Four>& free = free_[i];
      const TwistOf<Four> u = free - rows.moved(i, wrenches_[i]);
      for (std::size_t lane = 0; lane < pushes.size(); ++lane) {
        double* const x = to + 6 * (lane * aimed_.size() + k);
        x[0] = u.v.x[lane], x[1] = u.v.y[lane], x[2] = u.v.z[lane];
        x[3] = u.w.x[lane], x[4] = u.w.y[lane], x[5] = u.w.z[lane];
      }
      free = TwistOf<Four>{};
    }
  }

 private:
  template <class X>
  using TwistOf = typename Rows::template TwistOf<X>;
  using V = V3<Real>;

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  void move_as_one(const CompositeBody<Real>& welds, std::span<const JointStep::Push> pushes, double* to) const {
    for (const JointStep::Push& push : pushes) {
      V linear{}, angular{};
      for (const JointStep::Push::At& at : push.at) {
        if (at.body < 0) continue;
        V f, m;
        Rows::put(f, 0, at.impulse.data());
        Rows::put(m, 0, at.impulse.data() + 3);
        linear += f;
        angular += m + cross(welds.arm(z(at.body)), f);
      }
      const auto all = welds.moved(linear, angular);
      for (const int body : aimed_) {
        const auto u = welds.at(z(body), all);
        Rows::take(u.v, 0, to);
        Rows::take(u.w, 0, to + 3);
        to += 6;
      }
    }
  }

  Row<Four> ways_;  // right-hand sides
  Row<TwistOf<Four>> free_, wrenches_;
  std::vector<int> aimed_, aimed_nodes_;                     // bodies, and the nodes of a solve in order
  std::vector<int> aimed_points_, aimed_axes_, aimed_dots_;  // of joints on those bodies
  std::vector<int> beside_, between_;                        // bodies that those pull at; rows of the other nodes
  std::vector<char> is_aimed_, reached_;                     // by body, by node
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
