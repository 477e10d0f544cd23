#include "host/newton_extrapolation.h"

#include "host/tuning.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

bool NewtonExtrapolation::rests() {
  if (rest_ == 0) return false;
  --rest_;
  return true;
}

bool NewtonExtrapolation::predict(int& steps, std::span<double> multipliers) {
  // The sum of differences goes on while they shrink. The first one that is left out is of the size of the error.
  int terms = 0;
  const int known = std::min(steps, orders);
  for (int k = 1; k < known; ++k)
    if (size_[static_cast<std::size_t>(k)] < size_[static_cast<std::size_t>(terms)]) terms = k;
  // A start that is not well below what is left to do saves no solve, and has a cost of its own.
  if (terms == 0 || size_[static_cast<std::size_t>(terms)] > tuning::max_extrapolation_error * size_[0]) {
    if (known == orders && ++in_vain_ == tuning::extrapolation_patience) {
      in_vain_ = steps = 0;
      rest_ = tuning::extrapolation_pause;
    }
    return false;
  }
  in_vain_ = 0;
  if (terms == known - 1) ++terms;
  const double* differences = differences_.data();
  for (double& x : multipliers) {
    x = differences[0];
    for (int k = 1; k < terms; ++k) x += differences[k];
    differences += orders;
  }
  return true;
}

void NewtonExtrapolation::note(int& steps, std::span<const double> multipliers) {
  if (rest_ > 0) return;
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
