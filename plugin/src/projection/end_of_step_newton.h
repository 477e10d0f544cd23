// The Newton iteration that ends a step on the constraints (T12, T13). Private to the core.
#pragma once

#include "projection/end_of_step_residual.h"
#include "projection/tuning.h"
#include "projection/workspace.h"

#include <linchpin/projection.h>

#include <limits>
#include <span>

namespace linchpin {

/// How the velocities of a step follow from a solve: from the constraint impulse Aᵀλ and from M⁻¹Aᵀλ.
class VelocityUpdate {
 public:
  virtual ~VelocityUpdate() = default;
  /// @param force  Aᵀλ; only where EndOfStepNewton::Options::needs_force is set
  virtual void add(std::span<const double> force, std::span<const double> dv) = 0;
};
/// v ← v + M⁻¹Aᵀλ
class AddedVelocities final : public VelocityUpdate {
 public:
  explicit AddedVelocities(std::span<double> v) : v_(v) {}
  void add(std::span<const double>, std::span<const double> dv) override {
    for (std::size_t j = 0; j < v_.size(); ++j) v_[j] += dv[j];
  }

 private:
  std::span<double> v_;
};

/// Newton by the factor at the start of the step, a chord. Where it stalls, it decides between rounding, rows that
/// contradict each other (T6), and a pose at which rows lose their rank.
class EndOfStepNewton {
 public:
  struct Options {
    double tolerance;  ///< of |φ|, and of other residuals times dt
    int max_solves;
    bool minimum_norm_velocities = false;  ///< velocities follow the multipliers of least norm at the end
    bool needs_force = false;              ///< VelocityUpdate reads Aᵀλ
    std::span<const double> target{};      ///< [m] or empty: what φ ends on in place of 0
  };

  /// @param v  in: where it starts; out: the velocities at the end
  EndOfStepNewton(const EndOfStep& step, const Options& options, std::span<double> v, VelocityUpdate& update);

  /// @param lambda, force  [m], [n] or empty: the impulses of all solves are added
  NewtonReport solve(std::span<double> lambda, std::span<double> force);

 private:
  enum class Stall { goes_on, ends };

  void evaluate();
  bool has_to_follow_multipliers() const;
  void follow_multipliers();
  void restart_in_least_squares();
  bool stalls() const {
    return report_.solves > 0 && report_.residual > detail::tuning::newton_stall * previous_residual_;
  }
  Stall handle_stall();
  void step();
  void take_back();
  void finish(std::span<double> lambda, std::span<double> force);

  const EndOfStep& step_;
  const Options& options_;
  const std::span<double> v_;
  VelocityUpdate& update_;
  Workspace& work_;
  const Assembly& assembly_;
  const ConstraintFactorization& solver_;
  const double length_;  // |dt|
  const bool by_joints_;
  GeneralEndResidual general_;
  StockJointEndResidual stock_;
  EndResidualModel& model_;

  bool with_force_;
  bool least_squares_ = false;  // from here on no redundant row is left out
  bool accelerates_ = false;
  double first_residual_ = 0, previous_residual_ = 0;
  double previous_move_ = std::numeric_limits<double>::max();
  int stalls_without_gain_ = 0;
  NewtonReport report_;
};

}  // namespace linchpin
