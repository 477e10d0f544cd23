// Reactions beside those of the core for the same bodies, joints and forces, in maximal coordinates. MuJoCo's force
// sensors beside the wrenches through joints.
#include "model.h"

#include "tolerances.h"

#include <linchpin/dynamics.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test::core_answer_test {
namespace {

/// Two trees in space, with every kind of joint, that a <connect> closes to a loop. A free body hangs on a weld, and
/// another one on a hinge of the program. The reaction of each constraint is determined.
const char* const scene = R"(<mujoco><option timestep="0.001"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body name="a" pos="0 0 1" euler="0 0 10"><joint name="ja" axis="0 1 0.1" pos="0.01 0.02 0"/>
    <geom type="box" size="0.2 0.05 0.03" mass="1" euler="5 0 20"/><site name="sa" pos="0.01 0.02 0" euler="20 30 0"/>
    <body name="b" pos="0.2 0 0"><joint name="jb" type="ball"/>
      <geom type="capsule" fromto="0 0 0 0 0.3 0.05" size="0.02" mass="0.5"/>
      <geom type="box" pos="0.1 0 0" size="0.02 0.03 0.04" mass="0.3"/><site name="sb" euler="0 10 0"/>
      <body name="c" pos="0 0.3 0.05"><joint name="jc" type="slide" axis="0.1 0 1"/>
        <geom type="box" pos="-0.1 0 0" size="0.1 0.03 0.04" mass="0.4"/><site name="sc" euler="0 0 40"/></body></body></body>
  <body name="d" pos="-0.2 0.3 1.2"><joint name="jd" axis="1 0 0.3"/>
    <geom type="box" pos="0.1 0.1 0" size="0.1 0.1 0.04" mass="0.6"/><site name="sd" euler="30 0 0"/></body>
  <body name="e" pos="0 -0.3 0.9" euler="10 20 30"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body>
  <body name="f" pos="0.5 -0.3 0.9" euler="40 20 30"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body>
</worldbody>
<equality><connect name="loop" body1="c" body2="d" anchor="-0.2 0.1 0"/><weld name="weld" body1="e" body2="a"/></equality>
<sensor><force site="sa"/><torque site="sa"/><force site="sb"/><torque site="sb"/><force site="sc"/><torque site="sc"/>
  <force site="sd"/><torque site="sd"/></sensor></mujoco>)";

Vector3d three(const mjtNum* x) { return {x[0], x[1], x[2]}; }
Quaterniond rotation(const mjtNum* q) { return Quaterniond(q[0], q[1], q[2], q[3]).normalized(); }

/// The same bodies in the core, in axes and about centres of mass that are those of MuJoCo's inertial frames.
struct Core {
  System system;
  std::vector<BodyId> ids;  ///< by body of MuJoCo
  explicit Core(const Model& m) {
    system.set_gravity(three(m.m().opt.gravity));
    ids.assign(static_cast<std::size_t>(m.m().nbody), ground);
    for (int i = 1; i < m.m().nbody; ++i)
      ids[static_cast<std::size_t>(i)] = system.add_body(mj_id2name(&m.m(), mjOBJ_BODY, i), m.m().body_mass[i],
                                                         three(m.m().body_inertia + 3 * i), Pose{});
  }
  BodyId id(int body) const { return ids[static_cast<std::size_t>(body)]; }
  /// The state of the data, whose kinematics are known.
  State state(const Model& m, mjData& d) const {
    State out = system.initial_state();
    for (int i = 1; i < m.m().nbody; ++i) {
      BodyState& s = out[id(i)];
      mjtNum v[6];
      mj_objectVelocity(&m.m(), &d, mjOBJ_BODY, i, v, 0);
      s.p = three(d.xipos + 3 * i);
      s.q = (rotation(d.xquat + 4 * i) * rotation(m.m().body_iquat + 4 * i)).normalized();
      s.w = three(v);
      s.v = three(v + 3);
    }
    return out;
  }
};

/// A point and a frame of the world, fixed in a body as it is now.
Vector3d in_body(const BodyState& s, const Vector3d& p) { return s.q.conjugate() * (p - s.p); }
JointFrame frame_in(const BodyState& s, const Vector3d& p, const Vector3d& x) {
  Matrix3d axes;
  const Vector3d u = x.normalized(), y = u.unitOrthogonal();
  axes << u, y, u.cross(y);
  return {in_body(s, p), Matrix3d(s.q.conjugate() * axes)};
}

/// Adds the joints and the equalities of the scene.
void add_constraints(const Model& m, mjData& d, Core& core) {
  const State at = core.state(m, d);
  for (int j = 0; j < m.m().njnt; ++j) {
    const int body = m.m().jnt_bodyid[j];
    const BodyId child = core.id(body), parent = core.id(m.m().body_parentid[body]);
    const std::string name = m.m().jnt_type[j] == mjJNT_FREE ? "" : mj_id2name(&m.m(), mjOBJ_JOINT, j);
    const Vector3d p = three(d.xanchor + 3 * j), u = three(d.xaxis + 3 * j);
    const BodyState &A = at[parent], &B = at[child];
    if (m.m().jnt_type[j] == mjJNT_HINGE)
      core.system.add(
          joints::hinge(name, parent, in_body(A, p), A.q.conjugate() * u, child, in_body(B, p), B.q.conjugate() * u));
    if (m.m().jnt_type[j] == mjJNT_BALL)
      core.system.add(joints::ball(name, parent, in_body(A, p), child, in_body(B, p)));
    if (m.m().jnt_type[j] == mjJNT_SLIDE)
      core.system.add(joints::slider(name, parent, frame_in(A, p, u), child, frame_in(B, p, u)));
  }
  for (int i = 0; i < m.m().neq; ++i) {
    const bool weld = m.m().eq_type[i] == mjEQ_WELD;
    const int a = m.m().eq_obj1id[i], b = m.m().eq_obj2id[i];
    const mjtNum* const anchor = m.m().eq_data + mjNEQDATA * i + (weld ? 3 : 0);
    const Vector3d p = three(d.xpos + 3 * a) + rotation(d.xquat + 4 * a) * three(anchor);
    const BodyState &A = at[core.id(a)], &B = at[core.id(b)];
    const std::string name = mj_id2name(&m.m(), mjOBJ_EQUALITY, i);
    if (weld)
      core.system.add(joints::weld(name, core.id(a), frame_in(A, p, Vector3d::UnitX()), core.id(b),
                                   frame_in(B, p, Vector3d::UnitX())));
    else
      core.system.add(joints::ball(name, core.id(a), in_body(A, p), core.id(b), in_body(B, p)));
  }
}

void push(const Model& m, mjData& d, int step) {
  for (int i = 1; i < m.m().nbody; ++i)
    for (int k = 0; k < 6; ++k) d.xfrc_applied[6 * i + k] = (k < 3 ? 3 : 0.1) * std::sin(0.1 * step + i + 2 * k);
}

/// Velocities that all joints allow, large enough for gyroscopic terms.
void start(const Model& m) {
  for (int k = 0; k < m.m().nv; ++k) m.d().qvel[k] = 2 * std::sin(1.7 * k);
}

void expect_near(const Wrench& is, const Wrench& expected, const std::string& what) {
  const Wrench e = expected.about(is.point);
  const double size = 1 + e.force.norm() + e.moment.norm();
  EXPECT_LE((is.force - e.force).norm(), scaled(1e-9) * size)
      << what << ": " << is.force.transpose() << " and " << e.force.transpose();
  EXPECT_LE((is.moment - e.moment).norm(), scaled(1e-9) * size)
      << what << ": " << is.moment.transpose() << " and " << e.moment.transpose();
}

TEST(Reactions, AreThoseOfTheCore) {
  const Model m{std::string(scene)};
  start(m);
  mujoco::Solver exact(m.m(), m.d());
  mj_kinematics(&m.m(), &m.d());
  const DataPointer at(mj_makeData(&m.m()));
  // A hinge of the program between two bodies.
  const Vector3d p_a = exact.point("a", {0.1, 0, 0}), u_a = exact.axis("a", {0, 0, 1});
  const int a = m.body("a"), f = m.body("f");
  const Vector3d p = three(m.d().xpos + 3 * a) + rotation(m.d().xquat + 4 * a) * Vector3d(0.1, 0, 0),
                 u = rotation(m.d().xquat + 4 * a) * Vector3d(0, 0, 1);
  const auto in_f = [&](const Vector3d& w) { return Vector3d(rotation(m.d().xquat + 4 * f).conjugate() * w); };
  const Vector3d p_f = exact.point("f", in_f(p - three(m.d().xpos + 3 * f))), u_f = exact.axis("f", in_f(u));
  exact.add(joints::hinge("own", exact.id("a"), p_a, u_a, exact.id("f"), p_f, u_f));
  for (int step = 0; step < 60; ++step) {
    push(m, m.d(), step);
    if (step < 3) {  // velocities are not on the constraints yet
      exact.step();
      continue;
    }
    mj_copyData(at.get(), &m.m(), &m.d());
    mj_fwdPosition(&m.m(), at.get());
    mj_fwdVelocity(&m.m(), at.get());
    Core core(m);
    add_constraints(m, *at, core);
    core.system.add(joints::hinge("own", core.id(a), p_a, u_a, core.id(f), p_f, u_f));
    for (int i = 1; i < m.m().nbody; ++i) {
      const Vector3d force = three(at->xfrc_applied + 6 * i), moment = three(at->xfrc_applied + 6 * i + 3);
      core.system.add(Force("push " + std::to_string(i), {core.id(i)}, [=](ForceFrame& on) {
        on.add_force(0, force);
        on.add_moment(0, moment);
      }));
    }
    Dynamics dynamics(core.system);
    const State state = core.state(m, *at);
    ASSERT_EQ(dynamics.evaluate(state), Status::ok) << dynamics.reason();
    std::vector<Reaction> expected;
    dynamics.reactions(state, expected);
    exact.step();
    for (const Reaction& e : expected) {
      const std::string what = e.name + ", step " + std::to_string(step);
      if (e.name[0] == 'j') {
        expect_near(exact.joint_wrench(e.name), e.on_b, what);
        continue;
      }
      const Reaction& is = exact.find(e.name).reaction();
      EXPECT_TRUE(is.determined);
      expect_near(is.on_a, e.on_a, what + ", first body");
      expect_near(is.on_b, e.on_b, what + ", second body");
    }
    if (HasFailure()) return;
  }
}

// MuJoCo's sensors contain the mean forces of the step, the wrench through a joint those where it began. Both are the
// same to the first order of the step.
TEST(ForceSensors, AreTheWrenchesThroughJoints) {
  const auto difference = [](double dt) {
    const Model m{std::string(scene)};
    m.m().opt.timestep = dt;
    mujoco::Solver exact(m.m(), m.d());
    double largest = 0, size = 0;
    for (int step = 0; step < static_cast<int>(0.5 / dt); ++step) {
      exact.step();
      for (int k = 0; k < 4; ++k) {
        const std::string letter(1, static_cast<char>('a' + k));
        const int site = m.site("s" + letter);
        const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(m.d().site_xmat + 9 * site);
        const mjtNum* const of = m.d().sensordata + 6 * k;
        const Wrench through = exact.joint_wrench("j" + letter).about(three(m.d().site_xpos + 3 * site));
        size = std::max(size, through.force.norm());
        largest = std::max(largest, (R * three(of) - through.force).norm());
        // MuJoCo 2.2.2 takes the rows of rotation of a weld for its moment, which is half of them.
        if (mjVERSION_HEADER < 300 && k == 0) continue;
        largest = std::max(largest, (R * three(of + 3) - through.moment).norm());
      }
    }
    EXPECT_GT(size, 5);
    return largest / size;
  };
  const double coarse = difference(1e-3), fine = difference(5e-4);
  EXPECT_LT(fine, 0.02);
  EXPECT_NEAR(coarse / fine, 2, 0.4) << coarse << " and " << fine;
}

// At rest both are the same to round-off.
TEST(ForceSensors, AtRestAreTheWrenchesThroughJoints) {
  const Model m(std::string(R"(<mujoco><option timestep="0.002"/><worldbody>
    <body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0"/><geom type="box" pos="0.1 0 0" size="0.1 0.02 0.02" mass="2"/>
      <site name="sa" euler="20 30 0"/></body>
    <body name="d" pos="0.2 0.05 1.2"><joint name="jd" axis="0 1 0"/><geom type="box" pos="0 0 -0.1" size="0.02 0.02 0.1" mass="1"/>
      <site name="sd" euler="0 30 0"/></body></worldbody>
    <equality><connect body1="a" body2="d" anchor="0.2 0 0"/></equality>
    <sensor><force site="sa"/><torque site="sa"/><force site="sd"/><torque site="sd"/></sensor></mujoco>)"));
  m.m().dof_damping[0] = 3;
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 10000; ++i) exact.step();
  for (int k = 0; k < 2; ++k) {
    const std::string letter(1, k == 0 ? 'a' : 'd');
    const int site = m.site("s" + letter);
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(m.d().site_xmat + 9 * site);
    const Wrench through = exact.joint_wrench("j" + letter).about(three(m.d().site_xpos + 3 * site));
    EXPECT_LT((R * three(m.d().sensordata + 6 * k) - through.force).norm(), scaled(1e-9)) << letter;
    EXPECT_LT((R * three(m.d().sensordata + 6 * k + 3) - through.moment).norm(), scaled(1e-9)) << letter;
    EXPECT_GT(through.force.norm(), 5);
  }
}

}  // namespace
}  // namespace linchpin::test::core_answer_test
