// Laws against what they say they are: the catalogue, what is refused, and where laws are kept.
#include "support/random.h"
#include "support/refused.h"
#include "support/tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/detail/same_words.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <gtest/gtest.h>

namespace linchpin::test::laws_test {
namespace {

const Vector3d zero = Vector3d::Zero();

TEST(Laws, CoulombOpposesSlipByMuTimesTheThrust) {
  ConstraintReaction n;
  n.normal = {0, 3, 4};
  n.slip_velocity = {2, 0, 0};
  EXPECT_LE((laws::coulomb(0.3)(n).force - Vector3d(-1.5, 0, 0)).norm(), tol_rounding());
  n.slip_velocity = {1e-300, 0, 0};
  EXPECT_LE((laws::coulomb(0.3)(n).force - Vector3d(-1.5, 0, 0)).norm(), 1.5) << "finite, however slow";
  n.slip_velocity.setZero();
  EXPECT_EQ(laws::coulomb(0.3)(n).force, zero);
  // Regularised: smooth through zero, and Coulomb's far from it.
  n.slip_velocity = {1e-3, 0, 0};
  EXPECT_NEAR(laws::regularized_coulomb(0.3, 1e-3)(n).force.x(), -1.5 / std::sqrt(2.0), tol_rounding());
  n.slip_velocity = {1e5, 0, 0};
  EXPECT_NEAR(laws::regularized_coulomb(0.3, 1e-3)(n).force.x(), -1.5, tol_rounding());
}

// A warning of every step is told once; the digits of a name are no number.
TEST(Laws, WarningsThatDifferInNumbersOnlyAreTheSame) {
  using detail::same_words;
  EXPECT_TRUE(same_words("on tip: (coupling gain 1.05; the case)", "on tip: (coupling gain 12.5e-07; the case)"));
  EXPECT_TRUE(same_words("met to -3 of it", "met to 0.25 of it"));
  EXPECT_TRUE(same_words("to 3", "to 1e+05"));
  EXPECT_TRUE(same_words("", ""));
  EXPECT_FALSE(same_words("on tip1: gain 2", "on tip2: gain 2"));
  EXPECT_FALSE(same_words("on leg-1: gain 2", "on leg-2: gain 2"));
  EXPECT_FALSE(same_words("gain 2", "gain 2 and more"));
  EXPECT_FALSE(same_words("gain 2", "gain "));
  EXPECT_FALSE(same_words("gain 2", "gain x"));
}

TEST(Laws, ViscousFrictionIsProportionalToSlipAndLawsAdd) {
  ConstraintReaction n;
  n.normal = {0, 0, 10};
  n.slip_velocity = {0, 2, 0};
  EXPECT_EQ(laws::viscous(0.5)(n).force, Vector3d(0, -1, 0));
  EXPECT_LE(((laws::coulomb(0.1) + laws::viscous(0.5))(n).force - Vector3d(0, -2, 0)).norm(), tol_rounding());
  expect_refused([] { laws::coulomb(-0.1); }, "coulomb: mu must be finite and not negative, got -0.1");
  expect_refused([] { laws::coulomb(0.1, 0.3); }, "coulomb: mu_static must not be below mu_kinetic, got 0.1 and 0.3");
  expect_refused([] { laws::viscous(-1); }, "viscous: coefficient");
}

ConstraintReaction pressed(double N, const Vector3d& slip, const Vector3d& spin = zero) {
  ConstraintReaction n;
  n.normal = {0, 0, N};
  n.slip_velocity = slip;
  n.spin_velocity = spin;
  n.relative_velocity = slip;
  return n;
}

TEST(Laws, StribeckFallsFromStaticToKineticWithSpeed) {
  const Law law = laws::stribeck({.mu_static = 0.5, .mu_kinetic = 0.2, .speed = 0.1, .shape = 2, .viscous = 3});
  const auto at = [&](double v) { return -law(pressed(10, {v, 0, 0})).force.x(); };
  EXPECT_NEAR(at(1e-9), 5, scaled(1e-7));
  EXPECT_NEAR(at(0.1), 2 + 3 * std::exp(-1) + 0.3, tol_rounding(10));
  EXPECT_NEAR(at(5), 2 + 15, tol_rounding(10));
  EXPECT_EQ(law.terms()[0].static_limit(pressed(10, zero)), 5);
  const Law smooth = laws::regularized_stribeck({.mu_static = 0.5, .mu_kinetic = 0.2, .speed = 0.1}, 1e-3);
  EXPECT_EQ(smooth(pressed(10, zero)).force.norm(), 0);
  EXPECT_NEAR(-smooth(pressed(10, {5, 0, 0})).force.x(), 2, scaled(1e-6));
}

TEST(Laws, LuGreSettlesAtStribecksForceAndHoldsLikeASpring) {
  const laws::LuGre p{
      .stiffness = 1e4, .damping = 10, .mu_static = 0.5, .mu_kinetic = 0.3, .speed = 0.01, .viscous = 2};
  const Law law = laws::lugre(p);
  ConstraintReaction n = pressed(20, {0.05, 0, 0});
  for (int k = 0; k < 1000; ++k) n.internal_state = law.terms()[0].advance_state(n, 1e-3);
  const double steady = 20 * (0.3 + 0.2 * std::exp(-25)) + 2 * 0.05;
  EXPECT_NEAR(-law(n).force.x(), steady, scaled(1e-9));
  n = pressed(20, zero);
  n.internal_state = {1e-5, 0, 0};
  EXPECT_NEAR(-law(n).force.x(), 0.1, scaled(1e-12));
  EXPECT_EQ(law.terms()[0].advance_state(n, 1), n.internal_state);
}

TEST(Laws, DragLorentzAndGivenForces) {
  EXPECT_LE((laws::drag(2)(pressed(1, {0, -3, 0})).force - Vector3d(0, 18, 0)).norm(), tol_rounding(10));
  EXPECT_LE((laws::lorentz(2, {1, 0, 0}, {0, 0, 3})(pressed(1, {0, 5, 0})).force - Vector3d(2 + 30, 0, 0)).norm(),
            tol_rounding(100));
  ConstraintReaction n = pressed(1, zero);
  BodyState turned;
  turned.q = Quaterniond(Eigen::AngleAxisd(EIGEN_PI / 2, Vector3d::UnitZ()));
  n.first = &turned;
  EXPECT_EQ(laws::constant_force({1, 2, 3})(n).force, Vector3d(1, 2, 3));
  EXPECT_LE((laws::constant_force({1, 0, 0}, Axes::of_first)(n).force - Vector3d(0, 1, 0)).norm(), tol_rounding());
  EXPECT_EQ(laws::constant_force({1, 0, 0}, Axes::of_second)(n).force, Vector3d(1, 0, 0))
      << "no second body: the world";
}

TEST(Laws, BeltsShiftTheSlip) {
  const BodyState second;
  ConstraintReaction between = pressed(1, {1, 0, 0});
  between.second = &second;
  Law law = laws::viscous(2);
  law.on_belt({3, 0, 0});  // the first body's surface runs ahead of it
  EXPECT_LE((law(between).force - Vector3d(-8, 0, 0)).norm(), tol_rounding(10));
  // A constraint on one body: the world's surface runs, and takes it along.
  EXPECT_LE((law(pressed(1, {1, 0, 0})).force - Vector3d(4, 0, 0)).norm(), tol_rounding(10));
  law = laws::coulomb(0.5).on_belt({3, 0, 0}, Side::second);
  EXPECT_LE((law(pressed(10, {1, 0, 0})).force - Vector3d(5, 0, 0)).norm(), tol_rounding(10));
}

TEST(Laws, JointFrictionReadsForceAndMomentWithTheirArms) {
  const laws::JointFriction p{.mu_static = 0.3,
                              .mu_kinetic = 0.2,
                              .pin_radius = 0.01,
                              .friction_radius = 0.03,
                              .bending_arm = 0.5,
                              .preload = 0.07};
  ConstraintReaction n;
  n.axis = Vector3d::UnitX();
  n.normal = {7, 3, 4};  // 7 along the axis, 5 across
  n.moment = {0, 6, 8};  // 10 N·m over 0.5 m
  n.spin_velocity = {2, 0, 0};
  EXPECT_NEAR(laws::hinge_friction(p)(n).moment.x(), -(0.2 * (0.01 * (5 + 20) + 0.03 * 7) + 0.07), tol_rounding());
  EXPECT_NEAR(laws::hinge_friction(p).terms()[0].static_limit(n), 0.3 * (0.01 * 25 + 0.21) + 0.07, tol_rounding());
  n.spin_velocity = {0, 0, -2};
  EXPECT_NEAR(laws::ball_friction(p)(n).moment.z(), 0.2 * 0.01 * (n.normal.norm() + 20) + 0.07, tol_rounding());
  n.slip_velocity = {0, -1, 0};
  EXPECT_NEAR(laws::slider_friction(p)(n).force.y(), 0.2 * (n.normal.norm() + 20) + 0.07, tol_rounding(10));
  // A bore that turns as fast as it slides, at its surface, shares friction evenly between the two.
  n.slip_velocity = {0.02, 0, 0};
  n.spin_velocity = {2, 0, 0};
  const double whole = 0.2 * (n.normal.norm() + 20) + 0.07;
  EXPECT_NEAR(laws::cylinder_friction(p)(n).force.x(), -whole / std::sqrt(2.0), tol_rounding(10));
  EXPECT_NEAR(laws::cylinder_friction(p)(n).moment.x(), -0.01 * whole / std::sqrt(2.0), tol_rounding(10));
}

TEST(Laws, RefuseWhatCannotBeRightWithNameAndValue) {
  expect_refused([] { laws::coulomb(0.1, -0.2); }, "coulomb: mu_kinetic must be finite and not negative, got -0.2");
  expect_refused([] { laws::regularized_coulomb(0.1, 0); },
                 "regularized_coulomb: speed must be finite and positive, got 0");
  expect_refused([] { laws::stribeck({.mu_static = 0.1, .mu_kinetic = 0.1}); }, "stribeck: speed");
  expect_refused([] { laws::lugre({.stiffness = -1}); }, "lugre: stiffness must be finite and positive, got -1");
  expect_refused([] { laws::drag(NAN); }, "drag: coefficient");
  expect_refused(
      [] {
        laws::constant_force({1, INFINITY, 0});
      },
      "constant_force: force must be finite, got (1, inf, 0)");
  expect_refused([] { laws::rolling_resistance(-1); }, "rolling_resistance: arm");
  expect_refused([] { laws::cylinder_friction({.mu_static = 1}); }, "cylinder_friction: pin_radius");
  expect_refused([] { laws::hinge_friction({.bending_arm = -1}); }, "hinge_friction: bending_arm");
  expect_refused([] { laws::hinge_friction({}); },
                 "hinge_friction: the law would have no effect, because mu_static and preload are both 0");
  expect_refused(
      [] { laws::hinge_friction({.mu_static = 0.2, .mu_kinetic = 0.1}); },
      "hinge_friction: the law would have no effect, because pin_radius, friction_radius and preload are all 0");
  expect_refused([] { laws::ball_friction({.mu_static = 0.2}); },
                 "ball_friction: the law would have no effect, because pin_radius and preload");
  expect_refused([] { laws::slider_friction({.bending_arm = 1}); }, "slider_friction: the law would have no effect");
  EXPECT_NO_THROW(laws::hinge_friction({.preload = 0.1}));
  expect_refused([] { laws::coulomb(0.1).on_belt({NAN, 0, 0}); }, "coulomb: the belt's velocity");
  expect_refused([] { laws::coulomb(0.1).with_name(""); }, "a name must not be empty");
  expect_refused(
      [] {
        Law::Term half = laws::lugre({.stiffness = 1, .mu_static = 1, .mu_kinetic = 1, .speed = 1}).terms()[0];
        half.internal_state_rate = nullptr;
        Law{half};
      },
      "lugre: a term with an internal state needs both internal_state_rate and advance_state");
  expect_refused([] { Law(Law::Term{}); },
                 "law: a term needs exactly one of these: force, multiplier, or static_limit with sliding_magnitude");
}

TEST(Laws, ALambdaOfAForceOrOfAnEffortIsALaw) {
  const Law force = [](const ConstraintReaction& n) { return Vector3d(-n.slip_velocity); };
  const Law effort = [](const ConstraintReaction& n) { return ForceMoment{zero, Vector3d(-n.spin_velocity)}; };
  const ForceMoment both = (force + effort)(pressed(1, {1, 0, 0}, {0, 2, 0}));
  EXPECT_EQ(both.force, Vector3d(-1, 0, 0));
  EXPECT_EQ(both.moment, Vector3d(0, -2, 0));
  EXPECT_FALSE(Law());
}

class LawBook : public ::testing::Test {
 protected:
  System system;
  BodyId block = system.add_body("block", 1, Vector3d::Ones(), {}), bead = system.add_particle("bead", 1, zero),
         pearl = system.add_particle("pearl", 1, {1, 0, 0});
};

TEST_F(LawBook, KeepsLawsInOrderAndForgetsThem) {
  const ConstraintId rail = system.add(joints::point_on_line("rail", ground, zero, Vector3d::UnitX(), block, zero));
  EXPECT_TRUE(laws_on(system, rail).empty());
  add_law(system, rail, laws::coulomb(0.1));
  add_law(system, rail, laws::viscous(2));
  ASSERT_EQ(laws_on(system, rail).size(), 2u);
  ConstraintReaction n;
  n.slip_velocity = {1, 0, 0};
  EXPECT_EQ(laws_on(system, rail)[1](n).force, Vector3d(-2, 0, 0));
  clear_laws(system, rail);
  EXPECT_TRUE(laws_on(system, rail).empty());
  add_law(system, rail, laws::coulomb(0.1));
  system.remove(rail);
  EXPECT_TRUE(laws_on(system, rail).empty());
  expect_refused([&] { add_law(system, rail, laws::coulomb(0.1)); },
                 "constraint 'rail': has been removed, so no law can be added");
}

TEST_F(LawBook, NeedsToKnowWhereTheConstraintActs) {
  const auto phi = [](const auto& s) { return s[0].position() - s[1].position(); };
  const ConstraintId vague = system.add(holonomic("vague", {block, bead}, phi));
  expect_refused(
      [&] { add_law(system, vague, laws::coulomb(0.1)); },
      "constraint 'vague': a law needs an application point. Call set_application_points() for the constraint");
  system.constraint(vague).set_application_points({zero, zero});
  EXPECT_NO_THROW(add_law(system, vague, laws::coulomb(0.1)));
  const ConstraintId particles = system.add(holonomic("particles", {bead, pearl}, phi)),
                     wire = system.add(holonomic("wire", {ground, bead}, phi));
  EXPECT_NO_THROW(add_law(system, particles, laws::coulomb(0.1)));
  EXPECT_NO_THROW(add_law(system, wire, laws::coulomb(0.1)));
  expect_refused([&] { add_law(system, wire, {}); }, "constraint 'wire': the law is empty");
  expect_refused([&] { add_law(system, ConstraintId{9}, laws::coulomb(0.1)); }, "no constraint has the index 9");
  EXPECT_EQ(try_add_law(system, wire, {}).error().message, "constraint 'wire': the law is empty");
  EXPECT_EQ(try_add_law(system, wire, laws::viscous(1)).error().message, "");
  EXPECT_EQ(laws_on(system, wire).size(), 2u);
  expect_refused([&] { set_unilateral(system, wire); },
                 "constraint 'wire': only a constraint of one position row can be unilateral");
}

}  // namespace
}  // namespace linchpin::test::laws_test
