// Compares the velocities of bodies with the rows of their constraints (T15). The bare host and the islands of other
// hosts share this rule. Private to the core.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <span>

namespace linchpin {

/// Speeds of a body below which a residual has no meaning: rounding, and what the applied forces give from rest in one
/// step.
struct SpeedFloor {
  double linear = 0;   ///< [m/s]
  double angular = 0;  ///< [rad/s]
};

/// The row that velocities meet least.
struct RowResidual {
  double relative = 0;  ///< |φ̇| or |ψ|, relative to the speeds that its bodies could give to the row
  double value = 0;     ///< |φ̇| or |ψ| in the unit of the row, per second
  int constraint = -1;  ///< Index in IslandLayout::constraints. −1: all rows are met.
};

/// Compares the velocities with one row. The size of a row is what the linear and the angular velocity of each body
/// would give if they had the direction of the row: ‖A_v‖ ‖v‖ + ‖A_ω‖ ‖ω‖, and |φ_t|. It does not depend on the
/// directions of the axes. Terms of single components are zero across a motion, where any rounding is large relative to
/// them.
class RowComparison {
 public:
  /// Adds a body. @param row  its six entries of A @param kind  A particle and a coordinate do not turn.
  void add(const double* row, const BodyState& body, BodyKind kind, const SpeedFloor& floor);
  /// @param rate  φ̇ or ψ @param later  the same at the time of the poses, where velocities belong to another time
  RowResidual residual(double rate, double later, int constraint) const;

 private:
  double size_ = 0, by_bodies_ = 0;
};

/// Returns the row of one constraint that the velocities meet least.
/// @param assembly  constraints assembled at `at`
/// @param lag  time since the velocities [s]: those of the middle of a step are half a step older than the poses. They
///   are moved to the time of the poses by A v̇ = b.
/// @param floors  by slot of the layout
RowResidual residual_of_constraint(const System& system, const Assembly& assembly, const State& at, int constraint,
                                   double lag, std::span<const SpeedFloor> floors);

/// The residual of one island over its steps.
class ResidualAccount {
 public:
  /// Begins to compare a step, or compares it again.
  void begin_step() { worst_ = {}; }
  void add(const RowResidual& row) {
    if (row.relative > worst_.relative) worst_ = row;
  }
  const RowResidual& worst() const { return worst_; }
  /// Returns true if the residual is larger than after the last accepted step.
  bool grows() const { return worst_.relative > accepted_; }
  /// Accepts the step. @return true if the residual is above `limit`, and was below half of it since it was last so
  bool accept_step(double limit) {
    accepted_ = worst_.relative;
    if (accepted_ <= 0.5 * limit) is_named_ = false;
    if (is_named_ || !(accepted_ > limit)) return false;
    return is_named_ = true;
  }

 private:
  RowResidual worst_;
  double accepted_ = 0;
  bool is_named_ = false;
};

}  // namespace linchpin
