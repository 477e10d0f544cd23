// The number types of derivatives against closed forms.
#include "support/random.h"
#include "support/tolerances.h"

#include <linchpin/detail/jet.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace linchpin::test::jet_test {
namespace {

struct Case {
  std::string name;
  std::function<Dual<6>(Dual<6>)> dual;
  std::function<Taylor(Taylor)> taylor;
  std::function<double(double)> f, f1, f2;  // the function and its derivatives
  double low, high;
};

// The expression is written once, for every number type.
#define LINCHPIN_CASE(expression, f, f1, f2, low, high)                                                    \
  Case {                                                                                                   \
#expression, [](Dual<6> x) { return Dual<6>(expression); }, [](Taylor x) { return Taylor(expression); }, \
        [](double x) { return static_cast<void>(x), f; }, [](double x) { return static_cast<void>(x), f1; }, \
        [](double x) { return static_cast<void>(x), f2; }, low, high \
  }

double sech2(double x) { return 1 / (std::cosh(x) * std::cosh(x)); }

const std::vector<Case> cases = {
    LINCHPIN_CASE(sin(x), std::sin(x), std::cos(x), -std::sin(x), -4, 4),
    LINCHPIN_CASE(cos(x), std::cos(x), -std::sin(x), -std::cos(x), -4, 4),
    LINCHPIN_CASE(tan(x), std::tan(x), 1 / std::pow(std::cos(x), 2), 2 * std::tan(x) / std::pow(std::cos(x), 2), -1.2,
                  1.2),
    LINCHPIN_CASE(asin(x), std::asin(x), 1 / std::sqrt(1 - x * x), x / std::pow(1 - x * x, 1.5), -0.9, 0.9),
    LINCHPIN_CASE(acos(x), std::acos(x), -1 / std::sqrt(1 - x * x), -x / std::pow(1 - x * x, 1.5), -0.9, 0.9),
    LINCHPIN_CASE(atan(x), std::atan(x), 1 / (1 + x * x), -2 * x / std::pow(1 + x * x, 2), -3, 3),
    LINCHPIN_CASE(sinh(x), std::sinh(x), std::cosh(x), std::sinh(x), -2, 2),
    LINCHPIN_CASE(cosh(x), std::cosh(x), std::sinh(x), std::cosh(x), -2, 2),
    LINCHPIN_CASE(tanh(x), std::tanh(x), sech2(x), -2 * std::tanh(x) * sech2(x), -2, 2),
    LINCHPIN_CASE(asinh(x), std::asinh(x), 1 / std::sqrt(1 + x * x), -x / std::pow(1 + x * x, 1.5), -3, 3),
    LINCHPIN_CASE(exp(x), std::exp(x), std::exp(x), std::exp(x), -2, 2),
    LINCHPIN_CASE(log(x), std::log(x), 1 / x, -1 / (x * x), 0.2, 4),
    LINCHPIN_CASE(sqrt(x), std::sqrt(x), 0.5 / std::sqrt(x), -0.25 / std::pow(x, 1.5), 0.2, 4),
    LINCHPIN_CASE(square(x), x* x, 2 * x, 2, -3, 3),
    LINCHPIN_CASE(pow(x, 2.5), std::pow(x, 2.5), 2.5 * std::pow(x, 1.5), 3.75 * std::pow(x, 0.5), 0.2, 3),
    LINCHPIN_CASE(pow(x, 3), x* x* x, 3 * x * x, 6 * x, -2, 2),
    LINCHPIN_CASE(pow(x, 0), 1, 0, 0, -2, 2),
    LINCHPIN_CASE(abs(x), std::fabs(x), x < 0 ? -1.0 : 1.0, 0, -3, 3),
    LINCHPIN_CASE(x* x* x - 2.0 * x + 1.0, x* x* x - 2 * x + 1, 3 * x * x - 2, 6 * x, -2, 2),
    LINCHPIN_CASE(1.0 / x, 1 / x, -1 / (x * x), 2 / (x * x * x), 0.3, 3),
    LINCHPIN_CASE(x / (1.0 + x), x / (1 + x), 1 / std::pow(1 + x, 2), -2 / std::pow(1 + x, 3), 0.1, 3),
    LINCHPIN_CASE((3.0 - x) / 2.0 - (x - 1.0), (3 - x) / 2 - (x - 1), -1.5, 0, -3, 3),
    LINCHPIN_CASE(sin(x) * exp(x), std::sin(x) * std::exp(x), (std::sin(x) + std::cos(x)) * std::exp(x),
                  2 * std::cos(x) * std::exp(x), -2, 2),
    LINCHPIN_CASE(sin(square(x)), std::sin(x* x), 2 * x * std::cos(x * x),
                  2 * std::cos(x * x) - 4 * x * x * std::sin(x * x), -2, 2),
    LINCHPIN_CASE(hypot(x, 2.0 * x + 1.0), std::hypot(x, 2 * x + 1), (5 * x + 2) / std::hypot(x, 2 * x + 1),
                  1 / std::pow(std::hypot(x, 2 * x + 1), 3), -2, 2),
};
#undef LINCHPIN_CASE

TEST(Jet, DualCarriesTheFirstDerivativeInEveryDirection) {
  for (const Case& c : cases)
    for (const std::uint64_t seed : seeds(20)) {
      SCOPED_TRACE(c.name + "; " + repeat_with(seed));
      Random random(seed);
      Dual<6> x(random.uniform(c.low, c.high));
      for (double& g : x.grad) g = random.uniform();
      const Dual<6> y = c.dual(x);
      const double scale = std::fabs(c.f(x.value)) + std::fabs(c.f1(x.value));
      EXPECT_NEAR(y.value, c.f(x.value), tol_rounding(scale));
      for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y.grad[i], c.f1(x.value) * x.grad[i], tol_rounding(scale));
    }
}

TEST(Jet, TaylorCarriesTwoDerivativesAlongAMotion) {
  for (const Case& c : cases)
    for (const std::uint64_t seed : seeds(20)) {
      SCOPED_TRACE(c.name + "; " + repeat_with(seed));
      Random random(seed);
      const double x0 = random.uniform(c.low, c.high), x1 = random.uniform(), x2 = random.uniform();
      const Taylor y = c.taylor({x0, x1, x2});
      const double scale = std::fabs(c.f(x0)) + std::fabs(c.f1(x0)) + std::fabs(c.f2(x0));
      EXPECT_NEAR(y.c0, c.f(x0), tol_rounding(scale));
      EXPECT_NEAR(y.c1, c.f1(x0) * x1, tol_rounding(scale));
      EXPECT_NEAR(y.c2, c.f1(x0) * x2 + 0.5 * c.f2(x0) * x1 * x1, tol_rounding(scale));
    }
}

TEST(Jet, Atan2IsRightInAllQuadrantsAndOnTheAxes) {
  for (int i = 0; i < 16; ++i) {
    const double angle = -3.0 + 0.4 * i;  // one of them close to ±π, none on the cut
    const Taylor s(0, 1, 0), t = Taylor(angle) + 0.7 * s + 0.2 * s * s;
    const Taylor back = atan2(2.0 * sin(t), 2.0 * cos(t));
    EXPECT_NEAR(back.c0, std::remainder(angle, 2 * std::numbers::pi), tol_rounding());
    EXPECT_NEAR(back.c1, 0.7, tol_rounding());
    EXPECT_NEAR(back.c2, 0.2, tol_rounding());
  }
  Dual<6> y(0.0), x(-1.0);
  y.grad[0] = 1;
  EXPECT_NEAR(atan2(y, x).grad[0], -1, tol_rounding());
  EXPECT_NEAR(atan2(y, x).value, std::numbers::pi, tol_rounding());
}

TEST(Jet, CompoundAssignmentIsTheSameAsTheOperator) {
  const Taylor x(0.7, -0.3, 0.4), y(1.3, 0.2, -0.6);
  Taylor sum = x, product = x, quotient = x, difference = x;
  sum += y, product *= y, quotient /= y, difference -= y;
  const Taylor back = (sum - y) + (product / y) + (quotient * y) + (difference + y);
  EXPECT_NEAR(back.c0, 4 * x.c0, tol_rounding());
  EXPECT_NEAR(back.c1, 4 * x.c1, tol_rounding());
  EXPECT_NEAR(back.c2, 4 * x.c2, tol_rounding());
}

TEST(Jet, VectorsObeyTheProductRule) {
  // d/ds of u·v and u×v at constant rates, against the rule in plain vectors.
  Random random(1);
  const Vector3d u = random.vector(), u1 = random.vector(), v = random.vector(), v1 = random.vector();
  const auto line = [](const Vector3d& p, const Vector3d& d) {
    return Vec3<Taylor>({p.x(), d.x(), 0}, {p.y(), d.y(), 0}, {p.z(), d.z(), 0});
  };
  const Taylor dotted = dot(line(u, u1), line(v, v1));
  EXPECT_NEAR(dotted.c1, u1.dot(v) + u.dot(v1), tol_rounding());
  EXPECT_NEAR(dotted.c2, u1.dot(v1), tol_rounding());
  const Vec3<Taylor> crossed = cross(line(u, u1), line(v, v1));
  const Vector3d c1 = u1.cross(v) + u.cross(v1), c2 = u1.cross(v1);
  EXPECT_NEAR(crossed.z.c1, c1.z(), tol_rounding());
  EXPECT_NEAR(crossed.x.c2, c2.x(), tol_rounding());
  const Taylor length = norm(line(u, u1));
  EXPECT_NEAR(length.c1, u.dot(u1) / u.norm(), tol_rounding());
}

TEST(Jet, VectorsMixWithConstants) {
  const Vec3<Taylor> p({1, 1, 0}, {2, 0, 0}, {3, 0, 0});
  const Vec3<Taylor> q = 2.0 * (p - Vector3d(1, 1, 1)) + Vector3d(0, 0, 1) / 2.0 - p * 0.5;
  EXPECT_DOUBLE_EQ(q.x.c0, -0.5);
  EXPECT_DOUBLE_EQ(q.x.c1, 1.5);
  EXPECT_DOUBLE_EQ(q.z.c0, 3.0);
  EXPECT_DOUBLE_EQ(dot(p, Vector3d(1, 0, 0)).c1, 1);
  const Taylor t(0, 1, 0);
  EXPECT_DOUBLE_EQ((sin(t) * Vector3d(0, 3, 0) + Vector3d(0, 2, 0) * t).y.c1, 5);
}

}  // namespace
}  // namespace linchpin::test::jet_test
