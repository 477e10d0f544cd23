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
  /// Takes the rows A of the constraints at the state of `d`, and factors S = A M⁻¹ Aᵀ.
  /// @param rows  [count × nv], independent
  void begin(const mjModel& m, mjData& d, std::span<const double> rows, int count);
  /// Takes out of a row what the constraints take of an impulse on it: J ← J (1 − M⁻¹Aᵀ S⁻¹ A) [nv].
  void project(std::span<double> row);
  /// Changes an acceleration, by forces of the constraints, to one whose rates A a are those of another: a ← a +
  /// M⁻¹Aᵀ S⁻¹ A (target − a) [nv].
  void constrain(std::span<double> a, std::span<const double> target);

 private:
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Eigen::Map<const Matrix> rows() const { return {rows_.data(), count_, nv_}; }
  Eigen::Map<const Matrix> responses() const { return {responses_.data(), count_, nv_}; }

  Eigen::Index count_ = 0, nv_ = 0;
  std::vector<double> rows_, responses_;  // A and A M⁻¹
  std::vector<double> difference_;
  Matrix compliance_;  // S
  Eigen::LDLT<Matrix> factor_;
  Eigen::VectorXd taken_;
};

}  // namespace linchpin::mujoco
