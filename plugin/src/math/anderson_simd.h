// What the Newton of a step, by the factor at its start, learns from its own way (Anderson, J. ACM 12 (1965) 547):
// where rows turn within a step, every chord leaves of the residual what the turn makes of it, much the same from one
// to the next. What steps so far did to residuals is taken off the next by them, and only the rest of it by a chord.
#pragma once

#include "math/simd.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// Before every chord of a Newton in turn reduce(), after it lengthen().
template <class Real>
class AndersonSimd {
 public:
  void lay_out(std::size_t rows) {
    last_.resize(rows);
    step_.resize(rows);
    pairs_ = {};
  }
  void begin() { known_ = 0; }

  /// @param e       in: the residual, by row, in the scale of impulses; out: what is left of it for the chord
  /// @param learns  whether a lane does from the step before: one, or zero; memory is taken when one first does
  void reduce(AlignedVector<Real>& e, const Real& learns) {
    if (known_ > 0 || positive_somewhere(learns)) learn(e, learns);
    std::copy(e.begin(), e.end(), last_.begin());
    if (known_ == 0) return;
    std::fill(step_.begin(), step_.end(), Real{});
    for (int j = std::max(known_ - most, 0); j < known_; ++j) take_off(pair(j), e, step_);
  }

  /// @param x  the chord
  /// @return the step to take
  const AlignedVector<Real>& lengthen(AlignedVector<Real>& x) {
    if (known_ == 0)
      std::swap(step_, x);
    else
      for (std::size_t r = 0; r < x.size(); ++r) step_[r] += x[r];
    return step_;
  }

 private:
  static constexpr int most = 5;
  struct Pair {
    AlignedVector<Real> e, way;  // what a way changes, across what the others do
    Real inverse;                // of |e|²
  };

  Pair& pair(int number) { return pairs_[static_cast<std::size_t>(number % most)]; }
  static bool positive_somewhere(const Real& x) {
    for (int lane = 0; lane < SimdTraits<Real>::count; ++lane)
      if (SimdTraits<Real>::get(x, lane) > 0) return true;
    return false;
  }
  void learn(const AlignedVector<Real>& e, const Real& learns) {
    Pair& to = pair(known_);
    to.e.resize(e.size());
    to.way.resize(e.size());
    for (std::size_t r = 0; r < e.size(); ++r) to.e[r] = e[r] - last_[r];
    std::swap(to.way, step_);
    for (int j = std::max(known_ - most + 1, 0); j < known_; ++j) take_off(pair(j), to.e, to.way);
    const Real square = product(to.e, to.e), none = SimdTraits<Real>::all(1e-290);
    to.inverse = learns * select_less(none, square, 1 / maximum(square, none), Real{});
    ++known_;
  }
  static void take_off(const Pair& by, AlignedVector<Real>& e, AlignedVector<Real>& way) {
    const Real c = by.inverse * product(by.e, e);
    for (std::size_t r = 0; r < e.size(); ++r) e[r] -= c * by.e[r], way[r] -= c * by.way[r];
  }
  static Real product(const AlignedVector<Real>& a,
                      const AlignedVector<Real>& b) {  // in four sums: one waits for its last addition
    std::array<Real, 4> sums{};
    std::size_t r = 0;
    for (; r + 4 <= a.size(); r += 4)
      for (std::size_t k = 0; k < 4; ++k) sums[k] += a[r + k] * b[r + k];
    for (; r < a.size(); ++r) sums[0] += a[r] * b[r];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  int known_ = 0;  // so far, of which the last are kept
  std::array<Pair, std::size_t{most}> pairs_;
  AlignedVector<Real> last_, step_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
