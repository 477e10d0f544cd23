// The stages of a Runge–Kutta step, for hosts that have forces of their own.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/integration_method.h>
#include <linchpin/system.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin {

/// A step by the stages of rk4 or of adaptive (T13) for hosts, which have forces of their own:
///
///     stages.begin(dynamics, Method::rk4, from, h);       // `dynamics` evaluated at `from`
///     stages.take(dynamics);
///     while (stages.place(at)) {
///       dynamics.factor(at);
///       stages.solve(dynamics, Q);                        // Q at `at`
///     }
///     settle(system, dynamics, at, on, v, …);             // `at` is the step's end, off the constraints by its error
///
/// and of adaptive, whose error is known once its last stage is, which may be the first of the next part:
///
///     stages.arrive(at, on, v);
///     dynamics.factor(on);
///     stages.solve(dynamics, Q);
///     if (stages.error(on, absolute, relative) <= 1) …    // it may stand; then begin(…, on, …), and go_on() for
///     take()
///
/// No allocation once warm.
class StepInStages {
 public:
  /// @param method  rk4 or adaptive. @param from  kept by address until the step is over. @param h  [s]
  void begin(const Dynamics& dynamics, Method method, const State& from, double h);
  /// The stage placed last, to begin with that at `from`, is what `dynamics` has just been evaluated at, laws and all.
  void take(const Dynamics& dynamics);
  /// Likewise, where it has been factored only. Ideal constraint forces, which with full row rank are not refined: what
  /// that leaves, rounding times the condition of G, the projection of the step's end takes away with the method's own
  /// error. @param Q  [n] @return false where a number is not finite
  [[nodiscard]] bool solve(const Dynamics& dynamics, std::span<const double> Q);
  /// Likewise of a part that begins where the last one, of adaptive, has ended.
  void go_on();
  /// Puts the block's bodies of `at`, and its clock, where the next stage is, or where the step ends.
  /// @return whether it is a stage, to be solved
  bool place(State& at);
  /// Of adaptive: the end that was placed last and lies at `off`, has been brought to `on`, with velocities v [n]. Its
  /// stage comes next.
  void arrive(const State& off, const State& on, std::span<const double> v);
  double weight() const;                                           ///< of the stage solved last, in the step's sums [s]
  std::span<const double> vdot() const { return vdot_[placed_]; }  ///< [n] there
  std::span<const double> lambda() const { return lambda_; }       ///< [m] of ideal and induced forces
  std::span<const double> v() const { return v_; }                 ///< [n] at what was placed last
  /// Of adaptive, once the end has been solved as well: rms(error / (absolute + relative · size)) over positions, turns
  /// and velocities, of which vectors count by their length and a turn's size is 1. @param end  where the step ended
  double error(const State& end, double absolute, double relative);

 private:
  static constexpr std::size_t most = 7;
  Method method_ = Method::rk4;
  const State* from_ = nullptr;
  const Block* block_ = nullptr;
  double h_ = 0;
  std::size_t placed_ = 0;  // stage, or the number of them: the end
  std::vector<double> v0_, v_, chart_, gained_, a_, error_, scale_, lambda_, dv_;
  std::array<std::vector<double>, most> pose_rate_, vdot_;
};

}  // namespace linchpin
