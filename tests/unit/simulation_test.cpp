// Joints of a robot by name: actuators of a scene, and a simulation that a program steps with a controller.
#include <linchpin/scene.h>
#include <linchpin/scene/simulation.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace linchpin::scene {
namespace {

constexpr double g = 9.81;

/// A wheel of 2 kg m² about a vertical axis, and a bar of 1 kg that hangs from it and swings about x.
const char* const wheel_and_bar = R"(schema = 2
[world]
dt = 0.001
duration = 1
gravity = [0, 0, -9.81]
[[body]]
name = "wheel"
mass = 3
inertia = [1, 1, 2]
[[body]]
name = "bar"
mass = 1
inertia = [0.02, 0.02, 0.001]
position = [0.5, 0, -0.3]
[[joint]]
name = "spin"
type = "hinge"
b = "wheel"
at = [0, 0, 0]
axis = [0, 0, 1]
)";

Model model_of(const std::string& more, bool with_bar = false) {
  std::string text = wheel_and_bar;
  if (!with_bar)
    text.replace(text.find("[[body]]\nname = \"bar\""), text.find("[[joint]]") - text.find("[[body]]\nname = \"bar\""),
                 "");
  return load_text(text + more, "robot.toml");
}

std::string message_of(const std::string& more) {
  try {
    (void)model_of(more);
  } catch (const SceneError& e) {
    return e.message;
  }
  return "no error";
}

TEST(Actuator, TorqueTurnsAWheel) {
  Simulation wheel(model_of("[[actuator]]\njoint = \"spin\"\ntorque = 3\n"));
  wheel.run(1);
  EXPECT_NEAR(wheel.joint("spin").velocity(), 1.5, 1e-12);
  EXPECT_NEAR(wheel.joint("spin").acceleration(), 1.5, 1e-12);
  EXPECT_NEAR(wheel.joint("spin").force(), 3, 1e-12);
}

TEST(Actuator, MaxTorqueAndMaxRateLimitIt) {
  Simulation wheel(model_of("[[actuator]]\njoint = \"spin\"\ntorque = \"100*t + 5\"\nmax_torque = 4\nmax_rate = 1\n"));
  wheel.run(0.4);
  EXPECT_NEAR(wheel.joint("spin").velocity(), 0.8, 1e-12);
  wheel.run(1);
  EXPECT_NEAR(wheel.joint("spin").velocity(), 1, 0.003);
  EXPECT_EQ(wheel.joint("spin").force(), 0);
}

// I q̈ + d q̇ + k q = k q*: damped oscillation from rest.
TEST(Actuator, PositionWithGainsIsASpringAndADamper) {
  Simulation wheel(
      model_of("[[actuator]]\njoint = \"spin\"\nposition = \"0.5\"\nstiffness = 8\ndamping = 2\n[solver]\nmethod = "
               "\"adaptive\"\n"));
  wheel.run(1);
  const double decay = 0.5, rate = std::sqrt(4 - decay * decay);
  const double expected = 0.5 * (1 - std::exp(-decay) * (std::cos(rate) + decay / rate * std::sin(rate)));
  EXPECT_NEAR(wheel.joint("spin").position(), expected, 1e-8);
}

TEST(Actuator, ExpressionsReadOtherJointsAndWholeTurns) {
  Simulation wheel(
      model_of("[[actuator]]\njoint = \"spin\"\ntorque = \"8*(20 - joint_position(spin)) - "
               "8*joint_velocity(spin)\"\n"));
  wheel.run(10);
  EXPECT_NEAR(wheel.joint("spin").position(), 20, 1e-4);
}

TEST(Actuator, PositionAlonePrescribesTheMotionAndGivesItsTorque) {
  Simulation wheel(model_of("[[actuator]]\njoint = \"spin\"\nname = \"drive\"\nposition = \"0.3*sin(2*t)\"\n"));
  wheel.run(0.7);
  const double t = wheel.t();
  EXPECT_NEAR(wheel.joint("spin").position(), 0.3 * std::sin(2 * t), 1e-12);
  EXPECT_NEAR(wheel.joint("spin").force(), -2 * 0.3 * 4 * std::sin(2 * t), 1e-9);
}

TEST(Actuator, PositionAsANumberHoldsTheJoint) {
  Simulation wheel(model_of("[[actuator]]\njoint = \"spin\"\nposition = 0\n"));
  wheel.joint("spin").set_force(2);
  wheel.run(0.1);
  EXPECT_NEAR(wheel.joint("spin").position(), 0, 1e-12);
}

TEST(Actuator, FaultsNameTheJointAndWhatToDo) {
  const std::string joint = "[[actuator]]\njoint = \"spin\"\n";
  EXPECT_NE(message_of("[[actuator]]\njoint = \"spinn\"\ntorque = 1\n").find("did you mean \"spin\""),
            std::string::npos);
  EXPECT_NE(message_of(joint + "force = 1\n").find("Write torque"), std::string::npos);
  EXPECT_NE(message_of(joint).find("needs a command: torque, position or velocity"), std::string::npos);
  EXPECT_NE(message_of(joint + "velocity = 1\n").find("needs damping"), std::string::npos);
  EXPECT_NE(message_of(joint + "torque = 1\nstiffness = 3\n").find("needs position"), std::string::npos);
  EXPECT_NE(message_of(joint + "torque = \"1/0\"\n"), "no error");
  EXPECT_NE(message_of(joint + "torque = \"joint_force(spin)\"\n"), "no error");
  EXPECT_NE(message_of(joint + "torque = 1\n" + joint + "torque = 2\n").find("Give the actuator another name"),
            std::string::npos);
  EXPECT_NE(message_of(joint + "torque = 1\npositon = 3\n").find("unknown key"), std::string::npos);
}

/// A vertical arm of seven joints, alternately about z and y, with links of 0.2 m.
Model arm_of_seven() {
  std::string text = "schema = 2\n[world]\ndt = 0.001\ngravity = [0, 0, -9.81]\n";
  for (int i = 1; i <= 7; ++i)
    text += "[[body]]\nname = \"link" + std::to_string(i) +
            "\"\nmass = 1\ninertia = [0.01, 0.01, 0.005]\nposition = [0, 0, " + std::to_string(0.2 * i - 0.1) + "]\n";
  for (int i = 1; i <= 7; ++i)
    text += "[[joint]]\nname = \"joint" + std::to_string(i) + "\"\ntype = \"hinge\"\n" +
            (i > 1 ? "a = \"link" + std::to_string(i - 1) + "\"\n" : "") + "b = \"link" + std::to_string(i) +
            "\"\nat = [0, 0, " + std::to_string(0.2 * (i - 1)) + "]\naxis = " + (i % 2 ? "[0, 0, 1]" : "[0, 1, 0]") +
            "\n";
  return load_text(text, "arm.toml");
}

TEST(Simulation, SetsAndReadsEveryJointOfAnArmByName) {
  Simulation arm(arm_of_seven());
  ASSERT_EQ(arm.joints().size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) arm.joint(arm.joints()[i]).set_position(0.1 * double(i + 1));
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(arm.joint(arm.joints()[i]).position(), 0.1 * double(i + 1), 1e-12);
  // Held at rest, each joint carries the weight of the links beyond it.
  arm.set_controller([](const JointState& at, std::vector<double>& force) {
    const double damping[] = {12, 12, 8, 6, 3, 2, 1};
    for (std::size_t i = 0; i < force.size(); ++i)
      force[i] = 200 * (0.1 * double(i + 1) - at.position[i]) - damping[i] * at.velocity[i];
  });
  arm.run(8);
  EXPECT_EQ(arm.failure_count(), 0);
  EXPECT_NEAR(arm.joint("joint2").velocity(), 0, 1e-4);
  // The torque of the second joint holds the weights of the links beyond it.
  double moment = 0;
  const State& state = arm.stepper().state();
  const Vector3d axis = state[BodyId{2}].q * Vector3d::UnitY(), pivot = state[BodyId{2}].point({0, 0, -0.1});
  for (int i = 2; i <= 7; ++i) moment += axis.dot((state[BodyId{i}].p - pivot).cross(Vector3d(0, 0, -g)));
  EXPECT_NEAR(arm.joint("joint2").force(), -moment, 1e-3);
  for (int i = 1; i <= 7; ++i)
    EXPECT_NEAR(arm.joint("joint" + std::to_string(i)).wrench().force.z(), g * (8 - i), 1e-3);
}

TEST(Simulation, SetVelocityMovesTheChildAndWhatHangsOnIt) {
  Simulation arm(arm_of_seven());
  arm.joint("joint2").set_position(0.4);
  arm.joint("joint4").set_velocity(2);
  EXPECT_NEAR(arm.joint("joint4").velocity(), 2, 1e-12);
  for (const char* other : {"joint1", "joint2", "joint3", "joint5", "joint7"})
    EXPECT_NEAR(arm.joint(other).velocity(), 0, 1e-12) << other;
  EXPECT_LE(arm.stepper().start().impulse_energy, 1e-20);
  EXPECT_LE(arm.stepper().start().moved, 1e-12);
}

TEST(Simulation, ForcesOfAProgramAreLimitedByTheFile) {
  Model model = model_of("");
  model.constraints[0].max_force = 2;
  Simulation wheel(std::move(model));
  wheel.joint("spin").set_force(5);
  wheel.run(1);
  EXPECT_NEAR(wheel.joint("spin").velocity(), 1, 1e-12);
  EXPECT_NEAR(wheel.joint("spin").force(), 2, 1e-12);
}

TEST(Simulation, ReturnsToAStateAndRepeatsTheMotion) {
  Simulation arm(arm_of_seven());
  arm.joint("joint1").set_velocity(30);
  arm.run(0.5);
  const State there = arm.state();
  std::vector<double> positions;
  for (const std::string& name : arm.joints()) positions.push_back(arm.joint(name).position());
  EXPECT_GT(positions[0], 7.0);  // more than a turn
  arm.run(0.3);
  const double q = arm.joint("joint1").position(), v = arm.joint("joint4").velocity();
  arm.set_state(there, positions);
  for (std::size_t i = 0; i < positions.size(); ++i)
    EXPECT_NEAR(arm.joint(arm.joints()[i]).position(), positions[i], 1e-12);
  arm.run(0.3);
  EXPECT_NEAR(arm.joint("joint1").position(), q, 1e-9);
  EXPECT_NEAR(arm.joint("joint4").velocity(), v, 1e-9);
}

TEST(Simulation, RefusesStatesOfAnotherSizeAndNumbersThatAreNone) {
  Simulation wheel(model_of(""));
  State state = wheel.state();
  state.bodies.pop_back();
  EXPECT_THROW(wheel.set_state(state), std::invalid_argument);
  state = wheel.state();
  state.bodies[1].v.x() = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(wheel.set_state(state), std::invalid_argument);
  state = wheel.state();
  state.bodies[1].q.coeffs().setZero();
  EXPECT_THROW(wheel.set_state(state), std::invalid_argument);
  state = wheel.state();
  state.t = std::numeric_limits<double>::infinity();
  EXPECT_THROW(wheel.set_state(state), std::invalid_argument);
  EXPECT_THROW(wheel.set_state(wheel.state(), std::vector<double>{0, 0}), std::invalid_argument);
}

TEST(Simulation, RefusesNumbersThatAreNoneUnknownNamesAndLoops) {
  Simulation wheel(model_of(""));
  EXPECT_THROW(wheel.joint("spun"), std::invalid_argument);
  EXPECT_THROW(wheel.joint("spin").set_force(std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  EXPECT_THROW(wheel.joint("spin").set_position(std::numeric_limits<double>::infinity()), std::invalid_argument);
  EXPECT_THROW(wheel.joint("spin").set_position(4), std::invalid_argument);
  for (const double duration : {-1., std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(wheel.run(duration), std::invalid_argument);
  Simulation loop(
      load_text(std::string(wheel_and_bar) +
                    "[[joint]]\nname = \"arm\"\ntype = \"hinge\"\na = \"wheel\"\nb = \"bar\"\nat = [0.5, 0, "
                    "0]\naxis = [0, 1, 0]\n[[joint]]\nname = \"rest\"\ntype = \"ball\"\nb = \"bar\"\nat = "
                    "[0.5, 0, -0.6]\n",
                "loop.toml"));
  try {
    loop.joint("arm").set_position(0.1);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("closed loop"), std::string::npos) << e.what();
  }
}

// ---- the controller ----

TEST(Controller, IsCalledAtItsRate) {
  Simulation wheel(model_of(""));
  std::vector<double> times;
  wheel.set_controller([&](const JointState& at, std::vector<double>&) { times.push_back(at.t); }, {.period = 0.004});
  wheel.run(0.02);
  ASSERT_EQ(times.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(times[i], 0.004 * double(i), 1e-12);
  EXPECT_THROW(wheel.set_controller({}, {.period = 0.0015}), std::invalid_argument);
  EXPECT_THROW(wheel.set_controller({}, {.period = -1}), std::invalid_argument);
}

TEST(Controller, CannotStepOrReplaceItself) {
  Simulation wheel(model_of(""));
  const std::function<void()> faults[] = {[&] { wheel.step(); }, [&] { wheel.set_controller({}); }};
  for (const auto& fault : faults) {
    wheel.set_controller([&](const JointState&, std::vector<double>&) { fault(); });
    wheel.step();
    ASSERT_EQ(wheel.failure_count(), 1);
    EXPECT_NE(wheel.failures()[0].message.find("a controller cannot call "), std::string::npos);
  }
  EXPECT_NEAR(wheel.t(), 0.002, 1e-15);
}

// Each fault is reported with its time, and the motors get the command that the program has chosen.
TEST(Controller, FailuresAreReportedAndTheRobotHasADefinedCommand) {
  using Kind = ControllerFailure::Kind;
  const std::pair<Kind, Controller> faults[] = {
      {Kind::exception, [](const JointState&, std::vector<double>&) { throw std::runtime_error("no target"); }},
      {Kind::not_finite, [](const JointState&, std::vector<double>& f) { f[0] = std::nan(""); }},
      {Kind::wrong_size, [](const JointState&, std::vector<double>& f) { f.push_back(1); }},
      {Kind::late, [](const JointState&, std::vector<double>& f) {
         f[0] = 4;
         std::this_thread::sleep_for(std::chrono::milliseconds(60));
       }}};
  for (const auto& [kind, fault] : faults)
    for (const FailureCommand command : {FailureCommand::zero, FailureCommand::hold}) {
      Simulation wheel(model_of(""));
      const auto controller = [fault = fault](const JointState& at, std::vector<double>& force) {
        if (at.t > 0.0099 && at.t < 0.0101) return fault(at, force);
        force[at.index("spin")] = 2;
      };
      wheel.set_controller(controller, {.period = 0.01, .on_failure = command, .deadline = 0.05});
      wheel.run(0.03);
      ASSERT_EQ(wheel.failures().size(), 1u);
      EXPECT_EQ(wheel.failures()[0].kind, kind);
      EXPECT_NEAR(wheel.failures()[0].t, 0.01, 1e-12);
      EXPECT_NE(wheel.failures()[0].message.find("at t = 0.01 s the controller"), std::string::npos);
      EXPECT_NEAR(wheel.joint("spin").velocity(), command == FailureCommand::hold ? 0.03 : 0.02, 1e-12);
    }
}

}  // namespace
}  // namespace linchpin::scene
