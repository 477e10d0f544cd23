// Servo-constraints against closed forms and published values: weighted least effort, inverse dynamics of an arm,
// saturation, and servos that no actuator reaches.
#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/servo.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <cmath>
#include <stdexcept>

namespace linchpin::test::servo_test {
namespace {

constexpr double g = 9.81;

/// A force of 1 N along x on a body.
Force push(const std::string& name, BodyId body) {
  return Force(name, {body}, [](ForceFrame& f) { f.add_force(0, {1, 0, 0}); });
}

/// Two masses of 1 and 4 kg on a line. The sum of their accelerations shall be 1 m/s².
struct TwoMasses {
  System system;
  BodyId light, heavy;
  TwoMasses() {
    light = system.add_particle("light", 1, {0, 0, 0});
    heavy = system.add_particle("heavy", 4, {1, 0, 0});
    for (const BodyId id : {light, heavy})
      system.add(holonomic(system.name(id) + " rail", {id},
                           [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
  }
  Servo sum() const {
    return {on_acceleration("sum", {light, heavy},
                            [](const auto& s) { return s[0].acceleration().x + s[1].acceleration().x - 1.0; })};
  }
  ServoControl control(double weight_of_light, double weight_of_heavy) {
    ServoController controller(
        system, {sum()}, {{push("on light", light), weight_of_light}, {push("on heavy", heavy), weight_of_heavy}});
    return controller.control(system.initial_state());
  }
};

TEST(Servo, HasTheLeastWeightedEffort) {
  const ServoControl by_inverse_mass = TwoMasses().control(1, 1.0 / 4);
  EXPECT_NEAR(by_inverse_mass.input[0], 0.8, 1e-14);
  EXPECT_NEAR(by_inverse_mass.input[1], 0.8, 1e-14);
  const ServoControl equal = TwoMasses().control(1, 1);
  EXPECT_NEAR(equal.input[0], 16.0 / 17, 1e-14);
  EXPECT_NEAR(equal.input[1], 4.0 / 17, 1e-14);
  const ServoControl by_its_square = TwoMasses().control(1, 1.0 / 16);
  EXPECT_NEAR(by_its_square.input[0], 0.5, 1e-14);
  EXPECT_NEAR(by_its_square.input[1], 2, 1e-14);
  EXPECT_TRUE(by_its_square.is_exact());
  EXPECT_EQ(by_its_square.rank, 1);
  EXPECT_TRUE(by_its_square.unreachable.empty());
}

TEST(Servo, SaturatedInputsLeaveTheRestToOthers) {
  TwoMasses masses;
  ServoController controller(masses.system, {masses.sum()},
                             {{push("on light", masses.light), 1, 0.5}, {push("on heavy", masses.heavy), 1}});
  const ServoControl& control = controller.control(masses.system.initial_state());
  EXPECT_EQ(control.input[0], 0.5);
  EXPECT_NEAR(control.input[1], 2, 1e-14);
  EXPECT_EQ(control.saturated, std::vector<std::string>{"on light"});
  EXPECT_TRUE(control.is_exact());
}

TEST(Servo, SaturationOfAllInputsIsReported) {
  TwoMasses masses;
  ServoController controller(masses.system, {masses.sum()}, {{push("on light", masses.light), 1, 0.5}});
  const ServoControl& control = controller.control(masses.system.initial_state());
  EXPECT_EQ(control.input[0], 0.5);
  EXPECT_FALSE(control.is_exact());
  EXPECT_NEAR(control.residual, 0.5, 1e-12);
}

/// An arm of two uniform rods of 1 m and 1 kg in a vertical plane. Its tip follows a circle of radius 0.3 m about
/// (1, 0.5).
struct Arm {
  static constexpr double length = 1, mass = 1;
  System system;
  BodyId upper, fore;
  explicit Arm(double mass_of_model = mass) {
    system.set_gravity({0, -g, 0});
    const double I = mass_of_model * length * length / 12;
    const Vector3d inertia(1e-4, I, I);
    upper = system.add_body("upper", mass_of_model, inertia, {});
    fore = system.add_body("fore", mass_of_model, inertia, {});
    const Vector3d z = Vector3d::UnitZ();
    system.add(joints::hinge("shoulder", ground, Vector3d::Zero(), z, upper, {-length / 2, 0, 0}, z));
    system.add(joints::hinge("elbow", upper, {length / 2, 0, 0}, z, fore, {-length / 2, 0, 0}, z));
  }
  Servo tip_on_circle(double frequency = 10) const {
    return {holonomic("tip", {fore},
                      [](const auto& s) {
                        const auto tip = s[0].point(0.5, 0, 0);
                        return rows(tip.x - 1.0 - 0.3 * cos(s.t), tip.y - 0.5 - 0.3 * sin(s.t));
                      }),
            frequency};
  }
  std::vector<Actuator> motors() const {
    const auto torque = [](ForceFrame& f) { f.add_moment(0, {0, 0, 1}); };
    return {{Force("shoulder motor", {upper}, torque)}, {Force("elbow motor", {fore, upper}, [](ForceFrame& f) {
              f.add_moment(0, {0, 0, 1});
              f.add_moment(1, {0, 0, -1});
            })}};
  }
  /// The state on the circle at a time.
  State on_circle(double t) const {
    const double x = 1 + 0.3 * std::cos(t), y = 0.5 + 0.3 * std::sin(t);
    const double elbow = std::acos((x * x + y * y - 2) / 2), shoulder = std::atan2(y, x) - elbow / 2;
    const double both = shoulder + elbow;
    Eigen::Matrix2d J;
    J << -std::sin(shoulder), -std::sin(both), std::cos(shoulder), std::cos(both);  // of the absolute angles
    const Eigen::Vector2d rate = J.lu().solve(Eigen::Vector2d(-0.3 * std::sin(t), 0.3 * std::cos(t)));
    State out = system.initial_state();
    out.t = t;
    const auto place = [&](BodyId id, const Vector3d& from, const Vector3d& v, double angle, double speed) {
      BodyState& body = out[id];
      const Vector3d arm = 0.5 * Vector3d(std::cos(angle), std::sin(angle), 0);
      body.q = Quaterniond(Eigen::AngleAxisd(angle, Vector3d::UnitZ()));
      body.w = {0, 0, speed};
      body.p = from + arm;
      body.v = v + body.w.cross(arm);
      return std::pair<Vector3d, Vector3d>(from + 2 * arm, v + body.w.cross(Vector3d(2 * arm)));
    };
    const auto [end, speed] = place(upper, Vector3d::Zero(), Vector3d::Zero(), shoulder, rate[0]);
    place(fore, end, speed, both, rate[1]);
    return out;
  }
};

TEST(Servo, HasTheTorquesOfAnArmOnACircle) {
  const double published[3][2] = {{15.235628553717829, 2.029840998886058},
                                  {14.981365506994347, 0.966690656370893},
                                  {13.523149417096587, -0.507853669170018}};
  Arm arm;
  ServoController controller(arm.system, {arm.tip_on_circle()}, arm.motors());
  for (int t = 0; t < 3; ++t) {
    const ServoControl& control = controller.control(arm.on_circle(t));
    ASSERT_EQ(control.status, Status::ok) << control.reason;
    EXPECT_TRUE(control.is_exact()) << control.residual;
    EXPECT_EQ(control.rank, 2);
    EXPECT_NEAR(control.input[0], published[t][0], 1e-13);
    EXPECT_NEAR(control.input[1], published[t][1], 1e-13);
  }
}

TEST(Servo, ReturnsToTheCircleAtItsRate) {
  Arm arm;
  State start = arm.on_circle(0);
  ServoController controller(arm.system, {arm.tip_on_circle(5)}, arm.motors());
  start.t = 0.1;  // The tip is behind.
  Stepper stepper(arm.system, start);
  const auto error = [&] {
    const Vector3d tip = stepper.state()[arm.fore].point({0.5, 0, 0});
    const double t = stepper.t();
    return std::hypot(tip.x() - 1 - 0.3 * std::cos(t), tip.y() - 0.5 - 0.3 * std::sin(t));
  };
  const double before = error();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(controller.control(stepper.state()).is_exact());
    ASSERT_FALSE(stepper.step(1e-3).rejected);
  }
  EXPECT_GT(before, 0.02);
  EXPECT_LT(error(), 1e-3);
}

TEST(Servo, NamesWhatNoActuatorReaches) {
  // A load on a rod below a trolley: the force on the trolley does not accelerate the load sideways.
  System system;
  system.set_gravity({0, -g, 0});
  const BodyId trolley = system.add_particle("trolley", 10, {0, 0, 0}),
               load = system.add_particle("load", 100, {0, -4, 0});
  system.add(holonomic("rail", {trolley}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
  system.add(holonomic("rope", {trolley, load}, [](const auto& s) {
    const auto d = s[1].position() - s[0].position();
    return dot(d, d) - 16.0;
  }));
  const Servo path{holonomic(
      "load path", {load}, [](const auto& s) { return rows(s[0].position().x - 0.1 * s.t * s.t, s[0].position().z); })};
  ServoController controller(system, {path}, {{push("drive", trolley)}});
  const ServoControl& control = controller.control(system.initial_state());
  EXPECT_FALSE(control.is_exact());
  EXPECT_EQ(control.rank, 0);
  EXPECT_EQ(control.unreachable, std::vector<std::string>{"load path row 1"});
}

/// Progress of a load along its path in 3 s, from 0 to 1, with four derivatives that are 0 at both ends.
template <class T>
T progress(const T& t) {
  const T x = t / 3.0;
  return x * x * x * x * x * (126.0 + x * (-420.0 + x * (540.0 + x * (-315.0 + 70.0 * x))));
}
/// Its second derivative [1/s²].
template <class T>
T progress_acceleration(const T& t) {
  const T x = t / 3.0;
  return x * x * x * (2520.0 + x * (-12600.0 + x * (22680.0 + x * (-17640.0 + 5040.0 * x)))) / 9.0;
}

TEST(Servo, HasTheForcesOfAFlatCrane) {
  // A trolley drives on a rail, and winds the rope of its load. The path of the load determines that of the trolley:
  // the rope has the direction of the acceleration of the load minus gravity. So the trolley has a condition, too.
  System system;
  system.set_gravity({0, -g, 0});
  const BodyId trolley = system.add_particle("trolley", 10, {0, 0, 0}),
               load = system.add_particle("load", 100, {0, -4, 0});
  system.add(holonomic("rail", {trolley}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
  system.add(holonomic("plane", {load}, [](const auto& s) { return s[0].position().z; }));
  const Servo path{holonomic("load path", {load},
                             [](const auto& s) {
                               return rows(s[0].position().x - 5.0 * progress(s.t),
                                           s[0].position().y + 4.0 - 3.0 * progress(s.t));
                             }),
                   0};
  const auto place = [](const auto& t) {
    const auto s = progress(t), a = progress_acceleration(t);
    return 5.0 * s + (4.0 - 3.0 * s) * (5.0 * a) / (g + 3.0 * a);
  };
  const Servo drive{
      holonomic("trolley path", {trolley}, [place](const auto& s) { return s[0].position().x - place(s.t); }), 0};
  const Actuator winch{Force("winch", {trolley, load}, [](ForceFrame& f) {
    const Vector3d up = (f[0].p - f[1].p).normalized();
    f.add_force(0, -up);
    f.add_force(1, up);
  })};
  ServoController controller(system, {path, drive}, {{push("drive", trolley)}, winch});
  // Time, position of the trolley, length and tension of the rope, force on the trolley.
  const double known[3][5] = {{0.75, 1.6581329240790688, 4.1042979425804, 1339.8186936546508, 417.5182843904383},
                              {1.5, 2.5, 2.5, 981, 6.8700735850857075},
                              {2.25, 4.003877483118229, 1.371072556510235, 841.8629772661671, -497.26170676542154}};
  for (const auto& [t, x, length, tension, force] : known) {
    State at = system.initial_state();
    at.t = t;
    at[load].p = {5 * progress(t), 3 * progress(t) - 4, 0};
    at[trolley].p = {place(t), 0, 0};
    EXPECT_NEAR(at[trolley].p.x(), x, 1e-14);
    EXPECT_NEAR((at[load].p - at[trolley].p).norm(), length, 1e-13);
    const ServoControl& control = controller.control(at);
    EXPECT_TRUE(control.is_exact()) << control.residual;
    EXPECT_EQ(control.rank, 2);
    EXPECT_NEAR(control.input[1], tension, 1e-12 * tension);
    EXPECT_NEAR(control.input[0], force, 1e-12 * tension);
  }
}

TEST(Servo, CountsFrictionThatFollowsTheControl) {
  // A block that slides on a floor is pushed down and along. Its friction grows with the push.
  System system;
  system.set_gravity({0, 0, -g});
  const BodyId block = system.add_particle("block", 2, {0, 0, 0}, {1, 0, 0});
  const ConstraintId floor = system.add(holonomic("floor", {block}, [](const auto& s) { return s[0].position().z; }));
  add_law(system, floor, laws::coulomb(0.3));
  const Servo speed{nonholonomic("speed", {block}, [](const auto& s) { return s[0].velocity().x - 1.0 - s.t; })};
  ServoController controller(system, {speed}, {{Force("push", {block}, [](ForceFrame& f) {
                               f.add_force(0, {1, 0, -0.5});
                             })}});
  const ServoControl& control = controller.control(system.initial_state());
  EXPECT_TRUE(control.is_exact()) << control.residual;
  EXPECT_NEAR(control.input[0], 2 * (1 + 0.3 * g) / (1 - 0.3 * 0.5), 1e-9);  // m a = u − μ (m g + u/2)
  EXPECT_NEAR(control.power[0], control.input[0], 1e-9);
}

TEST(Servo, StartsABlockThatSticks) {
  System system;
  system.set_gravity({0, 0, -g});
  const BodyId block = system.add_particle("block", 2, {0, 0, 0});
  const ConstraintId floor = system.add(holonomic("floor", {block}, [](const auto& s) { return s[0].position().z; }));
  add_law(system, floor, laws::coulomb(0.3));
  const Servo speed{nonholonomic(
      "speed", {block}, [](const auto& s) { return rows(s[0].velocity().x - 0.01 * s.t, s[0].velocity().y); })};
  ServoController controller(system, {speed}, {{push("push", block)}});
  const ServoControl& control = controller.control(system.initial_state());
  EXPECT_TRUE(control.is_exact()) << control.residual;
  EXPECT_NEAR(control.input[0], 2 * (0.01 + 0.3 * g), 1e-9);
}

TEST(Servo, ReleasesAnInputFromItsLimit) {
  // Two pushes on one mass, and one on the other: u1 + u2 = 10, where the first is weak, and the second is limited.
  System system;
  const BodyId mass = system.add_particle("mass", 1, {0, 0, 0});
  const Servo row{on_acceleration(
      "row", {mass}, [](const auto& s) { return rows(s[0].acceleration().x - 10.0, s[0].acceleration().y - 1.0); })};
  const auto along = [&](const char* name, const Vector3d& way, double weight, double most) {
    return Actuator{Force(name, {mass}, [way](ForceFrame& f) { f.add_force(0, way); }), weight, most};
  };
  // Least effort alone would give b = 5 and c = 5. With b at 2, c must be 8, and a takes the rest.
  ServoController controller(
      system, {row}, {along("a", {0, 1, 0}, 1, 100), along("b", {1, 0, 0}, 1, 2), along("c", {1, 0, 0}, 1, 100)});
  const ServoControl& control = controller.control(system.initial_state());
  EXPECT_TRUE(control.is_exact()) << control.residual;
  EXPECT_NEAR(control.input[0], 1, 1e-12);
  EXPECT_NEAR(control.input[1], 2, 1e-12);
  EXPECT_NEAR(control.input[2], 8, 1e-12);
  EXPECT_EQ(control.saturated, std::vector<std::string>{"b"});
}

TEST(Servo, LeavesNoForceBehind) {
  TwoMasses masses;
  {
    ServoController controller(masses.system, {masses.sum()}, {{push("a", masses.light)}});
    controller.set_input(std::vector{5.0});
  }
  Dynamics dynamics(masses.system);
  ASSERT_NE(dynamics.evaluate(masses.system.initial_state()), Status::invalid);
  for (const double a : dynamics.vdot()) EXPECT_EQ(a, 0);
  EXPECT_THROW(ServoController(masses.system, {masses.sum()}, {{push("b", masses.light)}, {push("a", masses.light)}}),
               std::invalid_argument);
  EXPECT_EQ(masses.system.forces().size(), 1u);
}

TEST(Servo, ThatIsNotFiniteIsNoControl) {
  TwoMasses masses;
  ServoController controller(
      masses.system,
      {{nonholonomic("root", {masses.light},
                     [](const auto& s) { return sqrt(s[0].position().x - 5.0) + s[0].velocity().x; })}},
      {{push("on light", masses.light)}});
  const ServoControl& control = controller.control(masses.system.initial_state());
  EXPECT_FALSE(control.is_exact());
  EXPECT_EQ(control.reason, "the servo root is not finite at this state");
}

TEST(Servo, RefusesWrongSettings) {
  TwoMasses masses;
  const auto refuses = [&](std::vector<Servo> servos, std::vector<Actuator> actuators, const std::string& text) {
    try {
      ServoController(masses.system, std::move(servos), std::move(actuators));
    } catch (const std::invalid_argument& e) {
      return std::string(e.what()).find(text) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refuses({}, {{push("a", masses.light)}}, "at least one servo"));
  EXPECT_TRUE(refuses({masses.sum()}, {}, "at least one actuator"));
  EXPECT_TRUE(refuses({masses.sum()}, {{push("b", masses.light), 0}},
                      "\"b\" has the weight 0, expected a finite number above 0"));
  EXPECT_TRUE(refuses({masses.sum()}, {{push("c", masses.light), 1, NAN}}, "\"c\" has the largest input"));
  EXPECT_TRUE(refuses({masses.sum()}, {{push("c", masses.light), INFINITY}}, "\"c\" has the weight inf"));
  Servo wrong = masses.sum();
  wrong.frequency = -1;
  EXPECT_TRUE(refuses({wrong}, {{push("d", masses.light)}}, "\"sum\" has the frequency -1"));
}

}  // namespace
}  // namespace linchpin::test::servo_test
