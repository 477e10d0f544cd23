// Derivatives of a vector function along a line by extrapolated central differences, with steps that fit the function.
// Private to the core.
#pragma once

#include "math/vector_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

namespace linchpin::detail {

/// Values of one kind in a vector function, whose errors are relative to the largest of them.
struct ValueBlock {
  std::size_t begin = 0, end = 0;
  double terms = 0;  ///< Largest of the terms whose sum is a value. Their rounding is the rounding of the value.
};

/// Central differences with the steps h, h/2, h/4 …, each four extrapolated to the eighth order. It stops where the
/// estimated truncation is below the rounding. It does not allocate after warm-up.
class CentralDifference {
 public:
  static constexpr int most_levels = 24;
  /// First step for a direction of size 1. There a smooth function has a truncation near its rounding.
  static constexpr double first_step = 0.05;

  /// @param f     f(level, part, out) writes the values at `part` of the direction, and returns false where there are
  /// none. |part| is step/2^level.
  /// @param step  first step. The direction times step/first_step has size 1.
  /// @param out   derivative. @return whether there is one
  template <class F>
  bool run(F f, double step, std::span<const ValueBlock> blocks, std::span<double> out) {
    resize(out.size());
    const double first = step;
    double best = std::numeric_limits<double>::infinity();
    int usable = 0, worse = 0;  // Levels in succession that have values, and that are worse than the best.
    // Where the function has a kink, differences of large steps grow until the steps are below its distance.
    for (int level = 0; level < most_levels && (worse < 3 || best > poor); ++level, step /= 2) {
      std::swap(table_, before_);
      if (!f(level, step, ahead_) || !f(level, -step, behind_)) {
        usable = 0;
        continue;
      }
      usable = std::min(usable + 1, orders);
      for (std::size_t i = 0; i < out.size(); ++i) table_[0][i] = (ahead_[i] - behind_[i]) / (2 * step);
      for (int order = 1; order < usable; ++order) extrapolate(order);
      if (usable < 2) continue;
      const Error error = error_of(usable, step, first, blocks);
      worse = error.whole < best ? 0 : worse + 1;
      if (error.whole < best) {
        best = error.whole;
        const std::vector<double>& found = table_[z(usable - 1)];
        std::copy(found.begin(), found.end(), out.begin());
      }
      if (error.truncation <= std::max(negligible, error.rounding)) break;
    }
    return std::isfinite(best);
  }

 private:
  static constexpr double negligible = 1e-15;
  static constexpr double poor = 1e-7;  // Error above which smaller steps are tried in any case.
  static constexpr int orders = 4;
  using Table = std::array<std::vector<double>, orders>;  // Differences of one level by order.
  struct Error {
    double truncation = 0, rounding = 0, whole = 0;  // Relative to the values.
  };
  void resize(std::size_t size) {
    for (Table* table : {&table_, &before_})
      for (std::vector<double>& x : *table) x.resize(size);
    for (auto* x : {&ahead_, &behind_}) x->resize(size);
  }

  /// Extrapolates the differences of this level and of the one before (Richardson).
  void extrapolate(int order) {
    const std::vector<double>&lower = table_[z(order - 1)], &coarser = before_[z(order - 1)];
    const double weight = 1 / (std::ldexp(1.0, 2 * order) - 1);
    for (std::size_t i = 0; i < lower.size(); ++i) table_[z(order)][i] = lower[i] + weight * (lower[i] - coarser[i]);
  }

  /// Estimates the error of the highest order.
  Error error_of(int usable, double step, double first, std::span<const ValueBlock> blocks) const {
    const std::vector<double>& result = table_[z(usable - 1)];
    Error out;
    for (const ValueBlock& block : blocks) {
      double size = 0, last = 0, before = 0;  // Size of the values, and the corrections of the last two orders.
      for (std::size_t i = block.begin; i < block.end; ++i) {
        size = std::max(size, std::fabs(result[i]));
        last = std::max(last, std::fabs(result[i] - table_[z(usable - 2)][i]));
        if (usable > 2) before = std::max(before, std::fabs(table_[z(usable - 2)][i] - table_[z(usable - 3)][i]));
      }
      const double natural = block.terms * first_step / first;  // Change of the terms by a direction of size 1.
      const double scale = std::max(size, 1e-3 * natural);
      if (!(scale > 0)) continue;
      // The next correction is smaller than the last one by about the ratio of the last two, or by a part of it.
      constexpr double safety = 8;
      const double ratio = usable > 2 && before > 0 ? std::min(1.0, safety * last / before) : 1;
      const double truncation = last * ratio, rounding = epsilon * block.terms / step;
      out.truncation = std::max(out.truncation, truncation / scale);
      out.rounding = std::max(out.rounding, rounding / scale);
      out.whole = std::max(out.whole, (truncation + rounding) / scale);
    }
    if (std::isnan(out.whole)) out.whole = std::numeric_limits<double>::infinity();
    return out;
  }

  Table table_, before_;
  std::vector<double> ahead_, behind_;
};

}  // namespace linchpin::detail
