// The projection of MuJoCo's rows onto the exact constraints, in MuJoCo's coordinates and with its mass matrix.
//
// MuJoCo finds the forces of its rows with the mass matrix M, to which an implicit integrator adds the damping of the
// step only afterwards. So the projection is one in the metric of M. Where nothing moves, the force of a contact is
// then that of its softness, whatever the damping is.
#pragma once

#include <mujoco/mujoco.h>

#include <Eigen/Dense>

#include <span>
#include <vector>

namespace linchpin::mujoco {

class RowProjection {
 public:
  /// Takes the rows A of the constraints at the state of `d`, and makes them orthonormal, A M⁻¹ Aᵀ = 1. Rows that
  /// follow from others are left out.
  /// @param rows  [count × nv]
  void begin(const mjModel& m, mjData& d, std::span<const double> rows, int count);
  /// Takes out of a row what the constraints take of an impulse on it: J ← J (1 − M⁻¹Aᵀ A) [nv].
  void project(std::span<double> row);
  /// Changes an acceleration, by forces of the constraints, to one whose rates A a are those of another: a ← a +
  /// M⁻¹Aᵀ A (target − a) [nv].
  void constrain(std::span<double> a, std::span<const double> target);

 private:
  /// Part of the square of a row below which only rounding is left of it across others.
  static constexpr double dependent = 1e-12;
  using Vector = Eigen::Map<Eigen::VectorXd>;

  void make_orthonormal();
  Vector row(int k) { return {rows_.data() + k * nv_, nv_}; }
  Vector response(int k) { return {responses_.data() + k * nv_, nv_}; }

  int count_ = 0;
  Eigen::Index nv_ = 0;
  std::vector<double> rows_, responses_;  // A and A M⁻¹
  std::vector<double> difference_;
};

}  // namespace linchpin::mujoco
