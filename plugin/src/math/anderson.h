// Anderson acceleration of a Newton iteration whose factor belongs to another place (Anderson, J. ACM 12 (1965) 547).
#pragma once

#include "math/aligned_vector.h"
#include "math/vec3.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// A chord step (a solve with the factor at the start of the step) leaves of the residual what the rows have turned by
/// since then, much the same from one step to the next. Near a pose at which a mechanism folds it overshoots, or leads
/// away in a direction or two. The changes of the last steps and of their residuals say how long the next step has to
/// be: the residual is reduced by those changes first, and only the rest of it by a chord.
///
/// There are two ways to use it, each after begin() and for every chord step in turn:
///
///  - reduce() before the chord and lengthen() after it, where the chord is linear in the residual to the last digit;
///  - improve() after the chord, where it is not.
///
/// Real is a double, or several iterations side by side. Memory is kept and only grows.
template <class Real>
class AndersonAcceleration {
 public:
  using Vector = AlignedVector<Real>;

  void lay_out(std::size_t rows) {
    last_residual_.resize(rows);
    step_.resize(rows);
    changes_ = {};
  }
  void begin() { known_ = steps_ = 0; }

  /// @param e       in: the residual, by row, in the scale of impulses; out: what is left of it for the chord
  /// @param learns  by lane, 1 where the step before is taken into account, 0 elsewhere; memory is allocated when one
  ///                first is
  void reduce(Vector& e, const Real& learns) {
    if (known_ > 0 || positive_somewhere(learns)) {
      Change& to = next_change(e.size(), e.size());
      for (std::size_t r = 0; r < e.size(); ++r) to.residual[r] = e[r] - last_residual_[r];
      std::swap(to.step, step_);
      add(to, learns, 0);  // of a change that depends on the others the rest of the residual has no share
    }
    std::copy(e.begin(), e.end(), last_residual_.begin());
    if (known_ == 0) return;
    std::fill(step_.begin(), step_.end(), Real{});
    for (int j = std::max(known_ - most, 0); j < known_; ++j) take_off(change(j), e, step_);
  }

  /// @param x  the chord step for that rest
  /// @return the step to take
  const Vector& lengthen(Vector& x) {
    if (known_ == 0)
      std::swap(step_, x);
    else
      for (std::size_t r = 0; r < x.size(); ++r) step_[r] += x[r];
    return step_;
  }

  /// @param e      the residual, which the chord step would take away if rows were straight
  /// @param parts  in: the chord step (multipliers, forces, velocities); out: the step to take
  /// @param use    false: the chord step is only recorded
  template <std::size_t count>
  void improve(std::span<const Real> e, const std::array<std::span<Real>, count>& parts, bool use) {
    chord_.clear();
    for (const auto& part : parts) chord_.insert(chord_.end(), part.begin(), part.end());
    if (steps_++ > 0) {
      Change& to = next_change(e.size(), chord_.size());
      for (std::size_t r = 0; r < e.size(); ++r) to.residual[r] = e[r] - last_residual_[r];
      for (std::size_t i = 0; i < chord_.size(); ++i) to.step[i] = step_[i] + (chord_[i] - last_chord_[i]);
      constexpr double least_independent = 1e-12;  // the step of a nearly dependent change is mostly rounding
      add(to, 1, least_independent);
    }
    last_residual_.assign(e.begin(), e.end());
    step_ = chord_;
    std::swap(last_chord_, chord_);
    if (!use) return;
    rest_.assign(e.begin(), e.end());
    for (int j = std::max(known_ - most, 0); j < known_; ++j) take_off(change(j), rest_, step_);
    const Real* from = step_.data();
    for (const auto& part : parts) {
      std::copy_n(from, part.size(), part.data());
      from += part.size();
    }
  }

 private:
  static constexpr int most = 5;  // changes that are remembered
  /// What a step changed of the residual, orthogonal to the changes before it, and the step that makes it.
  struct Change {
    Vector residual, step;
    Real inverse;  // of the square of the residual's length; 0: it is not used
  };

  Change& change(int number) { return changes_[static_cast<std::size_t>(number % most)]; }
  Change& next_change(std::size_t rows, std::size_t columns) {
    Change& to = change(known_);
    to.residual.resize(rows);
    to.step.resize(columns);
    return to;
  }
  static bool positive_somewhere(const Real& x) {
    for (int lane = 0; lane < SimdTraits<Real>::count; ++lane)
      if (SimdTraits<Real>::get(x, lane) > 0) return true;
    return false;
  }

  /// Makes the next change orthogonal to the others.
  /// @param least_independent  a change is not used whose square is at most that share of what it was before
  void add(Change& to, const Real& learns, double least_independent) {
    Real least = SimdTraits<Real>::all(1e-290);
    if (least_independent > 0) least = maximum(least, Real(least_independent * product(to.residual, to.residual)));
    for (int j = std::max(known_ - most + 1, 0); j < known_; ++j) take_off(change(j), to.residual, to.step);
    const Real square = product(to.residual, to.residual);
    to.inverse = learns * select_less(least, square, 1 / maximum(square, least), Real{});
    ++known_;
  }
  static void take_off(const Change& by, Vector& residual, Vector& step) {
    const Real c = by.inverse * product(by.residual, residual);
    for (std::size_t r = 0; r < residual.size(); ++r) residual[r] -= c * by.residual[r];
    for (std::size_t i = 0; i < step.size(); ++i) step[i] -= c * by.step[i];
  }
  static Real product(const Vector& a, const Vector& b) {  // in four sums: one waits for its last addition
    std::array<Real, 4> sums{};
    std::size_t r = 0;
    for (; r + 4 <= a.size(); r += 4)
      for (std::size_t k = 0; k < 4; ++k) sums[k] += a[r + k] * b[r + k];
    for (; r < a.size(); ++r) sums[0] += a[r] * b[r];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  int known_ = 0, steps_ = 0;  // changes and steps so far
  std::array<Change, std::size_t{most}> changes_;
  Vector last_residual_, step_;
  Vector chord_, last_chord_, rest_;  // of improve()
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
