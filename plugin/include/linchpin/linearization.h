// The equations of motion linearised about a state: ẋ = A x + B u on the tangent space of the constraints (T16), and
// the modes of these equations. It works on any System, with velocity constraints and laws.
//
// The structs of this header are plain values. The functions call the functions of the system's constraints, forces,
// laws and kinematic bodies in the calling thread, so one thread at a time may use one system. They allocate.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/error.h>
#include <linchpin/export.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <complex>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// An input u of the linearised equations: a generalized force in a fixed pattern.
struct ForceInput {
  std::string name;           ///< Name in messages.
  std::vector<double> force;  ///< [n] Force of a unit of the input, in block order [N, N·m per unit of u].
};

/// Settings of linearize().
struct LinearizeOptions {
  SolveOptions solve;  ///< Options of the equation.
  /// Largest |φ| and |φ̇| at the state, in the units of the rows. The tangent space has a meaning on the constraints
  /// only.
  double max_residual = 1e-6;
};

/// Linearised equations of motion ẋ = A x + B u about a state (T16).
///
/// The displacement of a body is [δp; δθ], its velocity change is [δv; δω], both in axes that rotate with
/// `frame_angular_velocity` and are world axes at the state. A particle has the first three, a coordinate one number.
/// The coordinates x = [ξ; η] are those of a displacement that the constraints allow, and of a velocity change beside
/// it. Matrices are row-major.
struct LINCHPIN_API LinearizedMotion {
  IslandLayout layout;    ///< Bodies and constraints, with the order of columns.
  int displacements = 0;  ///< Number of ξ: freedoms of displacement.
  int velocities = 0;     ///< Number of η: freedoms of velocity. Velocity constraints make it smaller.
  std::vector<double> A;  ///< [k × k] for k = size() [1/s].
  std::vector<double> B;  ///< [k × inputs].
  /// [2n × k] Tangent space: the displacements [n] and the velocity changes [n] that belong to x. The columns are
  /// orthonormal in the mass metric, apart from the velocity changes of the columns of ξ.
  std::vector<double> basis;
  /// Rate at which the motion rotates as a whole [rad/s] (W). A is constant in a frame with this rate. Zero for an
  /// equilibrium and for straight motion.
  Vector3d frame_angular_velocity = Vector3d::Zero();
  /// How far the state is from a steady motion, 0 to 1. It is the larger of two relative errors: the acceleration that
  /// does not belong to the rotation of the frame, and the change of A along the motion. Above max_unsteadiness, A
  /// describes the frozen state only.
  double unsteadiness = 0;
  double error = 0;  ///< Estimated error of A, relative to its norm.

  /// Largest unsteadiness of a steady motion. A state that was computed has such errors.
  static constexpr double max_unsteadiness = 1e-6;
  int size() const { return displacements + velocities; }                        ///< Number of coordinates k.
  bool is_steady() const { return unsteadiness <= max_unsteadiness; }            ///< Returns whether A is constant.
  double a(int row, int column) const { return A[index(row, column, size())]; }  ///< Entry of A.

 private:
  static std::size_t index(int row, int column, int width) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
  }
};

/// Linearises the equations of motion of the whole system about a state (T16).
///
/// The derivatives are extrapolated central differences of the whole evaluation, laws included. LinearizedMotion::error
/// has their estimated error, usually 1e-12 to 1e-10. The system is dense: for n columns it costs about 20 n
/// evaluations and O(n³), so it is for some hundred columns. If the state is not an equilibrium, the frame is found in
/// which the motion is steady: a common rotation, about the axis of gravity if there is gravity.
/// @param state  on the constraints, see project_positions() and project_velocities()
/// @throws std::invalid_argument  The state violates a constraint, or the equation cannot be evaluated. A law has an
/// internal state, or dry friction sticks: there the equations have no derivative. An input has not n numbers.
[[nodiscard]] LINCHPIN_API LinearizedMotion linearize(const System& system, const State& state,
                                                      std::span<const ForceInput> inputs = {},
                                                      const LinearizeOptions& options = {});
/// The same without exceptions.
LINCHPIN_API Result<LinearizedMotion> try_linearize(const System& system, const State& state,
                                                    std::span<const ForceInput> inputs = {},
                                                    const LinearizeOptions& options = {}) noexcept;

/// One mode x(t) = exp(λ t) x₀ of linearised equations.
struct LINCHPIN_API Eigenmode {
  std::complex<double> eigenvalue;  ///< λ [1/s].
  /// Estimated error of λ [1/s], from the error of A and the condition of the eigenvalue. A real or imaginary part
  /// below it is set to 0.
  double error = 0;
  /// [2n] Displacements and velocity changes in block order. The largest of the displacements is 1. A mode without
  /// displacements has 1 as its largest velocity change. Where λ = 0 has fewer eigenvectors than values, as for a body
  /// that coasts, the other shapes are generalized eigenvectors: such a mode grows as a power of time.
  std::vector<std::complex<double>> shape;

  double frequency() const;      ///< |Im λ| [rad/s].
  double damping_ratio() const;  ///< −Re λ/|λ|, 1 for a decay without oscillation, 0 for λ = 0.
};

/// Computes the modes, ordered by rising frequency, then by rising real part. The list contains both modes of a
/// conjugate pair. The one with the positive imaginary part comes first. Costs O(k³).
/// @throws std::invalid_argument if A is not finite, or the iteration does not converge
[[nodiscard]] LINCHPIN_API std::vector<Eigenmode> eigenmodes(const LinearizedMotion& motion);

}  // namespace linchpin
