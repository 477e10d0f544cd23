// Tuning constants of rounding, which several parts of the core share. Each is a multiple of the rounding unit.
#pragma once

#include <limits>

namespace linchpin::detail::tuning {

/// Rounding of a pose, relative to the coordinates of a body. Newton cannot close a gap below it.
inline constexpr double pose_rounding = 4 * std::numeric_limits<double>::epsilon();
/// Rounding of a residual, relative to the sum of the magnitudes of its terms. A residual below it counts as zero.
inline constexpr double residual_rounding = 32 * std::numeric_limits<double>::epsilon();
/// Rounding of a velocity after some solves, relative to the largest velocity. A solve that changes no velocity by more
/// has reached the least squares.
inline constexpr double velocity_rounding = 64 * std::numeric_limits<double>::epsilon();

}  // namespace linchpin::detail::tuning
