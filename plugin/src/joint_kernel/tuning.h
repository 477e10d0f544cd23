// The tuning constants of the joint kernel, by mechanism. Each has a unit, where it has one, and a reason. Capacities
// of arrays stand with the arrays (SymbolicFactor).
#pragma once

#include <cstddef>

namespace linchpin::detail::tuning {

// ---- which islands the kernel takes (symbolic.cpp) ----

/// Joints on one body up to which they are eliminated directly. All joints on a body meet each other, so that more of
/// them fill the factor; the body then becomes an unknown of its own.
inline constexpr std::size_t max_eliminated_joints = 8;
/// Numbers of the factor per row up to which minimum degree is not compared with another order. Chains and trees are
/// below it, and the comparison takes time.
inline constexpr double good_fill_in = 20;
/// Numbers of the factor per row above which an island is left to the general solver: a factor that fills up costs more
/// here. The allowance lets small islands be dense.
inline constexpr int max_fill_in = 120, fill_in_allowance = 1000;

// ---- the rank decision (factor.h, null_space.h, composite_body.h; T6) ----

/// Smallest pivot of an independent row, over its diagonal. Dependent rows have smaller ones by four digits
/// (max_dependent_pivot). One refinement, of the 1e-16 / 1e-8 that a solve leaves, has the multipliers to rounding.
inline constexpr double min_independent_pivot = 1e-8;
/// Largest pivot of a dependent row, over its diagonal: the square of its distance from the others. That comes from
/// gaps of the pose and from rounding, which is larger.
inline constexpr double max_dependent_pivot = 1e-12;
/// Part of a null vector that is rounding, over its largest part. It occurs in joints outside the loop.
inline constexpr double null_vector_rounding = 1e-13;
/// Numbers of all null vectors per row above which the general solver is cheaper. Windows of four bars have 1.3; a long
/// ladder has as many as it has rungs.
inline constexpr std::size_t max_null_space_fill_in = 16;
/// Smallest volume that the three axes of a weld span. The multipliers of its moments are well defined above it.
inline constexpr double min_weld_volume = 1e-3;
/// Largest pivot of a dependent weld, over its diagonal, in the squares of a loop of welds.
inline constexpr double max_dependent_weld_pivot = 1e-12;

// ---- the multipliers at the start (start_multipliers.h; T5) ----

/// Largest residual of the equation, over the size of its terms, that is accepted. Poses in single precision make rows
/// depend on each other to seven digits only.
inline constexpr double max_start_residual = 1e-7;
/// Residual above which the multipliers are refined once more. It is what a well conditioned solve leaves.
inline constexpr double smooth_start_residual = 1e-13;
/// Velocity error at the start, over the typical one of the island, above which it is an activation (T14). Steps of a
/// host always begin off their velocity constraints by O(dt).
inline constexpr double activation_factor = 2;
/// Velocity error that is rounding, over the largest velocity. Steps by stages leave no more.
inline constexpr double activation_rounding = 1e-13;

// ---- Newton to the end of the step (end_newton.h; T12) ----

/// Gap at the start that is rounding, and is closed whole [m, rad]. A larger one closes in proportion to the substep.
inline constexpr double start_gap_rounding = 1e-12;
/// Share of the residual that a chord may leave before it is worth accelerating. Good chords leave a hundredth.
inline constexpr double slow_contraction = 0.1;
/// Share of the smallest residual so far above which a solve has stalled: it then has reached rounding or diverges.
inline constexpr double stalled_contraction = 0.5;
/// Stalled solves after which Newton ends. Accelerated chords may stall once and contract again.
inline constexpr int max_stalls = 3;
/// Growth of the residual, over the smallest so far, at which Newton ends at once.
inline constexpr double max_growth = 10;
/// Tolerance from which on Newton need not end at rounding [m, rad]. Poses of single precision have such tolerances.
inline constexpr double coarse_tolerance = 1e-11;
/// Disagreement of redundant rows, over that tolerance, with which Newton may end. No multiplier can help it.
inline constexpr double max_disagreement = 10;

}  // namespace linchpin::detail::tuning
