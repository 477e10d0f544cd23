// Exact derivatives of the constrained equation at a state (T18). They say how accelerations, multipliers and forces
// change with displacements, velocities, forces, time and parameters. `forward` gives the changes along one direction,
// and `reverse` the gradient of a weighted sum.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/export.h>
#include <linchpin/parametric_system.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <memory>
#include <span>
#include <vector>

namespace linchpin {

/// A direction in which the inputs of the equation change. It is a plain value that refers to numbers of the caller. An
/// empty span counts as zeros. Columns are in block order, as in IslandLayout.
struct InputChange {
  std::span<const double> displacement{};  ///< [n] Displacement [δp; δθ] of each body (W) [m, rad], δq of a coordinate.
  std::span<const double> velocity{};      ///< [n] Change of the velocities [m/s, rad/s].
  std::span<const double> force{};         ///< [n] Change of the applied force Q [N, N·m], beside that of the forces.
  double time = 0;                         ///< Change of time [s]. Kinematic bodies with a motion move with it.
  std::span<const double> parameters{};  ///< [p] Changes of the parameters.
};

/// Changes of the solution along a direction: derivatives, multiplied by the direction.
struct OutputChange {
  std::vector<double> vdot;               ///< [n] Accelerations v̇ [m/s², rad/s²].
  std::vector<double> lambda;             ///< [m] Multipliers of Q^N, as Dynamics::lambda().
  std::vector<double> ideal;              ///< [n] Ideal constraint force Q^N [N, N·m].
  std::vector<double> nonideal;           ///< [n] Nonideal force Q^W [N, N·m].
  std::vector<double> velocity_residual;  ///< [m] Residual velocities A v + φ_t or ψ, as Assembly::velocity.
};

/// Weights of a sum over the solution, whose gradient is computed. It refers to numbers of the caller. An empty span
/// counts as zeros. The members are those of OutputChange.
struct OutputWeights {
  std::span<const double> vdot{};               ///< [n] Weights of v̇.
  std::span<const double> lambda{};             ///< [m] Weights of λ.
  std::span<const double> ideal{};              ///< [n] Weights of Q^N.
  std::span<const double> nonideal{};           ///< [n] Weights of Q^W.
  std::span<const double> velocity_residual{};  ///< [m] Weights of the residual velocities.
};

/// Gradient of a weighted sum of the solution. The members are those of InputChange.
struct InputGradient {
  std::vector<double> displacement;  ///< [n]
  std::vector<double> velocity;      ///< [n]
  std::vector<double> force;         ///< [n]
  double time = 0;                   ///< Derivative with respect to time.
  std::vector<double> parameters;    ///< [p]
};

/// Derivatives of the full equation (T5) with laws at a state, by the implicit function theorem (T18).
///
/// The partial derivatives of the assembled equation and of the laws are extrapolated central differences, without a
/// solution. The solution of the derived equation uses the factor of the state. Relative errors are usually below
/// 1e-11. They grow where a force or a law changes on a scale far below that of the mechanism.
///
/// Modes of dry friction stay: an element that slides goes on sliding, and one that sticks goes on sticking, whatever
/// the slip beside the state. Internal states of laws are fixed numbers. With redundant rows the derivatives hold for a
/// constant rank, and λ is the least-norm one. Then a displacement has to keep the constraints. Constraints, forces,
/// laws and kinetic energies must be smooth beside the state.
///
/// Cost in small systems, in units of one Dynamics::evaluate():
/// - evaluate(): below 2, and about 3 with laws. Each effort that sticks or reads the coupled normal force has a
///   back-solve. Redundant rows cost O(m² n) more.
/// - forward() along a direction of the state, of a parameter, or of both: 3, and 1 to 6 with laws. It assembles the
///   equation eight to twelve times. Each further parameter costs the same, once at each state. A force costs 0.3.
/// - reverse(): the first one at a state costs one forward() for each of the 2n + 1 inputs and each parameter. Further
///   ones cost about 0.5. forward() then uses the same partial derivatives, so it is the exact transpose.
///
/// forward() does not allocate after warm-up.
///
/// A Derivatives keeps a reference to the System, which must outlive it and not move. Results are valid until the next
/// call. It calls the functions of constraints, kinetic energies, forces, laws, kinematic bodies and of
/// ParametricSystem in the calling thread. One thread at a time may use it.
class LINCHPIN_API Derivatives {
 public:
  /// All enabled constraints of a system.
  /// @param system      the system at the values of the parameters, as parameters.make(parameters.values) gives it
  /// @param parameters  may have no parameters. Systems at nearby values are made when they are needed first.
  explicit Derivatives(const System& system, ParametricSystem parameters = {}, SolveOptions options = {});
  ~Derivatives();
  Derivatives(Derivatives&&) noexcept;

  /// Same as Dynamics::set_friction_mode(). With a mode other than automatic, the state of rest has derivatives, too.
  void set_friction_mode(int element, FrictionMode how, const Vector6& sense = Vector6::Zero());
  void reset_friction_modes();  ///< Sets all friction modes to automatic again.
  /// Sets the internal states of laws for the following evaluations. Same as Dynamics::set_internal_state().
  void set_internal_state(std::span<const double> values);

  /// Evaluates the equation at a state. Fixed and kinematic bodies have to be where System::update_kinematic() puts
  /// them.
  /// @throws std::invalid_argument  where the equation has no derivative. The text names the constraints. Their rank
  /// drops at the state, or their rows contradict each other. A friction element starts to slide or is at its bound.
  /// Laws that read the coupled normal force have no unique solution, or the equation cannot be evaluated.
  void evaluate(const State& state);
  /// The equation at the state of the last evaluate().
  const Dynamics& dynamics() const;

  /// Computes the changes of the solution along a direction.
  /// @throws std::invalid_argument  A span has the wrong size. Beside the state, the equation cannot be evaluated, or a
  /// parametric system cannot be made. evaluate() has not succeeded before.
  const OutputChange& forward(const InputChange& change);
  /// Computes the gradient of a weighted sum of the solution. It is the transpose of forward().
  /// @throws std::invalid_argument  as forward()
  const InputGradient& reverse(const OutputWeights& weights);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
