// Quantiles for the intervals of estimates.
#pragma once

namespace linchpin::cli {

/// The value that |x| of Student's t distribution exceeds with the probability 5 %.
/// @param freedoms  above 0; infinity: that of the normal distribution
double student_t_95(double freedoms);

}  // namespace linchpin::cli
