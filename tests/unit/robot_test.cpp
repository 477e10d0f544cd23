// Robots from URDF files: the same mechanics as bodies and joints made by hand, sensors against closed forms, and what
// is wrong with a file said in one message with its line.
#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/scene.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/simulation.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

namespace linchpin::test::robot_test {
namespace {

// Each test its own folder: ctest runs them side by side.
std::string folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto path = std::filesystem::path(testing::TempDir()) / ("linchpin-" + std::string(test->name()));
  std::filesystem::create_directories(path);
  return path.string();
}

std::string written(const std::string& name, const std::string& text) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// Says why where URDF was left out of the build.
bool without_urdf() {
  try {
    (void)scene::load(written("probe.urdf", "<robot name='r'><link name='a'/></robot>"));
  } catch (const scene::SceneError& e) {
    return e.message.find("built without URDF") != std::string::npos;
  }
  return false;
}
class Robot : public testing::Test {
 protected:
  void SetUp() override {
    if (without_urdf()) GTEST_SKIP() << "built without URDF";
  }
};

scene::Model robot(const std::string& urdf, const std::string& scene) {
  (void)written("robot.urdf", urdf);
  return scene::load_text("schema = 2\n" + scene, folder() + "/scene.toml");
}

std::string numbers(std::initializer_list<double> list) {
  std::ostringstream out;
  out.precision(17);
  for (const double x : list) out << x << " ";
  return out.str();
}

std::string inertial(double mass, const Vector3d& at, const Vector3d& rpy, const Matrix3d& I) {
  std::ostringstream out;
  out.precision(17);
  out << "<inertial><origin xyz='" << numbers({at.x(), at.y(), at.z()}) << "' rpy='"
      << numbers({rpy.x(), rpy.y(), rpy.z()}) << "'/><mass value='" << mass << "'/><inertia ixx='" << I(0, 0)
      << "' ixy='" << I(0, 1) << "' ixz='" << I(0, 2) << "' iyy='" << I(1, 1) << "' iyz='" << I(1, 2) << "' izz='"
      << I(2, 2) << "'/></inertial>";
  return out.str();
}

const char* const pendulum = R"(<robot name="pendulum">
  <link name="world"/>
  <link name="rod">
    <inertial>
      <origin xyz="0 0 -0.6"/> <mass value="2"/>
      <inertia ixx="0.3" iyy="0.25" izz="0.05"/>
    </inertial>
  </link>
  <joint name="pivot" type="continuous">
    <parent link="world"/> <child link="rod"/> <axis xyz="0 1 0"/> <origin xyz="0.1 0.2 1"/>
  </joint>
</robot>)";

TEST_F(Robot, SensorReadsThePendulumsClosedForm) {
  scene::Model model = robot(pendulum, R"(
[model]
urdf = "robot.urdf"
joints = { pivot = 0.7 }
[[sensor]]
name = "at_link"
joint = "pivot"
[[sensor]]
name = "ground"
joint = "pivot"
on = "parent"
frame = "world")");
  EXPECT_EQ(model.gravity, Vector3d(0, 0, -9.81));
  model.options.method = Method::rk4;
  System system = model.system();
  Stepper stepper(system, system.initial_state(), model.options);
  const double m = 2, L = 0.6, I = 0.25 + m * L * L, g = 9.81;
  double worst = 0;
  for (int k = 0; k < 200; ++k) {
    Dynamics dynamics(system);
    ASSERT_EQ(dynamics.evaluate(stepper.state()), Status::ok);
    std::vector<Reaction> reactions;
    dynamics.reactions(stepper.state(), reactions);
    const BodyState& s = stepper.state().bodies[1];
    const double q = 2 * std::atan2(s.q.y(), s.q.w()), w = s.w.y(), alpha = -m * g * L * std::sin(q) / I;
    // Along the link towards the pivot, and across it (the link's x): by Newton's law for the centre of mass.
    const Vector3d in_link(m * (-L * alpha - g * std::sin(q)), 0, m * (L * w * w + g * std::cos(q)));
    const scene::Observation at{system, stepper.state(), reactions};
    const auto read = [&](std::size_t i) {
      const auto v = model.logs[i](at);
      return Vector3d(v[0], v[1], v[2]);
    };
    ASSERT_EQ(model.logs.size(), 4u);
    worst = std::max(
        {worst, (read(0) - in_link).norm(), read(1).norm(), (read(2) + (s.q * in_link)).norm(), read(3).norm()});
    ASSERT_EQ(stepper.step(0.01).status, Status::ok);
  }
  EXPECT_LT(worst, 1e-10);
}

TEST_F(Robot, DoublePendulumMovesAsTheSceneWrittenByHand) {
  const std::string urdf = R"(<robot name="double"><link name="world"/>
    <link name="upper"><inertial><origin xyz="0 0 -0.5"/><mass value="1.5"/>
      <inertia ixx="0.2" iyy="0.3" izz="0.4"/></inertial></link>
    <link name="lower"><inertial><origin xyz="0 0 -0.4"/><mass value="0.7"/>
      <inertia ixx="0.1" iyy="0.15" izz="0.2"/></inertial></link>
    <joint name="shoulder" type="continuous"><parent link="world"/><child link="upper"/><axis xyz="1 0 0"/></joint>
    <joint name="elbow" type="continuous"><origin xyz="0 0 -1"/><parent link="upper"/><child link="lower"/>
      <axis xyz="1 0 0"/><dynamics damping="0.02"/></joint></robot>)";
  const scene::Model from_urdf = robot(urdf, "[model]\nurdf = 'robot.urdf'\njoints = { shoulder = 1.2, elbow = -0.5 }");
  const scene::Model by_hand = scene::load_text(R"scene(
schema = 2
[params]
a = 1.2
b = 0.7
[world]
gravity = [0, 0, -9.81]
[[body]]
name = "upper"
mass = 1.5
inertia = [0.2, 0.3, 0.4]
position = [0, "0.5*sin(a)", "-0.5*cos(a)"]
rotation = { axis = [1, 0, 0], angle = "a" }
[[body]]
name = "lower"
mass = 0.7
inertia = [0.1, 0.15, 0.2]
position = [0, "sin(a) + 0.4*sin(b)", "-cos(a) - 0.4*cos(b)"]
rotation = { axis = [1, 0, 0], angle = "b" }
[[joint]]
name = "shoulder"
type = "hinge"
b = "upper"
at = [0, 0, 0]
axis = [1, 0, 0]
[[joint]]
name = "elbow"
type = "hinge"
a = "upper"
b = "lower"
at = [0, "sin(a)", "-cos(a)"]
axis = [1, 0, 0]
law = { type = "viscous_torque", coefficient = 0.02 })scene",
                                                "hand.toml");
  System one = from_urdf.system(), other = by_hand.system();
  Stepper a(one, one.initial_state(), from_urdf.options), b(other, other.initial_state(), by_hand.options);
  for (int k = 0; k < 240; ++k) {
    ASSERT_EQ(a.step(1.0 / 240).status, Status::ok);
    ASSERT_EQ(b.step(1.0 / 240).status, Status::ok);
  }
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_LT((a.state().bodies[i].p - b.state().bodies[i].p).norm(), 1e-11);
    EXPECT_LT((a.state().bodies[i].w - b.state().bodies[i].w).norm(), 1e-11);
  }
}

// Forward kinematics here by 4x4 matrices, bodies in the inertial frames with their full tensors: nothing shared.
TEST_F(Robot, RandomTreesAccelerateAsBodiesMadeByHand) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  const auto vector = [&] { return Vector3d(unit(random), unit(random), unit(random)); };
  const auto turned = [](const Vector3d& rpy) {
    return Eigen::Quaterniond(Eigen::AngleAxisd(rpy.z(), Vector3d::UnitZ()) *
                              Eigen::AngleAxisd(rpy.y(), Vector3d::UnitY()) *
                              Eigen::AngleAxisd(rpy.x(), Vector3d::UnitX()));
  };
  for (int seed = 0; seed < 20; ++seed) {
    const int n = 2 + seed % 7;
    std::string urdf = "<robot name='tree'>", starts;
    System system;
    system.set_gravity({0, 0, -9.81});
    std::vector<Eigen::Isometry3d> pose, com;
    for (int i = 0; i < n; ++i) {
      const double mass = 1 + unit(random) * 0.8;
      const Vector3d at = 0.3 * vector(), tilt = vector();
      const Matrix3d root = Matrix3d::Random(), I = 0.02 * root * root.transpose() + 0.05 * Matrix3d::Identity();
      const std::string name = "l" + std::to_string(i);
      urdf += "<link name='" + name + "'>" + inertial(mass, at, tilt, I) + "</link>";
      Eigen::Isometry3d T = Eigen::Isometry3d::Identity();
      const int parent = i == 0 ? -1 : static_cast<int>(random() % static_cast<unsigned>(i));
      Vector3d axis = vector(), from = 0.5 * vector(), rpy = vector();
      const double q = unit(random);
      const bool slides = random() % 4 == 0;
      if (i > 0) {
        T = pose[static_cast<std::size_t>(parent)] * Eigen::Translation3d(from) * turned(rpy);
        if (slides)
          T = T * Eigen::Translation3d(q * axis.normalized());
        else
          T = T * Eigen::AngleAxisd(q, axis.normalized());
        urdf += std::string("<joint name='j") + std::to_string(i) + "' type='" + (slides ? "prismatic" : "revolute") +
                "'><parent link='l" + std::to_string(parent) + "'/><child link='" + name + "'/><origin xyz='" +
                numbers({from.x(), from.y(), from.z()}) + "' rpy='" + numbers({rpy.x(), rpy.y(), rpy.z()}) +
                "'/><axis xyz='" + numbers({axis.x(), axis.y(), axis.z()}) +
                "'/><limit effort='1' velocity='1'/></joint>";
        std::ostringstream start;
        start.precision(17);
        start << (starts.empty() ? "" : ", ") << "j" << i << " = " << q;
        starts += start.str();
      }
      pose.push_back(T);
      com.push_back(T * Eigen::Translation3d(at) * turned(tilt));
      const BodyId id = system.add_body(name, mass, Matrix3d::Identity(),
                                        {com.back().translation(), Quaterniond(Matrix3d(com.back().rotation()))});
      system.set_mass(id, mass, I);
      if (i == 0) continue;
      const auto local = [](const Eigen::Isometry3d& of, const Vector3d& p) { return Vector3d(of.inverse() * p); };
      const Eigen::Isometry3d& A = com[static_cast<std::size_t>(parent)];
      const Vector3d p = T.translation(), u = T.rotation() * axis;
      const BodyId a{parent + 1};
      const Vector3d e = u.normalized().unitOrthogonal();
      Matrix3d W;
      W << u.normalized(), e, u.normalized().cross(e);
      if (slides)
        system.add(joints::slider("j" + std::to_string(i), a, {local(A, p), A.rotation().transpose() * W}, id,
                                  {local(com.back(), p), com.back().rotation().transpose() * W}));
      else
        system.add(joints::hinge("j" + std::to_string(i), a, local(A, p), A.rotation().transpose() * u, id,
                                 local(com.back(), p), com.back().rotation().transpose() * u));
    }
    const scene::Model model = robot(urdf + "</robot>", "[model]\nurdf = 'robot.urdf'\njoints = { " + starts + " }\n");
    const System ours = model.system();
    Dynamics one(ours), other(system);
    ASSERT_EQ(one.evaluate(ours.initial_state()), Status::ok);
    ASSERT_EQ(other.evaluate(system.initial_state()), Status::ok);
    std::vector<Reaction> f, h;
    one.reactions(ours.initial_state(), f);
    other.reactions(system.initial_state(), h);
    ASSERT_EQ(f.size(), h.size());
    for (std::size_t k = 0; k < f.size(); ++k)
      EXPECT_LT((f[k].on_b.force - h[k].on_b.force).norm(), 1e-9 * (1 + h[k].on_b.force.norm())) << seed << f[k].name;
    ASSERT_EQ(one.vdot().size(), other.vdot().size());
    for (std::size_t i = 0; i < one.vdot().size(); ++i)
      EXPECT_NEAR(one.vdot()[i], other.vdot()[i], 1e-9 * (1 + std::abs(other.vdot()[i]))) << seed;
  }
}

TEST_F(Robot, MimicJointsFollowThroughManyTurns) {
  scene::Model model = robot(R"(<robot name="couple"><link name="world"/>
    <link name="driver"><inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1"/></inertial></link>
    <link name="arm"><inertial><origin xyz=".2 0 0"/><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1"/></inertial></link>
    <link name="follower"><inertial><origin xyz=".1 0 0"/><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1"/></inertial></link>
    <link name="rack"><inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1"/></inertial></link>
    <joint name="a" type="continuous"><parent link="world"/><child link="driver"/><axis xyz="0 1 0"/></joint>
    <joint name="b" type="continuous"><parent link="world"/><child link="arm"/><axis xyz="0 0 1"/></joint>
    <joint name="c" type="continuous"><parent link="arm"/><child link="follower"/><origin xyz=".4 0 0"/><axis xyz="0 1 0"/>
      <mimic joint="a" multiplier="-1.7" offset=".3"/></joint>
    <joint name="d" type="prismatic"><parent link="world"/><child link="rack"/><axis xyz="0 0 1"/>
      <limit lower="-9" upper="9"/><mimic joint="a" multiplier=".05"/></joint></robot>)",
                             "[world]\ngravity = [0, 0, 0]\n[model]\nurdf = 'robot.urdf'\n");
  for (scene::SceneBody& body : model.bodies)
    if (body.name == "driver") body.start.w = {0, 40, 0};
  model.options.method = Method::rk4;
  System system = model.system();
  Stepper stepper(system, system.initial_state(), model.options);
  double turned = 0, worst = 0, energy_0 = 0;
  for (int k = 0; k < 1000; ++k) {
    ASSERT_EQ(stepper.step(0.002).status, Status::ok);
    const State& s = stepper.state();
    turned += 0.002 * s.bodies[1].w.y();
    if (k == 0) energy_0 = energy(system, s);
    const auto angle = [](const Quaterniond& q) { return 2 * std::atan2(q.y(), q.w()); };
    const double a = angle(s.bodies[1].q), c = angle(s.bodies[2].q.conjugate() * s.bodies[4].q);
    // a is known but for whole turns, of which 1.7 are not whole: counted by the integral.
    const double a_all = turned + std::remainder(a - turned, 2 * M_PI);
    worst = std::max(
        {worst, std::abs(std::remainder(c + 1.7 * a_all - 0.3, 2 * M_PI)), std::abs(s.bodies[3].p.z() - 0.05 * a_all)});
  }
  EXPECT_GT(std::abs(turned), 4 * M_PI);
  EXPECT_LT(worst, 1e-10);
  EXPECT_NEAR(energy(system, stepper.state()), energy_0, 1e-6);
}

TEST_F(Robot, MimicJointsFollowWhereASimulationSetsTheirLeader) {
  const std::string inertial = "<inertial><mass value='1'/><inertia ixx='.1' iyy='.1' izz='.1'/></inertial>";
  scene::Simulation hand(robot("<robot name='hand'><link name='world'/><link name='palm'>" + inertial +
                                   "</link><link name='finger'>" + inertial + "</link><link name='rack'>" + inertial +
                                   R"(</link>
    <joint name="a" type="continuous"><parent link="world"/><child link="palm"/><axis xyz="0 1 0"/></joint>
    <joint name="c" type="continuous"><parent link="palm"/><child link="finger"/><origin xyz=".4 0 0"/><axis xyz="0 1 0"/>
      <mimic joint="a" multiplier="-1.7" offset=".3"/></joint>
    <joint name="d" type="prismatic"><parent link="world"/><child link="rack"/><axis xyz="0 0 1"/>
      <limit lower="-9" upper="9"/><mimic joint="c" multiplier=".05"/></joint></robot>)",
                               "[world]\ngravity = [0, 0, 0]\n[model]\nurdf = 'robot.urdf'\nprefix = 'left_'\n"));
  hand.joint("left_a").set_position(0.4);
  hand.joint("left_a").set_velocity(2);
  const auto expect = [&](double a, double rate) {
    EXPECT_NEAR(hand.joint("left_a").position(), a, 1e-12);
    EXPECT_NEAR(hand.joint("left_c").position(), 0.3 - 1.7 * a, 1e-12);
    EXPECT_NEAR(hand.joint("left_d").position(), 0.05 * (0.3 - 1.7 * a), 1e-12);
    EXPECT_NEAR(hand.joint("left_a").velocity(), rate, 1e-12);
    EXPECT_NEAR(hand.joint("left_c").velocity(), -1.7 * rate, 1e-12);
    EXPECT_NEAR(hand.joint("left_d").velocity(), -0.085 * rate, 1e-12);
  };
  expect(0.4, 2);
  EXPECT_LE(hand.stepper().start().moved, 1e-12);
  EXPECT_LE(hand.stepper().start().impulse_energy, 1e-20);
  hand.joint("left_a").set_position(-0.9);
  expect(-0.9, 2);
  try {
    hand.joint("left_c").set_position(0.1);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "joint \"left_c\" mimics joint \"left_a\", so that it cannot be set. Set \"left_a\"");
  }
  EXPECT_THROW(hand.joint("left_d").set_velocity(1), std::invalid_argument);
  EXPECT_THROW(hand.joint("left_a").set_position(1.2), std::invalid_argument);  // c would turn by 3.57 rad
  expect(-0.9, 2);
}

TEST_F(Robot, MasslessLinksLieInWhatTheyAreFixedTo) {
  const scene::Model model = robot(R"(<robot name="r"><link name="base"/>
    <link name="body"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
    <link name="tip"><collision><origin xyz="0 0 1"/><geometry><cylinder radius=".1" length=".4"/></geometry></collision></link>
    <link name="load"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
    <joint name="a" type="fixed"><parent link="base"/><child link="body"/></joint>
    <joint name="b" type="fixed"><parent link="body"/><child link="tip"/></joint>
    <joint name="c" type="fixed"><parent link="body"/><child link="load"/><origin xyz="1 0 0"/></joint></robot>)",
                                   "[model]\nurdf = 'robot.urdf'\n");
  ASSERT_EQ(model.bodies.size(), 2u);
  EXPECT_EQ(model.bodies[0].name, "body");
  ASSERT_EQ(model.bodies[0].more_shapes.size(), 1u);
  EXPECT_LT((model.bodies[0].more_shapes[0].pose.q * Vector3d::UnitY() - Vector3d::UnitZ()).norm(), 1e-15);
  ASSERT_EQ(model.constraints.size(), 1u);
  EXPECT_EQ(model.constraints[0].type, "weld");
  const scene::Model merged =
      scene::load_text("schema = 2\n[model]\nurdf = 'robot.urdf'\nmerge_fixed = true\n", folder() + "/s.toml");
  ASSERT_EQ(merged.bodies.size(), 1u);
  EXPECT_DOUBLE_EQ(merged.bodies[0].mass, 3);
  EXPECT_DOUBLE_EQ(merged.bodies[0].start.p.x(), 1.0 / 3);
  EXPECT_NEAR(merged.bodies[0].inertia(0, 0), 2, 1e-15);
  EXPECT_NEAR(merged.bodies[0].inertia(1, 1), 2 + 2.0 / 3, 1e-15);  // reduced mass 2·1/3 on an arm of 1 m
}

TEST_F(Robot, WhatIsWrongIsSaidWithItsLine) {
  struct Case {
    const char *text, *says;
    std::size_t line;
  };
  const std::string mass = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>";
  // A and B stand for two good links.
  const std::string A = "<link name='a'>" + mass + "</link>\n", B = "<link name='b'>" + mass + "</link>\n";
  const auto with = [&](std::string text) {
    for (std::size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 2, text[at + 1] == 'A' ? A : B);
    return text;
  };
  const Case cases[] = {
      {"", "is empty", 0},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'>\n</robot>", "not well-formed XML", 4},
      {"<sdf/>", "begins with <robot", 1},
      {"<robot name='r'/>", "holds no <link>", 1},
      {"<robot name='r'>\n<link/>\n</robot>", "<link> has no name", 2},
      {"<robot name='r'>\n@A@A</robot>", "two links \"a\"", 3},
      {"<robot name='r'>\n@A@B</robot>", "one root", 3},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><parent link='a'/><child link='c'/></joint></robot>",
       "there is no link \"c\"", 4},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><child link='b'/></joint></robot>", "has no <parent", 4},
      {"<robot name='r'>\n@A@B<joint name='j' type='hinge'><parent link='a'/><child link='b'/></joint></robot>",
       "unknown type \"hinge\"", 4},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><parent link='a'/><child link='b'/></joint>\n<joint "
       "name='k' type='fixed'><parent link='b'/><child link='a'/></joint></robot>",
       "cycle", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><parent link='a'/><child link='b'/></joint>\n<joint "
       "name='k' type='fixed'><parent link='a'/><child link='b'/></joint></robot>",
       "has a parent already", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><parent link='a'/><child link='b'/></joint>\n<joint "
       "name='j' type='fixed'><parent link='a'/><child link='b'/></joint></robot>",
       "two joints \"j\"", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<axis xyz='0 0 "
       "0'/></joint></robot>",
       "axis of length zero", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<axis xyz='0 "
       "1'/></joint></robot>",
       "is not three numbers", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<origin xyz='0 1 "
       "nan'/></joint></robot>",
       "not finite", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<origin xyz='0 1 "
       "2,5'/></joint></robot>",
       "\"2,5\" is not a number", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<mimic "
       "joint='j'/></joint></robot>",
       "in a circle", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='continuous'><parent link='a'/><child link='b'/>\n<dynamics "
       "damping='-1'/></joint></robot>",
       "damping below 0", 5},
      {"<robot name='r'>\n<link name='a'>\n<inertial>\n<mass value='-1'/><inertia ixx='1' iyy='1' "
       "izz='1'/></inertial></link></robot>",
       "a mass below 0", 4},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1'/></inertial></link></robot>",
       "link \"a\", <inertia>: the inertia is zero", 3},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1'/><inertia ixx='1' iyy='-1' "
       "izz='1'/></inertial></link></robot>",
       "not positive definite", 3},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1'/><inertia ixx='0' iyy='0' "
       "izz='1'/></inertial></link></robot>",
       "No mass has an inertia about one axis only", 3},
      {"<robot name='r'>\n<link name='a'>\n<collision><geometry><box size='1 -1 "
       "1'/></geometry></collision></link></robot>",
       "above 0", 3},
      {"<mujoco/>", "this is MJCF, the format of MuJoCo, and not URDF. Write mjcf = in place of urdf =", 1},
      {"<robot name='r'>\n@A<xacro:arm/></robot>", "<xacro:arm>: this is xacro. Run \"xacro broken.urdf > robot.urdf\"",
       3},
      {"<robot name='r'>\n@A@B<joint name='j' type='fixed'><parent link='a'/><child link='b'/>\n<origin "
       "xyz='$(arg x) 0 0'/></joint></robot>",
       "this is xacro. Run", 5},
      {"<robot name='r' xmlns:xacro='http://ros.org/wiki/xacro'/>", "holds no <link>; this is xacro. Run", 1},
      {"<robot name='r'>\n@A@B<link name='c'/><joint name='j' type='floating'><parent link='a'/><child "
       "link='c'/></joint>"
       "<joint name='k' type='continuous'><parent link='c'/><child link='b'/></joint></robot>",
       "is floating", 4},
      {"<robot name='r'>\n<link name='a'/>\n<link name='b'/><joint name='j' type='continuous'><parent link='a'/><child "
       "link='b'/></joint></robot>",
       "link \"b\" moves by joint \"j\" and no link of the robot has a mass", 3},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<parent link='a'/></joint></robot>",
       "second <parent>; the first stands in line 4", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<child link='b'/></joint></robot>",
       "second <child>", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<limit lower='0'/></joint></robot>",
       "second <limit>", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<origin xyz='0 0 1'/></joint></robot>",
       "second <origin>", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<dynamics damping='1'/></joint></robot>",
       "second <dynamics>", 5},
      {"<robot name='r'>\n@A@B<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 "
       "1'/><origin/><limit/><dynamics/><mimic joint='k'/>\n<mimic joint='j'/></joint></robot>",
       "second <mimic>", 5},
      {"<robot name='r'>\n<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/>\n<mass "
       "value='2'/></inertial></link></robot>",
       "<inertial> has a second <mass>", 3},
      {"<robot name='r'>\n<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/>\n<inertia "
       "ixx='1' iyy='1' izz='1'/></inertial></link></robot>",
       "<inertial> has a second <inertia>", 3},
      {"<robot name='r'>\n<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' "
       "izz='1'/>\n</inertial><inertial><mass value='2'/></inertial></link></robot>",
       "link \"a\" has a second <inertial>", 3},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1e-320'/><inertia ixx='1' iyy='1' "
       "izz='1'/></inertial></link></robot>",
       "a mass of 1e-320 kg is outside the supported range; a link without any is a frame", 3},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1'/><inertia ixx='-1' iyy='-1' "
       "izz='-1'/></inertial></link></robot>",
       "the inertia is negative: its principal moments are -1, -1, -1 kg m^2. Correct the signs", 3},
      {"<robot name='r'>\n<link name='a'>\n<inertial><mass value='1'/><inertia ixx='1e-320' iyy='1e-320' "
       "izz='1e-320'/></inertial></link></robot>",
       "the inertia is zero", 3},
      {"<robot name='r'>\n<link name='\xC3\xA4'/>\n<link name='\xE4'/></robot>",
       "is not UTF-8 text: the byte 0xE4 is not valid there", 3},
      {"<robot name='r'>\n\xC0\xAF</robot>", "is not UTF-8 text: the byte 0xC0 is not valid there", 2},
      {"<robot name='r'>\n\xED\xA0\x80</robot>", "is not UTF-8 text", 2},
  };
  for (const Case& c : cases) {
    const std::string path = written("broken.urdf", with(c.text));
    try {
      (void)scene::load(path);
      ADD_FAILURE() << c.says << ": was taken";
    } catch (const scene::SceneError& e) {
      EXPECT_NE((e.message + "$").find(c.says), std::string::npos) << e.what();
      EXPECT_EQ(e.line, c.line) << e.what();
      EXPECT_EQ(e.file, path);
    }
  }
  // Elements a thousand deep are no reason to overflow the stack.
  std::string deep = "<robot name='r'>";
  for (int i = 0; i < 5000; ++i) deep += "<x>";
  EXPECT_THROW((void)scene::load(written("deep.urdf", deep)), scene::SceneError);
}

std::vector<std::string> shown(const std::vector<scene::Note>& notes) {
  std::vector<std::string> out;
  for (const scene::Note& each : notes) out.push_back(each.shown());
  return out;
}
// Whether a note has these words.
bool notes_say(const scene::Model& model, const std::string& words) {
  for (const std::string& each : shown(model.notes))
    if (each.find(words) != std::string::npos) return true;
  return false;
}

std::string said_of(const std::string& path) {
  try {
    (void)scene::load(path);
  } catch (const scene::SceneError& e) {
    return std::to_string(e.line) + ": " + e.message;
  }
  return "";
}

// What exporters and people write, and what other loaders take.
TEST_F(Robot, HarmlessOdditiesAreNotes) {
  const std::string mass = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>";
  const auto joint = [&](const std::string& more, const std::string& type = "revolute", const std::string& up = "a") {
    return robot("<robot name='r'><link name='a'>" + mass + "</link><link name='b'>" + mass +
                     "</link><joint name='j' type='" + type + "'><parent link='" + up + "'/><child link='b'/>" + more +
                     "</joint></robot>",
                 "[model]\nurdf = 'robot.urdf'\nfixed_base = true\n");
  };
  const auto link = [&](const std::string& more) {
    return robot("<robot name='r'><link name='a'>" + mass + more + "</link></robot>",
                 "[model]\nurdf = 'robot.urdf'\nfixed_base = false\n");
  };
  const auto shape = [&](const std::string& of) {
    return link("<collision><geometry>" + of + "</geometry></collision>");
  };
  struct Case {
    scene::Model model;
    std::string note;
    std::size_t shapes = 0;
  };
  const std::string limit = "<limit lower='-1' upper='1'/>";
  const Case cases[] = {
      {shape("<box size='1 0 1'/>"), "link \"a\" has a collision shape of size zero, which is left out"},
      {shape("<sphere radius='0'/>"), "link \"a\" has a collision shape of size zero"},
      {shape("<cylinder radius='1' length='0'/>"), "link \"a\" has a collision shape of size zero"},
      {shape("<mesh filename='no.stl'/>"), "link \"a\" (no.stl) has a collision mesh whose file is missing"},
      {shape("<cdf filename='x.cdf'/>"), "link \"a\" (<cdf>) has a collision shape that is not supported"},
      {shape("<spere radius='1'/>"), "<spere>; did you mean \"sphere\"?"},
      {shape("<plane normal='0 0 1'/>"), "link \"a\" collides by a plane, which is a box of 200 m", 1},
      {joint("<limit lower='-1e16' upper='1e16'/>"), "joint \"j\" has limits beyond 1e9 and moves without limits"},
      {joint("<limit lower='0' upper='1e10'/>"), "joint \"j\" has a limit on one side alone, which is left out"},
      {joint("<limit lower='-1' upper='1' effort='-50' velocity='2'/>"),
       "joint \"j\" has a negative effort or velocity, which bounds no actuator"},
      {joint("<limit lower='1' upper='-1'/>"), "joint \"j\" has lower above upper, which means no limits as in Bullet"},
      {shape("<sphere radius='1'/><sphere radius='2'/>"), "link \"a\" has a second shape in one <geometry>", 1},
      {joint(""), "joint \"j\" gives neither lower nor upper and moves without limits"},
      {joint("<axis/>", "fixed"), "joint \"j\" has an empty <axis>, which it does not need"},
      {joint("<axis xyz='0 1 0'/><axis xyz='0 0 1'/>" + limit), "joint \"j\" has a second <axis>, of which the first"},
      {joint("<axis xyz='0, 1 0'/>" + limit), "element \"joint j <axis>\" has a comma after a number"},
      {joint("<origin xyz='1 2 3 4'/>" + limit), "element \"joint j <origin>\" has more than three numbers"},
      {joint("<mimic joint='k'/>" + limit), "joint \"j\" (\"k\") mimics a joint that the file does not have"},
      {joint("<mimic joint='j'/>", "fixed"), "joint \"j\" has a <mimic>, but no position"},
      {joint(limit, "spherical"), "joint \"j\" is a ball joint, whose limits are left out"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(notes_say(c.model, c.note)) << c.note << " of " << testing::PrintToString(shown(c.model.notes));
    EXPECT_EQ(c.model.bodies[0].more_shapes.size(), c.shapes) << c.note;
  }
  EXPECT_EQ(joint("<axis xyz='0 1 0'/><axis xyz='0 0 1'/>" + limit).constraints[0].frame_a.axes,
            joint("<axis xyz='0 1 0'/>" + limit).constraints[0].frame_a.axes);
  EXPECT_EQ(joint(limit, "spherical").constraints[0].type, "ball");
  // Infinite limits say that there are none.
  EXPECT_TRUE(joint("<limit lower='-inf' upper='inf' effort='inf'/>").notes.empty());
  // A plane is where it says, whatever its box.
  const scene::Model plane =
      link("<collision><origin xyz='0 0 0.5'/><geometry><plane normal='1 0 0'/></geometry></collision>");
  ASSERT_EQ(plane.bodies[0].more_shapes.size(), 1u);
  const scene::PlacedShape& below = plane.bodies[0].more_shapes[0];
  const Vector3d face = below.pose.p + below.pose.q * Vector3d(0, 0, 0.5 * below.shape.size.z());
  EXPECT_LT((face - Vector3d(0, 0, 0.5)).norm(), 1e-12);
  EXPECT_LT((below.pose.q * Vector3d::UnitZ() - Vector3d::UnitX()).norm(), 1e-12);
  // Bytes of value 0 at the end, as some writers leave them.
  const std::string zero =
      written("zero.urdf", "<robot name='r'><link name='a'>" + mass + "</link></robot>" + std::string(2, '\0'));
  EXPECT_TRUE(notes_say(scene::load(zero), "the file has 2 bytes of value 0, which are left out"));
  // The world needs not be declared.
  const scene::Model grounded = robot("<robot name='r'><link name='a'>" + mass +
                                          "</link><joint name='j' type='continuous'><parent link='world'/><child "
                                          "link='a'/></joint></robot>",
                                      "[model]\nurdf = 'robot.urdf'\n");
  EXPECT_TRUE(notes_say(grounded, "the parent link \"world\" is not a link of the file and is taken as the world"));
  ASSERT_EQ(grounded.bodies.size(), 1u);
  ASSERT_EQ(grounded.constraints.size(), 1u);
  EXPECT_EQ(grounded.constraints[0].bodies[0], ground);
}

TEST_F(Robot, NotesOfOneKindAreOneLine) {
  std::string text = "<robot name='r'>";
  for (int i = 0; i < 12; ++i)
    text += "<link name='l" + std::to_string(i) + "'><collision><geometry><cdf/></geometry></collision></link>" +
            (i == 0 ? ""
                    : "<joint name='j" + std::to_string(i) + "' type='fixed'><parent link='l0'/><child link='l" +
                          std::to_string(i) + "'/></joint>");
  const scene::Model model = robot(text + "</robot>", "[model]\nurdf = 'robot.urdf'\nfixed_base = true\n");
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_EQ(
      model.notes[0].shown(3),
      "12 links have collision shapes that are not supported and are left out: l0 (<cdf>), l1 (<cdf>), l2 (<cdf>), "
      "… (and 9 more). Supported are boxes, spheres, cylinders, capsules, planes and meshes");
  EXPECT_NE(model.notes[0].shown().find("l10 (<cdf>), l11 (<cdf>). Supported"), std::string::npos);
}

// The test of an inertia belongs to the body: to all links that are one.
TEST_F(Robot, InertiasAreThoseOfBodies) {
  const auto inertia = [](double mass, const Vector3d& at, const Vector3d& moments) {
    return inertial(mass, at, Vector3d::Zero(), moments.asDiagonal());
  };
  const auto link = [](const std::string& name, const std::string& inside) {
    return "<link name='" + name + "'>" + inside + "</link>";
  };
  const auto joint = [](const std::string& type, const std::string& parent, const std::string& child) {
    return "<joint name='to " + child + "' type='" + type + "'><parent link='" + parent + "'/><child link='" + child +
           "'/></joint>";
  };
  const auto load = [&](const std::string& text, const std::string& more = "fixed_base = false\n") {
    return robot("<robot name='r'>" + text + "</robot>", "[model]\nurdf = 'robot.urdf'\n" + more);
  };
  const Vector3d x = Vector3d::UnitX(), origin = Vector3d::Zero(), zero = Vector3d::Zero();
  const std::string good = inertia(2, origin, {1, 1, 1});
  // A point of 1 kg beside the body: mass and inertia add up about the common centre.
  const scene::Model point = load(link("a", good) + link("b", inertia(1, x, zero)) + joint("fixed", "a", "b"));
  ASSERT_EQ(point.bodies.size(), 1u);
  EXPECT_DOUBLE_EQ(point.bodies[0].mass, 3);
  EXPECT_NEAR(point.bodies[0].start.p.x(), 1.0 / 3, 1e-15);
  EXPECT_LT((point.bodies[0].inertia.diagonal() - Vector3d(1, 1 + 2.0 / 3, 1 + 2.0 / 3)).norm(), 1e-14);
  EXPECT_TRUE(
      notes_say(point, "link \"b\" has an inertia that is zero or not positive definite, and is part of the body"));
  // The same with the singular one at the root, and with a negative moment by rounding.
  for (const Vector3d& rounded : {zero, Vector3d(-1e-19, 2e-16, 3e-3)}) {
    const scene::Model root = load(link("a", inertia(1, x, rounded)) + link("b", good) + joint("fixed", "a", "b"));
    ASSERT_EQ(root.bodies.size(), 1u);
    EXPECT_EQ(root.bodies[0].name, "a");
    EXPECT_DOUBLE_EQ(root.bodies[0].mass, 3);
    EXPECT_NEAR(root.bodies[0].inertia(1, 1), 1 + 2.0 / 3 + rounded.y(), 1e-14);
    EXPECT_TRUE(
        notes_say(root, "link \"b\" is part of the body that it is fixed to, because the inertia of that is zero"));
  }
  // What does not move needs none.
  const scene::Model fixed = load(link("a", inertia(1, x, zero)) + link("b", inertia(1, x, {-1, 0, 0})) +
                                      link("c", good) + joint("fixed", "a", "b") + joint("continuous", "b", "c"),
                                  "fixed_base = true\n");
  ASSERT_EQ(fixed.bodies.size(), 2u);
  EXPECT_EQ(fixed.bodies[0].kind, BodyKind::fixed);
  // Zero inertia with shapes: the solid box around them, as in Bullet's loader.
  const std::string shapes =
      "<collision><origin xyz='0 0 1'/><geometry><box size='1 2 3'/></geometry></collision>"
      "<collision><origin xyz='0 0 3'/><geometry><sphere radius='0.5'/></geometry></collision>";
  const scene::Model box = load(link("a", inertia(6, origin, zero) + shapes));
  const Vector3d edges(1, 2, 4);  // from z = -0.5 to 3.5
  EXPECT_LT((box.bodies[0].inertia.diagonal() - 0.5 * Vector3d(4 + 16, 16 + 1, 1 + 4)).norm(), 1e-14) << edges;
  EXPECT_TRUE(notes_say(box, "link \"a\" has a mass and zero inertia. It gets the inertia of the solid bounding box"));
  const scene::Model on_plane = load(link(
      "a", inertia(6, origin, zero) + shapes + "<collision><geometry><plane normal='0 0 1'/></geometry></collision>"));
  EXPECT_EQ(on_plane.bodies[0].inertia, box.bodies[0].inertia);
  EXPECT_EQ(on_plane.bodies[0].more_shapes.size(), 3u);
  // A thin rod, also with a slightly negative moment.
  for (const double least : {0.0, 1e-17, -1e-9}) {
    const scene::Model rod = load(link("a", inertia(1, origin, {least, 0.2, 0.2})));
    EXPECT_LT((rod.bodies[0].inertia.diagonal() - Vector3d(2e-7, 0.2, 0.2)).norm(), 1e-16);
    EXPECT_TRUE(notes_say(rod, " raised to 2e-07 kg m^2) has a principal moment of inertia below 1e-6"));
  }
  // A dummy of an exporter is a frame.
  const scene::Model dummy =
      load(link("a", good) + link("b", inertia(4e-15, x, {1e-20, 1e-20, 1e-20})) + joint("fixed", "a", "b"));
  ASSERT_EQ(dummy.bodies.size(), 1u);
  EXPECT_EQ(dummy.bodies[0].mass, 2);
  EXPECT_TRUE(notes_say(dummy, "link \"b\" has less than 1e-9 of the robot's mass and is taken as massless"));
  // What no motion can have.
  const auto refused = [&](const std::string& text) {
    try {
      (void)load(text);
    } catch (const scene::SceneError& e) {
      return e.message;
    }
    return std::string("taken");
  };
  EXPECT_EQ(refused(link("a", inertia(1, origin, {-0.1, 1, 1}))),
            "link \"a\", <inertia>: the inertia is not positive definite: its principal moments are -0.1, 1, 1 kg m^2. "
            "Correct the entry that makes it negative");
  EXPECT_NE(refused(link("a", inertia(1, origin, zero))).find("the inertia is zero"), std::string::npos);
  EXPECT_NE(refused(link("a", inertia(1, origin, {0, 0, 1}))).find("about one axis only"), std::string::npos);
}

TEST_F(Robot, HugeFilesAreReadOrRefusedByTheirSize) {
  // A chain whose joints all follow the one before; one line per link, then one per joint.
  const auto chain = [](int links, bool mimic) {
    std::string text = "<robot name='r'>\n";
    for (int i = 0; i < links; ++i)
      text += "<link name='l" + std::to_string(i) +
              "'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial></link>\n";
    for (int i = 1; i < links; ++i) {
      text += "<joint name='j" + std::to_string(i) + "' type='continuous'><parent link='l" + std::to_string(i - 1) +
              "'/><child link='l" + std::to_string(i) + "'/>";
      if (mimic && i > 1) text += "<mimic joint='j" + std::to_string(i - 1) + "'/>";
      text += "</joint>\n";
    }
    return text + "</robot>";
  };
  EXPECT_EQ(said_of(written("links.urdf", chain(30000, false))),
            "10002: the robot has more than 10000 links, which is the limit");
  EXPECT_NE(said_of(written("many.urdf", chain(100000, false))).find("0: is larger than 8 MB"), std::string::npos);
  const std::string path = written("large.urdf", "");
  std::filesystem::resize_file(path, 200'000'000);  // of nothing but holes
  EXPECT_NE(said_of(path).find("0: is larger than 8 MB"), std::string::npos);
  std::filesystem::remove(path);
  const scene::Model model = scene::load(written("chain.urdf", chain(2000, true)));
  EXPECT_EQ(model.bodies.size(), 2000u);
  EXPECT_EQ(model.constraints.size(), 1999u + 1998u);
}

TEST_F(Robot, MultibodiesAreTheTreesOfItsJoints) {
  const std::string mass = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>";
  std::string text = "<robot name='r'><link name='world'/>";
  for (const char* name : {"a", "b", "c", "d", "e"})
    text += "<link name='" + std::string(name) + "'>" + mass + "</link>";
  const auto joint = [&](const char* name, const char* type, const char* parent, const char* child) {
    text += std::string("<joint name='") + name + "' type='" + type + "'><parent link='" + parent + "'/><child link='" +
            child + "'/><origin xyz='0 0 1'/></joint>";
  };
  joint("up", "continuous", "world", "a");
  joint("grip", "fixed", "a", "b");
  joint("loose", "floating", "b", "c");
  joint("swing", "continuous", "c", "d");
  joint("glide", "planar", "d", "e");
  const scene::Model model = robot(text + "</robot>", "[model]\nurdf = 'robot.urdf'\nas = 'multibody'\n");
  EXPECT_EQ(model.host, scene::Host::bullet_float64);
  EXPECT_EQ(model.multibodies, 2);
  std::vector<int> which;
  for (const scene::SceneBody& body : model.bodies) which.push_back(body.multibody);
  EXPECT_EQ(which, (std::vector<int>{1, 1, 2, 2, 0}));
  std::string tree;
  for (const scene::SceneConstraint& c : model.constraints) tree += c.name + (c.tree ? "+ " : "- ");
  EXPECT_EQ(tree, "up+ grip+ swing+ glide- ");
  const scene::Model bodies = scene::load_text("schema = 2\n[model]\nurdf = 'robot.urdf'\n", folder() + "/scene.toml");
  EXPECT_EQ(bodies.multibodies, 0);
  EXPECT_EQ(bodies.host, scene::Host::bare);
  scene::Overrides overrides;
  overrides.robots = scene::RobotsAs::multibody;
  EXPECT_EQ(load(folder() + "/robot.urdf", {}, overrides).multibodies, 2);
  EXPECT_THROW(
      (void)load_text("schema = 2\n[[body]]\nname = 'a'\nkind = 'particle'\nmass = 1\n", "s.toml", {}, overrides),
      std::invalid_argument);
}

// Velocities by the rates against differences of poses: a robot on a base that moves, with a slider, a follower, a
// fixed and a floating link.
TEST_F(Robot, StartsInMotionByItsRates) {
  const auto link = [](const char* name) {
    return std::string("<link name='") + name + "'>" +
           inertial(1.5, {0.1, -0.2, 0.3}, {0.3, 0.2, -0.4}, Vector3d(0.2, 0.15, 0.1).asDiagonal()) + "</link>";
  };
  std::string text = "<robot name='r'>";
  for (const char* name : {"base", "upper", "ram", "tool", "fan", "kite"}) text += link(name);
  const auto joint = [&](const char* name, const char* type, const char* parent, const char* child, const char* more) {
    text += std::string("<joint name='") + name + "' type='" + type + "'><parent link='" + parent + "'/><child link='" +
            child + "'/><origin xyz='0.2 0.1 0.4' rpy='0.3 -0.2 0.5'/>" + more + "</joint>";
  };
  joint("shoulder", "continuous", "base", "upper", "<axis xyz='0.2 1 0.3'/>");
  joint("slide", "prismatic", "upper", "ram", "<axis xyz='1 0 0.5'/><limit lower='-2' upper='2'/>");
  joint("grip", "fixed", "ram", "tool", "");
  joint("spin", "continuous", "ram", "fan",
        "<axis xyz='0 0.4 1'/><mimic joint='shoulder' multiplier='-1.5' offset='0.2'/>");
  joint("loose", "floating", "upper", "kite", "");
  text += "</robot>";
  // The model's frame and its coordinates a time h later, by rates that stay.
  const Vector3d p(0.3, -0.1, 0.7), v(0.4, 0.5, -0.6), w(0.7, -1.1, 0.9);
  const auto scene = [&](double h, bool moving) {
    const double angle = w.norm() * h;
    std::string out = "[model]\nurdf = 'robot.urdf'\nposition = [";
    const auto list = [](const Vector3d& x) {
      std::ostringstream of;
      of.precision(17);
      of << x.x() << ", " << x.y() << ", " << x.z();
      return of.str();
    };
    std::ostringstream angles;
    angles.precision(17);
    angles << "joints = { shoulder = " << 0.4 + 2 * h << ", slide = " << 0.1 - 0.8 * h << " }\n";
    std::ostringstream turn;
    turn.precision(17);
    turn << angle;
    out += list(p + h * v) + "]\nrotation = { axis = [" + list(w) + "], angle = " + turn.str() + " }\n" + angles.str();
    if (moving)
      out += "velocity = [" + list(v) + "]\nangular_velocity = [" + list(w) +
             "]\nrates = { shoulder = 2, slide = -0.8 }\n";
    return out;
  };
  const scene::Model now = robot(text, scene(0, true));
  const double h = 1e-4;
  const scene::Model later = robot(text, scene(h, false)), before = robot(text, scene(-h, false));
  ASSERT_EQ(now.bodies.size(), 6u);
  for (std::size_t i = 0; i < now.bodies.size(); ++i) {
    const BodyState &a = before.bodies[i].start, &b = later.bodies[i].start, &s = now.bodies[i].start;
    EXPECT_LT((s.v - (b.p - a.p) / (2 * h)).norm(), 1e-7) << now.bodies[i].name;
    const Eigen::AngleAxisd turned(Matrix3d(b.q.toRotationMatrix() * a.q.toRotationMatrix().transpose()));
    EXPECT_LT((s.w - turned.angle() * turned.axis() / (2 * h)).norm(), 1e-7) << now.bodies[i].name;
    EXPECT_GT(s.v.norm() * s.w.norm(), 0);
    EXPECT_TRUE(b.v.isZero() && b.w.isZero());
  }
  // The joints let this happen: none of their rows has a rate.
  const System system = now.system();
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  std::vector<Reaction> reactions;
  dynamics.reactions(system.initial_state(), reactions);
  for (const Reaction& r : reactions) EXPECT_LT(r.velocity_residual, 1e-12) << r.name;
  // What cannot be.
  const auto refused = [&](const std::string& more) {
    try {
      (void)robot(text, "[model]\nurdf = 'robot.urdf'\n" + more);
    } catch (const scene::SceneError& e) {
      return std::to_string(e.line) + ": " + e.message;
    }
    return std::string();
  };
  EXPECT_EQ(refused("rates = { spin = 1 }\n"),
            "4: model, rates: joint \"spin\" mimics \"shoulder\". Give the value for that joint");
  EXPECT_EQ(refused("rates = { grip = 1 }\n"), "4: model, rates: \"grip\" is a fixed joint and has no rate");
  EXPECT_EQ(refused("rates = { shuolder = 1 }\n"),
            "4: model, rates: there is no joint \"shuolder\"; did you mean \"shoulder\"?");
  EXPECT_EQ(refused("fixed_base = true\nvelocity = [0, 0, 1]\n").substr(0, 27), "5: model: its base is fixed");
  EXPECT_EQ(refused("omega = [0, 0, 1]\n").substr(0, 41), "4: model: unknown key \"omega\"; known: ang");
}

TEST_F(Robot, NotesNameAllTheyAreOf) {
  const std::string mass = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial></link>";
  std::string text = "<robot name='r'><link name='world'/>";
  for (const char* name : {"a", "b"})
    text += std::string("<link name='") + name + "'>" + mass + "<joint name='to " + name +
            "' type='revolute'><parent link='world'/><child link='" + name + "'/><limit effort='1'/></joint>";
  EXPECT_EQ(shown(robot(text + "</robot>", "[model]\nurdf = 'robot.urdf'\n").notes),
            (std::vector<std::string>{"2 joints give neither lower nor upper and move without limits: to a, to b"}));
  // A single link is no multibody, whatever was wished; the host is the one of multibodies all the same.
  const scene::Model one = robot("<robot name='r'><link name='a'>" + mass + "</robot>",
                                 "[model]\nurdf = 'robot.urdf'\nas = 'multibody'\nfixed_base = false\n");
  EXPECT_EQ(one.host, scene::Host::bullet_float64);
  EXPECT_EQ(one.multibodies, 0);
  EXPECT_EQ(shown(one.notes),
            (std::vector<std::string>{"link \"a\" has no joint that a multibody supports, so it is a rigid body"}));
}

// As of a UR arm, whose joints go from −2π to 2π.
TEST_F(Robot, LimitsOfAnySpanAreConstraintsWithoutAnEngine) {
  const auto arm = [&](const std::string& lower, const std::string& upper, const std::string& more) {
    return robot(
        "<robot name='r'><link name='world'/><link name='arm'><inertial><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1'/></inertial></link><joint name='shoulder' type='revolute'>"
        "<parent link='world'/><child link='arm'/><axis xyz='0 0 1'/><limit lower='" +
            lower + "' upper='" + upper + "'/></joint></robot>",
        "[model]\nurdf = 'robot.urdf'\n" + more);
  };
  for (const auto& [lower, upper] : {std::pair("-6.283185307179586", "6.283185307179586"), std::pair("0", "6.2832"),
                                     std::pair("-7", "1"), std::pair("-0.5", "0.5")}) {
    for (const char* as : {"", "as = 'multibody'\n"}) {
      const scene::Model model = arm(lower, upper, as);
      ASSERT_TRUE(model.constraints.at(0).limits);
      EXPECT_TRUE(model.notes.empty());
      EXPECT_EQ(model.native.size(), 1u);
    }
    const scene::Model model = arm(lower, upper, "");
    const scene::Model limited = scene::with_joint_limits(model);
    ASSERT_EQ(limited.constraints.size(), 3u);
    EXPECT_EQ(limited.constraints[1].name, "shoulder.lower");
    EXPECT_EQ(limited.constraints[2].name, "shoulder.upper");
    EXPECT_TRUE(limited.native.empty());
    EXPECT_EQ(scene::with_joint_limits(limited).constraints.size(), 3u);
    scene::Simulation simulation(model);
    for (const auto& [force, stop] : {std::pair(1.0, upper), std::pair(-1.0, lower)}) {
      simulation.joint("shoulder").set_force(force);
      simulation.run(6);
      EXPECT_NEAR(simulation.joint("shoulder").position(), std::stod(stop), 1e-9);
      EXPECT_NEAR(simulation.joint("shoulder").velocity(), 0, 1e-9);
      EXPECT_NEAR(simulation.joint("shoulder").force(), force, 1e-9);
    }
  }
  // A position beyond a limit is one at the limit, because limits are rigid without an engine. Nothing is thrown back.
  for (const double position : {0.9, -0.8}) {
    scene::Simulation simulation(arm("-0.5", "0.7", ""));
    simulation.joint("shoulder").set_position(position);
    const double stop = position > 0 ? 0.7 : -0.5;
    EXPECT_NEAR(simulation.joint("shoulder").position(), stop, 1e-12);
    simulation.joint("shoulder").set_force(position > 0 ? 1 : -1);
    simulation.run(0.1);
    EXPECT_NEAR(simulation.joint("shoulder").position(), stop, 1e-12);
    EXPECT_NEAR(simulation.joint("shoulder").velocity(), 0, 1e-12);
  }
  // A start beyond a limit is assembled: the joint begins at the limit, with the rate that the limit permits.
  for (const double rate : {2.0, -2.0}) {
    scene::Model beyond = arm("-0.5", "0.7", "");
    beyond.bodies[0].start.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(1.0, Vector3d::UnitZ())));
    beyond.bodies[0].start.w = {0, 0, rate};
    beyond.constraints[0].start = 1;
    scene::Simulation simulation(beyond);
    EXPECT_NEAR(simulation.stepper().start().gap, 0.3, 1e-12);
    EXPECT_NEAR(simulation.joint("shoulder").position(), 0.7, 1e-12);
    EXPECT_NEAR(simulation.joint("shoulder").velocity(), std::min(rate, 0.0), 1e-12);
  }
  EXPECT_EQ(scene::with_joint_limits(arm("0", "0", "")).constraints.at(1).name, "shoulder.limits");
  EXPECT_EQ(scene::with_joint_limits(arm("-1", "1", "[solver]\nmethod = 'rattle'\n")).constraints.size(), 1u);
}

// As in Gazebo: a rotor and an arm, which hinges hold, turn in proportion.
TEST_F(Robot, GearboxesOfSdfCoupleTwoRotations) {
  const auto file = [&](const std::string& gearbox, const std::string& limit = "") {
    const auto link = [](const std::string& name, const std::string& inertia) {
      return "<link name='" + name + "'><inertial><mass>1</mass><inertia><ixx>" + inertia + "</ixx><iyy>" + inertia +
             "</iyy><izz>" + inertia + "</izz></inertia></inertial></link>";
    };
    const auto hinge = [](const std::string& name, const std::string& child, const std::string& rest) {
      return "<joint name='" + name + "' type='revolute'><parent>base</parent><child>" + child +
             "</child><axis><xyz>0 0 1</xyz>" + rest + "</axis></joint>";
    };
    return written("gear.sdf", "<sdf version='1.7'><model name='m'>" + link("base", "1") + link("rotor", "0.01") +
                                   link("arm", "2") +
                                   "<joint name='fix' type='fixed'><parent>world</parent>"
                                   "<child>base</child></joint>" +
                                   hinge("input", "rotor", "") + hinge("output", "arm", limit) +
                                   "<joint name='gear' type='gearbox'><parent>rotor</parent><child>arm</child>" +
                                   gearbox + "</joint></model></sdf>");
  };
  const std::string ratio = "<gearbox_ratio>0.05</gearbox_ratio>",
                    reference = "<gearbox_reference_body>base</gearbox_reference_body>",
                    axes = "<axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 0 -1</xyz></axis2>";
  if (said_of(file(ratio + reference + axes)).find("built without SDF") != std::string::npos) GTEST_SKIP();
  const scene::Model model = scene::load(file(ratio + reference + axes));
  ASSERT_EQ(model.constraints.back().name, "gear");
  ASSERT_TRUE(model.constraints.back().mimic);
  EXPECT_EQ(model.constraints.back().mimic->follower, "output");
  EXPECT_EQ(model.constraints.back().mimic->leader, "input");
  // θ2 = −ratio·θ1, and axis2 is opposite to the axis of the output.
  EXPECT_NEAR(model.constraints.back().mimic->multiplier, 0.05, 1e-15);
  scene::Simulation simulation(model);
  simulation.joint("input").set_force(0.1);
  simulation.run(3);
  // The inertia at the input is 0.01 + 0.05^2 * 2. The rotor makes whole turns.
  EXPECT_NEAR(simulation.joint("input").velocity(), 3 * 0.1 / 0.015, 1e-9);
  EXPECT_GT(simulation.joint("input").position(), 20);
  EXPECT_NEAR(simulation.joint("output").position(), 0.05 * simulation.joint("input").position(), 1e-12);
  // The input starts as the output does, whose limits do not include zero.
  const scene::Model turned =
      scene::load(file(ratio + reference + axes, "<limit><lower>0.6</lower><upper>1</upper></limit>"));
  const auto started = [&](const std::string& name) {
    const auto found = std::find_if(turned.constraints.begin(), turned.constraints.end(),
                                    [&](const scene::SceneConstraint& c) { return c.name == name; });
    return found->start;
  };
  EXPECT_NEAR(started("output"), 0.6, 1e-15);
  EXPECT_NEAR(started("input"), 12, 1e-12);
  EXPECT_NEAR(scene::Simulation(turned).joint("input").position(), 12, 1e-9);
  for (const auto& [text, said] :
       {std::pair(ratio + axes, "a gearbox needs <gearbox_reference_body>"),
        std::pair(ratio + reference + "<axis><xyz>0 0 1</xyz></axis>", "has no <axis2>"),
        std::pair(ratio + "<gearbox_reference_body>basis</gearbox_reference_body>" + axes,
                  "there is no link \"basis\"; did you mean \"base\""),
        std::pair(ratio + "<gearbox_reference_body>arm</gearbox_reference_body>" + axes,
                  "\"arm\" is a link of the joint itself"),
        std::pair("<gearbox_ratio>0</gearbox_ratio>" + reference + axes, "is not a finite number other than 0")})
    EXPECT_NE(said_of(file(text)).find(said), std::string::npos) << said << " in " << said_of(file(text));
}

// The same robot in both formats: poses of SDF are of the model, URDF's of the joint above.
TEST_F(Robot, SdfIsTheSameRobotAsUrdf) {
  const std::string sdf = written("robot.sdf", R"(<sdf version="1.9"><model name="r"><pose>0 0 0.5 0 0 0</pose>
    <link name="upper"><pose>0.1 0 1 0.2 0 0</pose>
      <inertial><pose>0.1 0 0.3 0.3 0.2 -0.4</pose><mass>3</mass>
        <inertia><ixx>0.2</ixx><iyy>0.15</iyy><izz>0.1</izz><ixy>0.01</ixy><ixz>-0.02</ixz><iyz>0.005</iyz></inertia></inertial>
      <collision name="c"><pose>0 0 0.2 0 0 0</pose><geometry><cylinder><radius>0.1</radius><length>0.4</length></cylinder></geometry></collision>
    </link>
    <link name="ram"><pose relative_to="upper">0.4 0.2 0 0.3 0 0</pose>
      <inertial><pose>0 0 -0.1 0 0 0</pose><mass>1</mass><inertia><ixx>0.01</ixx><iyy>0.012</iyy><izz>0.008</izz></inertia></inertial>
    </link>
    <joint name="shoulder" type="revolute"><parent>world</parent><child>upper</child><axis><xyz>0 1 0</xyz>
      <limit><lower>-2</lower><upper>2</upper></limit><dynamics><damping>0.3</damping><friction>0.1</friction></dynamics></axis></joint>
    <joint name="slide" type="prismatic"><parent>upper</parent><child>ram</child><axis><xyz>1 0 0.5</xyz>
      <limit><lower>-1</lower><upper>1</upper></limit></axis></joint>
  </model></sdf>)");
  if (said_of(sdf).find("built without SDF") != std::string::npos) {
    EXPECT_NE(said_of(sdf).find("libsdformat-dev"), std::string::npos);
    GTEST_SKIP() << "built without SDF";
  }
  const scene::Model from_sdf = scene::load(sdf);
  const scene::Model from_urdf = robot(R"(<robot name="r"><link name="world"/>
    <link name="upper"><inertial><origin xyz="0.1 0 0.3" rpy="0.3 0.2 -0.4"/><mass value="3"/>
      <inertia ixx="0.2" iyy="0.15" izz="0.1" ixy="0.01" ixz="-0.02" iyz="0.005"/></inertial>
      <collision><origin xyz="0 0 0.2"/><geometry><cylinder radius="0.1" length="0.4"/></geometry></collision></link>
    <link name="ram"><inertial><origin xyz="0 0 -0.1"/><mass value="1"/><inertia ixx="0.01" iyy="0.012" izz="0.008"/></inertial></link>
    <joint name="shoulder" type="revolute"><origin xyz="0.1 0 1.5" rpy="0.2 0 0"/><parent link="world"/><child link="upper"/>
      <axis xyz="0 1 0"/><limit lower="-2" upper="2"/><dynamics damping="0.3" friction="0.1"/></joint>
    <joint name="slide" type="prismatic"><origin xyz="0.4 0.2 0" rpy="0.3 0 0"/><parent link="upper"/><child link="ram"/>
      <axis xyz="1 0 0.5"/><limit lower="-1" upper="1"/></joint></robot>)",
                                       "[model]\nurdf = 'robot.urdf'\n");
  ASSERT_EQ(from_sdf.bodies.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const scene::SceneBody &a = from_sdf.bodies[i], &b = from_urdf.bodies[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.mass, b.mass);
    EXPECT_LT((a.inertia - b.inertia).norm(), 1e-15);
    EXPECT_LT((a.start.p - b.start.p).norm(), 1e-15);
    EXPECT_LT((a.start.q.toRotationMatrix() - b.start.q.toRotationMatrix()).norm(), 1e-14);
    ASSERT_EQ(a.more_shapes.size(), b.more_shapes.size());
    for (std::size_t k = 0; k < a.more_shapes.size(); ++k)
      EXPECT_LT((a.more_shapes[k].pose.p - b.more_shapes[k].pose.p).norm(), 1e-15);
  }
  ASSERT_EQ(from_sdf.constraints.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const scene::SceneConstraint &a = from_sdf.constraints[i], &b = from_urdf.constraints[i];
    EXPECT_EQ(a.name + a.type, b.name + b.type);
    EXPECT_EQ(a.limits, b.limits);
    EXPECT_EQ(a.laws.size(), b.laws.size());
    EXPECT_LT((a.frame_a.axes - b.frame_a.axes).norm() + (a.frame_b.axes - b.frame_b.axes).norm(), 1e-14);
    EXPECT_LT((a.frame_a.origin - b.frame_a.origin).norm() + (a.frame_b.origin - b.frame_b.origin).norm(), 1e-15);
  }
  // A loop that SDF closes itself is a constraint that no tree has.
  const std::string bar = "<inertial><mass>1</mass></inertial></link>";
  const std::string loop =
      written("loop.sdf", "<sdf version='1.9'><model name='r'><link name='a'>" + bar +
                              "<link name='b'><pose>1 0 0 0 0 0</pose>" + bar +
                              "<joint name='p' type='ball'><parent>world</parent><child>a</child></joint>"
                              "<joint name='q' type='ball'><parent>a</parent><child>b</child></joint>"
                              "<joint name='r' type='ball'><parent>world</parent><child>b</child></joint>"
                              "</model></sdf>");
  scene::Overrides overrides;
  overrides.robots = scene::RobotsAs::multibody;
  const scene::Model closed = load(loop, {}, overrides);
  ASSERT_EQ(closed.constraints.size(), 3u);
  EXPECT_TRUE(closed.constraints[0].tree && closed.constraints[1].tree && !closed.constraints[2].tree);
  // What is wrong: one message with its line and its value, and not a word besides.
  const std::string A = "<sdf version='1.9'>\n<model name='r'>\n<link name='a'/>\n", end = "</model></sdf>";
  const auto j = [&](const std::string& type, const std::string& more) {
    return A + "<joint name='j' type='" + type + "'>" + more + "</joint>" + end;
  };
  const std::string ends = "<parent>world</parent><child>a</child>\n";
  struct Case {
    std::string text, says;
  };
  const Case cases[] = {
      {j("screw", ends), "4: joint \"j\": joints of type \"screw\" are not supported"},
      {j("hinge", ends), "4: Joint type of hinge is invalid"},
      {j("ball", "<parent>a</parent><child>b</child>"), "4: Child frame with name[b] specified by joint with name[j]"},
      {j("revolute", ends + "<axis><xyz>0 q 0</xyz></axis>"), "5: <xyz>: \"0 q 0\" is not a value of it"},
      {j("revolute", ends + "<axis><xyz>0 0 0</xyz></axis>"), "5: <axis>, <xyz>: \"0 0 0\": an axis of length zero"},
      {A + "<link name='b'>\n<inertial><mass>abc</mass></inertial></link>" + end,
       "5: <inertial>, <mass>: \"abc\" is not a number"},
      {A + "<link name='b'>\n<inertial><mass>-1</mass></inertial></link>" + end,
       "5: <inertial>, <mass>: \"-1\" is below 0"},
      {A + "<link name='b'>\n<inertial><inertia><ixx>-1</ixx></inertia></inertial></link>" + end,
       "5: link \"b\", <inertia>: the inertia is not positive definite: its principal moments are -1, 1, 1"},
      {A + "<link name='b'>\n<pose>1 2 3</pose></link>" + end, "5: <pose>: \"1 2 3\" is not a value of it"},
      {A + "<link name='a'/>" + end, "4: link with name[a] already exists"},
      {A + "<link name='b'><pose relative_to='c'/></link>" + end,
       "4: relative_to name[c] specified by link with name[b]"},
      {A + "<link>\n</link>" + end, "4: Required attribute[name] in element[link]"},
      {A + "<link name='b'>" + end, "4: is not well-formed XML"},
      {"<sdf>\n<model name='r'><link name='a'/></model></sdf>", "1: <sdf> has no version"},
      {"<sdf version='1.9'>\n<world name='w'>\n<include><uri/></include></world></sdf>", "3: <include> has no <uri>"},
      {"<sdf version='1.9'>\n<world name='w'>\n<include><uri>nowhere.sdf</uri></include></world></sdf>",
       "3: <include>: there is no \"nowhere.sdf\""},
      {"<sdf version='1.9'>\n<world name='w'>\n<include><uri>a.sdf</uri></include></world></sdf>",
       "3: \"a.sdf\" includes itself"},
  };
  for (const Case& c : cases) {
    testing::internal::CaptureStderr();
    const std::string said = said_of(written("a.sdf", c.text));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << c.says;
    EXPECT_EQ(said.substr(0, c.says.size()), c.says) << c.text;
  }
  // In a circle of two, and what is wrong in a file that another includes, in that file's line.
  const auto including = [](const std::string& uri) {
    return "<sdf version='1.9'>\n<model name='m'>\n<include><uri>" + uri +
           "</uri></include><link name='l'/></model></sdf>";
  };
  (void)written("b.sdf", including("a.sdf"));
  EXPECT_EQ(said_of(written("a.sdf", including("b.sdf"))).find("3: \"a.sdf\" includes itself, by way of " + folder()),
            0u);
  (void)written("b.sdf", A + "<link name='b'>\n<inertial><mass>1 kg</mass></inertial></link>" + end);
  try {
    (void)scene::load(folder() + "/a.sdf");
    ADD_FAILURE() << "was taken";
  } catch (const scene::SceneError& e) {
    EXPECT_EQ(e.file, folder() + "/b.sdf");
    EXPECT_EQ(e.line, 5u);
    EXPECT_EQ(e.message, "<inertial>, <mass>: \"1 kg\" is not a number");
  }
  (void)written("b.sdf", A + end);
  EXPECT_EQ(scene::load(folder() + "/a.sdf").bodies.size(), 2u);
  for (const char* text : {"", "<sdf", "<sdf version='1.9'/>", "<sdf version='1.9'><model name='r'/></sdf>",
                           "<sdf version='1.9'><include><uri>model://nowhere</uri></include></sdf>"})
    EXPECT_NE(said_of(written("a.sdf", text)), "") << text;
}

// What libsdformat calls an error and the physics does not need.
TEST_F(Robot, HarmlessOdditiesOfSdfAreNotes) {
  const std::string mass = "<inertial><mass>1</mass></inertial>";
  const auto load = [&](const std::string& inside) {
    return written("odd.sdf", "<sdf version='1.9'><model name='r'>" + inside + "</model></sdf>");
  };
  const auto joint = [](const std::string& name, const std::string& type, const std::string& parent,
                        const std::string& child, const std::string& more = "") {
    return "<joint name='" + name + "' type='" + type + "'><parent>" + parent + "</parent><child>" + child +
           "</child>" + more + "</joint>";
  };
  const std::string massless =
      "<inertial><mass>0</mass><inertia><ixx>0</ixx><iyy>0</iyy><izz>0</izz></inertia></inertial>";
  const std::string path = load("<link name='a'>" + mass + "</link><link name='b'>" + massless + "</link>" +
                                joint("j", "fixed", "a", "b", "<axis><xyz>0 0 0</xyz></axis>"));
  if (said_of(path).find("built without SDF") != std::string::npos) GTEST_SKIP() << "built without SDF";
  EXPECT_EQ(said_of(path), "");
  const scene::Model one = scene::load(path);
  ASSERT_EQ(one.bodies.size(), 1u);
  EXPECT_EQ(one.bodies[0].mass, 1);
  // A link with the name world is the world.
  const std::string grounded =
      load("<link name='world'/><link name='a'>" + mass + "</link>" + joint("j", "ball", "world", "a"));
  EXPECT_EQ(said_of(grounded), "");
  const scene::Model pendulum = scene::load(grounded);
  ASSERT_EQ(pendulum.bodies.size(), 1u);
  EXPECT_EQ(pendulum.bodies[0].kind, BodyKind::rigid);
  ASSERT_EQ(pendulum.constraints.size(), 1u);
  EXPECT_EQ(pendulum.constraints[0].bodies[0], ground);
  // Zero inertia with a shape, a shape of size zero, and a plane.
  const std::string zero = "<inertia><ixx>0</ixx><iyy>0</iyy><izz>0</izz></inertia></inertial>";
  const scene::Model boxed =
      scene::load(load("<link name='a'><inertial><mass>6</mass>" + zero +
                       "<collision name='c'><geometry><box><size>1 2 3</size></box></geometry></collision></link>"));
  EXPECT_LT((boxed.bodies[0].inertia.diagonal() - Vector3d(6.5, 5, 2.5)).norm(), 1e-14);
  const scene::Model flat = scene::load(
      load("<static>true</static><link name='a'><collision name='c'><geometry><plane><normal>0 0 1</normal><size>1 1"
           "</size></plane></geometry></collision><collision name='d'><geometry><sphere><radius>0</radius></sphere>"
           "</geometry></collision></link>"));
  EXPECT_EQ(flat.bodies[0].more_shapes.size(), 1u);
  EXPECT_TRUE(notes_say(flat, "link \"a\" collides by a plane")) << testing::PrintToString(shown(flat.notes));
  EXPECT_TRUE(notes_say(flat, "link \"a\" has a collision shape of size zero"));
  EXPECT_NE(said_of(written("old.sdf", "<gazebo version='1.2'><model name='m'/></gazebo>")).find("this is SDF 1.2"),
            std::string::npos);
}

// Of SDF 1.11, which libsdformat 12 does not know: the coupling is the one of URDF, with its reference.
TEST_F(Robot, MimicJointsOfSdfFollow) {
  const auto file = [](const std::string& mimic, const std::string& beside = "") {
    const std::string mass = "<inertial><mass>1</mass></inertial></link>";
    return written("m.sdf",
                   "<sdf version='1.11'><model name='r'><link name='a'>" + mass + "<link name='b'>" + mass +
                       "<joint name='lead' type='continuous'><parent>world</parent><child>a</child><axis><xyz>0 0 1"
                       "</xyz></axis></joint>\n<joint name='follow' type='prismatic'><parent>world</parent><child>b"
                       "</child>" +
                       beside + "<axis><xyz>0 0 1</xyz>\n" + mimic + "</axis></joint></model></sdf>");
  };
  const std::string path = file(
      "<mimic joint='lead' axis='axis'><multiplier>2</multiplier><offset>0.1</offset>"
      "<reference>0.3</reference></mimic>");
  if (said_of(path).find("built without SDF") != std::string::npos) GTEST_SKIP() << "built without SDF";
  const scene::Model model = scene::load_text(
      "schema = 2\n[model]\nsdf = 'm.sdf'\njoints = { lead = 0.5 }\nrates = { lead = 3 }\n", folder() + "/s.toml");
  ASSERT_EQ(model.constraints.size(), 3u);
  EXPECT_EQ(model.constraints[2].name, "follow.mimic");
  EXPECT_NEAR(model.bodies[1].start.p.z(), 2 * (0.5 - 0.3) + 0.1, 1e-15);
  EXPECT_NEAR(model.bodies[1].start.v.z(), 6, 1e-15);
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_NE(model.warnings[0].find("version 1.11 is newer than libsdformat's 1.9"), std::string::npos);
  System system = model.system();
  Stepper stepper(system, system.initial_state(), model.options);
  for (int k = 0; k < 500; ++k) ASSERT_EQ(stepper.step(0.01).status, Status::ok);
  // 500 steps of 0.03 rad or so, many turns: the follower has all of them.
  const double a = 2 * std::atan2(stepper.state().bodies[1].q.z(), stepper.state().bodies[1].q.w());
  const double lead = (stepper.state().bodies[2].p.z() - 0.1) / 2 + 0.3;
  EXPECT_GT(std::abs(lead), 2 * M_PI);
  EXPECT_NEAR(std::remainder(lead - a, 2 * M_PI), 0, 1e-10);
  EXPECT_TRUE(notes_say(scene::load(file("<mimic joint='nobody'/>")),
                        "joint \"follow\" (\"nobody\") mimics a joint that the file does not have"));
  EXPECT_NE(said_of(file("<mimic joint='follow'/>")).find("in a circle"), std::string::npos);
  EXPECT_NE(said_of(file("<mimic joint='lead'><multiplier>two</multiplier></mimic>"))
                .find("<multiplier>: \"two\" is not a finite number"),
            std::string::npos);
  EXPECT_NE(said_of(file("<mimic joint='lead' axis='axis2'/>")).find("no \"axis2\""), std::string::npos);
  EXPECT_NE(said_of(file("", "<mimic joint='lead'/>")).find("stands in its <axis>"), std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::robot_test
