// Without an exact constraint step() is mj_step(), bit for bit. A solver that leaves changes nothing of what follows.
#include "model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace linchpin::test::plain_step_test {
namespace {

/// Bodies that fall on each other, actuators with activations, springs, and sensors. `more` goes into <mujoco>.
std::string scene(const std::string& more = "", const std::string& option = "") {
  return R"(<mujoco><option timestep="0.002" )" + option + R"(/>
<worldbody>
  <geom type="plane" size="5 5 1"/>
  <body name="arm" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.1" range="-90 90" limited="true"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1"/><site name="s" pos="0.2 0 0"/>
    <body name="forearm" pos="0.4 0 0"><joint name="elbow" axis="0 1 0" stiffness="2" frictionloss="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="0.7"/><site name="tip" pos="0.4 0 0"/></body></body>
  <body name="box" pos="0.1 0 0.4" euler="20 30 0"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2"/><site name="c"/></body>
  <body name="ball" pos="0.15 0.05 0.8"><freejoint/><geom type="sphere" size="0.08" mass="1"/></body>
</worldbody>
<actuator>
  <position name="a" joint="elbow" kp="5"/>
  <general joint="shoulder" dyntype="filter" dynprm="0.05" gainprm="3" biastype="none"/>
</actuator>
<sensor><accelerometer site="s"/><force site="s"/><torque site="s"/><touch site="c"/><jointpos joint="elbow"/>
  <framelinacc objtype="site" objname="tip"/><actuatorfrc actuator="a"/></sensor>)" +
         more + "</mujoco>";
}
bool same(const mjtNum* a, const mjtNum* b, int n) {
  return std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(mjtNum)) == 0;
}
void expect_same(const Model& m, const mjData& a, const mjData& b, int step) {
  ASSERT_TRUE(same(a.qpos, b.qpos, m.m().nq)) << "qpos, step " << step;
  ASSERT_TRUE(same(a.qvel, b.qvel, m.m().nv)) << "qvel, step " << step;
  ASSERT_TRUE(same(a.qacc, b.qacc, m.m().nv)) << "qacc, step " << step;
  ASSERT_TRUE(same(a.act, b.act, m.m().na)) << "act, step " << step;
  ASSERT_TRUE(same(a.sensordata, b.sensordata, m.m().nsensordata)) << "sensors, step " << step;
  ASSERT_TRUE(same(a.qfrc_constraint, b.qfrc_constraint, m.m().nv)) << "constraint forces, step " << step;
}
void control(mjData& d, int i) {
  d.ctrl[0] = std::sin(0.01 * i);
  d.ctrl[1] = std::cos(0.02 * i);
}

void expect_mj_step(const Model& m, mujoco::Solver& exact) {
  const DataPointer other(mj_copyData(nullptr, &m.m(), &m.d()));
  bool touched = false;
  for (int i = 0; i < 1000; ++i) {
    control(m.d(), i);
    control(*other, i);
    exact.step();
    mj_step(&m.m(), other.get());
    expect_same(m, m.d(), *other, i);
    if (testing::Test::HasFatalFailure()) return;
    touched = touched || m.d().ncon > 0;
  }
  EXPECT_TRUE(touched);
}

const char* const equality = R"(<equality><connect name="loop" body1="box" body2="ball" anchor="0 0 0.2"/></equality>)";

TEST(PlainStep, OfAModelWithoutEqualitiesIsThatOfMujoco) {
  for (const char* option :
       {"", "integrator='implicit'", "cone='elliptic'", "solver='PGS'", "solver='CG'", "jacobian='sparse'"}) {
    SCOPED_TRACE(option);
    const Model m(scene("", option));
    mujoco::Solver exact(m.m(), m.d());
    expect_mj_step(m, exact);
  }
}

TEST(PlainStep, OfEqualitiesThatAreSwitchedOffIsThatOfMujoco) {
  const Model m(scene(equality));
  set_active(m.m(), m.d(), 0, false);
  mujoco::Solver exact(m.m(), m.d());
  expect_mj_step(m, exact);
}

TEST(PlainStep, OfEqualitiesThatStayWithMujocoIsThatOfMujoco) {
  const Model m(scene(equality));
  mujoco::Options options;
  options.equalities = false;
  mujoco::Solver exact(m.m(), m.d(), options);
  expect_mj_step(m, exact);
}

TEST(PlainStep, AfterTheConstraintsAreGoneIsThatOfMujoco) {
  const Model m(scene(equality));
  mujoco::Solver exact(m.m(), m.d());
  mujoco::Handle own = exact.constrain("own", {"box"}, [](const auto& s) { return s[0].position().x - 0.1; });
  for (int i = 0; i < 50; ++i) exact.step();
  own.remove();
  set_active(m.m(), m.d(), 0, false);
  expect_mj_step(m, exact);
}

TEST(PlainStep, OfAJointWithAHandleIsThatOfMujoco) {
  const Model m(scene());
  mujoco::Solver exact(m.m(), m.d());
  (void)exact.joint("elbow");
  expect_mj_step(m, exact);
}

// ---- leaving ----

DataPointer fresh_with_state_of(const Model& m, const mjData& from) {
  DataPointer d(mj_makeData(&m.m()));
#if mjVERSION_HEADER >= 300
  std::vector<mjtNum> state(static_cast<std::size_t>(mj_stateSize(&m.m(), mjSTATE_INTEGRATION)));
  mj_getState(&m.m(), &from, state.data(), mjSTATE_INTEGRATION);
  mj_setState(&m.m(), d.get(), state.data(), mjSTATE_INTEGRATION);
#else
  d->time = from.time;
  std::copy_n(from.qpos, m.m().nq, d->qpos);
  std::copy_n(from.qvel, m.m().nv, d->qvel);
  std::copy_n(from.act, m.m().na, d->act);
  std::copy_n(from.qacc_warmstart, m.m().nv, d->qacc_warmstart);
  std::copy_n(from.ctrl, m.m().nu, d->ctrl);
  std::copy_n(from.qfrc_applied, m.m().nv, d->qfrc_applied);
  std::copy_n(from.xfrc_applied, 6 * m.m().nbody, d->xfrc_applied);
#endif
  return d;
}

TEST(Leaving, LeavesNothingBehind) {
  for (const char* option : {"", "integrator='implicit'", "cone='elliptic'", "jacobian='sparse'"})
    for (const int steps : {1, 2, 7, 60, 200}) {
      SCOPED_TRACE(std::string(option) + " after " + std::to_string(steps));
      const Model m(scene(equality, option));
      const ModelPointer before(mj_copyModel(nullptr, &m.m()));
      {
        mujoco::Solver exact(m.m(), m.d());
        exact.constrain("own", {"box", "ball"},
                        [](const auto& s) { return s[0].position().y + s[1].position().y - 0.05; });
        for (int i = 0; i < steps; ++i) {
          control(m.d(), i);
          exact.step();
        }
      }
      EXPECT_EQ(std::memcmp(&m.m().opt, &before->opt, sizeof(mjOption)), 0);
      const DataPointer other = fresh_with_state_of(m, m.d());
      for (int i = 0; i < 100; ++i) {
        control(m.d(), i);
        control(*other, i);
        mj_step(&m.m(), &m.d());
        mj_step(&m.m(), other.get());
        expect_same(m, m.d(), *other, i);
        if (HasFatalFailure()) return;
      }
    }
}

}  // namespace
}  // namespace linchpin::test::plain_step_test
