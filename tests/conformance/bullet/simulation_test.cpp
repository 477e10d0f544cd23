// Robots in a world of Bullet by the class that steps them without an engine: joints by name, controllers, contacts.
#if __has_include(<linchpin/bullet_simulation.h>)

#include "world.h"

#include <linchpin/bullet_simulation.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test::simulation_test {
namespace {

using scene::ControllerFailure;
using scene::FailureCommand;
using scene::JointState;
using scene::load_text;
using scene::Model;

/// A wheel of 2 kg m² about a vertical axis.
Model wheel() {
  return load_text(R"(schema = 2
[world]
dt = 0.001
gravity = [0, 0, -9.81]
[[body]]
name = "wheel"
mass = 3
inertia = [1, 1, 2]
[[joint]]
name = "spin"
type = "hinge"
b = "wheel"
at = [0, 0, 0]
axis = [0, 0, 1]
)",
                   "wheel.toml");
}

/// A vertical arm of three joints about z, y and y, whose links have products of inertia.
Model arm() {
  std::string text = "schema = 2\n[world]\ndt = 0.001\ngravity = [0, 0, -9.81]\n";
  for (int i = 1; i <= 3; ++i)
    text += "[[body]]\nname = \"link" + std::to_string(i) +
            "\"\nmass = 1\ninertia = [[0.02, 0.003, 0], [0.003, 0.02, 0.001], [0, 0.001, 0.01]]\nposition = [0, 0, " +
            std::to_string(0.2 * i - 0.1) + "]\n";
  for (int i = 1; i <= 3; ++i)
    text += "[[joint]]\nname = \"joint" + std::to_string(i) + "\"\ntype = \"hinge\"\n" +
            (i > 1 ? "a = \"link" + std::to_string(i - 1) + "\"\n" : "") + "b = \"link" + std::to_string(i) +
            "\"\nat = [0, 0, " + std::to_string(0.2 * (i - 1)) + "]\naxis = " + (i == 1 ? "[0, 0, 1]" : "[0, 1, 0]") +
            "\n";
  return load_text(text, "arm.toml");
}

void hold_the_arm(scene::Simulation& robot) {
  robot.set_controller([](const JointState& at, std::vector<double>& force) {
    for (std::size_t i = 0; i < force.size(); ++i)
      force[i] = 60 * (0.2 * double(i + 1) - at.position[i]) - 4 * at.velocity[i];
  });
}

TEST(Simulation, SetForceTurnsAWheel) {
  bullet::Simulation robot(wheel());
  robot.joint("spin").set_force(3);
  robot.run(1);
  EXPECT_NEAR(robot.t(), 1, 1e-9);
  EXPECT_NEAR(robot.joint("spin").velocity(), 1.5, precision(1e-12, 1e-5));
  EXPECT_NEAR(robot.joint("spin").acceleration(), 1.5, precision(1e-9, 1e-3));
  EXPECT_NEAR(robot.joint("spin").force(), 3, precision(1e-12, 1e-5));
  EXPECT_NEAR(robot.joint("spin").wrench().force.z(), 3 * 9.81, precision(1e-9, 1e-4));
}

// A set force that has not acted yet is not the force of the last step.
TEST(Simulation, ForcesAreThoseOfTheLastStep) {
  bullet::Simulation robot(wheel());
  EXPECT_THROW(robot.joint("spin").force(), OrderError);
  EXPECT_THROW(robot.joint("spin").wrench(), OrderError);
  EXPECT_THROW(robot.joint("spin").acceleration(), OrderError);
  EXPECT_THROW(robot.reactions(), OrderError);
  robot.joint("spin").set_force(3);
  robot.step();
  robot.joint("spin").set_force(5);
  EXPECT_NEAR(robot.joint("spin").force(), 3, precision(1e-12, 1e-5));
  robot.step();
  EXPECT_NEAR(robot.joint("spin").force(), 5, precision(1e-12, 1e-5));
}

TEST(Simulation, ReturnsToAStateAndRepeatsTheMotion) {
  bullet::Simulation robot(arm());
  robot.joint("joint1").set_velocity(20);
  robot.run(0.5);
  const State there = robot.state();
  std::vector<double> positions;
  for (const std::string& name : robot.joints()) positions.push_back(robot.joint(name).position());
  robot.run(0.2);
  const double q = robot.joint("joint1").position(), v = robot.joint("joint3").velocity();
  robot.set_state(there, positions);
  EXPECT_NEAR(robot.joint("joint1").position(), positions[0], precision(1e-12, 1e-5));
  robot.run(0.2);
  EXPECT_NEAR(robot.joint("joint1").position(), q, precision(1e-9, 1e-3));
  EXPECT_NEAR(robot.joint("joint3").velocity(), v, precision(1e-9, 1e-2));
}

TEST(Simulation, FunctionsOfTheHostWithoutAnEngineAreRefused) {
  bullet::Simulation robot(wheel());
  EXPECT_THROW(robot.stepper(), OrderError);
  EXPECT_THROW(robot.system(), OrderError);
  EXPECT_EQ(static_cast<const scene::Simulation&>(robot).system().body_count(), 2);  // and the ground
  EXPECT_THROW(robot.body("weel"), std::invalid_argument);
  EXPECT_EQ(double(robot.body("wheel").getInvMass()), double(btScalar(1) / btScalar(3)));
}

// The same controller on both hosts: one semi-implicit method, the same positions, torques and wrenches.
TEST(Simulation, AHeldArmIsTheSameAsWithoutAnEngine) {
  bullet::Simulation in_bullet(arm());
  scene::Simulation bare(arm());
  for (scene::Simulation* robot : {static_cast<scene::Simulation*>(&in_bullet), &bare}) {
    hold_the_arm(*robot);
    robot->joint("joint1").set_position(0.3);
    robot->joint("joint2").set_position(-0.2);
    robot->joint("joint3").set_velocity(0.5);
    EXPECT_NEAR(robot->joint("joint1").position(), 0.3, precision(1e-12, 1e-6));
    EXPECT_NEAR(robot->joint("joint2").position(), -0.2, precision(1e-12, 1e-6));
    EXPECT_NEAR(robot->joint("joint3").velocity(), 0.5, precision(1e-12, 1e-6));
    EXPECT_NEAR(robot->joint("joint2").velocity(), 0, precision(1e-12, 1e-6));
    robot->run(0.5);
  }
  const double bound = precision(1e-8, 1e-3);
  for (const std::string& name : bare.joints()) {
    EXPECT_NEAR(in_bullet.joint(name).position(), bare.joint(name).position(), bound) << name;
    EXPECT_NEAR(in_bullet.joint(name).velocity(), bare.joint(name).velocity(), 10 * bound) << name;
  }
  for (scene::Simulation* robot : {static_cast<scene::Simulation*>(&in_bullet), &bare}) robot->run(5);
  for (const std::string& name : bare.joints()) {
    EXPECT_NEAR(in_bullet.joint(name).force(), bare.joint(name).force(), precision(1e-6, 1e-2)) << name;
    EXPECT_NEAR((in_bullet.joint(name).wrench().moment - bare.joint(name).wrench().moment).norm(), 0,
                precision(1e-6, 1e-2))
        << name;
  }
}

TEST(Simulation, AFaultyControllerHasTheSameDefinedReactions) {
  for (const FailureCommand command : {FailureCommand::zero, FailureCommand::hold}) {
    bullet::Simulation robot(wheel());
    const auto controller = [](const JointState& at, std::vector<double>& force) {
      force[0] = at.t > 0.0099 && at.t < 0.0101 ? std::nan("") : 2;
    };
    robot.set_controller(controller, {.period = 0.01, .on_failure = command});
    robot.run(0.03);
    ASSERT_EQ(robot.failures().size(), 1u);
    EXPECT_EQ(robot.failures()[0].kind, ControllerFailure::Kind::not_finite);
    EXPECT_NEAR(robot.joint("spin").velocity(), command == FailureCommand::hold ? 0.03 : 0.02, precision(1e-9, 1e-6));
  }
}

TEST(Simulation, AForceThatIsNotFiniteStopsTheStep) {
  Model model = wheel();
  scene::SceneForce bad;
  bad.name = "wind";
  bad.bodies = {BodyId{1}};
  bad.make = [](const std::vector<BodyId>& id) {
    return Force("wind", id, [](ForceFrame& frame) {
      frame.add_force(0, Vector3d(frame.t > 0.0045 ? std::numeric_limits<double>::infinity() : 0, 0, 0));
    });
  };
  model.forces.push_back(bad);
  bullet::Simulation robot(std::move(model));
  robot.joint("spin").set_force(2);
  try {
    robot.run(1);
    FAIL() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("\"wind\" is not finite at t = 0.005 s"), std::string::npos) << e.what();
  }
  EXPECT_NEAR(robot.t(), 0.005, 1e-9);
  EXPECT_NEAR(robot.joint("spin").velocity(), 0.005, precision(1e-12, 1e-7));
}

TEST(Simulation, CoordinatesOfTheirOwnEnergyAreRefused) {
  const Model model = load_text(
      "schema = 2\n[[coordinate]]\nname = \"x\"\nstart = 1\n[lagrangian]\nmass = [\"1\"]\npotential = \"x^2\"\n",
      "oscillator.toml");
  EXPECT_THROW(bullet::Simulation{model}, std::invalid_argument);
}

/// The quadruped of demos/robots with its twelve PD controllers.
void hold_the_posture(scene::Simulation& robot) {
  robot.set_controller([](const JointState& at, std::vector<double>& torque) {
    const double posture[] = {0, 0.8, -1.6};
    for (std::size_t i = 0; i < torque.size(); ++i)
      torque[i] = 80 * (posture[i % 3] - at.position[i]) - 3 * at.velocity[i];
  });
}

/// As rigid bodies and as a multibody.
class Quadruped : public ::testing::TestWithParam<scene::RobotsAs> {
 protected:
  Model model() const {
    scene::Overrides overrides;
    overrides.robots = GetParam();
    return scene::load(LINCHPIN_SOURCE_DIR "/demos/robots/quadruped.toml", {}, overrides);
  }
};

TEST_P(Quadruped, StandsWithSteadyTorquesAndDoesNotGlide) {
  bullet::Simulation robot(model());
  ASSERT_EQ(robot.joints().size(), 12u);
  hold_the_posture(robot);
  robot.run(3);
  const Vector3d stood = robot.state()[BodyId{1}].p;
  std::vector<double> least(12, 1e9), most(12, -1e9);
  for (int step = 0; step < 1000; ++step) {
    robot.step();
    for (std::size_t i = 0; i < 12; ++i) {
      const double torque = robot.joint(robot.joints()[i]).force();
      least[i] = std::min(least[i], torque), most[i] = std::max(most[i], torque);
    }
  }
  EXPECT_EQ(robot.failure_count(), 0);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_LE(most[i] - least[i], 0.01) << robot.joints()[i];
  EXPECT_LE((robot.state()[BodyId{1}].p - stood).norm(), 1e-4);
  EXPECT_NEAR(stood.z(), 0.30, 0.005);
  // The height is that of the leg at its measured positions.
  const double l = 0.21, q = robot.joint("front_left_thigh").position(), k = robot.joint("front_left_calf").position();
  EXPECT_NEAR(l * std::cos(q) + l * std::cos(q + k) + 0.02, stood.z(), 0.005);
}

// A leg is placed elsewhere during the motion: the contacts of the old place are gone, and the robot stands again.
TEST_P(Quadruped, PlacedElsewhereItStandsAgain) {
  bullet::Simulation robot(model());
  hold_the_posture(robot);
  robot.run(1);
  const std::string joints[] = {"front_left_hip", "front_left_thigh", "rear_right_calf"};
  const double to[] = {0.3, 1.1, -1.9};
  for (int i = 0; i < 3; ++i) robot.joint(joints[i]).set_position(to[i]);
  const double of_thigh = robot.joint("rear_left_thigh").velocity();
  robot.joint("rear_left_hip").set_velocity(0.7);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(robot.joint(joints[i]).position(), to[i], precision(1e-9, 1e-5));
  EXPECT_NEAR(robot.joint("rear_left_hip").velocity(), 0.7, precision(1e-9, 1e-4));
  EXPECT_NEAR(robot.joint("rear_left_thigh").velocity(), of_thigh, precision(1e-9, 1e-4));
  robot.run(3);
  EXPECT_NEAR(robot.state()[BodyId{1}].p.z(), 0.30, 0.01);
  EXPECT_LE(robot.state()[BodyId{1}].v.norm(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Simulation, Quadruped, ::testing::Values(scene::RobotsAs::bodies, scene::RobotsAs::multibody),
                         [](const auto& each) {
                           return each.param == scene::RobotsAs::bodies ? "bodies" : "multibody";
                         });

}  // namespace
}  // namespace linchpin::test::simulation_test

#endif
