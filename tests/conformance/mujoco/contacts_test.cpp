// Contacts and limits of MuJoCo at rest on an exact mechanism: their depth is that of MuJoCo's softness, whatever
// damping the integrator takes implicitly and whatever friction laws hold.
#include "model.h"

#include "tolerances.h"

#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <string>

namespace linchpin::test::contacts_test {
namespace {

/// Two vertical sliders that move as one. The first is held up by a floor, or by the end of its range.
std::string sliders(const std::string& integrator, double damping, bool floor) {
  return "<mujoco><option timestep='0.002' integrator='" + integrator + "'/><worldbody>" +
         (floor ? "<geom type='plane' size='1 1 1'/>" : "") +
         "<body pos='0 0 0.1'><joint name='a' type='slide' axis='0 0 1'" +
         (floor ? "" : " limited='true' range='0 1'") +
         "/><geom size='0.1' mass='1'/></body><body pos='1 0 1'><joint name='b' type='slide' axis='0 0 1' damping='" +
         std::to_string(damping) +
         "'/><geom size='0.1' mass='1'/></body></worldbody>"
         "<equality><joint joint1='a' joint2='b'/></equality></mujoco>";
}

/// How deep the slider is at rest [m].
double depth(const std::string& integrator, double damping, bool floor) {
  const Model m(sliders(integrator, damping, floor));
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 20000; ++i) exact.step();
  EXPECT_NEAR(m.d().qvel[0], 0, scaled(1e-9));
  return -m.d().qpos[0];
}

TEST(DepthAtRest, DoesNotDependOnImplicitDamping) {
  for (const bool floor : {true, false}) {
    const double without = depth("Euler", 0, floor);
    EXPECT_GT(without, 1e-4);
    for (const char* integrator : {"Euler", "implicit"})
      for (const double damping : {10.0, 1000.0})
        EXPECT_NEAR(depth(integrator, damping, floor), without, 1e-9) << integrator << " " << damping << " " << floor;
  }
}

/// A leg that stands on the floor. Its two links are held by friction in the pins, or by equalities.
std::string leg(bool equalities) {
  return std::string(R"(<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 1"/>
    <body name="trunk" pos="0 0 0.45"><joint name="slide" type="slide" axis="0 0 1"/><geom size="0.1" mass="2"/>
      <body name="thigh"><joint name="hip" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.15 0 -0.2" size="0.02" mass="0.3"/>
        <body name="shank" pos="0.15 0 -0.2"><joint name="knee" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 -0.15 0 -0.2" size="0.02" mass="0.2"/></body></body></body>
    <body name="other" pos="2 0 0"><joint name="c" type="slide" axis="1 0 0"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
    <body name="third" pos="3 0 0"><joint name="d" type="slide" axis="1 0 0"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  </worldbody><equality><joint joint1="c" joint2="d"/>)") +
         (equalities ? "<joint joint1='hip'/><joint joint1='knee'/>" : "") + "</equality></mujoco>";
}

double height_at_rest(bool laws) {
  const Model m(leg(!laws));
  mujoco::Solver exact(m.m(), m.d());
  if (laws)
    for (const char* joint : {"hip", "knee"})
      exact.joint(joint).law(linchpin::laws::hinge_friction({.mu_static = 0.5, .mu_kinetic = 0.5, .pin_radius = 0.4}));
  for (int i = 0; i < 3000; ++i) exact.step();
  EXPECT_NEAR(m.d().qvel[0], 0, scaled(1e-8));
  EXPECT_NEAR(m.d().qpos[m.qpos("knee")], 0, 1e-9);
  EXPECT_EQ(exact.summary().find("did not agree"), std::string::npos) << exact.summary();
  return m.d().qpos[0];
}

TEST(DepthAtRest, IsThatOfARigidLegWherePinsStick) { EXPECT_NEAR(height_at_rest(true), height_at_rest(false), 1e-8); }

}  // namespace
}  // namespace linchpin::test::contacts_test
