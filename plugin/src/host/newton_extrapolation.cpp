#include "host/newton_extrapolation.h"

#include "host/tuning.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

bool NewtonExtrapolation::is_paused() {
  if (pause_left_ == 0) return false;
  --pause_left_;
  return true;
}

bool NewtonExtrapolation::extrapolate(int& steps, std::span<double> multipliers) {
  // The sum includes differences while they shrink. The first one that is left out is of the size of the error.
  int terms = 0;
  const int known = std::min(steps, orders);
  for (int k = 1; k < known; ++k)
    if (size_[static_cast<std::size_t>(k)] < size_[static_cast<std::size_t>(terms)]) terms = k;
  // A start whose error is not far below the impulses of Newton saves no solve, and has a cost of its own.
  if (terms == 0 || size_[static_cast<std::size_t>(terms)] > tuning::max_extrapolation_error * size_[0]) {
    if (known == orders && ++useless_steps_ == tuning::extrapolation_patience) {
      useless_steps_ = steps = 0;
      pause_left_ = tuning::extrapolation_pause;
    }
    return false;
  }
  useless_steps_ = 0;
  if (terms == known - 1) ++terms;
  const double* differences = differences_.data();
  for (double& x : multipliers) {
    x = differences[0];
    for (int k = 1; k < terms; ++k) x += differences[k];
    differences += orders;
  }
  return true;
}

void NewtonExtrapolation::add(int& steps, std::span<const double> multipliers) {
  if (pause_left_ > 0) return;
  if (steps == 0) std::fill(differences_.begin(), differences_.end(), 0.0);
  double* differences = differences_.data();
  std::array<double, orders> size{};
  for (double now : multipliers) {
    for (int k = 0; k < orders; ++k) {
      const double next = now - differences[k];
      differences[k] = now;
      size[static_cast<std::size_t>(k)] = std::max(size[static_cast<std::size_t>(k)], std::abs(now));
      now = next;
    }
    differences += orders;
  }
  size_ = size;
  ++steps;
}

}  // namespace linchpin::host
