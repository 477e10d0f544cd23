// Every tolerance of the tests, with its reason. LINCHPIN_TEST_TOLERANCE multiplies them all: 0 makes every comparison
// fail and print its true residual.
#pragma once

#include <cmath>
#include <cstdlib>

namespace linchpin::test {

inline double scaled(double tolerance) {
  static const double factor = [] {
    const char* given = std::getenv("LINCHPIN_TEST_TOLERANCE");
    return given ? std::atof(given) : 1.0;
  }();
  return factor * tolerance;
}

/// A handful of operations in double on numbers of size `scale`: some hundred units in the last place.
inline double tol_rounding(double scale = 1) { return scaled(1e-13 * std::fmax(1.0, scale)); }

/// A backward stable solve of size n with condition number `condition`, answer of size `scale`.
inline double tol_machine(int n, double condition = 1, double scale = 1) {
  return scaled(2.3e-16 * 50 * n * condition * std::fmax(1.0, scale));
}

/// What the library promises of a constraint that it has met, in the unit of its row at size 1.
inline double tol_constraint() { return scaled(1e-12); }

/// First central differences, values and curvature of size `scale`: in a direction, h²/6 and ε/h with h = 1e-5; in
/// time, of fourth order with h = 1e-4.
inline constexpr double difference_step = 1e-5, first_difference_step = 1e-4;
inline double tol_difference(double scale = 1) { return scaled(1e-9 * std::fmax(1.0, scale)); }

/// Second central differences in time, of fourth order with h = 1e-3: h⁴/90 and ε/h².
inline constexpr double second_difference_step = 1e-3;
inline double tol_second_difference(double scale = 1) { return scaled(1e-8 * std::fmax(1.0, scale)); }

/// A method of order p with step h over a time of order one.
inline double tol_integration(double h, int order, double constant = 1) {
  return scaled(constant * std::pow(h, order));
}

}  // namespace linchpin::test
