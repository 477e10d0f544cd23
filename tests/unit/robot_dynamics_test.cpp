// Dynamics in joint space against closed forms, finite differences and the core's own equation in maximal coordinates.
#include "random_robot.h"

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/scene/robot_dynamics.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin::test::robot_dynamics_test {
namespace {

using scene::BodyFrame;
using scene::MatrixX;
using scene::RobotDynamics;
using scene::RobotDynamicsOptions;
using scene::RobotJoint;

VectorX random_velocity(RandomNumbers& random, int n, double size = 1) {
  VectorX v(n);
  for (int i = 0; i < n; ++i) v[i] = random(-size, size);
  return v;
}

void put_at_random_state(RobotDynamics& robot, RandomNumbers& random) {
  const VectorX q = robot.moved(robot.q(), random_velocity(random, robot.velocities()));
  robot.set_state(q, random_velocity(random, robot.velocities(), 2));
}

// The acceleration [v̇; α] of a body by the core, in maximal coordinates with all joints as constraints.
Vector6 core_acceleration(const Dynamics& dynamics, BodyId id) {
  const IslandLayout& layout = dynamics.assembly().layout;
  const int k = layout.body_index(id);
  Vector6 out = Vector6::Zero();
  if (k < 0) return out;
  const auto i = static_cast<std::size_t>(k);
  for (int c = layout.column[i]; c < layout.column[i + 1]; ++c)
    out[c - layout.column[i]] = dynamics.vdot()[static_cast<std::size_t>(c)];
  return out;
}

// Largest difference between the accelerations of all bodies by joint space and by the core.
double difference_to_core(const RobotDynamics& robot, const System& system, const VectorX& vdot) {
  Dynamics dynamics(system);
  const Status status = dynamics.evaluate(robot.state());
  EXPECT_TRUE(status == Status::ok || status == Status::redundant) << to_string(status) << dynamics.reason();
  double worst = 0;
  for (int i = 1; i < system.body_count(); ++i) {
    if (system.dof(system.body_at(i)) == 0) continue;
    const BodyFrame frame{BodyId{i}, Vector3d::Zero(), Quaterniond::Identity()};
    const Vector6 joint_space = robot.jacobian(frame) * vdot + robot.jacobian_rate_times_v(frame);
    Vector6 core = core_acceleration(dynamics, BodyId{i});
    if (system.kind(BodyId{i}) == BodyKind::particle) core.tail<3>() = joint_space.tail<3>();
    worst = std::max(worst, (joint_space - core).norm() / (1 + core.norm()));
  }
  return worst;
}

std::vector<RandomRobot> kinds_of_robots() {
  return {{.seed = 1, .bodies = 7},
          {.seed = 2, .bodies = 8, .floating = true},
          {.seed = 3, .bodies = 7, .sliders = false, .balls = true},
          {.seed = 4, .bodies = 9, .floating = true, .balls = true, .welds = true},
          {.seed = 5, .bodies = 9, .balls = true, .welds = true, .reversed = true},
          {.seed = 6, .bodies = 9, .floating = true, .balls = true, .welds = true, .reversed = true}};
}

// ---- closed forms ----

// Two bars in the plane of x and y, angles relative to each other.
const char* const two_bars = R"(schema = 2
[world]
gravity = [0, -9.81, 0]
[[body]]
name = "upper"
mass = 2
inertia = [1, 1, 0.3]
position = [0.5, 0, 0]
[[body]]
name = "lower"
mass = 1.5
inertia = [1, 1, 0.2]
position = [1.4, 0, 0]
[[joint]]
name = "shoulder"
type = "hinge"
b = "upper"
at = [0, 0, 0]
axis = [0, 0, 1]
[[joint]]
name = "elbow"
type = "hinge"
a = "upper"
b = "lower"
at = [1, 0, 0]
axis = [0, 0, 1]
)";

TEST(RobotDynamics, OfADoublePendulumIsTheTextbooks) {
  RobotDynamics robot(scene::load_text(two_bars, "two.toml"));
  ASSERT_EQ(robot.velocities(), 2);
  ASSERT_EQ(robot.joints()[0].name, "shoulder");
  const double m1 = 2, m2 = 1.5, l1 = 1, c1 = 0.5, c2 = 0.4, I1 = 0.3, I2 = 0.2, g = 9.81;
  const double q1 = 0.7, q2 = -1.3, u1 = 1.5, u2 = -2;
  robot.set_state(VectorX{{q1, q2}}, VectorX{{u1, u2}});
  const double x = m2 * l1 * c2, mutual = m2 * c2 * c2 + I2 + x * std::cos(q2);
  Eigen::Matrix2d M;
  M << I1 + m1 * c1 * c1 + m2 * l1 * l1 + m2 * c2 * c2 + I2 + 2 * x * std::cos(q2), mutual, mutual, m2 * c2 * c2 + I2;
  EXPECT_LT((robot.mass_matrix() - M).norm(), 1e-13);
  const Eigen::Vector2d h(-x * std::sin(q2) * (2 * u1 * u2 + u2 * u2), x * std::sin(q2) * u1 * u1);
  EXPECT_LT((robot.bias_force() - h).norm(), 1e-13);
  const double outer = -m2 * g * c2 * std::cos(q1 + q2);
  EXPECT_LT((robot.gravity_force() - Eigen::Vector2d(-(m1 * c1 + m2 * l1) * g * std::cos(q1) + outer, outer)).norm(),
            1e-13);
  const VectorX vdot{{0.4, -0.9}};
  const VectorX tau = robot.inverse_dynamics(vdot);
  EXPECT_LT((tau - (M * vdot + h - robot.gravity_force())).norm(), 1e-13);
  EXPECT_LT((robot.forward_dynamics(tau).vdot - vdot).norm(), 1e-13);
}

TEST(RobotDynamics, JacobianOfAPlanarArmIsTheTextbooks) {
  RobotDynamics robot(scene::load_text(two_bars, "two.toml"));
  const double q1 = 0.7, q2 = -1.3, l1 = 1, l2 = 0.9, u1 = 1.5, u2 = -2;
  robot.set_state(VectorX{{q1, q2}}, VectorX{{u1, u2}});
  BodyFrame tip = robot.body_frame("lower");
  tip.p_BQ = {0.5, 0, 0};
  const double s1 = std::sin(q1), c1 = std::cos(q1), s12 = std::sin(q1 + q2), c12 = std::cos(q1 + q2);
  MatrixX J = MatrixX::Zero(6, 2);
  J.row(0) << -l1 * s1 - l2 * s12, -l2 * s12;
  J.row(1) << l1 * c1 + l2 * c12, l2 * c12;
  J.row(5) << 1, 1;
  EXPECT_LT((robot.jacobian(tip) - J).norm(), 1e-14);
  EXPECT_LT((robot.pose(tip).p - Vector3d(l1 * c1 + l2 * c12, l1 * s1 + l2 * s12, 0)).norm(), 1e-14);
  const double w = u1 + u2;
  const Vector3d rate(-l1 * c1 * u1 * u1 - l2 * c12 * w * w, -l1 * s1 * u1 * u1 - l2 * s12 * w * w, 0);
  EXPECT_LT((robot.jacobian_rate_times_v(tip).head<3>() - rate).norm(), 1e-13);
  EXPECT_LT(robot.jacobian_rate_times_v(tip).tail<3>().norm(), 1e-15);
  EXPECT_EQ(robot.joint_frame("elbow").body, BodyId{2});
  EXPECT_EQ(robot.frame("elbow").body, BodyId{2});
  EXPECT_EQ(robot.frame("lower").body, robot.body_frame("lower").body);
  EXPECT_LT((robot.pose(robot.joint_frame("elbow")).p - Vector3d(c1, s1, 0)).norm(), 1e-14);
}

// A stretched arm cannot accelerate its tip along itself by its joints, and no joint feels a force there.
TEST(RobotDynamics, OperationalSpaceOfAStretchedArmLacksADirection) {
  RobotDynamics robot(scene::load_text(two_bars, "two.toml"));
  BodyFrame tip = robot.body_frame("lower");
  tip.p_BQ = {0.5, 0, 0};
  robot.set_state(VectorX{{0, 0}}, VectorX{{0, 0}});
  const MatrixX J = robot.jacobian(tip).topRows(2);
  const scene::OperationalSpace at = robot.operational_space(J);
  EXPECT_EQ(at.rank, 1);
  const MatrixX inverse = J * robot.mass_matrix().inverse() * J.transpose();
  EXPECT_NEAR(at.inverse_inertia(1, 1), inverse(1, 1), 1e-13);
  EXPECT_NEAR(at.inertia(1, 1), 1 / inverse(1, 1), 1e-13);
  EXPECT_NEAR(at.inertia(0, 0), 0, 1e-13);
  robot.set_state(VectorX{{0.3, 0.8}}, VectorX{{0, 0}});
  const MatrixX bent = robot.jacobian(tip).topRows(2);
  const scene::OperationalSpace full = robot.operational_space(bent);
  EXPECT_EQ(full.rank, 2);
  EXPECT_LT((full.inertia * full.inverse_inertia - Eigen::Matrix2d::Identity()).norm(), 1e-12);
  EXPECT_LT((bent * full.jacobian_inverse - Eigen::Matrix2d::Identity()).norm(), 1e-12);
}

// ---- consistency ----

TEST(RobotDynamics, ForwardKinematicsMeetsTheJointsOfTheCore) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    const scene::Model model = random_robot(kind);
    const System system = model.system();
    RobotDynamics robot(model);
    RandomNumbers random(kind.seed);
    for (int k = 0; k < 3; ++k) {
      put_at_random_state(robot, random);
      Assembly at;
      at.layout = whole_system(system);
      assemble_constraints(system, robot.state(), at);
      for (const double x : at.position) EXPECT_LT(std::abs(x), 1e-13);
      for (const double x : at.velocity) EXPECT_LT(std::abs(x), 1e-12);
      const VectorX q = robot.q(), v = robot.v();
      robot.set_state(State(robot.state()));
      EXPECT_LT(robot.difference(q, robot.q()).norm(), 1e-12);
      EXPECT_LT((v - robot.v()).norm(), 1e-11);
    }
  }
}

TEST(RobotDynamics, AccelerationsAreThoseOfTheCore) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    const scene::Model model = random_robot(kind);
    const System system = model.system();
    RobotDynamics robot(model);
    RandomNumbers random(kind.seed);
    for (int k = 0; k < 3; ++k) {
      put_at_random_state(robot, random);
      const VectorX none = VectorX::Zero(robot.velocities());
      const scene::RobotAcceleration free = robot.forward_dynamics(none);
      EXPECT_LT(difference_to_core(robot, system, free.vdot), 1e-10);
      EXPECT_LT((robot.mass_matrix() * free.vdot + robot.bias_force() - robot.gravity_force()).norm(), 1e-11);
      EXPECT_LT((robot.inverse_mass_matrix() * robot.mass_matrix() -
                 MatrixX::Identity(robot.velocities(), robot.velocities()))
                    .norm(),
                1e-10);
    }
  }
}

// τ = Jᵀ F: a force on a link accelerates as its generalized force does.
TEST(RobotDynamics, AForceOnALinkIsItsGeneralizedForce) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    const scene::Model model = random_robot(kind);
    System system = model.system();
    RandomNumbers random(kind.seed);
    const BodyFrame frame{BodyId{kind.bodies - 1}, random.vector(1), random.rotation()};
    const Vector3d force = random.vector(20), moment = random.vector(5);
    system.add(Force("push", {frame.body}, [=](ForceFrame& f) {
      f.add_force(0, force, f[0].point(frame.p_BQ));
      f.add_moment(0, moment);
    }));
    RobotDynamics robot(model);
    put_at_random_state(robot, random);
    const VectorX tau = robot.generalized_force(frame, force, moment);
    EXPECT_LT(difference_to_core(robot, system, robot.forward_dynamics(tau).vdot), 1e-10);
    // and the frame as a task: what the force adds is Λ⁻¹ F
    const VectorX none = VectorX::Zero(robot.velocities());
    Vector6 F;
    F << force, moment;
    const VectorX added = robot.forward_dynamics(tau).vdot - robot.forward_dynamics(none).vdot;
    const Vector6 by_inertia = robot.operational_space(frame).inverse_inertia * F;
    EXPECT_LT((robot.jacobian(frame) * added - by_inertia).norm(), 1e-10 * by_inertia.norm());
  }
}

// The drives of the core's bodies are τ.
TEST(RobotDynamics, DrivesActAsTheirCoordinates) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    const scene::Model model = random_robot(kind);
    System system = model.system();
    RobotDynamics robot(model);
    RandomNumbers random(kind.seed);
    put_at_random_state(robot, random);
    VectorX tau = random_velocity(random, robot.velocities(), 10);
    for (const RobotJoint& j : robot.joints())
      if (j.kind == RobotJoint::Kind::free_body) tau.segment<6>(j.velocity).setZero();
    const auto shared = std::make_shared<VectorX>(tau);
    system.add(robot.drive("drives", shared));
    EXPECT_LT(difference_to_core(robot, system, robot.forward_dynamics(tau).vdot), 1e-10);
    shared->resize(1);
    EXPECT_EQ(Dynamics(system).evaluate(robot.state()), Status::invalid);
  }
  const RobotDynamics robot(random_robot({.seed = 1}));
  EXPECT_THROW((void)robot.drive("drives", nullptr), std::invalid_argument);
}

TEST(RobotDynamics, JacobianAndItsRateAreDerivatives) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    RobotDynamics robot(random_robot(kind));
    RandomNumbers random(kind.seed);
    put_at_random_state(robot, random);
    const BodyFrame frame{BodyId{kind.bodies}, random.vector(1), random.rotation()};
    const VectorX q = robot.q(), v = robot.v();
    EXPECT_LT((robot.jacobian(frame) * v - robot.velocity(frame)).norm(), 1e-12);
    const Vector6 rate = robot.jacobian_rate_times_v(frame);
    const double e = 1e-5;
    const auto at = [&](double s) {
      robot.set_state(robot.moved(q, VectorX(s * v)), v);
      return std::pair(Vector6(robot.jacobian(frame) * v), robot.pose(frame));
    };
    const auto [before, pose_before] = at(-e);
    const auto [after, pose_after] = at(e);
    EXPECT_LT((rate - (after - before) / (2 * e)).norm(), 1e-6 * (1 + rate.norm()));
    robot.set_state(q, v);
    Vector6 moved;
    moved << pose_after.p - pose_before.p, turn_between(pose_before.q, pose_after.q);
    EXPECT_LT((moved / (2 * e) - robot.velocity(frame)).norm(), 1e-7 * (1 + moved.norm() / e));
  }
}

TEST(RobotDynamics, MomentumAndEnergyAreSumsOverBodies) {
  for (const RandomRobot& kind : kinds_of_robots()) {
    SCOPED_TRACE(kind.seed);
    const scene::Model model = random_robot(kind);
    const System system = model.system();
    RobotDynamics robot(model);
    RandomNumbers random(kind.seed);
    put_at_random_state(robot, random);
    const scene::RobotMomentum of = robot.momentum();
    EXPECT_NEAR(of.kinetic_energy, 0.5 * robot.v().dot(robot.mass_matrix() * robot.v()), 1e-11);
    Vector3d linear = Vector3d::Zero(), angular = Vector3d::Zero();
    for (int i = 1; i < system.body_count(); ++i) {
      const BodyId id{i};
      const BodyState& s = robot.state()[id];
      linear += system.mass(id) * s.v;
      angular += (s.p - of.centre).cross(system.mass(id) * s.v) + system.world_inertia(id, s.q) * s.w;
    }
    EXPECT_LT((of.linear - linear).norm() + (of.angular - angular).norm(), 1e-11);
    const VectorX six = robot.momentum_matrix() * robot.v();
    EXPECT_LT((six.head<3>() - linear).norm() + (six.tail<3>() - angular).norm(), 1e-11);
    EXPECT_LT((of.velocity * of.mass - linear).norm(), 1e-12);
    // g is what the potential energy loses
    const VectorX q = robot.q(), v = robot.v();
    const double e = 1e-5;
    robot.set_state(robot.moved(q, VectorX(e * v)), v);
    const double after = robot.momentum().potential_energy;
    robot.set_state(robot.moved(q, VectorX(-e * v)), v);
    const double before = robot.momentum().potential_energy;
    robot.set_state(q, v);
    EXPECT_NEAR(robot.gravity_force().dot(v), -(after - before) / (2 * e), 1e-6);
  }
}

// ---- loops ----

// Model of a file without what RobotDynamics leaves out: forces, laws, unilateral constraints.
scene::Model bare(scene::Model model) {
  model.forces.clear();
  std::erase_if(model.constraints, [](const scene::SceneConstraint& c) { return c.yields() || c.unilateral; });
  for (scene::SceneConstraint& c : model.constraints) c.laws.clear(), c.coefficients.clear();
  return model;
}
std::string file(const std::string& name) { return std::string(LINCHPIN_SOURCE_DIR) + "/" + name; }

TEST(RobotDynamics, WithLoopsAccelerationsAreThoseOfTheCore) {
  for (const char* name :
       {"demos/scenes/four-bar.toml", "demos/scenes/four-bar-robot.toml", "demos/scenes/delta-robot.toml",
        "demos/scenes/differential.toml", "demos/scenes/slider-crank.toml", "demos/scenes/bricard.toml",
        "demos/scenes/robot-arm.toml", "demos/scenes/rolling-disk.toml", "demos/scenes/gears.toml",
        "demos/scenes/flyball-governor.toml", "demos/scenes/arm-at-wall.toml", "demos/scenes/screw-jack.toml",
        "demos/scenes/winch.toml", "tests/scenes/redundant-delta-robot.toml"}) {
    SCOPED_TRACE(name);
    scene::Model model;
    try {
      model = bare(scene::load(file(name)));
    } catch (const scene::SceneError& e) {
      if (e.message.find("built without URDF") != std::string::npos) continue;
      throw;
    }
    System system = model.system();
    StepOptions options = model.options;
    options.method = Method::rk4;
    Stepper stepper(system, system.initial_state(), options);
    RobotDynamics robot(model);
    for (int k = 0; k < 20; ++k) {
      robot.set_state(stepper.state());
      const scene::RobotConstraints rows = robot.constraints();
      if (rows.position.size()) {
        EXPECT_LT(rows.position.cwiseAbs().maxCoeff(), 1e-9);
      }
      const scene::RobotAcceleration a = robot.forward_dynamics(VectorX::Zero(robot.velocities()));
      EXPECT_LT(difference_to_core(robot, system, a.vdot), 1e-10) << k;
      const double size = 1 + robot.gravity_force().norm() + a.constraint_force.norm();
      EXPECT_LT((robot.mass_matrix() * a.vdot + robot.bias_force() - robot.gravity_force() - a.constraint_force).norm(),
                1e-10 * size);
      if (rows.A.rows()) {
        EXPECT_LT((rows.A.transpose() * a.lambda - a.constraint_force).norm(), 1e-9 * size);
      }
      stepper.step(model.dt);
    }
  }
}

// What a loop leaves of a motion, against the core's answer to a unit wrench.
TEST(RobotDynamics, OperationalSpaceContainsTheLoops) {
  const scene::Model model = bare(scene::load(file("demos/scenes/four-bar.toml")));
  RobotDynamics robot(model);
  ASSERT_FALSE(robot.constraint_names().empty());
  const int n = robot.velocities();
  const BodyFrame frame{robot.joints().back().child, Vector3d(0.1, 0.2, 0), Quaterniond::Identity()};
  const scene::OperationalSpace at = robot.operational_space(frame);
  EXPECT_EQ(at.rank, 1);  // a mechanism of one degree of freedom
  const VectorX rest = robot.forward_dynamics(VectorX::Zero(n)).vdot;
  for (int k = 0; k < 6; ++k) {
    Vector6 F = Vector6::Zero();
    F[k] = 1;
    const VectorX tau = robot.generalized_force(frame, F.head<3>(), F.tail<3>());
    const VectorX added = robot.forward_dynamics(tau).vdot - rest;
    EXPECT_LT((robot.jacobian(frame) * added - at.inverse_inertia.col(k)).norm(), 1e-11 * (1 + added.norm()));
    EXPECT_LT((robot.inverse_mass_matrix() * tau - added).norm(), 1e-11 * (1 + added.norm()));
  }
  // Moore–Penrose: Λ Λ⁻¹ Λ = Λ, and both products are symmetric.
  const MatrixX product = at.inertia * at.inverse_inertia;
  EXPECT_LT((product * at.inertia - at.inertia).norm(), 1e-10 * at.inertia.norm());
  EXPECT_LT((product - product.transpose()).norm(), 1e-10);
  const MatrixX A = robot.constraints().A;
  EXPECT_LT((A * at.jacobian_inverse).norm(), 1e-10 * A.norm() * at.jacobian_inverse.norm());
}

// One drive moves a linkage: the torque for a motion that the loop allows brings about that motion.
TEST(RobotDynamics, DrivesOfALinkageGiveTheWantedMotion) {
  const scene::Model model = bare(scene::load(file("demos/scenes/four-bar.toml")));
  RobotDynamics robot(model);
  const int n = robot.velocities();
  RandomNumbers random(3);
  const VectorX push = random_velocity(random, n, 10);
  const VectorX vdot = robot.forward_dynamics(push).vdot;  // a motion that the loop allows
  const int drives[] = {robot.joints().front().velocity};
  const scene::DriveForces by = robot.inverse_dynamics(vdot, drives);
  EXPECT_LT(by.residual, 1e-9);
  EXPECT_NE(by.tau[drives[0]], 0);
  EXPECT_LT((robot.forward_dynamics(by.tau).vdot - vdot).norm(), 1e-9 * (1 + vdot.norm()));
  // No drive at all cannot.
  EXPECT_GT(robot.inverse_dynamics(vdot, std::span<const int>()).residual, 1e-3);
}

// Without contact the joints of a free robot cannot move its centre of mass.
TEST(RobotDynamics, DrivesDoNotLiftAFreeBase) {
  RobotDynamics robot(random_robot({.seed = 9, .bodies = 5, .floating = true}));
  const int n = robot.velocities();
  std::vector<int> drives;
  for (int i = 6; i < n; ++i) drives.push_back(i);
  const VectorX falls = robot.forward_dynamics(VectorX::Zero(n)).vdot;
  const scene::DriveForces none = robot.inverse_dynamics(falls, drives);
  EXPECT_LT(none.residual + none.tau.norm(), 1e-10);
  EXPECT_GT(robot.inverse_dynamics(VectorX::Zero(n), drives).residual, 1);
}

// ---- coordinates ----

TEST(RobotDynamics, CoordinatesAreThoseOfTheChannels) {
  const std::string text = std::string(two_bars) + R"_(
[[log]]
channel = "joint_position(shoulder)"
[[log]]
channel = "joint_velocity(shoulder)"
)_";
  const scene::Model model = scene::load_text(text, "two.toml");
  System system = model.system();
  StepOptions options = model.options;
  options.method = Method::rk4;
  RobotDynamics robot(model);
  robot.set_state(VectorX{{0.3, -0.4}}, VectorX{{3, 30}});
  Stepper stepper(system, robot.state(), options);
  double most = 0;
  for (int k = 0; k < 300; ++k) {  // the shoulder turns several times
    robot.set_state(stepper.state());
    const scene::Observation at{system, stepper.state(), {}};
    ASSERT_NEAR(robot.q()[0], model.logs[0](at)[0], 1e-11);
    ASSERT_NEAR(robot.v()[0], model.logs[1](at)[0], 1e-11);
    most = std::max(most, std::abs(robot.q()[0]));
    ASSERT_EQ(stepper.step(0.01).status, Status::ok);
  }
  EXPECT_GT(most, 7);
}

// A gear counts whole turns along the way from one state to the next.
TEST(RobotDynamics, AGearFollowsWholeTurns) {
  RobotDynamics robot(scene::load(file("demos/scenes/gears.toml")));
  ASSERT_EQ(robot.velocities(), 2);
  const auto gap = [&](double small, double large) {
    robot.set_state(VectorX{{small, large}}, VectorX::Zero(2));
    return robot.constraints().position[0];
  };
  EXPECT_NEAR(gap(20, -10), 0, 1e-12);
  EXPECT_NEAR(std::abs(gap(20, -9)), 2, 1e-12);
  EXPECT_NEAR(gap(-50, 25), 0, 1e-12);
}

TEST(RobotDynamics, DifferenceUndoesAMotion) {
  const RobotDynamics robot(random_robot({.seed = 4, .bodies = 6, .floating = true, .balls = true}));
  RandomNumbers random(2);
  const VectorX dq = random_velocity(random, robot.velocities(), 1.5);
  const VectorX to = robot.moved(robot.q(), dq);
  EXPECT_LT((robot.difference(robot.q(), to) - dq).norm(), 1e-13);
}

TEST(RobotDynamics, OneMechanismOfSeveralCanBeTaken) {
  scene::Model model = random_robot({.seed = 1, .bodies = 4});
  scene::SceneBody crate;
  crate.name = "crate", crate.mass = 3, crate.inertia = Matrix3d::Identity();
  model.bodies.push_back(crate);
  const RobotDynamics whole(model);
  const RobotDynamics arm(model, {.body = "body2"});
  EXPECT_EQ(whole.velocities(), arm.velocities() + 6);
  EXPECT_EQ(whole.joints()[0].name, "crate");
  EXPECT_NEAR(whole.momentum().mass, arm.momentum().mass + 3, 1e-13);
  const int n = arm.velocities();
  EXPECT_LT((whole.mass_matrix().bottomRightCorner(n, n) - arm.mass_matrix()).norm(), 1e-13);
  EXPECT_THROW((void)arm.frame("crate"), std::invalid_argument);
  EXPECT_THROW((void)arm.body_frame("crate"), std::invalid_argument);
}

// A pendulum on a kinematic body: its acceleration is a force of inertia.
TEST(RobotDynamics, AKinematicBaseCarriesTheTree) {
  const scene::Model model = scene::load_text(R"_(schema = 2
[[body]]
name = "cart"
kind = "kinematic"
motion = { position = "[0.3*sin(5*t), 0, 0]" }
[[body]]
name = "bob"
mass = 2
inertia = [0.1, 0.1, 0.1]
position = [0, -0.5, 0]
[[joint]]
name = "pin"
type = "hinge"
a = "cart"
b = "bob"
at = [0, 0, 0]
axis = [0, 0, 1]
)_",
                                              "cart.toml");
  RobotDynamics robot(model);
  ASSERT_EQ(robot.velocities(), 1);
  const double t = 0.37, q = 0.6, a = -0.3 * 25 * std::sin(5 * t);
  robot.set_state(VectorX{{q}}, VectorX{{1.3}}, t);
  EXPECT_NEAR(robot.mass_matrix()(0, 0), 0.1 + 2 * 0.25, 1e-13);
  EXPECT_NEAR(robot.bias_force()[0], 2 * 0.5 * std::cos(q) * a, 1e-9);
  EXPECT_NEAR(robot.gravity_force()[0], -2 * 9.81 * 0.5 * std::sin(q), 1e-12);
  const System system = model.system();
  EXPECT_LT(difference_to_core(robot, system, robot.forward_dynamics(VectorX::Zero(1)).vdot), 1e-9);
}

// ---- errors ----

TEST(RobotDynamics, RefusesWhatItDoesNotSupport) {
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([] {
              RobotDynamics(scene::load(file("demos/scenes/andrews.toml")));
            }).find("\"beta\" is a generalized coordinate of the scene"),
            std::string::npos);
  const scene::Model model = scene::load_text(two_bars, "two.toml");
  EXPECT_NE(message([&] { RobotDynamics(model, {.body = "uper"}); }).find("there is no movable body \"uper\""),
            std::string::npos);
  EXPECT_NE(message([&] { RobotDynamics(model, {.without = {"elbo"}}); }).find("there is no constraint \"elbo\""),
            std::string::npos);
  EXPECT_NE(message([] { (void)RobotDynamics(scene::Model()); }).find("no body that can move"), std::string::npos);
  RobotDynamics robot(model);
  EXPECT_NE(message([&] { robot.set_state(VectorX::Zero(3), VectorX::Zero(2)); }).find("q has 3 components"),
            std::string::npos);
  EXPECT_NE(message([&] {
              robot.set_state(VectorX{{0, NAN}}, VectorX::Zero(2));
            }).find("not finite"),
            std::string::npos);
  EXPECT_NE(message([&] { robot.set_state(State()); }).find("the state has 0 bodies"), std::string::npos);
  EXPECT_NE(message([&] { (void)robot.joint("wrist"); }).find("There are \"shoulder\", \"elbow\""), std::string::npos);
  EXPECT_NE(message([&] { (void)robot.pose({BodyId{9}}); }).find("body 9"), std::string::npos);
  const int twice[] = {0, 0};
  EXPECT_NE(message([&] { (void)robot.inverse_dynamics(VectorX::Zero(2), twice); }).find("twice"), std::string::npos);
  const auto result = try_call([&] { return RobotDynamics(model, {.body = "uper"}); });
  EXPECT_EQ(result.error().kind, ErrorKind::argument);
}

TEST(RobotDynamics, NamesWhatIsLeftOut) {
  const scene::Model model = scene::load(file("demos/scenes/arm-at-wall.toml"));
  const RobotDynamics robot(model, {.without = {model.constraints.back().name}});
  ASSERT_FALSE(robot.left_out().empty());
  bool said = false;
  for (const scene::Note& note : robot.left_out())
    said = said || note.text == "\"" + model.constraints.back().name + "\" is left out by the options";
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace linchpin::test::robot_dynamics_test
