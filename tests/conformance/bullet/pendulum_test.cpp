// The compound pendulum: the one Bullet scene whose reaction has a closed form at every state.
#include "world.h"

#include <gtest/gtest.h>

namespace linchpin::test::pendulum_test {
namespace {

/// Of the line through equally spaced values, per step of the index.
double slope(const std::vector<double>& y) {
  const double middle = 0.5 * double(y.size() - 1);
  double above = 0, below = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    above += (double(i) - middle) * y[i];
    below += (double(i) - middle) * (double(i) - middle);
  }
  return above / below;
}

class PendulumFrom : public ::testing::TestWithParam<double> {};

//        pivot at the origin
//          \  θ from the downward vertical
//           \         I_p θ̈ = −m g l sin θ
//            ● com    F = m (a_com − g)
TEST_P(PendulumFrom, ReactionIsTheClosedFormAndThePivotStaysClosed) {
  const double angle = GetParam() * pi / 180, l = 0.5, m = 2, g = double(btScalar(9.81));
  TestWorld w;
  btRigidBody& bar = w.box(m, btVector3(btScalar(0.05), btScalar(l), btScalar(0.05)),
                           btVector3(btScalar(l * std::sin(angle)), btScalar(-l * std::cos(angle)), 0),
                           btQuaternion(btVector3(0, 0, 1), btScalar(angle)));
  btPoint2PointConstraint& pivot = w.joint<btPoint2PointConstraint>(bar, btVector3(0, btScalar(l), 0));
  btJointFeedback feedback;
  pivot.setJointFeedback(&feedback);
  bullet::Solver exact(w.world);
  const double inertia = 1 / double(bar.getInvInertiaDiagLocal().z()) + m * l * l;
  double worst_force = 0, worst_feedback = 0, gap = 0, books = 0;
  const double start_energy = exact.energy() + m * g * l;  // above the bottom
  std::vector<double> mean_energy(20, 0.0), mean_reported(20, 0.0);
  double reported_low = 1e300, reported_high = -1e300;
  for (int i = 0; i < 20 * 240; ++i) {
    const btMatrix3x3& R = bar.getWorldTransform().getBasis();
    const double theta = std::atan2(double(R[1][0]), double(R[0][0])), rate = double(bar.getAngularVelocity().z());
    const double height = l + double(bar.getWorldTransform().getOrigin().y());
    const double alpha = -m * g * l * std::sin(theta) / inertia;
    const double fx = m * l * (alpha * std::cos(theta) - rate * rate * std::sin(theta));
    const double fy = m * (l * (alpha * std::sin(theta) + rate * rate * std::cos(theta)) + g);
    const btVector3 v = bar.getLinearVelocity();
    w.step();
    const btVector3 a = (bar.getLinearVelocity() - v) * 240;  // the mean of the step, which is what feedback is of
    const Reaction& r = exact.reactions()[0];
    const double size = std::hypot(fx, fy);
    worst_force = std::max(worst_force, std::hypot(r.on_a.force.x() - fx, r.on_a.force.y() - fy) / size);
    worst_feedback =
        std::max(worst_feedback, std::hypot(double(feedback.m_appliedForceBodyA.x()) - m * double(a.x()),
                                            double(feedback.m_appliedForceBodyA.y()) - m * (double(a.y()) + g)) /
                                     size);
    gap = std::max(gap, r.gap);
    books = std::max(books, worst_books(exact));
    // Bullet's velocities belong to the middle of a step (T12): at the pose the reaction is for, the mean of two is
    // the velocity to second order.
    const double between = i == 0 ? rate : 0.5 * (rate + double(bar.getAngularVelocity().z()));
    mean_energy[static_cast<std::size_t>(i / 240)] += (m * g * height + 0.5 * inertia * between * between) / 240;
    const double E = exact.energy() + m * g * l;
    mean_reported[static_cast<std::size_t>(i / 240)] += E / 240;
    if (i < 5 * 240) {
      reported_low = std::min(reported_low, E);
      reported_high = std::max(reported_high, E);
    }
  }
  EXPECT_LE(worst_force, precision(1e-12, 1e-6));
  EXPECT_LE(worst_feedback, precision(1e-12, 1e-4));  // velocities are rounded, and their change times 240 is
  EXPECT_LE(gap, precision(1e-14, 1e-6));
  EXPECT_LE(books, 1e-12);
  // No trend (T12): the slope of the per-second mean of H, E₀ measured from the bottom. Seen 1.6e-7 (double), 8.8e-7
  // (single).
  EXPECT_LT(std::abs(slope(mean_energy)), 1e-6 * start_energy);
  // As it is read off Bullet, velocities half a step early, H swings by 2 % of E₀ within every swing, and the mean of a
  // second depends on where in a swing it ends; it stays within the first swings' span (5 s: from near the top the
  // first second hardly moves).
  for (const double E : mean_reported) {
    EXPECT_LE(E, reported_high);
    EXPECT_GE(E, reported_low);
  }
}
INSTANTIATE_TEST_SUITE_P(AnyAngle, PendulumFrom, ::testing::Values(5.0, 30.0, 90.0, 150.0, 179.0));

TEST(Pendulum, ShadowModeShowsTheNativeAnswerAndChangesNothing) {
  std::vector<btScalar> alone, beside;
  double difference = 0;
  for (const bool shadow : {false, true}) {
    TestWorld w;
    chain(w, 5);
    w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-1.8), 0));
    bullet::Solver exact(w.world, {.compare_native = shadow});
    w.step(300);
    (shadow ? beside : alone) = w.bits();
    if (shadow) {
      ASSERT_EQ(exact.native_comparison().size(), exact.reactions().size());
      for (const bullet::NativeComparison& s : exact.native_comparison())
        difference = std::max(difference, s.force_difference);
    }
  }
  EXPECT_EQ(alone, beside);     // bit for bit
  EXPECT_GT(difference, 1e-3);  // and the native solver does differ
}

TEST(Pendulum, ObservingLeavesTheNativeRunAloneBitForBit) {
  std::vector<btScalar> alone, observed;
  for (const bool observe : {false, true}) {
    TestWorld w;
    chain(w, 5);
    w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-1.8), 0));
    std::unique_ptr<bullet::Solver> solver;
    if (observe) solver = std::make_unique<bullet::Solver>(w.world, bullet::Options{.mode = bullet::Mode::passive});
    w.step(300);
    (observe ? observed : alone) = w.bits();
    if (observe) {
      EXPECT_GT(largest_gap(*solver), 1e-5);  // a native chain does open
    }
  }
  EXPECT_EQ(alone, observed);
}

// What Newton adds to a step's multipliers changes smoothly with the motion, and is foreseen: of the three solves that
// a step of a tumbling pair takes without that, at most two are left.
TEST(Pendulum, NewtonBeginsWhereSmoothMotionWillEnd) {
  TestWorld w(0);
  const btVector3 half(btScalar(0.5), btScalar(0.1), btScalar(0.2));
  btRigidBody& a = w.box(1, half, btVector3(0, 0, 0));
  btRigidBody& b = w.box(2, half, btVector3(1, 0, 0));
  a.setAngularVelocity(btVector3(1, 3, 2));
  b.setAngularVelocity(btVector3(btScalar(0.5), 2, 1));
  w.joint<btPoint2PointConstraint>(a, b, btVector3(btScalar(0.5), 0, 0), btVector3(btScalar(-0.5), 0, 0));
  bullet::Solver exact(w.world);
  for (int i = 0; i < 40; ++i) w.step();
  const auto before = exact.counts();
  for (int i = 0; i < 200; ++i) w.step();
  const double solves = double(exact.counts().newton_solves - before.newton_solves) / 200;
  EXPECT_LE(solves, 2.05) << "Newton solves per step";
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

}  // namespace
}  // namespace linchpin::test::pendulum_test
