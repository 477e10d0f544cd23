// Start values for the end-of-step Newton (T12). The impulses that Newton adds are of third order in the step and
// change smoothly. A polynomial through the last steps therefore starts Newton several contractions nearer to its end.
// The start changes the number of solves, but not their result.
#pragma once

#include "host/tuning.h"

#include <array>
#include <span>
#include <vector>

namespace linchpin::host {

class NewtonExtrapolation {
 public:
  static constexpr int orders = tuning::extrapolation_orders;

  void resize(int rows) { differences_.assign(static_cast<std::size_t>(orders * rows), 0.0); }
  /// Extrapolates the impulses of the last steps.
  /// @param steps  number of steps in a row that were added; set to 0 when the motion turns out to be rough
  /// @param multipliers  [m] out: the extrapolated impulses; unchanged where they are not worth their cost
  /// @return whether there are such
  bool extrapolate(int& steps, std::span<double> multipliers);
  /// Adds the impulses of Newton in a step.
  void add(int& steps, std::span<const double> multipliers);
  /// Returns whether extrapolate() is to be skipped in this step, as for a while after rough motion.
  bool is_paused();

 private:
  std::vector<double> differences_;         ///< backward differences, row by row [m × orders]
  std::array<double, orders> size_{};       ///< largest difference of each order
  int useless_steps_ = 0, pause_left_ = 0;  ///< steps without a useful prediction; steps that are still skipped
};

}  // namespace linchpin::host
