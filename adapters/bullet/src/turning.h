// Bodies that turn far in a step. Their gyroscopic torque is that of the mean of the velocities that they begin and end
// it with (T15), which is the joints' doing, too. That of their start, or of what they would do if nothing held them,
// works on what hangs from them in every step: a bar that spins about its length under a load gains energy without end.
#pragma once

#include "columns.h"

#include <linchpin/detail/gyroscopic.h>

#include <span>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class TurningBodies {
 public:
  bool empty() const { return bodies_.empty(); }
  void clear() {
    bodies_.clear();
    slots_.clear();
  }
  std::span<const int> slots() const { return slots_; }
  /// Over which their torque acts [s].
  double time() const { return empty() ? 0 : bodies_.front().turn.h; }

  /// One more. @param I  principal moments [kg·m²] @param h  see time()
  /// @return its angular impulse if nothing else turned it, which is taken to be applied [N·m·s] (W)
  Vector3d add(int slot, const BodyState& at, const Vector3d& I, double h) {
    Body& body = bodies_.emplace_back();
    slots_.push_back(slot);
    body.turn = {.body = z(slot), .h = h, .I = I, .R = at.R(), .w0 = at.w};
    body.impulse = body.applied = body.alone();
    return body.impulse;
  }

  // What they have of it in `applied` [n], in a block's columns:
  /// If nothing else turned them, over so much more time.
  void apply_alone(const Block& block, double time, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      body.turn.h += time;
      body.impulse = body.alone();
    }
    apply(block, applied);
  }
  /// Likewise, where poses are others now.
  void move_to(const Block& block, const State& state, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      body.turn.R = state[block.bodies[body.turn.body]].R();
      body.impulse = body.alone();
    }
    apply(block, applied);
  }
  void leave_out(const Block& block, std::vector<double>& applied) {
    for (Body& body : bodies_) body.impulse.setZero();
    apply(block, applied);
  }
  /// Of steps that end with velocities v [n], which have it.
  void apply_found(const Block& block, std::span<const double> v, std::vector<double>& applied) {
    for (Body& body : bodies_) body.impulse = body.between(head(v, column(block, body)));
    apply(block, applied);
  }
  /// As it is in velocities.
  void apply(const Block& block, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      bullet::add(applied, column(block, body), body.impulse - body.applied);
      body.applied = body.impulse;
    }
  }

  /// In velocities v [n] what they are turned by to that of the mean of the start's and what v becomes by it.
  /// @return whether that changed them by more than rounding
  bool turn(const Block& block, std::span<double> v) {
    constexpr double rounding = 1e-12;
    bool changed = false;
    for (Body& body : bodies_) {
      const Vector3d w = head(v, column(block, body));
      body.turn.w = w - body.divided(body.impulse);
      body.turn.turn();
      const Vector3d change = body.turn.w - w;
      put(v, column(block, body), body.turn.w);
      body.impulse += body.times(change);
      changed = changed || !(change.norm() <= rounding * (body.turn.w0.norm() + w.norm()));
    }
    return changed;
  }

 private:
  struct Body {
    detail::Turning turn;
    Vector3d impulse = Vector3d::Zero();  // of its gyroscopic torque, as it is in velocities [N·m·s] (W)
    Vector3d applied = Vector3d::Zero();  // as it is in what is applied

    Vector3d times(const Vector3d& w) const { return turn.R * turn.I.cwiseProduct(turn.R.transpose() * w); }
    Vector3d divided(const Vector3d& L) const { return turn.R * (turn.R.transpose() * L).cwiseQuotient(turn.I); }
    Vector3d alone() {
      turn.w = turn.w0;
      turn.turn();
      return times(turn.w - turn.w0);
    }
    Vector3d between(const Vector3d& w) const {
      const Vector3d mean = 0.5 * (turn.w0 + w);
      return -turn.h * mean.cross(times(mean));
    }
  };
  static int column(const Block& block, const Body& body) { return block.column[body.turn.body] + 3; }

  std::vector<Body> bodies_;
  std::vector<int> slots_;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
