// Contacts on bodies that force laws hold: a contact finds the body as hard to move as the law makes it.
#include "link_world.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace linchpin::test::lawful_contact_test {
namespace {

const btVector3 half_box(btScalar(0.1), btScalar(0.1), btScalar(0.1));
constexpr double g = 9.81, thickness = 0.05;

/// A light plate that a guide lets move up and down only. A law on the guide, or a row along it, holds the plate.
/// `boxes` heavy boxes lie on it beside each other.
struct Lift {
  TestWorld w;
  btRigidBody& plate = w.box(1, btVector3(2, btScalar(thickness), 2), btVector3(0, 0, 0));
  std::vector<btRigidBody*> boxes;
  bullet::Solver exact{w.world};
  bullet::Handle lift;
  explicit Lift(int count, double total = 20) {
    for (int i = 0; i < count; ++i)
      boxes.push_back(&w.box(total / count, half_box,
                             btVector3(btScalar(0.3 * (i % 5 - 2 * (count > 1))), btScalar(thickness + 0.1),
                                       btScalar(0.3 * (i / 5 - 2 * (count > 5))))));
    plate.setActivationState(DISABLE_DEACTIVATION);
  }
  void guide() {
    exact.constrain("guide", {plate}, [](const auto& s) {
      return rows(s[0].position().x, s[0].position().z, s[0].axis(0, 1, 0).x, s[0].axis(0, 1, 0).z,
                  s[0].axis(0, 0, 1).x);
    });
    lift = exact.constrain("lift", {plate}, [](const auto& s) { return s[0].position().y; });
  }
  /// A slider joint of the ground and the plate, with a law on it.
  void slide(Law law) {
    lift = exact.slider("lift", ground, plate, btVector3(0, 0, 0), btVector3(0, 1, 0));
    lift.law(std::move(law));
  }
  double height() const { return double(plate.getWorldTransform().getOrigin().y()); }
  double speed() const { return double(plate.getLinearVelocity().y()); }
  /// Height of the lowest box above the plate. 0: they touch.
  double clearance() const {
    double least = 1e9;
    for (const btRigidBody* b : boxes)
      least = std::min(least, double(b->getWorldTransform().getOrigin().y()) - 0.1 - thickness - height());
    return least;
  }
};

// One box has few rows, each of which responds. Twenty-five alternate with the island.
class LawfulContact : public ::testing::TestWithParam<int> {};

TEST_P(LawfulContact, APlateOnAMotorAtRestCarriesItsLoad) {
  Lift s(GetParam());
  s.guide();
  s.lift.motor({.speed = 0, .max_force = 1e4});
  s.w.step(60 * 5, 1.0 / 60);
  EXPECT_NEAR(s.height(), 0, precision(1e-5, 1e-3));
  EXPECT_NEAR(s.clearance(), 0, s.boxes.size() > 1 ? 4e-3 : 1e-3);
  EXPECT_NEAR(s.lift.laws()[0].force.force.norm(), 21 * g, 0.02 * 21 * g);
}

TEST_P(LawfulContact, AMotorWithTooSmallAForceGivesWayByItsForce) {
  Lift s(GetParam());
  s.guide();
  s.lift.motor({.speed = 0, .max_force = 0.5 * 21 * g});
  s.w.step(60, 1.0 / 60);
  EXPECT_NEAR(s.speed(), -0.5 * g, 0.02 * g);
}

TEST_P(LawfulContact, APlateHeldByDryFrictionCarriesItsLoad) {
  Lift s(GetParam());
  s.slide(laws::slider_friction({.mu_static = 0.5, .mu_kinetic = 0.5, .pin_radius = 1, .preload = 1e4}));
  s.w.step(60 * 5, 1.0 / 60);
  EXPECT_NEAR(s.height(), 0, precision(1e-5, 1e-3));
  EXPECT_NEAR(s.clearance(), 0, s.boxes.size() > 1 ? 4e-3 : 1e-3);
}

TEST_P(LawfulContact, APlateOnADamperSinksAtItsSpeed) {
  Lift s(GetParam());
  s.slide(laws::viscous(4000));
  s.w.step(60 * 5, 1.0 / 60);
  EXPECT_NEAR(s.speed(), -21 * g / 4000, 0.02 * 21 * g / 4000);
  EXPECT_NEAR(s.height(), -5 * 21 * g / 4000, 0.02 * 5 * 21 * g / 4000);
  EXPECT_NEAR(s.clearance(), 0, s.boxes.size() > 1 ? 4e-3 : 1e-3);
}

TEST_P(LawfulContact, APlateWithComplianceSagsByItsLoad) {
  Lift s(GetParam());
  s.guide();
  s.lift.compliance({.stiffness = 2e4, .damping = 2e3});
  s.w.step(60 * 5, 1.0 / 60);
  EXPECT_NEAR(s.height(), -21 * g / 2e4, 0.02 * 21 * g / 2e4);
  EXPECT_NEAR(s.speed(), 0, 1e-3);
  EXPECT_NEAR(s.clearance(), 0, s.boxes.size() > 1 ? 4e-3 : 1e-3);
}

// A contact takes the carriage to be stuck, and its impulse makes it slide: the contact is solved again.
TEST(LawfulContact, ACarriageAndItsBoxStopTogetherByTheFrictionOfTheCarriage) {
  TestWorld w;
  btRigidBody& carriage = w.box(2, btVector3(2, btScalar(0.05), 2), btVector3(0, 0, 0));
  btRigidBody& box =
      w.box(18, btVector3(btScalar(0.1), btScalar(0.02), btScalar(0.1)), btVector3(0, btScalar(0.07), 0));
  for (btRigidBody* const b : {&carriage, &box}) {
    b->setFriction(btScalar(0.9));
    b->setLinearVelocity(btVector3(btScalar(0.1), 0, 0));
  }
  bullet::Solver exact(w.world);
  const double bound = 0.3 * 20 * g, push = 50;
  exact.slider("rail", ground, carriage, btVector3(0, 0, 0), btVector3(1, 0, 0))
      .law(laws::slider_friction({.preload = bound}));
  double before = 0.1;
  for (int i = 0; i < 60; ++i) {
    carriage.applyCentralForce(btVector3(btScalar(push), 0, 0));
    w.step(1, 1.0 / 60);
    const double v = double(carriage.getLinearVelocity().x());
    EXPECT_LE(v, before + 2e-3) << "step " << i;
    EXPECT_NEAR(double(box.getLinearVelocity().x()), v, 1e-3) << "step " << i;
    before = v;
  }
  EXPECT_NEAR(before, 0, precision(1e-6, 1e-4));
  const double distance = 0.01 / 2 / ((bound - push) / 20);
  EXPECT_NEAR(double(carriage.getWorldTransform().getOrigin().x()), distance, 0.1 * distance);
}

/// The same with the plate a link of a multibody.
struct LinkLift {
  LinkWorld w;
  btBoxShape shape{bt(2, thickness, 2)};
  btMultiBody& mb = w.multibody(1, true);
  std::vector<btRigidBody*> boxes;
  bullet::Solver exact{w.world};
  explicit LinkLift(int count) {
    mb.setupPrismatic(0, 1, bt(0.1, 0.1, 0.1), -1, straight, bt(0, 1, 0), bt(0, 0, 0), bt(0, 0, 0), true);
    w.finish(mb);
    w.collider(mb, 0, shape);
    for (int i = 0; i < count; ++i) {
      btRigidBody& b = w.box(20.0 / count, half_box, bt(0.3 * (i % 3 - (count > 1)), thickness + 0.1, 0.3 * (i / 3)));
      w.world.removeRigidBody(&b);
      w.world.addRigidBody(&b);  // among all others
      boxes.push_back(&b);
    }
  }
  bullet::Handle joint() { return exact.name_joint(link(mb, 0), "lift"); }
  bullet::Handle row() {
    return exact.constrain("row", {link(mb, 0)}, [](const auto& s) { return s[0].position().y; });
  }
  /// Heights of the plate and of the lowest box above it, after some seconds.
  std::array<double, 2> after(double seconds) {
    w.step(int(60 * seconds), 1.0 / 60);
    double least = 1e9;
    for (const btRigidBody* b : boxes)
      least = std::min(least, double(b->getWorldTransform().getOrigin().y()) - 0.1 - thickness);
    return {double(mb.getJointPos(0)), least - double(mb.getJointPos(0))};
  }
};

TEST_P(LawfulContact, ALinkThatALawHoldsCarriesItsLoadAsOneThatARowHolds) {
  const int boxes = GetParam() > 1 ? 9 : 1;
  LinkLift row(boxes), motor(boxes), friction(boxes), damper(boxes);
  row.row();
  motor.row().motor({.speed = 0, .max_force = 1e4});
  friction.joint().law(laws::slider_friction({.mu_static = 0.5, .mu_kinetic = 0.5, .pin_radius = 1, .preload = 1e4}));
  damper.joint().law(laws::viscous(4000));
  const auto [held, overlap] = row.after(5);
  EXPECT_NEAR(held, 0, precision(1e-12, 1e-6));
  for (LinkLift* const s : {&motor, &friction, &damper}) {
    const auto [height, clearance] = s->after(5);
    EXPECT_NEAR(height, s == &damper ? -5 * 21 * g / 4000 : 0, 2e-3);
    EXPECT_NEAR(clearance, overlap, 4e-3);
  }
}

TEST_P(LawfulContact, AMotorOfALinkWithTooSmallAForceGivesWayByItsForce) {
  LinkLift s(GetParam() > 1 ? 9 : 1);
  s.row().motor({.speed = 0, .max_force = 0.5 * 21 * g});
  s.after(1);
  EXPECT_NEAR(double(s.mb.getJointVel(0)), -0.5 * g, 0.02 * g);
}

INSTANTIATE_TEST_SUITE_P(Boxes, LawfulContact, ::testing::Values(1, 25));

}  // namespace
}  // namespace linchpin::test::lawful_contact_test
