// Compliance of joints of the world and of the user's own: bridges and chains that lie straight between two fixed
// points. No exact equation bears a load across them.
#include "world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test::compliance_test {
namespace {

constexpr double gravity = 9.81;
const btVector3 half_plank(btScalar(0.24), btScalar(0.05), btScalar(0.5));

/// Planks of 0.5 m and 60 kg that lie straight between two fixed points, joined in their middle line, and a load in the
/// middle.
struct Bridge {
  static constexpr double pitch = 0.5, mass = 60;
  TestWorld w{gravity};
  int planks;
  double load;
  std::vector<btRigidBody*> bodies;
  std::vector<btPoint2PointConstraint*> joints;

  explicit Bridge(int n, double load_mass = 0, double damping = 0) : planks(n), load(load_mass) {
    for (int i = 0; i <= n + 1; ++i) {
      const bool fixed = i == 0 || i == n + 1;
      bodies.push_back(
          &w.box(fixed ? 0 : mass + (2 * i == n + 1 ? load : 0), half_plank, btVector3(btScalar(pitch * i), 0, 0)));
      bodies.back()->setActivationState(DISABLE_DEACTIVATION);
      bodies.back()->setDamping(btScalar(damping), btScalar(damping));
      if (i == 0) continue;
      for (const double z : {-0.4, 0.4}) {
        const btVector3 half(btScalar(0.5 * pitch), 0, 0), side(0, 0, btScalar(z));
        joints.push_back(&w.joint<btPoint2PointConstraint>(*bodies[i - 1], *bodies[i], half + side, -half + side));
      }
    }
  }
  double sag() const {
    double lowest = 0;
    for (const btRigidBody* b : bodies) lowest = std::min(lowest, double(b->getWorldTransform().getOrigin().y()));
    return -lowest;
  }
  /// The sag of the middle plank in equilibrium of the loaded string that planks and springs make. The springs of a
  /// pair have the stiffness k together. The number of planks is odd.
  double sag_of_string(double k) const {
    double drop = 0;
    // Returns by how much a string with the horizontal force H is longer than the span.
    const auto excess = [&](double H) {
      double length = 0;
      drop = 0;
      // The vertical force in joint i bears the weights between the joint and the middle.
      const auto vertical = [&](int i) {
        const double side = 0.5 * planks - i;
        return gravity * (mass * side + (side > 0 ? 0.5 : -0.5) * load);
      };
      for (int i = 0; i <= planks; ++i) {
        length += H / k;
        if (vertical(i) > 0) drop += vertical(i) / k;
        if (i == planks) break;
        const double slope = 0.5 * (vertical(i) + vertical(i + 1)) / H, cosine = 1 / std::sqrt(1 + slope * slope);
        length += pitch * cosine;
        if (vertical(i + 1) > 0) drop += pitch * slope * cosine;
      }
      return length - pitch * planks;
    };
    double low = 1e-3, high = 1e9;
    for (int i = 0; i < 200; ++i) {
      const double H = std::sqrt(low * high);
      (excess(H) > 0 ? high : low) = H;
    }
    return drop;
  }
};

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Compliance, AFlatBridgeUnderALoadSagsByItsCompliance) {
  Bridge s(21, 3000, 0.9);
  bullet::Solver exact(s.w.world);
  const double k = 5e6;
  for (btPoint2PointConstraint* joint : s.joints) exact.handle(*joint).compliance({.stiffness = k, .damping = 5e4});
  s.w.step(240 * 20);
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_NEAR(s.sag(), s.sag_of_string(2 * k), precision(1e-7, 2e-3)) << exact.summary();
  EXPECT_LE(worst_books(exact), precision(1e-11, 1e-4));
  EXPECT_NE(exact.summary().find("largest deformations by compliance: point2point#"), std::string::npos)
      << exact.summary();
  // The spring bears half of the horizontal force.
  const double gap = exact.handle(*s.joints[0]).reaction().gap;
  EXPECT_NEAR(exact.handle(*s.joints[0]).reaction().on(0).force.norm(), k * gap, precision(1e-6, 1e-2) * k * gap);
}

// The general solver evaluates the end of a step to first order, the joint kernel exactly.
TEST(Compliance, TheSpringsOfABridgeAreThoseOfTheGeneralSolver) {
  const auto sag = [](bool general, int steps) {
    Bridge s(5);
    bullet::Solver exact(s.w.world);
    for (btPoint2PointConstraint* joint : s.joints) exact.handle(*joint).compliance({.stiffness = 1e6});
    // A constraint of one's own, here on the symmetric motion, is for the general solver.
    if (general)
      exact.constrain("symmetric", {*s.bodies[2], *s.bodies[4]},
                      [](const auto& b) { return b[0].position().y - b[1].position().y; });
    s.w.step(steps, 0.5 / steps);
    EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    return s.sag();
  };
  const double coarse = sag(true, 120) - sag(false, 120), fine = sag(true, 480) - sag(false, 480);
  EXPECT_LT(std::abs(coarse), 2e-4);
  if (!single) {
    EXPECT_NEAR(coarse / fine, 4, 1);
  }
}

// The motion of the middle of a bridge of one plank on four soft springs, which hang straight to both sides.
TEST(Compliance, ABridgeBouncesToTheOrderOfTheStep) {
  const double k = 1e4;
  const auto height = [&](double dt) {
    Bridge s(1);
    bullet::Solver exact(s.w.world);
    for (btPoint2PointConstraint* joint : s.joints) exact.handle(*joint).compliance({.stiffness = k});
    const int steps = int(std::lround(0.5 / dt));
    s.w.step(steps, dt);
    EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
    return double(s.bodies[1]->getWorldTransform().getOrigin().y());
  };
  // Springs of no length at rest: the plank is a mass on four springs.
  const double omega = std::sqrt(4 * k / Bridge::mass),
               exact = -gravity / (omega * omega) * (1 - std::cos(0.5 * omega));
  const double coarse = std::abs(height(1e-3) - exact), fine = std::abs(height(5e-4) - exact);
  EXPECT_LT(coarse, 1e-2);
  if (!single) {
    EXPECT_NEAR(coarse / fine, 2, 0.2);
  }
}

TEST(Compliance, ABeamOfWeldsBendsByItsAngularCompliance) {
  TestWorld w(0);
  bullet::Solver exact(w.world);
  const btVector3 half(btScalar(0.2), btScalar(0.05), btScalar(0.05));
  btRigidBody* before = &w.box(0, half, btVector3(0, 0, 0));
  const int n = 4;
  const double k = 2e4, torque = 10;
  std::vector<btRigidBody*> beam;
  bullet::Handle last;
  for (int i = 1; i <= n; ++i) {
    beam.push_back(&w.box(1, half, btVector3(btScalar(0.5 * i), 0, 0)));
    beam.back()->setActivationState(DISABLE_DEACTIVATION);
    last = exact.weld("weld" + std::to_string(i), *before, *beam.back(), btVector3(btScalar(0.5 * i - 0.25), 0, 0))
               .compliance({.angular_stiffness = k, .angular_damping = 200});
    before = beam.back();
  }
  for (int i = 0; i < 240 * 10; ++i) {
    beam.back()->applyTorque(btVector3(0, 0, btScalar(torque)));
    w.step();
  }
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  // A moment at the tip is the same in all welds; each turns by the sine that its row has.
  const btMatrix3x3& R = beam.back()->getWorldTransform().getBasis();
  EXPECT_NEAR(std::atan2(double(R[1][0]), double(R[0][0])), n * std::asin(torque / k), precision(1e-8, 1e-4));
  EXPECT_LE(last.reaction().gap, precision(1e-12, 1e-5));
}

// ---- the choice of the solver ----

TEST(Compliance, OnlyJointsThatCannotBearTheLoadYield) {
  Bridge s(9);
  // A load hangs from the middle plank by a hinge.
  btRigidBody& weight =
      s.w.box(20, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(2.5), -1, 0));
  btHingeConstraint& hinge = s.w.joint<btHingeConstraint>(*s.bodies[5], weight, btVector3(0, 0, 0), btVector3(0, 1, 0),
                                                          btVector3(0, 0, 1), btVector3(0, 0, 1));
  bullet::Solver exact(s.w.world, {.automatic_compliance = Compliance{}});
  s.w.step(480);
  EXPECT_TRUE(s.w.finite());
  EXPECT_LE(exact.counts().fallbacks, 2) << exact.summary();
  EXPECT_EQ(exact.counts().yielding, long(s.joints.size())) << exact.summary();
  EXPECT_GT(exact.handle(*s.joints[0]).reaction().gap, 1e-6);
  EXPECT_LE(exact.handle(hinge).reaction().gap, precision(1e-12, 1e-5));
  EXPECT_TRUE(exact.handle(hinge).is_exact());
  EXPECT_NE(exact.summary().find("20 constraints have compliance because exact ones could not bear their load"),
            std::string::npos)
      << exact.summary();
  EXPECT_LT(s.sag(), 0.6);
  EXPECT_GT(s.sag(), 0.01);
}

TEST(Compliance, TheProgramMayChooseTheStiffnessThatYields) {
  Bridge s(9, 500, 0.9);
  const double k = 3e6;
  bullet::Solver exact(s.w.world, {.automatic_compliance = Compliance{.stiffness = k, .damping = 3e4}});
  s.w.step(240 * 15);
  EXPECT_NEAR(s.sag(), s.sag_of_string(2 * k), precision(1e-6, 2e-3)) << exact.summary();
}

TEST(Compliance, WithoutTheOptionTheHostSolvesTheBridge) {
  Bridge s(9);
  bullet::Solver exact(s.w.world);
  s.w.step(10);
  // In single precision the rounding of poses lets the bridge sag.
  EXPECT_GE(exact.counts().fallbacks, single ? 0 : 10);
  EXPECT_EQ(exact.counts().yielding, 0);
}

// ---- the setting ----

TEST(Compliance, AJointOfTheWorldCanYieldAndBeExactAgain) {
  TestWorld w;
  btRigidBody& base = w.box(0, half_plank, btVector3(0, 0, 0));
  btRigidBody& bob = w.box(2, half_plank, btVector3(0, -1, 0));
  auto& joint = w.joint<btPoint2PointConstraint>(base, bob, btVector3(0, 0, 0), btVector3(0, 1, 0));
  bob.setActivationState(DISABLE_DEACTIVATION);
  bullet::Solver exact(w.world);
  bullet::Handle handle = exact.handle(joint);
  handle.compliance({.stiffness = 1e3, .damping = 50});
  w.step(2400);
  EXPECT_NEAR(double(bob.getWorldTransform().getOrigin().y()), -1 - 2 * gravity / 1e3, precision(1e-9, 1e-5));
  EXPECT_NEAR(double(joint.getAppliedImpulse()), 2 * gravity / 240, precision(1e-9, 1e-4));
  ASSERT_EQ(handle.laws().size(), 3u);
  EXPECT_EQ(handle.laws()[0].name, "compliance");
  EXPECT_NEAR(handle.laws()[1].force.force.y(), -2 * gravity, precision(1e-6, 1e-3));
  handle.equality();
  w.step(240);
  EXPECT_NEAR(double(bob.getWorldTransform().getOrigin().y()), -1, precision(1e-12, 1e-5));
  EXPECT_TRUE(handle.laws().empty());
}

TEST(Compliance, AJointThatYieldsBreaksAtItsImpulse) {
  TestWorld w;
  btRigidBody& base = w.box(0, half_plank, btVector3(0, 0, 0));
  btRigidBody& bob = w.box(2, half_plank, btVector3(0, -1, 0));
  auto& joint = w.joint<btPoint2PointConstraint>(base, bob, btVector3(0, 0, 0), btVector3(0, 1, 0));
  joint.setBreakingImpulseThreshold(btScalar(1.5 * 2 * gravity / 240));
  bullet::Solver exact(w.world);
  exact.handle(joint).compliance({.stiffness = 1e4});
  w.step(240);  // A load that is released suddenly bears on the spring with twice its weight.
  EXPECT_TRUE(exact.handle(joint).broken());
}

TEST(Compliance, WhatCannotYieldIsRefusedWithTheReason) {
  TestWorld w;
  btRigidBody& base = w.box(0, half_plank, btVector3(0, 0, 0));
  btRigidBody& bob = w.box(2, half_plank, btVector3(0, -1, 0));
  auto& joint = w.joint<btPoint2PointConstraint>(base, bob, btVector3(0, 0, 0), btVector3(0, 1, 0));
  bullet::Solver exact(w.world);
  bullet::Handle handle = exact.handle(joint);
  EXPECT_NE(message_of([&] { handle.compliance({.stiffness = -1}); }).find("-1"), std::string::npos);
  EXPECT_NE(message_of([&] { handle.compliance({.angular_stiffness = 1}); }).find("finite stiffness"),
            std::string::npos);
  handle.law(laws::viscous(1));
  EXPECT_NE(message_of([&] { handle.compliance({.stiffness = 1}); }).find("law"), std::string::npos);
  handle.clear_laws();
  handle.remove();
  EXPECT_NE(message_of([&] { handle.compliance({.stiffness = 1}); }).find("released it with remove()"),
            std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::compliance_test
