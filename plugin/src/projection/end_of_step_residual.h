// The residuals that a step ends with (T12): the model that the end-of-step Newton iterates on. Private to the core.
#pragma once

#include "problem/jacobian_products.h"
#include "projection/workspace.h"

#include <linchpin/projection.h>

#include <span>

namespace linchpin {

/// A step of a block that is to end on the constraints.
struct EndOfStep {
  const System& system;
  const Dynamics& dynamics;  ///< with the factor at the start
  const State& base;         ///< the poses at the start; bodies outside the block are in `end` where they will be
  State& end;                ///< receives the poses of the bodies of the block
  double dt;                 ///< negative for steps backwards
  /// The velocities are only displacements over dt. Rows of other levels have no residual, and the clock stands still.
  bool displacements_only = false;
  double end_time() const { return displacements_only ? base.t : base.t + dt; }
};

/// Moves the bodies of the block by v over dt from their poses in `base`, and sets the clock.
void place(const IslandLayout& layout, const State& base, State& end, double dt, std::span<const double> v, double t);

/// Computes the three kinds of end-of-step residual (T12), all as velocities. @return the largest
double step_residuals(const System& system, const Assembly& assembly, const State& base, const State& end, double dt,
                      std::span<const double> v, Workspace& work);

/// Returns whether rounding alone explains the residual.
bool at_round_off(const System& system, const Assembly& assembly, const State& end, double dt,
                  std::span<const double> error);

/// The residual at the end of a step as a function of the velocities.
class EndResidualModel {
 public:
  virtual ~EndResidualModel() = default;
  /// Computes −φ/dt of the rows at the end of the step, or their like for other levels. @return the largest magnitude
  virtual double evaluate(std::span<const double> v, std::span<double> error) = 0;
  /// Sets the poses of the block to those at the end of the step.
  virtual void place(std::span<const double> v) = 0;
};

/// Constraints of any kind: the poses at the end are made, and the constraints are evaluated there.
class GeneralEndResidual : public EndResidualModel {
 public:
  GeneralEndResidual(const EndOfStep& step, Workspace& work) : step_(step), work_(work) {}
  double evaluate(std::span<const double> v, std::span<double> error) override;
  void place(std::span<const double> v) override {
    linchpin::place(step_.dynamics.assembly().layout, step_.base, step_.end, step_.dt, v, step_.end_time());
  }

 protected:
  const EndOfStep& step_;
  Workspace& work_;
};

/// Stock joints between rigid bodies: from what the step adds, without poses (StockJointResiduals).
class StockJointEndResidual final : public GeneralEndResidual {
 public:
  using GeneralEndResidual::GeneralEndResidual;
  double evaluate(std::span<const double> v, std::span<double> error) override;
};

}  // namespace linchpin
