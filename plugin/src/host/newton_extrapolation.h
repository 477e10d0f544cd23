// Start values for the end-of-step Newton (T12). What Newton adds to the multipliers is of third order in the step and
// changes smoothly, so a polynomial through the last steps starts it several contractions nearer to its end. The start
// changes only the number of solves, not where they end.
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
  /// @param steps  number of steps in a row that were noted; set to 0 when the motion turns out to be rough
  /// @param multipliers  [m] out: the extrapolated impulses; unchanged where none is worth its cost
  /// @return whether there is one
  bool predict(int& steps, std::span<double> multipliers);
  /// Notes what Newton has added in a step.
  void note(int& steps, std::span<const double> multipliers);
  /// Whether predict() is to be left out in this step: after rough motion it rests for a while.
  bool rests();

 private:
  std::vector<double> differences_;    ///< backward differences, row by row [m × orders]
  std::array<double, orders> size_{};  ///< the largest of each order
  int in_vain_ = 0, rest_ = 0;         ///< steps without a prediction; steps that are left out
};

}  // namespace linchpin::host
