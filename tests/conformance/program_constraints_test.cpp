// Constraints of the program's own, laws, and unilateral constraints.
#include "host_world.h"

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test {

namespace {

HostWorld::Make on_a_circle(std::string name, double radius) {
  return [=](const std::vector<BodyId>& ids) {
    return holonomic(name, ids, [=](const auto& s) {
      const auto p = s[0].point(0, 0, 0);
      return rows((p.x * p.x + p.y * p.y - radius * radius) / (2 * radius), p.z);
    });
  };
}

TEST(ProgramConstraints, HoldABeadOnAWire) {
  const auto w = make_host_world();
  const int bead = w->add_ball(0.5, 0.01, Vector3d(0.7, 0, 0));
  w->install();
  const int wire = w->constrain({bead}, on_a_circle("wire", 0.7));
  for (int i = 0; i < 240; ++i) {
    w->step();
    ASSERT_NEAR(w->state(bead).p.norm(), 0.7, w->precision(1e-13, 1e-6)) << "step " << i;
  }
  EXPECT_LT(w->reaction(wire).residual, w->precision(1e-13, 1e-6));
  EXPECT_LT(w->worst_imbalance(), w->precision(1e-9, 1e-4));
}

TEST(ProgramConstraints, OnVelocitiesHoldASkate) {
  const auto w = make_host_world();
  const int skate = w->add_box(1, Vector3d(0.2, 0.05, 0.05), Vector3d(0, 1, 0));
  BodyState s = w->state(skate);
  s.v = Vector3d(1, 0, 0);
  s.w = Vector3d(0, 2, 0);
  w->set_state(skate, s);
  w->install();
  w->constrain({skate}, [](const std::vector<BodyId>& ids) {
    return nonholonomic("edge", ids, [](const auto& x) {
      return rows(dot(x[0].axis(0, 0, 1), x[0].velocity()), x[0].velocity().y, x[0].omega().x, x[0].omega().z);
    });
  });
  w->step(240);
  const BodyState end = w->state(skate);
  // A step of order 1 holds a velocity constraint at the pose in the middle of the step.
  const Quaterniond q = Quaterniond(Eigen::AngleAxisd(-0.5 * step_length * end.w.y(), Vector3d::UnitY())) * end.q;
  EXPECT_NEAR((q * Vector3d(0, 0, 1)).dot(end.v), 0, w->precision(1e-10, 1e-4));
  EXPECT_NEAR(end.v.norm(), 1, w->precision(1e-2, 1e-2));
  EXPECT_NEAR(end.p.y(), 1, w->precision(1e-9, 1e-4));
}

TEST(ProgramConstraints, AreRefusedByName) {
  const auto w = make_host_world();
  const int body = w->add_ball(1, 0.1, Vector3d(0, 1, 0)), fixed = w->add_kinematic(Vector3d(0, 3, 0));
  w->install();
  int handle = -1;
  EXPECT_EQ(w->constrain({body}, on_a_circle("wire", 1), handle), "");
  EXPECT_NE(w->constrain({body}, on_a_circle("wire", 1), handle).find("another constraint has the name 'wire'"),
            std::string::npos);
  if (w->has(Feature::kinematic_bodies)) {
    EXPECT_NE(w->constrain({fixed}, on_a_circle("still", 3), handle).find("still"), std::string::npos);
  }
}

// A block slides down an incline of slope α with a = standard_gravity (sin α − μ cos α).
TEST(Laws, SlideWithTheFrictionOfTheirNormalForce) {
  const auto w = make_host_world();
  const double slope = 0.5, mu = 0.2;
  const Vector3d down(std::cos(slope), -std::sin(slope), 0);
  const Quaterniond q(Eigen::AngleAxisd(-slope, Vector3d::UnitZ()));
  const int block = w->add_box(2, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 3, 0), q);
  const int rail = w->add_joint(JointKind::slider, -1, block, Vector3d(0, 3, 0), down);
  w->install();
  const int handle = w->handle_of(rail);
  ASSERT_EQ(w->add_law(handle, laws::coulomb(mu, mu)), "");
  w->step(120);
  const double a = standard_gravity * (std::sin(slope) - mu * std::cos(slope)), t = 120 * step_length;
  EXPECT_NEAR(w->state(block).v.dot(down), a * t, w->precision(1e-9, 1e-3));
  const Reaction r = w->reaction(handle);
  EXPECT_NEAR(r.prescribed.on_b.force.norm(), mu * 2 * standard_gravity * std::cos(slope), w->precision(1e-8, 1e-2));
  ASSERT_EQ(w->laws(handle).size(), 1u);
  EXPECT_EQ(w->laws(handle)[0].mode, LawWork::Mode::slides);
  EXPECT_LT(w->worst_imbalance(), w->precision(1e-9, 1e-4));
}

TEST(Laws, StickBelowTheirBound) {
  const auto w = make_host_world();
  const double slope = 0.5, mu = 0.7;  // tan 0.5 = 0.55
  const Vector3d down(std::cos(slope), -std::sin(slope), 0);
  const int block = w->add_box(2, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 3, 0),
                               Quaterniond(Eigen::AngleAxisd(-slope, Vector3d::UnitZ())));
  const int rail = w->add_joint(JointKind::slider, -1, block, Vector3d(0, 3, 0), down);
  w->install();
  ASSERT_EQ(w->add_law(w->handle_of(rail), laws::coulomb(mu, mu)), "");
  w->step(240);
  EXPECT_NEAR((w->state(block).p - Vector3d(0, 3, 0)).norm(), 0, w->precision(1e-10, 1e-4));
  ASSERT_EQ(w->laws(w->handle_of(rail)).size(), 1u);
  EXPECT_EQ(w->laws(w->handle_of(rail))[0].mode, LawWork::Mode::sticks);
}

// A string of 1 m: the ball is thrown up, flies freely, and hangs from the string again when that is taut.
TEST(Unilateral, AStringIsReleasedAndEngagedAgain) {
  const auto w = make_host_world();
  const int ball = w->add_ball(1, 0.05, Vector3d(0, 1, 0));
  w->install();
  const int string = w->constrain({ball}, [](const std::vector<BodyId>& ids) {
    return holonomic("string", ids, [](const auto& s) {
      const auto p = s[0].point(0, 0, 0);
      return 1.0 - ((p.x * p.x + (p.y - 2.0) * (p.y - 2.0) + p.z * p.z) + 1.0) / 2.0;
    });
  });
  ASSERT_EQ(w->set_unilateral(string, {.reengage = true}), "");
  w->step(20);
  EXPECT_FALSE(w->is_released(string));
  EXPECT_NEAR(w->state(ball).p.y(), 1, w->precision(1e-9, 1e-4));
  BodyState s = w->state(ball);
  s.v = Vector3d(0, 1, 0);
  w->set_state(ball, s);
  w->step(20);
  EXPECT_TRUE(w->is_released(string));
  EXPECT_GT(w->state(ball).p.y(), 1.01);
  w->step(100);
  EXPECT_FALSE(w->is_released(string));
  EXPECT_NEAR(w->state(ball).p.y(), 1, w->precision(1e-9, 1e-4));
  EXPECT_GE(w->counts().released, 1);
  EXPECT_GE(w->counts().engaged, 1);
}

}  // namespace

}  // namespace linchpin::test
