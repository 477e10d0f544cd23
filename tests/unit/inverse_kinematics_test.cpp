// Inverse kinematics of arms and mechanisms: poses that are reached, distances of poses that are not, limits and loops.
#include "random_robot.h"

#include <linchpin/scene.h>
#include <linchpin/scene/inverse_kinematics.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace linchpin::test::inverse_kinematics_test {
namespace {

using scene::BodyFrame;
using scene::FrameTarget;
using scene::InverseKinematics;
using scene::InverseKinematicsOptions;
using scene::RobotDynamics;
using Outcome = InverseKinematics::Outcome;

// A chain of hinges that stands upright: axes z, y, z, y, … at the heights `at`, with bodies in the middle.
scene::Model arm(const std::vector<double>& at, const std::vector<Vector3d>& axes, double length) {
  scene::Model model;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double to = i + 1 < at.size() ? at[i + 1] : length;
    scene::SceneBody body;
    body.name = "link" + std::to_string(i + 1);
    body.mass = 1, body.inertia = 0.01 * Matrix3d::Identity();
    body.start.p = {0, 0, 0.5 * (at[i] + to)};
    model.bodies.push_back(body);
    Matrix3d W;
    const Vector3d u = axes[i], e = u.unitOrthogonal();
    W << u, e, u.cross(e);
    const BodyId a{static_cast<int>(i)}, b{static_cast<int>(i) + 1};
    const Vector3d p(0, 0, at[i]);
    model.constraints.push_back(joint_between("joint" + std::to_string(i + 1), "hinge", a, b, frame_in(model, a, p, W),
                                              frame_in(model, b, p, W)));
    model.constraints.back().limits = {-2.8, 2.8};
  }
  return model;
}
scene::Model arm_of_seven() {
  const Vector3d y = Vector3d::UnitY(), z = Vector3d::UnitZ();
  return arm({0.1, 0.34, 0.5, 0.74, 0.9, 1.14, 1.2}, {z, y, z, y, z, y, z}, 1.3);
}
BodyFrame tip_of(const RobotDynamics& robot, const std::string& body, double beyond) {
  BodyFrame out = robot.body_frame(body);
  out.p_BQ = {0, 0, beyond};
  return out;
}
FrameTarget pose_at(RobotDynamics robot, const BodyFrame& frame, const VectorX& q) {
  robot.set_state(q, VectorX::Zero(robot.velocities()));
  const Pose pose = robot.pose(frame);
  return {frame, pose.p, pose.q};
}
Pose reached(RobotDynamics robot, const FrameTarget& target, const InverseKinematics& by) {
  robot.set_state(by.q, VectorX::Zero(robot.velocities()));
  return robot.pose(target.frame);
}

TEST(InverseKinematics, AnArmOfSevenJointsReachesAPose) {
  const RobotDynamics robot(arm_of_seven());
  const BodyFrame tool = tip_of(robot, "link7", 0.15);
  RandomNumbers random(1);
  int iterations = 0, starts = 0;
  for (int k = 0; k < 30; ++k) {
    VectorX there(7), start(7);
    for (int i = 0; i < 7; ++i) there[i] = random(-2.5, 2.5), start[i] = there[i] + random(-0.7, 0.7);
    const FrameTarget target = pose_at(robot, tool, there);
    const InverseKinematics found = inverse_kinematics(robot, target, start);
    ASSERT_EQ(found.outcome, Outcome::found) << k << " " << found.distance << " " << found.angle;
    const Pose pose = reached(robot, target, found);
    EXPECT_LE((pose.p - target.p).norm(), 1e-10);
    EXPECT_LE(turn_between(pose.q, *target.rotation).norm(), 1e-10);
    EXPECT_LE(found.q.cwiseAbs().maxCoeff(), 2.8);
    iterations += found.iterations, starts += found.starts;
  }
  EXPECT_LE(iterations, 30 * 40);
  EXPECT_LE(starts, 45);
}

TEST(InverseKinematics, ATargetOutOfReachGivesTheDistance) {
  const RobotDynamics robot(arm_of_seven());
  // From the shoulder at the height 0.34 to the tip at 1.3 the arm is 0.96 m long.
  FrameTarget target;
  target.frame = tip_of(robot, "link7", 0.05);
  target.p = Vector3d(0, 0, 0.34) + 2.0 * Vector3d(0.6, -0.48, 0.64);
  const InverseKinematics by = inverse_kinematics(robot, target, VectorX::Constant(7, 0.3));
  EXPECT_EQ(by.outcome, Outcome::nearest);
  EXPECT_NEAR(by.distance, 2.0 - 0.96, 1e-10);
  const Vector3d tip = reached(robot, target, by).p;
  EXPECT_LT((tip - (Vector3d(0, 0, 0.34) + 0.96 * Vector3d(0.6, -0.48, 0.64))).norm(), 1e-6);
}

// The stretched arm is a place where no joint moves the tip along itself.
TEST(InverseKinematics, ASingularStartIsLeft) {
  const RobotDynamics robot(arm_of_seven());
  FrameTarget target;
  target.frame = tip_of(robot, "link7", 0.05);
  target.p = {0, 0, 1.0};
  const InverseKinematics by = inverse_kinematics(robot, target, VectorX::Zero(7));
  EXPECT_EQ(by.outcome, Outcome::found);
  EXPECT_LE((reached(robot, target, by).p - target.p).norm(), 1e-10);
}

// An elbow that bends by 0.5 rad at most: the tip of two bars of 1 m cannot come nearer than 2 cos 0.25.
TEST(InverseKinematics, LimitsAreRespected) {
  const Vector3d y = Vector3d::UnitY();
  scene::Model model = arm({0, 1}, {y, y}, 2);
  model.constraints[0].limits.reset();
  model.constraints[1].limits = {-0.2, 0.5};
  const RobotDynamics robot(model);
  FrameTarget target;
  target.frame = tip_of(robot, "link2", 0.5);
  target.p = {0.5, 0, 0};
  const InverseKinematics by = inverse_kinematics(robot, target, VectorX{{1.0, 0.1}});
  EXPECT_EQ(by.outcome, Outcome::nearest);
  EXPECT_NEAR(by.distance, 2 * std::cos(0.25) - 0.5, 1e-10);
  EXPECT_DOUBLE_EQ(by.q[1], 0.5);
  EXPECT_EQ(by.at_limit, std::vector<std::string>{"joint2"});
  // Within other limits it is reached: 2 cos(q/2) = 0.5.
  InverseKinematicsOptions options;
  options.own_limits["joint2"] = {0, 3};
  const InverseKinematics wider = inverse_kinematics(robot, target, VectorX{{1.0, 0.1}}, options);
  EXPECT_EQ(wider.outcome, Outcome::found);
  EXPECT_NEAR(wider.q[1], 2 * std::acos(0.25), 1e-9);
  options.own_limits.clear(), options.limits = false;
  EXPECT_EQ(inverse_kinematics(robot, target, VectorX{{1.0, 0.1}}, options).outcome, Outcome::found);
}

TEST(InverseKinematics, AHeavyJointMovesLessAndAHeldOneNot) {
  const RobotDynamics robot(arm_of_seven());
  const BodyFrame tool = tip_of(robot, "link7", 0.05);
  const VectorX start{{0.2, 0.5, -0.3, -1.1, 0.4, 0.9, 0.1}};
  FrameTarget target = pose_at(robot, tool, start);
  target.p += Vector3d(0.02, -0.01, 0.015);
  InverseKinematicsOptions options;
  const InverseKinematics even = inverse_kinematics(robot, target, start, options);
  options.held = {"joint1"};
  const InverseKinematics held = inverse_kinematics(robot, target, start, options);
  ASSERT_EQ(even.outcome, Outcome::found);
  ASSERT_EQ(held.outcome, Outcome::found);
  EXPECT_GT(std::abs(even.q[0] - start[0]), 1e-4);
  EXPECT_EQ(held.q[0], start[0]);
  options.held.clear(), options.weights["joint1"] = 1e6;
  const InverseKinematics heavy = inverse_kinematics(robot, target, start, options);
  ASSERT_EQ(heavy.outcome, Outcome::found);
  EXPECT_LT(std::abs(heavy.q[0] - start[0]), 0.1 * std::abs(even.q[0] - start[0]));
}

// A four-bar linkage: its coupler goes where the loop lets it, and to the nearest place otherwise.
const char* const four_bar = R"(schema = 2
[[body]]
name = "crank"
mass = 1
inertia = [0.1, 0.1, 0.1]
position = [0, 0.5, 0]
[[body]]
name = "coupler"
mass = 1
inertia = [0.1, 0.1, 0.1]
position = [1, 1.25, 0]
[[body]]
name = "rocker"
mass = 1
inertia = [0.1, 0.1, 0.1]
position = [2, 0.75, 0]
[[joint]]
name = "a"
type = "hinge"
b = "crank"
at = [0, 0, 0]
axis = [0, 0, 1]
[[joint]]
name = "b"
type = "hinge"
a = "crank"
b = "coupler"
at = [0, 1, 0]
axis = [0, 0, 1]
[[joint]]
name = "c"
type = "hinge"
a = "coupler"
b = "rocker"
at = [2, 1.5, 0]
axis = [0, 0, 1]
[[joint]]
name = "d"
type = "hinge"
b = "rocker"
at = [2, 0, 0]
axis = [0, 0, 1]
)";

TEST(InverseKinematics, AFourBarLinkageStaysClosed) {
  RobotDynamics robot(scene::load_text(four_bar, "four-bar.toml"));
  ASSERT_EQ(robot.velocities(), 3);
  ASSERT_EQ(robot.constraint_names(), std::vector<std::string>{"d"});
  BodyFrame point = robot.body_frame("coupler");
  point.p_BQ = {0.2, 0.6, 0};
  const VectorX start = robot.q();
  // Where the crank is a little further, by the loop itself.
  InverseKinematicsOptions crank;
  FrameTarget tip;
  tip.frame = robot.body_frame("crank");
  tip.frame.p_BQ = {0, 0.5, 0};
  tip.p = {std::sin(0.4), std::cos(0.4), 0};
  const InverseKinematics turned = inverse_kinematics(robot, tip, start, crank);
  ASSERT_EQ(turned.outcome, Outcome::found);
  EXPECT_LE(turned.constraint_residual, 1e-11);
  EXPECT_NEAR(turned.q[0], -0.4, 1e-9);
  robot.set_state(turned.q, VectorX::Zero(3));
  const Vector3d c = robot.pose(robot.joint_frame("c")).p;
  EXPECT_NEAR((c - Vector3d(2, 0, 0)).norm(), 1.5, 1e-10);
  FrameTarget target{point, robot.pose(point).p, {}};
  const InverseKinematics by = inverse_kinematics(robot, target, start);
  EXPECT_EQ(by.outcome, Outcome::found);
  EXPECT_LE(by.constraint_residual, 1e-11);
  EXPECT_LE((reached(robot, target, by).p - target.p).norm(), 1e-10);

  // Beside the path the rest of the way is perpendicular to it.
  target.p += Vector3d(0.05, 0.2, 0);
  InverseKinematicsOptions near;
  near.restarts = 0;
  const InverseKinematics beside = inverse_kinematics(robot, target, start, near);
  EXPECT_EQ(beside.outcome, Outcome::nearest);
  EXPECT_LE(beside.constraint_residual, 1e-11);
  EXPECT_GT(beside.distance, 0.01);
  robot.set_state(beside.q, VectorX::Zero(3));
  const scene::MatrixX J = robot.jacobian(point).topRows(3) * robot.inverse_mass_matrix();
  EXPECT_LT((J.transpose() * (robot.pose(point).p - target.p)).norm(), 1e-5 * J.norm());
}

TEST(InverseKinematics, ALoopThatCannotCloseIsReported) {
  RobotDynamics robot(scene::load_text(four_bar, "four-bar.toml"));
  InverseKinematicsOptions options;
  options.held = {"a", "b"};
  const VectorX start{{1.2, -2.0, 0.0}};
  const InverseKinematics by = inverse_kinematics(robot, {robot.body_frame("coupler"), {0, 1, 0}, {}}, start, options);
  EXPECT_EQ(by.outcome, Outcome::not_closed);
  EXPECT_GT(by.constraint_residual, 1e-3);
}

TEST(InverseKinematics, OfAFreeBaseMovesItOnlyOnRequest) {
  const RobotDynamics robot(random_robot({.seed = 4, .bodies = 6, .floating = true, .balls = true}));
  FrameTarget target{robot.body_frame("body5"), {30, 2, -1}, Quaterniond(0.5, 0.5, -0.5, 0.5)};
  const InverseKinematics held = inverse_kinematics(robot, target, robot.q());
  EXPECT_EQ(held.outcome, Outcome::nearest);
  EXPECT_EQ((held.q - robot.q()).head(7).norm(), 0);
  InverseKinematicsOptions options;
  options.hold_free_bodies = false;
  const InverseKinematics by = inverse_kinematics(robot, target, robot.q(), options);
  EXPECT_EQ(by.outcome, Outcome::found);
  EXPECT_LE((reached(robot, target, by).p - target.p).norm(), 1e-10);
}

TEST(InverseKinematics, RefusesWhatIsWrong) {
  const RobotDynamics robot(arm_of_seven());
  const FrameTarget target{robot.body_frame("link7"), {0, 0, 1}, {}};
  const auto message = [&](const InverseKinematicsOptions& options, int size) -> std::string {
    try {
      (void)inverse_kinematics(robot, target, VectorX::Zero(size), options);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({}, 6).find("start has 6 components and must have 7"), std::string::npos);
  InverseKinematicsOptions options;
  options.held = {"joint8"};
  EXPECT_NE(message(options, 7).find("held: no joint \"joint8\" has coordinates"), std::string::npos);
  options = {};
  options.own_limits["joint1"] = {1, -1};
  EXPECT_NE(message(options, 7).find("the lower limit of \"joint1\""), std::string::npos);
  options = {};
  options.rotation_weight = 0;
  EXPECT_NE(message(options, 7).find("rotation_weight is 0"), std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::inverse_kinematics_test
