// The stages of a Runge–Kutta step, for hosts that have forces of their own.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/export.h>
#include <linchpin/integration_method.h>
#include <linchpin/system.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin {

/// A step by the stages of rk4 or of adaptive (T13), for hosts that have forces of their own:
///
///     stages.begin(dynamics, Method::rk4, from, h);       // `dynamics` evaluated at `from`
///     stages.store(dynamics);
///     while (stages.next_stage(at)) {
///       dynamics.factor(at);
///       stages.solve(dynamics, Q);                        // Q at `at`
///     }
///     project_state(system, dynamics, at, on, v, …);      // `at` is the end of the step, off the constraints
///
/// The error of adaptive is known once its last stage is solved, which may be the first of the next substep:
///
///     stages.set_projected_end(at, on, v);
///     dynamics.factor(on);
///     stages.solve(dynamics, Q);
///     if (stages.error(on, absolute, relative) <= 1) …    // accepted; the next substep begins at `on`
///
/// The next substep calls continue_from_last() in place of store().
///
/// Does not allocate after warm-up. One object serves one thread at a time. It calls no function of the program. From
/// begin() to the end of the step it keeps pointers to `from` and to the layout of `dynamics`, and both must exist. A
/// copy continues the same step with the same pointers. Spans are valid until the next call that is not const.
class LINCHPIN_API RungeKuttaStages {
 public:
  /// @param method  rk4 or adaptive. @param from  its address must stay valid until the step is over. @param h  [s]
  void begin(const Dynamics& dynamics, Method method, const State& from, double h);
  /// Stores the accelerations that `dynamics` has just evaluated, laws included, for the stage placed last. The first
  /// stage is at `from`.
  void store(const Dynamics& dynamics);
  /// Solves the stage placed last, for which `dynamics` has only been factored, and stores it. Uses ideal constraint
  /// forces. They are not refined with full row rank. This leaves an error of rounding times the condition of G, which
  /// the projection of the step's end removes with the error of the method. @param Q  [n] @return false where a number
  /// is not finite
  [[nodiscard]] bool solve(const Dynamics& dynamics, std::span<const double> Q);
  /// Stores the first stage of a substep that begins where the last substep of adaptive has ended.
  void continue_from_last();
  /// Moves the block's bodies of `at`, and its clock, to the next stage, or to the end of the step. @return whether it
  /// is a stage, to be solved
  bool next_stage(State& at);
  /// For adaptive: the end placed last, at `off`, has been projected to `on`, with velocities v [n]. Its stage is next.
  void set_projected_end(const State& off, const State& on, std::span<const double> v);
  double weight() const;  ///< Weight of the stage solved last in the sums of the step [s].
  std::span<const double> vdot() const { return vdot_[placed_]; }  ///< [n] Acceleration of the stage solved last.
  std::span<const double> lambda() const { return lambda_; }       ///< [m] Multipliers of ideal and induced forces.
  std::span<const double> v() const { return v_; }                 ///< [n] Velocity at the last placed state.
  /// For adaptive, once the end has been solved as well: returns rms(error / (absolute + relative · size)) over
  /// positions, rotations and velocities. Vectors count by their length, and the size of a rotation is 1. @param end
  /// where the step ended
  double error(const State& end, double absolute, double relative);

 private:
  static constexpr std::size_t most = 7;
  Method method_ = Method::rk4;
  const State* from_ = nullptr;
  const IslandLayout* block_ = nullptr;
  double h_ = 0;
  std::size_t placed_ = 0;  // Index of the stage. The number of stages stands for the end.
  std::vector<double> v0_, v_, chart_, gained_, a_, error_, scale_, lambda_, dv_;
  std::array<std::vector<double>, most> pose_rate_, vdot_;
};

}  // namespace linchpin
