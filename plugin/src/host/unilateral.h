// Unilateral constraints: when they are released, and when they are engaged again.
#pragma once

#include "host/context.h"

#include <span>
#include <vector>

namespace linchpin::host {

/// Rows of a constraint at the states that its bodies have in the host now, those that a motor or compliance replaces
/// included.
struct LinearizedEntry {
  std::vector<double> A, b, position, velocity;  ///< [rows × 6 bodies], [rows]; A of NaN where the residual throws
};
LinearizedEntry linearize(const Context& c, const ConstraintEntry& r);
/// The same at states that are given. @param out  kept memory @return false where the residual throws
bool linearize(const Constraint& constraint, std::span<const BodyState> X, double t, LinearizedEntry& out);

/// The state by which a unilateral constraint is switched at the start of a step.
struct UnilateralState {
  double position = 0, velocity = 0;  ///< φ, φ̇
  double gain = 0;                    ///< change of φ̇ in the step by the applied forces alone
};
/// Adds the change of φ̇ in the step by the applied forces on a rigid body. @param row  of A, its part [6]
void add_applied_gain(const Context& c, BodyId id, const double* row, double& gain);
/// Engages a released constraint in the step in which its gap would close: the step then ends on the surface. Releases
/// an engaged one where bodies separate faster than steps leave them, or where the program has moved them apart.
void switch_unilateral(Context& c, int entry, const UnilateralState& at);
/// Releases constraints of an island whose multipliers had the wrong sign over the step.
void release_unilateral(Context& c, int entry, double impulse);

/// At the start of a step: switches the unilateral constraints on rigid bodies.
void switch_all_unilateral(Context& c);
/// At the end of the step of an island.
void release_all_unilateral(Context& c, const Island& b);

}  // namespace linchpin::host
