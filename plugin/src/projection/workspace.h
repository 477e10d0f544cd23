// Memory and residuals that the functions of projection.h share. Private to the core.
#pragma once

#include "projection/stock_joint_residuals.h"

#include <linchpin/constraint.h>
#include <linchpin/detail/anderson.h>
#include <linchpin/dynamics.h>

#include <limits>
#include <span>
#include <vector>

namespace linchpin {

inline constexpr double epsilon = std::numeric_limits<double>::epsilon();

/// Memory of the functions below, which are called every step and have nowhere of their own to keep it. Contents never
/// survive a call.
struct Workspace {
  StockJointResiduals joints;
  StockJointRates joint_rates;
  std::vector<double> shift;
  std::vector<double> error, previous, minus, lambda, force, dv, lambda_sum, force_sum, start;
  std::vector<BodyState> X;
  bool positions_only = false;  // all rows of the step at hand
  std::vector<ConstraintId> chosen;
  State poses;
  detail::KeptAssembly assembly;
  Solver solver;
  detail::AndersonAcceleration anderson;
};
Workspace& workspace();

/// The constraint without the check of the index: these loops see every constraint several times in a step.
const Constraint& constraint_at(const System& system, ConstraintId id);

bool has_level(const System& system, const Block& block, Level level);

/// Residual of row r of constraint i that the rounding of poses and velocities alone explains. A Newton that is there
/// has arrived.
double round_off(const System& system, const Assembly& assembly, const State& state, int i, int r);

/// The residual of a constraint. A user's residual may throw, but not out of a step: its residual is then not a number.
void evaluate_residual(const Constraint& constraint, std::span<const BodyState> X, double t,
                       std::span<double> out) noexcept;

/// φ of all position rows at `state`; zero for the other rows. @return the largest |φ|.
double position_residuals(const System& system, const Block& block, const State& state, std::vector<BodyState>& X,
                          std::span<double> phi);

}  // namespace linchpin
