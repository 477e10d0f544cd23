// End-of-step residuals of stock joints (T12), computed from what the step adds. Private to the core.
#pragma once

#include "math/so3_exp.h"
#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"

#include <linchpin/dynamics.h>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace linchpin {

/// φ of stock joints at the end of a step, from what the step adds: every vector fixed in a body is turned by the
/// exponential of dt ω, so no pose is made, and what is summed is of the size of the step and not of the world.
class StockJointResiduals {
 public:
  /// @return false where it has no answer: constraints of other kinds, or bodies that are not rigid.
  bool begin(const Dynamics& dynamics, const State& base, const State& end, double dt) {
    stock_ = &detail::stock_of(dynamics);
    if (!stock_->rigid) return false;
    dt_ = dt;
    const Block& block = dynamics.assembly().block;
    bodies_.resize(block.bodies.size());
    R_.resize(block.bodies.size());
    for (std::size_t s = 0; s < R_.size(); ++s) R_[s] = base[block.bodies[s]].R();
    arms_.clear();
    offsets_.clear();
    const detail::StockJoints& stock = *stock_;
    for (int i = 0; i < stock.count(); ++i) {
      const auto &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
      const BodyState &a = base[joint.a], &b = base[joint.b];
      const Matrix3d Ra = joint.slot_a < 0 ? a.R() : Matrix3d(), Rb = joint.slot_b < 0 ? b.R() : Matrix3d();
      const Matrix3d &RA = joint.slot_a < 0 ? Ra : R_[z(joint.slot_a)],
                     &RB = joint.slot_b < 0 ? Rb : R_[z(joint.slot_b)];
      // Bodies outside the block end where `end` has them: what that adds is known now.
      const auto arm = [&](const Matrix3d& R, int slot, BodyId id, const Vector3d& u) -> const Vector3d& {
        Arm& made = arms_.emplace_back();
        made.r = R * u;
        if (slot < 0) made.added = end[id].q * u - made.r;
        return made.r;
      };
      const auto gone = [&](int slot, BodyId id) -> Vector3d {
        return slot < 0 ? Vector3d(end[id].p - base[id].p) : Vector3d::Zero();
      };
      const Vector3d added_a = gone(joint.slot_a, joint.a), added_b = gone(joint.slot_b, joint.b);
      for (int k = joint.point; k < next.point; ++k) {
        const Vector3d rA = arm(RA, joint.slot_a, joint.a, stock.points[z(k)].p_AQ),
                       rB = arm(RB, joint.slot_b, joint.b, stock.points[z(k)].p_BQ);
        offsets_.push_back((a.p - b.p) + (rA - rB) + (added_a - added_b));
      }
      for (int k = joint.axis; k < next.axis; ++k) {
        arm(RA, joint.slot_a, joint.a, stock.axes[z(k)].u_A);
        const Vector3d rA = arm(RA, joint.slot_a, joint.a, stock.axes[z(k)].p_AQ),
                       rB = arm(RB, joint.slot_b, joint.b, stock.axes[z(k)].p_BQ);
        offsets_.push_back((b.p - a.p) + (rB - rA) + (added_b - added_a));
      }
      for (int k = joint.dot; k < next.dot; ++k) {
        arm(RA, joint.slot_a, joint.a, stock.dots[z(k)].u_A);
        arm(RB, joint.slot_b, joint.b, stock.dots[z(k)].w_B);
      }
    }
    return true;
  }

  /// `scale` φ by row. @return the largest |φ|, infinity where one is no number.
  double residuals(std::span<const double> v, double scale, std::span<double> phi) {
    const double* u = v.data();
    for (Body& body : bodies_) {
      body.moved = {dt_ * u[0], dt_ * u[1], dt_ * u[2]};
      body.turn = {dt_ * u[3], dt_ * u[4], dt_ * u[5]};
      u += 6;
      detail::turn_factors(body.turn.squaredNorm(), body.sine, body.versine);
    }
    const detail::StockJoints& stock = *stock_;
    const Arm* arm = arms_.data();
    const Vector3d* offset = offsets_.data();
    double* out = phi.data();
    const auto added = [&](int slot, const Arm& to) -> Vector3d {
      if (slot < 0) return to.added;
      const Body& body = bodies_[z(slot)];
      const Vector3d across = body.turn.cross(to.r);
      return body.sine * across + body.versine * body.turn.cross(across);
    };
    const auto moved = [&](int slot) -> Vector3d { return slot < 0 ? Vector3d::Zero() : bodies_[z(slot)].moved; };
    for (int i = 0; i < stock.count(); ++i) {
      const auto &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
      const Vector3d apart = moved(joint.slot_a) - moved(joint.slot_b);
      for (int k = joint.point; k < next.point; ++k, arm += 2, out += 3) {
        const Vector3d gap = *offset++ + (apart + (added(joint.slot_a, arm[0]) - added(joint.slot_b, arm[1])));
        out[0] = gap.x(), out[1] = gap.y(), out[2] = gap.z();
      }
      for (int k = joint.axis; k < next.axis; ++k, arm += 3) {
        const Vector3d d = *offset++ - (apart + (added(joint.slot_a, arm[1]) - added(joint.slot_b, arm[2])));
        *out++ = (arm[0].r + added(joint.slot_a, arm[0])).dot(d) - stock.axes[z(k)].d0;
      }
      for (int k = joint.dot; k < next.dot; ++k, arm += 2)
        *out++ =
            (arm[0].r + added(joint.slot_a, arm[0])).dot(arm[1].r + added(joint.slot_b, arm[1])) - stock.dots[z(k)].c;
    }
    double worst = 0, probe = 0;  // 0 times what is not finite is not a number
    for (double& x : phi) {
      worst = std::max(worst, std::fabs(x));
      probe += 0 * x;
      x *= scale;
    }
    return probe == 0 ? worst : std::numeric_limits<double>::infinity();
  }

  /// φ̇ by row where bodies are at `at`, those outside the block with the velocities that they have there and those
  /// inside with v.
  class Velocities {
   public:
    void begin(const Dynamics& dynamics, const State& at) {
      stock_ = &detail::stock_of(dynamics);
      at_ = &at;
      const Block& block = dynamics.assembly().block;
      R_.resize(block.bodies.size());
      for (std::size_t s = 0; s < R_.size(); ++s) R_[s] = at[block.bodies[s]].R();
      arms_.clear();
      for (int i = 0; i < stock_->count(); ++i) {
        const auto &joint = stock_->joints[z(i)], &next = stock_->joints[z(i) + 1];
        const BodyState &a = at[joint.a], &b = at[joint.b];
        const Matrix3d Ra = joint.slot_a < 0 ? a.R() : Matrix3d(), Rb = joint.slot_b < 0 ? b.R() : Matrix3d();
        const Matrix3d &RA = joint.slot_a < 0 ? Ra : R_[z(joint.slot_a)],
                       &RB = joint.slot_b < 0 ? Rb : R_[z(joint.slot_b)];
        for (int k = joint.point; k < next.point; ++k)
          arms_.insert(arms_.end(), {RA * stock_->points[z(k)].p_AQ, RB * stock_->points[z(k)].p_BQ});
        for (int k = joint.axis; k < next.axis; ++k) {
          const JointRows::Axis& axis = stock_->axes[z(k)];
          const Vector3d rA = RA * axis.p_AQ, rB = RB * axis.p_BQ;
          arms_.insert(arms_.end(), {RA * axis.u_A, rA, rB, (b.p - a.p) + (rB - rA)});
        }
        for (int k = joint.dot; k < next.dot; ++k)
          arms_.push_back((RA * stock_->dots[z(k)].u_A).cross(RB * stock_->dots[z(k)].w_B));
      }
    }

    /// @return the largest |φ̇|, infinity where one is no number
    double residuals(std::span<const double> v, std::span<double> phi_dot) const {
      const Vector3d* arm = arms_.data();
      double* out = phi_dot.data();
      for (int i = 0; i < stock_->count(); ++i) {
        const auto &joint = stock_->joints[z(i)], &next = stock_->joints[z(i) + 1];
        const auto twist = [&](int slot, BodyId id) -> Vector6d {
          if (slot >= 0) return Eigen::Map<const Vector6d>(v.data() + 6 * slot);
          Vector6d u;
          u << (*at_)[id].v, (*at_)[id].w;
          return u;
        };
        const Vector6d a = twist(joint.slot_a, joint.a), b = twist(joint.slot_b, joint.b);
        const Vector3d vA = a.head<3>(), wA = a.tail<3>(), vB = b.head<3>(), wB = b.tail<3>();
        for (int k = joint.point; k < next.point; ++k, arm += 2, out += 3)
          Vector3d::Map(out) = vA + wA.cross(arm[0]) - vB - wB.cross(arm[1]);
        for (int k = joint.axis; k < next.axis; ++k, arm += 4)
          *out++ = wA.cross(arm[0]).dot(arm[3]) + arm[0].dot(vB + wB.cross(arm[2]) - vA - wA.cross(arm[1]));
        for (int k = joint.dot; k < next.dot; ++k, ++arm) *out++ = arm->dot(wA - wB);
      }
      return finite(phi_dot) ? largest(phi_dot) : std::numeric_limits<double>::infinity();
    }

   private:
    const detail::StockJoints* stock_ = nullptr;
    const State* at_ = nullptr;
    std::vector<Matrix3d> R_;
    std::vector<Vector3d> arms_;  // of a point r_A, r_B; of an axis u, r_A, r_B, d; of a dot u × w
  };

 private:
  struct Body {
    Vector3d moved, turn;
    double sine, versine;
  };
  struct Arm {
    Vector3d r = Vector3d::Zero();      // at the base (W)
    Vector3d added = Vector3d::Zero();  // on bodies outside the block: what the step adds
  };
  const detail::StockJoints* stock_ = nullptr;
  double dt_ = 0;
  std::vector<Body> bodies_;
  std::vector<Matrix3d> R_;
  std::vector<Arm> arms_;          // in the order of the rows: of a point 2, of an axis 3 (u first), of a dot 2
  std::vector<Vector3d> offsets_;  // of points φ, of axes d, both at the base
};

}  // namespace linchpin
