// Loads of joints under forces that MuJoCo knows along its coordinates only: of spatial tendons, of actuators on sites,
// of gravity compensation and of equalities that stay with MuJoCo. Beside each model is the same one without them,
// whose bodies get these forces from the program.
#include "model.h"

#include "tolerances.h"

#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <functional>

namespace linchpin::test::body_forces_test {
namespace {

Vector3d three(const mjtNum* x) { return {x[0], x[1], x[2]}; }

/// A chain of a hinge, a ball joint and a slide, with friction by its load in the hinge, beside a body on an exact pin.
Model chain(const std::string& on_c, const std::string& more, const std::string& mocap = "") {
  return Model(R"(<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
    <site name="w" pos="0.7 0.1 1.3"/>)" +
               mocap + R"(
    <body name="a" pos="0 0 1" euler="0 0 10"><joint name="ja" axis="0 1 0.1" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.02" mass="1"/>
      <body name="b" pos="0.3 0 0.1"><joint name="jb" type="ball" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.3 0.05" size="0.02" mass="0.5"/><site name="sb" pos="0.1 0.2 0"/>
        <body name="c" pos="0.1 0.3 0.05" )" +
               on_c + R"(><joint name="jc" type="slide" axis="0.1 0 1" stiffness="50" damping="2"/>
          <geom type="box" pos="-0.1 0 0" size="0.1 0.03 0.04" mass="0.4"/><site name="sc" pos="0.1 0 0.1" euler="20 30 0"/>
        </body></body></body>
    <body name="f" pos="0.5 -0.3 0.9"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/>
      <site name="sf" pos="0.05 0 0" euler="0 50 0"/></body></worldbody>)" +
               more);
}
const std::string pin =
    R"(<equality><connect name="pin" body1="f" body2="world" anchor="0.1 0 0"/></equality></mujoco>)";

/// Adds a force on a place of a body, and a moment, to those of the program.
void push(const Model& m, int body, const Vector3d& at, const Vector3d& force,
          const Vector3d& moment = Vector3d::Zero()) {
  const Vector3d about = moment + (at - three(m.d().xipos + 3 * body)).cross(force);
  for (int k = 0; k < 3; ++k) {
    m.d().xfrc_applied[6 * body + k] += force[k];
    m.d().xfrc_applied[6 * body + 3 + k] += about[k];
  }
}
void push_site(const Model& m, const std::string& site, const Vector3d& force) {
  push(m, m.m().site_bodyid[m.site(site)], m.site_position(site), force);
}
/// A cord between two sites, with the force that lengthens it.
void push_apart(const Model& m, const std::string& a, const std::string& b, double force) {
  const Vector3d u = (m.site_position(b) - m.site_position(a)).normalized();
  push_site(m, a, -force * u);
  push_site(m, b, force * u);
}

/// Steps both models. `by_hand` gives the second one the forces of the first one, whose step has been taken.
void expect_equal_loads(const Model& whole, const Model& plain, const std::function<void()>& begin,
                        const std::function<void()>& by_hand) {
  mujoco::Solver exact(whole.m(), whole.d()), other(plain.m(), plain.d());
  for (mujoco::Solver* s : {&exact, &other})
    s->joint("ja").law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.05}));
  double largest = 0;
  for (int step = 0; step < 200; ++step) {
    mj_forward(&plain.m(), &plain.d());
    std::fill_n(plain.d().xfrc_applied, 6 * plain.m().nbody, 0.0);
    begin();
    exact.step();
    by_hand();
    other.step();
    for (const char* joint : {"ja", "jb", "jc"}) {
      const Wrench one = exact.joint_wrench(joint), two = other.joint_wrench(joint);
      ASSERT_LT((one.force - two.force).norm(), scaled(1e-7)) << joint << ", step " << step;
      ASSERT_LT((one.moment - two.moment).norm(), scaled(1e-7)) << joint << ", step " << step;
    }
    for (int k = 0; k < plain.m().nbody; ++k) largest = std::max(largest, three(plain.d().xfrc_applied + 6 * k).norm());
    ASSERT_LT((whole.position("c") - plain.position("c")).norm(), scaled(1e-9)) << "step " << step;
  }
  EXPECT_GT(largest, 1) << "no force acted";
}

/// The force of the row of a type in the last step, as it lengthens a tendon.
double row_force(const Model& m, int type) {
  for (int row = 0; row < m.d().nefc; ++row)
    if (m.d().efc_type[row] == type) return m.d().efc_force[row];
  return 0;
}

TEST(LoadsOfJoints, ContainTheSpringAndTheDamperOfACord) {
  const Model whole = chain("", R"(<tendon><spatial stiffness="40" damping="3" springlength="0.3">
    <site site="w"/><site site="sb"/><pulley divisor="2"/><site site="sc"/><site site="sf"/></spatial></tendon>)" +
                                    pin),
              plain = chain("", R"(<tendon><spatial>
    <site site="w"/><site site="sb"/><pulley divisor="2"/><site site="sc"/><site site="sf"/></spatial></tendon>)" +
                                    pin);
  expect_equal_loads(
      whole, plain, [] {},
      [&] {
        const double force = -40 * (plain.d().ten_length[0] - 0.3) - 3 * plain.d().ten_velocity[0];
        push_apart(plain, "w", "sb", force);
        push_apart(plain, "sc", "sf", force / 2);
      });
}

TEST(LoadsOfJoints, ContainTheMotorAndTheLimitOfACord) {
  const std::string path = R"(<site site="w"/><site site="sc"/></spatial></tendon>)",
                    motor = R"(<actuator><motor tendon="cord" gear="-2"/></actuator>)";
  const Model whole = chain("", R"(<tendon><spatial name="cord" limited="true" range="0 0.45">)" + path + motor + pin),
              plain = chain("", pin);
  double most = 0;
  expect_equal_loads(
      whole, plain, [&] { whole.d().ctrl[0] = 0.6; },
      [&] {
        most = std::max(most, row_force(whole, mjCNSTR_LIMIT_TENDON));
        push_apart(plain, "w", "sc", -1.2 - row_force(whole, mjCNSTR_LIMIT_TENDON));
      });
  EXPECT_GT(most, 1) << "the cord was never taut";
}

TEST(LoadsOfJoints, ContainActuatorsOnSites) {
  const Model whole = chain("", R"(<actuator><motor site="sc" gear="1 2 3 0.1 0.2 0.3"/></actuator>)" + pin),
              plain = chain("", pin);
  expect_equal_loads(
      whole, plain, [&] { whole.d().ctrl[0] = 2; },
      [&] {
        const int site = plain.site("sc");
        const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(plain.d().site_xmat + 9 * site);
        push(plain, plain.body("c"), plain.site_position("sc"), R * Vector3d(2, 4, 6), R * Vector3d(0.2, 0.4, 0.6));
      });
}

// The force is in the axes of the reference, and the body of the reference gets the opposite one.
TEST(LoadsOfJoints, ContainActuatorsBetweenSites) {
  const Model whole = chain(
                  "", R"(<actuator><position site="sc" refsite="sf" kp="10" gear="1 0 0 0 0 0"/></actuator>)" + pin),
              plain = chain("", pin);
  expect_equal_loads(
      whole, plain, [&] { whole.d().ctrl[0] = 2; },
      [&] {
        const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(plain.d().site_xmat +
                                                                               9 * plain.site("sf"));
        const Vector3d force = R.col(0) * whole.d().actuator_force[0];
        push_site(plain, "sc", force);
        push_site(plain, "sf", -force);
      });
}

#if mjVERSION_HEADER >= 300
TEST(LoadsOfJoints, ContainTheCompensationOfGravity) {
  const Model whole = chain("gravcomp='0.7'", pin), plain = chain("", pin);
  expect_equal_loads(
      whole, plain, [] {},
      [&] {
        const int c = plain.body("c");
        push(plain, c, three(plain.d().xipos + 3 * c), Vector3d(0, 0, 0.7 * 0.4 * 9.81));
      });
}
#endif

TEST(LoadsOfJoints, ContainASoftConnectToAMocapBody) {
  const std::string mocap = R"(<body name="hand" mocap="true" pos="0.4 0.2 1.4"/>)";
  const Model whole = chain("", R"(<equality><connect name="soft" body1="c" body2="hand" anchor="0.1 0 0.1"/>
    <connect name="pin" body1="f" body2="world" anchor="0.1 0 0"/></equality></mujoco>)",
                            mocap),
              plain = chain("", pin, mocap);
  expect_equal_loads(
      whole, plain, [&] { whole.d().mocap_pos[2] += 2e-4; },
      [&] { push_site(plain, "sc", three(whole.d().efc_force)); });
}

#if mjVERSION_HEADER >= 300  // MuJoCo 2.2.2 takes the rows of rotation of a weld for its moment
/// The largest difference of the sensors of force and torque in a hinge to the wrench through it, at rest.
double difference_at_rest(const std::string& more) {
  const Model m(R"(<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
    <body name="hand" mocap="true" pos="0.3 0.1 0.2" euler="10 20 0"/><site name="w" pos="1 0.2 0.5"/>
    <body name="p"><joint name="j" axis="0 1 0" damping="3"/><geom type="box" pos="0.1 0 0" size="0.1 0.02 0.02" mass="2"/>
      <site name="o"/><site name="tip" pos="0.2 0 -0.1"/><geom name="drum" type="sphere" pos="0.3 0.05 0.1" size="0.08" mass="0"/></body>
    <body name="f" pos="0.5 -0.3 0.9"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body></worldbody>
    <sensor><force site="o"/><torque site="o"/></sensor>)" +
                more);
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 10000; ++i) exact.step();
  const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(m.d().site_xmat + 9 * m.site("o"));
  const Wrench through = exact.joint_wrench("j");
  EXPECT_GT((through.force - Vector3d(0, 0, 2 * 9.81)).norm(), 1) << "the hinge bears more than the weight";
  return (R * three(m.d().sensordata) - through.force).norm() +
         (R * three(m.d().sensordata + 3) - through.moment).norm();
}

TEST(LoadsOfJoints, AtRestContainASoftWeldToAMocapBody) {
  EXPECT_LT(
      difference_at_rest(
          R"(<equality><weld name="soft" body1="p" body2="hand" torquescale="0.6" relpose="0.2 0.1 0.3 1 0.1 0.3 0.2" solref="0.1 1"/>
    <connect name="pin" body1="f" body2="world" anchor="0.1 0 0"/></equality></mujoco>)"),
      scaled(1e-8));
}
#endif

#if mjVERSION_HEADER >= 4000000  // earlier sensors do not contain forces of tendons
TEST(LoadsOfJoints, AtRestContainACordThatHasYielded) {
  EXPECT_LT(difference_at_rest(R"(<tendon><spatial stiffness="30" springlength="0.2" springyield="0.2">
    <site site="w"/><site site="tip"/></spatial></tendon>)" +
                               pin),
            scaled(1e-8));
}

TEST(LoadsOfJoints, AtRestContainACordAroundADrum) {
  EXPECT_LT(difference_at_rest(R"(<tendon><spatial stiffness="30" springlength="0.2">
    <site site="w"/><geom geom="drum"/><site site="tip"/></spatial></tendon>)" +
                               pin),
            scaled(1e-8));
}
#endif

}  // namespace
}  // namespace linchpin::test::body_forces_test
