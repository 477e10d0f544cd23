// The tuning constants of the end-of-step Newton and of projections, by mechanism. Each has a unit, where it has one,
// and a reason. The turn up to which dots define the way back is in linchpin/detail/alignment.h.
#pragma once

#include "math/tuning.h"

namespace linchpin::detail::tuning {

// ---- Newton to the end of the step (end_of_step_newton.cpp; T12) ----

/// Smallest pivot below which a pose is close to where rows lose their rank. The multipliers of a solve then do not
/// make quite the velocities that it gives.
inline constexpr double near_singular_pivot = 1e-3;
/// Share of the last residual above which a solve has stalled: it then has reached rounding, or the step is too long.
inline constexpr double newton_stall = 0.5;
/// Residual over the first one at which Newton ends. It does not come back from so far.
inline constexpr double newton_divergence = 100;
/// A stalled solve still gains where the residual or the move shrinks to this share of the last one.
inline constexpr double stall_residual_gain = 0.9, stall_move_gain = 0.5;
/// Stalled solves without gain after which Newton ends. Accelerated chords may stall once and contract again.
inline constexpr int max_stalls_without_gain = 3;

// ---- projection of poses (project_positions; T12) ----

/// Largest rank tolerance of a pose with a gap. Redundant rows with a gap between them look independent at a singular
/// value of the gap over the lever (T6); a larger tolerance would drop rows that are independent.
inline constexpr double max_gap_rank_tolerance = 1e-2;
/// Gap up to which chords with the factor of the step are tried first [m, rad]. Farther off a chord overshoots.
inline constexpr double near_gap = 1e-3;
/// Share of a step below which it is not halved again. Far from the constraints a chord overshoots a few times at most.
inline constexpr double min_chord_share = 0.1;
/// Share of the gap above which a chord is slow, and the rows are factored again.
inline constexpr double slow_chord = 0.5;
/// Share of the gap that a factorisation of its own must remove. Less is rounding, or the constraints cannot all be
/// met.
inline constexpr double projection_gain = 0.9;
/// Factor on the gap in the rank tolerance at the end of a long way. Rows seem to depend on each other there that do
/// not.
inline constexpr double fine_gap_share = 1e-3;
/// Steps of a long way, at least and at most. A way that is merely long takes ten; the most bounds small mechanisms.
inline constexpr double min_way_steps = 10, max_way_steps = 300;
/// Work of all steps of a long way: m² n of dense factors, and rows of sparse ones. Both take some tens of
/// milliseconds.
inline constexpr double max_dense_way_work = 1.5e6, max_sparse_way_work = 2e4;

// ---- projection of velocities (project_velocities, settle; T14) ----

/// Velocity error at which a projection ends, over the largest velocity.
inline constexpr double velocity_tolerance = 4 * std::numeric_limits<double>::epsilon();
/// Velocity error, over the largest velocity, that a stalled projection may leave before rows count as contradictory.
inline constexpr double stalled_velocity_error = 1e-12;
/// Velocity error below which a projection that stalls is not factored again [m/s, rad/s].
inline constexpr double small_velocity_error = 1e-12;
/// Share of the velocity error that a solve must remove: more is left only by rounding or by a factor of another pose.
inline constexpr double velocity_stall = 0.5;
/// Solves of one projection of velocities. A chord from a neighbouring pose takes a few.
inline constexpr int max_velocity_solves = 20;

}  // namespace linchpin::detail::tuning
