// Channels of a joint's coordinate against closed forms.
#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace linchpin::test::joint_coordinate_test {
namespace {

class SceneRun {
 public:
  explicit SceneRun(const std::string& text)
      : model(scene::load_text(text, "scene.toml")),
        system(model.system()),
        stepper(system, system.initial_state(), model.options) {}
  double channel(std::size_t i) {
    return model.logs[i]({system, stepper.state(), {stepper.reactions().begin(), stepper.reactions().end()}})[0];
  }
  scene::Model model;
  System system;
  Stepper stepper;
};

const std::string driven_arm = R"_(schema = 2
[world]
gravity = [0, 0, -9.81]
dt = 0.001
[solver]
method = "rk4"
[[body]]
name = "arm"
mass = 2
inertia = [0.1, 0.2, 0.3]
position = [0.5, 0, 0]
[[joint]]
name = "elbow"
type = "hinge"
b = "arm"
at = [0, 0, 0]
axis = [0, -1, 0]
[[joint]]
name = "drive"
type = "prescribed_angle"
b = "arm"
axis = [0, -1, 0]
angle = "4*t^2"
[[log]]
channel = "joint_position(elbow)"
[[log]]
channel = "joint_velocity(elbow)"
[[log]]
channel = "joint_acceleration(elbow)"
[[log]]
channel = "joint_force(elbow)"
)_";

// An arm that a motor turns from the horizontal, θ = 4 t²: its torque is J θ'' + m g l cos θ. It turns more than once,
// and the angle goes on counting.
TEST(JointCoordinate, OfADrivenHingeIsItsMotion) {
  SceneRun run(driven_arm);
  EXPECT_EQ(run.model.logs[0].unit(), "rad");
  EXPECT_EQ(run.model.logs[3].unit(), "N m");
  const double J = 0.2 + 2 * 0.25;
  for (int i = 0; i <= 2000; ++i) {
    if (i > 0) {
      ASSERT_EQ(run.stepper.step(run.model.dt).status, Status::ok);
    }
    const double t = 0.001 * i, angle = 4 * t * t;
    EXPECT_NEAR(run.channel(0), angle, 1e-9);
    EXPECT_NEAR(run.channel(1), 8 * t, 1e-8);
    EXPECT_NEAR(run.channel(2), 8, 1e-7);
    EXPECT_NEAR(run.channel(3), J * 8 + 2 * 9.81 * 0.5 * std::cos(angle), 1e-6);
  }
}

// A block that slides down a plane with viscous friction: v = (g sin α / k)(1 − e^(−k t)), k = c/m.
TEST(JointCoordinate, OfASliderIsItsShift) {
  SceneRun run(R"_(schema = 2
[world]
gravity = [4, 0, -9]
dt = 0.001
[solver]
method = "rk4"
[[body]]
name = "block"
mass = 2
inertia = [1, 1, 1]
position = [3, 0, 0]
[[joint]]
name = "rail"
type = "slider"
b = "block"
at = [1, 0, 0]
axis = [1, 0, 0]
law = { type = "viscous", coefficient = 3 }
[[log]]
channel = "joint_position(rail)"
[[log]]
channel = "joint_velocity(rail)"
[[log]]
channel = "joint_acceleration(rail)"
[[log]]
channel = "joint_force(rail)"
)_");
  const double k = 1.5, g = 4;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(run.stepper.step(run.model.dt).status, Status::ok);
  const double v = g / k * (1 - std::exp(-k));
  EXPECT_EQ(run.model.logs[2].unit(), "m/s^2");
  EXPECT_NEAR(run.channel(0), (g - v) / k, 1e-10);
  EXPECT_NEAR(run.channel(1), v, 1e-10);
  EXPECT_NEAR(run.channel(2), g - k * v, 1e-9);
  EXPECT_NEAR(run.channel(3), -3 * v, 1e-9);
}

TEST(JointCoordinate, BeginsAgainWithTheRun) {
  SceneRun run(driven_arm);
  for (int i = 0; i < 1800; ++i) {
    ASSERT_EQ(run.stepper.step(run.model.dt).status, Status::ok);
    (void)run.channel(0);
  }
  const scene::Observation start{run.system, run.system.initial_state(), {}};
  EXPECT_NEAR(run.model.logs[0](start)[0], 0, 1e-15);
}

TEST(JointCoordinate, IsOfHingesAndSlidersOnly) {
  std::string text = driven_arm;
  text.replace(text.find("joint_force(elbow)"), 18, "joint_force(drive)");
  try {
    (void)scene::load_text(text, "scene.toml");
    FAIL();
  } catch (const scene::SceneError& e) {
    EXPECT_NE(std::string(e.what()).find("\"drive\" is neither a hinge nor a slider: there is no joint_force()"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace linchpin::test::joint_coordinate_test
