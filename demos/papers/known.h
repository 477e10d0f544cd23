// Prints a computed number beside the known one. A program that ends with `return known_answers_missed;` fails if one
// was missed.
#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

inline int known_answers_missed = 0;

/// @param tolerance  allowed difference, relative to the known value or to 1, whichever is larger
inline void expect(const std::string& what, double computed, double known, double tolerance = 1e-9) {
  const bool met = std::abs(computed - known) <= tolerance * std::max(1.0, std::abs(known));  // false for NaN
  // + 0.0: no "-0".
  std::printf("  %-44s %18.10f   known %18.10f%s\n", what.c_str(), computed + 0.0, known + 0.0, met ? "" : "   MISSED");
  if (!met) ++known_answers_missed;
}

inline void expect(const std::string& what, const Eigen::VectorXd& computed, const Eigen::VectorXd& known,
                   double tolerance = 1e-9) {
  for (Eigen::Index i = 0; i < known.size(); ++i)
    expect(what + " " + std::to_string(i + 1), i < computed.size() ? computed[i] : NAN, known[i], tolerance);
}

/// What Dynamics hands out, as something to calculate with.
inline Eigen::VectorXd vector(std::span<const double> numbers) {
  return Eigen::Map<const Eigen::VectorXd>(numbers.data(), static_cast<Eigen::Index>(numbers.size()));
}
