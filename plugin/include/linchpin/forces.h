// Impressed forces, and the nonideal laws of constraints. A law is a callable of what the constraint does to its
// bodies; its projection into the motion is the third term of the equation and is done in dynamics (T5).
#pragma once

#include <linchpin/system.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// What an impressed force sees and writes. All in world axes, SI.
class ForceFrame {
 public:
  ForceFrame(double time, std::span<const BodyState> bodies, std::span<Eigen::Matrix<double, 6, 1>> wrenches)
      : t(time), bodies_(bodies), wrenches_(wrenches) {}
  const double t;  ///< [s]
  const BodyState& operator[](std::size_t k) const { return bodies_[k]; }
  /// Adds a force [N] on body k at a world point [m].
  void push(std::size_t k, const Vector3d& force, const Vector3d& p_WQ) {
    add(k, force, (p_WQ - bodies_[k].p).cross(force));
  }
  /// Adds a force [N] at the centre of mass of body k.
  void push(std::size_t k, const Vector3d& force) { add(k, force, Vector3d::Zero()); }
  /// Adds a moment [N·m] on body k.
  void twist(std::size_t k, const Vector3d& moment) { add(k, Vector3d::Zero(), moment); }

 private:
  void add(std::size_t k, const Vector3d& f, const Vector3d& m) {
    if (wrenches_.empty()) return;
    wrenches_[k].head<3>() += f;
    wrenches_[k].tail<3>() += m;
  }
  std::span<const BodyState> bodies_;
  std::span<Eigen::Matrix<double, 6, 1>> wrenches_;
};

/// A named impressed force on any number of bodies, with its potential energy where it has one.
class Force {
 public:
  /// @param act     adds its forces to the frame; reads bodies in the order given here
  /// @param energy  potential [J] at a state; leave empty for forces without one (energy then has no meaning for the
  ///                system and reports say so)
  Force(std::string name, std::vector<BodyId> bodies, std::function<void(ForceFrame&)> act,
        std::function<double(std::span<const BodyState>, double t)> energy = {});
  const std::string& name() const { return name_; }
  std::span<const BodyId> bodies() const { return bodies_; }
  void act(ForceFrame& frame) const { act_(frame); }
  bool has_energy() const { return static_cast<bool>(energy_); }
  double energy(std::span<const BodyState> bodies, double t) const { return energy_(bodies, t); }

 private:
  std::string name_;
  std::vector<BodyId> bodies_;
  std::function<void(ForceFrame&)> act_;
  std::function<double(std::span<const BodyState>, double)> energy_;
};

/// A spring and damper between two body-fixed points: pulls with stiffness·(length − rest) + damping·(rate of length).
/// @param stiffness [N/m] ≥ 0. @param rest [m] ≥ 0. @param damping [N·s/m] ≥ 0 (a damped spring has no potential).
/// With rest > 0 the direction is undefined where the points coincide; the force is zero there.
Force spring(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ, double stiffness,
             double rest, double damping = 0);

/// What a law sees of its constraint: the *ideal* reaction (T9), independent of all laws. World axes.
struct Thrust {
  double t = 0;                        ///< [s]
  Vector3d point = Vector3d::Zero();   ///< where the constraint acts on the first body [m]
  Vector3d normal = Vector3d::Zero();  ///< ideal force on the first body [N]
  Vector3d moment = Vector3d::Zero();  ///< ideal moment on the first body about `point` [N·m]
  /// Velocity of the first body at `point` relative to the second's, normal to the thrust [m/s].
  Vector3d slip = Vector3d::Zero();
  const BodyState* first = nullptr;  ///< the two bodies; second is null for a constraint on one body
  const BodyState* second = nullptr;

  /// ‖normal‖ [N]: the thrust of one contact as a vector norm; never mixed with moments.
  double magnitude() const { return normal.norm(); }
  /// Unit vector along the slip, zero without slip. With `speed` > 0 [m/s]: slip / √(slip² + speed²), smooth through
  /// zero (a regularisation: it creeps where real friction sticks).
  Vector3d slip_direction(double speed = 0) const {
    const double s = std::sqrt(slip.squaredNorm() + speed * speed);
    return s > 0 ? Vector3d(slip / s) : Vector3d::Zero();
  }
};

/// The prescribed nonideal force [N] (W) on the first body at Thrust::point; its opposite acts on the second.
using Law = std::function<Vector3d(const Thrust&)>;

/// Kinetic Coulomb friction, −mu·N·slip/|slip|; zero without slip. `speed` as in Thrust::slip_direction.
/// @throws std::invalid_argument unless mu ≥ 0 and speed ≥ 0.
Law coulomb(double mu, double speed = 0);
/// Viscous friction, −coefficient·slip. @param coefficient [N·s/m] ≥ 0.
Law viscous(double coefficient);
/// Both laws at once.
Law operator+(Law a, Law b);

/// Puts a law on a constraint (several add up). @throws std::invalid_argument if it is not known where the constraint
/// acts (made from a residual without `acting_at`, and between bodies other than particles and, with one particle,
/// fixed and driven ones).
void add_law(System& system, ConstraintId on, Law law);
void clear_laws(System& system, ConstraintId on);
std::span<const Law> laws(const System& system, ConstraintId on);

}  // namespace linchpin
