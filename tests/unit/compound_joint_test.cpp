// Chains of joints whose links between them have no mass. They equal stock joints where one exists. Elsewhere they are
// the limit of links with small masses. Damping and dry friction act along their coordinates.
#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/scene.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/simulation.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace linchpin::test::compound_joint_test {
namespace {

std::string folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto path = std::filesystem::path(testing::TempDir()) / ("linchpin-compound-" + std::string(test->name()));
  std::filesystem::create_directories(path);
  return path.string();
}

scene::Model robot(const std::string& urdf, const std::string& scene) {
  std::ofstream(folder() + "/robot.urdf") << "<robot name='r'>" << urdf << "</robot>";
  return scene::load_text("schema = 2\n" + scene, folder() + "/scene.toml");
}

std::string said_of(const std::string& urdf) {
  try {
    (void)robot(urdf, "[model]\nurdf = 'robot.urdf'\n");
  } catch (const scene::SceneError& e) {
    return e.message;
  }
  return {};
}

bool noted(const scene::Model& model, const std::string& text) {
  return std::any_of(model.notes.begin(), model.notes.end(),
                     [&](const scene::Note& note) { return note.shown().find(text) != std::string::npos; });
}

class CompoundJoint : public testing::Test {
 protected:
  void SetUp() override {
    if (said_of("<link name='a'/>").find("built without URDF") != std::string::npos)
      GTEST_SKIP() << "built without URDF";
  }
};

std::string numbers(const Vector3d& x) {
  std::ostringstream out;
  out.precision(17);
  out << x.x() << " " << x.y() << " " << x.z();
  return out.str();
}

// A link with its mass at a place, or without a mass.
std::string link(const std::string& name, double mass = 0, const Vector3d& at = Vector3d::Zero()) {
  if (mass == 0) return "<link name='" + name + "'/>\n";
  std::ostringstream out;
  out.precision(17);
  out << "<link name='" << name << "'><inertial><origin xyz='" << numbers(at) << "' rpy='.3 -.2 .5'/><mass value='"
      << mass << "'/><inertia ixx='" << .03 * mass << "' iyy='" << .05 * mass << "' izz='" << .06 * mass
      << "'/></inertial></link>\n";
  return out.str();
}

std::string joint(const std::string& name, const std::string& type, const std::string& parent, const std::string& child,
                  const Vector3d& axis, const Vector3d& from = Vector3d::Zero(), const std::string& rest = "") {
  return "<joint name='" + name + "' type='" + type + "'><parent link='" + parent + "'/><child link='" + child +
         "'/><origin xyz='" + numbers(from) + "'/><axis xyz='" + numbers(axis) + "'/>" +
         (type == "prismatic" ? "<limit lower='-9' upper='9' effort='1' velocity='1'/>" : "") + rest + "</joint>\n";
}

std::vector<double> accelerations(const System& system, double* gap = nullptr) {
  Dynamics dynamics(system);
  EXPECT_EQ(dynamics.evaluate(system.initial_state()), Status::ok) << dynamics.reason();
  if (gap)
    for (const double x : dynamics.assembly().position) *gap = std::max(*gap, std::abs(x));
  return {dynamics.vdot().begin(), dynamics.vdot().end()};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double out = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    out = std::max(out, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return out;
}

// The same bodies with another constraint in place of the compound joint.
System with_stock_joint(const scene::Model& model, const std::string& name,
                        const std::function<Constraint(BodyId, const JointFrame&, BodyId, const JointFrame&)>& make) {
  scene::Model other = model;
  for (scene::SceneConstraint& c : other.constraints)
    if (c.name == name)
      c.make = [make, A = c.frame_a, B = c.frame_b](const std::vector<BodyId>& id) { return make(id[0], A, id[1], B); };
  return other.system();
}

void expect_right_derivatives(const scene::Model& model) {
  const System system = model.system();
  for (const scene::SceneConstraint& c : model.constraints) {
    const ConstraintCheck check =
        check_constraint(system, system.constraint(system.find_constraint(c.name)), system.initial_state());
    EXPECT_TRUE(check.ok()) << c.name << ": " << check.message;
  }
}

const char* const three_hinges_start =
    "[model]\nurdf = 'robot.urdf'\nfixed_base = false\njoints = { z = 0.4, y = -0.7, x = 1.1 }\n"
    "rates = { z = 1.3, y = -2.1, x = 0.7 }\nvelocity = [0.3, 0.2, -0.1]\nangular_velocity = [0.5, -0.4, 0.9]\n";

TEST_F(CompoundJoint, ThreeHingesThroughOnePointAreABall) {
  for (const double offset : {0.0, 0.25}) {  // of the last joint along its own axis: the axes still meet in one point
    const scene::Model model =
        robot(link("body", 3, {.1, .2, -.1}) + link("m1") + link("m2") + link("arm", 1.5, {0, .1, -.4}) +
                  joint("z", "continuous", "body", "m1", {0, 0, 1}, {.3, -.1, .2}) +
                  joint("y", "continuous", "m1", "m2", {0, 1, 0}) +
                  joint("x", "continuous", "m2", "arm", {1, 0, 0}, {offset, 0, 0}),
              three_hinges_start);
    ASSERT_EQ(model.bodies.size(), 2u);
    ASSERT_EQ(model.constraints.size(), 1u);
    EXPECT_EQ(model.constraints[0].name, "x");
    EXPECT_EQ(model.constraints[0].type, "compound");
    EXPECT_TRUE(noted(model, "one compound joint each: \"x\" (\"z\", \"y\", \"x\")"));
    expect_right_derivatives(model);
    const System ball = with_stock_joint(model, "x", [](BodyId a, const JointFrame& A, BodyId b, const JointFrame& B) {
      return joints::ball("x", a, A.origin, b, B.origin);
    });
    double gap = 0;
    EXPECT_LT(largest_difference(accelerations(model.system(), &gap), accelerations(ball)), 1e-12);
    EXPECT_LT(gap, 1e-15);
  }
}

TEST_F(CompoundJoint, APlanarBaseIsAPlanarJoint) {
  const scene::Model model =
      robot(link("world") + link("m1") + link("m2") + link("base", 4, {.1, -.2, .3}) + link("arm", 1, {0, 0, .4}) +
                joint("x", "prismatic", "world", "m1", {1, 0, 0}) + joint("y", "prismatic", "m1", "m2", {0, 1, 0}) +
                joint("yaw", "continuous", "m2", "base", {0, 0, 1}) +
                joint("elbow", "continuous", "base", "arm", {0, 1, 0}, {.2, .1, .5}),
            "[model]\nurdf = 'robot.urdf'\njoints = { x = 0.5, y = -0.7, yaw = 0.8, elbow = 0.3 }\n"
            "rates = { x = 1, y = 2, yaw = -1.5, elbow = 3 }\n");
  ASSERT_EQ(model.bodies.size(), 2u);
  expect_right_derivatives(model);
  const System planar =
      with_stock_joint(model, "yaw", [](BodyId a, const JointFrame& A, BodyId b, const JointFrame& B) {
        return joints::planar("yaw", a, A.origin, A.axes.col(2), b, B.origin, B.axes.col(2));
      });
  EXPECT_LT(largest_difference(accelerations(model.system()), accelerations(planar)), 1e-12);
}

// Chains of all kinds, against the same chain whose inner links have a small mass. The difference falls with the mass.
TEST_F(CompoundJoint, ChainsAreTheLimitOfSmallMasses) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> unit(-1, 1);
  const auto vector = [&] { return Vector3d(unit(random), unit(random), unit(random)); };
  for (int seed = 0; seed < 12; ++seed) {
    const int k = 2 + seed % 4;
    const double mass = seed % 5 == 4 ? 0.5 : 2;
    std::string joints, starts, rates;
    for (int i = 0; i < k; ++i) {
      const std::string n = std::to_string(i);
      const bool slides = random() % 3 == 0, together = seed % 3 == 0;
      joints += joint("j" + n, slides ? "prismatic" : "continuous", i == 0 ? "a" : "m" + n,
                      i == k - 1 ? "b" : "m" + std::to_string(i + 1), vector(),
                      together && i > 0 ? Vector3d(Vector3d::Zero()) : Vector3d(0.4 * vector()));
      std::ostringstream q, rate;
      const char* comma = i == 0 ? "" : ", ";
      q << comma << "j" << n << " = " << 0.8 * unit(random), rate << comma << "j" << n << " = " << 2 * unit(random);
      starts += q.str(), rates += rate.str();
    }
    const auto whole = [&](double inner) {
      std::string links = link("a", 3, 0.2 * vector()) + link("b", mass, {.2, -.1, .3});
      for (int i = 1; i < k; ++i) links += link("m" + std::to_string(i), inner);
      return links;
    };
    const std::mt19937 again = random;
    const auto model = [&](double inner) {
      random = again;
      return robot(whole(inner) + joints, "[model]\nurdf = 'robot.urdf'\nfixed_base = false\njoints = { " + starts +
                                              "}\nrates = { " + rates + "}\n");
    };
    const scene::Model ours = model(0);
    ASSERT_EQ(ours.bodies.size(), 2u) << seed;
    EXPECT_EQ(ours.system().constraint(ConstraintId{0}).function().rows(), 6 - k);
    expect_right_derivatives(ours);
    double gap = 0;
    const std::vector<double> exact = accelerations(ours.system(), &gap);
    EXPECT_LT(gap, 1e-14) << seed;
    const auto difference = [&](double inner) {
      std::vector<double> with = accelerations(model(inner).system());
      with.erase(with.begin() + 6, with.end() - 6);  // a comes first, b last
      return largest_difference(with, exact);
    };
    const double coarse = difference(1e-5), fine = difference(1e-6);
    EXPECT_LT(fine, 3e-4) << seed;
    if (coarse > 1e-9) {  // otherwise the links take no part in the motion
      EXPECT_NEAR(coarse / fine, 10, 1) << seed << " " << coarse << " " << fine;
    }
  }
}

TEST_F(CompoundJoint, EnergyIsConserved) {
  for (const bool offset : {false, true}) {
    scene::Model model = robot(
        link("world") + link("m1") + link("m2") + link("arm", 1.5, {0, .1, -.4}) + link("m3") +
            link("tip", .7, {0, 0, -.3}) + joint("a", "continuous", "world", "m1", {0, 0, 1}) +
            joint("b", "continuous", "m1", "m2", {0, 1, 0}, {offset ? .1 : 0, 0, 0}) +
            joint("c", "continuous", "m2", "arm", {1, 0, 0}, {0, offset ? -.2 : 0, 0}) +
            joint("d", "continuous", "arm", "m3", {0, 1, 0}, {0, 0, -.8}) +
            joint("e", "continuous", "m3", "tip", {1, 0, 0}, {0, 0, offset ? -.1 : 0}),
        "[model]\nurdf = 'robot.urdf'\njoints = { a = 0.2, b = 0.5, d = -0.4, e = 0.3 }\nrates = { a = 2, c = -1 }\n");
    model.options.method = Method::rk4;
    System system = model.system();
    Stepper stepper(system, system.initial_state(), model.options);
    const double before = energy(system, stepper.state());
    double worst = 0, gap = 0;
    for (int k = 0; k < 1000; ++k) {
      ASSERT_EQ(stepper.step(0.001).status, Status::ok);
      worst = std::max(worst, std::abs(energy(system, stepper.state()) - before));
      for (const Reaction& r : stepper.reactions()) gap = std::max(gap, r.gap);
    }
    EXPECT_LT(worst, 1e-8) << offset;
    EXPECT_LT(gap, 1e-12) << offset;
  }
}

// The power of the dampers is −Σ c q̇², and strong dampers only stop the motion.
TEST_F(CompoundJoint, DampersActAlongTheCoordinates) {
  for (const bool offset : {false, true}) {
    const auto model = [&](double a, double b, double c) {
      const auto damping = [](double d) { return "<dynamics damping='" + std::to_string(d) + "'/>"; };
      return robot(link("world") + link("m1") + link("m2") + link("arm", 1.5, {0, .1, -.4}) +
                       joint("a", "prismatic", "world", "m1", {0, 0, 1}, {0, 0, 0}, damping(a)) +
                       joint("b", "continuous", "m1", "m2", {0, 1, 0}, {offset ? .1 : 0, 0, 0}, damping(b)) +
                       joint("c", "continuous", "m2", "arm", {1, 0, 0}, {0, offset ? -.2 : 0, 0}, damping(c)),
                   "[world]\ngravity = [0, 0, 0]\n[model]\nurdf = 'robot.urdf'\njoints = { b = 0.5, c = -0.4 }\n"
                   "rates = { a = 2, b = -1, c = 3 }\n");
    };
    scene::Model weak = model(.3, .2, .1);
    ASSERT_EQ(weak.constraints.size(), 4u);
    EXPECT_EQ(weak.constraints[1].name, "a.damping");
    weak.options.method = Method::rk4;
    System system = weak.system();
    Stepper stepper(system, system.initial_state(), weak.options);
    const double before = energy(system, stepper.state()), h = 1e-4;
    ASSERT_EQ(stepper.step(h).status, Status::ok);
    const double first = (before - energy(system, stepper.state())) / h;
    ASSERT_EQ(stepper.step(h).status, Status::ok);
    const double second = (before - energy(system, stepper.state())) / (2 * h);
    EXPECT_NEAR(2 * first - second, .3 * 4 + .2 * 1 + .1 * 9, 1e-5);
    scene::Model strong = model(1e4, 1e4, 1e4);
    System stopped = strong.system();
    Stepper steps(stopped, stopped.initial_state(), strong.options);
    for (int k = 0; k < 50; ++k) ASSERT_EQ(steps.step(1.0 / 240).status, Status::ok);
    EXPECT_LT(energy(stopped, steps.state()), 1e-6) << offset;
  }
}

// Dry friction takes the power Σ f |q̇|, and holds the chain where the load of each coordinate is smaller.
TEST_F(CompoundJoint, DryFrictionActsAlongTheCoordinates) {
  const auto model = [&](const std::string& b, const std::string& c, const std::string& scene) {
    const auto dry = [](const std::string& friction) { return "<dynamics friction='" + friction + "'/>"; };
    return robot(link("world") + link("m1") + link("arm", 1.5, {.2, .1, -.4}) +
                     joint("b", "continuous", "world", "m1", {0, 1, 0}, {0, 0, 0}, dry(b)) +
                     joint("c", "continuous", "m1", "arm", {1, 0, 0}, {.3, 0, 0}, dry(c)),
                 scene);
  };
  scene::Model moving = model(".3", ".5",
                              "[world]\ngravity = [0, 0, 0]\n[model]\nurdf = 'robot.urdf'\n"
                              "rates = { b = -1, c = 3 }\n");
  ASSERT_EQ(moving.constraints.size(), 3u);
  moving.options.method = Method::rk4;
  System system = moving.system();
  Stepper stepper(system, system.initial_state(), moving.options);
  const double before = energy(system, stepper.state()), h = 1e-4;
  ASSERT_EQ(stepper.step(h).status, Status::ok);
  const double first = (before - energy(system, stepper.state())) / h;
  ASSERT_EQ(stepper.step(h).status, Status::ok);
  const double second = (before - energy(system, stepper.state())) / (2 * h);
  EXPECT_NEAR(2 * first - second, .3 * 1 + .5 * 3, 1e-5);
  const scene::Model strong =
      model("20", "20", "[model]\nurdf = 'robot.urdf'\n");  // the largest load is 1.5 kg · 9.81 m/s² · 0.5 m = 7.4 N m
  System held = strong.system();
  Stepper steps(held, held.initial_state(), strong.options);
  const BodyState start = steps.state().bodies.back();
  for (int k = 0; k < 240; ++k) ASSERT_EQ(steps.step(1.0 / 240).status, Status::ok);
  EXPECT_LT((steps.state().bodies.back().p - start.p).norm(), 1e-12);
}

TEST_F(CompoundJoint, PassesThroughGimbalLock) {
  scene::Model model =
      robot(link("world") + link("m1") + link("m2") + link("arm", 1.5, {.1, .1, -.4}) +
                joint("z", "continuous", "world", "m1", {0, 0, 1}) + joint("y", "continuous", "m1", "m2", {0, 1, 0}) +
                joint("x", "continuous", "m2", "arm", {1, 0, 0}),
            "[model]\nurdf = 'robot.urdf'\njoints = { y = 1.5707963267948966 }\nrates = { y = 2 }\n");
  EXPECT_TRUE(noted(model, "gimbal lock"));
  model.options.method = Method::rk4;
  System system = model.system();
  const System ball = with_stock_joint(model, "x", [](BodyId a, const JointFrame& A, BodyId b, const JointFrame& B) {
    return joints::ball("x", a, A.origin, b, B.origin);
  });
  EXPECT_LT(largest_difference(accelerations(system), accelerations(ball)), 1e-12);
  Stepper stepper(system, system.initial_state(), model.options);
  const double before = energy(system, stepper.state());
  for (int k = 0; k < 1000; ++k) ASSERT_EQ(stepper.step(0.001).status, Status::ok);
  EXPECT_NEAR(energy(system, stepper.state()), before, 1e-8);
}

TEST_F(CompoundJoint, SixCoordinatesHoldNothing) {
  const scene::Model model =
      robot(link("map") + link("1") + link("2") + link("3") + link("4") + link("5") + link("body", 2) +
                joint("x", "prismatic", "map", "1", {1, 0, 0}) + joint("y", "prismatic", "1", "2", {0, 1, 0}) +
                joint("z", "prismatic", "2", "3", {0, 0, 1}) + joint("yaw", "continuous", "3", "4", {0, 0, 1}) +
                joint("pitch", "continuous", "4", "5", {0, 1, 0}) + joint("roll", "continuous", "5", "body", {1, 0, 0}),
            "[model]\nurdf = 'robot.urdf'\njoints = { x = 0.5, yaw = 0.3 }\nrates = { z = 2 }\n");
  EXPECT_EQ(model.constraints.size(), 0u);
  EXPECT_TRUE(noted(model, "leave all six motions free"));
  EXPECT_EQ(model.bodies.back().start.p.x(), 0.5);
  EXPECT_EQ(model.bodies.back().start.v.z(), 2);
}

TEST_F(CompoundJoint, LeavesWithoutMassAreLeftOut) {
  const scene::Model model =
      robot(link("hand", 2) + link("f1") + link("f2") + link("g1") + joint("a", "continuous", "hand", "f1", {1, 0, 0}) +
                joint("b", "continuous", "f1", "f2", {1, 0, 0}, {0, 0, .1}, "<mimic joint='a'/>") +
                joint("c", "continuous", "hand", "g1", {1, 0, 0}, {0, 0, .1}, "<mimic joint='a'/>"),
            "[model]\nurdf = 'robot.urdf'\n");
  EXPECT_EQ(model.bodies.size(), 1u);
  EXPECT_EQ(model.constraints.size(), 0u);
  for (const char* name : {"f1", "f2", "g1", "have no mass, and no links beyond them have one"})
    EXPECT_TRUE(noted(model, name));
}

TEST_F(CompoundJoint, WhatIsWrongIsSaid) {
  const std::string a = link("a", 2), b = link("b", 1), m = link("m");
  const auto hinge = [](const std::string& name, const std::string& from, const std::string& to,
                        const std::string& rest = "") {
    return joint(name, "continuous", from, to, name == "j" ? Vector3d(0, 0, 1) : Vector3d(1, 0, 0), {0, 0, .1}, rest);
  };
  EXPECT_NE(said_of(a + b + m + link("c", 1) + hinge("j", "a", "m") + hinge("k", "m", "b") + hinge("l", "m", "c"))
                .find("link \"m\" moves by joint \"j\" and has no mass, and several joints leave it: \"k\", \"l\""),
            std::string::npos);
  EXPECT_NE(
      said_of(a + b + m + joint("j", "continuous", "a", "m", {1, 0, 0}) + joint("k", "continuous", "m", "b", {1, 0, 0}))
          .find("their 2 axes give only 1 independent motions"),
      std::string::npos);
  EXPECT_NE(said_of(a + b + m + joint("j", "floating", "a", "m", {1, 0, 0}) + hinge("k", "m", "b")).find("is floating"),
            std::string::npos);
  EXPECT_NE(said_of(a + b + m + link("c", 1) + hinge("j", "a", "m") + hinge("k", "m", "b") +
                    hinge("l", "a", "c", "<mimic joint='j'/>"))
                .find("joint \"l\", <mimic>: joint \"j\" connects a link without mass"),
            std::string::npos);
  const scene::Model limited =
      robot(a + b + m + joint("j", "prismatic", "a", "m", {1, 0, 0}, {0, 0, 0}, "<dynamics friction='1'/>") +
                hinge("k", "m", "b"),
            "[model]\nurdf = 'robot.urdf'\nprefix = 'left_'\n");
  EXPECT_TRUE(noted(limited, "act as one compound joint each: \"left_k\" (\"left_j\", \"left_k\")"));
  ASSERT_EQ(limited.constraints.size(), 2u);
  EXPECT_EQ(limited.constraints[1].name, "left_j.friction");
  ASSERT_EQ(limited.compound_coordinates.size(), 2u);
  EXPECT_EQ(limited.compound_coordinates[0].name, "left_j");
  EXPECT_EQ(limited.compound_coordinates[1].name, "left_k");
  const scene::Model with_limits = scene::with_compound_limits(limited);
  ASSERT_EQ(with_limits.constraints.size(), 4u);
  EXPECT_EQ(with_limits.constraints[2].name, "left_j.lower");
  EXPECT_EQ(with_limits.constraints[3].name, "left_j.upper");
}

// A universal joint whose second axis stops at −0.3 and 0.5 rad, without rebound.
TEST_F(CompoundJoint, LimitsStopACoordinate) {
  const auto cross = [](const std::string& lower, const std::string& upper, const std::string& model = "") {
    return robot("<link name='world'/>" + link("m") + link("bar", 2, {.1, .05, .2}) +
                     joint("j", "continuous", "world", "m", {1, 0, 0}) +
                     joint("k", "revolute", "m", "bar", {0, 1, 0}, Vector3d::Zero(),
                           "<limit lower='" + lower + "' upper='" + upper + "' effort='9' velocity='9'/>"),
                 "[model]\nurdf = 'robot.urdf'\n" + model);
  };
  const auto second = [](const State& at) {  // the angle about y, from R = Rx(j) Ry(k)
    return std::atan2((at.bodies[1].q * Vector3d::UnitZ()).x(), (at.bodies[1].q * Vector3d::UnitX()).x());
  };
  const scene::Model model = scene::with_compound_limits(cross("-0.3", "0.5"));
  ASSERT_EQ(model.constraints.size(), 3u);
  EXPECT_TRUE(model.constraints[1].unilateral && !model.constraints[1].unilateral->negative);
  EXPECT_TRUE(model.constraints[2].unilateral && model.constraints[2].unilateral->negative);
  const Quaterniond zero = model.system().initial_state().bodies[1].q;
  for (const double sign : {1.0, -1.0}) {
    System system = model.system();
    system.set_gravity({sign * 9.81, 0, 0});
    Stepper stepper(system, system.initial_state());
    double most = 0;
    for (int i = 0; i < 2000; ++i) {
      stepper.step(0.001);
      State turned = stepper.state();
      turned.bodies[1].q = turned.bodies[1].q * zero.conjugate();
      most = std::max(most, sign * second(turned));
    }
    EXPECT_NEAR(most, sign > 0 ? 0.5 : 0.3, 1e-9);
  }
  EXPECT_EQ(scene::with_joint_limits(cross("-0.3", "0.5")).constraints.size(), 3u);
  const scene::Model locked = scene::with_joint_limits(cross("0.2", "0.2"));
  EXPECT_EQ(locked.constraints.back().name, "k.limits");
  EXPECT_FALSE(locked.constraints.back().unilateral);
  expect_right_derivatives(model);
  // No impacts with rattle: the limits are left out, and listed.
  const scene::Model rattle = scene::with_joint_limits(cross("-0.3", "0.5", "[solver]\nmethod = 'rattle'\n"));
  EXPECT_EQ(rattle.constraints.size(), 1u);
  ASSERT_EQ(rattle.native.size(), 1u);
  EXPECT_EQ(rattle.native[0], "k: limits of a joint in a compound joint");
}

// A bar that hangs by two hinges, about x and y, whose axes do not meet. The link between them has no mass.
struct Crane {
  static constexpr double mass = 2;
  const Vector3d moments{.03, .05, .06}, between{0, .05, .1}, centre{.1, .05, .2}, gravity{0, 0, -9.81};
  std::string urdf() const {
    return "<link name='world'/>" + link("m") +
           "<link name='bar'><inertial><origin xyz='.1 .05 .2'/><mass value='2'/><inertia ixx='.03' iyy='.05' "
           "izz='.06'/></inertial></link>" +
           joint("j", "continuous", "world", "m", {1, 0, 0}) + joint("k", "continuous", "m", "bar", {0, 1, 0}, between);
  }
  // The torques of the two joints, by the equations of Newton and Euler.
  std::array<double, 2> torques(std::array<double, 2> q, std::array<double, 2> rate,
                                std::array<double, 2> rate2) const {
    const Matrix3d R1 = Eigen::AngleAxisd(q[0], Vector3d::UnitX()).toRotationMatrix(),
                   R = R1 * Eigen::AngleAxisd(q[1], Vector3d::UnitY()).toRotationMatrix(),
                   I = R * moments.asDiagonal() * R.transpose();
    const Vector3d x = Vector3d::UnitX(), y = R1 * Vector3d::UnitY(), w1 = rate[0] * x, alpha1 = rate2[0] * x;
    const Vector3d w = w1 + rate[1] * y, alpha = alpha1 + rate2[1] * y + w1.cross(rate[1] * y);
    const Vector3d p = R1 * between, r = R * centre;
    const Vector3d a = alpha1.cross(p) + w1.cross(w1.cross(p)) + alpha.cross(r) + w.cross(w.cross(r));
    const Vector3d f = mass * (a - gravity), moment = I * alpha + w.cross(I * w);
    return {x.dot((p + r).cross(f) + moment), y.dot(r.cross(f) + moment)};
  }
};

TEST_F(CompoundJoint, HasTheCoordinatesOfItsJoints) {
  const Crane crane;
  scene::Simulation simulation(robot(crane.urdf(),
                                     "[world]\ndt = 0.001\n[solver]\nmethod = 'rk4'\n[model]\nurdf = 'robot.urdf'\n"
                                     "joints = { k = 7.0 }\nrates = { j = 0.5 }\n"));
  ASSERT_EQ(simulation.joints().size(), 2u);
  scene::SimulatedJoint j = simulation.joint("j"), k = simulation.joint("k");
  EXPECT_NEAR(k.position(), 7, 1e-14);
  EXPECT_NEAR(j.velocity(), 0.5, 1e-14);
  EXPECT_FALSE(j.slides());
  j.set_position(0.3), k.set_position(6.5);
  j.set_velocity(1.5), k.set_velocity(-0.7);
  j.set_force(2), k.set_force(-1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_NEAR(j.force(), 2, 1e-11);
    EXPECT_NEAR(k.force(), -1, 1e-11);
    const auto torques =
        crane.torques({j.position(), k.position()}, {j.velocity(), k.velocity()}, {j.acceleration(), k.acceleration()});
    EXPECT_NEAR(torques[0], 2, 1e-10) << i;
    EXPECT_NEAR(torques[1], -1, 1e-10) << i;
    if (i == 0) {
      EXPECT_NEAR(j.position(), 0.3, 1e-14);
      EXPECT_NEAR(k.position(), 6.5, 1e-14);
      EXPECT_NEAR(j.velocity(), 1.5, 1e-14);
      EXPECT_NEAR(k.velocity(), -0.7, 1e-14);
    }
    simulation.step();
  }
  // Both have the wrench of the compound joint.
  EXPECT_EQ(j.wrench().force, k.wrench().force);
  EXPECT_GT(j.wrench().force.norm(), 1);
}

// Positions as functions of time: the torques that this takes are results.
TEST_F(CompoundJoint, IsDrivenByNameOfItsJoints) {
  const Crane crane;
  scene::Simulation simulation(robot(
      crane.urdf(),
      "[world]\ndt = 0.001\n[solver]\nmethod = 'rk4'\n[model]\nurdf = 'robot.urdf'\nrates = { j = 0.8, k = 1.0 }\n"
      "[[actuator]]\njoint = 'j'\nposition = '0.4*sin(2*t)'\n"
      "[[actuator]]\njoint = 'k'\nposition = '0.3*sin(3*t) + 0.1*t'\n"
      "[[log]]\nchannel = 'joint_velocity(j)'\n"));
  scene::Channel rate = simulation.model().logs.at(0);
  for (int i = 0; i < 500; ++i) {
    const double t = simulation.state().t;
    const auto expected = crane.torques({.4 * std::sin(2 * t), .3 * std::sin(3 * t) + .1 * t},
                                        {.8 * std::cos(2 * t), .9 * std::cos(3 * t) + .1},
                                        {-1.6 * std::sin(2 * t), -2.7 * std::sin(3 * t)});
    EXPECT_NEAR(simulation.joint("j").force(), expected[0], 1e-9) << t;
    EXPECT_NEAR(simulation.joint("k").force(), expected[1], 1e-9) << t;
    EXPECT_NEAR(rate({simulation.system(), simulation.state(), simulation.reactions()})[0], .8 * std::cos(2 * t),
                1e-10);
    simulation.step();
  }
}

// A planar base: the forces along two sliders and about a hinge are those on the body.
TEST_F(CompoundJoint, TakesTorquesFromExpressions) {
  scene::Simulation simulation(
      robot("<link name='world'/>" + link("a") + link("b") +
                "<link name='base'><inertial><mass value='4'/><inertia ixx='1' iyy='1' izz='0.5'/></inertial></link>" +
                joint("x", "prismatic", "world", "a", {1, 0, 0}) + joint("y", "prismatic", "a", "b", {0, 1, 0}) +
                joint("yaw", "continuous", "b", "base", {0, 0, 1}),
            "[world]\ndt = 0.001\n[solver]\nmethod = 'rk4'\n[model]\nurdf = 'robot.urdf'\n"
            "[[actuator]]\njoint = 'x'\nforce = '3 - 2*joint_velocity(yaw)'\nmax_force = 10\n"
            "[[actuator]]\njoint = 'yaw'\nposition = '1'\nstiffness = 2\n"));
  for (int i = 0; i < 200; ++i) {
    const double yaw = simulation.joint("yaw").position(), yaw_rate = simulation.joint("yaw").velocity();
    EXPECT_NEAR(simulation.joint("x").acceleration(), (3 - 2 * yaw_rate) / 4, 1e-12);
    EXPECT_NEAR(simulation.joint("y").acceleration(), 0, 1e-12);
    EXPECT_NEAR(simulation.joint("yaw").acceleration(), 2 * (1 - yaw) / 0.5, 1e-12);
    simulation.step();
  }
  EXPECT_GT(simulation.joint("x").position(), 0.01);
}

std::string planar_base(const std::string& dynamics = "") {
  const std::string rest = dynamics.empty() ? "" : "<dynamics " + dynamics + "/>";
  std::string out =
      "<link name='world'/>" + link("a") + link("b") +
      "<link name='base'><inertial><mass value='4'/><inertia ixx='1' iyy='1' izz='0.5'/></inertial></link>" +
      joint("x", "prismatic", "world", "a", {1, 0, 0}, Vector3d::Zero(), rest) +
      joint("y", "prismatic", "a", "b", {0, 1, 0}, Vector3d::Zero(), rest) +
      joint("yaw", "continuous", "b", "base", {0, 0, 1}, Vector3d::Zero(), rest);
  for (std::size_t at = 0; (at = out.find("='9'", at)) != std::string::npos; at += 6) out.replace(at, 4, "='900'");
  return out;
}

TEST_F(CompoundJoint, ToSetAPositionKeepsTheRatesOfTheOtherJoints) {
  scene::Simulation simulation(robot(planar_base(),
                                     "[model]\nurdf = 'robot.urdf'\njoints = { x = 0.2, yaw = 0.3 }\n"
                                     "rates = { x = 1.0, yaw = 0.5 }\n"));
  simulation.joint("yaw").set_position(1.2);
  simulation.joint("x").set_position(500);  // far in one step
  simulation.joint("y").set_position(-3);
  EXPECT_NEAR(simulation.joint("x").position(), 500, 1e-10);
  EXPECT_NEAR(simulation.joint("y").position(), -3, 1e-10);
  EXPECT_NEAR(simulation.joint("yaw").position(), 1.2, 1e-12);
  EXPECT_NEAR(simulation.joint("x").velocity(), 1, 1e-12);
  EXPECT_NEAR(simulation.joint("y").velocity(), 0, 1e-12);
  EXPECT_NEAR(simulation.joint("yaw").velocity(), 0.5, 1e-12);
}

// A sensor measures all that the parent exerts: here 0.5 N s/m against 1 m/s, and 0.5 N m s against -2 rad/s.
TEST_F(CompoundJoint, ASensorMeasuresTheDampingOfItsJoints) {
  const scene::Model model =
      robot(planar_base("damping='0.5'"),
            "[solver]\nmethod = 'rk4'\n[model]\nurdf = 'robot.urdf'\nrates = { x = 1.0, yaw = -2.0 }\n[[sensor]]\n"
            "name = 's'\njoint = 'yaw'\nframe = 'world'\n[[log]]\nchannel = 'joint_force(x)'\n");
  System system = model.system();
  Stepper stepper(system, system.initial_state(), model.options);
  stepper.step(1e-9);
  ASSERT_EQ(model.logs.size(), 3u);  // those of the sensor are the first
  const auto value = [&](std::size_t log, std::size_t i) {
    return model.logs[log]({system, stepper.state(), stepper.reactions()})[i];
  };
  EXPECT_NEAR(value(0, 0), -0.5, 1e-6);
  EXPECT_NEAR(value(0, 2), 4 * 9.81, 1e-6);
  EXPECT_NEAR(value(1, 2), 1, 1e-6);
  EXPECT_NEAR(value(2, 0), -0.5, 1e-6);
  EXPECT_EQ(model.logs[2].unit(), "N");
}

// Actuators and limits count whole turns. A state from elsewhere gives them the turns of its positions.
TEST_F(CompoundJoint, AStateBringsItsTurns) {
  for (const bool limited : {false, true}) {
    std::string urdf = Crane().urdf();
    if (limited) {
      urdf.replace(urdf.find("continuous"), 10, "revolute");
      urdf.insert(urdf.find("</joint>"), "<limit lower='-1' upper='9' effort='1000' velocity='1000'/>");
    }
    const auto made = [&](const std::string& at) {
      return scene::Simulation(robot(urdf, "[world]\ndt = 0.001\n[model]\nurdf = 'robot.urdf'\njoints = { j = " + at +
                                               " }\n[[actuator]]\njoint = 'j'\nposition = 7\nstiffness = 90\n"
                                               "damping = 20\n"));
    };
    scene::Simulation one = made("7.046"), other = made("0.0");
    std::vector<double> positions;
    for (const std::string& name : one.joints()) positions.push_back(one.joint(name).position());
    other.run(0.01);
    other.set_state(one.state(), positions);
    EXPECT_NEAR(other.joint("j").position(), 7.046, 1e-12);
    for (int i = 0; i < 300; ++i) one.step(), other.step();
    EXPECT_NEAR(one.joint("j").position(), 7, 0.5);
    EXPECT_NEAR(other.joint("j").position(), one.joint("j").position(), 1e-9) << limited;
  }
}

TEST_F(CompoundJoint, ReservesTheNamesOfItsJoints) {
  const std::string six =
      "<link name='world'/>" + link("a") + link("b") + link("c") + link("d") + link("e") + link("bar", 2) +
      joint("x", "prismatic", "world", "a", {1, 0, 0}) + joint("y", "prismatic", "a", "b", {0, 1, 0}) +
      joint("z", "prismatic", "b", "c", {0, 0, 1}) + joint("rz", "continuous", "c", "d", {0, 0, 1}) +
      joint("ry", "continuous", "d", "e", {0, 1, 0}) + joint("rx", "continuous", "e", "bar", {1, 0, 0});
  const auto said = [&](const std::string& more) {
    try {
      (void)robot(six, "[model]\nurdf = 'robot.urdf'\n" + more);
    } catch (const scene::SceneError& e) {
      return e.message;
    }
    return std::string();
  };
  EXPECT_NE(said("[[constraint]]\nname = 'rx'\nequation = 'bar.x = 0'\n").find("there are two joints"),
            std::string::npos);
  EXPECT_NE(said("[[log]]\nchannel = 'reaction(rx)'\n").find("leaves all motions free, so nothing holds the body"),
            std::string::npos);
  const Crane crane;
  try {
    (void)robot(crane.urdf(), "[model]\nurdf = 'robot.urdf'\n[[sensor]]\nname = 's'\njoint = 'j'\n");
    FAIL();
  } catch (const scene::SceneError& e) {
    EXPECT_NE(
        e.message.find("\"j\" is a joint inside a compound joint, so it has no force of its own. Use the compound "
                       "joint \"k\""),
        std::string::npos)
        << e.message;
  }
}

TEST_F(CompoundJoint, ReactionsAreThoseOfTheWhole) {
  const Crane crane;
  const auto said = [&](const std::string& channel) {
    try {
      (void)robot(crane.urdf(), "[model]\nurdf = 'robot.urdf'\n[[log]]\nchannel = '" + channel + "'\n");
    } catch (const scene::SceneError& e) {
      return e.message;
    }
    return std::string();
  };
  EXPECT_EQ(said("joint_force(j) + joint_position(k)"), "");
  EXPECT_EQ(said("reaction(k)"), "");
  EXPECT_NE(said("reaction(j)")
                .find("\"j\" is a joint inside a compound joint, so it has a coordinate and no "
                      "reaction() of its own. Use the compound joint \"k\""),
            std::string::npos)
      << said("reaction(j)");
}

TEST_F(CompoundJoint, BeginsAMultibodyOfItsOwn) {
  const scene::Model model = robot(
      link("a", 2) + link("b", 1, {0, 0, .2}) + link("m") + link("c", 1, {0, 0, .3}) + link("d", 1, {0, 0, .3}) +
          joint("j", "continuous", "a", "b", {0, 1, 0}) + joint("k", "continuous", "b", "m", {0, 0, 1}, {0, 0, .4}) +
          joint("l", "continuous", "m", "c", {0, 1, 0}) + joint("n", "continuous", "c", "d", {1, 0, 0}, {0, 0, .4}),
      "[model]\nurdf = 'robot.urdf'\nas = 'multibody'\n");
  ASSERT_EQ(model.bodies.size(), 4u);
  EXPECT_EQ(model.multibodies, 2);
  EXPECT_NE(model.bodies[1].multibody, model.bodies[2].multibody);
  for (const scene::SceneConstraint& c : model.constraints) EXPECT_EQ(c.tree, c.name != "l") << c.name;
}

}  // namespace
}  // namespace linchpin::test::compound_joint_test
