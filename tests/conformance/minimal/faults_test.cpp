// Faults of a program and gaps of the toy engine: the engine or its adapter names them, and a step goes on. Each line
// of adapters/README.md that says "no" for the toy engine has a test here or in coupling_test.cpp. Articulated bodies,
// soft bodies and threads of the engine have none, because a program cannot ask this engine for them.
#include "toy_bodies.h"

#include <linchpin/minimal.h>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test::minimal_faults_test {

namespace {

constexpr double step_of_240_hz = 1.0 / 240, infinite = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Two balls in a row beside a point of the world: "ball#0" holds the first one to the point, "hinge#1" the second one
/// to the first one.
struct Pendulum {
  toy::World world;
  int first, second, ball, hinge;

  Pendulum() {
    world.has_ground = false;
    first = add_ball(Vector3d(1, 2, 0));
    second = add_ball(Vector3d(2, 2, 0));
    ball = world.add(toy_joint(toy::Joint::Kind::ball, -1, first, Vector3d(0, 2, 0), Vector3d(-1, 0, 0)));
    hinge = world.add(toy_joint(toy::Joint::Kind::hinge, first, second, Vector3d(0.5, 0, 0), Vector3d(-0.5, 0, 0)));
  }
  int add_ball(const Vector3d& at) { return world.add(toy_ball(1, 0.1, at)); }
  void step(int n = 1) {
    for (int i = 0; i < n; ++i) world.step(step_of_240_hz);
  }
  bool is_finite() {
    for (int i = 0; i < world.body_count(); ++i)
      if (const toy::Body* const body = world.body(i))
        if (!body->p.allFinite() || !body->v.allFinite() || !body->w.allFinite() || !body->q.coeffs().allFinite())
          return false;
    return true;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <class Exception, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Exception& e) {
    return e.what();
  }
  return {};
}

// ---- masses ----

TEST(Faults, ABodyWithoutAMassMatrixIsNamedWithItsNumber) {
  struct Case {
    double mass;
    Vector3d inertia;
    const char* says;
  };
  const Vector3d good = Vector3d::Constant(0.004);
  for (const Case& bad :
       {Case{-1, good, "whose mass is -1 kg"}, Case{0, good, "whose mass is 0 kg"},
        Case{infinite, good, "whose mass is inf kg"}, Case{not_a_number, good, "whose mass is nan kg"},
        Case{1, Vector3d::Zero(), "whose inertia is (0, 0, 0)"},
        Case{1, Vector3d(0.004, -1, 0.004), "whose inertia is (0.004, -1, 0.004)"},
        Case{1, Vector3d(0.004, 0.004, not_a_number), "whose inertia is (0.004, 0.004, nan)"}}) {
    Pendulum s;
    toy::Body& body = *s.world.body(s.second);
    body.mass = bad.mass;
    body.inertia = bad.inertia;
    minimal::Solver exact(s.world);
    s.step(3);
    const std::string summary = exact.solver().summary();
    EXPECT_TRUE(has(summary, "body 1, " + std::string(bad.says))) << summary;
    EXPECT_TRUE(has(summary, "make it positive and finite, or make the body fixed")) << summary;
    EXPECT_TRUE(has(summary, "hinge#1")) << summary;
    EXPECT_TRUE(s.is_finite()) << bad.says;
    EXPECT_EQ(body.p, Vector3d(2, 2, 0)) << "the engine must not move it";
    EXPECT_EQ(exact.solver().counts().fallbacks, 0) << bad.says;
  }
}

TEST(Faults, AMassThatIsMendedMakesTheJointExactAgain) {
  Pendulum s;
  minimal::Solver exact(s.world);
  s.step(2);
  EXPECT_TRUE(exact.solver().host_parts().empty());
  s.world.body(s.second)->mass = 0;
  s.step(2);
  ASSERT_EQ(exact.solver().host_parts().size(), 1U);
  EXPECT_TRUE(has(exact.solver().host_parts()[0].why, "whose mass is 0 kg"));
  s.world.body(s.second)->mass = -2;  // the message follows the number
  s.step(2);
  ASSERT_EQ(exact.solver().host_parts().size(), 1U);
  EXPECT_TRUE(has(exact.solver().host_parts()[0].why, "whose mass is -2 kg"));
  s.world.body(s.second)->mass = 1;
  s.step(2);
  EXPECT_TRUE(exact.solver().host_parts().empty());
  EXPECT_LT(exact.reaction(exact.entry_of_joint(s.hinge)).gap, 1e-12);
}

TEST(Faults, AConstraintOfTheProgramOnSuchABodyIsRefused) {
  Pendulum s;
  s.world.body(s.second)->mass = 0;
  minimal::Solver exact(s.world);
  const std::string why = message_of<std::invalid_argument>(
      [&] { exact.constrain("plane", {s.second}, [](const auto& x) { return x[0].point(0, 0, 0).z; }); });
  EXPECT_TRUE(has(why, "constraint 'plane': one of its bodies has no mass matrix: body 1, whose mass is 0 kg")) << why;
}

// ---- joints and bodies that are not there ----

TEST(Faults, AJointThatNamesABodyWhichIsNotThereIsNamed) {
  for (const int absent : {77, -5, 2}) {
    Pendulum s;
    const int removed = s.add_ball(Vector3d(5, 5, 5));
    ASSERT_EQ(removed, 2);
    s.world.remove_body(removed);
    minimal::Solver exact(s.world);
    s.step();
    s.world.joint(s.hinge)->settings.b = absent;
    EXPECT_NO_THROW(s.step(3));
    const std::string summary = exact.solver().summary();
    EXPECT_TRUE(has(summary, "(hinge#1): all (it names body " + std::to_string(absent))) << summary;
    EXPECT_TRUE(s.is_finite());
    EXPECT_LT(exact.reaction(exact.entry_of_joint(s.ball)).gap, 1e-12);
    s.world.joint(s.hinge)->settings.a = absent;  // none of its bodies is there
    EXPECT_NO_THROW(s.step(3));
    s.world.joint(s.hinge)->settings.a = -1;
    EXPECT_NO_THROW(s.step(3));
    EXPECT_TRUE(has(exact.solver().summary(), "it names body " + std::to_string(absent)));
  }
}

TEST(Faults, SuchAJointIsExactWhenTheBodyComes) {
  Pendulum s;
  minimal::Solver exact(s.world);
  s.world.joint(s.hinge)->settings.b = 2;
  s.step();
  ASSERT_EQ(exact.solver().host_parts().size(), 1U);
  const toy::Body& there = *s.world.body(s.first);
  ASSERT_EQ(s.add_ball(there.p + Vector3d(1, 0, 0)), 2);
  s.step(3);
  EXPECT_TRUE(exact.solver().host_parts().empty());
  EXPECT_LT(exact.reaction(exact.entry_of_joint(s.hinge)).gap, 1e-12);
}

TEST(Faults, TheEngineRefusesIndicesThatItHasNot) {
  Pendulum s;
  const auto add = [&](int a, int b) {
    return message_of<std::invalid_argument>(
        [&] { s.world.add(toy_joint(toy::Joint::Kind::ball, a, b, Vector3d::Zero(), Vector3d::Zero())); });
  };
  EXPECT_TRUE(has(add(s.first, 77), "body 77"));
  EXPECT_TRUE(has(add(-5, s.first), "body -5"));
  EXPECT_EQ(add(s.first, -1), "");
  EXPECT_TRUE(has(message_of<std::out_of_range>([&] { s.world.remove_body(-1); }), "no body -1"));
  EXPECT_TRUE(has(message_of<std::out_of_range>([&] { s.world.remove_body(2); }), "no body 2"));
  EXPECT_TRUE(has(message_of<std::out_of_range>([&] { s.world.remove_joint(99); }), "no joint 99"));
  EXPECT_TRUE(has(message_of<std::out_of_range>([&] { s.world.remove_joint(-1); }), "no joint -1"));
  s.world.remove_body(s.second);
  EXPECT_NO_THROW(s.world.remove_body(s.second));
  EXPECT_TRUE(has(add(s.first, s.second), "body 1"));
}

// A program may read reports after it has removed things, and before the next step.
TEST(Faults, ReportsAreReadAfterABodyWasRemoved) {
  Pendulum s;
  minimal::Solver exact(s.world);
  s.step(2);
  const int entry = exact.entry_of_joint(s.hinge);
  s.world.remove_body(s.second);
  EXPECT_EQ(exact.reaction(entry).name, "hinge#1");
  EXPECT_FALSE(exact.solver().summary().empty());
  (void)exact.solver().check();
  (void)exact.solver().rank_report();
  EXPECT_NO_THROW(s.step(2));
}

// ---- the lines of adapters/README.md ----

TEST(Declared, BodiesThatCannotTurnAreRefused) {
  Pendulum s;
  s.world.body(s.second)->inertia.setConstant(infinite);
  minimal::Solver exact(s.world);
  s.step(3);
  ASSERT_EQ(exact.solver().host_parts().size(), 1U);
  EXPECT_TRUE(has(exact.solver().host_parts()[0].why, "body 1, whose inertia is (inf, inf, inf)"));
  EXPECT_TRUE(s.is_finite());
}

// Its motor is the only part of a joint that stays with the engine: a hinge turns as far as it is kinematic.
TEST(Declared, JointsHaveNeitherLimitsNorSprings) {
  Pendulum s;
  s.world.gravity.setZero();
  s.world.remove_joint(s.ball);
  s.world.joint(s.hinge)->settings.a = -1;
  s.world.joint(s.hinge)->settings.on_a.origin = Vector3d(1.5, 2, 0);
  minimal::Solver exact(s.world);
  s.world.body(s.second)->w = Vector3d(0, 0, 10);
  s.world.body(s.second)->v = Vector3d(0, 5, 0);
  double turned = 0;
  for (int i = 0; i < 480; ++i) {
    s.step();
    turned += s.world.body(s.second)->w.z() * step_of_240_hz;
  }
  EXPECT_NEAR(turned, 20, 1e-2);
  EXPECT_TRUE(exact.solver().host_parts().empty());
}

TEST(Declared, NoBodyFallsAsleep) {
  Pendulum s;
  s.world.gravity.setZero();
  minimal::Solver exact(s.world);
  s.step(10 * 240);
  EXPECT_EQ(exact.solver().counts().solves, 10 * 240);
}

TEST(Declared, NoBodyIsStoppedWithinAStep) {
  Pendulum s;
  s.world.has_ground = true;
  s.world.remove_joint(s.hinge);
  minimal::Solver exact(s.world);
  s.world.body(s.second)->v = Vector3d(0, -960, 0);
  s.step();
  EXPECT_NEAR(s.world.body(s.second)->p.y(), -2, 1e-3);  // through the ground
}

TEST(Declared, ReactionsAreLinesThatTheProgramDraws) {
  Pendulum s;
  minimal::Solver exact(s.world);
  s.step(2);
  int lines = 0;
  exact.solver().draw_reactions(1, [&](const Vector3d&, const Vector3d&, host::ConstraintSolver::Line) { ++lines; });
  EXPECT_GT(lines, 0);
  const host::ConstraintSolver::DrawLine nothing = [](const Vector3d&, const Vector3d&, auto) {};
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(exact.solver().draw_reactions(bad, nothing), std::invalid_argument) << bad;
  EXPECT_THROW(exact.solver().draw_reactions(1, nullptr), std::invalid_argument);
}

TEST(Declared, NoConstraintIsOnLinks) {
  Pendulum s;
  minimal::Solver exact(s.world);
  exact.constrain("plane", {s.second}, [](const auto& x) { return x[0].point(0, 0, 0).z; });
  s.step(2);
  for (int i = 0; i < exact.solver().entry_count(); ++i) EXPECT_FALSE(exact.solver().entry(i).is_on_links()) << i;
}

}  // namespace

}  // namespace linchpin::test::minimal_faults_test
