// The second-order cone and its Nesterov–Todd scaling: identities that define them.
#include "math/second_order_cone.h"
#include "random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test::second_order_cone_test {
namespace {

using detail::ConeVector;

ConeVector inside(Random& random, int dim) {
  ConeVector x = ConeVector::Zero();
  for (int i = 1; i <= dim; ++i) x[i] = random.uniform(-1, 1);
  x[0] = x.tail<6>().norm() + std::pow(10, random.uniform(-6, 1));
  return x;
}

TEST(SecondOrderCone, ScalingMakesOneVectorOfTwoPoints) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int dim = random.integer(1, 6);
    const ConeVector x = inside(random, dim), s = inside(random, dim);
    const detail::ConeScaling scaling(x, s);
    const ConeVector from_x = scaling.scale(x), from_s = scaling.scale_dual(s);
    EXPECT_LE((from_x - from_s).norm(), 1e-7 * from_x.norm());  // Points near the boundary cost half the digits.
    // H x = s with H = ratio (2 w wᵀ − J).
    ConeVector reflected = -x;
    reflected[0] = x[0];
    const ConeVector H_x = scaling.ratio() * (2 * scaling.w().dot(x) * scaling.w() - reflected);
    EXPECT_LE((H_x - s).norm(), 1e-7 * s.norm());
  }
}

TEST(SecondOrderCone, QuotientInvertsTheProduct) {
  Random random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const int dim = random.integer(1, 6);
    const ConeVector x = inside(random, dim), y = inside(random, dim) - inside(random, dim);
    const ConeVector q = detail::cone_quotient(x, y);
    EXPECT_LE((detail::cone_product(x, q) - y).norm(), 1e-12 * x.norm() * q.norm());
  }
}

TEST(SecondOrderCone, StepEndsOnTheBoundary) {
  Random random(3);
  int bounded = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int dim = random.integer(1, 6);
    const ConeVector x = inside(random, dim), d = inside(random, dim) - 2 * inside(random, dim);
    const double a = detail::step_to_cone_boundary(x, d);
    ASSERT_GT(a, 0);
    if (!std::isfinite(a)) continue;
    ++bounded;
    const ConeVector end = x + a * d, before = x + 0.99 * a * d;
    EXPECT_NEAR(end[0], end.tail<6>().norm(), 1e-9 * (x.norm() + a * d.norm()));
    EXPECT_GT(before[0], before.tail<6>().norm());
  }
  EXPECT_GT(bounded, 50);
}

TEST(SecondOrderCone, StepAlongAPointOfTheConeHasNoEnd) {
  const ConeVector x = ConeVector::Unit(0);
  ConeVector d = ConeVector::Zero();
  d[0] = 2;
  d[1] = 1;
  EXPECT_TRUE(std::isinf(detail::step_to_cone_boundary(x, d)));
  EXPECT_TRUE(std::isinf(detail::step_to_cone_boundary(x, ConeVector::Zero())));
}

}  // namespace
}  // namespace linchpin::test::second_order_cone_test
