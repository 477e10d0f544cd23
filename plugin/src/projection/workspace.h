// Memory and residuals that the functions of projection.h share. Private to the core.
#pragma once

#include "math/anderson.h"
#include "projection/stock_joint_residuals.h"

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>

#include <span>
#include <vector>

namespace linchpin {

/// Memory of the functions of projection.h, which are called every step. Nothing in it is kept from call to call.
struct Workspace {
  StockJointResiduals joints;
  StockJointRates joint_rates;
  std::vector<double> shift;
  std::vector<double> error, previous, minus, lambda, force, dv, lambda_sum, force_sum, start;
  std::vector<BodyState> X;
  bool positions_only = false;  // all rows of the step are on positions
  std::vector<ConstraintId> chosen;
  State poses;
  detail::KeptAssembly assembly;
  ConstraintFactorization solver;
  detail::AndersonAcceleration<double> anderson;
};
Workspace& workspace();

/// Returns a constraint without a check of its index, for loops that read every constraint several times in a step.
const Constraint& constraint_at(const System& system, ConstraintId id);

bool has_level(const System& system, const IslandLayout& layout, Level level);

/// Returns the residual of row r of constraint i that the rounding of poses and velocities alone explains. Newton ends
/// there.
double round_off(const System& system, const Assembly& assembly, const State& state, int i, int r);

/// Evaluates the residual of a constraint. The residual of a user may throw, but not out of a step: it is then not a
/// number.
void evaluate_residual(const Constraint& constraint, std::span<const BodyState> X, double t,
                       std::span<double> out) noexcept;

/// Evaluates φ of all position rows at `state`. The other rows have zero. @return the largest |φ|
double position_residuals(const System& system, const IslandLayout& layout, const State& state,
                          std::vector<BodyState>& X, std::span<double> phi);

}  // namespace linchpin
