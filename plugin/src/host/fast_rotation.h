// Bodies that turn far in a step. Their gyroscopic torque is evaluated at the mean of the angular velocities at the
// start and at the end of the step, which the joints influence (implicit midpoint, T15). A torque evaluated at the
// start does net work on the other bodies in every step. A bar that spins about its length and carries a load would
// gain energy without bound.
#pragma once

#include "host/body_vectors.h"
#include "host/tuning.h"
#include "math/fast_rotation.h"

#include <span>
#include <vector>

namespace linchpin::host {

class FastRotationSet {
 public:
  bool empty() const { return bodies_.empty(); }
  void clear() {
    bodies_.clear();
    slots_.clear();
  }
  std::span<const int> slots() const { return slots_; }
  /// Time over which the torques act [s].
  double time() const { return empty() ? 0 : bodies_.front().rotation.h; }

  /// Adds a body. @param I  principal moments [kg·m²] @param h  see time()
  /// @return its angular impulse if nothing else turned it, which counts as applied [N·m·s] (W)
  Vector3d add(int slot, const BodyState& at, const Vector3d& I, double h) {
    Body& body = bodies_.emplace_back();
    slots_.push_back(slot);
    body.rotation = {.body = z(slot), .h = h, .I = I, .R = at.R(), .w0 = at.w};
    body.impulse = body.applied = body.alone();
    return body.impulse;
  }

  // The following functions change the impulses of the torques in `applied` [n].
  /// Sets impulses of free rotation, over `time` more seconds.
  void apply_free(const IslandLayout& layout, double time, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      body.rotation.h += time;
      body.impulse = body.alone();
    }
    apply(layout, applied);
  }
  /// Sets impulses of free rotation from other poses.
  void move_to(const IslandLayout& layout, const State& state, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      body.rotation.R = state[layout.bodies[body.rotation.body]].R();
      body.impulse = body.alone();
    }
    apply(layout, applied);
  }
  /// Removes the impulses.
  void remove_from(const IslandLayout& layout, std::vector<double>& applied) {
    for (Body& body : bodies_) body.impulse.setZero();
    apply(layout, applied);
  }
  /// Sets impulses of a step that ends with the velocities v [n].
  void apply_of_step(const IslandLayout& layout, std::span<const double> v, std::vector<double>& applied) {
    for (Body& body : bodies_) body.impulse = body.between(head(v, column(layout, body)));
    apply(layout, applied);
  }
  /// Sets the impulses that update() has put into the velocities.
  void apply(const IslandLayout& layout, std::vector<double>& applied) {
    for (Body& body : bodies_) {
      host::add(applied, column(layout, body), body.impulse - body.applied);
      body.applied = body.impulse;
    }
  }

  /// Replaces in v [n] the impulse of each body by that of the mean of start and end velocity.
  /// @return whether this changed v by more than rounding
  bool update(const IslandLayout& layout, std::span<double> v) {
    bool changed = false;
    for (Body& body : bodies_) {
      const Vector3d w = head(v, column(layout, body));
      body.rotation.w = w - body.divided(body.impulse);
      body.rotation.add_gyroscopic_torque();
      const Vector3d change = body.rotation.w - w;
      put(v, column(layout, body), body.rotation.w);
      body.impulse += body.times(change);
      changed = changed || !(change.norm() <= tuning::gyroscopic_rounding * (body.rotation.w0.norm() + w.norm()));
    }
    return changed;
  }

 private:
  struct Body {
    detail::FastRotatingBody rotation;
    Vector3d impulse = Vector3d::Zero();  ///< of the gyroscopic torque, as it is in the velocities [N·m·s] (W)
    Vector3d applied = Vector3d::Zero();  ///< as it is in `applied`

    Vector3d times(const Vector3d& w) const { return rotation.R * rotation.I.cwiseProduct(rotation.R.transpose() * w); }
    Vector3d divided(const Vector3d& L) const {
      return rotation.R * (rotation.R.transpose() * L).cwiseQuotient(rotation.I);
    }
    Vector3d alone() {
      rotation.w = rotation.w0;
      rotation.add_gyroscopic_torque();
      return times(rotation.w - rotation.w0);
    }
    Vector3d between(const Vector3d& w) const {
      const Vector3d mean = 0.5 * (rotation.w0 + w);
      return -rotation.h * mean.cross(times(mean));
    }
  };
  static int column(const IslandLayout& layout, const Body& body) { return layout.column[body.rotation.body] + 3; }

  std::vector<Body> bodies_;
  std::vector<int> slots_;
};

}  // namespace linchpin::host
