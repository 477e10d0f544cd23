// Thirty public robots by their structure (robots.txt): linchpin against dynamics that are written from the table
// (reference.h) and against btMultiBody, without a host and in Bullet, as bodies and as multibodies, with damping and
// friction and without. All comparisons are relative to the largest value of the robot, and hold to 1e-9.
#include "reference.h"
#include "table.h"
#include "tolerances.h"

#include <built.h>

#include <linchpin/bullet.h>
#include <linchpin/dynamics.h>
#include <linchpin/scene.h>
#include <linchpin/scene/robot_dynamics.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace linchpin::test::robots_test {
namespace {

using namespace robots;
using scene::BodyFrame;
using scene::RobotDynamics;
using scene::RobotJoint;

const std::vector<Robot>& all_robots() {
  static const std::vector<Robot> robots = read_robots(LINCHPIN_SOURCE_DIR "/tests/robots/robots.txt");
  return robots;
}
// Of each robot. Beyond them, state 5 of mujoco_humanoid is next to a gimbal lock of a hip whose links have no mass.
// The least eigenvalue of the mass matrix of the reference, scaled to a unit diagonal, is 5e-10 there, and the
// reference keeps 1e-8. The hosts agree with each other to 1e-9 in 40 states of each robot.
constexpr unsigned states = 4;
constexpr double dt = 1.0 / 240;  // [s] of the step that a host takes from a state. Its reports are of the state.

/// Quantities of one kind, and how far apart two ways to them are, relative to the largest.
class Apart {
 public:
  explicit Apart(double least = 0) : size_(least) {}  ///< of the largest value
  void see(const Matrix& is, const Matrix& should) {
    if (should.size() == 0) return;
    size_ = std::max(size_, should.cwiseAbs().maxCoeff());
    const double off = (is - should).cwiseAbs().maxCoeff();
    worst_ = off <= worst_ ? worst_ : off;  // a NaN stays
  }
  double relative() const { return worst_ == 0 ? 0 : worst_ / size_; }
  double size() const { return size_; }

 private:
  double worst_ = 0, size_;
};
/// D⁻¹ M D⁻¹. @param like  D² is its diagonal.
Matrix with_unit_diagonal(Matrix M, const Matrix& like) {
  for (Eigen::Index i = 0; i < M.rows(); ++i)
    for (Eigen::Index k = 0; k < M.cols(); ++k) M(i, k) /= std::sqrt(like(i, i) * like(k, k));
  return M;
}
#define EXPECT_TOGETHER(apart) EXPECT_LE((apart).relative(), scaled(1e-9)) << #apart << " of size " << (apart).size()

// ---- a robot in linchpin ----

// Each test has its own folder: ctest runs them side by side.
std::string file_of(const Robot& robot, bool losses, const std::string& of) {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const auto folder = std::filesystem::path(testing::TempDir()) / "linchpin-robots" / test.substr(0, test.find('/'));
  std::filesystem::create_directories(folder);
  const std::string name = robot.name + "-" + of + (losses ? "-losses" : "");
  std::ofstream(folder / (name + ".urdf")) << urdf(robot, losses);
  return (folder / name).string();
}
std::string in_toml(const Vector3d& v) { return "[" + exact(v.x()) + ", " + exact(v.y()) + ", " + exact(v.z()) + "]"; }

/// The scene at the state of a reference. @param axes  of the links that loops join, in the axes of their bodies
std::string scene_text(const Robot& robot, const Reference& at, const std::string& file, const std::string& as,
                       const std::map<int, Quaterniond>& axes) {
  const Eigen::AngleAxisd turn(at.base_R);
  std::string out = "schema = 2\n[model]\nurdf = \"" + file + ".urdf\"\nas = \"" + as +
                    "\"\nposition = " + in_toml(at.base_p) + "\nrotation = { axis = " + in_toml(turn.axis()) +
                    ", angle = " + exact(turn.angle()) + " }\nfixed_base = " + (robot.free ? "false\n" : "true\n");
  std::string positions, rates;
  for (std::size_t i = 0; i < robot.links.size(); ++i) {
    const Link& link = robot.links[i];
    if ((link.kind != JointKind::hinge && link.kind != JointKind::slider) || link.leader >= 0) continue;
    positions += (positions.empty() ? "" : ", ") + link.joint() + " = " + exact(at.q[i]);
    rates += (rates.empty() ? "" : ", ") + link.joint() + " = " + exact(at.u[at.first(static_cast<int>(i))]);
  }
  out += "joints = { " + positions + " }\nrates = { " + rates + " }\n";
  if (robot.free) {
    const Vector3d w = at.u.segment<3>(3), r = at.point(0, Vector3d::Zero()) - at.centre(0);
    out += "velocity = " + in_toml(Vector3d(at.u.head<3>()) + w.cross(r)) + "\nangular_velocity = " + in_toml(w) + "\n";
  }
  if (axes.empty()) return out;
  for (const Loop& loop : robot.loops) {
    const Link &a = robot.link(loop.a), &b = robot.link(loop.b);
    out += "[[joint]]\nname = \"" + loop.name + "\"\ntype = \"" + (loop.pin ? "point_on_line" : "ball") + "\"\na = \"" +
           a.name + "\"\nb = \"" + b.name + "\"\nat_a = " + in_toml(axes.at(loop.a) * Vector3d(loop.at_a - a.com)) +
           "\nat_b = " + in_toml(axes.at(loop.b) * Vector3d(loop.at_b - b.com)) + "\n";
    if (loop.pin) out += "axis_a = " + in_toml(axes.at(loop.a) * loop.axis) + "\n";
  }
  return out;
}

BodyId body_of(const scene::Model& model, const std::string& name) {
  for (std::size_t i = 0; i < model.bodies.size(); ++i)
    if (model.bodies[i].name == name) return BodyId{static_cast<int>(i) + 1};
  return ground;
}
scene::SceneBody& at(scene::Model& model, BodyId id) { return model.bodies[static_cast<std::size_t>(id.index) - 1]; }

bool has_balls(const Robot& robot) {
  return std::any_of(robot.links.begin(), robot.links.end(), [](const Link& l) { return l.kind == JointKind::ball; });
}
/// Links without mass that a joint moves: there are compound joints then.
bool has_compounds(const Robot& robot) {
  return std::any_of(robot.links.begin(), robot.links.end(),
                     [](const Link& l) { return l.parent >= 0 && l.mass == 0; });
}

/// The model at the state of a reference.
scene::Model model_of(const Robot& robot, const Reference& at_state, bool losses, const std::string& as) {
  const std::string file = file_of(robot, losses, as);
  std::map<int, Quaterniond> axes;
  if (!robot.loops.empty()) {
    scene::Model open = scene::load_text(scene_text(robot, at_state, file, as, {}), file + ".toml");
    for (const Loop& loop : robot.loops)
      for (const int link : {loop.a, loop.b}) axes[link] = at(open, body_of(open, robot.link(link).name)).link_axes;
  }
  scene::Model model = scene::load_text(scene_text(robot, at_state, file, as, axes), file + ".toml");
  if (!has_balls(robot)) return model;
  // A scene begins with its ball joints at 0 and at rest; the state has them elsewhere.
  const Reference::Motion m = at_state.motion(Vector::Zero(at_state.dof()));
  for (int i = 0; i < static_cast<int>(robot.links.size()); ++i) {
    const BodyId id = body_of(model, robot.link(i).name);
    if (id == ground) continue;
    BodyState& s = at(model, id).start;
    s.p = at_state.centre(i), s.v = at_state.velocity(m, i, s.p), s.w = m.w[static_cast<std::size_t>(i)];
    s.q = Quaterniond(Eigen::Quaterniond(at_state.R(i))) * at(model, id).link_axes.conjugate();
  }
  return model;
}

// ---- joint space, and without a host ----

class OfStructure : public testing::TestWithParam<Robot> {};

TEST_P(OfStructure, JointSpaceIsThatOfTheReference) {
  const Robot& robot = GetParam();
  for (unsigned seed = 1; seed <= states; ++seed) {
    SCOPED_TRACE(seed);
    Reference ref(robot, false);
    ref.put_at_random(seed);
    const scene::Model model = model_of(robot, ref, false, "bodies");
    RobotDynamics dynamics(model);
    dynamics.set_state(model.system().initial_state());
    const auto n = static_cast<int>(robot.links.size());
    const Reference::Answer answer = ref.solve();

    // What does not depend on coordinates: places, and how forces on bodies move bodies.
    Apart places, operational, accelerations;
    std::vector<int> with_mass;
    for (int i = 0; i < n; ++i)
      if (robot.link(i).mass > 0 && (i > 0 || robot.free)) with_mass.push_back(i);
    Matrix J(6 * static_cast<int>(with_mass.size()), dynamics.velocities());
    Matrix J_ref(J.rows(), ref.dof());
    const Vector vdot = dynamics.forward_dynamics(VectorX::Zero(dynamics.velocities())).vdot;
    for (std::size_t k = 0; k < with_mass.size(); ++k) {
      const int i = with_mass[k];
      const BodyFrame frame = dynamics.body_frame(robot.link(i).name);
      places.see(dynamics.pose(frame).p, ref.centre(i));
      places.see(dynamics.pose(frame).q.toRotationMatrix(), ref.R(i));
      J.middleRows<6>(6 * static_cast<int>(k)) = dynamics.jacobian(frame);
      J_ref.middleRows<6>(6 * static_cast<int>(k)) = ref.jacobian(i);
      accelerations.see(dynamics.jacobian(frame) * vdot + dynamics.jacobian_rate_times_v(frame),
                        ref.acceleration(answer.motion, i));
    }
    EXPECT_TOGETHER(places);
    EXPECT_TOGETHER(accelerations);
    operational.see(J * Matrix(dynamics.inverse_mass_matrix()) * J.transpose(),
                    J_ref * answer.response * J_ref.transpose());
    EXPECT_TOGETHER(operational);
    if (has_compounds(robot)) continue;  // Their coordinates are not those of the table.

    // T u = v: the same coordinates in another order.
    Matrix T = Matrix::Zero(dynamics.velocities(), ref.dof());
    ASSERT_EQ(T.rows(), T.cols());
    for (const RobotJoint& j : dynamics.joints()) {
      const std::string& name = j.name;
      const int link =
          j.kind == RobotJoint::Kind::free_body ? robot.index(name) : robot.index(name.substr(0, name.size() - 6));
      T.block(j.velocity, ref.first(link), j.velocities, j.velocities).setIdentity();
    }
    Apart rates, mass_matrix, bias, gravity, jacobians, jacobian_rates;
    rates.see(dynamics.v(), T * ref.u);
    const Matrix M = ref.mass_matrix();
    mass_matrix.see(with_unit_diagonal(T.transpose() * Matrix(dynamics.mass_matrix()) * T, M),
                    with_unit_diagonal(M, M));
    bias.see(dynamics.bias_force(), T * ref.bias_force());
    gravity.see(dynamics.gravity_force(), T * ref.gravity_force());
    jacobians.see(J * T, J_ref);
    const Reference::Motion still = ref.motion(Vector::Zero(ref.dof()));
    for (const int i : with_mass)
      jacobian_rates.see(dynamics.jacobian_rate_times_v(dynamics.body_frame(robot.link(i).name)),
                         ref.acceleration(still, i));
    EXPECT_TOGETHER(rates);
    EXPECT_TOGETHER(mass_matrix);
    EXPECT_TOGETHER(bias);
    EXPECT_TOGETHER(gravity);
    EXPECT_TOGETHER(jacobians);
    EXPECT_TOGETHER(jacobian_rates);
  }
}

// ---- hosts ----

/// What one way of solving says: accelerations of bodies, and wrenches about the centre of mass of the body on which
/// they act. They are those of joints by their links, of loops on their second body and of mimics on their own link.
struct Forces {
  std::map<std::string, Vector6> acceleration, wrench, sensor;
};
void compare(const Forces& is, const Forces& should) {
  // Where a robot falls freely, its angular accelerations are small differences of what gravity gives to its links. So
  // they are measured by gravity on an arm of 1 m at least.
  constexpr double g = 9.81;
  Apart acceleration, angular_acceleration(g), force, moment;
  ASSERT_EQ(is.acceleration.size(), should.acceleration.size());
  ASSERT_EQ(is.wrench.size(), should.wrench.size());
  for (const auto& [name, a] : should.acceleration) {
    acceleration.see(is.acceleration.at(name).head<3>(), a.head<3>());
    angular_acceleration.see(is.acceleration.at(name).tail<3>(), a.tail<3>());
  }
  for (const auto& [name, w] : should.wrench) {
    force.see(is.wrench.at(name).head<3>(), w.head<3>());
    moment.see(is.wrench.at(name).tail<3>(), w.tail<3>());
  }
  if (!is.sensor.empty() && !should.sensor.empty())
    for (const auto& [name, w] : is.sensor) {
      force.see(w.head<3>(), should.sensor.at(name).head<3>());
      moment.see(w.tail<3>(), should.sensor.at(name).tail<3>());
    }
  EXPECT_TOGETHER(acceleration);
  EXPECT_TOGETHER(angular_acceleration);
  EXPECT_TOGETHER(force);
  EXPECT_TOGETHER(moment);
}

Forces of_reference(const Robot& robot, const Reference& ref) {
  Forces out;
  const Reference::Answer answer = ref.solve();
  for (const auto& [name, load] : answer.closing) out.wrench[name] << load.force, load.moment;
  for (int i = 0; i < static_cast<int>(robot.links.size()); ++i) {
    const Link& link = robot.link(i);
    if (link.mass == 0 || (i == 0 && !robot.free)) continue;
    out.acceleration[link.name] = ref.acceleration(answer.motion, i);
    if (link.parent < 0) continue;
    const Reference::Load& load = answer.transmitted[static_cast<std::size_t>(i)];
    out.wrench[link.name] << load.force, load.moment;
  }
  out.sensor = out.wrench;
  return out;
}

/// From the reactions of all constraints, at the state to which they belong.
Forces of_reactions(const Robot& robot, const scene::Model& model, const State& state,
                    std::span<const Reaction> reactions) {
  Forces out;
  std::map<std::string, const scene::SceneConstraint*> by_name;
  for (const scene::SceneConstraint& c : model.constraints) by_name[c.name] = &c;
  std::vector<Vector6> on(model.bodies.size() + 1, Vector6::Zero());
  for (const Reaction& r : reactions) {
    const auto of = by_name.find(r.name);
    if (of == by_name.end()) continue;  // a limit
    for (std::size_t k = 0; k < of->second->bodies.size(); ++k) {
      const BodyId id = of->second->bodies[k];
      if (id == ground) continue;
      const Wrench w = r.on(static_cast<int>(k)).about(state[id].p);
      on[static_cast<std::size_t>(id.index)].head<3>() += w.force;
      on[static_cast<std::size_t>(id.index)].tail<3>() += w.moment;
    }
    // A compound joint has its damping beside it, as "NAME.damping".
    const bool mimic = of->second->type == "mimic";
    const bool loop =
        std::any_of(robot.loops.begin(), robot.loops.end(), [&](const Loop& l) { return l.name == r.name; });
    const BodyId body = of->second->bodies[mimic ? 0 : 1];
    const Wrench w = (mimic ? r.on_a : r.on_b).about(state[body].p);
    const std::string& key = mimic || loop ? r.name : model.bodies[static_cast<std::size_t>(body.index) - 1].name;
    auto [entry, first] = out.wrench.try_emplace(key, Vector6::Zero());
    entry->second.head<3>() += w.force, entry->second.tail<3>() += w.moment;
  }
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    const scene::SceneBody& body = model.bodies[i];
    if (body.kind != BodyKind::rigid) continue;
    const BodyState& s = state.bodies[i + 1];
    const Matrix3d I = s.R() * body.inertia * s.R().transpose();
    out.acceleration[body.name] << model.gravity + on[i + 1].head<3>() / body.mass,
        I.inverse() * (on[i + 1].tail<3>() - s.w.cross(I * s.w));
  }
  return out;
}

/// Without a host. The accelerations are those of the solver, not of its reactions.
Forces bare(const Robot& robot, const scene::Model& model) {
  const System system = model.system();
  Dynamics dynamics(system);
  const State state = system.initial_state();
  const Status status = dynamics.evaluate(state);
  EXPECT_TRUE(status == Status::ok || status == Status::redundant) << to_string(status) << " " << dynamics.reason();
  std::vector<Reaction> reactions;
  dynamics.reactions(state, reactions);
  Forces out = of_reactions(robot, model, state, reactions);
  const IslandLayout& layout = dynamics.assembly().layout;
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    const int k = layout.body_index(BodyId{static_cast<int>(i) + 1});
    if (k < 0 || model.bodies[i].kind != BodyKind::rigid) continue;
    const auto first = static_cast<std::size_t>(layout.column[static_cast<std::size_t>(k)]);
    for (std::size_t c = 0; c < 6; ++c)
      out.acceleration[model.bodies[i].name][static_cast<Eigen::Index>(c)] = dynamics.vdot()[first + c];
  }
  return out;
}

struct World {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher{&config};
  btDbvtBroadphase broadphase;
  btMultiBodyConstraintSolver native;
  btMultiBodyDynamicsWorld world{&dispatcher, &broadphase, &native, &config};
};

btQuaternion turn_of(const Matrix3d& R) {
  const Eigen::Quaterniond q(R);
  return {q.x(), q.y(), q.z(), q.w()};
}

/// Axes of the frame of a joint of a multibody's tree, in those of its second body.
Matrix3d ball_axes(const scene::Model& model, BodyId child) {
  for (const scene::SceneConstraint& c : model.constraints)
    if (c.tree && c.bodies[1] == child) return c.frame_b.axes;
  throw std::invalid_argument("no joint holds that body");
}

/// Puts the ball joints of multibodies where the reference has them.
void put_balls(const Robot& robot, const Reference& ref, bullet_scene::Built& built) {
  for (int i = 0; i < static_cast<int>(robot.links.size()); ++i) {
    if (robot.link(i).kind != JointKind::ball) continue;
    const BodyId id = body_of(built.model(), robot.link(i).name);
    const bullet::Link link = built.multibodies()->link(id);
    const Matrix3d B = ball_axes(built.model(), id), turn = ref.ball[static_cast<std::size_t>(i)];
    const btQuaternion q = turn_of(B * turn * B.transpose());
    const Vector3d w = B * turn.transpose() * ref.u.segment<3>(ref.first(i));
    const btScalar position[4] = {q.x(), q.y(), q.z(), q.w()}, velocity[3] = {w.x(), w.y(), w.z()};
    link.body->setJointPosMultiDof(link.index, position);
    link.body->setJointVelMultiDof(link.index, velocity);
  }
  built.after_step(0);
}

/// In Bullet, by the first step from the state. @param after  states after the first steps
Forces in_bullet(const Robot& robot, const Reference& ref, const scene::Model& model, double step = dt,
                 std::span<State> after = {}) {
  World w;
  bullet_scene::Built built(model, w.world, {});
  if (built.multibodies() && has_balls(robot)) put_balls(robot, ref, built);
  bullet::Solver solver(w.world);
  for (const bullet_scene::Built::Joint& joint : built.joints()) (void)solver.try_name_joint(*joint.joint, joint.name);
  built.constrain(solver, true);
  const State state = built.state(0);
  built.before_step(0, step);
  w.world.stepSimulation(step, 0);
  const auto reactions = solver.reactions();
  for (const Reaction& r : reactions) EXPECT_EQ(r.native, r.name.ends_with(" limits")) << r.name;
  Forces out = of_reactions(robot, model, state, reactions);
  for (const scene::SceneConstraint& c : model.constraints) {
    if (!c.tree) continue;
    const Wrench sensor = solver.joint_wrench(built.multibodies()->joint(c)).about(state[c.bodies[1]].p);
    out.sensor[model.bodies[static_cast<std::size_t>(c.bodies[1].index) - 1].name] << sensor.force, sensor.moment;
  }
  for (std::size_t k = 0; k < after.size(); ++k) {
    if (k > 0) built.before_step(step, step), w.world.stepSimulation(step, 0);
    built.after_step(step);
    after[k] = built.state(step);
  }
  return out;
}

TEST_P(OfStructure, EveryHostAgreesDampedOrNot) {
  const Robot& robot = GetParam();
  for (const bool losses : {false, true})
    for (unsigned seed = 1; seed <= states; ++seed) {
      SCOPED_TRACE((losses ? "damped, state " : "state ") + std::to_string(seed));
      Reference ref(robot, losses);
      ref.put_at_random(seed);
      const scene::Model bodies = model_of(robot, ref, losses, "bodies");
      const scene::Model multibody = model_of(robot, ref, losses, "multibody");
      const Forces reference = of_reference(robot, ref), without_host = bare(robot, bodies),
                   as_bodies = in_bullet(robot, ref, bodies), as_multibody = in_bullet(robot, ref, multibody);
      const auto against = [&](const char* what, const Forces& is, const Forces& should) {
        SCOPED_TRACE(what);
        compare(is, should);
      };
      against("bare against the reference", without_host, reference);
      against("bodies against the reference", as_bodies, reference);
      against("a multibody against the reference", as_multibody, reference);
      against("bodies against bare", as_bodies, without_host);
      against("a multibody against bare", as_multibody, without_host);
      against("a multibody against bodies", as_multibody, as_bodies);
    }
}

// What is reported is what moves the bodies: over a short step the velocities change by the accelerations. Velocities
// of bodies are those of the middle of a step, so the change from the first step to the second is compared.
TEST_P(OfStructure, EveryHostMovesByItsAccelerations) {
  const Robot& robot = GetParam();
  // [s] The accelerations change by about their size times 10/s in it, and 1e-15 m of a pose is 1e-5 m/s² of it.
  constexpr double short_step = 1e-5;
  Reference ref(robot, false);
  ref.put_at_random(1);
  for (const char* as : {"bodies", "multibody"}) {
    SCOPED_TRACE(as);
    const scene::Model model = model_of(robot, ref, false, as);
    std::array<State, 2> after;
    const Forces forces = in_bullet(robot, ref, model, short_step, after);
    double worst = 0, size = 0;
    for (std::size_t i = 0; i < model.bodies.size(); ++i) {
      if (model.bodies[i].kind != BodyKind::rigid) continue;
      const BodyState &from = after[0].bodies[i + 1], &to = after[1].bodies[i + 1];
      const Vector6& a = forces.acceleration.at(model.bodies[i].name);
      Vector6 change;
      change << (to.v - from.v) / short_step, (to.w - from.w) / short_step;
      worst = std::max(worst, (change - a).norm()), size = std::max(size, a.norm());
    }
    EXPECT_LE(worst / size, scaled(1e-3));
  }
}

// ---- btMultiBody, by its articulated body algorithm and without linchpin ----

TEST_P(OfStructure, TheTreeIsThatOfBtMultiBody) {
  const Robot& robot = GetParam();
  if (has_compounds(robot)) return;  // Bullet needs a mass in every link.
  for (unsigned seed = 1; seed <= states; ++seed) {
    SCOPED_TRACE(seed);
    Reference closed(robot, false);
    closed.put_at_random(seed);
    const scene::Model model = model_of(robot, closed, false, "multibody");
    World w;
    bullet_scene::Built built(model, w.world, {});
    if (has_balls(robot)) put_balls(robot, closed, built);
    ASSERT_EQ(w.world.getNumMultibodies(), 1);
    btMultiBody& mb = *w.world.getMultiBody(0);
    Reference ref(robot, false, false);
    ref.take_state(closed);

    // T u: velocities of Bullet. Its base has [ω; v], its balls the axes of the child.
    const int skip = robot.free ? 0 : 6, n = 6 + mb.getNumDofs();
    Matrix T = Matrix::Zero(n - skip, ref.dof());
    ASSERT_EQ(T.rows(), T.cols());
    if (robot.free) T.block<3, 3>(0, 3).setIdentity(), T.block<3, 3>(3, 0).setIdentity();
    std::vector<bullet::Link> link(robot.links.size());
    for (int i = 0; i < static_cast<int>(robot.links.size()); ++i) {
      const BodyId id = body_of(model, robot.link(i).name);
      if (id != ground) link[static_cast<std::size_t>(i)] = built.multibodies()->link(id);
      const int count = i > 0 ? ref.count(static_cast<std::size_t>(i)) : 0;
      if (count == 0) continue;
      const int row = 6 - skip + mb.getLink(link[static_cast<std::size_t>(i)].index).m_dofOffset;
      if (count == 1) T(row, ref.first(i)) = 1;
      if (count == 3)
        T.block<3, 3>(row, ref.first(i)) = ball_axes(model, id) * ref.ball[static_cast<std::size_t>(i)].transpose();
    }
    Apart velocities, accelerations, inverse_mass, jacobians;
    const btScalar* v = mb.getVelocityVector();
    const Vector before = Eigen::Map<const Vector>(v, n);
    velocities.see(before.tail(n - skip), T * ref.u);

    mb.clearForcesAndTorques();
    const btVector3 g = bullet::to_bullet(model.gravity);
    if (robot.free) mb.addBaseForce(mb.getBaseMass() * g);
    for (int i = 0; i < mb.getNumLinks(); ++i) mb.addLinkForce(i, mb.getLinkMass(i) * g);
    btAlignedObjectArray<btScalar> reals;
    btAlignedObjectArray<btVector3> vectors;
    btAlignedObjectArray<btMatrix3x3> matrices;
    mb.computeAccelerationsArticulatedBodyAlgorithmMultiDof(1, reals, vectors, matrices, false, false, false);
    const Vector after = Eigen::Map<const Vector>(mb.getVelocityVector(), n);
    // In the axes of the child a ball gets the acceleration with the turn of these axes, as in Bullet's step.
    const Reference::Answer answer = ref.solve();
    accelerations.see((after - before).tail(n - skip), T * answer.udot);

    Matrix inverse(n - skip, n - skip);
    std::vector<btScalar> force(static_cast<std::size_t>(n)), result(force.size());
    for (int k = skip; k < n; ++k) {
      std::fill(force.begin(), force.end(), 0);
      force[static_cast<std::size_t>(k)] = 1;
      mb.calcAccelerationDeltasMultiDof(force.data(), result.data(), reals, vectors);
      inverse.col(k - skip) = Eigen::Map<const Vector>(result.data(), n).tail(n - skip);
    }
    const Matrix should = T * answer.response * T.transpose();
    inverse_mass.see(with_unit_diagonal(inverse, should), with_unit_diagonal(should, should));

    for (int i = 1; i < static_cast<int>(robot.links.size()); ++i) {
      const Vector3d p = ref.point(i, Vector3d(0.3, -0.2, 0.1));
      Matrix J(6, n - skip);
      for (int k = 0; k < 6; ++k) {
        const btVector3 axis = bullet::to_bullet(Vector3d::Unit(k % 3)), none(0, 0, 0);
        mb.fillConstraintJacobianMultiDof(link[static_cast<std::size_t>(i)].index, bullet::to_bullet(p),
                                          k < 3 ? none : axis, k < 3 ? axis : none, result.data(), reals, vectors,
                                          matrices);
        J.row(k) = Eigen::Map<const Vector>(result.data(), n).tail(n - skip).transpose();
      }
      jacobians.see(J * T, ref.jacobian(i, p));
    }
    EXPECT_TOGETHER(velocities);
    EXPECT_TOGETHER(accelerations);
    EXPECT_TOGETHER(inverse_mass);
    EXPECT_TOGETHER(jacobians);
  }
}

INSTANTIATE_TEST_SUITE_P(Robots, OfStructure, testing::ValuesIn(all_robots()),
                         [](const auto& each) { return each.param.name; });

TEST(Robots, AreThirty) { EXPECT_EQ(all_robots().size(), 30u); }

}  // namespace
}  // namespace linchpin::test::robots_test
