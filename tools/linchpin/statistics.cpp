#include "statistics.h"

#include <cmath>

namespace linchpin::cli {

namespace {

/// The continued fraction of the incomplete beta function, by the method of Lentz.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  const auto safe = [](double y) { return std::fabs(y) < tiny ? tiny : y; };
  double c = 1, d = 1 / safe(1 - (a + b) * x / (a + 1)), out = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / safe(1 + even * d);
    c = safe(1 + even / c);
    out *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / safe(1 + odd * d);
    c = safe(1 + odd / c);
    out *= d * c;
    if (std::fabs(d * c - 1) < 1e-15) break;
  }
  return out;
}

/// The regularized incomplete beta function.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_t_95(double freedoms) {
  constexpr double normal = 1.959963984540054;
  if (!(freedoms < 1e7)) return normal;
  const auto exceeded = [&](double t) { return incomplete_beta(freedoms / 2, 0.5, freedoms / (freedoms + t * t)); };
  double low = 0, high = 2;
  while (exceeded(high) > 0.05) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (exceeded(middle) > 0.05 ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace linchpin::cli
