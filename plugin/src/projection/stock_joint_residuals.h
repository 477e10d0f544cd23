// Residuals of stock joints at the end of a step (T12), and their rates. Private to the core.
#pragma once

#include "model/primitives/list.h"
#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"

#include <linchpin/dynamics.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

namespace linchpin {

/// The rotation matrices of the two bodies of a joint. The matrices of the bodies of a block were made once for all
/// joints.
struct JointRotations {
  JointRotations(const detail::StockJoints::Joint& joint, const State& at, const std::vector<Matrix3d>& of_block)
      : outside_A(joint.slot_a < 0 ? at[joint.a].R() : Matrix3d()),
        outside_B(joint.slot_b < 0 ? at[joint.b].R() : Matrix3d()),
        A(joint.slot_a < 0 ? outside_A : of_block[z(joint.slot_a)]),
        B(joint.slot_b < 0 ? outside_B : of_block[z(joint.slot_b)]) {}
  JointRotations(const JointRotations&) = delete;
  JointRotations& operator=(const JointRotations&) = delete;

  const Matrix3d outside_A, outside_B;
  const Matrix3d &A, &B;
};

/// φ of stock joints at the end of a step, from what the step adds. Every vector that is fixed in a body is turned by
/// the exponential of dt ω, so that no pose is made, and sums are of the size of the step and not of the world.
class StockJointResiduals {
 public:
  /// @return false where it has no answer: constraints of other kinds, or bodies that are not rigid
  bool begin(const Dynamics& dynamics, const State& base, const State& end, double dt) {
    stock_ = &detail::stock_of(dynamics);
    if (!stock_->rigid) return false;
    dt_ = dt;
    const IslandLayout& layout = dynamics.assembly().layout;
    motions_.resize(layout.bodies.size());
    rotations_.resize(layout.bodies.size());
    for (std::size_t s = 0; s < rotations_.size(); ++s) rotations_[s] = base[layout.bodies[s]].R();
    outside_.clear();
    detail::for_each_primitive([&]<class P>(P) { rows_.of<P>().clear(); });
    for (int i = 0; i < stock_->count(); ++i) begin_joint(i, base, end);
    return true;
  }

  /// Computes φ by row, times `scale`. @return the largest |φ|, infinity where one is no number
  double residuals(std::span<const double> v, double scale, std::span<double> phi) {
    const double* u = v.data();
    for (Motion& body : motions_) {
      body.translation = {dt_ * u[0], dt_ * u[1], dt_ * u[2]};
      body.rotation = {dt_ * u[3], dt_ * u[4], dt_ * u[5]};
      u += 6;
      detail::turn_factors(body.rotation.squaredNorm(), body.sine, body.versine);
    }
    double* out = phi.data();
    for (int i = 0; i < stock_->count(); ++i) out = joint_residuals(i, out);
    double worst = 0, probe = 0;  // 0 times what is not finite is not a number
    for (double& x : phi) {
      worst = std::max(worst, std::fabs(x));
      probe += 0 * x;
      x *= scale;
    }
    return probe == 0 ? worst : std::numeric_limits<double>::infinity();
  }

 private:
  using Motion = detail::Displacement<Vector3d>;
  /// A primitive at the base, and what the step adds to its vectors on bodies outside the block.
  template <class P>
  struct Row : P::template Start<Vector3d> {
    std::array<Vector3d, P::fixed_vectors> added_outside;
  };
  template <class P>
  using RowList = std::vector<Row<P>>;

  void begin_joint(int i, const State& base, const State& end) {
    const auto& joint = stock_->joints[z(i)];
    const JointRotations R(joint, base, rotations_);
    const Vector3d separation = base[joint.a].p - base[joint.b].p;
    const auto translation = [&](int slot, BodyId id) -> Vector3d {
      return slot < 0 ? Vector3d(end[id].p - base[id].p) : Vector3d::Zero();
    };
    outside_.push_back(translation(joint.slot_a, joint.a) - translation(joint.slot_b, joint.b));
    detail::for_each_primitive([&]<class P>(P) {
      stock_->for_each_of_joint<P>(i, [&](const auto& fixed) {
        Row<P>& row = rows_.of<P>().emplace_back();
        static_cast<typename P::template Start<Vector3d>&>(row) = P::start(fixed, R.A, R.B, separation);
        P::for_each_fixed_vector(fixed, [&](int side, int k, const Vector3d& u) {
          if ((side == 0 ? joint.slot_a : joint.slot_b) >= 0) return;
          row.added_outside[z(k)] = end[side == 0 ? joint.a : joint.b].q * u - (side == 0 ? R.A : R.B) * u;
        });
      });
    });
  }

  double* joint_residuals(int i, double* out) const {
    const auto& joint = stock_->joints[z(i)];
    const auto motion = [&](int slot) { return slot < 0 ? nullptr : &motions_[z(slot)]; };
    const Motion* const by_side[2] = {motion(joint.slot_a), motion(joint.slot_b)};
    Vector3d separation = outside_[z(i)];
    if (by_side[0] != nullptr) separation += by_side[0]->translation;
    if (by_side[1] != nullptr) separation -= by_side[1]->translation;
    const detail::PrimitiveRanges ranges = stock_->ranges(i);
    detail::for_each_primitive([&]<class P>(P) {
      detail::for_each_of<P>(ranges, [&](std::size_t k) {
        const Row<P>& row = rows_.of<P>()[k];
        const auto phi = P::end_residual(row, separation, [&](int side, int vector, const Vector3d& u) -> Vector3d {
          return by_side[side] == nullptr ? row.added_outside[z(vector)] : by_side[side]->added(u);
        });
        for (int r = 0; r < P::rows; ++r) *out++ = detail::row_of_value(phi, r);
      });
    });
    return out;
  }

  const detail::StockJoints* stock_ = nullptr;
  double dt_ = 0;
  std::vector<Motion> motions_;      // of the bodies of the block, over the step
  std::vector<Matrix3d> rotations_;  // of the bodies of the block, at the base
  std::vector<Vector3d> outside_;    // by joint: what the step adds to p_A − p_B by bodies outside the block
  detail::PrimitiveLists<RowList> rows_;
};

/// φ̇ of stock joints by row where bodies are at a state. Bodies outside the block have the velocities of that state.
class StockJointRates {
 public:
  void begin(const Dynamics& dynamics, const State& at) {
    stock_ = &detail::stock_of(dynamics);
    at_ = &at;
    const IslandLayout& layout = dynamics.assembly().layout;
    rotations_.resize(layout.bodies.size());
    for (std::size_t s = 0; s < rotations_.size(); ++s) rotations_[s] = at[layout.bodies[s]].R();
    detail::for_each_primitive([&]<class P>(P) { rows_.of<P>().clear(); });
    for (int i = 0; i < stock_->count(); ++i) {
      const auto& joint = stock_->joints[z(i)];
      const JointRotations R(joint, at, rotations_);
      const Vector3d separation = at[joint.a].p - at[joint.b].p;
      detail::for_each_primitive([&]<class P>(P) {
        stock_->for_each_of_joint<P>(
            i, [&](const auto& fixed) { rows_.of<P>().push_back(P::start(fixed, R.A, R.B, separation)); });
      });
    }
  }

  /// @param v  velocities of the bodies of the block. @return the largest |φ̇|, infinity where one is no number
  double residuals(std::span<const double> v, std::span<double> phi_dot) const {
    double* out = phi_dot.data();
    for (int i = 0; i < stock_->count(); ++i) {
      const auto& joint = stock_->joints[z(i)];
      const auto twist = [&](int slot, BodyId id) -> Twist {
        if (slot < 0) return {(*at_)[id].v, (*at_)[id].w};
        const double* const u = v.data() + 6 * slot;
        return {{u[0], u[1], u[2]}, {u[3], u[4], u[5]}};
      };
      const Twist A = twist(joint.slot_a, joint.a), B = twist(joint.slot_b, joint.b);
      const detail::PrimitiveRanges ranges = stock_->ranges(i);
      detail::for_each_primitive([&]<class P>(P) {
        detail::for_each_of<P>(ranges, [&](std::size_t k) {
          const auto rate = P::motion(rows_.of<P>()[k], A, B).phi_dot;
          for (int r = 0; r < P::rows; ++r) *out++ = detail::row_of_value(rate, r);
        });
      });
    }
    return finite(phi_dot) ? largest(phi_dot) : std::numeric_limits<double>::infinity();
  }

 private:
  struct Twist {
    Vector3d v, w;
  };
  template <class P>
  using RowList = std::vector<typename P::template Start<Vector3d>>;

  const detail::StockJoints* stock_ = nullptr;
  const State* at_ = nullptr;
  std::vector<Matrix3d> rotations_;
  detail::PrimitiveLists<RowList> rows_;
};

}  // namespace linchpin
