// The gyroscopic torques of the bodies of an island over a step. Each is evaluated at the mean of the angular
// velocities at the start and at the end of the step, which the joints influence (implicit midpoint, T15). By itself it
// does no work. A torque evaluated at the start does net work in every step, and a bar that spins about its length and
// carries a load would gain energy without bound. Implicit Euler, as hosts have it, takes energy from every body that
// tumbles.
#pragma once

#include "host/body_vectors.h"
#include "host/tuning.h"
#include "math/gyroscopic.h"

#include <span>
#include <vector>

namespace linchpin::host {

/// Returns the gyroscopic torque −ω × Iω [N·m] (W) of a body with principal moments I [kg·m²].
inline Vector3d gyroscopic_torque(const Matrix3d& R, const Vector3d& I, const Vector3d& w) {
  const Vector3d u = R.transpose() * w;
  return -(R * u.cross(I.cwiseProduct(u)));
}

class GyroscopicTorques {
 public:
  bool empty() const { return slots_.empty(); }
  void clear() {
    slots_.clear();
    bodies_.clear();
    time_ = 0;
  }
  /// Bodies that have a torque, ascending.
  std::span<const int> slots() const { return slots_; }
  /// Time over which the torques act [s].
  double time() const { return time_; }
  void set_time(double h) { time_ = h; }

  /// Adds a body with principal moments I. Where they are equal there is no torque.
  void add(int slot, const Vector3d& I) {
    if (I.x() != I.y() || I.y() != I.z()) slots_.push_back(slot);
  }

  /// Where the step starts.
  struct Start {
    const System& system;
    const IslandLayout& layout;
    const State& state;
  };
  // The following functions set the impulses of the torques [N·m·s] (W), which are zero at first. They change `applied`
  // [n] by as much.
  /// Sets impulses of free rotation, which nothing else influences.
  void apply_free(const Start& start, std::span<double> applied) {
    read(start);
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      Body& body = bodies_[i];
      const Vector3d u = body.R.transpose() * body.w0;
      body.impulse = body.times(body.R * linchpin::detail::gyroscopic_change(body.I, u, u, time_));
    }
    apply(start.layout, applied);
  }
  /// Adds `time` [s] to the time of the torques. Impulses that were set become those of free rotation.
  void extend(const Start& start, double time, std::span<double> applied) {
    time_ += time;
    if (!bodies_.empty()) apply_free(start, applied);
  }
  /// Sets no impulses.
  void remove_from(const IslandLayout& layout, std::span<double> applied) {
    for (Body& body : bodies_) body.impulse.setZero();
    apply(layout, applied);
    bodies_.clear();
  }
  /// Sets impulses of a step that ends with the velocities v [n]. None was set before.
  void apply_of_step(const Start& start, std::span<const double> v, std::span<double> applied) const {
    for (const int slot : slots_) {
      const int at = start.layout.column[z(slot)] + 3;
      const BodyId id = start.layout.bodies[z(slot)];
      const BodyState& s = start.state[id];
      const Vector3d mean = 0.5 * (s.w + head(v, at));
      host::add(applied, at, time_ * gyroscopic_torque(s.R(), start.system.inertia(id).diagonal(), mean));
    }
  }
  /// Sets the impulses that update() has put into the velocities.
  void apply(const IslandLayout& layout, std::span<double> applied) {
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      host::add(applied, column(layout, i), bodies_[i].impulse - bodies_[i].applied);
      bodies_[i].applied = bodies_[i].impulse;
    }
  }

  /// Replaces in v [n] the impulse of each body by that of the mean of start and end velocity, after apply_free().
  /// Velocities that this would change by no more than rounding are left as they are.
  /// @return whether it changed one
  bool update(const IslandLayout& layout, std::span<double> v) {
    bool changed = false;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      Body& body = bodies_[i];
      const int at = column(layout, i);
      const Vector3d w = head(v, at), given = w - body.divided(body.impulse),
                     by = body.R * linchpin::detail::gyroscopic_change(body.I, body.R.transpose() * body.w0,
                                                                       body.R.transpose() * given, time_),
                     change = given + by - w;
      if (change.norm() <= tuning::gyroscopic_rounding * (body.w0.norm() + w.norm())) continue;
      put(v, at, w + change);
      body.impulse += body.times(change);
      changed = true;
    }
    return changed;
  }

 private:
  struct Body {
    Matrix3d R;                           ///< at the start
    Vector3d I;                           ///< principal moments [kg·m²]
    Vector3d w0;                          ///< at the start (W)
    Vector3d impulse = Vector3d::Zero();  ///< of the gyroscopic torque, as it is in the velocities
    Vector3d applied = Vector3d::Zero();  ///< as it is in `applied`

    Vector3d times(const Vector3d& w) const { return R * I.cwiseProduct(R.transpose() * w); }
    Vector3d divided(const Vector3d& L) const { return R * (R.transpose() * L).cwiseQuotient(I); }
  };

  void read(const Start& start) {
    bodies_.resize(slots_.size());
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const BodyId id = start.layout.bodies[z(slots_[i])];
      const BodyState& s = start.state[id];
      bodies_[i].R = s.R();
      bodies_[i].I = start.system.inertia(id).diagonal();
      bodies_[i].w0 = s.w;
    }
  }
  int column(const IslandLayout& layout, std::size_t i) const { return layout.column[z(slots_[i])] + 3; }

  std::vector<int> slots_;
  std::vector<Body> bodies_;  // by slots_, once their impulses were set
  double time_ = 0;
};

}  // namespace linchpin::host
